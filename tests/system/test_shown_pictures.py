"""Pictures are read as a person sees them: pixels made square, turned, cropped, half-pictures made whole. Boxes are
in pixels of the picture that is shown."""

import subprocess

import pytest
from media_tools import turn
from test_ocr import FONT, Ocr
from test_sample import VIDEO, Sample

LINES = {"Thursday evening train leaves": (60, 80), "read it over coffee at noon": (420, 400)}
SHOWN = (1280, 720)
X264 = "-c:v libx264 -preset ultrafast -crf 12 -pix_fmt yuv420p"

# What is done to the picture after it was drawn, and how it is encoded: always the same picture is to be seen.
WAYS = {
    "plain": ("null", X264),
    "wide pixels": ("scale=960:720:flags=lanczos,setsar=4/3", X264),
    "narrow pixels": ("scale=1440:720:flags=lanczos,setsar=8/9", X264),
    "turned": ("transpose=2", X264),
    "turned with wide pixels": ("scale=1280:540:flags=lanczos,transpose=2,setsar=4/3", X264),
    "cropped": ("pad=iw+32:ih+48:32:48", f"{X264} -bsf:v h264_metadata=crop_left=32:crop_top=48"),
    "interlaced": ("setfield=tff", f"{X264} -x264opts tff=1"),
}
PLAIN = {}  # the boxes of the plain picture, once they are known


@pytest.fixture
def look(program, store_dir, tmp_path):
    def read(name):
        change, encoding = WAYS[name]
        drawn = ",".join(f"drawtext=fontfile={FONT}:text='{text}':x={x}:y={y}:fontsize=40:fontcolor=black"
                         for text, (x, y) in LINES.items())
        source = tmp_path / f"{name.replace(' ', '_')}.mp4"
        subprocess.run(["ffmpeg", "-nostdin", "-v", "error", "-y", "-f", "lavfi", "-i",
                        f"color=0xf4f0e8:s={SHOWN[0]}x{SHOWN[1]}:r=10:d=1", "-vf", f"{drawn},{change}",
                        *encoding.split(), source], check=True)
        if "turned" in name:
            turn(source, 270)
        sampled = Sample(program("sample-worker"), store_dir, source)
        ocr = Ocr(program("ocr-worker"), store_dir)
        ocr.video_id = VIDEO
        frames = sampled.frames
        result = ocr.read([f"frames/{VIDEO}/{frame['timestamp_ms']}.jpg" for frame in frames],
                          frames=[{key: frame[key] for key in ("t_start", "t_end")} for frame in frames])
        return sampled.result, {row["text"]: row["bounding_box"] for row in result["detections"]}

    return read


@pytest.mark.sanitized(2)
@pytest.mark.parametrize("name", [name for name in WAYS if name != "plain"])
def test_text_is_found_where_it_is_seen(look, name):
    wanted = PLAIN or look("plain")[1]
    PLAIN.update(wanted)
    assert set(wanted) == set(LINES)
    result, found = look(name)
    assert (result["width"], result["height"]) == SHOWN
    assert set(found) == set(LINES)
    for text, box in found.items():
        for side, value in box.items():
            assert abs(value - wanted[text][side]) <= 3, (text, side, box, wanted[text])
