"""Generated screen recordings of many kinds through the sample stage, against their truth.

CORTANA_RECORDING_SEEDS=N makes each of them from seeds 1 to N instead of from seed 1 alone."""

import json
import os
import subprocess
import uuid

import pytest
from media_tools import generator, make_recording
from recordings import complaints

SEEDS = range(1, int(os.environ.get("CORTANA_RECORDING_SEEDS", "1")) + 1)


class Sampling:
    """The stage by hand, over one store."""

    def __init__(self, program, store):
        self.program, self.store = program, store
        self.video = str(uuid.uuid4())

    def sample(self, clip, *options):
        key = f"videos/original/{self.video}/master.mp4"
        (self.store / key).parent.mkdir(parents=True, exist_ok=True)
        (self.store / key).write_bytes(clip.read_bytes())
        done = subprocess.run([self.program("sample-worker"), "--once", *options], check=False, text=True, capture_output=True,
                              input=json.dumps({"video_id": self.video, "s3_original_path": key}),
                              env={**os.environ, "STORE_URL": f"dir:{self.store}"})
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout)

    def objects(self):
        return {path.name: path.read_bytes() for path in self.store.glob("frames/*/*.jpg")}


@pytest.fixture
def stage(program, store_dir):
    return Sampling(program, store_dir)


def make(directory, name, seed):
    clip = make_recording(directory, name, seed)
    return clip, json.loads(clip.with_suffix(".truth.json").read_text())


@pytest.mark.sanitized(8)
@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("name", generator.SCENARIOS)
def test_nothing_is_lost_and_every_time_is_exact(stage, tmp_path, name, seed):
    clip, truth = make(tmp_path, name, seed)
    assert complaints(stage.sample(clip), truth) == []


@pytest.mark.sanitized(1)
@pytest.mark.parametrize("name", ["sticky_feed", "subtitles", "variable_rate"])
def test_results_depend_on_no_thread(stage, tmp_path, name):
    clip, _ = make(tmp_path, name, 1)
    first = stage.sample(clip, "--threads", "1")
    objects = stage.objects()
    for threads in ("2", "5"):
        assert stage.sample(clip, "--threads", threads) == first
        assert stage.objects() == objects


def test_the_same_seed_makes_the_same_file(tmp_path):
    one, other = (generator.make(tmp_path / place, "slides", 3) for place in ("a", "b"))
    assert one.read_bytes() == other.read_bytes()
