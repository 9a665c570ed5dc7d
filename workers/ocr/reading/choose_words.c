#include "workers/ocr/reading/choose_words.h"

#include "workers/ocr/reading/language.h"
#include "workers/ocr/reading/word_weights.h"

#include <math.h>
#include <string.h>
#include <utf8proc.h>

enum {
    LONG = 8,  /* characters; more tell no more */
    SHORT = 2, /* characters that are read in any script */
    OVERLAP =
        4, /* words are apart if at most one part in so many of the narrower one is in the other */
    LETTERS_END = 0x250, /* Latin letters end here … */
    MORE_FROM = 0x1E00,  /* … but for those with two accents */
    MORE_END = 0x1F00,
    UNLIKE_FROM = 0x590,  /* from Hebrew on, letters look like no Latin ones … */
    UNLIKE_MORE = 0x2000, /* … but for the Greek ones before this */
    SQUARE_FROM = 0x2E80, /* Han, kana, Hangul */
};

/* Below it a reading is a guess. */
static const double GUESS = 0.75;

/* A word of which its model is less sure may be one of another script. In drawn lines, 94 of 100
 * words that are read right are as sure as this. */
static const double SURE = 0.85;

/* Neighbours are more often of one script than not: what a change of models has to bring, in
 * capitals of surely read words. */
static const double CHANGE = 0.05;

struct letters {
    int characters, native, latin, digits, marks;
    bool is_unlike, is_square, has_capital_within, has_digit_beside;
};

static bool is_letter(utf8proc_category_t category)
{
    return category >= UTF8PROC_CATEGORY_LU && category <= UTF8PROC_CATEGORY_LO;
}

static bool is_accent(utf8proc_category_t category)
{
    return category >= UTF8PROC_CATEGORY_MN && category <= UTF8PROC_CATEGORY_ME;
}

static bool is_latin(utf8proc_int32_t point)
{
    return point < LETTERS_END || (point >= MORE_FROM && point < MORE_END);
}

static void count(struct letters *letters, utf8proc_int32_t point, utf8proc_category_t category,
                  utf8proc_category_t before)
{
    bool digit = category == UTF8PROC_CATEGORY_ND, digit_before = before == UTF8PROC_CATEGORY_ND;

    letters->native += is_letter(category) && !is_latin(point);
    letters->latin += is_letter(category) && is_latin(point);
    letters->is_square |= is_letter(category) && point >= SQUARE_FROM;
    letters->is_unlike |=
        is_letter(category) && point >= UNLIKE_FROM && (point < MORE_FROM || point >= UNLIKE_MORE);
    letters->digits += digit;
    letters->marks += !is_letter(category) && !digit;
    letters->has_capital_within |=
        category == UTF8PROC_CATEGORY_LU && before == UTF8PROC_CATEGORY_LL;
    letters->has_digit_beside |=
        (digit && is_letter(before)) || (digit_before && is_letter(category));
}

static struct letters letters_of(const char *text)
{
    struct letters letters = {0};
    utf8proc_category_t before = UTF8PROC_CATEGORY_CN;

    while (*text) {
        utf8proc_int32_t point;
        size_t size = ocr_next_point(text, &point);
        utf8proc_category_t category = utf8proc_category(point);
        if (!is_accent(category)) {
            letters.characters++;
            count(&letters, point, category, before);
            before = category;
        }
        text += size;
    }
    return letters;
}

/* How sure the model is of the letters and digits of a word, at the least and in the mean: it is
 * often unsure of quotes. */
static void letters_sure(const struct ocr_words *words, const struct ocr_word *word,
                         double *ret_worst, double *ret_mean)
{
    double worst = 1, sum = 0;
    int count = 0;

    for (size_t i = 0; i < word->symbol_count; i++) {
        const struct ocr_symbol *symbol = &words->symbols[word->first_symbol + i];
        if (letters_of(symbol->text).marks == 0) {
            worst = fmin(worst, symbol->sure);
            sum += symbol->sure;
            count++;
        }
    }
    *ret_worst = count ? worst : word->sure;
    *ret_mean = count ? sum / count : word->sure;
}

void ocr_word_features(const struct ocr_words *words, size_t index,
                       double features[OCR_WORD_FEATURE_COUNT])
{
    const struct ocr_word *word = &words->items[index];
    struct letters letters = letters_of(word->text);
    double native = !ocr_language_is_latin(word->language);
    bool is_bare = letters.native + letters.latin == 0;

    letters_sure(words, word, &features[OCR_WORD_WORST], &features[OCR_WORD_MEAN]);
    features[OCR_WORD_BIAS] = 1;
    features[OCR_WORD_NATIVE] = native;
    features[OCR_WORD_SURE] = word->sure;
    features[OCR_WORD_DOUBT] = fmax(GUESS - word->sure, 0);
    features[OCR_WORD_NATIVE_SURE] = native * word->sure;
    features[OCR_WORD_NATIVE_LATIN] = native * (letters.latin && !letters.native);
    features[OCR_WORD_NATIVE_MIXED] = native * (letters.latin && letters.native);
    features[OCR_WORD_NATIVE_BARE] = native * is_bare;
    features[OCR_WORD_LATIN_BARE] = (1 - native) * is_bare;
    features[OCR_WORD_LENGTH] = (double)cv_min(letters.characters, LONG) / LONG;
    features[OCR_WORD_SHORT] = letters.characters <= SHORT;
    features[OCR_WORD_NATIVE_SHORT] = native * (letters.characters <= SHORT);
    features[OCR_WORD_CAPITALS] = letters.has_capital_within;
    features[OCR_WORD_DIGITS] = letters.has_digit_beside;
    features[OCR_WORD_MARKS] = (double)letters.marks / cv_max(letters.characters, 1);
    features[OCR_WORD_LISTED] = word->is_listed;
    features[OCR_WORD_NATIVE_LISTED] = native * word->is_listed;
}

double ocr_word_likelihood(const struct ocr_words *words, size_t index)
{
    double features[OCR_WORD_FEATURE_COUNT], sum = 0;

    ocr_word_features(words, index, features);
    for (int i = 0; i < OCR_WORD_FEATURE_COUNT; i++) {
        sum += OCR_WORD_WEIGHTS[i] * features[i];
    }
    return 1 / (1 + exp(-sum));
}

bool ocr_words_are_doubtful(const struct ocr_words *words)
{
    bool is_doubtful = words->count == 0;

    for (size_t i = 0; i < words->count && !is_doubtful; i++) {
        const struct ocr_word *word = &words->items[i];
        struct letters letters = letters_of(word->text);
        bool is_own = letters.is_unlike || word->is_listed;
        bool is_native = !ocr_language_is_latin(word->language);
        is_doubtful = word->sure < SURE || (letters.native + letters.latin > 0 && !is_own) ||
                      (is_native && !letters.native && letters.latin + letters.digits > 0);
    }
    return is_doubtful;
}

/* Strokes of something else are read as words of one or two letters, or as single ideographs that are in no list, a dash as
 * the numeral one; Thai words are read letter by letter, without blanks. */
static bool may_be_strokes(const struct ocr_word *word, const struct letters *letters)
{
    bool is_listed = word->is_listed && strcmp(word->text, "一") != 0;

    return letters->is_square ? letters->characters == 1 && !is_listed
                              : letters->characters <= SHORT && word->blank != OCR_BLANK_NONE;
}

/* The share of a line's letters that a model has to win. Where each letter is a word, as in Thai, some of any text are won: of
 * Latin addresses 0.64 at most (28 lines), of Thai lines 0.77 and more (8 lines; all looked at). */
static const double OWN_SHARE = 0.5, OWN_SHARE_APART = 0.7;

double ocr_words_letters_by(const struct ocr_words *words, const char *model,
                            struct cv_buffer *text)
{
    bool is_latin_model = ocr_language_is_latin(model);
    double own = 0, others = 0;
    int apart = 0; /* words without a blank before them, less the others */

    for (size_t i = 0; i < words->count; i++) {
        const struct ocr_word *word = &words->items[i];
        struct letters letters = letters_of(word->text);
        int count = letters.latin + letters.native * (letters.is_square ? 2 : 1);
        bool is_own = (letters.native > letters.latin) != is_latin_model &&
                      strcmp(word->language, model) == 0;
        if (is_own && word->sure >= SURE && !may_be_strokes(word, &letters)) {
            double weighted = count * fmax(2 * ocr_word_likelihood(words, i) - 1, 0);
            own += weighted;
            others += count - weighted;
            apart += i && word->blank == OCR_BLANK_NONE && !letters.is_square ? 1 : -1;
            cv_buffer_printf(text, "%s ", word->text);
        } else {
            others += count;
        }
    }
    double least = apart > 0 ? OWN_SHARE_APART : OWN_SHARE;
    return own > least * (own + others) ? own / (apart > 0 ? 2 : 1) : 0;
}

/* A word that may be taken. */
struct candidate {
    const struct ocr_words *words;
    size_t index;
    int left, right; /* without what it shares with the words beside it */
    int place;       /* twice its middle, and no less than that of the word before it */
    double worth;    /* of it and of the best words before it */
    size_t before;   /* of them the last one; SIZE_MAX: there is none */
};

static const char *text_of(const struct candidate *candidate)
{
    return candidate->words->items[candidate->index].text;
}

static int compare_places(const void *left, const void *right)
{
    const struct candidate *a = left, *b = right;
    int order = (a->place > b->place) - (a->place < b->place);

    return order ? order : (a->index > b->index) - (a->index < b->index);
}

/* Whether letters that are written from the right outweigh the others. */
static bool is_from_right(const struct ocr_words *words)
{
    size_t from_right = 0, latin = 0;

    for (size_t i = 0; i < words->count; i++) {
        from_right += ocr_word_is_from_right(words->items[i].text);
        latin += letters_of(words->items[i].text).latin > 0;
    }
    return from_right > latin;
}

/* The words of one reading from left to right: in the order in which they were read, where that
 * is from the left, because boxes of characters without blanks overlap and may even change
 * places. Each ends where the next one begins. */
static void add_candidates(const struct ocr_words *words, struct candidate *candidates)
{
    for (size_t i = 0; i < words->count; i++) {
        const struct ocr_word *word = &words->items[i];
        candidates[i] = (struct candidate){.words = words,
                                           .index = i,
                                           .left = word->left,
                                           .right = word->right,
                                           .place = word->left + word->right,
                                           .before = SIZE_MAX};
    }
    if (is_from_right(words)) {
        qsort(candidates, words->count, sizeof(*candidates), compare_places);
    }
    for (size_t i = 0; i + 1 < words->count; i++) {
        struct candidate *one = &candidates[i], *next = one + 1;
        next->place = cv_max(next->place, one->place);
        if (next->left < one->right) {
            one->right = cv_max(
                one->left, (cv_min(one->right, next->right) + cv_max(one->left, next->left)) / 2);
            next->left = one->right;
            next->right = cv_max(next->right, next->left);
        }
    }
}

static bool is_behind(const struct candidate *next, const struct candidate *one)
{
    int narrow = cv_min(next->right - next->left, one->right - one->left);

    return next->words == one->words || ((one->right - next->left) * OVERLAP <= narrow &&
                                         one->left <= next->left && one->right <= next->right);
}

/* The last word of the best sequence. */
static size_t find_best(struct candidate *candidates, size_t count, int tall)
{
    size_t best = 0;

    for (size_t i = 0; i < count; i++) {
        struct candidate *next = &candidates[i];
        double before = 0;
        for (size_t k = 0; k < i; k++) {
            const struct candidate *one = &candidates[k];
            double worth = one->worth - (one->words != next->words ? CHANGE * tall : 0);
            if (worth > before && is_behind(next, one)) {
                before = worth;
                next->before = k;
            }
        }
        next->worth = before + cv_max(next->right - next->left, 1) *
                                   ocr_word_likelihood(next->words, next->index);
        best = next->worth > candidates[best].worth ? i : best;
    }
    return best;
}

/* Appends a word; `before` is the one that was appended last, NULL for the first. */
static int copy_word(const struct candidate *candidate, const struct candidate *before,
                     struct ocr_words *words, struct cv_error *error)
{
    struct ocr_word word = candidate->words->items[candidate->index];
    size_t first = words->symbol_count;

    word.blank = before && before->words == candidate->words ? word.blank : OCR_BLANK_BY_ROOM;
    for (size_t i = 0; i < word.symbol_count; i++) {
        CV_TRY(
            ocr_words_add_symbol(words, &candidate->words->symbols[word.first_symbol + i], error));
    }
    word.first_symbol = first;
    return ocr_words_add(words, &word, error);
}

/* Reverses path[from] … path[to - 1]. */
static void reverse(size_t *path, size_t from, size_t to)
{
    while (from + 1 < to) {
        size_t swap = path[from];
        path[from++] = path[--to];
        path[to] = swap;
    }
}

/* Orders words from the right as they are read, but for Latin ones, which stand from left to right among them. */
static void order_from_right(const struct candidate *candidates, size_t *path, size_t count)
{
    reverse(path, 0, count);
    for (size_t from = 0, to; from < count; from = to + 1) {
        for (to = from; to < count && letters_of(text_of(&candidates[path[to]])).latin; to++) {
        }
        reverse(path, from, to);
    }
}

int ocr_words_choose(struct ocr_words *words, const struct ocr_words *others, int tall,
                     struct cv_error *error)
{
    cv_auto(ocr_words_deinit) struct ocr_words chosen = {0};
    size_t count = words->count + others->count, length = 0;

    if (count == 0) {
        return 0;
    }
    cv_auto_free struct candidate *candidates = calloc(count, sizeof(*candidates));
    cv_auto_free size_t *path = calloc(count, sizeof(*path));
    CV_TRY_MEMORY(candidates && path, error, "the words of a line");
    add_candidates(words, candidates);
    add_candidates(others, candidates + words->count);
    qsort(candidates, count, sizeof(*candidates), compare_places);
    for (size_t at = find_best(candidates, count, tall); at != SIZE_MAX;
         at = candidates[at].before) {
        path[length++] = at;
    }
    reverse(path, 0, length);
    if (is_from_right(words) || is_from_right(others)) {
        order_from_right(candidates, path, length);
    }
    for (size_t i = 0; i < length; i++) {
        CV_TRY(
            copy_word(&candidates[path[i]], i ? &candidates[path[i - 1]] : NULL, &chosen, error));
    }
    struct ocr_words before = *words;
    *words = chosen;
    chosen = before;
    return 0;
}
