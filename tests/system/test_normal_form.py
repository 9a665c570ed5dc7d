"""normal_form(): one form for the text on screen and for the query, so that what is typed as it stands is found."""

import json

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st


@pytest.fixture(scope="module")
def library(lasting):
    return lasting()


def store(queue, video, lines):
    queue.run("SELECT replace_video_text(%s, %s)", video, json.dumps([
        {"text": line, "confidence": 0.9, "t_start": 1000 * n, "t_end": 1000 * n + 900, "entities": []}
        for n, line in enumerate(lines)]))


def kinds(queue, video, query):
    return {row["text"]: row["match_kind"] for row in queue.run(
        "SELECT text, match_kind FROM search_segments(%s, %s, 1000)", query, video)}


@pytest.mark.parametrize("text, expected", [
    ("", ""),
    (" \t\r\n\v\f ", ""),
    ("  Two\t words \u00a0\u202f here ", "two words here"),
    ("ＨＥＬＬＯ　ｗｏｒｌｄ", "hello world"),
    ("Straße STRAẞE ﬁne ŉ", "strasse strasse fine ʼn"),
    ("E\u0301t\u00e9", "\u00e9t\u00e9"),
    ("МОСКВА", "москва"),
    ("ΟΔΥΣΣΕΥΣ Ὀδυσσεύς", "οδυσσευσ ὀδυσσεύσ"),
    ("ᾳ ΑΙ", "αι αι"),
    ("ｶﾞｷﾞ 東京", "ガギ 東京"),
    ("ﻻ ﷲ", "لا الله"),
    ("\u202eمرحبا\u202c", "مرحبا"),
    ("zero\u200bwidth\u00adsoft\ufeff", "zerowidthsoft"),
    ("x\u200dy", "xy"),
    ("bell\x07tab\x01", "belltab"),
    ("👩‍💻 👨‍👩‍👧", "👩‍💻 👨‍👩‍👧"),
    ("👍🏽 ❤️", "👍🏽 ❤"),
    ("🏴\U000e0067\U000e0062\U000e007f", "🏴\U000e0067\U000e0062\U000e007f"),
    ("a\U000e0067b", "ab"),
    ("\u00a8x", "\u0308x"),
])
def test_the_normal_form_of_a_text(library, text, expected):
    assert library.value("SELECT normal_form(%s)", text) == expected


def test_the_normal_form_of_a_normal_form_is_itself_for_every_character(library):
    assert library.run(
        "SELECT to_hex(point) FROM (SELECT point, normal_form('x' || chr(point) || 'y') AS form"
        "  FROM generate_series(128, 262143) AS point WHERE point NOT BETWEEN 55296 AND 57343 OFFSET 0) AS f"
        " WHERE form <> normal_form(form)") == []


@pytest.mark.parametrize("line, query", [
    ("Ὀδυσσεύς ΚΑΙ Πηνελόπη", "Ὀδυσσεύς και"), ("Hauptstraße 5", "Hauptstraße"), ("Hauptstraße 5", "HAUPTSTRASSE"),
    ("der ﬁnale Aﬀe", "finale affe"), ("ＦＵＬＬ　ｗｉｄｔｈ", "full width"), ("full width", "ｆｕｌｌ　ｗｉｄｔｈ"),
    ("ﻣﺮﺣﺒﺎ ﺑﻜﻢ", "مرحبا بكم"), ("مرحبا بكم", "ﻣﺮﺣﺒﺎ ﺑﻜﻢ"), ("cafe\u0301 creme", "café creme"),
    ("co\u00adoperate now", "cooperate"), ("cooperate now", "co\u00adoperate"), ("ǄUNGLA", "ǆungla"),
    ("family 👩‍👩‍👧 day", "👩‍👩‍👧"), ('he said "stop" twice', 'he said "stop" twice'),
])
def test_what_is_typed_as_it_stands_is_an_exact_hit(library, line, query):
    video = library.video()
    store(library, video, [line, "something else"])
    assert kinds(library, video, query).get(line) == "exact"


# Letters and marks of all scripts, with the characters between words that are no operators of a query.
WORDS = st.lists(st.builds(str.__add__, st.characters(whitelist_categories=("Lu", "Ll", "Lt", "Lo")),
                           st.text(st.characters(whitelist_categories=("Lu", "Ll", "Lt", "Lo", "Lm", "Mn", "Mc", "Nd")),
                                   max_size=12)), min_size=1, max_size=5)
BETWEEN = st.sampled_from([" ", "  ", "\u00a0", "\u3000", ", ", ". ", "\u00ad", "\u200b", "/", "’", "\ufe0f "])


@settings(max_examples=120, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck))
@given(words=WORDS, between=BETWEEN)
def test_any_text_is_found_by_itself(library, words, between):
    line = between.join(words)
    video = library.video()
    store(library, video, [line])
    assert library.value("SELECT normalized_text = normal_form(normalized_text) FROM segments WHERE video_id = %s", video)
    assert kinds(library, video, line) == {line: "exact"}
