"""Requests that have one effect however often they come, and the log of who changed what."""

import concurrent.futures
import json
import uuid

import pytest
from api import ALICE, BOB, MATE, TEAM, token
from api_matrix import CALLERS
from test_api import check
from workers import wait_until

ADMIN, OWNER, SERVICE = CALLERS["admin"], CALLERS["owner"], CALLERS["service"]


@pytest.fixture(scope="module")
def queue(place):
    return place[1]


@pytest.fixture(scope="module")
def gateway(start_gateway, library):
    return start_gateway("--connections", "4", CORTANA_API_RATES="read=0,write=0,search=0,failure=0,note=0")


def upload(gateway, key, bearer=OWNER, **body):
    return check(gateway.ask("/uploads", bearer, "POST", {"name": "a.mp4", "size": 10, **body}, Idempotency_Key=key),
                 "POST", "/uploads")


# ---- once --------------------------------------------------------------------------------------------


def test_the_same_request_has_one_effect(gateway, queue):
    key = str(uuid.uuid4())
    first, again = upload(gateway, key), upload(gateway, key)
    assert first.status == again.status == 201 and first.json == again.json
    assert again.headers["Idempotency-Replayed"] == "true" and "Idempotency-Replayed" not in first.headers
    assert again.headers["Location"] == first.headers["Location"]
    other = upload(gateway, key, size=11)
    assert other.status == 422 and "Idempotency-Key" in other.json["detail"]
    elsewhere = gateway.ask("/clips", OWNER, "POST", {"video_id": str(uuid.uuid4()), "t_start": 0, "t_end": 9},
                            Idempotency_Key=key)
    assert elsewhere.status == 422  # another operation
    assert upload(gateway, key, token(sub=BOB)).json["id"] != first.json["id"]  # another caller's key
    queue.run("UPDATE idempotency_keys SET created_at = now() - interval '25 hours'")
    assert upload(gateway, key).json["id"] != first.json["id"]


def test_requests_at_the_same_time_have_one_effect(gateway, queue):
    key = str(uuid.uuid4())
    with concurrent.futures.ThreadPoolExecutor(6) as pool:
        answers = list(pool.map(lambda _: upload(gateway, key, name=f"{key}.mp4"), range(6)))
    assert {answer.status for answer in answers} == {201} and len({answer.json["id"] for answer in answers}) == 1
    assert queue.value("SELECT count(*) FROM videos WHERE original_name = %s", f"{key}.mp4") == 1


def test_what_was_refused_may_be_tried_again(gateway, library):
    key = str(uuid.uuid4())
    wanted = {"video_id": str(uuid.uuid4()), "t_start": 1000, "t_end": 2500}
    assert gateway.ask("/clips", OWNER, "POST", wanted, Idempotency_Key=key).status == 404
    wanted["video_id"] = library.videos["own"]
    assert gateway.ask("/clips", OWNER, "POST", wanted, Idempotency_Key=key).status == 202
    assert gateway.ask("/clips", OWNER, "POST", wanted, Idempotency_Key=key).status == 202  # as the first time
    assert gateway.ask("/clips", OWNER, "POST", wanted).status == 200


def test_a_secret_is_shown_once_all_the_same(gateway, queue):
    key = str(uuid.uuid4())
    made = [gateway.ask("/keys", ADMIN, "POST", {"name": "x", "role": "viewer"}, Idempotency_Key=key).json for _ in range(2)]
    secret = made[0].pop("secret")
    assert made[0] == made[1] and gateway.ask("/me", secret).status == 200
    assert queue.value("SELECT count(*) FROM idempotency_keys i WHERE i::text LIKE %s", f"%{secret[13:]}%") == 0


@pytest.mark.parametrize("key", ["", "x" * 256, "\u00e9"])
def test_keys_that_are_refused(gateway, key):
    assert upload(gateway, key.encode("latin-1")).status == 400


# ---- the log -----------------------------------------------------------------------------------------


def rows(queue, answer):
    return queue.run("SELECT * FROM audit_log WHERE request_id = %s", answer.headers["X-Request-Id"])


def noted(queue, answer):
    """The one row of a request, which for a refusal comes after the answer."""
    row = wait_until(lambda: rows(queue, answer), "the row of the audit log")
    assert len(row) == 1
    return row[0]


def test_a_change_is_noted_with_it(gateway, library, queue):
    job = queue.add("transcode", video_id=library.videos["team"])
    answer = gateway.ask(f"/jobs/{job}/priority", OWNER, "POST", {"priority": 7}, X_Request_Id="request-of-the-test")
    assert answer.status == 200
    (row,) = rows(queue, answer)
    assert (row["caller"], row["role"], str(row["user_id"])) == (f"user:{ALICE}", "editor", ALICE)
    assert (row["address"], row["operation"], row["method"], row["path"]) == (
        "127.0.0.1", "job_priority", "POST", f"/api/v1/jobs/{job}/priority")
    assert (str(row["target"]), row["parameters"], row["status"], row["reason"]) == (
        str(job), {"id": str(job), "priority": 7}, 200, None)
    assert (str(row["owner_id"]), str(row["team_id"])) == (MATE, TEAM)
    assert rows(queue, gateway.ask("/videos", OWNER)) == []


def test_refusals_are_noted(gateway, library, queue):
    foreign = library.jobs["foreign"]
    row = noted(queue, gateway.ask(f"/jobs/{foreign}/cancel", OWNER, "POST"))
    assert row["status"] == 404 and str(row["target"]) == foreign and row["owner_id"] is None
    assert str(row["team_id"]) == TEAM  # the caller's, not the thing's
    row = noted(queue, gateway.ask("/keys", OWNER, "POST", {"name": "x", "role": "viewer"}))
    assert (row["status"], row["reason"], row["role"]) == (403, "this needs the role admin", "editor")
    row = noted(queue, gateway.ask("/videos", token(secret="another secret that is just as long")))
    assert (row["status"], row["caller"], row["user_id"]) == (401, "nobody", None)
    row = noted(queue, gateway.ask("/workers", OWNER))
    assert (row["status"], row["operation"]) == (403, "workers")
    row = noted(queue, gateway.ask("/clips", OWNER, "POST", {"unknown": 1}))
    assert row["status"] == 400
    row = noted(queue, gateway.ask("/session", None, "DELETE"))
    assert row["status"] == 204


def test_the_log_holds_no_secrets(gateway, library, queue):
    made = gateway.ask("/keys", ADMIN, "POST", {"name": "password=hunter2", "role": "viewer"})
    row = noted(queue, made)
    secret = made.json["secret"]
    gateway.ask("/session", None, "POST", {"token": OWNER})
    gateway.ask("/videos", secret, "DELETE")
    gateway.ask("/me", "cvk_12345678_" + "A" * 43)
    text = json.dumps(queue.run("SELECT to_jsonb(a) AS row FROM audit_log a"), default=str)
    assert secret not in text and OWNER not in text and "hunter2" not in text and "A" * 43 not in text
    assert str(row["target"]) == made.json["id"] and row["status"] == 201


def test_who_reads_the_log(gateway, library, queue):
    job = queue.add("transcode", video_id=library.videos["foreign"])
    bobs = gateway.ask(f"/jobs/{job}/priority", CALLERS["other tenant"], "POST", {"priority": 6})
    services = gateway.ask(f"/jobs/{library.jobs['own']}/priority", SERVICE, "POST", {"priority": 6})
    mates = gateway.ask(f"/videos/{library.videos['team']}/grant", token(sub=MATE, team_ids=[TEAM]), "POST")

    def seen(bearer, query=""):
        answer = check(gateway.ask(f"/audit?limit=200{query}", bearer), "GET", "/audit")
        assert answer.status == 200, answer.data
        return {item["request_id"] for item in answer.json["items"]}

    ids = [answer.headers["X-Request-Id"] for answer in (bobs, services, mates)]
    assert [one in seen(ADMIN) for one in ids] == [False, True, True]
    assert set(ids) <= seen(SERVICE)
    assert ids[0] in seen(token(sub=BOB, app_metadata={"cortana_role": "admin"}))
    assert not seen(token(sub=str(uuid.uuid4()), app_metadata={"cortana_role": "admin"}))
    assert ids[0] in seen(SERVICE, f"&target={job}&operation=job_priority&refused=false&after=2020-01-01T00:00:00Z")
    assert seen(SERVICE, "&before=2020-01-01T00:00:00Z") == seen(ADMIN, f"&user={uuid.uuid4()}") == set()
    for caller in ("viewer", "owner"):
        assert gateway.ask("/audit", CALLERS[caller]).status == 403


def test_pages_of_the_log(gateway):
    first = gateway.ask("/audit?limit=2", SERVICE).json
    second = gateway.ask(f"/audit?limit=2&cursor={first['next']}", SERVICE).json
    ids = [item["id"] for item in first["items"] + second["items"]]
    assert ids == sorted(set(ids), reverse=True) and len(ids) == 4


def test_the_log_does_not_change(queue, gateway):
    assert gateway.ask("/me", "cvk_87654321_" + "A" * 43).status == 401
    wait_until(lambda: queue.value("SELECT count(*) FROM audit_log") > 0, "the refusal in the log")
    for statement in ("UPDATE audit_log SET status = 1", "DELETE FROM audit_log", "TRUNCATE audit_log"):
        with pytest.raises(Exception, match="do not change"):
            queue.run(statement)
    queue.run("INSERT INTO audit_log (at, request_id, caller, role, operation, method, path, parameters, status)"
              " VALUES (now() - interval '401 days', 'old', 'service', 'service', 'x', 'POST', '/', '{}', 200)")
    kept = queue.value("SELECT array_agg(request_id ORDER BY request_id) FROM audit_log WHERE request_id <> 'old'")
    queue.run("INSERT INTO idempotency_keys (caller, key, request_hash, created_at)"
              " VALUES ('a', 'b', 'c', now() - interval '25 hours')")
    queue.run("UPDATE upkeep_tasks SET due_at = 'infinity' WHERE name <> 'api_records'")
    assert queue.value("SELECT run_upkeep(now() + interval '2 hours')") == "api_records"
    assert queue.value("SELECT last_error FROM upkeep_tasks WHERE name = 'api_records'") is None
    # Refusals of the tests before may still be on their way into the log.
    left = queue.value("SELECT array_agg(request_id) FROM audit_log WHERE request_id <> 'old'")
    assert set(kept or []) <= set(left or [])
    assert queue.value("SELECT count(*) FROM audit_log WHERE request_id = 'old'") == 0
    assert queue.value("SELECT count(*) FROM idempotency_keys WHERE key = 'b'") == 0


def test_one_caller_does_not_fill_the_log(own_gateway, queue):
    own = own_gateway(CORTANA_API_RATES="failure=0,note=0.001:3")
    answers = [own.ask("/me", "cvk_87654321_" + "A" * 43) for _ in range(6)]
    wait_until(lambda: rows(queue, answers[2]), "the third row")
    assert [len(rows(queue, answer)) for answer in answers] == [1, 1, 1, 0, 0, 0]
