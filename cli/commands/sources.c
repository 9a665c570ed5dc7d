#include "cli/commands/sources.h"

#include <dirent.h>
#include <fcntl.h>
#include <poll.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>

enum {
    DEPTH_MAX = 32, /* nesting of folders */
    COPY_SIZE = 1 << 20,
};

/* The extensions searched for in a folder. A file that is named explicitly may have any name. */
static const char extensions[] =
    "mp4 m4v mov mkv webm avi ts m2ts mts mpg mpeg mxf flv wmv ogv 3gp gif";

void cli_sources_deinit(struct cli_sources *sources)
{
    for (size_t i = 0; i < sources->count; i++) {
        free(sources->sources[i].place);
    }
    free(sources->sources);
    *sources = (struct cli_sources){0};
}

static int add(struct cli_sources *sources, enum cli_source_kind kind, const char *place,
               struct cv_error *error)
{
    char *copy = CV_MAKE_ROOM(sources->sources, sources->count) ? strdup(place) : NULL;
    CV_TRY_MEMORY(copy, error, "the list of files");
    sources->sources[sources->count++] = (struct cli_source){.kind = kind, .place = copy};
    return 0;
}

/* ---- folders --------------------------------------------------------------------------------- */

static bool is_video_name(const char *name)
{
    char extension[CLI_EXTENSION_SIZE];
    cli_extension(name, extension);
    return cli_is_among(extensions, extension);
}

/* A search for what the arguments name. */
struct search {
    struct cli_sources *sources;
    const struct cli_call *call;
    bool recursive;
};

/* Says on standard error why a file or a folder is left out; the others are taken. */
static void leave_out(const struct search *search, const struct cv_error *why)
{
    search->sources->bad++;
    cli_put_failure(search->call, cv_error_type_name(why->type), why->message);
}

/* Whether the others can go on after this failure of one of them. */
static bool is_of_one(const struct cv_error *error)
{
    return error->type != CV_ERROR_OUT_OF_MEMORY && error->type != CV_ERROR_CANCELED;
}

static int read_status(const char *path, struct stat *ret_status, struct cv_error *error)
{
    struct stat link;
    if (stat(path, ret_status) == 0 && access(path, R_OK) == 0) {
        return 0;
    }
    int reason = errno;
    return reason == ENOENT && lstat(path, &link) == 0
               ? cv_fail(error, CV_ERROR_NOT_FOUND, "cannot read %s: it is a link to nothing", path)
               : cv_fail_errno(error, reason, "cannot read %s", path);
}

static int add_folder(const struct search *search, const char *folder, int depth,
                      struct cv_error *error);

/* Adds one entry of a folder: a file with a video's extension, or with `recursive` a folder. */
static int add_entry(const struct search *search, const char *path, const char *name, int depth,
                     struct cv_error *error)
{
    struct stat status;
    bool is_folder = stat(path, &status) == 0 && S_ISDIR(status.st_mode);
    if (is_folder) {
        return search->recursive && depth < DEPTH_MAX ? add_folder(search, path, depth + 1, error)
                                                      : 0;
    }
    if (!is_video_name(name)) {
        return 0;
    }
    CV_TRY(read_status(path, &status, error));
    return S_ISREG(status.st_mode) ? add(search->sources, CLI_SOURCE_FILE, path, error) : 0;
}

static int add_folder(const struct search *search, const char *folder, int depth,
                      struct cv_error *error)
{
    struct dirent **entries = NULL;
    int count = scandir(folder, &entries, NULL, alphasort);
    CV_TRY_ERRNO(count >= 0, error, "cannot read the folder %s", folder);
    int result = 0;
    for (int i = 0; i < count; i++) {
        cv_auto_free char *path = NULL;
        cv_auto_free struct dirent *entry = entries[i];
        if (result || entry->d_name[0] == '.') {
            continue; /* continue, so that all are freed */
        }
        result = cv_format(&path, error, "%s/%s", folder, entry->d_name);
        result = result ? result : add_entry(search, path, entry->d_name, depth, error);
        if (result < 0 && is_of_one(error)) {
            leave_out(search, error);
            result = 0;
        }
    }
    free(entries);
    return result;
}

/* ---- looking --------------------------------------------------------------------------------- */

static int find_one(const struct search *search, const char *place, struct cv_error *error)
{
    struct stat status;
    char program[PATH_MAX];
    struct cli_sources *sources = search->sources;
    if (strcmp(place, "-") == 0) {
        return add(sources, CLI_SOURCE_INPUT, place, error);
    }
    if (strstr(place, "://")) {
        return cli_find_program("yt-dlp", program)
                   ? add(sources, CLI_SOURCE_URL, place, error)
                   : cv_fail(error, CV_ERROR_CONFIGURATION,
                             "%s is a URL, and yt-dlp, which fetches them, is not installed: "
                             "apt-get install yt-dlp, or fetch the file and name it",
                             place);
    }
    CV_TRY(read_status(place, &status, error));
    if (S_ISREG(status.st_mode)) {
        return add(sources, CLI_SOURCE_FILE, place, error);
    }
    if (!S_ISDIR(status.st_mode)) {
        return cv_fail(error, CV_ERROR_IO, "%s is neither a file nor a folder", place);
    }
    size_t before = sources->count + sources->bad;
    CV_TRY(add_folder(search, place, 0, error));
    if (sources->count + sources->bad == before) {
        return cv_fail(error, CV_ERROR_NOT_FOUND, "there is no video in %s%s (looked for: %s)",
                       place,
                       search->recursive ? "" : ": --recursive looks into the folders within, too",
                       extensions);
    }
    return 0;
}

int cli_sources_find(const struct cli_call *call, struct cli_sources *sources, bool recursive,
                     struct cv_error *error)
{
    const struct search search = {.sources = sources, .call = call, .recursive = recursive};
    for (int i = 0; i < call->count; i++) {
        int result = find_one(&search, call->arguments[i], error);
        if (result < 0 && !is_of_one(error)) {
            return result;
        } else if (result < 0) {
            leave_out(&search, error);
        }
    }
    return 0;
}

/* ---- fetching -------------------------------------------------------------------------------- */

static int copy_input(const char *path, struct cv_cancel *cancel, struct cv_error *error)
{
    cv_auto_fd int fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
    cv_auto_free char *data = malloc(COPY_SIZE);
    CV_TRY_ERRNO(fd >= 0 && data, error, "keep standard input in %s", path);
    int64_t size = 0;
    for (;;) {
        struct pollfd waits[] = {{.fd = STDIN_FILENO, .events = POLLIN},
                                 {.fd = cv_cancel_fd(cancel), .events = POLLIN}};
        (void)poll(waits, CV_COUNT(waits), -1);
        if (cv_cancel_level(cancel) != CV_CANCEL_NONE) {
            return cv_fail(error, CV_ERROR_CANCELED, "interrupted");
        }
        ssize_t length = read(STDIN_FILENO, data, COPY_SIZE);
        if (length < 0 && (errno == EINTR || errno == EAGAIN)) {
            continue;
        }
        CV_TRY_ERRNO(length >= 0, error, "cannot read standard input");
        if (length == 0) {
            break;
        }
        CV_TRY_ERRNO(cv_write_all(fd, data, (size_t)length) == 0, error,
                     "keep standard input in %s", path);
        size += length;
    }
    return size > 0 ? 0 : cv_fail(error, CV_ERROR_IO, "standard input is empty");
}

/* Reads from its log why yt-dlp failed: the first error, else the last line. */
static void read_reason(const char *path, char reason[256])
{
    static const char mark[] = "ERROR: ";
    char text[256];
    cv_auto_file FILE *file = fopen(path, "re");
    reason[0] = '\0';
    while (file && fgets(text, sizeof(text), file)) {
        bool is_error = strncmp(text, mark, sizeof(mark) - 1) == 0;
        text[strcspn(text, "\n")] = '\0';
        if (text[0] != '\0') {
            (void)snprintf(reason, 256, "%s", text + (is_error ? sizeof(mark) - 1 : 0));
        }
        if (is_error) {
            return;
        }
    }
}

static int run_yt_dlp(const char *url, const char *folder, const char *log_path,
                      struct cv_cancel *cancel, struct cv_error *error)
{
    char program[PATH_MAX];
    char output[PATH_MAX + 64];
    char line[256];
    cv_auto_fd int log = open(log_path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    CV_TRY_ERRNO(log >= 0 && cli_find_program("yt-dlp", program), error, "fetch %s", url);
    (void)snprintf(output, sizeof(output), "%s/%%(title).120B [%%(id)s].%%(ext)s", folder);
    const char *const argv[] = {
        program, "--quiet", "--no-progress", "--no-part", "-o", output, "--", url, NULL};
    const struct cli_process_params params = {
        .argv = argv, .without_pg = true, .output = log, .dies_with_parent = true};
    int status = 0;
    CV_TRY(cli_process_await(&params, cancel, &status, error));
    if (!WIFEXITED(status) || WEXITSTATUS(status) != 0) {
        read_reason(log_path, line);
        return cv_fail(error, CV_ERROR_IO, "yt-dlp could not fetch %s: %s", url, line);
    }
    return 0;
}

static void remove_folder(const char *folder)
{
    DIR *stream = opendir(folder);
    for (struct dirent *entry; stream && (entry = readdir(stream));) {
        (void)unlinkat(dirfd(stream), entry->d_name, 0);
    }
    if (stream) {
        (void)closedir(stream);
    }
    (void)rmdir(folder);
}

/* The outcome of a failure that concerns this source alone. */
static int unless_of_one(int result, const struct cv_error *error)
{
    return result < 0 && is_of_one(error) ? CLI_SOURCE_UNREADABLE : result;
}

int cli_source_open(const struct cli_source *source, const char *folder,
                    const struct cli_call *call, cli_source_take *take, void *opaque,
                    struct cv_error *error)
{
    const char *slash = strrchr(source->place, '/');
    char own[PATH_MAX + 32];
    char path[PATH_MAX + 64];
    if (source->kind == CLI_SOURCE_FILE) {
        return take(opaque, source->place, slash ? slash + 1 : source->place, error);
    }
    (void)snprintf(own, sizeof(own), "%s/fetch-XXXXXX", folder);
    CV_TRY_ERRNO(mkdtemp(own), error, "make a folder in %s", folder);
    int result = 0;
    if (source->kind == CLI_SOURCE_INPUT) {
        (void)snprintf(path, sizeof(path), "%s/stdin", own);
        result = unless_of_one(copy_input(path, call->cancel, error), error);
        result = result ? result : take(opaque, path, "stdin", error);
    } else {
        cv_auto(cli_sources_deinit) struct cli_sources found = {0};
        const struct search search = {.sources = &found, .call = call};
        (void)snprintf(path, sizeof(path), "%s/.log", own);
        result = run_yt_dlp(source->place, own, path, call->cancel, error);
        result = result ? result : add_folder(&search, own, 0, error);
        if (result == 0 && found.count == 0) {
            result = cv_fail(error, CV_ERROR_IO, "yt-dlp fetched no video from %s", source->place);
        }
        result = unless_of_one(result, error);
        for (size_t i = 0; result == 0 && i < found.count; i++) {
            const char *file = found.sources[i].place;
            result = take(opaque, file, strrchr(file, '/') + 1, error);
        }
    }
    remove_folder(own);
    return result;
}
