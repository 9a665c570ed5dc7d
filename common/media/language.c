#include "common/media/language.h"

#include "common/base/base.h"

#include <string.h>

/* Languages with codes of two letters; the last one is ISO 639-2's older code, if it has another. */
static const struct language {
    char code[4], tag[3], older[4];
} languages[] = {
    {"afr", "af", ""},    {"ara", "ar", ""},    {"bel", "be", ""},    {"ben", "bn", ""},
    {"bod", "bo", "tib"}, {"bul", "bg", ""},    {"cat", "ca", ""},    {"ces", "cs", "cze"},
    {"cym", "cy", "wel"}, {"dan", "da", ""},    {"deu", "de", "ger"}, {"ell", "el", "gre"},
    {"eng", "en", ""},    {"est", "et", ""},    {"eus", "eu", "baq"}, {"fas", "fa", "per"},
    {"fin", "fi", ""},    {"fra", "fr", "fre"}, {"gle", "ga", ""},    {"glg", "gl", ""},
    {"heb", "he", ""},    {"hin", "hi", ""},    {"hrv", "hr", ""},    {"hun", "hu", ""},
    {"hye", "hy", "arm"}, {"ind", "id", ""},    {"isl", "is", "ice"}, {"ita", "it", ""},
    {"jpn", "ja", ""},    {"kat", "ka", "geo"}, {"kor", "ko", ""},    {"lav", "lv", ""},
    {"lit", "lt", ""},    {"mar", "mr", ""},    {"mkd", "mk", "mac"}, {"mri", "mi", "mao"},
    {"msa", "ms", "may"}, {"mya", "my", "bur"}, {"nep", "ne", ""},    {"nld", "nl", "dut"},
    {"nob", "nb", ""},    {"nor", "no", ""},    {"pol", "pl", ""},    {"por", "pt", ""},
    {"ron", "ro", "rum"}, {"rus", "ru", ""},    {"slk", "sk", "slo"}, {"slv", "sl", ""},
    {"spa", "es", ""},    {"sqi", "sq", "alb"}, {"srp", "sr", ""},    {"swe", "sv", ""},
    {"tam", "ta", ""},    {"tel", "te", ""},    {"tha", "th", ""},    {"tur", "tr", ""},
    {"ukr", "uk", ""},    {"urd", "ur", ""},    {"vie", "vi", ""},    {"zho", "zh", "chi"},
};

static const struct language *find_language(const char *name)
{
    for (size_t i = 0; i < CV_COUNT(languages); i++) {
        const struct language *language = &languages[i];
        if (name[0] && (strcmp(name, language->code) == 0 || strcmp(name, language->tag) == 0 ||
                        strcmp(name, language->older) == 0)) {
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
