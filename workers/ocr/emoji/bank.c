#include "workers/ocr/emoji/bank.h"

#include <emoji_bank_stamp.h>
#include <stdio.h>
#include <string.h>

/* The linker's view of the file that the build made (EMOJI_BANK is its path). */
__asm__(".section .rodata\n"
        ".global ocr_emoji_builtin\n"
        ".global ocr_emoji_builtin_end\n"
        ".balign 16\n"
        "ocr_emoji_builtin:\n"
        ".incbin \"" EMOJI_BANK "\"\n"
        "ocr_emoji_builtin_end:\n"
        ".byte 0\n"
        ".previous\n");
extern const uint8_t ocr_emoji_builtin[], ocr_emoji_builtin_end[];

enum {
    HEADER = 24,
    COARSE_BYTES = OCR_EMOJI_COARSE * OCR_EMOJI_COARSE * 4,
    FINE_BYTES = OCR_EMOJI_FINE * OCR_EMOJI_FINE * 4,
    ENTRY = OCR_EMOJI_TEXT + 2 + COARSE_BYTES + FINE_BYTES,
    FILE_MAX = HEADER + OCR_EMOJI_COUNT_MAX * ENTRY,
};

static uint32_t number_at(const uint8_t *at)
{
    return at[0] | (uint32_t)at[1] << 8 | (uint32_t)at[2] << 16 | (uint32_t)at[3] << 24;
}

static bool lay_out(const uint8_t *bytes, size_t size, struct ocr_emoji_bank *bank)
{
    if (size < HEADER || memcmp(bytes, "CVEMOJI1", 8) != 0 ||
        number_at(bytes + 12) != OCR_EMOJI_TEXT || number_at(bytes + 16) != OCR_EMOJI_COARSE ||
        number_at(bytes + 20) != OCR_EMOJI_FINE) {
        return false;
    }
    size_t count = number_at(bytes + 8);
    if (count > OCR_EMOJI_COUNT_MAX || size != HEADER + count * ENTRY) {
        return false;
    }
    const uint8_t *texts = bytes + HEADER, *aspects = texts + count * OCR_EMOJI_TEXT;
    for (size_t i = 0; i < count; i++) {
        if (!texts[i * OCR_EMOJI_TEXT] || texts[(i + 1) * OCR_EMOJI_TEXT - 1]) {
            return false;
        }
    }
    *bank = (struct ocr_emoji_bank){.count = count,
                                    .texts = (const char *)texts,
                                    .aspects = aspects,
                                    .coarse = aspects + 2 * count,
                                    .fine = aspects + (2 + COARSE_BYTES) * count};
    return true;
}

static int add_quarters(struct ocr_emoji_bank *bank, struct cv_error *error)
{
    bank->quarters = calloc(bank->count + 1, sizeof(*bank->quarters));
    CV_TRY_MEMORY(bank->quarters, error, "the emoji banks");
    for (size_t i = 0; i < bank->count; i++) {
        const uint8_t *cell = bank->coarse + i * COARSE_BYTES;
        struct ocr_emoji_quarters *quarters = &bank->quarters[i];
        for (int k = 0; k < OCR_EMOJI_COARSE * OCR_EMOJI_COARSE; k++, cell += 4) {
            int quarter = ocr_emoji_quarter(k);
            for (int c = 0; c < 3; c++) {
                quarters->colours[c][quarter] += cell[c];
            }
            quarters->bare[quarter] += (float)(255 - cell[3]) / 255;
        }
    }
    return 0;
}

static int open_file(const char *path, struct ocr_emoji_bank *ret_bank, struct cv_error *error)
{
    FILE *stream = fopen(path, "rbe");
    cv_auto_free uint8_t *bytes = stream ? malloc(FILE_MAX + 1) : NULL;
    size_t size = bytes ? fread(bytes, 1, FILE_MAX + 1, stream) : 0;
    bool failed = !stream || (bytes && ferror(stream));

    if (stream) {
        (void)fclose(stream);
    }
    if (failed) {
        return cv_fail(
            error, CV_ERROR_CONFIGURATION,
            "the emoji bank %s cannot be read; CORTANA_EMOJI_BANK names files below /usr "
            "or CORTANA_READ_PATHS",
            path);
    }
    CV_TRY_MEMORY(bytes, error, "an emoji bank");
    if (!lay_out(bytes, size, ret_bank)) {
        return cv_fail(error, CV_ERROR_CONFIGURATION,
                       "%s is not an emoji bank; make one with scripts/emoji_bank.py", path);
    }
    ret_bank->file = cv_take(bytes);
    return add_quarters(ret_bank, error);
}

void ocr_emoji_banks_deinit(struct ocr_emoji_banks *banks)
{
    for (size_t i = 0; i < banks->count; i++) {
        free(banks->items[i].quarters);
        free(banks->items[i].file);
    }
    *banks = (struct ocr_emoji_banks){.count = 0};
}

int ocr_emoji_banks_init(struct ocr_emoji_banks *ret_banks, struct cv_error *error)
{
    cv_auto(ocr_emoji_banks_deinit) struct ocr_emoji_banks banks = {.count = 0};
    cv_auto_free char *list = strdup(cv_env("CORTANA_EMOJI_BANK", ""));
    char *rest = NULL;

    CV_TRY_MEMORY(list, error, "the emoji banks");
    if (!lay_out(ocr_emoji_builtin, (size_t)(ocr_emoji_builtin_end - ocr_emoji_builtin),
                 &banks.items[0])) {
        return cv_fail(error, CV_ERROR_INTERNAL, "the emoji bank of this program is damaged");
    }
    banks.count = 1;
    CV_TRY(add_quarters(&banks.items[0], error));
    for (char *path = strtok_r(list, ":", &rest); path; path = strtok_r(NULL, ":", &rest)) {
        if (banks.count == OCR_EMOJI_BANKS_MAX) {
            return cv_fail(error, CV_ERROR_CONFIGURATION,
                           "CORTANA_EMOJI_BANK names more than %d files", OCR_EMOJI_BANKS_MAX - 1);
        }
        CV_TRY(open_file(path, &banks.items[banks.count++], error));
    }
    *ret_banks = banks;
    banks.count = 0;
    return 0;
}

/* FNV-1a over eight bytes at a time would depend on the machine's order of bytes; a byte at a time
 * costs some milliseconds, once a process. */
uint64_t ocr_emoji_banks_id(const struct ocr_emoji_banks *banks)
{
    uint64_t id = UINT64_C(14695981039346656037);

    for (size_t i = 0; i < banks->count; i++) {
        const struct ocr_emoji_bank *bank = &banks->items[i];
        size_t texts = bank->count * OCR_EMOJI_TEXT;
        size_t fine = bank->count * OCR_EMOJI_FINE * OCR_EMOJI_FINE * 4;
        for (size_t k = 0; k < texts; k++) {
            id = (id ^ (uint8_t)bank->texts[k]) * UINT64_C(1099511628211);
        }
        for (size_t k = 0; k < fine; k++) {
            id = (id ^ bank->fine[k]) * UINT64_C(1099511628211);
        }
    }
    return id;
}
