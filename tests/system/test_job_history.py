"""What the tables tell of a job afterwards: events, attempts, artifacts, workers, partitions."""

import datetime
import json

import pytest
from jobs import TRANSCODE


def events(queue, job_id):
    return queue.run("SELECT * FROM task_events WHERE job_id = %s ORDER BY id", job_id)


def changes(queue, job_id):
    return [(e["data"].get("from"), e["data"]["to"]) for e in events(queue, job_id) if "to" in e["data"]]


def test_every_status_change_writes_one_event(queue):
    video = queue.video()
    job_id = queue.add(video_id=video)
    queue.fail(queue.claim_one())
    queue.make_retry_due(job_id)
    queue.call("release_job", queue.claim_one(), "stop")
    job = queue.claim_one(worker="me")
    queue.call("renew_lease", job, "5 minutes")
    queue.call("report_progress", job, 0.5, "x")
    queue.call("complete_job", job)
    assert changes(queue, job_id) == [
        (None, "queued"), ("queued", "processing"), ("processing", "failed"), ("failed", "queued"),
        ("queued", "processing"), ("processing", "queued"), ("queued", "processing"),
        ("processing", "done")]
    log = events(queue, job_id)
    assert {e["video_id"] for e in log} == {video}
    assert {e["correlation_id"] for e in log} == {job["correlation_id"]}
    assert log[3]["type"] == "retry" and log[2]["level"] == "warn"
    assert log[2]["message"] == "failed: Timeout: it failed"
    assert {log[1]["source"], log[2]["source"], log[-1]["source"]} == {"worker:transcode"}
    assert log[-1]["data"]["worker"] == "me"
    assert log[-1]["data"]["lease_token"] == job["lease_token"]


def test_a_dead_letter_is_an_error_and_a_cancel_is_told(queue):
    dead, stopped = queue.add("clip_generate"), queue.add("clip_generate")
    queue.value("SELECT cancel_job(%s)", stopped)
    queue.fail(queue.claim_one("clip_generate"), "NotAVideo", retryable=False)
    *_, end, told = events(queue, dead)
    assert (end["level"], told["type"], told["message"]) == ("error", "event", "job.failed")
    assert changes(queue, stopped)[-1] == ("queued", "canceled")


def test_batches_write_one_event_a_job(queue):
    ids = [queue.add() for _ in range(20)]
    jobs = queue.claim(limit=20)
    queue.run("SELECT complete_jobs(%s::uuid[], %s::bigint[])", [job["id"] for job in jobs],
              [job["lease_token"] for job in jobs])
    for job_id in ids:
        assert changes(queue, job_id) == [(None, "queued"), ("queued", "processing"),
                                          ("processing", "done")]


def test_an_attempt_keeps_what_is_known_of_the_process(queue):
    job_id = queue.add()
    report = {"exit_code": 75, "pid": 4711, "cpu_seconds": 1.5, "peak_memory_bytes": 1 << 33,
              "stdout_tail": "out", "stderr_tail": "err"}
    job = queue.claim_one(worker="host:1:boot")
    assert queue.attempts(job_id)[0]["status"] == "running"
    queue.call("fail_job", job, "Timeout", "too slow", True, json.dumps(report))
    queue.make_retry_due(job_id)
    queue.call("complete_job", queue.claim_one(), None, json.dumps({**report, "exit_code": 0}))
    first, second = queue.attempts(job_id)
    for key, value in report.items():
        assert first[key] == value
    assert (first["status"], first["error_type"], first["error_message"]) == (
        "timeout", "Timeout", "too slow")
    assert first["worker_id"] == "host:1:boot" and first["finished_at"] >= first["started_at"]
    assert second["status"] == "succeeded" and second["exit_code"] == 0


def test_artifacts_once_however_often_they_are_recorded(queue):
    job_id = queue.add()
    for size in (1, 2):
        job = queue.claim_one()
        artifact = {"kind": "output", "key": "a/b", "size": size, "content_type": "image/jpeg",
                    "checksum": "c"}
        assert queue.call("record_artifacts", job, "bucket", json.dumps([artifact, artifact])) is True
        queue.call("release_job", job, "again")
    (row,) = queue.run("SELECT * FROM task_artifacts WHERE job_id = %s", job_id)
    assert (row["size"], row["attempt"], row["bucket"], row["key"]) == (2, 2, "bucket", "a/b")


def test_objects_that_differ_by_a_number_are_one_row(queue):
    def record(*keys):
        return queue.call("record_artifacts", job, "b", json.dumps([
            {"kind": "output", "key": key, "size": 10, "content_type": "video/mp4", "checksum": key} for key in keys]))

    job_id = queue.add()
    job = queue.claim_one()
    segments = [f"p/segment_{number:05}.m4s" for number in (0, 1, 2, 4)]
    assert record(*segments, "p/init_426x240.mp4", "p/index.m3u8") and record(*segments) and record(
        "p/segment_00003.m4s", "p/segment_00006.m4s")
    rows = queue.run("SELECT key, numbers::text, objects, size, content_type, checksum FROM task_artifacts"
                     " WHERE job_id = %s ORDER BY key", job_id)
    assert [tuple(row.values()) for row in rows] == [
        ("p/index.m3u8", None, 1, 10, "video/mp4", "p/index.m3u8"),
        ("p/init_426x240.mp4", None, 1, 10, "video/mp4", "p/init_426x240.mp4"),
        ("p/segment_*.m4s", "{[0,5),[6,7)}", 6, 60, "video/mp4", None)]
    known = "SELECT k FROM unnest(%s::text[]) AS k WHERE cortana.is_output('b', k)"
    asked = [*segments, "p/segment_00005.m4s", "p/segment_*.m4s", "p/segment_00000.ts", "p/init_426x240.mp4",
             "p/init_426x241.mp4", "p/segment_99999999999999999999.m4s"]
    assert [row["k"] for row in queue.run(known, asked)] == [*segments, "p/init_426x240.mp4"]


def test_workers_report_themselves(queue):
    for running, state in ((0, "running"), (2, "draining"), (0, "stopped")):
        queue.run("SELECT report_worker('w', 'host', '1', ARRAY['ocr'], 4, %s, %s)", running, state)
    (row,) = queue.run("SELECT * FROM workers")
    assert (row["state"], row["running"], row["slots"], row["job_types"]) == ("stopped", 0, 4, ["ocr"])
    assert row["last_seen"] > row["started_at"]


def partitions(queue):
    return [row["name"] for row in queue.run(
        "SELECT c.relname AS name FROM pg_inherits i JOIN pg_class c ON c.oid = i.inhrelid"
        " WHERE i.inhparent = 'task_events'::regclass ORDER BY 1")]


def test_partitions_of_the_months_ahead_exist(queue):
    month = queue.value("SELECT date_trunc('month', now() AT TIME ZONE 'UTC')")
    expected = []
    for _ in range(4):
        expected.append(month.strftime("task_events_%Y_%m"))
        month = (month + datetime.timedelta(days=32)).replace(day=1)
    assert partitions(queue) == sorted([*expected, "task_events_default"])
    assert queue.value("SELECT create_event_partitions()") == 0
    assert queue.value("SELECT create_event_partitions(5)") == 2
    job_id = queue.add()
    assert queue.value("SELECT tableoid::regclass::text FROM task_events WHERE job_id = %s",
                       job_id) == expected[0]


def test_a_heartbeat_makes_the_partition_that_is_missing(queue):
    wanted = partitions(queue)
    for name in wanted[1:-1]:  # of the months to come
        queue.run(f"DROP TABLE {name}")
    queue.run("SELECT report_worker('w', 'h', '1', ARRAY['ocr'], 1, 0, 'running')")
    assert partitions(queue) == wanted


@pytest.mark.parametrize("month", ["now() - interval '3 years'", "now() + interval '3 years'"])
def test_an_event_of_an_unexpected_month_is_kept(queue, month):
    queue.run(f"INSERT INTO task_events (ts, source, type, message) VALUES ({month}, 's', 't', 'm')")
    assert queue.value("SELECT tableoid::regclass::text FROM task_events") == "task_events_default"


def test_a_type_may_tell_of_failures_alone(queue):
    queue.run("UPDATE job_types SET status_events = false WHERE name = 'transcode'")
    silent, told = queue.add(), queue.add("ocr")
    queue.fail(queue.claim_one())
    queue.make_retry_due(silent)
    queue.call("complete_job", queue.claim_one())
    assert changes(queue, silent) == [("processing", "failed")]
    assert [a["status"] for a in queue.attempts(silent)] == ["timeout", "succeeded"]
    assert changes(queue, told) == [(None, "queued")]


def test_what_is_changed_by_hand_leaves_its_attempts_too(queue):
    job_id = queue.add()
    for _ in range(2):
        queue.run("UPDATE jobs SET status = 'processing', locked_by = 'somebody' WHERE id = %s", job_id)
        assert queue.attempts(job_id)[-1]["status"] == "running"
        queue.run("UPDATE jobs SET status = 'queued' WHERE id = %s", job_id)
    assert [(a["attempt"], a["worker_id"], a["status"]) for a in queue.attempts(job_id)] == [
        (1, "somebody", "canceled"), (2, "somebody", "canceled")]
    assert all(a["finished_at"] >= a["started_at"] for a in queue.attempts(job_id))


def test_thousands_are_settled_under_the_plans_of_one(queue):
    """Plans are kept: those of statements about one job must not be quadratic (six thousand took a minute)."""
    for _ in range(8):
        queue.add()
        job = queue.claim_one()
        assert queue.value("SELECT complete_jobs(%s, %s)", [job["id"]], [job["lease_token"]]) == 1
    queue.run(f"SELECT count(*) FROM enqueue_jobs('transcode', array_fill('{TRANSCODE}'::jsonb, ARRAY[6000]))")
    queue.run("SET statement_timeout = '30 s'")
    jobs = queue.claim(limit=6000)
    stale = jobs[0]["lease_token"] - 1
    ids, tokens = [j["id"] for j in jobs], [stale] + [j["lease_token"] for j in jobs[1:]]
    assert queue.value("SELECT complete_jobs(%s::uuid[], %s)", ids, tokens) == 5999
    assert queue.status(ids[0]) == "processing", "its token was an old one"
    assert queue.value("SELECT count(*) FROM ended_attempts WHERE status = 'succeeded'") == 6007


def test_the_first_eight_digits_tell_jobs_apart(queue):
    ids = [str(row["id"]) for row in queue.run(
        f"SELECT enqueue_jobs('transcode', array_fill('{TRANSCODE}'::jsonb, ARRAY[20])) AS id")]
    assert len({job_id[:8] for job_id in ids}) >= 19
    assert len({job_id[:4] for job_id in ids}) <= 2, "jobs of one moment lie together"


def test_the_video_shows_what_its_pipeline_does(queue):
    video = queue.video()

    def status():
        return queue.value("SELECT status FROM videos WHERE id = %s", video)

    queue.add("clip_generate", video_id=video)
    queue.fail(queue.claim_one("clip_generate"), "NotAVideo", retryable=False)
    assert status() == "new"
    queue.add(video_id=video)
    job = queue.claim_one()
    assert status() == "processing"
    queue.fail(job)
    assert status() == "processing"
    queue.make_retry_due(job["id"])
    queue.fail(queue.claim_one(), "NotAVideo", retryable=False)
    assert status() == "failed"
