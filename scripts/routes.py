#!/usr/bin/env python3
"""Makes the gateway's table of operations, with the checks of their parameters, of the OpenAPI document.

usage: routes.py openapi.json OUTPUT.c

scripts/openapi.py makes the document. An operation that is not in it does not exist, and a parameter that it does not
name is refused. What this script does not understand of a schema it refuses, so that no check is dropped without a word.
"""
import html
import json
import pathlib
import sys

METHODS = ("get", "post", "put", "patch", "delete", "options")
KNOWN = {"type", "format", "minimum", "maximum", "minLength", "maxLength", "pattern", "enum", "default", "description"}
TYPES = {"string": "TYPE_TEXT", "integer": "TYPE_INTEGER", "number": "TYPE_NUMBER", "boolean": "TYPE_BOOLEAN",
         "object": "TYPE_OBJECT", "array": "TYPE_LIST"}
MIXED = {("integer", "string"): "TYPE_INTEGER_OR_TEXT"}
FORMATS = {"uuid": "TYPE_UUID", "date-time": "TYPE_TIME"}


def quote(text):
    return "NULL" if text is None else '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'


def resolve(document, schema):
    """A schema with what it refers to in it; what stands beside a reference counts more. One that is this or null has the
    types of both."""
    if "oneOf" in schema:
        other, = [resolve(document, each) for each in schema["oneOf"] if each != {"type": "null"}]
        types = other["type"] if isinstance(other["type"], list) else [other["type"]]
        return {**other, **schema, "type": types + ["null"]}
    while "$ref" in schema:
        referred = document["components"]["schemas"][schema["$ref"].rsplit("/", 1)[1]]
        schema = {**referred, **{keyword: value for keyword, value in schema.items() if keyword != "$ref"}}
    return schema


def rule(operation, name, place, schema, required):
    unknown = set(schema) - KNOWN - {"oneOf"}
    types = tuple(kind for kind in ([schema["type"]] if isinstance(schema["type"], str) else schema["type"]) if kind != "null")
    if types == ("object",):
        unknown -= {"properties", "required", "additionalProperties"}  # the operation itself checks its members
    elif types == ("array",):
        unknown -= {"items", "minItems", "maxItems"}  # and its items
    if unknown:
        sys.exit(f"{operation}: {name}: this gateway does not check {', '.join(sorted(unknown))}")
    kind = FORMATS[schema["format"]] if "format" in schema else MIXED[types] if len(types) > 1 else TYPES[types[0]]
    values = ", ".join(quote(value) for value in schema.get("enum", []))
    members = [f".name = {quote(name)}", f".place = {place}", f".type = {kind}",
               f".required = {str(bool(required)).lower()}",
               f".low = {schema.get('minimum', '-INFINITY')}", f".high = {schema.get('maximum', 'INFINITY')}",
               f".shortest = {schema.get('minLength', 0)}", f".longest = {schema.get('maxLength', 'SIZE_MAX')}"]
    if "null" in schema["type"]:
        members.append(".is_nullable = true")
    if "pattern" in schema:
        members.append(f".pattern = {quote(schema['pattern'])}")
    if values:
        members.append(f".values = (const char *const[]){{{values}, NULL}}")
    return "    {" + ", ".join(members) + "},"


def rules_of(document, operation):
    name = operation["operationId"]
    for parameter in operation["parameters"]:
        if parameter["in"] == "header":
            continue  # of a protocol: read where that is spoken
        yield rule(name, parameter["name"], "PLACE_" + parameter["in"].upper(),
                   resolve(document, parameter["schema"]), parameter.get("required"))
    if "requestBody" in operation:
        body = resolve(document, operation["requestBody"]["content"]["application/json"]["schema"])
        if body.get("additionalProperties") is not False:
            sys.exit(f"{name}: a body says additionalProperties false")
        for member, schema in body["properties"].items():
            yield rule(name, member, "PLACE_BODY", resolve(document, schema), member in body["required"])


def statement(function):
    return f"SELECT status, etag, headers, body FROM api.{function}($1::jsonb)"


def schema_words(schema):
    """What a value is, in a few words."""
    if "$ref" in schema:
        return schema["$ref"].rsplit("/", 1)[1]
    kind = schema.get("type", "")
    words = [" or ".join(kind) if isinstance(kind, list) else schema.get("format", kind)]
    words += [f"{word} {schema[name]}" for name, word in (("minimum", "from"), ("maximum", "to"), ("default", "else"))
              if name in schema]
    return ", ".join(words + ([" | ".join(schema["enum"])] if "enum" in schema else []))


def members_of(document, schema, prefix=""):
    """The members of an object, and of the objects in it."""
    for name, member in schema.get("properties", {}).items():
        member = resolve(document, member)
        yield prefix + name, member
        yield from members_of(document, member, f"{prefix}{name}.")


def page_of(document):
    """The document as a page for people: HTML without a style or a script."""
    def row(*cells):
        return "<tr>" + "".join(f"<td>{html.escape(str(cell))}</td>" for cell in cells) + "</tr>"

    lines = ["<!DOCTYPE html><html lang=en><meta charset=utf-8><title>Cortana API</title><h1>Cortana API</h1>",
             f"<p>{html.escape(document['info'].get('description', ''))} <a href={document['servers'][0]['url']}/openapi.json>",
             "The OpenAPI document</a> says the same for programs."]
    tag = None
    for path, methods in document["paths"].items():
        for method in [key for key in methods if key in METHODS]:
            operation = methods[method]
            if operation["tags"] != tag:
                tag = operation["tags"]
                lines += [f"<h1>{html.escape(each['name'])}</h1><p>{html.escape(each['description'])}"
                          for each in document["tags"] if [each["name"]] == tag]
            lines.append(f"<h2 id={operation['operationId']}><code>{method.upper()} {html.escape(path)}</code></h2>"
                         f"<p>{html.escape(operation['summary'])} {html.escape(operation['description'])}<table>")
            lines += [row(each["name"], each["in"] + (", needed" if each.get("required") else ""), schema_words(each["schema"]),
                          each.get("description", "")) for each in operation["parameters"]]
            if "requestBody" in operation:
                body = resolve(document, operation["requestBody"]["content"]["application/json"]["schema"])
                lines += [row(name, "body" + (", needed" if name in body["required"] else ""),
                              schema_words(schema), schema.get("description", ""))
                          for name, schema in members_of(document, body)]
            lines += [row(status, "answer", ", ".join(schema_words(content.get("schema", {"type": kind})) for kind, content in
                                                      response.get("content", {}).items()), response["description"])
                      for status, response in operation["responses"].items() if status < "400"]
            lines.append("</table>")
    lines.append("<h1>What answers hold</h1>")
    for name, schema in document["components"]["schemas"].items():
        lines.append(f"<h2 id={name}>{name}</h2><table>")
        lines += [row(member, schema_words(each), each.get("description", "")) for member, each in
                  schema.get("properties", {}).items()]
        lines.append("</table>")
    return "\n".join(lines)


def bytes_of(name, content):
    lines = [f"const unsigned char {name}[] = {{"]
    lines += ["    " + " ".join(f"{byte}," for byte in content[at:at + 20]) for at in range(0, len(content), 20)]
    return lines + ["};"]


def steps_of(operation):
    """All steps of an operation, as gateway/routes.h names them."""
    own = operation["x-steps"]
    is_open = operation.get("security") == []
    admit = "admit_newcomer" if is_open and own[0] in ("secrets", "sign_out") else "admit"
    body = "bytes" if "upload_write" in own else "body"
    return [f"STEP_{step.upper()}" for step in (admit, "conditions", "length", "form", body, "check", *own)]


def main(source, target):
    document = json.loads(pathlib.Path(source).read_text(encoding="utf-8"))
    base = document["servers"][0]["url"]
    lines = ['#include "gateway/routes.h"', "", "#include <math.h>", ""]
    table = []
    for path, methods in sorted(document["paths"].items()):  # /jobs/summary before /jobs/{id}
        for method in [key for key in methods if key in METHODS]:
            operation = methods[method]
            name = operation["operationId"]
            rules = list(rules_of(document, operation))
            version = operation.get("x-version")
            if rules:
                lines += [f"static const struct rule rules_{name}[] = {{", *rules, "};", ""]
            members = [f'.name = "{name}"', f'.method = "{method.upper()}"', f'.path = "{base}{path}"',
                       f".sql = {quote(statement(name))}",
                       f".rules = {'rules_' + name if rules else 'NULL'}", f".rule_count = {len(rules)}",
                       f".time_limit_ms = {operation.get('x-time-limit-ms', 0)}",
                       f".steps = {{{', '.join(steps_of(operation))}}}",
                       f".is_redacted = {str(operation.get('x-redact', False)).lower()}",
                       f".takes_bytes = {str('STEP_UPLOAD_WRITE' in steps_of(operation)).lower()}",
                       f".is_repeatable = {str('Idempotency-Key' in [one['name'] for one in operation['parameters']]).lower()}",
                       f".is_creation = {str('x-tus' in operation).lower()}",
                       f".has_body = {str('requestBody' in operation).lower()}",
                       f".may_be_known = {str('304' in operation['responses']).lower()}",
                       f".version_sql = {quote(version and statement(version))}",
                       f".least_role = CALLER_{'NOBODY' if operation.get('security') == [] else operation.get('x-role', 'viewer').upper()}",
                       f".rate = RATE_{operation.get('x-rate', 'read' if method == 'get' else 'write').upper()}"]
            table.append("    {" + ", ".join(members) + "},")
    lines += ["const struct operation operations[] = {", *table, "};",
              f"const size_t operation_count = {len(table)};", ""]
    content = json.dumps(document, ensure_ascii=False, separators=(",", ":")).encode()
    page = page_of(document).encode()
    lines += bytes_of("openapi_document", content) + bytes_of("openapi_page", page)
    lines += [f"const size_t openapi_length = {len(content)};", f"const size_t openapi_page_length = {len(page)};", ""]
    pathlib.Path(target).write_text("\n".join(lines), encoding="utf-8")


if __name__ == "__main__":
    main(*sys.argv[1:])
