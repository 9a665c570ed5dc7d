"""Worker processes in tests: starting them, waiting for what they do, and killing them at random."""

import collections
import contextlib
import json
import os
import pathlib
import random
import signal
import subprocess
import time

import psycopg2.extras

DEADLINE = 120  # seconds after which a condition is taken never to come true, however busy the machine is

# Of a store, what is on its way in, and what a probe left that was killed or is under way, for an hour.
NOT_KEPT = (".incoming/", "probes/")

# The types of the test stages, and what their commit does: a plain insert, so that a second commit
# of the same job would show.
STAGE_SCHEMA = """
INSERT INTO job_types (name, description, retry_delays, time_limit)
VALUES ('test_stage', 'told by its payload', '{1 hour}', '1 hour'),
       ('test_table', 'told by its payload, on tables', '{1 hour}', '1 hour');
CREATE TABLE test_results (job_id uuid, attempt int, result jsonb);
CREATE FUNCTION test_commit(uuid, int, jsonb) RETURNS void LANGUAGE sql
AS 'INSERT INTO test_results VALUES ($1, $2, $3)';
"""


def wait_until(condition, what, deadline=DEADLINE):
    """The first true value of condition(); fails when there is none in time."""
    end = time.monotonic() + deadline
    while True:
        value = condition()
        if value:
            return value
        assert time.monotonic() < end, f"waited {deadline} s for {what}"
        time.sleep(0.02)


def find_faketime():
    """The library that gives a process another clock; None if the Debian package faketime is not installed."""
    return next(pathlib.Path("/usr/lib").glob("*/faketime/libfaketime.so.1"), None)


def children_of(pid):
    """Pids of the running children of a process (zombies left out)."""
    found = []
    for path in pathlib.Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):
            state, parent = path.read_text().rpartition(")")[2].split()[:2]
            if int(parent) == pid and state != "Z":
                found.append(int(path.parent.name))
    return found


@contextlib.contextmanager
def silent(cluster):
    """A server whose processes stand still, with their sockets open."""
    postmaster = int((cluster.data / "postmaster.pid").read_text().split()[0])
    os.kill(postmaster, signal.SIGSTOP)  # first, so that the list of its children is the last word
    servers = [postmaster, *children_of(postmaster)]
    for pid in servers[1:]:
        with contextlib.suppress(ProcessLookupError):  # one that was just ending
            os.kill(pid, signal.SIGSTOP)
    try:
        yield
    finally:
        for pid in servers:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGCONT)


def stages_of(supervisor):
    """Pids of its stage processes; the host of its brokers is another child."""
    found = []
    for pid in children_of(supervisor):
        with contextlib.suppress(OSError):
            if b"--once" in pathlib.Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0"):
                found.append(pid)
    return found


def is_running(pid):
    try:
        return pathlib.Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


class Worker:
    """One supervisor process; its log goes to a file."""

    def __init__(self, command, environment, log_path):
        self.log_path = pathlib.Path(log_path)
        with open(self.log_path, "ab") as log:
            self.process = subprocess.Popen(command, env=environment, stdin=subprocess.DEVNULL,
                                            stdout=log, stderr=log)
        self.pid = self.process.pid

    def log(self):
        """Its log as objects, lines that are none as {"raw": text}."""
        lines = []
        for text in self.log_path.read_text(errors="replace").splitlines():
            try:
                line = json.loads(text)
            except ValueError:
                line = {"raw": text}
            lines.append(line)
        return lines

    def says(self, words):
        return [line for line in self.log() if words in line.get("message", line.get("raw", ""))]

    def stages(self):
        return stages_of(self.pid)

    def wait_for_stage(self):
        return wait_until(self.stages, "a stage process")[0]

    def signal(self, number):
        self.process.send_signal(number)

    def is_alive(self):
        return self.process.poll() is None

    def wait(self):
        return self.process.wait(DEADLINE)

    def stop(self):
        """Ends it gently; returns the exit status."""
        if self.is_alive():
            self.signal(signal.SIGTERM)
        return self.wait()

    def kill(self):
        if self.is_alive():
            self.process.kill()
        self.process.wait(DEADLINE)


class Workers:
    """Starts workers on one database, store and scratch directory, and ends them all."""

    def __init__(self, find_program, database_url, directory):
        self.find_program = find_program
        self.database_url = database_url
        self.directory = pathlib.Path(directory)
        self.store = self.directory / "objects"
        self.scratch = self.directory / "scratch"
        self.scratch.mkdir(exist_ok=True)
        self.started = []

    def environment(self, **changes):
        environment = {
            **os.environ,
            "DATABASE_URL": self.database_url,
            "STORE_URL": f"dir:{self.store}",
            "CORTANA_SCRATCH": str(self.scratch),
        }
        for name, value in changes.items():
            if value is None:
                environment.pop(name, None)
            else:
                environment[name] = str(value)
        return environment

    def start(self, name="test-stage", *arguments, **environment):
        log = self.directory / f"{name}-{len(self.started)}.log"
        command = [self.find_program(name), "--poll-ms", "200", *map(str, arguments)]
        worker = Worker(command, self.environment(**environment), log)
        self.started.append(worker)
        return worker

    def once(self, payload, *arguments, name="test-stage", **environment):
        text = payload if isinstance(payload, str) else json.dumps(payload)
        return subprocess.run([self.find_program(name), "--once", *arguments], input=text, text=True,
                              env=self.environment(**environment), capture_output=True,
                              timeout=DEADLINE, check=False)

    def files(self):
        """Files in the store, read without its help: whatever lies there is an object or rubbish."""
        return {str(path.relative_to(self.store)) for path in self.store.rglob("*") if path.is_file()}

    def objects(self):
        return {key for key in self.files() if not key.startswith(NOT_KEPT)}

    def scratch_entries(self):
        return [str(path.relative_to(self.scratch)) for path in self.scratch.rglob("*")]

    def end(self):
        for worker in self.started:
            worker.kill()


class Jobs:
    """The queue as a test sees it, through SQL."""

    def __init__(self, connection):
        self.connection = connection

    def rows(self, statement, *parameters):
        with self.connection.cursor(cursor_factory=psycopg2.extras.RealDictCursor) as cursor:
            cursor.execute(statement, parameters)
            return cursor.fetchall() if cursor.description else []

    def row(self, statement, *parameters):
        rows = self.rows(statement, *parameters)
        assert len(rows) == 1, rows
        return rows[0]

    def enqueue(self, payload, job_type="test_stage"):
        row = self.row("SELECT job_id FROM enqueue_job(%s, %s)", job_type, json.dumps(payload))
        return str(row["job_id"])

    def get(self, job_id):
        return self.row("SELECT * FROM jobs WHERE id = %s", job_id)

    def attempts(self, job_id):
        return self.rows("SELECT * FROM job_attempts WHERE job_id = %s ORDER BY attempt", job_id)

    def results(self, job_id):
        return self.rows("SELECT * FROM test_results WHERE job_id = %s", job_id)

    def wait_for(self, job_id, *statuses):
        return wait_until(lambda: next((job for job in [self.get(job_id)]
                                        if job["status"] in statuses), None),
                          f"job {job_id} to be {' or '.join(statuses)}")


# ---- chaos -------------------------------------------------------------------------------------------


def revive(workers, starters):
    """Starts dead workers anew, each by its own starter."""
    for index, worker in enumerate(workers):
        if not worker.is_alive():
            workers[index] = starters[index]()


class Chaos:
    """Keeps workers running and kills supervisors and stages of theirs at random instants.

    starters       functions that start one worker each and return it; a dead one is started again
    is_finished()  true when all the work is done
    add_work()     more of it: called when all is done before the last kill
    """

    def __init__(self, starters, is_finished, add_work, seed, longest_pause=0.25):
        self.starters = starters
        self.is_finished = is_finished
        self.add_work = add_work
        self.random = random.Random(seed)
        self.longest_pause = longest_pause
        self.workers = [start() for start in starters]
        self.killed = collections.Counter()
        self.seen = set()

    def kill_one(self):
        """One victim, if there is any: a supervisor as likely as a stage."""
        supervisors = [worker.pid for worker in self.workers if worker.is_alive()]
        stages = [pid for supervisor in supervisors for pid in stages_of(supervisor)]
        self.seen.update(stages)
        kinds = [(kind, victims) for kind, victims in (("supervisor", supervisors), ("stage", stages))
                 if victims]
        if kinds:
            kind, victims = self.random.choice(kinds)
            with contextlib.suppress(ProcessLookupError):
                os.kill(self.random.choice(victims), signal.SIGKILL)
                self.killed[kind] += 1

    def run(self, kills, deadline=2 * DEADLINE):
        end = time.monotonic() + deadline
        while sum(self.killed.values()) < kills:
            assert time.monotonic() < end, f"{self.killed} after {deadline} s"
            if self.is_finished():
                self.add_work()
            time.sleep(self.random.uniform(0, self.longest_pause))  # the random instant itself
            self.kill_one()
            revive(self.workers, self.starters)

        def is_over():
            revive(self.workers, self.starters)
            return self.is_finished()

        wait_until(is_over, "the work to be finished after the last kill", deadline)

    def end(self):
        """Stops the workers; the stages that were seen must be gone with them."""
        for worker in self.workers:
            worker.stop()
        wait_until(lambda: not any(map(is_running, self.seen)), "stages of dead supervisors to die")
