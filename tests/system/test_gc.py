"""cortana gc, bucket init, delete and doctor: what does not belong together is found, and no more."""

import os
import time
import uuid

import pytest
from test_deletion import DAY, PLACES, Library, clip
from workers import Workers


@pytest.fixture
def library(program, database, sql, tmp_path):
    workers = Workers(program, database, tmp_path)
    workers.store.mkdir()
    made = Library(program, database, sql, workers.store, workers)
    yield made
    made.end()
    workers.end()


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
        **{key: "not taken in yet" for key in originals},
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
    library.rows("SELECT enqueue_job('ocr', '{}', %s)", busy)
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
    assert f"ok    scratch" in library.cortana("doctor")
    log = library.run("doctor", name="cortana", expect=1, CORTANA_SCRATCH="/nowhere")
    assert "fail  scratch" in log


def test_a_duplicate_is_named_last(library):
    first = library.original(data=b"same", name="a.mp4")
    library.run()
    library.original(data=b"same", name="a.mp4")
    library.run()
    assert f'"id": "{first}"' in library.cortana("export", "a.mp4").replace('":"', '": "')
