#include "cli/commands/languages.h"

#include <glob.h>
#include <string.h>

#define SCRIPT "script/"

/* The script codes of four letters in the names of Debian's packages (ISO 15924). */
static const struct {
    const char *model, *letters;
} scripts[] = {
    {"Arabic", "arab"},
    {"Armenian", "armn"},
    {"Bengali", "beng"},
    {"Canadian_Aboriginal", "cans"},
    {"Cherokee", "cher"},
    {"Cyrillic", "cyrl"},
    {"Devanagari", "deva"},
    {"Ethiopic", "ethi"},
    {"Fraktur", "frak"},
    {"Georgian", "geor"},
    {"Greek", "grek"},
    {"Gujarati", "gujr"},
    {"Gurmukhi", "guru"},
    {"HanS", "hans"},
    {"HanS_vert", "hans-vert"},
    {"HanT", "hant"},
    {"HanT_vert", "hant-vert"},
    {"Hangul", "hang"},
    {"Hangul_vert", "hang-vert"},
    {"Hebrew", "hebr"},
    {"Japanese", "jpan"},
    {"Japanese_vert", "jpan-vert"},
    {"Kannada", "knda"},
    {"Khmer", "khmr"},
    {"Lao", "laoo"},
    {"Latin", "latn"},
    {"Malayalam", "mlym"},
    {"Myanmar", "mymr"},
    {"Oriya", "orya"},
    {"Sinhala", "sinh"},
    {"Syriac", "syrc"},
    {"Tamil", "taml"},
    {"Telugu", "telu"},
    {"Thaana", "thaa"},
    {"Thai", "thai"},
    {"Tibetan", "tibt"},
    {"Vietnamese", "viet"},
};

static bool is_script(const char *name)
{
    return strncmp(name, SCRIPT, strlen(SCRIPT)) == 0;
}

static bool is_name(const char *text, size_t length)
{
    static const char letters[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_";
    if (length > strlen(SCRIPT) && is_script(text)) {
        text += strlen(SCRIPT);
        length -= strlen(SCRIPT);
    }
    return length >= 2 && length <= CLI_LANGUAGE_NAME_MAX && strspn(text, letters) >= length;
}

/* Finds files by `pattern` below the models' directory. */
static void find_models(const char *pattern, glob_t *found)
{
    char path[PATH_MAX];
    const char *given = cv_env("TESSDATA_PREFIX", NULL);
    (void)snprintf(path, sizeof(path), "%s/%s.traineddata",
                   given ? given : "/usr/share/tesseract-ocr/*/tessdata", pattern);
    (void)glob(path, 0, NULL, found);
}

bool cli_model_is_installed(const char *name)
{
    glob_t found = {0};
    find_models(name, &found);
    bool is_found = found.gl_pathc > 0;
    globfree(&found);
    if (!is_found && is_script(name)) { /* some systems have scripts beside the languages */
        found = (glob_t){0};
        find_models(name + strlen(SCRIPT), &found);
        is_found = found.gl_pathc > 0;
        globfree(&found);
    }
    return is_found;
}

void cli_installed_models(struct cv_buffer *names)
{
    static const char *const patterns[] = {"*", SCRIPT "*"};
    cv_buffer_text(names, "");
    for (size_t i = 0; i < CV_COUNT(patterns); i++) {
        glob_t found = {0};
        find_models(patterns[i], &found);
        for (size_t j = 0; j < found.gl_pathc; j++) {
            const char *name = strrchr(found.gl_pathv[j], '/') + 1;
            cv_buffer_printf(names, "%s%s%.*s", names->length > 0 ? " " : "", i ? SCRIPT : "",
                             (int)strcspn(name, "."), name);
        }
        globfree(&found);
    }
}

void cli_missing_packages(struct cv_buffer *packages)
{
    for (const char *at = CLI_MODELS_USUAL; *at; at += strspn(at, " ")) {
        char name[CLI_LANGUAGE_NAME_MAX], package[96];
        size_t length = strcspn(at, " ");
        (void)snprintf(name, sizeof(name), "%.*s", (int)length, at);
        for (char *c = name; *c; c++) {
            *c = *c == '-' ? '_' : *c;
        }
        if (!cli_model_is_installed(name)) {
            cv_buffer_printf(packages, " %s", cli_model_package(name, package));
        }
        at += length;
    }
}

const char *cli_model_package(const char *name, char text[96])
{
    const char *model = is_script(name) ? name + strlen(SCRIPT) : name;
    for (size_t i = 0; is_script(name) && i < CV_COUNT(scripts); i++) {
        if (strcmp(scripts[i].model, model) == 0) {
            (void)snprintf(text, 96, "tesseract-ocr-script-%s", scripts[i].letters);
            return text;
        }
    }
    (void)snprintf(text, 96, "tesseract-ocr-%s", model);
    for (char *c = text; *c; c++) {
        *c = *c == '_' ? '-' : *c;
    }
    return text;
}

static int refuse_missing(const struct cli_call *call, const char *name)
{
    char package[96];
    cv_auto(cv_buffer_deinit) struct cv_buffer names = CV_BUFFER_INIT;
    cli_installed_models(&names);
    const char *near = names.data ? cli_did_you_mean(names.data, name) : "";
    return cli_usage(call,
                     "there is no model '%s' on this machine%s%s%s\n"
                     "to install it: apt-get install %s\nthere are: %s",
                     name, near[0] ? ": did you mean " : "", near, near[0] ? "?" : "",
                     cli_model_package(name, package), names.data ? names.data : "none");
}

int cli_read_languages(const struct cli_call *call, bool here, json_t **ret_languages)
{
    const char *text = cli_value(call, "languages");
    cv_auto(json_decref) json_t *list = json_array();
    *ret_languages = NULL;
    for (const char *part = text; part && list;) {
        char name[CLI_LANGUAGE_NAME_MAX + 16];
        size_t length = strcspn(part, "+");
        if (!is_name(part, length) || json_array_size(list) == CLI_LANGUAGES_MAX) {
            return cli_usage(call,
                             "--languages takes up to %d names of models like eng+deu or "
                             "script/Japanese, not '%s'",
                             CLI_LANGUAGES_MAX, text);
        }
        (void)snprintf(name, sizeof(name), "%.*s", (int)length, part);
        if (here && !cli_model_is_installed(name)) {
            return refuse_missing(call, name);
        }
        if (json_array_append_new(list, json_string(name))) {
            return cli_usage(call, "no memory for --languages");
        }
        if (part[length] == '\0') {
            *ret_languages = cv_take(list);
            return 0;
        }
        part += length + 1;
    }
    return 0;
}

/* ---- scripts that no model reads ----------------------------------------------------------------- */

int cli_unread_find(struct cv_db *db, json_t **ret_unread, struct cv_error *error)
{
    cv_auto(cv_db_result_free) struct cv_db_result *rows = NULL;
    CV_TRY(cv_db_run(db, &rows, error,
                     "SELECT unread"
                     " FROM unread_scripts(ARRAY(SELECT DISTINCT video_id FROM unread_lines))"));
    *ret_unread = json_loads(cv_db_text(rows, 0, "unread"), 0, NULL);
    CV_TRY_MEMORY(*ret_unread, error, "what was not read");
    return 0;
}

/* Patterns of cli_expand. */
static const struct {
    const char *kind, *text;
} unread_texts[] = {
    {"lines",
     "{lines:count line is/lines are} in {named}[ in {several} videos|], which no model has "
     "read: [apt-get install {package}, then |]cortana reindex --languages eng+{model} "
     "{video}"},
    {"subtitles",
     "{lines:count subtitle is a picture/subtitles are pictures} in {named}[ in {several} "
     "videos|], "
     "which no model has read: [apt-get install {package}, then |]process the video again from its "
     "original, SELECT reprocess_video('{video}')"},
    {"pictures",
     "{lines:count subtitle that is a picture/subtitles that are pictures}[ in {several} "
     "videos|] could not be read: the track is damaged, or has no clear letters"},
    {"truncated",
     "{lines:count line was gone again before it/lines were gone again before they} could be "
     "read[ in {several} videos|]: more new text was on screen than is read in a second of video"},
};

const char *cli_unread_text(const json_t *unread, const char *video,
                            char text[CLI_UNREAD_TEXT_SIZE])
{
    cv_auto(cv_buffer_deinit) struct cv_buffer said = CV_BUFFER_INIT;
    char model[CLI_LANGUAGE_NAME_MAX + 16], package[96], named[CLI_LANGUAGE_NAME_MAX + 32];
    const char *kind = json_string_value(json_object_get(unread, "kind"));
    const char *script = json_string_value(json_object_get(unread, "script"));
    bool is_language = script && script[0] >= 'a'; /* models of scripts have names with a capital */
    (void)snprintf(model, sizeof(model), "%s%s", is_language ? "" : SCRIPT, script ? script : "");
    (void)snprintf(named, sizeof(named), is_language ? "the language '%s'" : "%s",
                   script ? script : "");
    bool is_missing = script && !cli_model_is_installed(model);
    cv_auto(json_decref) json_t *known = json_pack(
        "{s:s, s:s, s:s, s:s*, s:O*}", "video", video ? video : "VIDEO", "named", named, "model",
        model, "package", is_missing ? cli_model_package(model, package) : NULL, "several",
        json_integer_value(json_object_get(unread, "videos")) > 1
            ? json_object_get(unread, "videos")
            : NULL);
    for (size_t i = 0; kind && i < CV_COUNT(unread_texts); i++) {
        if (strcmp(unread_texts[i].kind, kind) == 0 &&
            json_object_update_missing(known, (json_t *)unread) == 0) {
            cli_expand(&said, unread_texts[i].text, known, false);
        }
    }
    (void)snprintf(text, CLI_UNREAD_TEXT_SIZE, "%s", said.data ? said.data : "");
    return text;
}
