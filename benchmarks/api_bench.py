#!/usr/bin/python3
"""Time of requests through api-gateway beside the same SQL from the same client, and what idle and slow clients cost.

usage: api_bench.py BUILD CONNINFO

CONNINFO names an empty, migrated database on this machine that this program may fill. Prints one JSON object a line.
CORTANA_BENCH_STREAMS (10000) says how many streams are held open, CORTANA_BENCH_REQUESTS (2000) how many are asked.
"""

import base64
import hmac
import http.client
import json
import os
import pathlib
import re
import resource
import socket
import statistics
import subprocess
import sys
import tempfile
import time
import uuid

import psycopg2

STREAMS = int(os.environ.get("CORTANA_BENCH_STREAMS", "10000"))
REQUESTS = int(os.environ.get("CORTANA_BENCH_REQUESTS", "2000"))
SLOW_CLIENTS = 1000
IDLE_SECONDS = 10
SECRET = "a secret of the benchmark that is long enough"
OWNER = str(uuid.uuid4())
CLAIMS = {"sub": OWNER, "role": "authenticated", "aud": "authenticated", "exp": int(time.time()) + 86400}


def token():
    def part(data):
        return base64.urlsafe_b64encode(data).rstrip(b"=")
    text = part(b'{"alg":"HS256"}') + b"." + part(json.dumps(CLAIMS).encode())
    return (text + b"." + part(hmac.digest(SECRET.encode(), text, "sha256"))).decode()


def report(name, unit, ours, peer=None, peer_name=None, goal=None):
    ratio = ours / peer if peer else None
    print(json.dumps({"suite": "api", "name": name, "unit": unit, "ours": ours, "peer": peer, "peer_name": peer_name,
                      "ratio": ratio, "goal": goal, "better": "lower"}), flush=True)


def fill(conninfo):
    with psycopg2.connect(conninfo) as connection, connection.cursor() as cursor:
        cursor.execute("CREATE ROLE api_bench LOGIN IN ROLE cortana_gateway")
        cursor.execute("INSERT INTO videos (owner_id, title) SELECT %s, 'video ' || n FROM generate_series(1, 5000) AS n",
                       (OWNER,))
        cursor.execute("ANALYZE")


class Gateway:
    def __init__(self, build, conninfo, log):
        environment = {**os.environ, "DATABASE_URL": conninfo.replace("user=cortana", "user=api_bench"),
                       "CORTANA_JWT_SECRET": SECRET}
        self.process = subprocess.Popen(
            [build / "gateway" / "api-gateway", "--api", "127.0.0.1:0", "--per-address", "0", "--connections", "4",
             "--rates", "read=0,write=0,search=0", "--streams", "0"], env=environment, stderr=log)
        self.headers = {"Authorization": f"Bearer {token()}"}

    def find_port(self, log_path):
        while not (found := re.search(r"the API at port (\d+)", log_path.read_text())):
            time.sleep(0.05)
        self.port = int(found.group(1))
        while self.ask(self.connect(), "/api/v1/me") != 200:
            time.sleep(0.05)

    def connect(self):
        return http.client.HTTPConnection("127.0.0.1", self.port, timeout=60)

    def ask(self, connection, path):
        connection.request("GET", path, headers=self.headers)
        answer = connection.getresponse()
        answer.read()
        return answer.status

    def cpu_seconds(self):
        fields = pathlib.Path(f"/proc/{self.process.pid}/stat").read_text().rsplit(")", 1)[1].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def resident_mib(self):
        status = pathlib.Path(f"/proc/{self.process.pid}/status").read_text()
        return int(re.search(r"VmRSS:\s+(\d+)", status).group(1)) / 1024


def quantiles(run, count):
    """p50 and p99 of this many runs, in ms."""
    taken = []
    for _ in range(count):
        began = time.perf_counter()
        run()
        taken.append((time.perf_counter() - began) * 1000)
    cuts = statistics.quantiles(taken, n=100)
    return cuts[49], cuts[98]


def compare_with_sql(gateway, conninfo):
    """A list through the gateway, and its statements by a driver that waits for each, in turn."""
    direct = psycopg2.connect(conninfo.replace("user=cortana", "user=api_bench"))
    connection = gateway.connect()

    def ask_directly():
        with direct.cursor() as cursor:
            cursor.execute("SELECT set_config('transaction_read_only', 'on', true), set_config('request.jwt.claims', %s, true),"
                           " set_config('role', 'cortana_app', true)", (json.dumps(CLAIMS),))
            cursor.execute("SELECT status, etag, headers, body::text FROM api.videos('{\"limit\": 50}')")
            cursor.fetchall()
        direct.commit()

    quantiles(ask_directly, 100)
    quantiles(lambda: gateway.ask(connection, "/api/v1/videos?limit=50"), 100)
    rounds = []
    before = gateway.cpu_seconds()
    for _ in range(5):
        rounds.append((quantiles(lambda: gateway.ask(connection, "/api/v1/videos?limit=50"), REQUESTS // 5),
                       quantiles(ask_directly, REQUESTS // 5)))
    cpu_ms = (gateway.cpu_seconds() - before) * 1000 / REQUESTS
    for at, name in ((0, "p50"), (1, "p99")):
        report(f"a list of 50 videos, {name}", "ms", statistics.median(r[0][at] for r in rounds),
               statistics.median(r[1][at] for r in rounds), "psycopg2", 1.43)
    report("the gateway's own CPU a request", "ms", cpu_ms)
    direct.close()


def hold_streams(gateway):
    """Streams that nothing happens on."""
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    before = gateway.resident_mib()
    head = (f"GET /api/v1/events?topics=tenant HTTP/1.1\r\nHost: a\r\nAuthorization: {gateway.headers['Authorization']}\r\n\r\n").encode()
    held = []
    began = time.monotonic()
    for _ in range(STREAMS):
        one = socket.create_connection(("127.0.0.1", gateway.port), timeout=60)
        one.sendall(head)
        assert one.recv(64).startswith(b"HTTP/1.1 200"), "a stream was refused"
        held.append(one)
    report(f"{STREAMS} streams are open after", "s", time.monotonic() - began)
    cpu = gateway.cpu_seconds()
    time.sleep(IDLE_SECONDS)
    report(f"{STREAMS} idle streams, CPU", "% of one", (gateway.cpu_seconds() - cpu) * 100 / IDLE_SECONDS)
    report(f"{STREAMS} idle streams, memory more", "MiB", gateway.resident_mib() - before)
    for one in held:
        one.close()


def disturb(gateway):
    """Others' requests while many clients send their headers a byte at a time."""
    connection = gateway.connect()
    alone = quantiles(lambda: gateway.ask(connection, "/api/v1/videos?limit=50"), REQUESTS // 4)
    slow = [socket.create_connection(("127.0.0.1", gateway.port)) for _ in range(SLOW_CLIENTS)]
    for one in slow:
        one.sendall(b"GET /api/v1/me HTTP/1.1\r\nHost: a\r\nX: ")
    beside = quantiles(lambda: gateway.ask(connection, "/api/v1/videos?limit=50"), REQUESTS // 4)
    report(f"the list beside {SLOW_CLIENTS} slow headers, p99", "ms", beside[1], alone[1], "without them", 2)
    began = time.monotonic()
    open_ones = set(slow)
    while open_ones and time.monotonic() - began < 30:
        for one in list(open_ones):
            try:
                one.send(b"x")
                one.setblocking(False)
                if one.recv(1) == b"":
                    open_ones.discard(one)
            except BlockingIOError:
                pass
            except OSError:
                open_ones.discard(one)
        time.sleep(0.5)
    assert not open_ones, f"{len(open_ones)} slow clients are still there"
    report("slow headers are closed after", "s", time.monotonic() - began)


def main(build, conninfo):
    fill(conninfo)
    with tempfile.NamedTemporaryFile() as log:
        gateway = Gateway(pathlib.Path(build), conninfo, log)
        try:
            gateway.find_port(pathlib.Path(log.name))
            compare_with_sql(gateway, conninfo)
            disturb(gateway)
            hold_streams(gateway)
        finally:
            gateway.process.terminate()
            gateway.process.wait(60)


main(*sys.argv[1:])
