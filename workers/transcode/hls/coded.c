#include "workers/transcode/hls/coded.h"

#include <libavutil/intreadwrite.h>
#include <string.h>

enum {
    /* ITU-T H.264 */
    PROFILE_BASELINE = 66,
    PROFILE_MAIN = 77,
    PROFILE_HIGH = 100,
    CONSTRAINED = 0x40, /* constraint_set1_flag: no arbitrary slice order */
    MACROBLOCK = 16,
    H264_SPS = 7,
    /* ITU-T H.265 7.4.2.2, ISO/IEC 14496-15 8.3.3 */
    HEVC_PICTURES = 32, /* smaller types of NAL units are pictures */
    HEVC_SETS_END = 35, /* parameter sets have smaller types */
    HEVC_IDR_W_RADL = 19,
    HEVC_IDR_N_LP = 20,
    HEVC_FIRST_SLICE = 0x80,
    HVCC_LEVEL = 12,
    HVCC_ARRAYS = 23, /* offset of the first array; the byte before is their number */
    /* AV1 5.3.2, 5.9.2; AV1 in ISO BMFF 2.3.3 */
    AV1_SEQUENCE = 1,
    AV1_FRAME_HEADER = 3,
    AV1_FRAME = 6,
    AV1_KEY = 0,
    AV1_STILL = 0x18, /* still_picture, reduced_still_picture_header */
    AV1C_SIZE = 4,    /* size without units; every key picture has them */
};

/* The largest picture at a level; levels and sizes increase. */
struct level {
    int level;
    int64_t most;
};

static bool fits(const struct level *levels, size_t count, int level, int64_t size)
{
    for (size_t i = 0; i < count; i++) {
        if (level <= levels[i].level) {
            return size <= levels[i].most;
        }
    }
    return false;
}

/* ---- H.264 ----------------------------------------------------------------------------------- */

static const char *refuse_h264(const struct cv_h264_sets *sets, const AVCodecParameters *codec)
{
    /* Macroblocks (table A-1), up to what browsers and their hardware decode. */
    static const struct level levels[] = {
        {10, 99},   {20, 396},  {21, 792},  {30, 1620},  {31, 3600},
        {32, 5120}, {41, 8192}, {42, 8704}, {50, 22080}, {52, 36864},
    };
    int sequences = 0;
    for (size_t i = 0; i < sets->count; i++) {
        struct cv_h264_sps sps;
        if (sets->sets[i].type != CV_H264_SPS) {
            continue;
        }
        if (++sequences > 1 || !cv_h264_sps_read(&sets->sets[i], &sps)) {
            return "its parameter sets are not those of one sequence";
        }
        bool known = sps.profile == PROFILE_MAIN || sps.profile == PROFILE_HIGH ||
                     (sps.profile == PROFILE_BASELINE && (sps.constraints & CONSTRAINED));
        if (!known || sps.chroma_format != 1 || sps.bit_depth != 8) {
            return "browsers do not play its profile of H.264";
        }
        if (!sps.frames_only) {
            return "it may have interlaced pictures";
        }
        int columns = (codec->width + MACROBLOCK - 1) / MACROBLOCK;
        int rows = (codec->height + MACROBLOCK - 1) / MACROBLOCK;
        if (!fits(levels, CV_COUNT(levels), sps.level, (int64_t)columns * rows)) {
            return "its pictures do not fit its level of H.264";
        }
    }
    return NULL;
}

/* ---- HEVC ------------------------------------------------------------------------------------ */

static int hevc_type(const struct cv_h264_nal *nal)
{
    return nal->data[0] >> 1 & 63;
}

static bool is_base_layer(const struct cv_h264_nal *nal)
{
    return nal->size > 2 && (nal->data[0] & 1) == 0 && nal->data[1] >> 3 == 0;
}

/* Iterates over the record's parameter sets. *ret_found: `wanted` (NULL: none) is one of them.
 * False if the record is malformed, or lacks one of the three kinds. */
static bool walk_sets(const uint8_t *record, size_t size, const struct cv_h264_nal *wanted,
                      bool *ret_found)
{
    const uint8_t *at = record + HVCC_ARRAYS, *end = record + size;
    unsigned kinds = 0;
    *ret_found = false;
    for (int arrays = record[HVCC_ARRAYS - 1]; arrays > 0; arrays--) {
        if (end - at < 3) {
            return false;
        }
        int count = AV_RB16(at + 1);
        struct cv_h264_cursor cursor = {at + 3, end, 2};
        for (; count > 0; count--) {
            struct cv_h264_nal nal;
            if (cv_h264_next(&cursor, &nal) != CV_H264_NAL) {
                return false;
            }
            int type = hevc_type(&nal);
            kinds |=
                type >= HEVC_PICTURES && type < HEVC_SETS_END ? 1U << (type - HEVC_PICTURES) : 0;
            *ret_found = *ret_found || (wanted && wanted->size == nal.size &&
                                        memcmp(wanted->data, nal.data, nal.size) == 0);
        }
        at = cursor.at;
    }
    return kinds == 7 && at == end;
}

static bool is_hvcc(const uint8_t *record, size_t size)
{
    bool found;
    return size > HVCC_ARRAYS && record[0] == 1 && (record[21] & 3) == 3 &&
           walk_sets(record, size, NULL, &found);
}

static const char *refuse_hevc(const uint8_t *record, const AVCodecParameters *codec)
{
    /* Luma samples (table A.8). */
    static const struct level levels[] = {
        {30, 36864},  {60, 122880},   {63, 245760},   {90, 552960},
        {93, 983040}, {123, 2228224}, {156, 8912896}, {186, 35651584},
    };
    int profile = record[1] & 31;
    bool progressive = (record[6] & 0x40) == 0;
    if ((record[1] >> 6) != 0 || profile < 1 || profile > 3 || (record[16] & 3) != 1) {
        return "browsers do not play its profile of HEVC";
    }
    if (!progressive) {
        return "it may have interlaced pictures";
    }
    int64_t samples = (int64_t)codec->width * codec->height;
    return fits(levels, CV_COUNT(levels), record[HVCC_LEVEL], samples)
               ? NULL
               : "its pictures do not fit its level of HEVC";
}

static enum cv_h264_picture classify_hevc(const struct cv_coded *coded, const AVPacket *packet)
{
    struct cv_h264_cursor cursor = {packet->data, packet->data + packet->size, 4};
    struct cv_h264_nal nal;
    enum cv_h264_step step;
    int pictures = 0;
    bool is_idr = true;
    while ((step = cv_h264_next(&cursor, &nal)) == CV_H264_NAL) {
        int type = hevc_type(&nal);
        bool found = true;
        if (type >= HEVC_PICTURES && type < HEVC_SETS_END &&
            (!walk_sets(coded->record, coded->size, &nal, &found) || !found)) {
            return CV_H264_PICTURE_CHANGED;
        }
        if (type < HEVC_PICTURES && is_base_layer(&nal)) {
            is_idr = is_idr && (type == HEVC_IDR_W_RADL || type == HEVC_IDR_N_LP);
            pictures += (nal.data[2] & HEVC_FIRST_SLICE) != 0;
        }
    }
    if (step != CV_H264_END || pictures != 1) {
        return CV_H264_PICTURE_BROKEN;
    }
    return is_idr ? CV_H264_PICTURE_IDR : CV_H264_PICTURE_DEPENDENT;
}

/* Keeps only pictures: with "hvc1", parameter sets must be in the sample entry. */
static int repack_hevc(AVPacket *packet, struct cv_error *error)
{
    CV_TRY_MEMORY(av_packet_make_writable(packet) >= 0, error, "a packet");
    struct cv_h264_cursor cursor = {packet->data, packet->data + packet->size, 4};
    struct cv_h264_nal nal;
    uint8_t *end = packet->data;
    while (cv_h264_next(&cursor, &nal) == CV_H264_NAL) {
        if (hevc_type(&nal) < HEVC_PICTURES && is_base_layer(&nal)) {
            size_t size = nal.size + 4;
            (void)memmove(end, nal.data - 4, size);
            end += size;
        }
    }
    av_shrink_packet(packet, (int)(end - packet->data));
    return 0;
}

/* ISO/IEC 14496-15, annex E.3. */
static void name_hevc(const uint8_t *record, size_t size, char ret_name[CV_CODEC_NAME_SIZE])
{
    if (size <= HVCC_ARRAYS) {
        return;
    }
    uint32_t given = AV_RB32(record + 2), compatible = 0;
    for (int i = 0; i < 32; i++) {
        compatible |= (given >> i & 1) << (31 - i);
    }
    static const char *const spaces[] = {"", "A", "B", "C"};
    int length =
        snprintf(ret_name, CV_CODEC_NAME_SIZE, "hvc1.%s%d.%X.%c%d", spaces[record[1] >> 6],
                 record[1] & 31, compatible, record[1] & 0x20 ? 'H' : 'L', record[HVCC_LEVEL]);
    size_t constraints = HVCC_LEVEL;
    while (constraints > 6 && record[constraints - 1] == 0) {
        constraints--;
    }
    for (size_t i = 6; i < constraints; i++) {
        length +=
            snprintf(ret_name + length, CV_CODEC_NAME_SIZE - (size_t)length, ".%X", record[i]);
    }
}

/* ---- AV1 ------------------------------------------------------------------------------------- */

struct unit {
    int type;
    const uint8_t *data;
    size_t size;
};

/* Reads the next unit (OBU) and moves *at to its end; false at the end, or if *ret_broken. */
static bool next_unit(const uint8_t **at, const uint8_t *end, struct unit *ret_unit,
                      bool *ret_broken)
{
    size_t left = (size_t)(end - *at), head = 1;
    *ret_broken = false;
    if (left == 0) {
        return false;
    }
    uint8_t flags = (*at)[0];
    head += flags >> 2 & 1;
    uint64_t size = 0;
    bool more = (flags & 2) != 0;
    for (int shift = 0; more && head < left && shift < 56; shift += 7) {
        more = ((*at)[head] & 0x80) != 0;
        size |= (uint64_t)((*at)[head++] & 0x7f) << shift;
    }
    *ret_broken = more || head > left || (flags & 0x80) || size > left - head;
    if (*ret_broken) {
        return false;
    }
    size = flags & 2 ? size : left - head;
    *ret_unit = (struct unit){flags >> 3 & 15, *at + head, (size_t)size};
    *at += head + size;
    return true;
}

static bool is_av1c(const uint8_t *record, size_t size)
{
    return size >= AV1C_SIZE && record[0] == 0x81;
}

static const char *refuse_av1(const uint8_t *record, const AVCodecParameters *codec)
{
    /* Luma samples (AV1 A.3), by seq_level_idx. */
    static const struct level levels[] = {
        {0, 147456},  {1, 278784},   {4, 665856},    {5, 1065024},
        {9, 2359296}, {15, 8912896}, {19, 35651584},
    };
    if (record[1] >> 5 != 0 || (record[2] & 0x10) != 0) {
        return "browsers do not play its profile of AV1";
    }
    int64_t samples = (int64_t)codec->width * codec->height;
    return fits(levels, CV_COUNT(levels), record[1] & 31, samples)
               ? NULL
               : "its pictures do not fit its level of AV1";
}

/* Whether a sequence header is the stream's. The first one in the stream counts, not the one in the
 * record, which some encoders write before it is final. */
static bool is_own_sequence(struct cv_coded *coded, const struct unit *unit)
{
    if (!coded->sequence && unit->size > 0 && unit->data[0] >> 5 == coded->record[1] >> 5 &&
        (unit->data[0] & AV1_STILL) == 0) {
        coded->sequence = av_memdup(unit->data, unit->size);
        coded->sequence_size = unit->size;
    }
    return coded->sequence && unit->size == coded->sequence_size &&
           memcmp(unit->data, coded->sequence, unit->size) == 0;
}

/* A key picture has its sequence header in the same packet and is shown at once. */
static enum cv_h264_picture look_av1(struct cv_coded *coded, const AVPacket *packet)
{
    struct unit unit;
    const uint8_t *at = packet->data, *end = packet->data + packet->size;
    bool broken = false, has_sequence = false, has_picture = false, is_key = false;
    while (next_unit(&at, end, &unit, &broken)) {
        if (unit.type == AV1_SEQUENCE && !is_own_sequence(coded, &unit)) {
            return CV_H264_PICTURE_CHANGED;
        }
        has_sequence = has_sequence || unit.type == AV1_SEQUENCE;
        bool is_picture = unit.type == AV1_FRAME || unit.type == AV1_FRAME_HEADER;
        if (is_picture && !has_picture && unit.size > 0) {
            bool shows_earlier = (unit.data[0] & 0x80) != 0, is_shown = (unit.data[0] & 0x10) != 0;
            int type = unit.data[0] >> 5 & 3;
            is_key = has_sequence && !shows_earlier && is_shown && type == AV1_KEY;
        }
        has_picture = has_picture || is_picture;
    }
    if (broken || !has_picture) {
        return CV_H264_PICTURE_BROKEN;
    }
    return is_key ? CV_H264_PICTURE_IDR : CV_H264_PICTURE_DEPENDENT;
}

/* AV1 in ISO BMFF, section 5: the parts that follow may only be left out together. */
static void name_av1(const uint8_t *record, size_t size, char ret_name[CV_CODEC_NAME_SIZE])
{
    if (size >= AV1C_SIZE) {
        int depth = record[2] & 0x40 ? (record[2] & 0x20 ? 12 : 10) : 8;
        (void)snprintf(ret_name, CV_CODEC_NAME_SIZE, "av01.%d.%02d%c.%02d", record[1] >> 5,
                       record[1] & 31, record[2] & 0x80 ? 'H' : 'M', depth);
    }
}

/* ---- all of them ----------------------------------------------------------------------------- */

bool cv_coded_open(struct cv_coded *coded, const AVCodecParameters *codec)
{
    size_t size = codec->extradata_size > 0 ? (size_t)codec->extradata_size : 0;
    *coded = (struct cv_coded){.id = codec->codec_id, .size = size};
    if (coded->id == AV_CODEC_ID_H264) {
        return cv_h264_sets_read(&coded->sets, codec->extradata, size);
    }
    bool good = (coded->id == AV_CODEC_ID_HEVC && is_hvcc(codec->extradata, size)) ||
                (coded->id == AV_CODEC_ID_AV1 && is_av1c(codec->extradata, size));
    coded->size = coded->id == AV_CODEC_ID_AV1 ? AV1C_SIZE : size;
    coded->record = good ? av_mallocz(size + AV_INPUT_BUFFER_PADDING_SIZE) : NULL;
    if (coded->record) {
        (void)memcpy(coded->record, codec->extradata, coded->size);
    }
    return coded->record != NULL;
}

void cv_coded_deinit(struct cv_coded *coded)
{
    cv_h264_sets_deinit(&coded->sets);
    av_freep(&coded->record);
    av_freep(&coded->sequence);
}

const char *cv_coded_refusal(const struct cv_coded *coded, const AVCodecParameters *codec)
{
    return coded->id == AV_CODEC_ID_H264   ? refuse_h264(&coded->sets, codec)
           : coded->id == AV_CODEC_ID_HEVC ? refuse_hevc(coded->record, codec)
                                           : refuse_av1(coded->record, codec);
}

enum cv_h264_picture cv_coded_classify(struct cv_coded *coded, const AVPacket *packet)
{
    return coded->id == AV_CODEC_ID_H264   ? cv_h264_look(&coded->sets, packet)
           : coded->id == AV_CODEC_ID_HEVC ? classify_hevc(coded, packet)
                                           : look_av1(coded, packet);
}

int cv_coded_repack(const struct cv_coded *coded, AVPacket *packet, struct cv_error *error)
{
    return coded->id == AV_CODEC_ID_H264   ? cv_h264_repack(&coded->sets, packet, error)
           : coded->id == AV_CODEC_ID_HEVC ? repack_hevc(packet, error)
                                           : 0;
}

int cv_coded_describe(const struct cv_coded *coded, AVCodecContext *target, struct cv_error *error)
{
    target->codec_id = coded->id;
    if (coded->id == AV_CODEC_ID_H264) {
        return cv_h264_sets_write(&coded->sets, &target->extradata, &target->extradata_size, error);
    }
    target->codec_tag = coded->id == AV_CODEC_ID_HEVC ? MKTAG('h', 'v', 'c', '1') : 0;
    target->extradata = av_mallocz(coded->size + AV_INPUT_BUFFER_PADDING_SIZE);
    CV_TRY_MEMORY(target->extradata, error, "a rendition");
    (void)memcpy(target->extradata, coded->record, coded->size);
    target->extradata_size = (int)coded->size;
    return 0;
}

/* Uses the three bytes after the type of the sequence parameter set, wherever it is in Annex B
 * data; in a configuration record of MP4 they follow the version. */
static void name_h264(const uint8_t *data, size_t size, char ret_name[CV_CODEC_NAME_SIZE])
{
    const uint8_t *set = size > 3 && data[0] == 1 ? data + 1 : NULL;
    for (size_t i = 0; !set && i + 6 < size; i++) {
        if (data[i] == 0 && data[i + 1] == 0 && data[i + 2] == 1 &&
            (data[i + 3] & 31) == H264_SPS) {
            set = data + i + 4;
        }
    }
    if (set) {
        (void)snprintf(ret_name, CV_CODEC_NAME_SIZE, "avc1.%02X%02X%02X", set[0], set[1], set[2]);
    }
}

void cv_coded_name(enum AVCodecID id, const uint8_t *data, size_t size,
                   char ret_name[CV_CODEC_NAME_SIZE])
{
    ret_name[0] = '\0';
    if (id == AV_CODEC_ID_HEVC) {
        name_hevc(data, size, ret_name);
    } else if (id == AV_CODEC_ID_AV1) {
        name_av1(data, size, ret_name);
    } else {
        name_h264(data, size, ret_name);
    }
}
