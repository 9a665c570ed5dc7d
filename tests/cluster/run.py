#!/usr/bin/python3
"""The manifests before an API server: every object of both overlays is accepted, each pod under Pod Security
"restricted", and what is wrong is refused. Nothing is started: every request is a server's dry run.

usage: tests/cluster/run.py [PROGRAMS]

Takes the cluster that KUBECONFIG names; else an API server of Kubernetes 1.20 and its etcd, from Debian's packages, that
tests/cluster/programs puts into PROGRAMS (/var/cache/cortana-cluster). That one knows neither Pod Security nor some newer
fields, which are left out and named. Prints a line a step, and last "N passed, M failed".
"""

import copy
import json
import os
import pathlib
import socket
import subprocess
import sys
import tempfile
import time
import uuid

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parents[1]
sys.path.insert(0, str(HERE.parent / "system"))

from manifests import OVERLAYS, of_kind, render, template_of  # noqa: E402

DEADLINE = 120  # seconds for etcd and the API server to answer
POD_SECURITY_FROM = 25  # minor version
# What 1.20 calls otherwise, and the fields that came after it.
OLD_KINDS = {"PodDisruptionBudget": "policy/v1beta1", "CronJob": "batch/v1beta1", "HorizontalPodAutoscaler": "autoscaling/v2beta2"}
NEW_FIELDS = {"unhealthyPodEvictionPolicy", "timeZone", "podFailurePolicy", "matchLabelKeys"}


def say(text):
    print(f"{time.strftime('%H:%M:%S')} {text}", flush=True)


def find_fields(value, names):
    """Each (object, key) below a value whose key is one of these."""
    found = []
    if isinstance(value, dict):
        found = [(value, key) for key in value if key in names]
    for inner in value.values() if isinstance(value, dict) else value if isinstance(value, list) else ():
        found += find_fields(inner, names)
    return found


def free_port():
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return listener.getsockname()[1]


class Refused(Exception):
    pass


class Server:
    """kubectl's words for the cluster that is taken, or for the one that is started here."""

    def __init__(self, programs):
        self.programs, self.processes, self.folder = programs, [], None
        self.kubectl = ["kubectl"]
        if not os.environ.get("KUBECONFIG"):
            self.start()
        version = json.loads(self.run("version", "--output=json"))["serverVersion"]
        self.minor = int("".join(filter(str.isdigit, version["minor"])))
        self.kinds = set(self.run("api-resources", "--no-headers").split())
        say(f"Kubernetes 1.{self.minor}")

    def start(self):
        subprocess.run([HERE / "programs", self.programs], check=True)
        self.folder = tempfile.TemporaryDirectory(prefix="cv-cluster-")
        place = pathlib.Path(self.folder.name)
        clients, peers, port, token = free_port(), free_port(), free_port(), uuid.uuid4().hex
        key = place / "accounts.key"
        subprocess.run(["openssl", "genrsa", "-out", key, "2048"], check=True, stderr=subprocess.DEVNULL)
        (place / "tokens").write_text(f'{token},admin,admin,"system:masters"\n')
        self.spawn("etcd", "--data-dir", place / "etcd", "--unsafe-no-fsync", "--initial-cluster", f"default=http://127.0.0.1:{peers}",
                   *(word for option, number in (("listen-client", clients), ("advertise-client", clients), ("listen-peer", peers),
                                                 ("initial-advertise-peer", peers))
                     for word in (f"--{option}-urls", f"http://127.0.0.1:{number}")))
        # Accounts have a controller to make them, and none runs here.
        self.spawn("kube-apiserver", f"--etcd-servers=http://127.0.0.1:{clients}", "--bind-address=127.0.0.1",
                   f"--secure-port={port}", f"--cert-dir={place}/certificates", f"--token-auth-file={place}/tokens",
                   f"--service-account-key-file={key}", f"--service-account-signing-key-file={key}",
                   "--service-account-issuer=https://cluster.local", "--service-cluster-ip-range=10.252.0.0/24",
                   "--disable-admission-plugins=ServiceAccount")
        self.kubectl = [self.programs / "kubectl", f"--server=https://127.0.0.1:{port}", "--insecure-skip-tls-verify",
                        f"--token={token}", f"--cache-dir={place}/cache"]
        end = time.monotonic() + DEADLINE
        while True:
            try:
                self.run("get", "--raw", "/readyz")
                return
            except Refused as problem:
                if time.monotonic() > end or any(process.poll() is not None for process in self.processes):
                    log = "".join(path.read_text()[-1000:] for path in place.glob("*.log"))
                    raise AssertionError(f"the API server does not answer: {problem}\n{log}") from problem
            time.sleep(0.3)

    def spawn(self, name, *arguments):
        with open(pathlib.Path(self.folder.name) / f"{name}.log", "wb") as log:
            self.processes.append(subprocess.Popen([self.programs / name, *map(str, arguments)], stdin=subprocess.DEVNULL,
                                                   stdout=log, stderr=log))

    def run(self, *words, text=None):
        done = subprocess.run([*self.kubectl, *words], input=text, text=True, check=False, capture_output=True)
        if done.returncode != 0:
            raise Refused(done.stderr.strip()[-800:])
        return done.stdout

    def ask(self, *documents):
        """A dry run of making these objects."""
        self.run("apply", "--dry-run=server", "--validate=true", "-f", "-",
                 text=json.dumps({"apiVersion": "v1", "kind": "List", "items": documents}))

    def end(self):
        for process in reversed(self.processes):
            process.terminate()
            process.wait()
        if self.folder:
            self.folder.cleanup()


class Place:
    """A namespace of its own, with the labels of the manifests'."""

    def __init__(self, server, documents):
        self.server, self.name, self.left_out = server, f"cortana-check-{uuid.uuid4().hex[:8]}", set()
        (namespace,) = [d for d in of_kind(documents, "Namespace")]
        labels = namespace["metadata"]["labels"]
        assert labels["pod-security.kubernetes.io/enforce"] == "restricted"
        server.run("apply", "-f", "-", text=json.dumps(
            {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": self.name, "labels": labels}}))

    def here(self, document):
        """The object as this server knows it, in this namespace; None for a kind that it does not have."""
        made = copy.deepcopy(document)
        if made["kind"] not in self.server.kinds:
            self.left_out.add(made["kind"])
            return None
        if "namespace" in made["metadata"]:
            made["metadata"]["namespace"] = self.name
        if self.server.minor < POD_SECURITY_FROM:
            made["apiVersion"] = OLD_KINDS.get(made["kind"], made["apiVersion"])
            for where, field in find_fields(made, NEW_FIELDS):
                del where[field]
                self.left_out.add(field)
        return made

    def pod_of(self, document):
        """A pod as its controller would make it: without what has to be there first."""
        made = self.here(document)
        template = template_of(made)
        spec = {key: value for key, value in template["spec"].items() if key not in ("serviceAccountName", "priorityClassName")}
        claims = made["spec"].get("volumeClaimTemplates", [])
        spec["volumes"] = spec.get("volumes", []) + [{"name": claim["metadata"]["name"], "emptyDir": {}} for claim in claims]
        return {"apiVersion": "v1", "kind": "Pod", "spec": spec,
                "metadata": {"name": document["metadata"]["name"], "namespace": self.name, "labels": template["metadata"]["labels"]}}

    def remove(self):
        self.server.run("delete", "namespace", self.name, "--wait=false")


def accepts(server, documents):
    place = Place(server, documents)
    try:
        objects = [made for made in map(place.here, documents) if made]
        server.ask(*objects)
        pods = [place.pod_of(document) for document in documents if template_of(document) and document["kind"] in server.kinds]
        server.ask(*pods)
        say(f"  {len(objects)} objects and {len(pods)} pods accepted; unknown here: {', '.join(sorted(place.left_out)) or 'nothing'}")
    finally:
        place.remove()


def refuses(server, documents):
    """That it looks at all: a request above its limit, and, where Pod Security is, a pod as root."""
    place = Place(server, documents)
    (ocr,) = [d for d in of_kind(documents, "Deployment") if d["metadata"]["name"] == "ocr"]
    greedy, root = place.pod_of(ocr), place.pod_of(ocr)
    greedy["spec"]["containers"][0]["resources"]["requests"]["memory"] = "1Ti"
    root["spec"]["securityContext"]["runAsNonRoot"] = False
    wrong = {"memory": greedy}
    if server.minor >= POD_SECURITY_FROM:
        wrong["PodSecurity"] = root
    else:
        say(f"  not checked: Pod Security, which came with 1.{POD_SECURITY_FROM}; KUBECONFIG may name a newer cluster")
    try:
        for word, pod in wrong.items():
            try:
                server.ask(pod)
            except Refused as problem:
                assert word in str(problem), problem
            else:
                raise AssertionError(f"a pod with a wrong {word} is accepted")
        say(f"  refused: {', '.join(wrong)}")
    finally:
        place.remove()


def main():
    programs = pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else "/var/cache/cortana-cluster")
    tools = pathlib.Path(os.environ.get("BUILD_DIR", ROOT / "build")) / "tools"
    subprocess.run([ROOT / "scripts/manifest_tools", tools], check=True)
    overlays = {name: render(tools / "kustomize", name) for name in OVERLAYS}
    server, passed, failed = Server(programs), 0, 0
    try:
        for name, step, overlay in [(f"{name} is accepted", accepts, name) for name in OVERLAYS] + [("what is wrong", refuses, "prod")]:
            say(name)
            try:
                step(server, overlays[overlay])
                passed += 1
            except (AssertionError, Refused) as problem:
                failed += 1
                say(f"FAILED: {problem}")
    finally:
        server.end()
    print(f"{passed} passed, {failed} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
