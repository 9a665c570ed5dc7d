"""Grants and media: what a player reads without a token, from a directory and from a bucket."""

import concurrent.futures
import contextlib
import datetime
import hmac
import json
import os
import random
import subprocess
import threading
import time
import urllib.request
import uuid

import pytest
from api import ALICE, BOB, TEAM, token
from lying_server import LyingServer
from store_client import StoreClient
from workers import wait_until

BUCKET = "media"
UPLOAD_BEGUN = "<InitiateMultipartUploadResult><UploadId>u</UploadId></InitiateMultipartUploadResult>"
NO_KEY = "<Error><Code>NoSuchKey</Code></Error>"
SECRETS = "the first secret of the tests, which signs\nthe second one, which is still accepted\n"
OWNER = token(app_metadata={"team_id": TEAM})
VIEWER = token(app_metadata={"cortana_role": "viewer", "team_id": TEAM})
SEGMENT = random.Random(16).randbytes(300_000)
PLAYLIST = b"#EXTM3U\n#EXTINF:4,\nsegment_0.m4s\n"
LINE = b"the picture of a line"
PACK = b"a line before it" + LINE + b"and one behind"


class Shop:
    """Two videos and their objects, put by `put(key, data)`."""

    def __init__(self, queue, put):
        self.videos, self.lines = {}, {}
        for name, owner, team in (("own", ALICE, TEAM), ("foreign", BOB, None)):
            video = str(uuid.uuid4())
            queue.run("INSERT INTO videos (id, owner_id, team_id, original_name, s3_original_path, s3_proxy_path,"
                      " s3_thumb_path, status) VALUES (%s, %s, %s, 'a.mp4', %s, %s, %s, 'ready')", video, owner, team,
                      f"videos/original/{video}/master.mp4", f"videos/proxy/{video}/index.m3u8",
                      f"thumbs/{video}/poster.webp")
            self.videos[name] = video
            for key, data in ((f"videos/proxy/{video}/index.m3u8", PLAYLIST), (f"frames/{video}/0.jpg", b"frame"),
                              (f"lines/{video}/0.pack", PACK),
                              (f"videos/proxy/{video}/v0/segment_0.m4s", SEGMENT),
                              (f"thumbs/{video}/poster.webp", b"poster"), (f"thumbs/{video}/empty.webp", b""),
                              (f"videos/original/{video}/master.mp4", SEGMENT)):
                put(key, data)
            queue.run("INSERT INTO kept_frames (video_id, t_ms, t_start, t_end, key) VALUES (%s, 40, 0, 900, %s),"
                      " (%s, 1000, 900, 5000, %s)", video, f"frames/{video}/0.jpg", video, f"frames/{video}/gone.jpg")
            queue.write_text(video, [
                {"text": f"the old bridge {t_start}", "t_start": t_start, "t_end": t_start + 500, **place}
                for t_start, place in ((100, {"crop_pack": f"lines/{video}/0.pack", "crop_bytes": len(LINE),
                                              "crop_offset": PACK.index(LINE)}), (1200, {}),
                                       (2000, {"crop_pack": f"lines/{video}/0.pack", "crop_bytes": 9, "crop_offset": len(PACK)}))])
            self.lines[name] = [str(row["id"]) for row in queue.run(
                "SELECT id FROM segments WHERE video_id = %s ORDER BY t_start", video)]


@pytest.fixture(scope="module")
def shop(place, store):
    def put(key, data):
        (store / key).parent.mkdir(parents=True, exist_ok=True)
        (store / key).write_bytes(data)
    return Shop(place[1], put)


@pytest.fixture(scope="module")
def secrets(tmp_path_factory):
    """The file of them."""
    path = tmp_path_factory.mktemp("gateway") / "secrets"
    path.write_text(SECRETS)
    return str(path)


@pytest.fixture(scope="module")
def gateway(start_gateway, shop, secrets):
    return start_gateway(CORTANA_GRANT_SECRET_FILE=secrets)


@pytest.fixture(scope="module")
def grant(gateway, shop):
    answer = gateway.ask(f"/videos/{shop.videos['own']}/grant?original=true", OWNER, "POST")
    assert answer.status == 200, answer.data
    return answer.json


def read(gateway, path, method="GET", **headers):
    return gateway.ask(path, method=method, base="", **headers)


def session_kinds(queue):
    return [row["kind"] for row in queue.run(
        "SELECT kind FROM interactive_sessions WHERE expires_at BETWEEN clock_timestamp() AND clock_timestamp() + interval '1 minute'")]


@pytest.mark.parametrize("kind", ["search", "play"])
def test_background_work_waits_while_somebody_searches_or_plays(own_gateway, place, shop, kind):
    queue = place[1]
    queue.run("INSERT INTO job_types (name, description, put_off_while_interactive) VALUES ('slow', 'a', true) ON CONFLICT DO NOTHING")
    queue.run("UPDATE job_types SET put_off_until = NULL; DELETE FROM interactive_sessions")
    queue.add("slow")
    own = own_gateway()
    try:
        assert own.ask("/search?q=bridge").status == 401 and read(own, "/media/x/y").status == 404
        assert own.ask("/videos", OWNER).status == 200
        if kind == "search":
            assert own.ask("/search?q=bridge", VIEWER).status == 200
        else:
            grant = own.ask(f"/videos/{shop.videos['own']}/grant", OWNER, "POST").json
            assert read(own, grant["base_url"] + grant["playlist"]).status == 200
        wait_until(lambda: session_kinds(queue) == [kind], "a session")
        assert queue.claim("slow") == []
        queue.run("UPDATE interactive_sessions SET expires_at = now(); UPDATE job_types SET put_off_until = NULL")
        assert len(queue.claim("slow")) == 1
    finally:
        queue.run("DELETE FROM jobs")


# ---- reading ---------------------------------------------------------------------------------------


def test_a_player_finds_everything(gateway, grant):
    assert grant["base_url"].startswith("/media/") and grant["base_url"].endswith("/")
    playlist = read(gateway, grant["base_url"] + grant["playlist"])
    assert (playlist.status, playlist.data) == (200, PLAYLIST)
    assert playlist.headers["Content-Type"] == "application/vnd.apple.mpegurl"
    assert playlist.headers["Cache-Control"] == "private, no-cache"
    segment = read(gateway, (grant["base_url"] + grant["playlist"]).replace("index.m3u8", "v0/segment_0.m4s"))
    assert segment.data == SEGMENT and segment.headers["Content-Type"] == "video/iso.segment"
    assert segment.headers["Cache-Control"] == "private, max-age=86400"
    poster = read(gateway, grant["base_url"] + grant["poster"])
    assert poster.data == b"poster" and poster.headers["Content-Type"] == "image/webp"
    assert read(gateway, grant["base_url"] + grant["original"]).data == SEGMENT
    assert read(gateway, grant["base_url"] + grant["poster"].replace("poster", "empty")).data == b""


def test_the_same_within_an_hour(gateway, shop, grant):
    again = gateway.ask(f"/videos/{shop.videos['own']}/grant?original=true", OWNER, "POST").json
    assert again["base_url"] == grant["base_url"] or again["expires"] != grant["expires"]


def test_head_and_conditions(gateway, grant):
    url = grant["base_url"] + grant["original"]
    head = read(gateway, url, "HEAD", Range="bytes=0-9")
    assert head.status == 200 and head.data == b"" and head.headers["Content-Length"] == str(len(SEGMENT))
    etag, date = head.headers["ETag"], head.headers["Last-Modified"]
    assert head.headers["Accept-Ranges"] == "bytes" and etag.startswith('"')
    known = read(gateway, url, If_None_Match=etag, Range="bytes=0-9")
    assert known.status == 304 and known.data == b"" and "Content-Range" not in known.headers
    for condition in (etag, date):
        assert read(gateway, url, Range="bytes=5-9", If_Range=condition).data == SEGMENT[5:10]
    for condition in (f"W/{etag}", '"other"', "Mon, 01 Jan 2001 00:00:00 GMT"):
        assert read(gateway, url, Range="bytes=5-9", If_Range=condition).status == 200
    assert read(gateway, url, "POST").status == 405 and read(gateway, url, "PUT").headers["Allow"] == "GET, HEAD"


SIZE = len(SEGMENT)


@pytest.mark.parametrize("text, expected", [
    ("bytes=0-0", (0, 0)), ("bytes=0-", (0, SIZE - 1)), (f"bytes={SIZE - 1}-", (SIZE - 1, SIZE - 1)),
    ("bytes=-1", (SIZE - 1, SIZE - 1)), (f"bytes=-{SIZE + 5}", (0, SIZE - 1)), ("bytes=7-99999999999999999999", (7, SIZE - 1)),
    (f"bytes={SIZE}-", None), ("bytes=-0", None), ("bytes=99999999999999999999999-", None),
    ("bytes=5-2", "whole"), ("bytes=0-1,4-5", "whole"), ("bytes=", "whole"), ("bytes=-", "whole"), ("bytes=a-b", "whole"),
    ("bytes=0x1-5", "whole"), ("items=0-1", "whole"), ("bytes=--5", "whole"), ("bytes=+1-5", "whole")])
def test_ranges(gateway, grant, text, expected):
    answer = read(gateway, grant["base_url"] + grant["original"], Range=text)
    if expected == "whole":
        assert answer.status == 200 and answer.data == SEGMENT
    elif expected is None:
        assert answer.status == 416 and answer.headers["Content-Range"] == f"bytes */{SIZE}"
    else:
        first, last = expected
        assert answer.status == 206 and answer.data == SEGMENT[first:last + 1]
        assert answer.headers["Content-Range"] == f"bytes {first}-{last}/{SIZE}"


def test_drawn_ranges_on_one_connection(gateway, grant):
    draw, connection = random.Random(7), gateway.connect()
    for _ in range(200):
        first = draw.randrange(SIZE)
        last = draw.randrange(first, SIZE + 1000)
        connection.request("GET", grant["base_url"] + grant["original"], headers={"Range": f"bytes={first}-{last}"})
        answer = connection.getresponse()
        assert (answer.status, answer.read()) == (206, SEGMENT[first:last + 1])
    connection.close()


# ---- how a browser takes an object ------------------------------------------------------------------

SCRIPT = b"<script>document.title = 'ours'</script>"
SHOWN = {"mp4": "video/mp4", "m4s": "video/iso.segment", "ts": "video/mp2t", "m3u8": "application/vnd.apple.mpegurl",
         "webp": "image/webp", "jpg": "image/jpeg", "gif": "image/gif", "vtt": "text/vtt; charset=utf-8"}
STRANGE = ["html", "htm", "xhtml", "svg", "xml", "xsl", "js", "mjs", "pdf", "swf", "wasm", "mp4.html", "none"]


def check_boundary(answer):
    """What keeps an object from acting in the page's name, whatever its bytes are."""
    is_film = answer.headers.get("Content-Type", "").startswith("video/")
    assert answer.headers["Content-Security-Policy"] == (
        "default-src 'none'; media-src 'self'; sandbox allow-same-origin" if is_film else "default-src 'none'; sandbox")
    assert answer.headers["Cross-Origin-Resource-Policy"] == "same-origin"
    assert answer.headers["X-Content-Type-Options"] == "nosniff"


@pytest.mark.parametrize("ending", [*SHOWN, *STRANGE])
def test_the_type_is_that_of_the_key(gateway, shop, store, grant, ending):
    """A stage that was taken over stores a document with its own type under the video's prefix."""
    path = f"videos/proxy/{shop.videos['own']}/taken.{ending}"
    (store / path).write_bytes(SCRIPT)
    with contextlib.suppress(OSError):
        os.setxattr(store / path, "user.cortana.content_type", b"text/html")
    answer = read(gateway, grant["base_url"] + path)
    assert (answer.status, answer.data) == (200, SCRIPT)
    check_boundary(answer)
    if ending in SHOWN:
        assert answer.headers["Content-Type"] == SHOWN[ending] and "Content-Disposition" not in answer.headers
        named = read(gateway, grant["base_url"] + path + "?name=a.mp4")
        assert named.headers["Content-Disposition"] == 'attachment; filename="a.mp4"'
    else:
        assert answer.headers["Content-Type"] == "application/octet-stream"
        assert answer.headers["Content-Disposition"] == "attachment"


def test_every_answer_has_the_boundary(gateway, shop, grant):
    """Only the page's own files run in the page's origin."""
    check_boundary(read(gateway, grant["base_url"] + "missing"))
    check_boundary(read(gateway, "/media/x/y"))
    for path in (f"/videos/{shop.videos['own']}", f"/videos/{shop.videos['own']}/poster", "/nothing",
                 f"/videos/{shop.videos['own']}/export?format=txt"):
        check_boundary(gateway.ask(path, OWNER))
    assert "script-src" in read(gateway, "/").headers["Content-Security-Policy"]


# ---- what is refused -------------------------------------------------------------------------------


def test_everything_wrong_is_the_same_404(gateway, grant, shop):
    """Path tricks, foreign videos, other kinds of objects, cut and changed grants: nobody learns which it was."""
    own, foreign = shop.videos["own"], shop.videos["foreign"]
    text = grant["base_url"].split("/")[2]
    changed = [text[:at] + ("1" if text[at] == "0" else "0") + text[at + 1:] for at in range(len(text))]
    good = f"videos/proxy/{own}/index.m3u8"
    paths = [f"/media/{cut}/{good}" for cut in [*changed, text[:-1], text + "A", text[:-4], "", "x", text.upper()]]
    paths += [f"/media/{text}/{key}" for key in [
        "", "/", f"videos/proxy/{own}/missing.m3u8", f"videos/proxy/{own}", f"videos/proxy/{own}/", f"/{good}", good + "/",
        f"videos/proxy/{foreign}/index.m3u8", f"frames/{own}/0.jpg", f"lines/{own}/0.pack", f"videos/original/{own}/other.mp4",
        f"videos/proxy/{own}/../{own}/index.m3u8", f"videos/proxy/{own}/./index.m3u8", f"videos/proxy/{own}//index.m3u8",
        f"videos/proxy/{own}/%69ndex.m3u8", f"videos/proxy/{own}%2findex.m3u8", f"videos/proxy/{own}/..%2f..%2f{foreign}/index.m3u8",
        f"videos/proxy/{own}/index.m3u8%00", good + "?x=1", good + "#x", good.replace("videos", "VIDEOS"), own.upper(),
        f"videos/proxy/{own.upper()}/index.m3u8", f"videos/proxy/{own}/..\\index.m3u8", "../../etc/passwd", f"videos/clips/{own}/x.mp4",
        f"videos/proxy/{own}/{'a/' * 300}x", f"videos/proxy/{own}/{'a' * 300}"]]
    answers = {read(gateway, path).without_id() for path in paths}
    statuses = {path: read(gateway, path).status for path in paths}
    assert set(statuses.values()) == {404} and len(answers) == 1
    assert read(gateway, f"/media/{text}/{good}").status == 200


def test_a_playback_grant_is_not_for_the_original(gateway, shop):
    video = shop.videos["own"]
    answer = gateway.ask(f"/videos/{video}/grant", VIEWER, "POST").json
    assert answer["original"] is None
    assert read(gateway, answer["base_url"] + answer["playlist"]).status == 200
    assert read(gateway, f"{answer['base_url']}videos/original/{video}/master.mp4").status == 404
    assert gateway.ask(f"/videos/{video}/grant?original=true", token(sub=str(uuid.uuid4()), app_metadata={"team_id": TEAM}),
                       "POST").status == 403


@pytest.mark.parametrize("lasts_s", [60, 2 * 3600, 24 * 3600])
def test_a_grant_does_not_outlive_its_credential_by_hours(gateway, shop, lasts_s):
    """Who is signed out for good reads on for as long as the film that they watch, not for a night."""
    now = time.time()
    answer = gateway.ask(f"/videos/{shop.videos['own']}/grant", token(exp=int(now + lasts_s), app_metadata={"team_id": TEAM}), "POST").json
    left = datetime.datetime.fromisoformat(answer["expires"].replace("Z", "+00:00")).timestamp() - now
    assert min(lasts_s + 3600, 6 * 3600) <= left + 1 and left <= min(lasts_s + 2 * 3600, 7 * 3600) + 1


def forge(scopes, end, video, secret):
    signed = f"{scopes:02x}{int(end):012x}{0:08x}{0:08x}{video}"  # all of the video
    return signed + hmac.digest(secret.encode(), f"cortana media grant 3 {signed}".encode(), "sha256").hex()[:32]


def test_a_grant_ends(gateway, shop, grant):
    video, secrets, now = shop.videos["own"], SECRETS.splitlines(), time.time()
    for secret, end, status in ((secrets[0], now + 60, 200), (secrets[1], now + 60, 200), (secrets[0], now - 1, 404),
                                (secrets[0], 0, 404), ("a secret that nobody has given out yet", now + 60, 404)):
        url = f"/media/{forge(1, end, video, secret)}/{grant['playlist']}"
        assert read(gateway, url).status == status, (secret, end)


def test_secrets_overlap(own_gateway, tmp_path, grant):
    """A gateway that signs with the second secret accepts what the first one signed; one without the first does not."""
    first, second = SECRETS.splitlines()
    for name, secrets, status in (("both", f"{second}\n{first}\n", 200), ("one", f"{second}\n", 404)):
        (tmp_path / name).write_text(secrets)
        other = own_gateway(CORTANA_GRANT_SECRET_FILE=str(tmp_path / name))
        assert read(other, grant["base_url"] + grant["playlist"]).status == status


def test_without_a_store_it_says_so(own_gateway, secrets, gateway, grant):
    other = own_gateway(STORE_URL="", S3_BUCKET="", CORTANA_GRANT_SECRET_FILE=secrets)
    answer = read(other, grant["base_url"] + grant["playlist"])
    assert answer.status == 503 and answer.headers["Retry-After"] == "1"


def test_a_store_that_is_silent(own_gateway, secrets, grant):
    """Nobody waits for it longer than the first four, who have its threads."""
    ended, over = threading.Event(), []
    store = LyingServer(lambda request: ended.wait(300))
    other = own_gateway(**store.environment(), CORTANA_GRANT_SECRET_FILE=secrets)

    def ask(_):
        answer = read(other, grant["base_url"] + grant["playlist"])
        over.append(time.monotonic())
        return answer.status

    try:
        begun = time.monotonic()
        with concurrent.futures.ThreadPoolExecutor(12) as threads:
            assert list(threads.map(ask, range(12))) == [503] * 12
        assert over[-1] - begun < (over[0] - begun) * 1.5, "as many turns as threads need"
        assert 4 <= len(store.requests)
    finally:
        ended.set()
        store.close()


def test_reads_do_not_wait_for_writes(own_gateway, secrets, grant):
    """A bucket that is silent about uploads, with as many ends of uploads and removals as there are threads."""
    begun, ended = threading.Event(), threading.Event()

    def answer(request):
        if ".m3u8" not in request.path:
            if begun.is_set():
                ended.wait(120)
            if "uploads" in request.query:
                request.tell(200, UPLOAD_BEGUN if request.command == "POST" else "<ListMultipartUploadsResult/>")
            elif "uploadId" in request.query:
                request.tell(200, "<ListPartsResult/>")
            else:
                request.tell(404, NO_KEY)
        else:
            request.tell(200, PLAYLIST, ETag='"1"', Last_Modified="Thu, 01 Jan 2026 00:00:00 GMT")

    store = LyingServer(answer)
    other = own_gateway(**store.environment(), CORTANA_GRANT_SECRET_FILE=secrets)

    def begin(_):
        return other.ask("/uploads", OWNER, "POST", {"name": "a.mp4", "size": 9}).json["location"]

    try:
        with concurrent.futures.ThreadPoolExecutor(14) as threads:
            places = list(threads.map(begin, range(9)))
            asked = len(store.requests)
            begun.set()
            waiting = [threads.submit(other.ask, where + "/complete" * (i < 5), OWNER, "POST" if i < 5 else "DELETE", base="")
                       for i, where in enumerate(places)]
            wait_until(lambda: len(store.requests) >= asked + 4, "the bucket to be asked")
            assert read(other, grant["base_url"] + grant["playlist"]).data == PLAYLIST
            assert not all(one.done() for one in waiting[:5]), "the ends of uploads wait"
            ended.set()
    finally:
        ended.set()
        store.close()


# ---- exports ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind, media_type", [
    ("json", "application/json"), ("csv", "text/csv; charset=utf-8"), ("srt", "application/x-subrip; charset=utf-8"),
    ("vtt", "text/vtt; charset=utf-8"), ("ass", "text/x-ssa; charset=utf-8"), ("txt", "text/plain; charset=utf-8"),
    ("md", "text/markdown; charset=utf-8")])
def test_an_export_is_what_the_command_writes(program, place, gateway, shop, kind, media_type):
    video = shop.videos["own"]
    answer = gateway.ask(f"/videos/{video}/export?format={kind}", OWNER)
    done = subprocess.run([program("cortana"), "export", video, "--format", kind], check=True, capture_output=True,
                          env={**os.environ, "DATABASE_URL": place[0]})
    assert (answer.status, answer.data) == (200, done.stdout) and b"the old bridge 1200" in answer.data
    assert answer.headers["Content-Type"] == media_type
    assert answer.headers["Content-Disposition"] == f'attachment; filename="a-mp4.{kind}"'
    foreign = gateway.ask(f"/videos/{shop.videos['foreign']}/export?format={kind}", OWNER)
    missing = gateway.ask(f"/videos/{uuid.uuid4()}/export?format={kind}", OWNER)
    assert foreign.status == missing.status == 404 and foreign.without_id() == missing.without_id()


def test_what_an_export_is_asked_for(gateway, shop):
    video = shop.videos["own"]
    assert gateway.ask(f"/videos/{video}/export?format=csv&bom=true", OWNER).data.startswith(b"\xef\xbb\xbfvideo,")
    with_places = gateway.ask(f"/videos/{video}/export?format=vtt", OWNER).data
    assert gateway.ask(f"/videos/{video}/export?format=vtt&positions=true", OWNER).data == with_places
    for query in ("", "?format=doc", "?format=srt&bom=yes"):
        assert gateway.ask(f"/videos/{video}/export{query}", OWNER).status == 400


# ---- pictures --------------------------------------------------------------------------------------


def test_the_pictures_of_a_line(gateway, shop):
    own = shop.videos["own"]
    (hit,) = [item for item in gateway.ask("/search?q=bridge", OWNER).json["items"] if item["t_start"] == 100]
    crop = read(gateway, hit["crop_url"], Authorization=f"Bearer {OWNER}")
    assert (crop.status, crop.data, crop.headers["Content-Type"]) == (200, LINE, "image/png")
    assert crop.headers["Cache-Control"] == "private, max-age=86400"
    assert gateway.ask(f"/segments/{hit['segment_id']}/crop", OWNER, If_None_Match=crop.headers["ETag"]).status == 304
    frame = read(gateway, hit["frame_url"], Authorization=f"Bearer {OWNER}")
    assert (frame.status, frame.data, frame.headers["X-Frame-Time"], hit["frame_box"]) == (200, b"frame", "40", hit["box"])
    assert frame.headers["Content-Type"] == "image/jpeg" and frame.headers["ETag"]
    assert gateway.ask(f"/videos/{own}/frame?t=899", OWNER).data == b"frame"
    (line, *_) = gateway.ask(f"/videos/{own}/segments", OWNER).json["items"]
    assert line["crop_url"] == hit["crop_url"]
    poster = read(gateway, gateway.ask(f"/videos/{own}", OWNER).json["poster_url"], Authorization=f"Bearer {OWNER}")
    assert (poster.status, poster.data) == (200, b"poster")


@pytest.mark.parametrize(("t_ms", "x", "y"), [(0, 10, 50), (1000, 10, 50), (1500, 10, 40), (2000, 10, 30), (2500, 15, 30),
                                              (9000, 20, 30)])
def test_where_a_line_that_moved_is_in_a_picture(shop, place, t_ms, x, y):
    row = {"t_start": 500, "t_end": 9000, "bounding_box": {"x": 10, "y": 50, "width": 7, "height": 5},
           "track": [1000, 10, 50, 1000, 0, -20, 1000, 10, 0]}
    for line in (row, {**row, "track": None}, {**row, "track": None, "end_box": {"x": 10, "y": 220, "width": 24, "height": 5}}):
        box = place[1].value("SELECT cortana.box_at(jsonb_populate_record(NULL::segments, %s), %s)", json.dumps(line), t_ms)
        late = max(t_ms - 500, 0) // 500
        assert box == (
            {"x": x, "y": y, "width": 7, "height": 5} if line["track"] else
            {"x": 10, "y": 50 + 10 * late, "width": 7 + late, "height": 5} if line.get("end_box") else row["bounding_box"])


def test_pictures_that_are_not_there(gateway, shop):
    """Never kept, cleared away, behind the end of a pack, another tenant's, nobody's: one answer."""
    (_, without, cut), foreign = shop.lines["own"], shop.lines["foreign"][0]
    paths = [f"/segments/{line}/{kind}" for line in (foreign, uuid.uuid4()) for kind in ("crop", "frame")]
    paths += [f"/segments/{without}/crop", f"/segments/{without}/frame", f"/segments/{cut}/crop",
              f"/videos/{shop.videos['own']}/frame?t=1000", f"/videos/{shop.videos['foreign']}/frame?t=0",
              f"/videos/{shop.videos['foreign']}/poster", f"/videos/{uuid.uuid4()}/poster"]
    answers = {path: gateway.ask(path, OWNER) for path in paths}
    assert {path: answer.status for path, answer in answers.items() if answer.status != 404} == {}
    assert len({answer.without_id() for answer in answers.values()}) == 1
    assert gateway.ask(f"/segments/{foreign}/crop").status == 401
    assert gateway.ask(f"/segments/{foreign}/crop", token(role="service_role", sub=None)).data == LINE


# ---- a bucket --------------------------------------------------------------------------------------


def check_passing_through(gateway, url, put):
    """The same URL at a gateway whose browsers cannot reach the bucket."""
    video = url.split("/")[5]
    grant = gateway.ask(f"/videos/{video}/grant", OWNER, "POST").json
    url = grant["base_url"] + url.split("/", 3)[3]
    large = random.Random(7).randbytes(12 * 1024 ** 2 + 5)  # several pieces
    put(url.split("/", 3)[3].replace("segment_0", "segment_7"), large)
    whole = read(gateway, url)
    assert (whole.status, whole.data, whole.headers["Accept-Ranges"]) == (200, SEGMENT, "bytes")
    url = url.replace("segment_0", "segment_7")
    before = gateway.memory_peak_kib()
    for _ in range(3):
        assert read(gateway, url).data == large
    assert gateway.memory_peak_kib() - before < 6 * 1024
    for first, last in ((0, 0), (262143, 262144), (5, len(large) - 1), (3 * 1024 ** 2, None)):
        part = read(gateway, url, Range=f"bytes={first}-{'' if last is None else last}")
        assert (part.status, part.data) == (206, large[first:None if last is None else last + 1])
    assert read(gateway, url, Range=f"bytes={len(large)}-").status == 416
    assert read(gateway, url, If_None_Match=whole.headers["ETag"]).status == 200
    assert read(gateway, url, If_None_Match=read(gateway, url).headers["ETag"]).status == 304


def check_types_of_bucket(client, gateway, grant, video):
    """Another program has stored objects as documents: the bucket's own answers say the types of their keys."""
    for ending, media_type, disposition in (("jpg", "image/jpeg", None), ("html", "application/octet-stream", "attachment")):
        key = f"thumbs/{video}/taken.{ending}"
        put = urllib.request.Request(client.presign(key=key, method="PUT")["url"], SCRIPT, {"Content-Type": "text/html"}, method="PUT")
        with urllib.request.urlopen(put, timeout=300) as response:
            assert response.status == 200
        location = read(gateway, grant["base_url"] + key).headers["Location"]
        with urllib.request.urlopen(location, timeout=300) as response:
            assert (response.headers["Content-Type"], response.headers["Content-Disposition"]) == (media_type, disposition)
            assert response.read() == SCRIPT
        location = read(gateway, grant["base_url"] + key + "?name=evening.mp4").headers["Location"]
        with urllib.request.urlopen(location, timeout=300) as response:
            assert response.headers["Content-Disposition"] == 'attachment; filename="evening.mp4"'


def check_part_of_bucket(gateway, put, video):
    """Who has a link to a part of a video is not led to the bucket, whose signed URLs are of whole objects."""
    service = token(role="service_role", sub=None)
    assert gateway.ask(f"/tenants/{TEAM}/sharing", service, "PUT", {"allowed": True}).status == 204
    put(f"videos/proxy/{video}/v.m3u8", b"#EXTM3U\n" + b"".join(b"#EXTINF:4,\n#EXT-X-BYTERANGE:100@%d\nsegment_v_00000.m4s\n" % (100 * n) for n in range(3)))
    put(f"videos/proxy/{video}/segment_v_00000.m4s", SEGMENT[:300])
    link = gateway.ask("/shares", service, "POST", {"video_id": video, "from_ms": 4000, "to_ms": 7000}).json["link"]
    base = gateway.ask(link.replace("/s/", "/shared/"), method="POST").json["base_url"] + f"videos/proxy/{video}/"
    assert read(gateway, base + "v.m3u8").data.count(b"#EXT-X-BYTERANGE:100@100") == 1
    part = read(gateway, base + "segment_v_00000.m4s", Range="bytes=100-199")
    assert (part.status, part.data) == (206, SEGMENT[100:200])
    for asked in ({}, {"Range": "bytes=0-99"}, {"Range": "bytes=150-250"}):
        refused = read(gateway, base + "segment_v_00000.m4s", **asked)
        assert (refused.status, refused.headers["Location"]) == (404, None)


def test_a_bucket(own_gateway, program, place, tmp_path, s3_server):
    """Playlists come through the gateway, everything else from the bucket itself."""
    environment = s3_server.environment(BUCKET)
    client = StoreClient(program("store-commands"), environment)
    assert client.bucket(method="PUT", subresource="")["status"] == 200

    def put(key, data):
        (tmp_path / "object").write_bytes(data)
        assert client.put(key=key, path=str(tmp_path / "object"))["result"] == 0

    shop = Shop(place[1], put)
    gateway = own_gateway(**environment)
    grant = gateway.ask(f"/videos/{shop.videos['own']}/grant", OWNER, "POST").json
    playlist = read(gateway, grant["base_url"] + grant["playlist"])
    assert (playlist.status, playlist.data) == (200, PLAYLIST)
    part = read(gateway, grant["base_url"] + grant["playlist"], Range="bytes=3-6")
    assert (part.status, part.data) == (206, PLAYLIST[3:7])
    url = (grant["base_url"] + grant["playlist"]).replace("index.m3u8", "v0/segment_0.m4s")
    answer = read(gateway, url)
    assert answer.status == 307 and answer.data == b""
    with urllib.request.urlopen(answer.headers["Location"], timeout=300) as response:
        assert response.read() == SEGMENT
    assert gateway.ask(f"/segments/{shop.lines['own'][0]}/crop", OWNER).data == LINE
    assert gateway.ask(f"/segments/{shop.lines['own'][2]}/crop", OWNER).status == 404
    frame = gateway.ask(f"/segments/{shop.lines['own'][0]}/frame", OWNER)
    with urllib.request.urlopen(frame.headers["Location"], timeout=300) as response:
        assert (frame.status, response.read()) == (307, b"frame")
    check_types_of_bucket(client, gateway, grant, shop.videos["own"])
    check_part_of_bucket(gateway, put, shop.videos["own"])
    check_passing_through(own_gateway(**environment, CORTANA_MEDIA="proxy"), url, put)
    missing = read(gateway, url.replace("segment_0", "segment_1"))
    assert missing.status == 404
    assert missing.without_id() == read(gateway, "/media/x/y").without_id()
    client.close_process()
