"""What stands in docs/examples works."""

import email
import email.policy
import functools
import http.server
import importlib
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import threading
import urllib.parse
import xml.sax.saxutils

import psycopg2
import pytest
from api import Gateway, token
from json_server import JsonServer
from media_tools import make_clip, streams
from pipeline import Pipeline
from s3_server import free_port
from workers import Jobs, wait_until

pytestmark = pytest.mark.sanitized(0)

EXAMPLES = pathlib.Path(__file__).resolve().parents[2] / "docs" / "examples"


@pytest.fixture
def jobs(sql):
    sql.cursor().execute("INSERT INTO job_types (name, description) VALUES ('reverse', 'Texts, backwards')")
    return Jobs(sql)


@pytest.fixture
def worker(jobs, database):
    environment = {**os.environ, "DATABASE_URL": database, "RENEW_S": "0.2"}
    with subprocess.Popen([sys.executable, EXAMPLES / "worker.py"], env=environment) as process:
        yield process
        process.kill()


def test_a_worker_in_plain_sql(jobs, worker, sql):
    good = jobs.enqueue({"text": "abc"}, "reverse")
    wrong = jobs.enqueue({"words": "abc"}, "reverse")
    broken = jobs.enqueue({"text": 7}, "reverse")
    assert jobs.wait_for(good, "done")["result"] == {"text": "cba"}
    assert jobs.wait_for(wrong, "failed")["scheduled_for"] is None
    assert jobs.wait_for(broken, "failed")["scheduled_for"] is not None
    assert [attempt["error_type"] for attempt in jobs.attempts(broken)] == ["ServerError"]

    slow = jobs.enqueue({"text": "abc", "seconds": 30}, "reverse")
    leased_until = jobs.wait_for(slow, "processing")["locked_until"]
    wait_until(lambda: jobs.get(slow)["locked_until"] > leased_until, "the lease to be renewed")
    sql.cursor().execute("SELECT cancel_job(%s)", (slow,))
    assert worker.wait(timeout=300) == 1


def test_a_job_that_was_lost_is_not_settled(jobs, sql, monkeypatch):
    monkeypatch.syspath_prepend(EXAMPLES)
    import worker as example
    job_id = jobs.enqueue({"text": "abc"}, "reverse")
    connection = psycopg2.connect(sql.dsn)
    claim = "SELECT id, lease_token, payload FROM claim_jobs('one', 'reverse', 1, '1 millisecond')"
    first = example.ask(connection, claim)
    second = wait_until(lambda: jobs.rows("SELECT rescue_expired_jobs('reverse')") and example.ask(
        connection, claim.replace("one", "two").replace("1 millisecond", "5 minutes")), "a second claim")
    monkeypatch.setenv("DATABASE_URL", sql.dsn)
    example.run(connection, *first)
    assert jobs.get(job_id)["status"] == "processing"
    example.run(connection, *second)
    assert jobs.get(job_id)["status"] == "done"
    connection.close()


class Server:
    """A gateway, a scanner and the pipeline's workers, which read one film: a file with the same bytes has its text at once."""

    def __init__(self, program, place, store, folder, fixtures_dir):
        self.url, self.queue = place
        self.film = make_clip(folder / "film.mp4", f"-ss 3 -i {fixtures_dir / 'subtitles.mp4'} -t 1.5 -r 12 -an -c:v libx264 -preset ultrafast")
        self.pipeline = Pipeline(program, self.url, self.queue.connection, store, folder, CORTANA_SETTLE_MS="100")
        self.pipeline.start()
        self.scanner = subprocess.Popen([program("scanner-worker"), "--interval", "3600"], env=self.pipeline.environment)
        self.gateway = Gateway(program, self.url, folder, STORE_URL=f"dir:{store}")
        self.environment = {"API": f"{self.gateway.url}/api/v1", "TOKEN": token()}

    def run(self, example, *arguments, code=0, **environment):
        done = subprocess.run([sys.executable, EXAMPLES / example, *arguments], env={**os.environ, **self.environment, **environment},
                              text=True, capture_output=True, check=False, timeout=300)
        assert done.returncode == code, done.stdout + done.stderr + str(self.pipeline.failures())
        return done

    def sent(self, name):
        """The videos whose file name begins so."""
        return self.queue.run("SELECT * FROM videos WHERE original_name LIKE %s || '%%' ORDER BY original_name", name)

    def end(self):
        self.gateway.process.stop()
        self.pipeline.stop()
        self.scanner.terminate()
        self.scanner.wait()


@pytest.fixture(scope="module")
def server(program, place, store, tmp_path_factory, fixtures_dir):
    started = Server(program, place, store, tmp_path_factory.mktemp("server"), fixtures_dir)
    yield started
    started.end()


def test_a_client_of_the_api(server, tmp_path):
    """It uploads what is missing of a file, waits, searches and cuts."""
    half = server.film.read_bytes()[:5000]
    begun = server.gateway.ask("/uploads", token(), "POST", {"name": server.film.name, "size": server.film.stat().st_size}).json
    server.gateway.ask(begun["location"], token(), "PATCH", half, base="", Upload_Offset="0", Tus_Resumable="1.0.0",
                       Content_Type="application/offset+octet-stream")
    said = server.run("client.py", server.film, "harbour", tmp_path / "clip.mp4").stdout
    assert said.startswith(f"video {begun['video_id']}\n") and "Ines Carvalho, Harbour Master" in said and len(server.sent("film.mp4")) == 1
    assert streams(tmp_path / "clip.mp4")["video"]["codec_name"] == "h264"
    assert "ends in .mp4" in server.run("client.py", EXAMPLES / "client.py", "x", "y", code=1).stderr


def test_a_recording_is_sent_once_and_whole(server, tmp_path):
    """OBS writes to its file from time to time, and may make an MP4 of it. The subtitles have the name that Jellyfin's manual asks for."""
    name, recording = "2026-03-01 14-05-10", tmp_path / "2026-03-01 14-05-10.mkv"
    whole = make_clip(tmp_path / "whole.nut", f"-i {server.film} -c copy -f matroska").read_bytes()
    with open(recording, "wb") as file:
        file.write(whole[:len(whole) // 2])
        file.flush()
        os.utime(recording, (0, 0))  # nothing has moved for a long time
        server.run("folder.py", "--once", tmp_path)
        assert not server.sent(name), "it is not sent while it is written"
        file.write(whole[len(whole) // 2:])
    shutil.copy(recording, recording.with_suffix(".mp4"))
    command = [sys.executable, EXAMPLES / "folder.py", "--settle", "0", tmp_path]
    with subprocess.Popen(command, env={**os.environ, **server.environment}) as watcher:
        try:
            wait_until(lambda: list(tmp_path.glob("*.srt")), "subtitles beside the recording")
        finally:
            watcher.kill()  # it may be stopped at any time
    sidecar, = tmp_path.glob("*.srt")
    assert sidecar.name == f"{name}.screen.eng.srt" and "Ines Carvalho, Harbour Master" in sidecar.read_text()
    assert streams(sidecar)["subtitle"]["codec_name"] == "subrip"
    sidecar.unlink()
    away = server.run("folder.py", "--once", "--settle", "0", tmp_path, code=1, API="http://127.0.0.1:1").stderr
    assert away.startswith(f"{recording}: GET http://127.0.0.1:1/videos?name=") and "refused" in away and len(away.splitlines()) == 1
    server.run("folder.py", "--once", "--settle", "0", tmp_path)
    assert sidecar.exists() and [video["original_name"] for video in server.sent(name)] == [recording.name], "it was there already"


@pytest.fixture
def site(tmp_path):
    """(folder, address) of a web site."""
    folder = tmp_path / "site"
    folder.mkdir()
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), functools.partial(http.server.SimpleHTTPRequestHandler, directory=folder)) as started:
        threading.Thread(target=started.serve_forever, daemon=True).start()
        yield folder, f"http://127.0.0.1:{started.server_port}"
        started.shutdown()


def test_a_feed_through_yt_dlp(server, site, tmp_path):
    """With the real yt-dlp, from a feed: a video that cannot be fetched or sent is tried again, the others are sent once."""
    folder, address = site
    shutil.copy(server.film, folder / "harbour.mp4")
    items = "".join(f"<item><title>{xml.sax.saxutils.escape(title)}</title><pubDate>Sun, 01 Mar 2026 14:05:10 GMT</pubDate>"
                    f"<enclosure url='{address}/{name}.mp4' type='video/mp4'/></item>"
                    for title, name in (("Not there", "gone"), ("The harbour: Häfen & \"ships\"", "harbour")))
    (folder / "feed.xml").write_text(f'<rss version="2.0"><channel><title>Talks</title>{items}</channel></rss>')
    archive, downloads = tmp_path / "sent.txt", tmp_path / "downloads"
    options = ["--use-extractors", "generic", "--download-archive", archive, "--paths", downloads, f"{address}/feed.xml"]
    server.run("ytdlp.py", *options, code=1, API="http://127.0.0.1:1")
    assert not archive.exists() and len(list(downloads.iterdir())) == 1, "what could not be sent is not noted"
    for _ in range(2):
        assert "404" in server.run("ytdlp.py", *options, code=1).stderr
        (sent,) = server.sent("The harbour")
        assert (sent["title"], sent["fields"]) == ('The harbour: Häfen & "ships"', {"address": f"{address}/harbour.mp4"})
        assert (sent["recorded_at"].isoformat(), sent["recorded_from"]) == ("2026-03-01T14:05:10+00:00", "person")
        assert len(archive.read_text().splitlines()) == 1 and not list(downloads.iterdir())


APACHE = """
ServerRoot {place}
ServerName 127.0.0.1
Listen 127.0.0.1:{port}
PidFile pid
ErrorLog error.log
User www-data
Group www-data
{modules}
CustomLog access.log "%m %>s %f"
DavLockDB {place}/locks/db
Alias /remote.php/dav/files/anna {place}/files
<Location /remote.php/dav/files/anna>
    Dav On
    AuthType Basic
    AuthName Nextcloud
    AuthUserFile {place}/users
    Require valid-user
</Location>
"""
MODULES = "mpm_event authn_core authn_file authz_core authz_user auth_basic alias dav dav_fs"


@pytest.fixture
def cloud():
    """(folder, environment) of Apache's WebDAV at the addresses that Nextcloud has."""
    place, port = pathlib.Path(tempfile.mkdtemp(prefix="cv-dav-", dir="/tmp")), free_port()  # those of pytest are root's alone
    place.chmod(0o755)
    for name in ("files", "locks"):
        (place / name).mkdir()
        shutil.chown(place / name, "www-data")
    password = subprocess.run(["openssl", "passwd", "-apr1", "app-pass"], check=True, capture_output=True, text=True).stdout
    (place / "users").write_text(f"anna:{password}")
    modules = "\n".join(f"LoadModule {name}_module /usr/lib/apache2/modules/mod_{name}.so" for name in MODULES.split())
    (place / "conf").write_text(APACHE.format(place=place, port=port, modules=modules))
    with subprocess.Popen(["apache2", "-f", place / "conf", "-D", "FOREGROUND"]) as process:
        wait_until((place / "pid").exists, "Apache")
        yield place, {"NEXTCLOUD": f"http://127.0.0.1:{port}/remote.php/dav/files/anna", "NEXTCLOUD_USER": "anna",
                      "NEXTCLOUD_PASSWORD": "app-pass"}
        process.terminate()
    shutil.rmtree(place)


def test_a_folder_of_nextcloud(server, cloud):
    """Against a real server of WebDAV: each folder is listed, a file is fetched once, and others' files are not written over."""
    place, environment = cloud
    talks = place / "files" / "Vorträge & mehr" / "März #1"
    talks.mkdir(parents=True)
    (talks / "a note.txt").write_text("no video")
    film = shutil.copy(server.film, talks / "der Hafen 100%.mp4")
    os.utime(film, (1e9, 1e9))  # the ETag of what has just changed is a weak one
    for path in (talks.parent, talks):
        shutil.chown(path, "www-data")
    sidecar = talks / "der Hafen 100%.screen.eng.srt"
    printed = server.run("nextcloud.py", "Vorträge & mehr/", **environment).stdout
    assert urllib.parse.unquote(printed.strip()).endswith(f"/März #1/{sidecar.name}")
    assert "Ines Carvalho, Harbour Master" in sidecar.read_text() and len(server.sent("der Hafen")) == 1
    assert server.run("nextcloud.py", "Vorträge & mehr", **environment).stdout == ""
    sidecar.unlink()
    server.run("nextcloud.py", "", **environment)
    assert sidecar.exists() and len(server.sent("der Hafen")) == 1
    assert (place / "access.log").read_text().count("GET 200") == 1
    assert "401" in server.run("nextcloud.py", "", code=1, **environment | {"NEXTCLOUD_PASSWORD": "other"}).stderr


class PeerTube(JsonServer):
    """Answers the requests of PeerTube's REST reference that the example needs, by its words: paths, parameters, forms, who may ask."""

    def __init__(self, film):
        super().__init__()
        self.film, self.fetched = film, 0
        self.languages = {"9c9de5e8-0a1e-484a-b099-e80766180a6d": "fr", "0f1e2d3c-0a1e-484a-b099-e80766180a6d": "en"}
        self.captions = {uuid: {"fr": b""} if language == "fr" else {} for uuid, language in self.languages.items()}
        self.client = {"client_id": "v" * 32, "client_secret": "S" * 32}

    def video(self, uuid, **more):
        language = self.languages[uuid]
        return {"uuid": uuid, "name": f"The harbour, {language}", "language": {"id": language, "label": ""}, "isLive": False,
                "publishedAt": "2026-03-01T14:05:10.000Z", "url": f"{self.url}/videos/watch/{uuid}", **more}

    def respond(self, handler, body):
        url, bearer = urllib.parse.urlsplit(handler.path), handler.headers.get("Authorization") == "Bearer t0ken"
        query = dict(urllib.parse.parse_qsl(url.query))
        match handler.command, *url.path.removeprefix("/api/v1/").split("/"):
            case "GET", "oauth-clients", "local":
                handler.tell_json(200, self.client)
            case "POST", "users", "token":
                assert handler.headers["Content-Type"] == "application/x-www-form-urlencoded"
                wanted = {**self.client, "grant_type": "password", "username": "anna", "password": "s3cret"}
                right = dict(urllib.parse.parse_qsl(body.decode())) == wanted
                handler.tell_json(*((200, {"token_type": "Bearer", "access_token": "t0ken"}) if right else (400, {
                    "status": 400, "code": "invalid_grant", "detail": "Invalid grant: user credentials are invalid"})),
                    {"Content-Type": "application/json" if right else "application/problem+json"})
            case "GET", "video-channels", "harbour", "videos":
                assert query == {"sort": "-publishedAt", "start": "0", "count": "100"}
                handler.tell_json(200, {"total": 2, "data": [self.video(uuid) for uuid in self.captions]})
            case "GET", "videos", uuid, "captions" if bearer:
                handler.tell_json(200, {"total": 1, "data": [{"language": {"id": one, "label": ""}} for one in self.captions[uuid]]})
            case "GET", "videos", uuid if bearer:
                files = [{"resolution": {"id": height, "label": ""}, "size": os.path.getsize(self.film), "hasVideo": height > 0,
                          "fileUrl": f"{self.url}/static/web-videos/{height}.mp4"} for height in (0, 480, 240)]
                handler.tell_json(200, self.video(uuid, files=[], streamingPlaylists=[{"files": files}]))
            case "GET", "", "static", "web-videos", "480.mp4" if bearer:
                self.fetched += 1
                handler.tell_json(200, self.film.read_bytes(), {"Content-Type": "video/mp4"})
            case "PUT", "videos", uuid, "captions", language if bearer:
                form = email.message_from_bytes(b"Content-Type: " + handler.headers["Content-Type"].encode() + b"\r\n\r\n" + body,
                                                policy=email.policy.HTTP)
                (part,) = form.iter_parts()
                assert form.get_content_type() == "multipart/form-data" and part.get_content_type() == "text/vtt"
                assert part.get_param("name", header="content-disposition") == "captionfile" and part.get_filename() == "screen.vtt"
                self.captions[uuid][language] = part.get_payload(decode=True)
                handler.tell_json(204, b"")
            case _:
                handler.tell_json(404, {"detail": f"{handler.command} {handler.path}"})


def test_a_channel_of_peertube(server):
    """Against a server that answers as PeerTube's reference says, not against PeerTube itself."""
    tube = PeerTube(server.film)
    environment = {"PEERTUBE": tube.url, "PEERTUBE_USER": "anna", "PEERTUBE_PASSWORD": "s3cret"}
    french, english = tube.captions
    try:
        for said in ("has now a caption in en", "has a caption in en"):
            assert server.run("peertube.py", "harbour", **environment).stdout == f"The harbour, fr has a caption in fr\nThe harbour, en {said}\n"
            assert tube.captions[french] == {"fr": b""} and tube.captions[english]["en"].startswith(b"WEBVTT")
        assert b"Ines Carvalho, Harbour Master" in tube.captions[english]["en"]
        (sent,) = server.sent(english)
        assert (sent["title"], sent["fields"]) == ("The harbour, en", {"address": f"{tube.url}/videos/watch/{english}"})
        assert sent["recorded_at"].isoformat() == "2026-03-01T14:05:10+00:00"
        server.run("peertube.py", "harbour", "--language", "sv", **environment)
        assert [list(languages) for languages in tube.captions.values()] == [["fr", "sv"], ["en", "sv"]] and tube.fetched == 2
        assert "credentials are invalid" in server.run("peertube.py", "harbour", code=1, **environment | {"PEERTUBE_PASSWORD": "wrong!"}).stderr
    finally:
        tube.close()


def test_languages_are_those_of_players(server, monkeypatch):
    """Jellyfin's and PeerTube's words for languages are ISO's, not Tesseract's."""
    monkeypatch.syspath_prepend(EXAMPLES)
    for name, value in server.environment.items():
        monkeypatch.setenv(name, value)
    client = importlib.import_module("client")
    assert [client.language_of({"languages": one}) for one in (["chi_sim", "eng"], ["deu"], [], None)] == ["chi", "deu", "und", "und"]
