#!/usr/bin/python3
"""queue_peers_bench.py BUILD   the queue against graphile-worker and pg-boss, on one PostgreSQL with its
default durable settings, in turn, medians of the rounds. The packages come from npm."""
import json
import os
import pathlib
import statistics
import subprocess
import sys
import time

import queue_zombie
from private_cluster import PrivateCluster

HERE = pathlib.Path(__file__).resolve().parent
PACKAGES = ["node@22", "graphile-worker@0.18.0", "pg-boss@12.35.0", "pg@8"]
ROUNDS = int(os.environ.get("CORTANA_BENCH_ROUNDS", "3"))
JOBS, SINGLE, BATCH, WAKES = 20000, 1000, 20000, 200
PROCESSES, SHARED_JOBS, START_S = 4, 60000, 3

# Their best documented settings, and their defaults.
GRAPHILE_BEST = {"concurrentJobs": 24, "maxPoolSize": 25, "pollInterval": 2000,
                 "localQueue": {"size": 500}, "completeJobBatchDelay": 0, "failJobBatchDelay": 0}
GRAPHILE_DEFAULT = {"concurrentJobs": 1, "maxPoolSize": 10, "pollInterval": 2000}
GRAPHILE_WAKE = {"concurrentJobs": 10, "maxPoolSize": 11, "pollInterval": 2000}
BOSS_BEST = {"batchSize": 500, "localConcurrency": 4, "pollingIntervalSeconds": 0.5,
             "burstWhenBatchFull": True}
PEERS = {
    "graphile-worker": {"drain": {"worker": GRAPHILE_BEST}, "latency": {"worker": GRAPHILE_WAKE},
                        "default": {"worker": GRAPHILE_DEFAULT, "limit": 10}},
    "pg-boss": {"drain": {"worker": BOSS_BEST}, "default": {"limit": 10},
                "latency": {"worker": {"pollingIntervalSeconds": 0.5}, "notify": True}},
}


def install(folder):
    folder.mkdir(exist_ok=True)
    (folder / "package.json").write_text('{"private": true}')
    subprocess.run(["npm", "install", "--no-audit", "--no-fund", "--silent", *PACKAGES], cwd=folder,
                   check=True, stdout=sys.stderr)
    node = next(folder.glob("node_modules/node*/bin/node"), None)
    return node or folder / "node_modules" / ".bin" / "node"


def peer(node, folder, library, verb, **options):
    done = subprocess.run([node, HERE / "queue_peers.mjs", folder, library, verb, json.dumps(options)],
                          text=True, stdout=subprocess.PIPE,
                          check=True, timeout=300)
    return json.loads(done.stdout)


def share(command):
    """Jobs a second of several processes that begin at one moment; command(moment) is one of them."""
    moment = int((time.time() + START_S) * 1000)
    processes = [subprocess.Popen(command(moment), text=True, stdout=subprocess.PIPE)
                 for _ in range(PROCESSES)]
    parts = [json.loads(process.communicate(timeout=300)[0]) for process in processes]
    assert sum(part["done"] for part in parts) == SHARED_JOBS, parts
    return SHARED_JOBS / (max(p["end"] for p in parts) - min(p["start"] for p in parts)) * 1000


def shared_by_peers(node, folder, library, settings):
    peer(node, folder, library, "stock", jobs=SHARED_JOBS)
    return share(lambda moment: [node, HERE / "queue_peers.mjs", folder, library, "share",
                                 json.dumps({"moment": moment, **settings})])


def shared_by_ours(build, conninfo):
    program = build / "benchmarks" / "queue-bench"
    subprocess.run([program, conninfo, "stock", str(SHARED_JOBS)], check=True)
    return share(lambda moment: [program, conninfo, "share", str(moment)])


def ours(build, conninfo):
    done = subprocess.run([build / "benchmarks" / "queue-bench", conninfo], text=True,
                          stdout=subprocess.PIPE, check=True, timeout=300)
    return {figure["name"]: figure["ours"] for figure in map(json.loads, done.stdout.splitlines())}


def one_round(build, node, folder, conninfo):
    """{what: {who: value}}"""
    own = ours(build, conninfo)
    found = {"drained by one process, at best": {
                 "ours": own["drained, 4 connections, batches of 500, no status events"]},
             "drained by one process, history and events": {
                 "ours": own["drained, 4 connections, batches of 500"]},
             "drained by one process, events and 100 tenants": {
                 "ours": own["drained, 4 connections, batches of 500, 100 tenants"]},
             "drained by four processes, at best": {"ours": shared_by_ours(build, conninfo)},
             "drained one by one, or by default": {"ours": own["drained, 1 connection, one by one"]},
             "enqueued one by one": {"ours": own["enqueued, one by one"]},
             "enqueued by thousands, at best": {
                 "ours": own["enqueued, by thousands, no status events"]},
             "enqueued by thousands, history and events": {"ours": own["enqueued, by thousands"]},
             "enqueue to start, median": {"ours": own["enqueue to start, median"]},
             "enqueue to start, p99": {"ours": own["enqueue to start, p99"]}}
    for library, settings in PEERS.items():
        def measure(verb, **options):
            return peer(node, folder, library, verb, **options)

        added = measure("enqueue", single=SINGLE, batch=BATCH)
        woken = measure("latency", jobs=WAKES, **settings["latency"])
        best = measure("drain", jobs=JOBS, **settings["drain"])["rate"]
        for name, value in {
                "drained by one process, at best": best,
                "drained by one process, history and events": best,
                "drained by one process, events and 100 tenants": best,
                "drained by four processes, at best": shared_by_peers(node, folder, library,
                                                                      settings["drain"]),
                "drained one by one, or by default": measure("drain", jobs=JOBS,
                                                              **settings["default"])["rate"],
                "enqueued one by one": added["single"], "enqueued by thousands, at best": added["batch"],
                "enqueued by thousands, history and events": added["batch"],
                "enqueue to start, median": woken["p50"], "enqueue to start, p99": woken["p99"]}.items():
            found[name][library] = value
    return found


GOALS = {"drained by one process, at best": 1.2, "drained by four processes, at best": 1.2,
         "enqueued one by one": 3, "enqueued by thousands, at best": 3,
         "enqueue to start, median": 0.5}


def main():
    build = pathlib.Path(sys.argv[1]).resolve()
    folder = build / "peers"
    node = install(folder)
    with PrivateCluster(build) as cluster:
        conninfo = cluster.migrated_database()
        os.environ["PG_URL"] = f"postgres://cortana@localhost/postgres?host={cluster.folder}"
        for figure in queue_zombie.figures(node, folder, conninfo, PEERS):
            print(json.dumps(figure), flush=True)
        rounds = [one_round(build, node, folder, conninfo) for _ in range(ROUNDS)]
    for name in rounds[0]:
        is_time = name.startswith("enqueue to start")
        middle = {who: statistics.median(r[name][who] for r in rounds) for who in rounds[0][name]}
        best = (min if is_time else max)((value, who) for who, value in middle.items() if who != "ours")
        # of each round's own ratio, for the machine is not the same from one to the next
        ratio = statistics.median(
            r[name]["ours"] / (min if is_time else max)(v for w, v in r[name].items() if w != "ours")
            for r in rounds)
        print(json.dumps({"suite": "peers", "name": name, "unit": "ms" if is_time else "jobs/s",
                          "ours": middle["ours"], "peer": best[0], "peer_name": best[1], "ratio": ratio,
                          "goal": GOALS.get(name), "better": "lower" if is_time else "higher"}),
              flush=True)


if __name__ == "__main__":
    main()
