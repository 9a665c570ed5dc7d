#!/usr/bin/env python3
"""Makes the OpenAPI document of the descriptions in gateway/operations, and the table of operations in docs/api.md.

usage: openapi.py FILE.toml... OUTPUT.json    the document
       openapi.py                             the table; scripts/check says when it is not what it should be

gateway/operations/README.md says how an operation is described. What this script does not understand it refuses, so that
nothing of a description is dropped without a word.
"""
import json
import pathlib
import re
import sys
import tomllib

import lists

MANUAL = "docs/api.md"
HEADING = "## All operations\n"  # the last one
OF_THE_GATEWAY = {"agent", "document", "page", "provider_ask", "tus"}  # steps that ask no function
OF_STEPS = {"finish_upload"}  # functions that the gateway calls after others
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
MEMBERS = {"route", "summary", "description", "example", "role", "parameters", "headers", "body", "answers", "refusals", "version", "conditional",
           "steps", "rate", "seconds", "redact", "tus", "tool", "next"}


class Fault(Exception):
    """What is wrong with a description, and where."""


def number_of(text):
    return float(text) if "." in text else int(text)


def word_of(text):
    return {"true": True, "false": False}.get(text, text)


class Notation:
    """Reads the notation of a value."""

    def __init__(self, text, place, types, of_parameters=False):
        self.place, self.types, self.of_parameters, self.tokens, at = place, types, of_parameters, [], 0
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
            self.skip_lines()
            found.append(self.alternative())
        targets = [self.target(each) for each in found]
        return targets if len(found) > 1 and all("enum" in each for each in targets) else found

    def target(self, schema):
        """A schema, or what it refers to."""
        name = schema.get("$ref", "").rsplit("/", 1)[-1]
        return Notation(self.types[name], name, self.types).whole() if name in self.types else schema

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
        if name == "rows":  # of a table of names, as the migrations fill it
            self.need("name", "of")
            return {"type": "string", "enum": lists.rows_of(lists.Tree().sql(), self.need("name"))}
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
                name = self.need("name")
                if name == "object":
                    schema["additionalProperties"] = True
                else:
                    other = Notation(self.types[name], self.place, self.types).whole()
                    schema["required"] += other["required"]
                    schema["properties"] |= other["properties"]
            else:
                name = self.need("name")
                if name in schema["properties"]:
                    raise Fault(f"{self.place}: {name} stands twice")
                is_optional = self.take("sign", "?")
                self.need("sign", ":")
                value = self.value()
                schema["properties"][name] = value if self.of_parameters else with_default_in_words(value)
                schema["required"] += [] if is_optional else [name]
            self.skip_lines()
        return schema


def with_default_in_words(schema):
    """Makers of clients take a member of an object that has the keyword `default` for one that is always there."""
    schema = dict(schema)
    if "default" in schema:
        words = f"{json.dumps(schema.pop('default'))} if left out."
        schema["description"] = f"{schema['description']} {words}" if "description" in schema else words
    return schema


def joined(alternatives):
    """One schema for all of some."""
    others = [each for each in alternatives if each != {"type": "null"}]
    is_nullable = len(others) < len(alternatives)
    words = [word for each in others for word in each.get("enum", [])]
    if len(others) > 1 and all("enum" in each for each in others) or len(others) < len(alternatives) and words:
        others = [{"type": "string", "enum": words + ([None] if is_nullable else [])}]
    types = [each.get("type") for each in others]
    if all(isinstance(kind, str) for kind in types) and len(set(types)) == len(types):
        types += ["null"] if is_nullable else []
        merged = {keyword: value for each in others for keyword, value in each.items()}
        return {**merged, "type": types if len(types) > 1 else types[0]}
    if is_nullable:
        return {"oneOf": others + [{"type": "null"}]}
    return {"anyOf": others} if len(others) > 1 else others[0]


def read(texts):
    """(what common.toml says, the operations by name with their tag, the notations of types by name). `texts`: by path."""
    common, operations, types, tags = {}, {}, {}, []
    for path, text in sorted(texts.items()):
        try:
            content = tomllib.loads(text)
        except tomllib.TOMLDecodeError as error:
            raise Fault(f"{path}: {error}") from error
        subject = pathlib.PurePath(path).stem
        of_file = content.pop("types", {})
        for name in [name for name in of_file if name in types] + [name for name in content if name in operations]:
            raise Fault(f"{path}: {name} stands twice")
        types |= of_file
        if subject == "common":
            common = content
            continue
        tag = subject.replace("_", " ")
        tags.append({"name": tag, "description": content.pop("about")})
        for name, operation in content.items():
            if unknown := set(operation) - MEMBERS:
                raise Fault(f"{path}: {name}: what is {', '.join(sorted(unknown))}?")
            if missing := {"route", "summary", "description", "answers"} - set(operation):
                raise Fault(f"{path}: {name} has no {', '.join(sorted(missing))}")
            operations[name] = {**operation, "tag": tag}
    common["document"]["tags"] = tags
    return common, operations, types


class Examples:
    """Makes an example of each value: of what common.toml gives for the name of a member or parameter, else of the schema."""

    def __init__(self, given, schemas):
        self.given, self.schemas = given, schemas

    def of(self, schema, place):
        """Of the value that `place` names: "Job.state", or "job.wait" of an operation."""
        while "$ref" in schema:
            place = schema["$ref"].rsplit("/", 1)[1] + "." + place.rsplit(".", 1)[-1]
            schema = self.schemas[schema["$ref"].rsplit("/", 1)[1]]
        name = place.rsplit(".", 1)[-1]
        if place in self.given:
            return self.given[place]
        if "enum" in schema:
            return schema["enum"][0]
        if name in self.given["null"]["names"] and "null" in json.dumps(schema):
            return None
        if "properties" in schema and "string" not in schema["type"]:
            return {member: self.of(value, f"{place.split('.')[0]}.{member}")
                    for member, value in schema["properties"].items() if name != "payload" or member == "languages"}
        if "array" in schema.get("type", ()):
            return self.given.get(name + "[]") or [self.of(schema["items"], place)]
        if name in self.given:
            return self.given[name]
        if "oneOf" in schema or "anyOf" in schema:
            return self.of((schema.get("oneOf") or schema["anyOf"])[0], place)
        return self.of_type(schema, place)

    def of_type(self, schema, place):
        if "default" in schema:
            return schema["default"]
        kind = schema.get("format") or schema.get("type")
        kind = kind if isinstance(kind, str) else kind[0]
        if kind not in self.given["types"]:
            raise Fault(f"{place}: common.toml has no example of it")
        value = self.given["types"][kind]
        return max(value, schema.get("minimum", value)) if kind in ("integer", "number") else value

    def add(self, operation, body):
        """To the parameters, the body and the answers of an operation. `body`: what its description gives for the body."""
        name = operation["operationId"]
        for parameter in operation["parameters"]:
            parameter["example"] = self.of(parameter["schema"], f"{name}.{parameter['name']}")
        contents = [operation.get("requestBody", {}).get("content", {})]
        contents += [answer.get("content", {}) for status, answer in operation["responses"].items() if status < "300"]
        for content in contents:
            if "schema" in content.get("application/json", {}):
                schema = content["application/json"]["schema"]
                is_body = content is contents[0]
                content["application/json"]["example"] = body if is_body and body else self.of(schema, name + ".")


def parameters_of(name, operation, types):
    path = operation["route"].split()[1]
    schema, headers = (Notation("{" + operation.get(group, "") + "\n}", name, types, of_parameters=True).whole()
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
    wanted = set(map(str, common["every"].get(steps_of(operation)[0], common["every"]["database"])))
    wanted |= {"404"} if "{id}" in path else set()
    wanted |= {"413", "415"} if "body" in operation else set()
    wanted |= {"409", "422"} if is_repeatable(operation) else set()
    wanted |= {"412"} if "version" in operation else set()
    statuses = {**{status: common["refusals"][status] for status in wanted}, **given}
    return {status: text for status, text in sorted(statuses.items()) if text}  # "": not of this operation


def steps_of(operation):
    return operation.get("steps", ["database"])


def is_repeatable(operation):
    """Whether a request may carry an Idempotency-Key."""
    return operation["route"].startswith("POST ") and steps_of(operation)[0] not in ("agent", "secrets")


def described(name, operation, context):
    """An operation as OpenAPI has it."""
    common, operations, types = context
    method = operation["route"].split()[0]
    headers = "".join(common["headers"][header] + "\n" for header, is_wanted in (
        ("Idempotency-Key", is_repeatable(operation)), ("If-Match", "version" in operation)) if is_wanted)
    operation = {**operation, "headers": headers + operation.get("headers", "")}
    has_version = "version" in operation or any(other.get("version") == name for other in operations.values())
    made = {"operationId": name, "tags": [operation["tag"]], "summary": operation["summary"],
            "description": operation["description"]}
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
    made["responses"] |= {status: {"$ref": f"#/components/responses/refusal_{status}"} if text == common["refusals"][status]
                          else {"description": text, "content": PROBLEM}
                          for status, text in refusals_of(operation, common).items()}
    if role not in ("viewer", "nobody"):
        made["x-role"] = role
    if steps_of(operation)[0] not in ("document", "page", "tus"):
        made["x-time-limit-ms"] = 1000 * operation.get("seconds", 5 if method == "GET" else 10)
    made["x-steps"] = steps_of(operation)
    return made | {f"x-{word}": operation[word] for word in ("rate", "version", "redact", "tus", "tool", "next")
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


def document(texts=None):
    """The OpenAPI document. `texts`: of the descriptions, by path; those of this checkout if left out."""
    context = common, operations, types = read(texts or texts_of(lists.Tree()))
    made = {**common["document"], "paths": {}}
    for name, operation in operations.items():
        method, path = operation["route"].split()
        made["paths"].setdefault(path, {})[method.lower()] = described(name, operation, context)
    schemas = schemas_of(types, made["paths"])
    examples = Examples(common["examples"], schemas)
    for methods in made["paths"].values():
        for operation in methods.values():
            examples.add(operation, operations[operation["operationId"]].get("example"))
    refusals = {f"refusal_{status}": {"description": text, "content": PROBLEM} for status, text in common["refusals"].items()}
    made["components"] = {"securitySchemes": common["securitySchemes"], "responses": refusals, "schemas": schemas}
    return made


def texts_of(tree):
    return {path: tree.read(path) for path in tree.find("gateway/operations/*.toml")}


def with_table(text, made):
    """The manual, with the table of operations as they are now behind its last heading."""
    lines = ["| operation | does | who may |", "| --- | --- | --- |"]
    for path, methods in made["paths"].items():
        for method, operation in methods.items():
            who = "everybody" if operation.get("security") == [] else operation.get("x-role", "viewer")
            lines.append(f"| `{method.upper()} {path}` | {operation['summary']} | {who} |")
    return text[:text.index("\n", text.index(HEADING))] + "\n\n" + "\n".join(lines) + "\n"


def problems(tree=None):
    """What of an operation is missing elsewhere; scripts/check prints it."""
    tree = tree or lists.Tree()
    try:
        made = document(texts_of(tree))
    except Fault as fault:
        yield str(fault)
        return
    if with_table(tree.read(MANUAL), made) != tree.read(MANUAL):
        yield f"{MANUAL}: its table is not that of the operations in gateway/operations: run scripts/openapi.py"
    for path in texts_of(tree):
        if f"'{pathlib.PurePath(path).name}'" not in tree.read("gateway/operations/meson.build"):
            yield f"{path}: gateway/operations/meson.build does not name it"
    functions = set(re.findall(r"^CREATE FUNCTION api\.(\w+)\(p jsonb\) RETURNS api\.answer$", tree.sql(), re.MULTILINE))
    operations = {operation["operationId"]: operation for methods in made["paths"].values() for operation in methods.values()}
    for name, operation in operations.items():
        if not OF_THE_GATEWAY & {operation["x-steps"][0], operation["x-steps"][-1]} and name not in functions:
            yield f"gateway/operations: no migration makes the function api.{name}(p jsonb)"
    for name in sorted(functions - set(operations) - OF_STEPS):
        yield f"sql/migrations: gateway/operations does not describe api.{name}()"


def main(*arguments):
    try:
        if not arguments:
            manual = lists.ROOT / MANUAL
            manual.write_text(with_table(manual.read_text(encoding="utf-8"), document()), encoding="utf-8")
            return
        made = document({path: pathlib.Path(path).read_text(encoding="utf-8") for path in arguments[:-1]})
    except Fault as fault:
        sys.exit(f"openapi.py: {fault}")
    pathlib.Path(arguments[-1]).write_text(json.dumps(made, ensure_ascii=False, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main(*sys.argv[1:])
