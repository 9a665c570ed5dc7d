#!/usr/bin/python3
"""What a look at 100,000 originals in a directory costs: scanner_bench.py BUILD CONNINFO"""
import json
import os
import pathlib
import re
import statistics
import subprocess
import sys
import tempfile
import time
import uuid

import psycopg2
import psycopg2.extras

BUILD, CONNINFO = pathlib.Path(sys.argv[1]).resolve(), sys.argv[2]
COUNT = int(os.environ.get("CORTANA_BENCH_ORIGINALS", "100000"))
NEW = 200
ROUNDS = 3
SETTLE_MS = 100


def report(name, unit, ours, peer=None, peer_name=None):
    print(json.dumps({"suite": "scanner", "name": name, "unit": unit, "ours": round(ours, 3),
                      "peer": peer and round(peer, 3), "peer_name": peer_name,
                      "ratio": peer and round(ours / peer, 3), "goal": None, "better": "lower"}),
          flush=True)


def fill(store, connection):
    """Originals that are known already; the ETags as the directory store makes them."""
    rows = []
    for _ in range(COUNT):
        video = str(uuid.uuid4())
        key = f"videos/original/{video}/master.mp4"
        path = store / key
        path.parent.mkdir(parents=True)
        path.write_bytes(b"")
        status = path.stat()
        rows.append((video, key, f"0-{status.st_mtime_ns:x}-{status.st_ino:x}-"))
    with connection.cursor() as cursor:
        psycopg2.extras.execute_values(
            cursor, "INSERT INTO videos (id, s3_original_path, original_etag, original_size, status,"
            " original_state, registered_at) VALUES %s", rows, page_size=5000,
            template="(%s, %s, %s, 0, 'ready', 'present', now())")
        cursor.execute("ANALYZE videos")
    return rows


def look(store, *arguments):
    """Seconds and lists of one run."""
    start = time.monotonic()
    done = subprocess.run([BUILD / "workers" / "scanner" / "scanner-worker", *map(str, arguments)],
                          env={**os.environ, "DATABASE_URL": CONNINFO, "STORE_URL": f"dir:{store}",
                               "CORTANA_SETTLE_MS": str(SETTLE_MS)},
                          stderr=subprocess.PIPE, text=True, check=True)
    taken, lists = re.search(r"(\d+) uploads taken, (\d+) lists", done.stderr).groups()
    return time.monotonic() - start, int(lists), int(taken)


def find(store):
    start = time.monotonic()
    subprocess.run(["find", store / "videos" / "original", "-type", "f", "-printf", "%p %s %T@ %i\n"],
                   check=True, stdout=subprocess.DEVNULL)
    return time.monotonic() - start


def main():
    connection = psycopg2.connect(CONNINFO)
    connection.autocommit = True
    with tempfile.TemporaryDirectory(prefix="cortana-scanner-bench-") as name:
        store = pathlib.Path(name)
        fill(store, connection)
        whole, peer, part = [], [], []
        for _ in range(ROUNDS):
            whole.append(look(store, "--pages", COUNT // 1000 + 1))
            peer.append(find(store))
            part.append(look(store, "--pages", 5))
        assert not any(taken for _, _, taken in whole), "the originals were to be known"
        report(f"look at all of {COUNT:,} originals", "s", statistics.median(s for s, _, _ in whole),
               statistics.median(peer), "find -printf")
        report("lists of that", "lists", whole[0][1])
        report("one look of 5 lists among them", "s", statistics.median(s for s, _, _ in part))
        report("lists of that", "lists", part[0][1])
        for number in range(NEW):
            path = store / "inbox" / f"{number}.mp4"
            path.parent.mkdir(exist_ok=True)
            path.write_bytes(b"x" * number)
        seconds, _, taken = look(store, "--pages", 5)
        assert taken == NEW
        report(f"take {NEW:,} uploads out of the inbox", "ms each",
               (seconds - SETTLE_MS / 1000) * 1000 / NEW)
    connection.close()


if __name__ == "__main__":
    main()
