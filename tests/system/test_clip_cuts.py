"""Random cuts: exactly the source's frames of the range, at their times, the copied ones bit by bit.

CORTANA_CLIP_CUTS=300         how many cuts (30)
CORTANA_CLIP_FOLDERS=A:B      folders whose videos are cut, too
CORTANA_CLIP_SEED=7           another draw
"""
import os
import pathlib
import random
import shlex
import subprocess
import uuid

import numpy
import pytest
from media_tools import Stage, probe

CUTS = int(os.environ.get("CORTANA_CLIP_CUTS", "16"))
SEED = int(os.environ.get("CORTANA_CLIP_SEED", "20261121"))
FOLDERS = [pathlib.Path(name) for name in os.environ.get("CORTANA_CLIP_FOLDERS", "").split(":") if name]
SUFFIXES = {".mp4", ".mov", ".mkv", ".webm", ".avi", ".flv", ".3gp", ".ts"}
SIDE = 96  # of the grey pictures that are compared
ALIKE = 6  # mean difference of 256 levels

PICTURE = "-f lavfi -i testsrc2=s=320x240:r={rate}:d={seconds}"
SOUND = "-f lavfi -i aevalsrc=0.5*sin(2*PI*(200+50*t)*t):d={seconds}:s=48000"
# What encoders make of the same pictures: name, options.
GENERATED = {
    "pyramid.mp4": "-c:v libx264 -g 40 -bf 5 -b_strategy 2 -x264-params b-pyramid=normal -c:a aac",
    "plain.mp4": "-c:v libx264 -g 30 -bf 0 -profile:v baseline -c:a aac",
    "main.mov": "-c:v libx264 -g 50 -bf 2 -profile:v main -c:a pcm_s16le",
    "open.mp4": "-c:v libx264 -g 30 -bf 3 -x264-params open-gop=1:keyint=30 -c:a aac",
    "refresh.mp4": "-c:v libx264 -g 30 -x264-params intra-refresh=1 -c:a aac",
    "interlaced.mp4": "-c:v libx264 -g 30 -flags +ildct+ilme -x264-params interlaced=1 -c:a aac",
    "full.mp4": "-c:v libx264 -g 30 -vf scale=out_range=full,format=yuvj420p -c:a aac",
    "stream.ts": "-c:v libx264 -g 30 -bf 2 -c:a aac -muxrate 3M",
    "table.mkv": "-c:v libx264 -g 30 -bf 2 -c:a libopus",
    "fragments.mp4": "-c:v libx264 -g 30 -bf 2 -c:a aac -movflags frag_keyframe+empty_moov",
    "negative.mp4": "-c:v libx264 -g 30 -bf 2 -c:a aac -movflags negative_cts_offsets",
    "hevc.mp4": "-c:v libx265 -x265-params log-level=none:keyint=30 -tag:v hvc1 -c:a aac",
    "uneven.mp4": ("-vf select='not(mod(n\\,7))+lt(mod(n\\,50)\\,20)',setpts='PTS+mod(N*N\\,5)*0.001/TB'"
                   " -fps_mode passthrough -enc_time_base 1:90000 -video_track_timescale 90000"
                   " -c:v libx264 -g 20 -bf 3 -c:a aac"),
}
# FFmpeg's decoder loses a picture of this one (no IDR picture, no reordering declared, one frame a
# second) when it starts anywhere but at the beginning, so a cut may, too.
UNFIT = {"iibbibb_editlist_videoonly.mp4"}


def generate(folder):
    for name, options in GENERATED.items():
        inputs = f"{PICTURE} {SOUND}".format(rate=30, seconds=8)
        subprocess.run(["ffmpeg", "-nostdin", "-v", "error", "-y", *shlex.split(inputs),
                        *shlex.split(options), folder / name], check=True)
    return [folder / name for name in GENERATED]


class Source:
    """A video as ffmpeg decodes it: frames with their times from the presentation's start."""

    def __init__(self, path):
        self.path = path
        self.frames = hashed_frames(path)
        found = probe(path, "-show_streams")["streams"]
        starts = [float(s["start_time"]) for s in found
                  if s["codec_type"] in ("video", "audio") and "start_time" in s
                  and not s["disposition"]["attached_pic"]]
        self.zero = min(starts, default=0)
        self.times = [time - self.zero for time, _ in self.frames]
        video = next((s for s in found if s["codec_type"] == "video"), {})
        self.toned = video.get("color_transfer") == "smpte2084"  # the clip's brightness differs
        self.grey = None

    def picture(self, index):
        if self.grey is None:
            self.grey = grey_frames(self.path)
        return self.grey[index]


def hashed_frames(path):
    """[(seconds, hash of the decoded picture)] of the first video stream, as it is coded."""
    done = subprocess.run(["ffmpeg", "-nostdin", "-v", "error", "-noautorotate", "-i", str(path),
                           "-map", "0:v:0", "-fps_mode", "passthrough", "-enc_time_base", "-1",
                           "-copyts", "-f", "framehash", "-hash", "murmur3", "-"], capture_output=True, text=True, check=True)
    tick, frames = None, []
    for line in done.stdout.splitlines():
        if line.startswith("#tb 0:"):
            numerator, denominator = line.split(":")[1].split("/")
            tick = int(numerator) / int(denominator)
        elif not line.startswith("#"):
            fields = [field.strip() for field in line.split(",")]
            frames.append((int(fields[2]) * tick, fields[5]))
    return frames


def grey_frames(path):
    """Every frame upright and small, from black 0 to white 255 whatever its range."""
    data = subprocess.run(["ffmpeg", "-nostdin", "-v", "error", "-i", str(path), "-map", "0:v:0",
                           "-fps_mode", "passthrough", "-vf",
                           "crop=trunc(iw/2)*2:trunc(ih/2)*2:0:0:exact=1,"  # odd ends are lost
                           f"scale={SIDE}:{SIDE}:out_range=full,format=gray", "-f", "rawvideo", "-"],
                          capture_output=True, check=True).stdout
    return numpy.frombuffer(data, numpy.uint8).reshape(-1, SIDE, SIDE).astype(numpy.int16)


def difference(one, other):
    return float(numpy.abs(one - other).mean())


def readable(path):
    try:
        source = Source(path)
    except subprocess.CalledProcessError:
        return None
    grows = all(a < b for a, b in zip(source.times, source.times[1:]))
    return source if len(source.frames) >= 10 and grows else None


def check_cut(source, path, result, start, end):
    wanted = [i for i, t in enumerate(source.times) if start - 1e-6 <= t < end - 1e-6]
    frames = hashed_frames(path)
    assert len(frames) == len(wanted) == result["frames"]
    first = source.times[wanted[0]]
    assert result["first_frame_us"] == pytest.approx(first * 1e6, abs=2)
    assert [time for time, _ in frames] == pytest.approx(
        [source.times[i] - first for i in wanted], abs=6e-5)
    same = [frames[k][1] == source.frames[i][1] for k, i in enumerate(wanted)]
    assert sum(same) >= result["copied_frames"]
    pictures = grey_frames(path)
    for k, i in enumerate(wanted):
        if same[k] or source.toned:
            continue
        own = difference(pictures[k], source.picture(i))
        assert own < ALIKE, (k, own)
        if k in (0, len(wanted) - 1):
            for neighbour in (i - 1, i + 1):
                if 0 <= neighbour < len(source.frames):
                    assert own <= difference(pictures[k], source.picture(neighbour)) + 0.25, k


@pytest.fixture(scope="module")
def sources(tmp_path_factory, fixtures_dir):
    folder = tmp_path_factory.mktemp("sources")
    paths = generate(folder)
    paths += [fixtures_dir / name for name in ("feed.mp4", "chat.mp4", "subtitles.mp4")]
    for place in [fixtures_dir / "awkward", *FOLDERS]:
        paths += sorted(p for p in place.rglob("*") if p.suffix.lower() in SUFFIXES)
    return [path for path in paths if path.name not in UNFIT]


def test_random_cuts(program, tmp_path, sources):
    draw = random.Random(SEED)
    known, refused, smart, done = {}, 0, 0, 0
    order = sources * (CUTS // len(sources) + 2)
    if CUTS < len(order):
        order = draw.sample(order, len(order))
    failures = []
    for path in order:
        if done == CUTS:
            break
        if path not in known:
            known[path] = readable(path)
        source = known[path]
        if source is None:
            refused += 1
            continue
        last_ms = int(source.times[-1] * 1000)
        start = draw.randint(0, max(last_ms - 100, 0))
        end = start + draw.randint(1, max(last_ms - start, 2)) + draw.choice([0, 0, 500])
        if draw.random() < 0.2:  # right at a frame
            start = int(draw.choice(source.times) * 1000)
            end = max(end, start + 100)
        inside = [t for t in source.times if start / 1000 <= t < end / 1000]
        if not inside:
            continue
        # Where a picture stands for long, a clip starts with it; that has a test of its own.
        start = max(start, int(inside[0] * 1000) - 400)
        done += 1
        stage = Stage(program("clip-generate-worker"), tmp_path / f"{done}")
        code, result = stage.run(s3_original_path=stage.put_original(path), t_start=start, t_end=end,
                                 padding_ms=0, clip_id=str(uuid.uuid4()))
        try:
            assert code == 0, result
            smart += result["mode"] == "smart"
            check_cut(source, stage.store / result["clip_path"], result, start / 1000, end / 1000)
        except AssertionError as problem:
            failures.append((path.name, start, end, result, str(problem).splitlines()[:6]))
    print(f"{done} cuts, {smart} copied, {refused} skips of files that are no video")
    assert not failures, "\n".join(map(str, failures))
    assert done == CUTS and smart >= CUTS // 5
