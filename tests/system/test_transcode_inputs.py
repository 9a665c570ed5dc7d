"""Awkward originals, made by ffmpeg, through the transcode stage: a table of what is strange and of what
has to come out."""
import pytest
from media_tools import (Stage, frame_times, grey_frames, make_clip, multivariant, packets, sound,
                         streams)

TS_OFFSET = 1.4
PICTURE = "-f lavfi -i testsrc=s=320x240:r=25:d=2"
TONE = "-f lavfi -i sine=d=2:r=44100"
X264 = "-c:v libx264 -preset ultrafast -pix_fmt yuv420p"

# name: (extension, what ffmpeg is told, what the result says, sizes of the renditions)
INPUTS = {
    "fragmented": ("mp4", f"{PICTURE} {TONE} {X264} -c:a aac -movflags frag_keyframe+empty_moov",
                   {"duration": 2.0, "audio_codec": "aac"}, ["320x240"]),
    "matroska": ("mkv", f"{PICTURE} {TONE} {X264} -c:a libmp3lame", {"audio_codec": "mp3"},
                 ["320x240"]),
    "webm": ("webm", f"{PICTURE} {TONE} -c:v libvpx -deadline realtime -c:a libopus",
             {"video_codec": "vp8", "audio_codec": "opus"}, ["320x240"]),
    "quicktime": ("mov", f"{PICTURE} {TONE} -c:v mjpeg -c:a pcm_s16be",
                  {"video_codec": "mjpeg", "audio_codec": "pcm_s16be"}, ["320x240"]),
    "transport stream": ("ts", f"{PICTURE} {TONE} {X264} -c:a aac -muxdelay 3", {}, ["320x240"]),
    "avi": ("avi", f"{PICTURE} {TONE} -c:v mpeg4 -bf 2 -c:a mp3", {"video_codec": "mpeg4"},
            ["320x240"]),
    "gif": ("gif", PICTURE, {"video_codec": "gif", "audio_codec": None}, ["320x240"]),
    "no sound": ("mp4", f"{PICTURE} {X264}", {"audio_codec": None, "audio_channels": None},
                 ["320x240"]),
    "mono at 8 kHz": ("mp4", f"{PICTURE} -f lavfi -i sine=d=2:r=8000 {X264} -c:a aac -ac 1",
                      {"audio_channels": 1, "audio_sample_rate": 8000}, ["320x240"]),
    "5.1": ("mkv", f"{PICTURE} -f lavfi -i anoisesrc=d=2:a=0.1 {X264} -c:a ac3 -ac 6",
            {"audio_channels": 6}, ["320x240"]),
    "two tracks": ("mkv", f"{PICTURE} {TONE} {TONE} -map 0 -map 1 -map 2 {X264} -c:a aac",
                   {"audio_streams": 2}, ["320x240"]),
    "sound ends early": ("mp4", f"{PICTURE} -f lavfi -i sine=d=0.5 {X264} -c:a aac",
                         {"duration": 2.0}, ["320x240"]),
    "sound goes on": ("mp4", f"{PICTURE} -f lavfi -i sine=d=5 {X264} -c:a aac",
                      {"duration": 5.0, "frames": 50}, ["320x240"]),
    "pictures come late": ("mkv", f"-f lavfi -i sine=d=5 -itsoffset 2.5 {PICTURE} -map 0 -map 1 "
                           f"{X264} -c:a aac", {"frames": 50}, ["320x240"]),
    "still and sound": ("mp4", "-f lavfi -i testsrc=s=320x240:r=1:d=1 -f lavfi -i sine=d=9 "
                        f"{X264} -c:a aac", {"duration": 9.0, "frames": 1}, ["320x240"]),
    "ten bits": ("mkv", f"{PICTURE} -c:v libx265 -x265-params log-level=error -pix_fmt yuv420p10le",
                 {"pixel_format": "yuv420p10le"}, ["320x240"]),
    "4:4:4 of twelve bits": ("mkv", f"{PICTURE} -c:v ffv1 -pix_fmt yuv444p12le", {}, ["320x240"]),
    "RGB": ("avi", f"{PICTURE} -c:v rawvideo -pix_fmt bgr24", {"pixel_format": "bgr24"},
            ["320x240"]),
    "PQ": ("mp4", f"{PICTURE} -c:v libx265 -x265-params log-level=error -pix_fmt yuv420p10le "
           "-vf setparams=color_trc=smpte2084:color_primaries=bt2020:colorspace=bt2020nc",
           {"high_dynamic_range": True}, ["320x240"]),
    "interlaced": ("ts", f"{PICTURE} -vf tinterlace=interleave_top -c:v mpeg2video -flags "
                   "+ildct+ilme", {"interlaced": True, "frames": 50}, ["320x240"]),
    "PAL": ("mpg", "-f lavfi -i testsrc=s=720x576:r=25:d=2 -vf setsar=64/45 -c:v mpeg2video",
            {"resolution": "1024x576"}, ["1024x576", "854x480", "640x360"]),
    "tall": ("mp4", "-f lavfi -i testsrc=s=480x1080:r=10:d=1 " + X264, {},
             ["480x1080", "442x992", "330x744"]),
    "ribbon": ("mp4", "-f lavfi -i testsrc=s=1400x64:r=5:d=1 " + X264, {}, ["1400x64", "1280x58"]),
    "no key frame": ("mp4", f"-f lavfi -i testsrc=s=320x240:r=10:d=9 {X264} -g 999 -keyint_min 999 "
                     "-sc_threshold 0", {"frames": 90}, ["320x240"]),
    "29.97": ("mp4", f"-f lavfi -i testsrc=s=320x240:r=30000/1001:d=9 {X264}",
              {"fps": 29.97, "variable_frame_rate": False}, ["320x240"]),
}


@pytest.fixture
def stage(program, store_dir, monkeypatch):
    monkeypatch.setenv("CORTANA_SEGMENTS", "ts")
    return Stage(program("transcode-worker"), store_dir)


def transcode(stage, source, **options):
    """The result, and the folder of the playlists; the output is flawless."""
    code, result = stage.run(s3_original_path=stage.put_original(source), **options)
    assert code == 0, result
    stage.check_output()
    return result, (stage.store / result["s3_proxy_path"]).parent


def largest(result, folder):
    return folder / f"{result['renditions'][0]['name']}.m3u8"


@pytest.mark.parametrize("name", sorted(INPUTS))
def test_inputs(stage, tmp_path, name):
    extension, arguments, expected, sizes = INPUTS[name]
    source = make_clip(tmp_path / f"a.{extension}", arguments)
    result, folder = transcode(stage, source, renditions=[1080, 720, 480, 360])
    assert {key: result[key] for key in expected} == {
        key: pytest.approx(value, abs=0.05) if isinstance(value, float) else value
        for key, value in expected.items()}
    assert [rendition["name"] for rendition in result["renditions"]] == sizes
    assert result["damaged_frames"] == 0
    pictures = grey_frames(largest(result, folder))
    assert max(pictures[-1]) - min(pictures[-1]) > 100


def test_every_time_of_the_source_is_in_every_rendition(stage, tmp_path):
    """A telephone's rate: 60, then 20, then a stop of a second and a half."""
    source = make_clip(tmp_path / "a.mkv", "-f lavfi -i testsrc=s=640x480:r=60:d=8 -vf "
                       "select='lt(t,2)+gte(t,2)*lt(t,4)*not(mod(n,3))+gte(t,5.5)' "
                       "-fps_mode passthrough -c:v libx264 -preset ultrafast")
    result, folder = transcode(stage, source, renditions=[480, 240])
    wanted = {round(t * 90000) for t in frame_times(source)}
    assert len(result["renditions"]) == 2
    for rendition in result["renditions"]:
        times = {round((float(p["pts_time"]) - TS_OFFSET) * 90000)
                 for p in packets(folder / f"{rendition['name']}.m3u8", "v:0")}
        assert wanted <= times and len(times - wanted) <= 1  # a picture shown again at a key time


def test_full_range_becomes_ordinary(stage, tmp_path):
    """Greys of a full-range source come out as the same greys."""
    source = make_clip(tmp_path / "a.mov", "-f lavfi -i color=0x404040:s=320x240:r=10:d=1 -vf "
                       "scale=out_range=full,format=yuvj420p -c:v mjpeg -q:v 2")
    result, folder = transcode(stage, source)
    assert streams(largest(result, folder))["video"].get("color_range", "tv") == "tv"
    assert grey_frames(largest(result, folder))[0][2000] == pytest.approx(0x40, abs=3)


def test_woven_half_pictures_become_whole(stage, tmp_path):
    """A bar that moves between the half-pictures leaves a comb; afterwards there is none."""
    source = make_clip(tmp_path / "a.ts", "-f lavfi -i color=black:s=320x240:r=50:d=2 -f lavfi -i "
                       "color=white:s=40x240:r=50:d=2 -filter_complex "
                       "[0][1]overlay=x=mod(n*8\\,280),tinterlace=interleave_top -c:v mpeg2video "
                       "-q:v 2 -flags +ildct+ilme")
    result, folder = transcode(stage, source)

    def comb(path):
        worst = 0
        for grey in grey_frames(path, 320, 240)[5:20]:
            rows = [grey[y * 320:(y + 1) * 320] for y in range(100, 120)]
            worst = max(worst, sum(abs(a - b) > 100 for one, other in zip(rows, rows[1:])
                                   for a, b in zip(one, other)))
        return worst

    assert comb(source) > 100  # a woven picture: neighbouring lines differ
    assert comb(largest(result, folder)) < comb(source) / 10


def test_colours_are_named_alike_in_every_rendition(stage, tmp_path):
    source = make_clip(tmp_path / "a.mp4", "-f lavfi -i testsrc=s=1280x720:r=5:d=1 -c:v libx264")
    result, folder = transcode(stage, source, renditions=[1080, 720, 480, 360])
    assert len(result["renditions"]) == 3
    for rendition in result["renditions"]:
        video = streams(folder / f"{rendition['name']}.m3u8")["video"]
        assert (video["color_space"], video["color_transfer"]) == ("bt709", "bt709")


def test_sound_does_not_move(stage, tmp_path):
    """A beep at 1.000 s beside pictures that come 40 ms after the sound's beginning."""
    source = make_clip(tmp_path / "a.mov", "-f lavfi -i aevalsrc='gt(t,1)*sin(2*PI*1000*t)':d=3 "
                       "-itsoffset 0.04 -f lavfi -i testsrc=s=320x240:r=25:d=2.9 -c:v libx264 "
                       "-c:a pcm_s16le")
    result, folder = transcode(stage, source)
    samples = sound(folder / "sound.m3u8")
    assert next(i for i, s in enumerate(samples) if abs(s) > 8000) / 48000 == pytest.approx(
        1.0, abs=0.001)
    times = [float(p["pts_time"]) - TS_OFFSET for p in packets(largest(result, folder), "v:0")]
    assert sorted(times)[:3] == pytest.approx([0, 0.04, 0.08], abs=1e-4)


CHUNK = {"number": 0, "from": 8000, "until": 4000}


@pytest.mark.parametrize("payload, words", [
    ({"video_id": "nonsense"}, "video_id"), ({"s3_original_path": "../../etc/passwd"}, "s3_original_path"),
    ({"s3_original_path": 7}, "s3_original_path"), ({"s3_original_path": None}, "s3_original_path"),
    ({"renditions": "1080"}, "renditions"), ({"renditions": []}, "renditions"),
    ({"renditions": [1000]}, "1080, 720"), ({"renditions": [360] * 9}, "renditions"),
    ({"renditions": [-1]}, "renditions"), ({"renditions": [True]}, "renditions"),
    ({"segments": "mp4"}, "segments"), ({"segments": 1}, "segments"), ({"segments": ["ts"]}, "segments"),
    ({"split": "half"}, "split"), ({"split": "plan"}, "split_seconds"), ({"split": "plan", "split_seconds": 1}, "split_seconds"),
    ({"split": "chunk"}, "chunks"), ({"split": "chunk", "chunks": [{"number": 0, "from": 1}]}, "chunk"),
    ({"split": "chunk", "chunks": [CHUNK]}, "chunk"), ({"split": "join", "chunks": [7]}, "chunk"), ({"split": "join", "chunks": {}}, "chunks")])
def test_what_cannot_be_asked_for(stage, payload, words):
    code, result = stage.run(**{"s3_original_path": "videos/original/a/master.mp4", **payload})
    assert (code, result["error"]["type"]) == (65, "InvalidPayload")
    assert words in result["error"]["message"]


def test_what_can_be_asked_for(stage, tmp_path):
    source = make_clip(tmp_path / "a.mp4", f"{PICTURE} {X264}")
    result, folder = transcode(stage, source, renditions=[240])
    assert [r["name"] for r in result["renditions"]] == ["320x240"]
    variants, groups = multivariant(folder / "index.m3u8")
    assert (len(variants), groups) == (1, [])
