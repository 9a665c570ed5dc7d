"""A local installation of `cortana run`: its processes, and whether anything of it is left."""

import os
import pathlib
import subprocess
import tempfile


def make_folder(owner=None):
    # Where the database's user can get to, which pytest's own directories are not.
    path = pathlib.Path(tempfile.mkdtemp(prefix="cv-run-", dir="/tmp"))
    path.chmod(0o755)
    if owner:
        os.chown(path, owner.pw_uid, owner.pw_gid)
    return path


def environment_without_services():
    return {key: value for key, value in os.environ.items()
            if not key.startswith("PG") and key not in ("DATABASE_URL", "STORE_URL")}


def start(program, data, *arguments, prefix=(), **options):
    return subprocess.Popen([*prefix, program("cortana"), *arguments, "--data", data], text=True,
                            env=environment_without_services(), stdin=subprocess.DEVNULL,
                            stdout=subprocess.PIPE, stderr=subprocess.PIPE, start_new_session=True,
                            **options)


def finish(process, timeout=400):
    output, errors = process.communicate(timeout=timeout)
    return process.returncode, output, errors


def processes_of(data):
    """What still runs of an installation: workers by their environment, the server by its files."""
    found = []
    for entry in pathlib.Path("/proc").glob("[0-9]*"):
        try:
            if str(data).encode() in entry.joinpath("cmdline").read_bytes() \
                    or f"dir:{data}".encode() in entry.joinpath("environ").read_bytes():
                found.append(entry.name)
        except OSError:
            pass
    return found
