"""A second PostgreSQL that follows a cluster and takes its place: synchronous, so that what was
confirmed is on both."""

from conftest import Cluster, run_sql

SETTINGS = """unix_socket_directories = '{directory}'
primary_conninfo = 'host={primary} user=postgres application_name=standby'
"""


class Standby(Cluster):
    """Follows `primary` from the moment it is made; promote() makes it a primary of its own."""

    def __init__(self, primary):
        self.make_directory()
        self._run("pg_basebackup", "-h", primary.directory, "-U", "postgres", "-D", self.data, "-R",
                  "-X", "stream", "--checkpoint=fast")
        self.write("postgresql.auto.conf", SETTINGS.format(directory=self.directory,
                                                           primary=primary.directory))
        self.start()
        run_sql(primary, "ALTER SYSTEM SET synchronous_standby_names = 'standby'")
        run_sql(primary, "SELECT pg_reload_conf()")

    def promote(self):
        """Waits until the standby takes writes, from nobody who has to be waited for."""
        self.write("postgresql.auto.conf", "synchronous_standby_names = ''\n")
        self._run("pg_ctl", "promote", "-w", "-t", "300", "-D", self.data)
        run_sql(self, "SELECT pg_reload_conf()")
