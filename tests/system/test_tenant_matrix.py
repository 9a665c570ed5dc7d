"""Two tenants, every role, every object: the lists come from the catalogue, so that what is added later is
tried, too. What a role may read is said here; everything else must be refused to it."""

import json
import re
import uuid

import psycopg2
import psycopg2.errors
import pytest
from test_shadowing import callable_functions

ALICE, BOB = uuid.UUID(int=0xA11CE << 64), uuid.UUID(int=0xB0B << 64)
SECRET = "bobsecret"
USERS = ["anon", "authenticated", "cortana_app"]
ROLES = [*USERS, "cortana_metrics"]
OWN_ROWS = {"videos", "segments", "entities", "search_materialized", "jobs", "runs", "pipeline_stages",
            "job_overview", "run_overview", "unread_lines", "collections", "collection_videos", "favourites"}
SAME_FOR_ALL = {"job_types", "workflows", "embedding_models", "entity_types", "job_definitions"}
READABLE = {
    "anon": set(),
    "authenticated": OWN_ROWS | SAME_FOR_ALL | {"kept_frames", "video_bands"},
    "cortana_app": OWN_ROWS | SAME_FOR_ALL | {"kept_frames", "upload_sessions", "video_bands"},
    "cortana_metrics": {"queue_depth", "job_flow", "job_counts", "worker_activity", "job_failures",
                        "worker_overview", "host_overview"},
}
RELATIONS = """SELECT c.oid::regclass::text AS name FROM pg_class c
    WHERE c.relnamespace IN ('public'::regnamespace, 'cortana'::regnamespace)
      AND c.relkind IN ('r', 'p', 'v', 'm') ORDER BY 1"""
VALUES = {"text": [f"'{SECRET}'"], "jsonb": ["'{}'", "'[]'"], "integer": ["1"], "bigint": ["1"], "boolean": ["true"],
          "interval": ["'1 minute'"], "real": ["0.5"], "double precision": ["0.5"], "numeric": ["20"],
          "timestamp with time zone": ["now()"], "text[]": [f"'{{{SECRET}}}'"], "bigint[]": ["'{1}'"],
          "jsonb[]": ["'{}'"], "real[]": ["'{0.6,0.8}'"]}


def fill(queue):
    """Alice and Bob have the same: videos with text, jobs, runs, dead jobs, triggers and webhooks."""
    queue.run("INSERT INTO job_types (name, description, is_public) VALUES ('work', 'a test', true)")
    for owner, word in ((ALICE, "alicesword"), (BOB, SECRET)):
        video = queue.value("INSERT INTO videos (owner_id, title, original_name, s3_original_path)"
                            " VALUES (%s, %s, %s, %s) RETURNING id", owner, word, word, f"videos/{word}")
        queue.write_text(video, [f"{word} berlin"], entities=[{"type": "hashtag", "value": f"#{word}"}])
        queue.run("INSERT INTO unread_lines (video_id, read_by, script, lines) VALUES (%s, 'ocr/0', 'Greek', 3)", video)
        queue.run("SELECT * FROM start_run('video_pipeline', '{}', %s)", video)
        queue.run("INSERT INTO favourites VALUES (%s, %s)", owner, video)
        queue.run("WITH made AS (INSERT INTO collections (owner_id, name) VALUES (%s, %s) RETURNING id)"
                  " INSERT INTO collection_videos SELECT id, %s, 1 FROM made", owner, word, video)
        for _ in range(2):
            queue.add("work", {"word": word}, tenant_id=str(owner))
        queue.run("SELECT fail_job(id, lease_token, 'Bad', %s, false) FROM claim_jobs('w', 'work')", word)
        queue.run("SELECT request_clip(%s, 0, 1000)", video)
        queue.run("SELECT add_webhook(%s, 'https://' || %s || '.example/', %s)", f"hook-{word}", word, owner)
        queue.run("INSERT INTO job_triggers (name, event, action, target, tenant_id) VALUES"
                  " (%s, 'order.paid', 'webhook', %s, %s)", f"trigger-{word}", f"hook-{word}", owner)
        queue.run("SELECT emit_event('order.paid', %s, p_tenant_id => %s)", json.dumps({"word": word}), owner)
        queue.run("SELECT pause_tenant(%s, %s)", owner, word)


@pytest.fixture
def tenants(filled):
    return filled(fill)[0]


def ids_of_bob(queue):
    """Everything by which something of Bob's could be asked for, or be known."""
    return [str(row["id"]) for row in queue.run("""
        SELECT id FROM videos WHERE owner_id = %(bob)s UNION ALL
        SELECT id FROM jobs WHERE tenant_id = %(bob)s UNION ALL
        SELECT id FROM runs WHERE tenant_id = %(bob)s UNION ALL
        SELECT id FROM segments WHERE owner_id = %(bob)s""".replace("%(bob)s", f"'{BOB}'"))]


def whose(queue, user):
    queue.run("SELECT set_config('request.jwt.claims', %s, false)", json.dumps({"sub": str(user)}))


def everything_of_bob(queue, ids):
    """Each row that names him, his word or anything of his, in every table."""
    pattern = "|".join([SECRET, str(BOB), *ids])
    return {row["name"]: queue.value(f"SELECT coalesce(jsonb_agg(t::text ORDER BY t::text), '[]')"
                                     f" FROM {row['name']} AS t WHERE t::text ~ %s", pattern)
            for row in queue.run("SELECT c.oid::regclass::text AS name FROM pg_class c WHERE relkind = 'r' AND"
                                 " relnamespace IN ('public'::regnamespace, 'cortana'::regnamespace) ORDER BY 1")}


def check_unchanged(queue, ids, before):
    """What Alice made and called by Bob's word is hers; nothing else came, and nothing went."""
    queue.run("RESET ROLE")
    hers = [str(ALICE), *(row["id"] for row in queue.run("SELECT id::text FROM jobs WHERE tenant_id = %s", ALICE))]
    for name, rows in everything_of_bob(queue, ids).items():
        assert [row for row in before[name] if row not in rows] == [], name
        assert [row for row in rows if row not in before[name] and not any(one in row for one in hers)] == [], name


@pytest.mark.parametrize("role", ROLES)
def test_every_relation(tenants, role):
    ids = ids_of_bob(tenants)
    names = [row["name"] for row in tenants.run(RELATIONS)]
    assert len(names) > 60 and READABLE[role] <= set(names)
    whose(tenants, ALICE)
    tenants.run(f"SET ROLE {role}")
    for name in names:
        if name in READABLE[role]:
            shown = str(tenants.run(f"SELECT t::text FROM {name} AS t"))
            assert SECRET not in shown and str(BOB) not in shown, name
            assert not any(one in shown for one in ids), name
            if name in OWN_ROWS:
                assert shown != "[]", f"{name}: what is Alice's she sees"
        else:
            with pytest.raises(psycopg2.errors.InsufficientPrivilege):
                tenants.run(f"SELECT FROM {name}")
        for statement in (f"INSERT INTO {name} DEFAULT VALUES", f"DELETE FROM {name}", f"TRUNCATE {name}",
                          f"SELECT FROM {name} FOR UPDATE", f"SELECT FROM {name} FOR KEY SHARE",
                          f"LOCK TABLE {name} IN ROW EXCLUSIVE MODE", f"LOCK TABLE {name} IN SHARE MODE",
                          f"ALTER TABLE {name} DISABLE ROW LEVEL SECURITY"):
            with pytest.raises((psycopg2.errors.InsufficientPrivilege, psycopg2.errors.WrongObjectType,
                                psycopg2.errors.FeatureNotSupported, psycopg2.errors.ObjectNotInPrerequisiteState)):
                tenants.run(f"BEGIN; {statement}") if statement.startswith("LOCK") else tenants.run(statement)
            tenants.run("ROLLBACK")


def calls_of(queue, role, ids):
    """Each function that the role may call, with Bob's ids and words in every place that takes one."""
    for row in callable_functions(queue, role):
        for one in ids if {"uuid", "uuid[]"} & set(row["types"]) else ids[:1]:
            values = {**{kind: given[0] for kind, given in VALUES.items()}, "uuid": f"'{one}'",
                      "uuid[]": f"'{{{one}}}'"}
            yield f"SELECT * FROM {row['call']}({', '.join(values.get(kind, 'NULL') for kind in row['types'])})"


@pytest.mark.parametrize("role", ROLES)
def test_every_function(tenants, role):
    """Called by Alice for what is Bob's: nothing of his is told, and nothing of his changes."""
    ids = ids_of_bob(tenants)
    before = everything_of_bob(tenants, ids)
    assert sum(map(len, before.values())) > 20
    calls = list(calls_of(tenants, role, ids))
    assert role == "anon" or len(calls) >= 3
    whose(tenants, ALICE)
    tenants.run(f"SET ROLE {role}")
    tenants.run("SET statement_timeout = '10s'")
    for call in calls:
        told = None
        try:
            told = str(tenants.run(call.replace("%", "%%")))
        except psycopg2.Error as error:
            told = str(error).split("LINE ", maxsplit=1)[0].split("CONTEXT", maxsplit=1)[0]
        given = set(re.findall(r"[0-9a-f-]{36}", call))
        assert not any(one in told for one in ids if one not in given), call
        assert str(BOB) not in told, call
    check_unchanged(tenants, ids, before)


# Members of the parameter of an operation, by which something of Bob's could be meant.
MEANT = ["id", "video", "video_id", "job", "job_id", "run", "run_id", "upload", "segment", "clip", "trigger", "key", "tenant",
         "tenant_id", "owner_id", "team_id", "similar", "cursor", "after"]


@pytest.mark.parametrize("role", USERS)
def test_every_operation_of_the_api(tenants, role):
    """The functions behind the HTTP API, called by SQL, past all checks of the gateway, for what is Bob's."""
    ids = ids_of_bob(tenants)
    before = everything_of_bob(tenants, ids)
    names = [row["name"] for row in tenants.run("""
        SELECT p.proname AS name FROM pg_proc p WHERE p.pronamespace = 'api'::regnamespace
            AND p.proargtypes = ('jsonb'::regtype::oid::text)::oidvector AND p.prorettype = 'api.answer'::regtype
            AND has_function_privilege(%s, p.oid, 'EXECUTE') ORDER BY 1""", role)]
    assert len(names) > 50 if role != "anon" else names == [
        "feed", "mail_password_link", "oembed", "open_share", "providers", "read_invitation", "shared_lines",
        "shared_picture", "sign_out", "unsubscribe"]
    whose(tenants, ALICE)
    tenants.run(f"SET ROLE {role}")
    tenants.run("SET statement_timeout = '10s'")
    told = set()
    for name in names:
        for one in [*ids, str(BOB), SECRET, f"hook-{SECRET}", f"trigger-{SECRET}"]:
            values = {**dict.fromkeys(MEANT, one), "name": one, "limit": 50, "ids": [one], "videos": [one], "topics": f"video:{one}",
                      "q": SECRET, "t": 1, "t_start": 0, "t_end": 9, "title": "taken", "reason": "taken", "state": "queued"}
            for given in (values, {"id": one}, {"name": one}):
                try:
                    answer = tenants.run(f"SELECT status, headers::text, body::text FROM api.{name}(%s)", json.dumps(given))[0]
                except psycopg2.Error as error:
                    answer = {"status": 500, "body": str(error).split("LINE ", maxsplit=1)[0].split("CONTEXT", maxsplit=1)[0]}
                text = str(answer).replace(one, "")
                told |= {(name, answer["status"])} if any(other in text for other in [*ids, str(BOB), f"{SECRET} berlin"]) else set()
    check_unchanged(tenants, ids, before)
    assert told == set()


@pytest.mark.parametrize("role", ["cortana_gateway", "cortana_upkeep"])
def test_logins_of_programs_see_no_text(tenants, role):
    """Before it has become its caller the gateway reads nothing of anybody; the worker of commands reads states, no text and no secret."""
    tenants.run(f"SET ROLE {role}")
    tenants.run("SET statement_timeout = '10s'")
    shown = {}
    for row in tenants.run(RELATIONS):
        try:
            shown[row["name"]] = str(tenants.run(f"SELECT t::text FROM {row['name']} AS t"))
        except psycopg2.errors.InsufficientPrivilege:
            continue
    tenants.run("RESET ROLE")
    secrets = [row["secret"] for row in tenants.run("SELECT secret FROM cortana.webhook_secrets")]
    assert secrets and [name for name, text in shown.items() if f"{SECRET} berlin" in text or any(one in text for one in secrets)] == []
    if role == "cortana_gateway":
        assert [name for name, text in shown.items() if str(BOB) in text or SECRET in text] == []


@pytest.mark.parametrize("role", ["authenticated", "cortana_app"])
def test_does_not_exist_and_may_not_see_are_told_alike(tenants, role):
    ids = ids_of_bob(tenants)
    nobody = str(uuid.uuid4())
    whose(tenants, ALICE)
    tenants.run(f"SET ROLE {role}")

    def answer(call):
        try:
            return tenants.run(call.replace("%", "%%"))
        except psycopg2.Error as error:
            return type(error), str(error).split("\n", maxsplit=1)[0]

    for name in ("why_job", "cancel_job", "retry_job", "cancel_run", "restart_run", "reindex_video"):
        for one in ids:
            theirs, missing = (answer(f"SELECT * FROM {name}('{given}')") for given in (one, nobody))
            assert str(theirs).replace(one, "ID") == str(missing).replace(nobody, "ID"), name


def test_channels_tell_no_tenant_anything(tenants):
    """Every role may LISTEN. What is sent has no name, no text and no tenant in it."""
    listener = psycopg2.connect(tenants.connection.dsn, options="-c role=anon")
    listener.autocommit = True
    sources = " ".join(row["prosrc"] for row in tenants.run("SELECT prosrc FROM pg_proc WHERE prosrc ~ 'pg_notify'"))
    channels = {name + ("work" if name.endswith("_") else "") for name in re.findall(r"pg_notify\('(\w+)'", sources)}
    assert len(channels) >= 5
    with listener.cursor() as cursor:
        for channel in channels:
            cursor.execute(f"LISTEN {channel}")
    tenants.run("SELECT resume_tenant(%s)", BOB)
    job = tenants.add("work", {"word": SECRET}, tenant_id=str(BOB))
    tenants.claim("work", limit=9)
    tenants.run("SELECT cancel_job(%s)", job)
    tenants.run("SELECT emit_event('order.paid', %s, p_tenant_id => %s)", json.dumps({"word": SECRET}), BOB)
    tenants.run("SELECT announce_upload(%s)", f"inbox/{SECRET}")
    tenants.run("SELECT report_worker('w1', 'h', '1', '{work}', 1, 1, 'running'), drain_worker('w1')")
    with listener.cursor() as cursor:
        cursor.execute("SELECT 1")
    listener.poll()
    told = {(notify.channel, notify.payload) for notify in listener.notifies}
    assert {channel for channel, _ in told} >= {"cv_jobs_work", "cv_cancel", "cv_events", "cv_uploads", "cv_drain"}
    assert {payload for _, payload in told} <= {"", str(job), "w1"}
    listener.close()
