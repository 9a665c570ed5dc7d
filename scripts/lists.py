"""Each list of the program stands once. What has to follow from it somewhere else is compared with it here; scripts/check
prints what is missing."""

import json
import pathlib
import re

import stages

ROOT = pathlib.Path(__file__).resolve().parents[1]


class Tree:
    """The files of the checkout; `changed` has the texts of some, for tests (None: it is not there)."""

    def __init__(self, changed=None):
        self.changed = changed or {}

    def read(self, path):
        text = self.changed[path] if path in self.changed else (ROOT / path).read_text() if (ROOT / path).is_file() else None
        return text or ""

    def find(self, pattern):
        """Paths that match and are there, sorted."""
        found = {str(path.relative_to(ROOT)) for path in ROOT.glob(pattern)} | {
            path for path in self.changed if pathlib.PurePath(path).match(pattern)}
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


def problems(tree=None):
    tree = tree or Tree()
    found = []
    for check in (check_stages, check_entity_types):
        found += check(tree)
    return found
