#!/usr/bin/python3
"""What `sample` costs beside `ffmpeg` writing ten JPEGs a second, on ten ordinary kinds of video: kinds_bench.py BUILD FIXTURES

Both run one after the other, each as a process of its own, and so does decoding alone, with and without the pictures that no other
picture refers to; the ratio is the median of the rounds' ratios, the seconds are of CPU time and for an hour of video. kinds_of_videos.py
makes the videos in BUILD/kinds (minutes, the first time), which are repeated without encoding; the feed is that of the fixtures.

CORTANA_BENCH_KIND_ROUNDS=3     so many rounds
CORTANA_BENCH_KIND_SECONDS=20   a video is repeated until it lasts so long: what an hour costs, not what a start does
CORTANA_BENCH_KINDS=film,talk   these kinds alone
"""
import json
import math
import os
import pathlib
import tempfile
import uuid

import cost_bench
import fleet_bench
import kinds_of_videos

ROUNDS = int(os.environ.get("CORTANA_BENCH_KIND_ROUNDS", "3"))
SECONDS = float(os.environ.get("CORTANA_BENCH_KIND_SECONDS", "20"))
KINDS = os.environ.get("CORTANA_BENCH_KINDS", ",".join([*kinds_of_videos.KINDS, "feed"])).split(",")
GOAL = 0.6


def sample(path, folder):
    """CPU seconds of the stage, with the process that reads and writes the store for it."""
    video = str(uuid.uuid4())
    key = f"videos/original/{video}/master.mp4"
    (folder / key).parent.mkdir(parents=True)
    (folder / key).write_bytes(path.read_bytes())
    return cost_bench.seconds(cost_bench.used_by(
        [cost_bench.BUILD / "workers" / "sample" / "sample-worker", "--once", "--threads", cost_bench.THREADS],
        json.dumps({"video_id": video, "s3_original_path": key}), env={**os.environ, "STORE_URL": f"dir:{folder}"}))


def decode(source, *options):
    return cost_bench.ffmpeg("-threads", cost_bench.THREADS, *options, "-i", source.path, "-map", "0:v:0", "-f", "null", "-")


def one_round(source, folder):
    with tempfile.TemporaryDirectory(dir=folder) as inside:
        inside = pathlib.Path(inside)
        theirs = cost_bench.ten_pictures_a_second(source, inside)
        return {"sample": (sample(source.path, inside), theirs), "decoding alone": (decode(source), theirs),
                "decoding what is referred to": (decode(source, "-skip_frame", "noref"), theirs)}


def measure(kind, folder):
    made = (cost_bench.FIXTURES / "feed.mp4" if kind == "feed" else kinds_of_videos.make(kind, cost_bench.BUILD / "kinds"))
    source = cost_bench.Source(made)
    source = fleet_bench.repeat(source, math.ceil(SECONDS / source.hours / 3600), folder)
    rounds = [one_round(source, folder) for _ in range(ROUNDS)]
    for what in rounds[0]:
        both = sorted((one[what] for one in rounds), key=lambda pair: pair[0] / pair[1])
        ours, theirs = both[len(both) // 2]
        cost_bench.tell(f"{what}, {kind}", "CPU s", ours / source.hours, theirs / source.hours, "ffmpeg fps=10",
                        GOAL if what == "sample" else None)


def main():
    with tempfile.TemporaryDirectory(prefix="cortana-kinds-bench-") as folder:
        for kind in KINDS:
            measure(kind, pathlib.Path(folder))


if __name__ == "__main__":
    main()
