"""What emulated machines start with: Debian 12's kernel, its modules, and busybox for the first minute."""

import os
import pathlib
import re
import shutil
import subprocess
import tempfile

QEMU = "qemu-system-x86_64"
APT_OF = pathlib.Path(__file__).resolve().parents[2] / "scripts/apt_of"


class Unavailable(Exception):
    """What this machine lacks for an emulated one."""


def unpack(folder):
    """Kernel and busybox into `folder`, once; the kernel's release."""
    if not shutil.which(QEMU):
        raise Unavailable(f"there is no {QEMU} (Debian: qemu-system-x86)")
    if not list(folder.glob("boot/vmlinuz-*")):
        folder.mkdir(parents=True, exist_ok=True)
        # Its own package lists, because a newer Debian has another kernel.
        with tempfile.TemporaryDirectory() as apt:
            done = subprocess.run([APT_OF, "bookworm", apt], text=True, capture_output=True, check=False)
            environment = {**os.environ, "APT_CONFIG": f"{apt}/apt.conf"}
            depends = subprocess.run(["apt-cache", "depends", "linux-image-amd64"], text=True, capture_output=True,
                                     check=False, env=environment).stdout
            name = re.search(r"Depends: (linux-image-6\.1\S+)", depends)
            if not name:
                raise Unavailable(f"apt knows no kernel 6.1 (linux-image-amd64 of Debian 12): {done.stderr[-300:]}")
            done = subprocess.run(["apt-get", "download", name[1], "busybox-static"], cwd=folder, text=True,
                                  capture_output=True, check=False, env=environment)
        if done.returncode != 0:
            raise Unavailable(f"the kernel's package cannot be had: {done.stderr.strip()[-300:]}")
        for package in folder.glob("*.deb"):
            subprocess.run(["dpkg-deb", "-x", package, folder], check=True)
            package.unlink()
    return next(folder.glob("boot/vmlinuz-*")).name.removeprefix("vmlinuz-")


def module_files(folder, release, names):
    """The modules of these names and those that they need, each behind what it needs."""
    files = {path.stem: path for path in folder.glob(f"lib/modules/{release}/kernel/**/*.ko")}
    ordered = {}

    def add(name):
        content = files[name].read_bytes()
        for needed in re.search(rb"\0depends=([^\0]*)\0", content)[1].decode().split(","):
            if needed and needed not in ordered:
                add(needed)
        ordered[name] = content
    for name in names:
        add(name)
    return ordered


def archive(entries):
    """A cpio archive in the form that the kernel unpacks: of (name, mode, content)."""
    out = bytearray()
    for number, (name, mode, content) in enumerate([*entries, ("TRAILER!!!", 0, b"")]):
        fields = [number, mode, 0, 0, 1, 0, len(content), 0, 0, 0, 0, len(name) + 1, 0]
        out += b"070701" + "".join(f"{field:08x}" for field in fields).encode() + name.encode() + b"\0"
        out += b"\0" * (-len(out) % 4) + content
        out += b"\0" * (-len(out) % 4)
    return bytes(out)


def first_files(folder, release, modules, init):
    """Writes the files that the kernel starts with; what they do is `init`, a script in which {modules} stands for the
    modules' names in their order."""
    files = module_files(folder, release, modules)
    directory, program, plain = 0o040755, 0o100755, 0o100644
    script = init.replace("{modules}", " ".join(files))
    (folder / "initramfs").write_bytes(archive([
        *((name, directory, b"") for name in ("bin", "proc", "new", "modules", "dev")),
        ("bin/busybox", program, (folder / "bin/busybox").read_bytes()), ("init", program, script.encode()),
        *((f"modules/{name}.ko", plain, content) for name, content in files.items())]))


def command(folder, release, memory_mib, kernel_words=""):
    """The emulator's command line, to which come disks and what the machine talks by. Two processors; without hardware's
    help unless CORTANA_KERNEL_ACCELERATOR says kvm, for where that is nested it may be there and not work."""
    return [QEMU, "-M", "q35", "-accel", os.environ.get("CORTANA_KERNEL_ACCELERATOR", "tcg"), "-cpu", "max", "-smp", "2",
            "-m", str(memory_mib), "-nographic", "-nic", "none", "-kernel", folder / f"boot/vmlinuz-{release}",
            "-initrd", folder / "initramfs", "-append", f"console=ttyS0 quiet panic=-1 {kernel_words}"]
