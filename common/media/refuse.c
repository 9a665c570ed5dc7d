#include "common/media/refuse.h"

#include "common/media/boxes.h"
#include "common/recognise/recognise.h"

#include <string.h>

/* Whether a track below `from` has a sample entry for encrypted pictures. */
static int find_encrypted(const struct cv_byte_source *source, int64_t from, int64_t end,
                          const char *const *path, bool *ret_found, struct cv_error *error)
{
    struct cv_mp4_box box;
    int result = 0;
    for (int i = 0; i < CV_BOXES_MAX && result == 0 && !*ret_found; i++, from = box.end) {
        result = cv_read_box(source, from, end, &box, error);
        if (result != 0 || strcmp(box.type, path[0]) != 0) {
            continue;
        }
        /* stsd has a version and a number before its entries. */
        int64_t content = box.content + (strcmp(box.type, "stsd") == 0 ? 8 : 0);
        *ret_found = !path[1];
        result = path[1] ? find_encrypted(source, content, box.end, path + 1, ret_found, error) : 0;
    }
    return result < 0 ? result : 0;
}

/* What the boxes of an MP4 say that it lacks. */
static int refuse_boxes(const struct cv_byte_source *source, struct cv_error *error)
{
    static const char *const entry[] = {"trak", "mdia", "minf", "stbl", "stsd", "encv", NULL};
    struct cv_mp4_box box, index = {.end = 0};
    bool has_fragment = false, has_media = false, is_encrypted = false;
    int result = 0;
    for (int64_t at = 0, i = 0; i < CV_BOXES_MAX && result == 0; i++, at = box.end) {
        result = cv_read_box(source, at, source->size, &box, error);
        if (result != 0) {
            break;
        }
        has_fragment = has_fragment || strcmp(box.type, "moof") == 0;
        has_media = has_media || strcmp(box.type, "mdat") == 0;
        index = strcmp(box.type, "moov") == 0 ? box : index;
    }
    CV_TRY(result < 0 ? result : 0);
    CV_TRY(find_encrypted(source, index.content, index.end, entry, &is_encrypted, error));
    if (is_encrypted) {
        return cv_fail(error, CV_ERROR_UNSUPPORTED_MEDIA, CV_MEDIA_ENCRYPTED);
    }
    if (index.end > source->size) {
        return cv_fail(error, CV_ERROR_NOT_A_VIDEO,
                       "the file was cut off in its index (moov); copy or download it again");
    }
    if (index.end > 0) {
        return has_media ? 0
                         : cv_fail(error, CV_ERROR_NOT_A_VIDEO,
                                   "the file is the beginning of a stream (moov), without its "
                                   "pictures; give the whole video");
    }
    return has_fragment ? cv_fail(error, CV_ERROR_NOT_A_VIDEO,
                                  "the file is a part of a stream, without its beginning (moov); "
                                  "give the whole video")
                        : cv_fail(error, CV_ERROR_NOT_A_VIDEO,
                                  "the file was cut off: its index (moov) is missing; copy or "
                                  "download it again");
}

/* Whether the file begins with a box that only MP4 and its relatives have. */
static bool begins_with_box(const unsigned char *head, size_t length)
{
    static const char *const types[] = {"ftyp", "styp", "moov", "moof", "mdat",
                                        "sidx", "free", "skip", "wide"};
    for (size_t i = 0; length >= 8 && i < CV_COUNT(types); i++) {
        if (memcmp(head + 4, types[i], 4) == 0) {
            return true;
        }
    }
    return false;
}

int cv_refuse_recognised(const struct cv_byte_source *source, struct cv_error *error)
{
    cv_auto_free unsigned char *head = malloc(CV_RECOGNISE_BYTES);
    size_t length = 0;
    CV_TRY_MEMORY(head, error, "a file's head");
    CV_TRY(cv_read_at(source, 0, head, CV_RECOGNISE_BYTES, &length, error));
    CV_TRY(cv_recognise(head, length, error));
    return begins_with_box(head, length) ? refuse_boxes(source, error) : 0;
}
