#include "workers/ocr/reading/choose_models.h"
#include "workers/ocr/reading/line_text.h"
#include "workers/ocr/reading/special_characters.h"

#include <ctype.h>
#include <leptonica/allheaders.h>
#include <string.h>
#include <utf8proc.h>

enum {
    TALL_FIRST = 28,  /* pixels of capital height that the models read best (20 … 30) */
    TALL_SECOND = 22, /* the second reading sees another sampling of the same letters */
    MARGIN = 12,      /* white around a line, at reading size */
    READ_WIDTH_MAX = 8192,
};

/* Below this a line is read a second time. */
static const double DOUBTFUL = 0.80;
static const double DOUBTFUL_WORD = 0.60;
/* Entity-like words are read again up to a higher confidence: word lists push them to words. */
static const double DOUBTFUL_ENTITY = 0.90;

/* Below this the own model sees no text, and another language's would only guess: half of what it
 * finds is wrong. */
static const double READABLE = 0.60;
/* By so much, in confidence and the worst word's together, another language's model has to be surer. */
static const double CLEARLY = 0.20;

struct picture {
    uint8_t *grey;
    int width, height, tall;
    int margin;   /* crop pixels around the crop */
    double scale; /* picture pixels of a crop pixel */
};

/* A line that is being read. */
struct task {
    struct ocr_engine *engine;
    const struct ocr_crop *crop;
    struct ocr_special_characters marks;
    int64_t *readings; /* counts */
};

static void paint_over(const struct task *task, const struct cv_box *box, int beside, int margin,
                       PIX *page)
{
    const struct ocr_crop *crop = task->crop;
    struct cv_box wide = {box->x - beside, box->y - beside, box->width + 2 * beside,
                          box->height + 2 * beside};

    wide = cv_box_clip(&wide, crop->width, crop->height);
    for (int y = wide.y; y < cv_box_bottom(&wide); y++) {
        l_uint32 *row = pixGetData(page) + (size_t)(y + margin) * (size_t)pixGetWpl(page);
        for (int x = wide.x; x < cv_box_right(&wide); x++) {
            SET_DATA_BYTE(row, x + margin, 255);
        }
    }
}

/* The crop with its emoji and arrows painted over, in a PIX with white around it. */
static PIX *make_page(const struct task *task, int margin)
{
    enum { BESIDE_EMOJI = 2, BESIDE_MARK = 1 };
    const struct ocr_crop *crop = task->crop;
    PIX *page = pixCreate(crop->width + 2 * margin, crop->height + 2 * margin, 8);

    if (!page) {
        return NULL;
    }
    (void)pixSetAll(page);
    for (int y = 0; y < crop->height; y++) {
        l_uint32 *row = pixGetData(page) + (size_t)(y + margin) * (size_t)pixGetWpl(page);
        for (int x = 0; x < crop->width; x++) {
            SET_DATA_BYTE(row, x + margin, crop->grey[(size_t)y * (size_t)crop->width + (size_t)x]);
        }
    }
    for (size_t i = 0; i < crop->emoji_count; i++) {
        paint_over(task, &crop->emoji[i].box, BESIDE_EMOJI, margin, page);
    }
    for (size_t i = 0; i < task->marks.count; i++) {
        const struct ocr_special_character *mark = &task->marks.items[i];
        if (!ocr_is_underscore(mark->text) && !ocr_is_middle_dot(mark->text)) {
            paint_over(task, &mark->box, BESIDE_MARK, margin, page);
        }
    }
    return page;
}

static int scale_page(const struct task *task, int tall, struct picture *ret_picture,
                      struct cv_error *error)
{
    const struct ocr_crop *crop = task->crop;
    float scale = (float)tall / (float)crop->tall;
    PIX *page, *scaled = NULL;

    scale =
        (float)crop->width * scale > READ_WIDTH_MAX ? READ_WIDTH_MAX / (float)crop->width : scale;
    int margin = (int)((float)MARGIN / scale) + 1;
    page = make_page(task, margin);
    if (page) {
        scaled = pixScaleGeneral(page, scale, scale, 0.0F, 0);
    }
    pixDestroy(&page);
    CV_TRY_MEMORY(scaled, error, "a scaled text line");
    struct picture picture = {NULL, pixGetWidth(scaled), pixGetHeight(scaled), tall, margin, scale};
    picture.grey = malloc((size_t)picture.width * (size_t)picture.height);
    for (int y = 0; picture.grey && y < picture.height; y++) {
        const l_uint32 *row = pixGetData(scaled) + (size_t)y * (size_t)pixGetWpl(scaled);
        for (int x = 0; x < picture.width; x++) {
            picture.grey[(size_t)y * (size_t)picture.width + (size_t)x] =
                (uint8_t)GET_DATA_BYTE(row, x);
        }
    }
    pixDestroy(&scaled);
    CV_TRY_MEMORY(picture.grey, error, "a scaled text line");
    *ret_picture = picture;
    return 0;
}

int ocr_scale_line(const struct ocr_crop *crop, int tall, struct ocr_scaled_line *ret_line,
                   struct cv_error *error)
{
    struct task task = {.crop = crop};
    struct picture picture = {.grey = NULL};

    CV_TRY(scale_page(&task, tall, &picture, error));
    *ret_line = (struct ocr_scaled_line){picture.grey, picture.width, picture.height};
    return 0;
}

static int compare_inserts(const void *left, const void *right)
{
    return ((const struct ocr_insert *)left)->left - ((const struct ocr_insert *)right)->left;
}

/* The emoji that were read and the marks, in pixels of the picture. */
static size_t place_inserts(const struct task *task, const struct picture *picture,
                            struct ocr_insert *inserts)
{
    const struct ocr_crop *crop = task->crop;
    size_t count = 0;

    for (size_t i = 0; i < crop->emoji_count + task->marks.count; i++) {
        bool is_emoji = i < crop->emoji_count;
        const struct ocr_special_character *mark =
            is_emoji ? NULL : &task->marks.items[i - crop->emoji_count];
        const struct cv_box *box = is_emoji ? &crop->emoji[i].box : &mark->box;
        const char *text = is_emoji ? crop->emoji[i].text : mark->text;
        if (text) {
            double left = (box->x + picture->margin) * picture->scale;
            double right = (cv_box_right(box) + picture->margin) * picture->scale;
            inserts[count++] = (struct ocr_insert){(int)left, (int)right, text};
        }
    }
    qsort(inserts, count, sizeof(*inserts), compare_inserts);
    return count;
}

/* A line of emoji alone needs no engine. */
static int read_emoji(const struct ocr_crop *crop, struct ocr_reading *ret_reading,
                      struct cv_error *error)
{
    cv_auto(cv_buffer_deinit) struct cv_buffer text = CV_BUFFER_INIT;
    const struct ocr_emoji *last = NULL;
    double least = 1;

    for (size_t i = 0; i < crop->emoji_count; i++) {
        const struct ocr_emoji *emoji = &crop->emoji[i];
        if (!emoji->text) {
            continue;
        }
        bool apart = last && ocr_inserts_apart(last->box.x + last->box.width / 2,
                                               emoji->box.x + emoji->box.width / 2, crop->tall);
        cv_buffer_printf(&text, "%s%s", apart ? " " : "", emoji->text);
        least = emoji->score < least ? emoji->score : least;
        last = emoji;
    }
    struct ocr_reading reading = {.confidence = least, .worst_word = least, .agreement = 1};
    CV_TRY(cv_buffer_detach(&text, &reading.text, error));
    *ret_reading = reading;
    return 0;
}

/* With word lists, or, where there is a reading before, as `dictionary` says. */
static int read_once(const struct task *task, int tall, enum ocr_dictionary dictionary,
                     const struct ocr_reading *before, struct ocr_reading *ret_reading,
                     struct cv_error *error)
{
    struct picture picture = {0};

    CV_TRY(scale_page(task, tall, &picture, error));
    struct ocr_insert inserts[OCR_EMOJI_LINE_MAX + OCR_SPECIAL_CHARACTERS_MAX];
    size_t insert_count = place_inserts(task, &picture, inserts);
    struct ocr_line_picture line = {
        .dictionary = dictionary,
        .language = before ? before->language : NULL,
        .grey = picture.grey,
        .width = picture.width,
        .height = picture.height,
        .tall = picture.tall,
        .inserts = inserts,
        .insert_count = insert_count,
    };
    int result = ocr_engine_read(task->engine, &line, ret_reading, error);
    free(picture.grey);
    CV_TRY(result);
    ++*task->readings;
    ret_reading->agreement = 1;
    for (char *bar = ret_reading->text; task->crop->has_no_bars && (bar = strchr(bar, '|'));) {
        *bar = 'I';
    }
    ocr_text_clean(ret_reading->text);
    return 0;
}

bool ocr_text_has_entity(const char *text)
{
    for (const char *at = text; *at; at++) {
        bool inside = at > text && isalnum((unsigned char)at[-1]) && isalnum((unsigned char)at[1]);
        if (*at == '@' || *at == '#' || isdigit((unsigned char)*at)) {
            return true;
        }
        if (inside && (*at == '.' || *at == '/' || *at == '_')) {
            return true;
        }
    }
    return false;
}

static bool is_mark_word(const char *word, size_t length)
{
    static const char *const marks[] = {"@", "#", "©", "®", "¢", "™", "°", "|", "_", "*", "\\"};

    for (size_t i = 0; i < CV_COUNT(marks); i++) {
        if (strlen(marks[i]) == length && memcmp(marks[i], word, length) == 0) {
            return true;
        }
    }
    return false;
}

/* The English pronoun at the start of a line is read as a bar: a separator has nothing before it to
 * separate there, and no small letter behind it. */
static void restore_pronoun(char *text)
{
    bool before_word = text[0] == '|' && text[1] == ' ' && islower((unsigned char)text[2]);
    bool contracted = text[0] == '|' && (text[1] == '\'' || strncmp(text + 1, "’", 3) == 0);

    if (before_word || contracted) {
        text[0] = 'I';
    }
}

void ocr_text_clean(char *text)
{
    char *to = text;
    const char *from = text;

    restore_pronoun(text);
    while (*from) {
        size_t length = strcspn(from, " ");
        if (length && !is_mark_word(from, length)) {
            if (to != text) {
                *to++ = ' ';
            }
            memmove(to, from, length);
            to += length;
        }
        from += length;
        from += strspn(from, " ");
    }
    *to = '\0';
}

static bool is_doubtful(const struct ocr_reading *reading)
{
    if (!reading->text[0]) {
        return false;
    }
    return reading->confidence < DOUBTFUL || reading->worst_word < DOUBTFUL_WORD ||
           (ocr_text_has_entity(reading->text) && reading->worst_word < DOUBTFUL_ENTITY);
}

size_t ocr_text_edits(const char *a, const char *b)
{
    return cv_edits(a, strlen(a), b, strlen(b), 1, CV_EDITS_MAX);
}

/* 1 for texts that are the same, 0 for those that have nothing in common. */
static double alikeness(const char *a, const char *b)
{
    size_t longest = strlen(a) > strlen(b) ? strlen(a) : strlen(b);

    if (longest == 0 || longest > OCR_COMPARED_MAX) {
        return 1;
    }
    return 1 - (double)ocr_text_edits(a, b) / (double)longest;
}

static double trust(const struct ocr_reading *reading)
{
    return reading->confidence + reading->worst_word;
}

/* Reads a line once more in another way; the new reading takes the place of `*reading` when it is to be
 * trusted more than that by `more`. */
static int read_doubtful(const struct task *task, enum ocr_dictionary dictionary, double more,
                         struct ocr_reading *reading, struct cv_error *error)
{
    cv_auto(ocr_reading_deinit) struct ocr_reading next = {0};

    int result = read_once(task, TALL_SECOND, dictionary, reading, &next, error);
    if (result != 0) {
        return result == CV_OCR_NO_OTHER ? 0 : result;
    }
    if (dictionary == OCR_WITHOUT_WORDS) {
        reading->agreement = next.agreement = alikeness(reading->text, next.text);
    }
    bool is_better = next.text[0] && trust(&next) > trust(reading) + more;
    struct cv_reasons *reasons = ocr_engine_reasons(task->engine);
    CV_BECAUSE(reasons, reasons->reading, 0, NULL,
               "%s: sure and worst word together are %.2f, before %.2f; %.2f more are asked for",
               is_better ? "took this reading" : "kept the reading before", trust(&next),
               trust(reading), more);
    if (is_better) {
        next.agreement = reading->agreement;
        struct ocr_reading swap = *reading;
        *reading = next;
        next = swap;
    }
    return 0;
}

/* Other scripts have strokes of their own that look like marks. */
static bool is_european(const char *text)
{
    enum { HEBREW = 0x590 };

    while (*text) {
        utf8proc_int32_t point;
        size_t size = ocr_next_point(text, &point);
        utf8proc_category_t category = utf8proc_category(point);
        if (category >= UTF8PROC_CATEGORY_LU && category <= UTF8PROC_CATEGORY_LO &&
            point >= HEBREW && !(point >= 0x1E00 && point < 0x2000)) {
            return false;
        }
        text += size;
    }
    return true;
}

static int read_levels(struct task *task, struct ocr_reading *ret_reading, struct cv_error *error)
{
    cv_auto(ocr_reading_deinit) struct ocr_reading reading = {0};

    ocr_special_characters_find(task->crop, &task->marks);
    CV_TRY(read_once(task, TALL_FIRST, OCR_WITH_WORDS, NULL, &reading, error));
    if (task->marks.count && !is_european(reading.text)) {
        task->marks.count = 0;
        ocr_reading_deinit(&reading);
        CV_TRY(read_once(task, TALL_FIRST, OCR_WITH_WORDS, NULL, &reading, error));
    }
    /* Tesseract's search for rows misses some short words in one size. */
    if (!reading.text[0]) {
        ocr_reading_deinit(&reading);
        CV_TRY(read_once(task, TALL_SECOND, OCR_WITH_WORDS, NULL, &reading, error));
    }
    if (is_doubtful(&reading)) {
        CV_TRY(read_doubtful(task, OCR_WITHOUT_WORDS, 0, &reading, error));
        if (reading.confidence >= READABLE && reading.confidence < DOUBTFUL) {
            CV_TRY(read_doubtful(task, OCR_OTHER_MODEL, CLEARLY, &reading, error));
        }
    }
    *ret_reading = reading;
    reading = (struct ocr_reading){0};
    return 0;
}

int ocr_read(struct ocr_engine *engine, const struct ocr_crop *crop,
             struct ocr_reading *ret_reading, int64_t *readings, struct cv_error *error)
{
    struct ocr_crop levels = *crop;
    size_t size = (size_t)crop->width * (size_t)crop->height;

    if (!crop->has_letters) {
        return read_emoji(crop, ret_reading, error);
    }
    cv_auto_free uint8_t *grey = malloc(size);
    CV_TRY_MEMORY(grey, error, "a text line");
    for (size_t i = 0; i < size; i++) {
        grey[i] = (uint8_t)(ocr_level(crop->grey[i]) * 17);
    }
    levels.grey = grey;
    struct task task = {.engine = engine, .crop = &levels, .readings = readings};
    struct ocr_choice *choice = ocr_engine_choice(engine);
    cv_auto(ocr_reading_deinit) struct ocr_reading reading = {0};
    CV_TRY(read_levels(&task, &reading, error));
    CV_TRY(choice ? ocr_choice_add_line(choice, &levels, &reading, error) : 0);
    *ret_reading = reading;
    reading = (struct ocr_reading){0};
    return 0;
}
