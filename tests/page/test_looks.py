"""Each screen looks as it does in its kept pictures, in its states. Where a change of look is wanted, the kept pictures are renewed by
CORTANA_PAGE_LOOKS=keep ./test page -k looks, looked at, and committed with it."""

import collections
import contextlib
import os

import pytest
from api import ALICE, BOB, token
from conftest import system_fixtures
from house import fill_house
from looks import LETTERS, LOOKS, POINTS_MAX, difference, keep, kept, path_of, picture
from place import Place
from screen import Screen, scripts
from screens import EMPTY, OPERATORS, SCREENS, WAITING, path_at
from still import IDS, PROCESS, SETTLED, WITHOUT_PLACES, still
from workers import DEADLINE

VIDEOS, JOBS = 24, 600
ALL = {**SCREENS, **OPERATORS}
OPERATOR = token(sub=ALICE, role="service_role", exp=2000000000)
NEW = token(sub=BOB, exp=2000000000)
# What the API answers to a screen that loads without an end, and to one that fails.
ANSWERS = {
    "loading": "new Promise(() => null)",
    "failing": "Promise.resolve(new Response(JSON.stringify({title: 'The server has failed', status: 500, detail: 'its log says why'}), "
               "{status: 500, headers: {'Content-Type': 'application/problem+json'}}))",
}
AWAY = """const real = window.fetch;
    window.fetch = (url, wishes) => /^\\/api\\/v1\\/(?!me\\b|session)/.test(String(url)) ? %s : real(url, wishes);"""

Case = collections.namedtuple("Case", "path shown reader library answers", defaults=(OPERATOR, "full", ""))
CASES = {
    **{name: Case(*ALL[name]) for name in ALL},
    **{f"{name}-empty": Case(ALL[name][0], "main h1", library="empty") for name in EMPTY},
    **{f"{name}-{state}": Case(ALL[name][0], "main .skeletons" if state == "loading" else "main [data-state=failed]", answers=state)
       for name in WAITING for state in ANSWERS},
    "alerts": Case("/alerts", "main h1"), "start-new": Case("/", ".drop-field", NEW), "library-new": Case("/videos", "main h1", NEW), "jobs-new": Case("/jobs", "main h1", NEW),
    "queues-no-right": Case("/queues", "main h1", NEW), "video-no-right": Case("/videos/FILM", "[data-state=failed]", NEW),
    "account-person": Case("/account", "main form", "PERSON"), "people-person": Case("/people", "main h1", "PERSON"),
    "signed-out": Case("/", "dialog[open] form", ""), "invited": Case("INVITED", "main form", ""),
    "shared": Case("SHARED", "video", ""), "shared-revoked": Case("REVOKED", "h1", ""), "embedded": Case("EMBED", "video", ""),
}


@pytest.fixture(scope="module")
def libraries(program, tmp_path_factory):
    """A full and an empty library in which time stands still."""
    cluster = system_fixtures.Cluster(**PROCESS)
    with contextlib.ExitStack() as until_then:
        until_then.callback(cluster.remove)
        cluster.start()
        cluster.create_template()
        made = {name: Place(cluster, program, tmp_path_factory.mktemp(name), videos, jobs, prepare=IDS, **PROCESS)
                for name, videos, jobs in (("full", VIDEOS, JOBS), ("empty", 0, 0))}
        for place in made.values():
            until_then.callback(place.end)
        made["full"].links = fill_house(made["full"], OPERATOR)
        made["full"].queue.run("VACUUM ANALYZE")  # or autovacuum does it at any moment, and the numbers of rows change
        yield made


@pytest.fixture(scope="module")
def keeps(driver):
    """Whether pictures are kept and not compared. Skips where letters are drawn otherwise than on the machine that made the kept ones."""
    screen = Screen(driver, None, None)  # as the test before left it, it may be narrower than the letters
    screen.resize(*LOOKS["desk-light"][0])
    screen.theme("light")
    driver.get(f"data:text/html;charset=utf-8,{LETTERS.replace('#', '%23')}")
    letters = picture(driver).crop((0, 0, 260, 12))
    if os.environ.get("CORTANA_PAGE_LOOKS") == "keep":
        path_of("letters").parent.mkdir(exist_ok=True)
        keep(letters, "letters")
        return True
    if difference(letters, kept("letters"))[0] > 0:
        pytest.skip("this browser has other letters than the one that made tests/page/looks: other fonts than fonts-noto-core "
                    "and fonts-dejavu-core; nothing is compared")
    return False


# Chromium shows it smaller or larger, as it comes, where the window has become a phone's.
OPENED_AGAIN = {"embedded": ("phone-light",), "shared": ("phone-light",)}
# What the cases before have left: who signed in, watched and was refused, and who opened a link.
FORGET = """SET session_replication_role = replica; -- past the trigger that keeps the log
    DELETE FROM audit_log WHERE status >= 400 OR operation NOT IN ('invite', 'accept_invitation', 'allow_sharing', 'share', 'revoke_share');
    RESET session_replication_role;
    UPDATE shares SET views = 3, seen_at = now() - interval '2 hours'"""


def open_case(screen, place, case):
    place.queue.run(FORGET)
    path = case.path
    for name, link in getattr(place, "links", {}).items():
        path = path.replace(name.upper(), link)
    if case.reader == "PERSON":
        name, _, value = place.links["cookie"].partition(";")[0].partition("=")
        screen.driver.get(f"{screen.url}/robots.txt")
        screen.driver.add_cookie({"name": name, "value": value, "path": "/", "httpOnly": True, "sameSite": "Strict"})
    screen.open(path_at(place, path), is_signed_in=case.reader not in ("", "PERSON"))
    screen.see(case.shown)
    if case.path == "/audit":
        place.queue.run(FORGET)
        screen.driver.refresh()
        screen.see(case.shown)


@pytest.mark.parametrize("name", CASES)
def test_a_screen_looks_as_it_did(driver, libraries, keeps, build_dir, name):
    case, wrong = CASES[name], []
    place, found = libraries[case.library], build_dir / "looks"
    screen = Screen(driver, place.url, case.reader)
    is_waiting = case.answers == "loading" or name == "signed-out"  # what is behind the question who somebody is loads on
    driver.set_script_timeout(DEADLINE)
    with still(driver), scripts(driver, *([AWAY % ANSWERS[case.answers]] if case.answers else []), *([WITHOUT_PLACES] if name != "overview" else [])):
        for look, (size, theme) in LOOKS.items():
            screen.theme(theme)
            screen.resize(*size)
            screen.touch(look.startswith("phone"))
            if look in (next(iter(LOOKS)), *OPENED_AGAIN.get(name, ())):
                open_case(screen, place, case)
            driver.execute_async_script(SETTLED, is_waiting)
            taken = picture(driver)
            points, where = difference(taken, kept(f"{name}-{look}"))
            if points <= POINTS_MAX:
                continue
            if keeps:
                keep(taken, f"{name}-{look}")
                continue
            found.mkdir(exist_ok=True)
            taken.save(found / f"{name}-{look}.png")
            where.save(found / f"{name}-{look}-differs.png")
            wrong.append(f"{path_of(f'{name}-{look}')}: {points} points")
        screen.forget()
    assert not wrong, (f"{', '.join(wrong)}. {found} has the picture of now and, red, what differs. If this is how it is to look: "
                       f"CORTANA_PAGE_LOOKS=keep ./test page -k '{name}', look at the new pictures, and commit them")
