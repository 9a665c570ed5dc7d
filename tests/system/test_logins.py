"""What the logins of an installation may do: the manifests' own roles, made as their database's first script makes
them. A command that works as the owner alone would fail every night in a cluster."""

import json
import os
import re
import subprocess
import uuid

import psycopg2
import pytest
from conftest import ROOT, run_sql
from test_deletion import PLACES, Library, clip
from test_gc import age, orphan
from workers import Workers, wait_until

INIT = ROOT / "k8s/overlays/dev/postgres-init.sql"
READERS = ["jobs", "jobs list", "rules", "workers", "runs", "workflows", "workflows show reindex", "schedules", "schedules show gc",
           "schedules upkeep", "triggers", "webhooks", "commands", "commands show gc", "hosts", "nodes", "videos", "embeddings", "gc",
           "doctor", "jobs archive", "reindex --all", "embeddings prune"]
FLEETS = ["search coffee", "clip", "jobs retry", "export", "webhooks add", "schedules add", "jobs restore"]
BOTH = ["fleet_login", "upkeep_login"]
ARGUMENTS = {"reindex": '{"all": true}'}
NO_HIT = 1
RETRY, STOP = 75, 78


def login_options(role):
    """What the manifests' script says of a login, without its name and password."""
    text = re.search(rf"^CREATE ROLE {role} LOGIN(.*);$", INIT.read_text(), re.M)[1]
    return re.sub(r"PASSWORD '[^']*'", "", text)


@pytest.fixture
def login(sql, database):
    """Makes a login with the rights of one of the manifests': the database's URL for it."""
    made = []

    def make(role):
        made.append(f"{role}_{uuid.uuid4().hex}")
        sql.cursor().execute(f"CREATE ROLE {made[-1]} LOGIN {login_options(role)}")
        return database.replace("postgres@", f"{made[-1]}@")

    yield make
    for name in made:
        sql.cursor().execute(f"DROP ROLE {name}")


@pytest.fixture
def fleet(login):
    return login("fleet_login")


@pytest.fixture
def call(program, login, store_dir):
    """Runs a program with a login of that role."""
    urls = {}

    def run(role, *argv):
        url = urls[role] = urls.get(role) or login(role)
        return subprocess.run([program(argv[0]), *argv[1:]], text=True, capture_output=True, check=False, timeout=300,
                              stdin=subprocess.DEVNULL,
                              env={**os.environ, "DATABASE_URL": url, "STORE_URL": f"dir:{store_dir}"})

    return run


@pytest.mark.parametrize("role", BOTH)
def test_a_login_runs_every_command_that_comes_with_the_system(sql, call, role):
    cursor = sql.cursor()
    cursor.execute("SELECT key FROM job_definitions ORDER BY key")
    keys = [key for key, in cursor.fetchall()]
    assert len(keys) > 5
    for key in keys:
        cursor.execute("SELECT argv FROM plan_command(jsonb_build_object('command', %s::text, 'args', %s::jsonb))",
                       (key, ARGUMENTS.get(key, "{}")))
        argv, = cursor.fetchone()
        done = call(role, *argv)
        assert done.returncode == 0, (argv, done.stdout, done.stderr)


@pytest.mark.parametrize("role", BOTH)
def test_a_login_looks_at_everything(call, role):
    for command in READERS:
        done = call(role, "cortana", *command.split())
        assert done.returncode == 0 and "denied" not in done.stdout, (command, done.stdout, done.stderr)


@pytest.mark.parametrize("role", BOTH)
def test_a_login_reports_a_disk(login, role):
    """Once a minute, from its worker; the oldest report goes as the thousandth comes."""
    connection = psycopg2.connect(login(role))
    try:
        cursor = connection.cursor()
        cursor.execute("SELECT report_disk('node', '/work', 100, 5)")
        assert cursor.fetchone() == ("emergency",)
    finally:
        connection.close()


def test_upkeep_reads_no_text_and_no_secret(call, login):
    done = call("upkeep_login", "cortana", "search", "coffee")
    assert done.returncode == 1 and "permission denied" in done.stderr, done.stderr
    assert call("fleet_login", "cortana", "search", "coffee").returncode == NO_HIT
    url = login("upkeep_login")
    for statement in ("SELECT text FROM segments", "SELECT * FROM search_materialized", "SELECT secret FROM webhook_secrets",
                      "SELECT * FROM api_keys", "SELECT * FROM sign_in_codes", "SELECT * FROM text_embeddings", "DELETE FROM jobs",
                      "UPDATE videos SET title = 'x'", "UPDATE job_definitions SET is_enabled = true", "SET ROLE service_role",
                      "SELECT define_command('{}')", "SELECT add_webhook('a', 'https://example.com')"):
        connection = psycopg2.connect(url)
        with pytest.raises(psycopg2.errors.InsufficientPrivilege):
            connection.cursor().execute(statement)
        connection.close()


def test_upkeep_clears_up(program, database, sql, login, tmp_path):
    """What its commands do where there is something to do, run as jobs by its worker."""
    workers = Workers(program, database, tmp_path)
    workers.store.mkdir()
    library = Library(program, database, sql, workers.store, workers)
    keys = ["gc", "purge-clips", "archive-jobs", "prune-embeddings"]
    try:
        kept = library.add()
        lost, bare = orphan(library), library.add()
        for key in library.of(bare):
            (library.store / key).unlink()
        age(library)
        old, _ = clip(library, kept, 40)
        workers.start("command-worker", DATABASE_URL=login("upkeep_login"))
        for key in keys:
            library.rows("SELECT run_command(%s, %s)", key, json.dumps(
                {"gc": {"remove": True, "rows": True}, "archive-jobs": {"days": 1}}.get(key, {})))
        wait_until(lambda: not library.rows("SELECT 1 FROM jobs WHERE job_type = 'command' AND status IN ('queued', 'processing')"
                                            " OR status = 'failed' AND scheduled_for IS NOT NULL"), "the commands to end")
        ends = dict((row["command"], row["status"]) for row in library.rows(
            "SELECT coalesce(payload ->> 'command', payload #>> '{original_payload,command}') AS command, status::text"
            " FROM jobs WHERE job_type = 'command'"))
        assert ends == dict.fromkeys(keys, "done"), library.rows("SELECT payload -> 'error' FROM jobs WHERE status = 'failed'")
        assert old not in library.keys() and library.of(lost) == [f"videos/original/{lost}/master.mp4"]
        assert len(library.of(kept)) == len(PLACES)
        assert [str(row["id"]) for row in library.rows("SELECT id FROM videos")] == [kept], bare
    finally:
        library.end()
        workers.end()


@pytest.mark.parametrize("role", BOTH)
def test_a_login_does_not_migrate(call, login, role):
    done = call(role, "cortana", "migrate")
    assert done.returncode == 1 and "the login that owns the schema" in done.stderr, done.stderr
    with pytest.raises(psycopg2.errors.InsufficientPrivilege):
        psycopg2.connect(login(role)).cursor().execute("CREATE TABLE public.t ()")


def test_help_says_which_login_a_command_wants(call):
    def help_of(command):
        return " ".join(call("fleet_login", "cortana", *[word for word in command.split() if word != "coffee"], "--help").stdout.split())

    for command in READERS:
        words = [word for word in command.split() if not word.startswith("--")]
        text = help_of(" ".join(words[:1] if words[-1] in ("gc", "ingest") else words))
        assert "Login: a member of cortana_upkeep, cortana_worker or service_role" in text or "COMMAND --help" in text, (command, text)
    for command in FLEETS:
        assert "Login: a member of cortana_worker or service_role" in help_of(command), command
    for command in ("migrate", "backup"):
        assert "Login: the owner of the schema" in help_of(command), command
    assert "Login:" not in help_of("token")


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
        assert migrating.wait(timeout=300) == 0, log.read_text()
    assert "0 applied now" in log.read_text()


def test_a_scanner_that_comes_before_the_schema_is_started_again(program, shared_cluster, store_dir):
    name = f"empty_{uuid.uuid4().hex}"
    run_sql(shared_cluster, f"CREATE DATABASE {name}")
    try:
        done = subprocess.run([program("scanner-worker")], text=True, capture_output=True, check=False, timeout=300,
                              stdin=subprocess.DEVNULL,
                              env={**os.environ, "DATABASE_URL": shared_cluster.url(name), "STORE_URL": f"dir:{store_dir}"})
    finally:
        run_sql(shared_cluster, f"DROP DATABASE {name} WITH (FORCE)")
    assert done.returncode == RETRY and "run cortana migrate" in done.stderr, done.stderr


@pytest.mark.parametrize("wrong", [{"S3_SECRET_ACCESS_KEY": "wrong"}, {"S3_ACCESS_KEY_ID": "nobody"}, {"STORE_URL": "s3://nowhere"}])
def test_a_scanner_with_a_wrong_key_is_not_started_again(program, fleet, s3_server, wrong):
    """The status that the podFailurePolicy of its CronJob takes for a failure for good."""
    environment = {**os.environ, "DATABASE_URL": fleet, **s3_server.environment("nowhere"), **wrong}
    done = subprocess.run([program("scanner-worker")], text=True, capture_output=True, check=False, timeout=300,
                          stdin=subprocess.DEVNULL, env=environment)
    assert done.returncode == STOP and "the object store answers" in done.stderr, (done.returncode, done.stderr)
