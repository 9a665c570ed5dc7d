#!/usr/bin/python3
"""From the start of a worker's process to its first claim, and to a job's stage at work; what a look at
its numbers costs: start_bench.py BUILD CONNINFO"""
import json
import os
import pathlib
import re
import statistics
import subprocess
import sys
import tempfile
import time
import urllib.request
import uuid

import psycopg2

BUILD, CONNINFO = pathlib.Path(sys.argv[1]).resolve(), sys.argv[2]
ROUNDS = 5
DEADLINE = 30
LIVE, DONE = 20000, 200000  # jobs
FOLDERS = ["transcode", "sample", "ocr", "segment_index", "clip_generate", "object_remove"]


def report(name, unit, ours, peer=None, peer_name=None):
    print(json.dumps({"suite": "queue", "name": name, "unit": unit, "ours": round(ours, 3),
                      "peer": peer and round(peer, 3), "peer_name": peer_name,
                      "ratio": peer and round(ours / peer, 3), "goal": None, "better": "lower"}),
          flush=True)


def find_worker(folder):
    return next(path for path in sorted(BUILD.glob(f"*/{folder}/*-worker"))
                if os.access(path, os.X_OK))


def wait_for(log, pattern, after=0):
    end = time.monotonic() + DEADLINE
    while time.monotonic() < end:
        found = re.search(pattern, log.read_text()[after:])
        if found:
            return found
        time.sleep(0.002)
    raise RuntimeError(f"no {pattern} in {log.read_text()}")


def start(program, directory, *arguments):
    log = directory / "log"
    log.write_text("")
    with open(log, "ab") as file:
        process = subprocess.Popen([program, *arguments], stdout=file, stderr=file, env={
            **os.environ, "DATABASE_URL": CONNINFO, "STORE_URL": f"dir:{directory}/store"})
    return process, log


def stop(process):
    process.terminate()
    process.wait(DEADLINE)


def connect_once():
    begun = time.monotonic()
    subprocess.run(["psql", "-X", "-q", "-d", CONNINFO, "-c", "SELECT 1"], check=True,
                   stdout=subprocess.DEVNULL)
    return time.monotonic() - begun


def cold_starts(directory):
    floor = statistics.median(connect_once() for _ in range(ROUNDS))
    for folder in FOLDERS:
        program = find_worker(folder)
        claims = []
        for _ in range(ROUNDS):
            process, log = start(program, directory)
            claims.append(float(wait_for(log, r"first look for jobs, ([0-9.]+) s").group(1)))
            stop(process)
        report(f"{program.name}: start to first claim", "s", statistics.median(claims), floor,
               "psql -c 'SELECT 1'")


def idle_memory(process):
    text = pathlib.Path(f"/proc/{process.pid}/status").read_text()
    return int(re.search(r"VmRSS:\s+(\d+)", text).group(1)) / 1024


def fill(cursor):
    """What is live, and ten times as much that is done."""
    cursor.execute("ALTER TABLE jobs DISABLE TRIGGER USER")
    cursor.execute("INSERT INTO jobs (job_type, status, max_retries, is_ready, step, sequence)"
                   " SELECT 'ocr', 'done', 0, false, 'ocr', n FROM generate_series(1, %s) AS n", (DONE,))
    cursor.execute("INSERT INTO jobs (job_type, max_retries, is_ready, step, sequence)"
                   " SELECT 'ocr', 0, true, 'ocr', n FROM generate_series(1, %s) AS n", (LIVE,))
    cursor.execute("ALTER TABLE jobs ENABLE TRIGGER USER")
    cursor.execute("VACUUM ANALYZE jobs")


def seconds_of(cursor, statement):
    times = []
    for _ in range(ROUNDS):
        begun = time.monotonic()
        cursor.execute(statement)
        cursor.fetchall()
        times.append(time.monotonic() - begun)
    return statistics.median(times)


def numbers(directory, cursor):
    fill(cursor)
    report(f"KEDA's query, {LIVE:,} waiting of {LIVE + DONE:,}", "ms", 1000 * seconds_of(
        cursor, "SELECT sum(depth) FROM queue_depth WHERE job_type = 'ocr'"
                " AND status IN ('queued', 'running')"))
    report("all types and states", "ms", 1000 * seconds_of(cursor, "SELECT * FROM queue_depth"))
    cursor.execute("SELECT pause_type('ocr')")
    process, log = start(find_worker("ocr"), directory, "--listen", "127.0.0.1:0", "--metrics-fleet")
    port = wait_for(log, r"metrics at port (\d+)").group(1)
    wait_for(log, "first look")
    times = []
    for _ in range(50):
        begun = time.monotonic()
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics") as answer:
            size = len(answer.read())
        times.append(time.monotonic() - begun)
    report(f"GET /metrics, {size:,} bytes", "ms", 1000 * statistics.median(times))
    report("memory of an idle ocr-worker", "MiB", idle_memory(process))
    stop(process)


def main():
    connection = psycopg2.connect(CONNINFO)
    connection.autocommit = True
    with tempfile.TemporaryDirectory(prefix=f"cortana-bench-{uuid.uuid4().hex[:6]}-") as folder:
        directory = pathlib.Path(folder)
        cold_starts(directory)
        numbers(directory, connection.cursor())


if __name__ == "__main__":
    main()
