"""The disk of a machine under test: Debian of this machine's release, as an operator has it before this project's package comes, made once."""

import hashlib
import os
import pathlib
import platform
import re
import shutil
import subprocess

import emulated

HERE = pathlib.Path(__file__).resolve().parent
# What a server has, and what the tests ask it by. The package's own dependencies come to these.
PACKAGES = ["systemd-sysv", "dbus", "udev", "postgresql", "curl", "procps"]
DISK_BYTES = 4 << 30  # sparse: 0.8 GiB are in use

SHELL_UNIT = """[Unit]
Description=what the tests ask an emulated machine by
After=basic.target
ConditionPathExists=/dev/ttyS1

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


def make_tree(folder, package):
    """The disk's files, as a folder; made where there is none of these packages."""
    if os.geteuid() != 0:
        raise emulated.Unavailable("only root makes a system's disk")
    wanted = [*PACKAGES, *dependencies(package)]
    release = platform.freedesktop_os_release()["VERSION_CODENAME"]  # the package depends on its libraries
    shell = (HERE / "test-shell").read_bytes()
    key = hashlib.sha256("\n".join([release, *wanted, SHELL_UNIT]).encode() + shell).hexdigest()[:16]
    tree = folder / f"tree-{key}"
    if tree.exists():
        return tree
    folder.mkdir(parents=True, exist_ok=True)
    for old in folder.glob("tree-*"):
        shutil.rmtree(old)
    new = folder / "tree.new"
    shutil.rmtree(new, ignore_errors=True)
    done = subprocess.run(["mmdebstrap", "--variant=minbase", f"--include={','.join(wanted)}", release, new], check=False,
                          text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    if done.returncode != 0:
        raise emulated.Unavailable(f"mmdebstrap makes no {release}: {done.stdout.strip()[-500:]}")
    (new / "usr/local/sbin/test-shell").write_bytes(shell)
    (new / "usr/local/sbin/test-shell").chmod(0o755)
    (new / "etc/systemd/system/test-shell.service").write_text(SHELL_UNIT)
    (new / "etc/hostname").write_text("machine\n")
    (new / "etc/hosts").write_text("127.0.0.1 localhost machine\n::1 localhost\n")
    (new / "etc/machine-id").write_text("")
    subprocess.run(["systemctl", f"--root={new}", "enable", "--quiet", "test-shell.service"], check=True)
    new.rename(tree)
    return tree


def make_disk(folder, package):
    """The same as the file of a disk."""
    tree = make_tree(folder, package)
    disk = folder / tree.name.replace("tree", "disk")
    if disk.exists():
        return disk
    for old in folder.glob("disk-*"):
        old.unlink()
    new = folder / "disk.new"
    with open(new, "wb") as file:
        file.truncate(DISK_BYTES)
    subprocess.run(["mkfs.ext4", "-q", "-F", "-d", tree, new], check=True)
    new.rename(disk)
    return disk
