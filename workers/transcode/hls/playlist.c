#include "common/media/playlist.h"

#include <inttypes.h>
#include <math.h>

enum {
    VERSION = 7,
    START_RATE_MAX = 2000 * 1000, /* bits per second: what players begin with; Apple's advice */
};

static double seconds(int64_t ticks)
{
    return (double)ticks / CV_PLAYLIST_CLOCK;
}

/* ---- text ------------------------------------------------------------------------------------ */

static void segment_name(struct cv_buffer *text, const struct cv_playlist_names *names,
                         size_t number)
{
    cv_buffer_printf(text, "segment_%s_%05zu.%s\n", names->name, number, names->extension);
}

static void head(struct cv_buffer *text, const struct cv_playlist_names *names, int target,
                 const char *type)
{
    cv_buffer_printf(text,
                     "#EXTM3U\n#EXT-X-VERSION:%d\n#EXT-X-TARGETDURATION:%d\n"
                     "#EXT-X-MEDIA-SEQUENCE:0\n#EXT-X-PLAYLIST-TYPE:%s\n",
                     VERSION, target, type);
    if (names->has_map) {
        cv_buffer_printf(text, "#EXT-X-MAP:URI=\"init_%s.mp4\"\n", names->name);
    }
}

int cv_playlist_media(const struct cv_segment_list *list, const struct cv_playlist_names *names,
                      int target, bool ended, char **ret_text, struct cv_error *error)
{
    cv_auto(cv_buffer_deinit) struct cv_buffer text = CV_BUFFER_INIT;
    head(&text, names, target, ended ? "VOD" : "EVENT");
    cv_buffer_text(&text, "#EXT-X-INDEPENDENT-SEGMENTS\n");
    for (size_t i = 0; i < list->count; i++) {
        cv_buffer_printf(&text, "#EXTINF:%.6f,\n", seconds(list->segments[i].duration));
        segment_name(&text, names, i);
    }
    cv_buffer_text(&text, ended ? "#EXT-X-ENDLIST\n" : "");
    return cv_buffer_take(&text, ret_text, error);
}

/* How long a key picture stands when key pictures are all that is shown. */
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
    head(&text, names, target < 1 ? 1 : (int)target, "VOD");
    cv_buffer_text(&text, "#EXT-X-I-FRAMES-ONLY\n");
    for (size_t i = 0; i < list->key_count; i++) {
        const struct cv_key *key = &list->keys[i];
        cv_buffer_printf(&text, "#EXTINF:%.6f,\n#EXT-X-BYTERANGE:%" PRId64 "@%" PRId64 "\n",
                         seconds(key_duration(list, i)), key->size, key->offset);
        segment_name(&text, names, key->segment);
    }
    cv_buffer_text(&text, "#EXT-X-ENDLIST\n");
    return cv_buffer_take(&text, ret_text, error);
}

/* ---- the multivariant playlist --------------------------------------------------------------- */

/* The tracks of sound as a variant's line sees them: the most that any of them takes. */
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

int cv_playlist_multivariant(const struct cv_playlist_variant *variants, size_t count,
                             const struct cv_playlist_sound *sounds, size_t sound_count, int target,
                             bool key_frames, char **ret_text, struct cv_error *error)
{
    cv_auto(cv_buffer_deinit) struct cv_buffer text = CV_BUFFER_INIT;
    cv_buffer_printf(&text, "#EXTM3U\n#EXT-X-VERSION:%d\n#EXT-X-INDEPENDENT-SEGMENTS\n", VERSION);
    cv_playlist_sound_lines(&text, sounds, sound_count);
    struct sound_rates sound = most_of(sounds, sound_count, target);
    size_t first = first_variant(variants, count, target);
    stream_line(&text, &variants[first], &sound, target);
    for (size_t i = 0; i < count; i++) {
        if (i != first) {
            stream_line(&text, &variants[i], &sound, target);
        }
    }
    for (size_t i = 0; key_frames && i < count; i++) {
        key_frame_line(&text, &variants[i]);
    }
    return cv_buffer_take(&text, ret_text, error);
}
