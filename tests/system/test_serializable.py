"""Callers that work in SERIALIZABLE or REPEATABLE READ: what the queue cannot order is refused as a whole
and may be tried again; nothing is done twice, nothing is lost."""

import contextlib
import random
import threading

import psycopg2
import pytest
from invariants import violations
from jobs import Queue
from psycopg2.extensions import TransactionRollbackError
from test_faults import FAST_RETRIES
from workers import STAGE_SCHEMA, Jobs, Workers, wait_until

LEVELS = ["SERIALIZABLE", "REPEATABLE READ"]


@contextlib.contextmanager
def isolated(database, level):
    with contextlib.closing(psycopg2.connect(database, options="-c statement_timeout=300s")) as link:
        link.set_session(isolation_level=level)
        yield link, Queue(link)


@pytest.mark.parametrize("level", LEVELS)
def test_a_job_that_was_claimed_since_is_not_claimed_again(queue, database, level):
    job_id = queue.add()
    with isolated(database, level) as (link, late):
        assert late.value("SELECT count(*) FROM jobs") == 1  # what it sees from here on
        taken = queue.claim_one()
        with contextlib.suppress(TransactionRollbackError):
            assert late.claim() == []
        link.rollback()
        assert late.claim() == []
    assert queue.call("complete_job", taken) is True
    assert len(queue.attempts(job_id)) == 1
    assert violations(Jobs(queue.connection)) == {}


@pytest.mark.parametrize("settle", [["complete_job"], ["fail_job", "Timeout", "late", True], ["release_job", "late"]],
                         ids=lambda each: each[0])
def test_a_lease_that_was_lost_since_settles_nothing(queue, database, settle):
    job_id = queue.add()
    with isolated(database, "SERIALIZABLE") as (link, late):
        mine = late.claim_one()
        link.commit()
        assert late.status(job_id) == "processing"  # what it sees from here on
        queue.expire(job_id)
        theirs = queue.claim_one(worker="other")
        with pytest.raises(TransactionRollbackError):
            late.call(settle[0], mine, *settle[1:])
        link.rollback()
        assert late.call(settle[0], mine, *settle[1:]) in (False, "lost")
    assert queue.call("complete_job", theirs) is True
    assert violations(Jobs(queue.connection)) == {}


class Caller(threading.Thread):
    """Enqueues, claims and settles in transactions with rows of its own; what is refused is tried again."""

    def __init__(self, database, level, number):
        super().__init__()
        self.place = database, level
        self.name = f"caller {number}"
        self.dice = random.Random(number)
        self.refused = 0
        self.error = None

    def add(self, own):
        parent = own.run("SELECT id FROM jobs ORDER BY created_at DESC, id LIMIT 1")
        job = own.add(depends_on=[row["id"] for row in parent] if self.dice.random() < 0.3 else None,
                      tenant_id=f"00000000-0000-0000-0000-00000000000{self.dice.randrange(3)}")
        own.run("INSERT INTO added VALUES (%s)", job)

    def work(self, own):
        """Claims in a transaction, settles in another with the result; true when there was something."""
        jobs = self.carry_out(lambda: own.claim(limit=2, worker=self.name))

        def settle(job):
            if own.call("complete_job", job) is True:
                own.run("INSERT INTO results VALUES (%s)", job["id"])

        for job in jobs:
            self.carry_out(lambda each=job: settle(each))
        return bool(jobs)

    def carry_out(self, what):
        while True:
            try:
                result = what()
                self.link.commit()
                return result
            except TransactionRollbackError:
                self.link.rollback()
                self.refused += 1

    def run(self):
        try:
            with isolated(*self.place) as (self.link, own):
                for _ in range(15):
                    self.carry_out(lambda: self.add(own))
                    self.work(own)
                while self.carry_out(lambda: own.value("SELECT count(*) FROM jobs WHERE status <> 'done'")):
                    self.work(own)
        except BaseException as error:  # for the test to see
            self.error = error


@pytest.mark.parametrize("level", LEVELS)
def test_callers_at_once_lose_and_double_nothing(queue, database, level):
    queue.run("CREATE TABLE added (id uuid); CREATE TABLE results (id uuid)")
    callers = [Caller(database, level, number) for number in range(4)]
    for caller in callers:
        caller.start()
    for caller in callers:
        caller.join(300)
    assert [caller.error for caller in callers] == [None] * 4
    print("refused and tried again:", [caller.refused for caller in callers])
    jobs = {row["id"] for row in queue.run("SELECT id FROM jobs WHERE status = 'done'")}
    for table in ("added", "results"):
        rows = [row["id"] for row in queue.run(f"SELECT id FROM {table}")]
        assert len(rows) == len(callers) * 15 and set(rows) == jobs, table
    assert violations(Jobs(queue.connection)) == {}


def test_workers_where_serializable_is_the_default(sql, database, program, tmp_path):
    jobs = Jobs(sql)
    jobs.rows(STAGE_SCHEMA)
    jobs.rows(FAST_RETRIES)
    name = jobs.row("SELECT current_database() AS name")["name"]
    jobs.rows(f"ALTER DATABASE {name} SET default_transaction_isolation = 'serializable'")
    workers = Workers(program, database, tmp_path)
    try:
        pair = [workers.start("test-stage", "--slots", 3) for _ in range(2)]
        ids = [jobs.enqueue({"do": "work", "ms": 50}) for _ in range(60)]
        wait_until(lambda: jobs.row("SELECT count(*) AS n FROM jobs WHERE status = 'done'")["n"] == len(ids), "the jobs")
        assert all(worker.stop() == 0 for worker in pair)
    finally:
        workers.end()
    assert {job["job_id"] for job in jobs.rows("SELECT job_id FROM test_results")} == set(
        row["id"] for row in jobs.rows("SELECT id FROM jobs"))
    assert jobs.row("SELECT count(*) AS n FROM test_results")["n"] == len(ids)
    assert violations(jobs) == {}
