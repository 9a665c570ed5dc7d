#include "workers/ocr/reading/tesseract.h"

#include "workers/ocr/reading/line_text.h"
#include "workers/ocr/reading/word_corrections.h"

#include <ctype.h>
#include <string.h>

/* Takes the place of tesseract::UnicharAmbigs::LoadUniversal, which Tesseract calls for each model of each engine: it sorts
 * 19,000 confusions of letters into lists, 75 ms of CPU time a model, for the recogniser of before LSTM alone. A Tesseract
 * that has no such function calls its own. */
__attribute__((visibility("default"))) void load_no_confusions(void) __asm__(
    "_ZN9tesseract13UnicharAmbigs13LoadUniversalERKNS_10UNICHARSETEPS1_");

void load_no_confusions(void)
{
}

/* Polarity is ours to decide (a second try on the inverted line costs as much as the first), a line
 * must read the same whatever was read before it (no document dictionary), and where letters stand
 * in equal cells the network finds them without a search for the cells' pitch. */
int ocr_tesseract_start(const char *data_path, const char *languages, bool with_words,
                        TessBaseAPI **ret_api, struct cv_error *error)
{
    char *names[] = {(char *)"debug_file",       (char *)"load_system_dawg",
                     (char *)"load_freq_dawg",   (char *)"load_unambig_dawg",
                     (char *)"load_bigram_dawg", (char *)"load_number_dawg",
                     (char *)"load_punc_dawg"};
    char *values[] = {(char *)"/dev/null", (char *)"0", (char *)"0", (char *)"0",
                      (char *)"0",         (char *)"0", (char *)"0"};
    TessBaseAPI *api = TessBaseAPICreate();

    CV_TRY_MEMORY(api, error, "the OCR engine");
    if (TessBaseAPIInit4(api, data_path, languages, OEM_LSTM_ONLY, NULL, 0, names, values,
                         with_words ? 1 : CV_COUNT(names), 0) != 0) {
        TessBaseAPIDelete(api);
        return cv_fail(error, CV_ERROR_OCR, "Tesseract cannot load %s from %s", languages,
                       data_path);
    }
    TessBaseAPISetPageSegMode(api, PSM_SINGLE_LINE);
    if (!TessBaseAPISetVariable(api, "tessedit_do_invert", "0") ||
        !TessBaseAPISetVariable(api, "tessedit_enable_doc_dict", "0") ||
        !TessBaseAPISetVariable(api, "textord_all_prop", "1") ||
        !TessBaseAPISetVariable(api, "preserve_interword_spaces", "1")) {
        TessBaseAPIEnd(api);
        TessBaseAPIDelete(api);
        return cv_fail(error, CV_ERROR_OCR, "this Tesseract lacks a setting that the stage needs");
    }
    *ret_api = api;
    return 0;
}

void ocr_tesseract_stop(TessBaseAPI *api)
{
    if (api) {
        TessBaseAPIEnd(api);
        TessBaseAPIDelete(api);
    }
}

static double share_of(float percent)
{
    double share = (double)percent / 100;

    return share < 0 ? 0 : share > 1 ? 1 : share;
}

/* The letters of the word that `words` stands at. */
static int gather_symbols(const TessResultIterator *words, struct ocr_words *gathered,
                          struct cv_error *error)
{
    TessResultIterator *letters = TessResultIteratorCopy(words);
    int result = 0;

    while (letters && result == 0) {
        struct ocr_symbol symbol = {
            .sure = share_of(TessResultIteratorConfidence(letters, RIL_SYMBOL))};
        char *text = TessResultIteratorGetUTF8Text(letters, RIL_SYMBOL);
        bool is_short = text && strlen(text) < sizeof(symbol.text);
        (void)snprintf(symbol.text, sizeof(symbol.text), "%s", is_short ? text : "");
        TessDeleteText(text);
        (void)TessPageIteratorBoundingBox(TessResultIteratorGetPageIteratorConst(letters),
                                          RIL_SYMBOL, &symbol.left, &symbol.top, &symbol.right,
                                          &symbol.bottom);
        result = ocr_words_add_symbol(gathered, &symbol, error);
        if (!TessResultIteratorNext(letters, RIL_SYMBOL) ||
            TessPageIteratorIsAtBeginningOf(TessResultIteratorGetPageIterator(letters), RIL_WORD)) {
            break;
        }
    }
    TessResultIteratorDelete(letters);
    return result;
}

/* The word that the iterator stands at. */
static int gather_word(TessResultIterator *words, char *text, enum ocr_blank blank,
                       struct ocr_words *gathered, struct cv_error *error)
{
    struct ocr_word word = {.text = text, .blank = blank, .first_symbol = gathered->symbol_count};
    const char *language = TessResultIteratorWordRecognitionLanguage(words);
    int top, bottom;

    CV_TRY(gather_symbols(words, gathered, error));
    word.symbol_count = gathered->symbol_count - word.first_symbol;
    word.sure = share_of(TessResultIteratorConfidence(words, RIL_WORD));
    word.is_listed = TessResultIteratorWordIsFromDictionary(words);
    (void)TessPageIteratorBoundingBox(TessResultIteratorGetPageIteratorConst(words), RIL_WORD,
                                      &word.left, &top, &word.right, &bottom);
    (void)snprintf(word.language, sizeof(word.language), "%s", language ? language : "");
    return ocr_words_add(gathered, &word, error);
}

/* Moves `*rest` behind the next word of a line's text. */
static enum ocr_blank skip_word(const char *word, const char **rest)
{
    const char *found = *rest ? strstr(*rest, word) : NULL;
    enum ocr_blank blank = found ? OCR_BLANK_NONE : OCR_BLANK_BY_ROOM;

    for (const char *at = *rest; found && at < found; at++) {
        blank = isspace((unsigned char)*at) ? OCR_BLANK_READ : blank;
    }
    *rest = found ? found + strlen(word) : *rest;
    return blank;
}

static int gather_words(TessBaseAPI *api, struct ocr_words *gathered, struct cv_error *error)
{
    TessResultIterator *words = TessBaseAPIGetIterator(api);
    /* Has a blank only where the model has read one, and so tells what stands apart in scripts whose
     * characters are words of their own. */
    char *line = words ? TessBaseAPIGetUTF8Text(api) : NULL;
    const char *rest = line;
    size_t bytes = 0;
    int result = 0;

    while (words && result == 0) {
        char *text = TessResultIteratorGetUTF8Text(words, RIL_WORD);
        bytes += text ? strlen(text) : 0;
        if (text && text[0] && bytes < OCR_LINE_BYTES_MAX / 2) {
            result = gather_word(words, text, skip_word(text, &rest), gathered, error);
        }
        TessDeleteText(text);
        if (!TessResultIteratorNext(words, RIL_WORD)) {
            break;
        }
    }
    TessResultIteratorDelete(words);
    TessDeleteText(line);
    return result;
}

/* The last row of the letters that have no descender: below it a line's ink thins out most. */
static int baseline_of(const struct ocr_line_picture *line)
{
    int before = 0, above = 0, most = 0, baseline = line->height - 1;

    for (int y = 0; y < line->height; y++) {
        int ink = 0;
        for (int x = 0; x < line->width; x++) {
            ink += ocr_line_has_ink(line, x, y);
        }
        if (before + above - 2 * ink > most) {
            most = before + above - 2 * ink;
            baseline = y - 1;
        }
        before = above;
        above = ink;
    }
    return baseline;
}

/* Whether the ink between two columns stands on the baseline, an eighth of a capital deep at most: a
 * bar that separates goes through it. */
static bool stands(const struct ocr_line_picture *line, int left, int right)
{
    int bottom = -1;

    for (int y = 0; y < line->height; y++) {
        for (int x = left > 0 ? left : 0; x < right && x < line->width; x++) {
            bottom = ocr_line_has_ink(line, x, y) ? y : bottom;
        }
    }
    return bottom >= 0 && (bottom - baseline_of(line)) * 8 <= line->tall;
}

/* The English pronoun within a line is read as a bar. */
static void restore_pronouns(struct ocr_words *words, const struct ocr_line_picture *line)
{
    for (size_t i = 1; i + 1 < words->count; i++) {
        struct ocr_word *word = &words->items[i];
        const char *next = words->items[i + 1].text;
        if (strcmp(word->text, "|") == 0 && islower((unsigned char)next[0]) &&
            stands(line, word->left, word->right)) {
            word->text[0] = 'I';
        }
    }
}

int ocr_tesseract_read(TessBaseAPI *api, const struct ocr_line_picture *line,
                       struct ocr_words *ret_words, struct cv_error *error)
{
    cv_auto(ocr_words_deinit) struct ocr_words words = {0};

    TessBaseAPISetImage(api, line->grey, line->width, line->height, 1, line->width);
    /* Capitals of 10 points are about 7 points high. */
    TessBaseAPISetSourceResolution(api, line->tall * 72 / 7 > 70 ? line->tall * 72 / 7 : 70);
    if (TessBaseAPIRecognize(api, NULL) != 0) {
        TessBaseAPIClear(api);
        return cv_fail(error, CV_ERROR_OCR, "Tesseract failed on a line of %d × %d pixels",
                       line->width, line->height);
    }
    int result = gather_words(api, &words, error);
    TessBaseAPIClear(api);
    CV_TRY(result);
    *ret_words = words;
    words = (struct ocr_words){0};
    return 0;
}

int ocr_words_finish(struct ocr_words *words, const struct ocr_line_picture *line,
                     struct ocr_reading *ret_reading, struct cv_error *error)
{
    restore_pronouns(words, line);
    ocr_words_drop_icons(words, line);
    ocr_words_drop_misread_dots(words, line);
    CV_TRY(ocr_words_join_cells(words, error));
    CV_TRY(ocr_words_mend_addresses(words, line, error));
    CV_TRY(ocr_words_mend_names(words, line, error));
    ocr_words_mend_codes(words, line);
    CV_TRY(ocr_words_mend_numbers(words, line, error));
    return ocr_words_join(words, line, ret_reading, error);
}
