#!/usr/bin/env python3
"""Turns the files of the page into one C source: embed_assets.py FOLDER OUTPUT.c DEPFILE

Each file is kept as it is and compressed, with its media type and an ETag that is its content's hash. The depfile
names every file and folder, so that a new file is noticed without a list of them anywhere. The stylesheets in style/ become
one, style.css, in the order of their names. The first parts of the screens' paths are those of app.js."""

import gzip
import hashlib
import pathlib
import re
import sys

BYTES_A_LINE = 24
SCREEN = re.compile(r"^    \[/\^\\/([a-z-]+)", re.MULTILINE)  # a row of app.js: [/^\/jobs$/, …
TYPES = {".html": "text/html; charset=utf-8", ".js": "text/javascript; charset=utf-8",
         ".css": "text/css; charset=utf-8", ".json": "application/json", ".svg": "image/svg+xml",
         ".txt": "text/plain; charset=utf-8"}


def array(name, data):
    yield f"static const unsigned char {name}[] = {{"
    for start in range(0, len(data), BYTES_A_LINE):
        yield "    " + "".join(f"{byte}," for byte in data[start:start + BYTES_A_LINE])
    yield "};"


def main(folder, output, depfile):
    folder = pathlib.Path(folder)
    entries = sorted(folder.rglob("*"))
    files = {path.relative_to(folder).as_posix(): path.read_bytes() for path in entries if path.suffix in TYPES and path.parent.name != "style"}
    files["style.css"] = b"".join(path.read_bytes() for path in entries if path.parent.name == "style")
    source = ['#include "gateway/assets.h"', ""]
    table = []
    for number, (name, data) in enumerate(sorted(files.items())):  # as strcmp has it
        packed = gzip.compress(data, 9, mtime=0)
        source += [*array(f"plain_{number}", data), *array(f"packed_{number}", packed), ""]
        etag = hashlib.sha256(data).hexdigest()[:20]
        table.append(f'    {{"/{name}", "{TYPES[pathlib.PurePath(name).suffix]}", "{etag}", '
                     f"plain_{number}, {len(data)}, packed_{number}, {len(packed)}}},")
    screens = sorted(set(SCREEN.findall((folder / "app.js").read_text())))
    source += ["const char *const asset_screens[] = {", *(f'    "/{name}",' for name in screens), "    NULL,", "};"]
    source += ["const struct asset assets[] = {", *table, "};",
               f"const size_t asset_count = {len(table)};", ""]
    pathlib.Path(output).write_text("\n".join(source))
    named = " ".join(str(path.resolve()).replace(" ", "\\ ") for path in [folder, *entries])
    pathlib.Path(depfile).write_text(f"{output}: {named}\n")


main(*sys.argv[1:])
