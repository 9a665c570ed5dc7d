"""Deleting a video removes its objects, whoever is at work on it and whoever is killed."""

import json
import os
import random
import signal
import threading
import time
import uuid

import psycopg2
import pytest
from jobs import needed_by, past_all_rules
from scanning import Scanning
from workers import STAGE_SCHEMA, Chaos, Workers, wait_until

DAY = 24 * 3600
# One object of every place, as the stages leave them.
PLACES = ("videos/original/{}/master.mp4", "videos/proxy/{}/index.m3u8",
          "videos/proxy/{}/720p/segment_00000.ts", "videos/clips/{}/" + str(uuid.uuid4()) + ".mp4",
          "frames/{}/0.jpg", "frames/{}/100.jpg", "thumbs/{}/poster.jpg", "lines/{}/0.pack")


class Library(Scanning):
    def __init__(self, program, database, sql, store, workers):
        super().__init__(program, database, sql, store)
        self.workers = workers

    def add(self, video=None):
        """A finished video with all its objects."""
        video = str(video or uuid.uuid4())
        for place in PLACES:
            self.put(place.format(video))
        self.rows("INSERT INTO videos (id, status, s3_original_path, s3_proxy_path, s3_thumb_path,"
                  " registered_at, original_state) VALUES (%s, 'ready', %s, %s, %s, now(), 'present')",
                  video, *(PLACES[i].format(video) for i in (0, 1, 6)))
        return video

    def remover(self, **environment):
        return self.workers.start("object-remove-worker", **environment)

    def of(self, video):
        return [key for key in self.keys() if video in key]

    def removal(self, video):
        rows = self.rows("SELECT * FROM object_removals WHERE video_id = %s", video)
        return rows[0] if rows else None

    def wait_until_removed(self, video):
        wait_until(lambda: self.removal(video)["finished_at"], "the objects to be removed")

    def cortana(self, *arguments, expect=0):
        return self.run(*arguments, name="cortana", expect=expect)


@pytest.fixture
def library(program, database, sql, tmp_path):
    workers = Workers(program, database, tmp_path)
    workers.store.mkdir()
    made = Library(program, database, sql, workers.store, workers)
    yield made
    made.end()
    workers.end()


# ---- deletion --------------------------------------------------------------------------------------


def test_all_objects_of_a_deleted_video_go(library):
    kept, gone, gone_too = library.add(), library.add(), library.add()
    library.put(f"uploads/{gone}")  # what had come before its upload was given up
    library.remover()
    library.rows("DELETE FROM videos WHERE id = %s", gone)
    assert library.value("SELECT delete_video(%s)", gone_too) is True
    assert library.value("SELECT delete_video(%s)", gone_too) is False
    for video in (gone, gone_too):
        library.wait_until_removed(video)
        assert library.of(video) == [] and library.removal(video)["objects"] == len(PLACES)
    assert len(library.of(kept)) == len(PLACES)
    assert library.rows("SELECT 1 FROM jobs WHERE job_type = 'object_remove' AND status <> 'done'") == []
    assert [path for path in library.store.rglob("*") if gone in str(path)] == []


def test_a_deletion_that_is_rolled_back_removes_nothing(library, database):
    video = library.add()
    other = psycopg2.connect(database)
    other.cursor().execute("DELETE FROM videos")
    other.rollback()
    other.close()
    library.remover()
    again = library.add()
    library.rows("DELETE FROM videos WHERE id = %s", again)
    library.wait_until_removed(again)
    assert len(library.of(video)) == len(PLACES) and library.removal(video) is None


class Committer(threading.Thread):
    """Works as a supervisor does, in its order: the job, then the video, then the next job."""

    def __init__(self, database, job_type, seed):
        super().__init__()
        self.database, self.job_type, self.chance = database, job_type, random.Random(seed)
        self.ended, self.failures, self.commits = threading.Event(), [], 0

    def run(self):
        connection = psycopg2.connect(self.database)
        connection.autocommit = True
        with connection.cursor() as cursor:
            while not self.ended.is_set():
                try:
                    self.work(cursor)
                except psycopg2.Error as problem:
                    self.failures.append(problem)
                    cursor.execute("ROLLBACK")
        connection.close()

    def work(self, cursor):
        cursor.execute("SELECT id, lease_token, video_id FROM claim_jobs(%s, %s, 4, '1 second')",
                       (f"thread {self.ident}", self.job_type))
        for job, token, video in cursor.fetchall():
            cursor.execute("BEGIN")
            cursor.execute("SELECT fence_job(%s, %s)", (job, token))
            if cursor.fetchone()[0]:
                cursor.execute("UPDATE videos SET duration = 1, s3_thumb_path = 'x' WHERE id = %s", (video,))
                cursor.execute("SELECT complete_job(%s, %s)", (job, token))
                cursor.execute("SELECT enqueue_job(%s, '{}', %s)",
                               (self.chance.choice(("transcode", "sample")), video))
            cursor.execute("COMMIT")
            self.commits += 1


def delete_all(database, videos, failures):
    """In one session, so many at a time, by plain DELETEs."""
    connection = psycopg2.connect(database)
    try:
        for at in range(0, len(videos), 30):
            with connection, connection.cursor() as cursor:
                cursor.execute("DELETE FROM videos WHERE id = ANY (%s::uuid[])", (videos[at:at + 30],))
    except psycopg2.Error as problem:
        failures.append(problem)
    finally:
        connection.close()


def test_plain_deletes_at_once_with_all_that_works_do_not_deadlock(library, database):
    """Two sessions delete the same videos in opposite orders, while removers, stages, a scanner, and
    commits on those very videos go on."""
    library.rows(STAGE_SCHEMA)
    library.rows("UPDATE job_types SET retry_delays = array_fill('10 ms'::interval, ARRAY[50])"
                 " WHERE name IN ('test_stage', 'object_remove')")
    kept = [library.add() for _ in range(3)]
    videos = [library.add() for _ in range(150)]
    for video in videos:
        library.rows("SELECT enqueue_job('transcode', '{}', %s)", video)
    for video in videos[::5]:
        library.rows("SELECT enqueue_job('test_stage', %s, %s)", json.dumps(
            {"do": "put", "key": f"frames/{video}/7.jpg", "text": "x", "ms": 100}), video)
    lease = {"CORTANA_LEASE_MS": 2000}
    library.remover(**lease)
    library.workers.start("test-stage", "--slots", "2", **lease)
    library.start("--interval", "0.1")
    committers = [Committer(database, kind, seed)
                  for seed, kind in enumerate(("transcode", "sample") * 2)]
    for committer in committers:
        committer.start()
    failures = []
    try:
        wait_until(lambda: sum(c.commits for c in committers) > 20, "the commits to be under way")
        deleters = [threading.Thread(target=delete_all, args=(database, order, failures))
                    for order in (videos, videos[::-1])]
        for deleter in deleters:
            deleter.start()
        for deleter in deleters:
            deleter.join(300)
            assert not deleter.is_alive()
    finally:
        for committer in committers:
            committer.ended.set()
            committer.join()
    assert failures == []
    # A job of a video that goes in between cannot be enqueued; nothing else may have failed.
    assert {type(f) for c in committers for f in c.failures} <= {psycopg2.errors.ForeignKeyViolation}
    wait_until(lambda: not library.rows("SELECT 1 FROM object_removals WHERE finished_at IS NULL"),
               "the objects to be removed")
    assert sorted({key.split("/")[-2] for key in library.keys() if "720p" not in key}) == sorted(kept)
    assert library.value("SELECT deadlocks FROM pg_stat_database WHERE datname = current_database()") == 0


def test_a_stage_at_work_leaves_nothing_behind(library, fixtures_dir):
    video = str(uuid.uuid4())
    library.original(video, (fixtures_dir / "chat.mp4").read_bytes())
    library.run()
    worker = library.workers.start("transcode-worker", CORTANA_LEASE_MS=3000, CORTANA_SEGMENTS="ts")  # slow enough to be met
    library.remover()
    wait_until(lambda: library.rows("SELECT 1 FROM jobs WHERE video_id = %s AND progress > 0.1", video),
               "the transcode to be under way")
    # Asleep, it hears of nothing: it wakes when the first removal is over, and goes on writing.
    stage = worker.wait_for_stage()
    os.kill(worker.pid, signal.SIGSTOP)
    assert library.value("SELECT delete_video(%s)", video)
    wait_until(lambda: library.of(video) == [], "the first removal")
    assert library.removal(video)["finished_at"] is None
    library.put(f"videos/proxy/{video}/segment_00000.m4s")  # what the stage would write
    os.kill(worker.pid, signal.SIGCONT)
    library.wait_until_removed(video)
    wait_until(lambda: not os.path.exists(f"/proc/{stage}"), "the stage to be stopped")
    assert library.of(video) == []
    assert library.value("SELECT count(*) FROM jobs WHERE job_type = 'object_remove'"
                         " AND status = 'done'") == 2


def test_nothing_is_left_whoever_is_killed_and_deleted(library):
    """Stages that write for videos, removers and their stages, killed at random while videos go."""
    library.rows(STAGE_SCHEMA)
    library.rows("UPDATE job_types SET retry_delays = array_fill('10 ms'::interval, ARRAY[500])"
                 " WHERE name IN ('test_stage', 'object_remove')")
    lease = {"CORTANA_LEASE_MS": 1500}
    chance = random.Random(7)
    videos = [library.add() for _ in range(40)]
    alive, deleted_at_work = list(videos), []

    def add_work():
        for number in range(20):
            video = chance.choice(videos[:5] + alive)
            if video in alive:
                library.rows("SELECT enqueue_job('test_stage', %s, %s)", json.dumps(
                    {"do": "put", "key": f"frames/{video}/{number}.jpg", "text": "x", "ms": 300}), video)
            elif chance.random() < 0.5:
                library.put(f"thumbs/{video}/late-{number}.jpg")  # as a stage that nobody could stop
                library.rows("SELECT remove_objects_again(%s)", video)

    def delete_one_at_work():
        at_work = [str(row["video_id"]) for row in library.rows(
            "SELECT video_id FROM jobs WHERE job_type = 'test_stage' AND status = 'processing'")]
        if at_work and len(alive) > 4:
            video = chance.choice(at_work)
            library.rows("DELETE FROM videos WHERE id = %s" if chance.random() < 0.5
                         else "SELECT delete_video(%s)", video)
            alive.remove(video)
            deleted_at_work.append(video)

    def is_finished():
        delete_one_at_work()
        return not library.rows("SELECT 1 FROM jobs WHERE job_type = 'test_stage'"
                                " AND status IN ('queued', 'processing')") \
            and not library.rows("SELECT 1 FROM object_removals WHERE finished_at IS NULL")

    chaos = Chaos([lambda: library.workers.start("test-stage", "--slots", "3", **lease),
                   lambda: library.workers.start("test-stage", "--slots", "3", **lease),
                   lambda: library.remover(**lease)], is_finished, add_work, seed=7)
    add_work()
    chaos.run(kills=25)
    chaos.end()
    assert {key.split("/")[-2] for key in library.keys() if "720p" not in key} == set(alive)
    assert deleted_at_work and all(len(library.of(video)) >= len(PLACES) for video in alive)


def test_a_worker_is_told_at_once(library):
    video = library.add()
    library.rows(STAGE_SCHEMA)
    library.rows("SELECT enqueue_job('test_stage', '{\"do\": \"hang\"}', %s)", video)
    worker = library.workers.start("test-stage")  # with a lease of five minutes
    worker.wait_for_stage()
    library.rows("SELECT delete_video(%s)", video)
    wait_until(lambda: not worker.stages(), "the stage to be stopped")
    assert worker.is_alive()
    final = library.removal(video)["final_after"]
    assert library.value("SELECT %s > now() + interval '4 minutes'", final)


def test_a_deleted_id_does_not_come_back(library):
    video = library.add()
    library.rows("DELETE FROM videos WHERE id = %s", video)
    with pytest.raises(psycopg2.errors.ObjectInUse):
        library.rows("INSERT INTO videos (id) VALUES (%s)", video)
    library.run()  # the original still lies there
    assert library.videos() == {}
    library.remover()
    library.wait_until_removed(video)
    assert library.of(video) == []
    library.original(video)  # an upload that comes late
    library.run()
    wait_until(lambda: library.of(video) == [], "the late upload to be removed")
    assert library.videos() == {}
    library.wait_until_removed(video)
    library.rows("INSERT INTO videos (id) VALUES (%s)", video)  # a person may, when all is over
    assert library.removal(video) is None


def test_hostile_payloads(library):
    library.put("frames/x/1.jpg")
    for payload in ({}, {"video_id": 7}, {"video_id": "../.."}, {"video_id": ""}, [], "x"):
        done = library.workers.once(payload, name="object-remove-worker")
        assert done.returncode == 65, done.stdout + done.stderr
    assert library.keys() == ["frames/x/1.jpg"]


def test_an_application_s_user_may_delete(library, database):
    video = library.add()
    owner = str(uuid.uuid4())
    library.rows("UPDATE videos SET owner_id = %s", owner)
    library.rows("GRANT DELETE ON videos TO authenticated")
    library.rows("CREATE POLICY d ON videos FOR DELETE TO authenticated USING (owner_id = auth.uid())")
    user = psycopg2.connect(database)
    with user, user.cursor() as cursor:
        cursor.execute("SELECT set_config('request.jwt.claims', %s, true)", (json.dumps({"sub": owner}),))
        cursor.execute("SET LOCAL ROLE authenticated")
        cursor.execute("DELETE FROM videos WHERE id = %s", (video,))
        assert cursor.rowcount == 1
    user.close()
    library.remover()
    library.wait_until_removed(video)
    assert library.of(video) == []


# ---- clips -----------------------------------------------------------------------------------------


def clip(library, video, days, **result):
    clip_id = str(uuid.uuid4())
    key = f"videos/clips/{video}/{clip_id}.mp4"
    path = library.put(key)
    os.utime(path, (time.time() - days * DAY,) * 2)
    job = library.value("SELECT job_id FROM enqueue_job('clip_generate', %s, %s)",
                        json.dumps({"clip_id": clip_id, "t_start": 0, "t_end": 1}), video)
    library.rows("SELECT * FROM claim_jobs('w', 'clip_generate')")
    library.rows("SELECT complete_job(id, lease_token, %s) FROM jobs WHERE id = %s",
                 json.dumps({"clip_path": key, **result}), job)
    library.rows(past_all_rules("UPDATE jobs SET finished_at = now() - %s * interval '1 day' WHERE id = %s"),
                     days, job)
    return key, lambda: library.value("SELECT result FROM jobs WHERE id = %s", job)


def test_clips_go_after_their_time(library):
    video = library.add()
    fresh, fresh_result = clip(library, video, 29)
    old, old_result = clip(library, video, 31)
    foreign = library.add()
    _, lie = clip(library, video, 31, clip_path=f"videos/original/{foreign}/master.mp4")
    _, lie_too = clip(library, video, 31, clip_path=PLACES[3].format(foreign))
    library.run()
    assert fresh in library.keys() and "removed_at" not in fresh_result()
    assert old not in library.keys() and old_result()["removed_at"]
    assert old_result()["clip_path"] == old
    assert lie() and lie_too() and len(library.of(foreign)) == len(PLACES)
    library.run(CORTANA_CLIP_DAYS=0)
    assert fresh in library.keys()
    library.run(CORTANA_CLIP_DAYS=7)
    assert fresh not in library.keys() and fresh_result()["removed_at"]


# ---- frames ----------------------------------------------------------------------------------------


def line(t_start, t_end):
    return {"text": f"line {t_start}", "language": "eng", "confidence": 0.9, "t_start": t_start, "t_end": t_end,
            "bounding_box": {"x": 0, "y": 0, "width": 9, "height": 9}, "entities": []}


def read(library, video):
    """A frame a second, its picture 40 ms after what it shows appeared, and lines; when each line's frame is from."""
    for t_start in range(0, 10000, 1000):
        key = f"frames/{video}/{t_start + 40}.jpg"
        library.put(key)
        library.rows("INSERT INTO kept_frames (video_id, t_ms, t_start, t_end, key) VALUES (%s, %s, %s, %s, %s)",
                     video, t_start + 40, t_start, t_start + 1000, key)
    library.put(f"frames/{video}/40.json")
    spans = [(0, 10000), (2000, 4000), (3500, 6000), (6010, 6030), (9500, 9600)]
    library.rows("SELECT replace_video_text(%s, %s)", video, json.dumps([line(*span) for span in spans]))
    library.rows("UPDATE frames_to_thin SET read_at = now() - interval '25 hours'")


def frames_of_lines(library, video):
    return {row["t_start"]: row["key"] for row in library.rows(
        "SELECT s.t_start, (api.segment_frame(jsonb_build_object('id', s.id))).body ->> 'object' AS key"
        " FROM segments s WHERE s.video_id = %s", video)}


def test_of_frames_those_stay_that_show_each_line(library):
    video, silent = library.add(), library.add()
    read(library, video)
    library.rows("SELECT replace_video_text(%s, '[]')", silent)
    library.run(CORTANA_FRAME_DAYS=2)
    library.run(CORTANA_FRAME_DAYS=0)
    assert len(library.keys(f"frames/{video}/")) == 13, "not yet"
    job = library.value("SELECT job_id FROM enqueue_job('clip_generate', %s, %s)", json.dumps(needed_by("clip_generate", True)), video)
    library.run()
    assert len(library.keys(f"frames/{video}/")) == 13, "something works on it"
    library.rows("SELECT cancel_job(%s)", job)
    library.run()
    kept = [f"frames/{video}/{t_ms}.jpg" for t_ms in (3040, 5040, 6040, 9040)]
    assert library.keys(f"frames/{video}/") == kept
    assert [row["key"] for row in library.rows("SELECT key FROM kept_frames ORDER BY t_ms")] == kept
    assert frames_of_lines(library, video) == dict(zip((0, 2000, 3500, 6010, 9500), (kept[0], *kept)))
    assert len(library.keys(f"frames/{silent}/")) == 2, "read just now"
    library.rows("UPDATE frames_to_thin SET read_at = now() - interval '25 hours'")
    library.run()
    assert library.keys(f"frames/{silent}/") == [] and library.keys(f"frames/{video}/") == kept
    assert library.rows("SELECT * FROM frames_to_thin") == []
