#!/usr/bin/python3
"""Photographs every screen of the page over a large library, in two widths and two themes, to be looked at:
[CORTANA_PAGE_WORDS=de] tests/page/pictures.py FOLDER [VIDEOS [JOBS [NAME…]]]; the words are one of WORDS in screen.py."""

import os
import pathlib
import sys

from demo import demo
from screen import NARROW, WIDE, Screen, browser

PATHS = {
    "start": ("/", ".card"), "results": ("/?q=bridge", ".hit"), "nothing": ("/?q=bridge%20lang%3Afra", ".hints a"),
    "refused": ("/?q=-lang%3Aeng", "[data-state=failed]"), "library": ("/videos", ".card"),
    "library-empty": ("/videos?status=duplicate", "[data-state=empty]"),
    "video": ("/videos/FILM?q=harbour&t=3", "cv-transcript li.found"), "queues": ("/queues", ".queue"),
    "jobs": ("/jobs", "tbody tr"), "jobs-failed": ("/jobs?state=failed&type=ocr", "tbody tr"),
    "job-failed": ("/jobs/FAILED", ".error-box"), "job-waiting": ("/jobs/WAITING", ".why-box"),
    "runs": ("/runs", "tbody tr"), "run": ("/runs/RUN", ".graph"), "workers": ("/workers", "tbody tr"),
    "failures": ("/failures", "tbody tr"), "performance": ("/performance?hours=720", "tbody tr"), "resources": ("/resources", "tbody tr"),
    "tenants": ("/tenants", "tbody tr"), "rules": ("/rules", "tbody tr"), "schedules": ("/schedules", "tbody tr"),
    "schedule": ("/schedules/TRIGGER", ".where time"), "webhooks": ("/webhooks", "tbody tr"), "webhook": ("/webhooks/ours", "h2"),
    "workflows": ("/workflows", ".graph"), "workflow": ("/workflows/video_pipeline", ".graph"),
    "commands": ("/commands?run=gc", ".make"), "audit": ("/audit", "h1"), "keys": ("/keys", "h1"),
    "missing": ("/jobs/0f0e0d0c-0000-4000-8000-000000000099", "[data-state=failed]"),
}


def take(screen, folder, names, path, shown):
    for theme, size in (("light", WIDE), ("dark", NARROW), ("dark", WIDE), ("light", NARROW)):
        screen.theme(theme)
        screen.resize(*size)
        screen.open(path)
        screen.see(shown)
        screen.wait(lambda: not screen.all(".skeletons"), "all to be there")
        screen.wait(lambda: screen.script("return [...document.images].every((one) => one.complete)"), "the pictures")
        screen.driver.save_screenshot(str(folder / f"{names}-{size[0]}-{theme}.png"))


def main(folder, videos=200, jobs=100000, *names):
    folder = pathlib.Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    with demo(videos, jobs) as (place, bearer), browser() as driver:
        screen = Screen(driver, place.url, bearer)
        job = "SELECT id::text FROM jobs WHERE job_type = %s AND status = %s AND (finished_at IS NULL OR scheduled_for IS NULL) LIMIT 1"
        known = {"FILM": place.film, "RUN": place.runs[0], "FAILED": place.queue.value(job, "ocr", "failed"),
                 "WAITING": place.queue.value(job, "ocr", "queued"), "TRIGGER": place.queue.value("SELECT id::text FROM job_triggers WHERE name = 'nightly-cleaning'")}
        for name, (path, shown) in PATHS.items():
            if names and name not in names:
                continue
            for word, value in known.items():
                path = path.replace(word, value)
            with screen.words(os.environ.get("CORTANA_PAGE_WORDS", "en")):
                take(screen, folder, name, path, shown)


if __name__ == "__main__":
    main(*sys.argv[1:])
