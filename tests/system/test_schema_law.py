"""What every object of the schema has to keep to. The lists come from the catalogue, so that a new
object cannot be forgotten."""

import collections
import pathlib
import re
import tomllib

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
SCHEMAS = "('public'::regnamespace, 'cortana'::regnamespace, 'api'::regnamespace)"
OWN = f"""{{0}} IN {SCHEMAS} AND NOT EXISTS (
    SELECT FROM pg_depend d WHERE d.objid = {{1}} AND d.deptype = 'e')"""
PATH = "search_path=pg_catalog, public, cortana, extensions, pg_temp"

# What applications use lies in `public`: the pipeline's contract, the calls of docs/queue.md, and the
# views. Everything else lies in `cortana`. Whoever adds to this list adds to what must stay.
PUBLIC_RELATIONS = """videos segments kept_frames unread_lines entities entity_types search_materialized jobs job_types job_attempts
    task_events task_artifacts workers runs workflows job_definitions job_triggers trigger_firings
    webhooks hosts nodes embedding_models pipeline_stages job_overview worker_overview run_overview
    job_counts worker_activity job_failures queue_depth job_flow
    host_overview node_overview queue_depth_by_tenant claimable_jobs saved_searches saved_search_matches
    search_materialized_number_seq trigger_firings_id_seq""".split()
PUBLIC_FUNCTIONS = """enqueue_job enqueue_jobs claim_jobs renew_lease report_progress report_log watch_job priority_number fence_job
    complete_job complete_jobs fail_job release_job settle_canceled_job record_artifacts cancel_job
    retry_job report_worker report_disk touch_session pause_type resume_type
    pause_tenant resume_tenant drain_worker cancel_jobs set_priority why_job nodes_to_wake start_run
    restart_run cancel_run hand_on continue_step change_workflow jobs_to_archive export_jobs drop_archived_jobs
    restore_jobs event_partitions_before export_events drop_archived_events restore_events
    define_command run_command plan_command json_schema_fault emit_event scheduler_tick
    next_cron next_crons add_webhook rotate_webhook disable_webhook enable_webhook send_webhook
    restore_default_schedules search_segments search_semantic
    embed_videos_with embed_videos embedding_model_in_use use_pgvector prune_embeddings transcribe_video
    announce_upload accept_object_event reprocess_video delete_video limit_tenant time_ordered_uuid
    plan_clip request_clip split_videos reindex_video refresh_search_materialized
    replace_video_text""".split()
PUBLIC_TYPES = ["job_status", "job_type", "video_status"]


# Parts of a claim, an enqueue and a completion: a path of their own would cost each of these a tenth. They
# run below the path of the function that calls them, and for nobody but the service.
INHERIT_THE_PATH = """acquire_upkeep lease_jobs claim_room fair_sequence end_attempt check_job_size check_payload
    set_status""".split()


# Called by migrations of later releases (ARCHITECTURE.md, "Rolling updates").
UNUSED_YET = ["require_program"]


def names(queue, statement, *parameters):
    return sorted(row["name"] for row in queue.run(statement, *parameters))


def functions_off_the_path(queue):
    """A body of SQL's own form (RETURN, BEGIN ATOMIC) is read once, when it is written: no path matters
    to it. Every other function names its path, with pg_temp last, so that nobody's temporary table,
    operator or function is taken for one of ours."""
    return names(queue, f"""
        SELECT p.oid::regprocedure::text AS name FROM pg_proc p
        WHERE {OWN.format('p.pronamespace', 'p.oid')} AND p.prosqlbody IS NULL
          AND NOT coalesce('{PATH}' = ANY (p.proconfig), false)
          AND NOT (p.proname = ANY (%s) AND p.pronamespace = 'cortana'::regnamespace
                   AND NOT p.prosecdef AND NOT has_function_privilege('authenticated', p.oid, 'EXECUTE')
                   AND NOT has_function_privilege('cortana_app', p.oid, 'EXECUTE'))""", INHERIT_THE_PATH)


def described_operations():
    """The functions of operations of the API; what each is for stands in gateway/operations."""
    return [name for path in (ROOT / "gateway/operations").glob("*.toml")
            for name, member in tomllib.loads(path.read_text()).items() if isinstance(member, dict) and "route" in member]


def objects_without_a_comment(queue):
    return names(queue, f"""
        SELECT 'function ' || p.oid::regprocedure AS name FROM pg_proc p
        WHERE {OWN.format('p.pronamespace', 'p.oid')} AND obj_description(p.oid, 'pg_proc') IS NULL
          AND NOT (p.pronamespace = 'api'::regnamespace AND p.proname = ANY (%s))
        UNION ALL
        SELECT 'relation ' || c.oid::regclass FROM pg_class c
        WHERE {OWN.format('c.relnamespace', 'c.oid')} AND c.relkind IN ('r', 'p', 'v', 'm', 'S')
          AND NOT c.relispartition AND obj_description(c.oid, 'pg_class') IS NULL
          AND NOT EXISTS (SELECT FROM pg_depend d  -- the sequence of an identity column is its column's
                          WHERE d.objid = c.oid AND d.deptype = 'i' AND c.relkind = 'S')
        UNION ALL
        SELECT 'type ' || t.oid::regtype FROM pg_type t LEFT JOIN pg_class c ON c.oid = t.typrelid
        WHERE {OWN.format('t.typnamespace', 't.oid')}
          AND (t.typtype IN ('d', 'e') OR t.typtype = 'c' AND c.relkind = 'c')
          AND obj_description(t.oid, 'pg_type') IS NULL
        UNION ALL
        SELECT 'column ' || c.oid::regclass || '.' || a.attname
        FROM pg_class c JOIN pg_attribute a ON a.attrelid = c.oid
        WHERE {OWN.format('c.relnamespace', 'c.oid')} AND c.relnamespace = 'public'::regnamespace
          AND c.relkind IN ('r', 'p') AND a.attnum > 0 AND NOT a.attisdropped
          AND col_description(c.oid, a.attnum) IS NULL
        UNION ALL
        SELECT 'schema ' || nspname FROM pg_namespace
        WHERE nspname IN ('cortana', 'api') AND obj_description(oid, 'pg_namespace') IS NULL""", described_operations())


def words_that_are_used():
    """Every word of the migrations besides comments and rights, each time it occurs, and of the programs."""
    words = []
    for path in sorted((ROOT / "sql").glob("*/*.sql")):
        statements = re.sub(r"^(COMMENT ON|GRANT|REVOKE)\b.*?;$|--.*?$", "", path.read_text(), flags=re.M | re.S)
        words += re.findall(r"\w+", statements)
    for folder in ("cli", "common", "gateway", "platform", "workers"):
        for path in (ROOT / folder).rglob("*"):
            if path.suffix in (".c", ".h", ".sql", ".toml"):
                words += re.findall(r"\w+", path.read_text())
    return words


def objects_that_nothing_uses(queue):
    """Objects outside of `public` that no other object and no program names."""
    used = words_that_are_used()
    counts = collections.Counter(used)
    return [name for name in names(queue, f"""
        SELECT DISTINCT proname AS name FROM pg_proc p
        WHERE {OWN.format('p.pronamespace', 'p.oid')} AND pronamespace IN ('cortana'::regnamespace, 'api'::regnamespace)
        UNION SELECT relname FROM pg_class c
        WHERE {OWN.format('c.relnamespace', 'c.oid')} AND relnamespace = 'cortana'::regnamespace
          AND relkind IN ('r', 'p', 'v', 'm') AND NOT relispartition""")
            if counts[name] < 2]


def test_every_function_names_its_path(queue):
    assert functions_off_the_path(queue) == []


def test_every_object_has_a_comment(queue):
    assert objects_without_a_comment(queue) == []


def test_every_object_is_used(queue):
    assert objects_that_nothing_uses(queue) == UNUSED_YET


def test_an_object_that_nothing_uses_is_seen(queue):
    queue.run("CREATE FUNCTION cortana.forgotten_function() RETURNS int LANGUAGE sql RETURN 1")
    queue.run("CREATE TABLE cortana.forgotten_table ()")
    assert set(objects_that_nothing_uses(queue)) == {"forgotten_function", "forgotten_table", *UNUSED_YET}


def test_only_what_applications_use_lies_in_public(queue):
    assert names(queue, f"""SELECT relname AS name FROM pg_class c
        WHERE {OWN.format('c.relnamespace', 'c.oid')} AND relnamespace = 'public'::regnamespace
          AND relkind IN ('r', 'p', 'v', 'm', 'S')""") == sorted(PUBLIC_RELATIONS)
    assert names(queue, f"""SELECT DISTINCT proname AS name FROM pg_proc p
        WHERE {OWN.format('p.pronamespace', 'p.oid')} AND pronamespace = 'public'::regnamespace
        """) == sorted(PUBLIC_FUNCTIONS)
    assert names(queue, f"""SELECT typname AS name FROM pg_type t
        WHERE {OWN.format('t.typnamespace', 't.oid')} AND typnamespace = 'public'::regnamespace
          AND typtype IN ('d', 'e')""") == PUBLIC_TYPES


def test_extensions_lie_in_a_schema_of_their_own(queue):
    assert names(queue, "SELECT extname AS name FROM pg_extension"
                        " WHERE extnamespace <> 'extensions'::regnamespace") == ["plpgsql"]


def test_nobody_but_the_owner_makes_objects(queue):
    for role in ("anon", "authenticated", "service_role", "cortana_app", "cortana_worker", "cortana_upkeep", "cortana_metrics"):
        assert queue.value("SELECT has_database_privilege(%s, current_database(), 'TEMPORARY')", role) is False
        for schema in ("public", "cortana", "extensions", "auth"):
            assert queue.value("SELECT has_schema_privilege(%s, %s, 'CREATE')", role, schema) is False
    assert names(queue, f"""SELECT p.oid::regprocedure::text AS name FROM pg_proc p,
        aclexplode(coalesce(p.proacl, acldefault('f', p.proowner))) AS a
        WHERE {OWN.format('p.pronamespace', 'p.oid')} AND a.grantee = 0""") == []


@pytest.mark.parametrize("statement, fault", [
    ("CREATE FUNCTION cortana.forgetful() RETURNS int LANGUAGE sql AS 'SELECT 1'", "cortana.forgetful()"),
    ("CREATE FUNCTION cortana.forgetful() RETURNS int LANGUAGE sql SECURITY DEFINER"
     " SET search_path = pg_catalog, public AS 'SELECT 1'", "cortana.forgetful()"),
])
def test_a_function_without_its_path_is_seen(queue, statement, fault):
    queue.run(statement)
    queue.run("SET search_path = pg_catalog, pg_temp")  # so that names are shown with their schema
    assert functions_off_the_path(queue) == [fault]


@pytest.mark.parametrize("statement, fault", [
    ("CREATE FUNCTION f() RETURNS int LANGUAGE sql RETURN 1", "function public.f()"),
    ("CREATE TABLE cortana.t ()", "relation cortana.t"),
    ("CREATE VIEW v AS SELECT 1", "relation public.v"),
    ("CREATE DOMAIN cortana.d AS int", "type cortana.d"),
    ("ALTER TABLE jobs ADD COLUMN c int", "column public.jobs.c"),
])
def test_an_object_without_a_comment_is_seen(queue, statement, fault):
    queue.run(statement)
    queue.run("SET search_path = pg_catalog")
    assert objects_without_a_comment(queue) == [fault]
