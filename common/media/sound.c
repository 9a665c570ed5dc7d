#include "common/media/sound.h"

#include "common/media/libav.h"

#include <libavutil/channel_layout.h>
#include <libavutil/opt.h>
#include <libswresample/swresample.h>
#include <stdlib.h>

enum {
    JITTER_US = 40 * 1000, /* smaller deviations of time stamps are ignored as jitter */
    SILENCE_CHUNK = 8192,  /* samples written at a time */
};

struct cv_sound_line {
    struct cv_sound_line_params params;
    SwrContext *resampler; /* NULL until the first sound, and after a change of format */
    uint8_t *scratch[CV_SOUND_LINE_CHANNELS_MAX];
    int scratch_samples;
    int64_t position;      /* samples written so far, silence included */
    int64_t skip;          /* samples still to be dropped */
    int64_t input_us;      /* when the continuous sound in the resampler started … */
    int64_t input_samples; /* … and how many of its samples have been sent */
    int rate, format;
    AVChannelLayout layout;
    bool is_muted; /* sound of this format cannot be resampled */
};

int cv_sound_line_new(const struct cv_sound_line_params *params, struct cv_sound_line **ret_line,
                      struct cv_error *error)
{
    struct cv_sound_line *line = calloc(1, sizeof(*line));
    CV_TRY_MEMORY(line, error, "sound");
    line->params = *params;
    *ret_line = line;
    return 0;
}

void cv_sound_line_free(struct cv_sound_line *line)
{
    if (line) {
        swr_free(&line->resampler);
        av_freep(&line->scratch[0]);
        av_channel_layout_uninit(&line->layout);
        free(line);
    }
}

static int64_t to_samples(const struct cv_sound_line *line, int64_t time_us)
{
    return av_rescale(time_us - line->params.origin_us, line->params.rate, AV_TIME_BASE);
}

int64_t cv_sound_line_samples(const struct cv_sound_line *line)
{
    return line->position;
}

int64_t cv_sound_line_end_us(const struct cv_sound_line *line)
{
    return line->params.origin_us + av_rescale(line->position, AV_TIME_BASE, line->params.rate);
}

/* ---- input ----------------------------------------------------------------------------------- */

static int reserve(struct cv_sound_line *line, int samples, struct cv_error *error)
{
    if (samples <= line->scratch_samples) {
        return 0;
    }
    av_freep(&line->scratch[0]);
    line->scratch_samples = 0;
    CV_TRY_MEMORY(av_samples_alloc(line->scratch, NULL, line->params.channels, samples,
                                   line->params.format, 0) >= 0,
                  error, "sound");
    line->scratch_samples = samples;
    return 0;
}

/* Appends the first `samples` of the scratch buffers to the sound written so far. */
static int append(struct cv_sound_line *line, int samples, struct cv_error *error)
{
    const struct cv_sound_line_params *params = &line->params;
    bool is_planar = av_sample_fmt_is_planar(params->format);
    int bytes = av_get_bytes_per_sample(params->format) * (is_planar ? 1 : params->channels);
    int64_t skipped = line->skip < samples ? line->skip : samples;
    line->skip -= skipped;
    uint8_t *planes[CV_SOUND_LINE_CHANNELS_MAX] = {NULL};
    for (int i = 0; i < (is_planar ? params->channels : 1); i++) {
        planes[i] = line->scratch[i] + skipped * bytes;
    }
    int count = samples - (int)skipped;
    if (line->position + count > INT64_C(3600) * params->rate * CV_MEDIA_HOURS_MAX) {
        return cv_fail(error, CV_ERROR_LIMIT_EXCEEDED, "the sound goes on for more than %d hours",
                       CV_MEDIA_HOURS_MAX);
    }
    CV_TRY(count > 0 ? params->write(params->opaque, planes, count, error) : 0);
    line->position += count;
    return 0;
}

static int append_silence(struct cv_sound_line *line, int64_t samples, struct cv_error *error)
{
    CV_TRY(reserve(line, SILENCE_CHUNK, error));
    int64_t undrained = 0;
    while (samples > 0) {
        int count = samples < SILENCE_CHUNK ? (int)samples : SILENCE_CHUNK;
        (void)av_samples_set_silence(line->scratch, 0, count, line->params.channels,
                                     line->params.format);
        CV_TRY(append(line, count, error));
        samples -= count;
        undrained += count;
        if (undrained >= line->params.rate) {
            undrained = 0;
            CV_TRY(cv_cancel_level(line->params.cancel) >= CV_CANCEL_ABORT
                       ? cv_fail(error, CV_ERROR_CANCELED, "stopped while filling up with silence")
                   : line->params.drain ? line->params.drain(line->params.opaque, error)
                                        : 0);
        }
    }
    return 0;
}

/* Resamples `samples`; NULL: takes out what the resampler still holds. */
static int resample(struct cv_sound_line *line, const AVFrame *samples, struct cv_error *error)
{
    int count = swr_get_out_samples(line->resampler, samples ? samples->nb_samples : 0);
    CV_TRY(count < 0 ? 0 : reserve(line, count + 1, error));
    count = swr_convert(line->resampler, line->scratch, line->scratch_samples,
                        samples ? (const uint8_t **)samples->extended_data : NULL,
                        samples ? samples->nb_samples : 0);
    if (count < 0) {
        return cv_fail_av(error, count, CV_ERROR_DECODE, "cannot resample the sound");
    }
    return append(line, count, error);
}

static int drain_resampler(struct cv_sound_line *line, struct cv_error *error)
{
    int result = line->resampler ? resample(line, NULL, error) : 0;
    swr_free(&line->resampler);
    return result;
}

/* Creates a resampler for sound of `layout`. `first_two`: only the first two channels are used. */
static int try_resampler(struct cv_sound_line *line, const AVFrame *samples,
                         AVChannelLayout *layout, bool first_two)
{
    enum { USED = 2 };
    static const int map[USED] = {0, 1};
    AVChannelLayout used = {0}, target = {0};
    swr_free(&line->resampler);
    av_channel_layout_default(&target, line->params.channels);
    int result =
        swr_alloc_set_opts2(&line->resampler, &target, line->params.format, line->params.rate,
                            layout, samples->format, samples->sample_rate, 0, NULL);
    if (result >= 0 && first_two) {
        av_channel_layout_default(&used, layout->nb_channels < USED ? 1 : USED);
        result = av_opt_set_chlayout(line->resampler, "used_chlayout", &used, 0);
        result = result < 0 ? result : swr_set_channel_mapping(line->resampler, map);
    }
    return result < 0 ? result : swr_init(line->resampler);
}

/* Opens the resampler. Sound that cannot be resampled becomes silence, because the pictures are
 * still useful. */
static int open_resampler(struct cv_sound_line *line, const AVFrame *samples,
                          struct cv_error *error)
{
    AVChannelLayout layout = {0};
    int result = 0;
    if (samples->ch_layout.order == AV_CHANNEL_ORDER_UNSPEC) {
        av_channel_layout_default(&layout, samples->ch_layout.nb_channels);
    } else {
        result = av_channel_layout_copy(&layout, &samples->ch_layout);
    }
    if (result >= 0) {
        result = try_resampler(line, samples, &layout, false);
        result = result < 0 ? try_resampler(line, samples, &layout, true) : result;
        line->is_muted = result < 0 && result != AVERROR(ENOMEM);
    }
    av_channel_layout_uninit(&layout);
    av_channel_layout_uninit(&line->layout);
    if (line->is_muted) {
        swr_free(&line->resampler);
        cv_log(CV_LOG_WARN, "sound with %d channels at %d Hz cannot be resampled and is left out",
               samples->ch_layout.nb_channels, samples->sample_rate);
        result = 0;
    }
    result = result < 0 ? result : av_channel_layout_copy(&line->layout, &samples->ch_layout);
    if (result < 0) {
        return cv_fail_av(error, result, CV_ERROR_DECODE, "cannot resample the sound");
    }
    line->rate = samples->sample_rate;
    line->format = samples->format;
    return 0;
}

static int64_t input_end_us(const struct cv_sound_line *line)
{
    return line->input_us + av_rescale(line->input_samples, AV_TIME_BASE, line->rate);
}

static bool is_same_kind(const struct cv_sound_line *line, const AVFrame *samples)
{
    return (line->resampler || line->is_muted) && samples->sample_rate == line->rate &&
           samples->format == line->format &&
           av_channel_layout_compare(&samples->ch_layout, &line->layout) == 0;
}

static bool follows(const struct cv_sound_line *line, const AVFrame *samples, int64_t pts_us)
{
    return is_same_kind(line, samples) && llabs(pts_us - input_end_us(line)) < JITTER_US;
}

int cv_sound_line_write(struct cv_sound_line *line, const struct cv_sound *sound,
                        struct cv_error *error)
{
    const AVFrame *samples = sound->samples;
    int64_t pts_us = sound->pts_us;
    if (line->is_muted && is_same_kind(line, samples)) {
        return 0;
    }
    line->is_muted = false;
    if (pts_us == AV_NOPTS_VALUE) {
        pts_us = line->resampler ? input_end_us(line) : cv_sound_line_end_us(line);
    }
    int result = 0;
    if (!follows(line, samples, pts_us)) {
        result = drain_resampler(line, error);
        int64_t target = to_samples(line, pts_us);
        if (result == 0 && target > line->position) {
            line->skip = 0;
            result = append_silence(line, target - line->position, error);
        }
        line->skip = line->position - target;
        result = result ? result : open_resampler(line, samples, error);
        line->input_us = pts_us;
        line->input_samples = 0;
    }
    if (result != 0 || line->is_muted) {
        return result;
    }
    line->input_samples += samples->nb_samples;
    return resample(line, samples, error);
}

int cv_sound_line_pad(struct cv_sound_line *line, int64_t time_us, struct cv_error *error)
{
    int64_t target = to_samples(line, time_us);
    if (target <= line->position) {
        return 0;
    }
    CV_TRY(drain_resampler(line, error));
    if (target <= line->position) {
        return 0;
    }
    line->skip = 0;
    return append_silence(line, target - line->position, error);
}

int cv_sound_line_finish(struct cv_sound_line *line, int64_t time_us, struct cv_error *error)
{
    CV_TRY(drain_resampler(line, error));
    return cv_sound_line_pad(line, time_us, error);
}
