"""Clips through the queue: by SQL and by the command line, one object for one range and set of options."""
import json
import subprocess
import uuid

import psycopg2
import pytest
from api import Gateway, token
from media_tools import make_clip, streams

VIDEO = "5b0e0c7e-3d5f-4a7b-9a52-6f1f7a3c0002"
ORIGINAL = f"videos/original/{VIDEO}/master.mp4"


@pytest.fixture
def video(workers, jobs, tmp_path):
    """A video of 6 s at 30 a second with its row; its original lies in the store."""
    path = workers.store / ORIGINAL
    path.parent.mkdir(parents=True)
    make_clip(path, "-f lavfi -i testsrc2=s=320x240:r=30:d=6 -f lavfi -i sine=d=6 -c:v libx264 -g 15 "
              "-c:a aac")
    jobs.rows("INSERT INTO videos (id, original_name, s3_original_path) VALUES (%s, 'a.mp4', %s)",
              VIDEO, ORIGINAL)
    return VIDEO


def request(jobs, start, end, padding=0, **options):
    return jobs.row("SELECT * FROM request_clip(%s, %s, %s, %s, %s)", VIDEO, start, end, padding,
                    json.dumps(options) if options else None)


def cortana(program, workers, *arguments):
    return subprocess.run([program("cortana"), "clip", VIDEO, *arguments], text=True, check=False,
                          capture_output=True, stdin=subprocess.DEVNULL, timeout=300,
                          cwd=workers.store.parent, env=workers.environment())


IMPOSSIBLE = [
    ({"start": 40000, "end": 41000}, "t_start"), ({"start": 3000, "end": 3000}, "t_end"), ({"start": 3000, "end": None}, "t_end"),
    ({"start": 0, "end": 3600001}, "t_end"), ({"start": 0, "end": 60001, "format": "gif"}, "t_end"),
    ({"start": 0, "end": 1000, "padding": 60001}, "padding_ms"), ({"start": -1, "end": 1000}, "t_start"),
    ({"start": 6000, "end": None, "format": "jpg"}, "t_start"), ({"start": 0, "end": 1000, "format": "avi"}, "format"),
    ({"start": 0, "end": 1000, "mode": "magic"}, "mode"), ({"start": 0, "end": 1000, "mute": "yes"}, "mute"),
    ({"start": 0, "end": 1000, "max_height": 1}, "max_height"), ({"start": 0, "end": 1000, "max_height": "240"}, "max_height"),
    ({"start": 0, "end": 1000, "height": 240}, "height"), ({"start": 0, "end": 1000, "crop": "64x64+0+0"}, "crop"),
    ({"start": 0, "end": 1000, "crop": {"x": 0, "y": 0, "width": 321, "height": 64}}, "crop"),
    ({"start": 0, "end": 1000, "crop": {"x": 300, "y": 0, "width": 64, "height": 64}}, "crop"),
    ({"start": 0, "end": 1000, "crop": {"x": 0, "y": "0", "width": 64, "height": 64}}, "crop"),
    ({"start": 0, "end": 1000, "crop": {"x": 0, "y": 0, "width": 64}}, "crop")]


@pytest.fixture
def known(queue):
    queue.run("INSERT INTO videos (id, s3_original_path, duration, resolution) VALUES (%s, %s, 6, '320x240')", VIDEO, ORIGINAL)


@pytest.mark.parametrize("asked, member", IMPOSSIBLE)
def test_an_impossible_clip_is_refused_at_once(queue, known, asked, member):
    """By request_clip(), and by a job of another program."""
    options = {key: value for key, value in asked.items() if key not in ("start", "end", "padding")}
    with pytest.raises(psycopg2.errors.InvalidParameterValue) as info:
        queue.run("SELECT request_clip(%s, %s, %s, %s, %s)", VIDEO, asked["start"], asked["end"], asked.get("padding", 0),
                  json.dumps(options))
    assert info.value.diag.column_name == member and member in info.value.diag.message_primary
    payload = {"clip_id": str(uuid.uuid4()), "t_start": asked["start"], "t_end": asked["end"], "padding_ms": asked.get("padding", 0)}
    if member != "height":  # what a stage does not know it ignores
        for statement in ("SELECT enqueue_job('clip_generate', %s, %s)",
                          "INSERT INTO jobs (job_type, payload, video_id) VALUES ('clip_generate', %s, %s)"):
            with pytest.raises(psycopg2.errors.InvalidParameterValue) as info:
                queue.run(statement, json.dumps(payload | options), VIDEO)
            assert info.value.diag.column_name == member
    assert queue.value("SELECT count(*) FROM jobs") == 0


def test_the_last_instant_of_a_video_can_be_a_clip(queue, known):
    for asked in ((5999, 8000, 2000, None), (5999, None, 0, '{"format": "jpg"}'),
                  (0, 6000, 0, '{"crop": {"x": 256, "y": 176, "width": 64, "height": 64}, "max_height": 16}')):
        assert queue.value("SELECT is_new FROM request_clip(%s, %s, %s, %s, %s)", VIDEO, *asked)


def test_many_clips_of_videos_without_a_length_are_checked_without_reading_the_other_jobs(queue):
    """Otherwise a statement that inserts n jobs reads all those before each of them."""
    queue.run("INSERT INTO videos (id, s3_original_path) VALUES (%s, %s)", VIDEO, ORIGINAL)
    scans = queue.value(
        "BEGIN; INSERT INTO jobs (job_type, video_id, payload) SELECT 'clip_generate', %s, jsonb_build_object('clip_id', gen_random_uuid(),"
        " 't_start', n, 't_end', n + 1000) FROM generate_series(1, 20) AS n;"
        " SELECT coalesce(seq_scan, 0) + coalesce(idx_scan, 0) FROM pg_stat_xact_user_tables WHERE relid = 'jobs'::regclass", VIDEO)
    queue.run("COMMIT")
    assert queue.value("SELECT count(*) FROM jobs") == 20
    assert scans < 20


def test_one_range_with_one_set_of_options_is_one_object(program, workers, jobs, video):
    first = request(jobs, 1000, 3000)
    again = request(jobs, 1000, 3000, mode="smart", mute=False, format=None)
    assert first["is_new"] and not again["is_new"]
    assert {k: again[k] for k in ("job_id", "clip_id", "clip_path")} == {
        k: first[k] for k in ("job_id", "clip_id", "clip_path")}
    others = [request(jobs, 1000, 3000, 1), request(jobs, 1000, 3001),
              request(jobs, 1000, 3000, mute=True), request(jobs, 1000, 3000, mode="encode"),
              request(jobs, 1000, 3000, crop={"x": 0, "y": 0, "width": 64, "height": 64})]
    assert len({row["clip_id"] for row in [first, *others]}) == 6

    workers.start("clip-generate-worker")
    for row in [first, *others]:
        job = jobs.wait_for(row["job_id"], "done", "failed")
        assert job["status"] == "done", job["payload"]
        assert job["result"]["clip_path"] == row["clip_path"]
    assert set(streams(workers.store / others[2]["clip_path"])) == {"video"}
    before = (workers.store / first["clip_path"]).stat().st_mtime_ns

    # By the command line it is the same clip, and nothing is left to do.
    done = cortana(program, workers, "1s", "3s", "--padding", "0")
    assert done.returncode == 0, done.stderr
    copy = workers.store.parent / done.stdout.strip()
    assert copy.name == "a_0m01.000s-0m03.000s.mp4"
    assert copy.read_bytes() == (workers.store / first["clip_path"]).read_bytes()
    count = jobs.row("SELECT count(*) AS n FROM jobs")["n"]
    assert count == 6
    # Asked for again by SQL there is a job, which finds the object.
    late = request(jobs, 1000, 3000)
    assert jobs.wait_for(late["job_id"], "done")["result"]["skipped"] is True
    assert (workers.store / first["clip_path"]).stat().st_mtime_ns == before


def test_the_command_line_has_the_options(program, workers, jobs, video, tmp_path):
    workers.start("clip-generate-worker")
    copy = tmp_path / "copy.mp4"
    done = cortana(program, workers, "1s", "3s", "--padding", "0", "--max-height", "120", "--mute",
                   "--crop", "160x120+16+8", "--mode", "encode", "-o", str(copy))
    assert done.returncode == 0, done.stderr
    found = streams(copy)
    assert set(found) == {"video"} and (found["video"]["width"], found["video"]["height"]) == (160, 120)
    same = request(jobs, 1000, 3000, crop={"width": 160, "height": 120, "x": 16, "y": 8}, mute=True,
                   mode="encode", max_height=120)
    assert jobs.wait_for(same["job_id"], "done")["result"]["skipped"] is True
    done = cortana(program, workers, "1.5", "--format", "jpg")
    assert done.returncode == 0, done.stderr
    picture = workers.store.parent / done.stdout.strip()
    assert picture.suffix == ".jpg" and picture.read_bytes()[:2] == b"\xff\xd8"
    for name, arguments, head in (("a.gif", ["1", "2"], b"GIF8"), ("a.webm", ["1", "2"], b"\x1a\x45\xdf\xa3"),
                                  ("A.JPG", ["1.5"], b"\xff\xd8")):
        done = cortana(program, workers, *arguments, "-o", str(tmp_path / name))
        assert done.returncode == 0, done.stderr
        assert (tmp_path / name).read_bytes().startswith(head)
    told = json.loads(cortana(program, workers, "1500ms", "--format", "jpg", "--json").stdout)
    assert told["file"] == picture.name and told["start_ms"] == 1500
    assert request(jobs, 1500, None, format="jpg")["clip_path"] == told["object"]


def test_a_clip_is_named_by_its_true_end(program, workers, jobs, video):
    workers.start("clip-generate-worker")
    jobs.row("UPDATE videos SET duration = 6 RETURNING 1")
    done = cortana(program, workers, "5", "9", "--padding", "0")
    assert (done.returncode, done.stdout) == (0, "a_0m05.000s-0m06.000s.mp4\n"), done.stderr
    found = streams(workers.store.parent / done.stdout.strip())
    assert float(found["video"]["duration"]) == pytest.approx(1, abs=0.025)  # AAC ends with a block


def test_a_clip_may_be_asked_for_before_the_sound_was_heard(program, workers, jobs, video):
    """Until transcode has ended, the length is that of the pictures."""
    workers.start("clip-generate-worker")
    jobs.row("UPDATE videos SET duration = 2 RETURNING 1")
    assert cortana(program, workers, "3", "4").returncode == 64
    jobs.rows("SELECT enqueue_job('transcode', %s, %s)", json.dumps({"s3_original_path": ORIGINAL}), VIDEO)
    done = cortana(program, workers, "3", "4", "--padding", "0")
    assert (done.returncode, done.stdout) == (0, "a_0m03.000s-0m04.000s.mp4\n"), done.stderr


def test_a_failing_clip_says_why(program, workers, jobs, video):
    """Before anybody knows how long and how large the video is; nobody finds a dead letter to look at."""
    workers.start("clip-generate-worker")
    done = cortana(program, workers, "50s", "51s")
    assert done.returncode == 1 and "cortana clip: the clip begins at 50000 ms, and the video ends at 60" in done.stderr
    assert VIDEO not in done.stderr and "S3" not in done.stderr and "master" not in done.stderr
    done = cortana(program, workers, "1s", "2s", "--crop", "64x64+300+0")
    assert done.returncode == 1 and "the crop reaches over the edge of a picture of 320x240 pixels; choose" in done.stderr
    depths = {row["status"]: row["depth"] for row in jobs.rows("SELECT status, depth FROM queue_depth WHERE job_type = 'clip_generate'")}
    assert (depths["dead"], depths["refused"]) == (0, 2)
    assert {row["refused"] for row in jobs.rows("SELECT refused FROM job_overview WHERE job_type = 'clip_generate'")} == {True}
    done = cortana(program, workers, "5s", "60s", "--padding", "0")
    assert done.returncode == 0, "what lasts longer than the video ends with it"
    assert float(streams(workers.store.parent / done.stdout.strip())["video"]["duration"]) == pytest.approx(1, abs=0.05)


def test_a_clip_comes_from_a_server_and_again_when_its_object_is_gone(program, workers, jobs, queue, video, database, tmp_path):
    workers.start("clip-generate-worker")
    jobs.row("UPDATE videos SET title = 'Übung 1/2' RETURNING 1")
    gateway = Gateway(program, database, tmp_path, STORE_URL=f"dir:{workers.store}")
    url = gateway.url
    environment = {**workers.environment(), "XDG_CONFIG_HOME": str(tmp_path)}
    subprocess.run([program("cortana"), "login", url], input=token(role="service_role", sub=None), text=True, check=True, env=environment)
    files = []
    for place in ([], ["--server", url]):
        for _ in range(2):
            done = subprocess.run([program("cortana"), "clip", "Übung 1/2", "1s", "3s", *place], text=True, capture_output=True,
                                  env=environment, cwd=tmp_path, check=False)
            assert (done.returncode, done.stdout) == (0, "Übung 1_2_0m01.000s-0m03.000s.mp4\n"), done.stderr
            files.append((tmp_path / done.stdout.strip()).read_bytes())
            (clip,) = (workers.store / "videos/clips").rglob("*.mp4")
            clip.unlink()  # as a bucket's rule does
    assert gateway.process.stop() == 0
    assert len({len(one) for one in files}) == 1 and jobs.row("SELECT count(*) AS n FROM jobs")["n"] == 4


@pytest.mark.parametrize("arguments, words", [
    (["50s", "51s"], "t_start (50000 ms) is not before the video's end (10000 ms)"),
    (["1s", "2s", "--crop", "64x64+300+0"], "crop reaches over the edge of a picture of 320x240 pixels"),
    (["1s", "2s", "--crop", "64x64+-2+0"], "crop"),
    (["1s", "2s", "--crop", "0x64+0+0"], "WIDTHxHEIGHT"),
    (["1s", "2s", "--padding", "61"], "padding_ms"),
    (["1s", "2m", "-o", "a.gif"], "more than the limit of 60000 ms"),
    (["1s", "2s", "--format", "avi"], "mp4 webm gif jpg"),
    (["2s", "1s"], "before it starts"),
    (["1s", "2s", "-o", "/nowhere/clip.mp4"], "cannot write into the folder /nowhere"),
    (["1s", "2s", "-o", "a.mkv"], "there is no format .mkv, only mp4 webm gif jpg"),
    (["1s", "-o", "out.png"], "there is no format .png, only mp4 webm gif jpg"),
    (["1s"], "-o FILE.jpg"),
    (["1s", "2s", "-o", "a.jpg"], "the frame of one moment"),
    (["1:2:3:4", "5:0:0"], "'1:2:3:4' is not a time"),
    (["1s", "2s", "--max-height", "1"], "max_height"),
    (["1s", "2s", "--max-height", "tall"], "--max-height"),
])
def test_what_cannot_be_cut_is_refused_at_once(program, workers, jobs, video, arguments, words):
    jobs.row("UPDATE videos SET duration = 10, resolution = '320x240' RETURNING 1")
    done = cortana(program, workers, *arguments)
    assert done.returncode == 64 and words in done.stderr
    assert jobs.row("SELECT count(*) AS n FROM jobs")["n"] == 0


@pytest.mark.parametrize("start, end, options, words", [
    (1000, 3000, {"colour": "red"}, "unknown options of a clip: colour"),
    (1000, 3000, [1], "JSON object"),
])
def test_requests_are_checked(sql, start, end, options, words):
    with sql.cursor() as cursor:
        cursor.execute("INSERT INTO videos (id, s3_original_path) VALUES (%s, %s)", (VIDEO, ORIGINAL))
        with pytest.raises(psycopg2.Error, match=words):
            cursor.execute("SELECT * FROM request_clip(%s, %s, %s, 0, %s)",
                           (VIDEO, start, end, json.dumps(options)))
        with pytest.raises(psycopg2.Error, match="no original"):
            cursor.execute("SELECT * FROM plan_clip(%s, 0, 1000)", (str(uuid.uuid4()),))
        cursor.execute("SELECT count(*) FROM jobs")
        assert cursor.fetchone()[0] == 0
