"""Live events of the HTTP API: what is streamed to whom, in which order, and what is lost (nothing)."""

import concurrent.futures
import contextlib
import json
import random
import select
import socket
import threading
import time
import uuid

import psycopg2
import pytest
from api import BOB, DOCUMENT, TEAM, token
from jobs import Queue
from workers import wait_until

SERVICE = token(role="service_role", sub=None)


class Stream:
    """A reader of GET /events in a thread of its own."""

    def __init__(self, gateway, topics, bearer, last_event_id=None):
        headers = {"Authorization": f"Bearer {bearer}"}
        if last_event_id:
            headers["Last-Event-ID"] = last_event_id
        def ask():  # as any reader does while the database is away
            self.connection = gateway.connect()
            self.connection.request("GET", f"/api/v1/events?topics={topics}", headers=headers)
            self.response = self.connection.getresponse()
            assert self.response.status in (200, 503), self.response.read()
            return self.response.status == 200

        wait_until(ask, "a stream")
        self.events, self.is_over = [], False
        self.thread = threading.Thread(target=self.read, daemon=True)
        self.thread.start()

    def read(self):
        event = {}
        with contextlib.suppress(OSError, ValueError, AttributeError):
            for line in self.response:
                name, _, value = line.decode().rstrip("\n").partition(": ")
                if name:
                    event[name] = value
                elif event:
                    self.events.append(event)
                    event = {}
        self.is_over = True

    def of(self, kind):
        return [json.loads(event["data"]) for event in self.events if event.get("event") == kind]

    def states(self, job):
        """Of a job, each once, in the order in which they came."""
        found = []
        for state in [event["state"] for event in self.of("job") if event["id"] == str(job)]:
            if found[-1:] != [state]:
                found.append(state)
        return found

    def wait_ready(self):
        wait_until(lambda: self.of("ready"), "the stream to begin")
        return self

    @property
    def last_id(self):
        """As a browser keeps it: None before the first event."""
        return next((event["id"] for event in reversed(self.events) if "id" in event), None)

    def close(self):
        with contextlib.suppress(OSError, AttributeError):  # closed by the other side already
            self.connection.sock.shutdown(2)
        self.thread.join(300)
        self.connection.close()


@pytest.fixture
def listen(gateway):
    opened = []

    def open_stream(topics, bearer=None, last_event_id=None, of=gateway):
        opened.append(Stream(of, topics, bearer or token(app_metadata={"team_id": TEAM}), last_event_id))
        return opened[-1]

    yield open_stream
    for stream in opened:
        stream.close()


def test_a_job_from_beginning_to_end(place, library, listen):
    queue = place[1]
    job = queue.add("sample", video_id=library.videos["own"])
    streams = [listen(topic).wait_ready() for topic in (f"job:{job}", f"video:{library.videos['own']}", "tenant")]
    assert streams[0].response.headers["Content-Type"] == "text/event-stream"
    claimed = queue.claim_one("sample")
    queue.run("SELECT report_progress(%s, %s, 0.25, 'a quarter')", claimed["id"], claimed["lease_token"])
    wait_until(lambda: any(event["message"] == "a quarter" for event in streams[0].of("job")), "the progress")
    queue.fail(claimed, retryable=False)
    for stream in streams:
        wait_until(lambda: stream.states(job)[-1:] == ["failed"], f"the end in {stream.events}")
    assert streams[0].states(job)[-2:] == ["processing", "failed"]
    assert all(event["worker"] is None for event in streams[0].of("job"))


def test_an_upload_from_beginning_to_end(own_gateway, place, library, listen, tmp_path):
    (tmp_path / "store").mkdir()
    gateway = own_gateway(STORE_URL=f"dir:{tmp_path}/store")
    bearer = token()
    path = gateway.ask("/uploads", bearer, "POST", {"name": "a.mp4", "size": 8}).json["location"]
    identifier = path.rsplit("/", 1)[1]
    stream = listen(f"upload:{identifier}", bearer, of=gateway).wait_ready()

    def send(offset, data):
        return gateway.ask(path, bearer, "PATCH", data, base="", Content_Type="application/offset+octet-stream",
                           Upload_Offset=str(offset), Tus_Resumable="1.0.0").status

    wait_until(lambda: stream.of("upload")[-1:] == [{"id": identifier, "video_id": identifier, "size": 8, "offset": 0,
                                                     "state": "open"}], "the state at the beginning")
    assert send(0, b"half") == 204 and send(4, b"") == 204
    wait_until(lambda: stream.of("upload")[-1]["offset"] == 4, "the next request")
    assert send(4, b"rest") == 204
    wait_until(lambda: stream.of("upload")[-1]["state"] == "complete", "the end")
    place[1].run("DELETE FROM videos WHERE id = %s", identifier)
    place[1].run("DELETE FROM jobs WHERE job_type = 'object_remove'")  # others claim theirs
    wait_until(lambda: stream.of("upload")[-1] == {"id": identifier, "state": "gone"}, "the end of it all")
    foreign = gateway.ask(f"/uploads/{identifier}", token(sub=BOB))
    assert gateway.ask(f"/events?topics=upload:{identifier}", token(sub=BOB)).without_id() == foreign.without_id()
    stream.close()


def test_who_may_listen_to_what(gateway, library):
    def ask(topics, bearer):
        return gateway.ask(f"/events?topics={topics}", bearer)

    mine, foreign = token(), token(sub=BOB)
    missing = {kind: ask(f"{kind}:{uuid.uuid4()}", mine) for kind in ("job", "run", "video")}
    for kind, things in (("job", library.jobs), ("video", library.videos)):
        answer = ask(f"{kind}:{things['own']}", foreign)
        assert answer.status == 404 and answer.without_id() == missing[kind].without_id()
    assert ask(f"job:{library.jobs['own']},job:{library.jobs['foreign']}", mine).status == 404
    assert ask("queues", mine).status == 403
    assert gateway.ask("/events?topics=tenant").status == 401
    for bad in ("", "x", "job:x", "job:", "tenant,", ",tenant", "queues:1", ",".join(["tenant"] * 51)):
        assert ask(bad, mine).status == 400, bad
    assert set(DOCUMENT["paths"]["/events"]["get"]["responses"]) >= {"200", "400", "401", "403", "404"}


def test_a_tenant_hears_of_nobody_else(place, library, listen):
    queue = place[1]
    mine, bobs, all_of_them = listen("tenant"), listen("tenant", token(sub=BOB)), listen("tenant,queues", SERVICE)
    for stream in (mine, bobs, all_of_them):
        stream.wait_ready()
    jobs = {name: queue.add("ocr", video_id=video) for name, video in library.videos.items()}
    for stream, names in ((mine, {"own", "team"}), (bobs, {"foreign"}), (all_of_them, set(jobs))):
        expected = {str(jobs[name]) for name in names}
        wait_until(lambda: expected <= {event["id"] for event in stream.of("job")}, f"{names} of {stream.events}")
    wait_until(lambda: all_of_them.of("queues"), "a word about the queues")
    assert str(jobs["foreign"]) not in json.dumps(mine.events) and str(jobs["own"]) not in json.dumps(bobs.events)


def test_what_commits_late_is_neither_lost_nor_overtaken(place, library, listen):
    queue = place[1]
    late = psycopg2.connect(place[0])
    stream = listen(f"video:{library.videos['own']}").wait_ready()
    first = Queue(late).add("segment_index", video_id=library.videos["own"])
    second = queue.add("embed", video_id=library.videos["own"])
    marker = queue.add("clip_generate", {"clip_id": str(uuid.uuid4())})
    assert queue.status(second) == queue.status(marker) == "queued"
    late.commit()
    late.close()
    wait_until(lambda: stream.states(first) and stream.states(second), f"both jobs in {stream.events}")


def test_a_reader_that_comes_back_gets_what_it_missed(place, library, listen):
    queue = place[1]
    topic = f"video:{library.videos['team']}"
    stream = listen(topic).wait_ready()
    before = queue.add("embed", video_id=library.videos["team"])
    wait_until(lambda: stream.states(before), "the first job")
    position = stream.last_id
    stream.close()
    missed = queue.add("segment_index", video_id=library.videos["team"])
    again = listen(topic, last_event_id=position)
    wait_until(lambda: again.states(missed), f"the missed one in {again.events}")
    assert not again.of("reset") and not again.states(before)
    for lost in ("nonsense", "1-1-1", "999999999999-1-" + str(int(time.time()))):
        assert wait_until(lambda: listen(topic, last_event_id=lost).wait_ready(), "a beginning").of("reset") == [{}]


def test_a_stream_ends_with_its_token(listen):
    stream = listen("tenant", token(exp=int(time.time()) + 2)).wait_ready()
    wait_until(lambda: stream.is_over, "the end")
    assert stream.of("expired") == [{}]


def test_waiting_for_the_end_of_a_job(gateway, place, library):
    queue = place[1]
    job = queue.add("object_remove", video_id=library.videos["own"])
    began = time.monotonic()
    answer = gateway.ask(f"/jobs/{job}?wait=1", token())
    assert answer.json["state"] == "queued" and time.monotonic() - began >= 1
    assert "Wait-For" not in answer.headers
    found = []
    thread = threading.Thread(target=lambda: found.append(gateway.ask(f"/jobs/{job}?wait=60", token())))
    thread.start()
    claimed = queue.claim_one("object_remove")
    queue.fail(claimed, retryable=False)
    thread.join(300)
    assert found and found[0].json["state"] == "failed" and "Wait-For" not in found[0].headers
    assert gateway.ask(f"/jobs/{job}?wait=61", token()).status == 400


def test_waiting_requests_of_one_caller_are_bounded(own_gateway, place, library):
    """Whoever parks more than a caller may is told so, others wait as before, and an end makes room."""
    own = own_gateway("--streams", "3")
    queue = place[1]
    job = queue.add("object_remove", video_id=library.videos["own"])
    mate, found = token(sub=BOB, role="service_role"), []

    def wait_for_the_job():
        """Asks again where the request below came first and holds the last place."""
        found.append(wait_until(lambda: (answer := own.ask(f"/jobs/{job}?wait=60", token())).status != 429 and answer, "a place"))

    threads = [threading.Thread(target=wait_for_the_job) for _ in range(3)]
    for thread in threads:
        thread.start()
    over = wait_until(lambda: (answer := own.ask(f"/jobs/{job}?wait=1", token())).status == 429 and answer, "a request too many")
    assert int(over.headers["Retry-After"]) > 0 and "stream of events" in over.json["detail"]
    assert own.ask(f"/jobs/{job}", token()).status == 200  # without waiting
    assert own.ask(f"/jobs/{job}?wait=1", mate).json["state"] == "queued"
    queue.run("SELECT cancel_job(%s)", job)
    for thread in threads:
        thread.join(300)
    assert [answer.json["state"] for answer in found] == ["canceled"] * 3
    other = queue.add("object_remove", video_id=library.videos["own"])
    assert own.ask(f"/jobs/{other}?wait=1", token()).status == 200
    queue.run("SELECT cancel_job(%s)", other)


def test_one_statement_asks_for_all_that_wait(own_gateway, place, library):
    """Each request is run when it comes and when its job has ended; in between all of them together cost one call per round."""
    queue = place[1]
    queue.run(f"ALTER DATABASE {queue.connection.info.dbname} SET track_functions = 'all'")
    own = own_gateway("--streams", "0")
    job, other = (queue.add(kind, video_id=library.videos["own"]) for kind in ("object_remove", "sample"))
    waiting = 20

    def calls(function):
        return queue.value("SELECT coalesce(sum(calls), 0)::int FROM pg_stat_user_functions WHERE schemaname = 'api' AND funcname = %s",
                           function)

    before = calls("job")
    try:
        with concurrent.futures.ThreadPoolExecutor(waiting + 1) as threads:
            asked = [threads.submit(own.ask, f"/jobs/{job}?wait=60", token()) for _ in range(waiting)]
            later = threads.submit(own.ask, f"/jobs/{other}?wait=60", token())
            wait_until(lambda: calls("job") - before == waiting + 1, "all to have been run")
            rounds = calls("ended_jobs")
            wait_until(lambda: calls("ended_jobs") >= rounds + 4, "rounds")
            queue.run("SELECT cancel_job(%s)", job)
            assert {one.result().json["state"] for one in asked} == {"canceled"} and not later.done()
            queue.run("SELECT cancel_job(%s)", other)
            assert later.result().json["state"] == "canceled"
        assert own.process.stop() == 0
        assert waiting < calls("job") - before <= 2 * (waiting + 1), "one that comes after the end is asked once"
    finally:
        queue.run(f"ALTER DATABASE {queue.connection.info.dbname} RESET track_functions")


def test_callers_take_turns(own_gateway, place, library):
    """One has filled its part of the queue with searches that last; the other one's question is answered after the next."""
    own = own_gateway("--connections", "1", "--per-address", "0")
    head = "GET {} HTTP/1.1\r\nHost: a\r\nAuthorization: Bearer {}\r\n\r\n"
    searching = head.format("/api/v1/search?q=bridge", token()).encode()
    connection = psycopg2.connect(place[0])
    with contextlib.ExitStack() as opened, connection, connection.cursor() as cursor:
        cursor.execute("LOCK TABLE segments, search_materialized IN ACCESS EXCLUSIVE MODE")

        def send(text):
            client = opened.enter_context(socket.create_connection(("127.0.0.1", own.port)))
            client.sendall(text)
            return client

        greedy = []

        def answers(status):
            return sum(client.recv(12, socket.MSG_PEEK) == f"HTTP/1.1 {status}".encode() for client in select.select(greedy, [], [], 0)[0])

        while not answers(503):  # until its part of the queue is full
            greedy += [send(searching) for _ in range(20)]
        before = answers(504)
        other = send(head.format("/api/v1/me", token(sub=BOB)).encode())
        assert select.select([other], [], [], 120)[0], "the other caller's answer"
        assert other.recv(12) == b"HTTP/1.1 200" and answers(504) - before <= 3
        connection.rollback()
    assert own.ask("/me", token()).status == 200


def test_kills(own_gateway, place, library, listen):
    """Of jobs that end while readers, gateways and connections are killed, no reader misses an end."""
    queue = place[1]
    chance = random.Random(7)
    own = own_gateway()
    topic = f"video:{library.videos['own']}"
    stream = listen(topic, of=own).wait_ready()
    position, ended, seen = stream.last_id, [], []

    def come_back():
        nonlocal stream, position
        stream.close()
        seen.extend(stream.of("job"))
        assert not stream.of("reset")
        position = stream.last_id or position
        stream = listen(topic, last_event_id=position, of=own)

    for _ in range(12):
        job = queue.add("clip_generate", {"clip_id": str(uuid.uuid4())}, video_id=library.videos["own"])
        fault = chance.choice(["reader", "gateway", "connections", "none"])
        if fault == "gateway":
            own.end()
            own = own_gateway()
        elif fault == "connections":
            queue.run("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name"
                      " LIKE 'api-gateway%%'")
        queue.run("SELECT cancel_job(%s)", job)
        ended.append(str(job))
        if fault in ("reader", "gateway"):
            come_back()
    wait_until(lambda: set(ended) <= {event["id"] for event in seen + stream.of("job")
                                      if event["state"] == "canceled"}, "every end")
    came = [event["id"] for event in seen + stream.of("job") if event["state"] == "canceled"]
    assert [job for n, job in enumerate(came) if job not in came[:n] and job in ended] == ended
    # An orderly end says good-bye.
    assert own.process.stop() == 0
    wait_until(lambda: stream.is_over, "the stream's end")


def test_a_stream_too_many_takes_the_place_of_the_oldest(own_gateway, place, library):
    """Whoever loads a page again is never refused; the streams of others are not touched."""
    own = own_gateway("--streams", "2")
    caller, topic = token(), f"video:{library.videos['own']}"
    opened = [Stream(own, "tenant", token(sub=BOB)).wait_ready()]
    try:
        opened += [Stream(own, topic, caller).wait_ready() for _ in range(3)]
        wait_until(lambda: opened[1].is_over, "the oldest to give its place")
        assert opened[1].of("replaced")
        assert not any(opened[n].is_over for n in (0, 2, 3))
    finally:
        for stream in opened:
            stream.close()


def test_a_stream_whose_client_leaves_is_closed_without_a_write(gateway, library):
    """Nothing happens, and no ping is due: the gateway sees that the socket is closed."""
    stream = Stream(gateway, f"video:{library.videos['own']}", token()).wait_ready()
    stream.connection.sock.shutdown(socket.SHUT_WR)
    wait_until(lambda: stream.is_over, "the gateway to close its side")  # a ping would still arrive, and the stream last
