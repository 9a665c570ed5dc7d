"""What the transcode worker leaves in the tables."""
import subprocess

import psycopg2
import pytest


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


STARTED = "2026-03-01T14:05:10+00:00"


@pytest.mark.parametrize("name, tags, said, source", [
    ("a.mkv", {"creation_time": "2026-03-01T14:05:10Z"}, STARTED, "tag"),
    ("a.mov", {"com.apple.quicktime.creationdate": "2026-03-01T16:05:10+0200", "creation_time": "2026-03-01T15:00:00Z"}, STARTED, "tag"),
    # Android writes the index, and this time with it, when it stops.
    ("a.mp4", {"com.android.version": "14", "creation_time": "2026-03-01T14:05:12Z"}, STARTED, "tag"),
    ("a.mp4", {"creation_time": "1970-01-01T00:00:10Z"}, None, None),
    ("a.mp4", {"creation_time": "2099-01-01T00:00:00Z"}, None, None),
    ("a.mp4", {}, None, None)], ids=["matroska", "apple", "android", "clock never set", "future", "none"])
def test_when_a_video_was_recorded(pipeline, tmp_path, name, tags, said, source):
    path = tmp_path / name
    subprocess.run(["ffmpeg", "-v", "error", "-f", "lavfi", "-i", "testsrc=size=64x64:rate=10:duration=2", "-movflags", "use_metadata_tags",
                    *[part for tag, value in tags.items() for part in ("-metadata", f"{tag}={value}")], path], check=True)
    video, _ = run(pipeline, path)
    assert pipeline.query("SELECT recorded_at = %s OR recorded_at IS NULL AND %s IS NULL, recorded_from FROM videos WHERE id = %s",
                          said, said, video) == [(True, source)]


@pytest.mark.parametrize("name, source", [
    ("2026-03-01 14-05-10.mkv", "name_utc"), ("Screen_Recording_20260301-140510_App.mp4", "name_utc"),
    ("screen-20260301-140510.mp4", "name_utc"), ("RPReplay_Final1772373910.MP4", "name"),
    ("Screen Recording 2026-03-01 at 14.05.10.mov", "name_utc"), ("Screen Recording 2026-03-01 at 2.05.10\u202fPM.mov", "name_utc"),
    ("GMT20260301-140510_Recording.mp4", "name"), ("App 2026-03-01 14-05-10.mp4", "name_utc"), ("PXL_20260301_140510123.mp4", "name"),
    ("2026_0301_140510_001.MP4", "name_utc"), ("20260301140510_000123.MP4", "name_utc"),
    ("Screencast from 2026-03-01 14-05-10.webm", "name_utc"), ("Screenrecorder-2026-03-01-14-05-10-123.mp4", "name_utc")])
def test_the_name_of_a_file_says_when_it_was_recorded(queue, name, source):
    assert queue.run("INSERT INTO videos (original_name) VALUES (%s) RETURNING recorded_at = %s AS is_right, recorded_from",
                     name, STARTED) == [{"is_right": True, "recorded_from": source}]


@pytest.mark.parametrize("name", ["w.mp4", "2026-13-01 14-05-10.mkv", "2026-03-01 24-05-10.mkv", "VID-20260301-WA0001.mp4", "2099-03-01 14-05-10.mkv",
                                  "RPReplay_Final9999999999.MP4", "12020260301140510.mp4", "2026-02-30 14-05-10.mkv"])
def test_digits_of_a_name_that_are_no_time(queue, name):
    assert queue.run("INSERT INTO videos (original_name) VALUES (%s) RETURNING recorded_at, recorded_from", name) == \
        [{"recorded_at": None, "recorded_from": None}]


def test_a_name_without_a_zone_is_in_that_of_the_tenant(queue):
    tenant, other = (queue.value("INSERT INTO cortana.tenants (name, time_zone) VALUES ('News', %s) RETURNING id", zone)
                     for zone in ("Europe/Berlin", "Asia/Tokyo"))
    made = {name: queue.value("INSERT INTO videos (original_name, team_id) VALUES (%s, %s) RETURNING id", name, tenant)
            for name in ("2026-03-01 15-05-10.mkv", "2026-07-01 15-05-10.mkv", "GMT20260301-140510_Recording.mp4")}
    read = "SELECT to_char(recorded_at AT TIME ZONE 'UTC', 'MM-DD HH24:MI') AS at, recorded_from AS said FROM videos WHERE id = ANY (%s::uuid[]) ORDER BY created_at"
    assert queue.run(read, list(made.values())) == [{"at": "03-01 14:05", "said": "name_zone"}, {"at": "07-01 13:05", "said": "name_zone"},
                                                    {"at": "03-01 14:05", "said": "name"}]
    queue.run("UPDATE videos SET team_id = %s WHERE id = %s", other, made["2026-03-01 15-05-10.mkv"])
    assert queue.run(read, list(made.values()))[0] == {"at": "03-01 06:05", "said": "name_zone"}
    queue.run("DELETE FROM cortana.tenants WHERE id IN (%s, %s)", tenant, other)


@pytest.mark.parametrize("tag, source", [("1904-01-01", "name_utc"), ("1970-01-01", "name_utc"), ("2099-01-01", "name_utc"), ("2025-01-01", "tag")])
def test_a_tag_is_asked_before_the_name_if_it_can_be_believed(queue, tag, source):
    assert queue.value("INSERT INTO videos (original_name, recorded_tag) VALUES ('2026-03-01 14-05-10.mkv', %s) RETURNING recorded_from", tag) == source


def test_what_a_person_says_is_never_replaced(queue):
    video = queue.value("INSERT INTO videos (original_name) VALUES ('2026-03-01 14-05-10.mkv') RETURNING id")
    queue.run("UPDATE videos SET recorded_at = '2020-01-01 UTC' WHERE id = %s", video)
    queue.run("UPDATE videos SET recorded_tag = '2026-03-01 UTC', original_name = '2026-03-02 14-05-10.mkv' WHERE id = %s", video)
    assert queue.run("SELECT recorded_at = '2020-01-01 UTC' AS is_kept, recorded_from FROM videos WHERE id = %s", video) == \
        [{"is_kept": True, "recorded_from": "person"}]


def test_wishes_are_handed_on_and_silence_is_null(pipeline, fixtures_dir):
    wishes = {"target_fps": 4, "dedupe_threshold": 0.9, "languages": ["eng", "deu"],
              "min_confidence": 0.3}
    video, key = run(pipeline, fixtures_dir / "awkward" / "bear-vp9-odd-dimensions.webm", **wishes)
    assert next_job(pipeline, video) == [({"video_id": video, "s3_original_path": key, **wishes},)]
    assert pipeline.query("SELECT resolution, rotation, audio_codec, audio_channels FROM videos"
                          " WHERE id = %s", video) == [("161x121", 0, None, None)]
