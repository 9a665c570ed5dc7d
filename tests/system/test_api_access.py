"""Who gets in to the HTTP API, and how often: keys of issuers by URL, API keys, limits, and addresses behind proxies."""

import contextlib
import datetime
import re
import socket
import time
import uuid

import pytest
from answering_server import AnsweringServer
from api import ALICE, TEAM, Key, token
from api_matrix import CALLERS
from probing import port_of, scrape
from test_api import check
from workers import wait_until

ADMIN, SERVICE = CALLERS["admin"], CALLERS["service"]
OPERATOR = token(app_metadata={"cortana_role": "operator"})


# ---- keys of an issuer, by URL -----------------------------------------------------------------------


class Issuer(AnsweringServer):
    """Serves a key set over HTTP, or something else."""

    def __init__(self):
        super().__init__(self.answer)
        self.keys, self.status, self.body, self.url = [], 200, None, self.url + "/jwks.json"

    def answer(self, request):
        request.tell_json(self.status, {"keys": [key.jwk for key in self.keys]} if self.body is None else self.body)


@pytest.fixture
def issuer():
    made = Issuer()
    yield made
    made.close()


def test_keys_come_from_the_issuer_and_stay_when_it_is_away(own_gateway, issuer, tmp_path):
    first, second = Key(tmp_path, "first", "ES256"), Key(tmp_path, "second", "RS256")
    issuer.keys = [first]
    gateway = own_gateway(CORTANA_JWKS_URL=issuer.url)
    wait_until(lambda: gateway.ask("/me", first.token()).status == 200, "the issuer's keys")
    assert gateway.ask("/me", token()).status == 200  # the secret is good beside them
    # Forged ids make it read again, but not for each of them.
    reads = len(issuer.requests)
    forged = [first.token(header={"kid": str(uuid.uuid4())}) for _ in range(3)] + [second.token()]
    for one in forged * 8:
        assert gateway.ask("/me", one).status == 401
    assert len(issuer.requests) <= reads + 1
    # What is no key set, or a weak one, changes nothing.
    for status, body in ((500, b""), (200, b"<html>"), (200, b'{"keys": 1}'), (200, b"[" * 300000)):
        issuer.status, issuer.body = status, body
        assert gateway.ask("/me", first.token()).status == 200


def test_a_set_that_cannot_be_read_is_read_again(own_gateway, issuer, tmp_path):
    key = Key(tmp_path, "late", "ES256")
    issuer.status = 503
    gateway = own_gateway(CORTANA_JWKS_URL=issuer.url)
    wait_until(lambda: gateway.process.says("the keys stay"), "the gateway to say that the set is away")
    assert gateway.ask("/me", key.token()).status == 401
    issuer.status, issuer.keys = 200, [key]
    wait_until(lambda: gateway.ask("/me", key.token()).status == 200, "the set to be read again")


# ---- API keys ----------------------------------------------------------------------------------------


def make(gateway, bearer=ADMIN, **wanted):
    answer = check(gateway.ask("/keys", bearer, "POST", {"name": "a script", "role": "editor", **wanted}), "POST", "/keys")
    assert answer.status == 201, answer.data
    return answer.json


def test_a_key_acts_for_its_maker(gateway, library, place):
    made = make(gateway)
    secret = made["secret"]
    assert secret.startswith(f"cvk_{made['prefix']}_") and len(secret) == 56
    assert gateway.ask("/me", secret).json == {"user_id": ALICE, "person": None, "team_ids": [], "role": "editor",
                                               "features": {"embedding_model": None}}
    assert check(gateway.ask("/session", secret), "GET", "/session").json["expires_at"] is None
    assert [item["id"] for item in gateway.ask("/videos", secret).json["items"]] == [library.videos["own"]]
    assert gateway.ask(f"/jobs/{library.jobs['own']}/retry", secret, "POST").status in (200, 409)
    assert gateway.ask(f"/jobs/{library.jobs['foreign']}", secret).status == 404
    listed = check(gateway.ask("/keys", ADMIN), "GET", "/keys")
    mine = next(item for item in listed.json["items"] if item["id"] == made["id"])
    assert mine["last_used_at"] and secret.encode() not in listed.data
    stored = place[1].value("SELECT to_jsonb(k)::text FROM api_keys k WHERE id = %s", made["id"])
    assert secret[13:] not in stored and secret not in gateway.process.log_path.read_text()


def test_a_key_of_a_team_sees_the_team_alone(gateway, library):
    made = make(gateway, team_id=TEAM, role="viewer")
    answer = gateway.ask("/me", made["secret"]).json
    assert (answer["user_id"], answer["team_ids"], answer["role"]) == (made["id"], [TEAM], "viewer")
    assert [item["id"] for item in gateway.ask("/videos", made["secret"]).json["items"]] == [library.videos["team"]]
    assert gateway.ask(f"/jobs/{library.jobs['team']}/retry", made["secret"], "POST").status == 403


def test_a_key_ends(gateway, place):
    made = make(gateway)
    assert gateway.ask("/me", made["secret"]).status == 200
    assert gateway.ask(f"/keys/{made['id']}", CALLERS["other tenant"], "DELETE").status == 403
    stranger = token(sub=str(uuid.uuid4()), app_metadata={"cortana_role": "admin"})
    assert check(gateway.ask(f"/keys/{made['id']}", stranger, "DELETE"), "DELETE", "/keys/{id}").status == 404
    assert check(gateway.ask(f"/keys/{made['id']}", ADMIN, "DELETE"), "DELETE", "/keys/{id}").status == 204
    assert gateway.ask("/me", made["secret"]).status == 401
    late = make(gateway, expires_at="2999-01-01T00:00:00Z")
    assert gateway.ask("/me", late["secret"]).status == 200
    place[1].run("UPDATE api_keys SET expires_at = now() WHERE id = %s", late["id"])
    assert gateway.ask("/me", late["secret"]).status == 401
    elsewhere = make(gateway, addresses="192.0.2.0/24,2001:db8::/32")
    assert gateway.ask("/me", elsewhere["secret"]).status == 401
    here = make(gateway, addresses="127.0.0.0/8")
    assert gateway.ask("/me", here["secret"]).status == 200


def test_a_key_that_is_none(gateway):
    secret = make(gateway)["secret"]
    before = scrape(port_of(gateway.process)).total("cortana_api_auth_failures_total")
    forged = [secret[:-1] + ("A" if secret[-1] != "A" else "B"), secret[:-1], secret + "A", "cvk_", "cvk_12345678_" + "'" * 43,
              secret.upper(), "cvk_00000000_" + secret[13:]]
    for one in forged:
        answer = check(gateway.ask("/me", one), "GET", "/me")
        assert answer.status == 401 and answer.headers["WWW-Authenticate"] == "Bearer", one
    assert scrape(port_of(gateway.process)).total("cortana_api_auth_failures_total") == before + len(forged)


# ---- links that sign in ------------------------------------------------------------------------------


def sign_in(gateway, code, **more):
    return check(gateway.ask("/session", None, "POST", {"token": code, **more}), "POST", "/session")


def test_a_code_is_exchanged_for_a_session(gateway, place):
    code = place[1].value("SELECT cortana.make_sign_in_code(%s)", ALICE)
    assert re.fullmatch(r"[\w-]{22}", code)  # 128 bits
    whom = [sign_in(gateway, code, dry_run=True) for _ in range(6)]
    assert {(one.json["role"], one.json["user_id"]) for one in whom} == {("service", ALICE)}
    assert not any("Set-Cookie" in one.headers for one in whom)
    for _ in range(5):
        answer = sign_in(gateway, code)
        assert answer.status == 200 and answer.json == whom[0].json
        cookie = answer.headers["Set-Cookie"].split(";")[0]
        assert gateway.ask("/session", Cookie=cookie).json == answer.json and code not in cookie
    assert 3500 < datetime.datetime.fromisoformat(answer.json["expires_at"]).timestamp() - time.time() <= 3600
    for more in ({}, {"dry_run": True}):
        answer = sign_in(gateway, code, **more)
        assert answer.status == 401 and "Set-Cookie" not in answer.headers and "make another one" in answer.json["detail"]
    kept = place[1].value("SELECT concat((SELECT json_agg(c) FROM cortana.sign_in_codes c), (SELECT json_agg(a) FROM audit_log a))")
    assert code not in kept and code not in gateway.process.log_path.read_text()


def test_a_code_needs_no_secret_of_the_gateway(own_gateway, place, issuer, tmp_path):
    """Nor does its session have to be what the gateway wants of tokens."""
    issuer.keys = [Key(tmp_path, "only", "ES256")]
    gateway = own_gateway(ready=("/openapi.json",), CORTANA_JWT_SECRET="", CORTANA_JWKS_URL=issuer.url, CORTANA_JWT_AUDIENCE="page",
                          CORTANA_JWT_ISSUER="https://issuer.example")
    code = place[1].value("SELECT cortana.make_sign_in_code(%s)", ALICE)
    # The document needs no database, which the gateway may not have found yet.
    answer = wait_until(lambda: (got := sign_in(gateway, code)).status != 503 and got, "the database")
    assert answer.status == 200
    assert gateway.ask("/me", Cookie=answer.headers["Set-Cookie"].split(";")[0]).json["role"] == "service"
    assert gateway.ask("/me", token()).status == 401


def test_a_code_that_signs_nobody_in(own_gateway, gateway, place):
    def make():
        return place[1].value("SELECT cortana.make_sign_in_code(%s)", ALICE)

    late, code = make(), make()
    place[1].run("UPDATE cortana.sign_in_codes SET expires_at = now() WHERE hash = sha256(%s::bytea)", late)
    before = scrape(port_of(gateway.process)).total("cortana_api_auth_failures_total")
    forged = [late, code[:-1], code + "A", code.swapcase(), "A" * 22]
    for one in forged:
        answer = sign_in(gateway, one)
        assert answer.status == 401 and "Set-Cookie" not in answer.headers, one
    assert scrape(port_of(gateway.process)).total("cortana_api_auth_failures_total") == before + len(forged)
    assert check(gateway.ask("/me", code), "GET", "/me").status == 401, "it is no credential of a request"
    assert gateway.ask("/me", Cookie=f"cortana={code}").status == 401
    assert sign_in(own_gateway("--no-operator"), code).status == 403
    place[1].run("SELECT cortana.prune_api_records()")
    assert place[1].value("SELECT count(*) FROM cortana.sign_in_codes WHERE expires_at <= now()") == 0


@pytest.mark.parametrize("method, path, body, headers, status", [
    ("GET", "/search", None, {}, 400), ("GET", "/jobs/no-uuid", None, {}, 400), ("GET", "/videos?limit=0&no=1", None, {}, 400),
    ("POST", "/clips", {"no": 1}, {}, 400), ("POST", "/clips", b"{", {"Content_Type": "application/json"}, 400),
    ("POST", "/clips", b"x", {"Content_Type": "text/plain"}, 415), ("POST", "/clips", {}, {"Idempotency_Key": "x" * 256}, 400),
    ("POST", "/clips", bytes(1_100_000), {"Content_Type": "application/json"}, 413),
    ("PATCH", f"/uploads/{uuid.uuid4()}", b"x", {"Content_Type": "text/plain"}, 415)], ids=map(str, range(9)))
def test_who_asks_comes_before_what_they_ask(gateway, method, path, body, headers, status):
    """Only whoever has a good credential hears what is wrong with a request."""
    good = make(gateway)["secret"]
    assert gateway.ask(path, good, method, body, **headers).status == status
    for bad in ["cvk_12345678_" + "A" * 43, "cvk_", "x", CALLERS["expired"]][:1 if status == 413 else None]:  # who sends much is cut off
        answer = gateway.ask(path, bad, method, body, **headers)
        assert (answer.status, answer.json["title"]) == (401, "Sign in"), answer.data


@pytest.mark.parametrize("bearer, wanted, status", [
    (CALLERS["viewer"], {}, 403), (CALLERS["owner"], {}, 403), (ADMIN, {"role": "service"}, 403),
    (OPERATOR, {"role": "service"}, 403), (ADMIN, {"team_id": str(uuid.uuid4())}, 400), (SERVICE, {}, 400),
    (SERVICE, {"role": "service", "team_id": TEAM}, 400), (ADMIN, {"expires_at": "2020-01-01T00:00:00Z"}, 400),
    (ADMIN, {"addresses": "10.0.0.1/8"}, 400), (ADMIN, {"role": "root"}, 400), (ADMIN, {"name": ""}, 400),
    (ADMIN, {"unknown": 1}, 400)], ids=map(str, range(12)))
def test_keys_that_are_refused(gateway, bearer, wanted, status):
    answer = gateway.ask("/keys", bearer, "POST", {"name": "x", "role": "viewer", **wanted})
    assert check(answer, "POST", "/keys").status == status, answer.data


def test_a_key_makes_no_key(gateway):
    admins = make(gateway, role="admin")["secret"]
    assert gateway.ask("/keys", admins).status == 200
    assert gateway.ask("/keys", admins, "POST", {"name": "x", "role": "viewer"}).status == 403


def test_a_key_of_the_service(gateway, own_gateway):
    made = make(gateway, SERVICE, role="service")
    assert gateway.ask("/me", made["secret"]).json["role"] == "service"
    assert gateway.ask("/workers", made["secret"]).status == 200
    outward = own_gateway("--no-operator")
    assert outward.ask("/me", made["secret"]).status == 403
    assert outward.ask("/me", OPERATOR).status == 403


def test_an_operator_sees_everything_but_is_not_the_service(gateway, library):
    answer = check(gateway.ask("/me", OPERATOR), "GET", "/me").json
    assert (answer["role"], answer["user_id"]) == ("operator", ALICE)
    assert {item["id"] for item in gateway.ask("/videos", OPERATOR).json["items"]} >= set(library.videos.values())
    assert gateway.ask("/workers", OPERATOR).status == 200


@pytest.mark.parametrize("arguments, environment", [(["--hide-payloads"], {}), ([], {"CORTANA_HIDE_PAYLOADS": "1"})])
def test_payloads_that_are_hidden_from_tenants(own_gateway, gateway, place, library, arguments, environment):
    queue = place[1]
    job = queue.add("segment_index", {"word": "secret", "deep": {"word": "secret"}}, video_id=library.videos["own"])
    claimed = queue.claim_one("segment_index")
    queue.run("SELECT complete_job(%s, %s, '{\"found\": \"secret\"}')", claimed["id"], claimed["lease_token"])
    hiding = own_gateway(*arguments, **environment)
    key = make(hiding, role="viewer")["secret"]
    for caller in (ADMIN, key):
        hidden = check(hiding.ask(f"/jobs/{job}", caller), "GET", "/jobs/{id}").json
        assert set(hidden["payload"]) >= {"word", "deep"} and set(hidden["payload"].values()) == {None}
        assert hidden["result"] == {"found": None}
        assert b"secret" not in hiding.ask(f"/jobs/{job}", caller).data
    for asked, caller in ((hiding, SERVICE), (hiding, OPERATOR), (gateway, ADMIN)):
        shown = check(asked.ask(f"/jobs/{job}", caller), "GET", "/jobs/{id}").json
        assert shown["payload"]["deep"] == {"word": "secret"} and shown["result"] == {"found": "secret"}
    queue.run("DELETE FROM jobs WHERE id = %s", job)


# ---- limits ------------------------------------------------------------------------------------------


def test_who_asks_too_often_waits(own_gateway):
    gateway = own_gateway(CORTANA_API_RATES="read=2:4,write=0.01:1,search=1:2,failure=0")
    mate = token(sub=str(uuid.uuid4()))
    # The gateway's own start has asked as Alice; somebody else's bucket is full.
    good, began = [], time.monotonic()

    def refused():
        answer = check(gateway.ask("/videos", mate), "GET", "/videos")
        good.extend([answer] * (answer.status == 200))
        return answer.status == 429 and answer

    over = wait_until(refused, "a request too many")
    assert 4 <= len(good) <= 4 + 2 * (time.monotonic() - began)
    assert good[0].headers["RateLimit"] == '"read";r=3;t=0'
    assert good[0].headers["RateLimit-Policy"] == '"read";q=4;w=2' and over.headers["Retry-After"] == "1"
    assert gateway.ask("/search?q=a", mate).status == 200  # another class
    assert gateway.ask("/videos", token(sub=str(uuid.uuid4()))).status == 200  # another caller
    assert [gateway.ask("/keys", ADMIN, "POST", {"name": "x", "role": "viewer"}).status for _ in range(2)] == [201, 429]
    wait_until(lambda: gateway.ask("/videos", mate).status == 200, "the bucket to fill")
    assert scrape(port_of(gateway.process)).total("cortana_api_rate_limited_total") >= 2


def test_guessing_is_slow(own_gateway):
    gateway = own_gateway("--trusted-proxies", "127.0.0.0/8", CORTANA_API_RATES="failure=0.001:5")
    statuses = [gateway.ask("/me", "cvk_12345678_" + "A" * 43).status for _ in range(4)]
    statuses += [gateway.ask("/me", token(secret="another secret that is as long as the other")).status for _ in range(4)]
    assert statuses == [401] * 5 + [429] * 3
    wrong = token(secret="another secret that is as long as the other")
    assert gateway.ask("/me", wrong, X_Forwarded_For="192.0.2.9").status == 401  # each address by itself
    over = gateway.ask("/me", wrong)
    assert over.status == 429 and int(over.headers["Retry-After"]) > 0
    assert gateway.ask("/session", None, "POST", {"token": wrong}).status == 429


def test_nobody_is_locked_out_by_others_of_the_address(own_gateway, gateway):
    """Strangers behind the same proxy or bridge guess without end: whoever has a valid credential does not notice."""
    key = make(gateway, name="beside guesses")["secret"]
    own = own_gateway(CORTANA_API_RATES="failure=0.001:5")
    wrong = [f"cvk_12345678_{'A' * 43}", key[:-1] + ("A" if key[-1] != "A" else "E"),
             token(secret="another secret that is as long as the other"), "x"]
    for _ in range(5):
        assert {own.ask("/me", one).status for one in wrong} <= {401, 429}
    assert {own.ask("/me", one).status for one in wrong} == {429}
    assert own.ask("/me", token()).status == own.ask("/me", key).status == 200
    cookie = own.ask("/session", None, "POST", {"token": token()}).headers["Set-Cookie"].split(";")[0]
    assert own.ask("/videos", Cookie=cookie).status == 200


@pytest.mark.parametrize("arguments, is_warned", [
    (["--behind-proxy"], True), (["--insecure-http"], True), ([], False),
    (["--behind-proxy", "--trusted-proxies", "127.0.0.1"], False)])
def test_a_proxy_that_nobody_named_is_told(own_gateway, arguments, is_warned):
    gateway = own_gateway(*arguments)
    assert bool(gateway.process.says("--trusted-proxies names no proxy")) == is_warned


def test_behind_a_proxy_all_connections_are_of_one_address(own_gateway):
    """A stranger's idle connections shut others of the same address out only where that is the stranger's own address."""
    for arguments, is_open in ((["--behind-proxy"], True), ([], False)):
        gateway = own_gateway(*arguments)
        with contextlib.ExitStack() as idle:
            for _ in range(70):
                idle.enter_context(socket.create_connection(("127.0.0.1", gateway.port)))
            if is_open:
                assert gateway.ask("/me", token()).status == 200
            else:
                with pytest.raises(OSError):
                    gateway.ask("/me", token())


# ---- addresses ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("arguments, headers, is_good", [
    ((), {"X_Forwarded_For": "192.0.2.7"}, False),  # nobody is believed
    (("127.0.0.1",), {"X_Forwarded_For": "192.0.2.7"}, True),
    (("127.0.0.1",), {}, False),
    (("127.0.0.1",), {"X_Forwarded_For": "192.0.2.7, 198.51.100.1"}, False),  # what a client itself has written
    (("127.0.0.1,198.51.100.1",), {"X_Forwarded_For": "203.0.113.1, 192.0.2.7, 198.51.100.1"}, True),
    (("127.0.0.1",), {"X_Forwarded_For": "192.0.2.7:4711"}, True),
    (("127.0.0.1",), {"X_Forwarded_For": "192.0.2.7, unknown"}, False),
    (("127.0.0.1",), {"X_Forwarded_For": "192.0.2.7," * 400}, False),
    (("127.0.0.1",), {"Forwarded": "for=192.0.2.7"}, False),  # another header
])
def test_the_address_behind_a_proxy(proxied, arguments, headers, is_good):
    gateway, secret = proxied(arguments)
    assert (gateway.ask("/me", secret, **headers).status == 200) == is_good


@pytest.fixture(scope="module")
def proxied(start_gateway, gateway):
    """(gateway, key): a gateway with these trusted proxies, and a key that is good from 192.0.2.0/24 alone."""
    secret = make(gateway, addresses="192.0.2.0/24")["secret"]
    known = {}

    def find(arguments):
        if arguments not in known:
            known[arguments] = start_gateway("--trusted-proxies", *arguments) if arguments else gateway
        return known[arguments], secret

    return find
