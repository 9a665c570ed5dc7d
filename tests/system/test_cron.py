"""Cron expressions: what they mean, above all on the days on which clocks are changed."""

import calendar
import datetime
import random
import zoneinfo

import psycopg2
import pytest
from jobs import Queue

UTC = datetime.timezone.utc
MINUTE = datetime.timedelta(minutes=1)

BERLIN, NEW_YORK, LORD_HOWE = "Europe/Berlin", "America/New_York", "Australia/Lord_Howe"



@pytest.fixture(scope="module")
def queue(shared_cluster):
    """One database for all: nothing here writes."""
    connection = shared_cluster.connect(shared_cluster.create_database())
    yield Queue(connection)
    connection.close()


# zone, expression, after, the next instants (all UTC)
CASES = [
    # Berlin, 29 March 2026: at 01:00 UTC 02:00 becomes 03:00
    (BERLIN, "30 2 * * *", "2026-03-28 00:00", ["2026-03-28 01:30", "2026-03-29 01:00", "2026-03-30 00:30"]),
    (BERLIN, "0,30 2 * * *", "2026-03-28 12:00", ["2026-03-29 01:00", "2026-03-30 00:00"]),
    (BERLIN, "0 2,3 * * *", "2026-03-28 12:00", ["2026-03-29 01:00", "2026-03-30 00:00", "2026-03-30 01:00"]),
    (BERLIN, "0 3 * * *", "2026-03-28 12:00", ["2026-03-29 01:00", "2026-03-30 01:00"]),
    (BERLIN, "0 * * * *", "2026-03-29 00:00", ["2026-03-29 01:00", "2026-03-29 02:00"]),
    (BERLIN, "*/30 * * * *", "2026-03-29 00:00", ["2026-03-29 00:30", "2026-03-29 01:00", "2026-03-29 01:30"]),
    (BERLIN, "0 */2 * * *", "2026-03-28 22:00", ["2026-03-28 23:00", "2026-03-29 02:00", "2026-03-29 04:00"]),
    (BERLIN, "*/20 2 * * *", "2026-03-28 12:00", ["2026-03-30 00:00", "2026-03-30 00:20"]),
    # Berlin, 25 October 2026: at 01:00 UTC 03:00 becomes 02:00
    (BERLIN, "30 2 * * *", "2026-10-24 12:00", ["2026-10-25 00:30", "2026-10-26 01:30"]),
    (BERLIN, "0 2 * * *", "2026-10-24 12:00", ["2026-10-25 00:00", "2026-10-26 01:00"]),
    (BERLIN, "30 2 * * *", "2026-10-25 01:10", ["2026-10-26 01:30"]),
    (BERLIN, "0 3 * * *", "2026-10-24 12:00", ["2026-10-25 02:00", "2026-10-26 02:00"]),
    (BERLIN, "30 * * * *", "2026-10-24 23:45", ["2026-10-25 00:30", "2026-10-25 01:30", "2026-10-25 02:30"]),
    (BERLIN, "*/30 2 * * *", "2026-10-24 12:00",
     ["2026-10-25 00:00", "2026-10-25 00:30", "2026-10-25 01:00", "2026-10-25 01:30", "2026-10-26 01:00"]),
    (BERLIN, "*/30 2 * * *", "2026-10-25 00:45", ["2026-10-25 01:00", "2026-10-25 01:30"]),
    # New York, 8 March 2026 at 07:00 UTC: 02:00 becomes 03:00; 1 November at 06:00: 02:00 becomes 01:00
    (NEW_YORK, "15 2 * * *", "2026-03-07 12:00", ["2026-03-08 07:00", "2026-03-09 06:15"]),
    (NEW_YORK, "15 * * * *", "2026-03-08 06:00", ["2026-03-08 06:15", "2026-03-08 07:15"]),
    (NEW_YORK, "30 1 * * *", "2026-10-31 12:00", ["2026-11-01 05:30", "2026-11-02 06:30"]),
    (NEW_YORK, "30 * * * *", "2026-11-01 05:00", ["2026-11-01 05:30", "2026-11-01 06:30", "2026-11-01 07:30"]),
    (NEW_YORK, "0 0 * * *", "2026-10-31 12:00", ["2026-11-01 04:00", "2026-11-02 05:00"]),
    # Lord Howe, by half an hour: 5 April 2026 at 15:00 UTC (the 4th) 02:00 becomes 01:30
    (LORD_HOWE, "45 1 * * *", "2026-04-04 00:00", ["2026-04-04 14:45", "2026-04-05 15:15"]),
    (LORD_HOWE, "15 1 * * *", "2026-04-04 00:00", ["2026-04-04 14:15", "2026-04-05 14:45"]),
    (LORD_HOWE, "45 * * * *", "2026-04-04 14:00", ["2026-04-04 14:45", "2026-04-04 15:15", "2026-04-04 16:15"]),
    (LORD_HOWE, "0 * * * *", "2026-04-04 14:30", ["2026-04-04 15:30", "2026-04-04 16:30"]),
    # Lord Howe, 4 October 2026 at 15:30 UTC (the 3rd): 02:00 becomes 02:30
    (LORD_HOWE, "15 2 * * *", "2026-10-03 00:00", ["2026-10-03 15:30", "2026-10-04 15:15"]),
    (LORD_HOWE, "15 * * * *", "2026-10-03 14:00", ["2026-10-03 14:45", "2026-10-03 16:15"]),
    (LORD_HOWE, "30 2 * * *", "2026-10-03 00:00", ["2026-10-03 15:30", "2026-10-04 15:30"]),
    # a day that a zone left out: 30 December 2011 on Samoa
    ("Pacific/Apia", "0 12 * * *", "2011-12-29 00:00", ["2011-12-29 22:00", "2011-12-30 10:00", "2011-12-30 22:00"]),
    ("Pacific/Apia", "0 12 */1 * *", "2011-12-29 00:00", ["2011-12-29 22:00", "2011-12-30 10:00"]),
    # the ends of months, leap days
    ("UTC", "0 0 31 * *", "2026-01-31 00:00", ["2026-03-31 00:00", "2026-05-31 00:00", "2026-07-31 00:00"]),
    ("UTC", "0 0 30 * *", "2026-01-30 12:00", ["2026-03-30 00:00"]),
    ("UTC", "59 23 28-31 * *", "2026-02-28 00:00", ["2026-02-28 23:59", "2026-03-28 23:59"]),
    ("UTC", "0 12 29 2 *", "2026-01-01 00:00", ["2028-02-29 12:00", "2032-02-29 12:00"]),
    ("UTC", "0 12 29 2 *", "2096-03-01 00:00", ["2104-02-29 12:00"]),
    ("UTC", "0 0 1 1 *", "2026-12-31 23:59", ["2027-01-01 00:00"]),
    (BERLIN, "0 0 1 * *", "2026-03-15 00:00", ["2026-03-31 22:00", "2026-04-30 22:00"]),
    # fields
    ("UTC", "5-20/5,59 8-10/2 * jan,jul *", "2026-06-01 00:00",
     ["2026-07-01 08:05", "2026-07-01 08:10", "2026-07-01 08:15", "2026-07-01 08:20", "2026-07-01 08:59",
      "2026-07-01 10:05"]),
    ("UTC", "0 9 * * MON-FRI", "2026-11-20 09:00", ["2026-11-23 09:00", "2026-11-24 09:00"]),
    ("UTC", "0 9 * * sat-sun", "2026-11-20 09:00", ["2026-11-21 09:00", "2026-11-22 09:00", "2026-11-28 09:00"]),
    ("UTC", "0 9 * * 7", "2026-11-20 09:00", ["2026-11-22 09:00"]),
    ("UTC", "0 9 * * 5-7", "2026-11-21 10:00", ["2026-11-22 09:00", "2026-11-27 09:00"]),
    ("UTC", "0 0 13 * 5", "2026-11-01 00:00", ["2026-11-06 00:00", "2026-11-13 00:00", "2026-11-20 00:00"]),
    ("UTC", "0 0 13 1 1", "2026-01-12 12:00", ["2026-01-13 00:00", "2026-01-19 00:00"]),
    ("UTC", "0 0 30 2 1", "2026-01-01 00:00", ["2026-02-02 00:00"]),  # either day, and Mondays there are
    ("UTC", "0 0 */2 * 1", "2026-11-01 00:00", ["2026-11-09 00:00", "2026-11-23 00:00"]),  # both days
    ("UTC", "*/15 * * * *", "2026-11-21 10:14:59.999", ["2026-11-21 10:15", "2026-11-21 10:30"]),
    ("UTC", "* * * * *", "2026-11-21 10:15", ["2026-11-21 10:16"]),
    ("UTC", " 0\t0  * * * ", "2026-11-21 10:15", ["2026-11-22 00:00"]),
    ("UTC", "@daily", "2026-11-21 00:00", ["2026-11-22 00:00"]),
    ("UTC", "@Hourly", "2026-11-21 00:00", ["2026-11-21 01:00"]),
    ("UTC", "@weekly", "2026-11-21 00:00", ["2026-11-22 00:00", "2026-11-29 00:00"]),
    ("UTC", "@monthly", "2026-11-21 00:00", ["2026-12-01 00:00"]),
    ("UTC", "@yearly", "2026-11-21 00:00", ["2027-01-01 00:00"]),
    ("Asia/Kathmandu", "0 6 * * *", "2026-11-21 00:00", ["2026-11-21 00:15"]),
]


@pytest.mark.parametrize("zone, expression, after, expected", CASES)
def test_next_instants(queue, zone, expression, after, expected):
    found = queue.run("SELECT to_char(i AT TIME ZONE 'UTC', 'YYYY-MM-DD HH24:MI') AS at"
                      " FROM next_crons(%s, %s, %s, (%s || 'Z')::timestamptz) AS i",
                      expression, zone, len(expected), after)
    assert [row["at"] for row in found] == expected


# What is wrong, and a word of what is said about it.
WRONG = [
    ("", "1 to 300"), ("   ", "1 to 300"), (None, "1 to 300"), ("*" * 301, "1 to 300"),
    ("* * * *", "4 fields"), ("0 0 * * * *", "6 fields"), ("@reboot", "1 fields"), ("@every 5m", "2 fields"),
    ("60 * * * *", "is not between 0 and 59"), ("* 24 * * *", "is not between 0 and 23"),
    ("* * 0 * *", "is not between 1 and 31"), ("* * 32 * *", "is not between 1 and 31"),
    ("* * * 13 *", "is not between 1 and 12"), ("* * * 0 *", "is not between 1 and 12"),
    ("* * * * 8", "is not between 0 and 7"),
    ("mon * * * *", "is not between 0 and 59"), ("* * * mon *", "is not between 1 and 12"),
    ("* * * * january", "is not between 0 and 7"),
    ("-5 * * * *", "is not valid"), ("1- * * * *", "is not valid"), ("1,,2 * * * *", "is not valid"),
    (", * * * *", "is not valid"), ("1.5 * * * *", "is not valid"), ("* * L * *", "is not between"),
    ("* * 15W * *", "is not between"), ("* * ? * *", "is not valid"), ("* * * * 5#2", "is not valid"),
    ("30-10 * * * *", "ends before it begins"), ("* 22-2 * * *", "ends before it begins"),
    ("* * * * fri-mon", "ends before it begins"),
    ("5/15 * * * *", "5-59/15"), ("*/0 * * * *", "step"), ("*/60 * * * *", "step"), ("0 */24 * * *", "step"),
    ("0 0 30 2 *", "has the day that it names"), ("0 0 31 4,6,9,11 *", "has the day that it names"),
    ("0 0 31 feb */2", "has the day that it names"),
    ("99999999999 * * * *", "is not between"), ("*/99999 * * * *", "is not valid"),
    ("0 0 * * *; DROP TABLE jobs", "8 fields"), ("٣ * * * *", "is not valid"),
]


@pytest.mark.parametrize("expression, words", WRONG)
def test_what_is_no_expression_is_refused_in_words(queue, expression, words):
    with pytest.raises(psycopg2.errors.InvalidParameterValue) as caught:
        queue.run("SELECT next_cron(%s)", expression)
    assert words in str(caught.value)


def test_zones_have_their_proper_names(queue):
    assert queue.value("SELECT check_time_zone('europe/berlin')") == "Europe/Berlin"
    for wrong in ("", "Mars/Olympus", "CEST", "UTC+1", "posix/Europe/Berlin", "localtime", None):
        with pytest.raises(psycopg2.errors.InvalidParameterValue):
            queue.run("SELECT check_time_zone(%s)", wrong)


# ---- against a slow reading of the rules that shares no code ----------------------------------------


class Slow:
    """Every minute of a stretch of time, looked at by Python's own time zones."""

    def __init__(self, zone, start, days):
        self.zone = zoneinfo.ZoneInfo(zone)
        self.minutes = [start + i * MINUTE for i in range(days * 1440)]
        self.clocks = [minute.astimezone(self.zone).replace(tzinfo=None) for minute in self.minutes]

    @staticmethod
    def numbers(field, low, high):
        found = set()
        for part in field.split(","):
            bounds, _, step = part.partition("/")
            first, _, last = bounds.partition("-")
            span = (low, high) if first == "*" else (int(first), int(last or first))
            found.update(range(span[0], span[1] + 1, int(step or 1)))
        return found

    def instants(self, expression):
        fields = expression.split()
        minutes, hours, days, months, weekdays = (
            self.numbers(field, low, high) for field, low, high in
            zip(fields, (0, 0, 1, 1, 0), (59, 23, 31, 12, 6)))
        either = fields[2][0] != "*" and fields[4][0] != "*"

        def fits(clock):
            day, weekday = clock.day in days, clock.isoweekday() % 7 in weekdays
            return (clock.minute in minutes and clock.hour in hours and clock.month in months
                    and (day or weekday if either else day and weekday))

        if fields[0][0] == "*" or fields[1][0] == "*":
            return [minute for minute, clock in zip(self.minutes, self.clocks) if fits(clock)]
        # A named time comes when the clock first shows it, or a later one.
        found, reached = set(), self.clocks[0]
        for minute, clock in zip(self.minutes, self.clocks):
            while reached <= clock:
                if fits(reached):
                    found.add(minute)
                reached += MINUTE
        return sorted(found)


def random_expression(rng):
    def field(low, high, often_star):
        kind = rng.random()
        if kind < often_star:
            return "*"
        if kind < often_star + 0.15:
            return f"*/{rng.randint(1, (high - low) // 2)}"
        if kind < often_star + 0.3:
            first = rng.randint(low, high - 1)
            return f"{first}-{rng.randint(first, high)}/{rng.randint(1, 5)}"
        return ",".join(str(rng.randint(low, high)) for _ in range(rng.randint(1, 3)))

    return " ".join([field(0, 59, 0.15), rng.choice([field(0, 23, 0.3), "1", "2", "1-3", "0,2"]),
                     field(1, 31, 0.7), "*", field(0, 6, 0.7)])


@pytest.mark.parametrize("zone, start", [
    (BERLIN, (2026, 3, 27)), (BERLIN, (2026, 10, 23)), (NEW_YORK, (2026, 3, 6)), (NEW_YORK, (2026, 10, 30)),
    (LORD_HOWE, (2026, 4, 3)), (LORD_HOWE, (2026, 10, 2)), ("Europe/Dublin", (2026, 10, 23)),
    ("America/St_Johns", (2009, 10, 30)), ("Africa/Casablanca", (2026, 2, 13)), ("Pacific/Apia", (2011, 12, 28)),
    ("Antarctica/Troll", (2026, 3, 27)), ("America/Havana", (2026, 10, 30)), ("UTC", (2026, 2, 26))])
def test_random_expressions_as_a_slow_reading_has_them(queue, zone, start):
    rng = random.Random(f"{zone} {start}")
    begin = datetime.datetime(*start, tzinfo=UTC)
    slow = Slow(zone, begin, 5)
    until = slow.minutes[-1]
    total = 0
    for _ in range(25):
        expression = random_expression(rng)
        # From the second day on: what the clock reached before the stretch began is not seen.
        after = begin + datetime.timedelta(days=1, minutes=rng.randint(0, 2000), seconds=rng.choice([0, 7]))
        expected = [at for at in slow.instants(expression) if at > after][:60]
        total += len(expected)
        found = [row["i"] for row in queue.run("SELECT i FROM next_crons(%s, %s, %s, %s) AS i", expression, zone,
                                               len(expected) + 1, after)]
        assert [at for at in found if at <= until][:len(expected)] == expected, (expression, after)
        if len(expected) < 60:
            assert not found[len(expected):] or found[len(expected)] > until, (expression, after)
    assert total > 100, "the expressions mean something in this stretch"


def test_every_leap_day_of_a_century(queue):
    found = queue.run("SELECT i FROM next_crons('0 0 29 2 *', 'UTC', 24, '2001-01-01Z') AS i")
    assert [row["i"].year for row in found] == [y for y in range(2001, 2105) if calendar.isleap(y)][:24]
