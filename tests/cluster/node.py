"""A Kubernetes of one node on this machine, of Debian 12's packages: etcd, containerd, the servers of 1.20, and what
stands in for the rest: dnsmasq for CoreDNS, folders of this machine for volumes. Nothing enforces NetworkPolicies, and
there is no KEDA and no metrics server. Needs root."""

import contextlib
import json
import os
import pathlib
import shutil
import signal
import ssl
import subprocess
import tempfile
import threading
import time
import urllib.request
import uuid

HERE = pathlib.Path(__file__).resolve().parent
NAME, BRIDGE, ADDRESS = "node", "cv-cluster", "10.250.0.1"
PODS, SERVICES, ZONE = "10.250.0.0/24", "10.252.0.0/24", "cluster.local"
PAUSE = "localhost/cortana-pause:1"  # what a pod is before its containers are
DEADLINE = 120  # seconds for any of the servers to answer
# Who may ask the API server: (user, group).
USERS = {"admin": ("admin", "system:masters"), "kubelet": (f"system:node:{NAME}", "system:nodes"),
         "controllers": ("system:kube-controller-manager", ""), "scheduler": ("system:kube-scheduler", ""),
         "proxy": ("system:kube-proxy", "")}
# What kubelet, kube-proxy and this file set.
SYSCTLS = ("net/ipv4/ip_forward", "kernel/panic", "kernel/panic_on_oops", "vm/overcommit_memory", "vm/panic_on_oom",
           "kernel/keys/root_maxkeys", "kernel/keys/root_maxbytes")

CONTAINERD = """
version = 2
root = "{folder}/containerd/root"
state = "{folder}/containerd/state"
[grpc]
address = "{socket}"
[plugins."io.containerd.grpc.v1.cri"]
sandbox_image = "{pause}"
restrict_oom_score_adj = true
disable_apparmor = true
[plugins."io.containerd.grpc.v1.cri".containerd]
snapshotter = "overlayfs"
[plugins."io.containerd.grpc.v1.cri".cni]
bin_dir = "{programs}/cni"
conf_dir = "{folder}/cni"
"""


class Node:
    """Its servers run from start() to end(). `folder` holds all that they keep."""

    def __init__(self, programs):
        self.programs, self.processes = programs, {}
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="cv-cluster-"))
        self.server, self.socket = f"https://{ADDRESS}:6443", self.folder / "containerd.sock"
        self.tokens = {name: uuid.uuid4().hex for name in USERS}
        self.kubeconfig = self.folder / "admin.conf"
        self.sysctls = {name: pathlib.Path("/proc/sys", name).read_text() for name in SYSCTLS}
        self.namespaces = set(pathlib.Path("/run/netns").glob("cni-*"))
        self.names_known = threading.Event()

    def start(self):
        subprocess.run([HERE / "programs", self.programs], check=True)
        self.make_network()
        self.write_keys()
        etcd = f"http://{ADDRESS}"
        self.spawn("etcd", "--data-dir", self.folder / "etcd", "--unsafe-no-fsync", "--initial-cluster", f"default={etcd}:2380",
                   "--listen-client-urls", f"{etcd}:2379", "--advertise-client-urls", f"{etcd}:2379",
                   "--listen-peer-urls", f"{etcd}:2380", "--initial-advertise-peer-urls", f"{etcd}:2380")
        self.spawn("containerd", "--config", self.write("containerd.toml", CONTAINERD.format(
            folder=self.folder, socket=self.socket, pause=PAUSE, programs=self.programs)))
        self.spawn("kube-apiserver", f"--etcd-servers={etcd}:2379", f"--bind-address={ADDRESS}", f"--advertise-address={ADDRESS}",
                   f"--cert-dir={self.folder}/certificates", f"--token-auth-file={self.folder}/tokens",
                   f"--service-cluster-ip-range={SERVICES}", "--authorization-mode=Node,RBAC",
                   "--enable-admission-plugins=NodeRestriction", "--kubelet-preferred-address-types=InternalIP",
                   f"--kubelet-client-certificate={self.folder}/api.crt", f"--kubelet-client-key={self.folder}/api.key",
                   f"--service-account-key-file={self.folder}/api.key", f"--service-account-signing-key-file={self.folder}/api.key",
                   f"--service-account-issuer=https://kubernetes.default.svc.{ZONE}")
        self.wait(lambda: self.get("/readyz") == b"ok", "the API server")
        self.spawn("kube-controller-manager", f"--kubeconfig={self.folder}/controllers.conf", "--leader-elect=false", "--port=0",
                   f"--bind-address={ADDRESS}", "--use-service-account-credentials", f"--service-account-private-key-file={self.folder}/api.key")
        self.spawn("kube-scheduler", f"--kubeconfig={self.folder}/scheduler.conf", "--leader-elect=false", "--port=0",
                   f"--bind-address={ADDRESS}")
        self.wait(lambda: self.ctr("version"), "containerd")

    def join(self):
        """The node takes pods. Its images are there: import_images() comes first."""
        self.spawn("kubelet", "--config", self.write_kubelet_config(), f"--kubeconfig={self.folder}/kubelet.conf",
                   f"--root-dir={self.folder}/kubelet", f"--hostname-override={NAME}", f"--node-ip={ADDRESS}",
                   "--node-labels=topology.kubernetes.io/zone=zone", "--container-runtime=remote",
                   f"--container-runtime-endpoint=unix://{self.socket}")
        self.spawn("kube-proxy", f"--kubeconfig={self.folder}/proxy.conf", "--proxy-mode=iptables", f"--cluster-cidr={PODS}",
                   f"--hostname-override={NAME}", "--conntrack-max-per-core=0", "--conntrack-tcp-timeout-established=0",
                   "--conntrack-tcp-timeout-close-wait=0", f"--healthz-bind-address={ADDRESS}", f"--metrics-bind-address={ADDRESS}")
        hosts = self.write("hosts", "")
        self.spawn("dnsmasq", "--keep-in-foreground", "--conf-file=/dev/null", "--no-resolv", "--no-hosts", f"--addn-hosts={hosts}",
                   f"--listen-address={ADDRESS}", "--bind-interfaces", f"--local=/{ZONE}/", "--user=root", "--pid-file=")
        threading.Thread(target=self.tell_names, daemon=True).start()
        self.wait(lambda: self.names_known.is_set(), "the names of services")
        self.wait(lambda: any(c["type"] == "Ready" and c["status"] == "True" for n in self.objects("nodes")
                              for c in n["status"].get("conditions", [])), "the node")

    def make_network(self):
        """A bridge whose own address stays when ports come and go: the node's address, and the pods' way out."""
        for words in (["link", "add", BRIDGE, "address", "0a:58:0a:fa:00:01", "type", "bridge"],
                      ["addr", "add", f"{ADDRESS}/24", "dev", BRIDGE], ["link", "set", BRIDGE, "up"]):
            subprocess.run(["ip", *words], check=True)
        pathlib.Path("/proc/sys/net/ipv4/ip_forward").write_text("1")
        self.write("cni/cortana.conflist", json.dumps({"cniVersion": "0.4.0", "name": "cortana", "plugins": [{
            "type": "bridge", "bridge": BRIDGE, "isGateway": False, "ipMasq": False, "hairpinMode": True,
            "ipam": {"type": "host-local", "dataDir": f"{self.folder}/addresses", "routes": [{"dst": "0.0.0.0/0"}],
                     "ranges": [[{"subnet": PODS, "rangeStart": "10.250.0.10", "gateway": ADDRESS}]]}}]}))

    def write_keys(self):
        subprocess.run(["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-subj", "/O=system:masters/CN=api", "-days", "30",
                        "-keyout", self.folder / "api.key", "-out", self.folder / "api.crt"], check=True, stderr=subprocess.DEVNULL)
        self.write("tokens", "".join(f'{self.tokens[name]},{user},{name},"{group}"\n' for name, (user, group) in USERS.items()))
        for name in USERS:
            self.write(f"{name}.conf", json.dumps({
                "apiVersion": "v1", "kind": "Config", "current-context": "here",
                "clusters": [{"name": "here", "cluster": {"server": self.server, "insecure-skip-tls-verify": True}}],
                "users": [{"name": name, "user": {"token": self.tokens[name]}}],
                "contexts": [{"name": "here", "context": {"cluster": "here", "user": name}}]}))

    def write_kubelet_config(self):
        return self.write("kubelet.json", json.dumps({
            "apiVersion": "kubelet.config.k8s.io/v1beta1", "kind": "KubeletConfiguration", "address": ADDRESS, "readOnlyPort": 0,
            "authentication": {"anonymous": {"enabled": False}, "webhook": {"enabled": False},
                               "x509": {"clientCAFile": f"{self.folder}/api.crt"}},
            "authorization": {"mode": "AlwaysAllow"}, "healthzBindAddress": ADDRESS, "cgroupDriver": "cgroupfs",
            "clusterDomain": ZONE, "clusterDNS": [ADDRESS], "resolvConf": str(self.write("resolv.conf", "")), "failSwapOn": False,
            "oomScoreAdj": 0, "imageGCHighThresholdPercent": 100,
            "evictionHard": {"memory.available": "200Mi", "nodefs.available": "2%", "imagefs.available": "2%"}}))

    def write(self, name, text):
        path = self.folder / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(text)
        return path

    def spawn(self, name, *arguments):
        program = self.programs / name
        # containerd finds its shim and kubelet its tools by the path.
        environment = {**os.environ, "PATH": f"{self.programs}:{os.environ['PATH']}:/usr/sbin:/sbin"}
        with open(self.folder / f"{name}.log", "wb") as log:
            self.processes[name] = subprocess.Popen([program if program.exists() else name, *map(str, arguments)], env=environment,
                                                    stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True)

    def wait(self, condition, what):
        end = time.monotonic() + DEADLINE
        while time.monotonic() < end:
            ended = [name for name, process in self.processes.items() if process.poll() is not None]
            if ended:
                raise AssertionError(f"{ended[0]} has ended: {(self.folder / f'{ended[0]}.log').read_text()[-1000:]}")
            with contextlib.suppress(OSError, subprocess.CalledProcessError):
                if condition():
                    return
            time.sleep(0.2)
        raise AssertionError(f"waited {DEADLINE} s for {what}")

    def get(self, path):
        context = ssl.create_default_context()
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
        request = urllib.request.Request(self.server + path, headers={"Authorization": f"Bearer {self.tokens['admin']}"})
        with urllib.request.urlopen(request, timeout=20, context=context) as answer:
            return answer.read()

    def objects(self, kind):
        return json.loads(self.get(f"/api/v1/{kind}"))["items"]

    def tell_names(self):
        """Services by their own addresses; those without one, and the pods of a StatefulSet, by the pods'."""
        hosts, told = self.folder / "hosts", None
        while self.folder.exists():
            with contextlib.suppress(OSError):
                lines = [f"{s['spec']['clusterIP']} {name_of(s)}" for s in self.objects("services") if s["spec"]["clusterIP"] != "None"]
                for endpoints in self.objects("endpoints"):
                    for address in [a for subset in endpoints.get("subsets", []) for a in subset.get("addresses", [])]:
                        if "hostname" in address:
                            lines.append(f"{address['ip']} {address['hostname']}.{name_of(endpoints)}")
                        if not any(line.endswith(f" {name_of(endpoints)}") and line.split(".")[1] == "252" for line in lines):
                            lines.append(f"{address['ip']} {name_of(endpoints)}")
                if lines != told:
                    hosts.write_text("".join(f"{line}\n" for line in lines))
                    self.processes["dnsmasq"].send_signal(signal.SIGHUP)
                    told = lines
                self.names_known.set()
            time.sleep(1)

    def ctr(self, *words):
        done = subprocess.run([self.programs / "ctr", "--address", self.socket, "--namespace", "k8s.io", *words], check=True, text=True,
                              capture_output=True)
        return done.stdout

    def import_images(self, archive):
        self.ctr("images", "import", str(archive))

    def find_first_process(self, pod):
        """Process 1 of a pod's container, as this machine numbers it: none in there could kill it."""
        (container,) = [words[0] for words in map(str.split, self.ctr("containers", "ls").splitlines()[1:])
                        if self.label(words[0], "io.kubernetes.pod.name") == pod
                        and self.label(words[0], "io.cri-containerd.kind") == "container"]
        (pid,) = [words[1] for words in map(str.split, self.ctr("tasks", "ls").splitlines()[1:]) if words[0] == container]
        return int(pid)

    def label(self, container, name):
        return json.loads(self.ctr("containers", "info", container))["Labels"].get(name)

    def make_volume(self, size="10Gi"):
        """A PersistentVolume for one claim without a class."""
        path = self.folder / "volume"
        path.mkdir()
        path.chmod(0o777)
        return {"apiVersion": "v1", "kind": "PersistentVolume", "metadata": {"name": f"cortana-{uuid.uuid4().hex[:8]}"}, "spec": {
            "capacity": {"storage": size}, "accessModes": ["ReadWriteOnce"], "persistentVolumeReclaimPolicy": "Retain",
            "hostPath": {"path": str(path)}}}

    def end(self):
        """Ends everything and leaves the machine as it was."""
        self.stop("kubelet", "kube-proxy", "kube-scheduler", "kube-controller-manager", "dnsmasq", "kube-apiserver")
        if (self.programs / "kube-proxy").exists():
            subprocess.run([self.programs / "kube-proxy", "--cleanup"], check=False, capture_output=True)
        remove_rules()
        self.kill_pods()
        self.stop("containerd", "etcd")
        mounts = [line.split()[1] for line in pathlib.Path("/proc/mounts").read_text().splitlines()]
        for mount in reversed([mount for mount in mounts if mount.startswith(f"{self.folder}/")]):
            subprocess.run(["umount", "--lazy", mount], check=False)
        subprocess.run(["ip", "link", "del", BRIDGE], check=False, capture_output=True)
        for name, value in self.sysctls.items():
            pathlib.Path("/proc/sys", name).write_text(value)
        for place in ("/var/log/pods", "/var/log/containers"):
            for path in pathlib.Path(place).glob("*cortana-*"):
                shutil.rmtree(path) if path.is_dir() and not path.is_symlink() else path.unlink()
        shutil.rmtree(self.folder, ignore_errors=True)

    def kill_pods(self):
        for path in pathlib.Path("/proc").glob("[0-9]*"):
            with contextlib.suppress(OSError):
                if "/kubepods/" in (path / "cgroup").read_text():
                    os.kill(int(path.name), signal.SIGKILL)
        if "containerd" not in self.processes:
            return
        for container in self.ctr("containers", "ls", "-q").split():
            with contextlib.suppress(subprocess.CalledProcessError):
                self.ctr("tasks", "delete", "--force", container)
        for path in pathlib.Path("/proc").glob("[0-9]*"):
            with contextlib.suppress(OSError):
                words = (path / "cmdline").read_bytes().split(b"\0")
                if words[0].endswith(b"containerd-shim-runc-v2") and str(self.socket).encode() in words:
                    os.kill(int(path.name), signal.SIGKILL)
        for path in set(pathlib.Path("/run/netns").glob("cni-*")) - self.namespaces:
            subprocess.run(["ip", "netns", "del", path.name], check=False, capture_output=True)
        for place in pathlib.Path("/sys/fs/cgroup").glob("**/kubepods"):
            for folder, _, _ in os.walk(place, topdown=False):
                with contextlib.suppress(OSError):
                    os.rmdir(folder)

    def stop(self, *names):
        processes = [self.processes[name] for name in names if name in self.processes]
        for process in processes:
            process.terminate()
        for process in processes:
            try:
                process.wait(10)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()


def name_of(document):
    return f"{document['metadata']['name']}.{document['metadata']['namespace']}.svc.{ZONE}"


def remove_rules():
    """What kubelet and kube-proxy have put into the packet filter, and nothing else."""
    for program in ("iptables", "ip6tables"):
        rules = subprocess.run([f"{program}-save"], check=False, text=True, capture_output=True).stdout
        if "KUBE" in rules:
            kept = "".join(f"{line}\n" for line in rules.splitlines() if "KUBE" not in line)
            subprocess.run([f"{program}-restore"], check=False, text=True, input=kept)
