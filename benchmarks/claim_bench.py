#!/usr/bin/python3
"""claim_bench.py BUILD   what a claim of one job takes where much else is in the table: history, a backlog,
dead entries under a held snapshot, tenants. Each is a database of its own on one PostgreSQL with default
durable settings, and is measured in turn with one that has nothing but the jobs that are claimed; the
ratios are to that. CPU is that of the server's process, which other load on the machine does not change. CORTANA_BENCH_ROWS: rows of the history and of the backlog (1,000,000)."""
import contextlib
import json
import os
import pathlib
import statistics
import sys
import time
import uuid

import psycopg2
import psycopg2.extras
from private_cluster import PrivateCluster

ROWS = int(os.environ.get("CORTANA_BENCH_ROWS", "1000000"))
DEAD = ROWS // 10
TENANTS = 1000
FLOOD = ROWS // 10
ROUNDS, BLOCK, WARM_UP = 30, 20, 20
READY = ROUNDS * BLOCK + WARM_UP
# As enqueue_jobs() leaves them and complete_jobs() in the end, without the timeline: that is not claimed.
FILL = """SET session_replication_role = replica;
    INSERT INTO jobs (job_type, status, priority, sequence, max_retries, is_ready, step, finished_at, attempt)
    SELECT 'bench', '{status}', 5, nextval('job_sequence'), 3, '{status}' = 'queued', 'bench',
           CASE WHEN '{status}' = 'done' THEN now() END, ('{status}' = 'done')::int
    FROM generate_series(1, {rows});
    SET session_replication_role = origin"""


class Table:
    """One database, and the claims that were timed in it."""

    def __init__(self, cluster, name):
        self.conninfo = cluster.migrated_database(name)
        self.connection = psycopg2.connect(self.conninfo)
        self.connection.autocommit = True
        self.cursor = self.connection.cursor()
        self.blocks = []
        self.schedstat = f"/proc/{self.connection.get_backend_pid()}/schedstat"
        self.run("INSERT INTO job_types (name, description) VALUES ('bench', 'benchmark')")

    def run(self, statement, *parameters):
        self.cursor.execute(statement, parameters or None)
        return self.cursor.fetchall() if self.cursor.description else []

    def add(self, count, tenant=None):
        for done in range(0, count, 10000):
            self.run("SELECT count(*) FROM enqueue_jobs('bench', array_fill('{}'::jsonb, ARRAY[%s]), 5, %s)",
                     min(10000, count - done), tenant)

    def settle(self):
        self.run("VACUUM ANALYZE jobs")
        self.run("CHECKPOINT")

    def cpu_s(self):
        return int(pathlib.Path(self.schedstat).read_text().split()[0]) / 1e9

    def claim(self, count):
        """(seconds, CPU seconds) that each of so many claims took; the jobs are done afterwards."""
        taken = []
        for _ in range(count):
            cpu, began = self.cpu_s(), time.perf_counter()
            (job,) = self.run("SELECT id, lease_token FROM claim_jobs('bench', 'bench', 1)")
            taken.append((time.perf_counter() - began, self.cpu_s() - cpu))
            self.run("SELECT complete_job(%s, %s)", *job)
        return taken


def tenant(number):
    return uuid.UUID(int=number + 1)


def fill_tenants(table):
    table.add(FLOOD, tenant(0))
    for number in range(1, TENANTS):
        table.add(10, tenant(number))


def leave_dead_entries(table):
    table.add(DEAD)
    holder = psycopg2.connect(table.conninfo)
    holder.set_session(isolation_level="REPEATABLE READ")
    holder.cursor().execute("SELECT count(*) FROM job_types")
    while True:
        rows = table.run("SELECT id, lease_token FROM claim_jobs('bench', 'bench', 500)")
        if not rows:
            return holder
        table.run("SELECT complete_jobs(%s, %s)", [row[0] for row in rows], [row[1] for row in rows])


def measure(clean, tables):
    """In turn, so that what the machine does besides meets them all."""
    every = [clean, *tables]
    for table in every:
        table.blocks = []
        table.claim(WARM_UP)
    for turn in range(ROUNDS):
        for table in every if turn % 2 else reversed(every):
            table.blocks.append(table.claim(BLOCK))


def show(clean, table, name, goal):
    """Medians of the blocks' own ratios, for the machine is not the same from one to the next."""
    for part, figure, at, reached in (("median", 0, 0.5, goal), ("p99", 0, 0.99, None), ("CPU, median", 1, 0.5, goal)):
        own, base = ([[claim[figure] * 1e3 for claim in block] for block in each.blocks] for each in (table, clean))
        middle, clean_middle = (sorted(sum(each, []))[int(at * ROUNDS * BLOCK)] for each in (own, base))
        ratio = statistics.median(statistics.median(a) / statistics.median(b) for a, b in zip(own, base))
        print(json.dumps({"suite": "queue", "name": f"claim, {name}, {part}", "unit": "ms", "ours": middle,
                          "peer": clean_middle, "peer_name": "empty table", "goal": reached, "better": "lower",
                          "ratio": ratio if at == 0.5 else middle / clean_middle}), flush=True)


def main():
    psycopg2.extras.register_uuid()
    with PrivateCluster(pathlib.Path(sys.argv[1]).resolve()) as cluster:
        names = ["clean", "history", "backlog", "tenants", "limits", "dead"]
        clean, history, backlog, tenants, limits, dead = tables = [Table(cluster, name) for name in names]
        history.run(FILL.format(status="done", rows=ROWS))
        backlog.run(FILL.format(status="queued", rows=ROWS))
        fill_tenants(tenants)
        fill_tenants(limits)
        limits.run("UPDATE job_types SET max_running_per_tenant = 1 WHERE name = 'bench'")
        limits.run("SELECT pause_tenant(t) FROM unnest(%s) AS t", [tenant(n) for n in range(0, TENANTS, 10)])
        clean.add(3 * READY)  # it is measured with everybody
        history.add(READY)
        for table in tables[:-1]:
            table.settle()
        measure(clean, tables[1:-1])
        show(clean, history, f"{ROWS:,} done", 1.1)
        show(clean, backlog, f"{ROWS:,} queued", 1.1)
        show(clean, tenants, f"{TENANTS:,} tenants, one with {FLOOD:,}", 1.1)
        show(clean, limits, f"{TENANTS:,} tenants, one at a time each, 100 paused with the first", None)

        with contextlib.closing(leave_dead_entries(dead)) as holder:
            dead.add(2 * READY)
            measure(clean, [dead])
            show(clean, dead, f"{DEAD:,} dead entries, snapshot held", 2)
            holder.rollback()
        measure(clean, [dead])
        show(clean, dead, f"{DEAD:,} dead entries, snapshot gone", 1.1)
        for table in tables:
            table.connection.close()


if __name__ == "__main__":
    main()
