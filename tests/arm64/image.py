#!/usr/bin/python3
"""The image for arm64, on a machine that is none: its programs are made by a cross compiler, its system is installed under qemu-user,
and so are its containers run. A video goes from the inbox to a hit by workers of it; PostgreSQL is this machine's.

usage: tests/arm64/image.py [--image]

While it runs, this machine's kernel knows how programs for arm64 are run. Under qemu-user stages are shut in by privileges alone:
it has no user namespaces, no Landlock and no filter of system calls for the programs that it runs. Needs root. Prints a line a step, and
last "N passed, M failed"."""

import contextlib
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import time
import uuid

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parents[1]
for folder in ("system", "containers"):
    sys.path.insert(0, str(HERE.parent / folder))

from conftest import Cluster  # noqa: E402
from images import OLD, REPOSITORY, make_programs_of, run_steps, say  # noqa: E402
from pods import log_of, podman  # noqa: E402

MACHINE = "arm64"
IMAGE = f"{REPOSITORY}:{OLD}-{MACHINE}"
KERNEL = pathlib.Path("/proc/sys/fs/binfmt_misc")
NAME = "cortana-arm64"
# The head of an ELF file for AArch64; F: the interpreter is opened once, so that it is found in containers, too.
FORMAT = (f":{NAME}:M::" r"\x7fELF\x02\x01\x01\x00\x00\x00\x00\x00\x00\x00\x00\x00\x02\x00\xb7\x00:"
          r"\xff\xff\xff\xff\xff\xff\xff\x00\xff\xff\xff\xff\xff\xff\xff\xff\xfe\xff\xff\xff:/usr/bin/qemu-aarch64-static:F")
USER = 10001
WORKERS = ["scanner-worker --interval=5", "sample-worker", "ocr-worker", "segment-index-worker", "transcode-worker"]
SANDBOX = "sandbox: privileges; missing: namespaces, mounts, files, system calls, ports"
KNOWN = "Harbour Master"  # stands in fixtures/subtitles.mp4 from second 3 to 8
DEADLINE = 3600  # tens of times slower than a processor of its own


@contextlib.contextmanager
def kernel_knows():
    mounted = (KERNEL / "register").exists()
    if not mounted:
        subprocess.run(["mount", "-t", "binfmt_misc", "binfmt_misc", KERNEL], check=True)
    registered = "/qemu-aarch64" in "".join(path.read_text() for path in KERNEL.iterdir() if path.name not in ("register", "status"))
    if not registered:
        (KERNEL / "register").write_text(FORMAT)
    try:
        yield
    finally:
        if not registered:
            (KERNEL / NAME).write_text("-1")
        if not mounted:
            subprocess.run(["umount", KERNEL], check=True)


class Place:
    """A database of this machine's, a store in a folder, and containers of the image that see both and no network."""

    def __init__(self):
        self.run, self.owner, self.containers = uuid.uuid4().hex[:8], str(uuid.uuid4()), []
        self.store = pathlib.Path(tempfile.mkdtemp(prefix="cv-arm64-"))
        self.cluster = Cluster()
        self.cluster.start()
        os.chown(self.store, USER, USER)

    def options(self):
        return [f"--arch={MACHINE}", "--network=none", "--read-only", "--volume=/work", "--tmpfs=/tmp", f"--volume={self.cluster.directory}:/database",
                f"--volume={self.store}:/store", "--env=DATABASE_URL=host=/database user=postgres", "--env=STORE_URL=dir:/store",
                "--env=CORTANA_RENDITIONS=240", "--env=CORTANA_LANGUAGES=eng"]

    def ask(self, *words):
        return podman("run", "--rm", *self.options(), IMAGE, *words)

    def begin(self, command):
        name = f"cv-{self.run}-{command.split()[0]}"
        self.containers.append(name)
        podman("run", "--detach", "--name", name, *self.options(), IMAGE, *command.split())

    def logs(self):
        for name in self.containers:
            print(f"--- {name}\n{log_of(name)[-1500:]}")

    def remove(self):
        for name in self.containers:
            podman("rm", "--force", "--time", 0, "--volumes", name, check=False)
        self.cluster.remove()
        subprocess.run(["rm", "-rf", self.store], check=True)


def is_for_arm64(place):
    assert podman("image", "inspect", "--format", "{{.Architecture}}", IMAGE) == MACHINE
    said = place.ask("cortana", "--version")
    assert said == f"cortana {OLD}", said


def makes_the_schema(place):
    assert " in all" in place.ask("cortana", "migrate")
    said = place.ask("cortana", "doctor")
    assert "fail" not in said, said


def video_to_hit(place):
    inbox = place.store / "inbox" / place.owner
    inbox.mkdir(parents=True)
    subprocess.run(["ffmpeg", "-v", "error", "-ss", "3", "-t", "2", "-i", ROOT / "fixtures/subtitles.mp4", "-vf", "scale=640:-2", "-c:v", "libx264",
                    "-preset", "ultrafast", "-an", inbox / "talk.mp4"], check=True)
    subprocess.run(["chown", "-R", f"{USER}:{USER}", place.store], check=True)
    began = time.monotonic()
    for command in WORKERS:
        place.begin(command)
    while True:
        states = place.cluster.connect()
        with states, states.cursor() as cursor:
            cursor.execute("SELECT status::text FROM videos")
            found = cursor.fetchall()
        states.close()
        assert found != [("failed",)], found
        if found == [("ready",)]:
            break
        assert time.monotonic() - began < DEADLINE, f"waited {DEADLINE} s for the video: {found}"
        time.sleep(1)
    hits = [json.loads(line) for line in place.ask("cortana", "search", KNOWN, "--json").splitlines()]
    assert hits, f"no line with {KNOWN}"
    assert list(place.store.glob("videos/proxy/*/index.m3u8")), "no playlist"
    assert SANDBOX in log_of(place.containers[1]), log_of(place.containers[1])
    say(f"  upload to hit: {time.monotonic() - began:.0f} s")


if __name__ == "__main__":
    with kernel_knows():
        sys.exit(run_steps(Place, (is_for_arm64, makes_the_schema, video_to_hit), __doc__, lambda: make_programs_of(MACHINE)))
