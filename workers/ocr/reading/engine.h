/* Tesseract, held for the life of a process: one engine with the languages' word lists, and, made
 * when it is first asked for, one without. Reads single lines. One thread. */
#pragma once

#include "common/base/base.h"

enum {
    OCR_LANGUAGES_MAX = 8,      /* models of one job; each costs time for every line */
    OCR_LANGUAGE_NAME_MAX = 64, /* "script/HanS_vert" and the like */
    OCR_LINE_BYTES_MAX = 8192,  /* text of one line; more is a defect of the model */
};

struct ocr_engine;

/* Checks names against [a-zA-Z0-9_] with an optional leading "script/" and the models that are
 * installed: an unknown one is CV_ERROR_INVALID_PAYLOAD and says which there are. Where several are
 * given, a line is read with the model of its own language in front; where the first one's reading
 * tells which that is (ocr_language_first_tells), others read only the lines of theirs. */
CV_MUST_CHECK int ocr_engine_new(const char *const *languages, size_t count,
                                 struct ocr_engine **ret_engine, struct cv_error *error);
void ocr_engine_free(struct ocr_engine *engine);
CV_DEFINE_CLEANUP(struct ocr_engine *, ocr_engine_free)

/* The names of its models, as they are installed, joined with '+'. */
const char *ocr_engine_languages(const struct ocr_engine *engine);

/* Its models one by one; NULL behind the last. */
const char *ocr_engine_model(const struct ocr_engine *engine, size_t index);

/* Gives it other models, as ocr_engine_new does. *ret_changed: they are not those that it had, in that order. */
CV_MUST_CHECK int ocr_engine_set_models(struct ocr_engine *engine, const char *const *languages,
                                        size_t count, bool *ret_changed, struct cv_error *error);

/* What collects the lines that are read, so that models are chosen by them; NULL: nothing does. The engine frees it. */
struct ocr_choice;
void ocr_engine_set_choice(struct ocr_engine *engine, struct ocr_choice *choice);
struct ocr_choice *ocr_engine_choice(const struct ocr_engine *engine);

/* Notes each reading from now on, of the line reasons->reading, which the engine borrows; NULL: does not. */
void ocr_engine_explain(struct ocr_engine *engine, struct cv_reasons *reasons);
struct cv_reasons *ocr_engine_reasons(const struct ocr_engine *engine);

/* The columns of pixels that its models have read so far, of all pictures: the measure of its work.
 * A picture of a line is about 40 pixels high; a column takes a model about 20 microseconds. */
int64_t ocr_engine_columns(const struct ocr_engine *engine);

/* One reading of one line. */
struct ocr_reading {
    char *text;        /* UTF-8, single blanks, none at the ends; "" when nothing was read */
    double confidence; /* 0…1: mean over the words, by length */
    double worst_word; /* 0…1: of the least sure word */
    double agreement;  /* 0…1: how alike two ways of reading it were; 1 where one was enough */
    char language[OCR_LANGUAGE_NAME_MAX]; /* that most letters were read in */
};

void ocr_reading_deinit(struct ocr_reading *reading);
CV_DEFINE_CLEANUP_ADDRESS(struct ocr_reading, ocr_reading_deinit)

/* What stands in the line and was read otherwise: an emoji, a special character. */
struct ocr_insert {
    int left, right; /* pixels of the picture; right exclusive */
    const char *text;
};

/* Whether a blank stands between two emoji whose middles are that far apart: they advance by 1.25 em,
 * with a blank by 1.5 em; an em is 1.4 capitals. */
static inline bool ocr_inserts_apart(int left_middle, int right_middle, int tall)
{
    return (right_middle - left_middle) * 10 > tall * 19;
}

enum ocr_dictionary {
    OCR_WITH_WORDS,
    OCR_WITHOUT_WORDS,
    OCR_OTHER_MODEL, /* without words, too, and by the next model: it misreads in other ways */
};

/* A grey picture of one line, dark on light, and how to read it. */
struct ocr_line_picture {
    enum ocr_dictionary dictionary;
    const char *language; /* of the first reading; NULL: this is it */
    const uint8_t *grey;
    int width, height;
    int tall; /* pixels of capital height */
    /* From left to right; they come into the text between the words that stand before and behind
     * them, with a blank where the page has one. */
    const struct ocr_insert *inserts;
    size_t insert_count;
};

/* Whether a pixel of the picture is nearer to ink than to paper. */
static inline bool ocr_line_has_ink(const struct ocr_line_picture *line, int x, int y)
{
    return line->grey[(size_t)y * (size_t)line->width + (size_t)x] < 128;
}

/* CV_OCR_NO_OTHER: there is no other model for a line of that language. */
enum { CV_OCR_NO_OTHER = 1 };
CV_MUST_CHECK int ocr_engine_read(struct ocr_engine *engine, const struct ocr_line_picture *line,
                                  struct ocr_reading *ret_reading, struct cv_error *error);

struct ocr_words;

/* The words of a line, uncorrected: by the first model where that tells the languages of lines (ocr_language_first_tells), else
 * by each model in turn until none may read a word better. Free with ocr_words_deinit. */
CV_MUST_CHECK int ocr_engine_read_words(struct ocr_engine *engine,
                                        const struct ocr_line_picture *line,
                                        struct ocr_words *ret_words, struct cv_error *error);

/* The lines to come have nothing to do with those before them, whose language the engine takes for
 * that of lines too short to tell. */
void ocr_engine_turn_page(struct ocr_engine *engine);
