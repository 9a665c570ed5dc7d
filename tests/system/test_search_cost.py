"""A search reads little, whatever is asked, and finds no less for it."""

import collections
import random
import re

import pytest
from test_search import Search

LETTERS = "aekostu"  # few, so that many words are near to each other, and none that OCR confuses
LINE_COUNT = 12000
EVERY = (1, 7, 60, 900, 5000)
SHOW_STATEMENTS = {"client_min_messages": "log", "auto_explain.log_min_duration": 0,
                   "auto_explain.log_nested_statements": "on"}


@pytest.fixture(scope="module")
def large(lasting):
    """Lines 'tick1 tick7 …': line n has each word whose number divides n, and a number that is its own. The
    first half of them says 'aged'. One more line holds words of all lengths."""
    search = Search(lasting())
    video = search.queue.video()
    search.queue.run(
        "INSERT INTO segments (video_id, text, normalized_text, text_hash, confidence, t_start, t_end)"
        " SELECT %s, t.text, t.text, 'h', 0.5, n, n + 1 FROM generate_series(1, %s) AS n, LATERAL ("
        "    SELECT string_agg('tick' || k, ' ') || CASE WHEN n <= %s THEN ' aged' ELSE '' END || ' n' || n"
        "    FROM unnest(%s) AS k WHERE n %% k = 0) AS t (text)", video, LINE_COUNT, LINE_COUNT // 2, list(EVERY))
    search.queue.run("SELECT refresh_search_materialized(%s)", video)
    rng = random.Random(11)
    search.words = sorted({"".join(rng.choices(LETTERS, k=rng.randint(3, 16))) for _ in range(2000)})
    search.add(search.queue.video(), [" ".join(search.words[n:n + 20]) for n in range(0, len(search.words), 20)])
    return search


def pages_read(search, query):
    plan = search.queue.value(
        "EXPLAIN (ANALYZE, BUFFERS, FORMAT JSON) SELECT * FROM search_segments(%s)", query)[0]["Plan"]
    return plan["Shared Hit Blocks"] + plan["Shared Read Blocks"]


def edited(rng, word):
    for _ in range(rng.randint(0, 2)):
        at = rng.randrange(len(word) + 1)
        word = rng.choice((word[:at] + word[at + 1:], word[:at] + rng.choice(LETTERS) + word[at:],
                           word[:at] + rng.choice(LETTERS) + word[at + 1:]))
    return word


def test_all_words_near_to_a_typed_one_are_found(large):
    """The same as by comparing it with every word of the library."""
    rng = random.Random(3)
    typed = [t for t in (edited(rng, word) for word in rng.sample(large.words, 100)) if len(t) >= 3]
    rows = large.queue.run(
        "SELECT typed, search_near_words(typed) AS found, ("
        "    SELECT string_agg(search_word_query(word), ' | ') FROM ("
        "        SELECT word FROM search_words, levenshtein(typed, folded) AS edits"
        "        WHERE edits <= CASE WHEN length(typed) < 5 THEN 1 ELSE 2 END"
        "          AND similarity(folded, typed) >= 0.2"
        "        ORDER BY edits, similarity(folded, typed) DESC, word LIMIT 16) AS near) AS expected"
        " FROM unnest(%s) AS typed", typed)
    assert {row["typed"]: row["found"] for row in rows} == {row["typed"]: row["expected"] for row in rows}
    assert sum(row["found"] is not None for row in rows) > 60


def test_words_are_looked_up_by_the_index(large):
    run = large.queue.run
    run("SET enable_seqscan = off")
    for condition in ("search_near_keys(folded) && '{1,2}' OR search_near_keys(folded) && '{3}'"
                      " AND search_near_keys(folded) && '{4}'", "search_near_keys(folded) @> '{1}'"):
        plan = "\n".join(row["QUERY PLAN"] for row in run(
            f"EXPLAIN SELECT word FROM search_words WHERE {condition}"))
        assert "Bitmap Index Scan on search_words_near" in plan and "Seq Scan" not in plan
    run("RESET enable_seqscan")


def test_rows_of_ideographs_are_no_words(large):
    large.add(large.queue.video(), ["東京大阪駅前商店街天気予報", "東京大阪"])
    assert large.queue.run("SELECT word FROM search_words WHERE word ~ '東'") == [{"word": "東京大阪"}]
    assert large.texts("商店街天気") == ["東京大阪駅前商店街天気予報"]


@pytest.mark.parametrize("every", EVERY)
def test_the_newest_lines_are_found_however_common_the_word(large, every):
    found = large.queue.run(
        "SELECT m.t_start AS n FROM search_candidates(%s, NULL, 20) AS c"
        " JOIN search_materialized m ON m.ctid = c", f"tick{every}")
    newest = range(LINE_COUNT - LINE_COUNT % every, 0, -every)[:200]
    assert {row["n"] for row in found} >= set(newest)
    assert len(found) <= 900 or every > 1


def test_what_is_left_out_is_left_out_by_the_index(large):
    def found(query):
        return [row["text"] for row in large(query) if row["match_kind"] != "fuzzy"]

    assert found("aged -tick1") == []
    assert found("tick5000 -aged") == ["tick1 tick5000 n10000"]
    assert found("tick900 -tick1 -tick7") == []
    assert len(found("tick7 -tick60 -aged")) == 50
    assert found('tick900 -"tick7 tick60"') == [
        text for text in found("tick900") if "tick7 tick60" not in text] != []
    for query in ("aged -tick1", "tick7 -tick1", "tick1 -tick1", "tick1 -n77"):
        assert pages_read(large, query) < 3000, query


def test_no_part_of_a_search_runs_twice(large):
    """Planning a statement evaluates stable functions in some places, and all their reading with them."""
    run = large.queue.run
    run("SET track_functions = 'all'")
    run("SELECT pg_stat_reset()")
    for _ in range(6):
        run("SELECT * FROM search_segments('kutak seteko')")
    run("SELECT pg_stat_force_next_flush()")
    calls = {row["funcname"]: row["calls"] for row in run(
        "SELECT funcname, calls FROM pg_stat_user_functions WHERE funcname ~ '^search_(near_words|expand)$'")}
    run("RESET track_functions")
    assert calls == {"search_expand": 6, "search_near_words": 12}


def test_words_that_few_lines_contain_are_looked_up_once(large):
    run = large.queue.run
    expected = [f"n{n}" for n in range(420, LINE_COUNT + 1, 420)]
    run("SET track_functions = 'all'")
    for query, calls in (('"tick1 tick7 tick60"', 1), ("tick60 tick7", 1), ("tick1 tick7", 4)):
        run("SELECT pg_stat_reset()")
        found = run("SELECT text FROM search_segments(%s, max_results => 20)", query)
        run("SELECT pg_stat_force_next_flush()")
        asked = run("SELECT calls FROM pg_stat_user_functions WHERE funcname = 'search_newest'")
        assert (query, asked) == (query, [{"calls": calls}])
        assert len(found) == 20
        if calls == 1:
            assert {row["text"].split()[-1] for row in found} <= set(expected)
    run("RESET track_functions")


def statements_of(search, query):
    """The first lines of the statements within the functions that a search calls."""
    run = search.queue.run
    run("LOAD 'auto_explain'")
    for setting, value in SHOW_STATEMENTS.items():
        run(f"SET {setting} = {value}")
    search.queue.connection.notices = collections.deque()  # a list would keep only the last fifty
    search.texts(query)
    logged = "\n".join(search.queue.connection.notices)
    for setting in SHOW_STATEMENTS:
        run(f"RESET {setting}")
    return re.findall("^Query Text: (.*)", logged, re.M)


def test_rare_words_are_asked_for_first(large):
    value = large.queue.value
    rarest_first = "SELECT search_rarest_first(%s, '{tick1,n1,tick7}', '{0.9,0.01,0.14}')"
    words = ["tick1", "tick7", "n10000", "tick5000000"]
    assert value(rarest_first, words) == ["tick5000000", "n10000", "tick7", "tick1"]
    assert value(rarest_first, ["( 'n1' | 'tick1' )", "'tick7'", "( 'n1' | 'n2' )"]) == \
        ["( 'n1' | 'n2' )", "'tick7'", "( 'n1' | 'tick1' )"]
    assert value("SELECT search_rarest_first('{tick1,tick5000}', NULL, NULL)") == ["tick5000", "tick1"]
    assert value("SELECT search_rarest_first(NULL, NULL, NULL)") == []


def test_a_search_reads_once_how_common_words_are(large):
    large.queue.run("ANALYZE search_materialized")
    words = ["tick7", "aged", "tick1"]  # the rarest first
    keys = [str(large.queue.value("SELECT search_key('w' || search_fold(%s))", word)) for word in words]
    statements = statements_of(large, "tick1 aged tick7")
    assert keys in [re.findall(r"keys && '{(-?\d+),\d+}'", text) for text in statements]
    assert words in [re.findall(r"document @@ '''(\w+)'''", text) for text in statements]
    assert sum("most_common_elems" in text for text in statements) == 1


def test_every_word_and_part_is_a_condition_of_its_own(large):
    assert large.queue.value("SELECT search_every_key('{5,3,5}')") == \
        "keys @> '{5}' AND keys @> '{3}' AND keys @> '{5}'"
    assert large.queue.value("SELECT search_every_key('{5,3}', true)") == \
        "keys && '{5,1431655760}' AND keys && '{3,1431655766}'"
    parts = {row["part"]: re.findall("%([a-z]+)%", row["lookup"]) for row in large.queue.run(
        "SELECT part, search_part_lookup(part, NULL) AS lookup FROM unnest(%s) AS part",
        ["abc", "abcd", "abcde", "abcdef", "abcdefg", "ab cdef"])}
    assert parts == {"abc": ["abc"], "abcd": ["abcd"], "abcde": ["abcd", "bcde"], "abcdef": ["abcd", "cdef"],
                     "abcdefg": ["abcd", "cdef", "defg"], "ab cdef": ["cdef"]}


def test_pages_do_not_grow_with_how_common_a_word_is(large):
    pages = {every: pages_read(large, f"tick{every}") for every in EVERY}
    assert max(pages.values()) < 2500, pages
    assert re.match(r"tick1 ", large.texts("tick1")[0])
