#include "workers/transcode/hls/check/check.h"

#include "workers/transcode/hls/check/check_internal.h"

#include <math.h>
#include <string.h>

/* ---- reading playlists ----------------------------------------------------------------------- */

void cv_hls_media_deinit(struct cv_hls_media *media)
{
    free(media->entries);
    *media = (struct cv_hls_media){0};
}

/* Finds an attribute in a tag's line and removes its quotes; false if it is missing. */
static bool find_attribute(const char *line, const char *attribute, char *value, size_t size)
{
    size_t length = strlen(attribute);
    const char *at = strchr(line, ':');
    while (at) {
        at++;
        const char *equals = strchr(at, '=');
        if (!equals) {
            return false;
        }
        bool quoted = equals[1] == '"';
        const char *begin = equals + (quoted ? 2 : 1);
        const char *end = begin + strcspn(begin, quoted ? "\"" : ",");
        if ((size_t)(equals - at) == length && strncmp(at, attribute, length) == 0) {
            (void)snprintf(value, size, "%.*s", (int)(end - begin), begin);
            return true;
        }
        at = strchr(end, ',');
    }
    return false;
}

static int add(struct cv_hls_media *media, const struct cv_hls_entry *entry, struct cv_error *error)
{
    CV_TRY_MEMORY(CV_MAKE_ROOM(media->entries, media->count), error, "a playlist");
    media->entries[media->count++] = *entry;
    return 0;
}

/* Returns the text after a tag; NULL if the line has another tag. */
static const char *after(const char *line, const char *tag)
{
    size_t length = strlen(tag);
    return strncmp(line, tag, length) == 0 ? line + length : NULL;
}

static void read_tag(const char *line, struct cv_hls_media *media, struct cv_hls_entry *entry)
{
    const char *value;
    if ((value = after(line, "#EXT-X-TARGETDURATION:"))) {
        media->target = (int)strtol(value, NULL, 10);
    } else if ((value = after(line, "#EXTINF:"))) {
        entry->duration = strtod(value, NULL);
    } else if ((value = after(line, "#EXT-X-BYTERANGE:"))) {
        char *rest = NULL;
        entry->size = strtoll(value, &rest, 10);
        entry->offset = *rest == '@' ? strtoll(rest + 1, NULL, 10) : -1;
    } else if (after(line, "#EXT-X-MAP:")) {
        (void)find_attribute(line, "URI", media->map, sizeof(media->map));
    } else if (strcmp(line, "#EXT-X-ENDLIST") == 0) {
        media->ended = true;
    } else if (strcmp(line, "#EXT-X-INDEPENDENT-SEGMENTS") == 0) {
        media->independent = true;
    } else if (strcmp(line, "#EXT-X-I-FRAMES-ONLY") == 0) {
        media->key_frames_only = true;
    }
}

/* Segments in one object must follow each other without a gap, from its first byte on. */
static void check_ranges(struct cv_hls_checker *checker, const char *name,
                         const struct cv_hls_media *media)
{
    for (size_t i = 0; i < media->count && !media->key_frames_only; i++) {
        const struct cv_hls_entry *entry = &media->entries[i];
        const struct cv_hls_entry *before = i > 0 ? entry - 1 : NULL;
        bool follows = before && entry->size > 0 && strcmp(before->name, entry->name) == 0;
        /* Unsigned, because a playlist may contain any number. */
        uint64_t end = follows ? (uint64_t)before->offset + (uint64_t)before->size : 0;
        if ((uint64_t)entry->offset != end) {
            cv_hls_tell(checker, name, "names %s from byte %lld on, where no segment before ends",
                        entry->name, (long long)entry->offset);
        }
    }
}

int cv_hls_read_media(struct cv_hls_checker *checker, const char *name, char *text,
                      struct cv_hls_media *media, struct cv_error *error)
{
    if (!after(text, "#EXTM3U\n")) {
        cv_hls_tell(checker, name, "is not a playlist");
    }
    struct cv_hls_entry entry = {0};
    char *rest = NULL;
    for (char *line = strtok_r(text, "\n", &rest); line; line = strtok_r(NULL, "\n", &rest)) {
        if (line[0] == '#') {
            read_tag(line, media, &entry);
            continue;
        }
        if (strlen(line) >= sizeof(entry.name) || strchr(line, '/')) {
            cv_hls_tell(checker, name, "names what lies elsewhere: %s", line);
            continue;
        }
        (void)snprintf(entry.name, sizeof(entry.name), "%s", line);
        CV_TRY(add(media, &entry, error));
        entry = (struct cv_hls_entry){0};
    }
    if (!media->ended) {
        cv_hls_tell(checker, name, "has no end");
    }
    check_ranges(checker, name, media);
    for (size_t i = 0; i < media->count; i++) {
        double duration = media->entries[i].duration;
        if (!(duration > 0) || floor(duration + 0.5) > media->target) {
            cv_hls_tell(checker, name, "%s lasts %.3f s, beyond the target of %d",
                        media->entries[i].name, duration, media->target);
        }
    }
    return 0;
}

/* ---- the poster and the small pictures ------------------------------------------------------- */

static const double tolerance = 0.002; /* seconds; the file counts milliseconds */

struct sheet {
    char name[CV_HLS_NAME_SIZE];
    int width, height; /* 0: missing or not WebP */
};

/* Reads the size from the frame header of a lossy WebP without transparency; false if there is
 * none. */
static bool webp_size(const uint8_t *data, size_t size, int *ret_width, int *ret_height)
{
    enum { HEADER = 30, START = 23, SIDE_BITS = 0x3fff };
    if (size < HEADER || memcmp(data, "RIFF", 4) != 0 || memcmp(data + 8, "WEBPVP8 ", 8) != 0 ||
        memcmp(data + START, "\x9d\x01\x2a", 3) != 0) {
        return false;
    }
    *ret_width = (data[26] | data[27] << 8) & SIDE_BITS;
    *ret_height = (data[28] | data[29] << 8) & SIDE_BITS;
    return true;
}

static int read_sheet(struct cv_hls_checker *checker, const char *name, struct sheet *sheet,
                      struct cv_error *error)
{
    *sheet = (struct sheet){0};
    (void)snprintf(sheet->name, sizeof(sheet->name), "%s", name);
    cv_auto_free void *data = NULL;
    size_t size = 0;
    CV_TRY(cv_hls_get(checker, checker->thumbs_prefix, name, &data, &size, error));
    if (data && !webp_size(data, size, &sheet->width, &sheet->height)) {
        cv_hls_tell(checker, name, "is no WebP");
    }
    return 0;
}

static double seconds(int hours, int minutes, double rest)
{
    return 3600.0 * hours + 60.0 * minutes + rest;
}

static int check_cue(struct cv_hls_checker *checker, const char *file, const char *target,
                     double start, struct sheet *sheet, struct cv_error *error)
{
    char name[CV_HLS_NAME_SIZE];
    int x, y, width, height;
    if (sscanf(target, "%100[^#/]#xywh=%d,%d,%d,%d", name, &x, &y, &width, &height) != 5) {
        cv_hls_tell(checker, file, "the cue at %.3f s names no part of a sheet", start);
        return 0;
    }
    CV_TRY(strcmp(name, sheet->name) == 0 ? 0 : read_sheet(checker, name, sheet, error));
    if (x < 0 || y < 0 || width < 1 || height < 1 || x > sheet->width - width ||
        y > sheet->height - height) {
        cv_hls_tell(checker, file, "the cue at %.3f s lies beside the sheet %s", start, name);
    }
    checker->summary->tiles++;
    return 0;
}

static int check_cues(struct cv_hls_checker *checker, const char *file, char *text, double duration,
                      struct cv_error *error)
{
    struct sheet sheet = {0};
    double expected = 0;
    char *rest = NULL;
    for (char *line = strtok_r(text, "\n", &rest); line; line = strtok_r(NULL, "\n", &rest)) {
        int from[2], to[2];
        double from_rest, to_rest;
        if (sscanf(line, "%d:%d:%lf --> %d:%d:%lf", &from[0], &from[1], &from_rest, &to[0], &to[1],
                   &to_rest) != 6) {
            continue;
        }
        double start = seconds(from[0], from[1], from_rest), end = seconds(to[0], to[1], to_rest);
        if (fabs(start - expected) > tolerance || end <= start) {
            cv_hls_tell(checker, file,
                        "the cue at %.3f s does not follow the one that ends at %.3f", start,
                        expected);
        }
        expected = end;
        char *target = strtok_r(NULL, "\n", &rest);
        CV_TRY(check_cue(checker, file, target ? target : "", start, &sheet, error));
    }
    if (duration >= 1 && fabs(expected - duration) > tolerance) {
        cv_hls_tell(checker, file, "ends at %.3f s, the video at %.3f", expected, duration);
    }
    return 0;
}

/* The poster is JPEG. Until it got the name that the pipeline's contract gives it, it was WebP, and
 * videos of that time keep theirs. */
static int check_poster(struct cv_hls_checker *checker, struct cv_error *error)
{
    static const char name[] = "poster.jpg", earlier_name[] = "poster.webp";
    cv_auto_free char *key = NULL;
    cv_auto_free void *data = NULL;
    size_t size = 0;
    struct sheet earlier;
    CV_TRY(cv_format(&key, error, "%s%s", checker->thumbs_prefix, earlier_name));
    int result = cv_store_head(checker->store, key, NULL, error);
    if (result != CV_STORE_NOT_FOUND) {
        return result ? result : read_sheet(checker, earlier_name, &earlier, error);
    }
    CV_TRY(cv_hls_get(checker, checker->thumbs_prefix, name, &data, &size, error));
    if (data && (size < 4 || memcmp(data, "\xff\xd8\xff", 3) != 0)) {
        cv_hls_tell(checker, name, "is no JPEG");
    }
    return 0;
}

static int check_thumbs(struct cv_hls_checker *checker, double duration, struct cv_error *error)
{
    static const char file[] = "thumbnails.vtt";
    CV_TRY(check_poster(checker, error));
    cv_auto_free void *text = NULL;
    size_t size = 0;
    CV_TRY(cv_hls_get(checker, checker->thumbs_prefix, file, &text, &size, error));
    if (!text) {
        return 0;
    }
    if (strncmp(text, "WEBVTT\n", 7) != 0) {
        cv_hls_tell(checker, file, "is no WebVTT");
    }
    return check_cues(checker, file, text, duration, error);
}

/* ---- findings -------------------------------------------------------------------------------- */

enum {
    OBJECT_MAX = 512 << 20, /* four seconds at a gigabit per second */
    VARIANTS_MAX = 16,
    SOUNDS_MAX = 16,
    PAUSE = CV_HLS_CLOCK / 2 + CV_HLS_CLOCK / 1000, /* ticks; durations in playlists are rounded */
    LAST_PICTURES = 8,
};

static const double bandwidth_slack = 1.1; /* Apple's authoring rules: the peak within 10 % */
static const double average_slack = 0.01;
static const double rounding = 1e-4; /* durations in playlists are whole microseconds */
static const double frame_rate_slack = 0.01;

struct variant {
    char line[512]; /* the variant's tag */
    struct cv_hls_rendition rendition;
};

void cv_hls_tell(struct cv_hls_checker *checker, const char *where, const char *format, ...)
{
    char what[512];
    va_list arguments;
    va_start(arguments, format);
    (void)vsnprintf(what, sizeof(what), format, arguments);
    va_end(arguments);
    checker->summary->findings++;
    checker->finding(checker->opaque, where, what);
}

static int note(struct cv_hls_checker *checker, const char *key, struct cv_error *error)
{
    if (checker->named_count > 0 && strcmp(checker->named[checker->named_count - 1], key) == 0) {
        return 0; /* the next range of one object */
    }
    CV_TRY_MEMORY(CV_MAKE_ROOM(checker->named, checker->named_count), error, "a list of objects");
    int result = cv_format(&checker->named[checker->named_count], error, "%s", key);
    checker->named_count += result == 0;
    return result;
}

/* Makes the key of an object and records it as named; free() it. */
static int key_of(struct cv_hls_checker *checker, const char *prefix, const char *name,
                  char **ret_key, struct cv_error *error)
{
    if (cv_cancel_level(checker->cancel) >= CV_CANCEL_ABORT) {
        return cv_fail(error, CV_ERROR_CANCELED, "stopped while checking");
    }
    CV_TRY(cv_format(ret_key, error, "%s%s", prefix, name));
    CV_TRY(note(checker, *ret_key, error));
    return cv_store_check_key(*ret_key, error);
}

int cv_hls_get(struct cv_hls_checker *checker, const char *prefix, const char *name,
               void **ret_data, size_t *ret_size, struct cv_error *error)
{
    cv_auto_free char *key = NULL;
    *ret_data = NULL;
    CV_TRY(key_of(checker, prefix, name, &key, error));
    int result = cv_store_get(checker->store, key, OBJECT_MAX, ret_data, ret_size, error);
    if (result == CV_STORE_NOT_FOUND) {
        cv_hls_tell(checker, name, "is missing");
        return 0;
    }
    return result;
}

int cv_hls_get_range(struct cv_hls_checker *checker, const struct cv_hls_entry *entry,
                     void **ret_data, struct cv_error *error)
{
    *ret_data = NULL;
    if (entry->size > OBJECT_MAX || entry->size < 1 || entry->offset < 0) {
        cv_hls_tell(checker, entry->name, "is named without a usable range");
        return 0;
    }
    cv_auto_free char *key = NULL;
    int result = key_of(checker, checker->stream_prefix, entry->name, &key, error);
    cv_auto_free void *data = result == 0 ? malloc((size_t)entry->size) : NULL;
    if (result == 0 && !data) {
        result = cv_fail(error, CV_ERROR_OUT_OF_MEMORY, "out of memory for a range");
    }
    size_t got = 0;
    result = result ? result
                    : cv_store_get_range(checker->store, key, entry->offset, data,
                                         (size_t)entry->size, &got, error);
    if (result >= 0 && got != (size_t)entry->size) {
        cv_hls_tell(checker, entry->name, "does not have the bytes %lld+%lld",
                    (long long)entry->offset, (long long)entry->size);
        return 0;
    }
    if (result == 0) {
        *ret_data = cv_take(data);
    }
    return result;
}

/* ---- the multivariant playlist against what was found ---------------------------------------- */

static double number(const struct variant *variant, const char *attribute)
{
    char value[64] = "";
    (void)find_attribute(variant->line, attribute, value, sizeof(value));
    return strtod(value, NULL);
}

static void check_rates(struct cv_hls_checker *checker, const struct variant *variant,
                        const struct cv_hls_rendition *sound)
{
    const struct cv_hls_rendition *pictures = &variant->rendition;
    double peak = pictures->peak + sound->peak;
    double average = pictures->seconds > 0 ? pictures->bits / pictures->seconds : 0;
    average += sound->seconds > 0 ? sound->bits / sound->seconds : 0;
    double bandwidth = number(variant, "BANDWIDTH");
    if (bandwidth < peak * (1 - rounding) - 1 || bandwidth > bandwidth_slack * peak + 1) {
        cv_hls_tell(checker, pictures->name, "BANDWIDTH is %.0f, the bytes make %.0f", bandwidth,
                    peak);
    }
    double told = number(variant, "AVERAGE-BANDWIDTH");
    if (fabs(told - average) > average_slack * average + 1) {
        cv_hls_tell(checker, pictures->name, "AVERAGE-BANDWIDTH is %.0f, the bytes make %.0f", told,
                    average);
    }
    double rate = fmin(pictures->most_frames, 60);
    if (pictures->count > 1 &&
        fabs(number(variant, "FRAME-RATE") - rate) > frame_rate_slack * rate) {
        cv_hls_tell(checker, pictures->name, "FRAME-RATE is %.3f, the pictures make %.3f",
                    number(variant, "FRAME-RATE"), rate);
    }
}

static void check_variant(struct cv_hls_checker *checker, const struct variant *variant,
                          const struct cv_hls_rendition *sound)
{
    const struct cv_hls_rendition *pictures = &variant->rendition;
    char expected[96], value[96] = "";
    (void)snprintf(expected, sizeof(expected), "%s%s%s", pictures->codec,
                   sound->count > 0 ? "," : "", sound->codec);
    (void)find_attribute(variant->line, "CODECS", value, sizeof(value));
    if (strcmp(expected, value) != 0) {
        cv_hls_tell(checker, pictures->name, "CODECS is \"%s\", the bits are %s", value, expected);
    }
    (void)snprintf(expected, sizeof(expected), "%dx%d", pictures->width, pictures->height);
    (void)find_attribute(variant->line, "RESOLUTION", value, sizeof(value));
    if (strcmp(expected, value) != 0) {
        cv_hls_tell(checker, pictures->name, "RESOLUTION is %s, the bits are %s", value, expected);
    }
    bool has_group = find_attribute(variant->line, "AUDIO", value, sizeof(value));
    if (has_group != (sound->count > 0)) {
        cv_hls_tell(checker, pictures->name, "AUDIO does not say whether there is sound");
    }
    check_rates(checker, variant, sound);
}

/* Chromium does not begin where too few pictures follow, because with separate sound hls.js tells it
 * only later that no more come. */
static void check_last_group(struct cv_hls_checker *checker,
                             const struct cv_hls_rendition *rendition)
{
    if (rendition->key_count == 0) {
        return;
    }
    int64_t key = rendition->keys[rendition->key_count - 1];
    size_t pictures = 0;
    while (pictures < rendition->count &&
           rendition->times[rendition->count - pictures - 1] >= key) {
        pictures++;
    }
    bool stands =
        rendition->key_count == 1 || rendition->seconds * CV_HLS_CLOCK - (double)key > PAUSE;
    if (stands && pictures < LAST_PICTURES) {
        cv_hls_tell(checker, rendition->name,
                    "%zu pictures from the last key frame on, too few for players with sound",
                    pictures);
    }
}

static void check_same(struct cv_hls_checker *checker, const struct cv_hls_rendition *one,
                       const struct cv_hls_rendition *other)
{
    if (one->count != other->count ||
        (one->count > 0 && memcmp(one->times, other->times, one->count * sizeof(int64_t)) != 0)) {
        cv_hls_tell(checker, other->name, "does not show the frames that %s shows", one->name);
    }
    if (one->key_count != other->key_count ||
        (one->key_count > 0 &&
         memcmp(one->keys, other->keys, one->key_count * sizeof(int64_t)) != 0)) {
        cv_hls_tell(checker, other->name, "has other key frames than %s", one->name);
    }
    if (fabs(one->seconds - other->seconds) > 0.001 || one->target != other->target) {
        cv_hls_tell(checker, other->name, "lasts %.3f s, %s %.3f", other->seconds, one->name,
                    one->seconds);
    }
}

/* ---- reading it ------------------------------------------------------------------------------ */

struct index {
    struct variant variants[VARIANTS_MAX];
    size_t count;
    char keys[VARIANTS_MAX][CV_HLS_NAME_SIZE]; /* playlists of key frames */
    size_t key_count;
    struct cv_hls_rendition sounds[SOUNDS_MAX];
    char labels[SOUNDS_MAX][CV_HLS_NAME_SIZE]; /* NAME attributes of the tracks */
    size_t sound_count;
    int defaults;
    bool independent;
};

/* Reads a sound track, which must be in the group "sound" and have a unique name. */
static void read_sound(struct cv_hls_checker *checker, const char *name, const char *line,
                       struct index *index)
{
    if (index->sound_count == SOUNDS_MAX) {
        cv_hls_tell(checker, name, "more than %d tracks of sound", SOUNDS_MAX);
        return;
    }
    struct cv_hls_rendition *sound = &index->sounds[index->sound_count];
    char *label = index->labels[index->sound_count++];
    char value[CV_HLS_NAME_SIZE] = "";
    (void)find_attribute(line, "URI", sound->name, sizeof(sound->name));
    (void)find_attribute(line, "NAME", label, CV_HLS_NAME_SIZE);
    for (size_t i = 0; i + 1 < index->sound_count; i++) {
        if (strcmp(index->labels[i], label) == 0) {
            cv_hls_tell(checker, name, "two tracks are called %s", label);
        }
    }
    (void)find_attribute(line, "GROUP-ID", value, sizeof(value));
    if (strcmp(value, "sound") != 0 || label[0] == '\0') {
        cv_hls_tell(checker, name, "%s is in no group, or has no name", sound->name);
    }
    (void)find_attribute(line, "DEFAULT", value, sizeof(value));
    index->defaults += strcmp(value, "YES") == 0;
}

static void read_index(struct cv_hls_checker *checker, const char *name, char *text,
                       struct index *index)
{
    char *rest = NULL;
    const char *pending = NULL;
    for (char *line = strtok_r(text, "\n", &rest); line; line = strtok_r(NULL, "\n", &rest)) {
        if (strncmp(line, "#EXT-X-STREAM-INF:", 18) == 0) {
            pending = line;
        } else if (strncmp(line, "#EXT-X-MEDIA:", 13) == 0) {
            read_sound(checker, name, line, index);
        } else if (strncmp(line, "#EXT-X-I-FRAME-STREAM-INF:", 26) == 0) {
            if (index->key_count < VARIANTS_MAX) {
                (void)find_attribute(line, "URI", index->keys[index->key_count++],
                                     CV_HLS_NAME_SIZE);
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
        cv_hls_tell(checker, name, "%d tracks of sound are the default", index->defaults);
    }
    if (!index->independent || index->count == 0 || index->key_count != index->count) {
        cv_hls_tell(checker, name, "%zu variants, %zu playlists of key frames%s", index->count,
                    index->key_count, index->independent ? "" : ", segments not independent");
    }
}

static int check_key_playlists(struct cv_hls_checker *checker, const struct index *index,
                               struct cv_error *error)
{
    for (size_t i = 0; i < index->key_count; i++) {
        for (size_t j = 0; j < index->count; j++) {
            const struct cv_hls_rendition *rendition = &index->variants[j].rendition;
            size_t length = strcspn(rendition->name, ".");
            if (strncmp(index->keys[i], rendition->name, length) == 0 &&
                index->keys[i][length] == '_') {
                CV_TRY(cv_hls_check_keys(checker, index->keys[i], rendition, error));
            }
        }
    }
    return 0;
}

/* Checks every track; *most gets the figures that a variant's line must include. */
static int check_sounds(struct cv_hls_checker *checker, struct index *index,
                        struct cv_hls_rendition *most, struct cv_error *error)
{
    for (size_t i = 0; i < index->sound_count; i++) {
        struct cv_hls_rendition *sound = &index->sounds[i];
        char name[CV_HLS_NAME_SIZE];
        (void)snprintf(name, sizeof(name), "%s", sound->name);
        CV_TRY(cv_hls_check_media(checker, name, false, sound, error));
        most->count += sound->count;
        most->peak = fmax(most->peak, sound->peak);
        if (sound->seconds > 0 && sound->bits / sound->seconds > most->bits) {
            most->bits = sound->bits / sound->seconds;
        }
        most->seconds = 1;
        if (i > 0 && strcmp(most->codec, sound->codec) != 0) {
            cv_hls_tell(checker, name, "is %s, other tracks are %s", sound->codec, most->codec);
        }
        (void)snprintf(most->codec, sizeof(most->codec), "%s", sound->codec);
    }
    return 0;
}

static int check_index(struct cv_hls_checker *checker, struct index *index, struct cv_error *error)
{
    struct cv_hls_rendition sound = {0};
    CV_TRY(check_sounds(checker, index, &sound, error));
    for (size_t i = 0; i < index->count; i++) {
        struct cv_hls_rendition *rendition = &index->variants[i].rendition;
        char name[CV_HLS_NAME_SIZE];
        (void)snprintf(name, sizeof(name), "%s", rendition->name);
        CV_TRY(cv_hls_check_media(checker, name, true, rendition, error));
    }
    CV_TRY(check_key_playlists(checker, index, error));
    for (size_t i = 0; i < index->count; i++) {
        check_variant(checker, &index->variants[i], &sound);
        if (sound.count > 0) {
            check_last_group(checker, &index->variants[i].rendition);
        }
        if (i > 0) {
            check_same(checker, &index->variants[0].rendition, &index->variants[i].rendition);
        }
    }
    const struct cv_hls_rendition *first = &index->variants[0].rendition;
    for (size_t i = 0; i < index->sound_count; i++) {
        if (fabs(index->sounds[i].seconds - first->seconds) > 0.001) {
            cv_hls_tell(checker, index->sounds[i].name, "lasts %.3f s, the pictures %.3f",
                        index->sounds[i].seconds, first->seconds);
        }
    }
    checker->summary->renditions = (int)index->count;
    checker->summary->sound = sound.count > 0;
    checker->summary->duration = first->seconds;
    checker->summary->key_frames = (int)first->key_count;
    return 0;
}

/* ---- objects that are not named -------------------------------------------------------------- */

static int by_text(const void *one, const void *other)
{
    return strcmp(*(char *const *)one, *(char *const *)other);
}

static int check_listing(struct cv_hls_checker *checker, const char *prefix, struct cv_error *error)
{
    cv_auto_free char *continuation = NULL;
    do {
        cv_auto(cv_object_list_deinit) struct cv_object_list list = {0};
        const struct cv_listing listing = {.prefix = prefix, .continuation = continuation};
        CV_TRY(cv_store_list(checker->store, &listing, &list, error));
        for (size_t i = 0; i < list.count; i++) {
            const char *key = list.entries[i].key;
            if (!bsearch(&key, checker->named, checker->named_count, sizeof(key), by_text)) {
                cv_hls_tell(checker, key + strlen(prefix), "is named by nothing");
            }
        }
        free(continuation);
        continuation = cv_take(list.continuation);
    } while (continuation);
    return 0;
}

static int check_all(struct cv_hls_checker *checker, struct index *index, struct cv_error *error)
{
    static const char name[] = "index.m3u8";
    cv_auto_free void *text = NULL;
    size_t size = 0;
    CV_TRY(cv_hls_get(checker, checker->stream_prefix, name, &text, &size, error));
    if (!text) {
        return 0;
    }
    read_index(checker, name, text, index);
    if (index->count == 0) {
        return 0;
    }
    CV_TRY(check_index(checker, index, error));
    CV_TRY(check_thumbs(checker, checker->summary->duration, error));
    qsort(checker->named, checker->named_count, sizeof(*checker->named), by_text);
    CV_TRY(check_listing(checker, checker->stream_prefix, error));
    return check_listing(checker, checker->thumbs_prefix, error);
}

int cv_hls_check(struct cv_store *store, const char *video_id, struct cv_cancel *cancel,
                 cv_hls_finding finding, void *opaque, struct cv_hls_summary *ret_summary,
                 struct cv_error *error)
{
    struct cv_hls_summary summary = {0};
    struct cv_hls_checker checker = {.store = store,
                                     .cancel = cancel,
                                     .finding = finding,
                                     .opaque = opaque,
                                     .summary = &summary};
    (void)snprintf(checker.stream_prefix, sizeof(checker.stream_prefix), CV_KEYS_PROXY "%s/",
                   video_id);
    (void)snprintf(checker.thumbs_prefix, sizeof(checker.thumbs_prefix), CV_KEYS_THUMBS "%s/",
                   video_id);
    struct index *index = calloc(1, sizeof(*index));
    int result = index ? check_all(&checker, index, error)
                       : cv_fail(error, CV_ERROR_OUT_OF_MEMORY, "out of memory for a check");
    for (size_t i = 0; index && i < index->count; i++) {
        cv_hls_rendition_deinit(&index->variants[i].rendition);
    }
    for (size_t i = 0; index && i < index->sound_count; i++) {
        cv_hls_rendition_deinit(&index->sounds[i]);
    }
    free(index);
    for (size_t i = 0; i < checker.named_count; i++) {
        free(checker.named[i]);
    }
    free(checker.named);
    if (result == 0) {
        *ret_summary = summary;
    }
    return result;
}
