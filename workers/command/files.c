#include "workers/command/files.h"

#include "common/store/store.h"

#include <fcntl.h>
#include <fts.h>
#include <limits.h>
#include <string.h>
#include <sys/stat.h>

enum {
    FILES_MAX = 1000,
    COPY_BYTES = 1 << 20,
};

static const char inputs_folder[] = "inputs";
static const char outputs_folder[] = "outputs";

void command_files_deinit(struct command_files *files)
{
    free(files->folder);
}

/* ---- inputs ---------------------------------------------------------------------------------- */

/* Creates the parent folders of the file `path`; the first `start` characters of the path exist
 * already. */
static int make_folders(char *path, size_t start, struct cv_error *error)
{
    for (char *slash = strchr(path + start, '/'); slash; slash = strchr(slash + 1, '/')) {
        *slash = '\0';
        bool failed = mkdir(path, 0777) != 0 && errno != EEXIST;
        *slash = '/';
        if (failed) {
            return cv_fail_errno(error, errno, "cannot make a folder for %s", path);
        }
    }
    return 0;
}

static int fetch_file(struct cv_stage_context *context, const char *key, const char *path,
                      struct cv_error *error)
{
    cv_auto(cv_store_reader_close) struct cv_store_reader *reader = NULL;
    cv_auto_free char *data = malloc(COPY_BYTES);
    CV_TRY(cv_stage_open_input(context, key, &reader, error));
    cv_auto_fd int fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
    if (!data || fd < 0) {
        return cv_fail_errno(error, data ? errno : ENOMEM, "cannot write %s", path);
    }
    struct cv_byte_source source = cv_store_reader_source(reader);
    size_t got = 1;
    for (int64_t offset = 0; got > 0; offset += (int64_t)got) {
        CV_TRY(source.read(source.opaque, offset, data, COPY_BYTES, &got, error));
        if (cv_write_all(fd, data, got)) {
            return cv_fail_errno(error, errno, "cannot write %s", path);
        }
    }
    return 0;
}

/* Fetches the files whose keys begin with `folder` into inputs/{input}/. */
static int fetch_input(struct cv_stage_context *context, const char *input, const char *folder,
                       struct cv_error *error)
{
    cv_auto_free char *continuation = NULL;
    const char *scratch = cv_stage_scratch(context);
    do {
        cv_auto(cv_object_list_deinit) struct cv_object_list page = {.count = 0};
        int result = cv_store_list(cv_stage_store(context), folder, continuation, CV_STORE_PAGE_MAX,
                                   &page, error);
        for (size_t i = 0; result == 0 && i < page.count; i++) {
            cv_auto_free char *path = NULL;
            const char *key = page.entries[i].key;
            result = cv_format(&path, error, "%s/%s/%s/%s", scratch, inputs_folder, input,
                               key + strlen(folder));
            result = result ? result : make_folders(path, strlen(scratch) + 1, error);
            result = result ? result : fetch_file(context, key, path, error);
        }
        if (result) {
            return result;
        }
        free(continuation);
        continuation = cv_take(page.continuation);
    } while (continuation);
    return 0;
}

int command_files_fetch(struct cv_stage_context *context, const char *job_id,
                        struct command_files *ret_files, struct cv_error *error)
{
    cv_auto(cv_db_result_free) struct cv_db_result *rows = NULL;
    cv_auto_free char *path = NULL;
    *ret_files = (struct command_files){0};
    CV_TRY(cv_format(&path, error, "%s/%s", cv_stage_scratch(context), outputs_folder));
    if (mkdir(path, 0777) != 0) {
        return cv_fail_errno(error, errno, "cannot make %s", path);
    }
    if (!job_id) {
        return 0;
    }
    CV_TRY(cv_db_run(cv_stage_db(context), &rows, error,
                     "SELECT input, folder FROM command_files($1::uuid)", job_id));
    for (int i = 0; i < cv_db_rows(rows); i++) {
        const char *input = cv_db_text(rows, i, "input");
        const char *folder = cv_db_text(rows, i, "folder");
        if (!input) {
            CV_TRY(cv_format(&ret_files->folder, error, "%s", folder));
            continue;
        }
        CV_TRY(cv_stage_open_store(context, error));
        CV_TRY(fetch_input(context, input, folder, error));
    }
    return 0;
}

/* ---- outputs --------------------------------------------------------------------------------- */

static int keep_entry(struct cv_stage_context *context, const struct command_files *files,
                      const FTSENT *entry, size_t root_length, struct cv_error *error)
{
    cv_auto_free char *key = NULL;
    switch (entry->fts_info) {
    case FTS_D:
    case FTS_DP:
        return 0;
    case FTS_F:
        break;
    case FTS_DNR:
    case FTS_ERR:
    case FTS_NS:
        return cv_fail_errno(error, entry->fts_errno, "cannot read %s", entry->fts_path);
    default:
        return cv_fail(error, CV_ERROR_INVALID_PAYLOAD, "outputs%s is neither a file nor a folder",
                       entry->fts_path + root_length);
    }
    CV_TRY(cv_format(&key, error, "%s%s", files->folder, entry->fts_path + root_length + 1));
    CV_TRY(cv_stage_open_store(context, error));
    return cv_stage_put_file(context, key, entry->fts_path, NULL, error);
}

CV_DEFINE_CLEANUP(FTS *, fts_close)

int command_files_keep(struct cv_stage_context *context, const struct command_files *files,
                       struct cv_error *error)
{
    if (!files->folder) {
        return 0;
    }
    cv_auto_free char *root = NULL;
    int result = cv_format(&root, error, "%s/%s", cv_stage_scratch(context), outputs_folder);
    if (result) {
        return result;
    }
    char *const roots[] = {root, NULL};
    cv_auto(fts_close) FTS *walk = fts_open(roots, FTS_PHYSICAL | FTS_NOCHDIR, NULL);
    size_t count = 0;
    errno = 0;
    for (FTSENT *entry; walk && result == 0 && (entry = fts_read(walk)); errno = 0) {
        if (entry->fts_info == FTS_F && ++count > FILES_MAX) {
            return cv_fail(error, CV_ERROR_LIMIT_EXCEEDED,
                           "the command has written more than %d files to outputs/", FILES_MAX);
        }
        result = entry->fts_level == FTS_ROOTLEVEL && entry->fts_errno == ENOENT
                     ? 0 /* the program has removed the folder */
                     : keep_entry(context, files, entry, strlen(root), error);
    }
    if (result == 0 && errno != 0) {
        return cv_fail_errno(error, errno, "cannot read %s", root);
    }
    return result;
}
