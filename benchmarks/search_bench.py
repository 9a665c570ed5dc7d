#!/usr/bin/python3
"""Time of searches over a library of generated lines, and of making one more video searchable.

usage: search_bench.py CONNINFO ROWS [QUERIES]

CONNINFO names an empty, migrated database on this machine that this program may fill. Prints one JSON
object a line. Times are what a client sees; pages are those that one search reads, whatever else the
machine does meanwhile.
"""

import datetime
import io
import json
import multiprocessing
import os
import pathlib
import random
import re
import statistics
import sys
import time
import uuid

import psycopg2

LINES_PER_VIDEO = 500
VIDEOS_PER_COMMIT = 40
LOADERS = 3
GOAL_MS = 50
ALERT_LINES = 5000  # of the video that saved searches are asked of
SAVED_SEARCHES = 10000
ALERTS_GOAL_MS = 1000
VIDEOS = 30         # made searchable, of which the last ten count
CONTINUED = 0.3     # of the lines continue the one above them, as in the feed among the fixtures
NOW = datetime.datetime.now(datetime.timezone.utc)
SEARCH = "SELECT * FROM search_segments(%s, max_results => 20)"
PLATFORMS = ("youtube", "tiktok", "instagram", "upload")
OWNERS = [str(uuid.UUID(int=n + 1)) for n in range(40)]
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
        words = self.some_words(rng.randint(2, 8))
        for common, share in (("the", 0.3), ("and", 0.15)):
            if rng.random() < share:
                words.insert(rng.randrange(len(words)), common)
        text = " ".join(words)
        if kind < 0.06:
            return text + f" @{self.rare_word()}_{rng.randint(1, 99)}"
        if kind < 0.12:
            return text + f" #{self.rare_word()}"
        if kind < 0.16:
            return rng.choice(("reply", "follow", f"{rng.randint(1, 9999)} comments"))
        if kind < 0.19:
            return text + f" ${rng.randint(1, 99)}.{rng.randint(10, 99)}"
        if kind < 0.21:
            return f"https://{self.rare_word()}.org/{self.rare_word()}"
        if kind < 0.31:
            return "".join(rng.choices(HAN, k=rng.randint(4, 16)))
        return text


COLUMNS = {
    "videos": "id, owner_id, original_name, title, platform, created_at",
    "segments": "id, video_id, owner_id, text, normalized_text, text_hash, language, confidence, t_start, t_end",
    "entities": "segment_id, entity_type, value, normalized_value",
    "search_materialized": "segment_id, video_id, owner_id, platform, text, normalized_text, language, confidence,"
                           " t_start, t_end, taken_at, tags, source, continued, continued_by"}


class Rows:
    """Rows of videos, by table, as COPY reads them."""

    def __init__(self):
        self.texts = {table: io.StringIO() for table in COLUMNS}

    def put(self, table, *values):
        self.texts[table].write("\t".join(map(str, values)) + "\n")

    def copy(self, cursor, tables):
        for table in tables:
            self.texts[table].seek(0)
            cursor.copy_expert(f"COPY {table} ({COLUMNS[table]}) FROM STDIN", self.texts[table])


def make_video(lines, rows, count=LINES_PER_VIDEO):
    """Puts the rows of a video in. Returns its id and its lines."""
    rng = lines.random
    new_id = lambda: str(uuid.UUID(int=rng.getrandbits(128), version=4))
    video, owner = new_id(), OWNERS[int(len(OWNERS) * rng.random() ** 2)]
    texts = [lines.line() for _ in range(count)]
    file, title = f"{'_'.join(lines.some_words(2))}.mp4", " ".join(lines.some_words(3))
    platform = rng.choice(PLATFORMS)
    taken_at = NOW - datetime.timedelta(hours=rng.randrange(3 * 365 * 24))
    ids = [new_id() for _ in texts]
    first = 0
    continued = {}      # the first line of a paragraph to those that continue it
    for number in range(1, len(texts)):
        if rng.random() < CONTINUED:
            continued.setdefault(first, []).append(number)
        else:
            first = number
    rows.put("videos", video, owner, file, title, platform, taken_at)
    for number, text in enumerate(texts):
        segment, start = ids[number], 100 * number
        others = continued.get(number)
        tags = sorted(set(re.findall("[#@][a-z_0-9]+", text)))
        read = (rng.choice(("eng", "eng", "deu")), f"{rng.uniform(.6, 1):.3f}", start, start + 1000)
        rows.put("segments", segment, video, owner, text, text, uuid.UUID(segment).hex, *read)
        for tag in tags:
            rows.put("entities", segment, "mention" if tag[0] == "@" else "hashtag", tag, tag)
        rows.put("search_materialized", segment, video, owner, platform, text, text, *read, taken_at,
                 f"{{{','.join(tags)}}}" if tags else "\\N", f"{file}\\n{title}\\n{platform}",
                 "\\n".join(texts[n] for n in others) if others else "\\N",
                 f"{{{','.join(ids[n] for n in others)}}}" if others else "\\N")
    return video, texts


def add_video(cursor, lines):
    """Puts one video's segments and tags in, as the worker leaves them. Returns its id."""
    rows = Rows()
    video, _ = make_video(lines, rows)
    rows.copy(cursor, ("videos", "segments", "entities"))
    return video


def load(conninfo, seed, count):
    """One of several processes that write lines as a refresh leaves them, without triggers."""
    connection, lines = psycopg2.connect(conninfo), Lines(seed)
    with connection.cursor() as cursor:
        cursor.execute("SET session_replication_role = replica")
        for first in range(0, count, VIDEOS_PER_COMMIT * LINES_PER_VIDEO):
            rows = Rows()
            for _ in range(min(VIDEOS_PER_COMMIT, -(-(count - first) // LINES_PER_VIDEO))):
                make_video(lines, rows)
            rows.copy(cursor, COLUMNS)
            connection.commit()
    connection.close()


def fill(connection, conninfo, target):
    """Adds videos until there are `target` lines, and makes the indexes anew."""
    connection.autocommit = True
    with connection.cursor() as cursor:
        cursor.execute("SELECT count(*) FROM search_materialized")
        missing = target - cursor.fetchone()[0]
        cursor.execute(
            "SELECT indexrelid::regclass::text, pg_get_indexdef(indexrelid) FROM pg_index WHERE indrelid = ANY"
            " ('{segments,entities,search_materialized}'::regclass[]) AND NOT indisunique")
        indexes = cursor.fetchall()
        for name, _ in indexes:
            cursor.execute(f"DROP INDEX {name}")
        loaders = [multiprocessing.Process(target=load, args=(conninfo, missing + n, missing // LOADERS))
                   for n in range(LOADERS)]
        for loader in loaders:
            loader.start()
        for loader in loaders:
            loader.join()
            if loader.exitcode != 0:
                sys.exit("a loader failed")
        cursor.execute("SET maintenance_work_mem = '1GB'")
        for _, definition in indexes:
            cursor.execute(definition)
        cursor.execute("SELECT search_remember_words(array_agg(word))"
                       " FROM ts_stat('SELECT document FROM search_materialized')")
        cursor.execute("VACUUM ANALYZE search_materialized, search_words, segments, entities, videos")
    connection.autocommit = False


def milliseconds(function):
    start = time.perf_counter()
    function()
    return 1000 * (time.perf_counter() - start)


def backend_milliseconds(connection):
    """CPU time that the server's process has used for this connection."""
    return int(pathlib.Path(f"/proc/{connection.info.backend_pid}/schedstat").read_text().split()[0]) / 1e6


def one_video(connection, lines):
    """Of making one video of 500 segments searchable: milliseconds, the server's CPU time, pages that it
    touches; medians of ten, after the first ones have brought the index into the server's memory, as in a worker whose
    connection lasts."""
    times, cpu, pages = [], [], []
    with connection.cursor() as cursor:
        for _ in range(VIDEOS):
            video = add_video(cursor, lines)
            connection.commit()
            before = backend_milliseconds(connection)
            times.append(milliseconds(lambda: (cursor.execute(
                "EXPLAIN (ANALYZE, BUFFERS, TIMING OFF, FORMAT JSON) SELECT refresh_search_materialized(%s)",
                (video,)), pages.append(pages_of(cursor)), connection.commit())))
            cpu.append(backend_milliseconds(connection) - before)
    return tuple(statistics.median(values[-10:]) for values in (times, cpu, pages))


def pages_of(cursor):
    plan = cursor.fetchone()[0][0]["Plan"]
    return plan["Shared Hit Blocks"] + plan["Shared Read Blocks"]


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


def query_makers(lines, sample, videos):
    """Name of the suite's case to a function that makes one query."""
    rng = lines.random
    latin = [text for text in sample if text.isascii() and text.count(" ") >= 3 and "://" not in text]
    han = [text for text in sample if not text.isascii()]
    tagged = [text for text in sample if "@" in text or "#" in text]
    platform = lambda: rng.choice(PLATFORMS)

    def words(count):
        """Neighbouring words of a line."""
        of_line = rng.choice(latin).split()
        at = rng.randrange(len(of_line) - count + 1)
        return of_line[at:at + count]

    def long_word():
        return max(rng.choice(latin).split(), key=len)

    def cjk(length):
        text = rng.choice(han)
        at = rng.randrange(len(text) - length)
        return text[at:at + length]

    def unlike(text):
        """What OCR reads in its place."""
        for right, wrong in rng.sample([("o", "0"), ("l", "1"), ("m", "rn"), ("w", "vv"), ("s", "5")], 5):
            text = text.replace(right, wrong, 1)
        return text

    def tag():
        return rng.choice(tagged).split()[-1]

    def of_video(column):
        return f"{lines.words[rng.randrange(300)]} from:" + json.dumps(rng.choice(videos)[column])

    return {
        "a whole line": lambda: rng.choice(latin),
        "a word": lambda: words(1)[0],
        "a word of every third line": lambda: "the",
        "two of the commonest words": lambda: "the and",
        "a phrase": lambda: f'"{" ".join(words(3))}"',
        "a phrase of common words": lambda: f'"{rng.choice(("the", "and"))} {lines.words[rng.randrange(5)]}"',
        "a button's label": lambda: rng.choice(("reply", "follow", "comments")),
        "a typo": lambda: misspell(rng, long_word()),
        "two words with typos": lambda: " ".join(misspell(rng, word) for word in words(2)),
        "what OCR confuses": lambda: unlike(long_word()),
        "joined words": lambda: "".join(words(2)),
        "a word in two": lambda: (lambda word: f"{word[:len(word) // 2]} {word[len(word) // 2:]}")(long_word()),
        "one CJK sign": lambda: cjk(1),
        "two CJK signs": lambda: cjk(2),
        "three CJK signs": lambda: cjk(3),
        "a handle or a hashtag": tag,
        "a prefix of two letters": lambda: lines.rare_word()[:2] + "*",
        "a prefix of four letters": lambda: lines.rare_word()[:4] + "*",
        "a word's middle": lambda: lines.rare_word()[1:6],
        "words of two lines": lambda: f"{words(1)[0]} {words(1)[0]}",
        "exclusion": lambda: f"{lines.words[rng.randrange(50)]} -{lines.words[rng.randrange(50)]} -the",
        "either of two": lambda: f"{words(1)[0]} OR the",
        "from: a file": lambda: of_video(0),
        "from: a title": lambda: of_video(1),
        "from: an id": lambda: of_video(2),
        "from: a platform": lambda: f"{words(1)[0]} from:{platform()}",
        "from: alone": lambda: "from:" + platform(),
        "tag:": lambda: "tag:" + tag(),
        "lang: and a common word": lambda: "the lang:deu",
        "a month of two years ago": lambda: f"{rng.choice(('the', 'and', 'reply'))} after:"
            + (datetime.date.today() - datetime.timedelta(days=730)).isoformat() + " before:"
            + (datetime.date.today() - datetime.timedelta(days=700)).isoformat(),
        "nothing there": lambda: "".join(rng.choices("qxzjkvw", k=12)),
    }


def report(name, value, goal=GOAL_MS, unit="ms"):
    print(json.dumps({"suite": "search", "name": name, "unit": unit, "ours": round(value, 2),
                      "peer": None, "peer_name": None, "ratio": None if goal is None else round(value, 2),
                      "goal": goal, "better": "lower"}), flush=True)


def percentile(values, share):
    return sorted(values)[min(len(values) - 1, int(len(values) * share))]


def measure(connection, name, make, count):
    """Times of `count` queries; pages of a tenth of them."""
    times, cpu, pages = [], [], []
    with connection.cursor() as cursor:
        for number in range(count):
            query = make()
            before = backend_milliseconds(connection)
            times.append(milliseconds(lambda: (cursor.execute(SEARCH, (query,)), cursor.fetchall())))
            cpu.append(backend_milliseconds(connection) - before)
            if number % 10 == 0:
                cursor.execute("EXPLAIN (ANALYZE, BUFFERS, TIMING OFF, FORMAT JSON) " + SEARCH, (query,))
                pages.append(pages_of(cursor))
    report(f"{name}, p50", percentile(times, .5))
    report(f"{name}, p99", percentile(times, .99))
    report(f"{name}, server's CPU, p99", percentile(cpu, .99), None)
    report(f"{name}, pages, most", max(pages), None, "pages")


def measure_users(connection, makers, count):
    """The same as one of many users, by whom little and much of the library is owned."""
    for name, owner in (("who owns much", OWNERS[0]), ("who owns little", OWNERS[-1])):
        with connection.cursor() as cursor:
            cursor.execute("SET ROLE authenticated")
            cursor.execute("SELECT set_config('request.jwt.claims', %s, false)", (json.dumps({"sub": owner}),))
            for case in ("a whole line", "a word", "a word of every third line", "a phrase", "a typo", "a word in two",
                         "a handle or a hashtag", "two CJK signs"):
                measure(connection, f"{case}, a user {name}", makers[case], count)
            cursor.execute("RESET ROLE")


def measure_plans(connection, makers, count):
    """Prepared statements live as long as a connection: the same one for all videos and for one in turn."""
    with connection.cursor() as cursor:
        cursor.execute("SELECT id FROM videos ORDER BY id LIMIT 100")
        videos = [row[0] for row in cursor.fetchall()]
        cursor.execute("PREPARE a_search (text, uuid) AS SELECT * FROM search_segments($1, $2, 20)")
        times = []
        for number in range(count):
            video = videos[number % len(videos)] if number % 2 else None
            query = makers[("a word", "a word of every third line", "a phrase", "a typo")[number // 2 % 4]]()
            times.append(milliseconds(lambda: (
                cursor.execute("EXECUTE a_search (%s, %s)", (query, video)), cursor.fetchall())))
        report("one statement for all videos and for one, p50", percentile(times, .5))
        report("one statement for all videos and for one, p99", percentile(times, .99))


def saved_queries(lines, texts):
    """Name of a mix to a function that makes one saved search, as people write them, of a video with these lines."""
    rng, whole = lines.random, "\n".join(texts)
    latin = [text for text in texts if text.isascii() and text.count(" ") >= 3 and "://" not in text]
    absent = [word for word in lines.words if len(word) > 3 and word not in whole]

    def found():
        """Two words of a line, a phrase, one word, a tag."""
        of_line = [word for word in rng.choice(latin).split() if len(word) > 3] or ["comments"]
        return rng.choice((" ".join(of_line[:2]), f'"{" ".join(of_line[:1])}"', of_line[0], of_line[-1]))

    def missing():
        return rng.choice(("{} {}", '"{} {}"', "{}", "{} OR {}", "{} lang:eng")).format(*rng.sample(absent, 2))

    def apart():
        """Two words that the video has, though no line has both."""
        while True:
            pair = rng.sample(latin, 2)
            words = [max(line.split(), key=len) for line in pair]
            if not any(words[0] in line and words[1] in line for line in texts):
                return " ".join(words)

    return {"the words of none are in it": missing, "1 % find something": lambda: found() if rng.random() < 0.01 else missing(),
            "their words are in it, in other lines": apart, "all find something": found}


def measure_alerts(connection, lines):
    """What saved searches cost a video when it becomes searchable: CPU time of the server."""
    rows = Rows()
    video, texts = make_video(lines, rows, ALERT_LINES)
    with connection.cursor() as cursor:
        rows.copy(cursor, ("videos", "segments", "entities"))
        cursor.execute("SELECT refresh_search_materialized(%s)", (video,))
        connection.commit()
        for name, make in saved_queries(lines, texts).items():
            cursor.execute("INSERT INTO saved_searches (tenant_id, name, query) SELECT owner_id, 'x', q FROM videos, unnest(%s) AS q"
                           " WHERE id = %s", ([make() for _ in range(SAVED_SEARCHES)], video))
            cursor.execute("ANALYZE saved_searches, cortana.saved_search_sides")
            before = backend_milliseconds(connection)
            cursor.execute("SELECT match_saved_searches(%s)", (video,))
            (found,) = cursor.fetchone()
            report(f"{SAVED_SEARCHES:,} saved searches, a video of {ALERT_LINES:,} lines, {name} ({found:,}), server's CPU",
                   backend_milliseconds(connection) - before, ALERTS_GOAL_MS)
            connection.rollback()


def measure_size(connection):
    with connection.cursor() as cursor:
        cursor.execute("SELECT count(*), pg_table_size('search_materialized'),"
                       " pg_relation_size('search_materialized_lookup') FROM search_materialized")
        rows, table, index = cursor.fetchone()
        cursor.execute("SELECT count(*), pg_total_relation_size('search_words') FROM search_words")
        words, words_size = cursor.fetchone()
    report("lines", rows, None, "rows")
    report("table, bytes a line", table / rows, None, "B")
    report("index, bytes a line", index / rows, None, "B")
    report("words", words, None, "rows")
    report("words, bytes a line", words_size / rows, None, "B")


def some_videos(connection):
    with connection.cursor() as cursor:
        cursor.execute("SELECT original_name, title, left(id::text, 8) FROM videos ORDER BY id LIMIT 500")
        return cursor.fetchall()


def some_lines(connection):
    with connection.cursor() as cursor:
        cursor.execute("SELECT text FROM search_materialized TABLESAMPLE SYSTEM (1) REPEATABLE (7) LIMIT 10000")
        return [row[0] for row in cursor.fetchall()]


def main(conninfo, rows, queries=200):
    connection = psycopg2.connect(conninfo)
    lines = Lines(7)
    fill(connection, conninfo, min(rows, 10000))
    small, small_cpu, small_pages = one_video(connection, lines)
    fill(connection, conninfo, rows)
    large, large_cpu, large_pages = one_video(connection, lines)
    report("one video of 500 segments made searchable, small library", small, 500)
    report("one video of 500 segments made searchable, large library", large, 500)
    report("the same, the server's CPU time, small library", small_cpu, None)
    report("the same, the server's CPU time, large library", large_cpu, None)
    report("large library against small, CPU time", large_cpu / small_cpu, None, "ratio")
    report("large library against small, pages touched", large_pages / small_pages, 2, "ratio")
    measure_size(connection)
    measure_alerts(connection, lines)
    makers = query_makers(lines, some_lines(connection), some_videos(connection))
    for name, make in makers.items():
        measure(connection, name, make, queries)
    measure_users(connection, makers, queries)
    measure_plans(connection, makers, queries)
    print(f"search: load of this machine {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores", file=sys.stderr)


if __name__ == "__main__":
    if len(sys.argv) not in (3, 4):
        sys.exit(__doc__)
    main(sys.argv[1], int(sys.argv[2]), *map(int, sys.argv[3:]))
