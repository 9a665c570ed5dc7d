/* Moving pictures through FFmpeg's libraries: demux, decode on the presentation-time axis, upright
 * frames, JPEG, WebP; encode and mux for HLS and clips. Knows no queue and no store: bytes come from a
 * cv_byte_source, files go to paths.
 *
 * Time 0 is the start of the presentation: the earliest start of the container's audio and video
 * streams. All times are microseconds on that axis, taken from the source's own timestamps, never
 * from a frame count. A picture is upright: the display matrix has been applied, once. Attached
 * pictures (cover art) are not video.
 *
 * Hostile input is expected: every size, count and duration is bounded (CV_MEDIA_… below). Time
 * stamps that contradict the rest of the file are ignored (see timeline.h), so that the length of a
 * presentation is limited by its packets and their bytes.
 * An object of these headers is used by one thread at a time.
 */
#pragma once

#include "common/media/cadence.h"
#include "common/media/caption.h"
#include "common/media/decode.h"
#include "common/media/demux.h"
#include "common/media/encoder.h"
#include "common/media/h264.h"
#include "common/media/info.h"
#include "common/media/jpeg.h"
#include "common/media/jpeg_read.h"
#include "common/media/language.h"
#include "common/media/libav.h"
#include "common/media/output.h"
#include "common/media/picture_codec.h"
#include "common/media/scale.h"
#include "common/media/sound.h"
#include "common/media/subtitles.h"
#include "common/media/webp.h"
