#include "workers/transcode/hls/playlist.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

/* ---- lists of segments ----------------------------------------------------------------------- */

enum { FIRST_CAPACITY = 64 };

void cv_segment_list_deinit(struct cv_segment_list *list)
{
    free(list->segments);
    free(list->keys);
    *list = (struct cv_segment_list){0};
}

int cv_segment_list_add(struct cv_segment_list *list, const struct cv_segment *segment,
                        struct cv_error *error)
{
    CV_TRY_MEMORY(CV_MAKE_ROOM(list->segments, list->count), error, "a playlist");
    list->segments[list->count++] = *segment;
    return 0;
}

int cv_segment_list_add_key(struct cv_segment_list *list, const struct cv_key *key,
                            struct cv_error *error)
{
    CV_TRY_MEMORY(CV_MAKE_ROOM(list->keys, list->key_count), error, "a playlist");
    list->keys[list->key_count++] = *key;
    return 0;
}

int64_t cv_segment_list_end(const struct cv_segment_list *list)
{
    const struct cv_segment *last = list->count > 0 ? &list->segments[list->count - 1] : NULL;
    return last ? last->start + last->duration : 0;
}

int cv_segment_list_target(const struct cv_segment_list *list)
{
    int64_t target = 1;
    for (size_t i = 0; i < list->count; i++) {
        int64_t rounded = (list->segments[i].duration + CV_PLAYLIST_CLOCK / 2) / CV_PLAYLIST_CLOCK;
        target = rounded > target ? rounded : target;
    }
    return (int)target;
}

static double bit_rate(int64_t bytes, int64_t ticks)
{
    return ticks > 0 ? 8.0 * (double)bytes * CV_PLAYLIST_CLOCK / (double)ticks : 0;
}

int64_t cv_segment_list_average(const struct cv_segment_list *list)
{
    int64_t bytes = 0, ticks = 0;
    for (size_t i = 0; i < list->count; i++) {
        bytes += list->segments[i].bytes;
        ticks += list->segments[i].duration;
    }
    return (int64_t)ceil(bit_rate(bytes, ticks));
}

int64_t cv_segment_list_peak(const struct cv_segment_list *list, int target)
{
    int64_t least = (int64_t)target * CV_PLAYLIST_CLOCK / 2;
    double peak = 0;
    for (size_t i = 0; i < list->count; i++) {
        int64_t bytes = 0, ticks = 0;
        for (size_t j = i; j < list->count; j++) {
            bytes += list->segments[j].bytes;
            ticks += list->segments[j].duration;
            if (ticks > 3 * least) {
                break;
            }
            if (ticks >= least) {
                peak = fmax(peak, bit_rate(bytes, ticks));
            }
        }
    }
    int64_t average = cv_segment_list_average(list);
    return peak > (double)average ? (int64_t)ceil(peak) : average;
}

double cv_segment_list_frame_rate(const struct cv_segment_list *list)
{
    double most = 0, frames = 0;
    int64_t ticks = 0;
    for (size_t i = 0; i < list->count; i++) {
        const struct cv_segment *segment = &list->segments[i];
        if (segment->duration >= CV_PLAYLIST_CLOCK) {
            most =
                fmax(most, (double)segment->frames * CV_PLAYLIST_CLOCK / (double)segment->duration);
        }
        frames += (double)segment->frames;
        ticks += segment->duration;
    }
    if (frames < 2 || ticks == 0) {
        return 0;
    }
    return most > 0 ? most : frames * CV_PLAYLIST_CLOCK / (double)ticks;
}

/* ---- tracks of sound ------------------------------------------------------------------------- */

enum { NAME_SIZE = 96 };

/* The label of a track that people see, before it is made unique. */
static const char *label_of(const struct cv_playlist_sound *sound)
{
    const char *tag = cv_language_tag(sound->language);
    return sound->title[0] ? sound->title : tag[0] ? tag : "Sound";
}

/* Writes a track's line. Labels that occur more than once get a number, except the first. Of two
 * tracks with the same language, players must not choose automatically. */
static void sound_line(struct cv_buffer *text, const struct cv_playlist_sound *sounds, size_t index)
{
    const struct cv_playlist_sound *sound = &sounds[index];
    const char *tag = cv_language_tag(sound->language);
    bool twin = false, is_new = true;
    for (size_t i = 0; i < index; i++) {
        twin = twin || strcmp(label_of(&sounds[i]), label_of(sound)) == 0;
        is_new = is_new && strcmp(cv_language_tag(sounds[i].language), tag) != 0;
    }
    char name[NAME_SIZE];
    if (twin) {
        (void)snprintf(name, sizeof(name), "%s (%zu)", label_of(sound), index + 1);
    } else {
        (void)snprintf(name, sizeof(name), "%s", label_of(sound));
    }
    cv_buffer_printf(text, "#EXT-X-MEDIA:TYPE=AUDIO,GROUP-ID=\"sound\",NAME=\"%s\"", name);
    if (tag[0]) {
        cv_buffer_printf(text, ",LANGUAGE=\"%s\"", tag);
    }
    cv_buffer_printf(text, ",DEFAULT=%s,AUTOSELECT=%s,CHANNELS=\"2\",URI=\"%s.m3u8\"\n",
                     index == 0 ? "YES" : "NO", is_new ? "YES" : "NO", sound->name);
}

void cv_playlist_sound_lines(struct cv_buffer *text, const struct cv_playlist_sound *sounds,
                             size_t count)
{
    for (size_t i = 0; i < count; i++) {
        sound_line(text, sounds, i);
    }
}

/* ---- playlists ------------------------------------------------------------------------------- */

enum {
    VERSION = 7,
    START_RATE_MAX = 2000 * 1000, /* bits per second of the first variant; Apple's advice */
};

static double seconds(int64_t ticks)
{
    return (double)ticks / CV_PLAYLIST_CLOCK;
}

/* ---- text ------------------------------------------------------------------------------------ */

void cv_segment_name(const struct cv_playlist_names *names, int64_t start,
                     char name[CV_SEGMENT_NAME_SIZE])
{
    int64_t period = av_rescale(CV_LADDER_CHUNK_US, CV_PLAYLIST_CLOCK, AV_TIME_BASE);
    (void)snprintf(name, CV_SEGMENT_NAME_SIZE, "segment_%s_%05" PRId64 ".%s", names->name,
                   start / period, names->extension);
}

static void head(struct cv_buffer *text, const struct cv_playlist_names *names, int target)
{
    cv_buffer_printf(text,
                     "#EXTM3U\n#EXT-X-VERSION:%d\n#EXT-X-TARGETDURATION:%d\n"
                     "#EXT-X-MEDIA-SEQUENCE:0\n#EXT-X-PLAYLIST-TYPE:VOD\n",
                     VERSION, target);
    if (names->has_map) {
        cv_buffer_printf(text, "#EXT-X-MAP:URI=\"init_%s.mp4\"\n", names->name);
    }
}

int cv_playlist_media(const struct cv_segment_list *list, const struct cv_playlist_names *names,
                      int target, char **ret_text, struct cv_error *error)
{
    cv_auto(cv_buffer_deinit) struct cv_buffer text = CV_BUFFER_INIT;
    head(&text, names, target);
    cv_buffer_text(&text, "#EXT-X-INDEPENDENT-SEGMENTS\n");
    for (size_t i = 0; i < list->count; i++) {
        const struct cv_segment *segment = &list->segments[i];
        char name[CV_SEGMENT_NAME_SIZE];
        cv_segment_name(names, segment->start, name);
        cv_buffer_printf(&text, "#EXTINF:%.6f,\n%s\n", seconds(segment->duration), name);
    }
    cv_buffer_text(&text, "#EXT-X-ENDLIST\n");
    return cv_buffer_detach(&text, ret_text, error);
}

/* The duration of a key picture if only key pictures are shown. */
static int64_t key_duration(const struct cv_segment_list *list, size_t i)
{
    int64_t end = i + 1 < list->key_count ? list->keys[i + 1].pts : cv_segment_list_end(list);
    return end > list->keys[i].pts ? end - list->keys[i].pts : 1;
}

int cv_playlist_key_frames(const struct cv_segment_list *list,
                           const struct cv_playlist_names *names, char **ret_text,
                           struct cv_error *error)
{
    int64_t longest = 1;
    for (size_t i = 0; i < list->key_count; i++) {
        longest = key_duration(list, i) > longest ? key_duration(list, i) : longest;
    }
    long target = lround(seconds(longest));
    cv_auto(cv_buffer_deinit) struct cv_buffer text = CV_BUFFER_INIT;
    head(&text, names, target < 1 ? 1 : (int)target);
    cv_buffer_text(&text, "#EXT-X-I-FRAMES-ONLY\n");
    for (size_t i = 0; i < list->key_count; i++) {
        const struct cv_key *key = &list->keys[i];
        char name[CV_SEGMENT_NAME_SIZE];
        cv_segment_name(names, list->segments[key->segment].start, name);
        cv_buffer_printf(&text, "#EXTINF:%.6f,\n#EXT-X-BYTERANGE:%" PRId64 "@%" PRId64 "\n%s\n",
                         seconds(key_duration(list, i)), key->size, key->offset, name);
    }
    cv_buffer_text(&text, "#EXT-X-ENDLIST\n");
    return cv_buffer_detach(&text, ret_text, error);
}

/* ---- the multivariant playlist --------------------------------------------------------------- */

/* The sound tracks as counted in a variant's line: the highest rates of any track. */
struct sound_rates {
    const char *codecs; /* NULL: silent */
    int64_t peak, average;
};

static struct sound_rates most_of(const struct cv_playlist_sound *sounds, size_t count, int target)
{
    struct sound_rates most = {count > 0 ? sounds[0].codecs : NULL, 0, 0};
    for (size_t i = 0; i < count; i++) {
        int64_t peak = cv_segment_list_peak(sounds[i].list, target);
        int64_t average = cv_segment_list_average(sounds[i].list);
        most.peak = peak > most.peak ? peak : most.peak;
        most.average = average > most.average ? average : most.average;
    }
    return most;
}

static void stream_line(struct cv_buffer *text, const struct cv_playlist_variant *variant,
                        const struct sound_rates *sound, int target)
{
    int64_t peak = cv_segment_list_peak(variant->list, target) + sound->peak;
    int64_t average = cv_segment_list_average(variant->list) + sound->average;
    cv_buffer_printf(text,
                     "#EXT-X-STREAM-INF:BANDWIDTH=%" PRId64 ",AVERAGE-BANDWIDTH=%" PRId64
                     ",CODECS=\"%s%s%s\",RESOLUTION=%dx%d",
                     peak, average, variant->codecs, sound->codecs ? "," : "",
                     sound->codecs ? sound->codecs : "", variant->width, variant->height);
    if (variant->frame_rate > 0) {
        cv_buffer_printf(text, ",FRAME-RATE=%.3f", variant->frame_rate);
    }
    cv_buffer_printf(text, "%s\n%s.m3u8\n", sound->codecs ? ",AUDIO=\"sound\"" : "", variant->name);
}

static void key_frame_line(struct cv_buffer *text, const struct cv_playlist_variant *variant)
{
    const struct cv_segment_list *list = variant->list;
    double peak = 0, bits = 0;
    for (size_t i = 0; i < list->key_count; i++) {
        double own = 8.0 * (double)list->keys[i].size;
        peak = fmax(peak, own / seconds(key_duration(list, i)));
        bits += own;
    }
    double whole = seconds(cv_segment_list_end(list));
    cv_buffer_printf(text,
                     "#EXT-X-I-FRAME-STREAM-INF:BANDWIDTH=%.0f,AVERAGE-BANDWIDTH=%.0f,"
                     "CODECS=\"%s\",RESOLUTION=%dx%d,URI=\"%s_keys.m3u8\"\n",
                     ceil(peak), whole > 0 ? ceil(bits / whole) : 0, variant->codecs,
                     variant->width, variant->height, variant->name);
}

static size_t first_variant(const struct cv_playlist_variant *variants, size_t count, int target)
{
    size_t first = 0;
    while (first + 1 < count &&
           cv_segment_list_peak(variants[first].list, target) > START_RATE_MAX) {
        first++;
    }
    return first;
}

int cv_playlist_multivariant(const struct cv_playlist_index *index, char **ret_text,
                             struct cv_error *error)
{
    const struct cv_playlist_variant *variants = index->variants;
    const size_t count = index->count;
    const int target = index->target;
    cv_auto(cv_buffer_deinit) struct cv_buffer text = CV_BUFFER_INIT;
    cv_buffer_printf(&text, "#EXTM3U\n#EXT-X-VERSION:%d\n#EXT-X-INDEPENDENT-SEGMENTS\n", VERSION);
    cv_playlist_sound_lines(&text, index->sounds, index->sound_count);
    struct sound_rates sound = most_of(index->sounds, index->sound_count, target);
    size_t first = first_variant(variants, count, target);
    stream_line(&text, &variants[first], &sound, target);
    for (size_t i = 0; i < count; i++) {
        if (i != first) {
            stream_line(&text, &variants[i], &sound, target);
        }
    }
    for (size_t i = 0; i < count; i++) {
        key_frame_line(&text, &variants[i]);
    }
    return cv_buffer_detach(&text, ret_text, error);
}
