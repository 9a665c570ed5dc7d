// The detector has a face in C++ alone.
#include <cstdio> // its header forgets this one
#include <string>

#include <cld2/public/compact_lang_det.h>
#include <cld2/public/encodings.h>

#include "workers/ocr/reading/language_detect.h"

static void detect(const char *text, size_t length, int flags, int percent_least,
                   char guesses[][OCR_GUESS_SIZE])
{
    const CLD2::CLDHints none = {nullptr, "", CLD2::UNKNOWN_ENCODING, CLD2::UNKNOWN_LANGUAGE};
    CLD2::Language languages[OCR_GUESSES] = {};
    int percents[OCR_GUESSES] = {}, bytes = 0, valid = 0;
    double scores[OCR_GUESSES] = {};
    bool is_reliable = false;

    (void)CLD2::ExtDetectLanguageSummaryCheckUTF8(text, static_cast<int>(length), true, &none,
                                                  flags, languages, percents, scores, nullptr,
                                                  &bytes, &is_reliable, &valid);
    for (int i = 0; i < OCR_GUESSES; i++) {
        const bool is_known =
            percents[i] >= percent_least && languages[i] != CLD2::UNKNOWN_LANGUAGE;
        (void)std::snprintf(guesses[i], OCR_GUESS_SIZE, "%s",
                            is_known ? CLD2::LanguageCode(languages[i]) : "");
    }
}

void ocr_language_guess(const char *text, size_t length, char guesses[][OCR_GUESS_SIZE])
{
    // A short text is not refused.
    constexpr int best_effort = 0x4000;

    detect(text, length, best_effort, 1, guesses);
}

void ocr_language_parts(const char *text, size_t length, char parts[][OCR_GUESS_SIZE])
{
    constexpr int percent_least = 20;

    detect(text, length, 0, percent_least, parts);
}
