/* common/queue on the migrated database at DATABASE_URL; tests/system/test_queue_calls.py starts it.
 * Each test has a job type of its own, and so a queue of its own. */
#include "common/queue/queue.h"

#include "tests/programs/connection.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

enum { LEASE_MS = 60 * 1000 };

static struct cv_db *db;
static struct cv_error error;
static char type[64];

static void assert_result(int expected, int result)
{
    if (result != expected) {
        fail_msg("%d, not %d: %s", result, expected, result < 0 ? error.message : "");
    }
}

static int new_type(void **state)
{
    (void)state;
    static int count = 0;
    (void)snprintf(type, sizeof(type), "test_%d", ++count);
    return cv_db_run(db, NULL, &error,
                     "INSERT INTO job_types (name, description, time_limit)"
                     " VALUES ($1, 'a test', '90 seconds')",
                     type);
}

static void add(char id[CV_UUID_SIZE])
{
    cv_auto(cv_db_result_free) struct cv_db_result *rows = NULL;
    assert_result(0, cv_db_run(db, &rows, &error, "SELECT job_id FROM enqueue_job($1, $2::jsonb)",
                               type, "{\"text\": \"ü\", \"n\": 1}"));
    (void)snprintf(id, CV_UUID_SIZE, "%s", cv_db_text(rows, 0, "job_id"));
}

static void cancel(const char *id)
{
    assert_result(0, cv_db_run(db, NULL, &error, "SELECT cancel_job($1::uuid)", id));
}

static void retry(const char *id)
{
    assert_result(0, cv_db_run(db, NULL, &error, "SELECT retry_job($1::uuid)", id));
}

static void claim(struct cv_job_list *list)
{
    const struct cv_claim_params params = {"worker", type, 1, LEASE_MS};
    assert_result(0, cv_queue_claim(db, &params, list, &error));
    assert_int_equal(list->count, 1);
}

/* A column of the job, or of its last attempt, as text. */
static void assert_column(const char *id, const char *column, const char *expected)
{
    cv_auto(cv_db_result_free) struct cv_db_result *rows = NULL;
    assert_result(0, cv_db_run(db, &rows, &error,
                               "SELECT (coalesce(to_jsonb(a), '{}') || to_jsonb(j)) ->> $2 AS value"
                               " FROM jobs j LEFT JOIN job_attempts a"
                               " ON a.job_id = j.id AND a.attempt = j.attempt"
                               " WHERE j.id = $1::uuid",
                               id, column));
    const char *value = cv_db_text(rows, 0, "value");
    assert_string_equal(value ? value : "NULL", expected);
}

static void test_a_claim_yields_what_was_enqueued(void **state)
{
    (void)state;
    static const char correlation[] = "123e4567-e89b-12d3-a456-426614174000";
    cv_auto(json_decref) json_t *payload = json_pack("{s:[i,i]}", "list", 1, 2);
    char id[CV_UUID_SIZE];
    add(id);
    assert_result(0, cv_db_run(db, NULL, &error,
                               "UPDATE jobs SET payload = '{\"list\": [1, 2]}', priority = 7,"
                               " correlation_id = $2::uuid, sequence = 42 WHERE id = $1::uuid",
                               id, correlation));

    cv_auto(cv_job_list_deinit) struct cv_job_list list = {NULL, 0};
    claim(&list);
    const struct cv_job *job = &list.jobs[0];
    assert_string_equal(job->id, id);
    assert_string_equal(job->video_id, "");
    assert_string_equal(job->correlation_id, correlation);
    assert_string_equal(job->job_type, type);
    assert_true(json_equal(job->payload, payload));
    assert_true(job->token > 0);
    assert_int_equal(job->priority, 7);
    assert_int_equal(job->attempt, 1);
    assert_int_equal(job->time_limit_ms, 90000);
    struct cv_job_list none = {NULL, 0};
    const struct cv_claim_params many = {"w", type, 9, LEASE_MS};
    assert_result(CV_QUEUE_EMPTY, cv_queue_claim(db, &many, &none, &error));
    assert_null(none.jobs);
}

static void test_the_life_of_a_job_in_one_transaction(void **state)
{
    (void)state;
    char id[CV_UUID_SIZE];
    add(id);
    cv_auto(cv_job_list_deinit) struct cv_job_list list = {NULL, 0};
    claim(&list);
    const struct cv_job *job = &list.jobs[0];
    const struct cv_lease lease = {id, job->token};
    assert_result(0, cv_queue_renew(db, &lease, LEASE_MS, &error));
    assert_result(0, cv_queue_progress(db, &lease, 0.5, "read\xFF", &error));
    assert_column(id, "progress", "0.5");
    assert_column(id, "progress_message", "read\xEF\xBF\xBD");
    assert_result(0, cv_queue_progress(db, &lease, 7, NULL, &error));
    assert_column(id, "progress", "1");
    assert_result(-1, cv_queue_fence(db, job, &error));

    cv_auto(json_decref) json_t *artifacts =
        json_pack("[{s:s, s:s, s:i, s:n, s:n}]", "kind", "output", "key", "a/b", "size", 3,
                  "content_type", "checksum");
    cv_auto(json_decref) json_t *result = json_pack("{s:s}", "path", "a/b");
    struct cv_attempt_report report = {
        .pid = 42, .cpu_seconds = 1.25, .peak_memory_bytes = 1LL << 40, .stderr_tail = "tail"};
    assert_result(0, cv_db_begin(db, &error));
    assert_result(0, cv_queue_fence(db, job, &error));
    assert_result(0, cv_queue_record_artifacts(db, job, "bucket", artifacts, &error));
    assert_result(0, cv_queue_enqueue_successor(db, job, "object_remove", NULL, &error));
    assert_result(0, cv_queue_complete(db, job, result, &report, &error));
    assert_result(0, cv_db_commit(db, &error));

    assert_column(id, "status", "done");
    assert_column(id, "result", "{\"path\": \"a/b\"}");
    assert_column(id, "pid", "42");
    assert_column(id, "cpu_seconds", "1.25");
    assert_column(id, "peak_memory_bytes", "1099511627776");
    assert_column(id, "stderr_tail", "tail");
    assert_column(id, "stdout_tail", "NULL");
    cv_auto(cv_db_result_free) struct cv_db_result *rows = NULL;
    assert_result(0, cv_db_run(db, &rows, &error,
                               "SELECT s.priority FROM jobs s JOIN jobs j USING (sequence)"
                               " WHERE s.job_type = 'object_remove' AND s.correlation_id = $1::uuid"
                               " AND j.id = $2::uuid",
                               job->correlation_id, id));
    assert_int_equal(cv_db_rows(rows), 1);
    assert_int_equal(cv_db_int(rows, 0, "priority", 0), job->priority);
}

static void test_a_failure_keeps_hostile_text_and_no_secret(void **state)
{
    (void)state;
    char id[CV_UUID_SIZE];
    add(id);
    cv_auto(cv_job_list_deinit) struct cv_job_list list = {NULL, 0};
    claim(&list);
    static char tail[9000];
    static const char hostile[] = "\xC3(\xF0\x9F\xED\xA0\x80 password=hunter2 ";
    (void)memset(tail, 'x', sizeof(tail) - 1);
    (void)memcpy(tail, "dropped", 7);
    /* The cut falls between the two bytes of the ü, and takes the name of the secret away. */
    static const char cut[] = "token=\xC3\xBChunter2 ";
    (void)memcpy(tail + sizeof(tail) - 1 - 8193 - strlen("token="), cut, sizeof(cut) - 1);
    (void)memcpy(tail + 8000, hostile, sizeof(hostile) - 1);
    struct cv_attempt_report report = {.exit_code = -1, .stderr_tail = tail, .stdout_tail = ""};
    struct cv_error failure;
    assert_int_equal(cv_fail(&failure, CV_ERROR_TIMEOUT, "a\x80 postgresql://me:hunter2@x/y"), -1);
    assert_result(CV_QUEUE_RETRY, cv_queue_fail(db, &list.jobs[0], &failure, &report, &error));

    assert_column(id, "status", "failed");
    assert_column(id, "error_message", "a\xEF\xBF\xBD postgresql://me:*******@x/y");
    assert_column(id, "exit_code", "-1");
    assert_column(id, "stdout_tail", "");
    cv_auto(cv_db_result_free) struct cv_db_result *rows = NULL;
    assert_result(0, cv_db_run(db, &rows, &error,
                               "SELECT stderr_tail, octet_length(stderr_tail) AS size, status,"
                               " scheduled_for IS NOT NULL AS retry FROM job_attempts"
                               " JOIN (SELECT id, scheduled_for FROM jobs) j ON j.id = job_id"
                               " WHERE job_id = $1::uuid",
                               id));
    const char *kept = cv_db_text(rows, 0, "stderr_tail");
    assert_null(strstr(kept, "hunter2"));
    assert_null(strstr(kept, "dropped"));
    assert_non_null(strstr(kept, "password=*******"));
    assert_int_equal(kept[0], 'x');
    assert_string_equal(cv_db_text(rows, 0, "status"), "timeout");
    assert_true(cv_db_bool(rows, 0, "retry"));
}

static void test_a_permanent_failure_is_a_dead_letter_until_it_is_retried(void **state)
{
    (void)state;
    char id[CV_UUID_SIZE];
    struct cv_error failure;
    assert_int_equal(cv_fail(&failure, CV_ERROR_NOT_A_VIDEO, "no video in it"), -1);
    for (int round = 0; round < 2; round++) {
        if (round == 0) {
            add(id);
        }
        cv_auto(cv_job_list_deinit) struct cv_job_list list = {NULL, 0};
        claim(&list);
        assert_result(0, cv_queue_fail(db, &list.jobs[0], &failure, NULL, &error));
        assert_column(id, "status", "failed");
        assert_column(id, "scheduled_for", "NULL");
        if (round == 0) {
            retry(id);
        }
    }
}

static void test_a_lost_lease_is_told_by_every_call(void **state)
{
    (void)state;
    char id[CV_UUID_SIZE];
    add(id);
    cv_auto(cv_job_list_deinit) struct cv_job_list old = {NULL, 0};
    cv_auto(cv_job_list_deinit) struct cv_job_list new = {NULL, 0};
    claim(&old);
    assert_result(0, cv_db_run(db, NULL, &error,
                               "UPDATE jobs SET locked_until = now() - interval '1 second'"
                               " WHERE id = $1::uuid",
                               id));
    claim(&new);
    const struct cv_job *zombie = &old.jobs[0];
    assert_true(new.jobs[0].token > zombie->token);
    assert_int_equal(new.jobs[0].attempt, 2);
    assert_column(id, "retry_count", "1");
    cv_auto(json_decref) json_t *none = json_array();
    struct cv_error failure;
    assert_int_equal(cv_fail(&failure, CV_ERROR_IO, "zombie"), -1);

    const struct cv_lease lost = {id, zombie->token};
    assert_result(CV_LEASE_LOST, cv_queue_renew(db, &lost, LEASE_MS, &error));
    assert_result(CV_LEASE_LOST, cv_queue_progress(db, &lost, 0.9, "", &error));
    assert_result(CV_LEASE_LOST, cv_queue_complete(db, zombie, NULL, NULL, &error));
    assert_result(CV_LEASE_LOST, cv_queue_fail(db, zombie, &failure, NULL, &error));
    assert_result(CV_LEASE_LOST, cv_queue_release(db, zombie, "x", NULL, &error));
    assert_result(CV_LEASE_LOST, cv_queue_settle_canceled(db, zombie, NULL, &error));
    assert_result(CV_LEASE_LOST, cv_queue_record_artifacts(db, zombie, "b", none, &error));
    assert_result(0, cv_db_begin(db, &error));
    assert_result(CV_LEASE_LOST, cv_queue_fence(db, zombie, &error));
    cv_db_rollback(db);
    assert_result(0, cv_queue_complete(db, &new.jobs[0], NULL, NULL, &error));
    assert_column(id, "status", "done");
}

static void test_cancel_and_release(void **state)
{
    (void)state;
    char id[CV_UUID_SIZE];
    add(id);
    cancel(id);
    assert_column(id, "status", "canceled");
    retry(id);

    cv_auto(cv_job_list_deinit) struct cv_job_list first = {NULL, 0};
    claim(&first);
    assert_result(0, cv_queue_release(db, &first.jobs[0], "going down", NULL, &error));
    assert_column(id, "error_message", "going down");

    cv_auto(cv_job_list_deinit) struct cv_job_list second = {NULL, 0};
    claim(&second);
    const struct cv_lease lease = {id, second.jobs[0].token};
    assert_column(id, "retry_count", "0");
    cancel(id);
    assert_result(CV_QUEUE_CANCEL, cv_queue_renew(db, &lease, LEASE_MS, &error));
    assert_result(CV_QUEUE_CANCEL, cv_queue_progress(db, &lease, 0.1, "x", &error));
    assert_result(0, cv_queue_settle_canceled(db, &second.jobs[0], NULL, &error));
    assert_column(id, "status", "canceled");
}

static void test_a_worker_is_one_row(void **state)
{
    (void)state;
    struct cv_worker_state worker = {type, "host", "ocr", "running", 2, 1};
    assert_result(0, cv_queue_report_worker(db, &worker, &error));
    worker.state = "stopped";
    worker.running = 0;
    assert_result(0, cv_queue_report_worker(db, &worker, &error));
    cv_auto(cv_db_result_free) struct cv_db_result *rows = NULL;
    assert_result(0, cv_db_run(db, &rows, &error, "SELECT * FROM workers WHERE id = $1", type));
    assert_int_equal(cv_db_rows(rows), 1);
    assert_string_equal(cv_db_text(rows, 0, "state"), "stopped");
    assert_string_equal(cv_db_text(rows, 0, "job_types"), "{ocr}");
    assert_string_equal(cv_db_text(rows, 0, "version"), CV_VERSION);
    assert_int_equal(cv_db_int(rows, 0, "slots", 0), 2);
    assert_int_equal(cv_db_int(rows, 0, "running", 9), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(test_a_claim_yields_what_was_enqueued, new_type),
        cmocka_unit_test_setup(test_the_life_of_a_job_in_one_transaction, new_type),
        cmocka_unit_test_setup(test_a_failure_keeps_hostile_text_and_no_secret, new_type),
        cmocka_unit_test_setup(test_a_permanent_failure_is_a_dead_letter_until_it_is_retried,
                               new_type),
        cmocka_unit_test_setup(test_a_lost_lease_is_told_by_every_call, new_type),
        cmocka_unit_test_setup(test_cancel_and_release, new_type),
        cmocka_unit_test_setup(test_a_worker_is_one_row, new_type),
    };
    db = open_database(NULL, 0);
    int failed = cmocka_run_group_tests_name("queue", tests, NULL, NULL);
    cv_db_close(db);
    return failed;
}
