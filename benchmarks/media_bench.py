#!/usr/bin/python3
"""Transcoding against ffmpeg, in CPU and wall time, and its memory: media_bench.py BUILD FIXTURES

The same set on each side: three HLS renditions with sound, a poster, and a sheet of small pictures;
the same encoder settings, key frames, segments and times. Peers: one ffmpeg command a product, as
people run it, and one command tuned by hand that decodes once.
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

BUILD, FIXTURES = (pathlib.Path(argument).resolve() for argument in sys.argv[1:3])
ROUNDS = 3
THREADS = "2"
LADDER = [(1080, 1920, 12000), (720, 1280, 6500), (480, 854, 2500)]  # size, kbit/s at most
INTERVAL = 1  # seconds between small pictures, as the worker chooses for clips this short
MEMORY_MAX = 700 * 1024  # KiB

VIDEO = ["-c:v", "libx264", "-preset", "veryfast", "-crf", "23", "-profile:v", "high", "-pix_fmt",
         "yuv420p", "-g", "600", "-bf", "0", "-sc_threshold", "0", "-forced-idr", "1", "-force_key_frames",
         "expr:gte(t,n_forced*2)", "-fps_mode", "passthrough", "-enc_time_base", "1:90000"]
SOUND = ["-c:a", "aac", "-b:a", "128k", "-ar", "48000", "-ac", "2"]
HLS = ["-f", "hls", "-hls_time", "4", "-hls_playlist_type", "vod"]
FFMPEG = ["ffmpeg", "-nostdin", "-v", "error", "-y", "-i"]


def run(command, text=b"", **options):
    """(CPU seconds, wall seconds, KiB at most) of one command."""
    began = time.monotonic()
    with subprocess.Popen([str(word) for word in command], stdin=subprocess.PIPE,
                          stdout=subprocess.DEVNULL, **options) as process:
        process.stdin.write(text)
        process.stdin.close()
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
    if status != 0:
        sys.exit(f"{process.args[0]} failed")
    return usage.ru_utime + usage.ru_stime, time.monotonic() - began, usage.ru_maxrss


def add(figures):
    """The sum of commands run one after the other."""
    return (sum(f[0] for f in figures), sum(f[1] for f in figures), max(f[2] for f in figures))


def rate(kbit):
    return ["-maxrate", f"{kbit}k", "-bufsize", f"{2 * kbit}k"]


def ours(source, folder, renditions):
    video = str(uuid.uuid4())
    key = f"videos/original/{video}/master.mp4"
    original = folder / key
    original.parent.mkdir(parents=True)
    original.write_bytes(source.read_bytes())
    payload = {"video_id": video, "s3_original_path": key, "renditions": renditions}
    return run([BUILD / "workers" / "transcode" / "transcode-worker", "--once", "--threads",
                THREADS], json.dumps(payload).encode(),
               env={**os.environ, "STORE_URL": f"dir:{folder}"})


def separate(source, folder):
    """One command a product."""
    folder.mkdir()
    figures = []
    for width, height, kbit in LADDER:
        figures.append(run([*FFMPEG, source, "-vf", f"scale={width}:{height}", *VIDEO, *rate(kbit),
                            "-threads", THREADS, *SOUND, *HLS, folder / f"{height}.m3u8"]))
    figures.append(run([*FFMPEG, source, "-vf", "thumbnail,scale=720:-2", "-frames:v", "1",
                        folder / "poster.jpg"]))
    figures.append(run([*FFMPEG, source, "-vf", f"fps=1/{INTERVAL},scale=108:192,tile=10x10",
                        "-frames:v", "1", folder / "sprite.jpg"]))
    return add(figures)


def tuned(source, folder):
    """One decoding, split; sound once; scaled from one size to the next."""
    folder.mkdir()
    graph = ("[0:v]split=2[a][top];[a]scale=720:1280,split=2[b][middle];"
             "[b]scale=480:854,split=3[low][p][s];[p]fps=1,thumbnail=12[poster];"
             f"[s]fps=1/{INTERVAL},scale=108:192,tile=10x10[sprite]")
    outputs = []
    for label, (_, height, kbit) in zip(("top", "middle", "low"), LADDER):
        outputs += ["-map", f"[{label}]", *VIDEO, *rate(kbit), "-threads", THREADS, *HLS,
                    folder / f"{height}.m3u8"]
    return run([*FFMPEG, source, "-filter_complex", graph, *outputs, "-map", "0:a?", *SOUND, *HLS,
                folder / "sound.m3u8", "-map", "[poster]", "-frames:v", "1", folder / "poster.jpg",
                "-map", "[sprite]", "-frames:v", "1", folder / "sprite.jpg"])


def tell(name, unit, mine, theirs, peer, goal):
    ratio = mine / theirs
    print(json.dumps({"suite": "media", "name": name, "unit": unit, "ours": round(mine, 3),
                      "peer": round(theirs, 3), "peer_name": peer, "ratio": round(ratio, 3),
                      "goal": goal, "better": "lower"}), flush=True)


def compare(name):
    figures = {"ours": [], "separate": [], "tuned": []}
    for _ in range(ROUNDS):  # interleaved, so that a slow minute of the machine hits all sides
        with tempfile.TemporaryDirectory(prefix="cortana-media-bench-") as folder:
            folder = pathlib.Path(folder)
            figures["ours"].append(ours(FIXTURES / name, folder / "store", [1080, 720, 480]))
            figures["separate"].append(separate(FIXTURES / name, folder / "separate"))
            figures["tuned"].append(tuned(FIXTURES / name, folder / "tuned"))
    for i, unit in enumerate(("cpu-seconds", "wall-seconds")):
        middle = {side: statistics.median(f[i] for f in all_of) for side, all_of in figures.items()}
        tell(f"ladder {name}", unit, middle["ours"], middle["separate"], "ffmpeg, 5 commands", 0.6)
        tell(f"ladder {name}", unit, middle["ours"], middle["tuned"], "ffmpeg, tuned", 1.0)


def memory(kind, arguments):
    """4K sources, the default ladder: the most memory, of the goal's."""
    with tempfile.TemporaryDirectory(prefix="cortana-media-bench-") as folder:
        folder = pathlib.Path(folder)
        source = folder / "4k.mp4"
        subprocess.run(["ffmpeg", "-nostdin", "-v", "error", "-f", "lavfi", "-i",
                        "testsrc2=s=3840x2160:r=30:d=2", *arguments, source], check=True)
        peak = ours(source, folder / "store", [1080, 720, 480, 360])[2]
        tell(f"memory 4K {kind}", "KiB", peak, MEMORY_MAX, "bound", 1.0)


def main():
    compare("feed.mp4")
    memory("H.264", ["-c:v", "libx264", "-preset", "ultrafast", "-bf", "3", "-refs", "4"])
    memory("HEVC 10 bit", ["-c:v", "libx265", "-preset", "ultrafast", "-x265-params",
                           "log-level=error", "-pix_fmt", "yuv420p10le"])


if __name__ == "__main__":
    main()
