"""Many at once: fifty workers that connect in the same instant, to a database that has room for a few of
them, through a pooler, and after a restart; twenty processes that migrate."""

import contextlib
import re

import pytest
from tcp_gate import PgBouncer
from test_faults import FAST_RETRIES
from workers import STAGE_SCHEMA, Jobs, Workers, wait_until

CROWD = 50
LEASE_MS = 4000  # fifty processes start in it
PATIENCE_S = 1  # for so long a worker that has one connection waits for the second, at least


@pytest.fixture
def crowd(cluster, program, tmp_path):
    """(name, jobs(), start(arguments, count) of fifty workers, resize(link, connections)) on a cluster of the
    test's own. Resizing ends the link that it is given: nobody gets in while the crowd takes every place."""
    name = cluster.create_database()
    started = Workers(program, cluster.url(name), tmp_path)

    def connect():
        return Jobs(cluster.connect(name))

    def resize(link, connections):
        with contextlib.closing(link):
            for setting in (f"max_connections = {connections}", "superuser_reserved_connections = 0",
                            "log_disconnections = on", "log_line_prefix = '%a '"):
                link.cursor().execute(f"ALTER SYSTEM SET {setting}")
            cluster.restart()

    def start(*arguments, count=CROWD, **environment):
        return [started.start("test-stage", *arguments, CORTANA_LEASE_MS=LEASE_MS, **environment)
                for _ in range(count)]

    with contextlib.closing(connect().connection) as link:
        link.cursor().execute(STAGE_SCHEMA)
        link.cursor().execute(FAST_RETRIES)
    yield name, connect, start, resize
    started.end()


def held(jobs, role):
    return {row["pid"] for row in jobs.rows("SELECT pid FROM pg_stat_activity WHERE usename = %s"
                                            " AND backend_type = 'client backend'", role)}


def registered(jobs):
    return jobs.row("SELECT count(*) AS n FROM workers WHERE state = 'running'")["n"]


def stays(cluster):
    """How long, in seconds, each connection of a worker lasted that has ended."""
    log = (cluster.directory / "log").read_text()
    return [int(hours) * 3600 + int(minutes) * 60 + float(seconds) for hours, minutes, seconds in re.findall(
        r"^test-stage .*disconnection: session time: (\d+):(\d+):([\d.]+)", log, re.M)]


def all_done(jobs, ids):
    wait_until(lambda: jobs.row("SELECT count(*) AS n FROM jobs WHERE status = 'done'")["n"] == len(ids),
               "the jobs to be done")
    assert jobs.rows("SELECT FROM job_attempts WHERE status <> 'succeeded'") == []
    assert jobs.row("SELECT count(DISTINCT job_id) AS n, count(*) AS all FROM test_results") == {
        "n": len(ids), "all": len(ids)}


def test_a_worker_with_one_connection_claims_nothing_and_keeps_none_from_others(shared_cluster, sql, program,
                                                                                tmp_path):
    """A role that may have as many connections at once as are said: each worker needs two."""
    role = f"narrow_{tmp_path.name}"
    url = sql.get_dsn_parameters()
    jobs = Jobs(sql)
    jobs.rows(STAGE_SCHEMA)
    jobs.rows(f"CREATE ROLE {role} LOGIN IN ROLE cortana_worker CONNECTION LIMIT 1")
    jobs.rows("GRANT ALL ON test_results TO PUBLIC")
    workers = Workers(program, shared_cluster.url(url["dbname"]).replace("postgres@", f"{role}@"), tmp_path)
    try:
        ids = [jobs.enqueue({"do": "work", "ms": LEASE_MS + 500})]
        pair = [workers.start(CORTANA_LEASE_MS=LEASE_MS) for _ in range(2)]
        for worker in pair:
            wait_until(lambda each=worker: each.says("waiting for the database"), "each to say what is wrong")
        seen = wait_until(lambda: held(jobs, role), "one to have the only connection")
        wait_until(lambda: not seen & held(jobs, role), "it to give way")
        assert all("too many connections for role" in line["message"] for worker in pair
                   for line in worker.says("waiting for the database"))
        assert jobs.get(ids[0])["status"] == "queued"
        jobs.rows(f"ALTER ROLE {role} CONNECTION LIMIT 2")  # room for one of them, if the other gives way
        all_done(jobs, ids)
        jobs.rows(f"ALTER ROLE {role} CONNECTION LIMIT 4")
        wait_until(lambda: registered(jobs) == 2, "the other to come in")
        assert all(worker.stop() == 0 for worker in pair)
    finally:
        workers.end()
        jobs.rows(f"DROP OWNED BY {role}")
        jobs.rows(f"DROP ROLE {role}")


def test_a_worker_waits_for_its_second_connection_each_time_it_has_the_first(cluster, crowd):
    """One that gave the first back as soon as it returned would not come in when there is room for both."""
    _, connect, start, resize = crowd
    resize(connect().connection, 2)
    with contextlib.closing(connect().connection):  # leaves one to the worker
        start(count=1)
        wait_until(lambda: len(stays(cluster)) >= 3, "it to give way three times")
    assert min(stays(cluster)) >= PATIENCE_S


def test_fifty_workers_and_too_few_connections(crowd):
    """Those that get in work, each with all the connections that it needs; the others say what is wrong, and
    come in when there is room."""
    _, connect, start, resize = crowd
    resize(connect().connection, 12)
    jobs = connect()
    ids = [jobs.enqueue({"do": "work", "ms": LEASE_MS + 500}) for _ in range(8)]
    workers = start()
    wait_until(lambda: sum(bool(worker.says("too many clients")) for worker in workers) > CROWD // 2,
               "those who have no room to say so")
    all_done(jobs, ids)
    assert all(worker.is_alive() for worker in workers)
    inside = registered(jobs)
    assert 0 < inside < CROWD
    resize(jobs.connection, 200)  # everybody comes at once, those that had been in and those that had not
    jobs = connect()
    wait_until(lambda: registered(jobs) == CROWD, "all to be registered")
    ids += [jobs.enqueue({"do": "work", "ms": 100}) for _ in range(2 * CROWD)]
    all_done(jobs, ids)
    jobs.connection.close()


def test_fifty_workers_through_a_pooler(cluster, crowd):
    """PgBouncer in transaction mode has room for all of them, on ten connections to the database."""
    name, connect, start, _ = crowd
    jobs = connect()
    with contextlib.closing(PgBouncer(cluster)) as pooler:
        workers = start("--no-listen", DATABASE_URL=pooler.url(name))
        ids = [jobs.enqueue({"do": "work", "ms": 100}) for _ in range(2 * CROWD)]
        wait_until(lambda: registered(jobs) == CROWD, "all to be registered")
        all_done(jobs, ids)
        assert all(worker.is_alive() for worker in workers)
        assert len(held(jobs, "postgres")) <= 10 + 1
    jobs.connection.close()
