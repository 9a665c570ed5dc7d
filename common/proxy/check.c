#include "common/proxy/proxy_internal.h"

#include <math.h>
#include <string.h>

enum {
    OBJECT_MAX = 512 << 20, /* four seconds at a gigabit per second */
    VARIANTS_MAX = 16,
    SOUNDS_MAX = 16,
    LIST_PAGE = 1000,
};

static const double bandwidth_slack = 1.1; /* Apple's authoring rules: the peak within 10 % */
static const double average_slack = 0.01;
static const double rounding = 1e-4; /* durations in playlists are whole microseconds */
static const double frame_rate_slack = 0.01;

struct variant {
    char line[512]; /* its tag */
    struct cv_proxy_rendition rendition;
};

void cv_proxy_tell(struct cv_proxy *proxy, const char *where, const char *format, ...)
{
    char what[512];
    va_list arguments;
    va_start(arguments, format);
    (void)vsnprintf(what, sizeof(what), format, arguments);
    va_end(arguments);
    proxy->summary->findings++;
    proxy->finding(proxy->opaque, where, what);
}

static int note(struct cv_proxy *proxy, const char *key, struct cv_error *error)
{
    if (proxy->named_count == proxy->named_capacity) {
        size_t capacity = proxy->named_capacity ? 2 * proxy->named_capacity : 256;
        char **more = reallocarray(proxy->named, capacity, sizeof(*more));
        if (!more) {
            return cv_fail(error, CV_ERROR_OUT_OF_MEMORY, "out of memory for a list of objects");
        }
        proxy->named = more;
        proxy->named_capacity = capacity;
    }
    int result = cv_format(&proxy->named[proxy->named_count], error, "%s", key);
    proxy->named_count += result == 0;
    return result;
}

int cv_proxy_get(struct cv_proxy *proxy, const char *prefix, const char *name, void **ret_data,
                 size_t *ret_size, struct cv_error *error)
{
    if (cv_cancel_level(proxy->cancel) >= CV_CANCEL_ABORT) {
        return cv_fail(error, CV_ERROR_CANCELED, "stopped while checking");
    }
    cv_auto_free char *key = NULL;
    int result = cv_format(&key, error, "%s%s", prefix, name);
    result = result ? result : note(proxy, key, error);
    if (result != 0) {
        return result;
    }
    *ret_data = NULL;
    result = cv_store_check_key(key, error);
    result =
        result ? result : cv_store_get(proxy->store, key, OBJECT_MAX, ret_data, ret_size, error);
    if (result == CV_STORE_NOT_FOUND) {
        cv_proxy_tell(proxy, name, "is missing");
        return 0;
    }
    return result;
}

/* ---- the multivariant playlist against what was found ---------------------------------------- */

static double number(const struct variant *variant, const char *attribute)
{
    char value[64] = "";
    (void)cv_proxy_attribute(variant->line, attribute, value, sizeof(value));
    return strtod(value, NULL);
}

static void check_rates(struct cv_proxy *proxy, const struct variant *variant,
                        const struct cv_proxy_rendition *sound)
{
    const struct cv_proxy_rendition *pictures = &variant->rendition;
    double peak = pictures->peak + sound->peak;
    double average = pictures->seconds > 0 ? pictures->bits / pictures->seconds : 0;
    average += sound->seconds > 0 ? sound->bits / sound->seconds : 0;
    double bandwidth = number(variant, "BANDWIDTH");
    if (bandwidth < peak * (1 - rounding) - 1 || bandwidth > bandwidth_slack * peak + 1) {
        cv_proxy_tell(proxy, pictures->name, "BANDWIDTH is %.0f, the bytes make %.0f", bandwidth,
                      peak);
    }
    double told = number(variant, "AVERAGE-BANDWIDTH");
    if (fabs(told - average) > average_slack * average + 1) {
        cv_proxy_tell(proxy, pictures->name, "AVERAGE-BANDWIDTH is %.0f, the bytes make %.0f", told,
                      average);
    }
    double rate = fmin(pictures->most_frames, 60);
    if (pictures->count > 1 &&
        fabs(number(variant, "FRAME-RATE") - rate) > frame_rate_slack * rate) {
        cv_proxy_tell(proxy, pictures->name, "FRAME-RATE is %.3f, the pictures make %.3f",
                      number(variant, "FRAME-RATE"), rate);
    }
}

static void check_variant(struct cv_proxy *proxy, const struct variant *variant,
                          const struct cv_proxy_rendition *sound)
{
    const struct cv_proxy_rendition *pictures = &variant->rendition;
    char expected[96], value[96] = "";
    (void)snprintf(expected, sizeof(expected), "%s%s%s", pictures->codec,
                   sound->count > 0 ? "," : "", sound->codec);
    (void)cv_proxy_attribute(variant->line, "CODECS", value, sizeof(value));
    if (strcmp(expected, value) != 0) {
        cv_proxy_tell(proxy, pictures->name, "CODECS is \"%s\", the bits are %s", value, expected);
    }
    (void)snprintf(expected, sizeof(expected), "%dx%d", pictures->width, pictures->height);
    (void)cv_proxy_attribute(variant->line, "RESOLUTION", value, sizeof(value));
    if (strcmp(expected, value) != 0) {
        cv_proxy_tell(proxy, pictures->name, "RESOLUTION is %s, the bits are %s", value, expected);
    }
    bool has_group = cv_proxy_attribute(variant->line, "AUDIO", value, sizeof(value));
    if (has_group != (sound->count > 0)) {
        cv_proxy_tell(proxy, pictures->name, "AUDIO does not say whether there is sound");
    }
    check_rates(proxy, variant, sound);
}

static void check_same(struct cv_proxy *proxy, const struct cv_proxy_rendition *one,
                       const struct cv_proxy_rendition *other)
{
    if (one->count != other->count ||
        (one->count > 0 && memcmp(one->times, other->times, one->count * sizeof(int64_t)) != 0)) {
        cv_proxy_tell(proxy, other->name, "does not show the frames that %s shows", one->name);
    }
    if (one->key_count != other->key_count ||
        (one->key_count > 0 &&
         memcmp(one->keys, other->keys, one->key_count * sizeof(int64_t)) != 0)) {
        cv_proxy_tell(proxy, other->name, "has other key frames than %s", one->name);
    }
    if (fabs(one->seconds - other->seconds) > 0.001 || one->target != other->target) {
        cv_proxy_tell(proxy, other->name, "lasts %.3f s, %s %.3f", other->seconds, one->name,
                      one->seconds);
    }
}

/* ---- reading it ------------------------------------------------------------------------------ */

struct index {
    struct variant variants[VARIANTS_MAX];
    size_t count;
    char keys[VARIANTS_MAX][CV_PROXY_NAME_SIZE]; /* playlists of key frames */
    size_t key_count;
    struct cv_proxy_rendition sounds[SOUNDS_MAX];
    char labels[SOUNDS_MAX][CV_PROXY_NAME_SIZE]; /* their NAMEs */
    size_t sound_count;
    int defaults;
    bool independent;
};

/* A track: of the group "sound", with a name of its own. */
static void read_sound(struct cv_proxy *proxy, const char *name, const char *line,
                       struct index *index)
{
    if (index->sound_count == SOUNDS_MAX) {
        cv_proxy_tell(proxy, name, "more than %d tracks of sound", SOUNDS_MAX);
        return;
    }
    struct cv_proxy_rendition *sound = &index->sounds[index->sound_count];
    char *label = index->labels[index->sound_count++];
    char value[CV_PROXY_NAME_SIZE] = "";
    (void)cv_proxy_attribute(line, "URI", sound->name, sizeof(sound->name));
    (void)cv_proxy_attribute(line, "NAME", label, CV_PROXY_NAME_SIZE);
    for (size_t i = 0; i + 1 < index->sound_count; i++) {
        if (strcmp(index->labels[i], label) == 0) {
            cv_proxy_tell(proxy, name, "two tracks are called %s", label);
        }
    }
    (void)cv_proxy_attribute(line, "GROUP-ID", value, sizeof(value));
    if (strcmp(value, "sound") != 0 || label[0] == '\0') {
        cv_proxy_tell(proxy, name, "%s is in no group, or has no name", sound->name);
    }
    (void)cv_proxy_attribute(line, "DEFAULT", value, sizeof(value));
    index->defaults += strcmp(value, "YES") == 0;
}

static void read_index(struct cv_proxy *proxy, const char *name, char *text, struct index *index)
{
    char *rest = NULL;
    const char *pending = NULL;
    for (char *line = strtok_r(text, "\n", &rest); line; line = strtok_r(NULL, "\n", &rest)) {
        if (strncmp(line, "#EXT-X-STREAM-INF:", 18) == 0) {
            pending = line;
        } else if (strncmp(line, "#EXT-X-MEDIA:", 13) == 0) {
            read_sound(proxy, name, line, index);
        } else if (strncmp(line, "#EXT-X-I-FRAME-STREAM-INF:", 26) == 0) {
            if (index->key_count < VARIANTS_MAX) {
                (void)cv_proxy_attribute(line, "URI", index->keys[index->key_count++],
                                         CV_PROXY_NAME_SIZE);
            }
        } else if (strcmp(line, "#EXT-X-INDEPENDENT-SEGMENTS") == 0) {
            index->independent = true;
        } else if (line[0] != '#' && pending && index->count < VARIANTS_MAX) {
            struct variant *variant = &index->variants[index->count++];
            (void)snprintf(variant->line, sizeof(variant->line), "%s", pending);
            (void)snprintf(variant->rendition.name, sizeof(variant->rendition.name), "%s", line);
            pending = NULL;
        }
    }
    if (index->defaults != (index->sound_count > 0)) {
        cv_proxy_tell(proxy, name, "%d tracks of sound are the default", index->defaults);
    }
    if (!index->independent || index->count == 0 || index->key_count != index->count) {
        cv_proxy_tell(proxy, name, "%zu variants, %zu playlists of key frames%s", index->count,
                      index->key_count, index->independent ? "" : ", segments not independent");
    }
}

static int check_key_playlists(struct cv_proxy *proxy, const struct index *index,
                               struct cv_error *error)
{
    int result = 0;
    for (size_t i = 0; result == 0 && i < index->key_count; i++) {
        for (size_t j = 0; result == 0 && j < index->count; j++) {
            const struct cv_proxy_rendition *rendition = &index->variants[j].rendition;
            size_t length = strcspn(rendition->name, ".");
            if (strncmp(index->keys[i], rendition->name, length) == 0 &&
                index->keys[i][length] == '_') {
                result = cv_proxy_check_keys(proxy, index->keys[i], rendition, error);
            }
        }
    }
    return result;
}

/* Every track, and in *most what a variant's line has to reckon with. */
static int check_sounds(struct cv_proxy *proxy, struct index *index,
                        struct cv_proxy_rendition *most, struct cv_error *error)
{
    for (size_t i = 0; i < index->sound_count; i++) {
        struct cv_proxy_rendition *sound = &index->sounds[i];
        char name[CV_PROXY_NAME_SIZE];
        (void)snprintf(name, sizeof(name), "%s", sound->name);
        int result = cv_proxy_check_media(proxy, name, false, sound, error);
        if (result != 0) {
            return result;
        }
        most->count += sound->count;
        most->peak = fmax(most->peak, sound->peak);
        if (sound->seconds > 0 && sound->bits / sound->seconds > most->bits) {
            most->bits = sound->bits / sound->seconds;
        }
        most->seconds = 1;
        if (i > 0 && strcmp(most->codec, sound->codec) != 0) {
            cv_proxy_tell(proxy, name, "is %s, other tracks are %s", sound->codec, most->codec);
        }
        (void)snprintf(most->codec, sizeof(most->codec), "%s", sound->codec);
    }
    return 0;
}

static int check_index(struct cv_proxy *proxy, struct index *index, struct cv_error *error)
{
    struct cv_proxy_rendition sound = {0};
    int result = check_sounds(proxy, index, &sound, error);
    for (size_t i = 0; result == 0 && i < index->count; i++) {
        struct cv_proxy_rendition *rendition = &index->variants[i].rendition;
        char name[CV_PROXY_NAME_SIZE];
        (void)snprintf(name, sizeof(name), "%s", rendition->name);
        result = cv_proxy_check_media(proxy, name, true, rendition, error);
    }
    result = result ? result : check_key_playlists(proxy, index, error);
    for (size_t i = 0; result == 0 && i < index->count; i++) {
        check_variant(proxy, &index->variants[i], &sound);
        if (i > 0) {
            check_same(proxy, &index->variants[0].rendition, &index->variants[i].rendition);
        }
    }
    const struct cv_proxy_rendition *first = &index->variants[0].rendition;
    for (size_t i = 0; result == 0 && i < index->sound_count; i++) {
        if (fabs(index->sounds[i].seconds - first->seconds) > 0.001) {
            cv_proxy_tell(proxy, index->sounds[i].name, "lasts %.3f s, the pictures %.3f",
                          index->sounds[i].seconds, first->seconds);
        }
    }
    proxy->summary->renditions = (int)index->count;
    proxy->summary->sound = sound.count > 0;
    proxy->summary->duration = first->seconds;
    proxy->summary->key_frames = (int)first->key_count;
    return result;
}

/* ---- what nothing names ---------------------------------------------------------------------- */

static int by_text(const void *one, const void *other)
{
    return strcmp(*(char *const *)one, *(char *const *)other);
}

static int check_listing(struct cv_proxy *proxy, const char *prefix, struct cv_error *error)
{
    cv_auto_free char *continuation = NULL;
    do {
        cv_auto(cv_object_list_deinit) struct cv_object_list list = {0};
        int result = cv_store_list(proxy->store, prefix, continuation, LIST_PAGE, &list, error);
        if (result != 0) {
            return result;
        }
        for (size_t i = 0; i < list.count; i++) {
            const char *key = list.entries[i].key;
            if (!bsearch(&key, proxy->named, proxy->named_count, sizeof(key), by_text)) {
                cv_proxy_tell(proxy, key + strlen(prefix), "is named by nothing");
            }
        }
        free(continuation);
        continuation = cv_take(list.continuation);
    } while (continuation);
    return 0;
}

static int check_all(struct cv_proxy *proxy, struct index *index, struct cv_error *error)
{
    static const char name[] = "index.m3u8";
    cv_auto_free void *text = NULL;
    size_t size = 0;
    int result = cv_proxy_get(proxy, proxy->stream_prefix, name, &text, &size, error);
    if (result != 0 || !text) {
        return result;
    }
    read_index(proxy, name, text, index);
    if (index->count == 0) {
        return 0;
    }
    result = check_index(proxy, index, error);
    result = result ? result : cv_proxy_check_thumbs(proxy, proxy->summary->duration, error);
    if (result != 0) {
        return result;
    }
    qsort(proxy->named, proxy->named_count, sizeof(*proxy->named), by_text);
    result = check_listing(proxy, proxy->stream_prefix, error);
    return result ? result : check_listing(proxy, proxy->thumbs_prefix, error);
}

int cv_proxy_check(struct cv_store *store, const char *video_id, struct cv_cancel *cancel,
                   cv_proxy_finding finding, void *opaque, struct cv_proxy_summary *ret_summary,
                   struct cv_error *error)
{
    struct cv_proxy_summary summary = {0};
    struct cv_proxy proxy = {.store = store,
                             .cancel = cancel,
                             .finding = finding,
                             .opaque = opaque,
                             .summary = &summary};
    (void)snprintf(proxy.stream_prefix, sizeof(proxy.stream_prefix), "videos/proxy/%s/", video_id);
    (void)snprintf(proxy.thumbs_prefix, sizeof(proxy.thumbs_prefix), "thumbs/%s/", video_id);
    struct index *index = calloc(1, sizeof(*index));
    int result = index ? check_all(&proxy, index, error)
                       : cv_fail(error, CV_ERROR_OUT_OF_MEMORY, "out of memory for a check");
    for (size_t i = 0; index && i < index->count; i++) {
        cv_proxy_rendition_deinit(&index->variants[i].rendition);
    }
    for (size_t i = 0; index && i < index->sound_count; i++) {
        cv_proxy_rendition_deinit(&index->sounds[i]);
    }
    free(index);
    for (size_t i = 0; i < proxy.named_count; i++) {
        free(proxy.named[i]);
    }
    free(proxy.named);
    if (result == 0) {
        *ret_summary = summary;
    }
    return result;
}
