"""Webhooks: what arrives at a receiver, signed, and whom the worker does not speak to."""

import base64
import contextlib
import datetime
import email.utils
import functools
import hashlib
import hmac
import http.server
import json
import os
import ssl
import subprocess
import threading
import time
import uuid

import psycopg2
import pytest
from jobs import Queue
from workers import Workers, wait_until

A, B = uuid.UUID(int=1), uuid.UUID(int=2)
HERE = "127.0.0.0/8"
ALLOWED = {"CORTANA_WEBHOOK_ALLOW": HERE, "CORTANA_WEBHOOK_TIMEOUT_MS": 2000}


class Receiver(http.server.ThreadingHTTPServer):
    """Keeps what it is sent. The path says how it answers: /200, /500?retry-after=…, /redirect,
    /endless, /silent, /headers."""

    daemon_threads = True

    def __init__(self, certificate=None):
        super().__init__(("127.0.0.1", 0), Handler)
        if certificate:
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            context.load_cert_chain(certificate)
            self.socket = context.wrap_socket(self.socket, server_side=True, do_handshake_on_connect=False)
        self.scheme = "https" if certificate else "http"
        self.received = []
        self.connections = 0
        self.is_over = threading.Event()
        threading.Thread(target=self.serve_forever, args=(0.05,), daemon=True).start()

    def url(self, path="/200", host="127.0.0.1"):
        return f"{self.scheme}://{host}:{self.server_port}{path}"

    def get_request(self):
        self.connections += 1
        return super().get_request()

    def handle_error(self, request, client_address):
        pass  # clients that go away are what some tests are about

    def close(self):
        self.is_over.set()
        self.shutdown()
        self.server_close()


class Handler(http.server.BaseHTTPRequestHandler):
    def log_message(self, *arguments):
        pass

    def do_POST(self):
        body = self.rfile.read(int(self.headers["content-length"]))
        self.server.received.append((self.path, dict(self.headers.items()), body))
        kind, _, query = self.path[1:].partition("?")
        if kind == "silent":
            self.server.is_over.wait(300)
            return
        if kind == "headers":
            with contextlib.suppress(OSError):
                self.wfile.write(b"HTTP/1.1 200 OK\r\n")
                while not self.server.is_over.is_set():
                    self.wfile.write(b"x-more: " + b"x" * 1000 + b"\r\n")
            return
        self.send_response(302 if kind == "redirect" else 200 if kind == "endless" else int(kind))
        if kind == "redirect":
            self.send_header("location", self.server.url("/elsewhere"))
        if query.startswith("retry-after="):
            self.send_header("retry-after", query.removeprefix("retry-after=").replace("+", " "))
        self.end_headers()
        with contextlib.suppress(OSError):
            self.wfile.write(b"it went\twrong \xff")
            while kind == "endless" and not self.server.is_over.is_set():
                self.wfile.write(b"x" * 65536)

    do_GET = do_POST


@pytest.fixture(scope="module")
def database(shared_cluster):
    return shared_cluster.url(shared_cluster.create_database())


@pytest.fixture(scope="module")
def workers(program, database, tmp_path_factory):
    """One worker that may call this machine, for all tests; its log is read at the end of one."""
    workers = Workers(program, database, tmp_path_factory.mktemp("webhooks"))
    workers.start("webhook-worker", "--slots", 4, **ALLOWED)
    yield workers
    workers.end()


@contextlib.contextmanager
def without_allowed(workers):
    """The worker that may call this machine has ended: one that is only stopped may have claimed a job in that moment."""
    assert workers.started.pop(0).stop() == 0
    try:
        yield
    finally:
        workers.start("webhook-worker", "--slots", 4, **ALLOWED)


@pytest.fixture
def queue(database):
    connection = psycopg2.connect(database, options="-c statement_timeout=300s")
    connection.autocommit = True
    queue = Queue(connection)
    for table in ("job_triggers", "event_outbox", "jobs", "webhooks"):
        queue.run(f"DELETE FROM {table}")
    queue.run("SELECT resume_type('webhook')")
    yield queue
    connection.close()


@pytest.fixture
def receiver():
    receiver = Receiver()
    yield receiver
    receiver.close()


def add(queue, url, name="w", **named):
    more = "".join(f", p_{key} => %s" for key in named)
    return queue.value(f"SELECT add_webhook(%s, %s{more})", name, url, *named.values())


def send(queue, name="w", data=None):
    return queue.value("SELECT job_id FROM send_webhook(%s, 'a.test', %s)", name, json.dumps(data or {}))


def wait_for(queue, job_id, *statuses):
    return wait_until(lambda: next((job for job in [queue.job(job_id)] if job["status"] in statuses), None),
                      f"a message to be {statuses}")


def outcome(queue, job_id):
    """"done", "dead" or "retry", and the error."""
    job = wait_for(queue, job_id, "done", "failed")
    if job["status"] == "done":
        return "done", None
    return "retry" if job["scheduled_for"] else "dead", job["payload"]["error"]["type"]


def signature(secret, message, timestamp, body):
    key = base64.b64decode(secret.removeprefix("whsec_"))
    signed = f"{message}.{timestamp}.".encode() + body
    return "v1," + base64.b64encode(hmac.new(key, signed, hashlib.sha256).digest()).decode()


def lower(headers):
    return {name.lower(): value for name, value in headers.items()}


# ---- what arrives ------------------------------------------------------------------------------------


def test_an_event_arrives_signed(queue, workers, receiver):
    secret = add(queue, receiver.url("/200?x=1"))
    queue.run("INSERT INTO job_triggers (name, event, action, target) VALUES ('t', 'video.ready', 'webhook', 'w')")
    video = queue.video(owner=A)
    queue.run("UPDATE videos SET status = 'ready', title = 'Zoë' WHERE id = %s", video)
    queue.run("SELECT scheduler_tick()")
    job = queue.value("SELECT id FROM jobs WHERE job_type = 'webhook'")
    done = wait_for(queue, job, "done")
    ((path, headers, body),) = receiver.received
    headers = lower(headers)
    assert path == "/200?x=1" and headers["content-type"] == "application/json"
    message = json.loads(body)
    assert message == {"type": "video.ready", "timestamp": message["timestamp"],
                       "data": {"video_id": str(video), "title": "Zoë"}}
    happened = datetime.datetime.fromisoformat(message["timestamp"])
    assert abs((happened - done["created_at"]).total_seconds()) < 60
    assert abs(int(headers["webhook-timestamp"]) - time.time()) < 60
    assert headers["webhook-id"].startswith("msg_")
    assert headers["webhook-signature"] == signature(secret, headers["webhook-id"], headers["webhook-timestamp"], body)
    assert done["result"]["status"] == 200 and done["tenant_id"] == A


def test_a_second_attempt_has_the_same_id_and_body_and_its_own_signature(queue, workers, receiver):
    secret = add(queue, receiver.url("/500"))
    job = send(queue, data={"b": 1, "a": [1, 2.5, 33.767, None, "ü"], "c": {"y": 1, "x": 2}})
    assert outcome(queue, job) == ("retry", "ServerError")
    wait_until(lambda: int(time.time()) > int(lower(receiver.received[0][1])["webhook-timestamp"]), "the next second")
    queue.make_retry_due(job)
    wait_until(lambda: len(receiver.received) == 2, "the second attempt")
    (_, first, body), (_, second, again) = receiver.received
    assert b'"data":{"a":[1,2.5,33.767,null,"' in body
    first, second = lower(first), lower(second)
    assert body == again and first["webhook-id"] == second["webhook-id"]
    assert int(second["webhook-timestamp"]) > int(first["webhook-timestamp"])
    assert second["webhook-signature"] == signature(secret, second["webhook-id"], second["webhook-timestamp"], body)


def test_secrets_are_rotated(queue, workers, receiver):
    old = add(queue, receiver.url())
    new = queue.value("SELECT rotate_webhook('w', '1 hour')")
    assert old != new
    wait_for(queue, send(queue), "done")
    queue.run("UPDATE webhook_secrets SET expires_at = now() WHERE secret = %s", old)
    wait_for(queue, send(queue), "done")
    (_, both, body), (_, one, later) = receiver.received
    both, one = lower(both), lower(one)
    assert both["webhook-signature"].split(" ") == [
        signature(secret, both["webhook-id"], both["webhook-timestamp"], body) for secret in (new, old)]
    assert one["webhook-signature"] == signature(new, one["webhook-id"], one["webhook-timestamp"], later)
    queue.run("SELECT rotate_webhook('w')")
    assert queue.value("SELECT count(*) FROM webhook_secrets") == 2, "what has run out is gone"
    with pytest.raises(psycopg2.errors.NoDataFound):
        queue.run("SELECT rotate_webhook('nothing')")


# ---- answers -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("path, expected", [
    ("/200", ("done", None)), ("/204", ("done", None)), ("/299", ("done", None)), ("/redirect", ("dead", "Refused")),
    ("/304", ("dead", "Refused")), ("/400", ("dead", "Refused")), ("/401", ("dead", "Refused")),
    ("/404", ("dead", "Refused")), ("/408", ("retry", "Timeout")), ("/425", ("retry", "ServerError")),
    ("/429", ("retry", "Throttled")), ("/500", ("retry", "ServerError")), ("/503", ("retry", "ServerError")),
    ("/silent", ("retry", "Timeout")), ("/endless", ("done", None)), ("/headers", ("retry", "ConnectionLost"))])
def test_what_an_answer_means(queue, workers, receiver, path, expected):
    add(queue, receiver.url(path))
    job = send(queue)
    assert outcome(queue, job) == expected
    assert [path for path, _, _ in receiver.received] == [path], "once, and nobody is followed"
    if path == "/400":
        assert queue.job(job)["payload"]["error"]["message"] == "webhook w: HTTP 400: it went.wrong ."


def test_gone_is_gone(queue, workers, receiver):
    add(queue, receiver.url("/410"))
    assert outcome(queue, send(queue)) == ("dead", "Refused")
    (row,) = queue.run("SELECT * FROM webhooks")
    assert row["disabled_reason"] == "the receiver answered 410 Gone"
    assert outcome(queue, send(queue)) == ("dead", "Refused")
    assert len(receiver.received) == 1
    assert queue.value("SELECT enable_webhook('w')") is True
    send(queue)
    wait_until(lambda: len(receiver.received) == 2, "it to be called again")


@pytest.mark.parametrize("status", [429, 503])
@pytest.mark.parametrize("value, low, high", [
    ("1800", 1790, 1810), (lambda: email.utils.formatdate(time.time() + 7200, usegmt=True).replace(" ", "+"), 7190, 7210),
    ("0", 0, 15), ("999999999", 86390, 86410), ("soon", 0, 15), ("-5", 0, 15)])
def test_retry_after_is_respected(queue, workers, receiver, status, value, low, high):
    add(queue, receiver.url(f"/{status}?retry-after={value() if callable(value) else value}"))
    job = send(queue)
    assert outcome(queue, job)[0] == "retry"
    wait = queue.value("SELECT extract(epoch FROM scheduled_for - finished_at) FROM jobs WHERE id = %s", job)
    assert low <= wait <= high


def test_nobody_there(queue, workers, receiver):
    url = receiver.url()
    receiver.close()
    add(queue, url)
    assert outcome(queue, send(queue)) == ("retry", "ConnectionLost")


# ---- whom it does not speak to -----------------------------------------------------------------------


def test_addresses_that_are_not_public_are_refused(queue, workers, receiver, program, database, tmp_path):
    hosts = ["127.0.0.1", "127.1", "2130706433", "0x7f000001", "0", "0.0.0.0", "[::1]", "[::ffff:127.0.0.1]",
             "169.254.169.254", "[::ffff:a9fe:a9fe]", "[64:ff9b::7f00:1]"]
    with without_allowed(workers), contextlib.ExitStack() as until_then:
        until_then.callback((own := Workers(program, database, tmp_path)).end)
        own.start("webhook-worker", "--slots", 4)
        for number, host in enumerate(hosts):
            add(queue, receiver.url(host=host), f"w{number}")
        jobs = [send(queue, f"w{number}") for number in range(len(hosts))]
        found = {host: outcome(queue, job) for host, job in zip(hosts, jobs)}
    # Where there is no IPv6 an address cannot be connected to in any case.
    assert {host: verdict for host, verdict in found.items() if verdict != ("dead", "AccessDenied")} == {}
    assert receiver.connections == 0


@pytest.mark.parametrize("url", [
    "ftp://a.example/", "file:///etc/passwd", "http://user:secret@a.example/", "a.example", "http://", "http:///x",
    "http://a b/", "http://a.example/ x", "http://a.example\n", "gopher://a/", "http://a.example/é", "https://" + "a" * 2000])
def test_urls_that_are_none_are_refused_when_they_are_written(queue, url):
    with pytest.raises(psycopg2.errors.CheckViolation):
        add(queue, url)


@pytest.mark.parametrize("secret", ["x", "whsec_", "whsec_short", "whsec_" + "a" * 200, "whsec_" + "!" * 32])
def test_secrets_that_are_none_are_refused_when_they_are_written(queue, secret):
    with pytest.raises(psycopg2.errors.CheckViolation):
        add(queue, "https://a.example/", secret=secret)


def test_tls_is_checked(queue, workers, program, database, tmp_path):
    certificate = tmp_path / "server.pem"
    subprocess.run(["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "1", "-subj", "/CN=127.0.0.1",
                    "-addext", "subjectAltName=IP:127.0.0.1", "-keyout", certificate, "-out", tmp_path / "cert.pem"],
                   check=True, capture_output=True)
    certificate.write_text(certificate.read_text() + (tmp_path / "cert.pem").read_text())
    receiver = Receiver(certificate)
    own = Workers(program, database, tmp_path)
    try:
        add(queue, receiver.url())
        job = send(queue)
        assert outcome(queue, job) == ("retry", "ConnectionLost"), "nobody vouches for it"
        assert receiver.received == []
        with without_allowed(workers), contextlib.ExitStack() as until_then:
            until_then.callback(own.end)
            own.start("webhook-worker", CORTANA_WEBHOOK_ALLOW="127.0.0.1", CORTANA_READ_PATHS=tmp_path,
                      CORTANA_CA_FILE=tmp_path / "cert.pem")
            queue.make_retry_due(job)
            wait_for(queue, job, "done")
    finally:
        receiver.close()


# ---- rules -------------------------------------------------------------------------------------------


def firing(queue, name="t"):
    return queue.run("SELECT f.outcome, f.error FROM trigger_firings f JOIN job_triggers t ON t.id = f.trigger_id"
                     " WHERE t.name = %s ORDER BY f.id DESC LIMIT 1", name)[0]


def test_a_webhook_of_a_tenant_hears_of_that_tenant_alone(queue):
    queue.run("SELECT pause_type('webhook')")
    add(queue, "https://a.example/", tenant_id=A)
    queue.run("INSERT INTO job_triggers (name, event, action, target) VALUES ('t', 'order.paid', 'webhook', 'w')")
    for tenant, expected in ((B, "skipped"), (None, "skipped"), (A, "fired")):
        queue.run("SELECT emit_event('order.paid', p_tenant_id => %s)", tenant)
        queue.run("SELECT dispatch_events()")
        assert firing(queue)["outcome"] == expected
    assert queue.value("SELECT count(*) FROM jobs") == 1


def test_what_is_off_is_not_called_and_a_failed_message_is_no_message(queue, workers, receiver):
    add(queue, receiver.url("/404"))
    queue.run("INSERT INTO job_triggers (name, event, action, target) VALUES ('t', 'job.failed', 'webhook', 'w')")
    job = send(queue)
    assert outcome(queue, job)[0] == "dead"
    queue.run("SELECT dispatch_events()")
    assert firing(queue) == {"outcome": "skipped", "error": "no message is sent about a message that could not be delivered"}
    queue.run("SELECT disable_webhook('w', 'moved')")
    queue.run("SELECT emit_event('job.failed', '{\"job_type\": \"ocr\"}')")
    queue.run("SELECT dispatch_events()")
    assert firing(queue) == {"outcome": "skipped", "error": "the webhook is disabled: moved"}
    assert queue.run("SELECT id FROM jobs") == [{"id": job}]
    with pytest.raises(psycopg2.errors.ForeignKeyViolation):
        queue.run("INSERT INTO job_triggers (name, event, action, target) VALUES ('x', 'a.b', 'webhook', 'nothing')")


def test_two_triggers_of_one_event_send_one_message_id_and_a_schedule_its_own(queue):
    queue.run("SELECT pause_type('webhook')")
    add(queue, "https://a.example/")
    queue.run("INSERT INTO job_triggers (name, event, action, target, payload) VALUES"
              " ('t', 'order.paid', 'webhook', 'w', '{}'), ('u', 'order.paid', 'webhook', 'w', '{\"n\": \"{{event.data.n}}\"}')")
    queue.run("INSERT INTO job_triggers (name, cron, action, target) VALUES ('s', '@hourly', 'webhook', 'w')")
    queue.run("SELECT emit_event('order.paid', '{\"n\": 1, \"m\": 2}')")
    queue.run("SELECT dispatch_events()")
    queue.fire_schedule("s")
    first, second, third = (row["payload"] for row in queue.run("SELECT payload FROM jobs ORDER BY sequence"))
    assert first["id"] == second["id"] != third["id"]
    assert (first["data"], second["data"]) == ({"n": 1, "m": 2}, {"n": 1})
    assert third["type"] == "schedule.fired" and third["data"]["name"] == "s"


def test_secrets_are_for_the_service_alone(queue, workers, receiver):
    secret = add(queue, receiver.url("/400"))
    outcome(queue, send(queue))
    for role in ("cortana_app", "authenticated", "anon"):
        queue.run(f"SET ROLE {role}")
        for statement in ("SELECT * FROM webhook_secrets", "SELECT * FROM webhooks",
                          "SELECT webhook_to_call('w')", "SELECT rotate_webhook('w')", "SELECT send_webhook('w', 'x', '{}')",
                          "SELECT add_webhook('x', 'https://a.example/')", "SELECT disable_webhook('w')"):
            with pytest.raises(psycopg2.errors.InsufficientPrivilege):
                queue.run(statement)
        queue.run("RESET ROLE")
    queue.run("SET ROLE cortana_worker")
    assert queue.run("SELECT secret FROM webhook_to_call('w')") == [{"secret": secret}]
    queue.run("RESET ROLE")
    told = json.dumps(queue.snapshot(), default=str) + workers.started[0].log_path.read_text()
    assert secret not in told and "whsec_" not in told
    assert secret not in json.dumps(queue.run("SELECT api.webhook_object(w) FROM webhooks w"), default=str)


@pytest.mark.parametrize("payload", [
    {}, {"webhook": 1}, {"webhook": "w", "id": "a b"}, {"webhook": "w", "id": "a\r\nx: y", "type": "t", "timestamp": "t", "data": {}},
    {"webhook": "w", "id": "m", "type": "t", "timestamp": "t", "data": []},
    {"webhook": "w", "id": "m" * 101, "type": "t", "timestamp": "t", "data": {}}])
def test_payloads_that_are_none(queue, workers, payload):
    job = queue.add("webhook", payload)
    assert outcome(queue, job) == ("dead", "InvalidPayload")


def test_a_wrong_list_of_networks_stops_the_worker(program, database):
    done = subprocess.run([program("webhook-worker"), "--once"], input="{}", text=True, capture_output=True, check=False,
                          timeout=300, env={**os.environ, "DATABASE_URL": database, "CORTANA_WEBHOOK_ALLOW": "10.0.0.0/99"})
    assert done.returncode == 78 and "CORTANA_WEBHOOK_ALLOW" in done.stdout


def test_webhooks_from_the_command_line(queue, workers, receiver, cortana_says):
    cortana = functools.partial(cortana_says, "webhooks")
    secret = cortana("add", "w", receiver.url(), "--event", "video.ready", "--event", "job.failed").strip()
    assert queue.run("SELECT secret FROM webhook_secrets") == [{"secret": secret}]
    assert [row["event"] for row in queue.run("SELECT event FROM job_triggers ORDER BY event")] == ["job.failed", "video.ready"]
    job = cortana("test", "w").split()[1]
    wait_for(queue, job, "done")
    assert json.loads(receiver.received[0][2])["type"] == "webhook.test"
    listed = cortana()
    assert "w " in listed and "job.failed,video.ready" in listed and "done" in listed and "whsec" not in listed
    new = cortana("rotate", "w", "--keep", "1h").strip()
    assert new != secret and queue.value("SELECT count(*) FROM webhook_secrets") == 2
    assert cortana("disable", "w", "--reason", "moved") == "w is off\n" and "off: moved" in cortana("list")
    assert cortana("enable", "w") == "w is on\n"
    assert "job type" not in cortana("add", "x", receiver.url(), "--event", "Wrong", code=1)
    assert queue.value("SELECT count(*) FROM webhooks") == 1, "all or nothing"
    assert "no webhook is called" in cortana("disable", "nothing", code=1)
    assert "no webhook is called" in cortana("test", "nothing", code=1)
    assert "usage: cortana webhooks" in cortana("eat", code=64)
    assert cortana("remove", "w") == "w is removed, with its triggers\n"
    assert queue.value("SELECT count(*) FROM job_triggers") == 0
    assert cortana("--help").startswith("usage: cortana webhooks")
