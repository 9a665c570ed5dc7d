#!/usr/bin/python3
"""Photographs every screen of the page over a large library, in two widths and two themes, to be looked at:
[CORTANA_PAGE_WORDS=de] tests/page/pictures.py FOLDER [VIDEOS [JOBS [NAME…]]]; the words are one of WORDS in screen.py."""

import os
import pathlib
import sys

from demo import demo
from looks import LOOKS
from screen import Screen, browser
from screens import OPERATORS, SCREENS, path_at


def main(folder, videos=200, jobs=100000, *names):
    folder = pathlib.Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    with demo(videos, jobs) as (place, bearer), browser() as driver:
        screen = Screen(driver, place.url, bearer)
        with screen.words(os.environ.get("CORTANA_PAGE_WORDS", "en")):
            for name, (path, shown) in {**SCREENS, **OPERATORS}.items():
                if names and name not in names:
                    continue
                for look, (size, theme) in LOOKS.items():
                    screen.theme(theme)
                    screen.resize(*size)
                    screen.open(path_at(place, path))
                    screen.see(shown)
                    screen.settle()
                    driver.save_screenshot(str(folder / f"{name}-{look}.png"))


if __name__ == "__main__":
    main(*sys.argv[1:])
