"""Uploads by tus into a directory, and what their owners may do with videos."""

import base64
import hashlib
import os
import random
import threading
import urllib.error
import urllib.request
import uuid

import pytest
from api import ALICE, TEAM, Gateway, Library, check_body, token
from media_tools import make_clip
from store_client import StoreClient
from test_faults import small_disk
from unreadable_files import make_unreadable_files
from workers import wait_until

OWNER = token(app_metadata={"team_id": TEAM})
VIEWER = token(app_metadata={"cortana_role": "viewer", "team_id": TEAM})
STRANGER = token(sub=str(uuid.uuid4()))
SERVICE = token(role="service_role", sub=None)
FILE = random.Random(4).randbytes(3_000_000)
PART = 1_000_000
BIG = random.Random(5).randbytes(20_000_000)


@pytest.fixture(scope="module")
def gateway(start_gateway):
    return start_gateway()


def begin(gateway, size=len(FILE), name="my film.MP4", bearer=OWNER, **more):
    answer = gateway.ask("/uploads", bearer, "POST", {"name": name, "size": size, **more})
    assert answer.status == 201 and answer.headers["Location"] == answer.json["location"], answer.data
    return check_body(answer, "Upload")


def send(gateway, upload, offset, data, bearer=OWNER, **headers):
    return gateway.ask(upload["location"], bearer, "PATCH", data, base="", **{
        "Content_Type": "application/offset+octet-stream", "Upload_Offset": str(offset), "Tus_Resumable": "1.0.0", **headers})


@pytest.mark.parametrize("name, expected", [
    ("a\r\nX: y\".mp4", "a X: y\".mp4"), ("\x1b[31mred.mp4", "[31mred.mp4"), ("photo\u202egpj.mp4", "photogpj.mp4"),
    ("a\u2066b\u2069\u200f.mp4", "ab.mp4"), ("a\u2028b\x85.mp4", "a b .mp4"), (" 👩\u200d💻 été.mp4 ", None), ("٣ أفلام.mp4", "٣ أفلام.mp4")])
def test_names_are_cleaned_where_they_get_in(gateway, place, name, expected):
    """Nothing in a name acts on a terminal, a header or a reader; joined emoji and other scripts stay as they are."""
    if expected is None:
        name, expected = name.strip(), name.strip()
    upload = begin(gateway, name=name, title=name)
    assert upload["name"] == expected
    assert tuple(place[1].run("SELECT original_name, title FROM videos WHERE id = %s", upload["id"])[0].values()) == (expected, expected)
    place[1].run("UPDATE videos SET title = %s WHERE id = %s", f"{name}\n{name}", upload["id"])
    assert place[1].value("SELECT title FROM videos WHERE id = %s", upload["id"]) == f"{expected} {expected}"
    assert gateway.ask(upload["location"], OWNER, "DELETE", base="").status == 204


def test_what_is_no_video_is_refused_when_it_begins(gateway, store, tmp_path):
    """With the sentence of the stages, where its first bytes tell; what they do not tell is taken in, as any video is."""
    sentences = make_unreadable_files(tmp_path)
    later = {"no_index", "index_cut", "partial", "segment", "init", "encrypted", "a.bmp", "a.m4a", "a.mp3", "nulls", "noise"}
    videos = {"moving.gif.mp4": "-f lavfi -i testsrc=s=64x48:r=10:d=1 -f gif", "moving.apng.mp4": "-f lavfi -i testsrc=s=64x48:r=10:d=1 -f apng",
              "white.y4m.mp4": "-f lavfi -i color=white:s=64x48:r=10:d=1 -f yuv4mpegpipe", "a.ts.mp4":
              "-f lavfi -i testsrc=s=64x48:r=10:d=1 -c:v mpeg2video -f mpegts"}
    for name, arguments in videos.items():
        make_clip(tmp_path / name, arguments)
    for name in [*(sentences.keys() - {"empty.mp4"}), *videos]:
        data = (tmp_path / name).read_bytes()
        upload = begin(gateway, len(data), name)
        answer = send(gateway, upload, 0, data)
        if name in videos or name.removesuffix(".mp4").removesuffix(".m4s") in later:
            assert answer.status == 204, (name, answer.data)
            continue
        assert (answer.status, answer.json["type"], answer.json["detail"]) == (415, "/problems/no-video", sentences[name]), name
        assert not (store / "uploads" / upload["id"]).read_bytes()
        assert gateway.ask(upload["location"], OWNER, "DELETE", base="").status == 204
    # In pieces: nothing is judged by fewer bytes than tell, and a long body ends with the same answer.
    page = (tmp_path / "sign_in.mp4").read_bytes() + b" " * 2_000_000
    upload = begin(gateway, len(page))
    assert send(gateway, upload, 0, page).json["detail"] == sentences["sign_in.mp4"]
    assert send(gateway, upload, 0, page[:100]).status == 204
    assert send(gateway, upload, 100, page[100:]).status == 204


def test_an_upload_in_parts(gateway, place, store):
    upload = begin(gateway, title="A film", team_id=TEAM)
    assert (upload["mode"], upload["offset"], upload["state"]) == ("tus", 0, "open")
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
    done = check_body(gateway.ask(upload["location"], OWNER, base=""), "Upload")
    assert (done["state"], done["offset"]) == ("complete", len(FILE))
    assert send(gateway, upload, len(FILE), b"x").status == 409
    assert gateway.ask(upload["location"], OWNER, "DELETE", base="").status == 409


def test_what_goes_wrong_loses_nothing(gateway, store):
    upload = begin(gateway)
    assert send(gateway, upload, 0, FILE[:PART]).status == 204
    for offset, data, status in ((0, FILE[:PART], 409), (PART + 1, b"x", 409), (PART, FILE, 409), (-1, b"x", 400), ("x", b"x", 400)):
        assert send(gateway, upload, offset, data).status == status, offset
    assert send(gateway, upload, PART, b"x", Content_Type="application/json").status == 415
    assert send(gateway, upload, PART, FILE[PART:] + b"x").status == 409
    assert gateway.ask(upload["location"], OWNER, "HEAD", base="").headers["Upload-Offset"] == str(PART)
    assert (store / "uploads" / upload["id"]).read_bytes() == FILE[:PART]
    assert send(gateway, upload, PART, FILE[PART:]).status == 204
    assert (store / f"videos/original/{upload['id']}/master.mp4").read_bytes() == FILE


def test_a_gateway_that_is_killed(own_gateway, store, gateway):
    """Another gateway goes on where the killed one was; one that died before it told anybody is told by an empty part."""
    own = own_gateway()
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
    assert check_body(gateway.ask(upload["location"], OWNER, base=""), "Upload")["state"] == "complete"


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


def test_what_is_refused_at_the_start(gateway, place):
    for body, words in (({"name": "a.exe", "size": 1}, "ends in .mp4"), ({"name": "a.mp4", "size": 0}, "size"), ({"name": "mp4", "size": 1}, "ends in .mp4"),
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


def test_a_request_that_breaks_off(gateway, store):
    """What came of it stays, whole pieces at least, and the next request goes on behind that; the writer's lock goes with it."""
    upload = begin(gateway, len(BIG))
    connection = gateway.connect()
    connection.putrequest("PATCH", upload["location"])
    for name, value in (("Authorization", f"Bearer {OWNER}"), ("Content-Type", "application/offset+octet-stream"),
                        ("Upload-Offset", "0"), ("Content-Length", str(len(BIG)))):
        connection.putheader(name, value)
    connection.endheaders()
    connection.send(BIG[:4_000_000])
    spool = store / "uploads" / upload["id"]
    wait_until(lambda: spool.exists() and spool.stat().st_size >= 3_500_000, "pieces on the disk")
    assert send(gateway, upload, 0, b"x").status == 423
    connection.close()
    wait_until(lambda: send(gateway, upload, 0, b"x").status == 409, "the end of the request")
    there = int(gateway.ask(upload["location"], OWNER, "HEAD", base="").headers["Upload-Offset"])
    assert 3_500_000 <= there <= 4_000_000 and spool.read_bytes() == BIG[:there]
    assert send(gateway, upload, there, BIG[there:]).status == 204
    assert (store / f"videos/original/{upload['id']}/master.mp4").read_bytes() == BIG


def test_the_length_of_a_request_costs_no_memory(gateway, store):
    """20 MB in one request."""
    before, upload = gateway.memory_peak_kib(), begin(gateway, len(BIG))
    assert send(gateway, upload, 0, BIG).status == 204
    assert (store / f"videos/original/{upload['id']}/master.mp4").read_bytes() == BIG
    assert gateway.memory_peak_kib() - before < 8 * 1024


@pytest.mark.parametrize("path, bearer, headers, status", [
    ("/uploads/no-uuid", OWNER, {}, 400), (f"/uploads/{uuid.uuid4()}?unknown=1", OWNER, {}, 400), (f"/uploads/{uuid.uuid4()}", OWNER, {}, 404),
    (f"/uploads/{uuid.uuid4()}", None, {}, 401), (f"/uploads/{uuid.uuid4()}", VIEWER, {}, 403),
    (f"/uploads/{uuid.uuid4()}", OWNER, {"Content_Type": "text/plain"}, 415)], ids=["path", "query", "missing", "nobody", "viewer", "type"])
def test_a_refused_part_is_read_before_its_answer(gateway, path, bearer, headers, status):
    """Its sender reads nothing before all of it has gone, and is to hear why it was in vain."""
    answer = send(gateway, {"location": f"/api/v1{path}"}, 0, BIG[:8_000_000], bearer, **headers)
    assert answer.status == status and answer.headers["Content-Type"] == "application/problem+json", answer.data


def test_creation_as_tus_has_it(gateway, place):
    """A client of tus needs no more than its own headers."""
    answer = gateway.ask("/uploads", None, "OPTIONS")
    assert (answer.status, answer.headers["Tus-Version"], answer.headers["Tus-Extension"]) == (204, "1.0.0", "creation,termination")
    assert 0 < int(answer.headers["Tus-Max-Size"]) <= 50 * 1024 ** 3

    def create(metadata, length=str(len(FILE)), **headers):
        return gateway.ask("/uploads", OWNER, "POST", b"", Tus_Resumable="1.0.0", Upload_Length=length, Upload_Metadata=metadata, **headers)

    def encode(text):
        return base64.b64encode(text.encode()).decode()

    for name in ("a.mp4", "ab.mp4", "abc.mp4"):  # every length of padding
        answer = create(f"filename {encode(name)},filetype {encode('video/mp4')},title {encode('Über')},empty")
        assert answer.status == 201 and answer.headers["Tus-Resumable"] == "1.0.0", answer.data
        assert check_body(answer, "Upload")["name"] == name
    upload = {"location": answer.headers["Location"]}
    assert send(gateway, upload, 0, FILE).status == 204
    assert place[1].value("SELECT title FROM videos WHERE id = %s", answer.json["video_id"]) == "Über"
    for metadata, length, words in (("", "5", "name"), ("filename !!!!", "5", "name"), (f"filename {encode('a.mp4')}", "x", "size"),
                                    (f"filename {encode('a.mp4')}", "-1", "size"), (f"filename {encode('a.exe')}", "5", "ends in .mp4"),
                                    (f"filename {encode('a.mp4')},team_id {encode('no')}", "5", "team_id")):
        answer = create(metadata, length)
        assert answer.status == 400 and words in answer.data.decode(), answer.data
    assert create(f"filename {encode('a.mp4')}", Content_Type="application/offset+octet-stream").status == 201
    assert gateway.ask("/uploads", OWNER, "POST", b"x", Upload_Length="1", Content_Type="application/offset+octet-stream").status == 415


# ---- a disk that fills up --------------------------------------------------------------------------


def test_uploads_leave_room_for_the_work(program, place, tmp_path):
    """What does not fit is refused before a byte is sent, or gives its room back; everything else works on."""
    with small_disk(tmp_path / "store", "60m"):
        own = Gateway(program, place[0], tmp_path, STORE_URL=f"dir:{tmp_path / 'store'}")
        disk = os.statvfs(tmp_path / "store")
        kept = 2 * disk.f_blocks * disk.f_frsize // 20
        most = int(own.ask("/uploads", None, "OPTIONS").headers["Tus-Max-Size"])
        assert disk.f_bavail * disk.f_frsize - kept - (1 << 20) < most <= disk.f_bavail * disk.f_frsize - kept
        videos = place[1].value("SELECT count(*) FROM videos")
        answer = own.ask("/uploads", OWNER, "POST", {"name": "a.mp4", "size": most + (1 << 20)})
        assert (answer.status, answer.json["type"]) == (507, "/problems/no-room") and "disk is full" in answer.json["detail"]
        assert place[1].value("SELECT count(*) FROM videos") == videos
        first, second = begin(own, 30_000_000), begin(own, 30_000_000)
        data = random.Random(6).randbytes(30_000_000)
        assert send(own, first, 0, data).status == 204
        for offset in (0, 10_000_000):
            assert send(own, second, offset, data[offset:offset + 10_000_000]).status == 204
        answer = send(own, second, 20_000_000, data[20_000_000:])
        assert (answer.status, answer.json["type"]) == (507, "/problems/no-room"), answer.data
        disk = os.statvfs(tmp_path / "store")
        assert disk.f_bavail * disk.f_frsize > kept + 10_000_000, "the refused upload has given its room back"
        assert own.ask(second["location"], OWNER, "HEAD", base="").headers["Upload-Offset"] == "0"
        assert send(own, begin(own), 0, FILE).status == 204
        assert own.ask("/videos", OWNER).status == 200
        assert own.ask(second["location"], OWNER, "DELETE", base="").status == 204
        assert own.process.stop() == 0


def test_a_tenant_that_fills_its_quota_stops_nobody_else(gateway, place):
    """What is announced counts as what is stored, whoever of the team uploads; deleting makes room."""
    team, person, other = (str(uuid.uuid4()) for _ in range(3))
    member = token(sub=person, app_metadata={"team_id": team})
    place[1].run("SELECT limit_tenant(%s, 4000000)", team)

    def create(size, bearer=member, **more):
        return gateway.ask("/uploads", bearer, "POST", {"name": "a.mp4", "size": size, **more})

    first = begin(gateway, bearer=member, team_id=team)  # 3,000,000 bytes
    refused = create(1_000_001, team_id=team)
    assert refused.status == 413 and "only 1000000 of the 4000000 bytes" in refused.json["detail"], refused.data
    assert send(gateway, first, 0, FILE, member).status == 204
    assert create(1_000_001, team_id=team).status == 413 and create(1_000_000, team_id=team).status == 201
    assert create(1, team_id=team).status == 413
    assert create(5_000_000, token(sub=other)).status == 201 and create(5_000_000).status == 201, "another tenant, and the person's own"
    (row,) = [item for item in gateway.ask("/tenants", SERVICE).json["items"] if item["tenant_id"] == team]
    assert (row["stored_bytes"], row["max_bytes"]) == (4_000_000, 4_000_000)
    place[1].run("SELECT delete_video(%s)", first["video_id"])
    assert create(3_000_000, team_id=team).status == 201

    assert gateway.ask(f"/tenants/{team}/limit", SERVICE, "POST", {"max_bytes": 4_000_001}).status == 204
    assert create(1, team_id=team).status == 201 and create(1, team_id=team).status == 413
    assert gateway.ask(f"/tenants/{team}/limit", OWNER, "POST", {}).status == 403
    assert gateway.ask(f"/tenants/{team}/limit", SERVICE, "POST", {}).status == 204
    assert create(9_000_000, team_id=team).status == 201


def test_two_uploads_at_once_do_not_share_the_last_room(gateway, place):
    person = str(uuid.uuid4())
    place[1].run("SELECT limit_tenant(%s, 1500)", person)
    answers = []
    threads = [threading.Thread(target=lambda: answers.append(gateway.ask(
        "/uploads", token(sub=person), "POST", {"name": "a.mp4", "size": 1000}).status)) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(answers) == [201] + [413] * 5


# ---- a bucket --------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def bucket_gateway(program, place, s3_server, tmp_path_factory):
    bucket = s3_server.environment("uploads")
    client = StoreClient(program("store-commands"), bucket)
    assert client.bucket(method="PUT", subresource="")["status"] == 200
    gateway = Gateway(program, place[0], tmp_path_factory.mktemp("gateway"), **bucket)
    yield gateway, client
    assert gateway.process.stop() == 0
    client.close_process()


def put(url, data):
    try:
        with urllib.request.urlopen(urllib.request.Request(url, data, method="PUT"), timeout=300) as response:
            return response.status
    except urllib.error.HTTPError as error:
        return error.code


def urls(gateway, upload, *numbers):
    answer = gateway.ask(upload["location"] + "/parts", OWNER, "POST", {"numbers": numbers}, base="")
    assert answer.status == 200, answer.data
    return [item["url"] for item in check_body(answer, "PartList")["items"]]


def test_parts_into_a_bucket(bucket_gateway, place):
    """Parts go in any order, a client that knows nothing any more goes on, and the end is told once all are there."""
    gateway, client = bucket_gateway
    data = BIG + BIG  # three parts
    upload = begin(gateway, len(data))
    size = upload["part_size"]
    assert (upload["mode"], upload["offset"], upload["parts"], size) == ("parts", 0, [], 16 * 1024 ** 2)
    pieces = [data[at:at + size] for at in range(0, len(data), size)]
    last, first = urls(gateway, upload, 3, 1)
    assert put(last, pieces[2]) == 200 and put(first, pieces[0]) == 200
    assert put(urls(gateway, upload, 2)[0], b"short") == 403  # another length than was signed
    complete = gateway.ask(upload["location"] + "/complete", OWNER, "POST", base="")
    assert complete.status == 409 and "missing" in complete.json["detail"]
    seen = check_body(gateway.ask(upload["location"], OWNER, base=""), "Upload")
    assert (seen["parts"], seen["offset"]) == ([1, 3], len(pieces[0]) + len(pieces[2]))
    assert put(urls(gateway, upload, 2)[0], pieces[1]) == 200
    for _ in range(2):
        done = check_body(gateway.ask(upload["location"] + "/complete", OWNER, "POST", base="", Idempotency_Key="end"), "Upload")
        assert (done["state"], done["offset"]) == ("complete", len(data))
    key = f"videos/original/{upload['video_id']}/master.mp4"
    with urllib.request.urlopen(client.presign(key=key, method="GET", seconds=60)["url"], timeout=300) as response:
        assert hashlib.sha256(response.read()).digest() == hashlib.sha256(data).digest()
    assert place[1].value("SELECT count(*) FROM uploads WHERE key = %s", key) == 1
    assert gateway.ask(upload["location"] + "/parts", OWNER, "POST", {"numbers": [1]}, base="").status == 409


def test_a_bucket_says_what_to_do_instead_of_tus(bucket_gateway, place):
    gateway, _ = bucket_gateway
    videos = place[1].value("SELECT count(*) FROM videos")
    answer = gateway.ask("/uploads", OWNER, "POST", b"", Tus_Resumable="1.0.0", Upload_Length="5",
                         Upload_Metadata="filename " + base64.b64encode(b"a.mp4").decode())
    assert answer.status == 409 and answer.json["type"] == "/problems/no-tus" and "/parts" in answer.json["detail"]
    assert gateway.ask("/uploads", method="OPTIONS").headers["Tus-Extension"] == "termination"
    assert place[1].value("SELECT count(*) FROM videos") == videos


def test_what_is_refused_of_parts(bucket_gateway, gateway):
    own, client = bucket_gateway
    upload = begin(own, 100)
    for numbers, status in (([], 400), ([0], 400), ([2], 400), ([1.5], 400), (["1"], 400), ([-1], 400), ([10 ** 9], 400), ([1] * 101, 400),
                            ([1, 1], 200), ({"a": 1}, 400)):
        assert own.ask(upload["location"] + "/parts", OWNER, "POST", {"numbers": numbers}, base="").status == status, numbers
    for bearer, status in ((STRANGER, 404), (VIEWER, 403), (None, 401)):
        assert own.ask(upload["location"] + "/parts", bearer, "POST", {"numbers": [1]}, base="").status == status
    assert send(own, upload, 0, b"x").status == 409
    assert gateway.ask(begin(gateway)["location"] + "/parts", OWNER, "POST", {"numbers": [1]}, base="").status == 409


def test_an_upload_in_parts_is_given_up(bucket_gateway):
    gateway, client = bucket_gateway
    upload = begin(gateway, 100)
    url, = urls(gateway, upload, 1)
    assert put(url, bytes(100)) == 200
    assert upload["video_id"] in client.bucket(method="GET", subresource="uploads")["body"]
    assert gateway.ask(upload["location"], OWNER, "DELETE", base="").status == 204
    assert upload["video_id"] not in client.bucket(method="GET", subresource="uploads")["body"] and put(url, bytes(100)) == 404


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
