"""cortana schedules and cortana triggers."""

import json
import os
import re
import subprocess

import pytest


@pytest.fixture
def cortana(program, database):
    def call(*arguments, code=0):
        done = subprocess.run([program("cortana"), *arguments], text=True, capture_output=True, check=False,
                              stdin=subprocess.DEVNULL, timeout=300, env={**os.environ, "DATABASE_URL": database})
        assert done.returncode == code, done.stdout + done.stderr
        return done.stdout if code == 0 else done.stderr

    return call


@pytest.fixture
def queue(queue):
    queue.run("DELETE FROM job_triggers")
    queue.run("INSERT INTO job_types (name, description) VALUES ('work', 'a')")
    return queue


def test_schedules_from_the_command_line(cortana, queue):
    assert re.search(r"^nightly: next at \d{4}-\d\d-\d\d 02:30 Europe/Berlin", cortana(
        "schedules", "add", "nightly", "30 2 * * *", "job", "work", '{"at": "{{schedule.local}}"}', "--zone",
        "Europe/Berlin", "--catch-up", "all", "--catch-up-limit", "5", "--one-at-a-time", "--description", "every night"))
    (row,) = queue.run("SELECT * FROM job_triggers")
    assert (row["cron"], row["catch_up"], row["catch_up_limit"], row["one_at_a_time"], row["description"]) == (
        "30 2 * * *", "all", 5, True, "every night")
    assert re.search(r"^nightly +30 2 \* \* \* +\S+ 02:30 +Europe/Berlin +job work", cortana("schedules"), re.M)
    head, *shown = cortana("schedules", "next", "30 2 * * *", "--zone", "europe/berlin").splitlines()
    assert head.split() == ["NEXT", "ZONE", "UTC"]
    assert len(shown) == 10 and all(re.fullmatch(
        r"\w{3} \d{4}-\d\d-\d\d 02:30  Europe/Berlin  \d{4}-\d\d-\d\d 0[01]:30:00", line) for line in shown)
    tokyo = cortana("schedules", "next", "*/5 * * * *", "--zone", "Asia/Tokyo", "--json").splitlines()
    assert [json.loads(line)["time_zone"] for line in tokyo] == ["Asia/Tokyo"] * 10
    assert cortana("schedules", "pause", "nightly", "--reason", "rest") == "nightly is paused\n"
    assert "paused: rest" in cortana("schedules", "list")
    assert cortana("schedules", "resume", "nightly") == "nightly goes on\n"
    assert cortana("schedules", "fire", "nightly").startswith("nightly: fired ")
    assert queue.value("SELECT payload ? 'at' FROM jobs")
    assert cortana("schedules", "fire", "nightly").startswith("nightly: in flight")
    shown = cortana("schedules", "show", "nightly")
    assert '"time_zone": "Europe/Berlin"' in shown and re.search(r"in flight.*\n.*fired", shown)
    assert cortana("schedules", "remove", "nightly") == "nightly is removed\n"
    assert queue.run("SELECT 1 FROM job_triggers") == []
    assert "expired_leases" in cortana("schedules", "upkeep")
    assert re.fullmatch(r"\d schedules were missing\n", cortana("schedules", "defaults"))


def test_triggers_from_the_command_line(cortana, queue):
    assert cortana("triggers", "add", "paid", "order.paid", "job", "work", '{"n": "{{event.data.n}}"}', "--filter",
                   '{"kind": "book"}', "--window", "10m", "--key", "{{event.data.n}}",
                   "--priority", "7") == "paid waits for order.paid\n"
    assert re.search(r"^paid +order.paid +job work", cortana("triggers"), re.M)
    assert cortana("triggers", "emit", "order.paid", '{"n": 3, "kind": "book"}').startswith("event ")
    queue.run("SELECT scheduler_tick()")
    (job,) = queue.run("SELECT payload, priority FROM jobs")
    assert queue.value("SELECT dedupe_window = '10 minutes' FROM job_triggers")
    assert job == {"payload": {"n": 3}, "priority": 7}
    assert "fired" in cortana("triggers", "show", "paid")
    cortana("triggers", "pause", "paid")
    cortana("triggers", "resume", "paid")
    cortana("triggers", "remove", "paid")


def test_nothing_happens_without_a_scheduler_and_that_is_said(program, database, queue):
    done = subprocess.run([program("cortana"), "triggers"], text=True, capture_output=True, check=True,
                          env={**os.environ, "DATABASE_URL": database})
    assert "no scheduler runs" in done.stderr


def test_what_is_wrong_is_said(cortana, queue):
    assert "ends before it begins" in cortana("schedules", "add", "x", "30-10 * * * *", "job", "work", code=1)
    assert "not a time zone" in cortana("schedules", "add", "x", "@daily", "job", "work", "--zone", "Mars", code=1)
    assert "not registered" in cortana("schedules", "add", "x", "@daily", "job", "nothing", code=1)
    assert "json" in cortana("schedules", "add", "x", "@daily", "job", "work", "{", code=1)
    assert "takes a time" in cortana("triggers", "add", "x", "a.b", "job", "work", "--window", "soon", code=64)
    for verb in ("show", "pause", "resume", "remove", "fire"):
        assert "no schedule is called" in cortana("schedules", verb, "nothing", code=1)
    assert "no trigger is called" in cortana("triggers", "pause", "nothing", code=1)
    assert "usage: cortana schedules" in cortana("schedules", "eat", code=64)
    assert "usage: cortana schedules" in cortana("schedules", "add", "x", code=64)
    assert "usage: cortana triggers" in cortana("triggers", "emit", code=64)
    cortana("schedules", "add", "s", "@daily", "job", "work")
    assert "no trigger is called" in cortana("triggers", "remove", "s", code=1), "it is a schedule"
