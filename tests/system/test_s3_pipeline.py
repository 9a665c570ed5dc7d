"""The whole pipeline with its objects on a real S3 server, as it runs in production."""

import contextlib
import json
import os
import pathlib
import shutil
import subprocess
import tempfile

import pytest
from conftest import run_sql
from pipeline import SMALL, Pipeline, beginning
from store_client import StoreClient

pytestmark = pytest.mark.sanitized(0)

VIDEO = "0b0e0c7e-3d5f-4a7b-9a52-6f1f7a3c0001"
BUCKET = "pipeline"


@pytest.fixture
def s3(s3_server, program):
    """The bucket as a store client; emptied behind each test. The server is named, so that the
    stages have to resolve a name in their sandbox."""
    endpoint = f"http://localhost:{s3_server.port}"
    client = StoreClient(program("store-commands"), s3_server.environment(BUCKET, endpoint))
    client.environment = s3_server.environment(BUCKET, endpoint)
    assert client.bucket(method="PUT", subresource="")["status"] == 200
    yield client
    client.delete_many(keys=client.keys())
    client.close_process()


class S3Pipeline(Pipeline):
    """The pipeline over a bucket; objects are looked at through the store's own client."""

    def __init__(self, client, *arguments, **environment):
        super().__init__(*arguments, **client.environment, **environment)
        self.client = client

    def put_original(self, path, key):
        self.client.put(key=key, path=str(path))

    def objects(self):
        return {key: self.client.get(key=key)["sha256"] for key in self.client.keys()
                if "/original/" not in key and not key.startswith("probes/")}


def what_is_left(make, original):
    """Rows, objects and the name of the bucket after a video and a clip of it."""
    running = make()
    try:
        running.start()
        video = running.submit(original, VIDEO)
        assert running.wait(video) == "ready", running.failures()
        clip = "0b0e0c7e-3d5f-4a7b-9a52-6f1f7a3c00c1"
        job = running.query("SELECT job_id FROM enqueue_job('clip_generate', %s, %s)", json.dumps({
            "video_id": video, "clip_id": clip, "t_start": 1000, "t_end": 2000,
            "s3_original_path": f"videos/original/{video}/master.mp4"}), video)[0][0]
        running.wait_for_job(job)
        objects = running.objects()
        artifacts = running.query("SELECT k, a.bucket FROM unnest(%s::text[]) AS k, (SELECT DISTINCT bucket"
                                  " FROM task_artifacts WHERE kind = 'output') AS a WHERE cortana.is_output(a.bucket, k)",
                                  list(objects))
        assert {key for key, _ in artifacts} == set(objects)
        return running.rows(video), objects, {bucket for _, bucket in artifacts}
    finally:
        running.stop()


def test_the_pipeline_leaves_on_s3_what_it_leaves_in_a_directory(
        s3, program, shared_cluster, database, sql, store_dir, tmp_path, fixtures_dir):
    other = shared_cluster.create_database()
    with contextlib.closing(shared_cluster.connect(other)) as other_sql:
        original = beginning(fixtures_dir / "subtitles.mp4", tmp_path)
        left = [what_is_left(make, original) for make in (
            lambda: Pipeline(program, database, sql, store_dir, tmp_path, **SMALL),
            lambda: S3Pipeline(s3, program, shared_cluster.url(other), other_sql, store_dir, tmp_path, **SMALL))]
    run_sql(shared_cluster, f"DROP DATABASE {other} WITH (FORCE)")
    assert left[0][:2] == left[1][:2]
    assert len(left[0][1]) > 5
    assert [buckets for *_, buckets in left] == [{f"dir:{store_dir}"}, {f"s3://{BUCKET}"}]


def test_a_missing_original_fails_for_good_and_is_told(
        s3, program, database, sql, store_dir, tmp_path):
    running = S3Pipeline(s3, program, database, sql, store_dir, tmp_path)
    running.put_original = lambda path, key: None
    try:
        running.start("transcode", "sample")
        video = running.submit(pathlib.Path("none.mp4"), VIDEO)
        assert running.wait(video) == "failed"
        (payload, scheduled), = running.query("SELECT payload, scheduled_for FROM jobs"
                                              " WHERE step = 'transcode'")
        assert payload["error"]["type"] == "S3ObjectNotFound" and scheduled is None
        assert payload["error"]["message"].startswith("the original is no longer in the store; ")
    finally:
        running.stop()


def test_wrong_credentials_do_not_cost_a_job_its_retries(
        s3, program, database, sql, store_dir, tmp_path):
    worker = subprocess.run([program("transcode-worker"), "--once"], input="{}", text=True,
                            capture_output=True, check=False, env={
                                **os.environ, **s3.environment, "S3_ACCESS_KEY_ID": "",
                                "S3_SECRET_ACCESS_KEY": "", "AWS_EC2_METADATA_DISABLED": "true",
                                "HOME": str(tmp_path)})
    assert worker.returncode == 78, worker.stdout
    assert "credentials" in json.loads(worker.stdout)["error"]["message"]


def test_run_keeps_its_objects_in_the_bucket(s3, program, fixtures_dir):
    parent = pathlib.Path(tempfile.mkdtemp(prefix="cv-run-", dir="/tmp"))
    parent.chmod(0o755)
    data = parent / "data"
    environment = {name: value for name, value in {**os.environ, **s3.environment}.items()
                   if not name.startswith("PG") and name not in ("DATABASE_URL", "STORE_URL")}

    def cortana(*arguments):
        return subprocess.run([program("cortana"), *map(str, arguments), "--data", data], text=True,
                              env=environment, capture_output=True, check=False, timeout=300)

    try:
        url = f"s3://{BUCKET}/run/one"
        original = fixtures_dir / "edge" / "portrait.mp4"
        done = cortana("run", original, "--store", url)
        assert done.returncode == 0, done.stdout + done.stderr
        keys = s3.keys("run/one/")
        for part in ("videos/original/", "videos/proxy/", "frames/", "thumbs/", "videos/clips/"):
            assert any(key.startswith(f"run/one/{part}") for key in keys), (part, keys)
        assert not [path for path in (data / "store").rglob("*") if path.is_file()]

        again = cortana("run", original)  # the store is remembered
        assert again.returncode == 0 and "is known already" in again.stderr, again.stderr
        other = cortana("run", original, "--store", f"s3://{BUCKET}/two")
        assert other.returncode != 0 and url in other.stderr
        clip = cortana("clip", "last", "0:01", "0:02", "-o", parent / "clip.mp4")
        assert clip.returncode == 0 and (parent / "clip.mp4").stat().st_size > 1000, clip.stderr
    finally:
        shutil.rmtree(parent, ignore_errors=True)
