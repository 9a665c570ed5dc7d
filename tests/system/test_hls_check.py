"""The check of the output finds what is wrong: everything here breaks one thing that was flawless."""
import re

import pytest
from media_tools import Stage, make_clip


@pytest.fixture(scope="module")
def flawless(program, tmp_path_factory):
    folder = tmp_path_factory.mktemp("flawless")
    source = make_clip(folder / "a.mp4", "-f lavfi -i testsrc=s=640x480:r=10:d=9 -f lavfi -i "
                       "sine=d=9 -c:v libx264 -preset ultrafast -c:a aac")
    stage = Stage(program("transcode-worker"), folder / "store")
    code, result = stage.run(s3_original_path=stage.put_original(source), segments="ts", renditions=[480, 360])
    assert code == 0, result
    summary = stage.check_output()
    assert summary == {"renditions": 2, "segments": 9, "key_frames": 5, "tiles": pytest.approx(9, abs=1), "sound": True,
                       "duration": pytest.approx(9, abs=0.02)}
    return stage


def edit(pattern, replacement):
    def change(path):
        text = path.read_text()
        changed = re.sub(pattern, replacement, text, count=1)
        assert changed != text
        path.write_text(changed)
    return change


def cut_off(path):
    path.write_bytes(path.read_bytes()[:-188 * 40])


def remove(path):
    path.unlink()


def spoil(path):
    path.write_bytes(b"RIFF" + path.read_bytes())


def swap(path):
    other = path.with_name(path.name.replace("00001", "00000"))
    data = path.read_bytes()
    path.write_bytes(other.read_bytes())
    other.write_bytes(data)


# What is broken: (its name, how, words of the finding)
BREAKS = {
    "no index": ("index.m3u8", remove, "is missing"),
    "no segment": ("segment_480x360_00001.ts", remove, "is missing"),
    "no rendition": ("640x480.m3u8", remove, "is missing"),
    "no playlist of key frames": ("640x480_keys.m3u8", remove, "is missing"),
    "no poster": ("poster.jpg", remove, "is missing"),
    "a poster that is no picture": ("poster.jpg", spoil, "is no JPEG"),
    "no sheet": ("sprite_000.webp", remove, "is missing"),
    "a torn segment": ("segment_480x360_00001.ts", cut_off, "does not show the frames"),
    "segments in the wrong order": ("segment_640x480_00001.ts", swap, "begins at"),
    "torn sound": ("segment_sound_00001.ts", cut_off, "a gap in the sound"),
    "a duration": ("640x480.m3u8", edit("#EXTINF:4.0", "#EXTINF:3.9"), "begins at"),
    "a target": ("sound.m3u8", edit("DURATION:4", "DURATION:3"), "beyond the target"),
    "an end": ("640x480.m3u8", edit("#EXT-X-ENDLIST", "#"), "has no end"),
    "a bandwidth": ("index.m3u8", edit("INF:BANDWIDTH=", "INF:BANDWIDTH=1"), "BANDWIDTH is"),
    "an average": ("index.m3u8", edit("AVERAGE-BANDWIDTH=", "AVERAGE-BANDWIDTH=1"),
                   "AVERAGE-BANDWIDTH is"),
    "a codec": ("index.m3u8", edit("avc1.64", "avc1.4D"), "CODECS is"),
    "a size": ("index.m3u8", edit("RESOLUTION=640x480", "RESOLUTION=642x480"), "RESOLUTION is"),
    "a rate": ("index.m3u8", edit("FRAME-RATE=10", "FRAME-RATE=30"), "FRAME-RATE is"),
    "a range": ("640x480_keys.m3u8", edit("@0", "@1880"), "is not the key frame"),
    "a cue": ("thumbnails.vtt", edit("00:00:01.000 -->", "00:00:01.500 -->"), "does not follow"),
    "a tile": ("thumbnails.vtt", edit("xywh=0,0", "xywh=9999,0"), "lies beside the sheet"),
    "a name that leads away": ("640x480.m3u8", edit("segment_", "../segment_"), "lies elsewhere"),
}


@pytest.mark.parametrize("name", sorted(BREAKS))
def test_breaks_are_found(flawless, name):
    target, change, words = BREAKS[name]
    folders = [flawless.store / "videos" / "proxy" / flawless.video_id,
               flawless.store / "thumbs" / flawless.video_id]
    before = {path: path.read_bytes() for folder in folders for path in folder.iterdir()}
    path, = (path for path in before if path.name == target)
    try:
        change(path)
        findings, _ = flawless.findings()
        assert any(words in finding for finding in findings), findings
    finally:
        for path, data in before.items():
            path.write_bytes(data)


def test_rubbish_is_found(flawless):
    rubbish = flawless.store / "videos" / "proxy" / flawless.video_id / "segment_old_00000.ts"
    rubbish.write_bytes(b"old")
    try:
        assert flawless.findings()[0] == ["segment_old_00000.ts: is named by nothing"]
    finally:
        rubbish.unlink()


def test_too_few_pictures_beside_sound_are_found(program, tmp_path):
    """Chromium does not begin where they are the last; such a rendition is taken from a source without sound."""
    folders = []
    for sound in ("", "-f lavfi -i sine=d=3.1 -c:a aac"):
        source = make_clip(tmp_path / "a.mp4", f"-f lavfi -i testsrc=s=160x120:r=10:d=3.1 {sound} -c:v libx264 -bf 0 "
                           "-vf select=not(n)+eq(n\\,30) -fps_mode passthrough")
        stage = Stage(program("transcode-worker"), tmp_path / f"store{len(folders)}")
        code, result = stage.run(s3_original_path=stage.put_original(source), segments="ts", copy=False)
        assert code == 0, result
        stage.check_output()
        folders.append((stage.store / result["s3_proxy_path"]).parent)
    for path in folders[0].glob("*160x120*"):
        (folders[1] / path.name).write_bytes(path.read_bytes())
    findings, _ = stage.findings()
    assert "160x120.m3u8: 2 pictures from the last key frame on, too few for players with sound" in findings
