"""A store that refuses ends no job: not a key that was taken back, not a wrong clock, a missing bucket,
a disk that is read-only or full, a directory that is gone. CORTANA_REFUSED_JOBS says how many jobs wait
in each case."""

import contextlib
import json
import os
import subprocess

import pytest
from probing import port_of, wait_ready, wait_reason
from s3_server import ACCESS_KEY, SECRET_KEY
from scanning import Scanning
from store_client import StoreClient
from test_faults import mounted, small_disk
from workers import Worker, wait_until

COUNT = int(os.environ.get("CORTANA_REFUSED_JOBS", "8"))
QUICK = {"CORTANA_STORE_PROBE_MS": 100, "S3_ATTEMPTS": 2,
         "S3_STALL_TIMEOUT_S": 2}
BUCKET = "refuses"


@pytest.fixture
def bucket(s3_server, program):
    client = StoreClient(program("store-commands"), s3_server.environment(BUCKET))
    assert client.bucket(method="PUT", subresource="")["status"] == 200
    yield client
    client.delete_many(keys=client.keys())
    client.close_process()


@pytest.fixture
def jobs(jobs, sql):
    # A single attempt that counts would show: the job would be dead, because there is no retry.
    sql.cursor().execute("UPDATE job_types SET retry_delays = '{}' WHERE name = 'test_stage'")
    return jobs


def enqueue(jobs, first=0):
    return [jobs.enqueue({"do": "put", "key": f"out/{first + index}", "text": "t"})
            for index in range(COUNT)]


def start(workers, **environment):
    return workers.start("test-stage", "--slots", 2, "--listen", "127.0.0.1:0",
                         **{**QUICK, **environment})


def hold_out(jobs, worker, words):
    """Waits until the worker has seen the trouble; it has then stopped claiming."""
    reason = wait_reason(port_of(worker), words)
    claims = jobs.row("SELECT count(*) AS n FROM job_attempts")["n"]
    looks = len(worker.says("cannot be used"))
    wait_until(lambda: jobs.row("SELECT count(*) AS n FROM jobs WHERE status = 'queued'")["n"] == COUNT,
               "all to be queued again")
    assert jobs.row("SELECT count(*) AS n FROM job_attempts")["n"] <= claims + 2
    assert claims <= 4 and looks <= 1, "a worker that goes on claiming passes the whole queue through"
    return reason


def all_done(jobs, ids, worker):
    for job_id in ids:
        jobs.wait_for(job_id, "done", "failed")
    assert {job["status"] for job in jobs.rows("SELECT status::text FROM jobs")} == {"done"}
    assert {job["retry_count"] for job in jobs.rows("SELECT retry_count FROM jobs")} == {0}
    wait_ready(port_of(worker))
    assert worker.stop() == 0


# ---- a bucket --------------------------------------------------------------------------------------


def test_a_key_that_is_taken_back(jobs, workers, s3_server, bucket):
    worker = start(workers, **s3_server.environment(BUCKET))
    wait_ready(port_of(worker))
    s3_server.take_key_back()
    try:
        wait_until(lambda: "error" in bucket.try_call("get", key="none"), "the key to be refused")
        ids = enqueue(jobs)
        reason = hold_out(jobs, worker, "the store cannot be used")
        assert BUCKET in reason and "403" in reason
        causes = jobs.rows("SELECT DISTINCT error_type FROM job_attempts WHERE status <> 'running'")
        assert [row["error_type"] for row in causes] == ["Released"]
    finally:
        s3_server.give_key()
    all_done(jobs, ids, worker)


@pytest.mark.parametrize("kept_in", ["shared file", "settings"])
def test_a_key_that_is_changed_under_a_worker(jobs, workers, s3_server, bucket, tmp_path, kept_in):
    """Files of keys are read again when their key is refused: nothing stops, and nobody starts anew."""
    own = {name: value for name, value in s3_server.environment(BUCKET).items() if "KEY" not in name}
    path = tmp_path / "credentials"

    def write(access_key, secret_key):
        new = path.with_suffix(".new")
        new.write_text(f"[default]\naws_access_key_id = {access_key}\naws_secret_access_key = {secret_key}\n")
        new.rename(path)
        (tmp_path / "S3_ACCESS_KEY_ID").write_text(access_key + "\n")
        (tmp_path / "S3_SECRET_ACCESS_KEY").write_text(secret_key + "\n")

    write(ACCESS_KEY, SECRET_KEY)
    if kept_in == "settings":
        path_of_settings = tmp_path / "cortana.conf"
        path_of_settings.write_text("".join(f"{name}_FILE={tmp_path / name}\n" for name in ("S3_ACCESS_KEY_ID", "S3_SECRET_ACCESS_KEY")))
        own["CORTANA_CONFIG"] = path_of_settings
    else:
        own["AWS_SHARED_CREDENTIALS_FILE"] = path
    worker = start(workers, **own)
    wait_ready(port_of(worker))
    for job_id in enqueue(jobs):
        jobs.wait_for(job_id, "done")
    s3_server.give_key("SECONDKEY", "the second secret")
    write("SECONDKEY", "the second secret")
    s3_server.take_key_back()
    try:
        wait_until(lambda: "error" in bucket.try_call("get", key="none"), "the first key to be refused")
        all_done(jobs, enqueue(jobs, COUNT), worker)
        assert jobs.row("SELECT count(*) AS n FROM job_attempts WHERE status <> 'succeeded'")["n"] == 0
    finally:
        s3_server.give_key()
        s3_server.take_key_back("SECONDKEY")


@pytest.mark.parametrize("status,code,words", [
    (403, "AccessDenied", "403 AccessDenied"),
    (400, "ExpiredToken", "ExpiredToken"),
    (503, "SlowDown", "SlowDown"),
])
def test_a_server_that_refuses_for_a_while(jobs, workers, s3_server, bucket, proxy, status, code, words):
    worker = start(workers, **s3_server.environment(BUCKET, proxy.endpoint))
    wait_ready(port_of(worker))
    fault = proxy.add(".", times=1 << 30, status=status, code=code)
    ids = enqueue(jobs)
    hold_out(jobs, worker, words)
    fault.times = 0
    all_done(jobs, ids, worker)


def test_a_bucket_that_is_not_there_yet(jobs, workers, s3_server, program):
    worker = start(workers, **s3_server.environment("refuses-yet"))
    ids = enqueue(jobs)
    assert "s3://refuses-yet" in wait_reason(port_of(worker), "NoSuchBucket")
    assert jobs.rows("SELECT FROM job_attempts") == [], "a worker looks at its store before it claims"
    client = StoreClient(program("store-commands"), s3_server.environment("refuses-yet"))
    assert client.bucket(method="PUT", subresource="")["status"] == 200
    client.close_process()
    all_done(jobs, ids, worker)


def test_a_missing_object_is_believed_of_a_working_bucket_alone(jobs, workers, s3_server, bucket, proxy):
    worker = start(workers, **s3_server.environment(BUCKET, proxy.endpoint))
    wait_ready(port_of(worker))
    bucket.put(key="in/1", text="t")
    fault = proxy.add("/in/1", times=1 << 30, status=404, code="")
    others = proxy.add("/probes/", times=1 << 30, status=404, code="")
    job_id = jobs.enqueue({"do": "copy", "key": "in/1"})
    wait_reason(port_of(worker), "404")
    assert jobs.get(job_id)["status"] in ("queued", "processing")
    fault.times = others.times = 0
    jobs.wait_for(job_id, "done")
    job = jobs.wait_for(jobs.enqueue({"do": "copy", "key": "in/2"}), "failed", "done")
    assert job["payload"]["error"]["type"] == "S3ObjectNotFound" and job["scheduled_for"] is None
    assert "in/2" in job["payload"]["error"]["message"]
    assert worker.stop() == 0


def test_one_object_that_is_refused_does_not_stop_the_others(jobs, workers, s3_server, bucket, proxy):
    worker = start(workers, **s3_server.environment(BUCKET, proxy.endpoint))
    proxy.add("/out/forbidden", times=1 << 30, status=403, code="AccessDenied")
    refused = jobs.enqueue({"do": "put", "key": "out/forbidden", "text": "t"})
    ids = enqueue(jobs)
    assert jobs.wait_for(refused, "failed")["payload"]["error"]["type"] == "AccessDenied"
    for job_id in ids:
        jobs.wait_for(job_id, "done")
    assert worker.stop() == 0


def test_a_stage_that_blames_the_store_is_not_believed(jobs, workers):
    worker = start(workers)
    said = json.dumps({"error": {"type": "AccessDenied", "message": "it was not me",
                                 "retryable": True, "environment": True}})
    job_id = jobs.enqueue({"do": "leave", "code": 75, "text": said})
    assert jobs.wait_for(job_id, "failed")["payload"]["error"]["type"] == "AccessDenied"
    assert worker.stop() == 0


# ---- an installation -------------------------------------------------------------------------------


STOP = json.dumps({"error": {"type": "ConfigurationError", "message": "no model", "retryable": False}})


def test_an_installation_that_breaks_costs_no_job(jobs, workers, tmp_path):
    """A stage that finds it broken is believed when the worker finds so itself."""
    broken = tmp_path / "installed" / "broken"
    broken.parent.mkdir()
    worker = start(workers, CORTANA_TEST_BROKEN=broken, CORTANA_READ_PATHS=broken.parent)
    wait_ready(port_of(worker))
    broken.touch()
    job_id = jobs.enqueue({"do": "check"})
    wait_reason(port_of(worker), "this installation cannot work: the model is gone")
    wait_until(lambda: jobs.get(job_id)["status"] == "queued", "the job to be given back")
    ids = enqueue(jobs)
    assert jobs.row("SELECT count(*) AS n FROM job_attempts")["n"] == 1
    broken.unlink()
    all_done(jobs, [job_id, *ids], worker)


def test_stages_that_were_taken_over_stop_no_worker(jobs, workers):
    """They say that nothing can work here: their own attempts count, and the worker rests, and goes on."""
    worker = start(workers, CORTANA_STORE_PROBE_MS=300)  # six times so long it rests
    lies = [jobs.enqueue({"do": "leave", "code": 78, "text": STOP}) for _ in range(3)]
    wait_reason(port_of(worker), "stages say that this installation cannot work")
    for job_id in lies:
        assert jobs.wait_for(job_id, "failed")["payload"]["error"]["type"] == "ConfigurationError"
    job_id = jobs.enqueue({"do": "succeed"})
    jobs.wait_for(job_id, "done")
    assert worker.is_alive() and worker.stop() == 0


# ---- a directory -----------------------------------------------------------------------------------


def bound(path):
    """The directory as a mount of its own, which can be made read-only."""
    return mounted(path, "--bind", path)


def remount(path, how):
    subprocess.run(["mount", "-o", f"remount,bind,{how}", path], check=True)


def test_what_a_killed_worker_left_of_a_probe_is_removed(jobs, workers):
    probes = workers.store / "probes"
    probes.mkdir(parents=True)
    for name in ("1", "2", "3"):
        (probes / name).write_text("probe")
    os.utime(probes / "1", (0, 0))
    os.utime(probes / "2", (0, 0))
    worker = start(workers)
    wait_ready(port_of(worker))
    assert workers.files() == {"probes/3"}, "another worker's probe may just be under way"
    assert worker.stop() == 0


def test_a_directory_that_is_read_only_for_a_while(jobs, workers):
    with bound(workers.store):
        worker = start(workers)
        wait_ready(port_of(worker))
        remount(workers.store, "ro")
        ids = enqueue(jobs)
        hold_out(jobs, worker, "Read-only file system")
        remount(workers.store, "rw")
        all_done(jobs, ids, worker)


def test_a_directory_that_is_unmounted_for_a_while(jobs, workers):
    with bound(workers.store):
        (workers.store / "in").write_text("t")
        with small_disk(workers.store, "4m"):
            (workers.store / "in").write_text("t")
            worker = start(workers)
            wait_ready(port_of(worker))
        with small_disk(workers.store, "4m"):
            job_id = jobs.enqueue({"do": "copy", "key": "in"})
            wait_reason(port_of(worker), "unmounted")
            wait_until(lambda: jobs.get(job_id)["status"] == "queued", "the job to be given back")
        assert worker.stop() == 0


def test_a_full_directory(jobs, workers):
    with small_disk(workers.store, "4m"):
        worker = start(workers)
        wait_ready(port_of(worker))
        filler = workers.store / "filler"
        filler.write_bytes(b"x" * ((4 << 20) * 97 // 100))
        wait_reason(port_of(worker), "is full")
        ids = enqueue(jobs)
        assert jobs.rows("SELECT FROM job_attempts") == []
        filler.unlink()
        all_done(jobs, ids, worker)


def test_a_disk_that_fills_up_under_a_job(jobs, workers):
    """The put fails before the disk is looked at the next time."""
    with small_disk(workers.store, "4m"):
        worker = start(workers, CORTANA_STORE_PROBE_MS=3600000)
        wait_ready(port_of(worker))
        filler = workers.store / "filler"
        filler.write_bytes(b"x" * ((4 << 20) * 97 // 100))
        job_id = jobs.enqueue({"do": "fill", "bytes": 1 << 20, "key": "out/1"})
        wait_until(lambda: worker.says("released"), "the job to be given back")
        assert jobs.get(job_id)["status"] == "queued"
        assert worker.stop() == 0
        filler.unlink()
        worker = start(workers)
        jobs.wait_for(job_id, "done")
        assert worker.stop() == 0


# ---- the scanner -----------------------------------------------------------------------------------


def test_originals_of_a_store_that_is_gone_are_not_missing(program, database, sql, tmp_path):
    store = tmp_path / "objects"
    with bound(store), contextlib.ExitStack() as disk:
        disk.enter_context(small_disk(store, "4m"))
        scanning = Scanning(program, database, sql, store)
        video = scanning.original()
        scanning.run()
        scanner = Worker([program("scanner-worker"), "--interval", "0.2", "--listen", "127.0.0.1:0"],
                         scanning.environment(), tmp_path / "scanner.log")
        try:
            wait_ready(port_of(scanner))
            disk.close()
            wait_reason(port_of(scanner), "unmounted")
            assert scanning.video(video)["original_state"] == "present"
        finally:
            scanner.kill()
