#!/usr/bin/python3
"""Whether what a small measurement predicts is what happens: fleet_bench.py BUILD FIXTURES

A feed, a chat and subtitles, each once as it is and once repeated, tell what a video costs and what each of its hours
costs more. From these two numbers is computed what many longer videos will cost; then they go, all at once, through two
machines' workers over one database and one store, and what happened is divided by what was predicted: CPU time by stage,
objects and their bytes, rows and their bytes, jobs, and the time until all are searchable beside the CPU time over the cores.

CORTANA_BENCH_FLEET_HOURS=0.1   of video in all, in videos of twelve times a fixture's length
"""
import collections
import os
import pathlib
import subprocess
import sys
import tempfile
import time

import cost_bench
from cost_bench import BUILD, KINDS, STAGES, VIDEOS, Bench, Source
from pipeline import Pipeline
from private_cluster import PrivateCluster

HOURS = float(os.environ.get("CORTANA_BENCH_FLEET_HOURS", "0.1"))
MADE = tuple(prefix for prefix, kind in KINDS.items() if kind != "original")  # beginnings of keys
REPEATED, LONG = 4, 12  # times a fixture's length: for measuring, and for the fleet


def repeat(source, times, folder):
    """A video that shows the same so many times, not encoded anew."""
    path = folder / f"{source.name}-{times}{source.path.suffix}"
    subprocess.run(["ffmpeg", "-v", "error", "-y", "-stream_loop", str(times - 1), "-i", source.path, "-c", "copy", path], check=True)
    return Source(path)


def amounts(bench):
    """What all videos that went through cost until now."""
    files = [path.stat().st_size for path in bench.pipeline.store.rglob("*")
             if path.is_file() and str(path.relative_to(bench.pipeline.store)).startswith(MADE)]
    rows = bench.rows()
    return collections.Counter({
        **{(stage, "CPU s"): float(cpu) for stage, cpu in bench.pipeline.query(
            "SELECT job_type, sum(cpu_seconds) FROM job_attempts a JOIN jobs j ON j.id = job_id GROUP BY 1") if stage in STAGES},
        ("objects", "objects"): len(files), ("objects", "MB"): sum(files) / 1e6,
        ("rows", "rows"): sum(n for (_, unit), n in rows.items() if unit == "rows"),
        ("rows", "MB"): sum(n for (_, unit), n in rows.items() if unit == "bytes") / 1e6,
        ("jobs", "jobs"): bench.pipeline.query("SELECT count(*) FROM jobs")[0][0]})


def measure(bench, source):
    """What one video alone costs."""
    before = amounts(bench)
    bench.run_video(source)
    return {key: value - before[key] for key, value in amounts(bench).items()}


def costs_of_kind(bench, source, folder):
    """Of each amount: what a video costs, whatever its length, and what an hour costs."""
    longer = repeat(source, REPEATED, folder)
    short, long = measure(bench, source), measure(bench, longer)
    hour = {key: (long[key] - short[key]) / (longer.hours - source.hours) for key in long}
    return {key: (long[key] - hour[key] * longer.hours, hour[key]) for key in long}


def run_fleet(bench, machines, sources):
    """What all of the videos cost, and the seconds until the last one is searchable."""
    before, began = amounts(bench), time.monotonic()
    videos = [bench.pipeline.submit(source.path) for source in sources]
    for pipeline in machines:
        pipeline.start(*STAGES)
    for video in videos:
        if bench.pipeline.wait(video, timeout=3600) != "ready":
            sys.exit(f"a video failed: {bench.pipeline.failures()}")
    took = time.monotonic() - began
    for pipeline in machines:
        pipeline.stop()
    return {key: value - before[key] for key, value in amounts(bench).items()}, took


def tell(name, hours, unit, happened, predicted):
    cost_bench.tell(f"{name}, of {hours:.2f} hours", unit, happened, predicted, "prediction", suite="fleet")


def main():
    with PrivateCluster(BUILD) as cluster, tempfile.TemporaryDirectory(prefix="cortana-fleet-bench-") as folder:
        folder = pathlib.Path(folder)
        bench = Bench(cluster.migrated_database(), folder)
        (folder / "second").mkdir()
        other = Pipeline(bench.pipeline.program, bench.pipeline.database, bench.sql, bench.pipeline.store, folder / "second")
        try:
            bench.pipeline.start(*STAGES)
            kinds = [(source, costs_of_kind(bench, source, folder)) for source in map(Source, VIDEOS)]
            bench.pipeline.stop()
            sources, predicted = [], collections.Counter()
            for source, costs in kinds:
                film = repeat(source, LONG, folder)
                count = max(1, round(HOURS / len(kinds) / film.hours))
                sources += [film] * count
                for key, (video, hour) in costs.items():
                    predicted[key] += count * (video + hour * film.hours)
            happened, took = run_fleet(bench, [bench.pipeline, other], sources)
        finally:
            for pipeline in (bench.pipeline, other):
                pipeline.stop()
            bench.sql.close()
    hours = sum(source.hours for source in sources)
    for name, unit in happened:
        tell(name, hours, unit, happened[name, unit], predicted[name, unit])
    tell("time until all are searchable", hours, "s", took, sum(predicted[stage, "CPU s"] for stage in STAGES) / os.cpu_count())


if __name__ == "__main__":
    main()
