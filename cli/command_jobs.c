#include "cli/command.h"
#include "cli/jobs.h"

#include <getopt.h>
#include <string.h>

enum {
    ID_LETTERS_MIN = 4, /* fewer mean too much */
    DAYS_DEFAULT = 90,
    DAYS_MAX = 100 * 366,
    EVERY_DEFAULT_MS = 1000,
};

CV_DEFINE_CLEANUP(json_t *, json_decref)

/* What an action takes. */
static const struct action {
    const char *name;
    cli_jobs_action *run;
    int least; /* arguments */
    int most;
    int filtered; /* so many arguments when a filter takes the place of the id; -1: no filter */
    bool needs_store;
} actions[] = {
    {"list", cli_jobs_list, 0, 0, -1, false},        {"show", cli_jobs_show, 1, 1, -1, false},
    {"why", cli_jobs_why, 1, 1, -1, false},          {"watch", cli_jobs_watch, 0, 0, -1, false},
    {"retry", cli_jobs_retry, 1, 1, 0, false},       {"cancel", cli_jobs_cancel, 1, 1, 0, false},
    {"priority", cli_jobs_priority, 2, 2, 1, false}, {"pause", cli_jobs_pause, 1, 1, 0, false},
    {"resume", cli_jobs_resume, 1, 1, 0, false},     {"archive", cli_jobs_archive, 0, 0, -1, true},
    {"restore", cli_jobs_restore, 1, 1, -1, true},
};

enum option_value {
    OPTION_TYPE = 256,
    OPTION_TENANT,
    OPTION_VIDEO,
    OPTION_ERROR,
    OPTION_STATUS,
    OPTION_FAILED,
    OPTION_REASON,
    OPTION_DAYS,
    OPTION_JOBS,
    OPTION_EVERY,
    OPTION_COUNT,
    OPTION_DATA,
};

static const struct option options[] = {{"type", required_argument, NULL, OPTION_TYPE},
                                        {"tenant", required_argument, NULL, OPTION_TENANT},
                                        {"video", required_argument, NULL, OPTION_VIDEO},
                                        {"error", required_argument, NULL, OPTION_ERROR},
                                        {"status", required_argument, NULL, OPTION_STATUS},
                                        {"failed", required_argument, NULL, OPTION_FAILED},
                                        {"reason", required_argument, NULL, OPTION_REASON},
                                        {"days", required_argument, NULL, OPTION_DAYS},
                                        {"jobs", no_argument, NULL, OPTION_JOBS},
                                        {"every", required_argument, NULL, OPTION_EVERY},
                                        {"count", required_argument, NULL, OPTION_COUNT},
                                        {"data", required_argument, NULL, OPTION_DATA},
                                        {"help", no_argument, NULL, 'h'},
                                        {0}};

/* False: the value is none that the option takes. */
static bool take_option(int option, struct cli_jobs_request *request)
{
    static const char *const members[] = {"job_type", "tenant_id", "video_id", "error_type",
                                          "status"};
    double seconds = 0;
    switch (option) {
    case OPTION_FAILED:
        request->failed_type = optarg;
        return true;
    case OPTION_REASON:
        request->reason = optarg;
        return true;
    case OPTION_DAYS:
        return cv_parse_int(optarg, 0, DAYS_MAX, &request->days);
    case OPTION_JOBS:
        request->is_of_jobs = true;
        return true;
    case OPTION_COUNT:
        return cv_parse_int(optarg, 1, INT32_MAX, &request->count);
    case OPTION_EVERY:
        if (!cv_parse_double(optarg, 0.1, 3600, &seconds)) {
            return false;
        }
        request->every_ms = (int64_t)(seconds * 1000);
        return true;
    default:
        if ((option == OPTION_TENANT || option == OPTION_VIDEO) && !cv_is_uuid(optarg)) {
            return false;
        }
        return json_object_set_new(request->filter, members[option - OPTION_TYPE],
                                   json_string(optarg)) == 0;
    }
}

static const struct action *find_action(const char *name)
{
    for (size_t i = 0; i < CV_COUNT(actions); i++) {
        if (strcmp(actions[i].name, name) == 0) {
            return &actions[i];
        }
    }
    return NULL;
}

/* NULL, or what is wrong with the arguments. */
static const char *find_fault(const struct action *action, const struct cli_jobs_request *request,
                              int given)
{
    bool is_filtered = json_object_size(request->filter) > 0 || request->failed_type;
    int64_t number = 0;
    if (is_filtered && action->filtered < 0) {
        return "takes no filter";
    }
    if (request->failed_type && action->run != cli_jobs_retry) {
        return "takes no --failed, which goes with retry";
    }
    if (request->is_of_jobs && action->run != cli_jobs_archive) {
        return "takes no --jobs, which goes with archive";
    }
    if (is_filtered ? given != action->filtered : given < action->least || given > action->most) {
        return is_filtered             ? "needs no id where there is a filter"
               : given < action->least ? "needs an argument"
                                       : "takes no more arguments";
    }
    bool is_id = action->run != cli_jobs_pause && action->run != cli_jobs_resume &&
                 action->run != cli_jobs_restore && given > 0;
    const char *last = given > 0 ? request->arguments[given - 1] : "";
    if (action->run == cli_jobs_priority) {
        if (!cv_parse_int(request->arguments[0], 0, 10, &number)) {
            return "needs a number from 0 to 10";
        }
        is_id = given == 2;
    }
    return is_id && strlen(last) < ID_LETTERS_MIN
               ? "needs the id of one job, 4 letters of it or more"
               : NULL;
}

static int run(const struct cli_command *command, int argc, char **argv, struct cv_cancel *cancel,
               struct cv_error *error)
{
    struct cli_session_params params = {.cancel = cancel};
    struct cli_jobs_request request = {.filter = json_object(),
                                       .days = DAYS_DEFAULT,
                                       .every_ms = EVERY_DEFAULT_MS,
                                       .cancel = cancel};
    cv_auto(json_decref) json_t *filter = request.filter;
    if (!filter) {
        return cv_fail(error, CV_ERROR_OUT_OF_MEMORY, "no memory for a filter");
    }
    for (int option; (option = cli_next_option(command, argc, argv, ":h", options)) != -1;) {
        if (option == OPTION_DATA) {
            params.data = optarg;
        } else if (option == 'h' || option == '?') {
            return option == 'h' ? CLI_EXIT_OK : CLI_EXIT_USAGE;
        } else if (!take_option(option, &request)) {
            return cli_usage(command, "'%s' is no value of that option", optarg);
        }
    }
    const char *name = optind < argc ? argv[optind] : "list";
    const struct action *action = find_action(name);
    if (!action) {
        return cli_usage(command, "jobs cannot '%s'", name);
    }
    int given = optind < argc ? argc - optind - 1 : 0;
    for (int i = 0; i < given && i < (int)CV_COUNT(request.arguments); i++) {
        request.arguments[i] = argv[optind + 1 + i];
    }
    const char *fault = given > (int)CV_COUNT(request.arguments)
                            ? "takes no more arguments"
                            : find_fault(action, &request, given);
    if (fault) {
        return cli_usage(command, "%s %s", name, fault);
    }
    params.without_store = !action->needs_store;
    cv_auto(cli_session_close) struct cli_session session = {0};
    int result = cli_session_open(&session, &params, error);
    return result ? result : action->run(&session, &request, error);
}

const struct cli_command cli_command_jobs = {
    .name = "jobs",
    .summary = "list, watch, explain and change jobs",
    .help =
        "usage: cortana jobs [ACTION] [OPTIONS]\n\n"
        "  list                 unfinished jobs first, then the newest (50)\n"
        "  show ID              one job with its attempts and events\n"
        "  why ID               why it is not running\n"
        "  watch                what is open and what runs, again every second\n"
        "    --every S, --count N   other than 1 s; so often and no more\n"
        "  retry ID | FILTER    failed jobs once more, with fresh retries\n"
        "    --failed TYPE          the same as --type TYPE\n"
        "  cancel ID | FILTER   waiting jobs at once; running ones are stopped\n"
        "  priority N ID | N FILTER   of waiting jobs, 0 to 10\n"
        "  pause TYPE | --tenant UUID [--reason TEXT]   no new claims; what runs goes on\n"
        "  resume TYPE | --tenant UUID\n"
        "  archive [--days N]   months of the timeline older than that (90) to the store\n"
        "    --jobs                 jobs that are done or canceled, and runs as a whole, instead\n"
        "  restore KEY          an archive back\n"
        "  --data DIR           the installation in DIR, even if DATABASE_URL is set\n\n"
        "FILTER: --type T, --tenant UUID, --video UUID, --error NAME, --status S; all that are\n"
        "given must hold. ID may be the first letters of an id.\n",
    .run = run,
};
