/* What playlists and browsers need to know of H.264. Private to workers/transcode/hls; decodes
 * nothing. */
#pragma once

#include "common/media/media.h"

#include <libavcodec/avcodec.h>

enum { CV_CODEC_NAME_SIZE = 32 }; /* RFC 6381: "avc1.640028", "mp4a.40.2" */

/* The reason why browsers cannot play pictures with these parameter sets; NULL if they can. */
const char *cv_coded_refusal(const struct cv_h264_sets *sets, const AVCodecParameters *codec);

/* Writes the RFC 6381 codec name for `data`: a configuration record of MP4, or H.264 with start
 * codes. "" if it cannot be determined. */
void cv_coded_name(const uint8_t *data, size_t size, char ret_name[CV_CODEC_NAME_SIZE]);
