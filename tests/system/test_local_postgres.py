"""The private PostgreSQL of `cortana run`: who is let in, and as whom."""

import json
import os
import pathlib
import pwd
import re
import shutil
import signal
import stat
import subprocess

import psycopg2
import pytest
from local_installation import finish, make_folder, processes_of, start
from test_faults import small_disk
from workers import wait_until

ROLES = ("postgres", "cortana_owner", "cortana_operator", "cortana_fleet", "cortana_api")


@pytest.fixture(scope="module")
def running(program):
    """An installation that stays up for the tests of this file."""
    folder = make_folder()
    data = folder / "data"
    process = start(program, data, "run")
    try:
        assert any("put videos into" in line for line in process.stderr), finish(process)
        yield data
    finally:
        process.send_signal(signal.SIGINT)
        code, output, errors = finish(process)
        assert code == 0, output + errors
        assert processes_of(data) == []
        shutil.rmtree(folder)


def connect(data, role, **options):
    return psycopg2.connect(host=str(data / "postgres/socket"), user=role, connect_timeout=300,
                            dbname="postgres" if role == "postgres" else "cortana", **options)


@pytest.mark.parametrize("role", ROLES)
def test_nobody_gets_in_without_the_password(running, role):
    with pytest.raises(psycopg2.OperationalError, match="no password supplied"):
        connect(running, role, passfile="/dev/null")
    with pytest.raises(psycopg2.OperationalError, match="password authentication failed"):
        connect(running, role, password="postgres")
    connect(running, role, passfile=str(running / "passwords" / role)).close()


def test_passwords_and_socket_are_the_installations_alone(running):
    assert stat.S_IMODE((running / "passwords").stat().st_mode) == 0o700
    texts = set()
    for role in ROLES:
        path = running / "passwords" / role
        assert stat.S_IMODE(path.stat().st_mode) == 0o600
        texts.add(path.read_text().split(":")[-1])
    assert len(texts) == len(ROLES)
    assert stat.S_IMODE((running / "postgres/socket").stat().st_mode) == 0o700
    assert not (running / "postgres/password.new").exists()


def test_videos_are_the_installations_alone(running):
    """Another user of the machine lists and reads nothing: no video, picture, log or secret, whatever its own mode is."""
    as_nobody = {"user": "nobody", "group": "nogroup", "extra_groups": []} if os.geteuid() == 0 else None
    assert stat.S_IMODE(running.stat().st_mode) == (0o710 if as_nobody else 0o700)
    for part in ("store", "log", "scratch"):
        assert stat.S_IMODE((running / part).stat().st_mode) == 0o700
    others = stat.S_IRWXG | stat.S_IRWXO
    assert [path for path in running.iterdir() if path.is_file() and path.stat().st_mode & others] == []
    video = running / "store/inbox/evening.mp4.part"
    video.parent.mkdir(exist_ok=True)
    video.write_bytes(b"a video")
    video.chmod(0o644)
    if as_nobody:
        for command in (["ls", running], ["ls", running / "store"], ["cat", video]):
            done = subprocess.run(command, capture_output=True, text=True, check=False, **as_nobody)
            assert done.returncode != 0 and "Permission denied" in done.stderr, command
        assert (running / "postgres/data").is_dir(), "the server reaches its part"
    video.unlink()


def test_there_is_no_door_on_the_network(running):
    connection = connect(running, "postgres", passfile=str(running / "passwords/postgres"))
    with connection, connection.cursor() as cursor:
        cursor.execute("SHOW listen_addresses")
        assert cursor.fetchone() == ("",)
        cursor.execute("SELECT DISTINCT type, auth_method FROM pg_hba_file_rules ORDER BY 1")
        assert cursor.fetchall() == [("host", "reject"), ("local", "scram-sha-256")]
    connection.close()


def test_workers_and_owner_are_no_superusers(running):
    connection = connect(running, "cortana_owner",
                         passfile=str(running / "passwords/cortana_owner"))
    connection.autocommit = True
    cursor = connection.cursor()
    cursor.execute("SELECT rolname FROM pg_roles WHERE rolsuper OR rolbypassrls OR rolreplication")
    assert cursor.fetchall() == [("postgres",)]
    cursor.execute("SELECT DISTINCT pg_get_userbyid(relowner)::text FROM pg_class"
                   " WHERE relname IN ('jobs', 'videos', 'segments')")
    assert cursor.fetchall() == [("cortana_owner",)]
    cursor.execute("SELECT pg_get_userbyid(datdba)::text FROM pg_database WHERE datname = 'cortana'")
    assert cursor.fetchone() == ("cortana_owner",)

    def logins():
        cursor.execute("SELECT application_name, usename::text FROM pg_stat_activity"
                       " WHERE datname = 'cortana' AND pid <> pg_backend_pid()")
        return dict(cursor.fetchall())

    wait_until(lambda: {"cortana_fleet", "cortana_api"} <= set(logins().values()), "the workers to log in")
    assert "postgres" not in logins().values()
    assert {user for name, user in logins().items() if name not in ("cortana", "api-gateway")} == {"cortana_fleet"}
    assert logins()["api-gateway"] == "cortana_api"
    connection.close()


def test_workers_hold_no_password_in_their_environment(running):
    secrets = [(running / "passwords" / role).read_text().strip().split(":")[-1].encode()
               for role in ROLES]
    for pid in processes_of(running):
        environment = pathlib.Path(f"/proc/{pid}/environ").read_bytes()
        assert not any(secret in environment for secret in secrets)


@pytest.mark.parametrize("role", ROLES)
def test_a_stage_cannot_log_in(running, program, tmp_path, role):
    """With a store on the network a stage has sockets; the database is shut to it all the same."""
    payload = {"do": "login", "socket": str(running / "postgres/socket"), "user": role,
               "password": str(running / "passwords" / role)}
    done = subprocess.run(
        [program("test-stage"), "--once"], input=json.dumps(payload), text=True, check=False,
        capture_output=True, timeout=300,
        env={**os.environ, "STORE_URL": "s3://bucket", "S3_ENDPOINT": "http://127.0.0.1:9",
             "S3_ACCESS_KEY_ID": "x", "S3_SECRET_ACCESS_KEY": "x", "CORTANA_SCRATCH": str(tmp_path)})
    assert done.returncode == 0, done.stderr
    result = json.loads(done.stdout)
    assert result["login"] != "worked" and result["read_password"] != "worked"


def test_a_full_disk_is_called_so(program):
    """Nearly full, `run` says what it waits for; quite full, every command says why the server does not start."""
    folder = make_folder()
    data, filler = folder / "data", folder / "filler"
    try:
        with small_disk(folder, "200m"):
            folder.chmod(0o755)
            process = start(program, data, "run", "--no-page", "--no-progress")
            assert any("put videos into" in line for line in process.stderr), finish(process)

            def fill(leave):
                room = os.statvfs(folder)
                with open(filler, "ab") as file:
                    os.posix_fallocate(file.fileno(), 0, filler.stat().st_size + room.f_bavail * room.f_bsize - leave)

            fill(leave=6 << 20)
            line = next(line for line in process.stderr if "room" in line)
            assert re.match(r"waiting for room: [456] MiB of the disk of .*/data are free, .* more than 10 MiB are$", line), line
            filler.unlink()
            assert "has room again" in next(line for line in process.stderr if "room" in line)
            process.send_signal(signal.SIGINT)
            assert finish(process)[0] == 0

            fill(leave=0)
            code, _, errors = finish(start(program, data, "videos"))
            assert code == 1 and "the disk is full" in errors, errors
            code, output, _ = finish(start(program, data, "doctor"))
            assert code == 1 and re.search(r"^fail  installation .*the disk is full", output, re.M), output
            # Less and less, until there is enough for the settings and for the log, and not for the server.
            for leave in range(20, -1, -4):
                filler.unlink()
                fill(leave << 10)
                code, _, errors = finish(start(program, data, "videos"))
                if code == 1:
                    break
            assert code == 1 and re.search(r"did not start \(see .*/log\): .*the disk is full", errors), errors
            filler.unlink()
            assert finish(start(program, data, "videos"))[0] == 0
    finally:
        shutil.rmtree(folder)


@pytest.mark.skipif(os.geteuid() != 0, reason="other tests run as an ordinary user then")
def test_an_ordinary_user_needs_nobody_else(program, fixtures_dir):
    user = pwd.getpwnam("nobody")
    folder = make_folder(user)
    prefix = ["setpriv", f"--reuid={user.pw_uid}", f"--regid={user.pw_gid}", "--clear-groups"]
    try:
        code, output, errors = finish(start(program, folder / "data", "run",
                                            fixtures_dir / "awkward/testsrc.mkv", prefix=prefix))
        assert code == 0, output + errors
        assert (folder / "data/passwords/postgres").stat().st_uid == user.pw_uid
        assert processes_of(folder / "data") == []
    finally:
        shutil.rmtree(folder)


# ---- a server of another version -------------------------------------------------------------------------------

VERSIONS = pathlib.Path("/usr/lib/postgresql")
ONLY_ROOT = pytest.mark.skipif(os.geteuid() != 0, reason="only root may mount")


def version_of(data):
    return int((data / "postgres/data/PG_VERSION").read_text())


@pytest.fixture(scope="module")
def past(program, installation, fixtures_dir):
    """An installation with a video, that is not at work."""
    folder = make_folder()
    subprocess.run(["cp", "-a", installation, folder / "data"], check=True)
    code, output, errors = finish(start(program, folder / "data", "run", fixtures_dir / "awkward/testsrc.mkv", "--no-page"))
    assert code == 0, output + errors
    yield folder / "data"
    assert processes_of(folder / "data") == []
    shutil.rmtree(folder)


def start_beside(program, data, versions, *arguments):
    """With only these versions of PostgreSQL: {number: folder of its files}."""
    mounts = data.parent / "versions"
    script = [f"mount -t tmpfs tmpfs {mounts}"]
    for version, folder in versions.items():
        script += [f"mkdir {mounts}/{version}", f"mount --bind {folder} {mounts}/{version}"]
    script += [f"mount --move {mounts} {VERSIONS}", 'exec "$@"']
    mounts.mkdir(exist_ok=True)
    return finish(start(program, data, *arguments,
                        prefix=["unshare", "--mount", "--propagation=private", "sh", "-euc", "; ".join(script), "sh"]))


@ONLY_ROOT
def test_the_first_database_of_a_machine_opens_below_roots_home(program, tmp_path):
    """In a folder that its user cannot reach, as a clone in /root is, and with a /var/lib in which there was none before."""
    bad = tmp_path / "bad.mp4"
    bad.write_bytes(bytes(3000))
    script = 'mount -t tmpfs tmpfs /var/lib; "$@"; code=$?; stat --format=%a /var/lib/cortana-vision; exit $code'
    code, output, errors = finish(start(program, tmp_path / "data", "run", bad, "--no-page", "--text-only",
                                        prefix=["unshare", "--mount", "--propagation=private", "sh", "-uc", script, "sh"]))
    assert code == 1 and "bad.mp4: the file holds only null bytes" in errors, output + errors
    assert output.endswith("755\n")


@ONLY_ROOT
def test_data_is_opened_by_the_server_of_its_version(program, past, fixtures_dir):
    newer = past.parent / "newer/bin"
    newer.mkdir(parents=True)
    for name in ("initdb", "postgres", "pg_dump", "pg_restore", "pg_upgrade"):
        (newer / name).write_text("#!/bin/sh\necho taken by mistake; exit 1\n")
        (newer / name).chmod(0o755)
    installed = {version_of(past): VERSIONS / str(version_of(past)), 99: newer.parent}
    code, output, errors = start_beside(program, past, installed, "videos")
    assert code == 0 and "testsrc.mkv" in output, errors
    code, output, errors = start_beside(program, past, installed, "backup", past.parent / "saved")
    assert code == 0, errors
    code, output, errors = start_beside(program, past, installed, "run", fixtures_dir / "awkward/testsrc.mkv", "--no-page")
    assert code == 0 and "cortana migrate --postgres" in errors, errors
    code, output, errors = start_beside(program, past, {99: newer.parent}, "videos")
    assert code == 1
    assert f"PostgreSQL {version_of(past)}'s, which is not installed" in errors
    assert f"install postgresql-{version_of(past)} " in errors and "cortana restore" in errors


@ONLY_ROOT
def test_data_moves_to_a_newer_server(program, past):
    """Its pg_upgrade and its server are of the same version here, at another place."""
    version = version_of(past)
    both = {version: VERSIONS / str(version), version + 1: VERSIONS / str(version)}
    code, before, errors = start_beside(program, past, both, "videos", "--json")
    assert code == 0, errors
    code, output, errors = start_beside(program, past, both, "migrate", "--postgres")
    assert code == 0, output + errors
    assert f"PostgreSQL {version + 1}'s now" in errors and f"postgres/data.{version}" in errors
    assert (past / f"postgres/data.{version}/PG_VERSION").exists()
    assert not list(past.glob("**/delete_old_cluster.sh"))
    code, after, errors = finish(start(program, past, "videos", "--json"))
    assert (code, after) == (0, before), errors
    rules = (past / "postgres/data/pg_hba.conf").read_text()
    assert "trust" not in rules and "scram-sha-256" in rules
    code, output, errors = finish(start(program, past, "migrate", "--postgres"))
    assert code == 0 and "no newer PostgreSQL is installed" in errors, output + errors
