"""Mail: invitations, links for a new password and alerts, handed to an SMTP server, and what that server refuses."""

import datetime
import email.utils
import re
import socket

import pytest
from api import token
from mail_server import MailServer
from test_api import check
from test_people import SERVICE, Browser, address, join
from test_s3_tls import Authority
from test_saved_searches import add_video
from workers import Workers, wait_until

ACCOUNT = ("cortana@example.org", "p@ss")
SITE = "https://videos.example.org"


@pytest.fixture(scope="module")
def authority(tmp_path_factory):
    return Authority(tmp_path_factory.mktemp("authority"), "mail")


@pytest.fixture(scope="module")
def server(authority):
    started = MailServer(authority.context("IP:127.0.0.1"), ACCOUNT)
    yield started
    started.close()


@pytest.fixture(scope="module")
def queue(place):
    return place[1]


@pytest.fixture(scope="module")
def start_worker(program, place, authority, tmp_path_factory):
    """Starts a mail-worker for a server, in place of the one before."""
    workers = Workers(program, place[0], tmp_path_factory.mktemp("mail"))

    def start(url):
        for worker in workers.started:
            worker.stop()
        worker = workers.start("mail-worker", SMTP_URL=url, CORTANA_CA_FILE=authority.file, CORTANA_READ_PATHS=authority.folder)
        wait_until(lambda: place[1].value("SELECT cortana.mail_is_sent()"), "the worker to be known")
        return worker

    yield start
    workers.end()


@pytest.fixture
def worker(start_worker, server):
    server.replies.clear()
    return start_worker(server.url())


@pytest.fixture(scope="module")
def gateway(start_gateway):
    return start_gateway()


@pytest.fixture(scope="module")
def tenant(gateway):
    return gateway.ask("/tenants", SERVICE, "POST", {"name": "Nachrichten für <Köln>"}).json["tenant_id"]


def invite(gateway, tenant, to, **more):
    answer = gateway.ask("/invitations", SERVICE, "POST", {"role": "editor", "tenant_id": tenant, "email": to, **more})
    assert answer.status == 201, answer.data
    return answer.json


def link_in(mail, path="/invitation#c="):
    """The link, which both kinds of the text have."""
    text, html = (mail.get_body([kind]).get_content() for kind in ("plain", "html"))
    (link,) = re.findall(re.escape(SITE + path) + r"[\w-]+", text)
    assert f'href="{link}"' in html
    return link.removeprefix(SITE)


def outcome(queue, to):
    """The job that mails the newest invitation of somebody, when it waits for a retry or has ended."""
    return wait_until(lambda: next(iter(queue.run(
        "SELECT j.id::text, j.status::text, j.scheduled_for IS NOT NULL AS is_retried, a.error_type, a.error_message FROM cortana.invitations i"
        " JOIN jobs j ON coalesce(j.payload ->> 'invitation_id', j.payload #>> '{original_payload,invitation_id}') = i.id::text"
        " JOIN job_attempts a ON a.job_id = j.id AND a.finished_at IS NOT NULL"
        " WHERE i.email = %s AND j.status NOT IN ('queued', 'processing') ORDER BY i.created_at DESC, a.attempt DESC", to)), None), "the job to end")


def test_an_invitation_is_mailed_and_its_link_accepted(gateway, queue, server, worker, tenant):
    to = address()
    made = invite(gateway, tenant, to)
    assert made["is_mailed"]
    (mail,) = server.wait_for(to)
    assert mail.has_tls and mail["From"] == "cortana <cortana@example.org>"
    assert mail["Subject"] == "You are invited to Nachrichten für <Köln>"
    assert email.utils.parsedate_to_datetime(mail["Date"]) - datetime.datetime.now(datetime.timezone.utc) < datetime.timedelta(minutes=5)
    assert re.fullmatch(r"<[0-9a-f-]{36}@example\.org>", mail["Message-ID"]) and mail["Auto-Submitted"] == "auto-generated"
    assert all(len(line) <= 998 and line.isascii() for line in mail.raw.split(b"\r\n"))
    assert "Nachrichten für &#60;Köln&#62;" in mail.get_body(["html"]).get_content()
    assert link_in(mail) == made["link"], "shown to copy, too"
    assert outcome(queue, to)["status"] == "done"
    code = made["link"].partition("=")[2]
    assert queue.value("SELECT count(*) FROM cortana.invitations WHERE code IS NOT NULL") == 0
    assert queue.run("SELECT id FROM jobs WHERE concat(payload, result) LIKE %s", f"%{code}%") == [], "who sees jobs sees no link"
    assert not worker.says(code) and code not in worker.log_path.read_text()
    browser = Browser(gateway)
    assert browser.accept(link_in(mail)).json["person"]["email"] == to


def test_a_name_begins_no_header_of_its_own(gateway, queue, server, worker):
    """A tenant's name is text of users; the gateway refuses line breaks in it, which SQL does not."""
    name = "News\r\nBcc: all@example.org\r\n\r\n" + "ü" * 60
    made = gateway.ask("/tenants", SERVICE, "POST", {"name": "x"}).json["tenant_id"]
    to = address()
    queue.run("UPDATE cortana.tenants SET name = %s WHERE id = %s", name, made)
    invite(gateway, made, to)
    (mail,) = server.wait_for(to)
    assert mail["Bcc"] is None and mail["Subject"] == "You are invited to News  Bcc: all@example.org    " + "ü" * 60


def test_what_is_refused_for_now_is_sent_later(gateway, queue, server, worker, tenant):
    to = address()
    server.replies["RCPT"] = ["451 4.7.1 greylisted, come back"]
    invite(gateway, tenant, to)
    job = outcome(queue, to)
    assert (job["status"], job["is_retried"]) == ("failed", True) and "451 4.7.1 greylisted, come back" in job["error_message"]
    queue.make_retry_due(job["id"])
    assert link_in(server.wait_for(to)[0])
    assert outcome(queue, to)["status"] == "done"


def test_an_address_begins_no_command(gateway, queue, server, worker, tenant):
    """That of somebody who came by a provider is what the provider says."""
    browser = join(gateway, tenant)
    to = "a@example.org>\r\nrcpt to:<all@attacker.example"
    queue.run("UPDATE cortana.people SET email = %s WHERE id = %s", to, browser.id)
    assert gateway.ask(f"/people/{browser.id}/password", SERVICE, "POST").json["is_mailed"]
    assert outcome(queue, to)["error_type"] == "Refused" and not [mail for mail in server.mails if "all@attacker.example" in str(mail)]


@pytest.mark.parametrize("command, reply, type_, said", [
    ("RCPT", "550 5.1.1 no such user", "Refused", "550 5.1.1 no such user"),
    (".", "554 5.7.1 it looks like spam", "Refused", "554 5.7.1 it looks like spam"),
    ("AUTH", "535 5.7.8 wrong", "AuthenticationFailed", "SMTP_URL: 535 5.7.8 wrong")])
def test_what_is_refused_for_good_says_why(gateway, queue, server, worker, tenant, command, reply, type_, said):
    to = address()
    server.replies[command] = [reply]
    invite(gateway, tenant, to)
    job = outcome(queue, to)
    assert (job["status"], job["is_retried"], job["error_type"]) == ("failed", False, type_) and said in job["error_message"]
    assert ACCOUNT[1] not in worker.log_path.read_text()


def test_nothing_is_sent_without_tls_to_another_machine(gateway, queue, start_worker, tenant):
    here = next(found[4][0] for found in socket.getaddrinfo(socket.gethostname(), None, socket.AF_INET))
    if here.startswith("127."):
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as route:
            route.connect(("192.0.2.1", 9))
            here = route.getsockname()[0]
    plain = MailServer(address="0.0.0.0")
    try:
        start_worker(plain.url(host=here))
        to = address()
        invite(gateway, tenant, to)
        job = outcome(queue, to)
        assert job["is_retried"] and "offers no STARTTLS" in job["error_message"]
        assert plain.mails == [] and "AUTH" not in [name for name, _ in plain.commands]
    finally:
        plain.close()


def test_a_certificate_that_nobody_vouches_for_is_refused(gateway, queue, start_worker, tenant, tmp_path):
    other = MailServer(Authority(tmp_path, "other").context("IP:127.0.0.1"))
    try:
        start_worker(other.url())
        to = address()
        invite(gateway, tenant, to)
        assert "CORTANA_CA_FILE" in outcome(queue, to)["error_message"] and other.mails == []
    finally:
        other.close()


@pytest.mark.parametrize("url, said", [
    (None, "SMTP_URL is not set"), ("https://mail.example.org?page=https://a.example", "a URL with smtp:// or smtps://"),
    ("smtps://a%40b.example:s3cret@mail.example.org", "?page=https://HOST"),
    ("smtps://anna:s3cret@mail.example.org?page=https://a.example", "&from=ADDRESS"),
    ("smtps://anna:s3cret@mail.example.org?page=https://a.example&from=a%0d%0ab@c", "&from=ADDRESS")])
def test_a_worker_says_what_its_setting_lacks(program, place, tmp_path, url, said):
    workers = Workers(program, place[0], tmp_path)
    worker = workers.start("mail-worker", SMTP_URL=url)
    try:
        assert worker.wait() == 78
        assert said in worker.log_path.read_text() and "s3cret" not in worker.log_path.read_text()
    finally:
        workers.end()


def test_where_nothing_is_sent_a_link_is_only_shown(gateway, queue, start_worker, server, tenant):
    start_worker(server.url()).stop()
    made = invite(gateway, tenant, to := address())
    assert not made["is_mailed"] and made["link"]
    assert queue.value("SELECT code FROM cortana.invitations WHERE email = %s", to) is None


# ---- a forgotten password ----------------------------------------------------------------------------------


def forget(gateway, to, status=204, **headers):
    answer = check(gateway.ask("/session/password/link", None, "POST", {"email": to}, X_Cortana="1",
                               Origin=f"{gateway.url}", **headers), "POST", "/session/password/link")
    assert answer.status == status, answer.data
    return answer


def test_who_has_forgotten_their_password_sets_a_new_one(gateway, queue, server, worker, tenant):
    browser = join(gateway, tenant)
    stranger = address()
    known, unknown = (forget(gateway, to) for to in (browser.email.upper(), stranger))
    assert (known.data, known.status) == (unknown.data, unknown.status)
    (mail,) = server.wait_for(browser.email)
    assert mail["Subject"] == f"A new password for {browser.email}"
    forget(gateway, browser.email)
    assert queue.value("SELECT count(*) FROM cortana.invitations WHERE person_id = %s", browser.id) == 1, "one mail in five minutes"
    assert queue.value("SELECT count(*) FROM cortana.people WHERE name = 'nobody'") == 0
    code = link_in(mail).partition("=")[2]
    body = {"code": code, "new_password": "another horse battery"}
    assert Browser(gateway).ask("/invitations/account", "POST", body).status == 200
    assert Browser(gateway).ask("/invitations/account", "POST", body).status == 401
    assert browser.ask("/me").status == 401, "signed out everywhere"
    assert browser.sign_in(browser.email, "another horse battery").status == 200


def test_links_for_passwords_are_limited_by_address(own_gateway, worker):
    slow = own_gateway("--trusted-proxies", "127.0.0.1", CORTANA_API_RATES="read=0,write=0,failure=0.01:3")
    assert [forget(slow, address(), status, X_Forwarded_For="192.0.2.1").status for status in (204, 204, 204, 429)][-1] == 429
    forget(slow, address(), X_Forwarded_For="192.0.2.2")


# ---- alerts ------------------------------------------------------------------------------------------------


def test_alerts_are_mailed_at_once_and_together(gateway, queue, server, worker, tenant):
    browser = join(gateway, tenant)
    save = {"query": "bridge", "name": "The bridge & more", "mail": "at_once"}
    saved = check(browser.ask("/saved-searches", "POST", save), "POST", "/saved-searches").json
    assert saved["mail"] == "at_once"
    first = add_video(queue, "nothing", "the old <bridge>", owner=browser.id)
    (mail,) = server.wait_for(browser.email)
    assert mail["Subject"] == "The bridge & more: The evening"
    text, html = (mail.get_body([kind]).get_content().replace("\r\n", "\n") for kind in ("plain", "html"))
    assert f"The evening\n{SITE}/videos/{first}\n0:01 the old <bridge>\n{SITE}/videos/{first}?t=1.000" in text
    assert "0:01 the old &#60;bridge&#62;</a>" in html
    assert mail["List-Unsubscribe-Post"] == "List-Unsubscribe=One-Click"

    assert browser.ask(f"/saved-searches/{saved['id']}", "PATCH", {"mail": "daily"}).json["mail"] == "daily"
    more = {add_video(queue, "a bridge", owner=browser.id, title=title) for title in ("Zürich", "Bern")}
    (job,) = queue.run("SELECT id, scheduled_for - now() < '25 hours' AS is_soon FROM jobs WHERE job_type = 'mail' AND scheduled_for > now()"
                       " AND payload ->> 'search_id' = %s", saved["id"])
    assert job["is_soon"] and len(server.wait_for(browser.email)) == 1
    queue.run("UPDATE jobs SET scheduled_for = now() WHERE id = %s", job["id"])
    _, digest = server.wait_for(browser.email, 2)
    assert digest["Subject"] == "The bridge & more: 2 videos"
    text = digest.get_body(["plain"]).get_content()
    assert all(f"/videos/{video}" in text for video in more) and first not in text and "Zürich" in text
    wait_until(lambda: queue.value("SELECT count(*) FROM saved_search_matches WHERE is_to_mail") == 0, "the mail to be recorded")

    target = re.fullmatch(rf"<{SITE}/api/v1(/unsubscribe/[\w-]{{22}})>", digest["List-Unsubscribe"])[1]
    assert link_in(digest, "/unsubscribe#c=").endswith(target.rpartition("/")[2])
    stopped = gateway.ask(target, None, "POST", "List-Unsubscribe=One-Click", Content_Type="application/x-www-form-urlencoded")
    assert stopped.status == 204, "as a mail program does it"
    assert check(gateway.ask(target, None, "POST"), "POST", "/unsubscribe/{code}").status == 204
    assert check(gateway.ask("/unsubscribe/" + "A" * 22, None, "POST"), "POST", "/unsubscribe/{code}").status == 404
    (mine,) = browser.ask("/saved-searches").json["items"]
    assert mine["mail"] == "never"
    add_video(queue, "the last bridge", owner=browser.id)
    assert queue.value("SELECT count(*) FROM saved_search_matches WHERE is_to_mail") == 0


def test_who_left_a_tenant_is_told_nothing_of_it(gateway, queue, server, worker, tenant):
    browser = join(gateway, tenant)
    saved = browser.ask("/saved-searches", "POST", {"query": "ferry", "mail": "hourly", "team_id": tenant}).json
    add_video(queue, "the ferry", team=tenant, owner=None)
    queue.run("DELETE FROM cortana.members WHERE person_id = %s", browser.id)
    queue.run("UPDATE jobs SET scheduled_for = now() WHERE payload ->> 'search_id' = %s", saved["id"])
    wait_until(lambda: queue.value("SELECT status FROM jobs WHERE payload ->> 'search_id' = %s", saved["id"]) == "done", "the job")
    assert queue.value("SELECT result ->> 'is_sent' FROM jobs WHERE payload ->> 'search_id' = %s", saved["id"]) == "false"
    assert not [mail for mail in server.mails if browser.email in mail["To"]]


def test_who_may_have_mail_about_a_search(gateway, queue, worker, tenant):
    owner, other = join(gateway, tenant), join(gateway, tenant)
    saved = owner.ask("/saved-searches", "POST", {"query": "ferry", "team_id": tenant}).json
    refused = check(other.ask(f"/saved-searches/{saved['id']}", "PATCH", {"mail": "daily"}), "PATCH", "/saved-searches/{id}")
    assert refused.status == 409 and "save it yourself" in refused.json["detail"]
    refused = gateway.ask("/saved-searches", token(), "POST", {"query": "ferry", "mail": "daily"})
    assert refused.status == 409 and "no e-mail address" in refused.json["detail"]
    worker.stop()
    assert "sends no mail" in owner.ask(f"/saved-searches/{saved['id']}", "PATCH", {"mail": "daily"}).json["detail"]
    assert "sends no mail" in forget(gateway, owner.email, 409).json["detail"]
