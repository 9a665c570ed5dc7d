"""cv_migrate: once each, under a lock, with checksums."""

import contextlib
import json
import os
import subprocess
import uuid

import psycopg2
import psycopg2.errors
import pytest
from api import Gateway, token
from workers import wait_until


@pytest.fixture
def empty_database(shared_cluster):
    connection = shared_cluster.connect()
    connection.cursor().execute("DROP DATABASE IF EXISTS migration_test WITH (FORCE)")
    connection.cursor().execute("CREATE DATABASE migration_test")
    yield shared_cluster.url("migration_test")
    connection.cursor().execute("DROP DATABASE migration_test WITH (FORCE)")
    connection.close()


def start(program, url, *arguments, **settings):
    return subprocess.Popen([program("migrate-database"), *arguments], text=True,
                            env={**os.environ, "DATABASE_URL": url, **settings},
                            stdout=subprocess.PIPE, stderr=subprocess.PIPE)


def migrate(program, url, *arguments, **settings):
    process = start(program, url, *arguments, **settings)
    out, err = process.communicate(timeout=300)
    return process.returncode, out, err


def execute(url, statement):
    connection = psycopg2.connect(url)
    connection.autocommit = True
    with connection.cursor() as cursor:
        cursor.execute(statement)
        rows = cursor.fetchall() if cursor.description else None
    connection.close()
    return rows


def test_every_migration_is_applied_once(program, empty_database):
    code, out, _ = migrate(program, empty_database, "--status")
    before = json.loads(out)
    assert code == 0 and before["applied"] == 0 and before["pending"] >= 4

    code, out, err = migrate(program, empty_database)
    assert code == 0, err
    assert json.loads(out) == {"applied": before["pending"], "pending": 0}
    first = execute(empty_database, "SELECT * FROM schema_migrations ORDER BY version")
    versions = [row[0] for row in first]
    assert versions == sorted(set(versions)) and len(versions) == before["pending"]

    assert migrate(program, empty_database)[0] == 0
    assert execute(empty_database, "SELECT * FROM schema_migrations ORDER BY version") == first


def test_several_at_once_wait_for_each_other(program, empty_database):
    processes = [start(program, empty_database) for _ in range(20)]
    for process in processes:
        out, err = process.communicate(timeout=300)
        assert process.returncode == 0, err
        assert json.loads(out)["pending"] == 0
    count, distinct = execute(empty_database,
                              "SELECT count(*), count(DISTINCT version) FROM schema_migrations")[0]
    assert count == distinct


# The lock modes that conflict with the one that migrations take.
CONFLICTING_MODES = ["ROW EXCLUSIVE", "SHARE UPDATE EXCLUSIVE", "SHARE", "SHARE ROW EXCLUSIVE", "EXCLUSIVE",
                     "ACCESS EXCLUSIVE"]


@pytest.fixture
def reader(shared_cluster):
    """A login that may read every table."""
    name = f"reader_{uuid.uuid4().hex[:12]}"
    connection = shared_cluster.connect()
    connection.cursor().execute(f"CREATE ROLE {name} LOGIN IN ROLE pg_read_all_data")
    yield name
    connection.cursor().execute(f"DROP ROLE {name}")
    connection.close()


def locks(url, kind):
    """(mode, granted) of the locks on the table of migrations, or of the database's advisory locks."""
    table = "AND relation = 'cortana.schema_migrations'::regclass" if kind == "relation" else ""
    return execute(url, f"SELECT mode, granted FROM pg_locks WHERE locktype = '{kind}' {table} AND database ="
                        " (SELECT oid FROM pg_database WHERE datname = current_database())")


def test_a_role_that_may_only_read_does_not_hold_up_a_migration(program, empty_database, reader):
    # The fourth migration fails, so that the table of migrations exists and migrations are pending.
    execute(empty_database, "CREATE TYPE job_status AS ENUM ('mine')")
    assert migrate(program, empty_database)[0] != 0
    execute(empty_database, "DROP TYPE job_status")

    owner = psycopg2.connect(empty_database)
    reading = psycopg2.connect(empty_database.replace("postgres@", f"{reader}@"))
    with contextlib.closing(owner), contextlib.closing(reading):
        for mode in CONFLICTING_MODES:
            with pytest.raises(psycopg2.errors.InsufficientPrivilege):
                reading.cursor().execute(f"LOCK TABLE cortana.schema_migrations IN {mode} MODE")
            reading.rollback()
        reading.cursor().execute("SELECT count(*) FROM cortana.schema_migrations")
        assert locks(empty_database, "relation") == [("AccessShareLock", True)]

        # A migration waits for the owner, and holds no lock by then that any role can take.
        owner.cursor().execute("LOCK TABLE cortana.schema_migrations IN SHARE ROW EXCLUSIVE MODE")
        process = start(program, empty_database)
        wait_until(lambda: ("ShareRowExclusiveLock", False) in locks(empty_database, "relation"),
                   "the migration to wait for its lock")
        assert locks(empty_database, "advisory") == []
        owner.rollback()
        _, err = process.communicate(timeout=300)
        assert process.returncode == 0, err


def test_a_changed_migration_is_refused(program, empty_database):
    assert migrate(program, empty_database)[0] == 0
    execute(empty_database, "UPDATE schema_migrations SET checksum = 'other' WHERE version = 2")
    code, _, err = migrate(program, empty_database)
    assert code != 0
    assert err.startswith("Conflict: migration 0002_") and "was changed after" in err


def test_a_newer_database_is_refused_but_may_be_looked_at(program, empty_database):
    assert migrate(program, empty_database)[0] == 0
    execute(empty_database, "INSERT INTO schema_migrations VALUES (9999, 'from_the_future', 'x')")
    code, _, err = migrate(program, empty_database)
    assert code != 0
    assert err.startswith("Conflict: the database is newer than this program")
    code, out, _ = migrate(program, empty_database, "--status")
    assert code == 0 and json.loads(out)["pending"] == 0


def test_a_failing_migration_leaves_nothing(program, empty_database):
    # The fourth migration makes this type; it fails, and those before it stay.
    execute(empty_database, "CREATE TYPE job_status AS ENUM ('mine')")
    code, _, err = migrate(program, empty_database)
    assert code != 0 and "migration 0004_" in err and "already exists" in err
    assert execute(empty_database, "SELECT max(version) FROM schema_migrations") == [(3,)]
    assert execute(empty_database, "SELECT to_regclass('job_types')") == [(None,)]
    execute(empty_database, "DROP TYPE job_status")
    assert migrate(program, empty_database)[0] == 0


def test_migrating_again_sets_what_a_copy_of_the_database_has_lost(program, shared_cluster, database):
    """search_path and the right to make temporary objects belong to the database: they are neither in
    its dump nor in a copy of it."""
    name = database.split("@/")[1].split("?")[0]
    execute(database, f"ALTER DATABASE {name} RESET search_path; GRANT TEMPORARY ON DATABASE {name} TO PUBLIC")
    assert execute(database, "SELECT to_regclass('uploads')") == [(None,)]
    assert migrate(program, database)[0] == 0
    assert execute(database, "SELECT to_regclass('uploads')::text") == [("uploads",)]
    assert execute(database, "SELECT has_database_privilege('anon', current_database(), 'TEMPORARY')") \
        == [(False,)]


@pytest.fixture
def plain_owner(shared_cluster):
    """A database whose owner is no superuser."""
    name = f"owned_{uuid.uuid4().hex[:12]}"
    connection = shared_cluster.connect()
    connection.autocommit = True
    cursor = connection.cursor()
    cursor.execute(f"CREATE ROLE {name} LOGIN NOSUPERUSER CREATEROLE")
    cursor.execute(f"CREATE DATABASE {name} OWNER {name}")
    yield shared_cluster.url(name).replace("postgres@", f"{name}@")
    cursor.execute(f"DROP DATABASE {name} WITH (FORCE)")
    cursor.execute(f"DROP ROLE {name}")
    connection.close()


def test_the_owner_need_not_be_a_superuser(program, plain_owner):
    code, _, err = migrate(program, plain_owner)
    assert code == 0, err
    # The owner acts for the service without being granted service_role.
    assert execute(plain_owner, "SELECT is_new FROM enqueue_job('webhook', '{}')") == [(True,)]
    assert execute(plain_owner, "SELECT job_type FROM claim_jobs('w', 'webhook')") \
        == [("webhook",)]
    assert execute(plain_owner, "SELECT count(*) FROM search_segments('anything')") == [(0,)]


def test_the_platform_is_left_out_and_added_later(program, empty_database):
    code, out, err = migrate(program, empty_database, CORTANA_PLATFORM="off")
    assert code == 0 and json.loads(out)["pending"] == 0, err
    assert execute(empty_database, "SELECT max(version) < 1000, to_regclass('job_triggers') FROM schema_migrations") == [(True, None)]

    # A job of a video is done, another fails for good, what happened is in the timeline, and upkeep has run.
    video, = execute(empty_database, "INSERT INTO videos (s3_original_path) VALUES ('videos/original/a/master.mp4') RETURNING id")[0]
    execute(empty_database, f"SELECT start_run('video_pipeline', '{{}}', '{video}')")
    claim = "SELECT id, lease_token FROM claim_jobs('here:1', '{}')"
    job, token = execute(empty_database, claim.format("sample"))[0]
    assert execute(empty_database, f"SELECT complete_job('{job}', {token})") == [(True,)]
    job, token = execute(empty_database, claim.format("transcode"))[0]
    execute(empty_database, f"SELECT fail_job('{job}', {token}, 'InputError', 'no video', false)")
    told = execute(empty_database, "SELECT message FROM task_events WHERE type = 'event' ORDER BY id")
    assert told == [("video.uploaded",), ("job.failed",)]
    assert execute(empty_database, "SELECT fired, dispatched, failed, wait_ms FROM scheduler_tick()") == [(0, 0, 0, None)]
    while execute(empty_database, "SELECT run_upkeep()") != [(None,)]:
        pass
    assert execute(empty_database, "SELECT name, last_error FROM upkeep_tasks WHERE last_at IS NULL OR last_error IS NOT NULL") == []

    code, out, err = migrate(program, empty_database)
    assert code == 0 and json.loads(out)["pending"] == 0, err
    assert execute(empty_database, f"SELECT count(*) FROM jobs WHERE video_id = '{video}'")[0][0] >= 2
    execute(empty_database, "INSERT INTO job_triggers (name, event, action, target) VALUES ('t', 'job.failed', 'command', 'gc')")
    execute(empty_database, "UPDATE upkeep_tasks SET due_at = '-infinity' WHERE name = 'old_firings'")
    execute(empty_database, "SELECT record_dead_jobs(ARRAY[id]) FROM jobs WHERE status = 'failed'")
    assert execute(empty_database, "SELECT dispatched, failed FROM scheduler_tick()") == [(1, 0)]
    assert execute(empty_database, "SELECT run_upkeep()") == [("old_firings",)]
    assert execute(empty_database, "SELECT last_error FROM upkeep_tasks WHERE name = 'old_firings'") == [(None,)]

    # It stays where it is, whatever a later program is told.
    code, out, err = migrate(program, empty_database, "--status", CORTANA_PLATFORM="off")
    assert code == 0 and json.loads(out)["pending"] == 0, err
    assert migrate(program, empty_database, CORTANA_PLATFORM="off")[0] == 0
    assert execute(empty_database, "SELECT count(*) FROM job_triggers WHERE name = 't'") == [(1,)]


def test_the_api_says_what_is_not_there_without_the_platform(program, empty_database, tmp_path):
    assert migrate(program, empty_database, CORTANA_PLATFORM="off")[0] == 0
    gateway = Gateway(program, empty_database, tmp_path)
    try:
        service = token(role="service_role", sub=None)
        for path in ("/videos", "/jobs", "/workers", "/workflows"):
            assert gateway.ask(path, service).status == 200, path
        for path in ("/triggers", "/webhooks", "/definitions", "/nodes"):
            refused = gateway.ask(path, service)
            assert refused.status == 404 and "CORTANA_PLATFORM" in refused.json["detail"], path
        ordered = gateway.ask("/jobs", service, "POST", {"command": "gc"})
        assert ordered.status == 400 and "no command has this name" in ordered.json["detail"]
    finally:
        gateway.end()
