#!/usr/bin/python3
"""How fast the page is: what is seen first of a video on a slow machine and line, how soon it answers to keys there, and the first results after Enter; in turns
over several gateways, so that all see the same load: tests/page/speed.py [RUNS [GATEWAY…]]"""

import os
import pathlib
import statistics
import sys
import tempfile
import time

from demo import demo
from screen import WIDE, Screen, browser, scripts
from selenium.webdriver.common.keys import Keys

from api import Gateway

SLOWER = 4  # the processor
LINE = {"offline": False, "latency": 40, "downloadThroughput": 10_000_000 / 8, "uploadThroughput": 10_000_000 / 8}  # ms, bytes a second
FREE = {**LINE, "latency": 0, "downloadThroughput": -1, "uploadThroughput": -1}
WATCH = """window.seen = {lcp: 0, what: '', shift: 0, answer: 0};
    new PerformanceObserver((list) => { for (const one of list.getEntries()) if (one.interactionId) seen.answer = Math.max(seen.answer, one.duration); })
        .observe({type: 'event', durationThreshold: 16, buffered: true});
    new PerformanceObserver((list) => { for (const one of list.getEntries()) { seen.lcp = one.startTime; seen.what = one.element?.localName; } })
        .observe({type: 'largest-contentful-paint', buffered: true});
    new PerformanceObserver((list) => { for (const one of list.getEntries()) seen.shift += one.value; }).observe({type: 'layout-shift', buffered: true});"""
# From the key to the frame in which the first result is drawn.
ENTER = """window.took = null;
    document.addEventListener('keydown', (event) => {
        const start = event.timeStamp;
        if (event.key !== 'Enter') return;
        const before = document.querySelector('.results');
        const look = () => document.querySelector('.results .hit') && document.title.startsWith(event.target.value.trim() + ' ')
            ? requestAnimationFrame(() => setTimeout(() => { window.took = performance.now() - start; })) : requestAnimationFrame(look);
        look();
    }, {capture: true});"""
WORDS = ["bridge", "dough", "river", "lisbon", "battery", "subscribe", "revenue", "ready", "garden", "slide", "kilogram", "comment"]


def slow(screen, path, film):
    driver = screen.driver
    driver.execute_cdp_cmd("Network.clearBrowserCache", {})
    driver.execute_cdp_cmd("Network.emulateNetworkConditions", LINE)
    driver.execute_cdp_cmd("Emulation.setCPUThrottlingRate", {"rate": SLOWER})
    driver.get("about:blank")
    with scripts(driver, WATCH):
        driver.get(screen.url + path.replace("FILM", film))
    screen.see("cv-transcript li, .card, .hit")
    screen.wait(lambda: screen.script("return document.readyState === 'complete' && seen.lcp > 0"), "the largest picture")
    screen.wait(lambda: not screen.all("cv-player") or screen.script("return document.querySelector('video')?.readyState >= 2"), "a frame")
    field = next(one for one in screen.all("cv-search-box input") if one.is_displayed())
    field.send_keys(" dough")
    screen.see(".tools button").click()
    screen.wait(lambda: screen.script("return seen.answer > 0"), "the answers to keys and a click")
    seen = screen.script("return seen")
    driver.execute_cdp_cmd("Emulation.setCPUThrottlingRate", {"rate": 1})
    driver.execute_cdp_cmd("Network.emulateNetworkConditions", FREE)
    return seen


def enter(screen, word, pause):
    field = screen.see("cv-search-box input")
    field.clear()
    field.send_keys(word)
    screen.script(ENTER)
    time.sleep(pause)  # seconds, in which somebody looks at what was typed
    field.send_keys(Keys.ENTER)
    return screen.wait(lambda: screen.script("return window.took"), "the results")


def spread(values):
    values = sorted(values)
    return f"{statistics.median(values):.0f} (of {len(values)}: {values[0]:.0f} to {values[-1]:.0f})"


def main(runs=5, *programs):
    with demo(200, 3000) as (place, bearer), browser() as driver:
        gateways = [place.gateway] if not programs else [Gateway(
            lambda _, one=one: one, place.address, pathlib.Path(tempfile.mkdtemp()), "--connections", "2",
            STORE_URL=f"dir:{place.store}") for one in programs]
        screens = [Screen(driver, f"http://127.0.0.1:{one.port}", bearer) for one in gateways]
        found = [{} for _ in screens]
        driver.execute_cdp_cmd("Network.enable", {})
        for turn in range(int(runs)):
            for screen, figures in zip(screens, found):
                screen.resize(*WIDE)
                screen.open("/")
                screen.see(".card")
                for path in ("/", "/?q=bridge", "/videos/FILM?q=harbour"):
                    seen = slow(screen, path, place.film)
                    figures.setdefault(f"{path} LCP ms ({seen['what']})", []).append(seen["lcp"])
                    figures.setdefault(f"{path} shift/1000", []).append(seen["shift"] * 1000)
                    figures.setdefault(f"{path} slowest answer to a key or a click ms", []).append(seen["answer"])
                for pause in (0, 0.6):
                    for word in WORDS[turn % 2::2]:
                        screen.open("/", is_signed_in=False)
                        screen.see(".card")
                        figures.setdefault(f"Enter, {pause} s after the last letter, to results ms", []).append(enter(screen, word, pause))
        for name, (figures, number) in zip(programs or ["this build"], zip(found, range(len(found)))):
            print(f"{number} {name}, load {os.getloadavg()[0]:.1f}")
            for what, values in figures.items():
                print(f"  {what}: {spread(values)}")
        for one in gateways:
            if one is not place.gateway:
                one.end()


if __name__ == "__main__":
    main(*sys.argv[1:])
