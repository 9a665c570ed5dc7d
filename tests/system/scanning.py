"""A scanner over one database and one directory store, and what it has made of the files in it."""

import hashlib
import json
import os
import pathlib
import subprocess
import uuid

import psycopg2.extras
from workers import DEADLINE, NOT_KEPT

SETTLE_MS = 150


class Scanning:
    def __init__(self, program, database, sql, store):
        self.program, self.database, self.sql, self.store = program, database, sql, store
        self.processes = []

    # ---- processes ----

    def environment(self, **changes):
        return {**os.environ, "DATABASE_URL": self.database, "STORE_URL": f"dir:{self.store}",
                "CORTANA_SETTLE_MS": str(SETTLE_MS), **{k: str(v) for k, v in changes.items()}}

    def start(self, *arguments, name="scanner-worker", **environment):
        process = subprocess.Popen([self.program(name), *map(str, arguments)], text=True,
                                   env=self.environment(**environment), stdin=subprocess.PIPE,
                                   stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        self.processes.append(process)
        return process

    def run(self, *arguments, text="", expect=0, name="scanner-worker", **environment):
        process = self.start(*arguments, name=name, **environment)
        out, err = process.communicate(text, timeout=DEADLINE)
        assert process.returncode == expect, out + err
        return out + err

    def end(self):
        for process in self.processes:
            if process.poll() is None:
                process.kill()
            process.communicate()

    # ---- the store ----

    def put(self, key, data=b"video", **notes):
        """A file as any program leaves it in the store; notes are the object's metadata."""
        path = self.store / key
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)
        for name, value in notes.items():
            os.setxattr(path, f"user.cortana.meta.{name.replace('_', '-')}", value.encode())
        return path

    def original(self, video_id=None, data=None, extension="mp4", **notes):
        video_id = str(video_id or uuid.uuid4())
        self.put(f"videos/original/{video_id}/master.{extension}",
                 video_id.encode() if data is None else data, **notes)
        return video_id

    def keys(self, prefix=""):
        found = (os.path.relpath(os.path.join(folder, name), self.store)
                 for folder, _, names in os.walk(self.store) for name in names)
        return sorted(key for key in found
                      if key.startswith(prefix) and not key.startswith(NOT_KEPT))

    def digest(self, key):
        return hashlib.sha256(pathlib.Path(self.store / key).read_bytes()).hexdigest()

    # ---- the tables ----

    def rows(self, statement, *parameters):
        with self.sql.cursor(cursor_factory=psycopg2.extras.RealDictCursor) as cursor:
            cursor.execute(statement, parameters)
            return cursor.fetchall() if cursor.description else []

    def value(self, statement, *parameters):
        (row,) = self.rows(statement, *parameters)
        (value,) = row.values()
        return value

    def video(self, video_id):
        (row,) = self.rows("SELECT * FROM videos WHERE id = %s", video_id)
        return row

    def videos(self):
        return {str(row["id"]): row for row in self.rows("SELECT * FROM videos ORDER BY id")}

    def transcodes(self, video_id=None):
        """Payloads of the transcode jobs."""
        return [row["payload"] for row in
                self.rows("SELECT payload FROM jobs WHERE job_type = 'transcode'"
                          " AND (%s IS NULL OR video_id = %s::uuid)", video_id, video_id)]

    def events(self, video_id):
        return [(row["level"], row["type"], row["message"]) for row in
                self.rows("SELECT level, type, message FROM task_events WHERE video_id = %s"
                          " AND source = 'scanner' AND type IN ('original', 'duplicate')"
                          " ORDER BY ts", video_id)]

    def uploads(self):
        return self.rows("SELECT * FROM uploads ORDER BY key")


def notification(*keys, event="ObjectCreated:Put", bucket="videos", minio=False):
    """What S3 says (MinIO: the same within its own envelope), as one line."""
    records = [{"eventVersion": "2.1", "eventSource": "aws:s3",
                "eventName": ("s3:" if minio else "") + event,
                "s3": {"s3SchemaVersion": "1.0", "bucket": {"name": bucket},
                       "object": {"key": key, "size": 1, "eTag": "x"}}} for key in keys]
    envelope = {"EventName": f"s3:{event}", "Key": f"{bucket}/{keys[0]}"} if minio else {}
    return json.dumps({**envelope, "Records": records}) + "\n"


def event_bridge(key, detail_type="Object Created", bucket="videos"):
    """What EventBridge says; its keys are not encoded."""
    return {"version": "0", "id": "1", "detail-type": detail_type, "source": "aws.s3",
            "detail": {"version": "0", "bucket": {"name": bucket},
                       "object": {"key": key, "size": 1, "etag": "x"}, "reason": "PutObject"}}


def sns(text):
    return {"Type": "Notification", "MessageId": "1", "TopicArn": "arn:aws:sns:x:1:t",
            "Subject": "Amazon S3 Notification", "Message": text}


def sqs(*texts):
    """What SQS answers to a reader of messages."""
    return {"Messages": [{"MessageId": str(number), "ReceiptHandle": "x", "Body": text}
                         for number, text in enumerate(texts)]}


def envelopes(text):
    """The usual ways in which the text of a notification arrives, as JSON texts by name."""
    return {name: json.dumps(event) for name, event in {
        "SQS's answer": sqs(text),
        "one message of SQS": sqs(text)["Messages"][0],
        "a function's SQS event": {"Records": [{"messageId": "1", "body": text,
                                                "eventSource": "aws:sqs"}]},
        "SNS": sns(text),
        "SNS within SQS": sqs(json.dumps(sns(text))),
        "a function's SNS event": {"Records": [{"EventSource": "aws:sns", "Sns": sns(text)}]},
    }.items()}
