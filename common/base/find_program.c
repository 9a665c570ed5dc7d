#include "common/base/base.h"

#include <limits.h>
#include <string.h>

/* The folders of programs, relative to the folder of any program. Installed: PREFIX/bin/cortana,
 * and the others in PREFIX/libexec/cortana. In a build folder: cli, gateway, workers/STAGE and
 * platform/STAGE. */
static const struct {
    const char *folder;
    bool is_of_stages; /* it has one subfolder per stage */
} places[] = {
    {".", false},
    {"../libexec/cortana", false},
    {"../../bin", false}, /* installed */
    {"../cli", false},
    {"../gateway", false},
    {"../install", false},
    {"../workers", true},
    {"../platform", true}, /* from cli, gateway */
    {"../../cli", false},
    {"../../gateway", false},
    {"../../workers", true},
    {"../../platform", true}, /* from a stage */
};

/* The folder of a stage, "segment_index", from its program's name "segment-index-worker". */
static void name_stage(const char *program, char *stage, size_t size)
{
    static const char suffix[] = "-worker";
    (void)snprintf(stage, size, "%s", program);
    size_t length = strlen(stage);
    if (length >= sizeof(suffix) && strcmp(stage + length - (sizeof(suffix) - 1), suffix) == 0) {
        stage[length - (sizeof(suffix) - 1)] = '\0';
    }
    for (char *c = stage; *c; c++) {
        *c = *c == '-' ? '_' : *c;
    }
}

int cv_find_program(const char *name, char *path, size_t size, struct cv_error *error)
{
    char folder[PATH_MAX];
    char stage[NAME_MAX];
    ssize_t length = readlink("/proc/self/exe", folder, sizeof(folder) - 1);
    if (length <= 0) {
        return cv_fail_errno(error, errno, "find where this program lies");
    }
    folder[length] = '\0';
    *strrchr(folder, '/') = '\0'; /* the link is absolute */
    name_stage(name, stage, sizeof(stage));
    for (size_t i = 0; i < CV_COUNT(places); i++) {
        int written =
            snprintf(path, size, "%s/%s/%s%s%s", folder, places[i].folder,
                     places[i].is_of_stages ? stage : "", places[i].is_of_stages ? "/" : "", name);
        if (written > 0 && (size_t)written < size && access(path, X_OK) == 0) {
            return 0;
        }
    }
    return cv_fail(error, CV_ERROR_CONFIGURATION,
                   "%s is not beside this program (%s): build or install it", name, folder);
}
