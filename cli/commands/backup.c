/* cortana backup and restore: the database as pg_dump writes it, and the objects that its rows name, in a directory.
 *
 *   DIR/backup.json            which of the files below are the backup; written last
 *   DIR/database-TIME.dump     of pg_dump, custom format
 *   DIR/objects-TIME.jsonl     a line an object that the store listed after that
 *   DIR/objects/               a store of its own, with the objects; later backups add to it
 */
#include "common/queue/queue.h"

#include "cli/commands/export.h"
#include "cli/commands/verbs.h"

#include <string.h>
#include <sys/stat.h>

enum {
    PIECE = 8 << 20, /* bytes of an object that are in memory at once */
};

struct backup {
    struct cli_call *call;
    const char *directory;
    char dump[PATH_MAX], list[PATH_MAX];
    struct cv_store *objects;                /* DIR/objects; NULL: a backup without objects */
    long long count, bytes, copied, missing; /* numbers of objects, except bytes */
};

static void backup_deinit(struct backup *backup)
{
    cv_store_close(backup->objects);
}
CV_DEFINE_CLEANUP_ADDRESS(struct backup, backup_deinit)

static int open_objects(struct backup *backup, struct cv_error *error)
{
    cv_auto_free char *url = NULL;
    CV_TRY(cv_format(&url, error, "dir:%s/objects", backup->directory));
    CV_TRY(cv_store_open(url, &backup->objects, error));
    cv_store_set_cancel(backup->objects, backup->call->cancel);
    return 0;
}

/* ---- programs of PostgreSQL -------------------------------------------------------------------- */

/* Runs pg_dump or pg_restore on the session's database. The login is passed in the environment,
 * which others cannot read. */
static int run_postgres(const struct backup *backup, const char *name, const char *const *arguments,
                        struct cv_error *error)
{
    enum { ARGUMENTS_MAX = 8 };
    char program[PATH_MAX];
    const char *argv[ARGUMENTS_MAX + 2] = {program};
    for (size_t i = 0; i < ARGUMENTS_MAX && arguments[i]; i++) {
        argv[i + 1] = arguments[i];
    }
    cv_auto(cv_db_environment_free) char **environment = NULL;
    cv_auto(cv_db_result_free) struct cv_db_result *rows = NULL;
    /* A newer pg_restore says what an older server does not know. */
    CV_TRY(cv_db_run(backup->call->session.db, &rows, error,
                     "SELECT current_setting('server_version_num')::int / 10000 AS version"));
    CV_TRY(cli_postgres_program(name, (int)cv_db_int(rows, 0, "version", 0), program,
                                sizeof(program), error));
    CV_TRY(cv_db_environment(backup->call->session.db, &environment, error));
    const struct cli_process_params params = {.argv = argv,
                                              .environment = (const char *const *)environment,
                                              .without_pg = true,
                                              .dies_with_parent = true};
    return cli_process_run(&params, error);
}

/* ---- objects ----------------------------------------------------------------------------------- */

struct copy {
    struct cv_store *from;
    struct cv_store *to;
    struct cv_new_object object; /* at `to`, without its bytes */
};

static int read_copied(void *opaque, cli_write *write, void *file, struct cv_error *error)
{
    const struct copy *copy = opaque;
    return cli_read_object(copy->from, copy->object.key, write, file, error);
}

/* Copies an object larger than PIECE through a temporary file. */
static int copy_large(const struct backup *backup, struct copy *copy, struct cv_error *error)
{
    cv_auto_free char *path = NULL;
    CV_TRY(cv_format(&path, error, "%s/.object.new", backup->directory));
    copy->object.path = path;
    int result = cli_write_file(path, read_copied, copy, error);
    result = result ? result : cv_store_put(copy->to, &copy->object, NULL, error);
    (void)unlink(path);
    return result;
}

/* Copies an object with its type and metadata, unless it was copied before. CV_STORE_NOT_FOUND is
 * an outcome. */
static int copy_object(struct backup *backup, struct cv_store *from, struct cv_store *to,
                       const char *key, struct cv_error *error)
{
    cv_auto(cv_metadata_deinit) struct cv_metadata metadata = {0};
    struct cv_object_info info;
    struct cv_object_info there;
    CV_TRY(cv_store_head_metadata(from, key, &info, &metadata, error));
    int result = cv_store_head(to, key, &there, error);
    if (result < 0 ||
        (result == 0 && there.size == info.size && there.modified_ms >= info.modified_ms)) {
        return result;
    }
    struct copy copy = {from, to, {.key = key, .metadata = &metadata}};
    copy.object.sha256 = info.sha256[0] ? info.sha256 : NULL;
    backup->copied++;
    if (info.size > PIECE) {
        return copy_large(backup, &copy, error);
    }
    cv_auto_free void *data = NULL;
    result = cv_store_get(from, key, PIECE, &data, &copy.object.size, error);
    copy.object.data = data;
    return result ? result : cv_store_put(to, &copy.object, NULL, error);
}

static int write_line(FILE *file, const struct cv_object_entry *entry, struct cv_error *error)
{
    cv_auto(json_decref) json_t *line = json_pack("{s:s, s:I, s:s}", "key", entry->key, "size",
                                                  (json_int_t)entry->size, "etag", entry->etag);
    if (!line || json_dumpf(line, file, JSON_COMPACT) != 0 || fputc('\n', file) == EOF) {
        return cv_fail(error, CV_ERROR_IO, "cannot write the list of objects");
    }
    return 0;
}

/* Objects that are missing when they are copied were deleted after the list. */
static int save_objects(struct backup *backup, struct cv_error *error)
{
    struct cv_store *store = backup->call->session.store;
    cv_auto_free char *continuation = NULL;
    cv_auto_file FILE *file = fopen(backup->list, "we");
    int result = file ? 0 : cv_fail_errno(error, errno, "write %s", backup->list);
    do {
        cv_auto(cv_object_list_deinit) struct cv_object_list page = {0};
        const struct cv_listing listing = {.prefix = "", .continuation = continuation};
        result = result ? result : cv_store_list(store, &listing, &page, error);
        for (size_t i = 0; result == 0 && i < page.count; i++) {
            const struct cv_object_entry *entry = &page.entries[i];
            result = backup->objects
                         ? copy_object(backup, store, backup->objects, entry->key, error)
                         : 0;
            if (result == 0) {
                backup->count++;
                backup->bytes += entry->size;
                result = write_line(file, entry, error);
            }
            result = result == CV_STORE_NOT_FOUND ? 0 : result;
        }
        free(continuation);
        continuation = result == 0 ? cv_take(page.continuation) : NULL;
    } while (continuation);
    if (result == 0 && (fflush(file) || fsync(fileno(file)))) {
        result = cv_fail_errno(error, errno, "write %s", backup->list);
    }
    return result;
}

/* ---- backup.json ------------------------------------------------------------------------------- */

static int write_index(const struct backup *backup, const char *time, int migrations,
                       struct cv_error *error)
{
    cv_auto_free char *path = NULL;
    cv_auto(json_decref) json_t *index = json_pack(
        "{s:s, s:s, s:s, s:s, s:i, s:I, s:I, s:b}", "version", CV_VERSION, "taken_at", time,
        "database", strrchr(backup->dump, '/') + 1, "list", strrchr(backup->list, '/') + 1,
        "migrations", migrations, "objects", (json_int_t)backup->count, "bytes",
        (json_int_t)backup->bytes, "has_objects", backup->objects != NULL);
    CV_TRY(cv_format(&path, error, "%s/backup.json", backup->directory));
    cv_auto_free char *text = index ? json_dumps(index, JSON_INDENT(2)) : NULL;
    CV_TRY_MEMORY(text, error, "backup.json");
    return cli_replace_file(path, text, error);
}

static int read_index(struct backup *backup, bool *ret_has_objects, struct cv_error *error)
{
    cv_auto_free char *path = NULL;
    int result = cv_format(&path, error, "%s/backup.json", backup->directory);
    cv_auto(json_decref) json_t *index = result ? NULL : json_load_file(path, 0, NULL);
    const char *database = NULL;
    const char *list = NULL;
    int has_objects = 0;
    if (result) {
        return result;
    }
    if (!index ||
        json_unpack(index, "{s:s, s:s, s:b}", "database", &database, "list", &list, "has_objects",
                    &has_objects) != 0 ||
        strchr(database, '/') || strchr(list, '/')) {
        return cv_fail(
            error, CV_ERROR_CONFIGURATION,
            "%s is not a backup, or was never finished: there is no good backup.json in it",
            backup->directory);
    }
    (void)snprintf(backup->dump, sizeof(backup->dump), "%s/%s", backup->directory, database);
    (void)snprintf(backup->list, sizeof(backup->list), "%s/%s", backup->directory, list);
    *ret_has_objects = has_objects != 0;
    return 0;
}

/* ---- backup ------------------------------------------------------------------------------------ */

static int create_backup(struct backup *backup, struct cv_error *error)
{
    struct cv_migration_status status;
    char time[CV_TIMESTAMP_SIZE];
    (void)cv_format_timestamp(cv_wall_ms(), time);
    (void)snprintf(backup->dump, sizeof(backup->dump), "%s/database-%s.dump", backup->directory,
                   time);
    (void)snprintf(backup->list, sizeof(backup->list), "%s/objects-%s.jsonl", backup->directory,
                   time);
    if (mkdir(backup->directory, 0700) && errno != EEXIST) {
        return cv_fail_errno(error, errno, "make the directory %s", backup->directory);
    }
    CV_TRY(cli_given(backup->call, "without-objects") ? 0 : open_objects(backup, error));
    CV_TRY(cv_migrate_status(backup->call->session.db, &status, error));
    /* Rows are saved before objects: an object without a row is garbage, but a row without its
     * object is a loss. */
    const char *const arguments[] = {"--format=custom", "--file", backup->dump, NULL};
    CV_TRY(run_postgres(backup, "pg_dump", arguments, error));
    CV_TRY(save_objects(backup, error));
    return write_index(backup, time, status.applied, error);
}

int cli_backup(struct cli_call *call, struct cv_error *error)
{
    cv_auto(backup_deinit) struct backup backup = {.call = call, .directory = call->arguments[0]};
    CV_TRY(cli_open(call, error));
    CV_TRY(create_backup(&backup, error));
    char objects[CLI_COUNTED_SIZE];
    return cli_print_outcome(
        call,
        json_pack("{s:s, s:I, s:I, s:I, s:b}", "database", backup.dump, "objects",
                  (json_int_t)backup.count, "bytes", (json_int_t)backup.bytes, "copied",
                  (json_int_t)backup.copied, "has_objects", backup.objects != NULL),
        error, "%s\n%s, %lld bytes, in its list%s", backup.dump,
        cli_counted(backup.count, "object", "objects", objects), backup.bytes,
        backup.objects ? ", and lie in its objects/"
                       : "; the backup of the store has to hold them");
}

/* ---- restore ----------------------------------------------------------------------------------- */

/* Removes a schema without videos and jobs, such as cortana setup makes; a restore overwrites
 * nothing else. DROP OWNED leaves the database itself, and the logins. */
static int remove_new_schema(struct cv_db *db, struct cv_error *error)
{
    cv_auto(cv_db_result_free) struct cv_db_result *rows = NULL;
    CV_TRY(cv_db_begin(db, error));
    int result = cv_db_run(db, &rows, error,
                           "SELECT current_database() AS name, to_regclass('public.videos')"
                           " IS NULL OR to_regclass('public.jobs') IS NULL AS is_foreign");
    bool is_used = result == 0 && cv_db_bool(rows, 0, "is_foreign");
    if (result == 0 && !is_used) {
        cv_auto(cv_db_result_free) struct cv_db_result *found = NULL;
        result = cv_db_run(db, NULL, error, "LOCK TABLE videos, jobs IN ACCESS EXCLUSIVE MODE");
        result = result ? result
                        : cv_db_run(db, &found, error,
                                    "SELECT EXISTS (SELECT FROM videos) OR EXISTS (SELECT FROM jobs"
                                    " WHERE video_id IS NOT NULL) AS is_used");
        is_used = result == 0 && cv_db_bool(found, 0, "is_used");
    }
    if (is_used) {
        result = cv_fail(error, CV_ERROR_CONFLICT,
                         "the database %s is not empty: make a new one, and restore into that",
                         cv_db_text(rows, 0, "name"));
    }
    result = result ? result : cv_db_run(db, NULL, error, "DROP OWNED BY CURRENT_USER CASCADE");
    result = result ? result : cv_db_commit(db, error);
    if (result) {
        cv_db_rollback(db);
    }
    return result;
}

static int require_empty(struct backup *backup, struct cv_error *error)
{
    cv_auto(cv_db_result_free) struct cv_db_result *rows = NULL;
    CV_TRY(cv_db_run(backup->call->session.db, &rows, error,
                     "SELECT EXISTS (SELECT FROM pg_class c"
                     " JOIN pg_namespace n ON n.oid = c.relnamespace"
                     " WHERE n.nspname IN ('public', 'cortana')) AS is_used"));
    return cv_db_bool(rows, 0, "is_used") ? remove_new_schema(backup->call->session.db, error) : 0;
}

static int restore_database(struct backup *backup, struct cv_error *error)
{
    cv_auto(cv_db_result_free) struct cv_db_result *rows = NULL;
    cv_auto_free char *name = NULL;
    struct cv_migration_status status;
    CV_TRY(require_empty(backup, error));
    CV_TRY(cv_db_run(backup->call->session.db, &rows, error,
                     "SELECT quote_literal(current_database()) AS name"));
    CV_TRY(cv_format(&name, error, "dbname=%s", cv_db_text(rows, 0, "name")));
    /* The restore is one transaction. */
    const char *const arguments[] = {
        "--no-owner", "--exit-on-error", "--single-transaction", "--dbname", name, backup->dump,
        NULL};
    CV_TRY(cv_roles_make(backup->call->session.db, error));
    CV_TRY(run_postgres(backup, "pg_restore", arguments, error));
    /* Also sets properties of the database, which the dump does not have: the search path, the
     * right to temporary tables. */
    return cv_migrate(backup->call->session.db, &status, error);
}

static int restore_line(struct backup *backup, const char *text, struct cv_error *error)
{
    struct cv_store *store = backup->call->session.store;
    cv_auto(json_decref) json_t *line = json_loads(text, 0, NULL);
    const char *key = line ? json_string_value(json_object_get(line, "key")) : NULL;
    if (!key) {
        return cv_fail(error, CV_ERROR_CONFIGURATION, "%s has a line that is not valid",
                       backup->list);
    }
    backup->count++;
    int result = backup->objects ? copy_object(backup, backup->objects, store, key, error)
                                 : cv_store_head(store, key, NULL, error);
    if (result == CV_STORE_NOT_FOUND) {
        backup->missing++;
        cli_print_note(backup->call, "missing: %s", key);
        result = 0;
    }
    return result;
}

static int restore_objects(struct backup *backup, struct cv_error *error)
{
    cv_auto_file FILE *file = fopen(backup->list, "re");
    cv_auto_free char *line = NULL;
    size_t size = 0;
    CV_TRY(file ? 0 : cv_fail_errno(error, errno, "read %s", backup->list));
    while (getline(&line, &size, file) >= 0) {
        CV_TRY(restore_line(backup, line, error));
    }
    return 0;
}

/* The tokens and settings of this installation are to name the owner of the restored videos. */
static int keep_owner(struct cli_call *call, struct cv_error *error)
{
    cv_auto(cv_db_result_free) struct cv_db_result *rows = NULL;
    CV_TRY(cv_db_run(call->session.db, &rows, error, "SELECT owner_id FROM cortana.installation"));
    const char *owner = cv_db_rows(rows) > 0 ? cv_db_text(rows, 0, "owner_id") : NULL;
    if (owner && call->session.is_local) {
        return cli_tokens_keep_owner(call->session.installation.directory, owner, error);
    }
    if (owner && strcmp(cv_env("CORTANA_OWNER", ""), owner) != 0) {
        cli_print_note(
            call,
            "the backup's CORTANA_OWNER is %s: run cortana setup again, which writes it into "
            "the settings and gives the objects to the services",
            owner);
    }
    return 0;
}

/* Opens the session; a database that does not exist is the operator's next step. */
static int open_empty(struct cli_call *call, struct cv_error *error)
{
    int result = cli_open(call, error);
    return result < 0 && error->type == CV_ERROR_CONFIGURATION &&
                   strstr(error->message, "does not exist")
               ? cv_fail_context(error, result, "cortana setup makes the database")
               : result;
}

int cli_restore(struct cli_call *call, struct cv_error *error)
{
    cv_auto(backup_deinit) struct backup backup = {.call = call, .directory = call->arguments[0]};
    bool has_objects = false;
    CV_TRY(read_index(&backup, &has_objects, error));
    CV_TRY(open_empty(call, error));
    CV_TRY(has_objects ? open_objects(&backup, error) : 0);
    CV_TRY(restore_database(&backup, error));
    CV_TRY(restore_objects(&backup, error));
    CV_TRY(keep_owner(call, error));
    CV_TRY(cli_print_outcome(
        call,
        json_pack("{s:I, s:I, s:I}", "objects", (json_int_t)backup.count, "copied",
                  (json_int_t)backup.copied, "missing", (json_int_t)backup.missing),
        error, "the database is there; of %lld objects %lld were copied, %lld are missing",
        backup.count, backup.copied, backup.missing));
    return backup.missing > 0 ? CLI_EXIT_FAILED : CLI_EXIT_OK;
}
