#include "workers/scanner/scanner.h"

#include <string.h>

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

static void tell(struct scanner *scanner, const struct scanner_original *original,
                 const char *outcome)
{
    bool is_odd = strcmp(outcome, "replaced") == 0 || strcmp(outcome, "other") == 0;
    bool is_known = strcmp(outcome, "known") == 0;
    scanner->taken += !is_known && !is_odd;
    cv_log(is_odd     ? CV_LOG_WARN
           : is_known ? CV_LOG_DEBUG
                      : CV_LOG_INFO,
           "%s, video %s: %s", original->upload_key ? original->upload_key : original->key,
           original->video_id, outcome);
}

int scanner_register(struct scanner *scanner, struct scanner_original *original,
                     struct cv_error *error)
{
    for (int i = 0; i < ASKS_MAX; i++) {
        char outcome[32];
        int result = ask(scanner, original, outcome, sizeof(outcome), error);
        if (result != 0 || strcmp(outcome, "digest") != 0) {
            if (result == 0) {
                tell(scanner, original, outcome);
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
