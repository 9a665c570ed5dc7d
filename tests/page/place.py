"""A database with a library in it, and the gateway before it."""

import pathlib
import tempfile

from api import ALICE, Gateway
from film import add_film
from jobs import Queue
from library import make_fleet, make_jobs, make_library


class Place:
    def __init__(self, cluster, program, directory, videos, jobs, prepare=None, **environment):
        self.name = cluster.create_database()
        self.address = cluster.url(self.name)
        self.queue = Queue(cluster.connect(self.name))
        if prepare:
            self.queue.run(prepare)
        self.videos = [str(one) for one in make_library(self.queue, ALICE, videos)]
        self.store = directory / "store"
        self.store.mkdir()
        if jobs:
            make_jobs(self.queue, self.videos, jobs)
            self.runs = make_fleet(self.queue, self.videos)
        self.film = videos and add_film(self.queue, program("transcode-worker"), self.store)
        self.start = lambda *more, **settings: Gateway(
            program, self.address, pathlib.Path(tempfile.mkdtemp(dir=directory)), "--connections", "2", *more,
            **{"STORE_URL": f"dir:{self.store}", **settings, **environment})
        self.gateway = self.start()
        self.url = f"http://127.0.0.1:{self.gateway.port}"

    def restart(self):
        """At the same address, when it was ended."""
        self.gateway = self.start("--api", f"127.0.0.1:{self.gateway.port}")

    def end(self):
        self.gateway.end()
        self.queue.connection.close()
