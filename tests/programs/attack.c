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
#include "tests/programs/attack.h"

#include "common/base/base.h"

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

/* A file answers no request: ENOTTY says that the request reached the kernel's file. */
static int request(unsigned long number)
{
    char path[4096], data[64] = {0};
    cv_auto_fd int fd = open(in_scratch(path, "own"), O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    return fd < 0 ? errno : ioctl(fd, number, data) == 0 || errno == ENOTTY ? 0 : errno;
}
static int request_drm(void)
{
    return request(_IOWR('d', 0, char[64]));
}
static int request_nvidia(void)
{
    return request(_IOWR('F', 0xd2, char[64]));
}
static int request_nvidia_memory(void)
{
    return request(75);
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

static int map_memory(int flags, int fd)
{
    void *memory = mmap(NULL, 4096, PROT_READ | PROT_WRITE, flags, fd, 0);
    int result = memory == MAP_FAILED ? errno : 0;
    if (!result) {
        (void)munmap(memory, 4096);
    }
    return result;
}

static int map_shared(void)
{
    return map_memory(MAP_SHARED | MAP_ANONYMOUS, -1);
}
static int map_growing(void)
{
    return map_memory(MAP_PRIVATE | MAP_ANONYMOUS | MAP_GROWSDOWN, -1);
}
static int map_zero(void)
{
    cv_auto_fd int fd = open("/dev/zero", O_RDWR | O_CLOEXEC);
    return fd < 0 ? errno : map_memory(MAP_SHARED, fd);
}
static int map_huge(void)
{
    int result = map_memory(MAP_PRIVATE | MAP_ANONYMOUS | MAP_HUGETLB, -1);
    return result == ENOMEM ? 0 : result; /* only the pages were missing */
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
    char line[512];
    bool found = false;
    while (maps && fgets(line, sizeof(line), maps)) {
        unsigned long from = 0, to = 0;
        char rights[5] = "";
        if (sscanf(line, "%lx-%lx %4s", &from, &to, rights) != 3 || strncmp(rights, "rw", 2) != 0 ||
            to - from > (64UL << 20)) {
            continue;
        }
        cv_auto_free char *copy = malloc(to - from);
        const char *at = copy, *end = copy ? copy + (to - from) : NULL;
        if (copy) {
            (void)memcpy(copy, (const void *)from, to - from);
        }
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

/* ---- the table ------------------------------------------------------------------------------- */

static const struct attack attacks[] = {
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
    {"request to a DRM driver", request_drm},
    {"request to NVIDIA's driver", request_nvidia},
    {"request to NVIDIA's unified memory", request_nvidia_memory},
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
    {"shared memory without a file", map_shared},
    {"memory that grows down", map_growing},
    {"memory of /dev/zero", map_zero},
    {"huge pages", map_huge},
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
    {NULL, NULL},
};

static void run_rows(const struct attack *rows)
{
    for (; rows->name; rows++) {
        int result = rows->run();
        (void)fprintf(stderr, "ATTACK %s: %s\n", rows->name,
                      result ? strerrorname_np(result) : "through");
    }
}

/* Where the stage has a connection to the database in the broker's place, all but the broker's rows. */
static void run_table(bool has_broker)
{
    if (has_broker) {
        run_rows(attack_broker_rows);
    }
    run_rows(attacks);
    run_rows(attack_user_rows);
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
            attack_send_garbage(kind);
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
