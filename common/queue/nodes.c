/* Workers and the machines they run on: their rows, their disks, and waking nodes that sleep. */
#include "common/queue/calls.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <netdb.h>
#include <signal.h>
#include <spawn.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>

enum {
    MAC_BYTES = 6,
    /* A magic packet is six bytes of 0xFF and the address 16 times (AMD, "Magic Packet Technology",
     * publication 20213, 1995). */
    MAC_REPEATS = 16,
    PACKET_BYTES = MAC_BYTES * (MAC_REPEATS + 1),
    SCRIPT_MS = 30 * 1000, /* a script that takes longer is killed */
    SCRIPT_LOOK_MS = 20,
    SCRIPT_WORDS_MAX = 64,
};

CV_DEFINE_CLEANUP(struct addrinfo *, freeaddrinfo)

/* ---- rows of workers and disks --------------------------------------------------------------- */

void cv_queue_name_worker(char *host, size_t host_size, char *id, size_t id_size)
{
    char boot[40] = "unknown";
    cv_auto_file FILE *file = fopen("/proc/sys/kernel/random/boot_id", "re");
    if (file && fgets(boot, sizeof(boot), file)) {
        boot[strcspn(boot, "\n")] = '\0';
    }
    host[host_size - 1] = '\0';
    if (gethostname(host, host_size - 1) != 0) {
        (void)snprintf(host, host_size, "unknown");
    }
    (void)snprintf(id, id_size, "%s:%d:%s", host, (int)getpid(), boot);
}

int cv_queue_report_worker(struct cv_db *db, const struct cv_worker_state *state,
                           struct cv_error *error)
{
    const char *labels = getenv("CORTANA_WORKER_LABELS");
    cv_auto(json_decref) json_t *parsed = labels ? json_loads(labels, 0, NULL) : NULL;
    if (labels && !json_is_object(parsed)) {
        return cv_fail(error, CV_ERROR_CONFIGURATION,
                       "CORTANA_WORKER_LABELS is not a JSON object like {\"zone\": \"eu\"}");
    }
    return cv_queue_run(db, error,
                        "SELECT report_worker($1, $2, $3, ARRAY[$4], $5::int, $6::int, $7,"
                        " $8::jsonb) AS outcome",
                        state->id, state->host, CV_VERSION, state->job_type,
                        cv_db_number(state->slots).text, cv_db_number(state->running).text,
                        state->state, labels);
}

int cv_queue_report_disk(struct cv_db *db, const struct cv_disk_state *state,
                         struct cv_error *error)
{
    return cv_db_run(db, NULL, error, "SELECT report_disk($1, $2, $3::bigint, $4::bigint)",
                     state->host, state->path, cv_db_number(state->total_bytes).text,
                     cv_db_number(state->free_bytes).text);
}

/* ---- Wake-on-LAN ----------------------------------------------------------------------------- */

static bool parse_mac(const char *text, unsigned char mac[MAC_BYTES])
{
    for (int i = 0; i < MAC_BYTES; i++) {
        char pair[3] = {text[0], text[0] ? text[1] : '\0', '\0'};
        char *end = NULL;
        mac[i] = (unsigned char)strtoul(pair, &end, 16);
        if (end != pair + 2) {
            return false;
        }
        text += i + 1 < MAC_BYTES ? 3 : 2; /* the table's CHECK ensures the separators */
    }
    return *text == '\0';
}

static int send_packet(const char *mac_text, const char *broadcast, const char *port,
                       struct cv_error *error)
{
    unsigned char packet[PACKET_BYTES];
    unsigned char mac[MAC_BYTES];
    if (!parse_mac(mac_text, mac)) {
        return cv_fail(error, CV_ERROR_CONFIGURATION, "%s is not a MAC address", mac_text);
    }
    memset(packet, 0xFF, MAC_BYTES);
    for (size_t i = 1; i <= MAC_REPEATS; i++) {
        memcpy(packet + i * MAC_BYTES, mac, MAC_BYTES);
    }
    const struct addrinfo hints = {.ai_family = AF_INET, .ai_socktype = SOCK_DGRAM};
    cv_auto(freeaddrinfo) struct addrinfo *address = NULL;
    int failure = getaddrinfo(broadcast, port, &hints, &address);
    if (failure) {
        return cv_fail(error, CV_ERROR_CONNECTION, "cannot resolve %s:%s: %s", broadcast, port,
                       gai_strerror(failure));
    }
    cv_auto_fd int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    int on = 1;
    CV_TRY_ERRNO(fd >= 0 && setsockopt(fd, SOL_SOCKET, SO_BROADCAST, &on, sizeof(on)) == 0 &&
                     sendto(fd, packet, sizeof(packet), 0, address->ai_addr, address->ai_addrlen) ==
                         (ssize_t)sizeof(packet),
                 error, "cannot send a packet to %s:%s", broadcast, port);
    return 0;
}

/* ---- scripts --------------------------------------------------------------------------------- */

static int wait_for_script(pid_t pid, const char *program, struct cv_error *error)
{
    int status = 0;
    int64_t until = cv_monotonic_ms() + SCRIPT_MS;
    while (true) {
        pid_t ended = waitpid(pid, &status, WNOHANG);
        if (ended == pid) {
            break;
        }
        if (ended < 0 && errno != EINTR) {
            return cv_fail_errno(error, errno, "cannot wait for %s", program);
        }
        if (cv_monotonic_ms() >= until) {
            (void)kill(-pid, SIGKILL);
            (void)waitpid(pid, &status, 0);
            return cv_fail(error, CV_ERROR_TIMEOUT, "%s did not end within %d s and was killed",
                           program, SCRIPT_MS / 1000);
        }
        const struct timespec pause = {.tv_nsec = SCRIPT_LOOK_MS * 1000000L};
        (void)nanosleep(&pause, NULL);
    }
    if (!WIFEXITED(status) || WEXITSTATUS(status) != 0) {
        return cv_fail(error, CV_ERROR_SERVER, "%s ended with %s %d", program,
                       WIFEXITED(status) ? "status" : "signal",
                       WIFEXITED(status) ? WEXITSTATUS(status) : WTERMSIG(status));
    }
    return 0;
}

/* Runs the program without a shell, and with an environment of its own: ours holds secrets. */
static int run_script(const json_t *words, const char *node, const char *host,
                      struct cv_error *error)
{
    char *arguments[SCRIPT_WORDS_MAX + 1] = {NULL};
    size_t count = json_array_size(words);
    if (count == 0 || count > SCRIPT_WORDS_MAX) {
        return cv_fail(error, CV_ERROR_CONFIGURATION, "a node's script must have 1 to %d words",
                       SCRIPT_WORDS_MAX);
    }
    for (size_t i = 0; i < count; i++) {
        arguments[i] = (char *)json_string_value(json_array_get(words, i));
        if (!arguments[i]) {
            return cv_fail(error, CV_ERROR_CONFIGURATION, "word %zu of the node's script is NULL",
                           i + 1);
        }
    }
    cv_auto_free char *name_variable = NULL;
    cv_auto_free char *host_variable = NULL;
    CV_TRY(cv_format(&name_variable, error, "NODE_NAME=%s", node));
    CV_TRY(cv_format(&host_variable, error, "NODE_HOST=%s", host));
    char path[] = "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";
    char *environment[] = {path, name_variable, host_variable, NULL};
    posix_spawn_file_actions_t files;
    posix_spawnattr_t attributes;
    pid_t pid = 0;
    (void)posix_spawn_file_actions_init(&files);
    (void)posix_spawnattr_init(&attributes);
    int failure = posix_spawn_file_actions_addopen(&files, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
    failure = failure ? failure : posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETPGROUP);
    failure = failure
                  ? failure
                  : posix_spawn(&pid, arguments[0], &files, &attributes, arguments, environment);
    (void)posix_spawn_file_actions_destroy(&files);
    (void)posix_spawnattr_destroy(&attributes);
    if (failure) {
        return cv_fail_errno(error, failure, "cannot start %s", arguments[0]);
    }
    return wait_for_script(pid, arguments[0], error);
}

/* ---- nodes ----------------------------------------------------------------------------------- */

static int wake(const struct cv_db_result *rows, int row, struct cv_error *error)
{
    if (strcmp(cv_db_text(rows, row, "wake_method"), "wol") == 0) {
        return send_packet(cv_db_text(rows, row, "mac"), cv_db_text(rows, row, "broadcast"),
                           cv_db_text(rows, row, "port"), error);
    }
    json_error_t reason;
    cv_auto(json_decref) json_t *words = json_loads(cv_db_text(rows, row, "script"), 0, &reason);
    return run_script(words, cv_db_text(rows, row, "name"), cv_db_text(rows, row, "host"), error);
}

int cv_queue_wake_nodes(struct cv_db *db, cv_queue_wake_told *tell, struct cv_error *error)
{
    cv_auto(cv_db_result_free) struct cv_db_result *rows = NULL;
    CV_TRY(cv_db_run(db, &rows, error, "SELECT * FROM machines_to_wake()"));
    for (int row = 0; row < cv_db_rows(rows); row++) {
        struct cv_error failure;
        int woken = wake(rows, row, &failure);
        tell(cv_db_text(rows, row, "name"), woken < 0 ? &failure : NULL);
    }
    return 0;
}
