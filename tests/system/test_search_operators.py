"""What OR, several words and - mean, on random pairs of what people type; which queries are refused, and in which words.

CORTANA_SEARCH_PAIRS: how many pairs, 60 by default.
"""

import os
import random
import re

import psycopg2
import pytest
from test_search import Search

PAIRS = int(os.environ.get("CORTANA_SEARCH_PAIRS", "60"))
WORDS = ("harbour harbours bridge abridged bridges ticket tickets night nights berlin drop droplet rain train trains brain "
         "coffee market markets supermarket tour detour setup art start party live alive olive old gold cold music museum "
         "ride pride bride stride open source opensource light daylight lights flight station").split()
ENDINGS = ("com", "org", "net")


def make_line(rng):
    words = rng.choices(WORDS, k=rng.randint(1, 6))
    kind = rng.random()
    if kind < 0.15:
        words.append(f"www.{rng.choice(WORDS)}-{rng.choice(WORDS)}.{rng.choice(ENDINGS)}")
    elif kind < 0.25:
        words.insert(0, f"https://{rng.choice(WORDS)}.{rng.choice(ENDINGS)}/{rng.choice(WORDS)}/{rng.choice(WORDS)}_{rng.randint(1, 9)}")
    elif kind < 0.35:
        words.append(f"@{rng.choice(WORDS)}_{rng.randint(1, 99)}")
    elif kind < 0.45:
        words.append(f"#{rng.choice(WORDS).title()}{rng.choice(WORDS).title()}")
    elif kind < 0.5:
        words.append(f"${rng.randint(1, 99)}.{rng.randint(10, 99)}")
    elif kind < 0.55:
        words.append("".join(rng.choices("東京大阪駅前商店街天気", k=5)))
    return " ".join(words)


def make_query(rng, lines):
    """A word, a part of one, a beginning, a phrase, or what a line has as one: a handle, a link, a price."""
    words = rng.choice(lines).split()
    at = rng.randrange(len(words))
    word = rng.choice(re.findall(r"\w{3,}", " ".join(words)))
    start = rng.randrange(len(word) - 2)
    return rng.choice((word, word, word[start:start + rng.randint(3, 6)], word[:rng.randint(3, 5)] + "*",
                       f'"{" ".join(words[at:at + 2])}"', words[at]))


@pytest.fixture(scope="module")
def corpus(lasting):
    """300 lines of few words, which are also parts of one another, of links, handles and tags."""
    search = Search(lasting())
    search.rng = random.Random(18)
    search.lines = [make_line(search.rng) for _ in range(300)]
    search.add(search.video, search.lines)
    return search


def ask(corpus, queries):
    """Query to the lines it finds, without those that are guessed."""
    rows = corpus.queue.run(
        "SELECT query, array_agg(text) FILTER (WHERE match_kind <> 'fuzzy') AS texts FROM unnest(%s) AS query LEFT JOIN LATERAL"
        " search_segments(query, max_results => 1000, start_mark => NULL) ON true GROUP BY query", list(set(queries)))
    return {row["query"]: set(row["texts"] or ()) for row in rows}


def test_or_and_not_of_random_pairs(corpus):
    pairs = [(make_query(corpus.rng, corpus.lines), make_query(corpus.rng, corpus.lines)) for _ in range(PAIRS)]
    found = ask(corpus, [query for a, b in pairs for query in (a, b, f"{a} OR {b}", f"{a} {b}", f"{a} -{b}")])
    assert sum(bool(found[a]) for a, _ in pairs) > 0.9 * len(pairs)
    assert sum(bool(found[f"{a} {b}"]) for a, b in pairs) > 0.1 * len(pairs)
    for a, b in pairs:
        assert found[f"{a} OR {b}"] >= found[a] | found[b], (a, b)
        assert found[f"{a} {b}"] <= found[a] & found[b], (a, b)
        assert found[f"{a} -{b}"] == found[a] - {text for text in found[a] if has_words(text, b)}, (a, b)


def has_words(text, typed):
    """Whether a line has what was typed as words, next to each other; of a beginning, a word that begins like this."""
    words, wanted = (re.findall(r"[^\W_]+", each.lower()) for each in (text, typed))
    if typed.endswith("*"):
        return any(word.startswith(wanted[-1]) for word in words)
    return any(words[at:at + len(wanted)] == wanted for at in range(len(words)))


@pytest.mark.parametrize("query, expected", [
    ("harbour OR drop", {"try www.harbour-tickets.com now", "harbour lights", "a drop of rain"}),
    ("harb* OR drop", {"try www.harbour-tickets.com now", "harbour lights", "a drop of rain"}),
    ("lights OR ticket*", {"try www.harbour-tickets.com now", "harbour lights"}),
    ("setup OR drop", {"see example.org/setup", "a drop of rain"}),
    ("harbour tickets", {"try www.harbour-tickets.com now"}),
    ("tickets try", {"try www.harbour-tickets.com now"}),
    ('"harbour tickets" now', {"try www.harbour-tickets.com now"}),
    ("berlin rain", {"#BerlinNights in the rain"}),
    ("rain nights", {"#BerlinNights in the rain"}),
    ("rain -nights", {"#BerlinNights in the rain", "a drop of rain"}),
    ("try -harbour", set()),
    ("rain -dro*", {"#BerlinNights in the rain"}),
    ("sooner or later", {"sooner or later"}),
    ("sooner OR later", {"sooner or later", "later on"}),
    ('"wind OR shine"', {"wind or shine"}),
    ("天気 light", {"今日の天気 and lighthouse"}),
    ("or", {"sooner or later", "wind or shine"}),
    ("OR harbour OR", {"harbour lights", "try www.harbour-tickets.com now"}),
])
def test_words_within_links_and_longer_words(corpus, query, expected):
    video = corpus.queue.video()
    corpus.add(video, ["try www.harbour-tickets.com now", "harbour lights", "a drop of rain", "see example.org/setup",
                       "#BerlinNights in the rain", "sooner or later", "later on", "wind or shine", "今日の天気 and lighthouse"])
    found = {row["text"] for row in corpus(query, video=video) if row["match_kind"] != "fuzzy"}
    corpus.queue.run("DELETE FROM videos WHERE id = %s", video)
    assert found == expected


# ---- handles, tags and what is refused -------------------------------------------------------------


@pytest.fixture(scope="module")
def tagged(corpus):
    video = corpus.queue.video()
    texts = ["meet @anna_12 there", "#berlin at night", "mail anna@example.org", "5 @ 3", "@bob and #lisbon"]
    corpus.add(video, texts)
    corpus.find_names(video)
    yield lambda query: {row["snippet"] for row in corpus(query, video=video, start_mark="[", stop_mark="]")
                         if row["match_kind"] != "fuzzy"}
    corpus.queue.run("DELETE FROM videos WHERE id = %s", video)


@pytest.mark.parametrize("query, expected", [
    ("@", {"meet [@anna_12] there", "[@bob] and #lisbon"}),
    ("#", {"[#berlin] at night", "@bob and [#lisbon]"}),
    ("# lang:eng", {"[#berlin] at night", "@bob and [#lisbon]"}),
    ("@ -bob", {"meet [@anna_12] there"}),
    ("@ OR night", {"meet [@anna_12] there", "[@bob] and #lisbon", "#berlin at [night]"}),
    ("5 @ 3", {"[5 @ 3]"}),
    ('"@"', {"meet [@]anna_12 there", "mail anna[@]example.org", "5 [@] 3", "[@]bob and #lisbon"}),
    ("kind:mention #", {"@bob and [#lisbon]"}),
    ("@bob OR @anna_12", {"meet @[anna]_[12] there", "@[bob] and #lisbon"}),
])
def test_a_sign_alone_lists_what_begins_with_it(tagged, query, expected):
    assert tagged(query) == expected


@pytest.mark.parametrize("query, words", [
    ("(harbour OR tickets) try", "parentheses are not part"), ("a -(b", "parentheses are not part"),
    ("color:red", 'color: is not a field.*put it into quotes: "color:red"'), ("harbour -color:red", "color: is not a field"),
    ('title:"old bridge"', 'quotes: "title:old bridge"'), ("localhost:8080", "localhost: is not a field"),
    ("lang:xyz harbour", "lang:xyz: there is no"), ("lang:de harbour", "lang:de: there is no"), ("lang:script/xy a", "there is no"),
    ("kind:x harbour", "one of code, emoji, hashtag, mention, number, url"), ("conf:2 harbour", "conf:0.8"),
    ("owner:anna harbour", "owner:me"), ("video:1 harbour", "id of one"), ("kind:url", "add a word"), ("conf:0.5", "add a word"),
    (" OR ".join("abcdefghi"), "at most 8 alternatives"),
])
def test_what_is_not_understood_is_named(corpus, query, words):
    with pytest.raises(psycopg2.errors.InvalidParameterValue, match=words) as refusal:
        corpus(query)
    assert refusal.value.diag.column_name == "q"


@pytest.mark.parametrize("query", [
    "Workflows (1)", "Anna (20984 votes)", "(5 matches", "From: Anna To:", "tag: new", "localhost:8080 is up",
    "https://example.org/setup", "12:30", "std::vector", "c:\\windows", "note: milk", "main()", "f(x)", ":)", '"color:red"',
    "has:attachment", "git ci -m now", '"(harbour"', "10:color", "価格:百円", "a:b", ":smile:", "lang:fra harbour", "lang:script/latin harbour", "lang:ENG harbour",
])
def test_what_is_no_field_is_text(corpus, query):
    text = query.replace('"', "")
    corpus.add(video := corpus.queue.video(), [text])
    found = [row["text"] for row in corpus(query, video=video)]
    corpus.queue.run("DELETE FROM videos WHERE id = %s", video)
    assert query.startswith("lang:") or found == [text]


def test_fields_filter_before_the_best_are_taken(corpus):
    """Of many lines, those few that a field asks for."""
    few = {row["text"] for row in corpus("bridge conf:0.91", max_results=5)}
    video = corpus.queue.video()
    corpus.add(video, ["bridge of doubt", "bridge to see"])
    corpus.queue.run("UPDATE segments SET confidence = 0.2 WHERE text = 'bridge of doubt'")
    corpus.queue.run("SELECT refresh_search_materialized()")
    assert few == set() and corpus.texts(f"bridge video:{video} conf:0.5") == ["bridge to see"]
    assert set(corpus.texts(f"bridge video:{video}")) == {"bridge to see", "bridge of doubt"}
    assert corpus.texts("bridge kind:url", max_results=5) == []
    corpus.queue.run("DELETE FROM videos WHERE id = %s", video)
