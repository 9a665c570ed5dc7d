#include "workers/ocr/reading/models.h"

#include <dirent.h>
#include <fcntl.h>
#include <limits.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* Where Debian and builds from source keep models, when TESSDATA_PREFIX does not say. */
static const char *const DATA_PATHS[] = {
    "/usr/share/tesseract-ocr/5/tessdata",
    "/usr/share/tesseract-ocr/4.00/tessdata",
    "/usr/local/share/tessdata",
    "/usr/share/tessdata",
};

const char *ocr_models_path(void)
{
    const char *path = cv_env("TESSDATA_PREFIX", NULL);
    struct stat info;

    if (path) {
        return path;
    }
    for (size_t i = 0; i < CV_COUNT(DATA_PATHS); i++) {
        if (stat(DATA_PATHS[i], &info) == 0 && S_ISDIR(info.st_mode)) {
            return DATA_PATHS[i];
        }
    }
    return DATA_PATHS[0];
}

static bool is_name(const char *name)
{
    static const char script[] = "script/";
    size_t length;

    if (strcmp(name, "osd") == 0) {
        return false; /* tells scripts apart and reads nothing */
    }
    if (strncmp(name, script, sizeof(script) - 1) == 0) {
        name += sizeof(script) - 1;
    }
    length = strspn(name, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_");
    return length >= 2 && length < OCR_LANGUAGE_NAME_MAX - sizeof(script) && !name[length];
}

static int compare_names(const struct dirent **a, const struct dirent **b)
{
    return strcmp((*a)->d_name, (*b)->d_name);
}

static int is_model(const struct dirent *entry)
{
    const char *dot = strrchr(entry->d_name, '.');
    return dot && strcmp(dot, ".traineddata") == 0 && strcmp(entry->d_name, "osd.traineddata") != 0;
}

/* Appends ", deu, eng, fra" of a folder to `list`, as much as fits. */
static void list_folder(const char *folder, const char *prefix, char *list, size_t size)
{
    struct dirent **entries = NULL;
    int count = scandir(folder, &entries, is_model, compare_names);
    size_t used = strlen(list);

    for (int i = 0; i < count; i++) {
        size_t length = strlen(entries[i]->d_name) - strlen(".traineddata");
        if (used + strlen(prefix) + length + 3 < size) {
            used += (size_t)snprintf(list + used, size - used, "%s%s%.*s", used ? ", " : "", prefix,
                                     (int)length, entries[i]->d_name);
        }
        free(entries[i]);
    }
    free(entries);
}

static void list_installed(const char *data_path, char *list, size_t size)
{
    char folder[PATH_MAX];

    list[0] = '\0';
    list_folder(data_path, "", list, size);
    if (snprintf(folder, sizeof(folder), "%s/script", data_path) < (int)sizeof(folder)) {
        list_folder(folder, "script/", list, size);
    }
}

static int is_installed(const char *data_path, const char *name, bool *ret_installed,
                        struct cv_error *error)
{
    cv_auto_free char *file = NULL;

    CV_TRY(cv_format(&file, error, "%s/%s.traineddata", data_path, name));
    /* Opened, because access() asks for the real user id, which the sandbox has changed. */
    cv_auto_fd int fd = open(file, O_RDONLY | O_CLOEXEC);
    *ret_installed = fd >= 0;
    return 0;
}

int ocr_models_find(const char *data_path, const char *name, const char **ret_name,
                    struct cv_error *error)
{
    bool installed = false;

    if (!is_name(name)) {
        return cv_fail(error, CV_ERROR_INVALID_PAYLOAD,
                       "languages: \"%.40s\" is not the name of a Tesseract model", name);
    }
    CV_TRY(is_installed(data_path, name, &installed, error));
    const char *plain = strchr(name, '/');
    if (!installed && plain) {
        name = plain + 1;
        CV_TRY(is_installed(data_path, name, &installed, error));
    }
    if (!installed) {
        char names[400];
        list_installed(data_path, names, sizeof(names));
        return cv_fail(error, CV_ERROR_INVALID_PAYLOAD,
                       "languages: no model \"%s\" is installed; there are: %s", name,
                       names[0] ? names : "none");
    }
    *ret_name = name;
    return 0;
}

int ocr_models_has_osd(bool *ret_installed, struct cv_error *error)
{
    return is_installed(ocr_models_path(), "osd", ret_installed, error);
}

void ocr_defaults_deinit(struct ocr_defaults *defaults)
{
    free(defaults->text);
    *defaults = (struct ocr_defaults){0};
}

/* A model that an operator has named has to be installed: a library that was read without it
 * would have to be read again. */
static int add_named(const char *named, struct ocr_defaults *defaults, struct cv_error *error)
{
    char *rest = NULL;

    defaults->text = strdup(named);
    CV_TRY_MEMORY(defaults->text, error, "languages");
    for (char *name = strtok_r(defaults->text, "+", &rest); name;
         name = strtok_r(NULL, "+", &rest)) {
        const char *installed;
        struct cv_error reason;
        if (defaults->count == OCR_LANGUAGES_MAX) {
            return cv_fail(error, CV_ERROR_CONFIGURATION,
                           "CORTANA_LANGUAGES names more than %d models", OCR_LANGUAGES_MAX);
        }
        if (ocr_models_find(ocr_models_path(), name, &installed, &reason) < 0) {
            return cv_fail(error, CV_ERROR_CONFIGURATION, "CORTANA_LANGUAGES: %s", reason.message);
        }
        defaults->names[defaults->count++] = name;
    }
    return defaults->count ? 0
                           : cv_fail(error, CV_ERROR_CONFIGURATION,
                                     "CORTANA_LANGUAGES names no model: say eng+deu, for example");
}

/* Adds the usual models that are installed, even if it is only one: whoever installs one model
 * wants to read with it. Which are missing `cortana doctor` says, and not the log of each job. */
static int add_installed(struct ocr_defaults *defaults, struct cv_error *error)
{
    static const char *const usual[] = {"eng", "deu", "fra"};
    char missing[64] = "";

    for (size_t i = 0; i < CV_COUNT(usual); i++) {
        bool installed = false;
        CV_TRY(is_installed(ocr_models_path(), usual[i], &installed, error));
        if (installed) {
            defaults->names[defaults->count++] = usual[i];
        } else {
            size_t used = strlen(missing);
            (void)snprintf(missing + used, sizeof(missing) - used, "%s%s", used ? ", " : "",
                           usual[i]);
        }
    }
    if (!defaults->count) {
        return cv_fail(
            error, CV_ERROR_CONFIGURATION,
            "none of the models that read by default (%s) is in %s: install one, or name "
            "others in CORTANA_LANGUAGES",
            missing, ocr_models_path());
    }
    return 0;
}

int ocr_defaults_init(struct ocr_defaults *ret_defaults, struct cv_error *error)
{
    cv_auto(ocr_defaults_deinit) struct ocr_defaults defaults = {0};
    const char *named = cv_env("CORTANA_LANGUAGES", NULL);

    CV_TRY(named ? add_named(named, &defaults, error) : add_installed(&defaults, error));
    *ret_defaults = defaults;
    defaults = (struct ocr_defaults){0};
    return 0;
}
