"""A schedule of faults drawn from a seed: processes killed and stopped beyond their leases, servers
crashed, connections reset, silenced and held up, clocks stepped, a pooler restarted, while jobs come in,
depend on each other, fail and are canceled, schedules fall due and events happen. Afterwards the history
is read as evidence.

CORTANA_FAULT_SECONDS=7200 for the long run; CORTANA_FAULT_SEED for another one."""

import contextlib
import os
import random
import time

import psycopg2
import psycopg2.extras
import pytest
from faults import Faults
from invariants import INVARIANTS, violations
from tcp_gate import PgBouncer, TcpGate
from test_faults import FAST_RETRIES
from workers import STAGE_SCHEMA, Jobs, Workers, find_faketime, revive, stages_of, wait_until

LEASE_MS = 1500
DIAMOND = """INSERT INTO workflows (name, steps) VALUES ('diamond', '[
    {"key": "top", "job_type": "test_stage", "params": {"do": "work", "ms": 60}},
    {"key": "left", "job_type": "test_stage", "depends_on": ["top"], "params": {"do": "succeed"}},
    {"key": "right", "job_type": "test_stage", "depends_on": ["top"],
     "params": {"do": "work", "ms": 100}},
    {"key": "bottom", "job_type": "test_stage", "depends_on": ["left", "right"],
     "params": {"do": "succeed"}}]')"""
# Those that come with the system would run commands, which nobody here does.
TRIGGERS = """DELETE FROM job_triggers; INSERT INTO job_triggers (name, event, action, target, payload)
    VALUES ('paid', 'order.paid', 'job', 'test_stage',
            '{"do": "put", "key": "event/{{event.data.n}}", "text": "{{event.data.n}}"}')"""


class Load:
    """Work that comes in meanwhile. What the database has confirmed is remembered, and must be found."""

    def __init__(self, url, dice):
        self.url, self.dice = url, dice
        self.connection = None
        self.count = 0
        self.confirmed = {}  # the job's id: what it was told to do
        self.runs = []
        self.schedules = {}  # a schedule's name: the instants that had gone by when it came
        self.events = []
        self.unsure = 0

    def jobs(self):
        if self.connection is None or self.connection.closed:
            self.connection = psycopg2.connect(self.url, options="-c statement_timeout=20s")
            self.connection.autocommit = True
        return Jobs(self.connection)

    def payload(self):
        self.count += 1
        kind = self.dice.choices(["put", "work", "fail", "crash", "refuse"], [50, 30, 8, 5, 7])[0]
        return {"put": {"do": "put", "key": f"out/{self.count}", "text": str(self.count),
                        "ms": self.dice.randrange(20, 400)},
                "work": {"do": "work", "ms": self.dice.randrange(20, 1200)},
                "fail": {"do": "fail", "type": "Timeout"},
                "crash": {"do": "crash"},
                "refuse": {"do": "fail", "type": "InvalidPayload"}}[kind]

    def schedule(self, jobs):
        """Minutes of this hour that nobody has fired yet, and one or two to come; then none for a year, so
        that a long run has few to look at."""
        self.count += 1
        name = f"s{self.count}"
        catch_up = self.dice.choices(["all", "last", "none"], [6, 1, 1])[0]
        now = jobs.row("SELECT date_trunc('minute', now() AT TIME ZONE 'UTC') AS utc")["utc"]
        first = max(now.minute - self.dice.randrange(6), 0)
        last = min(now.minute + self.dice.randrange(1, 3), 59)
        instants = [now.replace(minute=minute) for minute in range(first, now.minute + 1)]
        jobs.rows("""INSERT INTO job_triggers (name, cron, catch_up, action, target, payload, next_at)
                     VALUES (%s, %s, %s, 'job', 'test_stage', %s, %s AT TIME ZONE 'UTC')""",
                  name, f"{first}-{last} {now.hour} {now.day} {now.month} *", catch_up,
                  psycopg2.extras.Json({"do": "put", "key": "cron/{{trigger.name}}/{{schedule.instant}}",
                                        "text": "{{schedule.local}}"}), instants[0])
        self.schedules[name] = instants if catch_up == "all" else []

    def emit(self, jobs):
        self.count += 1
        jobs.rows("SELECT emit_event('order.paid', %s)", psycopg2.extras.Json({"n": str(self.count)}))
        self.events.append(str(self.count))

    def add(self):
        """One step of the load; an error is an answer that may or may not have been carried out."""
        try:
            jobs = self.jobs()
            chance = self.dice.random()
            if chance > 0.9:
                self.schedule(jobs)
            elif chance > 0.85:
                self.emit(jobs)
            elif chance < 0.1:
                self.runs.append(jobs.row("SELECT run_id FROM start_run('diamond', '{}')")["run_id"])
            elif chance < 0.2 and len(self.confirmed) > 4:
                victim = self.dice.choice(list(self.confirmed))
                jobs.rows("SELECT cancel_job(%s)", victim)
            else:
                payload = self.payload()
                parents = self.dice.sample(list(self.confirmed)[-6:], 2) \
                    if chance < 0.35 and len(self.confirmed) > 6 else None
                row = jobs.row("SELECT job_id FROM enqueue_job('test_stage', %s, p_depends_on => "
                               "%s::uuid[])", psycopg2.extras.Json(payload), parents)
                self.confirmed[row["job_id"]] = payload
        except psycopg2.Error:
            self.unsure += 1
            self.hang_up()

    def hang_up(self):
        if self.connection is not None:
            self.connection.close()

    def end_what_never_succeeds(self):
        """Jobs told to fail are tried until somebody stops them; children of dead ones wait for ever."""
        self.jobs().rows("""
            SELECT cancel_job(id) FROM jobs WHERE status NOT IN ('done', 'canceled')
            AND (coalesce(payload -> 'original_payload', payload) ->> 'do' IN ('fail', 'crash')
                 OR depends_on && (SELECT array_agg(id) FROM jobs
                                   WHERE status = 'canceled'
                                      OR (status = 'failed' AND scheduled_for IS NULL)))""")

    def what_is_open(self):
        """Jobs that are not over, instants that are due, events that nobody has acted on."""
        self.end_what_never_succeeds()
        return self.jobs().row("""SELECT (SELECT count(*) FROM jobs
            WHERE status IN ('queued', 'processing')
               OR (status = 'failed' AND scheduled_for IS NOT NULL))
            + (SELECT count(*) FROM job_triggers WHERE next_at <= clock_timestamp())
            + (SELECT count(*) FROM event_outbox) AS n""")["n"]


class QueueFaults(Faults):
    """Test stages and schedulers on three ways to the database, one of them through a pooler."""

    def __init__(self, dice, cluster, gates, pooler, starters, clock):
        super().__init__(dice, cluster, gates, clock, LEASE_MS, self.processes, lambda: revive(self.workers, starters))
        self.workers = [start() for start in starters]
        self.kinds[pooler.restart] = 4

    def processes(self):
        supervisors = [worker.pid for worker in self.workers if worker.is_alive()]
        return supervisors, [pid for supervisor in supervisors for pid in stages_of(supervisor)]


@pytest.fixture
def field(cluster, program, tmp_path):
    """A crashable database with three ways to it, and workers on each."""
    name = cluster.create_database()
    with contextlib.closing(cluster.connect(name)) as link:
        for statement in (STAGE_SCHEMA, FAST_RETRIES, DIAMOND, TRIGGERS):
            link.cursor().execute(statement)
    with contextlib.ExitStack() as stack:
        pooler = PgBouncer(cluster)
        stack.callback(pooler.close)
        direct = TcpGate(cluster.directory / ".s.PGSQL.5432")
        stack.callback(direct.close)
        pooled = TcpGate(pooler.socket)
        stack.callback(pooled.close)
        workers = Workers(program, cluster.url(name), tmp_path)
        stack.callback(workers.end)
        clock = tmp_path / "clock"
        clock.write_text("+0\n")
        yield name, pooler, [direct, pooled], workers, clock


def starters_of(name, gates, workers, clock, program):
    def start(*options, **environment):
        return workers.start("test-stage", "--slots", 2, *options, CORTANA_LEASE_MS=LEASE_MS,
                             **environment)

    wrong_clock = {}
    if find_faketime() and b"__asan_init" not in program("test-stage").read_bytes():
        wrong_clock = {"LD_PRELOAD": find_faketime(), "FAKETIME_TIMESTAMP_FILE": clock,
                       "FAKETIME_NO_CACHE": "1", "FAKETIME_DONT_FAKE_MONOTONIC": "1"}

    def schedule(**environment):
        return workers.start("scheduler", **environment)

    return [lambda: start(**wrong_clock),
            lambda: start(DATABASE_URL=gates[0].url(name)),
            lambda: start("--no-listen", DATABASE_URL=gates[1].url(name)),
            lambda: schedule(**wrong_clock),
            lambda: schedule(DATABASE_URL=gates[0].url(name)),
            lambda: schedule(DATABASE_URL=gates[1].url(name))]


def check_results(load, workers):
    jobs = load.jobs()
    rows = {row["id"]: row for row in jobs.rows("SELECT * FROM jobs")}
    lost = [job_id for job_id in load.confirmed if job_id not in rows]
    assert lost == [], "the database had confirmed them"
    results = jobs.rows("SELECT job_id, array_agg(attempt) AS attempts FROM test_results GROUP BY 1")
    assert {row["job_id"]: row["attempts"] for row in results} == {
        job_id: [row["attempt"]] for job_id, row in rows.items() if row["status"] == "done"}
    for job_id, payload in load.confirmed.items():
        if rows[job_id]["status"] == "done" and payload["do"] == "put":
            assert (workers.store / payload["key"]).read_text() == payload["text"]
        assert payload["do"] not in ("fail", "crash") or rows[job_id]["status"] != "done"
        is_refused = payload.get("type") == "InvalidPayload"
        assert rows[job_id]["status"] != "failed" or is_refused, payload
    runs = jobs.rows("SELECT status, count(*) AS n FROM runs GROUP BY 1")
    assert {row["status"] for row in runs} == {"done"}, runs
    check_triggers(load, workers)


def check_triggers(load, workers):
    """What the database had confirmed has been fired, each instant and event once, and its job is done."""
    fired = load.jobs().rows("""
        SELECT t.name, f.instant AT TIME ZONE 'UTC' AS instant, j.payload, j.status
        FROM trigger_firings f JOIN job_triggers t ON t.id = f.trigger_id LEFT JOIN jobs j ON j.id = f.job_id""")
    keys = [row["payload"]["key"] for row in fired]
    assert {row["status"] for row in fired} == {"done"} and len(keys) == len(set(keys))
    assert all((workers.store / key).is_file() for key in keys)
    assert {f"event/{n}" for n in load.events} <= set(keys)
    missed = {(name, instant) for name, instants in load.schedules.items() for instant in instants}
    missed -= {(row["name"], row["instant"]) for row in fired}
    assert not missed


@pytest.mark.sanitized(0)
def test_no_fault_breaks_the_history(cluster, field, program):
    name, pooler, gates, workers, clock = field
    seconds = float(os.environ.get("CORTANA_FAULT_SECONDS", "25"))
    seed = int(os.environ.get("CORTANA_FAULT_SEED", "20261121"))
    dice = random.Random(seed)
    load = Load(cluster.url(name), dice)
    faults = QueueFaults(dice, cluster, gates, pooler,
                         starters_of(name, gates, workers, clock, program), clock)
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        for _ in range(dice.randrange(4)):
            load.add()
        faults.one()
        time.sleep(dice.uniform(0, 0.4))  # the random instant itself

    def is_over():
        faults.go_on(everybody=True)
        return load.what_is_open() == 0

    story = f"seed {seed}, {dict(faults.done)}, {len(load.confirmed)} jobs, " \
        f"{len(load.schedules)} schedules, {len(load.events)} events, {load.unsure} unsure"
    print(story)
    load.hang_up()
    wait_until(is_over, f"the last jobs ({story})")
    for worker in faults.workers:
        worker.stop()
    assert violations(load.jobs()) == {}, story
    check_results(load, workers)
    attempts = load.jobs().rows("SELECT status, count(*) AS n FROM job_attempts GROUP BY 1")
    counts = {row["status"]: row["n"] for row in attempts}
    assert counts["succeeded"] > 0 and counts["crashed"] > 0, (story, counts)


# Each invariant, and an edit of the history that it must see.
FORGERIES = {
    "a job's timeline is a legal path, without gaps":
        "DELETE FROM task_events WHERE job_id = %(job)s AND data ->> 'to' = 'processing'",
    "a job is what its timeline says last":
        "DELETE FROM task_events WHERE job_id = %(job)s AND data ->> 'to' = 'done'",
    "fencing tokens only grow":
        "UPDATE ended_attempts SET lease_token = 0 WHERE job_id = %(job)s AND attempt = 2",
    "a token is given out once":
        "UPDATE ended_attempts SET lease_token = 9 WHERE job_id = %(job)s",
    "one lease at a time":
        "UPDATE ended_attempts SET started_at = '2020-01-01' WHERE job_id = %(job)s AND attempt = 2",
    "every start and every settle carries the token of its attempt":
        """UPDATE task_events SET data = data || '{"lease_token": 1}'
           WHERE job_id = %(job)s AND data ->> 'to' = 'done'""",
    "a done job has one attempt that succeeded, its last":
        "UPDATE ended_attempts SET status = 'succeeded' WHERE job_id = %(job)s",
    "what has ended holds no lease, what runs holds one":
        "UPDATE jobs SET locked_by = 'nobody' WHERE id = %(job)s",
    "no attempt is missing from the history":
        "DELETE FROM ended_attempts WHERE job_id = %(job)s AND attempt = 1",
    "no child before its parents":
        "UPDATE ended_attempts SET started_at = '2020-01-01' WHERE job_id = %(child)s",
    "retries that count are those of attempts that failed":
        "UPDATE jobs SET retry_count = 2 WHERE id = %(job)s",
    "each instant and each event is enqueued once":
        """INSERT INTO task_events (job_id, source, type, message, data)
           VALUES (%(child)s, 'scheduler', 'status', 'queued', '{"to": "queued"}')""",
    "what a trigger fired is there":
        "DELETE FROM jobs WHERE payload ->> 'n' = 'cron'",
    "no instant is left out":
        """DELETE FROM trigger_firings WHERE instant = (
               SELECT max(instant) - interval '1 minute' FROM trigger_firings)""",
}


@pytest.mark.parametrize("name", INVARIANTS)
def test_an_invariant_sees_what_breaks_it(queue, sql, name):
    queue.run("UPDATE job_types SET retry_delays = '{0 s,0 s,0 s}' WHERE name = 'transcode'")
    queue.run("INSERT INTO job_types (name, description) VALUES ('ticked', 'by the schedule')")
    job = queue.add()
    child = queue.add(depends_on=[job])
    queue.fail(queue.claim_one())
    queue.make_retry_due(job)
    for _ in range(2):
        assert queue.call("complete_job", queue.claim_one()) is True
    queue.run("INSERT INTO job_triggers (name, cron, catch_up, action, target, payload, next_at) VALUES ("
              "'s', '* * * * *', 'all', 'job', 'ticked', '{\"n\": \"cron\"}', now() - interval '3 minutes')")
    assert queue.value("SELECT fired FROM scheduler_tick()") >= 3
    assert violations(Jobs(sql)) == {}
    queue.run("SET session_replication_role = replica")  # the rules of the database would refuse it
    with sql.cursor() as cursor:
        cursor.execute(FORGERIES[name], {"job": job, "child": child})
        assert cursor.rowcount > 0
    assert name in violations(Jobs(sql))
