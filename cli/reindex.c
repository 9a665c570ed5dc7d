#include "cli/reindex.h"

#include <string.h>

CV_DEFINE_CLEANUP(char *, free)

int cli_reindex_is_other(struct cv_db *db, const char *video_id, const json_t *languages,
                         bool *ret_is_other, struct cv_error *error)
{
    cv_auto(cv_db_result_free) struct cv_db_result *rows = NULL;
    cv_auto(free) char *text = json_dumps(languages, JSON_COMPACT);
    if (!text) {
        return cv_fail(error, CV_ERROR_OUT_OF_MEMORY, "no memory for languages");
    }
    int result = cv_db_run(
        db, &rows, error, "SELECT video_languages($1::uuid) IS DISTINCT FROM $2::jsonb AS is_other",
        video_id, text);
    if (result == 0) {
        *ret_is_other = cv_db_bool(rows, 0, "is_other");
    }
    return result;
}

/* Within a transaction that the caller ends: what turns out to be gone was not begun. */
static int start(struct cli_session *session, const char *languages, struct cli_video *video,
                 struct cv_error *error)
{
    cv_auto(cv_db_result_free) struct cv_db_result *rows = NULL;
    int result = cv_db_run(session->db, &rows, error,
                           "SELECT run_id, is_new, source, source_key FROM reindex_video($1::uuid,"
                           " CASE WHEN $2::jsonb IS NOT NULL"
                           " THEN ARRAY(SELECT jsonb_array_elements_text($2::jsonb)) END)",
                           video->id, languages);
    if (result) {
        return result;
    }
    if (!cv_db_bool(rows, 0, "is_new")) {
        return cv_fail(error, CV_ERROR_CONFLICT,
                       "%s is being worked on: wait for run %s, then read it again", video->name,
                       cv_db_text(rows, 0, "run_id"));
    }
    const char *key = cv_db_text(rows, 0, "source_key");
    result = cv_store_head(session->store, key, NULL, error);
    if (result == CV_STORE_NOT_FOUND) {
        bool is_frames = strcmp(cv_db_text(rows, 0, "source"), "frames") == 0;
        return cv_fail(error, CV_ERROR_OBJECT_NOT_FOUND,
                       is_frames ? "%s was read before lines were kept, and its frames are gone "
                                   "(%s): it can only be worked on from its original, "
                                   "SELECT reprocess_video('%s')"
                                 : "the kept lines of %s are gone (%s): it can only be worked on "
                                   "from its original, SELECT reprocess_video('%s')",
                       video->name, key, video->id);
    }
    if (result == 0) {
        video->state = CLI_VIDEO_AGAIN;
        (void)snprintf(video->run_id, sizeof(video->run_id), "%s", cv_db_text(rows, 0, "run_id"));
    }
    return result;
}

int cli_reindex_start(struct cli_session *session, const json_t *languages, struct cli_video *video,
                      struct cv_error *error)
{
    cv_auto(free) char *text = languages ? json_dumps(languages, JSON_COMPACT) : NULL;
    if (languages && !text) {
        return cv_fail(error, CV_ERROR_OUT_OF_MEMORY, "no memory for languages");
    }
    int result = cv_db_begin(session->db, error);
    if (result) {
        return result;
    }
    result = start(session, text, video, error);
    if (result < 0) {
        cv_db_rollback(session->db);
        return result;
    }
    return cv_db_commit(session->db, error);
}
