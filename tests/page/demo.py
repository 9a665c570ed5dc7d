#!/usr/bin/python3
"""Starts a database, a gateway and a large library of made-up videos, prints a link to the page, and stays up until
it is interrupted: tests/page/demo.py [VIDEOS [JOBS]]"""

import pathlib
import signal
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parent / "system"), str(HERE)]

from api import Gateway, make_login, token  # noqa: E402
from conftest import Cluster, find_program  # noqa: E402
from jobs import Queue  # noqa: E402
from library import make_jobs, make_library  # noqa: E402


def main(videos=200, jobs=100000):
    cluster = Cluster()
    try:
        cluster.start()
        cluster.create_template()
        name = cluster.create_database()
        queue = Queue(cluster.connect(name))
        make_login(queue)
        owner = "0f0e0d0c-0000-4000-8000-0000000000aa"
        ids = make_library(queue, owner, int(videos))
        make_jobs(queue, ids, int(jobs))
        gateway = Gateway(find_program, cluster.url(name), pathlib.Path(tempfile.mkdtemp()))
        link = token(sub=owner, role="service_role", exp=2000000000)
        print(f"http://127.0.0.1:{gateway.port}/#t={link}", flush=True)
        try:
            signal.sigwait([signal.SIGINT, signal.SIGTERM])
        finally:
            gateway.end()
    finally:
        cluster.remove()


if __name__ == "__main__":
    main(*sys.argv[1:])
