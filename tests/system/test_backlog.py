"""A backlog that is canceled or moved as a whole: in portions, beside the work of others, as often as one
likes. CORTANA_BACKLOG=1000000 for the size that the notes tell of."""

import contextlib
import json
import os
import signal
import subprocess

import psycopg2
import psycopg2.extras
import pytest
from jobs import Queue
from workers import wait_until

BACKLOG = int(os.environ.get("CORTANA_BACKLOG", "25000"))
PORTION = 10000
FILL = 100000
WORK = json.dumps({"job_type": "work"})
# The second portion of a change waits until the test lets it go on.
HOLD_UP = """CREATE FUNCTION hold_up() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
    IF EXISTS (SELECT FROM jobs WHERE status = 'canceled' AND xmin <> pg_current_xact_id()::xid) THEN
        PERFORM pg_advisory_xact_lock(1);
    END IF;
    RETURN NULL; END $$;
    CREATE TRIGGER hold_up BEFORE UPDATE ON jobs FOR EACH STATEMENT EXECUTE FUNCTION hold_up()"""


@pytest.fixture
def backlog(queue):
    """Jobs of `work` in all states, and a few of another type; more dead ones than a portion has."""
    queue.run("INSERT INTO job_types (name, description) VALUES ('work', 'a'), ('other', 'b')")
    queue.run("SELECT enqueue_jobs('other', array_fill('{}'::jsonb, ARRAY[5]))")
    queue.run("SELECT enqueue_jobs('work', array_fill('{}'::jsonb, ARRAY[3]), 7)")
    queue.run("""INSERT INTO jobs (job_type, status, priority, payload) SELECT 'work', 'failed', 5, '{}'
                 FROM generate_series(1, %s)""", PORTION + 1)
    for first in range(0, BACKLOG, FILL):
        queue.run("INSERT INTO jobs (job_type, priority) SELECT 'work', n %% 5 FROM generate_series(%s, %s) AS n",
                  first + 1, min(first + FILL, BACKLOG))
    queue.run("ANALYZE jobs")
    return queue


@pytest.fixture
def cortana(program, database):
    def start(*arguments):
        return subprocess.Popen([program("cortana"), *arguments], env={**os.environ, "DATABASE_URL": database},
                                stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)

    return start


def counts(queue, job_type="work"):
    return {row["status"]: row["n"] for row in queue.run(
        "SELECT status, count(*) AS n FROM jobs WHERE job_type = %s GROUP BY 1", job_type)}


def test_a_backlog_is_canceled_interrupted_and_canceled_again(backlog, database, cortana):
    queue = backlog
    running = queue.claim("work", limit=3)
    queue.run(HOLD_UP)
    with contextlib.closing(psycopg2.connect(database)) as holder:
        holder.cursor().execute("SELECT pg_advisory_lock(1)")
        first = cortana("jobs", "cancel", "--type", "work")
        wait_until(lambda: queue.value("SELECT count(*) FROM pg_stat_activity WHERE wait_event = 'advisory'"
                                       " AND datname = current_database()"), "the second portion")
        first.send_signal(signal.SIGINT)
        out, err = first.communicate(timeout=300)
    assert first.returncode not in (0, -signal.SIGINT)
    assert out == "", "standard output has results only, and there is none"
    assert f"{PORTION} jobs are canceled, or stop soon; the others are as they were\n" in err
    assert counts(queue)["canceled"] == PORTION, "the first portion stays, nothing of the second does"
    assert len(queue.claim("other")) == 1

    out, err = cortana("jobs", "cancel", "--type", "work").communicate(timeout=600)
    assert out == f"{BACKLOG - PORTION + 3} jobs are canceled, or stop soon\n", err
    assert counts(queue) == {"canceled": BACKLOG, "processing": 3, "failed": PORTION + 1}
    assert [queue.call("renew_lease", job, "5 minutes") for job in running] == ["cancel"] * 3
    assert counts(queue, "other") == {"queued": 4, "processing": 1}
    assert queue.value("SELECT count(*) FROM task_events WHERE data ->> 'to' = 'canceled'") == BACKLOG

    out, _ = cortana("jobs", "cancel", "--type", "work").communicate(timeout=300)
    assert out == "0 jobs are canceled, or stop soon\n"


def test_a_backlog_gets_another_priority(backlog, cortana):
    out, err = cortana("jobs", "priority", "3", "--type", "work").communicate(timeout=600)
    same = backlog.value("SELECT count(*) FROM generate_series(1, %s) AS n WHERE n %% 5 = 3", BACKLOG)
    assert out == f"{BACKLOG + 3 + PORTION + 1 - same} jobs have another priority now\n", err
    assert backlog.value("SELECT count(*) FROM jobs WHERE priority <> 3 AND job_type = 'work'") == 0


def test_dead_letters_are_tried_again_in_portions(queue, cortana):
    """Those whose work is under way already stay dead, and are in nobody's way."""
    queue.run("INSERT INTO job_types (name, description) VALUES ('work', 'a')")
    queue.run("""INSERT INTO jobs (job_type, status, payload, dedupe_key)
                 SELECT 'work', 'failed', '{"error": {"type": "Decode"}, "original_payload": {}}',
                        CASE WHEN n <= 1100 THEN 'same' END FROM generate_series(1, 2600) AS n""")
    queue.add("work", dedupe_key="same")
    out, err = cortana("jobs", "retry", "--error", "Decode").communicate(timeout=600)
    assert out == "1500 jobs are queued again\n", err
    assert counts(queue) == {"queued": 1501, "failed": 1100}


def test_a_portion_holds_up_no_claim_and_misses_nothing(backlog, database):
    """While one is under way, others are claimed, at the head of the queue, too; and what was just being
    claimed while it looked is found in the end."""
    queue = backlog
    with contextlib.closing(psycopg2.connect(database, options="-c lock_timeout=5s")) as link:
        canceler = Queue(link)
        head = queue.claim("work", limit=3)
        assert canceler.value("SELECT cancel_jobs(%s, 1000)", WORK) == 1000
        assert len(queue.claim("other", limit=3)) == 3
        assert len(queue.claim("work", limit=100)) == 100, "the last in the queue are canceled first"
        assert queue.call("complete_job", head[0]) is True
        link.rollback()

    with contextlib.closing(psycopg2.connect(database)) as link:
        claimer = Queue(link)
        queue.run("DELETE FROM jobs WHERE job_type = 'work' AND status <> 'queued'")
        queue.run("DELETE FROM jobs WHERE job_type = 'work' AND id NOT IN ("
                  "SELECT id FROM jobs WHERE job_type = 'work' LIMIT 20)")
        (job,) = claimer.claim("work")
        canceling = psycopg2.connect(database, async_=True)
        psycopg2.extras.wait_select(canceling)
        cursor = canceling.cursor()
        cursor.execute("SELECT cancel_jobs(%s)", (WORK,))
        psycopg2.extras.wait_select(canceling)
        assert cursor.fetchone() == (19,)
        cursor.execute("SELECT cancel_jobs(%s)", (WORK,))
        wait_until(lambda: queue.value("SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock'"
                                       " AND datname = current_database()"), "it to wait for the claim")
        link.commit()
        psycopg2.extras.wait_select(canceling)
        assert cursor.fetchone() == (1,)
        canceling.close()
    assert queue.call("renew_lease", job, "5 minutes") == "cancel"
    assert queue.value("SELECT cancel_jobs(%s)", WORK) == 0


def test_what_is_not_due_is_not_looked_at(backlog):
    """Every second a claim asks what has become due: of what is dead, put off, tried later or waits for
    others it reads nothing."""
    queue = backlog
    queue.run("UPDATE jobs SET scheduled_for = now() + interval '1 hour' WHERE job_type = 'work'"
              " AND (status = 'queued' OR id IN (SELECT id FROM jobs WHERE status = 'failed' LIMIT 2000))")
    queue.run("UPDATE jobs SET is_ready = false WHERE job_type = 'work' AND status = 'queued'")
    queue.run("UPDATE jobs SET unmet_dependencies = 1, scheduled_for = NULL WHERE id IN"
              " (SELECT id FROM jobs WHERE job_type = 'work' AND status = 'queued' LIMIT 2000)")
    queue.run("UPDATE jobs SET scheduled_for = now() WHERE id IN"
              " (SELECT id FROM jobs WHERE job_type = 'work' AND status = 'failed' AND scheduled_for IS NULL LIMIT 2)")
    queue.run("VACUUM ANALYZE jobs")
    read = "SELECT pg_stat_get_xact_blocks_fetched('jobs'::regclass)"
    queue.run("BEGIN")
    before = queue.value(read)
    promoted = queue.value("SELECT promote_due_jobs('work')")
    after = queue.value(read)
    queue.run("COMMIT")
    assert promoted == 2
    assert after - before < 50
