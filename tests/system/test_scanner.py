"""The scanner: uploads become videos once, whoever looks and whatever their names are."""

import json
import os
import random
import signal
import time
import uuid

import psycopg2
import pytest
from scanning import SETTLE_MS, Scanning, envelopes, event_bridge, notification, sns, sqs
from workers import wait_until

OWNER, OTHER, TEAM = (str(uuid.uuid4()) for _ in range(3))


@pytest.fixture
def scanning(program, database, sql, store_dir):
    made = Scanning(program, database, sql, store_dir)
    yield made
    made.end()


# ---- finding -----------------------------------------------------------------------------------------


def test_an_original_gets_its_row_and_its_run_once(scanning):
    video = scanning.original(owner_id=OWNER, team_id=TEAM, name="Ferien.mp4")
    scanning.run()
    row = scanning.video(video)
    assert (str(row["owner_id"]), str(row["team_id"]), row["original_name"]) == \
        (OWNER, TEAM, "Ferien.mp4")
    assert (row["original_state"], row["original_size"], row["status"]) == ("present", 36, "new")
    assert [payload["s3_original_path"] for payload in scanning.transcodes(video)] == \
        [f"videos/original/{video}/master.mp4"]
    scanning.run()
    assert len(scanning.transcodes()) == 1 and scanning.uploads() == []


def test_an_inbox_file_moves_to_its_place(scanning):
    loose = scanning.put("inbox/holiday.MOV", b"one")
    owned = scanning.put(f"inbox/{OWNER.upper()}/Schöne Zeit.mkv", b"two")
    team = scanning.put(f"inbox/{OWNER}/{TEAM}/deep/er/x.webm", b"three", owner_id=OTHER)  # the path says whose it is before the note does
    noted = scanning.put("inbox/noted.mp4", b"four", owner_id=OTHER)
    scanning.run()
    found = {row["original_name"]: (row["owner_id"] and str(row["owner_id"]),
                                    row["team_id"] and str(row["team_id"]), row["s3_original_path"])
             for row in scanning.videos().values()}
    assert {name: of[:2] for name, of in found.items()} == {
        "holiday.MOV": (None, None), "Schöne Zeit.mkv": (OWNER, None), "x.webm": (OWNER, TEAM),
        "noted.mp4": (OTHER, None)}
    assert {key.rpartition(".")[2] for _, _, key in found.values()} == {"mov", "mkv", "webm", "mp4"}
    assert not any(path.exists() for path in (loose, owned, team, noted))
    assert scanning.keys() == sorted(key for _, _, key in found.values())
    assert (scanning.store / found["x.webm"][2]).read_bytes() == b"three"
    assert len(scanning.transcodes()) == 4 and scanning.uploads() == []


def said(scanning):
    """The lines of subtitles, when all files were read: (file, text)."""
    reader = scanning.start(name="subtitles-worker")
    wait_until(lambda: not scanning.rows("SELECT 1 FROM jobs WHERE job_type = 'subtitles' AND (status IN ('queued', 'processing')"
                                         " OR scheduled_for IS NOT NULL)"), "the subtitles to be read")
    reader.kill()
    return {(row["detected_by"], row["text"]) for row in
            scanning.rows("SELECT detected_by, text FROM segments WHERE source = 'subtitle'")}


def cue(text):
    return f"1\n00:00:01,000 --> 00:00:02,000\n{text}\n".encode()


def test_subtitles_beside_a_video_are_its_lines(scanning):
    """In the inbox, where they may come first, and beside the original; not those of another owner or with another name. A
    new file replaces the old one's lines, and one that cannot be read none. None of them is a video."""
    early = scanning.put(f"inbox/{OWNER}/My talk.en.srt", cue("early"))
    waits = [scanning.put(f"inbox/{OTHER}/My talk.srt", cue("no")), scanning.put(f"inbox/{OWNER}/My talk 2.srt", cue("no"))]
    scanning.run()
    assert "no video of its owner has this name" in scanning.uploads()[0]["refused"] and early.exists()
    scanning.put(f"inbox/{OWNER}/My talk.mp4")
    scanning.run()
    (video,) = scanning.videos()
    folder = f"videos/original/{video}"
    scanning.put(f"inbox/{OWNER}/My talk.de.forced.vtt", b"WEBVTT\n\n00:01.000 --> 00:02.000\nlate\n")
    scanning.put(f"{folder}/master.srt", cue("beside"))
    scanning.run()
    assert scanning.keys("videos/") == [f"{folder}/master.{ending}" for ending in ("de.forced.vtt", "en.srt", "mp4", "srt")]
    assert said(scanning) == {("master.en.srt", "early"), ("master.de.forced.vtt", "late"), ("master.srt", "beside")}
    assert scanning.value("SELECT string_agg(language, ' ' ORDER BY language) FROM segments") == "deu eng"
    assert scanning.value("SELECT count(*) FROM search_segments('source:subtitle beside')") == 1
    scanning.run()
    assert scanning.value("SELECT count(*) FROM jobs WHERE job_type = 'subtitles'") == 3 and len(scanning.transcodes()) == 1
    scanning.put(f"{folder}/master.srt", cue("mended, and longer"))
    scanning.put(f"{folder}/master.en.srt", b"\xff\xfe1\0\n\0")
    scanning.run()
    assert said(scanning) == {("master.en.srt", "early"), ("master.de.forced.vtt", "late"), ("master.srt", "mended, and longer")}
    assert scanning.value("SELECT payload #>> '{error,message}' FROM jobs WHERE status = 'failed'").endswith("save the file as UTF-8")
    assert scanning.video(video)["status"] == "new" and len(scanning.videos()) == 1 and all(path.exists() for path in waits)


def test_lines_of_a_file_that_was_replaced_meanwhile_are_not_stored(scanning):
    video = scanning.original(owner_id=OWNER)
    scanning.put(f"videos/original/{video}/master.srt", cue("old"))
    scanning.run()
    scanning.rows("UPDATE subtitle_files SET etag = 'of a newer file'")
    assert said(scanning) == set()
    assert scanning.value("SELECT status::text FROM jobs WHERE job_type = 'subtitles'") == "done"


def test_a_file_beyond_its_owners_limit_waits_for_room(scanning, queue):
    queue.run("SELECT limit_tenant(%s, 100), limit_tenant(NULL, 60)", OWNER)
    scanning.put(f"inbox/{OWNER}/a.mp4", b"a" * 70)
    scanning.put(f"inbox/{OTHER}/b.mp4", b"b" * 60)
    scanning.run()
    assert len(scanning.transcodes()) == 2
    scanning.put(f"inbox/{OWNER}/c.mp4", b"c" * 31)
    later = scanning.original(owner_id=OTHER, name="d.mp4")
    assert scanning.run().count("no room") == 2
    assert len(scanning.transcodes()) == 2 and len(scanning.uploads()) == 2
    assert queue.run("SELECT message FROM task_events WHERE video_id = %s", later) == [
        {"message": "the owner may not store so many bytes: the video is imported when there is room"}]
    queue.run("SELECT limit_tenant(%s, NULL), limit_tenant(NULL, NULL)", OWNER)
    queue.run("UPDATE uploads SET due_at = now()")
    scanning.run()
    assert len(scanning.transcodes()) == 4 and scanning.uploads() == []


@pytest.mark.parametrize("folder, setting, what", [("logs/pipeline", "CORTANA_LOG_DAYS", "logs of jobs"),
                                                   ("outputs/x", "CORTANA_OUTPUT_DAYS", "files of commands")])
def test_logs_and_files_have_their_time(scanning, folder, setting, what):
    old, new, other = (scanning.put(f"{name}.json") for name in (f"{folder}/old", f"{folder}/new", "logs/other"))
    for path in (old, other):
        os.utime(path, (time.time() - 31 * 86400,) * 2)
    scanning.run(**{setting: 0})
    assert old.exists()
    assert f"1 expired {what}" in scanning.run(**{setting: 30})
    assert not old.exists() and new.exists() and other.exists()


def test_a_row_that_was_made_ahead_keeps_what_it_says(scanning):
    video = str(uuid.uuid4())
    scanning.rows("INSERT INTO videos (id, owner_id, title, s3_original_path)"
                  " VALUES (%s, %s, 'mine', %s)", video, OWNER, f"videos/original/{video}/master.mp4")
    scanning.run()
    assert scanning.transcodes() == []
    scanning.original(video, owner_id=OTHER)
    scanning.run()
    row = scanning.video(video)
    assert (str(row["owner_id"]), row["title"]) == (OWNER, "mine")
    assert len(scanning.transcodes(video)) == 1


def test_a_video_that_is_worked_on_already_is_left_alone(scanning):
    video = str(uuid.uuid4())
    scanning.rows("INSERT INTO videos (id, s3_original_path) VALUES (%s, %s)", video,
                  f"videos/original/{video}/master.mp4")
    scanning.rows("SELECT start_run('video_pipeline', '{\"target_fps\": 4}', %s)", video)
    scanning.original(video)
    scanning.run()
    assert len(scanning.transcodes(video)) == 1
    assert scanning.video(video)["original_state"] == "present"


# ---- settling ----------------------------------------------------------------------------------------


def test_an_upload_in_progress_is_not_taken(scanning):
    path = scanning.put("inbox/growing.mp4", b"x")
    loop = scanning.start("--interval", "0.1")
    with open(path, "ab") as file:
        for _ in range(20):  # about seven times as long as it has to stand still
            file.write(b"x")
            file.flush()
            time.sleep(SETTLE_MS / 3000)  # the writer's own pace
            assert path.exists() and scanning.videos() == {}
        written = file.tell()
    wait_until(scanning.videos, "the upload to be taken when it has ended")
    (row,) = scanning.videos().values()
    wait_until(lambda: scanning.transcodes(), "its run")
    assert (scanning.store / row["s3_original_path"]).stat().st_size == written
    loop.send_signal(signal.SIGTERM)
    assert loop.wait(300) == 0


def test_what_still_grows_is_left_to_the_next_run(scanning):
    path = scanning.put("inbox/a.mp4", b"x")
    scanning.rows("INSERT INTO uploads (key, size, etag, due_at)"
                  " VALUES ('inbox/a.mp4', 0, 'before', now())")
    scanning.run(CORTANA_SETTLE_MS=3600000)
    assert path.exists() and [row["size"] for row in scanning.uploads()] == [1]


# ---- names -------------------------------------------------------------------------------------------


def test_hostile_names(scanning):
    harmless = {
        "inbox/" + "ü" * 120 + ".mp4", "inbox/; DROP TABLE videos; --.mp4", "inbox/$(reboot).mp4",
        "inbox/a'\"\\{}.mp4", "inbox/%2e%2e.mp4", "inbox/...mp4", "inbox/-rf.mp4", "inbox/🎬 été.mp4",
        f"inbox/{OWNER}/" + "/".join(["d" * 100] * 9) + "/" + "n" * 60 + ".mp4", "inbox/photo\u202egpj.mp4",
    }
    assert max(len(key.encode()) for key in harmless) > 1000
    left = {
        "inbox/new\nline.mp4",  # no key: a store's list does not show it
        "inbox/bob/a.mp4",  # whose?
        "inbox/.mp4", "inbox/notes.txt", "inbox/mp4", "videos/original/a.mp4",
        "videos/original/not-a-uuid/master.mp4", f"videos/original/{OWNER}/other.mp4",
        f"videos/original/{OWNER}/master.", f"videos/original/{OWNER.upper()}/master.mp4",
    }
    for number, key in enumerate(sorted(harmless | left)):
        scanning.put(key, f"bytes {number}".encode())
    os.symlink("/etc/passwd", scanning.store / "inbox/link.mp4")
    os.mkfifo(scanning.store / "inbox/fifo.mp4")
    log = scanning.run()
    assert {row["original_name"] for row in scanning.videos().values()} == \
        {key.rpartition("/")[2].replace("\u202e", "") for key in harmless}
    assert len(scanning.transcodes()) == len(harmless)
    assert left <= set(scanning.keys()) and not harmless & set(scanning.keys())
    assert "inbox/bob/a.mp4 stays where it is" in log
    assert "stays where it is" not in scanning.run()  # said once
    assert (scanning.store / "inbox/link.mp4").is_symlink()


def test_a_note_that_is_no_id_is_ignored(scanning):
    video = scanning.original(owner_id="../../etc/passwd", team_id="'; --")
    assert "is not a UUID" in scanning.run()
    assert scanning.video(video)["owner_id"] is None and len(scanning.transcodes(video)) == 1


# ---- several at once, and none ---------------------------------------------------------------------


def test_several_scanners_at_once_take_each_upload_once(scanning):
    for number in range(60):
        scanning.put(f"inbox/{OWNER}/{number}.mp4", f"inbox {number}".encode())
    originals = [scanning.original() for _ in range(60)]
    running = [scanning.start() for _ in range(4)]
    outputs = [process.communicate(timeout=300) for process in running]
    assert [process.returncode for process in running] == [0] * 4, outputs
    videos = scanning.videos()
    assert len(videos) == 120 and set(originals) <= set(videos)
    assert len(scanning.transcodes()) == 120
    assert scanning.keys() == sorted(row["s3_original_path"] for row in videos.values())
    assert {scanning.digest(row["s3_original_path"]) for row in videos.values()
            if row["original_name"]}.__len__() == 60
    assert scanning.uploads() == []


def test_a_scanner_that_is_killed_is_carried_on(scanning):
    chance = random.Random(1)
    for number in range(80):
        scanning.put(f"inbox/{OWNER}/{number}.mp4", f"inbox {number}".encode())
    killed = 0
    while killed < 12:
        process = scanning.start("--interval", "0.1")
        time.sleep(chance.uniform(0.02, 0.35))  # the random instant itself
        process.send_signal(signal.SIGKILL)
        process.communicate()
        killed += 1
    scanning.run()
    videos = scanning.videos()
    assert sorted(row["original_name"] for row in videos.values()) == \
        sorted(f"{number}.mp4" for number in range(80))
    assert scanning.keys() == sorted(row["s3_original_path"] for row in videos.values())
    for row in videos.values():
        number = row["original_name"].partition(".")[0]
        assert (scanning.store / row["s3_original_path"]).read_bytes() == f"inbox {number}".encode()
        assert len(scanning.transcodes(row["id"])) == 1 and str(row["owner_id"]) == OWNER


def test_stopped_between_move_and_registration(scanning):
    scanning.put("inbox/a.mp4", b"bytes")
    scanning.rows("INSERT INTO uploads (key, due_at) VALUES ('inbox/a.mp4', now())")
    (made,) = scanning.rows("SELECT * FROM prepare_upload('inbox/a.mp4', %s, NULL, 'a.mp4', 'mp4')",
                            OWNER)
    target = scanning.store / made["original_key"]
    target.parent.mkdir(parents=True)
    (scanning.store / "inbox/a.mp4").rename(target)
    scanning.put("inbox/a.mp4", b"another upload of that name")
    scanning.run()
    scanning.run()
    names = sorted((str(row["owner_id"]), row["original_size"])
                   for row in scanning.videos().values())
    assert names == sorted([(OWNER, 5), ("None", 27)]) and len(scanning.transcodes()) == 2


# ---- continuing ------------------------------------------------------------------------------------


def test_a_look_goes_on_where_the_last_one_ended(scanning):
    """A list has a thousand objects, of which most are no originals here."""
    ids = sorted(str(uuid.uuid4()) for _ in range(1030))
    for video in ids:
        scanning.put(f"videos/original/{video}/notes")
    originals = [scanning.original(video) for video in (*ids[:3], *ids[-3:])]
    position = "SELECT position FROM scan_positions WHERE name = 'originals'"
    scanning.run("--pages", "1")
    assert sorted(scanning.videos()) == originals[:3]
    assert scanning.value(position) == f"videos/original/{ids[996]}/notes"
    log = scanning.run("--pages", "1")
    assert sorted(scanning.videos()) == originals and scanning.value(position) == ""
    assert "3 uploads imported, 3 lists" in log
    scanning.rows("UPDATE scan_positions SET position = 'videos/original/ffff'")
    scanning.run("--pages", "1")
    assert scanning.value(position) == ""


def test_ids_that_begin_with_the_time_are_found_at_once(scanning):
    old = scanning.original("4c6fb6a1-0a5c-4f8c-9d3e-2b1a00000001")
    newest = scanning.original(scanning.value("SELECT time_ordered_uuid()"))
    assert newest < old  # the next look goes on behind both
    scanning.rows("INSERT INTO scan_positions (name, position) VALUES ('originals', %s)",
                  f"videos/original/{old}/master.mp4")
    scanning.run("--pages", "1")
    assert set(scanning.videos()) == {newest}


# ---- notifications -------------------------------------------------------------------------------------


@pytest.mark.parametrize("minio", [False, True], ids=["aws", "minio"])
def test_notifications_are_acted_on(scanning, minio):
    video = scanning.original()
    quiet = scanning.original()
    inbox = f"inbox/{OWNER}/Sch%C3%B6ne+Zeit%2B.mp4"
    scanning.put(f"inbox/{OWNER}/Schöne Zeit+.mp4")
    scanning.run("--events", text=notification(f"videos/original/{video}/master.mp4", inbox,
                                               minio=minio)
                 + '{"Service":"Amazon S3","Event":"s3:TestEvent","Bucket":"videos"}\n\n')
    names = {row["original_name"] for row in scanning.videos().values()}
    assert names == {None, "Schöne Zeit+.mp4"} and len(scanning.transcodes()) == 2
    assert quiet not in scanning.videos()
    (scanning.store / f"videos/original/{video}/master.mp4").unlink()
    scanning.run("--events", text=notification(f"videos/original/{video}/master.mp4",
                                               event="ObjectRemoved:Delete", minio=minio))
    assert scanning.video(video)["original_state"] == "missing"


def test_notifications_in_their_envelopes(scanning):
    lines, expected = [], set()
    for name in envelopes("x"):
        scanning.put(f"inbox/{OWNER}/{name} é+.mp4", name.encode())
        text = notification(f"inbox/{OWNER}/{name.replace(' ', '+')}+%C3%A9%2B.mp4")
        lines.append(envelopes(text)[name])
        expected.add(f"{name} é+.mp4")
    for number in range(3):
        scanning.put(f"inbox/{OWNER}/{number} +%.mp4", str(number).encode())
    lines.append(json.dumps(event_bridge(f"inbox/{OWNER}/0 +%.mp4")))  # as it is, not encoded
    lines.append(json.dumps(sns(json.dumps(event_bridge(f"inbox/{OWNER}/1 +%.mp4")))))
    lines.append(json.dumps(sqs(json.dumps(event_bridge(f"inbox/{OWNER}/2 +%.mp4")),
                                notification("inbox/gone.mp4"))))
    expected |= {f"{number} +%.mp4" for number in range(3)}
    scanning.put("inbox/quiet.mp4")
    lines.append(json.dumps(event_bridge("inbox/quiet.mp4", "Object Tags Added")))
    lines.append(json.dumps({"Type": "SubscriptionConfirmation", "SubscribeURL": "https://x",
                             "Message": "You have chosen to subscribe"}))
    log = scanning.run("--events", text="\n".join(lines))
    assert {row["original_name"] for row in scanning.videos().values()} == expected
    assert "SubscribeURL" in log and scanning.uploads() == []
    video = next(iter(scanning.videos().values()))
    (scanning.store / video["s3_original_path"]).unlink()
    scanning.run("--events", text=json.dumps(event_bridge(video["s3_original_path"],
                                                          "Object Deleted")))
    assert scanning.video(video["id"])["original_state"] == "missing"


def nested(depth, text):
    for _ in range(depth):
        text = json.dumps(sns(text))
    return text


def hostile_events():
    """Events that are none, as JSON texts that a database takes as well."""
    return [json.dumps(event) for event in (
        {}, {"Records": 7}, {"Messages": 7}, {"Messages": [7, None, {}, {"Body": 7}]},
        {"Body": "{"}, {"Body": "7"}, {"Body": ""}, {"Message": "x"}, {"Message": {"Records": []}},
        {"Records": [{"body": "no JSON"}]}, {"Records": [{"body": 7}]},
        {"Records": [{"Sns": {"Message": ["x"]}}]}, {"detail-type": 7, "detail": {}},
        {"detail-type": "Object Created", "detail": []}, json.loads(nested(6, "{}")),
        sqs(*["{"] * 3000), sqs(*[json.dumps({"Records": [{}] * 6000})] * 2),
    )]


def test_hostile_envelopes_are_survived(scanning):
    video = scanning.original()
    odd = [json.dumps(event) for event in (
        {"detail-type": "Object Created", "detail": {}},
        {"detail-type": "Object Created", "detail": {"bucket": 7, "object": {"key": ["a"]}}},
        event_bridge("../../etc/passwd"), event_bridge("a" * 5000), event_bridge(""),
        event_bridge("inbox/a\0b.mp4"), event_bridge(f"frames/{video}/1.jpg"))]
    bad = hostile_events()
    good = nested(3, json.dumps(event_bridge(f"videos/original/{video}/master.mp4")))
    log = scanning.run("--events", text="\n".join([*odd, *bad, good]), expect=65)
    assert log.count("not a notification of a store") == len(bad) + 1  # and the one with a NUL
    assert set(scanning.videos()) == {video} and scanning.uploads() == []


# ---- notifications by way of an API ------------------------------------------------------------------


def accept(scanning, *events):
    for event in events:
        scanning.rows("SELECT accept_object_event(%s::jsonb)",
                      event if isinstance(event, str) else json.dumps(event))


def test_an_application_may_announce_an_upload_and_hand_events_over(scanning, database):
    loop = scanning.start("--interval", "3600")
    wait_until(lambda: scanning.rows("SELECT 1 FROM scan_positions WHERE name = 'originals'"
                                     " AND rounds > 0"), "the first look to end")
    video, announced = scanning.original(), scanning.original()
    accept(scanning, event_bridge(f"videos/original/{video}/master.mp4"))
    wait_until(lambda: scanning.transcodes(video), "the scanner to have heard")
    scanning.rows("SELECT announce_upload(%s)", f"videos/original/{announced}/master.mp4")
    wait_until(lambda: scanning.transcodes(announced), "the scanner to have heard")
    scanning.put(f"inbox/{OWNER}/from é app.mp4")
    user = psycopg2.connect(database)
    with user, user.cursor() as cursor:  # with an application's rights, and no others
        cursor.execute("SET LOCAL ROLE cortana_app")
        cursor.execute("SELECT accept_object_event(%s)", (json.dumps(json.loads(
            envelopes(notification(f"inbox/{OWNER}/from+%C3%A9+app.mp4"))["SNS within SQS"])),))
    for statement in ("SELECT * FROM object_events", "DELETE FROM object_events",
                      "INSERT INTO object_events (event) VALUES ('{}')",
                      "SELECT announce_upload('inbox/a.mp4')"):
        with user, user.cursor() as cursor, pytest.raises(psycopg2.errors.InsufficientPrivilege):
            cursor.execute("SET LOCAL ROLE cortana_app")
            cursor.execute(statement)
    with user, user.cursor() as cursor, pytest.raises(psycopg2.errors.InsufficientPrivilege):
        cursor.execute("SET LOCAL ROLE authenticated")
        cursor.execute("SELECT accept_object_event('{}')")
    user.close()
    wait_until(lambda: len(scanning.videos()) == 3, "the scanner to have heard of the other")
    wait_until(lambda: not scanning.rows("SELECT 1 FROM object_events"), "the events to be gone")
    loop.send_signal(signal.SIGTERM)
    assert loop.wait(300) == 0


def test_events_wait_for_a_scanner_and_hostile_ones_stop_none(scanning):
    videos = [scanning.original() for _ in range(20)]
    for number, video in enumerate(videos):
        accept(scanning, json.loads(notification(f"videos/original/{video}/master.mp4")),
               *hostile_events()[number::20])
    accept(scanning, '{"Records": [' + '{"a": ' * 500 + "1" + "}" * 500 + "]}")
    accept(scanning, '{"Records": ' + "[" * 3000 + "]" * 3000 + "}")  # deeper than is parsed
    running = [scanning.start("--pages", "1") for _ in range(3)]
    outputs = [process.communicate(timeout=300) for process in running]
    assert [process.returncode for process in running] == [0] * 3, outputs
    assert set(scanning.videos()) == set(videos) and len(scanning.transcodes()) == 20
    assert scanning.value("SELECT count(*) FROM object_events") == 0 and scanning.uploads() == []


def test_what_is_no_event_is_refused(scanning):
    for event in ("[]", "7", '"x"', "null"):
        with pytest.raises(psycopg2.errors.InvalidParameterValue):
            accept(scanning, event)
    with pytest.raises(psycopg2.errors.InvalidParameterValue):
        scanning.rows("SELECT accept_object_event(NULL)")
    with pytest.raises(psycopg2.errors.ProgramLimitExceeded):
        accept(scanning, {"Body": "x" * (1 << 20)})
    accept(scanning, {"Body": "x" * 1000000})
    scanning.rows("SELECT setval(pg_get_serial_sequence('object_events', 'id'), 100000)")
    accept(scanning, {})
    with pytest.raises(psycopg2.errors.ConfigurationLimitExceeded):
        accept(scanning, {})
    scanning.run()
    accept(scanning, {})


def test_a_scanner_is_seen_among_the_workers(scanning):
    scanning.run()
    assert scanning.rows("SELECT 1 FROM workers") == []  # one look and an end is no worker
    loop, other = (scanning.start("--interval", "3600") for _ in range(2))

    def state(process):
        rows = scanning.rows("SELECT state, job_types, slots, running FROM worker_overview"
                             " WHERE id LIKE %s", f"%:{process.pid}:%")
        return tuple(rows[0].values()) if rows else None

    for process in (loop, other):
        wait_until(lambda process=process: state(process), "its row")
        assert state(process) == ("running", "scanner", 0, 0)
    loop.send_signal(signal.SIGTERM)
    assert loop.wait(300) == 0 and state(loop)[0] == "stopped"
    assert state(other)[0] == "running"


def test_a_scanner_goes_when_it_is_told_to(scanning):
    loop = scanning.start("--interval", "3600", CORTANA_HEARTBEAT_MS=100)
    row = wait_until(lambda: scanning.rows("SELECT id, last_seen FROM workers"), "its row")[0]
    wait_until(lambda: scanning.value("SELECT last_seen FROM workers") > row["last_seen"], "a heartbeat")
    assert scanning.value("SELECT drain_worker(%s)", row["id"])
    assert loop.wait(300) == 0
    assert scanning.value("SELECT state FROM workers") == "stopped"


def test_hostile_notifications_are_survived(scanning):
    video = scanning.original()
    good = notification(f"videos/original/{video}/master.mp4")
    bad = ["{", "[]", "null", "7", '"x"', "{}", '{"Records": 7}', '{"Records": {"a": 1}}',
           "\x00\x01\xff", "[" * 100000, '{"Records": [' + "{}," * 20000 + "{}]}", "a" * (5 << 20)]
    odd = ['{"Records": [null, 7, "x", [], {}, {"eventName": 7}, {"eventName": "ObjectCreated:Put"}]}',
           notification("../../etc/passwd", "videos/original/../x/master.mp4", "", "%", "%zz", "%0a",
                        "%00", "a" * 5000, "inbox/%ff%fe.mp4", "frames/x/1.jpg", "inbox/gone.mp4",
                        "videos/original/%", "inbox/a%"),
           '{"Records": [{"eventName": "ObjectCreated:Put", "s3": {"object": {"key": ["a"]}}}]}']
    text = "\n".join([*bad, *odd, good])
    log = scanning.run("--events", text=text, expect=65)
    assert log.count("not a notification of a store") + log.count("longer than") == len(bad)
    assert set(scanning.videos()) == {video} and len(scanning.transcodes()) == 1
    assert scanning.uploads() == []


# ---- identical bytes ---------------------------------------------------------------------------------


def test_identical_bytes_of_one_owner_are_linked(scanning):
    first = scanning.original(data=b"same bytes", owner_id=OWNER)
    scanning.run()
    copies = [scanning.original(data=b"same bytes", owner_id=OWNER) for _ in range(2)]
    foreign = scanning.original(data=b"same bytes", owner_id=OTHER)
    nobodys = scanning.original(data=b"same bytes")
    teams = scanning.original(data=b"same bytes", owner_id=OWNER, team_id=TEAM)
    differs = scanning.original(data=b"other byte", owner_id=OWNER)
    scanning.run()
    for copy in copies:
        row = scanning.video(copy)
        assert (row["status"], str(row["duplicate_of"])) == ("duplicate", first)
        assert scanning.transcodes(copy) == []
        assert scanning.events(copy) == [("info", "duplicate", f"the same bytes as video {first}")]
    for other in (foreign, nobodys, teams, differs):
        assert scanning.video(other)["duplicate_of"] is None and len(scanning.transcodes(other)) == 1
    assert (scanning.store / f"videos/original/{copies[0]}/master.mp4").exists()


def test_identical_bytes_at_once_in_several_scanners(scanning):
    for number in range(24):
        scanning.put(f"inbox/{OWNER}/{number}.mp4", b"all the same")
    running = [scanning.start() for _ in range(3)]
    outputs = [process.communicate(timeout=300) for process in running]
    assert [process.returncode for process in running] == [0] * 3, outputs
    rows = list(scanning.videos().values())
    assert len(rows) == 24 and len(scanning.transcodes()) == 1
    assert sum(row["status"] == "duplicate" for row in rows) == 23
    assert len({row["duplicate_of"] for row in rows}) == 2


def test_a_failed_twin_is_no_twin_and_a_deleted_one_hands_over(scanning):
    first = scanning.original(data=b"same", owner_id=OWNER)
    scanning.run()
    scanning.rows("UPDATE videos SET status = 'failed' WHERE id = %s", first)
    second = scanning.original(data=b"same", owner_id=OWNER)
    scanning.run()
    assert len(scanning.transcodes(second)) == 1
    third, fourth = (scanning.original(data=b"same", owner_id=OWNER) for _ in range(2))
    scanning.run()
    assert {str(scanning.video(v)["duplicate_of"]) for v in (third, fourth)} == {second}
    assert scanning.value("SELECT delete_video(%s)", second)
    scanning.run()
    worked = [v for v in (third, fourth) if scanning.transcodes(v)]
    linked = [v for v in (third, fourth) if scanning.video(v)["status"] == "duplicate"]
    assert len(worked) == len(linked) == 1
    assert str(scanning.video(linked[0])["duplicate_of"]) == worked[0]


# ---- overwritten and deleted originals ---------------------------------------------------------------


def processed(scanning, data=b"first bytes"):
    video = scanning.original(data=data)
    scanning.run()
    scanning.rows("SELECT * FROM claim_jobs('w', 'transcode')")
    return video


def test_an_overwritten_original_is_marked_and_its_results_stay(scanning):
    video = processed(scanning)
    before = scanning.video(video)
    scanning.original(video, data=b"other bytes!")
    scanning.run()
    row = scanning.video(video)
    assert (row["original_state"], row["original_etag"]) == ("replaced", before["original_etag"])
    assert len(scanning.transcodes(video)) == 1
    assert [event[:2] for event in scanning.events(video)] == [("warn", "original")]
    scanning.run()
    assert len(scanning.events(video)) == 1 and scanning.uploads() == []
    scanning.rows("UPDATE jobs SET status = 'failed' WHERE status = 'processing'")
    scanning.rows("SELECT cancel_run(id) FROM runs")
    scanning.rows("SELECT reprocess_video(%s)", video)
    scanning.run()
    row = scanning.video(video)
    assert (row["original_state"], row["original_size"]) == ("present", 12)
    assert len(scanning.transcodes(video)) == 2 and len(scanning.events(video)) == 1


def test_the_same_bytes_again_are_no_replacement(scanning):
    video = processed(scanning)
    scanning.rows("UPDATE videos SET original_sha256 = %s WHERE id = %s",
                  scanning.digest(f"videos/original/{video}/master.mp4"), video)
    old = scanning.video(video)["original_etag"]
    scanning.original(video, data=b"first bytes")
    scanning.run()
    row = scanning.video(video)
    assert row["original_state"] == "present" and row["original_etag"] != old
    assert scanning.events(video) == []


def test_bytes_that_nobody_has_worked_on_may_be_overwritten(scanning):
    video = scanning.original(data=b"draft")
    scanning.run()
    scanning.original(video, data=b"final version")
    scanning.run()
    row = scanning.video(video)
    assert (row["original_state"], row["original_size"]) == ("present", 13)
    assert scanning.events(video) == [] and len(scanning.transcodes(video)) == 1


def test_a_deleted_original_is_marked_and_may_come_back(scanning):
    stays = processed(scanning, b"stays")
    video = processed(scanning, b"goes")
    path = scanning.store / f"videos/original/{video}/master.mp4"
    kept = path.with_name("kept")
    path.rename(kept)
    scanning.run()
    assert scanning.video(video)["original_state"] == "missing"
    assert scanning.video(stays)["original_state"] == "present"
    assert [event[0] for event in scanning.events(video)] == ["warn"]
    scanning.run()
    assert len(scanning.events(video)) == 1
    kept.rename(path)
    scanning.run()
    assert scanning.video(video)["original_state"] == "present"
    assert [event[2] for event in scanning.events(video)][1:] == ["the original is back"]


def test_wrong_usage(scanning):
    for arguments in (["--interval", "x"], ["--pages", "0"], ["extra"], ["--nonsense"]):
        scanning.run(*arguments, expect=64)
    assert "usage:" in scanning.run("--help")
    scanning.run(expect=78, STORE_URL="nonsense://x")
