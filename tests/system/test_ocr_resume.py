"""What an attempt at reading a video has read is not read again by the one that goes on."""

import hashlib
import json
import os
import signal
import subprocess

import pytest
from test_ocr import Ocr
from workers import Jobs, Workers, wait_until

SENTENCES = ["the first train leaves at noon", "see @dev_marcus about #coffee", "tickets cost 19 or 24 each",
             "nobody reads the small print", "read example.org/menu for prices", "seven grey geese in a row",
             "a quiet street behind the mill", "the harbour was closed on Monday",
             "green paint on the wooden door", "he counted up to four hundred"]


@pytest.fixture
def ocr(program, store_dir):
    return Ocr(program("ocr-worker"), store_dir)


@pytest.fixture
def keys(ocr):
    """Frames with nothing in common, so that each has its lines to read."""
    return [ocr.draw(i * 1000, SENTENCES[i:] + SENTENCES[:i], size=30 + i,
                     paper=("white", "black")[i % 2], ink=("black", "white")[i % 2])
            for i in range(len(SENTENCES))]


def stop_in_the_middle(ocr, keys):
    """Its log, after SIGTERM to a stage that has read a frame."""
    reader, writer = os.pipe()
    process = subprocess.Popen([ocr.program, "--once", "--progress-fd", str(writer)], text=True,
                               stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                               env={**os.environ, "STORE_URL": f"dir:{ocr.store}"}, pass_fds=[writer])
    os.close(writer)
    process.stdin.write(json.dumps({"video_id": ocr.video_id, "frame_paths": keys}))
    process.stdin.close()
    process.stdin = None
    with os.fdopen(reader) as progress:
        assert progress.readline()
        process.send_signal(signal.SIGTERM)
        out, err = process.communicate(timeout=60)
    assert json.loads(out)["error"]["type"] == "Canceled", out + err
    return err


def left_behind(ocr):
    return list(ocr.store.rglob("*.readings"))


def test_a_stage_that_was_stopped_goes_on(ocr, keys):
    whole = ocr.read(keys)
    assert not left_behind(ocr)
    assert len(whole["detections"]) > 10
    stop_in_the_middle(ocr, keys)
    (path,) = left_behind(ocr)
    assert path.parent == ocr.store / "frames" / ocr.video_id
    known = len(json.loads(path.read_text())["readings"])
    assert known > 0
    # An entry of ours shows that what is known is not read: the text comes from there.
    kept = json.loads(path.read_text())
    for entry in kept["readings"]:
        entry[1] = entry[1].replace("train", "tram")
    path.write_text(json.dumps(kept))
    code, resumed = ocr.run(keys)
    assert code == 0 and not left_behind(ocr)
    texts = [row["text"] for row in resumed["detections"]]
    assert any("tram" in text for text in texts)
    assert resumed["readings"] == whole["readings"]
    resumed_rows = json.loads(json.dumps(resumed["detections"]).replace("tram", "train"))
    assert resumed_rows == whole["detections"]


def test_other_frames_or_languages_are_another_payload(ocr, keys):
    stop_in_the_middle(ocr, keys)
    assert len(left_behind(ocr)) == 1
    ocr.read(keys[:1])
    assert len(left_behind(ocr)) == 1


def name_of(ocr, keys):
    """The object's name: of a hash of the payload with its members in order."""
    payload = {"frame_paths": keys, "video_id": ocr.video_id}
    text = json.dumps(payload, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    return hashlib.sha256(text.encode()).hexdigest()[:16] + ".readings"


@pytest.mark.parametrize("content", [
    b"", b"\xff\x00 not json", b"[]", b'{"readings": 7}',
    b'{"readings": [["00", "x", 1, 1, "eng"], [], 7, null, ["' + b"zz" * 32 + b'", "x", 1, 1, "eng"]]}',
    json.dumps({"readings": [["ab" * 32, "x", confidence, 1, "eng"] for confidence in (-1, 2, "1")]
                + [["ab" * 32, "x" * 10000, 0.5, 0.5, "eng"], ["ab" * 32, "x", 0.5, 0.5, "e" * 100],
                   ["ab" * 32, "x", 0.5, 0.5, "eng", "more"]]}).encode(),
], ids=["empty", "garbage", "list", "number", "entries", "ranges"])
def test_what_lies_there_is_not_trusted(ocr, content):
    keys = [ocr.draw(0, SENTENCES[:2])]
    whole = ocr.read(keys)
    before = set(ocr.store.rglob("*"))
    (ocr.store / "frames" / ocr.video_id / name_of(ocr, keys)).write_bytes(content)
    again = ocr.read(keys)
    assert again == whole
    assert set(ocr.store.rglob("*")) == before


def test_a_job_given_back_is_resumed_by_another_worker(ocr, keys, program, database, sql, tmp_path):
    """Scaled in: the worker goes at once, the job loses no attempt, and little of its work."""
    jobs = Jobs(sql)
    workers = Workers(program, database, tmp_path)
    workers.store = ocr.store
    sql.cursor().execute("INSERT INTO videos (id) VALUES (%s)", (ocr.video_id,))
    payload = json.dumps({"video_id": ocr.video_id, "frame_paths": keys})
    job_id = jobs.row("SELECT job_id FROM enqueue_job('ocr', %s, %s)", payload, ocr.video_id)["job_id"]
    try:
        first = workers.start("ocr-worker", CORTANA_GRACE_MS=0)
        wait_until(lambda: jobs.get(job_id)["progress"] > 0, "a frame to be read")
        assert first.stop() == 0
        job = jobs.get(job_id)
        assert (job["status"], job["attempt"], job["retry_count"]) == ("queued", 1, 0)
        assert len(left_behind(ocr)) == 1
        second = workers.start("ocr-worker")
        jobs.wait_for(job_id, "done")
        assert second.says("of an earlier attempt")
        assert not left_behind(ocr)
        assert jobs.row("SELECT count(*) FROM segments WHERE video_id = %s", ocr.video_id)["count"] > 10
    finally:
        workers.end()
