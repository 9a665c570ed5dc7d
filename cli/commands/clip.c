#include "cli/commands/clip.h"

#include "common/queue/queue.h"

#include "cli/commands/operation.h"
#include "cli/commands/verbs.h"
#include "cli/commands/wait.h"

#include <string.h>
#include <sys/stat.h>

enum { COPY_SIZE = 1 << 20 };
#define REFUSED_REQUEST "22023"

/* ---- the job --------------------------------------------------------------------------------- */

struct request {
    char dedupe_key[CLI_UUID_SIZE + 8];
    json_t *payload;
    char *key;
};

static void request_deinit(struct request *request)
{
    json_decref(request->payload);
    free(request->key);
}
CV_DEFINE_CLEANUP_ADDRESS(struct request, request_deinit)

/* Makes the options for plan_clip(), without those that were not given. */
static int options_text(const struct cli_clip *clip, char **ret_text, struct cv_error *error)
{
    cv_auto(json_decref) json_t *options = json_object();
    bool good = options != NULL;
    if (good && clip->mode) {
        good = json_object_set_new(options, "mode", json_string(clip->mode)) == 0;
    }
    if (good && clip->format) {
        good = json_object_set_new(options, "format", json_string(clip->format)) == 0;
    }
    if (good && clip->max_height > 0) {
        good = json_object_set_new(options, "max_height", json_integer(clip->max_height)) == 0;
    }
    if (good && clip->mute) {
        good = json_object_set_new(options, "mute", json_true()) == 0;
    }
    if (good && clip->crop.width > 0) {
        good = json_object_set_new(options, "crop",
                                   json_pack("{s:i, s:i, s:i, s:i}", "x", clip->crop.x, "y",
                                             clip->crop.y, "width", clip->crop.width, "height",
                                             clip->crop.height)) == 0;
    }
    char *text = good ? json_dumps(options, JSON_COMPACT) : NULL;
    CV_TRY_MEMORY(text, error, "a clip's options");
    *ret_text = text;
    return 0;
}

/* Asks the database for the clip's id and key and for its job. */
static int prepare(struct cli_call *call, const struct cli_clip *clip, struct request *request,
                   struct cv_error *error)
{
    cv_auto_free char *options = NULL;
    CV_TRY(options_text(clip, &options, error));
    cv_auto(cv_db_result_free) struct cv_db_result *rows = NULL;
    CV_TRY(cv_db_run(call->session.db, &rows, error,
                     "SELECT clip_id, clip_path, payload"
                     " FROM plan_clip($1::uuid, $2::int, $3::int, $4::int, $5::jsonb)",
                     clip->video_id, cv_db_number(clip->t_start).text,
                     cv_db_number(clip->t_end).text, cv_db_number(clip->padding_ms).text, options));
    (void)snprintf(request->dedupe_key, sizeof(request->dedupe_key), "clip:%s",
                   cv_db_text(rows, 0, "clip_id"));
    request->payload = json_loads(cv_db_text(rows, 0, "payload"), 0, NULL);
    CV_TRY_MEMORY(request->payload, error, "a payload");
    return cv_format(&request->key, error, "%s", cv_db_text(rows, 0, "clip_path"));
}

static int enqueue(struct cli_call *call, const struct cli_clip *clip,
                   const struct request *request, char job_id[CV_UUID_SIZE], struct cv_error *error)
{
    const struct cv_enqueue_params params = {
        .job_type = "clip_generate",
        .video_id = clip->video_id,
        .payload = request->payload,
        .priority = -1,
        .dedupe_key = request->dedupe_key,
    };
    int result = cv_queue_enqueue(call->session.db, &params, job_id, error);
    return result == CV_QUEUE_DUPLICATE ? 0 : result;
}

int cli_clip_make(struct cli_call *call, struct cli_workers *workers, const struct cli_clip *clip,
                  char **ret_key, struct cv_error *error)
{
    cv_auto(request_deinit) struct request request = {0};
    CV_TRY(prepare(call, clip, &request, error));
    int result = cv_store_head(call->session.store, request.key, NULL, error);
    if (result == CV_STORE_NOT_FOUND) {
        char job_id[CV_UUID_SIZE];
        CV_TRY(call->session.is_local ? cli_workers_start(workers, "clip_generate", error) : 0);
        CV_TRY(enqueue(call, clip, &request, job_id, error));
        result = cli_wait_for_clip(call, workers, job_id, error);
    }
    if (result == 0) {
        *ret_key = cv_take(request.key);
    }
    return result;
}

/* ---- the command ----------------------------------------------------------------------------- */

/* Copies an object to a new file and renames it, so that the file is always complete. */
static int copy_object(struct cv_store *store, const char *key, const char *path,
                       struct cv_error *error)
{
    cv_auto(cv_store_reader_close) struct cv_store_reader *reader = NULL;
    cv_auto_free char *data = malloc(COPY_SIZE);
    int result = cv_store_reader_open(store, key, &reader, error);
    if (result || !data) {
        return result < 0 ? result
                          : cv_fail(error, CV_ERROR_OBJECT_NOT_FOUND,
                                    "the clip is gone; ask for it again");
    }
    cv_auto_free char *part = NULL;
    struct stat status;
    bool is_special = stat(path, &status) == 0 && !S_ISREG(status.st_mode); /* /dev/stdout */
    result = cv_format(&part, error, is_special ? "%s" : "%s.part", path);
    FILE *file = result ? NULL : fopen(part, "we");
    if (!file) {
        return result ? result : cv_fail_errno(error, errno, "write %s", path);
    }
    struct cv_byte_source source = cv_store_reader_source(reader);
    size_t length = 0;
    int64_t at = 0;
    while ((result = source.read(source.opaque, at, data, COPY_SIZE, &length, error)) == 0 &&
           length > 0) {
        if (fwrite(data, 1, length, file) != length) {
            result = cv_fail_errno(error, errno, "write %s", path);
            break;
        }
        at += (int64_t)length;
    }
    if (fclose(file) && result == 0) {
        result = cv_fail_errno(error, errno, "write %s", path);
    }
    if (result == 0 && !is_special && rename(part, path)) {
        result = cv_fail_errno(error, errno, "write %s", path);
    }
    if (result && !is_special) {
        (void)unlink(part);
    }
    return result;
}

static int read_crop(const char *text, struct cli_clip *clip)
{
    char rest;
    int found = sscanf(text, "%5dx%5d+%5d+%5d%c", &clip->crop.width, &clip->crop.height,
                       &clip->crop.x, &clip->crop.y, &rest);
    return found == 4 && clip->crop.width > 0 ? 0 : -1;
}

static int64_t true_end(const struct cli_clip *clip)
{
    return clip->duration > 0 && clip->duration < clip->t_end ? clip->duration : clip->t_end;
}

static bool is_moment(const struct cli_clip *clip)
{
    return clip->format && strcmp(clip->format, "jpg") == 0;
}

int cli_clip_file(const struct cli_clip *clip, char **ret_path, struct cv_error *error)
{
    char start[CLI_TIME_SIZE];
    char end[CLI_TIME_SIZE];
    bool moment = is_moment(clip);
    const char *dot = strrchr(clip->name, '.');
    size_t stem = dot && dot > clip->name ? (size_t)(dot - clip->name) : strlen(clip->name);
    int result = cv_format(ret_path, error, "%.*s_%s%s%s.%s", (int)stem, clip->name,
                           cli_time_for_file(clip->t_start, start), moment ? "" : "-",
                           moment ? "" : cli_time_for_file(true_end(clip), end),
                           clip->format ? clip->format : "mp4");
    for (char *c = result ? NULL : *ret_path; c && *c; c++) {
        *c = *c == '/' || (unsigned char)*c < ' ' ? '_' : *c;
    }
    return result;
}

/* Reads the name and, for the name of the file, the length. Until transcode has ended, the length is
 * that of the pictures, and sound may be longer. */
static int read_video(struct cli_call *call, struct cli_clip *clip, struct cv_db_result **ret_rows,
                      struct cv_error *error)
{
    CV_TRY(cv_db_run(call->session.db, ret_rows, error,
                     "SELECT coalesce(original_name, title, id::text) AS name,"
                     " CASE WHEN NOT EXISTS (SELECT FROM jobs WHERE video_id = v.id AND"
                     " job_type = 'transcode' AND status IN ('queued', 'processing'))"
                     " THEN round(duration * 1000)::bigint END AS duration_ms"
                     " FROM videos v WHERE id = $1::uuid",
                     clip->video_id));
    clip->name = cv_db_text(*ret_rows, 0, "name");
    clip->duration = cv_db_int(*ret_rows, 0, "duration_ms", 0);
    return 0;
}

/* Makes the clip. A request that the database refuses (check_clip) is wrong usage. */
static int make(struct cli_call *call, const struct cli_clip *clip, char **ret_key,
                struct cv_error *error)
{
    cv_auto(cli_workers_stop) struct cli_workers workers;
    cli_workers_init(&workers, &call->session);
    int result = cli_clip_make(call, &workers, clip, ret_key, error);
    bool is_refused = strcmp(cv_db_sqlstate(call->session.db), REFUSED_REQUEST) == 0;
    return result < 0 && is_refused ? cli_usage(call, "%s", error->message) : result;
}

/* Reads the request. 0, or an exit status after printing the error. */
static int read_request(struct cli_call *call, struct cli_clip *clip)
{
    const char *padding = cli_value(call, "padding");
    const char *crop = cli_value(call, "crop");
    clip->mode = cli_value(call, "mode");
    clip->mute = cli_given(call, "mute");
    bool moment = is_moment(clip);
    int times = moment ? 1 : 2;
    if (call->count != 1 + times) {
        return cli_usage(call, moment ? "a jpg is the frame of one moment: VIDEO TIME"
                                      : "it needs where the clip starts and where it ends; the "
                                        "frame of one moment is --format jpg, or -o FILE.jpg");
    }
    for (int i = 1; i <= times; i++) {
        if (!cli_parse_time(call->arguments[i], i == 1 ? &clip->t_start : &clip->t_end)) {
            return cli_usage(call, "'%s' is not a time: 3.4 (seconds), 0:03.4, 1m2s or 3400ms",
                             call->arguments[i]);
        }
    }
    if (!moment && clip->t_end <= clip->t_start) {
        return cli_usage(call, "the clip would end (%s) before it starts (%s)", call->arguments[2],
                         call->arguments[1]);
    }
    if (padding && !cli_parse_time(padding, &clip->padding_ms)) {
        return cli_usage(call, "--padding takes a time like 2, 0.5 or 500ms, not '%s'", padding);
    }
    if (crop && read_crop(crop, clip)) {
        return cli_usage(call, "--crop takes a part of the picture as WIDTHxHEIGHT+X+Y, not '%s'",
                         crop);
    }
    return cli_number(call, "max-height", 1, INT32_MAX, 0, &clip->max_height);
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

int cli_clip(struct cli_call *call, struct cv_error *error)
{
    struct cli_clip clip = {.padding_ms = CLI_CLIP_PADDING_MS};
    const char *output = cli_value(call, "output");
    char format[CLI_EXTENSION_SIZE];
    CV_TRY(cli_output_format(call, output, CLI_CLIP_FORMATS, format));
    clip.format = format[0] ? format : NULL;
    CV_TRY(read_request(call, &clip));
    CV_TRY(output ? check_output(call, output) : 0);
    CV_TRY(cli_open(call, error));
    char id[CLI_UUID_SIZE];
    cv_auto(cv_db_result_free) struct cv_db_result *rows = NULL;
    CV_TRY(cli_find(call, "video", call->arguments[0], id, error));
    clip.video_id = id;
    CV_TRY(read_video(call, &clip, &rows, error));
    cv_auto_free char *key = NULL;
    cv_auto_free char *path = NULL;
    CV_TRY(output ? cv_format(&path, error, "%s", output) : cli_clip_file(&clip, &path, error));
    CV_TRY(make(call, &clip, &key, error));
    CV_TRY(copy_object(call->session.store, key, path, error));
    return cli_print_outcome(call,
                             json_pack("{s:s, s:s, s:s, s:I, s:I}", "file", path, "object", key,
                                       "video", id, "start_ms", (json_int_t)clip.t_start, "end_ms",
                                       (json_int_t)true_end(&clip)),
                             error, "%s", path);
}
