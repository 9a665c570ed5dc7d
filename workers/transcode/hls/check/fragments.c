/* Reads the times in fragments of MP4 from their tables (ISO/IEC 14496-12 8.8). libavformat shifts
 * all times of a stream by its largest negative composition offset, but players do not. */
#include "workers/transcode/hls/check/check_internal.h"

#include <libavutil/intreadwrite.h>
#include <libavutil/mathematics.h>
#include <string.h>

enum {
    BOX_HEAD = 8,
    FULL_HEAD = 12, /* size of a head with version and flags */
    TFHD_BASE_OFFSET = 0x1,
    TFHD_DESCRIPTION = 0x2,
    TFHD_DURATION = 0x8,
    TRUN_DATA_OFFSET = 0x1,
    TRUN_FIRST_FLAGS = 0x4,
    TRUN_DURATION = 0x100,
    TRUN_SIZE = 0x200,
    TRUN_FLAGS = 0x400,
    TRUN_COMPOSITION = 0x800,
    TREX_DURATION_AT = 12, /* after version and flags come the track and its description */
};

struct box {
    const uint8_t *data, *end; /* the box including its head */
};

/* Finds the first box of a type between two positions; false if there is no complete one. */
static bool find_box(const uint8_t *at, const uint8_t *end, const char *type, struct box *ret_box)
{
    while (end - at >= BOX_HEAD) {
        size_t length = AV_RB32(at);
        if (length < BOX_HEAD || length > (size_t)(end - at)) {
            return false;
        }
        if (memcmp(at + 4, type, 4) == 0) {
            *ret_box = (struct box){at, at + length};
            return true;
        }
        at += length;
    }
    return false;
}

static bool find_within(const struct box *box, const char *type, struct box *ret_box)
{
    return find_box(box->data + BOX_HEAD, box->end, type, ret_box);
}

static bool holds(const struct box *box, size_t bytes)
{
    return (size_t)(box->end - box->data) >= bytes;
}

/* The head's values for all fragments: ticks per second, and the default duration of a picture. */
struct track {
    uint32_t clock, duration;
};

static bool read_head(const struct cv_hls_map *map, struct track *track)
{
    const uint8_t *data = map->data;
    struct box movie, box;
    if (!find_box(data, data + map->size, "moov", &movie)) {
        return false;
    }
    if (find_within(&movie, "mvex", &box) && find_within(&box, "trex", &box) &&
        holds(&box, FULL_HEAD + TREX_DURATION_AT)) {
        track->duration = AV_RB32(box.data + FULL_HEAD + TREX_DURATION_AT - 4);
    }
    if (!find_within(&movie, "trak", &box) || !find_within(&box, "mdia", &box) ||
        !find_within(&box, "mdhd", &box) || !holds(&box, FULL_HEAD + 20)) {
        return false;
    }
    bool is_long = box.data[BOX_HEAD] == 1;
    track->clock = AV_RB32(box.data + FULL_HEAD + (is_long ? 16 : 8));
    return track->clock > 0;
}

static void read_default_duration(const struct box *box, uint32_t *duration)
{
    uint32_t flags = AV_RB32(box->data + BOX_HEAD) & 0xffffff;
    size_t at = FULL_HEAD + 4;
    at += flags & TFHD_BASE_OFFSET ? 8 : 0;
    at += flags & TFHD_DESCRIPTION ? 4 : 0;
    if ((flags & TFHD_DURATION) && holds(box, at + 4)) {
        *duration = AV_RB32(box->data + at);
    }
}

/* Reads the times of one run, in ticks of the check; false if the table is shorter than announced. */
static bool read_run(const struct box *box, const struct track *track, uint32_t duration,
                     int64_t dts, struct cv_hls_packets *packets, size_t *index)
{
    uint32_t flags = AV_RB32(box->data + BOX_HEAD) & 0xffffff;
    if (!holds(box, FULL_HEAD + 4)) {
        return false;
    }
    uint32_t count = AV_RB32(box->data + FULL_HEAD);
    size_t at = FULL_HEAD + 4;
    at += flags & TRUN_DATA_OFFSET ? 4 : 0;
    at += flags & TRUN_FIRST_FLAGS ? 4 : 0;
    size_t duration_size = flags & TRUN_DURATION ? 4 : 0;
    size_t before = duration_size + (flags & TRUN_SIZE ? 4 : 0) + (flags & TRUN_FLAGS ? 4 : 0);
    size_t entry = before + (flags & TRUN_COMPOSITION ? 4 : 0);
    if (count > packets->count - *index || !holds(box, at + count * entry)) {
        return false;
    }
    AVRational clock = {1, (int)track->clock}, ticks = {1, CV_HLS_CLOCK};
    for (uint32_t i = 0; i < count; i++, at += entry) {
        int64_t offset = flags & TRUN_COMPOSITION ? (int32_t)AV_RB32(box->data + at + before) : 0;
        struct cv_hls_packet *packet = &packets->packets[(*index)++];
        packet->dts = av_rescale_q(dts, clock, ticks);
        packet->pts = av_rescale_q(dts + offset, clock, ticks);
        dts += duration_size > 0 ? AV_RB32(box->data + at) : duration;
    }
    return true;
}

static bool read_fragment(const struct box *fragment, const struct track *track,
                          struct cv_hls_packets *packets, size_t *index)
{
    struct box traf, head, time, run;
    if (!find_within(fragment, "traf", &traf) || !find_within(&traf, "tfhd", &head) ||
        !find_within(&traf, "tfdt", &time) || !find_within(&traf, "trun", &run) ||
        !holds(&head, FULL_HEAD + 4) || !holds(&time, FULL_HEAD + 4) || !holds(&run, FULL_HEAD)) {
        return false;
    }
    bool is_long = time.data[BOX_HEAD] == 1 && holds(&time, FULL_HEAD + 8);
    int64_t dts = is_long ? (int64_t)(AV_RB64(time.data + FULL_HEAD) & INT64_MAX >> 10)
                          : (int64_t)AV_RB32(time.data + FULL_HEAD);
    uint32_t duration = track->duration;
    read_default_duration(&head, &duration);
    return read_run(&run, track, duration, dts, packets, index);
}

bool cv_hls_read_fragment_times(const struct cv_hls_map *map, const void *data, size_t size,
                                struct cv_hls_packets *packets)
{
    struct track track = {0};
    const uint8_t *at = data, *end = at + size;
    size_t index = 0;
    struct box box;
    if (!read_head(map, &track) || track.clock > INT32_MAX) {
        return false;
    }
    while (find_box(at, end, "moof", &box)) {
        if (!read_fragment(&box, &track, packets, &index)) {
            return false;
        }
        at = box.end;
    }
    return index == packets->count;
}
