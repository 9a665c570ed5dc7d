"""Workers within the bounds of a container: a group of the kernel's, made here where that is allowed."""

import contextlib
import pathlib
import time
import uuid

import pytest
from test_supervisor import is_sanitized
from workers import STAGE_SCHEMA, Jobs, Worker, Workers, wait_until

ROOT = pathlib.Path("/sys/fs/cgroup")
MEMORY = 160 << 20


class Group:
    """A group with half a CPU and little memory, of whichever version this machine has."""

    def __init__(self):
        name = f"cortana-test-{uuid.uuid4().hex[:12]}"
        self.directories = []
        try:
            if (ROOT / "memory").is_dir() and (ROOT / "cpu").is_dir():
                paths = {names: path for _, names, path in
                         (line.split(":", 2) for line in
                          pathlib.Path("/proc/self/cgroup").read_text().splitlines())}
                for kind in ("memory", "cpu"):
                    parent = next((path for names, path in paths.items() if kind in names.split(",")), "/")
                    self.make(ROOT / kind / parent.lstrip("/") / name)
                self.write(0, "memory.limit_in_bytes", MEMORY)
                self.write(1, "cpu.cfs_period_us", 100000)
                self.write(1, "cpu.cfs_quota_us", 50000)
            else:
                (ROOT / "cgroup.subtree_control").write_text("+memory +cpu")
                self.make(ROOT / name)
                self.write(0, "memory.max", MEMORY)
                self.write(0, "cpu.max", "50000 100000")
        except OSError:
            self.remove()
            raise

    def make(self, directory):
        directory.mkdir()
        self.directories.append(directory)

    def write(self, index, name, value):
        (self.directories[index] / name).write_text(str(value))

    def wrap(self, command):
        """The command, started within the group."""
        joins = "".join(f"echo $$ > {directory}/cgroup.procs; " for directory in self.directories)
        return ["sh", "-c", f'{joins}exec "$@"', "sh", *map(str, command)]

    def remove(self):
        end = time.monotonic() + 10
        for directory in self.directories:
            while directory.exists() and time.monotonic() < end:
                with contextlib.suppress(OSError):  # busy until the last process has gone
                    directory.rmdir()


@pytest.fixture
def group():
    try:
        made = Group()
    except OSError as reason:
        pytest.skip(f"no group of our own: {reason}")
    yield made
    made.remove()


def test_a_stage_keeps_within_the_bounds_of_its_container(group, program, database, sql, tmp_path):
    if is_sanitized(program("test-stage")):
        pytest.skip("sanitizers leave no room for a bound")
    sql.cursor().execute(STAGE_SCHEMA)
    jobs, workers = Jobs(sql), Workers(program, database, tmp_path)
    eating = jobs.enqueue({"do": "eat"})  # until it is told that there is no more; else 256 MiB
    working = jobs.enqueue({"do": "work", "ms": 60000})
    worker = Worker(group.wrap([program("test-stage"), "--poll-ms", "200"]), workers.environment(),
                    tmp_path / "log")
    try:
        job = jobs.wait_for(eating, "failed")
        assert job["payload"]["error"]["type"] == "OutOfMemory"  # said by itself, not by a SIGKILL
        (attempt,) = jobs.attempts(eating)
        assert attempt["exit_code"] == 75 and attempt["peak_memory_bytes"] < MEMORY - (40 << 20)
        wait_until(lambda: jobs.get(working)["status"] == "processing" and worker.stages(), "a stage")
        arguments = wait_until(lambda: stage_arguments(worker), "its arguments")
        assert arguments[arguments.index("--threads") + 1] == "1"
        environment = pathlib.Path(f"/proc/{worker.stages()[0]}/environ").read_bytes().split(b"\0")
        assert b"OMP_THREAD_LIMIT=1" in environment
        assert worker.is_alive()
    finally:
        worker.kill()
        wait_until(lambda: not worker.stages(), "its stages to end")


def stage_arguments(worker):
    for pid in worker.stages():
        with contextlib.suppress(OSError):
            arguments = pathlib.Path(f"/proc/{pid}/cmdline").read_bytes().decode().split("\0")
            if "--once" in arguments:
                return arguments
    return None
