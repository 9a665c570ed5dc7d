"""`cortana run` from a file to a clip; a second run; an interrupted one."""

import functools
import json
import os
import pathlib
import re
import shutil
import signal
import subprocess
import urllib.error
import urllib.parse
import urllib.request

from jobs import STAGES
from local_installation import finish, processes_of, start
from media_tools import frames_of
from pipeline import beginning
from unreadable_files import make_unreadable_files
from workers import wait_until


def read_until(stream, text):
    for line in stream:
        if text in line:
            return line
    raise AssertionError(f"never said: {text}")


@functools.cache
def session_of(netloc, code):
    """The cookie that the link's code is exchanged for."""
    request = urllib.request.Request(f"http://{netloc}/api/v1/session", method="POST", data=json.dumps({"token": code}).encode(),
                                     headers={"Content-Type": "application/json"})

    def exchange():
        try:
            with urllib.request.urlopen(request) as answer:
                return answer.headers["Set-Cookie"].split(";")[0]
        except (ConnectionRefusedError, urllib.error.URLError):
            return None

    return wait_until(exchange, "the gateway to answer")


def ask(page, path):
    """Asks the API behind the link that `run` prints, signed in by its code."""
    request = urllib.request.Request(f"http://{page.netloc}/api/v1/{path}",
                                     headers={"Cookie": session_of(page.netloc, page.fragment.removeprefix("t="))})

    def get():
        try:
            with urllib.request.urlopen(request) as answer:
                return json.load(answer)
        except (ConnectionRefusedError, urllib.error.URLError):
            return None

    return wait_until(get, "the gateway to answer")


def test_a_file_becomes_text_and_a_clip_and_is_known_afterwards(program, new_data, fixtures_dir):
    data = new_data
    export, feed = data.parent / "out.json", beginning(fixtures_dir / "feed.mp4", data.parent, 5)
    code, output, errors = finish(start(program, data, "run", feed,
                                        "--export", export, "--languages", "eng", "--no-page"))
    assert code == 0 and "page: " not in errors, output + errors
    assert "segment_index done in" in errors and "done in" not in output
    clip = pathlib.Path(re.search(r"^clip (.+)$", output, re.M)[1])
    assert clip.stat().st_size > 1000 and re.fullmatch(r"feed_\d+m[\d.]+s-\d+m[\d.]+s\.mp4", clip.name)
    assert clip.parent == data / "clips" and data / "store" in clip.resolve().parents
    found = json.loads(export.read_text())
    assert len(found["segments"]) > 10 and found["video"]["status"] == "ready"
    shown, left = found["segments"][:20], found["segments"][20:]
    assert all(row["text"] in output for row in shown) and len(left) > 1
    assert f"… and {len(left)} more lines: cortana export " in output
    assert processes_of(data) == []

    code, again, errors = finish(start(program, data, "run", feed))
    assert code == 0, again + errors
    assert "is known already" in errors and str(clip) in again and "started" not in errors

    # Other languages: read again from what is kept, and nothing else is done again.
    code, again, errors = finish(start(program, data, "run", feed, "--languages", "deu+eng"))
    assert code == 0, again + errors
    assert "is read again" in errors and "ocr done in" in errors and "sample" not in errors
    code, again, errors = finish(start(program, data, "reindex", "last", "--languages", "eng"))
    assert code == 0 and f"{len(found['segments'])} texts, read with eng" in again, again + errors

    exact = data.parent / "exact.mp4"
    code, _, errors = finish(start(program, data, "clip", "last", "1", "2.5s", "--padding", "0",
                                   "-o", exact))
    assert code == 0, errors
    assert frames_of(exact) == 90  # a second and a half at 60 a second


def test_an_interrupted_run_is_carried_on(program, data, fixtures_dir):
    video = beginning(fixtures_dir / "subtitles.mp4", data.parent, 6)
    first = start(program, data, "run", video)
    assert read_until(first.stderr, "transcode started")
    other = start(program, data, "run", fixtures_dir / "chat.mp4")
    code, _, errors = finish(other)
    assert code == 1 and "another cortana run" in errors
    first.send_signal(signal.SIGINT)
    code, _, errors = finish(first)
    assert code == 130 and "carries on" in errors
    wait_until(lambda: processes_of(data) == [], "everything to have stopped")

    code, output, errors = finish(start(program, data, "run", video))
    assert code == 0, output + errors
    assert "goes on" in errors and "\nclip " in output
    assert processes_of(data) == []


def doctor_finds_what_is_missing(program, data, folder):
    """`cortana doctor VIDEO` reads the playlists, and says which objects that they name are not there."""
    def findings():
        code, output, _ = finish(start(program, data, "doctor", "last"))
        lines = [line.split(None, 2) for line in output.splitlines() if line.split()[1] == "video"]
        assert code == any(line[0] == "fail" for line in lines), output
        return [words for level, _, words in lines if level == "fail"]

    def broken(path, change):
        before = path.read_bytes()
        path.write_bytes(change(before)) if change else path.unlink()
        try:
            return findings()
        finally:
            path.write_bytes(before)

    playlist = next(folder.glob("*x*[0-9].m3u8"))
    segment = next(folder.glob("segment_*x*"))
    head = next(folder.glob("init_*x*"))
    assert findings() == []
    for path in (segment, head, playlist):
        assert f"{path.name} is missing" in broken(path, None)
    assert broken(playlist, lambda text: text.replace(b"#EXT-X-ENDLIST", b"")) == [f"{playlist.name} has no end"]
    assert f"{segment.name} is shorter than a playlist says" in broken(segment, lambda data: data[:9])
    assert broken(folder / "index.m3u8", None) == ["index.m3u8 is missing"]


def test_text_alone_and_playback_later(program, data, fixtures_dir, tmp_path):
    """Beside paths that cannot be read, which do not stop the others."""
    video = fixtures_dir / "edge" / "one_frame.mp4"
    same, nothing, empty = tmp_path / "same.mp4", tmp_path / "link.mp4", tmp_path / "folder"
    same.symlink_to(video)
    nothing.symlink_to("nowhere.mp4")
    empty.mkdir()
    bad = (nothing, tmp_path / "none.mp4", empty)
    code, output, errors = finish(start(program, data, "run", bad[0], video, *bad[1:], same, "--text-only", "--no-page"))
    assert code == 1 and "segment_index done in" in errors and "transcode" not in errors, output + errors
    for path, words in zip(bad, ("cannot read {}: it is a link to nothing", "cannot read {}: No such file or directory",
                                 "there is no video in {}: ")):
        assert errors.count(words.format(path)) == 1, errors
    assert "same.mp4 is left out: it has the same bytes as another file of this command\n" in errors
    assert not list((data / "store/videos").glob("proxy/*/index.m3u8"))
    code, output, errors = finish(start(program, data, "run", video, "--text-only", "--no-page"))
    assert code == 0 and "is known already" in errors, output + errors
    (tmp_path / "same.en.srt").write_text("1\n00:00:01,000 --> 00:00:02,000\nsaid beside\n")
    (tmp_path / "same place.srt").write_text("1\n00:00:01,000 --> 00:00:02,000\nof another\n")
    code, output, errors = finish(start(program, data, "run", same, "--no-page"))
    assert code == 0 and "transcode done in" in errors and "sample" not in errors, output + errors
    code, output, errors = finish(start(program, data, "export", "last", "--source", "subtitle", "--format", "txt"))
    assert output == "said beside\n", output + errors
    index, = (data / "store/videos").glob("proxy/*/index.m3u8")
    doctor_finds_what_is_missing(program, data, index.parent)
    code, output, errors = finish(start(program, data, "jobs", "list", "--json"))
    types = [json.loads(line)["job_type"] for line in output.splitlines()]
    assert {stage: types.count(stage) for stage in STAGES} == dict.fromkeys(STAGES, 1), output + errors


def test_a_bad_file_fails_and_a_killed_run_leaves_a_usable_installation(program, data):
    bad = data.parent / "text.mp4"
    bad.write_text("this is no video\n" * 100)
    first = start(program, data, "run", bad)
    code, output, errors = finish(first)
    assert code == 1 and errors.count("text.mp4: the file is text (plain), not a video; ") == 1, output + errors
    assert "NotAVideo" not in errors and "videos/original" not in errors
    killed = start(program, data, "run", bad)
    wait_until(lambda: (data / "postgres/data/postmaster.pid").exists() or killed.poll() is not None,
               "the server to start")
    killed.kill()
    finish(killed)
    code, output, _ = finish(start(program, data, "jobs"))
    assert code == 0 and "text.mp4" in output and "failed" in output
    code, output, _ = finish(start(program, data, "doctor"))
    assert "ok    jobs         0 dead letters\n" in output and "ok    videos       1 file cannot be read as a video" in output
    code, output, _ = finish(start(program, data, "videos", "show", "last"))
    assert "\ntrouble        the file is text (plain), not a video; " in output
    wait_until(lambda: processes_of(data) == [], "the last user to stop the server")


def test_commands_start_the_installation_that_their_environment_names(program, data, fixtures_dir):
    """As after eval "$(cortana env)", with no run up; and one stage by hand, as docs/cli.md has it."""
    code, output, errors = finish(start(program, data, "run", fixtures_dir / "edge/one_frame.mp4", "--text-only", "--no-page"))
    assert code == 0, output + errors
    named = json.loads(finish(start(program, data, "env", "--json"))[1])
    environment = {**os.environ, **named}

    def run(*arguments, **more):
        return subprocess.run([str(one) for one in arguments], env=environment, capture_output=True, text=True, check=True, **more)

    wait_until(lambda: processes_of(data) == [], "the server to stop")
    job = json.loads(run(program("cortana"), "jobs", "list", "--type", "ocr", "--video", "last", "--json").stdout.splitlines()[0])
    payload = run(program("cortana"), "jobs", "payload", job["id"]).stdout
    wait_until(lambda: processes_of(data) == [], "the server to stop")
    assert json.loads(run(program("ocr-worker"), "--once", "--overwrite", input=payload).stdout)["detections"]
    folder = data.parent / "elsewhere"
    folder.mkdir()
    (folder / ".local").symlink_to(data)
    for name in named:
        del environment[name]
    shown = {row["name"]: row for row in map(json.loads, run(
        program("cortana"), "config", "--json", cwd=folder).stdout.splitlines())}
    assert shown["STORE_URL"]["value"] == named["STORE_URL"]
    assert shown["DATABASE_URL"]["source"] == f"the local installation {data}: cortana env prints it"


def test_without_a_file_it_watches_its_inbox(program, data, fixtures_dir, tmp_path):
    running = start(program, data, "run")
    try:
        page = urllib.parse.urlsplit(read_until(running.stderr, "page: ").split()[1])
        assert read_until(running.stderr, f"put videos into {data}/store/inbox/")
        owner = ask(page, "me")["user_id"]
        assert (data / "gateway.secret").stat().st_mode & 0o777 == 0o600
        made = make_unreadable_files(tmp_path)
        sentences = {name: made[name] for name in ("no_index.mp4", "partial.mp4", "encrypted.mp4", "a.png.mp4",
                                                   "a.m4a.mp4", "sign_in.mp4", "archive.mp4", "empty.mp4")}
        for name in sentences:
            shutil.copy(tmp_path / name, data / "store/inbox" / name)
        for name in ("Erstes.mp4", "again.mp4"):
            shutil.copy(fixtures_dir / "awkward/testsrc.mkv", data / "store/inbox" / name)
        lines = {}
        while len(lines) < len(sentences) + 2:
            line = running.stdout.readline()
            assert line, running.communicate()[1]
            name, _, what = line.strip().partition(" ")
            if what != "is imported":
                lines[name] = what
        good = {lines.pop("Erstes.mp4"), lines.pop("again.mp4")}
        assert any("ready" in line for line in good) and any("is the same as" in line for line in good)
        assert lines == {name: f"has failed: {sentence}" for name, sentence in sentences.items()}
        assert [path.name for path in (data / "store/inbox").iterdir()] == ["put videos here.txt"]
        videos = {video["id"]: video for video in ask(page, "videos")["items"]}
        assert len(videos) == len(lines) + 2 and {video["owner_id"] for video in videos.values()} == {owner}
        jobs = ask(page, "jobs?state=failed")["items"]
        assert {videos[job["video_id"]]["name"]: job["error"]["message"] for job in jobs} == sentences
    finally:
        running.send_signal(signal.SIGINT)
        code, output, errors = finish(running)
    assert code == 0, output + errors
    assert processes_of(data) == []
