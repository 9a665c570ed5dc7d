#!/usr/bin/python3
"""Starts a database, a gateway and a large library of made-up videos, prints a link to the page, and stays up until
it is interrupted: tests/page/demo.py [VIDEOS [JOBS]]"""

import contextlib
import pathlib
import signal
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parent / "system"), str(HERE)]

from conftest import Cluster, find_program  # noqa: E402
from api import ALICE, token  # noqa: E402
from place import Place  # noqa: E402


@contextlib.contextmanager
def demo(videos=200, jobs=100000):
    """A place, and an operator's token whose own the library is."""
    cluster = Cluster()
    with tempfile.TemporaryDirectory() as directory:
        try:
            cluster.start()
            cluster.create_template()
            place = Place(cluster, find_program, pathlib.Path(directory), int(videos), int(jobs))
            try:
                yield place, token(sub=ALICE, role="service_role", exp=2000000000)
            finally:
                place.end()
        finally:
            cluster.remove()


if __name__ == "__main__":
    with demo(*sys.argv[1:]) as (shown, bearer):
        print(f"{shown.url}/#t={bearer}", flush=True)
        signal.sigwait([signal.SIGINT, signal.SIGTERM])
