#include "common/media/language.h"

#include "common/base/base.h"

#include <string.h>

/* Languages with codes of two letters; ISO 639-2's older code, if it has another; and the name that speech recognisers give
 * them. */
static const struct language {
    char code[4], tag[3], older[4], name[12];
} languages[] = {
    {"afr", "af", "", "afrikaans"},     {"ara", "ar", "", "arabic"},
    {"bel", "be", "", "belarusian"},    {"ben", "bn", "", "bengali"},
    {"bod", "bo", "tib", "tibetan"},    {"bul", "bg", "", "bulgarian"},
    {"cat", "ca", "", "catalan"},       {"ces", "cs", "cze", "czech"},
    {"cym", "cy", "wel", "welsh"},      {"dan", "da", "", "danish"},
    {"deu", "de", "ger", "german"},     {"ell", "el", "gre", "greek"},
    {"eng", "en", "", "english"},       {"est", "et", "", "estonian"},
    {"eus", "eu", "baq", "basque"},     {"fas", "fa", "per", "persian"},
    {"fin", "fi", "", "finnish"},       {"fra", "fr", "fre", "french"},
    {"gle", "ga", "", "irish"},         {"glg", "gl", "", "galician"},
    {"heb", "he", "", "hebrew"},        {"hin", "hi", "", "hindi"},
    {"hrv", "hr", "", "croatian"},      {"hun", "hu", "", "hungarian"},
    {"hye", "hy", "arm", "armenian"},   {"ind", "id", "", "indonesian"},
    {"isl", "is", "ice", "icelandic"},  {"ita", "it", "", "italian"},
    {"jpn", "ja", "", "japanese"},      {"kat", "ka", "geo", "georgian"},
    {"kor", "ko", "", "korean"},        {"lav", "lv", "", "latvian"},
    {"lit", "lt", "", "lithuanian"},    {"mar", "mr", "", "marathi"},
    {"mkd", "mk", "mac", "macedonian"}, {"mri", "mi", "mao", "maori"},
    {"msa", "ms", "may", "malay"},      {"mya", "my", "bur", "myanmar"},
    {"nep", "ne", "", "nepali"},        {"nld", "nl", "dut", "dutch"},
    {"nob", "nb", "", "bokmal"},        {"nor", "no", "", "norwegian"},
    {"pol", "pl", "", "polish"},        {"por", "pt", "", "portuguese"},
    {"ron", "ro", "rum", "romanian"},   {"rus", "ru", "", "russian"},
    {"slk", "sk", "slo", "slovak"},     {"slv", "sl", "", "slovenian"},
    {"spa", "es", "", "spanish"},       {"sqi", "sq", "alb", "albanian"},
    {"srp", "sr", "", "serbian"},       {"swe", "sv", "", "swedish"},
    {"tam", "ta", "", "tamil"},         {"tel", "te", "", "telugu"},
    {"tha", "th", "", "thai"},          {"tur", "tr", "", "turkish"},
    {"ukr", "uk", "", "ukrainian"},     {"urd", "ur", "", "urdu"},
    {"vie", "vi", "", "vietnamese"},    {"zho", "zh", "chi", "chinese"},
};

static const struct language *find_language(const char *name)
{
    for (size_t i = 0; i < CV_COUNT(languages); i++) {
        const struct language *language = &languages[i];
        if (name[0] && (strcmp(name, language->code) == 0 || strcmp(name, language->tag) == 0 ||
                        strcmp(name, language->older) == 0 || strcmp(name, language->name) == 0)) {
            return language;
        }
    }
    return NULL;
}

static const char *code_or_none(const char *name, size_t shortest)
{
    size_t length = strspn(name, "abcdefghijklmnopqrstuvwxyz");
    bool is_code = length >= shortest && length <= 3 && name[length] == '\0';
    return is_code && strcmp(name, "und") != 0 ? name : "";
}

const char *cv_language_code(const char *name)
{
    const struct language *language = find_language(name);
    return language ? language->code : code_or_none(name, 3);
}

const char *cv_language_tag(const char *name)
{
    const struct language *language = find_language(name);
    return language ? language->tag : code_or_none(name, 2);
}
