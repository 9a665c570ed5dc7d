"""A long video in chunks, by two workers, is what one job makes of it."""
import json
import os
import re
import signal
import struct
import subprocess

import pytest
from media_tools import Stage, digest, grey_frames, make_clip, packets
from workers import Jobs, Workers, wait_until

SIDES = [360, 240]


@pytest.fixture(scope="module")
def source(tmp_path_factory):
    """30 s, B-frames, key frames beside the grid, a pause over the second seam, two tracks, the longer
    one beyond the pictures."""
    return make_clip(
        tmp_path_factory.mktemp("split") / "a.mp4",
        "-f lavfi -i testsrc2=s=480x270:r=20:d=30 -f lavfi -i aevalsrc=0.5*sin(2*PI*(200+50*t)*t):"
        "d=30.7:s=48000 -f lavfi -i sine=d=20 -map 0 -map 1 -map 2 "
        "-vf select=not(between(t\\,22.9\\,25.3)) -fps_mode passthrough -c:v libx264 -preset "
        "ultrafast -g 77 -bf 2 -c:a aac")


@pytest.fixture(scope="module")
def whole(program, source, tmp_path_factory):
    """(the stage that made it in one piece, its result)"""
    stage = Stage(program("transcode-worker"), tmp_path_factory.mktemp("whole"))
    code, result = stage.run(s3_original_path=stage.put_original(source), renditions=SIDES, segments="ts")
    assert code == 0, result
    return stage, result


def folder_of(stage):
    return stage.store / "videos" / "proxy" / stage.video_id


def split(program, store, source, seconds=12, **payload):
    """Plan, chunks and join one after the other; (stage, result)"""
    stage = Stage(program("transcode-worker"), store)
    payload = {"s3_original_path": stage.put_original(source), "segments": "ts", **payload}
    code, plan = stage.run(split="plan", split_seconds=seconds, **payload)
    assert code == 0, plan
    payload |= {key: plan[key] for key in ("renditions", "copy", "encoded_because") if key in plan}
    for chunk in plan["chunks"] or [None]:
        code, result = stage.run(split="chunk", chunks=[chunk] if chunk else [], **payload)
        assert code == 0, result
    assert not (folder_of(stage) / "index.m3u8").exists()
    code, result = stage.run(split="join", chunks=plan["chunks"], **payload)
    assert code == 0, result
    return stage, result, plan


def compare(whole, stage, result):
    one, expected = whole
    for key in ("duration", "fps", "frames", "variable_frame_rate", "audio_streams", "resolution"):
        assert result[key] == expected[key], key
    assert [(r["name"], r["frames"], r["segments"], r["codec"]) for r in result["renditions"]] == [
        (r["name"], r["frames"], r["segments"], r["codec"]) for r in expected["renditions"]]
    for name in (r["name"] for r in expected["renditions"]):
        wanted, found = (packets(folder_of(s) / f"{name}.m3u8", "v:0") for s in (one, stage))
        assert [(p["pts_time"], p["dts_time"], "K" in p["flags"]) for p in found] == [
            (p["pts_time"], p["dts_time"], "K" in p["flags"]) for p in wanted]
        texts = [(folder_of(s) / f"{name}.m3u8").read_text() for s in (one, stage)]
        assert texts[0] == texts[1]
    # The sound is encoded in one piece: the same bytes.
    sounds = [sorted(p for p in folder_of(s).iterdir() if re.search(r"sound(_2)?_\d|sound", p.name))
              for s in (one, stage)]
    assert [p.name for p in sounds[0]] == [p.name for p in sounds[1]]
    assert [digest(p) for p in sounds[0]] == [digest(p) for p in sounds[1]]


def test_chunks_make_what_one_job_makes(program, store_dir, source, whole):
    stage, result, plan = split(program, store_dir, source, renditions=SIDES)
    assert [(c["from"], c["until"]) for c in plan["chunks"]] == [
        (0, 12000), (12000, 24000), (24000, None)]
    stage.check_output()
    compare(whole, stage, result)
    # Pictures are alike: chunks are encoded with budgets of their own.
    wanted, found = (grey_frames(folder_of(s) / "426x240.m3u8") for s in (whole[0], stage))
    assert len(wanted) == len(found)
    worst = max(max(abs(a - b) for a, b in zip(x[::41], y[::41])) for x, y in zip(wanted, found))
    assert worst < 40
    assert not [key for key in stage.keys() if "chunk" in key]


def test_chunks_of_fragmented_mp4(program, store_dir, source, whole):
    stage, result, _ = split(program, store_dir, source, segments="fmp4", renditions=[240])
    stage.check_output()
    one, expected = whole
    assert result["renditions"][0]["frames"] == expected["renditions"][1]["frames"]
    lengths = [re.findall("#EXTINF.*", (folder_of(s) / "426x240.m3u8").read_text())
               for s in (one, stage)]
    assert lengths[0] == lengths[1]


@pytest.mark.parametrize("suffix", ["mp4", "mkv"])
def test_chunks_of_a_source_that_is_copied(program, store_dir, source, tmp_path, suffix):
    """Each ends at the first key picture behind its end, where the next begins: nothing is lost or shown twice."""
    path = make_clip(tmp_path / f"a.{suffix}", f"-i {source} -map 0 -c copy")
    one = Stage(program("transcode-worker"), tmp_path / "one")
    code, expected = one.run(s3_original_path=one.put_original(path), renditions=SIDES)
    assert code == 0 and [r["copied"] for r in expected["renditions"]] == [True, False]
    stage, result, plan = split(program, store_dir, path, segments="fmp4", renditions=SIDES)
    assert plan["copy"] and len(plan["chunks"]) == 3 and "encoded_because" not in result
    stage.check_output()
    assert [r["copied"] for r in result["renditions"]] == [True, False]
    compare((one, expected), stage, result)
    assert grey_frames(folder_of(stage) / "480x270.m3u8") == grey_frames(source)
    cues = re.findall(r"(\S+) --> (\S+)", (stage.store / "thumbs" / stage.video_id / "thumbnails.vtt").read_text())
    assert len(cues) == result["sprite_tiles"] and all(a[1] == b[0] for a, b in zip(cues, cues[1:]))


def test_a_chunk_that_is_killed_is_copied_again(program, store_dir, source):
    stage = Stage(program("transcode-worker"), store_dir)
    payload = {"video_id": stage.video_id, "s3_original_path": stage.put_original(source), "renditions": [360], "copy": True}
    chunks = [{"number": 0, "from": 0, "until": 16000}, {"number": 1, "from": 16000, "until": None}]
    for chunk in chunks:
        text = json.dumps({**payload, "split": "chunk", "chunks": [chunk]})
        with subprocess.Popen([stage.program, "--once"], env={**os.environ, "STORE_URL": f"dir:{store_dir}"}, text=True,
                              stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, start_new_session=True) as run:
            run.stdin.write(text)
            run.stdin.close()
            name = f"segment_480x270_{chunk['from'] // 4000:05d}.m4s"
            wait_until((folder_of(stage) / name).exists, name)
            os.killpg(run.pid, signal.SIGKILL)
        code, result = stage.run(split="chunk", chunks=[chunk], **payload)
        assert code == 0, result
    code, result = stage.run(split="join", chunks=chunks, **payload)
    assert code == 0 and [r["copied"] for r in result["renditions"]] == [True], result
    stage.check_output()
    assert grey_frames(folder_of(stage) / "480x270.m3u8") == grey_frames(source)


def test_a_copy_that_fails_in_one_chunk_fails_in_all(program, store_dir, tmp_path):
    """Its parameter sets change in the second one; the joining job encodes what the others have copied."""
    pictures = "-f lavfi -i testsrc2=s=426x240:r=10:d=16 -c:v libx264 -preset ultrafast -g 20 -x264-params"
    for name, options in (("a", "ref=1"), ("b", "ref=3:8x8dct=1:weightp=0")):
        make_clip(tmp_path / f"{name}.h264", f"{pictures} {options}")
    path = tmp_path / "c.mp4"
    (tmp_path / "both.h264").write_bytes((tmp_path / "a.h264").read_bytes() + (tmp_path / "b.h264").read_bytes())
    make_clip(path, f"-r 10 -i {tmp_path / 'both.h264'} -c copy")
    stage, result, plan = split(program, store_dir, path, segments="fmp4", renditions=[240])
    assert plan["copy"] and result["encoded_because"] == "its parameter sets change"
    assert [(r["copied"], r["frames"]) for r in result["renditions"]] == [(False, 320)]
    stage.check_output()


@pytest.mark.parametrize("options, suffix", [("-t 5", "mp4"), ("", "ts")])
def test_what_is_not_split(program, store_dir, source, tmp_path, options, suffix):
    """Short videos, and what has no index."""
    short = make_clip(tmp_path / f"b.{suffix}", f"-i {source} {options} -map 0 -c copy")
    stage, result, plan = split(program, store_dir, short, renditions=[240])
    assert plan["chunks"] == [] and result["renditions"][0]["segments"] > 1
    stage.check_output()


def test_a_header_that_lies_makes_no_chunks_of_nothing(program, store_dir, tmp_path):
    """Matroska's element Duration (44 89), a double of milliseconds, says forty hours of thirty seconds."""
    path = make_clip(tmp_path / "c.mkv", "-f lavfi -i testsrc2=s=426x240:r=10:d=30 -c:v libx264 -preset ultrafast "
                     "-b:v 48k")
    data = bytearray(path.read_bytes())
    place = data.index(b"\x44\x89\x88") + 3
    assert struct.unpack_from(">d", data, place)[0] == pytest.approx(30000)
    struct.pack_into(">d", data, place, 40 * 3600e3)
    path.write_bytes(data)
    stage, result, plan = split(program, store_dir, path, renditions=[240])
    assert plan["duration"] == 40 * 3600
    assert [chunk["until"] for chunk in plan["chunks"]] == [12000, 24000, None]
    assert result["duration"] == pytest.approx(30, abs=0.01) and result["frames"] == 300
    stage.check_output()


def test_chunks_that_do_not_fit(program, store_dir, source):
    stage = Stage(program("transcode-worker"), store_dir)
    payload = {"s3_original_path": stage.put_original(source), "renditions": [240]}
    chunks = [{"number": 0, "from": 0, "until": 8000}, {"number": 1, "from": 12000, "until": None}]
    code, result = stage.run(split="join", chunks=chunks, **payload)
    assert code != 0 and result["error"]["type"] == "S3ObjectNotFound"
    for chunk in chunks:
        code, result = stage.run(split="chunk", chunks=[chunk], **payload)
        assert code == 0, result
    code, result = stage.run(split="join", chunks=chunks, **payload)
    assert code == 65 and "seam" in result["error"]["message"]
    assert not (folder_of(stage) / "index.m3u8").exists()


def test_two_workers_share_a_video(program, database, sql, source, whole, tmp_path):
    one, expected = whole
    workers, jobs = Workers(program, database, tmp_path), Jobs(sql)
    stage = Stage(program("transcode-worker"), workers.store)
    key = stage.put_original(source)
    jobs.rows("INSERT INTO videos (id, s3_original_path) VALUES (%s, %s)", stage.video_id, key)
    pipeline = "SELECT steps FROM workflows WHERE name = 'video_pipeline' AND is_active"
    before = jobs.row(pipeline)
    jobs.rows("SELECT split_videos(0.2)")
    for _ in range(2):
        workers.start("transcode-worker", "--slots", "1", "--threads", "1",
                      CORTANA_SEGMENTS="ts", CORTANA_RENDITIONS=",".join(map(str, SIDES)))
    try:
        jobs.rows("SELECT start_run('video_pipeline', '{\"target_fps\": 4}', %s)", stage.video_id)
        of_step = "SELECT * FROM jobs WHERE video_id = %s AND step = %s"
        join = jobs.row(of_step, stage.video_id, "transcode")
        join = jobs.wait_for(join["id"], "done", "failed")
    finally:
        workers.end()
    jobs.rows("SELECT split_videos(NULL)")
    assert jobs.row(pipeline) == before
    rows = jobs.rows(
        "SELECT j.step, count(DISTINCT j.id) AS jobs, count(DISTINCT a.worker_id) AS workers"
        " FROM jobs j JOIN job_attempts a ON a.job_id = j.id"
        " WHERE j.video_id = %s AND j.status = 'done' GROUP BY 1 ORDER BY 1", stage.video_id)
    assert [tuple(row.values()) for row in rows] == [
        ("transcode", 1, 1), ("transcode_chunk", 3, 2), ("transcode_plan", 1, 1)]
    assert jobs.row(of_step, stage.video_id, "sample")["payload"]["target_fps"] == 4
    stage.check_output()
    for rendition in expected["renditions"]:
        wanted, found = (packets(folder_of(s) / f"{rendition['name']}.m3u8", "v:0")
                         for s in (one, stage))
        assert [p["pts_time"] for p in found] == [p["pts_time"] for p in wanted]
    assert join["result"]["frames"] == expected["frames"]
