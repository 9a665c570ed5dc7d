"""Whether everybody can use the page: axe on each screen and state in both themes; and what the page weighs."""

import gzip
import pathlib
import re

import pytest
from screen import DESK, GO, NARROW, PHONE, WIDE
from screens import OPERATORS, SCREENS, path_at
from selenium.webdriver.common.keys import Keys

HERE = pathlib.Path(__file__).resolve().parent
WEB = HERE.parents[1] / "web"
AXE = (HERE / "vendor" / "axe.min.js").read_text()
RUN = """const done = arguments[arguments.length - 1];
    axe.run(document, {runOnly: ['wcag2a', 'wcag2aa', 'wcag21a', 'wcag21aa', 'wcag22aa', 'best-practice']}).then(
        (found) => done(found.violations.map((one) => one.id + ': ' + one.nodes.map((node) => node.html + ' ' +
            node.failureSummary).slice(0, 3).join(' | '))), (fault) => done([String(fault)]));"""
IS_STILL = """return document.getAnimations().every((one) => one.playState !== 'running' || one.effect.getComputedTiming().endTime === Infinity);"""
# What is wrong with how a page is read aloud, besides what axe finds.
READ = """const seen = (one) => one.checkVisibility({visibilityProperty: true});
    const levels = [...document.querySelectorAll('h1, h2, h3, h4, h5, h6')].filter(seen).map((one) => Number(one.localName[1]));
    const named = (one) => `${one.localName} "${one.textContent.trim().slice(0, 40)}"`;
    const wrong = levels.filter((one) => one === 1).length === 1 ? [] : [`headings of the first level: ${levels}`];
    wrong.push(...levels.flatMap((one, n) => one > (levels[n - 1] ?? 0) + 1 ? [`heading ${n + 1} of ${levels} jumps`] : []));
    const controls = 'a[href], button, input, select, textarea, summary, [tabindex="0"]';
    wrong.push(...[...document.querySelectorAll('a[href], button, summary')].filter((one) => one.querySelector(controls)).map((one) => `a control in ${named(one)}`));
    wrong.push(...[...document.querySelectorAll('ul, ol')].filter((one) => seen(one) && !one.children.length).map((one) => `an empty list in ${named(one.parentElement)}`));
    wrong.push(...[...document.querySelectorAll('[role=status], [aria-live]')].filter((one) => one.querySelector('progress, meter')).map((one) => `every step is said of ${named(one)}`));
    return wrong;"""
FIRST_JS_MAX, FIRST_CSS_MAX = 45 * 1024, 12 * 1024  # bytes, compressed
ZOOMED = (320, 256)  # what a window of 1280 x 1024 has at 400 %
REQUESTS_MAX = 25  # of the first screen's own files


def nameless(screen):
    """What the keyboard reaches and nobody can say, in the tree that screen readers get."""
    nodes = screen.driver.execute_cdp_cmd("Accessibility.getFullAXTree", {})["nodes"]
    return [one["role"]["value"] for one in nodes if not one["ignored"] and not one.get("name", {}).get("value", "").strip()
            and one["role"]["value"] not in ("RootWebArea", "main", "dialog", "Video", "option", "menuitem")
            and any(has["name"] == "focusable" and has["value"]["value"] for has in one.get("properties", []))]


def examine(screen, place, path, shown):
    screen.open(path_at(place, path))
    for size, theme in (DESK, PHONE):
        screen.theme(theme)
        screen.resize(*size)
        screen.see(shown)
        screen.wait(lambda: not screen.all(".skeletons") and screen.script(IS_STILL), "all to be there, in its colours")
        screen.script(AXE)
        assert not (found := screen.driver.execute_async_script(RUN)), "\n".join([theme, *found])
        assert not (found := screen.script(READ) + nameless(screen)), (theme, found)
        assert screen.script("return document.documentElement.scrollWidth <= innerWidth"), f"nothing is wider than the window: {theme}"
    screen.resize(*ZOOMED)
    assert not (found := screen.script(CUT)), found


@pytest.mark.parametrize("name", SCREENS)
def test_nothing_keeps_people_out(screen, place, name):
    examine(screen, place, *SCREENS[name])


@pytest.mark.parametrize("name", OPERATORS)
def test_nothing_keeps_operators_out(operator, place, name):
    examine(operator, place, *OPERATORS[name])


def test_the_dialogs_too(screen):
    screen.open("/")
    screen.see(".card")
    screen.script("document.activeElement.blur()")
    screen.press("?")
    screen.see("dialog[open] kbd")
    screen.script(AXE)
    assert not (found := screen.driver.execute_async_script(RUN)), "\n".join(found)


def test_a_video_is_read_in_order_and_its_dialogs_give_the_focus_back(screen, place):
    screen.open(f"/videos/{place.film}")
    screen.see("cv-transcript li")
    screen.see("cv-boxes.text span")
    boxes = screen.driver.execute_cdp_cmd("Accessibility.getFullAXTree", {})["nodes"]
    assert sum(one.get("name", {}).get("value") == "the quick harbour @anna" and one["role"]["value"] == "StaticText" for one in boxes) <= 1, "the boxes are not read again"
    for tab in ("names", "work"):
        screen.see(f"#tab-{tab}").click()
        screen.see("#panel h2")
        assert not (found := screen.script(READ) + nameless(screen)), (tab, found)
    button = screen.see(".heading .of-menu")
    button.send_keys(Keys.ENTER)
    screen.see("[data-do=edit]").send_keys(Keys.ENTER)
    screen.see("dialog[open] input[name=title]")
    for _ in range(12):
        screen.press(Keys.TAB)
        assert screen.script("return !!document.activeElement.closest('dialog') || document.activeElement === document.body")
    screen.script("document.querySelector('dialog[open] input').focus()")
    screen.press(Keys.ESCAPE)
    screen.wait(lambda: screen.driver.switch_to.active_element == button, "the focus where it was")
    screen.see(".top nav a[href='/videos']").send_keys(Keys.ENTER)
    screen.see("h1", "Library")
    screen.wait(lambda: screen.script("return document.activeElement.id === 'main' && document.querySelector('#announcer').textContent === 'Library · cortana'"),
                "the screen to have the focus and to be said once")


# What is wider than its place: the window, or a button, a heading, a head of a column, a badge, a command
# or a step of a graph.
CUT = """const cut = [...document.querySelectorAll('main button, main .button, h1, h2, h3, th, .badge, .tabs a, .queue pre')].filter((one) => one.offsetParent && one.clientWidth > 1 &&
        one.scrollWidth > one.clientWidth + 1 && getComputedStyle(one).display !== 'inline').map((one) => one.innerText);
    for (const step of document.querySelectorAll('.graph g')) {
        const edge = step.querySelector('rect').getBoundingClientRect();
        cut.push(...[...step.querySelectorAll('text')].filter((one) => one.getBoundingClientRect().right > edge.right).map((one) => one.textContent));
    }
    return document.documentElement.scrollWidth > innerWidth ? [...cut, 'the window'] : cut;"""
WORDY = ["/?q=bridge", "/videos", "/videos/FILM?q=harbour", "/queues", "/jobs?state=failed", "/runs/RUN", "/workers", "/rules", "/schedules", "/keys"]


@pytest.mark.parametrize("words", ["de", "long", "mirrored"])
def test_other_words_fit(operator, place, words):
    with operator.words(words):
        operator.open("/")
        operator.see(".card")  # the page has taken the token from its address
        for path in WORDY:
            operator.script(GO, path.replace("FILM", place.film).replace("RUN", place.runs[0]))
            operator.wait(lambda: operator.script("return document.querySelector('main')?.innerText.length > 100") and
                          not operator.all(".skeletons"), path)
            for size in (WIDE, NARROW):
                operator.resize(*size)
                assert not (found := operator.script(CUT)), (path, size, found)


def imports(path, seen):
    """The modules that one imports before it runs, and those that they import."""
    if path not in seen:
        seen.add(path)
        for found in re.findall(r"^import (?:.* from )?'([^']+)'", path.read_text(), re.M):
            imports((path.parent / found).resolve(), seen)
    return seen


@pytest.mark.parametrize("path, name", [("/", "search"), ("/videos", "library"), ("/videos/FILM", "video"), ("/jobs", "jobs")])
def test_no_module_waits_for_another_one(screen, place, path, name):
    """What runs first is told to the browser before any of it has come: each round of finding out costs a round trip."""
    first = set(re.findall(r'modulepreload" href="/([^"]+)', (WEB / "index.html").read_text()))
    wanted = {str(one.relative_to(WEB)) for one in imports(WEB / "app.js", set())} - {"app.js"}
    assert first == wanted
    screen.open(path.replace("FILM", place.film))
    hinted = set(screen.script("return [...document.head.querySelectorAll('link[rel=modulepreload]')].map((one) => one.getAttribute('href').slice(1))"))
    assert hinted == wanted | {str(one.relative_to(WEB)) for one in imports(WEB / "screens" / f"{name}.js", set())}


def test_a_video_is_asked_for_before_the_modules_run(screen, place):
    screen.open("/")
    screen.see(".card")
    screen.driver.get(f"{screen.url}/videos/{place.film}")
    screen.see("cv-transcript li")
    asked = screen.script("return performance.getEntriesByType('resource').map((one) => [new URL(one.name).pathname, one.startTime])")
    start = {}
    for name, at in asked:
        start.setdefault(name, []).append(at)
    video = f"/api/v1/videos/{place.film}"
    first = min(start[f"{video}/grant"])
    assert all(len(start[name]) == 1 and start[name][0] < first for name in (video, f"{video}/poster", "/lang/en.json"))
    assert min(start["/vendor/hls.min.js"]) > first, "what plays it comes behind what is seen first"


@pytest.mark.parametrize("size", [WIDE, NARROW])
def test_a_videos_picture_comes_first_and_where_it_stays(screen, place, size):
    place_of = "const {left, top, width, height} = document.querySelector(arguments[0]).getBoundingClientRect(); return [left, top, width, height]"
    screen.resize(*size)
    screen.open("/")
    screen.see("h1")
    screen.driver.execute_cdp_cmd("Network.enable", {})
    screen.driver.execute_cdp_cmd("Network.setBlockedURLs", {"urls": ["*/app.js"]})
    try:
        screen.driver.get(f"{screen.url}/videos/{place.film}")
        screen.see(".early img")
        first = screen.script(place_of, ".early .stage")
    finally:
        screen.driver.execute_cdp_cmd("Network.setBlockedURLs", {"urls": []})
    screen.driver.get(f"{screen.url}/videos/{place.film}")
    screen.see("cv-transcript li")
    assert screen.script(place_of, "cv-app .stage") == first
    screen.wait(lambda: not screen.all(".early"), "the player's own picture")


def test_the_first_screen_is_light(screen):
    screen.open("/")
    screen.see(".card")
    names = {re.sub(r"^https?://[^/]+", "", name) for name in screen.script(
        "return performance.getEntriesByType('resource').map((entry) => entry.name)")}
    files = [WEB / name[1:] for name in names if (WEB / name[1:]).is_file()]
    weight = {".js": sum(len(gzip.compress(path.read_bytes(), 9)) for path in files if path.suffix == ".js"),
              ".css": len(gzip.compress(b"".join(path.read_bytes() for path in WEB.glob("style/*.css")), 9))}
    assert 0 < weight[".js"] <= FIRST_JS_MAX and 0 < weight[".css"] <= FIRST_CSS_MAX, weight
    assert "/vendor/hls.min.js" not in names and "/style.css" in names and len(files) < REQUESTS_MAX
