#!/usr/bin/python3
"""Runs the benchmark suites and prints their figures as a table (each also as it comes, to standard error) or as JSON lines.

Each suite is a list of programs that print one JSON object a line:
{"suite", "name", "unit", "ours", "peer", "peer_name", "ratio", "goal", "better"}.
"""
import argparse
import contextlib
import json
import os
import pathlib
import subprocess
import sys
import time

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))

from private_cluster import PrivateCluster  # noqa: E402

SUITES = ["cost", "fleet", "text", "media", "clips", "store", "s3", "scanner", "queue", "peers", "bad-days", "search", "api"]
SEARCH_ROWS = int(os.environ.get("CORTANA_BENCH_ROWS", "1000000"))


def programs(suite, build, fixtures, stack):
    """The command lines of a suite."""
    python = "/usr/bin/python3"
    if suite in ("queue", "search", "scanner", "api"):
        conninfo = stack.enter_context(PrivateCluster(build)).migrated_database()
    if suite == "text":
        return [[python, HERE / "ocr_bench.py", build, fixtures],
                [python, HERE / "quality_bench.py", build, fixtures],
                [python, HERE / "recordings_bench.py", build, fixtures],
                [python, HERE / "screens_bench.py", build, fixtures]]
    if suite == "cost":
        return [[python, HERE / f"{name}_bench.py", build, fixtures] for name in ("cost", "kinds", "hour")]
    if suite == "fleet":
        return [[python, HERE / "fleet_bench.py", build, fixtures]]
    if suite == "media":
        return [[python, HERE / "media_bench.py", build, fixtures]]
    if suite == "clips":
        return [[python, HERE / "clip_bench.py", build]]
    if suite == "store":
        return [[python, HERE / "store_bench.py", build]]
    if suite == "s3":
        return [[python, HERE / "s3_bench.py", build, fixtures]]
    if suite == "scanner":
        return [[python, HERE / "scanner_bench.py", build, conninfo]]
    if suite == "queue":
        return [[build / "benchmarks" / "queue-bench", conninfo],
                [python, HERE / "claim_bench.py", build],
                [python, HERE / "start_bench.py", build, conninfo]]
    if suite == "api":
        return [[python, HERE / "api_bench.py", build, conninfo], [python, HERE / "upload_bench.py", build, conninfo]]
    if suite == "bad-days":
        return [[python, HERE / "queue_bad_days.py", build]]
    if suite == "peers":
        return [[python, HERE / "queue_peers_bench.py", build]]
    return [[python, HERE / "search_bench.py", conninfo, str(SEARCH_ROWS)]]


def figures(command):
    """Runs one program, its log to standard error, and yields the objects that it prints."""
    with subprocess.Popen([str(word) for word in command], stdout=subprocess.PIPE, text=True) as run:
        for line in run.stdout:
            yield json.loads(line)
    if run.returncode != 0:
        raise RuntimeError(f"{pathlib.Path(command[0]).name} {command[1:2]} exited with {run.returncode}")


def tell_progress(figure, began):
    """A line for whom waits for the table."""
    ratio = "" if figure.get("ratio") is None else f", {number(figure['ratio'])} of {figure['peer_name']}"
    print(f"{time.monotonic() - began:6.0f} s  {figure['suite']}: {figure['name']}: {number(figure['ours'])} {figure['unit']}{ratio}",
          file=sys.stderr, flush=True)


def number(value):
    return "-" if value is None else f"{value:,.3f}".rstrip("0").rstrip(".")


def verdict(figure):
    if figure.get("goal") is None or figure.get("ratio") is None:
        return ""
    reached = (figure["ratio"] <= figure["goal"] if figure["better"] == "lower"
               else figure["ratio"] >= figure["goal"])
    return "reached" if reached else "missed"


def print_table(rows):
    columns = ["suite", "name", "unit", "ours", "peer", "ratio", "goal", ""]
    cells = [[f["suite"], f["name"], f["unit"], number(f["ours"]),
              f"{number(f['peer'])} {f['peer_name'] or ''}".strip(), number(f["ratio"]),
              number(f.get("goal")), verdict(f)] for f in rows]
    widths = [max(len(row[i]) for row in [columns, *cells]) for i in range(len(columns))]
    for row in [columns, *cells]:
        print("  ".join(cell.ljust(width) for cell, width in zip(row, widths)).rstrip())


def main():
    parser = argparse.ArgumentParser(prog="./bench", description=__doc__.split("\n")[0])
    parser.add_argument("suites", nargs="*", metavar="SUITE", help=" ".join(SUITES))
    parser.add_argument("--json", action="store_true", help="one JSON object a line, nothing else")
    parser.add_argument("--build", type=pathlib.Path, required=True, help=argparse.SUPPRESS)
    parser.add_argument("--fixtures", type=pathlib.Path, required=True, help=argparse.SUPPRESS)
    options = parser.parse_args()
    for suite in options.suites:
        if suite not in SUITES:
            parser.error(f"no suite {suite}; there are {', '.join(SUITES)}")

    rows, broken, began = [], False, time.monotonic()
    for suite in options.suites or SUITES:
        with contextlib.ExitStack() as stack:
            for command in programs(suite, options.build.resolve(), options.fixtures.resolve(), stack):
                try:
                    for figure in figures(command):
                        rows.append(figure)
                        if options.json:
                            print(json.dumps(figure), flush=True)
                        else:
                            tell_progress(figure, began)
                except (RuntimeError, json.JSONDecodeError) as problem:
                    broken = True
                    print(f"{suite}: {problem}", file=sys.stderr)
    if not options.json:
        print_table(rows)
    return 1 if broken else 0


if __name__ == "__main__":
    sys.exit(main())
