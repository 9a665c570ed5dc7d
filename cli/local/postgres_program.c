#include "cli/local/postgres.h"

#include <glob.h>
#include <string.h>

int cli_postgres_program(const char *name, char *path, size_t size, struct cv_error *error)
{
    const char *given = cv_env("PG_BIN", NULL);
    if (given) {
        (void)snprintf(path, size, "%s/%s", given, name);
        return 0;
    }
    char pattern[PATH_MAX];
    glob_t found = {0};
    int64_t newest = -1;
    (void)snprintf(pattern, sizeof(pattern), "/usr/lib/postgresql/*/bin/%s", name);
    if (glob(pattern, 0, NULL, &found) == 0) {
        for (size_t i = 0; i < found.gl_pathc; i++) {
            long long version =
                strtoll(found.gl_pathv[i] + strlen("/usr/lib/postgresql/"), NULL, 10);
            if (version > newest) {
                newest = version;
                (void)snprintf(path, size, "%s", found.gl_pathv[i]);
            }
        }
    }
    globfree(&found);
    return newest >= 0 ? 0
                       : cv_fail(error, CV_ERROR_CONFIGURATION,
                                 "%s is not installed: apt-get install postgresql", name);
}
