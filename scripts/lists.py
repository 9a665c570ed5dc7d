"""Each list of the program stands once. What has to follow from it somewhere else is compared with it here; scripts/check
prints what is missing."""

import functools
import json
import pathlib
import re

import stages

ROOT = pathlib.Path(__file__).resolve().parents[1]


@functools.cache
def read_file(path):
    return (ROOT / path).read_text() if (ROOT / path).is_file() else ""


@functools.cache
def find_files(pattern):
    return [str(path.relative_to(ROOT)) for path in ROOT.glob(pattern)]


@functools.cache
def runs_of(line):
    """The lists of words in a line, each as its words."""
    return [set(re.findall(r"[a-z][a-z0-9_]*", run)) - {"or"} for run in RUN.findall(line)]


class Tree:
    """The files of the checkout; `changed` has the texts of some, for tests (None: it is not there)."""

    def __init__(self, changed=None):
        self.changed = changed or {}

    def read(self, path):
        return self.changed[path] or "" if path in self.changed else read_file(path)

    def find(self, pattern):
        """Paths that match and are there, sorted."""
        found = {*find_files(pattern), *(path for path in self.changed if pathlib.PurePath(path).match(pattern))}
        return sorted(path for path in found if self.read(path))

    def sql(self):
        return "".join(self.read(path) for path in self.find("sql/*/*.sql"))


def rows_of(sql, table):
    """The names that migrations insert into a table of names: the first column of each row."""
    names = []
    for statement in re.findall(rf"^INSERT INTO {table} \(name, .*?;\n", sql, re.MULTILINE | re.DOTALL):
        names += re.findall(r"^\s+\('(\w+)', '|\), \('(\w+)', '", statement, re.MULTILINE)
    return [first or second for first, second in names]


def check_stages(tree):
    listed = stages.read(tree.read("stages"))
    registered = rows_of(tree.sql(), "job_types")
    for stage in listed:
        source = "".join(tree.read(path) for path in tree.find(f"{stage.folder}/*.c"))
        if f"executable('{stage.program}'" not in tree.read(f"{stage.folder}/meson.build"):
            yield f"stages: {stage.folder}/meson.build makes no program {stage.program}"
        if f'.job_type = "{stage.job_type}"' not in source:
            yield f"stages: no struct cv_stage in {stage.folder} has the job type {stage.job_type}"
        elif (stage.store == "yes") != bool(re.search("CV_STAGE_NEEDS_STORE|CV_STAGE_RUNS_PROGRAMS", source)):
            yield f"stages: {stage.folder}: `store` is {stage.store}, and its `needs` say the opposite"
        if stage.job_type not in registered:
            yield f"stages: no migration inserts {stage.job_type} into job_types"
    known = {stage.job_type for stage in listed}
    for name in registered:
        if name not in known:
            yield f"sql/migrations: job_types has {name}, which is no stage: add its line to `stages`"
    for path in tree.find("*/*/*.c"):
        for name in re.findall(r"\.needs = .*", tree.read(path)) and re.findall(r'\.job_type = "(\w+)"', tree.read(path)):
            if name not in known:
                yield f"{path}: {name} is no stage: add its line to `stages`"
    for stage in stages.started(listed):
        path = f"install/quadlet/cortana_{stage.name}.container"
        if f"\nExec={stage.program}\n" not in tree.read(path):
            yield f"{path}: does not start {stage.program}: run scripts/stages.py"
    for path, text in stages.files(listed, tree.read).items():
        if tree.read(path) != text:
            yield f"{path}: is not what follows from `stages`: run scripts/stages.py"


def labels_of(tree, prefix):
    """{language: names that have a label in it}"""
    return {path: {key.removeprefix(prefix) for key in json.loads(tree.read(path)) if key.startswith(prefix)}
            for path in tree.find("web/lang/??.json")}


def check_entity_types(tree):
    """A type is a pattern, a row, and a label in each language of the page."""
    found = set(re.findall(r'^    \{"(\w+)", CV_ENTITY_', tree.read("common/text/entity_patterns.c"), re.MULTILINE))
    rows = set(rows_of(tree.sql(), "entity_types"))
    for name in sorted(found - rows):
        yield f"common/text/entity_patterns.c: finds {name}, and no migration inserts it into entity_types"
    for name in sorted(rows - found):
        yield f"sql/migrations: entity_types has {name}, for which common/text/entity_patterns.c has no pattern"
    for path, labels in labels_of(tree, "kind.").items():
        for name in sorted(rows ^ labels):
            yield f"{path}: {'kind.' + name + ' is missing' if name in rows else 'kind.' + name + ' labels no entity type'}"


def words_in(text):
    return re.findall(r"""["'](\w[\w ]*)["']""", text)


def first(pattern, text, what):
    """The quoted words of a list; `pattern` finds it by its place."""
    found = re.search(pattern, text, re.DOTALL)
    if not found:
        raise ValueError(f"scripts/lists.py does not find {what} any more")
    return words_in(found[1])


def true_lists(tree):
    """{name of a list: its words, from the one place where it is decided}"""
    sql, clips = tree.sql(), tree.read("workers/clip_generate/request.c")
    return {
        "entity types": rows_of(sql, "entity_types"),
        "formats of clips": first(r"formats\[\] = {(.*?)};", clips, "the formats of clips"),
        "modes of clips": first(r"modes\[\] = {(.*?)};", clips, "the modes of clips"),
        "formats of exports": first(r"names\[\] = {(.*?)};", tree.read("common/export/export.c"), "the formats of exports"),
        "priorities": words_in(re.search(r"priority_names\(\).*?RETURN jsonb '(.*?)'", sql, re.DOTALL)[1]),
        "states of videos": first(r"TYPE video_status AS ENUM \((.*?)\)", sql, "video_status"),
        "states of jobs": first(r"TYPE job_status AS ENUM \((.*?)\)", sql, "job_status"),
        "states of runs": first(r"TABLE runs .*?status IN \((.*?)\)", sql, "the states of runs"),
        "levels": first(r"event_level AS text CHECK \(VALUE IN \((.*?)\)", sql, "event_level"),
        "kinds of artifacts": first(r"CHECK \(kind IN \((.*?)\)", sql, "the kinds of artifacts"),
        "roles of keys": first(r"role IN \((.*?)\)", sql, "the roles of keys"),
        "ways to catch up": first(r"CHECK \(catch_up IN \((.*?)\)", sql, "the ways to catch up"),
        "actions of triggers": first(r"CHECK \(action IN \((.*?)\)", sql, "the actions of triggers"),
    }


# Types of the API that are such a list, and the labels of the page for each word.
OF_THE_API = {"ClipFormat": "formats of clips", "ClipMode": "modes of clips", "ExportFormat": "formats of exports",
              "VideoStatus": "states of videos", "RunStatus": "states of runs", "Level": "levels", "KeyRole": "roles of keys",
              "CatchUp": "ways to catch up", "TriggerAction": "actions of triggers"}
LABELS = {"states of videos": "status.", "states of runs": "run.", "kinds of artifacts": "file.", "roles of keys": "role."}
# States that the API and the page show besides those of the table: what a job waits for, or what becomes of it.
SHOWN_STATES = {"retry", "stopping", "lost"}
# Where lists are written out again, because each word has a meaning of its own there, or because it is for people.
WRITTEN_OUT = ("cli/*/*.c", "cli/*/*.h", "cli/*.toml", "common/export/*.h", "workers/clip_generate/*.c", "web/parts/*.js", "web/screens/*.js",
               "gateway/operations/*.toml", "sql/*/*.sql")
WORD = r"""["'`]?[a-z][a-z0-9_]*["'`]?"""
RUN = re.compile(rf"{WORD}(?:(?:,\s+or\s|,|\s*\||\s+or\s)\s*{WORD})+|\"[a-z0-9]+(?: [a-z0-9]+)+\"")


def check_copies(tree):
    """A copy lacks a word, or has one too many: as it does when a word is added at the other place alone."""
    lists = true_lists(tree)
    for path in (path for pattern in WRITTEN_OUT for path in tree.find(pattern)):
        for number, line in enumerate(tree.read(path).split("\n"), 1):
            for there in runs_of(line):
                for name in ("entity types", "formats of clips", "formats of exports", "priorities"):
                    wanted = set(lists[name])
                    if len(there & wanted) >= len(wanted) - 1 and there != wanted and (there < wanted or there > wanted):
                        yield f"{path}:{number}: {', '.join(sorted(there ^ wanted))}: not so in the {name}"


def check_api(tree):
    """The types of the API, and the labels of the page, are those of the tables."""
    lists = true_lists(tree)
    operations = "".join(tree.read(path) for path in tree.find("gateway/operations/*.toml"))
    types = {name: words_in(words.split("#")[0]) for name, words in re.findall(r"^(\w+) = '(\"[^'\n]*)'", operations, re.MULTILINE)}
    expected = {kind: set(lists[name]) for kind, name in OF_THE_API.items()}
    expected["JobState"] = set(lists["states of jobs"]) | SHOWN_STATES
    for kind, words in expected.items():
        for word in sorted(words ^ set(types.get(kind, []))):
            yield f"gateway/operations: {kind}: {word} is {'missing' if word in words else 'not known to the database or the program'}"
    labels = {prefix: set(lists[name]) for name, prefix in LABELS.items()} | {"state.": expected["JobState"]}
    for prefix, words in labels.items():
        for path, found in labels_of(tree, prefix).items():
            for word in sorted(words - found):
                yield f"{path}: {prefix}{word} is missing"
    worst = set(first(r"WORST = \[(.*?)\]", tree.read("web/screens/run.js"), "the order of states in web/screens/run.js"))
    for word in sorted(worst ^ expected["JobState"]):
        yield f"web/screens/run.js: WORST: {word} is {'missing' if word not in worst else 'no state'}"


def check_languages(tree):
    """The models with which reading begins are among those that are installed."""
    usual = first(r"usual\[\] = {(.*?)}", tree.read("workers/ocr/reading/models.c"), "the usual models")
    for name in usual:
        if f"tesseract-ocr-{name}\n" not in tree.read("scripts/packages"):
            yield f"scripts/packages: tesseract-ocr-{name} is missing, with which workers/ocr/reading/models.c begins"


def check_places(tree):
    """The page's head knows the screens about work, whose module comes only with them."""
    head = re.search(r"WORK = /\^\\/\((.*?)\)", tree.read("web/app.js"))[1].split("|")
    places = re.findall(r"'/(\w+)'", re.search(r"GROUPS = {(.*?)};", tree.read("web/parts/operate.js"), re.DOTALL)[1])
    for name in sorted({*head} ^ {*places}):
        yield f"web: {name} is {'not in WORK of app.js' if name in places else 'in no group of parts/operate.js'}"


def problems(tree=None):
    tree = tree or Tree()
    found = []
    for check in (check_stages, check_entity_types, check_copies, check_api, check_languages, check_places):
        found += check(tree)
    return found
