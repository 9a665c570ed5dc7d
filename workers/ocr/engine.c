#include "workers/ocr/language.h"
#include "workers/ocr/memory.h"
#include "workers/ocr/models.h"
#include "workers/ocr/words.h"

#include <ctype.h>
#include <openssl/evp.h>
#include <string.h>
#include <tesseract/capi.h>

struct ocr_engine {
    TessBaseAPI *with_words, *without_words;
    char *data_path;
    char *languages; /* joined with '+' */
    char *models[OCR_LANGUAGES_MAX];
    size_t model_count;
    /* Where there are several, and a line is in the language of one that is not the first: that one
     * with the first behind it. Made when it is first wanted. */
    TessBaseAPI *led_by[OCR_LANGUAGES_MAX];
    struct ocr_memory *memory; /* NULL: nothing is remembered */
};

/* What is read, and how. */
struct line_picture {
    enum ocr_dictionary dictionary;
    const uint8_t *grey;
    int width, height, tall;
    const struct ocr_insert *inserts;
    size_t insert_count;
};

CV_DEFINE_CLEANUP(EVP_MD_CTX *, EVP_MD_CTX_free)

static int name_models(struct ocr_engine *engine, const char *const *languages, size_t count,
                       struct cv_error *error)
{
    cv_auto(cv_buffer_deinit) struct cv_buffer joined = CV_BUFFER_INIT;

    if (count < 1 || count > OCR_LANGUAGES_MAX) {
        return cv_fail(error, CV_ERROR_INVALID_PAYLOAD,
                       "languages: expected 1 to %d names, not %zu", OCR_LANGUAGES_MAX, count);
    }
    for (; engine->model_count < count; engine->model_count++) {
        const char *name = NULL;
        int result =
            ocr_models_find(engine->data_path, languages[engine->model_count], &name, error);
        if (result == 0) {
            result = cv_format(&engine->models[engine->model_count], error, "%s", name);
        }
        if (result < 0) {
            return result;
        }
        cv_buffer_printf(&joined, "%s%s", engine->model_count ? "+" : "", name);
    }
    return cv_buffer_take(&joined, &engine->languages, error);
}

/* Polarity is ours to decide (a second try on the inverted line costs as much as the first), a line
 * must read the same whatever was read before it (no document dictionary), and where letters stand
 * in equal cells the network finds them without a search for the cells' pitch. */
static int start(const struct ocr_engine *engine, const char *languages, bool with_words,
                 TessBaseAPI **ret_api, struct cv_error *error)
{
    char *names[] = {(char *)"debug_file",       (char *)"load_system_dawg",
                     (char *)"load_freq_dawg",   (char *)"load_unambig_dawg",
                     (char *)"load_bigram_dawg", (char *)"load_number_dawg",
                     (char *)"load_punc_dawg"};
    char *values[] = {(char *)"/dev/null", (char *)"0", (char *)"0", (char *)"0",
                      (char *)"0",         (char *)"0", (char *)"0"};
    TessBaseAPI *api = TessBaseAPICreate();

    if (!api) {
        return cv_fail(error, CV_ERROR_OUT_OF_MEMORY, "no memory for the OCR engine");
    }
    if (TessBaseAPIInit4(api, engine->data_path, languages, OEM_LSTM_ONLY, NULL, 0, names, values,
                         with_words ? 1 : CV_COUNT(names), 0) != 0) {
        TessBaseAPIDelete(api);
        return cv_fail(error, CV_ERROR_OCR, "Tesseract cannot load %s from %s", languages,
                       engine->data_path);
    }
    TessBaseAPISetPageSegMode(api, PSM_SINGLE_LINE);
    if (!TessBaseAPISetVariable(api, "tessedit_do_invert", "0") ||
        !TessBaseAPISetVariable(api, "tessedit_enable_doc_dict", "0") ||
        !TessBaseAPISetVariable(api, "textord_all_prop", "1")) {
        TessBaseAPIEnd(api);
        TessBaseAPIDelete(api);
        return cv_fail(error, CV_ERROR_OCR, "this Tesseract lacks a setting that the stage needs");
    }
    *ret_api = api;
    return 0;
}

int ocr_engine_new(const char *const *languages, size_t count, struct ocr_engine **ret_engine,
                   struct cv_error *error)
{
    cv_auto(ocr_engine_free) struct ocr_engine *engine = calloc(1, sizeof(*engine));

    if (!engine) {
        return cv_fail(error, CV_ERROR_OUT_OF_MEMORY, "no memory for the OCR engine");
    }
    engine->data_path = strdup(ocr_models_path());
    if (!engine->data_path) {
        return cv_fail(error, CV_ERROR_OUT_OF_MEMORY, "no memory for the OCR engine");
    }
    int result = name_models(engine, languages, count, error);
    if (result < 0) {
        return result;
    }
    result = start(engine, engine->languages, true, &engine->with_words, error);
    if (result < 0) {
        return result;
    }
    *ret_engine = cv_take(engine);
    return 0;
}

static void stop(TessBaseAPI *api)
{
    if (api) {
        TessBaseAPIEnd(api);
        TessBaseAPIDelete(api);
    }
}

void ocr_engine_free(struct ocr_engine *engine)
{
    if (!engine) {
        return;
    }
    stop(engine->with_words);
    stop(engine->without_words);
    for (size_t i = 0; i < OCR_LANGUAGES_MAX; i++) {
        stop(engine->led_by[i]);
        free(engine->models[i]);
    }
    free(engine->data_path);
    free(engine->languages);
    free(engine);
}

void ocr_reading_deinit(struct ocr_reading *reading)
{
    free(reading->text);
    *reading = (struct ocr_reading){0};
}

static double share_of(float percent)
{
    double share = (double)percent / 100;

    return share < 0 ? 0 : share > 1 ? 1 : share;
}

/* Mean over the letters of the word that `words` stands at. */
static double letters_sure(const TessResultIterator *words)
{
    TessResultIterator *letters = TessResultIteratorCopy(words);
    double sum = 0;
    int count = 0;

    while (letters) {
        sum += share_of(TessResultIteratorConfidence(letters, RIL_SYMBOL));
        count++;
        if (!TessResultIteratorNext(letters, RIL_SYMBOL) ||
            TessPageIteratorIsAtBeginningOf(TessResultIteratorGetPageIterator(letters), RIL_WORD)) {
            break;
        }
    }
    TessResultIteratorDelete(letters);
    return count ? sum / count : 0;
}

/* The word that the iterator stands at. */
static int gather_word(TessResultIterator *words, char *text, struct ocr_words *gathered,
                       struct cv_error *error)
{
    struct ocr_word word = {.text = text};
    const char *language = TessResultIteratorWordRecognitionLanguage(words);
    int top, bottom;

    word.sure = share_of(TessResultIteratorConfidence(words, RIL_WORD));
    word.letters = letters_sure(words);
    (void)TessPageIteratorBoundingBox(TessResultIteratorGetPageIteratorConst(words), RIL_WORD,
                                      &word.left, &top, &word.right, &bottom);
    (void)snprintf(word.language, sizeof(word.language), "%s", language ? language : "");
    return ocr_words_add(gathered, &word, error);
}

static int gather_words(TessBaseAPI *api, struct ocr_words *gathered, struct cv_error *error)
{
    TessResultIterator *words = TessBaseAPIGetIterator(api);
    size_t bytes = 0;
    int result = 0;

    while (words && result == 0) {
        char *text = TessResultIteratorGetUTF8Text(words, RIL_WORD);
        bytes += text ? strlen(text) : 0;
        if (text && text[0] && bytes < OCR_LINE_BYTES_MAX / 2) {
            result = gather_word(words, text, gathered, error);
        }
        TessDeleteText(text);
        if (!TessResultIteratorNext(words, RIL_WORD)) {
            break;
        }
    }
    TessResultIteratorDelete(words);
    return result;
}

static bool is_ink(const struct line_picture *line, int x, int y)
{
    return line->grey[(size_t)y * (size_t)line->width + (size_t)x] < 128;
}

/* The last row of the letters that have no descender: below it a line's ink thins out most. */
static int baseline_of(const struct line_picture *line)
{
    int before = 0, above = 0, most = 0, baseline = line->height - 1;

    for (int y = 0; y < line->height; y++) {
        int ink = 0;
        for (int x = 0; x < line->width; x++) {
            ink += is_ink(line, x, y);
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
static bool stands(const struct line_picture *line, int left, int right)
{
    int bottom = -1;

    for (int y = 0; y < line->height; y++) {
        for (int x = left > 0 ? left : 0; x < right && x < line->width; x++) {
            bottom = is_ink(line, x, y) ? y : bottom;
        }
    }
    return bottom >= 0 && (bottom - baseline_of(line)) * 8 <= line->tall;
}

/* The English pronoun within a line is read as a bar. */
static void restore_pronouns(struct ocr_words *words, const struct line_picture *line)
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

static int read_with(TessBaseAPI *api, const struct line_picture *line,
                     struct ocr_reading *ret_reading, struct cv_error *error)
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
    restore_pronouns(&words, line);
    return result ? result
                  : ocr_words_join(&words, line->inserts, line->insert_count, line->tall,
                                   line->width, ret_reading, error);
}

/* How much less sure a reading may be that the line's own language leads: the first model is content
 * with "fur" where the German one sees "für". */
static const double OWN_LEAD = 0.10;

/* Reads a line once more, with the model of its own language before the first one. */
static int read_led(struct ocr_engine *engine, size_t own, const struct line_picture *line,
                    struct ocr_reading *reading, struct cv_error *error)
{
    cv_auto(ocr_reading_deinit) struct ocr_reading led = {0};
    cv_auto_free char *languages = NULL;
    int result = 0;

    if (!engine->led_by[own]) {
        result = cv_format(&languages, error, "%s+%s", engine->models[own], engine->models[0]);
        result = result ? result : start(engine, languages, true, &engine->led_by[own], error);
    }
    result = result ? result : read_with(engine->led_by[own], line, &led, error);
    if (result == 0 && led.text[0] && led.confidence + OWN_LEAD >= reading->confidence) {
        struct ocr_reading swap = *reading;
        *reading = led;
        led = swap;
    }
    return result;
}

static int recognize(struct ocr_engine *engine, const struct line_picture *line,
                     struct ocr_reading *ret_reading, struct cv_error *error)
{
    cv_auto(ocr_reading_deinit) struct ocr_reading reading = {0};
    const char *const *models = (const char *const *)engine->models;
    bool with_words = line->dictionary == OCR_WITH_WORDS;
    int result = 0;

    if (!with_words && !engine->without_words) {
        result = start(engine, engine->languages, false, &engine->without_words, error);
    }
    result = result ? result
                    : read_with(with_words ? engine->with_words : engine->without_words, line,
                                &reading, error);
    if (result == 0 && engine->model_count > 1) {
        size_t own = ocr_language_of(reading.text, models, engine->model_count);
        if (own > 0 && own < engine->model_count && with_words) {
            result = read_led(engine, own, line, &reading, error);
        }
        if (own < engine->model_count) {
            (void)snprintf(reading.language, sizeof(reading.language), "%s", engine->models[own]);
        }
    }
    if (result == 0) {
        *ret_reading = reading;
        reading = (struct ocr_reading){.text = NULL};
    }
    return result;
}

/* A hash of all that a reading depends on. */
static int name_line(const struct ocr_engine *engine, const struct line_picture *line,
                     uint8_t ret_name[OCR_MEMORY_NAME_SIZE], struct cv_error *error)
{
    cv_auto(EVP_MD_CTX_free) EVP_MD_CTX *hash = EVP_MD_CTX_new();
    char settings[1024];
    bool is_well = hash && EVP_DigestInit_ex(hash, EVP_sha256(), NULL);
    int length =
        snprintf(settings, sizeof(settings), "%s|%s|%s|%d|%d|%d|%d|", CV_VERSION, TessVersion(),
                 engine->languages, line->dictionary, line->width, line->height, line->tall);
    is_well = is_well && length > 0 && length < (int)sizeof(settings) &&
              EVP_DigestUpdate(hash, settings, (size_t)length) &&
              EVP_DigestUpdate(hash, line->grey, (size_t)line->width * (size_t)line->height);
    for (size_t i = 0; is_well && i < line->insert_count; i++) {
        const struct ocr_insert *insert = &line->inserts[i];
        length = snprintf(settings, sizeof(settings), "|%d|%d|%s", insert->left, insert->right,
                          insert->text);
        is_well = length > 0 && length < (int)sizeof(settings) &&
                  EVP_DigestUpdate(hash, settings, (size_t)length);
    }
    if (!is_well || !EVP_DigestFinal_ex(hash, ret_name, NULL)) {
        return cv_fail(error, CV_ERROR_INTERNAL, "a line of %d × %d pixels cannot be named",
                       line->width, line->height);
    }
    return 0;
}

void ocr_engine_remember(struct ocr_engine *engine, struct ocr_memory *memory)
{
    engine->memory = memory;
}

int ocr_engine_read(struct ocr_engine *engine, enum ocr_dictionary dictionary, const uint8_t *grey,
                    int width, int height, int tall, const struct ocr_insert *inserts,
                    size_t insert_count, struct ocr_reading *ret_reading, struct cv_error *error)
{
    const struct line_picture line = {dictionary, grey, width, height, tall, inserts, insert_count};
    uint8_t name[OCR_MEMORY_NAME_SIZE];
    bool is_known = false;

    if (!engine->memory) {
        return recognize(engine, &line, ret_reading, error);
    }
    int result = name_line(engine, &line, name, error);
    if (result == 0) {
        result = ocr_memory_find(engine->memory, name, &is_known, ret_reading, error);
    }
    if (result < 0 || is_known) {
        return result;
    }
    result = recognize(engine, &line, ret_reading, error);
    if (result == 0) {
        ocr_memory_add(engine->memory, name, ret_reading);
    }
    return result;
}
