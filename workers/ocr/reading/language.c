#include "workers/ocr/reading/language.h"

#include "workers/ocr/reading/engine.h"
#include "workers/ocr/reading/language_detect.h"

#include <string.h>
#include <utf8proc.h>

/* Tesseract's names of models, and the detector's of languages. Models that are not here keep what
 * Tesseract says. */
static const struct language {
    const char *model, *code;
} LATIN[] =
    {
        {"afr", "af"}, {"cat", "ca"}, {"ces", "cs"}, {"dan", "da"}, {"deu", "de"}, {"eng", "en"},
        {"est", "et"}, {"eus", "eu"}, {"fin", "fi"}, {"fra", "fr"}, {"gle", "ga"}, {"glg", "gl"},
        {"hrv", "hr"}, {"hun", "hu"}, {"ind", "id"}, {"isl", "is"}, {"ita", "it"}, {"lav", "lv"},
        {"lit", "lt"}, {"nld", "nl"}, {"nor", "no"}, {"pol", "pl"}, {"por", "pt"}, {"ron", "ro"},
        {"slk", "sk"}, {"slv", "sl"}, {"spa", "es"}, {"swe", "sv"}, {"tur", "tr"}, {"vie", "vi"},
},
  OTHERS[] = {
      {"ara", "ar"},          {"bel", "be"}, {"ben", "bn"}, {"bul", "bg"}, {"chi_sim", "zh"},
      {"chi_tra", "zh-Hant"}, {"ell", "el"}, {"hye", "hy"}, {"kat", "ka"}, {"mar", "mr"},
      {"nep", "ne"},          {"tam", "ta"}, {"tel", "te"}, {"fas", "fa"}, {"heb", "iw"},
      {"hin", "hi"},          {"jpn", "ja"}, {"kor", "ko"}, {"rus", "ru"}, {"srp", "sr"},
      {"tha", "th"},          {"ukr", "uk"}, {"urd", "ur"},
};

static const char *find_code(const struct language *languages, size_t count, const char *model)
{
    for (size_t i = 0; i < count; i++) {
        if (strcmp(languages[i].model, model) == 0) {
            return languages[i].code;
        }
    }
    return NULL;
}

static const char *code_of(const char *model)
{
    const char *code = find_code(LATIN, CV_COUNT(LATIN), model);

    code = code ? code : find_code(OTHERS, CV_COUNT(OTHERS), model);
    return code ? code : "";
}

bool ocr_language_is_latin(const char *model)
{
    return find_code(LATIN, CV_COUNT(LATIN), model) != NULL;
}

bool ocr_language_first_tells(const char *const *models, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        if (!ocr_language_is_latin(models[i])) {
            return false;
        }
    }
    return count > 1;
}

/* The model of a language of Latin letters; NULL: there is none. */
static const char *find_model(const char *code)
{
    for (size_t i = 0; i < CV_COUNT(LATIN); i++) {
        if (strcmp(LATIN[i].code, code) == 0) {
            return LATIN[i].model;
        }
    }
    return NULL;
}

/* The letters of a word; 0 of one that is a name, a tag, an address, or has digits in it. */
static int letters_of(const char *word, size_t length)
{
    const utf8proc_uint8_t *at = (const utf8proc_uint8_t *)word;
    utf8proc_ssize_t left = (utf8proc_ssize_t)length;
    int letters = 0;
    bool after_dot = false;

    while (left > 0) {
        utf8proc_int32_t point;
        utf8proc_ssize_t size = utf8proc_iterate(at, left, &point);
        if (size <= 0 || strchr("@#_/\\0123456789", point < 128 ? (int)point : ' ')) {
            return 0;
        }
        utf8proc_category_t category = utf8proc_category(point);
        bool is_letter = category >= UTF8PROC_CATEGORY_LU && category <= UTF8PROC_CATEGORY_LO;
        if (is_letter && after_dot) {
            return 0;
        }
        letters += is_letter;
        after_dot = point == '.' && letters > 0;
        at += size;
        left -= size;
    }
    return letters;
}

/* Copies the words of `text` to `words`, which has room for it; returns their letters. */
static int copy_words(const char *text, char *words)
{
    int letters = 0;

    while (*text) {
        size_t length = strcspn(text, " ");
        int more = letters_of(text, length);
        if (more) {
            memcpy(words, text, length);
            words[length] = ' ';
            words += length + 1;
            letters += more;
        }
        text += length;
        text += strspn(text, " ");
    }
    *words = '\0';
    return letters;
}

struct ocr_tongue ocr_language_of(const char *text, const char *const *models, size_t count)
{
    char guesses[OCR_GUESSES][OCR_GUESS_SIZE] = {""};
    char words[OCR_LINE_BYTES_MAX + 2];
    size_t length = strlen(text);

    if (length >= OCR_LINE_BYTES_MAX) {
        return (struct ocr_tongue){count, 0};
    }
    struct ocr_tongue tongue = {count, copy_words(text, words)};
    ocr_language_guess(words, strlen(words), guesses);
    for (size_t i = 0; i < OCR_GUESSES && guesses[i][0]; i++) {
        for (size_t k = 0; k < count; k++) {
            if (strcmp(code_of(models[k]), guesses[i]) == 0) {
                tongue.model = k;
                return tongue;
            }
        }
    }
    return tongue;
}

int ocr_language_letters(const char *text, const char *model)
{
    char guesses[OCR_GUESSES][OCR_GUESS_SIZE] = {""};
    cv_auto_free char *taken = malloc(strlen(text) + 2);

    if (!taken) {
        return 0;
    }
    int letters = copy_words(text, taken);
    ocr_language_guess(taken, strlen(taken), guesses);
    return strcmp(guesses[0], code_of(model)) == 0 ? letters : 0;
}

void ocr_language_collect(const char *text, struct cv_buffer *words)
{
    char taken[OCR_LINE_BYTES_MAX + 2];

    if (strlen(text) < OCR_LINE_BYTES_MAX && copy_words(text, taken) > 0) {
        cv_buffer_text(words, taken);
    }
}

void ocr_languages_of(const struct cv_buffer *words, const char *ret_models[OCR_GUESSES])
{
    char parts[OCR_GUESSES][OCR_GUESS_SIZE] = {""};
    size_t count = 0;

    memset(ret_models, 0, OCR_GUESSES * sizeof(*ret_models));
    if (words->length > 0) {
        ocr_language_parts(words->data, words->length, parts);
    }
    for (size_t i = 0; i < OCR_GUESSES; i++) {
        const char *model = find_model(parts[i]);
        if (model) {
            ret_models[count++] = model;
        }
    }
}
