/* A bank of emoji pictures that an operator names. */
#include "workers/ocr/emoji/bank.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    cv_auto_fd int fd = memfd_create("bank", MFD_CLOEXEC);
    char path[64];
    struct cv_error error;
    cv_auto(ocr_emoji_banks_deinit) struct ocr_emoji_banks banks = {.count = 0};
    (void)snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
    if (fd < 0 || write(fd, data, size) != (ssize_t)size ||
        setenv("CORTANA_EMOJI_BANK", path, 1) != 0) {
        abort();
    }
    if (ocr_emoji_banks_init(&banks, &error) == 0 && banks.count == 2) {
        for (size_t i = 0; i < banks.items[1].count; i++) {
            if (strlen(banks.items[1].texts + i * OCR_EMOJI_TEXT) >= OCR_EMOJI_TEXT) {
                abort();
            }
        }
    }
    return 0;
}
