"""The cortana command: usage, export formats read by other readers, search, jobs."""

import csv
import io
import json
import re
import subprocess

import pytest
from jobs import Queue

VIDEO = "5b0e0c7e-3d5f-4a7b-9a52-6f1f7a3c0001"
TEXTS = [
    {"text": 'He said "5 < 6 & 7 > 2", twice', "t_start": 0, "t_end": 1500},
    {"text": "Order, shipped --> today", "t_start": 1000, "t_end": 3723004},
    {"text": "Über @anna café", "t_start": 2000, "t_end": 2000, "entities": [{"type": "mention", "value": "@anna"}]},
]


@pytest.fixture
def video(sql):
    with sql.cursor() as cursor:
        cursor.execute("INSERT INTO videos (id, original_name, s3_original_path) VALUES (%s, 'film.mp4', 'videos/original/x/master.mp4')", (VIDEO,))
    Queue(sql).write_text(VIDEO, [{**line, "bounding_box": {"x": 5, "y": 10 + 30 * n, "width": 100, "height": 20 + n}} for n, line in enumerate(TEXTS)])
    return VIDEO


def json_lines(done):
    return [json.loads(line) for line in done.stdout.splitlines()]


@pytest.mark.parametrize("arguments", [
    [], ["nonsense"], ["run", "--target-fps", "5"], ["run", "--target-fps", "fast", "x"], ["run", "--workers", "ocr", "x"],
    ["run", "--languages", "../x", "x"], ["search"], ["search", "(a OR b)"],
    ["search", "a", "--limit", "0"], ["export"], ["export", "last", "--format", "doc"],
    ["export", "last", "--format"], ["clip", "last", "1s"], ["clip", "last", "2s", "1s"],
    ["clip", "last", "soon", "later"], ["clip", "last", "1s", "2s", "--crop", "64x64"],
    ["clip", "last", "1s", "2s", "--mode", "fast"], ["clip", "last", "1s", "2s", "--format", "jpg"], ["jobs", "eat"], ["jobs", "show"], ["jobs", "retry", "a"],
    ["workers", "x"], ["migrate", "--force"], ["doctor", "x", "y"],
])
def test_wrong_usage_is_explained(cortana, arguments):
    done = cortana(*arguments)
    assert done.returncode == 64
    assert done.stdout == "" and "usage:" in done.stderr


@pytest.mark.parametrize("command", ["run", "search", "export", "clip", "jobs", "workers", "migrate",
                                     "doctor", "schedules", "triggers"])
def test_every_command_has_help(cortana, command):
    done = cortana(command, "--help")
    assert done.returncode == 0 and done.stdout.startswith(f"usage: cortana {command}")
    assert max(map(len, done.stdout.splitlines())) <= 100
    assert command in cortana("--help").stdout


def test_export_json(cortana, video, tmp_path):
    path = tmp_path / "out.json"
    assert cortana("export", "last", "-o", path).returncode == 0
    export = json.loads(path.read_text())
    assert list(export) == ["video", "segments", "entities"]
    assert export["video"]["id"] == video
    assert [row["text"] for row in export["segments"]] == [row["text"] for row in TEXTS]
    assert set(export["segments"][0]) == {"id", "text", "normalized_text", "t_start", "t_end",
                                          "confidence", "language", "bounding_box", "end_box", "track", "words", "source", "shown_at"}
    assert export["segments"][0]["confidence"] == 0.9
    assert export["entities"] == [{
        "type": "mention", "value": "@anna", "normalized_value": "@anna",
        "segment_id": export["segments"][2]["id"], "t_start": 2000, "t_end": 2000}]
    assert [entry.name for entry in tmp_path.iterdir() if entry.is_file()] == ["out.json"]


def test_export_csv(cortana, video):
    done = cortana("export", video, "--format", "csv")
    rows = list(csv.DictReader(io.StringIO(done.stdout, newline=""), strict=True))
    assert [row["text"] for row in rows] == [row["text"] for row in TEXTS]
    assert rows[1]["t_end_ms"] == "3723004" and [row["y"] for row in rows] == ["10", "40", "70"]
    assert rows[1]["end"] == "01:02:03.004" and rows[1]["video"] == "film.mp4"
    assert rows[2]["entities"] == "mention:@anna"


@pytest.mark.parametrize("kind", ["srt", "vtt"])
def test_subtitles_are_read_by_ffmpeg(cortana, video, tmp_path, kind):
    path = tmp_path / f"out.{kind}"
    assert cortana("videos", "set", video[:8], "--recorded", "2026-03-01").returncode == 0  # a comment in WebVTT
    assert cortana("export", video[:8], "--format", kind, "-o", path).returncode == 0
    packets = json.loads(subprocess.run(
        ["ffprobe", "-v", "error", "-show_packets", "-of", "json", path], check=True,
        capture_output=True, text=True).stdout)["packets"]
    assert [float(packet["pts_time"]) for packet in packets] == [0, 1, 2]
    assert [float(packet["duration_time"]) for packet in packets] == [1.5, 3722.004, 0.001]
    text = path.read_text()
    assert text.count("-->") == 3
    if kind == "vtt":
        assert text.startswith("WEBVTT\n\n") and "5 &lt; 6 &amp; 7 &gt; 2" in text
    else:
        assert "\n01:02:03,004\n" in text.replace(" --> ", "\n")


@pytest.mark.parametrize("name", ["out.xlsx", "out.mkv", "out.jsonx"])
def test_an_extension_that_is_no_format_is_refused(cortana, video, tmp_path, name):
    for arguments in (["export", "last", "-o", tmp_path / name], ["run", "film.mp4", "--export", tmp_path / name]):
        done = cortana(*arguments)
        assert done.returncode == 64 and not (tmp_path / name).exists()
        assert f"there is no format .{name[4:]}, only json jsonl csv srt vtt ass txt md" in done.stderr


def test_the_extension_decides_the_format(cortana, video, tmp_path):
    assert cortana("export", "last", "-o", tmp_path / "OUT.CSV").returncode == 0
    assert [row["text"] for row in csv.DictReader((tmp_path / "OUT.CSV").open())] == [row["text"] for row in TEXTS]
    assert cortana("export", "last", "-f", "csv", "-o", tmp_path / "out.data").returncode == 0
    assert (tmp_path / "out.data").read_bytes() == (tmp_path / "OUT.CSV").read_bytes()


def test_export_of_what_is_not_there(cortana, tmp_path):
    done = cortana("export", "last", "-o", tmp_path / "x")
    assert done.returncode == 1 and "no video" in done.stderr and not (tmp_path / "x").exists()
    assert cortana("export", "film.mp4").returncode == 1


def test_search_shows_time_box_and_match(cortana, video):
    done = cortana("search", "shipped")
    assert done.returncode == 0
    assert "film.mp4  0:01.000 – 1:02:03.004  at 5,40  100×21" in done.stdout
    assert "[shipped]" in done.stdout
    assert "[shipped]" in cortana("search", "shiped", "--video", "film.mp4").stdout
    hits = json_lines(cortana("search", "shipped", "--json"))
    assert [(hit["video_id"], hit["t_start"]) for hit in hits] == [(video, 1000)]
    nothing = cortana("search", "zzzzzz")
    assert nothing.returncode == 1 and nothing.stdout == "" and "nothing found" in nothing.stderr
    nothing = cortana("search", "zzzzzz", "--json")
    assert nothing.returncode == 1 and nothing.stdout == nothing.stderr == ""


def test_videos_are_filed_by_people(cortana, video):
    done = cortana("videos", "set", "last", "--title", "At sea", "--tag", "Sea", "--tag", "night walk", "--recorded", "2024-05-17")
    assert done.stdout == f"video {video}: At sea (night walk,Sea)\n", done.stderr
    shown = cortana("videos", "show", "At sea").stdout
    assert re.search("^title +At sea\nfile +film.mp4\ntags +night walk,Sea\nrecorded +2024-05-17", shown, re.M), shown
    assert "At sea  0:01.000" in cortana("search", "shipped", "tag:sea").stdout
    assert "At sea" in cortana("export", "last", "-f", "csv").stdout
    assert cortana("videos", "set", "last", "--untag", "SEA", "--json").returncode == 0
    assert cortana("search", "shipped", "tag:sea").returncode == 1 == cortana("search", "shipped", "recorded:2023").returncode
    assert re.fullmatch(r"collection \S+: 1 video\n", cortana("collections", "add", "Holidays", "last").stdout)
    assert "Holidays" in cortana("collections").stdout and "At sea" in cortana("collections", "show", "holidays").stdout
    assert "shipped" in cortana("search", "shipped", "in:holidays").stdout
    assert cortana("collections", "take", "holidays", "last").stdout == "Holidays: 0 videos\n"
    assert cortana("search", "shipped", "in:holidays").returncode == 1
    assert cortana("collections", "put", "holidays", "At sea").stdout == "Holidays: 1 video\n"
    assert cortana("collections", "remove", "holidays").stdout == "holidays is removed\n"
    nothing = cortana("collections", "show", "holidays")
    assert nothing.returncode == 1 and "no collection is called 'holidays'" in nothing.stderr
    assert "--recorded takes a date" in cortana("videos", "set", "last", "--recorded", "soon").stderr


def test_links_for_people_without_an_account(cortana, video):
    refused = cortana("share", "video", "last")
    assert refused.returncode == 1 and "an administrator can allow them" in refused.stderr
    assert "nothing is shared" in cortana("share", "list").stderr
    assert cortana("share", "allow").stdout == "links are allowed\n"
    assert re.fullmatch(r"/s/[A-Za-z0-9_-]{22}\n", cortana("share", "video", "last", "--from", "0:01", "--to", "2.5", "--days", "3").stdout)
    made = json.loads(cortana("share", "list", "--json").stdout)
    assert (made["from_ms"], made["to_ms"], made["video_id"], made["state"]) == (1000, 2500, str(video), "open")
    assert "share a clip" in cortana("share", "video", "last", "--from", "1", "--to", "2", "--download").stderr
    assert cortana("share", "revoke", made["id"]).stdout == f"link {made['id']} is revoked\n"
    assert "revoked" in cortana("share").stdout and cortana("share", "forbid").stdout == "links are not allowed\n"


def test_text_cannot_command_the_terminal(cortana, sql, video):
    with sql.cursor() as cursor:
        cursor.execute("UPDATE videos SET original_name = E'a\\x1b[2Jb' WHERE id = %s", (video,))
    done = cortana("search", "shipped")
    assert "\x1b" not in done.stdout and "a [2Jb" in done.stdout


def test_jobs_are_listed_shown_canceled_and_retried(cortana, sql, video):
    with sql.cursor() as cursor:
        cursor.execute("SELECT job_id FROM enqueue_job('transcode', '{}', %s)", (video,))
        job = str(cursor.fetchone()[0])
    listed = cortana("jobs").stdout
    assert job in listed and "queued" in listed
    assert cortana("jobs", "cancel", job[:8]).returncode == 0
    shown = cortana("jobs", "show", job).stdout
    assert re.search(r"^state +canceled$", shown, re.M) and "EVENT" in shown
    assert cortana("jobs", "cancel", job).returncode == 1
    assert cortana("jobs", "retry", job).returncode == 0
    with sql.cursor() as cursor:
        cursor.execute("SELECT id, lease_token FROM claim_jobs('w', 'transcode')")
        claimed, token = cursor.fetchone()
        cursor.execute("SELECT fail_job(%s, %s, 'OcrError', 'no frames', false)", (claimed, token))
    shown = cortana("jobs", "show", job).stdout
    assert re.search("OcrError +no frames", shown) and "TRY" in shown
    assert "1 dead letter: " in cortana("doctor").stdout
    assert cortana("jobs", "retry", "--type", "transcode").stdout.startswith("1 job ")
    assert cortana("jobs", "show", "ffffffff").returncode == 1


def test_a_job_says_why_an_original_was_not_copied(cortana, sql, video):
    with sql.cursor() as cursor:
        cursor.execute("SELECT job_id FROM enqueue_job('transcode', '{}', %s)", (video,))
        job = str(cursor.fetchone()[0])
        cursor.execute("SELECT complete_job(id, lease_token, %s) FROM claim_jobs('w', 'transcode')",
                       (json.dumps({"encoded_because": "it is not H.264"}),))
    assert re.search("^encoded_because +it is not H.264$", cortana("jobs", "show", job).stdout, re.M)


def test_workflows_and_runs(cortana, sql, video, tmp_path):
    steps = tmp_path / "steps.json"
    steps.write_text('[{"key": "a", "job_type": "webhook", "params": {"x": "{{input.x}}"}},'
                     ' {"key": "b", "job_type": "webhook", "depends_on": ["a"]}]')
    assert cortana("workflows", "add", "mine", steps).stdout == "mine version 1 is active\n"
    listed = cortana("workflows").stdout
    assert "video_pipeline" in listed and "mine" in listed
    assert '"depends_on"' in cortana("workflows", "show", "mine").stdout
    steps.write_text('[{"key": "a", "job_type": "webhook", "depends_on": ["a"]}]')
    refused = cortana("workflows", "add", "mine", steps)
    assert refused.returncode == 1 and "depend on one another in a cycle" in refused.stderr

    started = cortana("runs", "start", "mine", "--video", "film.mp4", "--input", '{"x": 1}').stdout
    run_id = re.fullmatch(r"run (\S+) has started\n", started)[1]
    with sql.cursor() as cursor:
        cursor.execute("SELECT id, lease_token, payload FROM claim_jobs('w', 'webhook')")
        job, token, payload = cursor.fetchone()
        assert payload["x"] == 1
        cursor.execute("SELECT fail_job(%s, %s, 'DecodeError', 'no frames', false)", (job, token))
    assert "a: no frames" in cortana("runs").stdout
    shown = cortana("runs", "show", run_id[:8]).stdout
    assert re.search(r"^\S+ +a +0 +failed ", shown, re.M) and re.search(r" b +0 +canceled .*skipped: a has failed", shown)
    assert cortana("runs", "restart", run_id).stdout == f"run {run_id} goes on\n"
    assert cortana("runs", "cancel", run_id[:8]).returncode == 0
    assert cortana("runs", "cancel", run_id).returncode == 1
    assert cortana("runs", "start", "nothing").returncode == 1
    assert cortana("runs", "start", "mine", "--input", "[]").returncode == 64


def test_workers_shows_stale_ones(cortana, sql):
    with sql.cursor() as cursor:
        cursor.execute("SELECT report_worker('h:1:b', 'h', '1', '{ocr}', 2, 1, 'running')")
        cursor.execute("SELECT report_worker('h:2:b', 'h', '1', '{ocr}', 2, 1, 'running')")
        cursor.execute("UPDATE workers SET last_seen = now() - interval '1 hour' WHERE id = 'h:2:b'")
    lines = cortana("workers").stdout.splitlines()
    assert lines[1].startswith("running") and "h:1:b" in lines[1] and " 1/2 " in lines[1]
    assert lines[2].startswith("stale") and "h:2:b" in lines[2]


def test_doctor_finds_what_is_wrong(cortana):
    well = cortana("doctor")
    assert well.returncode == 0 and "fail" not in well.stdout
    stranger = cortana("doctor", "no-such-video")
    assert stranger.returncode == 1 and "no video is 'no-such-video'" in stranger.stdout
    away = cortana("doctor", DATABASE_URL="postgresql:///x?host=/nonexistent")
    assert away.returncode == 1 and re.search(r"^fail +installation", away.stdout, re.M)
    assert cortana("doctor", STORE_URL="s3://bucket").returncode == 1


def test_no_installation_says_what_to_do(cortana, tmp_path):
    done = cortana("search", "x", "--data", tmp_path / "none")
    assert done.returncode == 1 and "cortana run" in done.stderr
    assert not (tmp_path / "none").exists()
