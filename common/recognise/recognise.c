#include "common/recognise/recognise.h"

#include <ctype.h>
#include <string.h>

enum { WORD_LEAST = 3 }; /* bytes of a sign that nothing else begins with by chance */

/* MAY_MOVE: a picture, but a video may begin so, too: animated, or with tracks. */
enum kind {
    MAY_MOVE,
    PICTURE,
    SOUND,
    ARCHIVE,
    DOCUMENT,
    PROGRAM,
    LIST,
    COMPANION,
    WEB_PAGE,
    TEXT,
    NULLS
};

static const char *const sentences[] = {
    [PICTURE] = "the file is a still picture (%s), not a video; only videos can be read",
    [SOUND] = "the file has only sound (%s), no pictures; only videos can be read",
    [ARCHIVE] = "the file is an archive (%s), not a video; unpack it and give the videos in it",
    [DOCUMENT] = "the file is a document (%s), not a video; only videos can be read",
    [PROGRAM] = "the file is a program (%s), not a video; only videos can be read",
    [LIST] = "the file is a list of other files (%s), not a video; give the video itself",
    [COMPANION] =
        "the file is what macOS keeps beside a file (%s), not a video; give the one whose "
        "name does not begin with ._",
    [WEB_PAGE] = "the file is a web page (%s), not a video: perhaps that of a sign-in or of an "
                 "error; download the video again",
    [TEXT] = "the file is text (%s), not a video; only videos can be read",
    [NULLS] = "the file holds only null bytes where a video begins; copy or download it again",
};

/* ---- by first bytes -------------------------------------------------------------------------- */

static const struct sign {
    const char *name; /* for people */
    const char *bytes;
    size_t length;
    size_t offset;
    enum kind kind;
} signs[] = {
#define SIGN(bytes) bytes, sizeof(bytes) - 1
    {"PNG", SIGN("\x89PNG\r\n\x1a\n"), 0, PICTURE},
    {"JPEG", SIGN("\xff\xd8\xff"), 0, PICTURE},
    {"JPEG XL", SIGN("\0\0\0\x0cJXL "), 0, PICTURE},
    {"JPEG 2000", SIGN("\0\0\0\x0cjP  "), 0, MAY_MOVE},
    {"HEIC", SIGN("ftyphei"), 4, MAY_MOVE},
    {"HEIF", SIGN("ftypmif1"), 4, MAY_MOVE},
    {"AVIF", SIGN("ftypavif"), 4, MAY_MOVE},
    {"GIF", SIGN("GIF8"), 0, MAY_MOVE},
    {"TIFF", SIGN("II*\0"), 0, PICTURE},
    {"TIFF", SIGN("MM\0*"), 0, PICTURE},
    {"Photoshop", SIGN("8BPS"), 0, PICTURE},
    {"WebP", SIGN("WEBP"), 8, PICTURE},
    {"BMP", SIGN("BM"), 0, PICTURE},
    {"AMR", SIGN("#!AMR"), 0, SOUND},
    {"MIDI", SIGN("MThd"), 0, SOUND},
    {"AIFF", SIGN("AIFF"), 8, SOUND},
    {"AIFF", SIGN("AIFC"), 8, SOUND},
    {"Core Audio", SIGN("caff"), 0, SOUND},
    {"ZIP", SIGN("PK\3\4"), 0, ARCHIVE},
    {"ZIP", SIGN("PK\5\6"), 0, ARCHIVE},
    {"7z", SIGN("7z\xbc\xaf\x27\x1c"), 0, ARCHIVE},
    {"RAR", SIGN("Rar!\x1a\7"), 0, ARCHIVE},
    {"gzip", SIGN("\x1f\x8b\x08"), 0, ARCHIVE},
    {"bzip2", SIGN("BZh"), 0, ARCHIVE},
    {"xz",
     SIGN("\xfd"
          "7zXZ\0"),
     0, ARCHIVE},
    {"Zstandard", SIGN("\x28\xb5\x2f\xfd"), 0, ARCHIVE},
    {"tar", SIGN("ustar"), 257, ARCHIVE},
    {"PDF", SIGN("%PDF-"), 0, DOCUMENT},
    {"Microsoft Office", SIGN("\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1"), 0, DOCUMENT},
    {"RTF", SIGN("{\\rtf"), 0, DOCUMENT},
    {"ELF",
     SIGN("\x7f"
          "ELF"),
     0, PROGRAM},
    {"Windows", SIGN("MZ"), 0, PROGRAM},
    {"HLS", SIGN("#EXTM3U"), 0, LIST},
    {"ffconcat", SIGN("ffconcat"), 0, LIST},
    {"AppleDouble", SIGN("\0\5\x16\7"), 0, COMPANION},
#undef SIGN
};

/* The first words of texts, in lower case. */
static const struct opening {
    const char *name;
    const char *words;
    enum kind kind;
} openings[] = {
    {"HTML", "<!doctype html", WEB_PAGE},
    {"HTML", "<html", WEB_PAGE},
    {"HTML", "<head", WEB_PAGE},
    {"HTML", "<script", WEB_PAGE},
    {"SVG", "<svg", PICTURE},
    {"XML", "<", TEXT},
    {"JSON", "{", TEXT},
};

static int refuse(enum kind kind, const char *name, struct cv_error *error)
{
    char sentence[256];
    const char *gap = strstr(sentences[kind], "%s");
    if (!gap) {
        return cv_fail(error, CV_ERROR_NOT_A_VIDEO, "%s", sentences[kind]);
    }
    (void)snprintf(sentence, sizeof(sentence), "%.*s%s%s", (int)(gap - sentences[kind]),
                   sentences[kind], name, gap + 2);
    return cv_fail(error, CV_ERROR_NOT_A_VIDEO, "%s", sentence);
}

/* Whether bytes can be text: no control characters but white space and escape. */
static bool is_text(const unsigned char *head, size_t length)
{
    for (size_t i = 0; i < length; i++) {
        if (head[i] < ' ' && !isspace(head[i]) && head[i] != 0x1b) {
            return false;
        }
    }
    return length > 0;
}

static int refuse_text(const unsigned char *head, size_t length, struct cv_error *error)
{
    static const char byte_order_mark[] = "\xef\xbb\xbf";
    size_t at = length > 3 && memcmp(head, byte_order_mark, 3) == 0 ? 3 : 0;
    while (at < length && isspace(head[at])) {
        at++;
    }
    for (size_t i = 0; i < CV_COUNT(openings); i++) {
        size_t words = strlen(openings[i].words);
        if (length - at >= words &&
            strncasecmp((const char *)head + at, openings[i].words, words) == 0) {
            return refuse(openings[i].kind, openings[i].name, error);
        }
    }
    return refuse(TEXT, "plain", error);
}

/* Whether a PNG is animated, or may be: what animates it stands before its first picture. */
static bool may_be_animated(const unsigned char *head, size_t length)
{
    const void *picture = memmem(head, length, "IDAT", 4);
    const void *animation = memmem(head, length, "acTL", 4);
    return !picture || (animation && animation < picture);
}

static bool may_be_video(const struct sign *sign, const unsigned char *head, size_t length)
{
    return sign->kind == MAY_MOVE || sign->length < WORD_LEAST ||
           (strcmp(sign->name, "PNG") == 0 && may_be_animated(head, length));
}

/* The sign that the bytes have; NULL: none. */
static const struct sign *find_sign(const unsigned char *head, size_t length)
{
    const bool can_be_text = is_text(head, length);
    for (size_t i = 0; i < CV_COUNT(signs); i++) {
        const struct sign *sign = &signs[i];
        if (can_be_text && sign->length < WORD_LEAST) {
            continue; /* "MZ" may begin a letter, too */
        }
        if (length >= sign->offset + sign->length &&
            memcmp(head + sign->offset, sign->bytes, sign->length) == 0) {
            return sign;
        }
    }
    return NULL;
}

static bool is_nulls(const unsigned char *head, size_t length)
{
    size_t nulls = 0;
    while (nulls < length && head[nulls] == 0) {
        nulls++;
    }
    return nulls == length;
}

static int refuse_animated_webp(const unsigned char *head, size_t length, struct cv_error *error)
{
    if (length > 20 && memcmp(head + 8, "WEBPVP8X", 8) == 0 && (head[20] & 2) != 0) {
        return cv_fail(
            error, CV_ERROR_UNSUPPORTED_MEDIA,
            "the file is an animated WebP, which cannot be read here; convert it to GIF, "
            "APNG or MP4");
    }
    return 0;
}

int cv_recognise(const unsigned char *head, size_t length, struct cv_error *error)
{
    length = length < CV_RECOGNISE_BYTES ? length : CV_RECOGNISE_BYTES;
    if (length == 0) {
        return cv_fail(error, CV_ERROR_NOT_A_VIDEO, "the file is empty; copy or download it again");
    }
    CV_TRY(refuse_animated_webp(head, length, error));
    const struct sign *sign = find_sign(head, length);
    return sign ? refuse(sign->kind == MAY_MOVE ? PICTURE : sign->kind, sign->name, error)
           : is_nulls(head, length) ? refuse(NULLS, NULL, error)
           : is_text(head, length)  ? refuse_text(head, length, error)
                                    : 0;
}

int cv_recognise_surely(const unsigned char *head, size_t length, bool is_whole,
                        struct cv_error *error)
{
    static const char raw_video[] = "YUV4MPEG2"; /* its white pictures are letters */
    const size_t name = sizeof(raw_video) - 1;
    bool is_known = is_whole || length >= CV_RECOGNISE_BYTES;
    length = length < CV_RECOGNISE_BYTES ? length : CV_RECOGNISE_BYTES;
    const struct sign *sign = find_sign(head, length);
    bool is_raw = length >= name && memcmp(head, raw_video, name) == 0;
    bool is_unsure =
        sign ? may_be_video(sign, head, length) : !is_known || is_raw || is_nulls(head, length);
    return is_unsure ? 0 : cv_recognise(head, length, error);
}

int cv_recognise_sound(const char *codec, struct cv_error *error)
{
    return refuse(SOUND, codec, error);
}
