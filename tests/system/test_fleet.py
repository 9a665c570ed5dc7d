"""The fleet as processes: drained workers, full disks, nodes that are woken, and the operator's commands."""

import json
import os
import re
import signal
import socket
import subprocess

import pytest
from test_faults import FAST_RETRIES, small_disk
from probing import get, port_of, wait_reason
from workers import wait_until


@pytest.fixture
def jobs(jobs, sql):
    sql.cursor().execute(FAST_RETRIES)
    return jobs


# ---- workers ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("listening", [True, False], ids=["told at once", "polling only"])
def test_a_drained_worker_ends_what_it_has_and_goes(jobs, workers, cortana, listening):
    running = jobs.enqueue({"do": "work", "ms": 1500})
    worker = workers.start("test-stage", *([] if listening else ["--no-listen"]), CORTANA_GRACE_MS=0,
                           CORTANA_LEASE_MS=5000, CORTANA_HEARTBEAT_MS=300)
    worker.wait_for_stage()
    worker_id = wait_until(lambda: [row["id"] for row in jobs.rows("SELECT id FROM workers")], "its row")[0]
    done = cortana("workers", "drain", worker_id)
    assert done.returncode == 0 and worker_id in done.stdout, done.stderr
    wait_until(lambda: worker.says("an operator drains this worker"), "the worker to hear")
    waiting = jobs.enqueue({"do": "succeed"})
    assert worker.wait() == 0
    assert jobs.get(running)["status"] == "done", "no grace period cuts it short"
    assert jobs.get(waiting)["status"] == "queued"
    assert jobs.row("SELECT state FROM workers")["state"] == "stopped"
    assert cortana("workers", "drain", worker_id).returncode == 1


def test_a_drained_worker_obeys_a_signal(jobs, workers, cortana):
    running = jobs.enqueue({"do": "work", "ms": 3600000})
    worker = workers.start("test-stage", "--listen", "127.0.0.1:0", CORTANA_GRACE_MS=0)
    worker.wait_for_stage()
    wait_until(lambda: jobs.rows("SELECT id FROM workers"), "its row")
    assert cortana("workers", "drain", jobs.row("SELECT id FROM workers")["id"]).returncode == 0
    wait_reason(port_of(worker), "draining")
    worker.signal(signal.SIGTERM)
    assert worker.wait() == 0
    assert jobs.get(running)["status"] == "queued"


def test_rules_change_while_workers_run(jobs, workers, cortana):
    jobs.rows("UPDATE job_types SET max_running = 0 WHERE name = 'test_stage'")
    job = jobs.enqueue({"do": "succeed"})
    workers.start("test-stage", "--slots", 2)
    wait_until(lambda: jobs.rows("SELECT id FROM workers"), "the worker")
    assert "limit reached" in cortana("jobs", "why", job).stdout
    assert cortana("rules", "set", "test_stage", "max=none", "time-limit=2s").returncode == 0
    jobs.wait_for(job, "done")
    slow = jobs.enqueue({"do": "work", "ms": 3600000})
    jobs.wait_for(slow, "failed")
    assert [attempt["status"] for attempt in jobs.attempts(slow)][0] == "timeout"


def test_a_full_disk_stops_claims_until_there_is_room(jobs, workers, tmp_path):
    # The store's disk counts, too: it is empty here, however full the machine's is.
    with small_disk(workers.scratch, "4m"), small_disk(workers.store, "16m"):
        filler = workers.scratch / "filler"
        filler.write_bytes(b"x" * ((4 << 20) * 97 // 100))
        worker = workers.start("test-stage", "--listen", "127.0.0.1:0", CORTANA_STORE_PROBE_MS=20)
        told = wait_until(lambda: worker.says("nothing is claimed"), "the worker to notice")
        assert [line["level"] for line in told] == ["error"]
        port = port_of(worker)
        assert wait_reason(port, "is full").startswith(f"the disk of {workers.scratch}")
        job = jobs.enqueue({"do": "succeed"})
        wait_until(lambda: jobs.rows("SELECT 1 FROM disk_status_log WHERE level = 'emergency' OFFSET 3"),
                   "some more looks at the disk")
        assert jobs.get(job)["status"] == "queued"
        assert jobs.row("SELECT disk_level FROM hosts")["disk_level"] == "emergency"
        (tmp_path / "roomy").mkdir()
        other = workers.start("test-stage", "--listen", "127.0.0.1:0", CORTANA_SCRATCH=tmp_path / "roomy")
        jobs.wait_for(job, "done")  # a worker is as full as its own scratch directory
        assert get(port_of(other), "/readyz")[0] == 200 and get(port, "/readyz")[0] == 503
        assert other.stop() == 0
        job = jobs.enqueue({"do": "succeed"})
        for share, level in ((92, "critical"), (87, "warning")):
            filler.write_bytes(b"x" * ((4 << 20) * share // 100))
            wait_until(lambda: jobs.rows("SELECT 1 FROM hosts WHERE disk_level = %s", level), level)
        jobs.wait_for(job, "done")
        filler.unlink()
        wait_until(lambda: jobs.rows("SELECT 1 FROM hosts WHERE disk_level = 'ok'"), "ok")
        assert worker.stop() == 0


# ---- nodes -----------------------------------------------------------------------------------------


@pytest.fixture
def look(program, database):
    """Lets a scheduler look once at what is to be done."""
    return lambda: subprocess.run([program("scheduler"), "--once"], env={**os.environ, "DATABASE_URL": database},
                                  text=True, capture_output=True, check=True, timeout=300)


def test_a_magic_packet_wakes_a_node(jobs, cortana, look):
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as listener:
        listener.bind(("127.0.0.1", 0))
        listener.settimeout(10)
        assert cortana("nodes", "set", "gpu", "types=test_stage", "mac=02:AB:00-00:00:7f").returncode == 0
        done = cortana("nodes", "set", "gpu", "broadcast=127.0.0.1", f"port={listener.getsockname()[1]}", "enabled=no", "max=3")
        assert done.returncode == 0, done.stderr
        assert jobs.row("SELECT host, max_concurrency FROM nodes") == {"host": "gpu", "max_concurrency": 3}
        assert cortana("nodes", "wake", "gpu").returncode == 0
        look()
        packet = listener.recv(2000)
    mac = bytes([0x02, 0xAB, 0x00, 0x00, 0x00, 0x7F])
    assert packet == b"\xff" * 6 + mac * 16
    assert cortana("nodes", "set", "gpu", "enabled=yes", "max=none").returncode == 0
    assert re.search(r"^gpu +waking +wol ", cortana("nodes").stdout, re.M)
    look()  # what was asked for once is done once
    assert jobs.row("SELECT wake_requested_at, max_concurrency FROM nodes") == {"wake_requested_at": None, "max_concurrency": None}
    for verb in ("wake", "remove"):
        assert "no node is called 'nobody'" in cortana("nodes", verb, "nobody").stderr
    assert cortana("nodes", "remove", "gpu").stdout == "gpu is forgotten\n"


def test_a_scheduler_runs_the_script_of_a_node_that_is_needed_without_a_shell(jobs, cortana, look, tmp_path):
    said = tmp_path / "said"
    script = tmp_path / "wake"
    script.write_text(f"#!/bin/sh\nprintf '%s\\n' \"$@\" \"$NODE_NAME\" \"${{DATABASE_URL-none}}\" > {said}\n")
    script.chmod(0o755)
    hostile = "$(touch /tmp/owned); `id` 'x' > y"
    for node, words in (("n", f"{script},{hostile}"), ("broken", "/bin/false")):
        assert cortana("nodes", "set", node, "types=test_stage", f"script={words}").returncode == 0
    look()
    assert not said.exists(), "no job needs it"
    jobs.rows("SELECT enqueue_job('test_stage', '{}', p_scheduled_for => now() + interval '4 minutes')")
    done = look()
    assert said.read_text().splitlines() == [hostile, "n", "none"]
    assert "ended with status 1" in done.stdout + done.stderr


# ---- commands --------------------------------------------------------------------------------------


def test_rules_are_shown_and_checked(cortana):
    assert cortana("rules", "set", "ocr", "weight=5", "max=3", "put-off=yes").returncode == 0
    assert re.search(r"^ocr +5 +put off +5 +3 +- ", cortana("rules").stdout, re.M)
    assert cortana("rules", "set", "ocr", "retries=1m,90s", "time-limit=2h", "public=yes", "max=none").returncode == 0
    rule, = (rule for rule in map(json.loads, cortana("rules", "--json").stdout.splitlines()) if rule["name"] == "ocr")
    assert (rule["retry_delays_ms"], rule["time_limit_ms"], rule["is_public"], rule["max_running"]) == ([60000, 90000], 7200000, True, None)
    for wrong in ("weight=6", "put-off=maybe", "retries=soon", "time-limit=0", "weight"):
        assert cortana("rules", "set", "ocr", wrong).returncode == 64, wrong
    assert cortana("rules", "set", "nothing", "weight=1").returncode == 1
    assert cortana("rules", "set", "ocr", "name=x").returncode == 64


def test_tenants_are_limited(jobs, cortana):
    tenant = "00000000-0000-0000-0000-000000000001"
    jobs.rows("INSERT INTO videos (owner_id, original_size) VALUES (%s, 3 << 20)", tenant)
    assert cortana("tenants", "limit", tenant, "500GB").stdout == f"{tenant} may store 500GB\n"
    assert cortana("tenants", "limit", "default", "1048576").returncode == 0
    assert jobs.row("SELECT cortana.tenant_room(%s) AS room", tenant)["room"] == (500 << 30) - (3 << 20)
    shown = cortana("tenants").stdout
    assert re.search(rf"^{tenant} +3072 kB +500 GB +1 ", shown, re.M) and re.search(r"^default .* 1024 kB ", shown, re.M), shown
    assert cortana("tenants", "limit", tenant, "none").returncode == 0
    assert jobs.row("SELECT cortana.tenant_room(%s) AS room", tenant)["room"] == 0
    for wrong, status in ((["x", "1"], 64), ([tenant], 64), ([tenant, "many"], 1)):
        assert cortana("tenants", "limit", *wrong).returncode == status, wrong


def test_jobs_are_paused_moved_canceled_and_explained(jobs, cortana):
    ids = [jobs.enqueue({}) for _ in range(3)]
    assert cortana("jobs", "pause", "test_stage", "--reason", "upgrade").returncode == 0
    assert re.search(r"^type paused +since .*: upgrade$", cortana("jobs", "why", ids[0]).stdout, re.M)
    assert "paused" in cortana("jobs", "watch", "--count", "2", "--every", "0.1").stdout
    assert cortana("jobs", "resume", "test_stage").stdout == "type test_stage goes on\n"
    assert cortana("jobs", "pause", "nothing").returncode == 64
    assert cortana("jobs", "priority", "9", ids[0][:8]).stdout == f"job {ids[0]} has priority 9 now\n"
    assert jobs.get(ids[0])["priority"] == 9
    assert cortana("jobs", "priority", "2", "--type", "test_stage").stdout.startswith("3 jobs")
    assert cortana("jobs", "cancel", "--type", "test_stage", "--status", "queued").stdout.startswith("3 jobs")
    assert [jobs.get(job)["status"] for job in ids] == ["canceled"] * 3
    tenant = "00000000-0000-0000-0000-000000000001"
    assert cortana("tenants", "pause", tenant).returncode == 0
    assert jobs.row("SELECT tenant_id::text FROM paused_tenants")["tenant_id"] == tenant
    assert cortana("tenants", "resume", tenant).returncode == 0
    for wrong in (["cancel"], ["cancel", "--tenant", "x"], ["priority", "11", "--type", "a"], ["why"],
                  ["show", "--type", "a"], ["cancel", "abcd", "--type", "a"], ["retry", "--status", "gone"], ["watch", "--every", "0"]):
        assert cortana("jobs", *wrong).returncode == 64, wrong


def test_old_months_go_to_the_store_and_come_back(jobs, cortana, store_dir):
    jobs.rows("CREATE TABLE cortana.task_events_2021_02 PARTITION OF task_events"
              " FOR VALUES FROM ('2021-02-01Z') TO ('2021-03-01Z')")
    jobs.rows("INSERT INTO task_events (ts, source, type, message, data) SELECT"
              " '2021-02-03Z'::timestamptz + n * interval '1 second', 's', 't', E'line\\nbreak ' || n, '{\"n\": 1}'"
              " FROM generate_series(1, 2500) AS n")
    before = jobs.rows("SELECT * FROM task_events ORDER BY id")
    done = cortana("jobs", "archive")
    assert done.stdout == "task_events_2021_02: 2500 events are in archive/task_events/2021_02.jsonl\n", done.stderr
    assert jobs.rows("SELECT 1 FROM task_events") == []
    lines = (store_dir / "archive/task_events/2021_02.jsonl").read_text().splitlines()
    assert len(lines) == 2500 and json.loads(lines[0])["message"] == "line\nbreak 1"
    assert jobs.row("SELECT rows, key FROM event_archives")["rows"] == 2500
    assert cortana("jobs", "archive").stdout == "nothing is old enough\n"
    for restored in (2500, 0):
        done = cortana("jobs", "restore", "archive/task_events/2021_02.jsonl")
        assert done.stdout == f"{restored} events are back\n", done.stderr
    assert jobs.rows("SELECT * FROM task_events ORDER BY id") == before
    assert cortana("jobs", "restore", "archive/none").returncode == 1
