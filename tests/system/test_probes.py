"""What kubelets, Prometheus and KEDA see: probes, the depth of queues, who may read what, and workers
that are older or newer than the schema."""

import contextlib
import os
import signal
import time

import psycopg2
import pytest
from jobs import past_all_rules
from probing import cpu_seconds, get, port_of, scrape, wait_ready, wait_reason
from workers import STAGE_SCHEMA, Worker, Workers, wait_until


def start(workers, *arguments, **environment):
    worker = workers.start("test-stage", "--listen", "127.0.0.1:0", *arguments, **environment)
    return worker, port_of(worker)


# ---- probes ----------------------------------------------------------------------------------------


def test_ready_while_the_database_is_there(program, cluster, tmp_path):
    url = cluster.url(cluster.create_database())
    with contextlib.closing(psycopg2.connect(url)) as connection, connection:
        connection.cursor().execute(STAGE_SCHEMA)
    workers = Workers(program, url, tmp_path)
    try:
        worker, port = start(workers, CORTANA_HEARTBEAT_MS=500)
        wait_ready(port)
        assert get(port, "/healthz") == (200, "ok\n")
        cluster.stop()
        wait_reason(port, "database")
        assert get(port, "/healthz")[0] == 200  # a restart of this worker would not help
        assert scrape(port).get_one("cortana_ready") == 0
        cluster.start()
        wait_ready(port)
        assert worker.stop() == 0
    finally:
        workers.end()


def test_no_secret_is_shown(workers):
    worker, port = start(workers, DATABASE_URL="postgresql://cv:hunter2@127.0.0.1:1/cv",
                         S3_SECRET_ACCESS_KEY="hunter2")
    text = wait_reason(port, "127.0.0.1")
    assert "no connection to the database" in text
    for page in ("/healthz", "/readyz", "/metrics", "/nothing"):
        assert "hunter2" not in get(port, page)[1]
    assert worker.is_alive()


def test_told_to_go_it_takes_no_more_and_gives_back_what_it_has(jobs, workers):
    first = jobs.enqueue({"do": "work", "ms": 60000})
    worker, port = start(workers, "--slots", 2)
    wait_ready(port)
    worker.wait_for_stage()
    worker.signal(signal.SIGTERM)
    assert "draining" in wait_reason(port, "draining")
    second = jobs.enqueue({"do": "succeed"})
    assert get(port, "/healthz")[0] == 200
    worker.signal(signal.SIGTERM)  # the second ends the time of grace
    assert worker.wait() == 0
    for job_id, attempts in ((first, 1), (second, 0)):
        job = jobs.get(job_id)
        assert (job["status"], job["attempt"], job["retry_count"]) == ("queued", attempts, 0)
    assert jobs.attempts(first)[0]["status"] == "canceled"


def test_an_address_that_cannot_be_had_stops_the_worker(jobs, workers):
    _, port = start(workers)
    for address in (f"127.0.0.1:{port}", "nonsense"):
        other = workers.start("test-stage", "--listen", address)
        assert other.wait() == 78
        assert other.says(address)


def test_a_type_that_is_not_registered_stops_the_worker(workers):
    worker, _ = start(workers)
    assert worker.wait() == 78
    assert worker.says("job type test_stage is not registered")


def test_environment_and_nothing(jobs, workers):
    worker = workers.start(CORTANA_LISTEN="127.0.0.1:0")
    wait_ready(port_of(worker))
    silent = workers.start(CORTANA_LISTEN="")
    wait_until(lambda: silent.says("slots, lease"), "its start")
    assert not silent.says("probes and metrics")


@pytest.mark.parametrize("command", [["scanner-worker", "--interval", "60"],
                                     ["scheduler", "--metrics-fleet", "--poll-ms", "200"]])
def test_programs_that_are_no_workers(program, database, sql, tmp_path, command):
    store = tmp_path / "store"
    store.mkdir()
    sql.cursor().execute("DELETE FROM schema_migrations WHERE version = 6")
    environment = {**os.environ, "DATABASE_URL": database, "STORE_URL": f"dir:{store}",
                   "CORTANA_METRICS_FLEET_MS": "200"}
    process = Worker([program(command[0]), *command[1:], "--listen", "127.0.0.1:0"], environment,
                     tmp_path / "log")
    try:
        port = port_of(process)
        assert "0006_queue" in wait_reason(port, "older than this program")
        sql.cursor().execute("INSERT INTO schema_migrations VALUES (6, 'queue', 'x')")
        wait_ready(port)
        assert get(port, "/healthz")[0] == 200
        if "--metrics-fleet" in command:
            wait_until(lambda: "cortana_fleet_jobs" in scrape(port).names(), "the fleet's numbers")
        else:
            assert "cortana_fleet_jobs" not in scrape(port).names()
        assert process.stop() == 0
    finally:
        process.kill()


# ---- numbers -----------------------------------------------------------------------------------------


def wait_number(port, name, wanted, **labels):
    wait_until(lambda: scrape(port).get_one(name, **labels) == wanted, f"{name}{labels} to be {wanted}")


def test_what_a_worker_has_done(jobs, workers, sql):
    worker, port = start(workers, "--slots", 3)
    wait_ready(port)
    cursor = sql.cursor()
    cursor.execute("INSERT INTO videos (duration) VALUES (90) RETURNING id")
    (video,) = cursor.fetchone()
    jobs.row("SELECT job_id FROM enqueue_job('test_stage', '{\"do\": \"succeed\"}', %s)", video)
    jobs.enqueue({"do": "succeed", "t_start": 1000, "t_end": 3500})
    jobs.enqueue({"do": "fail", "type": "Throttled"})
    jobs.enqueue({"do": "fail", "type": "NotAVideo"})
    jobs.enqueue({"do": "spin"})  # two seconds of CPU time, which its limit ends
    hanging = jobs.enqueue({"do": "work", "ms": 60000})
    outcomes = {"done": 2, "retry": 2, "dead": 1}
    for outcome, count in outcomes.items():
        wait_number(port, "cortana_jobs_finished_total", count, job_type="test_stage", outcome=outcome)
    sql.cursor().execute("SELECT cancel_job(%s)", (hanging,))
    wait_number(port, "cortana_jobs_finished_total", 1, job_type="test_stage", outcome="canceled")
    numbers = scrape(port)
    assert numbers.get_one("cortana_job_wait_seconds_count", job_type="test_stage") == 6
    assert numbers.get_one("cortana_job_run_seconds_count", job_type="test_stage") == 6
    assert numbers.get_one("cortana_stage_video_seconds_total", job_type="test_stage") == 92.5
    spent = sum(row["cpu_seconds"] for row in jobs.rows("SELECT cpu_seconds FROM job_attempts"))
    assert spent > 1.5
    assert numbers.get_one("cortana_stage_cpu_seconds_total", job_type="test_stage") == \
        pytest.approx(spent, abs=0.001)
    assert numbers.get_one("cortana_stage_peak_memory_bytes", job_type="test_stage") > 0
    assert numbers.get_one("cortana_disk_free_bytes") > 0
    assert numbers.get_one("cortana_database_connected") == 1
    assert 0 < numbers.get_one("cortana_first_claim_seconds") < 60
    assert not {name for name in numbers.names() if "fleet" in name}
    assert worker.stop() == 0


def test_a_lost_lease_and_a_job_given_back(jobs, workers, sql):
    lost = jobs.enqueue({"do": "work", "ms": 60000})
    worker, port = start(workers, CORTANA_GRACE_MS=60000, CORTANA_HEARTBEAT_MS=200)
    worker.wait_for_stage()
    sql.cursor().execute(past_all_rules(
        "UPDATE jobs SET lease_token = nextval('job_lease_tokens') WHERE id = %s"), (lost,))
    wait_number(port, "cortana_leases_lost_total", 1, job_type="test_stage")
    numbers = scrape(port)
    assert numbers.get_one("cortana_jobs_finished_total", job_type="test_stage", outcome="lost") == 1
    assert numbers.total("cortana_jobs_finished_total") == 1


def test_numbers_of_the_fleet(jobs, workers, sql):
    jobs.enqueue({"do": "work", "ms": 60000})
    worker, port = start(workers, "--metrics-fleet", CORTANA_METRICS_FLEET_MS=200)
    jobs.enqueue({"do": "succeed"}, job_type="test_table")
    labels = {"job_type": "test_stage", "status": "running"}

    def look():
        numbers = scrape(port)
        known = numbers.get(("cortana_fleet_jobs", frozenset(labels.items()))) == 1
        busy = numbers.get(("cortana_fleet_slots_busy", frozenset({("job_type", "test_stage")}))) == 1
        return numbers if known and busy else None

    numbers = wait_until(look, "the fleet's numbers")
    assert numbers.get_one("cortana_fleet_up") == 1
    assert numbers.get_one("cortana_fleet_jobs", job_type="test_table", status="queued") == 1
    assert numbers.get_one("cortana_fleet_jobs", job_type="ocr", status="dead") == 0
    assert numbers.get_one("cortana_fleet_oldest_seconds", job_type="test_table", status="queued") > 0
    assert ("cortana_fleet_oldest_seconds",
            frozenset({("job_type", "ocr"), ("status", "dead")})) not in numbers
    assert numbers.get_one("cortana_fleet_workers", job_type="test_stage", state="running") == 1
    assert numbers.get_one("cortana_fleet_slots", job_type="test_stage") == 1
    sql.cursor().execute("ALTER VIEW worker_overview RENAME TO not_there")
    wait_number(port, "cortana_fleet_up", 0)
    assert "cortana_fleet_jobs" not in scrape(port).names()  # what is old would be taken for new
    assert get(port, "/readyz")[0] == 200
    worker.signal(signal.SIGTERM)
    worker.signal(signal.SIGINT)
    assert worker.wait() == 0


# ---- how much waits ---------------------------------------------------------------------------------


def depth(queue, job_type="work"):
    """What is not zero."""
    rows = queue.run("SELECT status, depth FROM queue_depth WHERE job_type = %s", job_type)
    assert len(rows) == 8
    return {row["status"]: int(row["depth"]) for row in rows if row["depth"]}


def demand(queue, job_type="work"):
    """What a stage is scaled on."""
    return int(queue.value("SELECT sum(depth) FROM queue_depth WHERE job_type = %s"
                           " AND status IN ('queued', 'running')", job_type))


@pytest.fixture
def work(queue):
    queue.run("INSERT INTO job_types (name, description) VALUES ('work', 'work'), ('other', 'other')")
    return queue


def test_depth_of_each_state(work):
    assert depth(work) == {}
    parent = work.add("work")
    work.add("work", scheduled_for="2200-01-01")
    work.add("work", depends_on=[parent])
    work.add("other")
    assert depth(work) == {"queued": 1, "scheduled": 1, "blocked": 1}
    job = work.claim_one("work")
    assert depth(work) == {"running": 1, "scheduled": 1, "blocked": 1}
    assert demand(work) == 1
    work.call("complete_job", job)
    assert depth(work) == {"queued": 1, "scheduled": 1}
    work.fail(work.claim_one("work"))
    assert depth(work) == {"retrying": 1, "scheduled": 1}
    assert demand(work) == 0
    assert demand(work, "other") == 1


def test_a_file_that_is_no_video_is_no_dead_letter_of_the_operators(work):
    for error in ("NotAVideo", "UnsupportedMedia", "DecodeError", "S3ObjectNotFound", "InvalidPayload"):
        work.add("work")
        work.fail(work.claim_one("work"), error, retryable=False)
    assert depth(work) == {"refused": 3, "dead": 2}
    refused = work.run("SELECT error_type FROM job_overview WHERE refused ORDER BY 1")
    assert [row["error_type"] for row in refused] == ["DecodeError", "NotAVideo", "UnsupportedMedia"]
    work.run("SELECT retry_job(id) FROM jobs")
    assert depth(work) == {"queued": 5} and work.run("SELECT FROM job_overview WHERE refused") == []


def test_what_is_due_counts_before_any_worker_has_looked(work):
    """A stage that is scaled to zero has nobody who would mark a job as due."""
    work.add("work", scheduled_for="2200-01-01")
    retried = work.claim_one("work") if work.add("work") else None
    work.fail(retried)
    assert demand(work) == 0
    work.run("UPDATE jobs SET scheduled_for = now() - interval '1 minute' WHERE scheduled_for IS NOT NULL")
    assert depth(work) == {"queued": 2}
    assert len(work.claim("work", limit=10)) == 2  # which is what the depth had promised
    assert depth(work) == {"running": 2}


def test_a_dead_letter_and_a_dead_workers_job(work):
    work.add("work")
    work.add("work")
    work.fail(work.claim_one("work"), retryable=False)
    work.claim_one("work", lease="-1 second")
    assert depth(work) == {"dead": 1, "running": 1}  # somebody has to come and find it


TENANT = "00000000-0000-4000-8000-00000000000a"
RULES = [
    ("SELECT pause_type('work')", {"held": 5, "running": 1}),
    (f"SELECT pause_tenant('{TENANT}')", {"held": 3, "queued": 2, "running": 1}),
    ("UPDATE job_types SET max_running = 3 WHERE name = 'work'", {"held": 3, "queued": 2, "running": 1}),
    ("UPDATE job_types SET max_running = 0 WHERE name = 'work'", {"held": 5, "running": 1}),
    ("UPDATE job_types SET max_running_per_tenant = 2 WHERE name = 'work'",
     {"held": 2, "queued": 3, "running": 1}),
    ("UPDATE job_types SET put_off_while_interactive = true WHERE name = 'work';"
     "SELECT touch_session(NULL, 'search', '60 seconds')", {"held": 5, "running": 1}),
    ("UPDATE job_types SET put_off_while_interactive = true WHERE name = 'work'", {"queued": 5, "running": 1}),
]


def test_what_rules_hold_back_does_not_scale(work):
    """Each rule by itself; and what is shown as claimable is what a claim gets."""
    work.add("work", tenant_id=TENANT)
    work.claim_one("work")
    for _ in range(3):
        work.add("work", tenant_id=TENANT)
    work.add("work", tenant_id="00000000-0000-4000-8000-00000000000b")
    work.add("work")
    for rule, expected in RULES:
        work.run("BEGIN")
        work.run(rule)
        assert depth(work) == expected, rule
        assert len(work.claim("work", limit=1000)) == expected.get("queued", 0), rule
        work.run("ROLLBACK")


def test_age_of_the_oldest_counts_from_when_it_could_be_claimed(work):
    def age(status="queued"):
        return work.value("SELECT oldest_seconds FROM queue_depth WHERE job_type = 'work'"
                          " AND status = %s", status)

    assert age() is None
    parent = work.add("other")
    work.add("work", depends_on=[parent])
    work.run(past_all_rules("UPDATE jobs SET created_at = created_at - interval '1 hour',"
                            " ready_at = ready_at - interval '1 hour'"))
    assert age() is None
    work.call("complete_job", work.claim_one("other"))
    assert 0 <= age() < 60  # it waited for the other, not for a worker
    work.run("UPDATE jobs SET ready_at = ready_at - interval '1 hour' WHERE job_type = 'work'")
    assert 3600 <= age() < 3660
    assert work.claim_one("work")["ready_at"]
    assert age() is None
    assert 0 <= age("running") < 60


def test_depth_reads_no_finished_job(work):
    """However long the history is."""
    work.run("INSERT INTO jobs (job_type, status, max_retries, is_ready, step)"
             " SELECT 'work', 'done', 0, false, 'work' FROM generate_series(1, 3000)")
    work.run("VACUUM ANALYZE jobs")
    work.run("SELECT * FROM queue_depth WHERE job_type = 'work'")
    work.run("SELECT pg_stat_force_next_flush()")
    before = work.value("SELECT seq_tup_read FROM pg_stat_user_tables WHERE relname = 'jobs'")
    work.run("SELECT * FROM queue_depth WHERE job_type = 'work'")
    work.run("SELECT pg_stat_force_next_flush()")
    assert work.value("SELECT seq_tup_read FROM pg_stat_user_tables WHERE relname = 'jobs'") == before


def test_flow_of_the_last_minutes(work):
    for _ in range(4):
        work.add("work")
    work.call("complete_job", work.claim_one("work"))
    work.fail(work.claim_one("work"))
    work.fail(work.claim_one("work"), retryable=False)
    work.call("release_job", work.claim_one("work"), "told to go")
    work.run(past_all_rules("UPDATE task_events SET ts = ts - interval '10 minutes' WHERE id ="
                            " (SELECT min(id) FROM task_events)"))
    rows = work.run("SELECT event, jobs FROM job_flow WHERE job_type = 'work'")
    assert {row["event"]: row["jobs"] for row in rows} == {
        "enqueued": 3, "claimed": 4, "done": 1, "retry": 1, "dead": 1, "released": 1}


# ---- who may read -----------------------------------------------------------------------------------


def test_the_role_for_metrics_reads_numbers_and_changes_nothing(work):
    """What it and others may read: test_tenant_matrix.py."""
    work.add("work")
    work.claim_one("work")
    work.run("SELECT report_worker('w', 'h', '1', '{work}', 1, 1, 'running')")
    assert work.value("SELECT rolcanlogin FROM pg_roles WHERE rolname = 'cortana_metrics'") is False
    work.run("SET ROLE cortana_metrics")
    assert demand(work) == 1
    assert work.run("SELECT id FROM worker_overview") == [{"id": "w"}]
    for statement in ("SELECT * FROM claim_jobs('x', 'work')", "SELECT require_program(1, 'x')",
                      "SELECT pause_type('work')", "DELETE FROM queue_depth",
                      "SELECT * FROM enqueue_job('work', '{}')"):
        with pytest.raises(psycopg2.Error):
            work.run(statement)


# ---- programs and schemas of different releases -------------------------------------------------------


def test_a_connection_from_before_the_path_was_set_is_renewed(jobs, workers, sql, database):
    """A worker that came before the migration: the database's search_path holds for connections that begin later."""
    name = database.split("@/")[1].split("?")[0]
    sql.cursor().execute(f"ALTER DATABASE {name} RESET search_path")
    worker, port = start(workers)
    wait_reason(port, "search_path")
    looks, began, before = set(), time.monotonic(), cpu_seconds(worker.pid)

    def has_looked_again():
        cursor = sql.cursor()
        cursor.execute("SELECT backend_start FROM pg_stat_activity WHERE datname = current_database()"
                       " AND application_name = 'test-stage'")
        looks.update(cursor.fetchall())
        return len(looks) > 4

    wait_until(has_looked_again, "the worker to look again")
    assert cpu_seconds(worker.pid) - before < 0.05 * (time.monotonic() - began)  # it waits between its looks
    cursor = sql.cursor()
    cursor.execute("SELECT cortana.secure_database()")
    wait_ready(port)
    jobs.wait_for(jobs.enqueue({"do": "succeed"}), "done")
    assert worker.stop() == 0


def test_a_worker_goes_on_under_a_newer_schema(jobs, workers, sql):
    """What a rolling update does to workers of the release before: migrations that only add."""
    worker, port = start(workers)
    wait_ready(port)
    running = jobs.enqueue({"do": "work", "ms": 1000})
    worker.wait_for_stage()
    sql.cursor().execute("""
        ALTER TABLE jobs ADD COLUMN from_the_future text NOT NULL DEFAULT 'x';
        ALTER TABLE job_types ADD COLUMN from_the_future int[];
        ALTER TABLE ended_attempts ADD COLUMN from_the_future text;
        CREATE TABLE from_the_future (id int);
        CREATE INDEX CONCURRENTLY IF NOT EXISTS not_there ON from_the_future (id)
    """.replace("CONCURRENTLY ", ""))
    sql.cursor().execute("INSERT INTO schema_migrations VALUES (9001, 'expands', 'x')")
    jobs.wait_for(running, "done")
    jobs.wait_for(jobs.enqueue({"do": "succeed"}), "done")
    newcomer, other = start(workers)  # and one that starts on it
    wait_ready(other)
    assert get(port, "/readyz")[0] == 200
    assert worker.stop() == 0 and newcomer.stop() == 0
    assert not worker.says("schema")


def test_a_schema_that_left_the_worker_behind(jobs, workers, sql):
    worker, port = start(workers)
    wait_ready(port)
    running = jobs.enqueue({"do": "await", "key": "told"})
    worker.wait_for_stage()
    sql.cursor().execute("SELECT require_program(9002, 'jobs.old is gone')")
    sql.cursor().execute("SELECT require_program(3, 'never goes back')")
    text = wait_reason(port, "schema")
    assert "9002" in text and "jobs.old is gone" in text
    assert get(port, "/healthz")[0] == 200
    (workers.store / "told").touch()
    jobs.wait_for(running, "done")  # what it had claimed may end as far as it can
    waiting = jobs.enqueue({"do": "succeed"})
    newcomer, other = start(workers)
    wait_reason(other, "jobs.old is gone")
    assert jobs.get(waiting)["status"] == "queued"
    sql.cursor().execute("DELETE FROM schema_floor")
    wait_ready(port)
    jobs.wait_for(waiting, "done")
    assert worker.stop() == 0 and newcomer.stop() == 0


def test_a_schema_that_is_too_old_is_waited_for(jobs, workers, sql):
    sql.cursor().execute("DELETE FROM schema_migrations WHERE version = 6 RETURNING *")
    waiting = jobs.enqueue({"do": "succeed"})
    worker, port = start(workers)
    text = wait_reason(port, "older than this program")
    assert "0006_queue" in text and "cortana migrate" in text
    assert jobs.get(waiting)["status"] == "queued"
    sql.cursor().execute("INSERT INTO schema_migrations VALUES (6, 'queue', 'x')")
    wait_ready(port)
    jobs.wait_for(waiting, "done")
    assert worker.stop() == 0


def test_no_schema_at_all_is_waited_for(program, shared_cluster, tmp_path, sql):
    name = f"empty_{os.getpid()}_{tmp_path.name}".replace("-", "_").lower()
    sql.cursor().execute(f"CREATE DATABASE {name}")
    workers = Workers(program, shared_cluster.url(name), tmp_path)
    try:
        worker, port = start(workers)
        assert "no schema" in wait_reason(port, "schema")
        assert worker.stop() == 0
    finally:
        workers.end()
        sql.cursor().execute(f"DROP DATABASE {name} WITH (FORCE)")


def test_the_scheduler_says_how_it_goes(program, cluster, tmp_path):
    workers = Workers(program, cluster.url(cluster.create_database()), tmp_path)
    try:
        worker = workers.start("scheduler", "--listen", "127.0.0.1:0", "--poll-ms", "100")
        port = port_of(worker)
        wait_ready(port)
        cluster.stop()
        wait_until(lambda: get(port, "/readyz")[0] == 503, "the scheduler to miss the database")
        assert get(port, "/healthz")[0] == 200
        cluster.start()
        wait_ready(port)
        assert scrape(port).get_one("cortana_ready") == 1
        assert worker.stop() == 0
    finally:
        workers.end()
