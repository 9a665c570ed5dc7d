"""The images that tests run: cortana-vision's own, and a database and a store of Debian's packages."""

import os
import pathlib
import subprocess
import tempfile
import time

from pods import podman

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parents[1]
BASE = "localhost/debian:bookworm-slim"
REPOSITORY, OLD, NEW = "localhost/cortana-vision", "0.1.0", "0.1.1"
BESIDE = {"database": "localhost/cortana-database:15", "objects": "localhost/cortana-objects:16"}


def say(text):
    print(f"{time.strftime('%H:%M:%S')} {text}", flush=True)


def build(image, context=ROOT, target=None):
    began = time.monotonic()
    subprocess.run(["buildah", "bud", "--isolation", "chroot", "--layers", "--timestamp", "0", f"--build-arg=BASE={BASE}",
                    *([f"--target={target}"] if target else []), "-t", image, "."], cwd=context, check=True, stdout=subprocess.DEVNULL,
                   stderr=subprocess.DEVNULL if not os.environ.get("V") else None,
                   env={**os.environ, "CONTAINERS_CONF": str(HERE / "containers.conf")})
    say(f"{image} built in {time.monotonic() - began:.0f} s")


def make_base():
    """A Debian without recommendations, where no registry is to be had."""
    if podman("images", "--quiet", BASE):
        return
    say("building the base from Debian's packages")
    with tempfile.TemporaryDirectory() as folder:
        archive = pathlib.Path(folder) / "base.tar"
        subprocess.run(["mmdebstrap", "--quiet", "--variant=minbase", "--include=ca-certificates",
                        "--aptopt=Acquire::Languages \"none\"", "--dpkgopt=path-exclude=/usr/share/man/*",
                        "--dpkgopt=path-exclude=/usr/share/locale/*", "bookworm", archive], check=True)
        podman("import", archive, BASE)


def make_programs():
    """cortana-vision's image of this tree, under two versions."""
    make_base()
    build(f"{REPOSITORY}:{OLD}")
    podman("tag", f"{REPOSITORY}:{OLD}", f"{REPOSITORY}:{NEW}")


def make_beside():
    """Database and store of this tree; what has not changed is taken from the layers that are there."""
    make_base()
    for target, image in BESIDE.items():
        build(image, context=ROOT / "install/containers", target=target)
