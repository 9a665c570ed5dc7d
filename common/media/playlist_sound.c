#include "common/media/playlist.h"

#include <string.h>

/* ISO 639-2 codes that have a code of two letters (ISO 639-1), which BCP 47 wants where there is
 * one. What is not here stays as it is. */
static const struct language {
    char three[4], two[3];
} languages[] = {
    {"alb", "sq"}, {"ara", "ar"}, {"arm", "hy"}, {"baq", "eu"}, {"ben", "bn"}, {"bul", "bg"},
    {"bur", "my"}, {"cat", "ca"}, {"ces", "cs"}, {"chi", "zh"}, {"cze", "cs"}, {"dan", "da"},
    {"deu", "de"}, {"dut", "nl"}, {"ell", "el"}, {"eng", "en"}, {"est", "et"}, {"eus", "eu"},
    {"fas", "fa"}, {"fin", "fi"}, {"fra", "fr"}, {"fre", "fr"}, {"geo", "ka"}, {"ger", "de"},
    {"gre", "el"}, {"heb", "he"}, {"hin", "hi"}, {"hrv", "hr"}, {"hun", "hu"}, {"hye", "hy"},
    {"ice", "is"}, {"ind", "id"}, {"isl", "is"}, {"ita", "it"}, {"jpn", "ja"}, {"kat", "ka"},
    {"kor", "ko"}, {"lav", "lv"}, {"lit", "lt"}, {"mac", "mk"}, {"may", "ms"}, {"mkd", "mk"},
    {"msa", "ms"}, {"mya", "my"}, {"nld", "nl"}, {"nob", "nb"}, {"nor", "no"}, {"per", "fa"},
    {"pol", "pl"}, {"por", "pt"}, {"ron", "ro"}, {"rum", "ro"}, {"rus", "ru"}, {"slk", "sk"},
    {"slo", "sk"}, {"slv", "sl"}, {"spa", "es"}, {"sqi", "sq"}, {"srp", "sr"}, {"swe", "sv"},
    {"tam", "ta"}, {"tel", "te"}, {"tha", "th"}, {"tur", "tr"}, {"ukr", "uk"}, {"urd", "ur"},
    {"vie", "vi"}, {"zho", "zh"},
};

enum { NAME_SIZE = 96, LETTERS_MIN = 2, LETTERS_MAX = 3 };

/* A language tag, or "" where the container's word is none. */
static const char *tag_of(const char *language)
{
    size_t length = strlen(language);
    if (length < LETTERS_MIN || length > LETTERS_MAX ||
        strspn(language, "abcdefghijklmnopqrstuvwxyz") != length) {
        return "";
    }
    for (size_t i = 0; i < CV_COUNT(languages); i++) {
        if (strcmp(languages[i].three, language) == 0) {
            return languages[i].two;
        }
    }
    return language;
}

/* What people see of a track, before it is told apart from others. */
static const char *label_of(const struct cv_playlist_sound *sound)
{
    const char *tag = tag_of(sound->language);
    return sound->title[0] ? sound->title : tag[0] ? tag : "Sound";
}

/* A number goes behind every label but the first of its kind. Two tracks of one language are not
 * for a player to choose between by itself. */
static void sound_line(struct cv_buffer *text, const struct cv_playlist_sound *sounds, size_t index)
{
    const struct cv_playlist_sound *sound = &sounds[index];
    const char *tag = tag_of(sound->language);
    bool twin = false, is_new = true;
    for (size_t i = 0; i < index; i++) {
        twin = twin || strcmp(label_of(&sounds[i]), label_of(sound)) == 0;
        is_new = is_new && strcmp(tag_of(sounds[i].language), tag) != 0;
    }
    char name[NAME_SIZE];
    if (twin) {
        (void)snprintf(name, sizeof(name), "%s (%zu)", label_of(sound), index + 1);
    } else {
        (void)snprintf(name, sizeof(name), "%s", label_of(sound));
    }
    cv_buffer_printf(text, "#EXT-X-MEDIA:TYPE=AUDIO,GROUP-ID=\"sound\",NAME=\"%s\"", name);
    if (tag[0]) {
        cv_buffer_printf(text, ",LANGUAGE=\"%s\"", tag);
    }
    cv_buffer_printf(text, ",DEFAULT=%s,AUTOSELECT=%s,CHANNELS=\"2\",URI=\"%s.m3u8\"\n",
                     index == 0 ? "YES" : "NO", is_new ? "YES" : "NO", sound->name);
}

void cv_playlist_sound_lines(struct cv_buffer *text, const struct cv_playlist_sound *sounds,
                             size_t count)
{
    for (size_t i = 0; i < count; i++) {
        sound_line(text, sounds, i);
    }
}
