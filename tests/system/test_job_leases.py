"""Leases: renewal, expiry as a counted attempt, fencing of zombies, cancel, release."""

import pytest
from jobs import needed_by

PAYLOAD = needed_by("transcode", False) | {"a": 1}


def test_renewal_and_progress(queue):
    job_id = queue.add()
    job = queue.claim_one(lease="10 seconds")
    assert queue.call("renew_lease", job, "1 hour") == "ok"
    left = queue.value("SELECT extract(epoch FROM locked_until - now()) FROM jobs WHERE id = %s",
                       job_id)
    assert 3590 < left <= 3601
    assert queue.call("report_progress", job, 0.25, "encode") == "ok"
    row = queue.job(job_id)
    assert row["progress"] == pytest.approx(0.25) and row["progress_message"] == "encode"


def test_expired_lease_is_a_counted_attempt_and_ends_in_failed(queue):
    job_id = queue.add(payload={"a": 1})
    tokens = []
    for attempt in range(1, 5):
        (job,) = queue.claim(worker=f"worker-{attempt}")
        assert job["attempt"] == attempt and job["payload"] == PAYLOAD
        tokens.append(job["lease_token"])
        queue.expire(job_id)
    assert queue.claim() == []
    assert tokens == sorted(set(tokens))
    job = queue.job(job_id)
    assert job["status"] == "failed" and job["scheduled_for"] is None
    assert job["payload"]["error"]["type"] == "LeaseLost"
    assert "worker-4" in job["payload"]["error"]["message"]
    assert job["payload"]["original_payload"] == PAYLOAD
    assert [a["status"] for a in queue.attempts(job_id)] == ["crashed"] * 4


ZOMBIE_CALLS = [
    ("renew_lease", ["5 minutes"], "lost"),
    ("report_progress", [0.9, "zombie"], "lost"),
    ("fence_job", [], False),
    ("complete_job", ['{"zombie": true}', None], False),
    ("fail_job", ["Timeout", "zombie", True, None], "lost"),
    ("fail_job", ["InvalidPayload", "zombie", False, None], "lost"),
    ("release_job", ["zombie", None], False),
    ("settle_canceled_job", [None], False),
    ("record_artifacts", ["b", '[{"kind": "output", "key": "k"}]'], False),
]


@pytest.mark.parametrize("state", ["claimed again", "waiting again", "done", "failed", "canceled"])
def test_a_zombie_changes_nothing(queue, state):
    job_id = queue.add(video_id=queue.video())
    zombie = queue.claim_one(worker="zombie")
    queue.expire(job_id)
    current = queue.claim_one(worker="living")
    assert current["lease_token"] > zombie["lease_token"]
    if state == "waiting again":
        queue.call("release_job", current, "not now")
    elif state == "done":
        queue.call("complete_job", current)
    elif state == "failed":
        queue.fail(current)
    elif state == "canceled":
        queue.value("SELECT cancel_job(%s)", job_id)
        queue.call("settle_canceled_job", current)

    tokens = [zombie] if state == "claimed again" else [zombie, current]
    before = queue.snapshot()
    for job in tokens:
        for function, arguments, refusal in ZOMBIE_CALLS:
            assert queue.call(function, job, *arguments) == refusal, function
        assert queue.value("SELECT complete_jobs(ARRAY[%s]::uuid[], ARRAY[%s]::bigint[])",
                           job["id"], job["lease_token"]) == 0
    assert queue.snapshot() == before


def test_a_batch_completes_only_what_is_still_held(queue):
    for _ in range(3):
        queue.add()
    first, second, third = queue.claim(limit=3)
    queue.expire(second["id"])
    stolen = queue.claim_one()
    assert stolen["id"] == second["id"]
    assert queue.value("SELECT complete_jobs(%s::uuid[], %s::bigint[])",
                       [job["id"] for job in (first, second, third)],
                       [job["lease_token"] for job in (first, second, third)]) == 2
    assert [queue.status(job["id"]) for job in (first, second, third)] == ["done", "processing", "done"]
    assert queue.call("complete_job", stolen) is True


def test_release_gives_back_at_once_and_does_not_count(queue):
    job_id = queue.add(payload={"a": 1})
    for attempt in range(1, 7):
        job = queue.claim_one()
        assert job["attempt"] == attempt and job["retry_count"] == 0 and job["payload"] == PAYLOAD
        assert queue.call("release_job", job, "shutting down") is True
    assert queue.status(job_id) == "queued"
    assert {a["error_type"] for a in queue.attempts(job_id)} == {"Released"}


def test_cancel_of_a_waiting_job(queue):
    job_id = queue.add()
    assert queue.value("SELECT cancel_job(%s)", job_id) == "canceled"
    assert queue.status(job_id) == "canceled" and queue.claim() == []
    assert queue.value("SELECT cancel_job(%s)", job_id) == "wrong_state"
    assert queue.value("SELECT cancel_job(gen_random_uuid())") == "not_found"
    assert queue.value("SELECT retry_job(%s)", job_id) == "queued"
    assert queue.claim_one()["id"] == job_id


def test_cancel_of_a_job_that_waits_for_its_retry(queue):
    job_id = queue.add(payload={"a": 1})
    queue.fail(queue.claim_one())
    assert queue.value("SELECT cancel_job(%s)", job_id) == "canceled"
    job = queue.job(job_id)
    assert job["payload"] == PAYLOAD and job["scheduled_for"] is None


def test_cancel_of_a_running_job_is_asked_for_and_settled(queue):
    job_id = queue.add()
    job = queue.claim_one()
    queue.run("LISTEN cv_cancel")
    assert queue.value("SELECT cancel_job(%s)", job_id) == "requested"
    queue.connection.poll()
    assert [note.payload for note in queue.connection.notifies] == [str(job_id)]
    assert queue.call("renew_lease", job, "5 minutes") == "cancel"
    assert queue.call("report_progress", job, 0.5, "x") == "cancel"
    assert queue.status(job_id) == "processing"
    assert queue.call("settle_canceled_job", job, '{"exit_code": -1, "pid": 42}') is True
    assert queue.status(job_id) == "canceled"
    (attempt,) = queue.attempts(job_id)
    assert attempt["status"] == "canceled" and attempt["exit_code"] == -1 and attempt["pid"] == 42


@pytest.mark.parametrize("end", ["expired", "failed", "released"])
def test_a_job_asked_to_stop_does_not_run_again(queue, end):
    job_id = queue.add(payload={"a": 1})
    job = queue.claim_one()
    queue.value("SELECT cancel_job(%s)", job_id)
    if end == "expired":
        queue.expire(job_id)
    elif end == "failed":
        assert queue.fail(job) == "canceled"
    else:
        assert queue.call("release_job", job, "shutting down") is True
    assert queue.claim() == []
    assert queue.status(job_id) == "canceled" and queue.job(job_id)["payload"] == PAYLOAD
    assert queue.value("SELECT retry_job(%s)", job_id) == "queued"
    assert queue.call("renew_lease", queue.claim_one(), "5 minutes") == "ok"


def test_a_deleted_video_takes_its_jobs_and_their_leases(queue):
    video = queue.video()
    queue.add(video_id=video)
    job = queue.claim_one()
    queue.run("DELETE FROM videos WHERE id = %s", video)
    assert queue.call("renew_lease", job, "5 minutes") == "lost"
    assert queue.call("complete_job", job) is False
