#include "common/media/cleanup.h"
#include "common/media/cut_state.h"
#include "common/media/sink.h"

enum {
    PROFILE_BASELINE = 66,
    PROFILE_MAIN = 77,
    PROFILE_HIGH = 100,
};

static int check_stream(struct cv_cut_state *cut)
{
    const struct cv_media_info *info = &cut->input->info;
    const AVCodecParameters *codec = cut->input->video->codecpar;
    int side = info->width > info->height ? info->width : info->height;
    if (codec->codec_id != AV_CODEC_ID_H264) {
        return cv_cut_refuse(cut->reason, "the video is %s, not H.264", info->video_codec);
    }
    if (codec->format != AV_PIX_FMT_YUV420P && codec->format != AV_PIX_FMT_YUVJ420P) {
        return cv_cut_refuse(cut->reason, "pictures are %s, not 4:2:0 of 8 bits",
                             info->pixel_format);
    }
    if (info->interlaced || info->high_dynamic_range || info->mirrored) {
        return cv_cut_refuse(cut->reason, "pictures are %s",
                             info->interlaced ? "interlaced"
                             : info->mirrored ? "mirrored"
                                              : "of high dynamic range");
    }
    bool too_long = cut->params->max_side > 0 && side > cut->params->max_side;
    bool too_high = cut->params->max_height > 0 && info->height > cut->params->max_height;
    if (too_long || too_high) {
        return cv_cut_refuse(cut->reason, "pictures of %d×%d are to be smaller", info->width,
                             info->height);
    }
    return 0;
}

static int check_sets(struct cv_cut_state *cut)
{
    const AVCodecParameters *codec = cut->input->video->codecpar;
    if (!cv_h264_sets_read(&cut->sets, codec->extradata, (size_t)codec->extradata_size)) {
        return cv_cut_refuse(cut->reason, "the stream's parameter sets cannot be read");
    }
    for (size_t i = 0; i < cut->sets.count; i++) {
        struct cv_h264_sps sps;
        if (cut->sets.sets[i].type != CV_H264_SPS) {
            continue;
        }
        if (!cv_h264_sps_read(&cut->sets.sets[i], &sps) || sps.chroma_format != 1 ||
            sps.bit_depth != 8) {
            return cv_cut_refuse(cut->reason, "the stream's parameter sets cannot be read");
        }
        if (sps.profile != PROFILE_BASELINE && sps.profile != PROFILE_MAIN &&
            sps.profile != PROFILE_HIGH) {
            return cv_cut_refuse(cut->reason, "H.264 profile %d", sps.profile);
        }
        if (!sps.frames_only) {
            return cv_cut_refuse(cut->reason, "the stream may have interlaced pictures");
        }
        if (cut->encoding.profile != 0 && cut->encoding.profile != sps.profile) {
            return cv_cut_refuse(cut->reason, "the stream changes its profile");
        }
        cut->encoding.profile = sps.profile;
    }
    return 0;
}

/* The encoder's parameter sets stand beside the source's under names of their own, so that one
 * sample description ("avc1") holds for copied and encoded pictures. */
static int join_sets(struct cv_cut_state *cut, struct cv_error *error)
{
    cut->encoding.set_id = cv_h264_sets_free_id(&cut->sets);
    if (cut->encoding.set_id < 0) {
        return cv_cut_refuse(cut->reason, "the stream uses every parameter set");
    }
    cv_auto(cv_av_codec_free) AVCodecContext *encoder = NULL;
    int result = cv_cut_encoder_open(&cut->encoding, &encoder, error);
    if (result != 0) {
        return result;
    }
    cv_auto(cv_h264_sets_deinit) struct cv_h264_sets made = {0};
    struct cv_h264_sps sps = {0};
    if (!cv_h264_sets_read(&made, encoder->extradata, (size_t)encoder->extradata_size) ||
        !cv_h264_sets_join(&cut->all, &cut->sets) || !cv_h264_sets_join(&cut->all, &made)) {
        return cv_cut_refuse(cut->reason, "the encoder's parameter sets do not fit");
    }
    for (size_t i = 0; i < made.count; i++) {
        if (made.sets[i].type == CV_H264_SPS &&
            (!cv_h264_sps_read(&made.sets[i], &sps) || sps.profile != cut->encoding.profile)) {
            return cv_cut_refuse(cut->reason, "the encoder makes another profile");
        }
    }
    return 0;
}

int cv_cut_prepare(struct cv_cut_state *cut, struct cv_error *error)
{
    cut->encoding = (struct cv_cut_encoding){
        .input = cut->input,
        .clock = cv_sink_mp4_clock(cut->input->video->time_base),
        .threads = cut->params->threads,
        .reason = cut->reason,
    };
    cut->packet = av_packet_alloc();
    if (!cut->packet) {
        return cv_fail(error, CV_ERROR_OUT_OF_MEMORY, "out of memory for a cut");
    }
    int result = check_stream(cut);
    result = result ? result : check_sets(cut);
    return result ? result : join_sets(cut, error);
}
