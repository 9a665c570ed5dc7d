"""What the tests of the media stages share: one stage run by hand, and what ffprobe and ffmpeg say."""
import contextlib
import functools
import hashlib
import itertools
import json
import os
import pathlib
import re
import shutil
import struct
import subprocess
import sys
import uuid

import hls_check
import numpy
from PIL import Image, ImageDraw, ImageFont

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "fixtures/make"))
import recordings_of_screens as generator  # noqa: E402
from turn import turn  # noqa: E402, F401

CLIPS = pathlib.Path(__file__).resolve().parents[2] / "build/tests/clips"  # for every build of the programs
KEPT_MAX = 32 << 20  # bytes of a clip that is kept
TS_OFFSET = 1.4  # seconds that MPEG-TS timestamps lie after the presentation's time 0


def add_text_tracks(source, target, codec, *cues):
    """A copy of the video with a text track for each of `cues`, a language and SubRip."""
    command = ["ffmpeg", "-v", "error", "-y", "-i", str(source)]
    for n, (language, text) in enumerate(cues):
        path = target.with_suffix(f".{n}.srt")
        path.write_text(text)
        command += ["-i", str(path)]
    for n, (language, text) in enumerate(cues):
        command += ["-map", f"{n + 1}", f"-metadata:s:s:{n}", f"language={language}"]
    subprocess.run([*command, "-map", "0:v", "-c:v", "copy", "-c:s", codec, str(target)], check=True)
    return target


def draw_subtitle(text, size=44, fill=(235, 235, 235), outline=(16, 16, 16), font="DejaVuSans.ttf", stroke=3):
    """Rows of text, in the middle, as bytes of colours (0 is transparent), their width, and their palette (R, G, B, A)."""
    drawn, rows = ImageFont.truetype(font, size), text.split("\n")
    width = max(round(drawn.getlength(row)) for row in rows) + 16
    masks = [Image.new("L", (width, len(rows) * size * 5 // 4 + 16)) for _ in range(2)]
    for n, row in enumerate(rows):
        for mask, around in zip(masks, (stroke, 0)):
            at = (width - drawn.getlength(row)) // 2, 8 + size + n * size * 5 // 4
            ImageDraw.Draw(mask).text(at, row, 255, drawn, anchor="ls", stroke_width=around)
    palette = [(0, 0, 0, 0)] + [(*(round(o + (f - o) * shade / 15) for f, o in zip(fill, outline)), round(alpha * 255 / 14))
                                for alpha in range(1, 15) for shade in range(16)]
    colours = bytes(0 if around < 16 else (max(around * 14 // 255, 1) - 1) * 16 + inside // 16 + 1
                    for around, inside in zip(masks[0].tobytes(), masks[1].tobytes()))
    return colours, width, palette


def write_pgs(path, events, screen=(1920, 1080), **look):
    """A file of PGS: (start and end in seconds, text) each. An event ends with one that is empty."""
    def segment(at, kind, body):
        return b"PG" + struct.pack(">IIBH", round(at * 90000), 0, kind, len(body)) + body

    def runs(row):
        coded = b""
        for colour, run in ((key, len(list(group))) for key, group in itertools.groupby(row)):
            for length in [0x3fff] * (run // 0x3fff) + [run % 0x3fff] * bool(run % 0x3fff):
                much = bytes([length]) if length < 64 else struct.pack(">H", 0x4000 | length)
                coded += b"\0" + bytes([much[0] | 0x80 * bool(colour)]) + much[1:] + bytes([colour]) * bool(colour)
        return coded + b"\0\0"

    def yuv(r, g, b, a):
        y, u, v = .2126 * r + .7152 * g + .0722 * b, -.1146 * r - .3854 * g + .5 * b, .5 * r - .4542 * g - .0458 * b
        return bytes([round(16 + y * 219 / 255), round(128 + v * 224 / 255), round(128 + u * 224 / 255), a])

    def show(at, number, text):
        colours, width, palette = draw_subtitle(text, **look)
        height = len(colours) // width
        x, y = (screen[0] - width) // 2, screen[1] - height - screen[1] // 18
        rows = b"".join(runs(colours[n * width:(n + 1) * width]) for n in range(height))
        data = struct.pack(">I", len(rows) + 4)[1:] + struct.pack(">HH", width, height) + rows
        pieces = [data[n:n + 60000] for n in range(0, len(data), 60000)]
        yield segment(at, 0x16, struct.pack(">HHBHBBBBHBBHH", *screen, 0x10, number, 0x80, 0, 0, 1, 0, 0, 0, x, y))
        yield segment(at, 0x17, struct.pack(">BBHHHH", 1, 0, x, y, width, height))
        yield segment(at, 0x14, b"\0\0" + b"".join(bytes([n]) + yuv(*colour) for n, colour in enumerate(palette)))
        for n, piece in enumerate(pieces):
            yield segment(at, 0x15, struct.pack(">HBB", 0, 0, 0x80 * (n == 0) | 0x40 * (n == len(pieces) - 1)) + piece)
        yield segment(at, 0x80, b"")

    def clear(at, number):
        yield segment(at, 0x16, struct.pack(">HHBHBBBB", *screen, 0x10, number, 0, 0, 0, 0))
        yield segment(at, 0x80, b"")

    shown = [part for n, (start, end, text) in enumerate(events)
             for part in [*show(start, 2 * n, text), *(clear(end, 2 * n + 1) if end is not None else ())]]
    path.write_bytes(b"".join(shown))
    return path


def add_picture_tracks(source, target, codec, *tracks, **look):
    """A copy of the video with a track of pictures for each of `tracks`, a language and events as write_pgs has them. ffmpeg makes
    the other codecs of PGS, of which it needs the length of each event beforehand."""
    command, known = ["ffmpeg", "-v", "error", "-y", "-copyts", "-i", str(source)], ["-fix_sub_duration"] * (codec != "copy")
    for n, (language, events) in enumerate(tracks):
        command += [*known, "-i", str(write_pgs(target.with_suffix(f".{n}.sup"), events, **look))]
    for n, (language, events) in enumerate(tracks):
        command += ["-map", f"{n + 1}", f"-metadata:s:s:{n}", f"language={language}"]
    subprocess.run([*command, "-map", "0:v", "-c:v", "copy", "-c:s", codec, *["-mpegts_m2ts_mode", "1"] * (target.suffix == ".m2ts"), str(target)],
                   check=True)
    return target


def add_captions(folder, *cues, seconds=6):
    """CEA-608 captions (second, text; "" clears) as a file with a track of them, and one that has them in its H.264."""
    def pair(a, b):
        return bytes(c | (0 if c.bit_count() % 2 else 0x80) for c in (a, b))

    def pairs(text):
        codes = [(0x14, 0x2e), (0x14, 0x20), (0x14, 0x70)] if text else [(0x14, 0x2c)]
        letters = [pair(*(text + " ")[at:at + 2].encode()) for at in range(0, len(text), 2)]
        return [pair(*code) for code in codes for _ in range(2)] + letters + [pair(0x14, 0x2f)] * 2 * bool(text)

    scc, bare, raw = folder / "c.scc", folder / "bare.h264", folder / "with.h264"
    scc.write_text("Scenarist_SCC V1.0\n\n" + "".join(f"00:00:0{at}:00\t{' '.join(one.hex() for one in pairs(text))}\n\n" for at, text in cues))
    subprocess.run(["ffmpeg", "-v", "error", "-y", "-f", "lavfi", "-i", f"testsrc=r=30:s=320x180:d={seconds}", "-bf", "0",
                    "-x264-params", "aud=1", bare], check=True)
    subprocess.run(["ffmpeg", "-v", "error", "-y", "-r", "30", "-i", bare, "-i", scc, "-map", "0", "-map", "1", "-c", "copy",
                    folder / "track.mov"], check=True)
    frames = {at * 30 + n: one for at, text in cues for n, one in enumerate(pairs(text))}
    units = re.split(rb"(?=\x00\x00\x00\x01\x09)", bare.read_bytes())[1:]  # each begins with its delimiter, of six bytes
    raw.write_bytes(b"".join(unit[:6] + b"\0\0\0\1\6\4\x0e\xb5\0\x31GA94\3\x41\xff\xfc" + frames.get(n, b"\x80\x80") + b"\xff\x80" + unit[6:]
                             for n, unit in enumerate(units)))
    subprocess.run(["ffmpeg", "-v", "error", "-y", "-r", "30", "-i", raw, "-c", "copy", folder / "data.mp4"], check=True)
    return folder / "track.mov", folder / "data.mp4"


class Stage:
    """A stage program and a store that it works on."""

    def __init__(self, program, store):
        self.program = program
        self.store = pathlib.Path(store)
        self.video_id = str(uuid.uuid4())

    def put_original(self, data, name="master.mp4"):
        """Bytes, or a file, under the original's key; returns the key."""
        key = f"videos/original/{self.video_id}/{name}"
        path = self.store / key
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data if isinstance(data, bytes) else pathlib.Path(data).read_bytes())
        return key

    def run(self, variables=None, **payload):
        """(exit code, the JSON object on standard output)"""
        payload.setdefault("video_id", self.video_id)
        done = subprocess.run([self.program, "--once", "--threads", "2"], input=json.dumps(payload),
                              text=True, capture_output=True, check=False,
                              env={**os.environ, "STORE_URL": f"dir:{self.store}", **(variables or {})})
        lines = done.stdout.splitlines()
        assert len(lines) == 1, (done.returncode, done.stdout, done.stderr)
        return done.returncode, json.loads(lines[0])

    def check_output(self):
        """What hls_check finds in the proxy and its pictures, which must be flawless."""
        findings, summary = self.findings()
        assert findings == []
        return summary

    def findings(self):
        return hls_check.check(self.store, self.video_id)

    def keys(self):
        """Every object, but the original."""
        files = (path.relative_to(self.store).as_posix()
                 for path in self.store.rglob("*") if path.is_file())
        return sorted(key for key in files
                      if not key.startswith(("videos/original/", ".")))


@functools.cache
def ffmpeg_version():
    return subprocess.run(["ffmpeg", "-version"], check=True, capture_output=True).stdout


def make_clip(path, arguments):
    """What ffmpeg makes of the arguments. What it draws itself is made once for each recipe, and kept in the build folder."""
    path, words = pathlib.Path(path), arguments.split()
    inputs = [words[max(at - 2, 0):at] for at, word in enumerate(words) if word == "-i"]
    kept = None
    if inputs and all(before == ["-f", "lavfi"] for before in inputs) and "%" not in path.name:
        recipe = hashlib.sha256(ffmpeg_version() + arguments.encode()).hexdigest()
        kept = CLIPS / f"{recipe}{path.suffix}"
    if not kept or not kept.exists():
        subprocess.run(["ffmpeg", "-nostdin", "-v", "error", "-y", *words, str(path)], check=True)
    if kept and kept.exists():
        shutil.copyfile(kept, path)
    elif kept and path.stat().st_size < KEPT_MAX:
        CLIPS.mkdir(parents=True, exist_ok=True)
        new = CLIPS / f"{uuid.uuid4()}"
        shutil.copyfile(path, new)
        new.rename(kept)
    return path


def make_recording(folder, name, seed):
    """A screen recording that the generator makes, and its truth beside it: made once, and kept in the build folder."""
    sources = b"".join(path.read_bytes() for path in sorted(pathlib.Path(generator.__file__).parent.glob("*.py")))
    kept = CLIPS / hashlib.sha256(ffmpeg_version() + sources + f"{name} {seed}".encode()).hexdigest()
    if not kept.exists():
        new = CLIPS / f"{uuid.uuid4()}"
        generator.make(new, name, seed)
        with contextlib.suppress(OSError):  # another test has made it meanwhile
            new.rename(kept)
    shutil.copytree(kept, folder, dirs_exist_ok=True)
    return folder / f"{name}_{seed}.mp4"


def probe(path, *arguments):
    done = subprocess.run(["ffprobe", "-v", "error", "-of", "json", *arguments, str(path)],
                          capture_output=True, text=True, check=True)
    return json.loads(done.stdout)


def streams(path):
    """The streams by codec type."""
    return {s["codec_type"]: s for s in probe(path, "-show_streams")["streams"]}


def once_for_a_file(function):
    """Keeps what a function makes of a file until the file changes; of a playlist, whose segments are other files, nothing."""
    @functools.lru_cache(maxsize=8)
    def make(path, changed, size, arguments):
        return function(path, *arguments)

    def look_up(path, *arguments):
        now = os.stat(path)
        return function(path, *arguments) if str(path).endswith(".m3u8") else make(path, now.st_mtime_ns, now.st_size, arguments)

    return functools.update_wrapper(look_up, function)


@once_for_a_file
def frame_times(path, stream="v:0"):
    """Presentation times of the decoded frames, as libavformat gives them, seconds."""
    frames = probe(path, "-select_streams", stream, "-show_entries",
                   "frame=best_effort_timestamp_time")["frames"]
    return [float(frame["best_effort_timestamp_time"]) for frame in frames]


def shown_between(times, start, end):
    """[(index, seconds from start)] of the frames that a viewer sees from start to end. The first one may
    have appeared earlier; if all frames are later, the first one is shown from the start on."""
    slack = 2e-6  # of times in whole microseconds
    first = max((i for i, time in enumerate(times) if time <= start + slack), default=0)
    return [(first, 0.0)] + [(i, times[i] - start) for i in range(first + 1, len(times))
                             if times[i] < end - slack]


def packets(path, stream):
    return probe(path, "-select_streams", stream, "-show_entries",
                 "packet=pts_time,dts_time,flags")["packets"]


def playlist(path):
    """[(duration, segment path), …] of a media playlist, and its target duration."""
    text = path.read_text()
    durations = [float(value) for value in re.findall(r"#EXTINF:([\d.]+),", text)]
    names = [line for line in text.splitlines() if line and not line.startswith("#")]
    assert len(durations) == len(names) and text.endswith("#EXT-X-ENDLIST\n")
    target = int(re.search(r"#EXT-X-TARGETDURATION:(\d+)", text).group(1))
    return [(d, path.parent / n) for d, n in zip(durations, names)], target


def attributes(text):
    """An attribute list of a playlist as a dict; quotes taken off."""
    pairs = re.findall(r'([A-Z0-9-]+)=("[^"]*"|[^,]*)', text)
    return {key: value.strip('"') for key, value in pairs}


def multivariant(path):
    """The variants of a multivariant playlist (their attributes, with "URI"), and its groups."""
    lines = path.read_text().splitlines()
    variants = [{**attributes(tag.partition(":")[2]), "URI": lines[i + 1]}
                for i, tag in enumerate(lines) if tag.startswith("#EXT-X-STREAM-INF:")]
    groups = [attributes(tag.partition(":")[2]) for tag in lines if tag.startswith("#EXT-X-MEDIA:")]
    return variants, groups


@once_for_a_file
def grey_frames(path, width=64, height=64):
    """Every decoded frame, scaled down to grey bytes."""
    data = subprocess.run(["ffmpeg", "-nostdin", "-v", "error", "-i", str(path), "-map", "0:v:0",
                           "-fps_mode", "passthrough", "-vf", f"scale={width}:{height},format=gray",
                           "-f", "rawvideo", "-"], capture_output=True, check=True).stdout
    size = width * height
    return [data[i:i + size] for i in range(0, len(data), size)]


def difference(one, other):
    """Mean absolute difference of two grey pictures."""
    one, other = (numpy.frombuffer(bytes(picture), numpy.uint8).astype(numpy.int16) for picture in (one, other))
    return float(numpy.abs(one - other).mean())


def sound(path, rate=48000):
    """All the sound as signed 16-bit mono samples."""
    data = subprocess.run(["ffmpeg", "-nostdin", "-v", "error", "-i", str(path), "-map", "0:a:0",
                           "-ac", "1", "-ar", str(rate), "-f", "s16le", "-"],
                          capture_output=True, check=True).stdout
    return memoryview(data).cast("h")


def digest(path):
    return hashlib.sha256(path.read_bytes()).hexdigest()


def frames_of(path):
    """How many frames ffprobe decodes."""
    counted = subprocess.run(["ffprobe", "-v", "error", "-count_frames", "-select_streams", "v",
                              "-show_entries", "stream=nb_read_frames", "-of", "csv=p=0", path],
                             check=True, capture_output=True, text=True)
    return int(counted.stdout)
