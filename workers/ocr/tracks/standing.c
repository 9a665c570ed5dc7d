#include "workers/ocr/tracks/standing.h"

#include <string.h>

enum {
    RING = 2 * OCR_STANDING_REACH + 1,
    GAP_MS = 250,   /* between frames of a film that is sampled densely, because it has strokes */
    FRAMES_MIN = 5, /* side by side; of fewer nothing is learned */
    /* Frames of a window at the first and the last frame of a run: so many are kept within half a second behind a change
     * of a film. With 5 one of 18 drawn films took 2.5 times the CPU time, with 7 two lines ended 1.6 s late. */
    WINDOW_MIN = 6,
    CHANGED = 20,     /* levels; codec noise stays below */
    SPARSE = 4,       /* one pixel in so many of each direction is compared */
    CELLS = 8,        /* of a picture, in each direction */
    MOVING_CELL = 50, /* one pixel in so many changes where something moves */
    FADE = 12,        /* levels by which a pixel has to be darkened at least */
    MOVING_PAIRS = 4, /* of so many pairs of frames all but one moved */
    /* Bytes of the frames that wait, and of the levels of those around them: 8 frames of 1920x1080 each way. */
    BYTES_MAX = 112 * 1000 * 1000,
    BYTES_A_PIXEL = CV_PLANES + 2,
};

/* Share of the cells in which a film moves: one with subtitles 0.5 to 0.7; of pages that stand at most 0.28. */
static const double MOVED_MIN = 0.30;

static struct ocr_standing_frame *held(const struct ocr_standing_frames *frames, size_t index)
{
    return (struct ocr_standing_frame *)&frames->held[index % RING];
}

static void drop(struct ocr_standing_frame *one)
{
    cv_frame_deinit(&one->frame);
    free(one->luma);
    *one = (struct ocr_standing_frame){0};
}

void ocr_standing_deinit(struct ocr_standing_frames *frames)
{
    for (size_t i = 0; i < RING; i++) {
        drop(&frames->held[i]);
    }
}

/* Whether a frame follows the one before it as in a film: soon, and nothing scrolled. */
static bool follows(const struct ocr_standing_frames *frames, size_t index)
{
    const struct ocr_timing *timings = frames->timings;

    return index > 0 && index < frames->timing_count &&
           timings[index].t_start - timings[index - 1].t_start <= GAP_MS &&
           timings[index].shift_known && !timings[index].dx && !timings[index].dy;
}

/* The frames around one that follow each other: [first, last]. */
static void find_run(const struct ocr_standing_frames *frames, size_t index, size_t *ret_first,
                     size_t *ret_last)
{
    size_t first = index, last = index;

    while (index - first < OCR_STANDING_REACH && follows(frames, first)) {
        first--;
    }
    while (last - index < OCR_STANDING_REACH && follows(frames, last + 1)) {
        last++;
    }
    *ret_first = first;
    *ret_last = last;
}

static bool is_dense(size_t first, size_t last)
{
    return last - first + 1 >= FRAMES_MIN;
}

/* Share of the cells of a picture in which something moves: of a film most do, of a page with a spinner or a small
 * animation a few. */
static double share_moved(const uint8_t *before, const uint8_t *now, int width, int height)
{
    int changed[CELLS * CELLS] = {0}, looked[CELLS * CELLS] = {0}, moving = 0;

    for (int y = SPARSE / 2; y < height; y += SPARSE) {
        for (int x = SPARSE / 2; x < width; x += SPARSE) {
            size_t at = (size_t)y * (size_t)width + (size_t)x;
            int cell = y * CELLS / height * CELLS + x * CELLS / width;
            changed[cell] += abs(now[at] - before[at]) > CHANGED;
            looked[cell]++;
        }
    }
    for (int i = 0; i < CELLS * CELLS; i++) {
        moving += looked[i] && changed[i] * MOVING_CELL >= looked[i];
    }
    return (double)moving / (CELLS * CELLS);
}

int ocr_standing_add(struct ocr_standing_frames *frames, struct cv_frame *frame,
                     struct cv_error *error)
{
    size_t index = frames->received, first, last;
    struct ocr_standing_frame *one = held(frames, index);
    size_t area = (size_t)frame->width * (size_t)frame->height;

    drop(one);
    find_run(frames, index, &first, &last);
    if (is_dense(first, last) && area * BYTES_A_PIXEL * OCR_STANDING_REACH <= BYTES_MAX) {
        one->luma = malloc(area);
        CV_TRY_MEMORY(one->luma, error, "the levels of a frame");
        memcpy(one->luma, frame->plane[CV_LUMA], area);
        const struct ocr_standing_frame *before = index ? held(frames, index - 1) : NULL;
        if (before && before->luma && before->frame.width == frame->width &&
            before->frame.height == frame->height) {
            one->moved = share_moved(before->luma, one->luma, frame->width, frame->height);
        }
    }
    one->frame = *frame;
    *frame = (struct cv_frame){0};
    frames->received++;
    return 0;
}

bool ocr_standing_ready(const struct ocr_standing_frames *frames)
{
    size_t first, last;

    if (frames->taken == frames->received) {
        return false;
    }
    find_run(frames, frames->taken, &first, &last);
    return frames->received == frames->timing_count || !is_dense(first, last) ||
           last < frames->received || !held(frames, frames->taken)->luma;
}

/* Narrows a run to frames of one size whose levels are held. */
static void narrow(const struct ocr_standing_frames *frames, size_t index, size_t *first,
                   size_t *last)
{
    const struct cv_frame *here = &held(frames, index)->frame;

    for (size_t i = index; i-- > *first;) {
        const struct ocr_standing_frame *other = held(frames, i);
        if (!other->luma || other->frame.width != here->width ||
            other->frame.height != here->height) {
            *first = i + 1;
        }
    }
    for (size_t i = index + 1; i <= *last; i++) {
        const struct ocr_standing_frame *other = held(frames, i);
        if (i >= frames->received || !other->luma || other->frame.width != here->width ||
            other->frame.height != here->height) {
            *last = i - 1;
        }
    }
}

static bool is_film(const struct ocr_standing_frames *frames, size_t first, size_t last)
{
    size_t still = 0;

    for (size_t i = first + 1; i <= last; i++) {
        still += held(frames, i)->moved < MOVED_MIN;
    }
    return last - first >= OCR_STANDING_REACH && still * MOVING_PAIRS <= last - first;
}

/* Where a window of frames that includes `index` and ends with `end` begins. It has OCR_STANDING_REACH + 1 frames; at the
 * first and the last frame of a run fewer, or what stood before would be seen in frames from which it is gone. -1: such a
 * window would be too short. */
static int window_begin(int count, int index, int end)
{
    int begin = end == count - 1 ? cv_min(index, count - WINDOW_MIN) : end - OCR_STANDING_REACH;

    return begin < 0 && end + 1 >= WINDOW_MIN ? 0 : begin;
}

/* One row: at each pixel the lightest of what is darkest in the frames of each window that includes `index`. */
static void open_row(const uint8_t *const rows[RING], int count, int index, int width,
                     uint8_t *before, uint8_t *behind, uint8_t *ret_row)
{
    int least = cv_max(index - OCR_STANDING_REACH, 0);

    /* before: for each frame up to this one, what is darkest from there on; one row each */
    memcpy(before + (size_t)index * (size_t)width, rows[index], (size_t)width);
    for (int i = index - 1; i >= least; i--) {
        uint8_t *to = before + (size_t)i * (size_t)width;
        const uint8_t *from = to + width;
        for (int x = 0; x < width; x++) {
            to[x] = rows[i][x] < from[x] ? rows[i][x] : from[x];
        }
    }
    memcpy(behind, rows[index], (size_t)width);
    memset(ret_row, 0, (size_t)width);
    for (int end = index; end < count; end++) {
        int begin = window_begin(count, index, end);
        const uint8_t *earlier = before + (size_t)cv_max(begin, 0) * (size_t)width;
        for (int x = 0; x < width; x++) {
            behind[x] = rows[end][x] < behind[x] ? rows[end][x] : behind[x];
        }
        for (int x = 0; x < width && begin >= 0; x++) {
            uint8_t darkest = earlier[x] < behind[x] ? earlier[x] : behind[x];
            ret_row[x] = darkest > ret_row[x] ? darkest : ret_row[x];
        }
    }
}

/* Darkens the pixels of a row to the levels of `to`, in their colours. */
static void darken(struct cv_frame *frame, int y, const uint8_t *to)
{
    size_t row = (size_t)y * (size_t)frame->width;

    for (int x = 0; x < frame->width; x++) {
        int level = frame->plane[CV_LUMA][row + (size_t)x];
        if (level - to[x] < FADE) {
            continue;
        }
        for (int plane = 0; plane < CV_PLANES; plane++) {
            uint8_t *pixel = &frame->plane[plane][row + (size_t)x];
            *pixel = (uint8_t)(*pixel * to[x] / level);
        }
    }
}

static int open_frame(const struct ocr_standing_frames *frames, size_t index, size_t first,
                      size_t last, struct cv_frame *frame, struct cv_error *error)
{
    size_t width = (size_t)frame->width;
    cv_auto_free uint8_t *memory = malloc(width * (RING + 2));
    const uint8_t *rows[RING];

    CV_TRY_MEMORY(memory, error, "what stands in a film");
    for (int y = 0; y < frame->height; y++) {
        for (size_t i = first; i <= last; i++) {
            rows[i - first] = held(frames, i)->luma + (size_t)y * width;
        }
        uint8_t *behind = memory + width * RING, *opened = behind + width;
        open_row(rows, (int)(last - first) + 1, (int)(index - first), frame->width, memory, behind,
                 opened);
        darken(frame, y, opened);
    }
    return 0;
}

int ocr_standing_take(struct ocr_standing_frames *frames, struct cv_frame *ret_frame,
                      bool *ret_is_film, struct cv_error *error)
{
    size_t index = frames->taken++, first, last;
    struct ocr_standing_frame *one = held(frames, index);

    *ret_is_film = false;
    *ret_frame = one->frame;
    memset(one->frame.plane, 0, sizeof(one->frame.plane)); /* its size stays */
    find_run(frames, index, &first, &last);
    if (!one->luma) {
        return 0;
    }
    narrow(frames, index, &first, &last);
    if (is_film(frames, first, last)) {
        *ret_is_film = true;
        return open_frame(frames, index, first, last, ret_frame, error);
    }
    return 0;
}
