"""A clip out of the middle of a long original reads the index and the range, not the rest."""
import uuid

import pytest
from media_tools import Stage, make_clip

RATE = 1_000_000  # bytes a second of the originals, about
SECONDS = 30


@pytest.fixture(scope="module")
def loop(tmp_path_factory):
    """Three seconds that do not compress well, a key frame a second."""
    return make_clip(tmp_path_factory.mktemp("loop") / "loop.mp4",
                     "-f lavfi -i testsrc2=s=640x360:r=30:d=3,noise=alls=60:allf=t -f lavfi -i "
                     "sine=d=3 -c:v libx264 -preset ultrafast -bf 2 -g 30 -b:v 8M -minrate 8M -maxrate "
                     "8M -bufsize 2M -nal-hrd cbr -c:a aac")


@pytest.mark.parametrize("name, options, mode", [
    ("end.mp4", "", "smart"),  # the index lies behind the pictures
    ("front.mp4", "-movflags faststart", "smart"),
    ("fragments.mp4", "-movflags frag_keyframe+empty_moov", "smart"),
    ("a.mkv", "", "smart"),
    ("a.ts", "", "smart"),
    ("end.mp4", "", "encode"),
    ("a.ts", "", "encode"),
])
def test_few_bytes_are_read(program, tmp_path, loop, name, options, mode):
    source = make_clip(tmp_path / name, f"-stream_loop {SECONDS // 3 - 1} -i {loop} -c copy {options}")
    size = source.stat().st_size
    assert size > SECONDS * RATE * 0.8
    stage = Stage(program("clip-generate-worker"), tmp_path / "store")
    code, result = stage.run(s3_original_path=stage.put_original(source), t_start=20_500, t_end=24_400,
                             padding_ms=0, clip_id=str(uuid.uuid4()), mode=mode)
    assert (code, result["mode"]) == (0, mode), result
    # The range begins and ends between key frames, whatever gap a muxer leaves between two loops.
    # 4 s of the range, up to 2.5 s for the key frame and the sound before it and the pictures behind it;
    # looking at the streams, and at a fragment's or a segment's head on the way, is what is left.
    allowed = 6.5 * RATE + 0.06 * size + 500_000
    assert 4 * RATE * 0.8 < result["bytes_read"] < allowed
