/* The lines of a video as they are kept, so that they can be read again without a frame: one object
 * "lines/{video_id}/{ms}.pack" for each job that read frames, named after its first one.
 *
 * Layout: "CVLINES1"; bytes of the index (32 bits, little endian); the index, JSON; then the pictures
 * in its order, PNG, each line's followed by those of its emoji. The index:
 *
 *   {"bank": "hexadecimal, see ocr_emoji_network_id",
 *    "pictures": [[bytes, width, height, tall, has_letters, [paper], [emoji…]]…],   (two at the end
 *                 are missing where the line has no emoji; an emoji: [text or null, score, x, y,
 *                 width, height, bytes of its patch or 0, x, y, width, height of the patch])
 *    "rows": [[picture, line, t_start, t_end, x, y, width, height, end_x, end_y, flags, clarity,
 *              why it is no text or null, [path]]…]}
 *
 * The last one is missing where the line did not move, see ocr_path_of.
 * A row is one stretch of time in which a line was seen, in the order and with the times and boxes of
 * detections; those are there, too, that the models of that time could not read. */
#pragma once

#include "workers/ocr/pictures/crop.h"

#include <jansson.h>

enum {
    OCR_ROWS_MAX = 200000, /* rows of one pack, and detections of one video */
    OCR_PACK_PICTURES_MAX = 400000,
    OCR_PACK_INDEX_MAX = 64 * 1024 * 1024,   /* of 200,000 rows with their pictures: 40 MB */
    OCR_PACK_PICTURE_MAX = 16 * 1024 * 1024, /* bytes of one PNG */
    OCR_PACK_AREA_MAX = CV_FRAME_AREA_MAX,   /* pixels of one line */
    OCR_PACK_PATH_MAX = 3 * 64,              /* numbers of one path */
    OCR_NO_PICTURE = -1,
};

/* The flags of a row in the index: its ink's kind above four bits, of which release 0.1.0 used the fourth for lines that
 * are low at the picture's edge. */
enum {
    OCR_KEPT_CUT = 1,
    OCR_KEPT_COMPANY = 2,
    OCR_KEPT_FAINT = 4,
    OCR_KEPT_KIND = 4, /* bits below it */
    OCR_KEPT_FLAGS_MAX = (CV_INK_DARK << OCR_KEPT_KIND) + 15,
};

/* What a row says besides its text; frame pixels × reduction, milliseconds. */
struct ocr_kept_row {
    int64_t picture, line, t_start, t_end;
    struct cv_box box;
    int end_x, end_y; /* where it was last seen whole */
    bool is_cut;      /* ends at an edge that may hide a part of it */
    bool is_faint, has_company;
    enum cv_ink_kind kind;
    double clarity;
    json_t *path; /* ocr_path_of, in frame pixels × reduction; borrowed; NULL: it did not move */
    const char *refusal; /* why it is no line of text; NULL: it is one, or the pack does not say */
};

/* ---- writing --------------------------------------------------------------------------------- */

struct ocr_pack;

/* Pictures wait in a file of `folder` until it is known which of them rows name. */
CV_MUST_CHECK int ocr_pack_new(const char *folder, uint64_t bank, struct ocr_pack **ret_pack,
                               struct cv_error *error);
void ocr_pack_free(struct ocr_pack *pack);
CV_DEFINE_CLEANUP(struct ocr_pack *, ocr_pack_free)

/* Adds a line's picture; its number is for rows. CV_ERROR_LIMIT_EXCEEDED beyond the limit. */
CV_MUST_CHECK int ocr_pack_picture(struct ocr_pack *pack, const struct ocr_crop *crop,
                                   int64_t *ret_number, struct cv_error *error);

CV_MUST_CHECK int ocr_pack_row(struct ocr_pack *pack, const struct ocr_kept_row *row,
                               struct cv_error *error);

/* Writes the pack to a new file: its rows and the pictures that they name. Once. */
CV_MUST_CHECK int ocr_pack_write(struct ocr_pack *pack, const char *path, struct cv_error *error);

/* Records in each of `detections` where in the object `key` its picture lies: "crop_pack", "crop_offset" and
 * "crop_bytes", of a PNG of its own, in place of the number under "picture". After ocr_pack_write. */
CV_MUST_CHECK int ocr_pack_place(const struct ocr_pack *pack, const char *key, json_t *detections,
                                 struct cv_error *error);

/* Where a detection's picture lies. */
CV_MUST_CHECK int ocr_detection_place(json_t *detection, const char *key, int64_t offset,
                                      int64_t bytes, struct cv_error *error);

/* ---- reading --------------------------------------------------------------------------------- */

/* Nothing in a pack is believed: CV_ERROR_DECODE says what is wrong with it. */
struct ocr_unpacking;

/* Borrows `source`. */
CV_MUST_CHECK int ocr_unpack_open(const struct cv_byte_source *source,
                                  struct ocr_unpacking **ret_unpacking, struct cv_error *error);
void ocr_unpack_close(struct ocr_unpacking *unpacking);
CV_DEFINE_CLEANUP(struct ocr_unpacking *, ocr_unpack_close)

size_t ocr_unpack_pictures(const struct ocr_unpacking *unpacking);
size_t ocr_unpack_rows(const struct ocr_unpacking *unpacking);

/* Which emoji the pictures were read with. */
uint64_t ocr_unpack_bank(const struct ocr_unpacking *unpacking);

/* The next picture, in order; emoji keep their texts, which are the unpacking's. Free the crop with
 * ocr_crop_deinit. */
CV_MUST_CHECK int ocr_unpack_picture(struct ocr_unpacking *unpacking, struct ocr_crop *ret_crop,
                                     struct cv_error *error);

/* Where the picture that ocr_unpack_picture gives next lies in the pack. */
void ocr_unpack_place(const struct ocr_unpacking *unpacking, int64_t *ret_offset,
                      int64_t *ret_bytes);

CV_MUST_CHECK int ocr_unpack_row(const struct ocr_unpacking *unpacking, size_t index,
                                 struct ocr_kept_row *ret_row, struct cv_error *error);
