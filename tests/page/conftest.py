"""A gateway over a made-up library, and a browser that looks at its page. The database and the programs are those of
the system tests."""

import importlib.util
import os
import pathlib
import shutil
import sys
import tempfile

import pytest
from selenium import webdriver
from selenium.webdriver.chrome.service import Service

SYSTEM = pathlib.Path(__file__).resolve().parents[1] / "system"
sys.path.append(str(SYSTEM))
named = importlib.util.spec_from_file_location("system_fixtures", SYSTEM / "conftest.py")
system_fixtures = importlib.util.module_from_spec(named)
named.loader.exec_module(system_fixtures)
shared_cluster, program = system_fixtures.shared_cluster, system_fixtures.program

from api import ALICE, Gateway, make_login, token  # noqa: E402
from jobs import Queue  # noqa: E402
from film import add_film  # noqa: E402
from library import make_jobs, make_library  # noqa: E402
from screen import WIDE, Screen  # noqa: E402


class Place:
    """A database with a library in it, and the gateway before it."""

    def __init__(self, cluster, program, directory, videos, jobs):
        self.name = cluster.create_database()
        self.queue = Queue(cluster.connect(self.name))
        make_login(self.queue)
        self.videos = [str(one) for one in make_library(self.queue, ALICE, videos)]
        directory.joinpath("store").mkdir()
        if jobs:
            make_jobs(self.queue, self.videos, jobs)
        self.store = directory / "store"
        self.film = add_film(self.queue, program("transcode-worker"), self.store)
        self.gateway = Gateway(program, cluster.url(self.name), directory, "--connections", "2",
                               STORE_URL=f"dir:{self.store}")
        self.url = f"http://127.0.0.1:{self.gateway.port}"

    def end(self):
        self.gateway.end()
        self.queue.connection.close()


@pytest.fixture(scope="session")
def place(shared_cluster, program, tmp_path_factory):
    made = Place(shared_cluster, program, tmp_path_factory.mktemp("gateway"), 70, 3000)
    yield made
    made.end()


@pytest.fixture(scope="session")
def driver():
    profile = tempfile.mkdtemp(prefix="cv-chromium-")
    options = webdriver.ChromeOptions()
    for argument in ("--headless=new", "--no-sandbox", "--disable-gpu", "--disable-background-networking",
                     "--disable-dev-shm-usage", "--mute-audio", "--lang=en", "--no-first-run",
                     "--autoplay-policy=no-user-gesture-required", f"--user-data-dir={profile}"):
        options.add_argument(argument)
    options.binary_location = shutil.which("chromium")
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    started = webdriver.Chrome(service=Service(shutil.which("chromedriver"), log_path=os.devnull), options=options)
    yield started
    started.quit()
    shutil.rmtree(profile, ignore_errors=True)


@pytest.fixture
def screen(driver, place):
    """A browser that is signed in as Alice, on the first page; afterwards its console has no complaint."""
    shown = Screen(driver, place.url, token(exp=2000000000))
    shown.resize(*WIDE)
    shown.theme("light")
    yield shown
    complaints = shown.complaints()
    shown.forget()
    assert complaints == []
