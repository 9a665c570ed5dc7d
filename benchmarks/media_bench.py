#!/usr/bin/python3
"""CPU seconds of transcoding against the ffmpeg command that does the same work: media_bench.py BUILD FIXTURES"""
import json
import os
import pathlib
import resource
import statistics
import subprocess
import sys
import tempfile
import uuid

BUILD, FIXTURES = (pathlib.Path(argument).resolve() for argument in sys.argv[1:3])
ROUNDS = 3
THREADS = "2"

# The same encoder settings, key frames, segments, times and sound as workers/transcode makes.
FFMPEG = ["-c:v", "libx264", "-preset", "veryfast", "-crf", "23", "-profile:v", "high", "-pix_fmt",
          "yuv420p", "-g", "600", "-sc_threshold", "0", "-forced-idr", "1", "-force_key_frames",
          "expr:gte(t,n_forced*2)", "-fps_mode", "passthrough", "-enc_time_base", "1:90000",
          "-threads", THREADS, "-c:a", "aac", "-b:a", "128k", "-ar", "48000", "-ac", "2", "-f",
          "hls", "-hls_time", "4", "-hls_playlist_type", "vod"]


def cpu_seconds(command, **options):
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run([str(word) for word in command], check=True, stdout=subprocess.DEVNULL, **options)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def ours(source, folder):
    video = str(uuid.uuid4())
    key = f"videos/original/{video}/master.mp4"
    original = folder / key
    original.parent.mkdir(parents=True)
    original.write_bytes(source.read_bytes())
    payload = json.dumps({"video_id": video, "s3_original_path": key})
    return cpu_seconds([BUILD / "workers" / "transcode" / "transcode-worker", "--once", "--threads",
                        THREADS], input=payload, text=True,
                       env={**os.environ, "STORE_URL": f"dir:{folder}"})


def peer(source, folder):
    folder.mkdir()
    return cpu_seconds(["ffmpeg", "-nostdin", "-v", "error", "-y", "-i", source, *FFMPEG,
                        folder / "index.m3u8"])


def main():
    for name in ("feed.mp4", "chat.mp4", "subtitles.mp4"):
        figures = {"ours": [], "peer": []}
        for _ in range(ROUNDS):  # interleaved, so that a slow minute of the machine hits both sides
            with tempfile.TemporaryDirectory(prefix="cortana-media-bench-") as folder:
                folder = pathlib.Path(folder)
                figures["ours"].append(ours(FIXTURES / name, folder / "store"))
                figures["peer"].append(peer(FIXTURES / name, folder / "peer"))
        mine, theirs = statistics.median(figures["ours"]), statistics.median(figures["peer"])
        print(json.dumps({"suite": "media", "name": f"transcode {name}", "unit": "cpu-seconds",
                          "ours": round(mine, 3), "peer": round(theirs, 3), "peer_name": "ffmpeg",
                          "ratio": round(mine / theirs, 3), "goal": 1.0, "better": "lower"}),
              flush=True)


if __name__ == "__main__":
    main()
