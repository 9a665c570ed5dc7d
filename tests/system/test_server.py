"""One server: made by `cortana setup`, upgraded, backed up; and a disk that is lost."""

import json
import os
import pty
import pwd
import re
import shutil
import subprocess
import uuid

import psycopg2
import pytest
from conftest import Cluster, run_sql
from local_installation import environment_without_services
from s3_server import free_port

needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="a service of the machine's is made by root")


@pytest.fixture
def cortana(program):
    def run(*words, status=0, **variables):
        done = subprocess.run([program("cortana"), *map(str, words)], text=True, capture_output=True, timeout=300,
                              stdin=subprocess.DEVNULL, check=False,
                              env={**environment_without_services(), **{name: str(value) for name, value in variables.items()}})
        assert done.returncode == status, (words, done.stdout, done.stderr)
        return done.stdout + done.stderr

    return run


def lines(text):
    return [json.loads(line) for line in text.splitlines() if line.startswith("{")]


def objects_of(store):
    """Every object's bytes by its key; what begins with a dot is the store's own."""
    return {str(path.relative_to(store)): path.read_bytes() for path in store.rglob("*")
            if path.is_file() and not any(part.startswith(".") for part in path.relative_to(store).parts)}


# ---- a disk is lost ------------------------------------------------------------------------------


def test_a_lost_disk_comes_back_from_the_backup(cortana, fixtures_dir, tmp_path):
    video = tmp_path / "talk.mp4"
    subprocess.run(["ffmpeg", "-v", "error", "-ss", "1", "-t", "3", "-i", fixtures_dir / "subtitles.mp4", "-c:v", "libx264",
                    "-preset", "ultrafast", "-an", video], check=True)
    disk, safe, new = tmp_path / "disk", tmp_path / "safe", tmp_path / "new"
    cortana("run", video, "--data", disk, "--no-page", "--quiet", "--target-fps", "2", CORTANA_RENDITIONS="240")
    words = re.findall(r"[A-Za-z]{5,}", cortana("export", "last", "--data", disk, "--format", "txt"))
    hits = lines(cortana("search", words[0], "--data", disk, "--json"))
    assert hits

    cortana("backup", os.path.relpath(safe), "--data", disk)
    again, = lines(cortana("backup", safe, "--data", disk, "--json"))
    assert again["copied"] == 0 and again["objects"] > 10
    before = objects_of(disk / "store")
    shutil.rmtree(disk)

    restored, = lines(cortana("restore", safe, "--data", new, "--json"))
    assert restored["missing"] == 0 and restored["copied"] == restored["objects"] == again["objects"]
    assert objects_of(new / "store") == before
    row, = lines(cortana("videos", "--data", new, "--json"))
    assert row["status"] == "ready"
    assert lines(cortana("search", words[0], "--data", new, "--json")) == hits
    cortana("doctor", "--data", new)

    assert "is not empty" in cortana("restore", safe, "--data", new, status=1)
    (safe / "backup.json").unlink()
    assert "is not a backup, or was never finished" in cortana("restore", safe, "--data", tmp_path / "other", status=1)


# ---- setup and upgrade ---------------------------------------------------------------------------


@pytest.fixture
def server(shared_cluster, tmp_path):
    """The options of a setup in a folder of its own, on the tests' PostgreSQL, with the name that is the default."""
    name = "cortana"
    tmp_path.chmod(0o755)
    yield name, tmp_path / "etc", ["--yes", "--etc", tmp_path / "etc", "--user", "nobody",
                                   "--admin", shared_cluster.url(), "--store", f"dir:{tmp_path}/store"]
    run_sql(shared_cluster, f"DROP DATABASE IF EXISTS {name} WITH (FORCE)")
    for login in ("fleet", "keeper", "api", "owner"):
        run_sql(shared_cluster, f"DROP ROLE IF EXISTS {name}_{login}")


@needs_root
def test_setup_makes_a_server_and_upgrade_keeps_it(cortana, server, tmp_path):
    name, etc, options = server
    said = cortana("setup", *options)
    assert f"database: made {name}" in said and "systemctl enable --now cortana.target" in said
    secrets = [etc / login / "DATABASE_URL" for login in ("owner", "fleet", "upkeep", "gateway")]
    for secret in [*secrets, etc / "gateway/CORTANA_JWT_SECRET"]:
        assert secret.stat().st_mode & 0o777 == 0o640 and secret.read_text().strip()
        assert secret.read_text().strip() not in said
    services = pwd.getpwnam("nobody").pw_gid
    for login in ("fleet", "upkeep", "gateway"):
        assert (etc / login / "DATABASE_URL").stat().st_gid == services and (etc / login).stat().st_mode & 0o7777 == 0o2750
    assert (etc / "owner").stat().st_mode & 0o7777 == 0o700

    held = cortana("config", CORTANA_CONFIG=etc / "cortana.conf")
    password = re.search(r":([0-9a-f]{64})@", secrets[1].read_text())[1]
    assert f"{name}_fleet" in held and password not in held and f"dir:{tmp_path}/store" in held
    for words in (["jobs"], ["videos"], ["gc"], ["rules"]):
        cortana(*words, CORTANA_CONFIG=etc / "cortana.conf")
    assert len(cortana("token", "--user", uuid.uuid4(), CORTANA_CONFIG=etc / "cortana.conf").split(".")) == 3
    for secret, login, role in ((secrets[1], "fleet", "cortana_worker"), (secrets[2], "keeper", "cortana_upkeep")):
        with psycopg2.connect(secret.read_text().strip()) as connection:
            cursor = connection.cursor()
            cursor.execute("SELECT current_user, pg_has_role(%s, 'USAGE'), pg_has_role('service_role', 'USAGE')", (role,))
            assert cursor.fetchone() == (f"{name}_{login}", True, login == "fleet")

    kept = {path: path.read_text() for path in etc.rglob("*") if path.is_file()}
    again = cortana("setup", *options)
    assert "was there" in again and again.count(": kept, ") == 5
    assert {path: path.read_text() for path in etc.rglob("*") if path.is_file()} == kept

    renewed = cortana("setup", *options, "--renew", "fleet")
    assert renewed.count(": kept, ") == 4 and {path for path in kept if path.read_text() != kept[path]} == {secrets[1]}

    assert "nothing to do" in cortana("upgrade", "--etc", etc, "--backups", tmp_path / "backups")
    with psycopg2.connect(secrets[0].read_text().strip()) as owner:
        owner.cursor().execute("DELETE FROM schema_migrations WHERE version >= 23")
    # Migration 23 fails, because the policies that it makes are there, but not before the rows have been saved.
    assert "already exists" in cortana("upgrade", "--etc", etc, "--backups", tmp_path / "backups", status=1)
    saved, = (tmp_path / "backups").iterdir()
    assert {path.name.split("-")[0] for path in saved.iterdir()} == {"backup.json", "database", "objects"}


def owner_in(etc):
    return re.search(r"^CORTANA_OWNER=(.*)$", (etc / "cortana.conf").read_text(), re.M)[1]


@needs_root
def test_a_backup_is_restored_on_a_server_that_was_just_set_up(cortana, server, shared_cluster, tmp_path):
    """By the commands of docs/operations.md alone, as root: the owner's login, the schema that setup made and the owner of the
    videos are no questions."""
    name, etc, options = server
    settings = {"CORTANA_CONFIG": etc / "cortana.conf"}
    cortana("setup", *options)
    owner = owner_in(etc)
    cortana("setup", *options)
    assert owner_in(etc) == owner
    database = (etc / "owner/DATABASE_URL").read_text().strip()
    key = f"videos/original/{uuid.uuid4()}/master.mp4"
    (tmp_path / "store" / key).parent.mkdir(parents=True)
    (tmp_path / "store" / key).write_bytes(b"bytes")
    with psycopg2.connect(database) as connection:
        connection.cursor().execute("INSERT INTO videos (owner_id, original_name, s3_original_path) VALUES (%s, 'film.mp4', %s)", (owner, key))
    cortana("backup", os.path.relpath(tmp_path / "safe"), **settings)

    shutil.rmtree(etc)  # as purging the package does: the database stays
    cortana("setup", *options)
    assert owner_in(etc) == owner, "it is found in the database"

    shutil.rmtree(etc)
    shutil.rmtree(tmp_path / "store")
    run_sql(shared_cluster, f"DROP DATABASE {name} WITH (FORCE)")
    assert "services of this machine are not set up yet: run cortana setup" not in cortana("doctor", status=1, **{"CORTANA_CONFIG": ""})
    (etc / "owner").mkdir(parents=True)  # as the package makes it
    assert "are not set up yet: run cortana setup as root" in cortana("doctor", status=1, **settings)
    cortana("setup", *options)
    assert owner_in(etc) != owner
    said = cortana("restore", tmp_path / "safe", **settings)
    assert "1 were copied, 0 are missing" in said and f"CORTANA_OWNER is {owner}: run cortana setup again" in said
    said = cortana("setup", *options)
    assert owner_in(etc) == owner and f"CORTANA_OWNER is {owner} now" in said
    assert (tmp_path / "store" / key).read_bytes() == b"bytes" and (tmp_path / "store" / key).stat().st_uid == pwd.getpwnam("nobody").pw_uid
    row, = lines(cortana("videos", "--json", **settings))
    assert row["name"] == "film.mp4"
    assert "is not empty" in cortana("restore", tmp_path / "safe", status=1, **settings)
    said = cortana("restore", tmp_path / "safe", status=1, DATABASE_URL=re.sub(rf"/{name}\b(?!_)", "/nowhere", database), STORE_URL=f"dir:{tmp_path}/store")
    assert 'database "nowhere" does not exist' in said and "cortana setup makes the database" in said
    run_sql(shared_cluster, f"DROP DATABASE {name} WITH (FORCE)")
    run_sql(shared_cluster, f"CREATE DATABASE {name}")  # of another owner
    said = cortana("restore", tmp_path / "safe", status=1, **settings)
    assert "permission denied" in said and "Command was" not in said, said


@needs_root
@pytest.mark.parametrize("option, value, complaint", [
    ("--store", "store", "--store takes dir:/PATH or s3://BUCKET"),
    ("--name", "x; DROP", "--name takes a database's name"),
    ("--user", "no-such-user", "there is no user no-such-user"),
    ("--renew", "cortana_fleet", "--renew takes owner, fleet, upkeep or gateway"),
    ("--admin", "postgresql://nowhere.invalid/postgres", "no superuser's connection"),
])
def test_setup_refuses_before_it_changes_anything(cortana, server, option, value, complaint):
    _, etc, options = server
    assert complaint in cortana("setup", *options, option, value, status=1)
    assert not etc.exists()


# ---- by questions, as on Debian --------------------------------------------------------------------


@pytest.fixture
def debian_cluster():
    """PostgreSQL as Debian's package makes it: by its socket by who asks (peer), by TCP with a password."""
    own = Cluster()
    own.port = free_port()
    own.write("postgresql.conf", f"listen_addresses = '127.0.0.1'\nport = {own.port}\n")
    (own.data / "pg_hba.conf").write_text("local all all peer\nhost all all 127.0.0.1/32 scram-sha-256\n")
    try:
        own.start()
        yield own
    finally:
        own.remove()


def on_a_terminal(command, answers, **variables):
    """What a command prints that asks on a terminal, and is answered in order; its status."""
    ours, theirs = pty.openpty()
    process = subprocess.Popen(command, stdin=theirs, stdout=theirs, stderr=theirs, start_new_session=True,
                               env={**environment_without_services(), **variables})
    os.close(theirs)
    said = b""
    for prompt, answer in answers:
        while prompt.encode() not in said:
            said += os.read(ours, 4096)
        os.write(ours, answer.encode() + b"\n")
    try:
        while part := os.read(ours, 4096):
            said += part
    except OSError:  # the other end is closed
        pass
    os.close(ours)
    return process.wait(timeout=300), said.decode()


@needs_root
def test_setup_asks_on_a_terminal_and_makes_a_server_with_a_bucket(program, cortana, debian_cluster, s3_server, tmp_path):
    etc = tmp_path / "etc"
    keys = {name: value for name, value in s3_server.environment("asked").items() if name != "STORE_URL"}
    here = {"PGHOST": str(debian_cluster.directory), "PGPORT": str(debian_cluster.port)}
    command = [program("cortana"), "setup", "--etc", etc, "--user", "nobody"]
    status, said = on_a_terminal(command, [("dir:PATH or s3://BUCKET? [dir:/var/lib/cortana/store]", "s3://asked")], **here, **keys)
    assert status == 0, said
    assert f"database: made cortana on {debian_cluster.directory}, port {debian_cluster.port}" in said and "store: " in said
    held = cortana("config", CORTANA_CONFIG=etc / "cortana.conf")
    for expected in ("s3://asked", keys["S3_ENDPOINT"], "cortana_fleet:***", f"127.0.0.1:{debian_cluster.port}"):
        assert expected in held, (expected, held)
    for secret in ("S3_SECRET_ACCESS_KEY", "S3_ACCESS_KEY_ID"):
        assert keys[secret] not in said and (keys[secret] not in held)
        for login in ("owner", "fleet", "upkeep", "gateway"):
            file = etc / login / secret
            assert file.read_text().strip() == keys[secret] and file.stat().st_mode & 0o777 == 0o640
    # Bucket, database and logins are there, and belong together.
    for words in (["videos"], ["doctor"], ["gc"]):
        cortana(*words, CORTANA_CONFIG=etc / "cortana.conf")

    fleet = etc / "fleet/DATABASE_URL"
    before = fleet.read_text()
    status, said = on_a_terminal([*command, "--store", "s3://asked", "--renew", "fleet"], [], **here, **keys)
    assert status == 0 and "login cortana_fleet: made" in said, said
    cortana("jobs", CORTANA_CONFIG=etc / "cortana.conf")
    with pytest.raises(psycopg2.OperationalError, match="password authentication failed"):
        psycopg2.connect(before.strip())

    status, said = on_a_terminal(command, [("? [dir:/var/lib/cortana/store]", "bucket")], **here, **keys)
    assert status == 1 and "--store takes dir:/PATH or s3://BUCKET, not 'bucket'" in said
