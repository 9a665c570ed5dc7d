#!/usr/bin/python3
"""One server of containers as install/quadlet has it. Debian 13's podman makes services of the files, within a Debian 13 of its
own: they say what compose.yaml says, and systemd finds nothing wrong in them. Then their commands are run by this machine's
podman in the order that they ask for, from nothing to a clip, stopped, and started again. Systemd itself is not there: what
restarts a container here, and waits for one that has to end, is this file.

usage: tests/containers/quadlet.py [--image]

Needs root. Prints a line a step, and last "N passed, M failed".
"""

import contextlib
import os
import pathlib
import shlex
import subprocess
import sys
import tempfile
import threading
import time

import yaml
from compose import HERE, ROOT, STEPS, Server, run_steps
from images import say
from pods import podman

SYSTEM = pathlib.Path("/var/cache/cortana-containers/trixie")  # a Debian 13 with podman and systemd, made once
GENERATOR = "/usr/libexec/podman/quadlet"
# What podman asks of systemd, which is not here; to go on in the background; and what this machine's older podman does not know.
LEFT_OUT = {"--cgroups=split", "--sdnotify=conmon", "-d", "--ignore"}
OPTIONS = {"-v": "volumes", "--env": "environment", "--publish": "ports", "--tmpfs": "tmpfs", "--cap-drop": "cap_drop",
           "--shm-size": "shm_size", "--network-alias": "alias", "--network": "network", "--name": "name", "--pull": "pull",
           "--stop-timeout": "stop"}


def make_system():
    if not (SYSTEM / GENERATOR.lstrip("/")).exists():
        say("building a Debian 13 with podman")
        SYSTEM.parent.mkdir(exist_ok=True)
        with tempfile.TemporaryDirectory(dir=SYSTEM.parent) as folder:
            subprocess.run(["mmdebstrap", "--quiet", "--variant=minbase", "--include=podman,systemd", "trixie", f"{folder}/made"], check=True)
            os.rename(f"{folder}/made", SYSTEM)


class Unit:
    def __init__(self, name, text, runtime):
        self.name, self.text, self.values = name, text, {}
        for line in text.splitlines():
            key, found, value = line.partition("=")
            if found:
                self.values.setdefault(key, []).append(value)
        self.after = {other.removesuffix(".service") for line in self.values.get("After", []) for other in line.split()}
        specifiers = {"%t": str(runtime), "%N": name, "%%": "%", "$$": "$"}
        self.commands = {key: self.words(key, specifiers) for key in ("ExecStart", "ExecStop", "ExecStopPost")}
        self.runs_to_end = self.values.get("Type") == ["oneshot"] and self.commands["ExecStart"][0] == "run"

    def words(self, key, specifiers):
        text = self.values.get(key, [""])[-1]
        for specifier, value in specifiers.items():
            text = text.replace(specifier, value)
        return [word for word in shlex.split(text)[1:] if word not in LEFT_OUT]

    def facts(self):
        """What `podman run` is told, by the names of compose.yaml."""
        words, found = iter(self.commands["ExecStart"][1:]), {}
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


def generate(folder, project, runtime):
    """{name: Unit} of the files in a folder, as Debian 13's podman makes them; systemd has looked at them."""
    with tempfile.TemporaryDirectory(dir=SYSTEM / "tmp") as place:
        inside = "/" + str(pathlib.Path(place).relative_to(SYSTEM))
        subprocess.run(["cp", "-r", folder, f"{place}/files"], check=True)
        subprocess.run(["chroot", SYSTEM, "env", f"QUADLET_UNIT_DIRS={inside}/files", GENERATOR, f"{inside}/units"], check=True,
                       capture_output=True)
        paths = sorted(pathlib.Path(place, "units").glob("*.service"))
        done = subprocess.run(["chroot", SYSTEM, "systemd-analyze", "verify", "--man=no", *[f"{inside}/units/{p.name}" for p in paths]],
                              check=False, text=True, capture_output=True)
        remarks = [line for line in done.stderr.splitlines() if project in line]
        assert done.returncode == 0 and not remarks, done.stderr[-2000:]
        return {path.stem: Unit(path.stem, path.read_text(), runtime) for path in paths}


class Units(Server):
    def __init__(self):
        super().__init__()
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="cv-quadlet-"))
        self.units, self.threads, self.done, self.stopping = {}, [], set(), threading.Event()
        self.environment = {**os.environ, "CONTAINERS_CONF": str(HERE / "containers.conf")}

    def container(self, service):
        return f"{self.name}_{service}"

    def has_ended(self, service):
        return self.container(service) in self.done

    def make_units(self):
        subprocess.run([ROOT / "scripts/quadlet", self.folder / "files", self.name], check=True,
                       env={**os.environ, **self.variables()})
        self.units = generate(self.folder / "files", self.name, self.folder)

    def start(self):
        """Networks and volumes are made unless they are there, which is what --ignore says; then everything else."""
        for unit in self.units.values():
            kind, action, *_, name = unit.commands["ExecStart"]
            if action == "create":
                assert self.podman(kind, "exists", name) == 0 or self.podman(*unit.commands["ExecStart"]) == 0, unit.name
        self.stopping.clear()
        self.done.clear()
        self.threads = [threading.Thread(target=self.keep, args=(unit,), daemon=True) for unit in self.units.values()
                        if unit.commands["ExecStart"][0] == "run"]
        for thread in self.threads:
            thread.start()

    def podman(self, *words):
        """The exit code; what it says goes to the log."""
        with open(self.folder / "log", "a", encoding="utf-8") as log:
            return subprocess.run(["podman", *words], check=False, env=self.environment, stdin=subprocess.DEVNULL, stdout=log,
                                  stderr=log).returncode

    def keep(self, unit):
        """As systemd would: after what has to be there, and again when it should not have ended."""
        def is_there(name):
            return name in self.done or name not in self.units or self.units[name].commands["ExecStart"][0] != "run"
        while not self.stopping.is_set():
            if not all(map(is_there, unit.after)):
                time.sleep(0.1)
                continue
            if not unit.runs_to_end:
                self.done.add(unit.name)
            code = self.podman(*unit.commands["ExecStart"])
            self.podman(*unit.commands["ExecStopPost"])
            (self.folder / f"{unit.name}.cid").unlink(missing_ok=True)  # newer ones remove it
            if unit.runs_to_end and code == 0:
                self.done.add(unit.name)
                return
            self.stopping.wait(1)

    def stop(self):
        self.stopping.set()
        # The last ones first, as systemd does with what comes after another.
        for unit in sorted(self.units.values(), key=lambda u: "database" in u.name or "objects" in u.name):
            if unit.commands["ExecStop"]:
                self.podman(*unit.commands["ExecStop"])
        for thread in self.threads:
            thread.join(60)

    def remove(self):
        self.stop()
        for volume in yaml.safe_load((ROOT / "compose.yaml").read_text())["volumes"]:
            podman("volume", "rm", "--force", f"{self.name}_{volume}", check=False)
        podman("network", "rm", "--force", self.name, check=False)
        subprocess.run(["rm", "-rf", self.folder], check=True)

    def logs(self):
        with contextlib.suppress(OSError):
            print((self.folder / "log").read_text()[-6000:])


def same_as_compose(server):
    """Images, commands, environment, volumes, ports and rights of every service."""
    server.make_units()
    compose = yaml.safe_load((ROOT / "compose.yaml").read_text())
    variables = server.variables()

    def filled(text):
        for name, value in variables.items():
            text = text.replace("${%s:-%s}" % (name, {"CORTANA_PORT": "8080", "OBJECTS_PORT": "8000", "OBJECTS_GIB": "100"}[name]), value)
        return text

    for name, service in compose["services"].items():
        facts = server.units[server.container(name)].facts()
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
    say(f"  {len(compose['services'])} services as compose.yaml has them; systemd finds nothing wrong in {len(server.units)} units")


if __name__ == "__main__":
    make_system()
    sys.exit(run_steps(Units, [same_as_compose, *STEPS], __doc__))
