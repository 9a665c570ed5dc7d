/* What a decoder that was taken over would try: a library that is preloaded into a stage and acts when
 * the decoder opens its input, that is, inside the sandbox. Each attack is a row of the table below; it
 * prints "ATTACK name outcome", where the outcome is "through" or the error with which it was refused.
 * An attack does no harm where it gets through, so that it can be run without a sandbox, too.
 *
 *   CORTANA_ATTACK          "table"; "request": all rows without a broker, when an HTTP request is made; or
 *                           one of the ways below to break the broker's protocol
 *   CORTANA_ATTACK_FILE     a file outside of scratch; …_SECRET one that may not be read
 *   CORTANA_ATTACK_PORT     where somebody listens on 127.0.0.1; …_SOCKET a Unix socket
 *   CORTANA_ATTACK_STORE    the directory store; …_OWN the job's video, …_OTHER another one
 *   CORTANA_ATTACK_WORD     a secret of the worker's environment, written backwards
 *   CORTANA_ATTACK_OLD      this kernel has no Landlock
 */
#include "common/broker/wire.h"

#include <arpa/inet.h>
#include <dirent.h>
#include <dlfcn.h>
#include <fcntl.h>
#include <linux/keyctl.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/msg.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/resource.h>
#include <sys/sem.h>
#include <sys/shm.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <sys/xattr.h>

typedef int attack(void); /* 0: it got through; else an errno value */

static const char *given(const char *name)
{
    const char *value = getenv(name);
    return value ? value : "/nowhere";
}

static int outcome(long result)
{
    return result >= 0 ? 0 : errno;
}

/* ---- other files ----------------------------------------------------------------------------- */

#define TARGET given("CORTANA_ATTACK_FILE")

static int read_some(const char *path)
{
    cv_auto_fd int fd = open(path, O_RDONLY | O_CLOEXEC);
    char byte;
    return fd < 0 ? errno : outcome(read(fd, &byte, 1));
}

static int list(const char *path)
{
    DIR *stream = opendir(path);
    if (!stream) {
        return errno;
    }
    closedir(stream);
    return 0;
}

static int open_target(int flags)
{
    cv_auto_fd int fd = open(TARGET, flags | O_CLOEXEC, 0600);
    return outcome(fd);
}

static const char *of_parent(char path[64], const char *name)
{
    (void)snprintf(path, 64, "/proc/%d/%s", (int)getppid(), name);
    return path;
}

static const char *in_scratch(char path[4096], const char *name)
{
    (void)snprintf(path, 4096, "%s/%s", given("TMPDIR"), name);
    return path;
}

static int chmod_suid(void)
{
    return outcome(chmod(TARGET, 04755));
}
static int fchmodat_suid(void)
{
    return outcome(fchmodat(AT_FDCWD, TARGET, 04755, 0));
}
static int chown_file(void)
{
    return outcome(chown(TARGET, getuid(), getgid()));
}
static int utimes_file(void)
{
    return outcome(utimensat(AT_FDCWD, TARGET, NULL, 0));
}
static int setxattr_file(void)
{
    return outcome(setxattr(TARGET, "user.x", "y", 1, 0));
}
static int truncate_file(void)
{
    return outcome(truncate(TARGET, 0));
}
static int write_file(void)
{
    return open_target(O_WRONLY);
}
static int empty_file(void)
{
    return open_target(O_RDWR | O_TRUNC);
}
static int append_file(void)
{
    return open_target(O_WRONLY | O_APPEND);
}
static int read_secret(void)
{
    return read_some(given("CORTANA_ATTACK_SECRET"));
}
static int read_passwd(void)
{
    return read_some("/etc/passwd");
}
static int read_shadow(void)
{
    return read_some("/etc/shadow");
}
static int read_hostname(void)
{
    return read_some("/etc/hostname");
}
static int list_root(void)
{
    return list("/");
}
static int list_etc(void)
{
    return list("/etc");
}
static int list_proc(void)
{
    return list("/proc");
}
static int list_home(void)
{
    return list("/root");
}
static int list_store(void)
{
    return list(given("CORTANA_ATTACK_STORE"));
}
static int read_init(void)
{
    return read_some("/proc/1/cmdline");
}

static int fchmod_scratch(void)
{
    char path[4096];
    cv_auto_fd int fd = open(in_scratch(path, "own"), O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
    return outcome(fchmod(fd, 04755));
}

static int link_out(void)
{
    char path[4096];
    return outcome(symlink("/etc/passwd", in_scratch(path, "symlink")));
}

static int link_in(void)
{
    char path[4096];
    return outcome(link(TARGET, in_scratch(path, "link")));
}

static int make_fifo(void)
{
    char path[4096];
    return outcome(mkfifo(in_scratch(path, "fifo"), 0600));
}

static int read_parent_command(void)
{
    char path[64];
    return read_some(of_parent(path, "cmdline"));
}

static int read_parent_environment(void)
{
    char path[64];
    return read_some(of_parent(path, "environ"));
}

static int list_parent_files(void)
{
    char path[64];
    return list(of_parent(path, "fd"));
}

static int write_store(void)
{
    char path[4096];
    (void)snprintf(path, sizeof(path), "%s/attack", given("CORTANA_ATTACK_STORE"));
    cv_auto_fd int fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
    return outcome(fd);
}

/* ---- other processes ------------------------------------------------------------------------- */

static int prlimit_parent(void)
{
    struct rlimit none = {0, 0};
    return outcome(prlimit(getppid(), RLIMIT_CORE, &none, NULL));
}

static int ptrace_parent(void)
{
    int result = outcome(ptrace(PTRACE_SEIZE, getppid(), NULL, NULL));
    (void)ptrace(PTRACE_DETACH, getppid(), NULL, NULL);
    return result;
}

static int read_parent_memory(void)
{
    char byte;
    struct iovec own = {&byte, 1}, other = {(void *)0x400000, 1};
    int result = outcome(process_vm_readv(getppid(), &own, 1, &other, 1, 0));
    return result == EFAULT ? 0 : result; /* an address of nothing, and nobody minded */
}

static int fork_process(void)
{
    pid_t pid = fork();
    if (pid == 0) {
        _exit(0);
    }
    int result = outcome(pid);
    if (pid > 0) {
        (void)waitpid(pid, NULL, 0);
    }
    return result;
}

static int clone_process(void)
{
    long pid = syscall(SYS_clone, SIGCHLD, NULL, NULL, NULL, 0);
    if (pid == 0) {
        _exit(0);
    }
    int result = outcome(pid);
    if (pid > 0) {
        (void)waitpid((pid_t)pid, NULL, 0);
    }
    return result;
}

static int execute(void)
{
    static char path[] = "/nowhere/to/be/found";
    char *const arguments[] = {path, NULL};
    (void)execve(path, arguments, environ);
    return errno == ENOENT ? 0 : errno; /* only the program was missing */
}

static int set_owner_parent(void)
{
    int ends[2];
    return pipe(ends) ? errno : outcome(fcntl(ends[0], F_SETOWN, getppid()));
}

static int set_signal(void)
{
    int ends[2];
    return pipe(ends) ? errno : outcome(fcntl(ends[0], F_SETSIG, SIGKILL));
}

static int type_into_terminal(unsigned long request)
{
    char letter = 'x';
    int result = outcome(syscall(SYS_ioctl, STDIN_FILENO, request, &letter));
    return result == ENOTTY || result == EIO ? 0 : result; /* only the terminal was missing */
}

static int tiocsti(void)
{
    return type_into_terminal(TIOCSTI);
}
static int tiocsti_64(void)
{
    return type_into_terminal(TIOCSTI | 1UL << 40);
}
static int tioclinux(void)
{
    return type_into_terminal(TIOCLINUX);
}
static int kill_parent(void)
{
    return outcome(kill(getppid(), 0));
}
static int kill_all(void)
{
    return outcome(kill(-1, 0));
}
static int tgkill_parent(void)
{
    return outcome(syscall(SYS_tgkill, getppid(), getppid(), 0));
}
static int pidfd_parent(void)
{
    return outcome(syscall(SYS_pidfd_open, getppid(), 0));
}
static int pin_parent(void)
{
    cpu_set_t set;
    (void)sched_getaffinity(0, sizeof(set), &set);
    return outcome(sched_setaffinity(getppid(), sizeof(set), &set));
}
static int renice_parent(void)
{
    return outcome(setpriority(PRIO_PROCESS, (id_t)getppid(), 0));
}
static int outlive_parent(void)
{
    return outcome(prctl(PR_SET_PDEATHSIG, 0, 0, 0, 0));
}

/* ---- memory, threads ------------------------------------------------------------------------- */

static int shared_memory(void)
{
    int id = shmget(IPC_PRIVATE, 4096, 0600);
    int result = outcome(id);
    if (id >= 0) {
        (void)shmctl(id, IPC_RMID, NULL);
    }
    return result;
}

static int semaphores(void)
{
    int id = semget(IPC_PRIVATE, 1, 0600);
    int result = outcome(id);
    if (id >= 0) {
        (void)semctl(id, 0, IPC_RMID);
    }
    return result;
}

static int messages(void)
{
    int id = msgget(IPC_PRIVATE, 0600);
    int result = outcome(id);
    if (id >= 0) {
        (void)msgctl(id, IPC_RMID, NULL);
    }
    return result;
}

static int memory_file(void)
{
    cv_auto_fd int fd = memfd_create("x", 0);
    return outcome(fd);
}

static void *wait_for_release(void *opaque)
{
    pthread_mutex_t *gate = opaque;
    (void)pthread_mutex_lock(gate);
    (void)pthread_mutex_unlock(gate);
    return NULL;
}

static int many_threads(void)
{
    enum { MANY = 3000 };
    static pthread_t threads[MANY];
    pthread_mutex_t gate = PTHREAD_MUTEX_INITIALIZER;
    pthread_attr_t small;
    int count = 0, result = 0;
    (void)pthread_attr_init(&small);
    (void)pthread_attr_setstacksize(&small, 64 << 10);
    (void)pthread_mutex_lock(&gate);
    while (count < MANY && result == 0) {
        result = pthread_create(&threads[count], &small, wait_for_release, &gate);
        count += result == 0;
    }
    (void)pthread_mutex_unlock(&gate);
    for (int i = 0; i < count; i++) {
        (void)pthread_join(threads[i], NULL);
    }
    return result;
}

/* ---- the kernel ------------------------------------------------------------------------------ */

static int new_namespace(void)
{
    return outcome(unshare(CLONE_NEWUSER));
}
static int mount_something(void)
{
    return outcome(mount("none", "/tmp", "tmpfs", 0, NULL));
}
static int use_bpf(void)
{
    int result = outcome(syscall(SYS_bpf, 0, NULL, 0));
    return result == EINVAL || result == EFAULT ? 0 : result;
}
static int use_io_uring(void)
{
    int result = outcome(syscall(SYS_io_uring_setup, 1, NULL));
    return result == EFAULT ? 0 : result;
}
static int use_userfaultfd(void)
{
    return outcome(syscall(SYS_userfaultfd, 0));
}
static int use_keys(void)
{
    return outcome(syscall(SYS_keyctl, KEYCTL_GET_KEYRING_ID, KEY_SPEC_SESSION_KEYRING, 0));
}
static int change_user(void)
{
    return outcome(setresuid(getuid(), getuid(), getuid()));
}
static int change_personality(void)
{
    return outcome(syscall(SYS_personality, 0xffffffffUL));
}

/* ---- the network ----------------------------------------------------------------------------- */

static int make_socket(int family, int type)
{
    cv_auto_fd int fd = socket(family, type | SOCK_CLOEXEC, 0);
    return outcome(fd);
}

static int socket_inet(void)
{
    return make_socket(AF_INET, SOCK_STREAM);
}
static int socket_udp(void)
{
    return make_socket(AF_INET, SOCK_DGRAM);
}
static int socket_inet6(void)
{
    return make_socket(AF_INET6, SOCK_STREAM);
}
static int socket_unix(void)
{
    return make_socket(AF_UNIX, SOCK_STREAM);
}
static int socket_netlink(void)
{
    return make_socket(AF_NETLINK, SOCK_RAW);
}

static struct sockaddr_in listener(void)
{
    return (struct sockaddr_in){
        .sin_family = AF_INET,
        .sin_port = htons((uint16_t)strtol(given("CORTANA_ATTACK_PORT"), NULL, 10)),
        .sin_addr.s_addr = htonl(INADDR_LOOPBACK),
    };
}

static int connect_by(int protocol)
{
    struct sockaddr_in address = listener();
    cv_auto_fd int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, protocol);
    return fd < 0 ? errno : outcome(connect(fd, (void *)&address, sizeof(address)));
}

static int connect_port(void)
{
    return connect_by(0);
}
static int connect_multipath(void)
{
    return connect_by(IPPROTO_MPTCP);
}
static int connect_fast(void)
{
    struct sockaddr_in address = listener();
    cv_auto_fd int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    return fd < 0 ? errno
                  : outcome(sendto(fd, "x", 1, MSG_FASTOPEN, (void *)&address, sizeof(address)));
}
static int bind_port(void)
{
    struct sockaddr_in address = {.sin_family = AF_INET};
    cv_auto_fd int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    return fd < 0 ? errno : outcome(bind(fd, (void *)&address, sizeof(address)));
}
static int listen_anywhere(void)
{
    cv_auto_fd int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    return fd < 0 ? errno : outcome(listen(fd, 1));
}

static int connect_unix(void)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    (void)snprintf(address.sun_path, sizeof(address.sun_path), "%s",
                   given("CORTANA_ATTACK_SOCKET"));
    cv_auto_fd int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    return fd < 0 ? errno : outcome(connect(fd, (void *)&address, sizeof(address)));
}

/* ---- secrets --------------------------------------------------------------------------------- */

/* Looks for the secret in all memory of this process. */
static int find_secret(void)
{
    const char *backwards = given("CORTANA_ATTACK_WORD");
    char word[128];
    size_t length = strlen(backwards);
    for (size_t i = 0; i < length; i++) {
        word[i] = backwards[length - 1 - i];
    }
    cv_auto_file FILE *maps = fopen("/proc/self/maps", "re");
    cv_auto_fd int memory = open("/proc/self/mem", O_RDONLY | O_CLOEXEC);
    char line[512];
    bool found = false;
    while (maps && fgets(line, sizeof(line), maps)) {
        unsigned long from = 0, to = 0;
        char rights[5] = "";
        if (sscanf(line, "%lx-%lx %4s", &from, &to, rights) != 3 || rights[1] != 'w' ||
            to - from > (64UL << 20)) {
            continue;
        }
        cv_auto_free char *copy = malloc(to - from);
        ssize_t count = copy ? pread(memory, copy, to - from, (off_t)from) : 0;
        const char *at = copy, *end = copy + (count > 0 ? count : 0);
        for (; at && at < end && (at = memmem(at, (size_t)(end - at), word, length)); at++) {
            /* Not our own copies of it. */
            unsigned long place = from + (unsigned long)(at - copy);
            found |= place - (unsigned long)word >= sizeof(word) && place < from + (to - from) &&
                     !(place >= (unsigned long)copy && place < (unsigned long)copy + (to - from));
        }
    }
    explicit_bzero(word, sizeof(word));
    return found ? 0 : EACCES;
}

static int find_database(void)
{
    return getenv("DATABASE_URL") || getenv("STORE_URL") || getenv("S3_SECRET_ACCESS_KEY") ? 0
                                                                                           : EACCES;
}

/* ---- the broker ------------------------------------------------------------------------------ */

/* The first socket behind the standard descriptors. */
static int broker_fd(void)
{
    struct stat status;
    for (int fd = 3; fd < 64; fd++) {
        if (fstat(fd, &status) == 0 && S_ISSOCK(status.st_mode)) {
            return fd;
        }
    }
    return -1;
}

static int receive_reply(int fd)
{
    struct cv_wire_reply reply;
    char text[8192];
    cv_auto_fd int object = -1;
    if (cv_wire_receive(fd, &reply, sizeof(reply), &object) != 1) {
        return EPIPE;
    }
    for (size_t left = reply.text_length + reply.data_length; left > 0;) {
        size_t step = left < sizeof(text) ? left : sizeof(text);
        if (cv_wire_receive(fd, text, step, NULL) != 1) {
            return EPIPE;
        }
        left -= step;
    }
    return reply.result < 0 ? EACCES : 0;
}

/* Asks for something; '@' in the text stands for the other video's id, '#' for the job's own. */
static int ask(enum cv_wire_operation operation, const char *form, const char *data, int file)
{
    cv_auto(cv_buffer_deinit) struct cv_buffer text = CV_BUFFER_INIT;
    for (const char *c = form; *c; c++) {
        const char *id = *c == '@' ? given("CORTANA_ATTACK_OTHER") : given("CORTANA_ATTACK_OWN");
        cv_buffer_append(&text, *c == '@' || *c == '#' ? id : c,
                         *c == '@' || *c == '#' ? strlen(id) : 1);
    }
    struct cv_wire_request head = {
        .magic = CV_WIRE_MAGIC,
        .operation = operation,
        .handle = 12, /* not one that the stage has opened */
        .length = 1000,
        .data_length = data ? strlen(data) : 0,
        .text_length = (uint32_t)text.length,
    };
    struct iovec parts[] = {
        {&head, sizeof(head)}, {text.data, head.text_length}, {(void *)data, head.data_length}};
    int fd = broker_fd();
    if (fd < 0) {
        return ENOTSOCK;
    }
    return cv_wire_send(fd, parts, CV_COUNT(parts), file) ? EPIPE : receive_reply(fd);
}

#define ORIGINAL "{\"key\": \"videos/original/@/master.mp4\"}"
static int broker_head(void)
{
    return ask(CV_WIRE_HEAD, ORIGINAL, NULL, -1);
}
static int broker_get(void)
{
    return ask(CV_WIRE_GET, ORIGINAL, NULL, -1);
}
static int broker_open(void)
{
    return ask(CV_WIRE_OPEN, ORIGINAL, NULL, -1);
}
static int broker_delete(void)
{
    return ask(CV_WIRE_DELETE, ORIGINAL, NULL, -1);
}
static int broker_put(void)
{
    return ask(CV_WIRE_PUT, "{\"key\": \"frames/@/0.jpg\"}", "x", -1);
}
static int broker_put_begin(void)
{
    return ask(CV_WIRE_PUT_BEGIN, "{\"key\": \"frames/@/0.jpg\"}", "x", -1);
}
static int broker_climb(void)
{
    return ask(CV_WIRE_OPEN, "{\"key\": \"frames/@/../../videos/original/@/master.mp4\"}", NULL,
               -1);
}
static int broker_list_all(void)
{
    return ask(CV_WIRE_LIST, "{\"prefix\": \"\"}", NULL, -1);
}
static int broker_list_other(void)
{
    return ask(CV_WIRE_LIST, "{\"prefix\": \"frames/@/\"}", NULL, -1);
}
static int broker_delete_many(void)
{
    return ask(CV_WIRE_DELETE_MANY, "{\"keys\": [\"frames/@/0.jpg\", \"frames/@/1.jpg\"]}", NULL,
               -1);
}
static int broker_overwrite_original(void)
{
    return ask(CV_WIRE_PUT, "{\"key\": \"videos/original/#/master.mp4\"}", "x", -1);
}
static int broker_put_process_file(void)
{
    cv_auto_fd int fd = open("/proc/self/maps", O_RDONLY | O_CLOEXEC);
    return ask(CV_WIRE_PUT, "{\"key\": \"frames/#/attack.jpg\"}", NULL, fd);
}
static int broker_read_nothing(void)
{
    return ask(CV_WIRE_READ, "{}", NULL, -1);
}
static int broker_end_nothing(void)
{
    return ask(CV_WIRE_PUT_END, "{}", NULL, -1);
}

/* ---- the table ------------------------------------------------------------------------------- */

static const struct {
    const char *name;
    attack *run;
} attacks[] = {
    {"chmod", chmod_suid},
    {"fchmodat", fchmodat_suid},
    {"fchmod in scratch", fchmod_scratch},
    {"chown", chown_file},
    {"utimes", utimes_file},
    {"setxattr", setxattr_file},
    {"truncate", truncate_file},
    {"write", write_file},
    {"open and empty", empty_file},
    {"append", append_file},
    {"symbolic link", link_out},
    {"hard link", link_in},
    {"fifo", make_fifo},
    {"read a secret", read_secret},
    {"read /etc/passwd", read_passwd},
    {"read /etc/shadow", read_shadow},
    {"read /etc/hostname", read_hostname},
    {"list /", list_root},
    {"list /etc", list_etc},
    {"list /proc", list_proc},
    {"list /root", list_home},
    {"list the store", list_store},
    {"write into the store", write_store},
    {"command line of init", read_init},
    {"command line of the parent", read_parent_command},
    {"environment of the parent", read_parent_environment},
    {"files of the parent", list_parent_files},
    {"prlimit of the parent", prlimit_parent},
    {"ptrace", ptrace_parent},
    {"process_vm_readv", read_parent_memory},
    {"fork", fork_process},
    {"clone", clone_process},
    {"execve", execute},
    {"F_SETOWN", set_owner_parent},
    {"F_SETSIG", set_signal},
    {"TIOCSTI", tiocsti},
    {"TIOCSTI in 64 bits", tiocsti_64},
    {"TIOCLINUX", tioclinux},
    {"kill the parent", kill_parent},
    {"kill all", kill_all},
    {"tgkill the parent", tgkill_parent},
    {"pidfd of the parent", pidfd_parent},
    {"affinity of the parent", pin_parent},
    {"priority of the parent", renice_parent},
    {"outlive the parent", outlive_parent},
    {"shmget", shared_memory},
    {"semget", semaphores},
    {"msgget", messages},
    {"memfd_create", memory_file},
    {"user namespace", new_namespace},
    {"mount", mount_something},
    {"bpf", use_bpf},
    {"io_uring", use_io_uring},
    {"userfaultfd", use_userfaultfd},
    {"keyctl", use_keys},
    {"setresuid", change_user},
    {"personality", change_personality},
    {"socket inet", socket_inet},
    {"socket udp", socket_udp},
    {"socket inet6", socket_inet6},
    {"socket unix", socket_unix},
    {"socket netlink", socket_netlink},
    {"connect to a port", connect_port},
    {"connect by Multipath TCP", connect_multipath},
    {"connect by TCP Fast Open", connect_fast},
    {"bind a port", bind_port},
    {"listen", listen_anywhere},
    {"connect to a Unix socket", connect_unix},
    {"variables of the worker", find_database},
    {"secret in memory", find_secret},
    {"broker: head", broker_head},
    {"broker: get", broker_get},
    {"broker: open", broker_open},
    {"broker: delete", broker_delete},
    {"broker: put", broker_put},
    {"broker: begin a put", broker_put_begin},
    {"broker: climb", broker_climb},
    {"broker: list all", broker_list_all},
    {"broker: list another", broker_list_other},
    {"broker: delete many", broker_delete_many},
    {"broker: overwrite an original", broker_overwrite_original},
    {"broker: put a file of /proc", broker_put_process_file},
    {"broker: read nothing", broker_read_nothing},
    {"broker: end nothing", broker_end_nothing},
    {"threads", many_threads},
};

/* Every row, or, where the stage has a connection to the database in the broker's place, all others. */
static void run_table(bool has_broker)
{
    for (size_t i = 0; i < CV_COUNT(attacks); i++) {
        if (!has_broker && strncmp(attacks[i].name, "broker", strlen("broker")) == 0) {
            continue;
        }
        int result = attacks[i].run();
        (void)fprintf(stderr, "ATTACK %s: %s\n", attacks[i].name,
                      result ? strerrorname_np(result) : "through");
    }
}

/* ---- garbage for the broker ------------------------------------------------------------------ */

static void send_all(const void *data, size_t size, int file)
{
    struct iovec part = {.iov_base = (void *)data, .iov_len = size};
    int result = cv_wire_send(broker_fd(), &part, 1, file);
    (void)fprintf(stderr, "ATTACK sent: %s\n", result ? strerrorname_np(errno) : "all");
}

static void send_head(struct cv_wire_request head, int file)
{
    head.magic = CV_WIRE_MAGIC;
    send_all(&head, sizeof(head), file);
}

static void send_garbage(const char *kind)
{
    static char noise[1 << 20];
    (void)memset(noise, 0xa5, sizeof(noise));
    if (strcmp(kind, "noise") == 0) {
        send_all(noise, sizeof(noise), -1);
    } else if (strcmp(kind, "long text") == 0) {
        send_head((struct cv_wire_request){.operation = CV_WIRE_HEAD, .text_length = UINT32_MAX},
                  -1);
    } else if (strcmp(kind, "long data") == 0) {
        send_head((struct cv_wire_request){.operation = CV_WIRE_PUT, .data_length = UINT64_MAX},
                  -1);
    } else if (strcmp(kind, "no JSON") == 0) {
        send_head((struct cv_wire_request){.operation = CV_WIRE_HEAD, .text_length = 100}, -1);
        send_all(noise, 100, -1);
    } else if (strcmp(kind, "unknown operation") == 0) {
        send_head((struct cv_wire_request){.operation = CV_WIRE_OPERATION_COUNT}, -1);
    } else if (strcmp(kind, "unwanted file") == 0) {
        send_head((struct cv_wire_request){.operation = CV_WIRE_HEAD}, STDERR_FILENO);
    } else if (strcmp(kind, "half a head") == 0) {
        send_all(noise, sizeof(struct cv_wire_request) / 2, -1);
        _exit(0);
    }
}

/* ---- where it acts --------------------------------------------------------------------------- */

static bool is_first_time(void)
{
    static bool is_done;
    bool is_first = !is_done;
    is_done = true;
    return is_first;
}

int avformat_open_input(void **context, const char *url, const void *format, void **options);
int avformat_open_input(void **context, const char *url, const void *format, void **options)
{
    typedef int function(void **, const char *, const void *, void **);
    function *real;
    *(void **)&real = dlsym(RTLD_NEXT, "avformat_open_input");
    const char *kind = getenv("CORTANA_ATTACK");
    if (kind && is_first_time()) {
        if (strcmp(kind, "table") == 0) {
            run_table(true);
        } else {
            send_garbage(kind);
        }
    }
    return real(context, url, format, options);
}

/* A stage that makes requests to other machines. */
int curl_easy_perform(void *request);
int curl_easy_perform(void *request)
{
    typedef int function(void *);
    function *real;
    *(void **)&real = dlsym(RTLD_NEXT, "curl_easy_perform");
    const char *kind = getenv("CORTANA_ATTACK");
    if (kind && strcmp(kind, "request") == 0 && is_first_time()) {
        run_table(false);
    }
    return real(request);
}

/* A kernel without Landlock, for the worker's own check of what it has. */
long syscall(long number, ...)
{
    typedef long function(long, ...);
    static function *real;
    if (!real) {
        *(void **)&real = dlsym(RTLD_NEXT, "syscall");
    }
    va_list list;
    va_start(list, number);
    long a = va_arg(list, long), b = va_arg(list, long), c = va_arg(list, long);
    long d = va_arg(list, long), e = va_arg(list, long), f = va_arg(list, long);
    va_end(list);
    if (number == SYS_landlock_create_ruleset && getenv("CORTANA_ATTACK_OLD")) {
        errno = ENOSYS;
        return -1;
    }
    return real(number, a, b, c, d, e, f);
}
