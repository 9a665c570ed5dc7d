"""What stands in docs/examples works."""

import os
import pathlib
import subprocess
import sys

import psycopg2
import pytest
from workers import Jobs, wait_until

EXAMPLES = pathlib.Path(__file__).resolve().parents[2] / "docs" / "examples"


@pytest.fixture
def jobs(sql):
    sql.cursor().execute("INSERT INTO job_types (name, description) VALUES ('reverse', 'Texts, backwards')")
    return Jobs(sql)


@pytest.fixture
def worker(jobs, database):
    environment = {**os.environ, "DATABASE_URL": database, "RENEW_S": "0.2"}
    with subprocess.Popen([sys.executable, EXAMPLES / "worker.py"], env=environment) as process:
        yield process
        process.kill()


def test_a_worker_in_plain_sql(jobs, worker, sql):
    good = jobs.enqueue({"text": "abc"}, "reverse")
    wrong = jobs.enqueue({"words": "abc"}, "reverse")
    broken = jobs.enqueue({"text": 7}, "reverse")
    assert jobs.wait_for(good, "done")["result"] == {"text": "cba"}
    assert jobs.wait_for(wrong, "failed")["scheduled_for"] is None
    assert jobs.wait_for(broken, "failed")["scheduled_for"] is not None
    assert [attempt["error_type"] for attempt in jobs.attempts(broken)] == ["ServerError"]

    slow = jobs.enqueue({"text": "abc", "seconds": 30}, "reverse")
    leased_until = jobs.wait_for(slow, "processing")["locked_until"]
    wait_until(lambda: jobs.get(slow)["locked_until"] > leased_until, "the lease to be renewed")
    sql.cursor().execute("SELECT cancel_job(%s)", (slow,))
    assert worker.wait(timeout=20) == 1


def test_a_job_that_was_lost_is_not_settled(jobs, sql, monkeypatch):
    monkeypatch.syspath_prepend(EXAMPLES)
    import worker as example
    job_id = jobs.enqueue({"text": "abc"}, "reverse")
    connection = psycopg2.connect(sql.dsn)
    claim = "SELECT id, lease_token, payload FROM claim_jobs('one', 'reverse', 1, '1 millisecond')"
    first = example.ask(connection, claim)
    second = wait_until(lambda: jobs.rows("SELECT rescue_expired_jobs('reverse')") and example.ask(
        connection, claim.replace("one", "two").replace("1 millisecond", "5 minutes")), "a second claim")
    monkeypatch.setenv("DATABASE_URL", sql.dsn)
    example.run(connection, *first)
    assert jobs.get(job_id)["status"] == "processing"
    example.run(connection, *second)
    assert jobs.get(job_id)["status"] == "done"
    connection.close()
