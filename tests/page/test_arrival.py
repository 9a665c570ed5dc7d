"""What the page is made of does not come, comes in half or stalls: it is there a little later all the same."""

import re

import pytest
from api import BOB, token
from fault_proxy import FaultProxy
from mail_server import MailServer
from screen import GO, Screen, in_both_browsers, scripts
from selenium.webdriver.common.keys import Keys
from test_people import Provider
from workers import Workers

HURRY = "const real = performance.now.bind(performance); performance.now = () => real() * 10;"  # for the time in which a stall is noticed
PARTS = [("/text.js", "stall"), ("/parts/poster.js", "stall"), ("/lang/en.json", "stall"), ("/lang/en.json", "cut"), ("/style.css", "cut"),
         ("/parts/sign-in.js", "cut"), ("/api/v1/videos\\?limit=12", "cut")]
KINDS = {"stall": {"stall": 0}, "cut": {"reset": 100}}
IS_THERE = "return !!document.querySelector('.card h3') && getComputedStyle(document.querySelector('header')).position === 'sticky'"


@pytest.fixture
def broken(driver, place):
    """The page behind a proxy, and the proxy."""
    proxy = FaultProxy(place.gateway.port)
    shown = Screen(driver, f"http://127.0.0.1:{proxy.port}", token(exp=2000000000))
    shown.open("/")
    shown.see(".card")
    driver.execute_cdp_cmd("Network.enable", {})
    driver.execute_cdp_cmd("Network.clearBrowserCache", {})
    yield shown, proxy
    shown.forget()
    proxy.close()


@pytest.mark.parametrize("part, kind", PARTS)
def test_a_part_that_does_not_come_is_asked_for_again(broken, part, kind):
    shown, proxy = broken
    with scripts(shown.driver, HURRY):
        fault = proxy.add(f"^GET {part}$", **KINDS[kind])
        shown.driver.get("about:blank")
        shown.script(f"setTimeout(() => location.assign('{shown.url}/'))")  # a driver waits for what stalls
        shown.wait(lambda: fault.hits == 1 and shown.script(IS_THERE), f"the page without {part}")


WHO = """const done = arguments[arguments.length - 1];
    fetch('/api/v1/me', {headers: {'X-Cortana': '1'}}).then((answer) => answer.json()).then((me) => done([me.role, me.user_id]));"""


@pytest.mark.parametrize("words", ["en", "de"])
def test_a_link_signs_nobody_else_in_unasked(screen, place, words):
    """Somebody who is signed in follows a link with another's token: what they upload next would be the other's."""
    strangers = [(token(exp=2000000000, sub=BOB, app_metadata={"cortana_role": "admin"}), ["admin", BOB]),
                 (token(exp=2000000000, role="service_role", sub=None), ["service", None]),
                 (place.queue.value("SELECT cortana.make_sign_in_code(%s)", BOB), ["service", BOB])]
    with screen.words(words):
        screen.open("/")
        screen.see(".card")
        mine = screen.driver.execute_async_script(WHO)
        for credential, theirs in strangers:
            link = f"{screen.url}/videos#t={credential}"
            screen.driver.get("about:blank")
            screen.driver.get(link)
            screen.see("#question h2", {"en": "signs in another user", "de": "meldet jemand anderen an"}[words])
            assert "#" not in screen.driver.current_url
            screen.press(Keys.ENTER)  # what is chosen by default, and by Escape
            screen.see("cv-app main h1")
            assert screen.driver.execute_async_script(WHO) == mine and not screen.all("#question")
            screen.driver.get("about:blank")
            screen.driver.get(link)
            screen.see("#question button[value=yes]").click()
            screen.see("cv-app main h1")
            assert screen.driver.execute_async_script(WHO) == theirs
            mine = theirs


def test_a_link_of_the_same_person_asks_nothing(screen):
    screen.open("/")
    screen.see(".card")
    screen.token = token(exp=2000000001, app_metadata={"cortana_role": "admin"})
    screen.open("/")
    screen.see(".card")
    assert screen.driver.execute_async_script(WHO)[0] == "admin"


def test_a_screen_that_does_not_come_is_asked_for_again(broken):
    shown, proxy = broken
    shown.driver.get(f"{shown.url}/")
    shown.see(".card")
    fault = proxy.add("^GET /screens/jobs.js$", times=2, reset=0)
    shown.script(GO, "/jobs")
    shown.see("tbody tr")
    assert fault.hits == 2
    shown.wait(lambda: not shown.all(".away"), "the bar to go")


@pytest.mark.parametrize("path, asked", [("/", "/videos"), ("/?q=bridge&kind=mention&sort=newest", "/search")])
def test_what_is_shown_first_is_asked_for_once(screen, path, asked):
    screen.open("/")
    screen.see(".card")
    screen.open(path, is_signed_in=False)
    screen.see(".card, .hit")
    entries = screen.script("return performance.getEntriesByType('resource').map((one) => ({name: one.name, start: one.startTime, end: one.responseEnd}))")
    (early,) = [one for one in entries if re.search(rf"/api/v1{asked}\?", one["name"])]
    (words,) = [one for one in entries if "/lang/" in one["name"]]
    assert early["start"] <= words["start"], "it waits for nothing"


def test_what_is_typed_is_searched_for_when_the_reader_pauses(screen):
    screen.open("/")
    field = screen.see(".start cv-search-box input")
    field.click()
    screen.script("const real = window.fetch; window.asked = []; window.fetch = (url, wishes) => { asked.push(String(url)); return real(url, wishes); };")
    searches = "return asked.filter((one) => one.startsWith('/api/v1/search?'))"
    field.send_keys("bridge")
    screen.wait(lambda: screen.script(searches), "the search before Enter")
    screen.press(Keys.ENTER)
    screen.see(".hit mark", "bridge")
    assert screen.script(searches) == ["/api/v1/search?q=bridge&limit=20&facets=true&group=video"]


@in_both_browsers
def test_somebody_who_is_invited_signs_in_and_out(screen, place):
    """From the People screen to the account, out, and by a copied link to the sign-in and then to the video."""
    screen.token = token(exp=2000000000, role="service_role", sub=None)
    screen.open("/people")
    screen.see("form.filters button.main").click()
    link = screen.see(".why-box code").text
    screen.forget()
    screen.driver.get(link)
    screen.fill("form.fields", name="Anna Berg", email="anna@example.org", new_password="correct horse battery")
    assert "#" not in screen.driver.current_url
    screen.see("form.fields button.main").click()
    screen.see(".start cv-search-box")
    screen.see(".account summary").click()
    assert "anna@example.org" in screen.see("cv-account", "Anna Berg").text
    screen.see("cv-account a").click()
    screen.see("tbody tr", "This browser")
    screen.fill("form.fields", password="wrong password", new_password="another horse battery")
    screen.see("form.fields button.main").click()
    screen.see(".fault", "wrong")
    screen.see(".account summary").click()
    screen.see("cv-account button", "Sign out").click()
    screen.see("cv-sign-in dialog[open]")
    place.queue.run("UPDATE videos SET team_id = (SELECT id FROM cortana.tenants) WHERE id = %s", place.film)
    try:
        screen.driver.get(f"{screen.url}/videos/{place.film}?t=3")
        screen.fill("form.account", email="anna@example.org", password="wrong password")
        screen.see("form.account button").click()
        screen.see("cv-sign-in .fault", "wrong")
        screen.see("form.account input[name=password]").clear()
        screen.fill("form.account", password="correct horse battery")
        screen.see("form.account button").click()
        screen.see("cv-transcript li")
        assert screen.driver.current_url.endswith(f"/videos/{place.film}?t=3")
        screen.see(".account summary").click()
        screen.see("cv-account button", "Sign out everywhere")
        screen.script("document.querySelectorAll('cv-account button')[1].click()")
        screen.see("#question button[value=yes]").click()
        screen.see("cv-sign-in dialog[open]")
    finally:
        place.queue.run("UPDATE videos SET team_id = NULL WHERE id = %s", place.film)
        place.queue.run("DELETE FROM cortana.tenants")
        place.queue.run("DELETE FROM cortana.people")


def test_who_has_forgotten_their_password_gets_a_link_by_mail(screen, place, program, tmp_path):
    server, workers = MailServer(), Workers(program, place.address, tmp_path)
    try:
        place.queue.run("INSERT INTO cortana.people (name, email, password) VALUES ('Anna Berg', 'anna@example.org', 'x')")
        place.queue.run("INSERT INTO cortana.tenants (name) VALUES ('Newsroom')")
        place.queue.run("INSERT INTO cortana.members SELECT p.id, t.id, 'editor' FROM cortana.people p, cortana.tenants t")
        workers.start("mail-worker", SMTP_URL=server.url(user="", query=f"?page={screen.url}&from=videos@example.org"))
        screen.wait(lambda: place.queue.value("SELECT cortana.mail_is_sent()"), "the worker")
        screen.driver.get(screen.url)
        screen.fill("form.account", email="anna@example.org")
        screen.see("form.account button", "Forgotten password?").click()
        screen.see("form.account p[role=status]", "anna@example.org")
        text = server.wait_for("anna@example.org")[0].get_body(["plain"]).get_content()
        screen.driver.get(re.search(rf"{re.escape(screen.url)}/invitation#c=[\w-]+", text)[0])
        screen.fill("form.fields", new_password="correct horse battery")
        screen.see("form.fields button.main").click()
        screen.see(".start cv-search-box")
        place.queue.run("INSERT INTO saved_searches (owner_id, tenant_id, name, query) SELECT id, id, 'Ferries', 'ferry' FROM cortana.people")
        screen.driver.get(f"{screen.url}/alerts")
        screen.see("td select option[value=daily]").click()
        screen.wait(lambda: place.queue.value("SELECT mail FROM saved_searches") == "daily", "the choice to be kept")
        screen.driver.get(f"{screen.url}/unsubscribe#c={place.queue.value('SELECT mail_key FROM saved_searches')}")
        screen.see("screen-unsubscribe button.main").click()
        screen.see("screen-unsubscribe p", "The mails have ended")
        assert place.queue.value("SELECT mail FROM saved_searches") == "never"
    finally:
        workers.end()
        server.close()
        for table in ("saved_searches", "cortana.tenants", "cortana.people", "workers"):
            place.queue.run(f"DELETE FROM {table}" + (" WHERE 'mail' = ANY (job_types)" if table == "workers" else ""))


def test_who_was_invited_signs_in_at_a_provider(screen, place, tmp_path):
    provider, service = Provider(tmp_path), token(exp=2000000000, role="service_role", sub=None)
    provider.claims = {"sub": "a-1", "email": "otto@example.org", "email_verified": True, "name": "Otto"}
    offer = {"title": "The firm", "issuer": provider.issuer, "client_id": "cortana", "client_secret": "s3cret"}
    assert place.gateway.ask("/providers/firm", service, "PUT", offer).status == 204
    try:
        screen.token = service
        screen.open("/people")
        screen.see("form.filters input[type=email]").send_keys("otto@example.org", Keys.ENTER)
        screen.see(".why-box code")
        screen.forget()
        screen.open("/videos", is_signed_in=False)
        screen.see("cv-sign-in button.provider", "The firm").click()
        screen.wait(screen.driver.get_cookies, "the session")
        screen.wait(lambda: screen.driver.current_url == f"{screen.url}/videos" and screen.all("main .state"), "the way back")
        screen.see(".account summary").click()
        screen.see("cv-account", "Otto")
    finally:
        place.queue.run("DELETE FROM cortana.sign_in_providers; DELETE FROM cortana.tenants; DELETE FROM cortana.people")
        provider.close()


def test_a_provider_is_offered_and_leads_back(screen, place):
    """What it answers is checked in test_people.py; here it has refused."""
    place.queue.run("INSERT INTO cortana.sign_in_providers (name, title, issuer, client_id) VALUES ('firm', 'The firm', 'http://127.0.0.1:9', 'c')")
    try:
        screen.open("/videos", is_signed_in=False)
        screen.see("cv-sign-in button.provider", "The firm").click()
        screen.see("cv-sign-in .fault", "provider")
        screen.driver.get(f"{screen.url}/signed-in?error=access_denied&state=x")
        screen.see(".fault", "access_denied")
        assert "?" not in screen.driver.current_url
    finally:
        place.queue.run("DELETE FROM cortana.sign_in_providers")
