"""The database's JSON Schema: what of draft 7 it checks, against the official test suite (Debian's
json-schema-test-suite); everything else of it is refused by name when a command is defined."""

import json
import pathlib

import psycopg2
import pytest

SUITE = pathlib.Path("/usr/share/json-schema-test-suite/tests/draft7")
FORMATS = ["uuid", "date-time", "email", "uri"]
CHECKED = ["type", "enum", "const", "minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "minLength",
           "maxLength", "pattern", "minItems", "maxItems", "items", "properties", "additionalProperties",
           "required", "default", *(f"optional/format/{name}" for name in FORMATS)]
# Patterns are PostgreSQL's, where draft 7 means those of ECMA 262.
FILES = [path for path in (SUITE / f"{name}.json" for name in CHECKED) if path.is_file()]
KEYWORDS = {"type", "enum", "const", "minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "minLength",
            "maxLength", "pattern", "format", "minItems", "maxItems", "items", "properties",
            "additionalProperties", "required", "$schema", "$comment", "title", "description", "default",
            "examples"}


def unsupported(schema):
    """Whether a schema uses what is not checked."""
    if not isinstance(schema, dict):
        return False
    return (not schema.keys() <= KEYWORDS or isinstance(schema.get("items"), list)
            or any(map(unsupported, schema.get("properties", {}).values()))
            or unsupported(schema.get("items")) or unsupported(schema.get("additionalProperties"))
            or schema.get("format", "uuid") not in FORMATS)


def test_the_suite_is_there():
    assert len(FILES) >= 20, SUITE


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
def test_the_official_suite(queue, file):
    wrong, checked = [], 0
    for group in json.loads(file.read_text()):
        schema = json.dumps(group["schema"])
        defect = queue.value("SELECT json_schema_defect(%s)", schema)
        if unsupported(group["schema"]):
            assert defect is not None, group["description"]
            continue
        assert defect is None, (group["description"], defect)
        for case in group["tests"]:
            checked += 1
            if "\\u0000" in json.dumps(case["data"]):
                continue  # jsonb holds no NUL: such a payload does not come in
            fault = queue.value("SELECT json_schema_fault(%s, %s)", schema, json.dumps(case["data"]))
            if (fault is None) != case["valid"]:
                wrong.append((group["description"], case["description"], fault))
    assert wrong == [] and checked > 0


@pytest.mark.parametrize("keyword, value", [
    ("$ref", "#"), ("oneOf", [{}]), ("allOf", [{}]), ("not", {}), ("if", {}),
    ("dependencies", {}), ("patternProperties", {}), ("propertyNames", {}), ("contains", {}),
    ("additionalItems", {}), ("uniqueItems", True), ("multipleOf", 2), ("minProperties", 1),
    ("definitions", {}), ("contentEncoding", "base64"), ("unevaluatedItems", False)])
@pytest.mark.parametrize("wrap", [lambda s: s, lambda s: {"properties": {"a": s}}, lambda s: {"items": s},
                                  lambda s: {"additionalProperties": {"properties": {"b": s}}}])
def test_a_keyword_that_is_not_checked_is_refused_by_name(queue, keyword, value, wrap):
    defect = queue.value("SELECT json_schema_defect(%s)", json.dumps(wrap({keyword: value})))
    assert f'the keyword {keyword if keyword.islower() else chr(34) + keyword + chr(34)} is not supported' \
        in defect.replace('"$ref"', "$ref").replace('"not"', "not").replace('"if"', "if")


@pytest.mark.parametrize("schema, value, words", [
    ({"type": "integer"}, "x", "args is a string, not \"integer\""),
    ({"properties": {"days": {"maximum": 5}}}, {"days": 6}, "args.days is more than 5"),
    ({"properties": {"a": {"items": {"maxLength": 1}}}}, {"a": ["b", "cc"]},
     "args.a[1] has more than 1 characters"),
    ({"required": ["x y"]}, {}, "args has no \"x y\""),
    ({"properties": {"id": {"format": "uuid"}}}, {"id": "x"}, "args.id is not in the format uuid"),
    ({"properties": {"at": {"format": "date-time"}}}, {"at": "2026-02-30T10:00:00Z"}, "args.at is not in the format date-time"),
    ({"properties": {"to": {"format": "email"}}}, {"to": "a b@example.org"}, "args.to is not in the format email"),
    ({"properties": {"to": {"format": "uri"}}}, {"to": "no scheme"}, "args.to is not in the format uri"),
    ({"additionalProperties": False}, {"z": 1}, "args.z is not allowed"),
])
def test_a_fault_says_where_and_what(queue, schema, value, words):
    fault = queue.value("SELECT json_schema_fault(%s, %s, 'args')", json.dumps(schema),
                        json.dumps(value))
    assert words in fault


@pytest.mark.parametrize("schema, words", [
    ([], "the schema is a array"), ({"type": "text"}, "there is no type"),
    ({"properties": {"a": {"minimum": "1"}}}, "properties.a.minimum is a string"),
    ({"properties": {"a": {"$ref": "#/definitions/none"}}}, "is not supported"),
    ({"properties": {"a": {"format": "ipv4"}}}, "the schema.properties.a.format is none of"),
    ({"pattern": "("}, "not a regular expression"), ({"minLength": -1}, "is less than 0"),
    ({"items": [{}]}, "items is a array"), ({"required": "x"}, "required"),
])
def test_a_defective_schema_is_refused(queue, schema, words):
    assert words in queue.value("SELECT json_schema_defect(%s)", json.dumps(schema))
    with pytest.raises(psycopg2.errors.InvalidParameterValue, match="command broken"):
        queue.run("INSERT INTO job_definitions (key, description, argv, payload_schema)"
                  " VALUES ('broken', '', '[\"/bin/true\"]', %s)", json.dumps(schema))
