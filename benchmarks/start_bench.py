#!/usr/bin/python3
"""From the start of a worker's process to its first claim, and to a job's stage at work; from the commit of a video's lines
to the webhook and the mail that tell of them; what a look at its numbers costs: start_bench.py BUILD CONNINFO"""
import contextlib
import http.server
import json
import os
import pathlib
import re
import statistics
import subprocess
import sys
import tempfile
import threading
import time
import urllib.request
import uuid

import psycopg2

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "tests" / "system"))

from mail_server import MailServer  # noqa: E402

BUILD, CONNINFO = pathlib.Path(sys.argv[1]).resolve(), sys.argv[2]
ROUNDS = 5
DEADLINE = 30
LIVE, DONE = 20000, 200000  # jobs
ALERTED = 25  # videos, one after the other
ALERT_GOAL = 10  # s, see docs/search.md
FOLDERS = ["transcode", "sample", "ocr", "segment_index", "clip_generate", "object_remove"]


def report(name, unit, ours, peer=None, peer_name=None, goal=None):
    print(json.dumps({"suite": "queue", "name": name, "unit": unit, "ours": round(ours, 3),
                      "peer": peer and round(peer, 3), "peer_name": peer_name,
                      "ratio": round(ours / peer, 3) if peer else round(ours, 3) if goal else None, "goal": goal,
                      "better": "lower"}), flush=True)


def find_worker(folder):
    names = (folder, f"{folder}-worker")
    return next(path for path in sorted(BUILD.glob(f"*/{folder}/*")) if path.name in names and os.access(path, os.X_OK))


def wait_for(log, pattern, after=0):
    end = time.monotonic() + DEADLINE
    while time.monotonic() < end:
        found = re.search(pattern, log.read_text()[after:])
        if found:
            return found
        time.sleep(0.002)
    raise RuntimeError(f"no {pattern} in {log.read_text()}")


def start(program, directory, *arguments, log="log", **settings):
    log = directory / log
    log.write_text("")
    with open(log, "ab") as file:
        process = subprocess.Popen([program, *arguments], stdout=file, stderr=file, env={
            **os.environ, "DATABASE_URL": CONNINFO, "STORE_URL": f"dir:{directory}/store", **settings})
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


class Receiver(http.server.BaseHTTPRequestHandler):
    def do_POST(self):
        self.rfile.read(int(self.headers["content-length"]))
        self.server.received += 1
        self.send_response(200)
        self.end_headers()

    def log_message(self, *arguments):
        pass


def alerts(directory, cursor, arguments, how):
    """From the commit of a video's lines to the arrival of what tells of a saved search's match."""
    receiver, mails = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Receiver), MailServer()
    receiver.received = 0
    threading.Thread(target=receiver.serve_forever, args=(0.05,), daemon=True).start()
    cursor.execute("INSERT INTO cortana.people (email, name) VALUES (%s, 'x') RETURNING id", (f"{uuid.uuid4()}@example.org",))
    (owner,) = cursor.fetchone()
    cursor.execute("INSERT INTO saved_searches (owner_id, tenant_id, name, query, mail) VALUES (%s, %s, 'x', 'bridge', 'at_once')", (owner, owner))
    name = f"alerts-{receiver.server_port}"
    cursor.execute("SELECT add_webhook(%s, %s)", (name, f"http://127.0.0.1:{receiver.server_port}/"))
    cursor.execute("INSERT INTO job_triggers (name, event, action, target) VALUES (%s, 'search.matched', 'webhook', %s)", (name, name))
    with contextlib.ExitStack() as programs:
        for folder, more, settings in (("scheduler", [], {}), ("webhook", arguments, {"CORTANA_WEBHOOK_ALLOW": "127.0.0.0/8"}),
                                       ("mail", arguments, {"SMTP_URL": mails.url(user=None, query="?page=https://videos.example.org&from=cortana@example.org")})):
            process, log = start(find_worker(folder), directory, *more, log=folder, **settings)
            programs.callback(stop, process)
            if folder != "scheduler":
                wait_for(log, "first look for jobs")
        waited = {"webhook": [], "mail": []}
        for number in range(1, ALERTED + 1):
            cursor.execute("INSERT INTO videos (owner_id, original_name, duration) VALUES (%s, 'a.mp4', 60) RETURNING id", (owner,))
            (video,) = cursor.fetchone()
            cursor.execute("SELECT replace_video_text(%s, %s)", (video, json.dumps([
                {"text": f"the old bridge {n}", "confidence": 0.9, "t_start": n, "t_end": n + 1,
                 "bounding_box": {"x": 1, "y": 1, "width": 9, "height": 9}} for n in range(500)])))
            begun, late = time.monotonic(), dict(waited)
            while late:
                for kind, count in (("webhook", receiver.received), ("mail", len(mails.mails))):
                    if kind in late and count >= number:
                        late.pop(kind).append(time.monotonic() - begun)
                if time.monotonic() - begun > DEADLINE:
                    raise RuntimeError(f"no {', '.join(late)} for the video {number}")
                time.sleep(0.002)
    cursor.execute("DELETE FROM job_triggers WHERE name = %s", (name,))
    for kind, times in waited.items():
        report(f"lines of a video committed to {kind} of an alert, {how}, median of {ALERTED}", "s", statistics.median(times), goal=ALERT_GOAL)
        report(f"the same, {kind}, {how}, most", "s", max(times), goal=ALERT_GOAL)
    receiver.shutdown()
    mails.close()


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
        alerts(directory, connection.cursor(), [], "told by notifications")
        alerts(directory, connection.cursor(), ["--no-listen"], "workers look by themselves")
        numbers(directory, connection.cursor())


if __name__ == "__main__":
    main()
