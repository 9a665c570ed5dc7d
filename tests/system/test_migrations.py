"""cv_migrate: once each, under a lock, with checksums."""

import json
import os
import subprocess

import psycopg2
import pytest


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
    out, err = process.communicate(timeout=120)
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
        out, err = process.communicate(timeout=120)
        assert process.returncode == 0, err
        assert json.loads(out)["pending"] == 0
    count, distinct = execute(empty_database,
                              "SELECT count(*), count(DISTINCT version) FROM schema_migrations")[0]
    assert count == distinct


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
    # The third migration makes this type; it fails, and those before it stay.
    execute(empty_database, "CREATE TYPE job_status AS ENUM ('mine')")
    code, _, err = migrate(program, empty_database)
    assert code != 0 and "migration 0003_" in err and "already exists" in err
    assert execute(empty_database, "SELECT max(version) FROM schema_migrations") == [(2,)]
    assert execute(empty_database, "SELECT to_regclass('job_types')") == [(None,)]
    execute(empty_database, "DROP TYPE job_status")
    assert migrate(program, empty_database)[0] == 0
