#!/usr/bin/python3
"""sql_reference.py DATABASE_URL > docs/sql.md   the reference of the schema's public part, made from the
comments in a migrated database. tests/system/test_sql_reference.py says when docs/sql.md is stale."""

import sys

import psycopg2

ROLES = [
    ("anon", "a caller without a token", "nothing"),
    ("authenticated", "a user; an API sets `request.jwt.claims` to the verified token for each statement",
     "reads and searches videos of the user and of the user's teams"),
    ("cortana_app", "an application, for its user; a member of `authenticated`",
     "also enqueues, starts, cancels and retries its user's jobs and runs"),
    ("service_role", "the service", "everything, but cannot change done jobs and past events"),
    ("cortana_worker", "the login of workers; a member of `service_role`", "the same"),
    ("cortana_upkeep", "the login of the worker of commands",
     "runs commands, and may do what the built-in commands need; reads the state of everything, but no text, secret or key"),
    ("cortana_metrics", "exporters and KEDA", "reads the views about the state of queue and workers, and nothing else"),
    ("the owner", "the role that applied the migrations; need not be a superuser", "the same as `service_role`, and "
     "changes the schema"),
]
# What pg_notify() is called with, and why a program listens.
CHANNELS = [
    ("cv_jobs_TYPE", "", "a job of this type may be claimed"),
    ("cv_cancel", "id of the job", "somebody wants the running job to stop"),
    ("cv_watch", "`{\"job_id\", \"status\", \"progress\"}`", "status or progress changed of a job for which `watch_job()` was called"),
    ("cv_drain", "id of the worker", "the worker must finish its jobs and exit"),
    ("cv_uploads", "", "an upload is complete, or an event of the store has arrived"),
    ("cv_events", "", "an event for which a trigger waits has happened, or a schedule was changed"),
    ("cv_schema", "", "a migration has removed something that older programs use"),
]
VALUES = {"uuid": "'00000000-0000-4000-8000-000000000000'", "text": "'text'", "jsonb": "'{}'", "integer": "1",
          "bigint": "1", "boolean": "true", "interval": "'1 minute'", "real": "0.5", "numeric": "20",
          "timestamp with time zone": "now()", "text[]": "'{text}'", "uuid[]": "'{}'", "bigint[]": "'{}'",
          "jsonb[]": "'{}'", "real[]": "'{0.6,0.8}'"}
NAMED = {"p_job_type": "'ocr'", "p_worker_id": "'host:1'", "p_workflow": "'video_pipeline'", "query": "'old bridge'",
         "p_expression": "'30 2 * * *'", "p_key": "'gc'", "p_segments": "'[]'", "p_artifacts": "'[]'",
         "p_filter": "'{\"job_type\": \"ocr\"}'", "p_url": "'https://shop.example/hook'", "emit_event.p_name": "'order.paid'",
         "announce_upload.p_key": "'inbox/anna/talk.mp4'"}
SECTIONS = [("Tables", "rp"), ("Views", "v")]


def rows(cursor, statement, *parameters):
    cursor.execute(statement, parameters)
    return cursor.fetchall()


def cell(text):
    return (text or "").replace("|", "\\|").replace("\n", " ")


def relations(cursor, title, kinds):
    yield f"## {title}\n"
    for oid, name, comment in rows(cursor, """
            SELECT c.oid, c.relname, obj_description(c.oid, 'pg_class') FROM pg_class c
            WHERE c.relnamespace = 'public'::regnamespace AND c.relkind::text = ANY (%s)
              AND NOT EXISTS (SELECT FROM pg_depend d WHERE d.objid = c.oid AND d.deptype = 'e')
            ORDER BY 2""", list(kinds)):
        yield f"### {name}\n\n{comment}\n"
        columns = rows(cursor, """
            SELECT attname, format_type(atttypid, atttypmod), col_description(attrelid, attnum)
            FROM pg_attribute WHERE attrelid = %s AND attnum > 0 AND NOT attisdropped ORDER BY attnum""", oid)
        if "r" in kinds:
            yield "| column | type | |\n| --- | --- | --- |"
            for column, kind, text in columns:
                yield f"| `{column}` | {kind} | {cell(text)} |"
        else:
            yield "Columns: " + ", ".join(f"`{column}`" for column, _, _ in columns) + "."
        yield ""


def example(name, arguments, is_set):
    given = [f"{argument} => " + (NAMED.get(f"{name}.{argument}") or NAMED.get(argument)
                                   or VALUES.get(kind, "NULL")) for argument, kind in arguments]
    return f"SELECT {'* FROM ' if is_set else ''}{name}({', '.join(given)})"


def functions(cursor):
    """(name, arguments, result, comment, callers, example) of each function that programs call."""
    for oid, name, arguments, result, comment, names, kinds, defaults, is_set, callers in rows(cursor, """
            SELECT p.oid, p.proname, pg_get_function_arguments(p.oid), pg_get_function_result(p.oid),
                   obj_description(p.oid, 'pg_proc'), coalesce(p.proargnames, '{}'),
                   ARRAY(SELECT format_type(t, NULL) FROM unnest(p.proargtypes) WITH ORDINALITY AS a (t, n)
                         ORDER BY n), p.pronargdefaults,
                   p.proretset OR p.prorettype = 'record'::regtype OR t.typtype = 'c',
                   ARRAY(SELECT a.grantee::regrole::text FROM aclexplode(p.proacl) AS a
                         WHERE a.grantee <> p.proowner ORDER BY 1)
            FROM pg_proc p JOIN pg_type t ON t.oid = p.prorettype
            WHERE p.pronamespace = 'public'::regnamespace
              AND NOT EXISTS (SELECT FROM pg_depend d WHERE d.objid = p.oid AND d.deptype = 'e')
            ORDER BY 2"""):
        del oid
        required = list(zip(names, kinds))[:len(kinds) - defaults]
        yield name, arguments, result, comment, callers, example(name, required, is_set)


def reference(cursor):
    yield """# The SQL schema

`scripts/sql_reference.py` makes this page from the comments in the schema: edit those, not this page. It lists the
objects of the schema `public`, which applications may rely on. Objects of the schema `cortana` are internal and may
change with any release. [queue.md](queue.md) explains how to use these functions and tables.

## Roles
"""
    yield "| role | who | may |\n| --- | --- | --- |"
    for name, who, may in ROLES:
        yield f"| {name if ' ' in name else f'`{name}`'} | {who} | {may} |"
    yield "\n## Channels\n\n`LISTEN` to a channel to be notified; read the tables to see what has happened.\n"
    yield "| channel | payload | when |\n| --- | --- | --- |"
    for name, payload, when in CHANNELS:
        yield f"| `{name}` | {payload} | {when} |"
    yield "\n## Functions\n"
    for name, arguments, result, comment, callers, call in functions(cursor):
        yield f"### {name}\n\n    {name}({arguments})\n    RETURNS {result}\n"
        yield f"{comment}\n\nFor {', '.join(f'`{caller}`' for caller in callers)}.\n\n    {call};\n"
    for title, kinds in SECTIONS:
        yield from relations(cursor, title, kinds)


def main(url):
    with psycopg2.connect(url, options="-c search_path=public,cortana,extensions,pg_temp") as connection:
        print("\n".join(reference(connection.cursor())).rstrip())


if __name__ == "__main__":
    main(sys.argv[1])
