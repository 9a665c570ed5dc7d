#include "common/media/recognise.h"

#include "common/media/boxes.h"

#include <ctype.h>
#include <string.h>

enum {
    HEAD_SIZE =
        4096,       /* bytes looked at for what is not MP4; a web page says so in the first line */
    WORD_LEAST = 3, /* letters of a sign that no text begins with by chance */
};

enum kind { PICTURE, SOUND, ARCHIVE, DOCUMENT, PROGRAM, LIST, COMPANION, WEB_PAGE, TEXT, NULLS };

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
    {"JPEG 2000", SIGN("\0\0\0\x0cjP  "), 0, PICTURE},
    {"HEIC", SIGN("ftyphei"), 4, PICTURE},
    {"HEIF", SIGN("ftypmif1"), 4, PICTURE},
    {"AVIF", SIGN("ftypavif"), 4, PICTURE},
    {"GIF", SIGN("GIF8"), 0, PICTURE},
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
    {"gzip", SIGN("\x1f\x8b"), 0, ARCHIVE},
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

static int refuse_head(const unsigned char *head, size_t length, struct cv_error *error)
{
    if (length > 20 && memcmp(head + 8, "WEBPVP8X", 8) == 0 && (head[20] & 2) != 0) {
        return cv_fail(
            error, CV_ERROR_UNSUPPORTED_MEDIA,
            "the file is an animated WebP, which cannot be read here; convert it to GIF, "
            "APNG or MP4");
    }
    const bool can_be_text = is_text(head, length);
    for (size_t i = 0; i < CV_COUNT(signs); i++) {
        const struct sign *sign = &signs[i];
        if (can_be_text && sign->length < WORD_LEAST) {
            continue; /* "MZ" may begin a letter, too */
        }
        if (length >= sign->offset + sign->length &&
            memcmp(head + sign->offset, sign->bytes, sign->length) == 0) {
            return refuse(sign->kind, sign->name, error);
        }
    }
    size_t nulls = 0;
    while (nulls < length && head[nulls] == 0) {
        nulls++;
    }
    if (nulls == length) {
        return refuse(NULLS, NULL, error);
    }
    return can_be_text ? refuse_text(head, length, error) : 0;
}

/* ---- by the boxes of an MP4 ------------------------------------------------------------------ */

/* Whether a track below `from` has a sample entry for encrypted pictures. */
static int find_encrypted(const struct cv_byte_source *source, int64_t from, int64_t end,
                          const char *const *path, bool *ret_found, struct cv_error *error)
{
    struct cv_mp4_box box;
    int result = 0;
    for (int i = 0; i < CV_BOXES_MAX && result == 0 && !*ret_found; i++, from = box.end) {
        result = cv_read_box(source, from, end, &box, error);
        if (result != 0 || strcmp(box.type, path[0]) != 0) {
            continue;
        }
        /* stsd has a version and a number before its entries. */
        int64_t content = box.content + (strcmp(box.type, "stsd") == 0 ? 8 : 0);
        *ret_found = !path[1];
        result = path[1] ? find_encrypted(source, content, box.end, path + 1, ret_found, error) : 0;
    }
    return result < 0 ? result : 0;
}

/* What the boxes of an MP4 say that it lacks. */
static int refuse_boxes(const struct cv_byte_source *source, struct cv_error *error)
{
    static const char *const entry[] = {"trak", "mdia", "minf", "stbl", "stsd", "encv", NULL};
    struct cv_mp4_box box, index = {.end = 0};
    bool has_fragment = false, has_media = false, is_encrypted = false;
    int result = 0;
    for (int64_t at = 0, i = 0; i < CV_BOXES_MAX && result == 0; i++, at = box.end) {
        result = cv_read_box(source, at, source->size, &box, error);
        if (result != 0) {
            break;
        }
        has_fragment = has_fragment || strcmp(box.type, "moof") == 0;
        has_media = has_media || strcmp(box.type, "mdat") == 0;
        index = strcmp(box.type, "moov") == 0 ? box : index;
    }
    CV_TRY(result < 0 ? result : 0);
    CV_TRY(find_encrypted(source, index.content, index.end, entry, &is_encrypted, error));
    if (is_encrypted) {
        return cv_fail(error, CV_ERROR_UNSUPPORTED_MEDIA, CV_MEDIA_ENCRYPTED);
    }
    if (index.end > source->size) {
        return cv_fail(error, CV_ERROR_NOT_A_VIDEO,
                       "the file was cut off in its index (moov); copy or download it again");
    }
    if (index.end > 0) {
        return has_media ? 0
                         : cv_fail(error, CV_ERROR_NOT_A_VIDEO,
                                   "the file is the beginning of a stream (moov), without its "
                                   "pictures; give the whole video");
    }
    return has_fragment ? cv_fail(error, CV_ERROR_NOT_A_VIDEO,
                                  "the file is a part of a stream, without its beginning (moov); "
                                  "give the whole video")
                        : cv_fail(error, CV_ERROR_NOT_A_VIDEO,
                                  "the file was cut off: its index (moov) is missing; copy or "
                                  "download it again");
}

/* Whether the file begins with a box that only MP4 and its relatives have. */
static bool begins_with_box(const unsigned char *head, size_t length)
{
    static const char *const types[] = {"ftyp", "styp", "moov", "moof", "mdat",
                                        "sidx", "free", "skip", "wide"};
    for (size_t i = 0; length >= 8 && i < CV_COUNT(types); i++) {
        if (memcmp(head + 4, types[i], 4) == 0) {
            return true;
        }
    }
    return false;
}

int cv_refuse_sound(const char *codec, struct cv_error *error)
{
    return refuse(SOUND, codec, error);
}

int cv_refuse_recognised(const struct cv_byte_source *source, struct cv_error *error)
{
    cv_auto_free unsigned char *head = malloc(HEAD_SIZE);
    size_t length = 0;
    CV_TRY_MEMORY(head, error, "a file's head");
    CV_TRY(cv_read_at(source, 0, head, HEAD_SIZE, &length, error));
    if (length == 0) {
        return cv_fail(error, CV_ERROR_NOT_A_VIDEO, "the file is empty; copy or download it again");
    }
    CV_TRY(refuse_head(head, length, error));
    return begins_with_box(head, length) ? refuse_boxes(source, error) : 0;
}
