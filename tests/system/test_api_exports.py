"""Exports over HTTP: of a search's hits, of many lines in bounded memory, to slow readers, without room."""

import csv
import io
import json
import re
import socket
import urllib.parse

import pytest
from api import ALICE
from api_matrix import CALLERS
from test_api import check

OWNER = CALLERS["owner"]
LINES = 60_000
MEMORY_KIB = 12 * 1024  # more than before; that of JSON below has 15 MB


@pytest.fixture(scope="module")
def long_video(place):
    video = str(place[1].video(ALICE))
    place[1].run("""
        INSERT INTO segments (video_id, owner_id, text, normalized_text, text_hash, confidence, t_start, t_end, bounding_box)
        SELECT %s, %s, 'line ' || n || ' of a long recording', 'line', md5(n::text), 0.9, n * 100, n * 100 + 350,
               '{"x": 10, "y": 20, "width": 300, "height": 40}' FROM generate_series(0, %s - 1) AS n""", video, ALICE, LINES)
    place[1].run("ANALYZE segments")
    return video


@pytest.mark.sanitized(0)
def test_many_lines_take_little_memory(gateway, library, long_video):
    gateway.ask(f"/videos/{library.videos['own']}/export?format=csv", OWNER)
    before = gateway.memory_peak_kib()
    got = {kind: gateway.ask(f"/videos/{long_video}/export?format={kind}", OWNER) for kind in ("csv", "jsonl", "json", "srt", "txt")}
    assert all(answer.status == 200 and int(answer.headers["Content-Length"]) == len(answer.data) > 1.5e6 for answer in got.values())
    assert gateway.memory_peak_kib() - before < MEMORY_KIB
    rows = list(csv.reader(io.StringIO(got["csv"].data.decode(), newline=""), strict=True))
    assert [row[5] for row in rows[1:]] == [f"line {n} of a long recording" for n in range(LINES)]
    lines = [json.loads(line) for line in got["jsonl"].data.splitlines()]
    assert [line["t_start"] for line in lines] == list(range(0, LINES * 100, 100))
    assert json.loads(got["json"].data)["segments"] == lines and json.loads(got["json"].data)["video"]["id"] == long_video
    assert [line.decode() for line in got["txt"].data.splitlines()] == [row[5] for row in rows[1:]]
    cues = re.findall(rb"^(\d+)\n.* --> .*\nline (\d+) ", got["srt"].data, re.MULTILINE)
    assert [(int(n) - 1, int(line)) for n, line in cues] == [(n, n) for n in range(LINES)]  # four at once have room


def test_an_export_may_have_what_was_said_alone(gateway, place):
    """It has no place on screen; of words that are shown, too, both rows are there."""
    video = str(place[1].video(ALICE))
    place[1].run("""INSERT INTO segments (video_id, owner_id, text, normalized_text, text_hash, confidence, t_start, t_end,
                                          bounding_box, source)
                    VALUES (%(v)s, %(o)s, 'lantern', 'lantern', 'a', 1, 0, 900, '{"x": 1, "y": 2, "width": 3, "height": 4}', 'screen'),
                           (%(v)s, %(o)s, 'said', 'said', 'b', 1, 0, 900, NULL, 'subtitle')""".replace("%(v)s", f"'{video}'")
                 .replace("%(o)s", f"'{ALICE}'"))
    said = {kind: gateway.ask(f"/videos/{video}/export?source=subtitle&format={kind}", OWNER).data.decode()
            for kind in ("csv", "jsonl", "json", "vtt", "ass", "txt")}
    assert all("said" in text and "lantern" not in text for text in said.values())
    assert json.loads(said["jsonl"])["source"] == "subtitle" and "line:" not in said["vtt"] and "\\pos" not in said["ass"]
    rows = list(csv.DictReader(io.StringIO(gateway.ask(f"/videos/{video}/export?format=csv", OWNER).data.decode(), newline="")))
    assert sorted(row["source"] for row in rows) == ["screen", "subtitle"]
    (line,) = gateway.ask(f"/videos/{video}/segments?source=subtitle", OWNER).json["items"]
    assert (line["text"], line["source"], line["box"]) == ("said", "subtitle", None)
    assert gateway.ask(f"/videos/{video}/export?format=csv&source=song", OWNER).status == 400


def test_a_slow_reader_holds_no_connection_of_the_database(gateway, long_video):
    """The gateway has one; its reader takes nothing of megabytes."""
    with socket.socket() as slow:
        slow.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        slow.connect(("127.0.0.1", gateway.port))
        slow.sendall(f"GET /api/v1/videos/{long_video}/export?format=csv HTTP/1.1\r\nHost: a\r\n"
                     f"Authorization: Bearer {OWNER}\r\n\r\n".encode())
        assert slow.recv(12) == b"HTTP/1.1 200"
        assert gateway.ask("/me", OWNER).status == 200


def hits(gateway, kind, bearer=OWNER, **query):
    answer = gateway.ask(f"/search/export?{urllib.parse.urlencode({'format': kind, **query})}", bearer)
    assert answer.status == 200 and answer.headers["Content-Disposition"] == f'attachment; filename="hits.{kind}"', answer.data
    return answer.data.decode()


@pytest.mark.parametrize("query", [{"q": "bridge"}, {"q": "bridge", "sort": "newest"}, {"q": "bridge kind:mention", "sort": "time"},
                                   {"q": "nothing"}])
def test_hits_are_those_of_the_search(gateway, query):
    items = gateway.ask(f"/search?{urllib.parse.urlencode({**query, 'limit': 100})}", OWNER).json["items"]
    assert [json.loads(line) for line in hits(gateway, "jsonl", **query).splitlines()] == items
    rows = list(csv.DictReader(io.StringIO(hits(gateway, "csv", **query), newline=""), strict=True))
    assert [(row["id"], row["text"], int(row["t_start_ms"]), row["video_id"]) for row in rows] == \
        [(item["segment_id"], item["text"], item["t_start"], item["video_id"]) for item in items]
    links = [row["link"] for row in csv.DictReader(io.StringIO(hits(gateway, "csv", site="https://text.example/", **query), newline=""))]
    assert links == [f"https://text.example/videos/{item['video_id']}?t={item['t_start'] / 1000:.3f}" for item in items]
    assert bool(items) == (query["q"] != "nothing")


def test_hits_of_others_are_in_no_export(gateway, library):
    mine = hits(gateway, "csv", q="bridge")
    assert library.videos["foreign"] not in mine and mine.count("\n") == 1 + 14
    assert hits(gateway, "csv", CALLERS["stranger"], q="bridge").count("\n") == 1
    assert hits(gateway, "csv", q="bridge", video=library.videos["foreign"]).count("\n") == 1


def test_subtitles_are_of_one_video(gateway, library):
    refused = check(gateway.ask("/search/export?format=srt&q=bridge", OWNER), "GET", "/search/export")
    assert refused.status == 400 and "add video=" in refused.json["detail"]
    starts = re.findall(r"^(\S+) --> ", hits(gateway, "srt", q="bridge", video=library.videos["own"]), re.MULTILINE)
    assert starts == [f"00:00:0{n},000" for n in range(7)]
    assert check(gateway.ask("/search/export?format=csv&q=lang:eng", OWNER), "GET", "/search/export").status == 400


def test_without_room_an_export_is_refused(own_gateway, library, tmp_path):
    gateway = own_gateway("--connections", "1", TMPDIR=str(tmp_path / "missing"))
    path = f"/videos/{library.videos['own']}/export"
    answer = check(gateway.ask(f"{path}?format=csv", OWNER), "GET", "/videos/{id}/export")
    assert (answer.status, answer.json["type"]) == (507, "/problems/no-room") and "room" in answer.json["title"]
    (tmp_path / "missing").mkdir()
    assert gateway.ask(f"{path}?format=csv", OWNER).status == 200
    assert list((tmp_path / "missing").iterdir()) == []
