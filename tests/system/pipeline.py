"""The five workers as processes over one database and one store."""

import hashlib
import json
import os
import signal
import subprocess
import time
import uuid

from jobs import STAGES
from workers import wait_until

WORKERS = {job_type: f"{job_type.replace('_', '-')}-worker" for job_type in (*STAGES, "clip_generate")}
SMALL = {"CORTANA_RENDITIONS": "240"}  # where it is not tried how a video is encoded


def beginning(path, folder, seconds=7):
    """The first seconds of a video, not encoded anew: work for each stage, where its amount is not what is tried."""
    cut = folder / path.name
    subprocess.run(["ffmpeg", "-v", "error", "-y", "-i", path, "-t", str(seconds), "-c", "copy", cut], check=True)
    return cut


class Pipeline:
    """Workers that are started, killed and started again; videos put in and waited for."""

    def __init__(self, program, database, sql, store_dir, folder, **environment):
        self.program, self.database, self.sql, self.store = program, database, sql, store_dir
        self.folder = folder
        self.environment = {**os.environ, "DATABASE_URL": database, "STORE_URL": f"dir:{store_dir}",
                            "CORTANA_SCRATCH": str(folder / "scratch"), **environment}
        (folder / "scratch").mkdir(exist_ok=True)
        self.workers = {}

    def start(self, *job_types):
        self._start(job_types or WORKERS)

    def _start(self, job_types):
        for job_type in job_types:
            if job_type in self.workers and self.workers[job_type].poll() is None:
                continue  # a second one would be left behind when the first is forgotten
            log = open(self.folder / f"{job_type}.log", "ab")
            self.workers[job_type] = subprocess.Popen(
                [self.program(WORKERS[job_type])], env=self.environment, stdin=subprocess.DEVNULL,
                stdout=log, stderr=log)
            log.close()

    def restart_dead(self):
        self._start([job_type for job_type, worker in self.workers.items()
                     if worker.poll() is not None])

    def stop(self):
        for worker in self.workers.values():
            if worker.poll() is None:
                worker.send_signal(signal.SIGTERM)
        for worker in self.workers.values():
            worker.wait(timeout=300)

    def query(self, statement, *parameters):
        with self.sql.cursor() as cursor:
            cursor.execute(statement, parameters)
            return cursor.fetchall() if cursor.description else []

    def submit(self, path, video_id=None, owner=None, workflow="video_pipeline", **payload):
        """Puts an original and its run in, as an uploader would; without a workflow, its transcode job
        alone, which brings its successors forth. Returns the video's id."""
        video_id = video_id or str(uuid.uuid4())
        key = f"videos/original/{video_id}/master{path.suffix}"
        self.put_original(path, key)
        self.query("INSERT INTO videos (id, owner_id, s3_original_path) VALUES (%s, %s, %s)",
                   video_id, owner, key)
        if workflow:
            self.query("SELECT start_run(%s, %s, %s)", workflow, json.dumps(payload), video_id)
        else:
            payload = {"video_id": video_id, "s3_original_path": key, **payload}
            self.query("SELECT enqueue_job('transcode', %s, %s)", json.dumps(payload), video_id)
        return video_id

    def put_original(self, path, key):
        target = self.store / key
        target.parent.mkdir(parents=True)
        target.write_bytes(path.read_bytes())

    def status(self, video_id):
        return self.query("SELECT status::text FROM videos WHERE id = %s", video_id)[0][0]

    def wait(self, video_id, wanted=("ready", "failed"), timeout=300, between=None):
        """Waits until the video's status is one of `wanted`; `between` is called while it waits."""
        deadline = time.monotonic() + timeout
        while (status := self.status(video_id)) not in wanted:
            assert time.monotonic() < deadline, f"{status} after {timeout} s; {self.failures()}"
            if between:
                between()
            time.sleep(0.05)
        return status

    def failures(self):
        return self.query("SELECT job_type, status::text, payload -> 'error' FROM jobs"
                          " WHERE status <> 'done'")

    def objects(self):
        """What the videos have in the store but their originals: key to SHA-256. Without
        `probes/`: a worker that is killed during a probe leaves an object there for an hour."""
        return {str(path.relative_to(self.store)): hashlib.sha256(path.read_bytes()).hexdigest()
                for path in sorted(self.store.rglob("*"))
                if path.is_file() and "original" not in path.parts
                and not path.relative_to(self.store).parts[0].startswith((".", "probes"))}

    def rows(self, video_id):
        """What the pipeline is to leave in the tables, without what differs from run to run."""
        return {
            "video": self.query("SELECT status::text, resolution, fps, duration, s3_proxy_path,"
                                " s3_thumb_path FROM videos WHERE id = %s", video_id),
            "segments": self.query("SELECT id::text, text, text_hash, language, confidence, t_start,"
                                   " t_end, bounding_box FROM segments WHERE video_id = %s"
                                   " ORDER BY t_start, id", video_id),
            "entities": self.query("SELECT segment_id::text, entity_type, value, normalized_value"
                                   " FROM entities JOIN segments s ON s.id = segment_id"
                                   " WHERE video_id = %s ORDER BY 1, 2, 3, 4", video_id),
            "search": self.query("SELECT segment_id::text, text FROM search_materialized"
                                 " WHERE video_id = %s ORDER BY 1", video_id),
        }

    def wait_for_job(self, job_id, timeout=300):
        ended = "SELECT status::text, payload FROM jobs WHERE id = %s AND status IN ('done', 'canceled', 'failed')"
        (status, payload), = wait_until(lambda: self.query(ended, job_id), f"job {job_id} to end", timeout)
        assert status == "done", payload
