"""The documents as a site, and the commands that they show."""

import json
import os
import re
import shutil
import subprocess

import pytest
from local_installation import environment_without_services, make_folder

from conftest import ROOT

SHOWN = re.compile(r"^    build/cli/cortana (.*?)(?: {2,}#.*)?$", re.MULTILINE)


def test_the_site_is_whole_and_needs_no_network(tmp_path):
    done = subprocess.run([ROOT / "scripts/docs_site", tmp_path / "site"], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")  # strict: every link leads somewhere
    home = (tmp_path / "site/index.html").read_text()
    chapters = ["Try it", "Concepts", "Command line", "Search", "Clips", "SQL", "API", "Operate", "Troubleshooting", "Limits",
                "How it works", "Contributing"]
    places = [home.index(f">{chapter}") for chapter in chapters]
    assert places == sorted(places)
    for page in (tmp_path / "site").rglob("*.html"):
        assert not re.search(r'<(script|img)[^>]+src="https?:|<link[^>]+href="https?:', page.read_text()), page


@pytest.fixture(scope="module")
def library(build_dir, installation, fixtures_dir):
    """A folder in which the documents' commands find an installation with the video of the README."""
    folder = make_folder()
    (folder / "build").symlink_to(build_dir)
    subprocess.run(["cp", "-a", installation, folder / ".local"], check=True)
    cortana(folder, f"run {fixtures_dir / 'feed.mp4'} --text-only -q")
    yield folder
    shutil.rmtree(folder, ignore_errors=True)


def shown():
    for document in ("search.md", "clips.md", "coming-from.md", "troubleshooting.md"):
        for command in SHOWN.findall((ROOT / "docs" / document).read_text()):
            if "--open" not in command:  # a desktop's: test_terminal
                yield command


def cortana(library, words):
    done = subprocess.run(f"build/cli/cortana {words}", shell=True, cwd=library, capture_output=True, text=True,
                          env=environment_without_services(), check=False, stdin=subprocess.DEVNULL)
    assert done.returncode == 0, f"{words}: {done.stderr}"
    return done.stdout


@pytest.mark.parametrize("command", shown())
def test_a_command_of_the_documents_works(library, command):
    if "LINE" in command:
        command = command.replace("LINE", json.loads(cortana(library, "search bridge --json").splitlines()[0])["segment_id"])
    before = set(os.listdir(library))
    said = cortana(library, command)
    if command.startswith(("clip", "quote", "reel")):
        (made,) = set(os.listdir(library)) - before
        assert (library / made).stat().st_size > 1000
        (library / made).unlink()
    else:
        assert said


def commands_of(document):
    return SHOWN.findall((ROOT / document).read_text())


def test_the_commands_of_the_readme_work(library):
    """In their order, the last of which deletes the video. Search by meaning needs an endpoint: test_embeddings."""
    commands = [command for command in commands_of("README.md") if "--semantic" not in command]
    assert commands[-2].startswith("delete ") and commands[-1] == "--help"
    for command in commands:
        cortana(library, command)


def test_the_messages_of_troubleshooting_are_the_programs_own():
    """What stands in a first column as code is in the sources, word by word."""
    rows = re.findall(r"^\| (.*?) \| ", (ROOT / "docs/troubleshooting.md").read_text(), re.MULTILINE)
    messages = [message for row in rows for message in re.findall(r"`([^`]+)`", row)]
    assert len(messages) > 10
    for message in messages:
        done = subprocess.run(["git", "grep", "--quiet", "--fixed-strings", message, "--", "*.c", "*.sql", "*.toml", "install", "scripts"], cwd=ROOT, check=False)
        assert done.returncode == 0, f"no program says {message!r}"


def test_the_commands_of_the_runbooks_work(library, queue):
    """What an operator types when an alert comes, here where nothing is wrong: the job is one that is done."""
    text = (ROOT / "docs/runbooks.md").read_text()
    commands = sorted(set(re.findall(r"^    cortana (.*)$", text, re.MULTILINE)))
    statements = sorted(set(re.findall(r'^    psql -c "(.*)"$', text, re.MULTILINE)))
    assert len(commands) >= 6 and len(statements) >= 4
    job = json.loads(cortana(library, "jobs list --json").splitlines()[0])["id"]
    for command in commands:
        cortana(library, command.replace("JOB", str(job)))
    for statement in statements:
        queue.run(statement.replace("%", "%%"))


# ---- the SQL of docs/queue.md ------------------------------------------------------------------------

STATEMENT = re.compile(r"^    (?:SELECT|INSERT|UPDATE)\b.*?(?:;|\n\n)", re.MULTILINE | re.DOTALL)
OF_A_LEASE = ("renew_lease", "report_progress", "report_log", "complete_job", "fail_job", "release_job")


def statements_of_the_queue():
    text = (ROOT / "docs/queue.md").read_text()
    return [match.group().strip().rstrip(";") for match in STATEMENT.finditer(text)]


def test_the_sql_of_the_queue_works(queue):
    """Each statement, in its order: a video for each `…`, a lease of its own for each call that needs one."""
    queue.run("INSERT INTO job_types (name, description) VALUES ('thumbnail', 'of the first example')")
    statements = statements_of_the_queue()
    assert len(statements) > 15 and any("claim_jobs" in statement for statement in statements)
    for statement in statements:
        video = queue.value("INSERT INTO videos (s3_original_path, duration) VALUES ('videos/original/x/master.mp4', 60) RETURNING id")
        if any(name in statement for name in OF_A_LEASE):
            queue.add("reverse")
            job = queue.claim_one("reverse")
            statement = statement.replace(":id", f"'{job['id']}'").replace(":lease_token", str(job["lease_token"]))
        statement = statement.replace("p_video_id => …", f"p_video_id => '{video}'").replace("p_tenant_id => …", "p_tenant_id => NULL")
        assert "…" not in statement and not re.search(r"[ (]:[a-z]", statement), statement
        rows = queue.run(statement.replace("%", "%%"))
        if statement.startswith("SELECT") and "claim_jobs" not in statement:
            assert rows, statement
