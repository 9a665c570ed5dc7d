"""The examples of proxies in front of the gateway, as they stand in docs/examples, but for names, ports and certificates."""

import http.client
import json
import os
import random
import re
import socket
import ssl
import subprocess
import uuid

import pytest
from api import ALICE, run_openssl, token
from conftest import ROOT
from s3_server import free_port
from workers import wait_until

NAME = "cortana.example.com"
CLIENT, LIAR = "127.0.0.2", "203.0.113.9"
FILE = random.Random(8).randbytes(8 * 1024 * 1024 + 5)  # a large part, and a small one
PART = 8 * 1024 * 1024
DRAWS = random.Random(200)
SEGMENT = FILE[:300_000]

NGINX = """
daemon off; pid {place}/pid; error_log stderr; worker_processes 1;
events {{ }}
http {{
    access_log {place}/access.log; client_body_temp_path {place}/body; proxy_temp_path {place}/proxy;
    fastcgi_temp_path {place}/f; uwsgi_temp_path {place}/u; scgi_temp_path {place}/s;
    {site}
}}
"""


def replace(text, changes):
    for old, new in changes.items():
        assert re.search(old, text, re.M), f"the example has no {old}"
        text = re.sub(old, new, text, flags=re.M)
    return text


class Proxy:
    """One of the examples, run over a certificate of its own."""

    def __init__(self, kind, tools, place, gateway_port):
        self.place, self.port, plain = place, free_port(), free_port()
        run_openssl("req", "-x509", "-newkey", "rsa:2048", "-nodes", "-keyout", f"{place}/key", "-out", f"{place}/cert", "-days", "2",
                    "-subj", f"/CN={NAME}", "-addext", f"subjectAltName=DNS:{NAME}")
        if kind == "nginx":
            site = replace((ROOT / "docs/examples/nginx.conf").read_text(), {
                r"127\.0\.0\.1:8080;": f"127.0.0.1:{gateway_port};", "listen 443": f"listen 127.0.0.1:{self.port}",
                "listen 80": f"listen 127.0.0.1:{plain}", "/etc/ssl/certs/cortana.pem": f"{place}/cert",
                "/etc/ssl/private/cortana.key": f"{place}/key"})
            (place / "conf").write_text(NGINX.format(place=place, site=site))
            command = [tools / "nginx", "-p", place, "-e", "stderr", "-c", place / "conf"]
        else:
            site = replace((ROOT / "docs/examples/Caddyfile").read_text(), {
                r"127\.0\.0\.1:8080 {": f"127.0.0.1:{gateway_port} {{",
                f"^{NAME} {{": f"{NAME}:{self.port} {{\n\tbind 127.0.0.1\n\ttls {place}/cert {place}/key\n"})
            (place / "conf").write_text(f"{{\n\tadmin off\n\tauto_https disable_redirects\n\tgrace_period 1s\n}}\n{site}")
            command = [tools / "caddy", "run", "--adapter", "caddyfile", "--config", place / "conf"]
        self.trust = ssl.create_default_context(cafile=f"{place}/cert")
        with open(place / "log", "w") as log:
            self.process = subprocess.Popen(command, stdout=log, stderr=log, env={**os.environ, "HOME": str(place)})
        wait_until(self.answers, "the proxy to answer")

    def answers(self):
        assert self.process.poll() is None, (self.place / "log").read_text()
        try:
            return self.ask("GET", "/api/v1/openapi.json").status == 200
        except OSError:
            return False

    def open(self, method, path, body=None, **headers):
        """The answer's head; what follows is read as it comes."""
        raw = socket.create_connection(("127.0.0.1", self.port), timeout=300, source_address=(CLIENT, 0))
        connection = http.client.HTTPConnection(NAME, self.port)
        connection.sock = self.trust.wrap_socket(raw, server_hostname=NAME)
        headers = {name.replace("_", "-"): value for name, value in headers.items()}
        connection.request(method, path, body, {"X-Forwarded-For": LIAR, **headers})
        return connection.getresponse()

    def ask(self, method, path, body=None, **headers):
        answer = self.open(method, path, body, **headers)
        answer.data = answer.read()
        return answer

    def end(self):
        self.process.terminate()
        self.process.wait(300)


@pytest.fixture(scope="module")
def gateway(start_gateway):
    return start_gateway("--behind-proxy", "--per-address", "0", "--trusted-proxies", "127.0.0.1")


@pytest.fixture(scope="module", params=["nginx", "caddy"])
def proxy(request, build_dir, gateway, tmp_path_factory):
    subprocess.run([ROOT / "scripts/proxy_programs", build_dir / "tools"], check=True)
    started = Proxy(request.param, build_dir / "tools", tmp_path_factory.mktemp(request.param), gateway.port)
    yield started
    started.end()


def test_events_come_as_they_happen(proxy, place):
    queue = place[1]
    video = queue.value("INSERT INTO videos (owner_id, original_name, s3_original_path) VALUES (%s, 'a.mp4', 'x') RETURNING id", ALICE)
    job = queue.add("transcode", video_id=video)
    stream = proxy.open("GET", f"/api/v1/events?topics=job:{job}", Authorization=f"Bearer {token()}")
    assert (stream.status, stream.headers["Content-Type"].split(";")[0]) == (200, "text/event-stream")

    assert any(b"event: ready" in line for line in stream)
    queue.run("SELECT cancel_job(%s)", job)
    # Nothing more comes and the stream does not end: what is held back until there is a bufferful never arrives.
    assert any(b'"canceled"' in line for line in stream)
    stream.close()


def test_a_range_of_a_video(proxy, place, store):
    video = str(uuid.uuid4())
    place[1].run("INSERT INTO videos (id, owner_id, original_name, s3_original_path, s3_proxy_path, status)"
                 " VALUES (%s, %s, 'a.mp4', %s, %s, 'ready')", video, ALICE, f"videos/original/{video}/master.mp4",
                 f"videos/proxy/{video}/index.m3u8")
    segment = store / f"videos/proxy/{video}/v0/segment_0.m4s"
    segment.parent.mkdir(parents=True)
    segment.write_bytes(SEGMENT)
    grant = json.loads(proxy.ask("POST", f"/api/v1/videos/{video}/grant", Authorization=f"Bearer {token()}").data)
    path = f"{grant['base_url']}videos/proxy/{video}/v0/segment_0.m4s"
    part = proxy.ask("GET", path, Range="bytes=1000-1999")
    assert (part.status, part.data) == (206, SEGMENT[1000:2000])
    assert part.headers["Content-Range"] == f"bytes 1000-1999/{len(SEGMENT)}"
    assert proxy.ask("GET", path).data == SEGMENT
    if (proxy.place / "access.log").exists():
        assert grant["base_url"] not in (proxy.place / "access.log").read_text()


def test_an_upload_in_large_parts(proxy, store):
    bearer = f"Bearer {token()}"
    made = proxy.ask("POST", "/api/v1/uploads", json.dumps({"name": "film.mp4", "size": len(FILE)}), Authorization=bearer,
                     Content_Type="application/json")
    assert made.status == 201, made.data
    upload = json.loads(made.data)
    for offset in (0, PART):
        answer = proxy.ask("PATCH", upload["location"], FILE[offset:offset + PART], Authorization=bearer, Tus_Resumable="1.0.0",
                           Content_Type="application/offset+octet-stream", Upload_Offset=str(offset))
        assert answer.status == 204, answer.data
    assert (store / f"videos/original/{upload['video_id']}/master.mp4").read_bytes() == FILE


def test_the_address_is_the_clients(proxy, place):
    """What a client writes into X-Forwarded-For itself is not believed."""
    answer = proxy.ask("GET", "/api/v1/me", Authorization="Bearer nobody's")
    assert answer.status == 401
    noted = wait_until(lambda: place[1].run("SELECT host(address) AS address FROM cortana.audit_log WHERE request_id = %s",
                                            answer.headers["X-Request-Id"]), "its line in the audit log")
    assert [row["address"] for row in noted] == [CLIENT]


def test_a_change_by_cookie(proxy):
    """Its Origin has to be the site that the browser sees, port and all."""
    signed_in = proxy.ask("POST", "/api/v1/session", json.dumps({"token": token()}), Content_Type="application/json",
                          Origin=f"https://{NAME}:{proxy.port}")
    assert signed_in.status == 200, signed_in.data
    cookie = signed_in.headers["Set-Cookie"]
    assert cookie.startswith("__Host-cortana=") and "Secure" in cookie
    body = json.dumps({"cron": "0 3 * * *", "time_zone": "UTC"})
    for origin, status in ((f"https://{NAME}:{proxy.port}", 200), ("https://evil.example", 403)):
        answer = proxy.ask("POST", "/api/v1/triggers/preview", body, Content_Type="application/json", Origin=origin,
                           Cookie=cookie.split(";")[0], X_Cortana="1")
        assert answer.status == status, answer.data


# ---- beside nginx as a server of files ----------------------------------------------------------------------


def drawn_ranges(size):
    """One range each, as RFC 9110 writes it; also behind the end, and longer than the file."""
    for _ in range(200):
        first = DRAWS.choice([DRAWS.randrange(size), DRAWS.randrange(3 * size), size - 1, size, 0])
        last = first + DRAWS.choice([0, 1, DRAWS.randrange(size), 3 * size])
        yield DRAWS.choice([f"bytes={first}-{last}", f"bytes={first}-", f"bytes=-{1 + DRAWS.randrange(2 * size)}"])


def is_listening(port):
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


def test_ranges_are_answered_as_nginx_answers_them(build_dir, gateway, place, store, tmp_path_factory):
    subprocess.run([ROOT / "scripts/proxy_programs", build_dir / "tools"], check=True)
    directory, port = tmp_path_factory.mktemp("nginx"), free_port()
    video = str(place[1].value("INSERT INTO videos (owner_id, s3_original_path, s3_proxy_path, status) VALUES (%s, 'x', 'y', 'ready')"
                               " RETURNING id", ALICE))
    key = f"videos/proxy/{video}/v0/segment_0.m4s"
    (store / key).parent.mkdir(parents=True)
    (store / key).write_bytes(SEGMENT)
    # As whoever runs it, who alone may read the store.
    (directory / "conf").write_text("user root;" + NGINX.format(place=directory, site=f"server {{ listen 127.0.0.1:{port}; root {store}; }}"))
    with open(directory / "log", "w") as log:
        nginx = subprocess.Popen([build_dir / "tools" / "nginx", "-p", directory, "-e", "stderr", "-c", directory / "conf"],
                                 stdout=log, stderr=log)
    try:
        base = gateway.ask(f"/videos/{video}/grant", token(), "POST").json["base_url"]
        peers = [(gateway.connect(), base + key), (http.client.HTTPConnection("127.0.0.1", port, timeout=300), "/" + key)]
        wait_until(lambda: is_listening(port), "nginx to listen")
        statuses = set()
        for asked in drawn_ranges(len(SEGMENT)):
            answers = []
            for connection, path in peers:
                connection.request("GET", path, headers={"Range": asked})
                answer = connection.getresponse()
                data = answer.read()
                answers.append((answer.status, answer.headers["Content-Range"], data if answer.status < 300 else None))
            assert answers[0] == answers[1], asked
            statuses.add(answers[0][0])
        assert statuses == {206, 416}
    finally:
        nginx.terminate()
        nginx.wait(300)
