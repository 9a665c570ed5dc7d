"""A library in which time stands still: the same ids, ages and order in each run, for pictures that are compared."""

import contextlib

from screen import scripts
from workers import find_faketime

AT = "2026-03-02 10:00:00"  # of the database, the gateway and the browser, whose zones are UTC
PROCESS = {"LD_PRELOAD": str(find_faketime()), "FAKETIME": AT, "FAKETIME_DONT_FAKE_MONOTONIC": "1", "TZ": "UTC"}  # environment of its servers

# Ids that follow from their order. Planners put the body of such a function in the place of its call.
IDS = r"""SET allow_system_table_mods = on;
    CREATE SEQUENCE cortana.still_ids;
    GRANT USAGE ON SEQUENCE cortana.still_ids TO PUBLIC;
    CREATE OR REPLACE FUNCTION pg_catalog.gen_random_uuid() RETURNS uuid LANGUAGE sql VOLATILE PARALLEL SAFE AS
        $$ SELECT overlay(overlay(md5(nextval('cortana.still_ids'::regclass)::text) PLACING '4' FROM 13) PLACING '8' FROM 17)::uuid $$;
    SELECT setseed(0.5)"""

# In the browser: the same moment, nothing that moves, the fonts that the pictures were made with, and how many answers are awaited.
# Hidden is what no run has like the one before: the name of a request, by which its line in the log is found.
STILL = """{
    const at = Date.parse('%sZ'.replace(' ', 'T')), RealDate = Date, real = window.fetch;
    window.Date = class extends RealDate {
        constructor(...of) { of.length ? super(...of) : super(at); }
        static now() { return at; }
    };
    window.awaited = 0;
    window.fetch = async (...asked) => {
        window.awaited++;
        try { return await real(...asked); } finally { setTimeout(() => window.awaited--); }
    };
    const still = new CSSStyleSheet();
    still.replaceSync(`*, *::before, *::after { animation: none !important; transition: none !important; caret-color: transparent !important;
            scrollbar-width: none !important; }
        :root { --font: "Noto Sans"; --fixed: "DejaVu Sans Mono"; }
        .progress-line, .away { display: none !important; }
        .state.failed code { visibility: hidden !important; }`);
    document.adoptedStyleSheets = [still];
}""" % AT

# The ways to the other screens are looked at beside one of them: an entry that comes changes one picture.
WITHOUT_PLACES = """addEventListener('DOMContentLoaded', () => {
    const hidden = new CSSStyleSheet();
    hidden.replaceSync('.places > * { visibility: hidden !important; }');
    document.adoptedStyleSheets = [...document.adoptedStyleSheets, hidden];
});"""

# Waits until all is there and nothing has changed for a few frames. What loads without an end is awaited by nobody.
SETTLED = """const [isLoading, done] = arguments, QUIET_MS = 60;
    let changed = performance.now();
    const watch = new MutationObserver(() => { changed = performance.now(); });
    watch.observe(document, {subtree: true, childList: true, attributes: true, characterData: true});
    const inSight = (one) => { const {top, bottom} = one.getBoundingClientRect(); return bottom > 0 && top < innerHeight; };
    const look = () => {
        const isThere = (isLoading || !window.awaited && !document.querySelector('.skeletons')) &&
            [...document.images].every((one) => one.complete || !inSight(one)) &&
            [...document.querySelectorAll('video')].every((one) => !one.offsetParent || one.error || one.readyState >= 2 && !one.seeking);
        if (isThere && performance.now() - changed > QUIET_MS) {
            watch.disconnect();
            document.activeElement.blur();
            requestAnimationFrame(() => requestAnimationFrame(() => done()));
        } else {
            requestAnimationFrame(look);
        }
    };
    look();"""


@contextlib.contextmanager
def still(driver):
    """A browser in which time stands still."""
    driver.execute_cdp_cmd("Emulation.setTimezoneOverride", {"timezoneId": "UTC"})
    with scripts(driver, STILL):
        yield
    driver.execute_cdp_cmd("Emulation.setTimezoneOverride", {"timezoneId": ""})
