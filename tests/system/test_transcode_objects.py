"""Segments that share an object are byte ranges of it, with the bytes that they have as objects of their own."""
import re

import pytest
from media_tools import Stage, make_clip, packets
from test_transcode_split import folder_of, split

SETTING = "CORTANA_SEGMENT_OBJECT_SECONDS"
ENTRY = re.compile(r"#EXTINF:.*\n(?:#EXT-X-BYTERANGE:(\d+)@(\d+)\n)?(segment_\S+)\n")


@pytest.fixture(scope="module")
def source(tmp_path_factory):
    """Key pictures every 2 s, B-frames, sound; a last segment of 0.3 s, which the one before takes in."""
    return make_clip(tmp_path_factory.mktemp("objects") / "a.mp4", "-f lavfi -i testsrc2=s=426x240:r=20:d=20.3 -f lavfi -i sine=d=20.3 "
                     "-pix_fmt yuv420p -c:v libx264 -preset ultrafast -g 40 -bf 2 -x264-params scenecut=0 -c:a aac")


def transcode(program, store, source, **options):
    stage = Stage(program("transcode-worker"), store)
    code, result = stage.run(s3_original_path=stage.put_original(source), renditions=[240], **options)
    assert code == 0, result
    stage.check_output()
    return stage, result


def objects(folder, name):
    """Of a playlist: [(object, its segments' bytes)], whether they have ranges or not."""
    found = []
    for size, offset, name_of_object in ENTRY.findall((folder / name).read_text()):
        if not found or found[-1][0] != name_of_object:
            found.append((name_of_object, []))
        data = (folder / name_of_object).read_bytes()
        found[-1][1].append(data[int(offset):int(offset) + int(size)] if size else data)
    return found


def segments(folder, name):
    return [segment for _, some in objects(folder, name) for segment in some]


@pytest.mark.parametrize("options, seconds, numbers", [
    ({"segments": "ts"}, 8, ["00000", "00002", "00004"]), ({"segments": "fmp4", "copy": False}, 8, ["00000", "00002", "00004"]),
    ({"segments": "fmp4"}, 3600, ["00000"])], ids=["ts", "fmp4", "copied"])
def test_objects_hold_the_bytes_of_segments(program, tmp_path, source, monkeypatch, options, seconds, numbers):
    plain, expected = transcode(program, tmp_path / "plain", source, **options)
    monkeypatch.setenv(SETTING, str(seconds))
    stage, result = transcode(program, tmp_path / "objects", source, **options)
    assert result["renditions"] == expected["renditions"]
    for name in ("426x240", "sound"):
        there = objects(folder_of(stage), f"{name}.m3u8")
        assert [re.search(r"_(\d+)\.", one).group(1) for one, _ in there] == numbers
        assert segments(folder_of(stage), f"{name}.m3u8") == segments(folder_of(plain), f"{name}.m3u8")
        # Nothing lies in an object that no segment names.
        assert [b"".join(some) for _, some in there] == [(folder_of(stage) / one).read_bytes() for one, _ in there]
    assert packets(folder_of(stage) / "426x240.m3u8", "v:0") == packets(folder_of(plain) / "426x240.m3u8", "v:0")
    assert not [key for key in stage.keys() if re.search(r"segment_.*_0000[135]\.", key)]


def test_chunks_have_objects_of_their_own(program, store_dir, source, monkeypatch):
    monkeypatch.setenv(SETTING, "3600")
    stage, result, _ = split(program, store_dir, source, segments="fmp4", renditions=[240], seconds=8, copy=False)
    stage.check_output()
    assert [one for one, _ in objects(folder_of(stage), "426x240.m3u8")] == [f"segment_426x240_0000{n}.m4s" for n in (0, 2, 4)]
    assert [one for one, _ in objects(folder_of(stage), "sound.m3u8")] == ["segment_sound_00000.m4s"]
    assert len(segments(folder_of(stage), "426x240.m3u8")) == result["renditions"][0]["segments"] == 5


@pytest.mark.parametrize("value", ["-1", "3601", "an hour"])
def test_a_length_that_is_none(program, store_dir, source, monkeypatch, value):
    monkeypatch.setenv(SETTING, value)
    stage = Stage(program("transcode-worker"), store_dir)
    code, result = stage.run(s3_original_path=stage.put_original(source))
    assert code == 78 and SETTING in result["error"]["message"]


@pytest.mark.parametrize("change, finding", [
    (lambda text: re.sub(r"BYTERANGE:(\d+)@0", r"BYTERANGE:\1@9", text, count=1), "no segment before ends"),
    (lambda text: re.sub(r"BYTERANGE:\d+@(\d+)\n(.*)\n#EXT-X-ENDLIST", r"BYTERANGE:99999999@\1\n\2\n#EXT-X-ENDLIST", text), "does not have the bytes"),
    (lambda text: re.sub(r"BYTERANGE:\d+", "BYTERANGE:-5", text, count=1), "without a usable range"),
], ids=["gap", "beyond", "negative"])
def test_the_check_sees_ranges_that_are_wrong(program, store_dir, source, monkeypatch, change, finding):
    monkeypatch.setenv(SETTING, "3600")
    stage, _ = transcode(program, store_dir, source)
    path = folder_of(stage) / "426x240.m3u8"
    path.write_text(change(path.read_text()))
    assert any(finding in line for line in stage.findings()[0])
