"""People: passwords, sessions, invitations and tenants, over HTTP, and what somebody who attacks them gets."""

import concurrent.futures
import hashlib
import re
import urllib.parse
import uuid

import pytest
from answering_server import AnsweringServer
from api import Key, base64url, token
from api_matrix import CALLERS
from probing import cpu_seconds
from test_api import check

SERVICE = CALLERS["service"]
PASSWORD = "correct horse battery"


class Browser:
    """Asks with a cookie, as the page does."""

    def __init__(self, gateway):
        self.gateway, self.cookie = gateway, None

    def ask(self, path, method="GET", body=None, **headers):
        own = {"X_Cortana": "1", "Origin": f"{self.gateway.url}", **({"Cookie": self.cookie} if self.cookie else {})}
        answer = self.gateway.ask(path, None, method, body, **{**own, **headers})
        if "Set-Cookie" in answer.headers:
            self.cookie = answer.headers["Set-Cookie"].split(";")[0]
        return answer

    def sign_in(self, email, password=PASSWORD, **headers):
        return self.ask("/session/password", "POST", {"email": email, "password": password}, **headers)

    def accept(self, link, name="Anna", **more):
        return self.ask("/invitations/account", "POST", {"code": code_of(link), "new_password": PASSWORD, "name": name, **more})


def code_of(link):
    return re.fullmatch(r"/invitation#c=([\w-]{22})", link)[1]


@pytest.fixture(scope="module")
def gateway(start_gateway):
    return start_gateway()


@pytest.fixture(scope="module")
def tenants(gateway):
    return [check(gateway.ask("/tenants", SERVICE, "POST", {"name": name}), "POST", "/tenants").json["tenant_id"] for name in ("News", "Sport")]


def address():
    return f"{uuid.uuid4().hex[:12]}@example.org"


def join(gateway, tenant, role="editor", name="Anna", email=None, bearer=SERVICE):
    """Invites somebody, who makes an account; returns their browser."""
    answer = check(gateway.ask("/invitations", bearer, "POST", {"role": role, "tenant_id": tenant}), "POST", "/invitations")
    assert answer.status == 201, answer.data
    browser = Browser(gateway)
    browser.email = email or address()
    accepted = check(browser.accept(answer.json["link"], name, email=browser.email), "POST", "/invitations/account")
    assert accepted.status == 200, accepted.data
    browser.id = accepted.json["user_id"]
    return browser


def test_an_invitation_becomes_a_person_who_signs_in(gateway, place, tenants):
    made = check(gateway.ask("/invitations", SERVICE, "POST", {"role": "editor", "tenant_id": tenants[0], "email": "Anna@Example.org"}), "POST", "/invitations").json
    offer = check(gateway.ask("/invitations/offer", None, "POST", {"code": code_of(made["link"])}), "POST", "/invitations/offer").json
    assert (offer["tenant"], offer["role"], offer["email"], offer["name"]) == ("News", "editor", "anna@example.org", None)
    anna = Browser(gateway)
    accepted = anna.accept(made["link"], email="other@example.org")  # the address is that of the invitation
    assert accepted.status == 200 and accepted.json["role"] == "editor" and accepted.json["team_ids"] == [tenants[0]]
    assert accepted.json["person"]["email"] == "anna@example.org"
    flags = accepted.headers["Set-Cookie"]
    assert "HttpOnly" in flags and "SameSite=Strict" in flags and 29 * 86400 < int(re.search(r"Max-Age=(\d+)", flags)[1]) <= 30 * 86400
    assert Browser(gateway).accept(made["link"]).status == 401, "a link works once"
    assert gateway.ask("/invitations/offer", None, "POST", {"code": code_of(made["link"])}).status == 404
    again = Browser(gateway)
    answer = check(again.sign_in("ANNA@example.org"), "POST", "/session/password")
    assert answer.status == 200 and answer.json["person"] == accepted.json["person"]
    assert again.cookie != anna.cookie
    upload = check(again.ask("/uploads", "POST", {"name": "a.mp4", "size": 9}), "POST", "/uploads").json
    assert place[1].value("SELECT team_id::text FROM videos WHERE id = %s", upload["video_id"]) == tenants[0]
    listed = check(gateway.ask("/people", SERVICE), "GET", "/people").json["items"]
    person = next(item for item in listed if item["email"] == "anna@example.org")
    assert person["state"] == "active" and person["last_seen_at"] and person["tenants"] == [{"id": tenants[0], "name": "News", "role": "editor"}]


def test_no_secret_is_kept_or_logged(gateway, place, tenants):
    made = gateway.ask("/invitations", SERVICE, "POST", {"role": "viewer", "tenant_id": tenants[0]}).json
    browser, email = Browser(gateway), address()
    assert browser.accept(made["link"], email=email).status == 200
    assert browser.ask("/session/password", "PUT", {"password": PASSWORD, "new_password": PASSWORD + " 2"}).status == 200
    assert Browser(gateway).sign_in(email, PASSWORD + " 3").status == 401
    kept = place[1].value("SELECT concat((SELECT json_agg(a) FROM audit_log a), (SELECT json_agg(p) FROM cortana.people p),"
                          " (SELECT json_agg(s) FROM cortana.sessions s), (SELECT json_agg(i) FROM cortana.invitations i))")
    for secret in (PASSWORD, code_of(made["link"]), browser.cookie.split("=")[1]):
        assert secret not in kept and secret not in gateway.process.log_path.read_text()
    assert place[1].value("SELECT password FROM cortana.people WHERE email = %s", email).startswith("$argon2id$v=19$m=19456,t=2,p=1$")


def test_signing_out(gateway, tenants):
    first = join(gateway, tenants[0])
    second, third = Browser(gateway), Browser(gateway)
    assert second.sign_in(first.email).status == third.sign_in(first.email).status == 200
    stolen = third.cookie
    assert check(third.ask("/session", "DELETE"), "DELETE", "/session").status == 204 and third.cookie == "cortana="
    assert gateway.ask("/me", Cookie=stolen).status == 401, "the cookie of before does not work any more"
    listed = check(first.ask("/sessions"), "GET", "/sessions").json["items"]
    assert [one["is_this"] for one in listed].count(True) == 1 and len(listed) == 2
    other = next(one for one in listed if not one["is_this"])
    assert other["address"] == "127.0.0.1"
    stranger = join(gateway, tenants[0], "admin")
    assert check(stranger.ask(f"/sessions/{other['id']}", "DELETE"), "DELETE", "/sessions/{id}").status == 404
    assert second.ask("/me").status == 200
    assert first.ask(f"/sessions/{other['id']}", "DELETE").status == 204 and second.ask("/me").status == 401
    assert second.sign_in(first.email).status == 200
    assert check(first.ask("/sessions", "DELETE"), "DELETE", "/sessions").status == 204
    assert first.ask("/me").status == second.ask("/me").status == 401 and stranger.ask("/me").status == 200


def test_a_change_of_the_password_ends_all_sessions(gateway, tenants):
    person = join(gateway, tenants[0])
    other, before = Browser(gateway), person.cookie
    other.sign_in(person.email)
    wrong = check(person.ask("/session/password", "PUT", {"password": "wrong", "new_password": "another battery"}), "PUT", "/session/password")
    assert wrong.status == 401 and person.ask("/me").status == 200
    assert person.ask("/session/password", "PUT", {"password": PASSWORD, "new_password": "short"}).status == 400
    changed = check(person.ask("/session/password", "PUT", {"password": PASSWORD, "new_password": "another battery"}), "PUT", "/session/password")
    assert changed.status == 200 and person.cookie != before
    assert person.ask("/me").status == 200 and other.ask("/me").status == gateway.ask("/me", Cookie=before).status == 401
    assert other.sign_in(person.email).status == 401 and other.sign_in(person.email, "another battery").status == 200


def test_an_admin_makes_a_link_for_a_new_password(gateway, tenants):
    admin, person = join(gateway, tenants[0], "admin"), join(gateway, tenants[0])
    made = check(admin.ask(f"/people/{person.id}/password", "POST"), "POST", "/people/{id}/password")
    assert made.status == 201 and person.ask("/me").status == 200
    offer = gateway.ask("/invitations/offer", None, "POST", {"code": code_of(made.json["link"])}).json
    assert offer["name"] == "Anna" and offer["role"] is None
    renewed = Browser(gateway)
    assert renewed.ask("/invitations/account", "POST", {"code": code_of(made.json["link"]), "new_password": "entirely new one"}).status == 200
    assert person.ask("/me").status == 401 and person.sign_in(person.email).status == 401
    assert person.sign_in(person.email, "entirely new one").status == 200
    assert renewed.ask("/invitations/account", "POST", {"code": code_of(made.json["link"]), "new_password": "entirely new 22"}).status == 401


def test_a_person_of_several_tenants_chooses(gateway, tenants):
    person = join(gateway, tenants[0], "admin")
    link = gateway.ask("/invitations", SERVICE, "POST", {"role": "viewer", "tenant_id": tenants[1]}).json["link"]
    taken = Browser(gateway).accept(link, email=person.email)
    assert taken.status == 409 and "sign in" in taken.json["detail"], "nobody takes an account over by an invitation"
    assert check(person.ask("/invitations/membership", "POST", {"code": code_of(link)}), "POST", "/invitations/membership").status == 204
    me = check(person.ask("/me"), "GET", "/me").json
    assert me["role"] == "viewer" and me["team_ids"] == [tenants[1]] == [me["person"]["tenant_id"]]
    assert [(one["name"], one["role"]) for one in me["person"]["tenants"]] == [("News", "admin"), ("Sport", "viewer")]
    assert person.ask("/people").status == 403
    assert check(person.ask("/session/tenant", "PUT", {"tenant_id": tenants[0]}), "PUT", "/session/tenant").status == 204
    assert person.ask("/me").json["role"] == "admin" and person.ask("/people").status == 200
    assert person.ask("/session/tenant", "PUT", {"tenant_id": str(uuid.uuid4())}).status == 404
    assert gateway.ask(f"/people/{person.id}?tenant_id={tenants[1]}", SERVICE, "DELETE").status == 204
    assert person.ask("/session/tenant", "PUT", {"tenant_id": tenants[1]}).status == 404
    assert check(person.ask(f"/tenants/{tenants[0]}", "PATCH", {"name": "News"}), "PATCH", "/tenants/{id}").status == 204
    assert person.ask(f"/tenants/{tenants[1]}", "PATCH", {"name": "Mine"}).status == 404


def test_an_admin_says_in_which_zone_files_are_named(gateway, place, tenants):
    admin = join(gateway, tenants[0], "admin")
    video = place[1].value("INSERT INTO videos (original_name, team_id) VALUES ('2026-03-01 15-05-10.mkv', %s) RETURNING id::text", tenants[0])
    change = lambda zone, tenant=tenants[0]: check(admin.ask(f"/tenants/{tenant}", "PATCH", {"time_zone": zone}), "PATCH", "/tenants/{id}")
    recorded = lambda: [admin.ask(f"/videos/{video}").json[member] for member in ("recorded_at", "recorded_from")]
    assert recorded() == ["2026-03-01T15:05:10+00:00", "name_utc"]
    assert change("europe/berlin").status == 204 and recorded() == ["2026-03-01T14:05:10+00:00", "name_zone"]
    (listed,) = (one for one in gateway.ask("/tenants", SERVICE).json["items"] if one["tenant_id"] == tenants[0])
    assert (listed["name"], listed["time_zone"]) == ("News", "Europe/Berlin")
    assert "not a time zone" in change("Berlin").json["detail"] and change("UTC", tenants[1]).status == 404
    assert join(gateway, tenants[0]).ask(f"/tenants/{tenants[0]}", "PATCH", {"time_zone": "UTC"}).status == 403
    assert change("UTC").status == 204 and recorded() == ["2026-03-01T15:05:10+00:00", "name_utc"]
    place[1].run("DELETE FROM videos WHERE id = %s", video)


def test_who_is_disabled_or_removed_is_out_at_once(gateway, place, tenants):
    admin, person = join(gateway, tenants[0], "admin"), join(gateway, tenants[0], "admin")
    key = person.ask("/keys", "POST", {"name": "mine", "role": "viewer"}).json["secret"]
    assert gateway.ask("/me", key).status == 200
    assert check(admin.ask(f"/people/{person.id}", "PATCH", {"state": "disabled"}), "PATCH", "/people/{id}").status == 204
    assert person.ask("/me").status == person.sign_in(person.email).status == gateway.ask("/me", key).status == 401
    assert admin.ask(f"/people/{person.id}", "PATCH", {"state": "active", "role": "viewer", "name": "Otto"}).status == 204
    back = person.sign_in(person.email)
    assert (back.json["role"], back.json["person"]["name"]) == ("viewer", "Otto")
    assert check(admin.ask(f"/people/{person.id}/sessions", "DELETE"), "DELETE", "/people/{id}/sessions").status == 204
    assert person.ask("/me").status == 401
    assert check(admin.ask(f"/people/{person.id}", "DELETE"), "DELETE", "/people/{id}").status == 204
    assert person.sign_in(person.email).status == 401
    assert place[1].value("SELECT count(*) FROM cortana.people WHERE id = %s", person.id) == 0
    assert admin.ask(f"/people/{admin.id}", "PATCH", {"role": "viewer"}).status == 403


# ---- attacks -------------------------------------------------------------------------------------------


def test_admins_of_one_tenant_get_no_further(gateway, tenants):
    """Neither into another tenant by a common member, nor to the rights of an operator."""
    admin, foreign = join(gateway, tenants[0], "admin"), join(gateway, tenants[1], "admin")
    common = join(gateway, tenants[0])
    link = gateway.ask("/invitations", SERVICE, "POST", {"role": "admin", "tenant_id": tenants[1]}).json["link"]
    assert common.ask("/invitations/membership", "POST", {"code": code_of(link)}).status == 204
    operator = join(gateway, tenants[0], "operator")
    assert operator.ask("/me").json["role"] == "operator"
    for one in (common, operator, foreign):
        for path, method, body in ((f"/people/{one.id}/password", "POST", None), (f"/people/{one.id}/sessions", "DELETE", None),
                                   (f"/people/{one.id}", "PATCH", {"state": "disabled"}), (f"/people/{one.id}", "PATCH", {"name": "X"})):
            assert admin.ask(path, method, body).status == 404, (path, method)
    for one in (operator, foreign):
        assert admin.ask(f"/people/{one.id}", "PATCH", {"role": "viewer"}).status == 404
        assert admin.ask(f"/people/{one.id}", "DELETE").status == 404
    assert admin.ask(f"/people/{common.id}", "PATCH", {"role": "viewer", "tenant_id": tenants[1]}).status == 404
    assert admin.ask(f"/people/{common.id}?tenant_id={tenants[1]}", "DELETE").status == 404
    seen = {item["id"]: item for item in admin.ask("/people?limit=200").json["items"]}
    assert foreign.id not in seen and [one["id"] for one in seen[common.id]["tenants"]] == [tenants[0]]
    assert seen[common.id]["may_change"] is False
    assert admin.ask("/invitations", "POST", {"role": "operator"}).status == 403
    assert admin.ask("/invitations", "POST", {"role": "viewer", "tenant_id": tenants[1]}).status == 404
    invitation = gateway.ask("/invitations", SERVICE, "POST", {"role": "viewer", "tenant_id": tenants[1]}).json
    assert invitation["id"] not in [one["id"] for one in check(admin.ask("/invitations"), "GET", "/invitations").json["items"]]
    assert admin.ask(f"/invitations/{invitation['id']}", "DELETE").status == 404
    assert check(foreign.ask(f"/invitations/{invitation['id']}", "DELETE"), "DELETE", "/invitations/{id}").status == 204
    assert Browser(gateway).accept(invitation["link"], email=address()).status == 401
    key = admin.ask("/keys", "POST", {"name": "k", "role": "admin", "team_id": tenants[0]}).json["secret"]
    assert gateway.ask("/invitations", key, "POST", {"role": "viewer", "tenant_id": tenants[0]}).status == 403
    assert all(one.ask("/me").status == 200 for one in (common, operator, foreign))


def test_a_link_is_used_once_by_many_at_once(gateway, place, tenants):
    made = gateway.ask("/invitations", SERVICE, "POST", {"role": "viewer", "tenant_id": tenants[0]}).json
    before = place[1].value("SELECT count(*) FROM cortana.people")
    with concurrent.futures.ThreadPoolExecutor(6) as crowd:
        answers = list(crowd.map(lambda _: Browser(gateway).accept(made["link"], email=address()).status, range(6)))
    assert answers.count(200) == 1 and set(answers) <= {200, 401, 503}, answers
    assert place[1].value("SELECT count(*) FROM cortana.people") == before + 1
    late = gateway.ask("/invitations", SERVICE, "POST", {"role": "viewer", "tenant_id": tenants[0]}).json
    place[1].run("UPDATE cortana.invitations SET expires_at = now() WHERE id = %s", late["id"])
    assert Browser(gateway).accept(late["link"], email=address()).status == 401
    place[1].run("SELECT cortana.prune_api_records()")
    assert place[1].value("SELECT count(*) FROM cortana.invitations WHERE expires_at <= now()") == 0


def test_a_session_is_not_what_somebody_else_brought(gateway, tenants):
    """Fixation, forged claims, other sites, and a secret in the wrong place."""
    person = join(gateway, tenants[0])
    planted = Browser(gateway)
    planted.cookie = "cortana=cvs_" + "A" * 43
    assert planted.ask("/me").status == 401
    assert planted.sign_in(person.email).status == 200 and planted.cookie != "cortana=cvs_" + "A" * 43
    forged = token(session=str(uuid.uuid4()), app_metadata={"cortana_role": "editor", "team_id": tenants[0]})
    assert gateway.ask("/session/tenant", forged, "PUT", {"tenant_id": tenants[0]}).status == 404
    for headers in ({"Origin": "https://evil.example"}, {"X_Cortana": "0"}):
        assert person.ask("/sessions", "DELETE", **headers).status == 403
    assert person.ask("/session", "DELETE", Origin="https://evil.example").status == 403
    assert person.sign_in(person.email, Origin="https://evil.example").status == 403
    assert person.ask("/me").status == 200


def test_unknown_addresses_look_like_wrong_passwords(gateway, tenants):
    person = join(gateway, tenants[0])
    answers, took = [], []
    for email in (person.email, "nobody@example.org"):
        before = cpu_seconds(gateway.process.pid)
        answers.append({gateway.ask("/session/password", None, "POST", {"email": email, "password": "wrong password"}).without_id()
                        for _ in range(8)})
        took.append(cpu_seconds(gateway.process.pid) - before)
    assert answers[0] == answers[1] and len(answers[0]) == 1 and b"401" in answers[0].pop()
    assert 0.5 < took[0] / took[1] < 2, took  # without the work of Argon2 it is a tenth


def test_wrong_passwords_are_slowed_without_locking_out(own_gateway, tenants):
    gateway = own_gateway("--trusted-proxies", "127.0.0.1", CORTANA_API_RATES="read=0,write=0,failure=0.01:4")
    person = join(gateway, tenants[0])

    def tries(email, password, origin):
        return gateway.ask("/session/password", None, "POST", {"email": email, "password": password}, X_Forwarded_For=origin)

    for email in (person.email, "nobody@example.org"):
        answers = [tries(email, "wrong password", f"192.0.2.{n}").status for n in range(6)]
        assert answers == [401] * 4 + [429] * 2, "of an account, from many addresses"
    refused = tries(person.email, PASSWORD, "192.0.2.99")
    assert refused.status == 429 and int(refused.headers["Retry-After"]) > 0
    assert tries(person.email, PASSWORD, "127.0.0.1").status == 200, "from where they are signed in they get in"
    assert person.ask("/me").status == 200, "and who is signed in stays so"
    answers = [tries(f"{n}@example.org", "wrong password", "198.51.100.7").status for n in range(6)]
    assert answers == [401] * 4 + [429] * 2, "of an address, for many accounts"


# ---- OpenID Connect --------------------------------------------------------------------------------------


class Provider(AnsweringServer):
    """A provider of OpenID Connect: what it says of whoever comes is in `claims`."""

    def __init__(self, directory):
        super().__init__(self.answer)
        self.key, self.codes, self.claims, self.forged, self.issuer = Key(directory, "one", "RS256"), {}, {}, {}, self.url

    def answer(self, request):
        if request.command == "POST":
            self.give_token(request, dict(urllib.parse.parse_qsl(request.body.decode())))
        elif request.path.startswith("/authorize?"):  # a browser, whose person has a session there
            given = self.sign_in(request.path, **self.claims)
            request.tell(302, Location=request.query["redirect_uri"] + "?" + urllib.parse.urlencode(
                {"state": given["state"], "code": given["provider_code"]}))
        elif request.path.endswith("openid-configuration"):
            request.tell_json(200, {"issuer": self.issuer, **{name: f"{self.issuer}/{path}" for name, path in (
                ("authorization_endpoint", "authorize"), ("token_endpoint", "token"), ("jwks_uri", "jwks"))}})
        else:
            request.tell_json(200, {"keys": [self.key.jwk]})

    def give_token(self, request, form):
        asked = self.codes.pop(form["code"], None)
        challenge = base64url(hashlib.sha256(form["code_verifier"].encode()).digest())
        if not asked or asked["code_challenge"] != challenge or asked["redirect_uri"] != form["redirect_uri"] or form["client_secret"] != "s3cret":
            request.tell_json(400, {"error": "invalid_grant"})
            return
        claims = {"iss": self.issuer, "aud": asked["client_id"], "nonce": asked["nonce"], "role": None, **self.claims, **self.forged}
        request.tell_json(200, {"access_token": "x", "token_type": "Bearer", "id_token": self.key.token(**claims)})

    def sign_in(self, url, **claims):
        """What the browser of somebody who signs in there is led back with."""
        asked = dict(urllib.parse.parse_qsl(urllib.parse.urlsplit(url).query))
        assert asked["response_type"] == "code" and asked["code_challenge_method"] == "S256" and "openid" in asked["scope"].split()
        self.claims = claims
        code = uuid.uuid4().hex
        self.codes[code] = asked
        return {"state": asked["state"], "provider_code": code}


@pytest.fixture
def provider(gateway, tmp_path):
    made = Provider(tmp_path)
    answer = check(gateway.ask("/providers/firm", SERVICE, "PUT", {"title": "The firm", "issuer": made.issuer, "client_id": "cortana", "client_secret": "s3cret"}), "PUT", "/providers/{name}")
    assert answer.status == 204, answer.data
    yield made
    assert check(gateway.ask("/providers/firm", SERVICE, "DELETE"), "DELETE", "/providers/{name}").status == 204
    made.close()


def come_back(browser, provider, **claims):
    """Signs in at the provider, and hands its answer in."""
    begun = check(browser.ask("/session/provider", "POST", {"provider": "firm"}), "POST", "/session/provider")
    assert begun.status == 200, begun.data
    return check(browser.ask("/session/provider/answer", "POST", provider.sign_in(begun.json["url"], **claims)), "POST", "/session/provider/answer")


def test_a_provider_signs_in_who_was_invited(gateway, tenants, provider):
    assert check(gateway.ask("/providers"), "GET", "/providers").json["items"] == [{"name": "firm", "title": "The firm"}]
    assert b"s3cret" not in gateway.ask("/providers").data
    person, email = join(gateway, tenants[0]), address()
    known = come_back(Browser(gateway), provider, sub="a-1", email=person.email, email_verified=True)
    assert known.status == 200 and known.json["user_id"] == person.id
    renamed = come_back(Browser(gateway), provider, sub="a-1", email=email, email_verified=True)
    assert renamed.json["user_id"] == person.id, "the subject says who it is"
    stranger = come_back(Browser(gateway), provider, sub="a-2", email=email, email_verified=True)
    assert stranger.status == 409 and "invited" in stranger.json["detail"]
    gateway.ask("/invitations", SERVICE, "POST", {"role": "viewer", "tenant_id": tenants[1], "email": email})
    invited = come_back(Browser(gateway), provider, sub="a-2", email=email, email_verified=True, name="Otto")
    assert invited.status == 200 and (invited.json["role"], invited.json["person"]["name"], invited.json["team_ids"]) == ("viewer", "Otto", [tenants[1]])
    assert invited.json["person"]["has_password"] is False
    assert gateway.ask("/providers/firm", SERVICE, "PUT", {"title": "The firm", "issuer": provider.issuer, "client_id": "cortana", "tenant_id": tenants[0], "role": "editor"}).status == 204
    anybody = come_back(Browser(gateway), provider, sub="a-3", email=address(), email_verified=True)
    assert anybody.status == 200 and (anybody.json["role"], anybody.json["team_ids"]) == ("editor", [tenants[0]])
    gateway.ask(f"/people/{person.id}", SERVICE, "PATCH", {"state": "disabled"})
    assert come_back(Browser(gateway), provider, sub="a-1", email=person.email, email_verified=True).status == 401


def test_what_a_provider_has_not_said(gateway, tenants, provider):
    """An address it has not confirmed, tokens of others, and answers for other browsers, or for the second time."""
    person, browser = join(gateway, tenants[0]), Browser(gateway)
    for verified in ({}, {"email_verified": False}, {"email_verified": "true"}):
        assert come_back(browser, provider, sub="b-1", email=person.email, **verified).status == 409
    for forged in ({"aud": "another"}, {"iss": "https://evil.example"}, {"nonce": "0" * 64}, {"azp": "another"}, {"exp": 1}, {"sub": ""}):
        provider.forged = forged
        assert come_back(browser, provider, sub="b-1", email=person.email, email_verified=True).status == 503, forged
    provider.forged = {}
    url = browser.ask("/session/provider", "POST", {"provider": "firm"}).json["url"]
    answer, victim = provider.sign_in(url, sub="b-1", email=person.email, email_verified=True), Browser(gateway)
    assert victim.ask("/session/provider/answer", "POST", answer).status == 401, "nobody is signed in by a link of another"
    victim.ask("/session/provider", "POST", {"provider": "firm"})
    assert victim.ask("/session/provider/answer", "POST", answer).status == 401
    cookie = browser.cookie
    assert browser.ask("/session/provider/answer", "POST", answer).status == 200
    browser.cookie = cookie
    assert browser.ask("/session/provider/answer", "POST", answer).status == 503, "a code works once"
    assert check(browser.ask("/session/provider", "POST", {"provider": "none"}), "POST", "/session/provider").status == 404
    browser.cookie = None
    assert browser.ask("/session/provider", "POST", {"provider": "firm"}, Origin="https://evil.example").status == 403
