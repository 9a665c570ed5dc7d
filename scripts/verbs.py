#!/usr/bin/env python3
"""Makes the table of the commands of `cortana` of their descriptions (cli/verbs.toml, platform/verbs.toml).

usage: verbs.py openapi.json FILE.toml... OUTPUT.c

A command is a table whose name is its words and its arguments: ["jobs show JOB>id:job"]. [X] may be missing, X… may be
several. Its members are those of struct cli_verb (cli/commands/verb.h), and:

    options    a line each: `-n, --limit N  help`, indented lines go on; a line `...NAME` stands for those of [options]
    columns    [[title, member], ...] of a list; "...NAME": those of [columns]; also.OPERATION: of a further list
    given      parameters of the operation that are always the same
    flags      of struct cli_verb; `plain`: it does not take --json
    login      `operator` if it is left out and the verb asks operations of the API, else `none`

An argument or the value of an option says behind > which parameter of the operation it is, and behind : of which kind (`values`
of struct cli_verb). An option that is called like a parameter needs neither: the API says what it may be. Where `values` are
given, they alone count. Words in [brackets] at the end of an option's help are its allowed values; one that begins with a capital
stands for those of that type of the API. A value named FILE, DIR or VIDEO is completed as such.

In texts a blank line parts paragraphs, and a line that begins with two blanks begins one there, too; four blanks continue it.
"""
import json
import pathlib
import re
import sys
import tomllib

import routes

MANY = 1000
VIDEO = "VIDEO is an id or its beginning, a file name with or without the extension, or last."
FLAGS = {"store", "unmigrated", "local", "creates", "long_lasting", "dash_words", "remote", "each", "plain"}
MEMBERS = {"summary", "text", "options", "words", "login", "flags", "operation", "values", "given", "settings", "columns",
           "fields", "also", "shows", "done", "note", "thing", "run", "completion"}
SHARED = ("common", "json", "server", "progress")  # options of every command, or of those with a flag
OPTION = re.compile(r"(?:-(?P<letter>\w), )?--(?P<name>[\w-]+)(?: (?P<value>[^>:]+?))?(?:>(?P<member>[\w.]+))?(?::(?P<kind>\w+))?"
                    r"  (?P<help>.*?)(?: \[(?P<words>[\w ]+)\])?")
ARGUMENT = re.compile(r"(?P<open>\[?)(?P<name>[^>:\]]+?)(?:>(?P<member>[\w*]+))?(?::(?P<kind>\w+))?(?P<close>\]?)(?P<many>…?)")
KINDS = {"integer": "number", "boolean": "flag", "array": "list", "object": "object", "string": ""}


def joined(text):
    return " ".join(text.split())


def quote(text):
    return routes.quote(text).replace("\n", "\\n")


def long_text(text):
    """Paragraphs, as they are printed: without the line breaks of the file."""
    paragraphs = []
    for paragraph in text.strip("\n").split("\n\n"):
        lines = []
        for line in paragraph.split("\n"):
            if not lines or line.startswith("  ") and not line.startswith("    "):
                lines.append(line.strip())
            else:
                lines[-1] += " " + line.strip()
        paragraphs.append("\n".join(lines))
    return "\n\n".join(paragraphs)


def completion_of(value):
    for name, kind in (("FILE", "FILE"), ("DIR", "FOLDER"), ("VIDEO", "VIDEO")):
        if re.search(rf"\b{name}\b", value or ""):
            return f"CLI_COMPLETE_{kind}"
    return "CLI_COMPLETE_NOTHING"


class Table:
    def __init__(self, document, files):
        self.document, self.options, self.columns, self.groups, self.verbs = document, {}, {}, {}, {}
        self.operations = {operation["operationId"]: operation for methods in document["paths"].values()
                           for method, operation in methods.items() if method in routes.METHODS}
        for file in files:
            rows = tomllib.loads(pathlib.Path(file).read_text(encoding="utf-8"))
            for name in ("options", "columns", "groups"):
                getattr(self, name).update(rows.pop(name, {}))
            self.verbs.update(rows)
        self.lines = []

    def parameters_of(self, operation):
        operation = self.operations[operation]
        found = {each["name"]: each["schema"] for each in operation["parameters"]}
        content = operation.get("requestBody", {}).get("content", {}).get("application/json")
        return found | (routes.resolve(self.document, content["schema"]).get("properties", {}) if content else {})

    def words(self, text):
        """The allowed values, with those of types of the API in the place of their names."""
        return text and " ".join(" ".join(self.document["components"]["schemas"][word]["enum"]) if word[0].isupper() else word
                                 for word in text.split())

    def read_options(self, text):
        for line in re.sub(r"\n +", " ", text.strip()).split("\n") if text else ():
            if line.startswith("..."):
                yield from self.read_options(self.options[line[3:]])
            else:
                yield OPTION.fullmatch(line).groupdict()

    def put_options(self, name, options):
        self.lines += [f"{name}[] = {{"]
        for option in options:
            letter = f"'{option['letter']}'" if option["letter"] else "0"
            self.lines.append(f"    {{{quote(option['name'])}, {letter}, {quote(option['value'])}, {quote(option['help'])}, "
                              f"{completion_of(option['value'])}, {quote(self.words(option['words']))}}},")
        self.lines += ["    {0},", "};"]

    def put_columns(self, name, lists):
        self.lines += [f"static const struct cli_column {name}[] = {{"]
        for columns in lists:
            columns = self.columns[columns[3:]] if isinstance(columns, str) else columns
            self.lines += [f"    {{{quote(member)}, {quote(title)}}}," for title, member in columns] + ["    {0},"]
        self.lines += ["};"]

    def kind_of(self, option, schema):
        schema = routes.resolve(self.document, schema)
        types = schema["type"] if isinstance(schema["type"], list) else [schema["type"]]
        return ("video" if option["value"] == "VIDEO" else "uuid" if schema.get("format") == "uuid" else
                "since" if schema.get("format") == "date-time" else "" if "string" in types else KINDS[types[0]])

    def values_of(self, verb, options, arguments):
        """The operation's parameters: what is always the same, then what options and arguments say."""
        parameters = self.parameters_of(verb["operation"])
        found = ["=" + json.dumps(value) + ">" + name for name, value in verb.get("given", {}).items()]
        for option in options:
            member = option["member"] or option["name"].replace("-", "_")
            if member in parameters:
                kind = option["kind"] or self.kind_of(option, parameters[member])
                found.append(option["name"] + (f">{member}" if member != option["name"] else "") + (f":{kind}" if kind else ""))
            elif option["member"]:
                sys.exit(f"{verb['operation']} has no parameter {member}")
        for number, argument in enumerate(arguments):
            if argument["member"]:
                found.append(f"{number}>{argument['member']}" + (f":{argument['kind']}" if argument["kind"] else ""))
        return " ".join(found)

    def row(self, title, verb):
        words = re.match(r"[a-z]+(?: [a-z]+)*(?= |$)", title)[0]
        if title.startswith("completion"):  # its argument is one of these words
            words = "completion"
        arguments = [ARGUMENT.fullmatch(word).groupdict() for word in title[len(words):].split()]
        usage = " ".join("{open}{name}{close}{many}".format(**argument) for argument in arguments)
        options = list(self.read_options(verb.get("options")))
        flags = set(verb.get("flags", "").split())
        unknown = (flags - FLAGS) | (set(verb) - MEMBERS)
        if unknown:
            sys.exit(f"{words}: what is {', '.join(sorted(unknown))}?")
        asks = "operation" in verb or "remote" in flags
        text = long_text(verb["text"]) if "text" in verb else ""
        if re.search(r"\bVIDEO\b(?!\|)", usage):
            text = f"{text}\n\n{VIDEO}".strip()
        members = [f".name = {quote(words)}", f".arguments = {quote(usage)}",
                   f".least = {sum(not argument['open'] for argument in arguments)}",
                   f".most = {MANY if any(argument['many'] for argument in arguments) else len(arguments)}",
                   f".summary = {quote(joined(verb['summary']))}", f".completion = {completion_of(verb.get('completion', usage))}",
                   f".login = CLI_LOGIN_{verb.get('login', 'operator' if asks else 'none').upper()}",
                   f".run = {verb.get('run', 'cli_request')}"]
        members += [f".{flag} = true" for flag in sorted(flags - {"plain"})] + ([] if "plain" in flags else [".json = true"])
        members += [f".{name} = {quote(joined(verb[name]))}" for name in
                    ("words", "operation", "settings", "shows", "done", "note", "thing") if name in verb]
        values = joined(verb["values"]) if "values" in verb else self.values_of(verb, options, arguments) if "operation" in verb else ""
        members += [f".text = {quote(text)}"] * bool(text) + [f".values = {quote(values)}"] * bool(values)
        name = words.replace(" ", "_")
        if options:
            self.put_options(f"static const struct cli_option options_{name}", options)
            members.append(f".options = options_{name}")
        if "fields" in verb:
            self.put_columns(f"fields_{name}", [verb["fields"]])
            members.append(f".fields = fields_{name}")
        lists = ([verb["columns"]] if "columns" in verb else []) + list(verb.get("also", {}).values())
        if lists:
            self.put_columns(f"columns_{name}", lists)
            members.append(f".columns = columns_{name}")
        if "also" in verb:
            members.append(f".also = {quote(' '.join(verb['also']))}")
        return "    {" + ", ".join(members) + "},"

    def text(self):
        self.lines += ['#include "cli/commands/verbs.h"', ""]
        for name in SHARED:
            self.put_options(f"const struct cli_option cli_{name}_options", self.read_options(self.options[name]))
        # Those of a group stand together.
        order = {group: number for number, group in enumerate(dict.fromkeys(title.split()[0] for title in self.verbs))}
        rows = [self.row(*each) for each in sorted(self.verbs.items(), key=lambda each: order[each[0].split()[0]])]
        groups = [[text] if isinstance(text, str) else text for text in self.groups.values()]
        self.lines += ["const struct cli_verb cli_verbs[] = {", *rows, "};", f"const size_t cli_verb_count = {len(rows)};",
                       "const struct cli_group cli_groups[] = {",
                       *(f"    {{{quote(name)}, {quote(joined(text[0]))}, {quote(joined(text[1]) if len(text) > 1 else None)}}},"
                         for name, text in zip(self.groups, groups)),
                       "};", f"const size_t cli_group_count = {len(groups)};", ""]
        return "\n".join(self.lines)


def main(document, *files):
    table = Table(json.loads(pathlib.Path(document).read_text(encoding="utf-8")), files[:-1])
    pathlib.Path(files[-1]).write_text(table.text(), encoding="utf-8")


main(*sys.argv[1:])
