"""The scheduler as processes: several at once, killed, stopped, and cut off in mid-tick."""

import contextlib
import datetime
import os
import pathlib
import signal
import socket
import subprocess
import threading

import psycopg2
import pytest
from workers import DEADLINE, Worker, wait_until

QUICK = ("--poll-ms", "100")
WOKEN_S = 50  # less than the longest time between two rounds that a scheduler takes, a minute


class Relay:
    """TCP in front of a server's Unix socket. When it is cut nothing is passed on and nobody is told:
    a half-open connection for both."""

    def __init__(self, directory):
        self.server_path = next(str(path) for path in pathlib.Path(directory).glob(".s.PGSQL.*")
                                if path.suffix != ".lock")
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.port = self.listener.getsockname()[1]
        self.is_cut = threading.Event()
        self.sockets = []
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self):
        with contextlib.suppress(OSError):
            while True:
                client, _ = self.listener.accept()
                server = socket.socket(socket.AF_UNIX)
                server.connect(self.server_path)
                self.sockets += [client, server]
                for pair in ((client, server), (server, client)):
                    threading.Thread(target=self._pass_on, args=pair, daemon=True).start()

    def _pass_on(self, source, target):
        with contextlib.suppress(OSError):
            while data := source.recv(65536):
                if self.is_cut.is_set():
                    return  # and the sockets stay open
                target.sendall(data)
            target.close()

    def close(self):
        for each in [self.listener, *self.sockets]:
            each.close()


class Place:
    """A database and the schedulers that run on it."""

    def __init__(self, queue, url, program, directory):
        self.queue, self.url, self.program, self.directory = queue, url, program, directory
        self.started = []

    def start(self, url=None, arguments=QUICK):
        log = self.directory / f"scheduler-{len(self.started)}.log"
        scheduler = Worker([self.program("scheduler"), *arguments],
                           {**os.environ, "DATABASE_URL": url or self.url}, log)
        self.started.append(scheduler)
        wait_until(lambda: self.queue.run("SELECT 1 FROM workers WHERE id LIKE %s AND state = 'running'",
                                          f"%:{scheduler.pid}:%"), "a scheduler to say that it is there")
        return scheduler

    def schedule(self, name="s", cron="* * * * *", **values):
        columns = {"name": name, "cron": cron, "action": "job", "target": "work", **values}
        self.queue.run(f"INSERT INTO job_triggers ({', '.join(columns)})"
                       f" VALUES ({', '.join(['%s'] * len(columns))})", *columns.values())

    def make_due(self, missed, name="s"):
        """As if no scheduler had run for some minutes; returns the instants that were missed."""
        now = self.queue.value("SELECT date_trunc('minute', now())")
        instants = [now - datetime.timedelta(minutes=n) for n in reversed(range(missed))]
        self.queue.run("UPDATE job_triggers SET next_at = %s WHERE name = %s", instants[0], name)
        return instants

    def fired(self, name="s"):
        return [row["instant"] for row in self.queue.run(
            "SELECT f.instant FROM trigger_firings f JOIN job_triggers t ON t.id = f.trigger_id"
            " WHERE t.name = %s AND f.outcome = 'fired' ORDER BY f.instant", name)]

    def wait_for(self, instants, name="s"):
        wait_until(lambda: set(instants) <= set(self.fired(name)), f"{len(instants)} instants of {name}")

    def check(self):
        """Each instant once, each with one job, and no job besides."""
        rows = self.queue.run("SELECT instant, event_id, job_id FROM trigger_firings WHERE outcome = 'fired'")
        assert len({(row["instant"], row["event_id"], row["job_id"]) for row in rows}) == len(rows)
        jobs = {row["id"] for row in self.queue.run("SELECT id FROM jobs WHERE job_type = 'work'")}
        assert {row["job_id"] for row in rows} == jobs and len(jobs) == len(rows)

    def end(self):
        for scheduler in self.started:
            with contextlib.suppress(ProcessLookupError):
                scheduler.signal(signal.SIGCONT)
            scheduler.kill()


@pytest.fixture
def place(queue, database, program, tmp_path):
    queue.run("INSERT INTO job_types (name, description) VALUES ('work', 'a')")
    queue.run("DELETE FROM job_triggers")
    place = Place(queue, database, program, tmp_path)
    yield place
    place.end()


@contextlib.contextmanager
def held_up(place):
    """While this holds, whoever enqueues waits in the middle of its tick; yields a way to wait until
    somebody does."""
    blocker = psycopg2.connect(place.url)
    blocker.cursor().execute("LOCK TABLE trigger_firings IN SHARE MODE")

    def wait_for_somebody():
        wait_until(lambda: place.queue.value(
            "SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND query LIKE '%%scheduler_tick%%'"
            " AND pid <> pg_backend_pid()"), "a tick to be held up")

    try:
        yield wait_for_somebody
    finally:
        blocker.rollback()
        blocker.close()


def test_several_fire_each_instant_once(place):
    for _ in range(3):
        place.start()
    names = [f"s{n}" for n in range(8)]
    for name in names:
        place.schedule(name, catch_up="all", catch_up_limit=30)
    place.queue.run("INSERT INTO job_triggers (name, event, action, target) VALUES ('e', 'order.paid', 'job', 'work')")
    due = {}
    for name in names:
        due[name] = place.make_due(25, name)
        place.queue.run("SELECT emit_event('order.paid') FROM generate_series(1, 20)")
    for name in names:
        place.wait_for(due[name], name)
    wait_until(lambda: place.queue.value("SELECT count(*) FROM event_outbox") == 0, "all events")
    place.check()
    assert place.queue.value("SELECT count(*) FROM jobs") >= 8 * 25 + 8 * 20


@pytest.fixture
def relay(shared_cluster):
    with contextlib.closing(Relay(shared_cluster.directory)) as relay:
        yield relay


@pytest.mark.parametrize("lost", ["killed", "stopped", "cut off"])
def test_one_that_is_lost_in_mid_tick_is_followed_and_holds_up_nobody(place, relay, lost):
    """One that is stopped or cut off has its connection open, with nobody at the other end: the server goes on with its statement."""
    name = place.url.partition("?")[0].rpartition("/")[2]
    victim = place.start(f"postgresql://postgres@127.0.0.1:{relay.port}/{name}" if lost == "cut off" else None)
    place.schedule(catch_up="all")
    with held_up(place) as wait_for_somebody:
        due = place.make_due(5)
        wait_for_somebody()
        {"killed": victim.kill, "stopped": lambda: victim.signal(signal.SIGSTOP), "cut off": relay.is_cut.set}[lost]()
        place.start()
    place.wait_for(due)
    place.queue.run("UPDATE upkeep_tasks SET due_at = '-infinity', last_at = NULL")
    wait_until(lambda: place.queue.value("SELECT count(*) = 0 FROM upkeep_tasks WHERE last_at IS NULL"), "the upkeep")
    if lost == "stopped":
        victim.signal(signal.SIGCONT)
    place.wait_for(place.make_due(1))
    place.check()
    assert victim.is_alive() == (lost != "killed")
    assert lost != "stopped" or victim.stop() == 0


def test_events_wake_it(place):
    place.start(arguments=("--poll-ms", "60000"))
    place.queue.run("INSERT INTO job_triggers (name, event, action, target) VALUES ('e', 'order.paid', 'job', 'work')")
    place.queue.run("SELECT emit_event('order.paid')")
    wait_until(lambda: place.queue.value("SELECT count(*) FROM jobs"), "the job", WOKEN_S)
    place.schedule()  # far from due, and then a definition that is due at once
    place.queue.run("UPDATE job_triggers SET next_at = now(), name = 's2' WHERE name = 's'")
    wait_until(lambda: place.queue.value("SELECT next_at > now() FROM job_triggers WHERE name = 's2'"),
               "the schedule", WOKEN_S)


def test_it_outlives_its_connections(place):
    scheduler = place.start()
    place.schedule(catch_up="all")
    for _ in range(2):
        with held_up(place) as wait_for_somebody:
            due = place.make_due(3)
            wait_for_somebody()
            its = "FROM pg_stat_activity WHERE application_name LIKE 'scheduler%%' AND datname = current_database()"
            wait_until(lambda: place.queue.value(f"SELECT count(*) {its}") == 2, "both of its connections")
            place.queue.run(f"SELECT pg_terminate_backend(pid) {its}")
        place.wait_for(due)
    place.check()
    assert scheduler.stop() == 0
    assert place.queue.value("SELECT state FROM workers WHERE id LIKE %s", f"%:{scheduler.pid}:%") == "stopped"


@pytest.mark.parametrize("limit", [0, 1], ids=["no connection", "one of its two"])
def test_one_that_finds_no_room_waits_for_it(place, tmp_path, limit):
    role = f"narrow_{tmp_path.name.replace('-', '_')}"
    place.queue.run(f"CREATE ROLE {role} LOGIN IN ROLE cortana_worker CONNECTION LIMIT {limit}")
    scheduler = Worker([place.program("scheduler"), *QUICK],
                       {**os.environ, "DATABASE_URL": place.url.replace("postgres@", f"{role}@")}, tmp_path / "log")
    place.started.append(scheduler)
    (said,) = wait_until(lambda: scheduler.says("not ready"), "it to say what is wrong")
    assert "too many connections for role" in said["message"]
    assert scheduler.is_alive()
    place.schedule(catch_up="all")
    place.queue.run(f"ALTER ROLE {role} CONNECTION LIMIT 2")
    place.wait_for(place.make_due(3))
    assert scheduler.stop() == 0
    place.queue.run(f"DROP ROLE {role}")


@pytest.mark.parametrize("name, arguments", [("scheduler", []), ("scanner-worker", ["--interval", "5"])])
def test_one_that_waits_may_be_stopped(place, tmp_path, name, arguments):
    daemon = Worker([place.program(name), *arguments],
                    {**os.environ, "DATABASE_URL": f"host={tmp_path} dbname=nowhere", "STORE_URL": f"dir:{tmp_path}"}, tmp_path / "log")
    wait_until(lambda: daemon.says("not ready"), "it to wait")
    assert daemon.is_alive() and daemon.stop() == 0


def test_once_does_what_is_due_and_ends(place):
    place.schedule(catch_up="last")
    instants = place.make_due(10)
    done = subprocess.run([place.program("scheduler"), "--once"], env={**os.environ, "DATABASE_URL": place.url},
                          capture_output=True, text=True, timeout=DEADLINE, check=False)
    assert done.returncode == 0, done.stderr
    assert place.fired()[0] >= instants[-1] and len(place.fired()) == 1
    assert place.queue.value("SELECT count(*) FROM upkeep_tasks WHERE last_at IS NULL") == 0


@pytest.mark.parametrize("arguments, code", [(["--poll-ms", "1"], 64), (["x"], 64), (["--nothing"], 64),
                                             (["--help"], 0), (["--version"], 0)])
def test_its_arguments(program, arguments, code):
    done = subprocess.run([program("scheduler"), *arguments], capture_output=True, text=True, timeout=DEADLINE,
                          check=False)
    assert done.returncode == code


def test_a_node_is_woken_for_a_job_that_a_schedule_put_off(place, tmp_path):
    called = tmp_path / "called"
    script = tmp_path / "wake.sh"
    script.write_text(f"#!/bin/sh\necho \"$NODE_NAME\" > {called}\n")
    script.chmod(0o755)
    place.queue.run("INSERT INTO nodes (name, host, job_types, wake_method, script)"
                    " VALUES ('n', 'sleeper', '{work}', 'script', ARRAY[%s])", str(script))
    place.queue.run("SELECT enqueue_job('work', '{}', p_scheduled_for => now() + interval '4 minutes')")
    place.start()
    wait_until(lambda: called.exists() and called.read_text() == "n\n", "the node to be called")
