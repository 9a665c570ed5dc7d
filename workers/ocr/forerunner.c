/* A line that is found anew was often there before: blurred until the codec refined it, joined with what is
 * beside it, or cut by a pointer. Its own picture, laid over the frame before, tells. */
#include "workers/ocr/kin.h"
#include "workers/ocr/session_internal.h"

#include <string.h>

/* Share of a line's box that another one covers where both are the same line. */
static const double SAME_LINE = 0.70;

/* Below it a reading may be wrong in a digit. */
static const double SURE = 0.90;

/* Whether most of `part` lies in `whole`. */
static bool lies_in(const struct ocr_box *part, const struct ocr_box *whole)
{
    int64_t area = (int64_t)part->width * part->height;
    return (double)ocr_box_overlap(part, whole) >= SAME_LINE * (double)area;
}

/* A line that was on screen until now and of which nothing is left: the one that covers most of `place`. */
static struct ocr_track *find_left(const struct ocr_session *session, const struct ocr_box *place)
{
    struct ocr_track *found = NULL;
    int64_t most = 0;

    for (size_t i = 0; i < session->tracks.count; i++) {
        struct ocr_track *track = session->tracks.items[i];
        int64_t overlap = ocr_box_overlap(&track->box, place);
        if (track->present && !track->matched && track->open && overlap > most &&
            lies_in(place, &track->box)) {
            most = overlap;
            found = track;
        }
    }
    return found;
}

/* Two sure readings of one place whose numbers differ are two texts, however alike their pictures. */
static bool is_another_text(const struct ocr_track *known, const struct ocr_track *fresh)
{
    return known->is_read && known->reading.confidence >= SURE &&
           fresh->reading.confidence >= SURE &&
           ocr_digits_differ(known->reading.text, fresh->reading.text);
}

int ocr_find_forerunner(const struct ocr_session *session, const struct ocr_track *fresh,
                        struct ocr_forerunner *ret_forerunner, struct cv_error *error)
{
    const struct ocr_frame *before = &session->before;
    enum ocr_likeness likeness = OCR_LIKENESS_NONE;
    struct ocr_box place = fresh->box;

    *ret_forerunner = (struct ocr_forerunner){.known = NULL};
    if (!before->plane[0] || before->width != session->screen.width ||
        before->height != session->screen.height || !session->index) {
        return 0;
    }
    struct ocr_jump ways[2 + OCR_JUMPS_MAX] = {{0, 0}, {session->shift.dx, session->shift.dy}};
    memcpy(ways + 2, session->jumps, sizeof(session->jumps));
    for (int i = 0; i < 2 + session->jump_count && likeness == OCR_LIKENESS_NONE; i++) {
        if (i > 0 && !ways[i].dx && !ways[i].dy) {
            continue;
        }
        place.x = fresh->box.x - ways[i].dx;
        place.y = fresh->box.y - ways[i].dy;
        CV_TRY(ocr_match_likeness(&fresh->crop, before, place.x, place.y, &likeness, error));
    }
    if (likeness == OCR_LIKENESS_NONE) {
        return 0;
    }
    struct ocr_track *known = find_left(session, &place);
    if (known && likeness != OCR_LIKENESS_BLURRED && is_another_text(known, fresh)) {
        return 0;
    }
    *ret_forerunner = (struct ocr_forerunner){
        .known = known,
        .is_whole = known && lies_in(&known->box, &place),
        .was_there = true,
        .x = place.x,
        .y = place.y,
    };
    return 0;
}
