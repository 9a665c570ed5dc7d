"""The HTTP API against a real gateway and a real PostgreSQL."""

import concurrent.futures
import datetime
import json
import os
import pathlib
import re
import socket
import subprocess
import time
import urllib.parse
import uuid

import jsonschema
import pytest
from api import ALICE, BOB, DOCUMENT, SECRET, TEAM, Gateway, Key, base64url, check_body, claims, content_of, sign_hs256, token
from api_matrix import CALLERS, LISTS, SIGNED_OUT, sees
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from jobs import Queue
from probing import get, port_of, scrape
from workers import silent, wait_until

OPERATIONS = {(method.upper(), path): operation for path, methods in DOCUMENT["paths"].items()
              for method, operation in methods.items()}
OWNER = CALLERS["owner"]
MANUAL = pathlib.Path(__file__).resolve().parents[2] / "docs" / "api.md"


@pytest.fixture(scope="module")
def keys(tmp_path_factory):
    directory = tmp_path_factory.mktemp("keys")
    return {"rsa": Key(directory, "rsa-1", "RS256"), "ec": Key(directory, "ec-1", "ES256")}


@pytest.fixture(scope="module")
def gateway(start_gateway, library, keys, tmp_path_factory):
    key_set = tmp_path_factory.mktemp("gateway") / "jwks.json"
    rsa = {name: value for name, value in keys["rsa"].jwk.items() if name != "alg"}  # as CVE-2026-44699 wants it
    key_set.write_text(json.dumps({"keys": [rsa, keys["ec"].jwk, {"kty": "oct", "k": base64url("x" * 40)}]}))
    return start_gateway(CORTANA_JWKS_FILE=str(key_set))


def schema_of(operation, status, media_type):
    content = content_of(operation, status)
    return (media_type, content[media_type]) if media_type in content else next(iter(content.items()), (None, None))


def check(answer, method, path):
    """That an answer is one of those that the document has for this operation."""
    operation = OPERATIONS[method, path]
    assert str(answer.status) in operation["responses"], (method, path, answer.status, answer.data)
    media_type, content = schema_of(operation, answer.status, answer.headers["Content-Type"])
    assert answer.headers["Content-Type"] == media_type and (media_type or not answer.data)
    if content:
        check_body(answer, content["schema"])
    assert answer.headers["X-Content-Type-Options"] == "nosniff"
    return answer


# ---- the document ----------------------------------------------------------------------------------


def test_the_document_is_served(gateway):
    answer = gateway.ask("/openapi.json")
    assert answer.status == 200 and answer.json == DOCUMENT
    assert gateway.ask("/openapi.json", If_None_Match=answer.headers["ETag"]).status == 304
    page = gateway.ask("/docs")
    assert page.status == 200 and page.headers["Content-Type"] == "text/html; charset=utf-8"
    assert page.headers["Content-Security-Policy"] == "default-src 'none'" and "<script" not in page.data.decode()
    assert all(f"<h2 id={operation['operationId']}>" in page.data.decode() for operation in OPERATIONS.values())


def examples_of(operation):
    """(what it is of, schema, example) of each parameter, body and answer in JSON that is no refusal."""
    for parameter in operation["parameters"]:
        yield parameter["name"], parameter["schema"], parameter["example"]
    contents = {status: answer.get("content", {}) for status, answer in operation["responses"].items() if status < "300"}
    for name, content in {"body": operation.get("requestBody", {}).get("content", {}), **contents}.items():
        if "schema" in content.get("application/json", {}):
            yield name, content["application/json"]["schema"], content["application/json"]["example"]


def test_each_operation_is_described_with_examples():
    tags = {tag["name"]: tag["description"] for tag in DOCUMENT["tags"]}
    for operation in OPERATIONS.values():
        name = operation["operationId"]
        assert operation["summary"].endswith(".") and operation["description"].endswith("."), name
        assert [tags[tag] for tag in operation["tags"]], name
        for place, schema, example in examples_of(operation):
            jsonschema.Draft202012Validator({**schema, "components": DOCUMENT["components"]},
                                            format_checker=jsonschema.FormatChecker()).validate(example), (name, place)
    assert '"default"' not in json.dumps(DOCUMENT["components"]), "generated clients take such a member for one that is always there"


def test_other_words_for_states_are_known(place):
    """Each word for the state of a job is one that the database translates to states that a job may have."""
    schemas = DOCUMENT["components"]["schemas"]
    states, found = set(schemas["JobState"]["enum"]), set()
    asked = next(parameter["schema"]["enum"] for parameter in OPERATIONS["GET", "/jobs"]["parameters"] if parameter["name"] == "state")
    for word in asked:
        found |= set(place[1].value("SELECT api.job_states(%s)", word))
    assert found == states


def test_a_payload_has_the_members_that_job_types_accept(place):
    """With their limits. What the service fills in is left out."""
    filled_in = {"video_id", "clip_id", "s3_original_path", "frame_paths", "line_paths", "covers", "quote", "parts", "left_out", "places", "words", "readers"}
    payload = DOCUMENT["components"]["schemas"]["Payload"]["properties"]
    for row in place[1].run("SELECT name, payload_schema FROM job_types WHERE is_public"):
        for member, rule in (row["payload_schema"] or {}).get("properties", {}).items():
            if member in filled_in:
                continue
            described = payload[member]
            if "$ref" in described:
                described = DOCUMENT["components"]["schemas"][described["$ref"].rsplit("/", 1)[1]]
            where = (row["name"], member)
            assert "description" in payload[member], where
            for keyword in ("enum", "minimum", "maximum", "minItems", "maxItems", "required"):
                assert described.get(keyword) == rule.get(keyword) or (keyword, described["type"]) == ("minItems", "array"), where


@pytest.mark.parametrize("path", ["/nothing", "/videos/", "//videos", "/videos/../me", "/videos/%2e%2e/me", "/me%00",
                                  "/VIDEOS", "/videos/x/y/z", "", "/openapi.json/"])
def test_what_is_not_in_the_document_does_not_exist(gateway, path):
    answer = gateway.ask(path, OWNER)
    assert answer.status == 404 and answer.json["type"] == "/problems/not-found"


def test_other_methods_are_refused_and_listed(gateway):
    answer = gateway.ask("/videos", OWNER, method="DELETE")
    assert answer.status == 405 and answer.headers["Allow"] == "GET, HEAD"
    assert gateway.ask("/videos", OWNER, method="HEAD").status == 200
    assert gateway.ask("/videos", OWNER, method="HEAD").data == b""


def put_pictures(queue, store, video, segment):
    for key in (f"thumbs/{video}/poster.jpg", f"frames/{video}/0.jpg", f"lines/{video}/0.pack"):
        (store / key).parent.mkdir(parents=True, exist_ok=True)
        (store / key).write_bytes(b"picture")
    queue.run("UPDATE videos SET s3_thumb_path = %s WHERE id = %s", f"thumbs/{video}/poster.jpg", video)
    queue.run("INSERT INTO kept_frames (video_id, t_ms, t_start, t_end, key) VALUES (%s, 0, 0, 9000, %s)", video,
              f"frames/{video}/0.jpg")
    queue.run("UPDATE segments SET crop_pack = %s, crop_offset = 0, crop_bytes = 7 WHERE id = %s", f"lines/{video}/0.pack",
              segment)


def share_of(gateway, video):
    assert gateway.ask(f"/tenants/{ALICE}/sharing", CALLERS["service"], "PUT", {"allowed": True}).status == 204
    return gateway.ask("/shares", OWNER, "POST", {"video_id": video}).json["id"]


def test_the_lines_of_the_manual(gateway, library, place, store, tmp_path):
    """Each line of docs/api.md does what it says, and each operation has one."""
    lines = [line.strip() for line in MANUAL.read_text().splitlines() if line.startswith("    curl ")]
    video = place[1].video(ALICE)
    job = place[1].add("transcode", video_id=video)
    another = place[1].video(ALICE)
    clip = gateway.ask("/clips", OWNER, "POST", {"video_id": library.videos["own"], "t_start": 1, "t_end": 9}).json
    upload = gateway.ask("/uploads", OWNER, "POST", {"name": "a.mp4", "size": 1000}).json
    segment = place[1].value("SELECT id FROM segments WHERE video_id = %s LIMIT 1", library.videos["own"])
    put_pictures(place[1], store, library.videos["own"], segment)
    environment = {**os.environ, "SEGMENT": str(segment), "API": f"{gateway.url}/api/v1", "TOKEN": OWNER, "CLIP": clip["id"],
                   "VIDEO": library.videos["own"], "JOB": str(job), "UPLOAD": upload["id"], "OPERATOR": CALLERS["service"],
                   "TRIGGER": gateway.ask("/triggers", CALLERS["admin"], "POST", {
                       "name": "nightly", "cron": "0 2 * * *", "action": "job", "target": "transcode"}).json["id"],
                   "COLLECTION": gateway.ask("/collections", OWNER, "POST", {"name": "mine"}).json["id"],
                   "WORKER": "host-1:7:boot", "HOST": "host-1", "TENANT": BOB,
                   "ADMIN": CALLERS["admin"], "TEAM": TEAM, "KEY": gateway.ask(
                       "/keys", CALLERS["admin"], "POST", {"name": "x", "role": "viewer"}).json["id"],
                   "RUN": str(place[1].value("SELECT run_id FROM start_run('video_pipeline', '{}', %s)", another))}
    place[1].run("SELECT report_worker('host-1:7:boot', 'host-1', '1', '{ocr}', 1, 0, 'running', '{}'),"
                 " report_disk('host-1', '/tmp', 100, 50)")
    place[1].run("INSERT INTO cortana.people (id, name, email) VALUES (%s, 'Alice', 'alice@example.org')", ALICE)
    place[1].run("INSERT INTO cortana.sign_in_providers (name, title, issuer, client_id) VALUES ('embed', 'x', 'https://x', 'x')")
    environment |= {"PERSON": ALICE, "SESSION": str(place[1].value(
        "INSERT INTO cortana.sessions (hash, person_id, expires_at) VALUES (sha256(''), %s, now() + interval '1 day') RETURNING id", ALICE)),
        "SHARE": share_of(gateway, library.videos["own"]), "SEARCH": gateway.ask("/saved-searches", OWNER, "POST", {"query": "bridge"}).json["id"],
        "INVITATION": gateway.ask("/invitations", CALLERS["service"], "POST", {"role": "viewer"}).json["id"]}
    for line in lines:
        if "/events?" in line:
            continue  # goes on for minutes: test_api_events.py
        done = subprocess.run(["bash", "-c", line], env=environment, cwd=tmp_path, capture_output=True, text=True,
                              check=False)
        assert done.returncode == 0, (line, done.stderr)
        is_empty = any(word in line for word in ("DELETE", "OPTIONS", "/pause", "/resume", "/limit", "/drain", "/wake", " -o "))
        assert not done.stdout if is_empty else json.loads(done.stdout), (line, done.stdout)
    text = "\n".join(lines)
    for _, path in OPERATIONS:
        names = {"tenants": "$TENANT", "triggers": "$TRIGGER", "videos": "$VIDEO", "jobs": "$JOB", "clips": "$CLIP", "uploads": "$UPLOAD", "runs": "$RUN", "keys": "$KEY", "collections": "$COLLECTION",
                 "segments": "$SEGMENT", "people": "$PERSON", "saved-searches": "$SEARCH", "sessions": "$SESSION", "invitations": "$INVITATION", "shares": "$SHARE"}
        line = path.replace("{id}", names.get(path.split("/")[1], "")).replace("{name}", "ours" if "webhooks" in path else "embed")
        line = line.replace("{worker}", "$WORKER").replace("{host}", "$HOST").replace("{key}", "hello").replace("{node}", "gpu")
        assert line in text or f"POST {path}" in MANUAL.read_text() or path in (  # of a browser, of a reader of feeds, of strangers
            "/session/tenant", "/feeds/{key}", "/shared/{code}/lines", "/shared/{code}/picture", "/oembed")
    place[1].run("DELETE FROM videos WHERE id IN (%s, %s) OR id IN (SELECT id FROM upload_sessions)", video, another)


def test_the_table_of_other_names(gateway):
    """Each operation and each field that it names is in the document, and each state is understood."""
    text = MANUAL.read_text().partition("## Other names for the same\n")[2].partition("\n## ")[0]
    operations, roles, states, fields = [
        [[cell.strip() for cell in line.strip("|").split("|")] for line in table.splitlines() if line.startswith("|")][2:]
        for table in text.split("\n\n|")[1:] for table in ["|" + table]]
    for asked, here, *_ in operations:
        named = re.findall(r"`([A-Z]+) (/[^`?]*)`", here)
        assert named or here == "–", asked
        assert [name for name in named if name not in OPERATIONS] == [], asked
    assert len(operations) > 25 and len(roles) == 4
    words = {word.strip() for words, _ in states for word in words.split(",")}
    for word in words:
        assert gateway.ask(f"/jobs?state={word}", OWNER).status == 200, word
    for word in words - {"retry", "retrying", "dead_letter"}:
        assert gateway.ask(f"/runs?status={word}", OWNER).status == 200, word
    schemas = DOCUMENT["components"]["schemas"]
    for asked, here in fields:
        named = re.findall(r"`([A-Z][A-Za-z]+)\.([a-z_]+)`", here)
        assert named, asked
        for schema, member in named:
            assert member in schemas[schema]["properties"], (asked, member)


# ---- who may see what ------------------------------------------------------------------------------


@pytest.mark.parametrize("caller", CALLERS)
def test_lists(gateway, library, caller):
    for method, path in LISTS:
        answer = check(gateway.ask(path, CALLERS[caller]), method, path.split("?")[0])
        assert answer.status == (401 if caller in SIGNED_OUT else 200)
        if answer.status == 200 and path not in ("/me", "/session"):
            for kind in (library.videos, library.jobs):
                for thing, identifier in kind.items():
                    assert sees(caller, thing) or identifier not in answer.data.decode()
    if caller not in SIGNED_OUT:
        seen = {item["id"] for item in gateway.ask("/videos", CALLERS[caller]).json["items"]}
        assert seen == {identifier for thing, identifier in library.videos.items() if sees(caller, thing)}
        seen = {item["id"] for item in gateway.ask("/jobs", CALLERS[caller]).json["items"]}
        assert seen >= {identifier for thing, identifier in library.jobs.items() if sees(caller, thing)}
        seen = {item["video_id"] for item in gateway.ask("/search?q=bridge", CALLERS[caller]).json["items"]}
        assert seen == {identifier for thing, identifier in library.videos.items() if sees(caller, thing)}


def test_the_login_alone_sees_nothing(place, gateway):
    _, queue = place
    queue.run("SET SESSION AUTHORIZATION api_login")
    try:
        for table in ("videos", "segments", "jobs"):
            with pytest.raises(Exception, match="permission denied"):
                queue.run(f"SELECT * FROM {table}")
        with pytest.raises(Exception, match="permission denied"):
            queue.run("SELECT api.videos('{}')")
    finally:
        queue.run("RESET SESSION AUTHORIZATION")


# ---- pages -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("path, count", [("/videos", 2), ("/videos/{id}/segments", 7), ("/search?q=old+bridge", 14),
                                         ("/videos/{id}/entities", 1), ("/jobs?type=transcode", 2)])
def test_pages_hold_everything_once(gateway, library, path, count):
    path = path.replace("{id}", library.videos["own"])
    joint = "&" if "?" in path else "?"
    whole = gateway.ask(path, OWNER).json["items"]
    items, cursor = [], ""
    while cursor is not None:
        page = gateway.ask(f"{path}{joint}limit=1{cursor and '&cursor=' + cursor}", OWNER).json
        assert len(page["items"]) == 1
        items += page["items"]
        cursor = page["next"]
    assert items == whole and len(items) == count


def test_a_cursor_belongs_to_its_filters(gateway):
    cursor = gateway.ask("/search?q=bridge&limit=1", OWNER).json["next"]
    for path in (f"/search?q=old&cursor={cursor}", f"/videos?cursor={cursor}", "/videos?cursor=AAAA",
                 "/videos?cursor=" + base64url({"k": ["x", "y"], "f": "0"})):
        answer = gateway.ask(path, OWNER)
        assert answer.status == 400 and "cursor" in answer.json["detail"], answer.data


@given(st.binary(max_size=60) | st.builds(lambda value: json.dumps(value).encode(), st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from("kf"), inner, max_size=2))))
@settings(max_examples=40, deadline=None, derandomize=True, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_any_cursor_is_read_or_refused(gateway, content):
    assert gateway.ask("/videos?cursor=" + base64url(content), OWNER).status == 400 or not content


# ---- answers ---------------------------------------------------------------------------------------


def test_search(gateway):
    hit = gateway.ask('/search?q=%22old%20bridge%22&kind=mention', OWNER).json["items"][0]
    assert hit["match"] == "exact" and hit["kinds"] == ["mention"]
    assert "".join(piece["text"] for piece in hit["snippet"]) == hit["text"]
    assert [piece["text"] for piece in hit["snippet"] if piece["hit"]] == ["old", "bridge"] or \
           [piece["text"] for piece in hit["snippet"] if piece["hit"]] == ["old bridge"]
    assert gateway.ask("/search?q=bridge&kind=url", OWNER).json["items"] == []
    refused = gateway.ask("/search?q=lang:eng", OWNER)
    assert refused.status == 400 and "add a word" in refused.json["detail"]


def test_segments_of_a_stretch(gateway, library):
    answer = gateway.ask(f"/videos/{library.videos['own']}/segments?from_ms=2000&to_ms=3500&min_confidence=0.5", OWNER)
    assert [item["t_start"] for item in answer.json["items"]] == [2000, 3000]


def test_a_video_that_did_not_change(gateway, library):
    first = gateway.ask(f"/videos/{library.videos['own']}", OWNER)
    again = gateway.ask(f"/videos/{library.videos['own']}", OWNER, If_None_Match=first.headers["ETag"])
    assert first.status == 200 and again.status == 304 and again.data == b""


def test_a_clip(gateway, library):
    wanted = {"video_id": library.videos["own"], "t_start": 1000, "t_end": 2500, "options": {"format": "gif"}}
    first = check(gateway.ask("/clips", OWNER, "POST", wanted), "POST", "/clips")
    again = check(gateway.ask("/clips", OWNER, "POST", wanted), "POST", "/clips")
    assert (first.status, again.status) == (202, 200) and first.json["id"] == again.json["id"]
    path = f"/clips/{first.json['id']}"
    assert first.headers["Location"] == f"/api/v1{path}"
    assert check(gateway.ask(path, OWNER), "GET", "/clips/{id}").json["state"] == "queued"
    assert gateway.ask(path, CALLERS["other tenant"]).status == 404
    foreign = gateway.ask("/clips", OWNER, "POST", {**wanted, "video_id": library.videos["foreign"]})
    missing = gateway.ask("/clips", OWNER, "POST", {**wanted, "video_id": str(uuid.uuid4())})
    assert foreign.status == missing.status == 404 and foreign.without_id() == missing.without_id()
    assert gateway.ask("/clips", CALLERS["viewer"], "POST", wanted).status == 403


def test_secrets_in_payloads_are_redacted(gateway, library, place):
    job = place[1].add("clip_generate", {"password": "hunter2", "url": "https://a:hunter3@host/"},
                       video_id=library.videos["own"])
    answer = check(gateway.ask(f"/jobs/{job}", OWNER), "GET", "/jobs/{id}")
    assert answer.status == 200 and b"hunter" not in answer.data and b"password" in answer.data


@pytest.mark.parametrize("path, pointer", [
    ("/videos?limit=0", "limit"), ("/videos?limit=201", "limit"), ("/videos?limit=1e2", "limit"),
    ("/videos?status=gone", "status"), ("/videos?after=yesterday", "after"), ("/videos?unknown=1", "unknown"),
    ("/videos?limit=1&limit=2", "limit"), ("/videos?limit=%zz", "query"), ("/search", "q"), ("/search?q=", "q"),
    ("/search?q=%ff", "query"), ("/search?q=a%00b", "query"), ("/search?q=" + "x" * 201, "q"),
    ("/videos/x", "id"), ("/jobs?video=x", "video"), ("/search?q=a&min_confidence=2", "min_confidence"),
    pytest.param("/videos?" + "&".join(["a"] * 2000), "query", id="many")])
def test_what_is_wrong_is_named(gateway, path, pointer):
    answer = gateway.ask(path, OWNER)
    assert answer.status == 400 and pointer in [fault["pointer"] for fault in answer.json["errors"]], answer.data


@pytest.mark.parametrize("body, status", [
    ("", 400), ("[]", 400), ("{", 400),
    pytest.param("[" * 100000, 400, id="deep"), ('{"video_id": 1, "t_start": 0}', 400),
    ('{"video_id": "x", "t_start": 0}', 400),
    pytest.param('{"t_start": ' + "9" * 10000 + "}", 400, id="digits"),
    ('{"t_start": 1, "t_start": 1}', 400), ('{"a\\u0000b": 1}', 400),
    pytest.param("x" * (1024 * 1024 + 1), 413, id="long")])
def test_bodies_that_are_refused(gateway, body, status):
    answer = gateway.ask("/clips", OWNER, "POST", body, Content_Type="application/json")
    assert answer.status == status, answer.data[:300]
    assert answer.headers["Content-Type"] == "application/problem+json"


def test_a_body_is_json_and_not_encoded(gateway):
    for headers in ({"Content_Type": "text/plain"}, {"Content_Type": "application/json", "Content_Encoding": "gzip"}):
        assert gateway.ask("/clips", OWNER, "POST", "{}", **headers).status == 415


# ---- tokens ----------------------------------------------------------------------------------------


def test_good_tokens(gateway, keys):
    for good in (token(), keys["rsa"].token(), keys["ec"].token(), token(aud=["x", "authenticated"]),
                 token(exp=time.time() + 60.5), keys["rsa"].token(header={"typ": "at+jwt"})):
        answer = check(gateway.ask("/me", good), "GET", "/me")
        assert answer.status == 200 and answer.json["user_id"] == ALICE and answer.json["role"] == "editor"
    assert gateway.ask("/me", token(role="service_role", sub=None)).json["role"] == "service"
    me = gateway.ask("/me", CALLERS["viewer"]).json
    assert set(me.pop("features")) == {"embedding_model"}  # another test may have begun to use one
    assert me == {"user_id": ALICE, "person": None, "team_ids": [TEAM], "role": "viewer"}


def unsigned(algorithm):
    return base64url({"alg": algorithm}) + "." + base64url(claims()) + "."


def with_signature(header, signature, **changes):
    text = base64url(header) + "." + base64url(claims(**changes))
    return text + "." + base64url(signature(text) if callable(signature) else signature)


ATTACKS = {
    "none": lambda keys: unsigned("none"),
    "None": lambda keys: unsigned("None"),
    "no signature": lambda keys: unsigned("HS256"),
    "no algorithm": lambda keys: with_signature({}, sign_hs256),
    "HS384": lambda keys: with_signature({"alg": "HS384"}, sign_hs256),
    "another secret": lambda keys: token(secret="another secret that is just as long as"),
    "the public key as secret, PEM": lambda keys: token(secret=keys["rsa"].public, header={"kid": "rsa-1"}),
    "the public key as secret, DER": lambda keys: token(secret=keys["rsa"].der, header={"kid": "rsa-1"}),
    "the modulus as secret": lambda keys: token(secret=keys["rsa"].jwk["n"], header={"kid": "rsa-1"}),
    "an empty secret for a key without alg": lambda keys: token(secret=b"", header={"kid": "rsa-1"}),
    "a secret of the key set": lambda keys: token(secret="x" * 40),
    "ES256 of zeros": lambda keys: with_signature({"alg": "ES256", "kid": "ec-1"}, bytes(64)),
    "ES256, DER": lambda keys: with_signature({"alg": "ES256", "kid": "ec-1"}, bytes(70)),
    "a long signature": lambda keys: with_signature({"alg": "ES256", "kid": "ec-1"}, bytes(9 * 1024)),
    "RS256 with the other key's id": lambda keys: keys["rsa"].token(header={"kid": "ec-1"}),
    "an own key in the header": lambda keys: with_signature(
        {"alg": "HS256", "jwk": {"kty": "oct", "k": base64url("y" * 40)}}, lambda text: sign_hs256(text, "y" * 40)),
    "a key's address": lambda keys: with_signature({"alg": "RS256", "jku": "http://127.0.0.1:1/", "x5u": "http://a/"},
                                                   bytes(256)),
    "kid: a path": lambda keys: keys["rsa"].token(header={"kid": "../../../../dev/null"}),
    "kid: SQL": lambda keys: keys["rsa"].token(header={"kid": "' OR 1=1 --"}),
    "kid: NUL": lambda keys: keys["rsa"].token(header={"kid": "rsa-1\0"}),
    "kid: long": lambda keys: keys["rsa"].token(header={"kid": "k" * 10240}),
    "kid: a number": lambda keys: token(header={"kid": 1}),
    "expired": lambda keys: token(exp=int(time.time()) - 31),
    "no end": lambda keys: token(exp=None),
    "an end in words": lambda keys: token(exp="tomorrow"),
    "a negative end": lambda keys: token(exp=-1),
    "an end of 1e308": lambda keys: token(exp=1e308),
    "not yet": lambda keys: token(nbf=int(time.time()) + 60),
    "made tomorrow": lambda keys: token(iat=int(time.time()) + 86400),
    "another audience": lambda keys: token(aud="somebody"),
    "no audience": lambda keys: token(aud=None),
    "a list of other audiences": lambda keys: token(aud=["a", "b"]),
    "an object as audience": lambda keys: token(aud={"authenticated": 1}),
    "sub is no UUID": lambda keys: token(sub="1 OR 1=1"),
    "no sub": lambda keys: token(sub=None),
    "a service whose sub is no UUID": lambda keys: token(role="service_role", sub="x"),
    "crit": lambda keys: token(header={"crit": ["exp"]}),
    "b64": lambda keys: token(header={"b64": False}),
    "another type": lambda keys: token(header={"typ": "secevent+jwt"}),
    "two parts": lambda keys: ".".join(token().split(".")[:2]),
    "four parts": lambda keys: token() + ".AAAA",
    "padding": lambda keys: token() + "=",
    "an end that is not canonical": lambda keys: token()[:-1] + {c: d for c, d in zip(
        "AEIMQUYcgkosw048", "BFJNRVZdhlptx159")}[token()[-1]],
    "blanks": lambda keys: token().replace(".", ". ", 1),
    "duplicate members": lambda keys: (lambda text: text + "." + base64url(sign_hs256(text)))(
        base64url({"alg": "HS256"}) + "." + base64url(json.dumps(claims())[:-1] + f', "sub": "{BOB}"}}')),
    "a list of claims": lambda keys: (lambda text: text + "." + base64url(sign_hs256(text)))(
        base64url({"alg": "HS256"}) + "." + base64url("[]")),
    "depth": lambda keys: token(x=json.loads("[" * 20 + "]" * 20)),
    "long": lambda keys: token(x="x" * 4096),
}
REFUSED_ROLES = {
    "postgres": {"role": "postgres"}, "cortana_worker": {"role": "cortana_worker"},
    "escaped": {"role": "service_role\u200b"}, "no role": {"role": None}, "a list": {"role": ["service_role"]},
    "cortana_role": {"app_metadata": {"cortana_role": "root"}},
    "cortana_role: a number": {"app_metadata": {"cortana_role": 1}},
}


@pytest.mark.parametrize("attack", ATTACKS)
def test_a_forged_token_is_refused(gateway, keys, attack):
    before = scrape(port_of(gateway.process)).total("cortana_api_auth_failures_total")
    answer = check(gateway.ask("/me", ATTACKS[attack](keys)), "GET", "/me")
    assert answer.status == 401 and answer.headers["WWW-Authenticate"] == "Bearer"
    assert scrape(port_of(gateway.process)).total("cortana_api_auth_failures_total") == before + 1


@pytest.mark.parametrize("role", REFUSED_ROLES)
def test_a_role_that_nobody_gets(gateway, role):
    assert check(gateway.ask("/me", token(**REFUSED_ROLES[role])), "GET", "/me").status == 403


def test_the_cookie(gateway, library):
    mine = f"cortana={token()}"
    path = f"/jobs/{library.jobs['own']}/retry"
    assert gateway.ask("/me", Cookie=f"a=b; {mine}").status == 200
    assert gateway.ask("/me", token(), Cookie=mine).status == 400
    assert gateway.ask("/me", Cookie=f"{mine}; {mine}").status == 400
    assert gateway.ask(path, method="POST", Cookie=mine).status == 403
    own = f"{gateway.url}"
    for origin in ("http://evil.example", own.replace("http:", "https:"), own.replace("http:", "ftp:"), f"http://{own}",
                   own.replace("http://", ""), own + "/", f"{own}.evil.example", "null", "//" + own.split("//")[1]):
        assert gateway.ask(path, method="POST", Cookie=mine, Origin=origin, X_Cortana="1").status == 403, origin
    assert gateway.ask(path, method="POST", Cookie=mine, Origin=own, X_Cortana="1").status in (200, 409)


def test_a_session_of_the_page(gateway, library):
    """The page hands in the token of its link and has a cookie from then on, which it can give back."""
    own = {"Origin": f"{gateway.url}", "X_Cortana": "1"}
    end = int(time.time()) + 300
    answer = check(gateway.ask("/session", None, "POST", {"token": token(exp=end)}, **own), "POST", "/session")
    cookie, *attributes = answer.headers["Set-Cookie"].split("; ")
    assert cookie == f"cortana={token(exp=end)}" and {"HttpOnly", "SameSite=Strict", "Path=/"} <= set(attributes)
    assert 290 <= int(dict(a.split("=") for a in attributes if "=" in a)["Max-Age"]) <= 300
    mine = check(gateway.ask("/session", Cookie=cookie), "GET", "/session").json
    assert mine["user_id"] == ALICE and datetime.datetime.fromisoformat(mine["expires_at"]).timestamp() == end
    assert answer.json == mine
    path = f"/jobs/{library.jobs['own']}/retry"
    assert gateway.ask(path, method="POST", Cookie=cookie, **own).status in (200, 409)
    gone = check(gateway.ask("/session", method="DELETE", Cookie=cookie, **own), "DELETE", "/session")
    assert gone.status == 204 and "cortana=; Path=/; Max-Age=0" in gone.headers["Set-Cookie"]
    # An expired cookie keeps nobody from signing in again.
    old = f"cortana={token(exp=1)}"
    assert gateway.ask("/session", None, "POST", {"token": token()}, Cookie=old, **own).status == 200


def test_a_session_that_is_refused(gateway, keys):
    for attack in ("none", "another secret", "expired", "the public key as secret, PEM"):
        body = {"token": ATTACKS[attack](keys)}
        answer = check(gateway.ask("/session", None, "POST", body), "POST", "/session")
        assert answer.status == 401 and "Set-Cookie" not in answer.headers
    for body, status in (({"token": token(role="postgres")}, 403), ({"token": token(role="anon")}, 403),
                         ({"token": "a; Path=/x"}, 400), ({}, 400)):
        answer = check(gateway.ask("/session", None, "POST", body), "POST", "/session")
        assert answer.status == status and "Set-Cookie" not in answer.headers
    for method, body in (("POST", {"token": token()}), ("DELETE", None)):
        answer = gateway.ask("/session", None, method, body, Origin="http://evil.example")
        assert answer.status == 403 and "Set-Cookie" not in answer.headers


def test_behind_a_proxy_the_cookie_is_the_hosts(own_gateway):
    own = own_gateway("--behind-proxy")
    cookie = own.ask("/session", None, "POST", {"token": token()}).headers["Set-Cookie"]
    assert cookie.startswith("__Host-cortana=") and cookie.endswith("; Secure")
    assert own.ask("/me", Cookie=cookie.split(";")[0]).status == 200
    assert own.ask("/me", Cookie=f"cortana={token()}").status == 401
    for scheme, status in (("http", 403), ("https", 204)):
        answer = own.ask("/session", None, "DELETE", Origin=f"{scheme}://127.0.0.1:{own.port}")
        assert answer.status == status, scheme


def test_tokens_of_the_command_line(program, gateway, tmp_path):
    def make(*arguments, **environment):
        return subprocess.run([program("cortana"), "token", *arguments], text=True, capture_output=True, check=False,
                              env={**os.environ, "CORTANA_JWT_SECRET": SECRET, **environment})

    made = make("--user", ALICE, "--team", TEAM, "--role", "admin", "--hours", "2")
    answer = gateway.ask("/session", made.stdout.strip()).json
    assert (answer["user_id"], answer["team_ids"], answer["role"]) == (ALICE, [TEAM], "admin"), made.stderr
    left = datetime.datetime.fromisoformat(answer["expires_at"]).timestamp() - time.time()
    assert 7100 < left <= 7200
    assert gateway.ask("/me", make("--role", "service").stdout.strip()).json["role"] == "service"
    assert gateway.ask("/me", make("--user", ALICE, CORTANA_JWT_AUDIENCE="x").stdout.strip()).status == 401
    for arguments, words in ((["--role", "admin"], "--user"), (["--user", "x"], "UUID"), (["--role", "root"], "one of"),
                             (["--user", ALICE, "--hours", "0"], "hours"), (["--user", ALICE, "--team", "x"], "UUID")):
        done = make(*arguments)
        assert done.returncode == 64 and words in done.stderr, done.stderr
    done = make("--user", ALICE, "--data", tmp_path)
    assert done.returncode == 1 and "gateway.secret" in done.stderr, done.stderr


# ---- abuse -----------------------------------------------------------------------------------------


SECOND = f"GET /api/v1/me HTTP/1.1\r\nHost: b\r\nAuthorization: Bearer {OWNER}\r\n\r\n".encode()


def send_raw(gateway, data, timeout=300, ends=b"\r\n\r\n"):
    with socket.create_connection(("127.0.0.1", gateway.port), timeout=timeout) as connection:
        connection.sendall(data)
        received = b""
        try:
            while piece := connection.recv(65536):
                received += piece
                if ends in received:
                    break
        except OSError:
            pass
        return received


@pytest.mark.parametrize("head", [
    b"GET /api/v1/me HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n",
    b"GET http://a/api/v1/me HTTP/1.1\r\nHost: a\r\n\r\n",
    b"POST /api/v1/clips HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
    b"POST /api/v1/clips HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\nContent-Length: 4\r\n\r\nabcd",
    b"POST /api/v1/clips HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\nffffffffffffffffff\r\n",
    b"POST /api/v1/clips HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\nTransfer-Encoding : chunked\r\n\r\n0\r\n\r\n",
    b"POST /api/v1/clips HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\nTransfer-Encoding:\r\n chunked\r\n\r\n0\r\n\r\n",
    b"POST /api/v1/clips HTTP/1.1\r\nHost: a\r\nContent-Length : 5\r\n\r\n0\r\n\r\n",
    b"GET /api/v1/me HTTP/1.1\r\nHost: a\r\nX: " + b"x" * 100000 + b"\r\n\r\n",
    b"GET /api/v1/me?" + b"a=1&" * 10000 + b" HTTP/1.1\r\nHost: a\r\n\r\n",
    b"GET /api/v1/me HTTP/1.1\r\n\r\n",
    b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" * 20 + b"\r\n\r\n"])
def test_requests_that_two_servers_could_read_differently(gateway, head):
    """They are refused, signed in or not, and what follows on the connection is not read."""
    for line in (b"Host: a\r\n", f"Host: a\r\nContent-Type: application/json\r\nAuthorization: Bearer {OWNER}\r\n".encode()):
        received = send_raw(gateway, head.replace(b"Host: a\r\n", line, 1) + SECOND, ends=b"never")
        assert received == b"" or 400 <= int(received.split(b" ", 2)[1]) < 500, received[:200]
        assert b"HTTP/1.1 200" not in received
    assert gateway.ask("/me", OWNER).status == 200


@pytest.mark.parametrize("encoding", ["xchunked", "identity", "chunked, identity", "gzip, chunked", '"chunked"', "\vchunked",
                                      "chunked;q=1", ""])
@pytest.mark.parametrize("target", ["/api/v1/session", "/api/v1/clips", "/robots.txt"])
def test_an_unknown_encoding_is_refused_at_once(gateway, encoding, target):
    """Nobody knows where such a body ends: the next request on the connection would be its middle, or it would never end."""
    head = f"POST {target} HTTP/1.1\r\nHost: a\r\nContent-Type: application/json\r\nTransfer-Encoding: {encoding}\r\n\r\n"
    received = send_raw(gateway, head.encode() + b"0\r\n\r\n" + SECOND, ends=b"never")
    assert received.startswith(b"HTTP/1.1 501 ") and received.count(b"HTTP/1.1 ") == 1, received[:300]
    assert b"Connection: close" in received and b"/problems/encoding" in received


def test_chunks_are_not_for_the_old_version(gateway):
    received = send_raw(gateway, b"POST /api/v1/session HTTP/1.0\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n" + SECOND,
                        ends=b"never")
    assert received.split(b" ", 2)[1] == b"400" and received.count(b"HTTP/1.") == 1, received[:300]


def test_a_body_that_is_far_too_long_is_refused_before_it_comes(gateway):
    head = f"POST /api/v1/clips HTTP/1.1\r\nHost: a\r\nAuthorization: Bearer {OWNER}\r\nContent-Length: %s\r\n\r\n"
    for length in ("99999999999", "999999999999999999999999", "-1"):
        received = send_raw(gateway, (head % length).encode())
        assert received.split(b" ", 2)[1] in (b"413", b"400"), received


def test_a_rare_kind_of_job_is_looked_for_in_portions(gateway, library):
    """The last page of a filter that nothing passes comes, and says that it is the last."""
    page = gateway.ask("/jobs?state=canceled", CALLERS["service"]).json
    while page["next"]:
        page = gateway.ask(f"/jobs?state=canceled&cursor={page['next']}", CALLERS["service"]).json
    assert page == {"items": [], "next": None}


def test_slow_headers_keep_nobody_out(gateway):
    slow = [socket.create_connection(("127.0.0.1", gateway.port)) for _ in range(30)]
    try:
        closed = set()

        def are_closed():
            for client in slow:
                try:
                    client.sendall(b"G")
                    client.settimeout(0.01)
                    if client.recv(1) == b"":
                        closed.add(client)
                except TimeoutError:
                    pass
                except OSError:
                    closed.add(client)
            assert gateway.ask("/me", OWNER).status == 200
            return len(closed) == len(slow)

        wait_until(are_closed, "all slow clients to be closed")
    finally:
        for client in slow:
            client.close()


def test_requests_drawn_from_the_document(gateway, library):
    """Parameters of every kind, good and bad: no 500, and no answer that the document does not have."""
    words = st.sampled_from(["", "0", "-1", "1", "x", "true", "null", "'", "\"a", "%", "2026-01-01T00:00:00Z",
                             "2026-02-31T00:00:00Z", library.videos["own"], "ffffffff-ffff-ffff-ffff-ffffffffffff",
                             "99999999999999999999", "NaN", "1e400", "old bridge", "tag:#x", "from:", "-", "*", "("])

    # A stream goes on for minutes, and a wait is waited for.
    @given(st.sampled_from([key for key in OPERATIONS if key[0] == "GET" and key[1] != "/events"]), st.data())
    @settings(max_examples=150, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck))
    def ask(key, data):
        method, path = key
        names = [parameter["name"] for parameter in OPERATIONS[key]["parameters"] if parameter["in"] == "query" and parameter["name"] != "wait"]
        query = {name: data.draw(words | st.text(max_size=10)) for name in names if data.draw(st.booleans())}
        target = path.replace("{name}", "embed").replace("{id}", data.draw(st.sampled_from([library.videos["own"], library.jobs["own"], "x"])))
        answer = check(gateway.ask(f"{target}?{urllib.parse.urlencode(query, errors='replace')}", OWNER), method, path)
        assert answer.status in (200, 400, 403, 404), (target, query, answer.data)

    ask()


# ---- beginning and end -----------------------------------------------------------------------------


def test_probes_and_numbers(gateway):
    port = port_of(gateway.process)
    assert get(port, "/readyz") == (200, "ok\n")
    assert gateway.ask("/me", OWNER).status == 200
    assert scrape(port).get_one("cortana_api_requests_total", route="me", method="GET", status="200") > 0


def test_a_database_that_is_silent(program, cluster, tmp_path):
    """A server that stands still does not keep the time limits of operations: the gateway does, and goes on when it does."""
    name = cluster.create_database()
    own = Gateway(program, cluster.url(name), tmp_path, "--connections", "4")
    try:
        with concurrent.futures.ThreadPoolExecutor(8) as threads:
            assert {one.status for one in threads.map(lambda _: own.ask("/me", OWNER), range(64))} == {200}  # all are connected
            with silent(cluster):
                asked = [threads.submit(own.ask, *one) for one in 4 * [("/videos", OWNER), ("/uploads", OWNER, "POST", {"name": "a", "size": 1})]]
                answers = [one.result() for one in asked]
        assert {(one.status, one.json["title"], one.json["detail"]) for one in answers} == {
            (503, "The database is away", "try again in a moment")}
        wait_until(lambda: own.ask("/videos", OWNER).status == 200, "the gateway to go on")
        assert own.process.stop() == 0
    finally:
        own.end()


def test_the_database_comes_and_goes(program, cluster, tmp_path):
    name = cluster.create_database()
    own = Gateway(program, cluster.url(name), tmp_path)
    try:
        with concurrent.futures.ThreadPoolExecutor(16) as readers:  # each of its connections has been used
            assert set(readers.map(lambda _: own.ask("/me", OWNER).status, range(64))) == {200}
        cluster.stop(immediate=True)
        answer = check(own.ask("/me", OWNER), "GET", "/me")
        assert answer.status == 503 and answer.headers["Retry-After"] == "1"
        cluster.start()
        end = time.monotonic() + 30
        while own.ask("/me", OWNER).status != 200:
            assert time.monotonic() < end
        for _ in range(2):
            assert [own.ask("/me", OWNER).status for _ in range(50)] == [200] * 50
            with concurrent.futures.ThreadPoolExecutor(16) as readers:
                assert set(readers.map(lambda _: own.ask("/me", OWNER).status, range(64))) == {200}
            killer = cluster.connect(name)
            Queue(killer).run("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'api-gateway'")
            checked = ("SELECT 1 FROM pg_stat_activity WHERE application_name = 'api-gateway'"
                       " AND query ~ 'schema_state'")
            while not Queue(killer).run(checked):  # its own connection, over which it checks the schema, was killed too
                assert own.ask("/me", OWNER).status == 200
            killer.close()
        assert own.process.stop() == 0
    finally:
        own.end()


@pytest.mark.parametrize("arguments, environment, words", [
    ([], {"CORTANA_JWT_SECRET": ""}, "nothing to check tokens with"),
    ([], {"CORTANA_JWT_SECRET": "short"}, "needs 32"),
    (["--api", "0.0.0.0:0"], {}, "--behind-proxy"),
    (["--api", "127.0.0.1"], {}, "not an address to listen at"),
    ([], {"CORTANA_JWKS_FILE": "/nonexistent"}, "/nonexistent"), ([], {"CORTANA_GRANT_SECRET_FILE": "/dev/null"}, "CORTANA_GRANT_SECRET_FILE"),
    *((["--rates", text], {}, "--rates") for text in (
        "read", "read=1", "read=x:1", "read=-1:1", "nothing=1:1", "read=1:0", "read=1:1:1", "=:")),
    *(([], {"CORTANA_JWKS_URL": url}, "CORTANA_JWKS_URL: ") for url in (
        "http://issuer.example/jwks", "ftp://127.0.0.1:1/x", "file:///etc/passwd", "x", "http://127.0.0.1.example:80/x", "http://10.0.0.1:80/x")),
    ([], {"CORTANA_DEFAULT_ROLE": "root"}, "CORTANA_DEFAULT_ROLE")])
def test_settings_that_are_refused(program, place, arguments, environment, words):
    done = subprocess.run([program("api-gateway"), *arguments], capture_output=True, text=True, timeout=300, check=False,
                          env={**os.environ, "DATABASE_URL": place[0], "CORTANA_JWT_SECRET": SECRET, **environment})
    assert done.returncode == 78 and words in done.stderr, done.stderr
