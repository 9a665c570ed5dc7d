"""The whole way of a video, from the original to a clip, with the real workers."""

import json
import os
import subprocess

import pytest
from media_tools import add_picture_tracks, add_text_tracks
from pipeline import SMALL, beginning
from workers import stages_of, wait_until

VIDEO = "0b0e0c7e-3d5f-4a7b-9a52-6f1f7a3c0001"


def frames_after_a_day(pipeline, video, objects):
    """How many frames are left when a scanner has run: all that are shown with lines, and nothing beside them."""
    pipeline.query("UPDATE cortana.frames_to_thin SET read_at = now() - interval '25 hours'")
    subprocess.run([pipeline.program("scanner-worker")], env=pipeline.environment, stdin=subprocess.DEVNULL, check=True)
    shown = {body["object"] for body, in pipeline.query(
        "SELECT (api.segment_frame(jsonb_build_object('id', s.id))).body FROM segments s WHERE s.video_id = %s", video)}
    kept = {key for key, in pipeline.query("SELECT key FROM kept_frames WHERE video_id = %s", video)}
    assert shown == kept
    left = pipeline.objects()
    assert {key for key in left if key.startswith("frames/")} == kept
    assert left == {key: digest for key, digest in objects.items() if not key.startswith("frames/") or key in kept}
    return len(kept)


def test_a_video_becomes_text_entities_search_and_a_clip(pipeline, fixtures_dir, tmp_path):
    pipeline.start()
    video = pipeline.submit(beginning(fixtures_dir / "chat.mp4", tmp_path, 10), VIDEO)
    assert pipeline.wait(video) == "ready", pipeline.failures()

    jobs = pipeline.query("SELECT job_type, status::text, attempt, retry_count FROM jobs"
                          " WHERE video_id = %s ORDER BY started_at", video)
    assert sorted(jobs[:2]) == [(kind, "done", 1, 0) for kind in ("sample", "transcode")], "side by side"
    assert jobs[2:] == [(kind, "done", 1, 0) for kind in ("ocr", "segment_index")]
    assert pipeline.query("SELECT count(DISTINCT sequence), count(DISTINCT correlation_id) FROM jobs"
                          " WHERE video_id = %s", video) == [(1, 1)]

    rows = pipeline.rows(video)
    assert len(rows["segments"]) > 10 and rows["entities"]
    assert {row[0] for row in rows["search"]} == {row[0] for row in rows["segments"]}
    assert pipeline.query("SELECT count(*) FROM segments WHERE video_id = %s AND (crop_bytes IS NULL OR crop_pack IS NULL"
                          " OR cardinality(words) <> 2 * cardinality(string_to_array(text, ' ')))", video) == [(0,)]
    (_, resolution, fps, duration, proxy, poster), = rows["video"]
    assert resolution == "1280x720" and abs(fps - 30) < 0.1 and duration > 5

    objects = pipeline.objects()
    frames = pipeline.query("SELECT key, t_ms, t_start, t_end FROM kept_frames WHERE video_id = %s ORDER BY t_ms", video)
    assert {frame[0] for frame in frames} == {key for key in objects if key.startswith("frames/") and key.endswith(".jpg")}
    assert frames[0][2] == 0 and all(a[3] == b[2] and a[2] <= a[1] < a[3] for a, b in zip(frames, frames[1:]))
    playlist = (pipeline.store / proxy).read_text()
    segments = [line for line in playlist.splitlines() if line and not line.startswith("#")]
    assert segments and all(f"videos/proxy/{video}/{name}" in objects for name in segments)
    assert poster == f"thumbs/{video}/poster.jpg" and poster in objects

    ((known, count, rows_of_artifacts),) = pipeline.query(
        "SELECT array_agg(k) FILTER (WHERE cortana.is_output(a.bucket, k)), max(a.objects), max(a.n)"
        " FROM unnest(%s::text[]) AS k, (SELECT min(bucket) AS bucket, sum(objects) AS objects, count(*) AS n"
        " FROM task_artifacts JOIN jobs j ON j.id = job_id WHERE j.video_id = %s AND kind = 'output') AS a",
        list(objects), video)
    assert set(known) == set(objects) and count == len(objects), "every object is in the history, and nothing else"
    assert rows_of_artifacts < count
    attempts = pipeline.query("SELECT status, exit_code, cpu_seconds > 0, peak_memory_bytes > 0"
                              " FROM job_attempts")
    assert set(attempts) == {("succeeded", 0, True, True)}

    clip = "0b0e0c7e-3d5f-4a7b-9a52-6f1f7a3c00c1"
    assert frames_after_a_day(pipeline, video, objects) < len(frames)
    job = pipeline.query("SELECT job_id FROM enqueue_job('clip_generate', %s, %s)", json.dumps({
        "video_id": video, "clip_id": clip, "t_start": 4000, "t_end": 5000, "padding_ms": 500,
        "s3_original_path": f"videos/original/{video}/master.mp4"}), video)[0][0]
    pipeline.wait_for_job(job)
    path = pipeline.store / f"videos/clips/{video}/{clip}.mp4"
    probed = json.loads(subprocess.run(
        ["ffprobe", "-v", "error", "-count_frames", "-show_streams", "-of", "json", path],
        check=True, capture_output=True, text=True).stdout)
    assert [int(stream["nb_read_frames"]) for stream in probed["streams"]
            if stream["codec_type"] == "video"] == [60]


@pytest.mark.sanitized(0)
def test_a_second_run_of_every_stage_changes_nothing(pipeline, fixtures_dir, tmp_path):
    """Of lines on screen, nor of those of a text track or one of pictures. A line that is both is one hit."""
    pipeline.start()
    said = {"Keep the receipt, please.": "screen subtitle", "But the ferry at @dusk was late.": "subtitle"}
    cues = "".join(f"{n}\n00:00:0{2 + n},200 --> 00:00:0{2 + n},800\n<i>{text}</i>\n\n"
                   for n, text in enumerate(said, 1))
    source = add_text_tracks(beginning(fixtures_dir / "subtitles.mp4", tmp_path), tmp_path / "with_track.mkv", "subrip", ("eng", cues))
    pictures = add_picture_tracks(source, tmp_path / "with_both.mkv", "copy", ("eng", [(1, 1.6, "The lamp of #Keem is green.")]))
    subprocess.run(["ffmpeg", "-v", "error", "-i", source, "-i", pictures, "-map", "0", "-map", "1:s", "-c", "copy", tmp_path / "all.mkv"], check=True)
    said["The lamp of #Keem is green."] = "subtitle"
    video = pipeline.submit(tmp_path / "all.mkv", VIDEO)
    assert pipeline.wait(video) == "ready", pipeline.failures()
    rows, objects = pipeline.rows(video), pipeline.objects()
    for text, sources in said.items():
        assert pipeline.query("SELECT array_to_string(sources, ' '), count(*) OVER () FROM search_segments(%s)"
                              " WHERE match_kind <> 'fuzzy'", text.strip(".")) == [(sources, 1)]
        assert pipeline.query("SELECT text, t_end - t_start FROM search_segments(%s)",
                              f"source:subtitle {text}") == [(text, 600)]
    assert pipeline.query("SELECT text FROM search_segments('source:screen ferry dusk')") == []
    assert pipeline.query("SELECT value FROM entities JOIN segments s ON s.id = segment_id WHERE source = 'subtitle' ORDER BY value DESC") \
        == [("@dusk",), ("#Keem",)]

    pipeline.query("UPDATE videos SET status = 'new' WHERE id = %s", video)
    pipeline.query("SELECT enqueue_job('transcode', payload, video_id) FROM jobs"
                   " WHERE video_id = %s AND job_type = 'transcode'", video)
    assert pipeline.wait(video) == "ready", pipeline.failures()
    assert pipeline.rows(video) == rows
    assert pipeline.objects() == objects


def texts(pipeline, video):
    return [text for text, in pipeline.query("SELECT normalized_text FROM segments WHERE video_id = %s"
                                             " ORDER BY t_start, id", video)]


@pytest.mark.sanitized(0)
def test_a_workflow_with_two_languages_side_by_side(pipeline, fixtures_dir, tmp_path):
    """Made by SQL alone: OCR twice over the same frames, in parts, and one index over both."""
    pipeline.query("INSERT INTO workflows (name, steps) VALUES ('bilingual', %s)", json.dumps([
        {"key": "transcode", "job_type": "transcode",
         "params": {"s3_original_path": "{{video.s3_original_path}}"}},
        {"key": "sample", "job_type": "sample", "depends_on": ["transcode"]},
        {"key": "ocr_english", "job_type": "ocr", "depends_on": ["sample"],
         "params": {"languages": ["eng"]}},
        {"key": "ocr_german", "job_type": "ocr", "depends_on": ["sample"],
         "params": {"languages": ["deu"]}, "fan_out": {"over": ["frame_paths"], "size": 1}},
        {"key": "index", "job_type": "segment_index", "depends_on": ["ocr_english", "ocr_german"]}]))
    pipeline.environment |= SMALL
    pipeline.start("transcode", "sample", "ocr", "segment_index")
    video = pipeline.submit(beginning(fixtures_dir / "subtitles.mp4", tmp_path, 20), VIDEO, workflow="bilingual")
    assert pipeline.wait(video) == "ready", pipeline.failures()
    assert pipeline.query("SELECT status FROM runs") == [("done",)]
    steps = dict(pipeline.query("SELECT step, count(*) FROM jobs GROUP BY step"))
    lists, = pipeline.query("SELECT jsonb_array_length(payload -> 'frame_paths') FROM jobs"
                            " WHERE step = 'ocr_english'")[0]
    assert steps == {"transcode": 1, "sample": 1, "ocr_english": 1, "ocr_german": lists,
                     "index": 1} and steps["ocr_german"] > 1
    languages = {language for language, in pipeline.query("SELECT DISTINCT language FROM segments")}
    assert languages <= {"eng", "deu"} and languages
    truth = json.loads((fixtures_dir / "subtitles.truth.json").read_text())["lines"]
    found = " ".join(texts(pipeline, video))
    assert any(line["text"].casefold() in found for line in truth)

    before = texts(pipeline, video)
    pipeline.query("SELECT start_run('bilingual', '{}', %s)", video)
    pipeline.query("UPDATE videos SET status = 'new' WHERE id = %s", video)
    assert pipeline.wait(video) == "ready", pipeline.failures()
    assert texts(pipeline, video) == before, "a second run leaves the same text"


def test_text_alone(pipeline, fixtures_dir, tmp_path):
    pipeline.start("sample", "ocr", "segment_index")
    video = pipeline.submit(beginning(fixtures_dir / "subtitles.mp4", tmp_path), VIDEO, workflow="video_text")
    assert pipeline.wait(video) == "ready", pipeline.failures()
    assert texts(pipeline, video)
    assert not [key for key in pipeline.objects() if key.startswith(("videos/proxy", "thumbs"))]
    assert pipeline.query("SELECT resolution, duration > 5, fps > 5, truncated FROM videos") == [
        ("1280x720", True, True, False)]
    cut_off = pipeline.submit(fixtures_dir / "edge" / "truncated.mp4", workflow="video_text")
    assert pipeline.wait(cut_off) == "ready", pipeline.failures()
    assert pipeline.query("SELECT truncated FROM videos WHERE id = %s", cut_off) == [(True,)]


def draw_codes(folder, url, digits):
    """Eight seconds: a QR code from 2 s to 6 s, which scrolls from 4 s on, and the code 4006381333931 from 4 s on."""
    bars = "".join("0001101 0011001 0010011 0111101 0100011 0110001 0101111 0111011 0110111 0001011".split()[int(digit)]
                   for digit in digits[1:])
    half = "".join("10"[int(bit)] for bit in bars)  # the right half; the left one has some digits mirrored, as the first one, 4, says
    left = [half[n * 7:n * 7 + 7][::-1] if place == "G" else bars[n * 7:n * 7 + 7] for n, place in enumerate("LGLLGG")]
    modules = f"000000000000101{''.join(left)}01010{half[42:]}101000000000000"
    row = b"".join(b"\0" * 2 if bit == "1" else b"\xff" * 2 for bit in modules)
    (folder / "bars.pgm").write_bytes(b"P5 %d 80 255\n" % len(row) + row * 80)
    subprocess.run(["qrencode", "-s", "4", "-o", folder / "qr.png", url], check=True)
    subprocess.run(["ffmpeg", "-v", "error", "-f", "lavfi", "-i", "color=0x202428:size=1280x720:rate=10:duration=8", "-loop", "1",
                    "-i", folder / "qr.png", "-loop", "1", "-i", folder / "bars.pgm", "-filter_complex",
                    "[0][1]overlay=700:'100+if(gt(t,4),60*(t-4),0)':enable='between(t,2,5.95)'[a];[a][2]overlay=100:400:enable='gte(t,4)':shortest=1,"
                    "drawtext=text='the harbour at night':x=60:y=60:fontsize=36:fontcolor=white", "-t", "8", folder / "codes.mp4"], check=True)
    return folder / "codes.mp4"


def test_codes_on_screen_are_lines_once_and_entities(pipeline, tmp_path):
    url, digits = "https://example.org/tickets?id=42", "4006381333931"
    source = draw_codes(tmp_path, url, digits)
    subprocess.run(["ffmpeg", "-v", "error", "-ss", "4.5", "-i", source, "-frames:v", "1", tmp_path / "seen.png"], check=True)
    judged = subprocess.run(["zbarimg", "-q", "--raw", tmp_path / "seen.png"], capture_output=True, text=True, check=True).stdout
    assert set(judged.split()) == {url, digits}
    pipeline.start("sample", "ocr", "segment_index")
    video = pipeline.submit(source, VIDEO, workflow="video_text")
    assert pipeline.wait(video) == "ready", pipeline.failures()
    codes = ("SELECT text, t_start, t_end, bounding_box ->> 'x', end_box IS NOT NULL FROM segments WHERE source = 'code' ORDER BY t_start")
    (qr, *shown), (bars, *later) = pipeline.query(codes)
    assert (qr, bars) == (url, digits) and shown[0] == 2000 and shown[1] == 6000 and later[:2] == [4000, 8000]
    assert abs(int(shown[2]) - 716) <= 3 and shown[3] and not later[3], (shown, later)
    assert pipeline.query("SELECT entity_type, value FROM entities JOIN segments s ON s.id = segment_id WHERE source = 'code' ORDER BY 2, 1") \
        == [("code", digits), ("code", url), ("url", url)]
    for query, text in (("kind:code tickets", url), ("kind:url example.org", url), ("source:code 4006381333931", digits)):
        assert pipeline.query("SELECT text FROM search_segments(%s)", query) == [(text,)], query
    pipeline.query("SELECT reindex_video(%s)", video)
    wait_until(lambda: pipeline.query("SELECT count(*) FROM jobs WHERE status <> 'done'") == [(0,)], "reading again", deadline=300)
    assert len(pipeline.query(codes)) == 2, "pictures of lines have no codes: those that were found stay"


def test_recordings_of_the_same_thing_find_each_other(pipeline, fixtures_dir, tmp_path):
    """A feed, its second half encoded anew at two thirds of its size, and its beginning: as other posts in the same application."""
    pipeline.start("sample", "ocr", "segment_index")
    made = [beginning(fixtures_dir / "feed.mp4", tmp_path)]
    for name, options in (("half", ["-ss", "3.5", "-vf", "scale=720:-2", "-crf", "28"]), ("beginning", ["-t", "2.1"])):
        made.append(tmp_path / f"{name}.mp4")
        subprocess.run(["ffmpeg", "-v", "error", "-i", made[0], *options, made[-1]], check=True)
    videos = [pipeline.submit(path, workflow="video_text") for path in made]
    for video in videos:
        assert pipeline.wait(video) == "ready", pipeline.failures()
    whole, half, start = videos
    alike = {video: {str(other): share for other, share in pipeline.query(
        "SELECT video_id, share FROM cortana.alike_videos(%s)", video)} for video in videos}
    assert set(alike[whole]) == {half, start} and set(alike[half]) == set(alike[start]) == {whole}, alike
    assert min(alike[whole].values()) > 0.7, alike
    assert not pipeline.query("SELECT FROM segments WHERE source = 'code'"), "no text is taken for a code"


NO_VIDEOS = ["audio_only", "garbage", "text", "truncated_index", "zero_bytes"]


def test_what_is_no_video_fails_once_and_for_all(pipeline, fixtures_dir):
    pipeline.start("transcode", "sample")
    for name in NO_VIDEOS:
        video = pipeline.submit(fixtures_dir / "edge" / f"{name}.mp4")
        assert pipeline.wait(video) == "failed", name
        (status, retries, scheduled, payload), = pipeline.query(
            "SELECT status::text, retry_count, scheduled_for, payload FROM jobs"
            " WHERE video_id = %s AND step = 'transcode'", video)
        assert (status, retries, scheduled) == ("failed", 0, None), name
        assert payload["error"]["type"] == "NotAVideo" and payload["error"]["message"], name
        assert payload["original_payload"]["video_id"] == video, name
    assert pipeline.objects() == {}
    assert pipeline.workers["transcode"].poll() is None, "the worker lives"


def test_strange_videos_are_read_like_any_other(pipeline, fixtures_dir):
    """Rotated, portrait, 120 fps, one frame, variable rate, cut short, an hour of nothing, …"""
    pipeline.environment |= SMALL
    pipeline.start()
    clips = sorted(path for path in (fixtures_dir / "edge").glob("*.m??")
                   if path.stem not in NO_VIDEOS)
    assert len(clips) >= 10
    videos = {path: pipeline.submit(path) for path in clips}
    for path, video in videos.items():
        assert pipeline.wait(video) == "ready", (path.name, pipeline.failures())
        truth_path = path.with_suffix(".truth.json")
        truth = json.loads(truth_path.read_text())["lines"] if truth_path.exists() else []
        found = " ".join(text for text, in pipeline.query(
            "SELECT normalized_text FROM segments WHERE video_id = %s ORDER BY t_start", video))
        missing = [line["text"] for line in truth if line["text"].casefold() not in found]
        assert not missing, (path.name, missing, found)


def test_encoding_lets_others_have_the_cpu(pipeline, fixtures_dir):
    pipeline.environment["CORTANA_GRACE_MS"] = "100"
    pipeline.start("transcode")
    pipeline.submit(fixtures_dir / "chat.mp4", VIDEO)
    wait_until(lambda: any(os.getpriority(os.PRIO_PROCESS, pid) > os.getpriority(os.PRIO_PROCESS, 0)
                           for pid in stages_of(pipeline.workers["transcode"].pid)), "a stage that yields")
