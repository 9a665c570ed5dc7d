"""Clips over HTTP: asked for, waited for, downloaded under a name, listed, removed."""

import json
import threading
import time
import uuid

import psycopg2
import pytest
from api import ALICE, BOB, DOCUMENT, MATE, TEAM, check_body, token

OWNER = token(app_metadata={"team_id": TEAM})
STRANGER = token(sub=str(uuid.uuid4()))
BYTES = b"the bytes of a clip"


def request(gateway, library, t_start, bearer=OWNER):
    answer = gateway.ask("/clips", bearer, "POST", {"video_id": library.videos["own"], "t_start": t_start, "t_end": t_start + 500,
                                                   "padding_ms": 0})
    assert answer.status == 202, answer.data
    return check_body(answer, "Clip")


def finish(queue, store, clip):
    """What a worker does."""
    key = f"videos/clips/{clip['video_id']}/{clip['id']}.mp4"
    (store / key).parent.mkdir(parents=True, exist_ok=True)
    (store / key).write_bytes(BYTES)
    job = queue.claim_one("clip_generate")
    while str(job["id"]) != clip["job_id"]:
        job = queue.claim_one("clip_generate")
    queue.call("complete_job", job, json.dumps({"clip_path": key, "t_start": clip["t_start"], "t_end": clip["t_end"]}))
    return store / key


@pytest.mark.parametrize("body, pointer", [
    ({"t_start": 90000, "t_end": 91000}, "t_start"), ({"t_start": 100}, "t_end"), ({"t_end": 86400000}, "t_end"),
    ({"options": {"format": "avi"}}, "options.format"), ({"options": {"max_height": 1}}, "options.max_height"),
    ({"options": {"height": 100}}, "options.height"), ({"options": {"crop": "all"}}, "options.crop"),
    ({"options": {"crop": {"x": 0, "y": 0, "width": 5000, "height": 5000}}}, "options.crop"), ({"padding_ms": 70000}, "padding_ms")])
def test_an_impossible_clip_is_refused(gateway, place, library, body, pointer):
    place[1].run("UPDATE videos SET duration = 60, resolution = '320x240' WHERE id = %s", library.videos["own"])
    # While transcode has not looked at it, no length is certain.
    place[1].run("DELETE FROM jobs WHERE job_type = 'transcode' AND video_id = %s", library.videos["own"])
    before = place[1].value("SELECT count(*) FROM jobs")
    whole = {"video_id": library.videos["own"], "t_start": 100} | ({"t_end": 200} if body != {"t_start": 100} else {}) | body
    answer = gateway.ask("/clips", OWNER, "POST", whole)
    assert (answer.status, [fault["pointer"] for fault in answer.json["errors"]]) == (400, [pointer]), answer.data
    assert place[1].value("SELECT count(*) FROM jobs") == before


def test_the_document_says_what_options_there_are():
    """A generated client can pass each; the document and SQL have the same."""
    options = DOCUMENT["components"]["schemas"]["ClipOptions"]
    assert set(options["properties"]) == {"format", "mode", "max_height", "mute", "crop", "redact"} and options["additionalProperties"] is False


def test_a_clip_from_request_to_removal(gateway, place, library, store):
    clip = request(gateway, library, 100)
    assert clip["url"] is None and clip["format"] == "mp4"
    path = f"/clips/{clip['id']}"
    assert gateway.ask(path, OWNER, "DELETE").status == 409
    file = finish(place[1], store, clip)
    done = check_body(gateway.ask(path, OWNER), "Clip")
    assert done["state"] == "done" and done["expires"]
    download = gateway.ask(done["url"], base="")
    assert (download.status, download.data) == (200, BYTES) and download.headers["Content-Type"] == "video/mp4"
    assert download.headers["Content-Disposition"] == 'attachment; filename="video-own_0m00.100s-0m00.600s.mp4"'
    plain = done["url"].split("?")[0]
    assert "Content-Disposition" not in gateway.ask(plain, base="").headers
    for wrong in ("?name=", "?name=a/b", "?name=..", "?name=a%22b", "?name=" + "x" * 81, "?x=1", "?name=a&x=1"):
        assert gateway.ask(plain + wrong, base="").status == 404
    listed = check_body(gateway.ask(f"/clips?video={library.videos['own']}", OWNER), "ClipList")["items"]
    assert [item["id"] for item in listed] == [clip["id"]] and listed[0]["url"]
    assert gateway.ask(path, STRANGER, "DELETE").status == 404
    assert gateway.ask(path, token(app_metadata={"cortana_role": "viewer", "team_id": TEAM}), "DELETE").status == 403
    assert file.exists()
    for _ in range(2):  # asked again, it is removed again
        assert gateway.ask(path, OWNER, "DELETE").status == 204 and not file.exists()
    assert gateway.ask(done["url"], base="").status == 404
    assert check_body(gateway.ask(path, OWNER), "Clip")["url"] is None
    assert gateway.ask(f"/clips?video={library.videos['own']}", OWNER).json["items"] == []


def test_a_caller_waits_for_the_end(gateway, place, library, store):
    clip = request(gateway, library, 200)
    answers = []

    def wait(seconds):
        answers.append(gateway.ask(f"/clips/{clip['id']}?wait={seconds}", OWNER).json["state"])

    began = time.monotonic()
    wait(1)
    assert answers == ["queued"] and time.monotonic() - began >= 1
    waiting = [threading.Thread(target=wait, args=(30,)) for _ in range(5)]  # more than the gateway has connections
    for thread in waiting:
        thread.start()
    assert gateway.ask("/me", OWNER).status == 200
    finish(place[1], store, clip)
    for thread in waiting:
        thread.join()
    assert answers[1:] == 5 * ["done"]


def test_an_end_of_the_gateway_answers_who_waits(own_gateway, library):
    own = own_gateway()
    clip = request(own, library, 300)
    answers = []
    thread = threading.Thread(target=lambda: answers.append(own.ask(f"/clips/{clip['id']}?wait=30", OWNER)))
    thread.start()
    assert own.ask(f"/clips/{clip['id']}?wait=1", OWNER).status == 200  # by then the other one waits, too
    assert own.process.stop() == 0
    thread.join()
    assert answers[0].json["state"] == "queued"


def test_pages_of_clips(gateway, place, library):
    made = [request(gateway, library, 1000 + n)["id"] for n in range(3)]
    found, cursor = [], ""
    while cursor is not None:
        page = check_body(gateway.ask(f"/clips?video={library.videos['own']}&limit=1{cursor}", OWNER), "ClipList")
        found += [item["id"] for item in page["items"]]
        cursor = page["next"] and f"&cursor={page['next']}"
    assert found[:3] == made[::-1] and len(found) == len(set(found))
    assert gateway.ask(f"/clips?video={library.videos['foreign']}", OWNER).status == 404
    assert place[1].value("SELECT owner_id::text FROM videos WHERE id = %s", library.videos["own"]) == ALICE


# ---- reels ------------------------------------------------------------------------------------------------------------------

@pytest.fixture
def reel(gateway, place, library):
    """Of the video that is Alice's, then of the one of her team."""
    place[1].run("DELETE FROM jobs WHERE job_type = 'clip_generate'")
    answer = gateway.ask("/clips/reel", OWNER, "POST", {"q": "bridge", "sort": "time"})
    assert answer.status == 202, answer.data
    return check_body(answer, "Clip")


def shown(queue, reel):
    payload = queue.value("SELECT payload FROM jobs WHERE id = %s", reel["job_id"])
    return [part["video_id"] for part in payload["parts"]], [left["video_id"] for left in payload["left_out"]]


def test_those_see_a_reel_who_see_all_of_its_videos(gateway, place, library, store, reel):
    videos = {library.videos["own"], library.videos["team"]}
    assert (reel["parts"], reel["places"], reel["left_out"]) == (2, 2, []) and set(shown(place[1], reel)[0]) == videos
    assert gateway.ask("/clips/reel", OWNER, "POST", {"q": "bridge", "sort": "time"}).json["id"] == reel["id"]
    mate = token(sub=MATE, app_metadata={"team_id": TEAM})
    for video in videos:  # a job is listed by its video, which for a reel is that of its first part
        place[1].run("UPDATE jobs SET video_id = %s WHERE id = %s", video, reel["job_id"])
        for bearer, sees in ((OWNER, True), (mate, False)):
            for query in ("", "?type=clip_generate", f"?video={video}"):
                listed = [job["id"] for job in gateway.ask(f"/jobs{query}", bearer).json["items"]]
                assert (reel["job_id"] in listed) == sees, query
    finish(place[1], store, reel)
    for bearer, status in ((OWNER, 200), (mate, 404), (STRANGER, 404)):
        assert [gateway.ask(path, bearer).status for path in (f"/clips/{reel['id']}", f"/jobs/{reel['job_id']}")] == [status, status]
        found = [clip["id"] for video in videos for clip in gateway.ask(f"/clips?video={video}", bearer).json.get("items", [])]
        assert (reel["id"] in found) == (status == 200)
    assert gateway.ask(gateway.ask(f"/clips/{reel['id']}", OWNER).json["url"], base="").data == BYTES
    assert gateway.ask("/clips/reel", mate, "POST", {"q": "bridge"}).json["parts"] == 1
    assert gateway.ask("/clips/reel", STRANGER, "POST", {"q": "bridge"}).status == 409


def test_rights_are_looked_at_again_when_a_reel_is_cut(place, library, reel):
    own = library.videos["own"]
    place[1].run("UPDATE videos SET owner_id = %s WHERE id = %s", BOB, own)
    job = place[1].claim_one("clip_generate")
    place[1].run("UPDATE videos SET owner_id = %s WHERE id = %s", ALICE, own)
    assert str(job["id"]) == reel["job_id"] and [part["video_id"] for part in job["payload"]["parts"]] == [library.videos["team"]]
    assert shown(place[1], reel) == ([library.videos["team"]], [own])


@pytest.mark.parametrize("claims, is_left", [("enabled", True), ("disabled", False), ("no member", False)])
def test_a_person_who_left_reads_nothing(place, library, reel, claims, is_left):
    queue = place[1]
    queue.run("INSERT INTO tenants (id, name) VALUES (%s, 'x') ON CONFLICT DO NOTHING", TEAM)
    queue.run("INSERT INTO people (id, email, name, disabled_at) VALUES (%s, 'alice@example.com', 'Alice', %s)", ALICE,
              "2026-01-01" if claims == "disabled" else None)
    if claims != "no member":
        queue.run("INSERT INTO members VALUES (%s, %s, 'editor')", ALICE, TEAM)
    parts = {part["video_id"] for part in queue.claim_one("clip_generate")["payload"]["parts"]}
    queue.run("DELETE FROM people WHERE id = %s", ALICE)
    assert (library.videos["team"] in parts) == is_left and (library.videos["own"] in parts) == (claims != "disabled")


def test_no_job_takes_parts_that_are_not_the_callers(place, library, reel):
    queue = place[1]
    payload = queue.value("SELECT payload FROM jobs WHERE id = %s", reel["job_id"])
    foreign = {**payload["parts"][0], "video_id": library.videos["foreign"]}
    other_key = {**payload["parts"][0], "s3_original_path": f"videos/original/{library.videos['foreign']}/master.mp4"}
    for wrong in ({"parts": [payload["parts"][0], foreign]}, {"parts": [other_key]}, {"readers": [BOB]}, {"readers": None}):
        with queue.connection.cursor() as cursor:
            cursor.execute("SELECT set_config('request.jwt.claims', %s, false)", (json.dumps({"sub": ALICE, "app_metadata": {"team_id": TEAM}}),))
            cursor.execute("SET ROLE cortana_app")
            try:
                with pytest.raises(psycopg2.errors.InsufficientPrivilege):
                    cursor.execute("SELECT enqueue_job('clip_generate', %s, %s)", (json.dumps({**payload, **wrong}), payload["video_id"]))
            finally:
                cursor.execute("RESET ROLE")
                cursor.execute("SELECT set_config('request.jwt.claims', '', false)")


def lines_at(queue, video, starts, lasts):
    queue.run("UPDATE videos SET duration = NULL WHERE id = %s", video)
    queue.write_text(video, [{"text": f"harbour lights {start}", "t_start": start, "t_end": start + lasts} for start in starts])


@pytest.mark.parametrize("count, apart, lasts, places, parts, length", [
    (120, 20000, 60000, 120, 100, 100 * 9000 - 2000), (120, 8500, 900, 120, 100, 100 * 4900 - 2000),
    (120, 4000, 900, 1, 1, 119 * 4000 + 2900), (700, 3000, 900, 1, 1, 1197500)])
def test_a_reel_has_bounds(gateway, place, library, count, apart, lasts, places, parts, length):
    """At most 100 parts, of 20 minutes with their cards; of a line that stands for long the first 5 s. Two seconds before the first and behind each."""
    lines_at(place[1], library.videos["own"], [n * apart for n in range(count)], lasts)
    made = check_body(gateway.ask("/clips/reel", OWNER, "POST", {"q": "harbour", "sort": "time"}), "Clip")
    asked = place[1].value("SELECT payload FROM jobs WHERE id = %s", made["job_id"])["parts"]
    assert (made["places"], made["parts"], sum(part["t_end"] - part["t_start"] for part in asked)) == (places, parts, length)
