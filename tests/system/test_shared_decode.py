"""`transcode` decodes an original and `sample` reads its pictures: each leaves what it leaves alone, whatever becomes of the
other one."""

import hashlib
import json
import os
import signal
import struct
import subprocess
import uuid

import pytest
from media_tools import make_clip
from pipeline import Pipeline
from workers import stages_of, wait_until

MET = "stage of this video is here, too"
ALONE_NOW = "pictures are decoded here from now on"
NOT_SHARED = "decoding is not shared"
# Scenes with lines, that change every second; not what browsers play, so that all of it is encoded.
CLIP = ("-f lavfi -i testsrc2=s=480x270:r=25:d={seconds} -f lavfi -i sine=d={seconds} -c:v libx264 -pix_fmt yuv422p -g 50"
        " -c:a aac")


class Place:
    """A store with one original, the directory in which stages meet, and the stages' processes."""

    def __init__(self, program, store, meeting_place):
        self.program, self.store, self.meeting_place = program, store, meeting_place
        self.video = str(uuid.uuid4())
        self.processes = []

    def put(self, source):
        key = f"videos/original/{self.video}/master{source.suffix}"
        (self.store / key).parent.mkdir(parents=True, exist_ok=True)
        (self.store / key).write_bytes(source.read_bytes())
        return key

    def start(self, name, key, waits=True, **payload):
        """The stage of a worker, as its supervisor would start it; its log goes to a file."""
        log = self.meeting_place.with_name(f"{name}-{len(self.processes)}.log")
        command = [self.program(name), "--once", "--threads", "2"]
        command += ["--companion-ms", "60000"] if waits else []
        payload = {"video_id": self.video, "s3_original_path": key, **payload}
        process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=open(log, "wb"),
                                   env={**os.environ, "STORE_URL": f"dir:{self.store}",
                                        "CORTANA_SHARED_DECODE": str(self.meeting_place)})
        process.stdin.write(json.dumps(payload).encode())
        process.stdin.close()
        process.log = log
        self.processes.append(process)
        return process

    def result(self, process):
        output = process.stdout.read()
        assert process.wait() == 0, process.log.read_text()
        return json.loads(output)

    def objects(self, folder):
        """What lies below a folder of the store: key to digest."""
        return {str(path.relative_to(self.store)): hashlib.sha256(path.read_bytes()).hexdigest()
                for path in (self.store / folder / self.video).rglob("*") if path.is_file()}

    def alone(self, name, key):
        result = self.result(self.start(name, key, waits=False))
        folders = ["frames"] if name == "sample-worker" else ["videos/proxy", "videos/thumbs"]
        found = {}
        for folder in folders:
            found.update(self.objects(folder))
            subprocess.run(["rm", "-rf", self.store / folder / self.video], check=True)
        return result, found

    def has_kept(self, count):
        return len(list((self.store / "frames" / self.video).glob("*.jpg"))) >= count

    def kill_stage(self, process):
        """Its stage process, which is a child of the one that serves it."""
        children = subprocess.run(["pgrep", "-P", str(process.pid)], capture_output=True, text=True, check=True)
        os.kill(int(children.stdout.split()[0]), signal.SIGKILL)

    def end(self):
        for process in self.processes:
            process.kill()
            process.wait()


@pytest.fixture
def place(program, store_dir, tmp_path):
    found = Place(program, store_dir, tmp_path / "meeting")
    yield found
    found.end()


@pytest.fixture(scope="module")
def clip(tmp_path_factory):
    return make_clip(tmp_path_factory.mktemp("clips") / "encoded.mkv", CLIP.format(seconds=6))


@pytest.mark.parametrize("name", ["encoded", "chat"])
def test_results_are_those_of_each_alone(place, clip, fixtures_dir, name):
    key = place.put(clip if name == "encoded" else fixtures_dir / "chat.mp4")
    expected = {worker: place.alone(worker, key) for worker in ("sample-worker", "transcode-worker")}
    sample, transcode = place.start("sample-worker", key), place.start("transcode-worker", key)
    results = place.result(sample), place.result(transcode)
    assert (results[0], place.objects("frames")) == expected["sample-worker"]
    assert (results[1], {**place.objects("videos/proxy"), **place.objects("videos/thumbs")}) == expected["transcode-worker"]
    for process in (sample, transcode):
        assert MET in process.log.read_text()
        assert ALONE_NOW not in process.log.read_text()
    assert list(place.meeting_place.iterdir()) == [], "nothing is left where they met"


def test_a_killed_sender_is_done_without(place, clip):
    key = place.put(clip)
    expected = place.alone("sample-worker", key)
    sample, transcode = place.start("sample-worker", key), place.start("transcode-worker", key)
    wait_until(lambda: place.has_kept(3), "three kept frames")
    place.kill_stage(transcode)
    assert (place.result(sample), place.objects("frames")) == expected
    assert MET in sample.log.read_text()


def test_a_killed_receiver_is_done_without(place, clip):
    key = place.put(clip)
    expected = place.alone("transcode-worker", key)
    sample, transcode = place.start("sample-worker", key), place.start("transcode-worker", key)
    wait_until(lambda: place.has_kept(3), "three kept frames")
    place.kill_stage(sample)
    result = place.result(transcode)
    assert (result, {**place.objects("videos/proxy"), **place.objects("videos/thumbs")}) == expected
    assert MET in transcode.log.read_text()


def picture(pts_us=0, **changes):
    """A message of common/media/picture_ring.c: a picture of 480x270, 4:2:2."""
    fields = {"magic": 0x43565031, "kind": 1, "offset": 0, "pts_us": pts_us, "duration_us": 40000, "format": 4, "width": 480,
              "height": 270, "range": 0, "primaries": 2, "transfer": 2, "space": 2, "location": 0, "key": 1, "reserved": 0}
    return struct.pack("<IIQqqiiiiiiiiii", *{**fields, **changes}.values()).hex()


LIES = {
    "no message": {"messages": ["00"]},
    "samples behind the memory": {"messages": [picture(offset=(64 << 20) - 1)]},
    "a size that is too large": {"messages": [picture(width=1 << 30)]},
    "a format that is none": {"messages": [picture(format=-1)]},
    "the same as nothing": {"messages": [picture(kind=2)]},
    "a time that nothing can follow": {"messages": [picture(pts_us=1 << 60)]},
    "an end before anything": {"messages": [picture(kind=3)]},
    "silence": {"messages": [], "then": "hang"},
}


@pytest.mark.parametrize("lie", LIES.values(), ids=LIES)
def test_a_sender_that_lies_is_not_believed(place, clip, lie):
    key = place.put(clip)
    expected = place.alone("sample-worker", key)
    sample, liar = place.start("sample-worker", key), place.start("test-stage", key, do="tell", **lie)
    assert (place.result(sample), place.objects("frames")) == expected
    assert MET in sample.log.read_text() and ALONE_NOW in sample.log.read_text()
    if "then" not in lie:
        place.result(liar)


def test_a_directory_that_others_may_enter_is_no_place_to_meet(place, clip):
    key = place.put(clip)
    expected = place.alone("sample-worker", key)
    owners = [(0o777, os.geteuid())]
    owners += [(0o700, 65534)] if os.geteuid() == 0 else []
    for mode, owner in owners:
        place.meeting_place.mkdir(exist_ok=True)
        os.chown(place.meeting_place, owner, -1)
        place.meeting_place.chmod(mode)
        sample = place.start("sample-worker", key)
        assert (place.result(sample), place.objects("frames")) == expected
        assert "does not belong to this user alone" in sample.log.read_text()


def test_stages_of_other_originals_do_not_share(place, clip):
    key = place.put(clip)
    other = key.replace("master", "other")
    (place.store / other).write_bytes(b"no video")
    expected = place.alone("sample-worker", key)
    sample, liar = place.start("sample-worker", key), place.start("test-stage", other, do="tell", messages=[])
    assert (place.result(sample), place.objects("frames")) == expected
    assert NOT_SHARED in sample.log.read_text()
    place.result(liar)


# ---- through supervisors -----------------------------------------------------------------------------


@pytest.fixture
def pipeline(program, database, sql, store_dir, tmp_path):
    running = Pipeline(program, database, sql, store_dir, tmp_path, CORTANA_SHARED_DECODE=str(tmp_path / "meeting"))
    yield running
    running.stop()


def statuses(pipeline, video):
    return dict(pipeline.query("SELECT job_type, min(status::text) FROM jobs WHERE video_id = %s"
                               " AND job_type IN ('sample', 'transcode') GROUP BY 1", video))


def has_ended(pipeline, video):
    return pipeline.query("SELECT count(*) FROM jobs WHERE video_id = %s AND job_type IN ('sample', 'transcode')"
                          " AND status <> 'done'", video) == [(0,)]


def left(pipeline, video):
    """What both stages leave of a video, but for the names of its parts' jobs."""
    return (pipeline.query("SELECT t_ms, t_start, t_end, key FROM kept_frames WHERE video_id = %s ORDER BY t_ms", video),
            pipeline.query("SELECT resolution, fps, duration, s3_proxy_path, s3_thumb_path FROM videos WHERE id = %s", video),
            pipeline.objects())


def count_met(pipeline, worker):
    return (pipeline.folder / f"{worker}.log").read_text().count(MET)


def test_every_part_of_a_long_video_is_shared(pipeline, tmp_path):
    source = make_clip(tmp_path / "long.mp4", "-f lavfi -i testsrc2=s=320x180:r=10:d=48 -c:v libx264 -g 20 -sc_threshold 0")
    shared = pipeline.environment.pop("CORTANA_SHARED_DECODE")
    pipeline.start("sample", "transcode")
    video = pipeline.submit(source, part_seconds=20)
    wait_until(lambda: has_ended(pipeline, video), "both stages", 300)
    expected = left(pipeline, video)
    assert count_met(pipeline, "sample") == 0
    pipeline.stop()

    pipeline.environment["CORTANA_SHARED_DECODE"] = shared
    pipeline.query("DELETE FROM kept_frames")
    pipeline.query("UPDATE jobs SET status = 'canceled' WHERE status = 'queued'")
    pipeline.query("SELECT start_run('video_pipeline', '{\"part_seconds\": 20}', %s)", video)
    pipeline.start("sample", "transcode")
    wait_until(lambda: has_ended(pipeline, video), "both stages again", 300)
    parts, = pipeline.query("SELECT count(*) FROM jobs WHERE job_type = 'sample' AND run_id ="
                            " (SELECT id FROM runs ORDER BY created_at DESC LIMIT 1)")[0]
    assert left(pipeline, video) == expected
    assert count_met(pipeline, "sample") == parts > 3
    assert count_met(pipeline, "transcode") == 1
    assert ALONE_NOW not in (pipeline.folder / "sample.log").read_text()


def test_both_can_be_canceled_and_the_next_video_is_shared(pipeline, tmp_path, clip):
    source = make_clip(tmp_path / "long.mkv", CLIP.format(seconds=120))
    pipeline.start("sample", "transcode")
    video = pipeline.submit(source)
    wait_until(lambda: count_met(pipeline, "sample") and count_met(pipeline, "transcode"), "both to meet")
    pipeline.query("SELECT cancel_job(id) FROM jobs WHERE video_id = %s", video)
    wait_until(lambda: set(statuses(pipeline, video).values()) == {"canceled"}, "both to be canceled")
    video = pipeline.submit(clip)
    wait_until(lambda: has_ended(pipeline, video), "both stages of the next video", 300)
    assert count_met(pipeline, "sample") == count_met(pipeline, "transcode") == 2


def test_a_stage_whose_companion_is_killed_keeps_its_own_job(pipeline, clip):
    pipeline.query("UPDATE job_types SET retry_delays = array_fill(interval '50 ms', ARRAY[9])")
    pipeline.start("sample", "transcode")
    video = pipeline.submit(clip)
    wait_until(lambda: count_met(pipeline, "sample") and count_met(pipeline, "transcode"), "both to meet")
    for pid in stages_of(pipeline.workers["transcode"].pid):
        os.kill(pid, signal.SIGKILL)
    wait_until(lambda: has_ended(pipeline, video), "both stages", 300)
    attempts = dict(pipeline.query("SELECT job_type, attempt FROM jobs WHERE job_type IN ('sample', 'transcode')"))
    assert attempts == {"sample": 1, "transcode": 2}


def test_a_stage_without_a_companion_does_not_wait(pipeline, clip):
    pipeline.start("sample")
    video = pipeline.submit(clip, workflow="video_text")
    wait_until(lambda: has_ended(pipeline, video), "the stage")
    assert NOT_SHARED not in (pipeline.folder / "sample.log").read_text()
