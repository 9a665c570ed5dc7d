"""The transcode stage through --once: what comes out, measured with ffprobe."""
import struct
import subprocess

import pytest
from media_tools import (TS_OFFSET, Stage, difference, digest, frame_times, grey_frames, make_clip,
                         multivariant, packets, playlist, sound, streams, turn)

PROXY = "videos/proxy/{}/index.m3u8"
POSTER = "thumbs/{}/poster.jpg"


@pytest.fixture
def stage(program, store_dir, monkeypatch):
    monkeypatch.setenv("CORTANA_SEGMENTS", "ts")
    return Stage(program("transcode-worker"), store_dir)


def transcode(stage, source, **options):
    """Runs the stage on a file; checks what holds for every output; (result, path of the largest
    rendition's playlist)"""
    code, result = stage.run(s3_original_path=stage.put_original(source), **options)
    assert code == 0, result
    assert result["s3_proxy_path"] == PROXY.format(stage.video_id)
    assert result["s3_thumb_path"] == POSTER.format(stage.video_id)
    summary = stage.check_output()
    assert summary["renditions"] == len(result["renditions"])
    assert summary["duration"] == pytest.approx(result["duration"], abs=0.002)
    assert summary["sound"] == (result["audio_codec"] is not None)
    path = (stage.store / result["s3_proxy_path"]).parent / f"{result['renditions'][0]['name']}.m3u8"
    check_rendition(path, result["renditions"][0])
    return result, path


def check_rendition(path, rendition):
    """What ffprobe says of a rendition: the check of the output shares no code with the writer, but
    FFmpeg's own programs share none with either."""
    found = streams(path)
    assert list(found) == ["video"]
    video = found["video"]
    assert (video["codec_name"], video["pix_fmt"], video["profile"]) == ("h264", "yuv420p", "High")
    assert (video["width"], video["height"]) == (rendition["width"], rendition["height"])
    assert video["sample_aspect_ratio"] == "1:1"
    assert "side_data_list" not in video
    assert float(video["start_time"]) == pytest.approx(TS_OFFSET, abs=1e-4)


def rendition_times(path):
    return [t - TS_OFFSET for t in sorted(float(p["pts_time"]) for p in packets(path, "v:0"))]


def sound_of(path):
    return sound(path.parent / "sound.m3u8")


def key_times(path):
    return [float(p["pts_time"]) - TS_OFFSET for p in packets(path, "v:0") if "K" in p["flags"]]


def test_times_of_the_source_are_kept_in_every_rendition(stage, tmp_path):
    source = make_clip(tmp_path / "a.mp4", "-f lavfi -i testsrc=s=360x640:r=60:d=7 -c:v libx264 "
                       "-preset ultrafast -bf 2")
    result, path = transcode(stage, source, renditions=[360, 240])
    times = frame_times(source)
    expected = [t - times[0] for t in times]
    assert (result["resolution"], result["fps"]) == ("360x640", pytest.approx(60, abs=0.01))
    assert [r["name"] for r in result["renditions"]] == ["360x640", "240x426"]
    for rendition in result["renditions"]:
        path = path.with_name(f"{rendition['name']}.m3u8")
        assert rendition_times(path) == pytest.approx(expected, abs=2e-5)
        assert key_times(path) == pytest.approx([0, 2, 4, 6], abs=1e-4)


def test_poster_shows_something(stage, tmp_path):
    # Two seconds of black, then a picture.
    source = make_clip(tmp_path / "a.mp4", "-f lavfi -i color=black:s=320x240:r=25:d=2 -f lavfi -i "
                       "testsrc=s=320x240:r=25:d=1 -filter_complex [0][1]concat -c:v libx264")
    result, _ = transcode(stage, source)
    poster = stage.store / result["s3_thumb_path"]
    picture = streams(poster)["video"]
    assert (picture["codec_name"], picture["width"], picture["height"]) == ("mjpeg", 320, 240)
    grey = grey_frames(poster)[0]
    assert max(grey) - min(grey) > 150


@pytest.mark.parametrize("rate, expected", [(120, 60), (90, 60), (60, 60), (240, 60), (24, 24)])
def test_rate_is_capped_at_60(stage, tmp_path, rate, expected):
    source = make_clip(tmp_path / "a.mp4",
                       f"-f lavfi -i testsrc=s=160x120:r={rate}:d=4 -c:v libx264")
    result, path = transcode(stage, source)
    assert result["fps"] == pytest.approx(rate, abs=0.01)
    times = rendition_times(path)
    assert len(times) == pytest.approx(expected * 4, abs=2)
    source_times = {round(t * 90000) for t in frame_times(source)}
    assert {round(t * 90000) for t in times} <= source_times


def announce(path, milliseconds):
    """Writes a length into an MP4's movie header, track header and edit list."""
    data = bytearray(path.read_bytes())
    for box, offset in ((b"mvhd", 20), (b"tkhd", 24), (b"elst", 12)):
        struct.pack_into(">I", data, data.index(box) + offset, milliseconds)
    path.write_bytes(data)


LAST_WAITS = "if(eq(N\\,9)\\,60/TB\\,PTS)", 10
ALL_WAIT = "if(gte(N\\,9)\\,PTS+60/TB\\,PTS)", 30


# FFmpeg 5.1 gives the last picture the duration of the others, FFmpeg 7.1 none: its edit list ends where that picture
# begins, and leaves it out.
@pytest.mark.parametrize("pictures, announced", [(LAST_WAITS, 60.1), (LAST_WAITS, 60), (LAST_WAITS, 40),
                                                 (LAST_WAITS, 5), (ALL_WAIT, 63), (ALL_WAIT, 62.9)])
def test_a_pause_of_a_minute_is_filled(stage, tmp_path, pictures, announced):
    times, count = pictures
    source = make_clip(tmp_path / "a.mp4", f"-f lavfi -i testsrc=s=160x120:r=10:d={count / 10} -vf "
                       f"setpts={times} -fps_mode passthrough -c:v libx264")
    announce(source, round(announced * 1000))
    result, path = transcode(stage, source)
    segments, target = playlist(path)
    assert target <= 5 and len(segments) >= announced // 4
    times = rendition_times(path)
    assert max(b - a for a, b in zip(times, times[1:])) <= 2.001
    assert set(round(t, 3) for t in frame_times(source)) <= set(round(t, 3) for t in times)
    assert result["duration"] == pytest.approx(announced, abs=0.001)


def test_sound_stays_with_the_picture(stage, tmp_path):
    # A flash and a beep at 3.000 s; the beep's first loud sample tells.
    source = make_clip(tmp_path / "a.mp4", "-f lavfi -i color=black:s=160x120:r=30:d=6 -f lavfi -i "
                       "aevalsrc='gt(t,3)*sin(2*PI*1000*t)':d=6:s=44100 -vf "
                       "drawbox=c=white:t=fill:enable='gte(t,3)' -c:v libx264 -c:a pcm_s16le "
                       "-f mov")
    _, path = transcode(stage, source)
    samples = sound_of(path)
    onset = next(i for i, s in enumerate(samples) if abs(s) > 8000) / 48000
    times = rendition_times(path)
    white = next(i for i, grey in enumerate(grey_frames(path)) if grey[0] > 128)
    assert times[white] == pytest.approx(3.0, abs=1e-4)
    assert onset == pytest.approx(3.0, abs=0.001)
    assert len(samples) / 48000 == pytest.approx(6.0, abs=0.03)


@pytest.mark.parametrize("degrees, size", [(90, "120x320"), (180, "320x120"), (270, "120x320")])
def test_rotation_is_applied_once(stage, tmp_path, degrees, size):
    source = make_clip(tmp_path / "a.mp4", "-f lavfi -i color=black:s=320x120:r=10:d=1 -vf "
                     "drawbox=w=160:h=60:c=white:t=fill -c:v libx264 -pix_fmt yuv420p")
    turn(source, degrees)
    result, path = transcode(stage, source)
    assert result["resolution"] == size
    video = streams(path)["video"]
    assert f"{video['width']}x{video['height']}" == size
    upright = grey_frames(source)[5]  # ffmpeg turns it by itself
    assert difference(grey_frames(path)[5], upright) < 4


def test_every_field_of_interlaced_pictures_is_shown(stage, tmp_path):
    # Pictures of fifty instants a second, two in each frame, line by line: what was not made whole before it was
    # turned keeps a comb, column by column.
    moving = "-f lavfi -i testsrc2=s=320x240:r=50:d=1,scroll=horizontal=0.02"
    instants = grey_frames(make_clip(tmp_path / "instants.mkv", f"{moving} -c:v ffv1"), 320, 240)
    source = make_clip(tmp_path / "a.mp4", f"{moving},interlace=scan=bff:lowpass=off -c:v libx264 -qp 10 "
                       "-flags +ildct+ilme -x264-params bff=1")
    upright, path = transcode(stage, source)
    assert (upright["frames"], upright["fps"]) == (50, pytest.approx(50, abs=0.01))
    assert rendition_times(path) == pytest.approx([n / 50 for n in range(50)], abs=2e-5)
    expected = grey_frames(path, 320, 240)
    for n in range(2, 48):
        away = [difference(expected[n], instants[n + step]) for step in (-1, 0, 1)]
        assert min(away) == away[1], (n, away)
    woven = grey_frames(source, 320, 240)
    assert all(difference(woven[n], expected[2 * n]) > 5 for n in range(1, 24))
    turned = make_clip(tmp_path / "b.mp4", f"-i {source} -c copy -metadata:s:v rotate=90")
    result, path = transcode(stage, turned)
    assert (upright["interlaced"], result["interlaced"], result["rotation"]) == (True, True, 270)
    found = grey_frames(path, 240, 320)
    assert len(found) == 50
    for one, other in zip(found[1:-1:8], expected[1:-1:8]):
        back = bytes(one[(319 - x) * 240 + y] for y in range(240) for x in range(320))
        assert difference(back, other) < 2.5


def test_every_track_of_sound(stage, tmp_path):
    # Tones of 300, 600, 900 and 1200 Hz; the second starts late, the third ends early.
    source = make_clip(tmp_path / "a.mkv", "-f lavfi -i testsrc=s=320x240:r=25:d=6 -f lavfi -i "
                       "sine=300:d=6 -itsoffset 2 -f lavfi -i sine=600:d=4 -f lavfi -i sine=900:d=3 "
                       "-f lavfi -i sine=1200:d=6 -map 0 -map 1 -map 2 -map 3 -map 4 -c:v libx264 "
                       "-preset ultrafast -c:a:0 aac -c:a:1 libopus -c:a:2 flac -c:a:3 mp3 "
                       "-metadata:s:a:0 language=eng -metadata:s:a:1 language=ger "
                       "-metadata:s:a:2 language=ger -metadata:s:a:3 title=\"Talk\" "
                       "-disposition:a:0 default")
    result, path = transcode(stage, source)
    assert result["audio_streams"] == 4
    variants, groups = multivariant(path.with_name("index.m3u8"))
    assert all(v["AUDIO"] == "sound" for v in variants)
    assert [(g["NAME"], g.get("LANGUAGE"), g["DEFAULT"], g["AUTOSELECT"], g["URI"]) for g in groups] == [
        ("en", "en", "YES", "YES", "sound.m3u8"), ("de", "de", "NO", "YES", "sound_2.m3u8"),
        ("de (3)", "de", "NO", "NO", "sound_3.m3u8"), ("Talk", None, "NO", "YES", "sound_4.m3u8")]
    for group, tone, (begin, end) in zip(groups, (300, 600, 900, 1200), ((0, 6), (2, 6), (0, 3), (0, 6))):
        samples = sound(path.with_name(group["URI"]))
        for second in range(6):
            part = samples[second * 48000 + 12000:second * 48000 + 36000]
            crossings = sum(a < 0 <= b for a, b in zip(part, part[1:])) * 2
            wanted = tone if begin <= second < end else 0
            assert crossings == pytest.approx(wanted, abs=6) or (wanted == 0 and max(part) < 200)


def test_silent_and_odd(stage, fixtures_dir):
    result, path = transcode(stage, fixtures_dir / "awkward" / "bear-vp9-odd-dimensions.webm")
    assert result["resolution"] == "161x121"
    assert result["audio_codec"] is None and result["audio_channels"] is None
    assert [(r["width"], r["height"]) for r in result["renditions"]] == [(160, 120)]


def test_a_change_of_size_in_mid_stream(stage, tmp_path):
    wide = make_clip(tmp_path / "a.ts", "-f lavfi -i testsrc=s=320x240:r=25:d=1 -c:v libx264")
    tall = make_clip(tmp_path / "b.ts", "-f lavfi -i testsrc=s=240x320:r=25:d=1 -c:v libx264 "
                     "-output_ts_offset 1")
    source = make_clip(tmp_path / "c.ts", f"-i concat:{wide}|{tall} -c copy -copyts")
    result, path = transcode(stage, source)
    assert result["frames"] == 50
    last = grey_frames(path, 320, 240)[-1]
    assert max(last[120 * 320:120 * 320 + 60]) < 24  # black beside the tall picture
    assert max(last[120 * 320 + 80:120 * 320 + 240]) > 100


def test_a_second_run_leaves_the_same_objects(stage, tmp_path, fixtures_dir):
    transcode(stage, make_clip(tmp_path / "a.mp4",
                               "-f lavfi -i testsrc=s=160x120:r=25:d=13 -c:v libx264"))
    assert len(stage.keys()) == 10
    result, path = transcode(stage, fixtures_dir / "awkward" / "testsrc.mkv")
    assert [key.rpartition("/")[2] for key in stage.keys()] == [
        "poster.jpg", "sprite_000.webp", "thumbnails.vtt", "640x360.m3u8", "640x360_keys.m3u8",
        "index.m3u8", "segment_640x360_00000.ts", "segment_sound_00000.ts", "sound.m3u8"]
    before = {key: digest(stage.store / key) for key in stage.keys()}
    again, _ = transcode(stage, fixtures_dir / "awkward" / "testsrc.mkv")
    for one in (result, again):  # renditions are encoded side by side, and end in any order
        one["artifacts"].sort(key=lambda artifact: artifact["key"])
    assert again == result
    assert {key: digest(stage.store / key) for key in stage.keys()} == before


def test_no_object_shows_memory_that_nothing_was_written_to(stage, tmp_path):
    """A sheet of sprites whose last row is not full, sides that no block of a codec divides, sound that ends early."""
    source = stage.put_original(make_clip(
        tmp_path / "a.mp4", "-f lavfi -i testsrc=s=322x178:r=25:d=13 -f lavfi -i sine=d=5 -c:v libx264 -c:a aac"))
    found = []
    for byte in ("0", "85", "170"):  # which glibc fills allocated memory with; 0: whatever was there
        code, result = stage.run({"MALLOC_PERTURB_": byte}, s3_original_path=source)
        assert code == 0, result
        found.append({key: digest(stage.store / key) for key in stage.keys()})
    assert found[0] == found[1] == found[2]


# Upright size, frames in the source, duration in seconds.
AWKWARD = {
    "SAR-2by3.mp4": ("427x360", 60, 2.020),
    "bbb_176x144_128kbps_15fps_h263.3gp": ("176x144", 15, 1.0),
    "bear-vp9-odd-dimensions.webm": ("161x121", 30, 1.001),
    "cover-h264-mjpeg.mp4": ("640x360", 60, 2.020),
    "dolbyVision-hdr.MOV": ("720x1280", 4, 0.25),  # 0.133 s: with sound, Chromium does not begin with less
    "edit_list_positive_shift.mp4": ("1920x1080", 270, 10.005),
    "hlg10-color-test.mp4": ("1920x1080", 9, 0.3),
    "iibbibb_editlist_videoonly.mp4": ("704x576", 12, 12.5),
    "internal_emulator_transformer_output_270_rotated.mp4": ("720x1280", 149, 4.972),
    "roadtrip-vp92-10bit.webm": ("426x240", 72, 3.002),
    "sample.avi": ("960x400", 96, 4.087),
    "sample.flv": ("1080x720", 30, 1.089),
    "sample_android_slow_motion.mp4": ("1280x720", 7, 0.525),
    "sample_edit_list_only_preroll_sync_sample.mp4": ("640x360", 16, 0.533),
    "sample_empty_track.mp4": ("1080x720", 30, 1.089),
    "sample_fragmented.mp4": ("1080x720", 30, 1.068),
    "sample_missing_stsd.mp4": ("1080x720", 30, 1.001),
    "sample_rotate_and_reflect.mp4": ("720x1080", 30, 1.089),
    "sample_shorter_audio.mp4": ("320x240", 72, 1.2),
    "sample_with_pgs_subtitles.mkv": ("1080x720", 30, 1.010),
    "segments-without-init.mp4": ("640x360", 240, 8.0),
    "test_yuv422p.mp4": ("640x360", 60, 2.020),
    "testsrc.mkv": ("640x360", 60, 2.043),
}


@pytest.mark.parametrize("name", sorted(AWKWARD))
def test_awkward_files(stage, fixtures_dir, name):
    resolution, frames, duration = AWKWARD[name]
    result, path = transcode(stage, fixtures_dir / "awkward" / name, renditions=[360])
    assert (result["resolution"], result["frames"]) == (resolution, frames)
    assert result["duration"] == pytest.approx(duration, abs=0.01)
    assert result["damaged_frames"] == 0
    assert len(rendition_times(path)) <= 61 * max(result["duration"], 1)


@pytest.mark.parametrize("options", [
    "-f lavfi -i testsrc=s=160x120:r=25:d=1 -f lavfi -i sine=d=2.5 -c:v libx264 -c:a aac a.mp4",
    "-f lavfi -i testsrc=s=160x120:r=25:d=1 -f lavfi -i sine=d=2.5 -c:v libvpx -c:a libopus a.webm",
    "-f lavfi -i testsrc=s=160x120:r=25:d=1 -f lavfi -i sine=d=2.5 -c:v mpeg2video -c:a mp2 a.ts",
    "-f lavfi -i testsrc=s=160x120:r=25:d=2 -f lavfi -i sine=d=1.5 -c:v ffv1 -c:a pcm_s16le a.mkv",
    "-f lavfi -i testsrc=s=160x120:r=25:d=0.04 -f lavfi -i sine=d=0.1 -c:v ffv1 -c:a pcm_s16le a.mkv",
])
def test_sample_names_the_same_duration(program, stage, tmp_path, options):
    """It often ends before transcode, and a clip may be asked for up to the end."""
    *options, name = options.split()
    source = make_clip(tmp_path / name, " ".join(options))
    sampler = Stage(program("sample-worker"), stage.store)
    code, early = sampler.run(s3_original_path=sampler.put_original(source, name))
    assert code == 0, early
    code, result = stage.run(s3_original_path=stage.put_original(source, name))
    assert code == 0, result
    assert early["duration_ms"] / 1000 == pytest.approx(result["duration"], abs=0.0015)


def test_pixels_are_made_square(stage, fixtures_dir):
    result, path = transcode(stage, fixtures_dir / "awkward" / "SAR-2by3.mp4")
    assert result["resolution"] == "427x360"
    assert [rendition["name"] for rendition in result["renditions"]] == ["426x360"]
    poster = streams(stage.store / result["s3_thumb_path"])["video"]
    assert (poster["width"], poster["height"]) == (426, 360)


HOSTILE = {
    "sample_audio_only.mp4": ("NotAVideo", "only sound"),
    "sample_fragmented_clearkey.mp4": ("UnsupportedMedia", "encrypted"),
    "invalid-bitstream.webm": ("DecodeError", "vp9"),
    "no-samples-init.mp4": ("NotAVideo", "without its pictures"),
}


def inserted(data, parents, behind, box):
    """The bytes of an MP4 with one more box behind the first of a kind, and its parents as much longer."""
    at = data.index(behind) - 4
    at += int.from_bytes(data[at:at + 4], "big")
    for parent in parents:
        begin = data.index(parent, data.index(b"moov")) - 4
        size = int.from_bytes(data[begin:begin + 4], "big") + len(box)
        data = data[:begin] + size.to_bytes(4, "big") + data[begin + 4:]
    return data[:at] + box + data[at:]


def test_dolby_vision_without_another_base_is_refused(stage, tmp_path):
    """Its colours would be green and purple. With a base of HLG it is taken: dolbyVision-hdr.MOV."""
    source = make_clip(tmp_path / "a.mp4", "-f lavfi -i testsrc=s=160x120:r=10:d=1 -pix_fmt yuv420p10le -c:v libx265 "
                       "-x265-params log-level=none -tag:v hvc1").read_bytes()
    for name, profile, compatible in ((b"dvcC", 5, 0), (b"dvvC", 10, 0)):
        record = bytes([1, 0, profile << 1, 0x0d, compatible << 4]) + bytes(19)
        box = (8 + len(record)).to_bytes(4, "big") + name + record
        data = inserted(source, [b"moov", b"trak", b"mdia", b"minf", b"stbl", b"stsd", b"hvc1"], b"hvcC", box)
        check_refusal(stage, data, "UnsupportedMedia", "Dolby Vision")


def check_refusal(stage, data, error_type, words=""):
    code, result = stage.run(s3_original_path=stage.put_original(data))
    assert code == 65, result
    error = result["error"]
    assert (error["type"], error["retryable"]) == (error_type, False), error
    assert words in error["message"]
    assert stage.keys() == []


@pytest.mark.parametrize("name", sorted(HOSTILE))
def test_hostile_files_fail_clearly(stage, fixtures_dir, name):
    check_refusal(stage, fixtures_dir / "awkward" / name, *HOSTILE[name])


def test_a_codec_without_a_decoder(stage, fixtures_dir):
    """As FFmpeg 5.1 sees VVC, which 7.1 decodes."""
    video = (fixtures_dir / "awkward/sample_vvc.mp4").read_bytes()
    check_refusal(stage, video.replace(b"vvc1", b"none"), "UnsupportedMedia", "none")


@pytest.mark.parametrize("data", [b"", b"\x00" * 4096, b"Dear reader,\nno video here.\n" * 20,
                                  bytes(range(256)) * 400, b"\x00\x00\x00\x18ftypisom"],
                         ids=["empty", "zeros", "text", "garbage", "header"])
def test_what_is_no_video(stage, data):
    check_refusal(stage, data, "NotAVideo")


def test_pictures_and_lists_are_no_video(stage, tmp_path):
    check_refusal(stage, make_clip(tmp_path / "a.png", "-f lavfi -i testsrc=s=64x64 -frames:v 1"),
                  "NotAVideo")
    target = make_clip(tmp_path / "b.ts", "-f lavfi -i testsrc=s=64x64:d=1 -c:v libx264")
    check_refusal(stage, f"#EXTM3U\n#EXT-X-TARGETDURATION:1\n#EXTINF:1,\n{target}\n"
                         "#EXT-X-ENDLIST\n".encode(), "NotAVideo")
    check_refusal(stage, f"ffconcat version 1.0\nfile {target}\n".encode(), "NotAVideo")
    check_refusal(stage, f"<?xml version='1.0'?><MPD xmlns='urn:mpeg:dash:schema:mpd:2011' type='static' mediaPresentationDuration='PT1S'>"
                         f"<Period><AdaptationSet mimeType='video/mp2t'><Representation id='0' bandwidth='1'><BaseURL>{target}</BaseURL>"
                         "</Representation></AdaptationSet></Period></MPD>".encode(), "NotAVideo")
    check_refusal(stage, f"<svg xmlns='http://www.w3.org/2000/svg'><image href='file://{target}'/></svg>".encode(), "NotAVideo")


def elsewhere(movie, path):
    """A QuickTime film whose samples are said to be in another file: an alias with its name and place."""
    name = path.name.encode()
    alias = bytearray(150)
    alias[8:10] = b"\x00\x02"
    alias[10:10 + 28] = (b"\x05/root").ljust(28, b"\x00")
    alias[50:114] = bytes([min(len(name), 63)]) + name[:63].ljust(63, b"\x00")
    for kind, text in ((2, str(path).encode()), (18, str(path).encode())):
        alias += struct.pack(">HH", kind, len(text)) + text + b"\x00" * (len(text) % 2)
    alias += struct.pack(">HH", 0xffff, 0)
    entry = struct.pack(">I4sI", len(alias) + 12, b"alis", 0) + alias
    old = struct.pack(">I4sII", 28, b"dref", 0, 1) + struct.pack(">I4sI", 12, b"url ", 1)
    new = struct.pack(">I4sII", 16 + len(entry), b"dref", 0, 1) + entry
    assert movie.count(old) >= 1
    more, result, at = len(new) - len(old), bytearray(movie), 0
    while (at := result.find(old, at)) >= 0:  # every box around it grows
        for name in (b"moov", b"trak", b"mdia", b"minf", b"dinf"):
            box = result.rfind(name, 0, at) - 4
            result[box:box + 4] = struct.pack(">I", struct.unpack(">I", result[box:box + 4])[0] + more)
        result[at:at + len(old)] = new
        at += len(new)
    return bytes(result)


def test_no_other_file_is_read_for_a_film(stage, tmp_path):
    """Aliases of QuickTime lead to another file with the same samples: it is not opened, and there is no picture."""
    film = make_clip(tmp_path / "film.mov", "-f lavfi -i testsrc=s=64x64:r=5:d=2 -c:v mjpeg -pix_fmt yuvj420p")
    code, _ = stage.run(s3_original_path=stage.put_original(film))
    assert code == 0
    told = elsewhere(film.read_bytes(), film)
    (tmp_path / "told.mov").write_bytes(told)
    read = subprocess.run(["ffmpeg", "-v", "error", "-enable_drefs", "1", "-use_absolute_path", "1", "-i", str(tmp_path / "told.mov"),
                           "-f", "null", "-"], capture_output=True, text=True, check=False)
    assert (read.returncode, read.stderr) == (0, ""), "the file is well made: who follows it finds the samples"
    other = Stage(stage.program, stage.store)
    code, result = other.run(s3_original_path=other.put_original(told))
    assert code == 65 and result["error"]["type"] in ("NotAVideo", "DecodeError"), result


def test_pictures_beyond_the_limit(stage, tmp_path):
    source = make_clip(tmp_path / "a.avi", "-f lavfi -i color=s=16400x64:r=1:d=1 -frames:v 1 "
                       "-c:v mjpeg -pix_fmt yuvj420p")
    check_refusal(stage, source, "LimitExceeded", "16400")


@pytest.mark.parametrize("size, rendition", [((1, 1), (2, 2)), ((2, 2), (2, 2)),
                                             ((17, 3), (12, 2))])
def test_tiny_pictures(stage, tmp_path, size, rendition):
    raw = tmp_path / "a.rgb"
    raw.write_bytes(bytes(range(100, 150)) * 3 * size[0] * size[1])
    source = make_clip(tmp_path / "a.avi", f"-f rawvideo -pixel_format rgb24 -video_size "
                       f"{size[0]}x{size[1]} -framerate 5 -i {raw} -c:v rawvideo -pix_fmt bgr24")
    result, path = transcode(stage, source)
    assert result["resolution"] == f"{size[0]}x{size[1]}"
    video = streams(path)["video"]
    assert (video["width"], video["height"]) == rendition


def test_a_truncated_file_gives_what_it_has(stage, tmp_path):
    whole = make_clip(tmp_path / "a.mkv", "-f lavfi -i testsrc=s=320x240:r=25:d=8 -c:v libx264")
    data = whole.read_bytes()
    result, _ = transcode(stage, data[:len(data) // 2])
    assert 20 < result["frames"] < 180
    moov_at_end = make_clip(tmp_path / "b.mp4", "-f lavfi -i testsrc=d=2 -c:v libx264")
    data = moov_at_end.read_bytes()
    check = Stage(stage.program, stage.store)
    code, result = check.run(s3_original_path=check.put_original(data[:len(data) // 2]))
    assert (code, result["error"]["type"]) == (65, "NotAVideo")


def test_a_missing_original_is_named(stage):
    key = f"videos/original/{stage.video_id}/master.mp4"
    code, result = stage.run(s3_original_path=key)
    assert (code, result["error"]["type"]) == (65, "S3ObjectNotFound")
    assert "the original is no longer in the store" in result["error"]["message"]
    assert key not in result["error"]["message"]
