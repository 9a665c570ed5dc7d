"""Random cuts: exactly the frames that the source shows in the range, at their times, the copied ones bit by bit.

CORTANA_CLIP_CUTS=300         how many cuts by each test (6)
CORTANA_CLIP_FOLDERS=A:B      folders whose videos are cut, too
CORTANA_CLIP_SEED=7           another draw
"""
import functools
import os
import pathlib
import random
import shlex
import subprocess
import uuid

import numpy
import pytest
from media_tools import Stage, frame_times, probe, shown_between, sound, streams

CUTS = int(os.environ.get("CORTANA_CLIP_CUTS", "6"))
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
# Recordings with pauses, with the number of each picture as columns, and with sound that is shorter,
# longer or earlier than the pictures. Times: what the pictures are shown at.
PAUSES = "floor(N/10)*1.5+mod(N,10)*0.03+0.007*mod(N*N,3)"
PAUSED = {
    "steady.mp4": ("N/25", "-g 20 -bf 2", "-c:a aac", 3.2),
    "paused.mp4": (PAUSES, "-g 500 -bf 0", "-c:a aac", 12),
    "keys.mp4": (PAUSES, "-g 7 -keyint_min 7 -bf 0", "-c:a aac", 12),
    "reordered.mp4": (PAUSES, "-g 7 -bf 3 -b_strategy 0", "-c:a aac", 12),
    "reordered.mkv": (PAUSES, "-g 16 -bf 3 -b_strategy 0", "-c:a libopus", 12),
    "slides.mov": ("N/4", "-g 1", "-c:a pcm_s16le", 21),
    "late.mp4": (f"1.3+{PAUSES}", "-g 12 -bf 2", "-c:a aac", 6),
    "short.ts": (PAUSES, "-g 10 -bf 0", "-c:a aac", 3),
    "silent.mp4": (PAUSES, "-g 9 -bf 1", "-an", 0.1),
}
BITS = 8
PAUSED_PICTURES = 80
# FFmpeg's decoder loses a picture of this one (no IDR picture, no reordering declared, one frame a
# second) when it starts anywhere but at the beginning, so a cut may, too.
UNFIT = {"iibbibb_editlist_videoonly.mp4"}


def generate(path):
    inputs = f"{PICTURE} {SOUND}".format(rate=30, seconds=8)
    subprocess.run(["ffmpeg", "-nostdin", "-v", "error", *shlex.split(inputs), *shlex.split(GENERATED[path.name]), path], check=True)


def generate_paused(path):
    times, video, audio, seconds = PAUSED[path.name]
    subprocess.run(["ffmpeg", "-nostdin", "-v", "error", "-f", "lavfi", "-i", f"color=black:s=320x96:r=30:d={PAUSED_PICTURES / 30}",
                    *shlex.split(SOUND.format(seconds=seconds)), "-vf",
                    f"geq=lum='16+219*mod(floor(N/pow(2,floor(X/{320 // BITS}))),2)':cb=128:cr=128,"
                    f"settb=1/90000,setpts='({times})/TB'", "-fps_mode", "passthrough", "-enc_time_base", "1:90000", "-pix_fmt",
                    "yuv420p", "-c:v", "libx264", *shlex.split(video), *shlex.split(audio), path], check=True)


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
    shown = shown_between(source.times, start, end)
    wanted = [i for i, _ in shown]
    frames = hashed_frames(path)
    assert len(frames) == len(wanted) == result["frames"]
    assert result["first_frame_us"] == pytest.approx(source.times[wanted[0]] * 1e6, abs=2)
    assert [time for time, _ in frames] == pytest.approx([time for _, time in shown], abs=1.2e-5)
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
    check_length(path, result, end - start if end < source.times[-1] else result["duration_us"] / 1e6)


def numbers_shown(path):
    """The numbers of a clip's pictures, from their columns."""
    columns = [round((bit + 0.5) * SIDE / BITS) for bit in range(BITS)]
    return [sum(1 << bit for bit, x in enumerate(columns) if picture[SIDE // 2, x] > 127)
            for picture in grey_frames(path)]


def check_numbers(source, path, variant, start, end):
    shown = shown_between(source.times, start, end)
    found = list(zip(numbers_shown(path), frame_times(path)))
    if variant.get("format") == "jpg":
        assert [number for number, _ in found] == [shown[0][0]]
    elif variant.get("format") == "gif":  # no more than 25 a second, each what the source shows then
        assert found[0][1] == 0
        for number, time in found:
            assert number == shown_between(source.times, start + time, end)[0][0], time
        lasting = {i for (i, time), (_, then) in zip(shown, [*shown[1:], (None, end - start)]) if then - time > 0.05}
        assert lasting <= {number for number, _ in found}
    else:
        is_webm = variant.get("format") == "webm"
        if is_webm and [number for number, _ in found[-2:]] == 2 * [found[-1][0]]:
            found.pop()  # one that is shown for long at the end is repeated
        tick = 0.001 if is_webm else 1.2e-5
        assert [number for number, _ in found] == [i for i, _ in shown]
        assert [time for _, time in found] == pytest.approx([time for _, time in shown], abs=tick)


def check_length(path, result, seconds):
    """Sound, the track of the pictures, and the last picture end when the clip does."""
    assert result["duration_us"] == pytest.approx(seconds * 1e6, abs=1)
    found = streams(path)
    assert ("audio" in found) == result["sound"]
    if path.suffix == ".webm":  # the header may count the lead-in and the rest of the last packet of Opus
        assert float(probe(path, "-show_format")["format"]["duration"]) == pytest.approx(seconds + 0.01, abs=0.0115)
        assert not result["sound"] or len(sound(path)) == pytest.approx(48000 * seconds, abs=1)
        return
    whole = round(seconds * 1000) / 1000 == seconds  # others are rounded to MP4's millisecond
    assert not result["sound"] or found["audio"]["duration_ts"] == pytest.approx(48000 * seconds, abs=1 if whole else 48)
    tick = 0.01 if path.suffix == ".gif" else 1.2e-5
    assert float(found["video"]["duration"]) == pytest.approx(seconds, abs=tick)
    read = probe(path, "-select_streams", "v:0", "-show_entries", "packet=pts_time,duration_time")["packets"]
    times = [float(packet["pts_time"]) for packet in read]
    assert times[-1] == max(times)  # in decoding order, too
    lasts = last_duration(path) if path.suffix == ".mp4" else float(read[-1]["duration_time"])
    assert times[-1] + lasts == pytest.approx(seconds, abs=tick)


def last_duration(path):
    """How long an MP4 says that its last picture is shown (ISO/IEC 14496-12: mdhd, stts); seconds."""
    data = path.read_bytes()
    pictures = data.rindex(b"mdhd", 0, data.index(b"vide"))
    long = data[pictures + 4]  # the box's version: times of 64 bits
    ticks = int.from_bytes(data[pictures + 8 + 8 + 8 * long:][:4], "big")
    table = data.index(b"stts", pictures)
    entries = int.from_bytes(data[table + 8:table + 12], "big")
    return int.from_bytes(data[table + 12 + 8 * entries - 4:][:4], "big") / ticks


@pytest.fixture
def sources(tmp_path, fixtures_dir):
    """Paths of videos; those that are generated do not exist before they are drawn."""
    paths = [tmp_path / name for name in GENERATED]
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
            if path.parent == tmp_path:
                generate(path)
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


@pytest.fixture
def recording(tmp_path):
    """Makes a recording with pauses, once: the source, and its end (s)."""
    @functools.cache
    def make(name):
        path = tmp_path / name
        generate_paused(path)
        source = Source(path)
        assert numbers_shown(path) == list(range(PAUSED_PICTURES))
        ends = [float(p["pts_time"]) + float(p.get("duration_time", 0)) - source.zero for p in
                probe(path, "-show_entries", "packet=pts_time,duration_time")["packets"]]
        return source, max(ends)

    return make


VARIANTS = [{}, {}, {"mute": True}, {"mode": "encode"}, {"mode": "encode", "mute": True}, {"format": "webm"},
            {"format": "webm", "mute": True}, {"format": "gif"}, {"format": "jpg"}]


def test_random_cuts_of_recordings_with_pauses(program, tmp_path, recording):
    """Each way of cutting shows what the source shows, from the asked start to the asked end."""
    draw = random.Random(SEED)
    failures, smart = [], 0
    for k in range(CUTS):
        source, end_of_source = recording(list(PAUSED)[k % len(PAUSED)])
        variant = VARIANTS[k // len(PAUSED) % len(VARIANTS)] if k % 2 else draw.choice(VARIANTS)
        start = draw.choice([draw.randint(0, int(end_of_source * 1000) - 50),
                             int(draw.choice(source.times) * 1000) + draw.choice([0, 0, 1, 20])])
        end = start + draw.choice([draw.randint(20, 300), draw.randint(300, 12000)])
        stage = Stage(program("clip-generate-worker"), tmp_path / f"{k}")
        code, result = stage.run(s3_original_path=stage.put_original(source.path), t_start=start, t_end=end,
                                 padding_ms=0, clip_id=str(uuid.uuid4()), **variant)
        try:
            assert code == 0, result
            smart += result.get("mode") == "smart"
            clip = stage.store / result["clip_path"]
            check_numbers(source, clip, variant, start / 1000, end / 1000)
            if end < end_of_source * 1000 - 50 and "duration_us" in result:
                check_length(clip, result, (end - start) / 1000)
            elif "duration_us" in result:  # not each container says how long its last packet lasts
                assert result["duration_us"] / 1e6 == pytest.approx(min(end / 1000, end_of_source) - start / 1000, abs=0.05)
                check_length(clip, result, result["duration_us"] / 1e6)
        except AssertionError as problem:
            failures.append((source.path.name, start, end, variant, str(problem).splitlines()[:6]))
    print(f"{CUTS} cuts, {smart} copied")
    assert not failures, "\n".join(map(str, failures))
    assert smart >= CUTS // 20
