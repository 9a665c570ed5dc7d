#!/usr/bin/python3
"""Scores of the text found in folders of recordings against their truth: real_bench.py BUILD FOLDER[=SEEN]…

A folder holds NAME.truth.json (in the form of tests/score.py) beside NAME.mp4, .mov, .mkv or .webm; a
folder NAME with a recording and truth.json is taken, too. SEEN says what the recordings were used for: "fitted"
(weights or limits come from them), "looked at" (while the program was changed), or "neither", which is the default and
the figure that counts; a truth that has "seen" says it itself. The means stand apart, "neither" first. --told reads
with the models that a truth lists in "languages"; without it, nobody says in which languages a recording is.

"phrases" is the share of the runs of three words of a true line, typed as they stand on screen, for which
search_segments() has a result from the time of that line. Two characters are a word where a script has no blanks.
"numbers" is the share of the numbers of true lines, with the signs and the units of signs beside them ("+ 4.2 %"), that a
segment of that time has, as words of its own and with the same blanks; dashes are equal. "exact" is the share of lines that
a segment of their time has letter by letter. --lost prints the phrases, numbers and lines that are not found, but nothing of
recordings that were neither fitted nor looked at.

Results of `sample` and `ocr` are kept under --cache by the hash of the program and of its input, so that a
run after a change of one stage repeats that stage alone. Prints a table, or with --json one object a line.
"""
import argparse
import concurrent.futures
import hashlib
import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import unicodedata
import uuid

import psycopg2
from private_cluster import PrivateCluster

SUFFIXES = (".mp4", ".mov", ".mkv", ".webm")
SCORER = pathlib.Path(__file__).resolve().parent.parent / "tests" / "score.py"

def digest(*parts):
    whole = hashlib.sha256()
    for part in parts:
        whole.update(part.encode() if isinstance(part, str) else part)
    return whole.hexdigest()[:24]


SEEN = ("neither", "looked at", "fitted")


class Recording:
    def __init__(self, name, clip, truth, seen):
        self.name, self.clip, self.truth = name, clip, truth
        known = json.loads(truth.read_text())
        self.seen, self.languages = known.get("seen", seen), known.get("languages")


def recordings_of(words, names):
    """The recordings of FOLDER[=SEEN]…; of several folders, names are those of some."""
    found = []
    for word in words:
        folder, _, seen = word.partition("=")
        if seen and seen not in SEEN:
            sys.exit(f"{word}: not one of {', '.join(SEEN)}")
        found += recordings(pathlib.Path(folder), [], seen or SEEN[0])
    unknown = set(names) - {recording.name for recording in found}
    if unknown:
        sys.exit(f"no recording with a truth is named {', '.join(sorted(unknown))}")
    return [recording for recording in found if not names or recording.name in names]


def recordings(folder, names, seen=SEEN[0]):
    """The recordings of a folder that have a truth, by name."""
    found = []
    for truth in sorted(folder.glob("*.truth.json")):
        name = truth.name.removesuffix(".truth.json")
        clips = [folder / (name + suffix) for suffix in SUFFIXES if (folder / (name + suffix)).exists()]
        found += [Recording(name, clip, truth, seen) for clip in clips[:1]]
    for truth in sorted(folder.glob("*/truth.json")):
        clips = [clip for clip in sorted(truth.parent.iterdir()) if clip.suffix in SUFFIXES]
        found += [Recording(truth.parent.name, clip, truth, seen) for clip in clips[:1]]
    unknown = set(names) - {recording.name for recording in found}
    if unknown:
        sys.exit(f"{folder} has no recording with a truth named {', '.join(sorted(unknown))}")
    return [recording for recording in found if not names or recording.name in names]


class Stages:
    def __init__(self, build, cache, told=False):
        self.build, self.cache, self.told = build, cache, told
        self.programs = {stage: build / "workers" / stage / f"{stage}-worker" for stage in ("sample", "ocr")}
        self.hashes = {stage: digest(path.read_bytes()) for stage, path in self.programs.items()}

    def once(self, stage, store, payload):
        """The result of one stage and the CPU seconds that it took."""
        with (tempfile.TemporaryDirectory(prefix="cortana-real-") as scratch,
              tempfile.TemporaryFile("w+") as errors):
            run = subprocess.Popen([self.programs[stage], "--once"], text=True, stdin=subprocess.PIPE,
                                   stdout=subprocess.PIPE, stderr=errors,
                                   env={**os.environ, "STORE_URL": f"dir:{store}", "CORTANA_SCRATCH": scratch,
                                        "OMP_THREAD_LIMIT": "1"})
            run.stdin.write(json.dumps(payload))
            run.stdin.close()
            output = run.stdout.read()
            _, status, used = os.wait4(run.pid, 0)
            run.returncode = os.waitstatus_to_exitcode(status)
            if run.returncode != 0:
                errors.seek(0)
                raise RuntimeError(f"{stage} exited with {run.returncode}: {errors.read()[-2000:]}")
        return json.loads(output), used.ru_utime + used.ru_stime

    def cached(self, name, make):
        path = self.cache / f"{name}.json"
        if not path.exists():
            path.parent.mkdir(parents=True, exist_ok=True)
            written = path.with_suffix(f".{os.getpid()}-{name[:6]}")
            written.write_text(json.dumps(make()))
            written.rename(path)
        return json.loads(path.read_text())

    def detections(self, recording):
        """What `ocr` makes of a recording, with the CPU seconds of both stages."""
        clip = digest(recording.clip.read_bytes())
        sampled_name = digest(self.hashes["sample"], clip)
        store = self.cache / "stores" / sampled_name
        video = str(uuid.uuid5(uuid.NAMESPACE_OID, sampled_name))
        key = f"videos/original/{video}/master{recording.clip.suffix}"

        def sample():
            (store / key).parent.mkdir(parents=True, exist_ok=True)
            (store / key).write_bytes(recording.clip.read_bytes())
            result, cpu = self.once("sample", store, {"video_id": video, "s3_original_path": key})
            return {"result": result, "cpu": cpu}

        told = {"languages": recording.languages} if self.told and recording.languages else {}

        def read():
            frames = sampled["result"]["frames"]
            result, cpu = self.once("ocr", store, {"video_id": video, "frames": frames,
                                                   "frame_paths": [frame["path"] for frame in frames],
                                                   "evidence": True, **told})
            return {"result": result, "cpu": cpu}

        sampled = self.cached(f"sample-{sampled_name}", sample)
        models = os.environ.get("TESSDATA_PREFIX", ""), os.environ.get("CORTANA_LANGUAGES", "")
        found = self.cached(f"ocr-{digest(self.hashes['ocr'], sampled_name, json.dumps([told, models]))}", read)
        return found["result"], sampled["cpu"], found["cpu"]


WORDS = 3  # of a phrase
LONG_MS = 500  # lines that tests/score.py asks for
SLACK_MS = 400  # as there
UNSPACED = re.compile("[\u0e00-\u0e7f\u3040-\u30ff\u3400-\u9fff]{%d,}" % (2 * WORDS))


def phrases_of(text):
    """Each run of three words of a line."""
    words = text.split()
    runs = [" ".join(words[i:i + WORDS]) for i in range(len(words) - WORDS + 1)]
    return runs + [run[i:i + 2 * WORDS] for run in UNSPACED.findall(text) for i in range(0, len(run) - 2 * WORDS + 1, 2)]


DASHES = str.maketrans("\u2010\u2011\u2012\u2013\u2014\u2212", "------")
DIGIT = re.compile(r"\d")


def words_of(text):
    """The words of a text in the form in which numbers are compared."""
    words = unicodedata.normalize("NFKC", text).translate(DASHES).casefold().split()
    return [word.rstrip(",;:.") or word for word in words]


def numbers_of(text):
    """Each run of words that have a digit or are nothing but signs, as one text; those without a digit are left out."""
    runs = [[]]
    for word in words_of(text):
        if DIGIT.search(word) or not any(letter.isalnum() for letter in word):
            runs[-1].append(word)
        else:
            runs.append([])
    return [" ".join(run) for run in runs if DIGIT.search(" ".join(run))]


def count_numbers(truth, segments):
    """How many numbers a recording has, and those that no segment of their time has."""
    texts = [(f" {' '.join(words_of(one['text']))} ", one["t_start"], one["t_end"]) for one in segments]
    asked = [(number, line) for line in truth["lines"] if line["t_end_ms"] - line["t_start_ms"] >= LONG_MS
             for number in numbers_of(line["text"])]
    lost = [number for number, line in asked if not any(
        f" {number} " in text and start <= line["t_end_ms"] + SLACK_MS and end >= line["t_start_ms"] - SLACK_MS
        for text, start, end in texts)]
    return len(asked), sorted(lost)


def count_exact(truth, segments):
    """How many lines a recording has, and those that no segment of their time has letter by letter."""
    texts = [(" ".join(one["text"].split()), one["t_start"], one["t_end"]) for one in segments]
    asked = [line for line in truth["lines"] if line["t_end_ms"] - line["t_start_ms"] >= LONG_MS]
    lost = [line["text"] for line in asked if not any(
        " ".join(line["text"].split()) == text and start <= line["t_end_ms"] + SLACK_MS and end >= line["t_start_ms"] - SLACK_MS
        for text, start, end in texts)]
    return len(asked), sorted(lost)


class Index:
    """segment_index over a database of the benchmark's own."""

    def __init__(self, build, conninfo):
        self.program = build / "workers" / "segment_index" / "segment-index-worker"
        self.environment = {**os.environ, "DATABASE_URL": conninfo}
        self.connection = psycopg2.connect(conninfo)
        self.connection.autocommit = True

    def run(self, statement, *values):
        with self.connection.cursor() as cursor:
            cursor.execute(statement, values)
            return cursor.fetchall() if cursor.description else []

    def phrases(self, video, truth):
        """How many phrases of a recording there are, and those that are not found."""
        lines = [line for line in truth["lines"] if line["t_end_ms"] - line["t_start_ms"] >= LONG_MS]
        asked = {(phrase, line["t_start_ms"], line["t_end_ms"]) for line in lines for phrase in phrases_of(line["text"])}
        found = {}
        for phrase in {phrase for phrase, _, _ in asked}:
            try:
                found[phrase] = self.run("SELECT t_start, t_end FROM search_segments(%s, %s, 200)", phrase, video)
            except psycopg2.errors.InvalidParameterValue:  # it looks like an operator ("from: …") and is refused
                found[phrase] = []
        lost = sorted(phrase for phrase, start, end in asked
                      if not any(t_start <= end + SLACK_MS and t_end >= start - SLACK_MS for t_start, t_end in found[phrase]))
        return len(asked), lost

    def export(self, detections, video=None):
        video = video or str(uuid.uuid4())
        for detection in detections:
            normal = " ".join(unicodedata.normalize("NFKC", detection["text"]).casefold().split())
            detection.update(normalized_text=normal, text_hash=digest(normal))
        self.run("INSERT INTO videos (id, s3_original_path) VALUES (%s, %s)", video, f"{video}.mp4")
        self.run("INSERT INTO pending_readings (video_id, detections) VALUES (%s, %s)", video, json.dumps(detections))
        done = subprocess.run([self.program, "--once"], input=json.dumps({"video_id": video, "pending": True}),
                              text=True, env=self.environment, stdout=subprocess.PIPE, check=True)
        segments = json.loads(done.stdout)["segments"]
        self.run("SELECT replace_video_text(%s, %s)", video, json.dumps(segments))
        entities = [{**entity, "t_start": segment["t_start"], "t_end": segment["t_end"]}
                    for segment in segments for entity in segment["entities"]]
        return {"segments": segments, "entities": entities}


def score(recording, export, folder):
    written = folder / f"{recording.name}.export.json"
    written.write_text(json.dumps(export, ensure_ascii=False, indent=1))
    scored = subprocess.run(["/usr/bin/python3", SCORER, recording.truth, written], check=True,
                            capture_output=True, text=True)
    return json.loads(scored.stdout)


def mean(values):
    values = [value for value in values if value is not None]
    return sum(values) / len(values) if values else 0.0


def share_found(what, all_figures):
    """Of all phrases or numbers of some recordings together; None where there are none."""
    asked, lost = (sum(figures[what][key] for figures in all_figures) for key in ("asked", "lost"))
    return 1 - lost / asked if asked else None


def print_row(name, row):
    print(f"{name:18}" + "".join(f"{value:9.3f}" if isinstance(value, float) else f"{value!s:>9}" for value in row))


COUNTED = ("phrases", "numbers", "exact")  # of which there are so many in a recording, and some are lost
COLUMNS = ["recall", "precision", "per line", *COUNTED, "start95", "end95", "sample s", "ocr s", "read by"]


def print_table(all_rows):
    print(f"{'':18}" + "".join(f"{column:>9}" for column in COLUMNS))
    for seen in SEEN:
        rows = [row[1:] for row in all_rows if row[0].seen == seen]
        if rows:
            print_means(seen, rows)


def print_means(seen, rows):
    for name, figures, sample_cpu, ocr_cpu, models in rows:
        print_row(name, [figures["line_recall"], figures["segment_precision"], figures["segments_per_line"],
                         *(share_found(what, [figures]) for what in COUNTED),
                         figures["t_start_err_ms"]["p95"], figures["t_end_err_ms"]["p95"], sample_cpu, ocr_cpu,
                         f"  {models}"])
    means = [mean([row[1][key] for row in rows]) for key in ("line_recall", "segment_precision", "segments_per_line")]
    times = [mean([row[1][key]["p95"] for row in rows]) for key in ("t_start_err_ms", "t_end_err_ms")]
    print_row(f"mean, {seen}", [*means, *(share_found(what, [row[1] for row in rows]) for what in COUNTED),
                                *times, sum(row[2] for row in rows), sum(row[3] for row in rows)])
    for kind in ("mention", "hashtag", "url", "emoji"):
        entities = [row[1]["entities"][kind] for row in rows]
        want, have = (sum(entity[key] for entity in entities) for key in ("want", "have"))
        if not want and not have:
            continue
        found = sum(entity["recall"] * entity["want"] for entity in entities)
        right = sum((entity["precision"] or 0) * entity["have"] for entity in entities)
        print(f"{kind:18} {found:.0f} of {want} found, {right:.0f} of {have} right")


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("build", type=pathlib.Path)
    parser.add_argument("folders", nargs="+", metavar="FOLDER[=SEEN]")
    parser.add_argument("--only", nargs="+", default=[], metavar="NAME", help="these recordings alone")
    parser.add_argument("--told", action="store_true", help="read with the models that a truth lists")
    parser.add_argument("--cache", type=pathlib.Path,
                        default=pathlib.Path(tempfile.gettempdir()) / f"cortana-real-{os.getuid()}")
    parser.add_argument("--exports", type=pathlib.Path, help="keep NAME.export.json in this folder")
    parser.add_argument("--lost", action="store_true", help="name the phrases that are not found")
    parser.add_argument("--processes", type=int, default=1)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    wanted = recordings_of(options.folders, options.only)
    stages = Stages(options.build.resolve(), options.cache.resolve(), options.told)
    with concurrent.futures.ThreadPoolExecutor(options.processes) as pool:
        found = list(pool.map(stages.detections, wanted))
    rows = []
    with PrivateCluster(options.build.resolve()) as cluster, tempfile.TemporaryDirectory() as folder:
        folder = options.exports or pathlib.Path(folder)
        folder.mkdir(parents=True, exist_ok=True)
        index = Index(options.build.resolve(), cluster.migrated_database())
        for recording, (result, sample_cpu, ocr_cpu) in zip(wanted, found):
            video = str(uuid.uuid4())
            export, truth = index.export(result["detections"], video), json.loads(recording.truth.read_text())
            figures = score(recording, export, folder)
            for what, (asked, lost) in (("phrases", index.phrases(video, truth)),
                                        ("numbers", count_numbers(truth, export["segments"])),
                                        ("exact", count_exact(truth, export["segments"]))):
                figures[what] = {"asked": asked, "lost": len(lost)}
                if options.lost and recording.seen != SEEN[0]:
                    print("".join(f"{recording.name}: {text}\n" for text in lost), end="", file=sys.stderr)
            rows.append((recording, recording.name, figures, sample_cpu, ocr_cpu, result["languages"]))
    if options.json:
        for recording, name, figures, sample_cpu, ocr_cpu, models in rows:
            print(json.dumps({"name": name, "seen": recording.seen, "models": models, "sample_cpu_s": sample_cpu,
                              "ocr_cpu_s": ocr_cpu, **figures}))
    else:
        print_table(rows)


if __name__ == "__main__":
    main()
