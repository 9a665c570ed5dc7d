#!/usr/bin/env python3
"""Makes the table of the tools that agents may call, with the schemas of their arguments, of the OpenAPI document.

usage: mcp_tools.py openapi.json OUTPUT.c
"""
import json
import pathlib
import sys


def whole(document, value):
    """A schema with what it refers to in it."""
    if isinstance(value, list):
        return [whole(document, each) for each in value]
    if not isinstance(value, dict):
        return value
    if "$ref" in value:
        referred = document["components"]["schemas"][value["$ref"].rsplit("/", 1)[1]]
        return whole(document, {**referred, **{word: each for word, each in value.items() if word != "$ref"}})
    return {word: whole(document, each) for word, each in value.items() if word != "example"}


def tool(document, operation, is_read):
    schema = {"type": "object", "properties": {}, "required": [], "additionalProperties": False}
    for parameter in operation["parameters"]:
        if parameter["in"] != "header":
            described = {"description": parameter["description"]} if "description" in parameter else {}
            schema["properties"][parameter["name"]] = whole(document, {**parameter["schema"], **described})
            schema["required"] += [parameter["name"]] if parameter.get("required") else []
    if "requestBody" in operation:
        body = whole(document, operation["requestBody"]["content"]["application/json"]["schema"])
        schema["properties"] |= body["properties"]
        schema["required"] += body["required"]
    return {"name": operation["x-tool"], "title": operation["summary"].rstrip("."),
            "description": f"{operation['summary']} {operation['description']}", "inputSchema": schema,
            "annotations": {"readOnlyHint": is_read, "destructiveHint": False, "openWorldHint": False}}


def bytes_of(text):
    """As numbers, because a compiler limits the length of a text."""
    content = text.encode() + b"\0"
    return ["    " + " ".join(f"{byte}," for byte in content[at:at + 20]) for at in range(0, len(content), 20)]


def main(source, target):
    document = json.loads(pathlib.Path(source).read_text(encoding="utf-8"))
    rows, tools = [], []
    for methods in document["paths"].values():
        for method, operation in methods.items():
            if method != "servers" and "x-tool" in operation:
                following = json.dumps(operation["x-next"]) if "x-next" in operation else "NULL"
                rows.append(f'    {{"{operation["x-tool"]}", "{operation["operationId"]}", {following}}},')
                tools.append(tool(document, operation, method == "get"))
    text = json.dumps({"tools": tools}, ensure_ascii=True, separators=(",", ":"))
    pathlib.Path(target).write_text("\n".join([
        '#include "common/mcp/mcp.h"', "", "const struct mcp_tool mcp_tools[] = {", *rows, "};",
        f"const size_t mcp_tool_count = {len(rows)};", "const char mcp_tools_text[] = {", *bytes_of(text), "};", ""]),
        encoding="utf-8")


main(*sys.argv[1:])
