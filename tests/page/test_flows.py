"""What people go through on several screens: an expired token, a role that may only look, two tabs, paper, and hours of live work."""

import base64
import csv
import json
import os
import re
import subprocess
import time

import pytest
from api import token
from place import Place
from screen import GO, NARROW, WIDE, Screen, on_desk_and_phone
from screens import path_at
from selenium.webdriver.common.keys import Keys

MINUTES = float(os.environ.get("CORTANA_PAGE_MINUTES", "0.1"))  # of live work; 480 are a working day
LOOKS = [(WIDE, "light"), (NARROW, "light"), (WIDE, "dark"), (NARROW, "dark")]
HEAP_GROWTH_MAX, GATEWAY_GROWTH_MAX = 10 << 20, 16 << 20  # bytes
WARM_CHANGES = 10  # before the first look at the memory
SCREENS = ["/", "/videos", "/videos/FILM", "/jobs", "/jobs?state=failed", "/jobs/FAILED", "/runs", "/runs/RUN"]
EVERYWHERE = [*SCREENS, "/?q=bridge", "/queues", "/workers", "/failures", "/performance", "/resources", "/tenants", "/rules", "/schedules",
              "/schedules/TRIGGER", "/webhooks", "/webhooks/ours", "/workflows", "/workflows/reindex", "/commands", "/audit", "/keys"]
CHANGES = re.compile("Retry|Cancel|Restart|Upload|Make|Delete|Re-run|Process again|Pause|Drain|Revoke|Run it")

BREAK = """window.real ??= window.fetch;
    window.fetch = (url, wishes) => /\\/api\\/v1\\/(me|session|events)/.test(url) || !String(url).startsWith('/api/v1') ? window.real(url, wishes)
        : Promise.resolve(new Response(JSON.stringify({type: '/problems/broken', status: 500, title: 'This service has a defect',
            detail: 'nothing is there', instance: 'r-17'}), {status: 500, headers: {'Content-Type': 'application/problem+json'}}));"""
COUNT = """window.streams = 0;
    const real = window.fetch;
    window.fetch = (url, wishes) => {
        window.streams += String(url).startsWith('/api/v1/events') ? 1 : 0;
        return real(url, wishes);
    };"""


@on_desk_and_phone("operator")
def test_a_token_that_expires_loses_nothing_that_was_typed(operator, place):
    operator.open("/schedules")
    operator.see("button", "New schedule").click()
    operator.fill(".make", name="typed-before", cron="0 5 * * *", target="video_pipeline")
    operator.wait(lambda: len(operator.all(".make time")) == 10, "the next ten times")
    operator.driver.delete_all_cookies()
    operator.script("document.querySelector('.make button.main').click()")  # a preview may have opened the dialog by now
    operator.see("dialog[open] summary").click()
    operator.see("dialog[open] input[name=token]").send_keys(operator.token, Keys.ENTER)
    operator.see("tbody tr", "typed-before")
    place.queue.run("DELETE FROM job_triggers WHERE name = 'typed-before'")


@on_desk_and_phone("screen")
def test_who_may_only_look_sees_no_button_that_would_be_refused(screen, place):
    screen.token = token(exp=2000000000, app_metadata={"cortana_role": "viewer"})
    for number, path in enumerate(SCREENS):
        if number:
            screen.script(GO, path_at(place, path))
        else:
            screen.open(path)
        screen.wait(lambda: screen.script("return document.querySelector('main')?.innerText.length > 20") and
                    not screen.all(".skeletons"), path)
        offered = screen.script("return [...document.querySelectorAll('main button:enabled')].filter((one) => one.offsetParent)"
                                ".map((one) => one.innerText)")
        assert not [text for text in offered if CHANGES.search(text)], path


@pytest.mark.parametrize("names", [EVERYWHERE[0::2], EVERYWHERE[1::2]], ids=["even", "odd"])
def test_every_screen_says_that_it_failed_and_recovers(operator, place, names):
    operator.open("/keys")
    operator.see("form")
    for path in names:
        operator.script(BREAK)
        operator.script(GO, "/nothing")
        operator.see("screen-missing", "no such page")
        operator.script(GO, path_at(place, path))
        operator.see(".state[data-state=failed]", "nothing is there")
        operator.see(".state[data-state=failed]", "r-17")
        operator.see(".state[data-state=failed] button")
        operator.script("window.fetch = window.real; document.querySelector('.state[data-state=failed] button').click()")  # an event may recover it
        operator.wait(lambda: not operator.all(".state[data-state=failed]") and not operator.all(".skeletons"), f"{path} to recover")


def test_two_tabs_share_one_stream_and_the_other_takes_over(operator, place):
    driver = operator.driver
    made = [driver.execute_cdp_cmd("Page.addScriptToEvaluateOnNewDocument", {"source": COUNT})["identifier"]]
    operator.open("/jobs?type=webhook")
    first = driver.current_window_handle
    operator.wait(lambda: operator.script("return window.streams") > 0, "the first tab's stream")
    driver.switch_to.new_window("tab")
    second = driver.current_window_handle
    try:
        driver.execute_cdp_cmd("Page.addScriptToEvaluateOnNewDocument", {"source": COUNT})
        driver.get(f"{operator.url}/jobs?type=webhook")
        operator.wait(lambda: operator.all("table") or operator.all("[data-state=empty]"), "the list")
        job = operator.see_new_job(place)
        assert operator.script("return window.streams") == 0, "the second tab hears by the first one"
        driver.switch_to.window(first)
        driver.get("about:blank")
        driver.switch_to.window(second)
        operator.wait(lambda: operator.script("return window.streams") > 0, "the second tab's own stream")
        place.queue.run("SELECT cancel_job(%s)", job)
        operator.see(f"tr[data-id='{job}'] .badge", "Canceled")
    finally:
        driver.switch_to.window(second)
        driver.close()
        driver.switch_to.window(first)
        operator.open("/jobs?type=webhook")  # a page whose storage the next test may clear
        driver.execute_cdp_cmd("Page.removeScriptToEvaluateOnNewDocument", {"identifier": made[0]})


@on_desk_and_phone("screen")
def test_paper_shows_lists_without_buttons(screen, place):
    for path, shown in (("/?q=bridge", ".hit"), (f"/videos/{place.film}?q=harbour", "cv-transcript li")):
        screen.open(path)
        screen.see(shown)
        screen.driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": "print"})
        try:
            assert screen.all(shown)[0].is_displayed()
            kept = [one.tag_name for one in screen.all("header, .skip, button:not(.at), nav, input, select, video, dialog") if one.is_displayed()]
            assert kept == []
            under = screen.script("const hit = document.querySelector('.hit'); return hit && getComputedStyle(hit, '::after').content")
            assert under is None or under.startswith(f'"{screen.url}/videos/'), "an address on paper has its host"
            pdf = base64.b64decode(screen.driver.execute_cdp_cmd("Page.printToPDF", {})["data"])
            assert pdf.startswith(b"%PDF") and b"/Page" in pdf
        finally:
            screen.driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": ""})


@pytest.mark.parametrize("size, theme", LOOKS)
def test_a_job_waits_runs_and_fails_on_its_page(operator, place, size, theme):
    operator.resize(*size)
    operator.theme(theme)
    job = place.queue.add("embed", video_id=place.film)
    operator.open(f"/jobs/{job}")
    operator.see("[data-state=queued] .why-box", "No worker takes such jobs")
    claimed = place.queue.claim_one("embed")
    place.queue.run("UPDATE jobs SET progress = 0.41, progress_message = 'half of it' WHERE id = %s", job)
    operator.see("[data-state=processing] .faint", "41 % half of it")
    assert not operator.all(".why-box") and operator.see(".page progress").get_property("value") == 0.41
    place.queue.fail(claimed, retryable=False)
    operator.see("[data-state=failed] .error-box", "it failed")
    operator.see(".attempts .fault", "it failed")
    assert operator.script("return document.documentElement.scrollWidth <= innerWidth")


# What must be in a file of each format: one of its own signs.
SIGNS = {"srt": "00:00:00,000 --> ", "vtt": "WEBVTT", "ass": "[V4+ Styles]", "csv": "video,start,end,", "txt": "", "md": "| start | end | text |",
         "json": '"segments": [', "jsonl": '{"id"'}


def files_of(operator, folder, links):
    """What the links save, by their formats."""
    operator.save_into(folder)
    for number, link in enumerate(links, 1):
        operator.script("arguments[0].click()", link)
        files = operator.saved(folder, number)
    return {one.suffix[1:]: one.read_text() for one in files}


@pytest.mark.parametrize("size, theme", LOOKS[1:3])
def test_exports_open(operator, place, tmp_path, size, theme):
    operator.resize(*size)
    operator.theme(theme)
    operator.open(f"/videos/{place.film}")
    operator.see("[role=tab]", "Processing").click()
    operator.see("#panel a.button", "srt")
    files = files_of(operator, tmp_path / "video", operator.all("#panel a.button"))
    assert files.keys() == SIGNS.keys()
    assert all(sign in files[name] and "quick harbour" in files[name] for name, sign in SIGNS.items())
    for name in ("srt", "vtt", "ass"):
        subtitles = subprocess.run(["ffmpeg", "-v", "error", "-i", next((tmp_path / "video").glob(f"*.{name}")), "-f", "ass", "-"],
                                   check=True, capture_output=True, text=True).stdout
        assert "quick harbour" in subtitles, name
    assert len(json.loads(files["json"])["segments"]) == len(files["jsonl"].splitlines()) == len(list(csv.reader(files["csv"].splitlines()))) - 1

    operator.open(f"/?q=harbour&video={place.film}")
    operator.see(".head summary", "Export").click()
    operator.see(".head .menu a", "CSV")
    files = files_of(operator, tmp_path / "hits", operator.all(".head .menu a"))
    (hit,) = csv.DictReader(files["csv"].splitlines())
    assert files.keys() == {"csv", "jsonl", "srt"} and json.loads(files["jsonl"])["segment_id"] == hit["id"]
    operator.press(Keys.ESCAPE)
    operator.wait(lambda: not operator.all(".menu[open]"), "the menu to close")
    operator.driver.get(hit["link"])
    operator.see("cv-transcript li", "quick harbour")


@pytest.fixture
def own_place(cluster, program, tmp_path):
    """A page whose database may be killed."""
    made = Place(cluster, program, tmp_path, 12, 0)
    yield made, cluster
    made.end()


def test_a_database_that_is_killed_is_told_and_the_page_goes_on(driver, own_place):
    place, cluster = own_place
    shown = Screen(driver, place.url, token(exp=2000000000))
    shown.open("/jobs")
    shown.see("cv-app[data-live=true]")
    cluster.stop(immediate=True)
    shown.see(".away", "Not live")  # nobody has asked for anything
    shown.see("header cv-search-box input").send_keys("typed")
    shown.script(GO, "/videos")
    shown.see(".away", "The server is not ready")
    shown.see("[data-state=failed]")
    for size, theme in LOOKS:
        shown.resize(*size)
        shown.theme(theme)
        assert shown.script("return document.documentElement.scrollWidth <= innerWidth")
    cluster.start()
    shown.see(".card")
    shown.wait(lambda: not shown.all(".away, [data-state=failed]"), "the page to go on by itself")
    assert shown.see("header cv-search-box input").get_property("value") == "typed"
    assert shown.complaints() == []
    shown.forget()


def heap(driver):
    driver.execute_cdp_cmd("HeapProfiler.collectGarbage", {})
    return driver.execute_cdp_cmd("Runtime.getHeapUsage", {})["usedSize"]


def resident(process):
    with open(f"/proc/{process.pid}/statm", encoding="ascii") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def test_live_work_does_not_fill_the_memory(operator, place, record_property):
    operator.open("/jobs?type=webhook")
    operator.see("tbody tr")
    operator.see("cv-app[data-live=true]")
    shown = operator.see_new_job(place)

    def change():
        place.queue.run("SELECT cancel_job(%s), cancel_job(%s)", shown, place.queue.add("webhook"))
        operator.see(f"tr[data-id='{shown}'] .badge", "Canceled")
        place.queue.run("SELECT retry_job(%s)", shown)
        operator.see(f"tr[data-id='{shown}'] .badge", "Waiting")

    for _ in range(WARM_CHANGES):
        change()
    before = heap(operator.driver), resident(place.gateway.process)
    end = time.monotonic() + MINUTES * 60
    changes = 0
    while time.monotonic() < end or changes < 5:
        change()
        changes += 1
    after = heap(operator.driver), resident(place.gateway.process)
    record_property("memory", f"{changes} changes: tab {before[0]} to {after[0]}, gateway {before[1]} to {after[1]} bytes")
    print(f"{changes} changes: tab {before[0]} to {after[0]}, gateway {before[1]} to {after[1]} bytes")
    assert after[0] - before[0] < HEAP_GROWTH_MAX and after[1] - before[1] < GATEWAY_GROWTH_MAX
