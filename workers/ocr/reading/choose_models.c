#include "workers/ocr/reading/choose_models.h"

#include "workers/ocr/reading/choose_words.h"
#include "workers/ocr/reading/language.h"
#include "workers/ocr/reading/models.h"
#include "workers/ocr/reading/reader.h"
#include "workers/ocr/reading/tesseract.h"

#include <string.h>

enum {
    SAMPLES = 8,       /* lines that other models try */
    SAMPLES_FIRST = 4, /* of which a model that reads no letter reads no others */
    SAMPLES_LEAST = 2, /* doubtful lines without which nothing is tried */
    LONG = 20,         /* capitals; a longer line tells no more */
    TALL = 28,         /* pixels of capital height in a sample, as in a reading */
    CHECK_FIRST = 8,  /* lines after which the models are checked; again after four times as many */
    CHANGES_MOST = 3, /* of the models, each of which reads all lines again */
    TRIALS_MOST = 2,  /* of the models of other scripts, which cost a second of CPU time */
    LANGUAGE_LINES = 2, /* that are surely in a language that is added */
};

/* A line that is read less surely is doubtful: of lines in the model's own language one in twelve is, of another
 * script's all but one in twelve. */
static const double DOUBTFUL = 0.75;

/* The share of doubtful lines, by their lengths, from which other scripts are tried; and from
 * which they are where a trial costs a tenth of what was read. */
static const double DOUBTFUL_SHARE = 0.30, DOUBTFUL_SHARE_CHEAP = 0.10;

/* Columns that models have read by then; a trial costs as much CPU time as a tenth of them. */
enum { COLUMNS_PER_TRIAL = 500000 };

/* Letters that a model of another script has to read, as ocr_words_letters_by counts them: 7.8 (two Chinese words) to 54 in
 * four recordings with such a script (looked at), 2.8 at most in 22 without (19 fitted, 3 looked at). Where the model is sure of
 * all lines and the detector agrees, fewer: a Korean display of drawn screens has 3.9, and no model that won 2.8 was sure. */
static const double PROVEN = 5, PROVEN_SURE = 2;

/* How sure a model is of samples all of which it reads, so that it comes first; and from which no other script is tried. */
static const double READABLE = 0.75, CERTAIN = 0.88;

/* What the detector's word for the language of a model is worth among models of one script, and by how much such a one
 * has to be surer than those before it. */
static const double AGREED = 0.05, SURER = 0.03;

/* Models of one script: one that reads it all, more or less, and those that are tried where that one does not fail; the
 * first of them always where it lacks their letters.
 * Vietnamese has so many letters of its own that the English model does not read it. */
static const struct script {
    const char *model, *relatives[4];
    bool lacks_letters;
} SCRIPTS[] = {
    {"rus", {"ukr", "bul", "srp", "bel"}, false},
    {"jpn", {"chi_sim", "chi_tra"}, true},
    {"ara", {"fas", "urd"}, false},
    {"hin", {"mar", "nep"}, false},
    {"kor", {NULL}, false},
    {"ell", {NULL}, false},
    {"heb", {NULL}, false},
    {"tha", {NULL}, false},
    {"vie", {NULL}, false},
    {"ben", {NULL}, false},
    {"tam", {NULL}, false},
    {"tel", {NULL}, false},
    {"kat", {NULL}, false},
    {"hye", {NULL}, false},
};

struct sample {
    struct ocr_scaled_line line;
    double weight;          /* how much the line tells */
    struct ocr_words words; /* as the models before read it, once it is tried */
};

struct ocr_choice {
    bool may_add;
    int changes, trials;
    int64_t lines, next_check;
    double length, doubtful_length; /* of all lines, in capitals */
    struct cv_buffer words;         /* of all lines */
    json_t *texts;                  /* of the lines, each once, as keys */
    struct sample samples[SAMPLES]; /* the weightiest first */
    size_t sample_count;
};

static void drop_samples(struct ocr_choice *choice, size_t left)
{
    while (choice->sample_count > left) {
        struct sample *sample = &choice->samples[--choice->sample_count];
        free(sample->line.grey);
        ocr_words_deinit(&sample->words);
    }
}

static void clear_lines(struct ocr_choice *choice)
{
    drop_samples(choice, 0);
    cv_buffer_deinit(&choice->words);
    choice->words = (struct cv_buffer)CV_BUFFER_INIT;
    (void)json_object_clear(choice->texts);
    choice->lines = 0;
    choice->next_check = CHECK_FIRST;
    choice->length = choice->doubtful_length = 0;
}

int ocr_choice_new(bool may_add, struct ocr_choice **ret_choice, struct cv_error *error)
{
    struct ocr_choice *choice = calloc(1, sizeof(*choice));
    json_t *texts = json_object();

    if (!choice || !texts) {
        free(choice);
        json_decref(texts);
        return cv_fail(error, CV_ERROR_OUT_OF_MEMORY, "out of memory for the choice of models");
    }
    choice->may_add = may_add;
    choice->texts = texts;
    choice->words = (struct cv_buffer)CV_BUFFER_INIT;
    clear_lines(choice);
    *ret_choice = choice;
    return 0;
}

void ocr_choice_free(struct ocr_choice *choice)
{
    if (choice) {
        clear_lines(choice);
        json_decref(choice->texts);
        free(choice);
    }
}

/* ---- what was read --------------------------------------------------------------------------- */

/* Keeps the line as a sample if it tells more than one that is kept. */
static int keep_sample(struct ocr_choice *choice, const struct ocr_crop *crop, double weight,
                       struct cv_error *error)
{
    struct sample sample = {.weight = weight};
    size_t at = choice->sample_count;

    while (at > 0 && choice->samples[at - 1].weight < weight) {
        at--;
    }
    if (at == SAMPLES) {
        return 0;
    }
    CV_TRY(ocr_scale_line(crop, TALL, &sample.line, error));
    drop_samples(choice, SAMPLES - 1);
    memmove(&choice->samples[at + 1], &choice->samples[at],
            (choice->sample_count - at) * sizeof(sample));
    choice->samples[at] = sample;
    choice->sample_count++;
    return 0;
}

int ocr_choice_add_line(struct ocr_choice *choice, const struct ocr_crop *crop,
                        const struct ocr_reading *reading, struct cv_error *error)
{
    double length = cv_min((double)crop->width / crop->tall, (double)LONG);

    choice->lines++;
    /* What is read as nothing, or again and again (a sign that turns while one waits), tells nothing of scripts. */
    if (!reading->text[0] || json_object_get(choice->texts, reading->text)) {
        return 0;
    }
    choice->length += length;
    if (reading->confidence < DOUBTFUL) {
        choice->doubtful_length += length;
        CV_TRY(choice->may_add && crop->has_letters
                   ? keep_sample(choice, crop, length * (1 - reading->confidence), error)
                   : 0);
    }
    ocr_language_collect(reading->text, &choice->words);
    CV_TRY_MEMORY(!choice->words.failed &&
                      json_object_set_new(choice->texts, reading->text, json_null()) == 0,
                  error, "the words of a video");
    return 0;
}

/* ---- models of other scripts ------------------------------------------------------------------- */

static bool has_model(const struct ocr_engine *engine, const char *model)
{
    const char *one;

    for (size_t i = 0; (one = ocr_engine_model(engine, i)) != NULL; i++) {
        if (strcmp(one, model) == 0) {
            return true;
        }
    }
    return false;
}

static bool is_installed(const char *model)
{
    struct cv_error reason;
    const char *name = NULL;

    return ocr_models_find(ocr_models_path(), model, &name, &reason) == 0;
}

/* What a model of another script reads of the samples better than the models before, and whether the detector says that
 * it is their language. */
struct trial {
    const char *model;
    double letters; /* as PROVEN counts them */
    double sure;    /* of the samples, by their weights */
    bool is_agreed;
};

static struct ocr_line_picture picture_of(const struct sample *sample)
{
    return (struct ocr_line_picture){.dictionary = OCR_WITH_WORDS,
                                     .grey = sample->line.grey,
                                     .width = sample->line.width,
                                     .height = sample->line.height,
                                     .tall = TALL};
}

/* In the mean of the words, by their widths. */
static double sure_of(const struct ocr_words *words)
{
    double sum = 0, width = 0;

    for (size_t i = 0; i < words->count; i++) {
        const struct ocr_word *word = &words->items[i];
        sum += word->sure * (word->right - word->left);
        width += word->right - word->left;
    }
    return width > 0 ? sum / width : 0;
}

static int read_samples(const struct ocr_choice *choice, TessBaseAPI *api, struct trial *trial,
                        struct cv_error *error)
{
    cv_auto(cv_buffer_deinit) struct cv_buffer text = CV_BUFFER_INIT;
    double weights = 0;

    for (size_t i = 0; i < choice->sample_count; i++) {
        const struct ocr_line_picture line = picture_of(&choice->samples[i]);
        cv_auto(ocr_words_deinit) struct ocr_words words = {0};
        CV_TRY(ocr_tesseract_read(api, &line, &words, error));
        trial->sure += choice->samples[i].weight * sure_of(&words);
        weights += choice->samples[i].weight;
        CV_TRY(ocr_words_choose(&words, &choice->samples[i].words, TALL, error));
        trial->letters += ocr_words_letters_by(&words, trial->model, &text);
        if (i + 1 == SAMPLES_FIRST && trial->letters < 1) {
            break;
        }
    }
    CV_TRY_MEMORY(!text.failed, error, "the words of a video");
    trial->sure = weights > 0 ? trial->sure / weights : 0;
    trial->is_agreed = text.length > 0 && ocr_language_letters(text.data, trial->model) > 0;
    return 0;
}

/* Of no letters where the model is not installed, or is among those that have read the samples. */
static int try_model(const struct ocr_choice *choice, const struct ocr_engine *engine,
                     const char *model, struct trial *ret_trial, struct cv_error *error)
{
    TessBaseAPI *api = NULL;

    *ret_trial = (struct trial){.model = model};
    if (!model || has_model(engine, model) || !is_installed(model)) {
        return 0;
    }
    CV_TRY(ocr_tesseract_start(ocr_models_path(), model, true, &api, error));
    int result = read_samples(choice, api, ret_trial, error);
    ocr_tesseract_stop(api);
    cv_log(CV_LOG_DEBUG, "%s reads %.1f letters of %zu lines better than %s, sure by %.2f%s", model,
           ret_trial->letters, choice->sample_count, ocr_engine_languages(engine), ret_trial->sure,
           ret_trial->is_agreed ? ", in its language" : "");
    return result;
}

/* Whether a model reads its own script in the samples: enough letters, or a few where it is sure of all lines and the
 * detector names its language. */
static bool is_proven(const struct trial *trial)
{
    return trial->letters >= PROVEN ||
           (trial->letters >= PROVEN_SURE && trial->sure >= READABLE && trial->is_agreed);
}

/* Among models of one script, which read nearly the same letters. */
static double worth(const struct trial *trial)
{
    return trial->sure + (trial->is_agreed ? AGREED : 0) + (is_proven(trial) ? 1 : 0);
}

/* The best model of a script. */
static int try_script(const struct ocr_choice *choice, const struct ocr_engine *engine,
                      const struct script *script, struct trial *ret_best, struct cv_error *error)
{
    struct trial trial;

    CV_TRY(try_model(choice, engine, script->model, ret_best, error));
    for (size_t i = 0; i < CV_COUNT(script->relatives); i++) {
        if (!is_proven(ret_best) && is_installed(script->model) &&
            !(i == 0 && script->lacks_letters)) {
            break;
        }
        CV_TRY(try_model(choice, engine, script->relatives[i], &trial, error));
        *ret_best = worth(&trial) > worth(ret_best) + SURER ? trial : *ret_best;
    }
    return 0;
}

/* Of the scripts until one is sure by CERTAIN, the model that reads most letters; without a name: none reads enough. */
static int find_model(struct ocr_choice *choice, struct ocr_engine *engine, struct trial *ret_found,
                      struct cv_error *error)
{
    struct trial best = {0}, trial;

    for (size_t i = 0; i < choice->sample_count; i++) {
        const struct ocr_line_picture line = picture_of(&choice->samples[i]);
        CV_TRY(ocr_engine_read_words(engine, &line, &choice->samples[i].words, error));
    }
    for (size_t i = 0; i < CV_COUNT(SCRIPTS) && best.sure < CERTAIN; i++) {
        CV_TRY(try_script(choice, engine, &SCRIPTS[i], &trial, error));
        /* Any line may be read with Latin letters. */
        bool is_unlikely = ocr_language_is_latin(SCRIPTS[i].model) && !trial.is_agreed;
        best = !is_unlikely && is_proven(&trial) && trial.letters >= best.letters ? trial : best;
    }
    *ret_found = best;
    return 0;
}

/* ---- the choice ------------------------------------------------------------------------------ */

/* The names of models, each once. */
struct names {
    const char *items[OCR_LANGUAGES_MAX];
    size_t count;
};

static void add_name(struct names *names, const char *model)
{
    bool is_known = names->count == OCR_LANGUAGES_MAX;

    for (size_t i = 0; i < names->count; i++) {
        is_known = is_known || strcmp(names->items[i], model) == 0;
    }
    if (!is_known) {
        names->items[names->count++] = model;
    }
}

/* The lines that are surely in the language of `model`. */
static int count_lines(const struct ocr_choice *choice, const char *model)
{
    int lines = 0;
    const char *text;
    json_t *value;

    json_object_foreach(choice->texts, text, value)
    {
        lines += ocr_language_letters(text, model) >= OCR_TONGUE_LETTERS_SURE;
    }
    return lines;
}

/* The languages of the words first, the one with most of them in front, then the models that are there. */
static void choose_latin(const struct ocr_choice *choice, const struct ocr_engine *engine,
                         struct names *names)
{
    const char *models[OCR_GUESSES], *one;

    ocr_languages_of(&choice->words, models);
    for (size_t i = 0; i < OCR_GUESSES && models[i]; i++) {
        if (has_model(engine, models[i]) ||
            (choice->may_add && count_lines(choice, models[i]) >= LANGUAGE_LINES &&
             is_installed(models[i]))) {
            add_name(names, models[i]);
        }
    }
    for (size_t i = 0; names->count && (one = ocr_engine_model(engine, i)) != NULL; i++) {
        add_name(names, one);
    }
}

/* The model of the script, the models of other scripts that are there, and one of Latin letters,
 * which is in front where the script was found in a part of what could not be read. */
static int choose_script(struct ocr_choice *choice, struct ocr_engine *engine, struct names *names,
                         struct cv_error *error)
{
    struct trial found;
    const char *latin = NULL, *one;

    choice->trials++;
    struct cv_reasons *reasons = ocr_engine_reasons(engine);
    ocr_engine_explain(engine, NULL); /* else samples are told of the line that was read last */
    int result = find_model(choice, engine, &found, error);
    ocr_engine_explain(engine, reasons);
    CV_TRY(result);
    drop_samples(choice, 0); /* no line is tried twice */
    if (!found.model) {
        return 0;
    }
    for (size_t i = 0; (one = ocr_engine_model(engine, i)) != NULL; i++) {
        latin = !latin && ocr_language_is_latin(one) ? one : latin;
    }
    if (latin && found.sure < READABLE) {
        add_name(names, latin);
    }
    add_name(names, found.model);
    for (size_t i = 0; (one = ocr_engine_model(engine, i)) != NULL; i++) {
        if (!ocr_language_is_latin(one)) {
            add_name(names, one);
        }
    }
    if (latin) {
        add_name(names, latin);
    }
    return 0;
}

static double least_share(const struct ocr_choice *choice, const struct ocr_engine *engine)
{
    bool is_cheap = ocr_engine_columns(engine) >= COLUMNS_PER_TRIAL * (choice->trials + 1);

    return is_cheap ? DOUBTFUL_SHARE_CHEAP : DOUBTFUL_SHARE;
}

static int choose(struct ocr_choice *choice, struct ocr_engine *engine, struct names *names,
                  struct cv_error *error)
{
    bool is_latin = true;
    const char *one;

    for (size_t i = 0; (one = ocr_engine_model(engine, i)) != NULL; i++) {
        is_latin = is_latin && ocr_language_is_latin(one);
    }
    if (is_latin) {
        choose_latin(choice, engine, names);
    }
    if (choice->may_add && choice->trials < TRIALS_MOST && choice->sample_count >= SAMPLES_LEAST &&
        choice->doubtful_length >= least_share(choice, engine) * choice->length) {
        struct names others = {.count = 0};
        CV_TRY(choose_script(choice, engine, &others, error));
        *names = others.count ? others : *names;
    }
    return 0;
}

int ocr_choose_models(struct ocr_engine *engine, bool is_end, struct cv_error *error)
{
    struct ocr_choice *choice = ocr_engine_choice(engine);
    struct names names = {.count = 0};
    bool is_changed = false;

    if (!choice || choice->changes == CHANGES_MOST ||
        (choice->lines < choice->next_check && !is_end)) {
        return 0;
    }
    choice->next_check = choice->lines * 4;
    CV_TRY(choose(choice, engine, &names, error));
    if (names.count > 0) {
        CV_TRY(ocr_engine_set_models(engine, names.items, names.count, &is_changed, error));
    }
    if (!is_changed) {
        return 0;
    }
    choice->changes++;
    clear_lines(choice);
    cv_log(CV_LOG_DEBUG, "the lines are read with %s from now on", ocr_engine_languages(engine));
    return CV_OCR_OTHER_MODELS;
}
