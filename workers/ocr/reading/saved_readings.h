/* Keeps readings when a worker is stopped: each reading is stored under a hash of its inputs
 * (pixels, settings, models), in an object beside the frames while the job is open, and the next
 * attempt does not repeat it. The rows are the same as without them. */
#pragma once

#include "common/store/store.h"

#include "workers/ocr/reading/engine.h"

struct ocr_saved_readings;

enum {
    /* A worker that is killed loses the readings of this time; one that is stopped loses none. */
    OCR_READINGS_SAVE_MS = 15 * 1000,
};

/* Loads the readings of an earlier attempt at the same payload. `store` is borrowed;
 * `payload_text` identifies the payload. Never fails because of what it finds there. */
CV_MUST_CHECK int ocr_saved_readings_open(struct cv_store *store, const char *video_id,
                                          const char *payload_text,
                                          struct ocr_saved_readings **ret_saved,
                                          struct cv_error *error);
void ocr_saved_readings_free(struct ocr_saved_readings *saved);
CV_DEFINE_CLEANUP(struct ocr_saved_readings *, ocr_saved_readings_free)

/* The name of a reading: 32 bytes. */
enum { OCR_READING_NAME_SIZE = 32 };

/* Whether a reading of that name is known; then *ret_reading is a copy of it, which the caller
 * owns. */
CV_MUST_CHECK int ocr_saved_readings_find(struct ocr_saved_readings *saved,
                                          const uint8_t name[OCR_READING_NAME_SIZE],
                                          bool *ret_found, struct ocr_reading *ret_reading,
                                          struct cv_error *error);

/* Stores a reading, if there is room. From time to time writes the object, on the calling thread.
 */
void ocr_saved_readings_add(struct ocr_saved_readings *saved,
                            const uint8_t name[OCR_READING_NAME_SIZE],
                            const struct ocr_reading *reading);

/* Ends an attempt: removes the object if the job is done, otherwise updates it for the next
 * attempt. */
void ocr_saved_readings_end(struct ocr_saved_readings *saved, bool is_done);
