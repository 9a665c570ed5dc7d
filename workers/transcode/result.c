#include "workers/transcode/transcode.h"

#include <math.h>

static json_t *rendition_to_json(const struct cv_rendition_summary *rendition)
{
    return json_pack("{s:s, s:i, s:i, s:I, s:i, s:I, s:I, s:s, s:b}", "name", rendition->name,
                     "width", rendition->width, "height", rendition->height, "frames",
                     (json_int_t)rendition->frames, "segments", rendition->segments, "bandwidth",
                     (json_int_t)rendition->bandwidth, "average_bandwidth",
                     (json_int_t)rendition->average_bandwidth, "codec", rendition->codec, "copied",
                     rendition->copied);
}

static json_t *renditions_to_json(const struct cv_ladder_summary *summary)
{
    json_t *list = json_array();
    for (size_t i = 0; list && i < summary->count; i++) {
        if (json_array_append_new(list, rendition_to_json(&summary->renditions[i])) != 0) {
            json_decref(list);
            list = NULL;
        }
    }
    return list;
}

int transcode_result(const struct transcode_report *report, const char *video_id,
                     json_t **ret_result, struct cv_error *error)
{
    cv_auto_free char *playlist = NULL;
    cv_auto_free char *poster = NULL;
    CV_TRY(transcode_playlist_key(video_id, &playlist, error));
    CV_TRY(transcode_poster_key(video_id, &poster, error));
    const struct cv_media_info *info = &report->info;
    const struct cv_ladder_summary *summary = &report->summary;
    char resolution[32];
    int width, height;
    cv_shown_size(info, &width, &height);
    (void)snprintf(resolution, sizeof(resolution), "%dx%d", width, height);
    bool sound = info->audio_codec[0] != '\0';
    json_t *object = json_pack(
        "{s:s, s:s, s:s, s:f, s:f, s:s, s:s, s:s, s:i, s:b, s:b, s:b, s:b, s:s?, s:o, s:o, s:i,"
        " s:I, s:I, s:b, s:i, s:o, s:s, s:s*}",
        "s3_proxy_path", playlist, "s3_thumb_path", poster, "resolution", resolution, "fps",
        report->frame_rate, "duration", round((double)summary->duration_us / 1e3) / 1e3,
        "container", info->container, "video_codec", info->video_codec, "pixel_format",
        info->pixel_format, "rotation", info->rotation, "mirrored", info->mirrored,
        "variable_frame_rate", report->variable_frame_rate, "high_dynamic_range",
        info->high_dynamic_range, "interlaced", info->interlaced, "audio_codec",
        sound ? info->audio_codec : NULL, "audio_channels",
        sound ? json_integer(info->audio_channels) : json_null(), "audio_sample_rate",
        sound ? json_integer(info->audio_sample_rate) : json_null(), "audio_streams",
        info->audio_streams, "frames", (json_int_t)report->source_frames, "damaged_frames",
        (json_int_t)report->damaged_frames, "truncated", report->truncated, "sprite_tiles",
        summary->sprite_tiles, "renditions", renditions_to_json(summary), "content",
        report->is_screen ? "screen" : "any", "encoded_because",
        report->encoded_because[0] ? report->encoded_because : NULL);
    CV_TRY_MEMORY(object, error, "the result");
    *ret_result = object;
    return 0;
}
