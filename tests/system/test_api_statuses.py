"""Every status that the document has for an operation is one that the operation is answered with, seen here; what only a
bucket makes is seen in test_api_media.py. A status that is documented and not reached fails the last test."""

import fcntl
import json
import uuid

import psycopg2
import pytest
from api import ALICE, TEAM, token
from jobs import past_all_rules
from test_api import OPERATIONS, check, put_pictures
from test_api_every_operation import Things, kind_of, request_for

SERVICE = token(role="service_role", sub=None)
ADMIN = token(app_metadata={"cortana_role": "admin", "team_ids": [TEAM]})
# What only a bucket is answered with.
ELSEWHERE = {("poster", 307), ("frame", 307), ("segment_frame", 307),  # test_api_media.py
             ("upload_parts", 200), ("complete_upload", 200),  # test_api_uploads.py
             ("sign_in_with_password", 200), ("change_password", 200), ("read_invitation", 200), ("accept_invitation", 200),
             ("accept_invitation", 409), ("join_tenant", 204), ("choose_tenant", 204), ("end_session", 204),
             ("begin_at_provider", 200), ("end_at_provider", 200), ("end_at_provider", 401), ("end_at_provider", 409),
             ("unsubscribe", 204), ("mail_password_link", 204), ("mail_password_link", 409), ("change_saved_search", 409),  # test_mail.py
             ("feed", 200),  # test_saved_searches.py
             ("open_share", 200), ("shared_lines", 200), ("shared_picture", 200), ("shared_picture", 307), ("oembed", 200), ("sharing", 404), ("allow_sharing", 404),  # test_shares.py
             ("own_fields", 404), ("set_own_fields", 404),  # test_api_organise.py
             *(("mcp", int(status)) for status in OPERATIONS["POST", "/mcp"]["responses"])}  # test_cli_server.py: its refusals are messages  # test_people.py
# Bodies that do something.
WANTED = {
    "bulk_jobs": {"action": "cancel", "type": "embed", "dry_run": True},
    "embed_videos": {"model": "m"},
    "set_own_fields": {"fields": []},
    "change_workflow": {"name": "w", "steps": [{"key": "ocr", "job_type": "ocr"}], "dry_run": True},
    "invite": {"role": "viewer", "tenant_id": TEAM},
    "create_job": {"command": "hello", "dedupe_key": "one"},
    "search_by_meaning": {"vector": [0.6, 0.8], "model": "m"},
    "share": {"search_id": str(uuid.uuid4())},
    "create_trigger": {"name": "nightly", "cron": "0 2 * * *", "action": "job", "target": "transcode"},
}
# Names of what is not there, and bodies about it.
NOWHERE = {"/embed": "/nothing", "host-1:7:boot": "nobody", "/host-1": "/nowhere", "/hello": "/nothing"}
OF_WHAT_IS_MISSING = {"create_job": {"type": "ocr"}, "start_run": {"workflow": "video_pipeline"}, "send_event": {"name": "a.b"}}
LONG = b"x" * (1024 * 1024 + 1)
BY_NAME = {operation["operationId"]: (method, path) for (method, path), operation in OPERATIONS.items()}


class Seen:
    """Which pairs of operation and status there were."""

    def __init__(self):
        self.pairs = set()

    def ask(self, gateway, name, bearer, target=None, body=None, **headers):
        method, path = BY_NAME[name]
        answer = check(gateway.ask(target or path, bearer, method, body, **headers), method, path)
        self.pairs.add((name, answer.status))
        return answer

    def try_all(self, gateway, status, bearer, identifier, change=lambda name, target, body, headers: (target, body, headers)):
        """Asks each operation that may be answered with this status; what it is answered instead is noted, too."""
        for name in documented(status):
            target, body, headers = asked(name, identifier)
            target, body, headers = change(name, target, body, headers)
            self.ask(gateway, name, bearer, target, body, **headers)


def asked(name, identifier):
    """As request_for(), with what a made-up value does not do for."""
    method, path = BY_NAME[name]
    target, body, headers = request_for(OPERATIONS[method, path], path, identifier or str(uuid.uuid4()))
    body = {"token": SERVICE} if name == "sign_in" else WANTED.get(name, body)
    headers = {**headers, "Cookie": f"cortana=cvs_{'A' * 43}"} if name == "sign_out" else headers
    target = f"/events?topics=job:{identifier or uuid.uuid4()}" if name == "events" else target
    return target.replace("/webhooks/embed", "/webhooks/ours"), body, headers


def documented(status):
    return [operation["operationId"] for operation in OPERATIONS.values()
            if str(status) in operation["responses"] and operation["operationId"] != "mcp"]


@pytest.fixture(scope="module")
def seen():
    return Seen()


@pytest.fixture(scope="module")
def things(gateway, place, library):
    return Things(gateway, place[1], library)


def add_unknown(_, target, body, headers):
    return target + ("&" if "?" in target else "?") + "nonsense=1", body, headers


def make_missing(name, target, body, headers):
    for there, missing in NOWHERE.items():
        target = target.replace(there, missing)
    body = {**OF_WHAT_IS_MISSING[name], "video_id": str(uuid.uuid4())} if name in OF_WHAT_IS_MISSING else body
    return target, body, {**headers, "If_Match": "*"} if name == "define" else headers


def test_what_is_wrong_with_any_request(gateway, seen):
    missing = str(uuid.uuid4())
    seen.try_all(gateway, 401, None, missing)
    seen.try_all(gateway, 403, token(role="postgres"), missing)
    assert seen.ask(gateway, "sign_in", None, body={"token": token(role="postgres")}).status == 403
    assert seen.ask(gateway, "sign_in", None, body={"token": "nonsense"}).status == 401
    for name in ("sign_out", "sign_in_with_password", "read_invitation", "accept_invitation", "begin_at_provider", "end_at_provider",
                 "unsubscribe", "mail_password_link", "open_share", "shared_lines", "shared_picture"):
        target, body, headers = asked(name, missing)
        assert seen.ask(gateway, name, None, target, body, **headers, Origin="https://elsewhere.example").status == 403
    assert seen.ask(gateway, "upload_options", "nonsense").status == 401
    assert seen.ask(gateway, "providers", "nonsense").status == seen.ask(gateway, "feed", "nonsense", f"/feeds/{'0' * 64}").status == 401
    assert seen.ask(gateway, "oembed", "nonsense", "/oembed?url=x").status == seen.ask(gateway, "oembed", token(role="postgres"), "/oembed?url=x").status - 2 == 401
    seen.try_all(gateway, 400, SERVICE, missing, add_unknown)
    seen.try_all(gateway, 404, SERVICE, missing, make_missing)
    seen.try_all(gateway, 413, SERVICE, missing, lambda _, target, body, headers: (
        target, LONG, {**headers, "Content_Type": "application/json"}))
    seen.try_all(gateway, 415, SERVICE, missing, lambda _, target, body, headers: (
        target, b"x", {**headers, "Content_Type": "text/plain"}))


def test_a_key_of_another_request(gateway, seen, place, things):
    assert gateway.ask("/triggers/preview", SERVICE, "POST", {"cron": "0 1 * * *", "time_zone": "UTC"}, Idempotency_Key="k").status == 200
    caller = place[1].value("SELECT caller FROM idempotency_keys WHERE key = 'k'")
    place[1].run("INSERT INTO idempotency_keys (caller, key, request_hash, status) VALUES (%s, 'used', '', 200)", caller)
    place[1].run("ALTER FUNCTION api.begin_once SET lock_timeout = '20ms'")

    def with_key(key):
        return lambda _, target, body, headers: (target, body, {**headers, "Idempotency_Key": key})

    seen.try_all(gateway, 422, SERVICE, things.ids["videos"]["own"], with_key("used"))
    holder = psycopg2.connect(place[0])
    with holder.cursor() as cursor:
        cursor.execute("INSERT INTO cortana.idempotency_keys (caller, key, request_hash) VALUES (%s, 'held', '')", (caller,))
        for name in set(documented(409)) & set(documented(422)):
            target, body, headers = asked(name, None)
            answer = seen.ask(gateway, name, SERVICE, target, body, **headers, Idempotency_Key="held")
            assert answer.status == 409 and answer.headers["Retry-After"] == "1", name
    holder.close()
    place[1].run("ALTER FUNCTION api.begin_once SET lock_timeout = '5s'")


def end_clip(queue, clip):
    """As a worker leaves it."""
    queue.run(past_all_rules("UPDATE jobs SET status = 'done', is_ready = false, finished_at = now(), result = jsonb_build_object("
                             "'clip_path', 'clips/x.mp4') WHERE job_type = 'clip_generate' AND payload ->> 'clip_id' = %s"), clip)


def test_states_that_forbid_it(gateway, seen, place, library, store):
    """409 where no key is in play, and what only uploads have."""
    video = library.videos["own"]
    for status, is_allowed in ((409, False), (201, True)):
        assert gateway.ask(f"/tenants/{ALICE}/sharing", SERVICE, "PUT", {"allowed": is_allowed}).status == 204
        assert seen.ask(gateway, "share", ADMIN, body={"video_id": video}).status == status
    assert seen.ask(gateway, "make_key", ADMIN, body={"name": "x", "role": "viewer"}).status == 201
    place[1].run("INSERT INTO cortana.subtitle_files SELECT %s, n, 1, n FROM generate_series(1, 50) AS n", video)
    one = {"name": "a.srt", "text": "1"}
    assert seen.ask(gateway, "add_subtitles", ADMIN, f"/videos/{video}/subtitles", one).status == 409
    place[1].run("DELETE FROM cortana.subtitle_files WHERE video_id = %s", video)
    assert seen.ask(gateway, "add_subtitles", ADMIN, f"/videos/{video}/subtitles", {**one, "name": "a.doc"}).status == 400
    twins = [seen.ask(gateway, "create_trigger", ADMIN, body={**WANTED["create_trigger"], "name": name}).json for name in ("one", "two")]
    assert seen.ask(gateway, "change_trigger", ADMIN, f"/triggers/{twins[0]['id']}", {"name": "two"}).status == 409
    before, = place[1].run("SELECT status FROM videos WHERE id = %s", video)
    place[1].run("UPDATE videos SET status = 'processing' WHERE id = %s", video)
    redacted = {"video_id": video, "t_start": 3, "t_end": 777, "options": {"redact": ["mail"]}}
    for operation in ("request_clip", "clip_covers"):
        assert seen.ask(gateway, operation, ADMIN, body=redacted).status == 409
    place[1].run("UPDATE videos SET status = %s WHERE id = %s", before["status"], video)
    assert seen.ask(gateway, "clip_covers", ADMIN, body=redacted).status == 200
    for status in (202, 200):
        clip = seen.ask(gateway, "request_clip", ADMIN, body={"video_id": video, "t_start": 3, "t_end": 777})
        line, = place[1].run("SELECT id FROM segments WHERE video_id = %s LIMIT 1", video)
        quote = seen.ask(gateway, "quote", ADMIN, f"/segments/{line['id']}/quote", {"max_height": 555})
        reel = seen.ask(gateway, "reel", ADMIN, body={"q": "bridge"})
        assert clip.status == quote.status == reel.status == status
    assert seen.ask(gateway, "reel", ADMIN, body={"q": "zugzwang"}).status == 409
    clip = clip.json["id"]
    assert seen.ask(gateway, "delete_clip", ADMIN, f"/clips/{clip}").status == 409
    end_clip(place[1], clip)
    assert seen.ask(gateway, "delete_clip", ADMIN, f"/clips/{clip}").status == 204
    headers = {"Content_Type": "application/offset+octet-stream", "Tus_Resumable": "1.0.0"}
    upload = "/uploads/" + gateway.ask("/uploads", ADMIN, "POST", {"name": "b.mp4", "size": 8}).json["id"]
    assert seen.ask(gateway, "append_upload", ADMIN, upload, b"half", Upload_Offset="0", **headers).status == 204
    assert seen.ask(gateway, "append_upload", ADMIN, upload, b"half", Upload_Offset="1", **headers).status == 409
    chunks = seen.ask(gateway, "append_upload", ADMIN, upload, Transfer_Encoding="chunked", Upload_Offset="4", **headers)
    assert chunks.status == 411
    with open(store / upload[1:], "rb") as spool:
        fcntl.flock(spool, fcntl.LOCK_EX)
        assert seen.ask(gateway, "append_upload", ADMIN, upload, b"half", Upload_Offset="4", **headers).status == 423
    assert seen.ask(gateway, "append_upload", ADMIN, upload, b"half", Upload_Offset="4", **headers).status == 204
    assert seen.ask(gateway, "cancel_upload", ADMIN, upload).status == 409


def test_what_succeeds(gateway, seen, place, library, things, store):
    def own_of(name):
        return things.ids.get(kind_of(BY_NAME[name][1]), {}).get("own")

    queue = place[1]
    own = library.videos["own"]
    segment = things.ids["segments"]["own"]
    queue.run("SELECT store_embeddings('m', jsonb_build_array(jsonb_build_object('text_hash', text_hash, 'embedding', '[0.6, 0.8]'::jsonb)))"
              " FROM segments WHERE id = %s", segment)
    put_pictures(queue, store, own, segment)
    seen.ask(gateway, "create_webhook", ADMIN, body={"name": "ours", "url": "https://example.com/hook"})
    seen.ask(gateway, "define", SERVICE, "/definitions/hello", {"description": "says it", "argv": ["/bin/echo"]})
    idle = [str(queue.value("INSERT INTO videos (owner_id, s3_original_path, original_name) VALUES (%s, 'x', 'idle.mp4') RETURNING id",
                            ALICE)) for _ in range(3)]
    assert seen.ask(gateway, "find", SERVICE, f"/find?kind=video&name={idle[0]}").json["id"] == idle[0]
    assert seen.ask(gateway, "find", SERVICE, "/find?kind=video&name=idle.mp4").status == 409
    queue.run("INSERT INTO line_packs (video_id, key, size_bytes) VALUES (%s, %s, 9)", idle[0], f"lines/{idle[0]}/0.pack")
    assert seen.ask(gateway, "reindex_video", SERVICE, f"/videos/{idle[0]}/reindex").status == 202
    assert seen.ask(gateway, "reprocess_video", SERVICE, f"/videos/{idle[1]}/reprocess").status == 202
    for name, body in (("create_job", WANTED["create_job"]), ("start_run", {"workflow": "video_text", "video_id": idle[2]})):
        for _ in range(2):
            seen.ask(gateway, name, SERVICE, body=body)
    # Documents, pictures and the rest that may be known already.
    for name in documented(304):
        target, body, headers = asked(name, own_of(name))
        etag = seen.ask(gateway, name, SERVICE, target).headers["ETag"]
        assert seen.ask(gateway, name, SERVICE, target, If_None_Match=etag).status == 304
    for name in documented(412):
        target, body, headers = asked(name, own_of(name))
        bearer = ADMIN if "webhook" in name else SERVICE
        assert seen.ask(gateway, name, bearer, target, body, **headers, If_Match='"x"').status == 412
    stream = gateway.connect()
    stream.request("GET", "/api/v1/events?topics=tenant", headers={"Authorization": f"Bearer {SERVICE}"})
    assert stream.getresponse().headers["Content-Type"] == "text/event-stream"
    seen.pairs.add(("events", 200))
    stream.close()
    # Everything on what is there, and what takes it away at the end.
    ordered = sorted(BY_NAME, key=lambda name: BY_NAME[name][0] == "DELETE" and 1 + (name == "delete_video"))
    for name in ordered:
        if name not in ("events", "create_webhook"):
            target, body, headers = asked(name, own_of(name))
            seen.ask(gateway, name, ADMIN if "webhook" in target else SERVICE, target, body, **headers)


def test_too_many_requests(own_gateway, seen):
    bounded = own_gateway(CORTANA_API_RATES="read=0.001:30,write=0.001:30,search=0.001:30")
    for name, target in (("me", "/me"), ("revoke_key", f"/keys/{uuid.uuid4()}"), ("suggest", "/search/suggest?q=a"), ("sign_out", "/session"),
                         ("shared_lines", "/shared/x/lines")):
        while seen.ask(bounded, name, SERVICE, target).status != 429:
            pass
    seen.try_all(bounded, 429, SERVICE, str(uuid.uuid4()))


@pytest.mark.parametrize("code, status", [("XX000", 500), ("40001", 503), ("57014", 504), ("53100", 507)])
def test_faults_of_the_database(gateway, seen, place, code, status):
    """Every function fails; nobody hears why."""
    known = {row["proname"] for row in place[1].run("SELECT proname FROM pg_proc WHERE pronamespace = 'api'::regnamespace")}
    for name in ("enter(p jsonb)", "find_account(p jsonb)", "find_provider(p_name text)"):  # of who signs in
        place[1].run(f"CREATE OR REPLACE FUNCTION api.{name} RETURNS jsonb LANGUAGE plpgsql AS"
                     f" $$BEGIN RAISE EXCEPTION 'words of the inside' USING ERRCODE = '{code}'; END$$")
    for name in set(documented(status)) & known:
        place[1].run(f"CREATE OR REPLACE FUNCTION api.{name}(p jsonb) RETURNS api.answer LANGUAGE plpgsql AS"
                     f" $$BEGIN RAISE EXCEPTION 'words of the inside' USING ERRCODE = '{code}'; END$$")
    for name in documented(status):
        target, body, headers = asked(name, None)
        answer = seen.ask(gateway, name, SERVICE, target, body, **headers)
        assert answer.status == status and b"inside" not in answer.data, (name, answer.data)


def test_every_status_of_the_document_is_reached(seen):
    wanted = {(operation["operationId"], int(status)) for operation in OPERATIONS.values() for status in operation["responses"]}
    assert ELSEWHERE <= wanted
    missing = {}
    for name, status in sorted(wanted - seen.pairs - ELSEWHERE):
        missing.setdefault(status, []).append(name)
    assert missing == {}, json.dumps(missing, indent=1)
