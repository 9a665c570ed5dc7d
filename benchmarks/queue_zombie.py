"""A worker is stopped past its lease, another takes over, the first wakes and reports success, then the
second fails: whose verdict stands? Of this queue, and of its peers as their libraries work by default."""
import contextlib
import json
import os
import pathlib
import signal
import subprocess
import time

import psycopg2

HERE = pathlib.Path(__file__).resolve().parent
PATIENCE_S = 60
AFTER_S = 2  # what a worker that has ended its job may take to write so
# The least lease that pg-boss allows, and its supervisor as often as can be.
BOSS = {"boss": {"superviseIntervalSeconds": 1, "monitorIntervalSeconds": 1, "maintenanceIntervalSeconds": 1},
        "queue": {"heartbeatSeconds": 10, "retryLimit": 5, "retryDelay": 3},
        "worker": {"pollingIntervalSeconds": 0.5}}
GRAPHILE = {"worker": {"concurrentJobs": 1, "pollInterval": 500}}
# Four hours are not waited for.
GRAPHILE_AGES = "UPDATE graphile_worker._private_jobs SET locked_at = now() - interval '5 hours'"
GRAPHILE_IS = "SELECT 'last error: ' || coalesce(last_error, 'none') FROM graphile_worker._private_jobs"
BOSS_IS = "SELECT concat(state, ', output: ', output ->> 'message') FROM pgboss.job WHERE name = 'noop'"


def ask(conninfo, statement, *parameters):
    with contextlib.closing(psycopg2.connect(conninfo)) as link:
        link.autocommit = True
        cursor = link.cursor()
        cursor.execute(statement, parameters or None)
        return cursor.fetchall() if cursor.description else []


def ours(conninfo):
    """What the functions answer to the same; processes do it in tests/system/test_faults.py."""
    ask(conninfo, "INSERT INTO job_types (name, description) VALUES ('zombie', 'a') ON CONFLICT DO NOTHING")
    ask(conninfo, "SELECT enqueue_job('zombie', '{}')")
    first, second = (ask(conninfo, "SELECT id, lease_token, pg_sleep(0.01)::text"
                                   " FROM claim_jobs(%s, 'zombie', 1, '1 ms')", name)[0] for name in "ab")
    ask(conninfo, "SELECT complete_job(%s, %s)", *first[:2])
    ask(conninfo, "SELECT fail_job(%s, %s, 'Timeout', 'the second fails', true)", *second[:2])
    return ask(conninfo, "SELECT concat(status, ', ', payload #>> '{error,message}') FROM jobs WHERE id = %s",
               first[0])[0][0]


class Holder:
    """A peer's worker process."""

    def __init__(self, command):
        self.process = subprocess.Popen(command, env=os.environ, text=True, stdout=subprocess.PIPE)

    def wait_for(self, word):
        end = time.monotonic() + PATIENCE_S
        for line in self.process.stdout:
            if line.strip() == word:
                return
            if time.monotonic() > end:
                break
        raise RuntimeError(f"no '{word}' within {PATIENCE_S} s")

    def kill(self):
        self.process.send_signal(signal.SIGCONT)
        self.process.kill()
        self.process.wait()
        self.process.stdout.close()


def peer(node, folder, conninfo, library):
    options = GRAPHILE if library == "graphile-worker" else BOSS

    def command(verb, **more):
        return [node, HERE / "queue_peers.mjs", folder, library, verb, json.dumps({**options, **more})]

    subprocess.run(command("add"), check=True, stdout=subprocess.DEVNULL, timeout=PATIENCE_S)
    with contextlib.ExitStack() as stack:
        first = Holder(command("hold", seconds=2))
        stack.callback(first.kill)
        first.wait_for("start")
        first.process.send_signal(signal.SIGSTOP)
        if library == "graphile-worker":
            ask(conninfo, GRAPHILE_AGES)
        second = Holder(command("hold", seconds=8, fails=True))
        stack.callback(second.kill)
        second.wait_for("start")
        first.process.send_signal(signal.SIGCONT)
        second.wait_for("end")
        time.sleep(AFTER_S)
    rows = ask(conninfo, GRAPHILE_IS if library == "graphile-worker" else BOSS_IS)
    return rows[0][0] if rows else "the job is gone"


def figures(node, folder, conninfo, libraries):
    """One a library: 1 where the second's failure stands, 0 where not."""
    own = ours(conninfo)
    for library in libraries:
        found = peer(node, folder, conninfo, library)
        yield {"suite": "peers", "name": "zombie: the second's verdict stands", "unit": "1 yes, 0 no",
               "ours": int("the second fails" in own), "peer": int("the second fails" in found),
               "peer_name": f"{library} ({found})", "ratio": None, "goal": None, "better": "higher"}
