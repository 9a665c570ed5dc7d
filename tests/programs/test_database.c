/* common/db against the real server at DATABASE_URL; tests/system/test_database.py starts it. */
#include "common/db/db.h"

#include "tests/programs/connection.h"

#include <poll.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>

#include <cmocka.h>

static void assert_ok(int result, const struct cv_error *error)
{
    if (result) {
        fail_msg("%d %s: %s", result, cv_error_type_name(error->type), error->message);
    }
}

static void test_values_by_name(void **state)
{
    (void)state;
    struct cv_error error;
    cv_auto(cv_db_close) struct cv_db *db = open_database(NULL, 0);
    cv_auto(cv_db_result_free) struct cv_db_result *rows = NULL;
    assert_ok(
        cv_db_run(db, &rows, &error,
                  "SELECT $1::text AS t, $2::text AS n, 9007199254740993 AS i, 0.5::real AS d,"
                  " true AS b, NULL::int AS missing UNION ALL"
                  " SELECT 'x', NULL, 0, 0, false, 1",
                  "it's \"ü\"; --", NULL),
        &error);
    assert_int_equal(cv_db_rows(rows), 2);
    assert_string_equal(cv_db_text(rows, 0, "t"), "it's \"ü\"; --");
    assert_null(cv_db_text(rows, 0, "n"));
    assert_true(cv_db_int(rows, 0, "i", 0) == 9007199254740993);
    assert_int_equal(cv_db_int(rows, 0, "missing", -7), -7);
    assert_true(cv_db_double(rows, 0, "d", 0) == 0.5);
    assert_true(cv_db_bool(rows, 0, "b"));
    assert_false(cv_db_bool(rows, 1, "b"));
}

static void test_large_parameters_and_results(void **state)
{
    (void)state;
    enum { SIZE = 20 * 1000 * 1000 };
    struct cv_error error;
    cv_auto(cv_db_close) struct cv_db *db = open_database(NULL, 0);
    cv_auto_free char *text = malloc(SIZE + 1);
    assert_non_null(text);
    (void)memset(text, 'x', SIZE);
    text[SIZE] = '\0';
    cv_auto(cv_db_result_free) struct cv_db_result *rows = NULL;
    assert_ok(cv_db_run(db, &rows, &error, "SELECT $1::text AS t", text), &error);
    assert_int_equal(strlen(cv_db_text(rows, 0, "t")), SIZE);
}

static void test_failures_have_type_message_and_detail(void **state)
{
    (void)state;
    static const struct {
        const char *sql;
        const char *sqlstate;
        enum cv_error_type type;
        const char *message;
    } cases[] = {
        {"INSERT INTO one VALUES (1)", "23505", CV_ERROR_CONSTRAINT,
         "duplicate key value violates unique constraint \"one_pkey\": "
         "Key (n)=(1) already exists."},
        {"SELECT 1 / 0", "22012", CV_ERROR_INVALID_PAYLOAD, "division by zero"},
        {"SELECT nothing", "42703", CV_ERROR_DATABASE, "column \"nothing\" does not exist"},
        {"DO $$BEGIN RAISE serialization_failure USING MESSAGE = E'a\\nb'; END$$", "40001",
         CV_ERROR_CONFLICT, "a b"},
    };
    struct cv_error error;
    cv_auto(cv_db_close) struct cv_db *db = open_database(NULL, 0);
    assert_ok(cv_db_script(db,
                           "CREATE TEMP TABLE one (n int PRIMARY KEY); INSERT INTO one VALUES (1)",
                           &error),
              &error);
    for (size_t i = 0; i < CV_COUNT(cases); i++) {
        assert_int_equal(cv_db_run(db, NULL, &error, cases[i].sql), -1);
        assert_int_equal(error.type, cases[i].type);
        assert_string_equal(error.message, cases[i].message);
        assert_string_equal(cv_db_sqlstate(db), cases[i].sqlstate);
    }
    assert_ok(cv_db_run(db, NULL, &error, "SELECT 1"), &error);
    assert_string_equal(cv_db_sqlstate(db), "");
}

static void test_transactions(void **state)
{
    (void)state;
    struct cv_error error;
    cv_auto(cv_db_close) struct cv_db *db = open_database(NULL, 0);
    assert_ok(cv_db_begin(db, &error), &error);
    assert_true(cv_db_in_transaction(db));
    assert_int_equal(cv_db_begin(db, &error), -1);
    assert_int_equal(error.type, CV_ERROR_INTERNAL);
    assert_ok(cv_db_run(db, NULL, &error, "CREATE TEMP TABLE kept ()"), &error);
    assert_ok(cv_db_commit(db, &error), &error);
    assert_false(cv_db_in_transaction(db));

    assert_ok(cv_db_begin(db, &error), &error);
    assert_int_equal(cv_db_run(db, NULL, &error, "SELECT 1 / 0"), -1);
    assert_int_equal(cv_db_commit(db, &error), -1);
    assert_non_null(strstr(error.message, "rolled back"));
    assert_int_equal(cv_db_commit(db, &error), -1);
    assert_non_null(strstr(error.message, "no transaction"));

    assert_ok(cv_db_begin(db, &error), &error);
    assert_ok(cv_db_run(db, NULL, &error, "DROP TABLE kept"), &error);
    assert_int_equal(cv_db_run(db, NULL, &error, "SELECT 1 / 0"), -1);
    cv_db_rollback(db);
    cv_db_rollback(db);
    assert_string_equal(cv_db_sqlstate(db), "22012");
    assert_ok(cv_db_run(db, NULL, &error, "SELECT FROM kept"), &error);
}

static void test_a_script_is_all_or_nothing(void **state)
{
    (void)state;
    struct cv_error error;
    cv_auto(cv_db_close) struct cv_db *db = open_database(NULL, 0);
    assert_int_equal(cv_db_script(db, "CREATE TEMP TABLE half (); SELECT 1 / 0; SELECT 1", &error),
                     -1);
    assert_string_equal(error.message, "division by zero");
    assert_int_equal(cv_db_run(db, NULL, &error, "SELECT FROM half"), -1);
    assert_string_equal(cv_db_sqlstate(db), "42P01");
}

static void test_a_statement_that_takes_too_long(void **state)
{
    (void)state;
    struct cv_error error;
    cv_auto(cv_db_close) struct cv_db *db = open_database(NULL, 100);
    assert_int_equal(cv_db_run(db, NULL, &error, "SELECT pg_sleep(60)"), -1);
    assert_int_equal(error.type, CV_ERROR_TIMEOUT);
    assert_string_equal(error.message, "a statement took more than 100 ms");
    assert_ok(cv_db_run(db, NULL, &error, "SELECT 1"), &error);
}

struct stopper {
    struct cv_cancel *cancel;
    enum cv_cancel_level level;
};

/* Asks to stop as soon as the server is seen to run the other connection's pg_sleep. */
static void *stop_the_sleeper(void *opaque)
{
    const struct stopper *stopper = opaque;
    struct cv_error error;
    cv_auto(cv_db_close) struct cv_db *db = open_database(NULL, 0);
    for (bool seen = false; !seen;) {
        cv_auto(cv_db_result_free) struct cv_db_result *rows = NULL;
        if (cv_db_run(db, &rows, &error,
                      "SELECT count(*) AS n FROM pg_stat_activity"
                      " WHERE wait_event = 'PgSleep' AND datname = current_database()")) {
            return NULL;
        }
        seen = cv_db_int(rows, 0, "n", 0) > 0;
    }
    cv_cancel_request(stopper->cancel, stopper->level);
    return NULL;
}

static void test_an_abort_ends_a_statement_and_a_drain_does_not(void **state)
{
    (void)state;
    struct cv_error error;
    cv_auto(cv_cancel_free) struct cv_cancel *cancel = NULL;
    assert_ok(cv_cancel_new(&cancel, &error), &error);
    cv_auto(cv_db_close) struct cv_db *db = open_database(cancel, 0);
    static const enum cv_cancel_level levels[] = {CV_CANCEL_DRAIN, CV_CANCEL_ABORT};
    for (size_t i = 0; i < CV_COUNT(levels); i++) {
        struct stopper stopper = {cancel, levels[i]};
        pthread_t thread;
        assert_int_equal(pthread_create(&thread, NULL, stop_the_sleeper, &stopper), 0);
        int result = cv_db_run(db, NULL, &error, "SELECT pg_sleep($1::int)",
                               levels[i] == CV_CANCEL_DRAIN ? "1" : "60");
        assert_int_equal(pthread_join(thread, NULL), 0);
        assert_int_equal(result, levels[i] == CV_CANCEL_DRAIN ? 0 : -1);
    }
    assert_int_equal(error.type, CV_ERROR_CANCELED);
    assert_int_equal(cv_db_run(db, NULL, &error, "SELECT 1"), -1);
    assert_int_equal(error.type, CV_ERROR_CANCELED);
}

static void terminate(struct cv_db *victim)
{
    struct cv_error error;
    cv_auto(cv_db_result_free) struct cv_db_result *rows = NULL;
    assert_ok(cv_db_run(victim, &rows, &error, "SELECT pg_backend_pid() AS pid"), &error);
    cv_auto(cv_db_close) struct cv_db *killer = open_database(NULL, 0);
    assert_ok(cv_db_run(killer, NULL, &error, "SELECT pg_terminate_backend($1::int, 10000)",
                        cv_db_text(rows, 0, "pid")),
              &error);
}

/* Waits on the socket, as a worker does: 1 and the payload, or a failure. */
static int next_notification(struct cv_db *db, const char *channel, char **ret_payload,
                             struct cv_error *error)
{
    while (true) {
        cv_auto_free char *name = NULL;
        int result = cv_db_notification(db, &name, ret_payload, error);
        if (result == 1) {
            assert_string_equal(name, channel);
        }
        if (result) {
            return result;
        }
        struct pollfd polled = {.fd = cv_db_fd(db), .events = POLLIN};
        assert_int_equal(poll(&polled, 1, 10000), 1);
    }
}

static void test_notifications_before_and_after_a_lost_connection(void **state)
{
    (void)state;
    static const char channel[] = "cv_Jobs \"x\"";
    struct cv_error error;
    cv_auto(cv_db_close) struct cv_db *sender = open_database(NULL, 0);
    cv_auto(cv_db_close) struct cv_db *db = open_database(NULL, 0);
    assert_ok(cv_db_listen(db, channel, &error), &error);
    assert_ok(cv_db_listen(db, channel, &error), &error);
    cv_auto_free char *none = NULL;
    assert_int_equal(cv_db_notification(db, &none, &none, &error), 0);

    for (int round = 0; round < 2; round++) {
        assert_ok(cv_db_run(sender, NULL, &error,
                            "SELECT pg_notify($1, 'one'), pg_notify($1, 'two')", channel),
                  &error);
        cv_auto_free char *first = NULL;
        cv_auto_free char *second = NULL;
        assert_int_equal(next_notification(db, channel, &first, &error), 1);
        assert_int_equal(next_notification(db, channel, &second, &error), 1);
        assert_string_equal(first, "one");
        assert_string_equal(second, "two");
        if (round == 0) {
            terminate(db);
            assert_int_equal(next_notification(db, channel, &none, &error), -1);
            assert_int_equal(error.type, CV_ERROR_CONNECTION);
            assert_int_equal(cv_db_fd(db), -1);
            assert_ok(cv_db_reconnect(db, 10000, &error), &error);
        }
    }
}

static void test_a_lost_connection_is_told_until_it_is_back(void **state)
{
    (void)state;
    struct cv_error error;
    cv_auto(cv_db_close) struct cv_db *db = open_database(NULL, 0);
    assert_ok(cv_db_begin(db, &error), &error);
    terminate(db);
    assert_int_equal(cv_db_run(db, NULL, &error, "SELECT 1"), -1);
    assert_int_equal(error.type, CV_ERROR_CONNECTION);
    assert_non_null(strstr(error.message, "terminating connection"));
    assert_string_equal(cv_db_sqlstate(db), "57P01");
    assert_false(cv_db_is_connected(db));
    assert_false(cv_db_in_transaction(db));
    cv_db_rollback(db);
    assert_int_equal(cv_db_run(db, NULL, &error, "SELECT 1"), -1);
    assert_int_equal(error.type, CV_ERROR_CONNECTION);
    assert_int_equal(cv_db_listen(db, "x", &error), -1);
    assert_ok(cv_db_reconnect(db, 10000, &error), &error);
    assert_true(cv_db_is_connected(db));
    assert_ok(cv_db_run(db, NULL, &error, "SELECT 1"), &error);
}

static void test_copy_is_refused(void **state)
{
    (void)state;
    struct cv_error error;
    cv_auto(cv_db_close) struct cv_db *db = open_database(NULL, 0);
    assert_int_equal(cv_db_script(db, "COPY (SELECT 1) TO STDOUT", &error), -1);
    assert_int_equal(error.type, CV_ERROR_INTERNAL);
    assert_ok(cv_db_reconnect(db, 10000, &error), &error);
}

static void test_connection_texts_that_lead_nowhere(void **state)
{
    (void)state;
    static const struct {
        const char *conninfo;
        enum cv_error_type type;
    } cases[] = {
        {"host=/nonexistent password=hunter2", CV_ERROR_CONNECTION},
        {"postgresql://me:hunter2@127.0.0.1:1/x", CV_ERROR_CONNECTION},
        {"postgresql://me:pw@hunter2@127.0.0.1/x", CV_ERROR_CONFIGURATION},
        {"postgresql://me:hunter2/pw@127.0.0.1/x", CV_ERROR_CONFIGURATION},
        {"postgresql://me:hunter2?pw@127.0.0.1:1/x", CV_ERROR_CONNECTION},
        {"postgresql://me:%hunter2@127.0.0.1/x", CV_ERROR_CONFIGURATION},
        {"host=x password=hunter2 nonsense", CV_ERROR_CONFIGURATION},
        {"password='hunter2", CV_ERROR_CONFIGURATION},
    };
    struct cv_error error;
    for (size_t i = 0; i < CV_COUNT(cases); i++) {
        struct cv_db *db = NULL;
        struct cv_db_params params = {.conninfo = cases[i].conninfo};
        assert_int_equal(cv_db_open(&params, &db, &error), -1);
        assert_null(db);
        assert_int_equal(error.type, cases[i].type);
        assert_null(strstr(error.message, "hunter2"));
    }
}

static void test_refusals_of_the_server(void **state)
{
    (void)state;
    static const struct {
        const char *extra;
        enum cv_error_type type;
        const char *message;
    } cases[] = {
        {"&user=stranger", CV_ERROR_AUTHENTICATION,
         "the database refuses the connection: role \"stranger\" does not exist"},
        {"&dbname=elsewhere", CV_ERROR_CONFIGURATION,
         "the database refuses the connection: database \"elsewhere\" does not exist"},
    };
    struct cv_error error;
    for (size_t i = 0; i < CV_COUNT(cases); i++) {
        cv_auto_free char *conninfo = NULL;
        assert_ok(cv_format(&conninfo, &error, "%s%s", cv_env("DATABASE_URL", ""), cases[i].extra),
                  &error);
        struct cv_db *db = NULL;
        assert_int_equal(cv_db_open(&(struct cv_db_params){.conninfo = conninfo}, &db, &error), -1);
        assert_int_equal(error.type, cases[i].type);
        assert_string_equal(error.message, cases[i].message);
    }
}

static void test_a_server_that_accepts_and_says_nothing(void **state)
{
    (void)state;
    char directory[] = "/tmp/cv-db-XXXXXX";
    assert_non_null(mkdtemp(directory));
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    (void)snprintf(address.sun_path, sizeof(address.sun_path), "%s/.s.PGSQL.5432", directory);
    cv_auto_fd int listener = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_true(listener >= 0);
    assert_int_equal(bind(listener, (struct sockaddr *)&address, sizeof(address)), 0);
    assert_int_equal(listen(listener, 8), 0);

    struct cv_error error;
    cv_auto_free char *conninfo = NULL;
    assert_ok(cv_format(&conninfo, &error, "host=%s port=5432", directory), &error);
    struct cv_db *db = NULL;
    struct cv_db_params params = {.conninfo = conninfo, .connect_timeout_ms = 100};
    int result = cv_db_open(&params, &db, &error);
    (void)unlink(address.sun_path);
    (void)rmdir(directory);
    assert_int_equal(result, -1);
    assert_int_equal(error.type, CV_ERROR_CONNECTION);
    assert_string_equal(error.message, "the database did not answer within 100 ms");
}

static const char count_kept[] =
    "SELECT count(*) AS n FROM pg_prepared_statements WHERE $1 = 'kept'";

static int64_t prepared_number(struct cv_db *db, const char *sql, const char *parameter)
{
    struct cv_error error;
    cv_auto(cv_db_result_free) struct cv_db_result *rows = NULL;
    assert_ok(cv_db_query_prepared(db, CV_DB_STATEMENT(sql, parameter), &rows, &error), &error);
    return cv_db_int(rows, 0, "n", -1);
}

static void test_a_session_of_its_own_keeps_prepared_statements(void **state)
{
    (void)state;
    struct cv_error error;
    cv_auto(cv_db_close) struct cv_db *db = open_database(NULL, 0);
    assert_int_equal(prepared_number(db, count_kept, "kept"), 1);
    assert_int_equal(prepared_number(db, count_kept, "kept"), 1);
    assert_int_equal(prepared_number(db, "SELECT $1::int + 1 AS n", "41"), 42);
    assert_int_equal(prepared_number(db, count_kept, "kept"), 2);
    assert_ok(cv_db_begin(db, &error), &error);
    assert_int_equal(prepared_number(db, "SELECT $1::int + 2 AS n", "40"), 42);
    assert_ok(cv_db_commit(db, &error), &error);
    assert_int_equal(prepared_number(db, count_kept, "kept"), 2);

    /* A prepared statement that fails is kept and can be run again. */
    assert_int_equal(
        cv_db_query_prepared(db, CV_DB_STATEMENT("SELECT 1 / $1::int AS n", "0"), NULL, &error),
        -1);
    assert_string_equal(cv_db_sqlstate(db), "22012");
    assert_int_equal(prepared_number(db, "SELECT 1 / $1::int AS n", "1"), 1);
}

static void test_more_statements_than_a_session_keeps(void **state)
{
    (void)state;
    enum { MANY = 100 };
    cv_auto(cv_db_close) struct cv_db *db = open_database(NULL, 0);
    for (int i = 0; i < 2 * MANY; i++) {
        char sql[64];
        (void)snprintf(sql, sizeof(sql), "SELECT $1::int + %d AS n", i % MANY);
        assert_int_equal(prepared_number(db, sql, "1"), i % MANY + 1);
    }
    int64_t kept = prepared_number(db, count_kept, "kept");
    assert_true(kept > 0 && kept < MANY);
}

static void test_a_stale_prepared_statement_is_run_anew(void **state)
{
    (void)state;
    struct cv_error error;
    cv_auto(cv_db_close) struct cv_db *db = open_database(NULL, 0);
    assert_ok(cv_db_script(db,
                           "CREATE TABLE grows AS SELECT 7 AS n;"
                           "CREATE FUNCTION grown() RETURNS SETOF grows LANGUAGE plpgsql AS"
                           " $$BEGIN RETURN QUERY EXECUTE 'SELECT * FROM grows'; END$$",
                           &error),
              &error);
    assert_ok(cv_db_script(db, "PREPARE cv_0 AS SELECT 1", &error), &error); /* the name is taken */
    assert_int_equal(prepared_number(db, "SELECT * FROM grows WHERE $1 <> ''", "x"), 7);
    static const char *const statements[] = {"SELECT * FROM grows WHERE $1 <> ''",
                                             "SELECT n FROM grown() WHERE $1 <> ''"};
    static const char *const changes[] = {"ALTER TABLE grows ADD COLUMN m int", "DEALLOCATE ALL"};
    for (size_t i = 0; i < CV_COUNT(changes); i++) {
        for (size_t s = 0; s < CV_COUNT(statements); s++) {
            assert_int_equal(prepared_number(db, statements[s], "x"), 7);
        }
        assert_ok(cv_db_script(db, changes[i], &error), &error);
        for (size_t s = 0; s < CV_COUNT(statements); s++) {
            assert_int_equal(prepared_number(db, statements[s], "x"), 7);
        }
    }
}

static void test_nothing_is_kept_behind_a_pooler(void **state)
{
    (void)state;
    struct cv_db_params params = {.conninfo = getenv("POOLER_URL")};
    struct cv_db *db = NULL;
    struct cv_error error;
    assert_non_null(params.conninfo);
    assert_ok(cv_db_open(&params, &db, &error), &error);
    assert_int_equal(prepared_number(db, count_kept, "kept"), 0);
    assert_int_equal(prepared_number(db, count_kept, "kept"), 0);
    cv_db_close(db);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_values_by_name),
        cmocka_unit_test(test_large_parameters_and_results),
        cmocka_unit_test(test_failures_have_type_message_and_detail),
        cmocka_unit_test(test_transactions),
        cmocka_unit_test(test_a_script_is_all_or_nothing),
        cmocka_unit_test(test_a_statement_that_takes_too_long),
        cmocka_unit_test(test_an_abort_ends_a_statement_and_a_drain_does_not),
        cmocka_unit_test(test_notifications_before_and_after_a_lost_connection),
        cmocka_unit_test(test_a_lost_connection_is_told_until_it_is_back),
        cmocka_unit_test(test_copy_is_refused),
        cmocka_unit_test(test_connection_texts_that_lead_nowhere),
        cmocka_unit_test(test_refusals_of_the_server),
        cmocka_unit_test(test_a_server_that_accepts_and_says_nothing),
        cmocka_unit_test(test_a_session_of_its_own_keeps_prepared_statements),
        cmocka_unit_test(test_more_statements_than_a_session_keeps),
        cmocka_unit_test(test_a_stale_prepared_statement_is_run_anew),
        cmocka_unit_test(test_nothing_is_kept_behind_a_pooler),
    };
    return cmocka_run_group_tests_name("database", tests, NULL, NULL);
}
