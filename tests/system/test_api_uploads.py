"""Uploads by tus into a directory, and what their owners may do with videos."""

import os
import random
import threading
import urllib.request
import uuid

import jsonschema
import pytest
from api import ALICE, DOCUMENT, TEAM, Gateway, Library, token
from s3_server import S3Server
from store_client import StoreClient

OWNER = token(app_metadata={"team_id": TEAM})
VIEWER = token(app_metadata={"cortana_role": "viewer", "team_id": TEAM})
STRANGER = token(sub=str(uuid.uuid4()))
FILE = random.Random(4).randbytes(3_000_000)
PART = 1_000_000


@pytest.fixture(scope="module")
def store(tmp_path_factory):
    return tmp_path_factory.mktemp("store")


@pytest.fixture(scope="module")
def gateway(program, place, store, tmp_path_factory):
    started = Gateway(program, place[0], tmp_path_factory.mktemp("gateway"), "--connections", "2", STORE_URL=f"dir:{store}")
    yield started
    assert started.process.stop() == 0


def check(answer, schema="Upload"):
    jsonschema.Draft202012Validator({"$ref": f"#/components/schemas/{schema}", "components": DOCUMENT["components"]}).validate(
        answer.json)
    return answer.json


def begin(gateway, size=len(FILE), name="my film.MP4", bearer=OWNER, **more):
    answer = gateway.ask("/uploads", bearer, "POST", {"name": name, "size": size, **more})
    assert answer.status == 201 and answer.headers["Location"] == answer.json["location"], answer.data
    return check(answer)


def send(gateway, upload, offset, data, bearer=OWNER, **headers):
    return gateway.ask(upload["location"], bearer, "PATCH", data, base="", **{
        "Content_Type": "application/offset+octet-stream", "Upload_Offset": str(offset), "Tus_Resumable": "1.0.0", **headers})


def test_an_upload_in_parts(gateway, place, store):
    upload = begin(gateway, title="A film", team_id=TEAM)
    assert (upload["mode"], upload["offset"], upload["state"], upload["url"]) == ("tus", 0, "open", None)
    for offset in range(0, len(FILE), PART):
        head = gateway.ask(upload["location"], OWNER, "HEAD", base="")
        assert (head.headers["Upload-Offset"], head.headers["Upload-Length"]) == (str(offset), str(len(FILE)))
        answer = send(gateway, upload, offset, FILE[offset:offset + PART])
        assert (answer.status, answer.data) == (204, b""), answer.data
        assert answer.headers["Upload-Offset"] == str(offset + PART) and answer.headers["Tus-Resumable"] == "1.0.0"
    key = f"videos/original/{upload['video_id']}/master.mp4"
    assert (store / key).read_bytes() == FILE and not (store / "uploads" / upload["id"]).exists()
    (row,) = place[1].run("SELECT owner_id::text, team_id::text, title, original_name, status FROM videos WHERE id = %s", upload["id"])
    assert tuple(row.values()) == (ALICE, TEAM, "A film", "my film.MP4", "new")
    assert place[1].value("SELECT count(*) FROM uploads WHERE key = %s", key) == 1  # the scanner was told
    done = check(gateway.ask(upload["location"], OWNER, base=""))
    assert (done["state"], done["offset"]) == ("complete", len(FILE))
    assert send(gateway, upload, len(FILE), b"x").status == 409
    assert gateway.ask(upload["location"], OWNER, "DELETE", base="").status == 409


def test_what_goes_wrong_loses_nothing(gateway, store):
    upload = begin(gateway)
    assert send(gateway, upload, 0, FILE[:PART]).status == 204
    for offset, data, status in ((0, FILE[:PART], 409), (PART + 1, b"x", 409), (PART, FILE, 409), (-1, b"x", 400), ("x", b"x", 400)):
        assert send(gateway, upload, offset, data).status == status, offset
    assert send(gateway, upload, PART, b"x", Content_Type="application/json").status == 415
    assert send(gateway, upload, PART, b"x" * (8 * 1024 * 1024 + 1)).status == 413
    assert gateway.ask(upload["location"], OWNER, "HEAD", base="").headers["Upload-Offset"] == str(PART)
    assert (store / "uploads" / upload["id"]).read_bytes() == FILE[:PART]
    assert send(gateway, upload, PART, FILE[PART:]).status == 204
    assert (store / f"videos/original/{upload['id']}/master.mp4").read_bytes() == FILE


def test_a_gateway_that_is_killed(program, place, store, tmp_path, gateway):
    """Another gateway goes on where the killed one was; one that died before it told anybody is told by an empty part."""
    own = Gateway(program, place[0], tmp_path, STORE_URL=f"dir:{store}")
    upload = begin(own)
    assert send(own, upload, 0, FILE[:PART]).status == 204
    own.end()
    assert send(gateway, upload, PART, FILE[PART:2 * PART]).status == 204
    spool = store / "uploads" / upload["id"]
    spool.write_bytes(FILE)
    key = store / f"videos/original/{upload['id']}/master.mp4"
    key.parent.mkdir(parents=True)
    os.rename(spool, key)
    assert gateway.ask(upload["location"], OWNER, "HEAD", base="").headers["Upload-Offset"] == str(len(FILE))
    assert send(gateway, upload, len(FILE), b"").status == 204
    assert check(gateway.ask(upload["location"], OWNER, base=""))["state"] == "complete"


def test_two_writers(gateway, store):
    upload, answers = begin(gateway), []
    threads = [threading.Thread(target=lambda: answers.append(send(gateway, upload, 0, FILE).status)) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert answers.count(204) == 1 and set(answers) <= {204, 409, 423}
    assert (store / f"videos/original/{upload['id']}/master.mp4").read_bytes() == FILE


def test_an_upload_is_given_up(gateway, place, store):
    upload = begin(gateway)
    assert send(gateway, upload, 0, b"some").status == 204 and (store / "uploads" / upload["id"]).exists()
    assert gateway.ask(upload["location"], OWNER, "DELETE", base="").status == 204
    assert not (store / "uploads" / upload["id"]).exists()
    assert gateway.ask(upload["location"], OWNER, base="").status == 404 and send(gateway, upload, 4, b"x").status == 404
    assert place[1].value("SELECT count(*) FROM videos WHERE id = %s", upload["id"]) == 0


def test_others_see_no_upload(gateway):
    upload = begin(gateway, team_id=TEAM)
    missing = gateway.ask(f"/uploads/{uuid.uuid4()}", STRANGER)
    mate = token(sub=str(uuid.uuid4()), app_metadata={"team_id": TEAM})
    for bearer in (STRANGER, mate):
        assert gateway.ask(upload["location"], bearer, base="").without_id() == missing.without_id()
        for answer in (send(gateway, upload, 0, b"x", bearer), gateway.ask(upload["location"], bearer, "DELETE", base=""),
                       gateway.ask(upload["location"] + "/complete", bearer, "POST", base="")):
            assert answer.status == 404
    assert gateway.ask("/uploads", VIEWER, "POST", {"name": "a.mp4", "size": 1}).status == 403
    assert gateway.ask("/uploads", None, "POST", {"name": "a.mp4", "size": 1}).status == 401


def test_what_is_refused_at_the_start(gateway, place):
    for body, words in (({"name": "a.exe", "size": 1}, "extension"), ({"name": "a.mp4", "size": 0}, "size"), ({"name": "mp4", "size": 1}, "extension"),
                        ({"name": "a.mp4", "size": 1, "team_id": str(uuid.uuid4())}, "team"), ({"name": "a.mp4"}, "missing")):
        answer = gateway.ask("/uploads", OWNER, "POST", body)
        assert answer.status == 400 and words in answer.data.decode(), answer.data
    video = place[1].video(ALICE)
    place[1].run("UPDATE videos SET original_sha256 = %s WHERE id = %s", "a" * 64, video)
    answer = gateway.ask("/uploads", OWNER, "POST", {"name": "a.mp4", "size": 1, "sha256": "a" * 64})
    assert answer.status == 409 and str(video) in answer.json["detail"]
    person = token(sub=str(uuid.uuid4()))
    for _ in range(20):
        begin(gateway, bearer=person)
    assert gateway.ask("/uploads", person, "POST", {"name": "a.mp4", "size": 1}).status == 429


def test_a_bucket_takes_the_object_itself(program, place, tmp_path):
    server = S3Server()
    try:
        server.start()
        environment = server.environment("uploads")
        client = StoreClient(program("store-commands"), environment)
        assert client.bucket(method="PUT", subresource="")["status"] == 200
        gateway = Gateway(program, place[0], tmp_path, **environment)
        try:
            upload = begin(gateway)
            assert (upload["mode"], upload["offset"]) == ("put", 0)
            with urllib.request.urlopen(urllib.request.Request(upload["url"], FILE, method="PUT"), timeout=60) as response:
                assert response.status == 200
            assert send(gateway, upload, 0, b"x").status == 409
            assert check(gateway.ask(upload["location"], OWNER, base=""))["offset"] == len(FILE)
            done = check(gateway.ask(upload["location"] + "/complete", OWNER, "POST", base=""))
            assert (done["state"], done["url"]) == ("complete", None)
        finally:
            assert gateway.process.stop() == 0
        client.close_process()
    finally:
        server.stop()


# ---- videos ----------------------------------------------------------------------------------------


def test_who_may_change_a_video(gateway, place):
    """Its owner and administrators of its team may, others who see it may not, and for everybody else it is not there."""
    videos = Library(place[1]).videos
    mate = token(sub=str(uuid.uuid4()), app_metadata={"team_id": TEAM})
    admin = token(sub=str(uuid.uuid4()), app_metadata={"team_id": TEAM, "cortana_role": "admin"})
    for method, path in (("POST", "/reprocess"), ("POST", "/reindex?languages=deu%2Beng"), ("DELETE", "")):
        for bearer, name, statuses in ((VIEWER, "own", {403}), (mate, "team", {403}), (OWNER, "foreign", {404}), (STRANGER, "own", {404}),
                                       (OWNER, "own", {202, 409}), (admin, "team", {202, 409})):
            answer = gateway.ask(f"/videos/{videos[name]}{path}", bearer, method)
            assert answer.status in statuses, (method, path, name, answer.data)
    assert gateway.ask(f"/videos/{videos['own']}", OWNER).status == 404
    assert place[1].value("SELECT count(*) FROM videos WHERE id = %s", videos["foreign"]) == 1


def test_an_upload_that_nobody_goes_on_with_ends(gateway, place):
    forgotten, young = begin(gateway), begin(gateway)
    send(gateway, forgotten, 0, FILE[:PART])
    place[1].run("UPDATE upload_sessions SET touched_at = touched_at - interval '8 days'")
    assert send(gateway, young, 0, FILE[:PART]).status == 204  # it goes on
    place[1].run("UPDATE upkeep_tasks SET due_at = CASE name WHEN 'uploads' THEN now() - interval '1 hour' ELSE 'infinity' END")
    assert place[1].value("SELECT run_upkeep()") == "uploads"
    assert gateway.ask(forgotten["location"], OWNER, base="").status == 404
    assert gateway.ask(young["location"], OWNER, base="").json["offset"] == PART
    assert place[1].value("SELECT count(*) FROM jobs WHERE job_type = 'object_remove' AND payload ->> 'video_id' = %s",
                          forgotten["video_id"]) == 1
