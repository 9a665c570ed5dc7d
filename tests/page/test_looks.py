"""Each screen looks as it does in its kept picture. Where a change of look is wanted, the kept pictures are renewed by
CORTANA_PAGE_LOOKS=keep ./test page -k looks, looked at, and committed with it."""

import os

import pytest
from api import ALICE, BOB, token
from looks import KEPT, LETTERS, LOOKS, POINTS_MAX, difference, frozen_picture, keep, picture
from place import Place
from screen import Screen
from screens import OPERATORS, SCREENS, path_at

VIDEOS, JOBS = 24, 600
LOOKED_AT = ["start", "results", "nothing", "library"]  # what has little in it that differs from run to run
# What the API answers to a screen that loads without an end, and to one that fails.
ANSWERS = {
    "loading": "new Promise(() => null)",
    "failing": "Promise.resolve(new Response('{\"title\": \"the database is away\", \"status\": 503}', {status: 503, headers: {'Content-Type': 'application/problem+json'}}))",
}
AWAY = """const real = window.fetch;
    window.fetch = (url, wishes) => /^\\/api\\/v1\\/(?!me\\b|session)/.test(String(url)) ? %s : real(url, wishes);"""
STATES = {f"{name}-{state}": (path, {"loading": ".skeletons", "failing": "[data-state=failed]"}[state], state)
          for name, path in {"library": "/videos"}.items() for state in ANSWERS}


@pytest.fixture(scope="module")
def quiet(shared_cluster, program, tmp_path_factory):
    """A library that no other test changes."""
    made = Place(shared_cluster, program, tmp_path_factory.mktemp("looks"), VIDEOS, JOBS)
    yield made
    made.end()


@pytest.fixture(scope="module")
def keeps(driver):
    """Whether pictures are kept and not compared. Skips where letters are drawn otherwise than on the machine that made the kept ones."""
    screen = Screen(driver, None, None)  # as the test before left it, it may be narrower than the letters
    screen.resize(*LOOKS["desk-light"][0])
    screen.theme("light")
    driver.get(f"data:text/html;charset=utf-8,{LETTERS.replace('#', '%23')}")
    letters = picture(driver).crop((0, 0, 520, 24))
    if os.environ.get("CORTANA_PAGE_LOOKS") == "keep":
        keep(letters, "letters")
        return True
    if difference(letters, "letters")[0] > 0:
        pytest.skip("this browser draws letters otherwise than the one that made tests/page/looks: other fonts than fonts-noto-core "
                    "and fonts-dejavu-core, or another Chromium; nothing is compared")
    return False


def compare(screen, path, shown, name, keeps, tmp_path):
    wrong = []
    screen.open(path)
    screen.see(shown)
    for look, (size, theme) in LOOKS.items():
        screen.theme(theme)
        screen.resize(*size)
        if look.startswith("phone"):
            screen.touch()
        if "loading" not in name:
            screen.settle()
        taken = frozen_picture(screen)
        if keeps:
            keep(taken, f"{name}-{look}")
            continue
        points, where = difference(taken, f"{name}-{look}")
        if points > POINTS_MAX:
            taken.save(tmp_path / f"{name}-{look}.png")
            where.save(tmp_path / f"{name}-{look}-differs.png")
            wrong.append(f"{points} points of {name}-{look}.png")
    screen.forget()
    assert not wrong, f"{wrong} differ from {KEPT}: look at the pictures in {tmp_path}"


@pytest.mark.parametrize("name", LOOKED_AT)
def test_a_screen_looks_as_it_did(driver, quiet, keeps, tmp_path, name):
    screen = Screen(driver, quiet.url, token(sub=ALICE, role="service_role", exp=2000000000))
    path, shown = {**SCREENS, **OPERATORS}[name]
    compare(screen, path_at(quiet, path), shown, name, keeps, tmp_path)


@pytest.mark.parametrize("name, path, shown", [("start-empty", "/", ".drop-field")])
def test_a_screen_of_somebody_new_looks_as_it_did(driver, quiet, keeps, tmp_path, name, path, shown):
    compare(Screen(driver, quiet.url, token(sub=BOB, exp=2000000000)), path, shown, name, keeps, tmp_path)


@pytest.mark.parametrize("name", STATES)
def test_a_screen_that_waits_or_fails_looks_as_it_did(driver, quiet, keeps, tmp_path, name):
    path, shown, state = STATES[name]
    screen = Screen(driver, quiet.url, token(sub=ALICE, role="service_role", exp=2000000000))
    made = driver.execute_cdp_cmd("Page.addScriptToEvaluateOnNewDocument", {"source": AWAY % ANSWERS[state]})["identifier"]
    try:
        compare(screen, path, shown, name, keeps, tmp_path)
    finally:
        driver.execute_cdp_cmd("Page.removeScriptToEvaluateOnNewDocument", {"identifier": made})
