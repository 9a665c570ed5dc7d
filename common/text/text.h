/* Text that was on screen: normal form and hash, entities, and merging detections into time ranges.
 * Pure functions over UTF-8; no database, no pictures.
 */
#pragma once

#include "common/base/base.h"

/* ---- normal form ----------------------------------------------------------------------------- */

/* Unicode NFKC, case folded, every run of white space one blank, none at the ends. `text` is any
 * bytes; what is not UTF-8 becomes U+FFFD. free() the result. */
CV_MUST_CHECK int cv_text_normalize(const char *text, char **ret_normalized,
                                    struct cv_error *error);

enum { CV_TEXT_HASH_SIZE = 65 };

/* SHA-256 of a normalized text, lower-case hex. */
CV_MUST_CHECK int cv_text_hash(const char *normalized, char ret_hash[CV_TEXT_HASH_SIZE],
                               struct cv_error *error);

/* ---- entities -------------------------------------------------------------------------------- */

struct cv_entity {
    const char *type;       /* "mention", "hashtag", "url", "emoji", "number": static */
    char *value;            /* as it stands in the text */
    char *normalized_value; /* folded; numbers as plain decimals with their unit or currency */
};

struct cv_entity_list {
    struct cv_entity *entities;
    size_t count;
};

void cv_entity_list_deinit(struct cv_entity_list *list);
CV_DEFINE_CLEANUP_ADDRESS(struct cv_entity_list, cv_entity_list_deinit)

/* Compiled patterns (PCRE2, JIT, Unicode). Make one per process. */
struct cv_entity_extractor;
CV_MUST_CHECK int cv_entity_extractor_new(struct cv_entity_extractor **ret_extractor,
                                          struct cv_error *error);
void cv_entity_extractor_free(struct cv_entity_extractor *extractor);
CV_DEFINE_CLEANUP(struct cv_entity_extractor *, cv_entity_extractor_free)

/* Entities in the order in which they stand in the text; the list is initialised here. */
CV_MUST_CHECK int cv_entity_extract(struct cv_entity_extractor *extractor, const char *text,
                                    struct cv_entity_list *ret_list, struct cv_error *error);

/* ---- merge ----------------------------------------------------------------------------------- */

struct cv_box {
    int x, y, width, height; /* pixels of the upright original frame */
};

/* One detection, and after merging one segment. Texts are borrowed by the merge. */
struct cv_detection {
    const char *text;
    const char *normalized;
    double confidence; /* 0..1 */
    int64_t t_start_ms;
    int64_t t_end_ms; /* exclusive */
    struct cv_box box;
    const char *language;
    int64_t source; /* the caller's own mark; the merged segment keeps its best detection's */
};
