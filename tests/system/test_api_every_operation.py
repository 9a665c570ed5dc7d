"""Every operation of the document, for every kind of caller, on every kind of thing; and with drawn requests. The lists
come from gateway/operations, so that an operation that is added is tried, too."""

import json
import os
import re
import time
import urllib.parse
import uuid

import pytest
from api import ALICE, BOB, DOCUMENT, MATE, TEAM, token
from hypothesis import HealthCheck, given, seed, settings
from hypothesis import strategies as st
from test_api import OPERATIONS, check

OF_THE_GATEWAY = {"openapi", "docs", "sign_in", "sign_out", "events", "upload_options",  # test_api.py and test_api_events.py
                  "sign_in_with_password", "change_password", "read_invitation", "accept_invitation", "begin_at_provider",
                  "end_at_provider", "providers", "mcp", "feed", "unsubscribe", "mail_password_link",
                  "open_share", "shared_lines", "shared_picture", "oembed"}  # test_people.py
EXAMPLES = int(os.environ.get("CORTANA_API_EXAMPLES", "100"))  # drawn requests of each caller
RANKS = ["viewer", "editor", "admin", "operator", "service"]
# name: (rank, what they see of "own", "team" and "foreign", token)
CALLERS = {
    "nobody": (None, (), None),
    "expired": (None, (), token(exp=int(time.time()) - 60)),
    "no key": (None, (), "cvk_12345678_" + "A" * 43),
    "viewer": ("viewer", ("own", "team"), token(app_metadata={"cortana_role": "viewer", "team_id": TEAM})),
    "editor": ("editor", ("own", "team"), token(app_metadata={"team_id": TEAM})),
    "admin": ("admin", ("own", "team"), token(app_metadata={"cortana_role": "admin", "team_ids": [TEAM]})),
    "teamless": ("admin", ("own",), token(app_metadata={"cortana_role": "admin"})),
    "other tenant": ("admin", ("foreign",), token(sub=BOB, app_metadata={"cortana_role": "admin"})),
    "stranger": ("admin", (), token(sub=str(uuid.uuid4()), app_metadata={"cortana_role": "admin"})),
    "own word": ("editor", (), token(sub=str(uuid.uuid4()), user_metadata={"team_id": TEAM, "cortana_role": "admin"},
                                     cortana_role="service", app_role="service_role")),
    "operator": ("operator", ("own", "team", "foreign"),
                 token(sub=str(uuid.uuid4()), app_metadata={"cortana_role": "operator"})),
    "service": ("service", ("own", "team", "foreign"), token(role="service_role", sub=None)),
}
# What a drawn or made-up value would not do for; by the name of the parameter.
SAMPLES = {"name": "embed", "key": "hello", "worker": "host-1:7:boot", "host": "host-1", "node": "gpu", "q": "bridge", "kind": "mention",
           "value": "@anna", "cron": "30 2 * * *", "time_zone": "UTC", "workflow": "video_pipeline", "languages": "eng",
           "url": "https://example.net/hook", "code": "A" * 22, "email": "anna@example.org", "password": "correct horse",
           "new_password": "correct horse battery", "provider": "embed", "state": "embed." + "0" * 64}
BODIES = {
    "make_key": {"name": "x", "role": "viewer"},
    "create_upload": {"name": "a.mp4", "size": 1000},
    "add_subtitles": {"name": "a.srt", "text": "1"},
    "upload_parts": {"numbers": [1]},
    "change_workflow": {"name": "w", "steps": [], "dry_run": True},
    "change_host": {"cpu_budget": 1},
    "use_embeddings": {"model": None},
    "set_own_fields": {"fields": []},
    "define_node": {"job_types": ["ocr"], "mac": "00:11:22:aa:bb:cc"},
    "create_job": {"type": "clip_generate"},
    "send_event": {"name": "a.b"},
    "change_videos": {"ids": ["0f0e0d0c-0000-4000-8000-000000000001"]},
}


def resolve(schema):
    while "$ref" in schema or "oneOf" in schema:  # the latter: this or null
        schema = schema["oneOf"][0] if "oneOf" in schema else DOCUMENT["components"]["schemas"][schema["$ref"].rsplit("/", 1)[1]]
    return schema


def body_schema(operation):
    content = operation.get("requestBody", {}).get("content", {})
    return resolve(content["application/json"]["schema"]) if "application/json" in content else None


def sample(name, schema):
    """A value that a schema allows."""
    schema = resolve(schema)
    if name in SAMPLES and "enum" not in schema:
        return SAMPLES[name]
    if "enum" in schema:
        return schema["enum"][0]
    if "default" in schema:
        return schema["default"]
    kind = schema.get("format") or (schema["type"] if isinstance(schema["type"], str) else schema["type"][0])
    return {"uuid": str(uuid.uuid4()), "date-time": "2026-01-31T12:00:00Z", "boolean": False, "object": {},
            "integer": schema.get("minimum", 0), "number": schema.get("minimum", 0)}.get(kind, "x" * schema.get("minLength", 1))


class Things:
    """One thing of each kind that has an id, of Alice's, of her team's and of Bob's."""

    def __init__(self, gateway, queue, library):
        queue.run("SELECT report_worker('host-1:7:boot', 'host-1', '1', '{ocr}', 1, 0, 'running', '{}'),"
                  " report_disk('host-1', '/tmp', 100, 50)")
        self.ids = {"videos": library.videos, "jobs": library.jobs}
        self.makers = {"own": CALLERS["teamless"][2], "team": token(sub=MATE, team_ids=[TEAM], app_metadata={"cortana_role": "admin"}), "foreign": CALLERS["other tenant"][2]}
        for kind in ("segments", "runs", "clips", "uploads", "triggers", "keys", "saved-searches", "people", "sessions", "invitations", "collections", "shares"):
            self.ids[kind] = {}
        for thing, tenant, person in (("own", TEAM, ALICE), ("team", TEAM, MATE), ("foreign", BOB, BOB)):
            queue.run("INSERT INTO cortana.tenants (id, name) VALUES (%s, %s) ON CONFLICT DO NOTHING", tenant, thing)
            queue.run("INSERT INTO cortana.people (id, name, email) VALUES (%s, %s, %s)", person, thing, f"{thing}@example.org")
            self.ids["tenants"] = {"own": TEAM}
            queue.run("INSERT INTO cortana.members VALUES (%s, %s, 'editor')", person, tenant)
            self.ids["people"][thing] = person
            self.ids["sessions"][thing] = str(queue.value(
                "INSERT INTO cortana.sessions (hash, person_id, expires_at) VALUES (sha256(%s::bytea), %s, now() + interval '1 day') RETURNING id", thing, person))
            self.ids["invitations"][thing] = gateway.ask("/invitations", CALLERS["service"][2], "POST", {"role": "viewer", "tenant_id": tenant}).json["id"]
        for thing, video in library.videos.items():
            self.ids["segments"][thing] = str(queue.value("SELECT id FROM segments WHERE video_id = %s LIMIT 1", video))
            idle = queue.value("INSERT INTO videos (owner_id, team_id, s3_original_path) SELECT owner_id, team_id, s3_original_path FROM videos WHERE id = %s"
                               " RETURNING id", video)
            self.ids["runs"][thing] = str(queue.value("SELECT run_id FROM start_run('video_pipeline', '{}', %s)", idle))
            bearer, team = self.makers[thing], {"team_id": TEAM} if thing == "team" else {}
            self.ids["clips"][thing] = gateway.ask("/clips", bearer, "POST", {"video_id": video, "t_start": 5, "t_end": 900}).json["id"]
            self.ids["uploads"][thing] = gateway.ask("/uploads", bearer, "POST", {"name": "a.mp4", "size": 9, **team}).json["id"]
            self.ids["triggers"][thing] = gateway.ask("/triggers", bearer, "POST", {
                "name": f"t-{thing}", "cron": "30 2 * * *", "action": "job", "target": "clip_generate",
                **({"tenant_id": TEAM} if team else {})}).json["id"]
            self.ids["collections"][thing] = gateway.ask("/collections", bearer, "POST", {"name": thing, **team}).json["id"]
            assert gateway.ask(f"/tenants/{TEAM if team else {'own': ALICE}.get(thing, BOB)}/sharing", CALLERS["service"][2], "PUT", {"allowed": True}).status == 204
            self.ids["shares"][thing] = gateway.ask("/shares", bearer, "POST", {"video_id": video}).json["id"]
            self.ids["saved-searches"][thing] = gateway.ask("/saved-searches", bearer, "POST", {"query": "bridge", **team}).json["id"]
            self.ids["keys"][thing] = gateway.ask("/keys", bearer, "POST", {"name": "x", "role": "viewer", **team}).json["id"]


@pytest.fixture(scope="module")
def gateway(start_gateway, library):
    started = start_gateway()
    yield started
    assert [line for line in started.process.says("request ") if line["level"] == "error"] == []  # of what is answered 500


@pytest.fixture(scope="module")
def things(gateway, place, library):
    return Things(gateway, place[1], library)


def request_for(operation, path, identifier):
    """(path with its query, body, headers) of a request that the document allows."""
    query = {}
    for parameter in operation["parameters"]:
        if parameter["in"] == "path":
            value = identifier if parameter["name"] == "id" else "0" * 64 if path.startswith("/feeds/") else SAMPLES[parameter["name"]]
            path = path.replace("{%s}" % parameter["name"], value)
        elif parameter["in"] == "query" and parameter.get("required"):
            query[parameter["name"]] = sample(parameter["name"], parameter["schema"])
    if "video" in query:
        query["video"] = identifier
    schema = body_schema(operation)
    body = None
    if schema:
        body = BODIES.get(operation["operationId"]) or {
            name: sample(name, schema["properties"][name]) for name in schema["required"]}
        if "video_id" in body:
            body["video_id"] = identifier
    headers = {}
    if "upload_write" in operation["x-steps"]:
        body, headers = b"", {"Content_Type": "application/offset+octet-stream", "Upload_Offset": "0", "Tus_Resumable": "1.0.0"}
    return path + (f"?{urllib.parse.urlencode(query)}" if query else ""), body, headers


def is_about_a_tenants_thing(operation, path):
    names = {p["name"] for p in operation["parameters"] if p["in"] == "path" or p.get("required")}
    schema = body_schema(operation)
    return "{id}" in path and not path.startswith("/tenants/") or "video" in names or \
        bool(schema and "video_id" in schema["required"])


def kind_of(path):
    kind = path.split("/")[1]
    return "videos" if path in ("/clips", "/clips/covers") else kind


ASKED = [(method, path) for (method, path), operation in OPERATIONS.items()
         if operation["operationId"] not in OF_THE_GATEWAY]


@pytest.mark.parametrize("caller", CALLERS)
def test_every_operation(gateway, things, caller):
    rank, sees, bearer = CALLERS[caller]
    for method, path in ASKED:
        operation = OPERATIONS[method, path]
        least = operation.get("x-role", "viewer")
        is_a_things = is_about_a_tenants_thing(operation, path)
        hidden = set()
        for thing in ("missing", "foreign", "team", "own") if is_a_things else ("missing",):
            identifier = str(uuid.uuid4()) if thing == "missing" else things.ids[kind_of(path)][thing]
            is_seen = thing in sees or not is_a_things
            if kind_of(path) == "uploads" and thing == "team":
                is_seen = "foreign" in sees and "own" in sees  # an upload is its user's
            if is_a_things and kind_of(path) == "sessions":  # a person's alone
                is_seen = thing in sees and thing != "team" and not {"own", "foreign"} <= set(sees)
            if is_a_things and kind_of(path) in ("people", "invitations"):  # of a tenant that the caller manages
                is_seen = "own" in sees and ("team" in sees if thing != "foreign" else "foreign" in sees) and thing != "missing"
            if method == "DELETE" and is_seen and rank and RANKS.index(rank) >= RANKS.index(least):
                continue  # others still want it
            target, body, headers = request_for(operation, path, identifier)
            answer = check(gateway.ask(target, bearer, method.upper(), body, **headers), method, path)
            where = (caller, method, target, answer.status, answer.data[:300])
            if rank is None:
                assert answer.status == 401, where
            elif RANKS.index(rank) < RANKS.index(least):
                assert answer.status == 403, where
            elif not is_seen:
                assert answer.status == 404, where
            else:
                assert answer.status not in (401, 500), where
            if answer.status in (401, 403, 404):
                hidden.add((answer.status, answer.without_id().replace(identifier.encode(), b"")))
        statuses = {status for status, _ in hidden}
        assert all(len([1 for status, _ in hidden if status == one]) == 1 for one in statuses - {403}), \
            (caller, method, path, hidden)


def test_every_filter_on_what_is_hidden(gateway, things, library):
    """A foreign id in a query or a body is answered as one that does not exist."""
    editor = CALLERS["admin"][2]
    tried = 0
    for method, path in ASKED:
        operation = OPERATIONS[method, path]
        if RANKS.index(operation.get("x-role", "viewer")) > RANKS.index("admin") or path == "/audit":
            continue  # the log tells what the caller themself has asked for
        schema = body_schema(operation) or {"properties": {}}
        in_query = [p["name"] for p in operation["parameters"] if p["in"] == "query" and p["schema"].get("format") == "uuid"]
        in_body = [name for name, one in schema["properties"].items() if resolve(one).get("format") == "uuid"]
        for name in in_query + in_body:
            kind = {"video": "videos", "video_id": "videos", "run": "runs", "target": "videos"}.get(name)
            answers = []
            for foreign in (things.ids[kind]["foreign"] if kind else BOB, str(uuid.uuid4())):
                target, body, headers = request_for(operation, path, library.videos["own"])
                if name in in_body:
                    body = {**body, name: foreign}
                else:
                    target += ("&" if "?" in target else "?") + f"{name}={foreign}"
                answer = gateway.ask(target, editor, method, body, **headers)
                answers.append((answer.status, answer.without_id().replace(foreign.encode(), b"")))
            assert answers[0] == answers[1], (method, path, name)
            tried += 1
    assert tried >= 10


def test_each_post_may_be_repeated():
    for (method, path), operation in OPERATIONS.items():
        if method == "POST" and operation["x-steps"][0] not in ("agent", "secrets"):
            names = [parameter["name"] for parameter in operation["parameters"]]
            assert "Idempotency-Key" in names and {"409", "422"} <= set(operation["responses"]), path


def test_the_service_alone_is_asked_what_is_the_services(place):
    """What the SQL keeps for the service, the document keeps, too, and the other way round."""
    functions = {row["proname"]: (row["prosrc"], row["viewers"], row["editors"]) for row in place[1].run(
        "SELECT proname, prosrc, has_function_privilege('authenticated', oid, 'EXECUTE') AS viewers,"
        " has_function_privilege('cortana_app', oid, 'EXECUTE') AS editors FROM pg_proc WHERE pronamespace = 'api'::regnamespace")}
    for (method, path), operation in OPERATIONS.items():
        role = operation.get("x-role", "viewer")
        source, viewers, editors = functions.get(operation["operationId"], ("", True, True))
        assert viewers or role not in ("nobody", "viewer"), path
        if not editors:
            assert role in ("operator", "service"), path
        elif re.search(r"require_admin\(|NOT api.is_admin|chosen_tenant|find_webhook|find_trigger", source) and path != "/events":
            assert role == "admin", path
        else:
            assert role in ("viewer", "editor") or not source, (method, path)


# ---- drawn requests ----------------------------------------------------------------------------------

ANYTHING = st.recursive(
    st.none() | st.booleans() | st.integers(-2**70, 2**70) | st.floats(allow_nan=False, allow_infinity=False) |
    st.text(max_size=12) | st.sampled_from(["", "\u0000", "a" * 300, "' OR 1=1 --", "2026-02-30T12:00:00Z", "\u202e", "0001-01-01T00:00:00Z",
                                            "9999-12-31T23:59:59Z", "1e400", "-1"]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=6), inner, max_size=3), max_leaves=6)


def drawn(name, schema, identifiers):
    """Values that a schema allows, mostly."""
    schema = resolve(schema)
    if schema.get("format") == "uuid":
        allowed = st.sampled_from(identifiers) | st.uuids().map(str)
    elif schema.get("format") == "date-time":
        allowed = st.datetimes().map(lambda t: t.isoformat() + "Z")
    elif "enum" in schema:
        allowed = st.sampled_from(schema["enum"])
    elif schema.get("type") == "integer":
        allowed = st.integers(schema.get("minimum", -2**31), min(schema.get("maximum", 2**40), 2**62))
    elif schema.get("type") == "number":
        allowed = st.floats(schema.get("minimum", -1e9), schema.get("maximum", 1e9))
    elif schema.get("type") == "boolean":
        allowed = st.booleans()
    elif schema.get("type") == "object":
        allowed = st.dictionaries(st.text(min_size=1, max_size=6), ANYTHING, max_size=3)
    else:
        allowed = st.text(min_size=schema.get("minLength", 0), max_size=min(schema.get("maxLength", 20), 40)) | \
            st.just(str(sample(name, schema)))
    return allowed | allowed | allowed | ANYTHING


@st.composite
def requests(draw, identifiers):
    method, path = draw(st.sampled_from(ASKED))
    operation = OPERATIONS[method, path]
    target, query = path, {}
    for parameter in operation["parameters"]:
        name = parameter["name"]
        if parameter["in"] == "header" or not (parameter.get("required") or draw(st.booleans())):
            continue
        value = draw(drawn(name, parameter["schema"], identifiers))
        text = value if isinstance(value, str) else json.dumps(value)
        if parameter["in"] == "path":
            target = target.replace("{%s}" % name, urllib.parse.quote(text.encode("utf-8", "replace"), safe="") or "x")
        else:
            query[name] = text.encode("utf-8", "replace")
    schema = body_schema(operation)
    body = None
    if schema:
        body = {name: draw(drawn(name, one, identifiers)) for name, one in schema["properties"].items()
                if name in schema["required"] or draw(st.booleans())}
    return method, path, target + (f"?{urllib.parse.urlencode(query)}" if query else ""), body


@pytest.mark.parametrize("bearer", ["admin", "service"])
def test_drawn_requests_are_answered_as_the_document_says(gateway, things, bearer):
    identifiers = [identifier for kind in things.ids.values() for identifier in kind.values()]

    @given(requests(identifiers))
    @seed(20260731)
    @settings(max_examples=EXAMPLES, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck))
    def ask(request):
        method, path, target, body = request
        is_sent = body is not None or "upload_write" not in OPERATIONS[method, path]["x-steps"]
        answer = gateway.ask(target, CALLERS[bearer][2], method, body if is_sent else b"")
        assert answer.status != 500, (method, target, body, answer.data)
        if re.fullmatch(re.sub(r"\{\w+\}", "[^/]+", "/api/v1" + path), "/api/v1" + target.split("?")[0]):
            check(answer, method, path)

    ask()
    assert gateway.ask("/me", CALLERS["editor"][2]).json["user_id"] == ALICE
