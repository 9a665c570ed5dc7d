"""What tenants' admins and operators see and change over HTTP: attempts, timelines, bulk actions, runs, the fleet."""

import datetime
import urllib.parse
import uuid

import pytest
from api import ALICE, BOB, DOCUMENT, TEAM, check_body, content_of, token
from api_matrix import CALLERS

ADMIN, SERVICE, EDITOR = CALLERS["admin"], CALLERS["service"], CALLERS["owner"]
OTHER_ADMIN = token(sub=BOB, app_metadata={"cortana_role": "admin"})


@pytest.fixture(scope="module")
def queue(place):
    return place[1]


def ask(gateway, caller, method, template, body=None, **names):
    """An answer that is as the document has it."""
    path = template
    for name, value in names.items():
        path = path.replace("{" + name + "}", str(value))
    answer = gateway.ask(path, caller, method, body)
    operation = DOCUMENT["paths"][template.partition("?")[0]][method.lower()]
    for content in content_of(operation, answer.status).values():
        check_body(answer, content["schema"])
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


def test_chosen_jobs_are_those_of_the_caller(gateway, queue, library):
    mine = [str(fail_one(queue, library.videos["own"], "Chosen")) for _ in range(2)]
    theirs = str(fail_one(queue, library.videos["foreign"], "Chosen"))
    body = {"action": "retry", "ids": [mine[0], theirs, mine[0]], "dry_run": True}
    counted = ask(gateway, ADMIN, "POST", "/jobs/bulk", body).json
    assert counted["matched"] == 1 and [job["id"] for job in counted["sample"]] == mine[:1]
    assert ask(gateway, SERVICE, "POST", "/jobs/bulk", body).json["matched"] == 2
    assert ask(gateway, SERVICE, "POST", "/jobs/bulk", {**body, "type": "ocr"}).json["matched"] == 0
    assert ask(gateway, SERVICE, "POST", "/jobs/bulk", {**body, "ids": []}).json["matched"] == 0
    assert ask(gateway, SERVICE, "POST", "/jobs/bulk", {**body, "ids": ["no id"]}).status == 400
    assert ask(gateway, ADMIN, "POST", "/jobs/bulk", {**body, "dry_run": False}).json["changed"] == 1
    assert (queue.status(mine[0]), queue.status(mine[1]), queue.status(theirs)) == ("queued", "failed", "failed")


@pytest.mark.parametrize("caller, body, status", [
    ("owner", {"action": "cancel", "type": "ocr"}, 403), ("viewer", {"action": "cancel", "type": "ocr"}, 403),
    ("nobody", {"action": "cancel", "type": "ocr"}, 401), ("own word", {"action": "cancel", "type": "ocr"}, 403),
    ("admin", {"action": "cancel"}, 400), ("admin", {"action": "cancel", "dry_run": True}, 400),
    ("admin", {"action": "remove", "type": "ocr"}, 400), ("admin", {"action": "cancel", "tipe": "ocr"}, 400),
    ("admin", {"action": "priority", "type": "ocr"}, 400), ("admin", {"action": "cancel", "type": "ocr", "priority": 1}, 400)])
def test_bulk_actions_that_are_refused(gateway, caller, body, status):
    assert ask(gateway, CALLERS[caller], "POST", "/jobs/bulk", body).status == status


def test_jobs_without_a_video_are_in_their_tenants_list(gateway, queue):
    """Webhooks and commands, in the order of time with the jobs of videos, and page by page."""
    mine = {str(queue.add("webhook", {"n": n}, tenant_id=tenant)) for n, tenant in enumerate([ALICE, TEAM, ALICE])}
    theirs = str(queue.add("webhook", {}, tenant_id=BOB))
    items, cursor = [], ""
    while cursor is not None:
        page = ask(gateway, EDITOR, "GET", f"/jobs?type=webhook&limit=1{cursor and '&cursor=' + cursor}").json
        items += page["items"]
        cursor = page["next"]
    assert [item["id"] for item in items if item["id"] in mine] == [item["id"] for item in items] and len(items) == 3
    assert items == sorted(items, key=lambda item: item["created_at"], reverse=True)
    assert {item["id"] for item in ask(gateway, OTHER_ADMIN, "GET", "/jobs?type=webhook").json["items"]} == {theirs}
    assert ask(gateway, CALLERS["stranger"], "GET", "/jobs").json["items"] == []
    for item in items:
        assert ask(gateway, EDITOR, "GET", "/jobs/{id}", id=item["id"]).status == 200
    everything, cursor = [], ""
    while cursor is not None:  # with those of videos, of which one may have more than a page
        page = ask(gateway, EDITOR, "GET", f"/jobs?limit=3{cursor and '&cursor=' + cursor}").json
        everything += [item["id"] for item in page["items"]]
        cursor = page["next"]
    assert everything == [str(row["id"]) for row in queue.run(
        "SELECT j.id FROM jobs j LEFT JOIN videos v ON v.id = j.video_id WHERE v.owner_id = %s OR v.team_id = %s"
        " OR j.video_id IS NULL AND j.tenant_id IN (%s, %s) ORDER BY j.created_at DESC, j.id DESC", ALICE, TEAM, ALICE, TEAM)]
    assert len(everything) > 3
    done = ask(gateway, ADMIN, "POST", "/jobs/bulk", {"action": "cancel", "type": "webhook"}).json
    assert done["changed"] == 3 and queue.status(theirs) == "queued"
    queue.run("DELETE FROM jobs WHERE job_type = 'webhook'")


def test_jobs_are_found_by_a_part_of_a_word(gateway, queue, library):
    """By title, file name, type, last error and the beginning of the id; nobody finds others' jobs, by whatever they name."""
    own, foreign = library.videos["own"], library.videos["foreign"]
    titles = {str(row["id"]): row["title"] for row in queue.run("SELECT id, title FROM videos WHERE id IN (%s, %s)", own, foreign)}
    queue.run("UPDATE videos SET title = 'A Straße walk', original_name = 'Holiday_07.MP4' WHERE id = %s", own)
    queue.run("UPDATE videos SET title = 'A walk of others' WHERE id = %s", foreign)
    mine, theirs = str(fail_one(queue, own, "Lens_Cap")), str(fail_one(queue, foreign, "Lens_Cap"))

    def found(caller, words, more=""):
        items = ask(gateway, caller, "GET", f"/jobs?q={urllib.parse.quote(words)}{more}").json["items"]
        return {mine, theirs} & {item["id"] for item in items}

    for words in ("straße", "WALK", "day_07.mp", "segment_ind", "ens_ca", mine[:4], mine[:13], mine.upper(), mine.replace("-", "")):
        assert found(EDITOR, words) == {mine} and mine in found(SERVICE, words), words
        assert found(EDITOR, words, f"&video={own}") == {mine} and not found(EDITOR, words, f"&video={foreign}"), words
        assert not found(CALLERS["stranger"], words), words
    assert not found(EDITOR, theirs) and not found(EDITOR, "of others") and not found(EDITOR, "walk_")
    assert found(EDITOR, "walk", "&state=failed") == {mine} and not found(EDITOR, mine, "&state=done")
    assert found(SERVICE, "walk", f"&video={own}") == {mine}
    assert ask(gateway, EDITOR, "GET", "/jobs?q=a").status == 400
    body = {"action": "retry", "q": "lens_cap", "dry_run": True}
    assert ask(gateway, ADMIN, "POST", "/jobs/bulk", body).json["matched"] == 1
    assert ask(gateway, SERVICE, "POST", "/jobs/bulk", body).json["matched"] == 2
    queue.run("UPDATE videos SET title = %s, original_name = NULL WHERE id = %s", titles[own], own)
    queue.run("UPDATE videos SET title = %s WHERE id = %s", titles[foreign], foreign)


def test_a_word_that_few_jobs_have_is_looked_for_in_portions(gateway, queue, library):
    """A request looks through so many jobs and no more; the next goes on where it ended, among jobs of one instant, too."""
    own = library.videos["own"]
    needle = str(queue.add("webhook", {}, tenant_id=ALICE))
    queue.run("INSERT INTO jobs (job_type, video_id, status, is_ready, created_at, max_retries)"
              " SELECT 'clip_generate', %s, 'canceled', false, now() + '1 minute', 0 FROM generate_series(1, 5500)", own)
    first = ask(gateway, EDITOR, "GET", "/jobs?q=webh").json
    assert first["items"] == [] and first["next"]
    second = ask(gateway, EDITOR, "GET", f"/jobs?q=webh&cursor={first['next']}").json
    assert [item["id"] for item in second["items"]] == [needle] and second["next"] is None
    assert [item["id"] for item in ask(gateway, EDITOR, "GET", "/jobs?type=webhook").json["items"]] == [needle]
    queue.run("DELETE FROM jobs WHERE job_type IN ('clip_generate', 'webhook') AND (video_id = %s OR id = %s)", own, needle)


def test_a_summary_counts_what_its_reader_sees(gateway, queue):
    def count(caller):
        items = ask(gateway, caller, "GET", "/jobs/summary").json["items"]
        return sum(item["jobs"] for item in items if item["state"] in ("queued", "failed"))

    assert count(SERVICE) == queue.value("SELECT count(*) FROM jobs WHERE status IN ('queued', 'failed')")
    assert count(ADMIN) + count(OTHER_ADMIN) == count(SERVICE)
    assert count(CALLERS["stranger"]) == 0


def test_the_fleet_and_its_rules(gateway, queue, library):
    worker = "machine:12:0f0e0d0c"
    queue.run("SELECT report_worker(%s, 'machine', '1', '{embed}', 2, 0, 'running', '{\"zone\": \"eu\"}')", worker)
    for free in (50, 4):
        queue.run("SELECT report_disk('machine', '/scratch', 100, %s)", free)
    (found,) = ask(gateway, SERVICE, "GET", "/workers").json["items"]
    assert found["labels"] == {"zone": "eu"} and found["day"]["attempts"] == 0 and not found["is_draining"]
    assert ask(gateway, SERVICE, "POST", "/workers/{worker}/drain", worker=worker).status == 204
    assert ask(gateway, SERVICE, "GET", "/workers").json["items"][0]["is_draining"]
    assert ask(gateway, SERVICE, "POST", "/workers/{worker}/drain", worker="nobody").status == 404
    (host,) = ask(gateway, SERVICE, "GET", "/hosts").json["items"]
    assert (host["host"], host["disk_level"], host["cpu_in_use"]) == ("machine", "emergency", 0)
    assert [look["level"] for look in ask(gateway, SERVICE, "GET", "/hosts/{host}/disk", host="machine").json["items"]] == \
        ["emergency", "ok"]
    assert ask(gateway, SERVICE, "GET", "/hosts/{host}/disk", host="nowhere").status == 404
    for budget, kept in ((6, 6), (0, None)):
        assert ask(gateway, SERVICE, "PATCH", "/hosts/{host}", {"cpu_budget": budget}, host="machine").json["cpu_budget"] == kept
    queue.run("INSERT INTO nodes (name, host, job_types, wake_method, mac) VALUES"
              " ('sleeper', 'sleeper', '{ocr}', 'wol', '00:11:22:33:44:55')")
    assert ask(gateway, SERVICE, "GET", "/nodes").json["items"][0]["awake_state"] == "asleep"
    resources = ask(gateway, SERVICE, "GET", "/resources").json
    assert resources["database"]["bytes"] > 1e6 and resources["store"]["videos"] >= 3 and resources["hosts"] == [
        {**host, "cpu_budget": None}]
    assert "jobs" in {table["name"] for table in resources["database"]["tables"]}
    assert ask(gateway, SERVICE, "POST", "/job-types/{name}/pause", {"reason": "upkeep"}, name="ocr").status == 204
    (rule,) = [item for item in ask(gateway, EDITOR, "GET", "/job-types").json["items"] if item["name"] == "ocr"]
    assert rule["paused_at"] and rule["pause_reason"] == "upkeep"
    assert ask(gateway, SERVICE, "POST", "/job-types/{name}/resume", name="ocr").status == 204
    assert ask(gateway, SERVICE, "POST", "/job-types/{name}/resume", name="nothing").status == 404


def test_rules_hold_from_the_next_claim_on(gateway, queue):
    changes = {"base_priority": 7, "max_running": 3, "max_running_per_tenant": 1, "cpu_weight": 2, "time_limit_ms": 90000}
    rule = ask(gateway, SERVICE, "PATCH", "/job-types/{name}", changes, name="embed").json
    assert {name: rule[name] for name in changes} == changes
    kept = ask(gateway, SERVICE, "PATCH", "/job-types/{name}", {"max_running": 0}, name="embed").json
    assert kept["max_running"] is None and kept["max_running_per_tenant"] == 1
    assert ask(gateway, SERVICE, "PATCH", "/job-types/{name}", {"cpu_weight": 6}, name="embed").status == 400
    assert ask(gateway, SERVICE, "PATCH", "/job-types/{name}", {}, name="nothing").status == 404
    for caller in ("owner", "admin", "viewer"):
        assert ask(gateway, CALLERS[caller], "PATCH", "/job-types/{name}", changes, name="embed").status == 403


def test_queues_and_their_history(gateway, queue, library):
    """A minute in which jobs came, waited, were done and failed, seen on the card and in the series."""
    queue.run("DELETE FROM jobs")
    queue.run("DELETE FROM queue_history")
    before = queue.value("SELECT date_trunc('minute', clock_timestamp())")
    for error in (None, None, "Timeout"):
        queue.add("clip_generate", video_id=library.videos["own"])
        claimed = queue.claim_one("clip_generate")
        if error:
            queue.fail(claimed, error, retryable=False)
        else:
            queue.call("complete_job", claimed)
    waiting = queue.add("clip_generate", video_id=library.videos["own"])
    for _ in range(2):  # asked twice, nothing counts twice
        queue.run("SELECT record_queue_history(%s, clock_timestamp() + interval '1 minute')", before)
    series = ask(gateway, SERVICE, "GET", "/stats/throughput?type=clip_generate&before=2100-01-01T00:00:00Z"
                 "&after=2099-12-31T23:00:00Z").json
    assert series["items"] == [] and series["step_seconds"] == 60
    after = (before - datetime.timedelta(minutes=5)).isoformat().replace("+00:00", "Z")
    until = (before + datetime.timedelta(minutes=5)).isoformat().replace("+00:00", "Z")
    for step in ("minute", "hour", "day"):
        (line,) = ask(gateway, SERVICE, "GET", f"/stats/throughput?type=clip_generate&step={step}&after={after}&before={until}"
                      ).json["items"]
        totals = {name: sum(point[name] for point in line["points"]) for name in ("enqueued", "done", "dead", "retried")}
        assert totals == {"enqueued": 4, "done": 2, "dead": 1, "retried": 0}
        assert max(point["run_p95_ms"] for point in line["points"] if point["run_p95_ms"] is not None) >= 0
    (card,) = [item for item in ask(gateway, SERVICE, "GET", "/stats/queues").json["items"] if item["job_type"] == "clip_generate"]
    assert (card["state"], card["ready"], card["dead"], card["workers"]) == ("nobody", 1, 1, 0)
    assert (card["in_per_minute"], card["out_per_minute"], card["failed_percent"]) == (0.8, 0.6, 33.3)
    assert ask(gateway, SERVICE, "GET", "/stats/throughput?after=2020-01-01T00:00:00Z").status == 400
    (row,) = [item for item in ask(gateway, SERVICE, "GET", "/stats/performance").json["items"]
              if item["job_type"] == "clip_generate"]
    assert (row["attempts"], row["succeeded"], row["failed"], row["worker"]) == (3, 2, 1, None)
    assert {item["worker"] for item in ask(gateway, SERVICE, "GET", "/stats/performance?by=worker").json["items"]} == {"worker"}
    queue.run("UPDATE queue_history SET at = at - interval '8 days'")
    queue.run("SELECT shorten_queue_history(now())")
    (hour,) = queue.run("SELECT sum(enqueued) AS enqueued, max(seconds) AS seconds FROM queue_history"
                      " WHERE job_type = 'clip_generate'")
    assert (hour["enqueued"], hour["seconds"]) == (4, 3600)
    queue.run("SELECT cancel_job(%s)", waiting)


def test_causes_of_failures(gateway, queue, library):
    """Messages that differ in ids and numbers are one cause; a tenant's admin sees their own."""
    queue.run("DELETE FROM jobs")
    for video, error in (("own", "NotAVideo"), ("own", "NotAVideo"), ("foreign", "NotAVideo")):
        queue.add("segment_index", video_id=library.videos[video])
        claimed = queue.claim_one("segment_index")
        queue.run("SELECT fail_job(%s, %s, %s, %s, false)", claimed["id"], claimed["lease_token"], error,
                  f"frame {claimed['lease_token']} of {claimed['id']} is no picture")
    for path, count in (("/errors", "attempts"), ("/dead-letters", "jobs")):
        for caller, expected in ((SERVICE, 3), (ADMIN, 2), (OTHER_ADMIN, 1)):
            (cause,) = ask(gateway, caller, "GET", path).json["items"]
            assert (cause[count], cause["error_type"]) == (expected, "NotAVideo")
            assert cause["message"] == "frame {n} of {id} is no picture"
            assert ask(gateway, caller, "GET", "/jobs/{id}", id=cause["example"]).status == 200
        assert ask(gateway, EDITOR, "GET", path).status == 403
        assert ask(gateway, SERVICE, "GET", path + "?type=ocr").json["items"] == []
    queue.run("DELETE FROM jobs")


def test_commands_workflows_and_jobs(gateway, queue, library):
    wanted = {"description": "says it", "argv": ["/bin/echo", "{{args.word}}"], "time_limit_ms": 5000, "is_public": True,
              "payload_schema": {"type": "object", "required": ["word"], "properties": {"word": {"type": "string"}}}}
    made = ask(gateway, SERVICE, "PUT", "/definitions/{key}", wanted, key="say").json
    assert {name: made[name] for name in wanted} == wanted
    assert ask(gateway, SERVICE, "PUT", "/definitions/{key}", {"argv": ["echo"]}, key="say").status == 400
    assert ask(gateway, ADMIN, "PUT", "/definitions/{key}", wanted, key="say").status == 403
    seen = ask(gateway, EDITOR, "GET", "/definitions/{key}", key="say").json
    assert "argv" not in seen and seen["payload_schema"] == wanted["payload_schema"]
    assert ask(gateway, EDITOR, "GET", "/definitions/{key}", key="gc").status == 404
    assert [item["key"] for item in ask(gateway, EDITOR, "GET", "/definitions").json["items"]] == ["say"]
    job = ask(gateway, SERVICE, "POST", "/jobs", {"command": "say", "payload": {"word": "hi"}, "dedupe_key": "one"})
    assert job.status == 202 and ask(gateway, SERVICE, "GET", "/jobs/{id}", id=job.json["id"]).json["payload"]["args"] == {"word": "hi"}
    assert ask(gateway, SERVICE, "POST", "/jobs", {"command": "say", "payload": {"word": "hi"}, "dedupe_key": "one"}).status == 200
    assert ask(gateway, SERVICE, "POST", "/jobs", {"command": "say", "payload": {}}).status == 400
    for body, status in (({"type": "embed", "command": "say"}, 400), ({}, 400), ({"type": "nothing"}, 400), ({"command": "nothing"}, 400),
                         ({"type": "webhook"}, 403), ({"type": "ocr", "video_id": library.videos["foreign"]}, 404),
                         ({"type": "ocr", "video_id": str(uuid.uuid4())}, 404)):
        assert ask(gateway, EDITOR, "POST", "/jobs", body).status == status, body
    mine = ask(gateway, EDITOR, "POST", "/jobs", {"type": "sample", "video_id": library.videos["own"], "priority": "high"})
    assert (mine.status, mine.json["source"], mine.json["created_by"]) == (202, "api", ALICE)
    assert mine.json["priority"] == 8
    sent = {"video_id": library.videos["own"], "s3_original_path": queue.value(
        "SELECT s3_original_path FROM videos WHERE id = %s", library.videos["own"])}
    assert ask(gateway, EDITOR, "GET", "/jobs/{id}", id=mine.json["id"]).json["payload"] == sent
    exact = ask(gateway, EDITOR, "POST", "/jobs", {"type": "segment_index", "video_id": library.videos["own"], "payload": {"x": 0.95}})
    assert queue.value("SELECT payload ->> 'x' FROM jobs WHERE id = %s", exact.json["id"]) == "0.95"
    queue.run("DELETE FROM jobs WHERE id = %s", exact.json["id"])
    for body, pointer in (({"type": "ocr", "video_id": library.videos["own"]}, "frame_paths"), ({"type": "transcode"}, "video_id"),
                          ({"type": "sample", "video_id": library.videos["own"], "payload": {"target_fps": "all"}}, "payload.target_fps")):
        refused = ask(gateway, EDITOR if "video_id" in body else SERVICE, "POST", "/jobs", body)
        assert (refused.status, [fault["pointer"] for fault in refused.json["errors"]]) == (400, [pointer]), refused.data
    for name, number in (("urgent", 10), ("low", 1), ("3", 3), (8, 8)):
        assert ask(gateway, EDITOR, "POST", "/jobs/{id}/priority", {"priority": name}, id=mine.json["id"]).json["priority"] == number
    assert ask(gateway, EDITOR, "POST", "/jobs/{id}/priority", {"priority": "soon"}, id=mine.json["id"]).status == 400
    for query in ("priority=high", "source=api", f"tenant={ALICE}&priority=8"):
        assert [item["id"] for item in ask(gateway, EDITOR, "GET", f"/jobs?{query}").json["items"]] == [mine.json["id"]]
    assert ask(gateway, EDITOR, "GET", "/jobs?priority=urgent").json["items"] == []
    steps = ask(gateway, EDITOR, "GET", "/workflows?name=video_pipeline").json["items"][0]["steps"]
    tried = ask(gateway, SERVICE, "POST", "/workflows", {"name": "video_pipeline", "steps": steps[:1], "dry_run": True})
    assert tried.json == {"name": "video_pipeline", "version": None}
    assert ask(gateway, SERVICE, "POST", "/workflows", {"name": "twice", "steps": [steps[0], steps[0]], "dry_run": True}).status == 400
    assert ask(gateway, SERVICE, "POST", "/workflows", {"name": "short", "steps": steps[:1]}).json["version"] == 1
    queue.run("DELETE FROM jobs")  # of one type a video has one job in flight
    run = ask(gateway, EDITOR, "POST", "/runs", {"workflow": "short", "video_id": library.videos["own"]})
    assert run.status == 202 and ask(gateway, EDITOR, "GET", "/runs/{id}", id=run.json["id"]).json["workflow"] == "short"
    assert ask(gateway, EDITOR, "POST", "/runs", {"workflow": "short", "video_id": library.videos["foreign"]}).status == 404
    assert ask(gateway, EDITOR, "POST", "/runs", {"workflow": "nothing"}).status == 400
    queue.run("DELETE FROM runs")
    queue.run("DELETE FROM jobs")


def test_tenants_are_paused(gateway, queue, library):
    queue.add("transcode", video_id=library.videos["foreign"])
    assert ask(gateway, SERVICE, "POST", "/tenants/{id}/pause", {"reason": "unpaid"}, id=BOB).status == 204
    (tenant,) = [item for item in ask(gateway, SERVICE, "GET", "/tenants").json["items"] if item["tenant_id"] == BOB]
    assert tenant["queued"] == 1 and tenant["pause_reason"] == "unpaid"
    assert ask(gateway, SERVICE, "POST", "/tenants/{id}/resume", id=BOB).status == 204
    assert queue.value("SELECT count(*) FROM paused_tenants") == 0


def test_tenants_have_names(gateway, queue, library):
    def names():
        return {item["tenant_id"]: item["name"] for path in ("/tenants", "/resources") for item in (
            lambda said: said.get("items") or said["store"]["tenants"])(ask(gateway, SERVICE, "GET", path).json)}

    assert names()[BOB] is None
    queue.run("INSERT INTO cortana.people (id, email, name) VALUES (%s, 'bob@example.org', 'Bob Bauer')", BOB)
    assert names()[BOB] == "Bob Bauer"
    queue.run("DELETE FROM cortana.people")
    change = {"name": "Bureau"}
    assert ask(gateway, ADMIN, "PATCH", "/tenants/{id}", change, id=BOB).status == 404
    assert ask(gateway, SERVICE, "PATCH", "/tenants/{id}", change, id=str(uuid.uuid4())).status == 404
    assert ask(gateway, SERVICE, "PATCH", "/tenants/{id}", change, id=BOB).status == 204
    assert names()[BOB] == "Bureau"
    queue.run("DELETE FROM cortana.tenants")


def test_a_schedule_across_a_change_of_clocks(gateway):
    body = {"cron": "30 2 * * *", "time_zone": "Europe/Berlin"}
    instants = ask(gateway, EDITOR, "POST", "/triggers/preview", body).json["items"]
    assert len(instants) == 10 and instants == sorted(instants, key=lambda instant: instant["at"])
    assert ask(gateway, EDITOR, "POST", "/triggers/preview", {**body, "cron": "61 * * * *"}).status == 400
    assert ask(gateway, EDITOR, "POST", "/triggers/preview", {**body, "time_zone": "Mars/Olympus"}).status == 400


# ---- triggers and webhooks -------------------------------------------------------------------------


def make_trigger(gateway, caller, name, **members):
    return ask(gateway, caller, "POST", "/triggers", {"name": name, **members})


def test_webhooks_belong_to_their_tenant(gateway, queue):
    made = {}
    for caller in (ADMIN, OTHER_ADMIN):  # the same name, and neither learns of the other
        answer = ask(gateway, caller, "POST", "/webhooks", {"name": "ours", "url": "https://example.com/hook"})
        assert answer.status == 201 and answer.json["secret"].startswith("whsec_")
        made[caller] = answer.json["tenant_id"]
        assert [item["name"] for item in ask(gateway, caller, "GET", "/webhooks").json["items"]] == ["ours"]
    assert made == {ADMIN: ALICE, OTHER_ADMIN: BOB}
    assert ask(gateway, ADMIN, "POST", "/webhooks", {"name": "ours", "url": "https://example.com/"}).status == 409
    assert ask(gateway, ADMIN, "POST", "/webhooks", {"name": "x", "url": "https://example.com/", "tenant_id": BOB}).status == 400
    assert ask(gateway, ADMIN, "POST", "/webhooks", {"name": "x", "url": "https://user:word@example.com/"}).status == 400
    team = ask(gateway, ADMIN, "POST", "/webhooks", {"name": "team", "url": "https://example.com/", "tenant_id": TEAM})
    assert team.json["tenant_id"] == TEAM
    changed = ask(gateway, ADMIN, "PATCH", "/webhooks/{name}", {"url": "https://example.com/b", "is_enabled": False,
                                                               "reason": "moving"}, name="ours").json
    assert (changed["url"], changed["disabled_reason"]) == ("https://example.com/b", "moving")
    assert ask(gateway, ADMIN, "POST", "/webhooks/{name}/test", name="ours").status == 409
    assert ask(gateway, ADMIN, "PATCH", "/webhooks/{name}", {"is_enabled": True}, name="ours").json["disabled_at"] is None
    assert ask(gateway, ADMIN, "POST", "/webhooks/{name}/rotate", {}, name="ours").json["secret"].startswith("whsec_")
    sent = ask(gateway, ADMIN, "POST", "/webhooks/{name}/test", name="ours")
    assert (sent.status, sent.json["type"], sent.json["state"]) == (202, "webhook.test", "queued")
    (delivery,) = ask(gateway, ADMIN, "GET", "/webhooks/{name}/deliveries", name="ours").json["items"]
    assert delivery["job_id"] == sent.json["job_id"]
    assert ask(gateway, ADMIN, "GET", "/jobs/{id}", id=delivery["job_id"]).json["payload"]["webhook"] == "ours"
    (claimed,) = queue.claim("webhook")
    assert claimed["payload"]["webhook"].endswith(":ours") and str(queue.job(claimed["id"])["tenant_id"]) == ALICE
    assert ask(gateway, OTHER_ADMIN, "GET", "/webhooks/{name}/deliveries", name="ours").json["items"] == []
    for method, path in (("GET", "/webhooks/{name}"), ("POST", "/webhooks/{name}/test"), ("DELETE", "/webhooks/{name}")):
        assert ask(gateway, OTHER_ADMIN, method, path, name="team").status == 404
        assert ask(gateway, EDITOR, method, path, name="ours").status == 403
    assert ask(gateway, ADMIN, "DELETE", "/webhooks/{name}", name="team").status == 204


def test_a_tenants_triggers_and_schedules(gateway, queue, library):
    schedule = make_trigger(gateway, ADMIN, "nightly", cron="30 2 * * *", time_zone="Europe/Berlin", action="run",
                            target="video_text", payload={"video_id": library.videos["own"]})
    assert (schedule.status, schedule.json["tenant_id"], schedule.json["created_by"]) == (201, ALICE, ALICE)
    known = ask(gateway, ADMIN, "GET", "/triggers/{id}", id=schedule.json["id"]).json
    assert len(known["instants"]) == 10 and known["next_at"] == known["instants"][0] and known["last"] is None
    other = make_trigger(gateway, OTHER_ADMIN, "nightly", cron="0 1 * * *", action="job", target="sample").json
    event = make_trigger(gateway, ADMIN, "paid", event="order.paid", action="webhook", target="ours", dedupe_window_seconds=60).json
    assert event["target"] == "ours" and event["dedupe_window_seconds"] == 60
    assert [item["name"] for item in ask(gateway, ADMIN, "GET", "/triggers").json["items"]] == ["nightly", "paid"]
    assert [item["name"] for item in ask(gateway, ADMIN, "GET", "/triggers?kind=event").json["items"]] == ["paid"]
    assert len(ask(gateway, SERVICE, "GET", "/triggers").json["items"]) > 3
    moved = ask(gateway, ADMIN, "PATCH", "/triggers/{id}", {"cron": "0 4 * * *"}, id=known["id"]).json
    assert (moved["cron"], moved["time_zone"]) == ("0 4 * * *", "Europe/Berlin") and moved["next_at"] != known["next_at"]
    assert ask(gateway, ADMIN, "POST", "/triggers/{id}/pause", {"reason": "holidays"}, id=known["id"]).status == 204
    assert ask(gateway, ADMIN, "GET", "/triggers/{id}", id=known["id"]).json["next_at"] is None
    assert ask(gateway, ADMIN, "POST", "/triggers/{id}/resume", id=known["id"]).status == 204
    fired = ask(gateway, ADMIN, "POST", "/triggers/{id}/fire", id=known["id"]).json
    assert fired["outcome"] == "fired" and ask(gateway, ADMIN, "GET", "/runs/{id}", id=fired["run_id"]).status == 200
    assert ask(gateway, ADMIN, "GET", "/triggers/{id}/firings", id=known["id"]).json["items"] == [fired]
    assert ask(gateway, ADMIN, "POST", "/triggers/{id}/fire", id=event["id"]).status == 409
    for method, path in (("GET", "/triggers/{id}"), ("POST", "/triggers/{id}/fire"), ("GET", "/triggers/{id}/firings"),
                         ("DELETE", "/triggers/{id}")):
        assert ask(gateway, OTHER_ADMIN, method, path, id=known["id"]).status == 404
        assert ask(gateway, ADMIN, method, path, id=other["id"]).status == 404
        assert ask(gateway, EDITOR, method, path, id=known["id"]).status == 403
    sent = ask(gateway, EDITOR, "POST", "/events", {"name": "order.paid", "data": {"order": 7}})
    assert sent.status == 202 and sent.json["id"]
    queue.run("SELECT scheduler_tick()")
    (delivery,) = [item for item in ask(gateway, ADMIN, "GET", "/webhooks/{name}/deliveries", name="ours").json["items"]
                   if item["type"] == "order.paid"]
    assert delivery["state"] == "queued"
    refused = ask(gateway, EDITOR, "POST", "/events", {"name": "video.ready"})
    assert (refused.status, [fault["pointer"] for fault in refused.json["errors"]]) == (400, ["name"])
    assert refused.json["detail"] == 'only the service may emit events whose names begin with "video."'
    assert ask(gateway, EDITOR, "POST", "/events", {"name": "order.paid", "video_id": library.videos["foreign"]}).status == 404
    assert ask(gateway, ADMIN, "DELETE", "/triggers/{id}", id=known["id"]).status == 204
    queue.run("DELETE FROM runs")


@pytest.mark.parametrize("members", [
    {"cron": "0 1 * * *", "event": "a.b", "action": "job", "target": "ocr"}, {"action": "job", "target": "ocr"},
    {"event": "a.b", "action": "command", "target": "gc"}, {"event": "a.b", "action": "webhook", "target": "theirs"},
    {"event": "a.b", "action": "job", "target": "webhook"}, {"event": "a.b", "action": "run", "target": "nothing"},
    {"event": "a.b", "action": "job", "target": "ocr", "payload": {"frame_paths": ["frames/x/1.jpg"]}},
    {"cron": "61 * * * *", "action": "job", "target": "ocr"}, {"event": "a.b", "action": "job", "target": "ocr", "dedupe_key": "x"},
    {"event": "a.b", "action": "job", "target": "ocr", "payload": {"x": "{{jobs.y}}"}},
    {"event": "a.b", "action": "job", "target": "ocr", "tenant_id": BOB}])
def test_triggers_that_are_refused(gateway, members):
    answer = make_trigger(gateway, ADMIN, "refused", **members)
    assert answer.status == 400 and answer.json["detail"], answer.data


def test_a_trigger_acts_on_its_tenants_videos_alone(gateway, queue, library):
    """The video comes with the event, and the trigger acts with the rights of the service."""
    trigger = make_trigger(gateway, ADMIN, "again", event="please.read", action="run", target="video_text",
                           payload={"video_id": "{{event.data.video}}"}).json
    for thing, outcome in (("foreign", "failed"), ("own", "fired")):
        ask(gateway, ADMIN, "POST", "/events", {"name": "please.read", "data": {"video": library.videos[thing]}})
        queue.run("SELECT scheduler_tick()")
        last = ask(gateway, ADMIN, "GET", "/triggers/{id}", id=trigger["id"]).json["last"]
        assert last["outcome"] == outcome, last
        assert outcome == "fired" or last["error"] == "the video belongs to another tenant"
    assert queue.value("SELECT count(*) FROM runs WHERE video_id = %s", library.videos["foreign"]) == 0
    queue.run("DELETE FROM runs")
