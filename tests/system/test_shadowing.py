"""A caller's own objects are never taken for ours: temporary tables, types and triggers that bear the
names of the schema's, tried against every function that the caller may call."""

import psycopg2
import pytest
from jobs import Queue

OUTER_ROLES = ["anon", "authenticated", "cortana_app", "cortana_metrics", "service_role", "cortana_worker", "cortana_upkeep"]
ARGUMENTS = {"uuid": "gen_random_uuid()", "text": "'x'", "jsonb": "'{}'", "integer": "1", "bigint": "1",
             "boolean": "true", "interval": "'1 minute'", "timestamp with time zone": "now()",
             "real": "0.5", "double precision": "0.5", "numeric": "30", "text[]": "'{x}'",
             "uuid[]": "'{}'", "bigint[]": "'{}'", "jsonb[]": "'{}'", "real[]": "'{1}'"}


@pytest.fixture
def attacker(sql):
    """A session in which every table and view of ours has a temporary namesake that tells when it is read
    or written. That they can be made at all is the operator's mistake: TEMPORARY is nobody's right."""
    queue = Queue(sql)
    queue.run("""CREATE FUNCTION pg_temp.trap() RETURNS boolean LANGUAGE plpgsql AS
        $$ BEGIN RAISE EXCEPTION 'a shadow was reached as %%', current_user; END $$""")
    queue.run(f"GRANT USAGE ON SCHEMA {queue.value('SELECT pg_my_temp_schema()::regnamespace::text')} TO PUBLIC")
    for row in queue.run("""
            SELECT c.relname, string_agg(format('NULL::%%s AS %%I', format_type(atttypid, atttypmod), attname),
                                         ', ' ORDER BY attnum) AS columns
            FROM pg_class c JOIN pg_attribute a ON a.attrelid = c.oid
            WHERE relnamespace IN ('public'::regnamespace, 'cortana'::regnamespace)
              AND relkind IN ('r', 'p', 'v') AND attnum > 0 AND NOT attisdropped
            GROUP BY 1"""):
        queue.run(f"CREATE TEMP VIEW {row['relname']} AS SELECT {row['columns'].replace('%', '%%')}"
                  " FROM (VALUES (1)) AS one WHERE pg_temp.trap()")
        queue.run(f"GRANT ALL ON pg_temp.{row['relname']} TO PUBLIC")
    # As a session whose own path does not name pg_temp: it is searched first then.
    queue.run("SET search_path = public, cortana, extensions")
    queue.run("""SET request.jwt.claims = '{"sub": "aaaaaaaa-0000-0000-0000-000000000001"}'""")
    return queue


def callable_functions(queue, role):
    """Those of ours, with the types of their arguments."""
    return queue.run("""
        SELECT p.oid::regprocedure::text AS name, format('%%I.%%I', n.nspname, p.proname) AS call,
               ARRAY(SELECT format_type(t, NULL) FROM unnest(p.proargtypes) WITH ORDINALITY AS a (t, n)
                     ORDER BY n) AS types
        FROM pg_proc p JOIN pg_namespace n ON n.oid = p.pronamespace
        WHERE n.nspname IN ('public', 'cortana', 'auth') AND prorettype <> 'trigger'::regtype
          AND has_function_privilege(%s, p.oid, 'EXECUTE')
          AND NOT EXISTS (SELECT FROM pg_depend d WHERE d.objid = p.oid AND d.deptype = 'e')
        ORDER BY 1""", role)


def reached(queue, call):
    """What a call says when it has taken a shadow for ours; None when it has not."""
    try:
        queue.run(call)
    except psycopg2.Error as error:
        if "a shadow was reached" in str(error) or "view" in str(error):
            return str(error)
    return None


def test_the_traps_work(attacker):
    """The path that functions had once, and that is enough for no function."""
    attacker.run("""CREATE FUNCTION cortana.careless() RETURNS bigint LANGUAGE sql SECURITY DEFINER
        SET search_path = pg_catalog, public, cortana AS 'SELECT count(*) FROM videos'""")
    attacker.run("GRANT EXECUTE ON FUNCTION cortana.careless TO cortana_app")
    attacker.run("SET SESSION AUTHORIZATION cortana_app")
    assert "a shadow was reached as postgres" in reached(attacker, "SELECT cortana.careless()")


@pytest.mark.parametrize("role", OUTER_ROLES)
def test_no_function_takes_a_shadow_for_ours(attacker, role):
    functions = callable_functions(attacker, role)
    assert functions or role == "anon"
    attacker.run(f"SET SESSION AUTHORIZATION {role}")
    for function in functions:
        for values in (["NULL"] * len(function["types"]),
                       [ARGUMENTS.get(kind, "NULL") for kind in function["types"]]):
            call = f"SELECT * FROM {function['call']}({', '.join(values)})"
            assert reached(attacker, call) is None, call


@pytest.mark.parametrize("role", OUTER_ROLES)
def test_writes_through_tables_meet_no_shadow(attacker, role):
    """Triggers run when somebody else's statement does, below that one's path."""
    attacker.run(f"SET SESSION AUTHORIZATION {role}")
    for statement in ("INSERT INTO public.jobs (job_type, payload) VALUES ('ocr', '{}')",
                      "INSERT INTO public.videos DEFAULT VALUES", "UPDATE public.videos SET title = 'x'",
                      "DELETE FROM public.videos", "DELETE FROM public.jobs",
                      "INSERT INTO public.job_types (name, description) VALUES ('x', 'x')",
                      "DELETE FROM public.job_types WHERE name = 'x'",
                      "INSERT INTO public.job_triggers (name, cron, action, target)"
                      " VALUES ('x', '@daily', 'job', 'ocr')"):
        assert reached(attacker, statement) is None, statement


@pytest.mark.parametrize("role", OUTER_ROLES)
def test_no_role_makes_temporary_objects_at_all(queue, role):
    queue.run(f"SET SESSION AUTHORIZATION {role}")
    for statement in ("CREATE TEMP TABLE interactive_sessions (id uuid)", "CREATE TEMP VIEW v AS SELECT 1",
                      "CREATE FUNCTION pg_temp.f() RETURNS int LANGUAGE sql RETURN 1",
                      "CREATE OPERATOR public.= (LEFTARG = uuid, RIGHTARG = uuid, FUNCTION = uuid_eq)",
                      "CREATE FUNCTION public.f() RETURNS int LANGUAGE sql RETURN 1",
                      "CREATE TABLE public.t ()", "CREATE SCHEMA s"):
        with pytest.raises(psycopg2.errors.InsufficientPrivilege):
            queue.run(statement)
