"""A mistake is undone, and a lost disk comes back, to a point in time: PostgreSQL's base backup and its archived log."""

import json
import os
import pathlib
import shutil
import subprocess
import tempfile

import pytest
from conftest import Cluster, migrate, run_sql
from workers import wait_until

pytestmark = pytest.mark.sanitized(0)

VIDEO = "INSERT INTO videos (original_name, s3_original_path) VALUES ('{0}', 'videos/original/{0}/master.mp4')"


class Archived(Cluster):
    """A server whose log is archived into `safe`."""

    def __init__(self, safe):
        super().__init__(durable=True)
        self.safe = safe
        settings = f"archive_mode = on\narchive_command = 'test ! -f {safe}/log/%f && cp %p {safe}/log/%f'\n"
        self.write("postgresql.conf", settings)
        self.start()

    def back_up(self):
        self._run("pg_basebackup", "-h", self.directory, "-U", "postgres", "-D", self.safe / "base", "--checkpoint=fast")


class Restored(Cluster):
    """A server on another disk: the base backup, and the log up to an instant."""

    def __init__(self, safe, instant):
        self.make_directory()
        subprocess.run([*self.prefix, "cp", "-r", "--preserve=mode", safe / "base", self.data], check=True)
        settings = (f"unix_socket_directories = '{self.directory}'\narchive_mode = off\n"
                    f"restore_command = 'cp {safe}/log/%f %p'\nrecovery_target_time = '{instant}'\n"
                    "recovery_target_action = promote\n")
        self.write("postgresql.auto.conf", settings)
        self.write("recovery.signal", "")
        self.start()


@pytest.fixture
def safe():
    """Where base backups and the log are kept: not on the server's disk."""
    folder = pathlib.Path(tempfile.mkdtemp(prefix="cv-safe-", dir="/tmp"))
    (folder / "log").mkdir()
    if os.geteuid() == 0:
        for path in (folder, folder / "log"):
            shutil.chown(path, "postgres", "postgres")
    yield folder
    shutil.rmtree(folder)


@pytest.fixture
def server(safe):
    cluster = Archived(safe)
    yield cluster
    cluster.remove()


def value(cluster, statement, database="postgres"):
    connection = cluster.connect(database)
    try:
        with connection.cursor() as cursor:
            cursor.execute(statement)
            return cursor.fetchone()[0]
    finally:
        connection.close()


def test_the_instant_before_a_mistake_comes_back(server, safe, program):
    run_sql(server, "CREATE DATABASE cortana")
    migrate(server.url("cortana"))
    run_sql(server, VIDEO.format("before.mp4"), "cortana")
    server.back_up()
    run_sql(server, VIDEO.format("after.mp4"), "cortana")
    instant = value(server, "SELECT clock_timestamp()")
    run_sql(server, "SELECT delete_video(id) FROM videos", "cortana")
    last = value(server, "SELECT pg_walfile_name(pg_switch_wal())")
    wait_until(lambda: (safe / "log" / last).exists(), "the last segment of the log to be archived")
    server.remove()  # and the disk with it

    restored = Restored(safe, instant)
    try:
        wait_until(lambda: not value(restored, "SELECT pg_is_in_recovery()"), "the server to take writes again")
        variables = {**os.environ, "DATABASE_URL": restored.url("cortana"), "STORE_URL": f"dir:{safe}/store"}
        done = subprocess.run([program("cortana"), "videos", "--json"], env=variables, capture_output=True, text=True,
                              check=True)
        names = {json.loads(line)["name"] for line in done.stdout.splitlines()}
        assert names == {"before.mp4", "after.mp4"}
        assert value(restored, "SELECT count(*) FROM object_removals", "cortana") == 0
        run_sql(restored, VIDEO.format("next.mp4"), "cortana")
    finally:
        restored.remove()
