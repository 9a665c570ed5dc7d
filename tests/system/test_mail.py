"""Mail: invitations, links for a new password and alerts, handed to an SMTP server, and what that server refuses."""

import datetime
import email.utils
import re
import socket

import pytest
from api import Gateway
from mail_server import MailServer
from test_people import SERVICE, Browser, address
from test_s3_tls import Authority
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
def gateway(program, place, tmp_path_factory):
    directory = tmp_path_factory.mktemp("gateway")
    started = Gateway(program, place[0], directory, "--connections", "2", STORE_URL=f"dir:{directory}/store")
    yield started
    started.end()


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
    assert "Nachrichten für &lt;Köln&gt;" in mail.get_body(["html"]).get_content()
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
