"""An original that browsers play is the largest rendition as it is; what does not fit is encoded, and says why."""
import struct

import pytest
from media_tools import Stage, frame_times, grey_frames, make_clip, playlist, probe
from pipeline import beginning

PICTURES = "-f lavfi -i testsrc2=s=320x240:r=25:d=9"
H264 = "-pix_fmt yuv420p -c:v libx264 -preset ultrafast -crf 36 -bf 3 -x264-params scenecut=0:keyint=70:b-pyramid=1:b-adapt=0"


@pytest.fixture(scope="module")
def source(tmp_path_factory):
    """Key pictures every 2.8 s, B-frames, sound."""
    return make_clip(tmp_path_factory.mktemp("copy") / "a.mp4", f"{PICTURES} -f lavfi -i sine=d=9 {H264} -c:a aac")


@pytest.fixture
def stage(program, store_dir):
    return Stage(program("transcode-worker"), store_dir)


def transcode(stage, path, **options):
    code, result = stage.run(s3_original_path=stage.put_original(path), **options)
    assert code == 0, result
    stage.check_output()
    folder = (stage.store / result["s3_proxy_path"]).parent
    return result, [folder / f"{r['name']}.m3u8" for r in result["renditions"]]


def composition_offsets(segment):
    """Of every picture of a segment, in ticks: the last member of each entry of its runs."""
    data, found, at = segment.read_bytes(), [], 0
    while (at := data.find(b"trun", at)) > 0:
        flags, count = struct.unpack_from(">II", data, at + 4)
        flags &= 0xffffff
        begin = at + 12 + 4 * bool(flags & 1) + 4 * bool(flags & 4)
        size = 4 * sum(bool(flags & bit) for bit in (0x100, 0x200, 0x400, 0x800))
        found += [struct.unpack_from(">i", data, begin + (i + 1) * size - 4)[0] if flags & 0x800 else 0
                  for i in range(count)]
        at += 4
    return found


def test_the_source_is_the_largest_rendition(stage, source, tmp_path):
    big = make_clip(tmp_path / "a.mp4", f"{PICTURES.replace('320x240', '640x480')} -f lavfi -i sine=d=9 {H264} -c:a aac")
    result, (largest, smaller) = transcode(stage, big, renditions=[480, 240])
    assert [r["copied"] for r in result["renditions"]] == [True, False]
    assert "encoded_because" not in result
    assert [r["frames"] for r in result["renditions"]] == [225, 225]
    # Cut at the first key picture behind each fourth second.
    durations = [d for d, _ in playlist(largest)[0]]
    assert durations == pytest.approx([5.6, 2.8, 0.6], abs=0.02)
    assert [d for d, _ in playlist(smaller)[0]] == durations
    assert grey_frames(largest) == grey_frames(big)
    # FFmpeg counts the times that browsers count: not late by what reordering needs, as with negative offsets.
    for path in (largest, smaller, largest.with_name("index.m3u8")):
        assert frame_times(path) == pytest.approx([n / 25 for n in range(225)], abs=2e-5)
    offsets = [o for _, segment in playlist(largest)[0] for o in composition_offsets(segment)]
    assert min(offsets) >= 0 and b"elst" in (largest.parent / "init_640x480.mp4").read_bytes()


def test_times_of_a_variable_rate_are_kept(stage, tmp_path):
    path = make_clip(tmp_path / "a.mkv", f"{PICTURES} -vf select=lt(mod(n\\,10)\\,3) -fps_mode passthrough {H264} -bf 0")
    result, (only,) = transcode(stage, path, renditions=[240])
    assert result["renditions"][0]["copied"] and result["variable_frame_rate"]
    assert result["frames"] == len(frame_times(path)) == len(grey_frames(only))
    assert result["sprite_tiles"] >= 8  # small pictures and a poster without any encoding


def test_a_second_run_that_encodes_leaves_no_segment_of_the_first(stage, source):
    transcode(stage, source, renditions=[240])
    result, _ = transcode(stage, source, renditions=[240], copy=False)
    assert result["encoded_because"] == "copying is switched off"
    assert not result["renditions"][0]["copied"]


@pytest.mark.parametrize("name, content, sides", [
    ("chat.mp4", "screen", [720]), ("subtitles.mp4", "any", [720, 480, 360])])
def test_screens_have_no_renditions_that_cannot_be_read(stage, fixtures_dir, tmp_path, name, content, sides):
    result, _ = transcode(stage, beginning(fixtures_dir / name, tmp_path))
    assert result["content"] == content
    assert [r["height"] for r in result["renditions"]] == sides


# What is wrong with a source: how ffmpeg makes it, and the reason.
REFUSED = {
    "long groups": (f"{PICTURES.replace('d=9', 'd=13')} {H264.replace('70', '999')}", "mp4", "more than 10 seconds apart"),
    "open groups": (f"{PICTURES.replace('d=9', 'd=13')} {H264}:open-gop=1", "mp4", "more than 10 seconds apart"),
    "10 bits": (f"{PICTURES} -pix_fmt yuv420p10le -c:v libx264 -preset ultrafast", "mp4", "8 bits"),
    "interlaced": (f"{PICTURES} {H264}:interlaced=1", "mp4", "interlaced"),
    "oblong pixels": (f"{PICTURES} {H264} -aspect 2:1", "mp4", "not square"),
    "another codec": (f"{PICTURES} -c:v mpeg4", "mp4", "not H.264"),
    "another container": (f"{PICTURES} {H264}", "ts", "neither MP4 nor Matroska"),
    "too many pictures": (f"{PICTURES.replace('r=25', 'r=120')} {H264}", "mp4", "more than 60"),
    "too many bits": (f"{PICTURES} {H264.replace('crf 36', 'crf 1')}", "mp4", "bits a second"),
    "another size": (f"{PICTURES.replace('320x240', '640x480')} {H264}", "mp4", "no rendition of its size"),
    "long reordering": (f"{PICTURES.replace('r=25', 'r=5')} {H264}", "mp4", "more than 0.2 s before they are shown"),
    "pauses within reordering": (f"{PICTURES} -vf select=lt(mod(n\\,10)\\,6) -fps_mode passthrough {H264}", "mp4", "more than its header says"),
    "a low level": (f"{PICTURES} {H264} -bsf:v h264_metadata=level=1", "mp4", "level"),
}


@pytest.mark.parametrize("name", sorted(REFUSED))
def test_what_does_not_qualify_is_encoded(stage, tmp_path, name):
    options, extension, words = REFUSED[name]
    result, _ = transcode(stage, make_clip(tmp_path / f"a.{extension}", options), renditions=[240])
    assert words in result["encoded_because"]
    assert [r["copied"] for r in result["renditions"]] == [False]


def test_what_is_asked_for_comes_first(stage, source):
    result, _ = transcode(stage, source, renditions=[240], segments="ts")
    assert "MPEG-TS" in result["encoded_because"]


@pytest.mark.parametrize("kind", ["turned bits", "a length", "an end"])
def test_damage_is_never_copied(stage, source, tmp_path, kind):
    data = bytearray(source.read_bytes())
    places = [int(p["pos"]) for p in probe(source, "-select_streams", "v:0", "-show_packets")["packets"]]
    if kind == "turned bits":
        at = places[71] + 40  # within the picture behind the second key picture
        data[at:at + 60] = bytes(b ^ 0xff for b in data[at:at + 60])
    elif kind == "a length":
        at = places[71]
        data[at:at + 4] = b"\x7f\xff\xff\xff"
    else:
        whole = make_clip(tmp_path / "b.mkv", f"-i {source} -c copy").read_bytes()
        data = whole[:len(whole) * 2 // 3]
    result, paths = transcode(stage, bytes(data), renditions=[240])
    assert result["encoded_because"] == ("it is cut off" if kind == "an end" else "it is damaged")
    assert not result["renditions"][0]["copied"] and 60 < result["frames"] <= 225
    assert len(grey_frames(paths[0])) == result["renditions"][0]["frames"]
