"""A thousand tenants with work waiting, one of them with far more than the others."""

import collections
import uuid

import pytest

TENANTS = 1000
FLOOD = 10000
FEW = 3


def tenant(number):
    return uuid.UUID(int=number + 1)


@pytest.fixture
def crowded(queue):
    """Tenant 0 came first with FLOOD jobs, then each of the others with a few."""
    queue.run("INSERT INTO job_types (name, description) VALUES ('work', 'a')")
    add(queue, 0, FLOOD)
    queue.run("""SELECT count(*) FROM unnest(%s) AS t,
                 LATERAL enqueue_jobs('work', array_fill('{}'::jsonb, ARRAY[%s]), NULL, t)""",
              [tenant(n) for n in range(1, TENANTS)], FEW)
    queue.run("ANALYZE jobs")
    return queue


def add(queue, number, count=1):
    queue.run("SELECT enqueue_jobs('work', array_fill('{}'::jsonb, ARRAY[%s]), NULL, %s)", count, tenant(number))


def claim(queue, limit):
    """{tenant: how many jobs}"""
    return collections.Counter(job["tenant_id"] for job in queue.claim("work", limit=limit))


def test_tenants_take_turns(crowded):
    first = claim(crowded, TENANTS)
    assert max(first.values()) <= 2 and len(first) >= TENANTS - 1
    add(crowded, TENANTS)  # somebody new waits for one job of each at most, not for the first's thousands
    turn = claim(crowded, TENANTS + 1)
    assert turn[tenant(TENANTS)] == 1 and max(turn.values()) <= 2
    claim(crowded, FEW * TENANTS)
    crowded.run("UPDATE jobs SET status = 'canceled' WHERE status = 'queued' AND tenant_id <> %s", tenant(0))
    add(crowded, 7)
    assert claim(crowded, 2)[tenant(7)] == 1, "beside one that floods: within two claims"


def test_limits_and_pauses_hold_among_them(crowded):
    crowded.run("UPDATE job_types SET max_running_per_tenant = 2 WHERE name = 'work'")
    paused = {tenant(n) for n in range(0, TENANTS, 10)}
    crowded.run("SELECT pause_tenant(t) FROM unnest(%s) AS t", list(paused))
    running = collections.Counter()
    while True:
        step = claim(crowded, 300)
        running += step
        if not step:
            break
    assert running == {tenant(n): 2 for n in range(TENANTS) if tenant(n) not in paused}
    crowded.run("SELECT resume_tenant(%s)", tenant(0))
    assert claim(crowded, 100) == {tenant(0): 2}
