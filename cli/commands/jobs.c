#include "cli/commands/operation.h"
#include "cli/commands/verbs.h"

#include <string.h>

/* ---- watch ----------------------------------------------------------------------------------- */

int cli_watch(struct cli_call *call, struct cv_error *error)
{
    double every = 1;
    int64_t count = 0;
    const char *text = cli_value(call, "every");
    CV_TRY(cli_number(call, "count", 1, INT32_MAX, 0, &count));
    if (text && !cv_parse_double(text, 0.1, 3600, &every)) {
        return cli_usage(call, "--every takes seconds from 0.1 to 3600, not '%s'", text);
    }
    CV_TRY(cli_open(call, error));
    for (int64_t drawn = 0; count == 0 || drawn < count; drawn++) {
        if (drawn > 0 && cv_cancel_wait(call->cancel, (int)(every * 1000))) {
            return CLI_EXIT_OK; /* users leave it by interrupting */
        }
        if (cli_is_terminal(STDOUT_FILENO)) {
            (void)fputs("\033[H\033[J", stdout);
        } else if (drawn > 0) {
            (void)putchar('\n');
        }
        CV_TRY(cli_run_operation(call, error));
        (void)fflush(stdout);
    }
    return CLI_EXIT_OK;
}

/* ---- change ---------------------------------------------------------------------------------- */

static const struct change {
    const char *action;
    const char *one, *many; /* "1 job …", "N jobs …" */
} changes[] = {
    {"retry", "job is queued again", "jobs are queued again"},
    {"cancel", "job is canceled, or stops soon", "jobs are canceled, or stop soon"},
    {"priority", "job has another priority now", "jobs have another priority now"},
};

/* Repeats the change until nothing is left to change, in short transactions. */
static int change_all(struct cli_call *call, const json_t *values, const struct change *change,
                      struct cv_error *error)
{
    char counted[CLI_COUNTED_SIZE];
    int result = 0;
    int64_t total = 0;
    int64_t step = 1;
    cv_auto(cli_progress_deinit) struct cli_progress progress;
    cli_progress_init(&progress, call->json, false);
    while (result == 0 && step > 0) {
        cv_auto(json_decref) json_t *body = NULL;
        result = cli_ask(call, "bulk_jobs", values, &body, error);
        step = json_integer_value(json_object_get(body, "changed"));
        total += step;
        if (step > 0) {
            cli_progress_begin(&progress);
            cli_progress_row(&progress, "so far", -1,
                             cli_counted(total, change->one, change->many, counted));
            cli_progress_end(&progress);
        }
        if (result == 0 && cv_cancel_level(call->cancel) != CV_CANCEL_NONE) {
            result = cv_fail(error, CV_ERROR_CANCELED, "interrupted");
        }
    }
    cli_progress_erase(&progress);
    (void)cli_counted(total, change->one, change->many, counted);
    if (result && total > 0) { /* finished changes stay; the same command does the rest */
        cli_print_note(call, "%s; the others are as they were", counted);
    }
    return result ? result
                  : cli_print_outcome(call, json_pack("{s:I}", "jobs", (json_int_t)total), error,
                                      "%s", counted);
}

/* Whether an option names jobs: one whose parameter filters them. */
static bool is_filtered(const struct cli_call *call)
{
    char option[32];
    bool is_given = false;
    for (const char *at = CLI_JOB_FILTER; *at && !is_given; at += strspn(at, " ")) {
        (void)snprintf(option, sizeof(option), "%.*s", (int)strcspn(at, ":> "), at);
        is_given = cli_given(call, option);
        at += strcspn(at, " ");
    }
    return is_given;
}

/* Changes the job that is the verb's last argument, by its operation; or those that its options name. */
int cli_jobs_change(struct cli_call *call, struct cv_error *error)
{
    const struct change *change = changes;
    cv_auto(json_decref) json_t *values = NULL;
    struct cli_verb verb = *call->verb;
    bool has_job = call->count == verb.most;
    if (has_job == is_filtered(call)) {
        return cli_usage(call, has_job ? "a job, or options that name jobs, not both"
                                       : "which jobs? Name one, or say --type, --video, …");
    }
    CV_TRY(cli_open(call, error));
    if (has_job) {
        return cli_run_operation(call, error);
    }
    while (strcmp(change->action, verb.name + strlen("jobs ")) != 0) {
        change++;
    }
    struct cli_call all = *call;
    all.verb = &verb;
    verb.values = "0>priority " CLI_JOB_FILTER;
    CV_TRY(cli_read_values(&all, &values, error));
    bool is_good = json_object_set_new(values, "action", json_string(change->action)) == 0 &&
                   (strcmp(change->action, "retry") != 0 || json_object_get(values, "state") ||
                    json_object_set_new(values, "state", json_string("failed")) == 0);
    CV_TRY_MEMORY(is_good, error, "a filter");
    return change_all(call, values, change, error);
}
