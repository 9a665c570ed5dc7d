#include "workers/segment_index/merge/similar.h"

#include <string.h>
#include <utf8proc.h>

enum {
    /* Longer texts are compared by their beginning; a line of a screen has less than 200 letters. */
    MAX_LETTERS = CV_EDITS_MAX,
    /* Shorter texts are readings of one another only when their skeletons are equal. */
    MIN_FUZZY = 5,
};

static uint64_t mix(uint64_t hash, uint64_t value)
{
    return (hash ^ value) * 0x100000001B3ULL; /* FNV-1a */
}

static int32_t skeleton_letter(int32_t point)
{
    switch (point) {
    case '0':
        return 'o';
    case '1':
    case 'i':
    case '|':
    case '!':
    case 0x131: /* dotless i */
        return 'l';
    case '5':
        return 's';
    case '8':
        return 'b';
    default:
        return point;
    }
}

static bool is_kept(int32_t point)
{
    utf8proc_category_t category = utf8proc_category(point);
    bool letter_or_digit = category >= UTF8PROC_CATEGORY_LU && category <= UTF8PROC_CATEGORY_LO;
    return letter_or_digit || category == UTF8PROC_CATEGORY_ND ||
           category == UTF8PROC_CATEGORY_NL || category == UTF8PROC_CATEGORY_NO ||
           (point && point < 0x80 && strchr("|@#%", (char)point));
}

/* Puts the skeleton of `length` bytes of valid UTF-8 into `skeleton`; returns the number of its letters. */
static size_t make_skeleton(const char *text, size_t length, int32_t *skeleton, size_t capacity)
{
    size_t count = 0;
    for (size_t at = 0; at < length && count < capacity;) {
        int32_t point, parts[8];
        utf8proc_ssize_t taken = utf8proc_iterate((const utf8proc_uint8_t *)text + at,
                                                  (utf8proc_ssize_t)(length - at), &point);
        if (taken <= 0) {
            at++;
            continue;
        }
        at += (size_t)taken;
        int boundary = 0;
        utf8proc_ssize_t made = utf8proc_decompose_char(
            point, parts, (utf8proc_ssize_t)CV_COUNT(parts), UTF8PROC_DECOMPOSE, &boundary);
        if (made < 1 || !is_kept(parts[0])) {
            continue;
        }
        int32_t letter = skeleton_letter(parts[0]);
        if (count > 0 && skeleton[count - 1] == 'r' && letter == 'n') {
            skeleton[count - 1] = 'm';
        } else if (count > 0 && skeleton[count - 1] == 'v' && letter == 'v') {
            skeleton[count - 1] = 'w';
        } else {
            skeleton[count++] = letter;
        }
    }
    return count;
}

int cv_text_key_init(struct cv_text_key *key, const char *normalized, struct cv_error *error)
{
    size_t length = strlen(normalized);
    size_t capacity = length < MAX_LETTERS ? length : MAX_LETTERS;
    *key = (struct cv_text_key){.normalized = normalized,
                                .hash = cv_hash(CV_HASH_BEGIN, normalized, length)};
    key->skeleton = malloc((capacity + 1) * sizeof(*key->skeleton));
    CV_TRY_MEMORY(key->skeleton, error, "comparing texts");
    key->count = make_skeleton(normalized, length, key->skeleton, capacity);
    for (size_t i = 0; i < length; i++) {
        if (normalized[i] >= '0' && normalized[i] <= '9') {
            key->digits = mix(key->digits + 1, (unsigned char)normalized[i]);
        }
    }
    return 0;
}

void cv_text_key_deinit(struct cv_text_key *key)
{
    free(key->skeleton);
    key->skeleton = NULL;
}

/* The next word of `*text` that has letters; 0 at the end. */
static size_t next_word(const char **text, int32_t *skeleton)
{
    while (**text) {
        size_t length = strcspn(*text, " ");
        size_t count = make_skeleton(*text, length, skeleton, MAX_LETTERS);
        *text += length + ((*text)[length] == ' ');
        if (count > 0) {
            return count;
        }
    }
    return 0;
}

/* Noise leaves every word recognisable. Where the words pair up, one that is quite another word
 * tells two lines apart, however long they are. */
static bool words_agree(const char *first, const char *second)
{
    int32_t a[MAX_LETTERS], b[MAX_LETTERS];
    const char *first_rest = first, *second_rest = second;
    bool all_close = true;
    for (;;) {
        size_t a_count = next_word(&first_rest, a), b_count = next_word(&second_rest, b);
        if (!a_count || !b_count) {
            /* words that do not pair up were split or joined: the distance of the whole decides */
            return all_close || a_count || b_count;
        }
        size_t longer = a_count > b_count ? a_count : b_count;
        size_t allowed = longer < 4 ? 0 : longer < 8 ? 1 : 2;
        all_close = all_close && cv_edits(a, a_count, b, b_count, sizeof(*a), allowed) <= allowed;
    }
}

const char *cv_text_difference(const struct cv_text_key *first, const struct cv_text_key *second)
{
    size_t shorter = first->count < second->count ? first->count : second->count;
    size_t allowed = shorter < MIN_FUZZY ? 0 : shorter < 10 ? 1 : shorter * 12 / 100;
    size_t distance = cv_edits(first->skeleton, first->count, second->skeleton, second->count,
                               sizeof(*first->skeleton), allowed);

    if (!shorter || distance > allowed) {
        return "too many letters differ";
    }
    if (distance && first->digits != second->digits) {
        return "their numbers differ";
    }
    /* one letter of a long line is noise even where it makes another short word */
    bool is_noise = !distance || (distance == 1 && shorter >= 20) ||
                    words_agree(first->normalized, second->normalized);
    return is_noise ? NULL : "a word is another one";
}

enum cv_likeness cv_text_likeness(const struct cv_text_key *first, const struct cv_text_key *second)
{
    if (first->hash == second->hash && strcmp(first->normalized, second->normalized) == 0) {
        return CV_LIKENESS_SAME;
    }
    return cv_text_difference(first, second) ? CV_LIKENESS_NONE : CV_LIKENESS_READING;
}
