/* JPEG of any origin, read in full and reduced. */
#include "common/media/media.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const int areas[] = {1 << 20, 4096};
    for (size_t i = 0; i < CV_COUNT(areas); i++) {
        struct cv_jpeg_picture picture = {0};
        struct cv_error error;
        if (cv_jpeg_read(data, size, areas[i], &picture, &error) == 0) {
            uint8_t last = picture.plane[3][(size_t)picture.width * picture.height - 1];
            if (picture.width < 1 || picture.height < 1 || last > UINT8_MAX) {
                __builtin_trap();
            }
            free(picture.plane[0]);
        }
    }
    return 0;
}
