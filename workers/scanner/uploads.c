#include "workers/scanner/scanner.h"

#include <string.h>

/* ---- originals ----------------------------------------------------------------------------------- */

/* An original in the store, and what is known about its owner. Texts may be NULL. */
struct scanner_original {
    const char *key;
    const char *video_id;
    const char *owner_id, *team_id, *name;
    const char *upload_key; /* the key from which it was moved */
    struct cv_object_info info;
};

enum {
    READ_SIZE = 1 << 20,
    ASKS_MAX = 8, /* a new duplicate may appear each time; the next look continues */
};

/* ---- bytes ----------------------------------------------------------------------------------- */

static int digest_reader(struct scanner *scanner, struct cv_store_reader *reader, const char *key,
                         char sha256[CV_STORE_SHA256_SIZE], struct cv_error *error)
{
    cv_auto(cv_sha256_free) struct cv_sha256 *digest = NULL;
    cv_auto_free char *data = malloc(READ_SIZE);
    CV_TRY(data ? cv_sha256_new(&digest, error)
                : cv_fail(error, CV_ERROR_OUT_OF_MEMORY, "no memory to read %s", key));
    struct cv_byte_source source = cv_store_reader_source(reader);
    for (int64_t at = 0; at < source.size;) {
        size_t count = 0;
        if (cv_daemon_is_stopping(&scanner->daemon)) {
            return cv_fail(error, CV_ERROR_CANCELED, "stopped while reading %s", key);
        }
        CV_TRY(source.read(source.opaque, at, data, READ_SIZE, &count, error));
        if (count == 0) {
            return cv_fail(error, CV_ERROR_CONFLICT, "%s changed while it was read", key);
        }
        CV_TRY(cv_sha256_add(digest, data, count, error));
        at += (int64_t)count;
    }
    return cv_sha256_text(digest, sha256, error);
}

/* The SHA-256 of an object, from the store or by reading the object. With `etag` (may be NULL)
 * only while the object has this ETag; otherwise CV_STORE_CHANGED. */
static int digest_object(struct scanner *scanner, const char *key, const char *etag,
                         char sha256[CV_STORE_SHA256_SIZE], struct cv_error *error)
{
    cv_auto(cv_store_reader_close) struct cv_store_reader *reader = NULL;
    CV_TRY(cv_store_reader_open(scanner->store, key, &reader, error));
    const struct cv_object_info *info = cv_store_reader_info(reader);
    if (etag && strcmp(info->etag, etag) != 0) {
        return CV_STORE_CHANGED;
    }
    if (info->sha256[0] != '\0') {
        memcpy(sha256, info->sha256, CV_STORE_SHA256_SIZE);
        return 0;
    }
    return digest_reader(scanner, reader, key, sha256, error);
}

/* Records the SHA-256 of possible duplicates, so that each is read once. */
static int digest_twins(struct scanner *scanner, const struct scanner_original *original,
                        struct cv_error *error)
{
    cv_auto(cv_db_result_free) struct cv_db_result *rows = NULL;
    int result =
        cv_db_run(scanner->db, &rows, error, "SELECT * FROM undigested_twins($1::uuid, $2::bigint)",
                  original->video_id, cv_db_number(original->info.size).text);
    for (int i = 0; result == 0 && i < cv_db_rows(rows); i++) {
        const char *id = cv_db_text(rows, i, "id");
        const char *key = cv_db_text(rows, i, "key");
        char sha256[CV_STORE_SHA256_SIZE];
        result = digest_object(scanner, key, NULL, sha256, error);
        if (result == CV_STORE_NOT_FOUND) {
            result = cv_db_run(scanner->db, NULL, error,
                               "UPDATE videos SET original_state = 'missing',"
                               " original_state_at = clock_timestamp() WHERE id = $1::uuid",
                               id);
        } else if (result == 0) {
            result = cv_db_run(scanner->db, NULL, error,
                               "UPDATE videos SET original_sha256 = $2 WHERE id = $1::uuid"
                               " AND s3_original_path = $3 AND original_sha256 IS NULL",
                               id, sha256, key);
        }
    }
    return result;
}

/* ---- the row --------------------------------------------------------------------------------- */

static int ask(struct scanner *scanner, const struct scanner_original *original, char *outcome,
               size_t size, struct cv_error *error)
{
    cv_auto(cv_db_result_free) struct cv_db_result *rows = NULL;
    const struct cv_object_info *info = &original->info;
    CV_TRY(cv_db_run(scanner->db, &rows, error,
                     "SELECT register_original($1, $2::uuid, $3::bigint, $4, $5, $6::uuid,"
                     " $7::uuid, $8, $9) AS outcome",
                     original->key, original->video_id, cv_db_number(info->size).text, info->etag,
                     info->sha256[0] ? info->sha256 : NULL, original->owner_id, original->team_id,
                     original->name, original->upload_key));
    (void)snprintf(outcome, size, "%s", cv_db_text(rows, 0, "outcome"));
    return 0;
}

static void log_outcome(struct scanner *scanner, const struct scanner_original *original,
                        const char *outcome)
{
    bool is_odd = strcmp(outcome, "replaced") == 0 || strcmp(outcome, "other") == 0 ||
                  strcmp(outcome, "no room") == 0;
    bool is_known = strcmp(outcome, "known") == 0;
    scanner->imported += !is_known && !is_odd;
    cv_log(is_odd     ? CV_LOG_WARN
           : is_known ? CV_LOG_DEBUG
                      : CV_LOG_INFO,
           "%s, video %s: %s", original->upload_key ? original->upload_key : original->key,
           original->video_id, outcome);
}

/* Registers an original. Reads its bytes, and those of possible duplicates, only if nothing else
 * tells whether they are the same. */
static int scanner_register(struct scanner *scanner, struct scanner_original *original,
                            struct cv_error *error)
{
    for (int i = 0; i < ASKS_MAX; i++) {
        char outcome[32];
        int result = ask(scanner, original, outcome, sizeof(outcome), error);
        if (result != 0 || strcmp(outcome, "digest") != 0) {
            if (result == 0) {
                log_outcome(scanner, original, outcome);
            }
            return result;
        }
        if (original->info.sha256[0] == '\0') {
            result = digest_object(scanner, original->key, original->info.etag,
                                   original->info.sha256, error);
        }
        result = result ? result : digest_twins(scanner, original, error);
        if (result != 0) {
            return result < 0 ? result
                              : cv_fail(error, CV_ERROR_CONFLICT, "%s changed while it was read",
                                        original->key);
        }
    }
    return cv_fail(error, CV_ERROR_CONFLICT, "cannot tell whether %s is a duplicate",
                   original->key);
}

enum { LOOKS_A_TIME = 100 };

/* An entry of `uploads`; texts are borrowed, NULL where they are unknown. */
struct upload {
    const char *key, *etag, *video_id;
    int64_t size;
};

static int forget(struct scanner *scanner, const char *key, struct cv_error *error)
{
    return cv_db_run(scanner->db, NULL, error, "DELETE FROM uploads WHERE key = $1", key);
}

static int refuse(struct scanner *scanner, const char *key, const char *reason,
                  struct cv_error *error)
{
    cv_auto(cv_db_result_free) struct cv_db_result *rows = NULL;
    CV_TRY(cv_db_run(scanner->db, &rows, error, "SELECT refuse_upload($1, $2) AS is_news", key,
                     reason));
    if (cv_db_bool(rows, 0, "is_news")) {
        cv_log(CV_LOG_WARN, "%s stays where it is: %s", key, reason);
    }
    return 0;
}

/* The upload has changed, so the wait for it to settle starts again. */
static int postpone(struct scanner *scanner, const char *key, const struct cv_object_info *info,
                    struct cv_error *error)
{
    return cv_db_run(
        scanner->db, NULL, error, "SELECT postpone_upload($1, $2::bigint, $3, $4::interval)", key,
        cv_db_number(info->size).text, info->etag, scanner_interval(scanner->settle_ms).text);
}

static bool has_settled(const struct upload *upload, const struct cv_object_info *info)
{
    return !upload->etag || (upload->size == info->size && strcmp(upload->etag, info->etag) == 0);
}

/* The first UUID among the metadata entries with these names; NULL when there is none. */
static const char *find_id(const struct cv_metadata *metadata, const char *key,
                           const char *const *names, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        const char *value = cv_metadata_get(metadata, names[i]);
        if (value && cv_is_uuid(value)) {
            return value;
        }
        if (value) {
            cv_log(CV_LOG_WARN, "%s: its metadata entry %s is not a UUID, ignoring it", key,
                   names[i]);
        }
    }
    return NULL;
}

/* Fills in from the object's metadata what the path does not say. */
static void read_notes(const struct scanner *scanner, const struct cv_metadata *metadata,
                       struct scanner_original *original)
{
    static const char *const owners[] = {"owner-id", "owner_id", "owner"};
    static const char *const teams[] = {"team-id", "team_id", "team"};
    if (!original->owner_id) {
        original->owner_id = find_id(metadata, original->key, owners, CV_COUNT(owners));
    }
    if (!original->team_id) {
        original->team_id = find_id(metadata, original->key, teams, CV_COUNT(teams));
    }
    if (!original->name) {
        original->name = cv_metadata_get(metadata, "name");
    }
    if (!original->owner_id && !original->team_id) {
        original->owner_id = scanner->owner_id;
    }
}

/* ---- under videos/original/ ------------------------------------------------------------------ */

static int import_original(struct scanner *scanner, const struct upload *upload,
                           const char *video_id, struct cv_error *error)
{
    cv_auto(cv_metadata_deinit) struct cv_metadata metadata = {0};
    struct scanner_original original = {.key = upload->key, .video_id = video_id};
    int result =
        cv_store_head_metadata(scanner->store, upload->key, &original.info, &metadata, error);
    if (result == CV_STORE_NOT_FOUND) {
        CV_TRY(cv_db_run(scanner->db, NULL, error, "SELECT mark_original_missing($1::uuid, $2)",
                         video_id, upload->key));
        return forget(scanner, upload->key, error);
    }
    if (result != 0) {
        return result;
    }
    if (!has_settled(upload, &original.info)) {
        return postpone(scanner, upload->key, &original.info, error);
    }
    read_notes(scanner, &metadata, &original);
    return scanner_register(scanner, &original, error);
}

/* ---- subtitles ------------------------------------------------------------------------------- */

static const char no_video[] = "no video of its owner has this name: it is read when one comes";

/* Registers a file of subtitles beside an original. */
static int import_subtitles(struct scanner *scanner, const struct upload *upload,
                            struct cv_error *error)
{
    struct cv_object_info info;
    cv_auto(cv_db_result_free) struct cv_db_result *rows = NULL;
    int result = cv_store_head(scanner->store, upload->key, &info, error);
    if (result != 0) {
        return result == CV_STORE_NOT_FOUND ? forget(scanner, upload->key, error) : result;
    }
    if (!has_settled(upload, &info)) {
        return postpone(scanner, upload->key, &info, error);
    }
    CV_TRY(cv_db_run(scanner->db, &rows, error,
                     "SELECT outcome FROM register_subtitles($1, $2::bigint, $3)", upload->key,
                     cv_db_number(info.size).text, info.etag));
    const char *outcome = cv_db_text(rows, 0, "outcome");
    if (strcmp(outcome, "waits") == 0) {
        return refuse(scanner, upload->key, no_video, error);
    }
    scanner->imported += strcmp(outcome, "new") == 0;
    cv_log(CV_LOG_INFO, "%s: %s", upload->key, outcome);
    return 0;
}

/* Moves a file of subtitles from the inbox beside the original of the video that has its name. */
static int move_beside(struct scanner *scanner, const struct upload *upload, const char *name,
                       const struct scanner_original *found, struct cv_error *error)
{
    cv_auto(cv_db_result_free) struct cv_db_result *rows = NULL;
    CV_TRY(cv_db_run(scanner->db, &rows, error,
                     "SELECT find_place_of_subtitles($1, $2::uuid, $3::uuid) AS key", name,
                     found->owner_id, found->team_id));
    const char *key = cv_db_text(rows, 0, "key");
    if (!key) {
        return refuse(scanner, upload->key, no_video, error);
    }
    const struct cv_object_move move = {upload->key, key, found->info.etag};
    int result = cv_store_move(scanner->store, &move, NULL, error);
    if (result == CV_STORE_CHANGED) {
        return postpone(scanner, upload->key, &found->info, error);
    }
    CV_TRY(result < 0 ? result : forget(scanner, upload->key, error));
    return cv_db_run(scanner->db, NULL, error, "SELECT announce_upload($1)", key);
}

/* ---- under inbox/ ---------------------------------------------------------------------------- */

/* Registers an inbox object that was already moved (by this scanner before an interruption, or by
 * another one); CV_STORE_NOT_FOUND when it was not moved. */
static int finish_move(struct scanner *scanner, const struct upload *upload, const char *video_id,
                       const char *key, struct cv_error *error)
{
    struct scanner_original original = {
        .key = key, .video_id = video_id, .upload_key = upload->key};
    CV_TRY(cv_store_head(scanner->store, key, &original.info, error));
    return scanner_register(scanner, &original, error);
}

static int find_moved(struct scanner *scanner, const struct upload *upload, struct cv_error *error)
{
    cv_auto(cv_db_result_free) struct cv_db_result *rows = NULL;
    if (!upload->video_id) {
        return CV_STORE_NOT_FOUND;
    }
    int result = cv_db_run(scanner->db, &rows, error,
                           "SELECT s3_original_path AS key FROM videos WHERE id = $1::uuid"
                           " AND s3_original_path IS NOT NULL",
                           upload->video_id);
    if (result != 0 || cv_db_rows(rows) == 0) {
        return result ? result : (int)CV_STORE_NOT_FOUND;
    }
    return finish_move(scanner, upload, upload->video_id, cv_db_text(rows, 0, "key"), error);
}

/* Creates the row, then moves the object, then registers it: after an interruption, each step can
 * be continued. */
static int move_in(struct scanner *scanner, const struct upload *upload,
                   const struct cv_inbox_key *inbox, struct scanner_original *original,
                   struct cv_error *error)
{
    cv_auto(cv_db_result_free) struct cv_db_result *rows = NULL;
    CV_TRY(cv_db_run(scanner->db, &rows, error,
                     "SELECT * FROM prepare_upload($1, $2::uuid, $3::uuid, $4, $5)", upload->key,
                     original->owner_id, original->team_id, original->name, inbox->extension));
    if (cv_db_rows(rows) == 0) {
        return 0;
    }
    struct cv_object_info found = original->info;
    original->video_id = cv_db_text(rows, 0, "video_id");
    original->key = cv_db_text(rows, 0, "original_key");
    const struct cv_object_move move = {upload->key, original->key, found.etag};
    int result = cv_store_move(scanner->store, &move, &original->info, error);
    if (result == CV_STORE_CHANGED) {
        return postpone(scanner, upload->key, &found, error);
    }
    if (result == CV_STORE_NOT_FOUND) {
        result = finish_move(scanner, upload, original->video_id, original->key, error);
        return result == CV_STORE_NOT_FOUND ? postpone(scanner, upload->key, &found, error)
                                            : result;
    }
    if (result != 0) {
        return result;
    }
    if (original->info.sha256[0] == '\0') {
        memcpy(original->info.sha256, found.sha256, sizeof(found.sha256));
    }
    return scanner_register(scanner, original, error);
}

static int import_from_inbox(struct scanner *scanner, const struct upload *upload,
                             struct cv_error *error)
{
    cv_auto(cv_metadata_deinit) struct cv_metadata metadata = {0};
    struct cv_inbox_key inbox;
    enum cv_inbox_verdict verdict = cv_inbox_read(upload->key, &inbox);
    if (verdict == CV_INBOX_OTHER) {
        return forget(scanner, upload->key, error);
    }
    if (verdict == CV_INBOX_NO_OWNER) {
        return refuse(scanner, upload->key, "a folder of the inbox must be its owner's id, a UUID",
                      error);
    }
    int result = find_moved(scanner, upload, error);
    if (result != CV_STORE_NOT_FOUND) {
        return result;
    }
    struct scanner_original original = {
        .key = upload->key,
        .upload_key = upload->key,
        .owner_id = inbox.owner_id[0] ? inbox.owner_id : NULL,
        .team_id = inbox.team_id[0] ? inbox.team_id : NULL,
        .name = inbox.name,
    };
    result = cv_store_head_metadata(scanner->store, upload->key, &original.info, &metadata, error);
    if (result != 0) {
        return result == CV_STORE_NOT_FOUND ? forget(scanner, upload->key, error) : result;
    }
    if (!has_settled(upload, &original.info)) {
        return postpone(scanner, upload->key, &original.info, error);
    }
    read_notes(scanner, &metadata, &original);
    return verdict == CV_INBOX_SUBTITLES
               ? move_beside(scanner, upload, inbox.name, &original, error)
               : move_in(scanner, upload, &inbox, &original, error);
}

/* ---- all that are due ------------------------------------------------------------------------ */

static int import_upload(struct scanner *scanner, const struct upload *upload,
                         struct cv_error *error)
{
    char video_id[CV_OBJECT_ID_SIZE];
    struct cv_error ignored;
    if (cv_store_check_key(upload->key, &ignored) != 0) {
        return forget(scanner, upload->key, error);
    }
    if (cv_object_is_original(upload->key, video_id)) {
        return import_original(scanner, upload, video_id, error);
    }
    if (cv_object_is_subtitles(upload->key, video_id)) {
        return import_subtitles(scanner, upload, error);
    }
    if (strncmp(upload->key, CV_KEYS_INBOX, strlen(CV_KEYS_INBOX)) == 0) {
        return import_from_inbox(scanner, upload, error);
    }
    return forget(scanner, upload->key, error);
}

/* Whether a failure concerns all objects, not only this one. */
static bool concerns_all(const struct scanner *scanner, const struct cv_error *error)
{
    return !cv_db_is_connected(scanner->db) || error->verdict == CV_VERDICT_STOP ||
           cv_daemon_is_stopping(&scanner->daemon);
}

static int import_some(struct scanner *scanner, bool *ret_any, struct cv_error *error)
{
    cv_auto(cv_db_result_free) struct cv_db_result *rows = NULL;
    CV_TRY(scanner_report(scanner, error));
    CV_TRY(cv_db_run(scanner->db, &rows, error, "SELECT * FROM due_uploads($1::int)",
                     cv_db_number(LOOKS_A_TIME).text));
    int result = 0;
    for (int i = 0; result == 0 && i < cv_db_rows(rows); i++) {
        const struct upload upload = {
            .key = cv_db_text(rows, i, "key"),
            .etag = cv_db_text(rows, i, "etag"),
            .video_id = cv_db_text(rows, i, "video_id"),
            .size = cv_db_int(rows, i, "size", -1),
        };
        if (cv_daemon_is_stopping(&scanner->daemon)) {
            return cv_fail(error, CV_ERROR_CANCELED, "stopped");
        }
        result = import_upload(scanner, &upload, error);
        if (result < 0 && !concerns_all(scanner, error)) {
            cv_log_error(error, upload.key);
            result = cv_db_run(scanner->db, NULL, error, "SELECT retry_upload($1)", upload.key);
        }
    }
    *ret_any = result == 0 && cv_db_rows(rows) > 0;
    return result;
}

int scanner_import(struct scanner *scanner, struct cv_error *error)
{
    bool any = true;
    while (any) {
        CV_TRY(import_some(scanner, &any, error));
    }
    return 0;
}

int scanner_next_due(struct scanner *scanner, int64_t *ret_ms, struct cv_error *error)
{
    cv_auto(cv_db_result_free) struct cv_db_result *rows = NULL;
    CV_TRY(cv_db_run(scanner->db, &rows, error,
                     "SELECT ceil(extract(epoch FROM min(due_at) - clock_timestamp()) * 1000)"
                     "::bigint AS ms FROM uploads WHERE refused IS NULL"));
    *ret_ms = cv_db_int(rows, 0, "ms", INT64_MAX);
    return 0;
}
