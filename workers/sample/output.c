#include "workers/sample/output.h"

#include "common/media/media.h"

#include <inttypes.h>
#include <string.h>

/* Text stays free of ringing at 90; 95 costs half as much again and reads no better. */
enum {
    JPEG_QUALITY = 90,
    /* Frames of a list, until OUTPUT_LISTS_MAX lists are full: few enough that a step of a workflow that fans out has
     * lists to share out, many enough that a list costs little beside its frames. */
    LIST_FRAMES = 32,
};

int output_init(struct output *output, struct cv_stage_context *context, const char *video_id,
                int64_t from_ms, struct cv_error *error)
{
    *output = (struct output){
        context,      video_id,      json_array(),
        json_array(), json_object(), {.keep = output_keep_subtitle, .opaque = output},
        -1,           from_ms,       0};
    CV_TRY_MEMORY(output->frames && output->lists && output->pictures, error, "the list of frames");
    return 0;
}

void output_deinit(struct output *output)
{
    json_decref(cv_take(output->frames));
    json_decref(cv_take(output->lists));
    json_decref(cv_take(output->pictures));
    cv_subtitle_list_deinit(&output->subtitles.list);
}

int64_t output_ms(int64_t time_us)
{
    return (time_us + 500) / 1000;
}

int output_key(const char *video_id, int64_t time_ms, char **ret_key, struct cv_error *error)
{
    return cv_object_key(CV_OBJECT_FRAMES, video_id, ret_key, error, "%" PRId64 ".jpg", time_ms);
}

static json_t *motion_list(const struct sampler_frame *frame)
{
    json_t *list = json_array();
    for (size_t i = 0; list && i < frame->motion_count; i++) {
        const struct sampler_motion *motion = &frame->motion[i];
        json_t *entry =
            json_pack("[I,i,i]", (json_int_t)output_ms(motion->time_us), motion->dx, motion->dy);
        if (json_array_append_new(list, entry) != 0) {
            json_decref(list);
            return NULL;
        }
    }
    return list;
}

static json_t *describe(const struct sampler_frame *frame, const char *key, int64_t time_ms,
                        int64_t start_ms)
{
    json_t *entry = json_pack("{s:s,s:I,s:I}", "path", key, "timestamp_ms", (json_int_t)time_ms,
                              "t_start", (json_int_t)start_ms);
    if (!entry) {
        return NULL;
    }
    int failed =
        json_object_set_new(entry, "dx", frame->related ? json_integer(frame->dx) : json_null());
    failed |=
        json_object_set_new(entry, "dy", frame->related ? json_integer(frame->dy) : json_null());
    if (frame->motion_count > 0) {
        failed |= json_object_set_new(entry, "motion", motion_list(frame));
    }
    if (failed != 0) {
        json_decref(entry);
        return NULL;
    }
    return entry;
}

/* The frame before ends where the next begins; "still_until" is when it began to go. */
static int close_last(struct output *output, int64_t end_ms, int64_t still_ms,
                      struct cv_error *error)
{
    size_t count = json_array_size(output->frames);
    if (count == 0) {
        return 0;
    }
    json_t *last = json_array_get(output->frames, count - 1);
    CV_TRY_MEMORY(json_object_set_new(last, "t_end", json_integer(end_ms)) == 0 &&
                      json_object_set_new(last, "still_until", json_integer(still_ms)) == 0,
                  error, "the list of frames");
    return 0;
}

int output_keep(void *opaque, const struct sampler_frame *frame, struct cv_error *error)
{
    struct output *output = opaque;
    int64_t time_ms = output_ms(frame->time_us);
    int64_t start_ms = output_ms(frame->start_us);
    if (time_ms <= output->last_ms) {
        time_ms = output->last_ms + 1; /* the key is the time, and two frames are two objects */
    }
    int64_t before_ms = output_ms(frame->before_us);
    CV_TRY(close_last(output, start_ms, before_ms < start_ms ? before_ms : start_ms, error));
    cv_auto_free char *key = NULL;
    CV_TRY(output_key(output->video_id, time_ms, &key, error));
    cv_auto_free void *data = NULL;
    size_t size = 0;
    CV_TRY(cv_picture_jpeg(frame->picture, JPEG_QUALITY, 0, &data, &size, error));
    CV_TRY_MEMORY(json_array_append_new(output->frames, describe(frame, key, time_ms, start_ms)) ==
                      0,
                  error, "the list of frames");
    output->last_ms = time_ms;
    const struct cv_new_object object = {.key = key, .data = cv_take(data), .size = size};
    return cv_stage_upload(output->context, &object, error);
}

/* Of the size and the pixels. */
static uint64_t hash_of(const AVFrame *picture)
{
    const int size[] = {picture->width, picture->height};
    uint64_t hash = cv_hash(CV_HASH_BEGIN, size, sizeof(size));
    for (int y = 0; y < picture->height; y++) {
        hash = cv_hash(hash, picture->data[0] + (ptrdiff_t)y * picture->linesize[0],
                       (size_t)picture->width);
    }
    return hash;
}

int output_keep_subtitle(void *opaque, const AVFrame *picture, int64_t start_ms,
                         char name[CV_SUBTITLE_NAME_SIZE], struct cv_error *error)
{
    struct output *output = opaque;
    char hash[17];
    (void)snprintf(hash, sizeof(hash), "%016" PRIx64, hash_of(picture));
    const char *known = json_string_value(json_object_get(output->pictures, hash));
    if (known) {
        (void)snprintf(name, CV_SUBTITLE_NAME_SIZE, "%s", known);
        return 0;
    }
    cv_auto_free char *key = NULL;
    cv_auto_free void *data = NULL;
    size_t size = 0;
    CV_TRY(cv_object_key(CV_OBJECT_FRAMES, output->video_id, &key, error, "%" PRId64 ".%s.jpg",
                         start_ms, hash));
    CV_TRY(cv_picture_jpeg(picture, JPEG_QUALITY, 0, &data, &size, error));
    CV_TRY_MEMORY(json_object_set_new(output->pictures, hash, json_string(key)) == 0, error,
                  "a subtitle");
    (void)snprintf(name, CV_SUBTITLE_NAME_SIZE, "%s", key);
    const struct cv_new_object object = {.key = key, .data = cv_take(data), .size = size};
    return cv_stage_upload(output->context, &object, error);
}

/* The pictures of subtitles, and the duration of the video, as members of a part's first list. */
static int describe_subtitles(const struct output *output, json_t *list, struct cv_error *error)
{
    json_t *subtitles = json_array();
    CV_TRY_MEMORY(json_object_set_new(list, "subtitles", subtitles) == 0, error, "subtitles");
    for (size_t i = 0; i < output->subtitles.list.count; i++) {
        const struct cv_subtitle *shown = &output->subtitles.list.items[i];
        json_t *entry =
            json_pack("{s:s,s:s,s:I,s:I}", "path", shown->text, "language", shown->language,
                      "t_start", (json_int_t)shown->start_ms, "t_end", (json_int_t)shown->end_ms);
        CV_TRY_MEMORY(json_array_append_new(subtitles, entry) == 0, error, "subtitles");
    }
    json_t *lost = json_integer(output->subtitles.lost);
    json_t *duration = json_integer(output->duration_ms);
    CV_TRY_MEMORY(json_object_set_new(list, "lost_subtitles", lost) == 0 &&
                      json_object_set_new(list, "duration_ms", duration) == 0,
                  error, "subtitles");
    return 0;
}

/* Stores frames from `first` on as a list, under the time of the first one. */
static int put_list(struct output *output, size_t first, size_t count, struct cv_error *error)
{
    cv_auto(json_decref) json_t *frames = json_array();
    const json_t *head = json_array_get(output->frames, first);
    cv_auto_free char *key = NULL;
    bool failed = !frames;
    for (size_t i = first; !failed && i < first + count; i++) {
        failed = json_array_append(frames, json_array_get(output->frames, i)) != 0;
    }
    cv_auto(json_decref) json_t *list = failed ? NULL : json_pack("{s:O}", "frames", frames);
    CV_TRY(list && first == 0 ? describe_subtitles(output, list, error) : 0);
    cv_auto_free char *text = list ? json_dumps(list, JSON_COMPACT) : NULL;
    CV_TRY(cv_object_key(CV_OBJECT_FRAMES, output->video_id, &key, error, "%" PRId64 ".json",
                         (int64_t)json_integer_value(json_object_get(head, "timestamp_ms"))));
    CV_TRY_MEMORY(text && json_array_append_new(output->lists, json_string(key)) == 0, error,
                  "a list of frames");
    size_t size = strlen(text);
    const struct cv_new_object object = {.key = key, .data = cv_take(text), .size = size};
    return cv_stage_upload(output->context, &object, error);
}

static int put_lists(struct output *output, struct cv_error *error)
{
    size_t count = json_array_size(output->frames);
    size_t frames = (count + OUTPUT_LISTS_MAX - 1) / OUTPUT_LISTS_MAX;
    frames = frames > LIST_FRAMES ? frames : LIST_FRAMES;
    for (size_t first = 0; first < count; first += frames) {
        CV_TRY(put_list(output, first, count - first < frames ? count - first : frames, error));
    }
    return 0;
}

static bool is_list(const struct output *output, const char *key)
{
    size_t index;
    json_t *list;
    json_array_foreach(output->lists, index, list)
    {
        if (strcmp(key, json_string_value(list)) == 0) {
            return true;
        }
    }
    return false;
}

/* Whether a key, "….{hash}.jpg", is that of a picture of subtitles. */
static bool is_picture(const struct output *output, const char *key)
{
    char hash[17];
    size_t length = strlen(key);
    (void)snprintf(hash, sizeof(hash), "%s", length > 20 ? key + length - 20 : key);
    const char *kept = json_string_value(json_object_get(output->pictures, hash));
    return kept && strcmp(kept, key) == 0;
}

/* Is there a kept frame at that key? The list is sorted by time; so are the questions not. */
static bool is_kept(const struct output *output, const char *key, int64_t time_ms)
{
    size_t low = 0;
    size_t high = json_array_size(output->frames);
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        const json_t *entry = json_array_get(output->frames, middle);
        int64_t here = json_integer_value(json_object_get(entry, "timestamp_ms"));
        if (here == time_ms) {
            return strcmp(key, json_string_value(json_object_get(entry, "path"))) == 0;
        }
        if (here < time_ms) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    return false;
}

/* Whether an object lies at a time from the beginning of this part to `until_ms`. What has no time (what `ocr` remembers)
 * is the first part's to remove: while others are looked at, `ocr` is at work on those before. */
static bool is_within(const struct output *output, const char *name, int64_t until_ms,
                      int64_t *ret_time_ms)
{
    char *end;
    errno = 0;
    *ret_time_ms = strtoll(name, &end, 10);
    bool has_time = errno == 0 && end > name && *end == '.';
    return has_time ? *ret_time_ms >= output->from_ms && *ret_time_ms < until_ms
                    : output->from_ms == 0;
}

static int remove_others(struct output *output, int64_t until_ms, struct cv_error *error)
{
    struct cv_store *store = cv_stage_store(output->context);
    cv_auto_free char *prefix = NULL;
    cv_auto_free char *continuation = NULL;
    CV_TRY(cv_object_folder(CV_OBJECT_FRAMES, output->video_id, &prefix, error));
    do {
        cv_auto(cv_object_list_deinit) struct cv_object_list page = {0};
        const struct cv_listing listing = {.prefix = prefix, .continuation = continuation};
        CV_TRY(cv_store_list(store, &listing, &page, error));
        for (size_t i = 0; i < page.count; i++) {
            const char *key = page.entries[i].key;
            int64_t time_ms = 0;
            if (is_within(output, key + strlen(prefix), until_ms, &time_ms) &&
                !is_kept(output, key, time_ms) && !is_picture(output, key) &&
                !is_list(output, key)) {
                CV_TRY(cv_store_delete(store, key, error));
            }
        }
        free(continuation);
        continuation = cv_take(page.continuation);
    } while (continuation);
    return 0;
}

int output_finish(struct output *output, int64_t end_us, bool is_last, struct cv_error *error)
{
    int64_t end_ms = output_ms(end_us);
    if (end_ms <= output->last_ms) {
        end_ms = output->last_ms + 1;
    }
    CV_TRY(close_last(output, end_ms, end_ms, error));
    CV_TRY(cv_subtitle_pictures_finish(&output->subtitles, is_last ? INT64_MAX : end_ms, error));
    CV_TRY(put_lists(output, error));
    return remove_others(output, is_last ? INT64_MAX : end_ms, error);
}

static void discard(struct output *output, const char *key)
{
    struct cv_error ignored;
    if (cv_store_delete(cv_stage_store(output->context), key, &ignored) != 0) {
        cv_log(CV_LOG_DEBUG, "cannot remove %s, ignoring: %s", key, ignored.message);
    }
}

void output_discard(struct output *output)
{
    size_t index;
    const char *hash;
    json_t *entry;
    struct cv_error unwanted;
    if (cv_stage_uploads_wait(output->context, &unwanted) < 0) {
        cv_log(CV_LOG_DEBUG, "a frame was not stored, ignoring: %s", unwanted.message);
    }
    json_array_foreach(output->frames, index, entry)
    {
        discard(output, json_string_value(json_object_get(entry, "path")));
    }
    json_array_foreach(output->lists, index, entry)
    {
        discard(output, json_string_value(entry));
    }
    json_object_foreach(output->pictures, hash, entry)
    {
        discard(output, json_string_value(entry));
    }
}
