"""The state machine of jobs, which the database itself defends: raw SQL against every transition."""

import psycopg2
import pytest

STATES = ("queued", "processing", "done", "failed", "canceled")
ALLOWED = {
    ("queued", "processing"), ("queued", "canceled"),
    ("processing", "done"), ("processing", "failed"), ("processing", "canceled"),
    ("processing", "queued"),
    ("failed", "queued"), ("failed", "canceled"),
    ("canceled", "queued"),
}
WAY = {
    "queued": [], "processing": ["processing"], "done": ["processing", "done"],
    "failed": ["processing", "failed"], "canceled": ["canceled"],
}


def set_status(queue, job_id, status):
    queue.run("UPDATE jobs SET status = %s::job_status WHERE id = %s", status, job_id)


def job_in(queue, state):
    job_id = queue.add(payload={"a": 1})
    for step in WAY[state]:
        set_status(queue, job_id, step)
    return job_id


@pytest.mark.parametrize("before", STATES)
@pytest.mark.parametrize("after", STATES)
def test_every_transition(queue, before, after):
    if before == after:
        return
    job_id = job_in(queue, before)
    if (before, after) in ALLOWED:
        set_status(queue, job_id, after)
        assert queue.status(job_id) == after
        return
    with pytest.raises(psycopg2.errors.CheckViolation, match=f"status may not change from {before} to {after}"):
        set_status(queue, job_id, after)
    assert queue.status(job_id) == before


def test_failed_stays_failed_without_retries(queue):
    job_id = job_in(queue, "failed")
    queue.run("UPDATE jobs SET retry_count = max_retries WHERE id = %s", job_id)
    with pytest.raises(psycopg2.errors.CheckViolation, match="all retries are used"):
        set_status(queue, job_id, "queued")


def test_status_by_hand_keeps_the_payload_shape(queue):
    job_id = job_in(queue, "failed")
    payload = queue.job(job_id)["payload"]
    given = payload["original_payload"]
    assert given["a"] == 1
    assert set(payload["error"]) == {"type", "message", "timestamp", "retry_count"}
    set_status(queue, job_id, "queued")
    job = queue.job(job_id)
    assert job["payload"] == given and job["retry_count"] == 1 and job["is_ready"]


def test_times_and_lease_follow_the_status(queue):
    job_id = queue.add()
    assert queue.job(job_id)["started_at"] is None
    claimed = queue.claim_one()
    assert claimed["locked_by"] == "worker" and claimed["started_at"] and not claimed["finished_at"]
    queue.call("complete_job", claimed, '{"n": 1}')
    job = queue.job(job_id)
    assert job["status"] == "done" and job["result"] == {"n": 1} and job["progress"] == 1
    assert job["finished_at"] >= job["started_at"]
    assert job["locked_by"] is None and job["locked_until"] is None


def test_literal_job_type_is_valid_sql(queue):
    assert queue.value("SELECT 'transcode'::job_type") == "transcode"
    with pytest.raises(psycopg2.errors.ForeignKeyViolation):
        queue.run("INSERT INTO jobs (job_type) VALUES ('unheard_of')")
    with pytest.raises(psycopg2.errors.ForeignKeyViolation, match="not registered"):
        queue.add("unheard_of")
    queue.run("INSERT INTO job_types (name, description) VALUES ('subtitle', 'subtitles')")
    assert queue.status(queue.add("subtitle")) == "queued"
