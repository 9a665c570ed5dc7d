"""Commands: what may be run, who may run it, and how a program's end becomes a job's."""

import json
import os
import signal
import stat
import subprocess
import uuid

import psycopg2
import pytest
from test_row_security import ALICE
from workers import children_of, is_running, wait_until

SCRIPT = """#!/usr/bin/env python3
import json, os, signal, sys, time
what = sys.argv[1]
if what == "tell":
    print(json.dumps({"argv": sys.argv[2:], "environment": dict(os.environ), "cwd": os.getcwd(),
                      "files": sorted(os.listdir("/proc/self/fd")), "stdin": sys.stdin.read()}))
elif what == "exit":
    print("last words", file=sys.stderr)
    sys.exit(int(sys.argv[2]))
elif what == "print":
    sys.stdout.buffer.write(bytes.fromhex(sys.argv[2]))
elif what == "write":
    os.makedirs("outputs/deep")
    open("outputs/deep/a.txt", "w").write(sys.argv[2])
    open("outputs/b.bin", "wb").write(bytes(range(256)) * 8192)
elif what == "read":
    print(json.dumps({os.path.join(at, name): os.path.getsize(os.path.join(at, name))
                      for at, _, names in os.walk("inputs") for name in names}))
elif what == "link":
    os.symlink("/etc/passwd", "outputs/passwd")
elif what == "flood":
    while True:
        sys.stdout.write("x" * 65536)
elif what == "hang":
    if os.fork() == 0:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
    time.sleep(3600)
elif what == "daemon":
    if os.fork() == 0:
        time.sleep(3600)
    print("{}")
elif what == "kill":
    os.kill(os.getpid(), signal.SIGKILL)
"""
TEXT = {"type": "string", "maxLength": 200}


@pytest.fixture
def script(tmp_path):
    path = tmp_path / "script"
    path.write_text(SCRIPT)
    path.chmod(path.stat().st_mode | stat.S_IXUSR)
    return str(path)


def define(queue, key, argv, properties=None, **more):
    schema = {"type": "object", "additionalProperties": False, "properties": properties or {}}
    return queue.value("SELECT define_command(%s)", json.dumps(
        {"key": key, "argv": argv, "payload_schema": schema, **more}))


def plan(queue, key, args=None):
    (row,) = queue.run("SELECT * FROM plan_command(%s)", json.dumps({"command": key, "args": args or {}}))
    return row["argv"]


# ---- templates -----------------------------------------------------------------------------------


def test_a_template_is_filled_exactly(queue):
    define(queue, "copy", ["/bin/cp", {"when": "force", "add": ["-f", "--mode={{args.mode}}"]},
                           "--limit={{args.limit}}", "--", "{{args.files}}", "{{args.target}}"],
           {"force": {"type": "boolean"}, "mode": TEXT, "limit": {"type": "integer"},
            "files": {"type": "array", "items": TEXT}, "target": TEXT})
    assert plan(queue, "copy") == ["/bin/cp", "--"]
    assert plan(queue, "copy", {"force": False, "mode": "x"}) == ["/bin/cp", "--"]
    hostile = ["a b", "$(reboot)", "; rm -rf /", "{{args.target}}", "-rf", "'\"\\", "ü\n"]
    assert plan(queue, "copy", {"force": True, "mode": "-x", "limit": 7, "files": hostile,
                                "target": "*"}) == \
        ["/bin/cp", "-f", "--mode=-x", "--limit=7", "--", *hostile, "*"]


@pytest.mark.parametrize("value", ["-rf", "--help", "-"])
def test_a_value_is_never_an_option(queue, value):
    define(queue, "show", ["/bin/cat", "{{args.file}}"], {"file": TEXT})
    with pytest.raises(psycopg2.errors.InvalidParameterValue, match="begins with a dash"):
        plan(queue, "show", {"file": value})


@pytest.mark.parametrize("argv, words", [
    ([], "less than 1"), (["ls"], "pattern"), (["../bin/ls"], "pattern"), (["/bin/{{args.x}}"], "pattern"),
    (["/bin/ls", 7], r"argv\[1\] is a number"), (["/bin/ls", {"add": []}], "argv has no \"when\""),
    (["/bin/ls", "{{args.unknown}}"], "is not a property"), (["/bin/ls", "{{env.HOME}}"], "is not a property"),
    (["/bin/ls"] * 65, "more than 64"), ("/bin/ls", "is a string"),
])
def test_a_broken_template_is_refused(queue, argv, words):
    with pytest.raises(psycopg2.errors.InvalidParameterValue, match=words):
        define(queue, "broken", argv, {"x": TEXT}) if isinstance(argv, list) else queue.run(
            "INSERT INTO job_definitions (key, description, argv) VALUES ('broken', '', %s)",
            json.dumps(argv))


@pytest.mark.parametrize("payload, words", [
    ({}, "none named"), ({"command": "unknown"}, "there is no command unknown"),
    ({"command": "say", "args": {"word": 7}}, "args.word is a number"),
    ({"command": "say", "args": {"word": "x" * 300}}, "more than 200 characters"),
    ({"command": "say", "args": {"extra": 1}}, "args.extra is not allowed"),
    ({"command": "say", "args": []}, "args is a array"),
    ({"command": "say", "argv": ["/bin/sh"]}, "there is no argv beside"),
    ({"command": "off"}, "not enabled"),
    ({"command": ["say"]}, "there is no command"),
    ({"command": "free", "args": {"x": "y" * 62000}}, "larger than 61440"),
])
def test_what_does_not_fit_never_comes_in(queue, payload, words):
    define(queue, "say", ["/bin/echo", "{{args.word}}"], {"word": TEXT})
    define(queue, "off", ["/bin/true"], is_enabled=False)
    queue.run("INSERT INTO job_definitions (key, description, argv, payload_schema)"
              " VALUES ('free', '', '[\"/bin/true\"]', 'true')")
    for statement in ("SELECT enqueue_job('command', %s)",
                      "SELECT enqueue_jobs('command', ARRAY[%s::jsonb])",
                      "INSERT INTO jobs (job_type, payload) VALUES ('command', %s)"):
        with pytest.raises(psycopg2.errors.InvalidParameterValue, match=words):
            queue.run(statement, json.dumps(payload))
    assert queue.value("SELECT count(*) FROM jobs") == 0


def test_an_application_runs_only_what_is_open_to_it(queue):
    define(queue, "open", ["/bin/true"], is_public=True)
    define(queue, "shut", ["/bin/true"])
    queue.run("SELECT set_config('request.jwt.claims', %s, false)", json.dumps({"sub": str(ALICE)}))
    queue.run("SET ROLE cortana_app")
    assert queue.value("SELECT array_agg(key) FROM job_definitions") == ["open"]
    queue.run("SELECT run_command('open')")
    for statement in ("SELECT run_command('shut')", "SELECT run_command('gc')",
                      "SELECT plan_command('{\"command\": \"open\"}')",
                      "SELECT define_command('{\"key\": \"mine\", \"argv\": [\"/bin/sh\"]}')",
                      "UPDATE job_definitions SET argv = '[\"/bin/sh\"]'",
                      "INSERT INTO job_definitions VALUES ('x', 'x', '[\"/bin/sh\"]')"):
        with pytest.raises(psycopg2.errors.InsufficientPrivilege):
            queue.run(statement)
    queue.run("RESET ROLE")
    assert queue.run("SELECT tenant_id FROM jobs") == [{"tenant_id": ALICE}]


# ---- programs ------------------------------------------------------------------------------------


def run(queue, jobs, workers, argv, args=None, properties=None, environment=None, **definition):
    define(queue, "test", argv, properties, **definition)
    job_id = queue.value("SELECT job_id FROM run_command('test', %s)", json.dumps(args or {}))
    workers.start("command-worker", **(environment or {}))
    return jobs.wait_for(job_id, "done", "failed")


def test_a_program_gets_its_arguments_and_nothing_else(queue, jobs, workers, script):
    words = ["a b", "$HOME", "`id`", "ü"]
    job = run(queue, jobs, workers, [script, "tell", "--", "{{args.words}}"], {"words": words},
              {"words": {"type": "array", "items": TEXT}},
              environment={"AWS_SECRET_ACCESS_KEY": "s3cr3t", "COMMAND_TOKEN": "given",
                           "COMMAND_OTHER": "not given"})
    assert job["status"] == "done", job["payload"]
    told = job["result"]
    assert told["argv"] == ["--", *words]
    assert set(told["environment"]) - {"LC_CTYPE"} == {"HOME", "LANG", "PATH", "TMPDIR"}
    assert told["cwd"] == told["environment"]["HOME"] != os.getcwd()
    assert len(told["files"]) == 4, "0, 1, 2 and the folder itself"
    assert told["stdin"] == ""


def test_a_definition_names_what_it_needs_of_the_environment(queue, jobs, workers, script):
    define(queue, "test", [script, "tell"], environment=["COMMAND_*", "DATABASE_URL"])
    job_id = queue.value("SELECT job_id FROM run_command('test')")
    workers.start("command-worker", COMMAND_TOKEN="given", AWS_SECRET_ACCESS_KEY="s3cr3t")
    environment = jobs.wait_for(job_id, "done", "failed")["result"]["environment"]
    assert environment["COMMAND_TOKEN"] == "given"
    assert environment["DATABASE_URL"] == workers.database_url
    assert "AWS_SECRET_ACCESS_KEY" not in environment


@pytest.mark.parametrize("code, retried", [(1, True), (2, True), (75, True), (64, False), (65, False),
                                           (77, False), (78, False), (126, False), (127, False)])
def test_an_exit_status_is_the_verdict(queue, jobs, workers, script, code, retried):
    job = run(queue, jobs, workers, [script, "exit", str(code)])
    assert job["status"] == "failed"
    assert f"status {code}" in job["payload"]["error"]["message"]
    assert (job["scheduled_for"] is not None) == retried
    (attempt,) = jobs.attempts(job["id"])
    assert "last words" in attempt["stderr_tail"]


@pytest.mark.parametrize("printed, result", [
    (b"", {"output": None}), (b"{\"a\": [1]}", {"a": [1]}), (b"[1, 2]", {"output": [1, 2]}),
    (b"done\n", {"output": "done"}), (b"7", {"output": 7})])
def test_what_is_printed_is_the_result(queue, jobs, workers, script, printed, result):
    job = run(queue, jobs, workers, [script, "print", printed.hex()])
    assert (job["status"], job["result"]) == ("done", result)


@pytest.mark.parametrize("arguments, status, code, out", [
    (["print", b'{"a": 1}'.hex()], "done", 0, '{"a": 1}'), (["exit", "7"], "failed", 7, ""),
    (["kill"], "failed", -1, ""), (["print", "61ff0062"], "failed", 0, "a? b")])
def test_an_attempt_shows_the_program(queue, jobs, workers, script, arguments, status, code, out):
    job = run(queue, jobs, workers, [script, *arguments])
    (attempt,) = jobs.attempts(job["id"])
    assert (job["status"], attempt["exit_code"], attempt["stdout_tail"]) == (status, code, out)


def test_an_attempt_shows_the_process_of_the_program(queue, jobs, workers, script):
    define(queue, "test", [script, "hang"], time_limit="1 hour")
    job_id = queue.value("SELECT job_id FROM run_command('test')")
    program = stage_family(workers.start("command-worker"))[1]
    queue.run("SELECT cancel_job(%s)", job_id)
    jobs.wait_for(job_id, "canceled")
    (attempt,) = jobs.attempts(job_id)
    assert (attempt["pid"], attempt["exit_code"]) == (program, -1)


@pytest.mark.parametrize("what, error", [("flood", "LimitExceeded"), ("kill", "StageCrashed"), ("print fffe00", "StageProtocolError")])
def test_a_program_that_misbehaves(queue, jobs, workers, script, what, error):
    job = run(queue, jobs, workers, [script, *what.split()])
    assert (job["status"], job["payload"]["error"]["type"]) == ("failed", error)


@pytest.mark.parametrize("name, words", [("nowhere", "No such file"), ("plain", "Permission denied")])
def test_a_program_that_cannot_be_started(queue, jobs, workers, tmp_path, name, words):
    (tmp_path / "plain").write_text("no program")
    job = run(queue, jobs, workers, [str(tmp_path / name)])
    assert (job["status"], job["scheduled_for"]) == ("failed", None)
    assert words in job["payload"]["error"]["message"]


def stage_family(worker):
    stage = worker.wait_for_stage()
    program = wait_until(lambda: children_of(stage), "the program")[0]
    child = wait_until(lambda: children_of(program), "its child")[0]
    return [stage, program, child]


@pytest.mark.parametrize("how", ["time limit", "cancel", "supervisor killed", "sigterm"])
def test_a_program_and_its_children_end_with_their_job(queue, jobs, workers, script, how):
    define(queue, "test", [script, "hang"], time_limit="5 seconds" if how == "time limit" else "1 hour")
    job_id = queue.value("SELECT job_id FROM run_command('test')")
    worker = workers.start("command-worker", CORTANA_GRACE_MS=200)
    family = stage_family(worker)
    if how == "cancel":
        queue.run("SELECT cancel_job(%s)", job_id)
    elif how == "supervisor killed":
        worker.kill()
    elif how == "sigterm":
        assert worker.stop() == 0
    members = family[:2] if how == "supervisor killed" else family
    wait_until(lambda: not any(map(is_running, members)), "all of them to end")
    if how == "supervisor killed":  # the grandchild knows no parent; nothing of the job is left to it
        os.kill(family[2], signal.SIGKILL)
    elif how == "time limit":
        job = jobs.wait_for(job_id, "failed")
        assert job["payload"]["error"]["type"] == "Timeout"
    elif how == "cancel":
        jobs.wait_for(job_id, "canceled")
    else:
        assert jobs.get(job_id)["status"] == "queued"


def test_what_a_program_leaves_behind_is_ended(queue, jobs, workers, script):
    job = run(queue, jobs, workers, [script, "daemon"])
    assert (job["status"], job["result"]) == ("done", {})
    lines = subprocess.run(["ps", "-eo", "args"], text=True, capture_output=True, check=True).stdout
    assert f"{script} daemon" not in lines


def test_files_go_from_step_to_step(queue, jobs, workers, script):
    define(queue, "write", [script, "write", "{{args.text}}"], {"text": TEXT})
    define(queue, "read", [script, "read"])
    queue.run("INSERT INTO workflows (name, steps) VALUES ('pass_on', %s) RETURNING name", json.dumps([
        {"key": "one", "job_type": "command", "defaults": {"command": "write", "args": {"text": "first"}}},
        {"key": "two", "job_type": "command", "defaults": {"command": "read"}, "depends_on": ["one"]}]))
    run_id = queue.value("SELECT run_id FROM start_run('pass_on')")
    workers.start("command-worker")
    one, two = (queue.value("SELECT id FROM jobs WHERE run_id = %s AND step = %s", run_id, step)
                for step in ("one", "two"))
    assert jobs.wait_for(two, "done", "failed")["result"] == \
        {"inputs/one/deep/a.txt": 5, "inputs/one/b.bin": 256 * 8192}
    folder = f"outputs/{run_id}/one/0/"
    assert (workers.store / folder / "deep" / "a.txt").read_text() == "first"
    assert (workers.store / folder / "b.bin").read_bytes() == bytes(range(256)) * 8192
    listed = "SELECT kind, bucket, key, size FROM task_artifacts WHERE job_id = %s ORDER BY key"
    wanted = [(folder + "b.bin", 256 * 8192), (folder + "deep/a.txt", 5)]
    assert [(r["kind"], r["key"], r["size"]) for r in queue.run(listed, one)] == [("output", *w) for w in wanted]
    assert [(r["kind"], r["key"], r["size"]) for r in queue.run(listed, two)] == [("input", *w) for w in wanted]
    assert {r["bucket"] for r in queue.run(listed, one)} == {f"dir:{workers.store}"}


def test_only_files_of_a_program_that_succeeds_are_kept(queue, jobs, workers, script):
    job = run(queue, jobs, workers, [script, "link"])
    assert job["status"] == "failed" and job["scheduled_for"] is None
    assert "outputs/passwd is neither a file nor a folder" in job["last_error"]
    assert not (workers.store / "outputs").exists()


def test_a_definition_that_changed_holds_for_jobs_that_wait(queue, jobs, workers, script):
    define(queue, "test", [script, "print", "{{args.text}}"], {"text": TEXT})
    job_id = queue.value("SELECT job_id FROM run_command('test', '{\"text\": \"41\"}')")
    define(queue, "test", [script, "print", "{{args.text}}"], {"text": {"type": "string", "maxLength": 1}})
    workers.start("command-worker")
    job = jobs.wait_for(job_id, "failed", "done")
    assert job["payload"]["error"]["type"] == "InvalidPayload"
    assert "more than 1 characters" in job["payload"]["error"]["message"]
    assert job["scheduled_for"] is None


# ---- cortana's own -------------------------------------------------------------------------------


@pytest.mark.parametrize("key, args, wanted", [
    ("gc", {}, {"objects": 1, "removed": False}),
    ("gc", {"remove": True, "min_age_hours": 0}, {"objects": 1, "removed": True}),
    ("purge-clips", {}, {"clips_removed": 0}),
    ("archive-events", {"days": 90}, {"output": "nothing is old enough"}),
    ("archive-jobs", {"days": 90}, {"output": "nothing is old enough"}),
    ("prune-embeddings", {}, {"output": "0 vectors removed"}),
])
def test_a_built_in_command_runs(queue, workers, cortana, key, args, wanted):
    orphan = workers.store / "frames" / str(uuid.uuid4()) / "1.jpg"
    orphan.parent.mkdir(parents=True)
    orphan.write_bytes(b"x")
    queue.video()  # a database without any is taken for the wrong one
    workers.start("command-worker")
    done = cortana("commands", "run", key, "--args", json.dumps(args), "--wait")
    assert done.returncode == 0, done.stderr
    assert wanted.items() <= json.loads(done.stdout).items()
    assert orphan.exists() == (args.get("remove") is not True)


@pytest.mark.parametrize("args, wanted", [
    ({"all": True}, ["--all", "--"]), ({"videos": ["last", "a b.mp4"]}, ["--", "last", "a b.mp4"]),
    ({"all": True, "languages": "eng+script/Japanese"}, ["--all", "--languages=eng+script/Japanese", "--"]),
    ({"all": False}, None),
    ({"all": True, "languages": "eng --data=/"}, None)])
def test_the_arguments_of_reindex(queue, args, wanted):
    if wanted is None:
        with pytest.raises(psycopg2.errors.InvalidParameterValue):
            plan(queue, "reindex", args)
    else:
        assert plan(queue, "reindex", args) == ["cortana", "reindex", *wanted]


def test_the_command(queue, cortana, tmp_path):
    listed = cortana("commands").stdout
    assert "archive-events" in listed and "operators" in listed
    definition = {"key": "hello", "description": "says hello", "argv": ["/bin/echo", "hello"],
                  "is_public": True}
    (tmp_path / "hello.json").write_text(json.dumps(definition))
    assert "hello is defined" in cortana("commands", "define", tmp_path / "hello.json").stdout
    shown = json.loads(cortana("commands", "show", "hello").stdout)
    assert definition.items() <= shown.items()
    again = cortana("commands", "define", "-", text=json.dumps({**shown, "is_public": False}))
    assert again.returncode == 0, again.stderr
    assert cortana("commands", "disable", "hello").returncode == 0
    refused = cortana("commands", "run", "hello")
    assert refused.returncode == 1 and "not enabled" in refused.stderr
    assert cortana("commands", "enable", "hello").returncode == 0
    job_id = cortana("commands", "run", "hello").stdout.strip()
    assert queue.status(job_id) == "queued"
    for wrong, words in ((("define", "/nowhere"), "/nowhere"), (("show", "nobody"), "no command"),
                         (("run",), "needs"), (("explode", "x"), "there is no command 'commands explode'")):
        done = cortana("commands", *wrong)
        assert done.returncode != 0 and words in done.stderr
    missing = cortana("commands", "define", "-", text='{"key": "x", "extra": 1}')
    assert "extra is not allowed" in missing.stderr
    for text, words in (("[]", "- holds no JSON object"), ("{}", "key")):
        done = cortana("commands", "define", "-", text=text)
        assert done.returncode == 1 and words in done.stderr, done.stderr
