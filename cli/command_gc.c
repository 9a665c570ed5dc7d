#include "common/objects/objects.h"

#include "cli/command.h"
#include "cli/session.h"
#include "cli/text.h"

#include <getopt.h>

#define MIN_AGE_HOURS 24.0

enum { MS_PER_HOUR = 60 * 60 * 1000, HOURS_MAX = 24 * 3650 };

static void print_finding(void *opaque, const struct cv_gc_finding *finding)
{
    (void)opaque;
    cli_put_column(stdout, cv_gc_kind_name(finding->kind), 21);
    (void)printf("%13lld  ", (long long)finding->size);
    cli_put(stdout, finding->key);
    (void)putchar('\n');
}

static void print_summary(const struct cv_gc_params *params, const struct cv_gc_summary *summary)
{
    long long doomed = (long long)(summary->found[CV_GC_ORPHAN] + summary->found[CV_GC_OLD_CLIP]);
    (void)printf("%lld objects in %lld lists: %lld of %lld bytes %s\n", (long long)summary->objects,
                 (long long)summary->pages, doomed, (long long)summary->bytes,
                 params->remove_objects ? "are removed" : "would be removed");
    for (int kind = CV_GC_UNREGISTERED; kind < CV_GC_KIND_COUNT; kind++) {
        if (summary->found[kind] > 0) {
            (void)printf("%lld: %s\n", (long long)summary->found[kind],
                         cv_gc_kind_name((enum cv_gc_kind)kind));
        }
    }
    if (summary->rows_removed > 0) {
        (void)printf("%lld rows are removed\n", (long long)summary->rows_removed);
    }
}

/* The summary as one JSON object: how many of each kind, and what was done. */
static void print_json(const struct cv_gc_params *params, const struct cv_gc_summary *summary)
{
    (void)printf("{\"objects\": %lld, \"bytes\": %lld, \"removed\": %s, \"rows_removed\": %lld",
                 (long long)summary->objects, (long long)summary->bytes,
                 params->remove_objects ? "true" : "false", (long long)summary->rows_removed);
    for (int kind = 0; kind < CV_GC_KIND_COUNT; kind++) {
        (void)printf(", \"%s\": %lld", cv_gc_kind_name((enum cv_gc_kind)kind),
                     (long long)summary->found[kind]);
    }
    (void)puts("}");
}

static void keep_quiet(void *opaque, const struct cv_gc_finding *finding)
{
    (void)opaque;
    (void)finding;
}

/* Old clips alone, by their jobs' rows: no list of the store is needed. */
static int expire_clips(struct cli_session *session, const struct cv_gc_params *params, bool json,
                        struct cv_error *error)
{
    int64_t removed = 0;
    int result = cv_clips_expire(session->db, session->store, params->clip_days, INT32_MAX,
                                 params->cancel, &removed, error);
    if (result == 0) {
        (void)printf(json ? "{\"clips_removed\": %lld}\n" : "%lld clips are removed\n",
                     (long long)removed);
    }
    return result;
}

static int work(const struct cli_session_params *session_params, struct cv_gc_params *params,
                bool clips, bool json, struct cv_error *error)
{
    cv_auto(cli_session_close) struct cli_session session = {0};
    struct cv_gc_summary summary;
    int result = cv_clip_days(&params->clip_days, error);
    result = result ? result : cli_session_open(&session, session_params, error);
    if (result == 0 && clips) {
        return expire_clips(&session, params, json, error);
    }
    result = result ? result : cv_gc_run(session.db, session.store, params, &summary, error);
    if (result == 0) {
        (json ? print_json : print_summary)(params, &summary);
    }
    return result;
}

static int run(const struct cli_command *command, int argc, char **argv, struct cv_cancel *cancel,
               struct cv_error *error)
{
    static const struct option options[] = {{"data", required_argument, NULL, 'd'},
                                            {"dry-run", no_argument, NULL, 'n'},
                                            {"remove", no_argument, NULL, 'r'},
                                            {"rows", no_argument, NULL, 'R'},
                                            {"clips", no_argument, NULL, 'c'},
                                            {"json", no_argument, NULL, 'j'},
                                            {"min-age", required_argument, NULL, 'a'},
                                            {"help", no_argument, NULL, 'h'},
                                            {0}};
    struct cli_session_params session = {.cancel = cancel};
    struct cv_gc_params params = {.cancel = cancel, .tell = print_finding};
    double hours = MIN_AGE_HOURS;
    bool dry = false;
    bool clips = false;
    bool json = false;
    for (int option; (option = cli_next_option(command, argc, argv, ":h", options)) != -1;) {
        switch (option) {
        case 'd':
            session.data = optarg;
            break;
        case 'n':
            dry = true;
            break;
        case 'r':
            params.remove_objects = true;
            break;
        case 'R':
            params.remove_rows = true;
            break;
        case 'c':
            clips = true;
            break;
        case 'j':
            json = true;
            params.tell = keep_quiet;
            break;
        case 'a':
            if (!cv_parse_double(optarg, 0, HOURS_MAX, &hours)) {
                return cli_usage(command, "--min-age takes hours from 0 to %d", HOURS_MAX);
            }
            break;
        default:
            return option == 'h' ? CLI_EXIT_OK : CLI_EXIT_USAGE;
        }
    }
    if (optind < argc) {
        return cli_usage(command, "unexpected argument %s", argv[optind]);
    }
    if ((dry && params.remove_objects) || (params.remove_rows && !params.remove_objects)) {
        return cli_usage(command, dry ? "--dry-run and --remove exclude each other"
                                      : "--rows goes with --remove");
    }
    if (clips && (dry || params.remove_objects)) {
        return cli_usage(command, "--clips goes alone: it removes them");
    }
    params.min_age_ms = (int64_t)(hours * MS_PER_HOUR);
    return work(&session, &params, clips, json, error);
}

const struct cli_command cli_command_gc = {
    .name = "gc",
    .summary = "find and remove objects that no row knows, and rows whose objects are gone",
    .help =
        "usage: cortana gc [--dry-run | --remove [--rows] | --clips] [--min-age HOURS] [--json]\n"
        "                  [--data DIR]\n\n"
        "Compares the store with the tables. One line a finding: what it is, bytes, key.\n\n"
        "  --remove         removes objects of videos that there are not, and clips beyond their\n"
        "                   time; marks rows whose original is gone\n"
        "  --rows           removes rows all of whose objects are gone, too\n"
        "  --clips          removes clips beyond their time, and looks at nothing else\n"
        "  --json           one object with counts instead of lines\n"
        "  --min-age HOURS  what is younger is left alone: uploads and attempts under way (24)\n"
        "  --data DIR       the installation in DIR, even if DATABASE_URL is set\n\n"
        "Originals without a row are never removed, unless their video was deleted: the scanner\n"
        "takes them in. Nothing is removed without --remove.\n",
    .run = run,
};
