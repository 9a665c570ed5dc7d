"""A PostgreSQL of the benchmark's own, with initdb's defaults (fsync on), gone at the end."""
import os
import pathlib
import shutil
import subprocess
import tempfile

# The newest that is installed.
BIN = max(pathlib.Path("/usr/lib/postgresql").glob("*/bin"), key=lambda folder: int(folder.parent.name))


class PrivateCluster:
    def __init__(self, build):
        self.build = build

    def _as_server(self, *command):
        prefix = ["runuser", "-u", "postgres", "--"] if os.geteuid() == 0 else []
        subprocess.run([*prefix, *map(str, command)], check=True, cwd=self.folder,
                       stdout=subprocess.DEVNULL)

    def __enter__(self):
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="cortana-bench-"))
        if os.geteuid() == 0:
            shutil.chown(self.folder, "postgres")
        self._as_server(BIN / "initdb", "-D", self.folder / "data", "-A", "trust", "-U", "cortana")
        self._as_server(BIN / "pg_ctl", "-w", "-D", self.folder / "data", "-l", self.folder / "log",
                        "-o", f"-k {self.folder} -c listen_addresses=''", "start")
        return self

    def migrated_database(self, name="postgres"):
        """Connection text of a database, made if it is not the first."""
        if name != "postgres":
            self._as_server(BIN / "createdb", "-h", self.folder, "-U", "cortana", name)
        conninfo = f"host={self.folder} user=cortana dbname={name}"
        subprocess.run([str(self.build / "cli" / "cortana"), "migrate"], check=True,
                       env={**os.environ, "DATABASE_URL": conninfo}, stdout=subprocess.DEVNULL)
        return conninfo

    def __exit__(self, *failure):
        self._as_server(BIN / "pg_ctl", "-m", "immediate", "-D", self.folder / "data", "stop")
        shutil.rmtree(self.folder, ignore_errors=True)
