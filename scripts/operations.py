#!/usr/bin/env python3
"""Makes the command line's tables of the API's operations: how a request for each is sent over HTTP, and what the members of
its body are.

usage: operations.py openapi.json OUTPUT.c
"""
import json
import pathlib
import sys

from routes import resolve

METHODS = ("get", "post", "put", "patch", "delete")


def row(base, path, method, operation):
    query = " ".join(each["name"] for each in operation["parameters"] if each["in"] == "query")
    return (f'    {{"{operation["operationId"]}", "{method.upper()}", "{base}{path}", "{query}", '
            f'{str("requestBody" in operation).lower()}, {str(operation.get("x-redact", False)).lower()}}},')


def parameters_of(document, operation):
    """The members of the body, each with its type, its limits and whether it may be null."""
    content = operation.get("requestBody", {}).get("content", {}).get("application/json")
    for name, schema in resolve(document, content["schema"])["properties"].items() if content else ():
        schema = resolve(document, schema)
        types = schema.get("type", "any") if isinstance(schema.get("type"), list) else [schema.get("type", "any")]
        kind = "string" if "string" in types else types[0]
        limits = schema["items"] if kind == "array" else schema
        yield (f'    {{"{operation["operationId"]}", "{name}", "{kind}", {limits.get("minimum", 0)}, '
               f'{limits.get("maximum", 2**53)}, {str("null" in types).lower()}}},')


def main(source, target):
    document = json.loads(pathlib.Path(source).read_text(encoding="utf-8"))
    base = document["servers"][0]["url"]
    operations = [(path, method, methods[method]) for path, methods in document["paths"].items() for method in METHODS if method in methods]
    rows = [row(base, *each) for each in operations]
    parameters = [line for _, _, operation in operations for line in parameters_of(document, operation)]
    pathlib.Path(target).write_text("\n".join([
        '#include "cli/commands/operation.h"', "", "const struct cli_operation cli_operations[] = {", *rows, "};",
        f"const size_t cli_operation_count = {len(rows)};", "",
        "const struct cli_parameter cli_parameters[] = {", *parameters, "};",
        f"const size_t cli_parameter_count = {len(parameters)};", ""]), encoding="utf-8")


main(*sys.argv[1:])
