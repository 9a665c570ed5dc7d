"""Decoding on a device (CORTANA_HARDWARE_DECODE), without one: a preloaded VA-API driver (tests/programs/video_device.c) takes
the GPU's place. All of FFmpeg's and our side of it runs, within the sandbox; NVDEC's does not."""

import hashlib
import json
import os
import subprocess
import uuid

import pytest
from media_tools import make_clip

DECODES = "vaapi:/dev/null decodes the pictures"
CPU = "the CPU decodes, not "
PLAIN = "-f lavfi -i testsrc2=s=482x270:r=25:d=2 -f lavfi -i sine=d=2 -c:v libx264 -g 50 -bf 3 -c:a aac"
# Each would be wrong in another way if pictures were taken over wrongly.
CLIPS = {
    "reordered": f"{PLAIN} -pix_fmt yuv420p",
    "full range": f"{PLAIN} -pix_fmt yuvj420p -color_range pc",
    "cropped": f"{PLAIN} -pix_fmt yuv420p -bsf:v h264_metadata=crop_left=10:crop_top=6:crop_right=4:crop_bottom=2",
    "in MPEG-TS": f"{PLAIN} -pix_fmt yuv420p -f mpegts",
}
WORKERS = ["sample-worker", "transcode-worker"]


class Stage:
    """A stage by hand on one original; what it stored, and its log."""

    def __init__(self, program, folder):
        self.program, self.folder = program, folder
        self.video = str(uuid.uuid4())
        self.key = f"videos/original/{self.video}/master.mp4"
        self.store = folder / "store"

    def make(self, options):
        (self.folder / "clips").mkdir()
        self.clip = make_clip(self.folder / "clips/clip.mp4", options)
        (self.store / self.key).parent.mkdir(parents=True)
        (self.store / self.key).write_bytes(self.clip.read_bytes())
        return self

    def device(self):
        library = self.program("attack.so").with_name("test_drv_video.so")
        if not library.exists():
            pytest.skip("no libva-dev when the tests were built")
        if b"__asan_init" in self.program("sample-worker").read_bytes():
            pytest.skip("a sanitizer's runtime has to be loaded before the driver")
        return {"CORTANA_HARDWARE_DECODE": "vaapi:/dev/null", "LD_PRELOAD": str(library), "CORTANA_TEST_VIDEO": str(self.clip),
                "CORTANA_READ_PATHS": f"{self.clip.parent}:{library.parent}"}

    def run(self, name, threads=2, **environment):
        """(exit code, result or error, objects by their place, messages of the log)"""
        payload = {"video_id": self.video, "s3_original_path": self.key}
        if name == "transcode-worker":
            payload["copy"] = False
        done = subprocess.run([self.program(name), "--once", "--threads", str(threads)], input=json.dumps(payload), text=True,
                              capture_output=True, check=False, timeout=300,
                              env={**os.environ, "STORE_URL": f"dir:{self.store}", **environment})
        objects = {str(path.relative_to(self.store)): hashlib.sha256(path.read_bytes()).hexdigest()
                   for path in self.store.rglob("*") if path.is_file() and "original" not in path.parts}
        for path in objects:
            (self.store / path).unlink()
        log = [json.loads(line)["message"] for line in done.stderr.splitlines()]
        return done.returncode, json.loads(done.stdout), objects, log


@pytest.fixture
def stage(program, tmp_path):
    return Stage(program, tmp_path)


def of_device(log):
    return [line for line in log if DECODES in line or CPU in line]


@pytest.mark.parametrize("name", WORKERS)
@pytest.mark.parametrize("clip", CLIPS)
def test_pictures_of_a_device_make_the_same_objects(stage, name, clip):
    stage.make(CLIPS[clip])
    code, result, objects, log = stage.run(name)
    assert (code, of_device(log)) == (0, []) and objects
    assert stage.run(name, **stage.device()) == (0, result, objects, [*log, DECODES])


@pytest.mark.parametrize("name", WORKERS)
@pytest.mark.parametrize("device, reason", [
    ("vaapi:/dev/dri/renderD255", "cannot open /dev/dri/renderD255: No such file or directory"),
    ("vaapi:/dev/null", "FFmpeg cannot use the device"),
    ("cuda:15", "FFmpeg cannot use the device"),
])
def test_without_the_device_the_cpu_decodes(stage, name, device, reason):
    stage.make(CLIPS["reordered"])
    _, result, objects, _ = stage.run(name)
    code, *found, log = stage.run(name, CORTANA_HARDWARE_DECODE=device)
    assert (code, found) == (0, [result, objects])
    line, = of_device(log)
    assert line.startswith(f"{CPU}{device}: {reason}")


@pytest.mark.parametrize("clip, environment, reason", [
    (CLIPS["reordered"], {"CORTANA_TEST_REFUSES": "1"}, "the device does not decode h264 (profile High, 482×270 pixels)"),
    (CLIPS["reordered"], {"CORTANA_TEST_FAILS_AT": "0"}, "a picture cannot be decoded: Input/output error"),
    # Before the first picture comes out of the decoder: the packets so far are decoded again.
    (CLIPS["reordered"], {"CORTANA_TEST_FAILS_AT": "1"}, "a picture cannot be decoded: Input/output error"),
    (f"{PLAIN} -pix_fmt yuv422p", {}, "its pictures would not be exact for a video in yuv422p"),
    (f"{PLAIN} -pix_fmt yuv420p -c:v mpeg4", {}, "its pictures would not be exact for mpeg4"),
])
@pytest.mark.parametrize("name", WORKERS)
def test_a_device_that_refuses_is_replaced_before_the_first_picture(stage, name, clip, environment, reason):
    stage.make(clip)
    _, result, objects, _ = stage.run(name)
    code, *found, log = stage.run(name, **stage.device(), **environment)
    assert (code, found) == (0, [result, objects])
    line, = of_device(log)
    assert line.startswith(f"{CPU}vaapi:/dev/null: {reason}")


@pytest.mark.parametrize("name", WORKERS)
def test_a_device_that_fails_later_is_not_used_by_the_next_attempt(stage, name):
    stage.make(CLIPS["reordered"])
    _, result, objects, _ = stage.run(name)
    failing = {**stage.device(), "CORTANA_TEST_FAILS_AT": "30"}
    code, error, left, _ = stage.run(name, **failing)
    assert (code, error["error"]["retryable"], left) == (75, True, {})
    assert "vaapi:/dev/null is not used any more after " in error["error"]["message"]
    code, *found, log = stage.run(name, **failing, CORTANA_JOB_ATTEMPT="2")
    assert (code, found) == (0, [result, objects])
    assert of_device(log) == [f"{CPU}vaapi:/dev/null: only the first attempt at a job uses it"]


def test_a_damaged_video_ends_as_without_a_device(stage):
    """Damage costs the first attempt. One thread: FFmpeg's threads hide the same damage in different ways at every run."""
    stage.make(CLIPS["in MPEG-TS"])
    data = bytearray((stage.store / stage.key).read_bytes())
    data[len(data) // 2:len(data) // 2 + 20000] = bytes(20000)
    (stage.store / stage.key).write_bytes(data)
    _, result, objects, _ = stage.run("sample-worker", threads=1)
    code, error, *_ = stage.run("sample-worker", threads=1, **stage.device())
    assert (code, error["error"]["retryable"]) == (75, True)
    assert "a packet is damaged, and devices do not report that" in error["error"]["message"]
    code, *found, _ = stage.run("sample-worker", threads=1, **stage.device(), CORTANA_JOB_ATTEMPT="2")
    assert (code, found) == (0, [result, objects])
    assert result["damaged_frames"] > 0


@pytest.mark.parametrize("name", WORKERS)
def test_an_unknown_device_is_refused_at_start(program, workers, name):
    worker = workers.start(name, CORTANA_HARDWARE_DECODE="nvenc")
    assert worker.wait() == 78
    assert worker.says('CORTANA_HARDWARE_DECODE is "nvenc"; it can be off, vaapi, vaapi:/dev/dri/NODE, cuda, or cuda:NUMBER')


def test_the_doctor_says_whether_the_device_can_be_opened(program):
    def line(value):
        done = subprocess.run([program("cortana"), "doctor"], env={**os.environ, "CORTANA_HARDWARE_DECODE": value}, text=True,
                              capture_output=True, check=False)
        return [line for line in done.stdout.splitlines() if line.split()[1] == "device"]

    assert line("off") == []
    assert line("vaapi:/dev/dri/renderD255") == [
        "warn  device       the CPU decodes, not vaapi:/dev/dri/renderD255: cannot open /dev/dri/renderD255: "
        "No such file or directory"]
    assert line("nvenc")[0].startswith("fail  device       CORTANA_HARDWARE_DECODE is")
