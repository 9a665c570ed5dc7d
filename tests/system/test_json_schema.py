"""The database's JSON Schema against the official test suite of draft 7 (Debian's json-schema-test-suite)."""

import json
import pathlib

import psycopg2
import pytest

SUITE = pathlib.Path("/usr/share/json-schema-test-suite/tests/draft7")
FILES = sorted(SUITE.glob("*.json"))
OUTSIDE = "refers to another document, or to a place by another document's address"

# Schemas of the suite that leave their document, and are refused when a definition is written.
LEAVES_THE_DOCUMENT = {
    "ref": {"remote ref, containing refs itself", "Recursive references between schemas",
            "Location-independent identifier with absolute URI",
            "Location-independent identifier with base URI change in subschema",
            "refs with relative uris and defs", "relative refs with absolute uris and defs",
            "$id must be resolved against nearest parent, not just immediate parent"},
    "definitions": {"validate definition against metaschema", "valid definition", "invalid definition"},
    "refRemote": None,  # all of them
}


def is_outside(file, group):
    names = LEAVES_THE_DOCUMENT.get(file.stem, set())
    return names is None or group["description"] in names


def test_the_suite_is_there():
    assert len(FILES) >= 30, SUITE


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
def test_the_official_suite(queue, file):
    wrong = []
    for group in json.loads(file.read_text()):
        schema = json.dumps(group["schema"])
        defect = queue.value("SELECT json_schema_defect(%s)", schema)
        if is_outside(file, group):
            assert defect is not None, (group["description"], OUTSIDE)
            continue
        if defect is not None:
            wrong.append((group["description"], defect))
            continue
        for case in group["tests"]:
            fault = queue.value("SELECT json_schema_fault(%s, %s)", schema, json.dumps(case["data"]))
            if (fault is None) != case["valid"]:
                wrong.append((group["description"], case["description"], fault))
    assert wrong == []


@pytest.mark.parametrize("schema, value, words", [
    ({"type": "integer"}, "x", "args is a string, not \"integer\""),
    ({"properties": {"days": {"maximum": 5}}}, {"days": 6}, "args.days is more than 5"),
    ({"properties": {"a": {"items": {"maxLength": 1}}}}, {"a": ["b", "cc"]},
     "args.a[1] has more than 1 characters"),
    ({"required": ["x y"]}, {}, "args has no \"x y\""),
    ({"additionalProperties": False}, {"z": 1}, "args.z is not allowed"),
    ({"$ref": "#"}, 1, "deeper than 64 levels"),
])
def test_a_fault_says_where_and_what(queue, schema, value, words):
    fault = queue.value("SELECT json_schema_fault(%s, %s, NULL, 'args')", json.dumps(schema),
                        json.dumps(value))
    assert words in fault


@pytest.mark.parametrize("schema, words", [
    ([], "the schema is a array"), ({"type": "text"}, "fits none"),
    ({"properties": {"a": {"minimum": "1"}}}, "properties.a.minimum is a string"),
    ({"$ref": "http://example.org/schema"}, "does not fit the pattern"),
    ({"properties": {"a": {"$ref": "#/definitions/none"}}}, "which it does not have"),
    ({"pattern": "("}, "no regular expression"),
    ({"patternProperties": {"[": {}}}, "no regular expression"),
    ({"multipleOf": 0}, "is not more than 0"), ({"required": "x"}, "required"),
])
def test_a_defective_schema_is_refused(queue, schema, words):
    assert words in queue.value("SELECT json_schema_defect(%s)", json.dumps(schema))
    with pytest.raises(psycopg2.errors.InvalidParameterValue, match="command broken"):
        queue.run("INSERT INTO job_definitions (key, description, argv, payload_schema)"
                  " VALUES ('broken', '', '[\"/bin/true\"]', %s)", json.dumps(schema))
