"""The verbs of cortana asked of a server: the same answers as of its database, signed in and out."""

import json
import os
import subprocess
import uuid

import pytest
from api import ALICE, token

SERVICE = token(role="service_role", sub=None)
# A job and a run by the beginning of their ids, and all that is listed.
VERBS = ["workers", "workers --all --json", "hosts", "rules", "rules --json", "workflows", "workflows show video_pipeline",
         "commands --json", "commands show gc", "jobs", "jobs --json --status open --since 2h", "jobs --type transcode --video {video}", "jobs show {job}",
         "jobs show {job} --json", "jobs payload {short}", "jobs watch --count 1", "runs", "runs show {run}", "runs show {run} --json",
         "jobs retry --type webhook", "jobs cancel --type webhook", "jobs priority 3 --type webhook --status failed",
         "schedules next @daily --zone Asia/Tokyo", "schedules upkeep --json", "embeddings use bge-m3", "embeddings add --all", "embeddings",
         "embeddings off", "embeddings prune", "schedules defaults", "jobs why {job}", "jobs why {short}", "webhooks disable hook --reason moved",
         "webhooks enable hook", "webhooks", "schedules pause nightly", "schedules resume nightly", "schedules", "schedules show nightly",
         "rules set ocr weight=2 retries=1m,2m max=none", "hosts set h cpu-budget=4", "tenants limit {job} 5GB",
         "tenants limit default none", "tenants", "nodes set n types=ocr mac=00:11:22:aa:bb:cc", "nodes set n port=7 max=none",
         "nodes wake n", "nodes", "workers drain h", "jobs pause ocr", "jobs resume ocr", "jobs priority 7 {short}",
         "tenants pause {job}", "tenants resume {job}",
         "videos", "videos --json --limit 2", "videos --name OWN", "videos show {video}", "videos show {video} --json",
         "videos set {video} --tag town --recorded 2024-05-17 --fields {{\"camera\":\"GX80\"}}", "videos --tag TOWN", "videos --since 2020-01-01",
         "videos favourite {video}", "videos --favourite --json", "videos unfavourite {video}", "search bridge tag:town recorded:2024",
         "search bridge", "search bridge --json --limit 3", "search bridg -C 2 --video {video}", "search anna --exact",
         "export {video} -f srt", "export {video} -f csv --bom", "export {video} -f vtt --no-positions", "export {video}"]
REFUSED = ["jobs why ffffffff", "jobs show {nobody}", "runs show {nobody}", "schedules next 61",
           "jobs why {nobody}", "workflows show nothing", "commands show nothing", "webhooks test nothing",
           "schedules pause nothing", "schedules show nothing", "jobs cancel {nobody}", "jobs retry {job}", "runs start nothing",
           "rules set nothing weight=1", "hosts set nothing cpu-budget=1", "nodes wake nothing",
           "nodes remove nothing", "nodes set n2 types=ocr", "nodes set n2 port=7", "workers drain nothing",
           "videos show nothing.mp4", "videos show {nobody}", "delete {nobody}",
           "search nowherefound", "export nothing.mp4", "search x --video nothing.mp4"]


@pytest.fixture(scope="module")
def queue(place):
    url, queue = place
    queue.run("SELECT report_worker('h:1:b', 'h', '1', '{ocr}', 2, 1, 'running')")
    queue.run("UPDATE workers SET last_seen = now() - interval '2 hours'")
    queue.run("SELECT add_webhook('hook', 'https://example.net/hook')")
    queue.run("INSERT INTO job_triggers (name, cron, action, target, time_zone) VALUES ('nightly', '@daily', 'job', 'ocr', 'UTC')")
    queue.run_id = queue.value("SELECT run_id FROM start_run('video_pipeline', '{}', %s)", queue.video(ALICE))
    queue.run("SELECT cancel_run(%s)", queue.run_id)
    queue.url = url
    return queue


@pytest.fixture(scope="module")
def gateway(start_gateway, queue):
    return start_gateway()


@pytest.fixture
def cortana(program, queue, tmp_path):
    def call(*arguments, text="", **environment):
        return subprocess.run(
            [program("cortana"), *arguments], text=True, input=text, capture_output=True, check=False, timeout=300,
            env={**os.environ, "DATABASE_URL": queue.url, "XDG_CONFIG_HOME": str(tmp_path), "STORE_URL": f"dir:{tmp_path}",
                 **environment})

    return call


def both(cortana, gateway, verb):
    """A verb here, and at the server, at which the service signs in once."""
    home = {"XDG_CONFIG_HOME": str(gateway.process.log_path.parent)}
    if not hasattr(gateway, "is_signed_in_to"):
        gateway.is_signed_in_to = cortana("login", gateway.url, text=SERVICE, **home).returncode == 0
    here = cortana(*verb.split())
    there = cortana(*verb.split(), "--server", gateway.url, DATABASE_URL="postgresql:///x?host=/nonexistent", **home)
    return here, there


@pytest.mark.parametrize("verb", VERBS)
def test_a_server_answers_like_its_database(cortana, gateway, queue, library, verb):
    verb = verb.format(job=library.jobs["own"], short=library.jobs["own"][:8], video=library.videos["own"], run=queue.run_id)
    for _ in range(5):  # an age may be a second more by the time the server is asked, and is as much when the database is asked again
        here, there = both(cortana, gateway, verb)
        if there.stdout != here.stdout:
            here = cortana(*verb.split())
        if there.stdout == here.stdout:
            break
    assert here.returncode == 0 and here.stdout, here.stderr
    assert (there.stdout, there.stderr, there.returncode) == (here.stdout, here.stderr, 0)


@pytest.mark.sanitized(6)
@pytest.mark.parametrize("verb", REFUSED)
def test_a_server_refuses_like_its_database(cortana, gateway, library, verb):
    here, there = both(cortana, gateway, verb.format(nobody=uuid.uuid4(), job=library.jobs["own"]))
    assert here.returncode == 1 and here.stdout == ""
    assert (there.stdout, there.stderr, there.returncode) == ("", here.stderr, 1)


def test_subtitles_are_added_here_and_at_a_server(own_gateway, cortana, queue, library, tmp_path):
    gateway = own_gateway(STORE_URL=f"dir:{tmp_path / 'store'}")
    names = {"talk.de.srt": "1\n00:00:01,000 --> 00:00:02,000\nSüß\n".encode(), "talk.fr.vtt": b"\xe9", "talk.doc": b"1"}
    for name, data in names.items():
        (tmp_path / name).write_bytes(data)
    asked = {name: both(cortana, gateway, f"subtitles {library.videos['own']} {tmp_path / name}") for name in names}
    assert [[done.returncode for done in pair] for pair in asked.values()] == [[0, 0], [0, 1], [1, 1]], [one.stderr for pair in asked.values() for one in pair]
    assert all("is read by job" in done.stdout for done in asked["talk.de.srt"])
    assert "is no text in UTF-8" in asked["talk.fr.vtt"][1].stderr and ".srt, .vtt" in asked["talk.doc"][0].stderr
    key = f"videos/original/{library.videos['own']}/master.de.srt"
    assert queue.value("SELECT count(*) FROM jobs WHERE payload ->> 'subtitles' = %s", key) == 2
    assert (tmp_path / key).read_bytes() == (tmp_path / "store" / key).read_bytes() == names["talk.de.srt"]


def test_a_server_changes_many_jobs(cortana, gateway, queue, library):
    assert cortana("login", gateway.url, text=SERVICE).returncode == 0
    queue.run("INSERT INTO job_types (name, description) VALUES ('work', 'a')")
    queue.run("SELECT enqueue_jobs('work', array_fill('{}'::jsonb, ARRAY[3]))")
    for words, said in (("priority 2", "3 jobs have another priority now\n"), ("cancel", "3 jobs are canceled, or stop soon\n"),
                        ("cancel", "0 jobs are canceled, or stop soon\n"), ("retry", "0 jobs are queued again\n"),
                        ("retry --status canceled", "3 jobs are queued again\n")):
        done = cortana("jobs", *words.split(), "--type", "work", "--server", gateway.url, DATABASE_URL="postgresql:///x?host=/nonexistent")
        assert (done.stdout, done.returncode) == (said, 0), (words, done.stderr)


def test_who_signs_in_asks_by_the_variable_and_signs_out(cortana, gateway, library, tmp_path):
    done = cortana("login", gateway.url + "/", text=SERVICE + "\n")
    assert (done.returncode, done.stdout) == (0, f"signed in to {gateway.url} as service\n")
    kept = tmp_path / "cortana" / "servers.json"
    assert kept.stat().st_mode & 0o777 == 0o600
    assert "video_pipeline" in cortana("workflows", CORTANA_SERVER=gateway.url, DATABASE_URL="").stdout
    assert cortana("logout", gateway.url).stdout == f"signed out of {gateway.url}\n"
    assert SERVICE not in kept.read_text()
    done = cortana("workflows", "--server", gateway.url)
    assert done.returncode == 1 and f"you are not signed in to {gateway.url}: cortana login {gateway.url}" in done.stderr
    assert cortana("logout", gateway.url).returncode == 1


def test_a_link_signs_in(cortana, gateway, queue):
    code = queue.value("SELECT cortana.make_sign_in_code(%s)", ALICE)
    assert cortana("login", f"{gateway.url}/#t={code}").stdout == f"signed in to {gateway.url} as service\n"
    assert "video_pipeline" in cortana("workflows", "--server", gateway.url).stdout


@pytest.mark.parametrize("given", [token(secret="of somebody else, and long enough too"), "cvk_12345678_" + "A" * 43, "x" * 22, ""],
                         ids=["a foreign token", "a foreign key", "no code", "nothing"])
def test_a_wrong_token_is_not_kept(cortana, gateway, given, tmp_path):
    done = cortana("login", gateway.url, text=given)
    assert done.returncode == 1 and done.stdout == "" and done.stderr.count("\n") == 1
    assert not (tmp_path / "cortana").exists()


def test_a_command_is_defined_as_it_was_shown(cortana, gateway, library, tmp_path):
    shown, _ = both(cortana, gateway, "commands show gc")
    assert json.loads(shown.stdout)["priority"] is None
    (tmp_path / "gc.json").write_text(shown.stdout)
    here, there = both(cortana, gateway, f"commands define {tmp_path}/gc.json")
    assert here.stdout == there.stdout == "gc is defined\n", there.stderr


def test_what_a_token_may_not_is_refused(cortana, gateway, library):
    assert "as editor" in cortana("login", gateway.url, text=token()).stdout
    done = cortana("workers", "--server", gateway.url)
    assert done.returncode == 1 and done.stdout == "" and done.stderr.startswith("cortana workers list: ")
    done = cortana("jobs", "why", library.jobs["foreign"], "--server", gateway.url)
    assert done.returncode == 1 and "no job is called" in done.stderr


def test_a_server_that_is_away_is_named(cortana):
    for url, words in (("http://127.0.0.1:1", "http://127.0.0.1:1 does not answer"), ("ftp://127.0.0.1", "not an http or https URL")):
        done = cortana("login", url, text=SERVICE)
        assert done.returncode == 1 and words in done.stderr, done.stderr
    done = cortana("doctor", "--server", "http://127.0.0.1:1")
    assert done.returncode == 64, "doctor asks a database"


def test_an_agent_is_answered_the_same_over_pipes(cortana, gateway, library):
    video = library.videos["own"]
    messages = [{"id": 1, "method": "initialize", "params": {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {}}},
                {"method": "notifications/initialized"}, {"id": "two", "method": "tools/list"},
                {"id": 3, "method": "tools/call", "params": {"name": "videos", "arguments": {"limit": 2}}},
                {"id": 4, "method": "tools/call", "params": {"name": "moment", "arguments": {"id": video, "t": 100}}},
                {"id": 5, "method": "tools/call", "params": {"name": "moment", "arguments": {"id": str(uuid.uuid4()), "t": 100}}},
                {"id": 6, "method": "resources/read", "params": {"uri": f"cortana://videos/{video}"}},
                {"id": 7, "method": "prompts/list"}]
    text = "".join(json.dumps({"jsonrpc": "2.0", **one}) + "\n" for one in messages)
    assert cortana("login", gateway.url, text=SERVICE).returncode == 0
    here, there = cortana("mcp", text=text), cortana("mcp", "--server", gateway.url, text=text)
    assert (here.returncode, there.returncode) == (0, 0), here.stderr + there.stderr
    answers = [json.loads(line) for line in here.stdout.splitlines()]
    assert [one["id"] for one in answers] == [1, "two", 3, 4, 5, 6, 7]
    assert answers == [json.loads(line) for line in there.stdout.splitlines()]
    begun, _, videos, moment, missing, resource, unknown = answers
    assert begun["result"]["protocolVersion"] == "2025-06-18"
    assert len(videos["result"]["structuredContent"]["items"]) == 2
    assert moment["result"]["structuredContent"]["video_id"] == video and not moment["result"]["isError"]
    assert missing["result"]["isError"] and json.loads(resource["result"]["contents"][0]["text"])["id"] == video
    assert unknown["error"]["code"] == -32601
    bad = cortana("mcp", text='no JSON\n{"jsonrpc": "1.0", "id": 1, "method": "ping"}\n')
    assert [json.loads(line)["error"]["code"] for line in bad.stdout.splitlines()] == [-32600, -32600]
