"""What a decoder that was taken over can reach: every row of tests/programs/attack.c is tried within a real
stage, with its objects in a directory and on an S3 server, as root and as an ordinary user."""

import contextlib
import json
import os
import pathlib
import random
import re
import shutil
import signal
import socket
import subprocess
import tempfile
import time

import pytest
from embedding_server import EmbeddingServer
from s3_server import SECRET_KEY
from store_client import StoreClient
from test_embeddings import Library
from workers import children_of, is_running, stages_of, wait_until

OWN = "0b0e0c7e-3d5f-4a7b-9a52-6f1f7a3c0a01"
OTHER = "0b0e0c7e-3d5f-4a7b-9a52-6f1f7a3c0a02"
ORIGINAL = f"videos/original/{OWN}/master.mp4"
PAYLOAD = json.dumps({"video_id": OWN, "s3_original_path": ORIGINAL})
NOBODY = 65534
SECRET = "a-key-that-no-stage-may-know"
IS_ROOT = os.geteuid() == 0


class Stage:
    """A sample stage by hand, with the attack preloaded; everything lies in a directory that its user
    owns."""

    def __init__(self, program, fixtures_dir, user):
        self.worker, self.library = program("sample-worker"), program("attack.so")
        content = self.worker.read_bytes()
        if b"__asan_init" in content or b"__tsan_init" in content:
            pytest.skip("a sanitizer's runtime has to be loaded before the attack, and is allowed more")
        self.root = pathlib.Path(tempfile.mkdtemp(prefix="cv-attack-", dir="/tmp"))
        self.fixture = fixtures_dir / "subtitles.mp4"
        self.user = user
        self.store = self.root / "store"
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.unix = socket.socket(socket.AF_UNIX)
        self.unix.bind(str(self.root / "socket"))
        self.unix.listen()
        for name in ("file", "secret"):
            (self.root / name).write_text(name)
            (self.root / name).chmod(0o600)
        for key in (ORIGINAL, f"videos/original/{OTHER}/master.mp4", f"frames/{OTHER}/0.jpg"):
            (self.store / key).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(self.fixture, self.store / key)
        (self.root / "scratch").mkdir()
        if user is not None:
            for path in (self.root, *self.root.rglob("*")):
                os.chown(path, user, user)

    def run(self, kind="table", **environment):
        prefix = [] if self.user is None else [
            "setpriv", f"--reuid={self.user}", f"--regid={self.user}", "--clear-groups"]
        return subprocess.run(
            [*prefix, str(self.worker), "--once", "--overwrite", "--threads", "2"], input=PAYLOAD, text=True,
            capture_output=True, check=False, timeout=900,
            env={**os.environ, **self.environment(kind), **environment})

    def environment(self, kind):
        return {"STORE_URL": f"dir:{self.store}", "LD_PRELOAD": str(self.library),
                "CORTANA_SCRATCH": str(self.root / "scratch"), "S3_SECRET_ACCESS_KEY": SECRET,
                "DATABASE_URL": "postgresql://nowhere", "CORTANA_ATTACK": kind,
                "CORTANA_ATTACK_FILE": str(self.root / "file"),
                "CORTANA_ATTACK_SECRET": str(self.root / "secret"),
                "CORTANA_ATTACK_PORT": str(self.listener.getsockname()[1]),
                "CORTANA_ATTACK_SOCKET": str(self.root / "socket"),
                "CORTANA_ATTACK_STORE": str(self.store), "CORTANA_ATTACK_OWN": OWN,
                "CORTANA_ATTACK_OTHER": OTHER, "CORTANA_ATTACK_WORD": SECRET[::-1]}

    def close(self):
        self.listener.close()
        self.unix.close()
        shutil.rmtree(self.root)


@pytest.fixture
def make_stage(program, fixtures_dir):
    with contextlib.ExitStack() as stack:
        def make(user=None):
            stage = Stage(program, fixtures_dir, user)
            stack.callback(stage.close)
            return stage
        yield make


def outcomes(log):
    rows = [line.removeprefix("ATTACK ").rpartition(": ") for line in log.splitlines()
            if line.startswith("ATTACK ")]
    return {name: outcome for name, _, outcome in rows}


def got_through(done, rows=75):
    found = outcomes(done.stderr)
    assert len(found) > rows, (len(found), done.stderr[-2000:])
    return {name for name, outcome in found.items() if outcome == "through"}


def has_user_namespaces():
    return subprocess.run(["unshare", "--user", "true"], capture_output=True, check=False).returncode == 0


# Where there is no user namespace, in a chroot say, the kernel counts a stage's threads with all others.
KNOWN = set() if has_user_namespaces() else {"threads"}


@pytest.mark.parametrize("user", [None, NOBODY] if IS_ROOT else [None])
def test_no_attack_gets_through(make_stage, user):
    stage = make_stage(user)
    done = stage.run(LOG_LEVEL="debug")
    layers = next(line for line in done.stderr.splitlines() if '"sandbox: ' in line)
    print(os.uname().release, layers)
    assert "mounts" in layers.partition("missing")[0] or not has_user_namespaces(), layers
    assert got_through(done) <= KNOWN
    assert done.returncode == 0, done.stderr[-2000:]
    assert json.loads(done.stdout)["frames"]
    assert (stage.root / "file").read_text() == "file"
    assert (stage.root / "file").stat().st_mode & 0o7777 == 0o600
    assert (stage.store / f"frames/{OTHER}/0.jpg").read_bytes() == stage.fixture.read_bytes()
    assert (stage.store / ORIGINAL).read_bytes() == stage.fixture.read_bytes()
    assert not (stage.store / f"frames/{OWN}/attack.jpg").exists()


def test_the_attacks_are_real(make_stage):
    """Without a sandbox they get through, but for those that the broker and the wiped environment stop."""
    found = got_through(make_stage().run(CORTANA_SANDBOX="off"))
    assert {"chmod", "truncate", "prlimit of the parent", "execve", "fork", "memfd_create", "shmget",
            "connect to a port", "connect by TCP Fast Open", "bind a port", "listen",
            "connect to a Unix socket", "write into the store", "list /etc", "request to a DRM driver",
            "request to NVIDIA's driver", "request to NVIDIA's unified memory",
            "command line of the parent", "F_SETOWN", "shared memory without a file", "memory that grows down",
            "memory of /dev/zero", "hand a descriptor over", "write to what may be read"} <= found
    assert not {name for name in found if name.startswith("broker")}
    assert not {"variables of the worker", "secret in memory"} & found


@pytest.mark.parametrize("user", [None, NOBODY] if IS_ROOT else [None])
def test_without_landlock_the_rest_still_holds(make_stage, user):
    """An old kernel: nothing outside of the stage is changed, and where it has a root of its own, nothing is seen."""
    found = got_through(make_stage(user).run(CORTANA_ATTACK_OLD="1"))
    if has_user_namespaces():
        assert not {"read a secret", "read /etc/passwd", "read /etc/shadow", "read /etc/hostname", "list /root",
                    "list the store", "write into the store", "write", "open and empty", "append",
                    "command line of init", "command line of the parent", "environment of the parent",
                    "write to what may be read"} & found
    assert not {"chmod", "chown", "truncate", "prlimit of the parent", "execve", "fork", "socket unix",
                "socket inet", "kill the parent", "ptrace", "memfd_create"} & found


def test_a_stage_that_makes_requests_reaches_its_endpoint_alone(make_stage, workers, queue):
    """It has sockets, and connects to the one port that its endpoint has, however it tries."""
    server = EmbeddingServer()
    try:
        stage = make_stage()
        video = Library(queue).add(["a line"])
        payload = {"video_id": str(video), "model": "any"}
        environment = {**stage.environment("request"), "DATABASE_URL": workers.database_url,
                       "EMBED_URL": server.url}
        done = workers.once(payload, name="embed-worker", **environment)
        assert (done.returncode, json.loads(done.stdout)["embedded"]) == (0, 1), done.stderr[-2000:]
        of_its_work = {"socket inet", "socket udp", "socket inet6", "variables of the worker"}
        assert got_through(done, 60) <= of_its_work | KNOWN
    finally:
        server.close()


GARBAGE = ["noise", "long text", "long data", "no JSON", "unknown operation", "end in a key", "two keys",
           "half a head"]


@pytest.mark.parametrize("kind", GARBAGE)
def test_a_broker_survives_garbage(make_stage, kind):
    """It says what was wrong and hangs up; the attempt fails, the worker does not."""
    done = make_stage().run(kind)
    if kind != "half a head":
        assert done.returncode == 75, (done.returncode, done.stderr[-2000:])
        assert json.loads(done.stdout)["error"]["type"] == "ConnectionLost"
        assert "violated the broker's protocol" in done.stderr
    else:
        assert done.returncode == 0 and done.stdout == ""
    assert "AddressSanitizer" not in done.stderr


def test_a_cgroup_bounds_a_stage(program):
    """Where there is version 2, and the right to make one: on the kernel of tests/kernel."""
    done = subprocess.run([program("test-groups")], text=True, capture_output=True, check=False, timeout=300)
    assert done.returncode == 0, done.stderr
    if "SKIPPED" in done.stderr:
        pytest.skip("no cgroup of version 2 that may be divided")


# ---- on S3 ---------------------------------------------------------------------------------------------


def test_no_attack_gets_through_to_s3(make_stage, program, s3_server):
    environment = s3_server.environment("attacked", s3_server.endpoint)
    client = StoreClient(program("store-commands"), environment)
    stage = make_stage()
    try:
        assert client.bucket(method="PUT", subresource="")["status"] == 200
        for key in (ORIGINAL, f"videos/original/{OTHER}/master.mp4", f"frames/{OTHER}/0.jpg"):
            client.put(key=key, path=str(stage.fixture))
        before = {key: client.get(key=key)["sha256"] for key in client.keys()}
        done = stage.run(**environment, CORTANA_ATTACK_PORT=str(s3_server.port),
                         CORTANA_ATTACK_WORD=SECRET_KEY[::-1])
        assert got_through(done) <= KNOWN
        assert done.returncode == 0, done.stderr[-2000:]
        after = {key: client.get(key=key)["sha256"] for key in client.keys()}
        assert before.items() <= after.items()
        assert {key.split("/")[1] for key in after.keys() - before.keys()} == {OWN}
    finally:
        client.close_process()


# ---- the worker ----------------------------------------------------------------------------------------


def old_kernel(program):
    """Variables with which a worker finds no Landlock, whether a sanitizer is loaded or not."""
    options = os.environ.get("ASAN_OPTIONS", "")
    return {"LD_PRELOAD": program("attack.so"), "CORTANA_ATTACK_OLD": 1,
            "ASAN_OPTIONS": f"{options}:verify_asan_link_order=0".lstrip(":")}


@pytest.mark.usefixtures("jobs")
def test_a_worker_says_which_layers_hold(workers, program):
    new = workers.start("test-stage")
    wait_until(lambda: new.says("sandbox: privileges, "), "what the sandbox has")
    assert not re.search("missing: .*files", new.says("sandbox: ")[0]["message"])
    old = workers.start("test-stage", **old_kernel(program))
    (line,) = wait_until(lambda: old.says("sandbox: privileges, "), "what the sandbox has")
    assert re.search("missing: .*files", line["message"])
    assert old.is_alive()


def test_a_stage_of_a_worker_is_in_its_own_cgroup(jobs, workers):
    job_id = jobs.enqueue({"do": "hang"})
    worker = workers.start("test-stage")
    (line,) = wait_until(lambda: worker.says("sandbox: privileges, "), "what the sandbox has")
    if "no cgroups of stages: " in line["message"]:
        pytest.skip(line["message"])
    stage = worker.wait_for_stage()
    group = pathlib.Path(f"/proc/{stage}/cgroup").read_text().strip().rpartition("0::")[2]
    place = pathlib.Path(f"/sys/fs/cgroup{group}")
    assert place.name.startswith(f"stage-{worker.pid}-")
    assert (place / "pids.max").read_text().strip() == "1024"
    jobs.rows("SELECT cancel_job(%s)", job_id)
    jobs.wait_for(job_id, "canceled")
    assert not place.exists()


@pytest.mark.usefixtures("jobs")
def test_a_worker_can_be_told_to_require_its_sandbox(workers, program):
    refusing = workers.start("test-stage", **old_kernel(program), CORTANA_SANDBOX="require")
    assert refusing.wait() == 78
    assert refusing.says("CORTANA_SANDBOX=require")
    able = workers.start("test-stage", CORTANA_SANDBOX="require")
    wait_until(lambda: able.says("sandbox: privileges, "), "a worker that starts")
    assert able.stop() == 0


STARTS = int(os.environ.get("CORTANA_STOPPED_STARTS", "12"))


@pytest.mark.usefixtures("jobs")
def test_a_worker_may_be_stopped_at_any_instant_of_its_start(workers):
    """By a signal to it alone, or to its whole group: the host of brokers gets it, too."""
    instants = random.Random(7)
    for turn in range(STARTS):
        worker = workers.start("test-stage")
        wait_until(lambda worker=worker: worker.says("sandbox: "), "a worker that starts")
        time.sleep(instants.uniform(0, 0.08))  # the random instant itself
        number = instants.choice([signal.SIGTERM, signal.SIGINT])
        for pid in children_of(worker.pid) if turn % 2 else []:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, number)
        worker.signal(number)
        assert worker.wait() == 0, worker.log()[-5:]
        assert worker.log()[-1]["message"] == "stopped"


def test_a_host_of_brokers_that_was_killed_is_started_anew(jobs, workers):
    worker = workers.start("test-stage")
    jobs.wait_for(jobs.enqueue({"do": "put", "key": "out/1", "text": "1"}), "done")
    host, = (pid for pid in children_of(worker.pid) if pid not in stages_of(worker.pid))
    os.kill(host, signal.SIGKILL)
    wait_until(lambda: not is_running(host), "its end")
    assert jobs.wait_for(jobs.enqueue({"do": "put", "key": "out/2", "text": "2"}), "done", "failed")["status"] == "done"
    assert worker.says("the broker host is restarted")
    assert workers.objects() == {"out/1", "out/2"}
