#include "cli/commands/clip.h"

#include "cli/commands/export.h"
#include "cli/commands/server.h"
#include "cli/commands/verbs.h"
#include "cli/commands/wait.h"

#include <string.h>

static const char *text_of(const json_t *object, const char *name)
{
    const char *text = json_string_value(json_object_get(object, name));
    return text ? text : "";
}

int cli_clip_make(struct cli_call *call, struct cli_workers *workers, const char *operation,
                  const json_t *values, json_t **ret_clip, struct cv_error *error)
{
    cv_auto(json_decref) json_t *clip = NULL;
    CV_TRY(cli_ask(call, operation, values, &clip, error));
    if (strcmp(text_of(clip, "state"), "done") != 0) {
        CV_TRY(call->session.is_local ? cli_workers_start(workers, "clip_generate", error) : 0);
        CV_TRY(cli_wait_for_clip(call, workers, &clip, error));
    }
    *ret_clip = cv_take(clip);
    return 0;
}

char *cli_clip_key(const json_t *clip)
{
    const char *path = text_of(clip, "path");
    return strndup(path, strcspn(path, "?"));
}

/* ---- the file -------------------------------------------------------------------------------- */

struct clip_file {
    struct cli_call *call;
    const json_t *clip;
};

/* Copies the clip from the server, or from the store. */
static int copy_clip(void *opaque, cli_write *write, void *file, struct cv_error *error)
{
    const struct clip_file *wanted = opaque;
    if (wanted->call->server) {
        return cli_server_read(wanted->call->server, NULL, NULL, text_of(wanted->clip, "url"),
                               write, file, error);
    }
    cv_auto_free char *key = cli_clip_key(wanted->clip);
    CV_TRY_MEMORY(key, error, "a clip");
    int result = cli_read_object(wanted->call->session.store, key, write, file, error);
    return result == CV_STORE_NOT_FOUND
               ? cv_fail(error, CV_ERROR_NOT_FOUND, "the clip is gone; ask for it again")
               : result;
}

/* The name of the clip's file. A server that is not to be trusted may not choose a folder. */
static const char *file_name(const json_t *clip)
{
    const char *name = text_of(clip, "name");
    const char *slash = strrchr(name, '/');
    name = slash ? slash + 1 : name;
    return name[0] && name[0] != '.' ? name : "clip";
}

/* Makes the clip and writes its file. A clip whose object is gone (it expired in the bucket) is
 * removed, and made once more. A request that is refused is wrong usage. */
static int make_file(struct cli_call *call, const char *operation, const json_t *values,
                     const char *output, json_t **ret_clip, struct cv_error *error)
{
    cv_auto(cli_workers_stop) struct cli_workers workers;
    cli_workers_init(&workers, &call->session);
    for (bool is_again = false;; is_again = true) {
        cv_auto(json_decref) json_t *clip = NULL;
        int result = cli_clip_make(call, &workers, operation, values, &clip, error);
        if (result < 0 && error->type == CV_ERROR_INVALID_PAYLOAD && !clip) {
            return cli_usage(call, "%s", error->message);
        }
        CV_TRY(result);
        struct clip_file wanted = {call, clip};
        result = cli_write_file(output ? output : file_name(clip), copy_clip, &wanted, error);
        if (result == 0 || is_again || error->type != CV_ERROR_NOT_FOUND) {
            *ret_clip = cv_take(clip);
            return result;
        }
        cv_auto(json_decref) json_t *gone = NULL;
        cv_auto(json_decref) json_t *id = json_pack("{s:s}", "id", text_of(clip, "id"));
        CV_TRY_MEMORY(id, error, "a request");
        CV_TRY(cli_ask(call, "delete_clip", id, &gone, error));
    }
}

/* Checks the folder of the output file before the work is done. */
static int check_output(struct cli_call *call, const char *path)
{
    cv_auto_free char *folder = strdup(path);
    char *slash = folder ? strrchr(folder, '/') : NULL;
    if (slash) {
        *slash = '\0';
    }
    const char *name = !slash ? "." : folder[0] ? folder : "/";
    return access(name, W_OK)
               ? cli_usage(call, "cannot write into the folder %s: %s", name, strerror(errno))
               : 0;
}

/* Checks that the times are as many as the format needs, and in their order. */
static int check_times(struct cli_call *call, const char *format)
{
    int64_t start = 0;
    int64_t end = 0;
    bool is_moment = strcmp(format, "jpg") == 0;
    if (call->count != (is_moment ? 2 : 3)) {
        return cli_usage(call, is_moment ? "a jpg is the frame of one moment: VIDEO TIME"
                                         : "it needs where the clip starts and where it ends; the "
                                           "frame of one moment is --format jpg, or -o FILE.jpg");
    }
    bool is_wrong = !is_moment && cli_parse_time(call->arguments[1], &start) &&
                    cli_parse_time(call->arguments[2], &end) && end <= start;
    return is_wrong ? cli_usage(call, "the clip would end (%s) before it starts (%s)",
                                call->arguments[2], call->arguments[1])
                    : 0;
}

int cli_clip(struct cli_call *call, struct cv_error *error)
{
    const char *output = cli_value(call, "output");
    char format[CLI_EXTENSION_SIZE];
    cv_auto(json_decref) json_t *values = NULL;
    cv_auto(json_decref) json_t *clip = NULL;
    CV_TRY(cli_output_format(call, output, CLI_CLIP_FORMATS, format));
    CV_TRY(check_times(call, format));
    CV_TRY(output ? check_output(call, output) : 0);
    CV_TRY(cli_open(call, error));
    CV_TRY(cli_read_values(call, &values, error));
    CV_TRY_MEMORY(!format[0] || cli_set_member(values, "options.format", json_string(format)),
                  error, "a request");
    CV_TRY(make_file(call, "request_clip", values, output, &clip, error));
    const char *file = output ? output : file_name(clip);
    cv_auto_free char *key = call->server ? NULL : cli_clip_key(clip);
    return cli_print_outcome(call,
                             json_pack("{s:s, s:s*, s:s, s:O, s:O}", "file", file, "object", key,
                                       "video", text_of(clip, "video_id"), "start_ms",
                                       json_object_get(clip, "t_start"), "end_ms",
                                       json_object_get(clip, "t_end")),
                             error, "%s", file);
}

/* Makes what the operation makes of the verb's values. */
static int make(struct cli_call *call, const char *operation, const char **ret_file,
                json_t **ret_clip, struct cv_error *error)
{
    const char *output = cli_value(call, "output");
    cv_auto(json_decref) json_t *values = NULL;
    CV_TRY(output ? check_output(call, output) : 0);
    CV_TRY(cli_open(call, error));
    CV_TRY(cli_read_values(call, &values, error));
    CV_TRY(make_file(call, operation, values, output, ret_clip, error));
    *ret_file = output ? output : file_name(*ret_clip);
    return 0;
}

int cli_quote(struct cli_call *call, struct cv_error *error)
{
    const char *file;
    cv_auto(json_decref) json_t *quote = NULL;
    CV_TRY(make(call, "quote", &file, &quote, error));
    return cli_print_outcome(call,
                             json_pack("{s:s, s:O, s:O}", "file", file, "video",
                                       json_object_get(quote, "video_id"), "alt",
                                       json_object_get(quote, "alt")),
                             error, "%s", file);
}

int cli_reel(struct cli_call *call, struct cv_error *error)
{
    const char *file;
    cv_auto(json_decref) json_t *reel = NULL;
    CV_TRY(make(call, "reel", &file, &reel, error));
    const json_t *left, *parts = json_object_get(reel, "parts");
    const json_t *places = json_object_get(reel, "places");
    size_t i;
    cli_print_note(call, "%lld of %lld places", (long long)json_integer_value(parts),
                   (long long)json_integer_value(places));
    json_array_foreach(json_object_get(reel, "left_out"), i, left)
    {
        cli_print_note(call, "left out of video %.8s: %s", text_of(left, "video_id"),
                       text_of(left, "reason"));
    }
    return cli_print_outcome(call,
                             json_pack("{s:s, s:O, s:O, s:O}", "file", file, "parts", parts,
                                       "places", places, "left_out",
                                       json_object_get(reel, "left_out")),
                             error, "%s", file);
}
