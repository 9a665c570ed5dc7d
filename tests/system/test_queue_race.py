"""Several processes drain one queue through the library: each job done once, none lost."""

import os
import subprocess

import pytest
from jobs import TRANSCODE

PROCESSES = 4


def drain(program, database, limit, mode):
    environment = {**os.environ, "DATABASE_URL": database}
    return [subprocess.Popen([program("drain-jobs"), f"worker-{n}", "transcode", str(limit), mode],
                             env=environment, text=True, stdout=subprocess.PIPE,
                             stderr=subprocess.PIPE) for n in range(PROCESSES)]


@pytest.mark.parametrize("count, limit, mode", [(4000, 20, "batch"), (1000, 1, "single"),
                                                (2000, 7, "single")])
def test_four_processes_drain_a_queue(program, database, queue, count, limit, mode):
    queue.run(f"SELECT enqueue_job('transcode', '{TRANSCODE}') FROM generate_series(1, %s)", count)
    accepted = []
    shares = []
    for process in drain(program, database, limit, mode):
        out, err = process.communicate(timeout=300)
        assert process.returncode == 0, err
        shares.append(len(out.splitlines()))
        accepted += out.splitlines()

    assert len(accepted) == count, "every job was accepted as done, and only once"
    assert set(accepted) == {str(row["id"]) for row in queue.run("SELECT id FROM jobs")}
    assert all(shares), f"every process had a share: {shares}"
    assert queue.run("SELECT status, count(*) AS n FROM jobs GROUP BY 1") == [
        {"status": "done", "n": count}]
    assert queue.run("SELECT attempt, status, count(*) AS n FROM job_attempts GROUP BY 1, 2") == [
        {"attempt": 1, "status": "succeeded", "n": count}]
    assert queue.value("SELECT count(DISTINCT lease_token) FROM jobs") == count
    assert queue.run("SELECT data ->> 'to' AS status, count(*) AS n, count(DISTINCT job_id) AS jobs"
                     " FROM task_events GROUP BY 1 ORDER BY 1") == [
        {"status": status, "n": count, "jobs": count} for status in ("done", "processing", "queued")]
