"""A long recording is looked at in parts: the text of each is searchable while the rest is watched, and in the end it is
as if it had been one."""

import os
import signal
import subprocess

import pytest
from pipeline import Pipeline
from workers import wait_until

pytestmark = pytest.mark.sanitized(0)

FONT = "/usr/share/fonts/truetype/dejavu/DejaVuSans.ttf"
VIDEO = "0b0e0c7e-3d5f-4a7b-9a52-6f1f7a3c0002"
SECONDS, EVERY = 48, 3
STANDING = "Standing headline of the match"
PART_SECONDS = 20
BEGINNINGS = [0, 2000, 4000, 8000, 16000, 32000]  # of the parts: each as long as all before it, 20 s at most
SCENES = ["Kettle on the stove", "Orange boats at noon", "Window of the bakery", "Quiet streets in March",
          "Letters from the harbour", "Gardens behind the mill", "Seven bicycles for sale", "Blankets and candles",
          "Lanterns over the bridge", "Music in the old barn", "Painters of the valley", "Fresh bread on Friday",
          "Notes about the weather", "Tickets to the museum", "Horses near the river", "Evening at the station"]
READ = "SELECT normalized_text, t_start, t_end FROM segments WHERE video_id = %s ORDER BY t_start, normalized_text"


@pytest.fixture(scope="module")
def recording(tmp_path_factory):
    """One line stands all the time, across every edge; another one changes every three seconds; key frames every two."""
    drawn = [f"drawtext=fontfile={FONT}:text='{STANDING}':x=40:y=60:fontsize=28:fontcolor=black"]
    drawn += [f"drawtext=fontfile={FONT}:text='{text}':x=40:y=200:fontsize=28:fontcolor=black"
              f":enable='gte(t,{i * EVERY})*lt(t,{(i + 1) * EVERY})'" for i, text in enumerate(SCENES)]
    path = tmp_path_factory.mktemp("long") / "match.mp4"
    subprocess.run(["ffmpeg", "-v", "error", "-f", "lavfi", "-i", f"color=white:s=640x360:r=10:d={SECONDS}", "-vf",
                    ",".join(drawn), "-c:v", "libx264", "-preset", "ultrafast", "-g", "20", "-sc_threshold", "0",
                    "-pix_fmt", "yuv420p", path], check=True)
    return path


@pytest.fixture
def pipeline(program, database, sql, store_dir, tmp_path):
    running = Pipeline(program, database, sql, store_dir, tmp_path, CORTANA_LEASE_MS="1500", CORTANA_HEARTBEAT_MS="400")
    running.query("UPDATE job_types SET retry_delays = array_fill(interval '50 ms', ARRAY[9])")
    yield running
    running.stop()


def expected():
    lines = [(STANDING.casefold(), 0, SECONDS * 1000)]
    lines += [(text.casefold(), i * EVERY * 1000, (i + 1) * EVERY * 1000) for i, text in enumerate(SCENES)]
    return sorted(lines, key=lambda line: (line[1], line[0]))


def kill_stage(supervisor):
    """Kills the process that works on a job; false: none does."""
    children = subprocess.run(["pgrep", "-P", str(supervisor.pid)], capture_output=True, text=True, check=False)
    for pid in children.stdout.split():
        try:
            os.kill(int(pid), signal.SIGKILL)
        except ProcessLookupError:
            continue
        return True
    return False


def test_parts_are_searchable_one_by_one_and_whole_in_the_end(pipeline, recording):
    pipeline.start("sample", "ocr")
    video = pipeline.submit(recording, VIDEO, workflow="video_text", part_seconds=PART_SECONDS)
    killed = set()

    def searchable():
        """Kills each of both stages once, in the middle, and waits for the text of all parts."""
        for step, part in pipeline.query("SELECT step, part FROM jobs WHERE status = 'processing' AND part > 1"):
            if step not in killed and kill_stage(pipeline.workers[step]):
                killed.add(step)
        return pipeline.query("SELECT count(*) FROM jobs WHERE step = 'ocr' AND status = 'done'") == [(len(BEGINNINGS),)]

    assert pipeline.wait(video, wanted=("processing",)) == "processing"
    wait_until(searchable, "all parts read")
    assert killed
    # segment_index does not run yet: what was found is there already, the video is not ready.
    assert pipeline.status(video) == "processing"
    found = {text.casefold() for text, in pipeline.query("SELECT text FROM search_materialized")}
    assert {text.casefold() for text in SCENES[:BEGINNINGS[-1] // 1000 // EVERY]} | {STANDING.casefold()} <= found
    assert pipeline.query("SELECT count(*) FROM search_materialized WHERE normalized_text = %s",
                          STANDING.casefold()) > [(1,)], "in parts still"

    pipeline.start("segment_index")
    assert pipeline.wait(video) == "ready", pipeline.failures()
    assert pipeline.query(READ, video) == expected()
    assert pipeline.query("SELECT count(*) FROM search_materialized") == [(len(SCENES) + 1,)]
    steps = pipeline.query("SELECT step, array_agg(coalesce(payload -> 'from_ms', '0')::int ORDER BY part) FROM jobs"
                           " WHERE step <> 'ocr' GROUP BY step ORDER BY step")
    assert steps == [("sample", BEGINNINGS), ("segment_index", [0])]
    frames = pipeline.query("SELECT t_start, t_end, key FROM kept_frames ORDER BY t_start")
    assert frames[0][0] == 0 and frames[-1][1] == SECONDS * 1000
    assert all(before[1] == after[0] for before, after in zip(frames, frames[1:])), "no gap, nothing twice"
    lists, = pipeline.query("SELECT array_agg(path) FROM jobs, jsonb_array_elements_text(payload -> 'frame_paths') AS path")[0]
    packs, = pipeline.query("SELECT array_agg(key) FROM cortana.line_packs")[0]
    assert set(pipeline.objects()) == {key for *_, key in frames} | set(lists) | set(packs)

    pipeline.query("SELECT reindex_video(%s)", video)
    wait_until(lambda: pipeline.query("SELECT status FROM runs WHERE workflow = 'reindex'") == [("done",)], "read again")
    assert pipeline.query(READ, video) == expected(), "read again from the parts' kept lines"


def test_another_run_in_other_parts_leaves_nothing_of_the_first(pipeline, recording):
    pipeline.start("sample", "ocr", "segment_index")
    video = pipeline.submit(recording, VIDEO, workflow="video_text", part_seconds=PART_SECONDS)
    assert pipeline.wait(video) == "ready", pipeline.failures()
    in_parts = pipeline.query(READ, video)
    pipeline.query("SELECT start_run('video_text', '{\"part_seconds\": 0}', %s)", video)
    pipeline.query("UPDATE videos SET status = 'new' WHERE id = %s", video)
    assert pipeline.wait(video) == "ready", pipeline.failures()
    assert pipeline.query("SELECT step, count(*) FROM jobs WHERE run_id = (SELECT id FROM runs ORDER BY created_at DESC"
                          " LIMIT 1) GROUP BY step ORDER BY step") == [("ocr", 1), ("sample", 1), ("segment_index", 1)]
    assert pipeline.query(READ, video) == in_parts == expected()
    keys = {key for key, in pipeline.query("SELECT key FROM kept_frames")}
    assert keys == {key for key in pipeline.objects() if key.endswith(".jpg")}
    assert pipeline.query("SELECT count(*) FROM cortana.line_packs") == [(1,)]
