"""What may break around a worker: its database, its clock, its disk. It is killed at random instants in test_fault_schedule.py."""

import contextlib
import os
import signal
import subprocess

import pytest
from conftest import TEMPLATE, run_sql
from probing import port_of, wait_reason
from tcp_gate import TcpGate
from workers import STAGE_SCHEMA, Jobs, Workers, find_faketime, is_running, silent, wait_until

FAST_RETRIES = """UPDATE job_types SET retry_delays = array_fill('10 ms'::interval, ARRAY[500])
                  WHERE name = 'test_stage'"""


@pytest.fixture
def jobs(jobs, sql):
    sql.cursor().execute(FAST_RETRIES)
    return jobs


def connect(cluster, name):
    connection = cluster.connect(name)
    connection.autocommit = True
    return connection


# ---- the database goes away ------------------------------------------------------------------------


@pytest.fixture
def stoppable(cluster, program, tmp_path):
    """A cluster of the test's own with one database, and workers on it."""
    name = cluster.create_database()
    setup = Jobs(connect(cluster, name))
    setup.rows(STAGE_SCHEMA + FAST_RETRIES)
    setup.connection.close()
    started = Workers(program, cluster.url(name), tmp_path)
    yield lambda: Jobs(connect(cluster, name)), started
    started.end()


@pytest.mark.parametrize("immediate, duration", [(False, 1000), (True, 5000)],
                         ids=["shutdown, the stage ends meanwhile", "crash, the stage outlasts it"])
def test_a_job_survives_a_database_that_comes_back(cluster, stoppable, immediate, duration):
    open_jobs, workers = stoppable
    jobs = open_jobs()
    job_id = jobs.enqueue({"do": "put", "key": "k", "text": "t", "ms": duration})
    worker = workers.start()
    stage = worker.wait_for_stage()
    jobs.wait_for(job_id, "processing")
    jobs.connection.close()
    cluster.stop(immediate)
    if duration == 1000:
        wait_until(lambda: not is_running(stage), "the stage to finish without a database")
    wait_until(lambda: worker.says("waiting for the database"), "the worker to notice")
    cluster.start()
    jobs = open_jobs()
    jobs.wait_for(job_id, "done", "failed")
    assert [a["status"] for a in jobs.attempts(job_id)] == ["succeeded"]
    assert len(jobs.results(job_id)) == 1
    assert worker.is_alive()
    jobs.wait_for(jobs.enqueue({"do": "succeed"}), "done")
    jobs.connection.close()


@contextlib.contextmanager
def stopped(cluster):
    cluster.stop()
    yield
    cluster.start()


@pytest.mark.parametrize("away", [stopped, silent])
def test_a_database_away_longer_than_the_lease_costs_the_attempt(cluster, stoppable, away):
    open_jobs, workers = stoppable
    jobs = open_jobs()
    job_id = jobs.enqueue({"do": "work", "ms": 3600000})
    worker = workers.start(CORTANA_LEASE_MS=1500)
    stage = worker.wait_for_stage()
    jobs.rows("UPDATE jobs SET payload = '{\"do\": \"succeed\"}' WHERE id = %s", job_id)
    jobs.connection.close()
    with away(cluster):
        wait_until(lambda: not is_running(stage), "the stage to be ended with its lease")
    jobs = open_jobs()
    jobs.wait_for(job_id, "done", "failed")
    assert [a["status"] for a in jobs.attempts(job_id)] == ["crashed", "succeeded"]
    assert [row["attempt"] for row in jobs.results(job_id)] == [2]
    assert worker.says("lease lost") and worker.is_alive()
    jobs.connection.close()


def test_a_worker_waits_for_a_database_that_is_not_there_yet(cluster, stoppable):
    open_jobs, workers = stoppable
    jobs = open_jobs()
    job_id = jobs.enqueue({"do": "succeed"})
    jobs.connection.close()
    cluster.stop()
    worker = workers.start()
    wait_until(lambda: worker.says("waiting for the database"), "the worker to notice")
    cluster.start()
    jobs = open_jobs()
    jobs.wait_for(job_id, "done")
    jobs.connection.close()


def test_a_lost_network_holds_no_lock(cluster, stoppable):
    """The server is never told that the worker it waits for is gone, in the middle of a commit."""
    open_jobs, workers = stoppable
    jobs = open_jobs()
    jobs.rows("""CREATE OR REPLACE FUNCTION test_commit(uuid, int, jsonb) RETURNS void LANGUAGE sql AS
                 'INSERT INTO test_results SELECT $1, $2, $3
                  FROM pg_sleep(CASE $2 WHEN 1 THEN 1 ELSE 0 END)'""")
    job_id = jobs.enqueue({"do": "succeed"})
    with contextlib.closing(TcpGate(cluster.directory / ".s.PGSQL.5432")) as gate:
        workers.start(CORTANA_LEASE_MS=3000, DATABASE_URL=gate.url(workers.database_url.split("/")[3]
                                                                  .split("?")[0]))
        wait_until(lambda: jobs.rows("SELECT pid FROM pg_stat_activity WHERE wait_event = 'PgSleep'"),
                   "the commit to begin")
        assert gate.silence(server_learns=3600) >= 1
        workers.start(CORTANA_LEASE_MS=3000)
        jobs.wait_for(job_id, "done", "failed")
    assert [row["attempt"] for row in jobs.results(job_id)] == [2]
    assert [a["status"] for a in jobs.attempts(job_id)] == ["crashed", "succeeded"]
    jobs.connection.close()


@pytest.fixture
def gate(shared_cluster, database):
    """A network that may be cut, and the database's URL beyond it."""
    with contextlib.closing(TcpGate(shared_cluster.directory / ".s.PGSQL.5432")) as gate:
        yield gate, gate.url(database.split("/")[3].split("?")[0])


def test_a_network_cut_shorter_than_the_lease_costs_nothing(jobs, workers, gate):
    """Nor does a job that takes longer than the lease, which is renewed."""
    gate, url = gate
    job_id = jobs.enqueue({"do": "work", "ms": 5000})
    worker = workers.start(CORTANA_LEASE_MS=4000, DATABASE_URL=url)
    worker.wait_for_stage()
    assert gate.freeze(1.5) >= 2
    workers.start(CORTANA_LEASE_MS=4000)  # would take it as soon as the lease ran out
    jobs.wait_for(job_id, "done", "failed")
    assert [a["status"] for a in jobs.attempts(job_id)] == ["succeeded"]
    assert len(jobs.results(job_id)) == 1 and worker.is_alive()


def test_a_network_cut_longer_than_the_lease_costs_the_attempt(jobs, workers, gate):
    gate, url = gate
    job_id = jobs.enqueue({"do": "hang"})
    cut_off = workers.start(CORTANA_LEASE_MS=1500, DATABASE_URL=url)
    stage = cut_off.wait_for_stage()
    jobs.rows("UPDATE jobs SET payload = '{\"do\": \"succeed\"}' WHERE id = %s", job_id)
    gate.freeze(3600)
    wait_until(lambda: not is_running(stage), "the stage to be ended with its lease")
    other = workers.start(CORTANA_LEASE_MS=1500)
    jobs.wait_for(job_id, "done", "failed")
    assert [a["status"] for a in jobs.attempts(job_id)] == ["crashed", "succeeded"]
    assert [row["attempt"] for row in jobs.results(job_id)] == [2]
    assert other.stop() == 0
    gate.freeze(0)
    jobs.wait_for(jobs.enqueue({"do": "succeed"}), "done")  # by the one that was cut off
    assert cut_off.says("lease lost") and cut_off.is_alive()


def test_workers_that_are_killed_give_their_share_of_a_limit_back(jobs, workers):
    """Of two places in the whole fleet, both are held by workers that die: others have them when the
    leases end, and never more."""
    jobs.rows("UPDATE job_types SET max_running = 2 WHERE name = 'test_stage'")
    jobs.rows("""CREATE TABLE most (running int); CREATE FUNCTION note() RETURNS trigger LANGUAGE plpgsql AS
        $$ BEGIN INSERT INTO most SELECT count(*) FROM jobs WHERE status = 'processing'; RETURN NULL; END $$;
        CREATE TRIGGER note AFTER UPDATE ON jobs FOR EACH STATEMENT EXECUTE FUNCTION note()""")
    hanging = [jobs.enqueue({"do": "hang"}) for _ in range(2)]
    holders = [workers.start(CORTANA_LEASE_MS=1500) for _ in range(2)]
    for holder in holders:
        holder.wait_for_stage()
    jobs.rows("UPDATE jobs SET payload = '{\"do\": \"succeed\"}' WHERE status = 'processing'")
    for holder in holders:
        holder.kill()
    others = [workers.start("test-stage", "--slots", 3) for _ in range(2)]
    ids = hanging + [jobs.enqueue({"do": "work", "ms": 100}) for _ in range(10)]
    for job_id in ids:
        jobs.wait_for(job_id, "done")
    assert jobs.row("SELECT max(running) AS n FROM most")["n"] == 2
    assert [[a["status"] for a in jobs.attempts(job_id)] for job_id in hanging] == [["crashed", "succeeded"]] * 2
    assert all(other.is_alive() for other in others)


# ---- the worker stands still -----------------------------------------------------------------------


def test_a_zombie_that_wakes_after_its_lease_changes_nothing(jobs, workers):
    job_id = jobs.enqueue({"do": "work", "ms": 2000})
    zombie = workers.start(CORTANA_LEASE_MS=2000)
    stage = zombie.wait_for_stage()
    zombie.signal(signal.SIGSTOP)
    jobs.rows("UPDATE jobs SET payload = '{\"do\": \"succeed\"}' WHERE id = %s", job_id)
    other = workers.start()
    jobs.wait_for(job_id, "done")  # by the other, after the lease has run out
    before = jobs.get(job_id)
    wait_until(lambda: not is_running(stage) or children_are_zombies(zombie), "the stage to end")
    zombie.signal(signal.SIGCONT)
    wait_until(lambda: zombie.says("discarded"), "the zombie to drop its output")
    assert jobs.get(job_id) == before
    assert [row["attempt"] for row in jobs.results(job_id)] == [2]
    assert [a["status"] for a in jobs.attempts(job_id)] == ["crashed", "succeeded"]
    assert other.is_alive() and zombie.is_alive()
    jobs.wait_for(jobs.enqueue({"do": "succeed"}), "done")  # and both go on


def test_a_zombie_that_reports_success_leaves_the_verdict_to_the_second(jobs, workers):
    """The first is stopped past its lease and wakes with a result while the second is at work, which fails
    afterwards: that stands."""
    jobs.rows("UPDATE job_types SET retry_delays = '{1 hour,1 hour}' WHERE name = 'test_stage'")
    job_id = jobs.enqueue({"do": "work", "ms": 3000})
    child = jobs.row("SELECT job_id FROM enqueue_job('test_stage', '{}', p_depends_on => ARRAY[%s]::uuid[])", job_id)
    zombie = workers.start(CORTANA_LEASE_MS=1500)
    zombie.wait_for_stage()
    zombie.signal(signal.SIGSTOP)
    jobs.rows("UPDATE jobs SET payload = '{\"do\": \"hang\"}' WHERE id = %s", job_id)
    second = workers.start()
    stage = second.wait_for_stage()
    wait_until(lambda: children_are_zombies(zombie), "the first's stage to end with its result")
    zombie.signal(signal.SIGCONT)
    wait_until(lambda: zombie.says("discarded"), "the zombie to report")
    job = jobs.get(job_id)
    assert (job["status"], job["attempt"], is_running(stage)) == ("processing", 2, True)
    os.kill(stage, signal.SIGKILL)
    job = jobs.wait_for(job_id, "failed")
    assert job["payload"]["error"]["type"] == "StageCrashed" and job["scheduled_for"] is not None
    assert [a["error_type"] for a in jobs.attempts(job_id)] == ["LeaseLost", "StageCrashed"]
    assert jobs.results(job_id) == []
    assert jobs.get(child["job_id"])["attempt"] == 0, "nothing begins behind a job that is not done"


def children_are_zombies(worker):
    return worker.stages() == []


# ---- the clock ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("offset", ["-300", "+300"], ids=["five minutes slow", "five minutes fast"])
def test_a_wrong_clock_changes_nothing(jobs, workers, program, offset):
    library = find_faketime()
    if not library:
        pytest.skip("needs the Debian package faketime")
    if b"__asan_init" in program("test-stage").read_bytes():
        pytest.skip("AddressSanitizer must be the first library that is loaded")
    ids = [jobs.enqueue({"do": "work", "ms": 300}) for _ in range(6)]
    wrong = workers.start(LD_PRELOAD=library, FAKETIME=f"{offset}s", CORTANA_LEASE_MS=5000)
    workers.start(CORTANA_LEASE_MS=5000)
    for job_id in ids:
        jobs.wait_for(job_id, "done")
        assert [a["status"] for a in jobs.attempts(job_id)] == ["succeeded"]
        assert len(jobs.results(job_id)) == 1
    wait_until(lambda: wrong.says("done in"), "the worker with the wrong clock to do its part")
    real = jobs.row("SELECT abs(extract(epoch FROM now() - %s::timestamptz)) AS off", wrong.log()[0]["ts"])["off"]
    assert real > 200, "the clock was not wrong"
    assert jobs.rows("""SELECT FROM jobs WHERE finished_at NOT BETWEEN created_at AND now()
                        OR started_at NOT BETWEEN created_at AND now()""") == []


# ---- the disk is full ----------------------------------------------------------------------------------


@contextlib.contextmanager
def mounted(path, *arguments):
    """Something mounted at the path; skips where mounting is not allowed."""
    path.mkdir(exist_ok=True)
    if subprocess.run(["mount", *arguments, path], check=False, capture_output=True).returncode != 0:
        pytest.skip("needs the right to mount")
    try:
        yield
    finally:
        subprocess.run(["umount", "--lazy", path], check=True)


def small_disk(path, size):
    """A file system of a few bytes."""
    return mounted(path, "-t", "tmpfs", "-o", f"size={size}", "small")


@pytest.mark.parametrize("disk, large, small", [
    ("scratch", {"do": "fill"}, {"do": "fill", "bytes": 1 << 20}),
    ("store", {"do": "fill", "bytes": 4 << 20, "key": "big"}, {"do": "put", "key": "small", "text": "t"})], ids=["scratch", "store"])
def test_a_full_disk_fails_the_job_not_the_worker_and_shows_nothing(jobs, workers, disk, large, small):
    jobs.rows("UPDATE job_types SET retry_delays = '{1 hour}' WHERE name = 'test_stage'")
    with small_disk(getattr(workers, disk), "2m"):
        worker = workers.start()
        job = jobs.wait_for(jobs.enqueue(large), "failed", "done")
        assert job["payload"]["error"]["type"] == "DiskFull"
        assert job["scheduled_for"] is not None
        wait_until(lambda: workers.files() == set(), "nothing to be left, of a probe either")
        jobs.wait_for(jobs.enqueue(small), "done")  # there is room again
        assert worker.stop() == 0
        assert workers.scratch_entries() == []


def test_a_machine_that_cannot_start_a_stage_gives_the_job_back(jobs, workers, tmp_path):
    with small_disk(workers.scratch, "1m,nr_inodes=2"):  # the mount's root and the worker's own
        job_id = jobs.enqueue({"do": "succeed"})
        worker = workers.start()
        wait_until(lambda: worker.says("released"), "the job to be given back")
        job = jobs.get(job_id)
        assert (job["status"], job["retry_count"]) == ("queued", 0)
        assert [a["error_type"] for a in jobs.attempts(job_id)] == ["Released"]
        healthy = tmp_path / "healthy"
        healthy.mkdir()
        workers.start(CORTANA_SCRATCH=healthy)
        jobs.wait_for(job_id, "done")
        assert worker.stop() == 0


def fill_disk(path):
    with contextlib.suppress(OSError), open(path, "wb", buffering=0) as file:
        while file.write(bytes(1 << 16)):
            pass


def test_only_what_was_written_shows_that_the_database_has_room(jobs, workers):
    jobs.rows("CREATE OR REPLACE FUNCTION test_commit(uuid, int, jsonb) RETURNS void LANGUAGE plpgsql AS 'BEGIN RAISE disk_full; END'")
    job_id = jobs.enqueue({"do": "succeed"})
    worker = workers.start("test-stage", "--listen", "127.0.0.1:0")
    wait_until(lambda: worker.says("work waits for room on the disk of the database"), "the worker to tell of it")
    jobs.rows("UPDATE jobs SET status = 'canceled' WHERE id = %s", job_id)
    wait_until(lambda: worker.says("is discarded"), "the worker to let go of the job")
    looks, statement = set(), "SELECT query_start FROM pg_stat_activity WHERE application_name = 'test-stage' AND query LIKE '%%claim_jobs%%'"
    wait_until(lambda: looks.update(row["query_start"] for row in jobs.rows(statement)) or len(looks) > 2, "looks for other jobs")
    wait_reason(port_of(worker), "the disk of the database is full")
    assert not worker.says("has room again")


def test_a_result_waits_for_room_in_the_database(cluster, program, tmp_path):
    name, place = "small", cluster.directory / "small"
    with small_disk(place, f"256m,uid={cluster.directory.stat().st_uid}"):
        for statement in (f"CREATE TABLESPACE {name} LOCATION '{place}'",
                          f"CREATE DATABASE {name} TEMPLATE {TEMPLATE} TABLESPACE {name} STRATEGY FILE_COPY"):
            run_sql(cluster, statement)
        run_sql(cluster, "SELECT cortana.secure_database()", name)
        jobs, workers = Jobs(connect(cluster, name)), Workers(program, cluster.url(name), tmp_path)

        def says_doctor():
            return subprocess.run([program("cortana"), "doctor"], env=workers.environment(), text=True, capture_output=True, check=False).stdout

        try:
            jobs.rows(STAGE_SCHEMA)
            assert "has room for temporary files" in says_doctor()
            run_sql(cluster, f"ALTER DATABASE {name} SET temp_file_limit = '1MB'")
            assert "whether its disk has room is not known" in says_doctor()
            run_sql(cluster, f"ALTER DATABASE {name} RESET temp_file_limit")
            job_id = jobs.enqueue({"do": "await", "key": "full"})
            worker = workers.start(LOG_LEVEL="debug")
            worker.wait_for_stage()
            fill_disk(place / "ballast")
            (workers.store / "full").touch()
            wait_until(lambda: worker.says("work waits for room on the disk of the database"), "the worker to tell of it")
            assert "the disk is full: make room there" in says_doctor()
            wait_until(lambda: len(worker.says("cannot settle the job yet")) > 5, "more tries than other troubles of a database get")
            (place / "ballast").unlink()
            jobs.wait_for(job_id, "done", "failed")
            assert [a["status"] for a in jobs.attempts(job_id)] == ["succeeded"] and len(jobs.results(job_id)) == 1
            wait_until(lambda: worker.says("has room again"), "the worker to tell of that")
        finally:
            workers.end()
            jobs.connection.close()
            run_sql(cluster, f"DROP DATABASE {name} WITH (FORCE)")
            run_sql(cluster, f"DROP TABLESPACE {name}")
