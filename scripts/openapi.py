#!/usr/bin/env python3
"""Makes the OpenAPI document of the descriptions in gateway/operations.

usage: openapi.py FILE.toml... OUTPUT.json

gateway/operations/README.md says how an operation is described. What this script does not understand it refuses, so that
nothing of a description is dropped without a word.
"""
import json
import pathlib
import re
import sys
import tomllib

import lists

FOLDER = pathlib.Path(__file__).resolve().parent.parent / "gateway" / "operations"
BASE = "/api/v1"
TOKEN = re.compile(r"""
    (?P<blank>[ \t]+) | (?P<description>\#[^\n]*) | (?P<newline>\n) | (?P<spread>\.\.\.) |
    (?P<pattern>/\^\S*/(?=[\s,\])}]|$)) | (?P<range>(?:-?\d+(?:\.\d+)?)?\.\.(?:-?\d+(?:\.\d+)?)?) |
    (?P<text>"[^"]*") | (?P<number>-?\d+(?:\.\d+)?) | (?P<name>[A-Za-z_][\w-]*) | (?P<sign>[{}\[\]|?:=,])""", re.VERBOSE)
SIMPLE = {
    "text": {"type": "string"}, "integer": {"type": "integer"}, "number": {"type": "number"},
    "boolean": {"type": "boolean"}, "uuid": {"type": "string", "format": "uuid"},
    "time": {"type": "string", "format": "date-time"}, "object": {"type": "object"}, "any": {},
}
# The keywords of JSON Schema that a range limits, by type.
RANGES = {"integer": ("minimum", "maximum"), "number": ("minimum", "maximum"), "string": ("minLength", "maxLength"),
          "array": ("minItems", "maxItems")}
PROBLEM = {"application/problem+json": {"schema": {"$ref": "#/components/schemas/Problem"}}}
MEMBERS = {"route", "summary", "role", "parameters", "headers", "body", "answers", "refusals", "version", "conditional",
           "handler", "step", "rate", "seconds", "redact", "tus", "bytes"}


class Fault(Exception):
    """What is wrong with a description, and where."""


def number_of(text):
    return float(text) if "." in text else int(text)


def word_of(text):
    return {"true": True, "false": False}.get(text, text)


class Notation:
    """Reads the notation of a value."""

    def __init__(self, text, place, types):
        self.place, self.types, self.tokens, at = place, types, [], 0
        while at < len(text):
            match = TOKEN.match(text, at)
            if not match:
                raise Fault(f"{place}: cannot read {text[at:at + 30]!r}")
            if match.lastgroup != "blank":
                self.tokens.append((match.lastgroup, match[0]))
            at = match.end()
        self.tokens.append(("end", ""))

    def is_next(self, kind, text=None):
        return self.tokens[0][0] == kind and text in (None, self.tokens[0][1])

    def take(self, kind, text=None):
        return self.tokens.pop(0)[1] if self.is_next(kind, text) else None

    def need(self, kind, text=None):
        if not self.is_next(kind, text):
            raise Fault(f"{self.place}: {text or kind} expected before {self.tokens[0][1]!r}")
        return self.take(kind, text)

    def skip_lines(self):
        while self.take("newline") or self.take("sign", ","):
            pass

    def description(self):
        """The text behind #, which goes on in the lines below that have nothing else."""
        lines = []
        while self.is_next("description"):
            lines.append(self.take("description")[1:].strip())
            if self.is_next("newline") and self.tokens[1][0] == "description":
                self.take("newline")
        return {"description": " ".join(lines)} if lines else {}

    def whole(self):
        """One value, to the end of the text."""
        self.skip_lines()
        value = self.value()
        self.skip_lines()
        self.need("end")
        return value

    def value(self):
        """TYPE | TYPE… = DEFAULT # DESCRIPTION"""
        schema = joined(self.alternatives())
        if self.take("sign", "="):
            kind, text = self.tokens.pop(0)
            schema = {**schema, "default": number_of(text) if kind == "number" else word_of(text.strip('"'))}
        return {**schema, **self.description()}

    def alternatives(self):
        found = [self.alternative()]
        while self.take("sign", "|"):
            found.append(self.alternative())
        return found

    def alternative(self):
        if self.is_next("text"):
            return {"type": "string", "enum": [self.take("text").strip('"')]}
        if self.take("sign", "["):
            items = self.value()
            self.need("sign", "]")
            schema = {"type": "array", **({"items": items} if items else {})}
        elif self.take("sign", "{"):
            schema = self.members()
            self.need("sign", "}")
        else:
            schema = self.named(self.need("name"))
        return self.limited(schema)

    def limited(self, schema):
        """With the range and the pattern behind a type."""
        schema = dict(schema)
        if self.is_next("range"):
            limits = self.take("range").split("..")
            if schema.get("type") not in RANGES:
                raise Fault(f"{self.place}: a range behind what has none")
            for keyword, limit in zip(RANGES[schema["type"]], limits):
                if limit:
                    schema[keyword] = number_of(limit)
        if self.is_next("pattern"):
            schema["pattern"] = self.take("pattern")[1:-1]
        return schema

    def named(self, name):
        if name == "null":
            return {"type": "null"}
        if name == "counts":  # how often each of some words occurs
            return {"type": "object", "additionalProperties": {"type": "integer"}}
        if name == "page":  # of a list
            self.need("name", "of")
            return {"$ref": f"#/components/schemas/{self.need('name')}List"}
        if name in SIMPLE:
            return SIMPLE[name]
        if name not in self.types:
            raise Fault(f"{self.place}: there is no type {name}")
        if name[0].isupper():
            return {"$ref": f"#/components/schemas/{name}"}
        return Notation(self.types[name], name, self.types).whole()

    def members(self):
        """NAME: VALUE or NAME?: VALUE in lines of their own, or with commas between them; ...TYPE has all of that type's."""
        schema = {"type": "object", **self.description(), "required": [], "additionalProperties": False, "properties": {}}
        self.skip_lines()
        while not self.is_next("sign", "}") and not self.is_next("end"):
            if self.take("spread"):
                other = Notation(self.types[self.need("name")], self.place, self.types).whole()
                schema["required"] += other["required"]
                schema["properties"] |= other["properties"]
            else:
                name = self.need("name")
                if name in schema["properties"]:
                    raise Fault(f"{self.place}: {name} stands twice")
                is_optional = self.take("sign", "?")
                self.need("sign", ":")
                schema["properties"][name] = self.value()
                schema["required"] += [] if is_optional else [name]
            self.skip_lines()
        return schema


def joined(alternatives):
    """One schema for all of some."""
    others = [each for each in alternatives if each != {"type": "null"}]
    is_nullable = len(others) < len(alternatives)
    words = [word for each in others for word in each.get("enum", [])]
    if words and len(words) == len(others):
        others = [{"type": "string", "enum": words + ([None] if is_nullable else [])}]
    types = [each.get("type") for each in others]
    if all(isinstance(kind, str) for kind in types) and len(set(types)) == len(types):
        types += ["null"] if is_nullable else []
        merged = {keyword: value for each in others for keyword, value in each.items()}
        return {**merged, "type": types if len(types) > 1 else types[0]}
    if is_nullable:
        return {"oneOf": others + [{"type": "null"}]}
    return {"anyOf": others} if len(others) > 1 else others[0]


def words_of(notation):
    """A type that has the names of a table's rows: "rows of TABLE". Others are as they are."""
    table = notation.removeprefix("rows of ")
    if table == notation:
        return notation
    return " | ".join(f'"{name}"' for name in lists.rows_of(lists.Tree().sql(), table))


def read(paths):
    """(what common.toml says, the operations by name with the file's name as "tag", the notations of types by name)"""
    common, operations, types = {}, {}, {}
    for path in sorted(map(pathlib.Path, paths)):
        content = tomllib.loads(path.read_text(encoding="utf-8"))
        of_file = content.pop("types", {})
        for name in [name for name in of_file if name in types] + [name for name in content if name in operations]:
            raise Fault(f"{path}: {name} stands twice")
        types |= {name: words_of(notation) for name, notation in of_file.items()}
        if path.stem == "common":
            common = content
            continue
        for name, operation in content.items():
            if unknown := set(operation) - MEMBERS:
                raise Fault(f"{path}: {name}: what is {', '.join(sorted(unknown))}?")
            operations[name] = {**operation, "tag": path.stem}
    return common, operations, types


def parameters_of(name, operation, types):
    path = operation["route"].split()[1]
    schema, headers = (Notation("{" + operation.get(group, "") + "\n}", name, types).whole()
                       for group in ("parameters", "headers"))
    found = []
    for member in re.findall(r"{(\w+)}", path):
        found.append(("path", member, schema["properties"].pop(member, SIMPLE["uuid"]), True))
    found += [("query", member, value, member in schema["required"]) for member, value in schema["properties"].items()]
    found += [("header", member, value, member in headers["required"]) for member, value in headers["properties"].items()]
    for place, member, value, is_required in found:
        described = {"description": value["description"]} if "description" in value else {}
        yield {"name": member, "in": place, **({"required": True} if is_required else {}), **described,
               "schema": {keyword: each for keyword, each in value.items() if keyword != "description"}}


def answer_of(name, notation, headers, types):
    """An answer that is no refusal: TYPE # DESCRIPTION, or none, or media types with | between them."""
    kind, _, description = (part.strip() for part in notation.partition("#"))
    answer = {"description": description or "Done.", **headers}
    if "/" in kind:
        answer["content"] = {media: {"schema": {"type": "string"}} if media == "text/event-stream" else {}
                             for media in kind.split(" | ")}
    elif kind != "none":
        answer["content"] = {"application/json": {"schema": Notation(kind, name, types).whole()}}
    return answer


def refusals_of(operation, common):
    """The statuses that refuse, with what they say."""
    method, path = operation["route"].split()
    given = operation.get("refusals", {})
    if isinstance(given, list):
        given = {str(status): common["refusals"][str(status)] for status in given}
    wanted = set(map(str, common["every"][operation.get("handler", "database")]))
    wanted |= {"404"} if "{id}" in path else set()
    wanted |= {"413", "415"} if "body" in operation else set()
    wanted |= {"409", "422"} if is_repeatable(operation) else set()
    wanted |= {"412"} if "version" in operation else set()
    statuses = {**{status: common["refusals"][status] for status in wanted}, **given}
    return {status: text for status, text in sorted(statuses.items()) if text}  # "": not of this operation


def is_repeatable(operation):
    """Whether a request may carry an Idempotency-Key."""
    return operation["route"].startswith("POST ") and "handler" not in operation


def described(name, operation, context):
    """An operation as OpenAPI has it."""
    common, operations, types = context
    method = operation["route"].split()[0]
    headers = "".join(common["headers"][header] + "\n" for header, is_wanted in (
        ("Idempotency-Key", is_repeatable(operation)), ("If-Match", "version" in operation)) if is_wanted)
    operation = {**operation, "headers": headers + operation.get("headers", "")}
    has_version = "version" in operation or any(other.get("version") == name for other in operations.values())
    made = {"operationId": name, "tags": [operation["tag"]], "summary": operation["summary"]}
    role = operation.get("role", "viewer")
    if role == "nobody":
        made["security"] = []
    made["parameters"] = list(parameters_of(name, operation, types))
    if "body" in operation:
        made["requestBody"] = {"required": not operation.get("tus", False), "content": {
            "application/json": {"schema": Notation(operation["body"], name, types).whole()}}}
    made["responses"] = {}
    for status, notation in operation["answers"].items():
        etag = {"headers": {"ETag": common["headers"]["ETag"]}} if has_version and status == "200" else {}
        made["responses"][status] = answer_of(name, notation, etag, types)
    if operation.get("conditional"):
        made["responses"]["304"] = {"description": common["headers"]["not_modified"]}
    made["responses"] |= {status: {"description": text, "content": PROBLEM}
                          for status, text in refusals_of(operation, common).items()}
    if role not in ("viewer", "nobody"):
        made["x-role"] = role
    if operation.get("handler") not in ("document", "page", "tus"):
        made["x-time-limit-ms"] = 1000 * operation.get("seconds", 5 if method == "GET" else 10)
    return made | {f"x-{word}": operation[word] for word in ("handler", "step", "rate", "version", "redact", "tus", "bytes")
                   if word in operation}


def schemas_of(types, document):
    """The types that have a name of their own, and the lists of which there are pages."""
    schemas = {name: Notation(notation, name, types).whole() for name, notation in types.items() if name[0].isupper()}
    text = json.dumps([document, schemas])
    for name in sorted(set(re.findall(r'#/components/schemas/(\w+)List"', text))):
        if f"{name}List" not in schemas:
            item = Notation(name, name, types).whole()
            page = Notation(types["page_of_a_list"], "page_of_a_list", types).whole()
            page["properties"]["items"]["items"] = item
            schemas[f"{name}List"] = page
    return schemas


def document(paths=None):
    """The OpenAPI document."""
    context = common, operations, types = read(paths or FOLDER.glob("*.toml"))
    made = {**common["document"], "paths": {}}
    for name, operation in operations.items():
        method, path = operation["route"].split()
        made["paths"].setdefault(path, {})[method.lower()] = described(name, operation, context)
    made["components"] = {"securitySchemes": common["securitySchemes"], "schemas": schemas_of(types, made["paths"])}
    return made


def main(*arguments):
    try:
        made = document(arguments[:-1])
    except (Fault, tomllib.TOMLDecodeError) as fault:
        sys.exit(f"openapi.py: {fault}")
    pathlib.Path(arguments[-1]).write_text(json.dumps(made, ensure_ascii=False, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main(*sys.argv[1:])
