#include "common/media/media.h"
#include "common/said/said.h"
#include "common/worker/worker.h"

#include <string.h>

struct job {
    const char *video_id, *key, *etag;
    const char *name; /* the file's in its folder */
};

static int read_payload(const json_t *payload, struct job *job, struct cv_error *error)
{
    char id[CV_OBJECT_ID_SIZE];
    CV_TRY(cv_payload_uuid(payload, "video_id", &job->video_id, error));
    CV_TRY(cv_payload_object_key(payload, "subtitles", &job->key, error));
    job->etag = json_string_value(json_object_get(payload, "etag"));
    if (!cv_object_is_subtitles(job->key, id) || strcasecmp(id, job->video_id) != 0) {
        return cv_fail(error, CV_ERROR_INVALID_PAYLOAD,
                       "payload: \"subtitles\" is no file of subtitles beside the video");
    }
    job->name = strrchr(job->key, '/') + 1;
    return 0;
}

/* Result: {"lines": as cv_said_describe() makes them, "summary": {"lines"}}. */
static int run(struct cv_stage_context *context, const json_t *payload, json_t **ret_result,
               struct cv_error *error)
{
    struct job job;
    CV_TRY(read_payload(payload, &job, error));
    cv_auto(cv_store_reader_close) struct cv_store_reader *reader = NULL;
    CV_TRY(cv_stage_open_input(context, job.key, &reader, error));
    struct cv_byte_source source = cv_store_reader_source(reader);
    cv_auto(cv_subtitle_list_deinit) struct cv_subtitle_list list = {0};
    CV_TRY(cv_subtitle_file_read(&source, job.name, &list, error));
    CV_TRY(cv_subtitles_finish(&list, error));
    cv_auto(json_decref) json_t *lines = NULL;
    CV_TRY(cv_said_describe(&list, &lines, error));
    *ret_result = json_pack("{s:O, s:{s:I}}", "lines", lines, "summary", "lines",
                            (json_int_t)json_array_size(lines));
    CV_TRY_MEMORY(*ret_result, error, "the result");
    return 0;
}

/* Lines of a file that was replaced since are not stored: the file that replaced it has its own job. */
static int commit(struct cv_db *db, const struct cv_job *job, const json_t *result,
                  struct cv_error *error)
{
    struct job file;
    cv_auto(cv_db_result_free) struct cv_db_result *rows = NULL;
    CV_TRY(read_payload(job->payload, &file, error));
    CV_TRY(cv_db_run(db, &rows, error,
                     "SELECT FROM subtitle_files WHERE video_id = $1::uuid AND name = $2"
                     " AND etag = $3 FOR UPDATE",
                     file.video_id, file.name, file.etag));
    if (cv_db_rows(rows) == 0) {
        return 0;
    }
    CV_TRY(cv_said_store(db, file.video_id, "subtitle", file.name, json_object_get(result, "lines"),
                         true, error));
    return cv_db_run(db, NULL, error,
                     "SELECT refresh_search_materialized($1::uuid), match_saved_searches($1::uuid)",
                     file.video_id);
}

int main(int argc, char **argv)
{
    static const struct cv_grant grants[] = {{CV_GRANT_READ, CV_KEYS_ORIGINALS "{video_id}/*"},
                                             {0}};
    static const struct cv_stage stage = {
        .name = "subtitles-worker",
        .job_type = "subtitles",
        .needs = CV_STAGE_NEEDS_STORE,
        .grants = grants,
        .run = run,
        .commit = commit,
    };
    return cv_worker_main(&stage, argc, argv);
}
