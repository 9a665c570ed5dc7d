#!/usr/bin/python3
"""What a look of the scanner costs: at 100,000 originals in a directory, at 20,000 on a real S3 server,
and at 1,000,000 in a list that is served in S3's form: scanner_bench.py BUILD CONNINFO [PART…]"""
import hashlib
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

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent / "tests" / "system")]

from listed_bucket import ListedBucket, listed_key  # noqa: E402
from s3_server import S3Server  # noqa: E402

BUILD, CONNINFO = pathlib.Path(sys.argv[1]).resolve(), sys.argv[2]
COUNT = int(os.environ.get("CORTANA_BENCH_ORIGINALS", "100000"))
ON_S3 = int(os.environ.get("CORTANA_BENCH_ON_S3", "20000"))
LISTED = int(os.environ.get("CORTANA_BENCH_LISTED", "1000000"))
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
    """Seconds, lists and uploads taken of one run; `store` is a directory or the variables of S3."""
    where = store if isinstance(store, dict) else {"STORE_URL": f"dir:{store}"}
    start = time.monotonic()
    done = subprocess.run([BUILD / "workers" / "scanner" / "scanner-worker", *map(str, arguments)],
                          env={**os.environ, "DATABASE_URL": CONNINFO, **where,
                               "CORTANA_SETTLE_MS": str(SETTLE_MS)},
                          stderr=subprocess.PIPE, text=True, check=True)
    taken, lists = re.search(r"(\d+) uploads imported, (\d+) lists", done.stderr).groups()
    return time.monotonic() - start, int(lists), int(taken)


def find(store):
    start = time.monotonic()
    subprocess.run(["find", store / "videos" / "original", "-type", "f", "-printf", "%p %s %T@ %i\n"],
                   check=True, stdout=subprocess.DEVNULL)
    return time.monotonic() - start


def in_a_directory(connection):
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


def known(connection, count, etag):
    """Rows of that many listed originals of one byte, as an earlier look has left them."""
    with connection.cursor() as cursor:
        cursor.execute("DELETE FROM scan_positions")
        cursor.execute("TRUNCATE videos CASCADE")
        key = "'videos/original/' || id || '/master.mp4'"
        cursor.execute(
            "INSERT INTO videos (id, s3_original_path, original_etag, original_size, status,"
            f" original_state, registered_at) SELECT id::uuid, {key}, %s, 1, 'ready', 'present', now()"
            " FROM (SELECT lpad(to_hex(n), 8, '0') || '-0000-4000-8000-000000000000' AS id"
            "       FROM generate_series(0, %s - 1) AS n) AS ids", (etag, count))
        cursor.execute("ANALYZE videos")


def looks(name, store, count, requests):
    """A look at all of a bucket, and looks that go on where the last one ended."""
    seconds, lists, taken = look(store, "--pages", count // 1000 + 1)
    assert taken == 0, "the originals were to be known"
    report(f"look at all of {name}", "s", seconds)
    report("lists of that", "lists", lists)
    part = []
    for _ in range(ROUNDS):
        before = requests()
        part.append((*look(store, "--pages", 5), requests() - before))
    assert not any(taken for _, _, taken, _ in part)
    report(f"one look of 5 lists in {name}", "s", statistics.median(s for s, *_ in part))
    report("lists of that", "lists", part[0][1])
    if part[0][3]:
        report("requests of that, as the server counts", "requests", part[0][3])


def on_s3(connection):
    """On a real server as many as it takes in in a minute."""
    known(connection, ON_S3, hashlib.md5(b"x").hexdigest())
    server = S3Server()
    with tempfile.TemporaryDirectory(prefix="cortana-scanner-bench-") as name:
        keys = pathlib.Path(name) / "keys"
        keys.write_text("".join(listed_key(number) + "\n" for number in range(ON_S3)))
        try:
            server.start()
            environment = server.environment("bench")
            subprocess.run([BUILD / "cli" / "cortana", "bucket", "init"], check=True,
                           env={**os.environ, **environment}, stdout=subprocess.DEVNULL)
            start = time.monotonic()
            subprocess.run([BUILD / "benchmarks" / "store-bench", "fill", "s3://bench", keys], check=True,
                           env={**os.environ, **environment}, stderr=subprocess.DEVNULL)
            report(f"put {ON_S3:,} objects of a byte on S3", "s", time.monotonic() - start)
            looks(f"{ON_S3:,} originals on S3", environment, ON_S3, lambda: 0)
        finally:
            server.stop()


def in_a_list(connection):
    """A million keys, which no real server takes in in minutes: the scanner's side of it is the same."""
    bucket = ListedBucket(LISTED)
    try:
        known(connection, LISTED, bucket.etag)
        looks(f"{LISTED:,} listed originals", bucket.environment(), LISTED, lambda: bucket.requests)
    finally:
        bucket.close()


def main():
    connection = psycopg2.connect(CONNINFO)
    connection.autocommit = True
    for part in sys.argv[3:] or ("in_a_directory", "on_s3", "in_a_list"):
        globals()[part](connection)
    connection.close()


if __name__ == "__main__":
    main()
