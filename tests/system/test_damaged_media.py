"""Files of four seconds with one thing wrong: they end as players play them, at the cost of the good
file. Each of these once took hours, gigabytes, or tens of thousands of objects."""
import functools
import os
import resource
import signal
import subprocess

import damaged_media as damage
import pytest
from media_tools import Stage, make_clip
from workers import DEADLINE, wait_until

PICTURES = "-f lavfi -i testsrc=s=320x240:r=25:d=4"
SOUND = "-f lavfi -i sine=f=440:d=4:r=44100"
CODECS = "-c:v libx264 -g 25 -bf 2 -c:a aac -pix_fmt yuv420p"
FRAGMENTS = "-movflags frag_keyframe+empty_moov+default_base_moof"

# extension, how ffmpeg makes the good file, what is damaged
DAMAGE = {
    "one sound of FLV 4.66 hours late": ("flv", "", lambda data: damage.flv_time(data, 40, 1)),
    "one sound of FLV 49 days late": ("flv", "", lambda data: damage.flv_time(data, 90, 0xff)),
    "the first sound of FLV late": ("flv", "", lambda data: damage.flv_time(data, 1, 3)),
    "chunks of FLV swapped": ("flv", "", lambda data: damage.swap_chunks(data, 5)),
    "one picture of MPEG-TS late": ("ts", "", lambda data: damage.ts_times(data, 1, 1)),
    "four pictures of MPEG-TS late": ("ts", "", lambda data: damage.ts_times(data, 2, 4)),
    "a fragment's picture late": ("mp4", FRAGMENTS,
                                  lambda data: damage.fragment_offset(data, 1, 1 << 30)),
    "fragments an hour apart": ("mp4", FRAGMENTS, lambda data: damage.fragments_apart(data, 3600)),
    "a picture's duration in MP4": ("mp4", "", lambda data: damage.mp4_field(data, b"stts", 12, 1 << 29)),
}


@pytest.fixture(scope="module")
def good(tmp_path_factory):
    """Good files by extension and options, made once."""
    folder, made = tmp_path_factory.mktemp("good"), {}

    def get(extension, options):
        if (extension, options) not in made:
            path = folder / f"{len(made)}.{extension}"
            made[extension, options] = make_clip(path, f"{PICTURES} {SOUND} {CODECS} {options}")
        return made[extension, options].read_bytes()

    return get


@pytest.fixture(scope="module")
def usual(program, good, tmp_path_factory):
    """(seconds, objects) of a good file in a stage, measured once."""
    @functools.cache
    def measure(worker, extension, options):
        seconds, code, result, stage = run(program, tmp_path_factory.mktemp("good") / worker, good(extension, options), extension)
        assert code == 0, result
        return seconds, len(stage.keys())

    return measure


def run(program, folder, data, extension):
    """A finished run over some bytes: seconds of CPU time, exit code, result, the stage."""
    (folder / "store").mkdir(parents=True)
    stage = Stage(program(folder.name), folder / "store")
    key = stage.put_original(data, f"master.{extension}")
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    code, result = stage.run(s3_original_path=key)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime - before.ru_utime + after.ru_stime - before.ru_stime, code, result, stage


@pytest.mark.parametrize("worker", ["transcode-worker", "sample-worker"])
@pytest.mark.parametrize("name", sorted(DAMAGE))
def test_a_wrong_time_stamp_costs_nothing(program, good, usual, tmp_path, name, worker):
    extension, options, harm = DAMAGE[name]
    usual_seconds, usual_objects = usual(worker, extension, options)
    seconds, code, result, stage = run(program, tmp_path / worker, harm(good(extension, options)), extension)
    assert code == 0, result
    assert seconds < 2 * usual_seconds + 2
    assert len(stage.keys()) <= 2 * usual_objects
    if worker == "transcode-worker":
        assert 3.5 < result["duration"] < 5.5
        stage.check_output()


REPEATS = {
    "all of it, a thousand times": [(4000, 0, 1 << 16)] * 1000,
    "backwards": [(40, picture * 512, 1 << 16) for picture in range(99, -1, -1)] * 30,
    "an hour of nothing before each picture": [
        entry for picture in range(100) for entry in ((3600000, -1, 1 << 16), (40, picture * 512, 1 << 16))],
}


@pytest.mark.parametrize("worker", ["transcode-worker", "sample-worker"])
@pytest.mark.parametrize("name", sorted(REPEATS))
def test_bytes_that_are_shown_again_and_again(program, good, tmp_path, name, worker):
    """An edit list makes days of four seconds."""
    data = damage.edit_list(good("mp4", ""), REPEATS[name])
    _, code, result, stage = run(program, tmp_path / worker, data, "mp4")
    assert (code, result["error"]["type"]) == (65, "LimitExceeded"), result
    assert "again and again" in result["error"]["message"]
    # What transcode stored until then is the scanner's to remove, which looks for it below these.
    places = (f"videos/proxy/{stage.video_id}/", f"thumbs/{stage.video_id}/") if worker == "transcode-worker" else ()
    assert [key for key in stage.keys() if not key.startswith(places)] == []


def test_an_impossible_count_is_the_files_fault(program, good, tmp_path):
    data = damage.mp4_field(good("mp4", ""), b"stts", 4, 0x7fffffff)
    _, code, result, _ = run(program, tmp_path / "transcode-worker", data, "mp4")
    assert code == 65
    assert "damaged" in result["error"]["message"], result


@pytest.mark.parametrize("channels", [3, 9, 12, 32, 64])
def test_channels_whose_places_nobody_knows(program, tmp_path, channels):
    tones = "|".join(["sin(2000*t)"] * channels)
    source = make_clip(tmp_path / "a.mkv", f"-f lavfi -i testsrc=s=160x120:d=1 -f lavfi -i aevalsrc="
                       f"{tones}:d=1 -c:v libx264 -pix_fmt yuv420p -c:a pcm_s16le")
    _, code, result, stage = run(program, tmp_path / "transcode-worker", source.read_bytes(), "mkv")
    assert code == 0, result
    stage.check_output()


def test_a_standing_picture_can_be_stopped(program, tmp_path):
    """Ten minutes of each picture, as its file says: SIGTERM ends it at once."""
    source = make_clip(tmp_path / "a.mp4", "-f lavfi -i testsrc=s=1280x720:r=1/600:d=3600 "
                       "-c:v libx264 -pix_fmt yuv420p")
    (tmp_path / "store").mkdir()
    stage = Stage(program("transcode-worker"), tmp_path / "store")
    payload = f'{{"video_id": "{stage.video_id}", "s3_original_path": "{stage.put_original(source)}"}}'
    process = subprocess.Popen([stage.program, "--once"], stdin=subprocess.PIPE, text=True,
                               stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
                               env={**os.environ, "STORE_URL": f"dir:{stage.store}"})
    process.stdin.write(payload)
    process.stdin.close()
    wait_until(lambda: any("segment_" in key for key in stage.keys()), "the first segment")
    process.send_signal(signal.SIGTERM)
    assert process.wait(DEADLINE) != 0


def test_sound_of_a_few_samples_a_second_is_left_out(program, tmp_path):
    """A megabyte of it would grow to days at 48 kHz."""
    source = make_clip(tmp_path / "a.mkv", "-f lavfi -i testsrc=s=160x120:d=1 -f lavfi -i "
                       "aevalsrc=sin(t):s=100:d=1 -c:v libx264 -pix_fmt yuv420p -c:a pcm_s16le -ar 100")
    _, code, result, stage = run(program, tmp_path / "transcode-worker", source.read_bytes(), "mkv")
    assert code == 0, result
    assert result["audio_codec"] is None
    stage.check_output()
