#include "common/worker/worker.h"

#include <math.h>
#include <string.h>

static int bad_member(const char *key, const char *wanted, struct cv_error *error)
{
    return cv_fail(error, CV_ERROR_INVALID_PAYLOAD, "payload: \"%s\" must be %s", key, wanted);
}

/* Returns a member; NULL if it is missing or null. */
static const json_t *member(const json_t *payload, const char *key)
{
    const json_t *value = json_object_get(payload, key);
    return json_is_null(value) ? NULL : value;
}

int cv_payload_uuid(const json_t *payload, const char *key, const char **ret_uuid,
                    struct cv_error *error)
{
    const char *text = json_string_value(member(payload, key));
    if (!text || !cv_is_uuid(text)) {
        return bad_member(key, "a UUID", error);
    }
    *ret_uuid = text;
    return 0;
}

int cv_payload_object_key(const json_t *payload, const char *key, const char **ret_object_key,
                          struct cv_error *error)
{
    const json_t *value = member(payload, key);
    const char *text = json_string_value(value);
    if (!text) {
        return bad_member(key, "an object key", error);
    }
    struct cv_error reason;
    if (strlen(text) != json_string_length(value) || cv_store_check_key(text, &reason) < 0) {
        return bad_member(key, "a valid object key", error);
    }
    *ret_object_key = text;
    return 0;
}

static int read_int(const char *key, const json_t *value, int64_t low, int64_t high,
                    int64_t *ret_value, struct cv_error *error)
{
    /* Some clients write 10.0 for 10. */
    double real = json_is_real(value) ? json_real_value(value) : 0.5;
    bool whole = json_is_integer(value) || (real == floor(real) && fabs(real) < 9.0e15);
    int64_t number = json_is_integer(value) ? json_integer_value(value) : whole ? (int64_t)real : 0;
    if (!whole || number < low || number > high) {
        char wanted[96];
        (void)snprintf(wanted, sizeof(wanted), "a whole number from %lld to %lld", (long long)low,
                       (long long)high);
        return bad_member(key, wanted, error);
    }
    *ret_value = number;
    return 0;
}

int cv_payload_int(const json_t *payload, const char *key, int64_t low, int64_t high,
                   int64_t *ret_value, struct cv_error *error)
{
    return read_int(key, member(payload, key), low, high, ret_value, error);
}

int cv_payload_int_or(const json_t *payload, const char *key, int64_t fallback, int64_t low,
                      int64_t high, int64_t *ret_value, struct cv_error *error)
{
    const json_t *value = member(payload, key);
    if (!value) {
        *ret_value = fallback;
        return 0;
    }
    return read_int(key, value, low, high, ret_value, error);
}

int cv_payload_double_or(const json_t *payload, const char *key, double fallback, double low,
                         double high, double *ret_value, struct cv_error *error)
{
    const json_t *value = member(payload, key);
    if (!value) {
        *ret_value = fallback;
        return 0;
    }
    double number = json_number_value(value);
    if (!json_is_number(value) || !(number >= low && number <= high)) {
        char wanted[96];
        (void)snprintf(wanted, sizeof(wanted), "a number from %g to %g", low, high);
        return bad_member(key, wanted, error);
    }
    *ret_value = number;
    return 0;
}
