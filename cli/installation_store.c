#include "cli/installation.h"

#include <dirent.h>
#include <fcntl.h>
#include <string.h>

enum { URL_MAX = 4096 };

/* The URL that was noted, "" when none was. */
static int read_note(const char *path, char url[URL_MAX], struct cv_error *error)
{
    cv_auto_fd int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
    url[0] = '\0';
    if (fd < 0) {
        return errno == ENOENT ? 0 : cv_fail_errno(error, errno, "read %s", path);
    }
    ssize_t length = read(fd, url, URL_MAX - 1);
    if (length < 0) {
        return cv_fail_errno(error, errno, "read %s", path);
    }
    url[length] = '\0';
    url[strcspn(url, "\n")] = '\0';
    return 0;
}

/* Written beside and renamed: a note is whole or not there. */
static int write_note(const char *path, const char *url, struct cv_error *error)
{
    cv_auto_free char *new_path = NULL;
    int result = cv_format(&new_path, error, "%s.new", path);
    if (result) {
        return result;
    }
    cv_auto_file FILE *file = fopen(new_path, "w");
    if (!file || fprintf(file, "%s\n", url) < 0 || fflush(file) || fsync(fileno(file)) ||
        rename(new_path, path)) {
        return cv_fail_errno(error, errno, "write %s", path);
    }
    return 0;
}

/* Whether the directory store has objects; its own directories begin with a dot. */
static bool has_objects(const char *path)
{
    DIR *stream = opendir(path);
    bool found = false;
    for (struct dirent *entry; stream && !found && (entry = readdir(stream));) {
        found = entry->d_name[0] != '.';
    }
    if (stream) {
        closedir(stream);
    }
    return found;
}

int cli_installation_store(const struct cli_installation *installation, const char *wanted,
                           char **ret_url, struct cv_error *error)
{
    cv_auto_free char *directory = NULL;
    cv_auto_free char *note = NULL;
    char noted[URL_MAX];
    int result = cv_format(&directory, error, "%s/store", installation->directory);
    result = result ? result : cv_format(&note, error, "%s/store.url", installation->directory);
    result = result ? result : read_note(note, noted, error);
    if (result) {
        return result;
    }
    if (!wanted || strcmp(wanted, noted) == 0) {
        return cv_format(ret_url, error, "%s%s",
                         noted[0] ? "" : "dir:", noted[0] ? noted : directory);
    }
    if (noted[0] || has_objects(directory)) {
        return cv_fail(error, CV_ERROR_CONFLICT,
                       "this installation keeps its objects in %s; for another store name another "
                       "directory with --data DIR",
                       noted[0] ? noted : directory);
    }
    if (strlen(wanted) >= URL_MAX - 1 || strchr(wanted, '\n')) {
        return cv_fail(error, CV_ERROR_CONFIGURATION, "the store's URL is unusable");
    }
    result = write_note(note, wanted, error);
    return result ? result : cv_format(ret_url, error, "%s", wanted);
}
