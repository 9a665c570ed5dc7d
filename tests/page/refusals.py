"""The texts that a refusal may have, as the API's sources have them: SQL functions raise them, and the gateway writes them.
A value in a text is %, as in RAISE, whatever its format is there."""

import json
import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "scripts"))
import openapi  # noqa: E402

API = openapi.document()["components"]["schemas"]

# Conditions whose message the gateway shows (gateway/exchange.c), and one whose message the API's functions for triggers hand on.
SHOWN = {"invalid_parameter_value", "object_not_in_prerequisite_state", "program_limit_exceeded", "configuration_limit_exceeded"}
HANDED_ON = {"job_triggers_before_write": "foreign_key_violation"}
# Functions that raise what another has made, and those that make such texts.
# What refuses files, and the types of errors that are the file's fault.
OPENING = ("recognise/recognise.c", "media/refuse.c", "media/refuse.h", "media/streams.c", "media/demux.c", "media/decode.c",
           "media/subtitles.c",
           "../workers/clip_generate/clip.c", "../workers/clip_generate/reencode.c", "../workers/clip_generate/reel.c")
OF_FILES = "NOT_A_VIDEO|UNSUPPORTED_MEDIA|DECODE|OUTSIDE_VIDEO"
RAISE_OTHERS = {"search_refuse", "check_tenants_trigger", "create_trigger", "change_trigger", "define_command", "set_own_fields"}
MAKE_FAULTS = {"check_clip", "json_schema_fault", "json_schema_defect", "check_tenants_trigger", "plan_command"}

SQL_TEXT = r"'((?:[^']|'')*)'(?:\s*\n\s*'((?:[^']|'')*)')?"  # in two lines at most
C_TEXT = r'"(?:[^"\\\n]|\\.)*"'
C_TEXTS = rf"{C_TEXT}(?:\s+{C_TEXT})*"


def of_sql(parts, values=r"%(?:\d\$)?[sLI]"):
    """The text of a literal. @p values: how they stand in it."""
    return re.sub(values, "%", "".join(parts).replace("''", "'"))


def functions_of_sql():
    for path in sorted((ROOT / "sql").glob("*/*.sql")):
        text = re.sub(r"(?m)^\s*--.*$|\s--\s[^'\n]*$", "", path.read_text())
        for one in re.split(r"(?m)^(?=CREATE (?:OR REPLACE )?(?:FUNCTION|PROCEDURE) )", text)[1:]:
            yield re.match(r"CREATE (?:OR REPLACE )?\w+ (?:\w+\.)?(\w+)", one)[1], one


def raised(name, body):
    """What a function raises for people, and words of its own that it puts into that."""
    statements = re.findall(rf"RAISE EXCEPTION {SQL_TEXT}(.*?);\s*(?=\n|$)", body, re.S)
    assert len(statements) == body.count("RAISE EXCEPTION"), f"{name} raises in a way that is not known here"
    for text, more, rest in statements:
        condition = re.search(r"ERRCODE = '(\w+)'", rest)
        if condition and condition[1] in SHOWN | {HANDED_ON.get(name)}:
            assert re.search("[a-z]", text) or name in RAISE_OTHERS, f"{name} raises what another function has made: which one?"
            yield of_sql((text, more), "%")
            for words in re.findall(r"(?:THEN|ELSE) '(\D+?)'|coalesce\([^;]*?, '(\D+?)'\)", rest.split("USING")[0]):
                yield "".join(words)


def made(name, body):
    """What a function makes for another one to raise."""
    for parts in re.findall(rf"search_refuse\((?:format\()?{SQL_TEXT}", body):
        yield of_sql(parts)
    yield from re.findall(r"changed_job\(.*, '([^']+)'\)", body)
    yield from re.findall(r"(?:cron_field\([^,]+, |check_job_size\(|p_place text DEFAULT |replace\(fault, '[^']+', )'([^']+)'", body)
    if name in MAKE_FAULTS:
        for parts in re.findall(rf"format\({SQL_TEXT}", body):
            is_behind_place = name == "json_schema_fault" and re.match("is |has |does ", parts[0])
            yield ("% " if is_behind_place else "") + of_sql(parts)
        for *parts, value in re.findall(rf"THEN {SQL_TEXT}( \|\|)?", body):
            yield of_sql(parts) + ("%" if value else "")


def of_c(literals):
    """The text of literals of C behind each other."""
    return re.sub(r"%(?:\.\d+)?(?:zu|lld|[sdg])", "%", "".join(json.loads(one) for one in re.findall(C_TEXT, literals)))


def of_gateway(source):
    """(kind or None, text) of one of its files: titles have a kind."""
    calls = re.findall(r"exchange_refuse(?:_faults)?\(\s*exchange,\s*[\w.\[\]]+,(.*?)\);", source, re.S)
    assert len(calls) == len(re.findall(r"(?<!void )exchange_refuse(?:_faults)?\(", source)), \
        "a refusal is written in a way that is not known here"
    for kind, title in re.findall(rf"\[REFUSE_\w+\] = \{{\d+, ({C_TEXT}), ({C_TEXT}), \d+\}}", source):
        yield json.loads(kind), json.loads(title)
    details = calls + re.findall(rf"\{{{C_TEXT},\s*REFUSE_\w+,\s*({C_TEXTS})\}}", source)
    details += re.findall(r"needed\[\] = \{(.*?)\};", source, re.S)
    details += re.findall(rf"add_fault\(&?check,[^,]+,((?:{C_TEXT}|[^\",;])+)", source)
    yield from ((None, of_c(one)) for detail in details for one in re.findall(C_TEXTS, detail))


def of_opening(source):
    """What a file of common/media says of files that are no videos."""
    for literals in re.findall(rf"CV_ERROR_(?:{OF_FILES}),\s*({C_TEXTS})|\[[A-Z_]+\] =\s*({C_TEXTS})|"
                               rf"#define CV_MEDIA_\w+ \\\n\s*({C_TEXTS})", source):
        text = of_c("".join(literals))
        if "; " in text:  # says what to do, as all that people see
            yield text


def refusals(known_kinds):
    """Every text that a refusal may have. @p known_kinds: those of problems whose titles the page has words for."""
    found = {*API["JobState"]["enum"], *API["RunStatus"]["enum"]}
    for name, body in functions_of_sql():
        found |= {*raised(name, body), *made(name, body)}
        if name == "skip_waiting_jobs":
            found |= {"skipped: %"} | {"%" + words for words in re.findall(r"(?:THEN|ELSE) '( [a-z ]+)'", body)}
    for path in sorted((ROOT / "gateway").glob("*.c")):
        found |= {text for kind, text in of_gateway(path.read_text()) if kind not in known_kinds}
    for name in OPENING:
        found |= set(of_opening((ROOT / "common" / name).read_text()))
    return {text for text in found if re.search("[a-z]{2}", text)}
