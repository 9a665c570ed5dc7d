"""Fragmented MP4 instead of MPEG-TS: the same pictures and sound at the same times, as CMAF."""
import struct

import pytest
from media_tools import TS_OFFSET, Stage, grey_frames, make_clip, packets, probe, sound


@pytest.fixture(scope="module")
def both(program, tmp_path_factory):
    """{format: (stage, result, folder)} of one source, 2 × 4 s and a tail that joins."""
    folder = tmp_path_factory.mktemp("fmp4")
    source = make_clip(folder / "a.mp4", "-f lavfi -i testsrc2=s=640x360:r=30:d=8.3 -f lavfi -i "
                       "sine=d=8.3 -c:v libx264 -preset ultrafast -bf 2 -c:a aac")
    made = {}
    for segments in ("ts", "fmp4"):
        stage = Stage(program("transcode-worker"), folder / segments)
        code, result = stage.run(s3_original_path=stage.put_original(source), segments=segments, copy=False,
                                 renditions=[360, 240])
        assert code == 0, result
        made[segments] = (stage, result, (stage.store / result["s3_proxy_path"]).parent)
    return made


def boxes(data):
    while data:
        size, kind = struct.unpack(">I4s", data[:8])
        yield kind.decode(), data[8:size]
        data = data[size:]


def test_the_check_finds_nothing_wrong(both):
    summaries = [stage.check_output() for stage, _, _ in both.values()]
    assert summaries[0] == summaries[1]
    assert summaries[0]["segments"] == 3 * 2


def test_heads_and_segments(both):
    stage, result, folder = both["fmp4"]
    names = [key.rpartition("/")[2] for key in stage.keys() if key.startswith("videos/proxy")]
    assert [n for n in names if n.startswith("init_")] == [
        "init_426x240.mp4", "init_640x360.mp4", "init_sound.mp4"]
    assert not [n for n in names if n.endswith(".ts")]
    for name in ("640x360", "sound"):
        head = dict(boxes((folder / f"init_{name}.mp4").read_bytes()))
        assert list(head) == ["ftyp", "moov"] and b"cmfc" in head["ftyp"] and b"edts" not in head["moov"]
        text = (folder / f"{name}.m3u8").read_text()
        assert f'#EXT-X-MAP:URI="init_{name}.mp4"' in text
        kinds = [kind for kind, _ in boxes((folder / f"segment_{name}_00001.m4s").read_bytes())]
        assert kinds == ["moof", "mdat"] * (len(kinds) // 2)
    ts = (both["ts"][2] / "index.m3u8").read_text()
    codecs = [word for word in ts.split('"') if word.startswith("avc1.")]
    assert all(word in (folder / "index.m3u8").read_text() for word in codecs)


@pytest.mark.parametrize("name", ["640x360", "426x240"])
def test_packets_are_those_of_mpeg_ts(both, name):
    ts = packets(both["ts"][2] / f"{name}.m3u8", "v:0")
    mp4 = packets(both["fmp4"][2] / f"{name}.m3u8", "v:0")
    assert [float(p["pts_time"]) for p in mp4] == pytest.approx(
        [float(p["pts_time"]) - TS_OFFSET for p in ts], abs=3e-5)
    assert [p["flags"] for p in mp4] == [p["flags"] for p in ts]


def test_sound_has_no_gap(both):
    found = [float(p["pts_time"]) for p in packets(both["fmp4"][2] / "sound.m3u8", "a:0")]
    assert found == pytest.approx([i * 1024 / 48000 for i in range(len(found))], abs=2e-6)
    assert found[-1] + 2048 / 48000 > 8.3


def test_pictures_and_sound_are_those_of_mpeg_ts(both):
    ts, mp4 = (grey_frames(both[f][2] / "426x240.m3u8") for f in ("ts", "fmp4"))
    assert ts == mp4
    one, other = (sound(both[f][2] / "sound.m3u8") for f in ("ts", "fmp4"))
    assert abs(len(one) - len(other)) <= 1024
    assert list(one[4096:300000]) == list(other[4096:300000])


def test_the_whole_can_be_probed(both):
    found = probe(both["fmp4"][2] / "index.m3u8", "-show_streams", "-show_format")
    assert {s["codec_type"] for s in found["streams"]} == {"video", "audio"}
    assert float(found["format"]["duration"]) == pytest.approx(8.3, abs=0.03)


def test_the_check_finds_a_wrong_head(both, tmp_path):
    stage, _, folder = both["fmp4"]
    path = folder / "init_426x240.mp4"
    whole = path.read_bytes()
    for broken in (whole.replace(b"cmfc", b"cmfx"), whole[:-8],
                   (folder / "init_640x360.mp4").read_bytes()):
        path.write_bytes(broken)
        findings, _ = stage.findings()
        assert findings
    path.write_bytes(whole)
    segment = folder / "segment_426x240_00001.m4s"
    data = segment.read_bytes()
    segment.write_bytes(data + b"\0\0\0\x08free")
    findings, _ = stage.findings()
    assert any("not a run of moof and mdat" in line for line in findings)
    segment.write_bytes(data)
    stage.check_output()
