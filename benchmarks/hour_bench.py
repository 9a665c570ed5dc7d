#!/usr/bin/python3
"""What is told of a long recording while it is worked on, and what it takes: hour_bench.py BUILD FIXTURES

The chat of the fixtures, repeated without encoding, goes through the pipeline. Four times a second the progress of each stage
is read as the page reads it, and the memory of its processes. Told are the time until the first line can be found; the worst error
of what progress says of a stage's time, from a fifth of it on, in parts of that time; and the most memory in the second half of that
time beside the first.

CORTANA_BENCH_HOUR_SECONDS=240   how long the recording is; 3600 for the hour
"""
import math
import os
import pathlib
import sys
import tempfile
import time

import cost_bench
import fleet_bench
from private_cluster import PrivateCluster

SECONDS = float(os.environ.get("CORTANA_BENCH_HOUR_SECONDS", "240"))
LOOK_S = 0.25
JUDGED_FROM = 0.2  # of the progress
FIRST_LINE_S, ERROR_GOAL, MEMORY_GOAL = 8, 0.2, 1.1


def memory_below(pid):
    """Bytes of the processes that this one has started, and of theirs."""
    total = 0
    for children in pathlib.Path(f"/proc/{pid}/task").glob("*/children"):
        try:
            for child in children.read_text().split():
                total += memory_below(child) + int(pathlib.Path(f"/proc/{child}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")
        except (FileNotFoundError, ProcessLookupError):
            pass  # it has ended
    return total


class Watch:
    """What was told of a video's stages while it was worked on."""

    def __init__(self, pipeline, video):
        self.pipeline, self.video = pipeline, video
        self.began, self.first_line_s, self.looked = time.monotonic(), None, 0
        self.told = {stage: [] for stage in cost_bench.STAGES}  # (when, progress, bytes) while it works and between its parts
        self.ended = {}

    def look(self):
        now = time.monotonic()
        if now - self.looked < LOOK_S:
            return
        self.looked = now
        if self.first_line_s is None and self.pipeline.query("SELECT 1 FROM segments WHERE video_id = %s LIMIT 1", self.video):
            self.first_line_s = now - self.began
        for stage, status, progress in self.pipeline.query(
                "SELECT step, status::text, progress FROM pipeline_stages WHERE video_id = %s", self.video):
            if stage in cost_bench.STAGES and status == "done":
                self.ended.setdefault(stage, now)
            elif stage in cost_bench.STAGES and (status == "processing" or self.told[stage]):
                self.ended.pop(stage, None)
                self.told[stage].append((now, progress, memory_below(self.pipeline.workers[stage].pid)))


def tell(name, unit, mine, theirs, peer, goal):
    cost_bench.tell(f"{SECONDS / 60:.0f} minutes, {name}", unit, mine, theirs, peer, goal)


def tell_stage(stage, told, ended):
    if not told:
        print(f"{stage} was never seen at work: nothing is told of it", file=sys.stderr)
        return
    began, took = told[0][0], ended - told[0][0]
    errors = [abs((when - began) / progress - took) / took for when, progress, _ in told if progress >= JUDGED_FROM]
    if errors:
        tell(f"{stage}: worst error of its time", "parts", max(errors), 1, "its time", ERROR_GOAL)
    halves = [max((size for when, _, size in told if (when - began > took / 2) == is_second), default=0) for is_second in (False, True)]
    tell(f"{stage}: memory, second half", "MB", halves[1] / 1e6, halves[0] / 1e6, "first half", MEMORY_GOAL)


def main():
    with PrivateCluster(cost_bench.BUILD) as cluster, tempfile.TemporaryDirectory(prefix="cortana-hour-bench-") as folder:
        folder = pathlib.Path(folder)
        bench = cost_bench.Bench(cluster.migrated_database(), folder)
        chat = cost_bench.Source(cost_bench.FIXTURES / "chat.mp4")
        recording = fleet_bench.repeat(chat, math.ceil(SECONDS / chat.hours / 3600), folder)
        try:
            bench.pipeline.start(*cost_bench.STAGES)
            watch = Watch(bench.pipeline, bench.pipeline.submit(recording.path))
            if bench.pipeline.wait(watch.video, timeout=20 * SECONDS, between=watch.look) != "ready":
                raise SystemExit(f"the recording failed: {bench.pipeline.failures()}")
            ready_s = time.monotonic() - watch.began
        finally:
            bench.pipeline.stop()
            bench.sql.close()
    tell("first line", "s", watch.first_line_s, FIRST_LINE_S, "the goal", 1)
    tell("all is ready", "s", ready_s, recording.hours * 3600, "its duration", None)
    for stage in cost_bench.STAGES:
        tell_stage(stage, watch.told[stage], watch.ended.get(stage, watch.began + ready_s))


if __name__ == "__main__":
    main()
