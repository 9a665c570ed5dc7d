/* Decodes pictures on a device through FFmpeg: VA-API, or NVIDIA's NVDEC. */
#pragma once

#include "common/base/base.h"

#include <libavcodec/avcodec.h>

struct cv_hardware;

/* Opens a device ("vaapi:/dev/dri/renderD128", "cuda:0") for decoding a codec. Fails with the reason
 * if FFmpeg cannot decode this codec on such a device, or if the device cannot be opened. */
CV_MUST_CHECK int cv_hardware_new(const char *device, enum AVCodecID codec_id,
                                  struct cv_hardware **ret_hardware, struct cv_error *error);
void cv_hardware_free(struct cv_hardware *hardware);
CV_DEFINE_CLEANUP(struct cv_hardware *, cv_hardware_free)

/* "vaapi:/dev/dri/renderD128"; borrowed. */
const char *cv_hardware_name(const struct cv_hardware *hardware);

/* FFmpeg's decoder that uses the device. */
const AVCodec *cv_hardware_codec(const struct cv_hardware *hardware);

/* Lets a context of this decoder, which is not open yet, use the device. The decoder fails with its
 * first packet if the device does not decode such pictures. `hardware` must outlive the context. */
CV_MUST_CHECK int cv_hardware_attach(struct cv_hardware *hardware, AVCodecContext *context,
                                     struct cv_error *error);

/* Why the device does not decode the pictures of this stream; "" if it does. Borrowed. */
const char *cv_hardware_refusal(const struct cv_hardware *hardware);

/* Replaces a decoded picture in the device's memory by one in ours, with the samples and the pixel
 * format that FFmpeg's own decoder would give. */
CV_MUST_CHECK int cv_hardware_fetch(struct cv_hardware *hardware, AVFrame *picture,
                                    struct cv_error *error);
