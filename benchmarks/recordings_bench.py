#!/usr/bin/python3
"""Scores of the text found in generated recordings against their truth: recordings_bench.py BUILD FIXTURES

CORTANA_RECORDING_SEEDS=N makes each kind from seeds 1 to N instead of from seed 1 alone;
CORTANA_RECORDING_KINDS="counter chat" takes these kinds alone. A figure is the mean over the seeds; a
score has no peer: its ratio is its value.
"""
import concurrent.futures
import contextlib
import json
import os
import pathlib
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
import uuid

import psycopg2
from private_cluster import PrivateCluster
from quality_bench import SCORES, figure

STAGES = ("sample", "ocr", "segment_index")
SEGMENTS = """SELECT coalesce(json_agg(json_build_object('text', text, 't_start', t_start, 't_end', t_end,
    'confidence', confidence, 'bounding_box', bounding_box) ORDER BY t_start, id), '[]')
    FROM segments WHERE video_id = %s"""
ENTITIES = """SELECT coalesce(json_agg(json_build_object('type', entity_type, 'value', value,
    't_start', t_start, 't_end', t_end) ORDER BY t_start, e.id), '[]')
    FROM entities e JOIN segments s ON s.id = segment_id WHERE video_id = %s"""


class Stages:
    """The three stages of text as workers over one database and one store."""

    def __init__(self, build, folder, stack):
        self.build, self.store = build, folder / "store"
        conninfo = stack.enter_context(PrivateCluster(build)).migrated_database()
        self.connection = stack.enter_context(contextlib.closing(psycopg2.connect(conninfo)))
        self.connection.autocommit = True
        self.environment = {**os.environ, "DATABASE_URL": conninfo, "STORE_URL": f"dir:{self.store}",
                            "CORTANA_SCRATCH": str(folder)}
        self.workers = []
        stack.callback(self.stop)
        for stage in STAGES:
            name = stage.replace("_", "-")
            log = stack.enter_context(open(folder / f"{stage}.log", "wb"))
            self.workers.append(subprocess.Popen([build / "workers" / stage / f"{name}-worker"],
                                                 env=self.environment, stdin=subprocess.DEVNULL,
                                                 stdout=log, stderr=log))

    def stop(self):
        for worker in self.workers:
            worker.terminate()
        for worker in self.workers:
            worker.wait()

    def query(self, statement, *values):
        with self.connection.cursor() as cursor:
            cursor.execute(statement, values)
            return cursor.fetchone()[0]

    def submit(self, clip):
        video = str(uuid.uuid4())
        key = f"videos/original/{video}/master{clip.suffix}"
        (self.store / key).parent.mkdir(parents=True)
        shutil.copy(clip, self.store / key)
        self.query("INSERT INTO videos (id, s3_original_path) VALUES (%s, %s) RETURNING 1", video, key)
        self.query("SELECT enqueue_job('sample', %s, %s)",
                   json.dumps({"video_id": video, "s3_original_path": key, "target_fps": 10,
                               "dedupe_threshold": 0.95}), video)
        return video

    def export(self, video):
        """Waits for a video and returns its text."""
        while (status := self.query("SELECT status FROM videos WHERE id = %s", video)) != "ready":
            failures = self.query("SELECT json_agg(payload->'error') FROM jobs WHERE video_id = %s"
                                  " AND status = 'failed'", video)
            if failures or any(worker.poll() is not None for worker in self.workers):
                raise RuntimeError(f"video {video} is {status}: {failures}")
            time.sleep(0.05)
        return {"segments": self.query(SEGMENTS, video), "entities": self.query(ENTITIES, video)}


def score(fixtures, clip, export):
    written = clip.with_suffix(".export.json")
    written.write_text(json.dumps(export, ensure_ascii=False, indent=1))
    scored = subprocess.run(["/usr/bin/python3", fixtures.parent / "tests" / "score.py",
                             clip.with_suffix(".truth.json"), written],
                            check=True, capture_output=True, text=True)
    return json.loads(scored.stdout)


def scores_of(build, fixtures, folder, wanted):
    """Yields (kind, seed, score) of the recordings (kind, seed) in `wanted`, made in `folder`."""
    sys.path.insert(0, str(fixtures / "make"))
    generator = __import__("recordings_of_screens")
    with contextlib.ExitStack() as stack:
        pool = stack.enter_context(concurrent.futures.ThreadPoolExecutor(1))
        made = [(kind, seed, pool.submit(generator.make, folder, kind, seed)) for kind, seed in wanted]
        stages = Stages(build, folder, stack)
        waiting = [(kind, seed, clip.result(), stages.submit(clip.result()))
                   for kind, seed, clip in made]
        for kind, seed, clip, video in waiting:
            yield kind, seed, score(fixtures, clip, stages.export(video))


def mean(values):
    values = [value for value in values if value is not None]
    return round(statistics.mean(values), 4) if values else None


def entity_figures(scores):
    """Of all recordings together: of one alone there are too few."""
    for kind in ("mention", "hashtag", "url", "emoji"):
        entities = [score["entities"][kind] for score in scores]
        for name, weight in (("recall", "want"), ("precision", "have")):
            count = sum(entity[weight] for entity in entities)
            if count:
                right = sum((entity[name] or 0) * entity[weight] for entity in entities)
                yield figure(f"recordings {kind} {name}", round(right / count, 4), 0.98, "higher")


def figures(kinds):
    """`kinds`: kind to its scores, one a seed."""
    for kind, scores in kinds.items():
        for name, read, goal, better in SCORES:
            yield figure(f"{kind} {name}", mean(read(score) for score in scores), goal, better)
    yield from entity_figures([score for scores in kinds.values() for score in scores])


def main():
    build, fixtures = (pathlib.Path(word).resolve() for word in sys.argv[1:3])
    sys.path.insert(0, str(fixtures / "make"))
    scenarios = __import__("recordings_of_screens").SCENARIOS
    names = os.environ.get("CORTANA_RECORDING_KINDS", "").split() or list(scenarios)
    seeds = int(os.environ.get("CORTANA_RECORDING_SEEDS", "1"))
    kinds = {name: [] for name in names}
    with tempfile.TemporaryDirectory(prefix="cortana-recordings-") as folder:
        os.chmod(folder, 0o755)
        wanted = [(name, seed) for name in names for seed in range(1, seeds + 1)]
        for kind, _, found in scores_of(build, fixtures, pathlib.Path(folder), wanted):
            kinds[kind].append(found)
    for one in figures(kinds):
        print(json.dumps(one), flush=True)


if __name__ == "__main__":
    main()
