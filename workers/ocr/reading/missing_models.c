#include "workers/ocr/reading/missing_models.h"

#include "workers/ocr/reading/language.h"
#include "workers/ocr/reading/models.h"
#include "workers/ocr/reading/reader.h"

#include <string.h>
#include <tesseract/capi.h>

enum {
    LINES_LEAST = 4,    /* two pages of two lines; a single line is named at random */
    LINES_A_PAGE = 8,   /* more lines of one page make no script surer */
    LINES_LOOKED = 128, /* of one pack: sixteen pages */
    PAGES_AGREE = 2,    /* that have to name a script */
    TALL = 24,          /* pixels of capital height on a page */
    CHARACTERS = 5,     /* from which a page is looked at; Tesseract's own 50 name hardly any */
    RESOLUTION = TALL * 72 / 7, /* capitals of 10 points are about 7 points high */
};

/* The confidence in a page's orientation from which its script is believed. Pages of refused lines of 19 real
 * recordings in Latin letters that were named otherwise reach 0.86; pages of the scripts below 0.8 to 3.5. (The
 * confidence in the script itself tells less: a Latin line is more surely Greek than a Chinese one is Chinese.) */
static const float SURE = 1.0F;

/* The scripts that are named rightly by that, and the models that read them besides those of the script itself. Two of
 * three Hebrew pages are surely Thai, Thai ones are of any script, Georgian ones, too, and Chinese and Korean pages hardly
 * reach it. */
static const struct script {
    const char *name, *models;
} SCRIPTS[] = {
    {"Arabic", "ara fas pus snd uig urd"},
    {"Bengali", "asm ben"},
    {"Cyrillic", "aze_cyrl bel bul kaz kir mkd mon rus srp tat tgk ukr uzb_cyrl"},
    {"Devanagari", "hin mar nep san"},
    {"Greek", "ell grc"},
    {"Hebrew", "heb yid"},
    {"Japanese", "Japanese_vert jpn jpn_vert"},
    {"Tamil", "tam"},
};

/* Lines on their way to pages, and what the pages have named. */
struct script_search {
    TessBaseAPI *osd;
    struct ocr_scaled_line lines[LINES_A_PAGE];
    size_t count;
    int pages[CV_COUNT(SCRIPTS)], named_lines[CV_COUNT(SCRIPTS)];
};

static void clear_page(struct script_search *search)
{
    while (search->count > 0) {
        free(search->lines[--search->count].grey);
    }
}

static void script_search_deinit(struct script_search *search)
{
    clear_page(search);
    if (search->osd) {
        TessBaseAPIEnd(search->osd);
        TessBaseAPIDelete(search->osd);
    }
}
CV_DEFINE_CLEANUP_ADDRESS(struct script_search, script_search_deinit)

/* ---- scripts --------------------------------------------------------------------------------- */

/* Whether `word` is among those of `list`. */
static bool has_word(const char *list, const char *word, size_t length)
{
    for (const char *at = list; *at; at += *at == ' ') {
        size_t size = strcspn(at, " ");
        if (size == length && strncmp(at, word, length) == 0) {
            return true;
        }
        at += size;
    }
    return false;
}

static bool is_read(const struct script *script, const char *languages)
{
    static const char folder[] = "script/";

    for (const char *at = languages; *at; at += *at == '+') {
        size_t length = strcspn(at, "+");
        const char *end = at + length;
        at += strncmp(at, folder, strlen(folder)) == 0 ? strlen(folder) : 0;
        if (has_word(script->name, at, (size_t)(end - at)) ||
            has_word(script->models, at, (size_t)(end - at))) {
            return true;
        }
        at = end;
    }
    return false;
}

/* CV_COUNT(SCRIPTS): a script that is not believed. */
static size_t find_script(const char *name)
{
    size_t at = 0;

    while (at < CV_COUNT(SCRIPTS) && strcmp(SCRIPTS[at].name, name) != 0) {
        at++;
    }
    return at;
}

/* ---- pages ----------------------------------------------------------------------------------- */

/* *ret_osd is NULL where "osd" is not installed or this Tesseract cannot load it. */
static int start(TessBaseAPI **ret_osd, struct cv_error *error)
{
    char *names[] = {(char *)"debug_file", (char *)"min_characters_to_try"};
    char least[12];
    char *values[] = {(char *)"/dev/null", least};
    bool is_there = false;

    CV_TRY(ocr_models_has_osd(&is_there, error));
    if (!is_there) {
        return 0;
    }
    TessBaseAPI *osd = TessBaseAPICreate();
    CV_TRY_MEMORY(osd, error, "telling scripts apart");
    (void)snprintf(least, sizeof(least), "%d", CHARACTERS);
    if (TessBaseAPIInit4(osd, ocr_models_path(), "osd", OEM_TESSERACT_ONLY, NULL, 0, names, values,
                         CV_COUNT(names), 0) != 0) {
        cv_log(CV_LOG_WARN, "Tesseract cannot load osd from %s: scripts are not named",
               ocr_models_path());
        TessBaseAPIDelete(osd);
        return 0;
    }
    TessBaseAPISetPageSegMode(osd, PSM_OSD_ONLY);
    *ret_osd = osd;
    return 0;
}

/* The lines below each other, dark on light; NULL: out of memory. */
static uint8_t *compose(const struct script_search *search, int *ret_width, int *ret_height)
{
    int width = 0, height = 0;

    for (size_t i = 0; i < search->count; i++) {
        width = cv_max(width, search->lines[i].width);
        height += search->lines[i].height;
    }
    uint8_t *page = malloc((size_t)width * (size_t)height);
    if (!page) {
        return NULL;
    }
    memset(page, 255, (size_t)width * (size_t)height);
    uint8_t *to = page;
    for (size_t i = 0; i < search->count; i++) {
        const struct ocr_scaled_line *line = &search->lines[i];
        for (int y = 0; y < line->height; y++, to += width) {
            memcpy(to, line->grey + (size_t)y * (size_t)line->width, (size_t)line->width);
        }
    }
    *ret_width = width;
    *ret_height = height;
    return page;
}

/* Finds which script the page is in, and begins a new one. */
static int end_page(struct script_search *search, struct cv_error *error)
{
    int width = 0, height = 0, turned = 0;
    float sure = 0, script_sure = 0;
    const char *name = NULL;

    if (search->count == 0) {
        return 0;
    }
    cv_auto_free uint8_t *page = compose(search, &width, &height);
    CV_TRY_MEMORY(page, error, "a page of text lines");
    TessBaseAPISetImage(search->osd, page, width, height, 1, width);
    TessBaseAPISetSourceResolution(search->osd, RESOLUTION);
    bool is_told =
        TessBaseAPIDetectOrientationScript(search->osd, &turned, &sure, &name, &script_sure) &&
        name;
    cv_log(CV_LOG_DEBUG, "script of %zu refused lines: %s, rotated by %d°, confidence %.2f",
           search->count, is_told ? name : "no script", turned, (double)sure);
    if (is_told && turned == 0 && sure >= SURE) {
        size_t script = find_script(name);
        if (script < CV_COUNT(SCRIPTS)) {
            search->pages[script]++;
            search->named_lines[script] += (int)search->count;
        }
    }
    TessBaseAPIClear(search->osd);
    clear_page(search);
    return 0;
}

/* Puts lines of the pack on pages and looks at these: at most LINES_LOOKED of `waiting` ones,
 * evenly spread. */
static int read_pages(struct script_search *search, struct ocr_unpacking *pack, const bool *is_text,
                      size_t waiting, struct cv_error *error)
{
    size_t looked = waiting < LINES_LOOKED ? waiting : LINES_LOOKED;
    size_t pages = (looked + LINES_A_PAGE - 1) / LINES_A_PAGE;
    size_t line = 0, page = 0;

    pages = pages < PAGES_AGREE ? PAGES_AGREE : pages;
    for (size_t i = 0; line < waiting; i++) {
        cv_auto(ocr_crop_deinit) struct ocr_crop crop = {.grey = NULL};
        CV_TRY(ocr_unpack_picture(pack, &crop, error));
        if (is_text[i]) {
            continue;
        }
        size_t place = line * looked / waiting;
        bool is_looked_at = (line + 1) * looked / waiting > place;
        line++;
        if (!is_looked_at || !crop.has_letters) {
            continue;
        }
        if (place * pages / looked != page) {
            page = place * pages / looked;
            CV_TRY(end_page(search, error));
        }
        CV_TRY(ocr_scale_line(&crop, TALL, &search->lines[search->count], error));
        search->count++;
    }
    return end_page(search, error);
}

/* ---- the result ------------------------------------------------------------------------------ */

static int add(json_t *unread, const char *script, int lines, struct cv_error *error)
{
    for (size_t i = 0; i < json_array_size(unread); i++) {
        json_t *known = json_array_get(unread, i);
        json_t *count = json_object_get(known, "lines");
        if (strcmp(json_string_value(json_object_get(known, "script")), script) == 0) {
            (void)json_integer_set(count, json_integer_value(count) + lines);
            return 0;
        }
    }
    CV_TRY_MEMORY(json_array_append_new(
                      unread, json_pack("{s:s, s:i}", "script", script, "lines", lines)) == 0,
                  error, "the name of a script");
    return 0;
}

static int name_scripts(const char *languages, struct ocr_unpacking *pack, const bool *is_text,
                        json_t *unread, struct cv_error *error)
{
    cv_auto(script_search_deinit) struct script_search search = {.osd = NULL};
    size_t waiting = 0;

    for (size_t i = 0; i < ocr_unpack_pictures(pack); i++) {
        waiting += !is_text[i];
    }
    if (waiting < LINES_LEAST) {
        return 0;
    }
    CV_TRY(start(&search.osd, error));
    if (!search.osd) {
        return 0;
    }
    CV_TRY(read_pages(&search, pack, is_text, waiting, error));
    for (size_t i = 0; i < CV_COUNT(SCRIPTS); i++) {
        if (search.pages[i] >= PAGES_AGREE && !is_read(&SCRIPTS[i], languages)) {
            CV_TRY(add(unread, SCRIPTS[i].name, search.named_lines[i], error));
        }
    }
    return 0;
}

int ocr_missing_scripts(const char *languages, const struct cv_byte_source *pack,
                        const bool *is_text, json_t *unread, struct cv_error *error)
{
    cv_auto(ocr_unpack_close) struct ocr_unpacking *unpacking = NULL;

    CV_TRY(ocr_unpack_open(pack, &unpacking, error));
    return name_scripts(languages, unpacking, is_text, unread, error);
}

int ocr_missing_scripts_in_file(const char *languages, const char *path, json_t *unread,
                                struct cv_error *error)
{
    cv_auto(ocr_unpack_close) struct ocr_unpacking *unpacking = NULL;
    cv_auto_fd int fd = -1;
    struct cv_byte_source source;

    CV_TRY(cv_file_source_open(path, &fd, &source, error));
    CV_TRY(ocr_unpack_open(&source, &unpacking, error));
    cv_auto_free bool *is_text = calloc(ocr_unpack_pictures(unpacking) + 1, sizeof(*is_text));
    CV_TRY_MEMORY(is_text, error, "kept text lines");
    for (size_t i = 0; i < ocr_unpack_rows(unpacking); i++) {
        struct ocr_kept_row row;
        CV_TRY(ocr_unpack_row(unpacking, i, &row, error));
        if (!row.refusal) {
            is_text[row.picture] = true;
        }
    }
    return name_scripts(languages, unpacking, is_text, unread, error);
}

/* ---- languages of Latin letters -------------------------------------------------------------- */

static bool reads_latin(const char *languages, const char *model)
{
    const struct script latin = {"Latin", model};

    return is_read(&latin, languages);
}

/* The lines of text that are surely in the language of `model`. */
static int count_lines(const json_t *detections, const char *model)
{
    int lines = 0;
    size_t i;
    const json_t *row;

    json_array_foreach(detections, i, row)
    {
        struct ocr_tongue tongue =
            ocr_language_of(json_string_value(json_object_get(row, "text")), &model, 1);
        lines += tongue.model == 0 && tongue.letters >= OCR_TONGUE_LETTERS_SURE;
    }
    return lines;
}

int ocr_missing_languages(const char *languages, const json_t *detections, json_t *unread,
                          struct cv_error *error)
{
    cv_auto(cv_buffer_deinit) struct cv_buffer words = CV_BUFFER_INIT;
    const char *models[OCR_GUESSES];
    size_t i;
    const json_t *row;

    json_array_foreach(detections, i, row)
    {
        ocr_language_collect(json_string_value(json_object_get(row, "text")), &words);
    }
    CV_TRY_MEMORY(!words.failed, error, "the words of a video");
    ocr_languages_of(&words, models);
    for (i = 0; i < OCR_GUESSES && models[i]; i++) {
        int lines = reads_latin(languages, models[i]) ? 0 : count_lines(detections, models[i]);
        if (lines >= LINES_LEAST) {
            CV_TRY(add(unread, models[i], lines, error));
        }
    }
    return 0;
}
