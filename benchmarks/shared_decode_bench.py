#!/usr/bin/python3
"""What decoding once saves: shared_decode_bench.py BUILD VIDEO...

`transcode` and `sample` of each video at the same time, apart and with CORTANA_SHARED_DECODE, and `ffmpeg` writing ten pictures a
second, in turn: CPU seconds and the time after which `sample` has ended, medians over CORTANA_BENCH_ROUNDS (3). Fails where
the two ways do not leave the same objects.
"""
import concurrent.futures
import hashlib
import json
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile
import time
import uuid

BUILD, VIDEOS = pathlib.Path(sys.argv[1]).resolve(), [pathlib.Path(path).resolve() for path in sys.argv[2:]]
ROUNDS = int(os.environ.get("CORTANA_BENCH_ROUNDS", "3"))
VIDEO = str(uuid.uuid4())
WAIT_MS = "60000"


def run(command, text="", **variables):
    """CPU seconds of a command and those that it waited for, and how long it took."""
    began = time.monotonic()
    with subprocess.Popen([str(word) for word in command], stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, text=True,
                          env={**os.environ, "LOG_LEVEL": "error", **variables}) as process:
        process.stdin.write(text)
        process.stdin.close()
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
    if status != 0:
        sys.exit(f"{command[0]} failed")
    return usage.ru_utime + usage.ru_stime, time.monotonic() - began


def both(path, folder, shared):
    """(CPU of transcode, CPU of sample, seconds until sample has ended, digests of all objects)"""
    key = f"videos/original/{VIDEO}/master{path.suffix}"
    store = folder / "store"
    (store / key).parent.mkdir(parents=True)
    (store / key).write_bytes(path.read_bytes())
    payload = json.dumps({"video_id": VIDEO, "s3_original_path": key})
    variables = {"STORE_URL": f"dir:{store}", "CORTANA_SHARED_DECODE": str(folder / "meeting") if shared else ""}
    with concurrent.futures.ThreadPoolExecutor() as pool:
        transcode, sample = [
            pool.submit(run, [BUILD / f"workers/{stage}/{stage}-worker", "--once", "--threads", "2", "--companion-ms", WAIT_MS],
                        payload, **variables) for stage in ("transcode", "sample")]
    digests = {str(found.relative_to(store)): hashlib.sha256(found.read_bytes()).hexdigest()
               for found in store.rglob("*") if found.is_file()}
    return transcode.result()[0], *sample.result(), digests


def measure(path):
    found = {"apart": [], "shared": [], "ffmpeg": []}
    for _ in range(ROUNDS):
        with tempfile.TemporaryDirectory() as folder:
            folder = pathlib.Path(folder)
            for name in ("apart", "shared"):
                (folder / name).mkdir()
                found[name].append(both(path, folder / name, name == "shared"))
            if found["apart"][-1][3] != found["shared"][-1][3]:
                sys.exit(f"{path.name}: the objects differ")
            found["ffmpeg"].append(run(["ffmpeg", "-nostdin", "-v", "error", "-i", path, "-vf", "fps=10", "-q:v", "3",
                                        folder / "%d.jpg"])[0])
    peer = statistics.median(found["ffmpeg"])
    for name in ("apart", "shared"):
        transcode, sample, text_s = (statistics.median(values) for values in list(zip(*found[name]))[:3])
        print(f"{path.name}, {name}: transcode {transcode:.2f} s, sample {sample:.2f} s ({sample / peer:.2f} of ffmpeg's"
              f" {peer:.2f} s), sample has ended after {text_s:.1f} s", flush=True)


for video in VIDEOS:
    measure(video)
