#!/usr/bin/python3
"""Time of searches over a library of generated lines, and of making one more video searchable.

usage: search_bench.py CONNINFO ROWS [QUERIES]

CONNINFO names an empty, migrated database that this program may fill. Prints one JSON object a line.
"""

import io
import json
import random
import statistics
import sys
import time
import uuid

import psycopg2

LINES_PER_VIDEO = 500
GOAL_MS = 50
SYLLABLES = ("ba be bi bo bu da de di do du fa fe fi ga go ha he hi ja jo ka ke ki ko ku la le li lo lu "
             "ma me mi mo mu na ne ni no nu pa pe po ra re ri ro ru sa se si so su ta te ti to tu va ve "
             "vi wa we wi za ze sch str tr kl br ing ung tion er en").split()
HAN = "東京大阪駅前商店街天気予報今日明日電車時間価格写真動画検索文字画面表示新着情報料理音楽映画会議資料東西南北春夏秋冬"


class Lines:
    """Lines of screens with words by Zipf's law, and some of what is special about screens."""

    def __init__(self, seed, words=60000):
        self.random = random.Random(seed)
        pick = random.Random(1)  # the same vocabulary for every seed
        self.words = sorted({"".join(pick.choices(SYLLABLES, k=pick.randint(1, 4)))
                             for _ in range(words)}, key=lambda word: pick.random())
        total, self.weights = 0.0, []
        for rank in range(len(self.words)):
            total += 1 / (rank + 10)
            self.weights.append(total)

    def some_words(self, count):
        return self.random.choices(self.words, cum_weights=self.weights, k=count)

    def rare_word(self):
        return self.random.choice([w for w in self.random.sample(self.words, 50) if len(w) > 6])

    def line(self):
        kind, rng = self.random.random(), self.random
        text = " ".join(self.some_words(rng.randint(2, 8)))
        if kind < 0.06:
            return text + f" @{self.rare_word()}_{rng.randint(1, 99)}"
        if kind < 0.12:
            return text + f" #{self.rare_word()}"
        if kind < 0.16:
            return f"{rng.randint(1, 9999)} comments"
        if kind < 0.19:
            return text + f" ${rng.randint(1, 99)}.{rng.randint(10, 99)}"
        if kind < 0.21:
            return f"https://{self.rare_word()}.org/{self.rare_word()}"
        if kind < 0.31:
            return "".join(rng.choices(HAN, k=rng.randint(4, 16)))
        return text


def add_video(cursor, lines):
    """Puts one video's segments in, as the OCR stage leaves them. Returns its id and its lines."""
    video = str(uuid.uuid4())
    texts = [lines.line() for _ in range(LINES_PER_VIDEO)]
    cursor.execute("INSERT INTO videos (id, owner_id) VALUES (%s, %s)", (video, str(uuid.uuid4())))
    rows = "".join(f"{video}\t{text}\t{text}\t{uuid.uuid4().hex}\teng\t{lines.random.uniform(.6, 1):.3f}"
                   f"\t{100 * i}\t{100 * i + 1000}\n" for i, text in enumerate(texts))
    cursor.copy_expert("COPY segments (video_id, text, normalized_text, text_hash, language, confidence,"
                       " t_start, t_end) FROM STDIN", io.StringIO(rows))
    return video, texts


def fill(connection, lines, target):
    """Adds videos until there are `target` lines; returns a sample of the lines."""
    sample = []
    with connection.cursor() as cursor:
        cursor.execute("SELECT count(*) FROM search_materialized")
        count = cursor.fetchone()[0]
        while count < target:
            for _ in range(min(40, -(-(target - count) // LINES_PER_VIDEO))):
                _, texts = add_video(cursor, lines)
                sample += lines.random.sample(texts, 5)
                count += LINES_PER_VIDEO
            cursor.execute("SELECT refresh_search_materialized()")
            connection.commit()
    connection.commit()
    connection.autocommit = True
    with connection.cursor() as cursor:
        cursor.execute("VACUUM ANALYZE search_materialized")
    connection.autocommit = False
    return sample


def milliseconds(function):
    start = time.perf_counter()
    function()
    return 1000 * (time.perf_counter() - start)


def one_video(connection, lines):
    """Milliseconds of making one video of 500 segments searchable; median of five."""
    times = []
    with connection.cursor() as cursor:
        for _ in range(5):
            video, _ = add_video(cursor, lines)
            connection.commit()
            times.append(milliseconds(lambda: (
                cursor.execute("SELECT refresh_search_materialized(%s)", (video,)),
                connection.commit())))
    return statistics.median(times)


def misspell(rng, text):
    """One or two errors as eyes, fingers and OCR make them."""
    for _ in range(rng.choice((1, 1, 2))):
        at = rng.randrange(1, max(2, len(text) - 1))
        kind = rng.random()
        if kind < 0.4:
            text = text[:at] + rng.choice("aeiounrst") + text[at + 1:]
        elif kind < 0.7:
            text = text[:at] + text[at + 1:]
        else:
            text = text.replace("o", "0", 1) if "o" in text else text.replace("l", "1", 1)
    return text


def query_makers(lines, sample):
    """Name of the suite's case to a function that makes one query."""
    rng = lines.random
    latin = [text for text in sample if text.isascii() and text.count(" ") >= 3]
    han = [text for text in sample if not text.isascii()]

    def phrase():
        words = rng.choice(latin).split()
        at = rng.randrange(len(words) - 2)
        return '"' + " ".join(words[at:at + 3]) + '"'

    def word():
        return rng.choice(rng.choice(latin).split())

    def fuzzy():
        return misspell(rng, max(rng.choice(latin).split(), key=len))

    def cjk():
        text = rng.choice(han)
        length = rng.choice((1, 2, 2, 3))
        at = rng.randrange(len(text) - length)
        return text[at:at + length]

    def tagged():
        return next(text for text in iter(lambda: rng.choice(sample), None)
                    if "@" in text or "#" in text).split()[-1]

    return {"exact": lambda: rng.choice(latin), "word": word, "phrase": phrase, "fuzzy": fuzzy,
            "cjk": cjk, "handle": tagged, "prefix": lambda: lines.rare_word()[:4] + "*",
            "common": lambda: lines.words[rng.randrange(20)]}


def report(name, value, goal=GOAL_MS, unit="ms", ratio=None):
    print(json.dumps({"suite": "search", "name": name, "unit": unit, "ours": round(value, 2),
                      "peer": None, "peer_name": None, "ratio": round(ratio or value, 2),
                      "goal": goal, "better": "lower"}), flush=True)


def measure_queries(connection, makers, count):
    with connection.cursor() as cursor:
        for name, make in makers.items():
            times = []
            for _ in range(count):
                query = make()
                times.append(milliseconds(lambda: (cursor.execute(
                    "SELECT * FROM search_segments(%s, max_results => 20)", (query,)),
                    cursor.fetchall())))
            times.sort()
            report(f"{name} query, p50", times[len(times) // 2])
            report(f"{name} query, p99", times[min(len(times) - 1, len(times) * 99 // 100)])


def main(conninfo, rows, queries=100):
    connection = psycopg2.connect(conninfo)
    lines = Lines(7)
    fill(connection, lines, min(rows, 10000))
    small = one_video(connection, lines)
    sample = fill(connection, lines, rows)
    if not sample:
        sample = [lines.line() for _ in range(2000)]
    large = one_video(connection, lines)
    report("one video of 500 segments made searchable, small library", small, 500)
    report("one video of 500 segments made searchable, large library", large, 500)
    report("large library against small", large / small, 2, "ratio")
    measure_queries(connection, query_makers(lines, sample), queries)


if __name__ == "__main__":
    if len(sys.argv) not in (3, 4):
        sys.exit(__doc__)
    main(sys.argv[1], int(sys.argv[2]), *map(int, sys.argv[3:]))
