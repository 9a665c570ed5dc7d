"""What the transcode worker leaves in the tables."""
import subprocess

import psycopg2
import pytest
from pipeline import Pipeline


@pytest.fixture
def pipeline(program, database, sql, store_dir, tmp_path):
    running = Pipeline(program, database, sql, store_dir, tmp_path)
    yield running
    running.stop()


def next_job(pipeline, video):
    return pipeline.query("SELECT payload FROM jobs WHERE video_id = %s AND job_type = 'sample'",
                          video)


def run(pipeline, path, **payload):
    pipeline.start("transcode")
    video = pipeline.submit(path, workflow=None, **payload)
    job, = pipeline.query("SELECT id FROM jobs WHERE video_id = %s", video)[0]
    pipeline.wait_for_job(job)
    return video, f"videos/original/{video}/master{path.suffix}"


def test_the_video_s_row_and_the_next_job(pipeline, fixtures_dir):
    """Four pictures with sound last the quarter of a second that browsers need to begin."""
    video, key = run(pipeline, fixtures_dir / "awkward" / "dolbyVision-hdr.MOV")
    row, = pipeline.query(
        "SELECT status::text, s3_proxy_path, s3_thumb_path, resolution, fps, duration, container,"
        " video_codec, pixel_format, rotation, variable_frame_rate, audio_codec, audio_channels,"
        " audio_sample_rate FROM videos WHERE id = %s", video)
    assert row == ("processing", f"videos/proxy/{video}/index.m3u8", f"thumbs/{video}/poster.jpg",
                   "720x1280", 30.0, 0.25, "mov", "hevc", "yuv420p10le", 90, False, "aac", 2,
                   44100)
    assert next_job(pipeline, video) == [({"video_id": video, "s3_original_path": key,
                                           "target_fps": 10, "dedupe_threshold": 0.95},)]


@pytest.mark.parametrize("container", ["mp4", "mkv", "fragments"])
def test_a_file_that_is_cut_off_says_so(pipeline, fixtures_dir, tmp_path, container):
    whole = tmp_path / ("whole.mkv" if container == "mkv" else "whole.mp4")
    flags = {"mkv": [], "mp4": ["-movflags", "+faststart"], "fragments": ["-movflags", "frag_keyframe+empty_moov"]}
    subprocess.run(["ffmpeg", "-v", "error", "-i", fixtures_dir / "edge" / "no_key_frame_for_20_s.mp4", "-c", "copy",
                    *flags[container], whole], check=True)
    part = whole.with_name(f"part{whole.suffix}")
    part.write_bytes(whole.read_bytes()[:whole.stat().st_size // 2])
    truncated = []
    for path in (whole, part):
        video, _ = run(pipeline, path)
        truncated += pipeline.query("SELECT truncated FROM videos WHERE id = %s", video)[0]
    assert truncated == [False, True]


@pytest.mark.parametrize("column", ["duration", "fps"])
@pytest.mark.parametrize("value", ["Infinity", "NaN", "-1", "1e300"])
def test_measures_of_a_video_are_numbers_that_can_be(queue, column, value):
    with pytest.raises(psycopg2.errors.CheckViolation):
        queue.run(f"INSERT INTO videos ({column}) VALUES (%s)", value)


def test_wishes_are_handed_on_and_silence_is_null(pipeline, fixtures_dir):
    wishes = {"target_fps": 4, "dedupe_threshold": 0.9, "languages": ["eng", "deu"],
              "min_confidence": 0.3}
    video, key = run(pipeline, fixtures_dir / "awkward" / "bear-vp9-odd-dimensions.webm", **wishes)
    assert next_job(pipeline, video) == [({"video_id": video, "s3_original_path": key, **wishes},)]
    assert pipeline.query("SELECT resolution, rotation, audio_codec, audio_channels FROM videos"
                          " WHERE id = %s", video) == [("161x121", 0, None, None)]
