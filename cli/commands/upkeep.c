#include "common/queue/queue.h"
#include "common/retention/retention.h"

#include "cli/commands/bucket.h"
#include "cli/commands/gc.h"
#include "cli/commands/operation.h"
#include "cli/commands/verbs.h"

#include <limits.h>
#include <string.h>

#define MIN_AGE_HOURS 24.0

enum { MS_PER_HOUR = 60 * 60 * 1000, HOURS_MAX = 24 * 3650 };

/* ---- migrate --------------------------------------------------------------------------------- */

static int migrate(struct cli_call *call, struct cv_error *error)
{
    struct cv_migration_status before;
    struct cv_migration_status after;
    CV_TRY(cv_migrate_status(call->session.db, &before, error));
    if (cli_given(call, "check")) {
        CV_TRY(cli_print_outcome(
            call, json_pack("{s:i, s:i}", "applied", before.applied, "pending", before.pending),
            error, "%d applied, %d pending", before.applied, before.pending));
        return before.pending > 0 ? CLI_EXIT_FAILED : CLI_EXIT_OK;
    }
    CV_TRY(cv_migrate(call->session.db, &after, error));
    int now = after.applied - before.applied;
    return cli_print_outcome(call, json_pack("{s:i, s:i}", "applied", after.applied, "now", now),
                             error, "%d applied now, %d in all", now, after.applied);
}

/* Moves a local database to the newest PostgreSQL; it has no statistics there yet. */
static int move_database(struct cli_call *call, struct cv_error *error)
{
    char kept[PATH_MAX];
    int version = 0;
    const char *data = cli_value(call, "data");
    if (!data && cli_database_is_named()) {
        return cli_usage(call, "--postgres is for a local installation: name it with --data DIR");
    }
    int result = cli_installation_upgrade(data ? data : CLI_DEFAULT_DATA, kept, &version,
                                          call->cancel, error);
    CV_TRY(result < 0 ? result : 0);
    if (result == CLI_POSTGRES_IS_NEWEST) {
        cli_print_note(call, "no newer PostgreSQL is installed");
        return cli_open(call, error);
    }
    cli_print_note(call, "the database is PostgreSQL %d's now; the one before is kept in %s",
                   version, kept);
    CV_TRY(cli_open(call, error));
    return cv_db_run(call->session.db, NULL, error, "ANALYZE");
}

int cli_migrate(struct cli_call *call, struct cv_error *error)
{
    CV_TRY(cli_given(call, "postgres") ? move_database(call, error) : cli_open(call, error));
    int result = migrate(call, error);
    return result < 0 && error->type == CV_ERROR_AUTHORIZATION
               ? cv_fail_context(error, result,
                                 "DATABASE_URL must name the login that owns the schema")
               : result;
}

/* ---- bucket ---------------------------------------------------------------------------------- */

/* Opens only the store: a bucket may be made before there is a database. */
static int open_store(const char *data, struct cv_store **ret_store, struct cv_error *error)
{
    if (!data && (cv_env("STORE_URL", NULL) || cv_env("S3_BUCKET", NULL))) {
        return cv_store_open(NULL, ret_store, error);
    }
    cv_auto_free char *url = NULL;
    CV_TRY(cv_format(&url, error, "dir:%s/store", data ? data : CLI_DEFAULT_DATA));
    return cv_store_open(url, ret_store, error);
}

/* Says what a new bucket does by itself, and what its server does not know. free() it. */
static int describe_rules(unsigned unknown, int64_t clip_days, char **ret_text,
                          struct cv_error *error)
{
    cv_auto(cv_buffer_deinit) struct cv_buffer text = CV_BUFFER_INIT;
    if (!(unknown & CV_BUCKET_UNFINISHED)) {
        cv_buffer_printf(&text, "\nunfinished uploads go after %d days", CV_BUCKET_MULTIPART_DAYS);
    }
    if (clip_days > 0 && !(unknown & CV_BUCKET_CLIPS)) {
        cv_buffer_printf(&text, "\nclips go after %lld days", (long long)clip_days);
    }
    if (unknown & CV_BUCKET_UNFINISHED) {
        cv_buffer_text(&text, "\nits server does not know the rule for unfinished uploads: their "
                              "parts stay until you remove them");
    }
    if (unknown & CV_BUCKET_CLIPS) {
        cv_buffer_printf(&text,
                         "\nits server does not know the rule for clips: cortana gc removes them "
                         "after %lld days",
                         (long long)clip_days);
    }
    if (unknown & CV_BUCKET_SITES) {
        cv_buffer_text(&text, "\nits server does not know the rule for browsers (CORS): the page "
                              "plays and uploads only if the server lets every site in by itself");
    }
    return cv_buffer_detach(&text, ret_text, error);
}

/* An installation starts this together with its object store, which may take this long until it
 * answers: Ceph makes its disk at the first start. */
enum { STORE_STARTS_MS = 2 * 60 * 1000, STORE_AGAIN_MS = 500 };

static int init_when_there(struct cv_store *store, int64_t days, struct cv_cancel *cancel,
                           bool *ret_created, unsigned *ret_unknown, struct cv_error *error)
{
    int64_t until = cv_monotonic_ms() + STORE_STARTS_MS;
    for (;;) {
        int result = cv_bucket_init(store, days, ret_created, ret_unknown, error);
        if (result >= 0 || error->type != CV_ERROR_CONNECTION || cv_monotonic_ms() >= until ||
            cv_cancel_wait(cancel, STORE_AGAIN_MS)) {
            return result;
        }
    }
}

int cli_bucket_init(struct cli_call *call, struct cv_error *error)
{
    cv_auto(cv_store_close) struct cv_store *store = NULL;
    int64_t days = 0;
    bool created = false;
    unsigned unknown = 0;
    CV_TRY(cli_load_settings(call, error));
    CV_TRY(cv_clip_days(&days, error));
    CV_TRY(open_store(cli_value(call, "data"), &store, error));
    cv_store_set_cancel(store, call->cancel);
    int result = init_when_there(store, days, call->cancel, &created, &unknown, error);
    const char *name = cv_store_name(store);
    if (result < 0) {
        return cv_fail_context(error, result, "%s", name);
    }
    if (result == CV_BUCKET_IS_DIRECTORY) {
        return cli_print_outcome(
            call, json_pack("{s:s, s:b}", "store", name, "created", created), error,
            "%s has its inbox; the scanner and cortana gc keep the rules there", name);
    }
    cv_auto_free char *rules = NULL;
    CV_TRY(describe_rules(unknown, days, &rules, error));
    return cli_print_outcome(
        call,
        json_pack("{s:s, s:b, s:{s:b, s:b, s:b}}", "store", name, "created", created, "rules",
                  "unfinished", !(unknown & CV_BUCKET_UNFINISHED), "clips",
                  days > 0 && !(unknown & CV_BUCKET_CLIPS), "cors", !(unknown & CV_BUCKET_SITES)),
        error, "%s %s%s", name, created ? "is made" : "was there", rules);
}

/* ---- gc -------------------------------------------------------------------------------------- */

static void print_finding(enum cv_gc_kind kind, const char *key, int64_t size)
{
    cli_put_column(stdout, cv_gc_kind_name(kind), 21);
    (void)printf("%13lld  ", (long long)size);
    cli_put(stdout, key);
    (void)putchar('\n');
}

/* The number of each kind, and what was done: as a sentence and lines, or with --json as one object. */
static int print_summary(const struct cli_call *call, const struct cv_gc_params *params,
                         const struct cv_gc_summary *summary, struct cv_error *error)
{
    long long doomed = (long long)(summary->found[CV_GC_ORPHAN] + summary->found[CV_GC_OLD_CLIP] +
                                   summary->found[CV_GC_LEFTOVER]);
    char objects[CLI_COUNTED_SIZE], lists[CLI_COUNTED_SIZE], rows[CLI_COUNTED_SIZE];
    cv_auto(cv_buffer_deinit) struct cv_buffer more = CV_BUFFER_INIT;
    json_t *answer =
        json_pack("{s:I, s:I, s:b, s:I}", "objects", (json_int_t)summary->objects, "bytes",
                  (json_int_t)summary->bytes, "removed", params->remove_objects, "rows_removed",
                  (json_int_t)summary->rows_removed);
    cv_buffer_text(&more, "");
    for (int kind = 0; kind < CV_GC_KIND_COUNT; kind++) {
        const char *name = cv_gc_kind_name((enum cv_gc_kind)kind);
        (void)json_object_set_new(answer, name, json_integer(summary->found[kind]));
        if (kind >= CV_GC_UNREGISTERED && summary->found[kind] > 0) {
            cv_buffer_printf(&more, "\n%lld: %s", (long long)summary->found[kind], name);
        }
    }
    if (summary->rows_removed > 0) {
        cv_buffer_printf(
            &more, "\n%s",
            cli_counted(summary->rows_removed, "row is removed", "rows are removed", rows));
    }
    return cli_print_outcome(call, answer, error, "%s in %s: %lld of %lld bytes %s%s",
                             cli_counted(summary->objects, "object", "objects", objects),
                             cli_counted(summary->pages, "list", "lists", lists), doomed,
                             (long long)summary->bytes,
                             !params->remove_objects ? "would be removed"
                             : doomed == 1           ? "is removed"
                                                     : "are removed",
                             more.failed ? "" : more.data);
}

/* Removes only old clips, found by the rows of their jobs: the store need not be listed. */
static int expire_clips(struct cli_call *call, const struct cv_gc_params *params,
                        struct cv_error *error)
{
    struct cv_retention retention = {call->session.db, call->session.store, params->cancel, 0};
    CV_TRY(cv_clips_expire(&retention, params->clip_days, INT32_MAX, error));
    char clips[CLI_COUNTED_SIZE];
    return cli_print_outcome(
        call, json_pack("{s:I}", "clips_removed", (json_int_t)retention.removed), error, "%s",
        cli_counted(retention.removed, "clip is removed", "clips are removed", clips));
}

int cli_gc(struct cli_call *call, struct cv_error *error)
{
    struct cv_gc_params params = {
        .cancel = call->cancel,
        .report = call->json ? NULL : print_finding,
        .remove_objects = cli_given(call, "remove"),
        .remove_rows = cli_given(call, "rows"),
    };
    bool dry = cli_given(call, "dry-run");
    bool clips = cli_given(call, "clips");
    double hours = MIN_AGE_HOURS;
    const char *age = cli_value(call, "min-age");
    if (age && !cv_parse_double(age, 0, HOURS_MAX, &hours)) {
        return cli_usage(call, "--min-age takes hours from 0 to %d, not '%s'", HOURS_MAX, age);
    }
    if ((dry && params.remove_objects) || (params.remove_rows && !params.remove_objects)) {
        return cli_usage(call, dry ? "--dry-run and --remove exclude each other"
                                   : "--rows goes with --remove");
    }
    if (clips && (dry || params.remove_objects)) {
        return cli_usage(call, "--clips goes alone: it removes them");
    }
    params.min_age_ms = (int64_t)(hours * MS_PER_HOUR);
    struct cv_gc_summary summary;
    CV_TRY(cli_open(call, error));
    CV_TRY(cv_clip_days(&params.clip_days, error));
    if (clips) {
        return expire_clips(call, &params, error);
    }
    CV_TRY(cv_gc_run(call->session.db, call->session.store, &params, &summary, error));
    return print_summary(call, &params, &summary, error);
}

/* ---- env ------------------------------------------------------------------------------------- */

/* Prints a word in single quotes for a shell; single quotes within it are escaped. */
static void put_quoted(const char *text)
{
    (void)putchar('\'');
    for (const char *c = text; *c; c++) {
        (void)fputs(*c == '\'' ? "'\\''" : (char[]){*c, '\0'}, stdout);
    }
    (void)putchar('\'');
}

int cli_env(struct cli_call *call, struct cv_error *error)
{
    CV_TRY(cli_open(call, error));
    const char *database = call->session.database_url ? call->session.database_url : "";
    const char *store = call->session.store_url ? call->session.store_url : "";
    if (call->json) {
        return cli_print_outcome(
            call, json_pack("{s:s, s:s}", "DATABASE_URL", database, "STORE_URL", store), error,
            "%s", "");
    }
    (void)fputs("export DATABASE_URL=", stdout);
    put_quoted(database);
    (void)fputs("\nexport STORE_URL=", stdout);
    put_quoted(store);
    (void)fputs("\n# psql ", stdout);
    put_quoted(database);
    (void)putchar('\n');
    if (call->session.is_local) {
        cli_print_note(call, "the server runs as long as a cortana command does: keep it up with "
                             "cortana run");
    }
    return CLI_EXIT_OK;
}

/* ---- embeddings ------------------------------------------------------------------------------ */

/* One video, or each with text that the model has not seen. */
int cli_embeddings_add(struct cli_call *call, struct cv_error *error)
{
    return cli_given(call, "all") == (call->count > 0)
               ? cli_usage(call, "name a video, or --all, and not both")
               : cli_request(call, error);
}

/* ---- config ---------------------------------------------------------------------------------- */

/* cortana config: shows the settings in force, and their sources. */

enum { NAME_COLUMN = 28 };

/* Prepares a server that cortana setup makes, with its folder of settings: names the login of the
 * schema's owner, which only root may read, to the verbs that need it; requires that setup was run. */
static int prepare_server(const struct cli_call *call, struct cv_error *error)
{
    char path[PATH_MAX];
    const char *file = cv_settings_file();
    const char *slash = strrchr(file, '/');
    (void)snprintf(path, sizeof(path), "%.*s/owner", slash ? (int)(slash - file) : 0, file);
    if (!slash || cli_database_is_named() || cv_env("DATABASE_URL_FILE", NULL) ||
        access(path, F_OK)) {
        return 0;
    }
    if (access(file, F_OK)) {
        return cv_fail(error, CV_ERROR_CONFIGURATION,
                       "the services of this machine are not set up yet: run cortana setup as "
                       "root, or name another installation with --data DIR");
    }
    (void)snprintf(path, sizeof(path), "%.*s/owner/DATABASE_URL", (int)(slash - file), file);
    if (call->verb->login == CLI_LOGIN_OWNER && access(path, R_OK) == 0 &&
        setenv("DATABASE_URL_FILE", path, 1) != 0) {
        return cv_fail(error, CV_ERROR_OUT_OF_MEMORY, "no memory for settings");
    }
    return 0;
}

int cli_load_settings(const struct cli_call *call, struct cv_error *error)
{
    if (call->verb->local || cli_given(call, "data")) {
        return 0;
    }
    CV_TRY(prepare_server(call, error));
    return cv_settings_load(error);
}

struct listing {
    const struct cli_call *call;
    bool all;
    bool is_local; /* database and store are those of a local installation */
    int found;
};

/* The visible part of a value: a database's address without its password; nothing of other secrets.
 * free() it. */
static char *show_value(const char *name, const char *value)
{
    bool is_url = strcmp(name, "DATABASE_URL") == 0;
    char *shown = strdup(cv_setting_is_secret(name) && !is_url ? "(hidden)" : value);
    if (shown) {
        cv_redact(shown);
    }
    return shown;
}

/* Prints a setting. `value` NULL: it is not set. */
static void print_value(struct listing *listing, const char *name, const char *value,
                        const char *source)
{
    cv_auto_free char *shown = value ? show_value(name, value) : NULL;
    listing->found++;
    if (listing->call->json) {
        json_t *row = json_pack("{s:s, s:s?, s:s}", "name", name, "value", shown, "source", source);
        cv_auto_free char *line = row ? json_dumps(row, JSON_COMPACT) : NULL;
        json_decref(row);
        (void)puts(line ? line : "{}");
        return;
    }
    cli_put_column(stdout, name, NAME_COLUMN);
    (void)putchar(' ');
    cli_put(stdout, shown ? shown : "");
    (void)fputs(shown ? "  (" : "(", stdout);
    cli_put(stdout, source);
    (void)puts(")");
}

static void print_setting(void *opaque, const char *name)
{
    struct listing *listing = opaque;
    const char *value = cv_env(name, NULL);
    bool is_of_local =
        listing->is_local && (strcmp(name, "DATABASE_URL") == 0 || strcmp(name, "STORE_URL") == 0);
    if (!is_of_local && (value || listing->all)) {
        print_value(listing, name, value, value ? cv_setting_source(name) : "default");
    }
}

/* Prints what takes the place of settings where nothing names a database. */
static int print_installation(struct listing *listing, const char *directory,
                              struct cv_error *error)
{
    struct cli_installation installation = {.users = -1, .running = -1, .page = -1};
    char source[PATH_MAX + 64];
    cv_auto_free char *store = NULL;
    if (!realpath(directory, installation.directory)) {
        return 0;
    }
    CV_TRY(cli_installation_store(&installation, NULL, &store, error));
    listing->is_local = true;
    (void)snprintf(source, sizeof(source), "the local installation %s: cortana env prints it",
                   installation.directory);
    print_value(listing, "DATABASE_URL", NULL, source);
    (void)snprintf(source, sizeof(source), "the local installation %s", installation.directory);
    print_value(listing, "STORE_URL", store, source);
    return 0;
}

int cli_config(struct cli_call *call, struct cv_error *error)
{
    struct listing listing = {.call = call, .all = cli_given(call, "all")};
    CV_TRY(cli_load_settings(call, error));
    CV_TRY(cli_database_is_named() ? 0 : print_installation(&listing, CLI_DEFAULT_DATA, error));
    cv_settings_each(print_setting, &listing);
    if (listing.found == 0) {
        cli_print_note(call, "nothing is set: everything has its default");
    }
    return CLI_EXIT_OK;
}

/* ---- token ----------------------------------------------------------------------------------- */

/* cortana token: a token for the HTTP API, signed with the secret that the gateway checks it with. */

enum { TEAMS_MAX = 32, HOURS = 1 };

int cli_token(struct cli_call *call, struct cv_error *error)
{
    const char *teams[TEAMS_MAX + 1] = {0};
    const char *role = cli_value(call, "role") ? cli_value(call, "role") : "editor";
    const char *data = cli_value(call, "data");
    struct cli_token token = {.user = cli_value(call, "user"), .teams = teams, .role = role};
    CV_TRY(cli_load_settings(call, error));
    CV_TRY(cli_number(call, "hours", 1, CLI_HOURS_MAX, HOURS, &token.hours));
    if (!token.user && strcmp(role, "service") != 0) {
        return cli_usage(call, "--user says whose token it is; only --role service needs none");
    }
    if (token.user && !cv_is_uuid(token.user)) {
        return cli_usage(call, "--user takes a UUID, not '%s'", token.user);
    }
    for (size_t i = 0; i < TEAMS_MAX && (teams[i] = cli_value_at(call, "team", i)); i++) {
        if (!cv_is_uuid(teams[i])) {
            return cli_usage(call, "--team takes a UUID, not '%s'", teams[i]);
        }
    }
    bool is_local =
        data || (!cv_env("CORTANA_JWT_SECRET", NULL) && !cv_env("CORTANA_JWT_SECRET_FILE", NULL));
    if (!is_local) {
        token.audience = cv_env("CORTANA_JWT_AUDIENCE", NULL);
        token.issuer = cv_env("CORTANA_JWT_ISSUER", NULL);
    }
    cv_auto_free char *secret = NULL;
    cv_auto_free char *text = NULL;
    CV_TRY(cli_tokens_secret(data ? data : CLI_DEFAULT_DATA, is_local, &secret, error));
    CV_TRY(cli_tokens_make(&token, secret, &text, error));
    return cli_print_outcome(call, json_pack("{s:s}", "token", text), error, "%s", text);
}

/* ---- programs of the services ---------------------------------------------------------------- */

/* cortana setup and upgrade: run shell programs of the installation that do what an administrator
 * would do by hand. They get the options unchanged, and the path of cortana. */

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
