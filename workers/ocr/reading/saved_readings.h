/* Keeps readings when a worker is stopped: each reading is stored under a hash of its inputs
 * (pixels, settings, models), in an object beside the frames while the job is open, and the next
 * attempt does not repeat it. The rows are the same as without this memory. */
#pragma once

#include "common/store/store.h"

#include "workers/ocr/reading/engine.h"

struct ocr_memory;

enum {
    /* A worker that is killed loses the readings of this time; one that is stopped loses none. */
    OCR_MEMORY_SAVE_MS = 15 * 1000,
};

/* Loads the readings of an earlier attempt at the same payload. `store` is borrowed;
 * `payload_text` identifies the payload. Never fails because of what it finds there. */
CV_MUST_CHECK int ocr_memory_open(struct cv_store *store, const char *video_id,
                                  const char *payload_text, struct ocr_memory **ret_memory,
                                  struct cv_error *error);
void ocr_memory_free(struct ocr_memory *memory);
CV_DEFINE_CLEANUP(struct ocr_memory *, ocr_memory_free)

/* The name of a reading: 32 bytes. */
enum { OCR_MEMORY_NAME_SIZE = 32 };

/* Whether a reading of that name is known; then *ret_reading is a copy of it, which the caller
 * owns. */
CV_MUST_CHECK int ocr_memory_find(struct ocr_memory *memory,
                                  const uint8_t name[OCR_MEMORY_NAME_SIZE], bool *ret_found,
                                  struct ocr_reading *ret_reading, struct cv_error *error);

/* Stores a reading, if there is room. From time to time writes the object, on the calling thread.
 */
void ocr_memory_add(struct ocr_memory *memory, const uint8_t name[OCR_MEMORY_NAME_SIZE],
                    const struct ocr_reading *reading);

/* Ends an attempt: removes the object if the job is done, otherwise updates it for the next
 * attempt. */
void ocr_memory_end(struct ocr_memory *memory, bool is_done);
