"""Parsers that are written in SQL, given what strangers write: searches, cron expressions, time zones,
templates, JSON Schemas, events of a store. A seeded generator puts together what each grammar is made of,
and what it is not. Every answer is rows or a refusal that the caller can act on; never an internal error,
a failed assertion, a full stack or an answer that takes seconds.

CORTANA_FUZZ_STATEMENTS=20000 for the long run; CORTANA_FUZZ_SEED for another draw."""

import json
import os
import random

import psycopg2
import pytest

STATEMENTS = int(os.environ.get("CORTANA_FUZZ_STATEMENTS", "400"))
SEED = int(os.environ.get("CORTANA_FUZZ_SEED", "20261121"))
STATEMENT_TIMEOUT_MS = 5000
VIDEO = "0f0e0d0c-0000-4000-8000-000000000001"

# Refusals: bad values, broken rules, what is not there or not allowed, limits that have a name.
REFUSALS = ("22", "23", "P0002", "42501", "54000", "53400", "55000", "0A000")
# Within 22: the caller's value was not looked at before PostgreSQL choked on it.
UNCHECKED = {"22P02", "22003", "22012", "22026", "22001"}

LETTERS = "aeinrst bdgkmouwz 0123456789 @#:/.-_'\"()*|&!<>\\%?[]{}^$~,;= \t\n"
ODD = ["", "\u00df", "\u03c2\u03a3", "\u0130i\u0307", "\ufb01", "\uff26\uff35", "\u202e", "\u200b", "\u0301" * 40,
       "\U0001f469\u200d\U0001f680", "\u0645\u0631\u062d\u0628\u0627", "\u6587\u5b57", "\ufffd", "\U0010ffff", "a" * 3000,
       "((((", "))))", '"' * 30, "-" * 50, "*" * 20, "'; DROP TABLE videos; --", "%s%n", "\\", "\\u0000"]
SEARCH_RIGHT = ["old", "bridge", '"old bridge"', "-coffee", "OR", "tick*", "@ana", "#tag", "from:feed", "after:3.4"]
SEARCH = ["old", "bridge", '"old bridge"', "-coffee", "OR", "or", "tick*", "*", "@ana", "#tag", "from:feed", "tag:#a",
          "lang:de", "after:3.4", "before:1:00", "after:2026-01-01", "after:", "from:\"", "lang:", "-from:x", "(", ")"]
CRON_RIGHT = ["*", "*", "*/5", "1,2,3", "1-5", "1"]
CRON = ["*", "*/5", "0", "59", "60", "1-5", "5-1", "1,2,3", "*/0", "MON-FRI", "feb", "L", "?", "1/2", "0-59/7", "99999999999",
        "-1", "@daily", "@reboot", "H", "2#1", "31W"]
ZONES = ["UTC", "Europe/Berlin", "America/New_York", "Asia/Kathmandu", "EST5EDT", "posix/UTC", "../etc/passwd", "",
         "Mars/Base", "+25:00", "UTC+99", "utc"]


def text_of(dice, pieces):
    """A text of pieces of a grammar, letters and what is odd."""
    kind = dice.random()
    if kind < 0.6:
        return dice.choice([" ", " ", "", "\u00a0"]).join(dice.choice(pieces) for _ in range(dice.randrange(1, 9)))
    if kind < 0.8:
        return "".join(dice.choice(LETTERS) for _ in range(dice.randrange(0, 60)))
    return " ".join(dice.choice(pieces + ODD) for _ in range(dice.randrange(1, 6)))


def value_of(dice, depth=0):
    """Any JSON, with members that the readers look for."""
    kind = dice.randrange(9 if depth < 5 else 6)
    if kind < 3:
        return text_of(dice, ["{{event.data.x}}", "{{event.video_id}}", "{{", "}}", "{{ }}", "{{a.b", "$ref", "#/", "string"])
    if kind == 3:
        return dice.choice([0, -1, 1.5, 10**18, 1e300, True, False, None])
    if kind < 6:
        return dice.choice(["object", "array", "uuid", "^(a+)+$", "[", 5])
    if kind < 8:
        names = ["type", "properties", "items", "required", "enum", "pattern", "format", "$ref", "minimum", "maxLength",
                 "Records", "s3", "object", "key", "bucket", "eventName", "Message", "body", "detail", "allOf", "not", "\u0000x"[1:]]
        return {dice.choice(names): value_of(dice, depth + 1) for _ in range(dice.randrange(0, 6))}
    return [value_of(dice, depth + 1) for _ in range(dice.randrange(0, 5))]


def search(dice):
    pieces = SEARCH_RIGHT if dice.random() < 0.4 else SEARCH
    return "SELECT * FROM search_segments(%s, NULL, %s)", (text_of(dice, pieces), dice.choice([50, 0, -1, 5000]))


def cron(dice):
    fields = CRON_RIGHT if dice.random() < 0.4 else CRON
    expression = " ".join(dice.choice(fields) for _ in range(dice.choice([5, 5, 5, 5, 4, 6])))
    if dice.random() < 0.2:
        expression = text_of(dice, CRON)
    zone = dice.choice(ZONES) if dice.random() < 0.3 else "Europe/Berlin"
    return "SELECT * FROM next_crons(%s, %s, 3)", (expression, zone)


def store_event(dice):
    return "SELECT accept_object_event(%s::jsonb)", (json.dumps(value_of(dice)),)


def trigger(dice):
    return ("INSERT INTO job_triggers (name, event, action, target, payload) VALUES (%s, %s, 'job', 'sample', %s)",
            (dice.choice([f"trigger-{dice.getrandbits(40)}", text_of(dice, ["a", "trigger"])]), dice.choice(["order.paid", text_of(dice, ["order.paid", "x", "."])]),
             json.dumps(dice.choice([value_of(dice), {"n": "{{event.data.n}}"}, {}]))))


def workflow(dice):
    if dice.random() < 0.3:
        right = [{"key": "a", "job_type": "sample"}, {"key": "b", "job_type": "ocr", "depends_on": ["a"], "params": {}}]
        if dice.random() < 0.7:
            dice.choice(right)[dice.choice(["key", "job_type", "depends_on", "params", "when"])] = value_of(dice)
        return ("INSERT INTO workflows (name, steps) VALUES (%s, %s)",
                (f"workflow_{dice.getrandbits(40)}", json.dumps(right)))
    steps = [{"key": dice.choice(["a", "b", "c", text_of(dice, ["a", "b"])]), "job_type": "sample",
              "depends_on": dice.choice([[], [], ["a"], value_of(dice)]),
              "params": dice.choice([{}, {}, value_of(dice)])} for _ in range(dice.randrange(0, 4))]
    return ("INSERT INTO workflows (name, steps) VALUES (%s, %s)",
            (dice.choice([f"workflow_{dice.getrandbits(40)}", text_of(dice, ["w", "x"])]), json.dumps(steps if dice.random() < 0.8 else value_of(dice))))


def command(dice):
    definition = {"key": dice.choice(["a-key", "", "A b"]), "argv": ["/bin/true", text_of(dice, ["{{args.x}}", "x"])],
                  "payload_schema": dice.choice([value_of(dice), {"properties": {"x": {"type": "string"}}}])}
    return "SELECT define_command(%s::jsonb)", (json.dumps(definition if dice.random() < 0.8 else value_of(dice)),)


def clip(dice):
    return ("SELECT * FROM request_clip(%s::uuid, %s, %s)",
            (VIDEO, dice.choice([0, 0, -1, 2**31 - 1, 500]), dice.choice([0, 1000, 2000, 2**31 - 1])))


@pytest.fixture
def library(sql):
    """A video with a few lines, so that a search has something to look through."""
    cursor = sql.cursor()
    cursor.execute("INSERT INTO videos (id, status, s3_original_path, duration) VALUES (%s, 'ready', %s, 10)",
                   (VIDEO, f"videos/original/{VIDEO}/master.mp4"))
    lines = ["the old bridge @ana #tag", "coffee 24.50", "\u039f\u0394\u03a5\u03a3\u03a3\u0395\u03a5\u03a3", "tickets"]
    segments = [{"text": line, "normalized_text": line.lower(), "language": "eng", "confidence": 0.9,
                 "t_start": n * 100, "t_end": n * 100 + 50, "bounding_box": {"x": 1, "y": n, "width": 3, "height": 4},
                 "end_box": None, "entities": []} for n, line in enumerate(lines)]
    cursor.execute("SELECT replace_video_text(%s, %s)", (VIDEO, json.dumps(segments)))
    cursor.execute("SELECT refresh_search_materialized(%s)", (VIDEO,))
    return cursor


@pytest.mark.parametrize("statement", [search, cron, store_event, trigger, workflow, command, clip], ids=lambda f: f.__name__)
def test_strangers_texts_are_answered_or_refused(library, statement):
    dice = random.Random(f"{SEED} {statement.__name__}")
    library.execute(f"SET statement_timeout = {STATEMENT_TIMEOUT_MS}")
    answered = refused = 0
    wrong = []
    for _ in range(STATEMENTS):
        text, values = statement(dice)
        if any("\0" in str(value) for value in values):
            continue
        try:
            library.execute(text, values)
            answered += 1
        except psycopg2.Error as error:
            refused += 1
            state = error.pgcode or "no answer"
            if not state.startswith(REFUSALS) or state in UNCHECKED:
                wrong.append((state, str(error).split("\n", maxsplit=1)[0], values))
    assert answered + refused > STATEMENTS // 2
    assert not wrong, f"seed {SEED}: {len(wrong)} of {STATEMENTS}; first: " + "\n".join(map(repr, wrong[:5]))
    assert answered > STATEMENTS // 50, f"the generator makes too little that is accepted: {answered} of {STATEMENTS}"
    if statement is search:
        assert refused < STATEMENTS // 2, "the generator makes too little that can be searched"
