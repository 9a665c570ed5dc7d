"""What a job, a node and a command tell about themselves: source, priority by name, last error, notifications."""

import json
import select

import psycopg2
import pytest
from jobs import Queue


def types_of(queue, job_id):
    return [row["type"] for row in queue.run("SELECT type FROM task_events WHERE job_id = %s ORDER BY id", job_id)]


def test_a_job_says_what_enqueued_it(queue):
    by_hand = queue.job(queue.add("webhook"))
    assert (by_hand["source"], by_hand["source_ref"], by_hand["created_by"]) == ("manual", None, None)
    with psycopg2.connect(queue.connection.dsn) as other:
        caller = Queue(other)
        user = "7e5b0a4e-1f6e-4f43-9a0b-6c2f6d0b2a11"
        caller.run("SELECT set_config('request.jwt.claims', %s, true)", json.dumps({"sub": user}))
        by_api = caller.job(caller.add("webhook"))
    assert (by_api["source"], str(by_api["created_by"])) == ("api", user)

    queue.run("INSERT INTO job_triggers (name, event, action, target) VALUES ('after', 'order.paid', 'job', 'webhook')")
    event = queue.value("SELECT emit_event('order.paid', '{}')")
    queue.run("SELECT dispatch_events()")
    fired = queue.run("SELECT source, source_ref FROM jobs WHERE source <> 'manual' AND source <> 'api'")
    assert [(row["source"], row["source_ref"]) for row in fired] == [("event", str(event))]
    queue.run("INSERT INTO job_triggers (name, cron, action, target) VALUES ('nightly', '0 3 * * *', 'job', 'webhook')")
    queue.fire_schedule("nightly")
    assert queue.value("SELECT source_ref FROM jobs WHERE source = 'schedule'") == "nightly"


def test_the_last_error_outlives_the_retry(queue):
    first = queue.add("webhook")
    held = queue.claim_one("webhook")
    queue.run("SELECT fail_job(%s, %s, 'ServerError', 'the endpoint says 503', true)", first, held["lease_token"])
    assert queue.job(first)["last_error"] == "ServerError: the endpoint says 503"
    queue.run("SELECT retry_job(%s)", first)
    held = queue.claim_one("webhook")
    queue.run("SELECT complete_job(%s, %s)", first, held["lease_token"])
    done = queue.job(first)
    assert (done["status"], done["last_error"]) == ("done", "ServerError: the endpoint says 503")


@pytest.mark.parametrize("name, number", [("low", 1), ("normal", 5), ("high", 8), ("urgent", 10), ("0", 0), ("10", 10)])
def test_priorities_have_names(queue, name, number):
    assert queue.value("SELECT priority_number(%s)", name) == number


@pytest.mark.parametrize("name", ["", "11", "-1", "highest", "5.5"])
def test_other_priorities_are_refused(queue, name):
    with pytest.raises(psycopg2.errors.InvalidParameterValue, match="low, normal, high, urgent or a number"):
        queue.value("SELECT priority_number(%s)", name)


def test_a_command_has_its_own_attempts_and_priority(queue):
    queue.run("SELECT define_command(%s)", json.dumps(
        {"key": "tidy", "argv": ["/bin/true"], "max_attempts": 2, "priority": "high"}))
    made = queue.job(queue.value("SELECT job_id FROM run_command('tidy')"))
    assert (made["max_retries"], made["priority"]) == (1, 8)
    given = queue.job(queue.value("SELECT job_id FROM run_command('tidy', p_priority => 3)"))
    assert given["priority"] == 3


def messages(connection):
    connection.poll()
    if not connection.notifies:
        select.select([connection], [], [], 120)
        connection.poll()
    found = [json.loads(note.payload) for note in connection.notifies if note.channel == "cv_watch"]
    connection.notifies.clear()
    return found


def test_who_watches_a_job_is_notified_and_nobody_else(queue):
    watched, other = queue.add("webhook"), queue.add("webhook")
    with queue.connection.cursor() as cursor:
        cursor.execute("LISTEN cv_watch")
    assert queue.value("SELECT watch_job(%s)", watched) == "queued"
    assert queue.value("SELECT watch_job(%s)", "00000000-0000-4000-8000-000000000000") is None
    held = {row["id"]: row["lease_token"] for row in queue.run("SELECT * FROM claim_jobs('h:1:b', 'webhook', 2)")}
    assert messages(queue.connection) == [{"job_id": str(watched), "status": "processing", "progress": 0}]
    for number, token in held.items():
        queue.run("SELECT report_progress(%s, %s, 0.6, 'reading')", number, token)
    assert messages(queue.connection) == [{"job_id": str(watched), "status": "processing", "progress": 0.6}]
    for number, token in held.items():
        queue.run("SELECT complete_job(%s, %s)", number, token)
    assert messages(queue.connection) == [{"job_id": str(watched), "status": "done", "progress": 1}]
    assert queue.value("SELECT watch_job(%s)", other) == "done"


def test_the_timeline_has_progress_logs_artifacts_and_heartbeats(queue):
    first = queue.add("webhook")
    token = queue.claim_one("webhook")["lease_token"]
    for progress in (0.1, 0.2, 0.3, 0.4, 0.6):
        queue.run("SELECT report_progress(%s, %s, %s, 'reading')", first, token, progress)
    queue.run("SELECT renew_lease(%s, %s)", first, token)
    assert types_of(queue, first) == ["status", "status", "progress", "progress"]
    assert queue.value("SELECT report_log(%s, %s, 'found a table', 'warn', %s)", first, token, '{"rows": 3}')
    assert not queue.value("SELECT report_log(%s, %s, 'too late')", first, token - 1)
    queue.run("SELECT record_artifacts(%s, %s, 'bucket', %s)", first, token, json.dumps(
        [{"kind": "output", "key": "a"}, {"kind": "output", "key": "b"}, {"kind": "input", "key": "c"}]))
    queue.run("UPDATE jobs SET started_at = started_at - interval '11 minutes' WHERE id = %s", first)
    queue.run("SELECT renew_lease(%s, %s)", first, token)
    queue.run("SELECT renew_lease(%s, %s)", first, token)
    assert types_of(queue, first)[4:] == ["log", "artifact", "heartbeat"]
    artifact = queue.run("SELECT message, data FROM task_events WHERE type = 'artifact'")[0]
    assert (artifact["message"], artifact["data"]) == ("1 input, 2 output", {"input": 1, "output": 2})


def test_a_node_has_labels_a_state_and_a_limit(queue):
    queue.run("INSERT INTO nodes (name, host, job_types, wake_method, mac, labels, max_concurrency) VALUES"
              " ('attic', 'attic', '{embed}', 'wol', '00:11:22:33:44:55', '{\"zone\": \"eu\"}', 2)")
    state = "SELECT awake_state FROM node_overview"
    assert queue.value(state) == "asleep"
    queue.run("UPDATE nodes SET woken_at = now()")
    assert queue.value(state) == "waking"
    queue.run("SELECT report_worker('h:1:b', 'attic', '1', '{embed}', 8, 0, 'running', %s)", '{"gpu": true}')
    seen = queue.run("SELECT awake_state, last_seen IS NOT NULL AS seen, labels FROM node_overview")[0]
    assert (seen["awake_state"], seen["seen"], seen["labels"]) == ("awake", True, {"zone": "eu"})
    assert queue.value("SELECT labels FROM worker_overview") == {"gpu": True}
    for _ in range(4):
        queue.add("webhook")
    assert len(queue.run("SELECT * FROM claim_jobs('h:1:b', 'webhook', 8)")) == 2
    assert queue.run("SELECT * FROM claim_jobs('h:1:b', 'webhook', 8)") == []


def test_the_depth_by_tenant_and_priority(queue):
    tenant = "7e5b0a4e-1f6e-4f43-9a0b-6c2f6d0b2a11"
    queue.add("webhook", tenant_id=tenant, priority=8)
    queue.add("webhook", tenant_id=tenant, priority=8)
    queue.add("webhook", priority=1)
    rows = queue.run("SELECT tenant_id::text, priority, status, depth, oldest_seconds >= 0 AS aged"
                     " FROM queue_depth_by_tenant ORDER BY priority")
    assert [tuple(row.values()) for row in rows] == [(None, 1, "queued", 1, True), (tenant, 8, "queued", 2, True)]
