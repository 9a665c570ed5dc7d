"""Rules of the queue that stand in one place, tried by a second writer: raw SQL as the service and as the
owner."""

import json
import uuid

import jobs
import psycopg2
import psycopg2.errors
import pytest

WRITERS = ["service_role", "postgres"]
ALICE, BOB = uuid.uuid4(), uuid.uuid4()


@pytest.fixture(params=WRITERS)
def writer(queue, request):
    """Turns the session of `queue` into one of the writer."""
    return lambda: queue.run(f"SET ROLE {request.param}")


def done_job(queue, job_type="clip_generate", **named):
    job_id = queue.add(job_type, {"a": 1}, **named)
    queue.run("SELECT complete_job(id, lease_token, '{\"b\": 2}') FROM claim_jobs('w', %s)", job_type)
    return job_id


# ---- one writer of the status -----------------------------------------------------------------------


def test_a_claim_by_hand_gets_a_lease(queue, writer):
    """The SQL of a worker that knows the table and none of the functions."""
    job_id = queue.add("clip_generate")
    writer()
    queue.run("""UPDATE jobs SET status = 'processing' WHERE id = (
        SELECT id FROM jobs WHERE job_type = 'clip_generate' AND status = 'queued'
        ORDER BY priority DESC, created_at LIMIT 1 FOR UPDATE SKIP LOCKED)""")
    job = queue.job(job_id)
    assert job["locked_by"].startswith("sql:") and job["attempt"] == 1 and job["lease_token"] > 0
    assert queue.value("SELECT locked_until - now() BETWEEN '4 minutes' AND '6 minutes' FROM jobs") is True
    queue.expire(job_id)
    assert queue.claim_one("clip_generate")["attempt"] == 2, "a hand that is gone is followed by another"


def test_a_token_that_is_brought_along_is_not_believed(queue, writer):
    job_id = queue.add("clip_generate")
    writer()
    queue.run("UPDATE jobs SET status = 'processing', lease_token = 999999999, attempt = 70, locked_by = 'me',"
              " finished_at = now(), started_at = 'epoch' WHERE id = %s", job_id)
    job = queue.job(job_id)
    assert job["lease_token"] < 999999999 and job["attempt"] == 1 and job["locked_by"] == "me"
    assert queue.value("SELECT started_at > now() - interval '1 minute' FROM jobs") is True
    with pytest.raises(psycopg2.errors.CheckViolation, match="only a claim may set the fencing token"):
        queue.run("UPDATE jobs SET lease_token = lease_token + 1")


def test_a_completion_by_hand_is_a_completion(queue, writer):
    parent = queue.add("clip_generate")
    child = queue.add("clip_generate", depends_on=[parent])
    writer()
    queue.run("UPDATE jobs SET status = 'processing' WHERE id = %s", parent)
    queue.run("UPDATE jobs SET status = 'done', finished_at = '2030-01-01', started_at = '2020-01-01' WHERE id = %s",
              parent)
    job = queue.job(parent)
    assert job["locked_by"] is None and job["progress"] == 1 and job["finished_at"].year < 2030
    assert queue.job(child)["is_ready"] is True, "what waited for it begins"
    assert queue.run("RESET ROLE; SELECT status FROM job_attempts") == [{"status": "succeeded"}]


def test_readiness_is_computed_and_not_believed(queue, writer):
    parent = queue.add("clip_generate", scheduled_for=queue.value("SELECT now() + interval '1 hour'"))
    child = queue.add("clip_generate", depends_on=[parent])
    writer()
    queue.run("UPDATE jobs SET is_ready = true")
    assert [queue.job(one)["is_ready"] for one in (parent, child)] == [False, False]
    assert queue.claim("clip_generate", limit=10) == []
    with pytest.raises(psycopg2.errors.CheckViolation, match="the jobs that it depends on are not done"):
        queue.run("UPDATE jobs SET status = 'processing' WHERE id = %s", child)
    queue.run("UPDATE jobs SET scheduled_for = NULL WHERE id = %s", parent)
    assert queue.job(parent)["is_ready"] is True
    queue.run("UPDATE jobs SET scheduled_for = now() + interval '1 hour' WHERE id = %s", parent)
    assert queue.job(parent)["is_ready"] is False


TAKE = """UPDATE jobs SET status = 'processing' WHERE id = (
    SELECT id FROM claimable_jobs WHERE job_type = 'embed' ORDER BY priority DESC, created_at LIMIT 1 FOR UPDATE SKIP LOCKED)
    RETURNING id"""


def test_what_may_not_run_yet_is_not_taken_by_hand(queue, writer):
    later = queue.add("webhook", scheduled_for=queue.value("SELECT now() + interval '1 hour'"))
    paused = queue.add("transcode")
    tenant = uuid.uuid4()
    stopped = queue.add("embed", tenant_id=str(tenant))
    queue.run("SELECT pause_type('transcode', 'x'), pause_tenant(%s, 'x')", str(tenant))
    writer()
    for job, words in ((later, "is scheduled for"), (paused, "jobs of type transcode are paused"), (stopped, "its tenant are paused")):
        with pytest.raises(psycopg2.errors.CheckViolation, match=words):
            queue.run("UPDATE jobs SET status = 'processing' WHERE id = %s", job)
    queue.run("UPDATE jobs SET scheduled_for = now() WHERE id = %s", later)
    queue.run("UPDATE jobs SET status = 'processing' WHERE id = %s", later)


def test_sql_of_ones_own_passes_over_jobs_that_wait(queue, writer):
    """The jobs at the head of the queue wait for another, for a time, and for the end of a pause."""
    tenant = uuid.uuid4()
    parent = queue.add("webhook")
    queue.add("embed", depends_on=[parent], priority=10)
    queue.add("embed", scheduled_for=queue.value("SELECT now() + interval '1 hour'"), priority=9)
    queue.add("embed", tenant_id=str(tenant), priority=8)
    queue.run("SELECT pause_tenant(%s, 'x')", str(tenant))
    last = queue.add("embed", priority=1)
    writer()
    assert queue.run(TAKE) == [{"id": last}]
    assert queue.run(TAKE) == []


def test_a_retry_by_hand_is_a_retry(queue, writer):
    """As workers do that write processing, failed and queued themselves."""
    job = queue.add("embed")
    writer()
    for _ in range(3):
        queue.run("UPDATE jobs SET status = 'processing' WHERE id = %s", job)
        queue.run("UPDATE jobs SET status = 'queued', retry_count = retry_count + 1 WHERE id = %s", job)
    queue.run("UPDATE jobs SET status = 'processing' WHERE id = %s", job)
    with pytest.raises(psycopg2.errors.CheckViolation, match="all retries are used"):
        queue.run("UPDATE jobs SET status = 'queued', retry_count = retry_count + 1 WHERE id = %s", job)
    queue.run("UPDATE jobs SET status = 'queued' WHERE id = %s", job)
    queue.run("RESET ROLE")
    assert [(a["status"], a["error_message"]) for a in queue.attempts(job)] == [
        ("failed", "returned for another try")] * 3 + [("canceled", None)]
    assert queue.value("SELECT count(*) FROM task_events WHERE job_id = %s AND type = 'retry'", job) == 3


@pytest.mark.parametrize("change", [
    "payload = '{}'", "result = '{}'", "result = result || '{\"x\": 1}'", "started_at = 'epoch'",
    "finished_at = now()", "created_at = 'epoch'", "attempt = 9", "priority = 1", "tenant_id = gen_random_uuid()",
    "lease_token = lease_token + 1", "progress = 0"])
def test_a_done_job_does_not_change(queue, writer, change):
    done_job(queue)
    before = queue.run("SELECT * FROM jobs")
    writer()
    with pytest.raises(psycopg2.errors.CheckViolation):
        queue.run(f"UPDATE jobs SET {change}")
    assert queue.run("SELECT * FROM jobs") == before


@pytest.mark.parametrize("statement", [
    "UPDATE task_events SET message = 'x'", "DELETE FROM task_events", "TRUNCATE task_events"])
def test_events_do_not_change(queue, statement):
    done_job(queue)
    count = queue.value("SELECT count(*) FROM task_events")
    assert count == 3
    partition = queue.value("SELECT DISTINCT tableoid::regclass::text FROM task_events")
    queue.run("SET ROLE service_role")
    for name in ("task_events", partition):
        with pytest.raises(psycopg2.errors.InsufficientPrivilege):
            queue.run(statement.replace("task_events", name))
    queue.run("RESET ROLE")
    for name in ("task_events", partition, "task_events_default"):
        if name != "task_events_default" or statement.startswith("TRUNCATE"):  # it has no rows
            with pytest.raises(psycopg2.errors.CheckViolation, match="append-only"):
                queue.run(statement.replace("task_events", name))
    assert queue.value("SELECT count(*) FROM task_events") == count


# ---- what comes in ----------------------------------------------------------------------------------


@pytest.mark.parametrize("bulk", [False, True])
def test_what_is_no_job_cannot_be_waited_for(queue, bulk):
    nobody = uuid.uuid4()
    with pytest.raises(psycopg2.errors.ForeignKeyViolation, match=f"the job {nobody} in depends_on does not exist"):
        if bulk:
            queue.run("INSERT INTO jobs (job_type, depends_on) VALUES ('webhook', %s::uuid[])", [nobody])
        else:
            queue.add("clip_generate", depends_on=[queue.add("clip_generate"), nobody])


def test_who_waits_for_a_dead_job_is_told(queue):
    dead = queue.add("clip_generate")
    queue.run("SELECT fail_job(id, lease_token, 'NotAVideo', 'x', false) FROM claim_jobs('w', 'clip_generate')")
    before, after = queue.add("sample", depends_on=[dead]), queue.add("ocr", depends_on=[dead])
    for child in (before, after):
        reasons = queue.run("SELECT * FROM why_job(%s)", child)
        assert reasons[0]["reason"] == "blocked"
        assert str(dead) in reasons[0]["detail"] and "retry_job()" in reasons[0]["detail"]
    assert queue.value("SELECT retry_job(%s)", dead) == "queued"
    assert queue.run("SELECT * FROM why_job(%s)", after)[0]["reason"] == "waiting for jobs"


def test_a_claim_with_swapped_arguments_is_refused(queue):
    with pytest.raises(psycopg2.errors.InvalidParameterValue, match="job type my-host:1 is not registered") as info:
        queue.run("SELECT * FROM claim_jobs('ocr', 'my-host:1')")
    assert "the worker first" in info.value.diag.message_hint


def test_a_payload_names_no_other_video(queue):
    video, other = queue.video(), queue.video()
    with pytest.raises(psycopg2.errors.InvalidParameterValue, match=f"names video {other}"):
        queue.add("clip_generate", {"video_id": str(other)}, video_id=video)
    queue.add("clip_generate", {"video_id": str(video)}, video_id=video)
    queue.add("clip_generate", {}, video_id=video)


@pytest.mark.parametrize("job_type, given", [("transcode", {}), ("sample", {"dedupe_threshold": 0.5}), ("segment_index", {}),
                                             ("ocr", {"frame_paths": ["frames/1.json"]}), ("embed", {}),
                                             ("clip_generate", {"clip_id": jobs.VIDEO, "t_start": 0, "t_end": 10})])
def test_a_job_of_a_stage_gets_what_its_video_knows(queue, job_type, given):
    """By the functions, and by a plain INSERT of another program."""
    video = queue.video()
    original = {"s3_original_path": "videos/original/x/master.mp4"} if job_type in ("transcode", "sample", "clip_generate") else {}
    for statement in ("SELECT job_id FROM enqueue_job(%s, %s, %s)",
                      "INSERT INTO jobs (job_type, payload, video_id) VALUES (%s, %s, %s) RETURNING id"):
        job = queue.value(statement, job_type, json.dumps(given), video)
        assert queue.job(job)["payload"] == {"video_id": str(video), **original, **given}
        queue.run("DELETE FROM jobs")


WHOLE = {"video_id": jobs.VIDEO, "s3_original_path": jobs.ORIGINAL}
REFUSED = [("transcode", {}, "video_id"), ("segment_index", {}, "video_id"), ("embed", {}, "video_id"),
           ("transcode", {"video_id": jobs.VIDEO}, "s3_original_path"), ("sample", {"video_id": jobs.VIDEO}, "s3_original_path"),
           ("ocr", {"video_id": jobs.VIDEO}, "frame_paths"), ("ocr", {"video_id": jobs.VIDEO, "frame_paths": "a"}, "frame_paths"),
           ("sample", {**WHOLE, "dedupe_threshold": 2}, "dedupe_threshold"), ("transcode", {**WHOLE, "renditions": [1]}, "renditions"),
           ("segment_index", {"video_id": "mine"}, "video_id"), ("clip_generate", WHOLE, "clip_id")]


@pytest.mark.parametrize("job_type, payload, member", REFUSED)
def test_a_payload_that_its_stage_would_refuse_is_not_enqueued(queue, job_type, payload, member):
    for statement in ("SELECT enqueue_job(%s, %s)", "SELECT enqueue_jobs(%s, ARRAY[%s::jsonb])",
                      "INSERT INTO jobs (job_type, payload) VALUES (%s, %s)"):
        with pytest.raises(psycopg2.errors.InvalidParameterValue, match=member) as info:
            queue.run(statement, job_type, json.dumps(payload))
        assert info.value.diag.column_name == member
    assert queue.value("SELECT count(*) FROM jobs") == 0


def test_a_type_of_ones_own_has_a_rule_for_payloads(queue):
    queue.run("INSERT INTO job_types (name, description, payload_schema) VALUES ('reverse', 'Texts, backwards',"
              """ '{"required": ["text"], "properties": {"text": {"type": "string"}}}')""")
    with pytest.raises(psycopg2.errors.InvalidParameterValue, match="the payload has no text"):
        queue.run("SELECT enqueue_job('reverse', '{}')")
    assert queue.job(queue.add("reverse", {"text": "abc"}))["payload"] == {"text": "abc"}
    with pytest.raises(psycopg2.errors.InvalidParameterValue, match="the keyword oneof is not supported"):
        queue.run("""UPDATE job_types SET payload_schema = '{"oneof": []}' WHERE name = 'reverse'""")


def test_a_run_is_refused_when_its_first_step_would_be(queue):
    with pytest.raises(psycopg2.errors.InvalidParameterValue, match="ocr.* has no frame_paths"):
        queue.run("SELECT start_run('reindex', '{}', %s)", queue.video())
    assert queue.value("SELECT count(*) FROM runs") == 0


def test_a_payload_has_a_size(queue):
    for kind, most in (("transcode", 64 << 10), ("clip_generate", 512 << 10)):
        large = json.dumps({"x": "x" * most})
        for call in ("enqueue_job(%s, %s::jsonb)", "enqueue_jobs(%s, ARRAY[%s::jsonb])"):
            with pytest.raises(psycopg2.errors.ProgramLimitExceeded, match=f"payload of a job .*may have at most {most} bytes"):
                queue.run(f"SELECT * FROM {call}", kind, large)
    assert queue.value("SELECT count(*) FROM jobs") == 0


def test_entity_types_are_rows(queue):
    video = queue.video()
    segment = queue.value("INSERT INTO segments (video_id, text, normalized_text, text_hash, confidence, t_start,"
                          " t_end) VALUES (%s, 'a', 'a', 'a', 1, 0, 1) RETURNING id", video)
    insert = "INSERT INTO entities (segment_id, entity_type, value, normalized_value) VALUES (%s, %s, 'a', 'a')"
    with pytest.raises(psycopg2.errors.ForeignKeyViolation):
        queue.run(insert, segment, "hashtags")
    queue.run("INSERT INTO entity_types VALUES ('iban', 'an account')")
    queue.run(insert, segment, "iban")


# ---- a video's status follows what it has -----------------------------------------------------------


@pytest.fixture
def ready_video(queue):
    video = queue.video()
    queue.run("SELECT replace_video_text(%s, '[]')", video)
    return video


def video_status(queue, video):
    return queue.value("SELECT status::text FROM videos WHERE id = %s", video)


@pytest.mark.parametrize("end", ["SELECT cancel_job(%s)", "SELECT fail_job(%s, lease_token, 'NotAVideo', 'x', false)"
                                 " FROM claim_jobs('w', 'sample')"])
def test_a_ready_video_stays_ready_whatever_a_job_does(queue, ready_video, end):
    events = "SELECT count(*) FROM task_events WHERE message = 'video.ready'"
    assert video_status(queue, ready_video) == "ready" and queue.value(events) == 1
    job_id = queue.add("sample", video_id=ready_video)
    queue.run(end, job_id)
    assert queue.status(job_id) in ("failed", "canceled")
    assert video_status(queue, ready_video) == "ready"
    assert queue.value(events) == 1, "nothing became ready"


@pytest.mark.parametrize("last, end, wanted", [
    ("segment_index", None, "ready"), ("transcode", None, "ready"), ("transcode", "fail", "failed"),
    ("segment_index", "fail", "failed"), ("transcode", "cancel", "failed")])
def test_a_video_is_ready_when_all_of_it_is(queue, last, end, wanted):
    """Text and playback are made side by side, and either may be the last."""
    video = queue.video()
    run_id = queue.value("SELECT run_id FROM start_run('video_pipeline', '{}', %s)", video)

    def finish(stage, end=None):
        job = queue.claim_one(stage)
        if end == "fail":
            queue.fail(job, retryable=False)
        elif end == "cancel":
            queue.run("SELECT cancel_job(%s)", job["id"])
            queue.fail(job)
        else:
            queue.call("complete_job", job)

    text = ("sample", "ocr", "segment_index")
    order = text + ("transcode",) if last == "transcode" else ("transcode",) + text
    for stage in order:
        assert video_status(queue, video) == ("new" if stage == order[0] else "processing")
        finish(stage, end if stage == last else None)
    assert video_status(queue, video) == wanted
    if wanted == "failed":
        assert queue.value("SELECT restart_run(%s)", run_id) == 1
        finish(last)
        assert video_status(queue, video) == "ready"


def test_a_stage_that_was_given_up_does_not_stop_the_others(queue):
    video = queue.video()
    queue.run("SELECT start_run('video_pipeline', '{}', %s)", video)
    queue.fail(queue.claim_one("transcode"), retryable=False)
    for stage in ("sample", "ocr", "segment_index"):
        assert video_status(queue, video) == "processing"
        queue.call("complete_job", queue.claim_one(stage))
    assert video_status(queue, video) == "failed"


def test_two_last_stages_ending_at_once_make_a_video_ready(queue, database):
    video = queue.video()
    queue.run("SELECT start_run('video_pipeline', '{}', %s)", video)
    for stage in ("sample", "ocr"):
        queue.call("complete_job", queue.claim_one(stage))
    first, second = queue.claim_one("transcode"), queue.claim_one("segment_index")
    other = psycopg2.connect(database)
    cursor = other.cursor()
    cursor.execute("SELECT complete_job(%s, %s)", (first["id"], first["lease_token"]))
    queue.run("SET lock_timeout = '200ms'")
    with pytest.raises(psycopg2.errors.LockNotAvailable):  # it waits for the other's end
        queue.call("complete_job", second)
    other.commit()
    queue.call("complete_job", second)
    assert video_status(queue, video) == "ready"
    other.close()


# ---- triggers and locks -----------------------------------------------------------------------------


def test_a_trigger_names_a_command_that_is_there(queue):
    insert = "INSERT INTO job_triggers (name, cron, action, target) VALUES ('x', '@daily', 'command', %s)"
    with pytest.raises(psycopg2.errors.ForeignKeyViolation, match="command nothing does not exist"):
        queue.run(insert, "nothing")
    queue.run(insert, "gc")


def test_two_tenants_may_use_one_name(queue):
    insert = ("INSERT INTO job_triggers (name, event, action, target, tenant_id) VALUES"
              " ('mine', 'video.ready', 'job', 'ocr', %s)")
    queue.run(insert, ALICE)
    queue.run(insert, BOB)
    queue.run(insert, None)
    with pytest.raises(psycopg2.errors.UniqueViolation):
        queue.run(insert, ALICE)
    with pytest.raises(psycopg2.errors.UniqueViolation):
        queue.run(insert, None)


def test_a_reader_holds_up_no_claim(queue, database):
    queue.run("UPDATE job_types SET max_running = 5 WHERE name = 'sample'")
    queue.add("sample")
    queue.claim("sample")  # so that the row of the lock is there
    queue.add("sample")
    reader = psycopg2.connect(database, options="-c role=cortana_metrics")
    with reader.cursor() as cursor:
        cursor.execute("SELECT pg_advisory_xact_lock(hashtext('claim_jobs'), hashtext('sample'))")
        with pytest.raises(psycopg2.errors.InsufficientPrivilege):
            cursor.execute("SELECT FROM cortana.locks FOR UPDATE")
    with reader.cursor() as cursor:
        cursor.execute("ROLLBACK; BEGIN; SELECT pg_advisory_xact_lock(hashtext('claim_jobs'), hashtext('sample'))")
    queue.run("SET statement_timeout = '60s'")
    assert len(queue.claim("sample")) == 1
    reader.close()


def test_a_claim_waits_for_no_lock_for_long(queue, database):
    queue.run("UPDATE job_types SET max_running = 5 WHERE name = 'sample'")
    queue.add("sample")
    other = psycopg2.connect(database)
    with other.cursor() as cursor:
        cursor.execute("SELECT acquire_lock('claims of type sample')")
        queue.run("SET statement_timeout = '20s'")
        assert queue.claim("sample") == []
    other.close()
    assert len(queue.claim("sample")) == 1
