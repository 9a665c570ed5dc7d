#include "common/media/h264.h"

#include "common/media/libav.h"

#include <libavcodec/defs.h>
#include <libavutil/mem.h>
#include <string.h>

enum {
    SPS_IDS = 32,        /* identifiers that are valid for both kinds of sets */
    RECORD_SPS_MAX = 31, /* the record counts them in five bits */
    EXPONENT_MAX = 31,   /* zeros in front of an Exp-Golomb number */
};

/* ---- units ----------------------------------------------------------------------------------- */

static const uint8_t *find_start_code(const uint8_t *at, const uint8_t *end)
{
    for (; end - at >= 3; at++) {
        if (at[0] == 0 && at[1] == 0 && at[2] == 1) {
            return at;
        }
    }
    return end;
}

static enum cv_h264_step next_by_start_code(struct cv_h264_cursor *cursor,
                                            struct cv_h264_nal *ret_nal)
{
    const uint8_t *start = find_start_code(cursor->at, cursor->end);
    if (start == cursor->end) {
        return CV_H264_END;
    }
    start += 3;
    const uint8_t *end = find_start_code(start, cursor->end);
    cursor->at = end;
    while (end > start && end[-1] == 0) {
        end--; /* removes the first zero of a four-byte start code, and trailing zeros */
    }
    *ret_nal = (struct cv_h264_nal){.data = start, .size = (size_t)(end - start)};
    return CV_H264_NAL;
}

static enum cv_h264_step next_by_length(struct cv_h264_cursor *cursor, struct cv_h264_nal *ret_nal)
{
    if (cursor->at == cursor->end) {
        return CV_H264_END;
    }
    if (cursor->end - cursor->at < cursor->length_size) {
        return CV_H264_BROKEN;
    }
    size_t size = 0;
    for (int i = 0; i < cursor->length_size; i++) {
        size = size << 8 | *cursor->at++;
    }
    if (size > (size_t)(cursor->end - cursor->at)) {
        return CV_H264_BROKEN;
    }
    *ret_nal = (struct cv_h264_nal){.data = cursor->at, .size = size};
    cursor->at += size;
    return CV_H264_NAL;
}

enum cv_h264_step cv_h264_next(struct cv_h264_cursor *cursor, struct cv_h264_nal *ret_nal)
{
    for (;;) {
        enum cv_h264_step step = cursor->length_size == 0 ? next_by_start_code(cursor, ret_nal)
                                                          : next_by_length(cursor, ret_nal);
        if (step != CV_H264_NAL) {
            return step;
        }
        if (ret_nal->size > 0) {
            ret_nal->type = ret_nal->data[0] & 0x1f;
            return CV_H264_NAL;
        }
    }
}

/* ---- bits ------------------------------------------------------------------------------------ */

/* Reads bits from a unit's payload, without its emulation prevention bytes. */
struct bits {
    uint8_t data[CV_H264_SET_BYTES];
    size_t count, at; /* bits */
    bool broken;
};

static void bits_init(struct bits *bits, const uint8_t *data, size_t size)
{
    *bits = (struct bits){0};
    size_t length = 0;
    int zeros = 0;
    for (size_t i = 0; i < size && length < sizeof(bits->data); i++) {
        if (zeros >= 2 && data[i] == 3) {
            zeros = 0;
            continue;
        }
        zeros = data[i] == 0 ? zeros + 1 : 0;
        bits->data[length++] = data[i];
    }
    bits->count = length * 8;
}

static unsigned read_bits(struct bits *bits, int count)
{
    unsigned value = 0;
    for (; count > 0; count--) {
        if (bits->at >= bits->count) {
            bits->broken = true;
            return 0;
        }
        value = value << 1 | (bits->data[bits->at / 8] >> (7 - bits->at % 8) & 1U);
        bits->at++;
    }
    return value;
}

/* ue(v), 9.1 */
static unsigned read_unsigned(struct bits *bits)
{
    int zeros = 0;
    while (!bits->broken && read_bits(bits, 1) == 0) {
        if (++zeros > EXPONENT_MAX) {
            bits->broken = true;
        }
    }
    return bits->broken ? 0 : (1U << zeros) - 1 + read_bits(bits, zeros);
}

/* se(v), 9.1.1 */
static int read_signed(struct bits *bits)
{
    int64_t code = read_unsigned(bits);
    return (int)(code % 2 != 0 ? (code + 1) / 2 : -(code / 2));
}

/* ---- parameter sets -------------------------------------------------------------------------- */

void cv_h264_sets_deinit(struct cv_h264_sets *sets)
{
    for (size_t i = 0; i < sets->count; i++) {
        free(sets->sets[i].data);
    }
    sets->count = 0;
}

static bool read_id(const struct cv_h264_nal *nal, int *ret_id)
{
    struct bits bits;
    bits_init(&bits, nal->data, nal->size);
    (void)read_bits(&bits, nal->type == CV_H264_SPS ? 32 : 8);
    unsigned id = read_unsigned(&bits);
    *ret_id = (int)id;
    return !bits.broken && id < (nal->type == CV_H264_SPS ? 32U : 256U);
}

bool cv_h264_sets_have(const struct cv_h264_sets *sets, const struct cv_h264_nal *nal)
{
    for (size_t i = 0; i < sets->count; i++) {
        if (sets->sets[i].size == nal->size &&
            memcmp(sets->sets[i].data, nal->data, nal->size) == 0) {
            return true;
        }
    }
    return false;
}

static bool add(struct cv_h264_sets *sets, const struct cv_h264_nal *nal)
{
    int id;
    if (cv_h264_sets_have(sets, nal)) {
        return true;
    }
    if (sets->count == CV_H264_SETS_MAX || nal->size > CV_H264_SET_BYTES || !read_id(nal, &id)) {
        return false;
    }
    for (size_t i = 0; i < sets->count; i++) {
        if (sets->sets[i].type == nal->type && sets->sets[i].id == id) {
            return false; /* two sets with one identifier are ambiguous */
        }
    }
    uint8_t *copy = malloc(nal->size);
    if (!copy) {
        return false;
    }
    (void)memcpy(copy, nal->data, nal->size);
    sets->sets[sets->count++] = (struct cv_h264_set){copy, nal->size, nal->type, id};
    return true;
}

static bool read_units(struct cv_h264_sets *sets, struct cv_h264_cursor cursor)
{
    struct cv_h264_nal nal;
    enum cv_h264_step step;
    while ((step = cv_h264_next(&cursor, &nal)) == CV_H264_NAL) {
        if ((nal.type == CV_H264_SPS || nal.type == CV_H264_PPS) && !add(sets, &nal)) {
            return false;
        }
    }
    return step == CV_H264_END;
}

/* Reads `count` units with lengths of two bytes, as in the configuration record. */
static bool read_record_units(struct cv_h264_sets *sets, struct cv_h264_cursor *cursor, int count)
{
    for (; count > 0; count--) {
        struct cv_h264_nal nal;
        if (cv_h264_next(cursor, &nal) != CV_H264_NAL ||
            (nal.type != CV_H264_SPS && nal.type != CV_H264_PPS) || !add(sets, &nal)) {
            return false;
        }
    }
    return true;
}

bool cv_h264_sets_read(struct cv_h264_sets *sets, const uint8_t *data, size_t size)
{
    *sets = (struct cv_h264_sets){0};
    bool good;
    if (data && size >= 7 && data[0] == 1) {
        struct cv_h264_cursor cursor = {data + 6, data + size, 2};
        sets->length_size = (data[4] & 3) + 1;
        good = read_record_units(sets, &cursor, data[5] & 0x1f) && cursor.at < cursor.end;
        int pictures = good ? *cursor.at++ : 0;
        good = good && read_record_units(sets, &cursor, pictures);
    } else {
        good = data && read_units(sets, (struct cv_h264_cursor){data, data + size, 0});
    }
    bool both[2] = {false, false};
    for (size_t i = 0; i < sets->count; i++) {
        both[sets->sets[i].type == CV_H264_PPS] = true;
    }
    if (!good || !both[0] || !both[1]) {
        cv_h264_sets_deinit(sets);
        return false;
    }
    return true;
}

bool cv_h264_sets_join(struct cv_h264_sets *sets, const struct cv_h264_sets *other)
{
    for (size_t i = 0; i < other->count; i++) {
        const struct cv_h264_set *set = &other->sets[i];
        if (!add(sets, &(struct cv_h264_nal){set->data, set->size, set->type})) {
            return false;
        }
    }
    return true;
}

int cv_h264_sets_free_id(const struct cv_h264_sets *sets)
{
    for (int id = 0; id < SPS_IDS; id++) {
        bool taken = false;
        for (size_t i = 0; i < sets->count; i++) {
            taken = taken || sets->sets[i].id == id;
        }
        if (!taken) {
            return id;
        }
    }
    return -1;
}

static bool has_chroma_format(int profile)
{
    static const int profiles[] = {100, 110, 122, 244, 44, 83, 86, 118, 128, 138, 139, 134, 135};
    for (size_t i = 0; i < CV_COUNT(profiles); i++) {
        if (profiles[i] == profile) {
            return true;
        }
    }
    return false;
}

/* 7.3.2.1.1.1 */
static void skip_scaling_list(struct bits *bits, int size)
{
    int last = 8, next = 8;
    for (int i = 0; i < size && !bits->broken; i++) {
        if (next != 0) {
            next = (last + read_signed(bits) + 256) % 256;
        }
        last = next == 0 ? last : next;
    }
}

static void read_chroma(struct bits *bits, struct cv_h264_sps *sps)
{
    sps->chroma_format = (int)read_unsigned(bits);
    if (sps->chroma_format == 3) {
        (void)read_bits(bits, 1); /* separate colour planes */
    }
    unsigned luma = read_unsigned(bits), chroma = read_unsigned(bits);
    unsigned depth = luma > chroma ? luma : chroma;
    sps->bit_depth = 8 + (int)(depth > 8 ? 8 : depth);
    (void)read_bits(bits, 1); /* lossless transform bypass */
    if (read_bits(bits, 1)) {
        for (int i = 0; i < (sps->chroma_format == 3 ? 12 : 8); i++) {
            if (read_bits(bits, 1)) {
                skip_scaling_list(bits, i < 6 ? 16 : 64);
            }
        }
    }
}

static void skip_order_count(struct bits *bits)
{
    unsigned kind = read_unsigned(bits);
    if (kind == 0) {
        (void)read_unsigned(bits);
    } else if (kind == 1) {
        (void)read_bits(bits, 1);
        (void)read_signed(bits);
        (void)read_signed(bits);
        unsigned count = read_unsigned(bits);
        for (unsigned i = 0; i < count && !bits->broken; i++) {
            (void)read_signed(bits);
        }
    }
}

/* 7.3.2.1.1 */
bool cv_h264_sps_read(const struct cv_h264_set *set, struct cv_h264_sps *ret_sps)
{
    struct bits bits;
    bits_init(&bits, set->data, set->size);
    (void)read_bits(&bits, 8);
    struct cv_h264_sps sps = {.chroma_format = 1, .bit_depth = 8};
    sps.profile = (int)read_bits(&bits, 8);
    sps.constraints = (int)read_bits(&bits, 8);
    sps.level = (int)read_bits(&bits, 8);
    (void)read_unsigned(&bits);
    if (has_chroma_format(sps.profile)) {
        read_chroma(&bits, &sps);
    }
    (void)read_unsigned(&bits); /* bits of the frame number */
    skip_order_count(&bits);
    (void)read_unsigned(&bits); /* reference frames */
    (void)read_bits(&bits, 1);  /* gaps in frame numbers */
    (void)read_unsigned(&bits); /* width and height in macroblocks */
    (void)read_unsigned(&bits);
    sps.frames_only = read_bits(&bits, 1) != 0;
    *ret_sps = sps;
    return !bits.broken;
}

/* ---- coded pictures ------------------------------------------------------------------------------ */

enum { LENGTH_SIZE = 4 }; /* of a unit in the packets that are written */

static bool is_slice(const struct cv_h264_nal *nal)
{
    return nal->type >= 1 && nal->type <= CV_H264_SLICE_IDR;
}

enum cv_h264_picture cv_h264_look(const struct cv_h264_sets *sets, const AVPacket *packet)
{
    struct cv_h264_cursor cursor = {packet->data, packet->data + packet->size, sets->length_size};
    struct cv_h264_nal nal;
    enum cv_h264_step step;
    enum cv_h264_picture kind = CV_H264_PICTURE_DEPENDENT;
    bool pictures = false;
    while ((step = cv_h264_next(&cursor, &nal)) == CV_H264_NAL) {
        bool is_set = nal.type == CV_H264_SPS || nal.type == CV_H264_PPS;
        if (is_set && !cv_h264_sets_have(sets, &nal)) {
            return CV_H264_PICTURE_CHANGED;
        }
        kind = nal.type == CV_H264_SLICE_IDR ? CV_H264_PICTURE_IDR : kind;
        pictures = pictures || is_slice(&nal);
    }
    return step == CV_H264_END && pictures ? kind : CV_H264_PICTURE_BROKEN;
}

int cv_h264_repack(const struct cv_h264_sets *sets, AVPacket *packet, struct cv_error *error)
{
    struct cv_h264_cursor cursor = {packet->data, packet->data + packet->size, sets->length_size};
    struct cv_h264_nal nal;
    size_t size = 0;
    bool dropped = false;
    while (cv_h264_next(&cursor, &nal) == CV_H264_NAL) {
        dropped = dropped || !is_slice(&nal);
        size += is_slice(&nal) ? LENGTH_SIZE + nal.size : 0;
    }
    if (sets->length_size == LENGTH_SIZE && !dropped) {
        return 0;
    }
    AVPacket *plain = av_packet_alloc();
    if (!plain || size > INT32_MAX || av_new_packet(plain, (int)size) < 0 ||
        av_packet_copy_props(plain, packet) < 0) {
        av_packet_free(&plain);
        return cv_fail(error, CV_ERROR_OUT_OF_MEMORY, "out of memory for a coded picture");
    }
    cursor = (struct cv_h264_cursor){packet->data, packet->data + packet->size, sets->length_size};
    uint8_t *at = plain->data;
    while (cv_h264_next(&cursor, &nal) == CV_H264_NAL) {
        if (!is_slice(&nal)) {
            continue;
        }
        for (int shift = 24; shift >= 0; shift -= 8) {
            *at++ = (uint8_t)(nal.size >> shift);
        }
        (void)memcpy(at, nal.data, nal.size);
        at += nal.size;
    }
    av_packet_unref(packet);
    av_packet_move_ref(packet, plain);
    av_packet_free(&plain);
    return 0;
}

/* ---- the record ------------------------------------------------------------------------------ */

static void write_units(const struct cv_h264_sets *sets, int type, struct cv_buffer *record)
{
    for (size_t i = 0; i < sets->count; i++) {
        const struct cv_h264_set *set = &sets->sets[i];
        if (set->type == type) {
            uint8_t length[2] = {(uint8_t)(set->size >> 8), (uint8_t)set->size};
            cv_buffer_append(record, length, sizeof(length));
            cv_buffer_append(record, set->data, set->size);
        }
    }
}

static size_t count_units(const struct cv_h264_sets *sets, int type)
{
    size_t count = 0;
    for (size_t i = 0; i < sets->count; i++) {
        count += sets->sets[i].type == type;
    }
    return count;
}

int cv_h264_sets_write(const struct cv_h264_sets *sets, uint8_t **ret_data, int *ret_size,
                       struct cv_error *error)
{
    struct cv_h264_sps all = {.constraints = 0xff};
    for (size_t i = 0; i < sets->count; i++) {
        struct cv_h264_sps sps;
        if (sets->sets[i].type != CV_H264_SPS) {
            continue;
        }
        if (!cv_h264_sps_read(&sets->sets[i], &sps)) {
            return cv_fail(error, CV_ERROR_DECODE, "a broken H.264 parameter set");
        }
        all.profile = sps.profile;
        all.constraints &= sps.constraints;
        all.level = sps.level > all.level ? sps.level : all.level;
        all.chroma_format = sps.chroma_format;
        all.bit_depth = sps.bit_depth;
    }
    size_t sequences = count_units(sets, CV_H264_SPS), pictures = count_units(sets, CV_H264_PPS);
    if (sequences > RECORD_SPS_MAX) {
        return cv_fail(error, CV_ERROR_LIMIT_EXCEEDED, "%zu H.264 sequences", sequences);
    }
    cv_auto(cv_buffer_deinit) struct cv_buffer record = CV_BUFFER_INIT;
    uint8_t head[6] = {
        1,    (uint8_t)all.profile,       (uint8_t)all.constraints, (uint8_t)all.level,
        0xff, (uint8_t)(0xe0 | sequences)};
    cv_buffer_append(&record, head, sizeof(head));
    write_units(sets, CV_H264_SPS, &record);
    uint8_t count = (uint8_t)pictures;
    cv_buffer_append(&record, &count, 1);
    write_units(sets, CV_H264_PPS, &record);
    if (has_chroma_format(all.profile)) {
        uint8_t tail[4] = {(uint8_t)(0xfc | all.chroma_format),
                           (uint8_t)(0xf8 | (all.bit_depth - 8)),
                           (uint8_t)(0xf8 | (all.bit_depth - 8)), 0};
        cv_buffer_append(&record, tail, sizeof(tail));
    }
    uint8_t *data = record.failed ? NULL : av_mallocz(record.length + AV_INPUT_BUFFER_PADDING_SIZE);
    CV_TRY_MEMORY(data, error, "parameter sets");
    (void)memcpy(data, record.data, record.length);
    *ret_data = data;
    *ret_size = (int)record.length;
    return 0;
}
