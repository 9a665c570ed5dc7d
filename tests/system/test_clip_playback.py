"""Clips in a browser: headless Chromium plays them, seeks exactly, and reaches the end."""
import uuid

import pytest
from browser import watch
from media_tools import Stage, make_clip, shown_between

pytestmark = pytest.mark.sanitized(0)

BITS = 10
# Every picture shows its number as columns of black and white.
NUMBERED = ("-f lavfi -i color=black:s=320x96:r=30:d=10 -f lavfi -i sine=d=14 -vf "
            "geq=lum=16+219*mod(floor(N/pow(2\\,floor(X/32)))\\,2):cb=128:cr=128,settb=1/90000,setpts={times}/TB "
            "-fps_mode passthrough -enc_time_base 1:90000 "
            "-c:v libx264 -g 45 -keyint_min 45 -sc_threshold 0 -pix_fmt yuv420p -c:a aac")
START, END = 1240, 7930  # ms
STEADY = [k / 30 for k in range(300)]  # key frames of the range lie at 1.5 s and 7.5 s
PAUSED = [k / 30 + 2 * (k // 60) for k in range(300)]  # key frames lie at 1.5 s and 5 s; 119 is shown from 5.97 s on
CASES = {
    "reordered": (STEADY, "-bf 3", {}, "smart"),
    "baseline": (STEADY, "-profile:v baseline", {}, "smart"),
    "main": (STEADY, "-profile:v main -bf 2 -refs 4", {}, "smart"),
    "encoded": (STEADY, "-bf 3", {"mode": "encode"}, "encode"),
    "webm": (STEADY, "-bf 3", {"format": "webm"}, "encode"),
    "paused": (PAUSED, "-bf 3", {}, "smart"),
    "paused and muted": (PAUSED, "-bf 3", {"mute": True}, "smart"),
    "paused, encoded, muted": (PAUSED, "-bf 3", {"mode": "encode", "mute": True}, "encode"),
    "paused, webm, muted": (PAUSED, "-bf 3", {"format": "webm", "mute": True}, "encode"),
}
# Of the clip, in the order in which they are looked at. Both seams are among them.
LOOKED_AT = {id(STEADY): [0, 200, 1, 6, 7, 8, 9, 60, 187, 188, 189, 190, 199, 3],
             id(PAUSED): [0, 82, 22, 23, 1, 7, 8, 9, 52, 53, 54, 81, 80]}


def looked_at(times):
    """[(seconds in the middle of a picture, its number), …]"""
    shown = shown_between(times, START / 1000, END / 1000)
    ends = [time for _, time in shown[1:]] + [(END - START) / 1000]
    return [((shown[k][1] + ends[k]) / 2, shown[k][0]) for k in LOOKED_AT[id(times)]]


@pytest.fixture(scope="module")
def seen(program, tmp_path_factory):
    folder = tmp_path_factory.mktemp("playback")
    tasks = []
    for name, (times, options, payload, mode) in CASES.items():
        expression = "N/30" if times is STEADY else "(N/30+2*floor(N/60))"
        source = make_clip(folder / f"{len(tasks)}.mp4", f"{NUMBERED.format(times=expression)} {options}")
        stage = Stage(program("clip-generate-worker"), folder / f"{len(tasks)}")
        code, result = stage.run(s3_original_path=stage.put_original(source), t_start=START,
                                 t_end=END, padding_ms=0, clip_id=str(uuid.uuid4()), **payload)
        assert (code, result["mode"]) == (0, mode), result
        tasks.append((stage.store / result["clip_path"], looked_at(times), BITS))
    return dict(zip(CASES, watch(tasks)))


@pytest.mark.parametrize("name", CASES)
def test_chromium_shows_the_right_pictures(seen, name):
    found = seen[name]
    times, _, payload, _ = CASES[name]
    assert "error" not in found, found["error"]
    assert (found["width"], found["height"]) == (320, 96)
    # The header of a WebM counts the lead-in of Opus: 7 ms, with FFmpeg 7.1 up to 14 (docs/limits.md).
    slack = 0.015 if "webm" in name else 0.01
    assert found["duration"] == pytest.approx((END - START) / 1000, abs=slack)
    assert found["numbers"] == [number for _, number in looked_at(times)]
    assert found["end"] == pytest.approx(found["duration"], abs=0.001)
    assert found["frames"] >= len(shown_between(times, START / 1000, END / 1000))  # it does not jump to the end
    assert found["sound"] != payload.get("mute", False)
