#!/usr/bin/python3
"""The manifests in a cluster. First before its API server, by dry runs: every object of both overlays is accepted, each
pod under Pod Security "restricted", and what is wrong is refused. Then at work: work.py has the steps.

usage: tests/cluster/run.py [--programs FOLDER] [--as-given] [STEP …]

Takes the cluster that KUBECONFIG names. It may have neither of the namespaces cortana-vision and storage, needs a default
StorageClass, and has the images already, or gets them by the command CORTANA_CLUSTER_IMPORT, after which an archive is
named ("kind load image-archive", "k3s ctr images import"). Without KUBECONFIG a node of Kubernetes 1.20 is made here of
Debian's packages (needs root), whose programs tests/cluster/programs puts into FOLDER (/var/cache/cortana-cluster). That
one knows neither Pod Security nor some newer fields, which are left out and named; so the objects are decoded by the types of
the newest Kubernetes whose libraries Debian has, too. --as-given makes that node, and then takes it as KUBECONFIG's, which is how
that way is tried. CORTANA_CLUSTER_IMAGES=1 takes the images that podman has; CORTANA_CLUSTER_ABSENCE is how many seconds
PostgreSQL is away (30). With STEPs only those, after install. Prints a line a step, and last "N passed, M failed".
"""

import argparse
import os
import pathlib
import shlex
import signal
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parents[1]
for folder in ("system", "containers"):
    sys.path.insert(0, str(HERE.parent / folder))

from accepted import accepts, fits_newest, refuses  # noqa: E402
from images import BESIDE, NEW, OLD, REPOSITORY, make_beside, make_programs  # noqa: E402
from kubernetes import Kubernetes, say  # noqa: E402
from manifests import OVERLAYS, render  # noqa: E402
from node import PAUSE, Node  # noqa: E402
from pods import ENVIRONMENT, podman  # noqa: E402
from work import STEPS, Installation  # noqa: E402


def make_images():
    """Those of this tree, and a pod's first program."""
    if not os.environ.get("CORTANA_CLUSTER_IMAGES"):
        make_programs()
    make_beside()
    with tempfile.TemporaryDirectory(prefix="cv-cluster-pause-") as folder:
        (pathlib.Path(folder) / "Dockerfile").write_text(f'FROM {REPOSITORY}:{OLD}\nENTRYPOINT ["sleep", "infinity"]\n')
        subprocess.run(["buildah", "bud", "--isolation", "chroot", "--quiet", "-t", PAUSE, folder], env=ENVIRONMENT, check=True,
                       stdout=subprocess.DEVNULL)


def hand_over_images(load, names):
    """In one archive, for load(archive)."""
    with tempfile.TemporaryDirectory(prefix="cv-cluster-images-", dir="/var/tmp") as folder:
        archive = pathlib.Path(folder) / "images.tar"
        podman("save", "--quiet", "--multi-image-archive", "--format=docker-archive", f"--output={archive}", *names)
        load(archive)
    say(f"the cluster has {len(names)} images")


IMAGES = [f"{REPOSITORY}:{OLD}", f"{REPOSITORY}:{NEW}", *BESIDE.values()]


def take_cluster():
    words = shlex.split(os.environ.get("CORTANA_CLUSTER_IMPORT", ""))
    if words:
        make_images()
        hand_over_images(lambda archive: subprocess.run([*words, archive], check=True, stdout=subprocess.DEVNULL), IMAGES)
    return Kubernetes("kubectl", os.environ["KUBECONFIG"])


def make_node(programs, images):
    if os.geteuid() != 0:
        sys.exit("without KUBECONFIG a cluster is made here, which needs root")
    make_images()
    node = Node(programs)
    try:
        node.start()
        hand_over_images(node.import_images, [PAUSE, *images])
        node.join()
    except BaseException:
        node.end()
        raise
    return node


def give(node):
    """The cluster of a node that we made, as the one of a stranger: with volumes for claims, and a command for images."""
    volume, name = node.make_volume(), "given"
    volume["spec"]["storageClassName"] = name
    Kubernetes(node.programs / "kubectl", node.kubeconfig).apply(volume, {
        "apiVersion": "storage.k8s.io/v1", "kind": "StorageClass", "provisioner": "kubernetes.io/no-provisioner",
        "metadata": {"name": name, "annotations": {"storageclass.kubernetes.io/is-default-class": "true"}}})
    os.environ.update(KUBECONFIG=str(node.kubeconfig), PATH=f"{node.programs}:{os.environ['PATH']}", CORTANA_CLUSTER_IMPORT=shlex.join(
        [str(node.programs / "ctr"), "--address", str(node.socket), "--namespace", "k8s.io", "images", "import"]))
    return take_cluster()


class Count:
    def __init__(self):
        self.passed = self.failed = 0

    def run(self, name, step, *arguments):
        say(name)
        try:
            step(*arguments)
            self.passed += 1
            return True
        except Exception as problem:  # noqa: BLE001: what is unexpected fails a step, too
            self.failed += 1
            say(f"FAILED: {problem!r}")
            return False


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--programs", type=pathlib.Path, default=pathlib.Path("/var/cache/cortana-cluster"), help="of the node")
    parser.add_argument("--as-given", action="store_true", help="make a node, and treat it as the one of KUBECONFIG")
    parser.add_argument("steps", nargs="*", metavar="STEP", help=f"of {', '.join(step.__name__ for step in STEPS[1:])}")
    options = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("told to end"))  # what was started ends with it
    tools = pathlib.Path(os.environ.get("BUILD_DIR", ROOT / "build")) / "tools"
    subprocess.run([ROOT / "scripts/manifest_tools", tools], check=True)
    node = None if os.environ.get("KUBECONFIG") else make_node(options.programs, [] if options.as_given else IMAGES)
    count, work = Count(), None
    try:
        kubernetes = (Kubernetes(options.programs / "kubectl", node.kubeconfig) if node and not options.as_given
                      else give(node) if node else take_cluster())
        say(f"Kubernetes 1.{kubernetes.minor}")
        overlays = {name: render(tools / "kustomize", ROOT / "k8s/overlays" / name) for name in OVERLAYS}
        for name in OVERLAYS:
            count.run(f"{name} is accepted", accepts, kubernetes, overlays[name])
        count.run("what is wrong is refused", refuses, kubernetes, overlays["prod"])
        if node:
            count.run("both have the newest types", fits_newest, options.programs, overlays)
        work = Installation(kubernetes, tools / "kustomize", None if options.as_given else node)
        for step in STEPS:
            # What comes after a failed step means nothing.
            if (not options.steps or step is STEPS[0] or step.__name__ in options.steps) and not count.run(step.__name__, step, work):
                work.tell()
                break
    finally:
        if work:
            work.end()
        if node:
            node.end()
    print(f"{count.passed} passed, {count.failed} failed")
    return 1 if count.failed else 0


if __name__ == "__main__":
    sys.exit(main())
