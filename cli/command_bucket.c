#include "common/objects/objects.h"

#include "cli/command.h"
#include "cli/session.h"

#include <getopt.h>
#include <string.h>

/* The store alone: a bucket is made before there is a database. */
static int open_store(const char *data, struct cv_store **ret_store, struct cv_error *error)
{
    if (!data && (cv_env("STORE_URL", NULL) || cv_env("S3_BUCKET", NULL))) {
        return cv_store_open(NULL, ret_store, error);
    }
    cv_auto_free char *url = NULL;
    int result = cv_format(&url, error, "dir:%s/store", data ? data : CLI_DEFAULT_DATA);
    return result ? result : cv_store_open(url, ret_store, error);
}

static int init(const char *data, struct cv_cancel *cancel, struct cv_error *error)
{
    cv_auto(cv_store_close) struct cv_store *store = NULL;
    int64_t days = 0;
    bool created = false;
    int result = cv_clip_days(&days, error);
    result = result ? result : open_store(data, &store, error);
    if (result) {
        return result;
    }
    cv_store_set_cancel(store, cancel);
    result = cv_bucket_init(store, days, &created, error);
    if (result < 0) {
        return cv_fail_context(error, result, "%s", cv_store_name(store));
    }
    if (result == CV_BUCKET_IS_DIRECTORY) {
        (void)printf("%s has its inbox; the scanner and cortana gc keep the rules there\n",
                     cv_store_name(store));
        return CLI_EXIT_OK;
    }
    (void)printf("%s %s\n", cv_store_name(store), created ? "is made" : "was there");
    if (result == CV_BUCKET_RULES_UNKNOWN) {
        (void)printf("its server knows no lifecycle rules: the scanner and cortana gc keep them\n");
    } else if (days > 0) {
        (void)printf("its rules: unfinished uploads go after 2 days, clips after %lld\n",
                     (long long)days);
    } else {
        (void)printf("its rule: unfinished uploads go after 2 days\n");
    }
    return CLI_EXIT_OK;
}

static int run(const struct cli_command *command, int argc, char **argv, struct cv_cancel *cancel,
               struct cv_error *error)
{
    static const struct option options[] = {
        {"data", required_argument, NULL, 'd'}, {"help", no_argument, NULL, 'h'}, {0}};
    const char *data = NULL;
    for (int option; (option = cli_next_option(command, argc, argv, ":h", options)) != -1;) {
        if (option != 'd') {
            return option == 'h' ? CLI_EXIT_OK : CLI_EXIT_USAGE;
        }
        data = optarg;
    }
    if (argc - optind != 1 || strcmp(argv[optind], "init") != 0) {
        return cli_usage(command, "what is to be done? There is init");
    }
    return init(data, cancel, error);
}

const struct cli_command cli_command_bucket = {
    .name = "bucket",
    .summary = "make the bucket and set its lifecycle rules",
    .help = "usage: cortana bucket init [--data DIR]\n\n"
            "Makes the bucket of STORE_URL where it is missing, and sets rules for uploads that\n"
            "were never finished and for clips (CORTANA_CLIP_DAYS), where the server knows such\n"
            "rules. Rules of others stay. May be done again at any time.\n",
    .run = run,
};
