#include "workers/clip_generate/cut/cut_internal.h"

#include <string.h>

/* ---- groups of coded pictures ---------------------------------------------------------------- */

/* Frees the packets, keeps the memory of the list. */
static void clear(struct cv_cut_group *group)
{
    for (size_t i = 0; i < group->count; i++) {
        av_packet_free(&group->pictures[i].packet);
    }
    group->count = 0;
    group->bytes = 0;
}

void cv_cut_group_deinit(struct cv_cut_group *group)
{
    clear(group);
    free(group->pictures);
    *group = (struct cv_cut_group){0};
}

int cv_cut_group_push(struct cv_cut_group *group, AVPacket *packet, int64_t time_us,
                      struct cv_error *error)
{
    CV_TRY_MEMORY(CV_MAKE_ROOM(group->pictures, group->count), error, "coded pictures");
    AVPacket *kept = av_packet_alloc();
    CV_TRY_MEMORY(kept, error, "coded pictures");
    av_packet_move_ref(kept, packet);
    int64_t before_us = group->count > 0 ? group->pictures[group->count - 1].latest_us : INT64_MIN;
    group->pictures[group->count++] = (struct cv_cut_picture){
        .packet = kept,
        .time_us = time_us,
        .latest_us = time_us > before_us ? time_us : before_us,
        .hidden = (kept->flags & AV_PKT_FLAG_DISCARD) != 0,
    };
    group->bytes += kept->size;
    return 0;
}

size_t cv_cut_group_prefix(const struct cv_cut_group *group, int64_t end_us)
{
    int64_t dropped_us = INT64_MAX; /* the earliest time among the pictures that would be dropped */
    size_t kept = group->count;
    while (kept > 0 && (group->pictures[kept - 1].latest_us >= end_us ||
                        group->pictures[kept - 1].latest_us >= dropped_us)) {
        kept--;
        int64_t time_us = group->pictures[kept].time_us;
        dropped_us = time_us < dropped_us ? time_us : dropped_us;
    }
    return kept;
}

/* ---- processing a group ---------------------------------------------------------------------- */

enum { NOMINAL_US = 40 * 1000 }; /* duration of a picture if the source does not say */

int64_t cv_cut_step_us(const struct cv_cut_state *cut)
{
    double rate = cut->input->info.frame_rate;
    return rate > 0 ? (int64_t)(AV_TIME_BASE / rate) : NOMINAL_US;
}

/* ---- writing --------------------------------------------------------------------------------- */

static int open_clip(struct cv_cut_state *cut, int64_t first_us, struct cv_error *error)
{
    cut->first_us = first_us;
    int64_t step = av_rescale_q(cv_cut_step_us(cut), AV_TIME_BASE_Q, cut->encoding.clock);
    struct cv_cut_file_params params = {
        .path = cut->params->path,
        .source = cut->input->video,
        .sets = &cut->all,
        .sound = cut->sound ? cv_cut_sound_codec(cut->sound) : NULL,
        .clock = cut->encoding.clock,
        .depth = cut->depth,
        .step = step > 0 ? step : 1,
        .reason = cut->reason,
    };
    CV_TRY(cv_cut_file_open(&params, &cut->file, error));
    return params.sound ? cv_cut_sound_connect(cut->sound, cut->file, error) : 0;
}

/* Updates the clip's end for a picture of the range. */
static void extend_clip(struct cv_cut_state *cut, const struct cv_cut_picture *picture)
{
    if (picture->time_us > cut->last_us) {
        const AVStream *stream = cut->input->video;
        cut->last_us = picture->time_us;
        cut->last_duration_us =
            av_rescale_q(picture->packet->duration, stream->time_base, AV_TIME_BASE_Q);
    }
}

/* Copies the first `count` pictures of the group. */
static int copy_pictures(struct cv_cut_state *cut, size_t count, struct cv_error *error)
{
    cv_auto(cv_packet_queue_deinit) struct cv_packet_queue queue = {0};
    for (size_t i = 0; i < count; i++) {
        struct cv_cut_picture *picture = &cut->group.pictures[i];
        if (picture->hidden) {
            return cv_cut_refuse(cut->reason, "an edit list hides pictures of the range");
        }
        cv_auto(cv_av_packet_free) AVPacket *packet = av_packet_clone(picture->packet);
        CV_TRY_MEMORY(packet, error, "a coded picture");
        packet->pts = cv_cut_tick(&cut->encoding, packet->pts);
        CV_TRY(cv_h264_repack(&cut->sets, packet, error));
        CV_TRY(cv_packet_queue_push(&queue, packet, error));
        extend_clip(cut, picture);
    }
    cut->copied += (int64_t)count;
    if (count > 0) {
        av_frame_free(&cut->last);
    }
    return cv_cut_file_pictures(cut->file, &queue, error);
}

static int encode_pictures(struct cv_cut_state *cut, int64_t from_us, int64_t to_us,
                           struct cv_error *error)
{
    cv_auto(cv_cut_piece_deinit) struct cv_cut_piece piece = {0};
    CV_TRY(cv_cut_encode(&cut->encoding, &cut->all, &cut->group, from_us, to_us, &piece, error));
    for (size_t i = 0; i < cut->group.count; i++) {
        const struct cv_cut_picture *picture = &cut->group.pictures[i];
        if (!picture->hidden && picture->time_us >= from_us && picture->time_us < to_us) {
            extend_clip(cut, picture);
        }
    }
    if (cut->copied + cut->encoded == 0) {
        cut->first = cv_take(piece.first);
    }
    cut->encoded += (int64_t)piece.packets.count;
    av_frame_free(&cut->last);
    cut->last = cv_take(piece.last);
    return cv_cut_file_pictures(cut->file, &piece.packets, error);
}

/* ---- groups of pictures ---------------------------------------------------------------------- */

/* Checks that no picture of a group is shown before its key frame, or before the end of the
 * previous group. */
static int check_group(struct cv_cut_state *cut)
{
    const struct cv_cut_group *group = &cut->group;
    int64_t key_us = group->pictures[0].time_us;
    for (size_t i = 1; i < group->count; i++) {
        if (group->pictures[i].time_us <= key_us) {
            return cv_cut_refuse(cut->reason, "pictures show before the key frame they need");
        }
    }
    if (key_us <= cut->group_end_us) {
        return cv_cut_refuse(cut->reason, "pictures show after the next key frame");
    }
    cut->group_end_us = group->pictures[group->count - 1].latest_us;
    return 0;
}

/* When the first of the group's pictures in the clip is shown: the one that stands at the clip's
 * start, or the earliest if all are later. */
static int64_t first_shown_us(const struct cv_cut_state *cut)
{
    int64_t standing_us = INT64_MIN, earliest_us = INT64_MAX;
    for (size_t i = 0; i < cut->group.count; i++) {
        const struct cv_cut_picture *picture = &cut->group.pictures[i];
        int64_t time_us = picture->time_us;
        bool stands = !picture->hidden && time_us <= cut->params->start_us;
        standing_us = stands && time_us > standing_us ? time_us : standing_us;
        earliest_us = !picture->hidden && time_us < earliest_us ? time_us : earliest_us;
    }
    return standing_us == INT64_MIN ? earliest_us : standing_us;
}

static size_t count_inside(const struct cv_cut_state *cut, int64_t from_us)
{
    size_t count = 0;
    for (size_t i = 0; i < cut->group.count; i++) {
        const struct cv_cut_picture *picture = &cut->group.pictures[i];
        count += !picture->hidden && picture->time_us >= from_us &&
                 picture->time_us < cut->params->end_us;
    }
    return count;
}

/* Copies the pictures from the key frame on, and encodes those at the end of the clip that cannot
 * be copied. The clip's last picture must be the last in decoding order, too, because an MP4 stores
 * in that order how long each picture lasts. */
static int copy_group(struct cv_cut_state *cut, size_t inside, bool is_last, struct cv_error *error)
{
    const struct cv_cut_group *group = &cut->group;
    size_t kept = cv_cut_group_prefix(group, cut->params->end_us);
    const struct cv_cut_picture *end = kept > 0 ? &group->pictures[kept - 1] : NULL;
    if (is_last && kept == inside && end && end->time_us != end->latest_us) {
        kept = cv_cut_group_prefix(group, end->latest_us);
    }
    CV_TRY(copy_pictures(cut, kept, error));
    if (kept >= inside) {
        return 0;
    }
    int64_t from_us = kept > 0 ? group->pictures[kept - 1].latest_us + 1 : INT64_MIN;
    return encode_pictures(cut, from_us, cut->params->end_us, error);
}

int cv_cut_add_group(struct cv_cut_state *cut, int64_t next_us, struct cv_error *error)
{
    struct cv_cut_group *group = &cut->group;
    if (group->count == 0) {
        return 0;
    }
    int result = check_group(cut);
    int64_t from_us = first_shown_us(cut);
    size_t inside = next_us > cut->params->start_us ? count_inside(cut, from_us) : 0;
    if (result == 0 && inside > 0 && !cut->file) {
        result = open_clip(cut, from_us, error);
    }
    if (result == 0 && inside > 0 && from_us > group->pictures[0].time_us) {
        if (cut->beyond > 0) {
            return cv_cut_refuse(cut->reason, "no key frame starts within the range");
        }
        result = encode_pictures(cut, from_us, cut->params->end_us, error);
    } else if (result == 0 && inside > 0) {
        result = copy_group(cut, inside, next_us >= cut->params->end_us, error);
    }
    clear(group);
    cut->beyond = 0;
    return result;
}
