"""What tenants' admins and operators see and change over HTTP: attempts, timelines, bulk actions, runs, the fleet."""

import uuid

import jsonschema
import pytest
from api import ALICE, BOB, DOCUMENT, TEAM, Gateway, Library, make_login, token
from api_matrix import CALLERS, OF_A_RUN, OF_THE_SERVICE, SIGNED_OUT, sees
from jobs import Queue

ADMIN, SERVICE, EDITOR = CALLERS["admin"], CALLERS["service"], CALLERS["owner"]
OTHER_ADMIN = token(sub=BOB, app_metadata={"cortana_role": "admin"})


@pytest.fixture(scope="module")
def place(shared_cluster):
    name = shared_cluster.create_database()
    connection = shared_cluster.connect(name)
    make_login(Queue(connection))
    yield shared_cluster.url(name), Queue(connection)
    connection.close()


@pytest.fixture(scope="module")
def queue(place):
    return place[1]


@pytest.fixture(scope="module")
def library(queue):
    return Library(queue)


@pytest.fixture(scope="module")
def gateway(program, place, library, tmp_path_factory):
    started = Gateway(program, place[0], tmp_path_factory.mktemp("gateway"), "--connections", "2")
    yield started
    assert started.process.stop() == 0


def ask(gateway, caller, method, template, body=None, **names):
    """An answer that is as the document has it."""
    path = template
    for name, value in names.items():
        path = path.replace("{" + name + "}", str(value))
    answer = gateway.ask(path, caller, method, body)
    operation = DOCUMENT["paths"][template.partition("?")[0]][method.lower()]
    for content in operation["responses"][str(answer.status)].get("content", {}).values():
        jsonschema.Draft202012Validator({**content["schema"], "components": DOCUMENT["components"]}).validate(answer.json)
    return answer


def fail_one(queue, video, error_type="Timeout"):
    queue.add("segment_index", video_id=video)
    claimed = queue.claim_one("segment_index")
    queue.fail(claimed, error_type, retryable=False)
    return claimed["id"]


def test_what_became_of_a_job(gateway, queue, library):
    job = fail_one(queue, library.videos["own"])
    (attempt,) = ask(gateway, EDITOR, "GET", "/jobs/{id}/attempts", id=job).json["items"]
    assert (attempt["attempt"], attempt["status"], attempt["error_type"]) == (1, "timeout", "Timeout")
    assert attempt["worker"] is None
    (attempt,) = ask(gateway, SERVICE, "GET", "/jobs/{id}/attempts", id=job).json["items"]
    assert attempt["worker"] == "worker"
    events = ask(gateway, EDITOR, "GET", "/jobs/{id}/events", id=job).json["items"]
    assert [event["data"]["to"] for event in events if event["type"] == "status"] == ["failed", "processing", "queued"]
    assert all(not {"worker", "lease_token"} & set(event["data"]) for event in events)
    first = ask(gateway, EDITOR, "GET", "/jobs/{id}/events?limit=1", id=job).json
    rest = ask(gateway, EDITOR, "GET", f"/jobs/{{id}}/events?cursor={first['next']}", id=job).json
    assert first["items"] + rest["items"] == events
    assert ask(gateway, EDITOR, "GET", "/jobs/{id}/artifacts", id=job).json["items"] == []
    assert ask(gateway, EDITOR, "GET", "/jobs/{id}/why", id=job).json["items"]


def test_a_priority_is_for_what_waits(gateway, queue, library):
    job = queue.add("ocr", video_id=library.videos["own"])
    assert ask(gateway, EDITOR, "POST", "/jobs/{id}/priority", {"priority": 9}, id=job).json["priority"] == 9
    for caller in (OTHER_ADMIN, CALLERS["stranger"]):
        assert ask(gateway, caller, "POST", "/jobs/{id}/priority", {"priority": 1}, id=job).status == 404
    assert ask(gateway, CALLERS["viewer"], "POST", "/jobs/{id}/priority", {"priority": 1}, id=job).status == 403
    queue.run("SELECT cancel_job(%s)", job)
    assert ask(gateway, EDITOR, "POST", "/jobs/{id}/priority", {"priority": 1}, id=job).status == 409
    assert queue.job(job)["priority"] == 9


def test_a_bulk_action_is_counted_first_and_stays_within_the_tenant(gateway, queue, library):
    mine = [fail_one(queue, library.videos["own"], "Decode") for _ in range(3)]
    theirs = fail_one(queue, library.videos["foreign"], "Decode")
    body = {"action": "retry", "error": "Decode", "type": "segment_index", "dry_run": True}
    counted = ask(gateway, ADMIN, "POST", "/jobs/bulk", body).json
    assert (counted["matched"], counted["changed"]) == (3, 0)
    assert {job["id"] for job in counted["sample"]} == {str(job) for job in mine}
    assert ask(gateway, SERVICE, "POST", "/jobs/bulk", body).json["matched"] == 4
    assert {queue.status(job) for job in mine} == {"failed"}
    # One video takes one job of a step at a time, so that one of the three is tried again.
    done = ask(gateway, ADMIN, "POST", "/jobs/bulk", {**body, "dry_run": False}).json
    assert done["matched"] == 3 and done["changed"] == sum(queue.status(job) == "queued" for job in mine) >= 1
    assert queue.status(theirs) == "failed"
    canceled = ask(gateway, ADMIN, "POST", "/jobs/bulk", {"action": "cancel", "type": "segment_index"}).json
    assert canceled["changed"] == done["changed"] and "queued" not in {queue.status(job) for job in mine}


@pytest.mark.parametrize("caller, body, status", [
    ("owner", {"action": "cancel", "type": "ocr"}, 403), ("viewer", {"action": "cancel", "type": "ocr"}, 403),
    ("nobody", {"action": "cancel", "type": "ocr"}, 401), ("own word", {"action": "cancel", "type": "ocr"}, 403),
    ("admin", {"action": "cancel"}, 400), ("admin", {"action": "cancel", "dry_run": True}, 400),
    ("admin", {"action": "remove", "type": "ocr"}, 400), ("admin", {"action": "cancel", "tipe": "ocr"}, 400),
    ("admin", {"action": "priority", "type": "ocr"}, 400), ("admin", {"action": "cancel", "type": "ocr", "priority": 1}, 400)])
def test_bulk_actions_that_are_refused(gateway, caller, body, status):
    assert ask(gateway, CALLERS[caller], "POST", "/jobs/bulk", body).status == status


def test_a_summary_counts_what_its_reader_sees(gateway, queue):
    def count(caller):
        items = ask(gateway, caller, "GET", "/jobs/summary").json["items"]
        return sum(item["jobs"] for item in items if item["state"] in ("queued", "failed"))

    assert count(SERVICE) == queue.value("SELECT count(*) FROM jobs WHERE status IN ('queued', 'failed')")
    assert count(ADMIN) + count(OTHER_ADMIN) == count(SERVICE)
    assert count(CALLERS["stranger"]) == 0


@pytest.mark.parametrize("caller", CALLERS)
def test_runs(gateway, queue, library, caller):
    runs = {name: queue.value("SELECT run_id FROM start_run('video_pipeline', '{}', %s)", queue.video(owner, team))
            for name, owner, team in (("own", ALICE, None), ("team", None, TEAM), ("foreign", BOB, None))}
    missing = {}
    for thing, run in {**runs, "missing": uuid.uuid4()}.items():
        for method, path in OF_A_RUN:
            answer = ask(gateway, CALLERS[caller], method, path, id=run)
            wanted = 401 if caller in SIGNED_OUT else 403 if method == "POST" and caller == "viewer" else \
                200 if sees(caller, thing) else 404
            assert answer.status == wanted, (caller, method, path, thing, answer.data)
            if answer.status == 404:
                missing.setdefault((method, path), set()).add(answer.without_id())
    assert all(len(bodies) == 1 for bodies in missing.values()), missing
    if caller not in SIGNED_OUT:
        seen = {item["id"] for item in ask(gateway, CALLERS[caller], "GET", "/runs?limit=200").json["items"]}
        assert seen & {str(run) for run in runs.values()} == {str(run) for thing, run in runs.items() if sees(caller, thing)}
    queue.run("DELETE FROM runs")


@pytest.mark.parametrize("caller", CALLERS)
def test_the_services_own(gateway, caller):
    for method, path in OF_THE_SERVICE:
        answer = gateway.ask(path, CALLERS[caller], method)
        wanted = 401 if caller in SIGNED_OUT else 403 if caller != "service" else 204 if method == "POST" else 200
        assert answer.status == wanted, (caller, path, answer.data)


def test_the_fleet_and_its_rules(gateway, queue, library):
    fail_one(queue, library.videos["own"], "NotAVideo")
    for path, key in (("/workers", None), ("/hosts", None), ("/stats/queues", "job_type"), ("/dead-letters", "error_type")):
        items = ask(gateway, SERVICE, "GET", path).json["items"]
        assert key is None or {item[key] for item in items} >= {"NotAVideo" if key == "error_type" else "ocr"}
    assert ask(gateway, SERVICE, "POST", "/job-types/{name}/pause", {"reason": "upkeep"}, name="ocr").status == 204
    (rule,) = [item for item in ask(gateway, EDITOR, "GET", "/job-types").json["items"] if item["name"] == "ocr"]
    assert rule["paused_at"] and rule["pause_reason"] == "upkeep"
    assert ask(gateway, SERVICE, "POST", "/job-types/{name}/resume", name="ocr").status == 204
    assert ask(gateway, SERVICE, "POST", "/job-types/{name}/resume", name="nothing").status == 404


def test_a_schedule_across_a_change_of_clocks(gateway):
    body = {"cron": "30 2 * * *", "time_zone": "Europe/Berlin"}
    instants = ask(gateway, EDITOR, "POST", "/triggers/preview", body).json["instants"]
    assert len(instants) == 10 and instants == sorted(instants)
    assert ask(gateway, EDITOR, "POST", "/triggers/preview", {**body, "cron": "61 * * * *"}).status == 400
    assert ask(gateway, EDITOR, "POST", "/triggers/preview", {**body, "time_zone": "Mars/Olympus"}).status == 400
