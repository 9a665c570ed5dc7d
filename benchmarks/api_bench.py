#!/usr/bin/python3
"""Time of requests through api-gateway beside the same SQL from the same client, and what idle and slow clients cost.

usage: api_bench.py BUILD CONNINFO

CONNINFO names an empty, migrated database on this machine that this program may fill. Prints one JSON object a line.
CORTANA_BENCH_STREAMS (2000) says how many streams are held open, CORTANA_BENCH_REQUESTS (400) how many are asked,
CORTANA_BENCH_JOBS (20000) and CORTANA_BENCH_LINES (5000) how large the tables are, CORTANA_BENCH_RATE_SECONDS (3) how long
each is asked at a rate, CORTANA_BENCH_ENDURE_SECONDS (5) how long requests follow each other while memory is looked at, and
CORTANA_BENCH_SLOW (1000) how many clients are slow. Peers: psycopg2 and pgbench with the same statements, and nginx for files.
"""

import base64
import contextlib
import hmac
import http.client
import json
import os
import pathlib
import re
import resource
import selectors
import socket
import statistics
import subprocess
import sys
import tempfile
import threading
import time
import uuid

import psycopg2

STREAMS = int(os.environ.get("CORTANA_BENCH_STREAMS", "2000"))
REQUESTS = int(os.environ.get("CORTANA_BENCH_REQUESTS", "400"))
JOBS = int(os.environ.get("CORTANA_BENCH_JOBS", "20000"))
LINES = int(os.environ.get("CORTANA_BENCH_LINES", "5000"))
RATE_SECONDS = int(os.environ.get("CORTANA_BENCH_RATE_SECONDS", "3"))
ENDURE_SECONDS = int(os.environ.get("CORTANA_BENCH_ENDURE_SECONDS", "5"))
RATE_THREADS = 16
LINES_OF_A_VIDEO = 500
SEGMENT_BYTES, FILE_BYTES = 100 * 1024, 256 * 1024 * 1024
ROUNDS = 3
WATCHERS, DRAINED, DRAIN_BATCH = 100, 10000, 200
SLOW_CLIENTS = int(os.environ.get("CORTANA_BENCH_SLOW", "1000"))
IDLE_SECONDS = 10
SECRET = "a secret of the benchmark that is long enough"
OWNER = str(uuid.uuid4())
CLAIMS = {"sub": OWNER, "role": "authenticated", "aud": "authenticated", "exp": int(time.time()) + 86400}


def token(claims=CLAIMS):
    def part(data):
        return base64.urlsafe_b64encode(data).rstrip(b"=")
    text = part(b'{"alg":"HS256"}') + b"." + part(json.dumps(claims).encode())
    return (text + b"." + part(hmac.digest(SECRET.encode(), text, "sha256"))).decode()


def report(name, unit, ours, peer=None, peer_name=None, goal=None, better="lower"):
    ratio = ours / peer if peer else None
    print(json.dumps({"suite": "api", "name": name, "unit": unit, "ours": ours, "peer": peer, "peer_name": peer_name,
                      "ratio": ratio, "goal": goal, "better": better}), flush=True)


def fill(conninfo):
    with psycopg2.connect(conninfo) as connection, connection.cursor() as cursor:
        cursor.execute("CREATE ROLE api_bench LOGIN IN ROLE cortana_gateway")
        cursor.execute("INSERT INTO videos (owner_id, title) SELECT %s, 'video ' || n FROM generate_series(1, 5000) AS n",
                       (OWNER,))
        cursor.execute("ANALYZE")


class Gateway:
    def __init__(self, build, conninfo, log, store):
        environment = {**os.environ, "STORE_URL": f"dir:{store}", "DATABASE_URL": conninfo.replace("user=cortana", "user=api_bench"),
                       "CORTANA_JWT_SECRET": SECRET}
        self.began = time.monotonic()
        self.process = subprocess.Popen(
            [build / "gateway" / "api-gateway", "--api", "127.0.0.1:0", "--per-address", "0", "--connections", "4",
             "--rates", "read=0,write=0,search=0", "--streams", "0"], env=environment, stderr=log)
        self.headers = {"Authorization": f"Bearer {token()}"}

    def find_port(self, log_path):
        while not (found := re.search(r"the API at port (\d+)", log_path.read_text())):
            time.sleep(0.005)
        self.port = int(found.group(1))
        while self.ask(self.connect(), "/api/v1/me") != 200:
            time.sleep(0.005)
        report("from the start to the first answer out of the database", "s", time.monotonic() - self.began, goal=0.3)
        report("memory after the first answer", "MiB", self.resident_mib(), goal=25)

    def connect(self):
        return http.client.HTTPConnection("127.0.0.1", self.port, timeout=60)

    def ask(self, connection, path, **more):
        connection.request("GET", path, headers={**self.headers, **more})
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
    """p50 and p99 of this many runs, and all of them, in ms."""
    taken = []
    for _ in range(count):
        began = time.perf_counter()
        run()
        taken.append((time.perf_counter() - began) * 1000)
    cuts = statistics.quantiles(taken, n=100)
    return cuts[49], cuts[98], taken


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
    for _ in range(ROUNDS):
        rounds.append((quantiles(lambda: gateway.ask(connection, "/api/v1/videos?limit=50"), REQUESTS // ROUNDS),
                       quantiles(ask_directly, REQUESTS // ROUNDS)))
    cpu_ms = (gateway.cpu_seconds() - before) * 1000 / REQUESTS
    for at, name in ((0, "p50"), (1, "p99")):
        report(f"a list of 50 videos, {name}", "ms", statistics.median(r[0][at] for r in rounds),
               statistics.median(r[1][at] for r in rounds), "psycopg2", 1.43)
    report("the gateway's own CPU of a list", "ms", cpu_ms)
    direct.close()


def fill_tables(conninfo):
    """Jobs of one owner's videos, one a second, and lines of which every tenth has the words that are asked for."""
    with psycopg2.connect(conninfo) as connection, connection.cursor() as cursor:
        cursor.execute("INSERT INTO jobs (job_type, video_id, created_at, payload)"
                       " SELECT 'clip_generate', v.id, now() - (%s - g) * interval '1 second', jsonb_build_object('clip_id', v.id,"
                       " 's3_original_path', 'videos/original/x/master.mp4', 't_start', 0, 't_end', 1000) FROM"
                       " (SELECT id, row_number() OVER () AS n FROM videos WHERE owner_id = %s) AS v"
                       " JOIN generate_series(1, %s) AS g ON g %% 5000 = v.n - 1 ORDER BY g", (JOBS, OWNER, JOBS))
        for first in range(0, LINES, LINES_OF_A_VIDEO):
            cursor.execute("INSERT INTO videos (owner_id, title) VALUES (%s, 'lines') RETURNING id", (OWNER,))
            lines = [f"line {n} {'the old bridge' if n % 10 == 0 else 'words of a chat'}" for n in range(first, first + LINES_OF_A_VIDEO)]
            cursor.execute("SELECT replace_video_text(%s, %s)", (cursor.fetchone()[0], json.dumps([
                {"text": line, "normalized_text": line, "language": "eng", "confidence": 0.9, "t_start": n * 100, "t_end": n * 100 + 900,
                 "bounding_box": {"x": 1, "y": 2, "width": 300, "height": 40}, "entities": []} for n, line in enumerate(lines)])))
        connection.commit()
        cursor.execute("SELECT brin_summarize_new_values('jobs_created')")  # as autovacuum does after a while
        cursor.execute("ANALYZE")


def compare_with_pgbench(gateway, conninfo, folder):
    """Lists of large tables: one client through the gateway, one of pgbench with the same statements, in turn."""
    connection = gateway.connect()
    for what, path, function, arguments in (
            (f"the newest of {JOBS} jobs", "/api/v1/jobs?limit=50", "jobs", {"limit": 50}),
            (f"a search in {LINES} lines", "/api/v1/search?q=%22old+bridge%22", "search", {"q": '"old bridge"'})):
        (folder / "script").write_text(
            "BEGIN;\nSELECT set_config('transaction_read_only', 'on', true), set_config('request.jwt.claims',"
            f" '{json.dumps(CLAIMS)}', true), set_config('role', 'cortana_app', true);\n"
            f"SELECT status, etag, headers, body FROM api.{function}('{json.dumps(arguments)}');\nCOMMIT;\n")
        ours, peers = [], []
        for _ in range(ROUNDS):
            ours.append(statistics.mean(quantiles(lambda path=path: gateway.ask(connection, path), REQUESTS // 20)[2]))
            run = subprocess.run(["pgbench", "-n", "-f", folder / "script", "-c", "1", "-t", str(REQUESTS // 20),
                                  conninfo.replace("user=cortana", "user=api_bench")], check=True, capture_output=True, text=True)
            peers.append(float(re.search(r"latency average = ([\d.]+) ms", run.stdout).group(1)))
        report(f"{what}, mean", "ms", statistics.median(ours), statistics.median(peers), "pgbench", 1.43)


def answer_times(gateway, path, rate, **more):
    """How long each of so many requests a second took from the moment at which it was due, in ms; all of them, whatever others take."""
    due = iter([n / rate for n in range(rate * RATE_SECONDS)])
    lock, taken, began = threading.Lock(), [], time.perf_counter() + 0.1

    def ask_in_turn():
        connection = gateway.connect()
        while True:
            with lock:
                at = next(due, None)
            if at is None:
                return
            time.sleep(max(0, began + at - time.perf_counter()))
            status = gateway.ask(connection, path, **more)
            assert status == (304 if "If-None-Match" in more else 200), status
            taken.append((time.perf_counter() - began - at) * 1000)

    threads = [threading.Thread(target=ask_in_turn) for _ in range(RATE_THREADS)]
    for one in threads:
        one.start()
    for one in threads:
        one.join()
    return taken


def ask_at_rates(gateway, conninfo):
    with psycopg2.connect(conninfo) as connection, connection.cursor() as cursor:
        cursor.execute("SELECT id FROM jobs ORDER BY id LIMIT 1 OFFSET 500")
        job = cursor.fetchone()[0]
    operator = {"Authorization": f"Bearer {token({**CLAIMS, 'role': 'service_role'})}"}
    connection = gateway.connect()
    connection.request("GET", f"/api/v1/jobs/{job}", headers=operator)
    answer = connection.getresponse()
    answer.read()
    for what, path, rate, goal, more in (
            (f"a search that hits a tenth of {LINES} lines", "/api/v1/search?q=%22old+bridge%22", 5, 50, {}),
            (f"a search that hits one of {LINES} lines", f"/api/v1/search?q={LINES - 7}", 20, 50, {}),
            (f"the newest of {JOBS} jobs, of an operator", "/api/v1/jobs?limit=50", 200, 15, operator),
            ("a job", f"/api/v1/jobs/{job}", 200, 10, operator),
            ("a job that has not changed", f"/api/v1/jobs/{job}", 200, 2, {**operator, "If-None-Match": answer.headers["ETag"]})):
        taken = answer_times(gateway, path, rate, **more)
        cuts = statistics.quantiles(taken, n=100)
        report(f"{what}, {rate} a second, p50", "ms", cuts[49])
        report(f"{what}, {rate} a second, p99", "ms", cuts[98], goal=goal)


def endure(gateway):
    """Memory after requests that follow each other as fast as they are answered, against memory after the first of them."""
    def run(seconds):
        done = subprocess.run(["wrk", "-t", "1", "-c", "8", "-d", str(seconds), "-H", f"Authorization: {gateway.headers['Authorization']}",
                               f"http://127.0.0.1:{gateway.port}/api/v1/me"], check=True, capture_output=True, text=True)
        assert "Non-2xx" not in done.stdout, done.stdout
        return int(re.search(r"(\d+) requests in", done.stdout).group(1))

    run(2)
    before, cpu = gateway.resident_mib(), gateway.cpu_seconds()
    count = run(ENDURE_SECONDS)
    report(f"{count} requests, memory", "MiB", gateway.resident_mib(), before, "after two seconds of them", 1.05)
    report(f"{count} requests by 8 connections, the gateway's CPU of each", "ms", (gateway.cpu_seconds() - cpu) * 1000 / count, goal=0.15)


def start_nginx(build, folder, root, more=""):
    """An nginx that answers with the files of a folder: its port, and its process."""
    subprocess.run([pathlib.Path(__file__).parents[1] / "scripts/proxy_programs", build / "tools"], check=True)
    root.mkdir(exist_ok=True)
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    (folder / "conf").write_text(
        f"user root; daemon off; pid {folder}/pid; error_log stderr; worker_processes 2; events {{ }} http {{ access_log off; sendfile on;"
        + "".join(f" {kind}_temp_path {folder}/{kind};" for kind in ("client_body", "proxy", "fastcgi", "uwsgi", "scgi"))
        + f" keepalive_requests 1000000; server {{ listen 127.0.0.1:{port}; root {root}; {more} }} }}")
    nginx = subprocess.Popen([build / "tools" / "nginx", "-p", folder, "-e", "stderr", "-c", folder / "conf"], stderr=subprocess.DEVNULL)
    while subprocess.run(["curl", "-s", "-o", "/dev/null", f"http://127.0.0.1:{port}/"], check=False).returncode != 0:
        time.sleep(0.05)
    return port, nginx


def compare_with_nginx(gateway, conninfo, build, store, folder):
    """A segment by requests one after the other, and a large file in one."""
    with psycopg2.connect(conninfo) as connection, connection.cursor() as cursor:
        cursor.execute("INSERT INTO videos (owner_id, s3_original_path, s3_proxy_path, status) VALUES (%s, 'x', 'y', 'ready')"
                       " RETURNING id::text", (OWNER,))
        video = cursor.fetchone()[0]
    keys = {SEGMENT_BYTES: f"videos/proxy/{video}/v0/segment_0.m4s", FILE_BYTES: f"videos/proxy/{video}/v0/segment_1.m4s"}
    for size, key in keys.items():
        (store / key).parent.mkdir(parents=True, exist_ok=True)
        (store / key).write_bytes(os.urandom(SEGMENT_BYTES) * (size // SEGMENT_BYTES))
    port, nginx = start_nginx(build, folder, store)
    try:
        connection = gateway.connect()
        connection.request("POST", f"/api/v1/videos/{video}/grant", headers=gateway.headers)
        base = json.loads(connection.getresponse().read())["base_url"]
        peer = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
        ours, peers, large = [], [], ([], [])
        for _ in range(ROUNDS):
            ours.append(quantiles(lambda: gateway.ask(connection, base + keys[SEGMENT_BYTES]), REQUESTS // 10)[0])
            peers.append(quantiles(lambda: gateway.ask(peer, "/" + keys[SEGMENT_BYTES]), REQUESTS // 10)[0])
            for times, url in zip(large, (f"http://127.0.0.1:{gateway.port}{base}{keys[FILE_BYTES]}",
                                          f"http://127.0.0.1:{port}/{keys[FILE_BYTES]}")):
                began = time.monotonic()
                subprocess.run(["curl", "-fsS", "-o", "/dev/null", url], check=True)
                times.append(time.monotonic() - began)
        report(f"a file of {SEGMENT_BYTES >> 10} KiB, p50", "ms", statistics.median(ours), statistics.median(peers), "nginx", 1.67)
        report(f"a file of {FILE_BYTES >> 20} MiB", "s", statistics.median(large[0]), statistics.median(large[1]), "nginx", 1.11)
    finally:
        nginx.terminate()
        nginx.wait(20)


def drain(conninfo):
    """How many jobs a second one worker takes and completes, in batches."""
    with contextlib.closing(psycopg2.connect(conninfo)) as connection:
        connection.autocommit = True
        cursor = connection.cursor()
        cursor.execute("INSERT INTO job_types (name, description) VALUES ('noop', 'benchmark') ON CONFLICT DO NOTHING")
        cursor.execute("SELECT count(*) FROM enqueue_jobs('noop', array_fill('{}'::jsonb, ARRAY[%s]))", (DRAINED,))
        began = time.monotonic()
        while True:
            cursor.execute("SELECT array_agg(id)::uuid[]::text[], array_agg(lease_token)"
                           " FROM claim_jobs('bench', 'noop', %s, '1 minute')", (DRAIN_BATCH,))
            ids, tokens = cursor.fetchone()
            if not ids:
                return DRAINED / (time.monotonic() - began)
            cursor.execute("SELECT complete_jobs(%s::uuid[], %s::bigint[])", (ids, tokens))


def drain_beside_watchers(gateway, conninfo):
    """How fast a worker drains a queue while many streams tell of every job, and while nobody listens."""
    service = token({"role": "service_role", "aud": "authenticated", "exp": CLAIMS["exp"]})
    head = f"GET /api/v1/events?topics=tenant HTTP/1.1\r\nHost: a\r\nAuthorization: Bearer {service}\r\n\r\n".encode()
    rates = {0: [], WATCHERS: []}
    drain(conninfo)  # the first one warms caches
    for number in range(ROUNDS):
        for watchers in sorted(rates, reverse=number % 2 == 1):
            streams = [socket.create_connection(("127.0.0.1", gateway.port)) for _ in range(watchers)]
            for one in streams:
                one.sendall(head)
            stop = threading.Event()
            reader = threading.Thread(target=read_all, args=(streams, stop))
            reader.start()
            try:
                rates[watchers].append(drain(conninfo))
            finally:
                stop.set()
                reader.join()
                for one in streams:
                    one.close()
    report(f"{DRAINED} jobs are drained, with {WATCHERS} watchers", "jobs/s", statistics.median(rates[WATCHERS]), statistics.median(rates[0]),
           "nobody watches", 0.97, "higher")


def read_all(streams, stop):
    """Takes what comes, as browsers do."""
    with selectors.DefaultSelector() as ready:
        for one in streams:
            ready.register(one, selectors.EVENT_READ)
        while not stop.is_set():
            for key, _ in ready.select(0.2):
                if not key.fileobj.recv(1 << 20):
                    ready.unregister(key.fileobj)


def hold_streams(gateway):
    """Streams that nothing happens on."""
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
    slow = []
    for _ in range(SLOW_CLIENTS):
        slow.append(socket.create_connection(("127.0.0.1", gateway.port)))
        slow[-1].sendall(b"GET /api/v1/me HTTP/1.1\r\nHost: a\r\nX: ")
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
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    fill(conninfo)
    build = pathlib.Path(build)
    with tempfile.NamedTemporaryFile() as log, tempfile.TemporaryDirectory() as folder:
        folder = pathlib.Path(folder)
        (folder / "store").mkdir()
        gateway = Gateway(build, conninfo, log, folder / "store")
        try:
            gateway.find_port(pathlib.Path(log.name))
            compare_with_sql(gateway, conninfo)
            compare_with_nginx(gateway, conninfo, build, folder / "store", folder)
            fill_tables(conninfo)
            compare_with_pgbench(gateway, conninfo, folder)
            ask_at_rates(gateway, conninfo)
            endure(gateway)
            drain_beside_watchers(gateway, conninfo)
            disturb(gateway)
            hold_streams(gateway)
        finally:
            gateway.process.terminate()
            gateway.process.wait(60)


if __name__ == "__main__":
    main(*sys.argv[1:])
