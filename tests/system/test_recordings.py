"""Generated screen recordings of many kinds through the sample stage, against their truth.

CORTANA_RECORDING_SEEDS=N makes each of them from seeds 1 to N instead of from seed 1 alone."""

import difflib
import json
import os
import subprocess
import uuid

import pytest
from media_tools import generator, make_recording
from recordings import complaints

SEEDS = range(1, int(os.environ.get("CORTANA_RECORDING_SEEDS", "1")) + 1)
ALIKE = 0.9  # of a line's letters


class Stages:
    """The stages by hand, over one store."""

    def __init__(self, program, store):
        self.program, self.store = program, store
        self.video = str(uuid.uuid4())

    def run(self, stage, payload, *options):
        done = subprocess.run([self.program(f"{stage}-worker"), "--once", *options], check=False,
                              input=json.dumps({"video_id": self.video, **payload}), text=True,
                              env={**os.environ, "STORE_URL": f"dir:{self.store}"},
                              capture_output=True)
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout)

    def sample(self, clip, *options, **payload):
        key = f"videos/original/{self.video}/master.mp4"
        (self.store / key).parent.mkdir(parents=True, exist_ok=True)
        (self.store / key).write_bytes(clip.read_bytes())
        return self.run("sample", {"s3_original_path": key, **payload}, *options)

    def ocr(self, sampled):
        paths = [frame["path"] for frame in sampled["frames"]]
        return self.run("ocr", {"frame_paths": paths, "frames": sampled["frames"]})

    def objects(self):
        return {path.name: path.read_bytes() for path in self.store.glob("frames/*/*.jpg")}


@pytest.fixture
def stages(program, store_dir):
    return Stages(program, store_dir)


def make(directory, name, seed):
    clip = make_recording(directory, name, seed)
    return clip, json.loads(clip.with_suffix(".truth.json").read_text())


@pytest.mark.sanitized(8)
@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("name", generator.SCENARIOS)
def test_nothing_is_lost_and_every_time_is_exact(stages, tmp_path, name, seed):
    clip, truth = make(tmp_path, name, seed)
    assert complaints(stages.sample(clip), truth) == []


@pytest.mark.sanitized(1)
@pytest.mark.parametrize("name", ["sticky_feed", "subtitles", "variable_rate"])
def test_results_depend_on_no_thread(stages, tmp_path, name):
    clip, _ = make(tmp_path, name, 1)
    first = stages.sample(clip, "--threads", "1")
    objects = stages.objects()
    for threads in ("2", "5"):
        assert stages.sample(clip, "--threads", threads) == first
        assert stages.objects() == objects


def test_the_same_seed_makes_the_same_file(tmp_path):
    one, other = (generator.make(tmp_path / place, "slides", 3) for place in ("a", "b"))
    assert one.read_bytes() == other.read_bytes()


def test_every_box_lies_in_the_picture(stages, tmp_path):
    """A line that is known although its topmost pixels have left: the commit refuses other boxes."""
    clip, _ = make(tmp_path, "nested_scroll", 3)
    for row in stages.ocr(stages.sample(clip))["detections"]:
        for box in (row["bounding_box"], row.get("end_box", row["bounding_box"])):
            assert 0 <= box["x"] <= box["x"] + box["width"] <= generator.PORTRAIT[0], row
            assert 0 <= box["y"] <= box["y"] + box["height"] <= generator.PORTRAIT[1], row


def places_of(row):
    """The points of a row's track: [t, x, y] each."""
    points, at = [], [0, 0, 0]
    for i in range(0, len(row["track"]), 3):
        at = [one + more for one, more in zip(at, row["track"][i:i + 3])]
        points.append(at)
    return points


def place_at(points, time):
    after = next((i for i, point in enumerate(points) if point[0] >= time), None)
    if after in (None, 0):
        return points[-1 if after is None else 0][1:]
    (start, *here), (end, *there) = points[after - 1:after + 1]
    return [one + (other - one) * (time - start) / (end - start) for one, other in zip(here, there)]


@pytest.mark.sanitized(1)
@pytest.mark.parametrize("name", ["sticky_feed", "bounce"])
def test_boxes_follow_what_scrolls(stages, tmp_path, name):
    """At every drawn frame a line's box is where the content was, counted from where it is at most of them."""
    clip, truth = make(tmp_path, name, 1)
    off = []
    for row in stages.ocr(stages.sample(clip))["detections"]:
        assert ("track" in row) or "end_box" not in row, row
        if "track" not in row:
            continue
        points = places_of(row)
        assert len(points) <= 64 and row["t_start"] <= points[0][0] and points[-1][0] < row["t_end"], row
        there = [[one - other for one, other in zip(place_at(points, time), place)]
                 for time, *place in truth["scroll"] if row["t_start"] <= time < row["t_end"]]
        middle = [sorted(values)[len(values) // 2] for values in zip(*there)]
        off += [max(abs(one - other) for one, other in zip(place, middle)) for place in there]
    assert len(off) >= 200
    assert sorted(off)[int(0.95 * len(off))] <= 2


@pytest.mark.sanitized(1)
@pytest.mark.parametrize("name", ["chat", "variable_rate", "long_pause"])
def test_what_was_written_is_read(stages, tmp_path, name):
    clip, truth = make(tmp_path, name, 1)
    read = stages.ocr(stages.sample(clip))["detections"]
    wanted = [line for line in truth["lines"] if line["t_end_ms"] - line["t_start_ms"] >= 500]

    def is_read(line):
        near = (segment["text"] for segment in read if segment["t_start"] <= line["t_end_ms"] and
                segment["t_end"] >= line["t_start_ms"])
        return any(difflib.SequenceMatcher(None, line["text"].lower(), text.lower(),
                                           autojunk=False).ratio() >= ALIKE or
                   line["text"].lower() in text.lower() for text in near)

    missed = [line["text"] for line in wanted if not is_read(line)]
    assert len(missed) <= len(wanted) // 10, missed
