"""A cluster as the tests ask it: kubectl, and manifests in the words of its version."""

import copy
import json
import os
import subprocess
import time

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


class Refused(Exception):
    pass


class Kubernetes:
    def __init__(self, kubectl, kubeconfig):
        self.kubectl, self.environment = kubectl, {**os.environ, "KUBECONFIG": str(kubeconfig)}
        version = json.loads(self.run("version", "--output=json"))["serverVersion"]
        self.minor = int("".join(filter(str.isdigit, version["minor"])))
        self.kinds = set(self.run("api-resources", "--no-headers").split())
        self.left_out = set()

    def run(self, *words, text=None):
        done = subprocess.run([self.kubectl, *words], input=text, text=True, check=False, capture_output=True, env=self.environment)
        if done.returncode != 0:
            raise Refused(f"kubectl {' '.join(words)[:200]}: {done.stderr.strip()[-800:]}")
        return done.stdout

    def get(self, namespace, kind, *words):
        return json.loads(self.run("--namespace", namespace, "get", kind, "--output=json", *words))

    def apply(self, *documents, dry_run=False):
        """Makes or changes these objects. A dry run asks whether the server would."""
        self.run("apply", "--validate=true", *(["--dry-run=server"] if dry_run else []), "-f", "-",
                 text=json.dumps({"apiVersion": "v1", "kind": "List", "items": documents}))

    def known(self, document):
        """The object as this version knows it; None for a kind that it does not have."""
        made = copy.deepcopy(document)
        if made["kind"] not in self.kinds:
            self.left_out.add(made["kind"])
            return None
        if self.minor < POD_SECURITY_FROM:
            made["apiVersion"] = OLD_KINDS.get(made["kind"], made["apiVersion"])
            for where, field in find_fields(made, NEW_FIELDS):
                del where[field]
                self.left_out.add(field)
        return made

    def wait_for_account(self, namespace):
        """A controller makes it; without one, pods are refused."""
        end = time.monotonic() + 60
        while not self.run("--namespace", namespace, "get", "serviceaccount", "default", "--ignore-not-found"):
            if time.monotonic() > end:
                raise AssertionError(f"namespace {namespace} has no account for pods after a minute")
            time.sleep(0.2)

    def evict(self, namespace, pod):
        """As a drain does: refused where a PodDisruptionBudget forbids it."""
        version = "policy/v1beta1" if self.minor < POD_SECURITY_FROM else "policy/v1"
        self.run("create", "--raw", f"/api/v1/namespaces/{namespace}/pods/{pod}/eviction", "-f", "-", text=json.dumps(
            {"apiVersion": version, "kind": "Eviction", "metadata": {"name": pod, "namespace": namespace}}))

    def forward(self, namespace, target, port, local):
        return Forward([self.kubectl, "--namespace", namespace, "port-forward", target, f"{local}:{port}"], self.environment)


class Forward:
    """A port of a pod, or of a Service's pod, on this machine's loopback, until close()."""

    def __init__(self, command, environment):
        self.command, self.environment = command, environment
        self.begin()

    def begin(self):
        # One that loses its pod ends at the next connection; then another one begins.
        script = 'trap "kill \\$!; exit" TERM; while :; do "$@" >/dev/null 2>&1 & wait $!; sleep 0.5; done'
        self.process = subprocess.Popen(["bash", "-c", script, "forward", *self.command], env=self.environment)

    def renew(self):
        """To the pod that has the name now: kubectl keeps a connection to one that is gone."""
        self.close()
        self.begin()

    def close(self):
        self.process.terminate()
        self.process.wait()
