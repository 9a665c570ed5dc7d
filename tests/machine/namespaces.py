"""A server in namespaces of this kernel: Debian's systemd is the first of its processes, and has mounts, a network, names,
IPC and cgroups of its own, as systemd-nspawn makes them. Its kernel is the host's, and of cgroups' controllers it has those
that the host has in the hierarchy of version 2."""

import base64
import os
import pathlib
import re
import select
import shutil
import signal
import subprocess
import time

import emulated
import root
from server import Failed, Server

NSPAWN = "systemd-nspawn"

# The disk lies in a mount namespace that goes with this shell. A machine that restarts is another run of systemd-nspawn, which
# says so by its status; each has a group that holds nothing else.
HOLD = """set -e
mount -t overlay -o "lowerdir=$1,upperdir=$2/upper,workdir=$2/work" overlay "$2/root"
group=$3
shift 3
status=133
while [ $status = 133 ]; do
    mkdir "$group"
    status=0
    sh -c 'echo $$ >"$0/cgroup.procs" && exec "$@"' "$group" "$@" || status=$?
    find "$group" -depth -type d -exec rmdir {} +
done
exit $status
"""
# What a real machine's services may call, and a container's may not by itself.
CALLS = "landlock_create_ruleset landlock_add_rule landlock_restrict_self @memlock @keyring bpf"
# A real machine's systemd mounts this; in a container it does not.
SECURITY = "mount -t securityfs -o ro none /sys/kernel/security"


def hierarchy():
    """Where the cgroups of version 2 are mounted."""
    for line in pathlib.Path("/proc/self/mounts").read_text().splitlines():
        words = line.split()
        if words[2] == "cgroup2":
            return pathlib.Path(words[1])
    raise emulated.Unavailable("no cgroups of version 2 are mounted")


def children(process):
    return [int(word) for word in pathlib.Path(f"/proc/{process}/task/{process}/children").read_text().split()]


class Namespaces(Server):
    WHERE = f"namespaces of this kernel, Linux {os.uname().release}"
    SETTINGS = ["CORTANA_LEASE_MS=60000"]  # a killed worker's job is another's a minute later
    VIDEO_SECONDS = 60  # so that a stage is still at work when something is done to it

    def __init__(self, folder):
        self.folder = folder
        self.changes = folder / "changes"
        self.holder = int((folder / "holder").read_text())

    @classmethod
    def boot(cls, build, package, files):
        """`files` lie in /test, by their names there."""
        cls.look_for_nspawn()
        folder = build / "machine"
        return cls.start(folder, root.make_tree(folder, package), files)

    @staticmethod
    def look_for_nspawn():
        if os.geteuid() != 0:
            raise emulated.Unavailable("only root makes a machine of namespaces")
        if not shutil.which(NSPAWN):
            raise emulated.Unavailable(f"there is no {NSPAWN} (Debian: systemd-container)")

    @classmethod
    def start(cls, folder, tree, files, options=(), network="--private-network"):
        """A machine whose disk is the tree, changed in `folder` alone; `options` are more of systemd-nspawn's, the last of which may
        be words for the machine's systemd."""
        group = hierarchy() / f"cortana-machine-{folder.stat().st_ino}"
        changes = folder / "changes"
        shutil.rmtree(changes, ignore_errors=True)
        for name in ("upper/test", "work", "root"):
            (changes / name).mkdir(parents=True)
        for name, path in files.items():
            shutil.copy(path, changes / "upper/test" / name)
        with open(folder / "console.log", "wb") as console:
            process = subprocess.Popen(
                ["unshare", "--mount", "sh", "-c", HOLD, "hold", tree, changes, group,
                 NSPAWN, "--quiet", "--boot", f"--directory={changes}/root", "--machine=machine", "--hostname=machine",
                 network, "--register=no", "--keep-unit", "--console=read-only", "--link-journal=no",
                 "--resolv-conf=off", "--timezone=off", f"--system-call-filter={CALLS}", *options],
                env={**os.environ, "SYSTEMD_NSPAWN_UNIFIED_HIERARCHY": "1"},
                stdin=subprocess.DEVNULL, stdout=console, stderr=subprocess.STDOUT, start_new_session=True)
        (folder / "holder").write_text(f"{process.pid}\n")
        server = cls(folder)
        try:
            server.wait_for_shell()
        except Failed as problem:
            server.end()
            raise emulated.Unavailable(f"{problem}: {(folder / 'console.log').read_text(errors='replace').strip()[-500:]}")
        server.ask(SECURITY)
        return server

    def first_process(self):
        """Its number outside, or None where there is none."""
        try:
            for one in children(self.holder):
                for other in children(one):
                    if re.search(r"^NSpid:\t\d+\t1$", pathlib.Path(f"/proc/{other}/status").read_text(), re.MULTILINE):
                        return other
        except OSError:
            pass  # one of them has just ended
        return None

    def is_on(self):
        return self.first_process() is not None

    def wait_for_shell(self, but=None):
        """From its start to where it can be asked; `but` is the first process of the start before."""
        end = time.monotonic() + self.SECONDS_MAX
        while time.monotonic() < end:
            if not pathlib.Path(f"/proc/{self.holder}/ns/pid").exists():
                raise Failed("the machine has ended")
            if self.first_process() not in (None, but):
                try:
                    self.ask("true")
                    return
                except Failed:
                    pass  # systemd is not there yet
            time.sleep(0.1)
        raise Failed("the machine does not start")

    def ask(self, command, check=True, timeout=None, hosts_network=False):
        """In a unit of its own, so that what it starts is the machine's; with the host's network, which has Debian's archive, as a
        child of this process."""
        words = f'bash -c "$(base64 -d <<<{base64.b64encode(command.encode()).decode()})" </dev/null 2>&1'
        unit = ["--net", "systemd-run", "--quiet", "--pipe", "--wait", "--collect", "--property=LogLevelMax=err",
                "--property=KillMode=process", "--setenv=HOME=/root", "--setenv=LANG=C.UTF-8"]
        child = ["env", "--ignore-environment", "HOME=/root", "LANG=C.UTF-8", "PATH=/usr/sbin:/usr/bin:/sbin:/bin"]
        try:
            done = subprocess.run(
                ["nsenter", f"--target={self.first_process()}", "--mount", "--uts", "--ipc", "--pid", "--cgroup",
                 *(child if hosts_network else unit), "bash", "-c", words],
                stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False,
                timeout=timeout or self.SECONDS_MAX)
        except subprocess.TimeoutExpired:
            raise Failed(f"{command}: no answer")
        text = done.stdout.decode(errors="replace")
        if check and done.returncode != 0:
            raise Failed(f"{command}: status {done.returncode}\n{text[-3000:]}")
        return text

    def restart(self):
        before = self.first_process()
        self.ask("systemctl --no-block reboot")
        self.wait_for_shell(but=before)

    def end(self):
        """Cut off, not shut down."""
        try:
            holder = os.pidfd_open(self.holder)
        except ProcessLookupError:
            holder = None
        if holder is not None:
            os.kill(self.first_process() or self.holder, signal.SIGKILL)
            select.select([holder], [], [], self.SECONDS_MAX)
            os.close(holder)
        shutil.rmtree(self.changes, ignore_errors=True)
