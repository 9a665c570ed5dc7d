#include "workers/ocr/language.h"

#include "workers/ocr/language_detect.h"

#include <string.h>

/* Tesseract's names of models, and the detector's of languages. Models that are not here keep what
 * Tesseract says. */
static const struct {
    const char *model, *code;
} LANGUAGES[] = {
    {"afr", "af"},     {"ara", "ar"},          {"bul", "bg"}, {"cat", "ca"}, {"ces", "cs"},
    {"chi_sim", "zh"}, {"chi_tra", "zh-Hant"}, {"dan", "da"}, {"deu", "de"}, {"ell", "el"},
    {"eng", "en"},     {"est", "et"},          {"eus", "eu"}, {"fas", "fa"}, {"fin", "fi"},
    {"fra", "fr"},     {"gle", "ga"},          {"glg", "gl"}, {"heb", "iw"}, {"hin", "hi"},
    {"hrv", "hr"},     {"hun", "hu"},          {"ind", "id"}, {"isl", "is"}, {"ita", "it"},
    {"jpn", "ja"},     {"kor", "ko"},          {"lav", "lv"}, {"lit", "lt"}, {"nld", "nl"},
    {"nor", "no"},     {"pol", "pl"},          {"por", "pt"}, {"ron", "ro"}, {"rus", "ru"},
    {"slk", "sk"},     {"slv", "sl"},          {"spa", "es"}, {"srp", "sr"}, {"swe", "sv"},
    {"tha", "th"},     {"tur", "tr"},          {"ukr", "uk"}, {"urd", "ur"}, {"vie", "vi"},
};

static const char *code_of(const char *model)
{
    for (size_t i = 0; i < CV_COUNT(LANGUAGES); i++) {
        if (strcmp(LANGUAGES[i].model, model) == 0) {
            return LANGUAGES[i].code;
        }
    }
    return "";
}

size_t ocr_language_of(const char *text, const char *const *models, size_t count)
{
    char guesses[OCR_GUESSES][OCR_GUESS_SIZE] = {""};

    ocr_language_guess(text, strlen(text), guesses);
    for (size_t i = 0; i < OCR_GUESSES && guesses[i][0]; i++) {
        for (size_t k = 0; k < count; k++) {
            if (strcmp(code_of(models[k]), guesses[i]) == 0) {
                return k;
            }
        }
    }
    return count;
}
