"""Whether everybody can use the page: axe on each screen and state in both themes; and what the page weighs."""

import gzip
import pathlib
import re

import pytest
from screen import NARROW, WIDE

HERE = pathlib.Path(__file__).resolve().parent
WEB = HERE.parents[1] / "web"
AXE = (HERE / "vendor" / "axe.min.js").read_text()
RUN = """const done = arguments[arguments.length - 1];
    axe.run(document, {runOnly: ['wcag2a', 'wcag2aa', 'wcag21a', 'wcag21aa', 'wcag22aa', 'best-practice']}).then(
        (found) => done(found.violations.map((one) => one.id + ': ' + one.nodes.map((node) => node.html + ' ' +
            node.failureSummary).slice(0, 3).join(' | '))), (fault) => done([String(fault)]));"""
FIRST_JS_MAX, FIRST_CSS_MAX = 45 * 1024, 12 * 1024  # bytes, compressed
REQUESTS_MAX = 25  # of the first screen's own files

SCREENS = {
    "start": ("/", ".card"), "results": ("/?q=bridge", ".hit"), "nothing": ("/?q=zzzzqqqq", "[data-state=empty]"),
    "refused": ("/?q=-lang%3Aeng", "[data-state=failed]"), "library": ("/videos", ".card"),
    "video": ("/videos/FILM?q=harbour", "cv-transcript li.found"), "jobs": ("/jobs", "tbody tr"),
    "job": ("/jobs/FAILED", ".error-box"), "run": ("/runs/RUN", ".graph"), "missing": ("/jobs/0f0e0d0c-0000-4000-8000-000000000099", "[data-state=failed]"),
}
OPERATORS = {"queues": ("/queues", ".queue"), "runs": ("/runs", "tbody tr"), "workers": ("/workers", "tbody tr"),
             "failures": ("/failures", "h1"), "schedules": ("/schedules", "h1"), "keys": ("/keys", "form"), "performance": ("/performance?hours=720", "tbody tr"), "resources": ("/resources", "tbody tr"),
             "tenants": ("/tenants", "tbody tr"), "rules": ("/rules", "tbody tr"), "schedule": ("/schedules/TRIGGER", ".where time"),
             "webhooks": ("/webhooks", "tbody tr"), "webhook": ("/webhooks/ours", ".state"), "workflows": ("/workflows", ".graph"),
             "workflow": ("/workflows/video_pipeline", ".graph"), "commands": ("/commands?run=gc", ".make"),
             "audit": ("/audit", "h1"), "many": ("/jobs?state=failed", "tbody tr")}


def examine(screen, place, theme, path, shown):
    failed = place.queue.value("SELECT id::text FROM jobs WHERE status = 'failed' AND video_id = ANY (%s::uuid[]) LIMIT 1", place.videos)
    trigger = place.queue.value("SELECT id::text FROM job_triggers WHERE name = 'nightly-cleaning'")
    screen.theme(theme)
    screen.resize(*(NARROW if theme == "dark" else WIDE))
    screen.open(path.replace("FILM", place.film).replace("FAILED", failed).replace("RUN", place.runs[0])
                .replace("TRIGGER", trigger))
    screen.see(shown)
    screen.wait(lambda: not screen.all(".skeletons"), "all to be there")
    screen.script(AXE)
    assert not (found := screen.driver.execute_async_script(RUN)), "\n".join(found)
    assert screen.script("return document.documentElement.scrollWidth <= innerWidth"), "nothing is wider than the window"


@pytest.mark.parametrize("theme", ["light", "dark"])
@pytest.mark.parametrize("name", SCREENS)
def test_nothing_keeps_people_out(screen, place, name, theme):
    examine(screen, place, theme, *SCREENS[name])


@pytest.mark.parametrize("theme", ["light", "dark"])
@pytest.mark.parametrize("name", OPERATORS)
def test_nothing_keeps_operators_out(operator, place, name, theme):
    examine(operator, place, theme, *OPERATORS[name])


def test_the_dialogs_too(screen):
    screen.open("/")
    screen.see(".card")
    screen.script("document.activeElement.blur()")
    screen.press("?")
    screen.see("dialog[open] kbd")
    screen.script(AXE)
    assert not (found := screen.driver.execute_async_script(RUN)), "\n".join(found)


def test_the_first_screen_is_light(screen):
    screen.open("/")
    screen.see(".card")
    names = {re.sub(r"^https?://[^/]+", "", name) for name in screen.script(
        "return performance.getEntriesByType('resource').map((entry) => entry.name)")}
    files = [WEB / name[1:] for name in names if (WEB / name[1:]).is_file()]
    weight = {kind: sum(len(gzip.compress(path.read_bytes(), 9)) for path in files if path.suffix == kind)
              for kind in (".js", ".css")}
    assert 0 < weight[".js"] <= FIRST_JS_MAX and 0 < weight[".css"] <= FIRST_CSS_MAX, weight
    assert "/vendor/hls.min.js" not in names and len(files) <= REQUESTS_MAX
