"""Clips in a browser: headless Chromium plays them, seeks exactly, and reaches the end."""
import uuid

import pytest
from browser import watch
from media_tools import Stage, make_clip

BITS = 10
# Every picture shows its number as columns of black and white.
NUMBERED = ("-f lavfi -i color=black:s=320x96:r=30:d=10 -f lavfi -i sine=d=10 -vf "
            "geq=lum=16+219*mod(floor(N/pow(2\\,floor(X/32)))\\,2):cb=128:cr=128 "
            "-c:v libx264 -g 45 -keyint_min 45 -sc_threshold 0 -pix_fmt yuv420p -c:a aac")
START, END = 1240, 7930  # ms; the first key frames of the range lie at 1.5 s and 7.5 s
CASES = {
    "reordered": ("-bf 3", {}, "smart"),
    "baseline": ("-profile:v baseline", {}, "smart"),
    "main": ("-profile:v main -bf 2 -refs 4", {}, "smart"),
    "encoded": ("-bf 3", {"mode": "encode"}, "encode"),
    "webm": ("-bf 3", {"format": "webm"}, "encode"),
}


@pytest.fixture(scope="module")
def seen(program, tmp_path_factory):
    folder = tmp_path_factory.mktemp("playback")
    tasks = []
    for name, (options, payload, mode) in CASES.items():
        source = make_clip(folder / f"{name}.mp4", f"{NUMBERED} {options}")
        stage = Stage(program("clip-generate-worker"), folder / name)
        code, result = stage.run(s3_original_path=stage.put_original(source), t_start=START,
                                 t_end=END, padding_ms=0, clip_id=str(uuid.uuid4()), **payload)
        assert (code, result["mode"]) == (0, mode), result
        moments = [((k + 0.5) / 30, FIRST + k) for k in FRAMES]
        tasks.append((stage.store / result["clip_path"], moments, BITS))
    return dict(zip(CASES, watch(tasks)))


FIRST = 38  # the first picture at or after 1.24 s; 237 is the last before 7.93 s
FRAMES = [0, 199, 1, 6, 7, 8, 9, 60, 187, 188, 189, 190, 198, 3]  # of the clip; both seams among them


@pytest.mark.parametrize("name", CASES)
def test_chromium_shows_the_right_pictures(seen, name):
    found = seen[name]
    assert "error" not in found, found["error"]
    assert (found["width"], found["height"]) == (320, 96)
    # The last packet of Opus lasts 20 ms, of which FFmpeg 7.1 counts all.
    slack = 0.02 if name == "webm" else 0.01
    assert found["duration"] == pytest.approx((END - FIRST * 1000 / 30) / 1000, abs=slack)
    assert found["numbers"] == [FIRST + frame for frame in FRAMES]
    assert found["end"] == pytest.approx(found["duration"], abs=0.001)
    assert found["sound"] and found["frames"] > 0
