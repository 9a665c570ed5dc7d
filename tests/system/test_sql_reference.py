"""docs/sql.md is what the schema says of itself; PL/pgSQL is checked by plpgsql_check."""

import re
import subprocess
import sys

import pytest
from conftest import ROOT

sys.path.insert(0, str(ROOT / "scripts"))
import sql_reference  # noqa: E402


def test_the_reference_is_not_stale(database):
    done = subprocess.run([sys.executable, ROOT / "scripts/sql_reference.py", database], capture_output=True,
                          text=True, check=True)
    assert done.stdout == (ROOT / "docs/sql.md").read_text(), \
        "run: scripts/sql_reference.py DATABASE_URL > docs/sql.md, with a database that is migrated"


def test_every_example_can_be_called(queue, sql):
    with sql.cursor() as cursor:
        functions = list(sql_reference.functions(cursor))
    assert len(functions) > 70
    for name, _, _, _, callers, call in functions:
        assert callers, name
        queue.run(f"PREPARE example AS {call.replace('%', '%%')}; DEALLOCATE example")


def test_every_channel_is_listed(queue):
    sources = " ".join(row["prosrc"] for row in queue.run(
        "SELECT prosrc FROM pg_proc WHERE pronamespace IN ('public'::regnamespace, 'cortana'::regnamespace)"))
    notified = {name + ("TYPE" if name.endswith("_") else "")
                for name in re.findall(r"pg_notify\('(\w+)'", sources)}
    assert notified == {name for name, _, _ in sql_reference.CHANNELS}
    assert len(re.findall(r"pg_notify\(", sources)) == len(re.findall(r"pg_notify\('", sources))


def test_roles_are_listed(queue):
    granted = {row["name"] for row in queue.run("""
        SELECT DISTINCT a.grantee::regrole::text AS name FROM pg_class c, aclexplode(c.relacl) AS a
        WHERE c.relnamespace IN ('public'::regnamespace, 'cortana'::regnamespace) AND a.grantee <> c.relowner""")}
    assert granted <= {name for name, _, _ in sql_reference.ROLES}


@pytest.fixture
def checked(queue):
    queue.run("CREATE EXTENSION plpgsql_check SCHEMA extensions")
    return queue


def test_plpgsql_check_finds_nothing(checked):
    findings = checked.run("""
        SELECT p.oid::regprocedure::text AS function, c.lineno, c.level, c.message, c.query
        FROM pg_proc p JOIN pg_language l ON l.oid = p.prolang
        LEFT JOIN pg_trigger t ON t.tgfoid = p.oid AND t.tgparentid = 0,
        LATERAL plpgsql_check_function_tb(
            p.oid, coalesce(t.tgrelid, 0), oldtable => t.tgoldtable, newtable => t.tgnewtable,
            performance_warnings => false, extra_warnings => true) AS c
        WHERE l.lanname = 'plpgsql' AND p.pronamespace IN ('public'::regnamespace, 'cortana'::regnamespace)
          -- a constant that a declaration begins with: cast once
          AND c.message <> 'target type is different type than source type'
          -- its rows come of RETURN QUERY EXECUTE, and of a loop that only RETURN leaves
          AND NOT (p.proname = 'export_events' AND c.message LIKE 'OUT variable %% is maybe unmodified')
          -- where pgvector is not installed, this is not reached
          AND NOT (p.proname = 'store_embeddings' AND c.message = 'type "vector" does not exist')
          AND NOT (p.proname = 'next_cron' AND c.message = 'control reached end of function without RETURN')""")
    assert findings == []


def test_plpgsql_check_sees_a_mistake(checked):
    checked.run("CREATE FUNCTION cortana.f() RETURNS int LANGUAGE plpgsql AS"
                " $$ BEGIN RETURN (SELECT nothing FROM jobs); END $$")
    assert "nothing" in checked.value("SELECT message FROM plpgsql_check_function_tb('cortana.f()')")
