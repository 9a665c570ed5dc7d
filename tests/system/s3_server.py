"""A real S3 server for tests: Ceph's RADOS Gateway from Debian's packages, on one monitor and one
OSD that keeps its objects in memory; an ordinary user, loopback only, everything in one directory."""

import contextlib
import os
import pathlib
import pwd
import random
import shutil
import socket
import subprocess
import tempfile
import time
import urllib.request
import uuid

ACCESS_KEY, SECRET_KEY = "testkey", "testsecret"
START_SECONDS = 300  # for any one of its programs, however busy the machine is
# Debian 13's OSD looks for them in the folder in which it is started.
CLASSES = next(map(str, pathlib.Path("/usr/lib").glob("*/rados-classes")), "")

# What is not the default: every wait that a cluster of many machines needs is taken out, and small
# answers are sent at once. The monitor may not look for its directories where root's would be.
CONFIG = """
[global]
fsid = {fsid}
mon host = [v2:127.0.0.1:{mon_port}]
ms bind ipv6 = false
ms bind ipv4 = true
public network = 127.0.0.0/8
cluster network = 127.0.0.0/8
auth cluster required = cephx
auth service required = cephx
auth client required = cephx
osd pool default size = 1
osd pool default min size = 1
osd pool default pg num = 4
osd pool default pgp num = 4
osd pool default pg autoscale mode = off
osd crush chooseleaf type = 0
mon allow pool size one = true
mon max pg per osd = 1000
log file = {root}/$name.log
mon cluster log file = {root}/cluster.log
run dir = {root}
admin socket =
pid file = {root}/$name.pid
keyring = {root}/keyring
[mon]
mon data = {root}/mon
mon initial members = a
mon data avail warn = 1
mon data avail crit = 1
paxos propose interval = 0.02
paxos min wait = 0.01
[osd]
osd data = {root}/osd
osd objectstore = memstore
memstore device bytes = 4294967296
osd memory target = 939524096
osd op num shards = 2
osd class update on start = false
[client.rgw]
rgw frontends = beast endpoint=127.0.0.1:{port}{more} tcp_nodelay=1
rgw data = {root}/rgw
rgw thread pool size = 16
rgw gc obj min wait = 5
rgw run sync thread = false
rgw dns name = {name}
"""


def free_port():
    """For a program that cannot be told to choose one itself. The kernel gives it to nobody else until the program has it."""
    first_given_out = int(pathlib.Path("/proc/sys/net/ipv4/ip_local_port_range").read_text().split()[0])
    while True:
        port = random.SystemRandom().randrange(10000, max(first_given_out, 20000))
        with contextlib.suppress(OSError), socket.socket() as listener:
            listener.bind(("127.0.0.1", port))
            return port


class S3Server:
    """`endpoint` answers once start() has returned; `also` are further addresses it answers at, `name`
    what it is called besides by number."""

    def __init__(self, also=(), name="localhost"):
        self.also, self.name = also, name
        # Paths of sockets are short, so this does not lie in pytest's tmp_path.
        self.root = pathlib.Path(tempfile.mkdtemp(prefix="cv-s3-", dir="/tmp"))
        self.prefix = []
        if os.geteuid() == 0:
            owner = pwd.getpwnam("nobody")
            os.chown(self.root, owner.pw_uid, owner.pw_gid)
            self.prefix = ["setpriv", "--reuid=nobody", "--regid=nogroup", "--clear-groups"]
        self.processes = []
        self.port = None

    @property
    def endpoint(self):
        return f"http://127.0.0.1:{self.port}"

    def _run(self, *command):
        done = subprocess.run([*self.prefix, *map(str, command)], text=True, cwd=self.root,
                              stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                              stderr=subprocess.STDOUT, check=False, timeout=START_SECONDS)
        if done.returncode != 0:
            raise RuntimeError(f"{command[0]}: {done.stdout[-2000:]}")
        return done.stdout.strip().splitlines()[-1:]

    def _start(self, *command):
        with open(self.root / f"{command[0]}.out", "wb") as log:
            self.processes.append(subprocess.Popen([*self.prefix, *map(str, command)], cwd=self.root,
                                                   stdin=subprocess.DEVNULL, stdout=log, stderr=log))

    def start(self):
        for program in ("ceph-mon", "ceph-osd", "radosgw", "radosgw-admin", "ceph"):
            if not shutil.which(program):
                raise RuntimeError(f"{program} is not installed: scripts/install test")
        self.port, mon_port = free_port(), free_port()
        fsid, config = str(uuid.uuid4()), self.root / "ceph.conf"
        config.write_text(CONFIG.format(fsid=fsid, root=self.root, port=self.port, mon_port=mon_port,
                                        name=self.name,
                                        more="".join(f" endpoint={address}" for address in self.also)))
        config.chmod(0o644)
        keys = self.root / "keyring"
        self._run("mkdir", "mon", "osd", "rgw")
        self._run("ceph-authtool", "--create-keyring", keys, "--gen-key", "-n", "mon.",
                  "--cap", "mon", "allow *")
        for name, caps in (("client.admin", ("mon", "allow *", "osd", "allow *")),
                           ("client.rgw", ("mon", "allow rw", "osd", "allow rwx")),
                           ("osd.0", ("mon", "allow profile osd", "osd", "allow *"))):
            pairs = [word for i in range(0, len(caps), 2) for word in ("--cap", *caps[i:i + 2])]
            self._run("ceph-authtool", keys, "--gen-key", "-n", name, *pairs)
        self._run("monmaptool", "--create", "--fsid", fsid, "--addv", "a",
                  f"[v2:127.0.0.1:{mon_port}]", "monmap")
        self._run("ceph-mon", "-c", config, "-i", "a", "--mkfs", "--monmap", "monmap",
                  "--keyring", keys)
        self._start("ceph-mon", "-c", config, "-i", "a", "-f")
        # Waits for the monitor; a user that is there before the gateway spares it a race for pools.
        self._run("ceph", "-c", config, "--connect-timeout", str(START_SECONDS), "quorum_status")
        osd = str(uuid.uuid4())
        number = self._run("ceph", "-c", config, "osd", "new", osd)[0]
        self._run("ceph-osd", "-c", config, "-i", number, "--mkfs", "--osd-uuid", osd)
        self._start("ceph-osd", "-c", config, "-i", number, "-f", "--osd-class-dir", CLASSES)
        self._run("radosgw-admin", "-c", config, "-n", "client.rgw", "user", "create",
                  "--uid=test", "--display-name=test", f"--access-key={ACCESS_KEY}",
                  f"--secret-key={SECRET_KEY}")
        self._start("radosgw", "-c", config, "-n", "client.rgw", "-f")
        self._wait()

    def _wait(self):
        end = time.monotonic() + START_SECONDS
        while True:
            with contextlib.suppress(OSError):
                urllib.request.urlopen(self.endpoint, timeout=1).close()
                return
            if time.monotonic() > end or any(process.poll() for process in self.processes):
                raise RuntimeError(f"the S3 server does not answer; see {self.root}")
            time.sleep(0.02)

    def collect_garbage(self):
        """Lets go of what was deleted or overwritten at once; else it stays for minutes."""
        self._run("radosgw-admin", "-c", self.root / "ceph.conf", "-n", "client.rgw", "gc", "process",
                  "--include-all")

    def _key(self, verb, access_key, *more):
        self._run("radosgw-admin", "-c", self.root / "ceph.conf", "-n", "client.rgw", "key", verb,
                  "--uid=test", "--key-type=s3", f"--access-key={access_key}", *more)

    def take_key_back(self, access_key=ACCESS_KEY):
        """The key is refused from now on."""
        self._key("rm", access_key)

    def give_key(self, access_key=ACCESS_KEY, secret_key=SECRET_KEY):
        self._key("create", access_key, f"--secret-key={secret_key}")

    def environment(self, bucket, endpoint=None):
        """What a client of it needs."""
        return {"STORE_URL": f"s3://{bucket}", "S3_ENDPOINT": endpoint or self.endpoint,
                "S3_REGION": "us-east-1", "S3_ACCESS_KEY_ID": ACCESS_KEY,
                "S3_SECRET_ACCESS_KEY": SECRET_KEY}

    def stop(self):
        for process in reversed(self.processes):  # nothing to save: its objects lie in memory
            process.kill()
            process.wait()
        shutil.rmtree(self.root, ignore_errors=True)
