"""What stands in docs/examples works."""

import os
import pathlib
import signal
import subprocess
import sys

import psycopg2
import pytest
from api import Gateway, make_login, token
from jobs import Queue
from media_tools import make_clip, streams
from pipeline import Pipeline
from workers import Jobs, wait_until

pytestmark = pytest.mark.sanitized(0)

EXAMPLES = pathlib.Path(__file__).resolve().parents[2] / "docs" / "examples"


@pytest.fixture
def jobs(sql):
    sql.cursor().execute("INSERT INTO job_types (name, description) VALUES ('reverse', 'Texts, backwards')")
    return Jobs(sql)


@pytest.fixture
def worker(jobs, database):
    environment = {**os.environ, "DATABASE_URL": database, "RENEW_S": "0.2"}
    with subprocess.Popen([sys.executable, EXAMPLES / "worker.py"], env=environment) as process:
        yield process
        process.kill()


def test_a_worker_in_plain_sql(jobs, worker, sql):
    good = jobs.enqueue({"text": "abc"}, "reverse")
    wrong = jobs.enqueue({"words": "abc"}, "reverse")
    broken = jobs.enqueue({"text": 7}, "reverse")
    assert jobs.wait_for(good, "done")["result"] == {"text": "cba"}
    assert jobs.wait_for(wrong, "failed")["scheduled_for"] is None
    assert jobs.wait_for(broken, "failed")["scheduled_for"] is not None
    assert [attempt["error_type"] for attempt in jobs.attempts(broken)] == ["ServerError"]

    slow = jobs.enqueue({"text": "abc", "seconds": 30}, "reverse")
    leased_until = jobs.wait_for(slow, "processing")["locked_until"]
    wait_until(lambda: jobs.get(slow)["locked_until"] > leased_until, "the lease to be renewed")
    sql.cursor().execute("SELECT cancel_job(%s)", (slow,))
    assert worker.wait(timeout=300) == 1


def test_a_job_that_was_lost_is_not_settled(jobs, sql, monkeypatch):
    monkeypatch.syspath_prepend(EXAMPLES)
    import worker as example
    job_id = jobs.enqueue({"text": "abc"}, "reverse")
    connection = psycopg2.connect(sql.dsn)
    claim = "SELECT id, lease_token, payload FROM claim_jobs('one', 'reverse', 1, '1 millisecond')"
    first = example.ask(connection, claim)
    second = wait_until(lambda: jobs.rows("SELECT rescue_expired_jobs('reverse')") and example.ask(
        connection, claim.replace("one", "two").replace("1 millisecond", "5 minutes")), "a second claim")
    monkeypatch.setenv("DATABASE_URL", sql.dsn)
    example.run(connection, *first)
    assert jobs.get(job_id)["status"] == "processing"
    example.run(connection, *second)
    assert jobs.get(job_id)["status"] == "done"
    connection.close()


def watch_a_folder(folder, film, sql, environment):
    """A recorder writes a file for 4.5 s, as OBS does; when it is whole it is uploaded, once, and has its subtitles beside it."""
    def uploads():
        with sql.cursor() as cursor:
            cursor.execute("SELECT round(duration) FROM videos WHERE original_name = '2026-03-01 14-05-10.mkv'")
            return cursor.fetchall()

    folder.mkdir()
    command = [sys.executable, EXAMPLES / "folder.py", "--settle", "2", folder]
    with subprocess.Popen(command, env=environment) as watcher:
        subprocess.run(["ffmpeg", "-v", "error", "-re", "-stream_loop", "2", "-i", film, "-c", "copy", "-flush_packets", "1",
                        "-cluster_time_limit", "200", folder / "2026-03-01 14-05-10.mkv"], check=True)
        assert not uploads(), "it is not sent while it grows"
        wait_until(lambda: list(folder.glob("*.srt")), "subtitles beside the recording")
        watcher.send_signal(signal.SIGINT)
        assert watcher.wait(timeout=300) == 130
    sidecar, = folder.glob("*.srt")
    assert sidecar.name == "2026-03-01 14-05-10.screen.eng.srt" and "Ines Carvalho, Harbour Master" in sidecar.read_text()
    assert streams(sidecar)["subtitle"]["codec_name"] == "subrip"
    sidecar.unlink()
    subprocess.run([*command, "--once"], env=environment, check=True, timeout=300)
    assert sidecar.exists() and [int(seconds) for seconds, in uploads()] in ([4], [5]), "it was there already, and whole"


def test_a_client_of_the_api(program, database, sql, store_dir, fixtures_dir, tmp_path):
    """It uploads, waits, searches and cuts, against a gateway, a scanner and the pipeline's workers."""
    make_login(Queue(sql))
    film = tmp_path / "film.mp4"
    make_clip(film, f"-ss 3 -i {fixtures_dir / 'subtitles.mp4'} -t 1.5 -r 12 -an -c:v libx264 -preset ultrafast")
    pipeline = Pipeline(program, database, sql, store_dir, tmp_path, CORTANA_SETTLE_MS="100")
    pipeline.start()
    with subprocess.Popen([program("scanner-worker"), "--interval", "3600"], env=pipeline.environment) as scanner:
        gateway = Gateway(program, database, tmp_path, STORE_URL=f"dir:{store_dir}")
        try:
            done = subprocess.run(
                [sys.executable, EXAMPLES / "client.py", film, "harbour", tmp_path / "clip.mp4"],
                env={**os.environ, "API": f"http://127.0.0.1:{gateway.port}/api/v1", "TOKEN": token()}, text=True,
                capture_output=True, check=False, timeout=240)
            assert done.returncode == 0, done.stdout + done.stderr + str(pipeline.failures())
            assert "Ines Carvalho, Harbour Master" in done.stdout
            assert streams(tmp_path / "clip.mp4")["video"]["codec_name"] == "h264"
            refused = subprocess.run([sys.executable, EXAMPLES / "client.py", EXAMPLES / "client.py", "x", "y"], env={
                **os.environ, "API": f"http://127.0.0.1:{gateway.port}/api/v1", "TOKEN": token()}, text=True,
                capture_output=True, check=False, timeout=300)
            assert refused.returncode == 1 and "ends in .mp4" in refused.stderr
            watch_a_folder(tmp_path / "recordings", film, sql, {
                **os.environ, "API": f"http://127.0.0.1:{gateway.port}/api/v1", "TOKEN": token()})
        finally:
            gateway.process.stop()
            pipeline.stop()
            scanner.terminate()
