"""The disk of an emulated machine: Debian 12 as an operator has it before this project's package comes, made once."""

import hashlib
import os
import pathlib
import re
import shutil
import subprocess

import emulated

HERE = pathlib.Path(__file__).resolve().parent
# What a server has, and what the tests ask it by. The package's own dependencies come to these.
PACKAGES = ["systemd-sysv", "dbus", "udev", "postgresql", "curl", "procps"]
DISK_BYTES = 4 << 30  # sparse: 0.8 GiB are in use

SHELL_UNIT = """[Unit]
Description=what the tests ask this machine by
After=basic.target

[Service]
ExecStart=/usr/local/sbin/test-shell
Environment=HOME=/root LANG=C.UTF-8
# What it starts is not its own to end.
KillMode=process

[Install]
WantedBy=multi-user.target
"""


def dependencies(package):
    """The names of the packages that the package needs, the first where there is a choice."""
    text = subprocess.run(["dpkg-deb", "-f", package, "Depends"], check=True, text=True, capture_output=True).stdout
    return sorted({re.match(r"\s*([a-z0-9.+-]+)", one)[1] for one in text.split(",")} - {"systemd"})


def make(folder, package):
    """The disk's file; made where there is none of these packages."""
    if os.geteuid() != 0:
        raise emulated.Unavailable("only root makes a system's disk")
    wanted = [*PACKAGES, *dependencies(package)]
    shell = (HERE / "test-shell").read_bytes()
    key = hashlib.sha256("\n".join([*wanted, SHELL_UNIT]).encode() + shell).hexdigest()[:16]
    disk = folder / f"disk-{key}"
    if disk.exists():
        return disk
    folder.mkdir(parents=True, exist_ok=True)
    for old in folder.glob("disk-*"):
        old.unlink()
    root = folder / "root"
    shutil.rmtree(root, ignore_errors=True)
    done = subprocess.run(["mmdebstrap", "--variant=minbase", f"--include={','.join(wanted)}", "bookworm", root], check=False,
                          text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    if done.returncode != 0:
        raise emulated.Unavailable(f"mmdebstrap makes no Debian 12: {done.stdout.strip()[-500:]}")
    (root / "usr/local/sbin/test-shell").write_bytes(shell)
    (root / "usr/local/sbin/test-shell").chmod(0o755)
    (root / "etc/systemd/system/test-shell.service").write_text(SHELL_UNIT)
    (root / "etc/hostname").write_text("machine\n")
    (root / "etc/hosts").write_text("127.0.0.1 localhost machine\n::1 localhost\n")
    (root / "etc/machine-id").write_text("")
    subprocess.run(["systemctl", f"--root={root}", "enable", "--quiet", "test-shell.service"], check=True)
    new = folder / "disk.new"
    with open(new, "wb") as file:
        file.truncate(DISK_BYTES)
    subprocess.run(["mkfs.ext4", "-q", "-F", "-d", root, new], check=True)
    shutil.rmtree(root)
    new.rename(disk)
    return disk
