"""refresh_search_materialized: what changed becomes searchable, at the cost of what changed."""

import psycopg2
import pytest


def add_segment(queue, video, text, start=0):
    return queue.value(
        "INSERT INTO segments (video_id, text, normalized_text, text_hash, confidence, t_start, t_end)"
        " VALUES (%s, %s, lower(%s), md5(%s), 0.9, %s, %s) RETURNING id",
        video, text, text, text, start, start + 10)


def found(queue, word):
    return sorted(row["text"] for row in queue.run(
        "SELECT text FROM search_materialized WHERE document @@ plainto_tsquery('simple', %s)", word))


def test_only_changed_videos_are_written(queue):
    first, second = queue.video(), queue.video()
    for video in (first, second):
        for n in range(3):
            add_segment(queue, video, f"Hello {n}", n)
    assert found(queue, "hello") == []
    assert queue.value("SELECT refresh_search_materialized()") == 6
    assert len(found(queue, "hello")) == 6
    assert queue.value("SELECT refresh_search_materialized()") == 0
    add_segment(queue, first, "Goodbye")
    assert queue.value("SELECT refresh_search_materialized()") == 1
    assert found(queue, "goodbye") == ["Goodbye"]


def test_one_video_by_name(queue):
    first, second = queue.video(), queue.video()
    add_segment(queue, first, "one")
    add_segment(queue, second, "two")
    assert queue.value("SELECT refresh_search_materialized(%s)", first) == 1
    assert found(queue, "one") == ["one"] and found(queue, "two") == []
    assert queue.value("SELECT refresh_search_materialized()") == 1
    assert found(queue, "two") == ["two"]


def test_changes_and_deletions_follow(queue):
    video = queue.video()
    kept, gone = add_segment(queue, video, "kept"), add_segment(queue, video, "gone")
    queue.run("SELECT refresh_search_materialized()")
    queue.run("DELETE FROM segments WHERE id = %s", gone)
    assert found(queue, "gone") == []
    queue.run("UPDATE segments SET normalized_text = 'changed' WHERE id = %s", kept)
    assert queue.value("SELECT refresh_search_materialized()") == 1
    assert found(queue, "changed") == ["kept"] and found(queue, "kept") == []
    queue.run("DELETE FROM videos WHERE id = %s", video)
    assert queue.value("SELECT count(*) FROM search_materialized") == 0
    assert queue.value("SELECT count(*) FROM search_pending") == 0


def test_the_same_detection_has_the_same_id(queue):
    call = "SELECT segment_id(%s, 'h', 10, %s::jsonb)"
    video, other = queue.video(), queue.video()
    box = '{"x": 1, "y": 2, "width": 3, "height": 4}'
    same = queue.value(call, video, box)
    assert queue.value(call, video, '{"height": 4, "width": 3, "y": 2, "x": 1}') == same
    assert queue.value(call, other, box) != same
    assert queue.value(call, video, box.replace("4", "5")) != same


@pytest.mark.parametrize("column, value", [("confidence", 1.5), ("t_start", -1), ("t_end", -1)])
def test_impossible_detections_are_refused(queue, column, value):
    segment = add_segment(queue, queue.video(), "x", 5)
    with pytest.raises(psycopg2.errors.CheckViolation):
        queue.run(f"UPDATE segments SET {column} = %s WHERE id = %s", value, segment)
