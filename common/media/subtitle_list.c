/* Apart from what reads tracks, so that programs with lists alone do not load FFmpeg. */
#include "common/media/subtitles.h"

#include <string.h>

enum {
    PAUSE_MS = 250 /* between two events of a line that stays; editors leave up to 10 frames */
};

void cv_subtitle_list_deinit(struct cv_subtitle_list *list)
{
    for (size_t i = 0; i < list->count; i++) {
        free(list->items[i].text);
    }
    free(list->items);
    *list = (struct cv_subtitle_list){0};
}

/* Appends a character; white space becomes one blank, and none at the beginning of a row. A line break
 * begins a new row if this one is not empty. */
static void append_character(char *line, size_t *length, char c)
{
    bool is_blank = (unsigned char)c <= ' ' || c == 0x7f;
    if (c == '\n' && *length > 0 && line[*length - 1] == ' ') {
        (*length)--;
    }
    char before = *length > 0 ? line[*length - 1] : '\n';
    if (!is_blank || (c == '\n' ? before != '\n' : before != ' ' && before != '\n')) {
        line[(*length)++] = (char)(c == '\n' || !is_blank ? c : ' ');
    }
}

/* Ends a text that may have been cut within a character. */
static void end_text(char *line, size_t length, bool is_cut)
{
    while (is_cut && length > 0 && ((unsigned char)line[length - 1] & 0xc0) == 0x80) {
        length--;
    }
    if (is_cut && length > 0 && (unsigned char)line[length - 1] >= 0xc0) {
        length--;
    }
    while (length > 0 && (line[length - 1] == ' ' || line[length - 1] == '\n')) {
        length--;
    }
    line[length] = '\0';
}

static int add_line(struct cv_subtitle_list *list, const struct cv_subtitle *line,
                    struct cv_error *error)
{
    if (list->count == CV_SUBTITLE_LINES_MAX) {
        return 0;
    }
    CV_TRY_MEMORY(CV_MAKE_ROOM(list->items, list->count), error, "subtitles");
    list->items[list->count] = *line;
    list->items[list->count].text = strdup(line->text);
    CV_TRY_MEMORY(list->items[list->count].text, error, "subtitles");
    list->count++;
    return 0;
}

int cv_subtitle_list_add(struct cv_subtitle_list *list, const struct cv_subtitle *said,
                         struct cv_error *error)
{
    char text[CV_SUBTITLE_BYTES_MAX + 1];
    struct cv_subtitle line = *said;
    size_t length = 0;
    const char *c = said->text;
    for (; *c && length < CV_SUBTITLE_BYTES_MAX; c++) {
        append_character(text, &length, *c);
    }
    end_text(text, length, *c != '\0');
    line.text = text;
    return text[0] ? add_line(list, &line, error) : 0;
}

/* By language and text, then by time: what is to become one line is side by side. */
static int compare_texts(const void *left, const void *right)
{
    const struct cv_subtitle *a = left, *b = right;
    int language = strcmp(a->language, b->language);
    int text = language ? language : strcmp(a->text, b->text);
    return text ? text : (a->start_ms > b->start_ms) - (a->start_ms < b->start_ms);
}

static int compare_times(const void *left, const void *right)
{
    const struct cv_subtitle *a = left, *b = right;
    int start = (a->start_ms > b->start_ms) - (a->start_ms < b->start_ms);
    return start ? start : compare_texts(left, right);
}

/* Whether `next` begins with the last rows of `last`, and one of them has others, too. */
static bool rolls_up(const struct cv_subtitle *last, const struct cv_subtitle *next)
{
    size_t length = strlen(last->text);
    if (strcmp(last->language, next->language) != 0 || next->start_ms > last->end_ms + PAUSE_MS ||
        strcmp(last->text, next->text) == 0) {
        return false;
    }
    for (const char *end = next->text; *end;) {
        end += 1 + strcspn(end + 1, "\n");
        size_t size = (size_t)(end - next->text);
        if (size <= length && memcmp(last->text + length - size, next->text, size) == 0 &&
            (size == length || last->text[length - size - 1] == '\n')) {
            return true;
        }
    }
    return false;
}

/* Makes of each row of roll-up captions, of which every event repeats the last rows of the one before, a
 * line of its own; of other events one line. The list is in the order of times. */
static int split_rows(struct cv_subtitle_list *list, struct cv_error *error)
{
    size_t count = list->count;
    cv_auto_free bool *rolls = calloc(count, sizeof(*rolls));
    CV_TRY_MEMORY(rolls, error, "subtitles");
    for (size_t i = 0; i < count; i++) {
        for (size_t j = i > CV_SUBTITLE_TRACKS_MAX ? i - CV_SUBTITLE_TRACKS_MAX : 0; j < i; j++) {
            bool goes_on = rolls_up(&list->items[j], &list->items[i]);
            rolls[i] = rolls[i] || goes_on;
            rolls[j] = rolls[j] || goes_on;
        }
    }
    for (size_t i = 0; i < count; i++) {
        for (char *end; (end = strchr(list->items[i].text, '\n'));) {
            struct cv_subtitle row = list->items[i];
            *end = rolls[i] ? '\0' : ' ';
            if (rolls[i]) {
                CV_TRY(add_line(list, &row, error));
                memmove(row.text, end + 1, strlen(end + 1) + 1);
            }
        }
    }
    return 0;
}

int cv_subtitles_finish(struct cv_subtitle_list *list, struct cv_error *error)
{
    size_t kept = 0;
    if (list->count == 0) {
        return 0;
    }
    qsort(list->items, list->count, sizeof(*list->items), compare_times);
    CV_TRY(split_rows(list, error));
    qsort(list->items, list->count, sizeof(*list->items), compare_texts);
    for (size_t i = 1; i < list->count; i++) {
        struct cv_subtitle *last = &list->items[kept], *next = &list->items[i];
        if (strcmp(last->language, next->language) == 0 && strcmp(last->text, next->text) == 0 &&
            next->start_ms <= last->end_ms + PAUSE_MS) {
            last->end_ms = next->end_ms > last->end_ms ? next->end_ms : last->end_ms;
            free(next->text);
        } else {
            list->items[++kept] = *next;
        }
    }
    list->count = kept + 1;
    qsort(list->items, list->count, sizeof(*list->items), compare_times);
    return 0;
}
