#!/usr/bin/env python3
"""Makes the command line's table of the API's operations: how a request for each is sent over HTTP.

usage: operations.py openapi.json OUTPUT.c
"""
import json
import pathlib
import sys

METHODS = ("get", "post", "put", "patch", "delete")


def row(base, path, method, operation):
    query = " ".join(each["name"] for each in operation["parameters"] if each["in"] == "query")
    return (f'    {{"{operation["operationId"]}", "{method.upper()}", "{base}{path}", "{query}", '
            f'{str("requestBody" in operation).lower()}, {str(operation.get("x-redact", False)).lower()}}},')


def main(source, target):
    document = json.loads(pathlib.Path(source).read_text(encoding="utf-8"))
    base = document["servers"][0]["url"]
    rows = [row(base, path, method, methods[method]) for path, methods in document["paths"].items()
            for method in METHODS if method in methods]
    pathlib.Path(target).write_text("\n".join([
        '#include "cli/commands/operation.h"', "", "const struct cli_operation cli_operations[] = {", *rows, "};",
        f"const size_t cli_operation_count = {len(rows)};", ""]), encoding="utf-8")


main(*sys.argv[1:])
