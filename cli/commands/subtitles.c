#include "cli/commands/subtitles.h"

#include "cli/commands/operation.h"
#include "cli/commands/verbs.h"

#include <dirent.h>
#include <string.h>

enum { TEXT_MAX = 900000 }; /* of a request to a server (SubtitlesRequest) */

static const char *name_of(const char *path)
{
    const char *slash = strrchr(path, '/');
    return slash ? slash + 1 : path;
}

static int read_text(const char *path, json_t *values, struct cv_error *error)
{
    cv_auto_free char *text = malloc(TEXT_MAX + 1);
    CV_TRY_MEMORY(text, error, "subtitles");
    FILE *file = fopen(path, "re");
    CV_TRY_ERRNO(file, error, "cannot read %s", path);
    size_t length = fread(text, 1, TEXT_MAX + 1, file);
    bool is_bad = ferror(file) != 0;
    (void)fclose(file);
    json_t *string = is_bad || length > TEXT_MAX ? NULL : json_stringn(text, length);
    return string && json_object_set_new(values, "text", string) == 0
               ? 0
               : cv_fail(error, CV_ERROR_UNSUPPORTED_MEDIA,
                         "%s is no text in UTF-8 of at most %d bytes", path, TEXT_MAX);
}

/* Puts the file where the operation says, and what it then wants to know into its parameters. */
static int store_file(struct cli_call *call, const char *path, json_t *values,
                      struct cv_error *error)
{
    cv_auto(json_decref) json_t *place = NULL;
    struct cv_object_info info;
    CV_TRY(cli_ask(call, "add_subtitles", values, &place, error));
    const struct cv_new_object object = {.key = json_string_value(json_object_get(place, "key")),
                                         .path = path};
    CV_TRY(cv_store_put(call->session.store, &object, &info, error));
    cv_auto(json_decref) json_t *stored =
        json_pack("{s:s, s:I}", "etag", info.etag, "size", (json_int_t)info.size);
    CV_TRY_MEMORY(stored && json_object_update(values, stored) == 0, error, "subtitles");
    return 0;
}

static int add_file(struct cli_call *call, const char *video_id, const char *path, const char *name,
                    json_t **ret_answer, struct cv_error *error)
{
    cv_auto(json_decref) json_t *values = json_pack("{s:s, s:s}", "id", video_id, "name", name);
    CV_TRY_MEMORY(values, error, "subtitles");
    CV_TRY(call->server ? read_text(path, values, error) : store_file(call, path, values, error));
    return cli_ask(call, "add_subtitles", values, ret_answer, error);
}

int cli_subtitles(struct cli_call *call, struct cv_error *error)
{
    char id[CLI_UUID_SIZE];
    cv_auto(json_decref) json_t *answer = NULL;
    const char *path = call->arguments[1];
    CV_TRY(cli_open(call, error));
    CV_TRY(cli_find(call, "video", call->arguments[0], id, error));
    CV_TRY(add_file(call, id, path, name_of(path), &answer, error));
    if (call->json) {
        return cli_put_json(answer, error);
    }
    const char *job = json_string_value(json_object_get(answer, "job_id"));
    (void)printf("%s is read by job %s (cortana jobs show says what became of it)\n", path,
                 job ? job : "");
    return 0;
}

int cli_add_subtitles_beside(struct cli_call *call, const char *video_id, const char *path,
                             struct cv_error *error)
{
    struct dirent **entries = NULL;
    cv_auto_free char *folder = NULL;
    const char *name = name_of(path);
    const char *dot = strrchr(name, '.');
    size_t stem = dot ? (size_t)(dot - name) : strlen(name);
    CV_TRY(cv_format(&folder, error, "%.*s", name > path ? (int)(name - path) : 1,
                     name > path ? path : "."));
    int count = scandir(folder, &entries, NULL, alphasort);
    int result = 0;
    for (int i = 0; i < count; i++) {
        cv_auto_free struct dirent *entry = entries[i];
        cv_auto_free char *file = NULL;
        cv_auto(json_decref) json_t *answer = NULL;
        cv_auto(cv_db_result_free) struct cv_db_result *rows = NULL;
        if (result || strncmp(entry->d_name, name, stem) != 0 ||
            !cv_name_is_of_subtitles(entry->d_name)) {
            continue; /* continue, so that all are freed */
        }
        result = cv_db_run(call->session.db, &rows, error,
                           "SELECT subtitle_ending($1) = lower($1) AS fits", entry->d_name + stem);
        if (result == 0 && cv_db_bool(rows, 0, "fits")) {
            result = cv_format(&file, error, "%s/%s", folder, entry->d_name);
            result = result ? result
                            : add_file(call, video_id, file, entry->d_name + stem, &answer, error);
        }
    }
    free(entries);
    return result;
}
