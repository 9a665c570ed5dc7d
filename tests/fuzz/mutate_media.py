#!/usr/bin/python3
"""Runs whole stages on damaged media: seeded mutations of small good files through `transcode-worker
--once` and `sample-worker --once`. No stage may die by a signal, take longer than a few times what the
good file takes, or leave many times its bytes in scratch and store.

usage: mutate_media.py [--minutes N] [--seed N] [--build DIR] [--keep DIR]

Each finding is one line with the seed; --keep DIR keeps the file. Exit 1 if there is any.
"""
import argparse
import json
import os
import pathlib
import random
import shutil
import subprocess
import sys
import tempfile
import threading
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests/system"))
import damaged_media as damage  # noqa: E402

VIDEO = "0f0e0d0c-0000-4000-8000-000000000001"
PICTURES = "-f lavfi -i testsrc=s=160x120:r=25:d=4 -f lavfi -i sine=d=4 -pix_fmt yuv420p"
GOOD = {
    "mp4": "-c:v libx264 -g 25 -bf 2 -c:a aac", "mkv": "-c:v libx264 -bf 2 -c:a libopus",
    "frag.mp4": "-c:v libx264 -c:a aac -movflags frag_keyframe+empty_moov", "ts": "-c:v libx264 -bf 2 -c:a aac",
    "flv": "-c:v libx264 -c:a aac", "webm": "-c:v libvpx -deadline realtime -c:a libvorbis",
    "avi": "-c:v mpeg4 -c:a mp3", "hevc.mp4": "-c:v libx265 -preset ultrafast -x265-params log-level=none -c:a aac",
    "gif": "-an -r 10", "ogg": "-c:v libtheora -c:a libvorbis", "mpg": "-c:v mpeg2video -c:a mp2",
}
TIME_FACTOR, TIME_EXTRA_S = 6, 20  # a machine under load; damaged times once took hours
BYTES_FACTOR, BYTES_EXTRA = 20, 16 << 20
HEADER = 2048


def mutate(data, seed):
    chance = random.Random(seed)
    for _ in range(chance.randrange(1, 4)):
        kind, own = chance.randrange(5), chance.randrange(1 << 30)
        if kind == 0:
            data = damage.flip_bits(data, own, chance.choice((1, 4, 64)))
        elif kind == 1:
            data = damage.flip_bits(data, own, chance.choice((1, 3)), 0, min(HEADER, len(data)))
        elif kind == 2:
            data = damage.flip_bits(data, own, chance.choice((1, 3)), max(0, len(data) - HEADER))
        elif kind == 3:
            data = damage.swap_chunks(data, own, chance.choice((512, 4096)), 2)
        else:
            data = damage.cut_out(data, own, chance.choice((64, 4096)))
    return data


def size_of(folder):
    """Bytes of all files in it; they come and go meanwhile."""
    total = 0
    for place, _, names in os.walk(folder):
        for name in names:
            try:
                total += os.stat(os.path.join(place, name)).st_size
            except FileNotFoundError:
                pass
    return total


def run(program, data, extension, seconds_max):
    """(exit code or None when it was stopped, seconds, most bytes in scratch and store)"""
    with tempfile.TemporaryDirectory(prefix="mutate-") as name:
        folder = pathlib.Path(name)
        key = f"videos/original/{VIDEO}/master.{extension.split('.')[-1]}"
        (folder / "store" / key).parent.mkdir(parents=True)
        (folder / "store" / key).write_bytes(data)
        (folder / "scratch").mkdir()
        began, most = time.monotonic(), 0
        process = subprocess.Popen(
            [program, "--once", "--threads", "2"], stdin=subprocess.PIPE, stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            env={**os.environ, "STORE_URL": f"dir:{folder}/store", "CORTANA_SCRATCH": f"{folder}/scratch"})
        process.stdin.write(json.dumps({"video_id": VIDEO, "s3_original_path": key}).encode())
        process.stdin.close()
        timer = threading.Timer(seconds_max, process.kill)
        timer.start()
        while process.poll() is None:
            most = max(most, size_of(folder))
            time.sleep(0.1)
        stopped = not timer.is_alive()
        timer.cancel()
        return None if stopped else process.returncode, time.monotonic() - began, max(most, size_of(folder))


def findings(program, data, extension, usual):
    seconds_max = TIME_FACTOR * usual[1] + TIME_EXTRA_S
    code, seconds, most = run(program, data, extension, seconds_max)
    if code is None:
        yield f"took longer than {seconds_max:.0f} s"
    elif code < 0 or code not in (0, 65, 75):
        yield f"exit code {code}"
    elif code == 75:
        yield "would be tried again"
    if most > BYTES_FACTOR * usual[2] + BYTES_EXTRA:
        yield f"{most} bytes, {usual[2]} of the good file"
    if seconds > seconds_max:
        yield f"{seconds:.0f} s"


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--minutes", type=float, default=2)
    parser.add_argument("--seed", type=int, default=int(time.time()))
    parser.add_argument("--build", default=str(ROOT / "build"))
    parser.add_argument("--keep")
    options = parser.parse_args()
    programs = [f"{options.build}/workers/{name}/{name}-worker" for name in ("transcode", "sample")]
    folder = pathlib.Path(tempfile.mkdtemp(prefix="mutate-good-"))
    good, usual = {}, {}
    for extension, arguments in GOOD.items():
        path = folder / f"good.{extension}"
        subprocess.run(["ffmpeg", "-nostdin", "-v", "error", "-y", *PICTURES.split(), *arguments.split(), str(path)],
                       check=True)
        good[extension] = path.read_bytes()
        for program in programs:
            usual[program, extension] = run(program, good[extension], extension, 600)
            assert usual[program, extension][0] == 0, (program, extension, usual[program, extension])
    until, seed, found, runs = time.monotonic() + 60 * options.minutes, options.seed, 0, 0
    while time.monotonic() < until:
        extension = random.Random(seed).choice(sorted(good))
        data = mutate(good[extension], seed)
        for program in programs:
            runs += 1
            for finding in findings(program, data, extension, usual[program, extension]):
                found += 1
                print(f"seed {seed}: {extension}: {pathlib.Path(program).name}: {finding}", flush=True)
                if options.keep:
                    (pathlib.Path(options.keep) / f"{seed}.{extension}").write_bytes(data)
        seed += 1
    shutil.rmtree(folder)
    print(f"{runs} runs from seed {options.seed} on, {found} findings")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
