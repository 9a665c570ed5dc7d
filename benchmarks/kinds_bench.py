#!/usr/bin/python3
"""What `sample` costs beside `ffmpeg` writing ten JPEGs a second, on ten ordinary kinds of video: kinds_bench.py BUILD FIXTURES

Both run one after the other, each as a process of its own; the ratio is the median of the rounds' ratios, the seconds are of CPU time
and for an hour of video. kinds_of_videos.py makes the videos in BUILD/kinds (minutes, the first time); the feed is that of the fixtures.

CORTANA_BENCH_KIND_ROUNDS=3     so many rounds
CORTANA_BENCH_KINDS=film,talk   these kinds alone
"""
import json
import os
import pathlib
import tempfile
import uuid

import cost_bench
import kinds_of_videos

ROUNDS = int(os.environ.get("CORTANA_BENCH_KIND_ROUNDS", "3"))
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


def one_round(source):
    with tempfile.TemporaryDirectory(prefix="cortana-kinds-bench-") as folder:
        folder = pathlib.Path(folder)
        return sample(source.path, folder), cost_bench.ten_pictures_a_second(source, folder)


def main():
    for kind in KINDS:
        source = cost_bench.Source(cost_bench.FIXTURES / "feed.mp4" if kind == "feed"
                                   else kinds_of_videos.make(kind, cost_bench.BUILD / "kinds"))
        rounds = sorted((one_round(source) for _ in range(ROUNDS)), key=lambda both: both[0] / both[1])
        ours, theirs = rounds[len(rounds) // 2]
        cost_bench.tell(f"sample, {kind}", "CPU s", ours / source.hours, theirs / source.hours, "ffmpeg fps=10", GOAL)


if __name__ == "__main__":
    main()
