#include "workers/ocr/tracks/accept.h"

#include "workers/ocr/reading/reading.h"
#include "workers/ocr/tracks/accept_weights.h"

#include <math.h>
#include <string.h>
#include <utf8proc.h>

enum {
    SHORT_LETTERS = 3,
    PICTOGRAPHS = 0x2190, /* below are ©, ®, ° and the like, which borders are read as */
    WORDS_NEAR = 10,      /* letter heights between a short line and its company, up or down */
    WORDS_BESIDE = 30,    /* … and sideways: an age or a count stands at the end of its line */
    SMALL_TALL = 14,      /* pixels of capital height below which codecs blur letters */
    MOMENT_MS = 2000,     /* what stands longer is no more likely for it */
    KEPT_MS = 500,        /* of what is refused, that which stood for a moment is not kept */
};

/* Characters. The truth of the recordings does not name each digit, so that the model learns nothing of readings this
 * short; taken for names, corners of a film were read as "4" 21 times in 14 s. */
enum { UNFITTED = 2 };

/* Letters on plain paper have it, corners of pictures seldom: kept though they stood for a moment. */
static const double KEPT_CLARITY = 0.92;
static const double COMPANY_CONFIDENCE = 0.80;
/* Below it a reading is a guess, and gets unlikely faster than above it. */
static const double GUESS = 0.75;
/* Characters a capital's height is wide, of usual faces (0.55 to 0.9 with their gaps). */
static const double CHARACTER_WIDTH = 0.72;

/* Pixels between two ranges; 0 when they touch. */
static int gap(int a_from, int a_to, int b_from, int b_to)
{
    return cv_max(0, cv_max(b_from - a_to, a_from - b_to));
}

static bool is_company(const struct ocr_track *words, const struct ocr_track *line)
{
    const struct cv_box *a = &words->box, *b = &line->box;
    int tall = cv_min(words->crop.tall, line->crop.tall);

    return words->present && words->is_read && words->weight == OCR_WEIGHT_WORDS &&
           words->reading.confidence >= COMPANY_CONFIDENCE &&
           words->crop.ink.kind == line->crop.ink.kind &&
           words->crop.tall * 3 >= line->crop.tall * 2 &&
           words->crop.tall * 2 <= line->crop.tall * 3 &&
           gap(a->y, cv_box_bottom(a), b->y, cv_box_bottom(b)) <= WORDS_NEAR * tall &&
           gap(a->x, cv_box_right(a), b->x, cv_box_right(b)) <= WORDS_BESIDE * tall;
}

void ocr_mark_company(struct ocr_tracks *tracks)
{
    for (size_t i = 0; i < tracks->count; i++) {
        struct ocr_track *line = tracks->items[i];
        if (!line->present || !line->is_read || line->has_company ||
            line->weight != OCR_WEIGHT_SHORT) {
            continue;
        }
        for (size_t k = 0; k < tracks->count && !line->has_company; k++) {
            line->has_company = is_company(tracks->items[k], line);
        }
    }
}

/* What a text's characters say of it. */
struct statistics {
    int characters; /* blanks are none */
    int wide;       /* of them ideographs, syllables and emoji: as wide as two */
    int emoji;      /* of them; each was compared with its picture already and proves a word */
    int letters, digits, marks, words, singles, cased, capitals_within;
    int without_vowels; /* words of Latin letters, three and more */
};

struct word {
    int characters, letters, vowels, latin, digits;
    bool was_small;
};

static bool is_vowel(utf8proc_int32_t point)
{
    utf8proc_int32_t small = utf8proc_tolower(point);

    /* Letters with an accent are nearly always vowels; a y stands for one. */
    return small < 128 ? strchr("aeiouy", (int)small) != NULL : true;
}

static void end_word(struct statistics *all, struct word *word)
{
    if (word->characters) {
        all->words++;
        all->digits += word->digits;
        all->singles += word->characters == 1 && !word->digits;
        all->without_vowels += word->latin >= 3 && !word->vowels && !word->digits;
    }
    *word = (struct word){0};
}

static void count_letter(struct statistics *all, struct word *word, utf8proc_int32_t point,
                         utf8proc_category_t category)
{
    bool is_capital = category == UTF8PROC_CATEGORY_LU;

    all->letters++;
    word->letters++;
    all->cased += category != UTF8PROC_CATEGORY_LO;
    all->capitals_within += is_capital && word->was_small;
    word->was_small = category == UTF8PROC_CATEGORY_LL;
    if (point < 0x250) {
        word->latin++;
        word->vowels += is_vowel(point);
    }
}

static void count_point(struct statistics *all, struct word *word, utf8proc_int32_t point)
{
    utf8proc_category_t category = utf8proc_category(point);

    if (point == ' ') {
        end_word(all, word);
        return;
    }
    all->characters++;
    bool is_emoji = category == UTF8PROC_CATEGORY_SO && point >= PICTOGRAPHS && point != 0xFFFD;
    all->wide += category == UTF8PROC_CATEGORY_LO || is_emoji;
    all->emoji += is_emoji;
    word->characters++;
    if (category >= UTF8PROC_CATEGORY_LU && category <= UTF8PROC_CATEGORY_LO) {
        count_letter(all, word, point, category);
    } else if (category == UTF8PROC_CATEGORY_ND) {
        word->digits++;
    } else if (point < PICTOGRAPHS && !(point < 128 && strchr(".,:;!?'\"()-/@#&%+", (int)point))) {
        all->marks++;
    }
}

static struct statistics statistics_of(const char *text)
{
    struct statistics all = {0};
    struct word word = {0};

    while (*text) {
        utf8proc_int32_t point;
        text += ocr_next_point(text, &point);
        count_point(&all, &word, point);
    }
    end_word(&all, &word);
    return all;
}

enum ocr_weight ocr_text_weight(const char *text)
{
    struct statistics all = statistics_of(text);
    int ideographs = all.wide - all.emoji;
    int letters = all.letters + ideographs + all.digits + (SHORT_LETTERS + 1) * all.emoji;

    return letters == 0               ? OCR_WEIGHT_NONE
           : letters <= SHORT_LETTERS ? OCR_WEIGHT_SHORT
                                      : OCR_WEIGHT_WORDS;
}

static double share_of(int part, int whole)
{
    return whole > 0 ? (double)part / whole : 0;
}

static void add_text(const struct ocr_row *row, int width, double *features)
{
    struct statistics text = statistics_of(row->text);
    double room = (double)row->tall * CHARACTER_WIDTH * (text.characters + text.wide);

    int letters = text.characters + text.wide + SHORT_LETTERS * text.emoji;
    features[OCR_FEATURE_LETTERS] = log2(1 + cv_min(letters, 32)) / 5;
    features[OCR_FEATURE_MARKS] = share_of(text.marks, text.characters);
    features[OCR_FEATURE_SINGLES] = share_of(text.singles, text.words);
    features[OCR_FEATURE_CASES] = share_of(text.capitals_within, text.cased);
    features[OCR_FEATURE_VOWELS] = share_of(text.without_vowels, text.words);
    features[OCR_FEATURE_NAME] = text.characters > UNFITTED && ocr_text_has_entity(row->text);
    features[OCR_FEATURE_DENSITY] = room > 0 && width > 0 ? fmin(fabs(log(width / room)), 1.5) : 0;
}

void ocr_features_of(const struct ocr_row *row, const struct ocr_standing *standing,
                     double features[OCR_FEATURE_COUNT])
{
    bool is_short = row->weight == OCR_WEIGHT_SHORT;
    double moment = (double)standing->lasted_ms / MOMENT_MS;

    memset(features, 0, sizeof(*features) * OCR_FEATURE_COUNT);
    features[OCR_FEATURE_BIAS] = 1;
    features[OCR_FEATURE_CONFIDENCE] = row->confidence;
    features[OCR_FEATURE_DOUBT] = fmax(GUESS - row->confidence, 0);
    features[OCR_FEATURE_WORST] = row->worst_word;
    features[OCR_FEATURE_AGREEMENT] = row->agreement;
    features[OCR_FEATURE_CLARITY] = row->ink.clarity;
    features[OCR_FEATURE_PICTURE] = row->ink.kind != CV_INK_FLAT;
    features[OCR_FEATURE_FAINT] = row->ink.is_faint;
    features[OCR_FEATURE_CUT] = standing->is_cut;
    features[OCR_FEATURE_COMPANY] = row->has_company;
    features[OCR_FEATURE_SHORT] = is_short;
    features[OCR_FEATURE_SHORT_CLEAR] = is_short ? row->ink.clarity : 1;
    features[OCR_FEATURE_SHORT_ALONE] = is_short && !row->has_company;
    features[OCR_FEATURE_DURATION] = moment < 1 ? sqrt(moment) : 1;
    features[OCR_FEATURE_SMALL] = (double)cv_max(SMALL_TALL - row->tall, 0) / SMALL_TALL;
    add_text(row, standing->width, features);
}

static double log_odds(const double features[OCR_FEATURE_COUNT])
{
    double sum = 0;

    for (int i = 0; i < OCR_FEATURE_COUNT; i++) {
        sum += OCR_ACCEPT_WEIGHTS[i] * features[i];
    }
    return sum;
}

double ocr_acceptance(const struct ocr_row *row, const struct ocr_standing *standing)
{
    double features[OCR_FEATURE_COUNT];

    if (row->weight == OCR_WEIGHT_NONE) {
        return 0;
    }
    ocr_features_of(row, standing, features);
    return 1 / (1 + exp(-log_odds(features)));
}

const char *ocr_refusal(const struct ocr_row *row, const struct ocr_standing *standing)
{
#define FEATURE_WORDS(id, name, words) words,
    static const char *const reasons[] = {OCR_FEATURES(FEATURE_WORDS)};
#undef FEATURE_WORDS
    double features[OCR_FEATURE_COUNT], least = 0;
    int worst = OCR_FEATURE_BIAS;

    if (row->weight == OCR_WEIGHT_NONE) {
        return "no letter";
    }
    ocr_features_of(row, standing, features);
    for (int i = 0; i < OCR_FEATURE_COUNT; i++) {
        double against = OCR_ACCEPT_WEIGHTS[i] * (features[i] - OCR_ACCEPT_USUAL[i]);
        if (against < least) {
            least = against;
            worst = i;
        }
    }
    return reasons[worst];
}

const char *ocr_feature_name(enum ocr_feature feature)
{
#define FEATURE_NAME(id, name, words) name,
    static const char *const names[] = {OCR_FEATURES(FEATURE_NAME)};
#undef FEATURE_NAME

    return names[feature];
}

bool ocr_is_worth_keeping(const struct cv_ink *ink, int64_t lasted_ms)
{
    return lasted_ms >= KEPT_MS || ink->clarity >= KEPT_CLARITY;
}
