#!/usr/bin/python3
"""A clip of 30 s out of 2 hours at 1080p60 against the ffmpeg command for it, and the bytes that are read: clip_bench.py BUILD

CORTANA_BENCH_HOURS=2    length of the original, which takes 1.8 GB an hour below TMPDIR
"""
import json
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile
import time
import uuid

BUILD = pathlib.Path(sys.argv[1]).resolve()
HOURS = float(os.environ.get("CORTANA_BENCH_HOURS", "2"))
ROUNDS = 3
LOOP_SECONDS = 20
CLIP_SECONDS = 30
THREADS = "2"
WORKER = BUILD / "workers" / "clip_generate" / "clip-generate-worker"


def ffmpeg(*words):
    subprocess.run(["ffmpeg", "-nostdin", "-v", "error", "-y", *(str(word) for word in words)],
                   check=True)


def make_original(path, folder):
    """Twenty seconds at 4 Mbit/s, a key frame every 2 s, over and over; the index lies at the end."""
    loop = folder / "loop.mp4"
    ffmpeg("-f", "lavfi", "-i", f"testsrc2=s=1920x1080:r=60:d={LOOP_SECONDS},noise=alls=6:allf=t",
           "-f", "lavfi", "-i", f"sine=d={LOOP_SECONDS}:r=48000", "-c:v", "libx264", "-preset",
           "ultrafast", "-tune", "fastdecode", "-bf", 2, "-b:v", "4M", "-maxrate", "5M", "-bufsize",
           "4M", "-g", 120, "-c:a", "aac", "-b:a", "128k", loop)
    ffmpeg("-stream_loop", int(HOURS * 3600 / LOOP_SECONDS) - 1, "-i", loop, "-c", "copy", path)


def timed(command, **options):
    start = time.monotonic()
    done = subprocess.run([str(word) for word in command], check=True, stdout=subprocess.PIPE, text=True,
                          **options)
    return time.monotonic() - start, done.stdout


def ours(folder, video, start_ms):
    payload = json.dumps({"video_id": video, "clip_id": str(uuid.uuid4()), "t_start": start_ms,
                          "t_end": start_ms + CLIP_SECONDS * 1000, "padding_ms": 0,
                          "s3_original_path": f"videos/original/{video}/master.mp4"})
    seconds, text = timed([WORKER, "--once", "--threads", THREADS], input=payload,
                          env={**os.environ, "STORE_URL": f"dir:{folder}"})
    return seconds, json.loads(text)


def peer(folder, original, start_ms):
    seconds, _ = timed(["ffmpeg", "-nostdin", "-v", "error", "-y", "-ss", start_ms / 1000, "-i", original,
                        "-t", CLIP_SECONDS, "-c:v", "libx264", "-threads", THREADS,
                        folder / "peer.mp4"])
    return seconds


def report(name, unit, mine, theirs, peer_name, goal):
    print(json.dumps({"suite": "clips", "name": name, "unit": unit, "ours": round(mine, 3),
                      "peer": round(theirs, 3), "peer_name": peer_name,
                      "ratio": round(mine / theirs, 4), "goal": goal, "better": "lower"}), flush=True)


def main():
    with tempfile.TemporaryDirectory(prefix="cortana-clip-bench-") as name:
        folder = pathlib.Path(name)
        video = str(uuid.uuid4())
        original = folder / "store" / "videos" / "original" / video / "master.mp4"
        original.parent.mkdir(parents=True)
        make_original(original, folder)
        figures = {"ours": [], "peer": [], "bytes": []}
        for i in range(ROUNDS):  # interleaved, so that a slow minute of the machine hits both sides
            start_ms = int(HOURS * 3_600_000 * (i + 1) / (ROUNDS + 1)) + 1317
            seconds, result = ours(folder / "store", video, start_ms)
            assert result["mode"] == "smart", result
            figures["ours"].append(seconds)
            figures["bytes"].append(result["bytes_read"])
            figures["peer"].append(peer(folder, original, start_ms))
        size = original.stat().st_size
    report(f"{CLIP_SECONDS} s out of {HOURS:g} h, 1080p60", "seconds", statistics.median(figures["ours"]),
           statistics.median(figures["peer"]), "ffmpeg -c:v libx264", 0.15)
    report("bytes read for it", "megabytes", max(figures["bytes"]) / 1e6, size / 1e6, "the original",
           0.01)


if __name__ == "__main__":
    main()
