"""The whole pipeline under faults drawn from a seed: workers and stages killed and stopped beyond their
leases, the database crashed, restarted and replaced by its standby, connections reset, silenced and held
up, clocks stepped, an S3 server that refuses, lies and breaks off; fewer of them, and mostly kills, over a store in a directory.
Every video becomes ready, once, with the text and the objects of a quiet run; the history is legal.

CORTANA_PIPELINE_FAULTS=1000 CORTANA_PIPELINE_VIDEOS=60 for the long run; CORTANA_FAULT_SEED for another one."""

import contextlib
import os
import random
import signal
import subprocess
import time

import pytest
from fault_proxy import FaultProxy
from faults import Faults
from invariants import violations
from jobs import STAGES
from pipeline import SMALL, WORKERS, Pipeline
from remains import objects, rows
from s3_server import S3Server
from standby import Standby
from store_client import StoreClient
from tcp_gate import TcpGate
from test_faults import find_faketime
from workers import Jobs, stages_of

pytestmark = pytest.mark.sanitized(0)

FAULTS = int(os.environ.get("CORTANA_PIPELINE_FAULTS", "16"))
VIDEOS = int(os.environ.get("CORTANA_PIPELINE_VIDEOS", "3"))
SEED = int(os.environ.get("CORTANA_FAULT_SEED", "20261121"))
WORKERS_A_STAGE = 2
LEASE_MS = 3000
SECONDS_A_FAULT = 0.7   # on average between two faults
SECONDS_TO_END = 240    # for what is left to do when the last fault is over
# Kills cost attempts; this many are more than the faults of a long run.
PATIENT = f"""UPDATE job_types SET retry_delays = array_fill('100 ms'::interval, ARRAY[2000])
             WHERE name IN {STAGES}"""


def short_videos(folder, fixtures_dir):
    """Three seconds of each fixture, small: what is tried is the pipeline, not the encoder."""
    videos = []
    for name, start in (("feed", 0), ("chat", 2), ("subtitles", 3)):
        path = folder / f"{name}.mp4"
        subprocess.run(["ffmpeg", "-v", "error", "-ss", str(start), "-t", "3", "-i",
                        fixtures_dir / f"{name}.mp4", "-vf", "scale=-2:480", "-c:v", "libx264", "-preset",
                        "ultrafast", "-c:a", "aac", path], check=True)
        videos.append(path)
    return videos


class Bucket:
    """A bucket of a real S3 server behind a proxy that breaks what it is told to."""

    faults_drawn = FAULTS

    def __init__(self, program):
        self.server = S3Server()
        self.server.start()
        self.proxy = FaultProxy(self.server.port)
        own = self.server.environment("faults", self.server.endpoint)
        self.client = StoreClient(program("store-commands"), own)
        assert self.client.bucket(method="PUT", subresource="")["status"] == 200
        self.environment = self.server.environment("faults", self.proxy.endpoint)

    def faults(self, others):
        self.dice = others.dice
        return {self.storm: 6, self.refuse: 4, self.break_off: 6, self.lie: 4}

    def storm(self):
        self.proxy.add(".", times=self.dice.randrange(1, 30), status=self.dice.choice([500, 503, 429]))
        return True

    def refuse(self):
        code = self.dice.choice([(403, "AccessDenied"), (403, "RequestTimeTooSkewed"), (404, "NoSuchBucket")])
        fault = self.proxy.add(".", times=10**6, code=code[1], status=code[0])
        time.sleep(self.dice.choice([0.2, 1, 3]))
        fault.times = 0
        return True

    def break_off(self):
        kind = self.dice.choice([{"reset": 100}, {"swallow": True}, {"stall": 1000}])
        self.proxy.add(self.dice.choice(["^GET", "^PUT", "."]), times=self.dice.randrange(1, 5), **kind)
        return True

    def lie(self):
        kind = self.dice.choice([{"truncate": 1000}, {"corrupt_request": True}])
        self.proxy.add("^PUT" if "corrupt_request" in kind else "^GET", times=self.dice.randrange(1, 4), **kind)
        return True

    def check_leftovers(self, _):
        """Those of a bucket are its server's."""

    def close(self):
        self.proxy.close()
        self.client.close_process()
        self.server.stop()


class Folder:
    """A store in a directory, in which killed processes may leave what was on its way in."""

    faults_drawn = FAULTS // 2

    def __init__(self, program, path):
        self.path, self.program = path, program
        self.environment = {"STORE_URL": f"dir:{path}"}
        self.client = StoreClient(program("store-commands"), self.environment)

    def faults(self, others):
        return {others.kill: 100}

    def check_leftovers(self, environment):
        for left in (self.path / ".incoming").iterdir():
            os.utime(left, (0, 0))  # an hour old, and more
        subprocess.run([self.program("cortana"), "gc"], env=environment, check=True)
        assert list((self.path / ".incoming").iterdir()) == []

    def close(self):
        self.client.close_process()


class Fleet:
    """Two workers a stage, on two ways to the database; the dead are started anew."""

    def __init__(self, program, gates, database, environment, folder, clock):
        self.program, self.folder = program, folder
        wrong_clock = {}
        if find_faketime() and b"__asan_init" not in program("ocr-worker").read_bytes():
            wrong_clock = {"LD_PRELOAD": str(find_faketime()), "FAKETIME_TIMESTAMP_FILE": str(clock),
                           "FAKETIME_NO_CACHE": "1", "FAKETIME_DONT_FAKE_MONOTONIC": "1"}
        self.plans = [(WORKERS[stage], {**environment, "DATABASE_URL": gates[number].url(database),
                                        **(wrong_clock if (stage, number) == ("ocr", 0) else {})})
                      for stage in STAGES for number in range(WORKERS_A_STAGE)]
        self.workers = [self.start(*plan) for plan in self.plans]

    def start(self, name, environment):
        with open(self.folder / f"{name}.log", "ab") as log:
            return subprocess.Popen([self.program(name)], env=environment, stdin=subprocess.DEVNULL,
                                    stdout=log, stderr=log)

    def revive(self):
        for index, worker in enumerate(self.workers):
            if worker.poll() is not None:
                self.workers[index] = self.start(*self.plans[index])

    def processes(self):
        supervisors = [worker.pid for worker in self.workers if worker.poll() is None]
        return supervisors, [pid for supervisor in supervisors for pid in stages_of(supervisor)]

    def stop(self):
        for worker in self.workers:
            worker.send_signal(signal.SIGCONT)
            worker.terminate()
        for worker in self.workers:
            worker.wait(timeout=300)


class PipelineFaults(Faults):
    """The faults of a queue, those of the store, and the loss of the primary."""

    def __init__(self, dice, cluster, standby, gates, fleet, store, clock):
        super().__init__(dice, cluster, gates, clock, LEASE_MS, fleet.processes, fleet.revive)
        self.standby = standby
        self.kinds.update(store.faults(self))

    def fail_over(self):
        """The primary is gone for good; everybody finds the standby at the same address."""
        self.cluster.stop(immediate=True)
        self.standby.promote()
        for gate in self.gates:
            gate.target = str(self.standby.directory / ".s.PGSQL.5432")
            gate.reset()
        self.cluster = self.standby
        self.done["fail_over"] += 1


@pytest.fixture(params=["bucket", "folder"])
def store(request, program, tmp_path):
    made = Bucket(program) if request.param == "bucket" else Folder(program, tmp_path / "store")
    try:
        yield made
    finally:
        made.close()


def test_no_fault_costs_a_video(cluster, program, store, tmp_path, fixtures_dir):
    dice = random.Random(SEED)
    name = cluster.create_database()
    with contextlib.closing(cluster.connect(name)) as link:
        link.cursor().execute(PATIENT)
    clock = tmp_path / "clock"
    clock.write_text("+0\n")
    sources = short_videos(tmp_path, fixtures_dir)
    with contextlib.ExitStack() as stack:
        gates = [TcpGate(cluster.directory / ".s.PGSQL.5432") for _ in range(WORKERS_A_STAGE)]
        standby = Standby(cluster)
        stack.callback(standby.remove)
        for gate in gates:
            stack.callback(gate.close)
        link = stack.enter_context(contextlib.closing(cluster.connect(name)))
        running = Pipeline(program, cluster.url(name), link, None, tmp_path, **store.environment, **SMALL, CORTANA_LEASE_MS=str(LEASE_MS))
        running.put_original = lambda path, key: store.client.put(key=key, path=str(path))
        fleet = Fleet(program, gates, name, running.environment, tmp_path, clock)
        stack.callback(fleet.stop)
        quiet = {}
        for source in sources:
            video = running.submit(source)
            assert running.wait(video) == "ready", running.failures()
            quiet[source] = rows(running.query, video), objects(store.client, video)
            assert quiet[source][0]["segments"] and len(quiet[source][1]) > 5
        videos = {}
        for number in range(VIDEOS):
            source = sources[number % len(sources)]
            videos[running.submit(source)] = source
        faults = PipelineFaults(dice, cluster, standby, gates, fleet, store, clock)
        stack.callback(faults.go_on, everybody=True)
        for number in range(store.faults_drawn):
            if number == store.faults_drawn // 2:
                faults.fail_over()
            faults.one()
            time.sleep(dice.uniform(0, 2 * SECONDS_A_FAULT))  # the random instant itself
        story = f"seed {SEED}, {dict(faults.done)}, {VIDEOS} videos"
        print(story)
        running.sql = stack.enter_context(contextlib.closing(faults.cluster.connect(name)))
        faults.go_on(everybody=True)
        for video in videos:
            status = running.wait(video, timeout=SECONDS_TO_END, between=fleet.revive)
            assert status == "ready", (story, running.failures())
        for video, source in videos.items():
            assert (rows(running.query, video), objects(store.client, video)) == quiet[source], story
        assert violations(Jobs(running.sql)) == {}, story
        assert running.query("SELECT job_type, count(*) FROM jobs WHERE job_type = ANY(%s) GROUP BY 1 ORDER BY 1",
                             list(STAGES)) == [(stage, VIDEOS + len(sources)) for stage in sorted(STAGES)], story
        fleet.stop()
        store.check_leftovers({**running.environment, "DATABASE_URL": faults.cluster.url(name)})
