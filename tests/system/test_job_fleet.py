"""Fleet rules: fairness, limits, weights, sessions, pauses, roles, and why a job does not run."""

import json
import uuid

import psycopg2
import pytest

TENANTS = [uuid.UUID(int=n + 1) for n in range(1000)]
A, B, C = TENANTS[:3]


@pytest.fixture(autouse=True)
def types(queue):
    queue.run("INSERT INTO job_types (name, description, is_public) VALUES ('work', 'a', true), ('other', 'b', false)")


def add(queue, tenant=None, count=1, job_type="work", **named):
    places = "".join(f", p_{key} => %s" for key in named)
    return [row["id"] for row in queue.run(
        f"SELECT enqueue_jobs(%s, array_fill('{{}}'::jsonb, ARRAY[%s]), p_tenant_id => %s{places}) AS id",
        job_type, count, tenant, *named.values())]


def rule(queue, job_type="work", **values):
    queue.run(f"UPDATE job_types SET {', '.join(f'{key} = %s' for key in values)} WHERE name = %s",
              *values.values(), job_type)


def tenants(jobs):
    return [job["tenant_id"] for job in jobs]


def host(queue, name, budget=None, job_types=("work", "other"), slots=8, running=0):
    worker = f"{name}:1:boot"
    queue.run("SELECT report_worker(%s, %s, '1', %s, %s, %s, 'running')", worker, name, list(job_types),
              slots, running)
    queue.run("UPDATE hosts SET cpu_budget = %s WHERE name = %s", budget, name)
    return worker


def reasons(queue, job_id):
    return [row["reason"] for row in queue.run("SELECT * FROM why_job(%s)", job_id)]


# ---- fairness --------------------------------------------------------------------------------------


def test_tenants_take_turns_and_each_keeps_its_own_order(queue):
    """One by one or in batches. Of a thousand tenants, and beside one that floods: test_tenants.py."""
    queue.run("SELECT enqueue_job('work', '{}', p_tenant_id => %s) FROM generate_series(1, 50)", A)
    add(queue, B, 20)
    add(queue, C, 10)
    jobs = queue.claim("work", limit=30)
    assert {tenant: tenants(jobs).count(tenant) for tenant in (A, B, C)} == {A: 10, B: 10, C: 10}
    rest = queue.claim("work", limit=20)
    assert tenants(rest).count(B) == 10 and C not in tenants(rest)
    for tenant in (A, B, C):
        own = [job["sequence"] for job in jobs + rest if job["tenant_id"] == tenant]
        assert own == sorted(own)


def test_fairness_of_runs_holds_at_the_slowest_stage(queue):
    """One tenant has piled up at OCR; another's first upload is among the next there."""
    videos = {tenant: [queue.video(owner=tenant) for _ in range(n)] for tenant, n in ((A, 60), (B, 1))}

    def through(stage, limit):
        for job in queue.claim(stage, limit=limit):
            queue.call("complete_job", job)

    for video in videos[A]:
        queue.run("SELECT start_run('video_pipeline', '{}', %s)", video)
    through("transcode", 60)
    through("sample", 60)
    through("ocr", 10)
    queue.run("SELECT start_run('video_pipeline', '{}', %s)", videos[B][0])
    through("transcode", 1)
    through("sample", 1)
    assert B in tenants(queue.claim("ocr", limit=2))
    late = queue.video(owner=A)
    queue.run("SELECT start_run('video_pipeline', '{}', %s)", late)
    last = queue.value("SELECT max(sequence) FROM runs WHERE tenant_id = %s", A)
    assert queue.value("SELECT sequence FROM runs WHERE video_id = %s", late) == last


def test_a_priority_goes_before_a_turn(queue):
    add(queue, A, 5)
    add(queue, B, 1, priority=1)
    (urgent,) = add(queue, A, 1, priority=10)
    jobs = queue.claim("work", limit=7)
    assert jobs[0]["id"] == urgent and jobs[-1]["tenant_id"] == B


# ---- limits ----------------------------------------------------------------------------------------


def test_a_type_runs_no_more_than_its_limit_over_the_fleet(queue):
    add(queue, count=5)
    rule(queue, max_running=3)
    jobs = queue.claim("work", limit=2, worker="a") + queue.claim("work", limit=5, worker="b")
    assert len(jobs) == 3 and queue.claim("work", worker="c") == []
    waiting = queue.value("SELECT id FROM jobs WHERE status = 'queued' LIMIT 1")
    assert "limit reached" in reasons(queue, waiting)
    queue.call("complete_job", jobs[0])
    assert len(queue.claim("work", limit=5)) == 1
    rule(queue, max_running=4)  # while they run
    assert len(queue.claim("work", limit=5)) == 1
    rule(queue, max_running=0)
    assert queue.claim("work") == []


def test_two_workers_at_once_do_not_exceed_a_limit(queue, database):
    add(queue, count=5)
    rule(queue, max_running=1)
    other = psycopg2.connect(database)
    cursor = other.cursor()
    cursor.execute("SELECT id FROM claim_jobs('a', 'work', 5)")
    assert cursor.rowcount == 1
    assert queue.claim("work", limit=5) == []  # waits for the other's count, and not for long
    other.commit()
    other.close()
    assert queue.claim("work", limit=5) == []


def test_a_limit_per_tenant_leaves_the_others_theirs(queue):
    rule(queue, max_running_per_tenant=2)
    add(queue, A, 2000)
    add(queue, B, 3)
    add(queue, None, 1)
    jobs = queue.claim("work", limit=100)
    assert sorted(map(str, tenants(jobs))) == sorted(map(str, [A, A, B, B, None]))
    assert queue.claim("work", limit=10) == []
    queue.call("complete_job", next(job for job in jobs if job["tenant_id"] == B))
    assert tenants(queue.claim("work", limit=10)) == [B]
    waiting = queue.value("SELECT id FROM jobs WHERE status = 'queued' AND tenant_id = %s LIMIT 1", A)
    assert "limit reached" in reasons(queue, waiting)


def test_a_tenant_far_behind_many_of_one_at_its_limit_is_found(queue):
    rule(queue, max_running_per_tenant=1)
    add(queue, A, 2000)
    queue.claim("work", limit=5)
    queue.run("INSERT INTO jobs (job_type, priority, tenant_id, sequence) VALUES ('work', 5, %s, 999999),"
              " ('work', 5, NULL, 999998)", B)
    assert sorted(map(str, tenants(queue.claim("work", limit=5)))) == sorted(map(str, [B, None]))


# ---- hosts -----------------------------------------------------------------------------------------


def test_weights_share_a_hosts_budget(queue):
    rule(queue, cpu_weight=3)
    rule(queue, "other", cpu_weight=1)
    first, second = host(queue, "one", 7), host(queue, "two", 3)
    add(queue, count=9)
    add(queue, count=9, job_type="other")
    assert len(queue.claim("work", limit=9, worker=first)) == 2  # 6 of 7
    assert len(queue.claim("other", limit=9, worker=first)) == 1
    assert queue.claim("other", limit=9, worker=first) == []
    waiting = queue.value("SELECT id FROM jobs WHERE status = 'queued' AND job_type = 'work' LIMIT 1")
    assert "host busy" in reasons(queue, waiting)
    assert len(queue.claim("work", limit=9, worker=second)) == 1
    queue.run("UPDATE hosts SET cpu_budget = 9 WHERE name = 'one'")
    assert len(queue.claim("other", limit=9, worker=first)) == 2
    assert len(queue.claim("work", limit=2, worker="unknown:1:boot")) == 2, "no budget is known of it"


def test_a_job_heavier_than_the_budget_runs_alone(queue):
    rule(queue, cpu_weight=5)
    worker = host(queue, "small", 2)
    add(queue, count=3)
    (job,) = queue.claim("work", limit=3, worker=worker)
    assert queue.claim("work", limit=3, worker=worker) == []
    queue.call("complete_job", job)
    assert len(queue.claim("work", limit=3, worker=worker)) == 1


def test_what_is_more_urgent_keeps_its_share_of_a_host(queue):
    rule(queue, cpu_weight=2, base_priority=5)
    rule(queue, "other", cpu_weight=2, base_priority=5)
    worker = host(queue, "one", 2)
    add(queue)
    add(queue, job_type="other")
    rule(queue, base_priority=9)
    assert queue.claim("other", worker=worker) == [], "its place is work's"
    rule(queue, base_priority=5)
    rule(queue, interactive_adjustment=-4)
    queue.run("SELECT touch_session()")
    assert queue.claim("work", worker=worker) == [], "work is lowered while somebody searches"
    assert len(queue.claim("other", worker=worker)) == 1


# ---- sessions --------------------------------------------------------------------------------------


def test_a_session_puts_background_work_off_for_30_seconds(queue):
    rule(queue, put_off_while_interactive=True)
    (job_id,) = add(queue)
    add(queue, job_type="other")
    session = queue.value("SELECT touch_session(p_time_to_live => '10 seconds')")
    assert queue.claim("work") == [] and len(queue.claim("other")) == 1
    assert "put off" in reasons(queue, job_id)
    left = queue.value("SELECT extract(epoch FROM put_off_until - now()) FROM job_types"
                       " WHERE name = 'work'")
    assert 28 < left <= 30
    queue.run("UPDATE interactive_sessions SET expires_at = now() - interval '1 second'")
    assert queue.claim("work") == [], "the 30 seconds are not over"
    queue.run("UPDATE job_types SET put_off_until = now() WHERE name = 'work'")
    assert queue.value("SELECT touch_session(%s)", session) == session
    assert queue.claim("work") == [], "it was prolonged"
    queue.run("UPDATE interactive_sessions SET expires_at = now() - interval '1 hour'")
    queue.run("UPDATE job_types SET put_off_until = now() WHERE name = 'work'")
    assert len(queue.claim("work")) == 1
    queue.run("SELECT touch_session()")
    assert queue.value("SELECT count(*) FROM interactive_sessions") == 1, "the old one is swept away"


# ---- pauses, priorities, filters -------------------------------------------------------------------


def test_a_paused_type_runs_nothing_new(queue):
    (job_id, _) = add(queue, count=2)
    running = queue.claim_one("work")
    assert queue.value("SELECT pause_type('work', 'upgrade')") is True
    assert queue.claim("work") == [] and queue.call("renew_lease", running, "5 minutes") == "ok"
    waiting = queue.value("SELECT id FROM jobs WHERE status = 'queued'")
    assert reasons(queue, waiting)[0] == "type paused"
    queue.run("LISTEN cv_jobs_work")
    assert queue.value("SELECT resume_type('work')") is True
    queue.connection.poll()
    assert queue.connection.notifies, "workers are woken"
    assert len(queue.claim("work")) == 1
    assert queue.value("SELECT pause_type('nothing')") is False
    assert queue.value("SELECT resume_type('work')") is False


def test_a_paused_tenant_runs_nothing_new_and_holds_up_nobody(queue):
    add(queue, A, 1500)
    add(queue, B, 2)
    queue.run("SELECT pause_tenant(%s, 'unpaid')", A)
    assert tenants(queue.claim("work", limit=10)) == [B, B]
    waiting = queue.value("SELECT id FROM jobs WHERE tenant_id = %s LIMIT 1", A)
    assert reasons(queue, waiting)[0] == "tenant paused"
    assert queue.value("SELECT resume_tenant(%s)", A) is True
    assert tenants(queue.claim("work", limit=10)) == [A] * 10


def test_filters_cancel_and_move_what_they_mean(queue):
    mine, yours = add(queue, A, 3), add(queue, B, 2)
    add(queue, A, 2, job_type="other")
    running = queue.claim_one("work")
    assert running["id"] in mine + yours
    only = json.dumps({"job_type": "work", "tenant_id": str(B), "status": "queued"})
    assert queue.value("SELECT set_priority(%s, 9)", only) == sum(i != running["id"] for i in yours)
    assert queue.claim_one("work")["tenant_id"] == B
    assert queue.value("SELECT cancel_jobs(%s)", json.dumps({"job_type": "work"})) == 5
    assert queue.value("SELECT cancel_jobs(%s)", json.dumps({"job_type": "work"})) == 0
    statuses = queue.run("SELECT status, count(*) AS n FROM jobs WHERE job_type = 'work' GROUP BY 1 ORDER BY 1")
    assert statuses == [{"status": "processing", "n": 2}, {"status": "canceled", "n": 3}]
    assert queue.call("renew_lease", running, "5 minutes") == "cancel"
    for wrong in ("{}", "[]", '{"job_typ": "work"}', '{"job_type": "work", "x": 1}'):
        with pytest.raises(psycopg2.errors.InvalidParameterValue):
            queue.run("SELECT cancel_jobs(%s)", wrong)
    assert queue.value("SELECT count(*) FROM jobs WHERE job_type = 'other' AND status = 'queued'") == 2


def test_why_tells_each_state(queue):
    first, = add(queue)
    assert reasons(queue, first) == ["no worker", "waiting its turn"]
    host(queue, "h")
    assert reasons(queue, first) == ["waiting its turn"]
    child = queue.add("work", depends_on=[first])
    assert reasons(queue, child) == ["waiting for jobs"]
    late = queue.add("work", scheduled_for=queue.value("SELECT now() + interval '1 hour'"))
    assert reasons(queue, late) == ["scheduled"]
    job = queue.claim_one("work")
    assert reasons(queue, first) == ["running"]
    queue.expire(first)
    assert reasons(queue, first) == ["lease lost"]
    queue.fail(job)
    assert reasons(queue, first) == ["retry scheduled"]
    queue.run("UPDATE jobs SET scheduled_for = NULL WHERE id = %s", first)
    assert reasons(queue, first) == ["dead"]
    queue.run("SELECT cancel_job(%s)", late)
    assert reasons(queue, late) == ["canceled"]
    queue.run("SELECT report_disk('h', '/scratch', 100, 2)")
    again, = add(queue)
    assert reasons(queue, again) == ["disk full", "waiting its turn"]
    assert reasons(queue, uuid.uuid4()) == []


# ---- workers, disks, nodes -------------------------------------------------------------------------


def test_a_worker_asked_to_drain_claims_nothing_and_is_told(queue):
    worker = host(queue, "one")
    add(queue, count=2)
    queue.run("LISTEN cv_drain")
    assert queue.value("SELECT drain_worker(%s)", worker) is True
    queue.connection.poll()
    assert [note.payload for note in queue.connection.notifies] == [worker]
    assert queue.claim("work", worker=worker) == [] and len(queue.claim("work", worker="other")) == 1
    assert queue.value("SELECT report_worker(%s, 'one', '1', '{work}', 1, 0, 'running')", worker) == "drain"
    assert queue.value("SELECT drain_worker('nobody')") is False


@pytest.mark.parametrize("free, level", [(100, "ok"), (16, "ok"), (15, "warning"), (11, "warning"),
                                         (10, "critical"), (6, "critical"), (5, "emergency"), (0, "emergency")])
def test_the_four_levels_of_a_disk(queue, free, level):
    assert queue.value("SELECT report_disk('h', '/scratch', 100, %s)", free) == level
    assert queue.run("SELECT disk_level FROM hosts") == [{"disk_level": level}]


def test_a_large_disk_is_not_full_with_tens_of_gigabytes_free(queue):
    """The same disks as in tests/unit/test_base.c."""
    for free, level in ((49, "ok"), (48, "warning"), (32, "critical"), (17, "critical"), (16, "emergency")):
        assert queue.value("SELECT report_disk('h', '/', 4000::bigint << 30, %s::bigint << 30)", free) == level, free
    assert queue.value("SELECT report_disk('h', '/', 0, 0)") == "ok"


def test_the_disk_log_keeps_the_last_thousand_of_a_host(queue):
    queue.run("SELECT report_disk('h', '/', 100, mod(n, 100)) FROM generate_series(1, 1100) AS n")
    queue.run("SELECT report_disk('g', '/', 100, 50)")
    assert queue.run("SELECT host, count(*) AS n FROM disk_status_log GROUP BY 1 ORDER BY 1") == [
        {"host": "g", "n": 1}, {"host": "h", "n": 1000}]
    assert queue.value("SELECT free_bytes FROM disk_status_log WHERE host = 'h' ORDER BY id LIMIT 1") == 1


def node(queue, name="n", job_types=("work",)):
    queue.run("INSERT INTO nodes (name, host, job_types, wake_method, mac) VALUES (%s, %s, %s, 'wol',"
              " '02:00:00:00:00:01')", name, name, list(job_types))


def woken(queue):
    return [row["name"] for row in queue.run("SELECT name FROM nodes_to_wake()")]


def test_a_node_is_woken_for_a_job_that_starts_within_five_minutes(queue):
    node(queue)
    node(queue, "off")
    queue.run("UPDATE nodes SET is_enabled = false WHERE name = 'off'")
    assert woken(queue) == []
    late = queue.add("work", scheduled_for=queue.value("SELECT now() + interval '10 minutes'"))
    assert woken(queue) == []
    queue.run("UPDATE jobs SET scheduled_for = now() + interval '4 minutes' WHERE id = %s", late)
    assert woken(queue) == ["n"]
    assert woken(queue) == [], "not again within five minutes"
    queue.run("UPDATE nodes SET woken_at = now() - interval '6 minutes'")
    assert woken(queue) == ["n"]
    queue.run("UPDATE nodes SET woken_at = NULL")
    host(queue, "n", slots=1)
    assert woken(queue) == [], "it is awake"


def test_a_node_sleeps_while_others_have_room(queue):
    node(queue)
    host(queue, "awake", slots=2, running=1)
    add(queue)
    assert woken(queue) == []
    add(queue)
    assert woken(queue) == ["n"]
    queue.run("UPDATE nodes SET woken_at = NULL")
    rule(queue, paused_at="now")
    assert woken(queue) == []


@pytest.mark.parametrize("wrong", [
    "('x', 'x', '{work}', 'wol', NULL, NULL)", "('x', 'x', '{work}', 'wol', 'zz', NULL)",
    "('x', 'x', '{work}', 'script', NULL, '{wake.sh}')", "('x', 'x', '{work}', 'script', NULL, NULL)",
    "('x', 'x', '{work}', 'shell', NULL, '{/bin/true}')"])
def test_a_node_that_cannot_be_woken_is_refused(queue, wrong):
    with pytest.raises(psycopg2.errors.CheckViolation):
        queue.run(f"INSERT INTO nodes (name, host, job_types, wake_method, mac, script) VALUES {wrong}")


# ---- roles -----------------------------------------------------------------------------------------


class App:
    """A session of an application's role with a user's token."""

    def __init__(self, queue, user):
        self.queue = queue
        queue.run("SELECT set_config('request.jwt.claims', %s, false)", json.dumps({"sub": str(user)}))

    def __enter__(self):
        self.queue.run("SET ROLE cortana_app")
        return self.queue

    def __exit__(self, *failure):
        self.queue.run("RESET ROLE")


def test_an_application_enqueues_and_reads_its_own(queue):
    theirs, = add(queue, B)
    video = queue.video(owner=A)
    queue.run("UPDATE videos SET s3_original_path = 'videos/original/x/master.mp4' WHERE id = %s", video)
    with App(queue, A) as app:
        mine = app.add("work", {"n": 1})
        assert app.run("SELECT id FROM jobs") == [{"id": mine}]
        assert app.job(mine)["tenant_id"] == A
        assert app.value("SELECT cancel_job(%s)", theirs) == "not_found"
        assert app.value("SELECT cancel_job(%s)", mine) == "canceled"
        assert app.value("SELECT retry_job(%s)", mine) == "queued"
        assert app.value("SELECT retry_job(%s)", theirs) == "not_found"
        assert app.run("SELECT * FROM why_job(%s)", theirs) == []
        assert app.run("SELECT reason FROM why_job(%s)", mine)
        (run,) = app.run("SELECT * FROM start_run('video_pipeline', '{}', %s)", video)
        assert app.run("SELECT id, status FROM run_overview") == [{"id": run["run_id"], "status": "running"}]
        assert app.value("SELECT cancel_run(%s)", run["run_id"]) == "canceled"
        assert app.value("SELECT restart_run(%s)", run["run_id"]) == 2  # the two that waited were skipped, and come back with them
        assert app.value("SELECT touch_session()") is not None
    with App(queue, B) as app:
        assert app.run("SELECT id FROM jobs") == [{"id": theirs}]
        assert app.run("SELECT id FROM runs") == []
        assert app.value("SELECT cancel_run(%s)", run["run_id"]) == "not_found"
        assert app.value("SELECT restart_run(%s)", run["run_id"]) is None


def test_an_application_adds_many_jobs_at_once(queue):
    with App(queue, A) as app:
        added = app.run("SELECT enqueue_jobs('work', ARRAY['{}', '{}', '{}']::jsonb[]) AS id")
        assert len(added) == 3
        with pytest.raises(psycopg2.errors.InsufficientPrivilege, match="does not belong to the video"):
            app.run("SELECT enqueue_jobs('work', ARRAY[%s, %s]::jsonb[])", "{}", json.dumps({"video_id": str(A)}))
    assert queue.value("SELECT count(*) FROM jobs WHERE tenant_id = %s", A) == 3


def test_what_an_application_may_not(queue):
    video, other = queue.video(owner=A), queue.video(owner=B)
    queue.run("UPDATE videos SET s3_original_path = 'videos/original/' || id || '/master.mp4'")
    theirs, = add(queue, B)
    forbidden = [
        ("SELECT enqueue_job('other', '{}')", ()),
        ("SELECT enqueue_job('work', '{}', p_tenant_id => %s)", (B,)),
        ("SELECT enqueue_jobs('work', ARRAY['{}']::jsonb[], p_tenant_id => %s)", (B,)),
        ("SELECT enqueue_job('work', '{}', p_depends_on => ARRAY[%s]::uuid[])", (theirs,)),
        ("SELECT enqueue_job('ocr', '{}')", ()),
        ("SELECT enqueue_job('ocr', '{}', %s)", (other,)),
        ("SELECT start_run('video_pipeline', '{}', %s)", (other,)),
        ("SELECT start_run('video_pipeline', '{}')", ()),
        ("SELECT enqueue_job('clip_generate', %s, %s)", (json.dumps({"video_id": str(other)}), video)),
        ("SELECT enqueue_job('clip_generate', %s, %s)", (json.dumps(
            {"video_id": str(video), "s3_original_path": f"videos/original/{other}/master.mp4"}), video)),
        ("SELECT enqueue_job('ocr', %s, %s)", (json.dumps(
            {"video_id": str(video), "frame_paths": [f"frames/{other}/1.jpg"]}), video)),
        ("SELECT enqueue_job('clip_generate', %s, %s)", (json.dumps(
            {"t_start": 0, "t_end": 1000, "redact": ["mail"], "covers": [{"pack": f"lines/{other}/0.pack"}]}), video)),
        ("SELECT start_run('video_pipeline', %s, %s)", (json.dumps(
            {"s3_original_path": f"videos/original/{other}/master.mp4"}), video)),
        ("SELECT claim_jobs('me', 'work')", ()),
        ("SELECT complete_job(%s, 1)", (theirs,)),
        ("SELECT pause_type('work')", ()),
        ("SELECT cancel_jobs('{\"job_type\": \"work\"}')", ()),
        ("SELECT lease_jobs('me', 'work', 1, '1 hour', NULL, false, NULL, NULL)", ()),
        ("UPDATE jobs SET status = 'processing'", ()),
        ("INSERT INTO jobs (job_type) VALUES ('work')", ()),
        ("INSERT INTO workflows (name, steps) VALUES ('x', '[]')", ()),
        ("SELECT report_disk('h', '/', 1, 1)", ()),
        ("SELECT * FROM queue_depth_of('work')", ()),
        ("SELECT require_program(1, 'x')", ()),
    ]
    with App(queue, A) as app:
        for statement, parameters in forbidden:
            with pytest.raises(psycopg2.errors.InsufficientPrivilege):
                app.run(statement, *parameters)
    queue.run("SELECT set_config('request.jwt.claims', '', false)")
    queue.run("SET ROLE cortana_app")  # without a token
    with pytest.raises(psycopg2.errors.InsufficientPrivilege):
        queue.add("work")


def test_a_worker_role_claims(queue):
    add(queue)
    queue.run("SET ROLE cortana_worker")
    job = queue.claim_one("work")
    assert queue.call("complete_job", job) is True


# ---- views and history -----------------------------------------------------------------------------


def test_counts_of_what_is_open(queue):
    add(queue, count=3)
    queue.add("work", scheduled_for=queue.value("SELECT now() + interval '1 hour'"))
    queue.claim("work")
    queue.fail(queue.claim_one("work"), "NotAVideo", retryable=False)
    (row,) = queue.run("SELECT * FROM job_counts WHERE job_type = 'work'")
    assert (row["ready"], row["waiting"], row["running"], row["dead"], row["retrying"]) == (1, 1, 1, 1, 0)
    assert queue.run("SELECT error_type, jobs FROM job_failures") == [{"error_type": "NotAVideo", "jobs": 1}]
    (worker,) = queue.run("SELECT * FROM worker_activity")
    assert (worker["attempts"], worker["failed"]) == (1, 1)  # the other one runs


def test_an_archived_month_comes_back_as_it_was(queue):
    queue.run("CREATE TABLE cortana.task_events_2020_01 PARTITION OF task_events"
              " FOR VALUES FROM ('2020-01-01Z') TO ('2020-02-01Z')")
    queue.run("INSERT INTO task_events (ts, source, type, message, data, job_id)"
              " SELECT '2020-01-05Z'::timestamptz + n * interval '1 second', 's', 't', 'm' || n, '{\"a\": [1]}',"
              " gen_random_uuid() FROM generate_series(1, 50) AS n")
    everything = queue.run("SELECT * FROM task_events ORDER BY id")
    assert queue.run("SELECT event_partitions_before(30) AS p") == [{"p": "task_events_2020_01"}]
    lines = []
    while batch := queue.run("SELECT * FROM export_events('task_events_2020_01', %s, 20)",
                             lines[-1]["id"] if lines else 0):
        lines += batch
    assert len(lines) == 50
    drop = "SELECT drop_archived_events('task_events_2020_01', 'k', %s, 'c')"
    assert queue.value(drop, 49) is False, "a row is missing in the archive"
    assert queue.value(drop, 50) is True
    assert queue.run("SELECT * FROM task_events") == []
    text = "[" + ",".join(row["line"] for row in lines) + "]"
    assert queue.value("SELECT restore_events(%s)", text) == 50
    assert queue.value("SELECT restore_events(%s)", text) == 0
    assert queue.run("SELECT * FROM task_events ORDER BY id") == everything
    with pytest.raises(psycopg2.errors.CheckViolation, match="append-only"):
        queue.run("TRUNCATE task_events_2020_01")
    with pytest.raises(psycopg2.errors.InvalidParameterValue):
        queue.run("SELECT * FROM export_events('jobs; DROP TABLE jobs')")
    assert queue.value("SELECT drop_archived_events('task_events_default', 'k', 0, 'c')") is False
