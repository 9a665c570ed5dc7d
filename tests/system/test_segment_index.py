"""segment-index-worker: detections in the tables become segments, entities and search rows."""

import hashlib
import json
import os
import subprocess
import uuid

import psycopg2
import pytest


def add_detection(queue, video, text, start, end, y=100, confidence=0.9, x=50, end_box=None):
    box = {"x": x, "y": y, "width": 20 * len(text), "height": 40}
    normalized = " ".join(text.lower().split())
    text_hash = hashlib.sha256(normalized.encode()).hexdigest()
    queue.run("INSERT INTO segments (id, video_id, text, normalized_text, text_hash, language,"
              " confidence, t_start, t_end, bounding_box, end_box)"
              " VALUES (segment_id(%s, %s, %s, %s::jsonb), %s, %s, %s, %s, 'eng', %s, %s, %s, %s, %s)"
              " ON CONFLICT DO NOTHING",
              video, text_hash, start, json.dumps(box), video, text, normalized, text_hash,
              confidence, start, end, json.dumps(box), end_box and json.dumps(end_box))


def once(program, database, payload):
    done = subprocess.run([program("segment-index-worker"), "--once"], input=json.dumps(payload),
                          text=True, capture_output=True, check=False,
                          env={**os.environ, "DATABASE_URL": database})
    return done.returncode, json.loads(done.stdout), done.stderr


def commit(queue, video, result):
    return queue.run("SELECT * FROM replace_video_text(%s, %s)", video,
                     json.dumps(result["segments"]))[0]


def index(program, database, queue, video):
    code, result, log = once(program, database, {"video_id": str(video)})
    assert code == 0, log
    return commit(queue, video, result)


def rows(queue, video):
    return {
        "segments": queue.run("SELECT *, xmin::text FROM segments WHERE video_id = %s"
                              " ORDER BY t_start, id", video),
        "entities": queue.run("SELECT e.*, e.xmin::text FROM entities e JOIN segments s"
                              " ON s.id = segment_id WHERE video_id = %s ORDER BY e.id", video),
        "search": queue.run("SELECT *, xmin::text FROM search_materialized WHERE video_id = %s"
                            " ORDER BY segment_id", video),
    }


def test_a_message_that_wraps_is_found_by_words_of_all_its_lines(program, database, queue):
    """And a list beside it, whose entries would have fitted behind each other, is not."""
    video = queue.video()
    lines = ("the night train to the harbour leaves from", "platform nine at noon, and the next one an", "hour later")
    for n, text in enumerate(lines):
        add_detection(queue, video, text, 100 * n, 5000, y=100 + 60 * n, x=50 + n % 2)
    for n, text in enumerate(("green tea", "a pot of the best coffee in town", "old bridge")):
        add_detection(queue, video, text, 0, 5000, y=100 + 60 * n, x=2000)
    index(program, database, queue, video)

    def found(query):
        return [(row["text"], row["match_kind"]) for row in queue.run("SELECT * FROM search_segments(%s)", query)
                if row["match_kind"] != "fuzzy"]

    message = " ".join(lines)
    assert found("harbour noon") == found("later night") == found("platform leaves hour") == [(message, "text")]
    assert found("leaves from platform") == found('"an hour"') == [(message, "exact")]
    assert found("platform noon") == [(lines[1], "text")] and found('"from nine"') == found("green bridge") == []
    assert found("night noon -later") == [] and found("night -noon") == [(lines[0], "exact")]
    assert found("night noon OR tea") == [("green tea", "exact"), (message, "text")]
    (hit,) = queue.run("SELECT * FROM search_segments('harbour hour', NULL, 5, '[', ']')")
    assert (hit["t_start"], hit["t_end"], hit["bounding_box"]) == (0, 5000, {"x": 50, "y": 100, "width": 841, "height": 160})
    assert hit["snippet"] == message.replace("harbour", "[harbour]").replace("hour later", "[hour] later")
    assert [row["text"] for row in queue.run("SELECT text FROM segments WHERE id = ANY (%s) ORDER BY t_start",
                                             hit["continued_by"])] == list(lines[1:])
    before = rows(queue, video)
    index(program, database, queue, video)
    assert rows(queue, video) == before


@pytest.fixture
def video(queue):
    video = queue.video()
    for t in range(0, 500, 100):
        add_detection(queue, video, "Tickets from $24.50 @mara_lind", t, t + 100)
        add_detection(queue, video, f"{t} watching now", t, t + 100, y=300)
    add_detection(queue, video, "T1ckets from $24.50 @mara_lind", 500, 600, confidence=0.7)
    add_detection(queue, video, "see https://Example.org/Menu #Lisbon2024 😍", 600, 900, y=500)
    return video


def test_detections_become_segments(program, database, queue, video):
    counts = index(program, database, queue, video)
    assert counts["segment_count"] == 3 and counts["entity_count"] == 6
    segments = queue.run("SELECT text, t_start, t_end FROM segments WHERE video_id = %s"
                         " ORDER BY t_start, text DESC", video)
    assert [tuple(s.values()) for s in segments] == [
        ("Tickets from $24.50 @mara_lind", 0, 600), ("0 watching now", 0, 500),
        ("see https://Example.org/Menu #Lisbon2024 😍", 600, 900)]
    entities = queue.run("SELECT entity_type, value, normalized_value FROM entities e JOIN segments s"
                         " ON s.id = segment_id WHERE video_id = %s AND text !~ 'watching'"
                         " ORDER BY t_start, entity_type", video)
    assert [tuple(e.values()) for e in entities] == [
        ("mention", "@mara_lind", "@mara_lind"), ("number", "$24.50", "24.50 USD"),
        ("emoji", "😍", "😍"), ("hashtag", "#Lisbon2024", "#lisbon2024"),
        ("url", "https://Example.org/Menu", "https://example.org/Menu")]
    assert queue.value("SELECT count(*) FROM search_materialized WHERE video_id = %s", video) == 3
    assert queue.value("SELECT status::text FROM videos WHERE id = %s", video) == "ready"


def test_detections_of_a_repeated_ocr_lead_to_the_same_rows(program, database, queue, video):
    index(program, database, queue, video)
    first = rows(queue, video)
    for t in range(0, 500, 100):
        add_detection(queue, video, "Tickets from $24.50 @mara_lind", t, t + 100)
    index(program, database, queue, video)
    second = rows(queue, video)
    for table in first:
        assert [{k: v for k, v in row.items() if k not in ("xmin", "created_at", "confidence")}
                for row in first[table]] == \
            [{k: v for k, v in row.items() if k not in ("xmin", "created_at", "confidence")}
             for row in second[table]]


def test_the_ways_of_the_parts_become_one(program, database, queue):
    video = queue.video()
    for i in range(3):
        add_detection(queue, video, "Thursday evening train leaves", 100 * i, 100 * i + 100, y=900 - 100 * i,
                      end_box={"x": 50, "y": 800 - 100 * i, "width": 580, "height": 40})
    index(program, database, queue, video)
    track, = queue.run("SELECT track FROM segments WHERE video_id = %s", video)[0].values()
    assert track == [0, 50, 900, 300, 0, -300]
    before = rows(queue, video)
    index(program, database, queue, video)
    assert rows(queue, video) == before


def test_of_readings_with_one_id_the_longest_counts(program, database, queue):
    video = queue.video()
    lengths = (300, 900, 500, 100)
    detections = [{"text": "Expandable upto 256 GB", "confidence": 0.9, "language": "eng", "t_start": 100, "t_end": 100 + length,
                   "bounding_box": {"x": 28, "y": 365, "width": 335, "height": 13}} for length in lengths]
    queue.run("INSERT INTO pending_readings (video_id, detections) VALUES (%s, %s)", video, json.dumps(detections))
    code, result, log = once(program, database, {"video_id": str(video), "pending": True})
    assert code == 0, log
    assert [(segment["t_start"], segment["t_end"]) for segment in result["segments"]] == [(100, 1000)]


def test_lines_of_one_time_have_places_as_one_reads_them(program, database, queue):
    """Two columns whose rows are some pixels askew; what stands alone begins later."""
    video = queue.video()
    table = [("Name", 50, 100), ("Price", 600, 96), ("Bread", 50, 150), ("2.40", 600, 153), ("Milk", 50, 203), ("1.10", 600, 198)]
    for text, x, y in sorted(table):
        add_detection(queue, video, text, 1000, 3000, x=x, y=y)
    add_detection(queue, video, "Total 3.50", 2000, 3000, y=20)
    index(program, database, queue, video)
    wanted = [text for text, _, _ in table] + ["Total 3.50"]
    in_order = queue.run("SELECT text, place FROM segments WHERE video_id = %s ORDER BY t_start, place, id", video)
    assert [row["text"] for row in in_order] == wanted
    assert [row["place"] for row in in_order] == [1, 2, 3, 4, 5, 6, 1]
    pages, cursor = [], None
    while cursor or not pages:
        body = queue.run("SELECT body FROM api.segments(%s)", json.dumps({"id": str(video), "limit": 4, **({"cursor": cursor} if cursor else {})}))[0]["body"]
        pages.append([item["text"] for item in body["items"]])
        cursor = body["next"]
    assert pages == [wanted[:4], wanted[4:]]
    exported = queue.run("SELECT s ->> 'text' AS text FROM export_segments(%s) AS s", video)
    assert [row["text"] for row in exported] == wanted


def test_a_text_that_moved_keeps_where_it_ended(program, database, queue):
    video = queue.video()
    for i in range(4):
        add_detection(queue, video, "Thursday evening train leaves", 100 * i, 100 * i + 100,
                      y=900 - 200 * i)
    index(program, database, queue, video)
    boxes = queue.run("SELECT bounding_box ->> 'y' AS y, end_box ->> 'y' AS end_y, t_end"
                      " FROM segments WHERE video_id = %s", video)
    assert [tuple(b.values()) for b in boxes] == [("900", "300", 400)]


def test_rows_belong_to_the_video_s_owner(program, database, queue, video):
    owner = str(uuid.uuid4())
    queue.run("UPDATE videos SET owner_id = %s WHERE id = %s", owner, video)
    index(program, database, queue, video)
    for table in ("segments", "search_materialized"):
        owners = queue.run(f"SELECT DISTINCT owner_id::text AS owner FROM {table} WHERE video_id = %s",
                           video)
        assert [o["owner"] for o in owners] == [owner]


@pytest.mark.parametrize("payload", [{}, {"video_id": "x"}, {"video_id": 7},
                                     {"video_id": str(uuid.uuid4())}])
def test_a_wrong_payload_is_a_permanent_failure(program, database, payload):
    code, result, _ = once(program, database, payload)
    assert code == 65
    assert result["error"]["type"] == "InvalidPayload" and not result["error"]["retryable"]


def test_a_video_that_is_gone_is_refused(queue):
    with pytest.raises(psycopg2.errors.ForeignKeyViolation):
        queue.run("SELECT replace_video_text(%s, '[]')", uuid.uuid4())
