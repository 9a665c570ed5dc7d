"""search_segments: what is found, in which order, and by whom."""

import json
import random
import uuid

import psycopg2
import pytest
from conftest import run_sql
from jobs import Queue

LINES = [
    "Thursday evening train leaves platform nine at",
    "The evening before, a train left",
    "trains in the evening and other things",
    "harbour looks amazing. @dev_marcus",
    "Straße nach Köln über München",
    "L'hiver dernier à Genève",
    "Привет, Москва! Поезд в девять",
    "مرحبا بكم في برلين",
    "東京駅前の商店街は今日も元気",
    "京都の天気予報 ２０２４",
    "서울의 날씨는 맑음",
    "#BerlinNights 🥐 and #Lisbon2024",
    "Tickets from $24.50 at the door, €5,50 online",
    "see https://example.org/menu or www.harbour-tickets.com",
    "Call +49 30 901820 now",
    "1,470 watching now",
    "5G 87%",
    "AI on the rise",
    "100% sure_thing back\\slash",
    "c0rnfie1d 8arn modern wave",
]


class Search:
    def __init__(self, queue):
        self.queue = queue
        self.video = queue.video()
        self.add(self.video, LINES)

    def add(self, video, lines, normalize=True):
        segments = [{"text": text, "normalized_text": self.normalized(text), "language": "eng",
                     "confidence": 0.9, "t_start": 1000 * i, "t_end": 1000 * i + 900,
                     "bounding_box": {"x": 1, "y": i, "width": 3, "height": 4}, "end_box": None,
                     "entities": []} for i, text in enumerate(lines)]
        self.queue.run("SELECT replace_video_text(%s, %s)", video, json.dumps(segments))

    def normalized(self, text):
        return self.queue.value("SELECT replace(lower(normalize(%s, NFKC)), 'ß', 'ss')", text)

    def __call__(self, query, **named):
        arguments = "".join(f", {name} => %s" for name in named)
        return self.queue.run(f"SELECT * FROM search_segments(%s{arguments})", query, *named.values())

    def texts(self, query, **named):
        return [row["text"] for row in self(query, **named)]


@pytest.fixture
def search(queue):
    """A library of the test's own, to write to."""
    return Search(queue)


@pytest.fixture(scope="module")
def library(shared_cluster):
    """One library for all tests that only read it."""
    name = shared_cluster.create_database()
    connection = shared_cluster.connect(name)
    yield Search(Queue(connection))
    connection.close()
    run_sql(shared_cluster, f"DROP DATABASE {name} WITH (FORCE)")


@pytest.mark.parametrize("query, expected", [
    ("evening train", [LINES[0], LINES[1]]),
    ('"evening train"', [LINES[0]]),
    ("evening -platform", [LINES[2], LINES[1]]),
    ("evening -train -trains", []),
    ("harbour OR tickets", [LINES[3], LINES[12]]),
    ("train*", [LINES[0], LINES[1], LINES[2]]),
    ("plat* train", [LINES[0]]),
    ('"train leaves" -nine', []),
])
def test_words_and_operators(library, query, expected):
    found = [row["text"] for row in library(query) if row["match_kind"] != "fuzzy"]
    assert sorted(found) == sorted(expected)


@pytest.mark.parametrize("query, line", [
    ("@dev_marcus", 3), ("#BerlinNights", 11), ("#lisbon2024", 11), ("$24.50", 12), ("€5,50", 12),
    ("https://example.org/menu", 13), ("example.org/menu", 13), ("www.harbour-tickets.com", 13),
    ("+49 30 901820", 14), ("1,470", 15), ("87%", 16), ("5G", 16), ("AI", 17), ("100%", 18),
    ("sure_thing", 18), ("back\\slash", 18), ("🥐", 11),
    ("KÖLN", 4), ("straße", 4), ("strasse", 4), ("Genève", 5), ("МОСКВА", 6), ("برلين", 7),
    ("東京", 8), ("京", 8), ("商店街", 8), ("天気", 9), ("날씨", 10), ("2024", 9),
])
def test_found_as_written(library, query, line):
    rows = library(query)
    assert LINES[line] in [row["text"] for row in rows if row["match_kind"] == "exact"]


@pytest.mark.parametrize("query, line", [
    ("evning train", 0), ("Thrsday evening", 0), ("platfrom nine", 0), ("amazng", 3),
    ("harbour 1ooks arnazing", 3), ("Koln", 4), ("Geneve", 5), ("Thur5day", 0), ("cornfield", 19),
    ("barn", 19), ("rnodern vvave", 19), ("berlinnigths", 11), ("exmple.org", 13), ("p1atf0rm", 0),
    ("мосвка", 6),
])
def test_errors_of_ocr_and_of_fingers_are_forgiven(library, query, line):
    assert LINES[line] in library.texts(query)[:3]


def test_exact_hits_come_first(search):
    video = search.queue.video()
    search.add(video, ["Evening train", "the train of the evening", "even1ng train", "evening trains",
                       "evening in the train", "nothing of it"])
    rows = search("evening train", video=video)
    assert rows[0]["text"] == "Evening train" and rows[0]["match_kind"] == "exact"
    kinds = [row["match_kind"] for row in rows]
    assert kinds == sorted(kinds, key=("exact", "text", "fuzzy").index)
    assert [row["rank"] for row in rows] == sorted((row["rank"] for row in rows), reverse=True)
    assert "even1ng train" in [row["text"] for row in rows] and "nothing of it" not in kinds
    assert rows == search("evening train", video=video)


def test_one_video_alone(search):
    other = search.queue.video()
    search.add(other, ["evening train again"])
    assert search.texts("evening train", video=other) == ["evening train again"]
    assert {row["video_id"] for row in search("evening")} == {other, search.video}
    assert len(search("evening", max_results=1)) == 1
    assert search("evening", max_results=0) == []


@pytest.mark.parametrize("query, snippet", [
    ("evening train", "Thursday [evening train] leaves platform nine at"),
    ("nine leaves", "Thursday evening train [leaves] platform [nine] at"),
    ("@dev_marcus", "harbour looks amazing. [@dev_marcus]"),
    ("商店街", "東京駅前の[商店街]は今日も元気"),
    ("platfrom", "Thursday evening train leaves [platform] nine at"),
])
def test_snippets_mark_what_matched(library, query, snippet):
    assert library(query, start_mark="[", stop_mark="]")[0]["snippet"] == snippet


def test_marks_are_the_caller_s_own(library):
    for start, stop in (("<b class=\"x\">", "</b>"), ("", ""), ("'", "\\1")):
        row = library("amazing", start_mark=start, stop_mark=stop)[0]
        assert row["snippet"] == f"harbour looks {start}amazing{stop}. @dev_marcus"


@pytest.mark.parametrize("query", [
    "", " ", "-", "\"", "\"\"", "*", "-*", "OR", "or or or", "%", "_", "\\", "'", "';--", "a:* & b",
    "!", "& | ! ( ) <->", "-\"", "(((((", "\x01\x02", "🏴" * 300, "a " * 5000, "%" * 5000,
    "-a " * 300, "a* " * 300, "aaa" * 3000, "\"a b\" " * 100, "ا" * 4000, "東" * 4000,
    "{", "[a-z]+", "(a+)+$", "\u200b", "NULL",
])
def test_no_query_is_an_error(library, query):
    assert len(library(query)) <= len(LINES)
    library(query, video=library.video, max_results=10 ** 6)


def test_random_queries_are_no_errors(library):
    rng = random.Random(5)
    alphabet = list("ab 1\"'-*%_\\&|!():<>@#$€é東🥐\u0301") + [" OR ", " -", '" ']
    for _ in range(200):
        library("".join(rng.choices(alphabet, k=rng.randint(1, 30))))


@pytest.fixture
def two_users(search):
    alice, bob, team = uuid.uuid4(), uuid.uuid4(), uuid.uuid4()
    for owner, its_team, word in ((alice, None, "alpha"), (bob, None, "beta"), (bob, team, "gamma")):
        video = search.queue.video(str(owner), its_team and str(its_team))
        search.add(video, [f"secret {word}", "東京の秘密", f"secert {word}"])
    return alice, bob, team


def as_user(connection, claims, query):
    with connection.cursor() as cursor:
        cursor.execute("BEGIN; SET LOCAL ROLE authenticated")
        cursor.execute("SELECT set_config('request.jwt.claims', %s, true)", (json.dumps(claims),))
        cursor.execute("SELECT text FROM search_segments(%s)", (query,))
        found = sorted(row[0] for row in cursor.fetchall())
        cursor.execute("ROLLBACK")
    return found


def test_a_user_finds_only_what_they_may_see(search, two_users, sql):
    alice, bob, team = two_users
    assert as_user(sql, {"sub": str(alice)}, "secret") == ["secert alpha", "secret alpha"]
    assert as_user(sql, {"sub": str(alice)}, "東京") == ["東京の秘密"]
    assert not any("beta" in text for text in as_user(sql, {"sub": str(alice)}, "secret beta"))
    assert as_user(sql, {"sub": str(bob)}, "secret") == \
        ["secert beta", "secert gamma", "secret beta", "secret gamma"]
    assert as_user(sql, {"sub": str(uuid.uuid4()), "team_ids": [str(team)]}, "secret") == \
        ["secert gamma", "secret gamma"]
    assert as_user(sql, {}, "secret") == []


def test_candidates_keep_to_the_caller_s_rows(search, two_users, sql):
    """The function that reads past the policies applies their rule itself."""
    alice = two_users[0]
    with sql.cursor() as cursor:
        cursor.execute("BEGIN; SET LOCAL ROLE authenticated")
        cursor.execute("SELECT set_config('request.jwt.claims', %s, true)",
                       (json.dumps({"sub": str(alice)}),))
        for fuzzy in (False, True):
            cursor.execute("SELECT c FROM search_candidates(search_parse('secret'), NULL, 100, %s) c"
                           " EXCEPT SELECT segment_id FROM search_materialized", (fuzzy,))
            assert cursor.fetchall() == []
        cursor.execute("ROLLBACK")


def test_anonymous_callers_search_nothing(sql):
    with sql.cursor() as cursor, pytest.raises(psycopg2.errors.InsufficientPrivilege):
        cursor.execute("BEGIN; SET LOCAL ROLE anon; SELECT * FROM search_segments('x')")
    sql.rollback()


def test_every_index_is_used(search, sql):
    """Each kind of candidate comes from its index, also for a user bound by the policies."""
    conditions = {
        "document @@ 'evening'::tsquery": "search_materialized_document",
        "folded LIKE '%evenlng%'": "search_materialized_folded",
        "grams @> ARRAY['東京']": "search_materialized_grams",
    }
    with sql.cursor() as cursor:
        cursor.execute("SET enable_seqscan = off")
        for condition, index in conditions.items():
            cursor.execute(f"EXPLAIN SELECT segment_id FROM search_materialized WHERE {condition}")
            assert index in "\n".join(row[0] for row in cursor.fetchall())


def test_words_of_any_kind_are_remembered_and_forgotten(search):
    video = search.queue.video()
    search.add(video, ["http://example.org/back\\slash'quote", "it's o'clock", "zugzwang"])
    words = "SELECT count(*) FROM search_words WHERE word ~ 'quot' OR word = 'zugzwang'"
    before = search.queue.value(words)
    assert before >= 2
    assert search.texts("zugzwamg") == ["zugzwang"]
    assert "http://example.org/back\\slash'quote" in search.texts("qoute")
    assert search.queue.value("SELECT search_words_prune()") == 0
    search.add(video, ["another text"])
    assert search.queue.value("SELECT search_words_prune()") >= before
    assert search.queue.value(words) == 0
    assert LINES[0] in search.texts("evning")


@pytest.mark.parametrize("text, folded", [
    ("Hello W0rld".lower(), "hello world"), ("café naïve", "cafe nalve"), ("modern", "modem"),
    ("vvave 15 8arn", "wave ls bam"), ("がぎ 서울", "がぎ 서울"), ("москва й", "москва и"),
    ("a|b!c", "albl" + "c"), ("", ""),
])
def test_folding(library, text, folded):
    assert library.queue.value("SELECT search_fold(%s)", text) == folded
    assert library.queue.value("SELECT search_fold(search_fold(%s))", text) == folded


@pytest.fixture
def fields(search):
    """Two lines of a video in German, one of an older video in English, with their tags."""
    video, older = search.queue.video(), search.queue.video()
    search.add(video, ["abend am hafen #Berlin", "abend mit @anna"])
    search.add(older, ["abend song #berlin"])
    search.queue.run("UPDATE segments SET language = 'deu' WHERE video_id = %s", video)
    search.queue.run("UPDATE videos SET created_at = '2020-03-05' WHERE id = %s", older)
    search.queue.run(
        "INSERT INTO entities (segment_id, entity_type, value, normalized_value)"
        " SELECT id, CASE WHEN m[1] LIKE '@%%' THEN 'mention' ELSE 'hashtag' END, m[1], m[1]"
        " FROM segments, regexp_matches(normalized_text, '[#@][a-z]+') AS m"
        " WHERE video_id IN (%s, %s)", video, older)
    search.queue.run("SELECT refresh_search_materialized()")
    return search


HAFEN, ANNA, SONG = "abend am hafen #Berlin", "abend mit @anna", "abend song #berlin"


@pytest.mark.parametrize("query, expected", [
    ("abend lang:deu", {HAFEN, ANNA}), ("abend lang:eng", {SONG}),
    ("abend lang:eng lang:deu", {HAFEN, ANNA, SONG}), ("abend lang:fra", set()),
    ("tag:berlin", {HAFEN, SONG}), ("tag:#Berlin -song", {HAFEN}), ("tag:@anna", {ANNA}),
    ("tag:berlin hafen", {HAFEN}), ("tag:berlin lang:deu", {HAFEN}), ("tag:ber", set()),
    ("abend before:2021", {SONG}), ("abend after:2021-01-01", {HAFEN, ANNA}),
    ("abend after:2020-03 before:2020-04", {SONG}), ("abend after:1s", {ANNA}),
    ("abend before:0:01", {HAFEN, SONG}), ("abend after:1h", set()),
])
def test_fields(fields, query, expected):
    assert {row["text"] for row in fields(query) if row["match_kind"] != "fuzzy"} == expected


@pytest.mark.parametrize("query, advice", [
    ("abend lang:", "write lang:deu"), ("abend lang:german!", "write lang:deu"),
    ("abend tag:", "write tag:berlin"), ("abend after:", "write after:2024-05-17"),
    ("abend before:90", "before:90s"), ("abend after:2024-13", "after:1:30"),
    ("abend -lang:deu", "not left out"), ("lang:deu", "add a word"), ("after:1:30", "add a word"),
])
def test_a_bad_field_says_what_to_write(library, query, advice):
    with pytest.raises(psycopg2.errors.InvalidParameterValue, match=advice):
        library(query)


def test_fields_in_quotes_and_unknown_ones_are_text(search):
    video = search.queue.video()
    search.add(video, ["set lang:deu here", "note: buy milk"])
    assert search.texts('"lang:deu"', video=video)[:1] == ["set lang:deu here"]
    assert search.texts("note: milk", video=video) == ["note: buy milk"]
