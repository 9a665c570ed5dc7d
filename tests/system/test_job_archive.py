"""Ended jobs go to the store and come back as they were; what anything still rests on stays."""

import json

import psycopg2
import pytest
from jobs import STAGES, past_all_rules

TABLES = {"runs": "id", "jobs": "id", "ended_attempts": "job_id, attempt", "task_artifacts": "id",
          "job_outputs": "job_id, job_type"}
FINISH = "SELECT complete_job(id, lease_token, '{\"n\": 1.5, \"deep\": {\"a\": [null, \"\\u00e9\"]}}')"


@pytest.fixture(autouse=True)
def types(queue):
    queue.run("INSERT INTO job_types (name, description) VALUES ('work', 'a'), ('other', 'b')")
    queue.run("""INSERT INTO workflows (name, steps) VALUES ('two', '[
        {"key": "first", "job_type": "work"},
        {"key": "second", "job_type": "other", "depends_on": ["first"]}]')""")


def everything(queue):
    return {table: queue.run(f"SELECT t.*, t::text AS whole FROM {table} t ORDER BY {order}")
            for table, order in TABLES.items()}


def age(queue, days=100):
    """All that has ended did so that long ago."""
    for table in ("jobs", "runs"):
        queue.run(past_all_rules(
                  f"UPDATE {table} SET finished_at = finished_at - make_interval(days => %s),"
                  " created_at = created_at - make_interval(days => %s) WHERE finished_at IS NOT NULL"),
                  days, days)


def work(queue, job_type="work"):
    queue.run(f"{FINISH} FROM claim_jobs('w', %s, 100)", job_type)


def run_of(queue, workflow="two", video=None):
    return queue.value("SELECT run_id FROM start_run(%s, '{}', %s)", workflow, video)


def finish_run(queue, workflow="two", video=None):
    run = run_of(queue, workflow, video)
    for job_type in (("work", "other") if workflow == "two" else STAGES):
        work(queue, job_type)
    assert queue.value("SELECT status FROM runs WHERE id = %s", run) == "done"
    return run


def chosen(queue, days=90, limit=5000):
    (row,) = queue.run("SELECT * FROM jobs_to_archive(%s, %s)", days, limit)
    return row


def jobs_chosen(queue, days=90):
    return sorted(chosen(queue, days)["job_ids"])


def lines_of(queue, batch, limit=500):
    lines = []
    while page := queue.run("SELECT * FROM export_jobs(%s::uuid[], %s::uuid[], %s, %s)", batch["run_ids"],
                            batch["job_ids"], len(lines), limit):
        lines += [json.loads(row["line"]) for row in page]
    return lines


def drop(queue, batch, key="k"):
    return queue.value("SELECT drop_archived_jobs(%s::uuid[], %s::uuid[], %s, %s, 'c')", batch["run_ids"],
                       batch["job_ids"], batch["fingerprint"], key)


def restore(queue, lines):
    (row,) = queue.run("SELECT * FROM restore_jobs(%s)", json.dumps(lines))
    return row["restored"], row["left_out"]


def test_jobs_and_runs_come_back_as_they_were(queue):
    parent = queue.add("work", {"text": "ünï\n\"x\"", "n": 1e20})
    child = queue.add("other", depends_on=[parent])
    job = queue.claim_one("work")
    queue.fail(job)
    queue.make_retry_due(parent)
    job = queue.claim_one("work")
    queue.run("SELECT record_artifacts(%s, %s, 'b', %s)", job["id"], job["lease_token"],
              json.dumps([{"kind": "output", "key": "a/b", "size": 3}]))
    assert queue.call("complete_job", job) is True
    work(queue, "other")
    canceled = queue.add("work", scheduled_for=queue.value("SELECT now() + interval '1 hour'"))
    queue.run("SELECT cancel_job(%s)", canceled)
    run = finish_run(queue)
    half = run_of(queue)
    first = queue.claim_one("work")
    queue.run("SELECT hand_on(%s, %s, 'other', '{\"handed\": 1}')", first["id"], first["lease_token"])
    queue.call("complete_job", first)
    queue.run("SELECT cancel_run(%s)", half)
    age(queue)
    before = everything(queue)
    events = queue.run("SELECT * FROM task_events ORDER BY id")
    assert len(before["job_outputs"]) == 1 and len(before["task_artifacts"]) == 1
    batch = chosen(queue)
    assert sorted(batch["run_ids"]) == sorted([run, half])
    assert len(batch["job_ids"]) == 7 and {parent, child, canceled} < set(batch["job_ids"])
    lines = lines_of(queue, batch, limit=2)
    assert [list(line)[0] for line in lines[:2]] == ["run", "run"] and len(lines) == 9
    assert drop(queue, batch) is True
    assert all(rows == [] for rows in everything(queue).values())
    (archive,) = queue.run("SELECT * FROM job_archives")
    assert (archive["jobs"], archive["runs"]) == (7, 2)
    assert archive["finished_until"] == batch["finished_until"]
    assert restore(queue, lines) == (7, 0)
    assert everything(queue) == before
    assert restore(queue, lines) == (0, 0)
    assert everything(queue) == before
    assert queue.run("SELECT * FROM task_events ORDER BY id") == events, "history is no news"
    assert queue.value("SELECT retry_job(%s)", canceled) == "queued", "it is a job again"


def test_what_is_young_open_or_dead_stays(queue):
    young = queue.add("work")
    work(queue)
    queue.add("work")
    queue.add("other", scheduled_for=queue.value("SELECT now() - interval '100 days'"))
    running = queue.claim_one("other")
    dead = queue.add("work")
    queue.run("SELECT fail_job(id, lease_token, 'NotAVideo', 'x', false) FROM claim_jobs('w', 'work', 9)")
    assert queue.status(running["id"]) == "processing" and queue.status(dead) == "failed"
    queue.run("UPDATE jobs SET finished_at = now() - interval '100 days' WHERE status = 'failed'")
    assert jobs_chosen(queue) == []
    queue.run(past_all_rules("UPDATE jobs SET finished_at = now() - interval '91 days' WHERE id = %s"), young)
    assert jobs_chosen(queue) == [young] and jobs_chosen(queue, 92) == []


def test_a_run_goes_as_a_whole_or_not_at_all(queue):
    runs = [finish_run(queue) for _ in range(3)]
    failed = run_of(queue)
    work(queue)
    queue.run("SELECT fail_job(id, lease_token, 'NotAVideo', 'x', false) FROM claim_jobs('w', 'other', 9)")
    age(queue)
    assert sorted(chosen(queue)["run_ids"]) == sorted(runs), failed
    small = chosen(queue, limit=3)
    assert len(small["run_ids"]) == 2 and len(small["job_ids"]) == 4, "the last may exceed the limit"
    assert drop(queue, small) is True
    assert len(chosen(queue, limit=3)["job_ids"]) == 2


def test_a_run_stays_while_a_job_outside_asks_for_one_of_its(queue):
    run = finish_run(queue)
    first = queue.value("SELECT id FROM jobs WHERE run_id = %s AND step = 'first'", run)
    age(queue)
    batch = chosen(queue)
    child = queue.add("other", depends_on=[first])
    assert jobs_chosen(queue) == [] and drop(queue, batch) is False
    work(queue, "other")
    assert queue.status(child) == "done" and chosen(queue)["run_ids"] == [run]


def test_the_newest_run_of_a_video_stays(queue):
    video, other = queue.video(), queue.video()
    finish_run(queue, "video_pipeline", video)
    finish_run(queue, "video_pipeline", other)
    age(queue)
    assert jobs_chosen(queue) == []
    newest = run_of(queue, "video_pipeline", video)
    age(queue)
    assert jobs_chosen(queue) == [], "the new one is not done"
    for job_type in STAGES:
        work(queue, job_type)
    (row,) = queue.run("SELECT array_agg(id ORDER BY id) AS ids FROM jobs WHERE video_id = %s AND run_id <> %s",
                       video, newest)
    assert jobs_chosen(queue) == row["ids"] and len(row["ids"]) == 4


def test_the_newest_stage_of_a_video_without_a_run_stays(queue):
    video = queue.video()
    first = queue.add("transcode", video_id=video)
    work(queue, "transcode")
    age(queue)
    assert jobs_chosen(queue) == []
    queue.add("transcode", video_id=video)
    work(queue, "transcode")
    assert jobs_chosen(queue) == [first]


def test_a_clip_is_found_until_it_is_removed(queue):
    video = queue.video()
    queue.add("clip_generate", {}, video_id=video)
    queue.run("SELECT complete_job(id, lease_token, '{\"clip_path\": \"p\"}')"
              " FROM claim_jobs('w', 'clip_generate')")
    age(queue)
    assert jobs_chosen(queue) == []
    assert queue.value("SELECT mark_clip_removed(%s, 'p')", video) == 1
    assert len(jobs_chosen(queue)) == 1


def test_a_parent_stays_while_it_is_asked_for(queue):
    parent = queue.add("work")
    work(queue)
    child = queue.add("other", depends_on=[parent])
    queue.run("SELECT cancel_job(%s)", child)
    queue.run(past_all_rules("UPDATE jobs SET finished_at = now() - interval '100 days' WHERE id = %s"), parent)
    assert jobs_chosen(queue) == [], "a canceled child may be tried again"
    assert queue.value("SELECT retry_job(%s)", child) == "queued"
    work(queue, "other")
    assert jobs_chosen(queue) == [parent]
    batch = chosen(queue)
    late = queue.add("other", depends_on=[parent])
    assert drop(queue, batch) is False, "somebody asks for it since"
    work(queue, "other")
    assert queue.status(late) == "done" and drop(queue, batch) is True


@pytest.mark.parametrize("change", [
    "SELECT retry_job(id) FROM jobs", past_all_rules("UPDATE jobs SET result = '{}'"), "DELETE FROM jobs",
    "UPDATE ended_attempts SET stderr_tail = 'x'", "DELETE FROM ended_attempts",
    "INSERT INTO task_artifacts (job_id, attempt, kind, bucket, key) SELECT id, 1, 'log', 'b', 'k' FROM jobs",
    "INSERT INTO jobs (job_type, run_id) SELECT 'work', id FROM runs LIMIT 1",
    "UPDATE runs SET priority = 9"])
def test_what_has_changed_since_stays(queue, change):
    finish_run(queue)
    queue.run("SELECT cancel_job(%s)", queue.add("work"))
    queue.add("work")
    work(queue)
    age(queue)
    batch = chosen(queue)
    assert len(batch["job_ids"]) == 4
    queue.run(change)
    before = everything(queue)
    assert drop(queue, batch) is False
    assert everything(queue) == before and queue.run("SELECT * FROM job_archives") == []


def test_jobs_of_deleted_videos_are_left_out(queue):
    video, kept = queue.video(), queue.video()
    for one in (video, kept):
        for _ in range(2):
            finish_run(queue, "video_pipeline", one)
            age(queue)
    queue.add("work")
    work(queue)
    age(queue)
    batch = chosen(queue)
    lines = lines_of(queue, batch)
    assert drop(queue, batch) is True
    queue.run("DELETE FROM videos WHERE id = %s", video)
    assert restore(queue, lines) == (5, 4)
    assert queue.run("SELECT 1 FROM runs WHERE video_id = %s", video) == []


def test_an_archive_that_was_tampered_with_brings_nothing_to_run(queue):
    finish_run(queue)
    queue.add("work")
    work(queue)
    age(queue)
    batch = chosen(queue)
    run, *jobs = lines_of(queue, batch)
    drop(queue, batch)
    empty = everything(queue)
    job = jobs[-1]
    other = jobs[0]["job"]["id"]
    hostile = [
        [{**job, "job": {**job["job"], "status": status}}] for status in ("queued", "processing", "failed", None)
    ] + [
        [{**run, "run": {**run["run"], "status": "running"}}], [{**run, **job}], [{}], ["job"], [1], [[job]],
        [{**job, "attempts": [{**job["attempts"][0], "job_id": other}]}],
        [{**job, "attempts": [{**job["attempts"][0], "status": "running"}]}],
        [{**job, "outputs": [{"job_id": other, "job_type": "work", "payload": {}}]}],
    ]
    for lines in hostile:
        with pytest.raises(psycopg2.errors.InvalidParameterValue):
            restore(queue, lines)
    with pytest.raises(psycopg2.errors.ForeignKeyViolation, match="nothing_such"):
        restore(queue, [{**job, "job": {**job["job"], "job_type": "nothing_such"}}])
    assert everything(queue) == empty
    older = {**job, "job": {key: value for key, value in job["job"].items() if key != "has_dependents"},
             "unknown": 1}
    older["job"]["of_another_release"] = 1
    assert restore(queue, [older]) == (1, 0), "columns come and go"


def test_only_the_service_may(queue):
    for call in ("jobs_to_archive(90)", "restore_jobs('[]')", "export_jobs('{}', '{}')",
                 "drop_archived_jobs('{}', '{}', '', '', '')"):
        queue.run("SET ROLE cortana_app")
        with pytest.raises(psycopg2.errors.InsufficientPrivilege):
            queue.run(f"SELECT * FROM {call}")
        queue.run("RESET ROLE")


def test_the_command_archives_and_brings_back(queue, cortana, store_dir):
    for _ in range(3):
        finish_run(queue)
    age(queue)
    queue.run("WITH j AS (INSERT INTO jobs (job_type, status, payload, finished_at, attempt)"
              " SELECT 'work', 'done', '{\"n\": 1}', now() - interval '100 days', 1 FROM generate_series(1, 6000)"
              " RETURNING id) INSERT INTO ended_attempts (job_id, attempt, worker_id, lease_token, started_at, status)"
              " SELECT id, 1, 'w', 1, now(), 'succeeded' FROM j")
    before = everything(queue)
    done = cortana("jobs", "archive", "--jobs", "--days", 101)
    assert (done.returncode, done.stdout) == (0, "nothing is old enough\n"), done.stderr
    done = cortana("jobs", "archive", "--jobs", "--days", 30)
    assert done.returncode == 0, done.stderr
    files = sorted((store_dir / "archive/jobs").glob("*.jsonl"))
    said = [line.split(" jobs are in ") for line in done.stdout.splitlines()]
    assert sorted(key for _, key in said) == [f"archive/jobs/{file.name}" for file in files]
    assert [int(count) for count, _ in said] == [5000, 1006]
    assert all(rows == [] for rows in everything(queue).values())
    assert sum(len(file.read_text().splitlines()) for file in files) == 6009
    for again in (False, True):
        for count, key in said:
            done = cortana("jobs", "restore", key)
            assert done.stdout == f"{0 if again else count} jobs are back\n", done.stderr
    assert everything(queue) == before
    files[0].write_bytes(files[0].read_bytes()[:-10])
    assert "middle of a line" in cortana("jobs", "restore", said[0][1]).stderr + \
        cortana("jobs", "restore", said[1][1]).stderr
    assert cortana("jobs", "list", "--jobs").returncode == 64
