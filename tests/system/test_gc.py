"""cortana gc, bucket init, delete and doctor: what does not belong together is found, and no more."""

import json
import os
import signal
import time
import uuid

import psycopg2
import pytest
import test_deletion
from pipeline import SMALL
from test_deletion import DAY, PLACES, clip
from workers import wait_until

library = test_deletion.library


def age(library, days=2, *keys):
    for key in keys or library.keys():
        os.utime(library.store / key, (time.time() - days * DAY,) * 2)
    library.rows("ALTER TABLE videos DISABLE TRIGGER USER")
    library.rows("UPDATE videos SET updated_at = now() - %s * interval '1 day'", days)
    library.rows("ALTER TABLE videos ENABLE TRIGGER USER")


def findings(output):
    """{key: kind} of gc's lines."""
    return {line[36:]: line[:21].strip() for line in output.splitlines()
            if line[:21].strip() and line[21:34].strip().isdigit()}


def orphan(library, places=PLACES):
    video = str(uuid.uuid4())
    for place in places:
        library.put(place.format(video))
    return video


def test_nothing_to_find(library):
    for _ in range(3):
        library.add()
    age(library)
    before = library.keys()
    assert findings(library.cortana("gc", "--remove", "--rows")) == {}
    assert library.keys() == before and len(library.videos()) == 3


def test_orphans_are_found_and_only_they_are_removed(library):
    kept = library.add()
    lost, fresh = orphan(library), orphan(library)
    deleted = library.add()
    library.rows("DELETE FROM videos WHERE id = %s", deleted)
    library.put("videos/proxy/readme.txt")
    library.put("elsewhere/x.mp4")
    library.put("inbox/x.mp4")
    age(library)
    age(library, 0.5, *library.of(fresh))
    before = library.keys()
    found = findings(library.cortana("gc"))
    assert library.keys() == before
    originals = {f"videos/original/{video}/master.mp4" for video in (lost, fresh)}
    assert found == {
        **{key: "orphan" for key in library.of(lost) + library.of(deleted) if key not in originals},
        **{key: "not imported yet" for key in originals},
        "videos/proxy/readme.txt": "stray"}
    library.cortana("gc", "--remove")
    assert set(before) - set(library.keys()) == {k for k, kind in found.items() if kind == "orphan"}
    library.cortana("gc", "--remove", "--min-age", "1")
    assert library.of(fresh) == [f"videos/original/{fresh}/master.mp4"]
    assert len(library.of(kept)) == len(PLACES)


def test_old_clips(library):
    video = library.add()
    old, result = clip(library, video, 40)
    unknown = library.put(f"videos/clips/{video}/unknown.gif")
    os.utime(unknown, (time.time() - 40 * DAY,) * 2)
    found = findings(library.cortana("gc", "--remove"))
    assert set(found.values()) == {"old clip"} and len(found) == 2
    assert old not in library.keys() and not unknown.exists() and result()["removed_at"]
    assert len(library.of(video)) == len(PLACES)


def transcode(library, video):
    return library.value("SELECT job_id FROM enqueue_job('transcode', %s, %s)", json.dumps({
        "video_id": video, "s3_original_path": f"videos/original/{video}/master.mp4"}), video)


def status_of(library, job):
    return library.value("SELECT status::text FROM jobs WHERE id = %s", job)


def new_video(library, path):
    video = str(uuid.uuid4())
    library.put(f"videos/original/{video}/master.mp4", path.read_bytes())
    library.rows("INSERT INTO videos (id, s3_original_path) VALUES (%s, %s)", video,
                 f"videos/original/{video}/master.mp4")
    return video


def produced(library, video):
    return {key for key in library.of(video) if "/original/" not in key}


def test_what_a_canceled_transcode_leaves(library, fixtures_dir):
    """Whatever had been stored goes, when nothing is under way any more and it is old enough."""
    kept = library.add()
    video = new_video(library, fixtures_dir / "feed.mp4")
    worker = library.workers.start("transcode-worker")
    job = transcode(library, video)
    wait_until(lambda: len(produced(library, video)) > 2, "some segments")
    for stage in worker.stages():  # it does not hear that it is to stop, and so does not clear up
        os.kill(stage, signal.SIGSTOP)
    library.rows("SELECT cancel_job(%s)", job)
    wait_until(lambda: status_of(library, job) == "canceled", "the end of the job")
    left = produced(library, video)
    assert len(left) > 2
    assert findings(library.cortana("gc", "--remove")) == {}, "it is not old enough"
    age(library)
    assert findings(library.cortana("gc")) == {key: "leftover" for key in left}
    other = library.value("SELECT job_id FROM enqueue_job('ocr', '{\"frame_paths\": []}', %s)", video)
    assert findings(library.cortana("gc")) == {}, "something is under way"
    library.rows("SELECT cancel_job(%s)", other)
    assert produced(library, video) == left
    assert findings(library.cortana("gc", "--remove")) == {key: "leftover" for key in left}
    assert library.of(video) == [f"videos/original/{video}/master.mp4"]
    assert len(library.of(kept)) == len(PLACES)
    worker.kill()
    worker = library.workers.start("transcode-worker", **SMALL)
    library.rows("SELECT retry_job(%s)", job)
    wait_until(lambda: status_of(library, job) == "done", "the second attempt")
    library.rows("SELECT cancel_job(id) FROM jobs WHERE status = 'queued'")  # the stages behind it
    whole = produced(library, video)
    library.put(f"videos/proxy/{video}/720p/segment_99999.ts")
    age(library)
    stray = f"videos/proxy/{video}/720p/segment_99999.ts"
    assert findings(library.cortana("gc", "--remove")) == {stray: "leftover"}
    assert produced(library, video) == whole and worker.stop() == 0
    # Without the list of what it put there, nothing can be said of what a done job has left.
    library.put(stray)
    age(library)
    library.rows("DELETE FROM task_artifacts")
    assert findings(library.cortana("gc")) == {}


def attempt(library, job, job_type="transcode"):
    """Begins an attempt of the job, as a worker does; its token."""
    library.rows("UPDATE jobs SET scheduled_for = now() WHERE id = %s AND status = 'failed'", job)
    rows = library.rows("SELECT id, lease_token FROM claim_jobs('w', %s)", job_type)
    assert [row["id"] for row in rows] == [job]
    return rows[0]["lease_token"]


def fail(library, job, token, retryable):
    return library.value("SELECT fail_job(%s, %s, %s, 'the job stores more than it may', %s)", job, token,
                         "Internal" if retryable else "LimitExceeded", retryable)


def taken_in(library):
    """A video that the scanner knows already, and that no job has processed."""
    video = library.original()
    library.rows("INSERT INTO videos (id, s3_original_path, registered_at, original_state) VALUES (%s, %s, now(), 'present')",
                 video, f"videos/original/{video}/master.mp4")
    return video


def test_what_a_hostile_stage_stored_goes_when_its_job_has_failed(library):
    """No matter under which keys: by the next look of the scanner, not a day later."""
    kept = library.add()
    videos = [taken_in(library) for _ in range(3)]
    for video in videos:
        job = transcode(library, video)
        for number, retryable in enumerate((True, False)):
            token = attempt(library, job)
            for part in range(5):
                library.put(f"videos/proxy/{video}/{number}/{part}.ts")
            library.put(f"thumbs/{video}/{number}.jpg")
            assert fail(library, job, token, retryable) == ("retry" if retryable else "failed")
            library.run()
            assert len(produced(library, video)) == (6 if retryable else 0), "a retry may go on with what is there"
    assert [library.of(video) for video in videos] == [[f"videos/original/{video}/master.mp4"] for video in videos]
    assert len(library.of(kept)) == len(PLACES)
    assert library.rows("SELECT FROM attempts_to_clear") == []


def test_what_another_attempt_recorded_stays(library):
    video = taken_in(library)
    own, left = f"videos/proxy/{video}/index.m3u8", f"videos/proxy/{video}/evil.ts"
    job = transcode(library, video)
    library.put(left)
    assert fail(library, job, attempt(library, job), True) == "retry"
    token = attempt(library, job)
    library.put(own)
    bucket = f"dir:{library.store}"
    assert library.value("SELECT record_artifacts(%s, %s, %s, %s)", job, token, bucket,
                         json.dumps([{"kind": "output", "key": own, "size": 1}]))
    library.rows("UPDATE videos SET s3_proxy_path = %s WHERE id = %s", own, video)
    library.run()
    assert produced(library, video) == {own, left}, "the job is under way"
    library.rows("SELECT complete_job(%s, %s, '{}')", job, token)
    library.rows("SELECT cancel_job(id) FROM jobs WHERE status = 'queued'")
    library.run()
    assert produced(library, video) == {own}


def test_playback_stays_whose_list_of_outputs_was_archived(library):
    """Also when one chunk of a later run has succeeded, and another has failed."""
    video = taken_in(library)
    playlist, segment, chunk = (f"videos/proxy/{video}/{name}" for name in ("index.m3u8", "a/segment_0.m4s", "chunk_0.json"))
    for key in (playlist, segment, chunk):
        library.put(key)
    library.rows("UPDATE videos SET s3_proxy_path = %s WHERE id = %s", playlist, video)
    done = transcode(library, video)
    token = attempt(library, done)
    library.rows("SELECT record_artifacts(%s, %s, %s, %s)", done, token, f"dir:{library.store}",
                 json.dumps([{"kind": "output", "key": chunk, "size": 1}]))
    library.rows("SELECT complete_job(%s, %s, '{}')", done, token)
    library.rows("SELECT cancel_job(id) FROM jobs WHERE status = 'queued'")
    failed = transcode(library, video)
    assert fail(library, failed, attempt(library, failed), False) == "failed"
    library.run()
    assert produced(library, video) == {playlist, segment, chunk}


def test_no_attempt_begins_while_leftovers_are_removed(library, database):
    video = taken_in(library)
    job = transcode(library, video)
    fail(library, job, attempt(library, job), False)
    scanner = psycopg2.connect(database)
    with scanner, scanner.cursor() as cursor:
        cursor.execute("SELECT lock_video_to_clear()")
        assert str(cursor.fetchone()[0]) == video
        for statement, subject in (("SELECT retry_job(%s)", job), ("SELECT reprocess_video(%s)", video)):
            with pytest.raises(psycopg2.errors.LockNotAvailable):
                library.rows(f"SET lock_timeout = '100 ms'; {statement}", subject)
        library.rows("RESET lock_timeout")
        scanner.rollback()
    scanner.close()
    library.rows("SELECT retry_job(%s)", job)
    library.put(f"videos/proxy/{video}/0.ts")
    library.run()
    assert len(produced(library, video)) == 1, "something is under way"


def test_leftovers_behind_the_first_page(library):
    video = str(uuid.uuid4())
    library.put(f"videos/original/{video}/master.mp4")
    library.rows("INSERT INTO videos (id, s3_original_path) VALUES (%s, %s)", video,
                 f"videos/original/{video}/master.mp4")
    for number in range(2300):
        library.put(f"videos/proxy/{video}/240p/segment_{number:05}.ts", b"")
    job = transcode(library, video)
    library.rows("SELECT cancel_job(%s)", job)
    age(library)
    assert len(findings(library.cortana("gc", "--remove"))) == 2300
    assert library.of(video) == [f"videos/original/{video}/master.mp4"]


def test_more_objects_than_a_page(library):
    videos = [library.add() for _ in range(3)]
    lost = [orphan(library, ()) for _ in range(3)]
    for video in videos + lost:
        for number in range(1500):
            library.put(f"frames/{video}/{number}.jpg", b"")
    for number in range(1100):
        orphan(library, ["thumbs/{}/poster.jpg"])
    age(library)
    output = library.cortana("gc", "--remove")
    assert len(findings(output)) == 3 * 1500 + 1100
    assert len(library.keys()) == sum(len(library.of(video)) for video in videos) \
        == 3 * (1500 + len(PLACES) - 2)


def test_rows_whose_objects_are_gone(library):
    whole, no_thumb, no_original, dead, young, busy = (library.add() for _ in range(6))
    for video, places in ((no_thumb, [6]), (no_original, [0]), (dead, range(7)), (young, range(7)),
                          (busy, range(7))):
        for place in places:
            (library.store / PLACES[place].format(video)).unlink()
    age(library)
    library.rows("UPDATE videos SET title = 'touched' WHERE id = %s", young)
    library.rows("SELECT enqueue_job('ocr', '{\"frame_paths\": []}', %s)", busy)
    found = findings(library.cortana("gc"))
    original = "videos/original/{}/master.mp4"
    assert found == {
        f"thumbs/{no_thumb}/poster.jpg": "poster gone", original.format(no_original): "original gone",
        original.format(dead): "row without objects",
        f"videos/proxy/{dead}/index.m3u8": "playlist gone", f"thumbs/{dead}/poster.jpg": "poster gone"}
    assert library.video(no_original)["original_state"] == "present"
    library.cortana("gc", "--remove")
    assert library.video(no_original)["original_state"] == "missing"
    assert set(library.videos()) == {whole, no_thumb, no_original, dead, young, busy}
    library.cortana("gc", "--remove", "--rows")
    assert set(library.videos()) == {whole, no_thumb, no_original, young, busy}


def test_the_wrong_database_and_the_wrong_store_remove_nothing(library):
    orphan(library)
    age(library)
    before = library.keys()
    assert "knows no video" in library.cortana("gc", "--remove", expect=1)
    assert library.keys() == before
    video = library.add()
    empty = library.store.parent / "empty"
    age(library)
    log = library.run("gc", "--remove", "--rows", name="cortana", expect=1, STORE_URL=f"dir:{empty}")
    assert "holds no original" in log and list(library.videos()) == [video]


def test_wrong_usage(library):
    for arguments in (["gc", "--remove", "--dry-run"], ["gc", "--rows"], ["gc", "--min-age", "x"],
                      ["gc", "x"], ["bucket"], ["bucket", "drop"], ["bucket", "init", "x"], ["delete"]):
        assert "usage:" in library.cortana(*arguments, expect=64)


def test_bucket_init_on_a_directory(library):
    assert "gc keep the rules" in library.cortana("bucket", "init")
    assert library.keys() == ["inbox/put videos here.txt"]
    library.cortana("bucket", "init")
    library.run()
    assert library.keys() == ["inbox/put videos here.txt"]


def test_delete_and_doctor(library):
    video, other = library.add(), library.add()
    library.rows("UPDATE videos SET original_name = 'a.mp4' WHERE id = %s", video)
    library.cortana("delete", "a.mp4")
    assert set(library.videos()) == {other}
    assert "1 video" not in library.cortana("delete", "a.mp4", expect=1)
    age(library)
    assert f"{len(PLACES)} to be removed" in library.cortana("doctor")
    library.remover()
    library.wait_until_removed(video)
    assert "ok    objects" in library.cortana("doctor")
    assert "ok    scratch" in library.cortana("doctor")
    log = library.run("doctor", name="cortana", expect=1, CORTANA_SCRATCH="/nowhere")
    assert "fail  scratch" in log


def test_a_duplicate_is_named_last(library):
    first = library.original(data=b"same", name="a.mp4")
    library.run()
    library.original(data=b"same", name="a.mp4")
    library.run()
    assert f'"id": "{first}"' in library.cortana("export", "a.mp4").replace('":"', '": "')
