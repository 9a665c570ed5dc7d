/* cortana setup and upgrade: run shell programs of the installation that do what an administrator
 * would do by hand. They get the options unchanged, and the path of cortana. */
#include "cli/commands/verbs.h"

#include <limits.h>
#include <string.h>

int cli_service(struct cli_call *call, struct cv_error *error)
{
    char name[64];
    char program[PATH_MAX];
    char self[PATH_MAX];
    char *argv[2 * CLI_GIVEN_MAX + 2] = {program};
    size_t used = 1;
    (void)snprintf(name, sizeof(name), "cortana-%s", call->verb->name);
    int result = cv_find_program(name, program, sizeof(program), error);
    result = result ? result : cv_find_program("cortana", self, sizeof(self), error);
    for (size_t i = 0; result == 0 && i < call->given_count; i++) {
        result = cv_format(&argv[used++], error, "--%s", call->given[i].name);
        if (result == 0 && call->given[i].value[0]) {
            result = cv_format(&argv[used++], error, "%s", call->given[i].value);
        }
    }
    if (result == 0 && setenv("CORTANA", self, 1) == 0) {
        (void)fflush(stdout);
        (void)execv(program, argv);
        result = cv_fail_errno(error, errno, "run %s", program);
    }
    for (size_t i = 1; i < used; i++) {
        free(argv[i]);
    }
    return result;
}
