#!/usr/bin/env python3
"""Turn numbered SQL files into one C source: embed_sql.py OUTPUT.c roles.sql [NNNN_name.sql ...]"""

import pathlib
import re
import sys

BYTES_A_LINE = 20


def read(path):
    text = pathlib.Path(path).read_bytes()
    if not text.strip() or b"\0" in text:
        sys.exit(f"{path}: empty, or holds a NUL")
    text.decode("utf-8")
    return text


def migration(path):
    match = re.fullmatch(r"(\d{4})_([a-z0-9_]+)\.sql", path.name)
    if not match:
        sys.exit(f"{path}: a migration is named NNNN_name.sql")
    return int(match[1]), match[2], read(path)


def lines_of(text):
    for start in range(0, len(text), BYTES_A_LINE):
        yield "    " + " ".join(f"{byte}," for byte in text[start : start + BYTES_A_LINE])


def main(output, roles, *paths):
    migrations = [migration(pathlib.Path(path)) for path in paths]
    versions = [version for version, _, _ in migrations]
    if not versions or versions[0] != 1 or versions != sorted(set(versions)):
        sys.exit(f"migrations must be numbered upwards from 0001, not {versions}")

    # Bytes, because ISO C promises string literals of no more than 4095 characters.
    source = ['#include "common/queue/migrations.h"', "", "#include <stddef.h>", ""]
    source.extend(["static const unsigned char sql_roles[] = {", *lines_of(read(roles)), "    0,", "};",
                   "const char *const cv_roles_sql = (const char *)sql_roles;", ""])
    for version, _, text in migrations:
        source.append(f"static const unsigned char sql_{version}[] = {{")
        source.extend(lines_of(text))
        source.extend(["    0,", "};", ""])
    source.append("const struct cv_migration cv_migrations[] = {")
    for version, name, _ in migrations:
        source.append(f'    {{{version}, "{name}", (const char *)sql_{version}}},')
    source.extend(["    {0, NULL, NULL},", "};", ""])
    pathlib.Path(output).write_text("\n".join(source))


main(*sys.argv[1:])
