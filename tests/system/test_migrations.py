"""cv_migrate: once each, under a lock, with checksums."""

import contextlib
import json
import os
import subprocess
import uuid

import psycopg2
import psycopg2.errors
import pytest
from workers import wait_until


@pytest.fixture
def empty_database(shared_cluster):
    connection = shared_cluster.connect()
    connection.cursor().execute("DROP DATABASE IF EXISTS migration_test WITH (FORCE)")
    connection.cursor().execute("CREATE DATABASE migration_test")
    yield shared_cluster.url("migration_test")
    connection.cursor().execute("DROP DATABASE migration_test WITH (FORCE)")
    connection.close()


def start(program, url, *arguments):
    return subprocess.Popen([program("migrate-database"), *arguments], text=True,
                            env={**os.environ, "DATABASE_URL": url},
                            stdout=subprocess.PIPE, stderr=subprocess.PIPE)


def migrate(program, url, *arguments):
    process = start(program, url, *arguments)
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


def test_a_schema_from_before_the_first_release_is_refused(program, empty_database):
    execute(empty_database, "CREATE TABLE schema_migrations (version int); CREATE TABLE job_types (name text)")
    for arguments in ([], ["--status"]):
        code, _, err = migrate(program, empty_database, *arguments)
        assert code != 0
        assert err.startswith("Conflict: the database holds a schema from before the first release")
        assert "create a new database" in err
    assert execute(empty_database, "SELECT to_regnamespace('cortana')") == [(None,)]


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
