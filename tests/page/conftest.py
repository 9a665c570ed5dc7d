"""A gateway over a made-up library, and a browser that looks at its page. The database and the programs are those of
the system tests."""

import contextlib
import importlib.util
import pathlib
import sys

import pytest
from xdist.scheduler import LoadScopeScheduling

SYSTEM = pathlib.Path(__file__).resolve().parents[1] / "system"
sys.path.append(str(SYSTEM))
named = importlib.util.spec_from_file_location("system_fixtures", SYSTEM / "conftest.py")
system_fixtures = importlib.util.module_from_spec(named)
named.loader.exec_module(system_fixtures)
shared_cluster, stopped_cluster = system_fixtures.shared_cluster, system_fixtures.stopped_cluster
cluster, program, build_dir = system_fixtures.cluster, system_fixtures.program, system_fixtures.build_dir

from api import token  # noqa: E402
from firefox import firefox  # noqa: E402
from place import Place  # noqa: E402
from screen import DESK, Screen, browser  # noqa: E402


BROWSERS = {"chromium": browser, "firefox": firefox}
LONG = ("test_flows.py", "test_arrival.py")  # few tests, which take long and share nothing


class Scheduling(LoadScopeScheduling):
    """Hands out files, the largest first, and at the end the tests of long ones one by one: no process is to work alone then."""

    def _split_scope(self, nodeid):
        return nodeid.partition("[" if nodeid.partition("::")[0].endswith(LONG) else "::")[0]


def pytest_xdist_make_scheduler(config, log):
    return Scheduling(config, log)


@pytest.fixture(scope="session")
def place(shared_cluster, program, tmp_path_factory):
    made = Place(shared_cluster, program, tmp_path_factory.mktemp("gateway"), 70, 3000)
    yield made
    made.end()


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_makereport(item):
    """Shows beside a failure what the gateway logged and what the database was doing."""
    report = (yield).get_result()
    place = getattr(item, "funcargs", {}).get("place")
    if report.failed and place and not place.queue.connection.closed:
        report.sections.append(("the gateway's log", place.gateway.process.log_path.read_text()[-4000:]))
        report.sections.append(("the database's connections", "\n".join(str(row) for row in place.queue.run(
            "SELECT application_name, state, now() - state_change AS since, backend_xid, wait_event, left(query, 200) AS query"
            " FROM pg_stat_activity WHERE datname = current_database()"))))


@pytest.fixture(scope="session")
def browsers():
    """A function that gives a browser by its name, which is started once."""
    started = {}
    with contextlib.ExitStack() as all_of_them:
        yield lambda name: started.get(name) or started.setdefault(name, all_of_them.enter_context(BROWSERS[name]()))


@pytest.fixture(scope="session")
def driver(request, browsers):
    return browsers(getattr(request, "param", "chromium"))


def look(driver, place, request, **claims):
    shown = Screen(driver, place.url, token(exp=2000000000, **claims))
    size, theme = getattr(request, "param", DESK)
    shown.resize(*size)
    shown.theme(theme)
    yield shown
    complaints = shown.complaints()
    shown.forget()
    assert complaints == []


@pytest.fixture
def screen(driver, place, request):
    """A browser that is signed in as Alice, on the first page; afterwards its console has no complaint."""
    yield from look(driver, place, request)


@pytest.fixture
def operator(driver, place, request):
    """The same browser, signed in as the service."""
    yield from look(driver, place, request, role="service_role")
