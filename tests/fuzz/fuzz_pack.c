/* Kept pictures of lines, as `reindex` reads them back from the store: an index of JSON, then PNG pictures. */
#include "workers/ocr/pictures/pack.h"

#include <stdlib.h>
#include <string.h>

struct bytes {
    const uint8_t *data;
    size_t size;
};

static int read_bytes(void *opaque, int64_t offset, void *data, size_t length, size_t *ret_read,
                      struct cv_error *error)
{
    const struct bytes *bytes = opaque;
    (void)error;
    size_t at = offset < (int64_t)bytes->size ? (size_t)offset : bytes->size;
    *ret_read = length < bytes->size - at ? length : bytes->size - at;
    memcpy(data, bytes->data + at, *ret_read);
    return 0;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct bytes bytes = {data, size};
    struct cv_byte_source source = {&bytes, (int64_t)size, read_bytes};
    cv_auto(ocr_unpack_close) struct ocr_unpacking *unpacking = NULL;
    struct cv_error error;
    if (ocr_unpack_open(&source, &unpacking, &error) < 0) {
        return 0;
    }
    for (size_t i = 0; i < ocr_unpack_pictures(unpacking); i++) {
        struct ocr_crop crop;
        if (ocr_unpack_picture(unpacking, &crop, &error) < 0) {
            break;
        }
        ocr_crop_deinit(&crop);
    }
    for (size_t i = 0; i < ocr_unpack_rows(unpacking); i++) {
        struct ocr_kept_row row;
        if (ocr_unpack_row(unpacking, i, &row, &error) == 0 && row.t_end < row.t_start) {
            abort();
        }
    }
    return 0;
}
