"""The page in a browser, as the tests speak of it: waits for what is to be seen, never for time."""

import contextlib
import pathlib
import re
import sys

import pytest
from selenium.common.exceptions import StaleElementReferenceException, TimeoutException
from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys
from selenium.webdriver.support.ui import WebDriverWait

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "fixtures/make"))

from rendered_screens import browser as chromium  # noqa: E402
from workers import DEADLINE  # noqa: E402

WIDE, NARROW = (1366, 768), (360, 740)  # windows
DESK, PHONE = (WIDE, "light"), (NARROW, "dark")


def on_desk_and_phone(fixture):
    """Runs a test twice, its "screen" or "operator" in these two windows and themes."""
    return pytest.mark.parametrize(fixture, [DESK, PHONE], indirect=True, ids=["desk", "phone"])


def in_both_browsers(test):
    """Runs a test in Chromium and in Firefox."""
    return pytest.mark.parametrize("driver", ["chromium", "firefox"], indirect=True)(test)


STATE = """const end = document.querySelector('.end');
    return {address: location.href, seen: document.visibilityState, place: JSON.stringify(history.state), y: scrollY,
        height: document.body.scrollHeight, end: end && end.getBoundingClientRect().top,
        loading: document.querySelectorAll('.skeletons').length,
        open: performance.getEntriesByType('resource').filter((one) => !one.responseEnd).map((one) => one.name),
        text: document.body.innerText.slice(-300)};"""  # said of a page that did not come to what was awaited


# Other words than English ones: German, every text 40 % longer, or the page mirrored as for Arabic.
WORDS = {
    "en": "",
    "de": "try { localStorage.setItem('language', 'de'); } catch {}",
    "long": """const real = window.fetch;
        const stretch = (text) => typeof text === 'object' ? Object.fromEntries(Object.entries(text).map(([form, one]) => [form, stretch(one)]))
            : text.replace(/[^\\s{}]+(?![^{]*})/g, (word) => word + 'nnnnnnnnnnnn'.slice(0, Math.ceil(word.length * 0.4)));
        window.fetch = async (url, wishes) => {
            const answer = await real(url, wishes);
            return !String(url).startsWith('/lang/') ? answer : new Response(JSON.stringify(Object.fromEntries(Object.entries(await answer.json())
                .map(([key, text]) => [key, key.endsWith('.key') ? text : stretch(text)]))));
        };""",
    "mirrored": "new MutationObserver((_, me) => { if (document.documentElement) { document.documentElement.dir = 'rtl'; me.disconnect(); } })"
                ".observe(document, {childList: true});",
}

UNFINISHED = {".crdownload", ".part"}  # what Chromium and Firefox add to the name of a file that is being saved
GO = "history.pushState({}, '', arguments[0]); dispatchEvent(new PopStateEvent('popstate'));"  # to another screen


@contextlib.contextmanager
def scripts(driver, *sources):
    """Scripts that run before those of each page that is opened meanwhile."""
    made = [driver.execute_cdp_cmd("Page.addScriptToEvaluateOnNewDocument", {"source": source})["identifier"] for source in sources]
    try:
        yield
    finally:
        for identifier in made:
            driver.execute_cdp_cmd("Page.removeScriptToEvaluateOnNewDocument", {"identifier": identifier})


def browser():
    """With a mouse, which a browser without a window has not by itself."""
    return chromium("--mute-audio", "--lang=en", "--autoplay-policy=no-user-gesture-required",
                    "--blink-settings=primaryHoverType=2,availableHoverTypes=2,primaryPointerType=4,availablePointerTypes=4", log="ALL")


class Screen:
    def __init__(self, driver, url, token):
        self.driver, self.url, self.token = driver, url, token
        self.complaints()  # those of tests before are not this one's

    def resize(self, width, height):
        self.driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride",
                                    {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": width < 500})

    def theme(self, name):
        self.driver.execute_cdp_cmd("Emulation.setEmulatedMedia",
                                    {"features": [{"name": "prefers-color-scheme", "value": name}]})

    def touch(self, is_touched=True):
        """Fingers point in place of the mouse, which comes back when another document is opened."""
        self.driver.execute_cdp_cmd("Emulation.setTouchEmulationEnabled", {"enabled": is_touched})

    def words(self, name):
        """One of WORDS, for what is opened meanwhile."""
        return scripts(self.driver, WORDS[name])

    def open(self, path="/", is_signed_in=True):
        self.driver.get("about:blank")
        self.driver.get(f"{self.url}{path}" + (f"#t={self.token}" if is_signed_in else ""))

    def forget(self):
        """Leaves nothing of this test in the browser."""
        self.driver.execute_cdp_cmd("Network.emulateNetworkConditions",
                                    {"offline": False, "latency": 0, "downloadThroughput": -1, "uploadThroughput": -1})
        self.driver.execute_script("localStorage.clear(); sessionStorage.clear()")
        self.touch(False)
        self.driver.get("about:blank")  # first, because a page that still signs in would bring its cookie afterwards
        self.driver.execute_cdp_cmd("Network.clearBrowserCookies", {})

    def all(self, selector):
        return self.driver.find_elements(By.CSS_SELECTOR, selector)

    def wait(self, condition, what):
        try:
            return WebDriverWait(self.driver, DEADLINE, 0.05, [StaleElementReferenceException]).until(lambda _: condition(), what)
        except TimeoutException as failure:
            failure.msg = f"{what}; meanwhile {self.script(STATE)}"
            raise

    def fill(self, form, **values):
        """Types into the fields of a form."""
        for name, value in values.items():
            self.see(f"{form} input[name={name}]").send_keys(value)

    def see(self, selector, text=None):
        """The first element that is to be seen, and holds the text."""
        def look():
            return next((one for one in self.all(selector) if one.is_displayed() and (text is None or text in one.text)),
                        None)
        return self.wait(look, f"{selector} {text or ''} is to be seen")

    def save_into(self, folder):
        """Links that are followed from now on save files in this folder, which is made."""
        folder.mkdir()
        self.driver.execute_cdp_cmd("Browser.setDownloadBehavior", {"behavior": "allow", "downloadPath": str(folder)})

    def saved(self, folder, number=1):
        """The files that so many links have saved; until all of a file is there, a browser also has one of a name of its own."""
        def look():
            files = list(folder.iterdir())
            is_whole = not any(one.name.startswith(".") or one.suffix in UNFINISHED or one.stat().st_size == 0 for one in files)
            return files if len(files) == number and is_whole else None
        return self.wait(look, f"{number} saved files")

    def settle(self):
        """Waits until all is there, pictures too."""
        self.wait(lambda: not self.all(".skeletons"), "all to be there")
        self.wait(lambda: self.script("return [...document.images].every((one) => one.complete)"), "the pictures")

    def script(self, text, *values):
        return self.driver.execute_script(text, *values)

    def press(self, *keys):
        self.driver.switch_to.active_element.send_keys(*keys)

    def search(self, query):
        field = self.see("cv-search-box input")
        field.clear()
        field.send_keys(query, Keys.ENTER)
        self.see(".results[data-state=shown]")

    def see_new_job(self, place):
        """Of the list of webhooks: it waits behind a button, which is pressed."""
        job = place.queue.add("webhook")
        self.wait(lambda: self.all(f".fresh button, tr[data-id='{job}']"), "the job")
        if not self.all(".fresh button"):  # it is older than the stream of events, and came with the list read then
            job = place.queue.add("webhook")
        self.see(".fresh button", "1 new job").click()
        self.see(f"tr[data-id='{job}']")
        return job

    def pass_time(self):
        """So much that a deletion can no longer be withdrawn."""
        self.script("const now = Date.now; Date.now = () => now() + 15000;")

    def complaints(self):
        """What the browser's console has of errors, without the refusals that tests ask for, and the question whether to
        leave, which a browser puts to people alone."""
        return [entry["message"] for entry in self.driver.get_log("browser") if entry["level"] == "SEVERE"
                and not re.search("Failed to load resource|beforeunload", entry["message"])]
