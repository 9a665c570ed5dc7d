#include "cli/commands/ingest.h"

#include "common/queue/queue.h"

#include <ctype.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>

enum {
    READ_SIZE = 1 << 20,
    EXTENSION_MAX = 8, /* longer ones do not count as extensions */
};

void cli_video_list_deinit(struct cli_video_list *list)
{
    for (size_t i = 0; i < list->count; i++) {
        free(list->videos[i].name);
    }
    free(list->videos);
    *list = (struct cli_video_list){0};
}

int cli_video_list_add(struct cli_video_list *list, const struct cli_video *video,
                       struct cv_error *error)
{
    for (size_t i = 0; i < list->count; i++) {
        if (strcmp(list->videos[i].id, video->id) == 0) {
            return 0; /* the same file twice on one command line */
        }
    }
    char *copy = CV_MAKE_ROOM(list->videos, list->count) ? strdup(video->name) : NULL;
    CV_TRY_MEMORY(copy, error, "the list of videos");
    list->videos[list->count] = *video;
    list->videos[list->count++].name = copy;
    return 0;
}

static int digest_file(const char *path, struct cv_cancel *cancel,
                       char sha256[CV_STORE_SHA256_SIZE], int64_t *ret_size, struct cv_error *error)
{
    cv_auto_fd int fd = open(path, O_RDONLY | O_CLOEXEC);
    CV_TRY_ERRNO(fd >= 0, error, "cannot read %s", path);
    cv_auto(cv_sha256_free) struct cv_sha256 *digest = NULL;
    cv_auto_free char *data = malloc(READ_SIZE);
    CV_TRY(data ? cv_sha256_new(&digest, error)
                : cv_fail(error, CV_ERROR_OUT_OF_MEMORY, "no memory to read %s", path));
    int64_t size = 0;
    for (ssize_t step; (step = read(fd, data, READ_SIZE)) != 0;) {
        if (cv_cancel_level(cancel) != CV_CANCEL_NONE) {
            return cv_fail(error, CV_ERROR_CANCELED, "interrupted");
        }
        if (step < 0 && errno == EINTR) {
            continue;
        }
        CV_TRY_ERRNO(step >= 0, error, "cannot read %s", path);
        CV_TRY(cv_sha256_add(digest, data, (size_t)step, error));
        size += step;
    }
    CV_TRY(cv_sha256_text(digest, sha256, error));
    *ret_size = size;
    return 0;
}

/* Lower-case letters and digits of the file's extension, or "bin". */
static void read_extension(const char *name, char extension[EXTENSION_MAX + 1])
{
    const char *dot = strrchr(name, '.');
    size_t length = 0;
    for (const char *c = dot ? dot + 1 : ""; *c; c++) {
        if (!isalnum((unsigned char)*c) || length == EXTENSION_MAX) {
            length = 0;
            break;
        }
        extension[length++] = (char)tolower((unsigned char)*c);
    }
    extension[length] = '\0';
    if (length == 0) {
        (void)snprintf(extension, EXTENSION_MAX + 1, "bin");
    }
}

struct original {
    const char *path;
    const char *name;
    char sha256[CV_STORE_SHA256_SIZE];
    int64_t size;
    char id[CLI_UUID_SIZE];
    char key[128];
    char status[16]; /* status of the row in videos */
    bool is_known;
    bool has_playback;
};

/* Finds or makes the row for these bytes. It is made before the object is stored, so that every
 * object has a row with its owner. */
static int find_or_insert(struct cv_db *db, struct original *original, const char *owner_id,
                          struct cv_error *error)
{
    cv_auto(cv_db_result_free) struct cv_db_result *rows = NULL;
    CV_TRY(cv_db_run(db, &rows, error,
                     "SELECT id, status, s3_original_path,"
                     " s3_proxy_path IS NOT NULL AS has_playback FROM videos"
                     " WHERE original_sha256 = $1 AND s3_original_path IS NOT NULL"
                     " AND duplicate_of IS NULL"
                     " ORDER BY created_at, id LIMIT 1",
                     original->sha256));
    original->is_known = cv_db_rows(rows) > 0;
    if (!original->is_known) {
        char extension[EXTENSION_MAX + 1];
        read_extension(original->name, extension);
        cv_db_result_free(cv_take(rows));
        CV_TRY(cv_db_run(db, &rows, error,
                         "INSERT INTO videos (id, s3_original_path, original_name, original_size,"
                         " original_sha256, title, owner_id) SELECT id, '" CV_KEYS_ORIGINALS
                         "' || id"
                         " || '/master.' || $1, $2, $3::bigint, $4, $2, $5::uuid"
                         " FROM gen_random_uuid() AS id RETURNING id, status, s3_original_path,"
                         " false AS has_playback",
                         extension, original->name, cv_db_number(original->size).text,
                         original->sha256, owner_id[0] ? owner_id : NULL));
    }
    (void)snprintf(original->id, sizeof(original->id), "%s", cv_db_text(rows, 0, "id"));
    (void)snprintf(original->key, sizeof(original->key), "%s",
                   cv_db_text(rows, 0, "s3_original_path"));
    (void)snprintf(original->status, sizeof(original->status), "%s", cv_db_text(rows, 0, "status"));
    original->has_playback = cv_db_bool(rows, 0, "has_playback");
    return 0;
}

static int store_original(struct cv_store *store, const struct original *original,
                          struct cv_error *error)
{
    struct cv_object_info info;
    int result = cv_store_head(store, original->key, &info, error);
    if (result < 0 || (result == 0 && info.size == original->size)) {
        return result;
    }
    const struct cv_new_object object = {
        .key = original->key, .path = original->path, .sha256 = original->sha256};
    return cv_store_put(store, &object, NULL, error);
}

static int start_run(struct cv_db *db, const char *workflow, const struct original *original,
                     const struct cli_import_options *import, char run_id[CV_UUID_SIZE],
                     struct cv_error *error)
{
    cv_auto(json_decref) json_t *payload =
        json_pack("{s:s, s:s}", "video_id", original->id, "s3_original_path", original->key);
    CV_TRY_MEMORY(payload && json_object_update(payload, import->options) == 0, error, "a payload");
    const struct cv_run_params params = {
        .workflow = workflow,
        .video_id = original->id,
        .input = payload,
        .priority = -1,
    };
    int result = cv_queue_start_run(db, &params, run_id, error);
    return result == CV_QUEUE_DUPLICATE ? 0 : result;
}

/* Continues an incomplete video: starts or continues its pipeline, or retries the stages that have
 * failed. */
static int push_on(struct cv_db *db, const struct original *original,
                   const struct cli_import_options *import, struct cv_error *error)
{
    cv_auto(cv_db_result_free) struct cv_db_result *rows = NULL;
    CV_TRY(cv_db_run(db, &rows, error,
                     "SELECT CASE WHEN p.status IN ('failed', 'canceled')"
                     " THEN (SELECT min(retry_job(o.id)) FROM jobs o WHERE o.id = p.job_id"
                     " OR o.run_id = p.run_id AND o.step = p.step"
                     " AND o.status IN ('failed', 'canceled')) END AS outcome"
                     " FROM (SELECT p.job_id, p.status, p.step, j.run_id FROM pipeline_stages p"
                     " JOIN jobs j ON j.id = p.job_id"
                     " WHERE p.video_id = $1::uuid AND p.status <> 'done'"
                     " ORDER BY j.unmet_dependencies > 0, j.id) AS p",
                     original->id));
    if (cv_db_rows(rows) == 0) {
        char run_id[CV_UUID_SIZE];
        CV_TRY(start_run(db, import->text_only ? "video_text" : "video_pipeline", original, import,
                         run_id, error));
    }
    /* The caller waits for a new status, and must not take the old one for it. */
    return cv_db_run(db, NULL, error,
                     "UPDATE videos SET status = 'processing' WHERE id = $1::uuid"
                     " AND status IN ('ready', 'failed')",
                     original->id);
}

/* ---- reading again --------------------------------------------------------------------------- */

/* Whether a video was last read with other models than those in the list. */
static int is_read_otherwise(struct cv_db *db, const char *video_id, const json_t *languages,
                             bool *ret_is_other, struct cv_error *error)
{
    cv_auto(cv_db_result_free) struct cv_db_result *rows = NULL;
    cv_auto_free char *text = json_dumps(languages, JSON_COMPACT);
    CV_TRY_MEMORY(text, error, "languages");
    CV_TRY(cv_db_run(db, &rows, error,
                     "SELECT video_languages($1::uuid) IS DISTINCT FROM $2::jsonb AS is_other",
                     video_id, text));
    *ret_is_other = cv_db_bool(rows, 0, "is_other");
    return 0;
}

int cli_reindex_start(struct cli_session *session, const json_t *languages, struct cli_video *video,
                      struct cv_error *error)
{
    cv_auto(cv_db_result_free) struct cv_db_result *rows = NULL;
    cv_auto_free char *text = languages ? json_dumps(languages, JSON_COMPACT) : NULL;
    CV_TRY_MEMORY(!languages || text, error, "languages");
    int result = cv_db_run(session->db, &rows, error,
                           "SELECT run_id, is_new FROM reindex_video($1::uuid,"
                           " CASE WHEN $2::jsonb IS NOT NULL"
                           " THEN ARRAY(SELECT jsonb_array_elements_text($2::jsonb)) END)",
                           video->id, text);
    if (result < 0 && strcmp(cv_db_sqlstate(session->db), "55000") == 0) {
        return cv_fail(error, CV_ERROR_OBJECT_NOT_FOUND,
                       "the kept lines of %s are gone: it can only be worked on from its original, "
                       "SELECT reprocess_video('%s')",
                       video->name, video->id);
    }
    CV_TRY(result);
    const char *run = cv_db_text(rows, 0, "run_id");
    if (!cv_db_bool(rows, 0, "is_new")) {
        return cv_fail(error, CV_ERROR_CONFLICT,
                       "%s is being worked on: wait for run %s, then read it again", video->name,
                       run);
    }
    video->state = CLI_VIDEO_AGAIN;
    (void)snprintf(video->run_id, sizeof(video->run_id), "%s", run);
    return 0;
}

/* Handles a ready video: nothing to do, unless other languages are requested. */
static int read_again(struct cli_session *session, const json_t *languages, struct cli_video *video,
                      struct cv_error *error)
{
    bool is_other = false;
    int result =
        languages ? is_read_otherwise(session->db, video->id, languages, &is_other, error) : 0;
    video->state = CLI_VIDEO_KNOWN;
    return result == 0 && is_other ? cli_reindex_start(session, languages, video, error) : result;
}

int cli_ingest(struct cli_session *session, const char *path, const char *name,
               const struct cli_import_options *import, struct cv_cancel *cancel,
               struct cli_video_list *list, struct cv_error *error)
{
    struct original original = {.path = path, .name = name};
    int read = digest_file(path, cancel, original.sha256, &original.size, error);
    if (read < 0) {
        bool is_of_file = error->type != CV_ERROR_OUT_OF_MEMORY && error->type != CV_ERROR_CANCELED;
        return is_of_file ? CLI_SOURCE_UNREADABLE : read;
    }
    CV_TRY(find_or_insert(session->db, &original, session->owner_id, error));
    CV_TRY(store_original(session->store, &original, error));
    struct cli_video video = {.name = (char *)original.name,
                              .state = original.is_known ? CLI_VIDEO_RESUMED : CLI_VIDEO_NEW};
    (void)snprintf(video.id, sizeof(video.id), "%s", original.id);
    if (strcmp(original.status, "ready") == 0) {
        CV_TRY(read_again(session, json_object_get(import->options, "languages"), &video, error));
        if (video.state == CLI_VIDEO_KNOWN && !original.has_playback && !import->text_only) {
            CV_TRY(
                start_run(session->db, "video_playback", &original, import, video.run_id, error));
            video.state = CLI_VIDEO_PLAYBACK;
        }
    } else {
        CV_TRY(push_on(session->db, &original, import, error));
    }
    return cli_video_list_add(list, &video, error);
}

int cli_resume(struct cli_session *session, const struct cli_video_list *list, size_t *ret_count,
               struct cv_error *error)
{
    cv_auto(cv_db_result_free) struct cv_db_result *rows = NULL;
    CV_TRY(cv_db_run(session->db, NULL, error,
                     "UPDATE jobs SET locked_until = clock_timestamp() - interval '1 s'"
                     " WHERE status = 'processing'"));
    CV_TRY(cv_db_run(session->db, NULL, error,
                     "UPDATE jobs SET scheduled_for = clock_timestamp()"
                     " WHERE status = 'failed' AND scheduled_for > clock_timestamp()"));
    CV_TRY(cv_db_run(session->db, &rows, error,
                     "SELECT DISTINCT j.video_id AS id FROM jobs j"
                     " JOIN videos v ON v.id = j.video_id AND v.status <> 'failed'"
                     " WHERE j.exclusive AND (j.status IN ('queued', 'processing')"
                     " OR j.status = 'failed' AND j.scheduled_for IS NOT NULL)"));
    *ret_count = 0;
    for (int i = 0; i < cv_db_rows(rows); i++) {
        bool is_named = false;
        for (size_t v = 0; v < list->count; v++) {
            is_named = is_named || strcmp(list->videos[v].id, cv_db_text(rows, i, "id")) == 0;
        }
        *ret_count += !is_named;
    }
    return 0;
}
