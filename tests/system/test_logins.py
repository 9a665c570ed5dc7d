"""What the logins of an installation may do: the manifests' own roles, made as their database's first script makes
them. A command that works as the owner alone would fail every night in a cluster."""

import os
import re
import subprocess
import uuid

import psycopg2
import pytest
from conftest import ROOT, run_sql

INIT = ROOT / "k8s/overlays/dev/postgres-init.sql"
READERS = ["search coffee", "jobs", "jobs list", "rules", "workers", "runs", "workflows", "schedules", "triggers", "webhooks",
           "commands", "hosts", "nodes", "videos", "gc", "doctor"]
ARGUMENTS = {"reindex": '{"all": true}'}
NO_HIT = 1
RETRY, STOP = 75, 78


def login_options(role):
    """What the manifests' script says of a login, without its name and password."""
    text = re.search(rf"^CREATE ROLE {role} LOGIN(.*);$", INIT.read_text(), re.M)[1]
    return re.sub(r"PASSWORD '[^']*'", "", text)


@pytest.fixture
def fleet(sql, database):
    """The URL of the database for a login with the rights of the manifests' workers."""
    name = f"fleet_{uuid.uuid4().hex}"
    sql.cursor().execute(f"CREATE ROLE {name} LOGIN {login_options('fleet_login')}")
    yield database.replace("postgres@", f"{name}@")
    sql.cursor().execute(f"DROP ROLE {name}")


@pytest.fixture
def call(program, fleet, store_dir):
    def run(*argv):
        return subprocess.run([program(argv[0]), *argv[1:]], text=True, capture_output=True, check=False, timeout=120,
                              stdin=subprocess.DEVNULL,
                              env={**os.environ, "DATABASE_URL": fleet, "STORE_URL": f"dir:{store_dir}"})

    return run


def test_the_fleet_runs_every_command_that_comes_with_the_system(sql, call):
    cursor = sql.cursor()
    cursor.execute("SELECT key FROM job_definitions ORDER BY key")
    keys = [key for key, in cursor.fetchall()]
    assert len(keys) > 5
    for key in keys:
        cursor.execute("SELECT argv FROM plan_command(jsonb_build_object('command', %s::text, 'args', %s::jsonb))",
                       (key, ARGUMENTS.get(key, "{}")))
        argv, = cursor.fetchone()
        done = call(*argv)
        assert done.returncode == 0, (argv, done.stdout, done.stderr)


def test_the_fleet_reads(call):
    for command in READERS:
        done = call("cortana", *command.split())
        assert done.returncode == (NO_HIT if command.startswith("search") else 0), (command, done.stdout, done.stderr)


def test_the_fleet_does_not_migrate(call, fleet):
    done = call("cortana", "migrate")
    assert done.returncode == 1 and "the login that owns the schema" in done.stderr, done.stderr
    with pytest.raises(psycopg2.errors.InsufficientPrivilege):
        psycopg2.connect(fleet).cursor().execute("CREATE TABLE public.t ()")


def test_help_says_which_login_a_command_wants(call):
    for command in READERS + ["clip", "jobs retry", "reindex"]:
        text = " ".join(call("cortana", *[word for word in command.split() if word != "coffee"], "--help").stdout.split())
        assert "Login: a member of cortana_worker or service_role" in text or "COMMAND --help" in text, (command, text)
    for command in ("migrate", "backup"):
        assert "Login: the owner of the schema" in call("cortana", command, "--help").stdout, command
    assert "Login:" not in call("cortana", "token", "--help").stdout


def test_a_migration_waits_for_its_database(program, cluster, tmp_path):
    name = cluster.create_database()
    cluster.stop()
    log = tmp_path / "log"
    with log.open("w") as out:
        migrating = subprocess.Popen([program("cortana"), "migrate"], stdout=out, stderr=out, stdin=subprocess.DEVNULL,
                                     env={**os.environ, "DATABASE_URL": cluster.url(name), "STORE_URL": "dir:/tmp"})
        with pytest.raises(subprocess.TimeoutExpired):
            migrating.wait(timeout=4)  # an unanswered connection is refused at once
        cluster.start()
        assert migrating.wait(timeout=60) == 0, log.read_text()
    assert "0 applied now" in log.read_text()


def test_a_scanner_that_comes_before_the_schema_is_started_again(program, shared_cluster, store_dir):
    name = f"empty_{uuid.uuid4().hex}"
    run_sql(shared_cluster, f"CREATE DATABASE {name}")
    try:
        done = subprocess.run([program("scanner-worker")], text=True, capture_output=True, check=False, timeout=60,
                              stdin=subprocess.DEVNULL,
                              env={**os.environ, "DATABASE_URL": shared_cluster.url(name), "STORE_URL": f"dir:{store_dir}"})
    finally:
        run_sql(shared_cluster, f"DROP DATABASE {name} WITH (FORCE)")
    assert done.returncode == RETRY and "run cortana migrate" in done.stderr, done.stderr


@pytest.mark.parametrize("wrong", [{"S3_SECRET_ACCESS_KEY": "wrong"}, {"S3_ACCESS_KEY_ID": "nobody"}, {"STORE_URL": "s3://nowhere"}])
def test_a_scanner_with_a_wrong_key_is_not_started_again(program, fleet, s3_server, wrong):
    """The status that the podFailurePolicy of its CronJob takes for a failure for good."""
    environment = {**os.environ, "DATABASE_URL": fleet, **s3_server.environment("nowhere"), **wrong}
    done = subprocess.run([program("scanner-worker")], text=True, capture_output=True, check=False, timeout=60,
                          stdin=subprocess.DEVNULL, env=environment)
    assert done.returncode == STOP and "the object store answers" in done.stderr, (done.returncode, done.stderr)
