"""Pods of the manifests as containers of podman, one container each: what a kubelet would do with the fields
that our manifests use. A field that is not known here is an error, so that nothing is silently left out."""

import base64
import json
import math
import os
import pathlib
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "system"))

from manifests import of_kind, quantity, template_of  # noqa: E402

# What means nothing where there is one node and no API: who runs it, where, and who may see it. (`lifecycle` neither: there is
# no proxy that could learn late that a pod goes.)
CLUSTER_FIELDS = {"serviceAccountName", "automountServiceAccountToken", "enableServiceLinks", "priorityClassName",
                  "topologySpreadConstraints", "restartPolicy"}
POD_FIELDS = CLUSTER_FIELDS | {"containers", "volumes", "securityContext", "terminationGracePeriodSeconds"}
CONTAINER_FIELDS = {"name", "image", "imagePullPolicy", "command", "args", "env", "envFrom", "ports", "resources",
                    "securityContext", "startupProbe", "livenessProbe", "readinessProbe", "volumeMounts", "lifecycle"}
PIDS = 512  # a kubelet's usual bound of processes in a pod
ENVIRONMENT = {**os.environ, "CONTAINERS_CONF": str(HERE / "containers.conf")}  # of every program that asks for containers


def podman(*arguments, check=True, **options):
    done = subprocess.run(["podman", *map(str, arguments)], env=ENVIRONMENT, text=True, check=False,
                          stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, **options)
    if check and done.returncode != 0:
        raise RuntimeError(f"podman {' '.join(map(str, arguments))}: {done.stdout.strip()} {done.stderr.strip()}")
    return done.stdout.strip()


def log_of(container):
    """What a container has written, on both of its channels."""
    return subprocess.run(["podman", "logs", container], env=ENVIRONMENT, text=True, check=False,
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT).stdout


class Pod:
    def __init__(self, name, document, grace):
        self.name, self.document, self.grace = name, document, grace
        self.began = time.monotonic()
        self.image = template_of(document)["spec"]["containers"][0]["image"]

    def state(self):
        """(running, exit code)"""
        text = podman("inspect", "--format", "{{.State.Running}} {{.State.ExitCode}}", self.name)
        running, code = text.split()
        return running == "true", int(code)

    def address(self):
        networks = json.loads(podman("inspect", "--format", "{{json .NetworkSettings.Networks}}", self.name))
        return next(iter(networks.values()))["IPAddress"]

    def get(self, page):
        """(status, text); (0, why) when nobody answers."""
        try:
            with urllib.request.urlopen(f"http://{self.address()}:9090{page}", timeout=5) as answer:
                return answer.status, answer.read().decode()
        except urllib.error.HTTPError as answer:
            return answer.code, answer.read().decode()
        except OSError as problem:
            return 0, str(problem)

    def stop(self):
        """As a kubelet does: SIGTERM, and SIGKILL after the grace. The exit code."""
        podman("stop", "--time", self.grace, self.name)
        return self.state()[1]

    def stop_later(self):
        """The same, in the background."""
        return subprocess.Popen(["podman", "stop", "--time", str(self.grace), self.name], env=ENVIRONMENT,
                                stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)

    def kill(self):
        podman("kill", "--signal", "KILL", self.name)

    def log(self):
        return log_of(self.name)

    def remove(self):
        podman("rm", "--force", "--time", 0, "--volumes", self.name, check=False)


class Node:
    """Starts pods of a list of manifests on one network. `hosts`: names that lead to the gateway."""

    def __init__(self, run, hosts):
        self.run, self.hosts, self.started = run, hosts, []
        self.network = f"cv-{run}"
        podman("network", "create", self.network)
        self.gateway = podman("network", "inspect", "--format", "{{(index .Subnets 0).Gateway}}", self.network)
        self.count = 0
        self.secrets = []

    def pin_bridge(self):
        """A bridge has the lowest address among its ports', so it changes when a pod goes, and the others lose
        their way to the gateway for half a minute. One that is set stays."""
        bridge = podman("network", "inspect", "--format", "{{.NetworkInterface}}", self.network)
        address = pathlib.Path(f"/sys/class/net/{bridge}/address").read_text().strip()
        subprocess.run(["ip", "link", "set", "dev", bridge, "address", address], check=True)

    def values(self, documents, kind, name):
        (found,) = [d for d in of_kind(documents, kind) if d["metadata"]["name"] == name]
        if kind == "Secret":
            return {key: base64.b64decode(value).decode() for key, value in found["data"].items()}
        return found["data"]

    def variables(self, documents, container):
        values = {}
        for source in container.get("envFrom", []):
            for kind, ref in (("ConfigMap", "configMapRef"), ("Secret", "secretRef")):
                if ref in source:
                    values.update(self.values(documents, kind, source[ref]["name"]))
        for variable in container.get("env", []):
            if "value" in variable:
                values[variable["name"]] = variable["value"]
                continue
            ((kind, ref),) = variable["valueFrom"].items()
            if kind == "secretKeyRef":
                values[variable["name"]] = self.values(documents, "Secret", ref["name"])[ref["key"]]
            elif (kind, ref["resource"]) == ("resourceFieldRef", "limits.cpu"):
                values[variable["name"]] = str(math.ceil(quantity(container["resources"]["limits"]["cpu"])))
            else:
                raise ValueError(f"unknown source of a variable: {kind}")
        return values

    def write_secret(self, documents, source):
        """A folder with the files of a volume made of a Secret."""
        folder = tempfile.TemporaryDirectory(prefix="cv-secret-")
        self.secrets.append(folder)
        os.chmod(folder.name, 0o755)
        values = self.values(documents, "Secret", source["secretName"])
        for item in source["items"]:
            (pathlib.Path(folder.name) / item["path"]).write_text(values[item["key"]])
        return folder.name

    def start(self, documents, document):
        """Runs a pod of a Deployment, Job or CronJob."""
        spec = template_of(document)["spec"]
        (container,) = spec["containers"]
        for known, found in ((POD_FIELDS, set(spec)), (CONTAINER_FIELDS, set(container))):
            if found - known:
                raise ValueError(f"fields that are not known here: {found - known}")
        self.count += 1
        name = f"cv-{self.run}-{document['metadata']['name']}-{self.count}"
        user, limits = spec["securityContext"], container["resources"]["limits"]
        command = ["run", "--detach", "--name", name, "--network", self.network, "--hostname", name[-60:],
                   "--user", f"{user['runAsUser']}:{user['runAsGroup']}",
                   "--memory", int(quantity(limits["memory"])), "--cpus", quantity(limits["cpu"]),
                   "--pids-limit", PIDS, "--security-opt", "no-new-privileges", "--read-only", "--read-only-tmpfs=false",
                   "--log-driver", "k8s-file"]
        command += [f"--cap-drop={capability}" for capability in container["securityContext"]["capabilities"]["drop"]]
        command += [f"--add-host={host}:{self.gateway}" for host in self.hosts]
        volumes = {volume["name"]: volume for volume in spec.get("volumes", [])}
        for mount in container.get("volumeMounts", []):
            volume = volumes[mount["name"]]
            if "secret" in volume:
                command += ["--volume", f"{self.write_secret(documents, volume['secret'])}:{mount['mountPath']}:ro"]
            elif volume["emptyDir"].get("medium") == "Memory":
                size = int(quantity(volume["emptyDir"]["sizeLimit"]))
                command += ["--tmpfs", f"{mount['mountPath']}:size={size},mode=1777"]
            else:
                command += ["--volume", f"{mount['mountPath']}"]  # a volume of its own, of the image's owner
        values = self.variables(documents, container)
        for key, value in values.items():
            command += ["--env", f"{key}={value}"]
        words = [*container["command"], *container.get("args", [])]
        for key, value in values.items():
            words = [word.replace(f"$({key})", value) for word in words]
        pod = Pod(name, document, spec.get("terminationGracePeriodSeconds", 30))
        self.started.append(pod)
        podman(*command, container["image"], *words)
        return pod

    def remove(self):
        for pod in self.started:
            pod.remove()
        for folder in self.secrets:
            folder.cleanup()
        podman("network", "rm", "--force", self.network, check=False)


class Scaler:
    """Deployments on a node: as many pods as their replicas, or as KEDA would have by its queries; a pod that
    has ended is started anew."""

    def __init__(self, node, query):
        self.node, self.query, self.documents, self.pods, self.ended = node, query, [], {}, []
        self.leaving = []

    def apply(self, documents):
        self.documents = documents

    def wanted(self):
        scaled = {d["spec"]["scaleTargetRef"]["name"]: d["spec"] for d in of_kind(self.documents, "ScaledObject")}
        least = {d["spec"]["scaleTargetRef"]["name"]: d["spec"]["minReplicas"]
                 for d in of_kind(self.documents, "HorizontalPodAutoscaler")}
        found = {}
        for document in of_kind(self.documents, "Deployment"):
            name = document["metadata"]["name"]
            if name not in scaled:
                found[name] = document["spec"].get("replicas", least.get(name))
                continue
            spec, (trigger,) = scaled[name], scaled[name]["triggers"]
            value = self.query(trigger["metadata"]["query"])
            pods = math.ceil(value / float(trigger["metadata"]["targetQueryValue"]))
            found[name] = min(max(pods, spec["minReplicaCount"]), spec["maxReplicaCount"])
        return found

    def image_of(self, name):
        (document,) = [d for d in of_kind(self.documents, "Deployment") if d["metadata"]["name"] == name]
        return document, template_of(document)["spec"]["containers"][0]["image"]

    def step(self, scale_in=True):
        """One look: replaces what has ended, rolls what is of an older image, adds, and takes away."""
        self.leaving = [(pod, process) for pod, process in self.leaving if process.poll() is None]
        for name, number in self.wanted().items():
            document, image = self.image_of(name)
            pods = self.pods.setdefault(name, [])
            for pod in list(pods):
                running, code = pod.state()
                if not running:
                    self.ended.append((pod, code))
                    pods.remove(pod)
                elif pod.image != image:
                    self.let_go(pods, pod)
            while len(pods) < number:
                pods.append(self.node.start(self.documents, document))
            while scale_in and len(pods) > number:
                self.let_go(pods, pods[-1])

    def let_go(self, pods, pod):
        pods.remove(pod)
        self.leaving.append((pod, pod.stop_later()))
