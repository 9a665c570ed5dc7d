/* What has been read survives a worker that is told to go: each reading is remembered under what it
 * was made of (the pixels, the settings, the models), kept in an object beside the frames while the
 * job is under way, and not made again by the attempt that goes on. The rows are the same as without. */
#pragma once

#include "common/store/store.h"

#include "workers/ocr/engine.h"

struct ocr_memory;

enum {
    /* What is lost with a worker that dies at once; one that is told to go loses nothing. */
    OCR_MEMORY_SAVE_MS = 15 * 1000,
};

/* Takes up what an earlier attempt at the same payload left. `store` is borrowed; `payload_text`
 * tells attempts at one payload from others. Never fails for what it finds there. */
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

/* Notes a reading; what finds no room is not noted. Writes the object now and then, on the thread that
 * calls. */
void ocr_memory_add(struct ocr_memory *memory, const uint8_t name[OCR_MEMORY_NAME_SIZE],
                    const struct ocr_reading *reading);

/* The end of an attempt: the object goes when the job is done, else it is brought up to date for the
 * next one. */
void ocr_memory_end(struct ocr_memory *memory, bool is_done);
