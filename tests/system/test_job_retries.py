"""Failures: the retry table with its jitter, permanent failures, the error payload, dead letters."""

import datetime

import pytest
from jobs import WITHOUT_VIDEO

MINUTES = (1, 5, 15)
PERMANENT = ("InvalidPayload", "S3ObjectNotFound", "ConstraintViolation", "AuthenticationFailed",
             "AccessDenied", "NotAVideo")


def now(queue):
    return queue.value("SELECT clock_timestamp()")


def test_retry_times_lie_within_the_jitter(queue):
    """Many jobs at each step: all within ±20 %, and not all the same."""
    count = 40
    for _ in range(count):
        queue.add("clip_generate")
    for retry, minutes in enumerate(MINUTES):
        delays = []
        for job in queue.claim("clip_generate", limit=count):
            before = now(queue)
            assert queue.fail(job) == "retry"
            after = now(queue)
            retried = queue.job(job["id"])
            assert retried["status"] == "failed" and retried["retry_count"] == retry
            at = retried["scheduled_for"]
            assert at - before >= datetime.timedelta(minutes=minutes * 0.8)
            assert at - after <= datetime.timedelta(minutes=minutes * 1.2)
            delays.append((at - before).total_seconds())
            queue.make_retry_due(job["id"])
        assert len(delays) == count
        assert max(delays) - min(delays) > minutes * 60 * 0.1
    jobs = queue.claim("clip_generate", limit=count)
    assert {queue.fail(job) for job in jobs} == {"failed"}
    assert queue.claim("clip_generate") == []


def test_a_retry_is_not_claimed_before_its_time(queue):
    job_id = queue.add()
    queue.fail(queue.claim_one())
    assert queue.claim() == []
    assert queue.status(job_id) == "failed"
    queue.make_retry_due(job_id)
    assert queue.claim_one()["id"] == job_id


def test_error_payload_and_the_way_back(queue):
    original = {**WITHOUT_VIDEO["transcode"], "numbers": [1, 2], "text": "ü"}
    job_id = queue.add(payload=original)
    for retry in range(len(MINUTES) + 1):
        job = queue.claim_one()
        assert job["payload"] == original and job["retry_count"] == retry
        queue.call("fail_job", job, "Timeout", "it took too long", True)
        payload = queue.job(job_id)["payload"]
        assert set(payload) == {"error", "original_payload"}
        assert payload["original_payload"] == original
        error = payload["error"]
        assert set(error) == {"type", "message", "timestamp", "retry_count"}
        assert (error["type"], error["message"]) == ("Timeout", "it took too long")
        assert error["retry_count"] == retry
        assert datetime.datetime.fromisoformat(error["timestamp"]).tzinfo
        queue.make_retry_due(job_id)
    dead = queue.job(job_id)
    assert dead["status"] == "failed" and dead["scheduled_for"] is None
    assert dead["retry_count"] == len(MINUTES)
    assert [a["status"] for a in queue.attempts(job_id)] == ["timeout"] * 4


@pytest.mark.parametrize("error_type", PERMANENT)
def test_permanent_failures_are_not_retried(queue, error_type):
    job_id = queue.add()
    assert queue.fail(queue.claim_one(), error_type, retryable=False) == "failed"
    job = queue.job(job_id)
    assert job["status"] == "failed" and job["scheduled_for"] is None and job["retry_count"] == 0
    assert job["payload"]["error"]["type"] == error_type
    assert queue.claim() == []


def test_retry_by_hand_grants_a_fresh_set_and_keeps_history(queue):
    job_id = queue.add(payload={"a": 1})
    for _ in range(4):
        queue.fail(queue.claim_one())
        queue.make_retry_due(job_id)
    assert queue.claim() == []
    assert queue.value("SELECT retry_job(%s)", job_id) == "queued"
    assert queue.job(job_id)["payload"]["a"] == 1
    outcomes = []
    for _ in range(4):
        outcomes.append(queue.fail(queue.claim_one()))
        queue.make_retry_due(job_id)
    assert outcomes == ["retry", "retry", "retry", "failed"]
    assert [a["attempt"] for a in queue.attempts(job_id)] == list(range(1, 9))


def test_retry_by_hand_says_why_not(queue):
    assert queue.value("SELECT retry_job(gen_random_uuid())") == "not_found"
    waiting = queue.add()
    assert queue.value("SELECT retry_job(%s)", waiting) == "wrong_state"
    video = queue.video()
    old = queue.add("ocr", video_id=video)
    queue.fail(queue.claim_one("ocr"), "InvalidPayload", retryable=False)
    queue.add("ocr", video_id=video)
    assert queue.value("SELECT retry_job(%s)", old) == "duplicate"


def test_a_due_retry_gives_way_to_the_same_work_enqueued_anew(queue):
    video = queue.video()
    old = queue.add("ocr", video_id=video)
    queue.fail(queue.claim_one("ocr"))
    new = queue.add("ocr", video_id=video)
    queue.make_retry_due(old)
    assert [job["id"] for job in queue.claim("ocr", limit=10)] == [new]
    assert queue.job(old)["status"] == "failed" and queue.job(old)["scheduled_for"] is None


def test_a_retry_that_was_scheduled_by_hand_does_not_block_the_others(queue):
    spent = queue.add()
    queue.fail(queue.claim_one(), "InvalidPayload", retryable=False)
    queue.run("UPDATE jobs SET retry_count = max_retries, scheduled_for = now() WHERE id = %s", spent)
    other = queue.add()
    assert [job["id"] for job in queue.claim(limit=10)] == [other]
    assert queue.status(spent) == "failed"


def test_retry_table_of_a_type(queue):
    queue.run("UPDATE job_types SET retry_delays = '{10 seconds}' WHERE name = 'ocr'")
    job_id = queue.add("ocr")
    before = now(queue)
    assert queue.fail(queue.claim_one("ocr")) == "retry"
    delay = (queue.job(job_id)["scheduled_for"] - before).total_seconds()
    assert 8 <= delay <= 12.5
    queue.make_retry_due(job_id)
    assert queue.fail(queue.claim_one("ocr")) == "failed"
