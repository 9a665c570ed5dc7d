#include "common/worker/variables.h"

#include <limits.h>
#include <string.h>

extern char **environ;

/* A process gets only these variables, so that no secret in the supervisor's environment needs to
 * be removed explicitly. A name that ends in '*' is a prefix. */
static const struct {
    const char *name;
    unsigned needs; /* the process must have one of these needs; 0: every process */
} admitted[] = {
    {"PATH", 0},
    {"HOME", 0},
    {"LANG", 0},
    {"LC_*", 0},
    {"TZ", 0},
    {"LD_LIBRARY_PATH", 0},
    {"LD_PRELOAD", 0},
    {"FAKETIME*", 0},
    {"TESSDATA_PREFIX", 0},
    {"OMP_THREAD_LIMIT", 0},
    {"TMPDIR", 0},
    {"LOG_LEVEL", 0},
    {"CORTANA_*", 0},
    {"ASAN_OPTIONS", 0},
    {"LSAN_OPTIONS", 0},
    {"TSAN_OPTIONS", 0},
    {"UBSAN_OPTIONS", 0},
    {"STORE_URL", CV_NEEDS_STORE_ACCESS | CV_STAGE_RUNS_PROGRAMS},
    {"http_proxy", CV_NEEDS_STORE_ACCESS | CV_STAGE_RUNS_PROGRAMS},
    {"HTTPS_PROXY", CV_NEEDS_STORE_ACCESS | CV_STAGE_RUNS_PROGRAMS},
    {"https_proxy", CV_NEEDS_STORE_ACCESS | CV_STAGE_RUNS_PROGRAMS},
    {"NO_PROXY", CV_NEEDS_STORE_ACCESS | CV_STAGE_RUNS_PROGRAMS},
    {"no_proxy", CV_NEEDS_STORE_ACCESS | CV_STAGE_RUNS_PROGRAMS},
    {"S3_*", CV_NEEDS_STORE_ACCESS | CV_STAGE_RUNS_PROGRAMS},
    {"AWS_*", CV_NEEDS_STORE_ACCESS | CV_STAGE_RUNS_PROGRAMS},
    {"COMMAND_*", CV_STAGE_RUNS_PROGRAMS},
    {"DATABASE_URL", CV_STAGE_NEEDS_DATABASE},
    {"PG*", CV_STAGE_NEEDS_DATABASE},
    {"EMBED_*", CV_STAGE_NEEDS_EMBEDDER},
};

bool cv_variables_admits(const char *entry, unsigned needs)
{
    size_t length = strcspn(entry, "=");
    char whole[NAME_MAX];
    (void)snprintf(whole, sizeof(whole), "%.*s", (int)length, entry);
    bool is_secret =
        cv_setting_is_secret(whole); /* a prefix without needs does not admit a secret */
    for (size_t i = 0; i < CV_COUNT(admitted); i++) {
        const char *name = admitted[i].name;
        size_t name_length = strlen(name);
        bool is_prefix = name[name_length - 1] == '*';
        bool matches = is_prefix ? strncmp(entry, name, name_length - 1) == 0
                                 : name_length == length && strncmp(entry, name, length) == 0;
        if (matches && ((admitted[i].needs == 0 && !is_secret) || (admitted[i].needs & needs))) {
            return true;
        }
    }
    return false;
}

void cv_variables_wipe(unsigned needs)
{
    char **kept = environ;
    for (char **entry = environ; *entry; entry++) {
        if (cv_variables_admits(*entry, needs)) {
            *kept++ = *entry;
        } else {
            explicit_bzero(*entry, strlen(*entry));
        }
    }
    *kept = NULL;
}
