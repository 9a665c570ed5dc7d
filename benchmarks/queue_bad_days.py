#!/usr/bin/python3
"""queue_bad_days.py BUILD   what a bad day costs the rate of this queue, of graphile-worker and of pg-boss.

Jobs are enqueued and done without a pause by processes of each library; first in peace, then with one thing
that is wrong, for CORTANA_BENCH_BAD_SECONDS (20) each. A figure is the second rate in parts of the first, of the
same processes, a moment before. In the end all that was enqueued has to be done."""
import collections
import contextlib
import json
import os
import pathlib
import random
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time

import psycopg2
from private_cluster import BIN, PrivateCluster
from queue_peers_bench import BOSS_BEST, GRAPHILE_BEST, HERE, install

SECONDS = float(os.environ.get("CORTANA_BENCH_BAD_SECONDS", "20"))
GOAL = 0.9
CONSUMERS, BATCH, BACKLOG = 2, 200, 4000
WITHOUT_END = 10 ** 9
FIRST = 10 ** 10  # between the numbers of one producer's jobs and those of the next
START_S, WARM_S, AFTERWARDS_S = 60, 3, 90  # pg-boss notices a dead worker after a minute
LEASE = "5 seconds"
SYNC_MS = 10  # what a slow disk takes to write for good
PORT = 5432

OURS = {
    "schema": "INSERT INTO job_types (name, description) VALUES ('noop', 'benchmark') ON CONFLICT DO NOTHING",
    "open": "SELECT 1 FROM jobs LIMIT 1",
    "report": "SELECT j.status, count(*), avg(a.finished_at - a.started_at) FROM jobs j"
              " LEFT JOIN job_attempts a ON a.job_id = j.id GROUP BY 1",
    "left": "SELECT count(*) FROM jobs WHERE job_type = 'noop' AND status <> 'done'",
    "schemas": ["public", "cortana"]}
QUEUES = {
    "ours": OURS,
    "graphile-worker": {
        "options": {"worker": GRAPHILE_BEST},
        "open": "SELECT 1 FROM graphile_worker._private_jobs LIMIT 1",
        "report": "SELECT task_id, count(*), avg(now() - created_at) FROM graphile_worker._private_jobs GROUP BY 1",
        "left": "SELECT count(*) FROM graphile_worker._private_jobs",
        "schemas": ["graphile_worker"]},
    "pg-boss": {
        "options": {"worker": BOSS_BEST, "queue": {"heartbeatSeconds": 10, "retryLimit": 5, "retryDelay": 1},
                    "boss": {"superviseIntervalSeconds": 1, "monitorIntervalSeconds": 1, "maintenanceIntervalSeconds": 1}},
        "open": "SELECT 1 FROM pgboss.job LIMIT 1",
        "report": "SELECT state, count(*), avg(completed_on - started_on) FROM pgboss.job GROUP BY 1",
        "left": "SELECT count(*) FROM pgboss.job WHERE name = 'noop' AND state < 'completed'",
        "schemas": ["pgboss"]}}

# Delays what PostgreSQL writes for good while the file of SLOW_WHILE is there.
SLOW_SYNC = """
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdlib.h>
#include <unistd.h>
static void wait_if_slow(void) { if (access(getenv("SLOW_WHILE"), F_OK) == 0) usleep(%d); }
int fdatasync(int fd) { wait_if_slow(); return ((int (*)(int))dlsym(RTLD_NEXT, "fdatasync"))(fd); }
int fsync(int fd) { wait_if_slow(); return ((int (*)(int))dlsym(RTLD_NEXT, "fsync"))(fd); }
""" % (SYNC_MS * 1000)


# ---- processes of this queue, as of a client in Python ------------------------------------------------


def connections(conninfo):
    """Connections, one after the other, as often as one is lost."""
    while True:
        with contextlib.suppress(psycopg2.Error):
            with contextlib.closing(psycopg2.connect(conninfo)) as link:
                link.autocommit = True
                yield link.cursor()
        time.sleep(0.05)


def keep(conninfo, step):
    for cursor in connections(conninfo):
        try:
            while True:
                step(cursor)
        except psycopg2.Error:
            continue


def produce(conninfo, folder, first, backlog):
    begun = done_in(folder)
    sent = [begun]

    def step(cursor):
        if sent[0] - done_in(folder) > backlog:
            time.sleep(0.005)
            return
        ids = [json.dumps({"id": first + sent[0] - begun + i}) for i in range(BATCH)]
        cursor.execute("SELECT count(*) FROM enqueue_jobs('noop', %s::jsonb[])", (ids,))
        sent[0] += BATCH
    keep(conninfo, step)


def consume(conninfo, path):
    done = open(path, "ab", buffering=0)

    def step(cursor):
        cursor.execute("SELECT array_agg(id)::uuid[]::text[], array_agg(lease_token), array_agg(payload ->> 'id')"
                       " FROM claim_jobs(%s, 'noop', %s, %s)", (path.name, BATCH, LEASE))
        ids, tokens, numbers = cursor.fetchone()
        if not ids:
            time.sleep(0.005)
            return
        done.write(b"".join(int(number).to_bytes(8, "little") for number in numbers))
        cursor.execute("SELECT complete_jobs(%s::uuid[], %s::bigint[])", (ids, tokens))
    keep(conninfo, step)


def done_in(folder):
    """How many jobs were done: each consumer's file has eight bytes a job."""
    return sum(path.stat().st_size for path in folder.glob("done-*")) // 8


# ---- one queue under load -----------------------------------------------------------------------------


class Load:
    """Producers and consumers of one queue, until end()."""

    def __init__(self, cluster, node, packages, name):
        self.cluster, self.node, self.packages, self.name = cluster, node, packages, name
        self.queue = QUEUES[name]
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="cortana-bad-day-"))
        self.processes, self.numbers, self.socket = {}, 0, cluster.folder
        if name == "ours":
            self.ask(self.queue["schema"])
            self.ask("TRUNCATE jobs CASCADE")
        else:
            subprocess.run(self.command("stock", jobs=0), check=True, env=self.environment(), stdout=subprocess.DEVNULL)
        self.bytes_at_first = self.bytes()

    def environment(self):
        return {**os.environ, "PG_URL": f"postgres://cortana@localhost/postgres?host={self.socket}"}

    def conninfo(self):
        return f"host={self.socket} user=cortana dbname=postgres"

    def command(self, verb, **options):
        if self.name == "ours":
            return [sys.executable, __file__, verb, self.conninfo(), json.dumps(options)]
        return [self.node, HERE / "queue_peers.mjs", self.packages, self.name, verb,
                json.dumps({**self.queue["options"], **options})]

    def ask(self, statement):
        with contextlib.closing(psycopg2.connect(f"host={self.cluster.folder} user=cortana dbname=postgres")) as link:
            link.autocommit = True
            cursor = link.cursor()
            cursor.execute(statement)
            return cursor.fetchall() if cursor.description else []

    def bytes(self):
        schemas = ", ".join(f"'{schema}'" for schema in self.queue["schemas"])
        return int(self.ask("SELECT sum(pg_total_relation_size(c.oid)) FROM pg_class c JOIN pg_namespace n ON n.oid ="
                            f" c.relnamespace WHERE c.relkind = 'r' AND n.nspname IN ({schemas})")[0][0])

    def start(self, kind, prefix=(), **options):
        self.numbers += 1
        if kind == "consume":
            options["path"] = str(self.folder / f"done-{self.numbers}")
        else:
            options = {"backlog": BACKLOG, **options, "first": self.numbers * FIRST}
        command = [*prefix, *map(str, self.command(kind, folder=str(self.folder), batch=BATCH, **options))]
        with open(self.folder / "log", "a") as log:
            self.processes[self.numbers] = (kind, prefix, options, subprocess.Popen(
                command, env=self.environment(), stdout=log, stderr=log, start_new_session=True))

    def restart(self, kind, prefix=()):
        """Ends those of a kind as a crash does and starts as many again."""
        for number, (of, *_) in list(self.processes.items()):
            if of == kind:
                self.kill(number)
                self.start(kind, prefix)

    def kill(self, number):
        process = self.processes.pop(number)[3]
        with contextlib.suppress(ProcessLookupError):  # it gave up by itself
            os.killpg(process.pid, signal.SIGKILL)  # faketime stays beside what it starts
        process.wait()

    def revive(self):
        """What a service manager does with a process that gave up."""
        for number, (kind, prefix, options, process) in list(self.processes.items()):
            if process.poll() is not None:
                del self.processes[number]
                options.pop("path", None)
                self.start(kind, prefix, **options)

    def rate(self, seconds):
        before, began = done_in(self.folder), time.monotonic()
        while time.monotonic() - began < seconds:
            time.sleep(0.1)
            self.revive()
        return (done_in(self.folder) - before) / (time.monotonic() - began)

    def wait_for_work(self):
        end = time.monotonic() + START_S
        while not done_in(self.folder):
            if time.monotonic() > end:
                raise RuntimeError(f"{self.name} does nothing: {(self.folder / 'log').read_text()[-1000:]}")
            self.revive()
            time.sleep(0.1)
        self.rate(WARM_S)

    def finish(self):
        """How many jobs were left undone, and how many were done more than once."""
        for number in [n for n, one in self.processes.items() if one[0] == "produce"]:
            self.kill(number)
        end = time.monotonic() + AFTERWARDS_S
        while self.ask(self.queue["left"])[0][0] and time.monotonic() < end:
            self.revive()
            time.sleep(0.2)
        left = self.ask(self.queue["left"])[0][0]
        for number in list(self.processes):
            self.kill(number)
        times = collections.Counter()
        for path in self.folder.glob("done-*"):
            data = path.read_bytes()
            times.update(data[i:i + 8] for i in range(0, len(data) - 7, 8))
        shutil.rmtree(self.folder)
        return left, sum(count > 1 for count in times.values()), (self.bytes() - self.bytes_at_first) // max(1, len(times))


# ---- what is wrong ------------------------------------------------------------------------------------
# Each is a context in which the second rate is measured.


@contextlib.contextmanager
def nothing(load):
    yield


@contextlib.contextmanager
def an_old_transaction(load):
    link = psycopg2.connect(load.conninfo())
    link.set_session(isolation_level="REPEATABLE READ")
    link.cursor().execute(load.queue["open"])
    yield
    link.close()


@contextlib.contextmanager
def half_again_as_many_jobs(load):
    load.start("produce", backlog=WITHOUT_END)
    yield


@contextlib.contextmanager
def bursts(load):
    """Nothing for two seconds, then all that was missing at once."""
    stopped = threading.Event()

    def stop_and_go():
        while not stopped.is_set():
            producers = [one[3] for one in load.processes.values() if one[0] == "produce"]
            for number in (signal.SIGSTOP, signal.SIGCONT):
                for process in producers:
                    process.send_signal(number)
                stopped.wait(2 if number == signal.SIGSTOP else 3)
            for process in producers:
                process.send_signal(signal.SIGCONT)
    thread = threading.Thread(target=stop_and_go)
    thread.start()
    yield
    stopped.set()
    thread.join()


@contextlib.contextmanager
def four_reports(load):
    stopped = threading.Event()

    def read():
        while not stopped.is_set():
            load.ask(load.queue["report"])
    threads = [threading.Thread(target=read) for _ in range(4)]
    for thread in threads:
        thread.start()
    yield
    stopped.set()
    for thread in threads:
        thread.join()


@contextlib.contextmanager
def repeatedly(load, seconds, act):
    stopped = threading.Event()

    def go():
        while not stopped.wait(seconds):
            act()
    thread = threading.Thread(target=go)
    thread.start()
    yield
    stopped.set()
    thread.join()


def killed_workers(load):
    def kill():
        number = random.choice([n for n, one in list(load.processes.items()) if one[0] == "consume"])
        load.processes[number][3].send_signal(signal.SIGKILL)  # rate() starts another
    return repeatedly(load, 2, kill)


def a_restart(load):
    return repeatedly(load, SECONDS / 2, load.cluster.restart)


@contextlib.contextmanager
def a_slow_disk(load):
    load.cluster.slow_while.touch()
    yield
    load.cluster.slow_while.unlink()


@contextlib.contextmanager
def a_wrong_clock(load):
    load.restart("consume", prefix=["faketime", "-f", "+1h"])
    yield


class Wire:
    """PostgreSQL's socket, through which all bytes pass until it is cut for a second."""

    def __init__(self, target):
        self.target = target
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="cortana-wire-"))
        self.listener = socket.socket(socket.AF_UNIX)
        self.listener.bind(str(self.folder / f".s.PGSQL.{PORT}"))
        self.listener.listen(64)
        self.pairs, self.is_cut, self.lock = [], False, threading.Lock()
        threading.Thread(target=self.accept, daemon=True).start()

    def accept(self):
        while True:
            try:
                near, _ = self.listener.accept()
                far = socket.socket(socket.AF_UNIX)
                far.connect(str(self.target / f".s.PGSQL.{PORT}"))
            except OSError:
                return
            with self.lock:
                self.pairs.append((near, far))
                if self.is_cut:
                    near.close()
                    far.close()
                    continue
            for one, other in ((near, far), (far, near)):
                threading.Thread(target=self.copy, args=(one, other), daemon=True).start()

    @staticmethod
    def copy(one, other):
        with contextlib.suppress(OSError):
            while data := one.recv(1 << 16):
                other.sendall(data)
        for end in (one, other):
            with contextlib.suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)

    def cut(self):
        with self.lock:
            self.is_cut = True
            for pair in self.pairs:
                for end in pair:
                    with contextlib.suppress(OSError):
                        end.shutdown(socket.SHUT_RDWR)
            self.pairs = []
        time.sleep(1)
        self.is_cut = False

    def close(self):
        self.listener.close()
        shutil.rmtree(self.folder)


def a_cut_network(load):
    return repeatedly(load, SECONDS / 2, load.wire.cut)


DAYS = {"nothing wrong": nothing, "a transaction that stays open": an_old_transaction,
        "more jobs than it can do": half_again_as_many_jobs, "bursts": bursts, "four readers of all jobs": four_reports,
        "a worker killed every two seconds": killed_workers, "PostgreSQL restarted": a_restart,
        "the network cut for a second": a_cut_network, f"a disk that takes {SYNC_MS} ms": a_slow_disk,
        "workers' clocks an hour ahead": a_wrong_clock}


class BadCluster(PrivateCluster):
    """A cluster that can be restarted and whose disk can be slow."""

    def __enter__(self):
        super().__enter__()
        self.slow_while = self.folder / "slow"
        (self.folder / "slow.c").write_text(SLOW_SYNC)
        subprocess.run(["cc", "-shared", "-fPIC", "-o", "slow.so", "slow.c"], cwd=self.folder, check=True)
        self.restart()
        return self

    def restart(self):
        self._as_server("env", f"LD_PRELOAD={self.folder}/slow.so", f"SLOW_WHILE={self.slow_while}", BIN / "pg_ctl", "-w",
                        "-m", "fast", "-D", self.folder / "data", "-l", self.folder / "log", "restart")


def one_day(cluster, node, packages, name, day):
    """The rate with it in parts of that without, both rates, and what was left."""
    load = Load(cluster, node, packages, name)
    with contextlib.ExitStack() as stack:
        if day is a_cut_network:
            load.wire = Wire(cluster.folder)
            stack.callback(load.wire.close)
            load.socket = load.wire.folder
        load.start("produce")
        for _ in range(CONSUMERS):
            load.start("consume")
        load.wait_for_work()
        quiet = load.rate(SECONDS)
        with day(load):
            bad = load.rate(SECONDS)
        return bad / quiet, quiet, bad, load.finish()


def main(build):
    packages = build / "peers"
    node = install(packages)
    only = os.environ.get("CORTANA_BENCH_BAD_DAYS", "")
    with BadCluster(build) as cluster:
        cluster.migrated_database()
        for what, day in DAYS.items():
            if only not in what:
                continue
            found = {name: one_day(cluster, node, packages, name, day) for name in QUEUES}
            for name, (ratio, quiet, bad, left) in found.items():
                print(f"{what}: {name}: {quiet:.0f} -> {bad:.0f} jobs/s; {left[0]} undone, {left[1]} done twice,"
                      f" {left[2]} bytes a job", file=sys.stderr, flush=True)
            peer = max((one[0], name) for name, one in found.items() if name != "ours")
            print(json.dumps({"suite": "bad-days", "name": what, "unit": "of the quiet rate", "ours": found["ours"][0],
                              "peer": peer[0], "peer_name": peer[1], "ratio": found["ours"][0], "goal": GOAL,
                              "better": "higher"}), flush=True)
            if found["ours"][3][0]:
                raise RuntimeError(f"{what}: {found['ours'][3][0]} jobs were not done")


if __name__ == "__main__":
    if len(sys.argv) == 2:
        main(pathlib.Path(sys.argv[1]).resolve())
    else:
        given = json.loads(sys.argv[3])
        if sys.argv[1] == "produce":
            produce(sys.argv[2], pathlib.Path(given["folder"]), given["first"], given["backlog"])
        else:
            consume(sys.argv[2], pathlib.Path(given["path"]))
