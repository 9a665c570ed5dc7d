"""cortana schedules and cortana triggers."""

import json
import re

import pytest


@pytest.fixture
def queue(queue):
    queue.run("DELETE FROM job_triggers")
    queue.run("INSERT INTO job_types (name, description) VALUES ('work', 'a')")
    return queue


def test_schedules_from_the_command_line(cortana_says, queue):
    assert re.search(r"^nightly: next at \d{4}-\d\d-\d\d 02:30 Europe/Berlin", cortana_says(
        "schedules", "add", "nightly", "30 2 * * *", "job", "work", '{"at": "{{schedule.local}}"}', "--zone",
        "Europe/Berlin", "--catch-up", "all", "--catch-up-limit", "5", "--one-at-a-time", "--description", "every night"))
    (row,) = queue.run("SELECT * FROM job_triggers")
    assert (row["cron"], row["catch_up"], row["catch_up_limit"], row["one_at_a_time"], row["description"]) == (
        "30 2 * * *", "all", 5, True, "every night")
    assert re.search(r"^nightly +30 2 \* \* \* +\S+ 02:30 +Europe/Berlin +job work", cortana_says("schedules"), re.M)
    head, *shown = cortana_says("schedules", "next", "30 2 * * *", "--zone", "europe/berlin").splitlines()
    assert head.split() == ["NEXT", "ZONE", "UTC"]
    assert len(shown) == 10 and all(re.fullmatch(
        r"\w{3} \d{4}-\d\d-\d\d 02:30  Europe/Berlin  \d{4}-\d\d-\d\d 0[01]:30:00", line) for line in shown)
    tokyo = cortana_says("schedules", "next", "*/5 * * * *", "--zone", "Asia/Tokyo", "--json").splitlines()
    assert [json.loads(line)["time_zone"] for line in tokyo] == ["Asia/Tokyo"] * 10
    assert cortana_says("schedules", "pause", "nightly", "--reason", "rest") == "nightly is paused\n"
    assert "paused: rest" in cortana_says("schedules", "list")
    assert cortana_says("schedules", "resume", "nightly") == "nightly goes on\n"
    assert cortana_says("schedules", "fire", "nightly").startswith("nightly: fired ")
    assert queue.value("SELECT payload ? 'at' FROM jobs")
    assert cortana_says("schedules", "fire", "nightly").startswith("nightly: in flight")
    shown = cortana_says("schedules", "show", "nightly")
    assert '"time_zone": "Europe/Berlin"' in shown and re.search(r"in flight.*\n.*fired", shown)
    assert cortana_says("schedules", "remove", "nightly") == "nightly is removed\n"
    assert queue.run("SELECT 1 FROM job_triggers") == []
    assert "expired_leases" in cortana_says("schedules", "upkeep")
    assert re.fullmatch(r"\d schedules were missing\n", cortana_says("schedules", "defaults"))


def test_triggers_from_the_command_line(cortana_says, queue):
    assert cortana_says("triggers", "add", "paid", "order.paid", "job", "work", '{"n": "{{event.data.n}}"}', "--filter",
                   '{"kind": "book"}', "--window", "10m", "--key", "{{event.data.n}}",
                   "--priority", "7") == "paid waits for order.paid\n"
    assert re.search(r"^paid +order.paid +job work", cortana_says("triggers"), re.M)
    assert cortana_says("triggers", "emit", "order.paid", '{"n": 3, "kind": "book"}').startswith("event ")
    queue.run("SELECT scheduler_tick()")
    (job,) = queue.run("SELECT payload, priority FROM jobs")
    assert queue.value("SELECT dedupe_window = '10 minutes' FROM job_triggers")
    assert job == {"payload": {"n": 3}, "priority": 7}
    assert "fired" in cortana_says("triggers", "show", "paid")
    cortana_says("triggers", "pause", "paid")
    cortana_says("triggers", "resume", "paid")
    cortana_says("triggers", "remove", "paid")


def test_nothing_happens_without_a_scheduler_and_that_is_said(cortana, queue):
    assert "no scheduler runs" in cortana("triggers").stderr


def test_what_is_wrong_is_said(cortana_says, queue):
    assert "ends before it begins" in cortana_says("schedules", "add", "x", "30-10 * * * *", "job", "work", code=1)
    assert "not a time zone" in cortana_says("schedules", "add", "x", "@daily", "job", "work", "--zone", "Mars", code=1)
    assert "not registered" in cortana_says("schedules", "add", "x", "@daily", "job", "nothing", code=1)
    assert "json" in cortana_says("schedules", "add", "x", "@daily", "job", "work", "{", code=1)
    assert "takes a time" in cortana_says("triggers", "add", "x", "a.b", "job", "work", "--window", "soon", code=64)
    for verb in ("show", "pause", "resume", "remove", "fire"):
        assert "no schedule is called" in cortana_says("schedules", verb, "nothing", code=1)
    assert "no trigger is called" in cortana_says("triggers", "pause", "nothing", code=1)
    assert "usage: cortana schedules" in cortana_says("schedules", "eat", code=64)
    assert "usage: cortana schedules" in cortana_says("schedules", "add", "x", code=64)
    assert "usage: cortana triggers" in cortana_says("triggers", "emit", code=64)
    cortana_says("schedules", "add", "s", "@daily", "job", "work")
    assert "no trigger is called" in cortana_says("triggers", "remove", "s", code=1), "it is a schedule"
