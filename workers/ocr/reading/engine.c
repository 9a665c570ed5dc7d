#include "workers/ocr/reading/choose_models.h"
#include "workers/ocr/reading/choose_words.h"
#include "workers/ocr/reading/language.h"
#include "workers/ocr/reading/models.h"
#include "workers/ocr/reading/tesseract.h"

#include <string.h>

struct ocr_engine {
    char *data_path;
    char *languages; /* joined with '+' */
    char *models[OCR_LANGUAGES_MAX];
    size_t model_count;
    /* What the first model makes of a line tells its language: no line needs all of them. Else models read words. */
    bool is_guided;
    size_t around; /* the model of the last line whose language is sure; model_count: none yet */
    /* Made when they are first wanted, by what leads; [1]: with word lists. */
    TessBaseAPI *apis[OCR_LANGUAGES_MAX][2];
    int64_t columns; /* that its models have read */
    struct ocr_choice *choice;
    struct cv_reasons *reasons; /* NULL: not asked for; borrowed */
};

static int name_models(struct ocr_engine *engine, const char *const *languages, size_t count,
                       struct cv_error *error)
{
    cv_auto(cv_buffer_deinit) struct cv_buffer joined = CV_BUFFER_INIT;

    if (count < 1 || count > OCR_LANGUAGES_MAX) {
        return cv_fail(error, CV_ERROR_INVALID_PAYLOAD,
                       "languages: expected 1 to %d names, not %zu", OCR_LANGUAGES_MAX, count);
    }
    for (; engine->model_count < count; engine->model_count++) {
        const char *name = NULL;
        CV_TRY(ocr_models_find(engine->data_path, languages[engine->model_count], &name, error));
        CV_TRY(cv_format(&engine->models[engine->model_count], error, "%s", name));
        cv_buffer_printf(&joined, "%s%s", engine->model_count ? "+" : "", name);
    }
    return cv_buffer_detach(&joined, &engine->languages, error);
}

/* The engine in which `lead` comes first: alone where that is the first of the list or words are chosen, else with
 * that one behind it, for the words of both languages that stand in one line. */
static int engine_led_by(struct ocr_engine *engine, size_t lead, bool with_words,
                         TessBaseAPI **ret_api, struct cv_error *error)
{
    TessBaseAPI **api = &engine->apis[lead][with_words];
    cv_auto_free char *languages = NULL;

    if (!*api) {
        CV_TRY(
            lead == 0 || !engine->is_guided
                ? cv_format(&languages, error, "%s", engine->models[lead])
                : cv_format(&languages, error, "%s+%s", engine->models[lead], engine->models[0]));
        CV_TRY(ocr_tesseract_start(engine->data_path, languages, with_words, api, error));
    }
    *ret_api = *api;
    return 0;
}

int ocr_engine_new(const char *const *languages, size_t count, struct ocr_engine **ret_engine,
                   struct cv_error *error)
{
    cv_auto(ocr_engine_free) struct ocr_engine *engine = calloc(1, sizeof(*engine));
    TessBaseAPI *first = NULL;

    CV_TRY_MEMORY(engine, error, "the OCR engine");
    engine->data_path = strdup(ocr_models_path());
    CV_TRY_MEMORY(engine->data_path, error, "the OCR engine");
    CV_TRY(name_models(engine, languages, count, error));
    engine->is_guided =
        ocr_language_first_tells((const char *const *)engine->models, engine->model_count);
    ocr_engine_turn_page(engine);
    CV_TRY(engine_led_by(engine, 0, true, &first, error));
    *ret_engine = cv_take(engine);
    return 0;
}

void ocr_engine_free(struct ocr_engine *engine)
{
    if (!engine) {
        return;
    }
    for (size_t i = 0; i < OCR_LANGUAGES_MAX; i++) {
        ocr_tesseract_stop(engine->apis[i][false]);
        ocr_tesseract_stop(engine->apis[i][true]);
    }
    for (size_t i = 0; i < engine->model_count; i++) {
        free(engine->models[i]);
    }
    ocr_choice_free(engine->choice);
    free(engine->data_path);
    free(engine->languages);
    free(engine);
}

const char *ocr_engine_model(const struct ocr_engine *engine, size_t index)
{
    return index < engine->model_count ? engine->models[index] : NULL;
}

int ocr_engine_set_models(struct ocr_engine *engine, const char *const *languages, size_t count,
                          bool *ret_changed, struct cv_error *error)
{
    bool is_same = count == engine->model_count;

    for (size_t i = 0; i < count && is_same; i++) {
        is_same = strcmp(languages[i], engine->models[i]) == 0;
    }
    *ret_changed = !is_same;
    if (is_same) {
        return 0;
    }
    /* The names may be those of the engine. */
    cv_auto(ocr_engine_free) struct ocr_engine *other = NULL;
    CV_TRY(ocr_engine_new(languages, count, &other, error));
    struct ocr_engine before = *engine;
    *engine = *other;
    engine->choice = before.choice;
    engine->columns = before.columns;
    engine->reasons = before.reasons;
    before.choice = NULL;
    *other = before;
    return 0;
}

void ocr_engine_set_choice(struct ocr_engine *engine, struct ocr_choice *choice)
{
    ocr_choice_free(engine->choice);
    engine->choice = choice;
}

struct ocr_choice *ocr_engine_choice(const struct ocr_engine *engine)
{
    return engine->choice;
}

void ocr_engine_explain(struct ocr_engine *engine, struct cv_reasons *reasons)
{
    engine->reasons = reasons;
}

struct cv_reasons *ocr_engine_reasons(const struct ocr_engine *engine)
{
    return engine->reasons;
}

int64_t ocr_engine_columns(const struct ocr_engine *engine)
{
    return engine->columns;
}

const char *ocr_engine_languages(const struct ocr_engine *engine)
{
    return engine->languages;
}

void ocr_engine_turn_page(struct ocr_engine *engine)
{
    engine->around = engine->model_count;
}

void ocr_reading_deinit(struct ocr_reading *reading)
{
    free(reading->text);
    *reading = (struct ocr_reading){0};
}

static int read_led(struct ocr_engine *engine, size_t lead, const struct ocr_line_picture *line,
                    struct ocr_reading *ret_reading, struct cv_error *error)
{
    TessBaseAPI *api = NULL;

    CV_TRY(engine_led_by(engine, lead, line->dictionary == OCR_WITH_WORDS, &api, error));
    size_t models = lead == 0 ? 1 : 2;
    engine->columns += (int64_t)line->width * (int64_t)models;
    cv_auto(ocr_words_deinit) struct ocr_words words = {0};
    CV_TRY(ocr_tesseract_read(api, line, &words, error));
    CV_TRY(ocr_words_finish(&words, line, ret_reading, error));
    if (engine->reasons) {
        cv_because(engine->reasons, engine->reasons->reading, 0, NULL,
                   "read by %s at %d pixels, with%s word lists: “%s”, sure %.2f, worst word %.2f",
                   TessBaseAPIGetInitLanguagesAsString(api), line->tall,
                   line->dictionary == OCR_WITH_WORDS ? "" : "out", ret_reading->text,
                   ret_reading->confidence, ret_reading->worst_word);
    }
    return 0;
}

/* How much less sure a reading may be that the line's own language leads: the first model is content
 * with "fur" where the German one sees "für". */
static const double OWN_LEAD = 0.10;

/* The same of a line whose language is but that of the line before. */
static const double AROUND_LEAD = 0.03;

/* Reads a line once more, with another lead, and keeps the new reading unless it is less sure by more
 * than `less`. */
static int read_again(struct ocr_engine *engine, size_t lead, double less,
                      const struct ocr_line_picture *line, struct ocr_reading *reading,
                      struct cv_error *error)
{
    cv_auto(ocr_reading_deinit) struct ocr_reading led = {0};

    CV_TRY(read_led(engine, lead, line, &led, error));
    if (led.text[0] && led.confidence + less >= reading->confidence) {
        CV_BECAUSE(engine->reasons, engine->reasons->reading, 0, NULL,
                   "took that reading: it is not less sure by more than %.2f", less);
        struct ocr_reading swap = *reading;
        *reading = led;
        led = swap;
    }
    return 0;
}

static struct ocr_tongue tongue_of(const struct ocr_engine *engine, const char *text)
{
    return ocr_language_of(text, (const char *const *)engine->models, engine->model_count);
}

static void set_language(const struct ocr_engine *engine, size_t model, struct ocr_reading *reading)
{
    (void)snprintf(reading->language, sizeof(reading->language), "%s", engine->models[model]);
}

/* Notes the words and how likely each is right, by which the choice is made. */
static int explain_words(const struct ocr_engine *engine, const char *model,
                         const struct ocr_line_picture *line, const struct ocr_words *words,
                         struct cv_error *error)
{
    cv_auto(cv_buffer_deinit) struct cv_buffer text = CV_BUFFER_INIT;
    cv_auto_free char *list = NULL;

    for (size_t i = 0; engine->reasons && i < words->count; i++) {
        cv_buffer_printf(&text, " “%s” %.2f", words->items[i].text, ocr_word_likelihood(words, i));
    }
    CV_TRY(engine->reasons ? cv_buffer_detach(&text, &list, error) : 0);
    CV_BECAUSE(engine->reasons, engine->reasons->reading, 0, NULL,
               "words read by %s at %d pixels, and how likely each is right:%s", model, line->tall,
               list);
    return 0;
}

static int read_words(struct ocr_engine *engine, size_t model, const struct ocr_line_picture *line,
                      struct ocr_words *ret_words, struct cv_error *error)
{
    TessBaseAPI *api = NULL;

    CV_TRY(engine_led_by(engine, model, true, &api, error));
    engine->columns += line->width;
    CV_TRY(ocr_tesseract_read(api, line, ret_words, error));
    return explain_words(engine, engine->models[model], line, ret_words, error);
}

/* Word lists help to choose, so that they are used in every reading. */
int ocr_engine_read_words(struct ocr_engine *engine, const struct ocr_line_picture *line,
                          struct ocr_words *ret_words, struct cv_error *error)
{
    cv_auto(ocr_words_deinit) struct ocr_words words = {0};

    CV_TRY(read_words(engine, 0, line, &words, error));
    for (size_t i = 1;
         !engine->is_guided && i < engine->model_count && ocr_words_are_doubtful(&words); i++) {
        cv_auto(ocr_words_deinit) struct ocr_words others = {0};
        CV_TRY(read_words(engine, i, line, &others, error));
        CV_TRY(ocr_words_choose(&words, &others, line->tall, error));
        CV_TRY(explain_words(engine, "the best of these models", line, &words, error));
    }
    *ret_words = words;
    words = (struct ocr_words){0};
    return 0;
}

static int recognize_words(struct ocr_engine *engine, const struct ocr_line_picture *line,
                           struct ocr_reading *ret_reading, struct cv_error *error)
{
    cv_auto(ocr_words_deinit) struct ocr_words words = {0};

    CV_TRY(ocr_engine_read_words(engine, line, &words, error));
    CV_TRY(ocr_words_finish(&words, line, ret_reading, error));
    struct ocr_tongue tongue = tongue_of(engine, ret_reading->text);
    if (tongue.model < engine->model_count) {
        set_language(engine, tongue.model, ret_reading);
    }
    return 0;
}

/* The first model alone, and then, where the line is in another language, that one. What is too short
 * to say is in the language of the line before it. */
static int recognize_guided(struct ocr_engine *engine, const struct ocr_line_picture *line,
                            struct ocr_reading *reading, struct cv_error *error)
{
    CV_TRY(read_led(engine, 0, line, reading, error));
    struct ocr_tongue tongue = tongue_of(engine, reading->text);
    size_t own = tongue.model;
    if (tongue.letters < OCR_TONGUE_LETTERS_MIN) {
        own = 0;
    } else if (own == engine->model_count) {
        own = engine->around;
    }
    if (own > 0 && own < engine->model_count) {
        double less = own == tongue.model ? OWN_LEAD : AROUND_LEAD;
        CV_TRY(read_again(engine, own, less, line, reading, error));
    }
    if (own < engine->model_count) {
        set_language(engine, own, reading);
    }
    return 0;
}

static size_t lead_of(const struct ocr_engine *engine, const char *language)
{
    size_t lead = 0;

    for (size_t i = 1; i < engine->model_count; i++) {
        lead = language && strcmp(engine->models[i], language) == 0 ? i : lead;
    }
    return lead;
}

/* Without word lists, in the language of the first reading; or what that was by another model than
 * its own, with its own behind it ("hluefox", "bluefox"). */
static int recognize_plainly(struct ocr_engine *engine, const struct ocr_line_picture *line,
                             struct ocr_reading *reading, struct cv_error *error)
{
    size_t own = lead_of(engine, line->language);

    CV_TRY(read_led(engine, line->dictionary == OCR_OTHER_MODEL ? 1 : own, line, reading, error));
    set_language(engine, own, reading);
    return 0;
}

static int recognize(struct ocr_engine *engine, const struct ocr_line_picture *line,
                     struct ocr_reading *ret_reading, struct cv_error *error)
{
    cv_auto(ocr_reading_deinit) struct ocr_reading reading = {0};

    CV_TRY(!engine->is_guided                   ? recognize_words(engine, line, &reading, error)
           : line->dictionary == OCR_WITH_WORDS ? recognize_guided(engine, line, &reading, error)
                                                : recognize_plainly(engine, line, &reading, error));
    *ret_reading = reading;
    reading = (struct ocr_reading){.text = NULL};
    return 0;
}

int ocr_engine_read(struct ocr_engine *engine, const struct ocr_line_picture *line,
                    struct ocr_reading *ret_reading, struct cv_error *error)
{
    if (line->dictionary == OCR_OTHER_MODEL &&
        (!engine->is_guided || lead_of(engine, line->language) != 0)) {
        return CV_OCR_NO_OTHER;
    }
    CV_TRY(recognize(engine, line, ret_reading, error));
    if (engine->is_guided && line->dictionary == OCR_WITH_WORDS) {
        struct ocr_tongue tongue = tongue_of(engine, ret_reading->text);
        bool is_sure =
            tongue.model < engine->model_count && tongue.letters >= OCR_TONGUE_LETTERS_SURE;
        engine->around = is_sure ? tongue.model : engine->around;
    }
    return 0;
}
