"""The clip_generate stage through --once: exact frames, exact sound."""
import math
import re
import uuid

import pytest
from media_tools import (Stage, difference, digest, frame_times, grey_frames, make_clip, packets,
                         probe, shown_between, sound, streams)


@pytest.fixture
def stage(program, store_dir):
    return Stage(program("clip-generate-worker"), store_dir)


def clip(stage, source, t_start, t_end, padding_ms=0, **more):
    code, result = stage.run(s3_original_path=stage.put_original(source), clip_id=str(uuid.uuid4()),
                             t_start=t_start, t_end=t_end, padding_ms=padding_ms, **more)
    assert code == 0, result
    path = stage.store / result["clip_path"]
    if "format" in more:
        assert path.suffix == f".{more['format']}" and result["mode"] == "encode"
    else:
        check_playable(path, result)
    return result, path


def check_playable(path, result):
    data = path.read_bytes()
    assert data.index(b"moov") < data.index(b"mdat")
    found = streams(path)
    video = found["video"]
    assert (video["codec_name"], video["codec_tag_string"], video["pix_fmt"]) == (
        "h264", "avc1", "yuv420p")
    assert float(video["start_time"]) == 0
    assert float(video["duration"]) == pytest.approx(result["duration_us"] / 1e6, abs=0.001)
    assert int(video["nb_frames"]) == result["frames"]
    if "audio" in found:
        audio = found["audio"]
        assert (audio["codec_name"], audio["channels"], audio["sample_rate"]) == ("aac", 2, "48000")
        assert float(audio["start_time"]) == pytest.approx(0, abs=0.001)
        assert float(audio["duration"]) == pytest.approx(float(video["duration"]), abs=0.001)


def check_frames(source, path, start, end):
    """The clip has exactly the frames that the source shows from start to end, at their times."""
    times = frame_times(source)
    shown = shown_between([t - times[0] for t in times], start, end)
    wanted = [i for i, _ in shown]
    assert frame_times(path) == pytest.approx([time for _, time in shown], abs=2e-6)
    originals, copies = grey_frames(source), grey_frames(path)
    for i, position in enumerate(wanted):
        assert difference(copies[i], originals[position]) < 3
    for copy, position in ((copies[0], wanted[0]), (copies[-1], wanted[-1])):
        neighbours = [p for p in (position - 1, position + 1) if 0 <= p < len(originals)]
        assert all(difference(copy, originals[position]) < difference(copy, originals[p])
                   for p in neighbours)


@pytest.fixture(scope="module")
def moving(tmp_path_factory):
    """MOVING at a rate, made once."""
    made = {}

    def make(rate=30):
        if rate not in made:
            made[rate] = make_clip(tmp_path_factory.mktemp("moving") / "a.mp4",
                                   MOVING.format(rate=rate))
        return made[rate]

    return make


# Every frame differs from its neighbours, key frames are far apart, B-frames are in use.
MOVING = ("-f lavfi -i testsrc2=s=320x240:r={rate}:d=8 -f lavfi -i "
          "aevalsrc=0.5*sin(2*PI*(200+50*t)*t):d=8:s=48000 -c:v libx264 -g 100 -bf 3 -c:a aac")


RANGES = [(1317, 3204), (0, 1000), (4000, 4001), (6500, 9999)]


@pytest.mark.sanitized(3)
@pytest.mark.parametrize("rate, start, end", [("30000/1001", *one) for one in RANGES] + [
    (rate, *one) for rate in ("30", "60", "25") for one in RANGES[::3]])
def test_frames_are_exact(stage, moving, rate, start, end):
    source = moving(rate)
    result, path = clip(stage, source, start, end)
    check_frames(source, path, start / 1000, min(end / 1000, 8))
    assert result["t_start"] == start
    if end < 8000:
        assert result["duration_us"] == 1000 * (end - start)


@pytest.mark.parametrize("name", ["a.mkv", "a.ts", "a.avi", "a.webm"])
def test_other_containers(stage, tmp_path, name):
    codecs = {"a.webm": "-c:v libvpx -b:v 1M -deadline realtime -cpu-used 8 -g 60 -c:a libopus",
              "a.avi": "-c:v mpeg4 -q:v 3 -g 60 -c:a libmp3lame",
              "a.ts": "-c:v libx264 -g 60 -bf 2 -c:a aac",
              "a.mkv": "-c:v libx264 -g 60 -bf 2 -c:a flac"}[name]
    source = make_clip(tmp_path / name, "-f lavfi -i testsrc2=s=320x240:r=25:d=6 -f lavfi -i "
                       f"sine=d=6 {codecs}")
    zero = min(float(s["start_time"]) for s in probe(source, "-show_streams")["streams"])
    times = [t - zero for t in frame_times(source)]
    result, path = clip(stage, source, 3010, 4990)
    shown = shown_between(times, 3.010, 4.990)
    assert result["frames"] == len(shown) and result["duration_us"] == 1980000
    first = shown[0][0]
    assert result["first_frame_us"] == pytest.approx(times[first] * 1e6, abs=2)
    originals, copies = grey_frames(source), grey_frames(path)
    assert difference(copies[0], originals[first]) < 3
    assert difference(copies[0], originals[first]) < difference(copies[0], originals[first - 1])


# A click every half second, on even numbers of samples.
CLICKS = ("-f lavfi -i testsrc2=s=320x240:r=30:d=10 -f lavfi -i aevalsrc='lt(mod(t,0.5),0.01)*sin(2*PI*2000*t)':d=10:s=48000"
          " -c:v libx264 -g 30 -c:a pcm_s16le")


# One is encoded, the other copied from the middle of a group of pictures on; from a frame on, and from between two.
@pytest.mark.parametrize("group, mode, frames", [(300, "encode", {3000: 90, 2987: 91}), (30, "smart", {2500: 105, 2487: 106})])
def test_sound_is_exact(stage, tmp_path, group, mode, frames):
    source = make_clip(tmp_path / "a.mov", CLICKS.replace("-g 30", f"-g {group}"))
    for start, count in frames.items():
        result, path = clip(stage, source, start, 6000)
        assert (result["mode"], result["frames"], result["duration_us"]) == (mode, count, 1000 * (6000 - start))
        check_clicks(path, start, 6000)


def check_clicks(path, start, end):
    """As long as was asked, to the sample, with a click at each half second of the source (ms)."""
    assert float(streams(path)["audio"].get("duration", (end - start) / 1000)) == (end - start) / 1000
    samples = sound(path)
    for moment in range(-(-start // 500) * 500, end, 500):
        wanted = 48 * (moment - start)
        onset = next(i for i in range(max(wanted - 200, 0), len(samples)) if abs(samples[i]) > 6000)
        assert onset == pytest.approx(wanted, abs=48)


def test_padding_and_clamping(stage, moving):
    source = moving()
    result, path = clip(stage, source, 1000, 7500, padding_ms=2000)
    assert (result["t_start"], result["t_end"], result["frames"]) == (0, 8000, 240)
    code, result = stage.run(s3_original_path=stage.put_original(source), t_start=4000, t_end=5000,
                             clip_id=str(uuid.uuid4()))
    assert (code, result["t_start"], result["t_end"], result["frames"]) == (0, 2000, 7000, 150)


def test_variable_rate_and_standing_pictures(stage, tmp_path):
    source = make_clip(tmp_path / "a.mkv", "-f lavfi -i testsrc2=s=320x240:r=50:d=12 -vf "
                       "select='lt(t,3)+gte(t,9)' -fps_mode passthrough -c:v libx264")
    # Around the pause, in the middle of it, and from it into the pictures behind it.
    for start, end, frames in ((2500, 9500, 50), (5000, 7000, 1), (8700, 9100, 6), (8990, 9010, 2)):
        result, path = clip(stage, source, start, end)
        assert (result["frames"], result["duration_us"]) == (frames, 1000 * (end - start))
        check_frames(source, path, start / 1000, end / 1000)


def test_rotation(stage, fixtures_dir):
    source = fixtures_dir / "awkward" / "internal_emulator_transformer_output_270_rotated.mp4"
    result, path = clip(stage, source, 1000, 2000, mode="encode")
    video = streams(path)["video"]
    assert (video["width"], video["height"]) == (720, 1280)
    assert "side_data_list" not in video
    check_frames(source, path, 1, 2)
    # Copied pictures lie as they were, and the players turn them.
    result, path = clip(stage, source, 0, 2000)
    video = streams(path)["video"]
    assert (result["mode"], video["width"], video["height"]) == ("smart", 1280, 720)
    assert (result["width"], result["height"]) == (720, 1280)
    assert (video["side_data_list"][0]["rotation"]
            == streams(source)["video"]["side_data_list"][0]["rotation"])
    check_frames(source, path, 0, 2)


def test_what_is_copied_and_what_is_not(stage, tmp_path):
    """Only what lies between the start and the next key frame is encoded, and no reordered tail."""
    source = make_clip(tmp_path / "a.mp4", "-f lavfi -i testsrc2=s=320x240:r=30:d=12 -c:v libx264 "
                       "-g 60 -keyint_min 60 -sc_threshold 0 -bf 0")
    for start, end, copied in ((2000, 9000, 210), (0, 5550, 167), (3000, 9010, 151)):
        result, _ = clip(stage, source, start, end)
        assert (result["mode"], result["copied_frames"]) == ("smart", copied)
    result, path = clip(stage, source, 2000, 9000, mode="encode")
    assert (result["mode"], result["copied_frames"]) == ("encode", 0)
    assert "encoded_because" not in result
    result, _ = clip(stage, source, 2100, 3900)
    assert (result["mode"], result["encoded_because"]) == (
        "encode", "no key frame starts within the range")


@pytest.mark.parametrize("options, words", [
    ("-c:v libx265 -x265-params log-level=none", "not H.264"),
    ("-c:v libx264 -pix_fmt yuv444p", "4:2:0"),
    ("-c:v libx264 -flags +ildct+ilme -x264-params interlaced=1", "interlaced"),
    ("-c:v libx264 -x264-params intra-refresh=1:keyint=30", "no key frame"),
])
def test_what_cannot_be_copied_is_encoded(stage, tmp_path, options, words):
    source = make_clip(tmp_path / "a.mkv", f"-f lavfi -i testsrc2=s=320x240:r=30:d=6 {options}")
    result, path = clip(stage, source, 2100, 5900)
    assert result["mode"] == "encode" and words in result["encoded_because"]
    assert result["frames"] == (228 if words == "interlaced" else 114)  # a picture for each field


def test_parameter_sets_that_change_are_encoded(stage, tmp_path):
    """Two recordings with encoders of their own, joined in one stream."""
    parts = [make_clip(tmp_path / f"{i}.ts", "-f lavfi -i testsrc2=s=320x240:r=30:d=3 -c:v libx264 "
                       f"-g 30 -x264-params {params} -output_ts_offset {3 * i}")
             for i, params in enumerate(("ref=1:cabac=0", "ref=4:cabac=1"))]
    source = tmp_path / "joined.ts"
    source.write_bytes(b"".join(part.read_bytes() for part in parts))
    result, path = clip(stage, source, 1500, 4500)
    assert (result["mode"], result["frames"]) == ("encode", 91)
    result, path = clip(stage, source, 300, 1900)
    assert (result["mode"], result["frames"]) == ("smart", 48)


def test_an_existing_clip_is_left_alone(stage, moving):
    source = moving()
    clip_id = str(uuid.uuid4())
    payload = {"s3_original_path": stage.put_original(source), "clip_id": clip_id, "t_start": 1000,
               "t_end": 2000}
    code, first = stage.run(**payload)
    assert (code, first["skipped"]) == (0, False)
    path = stage.store / first["clip_path"]
    before = (digest(path), path.stat().st_mtime_ns)
    (stage.store / payload["s3_original_path"]).unlink()  # not even read
    code, second = stage.run(**payload)
    assert (code, second["skipped"], second["clip_path"]) == (0, True, first["clip_path"])
    assert (digest(path), path.stat().st_mtime_ns) == before


def test_smaller_silent_and_cropped(stage, tmp_path, moving):
    source = moving()
    result, path = clip(stage, source, 1000, 3000, max_height=120)
    assert (result["width"], result["height"], result["mode"]) == (160, 120, "encode")
    check_frames(source, path, 1, 3)
    result, path = clip(stage, source, 0, 6000, max_height=240, mute=True)
    assert (result["height"], result["mode"], result["sound"]) == (240, "smart", False)
    assert set(streams(path)) == {"video"}
    result, path = clip(stage, source, 1000, 3000, mute=True, mode="encode")
    assert set(streams(path)) == {"video"} and result["frames"] == 60
    part = make_clip(tmp_path / "part.mp4", f"-i {source} -an -vf crop=130:90:64:48 -c:v libx264 "
                     "-qp 0")
    result, path = clip(stage, source, 1000, 3000,
                        crop={"x": 64, "y": 48, "width": 130, "height": 90})
    assert (result["width"], result["height"], result["frames"]) == (130, 90, 60)
    check_frames(part, path, 1, 3)


def test_the_picture_of_one_moment(stage, moving):
    source = moving()
    originals = grey_frames(source)
    key = stage.put_original(source)
    for moment, frame in ((0, 0), (1040, 31), (1033, 30), (7999, 239)):
        code, result = stage.run(s3_original_path=key, clip_id=str(uuid.uuid4()), t_start=moment,
                                 format="jpg")
        assert code == 0, result
        assert result["first_frame_us"] == pytest.approx(frame * 1e6 / 30, abs=2)
        path = stage.store / result["clip_path"]
        assert path.suffix == ".jpg"
        picture = grey_frames(path)[0]
        near = [difference(picture, originals[k]) for k in range(max(frame - 1, 0),
                                                                 min(frame + 2, 240))]
        assert min(near) == difference(picture, originals[frame]) < 3
    code, result = stage.run(s3_original_path=key, clip_id=str(uuid.uuid4()), t_start=500,
                             format="jpg", crop={"x": 10, "y": 20, "width": 200, "height": 100},
                             max_height=50)
    video = streams(stage.store / result["clip_path"])["video"]
    assert (video["width"], video["height"]) == (100, 50)
    code, result = stage.run(s3_original_path=key, clip_id=str(uuid.uuid4()), t_start=8000,
                             format="jpg")
    assert (code, result["error"]["type"]) == (65, "OutsideVideo")


def test_a_video_ends_with_the_longer_of_pictures_and_sound(stage, tmp_path):
    """Whether its sound is wanted or not: up to there, its last picture can be had."""
    for name, pictures, heard in (("long.mp4", 2, 5), ("short.mp4", 5, 2)):
        source = make_clip(tmp_path / name, f"-f lavfi -i testsrc2=s=320x240:r=25:d={pictures} -f lavfi -i "
                           f"sine=d={heard} -c:v libx264 -g 10 -c:a aac")
        for more in ({}, {"mute": True}, {"mode": "encode"}, {"mode": "encode", "mute": True}):
            result, path = clip(stage, source, 1510, 9000, **more)
            assert (result["mode"], result["sound"]) == (more.get("mode", "smart"), not more.get("mute", False))
            assert result["duration_us"] == pytest.approx(3490000, abs=25000)  # AAC ends with a block
            check_frames(source, path, 1.51, 9)
        code, result = stage.run(s3_original_path=stage.put_original(source), clip_id=str(uuid.uuid4()), t_start=4900,
                                 format="jpg")
        assert (code, result["first_frame_us"]) == (0, 1960000 if pictures == 2 else 4880000)


def test_webm(stage, tmp_path):
    source = make_clip(tmp_path / "a.mov", CLICKS)
    result, path = clip(stage, source, 2500, 6000, format="webm", max_height=120)
    found = streams(path)
    assert (found["video"]["codec_name"], found["audio"]["codec_name"]) == ("vp9", "opus")
    assert (found["video"]["width"], found["video"]["height"]) == (160, 120)
    assert frame_times(path) == [math.ceil(1000 * k / 30) / 1000 for k in range(105)]
    originals, copies = grey_frames(source), grey_frames(path)
    for copy, position in ((copies[0], 75), (copies[-1], 179)):
        own = difference(copy, originals[position])
        assert own < 6 and all(own < difference(copy, originals[position + step]) for step in (-1, 1))
    check_clicks(path, 2500, 6000)


def test_gif(stage, tmp_path):
    source = make_clip(tmp_path / "a.mov", CLICKS)
    result, path = clip(stage, source, 2500, 4010, format="gif",
                        crop={"x": 0, "y": 0, "width": 200, "height": 160}, max_height=80)
    assert streams(path)["video"]["width"] == 100 and result["sound"] is False
    # How long each picture stands, hundredths of a second: graphic control extensions.
    delays = [int.from_bytes(found[1], "little") for found in
              re.finditer(rb"\x21\xf9\x04.(..).\x00[\x2c\x21]", path.read_bytes(), re.DOTALL)]
    assert len(delays) == result["frames"] == len(frame_times(path))
    assert sum(delays) == pytest.approx(result["duration_us"] / 10000, abs=1)
    assert 1.51 * 20 < len(delays) <= 1.51 * 25 + 1  # a second has no more than 25
    part = make_clip(tmp_path / "part.mp4", f"-i {source} -an -vf crop=200:160:0:0 -c:v libx264 -qp 0")
    originals, copies = grey_frames(part), grey_frames(path)
    own = difference(copies[0], originals[75])
    assert own < 8 and own < difference(copies[0], originals[74])
    code, result = stage.run(s3_original_path=stage.put_original(source), t_start=0, t_end=60_001,
                             clip_id=str(uuid.uuid4()), format="gif")
    assert (code, result["error"]["type"]) == (65, "InvalidPayload")
    assert "GIF" in result["error"]["message"]


@pytest.mark.parametrize("change, words", [
    ({"t_start": 2000, "t_end": 2000}, "t_end"),
    ({"t_start": 3000, "t_end": 2000}, "t_end"),
    ({"t_start": -1}, "t_start"),
    ({"t_start": "1000"}, "t_start"),
    ({"t_end": 1500.5}, "t_end"),
    ({"t_end": 10**15}, "t_end"),
    ({"t_end": 7_200_000}, "longer than the limit"),
    ({"padding_ms": -5}, "padding_ms"),
    ({"clip_id": "../../x"}, "clip_id"),
    ({"mode": "fast"}, "\"smart\" or \"encode\""),
    ({"mode": 1}, "mode"),
    ({"format": "avi"}, "\"mp4\" or"),
    ({"max_height": 0}, "max_height"),
    ({"max_height": "720"}, "max_height"),
    ({"mute": 1}, "mute"),
    ({"crop": [0, 0, 64, 64]}, "crop"),
    ({"crop": {"x": 0, "y": 0, "width": 64}}, "height"),
    ({"crop": {"x": -2, "y": 0, "width": 64, "height": 64}}, "x"),
    ({"crop": {"x": 300, "y": 0, "width": 64, "height": 64}}, "the crop reaches over the edge of a picture of 320x240"),
    ({"t_start": 60_000, "t_end": 61_000}, "the clip begins at 60000 ms, and the video ends at 8"),
    ({"t_start": 8_100, "t_end": 9_000}, "before the video's end"),
])
def test_ranges_are_checked(stage, moving, change, words):
    key = stage.put_original(moving())
    payload = {"s3_original_path": key, "clip_id": str(uuid.uuid4()), "t_start": 1000,
               "t_end": 2000, **change}
    code, result = stage.run(**payload)
    assert (code, result["error"]["type"]) == (65, "OutsideVideo" if words.startswith("the ") or "video's end" in words else "InvalidPayload"), result
    assert words in result["error"]["message"]
    assert stage.keys() == []


def test_hostile_originals(stage, fixtures_dir):
    for name, error_type in (("sample_audio_only.mp4", "NotAVideo"), ("sample_fragmented_clearkey.mp4",
                             "UnsupportedMedia"), ("invalid-bitstream.webm", "DecodeError")):
        key = stage.put_original(fixtures_dir / "awkward" / name)
        code, result = stage.run(s3_original_path=key, clip_id=str(uuid.uuid4()), t_start=0,
                                 t_end=1000)
        assert (code, result["error"]["type"]) == (65, error_type)
    assert stage.keys() == []


def test_awkward_originals(stage, fixtures_dir):
    for name in ("sample.avi", "sample.flv", "testsrc.mkv", "edit_list_positive_shift.mp4",
                 "sample_shorter_audio.mp4", "roadtrip-vp92-10bit.webm", "hlg10-color-test.mp4",
                 "sample_with_pgs_subtitles.mkv", "bear-vp9-odd-dimensions.webm"):
        result, path = clip(stage, fixtures_dir / "awkward" / name, 100, 900)
        assert result["frames"] == len(packets(path, "v:0"))


def test_what_does_not_pass_the_check_is_encoded(stage, tmp_path):
    """A picture in the middle is damaged, which its packet does not show: decoding the cut does."""
    source = make_clip(tmp_path / "a.mp4", "-f lavfi -i testsrc2=s=320x240:r=30:d=6 -c:v libx264 -g 30 "
                       "-keyint_min 30 -sc_threshold 0 -bf 0 -x264-params slices=1")
    found = probe(source, "-select_streams", "v:0", "-show_entries", "packet=pos,size")["packets"][105]
    data = bytearray(source.read_bytes())
    start = int(found["pos"]) + int(found["size"]) // 2
    data[start:start + 60] = bytes(255 - byte for byte in data[start:start + 60])
    source.write_bytes(data)
    code, result = stage.run(s3_original_path=stage.put_original(source), t_start=1500, t_end=5500,
                             padding_ms=0, clip_id=str(uuid.uuid4()))
    assert (code, result["mode"]) == (0, "encode"), result
    assert "of the cut is damaged" in result["encoded_because"]


def test_a_long_clip(stage, tmp_path):
    """Of more pictures than are decoded to check it."""
    source = make_clip(tmp_path / "a.mp4", "-f lavfi -i testsrc2=s=64x48:r=120:d=90 -c:v libx264 "
                       "-preset ultrafast -bf 2 -g 240")
    result, path = clip(stage, source, 1001, 88_004)
    shown = shown_between([k / 120 for k in range(90 * 120)], 1.001, 88.004)
    assert (result["mode"], result["frames"]) == ("smart", len(shown))
    times, copies = frame_times(path), grey_frames(path)
    originals = grey_frames(source)[shown[0][0]:shown[-1][0] + 1]
    assert times == pytest.approx([time for _, time in shown], abs=2e-6)
    assert copies[500:-500] == originals[500:-500]  # bit by bit
    for k in (0, 1, 118, 119, -2, -1):
        assert difference(copies[k], originals[k]) < 3
