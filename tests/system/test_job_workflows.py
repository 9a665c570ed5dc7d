"""Workflows: definitions, runs, fan-out and fan-in, parameters, restart; by SQL alone."""

import json
import re

import psycopg2
import pytest

TYPES = """INSERT INTO job_types (name, description, retry_delays)
           VALUES ('work', 'a', '{}'), ('other', 'b', '{}')"""


@pytest.fixture(autouse=True)
def types(queue):
    queue.run(TYPES)


def flow(text):
    """Steps as key:type<parents, of the type work where none is named."""
    return [{"key": key, "job_type": job_type or "work", **({"depends_on": parents.split(",")} if parents else {})} for key, job_type, parents in
            (re.fullmatch(r"(\w+)(?::(\w+))?(?:<([\w,]+))?", step).groups() for step in text.split())]


def define(queue, steps, name="flow"):
    return queue.value("INSERT INTO workflows (name, steps) VALUES (%s, %s) RETURNING version", name,
                       steps if isinstance(steps, str) else json.dumps(steps))


def start(queue, name="flow", run_input=None, **named):
    places = "".join(f", p_{key} => %s" for key in named)
    (row,) = queue.run(f"SELECT * FROM start_run(%s, %s{places})", name, json.dumps(run_input or {}),
                       *named.values())
    return row["run_id"]


def run_row(queue, run_id):
    (row,) = queue.run("SELECT * FROM run_overview WHERE id = %s", run_id)
    return row


def step(queue, run_id, key, part=0):
    (row,) = queue.run("SELECT * FROM jobs WHERE run_id = %s AND step = %s AND part = %s", run_id, key,
                       part)
    return row


def work(queue, result=None, hand_on=None, job_type="work"):
    """Claims one job and completes it as a supervisor does."""
    job = queue.claim_one(job_type)
    queue.run("BEGIN")
    assert queue.call("fence_job", job) is True
    if hand_on:
        assert queue.call("hand_on", job, hand_on[0], json.dumps(hand_on[1])) is True
    assert queue.call("complete_job", job, json.dumps(result)) is True
    queue.run("COMMIT")
    return job


def test_a_diamond_runs_in_order_and_ends(queue):
    define(queue, flow("a b<a c<a d<b,c"))
    run_id = start(queue)
    assert [work(queue)["step"]] == ["a"]
    assert sorted(work(queue)["step"] for _ in range(2)) == ["b", "c"]
    assert run_row(queue, run_id)["status"] == "running"
    assert work(queue)["step"] == "d"
    row = run_row(queue, run_id)
    assert (row["status"], row["jobs"], row["done"], row["progress"]) == ("done", 4, 4, 1)
    assert row["finished_at"] is not None
    jobs = queue.run("SELECT DISTINCT sequence, correlation_id FROM jobs WHERE run_id = %s", run_id)
    assert len(jobs) == 1
    events = queue.run("SELECT message FROM task_events WHERE run_id = %s ORDER BY id", run_id)
    assert [event["message"] for event in events] == ["run started", "run done"]


def test_a_step_waits_for_all_parents_even_when_one_is_retried(queue):
    queue.run("UPDATE job_types SET retry_delays = '{1 hour}' WHERE name = 'work'")
    define(queue, flow("a b:other c<a,b"))
    run_id = start(queue)
    job = queue.claim_one("work")
    assert queue.fail(job) == "retry"
    work(queue, job_type="other")
    assert queue.claim("work") == [] and run_row(queue, run_id)["status"] == "running"
    queue.make_retry_due(job["id"])
    work(queue)
    assert work(queue)["step"] == "c"
    assert run_row(queue, run_id)["status"] == "done"


def test_payloads_are_put_together_from_all_their_sources(queue):
    define(queue, [
        {"key": "first", "job_type": "work", "defaults": {"a": 1, "b": 1},
         "params": {"run": "{{run.workflow}}-{{ run.version }}"}},
        {"key": "second", "job_type": "other", "depends_on": ["first"], "defaults": {"x": 0, "y": 0},
         "params": {"whole": "{{steps.first.result.list}}", "part": "{{steps.first.result.list.1}}",
                    "text": "<{{steps.first.result.n}}|{{input.a}}|{{input.none}}>",
                    "gone": "{{input.none}}", "deep": [{"v": "{{input.a}}"}, "{{input.none}}"],
                    "handed": "{{steps.first.output.secret}}", "plain": "{not one}"}}])
    run_id = start(queue, run_input={"b": 2, "a": "A"})
    first = work(queue, {"list": [1, {"two": 2}], "n": 7},
                 hand_on=("other", {"y": 9, "secret": "s"}))
    assert first["payload"] == {"a": "A", "b": 2, "run": "flow-1"}
    second = work(queue, job_type="other")
    assert second["payload"] == {
        "x": 0, "y": 9, "secret": "s", "whole": [1, {"two": 2}], "part": {"two": 2},
        "text": "<7|A|>", "deep": [{"v": "A"}, None], "handed": "s", "plain": "{not one}"}
    assert run_row(queue, run_id)["status"] == "done"
    assert queue.value("SELECT count(*) FROM job_outputs") == 0, "gone with the run"


def test_what_a_zombie_hands_on_is_refused(queue):
    define(queue, flow("a b<a"))
    queue.run("UPDATE job_types SET retry_delays = '{1 hour}'")
    run_id = start(queue)
    zombie = queue.claim_one("work")
    queue.expire(zombie["id"])
    living = queue.claim_one("work")
    assert queue.call("hand_on", zombie, "work", '{"from": "zombie"}') is False
    assert queue.call("hand_on", living, "work", '{"from": "living"}') is True
    assert queue.call("complete_job", zombie) is False
    assert queue.call("complete_job", living) is True
    assert step(queue, run_id, "b")["payload"] == {"from": "living"}


def test_fan_out_and_fan_in(queue):
    define(queue, [
        {"key": "split", "job_type": "work"},
        {"key": "piece", "job_type": "work", "depends_on": ["split"],
         "fan_out": {"over": ["items", "names"], "size": 3}},
        {"key": "join", "job_type": "other", "depends_on": ["piece", "split"],
         "params": {"sums": "{{steps.piece.results}}"}}])
    run_id = start(queue)
    work(queue, hand_on=("work", {"items": list(range(8)), "names": list("abcdefgh"), "k": "v"}))
    pieces = queue.claim("work", limit=10)
    assert [(p["part"], p["payload"]["items"], p["payload"]["names"], p["payload"]["k"])
            for p in sorted(pieces, key=lambda p: p["part"])] == [
        (0, [0, 1, 2], ["a", "b", "c"], "v"), (1, [3, 4, 5], ["d", "e", "f"], "v"),
        (2, [6, 7], ["g", "h"], "v")]
    for piece in reversed(pieces):
        assert queue.claim("other") == []
        queue.call("complete_job", piece, json.dumps({"sum": sum(piece["payload"]["items"])}))
    join = work(queue, job_type="other")
    assert join["payload"] == {"sums": [{"sum": 3}, {"sum": 12}, {"sum": 13}]}
    row = run_row(queue, run_id)
    assert (row["status"], row["jobs"]) == ("done", 5)


def test_a_step_that_goes_on_hands_each_part_to_a_job_of_its_own(queue):
    define(queue, [{"key": "watch", "job_type": "work"},
                   {"key": "read", "job_type": "other", "depends_on": ["watch"],
                    "fan_out": {"over": ["items"], "size": 2}},
                   {"key": "join", "job_type": "work", "depends_on": ["read"]}])
    run_id = start(queue, run_input={"k": "v"})

    def watch(items, next_payload=None):
        job = queue.claim_one("work")
        queue.run("BEGIN")
        assert queue.call("hand_on", job, "other", json.dumps({"items": items})) is True
        assert next_payload is None or queue.call("continue_step", job, json.dumps(next_payload)) is True
        assert queue.call("complete_job", job, "{}") is True
        queue.run("COMMIT")
        return job

    first = watch([1, 2, 3], {"from": 3})
    assert queue.call("continue_step", first, "{}") is False, "the lease has ended"
    assert [work(queue, job_type="other")["payload"]["items"] for _ in range(2)] == [[1, 2], [3]]
    assert queue.claim("other") == [], "the rest is not there yet"
    second = watch([4], {"from": 4})
    assert (second["step"], second["part"], second["payload"]) == ("watch", 1, {"from": 3})
    watch([5, 6, 7])
    assert queue.claim("work") == [], "what joins them waits for all parts"
    rest = [work(queue, job_type="other")["payload"]["items"] for _ in range(3)]
    assert sorted(rest) == [[4], [5, 6], [7]]
    assert work(queue)["step"] == "join" and run_row(queue, run_id)["status"] == "done"
    parts = queue.run("SELECT part FROM jobs WHERE step = 'read' ORDER BY part")
    assert len(parts) == len({row["part"] for row in parts}) == 5


def test_a_canceled_reader_gets_its_parts_all_the_same(queue):
    define(queue, flow("watch read:other<watch join<read"))
    run_id = start(queue)
    reader = step(queue, run_id, "read")["id"]
    assert queue.value("SELECT cancel_job(%s)", reader) == "canceled"
    job = queue.claim_one("work")
    assert queue.call("continue_step", job, "{}") is True and queue.call("complete_job", job, "{}") is True
    work(queue)
    assert work(queue, job_type="other")["part"] == 1
    assert queue.value("SELECT retry_job(%s)", reader) == "queued"
    assert work(queue, job_type="other")["part"] == 0
    assert work(queue)["step"] == "join" and run_row(queue, run_id)["status"] == "done"


def test_only_a_job_of_a_run_goes_on(queue):
    queue.add("work")
    job = queue.claim_one("work")
    with pytest.raises(psycopg2.errors.InvalidParameterValue, match="belongs to no run"):
        queue.call("continue_step", job, "{}")


@pytest.mark.parametrize("handed, parts", [
    ({"items": []}, 1), ({"items": [1, 2]}, 1), ({"items": [1, 2, 3]}, 2), ({"items": "no list"}, 1), ({}, 1)])
def test_fan_out_over_little_or_nothing_is_one_job(queue, handed, parts):
    define(queue, [{"key": "a", "job_type": "work"},
                   {"key": "b", "job_type": "work", "depends_on": ["a"],
                    "fan_out": {"over": ["items"], "size": 2}}])
    run_id = start(queue)
    work(queue, hand_on=("work", handed))
    for _ in range(parts):
        work(queue)
    assert queue.claim("work") == [] and run_row(queue, run_id)["status"] == "done"


def test_thousands_of_parts_and_never_more_than_the_most(queue):
    define(queue, [{"key": "a", "job_type": "work", "fan_out": {"over": ["items"], "size": 1}}])
    start(queue, run_input={"items": list(range(25000))})
    counted = queue.run("SELECT count(*) AS n, max(jsonb_array_length(payload -> 'items')) AS most,"
                        " sum(jsonb_array_length(payload -> 'items')) AS items FROM jobs")
    assert counted == [{"n": 8334, "most": 3, "items": 25000}]


def test_a_run_fails_when_nothing_else_can_run_and_restarts_where_it_failed(queue):
    define(queue, flow("a b:other c<a d<b,c"))
    run_id = start(queue)
    work(queue)
    assert queue.fail(queue.claim_one("work"), "NotAVideo", retryable=False) == "failed"
    assert run_row(queue, run_id)["status"] == "running", "b can still run"
    work(queue, job_type="other")
    row = run_row(queue, run_id)
    assert (row["status"], row["failed_step"], row["error_type"]) == ("failed", "c", "NotAVideo")
    assert queue.value("SELECT restart_run(%s)", run_id) == 1
    assert run_row(queue, run_id)["status"] == "running"
    assert [work(queue)["step"] for _ in range(2)] == ["c", "d"]
    assert run_row(queue, run_id)["status"] == "done"
    assert queue.value("SELECT restart_run(%s)", run_id) == 0
    assert queue.value("SELECT restart_run(gen_random_uuid())") is None
    assert [job["attempt"] for job in queue.run("SELECT attempt FROM jobs ORDER BY step")] == [1, 1, 2, 1]


def test_what_waits_for_a_step_that_has_failed_is_skipped_and_goes_on_with_it(queue):
    define(queue, flow("a b:other c<a d<b,c"))

    def waiting():
        return {row["step"]: (row["status"], row["skipped"], row["progress_message"]) for row in queue.run(
            "SELECT step, status::text, skipped, progress_message FROM jobs WHERE step IN ('c', 'd')")}

    run_id = start(queue)
    queue.fail(queue.claim_one("work"), "NotAVideo", retryable=False)
    assert waiting() == dict.fromkeys("cd", ("queued", False, None)), "b may still be done"
    work(queue, job_type="other")
    assert run_row(queue, run_id)["status"] == "failed"
    assert waiting() == dict.fromkeys("cd", ("canceled", True, "skipped: a has failed"))
    first, last = step(queue, run_id, "a"), step(queue, run_id, "d")
    reason, = queue.run("SELECT * FROM why_job(%s)", last["id"])
    assert (reason["reason"], reason["facts"]) == ("skipped", {"job": str(first["id"]), "step": "a", "status": "failed"})
    told = queue.run("SELECT message FROM task_events WHERE job_id = %s ORDER BY id", last["id"])
    assert [row["message"] for row in told] == ["queued", "skipped: a has failed"]

    assert queue.value("SELECT retry_job(%s)", first["id"]) == "queued"
    assert waiting() == dict.fromkeys("cd", ("queued", False, None))
    assert queue.value("SELECT cancel_job(%s)", first["id"]) == "canceled"
    assert waiting() == dict.fromkeys("cd", ("canceled", True, "skipped: a was canceled"))
    assert queue.value("SELECT restart_run(%s)", run_id) == 1
    assert [work(queue)["step"] for _ in range(3)] == ["a", "c", "d"]
    assert run_row(queue, run_id)["status"] == "done"


def test_a_step_that_somebody_canceled_stays_so(queue):
    define(queue, flow("a b<a"))
    run_id = start(queue)
    assert queue.value("SELECT cancel_job(%s)", step(queue, run_id, "b")["id"]) == "canceled"
    queue.fail(queue.claim_one("work"), "NotAVideo", retryable=False)
    assert queue.value("SELECT retry_job(%s)", step(queue, run_id, "a")["id"]) == "queued"
    work(queue)
    assert step(queue, run_id, "b")["status"] == "canceled" and run_row(queue, run_id)["status"] == "canceled"


@pytest.mark.parametrize("ends_well", [True, False])
def test_a_video_that_gets_playback_stays_ready(queue, ends_well):
    video = queue.value("INSERT INTO videos (status, ready_at, s3_original_path) VALUES ('ready', now(), 'x') RETURNING id")
    run_id = queue.value("SELECT run_id FROM start_run('video_playback', '{}', %s)", video)
    job = queue.claim_one("transcode")
    states = [queue.value("SELECT status::text FROM videos")]
    if ends_well:
        queue.call("complete_job", job)
    else:
        queue.fail(job, "DecodeError", retryable=False)
    states.append(queue.value("SELECT status::text FROM videos"))
    assert (states, run_row(queue, run_id)["status"]) == (["ready", "ready"], "done" if ends_well else "failed")


def test_a_branch_that_ends_last_decides(queue):
    """A dead branch, and then the other one done: what joins them can never run."""
    define(queue, flow("a b:other c<a,b"))
    run_id = start(queue)
    queue.fail(queue.claim_one("work"), "NotAVideo", retryable=False)
    assert run_row(queue, run_id)["status"] == "running"
    job = queue.claim_one("other")
    assert queue.value("SELECT complete_jobs(ARRAY[%s]::uuid[], ARRAY[%s]::bigint[])", job["id"],
                       job["lease_token"]) == 1
    assert run_row(queue, run_id)["status"] == "failed"


def test_cancel_stops_all_of_a_run_and_restart_takes_it_up(queue):
    define(queue, flow("a b:other c<a,b"))
    run_id = start(queue)
    running = queue.claim_one("other")
    assert queue.value("SELECT cancel_run(%s)", run_id) == "requested"
    assert run_row(queue, run_id)["status"] == "running"
    assert queue.call("complete_job", running) is True, "it got done all the same"
    assert run_row(queue, run_id)["status"] == "canceled"
    assert queue.value("SELECT restart_run(%s)", run_id) == 2
    work(queue)
    assert work(queue)["step"] == "c"
    assert run_row(queue, run_id)["status"] == "done"
    assert queue.value("SELECT cancel_run(%s)", run_id) == "wrong_state"
    assert queue.value("SELECT cancel_run(gen_random_uuid())") == "not_found"


def test_a_step_canceled_alone_meets_parents_that_are_done(queue):
    define(queue, [{"key": "a", "job_type": "work"},
                   {"key": "b", "job_type": "work", "depends_on": ["a"],
                    "params": {"from": "{{steps.a.result}}"}}])
    run_id = start(queue)
    waiting = step(queue, run_id, "b")
    assert queue.value("SELECT cancel_job(%s)", waiting["id"]) == "canceled"
    work(queue, "r")
    assert run_row(queue, run_id)["status"] == "canceled"
    assert queue.value("SELECT retry_job(%s)", waiting["id"]) == "queued"
    assert work(queue)["payload"] == {"from": "r"}
    assert run_row(queue, run_id)["status"] == "done"


def test_versions_stand_while_runs_read_them(queue):
    first = define(queue, [{"key": "a", "job_type": "work"},
                           {"key": "b", "job_type": "work", "depends_on": ["a"], "params": {"v": 1}}])
    old = start(queue)
    second = define(queue, [{"key": "a", "job_type": "work", "params": {"v": 2}}])
    assert (first, second) == (1, 2)
    assert queue.run("SELECT version FROM workflows WHERE name = 'flow' AND is_active") == [{"version": 2}]
    new = start(queue)
    payloads = [work(queue)["payload"] for _ in range(3)]  # the older run first, at every step
    assert payloads == [{}, {"v": 1}, {"v": 2}]
    assert {run_row(queue, r)["status"] for r in (old, new)} == {"done"}
    again = start(queue, version=1)
    assert run_row(queue, again)["version"] == 1
    with pytest.raises(psycopg2.errors.CheckViolation, match="cannot be changed"):
        queue.run("UPDATE workflows SET steps = '[]' WHERE name = 'flow' AND version = 1")
    queue.run("UPDATE workflows SET is_active = true WHERE name = 'flow' AND version = 1")
    assert run_row(queue, start(queue))["version"] == 1


def test_one_run_of_a_video_at_a_time(queue):
    video = queue.video()
    (first,) = queue.run("SELECT * FROM start_run('video_pipeline', '{}', %s)", video)
    (second,) = queue.run("SELECT * FROM start_run('video_pipeline', '{}', %s)", video)
    assert first["is_new"] and second == {"run_id": first["run_id"], "is_new": False}
    assert queue.value("SELECT count(*) FROM jobs") == 4 and queue.value("SELECT count(*) FROM runs") == 1
    alone = queue.video()
    queue.add("ocr", video_id=alone)
    with pytest.raises(psycopg2.errors.UniqueViolation, match="belong to no run"):
        queue.run("SELECT * FROM start_run('video_pipeline', '{}', %s)", alone)


def test_a_start_is_part_of_the_callers_transaction(queue):
    queue.run("BEGIN")
    start(queue, "video_pipeline", video_id=queue.video())
    queue.run("ROLLBACK")
    assert queue.value("SELECT count(*) FROM runs") == queue.value("SELECT count(*) FROM jobs") == 0


def test_runs_put_off_start_when_it_is_time(queue):
    define(queue, flow("a"))
    run_id = start(queue, scheduled_for=queue.value("SELECT now() + interval '1 hour'"))
    assert queue.claim("work") == [] and run_row(queue, run_id)["status"] == "running"
    queue.run("UPDATE jobs SET scheduled_for = now() - interval '1 second'")
    work(queue)
    assert run_row(queue, run_id)["status"] == "done"


A = {"key": "a", "job_type": "work"}
WRONG = {
    "no list": ('{"key": "a"}', "a list of 1 to 200"),
    "nothing": ("[]", "a list of 1 to 200"),
    "too many": (json.dumps([{**A, "key": f"k{n}"} for n in range(201)]), "a list of 1 to 200"),
    "no object": ("[1]", "must be an object"),
    "null": ("[null]", "must be an object"),
    "no key": ('[{"job_type": "work"}]', 'needs a "key"'),
    "a key of no letters": ('[{"key": "a b", "job_type": "work"}]', 'needs a "key"'),
    "a key that is a number": ('[{"key": 1, "job_type": "work"}]', 'needs a "key"'),
    "twice": (json.dumps([A, A]), 'two steps are called "a"'),
    "unknown member": (json.dumps([{**A, "shell": "rm"}]), 'the member "shell" is unknown'),
    "no type": ('[{"key": "a"}]', "job type none is not registered"),
    "unheard of type": ('[{"key": "a", "job_type": "nope"}]', "is not registered"),
    "parents no list": (json.dumps([{**A, "depends_on": "a"}]), "must be a list of keys"),
    "parents no texts": (json.dumps([{**A, "depends_on": [1]}]), "must be a list of keys"),
    "unknown parent": (json.dumps([{**A, "depends_on": ["b"]}]), 'depends on "b", but there is no step of that name'),
    "itself": (json.dumps([{**A, "depends_on": ["a"]}]), "the steps a depend on one another in a cycle"),
    "a circle": (json.dumps([{**A, "depends_on": ["c"]}, {**A, "key": "b", "depends_on": ["a"]},
                             {**A, "key": "c", "depends_on": ["b"]}, {**A, "key": "d"}]),
                 "the steps a, b, c depend on one another in a cycle"),
    "params no object": (json.dumps([{**A, "params": []}]), "must be objects"),
    "priority": (json.dumps([{**A, "priority": 11}]), '"priority" must be one of low, normal, high, urgent or a whole number from 0 to 10'),
    "a broken priority": (json.dumps([{**A, "priority": 1.5}]), '"priority" must be one of low, normal, high, urgent or a whole number from 0 to 10'),
    "fan-out over nothing": (json.dumps([{**A, "fan_out": {"over": [], "size": 1}}]), '"fan_out" must be'),
    "fan-out of size 0": (json.dumps([{**A, "fan_out": {"over": ["x"], "size": 0}}]), '"fan_out" must be'),
    "fan-out of more": (json.dumps([{**A, "fan_out": {"over": ["x"], "size": 1, "y": 1}}]), '"fan_out" must be'),
    "a name before its step": (json.dumps([{**A, "params": {"x": "{{steps.b.result}}"}}, {**A, "key": "b"}]),
                               "must name the input"),
    "a name of nothing": (json.dumps([{**A, "params": {"x": "{{env.PATH}}"}}]), "must name the input"),
    "deep": ('[{"key": "a", "job_type": "work", "params": ' + '{"x": ' * 2000 + "1" + "}" * 2000 + "}]",
             "nested deeper than 20"),
    "large": (json.dumps([{**A, "params": {"x": "y" * 1100000}}]), "larger than 1 MiB"),
}


@pytest.mark.parametrize("steps, words", WRONG.values(), ids=WRONG.keys())
def test_a_definition_that_cannot_work_is_refused(queue, steps, words):
    with pytest.raises(psycopg2.errors.InvalidParameterValue, match=words):
        define(queue, steps)


def test_hostile_values_stay_values(queue):
    """What a result holds is never read as a template."""
    define(queue, [A, {"key": "b", "job_type": "work", "depends_on": ["a"],
                       "params": {"x": "{{steps.a.result.v}}", "y": "-{{steps.a.result.v}}-"}}])
    start(queue, run_input={"secret": "s"})
    work(queue, {"v": "{{input.secret}} '; DROP TABLE jobs; -- \\ $1"})
    payload = work(queue)["payload"]
    assert payload["x"] == "{{input.secret}} '; DROP TABLE jobs; -- \\ $1"
    assert payload["y"] == f"-{payload['x']}-"


def test_every_stage_works_runs_in_their_order(queue):
    """An old video is not overtaken by a new one that was quicker at the stage before."""
    videos = [queue.video() for _ in range(3)]
    for video in videos:
        start(queue, "video_pipeline", video_id=video)
    jobs = queue.claim("sample", limit=3)
    assert [job["video_id"] for job in jobs] == videos
    for job in reversed(jobs):
        queue.call("complete_job", job)
    assert [job["video_id"] for job in queue.claim("ocr", limit=3)] == videos


def test_two_last_steps_ending_at_once_end_the_run(queue, database):
    define(queue, flow("a b"))
    run_id = start(queue)
    first, second = queue.claim("work", limit=2)
    other = psycopg2.connect(database)
    cursor = other.cursor()
    cursor.execute("SELECT complete_job(%s, %s)", (first["id"], first["lease_token"]))
    queue.run("SET lock_timeout = '200ms'")
    with pytest.raises(psycopg2.errors.LockNotAvailable):  # the verdict waits for the other's
        queue.call("complete_job", second)
    other.commit()
    other.close()
    queue.call("complete_job", second)
    assert run_row(queue, run_id)["status"] == "done"
