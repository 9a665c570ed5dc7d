"""The queue's SQL functions, called from Python, for tests of the rules in the database."""

import json


def past_all_rules(statement):
    """The statement without the triggers that refuse it: for ages and damage that only a test makes."""
    return f"SET session_replication_role = replica; {statement}; RESET session_replication_role"


STAGES = ("transcode", "sample", "ocr", "segment_index")  # of the workflow video_pipeline
VIDEO = "0a0b0c0d-0000-4000-8000-000000000001"
ORIGINAL = f"videos/original/{VIDEO}/master.mp4"
# What the types of the pipeline need and do not take from a video: their jobs that a test enqueues without a payload.
NEEDED = {"ocr": {"frame_paths": []}, "clip_generate": {"clip_id": VIDEO, "t_start": 0, "t_end": 1000}}
WITHOUT_VIDEO = {"transcode": {"video_id": VIDEO, "s3_original_path": ORIGINAL}, "sample": {"video_id": VIDEO, "s3_original_path": ORIGINAL},
                 "ocr": {"video_id": VIDEO}, "segment_index": {"video_id": VIDEO}, "embed": {"video_id": VIDEO},
                 "clip_generate": {"video_id": VIDEO, "s3_original_path": ORIGINAL}}


TRANSCODE = json.dumps(WITHOUT_VIDEO["transcode"])


def needed_by(job_type, has_video):
    """The least payload that a type takes."""
    return NEEDED.get(job_type, {}) | ({} if has_video else WITHOUT_VIDEO.get(job_type, {}))


class Queue:
    def __init__(self, connection):
        self.connection = connection

    def run(self, statement, *parameters):
        """Rows of a statement as dicts."""
        with self.connection.cursor() as cursor:
            cursor.execute(statement, parameters)
            if not cursor.description:
                return []
            names = [column.name for column in cursor.description]
            return [dict(zip(names, row)) for row in cursor.fetchall()]

    def value(self, statement, *parameters):
        (row,) = self.run(statement, *parameters)
        (value,) = row.values()
        return value

    def video(self, owner=None, team=None):
        return self.value("INSERT INTO videos (owner_id, team_id, s3_original_path)"
                          " VALUES (%s, %s, 'videos/original/x/master.mp4') RETURNING id", owner, team)

    def write_text(self, video, lines, **common):
        """Its lines, each a text or what it has: one a second."""
        self.run("SELECT replace_video_text(%s, %s)", video, json.dumps([{
            "language": "eng", "confidence": 0.9, "t_start": 1000 * n, "t_end": 1000 * n + 900, "entities": [],
            "bounding_box": {"x": 1, "y": 2, "width": 300, "height": 40}, **common, **({"text": one} if isinstance(one, str) else one)}
            for n, one in enumerate(lines)]))

    def enqueue(self, job_type="transcode", payload=None, **named):
        """(job_id, is_new)"""
        named = {"p_job_type": job_type, "p_payload": json.dumps(needed_by(job_type, "video_id" in named) | (payload or {})),
                 **{f"p_{key}": value for key, value in named.items()}}
        casts = {"p_video_id": "uuid", "p_payload": "jsonb", "p_depends_on": "uuid[]",
                 "p_correlation_id": "uuid", "p_scheduled_for": "timestamptz"}
        arguments = ", ".join(f"{key} => %s::{casts[key]}" if key in casts else f"{key} => %s"
                              for key in named)
        (row,) = self.run(f"SELECT * FROM enqueue_job({arguments})", *named.values())
        return row["job_id"], row["is_new"]

    def pause_trigger(self, name, is_paused=True):
        self.run("UPDATE job_triggers SET paused_at = CASE WHEN %s THEN now() END WHERE name = %s", is_paused, name)

    def fire_schedule(self, name, now=None):
        """As api.fire_trigger() does it."""
        (firing,) = self.run("SELECT f.* FROM job_triggers t CROSS JOIN coalesce(%s, clock_timestamp()) AS now, run_trigger("
                             "t, schedule_scope(t, now), NULL, NULL, NULL, gen_random_uuid(), now) AS f WHERE t.name = %s", now, name)
        return firing

    def add(self, job_type="transcode", payload=None, **named):
        return self.enqueue(job_type, payload, **named)[0]

    def claim(self, job_type="transcode", limit=1, worker="worker", lease="5 minutes"):
        return self.run("SELECT * FROM claim_jobs(%s, %s, %s, %s)", worker, job_type, limit, lease)

    def claim_one(self, job_type="transcode", **named):
        (job,) = self.claim(job_type, **named)
        return job

    def call(self, function, job, *more):
        """A function that takes a job and its token."""
        places = ", ".join(["%s"] * (len(more) + 2))
        return self.value(f"SELECT {function}({places})", job["id"], job["lease_token"], *more)

    def fail(self, job, error_type="Timeout", retryable=True):
        return self.call("fail_job", job, error_type, "it failed", retryable)

    def job(self, job_id):
        (row,) = self.run("SELECT * FROM jobs WHERE id = %s", job_id)
        return row

    def status(self, job_id):
        return self.job(job_id)["status"]

    def expire(self, job_id):
        self.run("UPDATE jobs SET locked_until = now() - interval '1 second' WHERE id = %s", job_id)

    def make_retry_due(self, job_id):
        self.run("UPDATE jobs SET scheduled_for = now() - interval '1 second'"
                 " WHERE id = %s AND status = 'failed' AND scheduled_for IS NOT NULL", job_id)

    def attempts(self, job_id):
        return self.run("SELECT * FROM job_attempts WHERE job_id = %s ORDER BY attempt", job_id)

    def snapshot(self):
        """Everything a zombie could touch."""
        return {table: self.run(f"SELECT * FROM {table} t ORDER BY t::text") for table in
                ("jobs", "job_attempts", "task_events", "task_artifacts", "segments", "videos")}
