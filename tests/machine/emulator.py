"""A server on an emulated machine with a disk of its own, asked by a serial line."""

import base64
import os
import signal
import socket
import subprocess
import tarfile
import time

import emulated
import root
from server import Failed, Server

MEMORY_MIB = 3072
MODULES = ["virtio_pci", "virtio_blk", "crc32c_generic", "ext4"]

INIT = """#!/bin/busybox sh
/bin/busybox mount -t proc none /proc
/bin/busybox mount -t devtmpfs none /dev
for module in {modules}; do /bin/busybox insmod /modules/$module.ko || /bin/busybox poweroff -f; done
/bin/busybox mount -t ext4 /dev/vda /new || /bin/busybox poweroff -f
/bin/busybox umount /proc
/bin/busybox umount /dev
exec /bin/busybox switch_root /new /sbin/init
"""


class Emulator(Server):
    WHERE = "an emulated machine"
    SETTINGS = []
    VIDEO_SECONDS = 3
    # Without hardware's help a command takes ten to thirty times as long, and the host has other work as well.
    SECONDS_MAX = 1800
    PAUSE = 1

    def __init__(self, folder):
        self.folder = folder
        self.socket = socket.socket(socket.AF_UNIX)
        self.socket.connect(str(folder / "shell"))
        self.line = self.socket.makefile("rwb")

    @classmethod
    def boot(cls, build, package, files):
        """`files` lie in /test, by their names there."""
        kernel, folder = build / "kernel", build / "machine"
        release = emulated.unpack(kernel)
        disk = root.make_disk(folder, package)
        with tarfile.open(folder / "files.tar", "w") as archive:
            for name, path in files.items():
                archive.add(path, name)
        emulated.first_files(kernel, release, MODULES, INIT)
        # The disk's flushes cost the host most of its time, and the disk is thrown away.
        shell = folder / "shell"
        shell.unlink(missing_ok=True)
        process = subprocess.Popen(
            [*emulated.command(kernel, release, MEMORY_MIB),
             "-drive", f"file={disk},format=raw,if=virtio,snapshot=on,cache=unsafe",
             "-drive", f"file={folder / 'files.tar'},format=raw,if=virtio,readonly=on",
             "-display", "none", "-monitor", "none", "-serial", f"file:{folder / 'console.log'}",
             "-chardev", f"socket,id=shell,path={shell},server=on",
             "-serial", "chardev:shell", "-pidfile", folder / "pid"],
            stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, start_new_session=True)
        while not shell.exists():
            if process.poll() is not None:
                raise Failed("the emulator has ended")
            time.sleep(0.1)
        server = cls(folder)
        server.wait_for_shell()
        server.ask("mkdir -p /test && tar -xf /dev/vdb -C /test")
        return server

    def is_on(self):
        try:
            os.kill(int((self.folder / "pid").read_text()), 0)
            return True
        except (OSError, ValueError):
            return False

    def wait_for_shell(self):
        """From power on, or a restart, to where it can be asked."""
        self.socket.settimeout(self.SECONDS_MAX)
        for line in self.line:
            if line.strip() == b"ready":
                return
        raise Failed("the machine has ended; see console.log")

    def ask(self, command, check=True, timeout=None):
        self.socket.settimeout(timeout or self.SECONDS_MAX)
        self.line.write(base64.b64encode(command.encode()) + b"\n")
        self.line.flush()
        status, _, output = self.line.readline().decode().strip().partition(" ")
        text = base64.b64decode(output).decode(errors="replace")
        if check and status != "0":
            raise Failed(f"{command}: status {status or 'none, the machine has ended'}\n{text[-3000:]}")
        return text

    def restart(self):
        self.ask("systemctl --no-block reboot")
        self.wait_for_shell()

    def end(self):
        if self.is_on():
            os.kill(int((self.folder / "pid").read_text()), signal.SIGKILL)
