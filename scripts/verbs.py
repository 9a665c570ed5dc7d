#!/usr/bin/env python3
"""Makes the table of the commands of `cortana`, with the texts of --help, of their descriptions (cli/verbs.toml,
platform/verbs.toml); or pages of the manual.

usage: verbs.py openapi.json FILE.toml... OUTPUT.c
       verbs.py --manual VERSION openapi.json FILE.toml... DIR

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
import textwrap
import tomllib

import routes

MANY = 1000
WIDTH = 80  # columns of --help
OPTION_COLUMN = 24  # where the text of an option begins
VIDEO = "VIDEO is an id or its beginning, a file name with or without the extension, or last."
OF_TEXTS = {"long_lasting", "plain"}  # flags that say which options there are
FLAGS = OF_TEXTS | {"store", "unmigrated", "local", "creates", "dash_words", "remote", "each"}
MEMBERS = {"summary", "text", "options", "words", "login", "flags", "operation", "values", "given", "settings", "columns",
           "fields", "also", "shows", "done", "note", "thing", "run", "completion"}
LOGINS = {
    "upkeep": "Login: a member of cortana_upkeep, cortana_worker or service_role, such as the logins upkeep and fleet of cortana setup.",
    "operator": "Login: a member of cortana_worker or service_role, such as the login fleet of cortana setup.",
    "owner": "Login: the owner of the schema."}
STATUSES = "0 done, 1 failed or nothing found, 64 wrong usage, 130 interrupted.\n"
DATA = re.search(r'CLI_DEFAULT_DATA "(.+)"', (pathlib.Path(__file__).parents[1] / "cli/local/session.h").read_text())[1]
ENVIRONMENT = f"""DATABASE_URL (or PG*) and STORE_URL name the database and the store of all commands but run; else they work on the
installation that run made in {DATA}.
NO_COLOR: no colours."""
COMMANDS = f"""cortana help COMMAND says more, cortana help exit-codes what an exit status means. All commands but run work on the
database of DATABASE_URL (or PG*) and the store of STORE_URL, else on the installation that run made in {DATA} (--data DIR
for another)."""
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


def wrapped(text, indent=0, first=0):
    """The text in lines of at most WIDTH columns; of the first one, `first` are used already. Its line ends are kept."""
    lines = [textwrap.fill(line, WIDTH, initial_indent=" " * (indent if number else first), subsequent_indent=" " * indent,
                           break_long_words=False, break_on_hyphens=False) for number, line in enumerate(text.split("\n"))]
    return "\n".join(lines)[first:] + "\n"


def entry(head, text, column):
    """A name, and behind it, from the column on, what it is."""
    return head + ("\n" + " " * column if len(head) > column - 2 else " " * (column - len(head))) + wrapped(text, column, column)


def shown(option):
    return f"--{option['name']}" + (f" {option['value']}" if option["value"] else "")


def roff(text):
    text = text.replace("\\", "\\e").replace("-", "\\-").replace("\n\n", "\n.PP\n")
    text = re.sub(r"\n(?!\.PP\n)(?<!\n\.PP\n)", "\n.br\n", text)
    return re.sub(r"^([.'])(?!PP$|br$)", r"\\&\1", text, flags=re.MULTILINE) + "\n"


def page(name, summary, body, version):
    """A page of the manual."""
    title = "CORTANA-COMMAND" if name else "CORTANA"
    return (f'.TH {title} 1 "" "cortana-vision {version}" "User Commands"\n.SH NAME\n' + f"cortana {name}".strip().replace(" ", "\\-")
            + " \\- " + roff(summary) + body)


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
        order = {group: number for number, group in enumerate(dict.fromkeys(title.split()[0] for title in self.verbs))}
        # Those of a group stand together.
        self.rows = [self.read(*each) for each in sorted(self.verbs.items(), key=lambda each: order[each[0].split()[0]])]
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
        self.lines += [f"static const struct cli_option {name}[] = {{"]
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

    def read(self, title, verb):
        """What help, the manual and the program need of a command."""
        words = re.match(r"[a-z]+(?: [a-z]+)*(?= |$)", title)[0]
        if title.startswith("completion"):  # its argument is one of these words
            words = "completion"
        arguments = [ARGUMENT.fullmatch(word).groupdict() for word in title[len(words):].split()]
        flags = set(verb.get("flags", "").split())
        unknown = (flags - FLAGS) | (set(verb) - MEMBERS)
        if unknown:
            sys.exit(f"{words}: what is {', '.join(sorted(unknown))}?")
        asks = "operation" in verb or "remote" in flags
        login = verb.get("login", "operator" if asks else "none")
        usage = " ".join("{open}{name}{close}{many}".format(**argument) for argument in arguments)
        text = [long_text(verb["text"])] if "text" in verb else []
        text += [VIDEO] if re.search(r"\bVIDEO\b(?!\|)", usage) else []
        rights = [LOGINS[login]] if login in LOGINS and "local" not in flags else []
        shared = [("progress", "long_lasting" in flags), ("json", "plain" not in flags), ("server", asks), ("common", True)]
        options = list(self.read_options(verb.get("options")))
        return {**verb, "words": words, "allowed": verb.get("words"), "arguments": arguments, "usage": usage, "flags": flags,
                "login": login, "own": options, "summary": joined(verb["summary"]), "text": text, "rights": rights, "options": [
                    *options, *(option for name, is_wanted in shared if is_wanted for option in self.read_options(self.options[name]))]}

    def help_of(self, verb):
        lines = [f"usage: cortana {verb['words']} {verb['usage']}".strip() + " [OPTION…]\n", wrapped(verb["summary"]),
                 *map(wrapped, verb["text"] + verb["rights"]), "Options:\n"]
        return "\n".join(lines) + "".join(
            entry(f"  -{option['letter']}, {shown(option)}" if option["letter"] else f"      {shown(option)}", option["help"], OPTION_COLUMN)
            for option in verb["options"])

    def help_of_group(self, name, summary, text):
        rows = [verb for verb in self.rows if verb["words"].startswith(name + " ")]
        lines = "".join(entry(f"  {verb['words'][len(name) + 1:]} {verb['usage'] or ' '}", verb["summary"], OPTION_COLUMN + 4) for verb in rows)
        return "\n".join([f"usage: cortana {name} [COMMAND] [OPTION…]\n", wrapped(summary), lines, *([wrapped(text)] if text else []),
                          f"cortana {name} COMMAND --help says more about one of them.\n"])

    def help_of_all(self, groups):
        column = 14  # where what a command does begins
        return "\n".join(["usage: cortana COMMAND [ARGUMENT…] [OPTION…]\n",
                          "".join(entry(f"  {verb['words']}", verb["summary"], column) for verb in self.rows if " " not in verb["words"]),
                          "".join(entry(f"  {name}", summary, column) for name, summary, _ in groups), wrapped(joined(COMMANDS))])

    def row(self, verb):
        name, arguments = verb["words"].replace(" ", "_"), verb["arguments"]
        members = [f".name = {quote(verb['words'])}", f".arguments = {quote(verb['usage'])}",
                   f".least = {sum(not argument['open'] for argument in arguments)}",
                   f".most = {MANY if any(argument['many'] for argument in arguments) else len(arguments)}",
                   f".summary = {quote(verb['summary'])}", f".completion = {completion_of(verb.get('completion', verb['usage']))}",
                   f".login = CLI_LOGIN_{verb['login'].upper()}", f".run = {verb.get('run', 'cli_request')}",
                   f".help = {quote(self.help_of(verb))}", f".options = options_{name}"]
        members += [f".{flag} = true" for flag in sorted(verb["flags"] - OF_TEXTS)]
        members += [f".{member} = {quote(joined(verb[member]))}" for member in
                    ("operation", "settings", "shows", "done", "note", "thing") if member in verb]
        members += [f".words = {quote(joined(verb['allowed'] or ''))}"] * bool(verb["allowed"])
        values = joined(verb["values"]) if "values" in verb else self.values_of(verb, verb["own"], arguments) if "operation" in verb else ""
        members += [f".values = {quote(values)}"] * bool(values)
        self.put_options(f"options_{name}", verb["options"])
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
        rows = [self.row(verb) for verb in self.rows]
        groups = [(name, joined(text if isinstance(text, str) else text[0]), "" if isinstance(text, str) else joined(text[1]))
                  for name, text in self.groups.items()]
        self.lines += ["const struct cli_verb cli_verbs[] = {", *rows, "};", f"const size_t cli_verb_count = {len(rows)};",
                       "const struct cli_group cli_groups[] = {",
                       *(f"    {{{quote(group[0])}, {quote(group[1])}, {quote(self.help_of_group(*group))}}}," for group in groups),
                       "};", f"const size_t cli_group_count = {len(groups)};",
                       f"const char cli_help[] = {quote(self.help_of_all(groups))};", ""]
        return "\n".join(self.lines)

    def pages(self, version):
        """The pages of the manual, by their file's names."""
        body = ".SH SYNOPSIS\n\\fBcortana\\fR COMMAND [ARGUMENT…] [OPTION…]\n.SH COMMANDS\n"
        for verb in self.rows:
            body += f".TP\n\\fB{verb['words']}\\fR {verb['usage']}\n" + roff(verb["summary"])
            options = "".join(".TP\n\\fB" + (f"\\-{option['letter']}\\fR, \\fB" if option["letter"] else "") + "\\-\\-"
                              + option["name"].replace("-", "\\-") + "\\fR" + (f" \\fI{option['value']}\\fR" if option["value"] else "")
                              + "\n" + roff(option["help"]) for option in verb["options"])
            yield f"cortana-{verb['words'].replace(' ', '-')}.1", page(
                verb["words"], verb["summary"], f".SH SYNOPSIS\n\\fBcortana {verb['words']}\\fR {(verb['usage'] + ' [OPTION…]').strip()}\n.SH DESCRIPTION\n"
                + ".PP\n".join(map(roff, (verb["text"] or [verb["summary"]]) + verb["rights"])) + ".SH OPTIONS\n" + options + ".SH EXIT STATUS\n" + STATUSES
                + ".SH SEE ALSO\n.BR cortana (1)\n", version)
        yield "cortana.1", page("", "makes the text on screen in videos searchable", body + ".SH ENVIRONMENT\n" + ENVIRONMENT
                                + "\n.SH EXIT STATUS\n" + STATUSES, version)


def main(*arguments):
    is_manual = arguments[0] == "--manual"
    document, *files, output = arguments[2 * is_manual:]
    table = Table(json.loads(pathlib.Path(document).read_text(encoding="utf-8")), files)
    if not is_manual:
        pathlib.Path(output).write_text(table.text(), encoding="utf-8")
    for name, text in table.pages(arguments[1]) if is_manual else ():
        (pathlib.Path(output) / name).write_text(text, encoding="utf-8")


main(*sys.argv[1:])
