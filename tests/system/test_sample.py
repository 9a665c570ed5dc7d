"""The sample stage through `--once`: which frames it keeps of the fixtures, and for how long each
stood on screen."""

import json
import os
import struct
import subprocess
import sys
import uuid

import pytest
from media_tools import add_captions, add_picture_tracks, add_text_tracks, make_clip
from unreadable_files import make_unreadable_files

VIDEO = "7d9b1c1e-52d1-4f0e-9a55-0c4f1a2b3c4d"
ORIGINAL = f"videos/original/{VIDEO}/master.mp4"


class Sample:
    """One run of the stage over a file."""

    def __init__(self, program, store, source, **payload):
        original = store / ORIGINAL
        original.parent.mkdir(parents=True, exist_ok=True)
        if source is not None:
            original.write_bytes(source.read_bytes())
        payload = {"video_id": VIDEO, "s3_original_path": ORIGINAL, **payload}
        self.store = store
        self.done = subprocess.run([program, "--once"], input=json.dumps(payload), text=True,
                                   capture_output=True, check=False,
                                   env={**os.environ, "STORE_URL": f"dir:{store}"})
        self.result = json.loads(self.done.stdout)

    @property
    def frames(self):
        assert self.done.returncode == 0, self.done.stderr
        return self.result["frames"]

    @property
    def starts(self):
        return [frame["t_start"] for frame in self.frames]

    def objects(self):
        """Keys and bytes of the kept frames in the store."""
        folder = self.store / "frames" / VIDEO
        return {f"frames/{VIDEO}/{path.name}": path.read_bytes() for path in folder.glob("*.jpg")}


@pytest.fixture
def sample(program, store_dir):
    def run(source, **payload):
        return Sample(program("sample-worker"), store_dir, source, **payload)

    return run


def truth(source):
    return json.loads(source.with_suffix(".truth.json").read_text())


def text_changes(source):
    """The times at which text comes or goes, but for the end."""
    lines = truth(source)["lines"]
    end = max(line["t_end_ms"] for line in lines)
    times = {line["t_start_ms"] for line in lines} | {line["t_end_ms"] for line in lines}
    return sorted(times - {end})


def assert_partition(frames, duration):
    """Kept frames follow one another without a gap."""
    assert frames[0]["t_start"] == 0
    assert 0 <= duration - frames[-1]["t_end"] < 50  # sound may end a little later
    for before, after in zip(frames, frames[1:]):
        assert before["t_end"] == after["t_start"]
        assert before["t_start"] < before["still_until"] <= before["t_end"]


def test_every_state_of_a_chat_is_kept_at_its_exact_time(sample, fixtures_dir):
    source = fixtures_dir / "chat.mp4"
    run = sample(source)
    assert run.starts == text_changes(source) and len(run.frames) == 30
    assert_partition(run.frames, run.result["duration_ms"])
    objects = run.objects()
    assert set(objects) == {frame["path"] for frame in run.frames}
    for frame in run.frames:
        assert frame["path"] == f"frames/{VIDEO}/{frame['timestamp_ms']}.jpg"
        assert objects[frame["path"]].startswith(b"\xff\xd8\xff")
        assert frame["t_start"] <= frame["timestamp_ms"] < frame["t_end"]


def test_subtitles_over_a_moving_picture_keep_their_times(sample, fixtures_dir):
    source = fixtures_dir / "subtitles.mp4"
    run = sample(source)
    missed = [time for time in text_changes(source) if time not in run.starts]
    # a lower third and a subtitle come one frame apart: the state between stood for 40 ms
    assert missed in ([], [3000])
    assert len(run.frames) <= 3 * 19, "a picture that moves behind the text floods the list"
    lists = [json.loads((run.store / key).read_text()) for key in run.result["frame_paths"]]
    assert [frame for part in lists for frame in part["frames"]] == run.frames
    assert len(lists) == -(-len(run.frames) // 32) > 1 and lists[0]["duration_ms"] == run.result["duration_ms"]
    again = sample(source, target_fps=1)
    left = {f"frames/{VIDEO}/{path.name}" for path in (run.store / "frames" / VIDEO).glob("*.json")}
    assert left == set(again.result["frame_paths"]) != set(run.result["frame_paths"])


def test_scrolling_keeps_a_frame_every_third_of_the_viewport_and_is_followed_to_the_pixel(sample, fixtures_dir):
    source = fixtures_dir / "feed.mp4"
    run = sample(source)
    assert len(run.frames) <= 25
    assert_partition(run.frames, run.result["duration_ms"])
    moved = [frame for frame in run.frames if frame["dy"]]
    assert len(moved) >= 10
    for frame in moved:
        assert -900 < frame["dy"] < 0 and frame["dx"] == 0
        last = frame["motion"][-1]
        assert last[1:] == [frame["dx"], frame["dy"]] and last[0] <= frame["timestamp_ms"]
    # A line's way through the viewport, by the truth, is as long as the motion says.
    position = {0: 0}
    offset = 0
    for frame in run.frames[1:]:
        for time, _, dy in frame.get("motion", []):
            position[time] = offset + dy
        offset += frame["dy"] or 0
    times = sorted(position)
    # a line that comes into view whole at the bottom leaves whole at the top after the same way
    ways = []
    for line in truth(source)["lines"]:
        start, end = line["t_start_ms"], line["t_end_ms"]
        if start == 0 or end >= run.result["duration_ms"]:
            continue
        first = position[max(time for time in times if time <= start)]
        last = position[max(time for time in times if time < end)]
        ways.append(first - last)
    assert len(ways) >= 20
    middle = sorted(ways)[len(ways) // 2]
    near = [way for way in ways if abs(way - middle) <= 130]  # one step of a flick, and a line
    assert len(near) >= 0.9 * len(ways)


def test_an_hour_of_nothing_costs_a_handful_of_frames(sample, fixtures_dir):
    run = sample(fixtures_dir / "edge" / "still_hour.mp4")
    assert len(run.frames) <= 3
    assert run.frames[-1]["t_end"] == 3600000


@pytest.mark.parametrize("name", ["portrait", "rotated", "odd_sized", "variable_rate", "silent",
                                  "fps120", "one_frame", "first_and_last",
                                  "no_key_frame_for_20_s"])
def test_edge_cases_keep_every_text(sample, fixtures_dir, name):
    source = fixtures_dir / "edge" / f"{name}.mp4"
    run = sample(source)
    assert run.starts == text_changes(source)
    assert_partition(run.frames, run.result["duration_ms"])


def test_a_single_pixel_is_a_video(sample, fixtures_dir):
    run = sample(fixtures_dir / "edge" / "one_pixel.mkv")
    assert (run.result["width"], run.result["height"]) == (1, 1)
    assert len(run.frames) == 1


CUES = '''1
00:00:00,500 --> 00:00:02,000
<i>Did you see</i> <font color="red">#Berlin</font>
at night?

2
00:00:02,100 --> 00:00:03,000
Did you see #Berlin at night?

3
00:00:02,500 --> 00:00:02,900
{\\an8}Both speak: €3,50

4
00:00:03,500 --> 00:00:03,900
<b> </b>

5
00:00:04,000 --> 00:00:05,250
Grüße & Küsse
'''
ROLLING = ["First row", "First row\nSecond  row", "Second row", "Second row\nThird row\n4th row", "Third row\n4th row\nFifth row", "Said in\ntwo rows"]


@pytest.mark.parametrize("name, codec", [("a.mkv", "subrip"), ("b.mkv", "ass"), ("c.mkv", "webvtt"), ("d.mp4", "mov_text")])
def test_text_tracks_are_lines_without_styling(sample, fixtures_dir, tmp_path, name, codec):
    """Those that go on are one line, empty ones none; of two tracks both, each in its language. An MP4 ends a line where
    the next one begins."""
    video = add_text_tracks(fixtures_dir / "edge" / "variable_rate.mp4", tmp_path / name, codec,
                            ("ger", CUES), ("eng", "1\n00:00:01,000 --> 00:00:02,000\nHi\n"))
    done = sample(video)
    assert done.done.returncode == 0, done.done.stderr
    lines = {(line["text"], line["language"], line["t_start"], line["t_end"]) for line in done.result["subtitles"]}
    assert lines == {("Did you see #Berlin at night?", "deu", 500, 2500 if codec == "mov_text" else 3000), ("Both speak: €3,50", "deu", 2500, 2900),
                     ("Grüße & Küsse", "deu", 4000, 5250), ("Hi", "eng", 1000, 2000)}
    assert [(entity["type"], entity["value"]) for entity in done.result["subtitles"][0]["entities"]] == [("hashtag", "#Berlin")]


def test_captions_are_lines_from_a_track_and_from_the_pictures(sample, tmp_path):
    """Those of a picture are there once its last pair has come, one in a frame."""
    track, data = add_captions(tmp_path, (1, "Hello #bridge"), (3, "Second caption"), (5, ""))
    assert [line["text"] for line in sample(track).result["subtitles"]] == ["Hello #bridge", "Second caption"]
    lines = [(line["text"], line["t_start"] // 1000, line["t_end"] // 1000) for line in sample(data).result["subtitles"]]
    assert lines == [("Hello #bridge", 1, 3), ("Second caption", 3, 5)]


@pytest.mark.parametrize("ending", ["eng.srt", "en.vtt", "en-GB.ass"])
def test_a_file_beside_the_video_has_the_lines_of_the_same_in_it(sample, program, fixtures_dir, tmp_path, ending):
    video = add_text_tracks(fixtures_dir / "edge" / "variable_rate.mp4", tmp_path / "a.mkv", "ass" if "ass" in ending else "subrip",
                            ("eng", CUES))
    beside = sample(video).store / ORIGINAL.replace("mp4", ending)
    subprocess.run(["ffmpeg", "-v", "error", "-i", str(tmp_path / "a.0.srt"), str(beside)], check=True)
    done = subprocess.run([program("subtitles-worker"), "--once"], text=True, capture_output=True, check=True,
                          env={**os.environ, "STORE_URL": f"dir:{beside.parents[3]}"}, input=json.dumps(
                              {"video_id": VIDEO, "subtitles": ORIGINAL.replace("mp4", ending), "etag": "1"}))
    lines = json.loads(done.stdout)["lines"]
    assert len(lines) == 3 and lines == sample(video).result["subtitles"]


SPOKEN = {
    "eng": [(.52, 2, "Did you see the old bridge\nat night?"), (2.52, 3.52, "- No.\n- It was late, I'm afraid."), (3.6, 4, "We leave, and I stay."),
            (4, 5, "We leave, and I stay."), (6, 7, "Did you see the old bridge\nat night?")],
    "pol": [(1, 2.48, "Źrebię stoi na łące."), (3, 4, "Żółw świętował\nswoje urodziny.")],
}


def read_pictures(program, run):
    """What `ocr` makes of the result of `sample`."""
    assert run.done.returncode == 0, run.done.stderr
    done = subprocess.run([program("ocr-worker"), "--once"], text=True, capture_output=True, check=True,
                          env={**os.environ, "STORE_URL": f"dir:{run.store}"},
                          input=json.dumps({"video_id": VIDEO, "frame_paths": run.result["frame_paths"]}))
    return json.loads(done.stdout)


@pytest.fixture
def film(tmp_path):
    return make_clip(tmp_path / "film.mp4", "-f lavfi -i color=gray:r=25:s=320x180:d=9 -g 25")


@pytest.mark.parametrize("name, codec, look", [
    ("a.mkv", "copy", {}), ("b.m2ts", "copy", {"fill": (230, 220, 40)}), ("c.ts", "dvbsub", {"screen": (720, 576), "size": 24, "stroke": 2}),
    ("d.mkv", "dvdsub", {"screen": (720, 576), "size": 26, "stroke": 2}), ("e.mkv", "copy", {"fill": (20, 20, 20), "outline": (240, 240, 240)})])
def test_tracks_of_pictures_have_the_lines_of_text_tracks(sample, program, film, tmp_path, name, codec, look):
    """In the language of their track, to a frame. M2TS does not say which that is: then the models of the video read it."""
    tracks = [(language, events) for language, events in SPOKEN.items() if codec == "copy" and name != "b.m2ts" or language == "eng"]
    cues = ["".join(f"{n}\n00:00:{start:06.3f} --> 00:00:{end:06.3f}\n{text}\n\n".replace(".", ",", 2)
                    for n, (start, end, text) in enumerate(events)) for _, events in tracks]
    wanted = sample(add_text_tracks(film, tmp_path / "text.mkv", "subrip", *zip([track[0] for track in tracks], cues))).result["subtitles"]
    run = sample(add_picture_tracks(film, tmp_path / name, codec, *tracks, **look))
    result = read_pictures(program, run)
    lines = result["subtitles"]
    assert result["unread"] == [] and [line["text"] for line in lines] == [line["text"] for line in wanted]
    for line, other in zip(lines, wanted):
        assert abs(line["t_start"] - other["t_start"]) <= 40 and abs(line["t_end"] - other["t_end"]) <= 40, (line, other)
        assert line.get("language") == (None if name == "b.m2ts" else other["language"])
    kept = list((run.store / "frames" / VIDEO).glob("*.*.jpg"))
    assert len(kept) == len({text for _, events in tracks for _, _, text in events}), "a picture is kept, and read, once"


def test_a_broken_track_of_pictures_loses_only_itself(sample, program, film, tmp_path):
    """A track in a language without a model says so, too. Both are told as what was not read."""
    video = add_picture_tracks(film, tmp_path / "a.mkv", "copy", ("pol", [(.2, .4, "Gone gone gone.")]), ("eng", SPOKEN["eng"]),
                               ("hin", [(1, 2, "abc"), (3, 4, "def")]))
    data = video.read_bytes()
    at = data.index(struct.pack(">HHB", 1920, 1080, 0x10))  # the first event: its pixels end before their size says so
    size = data.index(b"\0\0\0\xc0", at)
    video.write_bytes(data[:size + 4] + b"\0\0\5" + data[size + 7:])
    result = read_pictures(program, sample(video))
    assert {line["text"] for line in result["subtitles"]} == {text.replace("\n", " ") for _, _, text in SPOKEN["eng"]}
    assert sorted((entry["script"], entry["lines"]) for entry in result["unread"]) == [("pictures", 1), ("pictures_hin", 2)]


NO_SUBTITLES = {
    "is in UTF-16": (CUES.encode("utf-16"), "UnsupportedMedia", "UTF-16; save the file as UTF-8"),
    "is in Latin-1": (CUES.replace("€", "").encode("latin-1"), "UnsupportedMedia", "not in UTF-8; save the file as UTF-8"),
    "is a video": (b"\0\0\0\x20ftypisom" + bytes(1000), "UnsupportedMedia", "no text"),
    "is empty": (b"", "UnsupportedMedia", "no line with a time"),
    "has no times": (b"Dear all,\n\nI am no subtitles.\n" * 1000, "UnsupportedMedia", "no line with a time"),
    "is huge": (b"1\n00:00:01,000 --> 00:00:02,000\nHi\n\n" * 250000, "LimitExceeded", "8 MiB"),
}


@pytest.mark.parametrize("what", NO_SUBTITLES)
def test_a_file_that_is_no_subtitles_is_refused_with_its_reason(program, store_dir, what):
    data, kind, reason = NO_SUBTITLES[what]
    beside = store_dir / ORIGINAL.replace("mp4", "srt")
    beside.parent.mkdir(parents=True)
    beside.write_bytes(data)
    done = subprocess.run([program("subtitles-worker"), "--once"], text=True, capture_output=True, check=False,
                          env={**os.environ, "STORE_URL": f"dir:{store_dir}"}, input=json.dumps(
                              {"video_id": VIDEO, "subtitles": ORIGINAL.replace("mp4", "srt"), "etag": "1"}))
    error = json.loads(done.stdout)["error"]
    assert (done.returncode, error["type"]) == (65, kind) and reason in error["message"], error


def test_rows_that_roll_up_are_one_line_each(sample, program, film, fixtures_dir, tmp_path):
    """Those of other events are one line together; in a track of text and in one of pictures."""
    rolled = [("First row", 0, 1900), ("Second row", 1000, 3900), ("4th row", 3000, 4900), ("Third row", 3000, 4900),
              ("Fifth row", 4000, 4900), ("Said in two rows", 5000, 5900)]
    cues = "".join(f"{n}\n00:00:0{n},000 --> 00:00:0{n},900\n{text}\n\n" for n, text in enumerate(ROLLING))
    done = sample(add_text_tracks(fixtures_dir / "edge" / "variable_rate.mp4", tmp_path / "a.mkv", "subrip", ("eng", cues)))
    assert done.done.returncode == 0, done.done.stderr
    assert [(line["text"], line["t_start"], line["t_end"]) for line in done.result["subtitles"]] == rolled
    shown = [(n, n + .9, text) for n, text in enumerate(ROLLING)]
    lines = read_pictures(program, sample(add_picture_tracks(film, tmp_path / "b.mkv", "copy", ("eng", shown))))["subtitles"]
    assert [(line["text"], line["t_start"], line["t_end"]) for line in lines] == rolled


def test_the_rotated_video_is_sampled_upright(sample, fixtures_dir):
    run = sample(fixtures_dir / "edge" / "rotated.mp4")
    assert (run.result["width"], run.result["height"]) == (640, 360)


def test_frames_of_a_run_with_other_settings_are_removed(sample, fixtures_dir):
    stale = f"frames/{VIDEO}/99999999.jpg"
    run = sample(fixtures_dir / "edge" / "portrait.mp4")
    (run.store / stale).write_bytes(b"left by an earlier run")
    neighbour = run.store / "frames" / str(uuid.uuid4()) / "0.jpg"
    neighbour.parent.mkdir()
    neighbour.write_bytes(b"of another video")
    again = sample(fixtures_dir / "edge" / "portrait.mp4", target_fps=5)
    assert stale not in again.objects()
    assert neighbour.exists()


def make_counter(clip, size):
    """Six seconds of a number that changes in every one of 30 frames a second."""
    filters = ("drawtext=fontfile=/usr/share/fonts/truetype/dejavu/DejaVuSans.ttf"
               ":text='%{frame_num}':x=40:y=80:fontsize=48:fontcolor=black")
    subprocess.run(["ffmpeg", "-v", "error", "-f", "lavfi", "-i",
                    f"color=c=white:s={size}:r=30:d=6", "-vf", filters, "-c:v", "libx264",
                    "-pix_fmt", "yuv420p", str(clip)], check=True)


# A process starts with the peak of the one that it was forked from, so a small one has to do that.
PEAK_OF_CHILD = """
import resource, subprocess, sys
subprocess.run(sys.argv[1:], stdout=subprocess.DEVNULL, check=True)
print(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss)
"""


def test_memory_does_not_grow_with_the_frames_kept(program, store_dir, tmp_path):
    clip = store_dir / ORIGINAL
    clip.parent.mkdir(parents=True)
    make_counter(clip, "1280x720")
    payload = tmp_path / "payload.json"
    payload.write_text(json.dumps({"video_id": VIDEO, "s3_original_path": ORIGINAL,
                                   "target_fps": 60}))
    environment = {**os.environ, "STORE_URL": f"dir:{store_dir}",
                   "ASAN_OPTIONS": "quarantine_size_mb=8"}
    with payload.open() as stdin:
        peak = subprocess.run([sys.executable, "-c", PEAK_OF_CHILD, program("sample-worker"), "--once"],
                              stdin=stdin, env=environment, stdout=subprocess.PIPE,
                              stderr=subprocess.DEVNULL, check=True).stdout
    assert len(list((store_dir / "frames" / VIDEO).glob("*.jpg"))) >= 150
    assert int(peak) <= 256 * 1024, "kilobytes; 150 pictures of 1280x720 are 400 MB"


def test_a_text_that_changes_in_every_frame_is_kept_at_the_target_rate(sample, tmp_path):
    clip = tmp_path / "counter.mp4"
    make_counter(clip, "320x240")
    for rate in (5, 10):
        run = sample(clip, target_fps=rate)
        assert rate * 6 * 0.9 <= len(run.frames) <= rate * 6 + 2
        pauses = [frame["t_end"] - frame["t_start"] for frame in run.frames]
        assert max(pauses) <= 1000 / rate + 34, "one frame of the source late at most"


@pytest.mark.parametrize("name", ["garbage", "zero_bytes", "text", "audio_only",
                                  "truncated_index"])
def test_what_is_no_video_fails_for_good_and_leaves_nothing(sample, fixtures_dir, name):
    run = sample(fixtures_dir / "edge" / f"{name}.mp4")
    assert run.done.returncode == 65
    assert run.result["error"]["type"] == "NotAVideo"
    assert run.objects() == {}


def test_of_each_file_that_is_no_video_it_says_what_it_is(sample, tmp_path):
    sentences = make_unreadable_files(tmp_path)
    runs = {name: sample(tmp_path / name) for name in sentences}
    assert {name: run.result.get("error", {}).get("message") for name, run in runs.items()} == sentences
    assert {run.done.returncode for run in runs.values()} == {65}
    assert {run.result["error"]["type"] for run in runs.values()} == {"NotAVideo", "UnsupportedMedia", "DecodeError"}
    assert not list((runs["empty.mp4"].store / "frames").glob("*/*"))


def test_a_missing_original_fails_for_good(sample):
    run = sample(None)
    assert run.done.returncode == 65
    assert run.result["error"]["message"].startswith("the original is no longer in the store")


@pytest.mark.parametrize("wrong", [{"target_fps": 0}, {"target_fps": 61}, {"target_fps": "10"},
                                   {"dedupe_threshold": -0.1}, {"dedupe_threshold": 1.5},
                                   {"video_id": "../x"}, {"s3_original_path": "../etc/passwd"}])
def test_a_wrong_payload_is_refused(sample, fixtures_dir, wrong):
    run = sample(fixtures_dir / "edge" / "one_frame.mp4", **wrong)
    assert run.done.returncode == 65
    assert run.result["error"]["type"] in ("InvalidPayload", "InvalidKey")
    assert run.objects() == {}
