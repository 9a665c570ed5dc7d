"""A worker as its users see it: what becomes of a job whatever its stage process does."""

import json
import os
import re
import signal
import subprocess
import time
import uuid

import pytest
from workers import is_running, wait_until


def is_sanitized(path):
    content = path.read_bytes()
    return b"__asan_init" in content or b"__tsan_init" in content


# ---- how a stage may end -------------------------------------------------------------------------

OTHER = uuid.UUID(int=9)
FAKE_ARTIFACT = '{"artifacts": [{"kind": "output", "key": "../up", "size": 1, "content_type": ""}]}'
BOTH = '{"error": {"type": "IoError", "message": "x", "retryable": true}, "artifacts": []}'
UNKNOWN_TYPE = '{"error": {"type": "Bogus", "message": "x", "retryable": true}}'
PRETENDS_CANCELED = '{"error": {"type": "Canceled", "message": "x", "retryable": false}}'

# name: payload, error type, is it tried again, the attempt's status and exit code (-1: a signal)
FAILURES = {
    "retryable": ({"do": "fail", "type": "Throttled"}, "Throttled", True, "failed", 75),
    "permanent": ({"do": "fail", "type": "NotAVideo"}, "NotAVideo", False, "failed", 65),
    "unconfigured": ({"do": "fail", "type": "ConfigurationError"}, "ConfigurationError", True,
                     "failed", 78),
    "no such action": ({"do": "nothing"}, "InvalidPayload", False, "failed", 65),
    "missing object": ({"do": "copy", "key": "not/there"}, "S3ObjectNotFound", False, "failed", 65),
    "bad key": ({"do": "copy", "key": "../there"}, "InvalidPayload", False, "failed", 65),
    "segmentation fault": ({"do": "crash", "signal": 11}, "StageCrashed", True, "crashed", -1),
    "abort": ({"do": "crash", "signal": 6}, "StageCrashed", True, "crashed", -1),
    "killed": ({"do": "crash", "signal": 9}, "StageCrashed", True, "crashed", -1),
    "silent": ({"do": "leave"}, "StageProtocolError", True, "failed", 0),
    "garbage": ({"do": "leave", "text": "{\x01 not json"}, "StageProtocolError", True, "failed", 0),
    "no object": ({"do": "leave", "text": "[1]"}, "StageProtocolError", True, "failed", 0),
    "exit code 3": ({"do": "leave", "text": "{}", "code": 3}, "StageProtocolError", True, "failed",
                    3),
    "no artifacts": ({"do": "leave", "text": "{}"}, "StageProtocolError", True, "failed", 0),
    "liar": ({"do": "leave", "text": FAKE_ARTIFACT}, "StageProtocolError", True, "failed", 0),
    "error and success": ({"do": "leave", "text": BOTH}, "StageProtocolError", True, "failed", 0),
    "unknown error": ({"do": "leave", "text": UNKNOWN_TYPE, "code": 65}, "StageProtocolError", True,
                      "failed", 65),
    "says canceled": ({"do": "leave", "text": PRETENDS_CANCELED, "code": 65}, "StageCrashed", True,
                      "crashed", 65),
    "endless result": ({"do": "flood"}, "StageProtocolError", True, "failed", -1),
    "huge file": ({"do": "fill"}, "LimitExceeded", False, "failed", -1),
    "endless computing": ({"do": "spin"}, "Timeout", True, "timeout", -1),
}
MEMORY_FAILURES = {
    "out of memory": ({"do": "eat"}, "OutOfMemory", True, "failed", 75),
    "abort for memory": ({"do": "eat", "abort": True}, "OutOfMemory", True, "failed", -1),
}


def check_failure(jobs, job_id, expected):
    payload, error_type, is_tried_again, attempt_status, exit_code = expected
    job = jobs.wait_for(job_id, "failed", "done")
    attempts = jobs.attempts(job_id)
    assert job["status"] == "failed"
    assert job["payload"]["error"]["type"] == error_type
    assert job["payload"]["original_payload"] == payload
    assert (job["scheduled_for"] is not None) == is_tried_again
    assert [(a["status"], a["exit_code"]) for a in attempts] == [(attempt_status, exit_code)]
    assert attempts[0]["pid"] > 0
    assert attempts[0]["peak_memory_bytes"] > 0
    assert jobs.results(job_id) == []


def test_every_way_to_fail(jobs, workers, program):
    expected = dict(FAILURES)
    if not is_sanitized(program("test-stage")):  # whose shadow memory leaves no room for a bound
        expected.update(MEMORY_FAILURES)
    ids = {name: jobs.enqueue(row[0]) for name, row in expected.items()}
    worker = workers.start("test-stage", "--slots", 2)
    for name, row in expected.items():
        try:
            check_failure(jobs, ids[name], row)
        except AssertionError as reason:
            raise AssertionError(f"{name}: {reason}") from reason
    assert worker.is_alive()
    assert "last words before signal 11" in jobs.attempts(ids["segmentation fault"])[0]["stderr_tail"]
    assert jobs.attempts(ids["endless computing"])[0]["cpu_seconds"] > 1.5
    assert worker.says("last words before signal 11")[0]["job_id"] == ids["segmentation fault"]
    assert worker.stop() == 0
    assert workers.scratch_entries() == []
    assert workers.files() == set()


def test_a_failure_names_no_key_to_people(jobs, workers):
    """The log does."""
    key = "videos/original/0198c0de-0000-7000-8000-00000000000a/master.mp4"
    job_id = jobs.enqueue({"do": "fail", "type": "DecodeError", "message": f"GET s3://bucket/{key}: it is broken"})
    worker = workers.start()
    job = jobs.wait_for(job_id, "failed")
    told = "GET the original of the video: it is broken"
    assert job["payload"]["error"]["message"] == told and job["last_error"] == f"DecodeError: {told}"
    assert jobs.attempts(job_id)[0]["error_message"] == told
    assert worker.says(key)


def test_success_is_committed_once_and_whole(jobs, workers):
    job_id = jobs.enqueue({"do": "put", "key": "a/b.txt", "text": "hello", "summary": {"n": 1}})
    workers.start()
    job = jobs.wait_for(job_id, "done")
    assert job["result"] == {"n": 1}
    assert job["progress"] == 1
    assert [row["result"]["key"] for row in jobs.results(job_id)] == ["a/b.txt"]
    artifact = jobs.row("SELECT * FROM task_artifacts WHERE job_id = %s", job_id)
    assert (artifact["kind"], artifact["key"], artifact["size"]) == ("output", "a/b.txt", 5)
    (attempt,) = jobs.attempts(job_id)
    assert (attempt["status"], attempt["exit_code"]) == ("succeeded", 0)
    assert attempt["cpu_seconds"] >= 0 and attempt["peak_memory_bytes"] > 0
    assert json.loads(attempt["stdout_tail"])["key"] == "a/b.txt"
    assert (workers.store / "a/b.txt").read_text() == "hello"


def test_log_lines_say_whose_job_it_is_and_what_became_of_it(jobs, workers):
    tenant = str(uuid.uuid4())
    video = jobs.row("INSERT INTO videos (owner_id) VALUES (%s) RETURNING id", tenant)["id"]
    ends = {}
    worker = workers.start()
    for payload, end in (({"do": "succeed"}, "done"), ({"do": "fail", "type": "NotAVideo"}, "failed")):
        job_id = jobs.row("SELECT job_id FROM enqueue_job('test_stage', %s, %s)", json.dumps(payload), video)["job_id"]
        jobs.wait_for(job_id, end)
        ends[str(job_id)] = end
    assert worker.stop() == 0
    for job_id, end in ends.items():
        lines = [line for line in worker.log() if line.get("job_id") == job_id]
        assert {line["tenant_id"] for line in lines} == {tenant} and {line["video_id"] for line in lines} == {str(video)}
        assert [line["status"] for line in lines] == ["processing"] * (len(lines) - 1) + [end]
    assert not [line for line in worker.log() if "status" in line and "job_id" not in line]


def test_a_stage_cannot_speak_for_another_job(jobs, workers):
    forged = {"ts": "2026-01-01T00:00:00Z", "level": "error", "message": "forged", "worker_id": "w", "job_id": str(OTHER),
              "video_id": str(OTHER), "tenant_id": str(OTHER), "job_type": "ocr", "status": "failed", "attempt": 9}
    job_id = jobs.enqueue({"do": "chatter", "line": json.dumps(forged)})
    worker = workers.start()
    jobs.wait_for(job_id, "done")
    (line,) = worker.says("forged")
    own = worker.says("started")[0]
    assert {key: line.get(key) for key in forged} == {
        **{key: own.get(key) for key in forged}, **{key: forged[key] for key in ("ts", "level", "message")}}
    assert (line["job_id"], line["status"], line["attempt"]) == (job_id, "processing", 1)


def test_a_job_that_has_ended_leaves_its_log(jobs, workers):
    wanted = {"done": {"do": "succeed", "password": "hunter2"}, "failed": {"do": "fail", "type": "NotAVideo"},
              "queued": {"do": "fail", "type": "Throttled"}}
    ids = {status: jobs.enqueue(payload) for status, payload in wanted.items()}
    worker = workers.start(CORTANA_LOG_DAYS=30)
    for status, job_id in ids.items():
        jobs.wait_for(job_id, "failed" if status == "queued" else status)
    assert worker.stop() == 0
    for status in ("done", "failed"):
        text = (workers.store / "logs" / "pipeline" / f"{ids[status]}.json").read_text()
        log = json.loads(text)
        assert (log["job_id"], log["job_type"], log["status"]) == (str(ids[status]), "test_stage", status)
        assert [attempt["exit_code"] for attempt in log["attempts"]] == [0 if status == "done" else 65]
        assert log["events"] and "hunter2" not in text
    assert len(list((workers.store / "logs" / "pipeline").iterdir())) == 2, "the third is tried again"


def test_a_store_that_is_away_costs_no_job(jobs, workers):
    workers.store.mkdir(exist_ok=True)
    (workers.store / "logs").write_text("no folder")
    job_id = jobs.enqueue({"do": "succeed"})
    worker = workers.start(CORTANA_LOG_DAYS=30)
    jobs.wait_for(job_id, "done")
    assert worker.stop() == 0
    assert worker.says("logs of jobs are not written")


def test_large_payload_and_result_pass_through(jobs, workers):
    text = "x" * (60 << 10)
    job_id = jobs.enqueue({"do": "succeed", "text": text, "summary": {}})
    workers.start()
    jobs.wait_for(job_id, "done")
    assert jobs.results(job_id)[0]["result"]["text"] == text


def test_an_endless_log_is_cut_and_its_end_kept(jobs, workers):
    job_id = jobs.enqueue({"do": "chatter", "lines": 10500})
    worker = workers.start()
    jobs.wait_for(job_id, "done")
    shown = worker.says("chatter ")
    assert len(shown) == 10000
    assert {line["job_id"] for line in shown} == {job_id}
    assert len(worker.says("is not shown")) == 1
    assert jobs.attempts(job_id)[0]["stderr_tail"].endswith("chatter 10499\n")


def test_warnings_of_a_stage_are_events_of_its_job(jobs, workers):
    job_id = jobs.enqueue({"do": "warn", "count": 12})
    workers.start()
    jobs.wait_for(job_id, "done")
    events = jobs.rows("SELECT level, message, data FROM task_events WHERE job_id = %s AND type = 'log' ORDER BY id",
                       job_id)
    assert [(e["level"], e["message"]) for e in events] == [
        ("error" if i % 2 else "warn", f"frame {i} is broken, password=*******") for i in range(10)]
    assert {e["data"]["attempt"] for e in events} == {1}


def test_progress_is_seen_while_it_runs(jobs, workers):
    job_id = jobs.enqueue({"do": "work", "ms": 4000})
    workers.start()
    job = wait_until(lambda: next((j for j in [jobs.get(job_id)] if 0 < j["progress"] < 1), None),
                     "progress")
    assert job["status"] == "processing"
    assert job["progress_message"] == "work"


def test_slots_run_side_by_side(jobs, workers):
    ids = [jobs.enqueue({"do": "hang"}) for _ in range(3)]
    worker = workers.start("test-stage", "--slots", 2)
    wait_until(lambda: len(worker.stages()) == 2, "two stages")
    states = [jobs.get(job_id)["status"] for job_id in ids]
    assert sorted(states) == ["processing", "processing", "queued"]


def test_the_next_job_does_not_wait_for_the_next_poll(jobs, workers):
    ids = [jobs.enqueue({"do": "succeed"}) for _ in range(20)]
    workers.start("test-stage", "--poll-ms", 600000)
    for job_id in ids:
        jobs.wait_for(job_id, "done")


# ---- the scratch directory ------------------------------------------------------------------------------

LITTER = {
    "bytes": ({"files": 6, "bytes": 1 << 20}, "holds .* MiB in"),
    "files": ({"files": 300}, "in .* files"),
    "objects": ({"files": 6, "bytes": 1 << 20, "store": True}, "stores more than it may"),
    "files that have no name": ({"files": 6, "bytes": 1 << 20, "hide": True}, "holds .* MiB in"),
}


@pytest.mark.parametrize("kind", LITTER)
def test_a_stage_that_fills_scratch_is_ended(jobs, workers, kind):
    payload, words = LITTER[kind]
    job_id = jobs.enqueue({"do": "litter", **payload, "ms": 600000})
    worker = workers.start(CORTANA_SCRATCH_BYTES=4 << 20)
    job = jobs.wait_for(job_id, "failed")
    assert job["payload"]["error"]["type"] == "LimitExceeded" and job["scheduled_for"] is None
    assert re.search(words, job["payload"]["error"]["message"])
    assert worker.stop() == 0
    assert workers.scratch_entries() == []


def test_what_many_files_are_left_of_holds_nothing_up(jobs, workers):
    """They go on a thread of their own, while the next jobs run."""
    first = jobs.enqueue({"do": "litter", "files": 300})
    worker = workers.start()
    jobs.wait_for(first, "done")
    for _ in range(3):
        jobs.wait_for(jobs.enqueue({"do": "succeed"}), "done")
    own, = (entry for entry in workers.scratch.iterdir() if entry.name.startswith("cortana-scratch-"))
    wait_until(lambda: not list(own.iterdir()), "scratch to be empty")
    assert worker.stop() == 0


# ---- the transaction at the end ----------------------------------------------------------------------


def test_refused_rows_fail_the_job_for_good(jobs, workers):
    jobs.rows("""ALTER TABLE test_results ADD CHECK (result ->> 'bad' IS NULL)""")
    job_id = jobs.enqueue({"do": "put", "key": "k", "text": "t", "bad": "yes"})
    workers.start()
    job = jobs.wait_for(job_id, "failed", "done")
    assert job["payload"]["error"]["type"] == "ConstraintViolation"
    assert job["scheduled_for"] is None
    assert jobs.results(job_id) == []
    assert jobs.rows("SELECT FROM task_artifacts") == []


def test_a_conflict_repeats_the_commit_not_the_stage(jobs, workers):
    jobs.rows("""
        CREATE SEQUENCE tries;
        CREATE OR REPLACE FUNCTION test_commit(uuid, int, jsonb) RETURNS void LANGUAGE plpgsql AS $$
        BEGIN
            INSERT INTO test_results VALUES ($1, $2, $3);
            IF nextval('tries') < 3 THEN
                RAISE EXCEPTION 'as if' USING ERRCODE = 'serialization_failure';
            END IF;
        END $$""")
    job_id = jobs.enqueue({"do": "work", "ms": 20})
    workers.start()
    jobs.wait_for(job_id, "done")
    assert len(jobs.results(job_id)) == 1
    assert len(jobs.attempts(job_id)) == 1
    assert jobs.row("SELECT last_value FROM tries")["last_value"] == 3


# ---- stopping ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("action", ["work", "hang"])
def test_time_limit_ends_the_attempt(jobs, workers, action):
    jobs.rows("UPDATE job_types SET time_limit = '300 ms' WHERE name = 'test_stage'")
    job_id = jobs.enqueue({"do": action, "ms": 600000})
    worker = workers.start()
    job = jobs.wait_for(job_id, "failed", "done")
    assert job["payload"]["error"]["type"] == "Timeout"
    assert job["scheduled_for"] is not None
    (attempt,) = jobs.attempts(job_id)
    assert attempt["status"] == "timeout"
    assert not is_running(attempt["pid"])
    assert worker.is_alive()


def test_a_job_that_gets_on_is_given_more_time(jobs, workers):
    jobs.rows("UPDATE job_types SET time_limit = '1500 ms' WHERE name = 'test_stage'")
    job_id = jobs.enqueue({"do": "work", "ms": 4000})
    workers.start()
    jobs.wait_for(job_id, "failed", "done")
    (attempt,) = jobs.attempts(job_id)
    assert attempt["status"] == "succeeded"


@pytest.mark.parametrize("options", [[], ["--no-listen"]], ids=["listen", "poll"])
def test_a_running_job_is_canceled(jobs, workers, options):
    job_id = jobs.enqueue({"do": "work", "ms": 600000})
    worker = workers.start("test-stage", *options)
    stage = worker.wait_for_stage()
    jobs.wait_for(job_id, "processing")
    jobs.rows("SELECT cancel_job(%s)", job_id)
    jobs.wait_for(job_id, "canceled")
    assert not is_running(stage)
    assert [a["status"] for a in jobs.attempts(job_id)] == ["canceled"]
    assert jobs.results(job_id) == []


def test_what_anybody_may_notify_is_not_believed(jobs, workers):
    """Every login may send a notification: a worker goes and looks."""
    job_id = jobs.enqueue({"do": "work", "ms": 600000})
    worker = workers.start("test-stage", "--slots", 2)
    jobs.wait_for(job_id, "processing")
    name = jobs.row("SELECT id FROM workers WHERE state = 'running'")["id"]
    jobs.rows("SELECT pg_notify('cv_cancel', %s), pg_notify('cv_drain', %s)", job_id, name)
    jobs.wait_for(jobs.enqueue({"do": "succeed"}), "done")  # its notification came behind these
    assert jobs.get(job_id)["status"] == "processing"
    assert not worker.says("the stage is stopped") and not worker.says("claiming no more jobs")
    jobs.rows("SELECT cancel_job(%s)", job_id)
    jobs.wait_for(job_id, "canceled")
    assert jobs.row("SELECT drain_worker(%s) AS told", name)["told"]
    assert worker.wait() == 0


def test_sigterm_lets_a_job_finish_within_grace(jobs, workers):
    job_id = jobs.enqueue({"do": "work", "ms": 1000})
    worker = workers.start()
    worker.wait_for_stage()
    worker.signal(signal.SIGTERM)
    wait_until(lambda: worker.says("claiming no more jobs"), "the worker to drain")
    waiting = jobs.enqueue({"do": "work", "ms": 10})
    assert worker.wait() == 0
    assert jobs.get(job_id)["status"] == "done"
    assert jobs.get(waiting)["status"] == "queued"
    assert jobs.row("SELECT state, running FROM workers") == {"state": "stopped", "running": 0}


@pytest.mark.parametrize("action", ["work", "hang"])
def test_sigterm_gives_a_long_job_back_uncounted(jobs, workers, action):
    job_id = jobs.enqueue({"do": action, "ms": 600000})
    worker = workers.start(CORTANA_GRACE_MS=200)
    stage = worker.wait_for_stage()
    worker.signal(signal.SIGTERM)
    if action == "hang":  # which only SIGKILL ends: asked a second time, the worker does not wait
        wait_until(lambda: worker.says("claiming no more jobs"), "the worker to drain")
        worker.signal(signal.SIGTERM)
    assert worker.wait() == 0
    assert not is_running(stage)
    job = jobs.get(job_id)
    assert (job["status"], job["retry_count"], job["locked_by"]) == ("queued", 0, None)
    (attempt,) = jobs.attempts(job_id)
    assert (attempt["status"], attempt["error_type"]) == ("canceled", "Released")
    assert workers.scratch_entries() == []


def test_sigkill_of_the_supervisor_takes_the_stage_along(jobs, workers):
    job_id = jobs.enqueue({"do": "hang"})
    worker = workers.start(CORTANA_LEASE_MS=1000)
    stage = worker.wait_for_stage()
    worker.kill()
    wait_until(lambda: not is_running(stage), "the stage to die with its supervisor")
    jobs.rows("UPDATE jobs SET payload = %s WHERE id = %s", json.dumps({"do": "succeed"}), job_id)
    assert workers.scratch_entries() != []
    second = workers.start()
    jobs.wait_for(job_id, "done")
    assert [a["status"] for a in jobs.attempts(job_id)] == ["crashed", "succeeded"]
    assert second.stop() == 0
    assert workers.scratch_entries() == []


# ---- what a stage may do -------------------------------------------------------------------------------


def test_a_stage_is_shut_in(jobs, workers, tmp_path, program):
    secret = tmp_path / "secret"
    secret.write_text("s")
    outside = tmp_path / "outside"
    job_id = jobs.enqueue({"do": "probe", "outside": str(outside), "secret": str(secret)})
    workers.start("test-stage", PGPASSWORD="p", API_TOKEN="t", HOME=str(tmp_path))
    job = jobs.wait_for(job_id, "done", "failed")
    assert job["status"] == "done", job["payload"]
    assert "environment" not in job["result"], "lists are for rows"
    found = jobs.results(job_id)[0]["result"]
    assert found["database_url"] is None
    assert not {"PGPASSWORD", "API_TOKEN"} & set(found["environment"])
    # In a root of its own there is no such file, and none can be made.
    for outside_of_it in ("parent_environment", "write_outside", "read_outside"):
        assert found[outside_of_it] in ("EACCES", "ENOENT", "EROFS"), outside_of_it
    assert (found["write_scratch"], found["read_system"]) == ("worked", "worked")
    assert (found["socket_inet"], found["socket_unix"]) == ("EACCES", "EACCES")
    assert found["exec"] == "ENOSYS"
    refused = "EPERM" if is_sanitized(program("test-stage")) else "ENOSYS"  # its leak check needs both, and forks
    assert (found["kill_parent"], found["ptrace_parent"]) == (refused, refused)
    assert refused == "EPERM" or found["fork"] == "ENOSYS"
    assert found["open_files"] <= 10
    assert not outside.exists()


def test_a_stage_of_tables_has_a_database_and_no_store(jobs, workers):
    job_id = jobs.enqueue({"do": "query"}, "test_table")
    probe = jobs.enqueue({"do": "environment", "name": "STORE_URL"}, "test_table")
    workers.start("test-table-stage")
    assert jobs.wait_for(job_id, "done", "failed")["result"]["database"].startswith("test_")
    assert jobs.wait_for(probe, "done", "failed")["result"]["value"] is None


# ---- start and surroundings ------------------------------------------------------------------------------


def test_a_wrong_store_stops_the_worker_not_the_job(jobs, workers, tmp_path):
    blocker = tmp_path / "file"
    blocker.write_text("")
    job_id = jobs.enqueue({"do": "succeed"})
    for url in (None, f"dir:{blocker}/store"):
        assert workers.start("test-stage", STORE_URL=url).wait() == 78
    job = jobs.get(job_id)
    assert (job["status"], job["attempt"]) == ("queued", 0)


def test_leftovers_in_scratch_are_removed_and_links_not_followed(jobs, workers, tmp_path):
    precious = tmp_path / "precious"
    precious.mkdir()
    (precious / "file").write_text("keep")
    leftover = workers.scratch / "cortana-scratch-abc123"
    deep = leftover / "job"
    deep.mkdir(parents=True)
    (deep / "link").symlink_to(precious)
    fd = os.open(deep, os.O_RDONLY)
    for _ in range(3000):  # deeper than a path may be long
        os.mkdir("d", dir_fd=fd)
        inner = os.open("d", os.O_RDONLY, dir_fd=fd)
        os.close(fd)
        fd = inner
    os.close(fd)
    (workers.scratch / "somebody-elses").mkdir()
    worker = workers.start()
    try:
        wait_until(lambda: not leftover.exists(), "the leftover to go")
    finally:
        subprocess.run(["rm", "-rf", leftover], check=False)  # pytest itself cannot remove such a depth
    assert worker.stop() == 0
    assert workers.scratch_entries() == ["somebody-elses"]
    assert (precious / "file").read_text() == "keep"


def test_scratch_of_a_living_worker_is_left_alone(jobs, workers):
    jobs.enqueue({"do": "hang"})
    first = workers.start()
    stage = first.wait_for_stage()
    before = workers.scratch_entries()
    second = workers.start()
    wait_until(lambda: second.says("slots"), "the second worker to start")
    assert second.stop() == 0
    assert is_running(stage)
    assert workers.scratch_entries() == before


# ---- --once ------------------------------------------------------------------------------------------


def test_a_stage_that_is_run_by_hand_has_the_same_bounds(workers):
    payload, words = LITTER["bytes"]
    done = workers.once({"do": "litter", **payload, "ms": 600000}, CORTANA_SCRATCH_BYTES=4 << 20)
    error = json.loads(done.stdout)["error"]
    assert (done.returncode, error["type"]) == (65, "LimitExceeded") and re.search(words, error["message"]), done
    assert workers.scratch_entries() == []


def test_once_needs_no_queue(workers):
    done = workers.once({"do": "put", "key": "k.txt", "text": "hi"}, DATABASE_URL=None)
    assert done.returncode == 0, done.stderr
    result = json.loads(done.stdout)
    assert [(a["kind"], a["key"], a["size"]) for a in result["artifacts"]] == [("output", "k.txt", 2)]
    assert (workers.store / "k.txt").read_text() == "hi"
    assert workers.scratch_entries() == []


@pytest.mark.parametrize("payload, code, error_type", [
    ({"do": "fail", "type": "Throttled"}, 75, "Throttled"),
    ({"do": "fail", "type": "NotAVideo"}, 65, "NotAVideo"),
    ({"do": "fail", "type": "ConfigurationError"}, 78, "ConfigurationError"),
    ("not json", 65, "InvalidPayload"),
    ("", 65, "InvalidPayload"),
    ("[]", 65, "InvalidPayload"),
])
def test_once_says_its_verdict(workers, payload, code, error_type):
    done = workers.once(payload)
    assert done.returncode == code
    error = json.loads(done.stdout)["error"]
    assert error["type"] == error_type
    assert error["retryable"] == (code == 75)
    assert json.loads(done.stderr)["error_type"] == error_type
    assert workers.scratch_entries() == []


def test_once_reports_progress_only_where_it_is_asked_to(workers):
    reader, writer = os.pipe()
    command = [workers.find_program("test-stage"), "--once", "--progress-fd", str(writer)]
    began = time.monotonic()
    process = subprocess.Popen(command, pass_fds=[writer], env=workers.environment(), text=True,
                               stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    os.close(writer)
    output, _ = process.communicate(json.dumps({"do": "work", "ms": 1000}))
    with os.fdopen(reader) as progress:
        reports = [json.loads(line) for line in progress]
    assert json.loads(output)["do"] == "work"
    assert [r["doing"] for r in reports] == ["work"] * len(reports)
    fractions = [r["fraction"] for r in reports]
    assert fractions == sorted(fractions)
    assert 2 <= len(reports) <= 3 + 5 * (time.monotonic() - began)  # 20 calls, of which five a second are written


def test_once_leaves_the_objects_of_an_installation_alone(workers, jobs):
    """Rows of a video refer to bytes of its objects: a stage by hand would write others in their place."""
    video = jobs.row("INSERT INTO videos DEFAULT VALUES RETURNING id")["id"]
    payload = {"do": "put", "key": "k.txt", "text": "hi", "video_id": str(video)}
    refused = workers.once(payload)
    assert refused.returncode == 78 and "say --overwrite" in json.loads(refused.stdout)["error"]["message"]
    assert workers.files() == set()
    away = workers.once(payload, DATABASE_URL="postgresql:///nothing?host=/nowhere")
    assert away.returncode == 78 and "cannot see whether" in json.loads(away.stdout)["error"]["message"]
    assert workers.files() == set()
    for arguments, environment in ((["--overwrite"], {}), ([], {"DATABASE_URL": None})):
        assert workers.once(payload, *arguments, **environment).returncode == 0
    assert workers.once({**payload, "video_id": str(uuid.uuid4())}).returncode == 0


def test_once_keeps_openmp_to_one_thread(workers):
    done = workers.once({"do": "environment", "name": "OMP_THREAD_LIMIT"}, OMP_THREAD_LIMIT="4")
    assert json.loads(done.stdout)["value"] == "1"


@pytest.mark.parametrize("arguments", [["--slots", "0"], ["--nonsense"], ["word"],
                                       ["--threads", "x"]])
def test_wrong_command_line(workers, arguments):
    assert workers.start("test-stage", *arguments).wait() == 64
