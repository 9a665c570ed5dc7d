#include "common/store/dir/directory.h"

#include <dirent.h>
#include <fcntl.h>
#include <limits.h>
#include <string.h>

size_t cv_directory_parent_length(const char *key)
{
    const char *slash = strrchr(key, '/');
    return slash ? (size_t)(slash - key) : 0;
}

int cv_directory_check_key(const char *key, struct cv_error *error)
{
    size_t first = strcspn(key, "/");
    if (first == strlen(CV_DIRECTORY_INCOMING) && strncmp(key, CV_DIRECTORY_INCOMING, first) == 0) {
        return cv_fail(error, CV_ERROR_INVALID_KEY,
                       "object key starts with " CV_DIRECTORY_INCOMING
                       "; the directory store uses this name itself");
    }
    for (const char *segment = key;;) {
        size_t length = strcspn(segment, "/");
        if (length > NAME_MAX) {
            return cv_fail(error, CV_ERROR_INVALID_KEY,
                           "object key has a segment of %zu bytes; a file name has at most %d",
                           length, NAME_MAX);
        }
        if (segment[length] == '\0') {
            return 0;
        }
        segment += length + 1;
    }
}

static int walk(const struct cv_directory_store *directory, const char *key, size_t length,
                bool make, int *ret_fd, struct cv_error *error)
{
    int fd = cv_open_directory_below(directory->root, key, length, make);
    if (fd >= 0) {
        *ret_fd = fd;
        return 0;
    }
    bool in_the_way = errno == ENOTDIR || errno == ELOOP;
    if (in_the_way && make) {
        return cv_fail(error, CV_ERROR_INVALID_KEY,
                       "a part of the object key %s is an object or a link, no directory", key);
    }
    return in_the_way || errno == ENOENT
               ? (int)CV_STORE_NOT_FOUND
               : cv_fail_errno(error, errno, "%s the directory of %s", make ? "make" : "open", key);
}

int cv_directory_walk(const struct cv_directory_store *directory, const char *key, size_t length,
                      int *ret_fd, struct cv_error *error)
{
    return walk(directory, key, length, false, ret_fd, error);
}

int cv_directory_make(const struct cv_directory_store *directory, const char *key, size_t length,
                      int *ret_fd, struct cv_error *error)
{
    return walk(directory, key, length, true, ret_fd, error);
}

/* The state of a listing. `path` is the current directory: "" or "a/b/". */
struct walk {
    const char *prefix;
    const char *continuation; /* "" for the first page */
    size_t limit;
    struct cv_object_list *list;
    bool full;
    char path[CV_STORE_KEY_MAX + 2];
};

/* The entries of one directory. Names of directories end with '/', so that the byte order of names
 * is that of the keys. */
struct names {
    char **names;
    size_t count;
};

static void names_deinit(struct names *names)
{
    for (size_t i = 0; i < names->count; i++) {
        free(names->names[i]);
    }
    free(names->names);
}
CV_DEFINE_CLEANUP_ADDRESS(struct names, names_deinit)

static void close_stream(DIR *stream)
{
    (void)closedir(stream);
}
CV_DEFINE_CLEANUP(DIR *, close_stream)

static bool starts_with(const char *text, const char *start)
{
    return strncmp(text, start, strlen(start)) == 0;
}

/* Whether a key, or a key under a directory ("…/"), can be on this page. */
static bool may_hold(const struct walk *walk, const char *path, bool is_directory)
{
    if (!is_directory) {
        return starts_with(path, walk->prefix) && strcmp(path, walk->continuation) > 0;
    }
    if (!starts_with(path, walk->prefix) && !starts_with(walk->prefix, path)) {
        return false;
    }
    return starts_with(walk->continuation, path) || strcmp(path, walk->continuation) > 0;
}

static int add_name(struct names *names, const char *name, bool is_directory,
                    struct cv_error *error)
{
    CV_TRY_MEMORY(CV_MAKE_ROOM(names->names, names->count), error, "a list of names");
    char *copy = NULL;
    CV_TRY(cv_format(&copy, error, "%s%s", name, is_directory ? "/" : ""));
    names->names[names->count++] = copy;
    return 0;
}

/* Whether an entry is an object or a directory of objects; neither for links and devices. */
static bool classify(int fd, const struct dirent *entry, bool *ret_is_directory)
{
    unsigned char type = entry->d_type;
    struct stat status;
    if (type == DT_UNKNOWN && fstatat(fd, entry->d_name, &status, AT_SYMLINK_NOFOLLOW) == 0) {
        type = S_ISDIR(status.st_mode) ? DT_DIR : S_ISREG(status.st_mode) ? DT_REG : DT_UNKNOWN;
    }
    *ret_is_directory = type == DT_DIR;
    return type == DT_DIR || type == DT_REG;
}

/* Whether this entry belongs to the listing. A file whose path is not a valid key (made by hand)
 * does not. */
static bool is_wanted(const struct walk *walk, int fd, const struct dirent *entry,
                      bool *ret_is_directory)
{
    char path[CV_STORE_KEY_MAX + 2];
    struct cv_error ignored;
    if (strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0 ||
        (walk->path[0] == '\0' && strcmp(entry->d_name, CV_DIRECTORY_INCOMING) == 0) ||
        !classify(fd, entry, ret_is_directory) ||
        snprintf(path, sizeof(path), "%s%s", walk->path, entry->d_name) >= (int)sizeof(path) ||
        cv_store_check_key(path, &ignored)) {
        return false;
    }
    if (*ret_is_directory) {
        size_t length = strlen(path); /* the buffer has room for more than a key */
        path[length] = '/';
        path[length + 1] = '\0';
    }
    return may_hold(walk, path, *ret_is_directory);
}

static int compare_names(const void *left, const void *right)
{
    return strcmp(*(char *const *)left, *(char *const *)right);
}

static int read_names(const struct walk *walk, int fd, struct names *names, struct cv_error *error)
{
    int again = openat(fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    cv_auto(close_stream) DIR *stream = again >= 0 ? fdopendir(again) : NULL;
    if (!stream) {
        int error_number = errno;
        if (again >= 0) {
            close(again);
        }
        /* The directory was deleted after it was opened: it counts as empty. */
        return error_number == ENOENT ? 0
                                      : cv_fail_errno(error, error_number, "list %s", walk->path);
    }
    for (;;) {
        errno = 0;
        struct dirent *entry = readdir(stream);
        if (!entry) {
            break;
        }
        bool is_directory = false;
        if (is_wanted(walk, fd, entry, &is_directory)) {
            CV_TRY(add_name(names, entry->d_name, is_directory, error));
        }
    }
    CV_TRY_ERRNO(errno == 0, error, "list %s", walk->path);
    if (names->count > 1) {
        qsort(names->names, names->count, sizeof(names->names[0]), compare_names);
    }
    return 0;
}

static int add_object(struct walk *walk, int fd, const char *name, struct cv_error *error)
{
    struct stat status;
    if (fstatat(fd, name, &status, AT_SYMLINK_NOFOLLOW) || !S_ISREG(status.st_mode)) {
        return 0; /* it was deleted meanwhile */
    }
    if (walk->list->count == walk->limit) {
        walk->full = true;
        return 0;
    }
    char key[CV_STORE_KEY_MAX + 2];
    (void)snprintf(key, sizeof(key), "%s%s", walk->path, name);
    /* Opened to read the part of the ETag that is in the file's attributes. */
    cv_auto_fd int object = openat(fd, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
    struct cv_object_info info;
    cv_directory_read_info(object, &status, &info);
    return cv_object_list_add(walk->list, key, &info, error);
}

static int list_directory(struct walk *walk, int fd, struct cv_error *error);

static int list_below(struct walk *walk, int fd, char *name, struct cv_error *error)
{
    size_t length = strlen(name);
    size_t base = strlen(walk->path);
    name[length - 1] = '\0';
    cv_auto_fd int below = openat(fd, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    name[length - 1] = '/';
    if (below < 0) {
        return errno == ENOENT || errno == ENOTDIR || errno == ELOOP
                   ? 0
                   : cv_fail_errno(error, errno, "list %s%s", walk->path, name);
    }
    memcpy(walk->path + base, name, length + 1);
    int result = list_directory(walk, below, error);
    walk->path[base] = '\0';
    return result;
}

static int list_directory(struct walk *walk, int fd, struct cv_error *error)
{
    cv_auto(names_deinit) struct names names = {0};
    CV_TRY(read_names(walk, fd, &names, error));
    for (size_t i = 0; !walk->full && i < names.count; i++) {
        char *name = names.names[i];
        CV_TRY(name[strlen(name) - 1] == '/' ? list_below(walk, fd, name, error)
                                             : add_object(walk, fd, name, error));
    }
    return 0;
}

int cv_directory_list(struct cv_store *store, const struct cv_listing *listing,
                      struct cv_object_list *ret_list, struct cv_error *error)
{
    struct cv_directory_store *directory = (struct cv_directory_store *)store;
    struct walk walk = {
        .prefix = listing->prefix,
        .continuation = listing->continuation  ? listing->continuation
                        : listing->start_after ? listing->start_after
                                               : "",
        .limit = listing->limit,
        .list = ret_list,
    };
    CV_TRY(list_directory(&walk, directory->root, error));
    if (walk.full) {
        ret_list->continuation = strdup(ret_list->entries[ret_list->count - 1].key);
        CV_TRY_MEMORY(ret_list->continuation, error, "a list of objects");
    }
    return 0;
}
