#!/usr/bin/python3
"""How large renditions are and how well they can be read: renditions_bench.py BUILD FOLDER [NAME...]

FOLDER holds recordings with their truth, as for real_bench.py. For the recording and each rendition below it: kbit/s; the
mean SSIM (of luma, in windows of 8x8, at the recording's size) within the boxes of lines that `ocr` finds in the recording; the
part of the true lines that `sample` and `ocr` find in the rendition. With --encoders, in place of our renditions: the
recording at --sides by libx264 as `ffmpeg` runs it, with our preset and without B-frames, for each tuning and CRF; and the CPU
time of a second of it.
"""
import argparse
import json
import os
import pathlib
import subprocess
import tempfile
import uuid

import numpy
from private_cluster import PrivateCluster
from real_bench import Index, Recording, Stages, recordings, score

WINDOW = 8
PICTURES = 8  # of a recording, evenly spread
STEADY = (0.01 * 255) ** 2, (0.03 * 255) ** 2  # as in the definition of SSIM


def picture(path, time_s, width, height):
    data = subprocess.run(["ffmpeg", "-nostdin", "-v", "error", "-ss", f"{time_s:.3f}", "-i", path, "-frames:v", "1", "-vf",
                           f"scale={width}:{height}:flags=bicubic,format=gray", "-f", "rawvideo", "-"],
                          check=True, stdout=subprocess.PIPE).stdout
    return numpy.frombuffer(data, numpy.uint8).reshape(height, width).astype(float)


def windows(values):
    """Means over all windows, a sample apart."""
    sums = numpy.pad(values.cumsum(0).cumsum(1), ((1, 0), (1, 0)))
    return (sums[WINDOW:, WINDOW:] - sums[:-WINDOW, WINDOW:] - sums[WINDOW:, :-WINDOW]
            + sums[:-WINDOW, :-WINDOW]) / WINDOW ** 2


def likeness(one, other):
    """The SSIM of each window."""
    a, b = windows(one), windows(other)
    variances = windows(one * one) - a * a + windows(other * other) - b * b
    covariance = windows(one * other) - a * b
    return ((2 * a * b + STEADY[0]) * (2 * covariance + STEADY[1])
            / ((a * a + b * b + STEADY[0]) * (variances + STEADY[1])))


class Video:
    def __init__(self, recording, segments):
        self.recording, self.segments = recording, segments
        probed = json.loads(subprocess.run(
            ["ffprobe", "-v", "error", "-select_streams", "v:0", "-show_entries", "stream=width,height:format=duration",
             "-of", "json", recording.clip], check=True, stdout=subprocess.PIPE, text=True).stdout)
        self.width, self.height = (probed["streams"][0][side] for side in ("width", "height"))
        self.seconds = float(probed["format"]["duration"])

    def text_ssim(self, path):
        found = []
        for i in range(PICTURES):
            time_s = self.seconds * (2 * i + 1) / (2 * PICTURES)
            boxes = [segment["bounding_box"] for segment in self.segments
                     if segment["t_start"] <= time_s * 1000 < segment["t_end"]]
            if not boxes:
                continue
            alike = likeness(*(picture(clip, time_s, self.width, self.height) for clip in (self.recording.clip, path)))
            for box in boxes:
                left, top = int(box["x"]), int(box["y"])
                part = alike[top:max(top + 1, top + int(box["height"]) - WINDOW),
                             left:max(left + 1, left + int(box["width"]) - WINDOW)]
                found.append(part.mean())
        return float(numpy.mean(found)) if found else None


def make_renditions(build, recording, sides, store):
    """Name, kbit/s of the pictures, and a file of each rendition."""
    video = str(uuid.uuid4())
    key = f"videos/original/{video}/master{recording.clip.suffix}"
    (store / key).parent.mkdir(parents=True)
    (store / key).write_bytes(recording.clip.read_bytes())
    done = subprocess.run([build / "workers" / "transcode" / "transcode-worker", "--once"], check=True, text=True,
                          input=json.dumps({"video_id": video, "s3_original_path": key, "renditions": sides}),
                          env={**os.environ, "STORE_URL": f"dir:{store}"}, stdout=subprocess.PIPE,
                          stderr=subprocess.DEVNULL)
    result = json.loads(done.stdout)
    for rendition in result["renditions"]:
        path = store / f"{rendition['name']}.mp4"
        subprocess.run(["ffmpeg", "-nostdin", "-v", "error", "-i", store / pathlib.Path(result["s3_proxy_path"]).parent
                        / f"{rendition['name']}.m3u8", "-c", "copy", path], check=True)
        yield (f"{rendition['name']}{', copied' if rendition['copied'] else ''}", rendition["average_bandwidth"] / 1000, path)


TUNINGS, FACTORS = (None, "stillimage", "animation", "film"), (20, 23, 26)


def encode(recording, sides, store):
    """Name with CPU time, kbit/s, and a file of each setting of the encoder."""
    store.mkdir(parents=True)
    for side in sides:
        scale = f"scale='if(gt(iw,ih),-2,{side})':'if(gt(iw,ih),{side},-2)'"
        for tuning in TUNINGS:
            for factor in FACTORS:
                path = store / f"{side}-{tuning}-{factor}.mp4"
                before = os.times()
                subprocess.run(["ffmpeg", "-nostdin", "-v", "error", "-i", recording.clip, "-an", "-vf", scale, "-c:v", "libx264",
                                "-preset", "veryfast", "-crf", str(factor), *(["-tune", tuning] if tuning else []), "-bf", "0",
                                "-sc_threshold", "0", "-force_key_frames", "expr:gte(t,n_forced*2)", "-pix_fmt", "yuv420p",
                                path], check=True)
                after = os.times()
                seconds = float(json.loads(subprocess.run(
                    ["ffprobe", "-v", "error", "-show_entries", "format=duration", "-of", "json", path], check=True,
                    stdout=subprocess.PIPE, text=True).stdout)["format"]["duration"])
                cpu = sum(after[2:4]) - sum(before[2:4])
                yield f"{side} {tuning or 'none'} {factor} ({cpu / seconds:.3f} s)", path.stat().st_size * 8 / seconds / 1000, path


def measure(options, stages, index, recording, folder):
    def read(clip):
        result, _, _ = stages.detections(Recording(recording.name, clip, recording.truth, recording.seen))
        export = index.export(result["detections"])
        return export, score(recording, export, folder)["line_recall"]

    export, recall = read(recording.clip)
    video = Video(recording, export["segments"])
    kbits = recording.clip.stat().st_size * 8 / video.seconds / 1000
    print(f"{recording.name:16}{'source':>28}{kbits:10.0f}{1:8.3f}{recall:8.3f}", flush=True)
    store = folder / recording.name
    made = encode(recording, options.sides, store) if options.encoders else make_renditions(
        options.build, recording, options.sides, store)
    for name, kbits, path in made:
        recall = read(path)[1]
        print(f"{'':16}{name:>28}{kbits:10.0f}{video.text_ssim(path) or 0:8.3f}{recall:8.3f}", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("build", type=lambda path: pathlib.Path(path).resolve())
    parser.add_argument("folder", type=lambda path: pathlib.Path(path).resolve())
    parser.add_argument("names", nargs="*")
    parser.add_argument("--sides", type=lambda text: [int(side) for side in text.split(",")], default=[1080, 720, 480, 360],
                        help="short sides of the renditions")
    parser.add_argument("--encoders", action="store_true", help="tunings and CRFs of libx264, in place of our renditions")
    options = parser.parse_args()
    print(f"{'':16}{'':>28}{'kbit/s':>10}{'SSIM':>8}{'recall':>8}")
    with PrivateCluster(options.build) as cluster, tempfile.TemporaryDirectory(prefix="cortana-renditions-") as folder:
        index = Index(options.build, cluster.migrated_database())
        stages = Stages(options.build, pathlib.Path(folder) / "cache")
        for recording in recordings(options.folder, options.names):
            measure(options, stages, index, recording, pathlib.Path(folder))


if __name__ == "__main__":
    main()
