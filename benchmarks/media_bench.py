#!/usr/bin/python3
"""The most memory that the default renditions of 4K sources take: media_bench.py BUILD FIXTURES"""
import json
import pathlib
import tempfile

from cost_bench import ffmpeg, transcode

MEMORY_MAX = 700 * 1024  # KiB


def memory(kind, *arguments):
    with tempfile.TemporaryDirectory(prefix="cortana-media-bench-") as folder:
        source = pathlib.Path(folder) / "4k.mp4"
        ffmpeg("-f", "lavfi", "-i", "testsrc2=s=3840x2160:r=30:d=2", *arguments, source)
        peak = transcode(source, [1080, 720, 480, 360], pathlib.Path(folder) / "store").ru_maxrss
    print(json.dumps({"suite": "media", "name": f"memory 4K {kind}", "unit": "KiB", "ours": peak, "peer": MEMORY_MAX,
                      "peer_name": "bound", "ratio": round(peak / MEMORY_MAX, 3), "goal": 1.0, "better": "lower"}))


def main():
    memory("H.264", "-c:v", "libx264", "-preset", "ultrafast", "-bf", "3", "-refs", "4")
    memory("HEVC 10 bit", "-c:v", "libx265", "-preset", "ultrafast", "-x265-params", "log-level=error", "-pix_fmt",
           "yuv420p10le")


if __name__ == "__main__":
    main()
