#!/usr/bin/python3
"""CPU seconds of finding and reading the text of a clip: ocr_bench.py BUILD FIXTURES

Ours: the sample and ocr stages by hand. The peer: ffmpeg to ten frames a second, and tesseract on
every one of them; as that takes minutes, on every fifth, and its time taken five times.
"""
import json
import os
import pathlib
import resource
import subprocess
import sys
import tempfile
import uuid

BUILD, FIXTURES = (pathlib.Path(word).resolve() for word in sys.argv[1:3])
CLIPS = ["feed", "chat", "subtitles"]
EVERY = 5
GOAL = 0.3


def cpu_seconds():
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def stage(name, store, payload):
    """The result of one stage, and the CPU seconds that it took."""
    before = cpu_seconds()
    done = subprocess.run([next(BUILD.rglob(name)), "--once"], input=json.dumps(payload), text=True,
                          env={**os.environ, "STORE_URL": f"dir:{store}"}, stdout=subprocess.PIPE,
                          check=True)
    return json.loads(done.stdout), cpu_seconds() - before


def ours(clip, store):
    video = str(uuid.uuid4())
    key = f"videos/original/{video}/master.mp4"
    (store / key).parent.mkdir(parents=True)
    (store / key).write_bytes(clip.read_bytes())
    sampled, sample_cpu = stage("sample-worker", store, {"video_id": video, "s3_original_path": key})
    payload = {"video_id": video, "frames": sampled["frames"],
               "frame_paths": [frame["path"] for frame in sampled["frames"]]}
    _, ocr_cpu = stage("ocr-worker", store, payload)
    return sample_cpu + ocr_cpu


def peer(clip, folder):
    before = cpu_seconds()
    subprocess.run(["ffmpeg", "-nostdin", "-v", "error", "-i", clip, "-vf", "fps=10",
                    folder / "%06d.png"], check=True)
    decode = cpu_seconds() - before
    frames = sorted(folder.glob("*.png"))
    read = frames[::EVERY]
    before = cpu_seconds()
    for frame in read:
        subprocess.run(["tesseract", frame, "stdout", "tsv"], stdout=subprocess.DEVNULL,
                       stderr=subprocess.DEVNULL, env={**os.environ, "OMP_THREAD_LIMIT": "1"},
                       check=True)
    return decode + (cpu_seconds() - before) * len(frames) / len(read)


def main():
    for name in CLIPS:
        clip = FIXTURES / f"{name}.mp4"
        with tempfile.TemporaryDirectory(prefix="cortana-ocr-") as folder:
            store, frames = pathlib.Path(folder) / "store", pathlib.Path(folder) / "frames"
            store.mkdir()
            frames.mkdir()
            own, other = ours(clip, store), peer(clip, frames)
        print(json.dumps({
            "suite": "text", "name": f"ocr cpu {name}", "unit": "cpu-seconds", "ours": round(own, 3),
            "peer": round(other, 3), "peer_name": f"ffmpeg fps=10 + tesseract, each {EVERY}th frame x{EVERY}",
            "ratio": round(own / other, 4), "goal": GOAL, "better": "lower"}), flush=True)


if __name__ == "__main__":
    main()
