"""search_segments: what is found, in which order, and by whom."""

import json
import uuid

import psycopg2
import pytest

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

    def add(self, video, lines):
        self.queue.write_text(video, lines)

    def find_names(self, *videos):
        """Of people and tags in their lines."""
        self.queue.run("INSERT INTO entities (segment_id, entity_type, value, normalized_value)"
                       " SELECT id, CASE WHEN m[1] LIKE '@%%' THEN 'mention' ELSE 'hashtag' END, m[1], m[1]"
                       " FROM segments, regexp_matches(normalized_text, '(?:^| )([#@][a-z]\\w+)', 'g') AS m"
                       " WHERE video_id = ANY (%s::uuid[])", list(videos))
        self.queue.run("SELECT refresh_search_materialized()")

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
def library(lasting):
    """One library for all tests that only read it."""
    return Search(lasting())


@pytest.mark.parametrize("query, expected", [
    ("evening train", [LINES[0], LINES[1], LINES[2]]),
    ('"evening train"', [LINES[0]]),
    ("evening -platform", [LINES[2], LINES[1]]),
    ("evening -train -trains", []),
    ("harbour OR tickets", [LINES[3], LINES[12], LINES[13]]),
    ("train*", [LINES[0], LINES[1], LINES[2]]),
    ("harbour OR ticket*", [LINES[3], LINES[12], LINES[13]]),
    ("ticket* OR harbour", [LINES[3], LINES[12], LINES[13]]),
    ("evening plat* OR amaz* harbour", [LINES[0], LINES[3]]),
    ("train* OR harbour -evening", [LINES[3], LINES[13]]),
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
    "!", "& | ! <->", "-\"", "a)", "\x01\x02", "🏴" * 300, "a " * 5000, "%" * 5000,
    "-a " * 300, "a* " * 300, "aaa" * 3000, "\"a b\" " * 100, "ا" * 4000, "東" * 4000,
    "{", "[a-z]+", "a(+)+$", "\u200b", "NULL",
])
def test_no_query_is_an_error(library, query):
    assert len(library(query)) <= len(LINES)
    library(query, video=library.video, max_results=10 ** 6)


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
        for query in ("secret", "secrte"):     # as it stands there, and as it is guessed
            cursor.execute("SELECT c FROM search_candidates(%s, NULL, 100) c"
                           " EXCEPT SELECT ctid FROM search_materialized", (query,))
            assert cursor.fetchall() == []
        cursor.execute("ROLLBACK")


LOOKUPS = ["keys @> '{1,2}'", "keys && '{-1,-2}'", "document @@ 'evening & train'::tsquery",
           "folded LIKE '%even%' AND folded LIKE '%enln%' AND keys @> '{1}' AND keys @> '{2}'",
           "keys @> '{5}' AND keys && '{7,8}' AND keys && '{-1,-2}'",
           "document @@ 'evening'::tsquery AND keys @> '{5}' AND folded LIKE '%even%' AND keys && '{-1}'"]


@pytest.mark.parametrize("lookup", LOOKUPS)
def test_a_lookup_is_one_scan_of_the_index(library, lookup):
    """Whatever is asked for comes from one walk, where tables are not read from end to end."""
    run = library.queue.run
    run("SET enable_seqscan = off")
    plan = [row["QUERY PLAN"] for row in run(
        "EXPLAIN SELECT segment_id FROM (SELECT * FROM search_materialized"
        f" WHERE {lookup.replace('%', '%%')} LIMIT 4000) AS m WHERE t_end > 5 AND video_id = gen_random_uuid() ORDER BY number DESC LIMIT 200")]
    run("RESET enable_seqscan")
    scans = [line for line in plan if " Scan " in line and "Subquery" not in line]
    assert len(scans) == 2 and "Bitmap Heap Scan on search_materialized" in scans[0], plan
    assert "Bitmap Index Scan on search_materialized_lookup" in scans[1], plan


def test_video_names_are_looked_up(library):
    run = library.queue.run
    run("SET enable_seqscan = off")
    plan = "\n".join(row["QUERY PLAN"] for row in run(
        "EXPLAIN SELECT id FROM videos WHERE (id BETWEEN '12340000000000000000000000000000' AND"
        " '1234ffffffffffffffffffffffffffff'"
        " OR search_source(original_name, title, platform) LIKE '%%holiday%%') LIMIT 65"))
    run("RESET enable_seqscan")
    assert "videos_source" in plan and "videos_pkey" in plan and "Seq Scan" not in plan


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
    assert search.queue.value(words) == 0
    assert search.queue.value("SELECT count(*) FROM search_words_doubtful") == 0
    assert LINES[0] in search.texts("evning")


def test_only_words_that_the_library_does_not_hold_are_guessed(search):
    video = search.queue.video()
    search.add(video, ["salmon bridge", "salmond bridges", "bright salon"])
    expand = "SELECT search_expand(search_fold(%s))::text"
    assert search.queue.value(expand, "salmom bridge").replace("'", "").split(" & ") == \
        ["bridge", "( salmon | salmond | salon )"]
    both = search.queue.value(expand, "salmon bridge")
    assert "'salmond'" in both and "'bridges'" in both
    assert search.queue.value(expand, "qqqqq bridge") == "'bridge'"
    assert search.queue.value(expand, "qqqqq") is None
    assert search.queue.value(expand, "internationalisatlon") is None
    search.add(video, ["internationalization"])
    assert search.texts("internatlonalisation") == ["internationalization"]


def test_words_are_not_forgotten_while_a_refresh_adds_lines(search, database):
    """A word whose only committed line has gone may be in a line that is just being added."""
    first, second = search.queue.video(), search.queue.video()
    search.add(first, ["zugzwang"])
    search.queue.run("INSERT INTO segments (video_id, text, normalized_text, text_hash, confidence, t_start,"
                     " t_end) VALUES (%s, 'zugzwang', 'zugzwang', 'h', 1, 0, 1)", second)
    other = psycopg2.connect(database)
    with other.cursor() as cursor:
        cursor.execute("SELECT refresh_search_materialized(%s)", (second,))
        search.queue.run("DELETE FROM videos WHERE id = %s", first)
        assert search.queue.value("SELECT search_words_prune()") == 0
        other.commit()
    other.close()
    assert search.queue.value("SELECT search_words_prune()") == 0
    assert search.texts("zugzwamg") == ["zugzwang"]
    search.queue.run("DELETE FROM videos WHERE id = %s", second)
    assert search.queue.value("SELECT search_words_prune()") == 1


def test_no_entry_waits_after_a_refresh(search):
    """A search would read the waiting ones from end to end."""
    search.queue.run("CREATE EXTENSION pgstattuple")
    for index in ("search_materialized_lookup", "search_words_near"):
        assert search.queue.value("SELECT pending_pages FROM pgstatginindex(%s)", index) == 0


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
    search.find_names(video, older)
    return search


HAFEN, ANNA, SONG = "abend am hafen #Berlin", "abend mit @anna", "abend song #berlin"


@pytest.mark.parametrize("query, expected", [
    ("abend lang:deu", {HAFEN, ANNA}), ("abend lang:eng", {SONG}),
    ("abend lang:eng lang:deu", {HAFEN, ANNA, SONG}), ("abend lang:fra", set()),
    ("tag:berlin", {HAFEN, SONG}), ("tag:#Berlin -song", {HAFEN}), ("tag:@anna", {ANNA}),
    ("tag:berlin hafen", {HAFEN}), ("tag:berlin lang:deu", {HAFEN}), ("tag:ber", set()),
    ("abend before:2021", {SONG}), ("abend after:2021-01-01", {HAFEN, ANNA}),
    ("abend after:2020-03 before:2020-04", {SONG}), ("abend after:1s", {ANNA}),
    ("tag:berlin after:2020 before:2020-03-06", {SONG}), ("abend after:2020-03-06 before:2020-05", set()),
    ("abend before:0:01", {HAFEN, SONG}), ("abend after:1h", set()),
])
def test_fields(fields, query, expected):
    assert {row["text"] for row in fields(query) if row["match_kind"] != "fuzzy"} == expected


@pytest.mark.parametrize("query, advice", [
    ("abend lang:", "write lang:deu"), ("abend lang:german!", "write lang:deu"),
    ("abend tag:", "write tag:berlin"), ("abend after:", "write after:2024-05-17"),
    ("abend before:90", "before:90s"), ("abend after:2024-13", "after:1:30"),
    ("abend -lang:deu", "not left out"), ("lang:deu", "add a word"), ("after:1:30", "add a word"),
    ("from:", "write from:holiday.mp4"), ('abend from:" "', "from:"), ("-from:x", "not left out"),
])
def test_a_bad_field_says_what_to_write(library, query, advice):
    with pytest.raises(psycopg2.errors.InvalidParameterValue, match=advice):
        library(query)


def test_fields_in_quotes_and_unknown_ones_are_text(search):
    video = search.queue.video()
    search.add(video, ["set lang:deu here", "note: buy milk"])
    assert search.texts('"lang:deu"', video=video)[:1] == ["set lang:deu here"]
    assert search.texts("note: milk", video=video) == ["note: buy milk"]


# ---- from: -----------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def named(lasting):
    """Videos with names, each with one line."""
    search = Search(lasting())
    search.named = {}
    for key, file, title, platform in (
            ("beach", "IMG_0042.mp4", "Beach Day — Größe", "tiktok"),
            ("city", "city-walk.mov", "Walking through 東京", "youtube"),
            ("talk", "talk.mp4", None, "youtube")):
        video = search.queue.video(str(uuid.UUID(int=len(search.named) + 1)))
        search.queue.run("UPDATE videos SET original_name = %s, title = %s, platform = %s WHERE id = %s",
                         file, title, platform, video)
        search.add(video, [f"hello {key}"])
        search.named[key] = video
    return search


@pytest.mark.parametrize("source, expected", [
    ("IMG_0042.mp4", {"beach"}), ("img_0042", {"beach"}), ("0042", {"beach"}), ('"beach day"', {"beach"}),
    ("größe", {"beach"}), ("GRÖSSE", {"beach"}), ("walk", {"city"}), ("東京", {"city"}), ("tiktok", {"beach"}),
    ("youtube", {"city", "talk"}), ("mp4", {"beach", "talk"}), ("nobody", set()), ("%", set()),
    ("talk.mp4 from:tiktok", {"beach", "talk"}), ("_0", {"beach"}), ("city.walk", set()), ("'", set()),
    ("ffffffff", set()), ("\\", set()),
])
def test_from_names_a_video_by_what_a_user_knows(named, source, expected):
    found = {row["text"] for row in named(f"hello from:{source}")}
    assert found == {f"hello {key}" for key in expected}
    assert {row["text"] for row in named(f"from:{source}")} == found


def test_from_takes_an_id_and_its_beginning(named):
    for key, video in named.named.items():
        for source in (str(video), str(video)[:8], str(video).upper(), str(video).replace("-", "")[:20]):
            assert named.texts(f"hello from:{source}") == [f"hello {key}"]
    assert named.texts(f"hello from:{str(named.named['city'])[:3]}") == []


def test_from_follows_a_new_name(search):
    video = search.queue.video()
    search.add(video, ["hello there"])
    assert search.texts("hello from:launch") == []
    search.queue.run("UPDATE videos SET title = 'Launch party' WHERE id = %s", video)
    assert search.texts("hello from:launch") == ["hello there"]


def test_from_many_videos(search):
    """More of them than are listed one by one: by whole words of their names, and by parts."""
    search.queue.run("INSERT INTO videos (original_name, platform) SELECT 'clip-' || n || '.mp4', 'youtube'"
                     " FROM generate_series(1, 100) AS n")
    search.queue.run("INSERT INTO segments (video_id, text, normalized_text, text_hash, confidence, t_start,"
                     " t_end) SELECT id, 'hello', 'hello', 'h', 1, 0, 1 FROM videos WHERE platform = 'youtube'")
    search.add(search.queue.video(), ["hello from elsewhere"])
    search.queue.run("SELECT refresh_search_materialized()")
    for source in ("youtube", "clip", "outub", "yo", "clip-"):
        assert search.texts(f"hello from:{source}", max_results=200) == ["hello"] * 100, source
    assert len(search("hello from:clip-7.mp4")) == 1 and len(search("hello from:clip-1")) == 12


def test_from_shows_a_user_no_video_of_others(search, two_users, sql):
    alice, bob, _ = two_users
    search.queue.run("UPDATE videos SET title = 'Diary' WHERE owner_id = %s", alice)
    assert as_user(sql, {"sub": str(alice)}, "from:diary secret") == ["secert alpha", "secret alpha"]
    assert as_user(sql, {"sub": str(bob)}, "from:diary secret") == []


# ---- words in one and words apart, common words, long and hostile queries ----------------------------


@pytest.mark.parametrize("query, text", [
    ("opensource", "an open source licence"), ("open source", "the opensource way"),
    ("opensource licence", "an open source licence"), ("the open source way", "the opensource way"),
    ("0pens0urce", "an open source licence"), ("open-source", "the opensource way"),
    ("out come", "one outcome only"), ('"open source"', "an open source licence"),
    ("img src", '<img src="harbour.png">'), ("mg src", '<img src="harbour.png">'), ("rge harb", "a large harbour tour"),
    ("arge harbour to", "a large harbour tour"), ("a lar", "a large harbour tour"), ("ery-nin", "every-nine-days"),
    (".4 mm of rai", "15.4 mm of rain"), ("ain 3d mod", "plain 3d models"), ('"ow (with"', "now (with love)"),
])
def test_words_in_one_and_words_apart(search, query, text):
    video = search.queue.video()
    search.add(video, ["an open source licence", "the opensource way", "one outcome only", "a source",
                       '<img src="harbour.png">', "a large harbour tour", "every-nine-days",
                       "15.4 mm of rain", "plain 3d models", "now (with love)"])
    assert text in search.texts(query, video=video)


@pytest.fixture(scope="module")
def common(lasting):
    """9,000 lines with the same word, one of which, the oldest, is that word alone."""
    search = Search(lasting())
    search.queue.run("INSERT INTO videos (id, owner_id) VALUES (%s, %s)", str(uuid.UUID(int=1)),
                     str(uuid.UUID(int=8)))
    search.queue.run("INSERT INTO videos (id, owner_id) VALUES (%s, %s)", str(uuid.UUID(int=2)),
                     str(uuid.UUID(int=9)))
    search.queue.run(
        "INSERT INTO segments (video_id, owner_id, text, normalized_text, text_hash, confidence, t_start,"
        " t_end) SELECT v.id, v.owner_id, t.text, t.text, 'h', 0.5, 1000 * n, 1000 * n + 500"
        " FROM generate_series(0, 8999) AS n, videos v, LATERAL (SELECT CASE WHEN n = 0 THEN 'the'"
        " WHEN n = 1 THEN 'the last word' WHEN n = 2 THEN 'not the first' ELSE 'the word ' || n END) AS t (text)"
        " WHERE v.id = CASE WHEN n < 10 THEN %s ELSE %s END::uuid",
        str(uuid.UUID(int=1)), str(uuid.UUID(int=2)))
    search.queue.run("SELECT refresh_search_materialized(%s)", str(uuid.UUID(int=1)))
    search.queue.run("SELECT refresh_search_materialized(%s)", str(uuid.UUID(int=2)))
    return search


def test_of_a_common_word_the_exact_line_and_the_newest_are_found(common):
    rows = common("the", max_results=20)
    assert rows[0]["text"] == "the" and rows[0]["match_kind"] == "exact"
    assert len(rows) == 20 and all(int(row["t_start"]) > 8000000 for row in rows[1:])
    assert common.texts('"the last word"') == ["the last word"]
    assert common.texts("the last") == ["the last word"]
    assert common.texts("th* last") == ["the last word"]
    assert {"the", "not the first"} <= set(common.texts("the -word"))
    assert not any("word" in text for text in common.texts("the -word"))
    assert common.texts("the 4711")[0] == "the word 4711"


def test_of_a_common_word_a_user_finds_their_own_old_lines(common):
    """Thousands of newer lines of another do not crowd them out."""
    texts = as_user(common.queue.connection, {"sub": str(uuid.UUID(int=8))}, "the")
    assert "the" in texts and len(texts) == 10


def test_results_do_not_depend_on_where_rows_lie(common):
    """Nor on the plan's age: the same from a prepared statement, for all videos and for one."""
    run = common.queue.run
    videos = [None, uuid.UUID(int=1), uuid.UUID(int=2)]
    queries = ["the", "word", "the word", "wrod", "the -last", "w* 17", "after:1:00 the"]
    before = {(q, v): common(q, video=v) for q in queries for v in videos}
    run("PREPARE a_search (text, uuid) AS SELECT * FROM search_segments($1, $2)")
    for _ in range(3):
        for (query, video), rows in before.items():
            assert run("EXECUTE a_search (%s, %s)", query, video) == rows
    run("CLUSTER search_materialized USING search_materialized_pkey")
    run("VACUUM ANALYZE search_materialized")
    for (query, video), rows in before.items():
        assert common(query, video=video) == rows, (query, video)


HOSTILE = ["a" * 10000, "word " * 2000, " ".join(f"w{n}" for n in range(1000)), "-" * 9999, "* " * 4000,
           '"' * 9999, '"' + "(((" * 3000, ".*" * 4000, "a(a|a)*" * 1000, "[[:alpha:]]" * 500, "\\" * 9000,
           "%_" * 4000, "'" * 9999, "OR " * 3000, '"a' * 4000, "-the " * 2000, "t* " * 3000, "東" * 9000,
           "from:% " * 1000, "lang:eng " * 1000, "tag:a " * 1000, "the from:" + "a" * 5000]


@pytest.mark.parametrize("number", range(len(HOSTILE)))
def test_hostile_queries_read_little(common, number):
    """Pages that the search reads, not the time that this machine takes, are what is bounded."""
    plan = common.queue.value(
        "EXPLAIN (ANALYZE, BUFFERS, FORMAT JSON) SELECT * FROM search_segments(%s)", HOSTILE[number])
    assert plan[0]["Plan"]["Shared Hit Blocks"] + plan[0]["Plan"]["Shared Read Blocks"] < 60000


@pytest.mark.parametrize("query, error, message", [
    ("x" * 10001, psycopg2.errors.InvalidParameterValue, "at most 10,000 characters"),
    ("ab " * 350000, psycopg2.errors.InvalidParameterValue, "at most 10,000 characters"),
    (b"abc\xff\xfe", psycopg2.errors.CharacterNotInRepertoire, "invalid byte sequence"),
])
def test_what_is_refused_says_why(common, query, error, message):
    literal = "'" + (query if isinstance(query, str) else query.decode("latin1")) + "'"
    with common.queue.connection.cursor() as cursor, pytest.raises(error, match=message):
        cursor.execute(b"SELECT * FROM search_segments(" + literal.encode("latin1") + b")")
    common.queue.connection.rollback()
