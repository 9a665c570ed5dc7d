"""Events, triggers and schedules as SQL: time is a parameter, nothing waits."""

import datetime
import json
import uuid

import psycopg2
import psycopg2.extras
import pytest
from jobs import VIDEO, Queue, past_all_rules
from workers import wait_until

UTC = datetime.timezone.utc
A, B = uuid.UUID(int=1), uuid.UUID(int=2)
NOON = datetime.datetime(2026, 11, 21, 12, tzinfo=UTC)
MINUTE, HOUR, DAY = (datetime.timedelta(**{unit: 1}) for unit in ("minutes", "hours", "days"))


@pytest.fixture(scope="module")
def database(shared_cluster):
    url = shared_cluster.url(shared_cluster.create_database())
    with psycopg2.connect(url) as connection, connection.cursor() as cursor:
        cursor.execute("INSERT INTO job_types (name, description, is_public) VALUES ('work', 'a', true),"
                       " ('command', 'b', false) ON CONFLICT DO NOTHING")
        cursor.execute("INSERT INTO workflows (name, steps) VALUES"
                       " ('extra', '[{\"key\": \"one\", \"job_type\": \"work\"}]')")
    connection.close()
    return url


@pytest.fixture
def queue(database):
    """The same database for all tests, without what the one before has left."""
    connection = psycopg2.connect(database, options="-c statement_timeout=300s")
    connection.autocommit = True
    queue = Queue(connection)
    for table in ("job_triggers", "event_outbox", "jobs", "runs"):
        queue.run(f"DELETE FROM {table}")
    queue.run(past_all_rules("TRUNCATE task_events"))
    queue.run("UPDATE job_types SET name = 'command' WHERE name = 'was_command'")
    queue.run("UPDATE upkeep_tasks SET due_at = '-infinity', last_error = NULL")
    yield queue
    connection.close()


def add(queue, name="t", action="job", target="work", **values):
    columns = {"name": name, "action": action, "target": target,
               **{key: json.dumps(value) if isinstance(value, dict) else value for key, value in values.items()}}
    places = ", ".join(["%s"] * len(columns))
    return queue.value(f"INSERT INTO job_triggers ({', '.join(columns)}) VALUES ({places}) RETURNING id",
                       *columns.values())


def schedule(queue, name="s", cron="0 * * * *", since=NOON, **values):
    return add(queue, name, cron=cron, next_at=since, **values)


def emit(queue, name="order.paid", data=None, **named):
    more = "".join(f", p_{key} => %s" for key in named)
    return queue.value(f"SELECT emit_event(%s, %s{more})", name, json.dumps(data or {}), *named.values())


def dispatch(queue, now=None):
    (row,) = queue.run("SELECT * FROM dispatch_events(coalesce(%s, clock_timestamp()))", now)
    return row["dispatched"], row["failed"]


def fire(queue, now):
    (row,) = queue.run("SELECT * FROM fire_schedules(%s)", now)
    return row["fired"]


def jobs(queue, job_type="work"):
    return queue.run("SELECT * FROM jobs WHERE job_type = %s ORDER BY sequence", job_type)


def payloads(queue, job_type="work"):
    return [job["payload"] for job in jobs(queue, job_type)]


def firings(queue, name="t"):
    return queue.run("SELECT f.* FROM trigger_firings f JOIN job_triggers t ON t.id = f.trigger_id"
                     " WHERE t.name = %s ORDER BY f.id", name)


# ---- events ----------------------------------------------------------------------------------------


def test_an_event_enqueues_what_a_trigger_says(queue):
    add(queue, event="order.paid", payload={"order": "{{event.data.order}}", "from": "{{trigger.name}}",
                                            "text": "no. {{event.data.order}} of {{ event.data.who.name }}"})
    add(queue, "deaf", event="order.sent")
    event = emit(queue, data={"order": 7, "who": {"name": "Zoë"}}, tenant_id=A)
    assert jobs(queue) == [], "nothing before it is dispatched"
    assert dispatch(queue) == (1, 0) and dispatch(queue) == (0, 0)
    (job,) = jobs(queue)
    assert job["payload"] == {"order": 7, "from": "t", "text": "no. 7 of Zoë"}
    assert job["tenant_id"] == A
    (firing,) = firings(queue)
    assert (firing["event_id"], firing["job_id"], firing["outcome"]) == (event, job["id"], "fired")
    assert job["correlation_id"] == firing["correlation_id"]
    assert firings(queue, "deaf") == []


def test_an_event_is_part_of_its_transaction(queue, database):
    add(queue, event="order.paid")
    other = psycopg2.connect(database)
    other.cursor().execute("SELECT emit_event('order.paid')")
    assert dispatch(queue) == (0, 0), "it is not committed"
    other.rollback()
    assert dispatch(queue) == (0, 0), "it never happened"
    other.cursor().execute("SELECT emit_event('order.paid')")
    other.commit()
    other.close()
    assert dispatch(queue) == (1, 0)


def test_what_nobody_waits_for_is_in_the_timeline_alone(queue):
    event = emit(queue, data={"n": 1}, tenant_id=A)
    assert queue.value("SELECT count(*) FROM event_outbox") == 0
    (noted,) = queue.run("SELECT * FROM task_events WHERE type = 'event'")
    assert noted["message"] == "order.paid" and noted["data"] == {"event_id": str(event), "data": {"n": 1}}


def test_kinds_of_values_survive_a_template(queue):
    data = {"n": 1.5, "yes": True, "nothing": None, "list": [1, {"a": "b"}], "brace": "{{event.id}}"}
    add(queue, event="order.paid", payload={**{key: "{{event.data.%s}}" % key for key in data},
                                            "deep": ["{{event.data.list.1.a}}", {"x": "<{{event.data.n}}>"}],
                                            "video": "{{event.video_id}}"})
    emit(queue, data=data)
    dispatch(queue)
    assert payloads(queue) == [{**data, "deep": ["b", {"x": "<1.5>"}], "video": None}]


def test_a_name_that_is_not_there_is_an_error_that_is_seen(queue):
    add(queue, event="order.paid", payload={"a": "{{event.data.missing}}"})
    emit(queue)
    assert dispatch(queue) == (1, 1) and jobs(queue) == []
    (firing,) = firings(queue)
    assert firing["outcome"] == "failed" and "{{event.data.missing}}, but there is no such value" in firing["error"]
    (seen,) = queue.run("SELECT last_error FROM job_triggers WHERE name = 't'")
    assert "event.data.missing" in seen["last_error"]
    assert queue.value("SELECT message FROM task_events WHERE level = 'error'").startswith("trigger t: the template names {{event")
    emit(queue, data={"missing": 1})
    assert dispatch(queue) == (1, 0)
    assert queue.value("SELECT last_error FROM job_triggers") is None, "it works again"


def test_one_trigger_that_fails_does_not_hold_up_the_others(queue):
    add(queue, "a", event="order.paid", payload={"a": "{{event.data.missing}}"})
    add(queue, "b", event="order.paid")
    emit(queue)
    assert dispatch(queue) == (1, 1)
    assert [f["outcome"] for f in firings(queue, "b")] == ["fired"]


def test_a_failure_that_passes_is_tried_again(queue):
    add(queue, event="order.paid")
    emit(queue)
    queue.run("CREATE FUNCTION busy() RETURNS trigger LANGUAGE plpgsql AS"
              " $$BEGIN RAISE EXCEPTION 'busy' USING ERRCODE = 'serialization_failure'; END$$")
    queue.run("CREATE TRIGGER busy BEFORE INSERT ON jobs FOR EACH ROW EXECUTE FUNCTION busy()")
    assert dispatch(queue) == (0, 1) and firings(queue) == []
    assert queue.value("SELECT error FROM event_outbox") == "busy"
    queue.run("DROP TRIGGER busy ON jobs")
    queue.run("DROP FUNCTION busy")
    assert dispatch(queue) == (0, 0), "put off"
    assert dispatch(queue, queue.value("SELECT now() + interval '10 seconds'")) == (1, 0)
    assert len(jobs(queue)) == 1


def test_filters_and_tenants_choose_events(queue):
    add(queue, "ocr", event="order.paid", filter={"kind": "book"})
    add(queue, "mine", event="order.paid", tenant_id=A)
    for data, tenant in (({"kind": "book", "n": 1}, B), ({"kind": "toy"}, A), ({}, None)):
        emit(queue, data=data, tenant_id=tenant)
    dispatch(queue)
    assert len(firings(queue, "ocr")) == 1 and len(firings(queue, "mine")) == 1


def test_a_paused_trigger_does_nothing(queue):
    add(queue, event="order.paid")
    emit(queue)
    queue.pause_trigger("t")
    emit(queue)
    assert dispatch(queue) == (1, 0) and jobs(queue) == []
    queue.pause_trigger("t", False)
    emit(queue)
    assert dispatch(queue) == (1, 0) and len(jobs(queue)) == 1


def test_the_same_key_does_nothing_within_the_window(queue):
    add(queue, event="order.paid", dedupe_key="{{event.data.who}}", dedupe_window="10 minutes")
    now = queue.value("SELECT now()") + MINUTE
    for who in ("a", "a", "b"):
        emit(queue, data={"who": who})
    dispatch(queue, now)
    assert [f["outcome"] for f in firings(queue)] == ["fired", "duplicate", "fired"]
    emit(queue, data={"who": "a"})
    dispatch(queue, now + 9 * MINUTE)
    emit(queue, data={"who": "a"})
    dispatch(queue, now + 10 * MINUTE)
    assert [f["outcome"] for f in firings(queue)][3:] == ["duplicate", "fired"]
    assert len(jobs(queue)) == 3


def test_one_at_a_time_waits_for_the_job_before(queue):
    add(queue, event="order.paid", one_at_a_time=True)
    emit(queue)
    emit(queue)
    dispatch(queue)
    first, second = firings(queue)
    assert (first["outcome"], second["outcome"]) == ("fired", "in flight") and first["job_id"] == second["job_id"]
    queue.call("complete_job", queue.claim_one("work"))
    emit(queue)
    dispatch(queue)
    assert firings(queue)[2]["outcome"] == "fired"


def test_runs_and_commands_are_started(queue):
    video = queue.video(owner=A)
    add(queue, "r", "run", "extra", event="order.paid", payload={"video_id": "{{event.video_id}}", "n": 1}, priority=9)
    add(queue, "c", "command", "gc", event="order.paid", payload={"remove": "{{event.data.remove}}"})
    emit(queue, data={"remove": True}, video_id=video)
    assert dispatch(queue) == (1, 0)
    (run,) = queue.run("SELECT * FROM runs")
    assert (run["workflow"], run["video_id"], run["tenant_id"], run["priority"]) == ("extra", video, A, 9)
    assert firings(queue, "r")[0]["run_id"] == run["id"]
    assert payloads(queue, "command") == [{"command": "gc", "args": {"remove": True}}]


def test_a_video_that_is_gone_is_an_error(queue):
    add(queue, "r", "run", "extra", event="order.paid", payload={"video_id": "{{event.data.video}}"})
    emit(queue, data={"video": str(uuid.uuid4())})
    assert dispatch(queue) == (1, 1)
    assert "does not exist" in firings(queue, "r")[0]["error"]


def test_a_trigger_that_leads_to_itself_is_stopped(queue):
    add(queue, event="job.failed", filter={"job_type": "work"})
    queue.add("work")
    for _ in range(30):
        job = next(iter(queue.claim("work")), None)
        if job is None:
            break
        queue.fail(job, retryable=False)
        dispatch(queue)
    assert len(jobs(queue)) == 21, "the first, and twenty that followed from it"
    assert "the trigger causes itself" in firings(queue)[-1]["error"]


# ---- where events come from --------------------------------------------------------------------------


def test_the_pipeline_says_what_it_does(queue):
    for name in ("video.uploaded", "video.ready", "clip.created", "job.failed"):
        add(queue, name, event=name, payload={"video_id": "{{event.video_id}}", "data": "{{event.data}}"})
    video = queue.video(owner=A)
    queue.run("UPDATE videos SET title = 'T' WHERE id = %s", video)
    run = queue.value("SELECT run_id FROM start_run('extra', '{}', %s)", video)
    queue.run("UPDATE videos SET status = 'ready' WHERE id = %s", video)
    queue.run("UPDATE videos SET title = 'again' WHERE id = %s", video)
    clip = queue.add("clip_generate", {"clip_id": VIDEO, "t_start": 1, "t_end": 2}, video_id=video)
    queue.call("complete_job", queue.claim_one("clip_generate"), json.dumps({"clip_path": "videos/clips/c.mp4"}))
    failing = queue.claim_one("work")
    assert queue.fail(failing) == "retry"
    assert queue.value("SELECT count(*) FROM event_outbox WHERE name = 'job.failed'") == 0, "it will be tried again"
    queue.run("UPDATE jobs SET scheduled_for = NULL WHERE id = %s", failing["id"])
    found = {row["name"]: row for row in queue.run("SELECT * FROM event_outbox")}
    assert set(found) == {"video.uploaded", "video.ready", "clip.created", "job.failed"}
    assert all(row["video_id"] == video and row["tenant_id"] == A for row in found.values())
    assert found["video.uploaded"]["run_id"] == run and found["video.uploaded"]["data"] == {"title": "T", "path": "videos/original/x/master.mp4"}
    correlation = queue.value("SELECT correlation_id FROM runs WHERE id = %s", run)
    assert {found[name]["correlation_id"] for name in ("video.uploaded", "video.ready", "job.failed")} == {correlation}
    assert found["clip.created"]["data"] == {"clip_id": VIDEO, "clip_path": "videos/clips/c.mp4", "t_start": 1, "t_end": 2}
    assert found["clip.created"]["job_id"] == clip
    assert found["job.failed"]["data"]["error"] == {"type": "Timeout", "message": "it failed"}
    queue.run("SELECT start_run('extra', '{}', %s)", video)
    assert queue.value("SELECT count(*) FROM event_outbox") == 4, "a second run is no upload"
    assert dispatch(queue) == (4, 0)


def test_each_dead_job_of_a_statement_is_told(queue):
    add(queue, event="job.failed")
    ids = [queue.add("work") for _ in range(3)]
    queue.claim("work", limit=3)
    queue.run("UPDATE jobs SET status = 'failed', scheduled_for = NULL WHERE id = ANY (%s::uuid[])", list(map(str, ids)))
    assert {row["job_id"] for row in queue.run("SELECT job_id FROM event_outbox")} == set(ids)


@pytest.mark.parametrize("name, data", [
    ("paid", {}), ("Order.paid", {}), ("order.", {}), (".paid", {}), ("order paid", {}), (None, {}), ("o." + "x" * 100, {}),
    ("order.paid", []), ("order.paid", None), ("order.paid", {"x": "y" * 70000}),
    ("order.paid", json.loads('{"a":' * 25 + "1" + "}" * 25))])
def test_what_is_no_event_is_refused(queue, name, data):
    with pytest.raises(psycopg2.errors.InvalidParameterValue):
        queue.run("SELECT emit_event(%s, %s)", name, None if data is None else json.dumps(data))


def test_an_application_tells_of_its_own(queue):
    add(queue, event="order.paid")
    mine, theirs = queue.video(owner=A), queue.video(owner=B)
    queue.run("SELECT set_config('request.jwt.claims', %s, false)", json.dumps({"sub": str(A)}))
    queue.run("SET ROLE cortana_app")
    emit(queue, video_id=mine)
    emit(queue)
    for named in ({"video_id": theirs}, {"tenant_id": B}, {"job_id": uuid.uuid4()}):
        with pytest.raises(psycopg2.errors.InsufficientPrivilege):
            emit(queue, **named)
    for name in ("video.ready", "job.failed"):
        with pytest.raises(psycopg2.errors.InvalidParameterValue, match="only the service may emit") as info:
            emit(queue, name=name)
        assert info.value.diag.column_name == "name"
    for statement in ("SELECT * FROM event_outbox", "SELECT * FROM job_triggers", "SELECT scheduler_tick()",
                      "SELECT record_event('video.ready', '{}', NULL, NULL, NULL, NULL, NULL)",
                      "INSERT INTO job_triggers (name, event, action, target) VALUES ('x', 'a.b', 'job', 'work')",
                      "UPDATE job_triggers SET paused_at = now()", "SELECT fire_schedules()", "SELECT run_upkeep()"):
        with pytest.raises(psycopg2.errors.InsufficientPrivilege):
            queue.run(statement)
    # What its work says of itself is said all the same.
    assert queue.value("SELECT is_new FROM start_run('extra', '{}', %s)", mine)
    queue.run("RESET ROLE")
    assert {row["tenant_id"] for row in queue.run("SELECT tenant_id FROM event_outbox")} == {A}
    assert dispatch(queue) == (2, 0)


# ---- definitions -------------------------------------------------------------------------------------


@pytest.mark.parametrize("values, words", [
    ({"event": "order.paid", "cron": "* * * * *"}, "check constraint"), ({}, "check constraint"),
    ({"event": "Order"}, "check constraint"), ({"cron": "* * * *"}, "4 fields"),
    ({"cron": "* * * * *", "time_zone": "Mars"}, "not a time zone"), ({"cron": "0 0 30 2 *"}, "has the day that it names"),
    ({"event": "a.b", "target": "nothing"}, "not registered"), ({"event": "a.b", "action": "run"}, "workflow work does not exist"),
    ({"event": "a.b", "action": "shell"}, "not registered"),
    ({"event": "a.b", "payload": {"x": "{{event.vido_id}}"}}, "{{event.vido_id}}, but an event has no such value"),
    ({"event": "a.b", "payload": {"x": ["{{schedule.instant}}"]}}, "an event has no such value"),
    ({"cron": "* * * * *", "payload": {"x": "{{event.id}}"}}, "a schedule has no such value"),
    ({"event": "a.b", "payload": {"x": "{{event.data.a-b}}"}}, "without a name after it"),
    ({"event": "a.b", "payload": {"x": "{{"}}, "without a name after it"), ({"event": "a.b", "payload": {"{{event.id}}": 1}}, "without a name after it"),
    ({"event": "a.b", "payload": {"x": "y" * 70000}}, "64 KiB"), ({"event": "a.b", "dedupe_key": "x"}, "check constraint"),
    ({"event": "a.b", "dedupe_key": "{{event.x}}", "dedupe_window": "1 minute"}, "has no such value"),
    ({"cron": "* * * * *", "filter": {"a": 1}}, "cannot have a filter"), ({"event": "a.b", "name": "A b"}, "check constraint"),
    ({"cron": "* * * * *", "catch_up": "some"}, "check constraint"), ({"event": "a.b", "priority": 11}, "check constraint")])
def test_what_makes_no_sense_is_refused_when_it_is_written(queue, values, words):
    with pytest.raises(psycopg2.Error) as caught:
        add(queue, **values)
    assert words in str(caught.value)


def test_a_schedule_knows_its_next_instant(queue):
    add(queue, "s", cron="0 0 1 1 *", time_zone="europe/berlin")
    (row,) = queue.run("SELECT * FROM job_triggers")
    assert row["time_zone"] == "Europe/Berlin"
    year = queue.value("SELECT extract(year FROM now() AT TIME ZONE 'Europe/Berlin')::int")
    assert row["next_at"] == datetime.datetime(year, 12, 31, 23, tzinfo=UTC)
    queue.run("UPDATE job_triggers SET time_zone = 'UTC'")
    assert queue.value("SELECT next_at FROM job_triggers") == datetime.datetime(year + 1, 1, 1, tzinfo=UTC)
    queue.pause_trigger("s")
    assert queue.value("SELECT next_at FROM job_triggers") is None
    queue.pause_trigger("s", False)
    assert queue.value("SELECT next_at FROM job_triggers") == datetime.datetime(year + 1, 1, 1, tzinfo=UTC)


# ---- schedules ---------------------------------------------------------------------------------------


def test_a_schedule_fires_when_it_is_time_and_once(queue):
    schedule(queue, payload={"at": "{{schedule.instant}}", "day": "{{schedule.date}}", "local": "{{schedule.local}}"},
             time_zone="Asia/Tokyo", since=NOON + 4 * HOUR)
    assert fire(queue, NOON + 4 * HOUR - MINUTE) == 0
    assert fire(queue, NOON + 4 * HOUR) == 1
    assert fire(queue, NOON + 4 * HOUR) == 0 and fire(queue, NOON + 5 * HOUR - MINUTE) == 0
    assert fire(queue, NOON + 5 * HOUR) == 1
    assert payloads(queue)[0] == {"at": "2026-11-21T16:00:00Z", "day": "2026-11-22", "local": "2026-11-22T01:00:00"}
    assert [f["instant"] for f in firings(queue, "s")] == [NOON + 4 * HOUR, NOON + 5 * HOUR]


@pytest.mark.parametrize("catch_up, limit, expected", [
    ("none", 10, []), ("last", 10, [9]), ("all", 3, [7, 8, 9]), ("all", 1000, list(range(10)))])
def test_after_an_outage_a_schedule_catches_up_as_it_is_told(queue, catch_up, limit, expected):
    schedule(queue, catch_up=catch_up, catch_up_limit=limit)
    fire(queue, NOON + 9 * HOUR + 20 * MINUTE)
    assert [f["instant"] for f in firings(queue, "s")] == [NOON + n * HOUR for n in expected]
    fire(queue, NOON + 9 * HOUR + 30 * MINUTE)
    assert len(firings(queue, "s")) == len(expected)
    fire(queue, NOON + 10 * HOUR + MINUTE / 2)
    assert firings(queue, "s")[-1]["instant"] == NOON + 10 * HOUR, "not missed: it is half a minute late"


def test_a_year_of_minutes_is_caught_up_with_at_once(queue):
    schedule(queue, cron="* * * * *", catch_up="all", catch_up_limit=5)
    queue.run("SET statement_timeout = '5s'")
    assert fire(queue, NOON + 365 * DAY) == 5
    assert firings(queue, "s")[-1]["instant"] == NOON + 365 * DAY


def test_a_clock_that_goes_back_fires_nothing_again(queue):
    schedule(queue)
    assert fire(queue, NOON + 2 * HOUR) == 1
    queue.run("UPDATE job_triggers SET next_at = %s", NOON)  # as if it had been set anew
    assert fire(queue, NOON + 2 * HOUR) == 0, "the instant is done with"


def test_two_at_once_fire_an_instant_once(queue, database):
    schedule(queue)
    other = psycopg2.connect(database)
    cursor = other.cursor()
    cursor.execute("SELECT fired FROM fire_schedules(%s)", (NOON,))
    assert cursor.fetchone() == (1,)
    assert fire(queue, NOON) == 0, "somebody is at it, and nobody waits"
    other.rollback()  # it died before its commit
    assert fire(queue, NOON) == 1
    other.close()
    assert len(jobs(queue)) == 1


def test_a_schedule_that_fails_goes_on_and_says_so(queue):
    schedule(queue, "bad", action="command", target="gc")
    schedule(queue, "good")
    queue.run("UPDATE job_types SET name = 'was_command' WHERE name = 'command'")
    assert fire(queue, NOON) == 2
    assert "command is not registered" in queue.value("SELECT last_error FROM job_triggers WHERE name = 'bad'")
    assert queue.value("SELECT next_at FROM job_triggers WHERE name = 'bad'") == NOON + HOUR
    assert len(jobs(queue)) == 1


def test_a_schedule_whose_failure_passes_is_tried_again_behind_the_others(queue):
    schedule(queue, "bad", payload={"bad": 1}, since=NOON - HOUR)
    schedule(queue, "good")
    queue.run("CREATE FUNCTION busy() RETURNS trigger LANGUAGE plpgsql AS"
              " $$BEGIN RAISE EXCEPTION 'busy' USING ERRCODE = 'lock_not_available'; END$$")
    queue.run("CREATE TRIGGER busy BEFORE INSERT ON jobs FOR EACH ROW WHEN (NEW.payload ? 'bad') EXECUTE FUNCTION busy()")
    try:
        assert queue.run("SELECT * FROM fire_schedules(%s)", NOON) == [{"fired": 1, "failed": 1}]
        assert firings(queue, "bad") == []
        (order,) = queue.run("SELECT array_agg(name ORDER BY tried_at NULLS FIRST, next_at) AS names FROM job_triggers")
        assert order["names"] == ["good", "bad"]
        assert "busy" in queue.value("SELECT last_error FROM job_triggers WHERE name = 'bad'")
    finally:
        queue.run("DROP TRIGGER busy ON jobs")
        queue.run("DROP FUNCTION busy")
    assert fire(queue, NOON + MINUTE) == 1
    assert [f["instant"] for f in firings(queue, "bad")] == [NOON]
    assert queue.run("SELECT 1 FROM job_triggers WHERE tried_at IS NOT NULL OR last_error IS NOT NULL") == []


def test_a_schedule_is_fired_by_hand(queue):
    schedule(queue, payload={"day": "{{schedule.date}}"})
    fired = queue.fire_schedule("s", NOON - DAY)
    assert fired["outcome"] == "fired" and fired["instant"] is None
    assert payloads(queue) == [{"day": "2026-11-20"}]
    assert queue.value("SELECT next_at FROM job_triggers") == NOON, "its own instants stay"


def test_a_tick_does_both_and_knows_when_to_come_again(queue):
    now = queue.value("SELECT now()")
    schedule(queue, cron="* * * * *", since=now)
    add(queue, event="order.paid")
    emit(queue)
    (tick,) = queue.run("SELECT * FROM scheduler_tick(date_trunc('minute', now()) + interval '1 minute')")
    assert (tick["fired"], tick["dispatched"], tick["failed"], tick["wait_ms"]) == (1, 1, 0, 60000)
    assert queue.value("SELECT count(*) FROM task_events WHERE source = 'scheduler' AND type = 'status'") == 2
    queue.run("DELETE FROM job_triggers")
    assert queue.run("SELECT wait_ms FROM scheduler_tick()") == [{"wait_ms": None}]


# ---- upkeep ------------------------------------------------------------------------------------------


def upkeep(queue, now):
    done = []
    while task := queue.value("SELECT run_upkeep(%s)", now):
        done.append(task)
        assert len(done) < 20
    return done


def test_upkeep_is_done_when_it_is_due(queue):
    now = queue.value("SELECT now()")
    queue.run("SELECT touch_session(p_time_to_live => '1 second')")
    queue.run("UPDATE interactive_sessions SET expires_at = now() - interval '2 minutes'")
    job = queue.add("work")
    queue.claim("work")
    queue.expire(job)
    queue.run("UPDATE job_type_upkeep SET due_at = now()")
    queue.run("INSERT INTO search_words (word, folded) VALUES ('gone', 'gone')")
    queue.run("INSERT INTO search_words_doubtful VALUES ('gone')")
    schedule(queue)
    fire(queue, NOON)
    queue.run("UPDATE trigger_firings SET fired_at = now() - interval '31 days'")
    month = queue.value("SELECT 'task_events_' || to_char(now() + interval '3 months', 'YYYY_MM')")
    queue.run(f"DROP TABLE {month}")
    assert sorted(upkeep(queue, now)) == ["api_records", "event_partitions", "expired_leases", "old_firings",
                                          "queue_history", "search_words", "sessions", "uploads"]
    assert queue.value("SELECT count(*) FROM interactive_sessions") == 0
    assert queue.status(job) == "queued", "nobody claims that type, and it is rescued and its retry due all the same"
    assert queue.value("SELECT count(*) FROM search_words") == 0
    assert firings(queue, "s") == []
    assert queue.value("SELECT to_regclass(%s) IS NOT NULL", month)
    assert queue.run("SELECT name FROM upkeep_tasks WHERE last_error IS NOT NULL") == []
    assert upkeep(queue, now) == [] and upkeep(queue, now + datetime.timedelta(seconds=5)) == ["expired_leases"]


def test_one_does_the_upkeep_and_the_next_takes_over(queue, database):
    now = queue.value("SELECT now()")
    leader = psycopg2.connect(database)
    leader.cursor().execute("SELECT run_upkeep()")
    assert queue.value("SELECT run_upkeep()") is None, "one has the lock"
    leader.close()  # it dies with its transaction open
    wait_until(lambda: queue.value("SELECT run_upkeep(%s)", now), "the next one's turn")
    assert len(upkeep(queue, now)) == 7


def test_a_task_that_fails_holds_up_no_other(queue):
    now = queue.value("SELECT now()")
    queue.run("INSERT INTO upkeep_tasks (name, description, every) VALUES ('a', 'unknown', '1 hour')")
    assert len(upkeep(queue, now)) == 9
    failed = queue.run("DELETE FROM upkeep_tasks WHERE last_error IS NOT NULL RETURNING name, last_error")
    assert failed == [{"name": "a", "last_error": "the upkeep task has no implementation"}]


def test_the_schedules_that_come_with_the_system(queue):
    assert queue.value("SELECT restore_default_schedules()") == 5
    found = {row["name"]: row for row in queue.run("SELECT * FROM job_triggers")}
    assert {name: row["cron"] for name, row in found.items()} == {
        "archive-events": "30 3 2 * *", "archive-jobs": "0 3 * * *", "gc": "0 4 * * sun", "purge-clips": "15 3 * * *",
        "prune-embeddings": "45 4 * * sun"}
    queue.run("UPDATE job_triggers SET cron = '0 5 * * *' WHERE name = 'gc'")
    queue.pause_trigger("purge-clips")
    queue.run("DELETE FROM job_triggers WHERE name = 'archive-events'")
    assert queue.value("SELECT restore_default_schedules()") == 1
    assert queue.value("SELECT cron FROM job_triggers WHERE name = 'gc'") == "0 5 * * *"
    assert queue.value("SELECT paused_at IS NOT NULL FROM job_triggers WHERE name = 'purge-clips'")
    queue.fire_schedule("archive-events")
    assert payloads(queue, "command") == [{"command": "archive-events", "args": {}}]
