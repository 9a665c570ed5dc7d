#include "workers/transcode/hls/coded.h"

#include <string.h>

enum {
    /* ITU-T H.264 */
    PROFILE_BASELINE = 66,
    PROFILE_MAIN = 77,
    PROFILE_HIGH = 100,
    CONSTRAINED = 0x40, /* constraint_set1_flag: no arbitrary slice order */
    MACROBLOCK = 16,
    H264_SPS = 7,
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

const char *cv_coded_refusal(const struct cv_h264_sets *sets, const AVCodecParameters *codec)
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

/* ---- its name --------------------------------------------------------------------------------- */

/* Uses the three bytes after the type of the sequence parameter set, wherever it is in Annex B
 * data; in a configuration record of MP4 they follow the version. */
void cv_coded_name(const uint8_t *data, size_t size, char ret_name[CV_CODEC_NAME_SIZE])
{
    ret_name[0] = '\0';
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
