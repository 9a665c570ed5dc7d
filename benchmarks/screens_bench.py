#!/usr/bin/python3
"""Scores of the text found in pages that Chromium shows, against the pages' own layout: screens_bench.py BUILD FIXTURES

CORTANA_SCREENS="mail-dark article-light" takes these alone. A score has no peer: its ratio is its value.
"""
import json
import os
import pathlib
import sys
import tempfile

from private_cluster import PrivateCluster
from real_bench import Index, Stages, recordings, score
from recordings_bench import figures


def main():
    build, fixtures = (pathlib.Path(word).resolve() for word in sys.argv[1:3])
    sys.path.insert(0, str(fixtures / "make"))
    generator = __import__("rendered_screens")
    names = os.environ.get("CORTANA_SCREENS", "").split() or generator.names()
    with tempfile.TemporaryDirectory(prefix="cortana-screens-") as folder, PrivateCluster(build) as cluster:
        folder = pathlib.Path(folder)
        generator.make_all(folder, names)
        stages, index = Stages(build, folder / "cache"), Index(build, cluster.migrated_database())
        kinds = {}
        for recording in recordings(folder, names):
            found = stages.detections(recording)[0]["detections"]
            kinds[recording.name] = [score(recording, index.export(found), folder)]
    for one in figures(kinds):
        print(json.dumps(one), flush=True)


if __name__ == "__main__":
    main()
