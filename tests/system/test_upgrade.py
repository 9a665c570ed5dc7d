"""Upgrades: what an installation of each release holds is there after the migrations that came since, and goes on working."""

import hashlib
import json
import os
import subprocess
import uuid

import psycopg2
import pytest
from conftest import ROOT, run_sql

pytestmark = pytest.mark.sanitized(0)

MIGRATIONS = sorted((ROOT / "sql/migrations").glob("*.sql")) + sorted((ROOT / "sql/platform").glob("*.sql"))
RELEASED = [line.split() for line in (ROOT / "sql/released").read_text().splitlines() if not line.startswith("#")]
# Until a release has migrations of its own, the newest one is taken for what came after it.
RELEASES = sorted(path.stem for path in (ROOT / "fixtures/releases").glob("*.sql"))


def migrations_of(release):
    """The files of the schema that a release had."""
    if not RELEASED:
        return MIGRATIONS[:-1]
    held = {file for version, file, _ in RELEASED if numbers(version) <= numbers(release)}
    return [path for path in MIGRATIONS if path.name in held]


def numbers(version):
    return [int(number) for number in version.split(".")]


def make_schema(url, files):
    """What `cortana migrate` of that release did."""
    connection = psycopg2.connect(url)
    cursor = connection.cursor()
    cursor.execute((ROOT / "sql/roles.sql").read_text())
    connection.commit()
    for path in files:
        text = path.read_text()
        cursor.execute("SET search_path = public, cortana, extensions, pg_temp")
        cursor.execute(text)
        if path == files[0]:
            cursor.execute("CREATE TABLE cortana.schema_migrations (version int PRIMARY KEY, name text NOT NULL,"
                           " checksum text NOT NULL, applied_at timestamptz NOT NULL DEFAULT now())")
        cursor.execute("INSERT INTO cortana.schema_migrations (version, name, checksum) VALUES (%s, %s, %s)",
                       (int(path.name[:4]), path.stem[5:], hashlib.sha256(text.encode()).hexdigest()))
        connection.commit()
    connection.close()


def rows_of(url, columns=None):
    """{table: its rows}, of the columns that `columns` has for a table (None: all), and which columns that were."""
    connection = psycopg2.connect(url)
    cursor = connection.cursor()
    cursor.execute("SELECT format('%I.%I', n.nspname, c.relname), array_agg(a.attname::text ORDER BY a.attname)"
                   " FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace JOIN pg_attribute a ON a.attrelid = c.oid"
                   " WHERE n.nspname IN ('public', 'cortana') AND c.relkind IN ('r', 'p') AND NOT c.relispartition"
                   " AND a.attnum > 0 AND NOT a.attisdropped AND c.relname <> 'schema_migrations' GROUP BY 1")
    columns = columns or dict(cursor.fetchall())
    found = {}
    for table, names in columns.items():
        cursor.execute(f"SELECT {', '.join(f'{name}::text' for name in names)} FROM {table}")
        found[table] = sorted(map(repr, cursor.fetchall()))
    connection.close()
    return found, columns


@pytest.fixture
def old_database(shared_cluster):
    name = f"upgrade_{uuid.uuid4().hex}"
    run_sql(shared_cluster, f"CREATE DATABASE {name}")
    yield shared_cluster.url(name)
    run_sql(shared_cluster, f"DROP DATABASE {name} WITH (FORCE)")


@pytest.mark.parametrize("release", RELEASES)
def test_what_a_release_held_is_there_after_the_upgrade(program, old_database, tmp_path, release):
    make_schema(old_database, migrations_of(release))
    script = ROOT / f"fixtures/releases/{release}.sql"
    subprocess.run(["psql", "-qX", "-v", "ON_ERROR_STOP=1", "-f", script, old_database], check=True, stdout=subprocess.DEVNULL)
    before, columns = rows_of(old_database)
    assert sum(map(len, before.values())) > 50

    def cortana(*words):
        return subprocess.run([program("cortana"), *words], text=True, capture_output=True, check=True, stdin=subprocess.DEVNULL,
                              env={**os.environ, "DATABASE_URL": old_database, "STORE_URL": f"dir:{tmp_path}"}).stdout

    said = cortana("migrate")
    assert f"{len(MIGRATIONS) - len(migrations_of(release))} applied now, {len(MIGRATIONS)} in all" in said
    after, _ = rows_of(old_database, columns)
    for table, rows in before.items():
        assert set(rows) <= set(after[table]), table  # migrations may add rows: types, commands
    (hit,) = [json.loads(line) for line in cortana("search", "coffee", "--json").splitlines()][:1]
    assert "Coffee" in json.dumps(hit)
    connection = psycopg2.connect(old_database)
    connection.autocommit = True
    cursor = connection.cursor()
    cursor.execute("SELECT complete_job(id, lease_token, '{}') FROM claim_jobs('worker', 'command')")
    assert cursor.rowcount == 1, "a job from before is not claimed"
    cursor.execute("SELECT run_upkeep(now() + interval '1 day')")
    connection.close()


def test_a_released_migration_that_is_edited_is_refused(tmp_path):
    """By scripts/check, before anybody's database meets it."""
    copy = tmp_path / "tree"
    subprocess.run(["git", "clone", "-q", "--shared", ROOT, copy], check=True)
    for name in ("sql/released", "scripts/check", "scripts/freeze"):
        (copy / name).write_bytes((ROOT / name).read_bytes())
        (copy / name).chmod(0o755)

    def run(*words):
        return subprocess.run(words, cwd=copy, text=True, capture_output=True, check=False)

    first = sorted((copy / "sql/migrations").glob("*.sql"))[0]
    assert run("scripts/freeze").returncode == 0 and run("scripts/freeze", "--check").returncode == 0
    first.write_text(first.read_text() + "-- later\n")
    assert f"sql/migrations/{first.name}: was changed after release" in run("scripts/check").stdout
