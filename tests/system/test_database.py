"""common/db on a real server: the C tests, and a server that goes away or falls silent."""

import contextlib
import os
import signal
import subprocess

import psycopg2
import pytest
from tcp_gate import PgBouncer
from workers import STAGE_SCHEMA, Jobs, Workers


def test_c_tests_of_the_database_pass(program, shared_cluster, database, sql):
    with contextlib.closing(PgBouncer(shared_cluster)) as pooler:
        urls = {"DATABASE_URL": database, "POOLER_URL": pooler.url(sql.info.dbname)}
        done = subprocess.run([program("test-database")], env={**os.environ, **urls}, text=True,
                              capture_output=True, timeout=300, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


@contextlib.contextmanager
def client(program, url):
    with subprocess.Popen([program("lose-database")], env={**os.environ, "DATABASE_URL": url},
                          text=True, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        try:
            yield process
            process.stdin.close()
            assert process.wait(timeout=300) == 0
        finally:
            process.kill()


def ask(process):
    process.stdin.write("\n")
    process.stdin.flush()
    return process.stdout.readline()


@pytest.mark.parametrize("immediate", [False, True], ids=["fast stop", "crash"])
def test_a_server_that_goes_away_and_comes_back(program, cluster, immediate):
    with client(program, cluster.url()) as process:
        process.stdout.readline()
        assert ask(process).startswith("ok")
        cluster.stop(immediate)
        assert ask(process).startswith("lost ConnectionLost")
        cluster.start()
        assert process.stdout.readline().startswith("back")
        assert ask(process).startswith("ok")


def test_a_server_that_falls_silent(program, cluster):
    """Frozen processes keep their sockets open: only our own time-out helps."""
    postmaster = int((cluster.data / "postmaster.pid").read_text().split("\n", 1)[0])
    with client(program, cluster.url()) as process:
        backend = int(process.stdout.readline())
        try:
            os.kill(postmaster, signal.SIGSTOP)
            os.kill(backend, signal.SIGSTOP)
            line = ask(process)
        finally:
            os.kill(backend, signal.SIGCONT)
            os.kill(postmaster, signal.SIGCONT)
        assert line.startswith("lost ConnectionLost the database did not answer")
        assert process.stdout.readline().startswith("back")


def test_a_wrong_password_is_an_authentication_failure_that_names_no_password(program, cluster):
    connection = cluster.connect()
    connection.cursor().execute("CREATE ROLE me LOGIN PASSWORD 'right'")
    connection.close()
    # A file that PostgreSQL owns: emptied and written, not replaced.
    (cluster.data / "pg_hba.conf").write_text("local all postgres trust\nlocal all me scram-sha-256\n")
    cluster.restart()
    url = cluster.url().replace("postgres@", "me{}@")
    for password, expected in ((":hunter2", 'password authentication failed for user "me"'),
                               ("", "no password supplied")):
        done = subprocess.run([program("lose-database")], text=True, capture_output=True, check=False,
                              env={**os.environ, "DATABASE_URL": url.format(password)})
        assert done.returncode == 78
        assert done.stderr.startswith("AuthenticationFailed: ") and expected in done.stderr
        assert "hunter2" not in done.stderr
    with psycopg2.connect(url.format(":right")) as right:
        assert right.info.user == "me"


@pytest.mark.parametrize("kept_in", ["passfile", "settings", "credentials"])
def test_a_password_is_changed_under_a_worker(program, cluster, tmp_path, kept_in):
    """Files of secrets are read at each connection: a worker that has lost its own comes back with the new one."""
    passwords, url, settings = tmp_path / "passwords", tmp_path / "DATABASE_URL", tmp_path / "cortana.conf"
    name = cluster.create_database()
    connection = cluster.connect(name)
    jobs = Jobs(connection)
    jobs.rows(STAGE_SCHEMA)
    jobs.rows("CREATE ROLE me LOGIN PASSWORD 'first' IN ROLE service_role")
    jobs.rows("GRANT ALL ON ALL TABLES IN SCHEMA public TO me")

    def write(password):
        passwords.write_text(f"*:*:*:me:{password}\n")
        passwords.chmod(0o600)
        url.with_suffix(".new").write_text(cluster.url(name).replace("postgres@", f"me:{password}@"))
        url.with_suffix(".new").rename(url)

    write("first")
    connection.close()
    (cluster.data / "pg_hba.conf").write_text("local all postgres trust\nlocal all me scram-sha-256\n")
    cluster.restart()
    jobs = Jobs(cluster.connect(name))
    settings.write_text(f"DATABASE_URL_FILE={url}\n" if kept_in == "settings" else "")
    workers = Workers(program, cluster.url(name).replace("postgres@", "me@") + f"&passfile={passwords}", tmp_path)
    own = {"passfile": {}, "settings": {"DATABASE_URL": None, "CORTANA_CONFIG": settings},
           "credentials": {"DATABASE_URL": None, "CORTANA_CONFIG": settings, "CREDENTIALS_DIRECTORY": tmp_path}}
    try:
        worker = workers.start(**own[kept_in])
        jobs.wait_for(jobs.enqueue({"do": "succeed"}), "done")
        write("second")
        jobs.rows("ALTER ROLE me PASSWORD 'second'")
        ended = jobs.rows("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE usename = 'me'")
        assert ended
        jobs.wait_for(jobs.enqueue({"do": "succeed"}), "done")
        assert worker.stop() == 0
    finally:
        workers.end()
        jobs.connection.close()
