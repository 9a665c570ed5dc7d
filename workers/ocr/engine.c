#include "workers/ocr/memory.h"
#include "workers/ocr/words.h"

#include <dirent.h>
#include <openssl/evp.h>
#include <string.h>
#include <sys/stat.h>
#include <tesseract/capi.h>

struct ocr_engine {
    TessBaseAPI *with_words, *without_words;
    char *data_path;
    char *languages;           /* joined with '+' */
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

/* Where Debian and builds from source keep models, when TESSDATA_PREFIX does not say. */
static const char *const DATA_PATHS[] = {
    "/usr/share/tesseract-ocr/5/tessdata",
    "/usr/share/tesseract-ocr/4.00/tessdata",
    "/usr/local/share/tessdata",
    "/usr/share/tessdata",
};

static const char *find_data_path(void)
{
    const char *path = cv_env("TESSDATA_PREFIX", NULL);
    struct stat info;

    if (path) {
        return path;
    }
    for (size_t i = 0; i < CV_COUNT(DATA_PATHS); i++) {
        if (stat(DATA_PATHS[i], &info) == 0 && S_ISDIR(info.st_mode)) {
            return DATA_PATHS[i];
        }
    }
    return DATA_PATHS[0];
}

static bool is_name(const char *name)
{
    static const char script[] = "script/";
    size_t length;

    if (strncmp(name, script, sizeof(script) - 1) == 0) {
        name += sizeof(script) - 1;
    }
    length = strspn(name, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_");
    return length >= 2 && length < OCR_LANGUAGE_NAME_MAX - sizeof(script) && !name[length];
}

static int compare_names(const struct dirent **a, const struct dirent **b)
{
    return strcmp((*a)->d_name, (*b)->d_name);
}

static int is_model(const struct dirent *entry)
{
    const char *dot = strrchr(entry->d_name, '.');
    return dot && strcmp(dot, ".traineddata") == 0 && strcmp(entry->d_name, "osd.traineddata") != 0;
}

/* "deu, eng, fra" into `list`, as much as fits. */
static void list_installed(const char *data_path, char *list, size_t size)
{
    struct dirent **entries = NULL;
    int count = scandir(data_path, &entries, is_model, compare_names);
    size_t used = 0;

    list[0] = '\0';
    for (int i = 0; i < count; i++) {
        size_t length = strlen(entries[i]->d_name) - strlen(".traineddata");
        if (used + length + 3 < size) {
            used += (size_t)snprintf(list + used, size - used, "%s%.*s", used ? ", " : "",
                                     (int)length, entries[i]->d_name);
        }
        free(entries[i]);
    }
    free(entries);
}

static int check_language(const char *data_path, const char *name, struct cv_error *error)
{
    cv_auto_free char *file = NULL;

    if (!is_name(name)) {
        return cv_fail(error, CV_ERROR_INVALID_PAYLOAD,
                       "languages: \"%.40s\" is not the name of a Tesseract model", name);
    }
    int result = cv_format(&file, error, "%s/%s.traineddata", data_path, name);
    if (result < 0) {
        return result;
    }
    if (access(file, R_OK) != 0) {
        char installed[400];
        list_installed(data_path, installed, sizeof(installed));
        return cv_fail(error, CV_ERROR_INVALID_PAYLOAD,
                       "languages: no model \"%s\" is installed; there are: %s", name,
                       installed[0] ? installed : "none");
    }
    return 0;
}

static int join_languages(const char *data_path, const char *const *languages, size_t count,
                          char **ret_joined, struct cv_error *error)
{
    cv_auto(cv_buffer_deinit) struct cv_buffer joined = CV_BUFFER_INIT;

    if (count < 1 || count > OCR_LANGUAGES_MAX) {
        return cv_fail(error, CV_ERROR_INVALID_PAYLOAD,
                       "languages: expected 1 to %d names, not %zu", OCR_LANGUAGES_MAX, count);
    }
    for (size_t i = 0; i < count; i++) {
        int result = check_language(data_path, languages[i], error);
        if (result < 0) {
            return result;
        }
        cv_buffer_printf(&joined, "%s%s", i ? "+" : "", languages[i]);
    }
    return cv_buffer_take(&joined, ret_joined, error);
}

/* Polarity is ours to decide (a second try on the inverted line costs as much as the first), and a
 * line must read the same whatever was read before it (no document dictionary). */
static int start(const struct ocr_engine *engine, bool with_words, TessBaseAPI **ret_api,
                 struct cv_error *error)
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
    if (TessBaseAPIInit4(api, engine->data_path, engine->languages, OEM_LSTM_ONLY, NULL, 0, names,
                         values, with_words ? 1 : CV_COUNT(names), 0) != 0) {
        TessBaseAPIDelete(api);
        return cv_fail(error, CV_ERROR_OCR, "Tesseract cannot load %s from %s", engine->languages,
                       engine->data_path);
    }
    TessBaseAPISetPageSegMode(api, PSM_SINGLE_LINE);
    if (!TessBaseAPISetVariable(api, "tessedit_do_invert", "0") ||
        !TessBaseAPISetVariable(api, "tessedit_enable_doc_dict", "0")) {
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
    engine->data_path = strdup(find_data_path());
    if (!engine->data_path) {
        return cv_fail(error, CV_ERROR_OUT_OF_MEMORY, "no memory for the OCR engine");
    }
    int result = join_languages(engine->data_path, languages, count, &engine->languages, error);
    if (result < 0) {
        return result;
    }
    result = start(engine, true, &engine->with_words, error);
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

static int recognize(struct ocr_engine *engine, const struct line_picture *line,
                     struct ocr_reading *ret_reading, struct cv_error *error)
{
    cv_auto(ocr_words_deinit) struct ocr_words words = {0};

    if (line->dictionary == OCR_WITHOUT_WORDS && !engine->without_words) {
        int result = start(engine, false, &engine->without_words, error);
        if (result < 0) {
            return result;
        }
    }
    TessBaseAPI *api =
        line->dictionary == OCR_WITH_WORDS ? engine->with_words : engine->without_words;
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
    return result ? result
                  : ocr_words_join(&words, line->inserts, line->insert_count, line->tall,
                                   line->width, ret_reading, error);
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
