#!/usr/bin/python3
"""CPU seconds of the sample stage against the ffmpeg command that writes ten frames a second as JPEG.

usage: sample_bench.py BUILD_DIR FIXTURES_DIR
Prints one JSON object a line. Both sides decode the whole clip; each figure is the median of three.
"""
import json
import os
import pathlib
import resource
import statistics
import subprocess
import sys
import tempfile

CLIPS = ["feed", "chat", "subtitles"]
RUNS = 3
VIDEO = "00000000-0000-4000-8000-000000000001"


def cpu_of(command, **options):
    """CPU seconds of one process and its children, waited for."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run([str(word) for word in command], check=True, stdout=subprocess.DEVNULL,
                   stderr=subprocess.DEVNULL, **options)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def ours(worker, clip):
    with tempfile.TemporaryDirectory(prefix="sample-bench-") as directory:
        store = pathlib.Path(directory) / "store"
        original = f"videos/original/{VIDEO}/master.mp4"
        (store / original).parent.mkdir(parents=True)
        (store / original).write_bytes(clip.read_bytes())
        payload = pathlib.Path(directory) / "payload.json"
        payload.write_text(json.dumps({"video_id": VIDEO, "s3_original_path": original}))
        with payload.open() as stdin:
            return cpu_of([worker, "--once"], stdin=stdin,
                          env={**os.environ, "STORE_URL": f"dir:{store}"})


def peer(clip):
    with tempfile.TemporaryDirectory(prefix="sample-bench-") as directory:
        return cpu_of(["ffmpeg", "-nostdin", "-v", "error", "-i", clip, "-vf", "fps=10", "-q:v", "3",
                       pathlib.Path(directory) / "%d.jpg"])


def main(build, fixtures):
    worker = pathlib.Path(build).resolve() / "workers" / "sample" / "sample-worker"
    for name in CLIPS:
        clip = pathlib.Path(fixtures).resolve() / f"{name}.mp4"
        pairs = [(ours(worker, clip), peer(clip)) for _ in range(RUNS)]
        mine = statistics.median(pair[0] for pair in pairs)
        theirs = statistics.median(pair[1] for pair in pairs)
        print(json.dumps({"suite": "text", "name": f"sample cpu {name}", "unit": "cpu-seconds",
                          "ours": round(mine, 3), "peer": round(theirs, 3),
                          "peer_name": "ffmpeg -vf fps=10 -q:v 3",
                          "ratio": round(mine / theirs, 3), "goal": 0.6, "better": "lower"}),
              flush=True)


if __name__ == "__main__":
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    main(sys.argv[1], sys.argv[2])
