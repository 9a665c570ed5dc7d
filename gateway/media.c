#include "gateway/media.h"

#include "common/store/store.h"

#include "gateway/response.h"

#include <string.h>
#include <time.h>

/* ---- objects --------------------------------------------------------------------------------- */

enum {
    TEXT_MAX_BYTES =
        8 * 1024 * 1024, /* bytes of a playlist; ten hours of four-second segments have 1 MiB */
    PICTURE_MAX_BYTES =
        8 * 1024 * 1024,     /* bytes of a picture of a line; in 4K recordings below 0.5 MiB */
    NAME_MAX_BYTES = 80,     /* name of a download */
    REDIRECT_SECONDS = 3600, /* time that a signed URL of a bucket is valid */
};

static const char base[] = "/media/";

#define DISPOSITION "Content-Disposition"

const struct operation media_operation = {.name = "media",
                                          .method = "GET",
                                          .path = "/media/{grant}/{key}",
                                          .may_be_known = true,
                                          .steps = {STEP_BODY, STEP_MEDIA}};

bool media_is_target(const char *target)
{
    return strncmp(target, base, strlen(base)) == 0;
}

/* ---- ranges -------------------------------------------------------------------------------------- */

/* Reads digits as a number, limited far beyond the end of any object; false if there are none. */
static bool read_position(const char **text, int64_t *ret_position)
{
    int64_t position = 0;
    const char *at = *text;
    for (; *at >= '0' && *at <= '9'; at++) {
        position = position > INT64_MAX / 100 ? position : position * 10 + (*at - '0');
    }
    bool has_digits = at > *text;
    *text = at;
    *ret_position = position;
    return has_digits;
}

/* Reads a Range header: `text` is its value or NULL, `size` the object's size. Several ranges, or a
 * range that is not of bytes, give the whole object (RFC 9110, 14.2). *ret_first and *ret_last are
 * set for RANGE_PART. */
static enum media_range read_range(const char *text, int64_t size, int64_t *ret_first,
                                   int64_t *ret_last)
{
    static const char unit[] = "bytes=";
    int64_t first = 0;
    int64_t last = 0;
    if (!text || strncmp(text, unit, strlen(unit)) != 0) {
        return RANGE_WHOLE;
    }
    text += strlen(unit);
    bool has_first = read_position(&text, &first);
    if (*text++ != '-') {
        return RANGE_WHOLE;
    }
    bool has_last = read_position(&text, &last);
    if (*text || (!has_first && !has_last) || (has_first && has_last && last < first)) {
        return RANGE_WHOLE;
    }
    if (!has_first) {
        first = last < size ? size - last : 0;
        has_last = last > 0;
        last = has_last ? size - 1 : -1;
    } else if (!has_last || last >= size) {
        last = size - 1;
    }
    if (first >= size || last < first) {
        return RANGE_UNSATISFIABLE;
    }
    *ret_first = first;
    *ret_last = last;
    return RANGE_PART;
}

/* ---- an object ----------------------------------------------------------------------------------- */

static void format_date(int64_t wall_ms, char text[40])
{
    time_t seconds = (time_t)(wall_ms / 1000);
    struct tm utc = {.tm_mday = 1};
    (void)gmtime_r(&seconds, &utc);
    (void)strftime(text, 40, "%a, %d %b %Y %H:%M:%S GMT", &utc); /* in the locale "C" */
}

/* Whether the object is still the one of which the client has a part (RFC 9110, 13.1.5). */
static bool is_range_wanted(const struct exchange *exchange, const char *date)
{
    const char *condition = exchange_header(exchange, "If-Range");
    return !condition || strcmp(condition, exchange->answer.etag) == 0 ||
           strcmp(condition, date) == 0;
}

static void choose_range(struct exchange *exchange, const char *date, int64_t size)
{
    struct answer *answer = &exchange->answer;
    int64_t first = 0;
    int64_t last = size - 1;
    char text[96];
    const char *range = exchange->access == ACCESS_HEAD ? NULL : exchange_header(exchange, "Range");
    enum media_range kind =
        is_range_wanted(exchange, date) ? read_range(range, size, &first, &last) : RANGE_WHOLE;
    answer->status = 200;
    if (kind == RANGE_PART) {
        answer->status = 206;
        (void)snprintf(text, sizeof(text), "bytes %lld-%lld/%lld", (long long)first,
                       (long long)last, (long long)size);
        answer_set_header(answer, "Content-Range", text);
    }
    answer->offset = first;
    answer->length = (size_t)(last - first + 1);
    if (kind == RANGE_UNSATISFIABLE) {
        exchange_refuse(exchange, REFUSE_RANGE, "the range lies behind the end of the object");
        (void)snprintf(text, sizeof(text), "bytes */%lld", (long long)size);
        answer_set_header(answer, "Content-Range", text);
    }
}

static bool has_ending(const char *key, const char *ending)
{
    size_t length = strlen(key);
    size_t ending_length = strlen(ending);
    return length > ending_length && strcmp(key + length - ending_length, ending) == 0;
}

/* Whether the object is a text that refers to other objects by relative URIs. */
static bool refers_to_others(const char *key)
{
    return has_ending(key, ".m3u8") || has_ending(key, ".vtt");
}

static int redirect(struct cv_store *store, struct exchange *exchange, const char *key,
                    struct cv_error *error)
{
    const struct cv_signed_url allowed = {
        .key = key,
        .method = "GET",
        .seconds = REDIRECT_SECONDS,
        .disposition = json_string_value(json_object_get(exchange->answer.headers, DISPOSITION)),
    };
    cv_auto_free char *url = NULL;
    CV_TRY(cv_store_presign(store, &allowed, &url, error));
    exchange->answer.status = 307;
    exchange->answer.etag[0] = '\0';
    /* The URL is valid for twice as long as caches may keep the redirect. */
    exchange->answer.cache_control = "private, max-age=1800";
    answer_set_header(&exchange->answer, "Location", url);
    CV_TRY_MEMORY(json_object_get(exchange->answer.headers, "Location"), error, "a redirect");
    return 0;
}

/* Answers with the bytes, read into memory. */
static int read_text(struct cv_store *store, struct exchange *exchange, const char *key,
                     const char *date, struct cv_error *error)
{
    void *data = NULL;
    size_t size = 0;
    CV_TRY(cv_store_get(store, key, TEXT_MAX_BYTES, &data, &size, error));
    choose_range(exchange, date, (int64_t)size);
    struct answer *answer = &exchange->answer;
    if (answer->is_problem) {
        free(data);
        return 0;
    }
    if (answer->offset > 0) {
        (void)memmove(data, (char *)data + answer->offset, answer->length);
        answer->offset = 0;
    }
    answer->body = data;
    return 0;
}

static int keep_open(struct answer *answer, int fd, const char *key, struct cv_error *error)
{
    answer->fd = dup(fd);
    answer->has_fd = answer->fd >= 0;
    return answer->has_fd ? 0 : cv_fail_errno(error, errno, "cannot keep %s open", key);
}

/* Sets how a browser takes an object: by the type of its key, never as the object's writer says. What
 * has no known type is stored as a file instead of shown. */
static void describe(struct answer *answer, const char *key)
{
    answer->content_type = cv_media_type(key);
    if (strcmp(answer->content_type, CV_MEDIA_TYPE_UNKNOWN) == 0 &&
        !json_object_get(answer->headers, DISPOSITION)) {
        answer_set_header(answer, DISPOSITION, "attachment");
    }
}

/* `allowed`: the bytes that may be read; NULL: all. */
static int serve(struct cv_store *store, struct exchange *exchange, const char *key,
                 const struct media_bytes *allowed, struct cv_error *error)
{
    struct answer *answer = &exchange->answer;
    describe(answer, key);
    cv_auto(cv_store_reader_close) struct cv_store_reader *reader = NULL;
    char date[40];
    CV_TRY(cv_store_reader_open(store, key, &reader, error));
    const struct cv_object_info *info = cv_store_reader_info(reader);
    int fd = cv_store_reader_fd(reader);
    bool is_passed = fd < 0 && !refers_to_others(key);
    if (is_passed && !exchange->media->passes_through && !allowed) {
        return redirect(store, exchange, key, error);
    }
    format_date(info->modified_ms, date);
    (void)snprintf(answer->etag, sizeof(answer->etag), "\"%.*s\"", (int)sizeof(answer->etag) - 3,
                   info->etag);
    answer->cache_control = refers_to_others(key) ? "private, no-cache" : "private, max-age=86400";
    answer_set_header(answer, "Accept-Ranges", "bytes");
    answer_set_header(answer, "Last-Modified", date);
    if (fd < 0 && !is_passed) {
        return read_text(store, exchange, key, date, error);
    }
    choose_range(exchange, date, info->size);
    if (allowed && !answer->is_problem &&
        (answer->offset < allowed->first ||
         answer->offset + (int64_t)answer->length > allowed->end)) {
        exchange_refuse_missing(exchange);
    }
    return answer->is_problem ? 0
           : is_passed ? relay_begin(exchange, key, answer->offset, (int64_t)answer->length, error)
                       : keep_open(answer, fd, key, error);
}

/* Answers 404 for an object that is not there; a key that no object can have counts as missing. */
static int settle(struct exchange *exchange, int result, const struct cv_error *error)
{
    if (result > 0 || (result < 0 && error->type == CV_ERROR_INVALID_KEY)) {
        exchange_refuse_missing(exchange);
        return 0;
    }
    return result;
}

/* ---- pictures ------------------------------------------------------------------------------------ */

static int read_piece(struct cv_store_reader *reader, int64_t offset, size_t bytes,
                      struct answer *answer, struct cv_error *error)
{
    struct cv_byte_source source = cv_store_reader_source(reader);
    size_t there = 0;
    cv_auto_free char *data = malloc(bytes);
    int result = data ? source.read(source.opaque, offset, data, bytes, &there, error)
                      : cv_fail(error, CV_ERROR_OUT_OF_MEMORY, "out of memory for a picture");
    if (result == 0 && there < bytes) {
        result = CV_STORE_NOT_FOUND;
    }
    answer->body = result == 0 ? cv_take(data) : NULL;
    return result;
}

/* A picture in an object that contains many. */
struct piece {
    const char *key;
    int64_t offset;
    int64_t bytes;
};

static int serve_piece(struct cv_store *store, struct exchange *exchange, const struct piece *piece,
                       struct cv_error *error)
{
    int64_t offset = piece->offset, bytes = piece->bytes;
    struct answer *answer = &exchange->answer;
    cv_auto(cv_store_reader_close) struct cv_store_reader *reader = NULL;
    CV_TRY(cv_store_reader_open(store, piece->key, &reader, error));
    const struct cv_object_info *info = cv_store_reader_info(reader);
    int fd = cv_store_reader_fd(reader);
    if (offset < 0 || bytes <= 0 || bytes > PICTURE_MAX_BYTES || offset + bytes > info->size) {
        return CV_STORE_NOT_FOUND; /* the object was replaced meanwhile */
    }
    if (fd < 0) {
        CV_TRY(read_piece(reader, offset, (size_t)bytes, answer, error));
    } else {
        answer->offset = offset;
        CV_TRY(keep_open(answer, fd, piece->key, error));
    }
    (void)snprintf(answer->etag, sizeof(answer->etag), "\"%.60s-%lld\"", info->etag,
                   (long long)offset);
    answer->length = (size_t)bytes;
    answer->content_type = "image/png";
    answer->cache_control = "private, max-age=86400";
    return 0;
}

int media_answer_object(struct cv_store *store, struct exchange *exchange, struct cv_error *error)
{
    cv_auto(json_decref) json_t *body = answer_json(&exchange->answer);
    const json_t *bytes = json_object_get(body, "bytes");
    const struct piece piece = {json_string_value(json_object_get(body, "object")),
                                json_integer_value(json_object_get(body, "offset")),
                                json_integer_value(bytes)};
    answer_set_body(&exchange->answer, NULL);
    if (!piece.key) {
        return cv_fail(error, CV_ERROR_INTERNAL, "an answer without an object");
    }
    int result = bytes ? serve_piece(store, exchange, &piece, error)
                       : serve(store, exchange, piece.key, NULL, error);
    return settle(exchange, result, error);
}

/* ---- /media/{grant}/{key} ------------------------------------------------------------------------ */

/* Whether a path has only characters of our keys: no percent-encoding, query or dot segment, so
 * that the compared text is the key that is opened. */
static bool is_plain_key(const char *key)
{
    static const char letters[] =
        "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_-./";
    struct cv_error ignored;
    return strspn(key, letters) == strlen(key) && cv_store_check_key(key, &ignored) == 0;
}

/* Removes the query "?name=NAME" from a key; the browser stores the file under that name. Any other
 * query stays, so that the key is not plain. */
static void cut_name_off(char *key, struct answer *answer)
{
    static const char letters[] =
        "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_-.";
    static const char beginning[] = "?name=";
    char *query = strchr(key, '?');
    const char *name = query ? query + strlen(beginning) : "";
    char header[NAME_MAX_BYTES + 64];
    if (query && strncmp(query, beginning, strlen(beginning)) == 0 && *name && *name != '.' &&
        strlen(name) <= NAME_MAX_BYTES && strspn(name, letters) == strlen(name)) {
        (void)snprintf(header, sizeof(header), "attachment; filename=\"%s\"", name);
        answer_set_header(answer, DISPOSITION, header);
        *query = '\0';
    }
}

/* ---- a part of a video --------------------------------------------------------------------------- */

static int read_part_playlist(struct cv_store *store, const char *key,
                              const struct media_part *part, char **ret_text,
                              struct cv_error *error)
{
    void *data = NULL;
    size_t size = 0;
    CV_TRY(cv_store_get(store, key, TEXT_MAX_BYTES, &data, &size, error));
    cv_auto_free char *text = strndup(data, size);
    free(data);
    CV_TRY_MEMORY(text, error, "a playlist");
    return media_part_playlist(part, text, ret_text, error);
}

/* The key of the playlist that has this object: of segment_NAME_NUMBER.EXT and init_NAME.mp4 it is
 * NAME.m3u8 beside them (workers/transcode/hls/playlist.c). "": there is none. */
static int playlist_of(const char *key, char **ret_key, struct cv_error *error)
{
    static const char segment[] = "segment_", beginning[] = "init_";
    const char *file = strrchr(key, '/') + 1;
    bool is_segment = strncmp(file, segment, strlen(segment)) == 0;
    const char *end = strrchr(file, is_segment ? '_' : '.');
    const char *name = file + strlen(is_segment ? segment : beginning);
    if (!end || end <= name || (!is_segment && strncmp(file, beginning, strlen(beginning)) != 0)) {
        return cv_format(ret_key, error, "%s", "");
    }
    return cv_format(ret_key, error, "%.*s%.*s.m3u8", (int)(file - key), key, (int)(end - name),
                     name);
}

/* Serves a playlist that has the part alone, or an object that it refers to. */
static int serve_part(struct cv_store *store, struct exchange *exchange, const char *key,
                      const struct media_part *part, struct cv_error *error)
{
    cv_auto_free char *text = NULL;
    cv_auto_free char *playlist = NULL;
    struct media_bytes allowed;
    if (has_ending(key, ".m3u8")) {
        CV_TRY(read_part_playlist(store, key, part, &text, error));
        answer_set_body(&exchange->answer, cv_take(text));
        describe(&exchange->answer, key);
        exchange->answer.cache_control = "private, no-cache";
        exchange->answer.status = 200;
        return 0;
    }
    CV_TRY(playlist_of(key, &playlist, error));
    if (!playlist[0]) {
        return CV_STORE_NOT_FOUND;
    }
    CV_TRY(read_part_playlist(store, playlist, part, &text, error));
    return media_part_bytes(text, strrchr(key, '/') + 1, &allowed)
               ? serve(store, exchange, key, &allowed, error)
               : CV_STORE_NOT_FOUND;
}

int media_answer_target(struct cv_store *store, struct exchange *exchange, struct cv_error *error)
{
    const char *text = exchange->target + strlen(base);
    size_t length = strcspn(text, "/");
    char *key = exchange->target + strlen(base) + length + (text[length] == '/');
    struct grant grant;
    cut_name_off(key, &exchange->answer);
    if (!is_plain_key(key) ||
        !grant_read(exchange->media->grants, text, length, cv_wall_ms() / 1000, &grant) ||
        !grant_covers(&grant, key)) {
        exchange_refuse_missing(exchange);
        return 0;
    }
    int result = media_part_is_set(&grant.part)
                     ? serve_part(store, exchange, key, &grant.part, error)
                     : serve(store, exchange, key, NULL, error);
    return settle(exchange, result, error);
}

/* ---- removal ------------------------------------------------------------------------------------- */

int media_remove(struct cv_store *store, struct exchange *exchange, struct cv_error *error)
{
    cv_auto(json_decref) json_t *body = answer_json(&exchange->answer);
    const char *key = json_string_value(json_object_get(body, "remove"));
    CV_TRY(key ? cv_store_delete(store, key, error)
               : cv_fail(error, CV_ERROR_INTERNAL, "an answer without an object to remove"));
    answer_set_body(&exchange->answer, NULL);
    return 0;
}

/* ---- grants in answers --------------------------------------------------------------------------- */

static unsigned read_scopes(const json_t *names)
{
    static const struct {
        const char *name;
        unsigned scope;
    } known[] = {{"playback", GRANT_PLAYBACK}, {"original", GRANT_ORIGINAL}, {"clip", GRANT_CLIP}};
    unsigned scopes = 0;
    size_t index;
    const json_t *name;
    json_array_foreach(names, index, name)
    {
        for (size_t i = 0; i < CV_COUNT(known) && json_is_string(name); i++) {
            scopes |= strcmp(json_string_value(name), known[i].name) == 0 ? known[i].scope : 0;
        }
    }
    return scopes;
}

/* Replaces the members "grant" and "path" of an object. */
static int fill(const struct exchange *exchange, json_t *object, struct cv_error *error)
{
    char text[GRANT_SIZE];
    char expires[CV_TIMESTAMP_SIZE];
    const json_t *wanted = json_object_get(object, "grant");
    const char *id = json_string_value(json_object_get(wanted, "id"));
    const char *path = json_string_value(json_object_get(object, "path"));
    int64_t now_s = cv_wall_ms() / 1000;
    bool is_short = json_is_true(json_object_get(wanted, "is_short"));
    struct grant grant = {.scopes = read_scopes(json_object_get(wanted, "scopes")),
                          .until_s =
                              grant_end(now_s, is_short ? now_s : exchange->principal.expires_s),
                          .part = {json_integer_value(json_object_get(wanted, "from_ms")),
                                   json_integer_value(json_object_get(wanted, "to_ms"))}};
    if (!json_is_object(wanted)) {
        return 0;
    }
    (void)snprintf(grant.id, sizeof(grant.id), "%s", id ? id : "");
    CV_TRY(grant_write(exchange->media->grants, &grant, text, error));
    bool good =
        json_object_set_new(object, "expires",
                            json_string(cv_format_timestamp(grant.until_s * 1000, expires))) == 0 &&
        json_object_set_new(object, path ? "url" : "base_url",
                            json_sprintf("%s%s/%s", base, text, path ? path : "")) == 0;
    (void)json_object_del(object, "grant");
    (void)json_object_del(object, "path");
    return good ? 0 : cv_fail(error, CV_ERROR_OUT_OF_MEMORY, "out of memory for a grant");
}

static int fill_grants(struct exchange *exchange, struct cv_error *error)
{
    cv_auto(json_decref) json_t *body = answer_json(&exchange->answer);
    size_t index;
    json_t *item;
    CV_TRY_MEMORY(body, error, "a grant");
    CV_TRY(fill(exchange, body, error));
    json_array_foreach(json_object_get(body, "items"), index, item)
    {
        CV_TRY(fill(exchange, item, error));
    }
    char *text = json_dumps(body, JSON_COMPACT);
    CV_TRY_MEMORY(text, error, "a grant");
    answer_set_body(&exchange->answer, text);
    return 0;
}

void media_fill_grants(struct exchange *exchange)
{
    struct cv_error error;
    if (fill_grants(exchange, &error) != 0) {
        exchange_refuse_store(exchange, &error);
    }
}
