"""What may be enqueued, what is claimed and in which order, and what one transaction holds."""

import json

import psycopg2
import pytest
from jobs import STAGES, TRANSCODE, needed_by


@pytest.fixture
def other(database):
    """A second session of the same database."""
    connection = psycopg2.connect(database)
    yield connection
    connection.close()


@pytest.mark.parametrize("stage", STAGES)
def test_one_in_flight_per_video_and_stage(queue, stage):
    video = queue.video()
    first, is_new = queue.enqueue(stage, video_id=video)
    assert is_new
    assert queue.enqueue(stage, video_id=video) == (first, False)
    job = queue.claim_one(stage)
    assert queue.enqueue(stage, video_id=video) == (first, False)
    with pytest.raises(psycopg2.errors.UniqueViolation):
        queue.run("INSERT INTO jobs (video_id, job_type, payload) VALUES (%s, %s, %s)", video, stage, json.dumps(needed_by(stage, True)))
    queue.call("complete_job", job)
    second, is_new = queue.enqueue(stage, video_id=video)
    assert is_new and second != first
    assert queue.enqueue(stage, video_id=queue.video())[1]


def test_clips_of_one_video_may_run_side_by_side(queue):
    video = queue.video()
    ids = {queue.add("clip_generate", video_id=video) for _ in range(3)}
    assert {job["id"] for job in queue.claim("clip_generate", limit=5)} == ids


def test_dedupe_key_holds_while_in_flight_and_per_tenant(queue):
    first = queue.add("clip_generate", dedupe_key="k")
    assert queue.enqueue("clip_generate", dedupe_key="k") == (first, False)
    assert queue.enqueue("clip_generate", dedupe_key="other")[1]

    mine, yours = (queue.video(owner="00000000-0000-0000-0000-00000000000" + n) for n in "12")
    my_job, is_new = queue.enqueue("clip_generate", video_id=mine, dedupe_key="k")
    assert is_new
    your_job, is_new = queue.enqueue("clip_generate", video_id=yours, dedupe_key="k")
    assert is_new
    assert queue.enqueue("clip_generate", video_id=mine, dedupe_key="k") == (my_job, False)
    assert queue.enqueue("clip_generate", video_id=yours, dedupe_key="k") == (your_job, False)

    for job in queue.claim("clip_generate", limit=10):
        assert queue.enqueue("clip_generate", dedupe_key="k") == (first, False)
        queue.call("complete_job", job)
        if job["id"] == first:
            break
    assert queue.enqueue("clip_generate", dedupe_key="k")[1]


def test_put_off_until_its_time(queue):
    late = queue.value("SELECT now() + interval '1 hour'")
    job_id = queue.add(scheduled_for=late)
    assert queue.job(job_id)["is_ready"] is False and queue.claim() == []
    queue.run("UPDATE jobs SET scheduled_for = now() - interval '1 second' WHERE id = %s", job_id)
    assert queue.claim_one()["id"] == job_id
    past = queue.value("SELECT now() - interval '1 hour'")
    job_id = queue.add(scheduled_for=past)
    assert queue.claim_one()["id"] == job_id


def test_order_is_priority_then_run_then_age(queue):
    jobs = {
        "background": queue.add("clip_generate", priority=1, sequence=1),
        "late run": queue.add("clip_generate", priority=5, sequence=9),
        "early run, young": queue.add("clip_generate", priority=5, sequence=3),
        "early run, old": queue.add("clip_generate", priority=5, sequence=3),
        "user waits": queue.add("clip_generate", priority=10, sequence=50),
    }
    queue.run("UPDATE jobs SET created_at = now() - interval '1 day' WHERE id = %s",
              jobs["early run, old"])
    names = {job_id: name for name, job_id in jobs.items()}
    expected = ["user waits", "early run, old", "early run, young", "late run", "background"]
    one_by_one = [queue.claim_one("clip_generate") for _ in expected]
    assert [names[job["id"]] for job in one_by_one] == expected
    for job in one_by_one:
        queue.call("release_job", job, "and now as a batch")
    assert [names[job["id"]] for job in queue.claim("clip_generate", limit=10)] == expected


def test_defaults_of_a_type_and_bounds(queue):
    assert queue.job(queue.add("clip_generate"))["priority"] == 10
    assert queue.job(queue.add("ocr"))["priority"] == 5
    assert queue.job(queue.add("ocr", priority=0))["priority"] == 0
    for priority in (-1, 11):
        with pytest.raises(psycopg2.errors.CheckViolation):
            queue.add("ocr", priority=priority)
    for payload in ([], "text", 1, None):
        with pytest.raises(psycopg2.errors.InvalidParameterValue, match="must be a JSON object"):
            queue.run("SELECT enqueue_job('ocr', %s::jsonb)", json.dumps(payload))


def test_a_job_waits_for_all_that_it_depends_on(queue):
    parents = [queue.add("ocr") for _ in range(2)]
    child = queue.add("segment_index", depends_on=parents)
    assert queue.claim("segment_index") == []
    first, second = queue.claim("ocr", limit=2)
    queue.call("complete_job", first)
    assert queue.claim("segment_index") == []
    queue.run("LISTEN cv_jobs_segment_index")
    assert queue.value("SELECT complete_jobs(ARRAY[%s]::uuid[], ARRAY[%s]::bigint[])",
                       second["id"], second["lease_token"]) == 1
    queue.connection.poll()
    assert queue.connection.notifies, "workers are woken for what has become ready"
    assert queue.claim_one("segment_index")["id"] == child
    after = queue.add("segment_index", depends_on=parents)
    assert queue.claim_one("segment_index")["id"] == after


STAGE_ROWS = """INSERT INTO segments (video_id, text, normalized_text, text_hash, confidence,
                                      t_start, t_end) VALUES (%s, 'a', 'a', 'h', 1, 0, 10)"""


def finish(cursor, queue_job, video):
    """What a supervisor does at the end of a job; yields after each statement."""
    cursor.execute("SELECT fence_job(%s, %s)", (queue_job["id"], queue_job["lease_token"]))
    assert cursor.fetchone() == (True,)
    yield
    cursor.execute(STAGE_ROWS, (video,))
    yield
    cursor.execute("""SELECT record_artifacts(%s, %s, 'b', '[{"kind": "output", "key": "k"}]')""",
                   (queue_job["id"], queue_job["lease_token"]))
    yield
    cursor.execute("SELECT enqueue_job('segment_index', '{}', %s, p_correlation_id => %s::uuid,"
                   " p_sequence => %s)",
                   (video, queue_job["correlation_id"], queue_job["sequence"]))
    yield
    cursor.execute("SELECT complete_job(%s, %s)", (queue_job["id"], queue_job["lease_token"]))
    assert cursor.fetchone() == (True,)
    yield


@pytest.mark.parametrize("died_after", range(1, 6))
def test_a_death_before_the_commit_leaves_nothing(queue, other, died_after):
    video = queue.video()
    queue.add("ocr", video_id=video)
    job = queue.claim_one("ocr")
    before = queue.snapshot()
    steps = finish(other.cursor(), job, video)
    for _ in range(died_after):
        next(steps)
    # The second argument waits until the backend is gone.
    assert queue.value("SELECT pg_terminate_backend(%s, 10000)", other.info.backend_pid)
    with pytest.raises(psycopg2.Error):
        other.commit()
    assert queue.snapshot() == before


def test_complete_rows_and_successor_are_one_commit(queue, other):
    video = queue.video()
    queue.add("ocr", video_id=video)
    job = queue.claim_one("ocr")
    for _ in finish(other.cursor(), job, video):
        assert queue.status(job["id"]) == "processing"
        assert queue.value("SELECT count(*) FROM segments") == 0
        assert queue.claim("segment_index") == []
    other.commit()
    assert queue.status(job["id"]) == "done"
    successor = queue.claim_one("segment_index")
    assert successor["correlation_id"] == job["correlation_id"]
    assert successor["sequence"] == job["sequence"]
    assert queue.value("SELECT count(*) FROM segments") == 1
    assert queue.value("SELECT count(*) FROM task_artifacts") == 1


def test_a_fenced_job_is_not_taken_while_its_commit_runs(queue, other):
    """The lease ends during the last transaction: the row is locked, so nobody else claims it."""
    video = queue.video()
    queue.add("ocr", video_id=video)
    job = queue.claim_one("ocr")
    queue.expire(job["id"])
    for _ in finish(other.cursor(), job, video):
        assert queue.claim("ocr", worker="other") == []
    other.commit()
    assert queue.status(job["id"]) == "done"


def test_enqueue_is_part_of_the_callers_transaction(queue, other):
    cursor = other.cursor()
    cursor.execute("INSERT INTO videos (s3_original_path) VALUES ('a') RETURNING id")
    video = cursor.fetchone()[0]
    cursor.execute("SELECT enqueue_job('transcode', '{}', %s)", (video,))
    assert queue.claim() == []
    other.rollback()
    assert queue.value("SELECT count(*) FROM jobs") == 0


def test_idle_workers_are_woken(queue, other):
    cursor = other.cursor()
    cursor.execute("LISTEN cv_jobs_ocr")
    other.commit()
    queue.add("ocr")
    queue.add("sample")
    cursor.execute("SELECT 1")
    other.poll()
    assert [note.channel for note in other.notifies] == ["cv_jobs_ocr"]


def test_claims_read_only_live_rows(queue):
    """20,000 done jobs: a claim reads the partial index, a handful of rows, never the table."""
    queue.run("""
        INSERT INTO jobs (job_type, status, finished_at)
        SELECT 'transcode', 'done', now() FROM generate_series(1, 20000)""")
    for _ in range(20):
        queue.add()
    queue.run("ANALYZE jobs")
    plan = queue.value("""
        EXPLAIN (FORMAT JSON)
        SELECT id FROM jobs WHERE job_type = 'transcode'::text AND status = 'queued' AND is_ready
        ORDER BY priority DESC, sequence, created_at, id LIMIT 10 FOR UPDATE SKIP LOCKED""")
    assert '"jobs_claim"' in json.dumps(plan)
    assert "Seq Scan" not in json.dumps(plan) and '"Sort"' not in json.dumps(plan)

    counters = """SELECT seq_scan, idx_tup_fetch, seq_tup_read FROM pg_stat_xact_user_tables
                  WHERE relname = 'jobs'"""
    queue.run("BEGIN")
    (before,) = queue.run(counters)
    assert len(queue.claim(limit=10)) == 10
    (after,) = queue.run(counters)
    queue.run("COMMIT")
    assert after["seq_tup_read"] == before["seq_tup_read"], "a claim has read the whole table"
    assert after["idx_tup_fetch"] - before["idx_tup_fetch"] <= 100


# ---- claims that begin behind dead entries -----------------------------------------------------------


@pytest.fixture
def ahead(queue):
    """Three jobs, and claims of this minute begin at the second."""
    ids = [queue.add() for _ in range(3)]
    begin_at(queue, ids[1])
    return ids


def begin_at(queue, job_id):
    """As the claims of this minute do when the first job was found there."""
    queue.run("UPDATE job_type_upkeep SET due_at = now() + interval '1 minute', from_priority = j.priority, from_sequence = j.sequence"
              " FROM jobs j WHERE j.id = %s AND job_type_upkeep.job_type = j.job_type", job_id)


def begins_ahead(queue):
    return queue.value("SELECT EXISTS (SELECT FROM job_type_upkeep WHERE from_sequence IS NOT NULL)")


def end_minute(queue):
    queue.run("UPDATE job_type_upkeep SET due_at = now()")


def test_claims_begin_where_the_first_job_was_found(queue, ahead):
    assert queue.claim_one()["id"] == ahead[1]
    assert {job["id"] for job in queue.claim(limit=3)} == {ahead[0], ahead[2]}, "none is left out"


def test_a_turn_looks_from_the_head_on(queue, ahead):
    end_minute(queue)
    assert queue.claim_one()["id"] == ahead[0]
    assert begins_ahead(queue) is False


@pytest.mark.parametrize("arrival", [
    f"SELECT job_id FROM enqueue_job('transcode', '{TRANSCODE}', p_sequence => 0)",
    f"SELECT job_id FROM enqueue_job('transcode', '{TRANSCODE}', p_priority => 9)",
    f"INSERT INTO jobs (job_type, priority, payload) VALUES ('transcode', 10, '{TRANSCODE}') RETURNING id"])
def test_what_comes_in_before_that_place_is_claimed_first(queue, ahead, arrival):
    first = queue.value(arrival)
    assert queue.claim_one()["id"] == first


def test_what_is_given_back_or_raised_is_claimed_first(queue, ahead):
    end_minute(queue)
    job = queue.claim_one()
    assert job["id"] == ahead[0]
    begin_at(queue, ahead[1])
    queue.call("release_job", job, "stop")
    job = queue.claim_one()
    assert job["id"] == ahead[0]
    begin_at(queue, ahead[1])
    assert queue.value("SELECT set_priority(%s, 8)", json.dumps({"id": str(ahead[2])})) == 1
    assert queue.claim_one()["id"] == ahead[2]


def test_what_comes_in_behind_it_changes_nothing(queue, ahead):
    queue.add()
    assert begins_ahead(queue) is True
    assert queue.claim_one()["id"] == ahead[1]


def test_dead_entries_that_a_snapshot_keeps_are_read_once_a_second(queue, other):
    queue.run(f"SELECT count(*) FROM enqueue_jobs('transcode', array_fill('{TRANSCODE}'::jsonb, ARRAY[2500]))")
    other.set_session(isolation_level="REPEATABLE READ")
    other.cursor().execute("SELECT count(*) FROM job_types")  # what it sees stays
    queue.run("SELECT complete_jobs(array_agg(id), array_agg(lease_token))"
              " FROM claim_jobs('w', 'transcode', 2400)")

    def entries_read():
        count = "SELECT idx_tup_read FROM pg_stat_user_indexes WHERE indexrelname = 'jobs_claim'"
        queue.run("SELECT pg_stat_force_next_flush()")
        before = queue.value(count)
        queue.claim_one()
        queue.run("SELECT pg_stat_force_next_flush()")
        return queue.value(count) - before

    end_minute(queue)
    assert entries_read() > 2000
    assert begins_ahead(queue) is True
    queue.run("UPDATE job_type_upkeep SET due_at = now() + interval '1 minute'")
    assert entries_read() < 100
