"""A stranger, without an account or a cookie, opens a link; and those who share make, count and revoke it."""

import functools
import http.server
import threading
import urllib.parse

import pytest
from api import ALICE, token
from film import HEIGHT, TEXT
from screen import in_both_browsers, on_desk_and_phone
from selenium.webdriver.common.keys import Keys
from test_access import AXE, RUN
from test_video import FRAME_PX, LOOK

OWNER = token(exp=2000000000, app_metadata={"cortana_role": "editor"})
SERVICE = token(exp=2000000000, role="service_role", sub=None)


@pytest.fixture(autouse=True)
def allowed(place):
    assert place.gateway.ask(f"/tenants/{ALICE}/sharing", SERVICE, "PUT", {"allowed": True}).status == 204
    yield
    place.queue.run("DELETE FROM cortana.shares; DELETE FROM cortana.sharing_tenants")


def share(place, **what):
    answer = place.gateway.ask("/shares", OWNER, "POST", {"video_id": place.film, **what})
    assert answer.status == 201, answer.data
    return answer.json


def plays(screen):
    screen.wait(lambda: screen.script("return (document.querySelector('video') || {}).readyState >= 2"), "a frame")
    screen.see("cv-boxes span", TEXT.split()[0])


@in_both_browsers
@on_desk_and_phone("screen")
def test_a_stranger_plays_a_part_and_nothing_else(screen, place):
    """The boxes lie on their text, so that times are those of the video, and no request goes beside what was shared."""
    made = share(place, from_ms=4500, to_ms=5500, at_ms=5000)
    place.queue.run("UPDATE videos SET recorded_tag = '2026-03-01T14:05:10Z' WHERE id = %s", place.film)
    screen.open(made["link"], is_signed_in=False)
    plays(screen)
    assert screen.driver.get_cookies() == []
    assert ":05:15" in screen.see(".bar time").text
    place.queue.run("UPDATE videos SET recorded_tag = NULL WHERE id = %s", place.film)
    assert screen.see("h1").text == "A bar that rises" and screen.all("header, nav, a, cv-search-box") == []
    look = LOOK.replace(".found", "[data-id]").replace("document.querySelector('cv-boxes span[data-id]')",
                                                        f"[...document.querySelectorAll('cv-boxes span')].find((one) => one.textContent === '{TEXT}')")
    found = screen.wait(lambda: screen.script(look), "the bar and its box")
    assert abs(found["time"] - 5) < 0.05 and abs(found["top"] - found["row"]) < 2 * FRAME_PX + HEIGHT / 100
    screen.script("document.querySelector('video').muted = true; document.querySelector('video').play()")
    screen.wait(lambda: screen.script("return document.querySelector('video').paused && document.querySelector('video').currentTime > 5.3"), "the end of the part")
    assert screen.script("return document.querySelector('video').currentTime") < 5.7
    screen.press(Keys.HOME)
    screen.wait(lambda: abs(screen.script("return document.querySelector('video').currentTime") - 4.5) < 0.05, "the beginning of the part")
    asked = screen.script("return performance.getEntriesByType('resource').map((one) => new URL(one.name).pathname)")
    assert not [one for one in asked if one.startswith("/api/") and not one.startswith("/api/v1/shared/")]
    assert any(one.endswith(".m4s") for one in asked) and not [one for one in asked if one.endswith("/gap") or "/thumbs/" in one]
    assert screen.script("return document.documentElement.scrollWidth <= innerWidth")
    screen.script(AXE)
    assert screen.driver.execute_async_script(RUN) == []


def test_a_link_in_a_chat_shows_the_moment(place):
    """What programs read that show a link: title, text on screen and picture, which they get without a cookie."""
    made = share(place, at_ms=1000)
    page = place.gateway.ask(made["link"], base="")
    assert page.status == 200 and "frame-ancestors 'none'" in page.headers["Content-Security-Policy"]
    text = page.data.decode()
    picture = f"{place.url}/api/v1/shared/{made['link'].removeprefix('/s/')}/picture"
    for tag in ('<meta property="og:title" content="A bar that rises"/>', f'<meta property="og:image" content="{picture}"/>',
                '<meta name="twitter:card" content="summary_large_image"/>', f'<meta property="og:url" content="{place.url}{made["link"]}"/>'):
        assert tag in text.partition("</head>")[0], tag
    assert TEXT in text and "<title>A bar that rises · cortana</title>" in text
    answer = place.gateway.ask(picture.removeprefix(place.url), base="")
    assert answer.status == 200 and answer.headers["Content-Type"] == "image/jpeg"
    oembed = text.partition('type="application/json+oembed" href="')[2].partition('"')[0]
    assert place.gateway.ask(oembed.removeprefix(place.url), base="").json["html"].startswith(f'<iframe src="{place.url}{made["embed"]}"')


@pytest.mark.parametrize("title", ['</title><script>alert(1)</script>', '"><img src=x onerror=alert(1)>', "a \x01 & b"])
def test_a_title_is_no_markup(place, title):
    with_title = share(place)
    place.queue.run("UPDATE videos SET title = %s WHERE id = %s", title, place.film)
    try:
        text = place.gateway.ask(with_title["link"], base="").data.decode()
        assert title not in text and "onerror=alert(1)>" not in text and "<script>alert" not in text
    finally:
        place.queue.run("UPDATE videos SET title = 'A bar that rises' WHERE id = %s", place.film)


def test_a_link_that_ended_helps(screen, place):
    made = share(place)
    place.queue.run("UPDATE cortana.shares SET revoked_at = now()")
    for link in (made["link"], made["embed"], "/s/no-such-code"):
        assert place.gateway.ask(link, base="").status == 404
        screen.open(link, is_signed_in=False)
        screen.see("h1", "shows nothing any more")
        screen.see("p", "Ask whoever sent it")


def test_somebody_elses_cookie_changes_nothing(screen, place):
    """Who was signed in once, with a session that has ended, sees the link like any stranger."""
    made = share(place)
    screen.open(made["link"], is_signed_in=False)
    screen.driver.add_cookie({"name": "cortana", "value": "cvs_" + "A" * 43})
    screen.open(made["link"], is_signed_in=False)
    plays(screen)


@pytest.fixture
def elsewhere(place, tmp_path):
    """A page of another origin."""
    handler = functools.partial(http.server.SimpleHTTPRequestHandler, directory=tmp_path)
    handler.log_message = lambda *_: None
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()

    def put(frame):
        (tmp_path / "index.html").write_text(f"<!doctype html><title>elsewhere</title><iframe width=640 height=480 src='{place.url}{frame}'></iframe>")
        return f"http://localhost:{server.server_address[1]}/"
    yield put
    server.shutdown()
    server.server_close()


def test_who_comes_back_after_hours_goes_on_where_they_were(screen, place):
    """The right to read files has ended: the page asks for it anew, which is no other view."""
    made = share(place)
    screen.open(made["link"], is_signed_in=False)
    plays(screen)
    before = screen.script("const player = document.querySelector('cv-player'); player.seek(3000); return player.grant.base_url")
    screen.script("""const player = document.querySelector('cv-player');
        player.grant.expires = '2001-01-01T00:00:00Z';
        player.grant.is_old = true;
        player.hls.trigger('hlsError', {fatal: true, details: 'fragLoadError', type: 'networkError'});""")
    screen.wait(lambda: screen.script("return !document.querySelector('cv-player').grant.is_old && document.querySelector('video').readyState >= 2"), "the video again")
    assert screen.script("return document.querySelector('cv-player').grant.base_url") == before
    assert abs(screen.script("return document.querySelector('video').currentTime") - 3) < 0.1
    assert place.queue.value("SELECT views FROM cortana.shares") == 1


@in_both_browsers
def test_another_page_embeds_the_player_alone(screen, place, elsewhere):
    made = share(place)
    screen.driver.get(elsewhere(made["embed"]))
    screen.driver.switch_to.frame(0)
    plays(screen)
    assert screen.all("h1, header, nav, a") == []
    assert screen.script("return document.querySelector('cv-player').getBoundingClientRect().height <= innerHeight + 1")
    screen.driver.switch_to.default_content()


@pytest.mark.parametrize("path", ["", "/", "/videos"])
def test_no_other_page_is_embedded(screen, place, elsewhere, path):
    screen.driver.get(elsewhere(path or share(place)["link"]))
    screen.driver.switch_to.frame(0)
    screen.wait(lambda: "chrome-error" in screen.script("return location.href"), "what stands in place of a refused page")
    screen.driver.switch_to.default_content()
    assert [one for one in screen.complaints() if "frame-ancestors" not in one] == []


def test_the_manual_of_programs_names_no_code(place):
    assert urllib.parse.urlparse(place.url).port  # the site is taken from the request
    text = place.gateway.ask(share(place)["link"], base="", Host='evil.example"><script>').data.decode()
    assert "<script>" not in text.partition("</head>")[0].replace('<script src="/start.js">', "") and "evil" not in text


# ---- those who share ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("part", [False, True])
def test_a_moment_is_shared_in_words(screen, place, part):
    """From the player at a time to the link, which shows what was chosen, is counted and revoked."""
    screen.open(f"/videos/{place.film}?t=4")
    screen.wait(lambda: screen.script("return (document.querySelector('video') || {}).readyState >= 2"), "a frame")
    screen.see("button", "Share").click()
    screen.see("#share form", "begins to play at 0:04")
    if part:
        screen.all("#share input[name=what]")[1].click()
        screen.see("#share fieldset", "Nothing else of the video")
        assert screen.all("#share input[name=download]") == []
    screen.see("#share button.main").click()
    link, frame = (screen.wait(lambda: screen.all("#share input[readonly]"), "the link")[n].get_attribute("value") for n in (0, 1))
    assert link.startswith(f"{place.url}/s/") and link.replace("/s/", "/embed/") in frame
    row = place.queue.run("SELECT from_ms, to_ms, at_ms, ends_at IS NOT NULL AS ends FROM cortana.shares")[0]
    assert row == {"from_ms": 0 if part else None, "to_ms": 6000 if part else None, "at_ms": 4000, "ends": True}
    assert place.gateway.ask("/api/v1/shared/" + link.rsplit("/", 1)[1], method="POST", base="").json["kind"] == ("moment" if part else "video")
    screen.see("#share a").click()
    screen.see("tbody tr", "A bar that rises")
    assert screen.see("tbody td:nth-child(3)").text.startswith("1")
    screen.see("tbody button", "Revoke").click()
    screen.see("#question button.main").click()
    screen.see("tbody .badge", "revoked")
    assert place.gateway.ask("/api/v1/shared/" + link.rsplit("/", 1)[1], method="POST", base="").status == 404


def test_who_may_not_switch_links_on_is_told_who_may(screen, place):
    place.queue.run("DELETE FROM cortana.sharing_tenants")
    screen.open(f"/videos/{place.film}")
    screen.see("button", "Share").click()
    screen.see("#share", "An administrator can switch them on")


def test_an_administrator_switches_links_on_where_one_is_missed(operator, place):
    place.queue.run("DELETE FROM cortana.sharing_tenants")
    operator.open(f"/videos/{place.film}")
    operator.see("button", "Share").click()
    operator.see("#share button.main", "Switch them on").click()
    operator.see("#share button.main", "Make a link").click()
    operator.see("#share input[readonly]")


def test_a_saved_search_is_shared(screen, place):
    search = place.gateway.ask("/saved-searches", OWNER, "POST", {"query": "harbour", "name": "harbours"}).json["id"]
    screen.open("/alerts")
    screen.see("tbody button", "Share").click()
    screen.see("#share form", "but no video")
    screen.see("#share button.main").click()
    link = screen.see("#share input[readonly]").get_attribute("value")
    screen.open(link.removeprefix(place.url), is_signed_in=False)
    screen.see("h1", "harbours")
    place.gateway.ask(f"/saved-searches/{search}", OWNER, "DELETE")
