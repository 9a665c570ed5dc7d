"""The images that tests run: cortana-vision's own, and a database and a store of Debian's packages."""

import argparse
import os
import pathlib
import re
import subprocess
import tempfile
import time

from pods import ENVIRONMENT, podman

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parents[1]
# Where the Dockerfiles of this tree begin.
BASE, OBJECTS_BASE = ("localhost/" + re.search(rf"^ARG {name}=(\S+)", (ROOT / path).read_text(), re.MULTILINE)[1]
                      for name, path in (("BASE", "Dockerfile"), ("OBJECTS_BASE", "install/containers/Dockerfile")))
REPOSITORY, OLD, NEW = "localhost/cortana-vision", "0.1.0", "0.1.1"
BESIDE = {"database": "localhost/cortana-database:17", "objects": "localhost/cortana-objects:16"}
OLDER_DATABASE = "localhost/cortana-database:15"  # of Debian 12
BEFORE_17 = "eb12d3c1^"  # the last tree whose database was that


def say(text):
    print(f"{time.strftime('%H:%M:%S')} {text}", flush=True)


def build(image, context=ROOT, base=BASE, options=()):
    began = time.monotonic()
    subprocess.run(["buildah", "bud", "--isolation", "chroot", "--layers", "--timestamp", "0", f"--build-arg=BASE={base}",
                    *options, "-t", image, "."], cwd=context, check=True, stdout=subprocess.DEVNULL,
                   stderr=subprocess.DEVNULL if not os.environ.get("V") else None, env=ENVIRONMENT)
    say(f"{image} built in {time.monotonic() - began:.0f} s")


def make_base(image=BASE, machine=None):
    """A Debian without recommendations, where no registry is to be had; of another machine than this one, if that is named."""
    if podman("images", "--quiet", image):
        return
    say(f"building {image} from Debian's packages")
    with tempfile.TemporaryDirectory() as folder:
        archive = pathlib.Path(folder) / "base.tar"
        subprocess.run(["mmdebstrap", "--quiet", "--variant=minbase", "--include=ca-certificates",
                        *(["--arch", machine, "--skip=check/qemu"] if machine else []),
                        "--aptopt=Acquire::Languages \"none\"", "--dpkgopt=path-exclude=/usr/share/man/*",
                        "--dpkgopt=path-exclude=/usr/share/locale/*", re.search(r":(\w+)-slim", image)[1], archive], check=True)
        podman("import", *(["--arch", machine] if machine else []), archive, image)


def make_programs_of(machine):
    """cortana-vision's image of this tree for another machine: compiled by a cross compiler, its system installed under qemu-user."""
    make_base()
    other = f"{BASE}-{machine}"
    make_base(other, machine)
    image = f"{REPOSITORY}:{OLD}-{machine}"
    # By its number: by its name an image of the other machine would be looked for.
    own = podman("image", "inspect", "--format", "{{.Id}}", BASE)
    build(image, base=other, options=[f"--platform=linux/{machine}", f"--build-arg=BUILD_BASE={own}"])
    return image


def make_programs():
    """cortana-vision's image of this tree, under two versions."""
    make_base()
    build(f"{REPOSITORY}:{OLD}")
    podman("tag", f"{REPOSITORY}:{OLD}", f"{REPOSITORY}:{NEW}")


def make_beside():
    """Database and store of this tree; what has not changed is taken from the layers that are there."""
    make_base()
    make_base(OBJECTS_BASE)
    for target, image in BESIDE.items():
        build(image, context=ROOT / "install/containers", options=[f"--target={target}", f"--build-arg=OBJECTS_BASE={OBJECTS_BASE}"])


def make_older_database():
    """As it was before PostgreSQL 17 came."""
    make_base(OBJECTS_BASE)
    with tempfile.TemporaryDirectory() as folder:
        tree = subprocess.run(["git", "archive", BEFORE_17, "install/containers"], cwd=ROOT, check=True, stdout=subprocess.PIPE).stdout
        subprocess.run(["tar", "--extract", "--directory", folder], input=tree, check=True)
        build(OLDER_DATABASE, context=f"{folder}/install/containers", base=OBJECTS_BASE, options=["--target=database"])


def run_steps(make, steps, about, build):
    """Builds the images, unless --image is given, and takes each step on what make() makes, which has logs() and
    remove(). Returns the exit status."""
    parser = argparse.ArgumentParser(description=about.split("\n")[0])
    parser.add_argument("--image", action="store_true", help="take the images that are there")
    if not parser.parse_args().image:
        build()
    system, passed, failed = make(), 0, 0
    try:
        for step in steps:
            say(step.__name__)
            step(system)
            passed += 1
    except Exception as problem:  # noqa: BLE001: what comes after a failed step means nothing
        failed += 1
        say(f"FAILED: {problem!r}")
        system.logs()
    finally:
        system.remove()
    print(f"{passed} passed, {failed} failed")
    return 1 if failed else 0
