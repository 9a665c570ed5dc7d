#include "workers/ocr/reading/saved_readings.h"

#include <jansson.h>
#include <openssl/evp.h>
#include <string.h>

enum {
    READINGS_MAX = 200000, /* some ten hours of busy screens, 30 MiB as text */
    OBJECT_BYTES_MAX = 128 << 20,
    TABLE_SIZE = 1 << 19, /* slots; a power of two, more than twice the readings */
    /* A large object is written more rarely: at most a twentieth of the time goes into it. */
    SAVE_SHARE = 20,
    KEY_HEX = 16, /* of the payload's hash, in the object's name */
    HEX_SIZE = 2 * OCR_READING_NAME_SIZE + 1,
};

struct remembered {
    uint8_t name[OCR_READING_NAME_SIZE];
    struct ocr_reading reading;
};

struct ocr_saved_readings {
    struct cv_store *store;
    char *key;
    struct remembered *readings;
    size_t count;
    uint32_t *table; /* index + 1 of a reading; 0: free */
    size_t stored;   /* how many the object holds */
    bool has_object;
    int64_t save_at;
};

static int hash(const void *data, size_t size, uint8_t ret_name[OCR_READING_NAME_SIZE])
{
    unsigned length = 0;
    return EVP_Digest(data, size, ret_name, &length, EVP_sha256(), NULL) ? 0 : -1;
}

static void to_hex(const uint8_t *bytes, size_t count, char *ret_hex)
{
    for (size_t i = 0; i < count; i++) {
        (void)snprintf(ret_hex + 2 * i, 3, "%02x", bytes[i]);
    }
}

static bool from_hex(const char *hex, uint8_t ret_name[OCR_READING_NAME_SIZE])
{
    static const char digits[] = "0123456789abcdef";
    for (size_t i = 0; i < OCR_READING_NAME_SIZE; i++) {
        const char *high = hex[2 * i] ? strchr(digits, hex[2 * i]) : NULL;
        const char *low = high && hex[2 * i + 1] ? strchr(digits, hex[2 * i + 1]) : NULL;
        if (!low) {
            return false;
        }
        ret_name[i] = (uint8_t)((high - digits) << 4 | (low - digits));
    }
    return hex[HEX_SIZE - 1] == '\0';
}

/* ---- the table ------------------------------------------------------------------------------- */

/* Where a name stands, or would. */
static uint32_t *slot_of(const struct ocr_saved_readings *saved,
                         const uint8_t name[OCR_READING_NAME_SIZE])
{
    uint64_t first = 0;
    (void)memcpy(&first, name, sizeof(first)); /* a hash: any part of it is as good */
    for (size_t i = (size_t)first & (TABLE_SIZE - 1);; i = (i + 1) & (TABLE_SIZE - 1)) {
        uint32_t index = saved->table[i];
        if (index == 0 ||
            memcmp(saved->readings[index - 1].name, name, OCR_READING_NAME_SIZE) == 0) {
            return &saved->table[i];
        }
    }
}

static bool copy_reading(const struct ocr_reading *reading, struct ocr_reading *ret_copy)
{
    struct ocr_reading copy = *reading;
    copy.text = strdup(reading->text ? reading->text : "");
    if (copy.text) {
        *ret_copy = copy;
    }
    return copy.text != NULL;
}

static void note(struct ocr_saved_readings *saved, const uint8_t name[OCR_READING_NAME_SIZE],
                 const struct ocr_reading *reading)
{
    uint32_t *slot = slot_of(saved, name);
    if (*slot || saved->count == READINGS_MAX || !CV_MAKE_ROOM(saved->readings, saved->count)) {
        return;
    }
    struct remembered *added = &saved->readings[saved->count];
    *added = (struct remembered){0};
    (void)memcpy(added->name, name, OCR_READING_NAME_SIZE);
    if (copy_reading(reading, &added->reading)) {
        *slot = (uint32_t)++saved->count;
    }
}

/* ---- the object ------------------------------------------------------------------------------ */

/* Takes in one reading of the object: [name, text, confidence, worst word, language]. An entry
 * of another form is left out, and its line is read again. */
static void take_entry(struct ocr_saved_readings *saved, json_t *entry)
{
    const char *name_hex = NULL, *text = NULL, *language = NULL;
    struct ocr_reading reading = {.text = NULL};
    uint8_t name[OCR_READING_NAME_SIZE];
    if (json_unpack(entry, "[s, s, F, F, s!]", &name_hex, &text, &reading.confidence,
                    &reading.worst_word, &language) != 0 ||
        strlen(name_hex) != HEX_SIZE - 1 || !from_hex(name_hex, name) ||
        strlen(text) > OCR_LINE_BYTES_MAX || strlen(language) >= OCR_LANGUAGE_NAME_MAX ||
        !(reading.confidence >= 0 && reading.confidence <= 1) ||
        !(reading.worst_word >= 0 && reading.worst_word <= 1)) {
        return;
    }
    cv_auto_free char *own = strdup(text);
    if (own) {
        reading.text = own;
        (void)snprintf(reading.language, sizeof(reading.language), "%s", language);
        note(saved, name, &reading);
    }
}

static void load(struct ocr_saved_readings *saved)
{
    cv_auto_free void *data = NULL;
    size_t size = 0;
    struct cv_error error;
    int result = cv_store_get(saved->store, saved->key, OBJECT_BYTES_MAX, &data, &size, &error);
    if (result != 0) {
        if (result < 0) {
            cv_log(CV_LOG_DEBUG, "cannot use the readings of an earlier attempt: %s",
                   error.message);
        }
        return;
    }
    saved->has_object = true;
    cv_auto(json_decref) json_t *object = json_loadb(data, size, JSON_REJECT_DUPLICATES, NULL);
    json_t *entry;
    size_t i;
    json_array_foreach(json_object_get(object, "readings"), i, entry)
    {
        take_entry(saved, entry);
    }
    saved->stored = saved->count;
    cv_log(CV_LOG_INFO, "continuing with %zu readings of an earlier attempt", saved->count);
}

static json_t *all_entries(const struct ocr_saved_readings *saved)
{
    json_t *entries = json_array();
    for (size_t i = 0; i < saved->count; i++) {
        const struct remembered *one = &saved->readings[i];
        char hex[HEX_SIZE];
        to_hex(one->name, OCR_READING_NAME_SIZE, hex);
        json_t *entry =
            json_pack("[s, s, f, f, s]", hex, one->reading.text, one->reading.confidence,
                      one->reading.worst_word, one->reading.language);
        if (entry) { /* else its text is no UTF-8: it will be read again */
            (void)json_array_append_new(entries, entry);
        }
    }
    return entries;
}

/* A failure costs the next attempt time, and nothing else. */
static void save(struct ocr_saved_readings *saved)
{
    int64_t begun = cv_monotonic_ms();
    cv_auto(json_decref) json_t *object = json_pack("{s:o}", "readings", all_entries(saved));
    cv_auto_free char *text =
        object ? json_dumps(object, JSON_COMPACT | JSON_REAL_PRECISION(17)) : NULL;
    struct cv_error error;
    const struct cv_new_object stored = {.key = saved->key,
                                         .data = text,
                                         .size = text ? strlen(text) : 0,
                                         .content_type = "application/json"};
    if (text && cv_store_put(saved->store, &stored, NULL, &error) == 0) {
        saved->has_object = true;
        saved->stored = saved->count;
    } else {
        cv_log(CV_LOG_DEBUG, "cannot store the readings: %s",
               text ? error.message : "out of memory");
    }
    int64_t took = cv_monotonic_ms() - begun;
    int64_t pause = took * SAVE_SHARE;
    saved->save_at =
        cv_monotonic_ms() + (pause > OCR_READINGS_SAVE_MS ? pause : OCR_READINGS_SAVE_MS);
}

/* ---- for the stage --------------------------------------------------------------------------- */

int ocr_saved_readings_open(struct cv_store *store, const char *video_id, const char *payload_text,
                            struct ocr_saved_readings **ret_saved, struct cv_error *error)
{
    cv_auto(ocr_saved_readings_free) struct ocr_saved_readings *saved = calloc(1, sizeof(*saved));
    uint8_t name[OCR_READING_NAME_SIZE];
    char hex[HEX_SIZE];
    CV_TRY_MEMORY(saved && hash(payload_text, strlen(payload_text), name) == 0, error, "readings");
    to_hex(name, OCR_READING_NAME_SIZE, hex);
    saved->store = store;
    saved->save_at = cv_monotonic_ms() + OCR_READINGS_SAVE_MS;
    saved->table = calloc(TABLE_SIZE, sizeof(*saved->table));
    CV_TRY_MEMORY(saved->table, error, "readings");
    CV_TRY(cv_object_key(CV_OBJECT_FRAMES, video_id, &saved->key, error, "%.*s.readings", KEY_HEX,
                         hex));
    load(saved);
    *ret_saved = cv_take(saved);
    return 0;
}

void ocr_saved_readings_free(struct ocr_saved_readings *saved)
{
    if (!saved) {
        return;
    }
    for (size_t i = 0; i < saved->count; i++) {
        ocr_reading_deinit(&saved->readings[i].reading);
    }
    free(saved->readings);
    free(saved->table);
    free(saved->key);
    free(saved);
}

int ocr_saved_readings_find(struct ocr_saved_readings *saved,
                            const uint8_t name[OCR_READING_NAME_SIZE], bool *ret_found,
                            struct ocr_reading *ret_reading, struct cv_error *error)
{
    uint32_t *slot = slot_of(saved, name);
    if (*slot) {
        struct remembered *found = &saved->readings[*slot - 1];
        CV_TRY_MEMORY(copy_reading(&found->reading, ret_reading), error, "a reading");
    }
    *ret_found = *slot != 0;
    return 0;
}

void ocr_saved_readings_add(struct ocr_saved_readings *saved,
                            const uint8_t name[OCR_READING_NAME_SIZE],
                            const struct ocr_reading *reading)
{
    note(saved, name, reading);
    if (cv_monotonic_ms() >= saved->save_at) {
        save(saved);
    }
}

void ocr_saved_readings_end(struct ocr_saved_readings *saved, bool is_done)
{
    struct cv_error error;
    if (!is_done && saved->count > saved->stored) {
        save(saved);
    } else if (is_done && saved->has_object &&
               cv_store_delete(saved->store, saved->key, &error) != 0) {
        cv_log(CV_LOG_DEBUG, "%s could not be removed: %s", saved->key, error.message);
    }
}
