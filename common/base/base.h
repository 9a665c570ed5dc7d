/* The foundation of all other folders: errors, locals that clean themselves up, cancellation,
 * threads, logs, configuration, text buffers, JSON, time, encodings, and the byte source that lets
 * media read from any store.
 *
 * Conventions of the whole tree
 *
 *   Return values  0 is success. A negative value is a failure: `error` says what happened, and the
 *                  value is passed up unchanged. A positive value is a named outcome that is
 *                  specific to the function (CV_STORE_NOT_FOUND, CV_LEASE_LOST); the direct caller
 *                  handles it.
 *   Errors         The last parameter is `struct cv_error *error`, never NULL. It is written only
 *                  on failure.
 *   Results        Parameters named `ret_…` are written only on success.
 *   Ownership      `new/free` for the heap, `init/deinit` for the caller's memory, `open/close` for
 *                  what holds a resource. Every destructor accepts NULL.
 *   Threads        Nothing is shared between threads unless its comment says so.
 */
#pragma once

#include <errno.h>
#include <jansson.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#define CV_MUST_CHECK __attribute__((warn_unused_result))
#define CV_PRINTF(format_index, first_argument) \
    __attribute__((format(printf, format_index, first_argument)))
#define CV_COUNT(array) (sizeof(array) / sizeof((array)[0]))

/* ---- errors ---------------------------------------------------------------------------------- */

/* What the caller of a failed operation may do about it. */
enum cv_verdict {
    CV_VERDICT_RETRY,     /* may succeed later: the job is queued again with a delay */
    CV_VERDICT_PERMANENT, /* will fail again in the same way: the job goes to the dead letters */
    CV_VERDICT_STOP,      /* this installation cannot work: a daemon exits, a worker waits */
};

/* All kinds of failure. error.c has one table with the name and the verdict of each. The names are
 * what people see in a failed job (`error.type`). */
enum cv_error_type {
    CV_ERROR_INTERNAL,
    CV_ERROR_INVALID_PAYLOAD,
    CV_ERROR_OBJECT_NOT_FOUND,
    CV_ERROR_NOT_FOUND,
    CV_ERROR_INVALID_KEY,
    CV_ERROR_NOT_A_VIDEO,
    CV_ERROR_UNSUPPORTED_MEDIA,
    CV_ERROR_DECODE,
    CV_ERROR_OUTSIDE_VIDEO,
    CV_ERROR_ENCODE,
    CV_ERROR_OCR,
    CV_ERROR_LIMIT_EXCEEDED,
    CV_ERROR_CONSTRAINT,
    CV_ERROR_AUTHENTICATION,
    CV_ERROR_AUTHORIZATION,
    CV_ERROR_REFUSED,
    CV_ERROR_TIMEOUT,
    CV_ERROR_CONNECTION,
    CV_ERROR_THROTTLED,
    CV_ERROR_SERVER,
    CV_ERROR_IO,
    CV_ERROR_DISK_FULL,
    CV_ERROR_OUT_OF_MEMORY,
    CV_ERROR_CONFLICT,
    CV_ERROR_STAGE_CRASHED,
    CV_ERROR_STAGE_PROTOCOL,
    CV_ERROR_LEASE_LOST,
    CV_ERROR_CANCELED,
    CV_ERROR_CONFIGURATION,
    CV_ERROR_DATABASE,
    CV_ERROR_TYPE_COUNT,
};

/* How JSON that is kept is written: a number as it was given, 0.95, and not 0.94999999999999996 as with
 * all 17 digits. */
#define CV_JSON_KEPT (JSON_COMPACT | JSON_REAL_PRECISION(16))

/* One failure. Plain data: copy it, keep it, no destructor. `message` is one line of UTF-8 that a
 * person can act on, without the type in front and without a full stop at the end. */
struct cv_error {
    enum cv_error_type type;
    enum cv_verdict verdict;
    bool environment;       /* see cv_error_suspect_environment */
    int64_t retry_after_ms; /* how long the server asks to wait before a retry; 0: it does not */
    char message[768];
};

/* Fills `error` (verdict from the table) and returns -1, so that `return cv_fail(…)` raises. The
 * message of a CV_ERROR_DISK_FULL names the disk, whoever reported that there is no room. */
CV_MUST_CHECK int cv_fail(struct cv_error *error, enum cv_error_type type, const char *format, ...)
    CV_PRINTF(3, 4);

/* Like cv_fail, with the type chosen by an errno value (ENOSPC is disk full, ENOMEM out of memory) and
 * ": <strerror>" appended to the message. */
CV_MUST_CHECK int cv_fail_errno(struct cv_error *error, int error_number, const char *format, ...)
    CV_PRINTF(3, 4);

/* Puts "<context>: " in front of the message of a failure on its way up; returns `result`. */
CV_MUST_CHECK int cv_fail_context(struct cv_error *error, int result, const char *format, ...)
    CV_PRINTF(3, 4);

/* Ends the calling function with the result of `call` unless that is 0: with a failure, or with an outcome that the
 * calling function may have, too. Locals clean themselves up. */
#define CV_TRY(call)            \
    do {                        \
        int cv_result = (call); \
        if (cv_result) {        \
            return cv_result;   \
        }                       \
    } while (0)

/* Ends the calling function with CV_ERROR_OUT_OF_MEMORY ("out of memory for <what>") unless `allocated`, a pointer or a
 * condition, is true. `what` is a string literal. */
#define CV_TRY_MEMORY(allocated, error, what) \
    CV_TRY((allocated) ? 0 : cv_fail(error, CV_ERROR_OUT_OF_MEMORY, "out of memory for " what))

/* Ends the calling function with cv_fail_errno(error, errno, …) unless `done` is true: the condition under which a
 * system call has succeeded. */
#define CV_TRY_ERRNO(done, error, ...) CV_TRY((done) ? 0 : cv_fail_errno(error, errno, __VA_ARGS__))

#ifdef __clang_analyzer__
/* The analyzer reads one file at a time, and would otherwise assume that cv_fail may return 0. */
#define cv_fail(...) (cv_fail(__VA_ARGS__), -1)
#define cv_fail_errno(...) (cv_fail_errno(__VA_ARGS__), -1)
#endif

/* Marks a failure as one of the environment: a store, a disk, a key or a clock refused, not the
 * work itself. The verdict becomes CV_VERDICT_RETRY. The mark is a suspicion, because whoever
 * raises an error may be wrong or may lie: a worker checks its store and disks itself before it
 * releases a job without counting the attempt. */
void cv_error_suspect_environment(struct cv_error *error);

/* "InvalidPayload", "S3ObjectNotFound", …: static text, never NULL. */
const char *cv_error_type_name(enum cv_error_type type);

/* The type with that name, CV_ERROR_INTERNAL when no type has it. */
enum cv_error_type cv_error_type_from_name(const char *name);

/* The verdict that the table gives to a type. */
enum cv_verdict cv_error_type_verdict(enum cv_error_type type);

/* Exit codes of a stage process (`--once`); from sysexits.h. */
enum cv_exit {
    CV_EXIT_DONE = 0,
    CV_EXIT_USAGE = 64,     /* EX_USAGE: the command line is wrong */
    CV_EXIT_PERMANENT = 65, /* EX_DATAERR: failed, and would fail again */
    CV_EXIT_RETRY = 75,     /* EX_TEMPFAIL: failed, may succeed later */
    CV_EXIT_STOP = 78,      /* EX_CONFIG: this installation cannot run jobs */
};

/* ---- locals that clean themselves up --------------------------------------------------------- */

/* CV_DEFINE_CLEANUP(struct x *, x_free) defines the destructor for `cv_auto(x_free) struct x *x`.
 * It runs when x goes out of scope and is not zero, and keeps errno. */
#define CV_DEFINE_CLEANUP(type, function)                                         \
    __attribute__((unused)) static inline void function##_cleanup(type *cv_local) \
    {                                                                             \
        if (*cv_local) {                                                          \
            int cv_saved_errno = errno;                                           \
            function(*cv_local);                                                  \
            errno = cv_saved_errno;                                               \
        }                                                                         \
    }

/* The same for values in the caller's memory and for destructors that take the value's address. */
#define CV_DEFINE_CLEANUP_ADDRESS(type, function)                                 \
    __attribute__((unused)) static inline void function##_cleanup(type *cv_local) \
    {                                                                             \
        int cv_saved_errno = errno;                                               \
        function(cv_local);                                                       \
        errno = cv_saved_errno;                                                   \
    }

#define cv_auto(function) __attribute__((cleanup(function##_cleanup), unused))

/* Gives ownership away: yields the pointer and sets the variable to NULL. */
#define cv_take(pointer)                             \
    __extension__({                                  \
        __typeof__(pointer) *cv_source = &(pointer); \
        __typeof__(pointer) cv_value = *cv_source;   \
        *cv_source = NULL;                           \
        cv_value;                                    \
    })

static inline void cv_free_cleanup(void *pointer)
{
    int saved_errno = errno;
    free(*(void **)pointer);
    errno = saved_errno;
}
#define cv_auto_free __attribute__((cleanup(cv_free_cleanup), unused))

/* A file descriptor that closes itself; -1 is "none". */
static inline void cv_close_fd_cleanup(int *fd)
{
    if (*fd >= 0) {
        int saved_errno = errno;
        close(*fd);
        errno = saved_errno;
    }
}
#define cv_auto_fd __attribute__((cleanup(cv_close_fd_cleanup), unused))

static inline int cv_take_fd(int *fd)
{
    int value = *fd;
    *fd = -1;
    return value;
}

/* Writes all `length` bytes, also when a signal interrupts the write. 0, or -1 and errno. */
int cv_write_all(int fd, const void *data, size_t length);

static inline void cv_fclose_cleanup(FILE **file)
{
    if (*file) {
        int saved_errno = errno;
        fclose(*file);
        errno = saved_errno;
    }
}
#define cv_auto_file __attribute__((cleanup(cv_fclose_cleanup), unused))

/* For locals that own a JSON value: cv_auto(json_decref) json_t *value = …; */
CV_DEFINE_CLEANUP(json_t *, json_decref)

/* Makes a JSON string from text that may contain any bytes (output of a program, a decoder's
 * message about a hostile file): if it is not UTF-8, every byte above 0x7f becomes '?'. NULL: out
 * of memory. */
json_t *cv_json_text(const char *text);

/* ---- hashes ---------------------------------------------------------------------------------- */

#define CV_HASH_BEGIN UINT64_C(0xcbf29ce484222325)

/* Goes on with a hash, FNV-1a of 64 bits (Fowler, Noll and Vo), which begins as CV_HASH_BEGIN. Somebody who chooses the bytes
 * can make two hashes equal. */
static inline uint64_t cv_hash(uint64_t hash, const void *data, size_t size)
{
    for (const uint8_t *byte = data, *end = byte + size; byte < end; byte++) {
        hash = (hash ^ *byte) * UINT64_C(0x100000001b3);
    }
    return hash;
}

/* ---- cancellation ---------------------------------------------------------------------------- */

/* How urgently work is asked to end. Levels only rise. */
enum cv_cancel_level {
    CV_CANCEL_NONE,
    CV_CANCEL_DRAIN, /* finish what runs, start nothing new */
    CV_CANCEL_ABORT, /* stop now, give back what is not finished */
};

/* A request to stop: a level to read and a descriptor to wait for. All functions are thread-safe;
 * cv_cancel_request is async-signal-safe, too. */
struct cv_cancel;

CV_MUST_CHECK int cv_cancel_new(struct cv_cancel **ret_cancel, struct cv_error *error);
void cv_cancel_free(struct cv_cancel *cancel);
CV_DEFINE_CLEANUP(struct cv_cancel *, cv_cancel_free)

/* Raises the level; a lower or equal level changes nothing. */
void cv_cancel_request(struct cv_cancel *cancel, enum cv_cancel_level level);

/* The current level; CV_CANCEL_NONE for NULL. */
enum cv_cancel_level cv_cancel_level(const struct cv_cancel *cancel);

/* A descriptor that becomes readable with the first request and stays readable; owned by `cancel`.
 */
int cv_cancel_fd(const struct cv_cancel *cancel);

/* Waits for a request, at most so long. True: there is one. */
bool cv_cancel_wait(const struct cv_cancel *cancel, int ms);

/* ---- threads --------------------------------------------------------------------------------- */

/* Initialises a lock and a condition that waits by the monotonic clock. */
CV_MUST_CHECK int cv_thread_locks(pthread_mutex_t *mutex, pthread_cond_t *changed,
                                  struct cv_error *error);
void cv_thread_locks_deinit(pthread_mutex_t *mutex, pthread_cond_t *changed);

/* Starts a thread with all signals blocked: the main thread handles them. */
CV_MUST_CHECK int cv_thread_start(pthread_t *ret_thread, void *(*run)(void *), void *opaque,
                                  struct cv_error *error);

/* Waits, with the mutex held, until the condition is signalled or cv_monotonic_ms() is `until_ms`. */
void cv_thread_wait(pthread_cond_t *changed, pthread_mutex_t *mutex, int64_t until_ms);

/* A thread that works in the background, and the lock of what it shares with its owner. All zero: not
 * started. */
struct cv_background {
    pthread_mutex_t mutex; /* protects `is_stopping`, and what the owner says */
    pthread_cond_t changed;
    bool is_stopping; /* run() is to return */
    bool is_started, has_ended;
    pthread_t thread;
    void (*run)(void *opaque);
    void *opaque;
};

/* Makes the lock, and starts run(opaque) in a thread with all signals blocked. The struct stays where
 * it is until cv_background_stop(). */
CV_MUST_CHECK int cv_background_start(struct cv_background *background, void (*run)(void *opaque),
                                      void *opaque, struct cv_error *error);

/* Waits, with the mutex held, until cv_background_wake(), the end, or cv_monotonic_ms() is `until_ms`
 * (INT64_MAX: as long as it takes); may also return for no reason. False: run() is to return. */
bool cv_background_wait(struct cv_background *background, int64_t until_ms);

/* Ends a wait, from the owner, with the mutex held. */
void cv_background_wake(struct cv_background *background);

/* Tells run() to return and waits for it; after `patience_ms` also aborts `cancel` (NULL: nothing).
 * Then the lock is gone. Does nothing if it was not started. */
void cv_background_stop(struct cv_background *background, struct cv_cancel *cancel,
                        int64_t patience_ms);

/* Locks a mutex until the end of the scope. */
#define CV_LOCK(mutex) \
    __attribute__((cleanup(cv_unlock_cleanup), unused)) pthread_mutex_t *cv_locked = cv_lock(mutex)

static inline pthread_mutex_t *cv_lock(pthread_mutex_t *mutex)
{
    (void)pthread_mutex_lock(mutex);
    return mutex;
}

static inline void cv_unlock_cleanup(pthread_mutex_t **mutex)
{
    (void)pthread_mutex_unlock(*mutex);
}

/* A descriptor that wakes a loop that polls: it is readable from a signal until it is cleared; close()
 * it. Any thread, and a signal handler, may signal. */
CV_MUST_CHECK int cv_wakeup_open(int *ret_fd, struct cv_error *error);
void cv_wakeup_signal(int fd);
void cv_wakeup_clear(int fd);

/* ---- files below a directory that others fill -------------------------------------------------- */

/* Opens the directory that the first `length` bytes of `path` name below `directory`; 0: that one
 * itself. Each part is opened separately without following links or "..", even if parts are exchanged
 * meanwhile. `make` makes missing directories, durably. Returns a descriptor that the caller owns;
 * -1 with errno on failure: ENOENT if a part is missing, ENOTDIR or ELOOP if it is no directory. */
int cv_open_directory_below(int directory, const char *path, size_t length, bool make);

/* Opens a file below `directory` for reading; the directories on its way as above. Does not wait,
 * whatever the type of the file. Returns a descriptor that the caller owns; -1 with errno on failure. */
int cv_open_file_below(int directory, const char *path);

/* ---- disks ----------------------------------------------------------------------------------- */

/* How full a disk is. The reserve keeps a system alive whose disk fills up: 5 % of the disk, at most
 * 16 GiB. Warning begins where three times the reserve is free, critical at twice: the gateway
 * accepts no uploads; emergency at the reserve: workers claim no jobs. report_disk() in SQL has the
 * same limits. */
enum cv_disk_level { CV_DISK_OK, CV_DISK_WARNING, CV_DISK_CRITICAL, CV_DISK_EMERGENCY };

struct cv_disk {
    int64_t total_bytes;
    int64_t free_bytes; /* free for users other than root */
    enum cv_disk_level level;
};

/* The reserve of a disk, in bytes. */
int64_t cv_disk_reserve(int64_t total_bytes);

enum cv_disk_level cv_disk_level_of(int64_t total_bytes, int64_t free_bytes);

/* "ok", "warning", "critical", "emergency". */
const char *cv_disk_level_name(enum cv_disk_level level);

/* Reads the state of the file system that contains `path`. */
CV_MUST_CHECK int cv_disk_read(const char *path, struct cv_disk *ret_disk, struct cv_error *error);

/* ---- log ------------------------------------------------------------------------------------- */

enum cv_log_level { CV_LOG_DEBUG, CV_LOG_INFO, CV_LOG_WARN, CV_LOG_ERROR };

/* What every log line of this process contains until it is changed. NULL members are left out. */
struct cv_log_context {
    const char *worker_id;
    const char *job_type;
    const char *job_id;
    const char *status; /* of the job */
    const char *video_id;
    const char *tenant_id;
    int attempt; /* 0: left out */
};

/* Lines below `level` are dropped; default CV_LOG_INFO, or LOG_LEVEL (debug, info, warn, error). */
void cv_log_set_level(enum cv_log_level level);

/* Sets the context of the lines of the calling thread. Copies the strings. */
void cv_log_set_context(const struct cv_log_context *context);

/* One JSON object on one line of standard error: ts, level, message and the context; one write(2),
 * so that lines of several processes do not mix. Secrets are redacted (cv_redact). Thread-safe. */
void cv_log(enum cv_log_level level, const char *format, ...) CV_PRINTF(2, 3);

/* Logs a failure: "<what>: <message>", with error_type. Called once per failure, by the function
 * that handles it. */
void cv_log_error(const struct cv_error *error, const char *what);

/* Writes a log line of another process (a JSON object) under this process' context. Members of the
 * line that name a worker, job, video or tenant are replaced, so that the other process cannot
 * write in another job's name. */
void cv_log_pass_on(json_t *line);

/* ---- secrets --------------------------------------------------------------------------------- */

/* Replaces every secret in `text` by '*', one per byte. Secrets are: values assigned to names such
 * as password, token, secret, authorization, cookie or signature, in JSON, in a header, in XML, in
 * the query of a URL, in libpq's form, or as the value of an option (`--password x`); the password
 * in a URL; bearer tokens and JWTs; private keys; and keys with a well-known prefix (AWS, GitHub,
 * webhooks, …). Redacting a redacted text changes nothing. Everything that people see passes this
 * function: logs, tails of output, messages, payloads, results. */
void cv_redact(char *text);

/* A copy of a JSON value without secrets. Members with such names are "***" (except null, true and
 * false), and so is the element after "--password" in a list. All other strings have passed
 * cv_redact. */
CV_MUST_CHECK int cv_redacted_json(const json_t *value, json_t **ret_value, struct cv_error *error);

/* The same for text that may or may not be a JSON object or list; free(*ret_text). */
CV_MUST_CHECK int cv_redacted_text(const char *text, char **ret_text, struct cv_error *error);

/* ---- arrays that grow ------------------------------------------------------------------------- */

/* Makes room for one more item in an array that holds `count` items and comes from malloc (or is NULL). False when there
 * is no memory; the array is unchanged then. The array grows at powers of two, so that the count alone says when.
 * `items` is the address of the pointer. CV_MAKE_ROOM(array, count) fills in the address and the size. */
CV_MUST_CHECK bool cv_make_room(void *items, size_t count, size_t item_size);
#define CV_MAKE_ROOM(array, count) cv_make_room(&(array), count, sizeof((array)[0]))

/* ---- texts that are nearly the same ---------------------------------------------------------- */

enum {
    CV_EDITS_MAX = 400
}; /* letters of a text that is compared; the screen's lines have less than 200 */

/* How many letters must be inserted, removed or replaced to make `b` of `a` (Levenshtein distance), at
 * most `limit`; limit + 1 when it is more or a text is longer than CV_EDITS_MAX. A letter has
 * `letter_size` bytes: 1 or 4. Fast where the limit is small (Ukkonen's band). */
size_t cv_edits(const void *a, size_t a_count, const void *b, size_t b_count, size_t letter_size,
                size_t limit);

/* ---- text buffers ---------------------------------------------------------------------------- */

/* Growing text, NUL-terminated as soon as something was appended. After a failed allocation
 * `failed` is true and appends do nothing, so that callers check once, at the end. */
struct cv_buffer {
    char *data;
    size_t length;
    size_t capacity;
    bool failed;
};

#define CV_BUFFER_INIT    \
    {                     \
        NULL, 0, 0, false \
    }

void cv_buffer_deinit(struct cv_buffer *buffer);
CV_DEFINE_CLEANUP_ADDRESS(struct cv_buffer, cv_buffer_deinit)

void cv_buffer_append(struct cv_buffer *buffer, const void *data, size_t length);
void cv_buffer_text(struct cv_buffer *buffer, const char *text);
void cv_buffer_printf(struct cv_buffer *buffer, const char *format, ...) CV_PRINTF(2, 3);

/* Empties the buffer and keeps its memory. */
void cv_buffer_clear(struct cv_buffer *buffer);

/* Gives the text to the caller (free() it), or fails with CV_ERROR_OUT_OF_MEMORY. Never NULL on
 * success: an empty buffer yields "". */
CV_MUST_CHECK int cv_buffer_detach(struct cv_buffer *buffer, char **ret_text,
                                   struct cv_error *error);

/* printf into fresh memory (free() it). */
CV_MUST_CHECK int cv_format(char **ret_text, struct cv_error *error, const char *format, ...)
    CV_PRINTF(3, 4);

/* ---- time and numbers ------------------------------------------------------------------------ */

/* Milliseconds of a clock that never jumps; for leases, time-outs and durations. */
int64_t cv_monotonic_ms(void);

/* The pause after a try that failed, when `tries` tries failed before it. It is drawn between a half and all of `first_ms`,
 * which doubles with each try up to `most_ms`: processes that failed together do not return together. Both are above 0
 * and fit into 32 bits; any thread. */
int64_t cv_pause_ms(int tries, int64_t first_ms, int64_t most_ms);

/* Milliseconds since 1970-01-01 UTC; for display and file names only. */
int64_t cv_wall_ms(void);

/* "2026-01-31T12:00:00.123Z" into a buffer of at least CV_TIMESTAMP_SIZE bytes; returns it. */
#define CV_TIMESTAMP_SIZE 32
char *cv_format_timestamp(int64_t wall_ms, char text[CV_TIMESTAMP_SIZE]);

/* Parses a decimal number within [low, high]. False when `text` contains anything else. */
CV_MUST_CHECK bool cv_parse_int(const char *text, int64_t low, int64_t high, int64_t *ret_value);
CV_MUST_CHECK bool cv_parse_double(const char *text, double low, double high, double *ret_value);

/* Whether `text` is a UUID in the usual 8-4-4-4-12 form, in lower or upper case. */
bool cv_is_uuid(const char *text);

/* The smaller of two numbers. */
static inline int cv_min(int a, int b)
{
    return a < b ? a : b;
}

/* The larger of two numbers. */
static inline int cv_max(int a, int b)
{
    return a > b ? a : b;
}

/* Order of ints for qsort. */
static inline int cv_compare_ints(const void *left, const void *right)
{
    return *(const int *)left - *(const int *)right;
}

/* ---- boxes ----------------------------------------------------------------------------------- */

struct cv_point {
    int x, y; /* pixels */
};

struct cv_box {
    int x, y, width, height; /* pixels; x + width and y + height are exclusive */
};

/* The first column on the right of the box. */
static inline int cv_box_right(const struct cv_box *box)
{
    return box->x + box->width;
}

/* The first row below the box. */
static inline int cv_box_bottom(const struct cv_box *box)
{
    return box->y + box->height;
}

/* The part of `box` inside width × height; width or height 0 when there is none. */
struct cv_box cv_box_clip(const struct cv_box *box, int width, int height);

/* The smallest box around both. */
struct cv_box cv_box_union(const struct cv_box *a, const struct cv_box *b);

/* Whether all of `box` is within `around`. */
bool cv_box_lies_in(const struct cv_box *box, const struct cv_box *around);

/* Pixels that both cover. */
int64_t cv_box_overlap(const struct cv_box *a, const struct cv_box *b);

/* {"x", "y", "width", "height"}; NULL: out of memory. */
json_t *cv_box_json(const struct cv_box *box);

/* ---- reasons --------------------------------------------------------------------------------- */

/* What a stage did with the lines of a video, and why, noted where it decides (`cortana why`). Nothing is noted unless a
 * caller asks: where its pointer to this is NULL, CV_BECAUSE does not evaluate its other arguments. */
struct cv_reasons {
    json_t *list;    /* [{"line", "other", "t", "what", "bounding_box"}]; NULL: nothing yet */
    int64_t t_ms;    /* of what is decided now */
    int64_t reading; /* the line that is being read */
    bool has_failed; /* an allocation failed, and something is missing */
};

void cv_reasons_deinit(struct cv_reasons *reasons);
CV_DEFINE_CLEANUP_ADDRESS(struct cv_reasons, cv_reasons_deinit)

/* Appends a reason. `other` is the line that it was compared with (0: none); `box` may be NULL. A text that begins with
 * "joined" says that from now on `other` is `line`. */
void cv_because(struct cv_reasons *reasons, int64_t line, int64_t other, const struct cv_box *box,
                const char *format, ...) CV_PRINTF(5, 6);

#define CV_BECAUSE(reasons, line, other, box, ...) \
    ((reasons) ? cv_because(reasons, line, other, box, __VA_ARGS__) : (void)0)

/* ---- encodings ------------------------------------------------------------------------------- */

/* Writes bytes as hexadecimal digits in lower case, 2 * count characters and a NUL; or, of at most 64 bytes,
 * random ones that nobody can guess. */
void cv_hex(const void *bytes, size_t count, char *text);
void cv_random_hex(size_t count, char *text);

/* The value of a hexadecimal digit; -1 for any other character. */
int cv_hex_digit(char digit);

/* Appends text percent-encoded: letters, digits and "-._~" stay (RFC 3986), and '/' if `keep_slash`. */
void cv_percent_encode(struct cv_buffer *buffer, const char *text, bool keep_slash);

/* Base64url without padding (RFC 7515, 2): its digits by their values; appends bytes; decodes text, false for
 * anything but the one canonical form. `bytes` has room for length * 3 / 4. */
extern const char cv_base64url_digits[];
void cv_base64url(struct cv_buffer *buffer, const void *bytes, size_t length);
CV_MUST_CHECK bool cv_base64url_decode(const char *text, size_t length, unsigned char *bytes,
                                       size_t *ret_length);

/* Whether JSON text nests lists and objects at most `depth_max` deep. To be checked before a
 * stranger's text is parsed, because the parser recurses. */
bool cv_json_is_shallow(const char *text, size_t length, int depth_max);

/* ---- configuration --------------------------------------------------------------------------- */

/* The variable's value, or `fallback` when it is unset or empty. Borrowed from the environment. */
const char *cv_env(const char *name, const char *fallback);

/* Reads a number within [low, high] from the environment; `fallback` when the variable is unset or
 * empty. CV_ERROR_CONFIGURATION when the value is no such number. */
CV_MUST_CHECK int cv_env_int(const char *name, int64_t fallback, int64_t low, int64_t high,
                             int64_t *ret_value, struct cv_error *error);

/* The settings file that cv_settings_load reads: CORTANA_CONFIG, "" for none, else
 * /etc/cortana/cortana.conf, which may be missing. Borrowed from the environment. */
const char *cv_settings_file(void);

/* Adds settings to the environment; called before the process has threads. First secrets from
 * files (NAME_FILE, or the file NAME in systemd's CREDENTIALS_DIRECTORY), then the settings file:
 * CORTANA_CONFIG, or /etc/cortana/cortana.conf if it exists. Variables that are already set stay.
 * Afterwards CORTANA_CONFIG is empty, so that programs started by this one use the environment
 * that they inherit and load no file. CV_ERROR_CONFIGURATION names file and line. */
CV_MUST_CHECK int cv_settings_load(struct cv_error *error);

/* A copy of the variable's value (free() it), or NULL when it is unset or empty. A secret from a
 * file is read again, so that the caller gets its current value; if the file cannot be read, the
 * value read last. Any thread. */
CV_MUST_CHECK int cv_setting_read(const char *name, char **ret_value, struct cv_error *error);

/* Whether the variable's value came from a file of its own, which cv_setting_read reads again. */
bool cv_setting_has_file(const char *name);

/* Where the value of a variable comes from, as text for people; NULL when it is not set. Valid
 * until the process ends. */
const char *cv_setting_source(const char *name);

/* Whether the variable is a secret, whose value must not be shown. */
bool cv_setting_is_secret(const char *name);

/* Calls `tell` with the name of every variable that a settings file may set, set or not. */
void cv_settings_each(void (*tell)(void *opaque, const char *name), void *opaque);

/* One long option of a daemon. Exactly one of the pointers is set. A flag takes no value and
 * becomes true. The others are written when the option is given, numbers only within [least,
 * most]. */
struct cv_option {
    const char *name; /* without its dashes */
    bool *flag;
    const char **text; /* borrowed from argv */
    int64_t *integer;
    double *decimal;
    double least, most;
    const char *variable; /* of a text: the environment variable used without the option */
};

struct cv_program {
    const char *name;
    const char *usage; /* what --help prints */
    const struct cv_option *options;
    size_t option_count; /* at most 24 */
};

/* Parses a command line of long options, then loads the settings (cv_settings_load). Answers
 * --help and --version itself. False when the program must exit with *ret_exit; help was then
 * printed to standard output, or an error to standard error. */
bool cv_parse_options(const struct cv_program *program, int argc, char **argv, int *ret_exit);

/* The path of another program of this installation ("ocr-worker"), whether it is installed or in
 * its build folder. CV_ERROR_CONFIGURATION when it does not exist. */
CV_MUST_CHECK int cv_find_program(const char *name, char *path, size_t size,
                                  struct cv_error *error);

/* ---- byte source ----------------------------------------------------------------------------- */

/* Random access to bytes. Media reads through it and knows no store; a store provides it. Used by
 * one thread at a time. */
struct cv_byte_source {
    void *opaque;
    int64_t size; /* bytes */
    /* Reads up to `length` bytes at `offset`; *ret_read is 0 only at the end. */
    int (*read)(void *opaque, int64_t offset, void *data, size_t length, size_t *ret_read,
                struct cv_error *error);
};

/* Opens the file `path` as a byte source. The caller closes *ret_fd after the last read. The
 * source keeps the address `ret_fd`, so that this variable must live as long as the source. */
CV_MUST_CHECK int cv_file_source_open(const char *path, int *ret_fd,
                                      struct cv_byte_source *ret_source, struct cv_error *error);
