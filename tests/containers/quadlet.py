#!/usr/bin/python3
"""One server of containers as install/quadlet has it, as services of systemd: a Debian 13 boots in namespaces of this kernel, and
its podman makes services of the files. They say what compose.yaml says, and systemd finds nothing wrong in them. Then the commands
of docs/operations.md are given there: from nothing to a clip, stopped and started again, and a restart of the machine.

usage: tests/containers/quadlet.py [--image]

Needs root. Prints a line a step, and last "N passed, M failed".
"""

import ctypes
import os
import pathlib
import re
import shlex
import shutil
import subprocess
import sys
import tempfile

import yaml
from compose import HERE, ROOT, STEPS, Server
from images import make_programs, run_steps, say
from pods import podman

sys.path.insert(0, str(HERE.parent / "machine"))

from namespaces import Namespaces  # noqa: E402
from server import Failed  # noqa: E402

FOLDER = pathlib.Path("/var/cache/cortana-containers")
SYSTEM = FOLDER / "trixie-machine"  # a Debian 13 with podman and systemd, made once
PACKAGES = ["podman", "runc", "netavark", "aardvark-dns", "nftables", "iproute2", "systemd-sysv", "dbus"]
GENERATOR = "/usr/libexec/podman/quadlet"
OPERATIONS = (ROOT / "docs/operations.md").read_text()
CLONE_NEWNET = 0x40000000
# Images are this machine's, read where they are; a kernel whose cgroups have no controllers bounds no number of processes.
SETTINGS = {
    "storage.conf": """[storage]
driver = "overlay"
runroot = "/run/containers/storage"
graphroot = "/var/lib/containers/storage"
[storage.options]
additionalimagestores = ["/images"]
""",
    "containers.conf": """[containers]
default_ulimits = ["nofile=20000:20000", "nproc=20000:20000"]
pids_limit = 0
[engine]
runtime = "runc"
"""}
# What stands beside the facts that compose.yaml states.
LEFT_OUT = {"--cgroups=split", "--sdnotify=conmon", "-d"}
OPTIONS = {"-v": "volumes", "--env": "environment", "--publish": "ports", "--tmpfs": "tmpfs", "--cap-drop": "cap_drop",
           "--shm-size": "shm_size", "--network-alias": "alias", "--network": "network", "--name": "name", "--pull": "pull",
           "--stop-timeout": "stop"}


def make_system():
    if not SYSTEM.exists():
        say("building a Debian 13 with podman")
        FOLDER.mkdir(exist_ok=True)
        with tempfile.TemporaryDirectory(dir=FOLDER) as folder:
            subprocess.run(["mmdebstrap", "--quiet", "--variant=minbase", f"--include={','.join(PACKAGES)}", "trixie", f"{folder}/made"],
                           check=True)
            pathlib.Path(folder, "made/etc/machine-id").write_text("")
            os.rename(f"{folder}/made", SYSTEM)


def documented():
    """The commands that docs/operations.md tells an operator to give, by their first two words."""
    lines = re.search(r"^    cp install/quadlet.*?(?=\n\n)", OPERATIONS, re.MULTILINE | re.DOTALL)[0].splitlines()
    return {" ".join(line.split()[:2]): line.strip() for line in lines}


def facts_of(text):
    """What `podman run` is told in a service that podman made, by the names of compose.yaml."""
    line = re.search(r"^ExecStart=(.*)$", text, re.MULTILINE)[1].replace("%%", "%").replace("$$", "$")
    words, found = iter([word for word in shlex.split(line)[2:] if word not in LEFT_OUT]), {}
    for word in words:
        name, equal, value = word.partition("=")
        if not word.startswith("-"):
            found["image"], found["command"] = word, list(words)
        elif word in OPTIONS:
            found.setdefault(OPTIONS[word], []).append(next(words))
        elif word.startswith("--cidfile=") or word in ("--replace", "--rm"):
            continue
        else:
            found.setdefault(name, []).append(value if equal else "true")
    return found


class Services(Server):
    """Its addresses are those of this process, which is in the machine's network once that is up."""

    PLACE = FOLDER

    def __init__(self):
        super().__init__()
        self.name, self.port, self.s3_port = "cortana", 8080, 8000
        self.files = self.folder / "files"
        subprocess.run([ROOT / "scripts/quadlet", self.files], check=True, env={**os.environ, **self.variables()})
        for name in ("containers", "settings"):
            (self.folder / name).mkdir()
        for name, text in SETTINGS.items():
            (self.folder / "settings" / name).write_text(text)
        store = podman("info", "--format", "{{.Store.GraphRoot}}")
        self.machine = Namespaces.start(self.folder, SYSTEM, {}, [
            f"--bind={self.folder}/containers:/var/lib/containers", f"--bind-ro={store}:/images",
            f"--bind-ro={self.folder}/settings:/etc/containers/settings", f"--bind-ro={self.files}:/root/install/quadlet",
            "--capability=all"])
        self.machine.ask("mkdir -p /etc/containers/systemd && ln -sf /etc/containers/settings/* /etc/containers/")
        self.enter_network()

    def enter_network(self):
        with open(f"/proc/{self.machine.first_process()}/ns/net", encoding="utf-8") as network:
            if ctypes.CDLL(None, use_errno=True).setns(network.fileno(), CLONE_NEWNET) != 0:
                raise OSError(ctypes.get_errno(), "the machine's network")

    def container(self, service):
        return f"{self.name}_{service}"

    def inside(self, service, *command):
        try:
            return self.machine.ask(shlex.join(["podman", "exec", self.container(service), *command])).strip()
        except Failed as problem:
            raise RuntimeError(str(problem)) from problem

    def has_ended(self, service):
        return self.machine.ask(f"systemctl is-active {self.container(service)}", check=False).strip() == "active"  # after it has ended

    def start(self):
        for command in ("cp install/quadlet/*", "systemctl daemon-reload", "systemctl start"):
            self.machine.ask(f"cd /root && {documented()[command]}")

    def stop(self):
        self.machine.ask("systemctl stop 'cortana_*'")

    def remove(self):
        self.machine.end()
        shutil.rmtree(self.folder)

    def logs(self):
        print(self.machine.ask("systemctl --no-pager --plain list-units 'cortana*'; journalctl --boot --no-hostname 'CONTAINER_NAME=cortana_migrate'"
                               " + _COMM=systemd | tail -40; for name in $(podman ps --all --format '{{.Names}}'); do echo \"--- $name\";"
                               " podman logs --tail 12 $name; done", check=False))


def same_as_compose(server):
    """Images, commands, environment, volumes, ports and rights of every service; systemd has looked at them."""
    server.machine.ask(f"mkdir /tmp/units && QUADLET_UNIT_DIRS=/root/install/quadlet {GENERATOR} /tmp/units")
    remarks = [line for line in server.machine.ask("systemd-analyze verify --man=no /tmp/units/*.service").splitlines() if server.name in line]
    assert not remarks, remarks
    compose = yaml.safe_load((ROOT / "compose.yaml").read_text())
    variables = server.variables()

    def filled(text):
        for name, value in variables.items():
            text = text.replace("${%s:-%s}" % (name, {"CORTANA_PORT": "8080", "OBJECTS_PORT": "8000", "OBJECTS_GIB": "100"}[name]), value)
        return text

    for name, service in compose["services"].items():
        facts = facts_of(server.machine.ask(f"cat /tmp/units/{server.container(name)}.service"))
        expected = {
            "image": service["image"], "command": service.get("command", []), "alias": [name],
            "environment": sorted(f"{key}={filled(str(value))}" for key, value in service.get("environment", {}).items()),
            "volumes": [f"{server.name}_{volume}" for volume in service.get("volumes", [])],
            "ports": [filled(port) for port in service.get("ports", [])],
            "tmpfs": service.get("tmpfs", []), "cap_drop": [word.lower() for word in service["cap_drop"]],
            "--security-opt": service["security_opt"], "--read-only": ["true"] if service.get("read_only") else [],
            "shm_size": [service["shm_size"]] if "shm_size" in service else [],
            "stop": [service.get("stop_grace_period", "10s").removesuffix("s")]}
        for key, value in expected.items():
            found = facts.get(key, [])
            assert (sorted(found) if key == "environment" else found) == value, (name, key, found, value)
    say(f"  {len(compose['services'])} services as compose.yaml has them; systemd finds nothing wrong in them")


def machine_restarts(server):
    """They start with the machine."""
    server.machine.restart()
    server.enter_network()
    server.wait(lambda: server.get("/videos?limit=1"), "the API")
    assert server.get(f"/videos/{server.video}/segments")["items"] == server.found
    failed = server.machine.ask("systemctl --failed --plain --no-legend")
    assert server.name not in failed, failed


if __name__ == "__main__":
    make_system()
    sys.exit(run_steps(Services, [same_as_compose, *STEPS, machine_restarts], __doc__, make_programs))
