"""What a person sees: progress on terminals of several sizes, in pipes, and what the shell is told."""

import functools
import glob
import http.server
import json
import os
import re
import shutil
import signal
import subprocess
import threading
import urllib.parse
import urllib.request
import uuid

import psycopg2
import pytest
from local_installation import environment_without_services, finish, processes_of, start
from pipeline import SMALL, beginning
from workers import wait_until


class Terminal:
    """A terminal of tmux: a window that can be resized and looked at."""

    def __init__(self, columns, rows, command, **environment):
        self.socket = f"cv-{uuid.uuid4().hex[:8]}"
        variables = {**environment_without_services(), "TERM": "xterm-256color", "LC_ALL": "C.UTF-8",
                     **environment}
        self.call("-f", "/dev/null", "new-session", "-d", "-x", columns, "-y", rows,
                  "env", "-i", *[f"{name}={value}" for name, value in variables.items()],
                  "sh", "-c", f"{command}; echo \"EXIT $?\"; exec sleep 600")

    def call(self, *arguments):
        return subprocess.run(["tmux", "-L", self.socket, *map(str, arguments)], check=True, text=True,
                              capture_output=True).stdout

    def screen(self, history=False):
        return self.call("capture-pane", "-p", *(["-S", "-500"] if history else []))

    def resize(self, columns, rows):
        self.call("resize-window", "-x", columns, "-y", rows)

    def close(self):
        subprocess.run(["tmux", "-L", self.socket, "kill-server"], check=False, capture_output=True)


@pytest.fixture
def terminal():
    opened = []

    def make(*arguments, **environment):
        opened.append(Terminal(*arguments, **environment))
        return opened[-1]

    yield make
    for one in opened:
        one.close()


def rows_of(screen, stage):
    return [line for line in screen.splitlines() if line.startswith(stage)]


def test_progress_keeps_to_its_rows_whatever_the_window(program, data, fixtures_dir, terminal):
    """At any width, and while the window changes, a stage has one row and no row is cut by the window."""
    window = terminal(80, 24, f"{program('cortana')} run {beginning(fixtures_dir / 'feed.mp4', data.parent, 4)} "
                              f"{fixtures_dir}/awkward/testsrc.mkv --no-page --data {data}", **SMALL)
    wait_until(lambda: rows_of(window.screen(), "transcode"), "the first bars")

    def fits(columns):
        # One look: the next frame after a resize may be 200 ms away.
        screen = window.screen()
        return "EXIT" in screen or (max(map(len, screen.splitlines())) < columns and all(
            len(rows_of(screen, stage)) == 1 for stage in ("transcode", "sample", "ocr")))

    for columns in (80, 41, 120, 30, 80):
        window.resize(columns, 24)
        wait_until(lambda: fits(columns), f"a row a stage within {columns} columns")
    wait_until(lambda: "EXIT 0" in window.screen(), "the end")
    everything = window.screen(history=True)
    for stage in ("transcode", "sample", "segment_index"):
        # What is drawn in the moment of a resize may stay in the history, once.
        assert len(rows_of(everything, stage)) <= 1 + 5, everything
    assert "100 %" in rows_of(everything, "transcode")[-1]


@pytest.mark.sanitized(1)
@pytest.mark.parametrize("environment, options, told", [
    ({"TERM": "dumb"}, "", True), ({}, "--no-progress", True), ({}, "--quiet", False)])
def test_no_bars_where_they_are_not_wanted(program, data, fixtures_dir, terminal, environment, options,
                                           told):
    window = terminal(80, 24, f"{program('cortana')} run {fixtures_dir}/awkward/testsrc.mkv "
                              f"--no-page --data {data} {options}", **environment)
    wait_until(lambda: "EXIT 0" in window.screen(), "the end")
    screen = window.screen(history=True)
    assert "█" not in screen and "░" not in screen
    assert ("transcode done in" in screen) == told
    if options == "--quiet":
        assert screen.split() == ["EXIT", "0"]


def test_the_inbox_shows_what_is_worked_on_and_outlives_its_server(program, data, fixtures_dir, terminal):
    window = terminal(80, 24, f"EMBED_URL= {program('cortana')} run --data {data}", **SMALL)
    wait_until(lambda: "put videos into" in window.screen(), "the inbox")
    postmaster = int((data / "postgres/data/postmaster.pid").read_text().split("\n")[0])
    os.kill(postmaster, signal.SIGKILL)
    wait_until(lambda: "the database is back" in window.screen(history=True), "the server")
    beginning(fixtures_dir / "chat.mp4", data.parent).rename(data / "store/inbox/talk.mp4")
    wait_until(lambda: re.search(r"^talk.mp4 .*(transcode|sample|ocr)", window.screen(), re.M),
               "what is worked on")
    wait_until(lambda: "talk.mp4 is ready: " in window.screen(history=True), "the video")
    os.kill(int((data / "running").read_text()), signal.SIGINT)  # as Ctrl-C does; the shell stays
    wait_until(lambda: "EXIT 0" in window.screen(), "the end")
    window.close()  # its command line names the folder, too
    wait_until(lambda: processes_of(data) == [], "everything to have stopped")


def test_a_bad_file_is_said_once(program, data, fixtures_dir):
    bad = data.parent / "holiday.mp4"
    bad.write_text("this is no video\n" * 100)
    failed = re.compile(r"^holiday\.mp4: the file is text", re.M)  # by transcode or sample, which start together
    code, _, errors = finish(start(program, data, "run", bad))
    assert code == 1 and len(failed.findall(errors)) == 1
    code, output, errors = finish(start(program, data, "run", fixtures_dir / "awkward/testsrc.mkv"))
    assert code == 0 and "holiday" not in output + errors
    code, output, errors = finish(start(program, data, "run", "-q", bad))  # named again: tried again
    assert code == 1 and output == "" and len(failed.findall(errors)) == 1
    code, output, _ = finish(start(program, data, "videos", "--status", "failed", "--json"))
    assert [json.loads(line)["name"] for line in output.splitlines()] == ["holiday.mp4"]


def test_folders_and_standard_input(program, data, fixtures_dir):
    folder = data.parent / "videos"
    (folder / "more").mkdir(parents=True)
    shutil.copy(fixtures_dir / "edge/portrait.mp4", folder / "one.mp4")
    shutil.copy(fixtures_dir / "edge/odd_sized.mp4", folder / "more/two.mp4")
    (folder / "notes.txt").write_text("no video")

    def names(*arguments, **options):
        done = subprocess.run([program("cortana"), "run", *arguments, "--json", "--no-page", "--data", data],
                              env=environment_without_services(), capture_output=True, check=True, **options)
        return [json.loads(line)["name"] for line in done.stdout.splitlines()]

    assert names(folder) == ["one.mp4"]
    assert sorted(names("-r", folder)) == ["one.mp4", "two.mp4"]
    assert names("-", input=(fixtures_dir / "edge/variable_rate.mp4").read_bytes()) == ["stdin"]
    listed = subprocess.run([program("cortana"), "videos", "--json", "--data", data], check=True,
                            env=environment_without_services(), capture_output=True).stdout
    assert sorted(json.loads(line)["name"] for line in listed.splitlines()) == ["one.mp4", "stdin", "two.mp4"]


@pytest.mark.sanitized(0)
def test_colors_are_not_for_everyone(program, data, fixtures_dir, terminal):
    command = f"{program('cortana')} run {fixtures_dir}/edge/portrait.mp4 --no-page --data {data}"
    for environment, is_colored in (({}, True), ({"NO_COLOR": "1"}, False)):
        window = terminal(80, 24, command, **environment)
        wait_until(lambda window=window: "EXIT 0" in window.screen(), "the end")
        assert ("\033[1m" in window.call("capture-pane", "-p", "-e")) == is_colored
        window.close()


def test_embedding_without_an_endpoint_stops_nothing(program, data, fixtures_dir):
    code, output, errors = finish(start(program, data.parent / "none", "embeddings", "use", "model", "--json"))
    assert code == 1  # there is no installation yet
    code, _, errors = finish(start(program, data, "run", fixtures_dir / "edge/text.mp4"))
    assert code == 1 and "EMBED_URL" not in errors
    assert finish(start(program, data, "embeddings", "use", "model"))[0] == 0
    code, _, errors = finish(start(program, data, "run", fixtures_dir / "awkward/testsrc.mkv"))
    assert code == 0, errors
    assert "EMBED_URL names no endpoint" in errors


def test_what_cannot_be_taken_is_refused_before_anything_starts(program, new_data, fixtures_dir):
    for arguments, words in (
            (["nowhere.mp4"], "cannot read nowhere.mp4"),
            ([str(new_data.parent)], "there is no video in"),
            ([str(fixtures_dir / "chat.mp4"), "--export", "/nowhere/x.json"], "cannot write /nowhere"),
            ([str(fixtures_dir / "chat.mp4"), "--languages", "eng+xxx"], "tesseract-ocr-xxx"),
            ([str(fixtures_dir / "chat.mp4"), "--languages", "script/Thai"], "tesseract-ocr-script-thai")):
        code, output, errors = finish(start(program, new_data, "run", *arguments))
        assert code in (1, 64) and words in errors and output == "", errors
        assert "Error" not in errors and "NotFound" not in errors
        assert not new_data.exists()


@pytest.fixture
def web_server(fixtures_dir):
    """A server of the web that has the fixtures; its address."""
    handler = functools.partial(http.server.SimpleHTTPRequestHandler, directory=fixtures_dir)
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()


def test_a_url_is_fetched_by_yt_dlp(program, data, web_server, monkeypatch):
    code, output, errors = finish(start(program, data, "run", f"{web_server}/edge/portrait.mp4"))
    assert code == 0 and "Portrait recording" in output, errors
    code, output, errors = finish(start(program, data, "run", f"{web_server}/edge/nowhere.mp4"))
    assert code == 1 and "yt-dlp could not fetch" in errors and "404" in errors
    monkeypatch.setenv("PATH", str(data))  # where it is not installed
    code, output, errors = finish(start(program, data, "run", f"{web_server}/edge/portrait.mp4"))
    assert code == 1 and "apt-get install yt-dlp" in errors and output == ""


# ---- the page ------------------------------------------------------------------------------------

def test_the_page_stays_up_at_a_terminal_and_search_opens_it(program, data, fixtures_dir, terminal, tmp_path,
                                                             monkeypatch):
    """Of the link that `run` prints the page and the video's API answer; --open hands a link to the desktop, and
    what was found to a player when no page is up."""
    for name in ("xdg-open", "mpv"):
        (tmp_path / name).write_text(f'#!/bin/sh\necho "$@" > {tmp_path}/{name}.given\n')
        (tmp_path / name).chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    window = terminal(600, 40, f"{program('cortana')} run {fixtures_dir}/edge/portrait.mp4 --data {data}")
    wait_until(lambda: "Ctrl-C stops" in window.screen(), "the page")
    link = re.findall(r"^page: (http\S+/videos/\S+)", window.screen(history=True), re.M)[-1]
    place = re.fullmatch(r"(http://127\.0\.0\.1:\d+)/videos/([0-9a-f-]{36})\?t=[\d.]+&q=[^#]+#t=([\w-]{22})", link)
    page, video, code = place.groups()
    assert b"<cv-app" in urllib.request.urlopen(link).read()
    session = urllib.request.urlopen(urllib.request.Request(
        f"{page}/api/v1/session", json.dumps({"token": code}).encode(), {"Content-Type": "application/json"}))
    assert json.load(session)["role"] == "service"
    question = urllib.request.Request(f"{page}/api/v1/videos/{video}", headers={"Cookie": session.headers["Set-Cookie"].split(";")[0]})
    assert json.load(urllib.request.urlopen(question))["name"] == "portrait.mp4"
    word = urllib.parse.unquote(re.search(r"q=([^#]+)#", link)[1])
    for environment, given in (({"DISPLAY": ":7"}, True), ({}, False)):
        for name in ("DISPLAY", "WAYLAND_DISPLAY", "BROWSER"):
            monkeypatch.delenv(name, raising=False)
        for name, value in environment.items():
            monkeypatch.setenv(name, value)
        code, output, errors = finish(start(program, data, "search", word, "--open"))
        assert code == 0, errors
        told = (tmp_path / "xdg-open.given").read_text() if given else output.splitlines()[-1]
        assert told.startswith(f"{page}/videos/{video}?t=")
    os.kill(int((data / "running").read_text()), signal.SIGINT)
    wait_until(lambda: "EXIT 0" in window.screen(), "the end")
    window.close()
    original, = glob.glob(f"{data}/store/videos/original/*/*")
    code, output, errors = finish(start(program, data, "search", word, "--open"))
    place = re.fullmatch(r"(.*) at (\d+:[\d.]+)", output.splitlines()[-1])
    assert code == 0 and place and os.path.samefile(place[1], original), (output, errors)
    assert not (tmp_path / "mpv.given").exists(), "without a desktop a player would run for ever, unseen"
    monkeypatch.setenv("WAYLAND_DISPLAY", "wayland-7")
    assert finish(start(program, data, "search", word, "--open"))[0] == 0
    moment, path = (tmp_path / "mpv.given").read_text().split()
    assert moment.startswith("--start=") and os.path.samefile(path, original)


# ---- pipes and shells ----------------------------------------------------------------------------

@pytest.fixture
def library(program, database, store_dir, queue):
    """A video with lines; a call of cortana by a shell."""
    lines = [{"text": text, "t_start": 1000 * (i // 8), "t_end": 1000 * (i // 8) + 5000,
              "bounding_box": {"x": 10, "y": 20 * (i % 8), "width": 300, "height": 18}}
             for i, text in enumerate(["=1+2", "@anna wrote", "-5 degrees", "old bridge at night"]
                                      + [f"line number {n} of many" for n in range(600)])]
    video = queue.video()
    queue.run("UPDATE videos SET original_name = 'film.mp4', resolution = '320x240', duration = 90,"
              " s3_original_path = 'videos/original/x/master.mp4'")
    queue.write_text(video, lines)

    def call(command, **environment):
        return subprocess.run(["bash", "-c", command.replace("cortana ", f"{program('cortana')} ")],
                              text=True, capture_output=True, check=False, timeout=300,
                              env={**os.environ, "DATABASE_URL": database,
                                   "STORE_URL": f"dir:{store_dir}", **environment})

    return call


def test_pipes_and_full_disks(library):
    done = library("cortana export last -f csv | head -1; echo ${PIPESTATUS[0]}")
    assert done.stdout.splitlines()[-1] == "0" and done.stderr == ""
    done = library("cortana export last -f csv > /dev/full")
    assert done.returncode == 1 and done.stderr == ("cortana: the output could not be written: "
                                                    "No space left on device\n")
    done = library("cortana export last -o /nowhere/x.csv")
    assert done.returncode == 1 and "cannot write /nowhere/x.csv" in done.stderr


def test_search_as_hands_type_it(library):
    assert "[old bridge]" in library("cortana search old bridge", STORE_URL="").stdout
    assert library("cortana search old -- -bridge").returncode == 1
    assert library("cortana search old -bridge").returncode == 1
    assert library("cortana search 'night bridge' old --exact").returncode == 1  # a phrase that is not there
    assert len(library("cortana search line -n5 --json").stdout.splitlines()) == 5
    assert library("cortana search 'zebra OR bridg*'").returncode == 0
    refused = library("cortana search '(old OR new) bridge'")
    assert refused.returncode == 64 and "parentheses" in refused.stderr
    assert "[old]" in library("cortana search '\"(old\"'").stdout
    for words, answer in (("color:red", "color: is not a field"), ("bridge lang:xyz", "lang:xyz: there is no"),
                          ("kind:x bridge", "write kind:url"), ("lang:eng", "add a word")):
        refused = library(f"cortana search '{words}'")
        assert refused.returncode == 64 and answer in refused.stderr and not refused.stdout
    assert library("cortana search 'old brigde' --exact").returncode == 1
    assert library("cortana search 'old brigde'").returncode == 0
    shown = library("cortana search bridge -C 1").stdout.splitlines()
    assert shown[1:] == ["  - -5 degrees", "    old [bridge] at night", "  - line number 0 of many"]
    for words in ("the of and", "🥐", "..."):
        done = library(f"cortana search '{words}'")
        assert "NOTICE" not in done.stderr and done.returncode in (0, 1)


def test_exports_that_other_tools_take(library, tmp_path):
    text = library("cortana export last -f csv --bom").stdout
    assert text.startswith("\ufeffvideo,start,end,")
    assert '"\'=1+2"' in text and '"\'@anna wrote"' in text and '"\'-5 degrees"' in text
    assert "film.mp4" in text and "00:00:05.000" in text
    for kind in ("srt", "ass", "vtt"):
        assert library(f"cortana export last -o {tmp_path}/x.{kind}").returncode == 0
    cues = []
    for block in (tmp_path / "x.srt").read_text().strip().split("\n\n"):
        times = re.findall(r"(\d\d):(\d\d):(\d\d),(\d{3})", block.split("\n")[1])
        cues.append([int(h) * 3600000 + int(m) * 60000 + int(s) * 1000 + int(ms) for h, m, s, ms in times])
    at_once = [sum(start <= moment < end for start, end in cues) for moment in range(0, 90000, 100)]
    assert max(at_once) == 4 and len(cues) > 250
    assert "line:" in (tmp_path / "x.vtt").read_text() and "\\pos(" in (tmp_path / "x.ass").read_text()
    packets = json.loads(subprocess.run(
        ["ffprobe", "-v", "error", "-show_packets", "-of", "json", tmp_path / "x.ass"], check=True,
        capture_output=True, text=True).stdout)["packets"]
    assert len(packets) == 604
    assert library("cortana export last -f txt").stdout.splitlines()[3] == "old bridge at night"
    assert "| 0:00.000 | 0:05.000 | old bridge at night |" in library("cortana export last -f md").stdout
    video = json.loads(library("cortana export last").stdout)["video"]
    assert video["duration_ms"] == 90000 and "duration" not in video


def test_every_list_speaks_json(library):
    for group in ("videos", "jobs", "runs", "workflows", "commands", "schedules", "triggers", "webhooks",
                  "workers", "hosts", "nodes", "rules", "embeddings"):
        done = library(f"cortana {group} --json")
        assert done.returncode == 0 and done.stderr == "", done.stderr
        for line in done.stdout.splitlines():
            assert isinstance(json.loads(line), dict)
    failed = library("cortana videos show nothing --json")
    assert failed.returncode == 1
    assert json.loads(failed.stderr)["error"]["message"] .startswith("no video is 'nothing'")
    assert all(json.loads(line)["level"] for line in library("cortana doctor --json").stdout.splitlines())


@pytest.mark.parametrize("command, words", [
    ("jobs list --type ocrr", "did you mean ocr?"), ("jobs list --status runing", "processing"),
    ("jobs list --since yesterday", "2026-05-17"), ("jobs pause nothing", "there are "),
    ("rules set ocr priority=99", "a number from 0 to 10"),
    ("rules set ocr prority=1", "did you mean priority?"), ("hosts set h cpu-budget=1", "no host"),
    ("nodes set n types=ocr mac=xyz", "hardware address"), ("videos --status redy", "did you mean ready?"),
    ("export last --format doc", "json jsonl csv srt"), ("completion tcsh", "bash zsh fish"),
    ("search x --limt 5", "did you mean --limit?"), ("vidoes", "did you mean cortana videos?"),
    ("jbos", "did you mean cortana jobs?"), ("abcdefgh", "no command"),
])
def test_what_nothing_can_be_is_refused_by_name(library, command, words):
    done = library(f"cortana {command}")
    assert done.returncode in (1, 64) and words in done.stderr and done.stdout == ""
    assert "constraint" not in done.stderr


def test_shells_complete_and_help_shows(library, program, tmp_path):
    script = tmp_path / "completion"
    for shell in ("bash", "zsh", "fish"):
        assert "complete" in library(f"cortana completion {shell}").stdout
    script.write_text(library("cortana completion bash").stdout)

    def complete(*words):
        line = " ".join(f"'{word}'" for word in words)
        return subprocess.run(
            ["bash", "-c", f"source {script}; COMP_WORDS=({line}); COMP_CWORD={len(words) - 1}; _cortana;"
                           " printf '%s\\n' \"${COMPREPLY[@]}\""],
            check=True, capture_output=True, text=True,
            env={**os.environ, "PATH": f"{program('cortana').parent}:{os.environ['PATH']}"}).stdout.split()

    assert complete("cortana", "sea") == ["search"]
    assert "show" in complete("cortana", "jobs", "")
    assert complete("cortana", "export", "last", "--format", "s") == ["srt"]
    assert complete("cortana", "jobs", "list", "--sta") == ["--status"]
    assert complete("cortana", "clip", "la") == ["last"] and "script" not in complete("cortana", "clip", "last", "")
    assert complete("cortana", "rm", "la") == ["last"] and complete("cortana", "ls", "--sta") == ["--status"]
    assert complete("cortana", "clip", "last", "1", "-o", str(tmp_path / "com")) == [str(script)]
    assert complete("cortana", "backup", str(tmp_path / "com")) == [] and complete("cortana", "nothing", "") == []
    assert library("cortana help exit-codes").stdout.startswith("0 ")
    assert library("cortana help jobs retry").stdout.startswith("usage: cortana jobs retry")
    assert library("cortana -V").stdout == library("cortana --version").stdout


def test_env_opens_the_database(program, data, fixtures_dir):
    finish(start(program, data, "run", fixtures_dir / "edge/text.mp4"))
    running = start(program, data, "run", "--no-page")
    try:
        assert "put videos into" in running.stderr.readline()  # and nothing of the file that failed
        code, output, _ = finish(start(program, data, "env"))
        assert code == 0
        found = subprocess.run(["bash", "-c", f"{output}\necho $DATABASE_URL"], check=True, text=True,
                               capture_output=True).stdout.strip()
        connection = psycopg2.connect(found)
        connection.close()
        assert "passfile" in found
    finally:
        running.send_signal(signal.SIGINT)
        finish(running)
