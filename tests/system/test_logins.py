"""What the logins of an installation may do: the manifests' own roles, made as their database's first script makes
them. A command that works as the owner alone would fail every night in a cluster."""

import json
import os
import re
import subprocess
import uuid

import psycopg2
import psycopg2.errorcodes
import pytest
from api import Gateway, token
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
def test_a_login_looks_at_everything(sql, call, role):
    cursor = sql.cursor()
    cursor.execute("INSERT INTO runs (workflow, version, priority, sequence) VALUES ('video_pipeline', 1, 5, 1) RETURNING id")
    run, = cursor.fetchone()
    cursor.execute("SELECT job_id FROM run_command('gc')")
    job, = cursor.fetchone()
    for command in [f"jobs show {job}", f"jobs payload {job}", f"runs show {run}", *READERS]:
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


# ---- what a stolen password can do -----------------------------------------------------------------------

# What a login may call before it has taken another role, beside what everybody may.
CALLS = {"gateway_login": {"api.use_key", "api.find_account", "api.find_provider", "api.enter", "api.begin_once", "api.end_once", "api.record", "api.event_tail",
                           "api.event_states", "api.ended_jobs", "cortana.schema_state", "public.touch_session"}}
# What its worker and its commands write, and nothing else.
WRITES = {"gateway_login": {},
          "upkeep_login": {"INSERT": {"jobs", "job_outputs", "ended_attempts", "task_artifacts", "workers", "hosts", "disk_status_log",
                                      "task_events", "locks", "attempts_to_clear"},
                           "UPDATE": {"jobs", "job_outputs", "ended_attempts", "task_artifacts", "workers", "hosts", "disk_status_log",
                                      "locks", "job_type_upkeep", "videos"},
                           "DELETE": {"disk_status_log", "videos"}}}
BECOMES = {"gateway_login": {"anon", "authenticated", "cortana_app", "service_role"}, "upkeep_login": set()}
OURS = "('public'::regnamespace, 'cortana'::regnamespace, 'api'::regnamespace, 'auth'::regnamespace)"
# What gives more than a role has: the schema, the server's files and programs, other roles, and what was recorded.
ESCALATIONS = [
    "CREATE TABLE public.t ()", "CREATE TABLE cortana.t ()", "CREATE TEMPORARY TABLE t ()", "CREATE SCHEMA mine", "CREATE ROLE mine",
    "CREATE FUNCTION api.mine() RETURNS int RETURN 1", "CREATE OR REPLACE FUNCTION auth.uid() RETURNS uuid RETURN NULL::uuid",
    "CREATE EXTENSION dblink", "ALTER TABLE videos DISABLE ROW LEVEL SECURITY", "ALTER TABLE jobs DISABLE TRIGGER ALL",
    "SET session_replication_role = replica", "GRANT postgres TO CURRENT_USER", "SET ROLE postgres", "SET SESSION AUTHORIZATION postgres",
    "ALTER ROLE CURRENT_USER BYPASSRLS", "COPY (SELECT 1) TO PROGRAM 'true'", "COPY jobs TO '/tmp/jobs'", "SELECT pg_read_file('/etc/passwd')",
    "SELECT lo_import('/etc/passwd')", "SELECT pg_ls_dir('/')", "SELECT * FROM pg_authid", "SELECT pg_reload_conf()",
    "DELETE FROM audit_log", "TRUNCATE audit_log", "DELETE FROM task_events", "UPDATE task_events SET message = 'x'",
    "SELECT make_sign_in_code(gen_random_uuid())", "SELECT keep_audit_log()", "SELECT claims FROM sign_in_codes", "SELECT password FROM people", "SELECT hash FROM sessions", "SELECT * FROM schema_migrations FOR UPDATE"]


@pytest.mark.parametrize("role", ["gateway_login", "upkeep_login"])
def test_a_stolen_password_gives_what_its_program_needs(sql, login, role):
    url = login(role)
    name = re.search(r"//(\w+)@", url)[1]
    connection = psycopg2.connect(url)
    connection.autocommit = True
    cursor = connection.cursor()

    def ask(query, *values):
        cursor.execute(query, values)
        return {row[0] for row in cursor.fetchall()}

    assert ask("SELECT rolname FROM pg_roles WHERE pg_has_role(current_user, oid, 'MEMBER') AND rolname <> current_user"
               " AND rolname <> 'cortana_' || %s", role.removesuffix("_login")) == BECOMES[role]
    for privilege in ("INSERT", "UPDATE", "DELETE", "TRUNCATE", "TRIGGER"):
        columns = f" OR has_any_column_privilege(c.oid, '{privilege}')" if privilege in ("INSERT", "UPDATE") else ""
        assert ask(f"SELECT relname FROM pg_class c WHERE relnamespace IN {OURS} AND relkind IN ('r', 'p', 'v', 'm')"
                   f" AND NOT relispartition AND (has_table_privilege(c.oid, '{privilege}'){columns})") == \
            WRITES[role].get(privilege, set()), privilege
    if role in CALLS:
        everybody = "NOT EXISTS (SELECT FROM aclexplode(p.proacl) a WHERE a.grantee = 0)"
        assert ask(f"SELECT pronamespace::regnamespace || '.' || proname FROM pg_proc p WHERE pronamespace IN {OURS}"
                   f" AND proacl IS NOT NULL AND {everybody} AND has_function_privilege(oid, 'EXECUTE')") == CALLS[role]
        assert ask(f"SELECT relname FROM pg_class WHERE relnamespace IN {OURS} AND relkind IN ('r', 'p', 'v', 'm')"
                   " AND has_any_column_privilege(oid, 'SELECT')") == set(), "it reads nothing before it has become its caller"
    allowed = []
    for taken in [name, *sorted(BECOMES[role])]:
        for statement in ESCALATIONS:
            cursor.execute(f"SET ROLE {taken}")
            try:
                cursor.execute(statement)
                allowed.append((taken, statement))
            except psycopg2.Error as error:
                if error.pgcode != psycopg2.errorcodes.INSUFFICIENT_PRIVILEGE:
                    allowed.append((taken, statement, str(error)))
    connection.close()
    # Whoever acts for the service may make a link that signs in as the service.
    assert [one for one in allowed if one != ("service_role", "SELECT make_sign_in_code(gen_random_uuid())")] == []


def test_a_gateway_without_operators_needs_no_rights_of_the_service(program, cluster, tmp_path):
    name = cluster.create_database()
    run_sql(cluster, "REVOKE service_role FROM cortana_gateway", name)
    gateway = Gateway(program, cluster.url(name), tmp_path, "--no-operator", STORE_URL=f"dir:{tmp_path}/store")
    try:
        for path in ("/videos", "/search?q=bridge", "/jobs"):
            assert gateway.ask(path, token()).status == 200, path
        assert gateway.ask("/uploads", token(), "POST", {"name": "a.mp4", "size": 9}).status == 201
        assert gateway.ask("/videos", token(role="service_role")).status == 403
        with psycopg2.connect(cluster.url(name).replace("postgres@", "api_login@")) as thief, \
                pytest.raises(psycopg2.errors.InsufficientPrivilege):
            thief.cursor().execute("SET ROLE service_role")
    finally:
        gateway.end()
