#!/usr/bin/python3
"""One server of containers as compose.yaml has it, by podman-compose, from a folder that holds this file alone: from nothing to a
clip, the first administrator's account, stopped, and started again with everything there; with the PostgreSQL of Debian 12 at first, as
it was before 17 came, and then that of 13; at last with volumes that were saved in files.

usage: tests/containers/compose.py [--image]

Without --image all images are built. Needs root. Prints a line a step, and last "N passed, M failed".
"""

import http.client
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
import uuid

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parents[1]
sys.path.insert(0, str(HERE.parent / "system"))
sys.path.insert(0, str(HERE))

from images import BESIDE, OLDER_DATABASE, make_beside, make_older_database, make_programs, run_steps, say  # noqa: E402
from pods import ENVIRONMENT, log_of, podman  # noqa: E402
from s3_server import free_port  # noqa: E402

DEADLINE = 300
KNOWN = "Harbour"  # stands in that part of the fixture
DATA = "/var/lib/postgresql/data"


def documented(first):
    """The lines of docs/operations.md from one that begins so to the next empty one, which an operator is told to give."""
    return re.search(rf"^      {re.escape(first)}.*?(?=\n\n)", (ROOT / "docs/operations.md").read_text(), re.MULTILINE | re.DOTALL)[0]


class Server:
    PLACE = None  # for its files

    def __init__(self):
        make_beside()
        self.name = f"cv{uuid.uuid4().hex[:8]}"
        self.port, self.s3_port = free_port(), free_port()
        self.folder = pathlib.Path(tempfile.mkdtemp(dir=self.PLACE))
        shutil.copy(ROOT / "compose.yaml", self.folder)
        self.owner = str(uuid.uuid4())
        self.token = self.video = None

    def variables(self):
        return {"OBJECTS_GIB": "4", "CORTANA_PORT": str(self.port), "OBJECTS_PORT": str(self.s3_port)}

    def container(self, service):
        return f"{self.name}_{service}_1"

    def start(self):
        self.compose("up", "--no-build", "--detach")

    def stop(self):
        self.compose("down")

    def remove(self):
        self.compose("down", "--volumes")
        shutil.rmtree(self.folder)

    def volume(self, name):
        return f"{self.name}_{name}"

    def give(self, commands):
        """To a shell in its folder, about its volumes."""
        commands = re.sub(r"\bcortana(?=_| cortana_)", self.name, commands).replace("podman-compose ", f"podman-compose -p {self.name} ")
        done = subprocess.run(["sh", "-ec", commands], cwd=self.folder, check=False, text=True, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                              stderr=subprocess.STDOUT, env={**ENVIRONMENT, **self.variables(), "BUILDAH_ISOLATION": "chroot"})
        if done.returncode != 0:
            raise RuntimeError(f"{commands}: {done.stdout[-2000:]}")

    def compose(self, *words):
        done = subprocess.run(["podman-compose", "-p", self.name, *words], cwd=self.folder, env={**ENVIRONMENT, **self.variables()}, check=False,
                              text=True, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        if done.returncode != 0:
            raise RuntimeError(f"podman-compose {words}: {done.stdout[-2000:]}")

    def inside(self, service, *command):
        return podman("exec", self.container(service), *command)

    def has_ended(self, service):
        return podman("inspect", "--format", "{{.State.Status}} {{.State.ExitCode}}", self.container(service)) == "exited 0"

    def ask(self, path, body=None):
        headers = {"Authorization": f"Bearer {self.token}", "Content-Type": "application/json"}
        request = urllib.request.Request(f"http://127.0.0.1:{self.port}/api/v1{path}", headers=headers,
                                         data=json.dumps(body).encode() if body else None)
        with urllib.request.urlopen(request, timeout=30) as answer:
            return answer.read()

    def get(self, path, body=None):
        return json.loads(self.ask(path, body))

    def redirected(self, path):
        """What the bucket answers where the gateway sends a browser there, by a name that this machine knows."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=30)
        connection.request("GET", f"/api/v1{path}", headers={"Authorization": f"Bearer {self.token}"})
        answer = connection.getresponse()
        url = answer.getheader("Location") or ""
        connection.close()
        assert answer.status == 307 and url.startswith(f"http://127.0.0.1:{self.s3_port}/"), (answer.status, url)
        with urllib.request.urlopen(url, timeout=30) as answer:
            return answer.read()

    def wait(self, condition, what):
        end = time.monotonic() + DEADLINE
        while time.monotonic() < end:
            try:
                value = condition()
                if value:
                    return value
            except (OSError, RuntimeError, urllib.error.URLError):
                pass  # it is not up yet
            time.sleep(0.3)
        raise AssertionError(f"waited {DEADLINE} s for {what}")

    def logs(self):
        for name in podman("ps", "--all", "--format", "{{.Names}}", "--filter", f"name={self.name}_").split():
            print(f"--- {name}\n{log_of(name)[-2500:]}")


class ServerOfDebian12(Server):
    """Whose first PostgreSQL is the one of that."""

    def __init__(self):
        super().__init__()
        make_older_database()
        self.take_database(OLDER_DATABASE)

    def take_database(self, image):
        (self.folder / "compose.yaml").write_text((ROOT / "compose.yaml").read_text().replace(BESIDE["database"], image))


def up(server):
    began = time.monotonic()
    server.start()
    server.token = server.wait(lambda: server.inside("gateway", "cortana", "token", "--user", server.owner), "the gateway's container")
    server.wait(lambda: server.get("/videos?limit=1"), "the API")
    server.wait(lambda: server.has_ended("bucket"), "the bucket")
    # On a busy machine podman's server of names is silent for a while after the last container has come.
    server.wait(lambda: server.inside("command", "getent", "hosts", "database"), "the name of the database")
    say(f"  the API answers and the bucket is there after {time.monotonic() - began:.0f} s")


def first_administrator(server):
    """By the link of an invitation, with a name and a password; then the cookie is asked for, as by a browser."""
    code = server.inside("scheduler", "cortana", "people", "invite", "--role", "operator").split("#c=")[1]
    connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=30)
    site = {"Origin": f"http://127.0.0.1:{server.port}", "X-Cortana": "1", "Content-Type": "application/json"}
    account = {"code": code, "name": "Anna", "email": "anna@example.org", "new_password": "correct horse battery"}
    connection.request("POST", "/api/v1/invitations/account", json.dumps(account), site)
    answer = connection.getresponse()
    text, cookie = answer.read(), answer.getheader("Set-Cookie")
    assert answer.status == 200, text
    connection.request("GET", "/api/v1/jobs", headers={"Cookie": cookie.split(";")[0]})
    assert connection.getresponse().status == 200
    connection.close()


def upload_to_clip(server):
    """By the client of docs/examples: parts go to the bucket, as from the page."""
    began = time.monotonic()
    with tempfile.TemporaryDirectory() as folder:
        video, clip = pathlib.Path(folder) / "talk.mp4", pathlib.Path(folder) / "clip.mp4"
        subprocess.run(["ffmpeg", "-v", "error", "-ss", "1", "-t", "3", "-i", ROOT / "fixtures/subtitles.mp4", "-c:v", "libx264",
                        "-preset", "ultrafast", "-an", video], check=True)
        done = subprocess.run(["/usr/bin/python3", ROOT / "docs/examples/client.py", video, KNOWN, clip], text=True, check=False, stdout=subprocess.PIPE,
                              stderr=subprocess.STDOUT, timeout=DEADLINE,
                              env={**os.environ, "API": f"http://127.0.0.1:{server.port}/api/v1", "TOKEN": server.token})
        assert done.returncode == 0 and clip.stat().st_size > 1000, done.stdout
    (video,) = server.get("/videos")["items"]
    server.video = video["id"]
    server.found = server.get(f"/videos/{server.video}/segments")["items"]
    say(f"  upload to clip: {time.monotonic() - began:.0f} s, {len(server.found)} lines of text")


def keep_house(server):
    """The programs of schedules, with the login that they have here."""
    for command in (["cortana", "gc"], ["cortana", "jobs"], ["cortana", "doctor"]):
        server.inside("command", *command)


def stop_and_start(server):
    server.stop()
    up(server)
    assert server.get(f"/videos/{server.video}/segments")["items"] == server.found
    assert server.redirected(f"/videos/{server.video}/poster").startswith(b"\xff\xd8")  # JPEG


def refused(server, image, *command):
    """What the database's container says and waits after; it is stopped then."""
    name = f"{server.name}_refused"
    podman("run", "--detach", "--name", name, "--volume", f"{server.volume('database')}:{DATA}", image, "database", *command)
    try:
        if command:
            assert podman("wait", name) == "78"
            return log_of(name)
        said = server.wait(lambda: log_of(name), "the refusal")
        assert podman("inspect", "--format", "{{.State.Status}}", name) == "running"
        return said
    finally:
        podman("rm", "--force", name)


def without_room(server):
    """The newer one says it, waits, and leaves what was saved as it is. The disk is a copy of the volume with a little more."""
    volume, disk, name = podman("volume", "inspect", "--format", "{{.Mountpoint}}", server.volume("database")), server.folder / "small", f"{server.name}_small"
    disk.mkdir()
    used = int(subprocess.run(["du", "--summarize", "--block-size=1M", volume], check=True, text=True, stdout=subprocess.PIPE).stdout.split()[0])
    subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={used + 30}m,mode=0700,uid=10001,gid=10001", "small", disk], check=True)
    try:
        subprocess.run(["cp", "--archive", f"{volume}/.", disk], check=True)
        podman("run", "--detach", "--name", name, "--volume", f"{disk}:{DATA}", BESIDE["database"])
        server.wait(lambda: "could not be made" in log_of(name), "what it says about room")
        assert "No space left on device" in log_of(name)
        assert podman("inspect", "--format", "{{.State.Status}}", name) == "running"
        assert sorted(os.listdir(disk)) == ["15", "lock", "saved.sql"]
    finally:
        podman("rm", "--force", "--ignore", name)
        subprocess.run(["umount", disk], check=True)


def takes_a_newer_postgresql(server):
    """Who does not know the way is told it, and nothing is lost; then by the commands of docs/operations.md. The older data are not
    served again."""
    (server.folder / "install").symlink_to(ROOT / "install")
    stop, start = documented("# 1. Stop all.").split("# 3.")
    assert "podman-compose up" in start
    server.give(re.search("podman build .*", stop)[0])
    assert "are not shut down: stop the container" in refused(server, OLDER_DATABASE, "save")
    server.take_database(BESIDE["database"])
    server.stop()
    server.start()
    server.wait(lambda: "this volume has the data of PostgreSQL 15" in log_of(server.container("database")), "the refusal")
    assert podman("inspect", "--format", "{{.State.Status}} {{.RestartCount}}", server.container("database")) == "running 0"
    server.give(stop)
    without_room(server)
    up(server)
    assert server.get(f"/videos/{server.video}/segments")["items"] == server.found
    assert "PostgreSQL 17" in server.inside("command", "cortana", "doctor")
    server.stop()
    assert "PostgreSQL 17, and this image is of 15, which is older" in refused(server, OLDER_DATABASE)
    assert "which is older" in refused(server, OLDER_DATABASE, "save")
    up(server)
    remove = re.search(r"`podman-compose exec database (rm [^`]*)`", (ROOT / "docs/operations.md").read_text())[1]
    server.inside("database", *remove.split())
    assert server.inside("database", "ls", DATA).split() == ["17", "lock"]


def is_served_once(server):
    """Neither a second server nor `save` opens the data of one that runs."""
    assert "another container has this volume open" in refused(server, BESIDE["database"])
    assert "another container has this volume open" in refused(server, BESIDE["database"], "save")
    assert server.get(f"/videos/{server.video}/segments")["items"] == server.found


def is_saved_and_unpacked(server):
    """By the commands of docs/operations.md, into volumes of nothing."""
    save, unpack = (documented(first) for first in ("podman-compose down\n      (set -e; umask", "(set -e\n"))
    server.give(save.replace("up --detach", "up --no-build --detach"))
    files = sorted(server.folder.glob("*.tar"))
    assert len(files) == 6 and all(file.stat().st_mode & 0o077 == 0 for file in files), files
    server.compose("down", "--volumes")
    server.give(unpack)
    up(server)
    assert server.get(f"/videos/{server.video}/segments")["items"] == server.found
    assert server.redirected(f"/videos/{server.video}/poster").startswith(b"\xff\xd8")  # JPEG
    disk = server.inside("objects", "du", "--block-size=1M", "--summarize", "/var/lib/objects").split()[0]
    assert int(disk) < 4 * 1024 / 2, disk  # its file is sparse as before


STEPS = [up, first_administrator, upload_to_clip, keep_house, stop_and_start]


if __name__ == "__main__":
    sys.exit(run_steps(ServerOfDebian12, [*STEPS, takes_a_newer_postgresql, is_served_once, is_saved_and_unpacked], __doc__, make_programs))
