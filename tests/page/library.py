"""A library that looks like somebody's: videos with plausible texts, and the jobs that led to them."""

import json
import random

from jobs import past_all_rules

SUBJECTS = ["Sourdough from start to oven", "A walk through Lisbon", "Release meeting, week {n}", "Bike repair: brakes",
            "Mountain weather {n}", "Live: election night", "How the tax form works", "Chat with the insurance",
            "Feed of the evening", "Recital, camera {n}", "Lecture {n}: hash tables", "Unboxing a used camera",
            "Screen recording {n}", "Garden in spring", "Neues vom Bauhof", "Rezepte für den Herbst {n}"]
LINES = ["the old bridge over the river @anna", "12.50 € per kilogram", "#sourdough day {n}", "preheat to 240 °C",
         "https://example.org/recipes/{n}", "Ich bin gleich da, warte auf mich", "Breaking: bridge closed until {n}:00",
         "@marco replied to your comment", "Step {n}: fold the dough", "Your order 4711{n} is on its way",
         "Nächster Halt: Alte Brücke", "error: connection refused by 10.0.0.{n}", "like and subscribe 👍",
         "Meet me at the old bridge", "Revenue by quarter", "O(n log n) on average", "la vieille ville #lisbon",
         "Battery at {n} %", "Call +49 30 1234{n}", "ready when you are @anna_k", "Sold out! #garden", "slide {n} of 40"]
ENTITIES = (("mention", "@"), ("hashtag", "#"), ("url", "https://"))
FRAME = (1280, 720)


def entities_of(text):
    for kind, sign in ENTITIES:
        for word in text.split():
            if word.startswith(sign):
                yield {"type": kind, "value": word, **({"normalized_value": word} if kind == "url" else {})}


def line(dice, number, lines, duration_ms):
    text = LINES[dice.randrange(len(LINES))].format(n=dice.randrange(2, 60))
    start = number * duration_ms // lines + dice.randrange(400)
    width = min(24 * len(text), FRAME[0] - 80)
    x, y = dice.randrange(FRAME[0] - width), dice.randrange(FRAME[1] - 60)
    return {"text": text, "normalized_text": text.lower(), "language": "deu" if "ch " in text else "eng",
            "confidence": dice.choice([0.99, 0.97, 0.93, 0.88, 0.71]), "t_start": start,
            "t_end": min(start + dice.randrange(900, 6000), duration_ms),
            "bounding_box": {"x": x, "y": y, "width": width, "height": 44},
            "end_box": {"x": x, "y": max(0, y - 90), "width": width, "height": 44}, "entities": list(entities_of(text))}


def add_video(queue, dice, number, owner, lines):
    duration = dice.randrange(20, 3600)
    status = dice.choice(["ready"] * 12 + ["processing", "failed"])
    title = SUBJECTS[number % len(SUBJECTS)].format(n=number)
    video = queue.value(
        "INSERT INTO videos (owner_id, title, original_name, s3_original_path, status, duration, fps, resolution,"
        " original_size, created_at) VALUES (%s, %s, %s, 'videos/original/x/master.mp4', %s, %s, 30, '1280x720', %s,"
        " now() - interval '1 minute' - %s * interval '5 hours') RETURNING id", owner, title, f"clip-{number:03}.mp4", status, duration,
        dice.randrange(10 ** 6, 10 ** 9), number)
    if status == "ready":
        texts = [line(dice, n, lines, duration * 1000) for n in range(lines)]
        queue.run("SELECT replace_video_text(%s, %s)", video, json.dumps(texts))
    return video


def make_library(queue, owner, videos=200, lines=40, seed=7):
    """The ids of the videos, the newest first."""
    dice = random.Random(seed)
    return [add_video(queue, dice, number, owner, lines) for number in range(videos)]


JOBS = """INSERT INTO jobs (job_type, status, video_id, max_retries, is_ready, payload, attempt, created_at, ready_at, started_at,
        finished_at, progress, locked_by, locked_until, progress_message, scheduled_for, retry_count, result)
    SELECT made.job_type, made.status::job_status, made.video_id, 3, made.status = 'queued',
        CASE WHEN made.status = 'failed' THEN jsonb_build_object('error', jsonb_build_object('type', made.error,
            'message', made.message), 'original_payload', made.payload) ELSE made.payload END,
        (made.status <> 'queued')::int, made.at, made.at, CASE WHEN made.status <> 'queued' THEN made.at + made.wait END,
        CASE WHEN made.status IN ('done', 'failed', 'canceled') THEN made.at + made.wait + made.took END,
        CASE made.status WHEN 'done' THEN 1 WHEN 'processing' THEN (made.n * 17 % 90) / 100.0 ELSE 0 END,
        CASE WHEN made.status = 'processing' THEN 'worker-' || made.n % 6 END,
        CASE WHEN made.status = 'processing' THEN now() + interval '1 hour' END,
        CASE WHEN made.status = 'processing' THEN made.n * 51 || ' of 300 frames' END,
        CASE WHEN made.status = 'failed' AND made.n / 60 % 2 = 0 THEN now() + interval '4 minutes' END, 0,
        CASE WHEN made.status = 'done' THEN '{"lines": 40}'::jsonb END
    FROM (SELECT n, (ARRAY['transcode', 'sample', 'ocr', 'segment_index', 'clip_generate'])[1 + n / 7 % 5] AS job_type,
            CASE WHEN n < 6 THEN 'processing' WHEN n < 300 THEN 'queued' WHEN n % 60 = 0 THEN 'failed'
                 WHEN n % 211 = 0 THEN 'canceled' ELSE 'done' END AS status,
            (%(videos)s::uuid[])[1 + n %% cardinality(%(videos)s::uuid[])] AS video_id,
            now() - n * interval '23 seconds' AS at, n % 40 * interval '1 second' AS wait,
            (n % 173 + 1) * interval '700 milliseconds' AS took, jsonb_build_object('part', n) AS payload,
            (ARRAY['Timeout', 'DecodeError', 'S3ObjectNotFound'])[1 + n / 60 % 3] AS error,
            (ARRAY['the stage ran longer than 30 min', 'the file ends in the middle of a frame',
                   'there is no object at this key'])[1 + n / 60 % 3] AS message
          FROM generate_series(0, %(count)s - 1) AS n) AS made"""


def make_jobs(queue, videos, count=100000):
    statement = past_all_rules(JOBS.replace(" % ", " %% "))
    with queue.connection.cursor() as cursor:
        cursor.execute(statement, {"videos": videos, "count": count})
        cursor.execute("ANALYZE")


ATTEMPTS = """INSERT INTO ended_attempts (job_id, attempt, worker_id, lease_token, started_at, finished_at, status, cpu_seconds)
    SELECT id, 1, 'reader-' || 1 + abs(hashtext(id::text)) %% 2, 1, started_at, finished_at,
        (CASE status WHEN 'done' THEN 'succeeded' ELSE 'failed' END)::attempt_status,
        extract(epoch FROM finished_at - started_at) * 0.8
    FROM jobs WHERE status IN ('done', 'failed') AND started_at IS NOT NULL ON CONFLICT DO NOTHING"""
FLEET = (("transcode", "press", 2, "running"), ("sample", "press", 2, "running"), ("ocr", "reader-1", 4, "running"),
         ("ocr", "reader-2", 4, "running"), ("segment_index", "press", 1, "running"), ("clip_generate", "attic", 2, "stopped"))


def make_fleet(queue, videos):
    """Workers and their machines, and a few runs, whose ids it returns."""
    for n, (job_type, host, slots, state) in enumerate(FLEET):
        queue.run("INSERT INTO workers (id, host, version, job_types, slots, running, state, last_seen, started_at)"
                  " VALUES (%s, %s, '0.9.0', %s, %s, %s, %s, now() - %s * interval '7 seconds', now() - interval '3 days')",
                  f"{host}-{job_type}-{4000 + n}", host, [job_type], slots, 0 if state == "stopped" else n % (slots + 1), state, n)
    for host, used, level in (("press", 61, "ok"), ("reader-1", 87, "warning"), ("reader-2", 93, "critical"), ("attic", 12, "ok")):
        queue.run("INSERT INTO hosts (name, cpu_budget, disk_level, disk_used_percent, disk_checked_at)"
                  " VALUES (%s, 8, %s, %s, now() - interval '20 seconds') ON CONFLICT (name) DO UPDATE SET"
                  " disk_level = EXCLUDED.disk_level, disk_used_percent = EXCLUDED.disk_used_percent", host, level, used)
    queue.run("INSERT INTO queue_history (job_type, at, seconds, enqueued, done, retried, dead, canceled)"
              " SELECT (ARRAY['transcode', 'ocr', 'sample'])[k], date_trunc('minute', now()) - n * interval '1 minute', 60,"
              "  n * 7 * k %% 11, n * 5 %% (13 - k) + 2, 0, CASE WHEN n %% 17 = k THEN 2 ELSE 0 END, 0"
              " FROM generate_series(1, 300) AS n, generate_series(1, 3) AS k")
    for host, used in (("press", 61), ("reader-1", 87), ("reader-2", 93), ("attic", 12)):
        queue.run("INSERT INTO disk_status_log (ts, host, path, total_bytes, free_bytes, used_percent, level) SELECT"
                  " now() - n * interval '5 minutes', %s, '/var/tmp', 500000000000, 5000000000 * (100 - u.percent), u.percent, 'ok'"
                  " FROM generate_series(60, 0, -1) AS n, LATERAL (SELECT greatest(%s - n / 4 - n %% 3, 1) AS percent) AS u",
                  host, used)
    queue.run("INSERT INTO nodes (name, host, job_types, wake_method, mac, woken_at) VALUES"
              " ('attic', 'attic', '{clip_generate,ocr}', 'wol', '02:00:00:00:00:01', now() - interval '40 minutes')")
    queue.run(ATTEMPTS)
    queue.run("SELECT pause_tenant('0f0e0d0c-0000-4000-8000-0000000000ef', 'the invoice is open')")
    queue.value("SELECT add_webhook('ours', 'https://example.com/hook')")
    queue.run("INSERT INTO job_triggers (name, event, cron, time_zone, action, target) VALUES"
              " ('nightly-cleaning', NULL, '30 2 * * *', 'Europe/Berlin', 'command', 'gc'),"
              " ('tell-the-archive', 'video.ready', NULL, 'UTC', 'webhook', 'ours')")
    for n in range(9):
        queue.add("webhook")
        queue.fail(queue.claim_one("webhook"), ("Timeout", "Refused")[n // 6], retryable=False)
    return [str(queue.value("SELECT run_id FROM start_run('video_pipeline', '{}', %s)", video)) for video in videos[:4]]
