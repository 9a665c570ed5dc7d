"""Changes over HTTP that depend on what is there: If-Match and ETag."""

import threading

import psycopg2
import pytest
from api import ALICE
from api_matrix import CALLERS
from test_api import check
from workers import wait_until

ADMIN, SERVICE, EDITOR = CALLERS["admin"], CALLERS["service"], CALLERS["owner"]


@pytest.fixture(scope="module")
def gateway(start_gateway, place, library):
    place[1].run("SELECT report_disk('host-1', '/tmp', 100, 50)")
    started = start_gateway()
    yield started
    assert [line for line in started.process.says("request ") if line["level"] == "error"] == []


def ask(gateway, caller, method, template, name, body=None, **headers):
    path = template[:template.index("{")] + str(name)
    return check(gateway.ask(path, caller, method, body, **headers), method, template)


# caller, template, name or None where the thing is made, method, two changes that differ
CHANGES = [
    (ADMIN, "/webhooks/{name}", "ours", "PATCH", [{"url": "https://example.com/1"}, {"url": "https://example.com/2"}]),
    (ADMIN, "/triggers/{id}", None, "PATCH", [{"cron": "0 3 * * *"}, {"cron": "0 4 * * *"}]),
    (SERVICE, "/definitions/{key}", "hello", "PUT", [{"argv": ["/bin/echo", "1"]}, {"argv": ["/bin/echo", "2"]}]),
    (SERVICE, "/job-types/{name}", "embed", "PATCH", [{"base_priority": 3}, {"base_priority": 4}]),
    (SERVICE, "/hosts/{host}", "host-1", "PATCH", [{"cpu_budget": 3}, {"cpu_budget": 4}]),
]


@pytest.fixture(scope="module")
def names(gateway):
    gateway.ask("/webhooks", ADMIN, "POST", {"name": "ours", "url": "https://example.com/hook"})
    gateway.ask("/definitions/hello", SERVICE, "PUT", {"description": "says it", "argv": ["/bin/echo", "hello"]})
    return {"/triggers/{id}": gateway.ask("/triggers", ADMIN, "POST", {
        "name": "nightly", "cron": "0 2 * * *", "action": "job", "target": "transcode"}).json["id"]}


@pytest.mark.parametrize("caller, template, name, method, changes", CHANGES, ids=lambda value: value if str(value)[0] == "/" else "")
def test_a_change_of_another_version_changes_nothing(gateway, names, caller, template, name, method, changes):
    name = name or names[template]
    first = ask(gateway, caller, "GET", template, name).headers["ETag"]
    changed = ask(gateway, caller, method, template, name, changes[0], If_Match=first)
    second = ask(gateway, caller, "GET", template, name)
    assert changed.status == 200 and changed.headers["ETag"] == second.headers["ETag"] != first
    refused = ask(gateway, caller, method, template, name, changes[1], If_Match=first)
    assert refused.status == 412 and refused.json["type"] == "/problems/changed" and "read it again" in refused.json["detail"]
    assert ask(gateway, caller, "GET", template, name).json == second.json
    named = f'"x", {second.headers["ETag"].removeprefix("W/")}'  # of several, and made strong by somebody in between
    assert ask(gateway, caller, method, template, name, changes[1], If_Match=named).status == 200
    assert ask(gateway, caller, method, template, name, changes[0], If_Match="*").status == 200
    # What is read is whole, although the ETag is not of everything in it.
    assert ask(gateway, caller, "GET", template, name, If_None_Match="*").status == 200


def test_firing_a_trigger_is_no_change_of_it(gateway, names):
    template, name = "/triggers/{id}", names["/triggers/{id}"]
    before = ask(gateway, ADMIN, "GET", template, name)
    assert gateway.ask(f"/triggers/{name}/fire", ADMIN, "POST").status == 200
    after = ask(gateway, ADMIN, "GET", template, name)
    assert after.json["last"] != before.json["last"] and after.headers["ETag"] == before.headers["ETag"]
    assert gateway.ask(f"/triggers/{name}/pause", ADMIN, "POST", {"reason": "holidays"}).status == 204
    assert ask(gateway, ADMIN, "DELETE", template, name, If_Match=before.headers["ETag"]).status == 412
    now = ask(gateway, ADMIN, "GET", template, name).headers["ETag"]
    assert ask(gateway, ADMIN, "DELETE", template, name, If_Match=now).status == 204
    assert ask(gateway, ADMIN, "DELETE", template, name, If_Match="*").status == 404


def test_a_video_is_deleted_as_it_was_seen(gateway, place):
    video = place[1].video(ALICE)
    seen = ask(gateway, EDITOR, "GET", "/videos/{id}", video).headers["ETag"]
    place[1].run("UPDATE videos SET title = 'another' WHERE id = %s", video)
    assert ask(gateway, EDITOR, "DELETE", "/videos/{id}", video, If_Match=seen).status == 412
    foreign = gateway.ask(f"/videos/{video}", CALLERS["other tenant"], "DELETE", If_Match=seen)
    missing = gateway.ask(f"/videos/{ALICE}", CALLERS["other tenant"], "DELETE", If_Match=seen)
    assert foreign.status == missing.status == 404 and foreign.without_id() == missing.without_id()
    seen = ask(gateway, EDITOR, "GET", "/videos/{id}", video).headers["ETag"]
    assert ask(gateway, EDITOR, "DELETE", "/videos/{id}", video, If_Match=seen).status == 202


def test_a_change_between_the_look_and_the_change_is_seen(gateway, place):
    """The request has compared the version and waits for the row, which another transaction changes."""
    seen = gateway.ask("/job-types/clip_generate", SERVICE).headers["ETag"]
    answers = []
    other = psycopg2.connect(place[0])
    with other.cursor() as cursor:
        cursor.execute("UPDATE job_types SET base_priority = 2, updated_at = now() WHERE name = 'clip_generate'")
        request = threading.Thread(target=lambda: answers.append(gateway.ask(
            "/job-types/clip_generate", SERVICE, "PATCH", {"base_priority": 9}, If_Match=seen)))
        request.start()
        wait_until(lambda: place[1].value("SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock'"
                                          " AND application_name = 'api-gateway'"), "the request to wait for the row")
        other.commit()
    request.join()
    other.close()
    assert answers[0].status == 412
    assert gateway.ask("/job-types/clip_generate", SERVICE).json["base_priority"] == 2


def test_a_condition_that_is_not_looked_at_is_refused(gateway, library):
    answer = gateway.ask("/clips", EDITOR, "POST", {"video_id": library.videos["own"], "t_start": 1, "t_end": 900}, If_Match='"x"')
    assert answer.status == 400 and "If-Match" in answer.json["detail"]
    assert gateway.ask("/videos", EDITOR, If_Match='"x"').status == 200
