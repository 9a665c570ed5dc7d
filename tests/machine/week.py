#!/usr/bin/env python3
"""An operator's week on one server under systemd: a library, a full disk of the store and of PostgreSQL, a database that restarts, new
secrets, a second machine that dies, a new version, and the loss of everything but the backup, which another machine takes up.

usage: tests/machine/week.py BUILD_FOLDER [VIDEOS]

Machines are namespaces of this kernel. The store is a disk of its own, in memory, which the second machine shares, as it does the
network, and so is what PostgreSQL has. The next version is that of the commit with another number and one migration more, or CORTANA_MACHINE_NEXT_PACKAGE.
VIDEOS (60) are small. Needs root. Prints what an operator would note, and last "N passed, M failed"."""

import os
import pathlib
import re
import shlex
import subprocess
import sys
import tempfile
import time

import root
import run
from namespaces import Namespaces
from run import ROOT, answers, all_active, documented, emulated, lines
from server import Failed

STORE_MIB, VIDEO_MIB = 512, 3  # of the store's disk: at first, and more for each video
DATABASE_MIB = 2048  # of PostgreSQL's disk: its log alone grows to 1 GiB
OUT_OF_ROOM = 12  # videos that wait while the disk is full
MIGRATION = """-- What the next version has more.
CREATE TABLE cortana.weeks (number int PRIMARY KEY, note text NOT NULL);
COMMENT ON TABLE cortana.weeks IS 'A table of the next version.';
SELECT secure_table('cortana.weeks');
"""
NAMES = "for number in $(seq {first} {last}); do name=week$number.mp4; {what}; done"


def say(text):
    print(f"    {time.strftime('%H:%M:%S')} {text}", flush=True)


def change(path, old, new):
    text = path.read_text()
    assert old in text, f"{path.name} does not say {old!r}"
    path.write_text(text.replace(old, new, 1))


def make_next(folder):
    """The release of this commit with one migration more, as the next patch."""
    with tempfile.TemporaryDirectory() as place:
        clone = pathlib.Path(place) / "clone"
        subprocess.run(["git", "clone", "--quiet", "--shared", ROOT, clone], check=True)
        version = re.search(r"version: '([\d.]+)'", (clone / "meson.build").read_text())[1]
        *minor, patch = version.split(".")
        newer = ".".join([*minor, str(int(patch) + 1)])
        change(clone / "meson.build", f"version: '{version}'", f"version: '{newer}'")
        change(clone / "CHANGELOG.md", f"\n## {version}", f"\n## {newer} (not released yet)\n\n- One migration.\n\n## {version}")
        log = clone / "debian/changelog"
        log.write_text(log.read_text().replace(f"({version}-1)", f"({newer}-1)"))
        last = max((clone / "sql/migrations").glob("0*.sql")).name
        name = f"{int(last[:4]) + 1:04d}_weeks.sql"
        (clone / "sql/migrations" / name).write_text(MIGRATION)
        change(clone / "sql/meson.build", f"'migrations/{last}',", f"'migrations/{last}',\n  'migrations/{name}',")
        subprocess.run(["git", "add", "--all"], cwd=clone, check=True)
        subprocess.run(["git", "-c", "user.name=week", "-c", "user.email=week@example.com", "commit", "--quiet", "--message=next"],
                       cwd=clone, check=True)
        subprocess.run([clone / "scripts/release", folder], check=True, stdout=subprocess.DEVNULL)


class Week:
    """The machines, and what lies on disks that outlive them."""

    def __init__(self, build, videos):
        self.folder, self.videos = build / "machine", videos
        self.store, self.database, self.backup = (self.folder / name for name in ("store", "database", "backup"))
        for path in (self.store, self.database, self.backup):
            path.mkdir(parents=True, exist_ok=True)
        for left in self.backup.iterdir():
            subprocess.run(["rm", "-rf", left], check=True)
        Namespaces.look_for_nspawn()
        self.package = run.package_of(self.folder)
        self.next_package = run.package_of(self.folder, "CORTANA_MACHINE_NEXT_PACKAGE", "next", make_next)
        self.tree = root.make_tree(self.folder, self.package)
        self.files = {"cortana-vision.deb": self.package, "next.deb": self.next_package,
                      "talk.mp4": run.make_video(self.folder / "talk.mp4", Namespaces.VIDEO_SECONDS),
                      "short.mp4": make_short(self.folder / "short.mp4")}
        self.node = None
        self.server = self.start_server("server")

    def start_server(self, name):
        """With new disks, in this process's own mounts, so that they go with it. PostgreSQL's has the cluster that its package made."""
        for path, mib, mode in ((self.store, STORE_MIB + VIDEO_MIB * self.videos, "0750"), (self.database, DATABASE_MIB + self.videos, "0755")):
            subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={mib}M,mode={mode}", path.name, path], check=True)
        subprocess.run(["cp", "-a", f"{self.tree}/var/lib/postgresql/.", self.database], check=True)
        return self.start(name, "--private-network", [f"--bind={self.database}:/var/lib/postgresql"])

    def start(self, name, network, last=()):
        folder = self.folder / name
        folder.mkdir(exist_ok=True)
        machine = Namespaces.start(folder, self.tree, self.files, [
            f"--machine={name}", f"--bind={self.store}:/var/lib/cortana/store", f"--bind={self.backup}:/backup", *last], network)
        machine.ask(f"hostname {name}")  # which the disk's /etc/hostname has set
        return machine

    # As the steps' reporter asks.
    def ask(self, command, check=True):
        return self.server.ask(command, check)

    def is_on(self):
        return self.server.is_on()

    def end(self):
        for machine in (self.node, self.server):
            if machine:
                machine.end()

    def owner(self):
        return self.ask("sed -n s/^CORTANA_OWNER=//p /etc/cortana/cortana.conf").strip()

    def put(self, first, last):
        """Videos of these numbers, of which each has bytes of its own."""
        inbox = f"/var/lib/cortana/store/inbox/{self.owner()}"
        one = ("cat /test/short.mp4 >/tmp/$name; printf '\\0\\0\\0\\020free%-8.8s' $number >>/tmp/$name;"
               f" install -D -m 0640 -o cortana -g cortana /tmp/$name {inbox}/$name; rm /tmp/$name")
        self.ask(f"install -d -o cortana -g cortana {inbox}; {NAMES.format(first=first, last=last, what=one)}")

    def value(self, query):
        return self.ask(f"runuser -u postgres -- psql -XAt cortana -c {shlex.quote(query)}").strip()

    def wait_ready(self, count):
        """Until as many videos are ready, however long it takes while it goes on; nothing may have failed meanwhile."""
        ready = 0
        while ready < count:
            ready = int(self.server.wait(
                "ready=$(runuser -u postgres -- psql -XAt cortana -c \"SELECT count(*) FROM videos WHERE status = 'ready'\");"
                f" test $ready -gt {ready} && echo $ready", f"more than {ready} of {count} videos to be ready"))
        assert self.value("SELECT count(*) FROM jobs WHERE status = 'failed'") == "0", self.ask("cortana jobs --status failed")


def make_short(path):
    """Two seconds in which a line stands."""
    subprocess.run(["ffmpeg", "-v", "error", "-y", "-ss", "3.5", "-t", "2", "-i", ROOT / "fixtures/subtitles.mp4", "-r", "10", "-c:v",
                    "libx264", "-preset", "ultrafast", "-g", "10", "-an", path], check=True)
    return path


# ---- the week ------------------------------------------------------------------------------------


def monday_installs(week):
    for step in (run.boots, run.installs, run.sets_up, run.starts):
        step(week.server)
    return f"{week.ask('cortana --version').strip()}; {len(run.UNITS)} services are active, {week.value('SELECT count(*) FROM cortana.schema_migrations')} migrations"


def monday_reads_a_library(week):
    began = time.monotonic()
    week.put(1, week.videos)
    week.wait_ready(week.videos)
    seconds = time.monotonic() - began
    assert len(run.hits(week.server)) == min(20, week.videos)  # as many as a search shows
    assert counted(week) == "0", week.ask("cortana jobs")
    return f"{week.videos} videos ready, {60 * week.videos / seconds:.0f} a minute; the store has {used(week)}"


def used(week):
    return week.ask("df --output=used,avail -h /var/lib/cortana/store | tail -1").split()[0]


def tuesday_fills_the_disk(week):
    """Something else fills the store's disk while videos wait. Nothing is lost, and all goes on when there is room."""
    before = week.videos
    week.put(before + 1, before + OUT_OF_ROOM)
    run.at_stage(week.server, "ocr", "dd if=/dev/zero of=/var/lib/cortana/store/ballast bs=1M status=none 2>/dev/null || true")
    said = week.server.wait("cortana doctor 2>&1 | grep 'store disk' | grep full", "doctor to see a full disk")
    say(f"the store's disk is full; cortana doctor: {said}")
    week.server.wait("test $(cortana jobs --status running --json | wc -l) = 0 && echo none", "what is at work to be given back")
    waits = lines(week.ask("cortana jobs --status queued --json"))
    assert waits, "no job waits"
    say(f"{len(waits)} jobs wait; cortana jobs why: " + " ".join(week.ask(f"cortana jobs why {waits[-1]['id']}").split()))
    hosts = " ".join(week.ask("cortana hosts | tail -1").split())
    say(f"cortana hosts: {hosts}")
    said_api = post(week, token_of(week), "uploads", '{"name":"more.mp4","size":1000}')
    assert said_api.startswith("507 "), said_api
    assert "full" in said and run.hits(week.server), "search has to work"
    week.ask("rm /var/lib/cortana/store/ballast")
    began = time.monotonic()
    week.videos += OUT_OF_ROOM
    week.wait_ready(week.videos)
    assert counted(week) == "0", week.ask("cortana jobs")
    forget_complaints(week)
    return (f"an upload was answered 507; {OUT_OF_ROOM} videos ready {time.monotonic() - began:.0f} s after there was room; "
            f"{released(week)} attempts were given back, none counted")


def forget_complaints(week):
    """Of a disk the services have complained, as they should; of nothing else may they."""
    week.ask("journalctl --rotate --vacuum-size=1K")


def released(week):
    return week.value("SELECT count(*) FROM job_attempts WHERE error_type = 'Released'")


def counted(week):
    """Attempts that a job loses of those it has."""
    return week.value("SELECT count(*) FROM job_attempts WHERE status <> 'succeeded' AND error_type IS DISTINCT FROM 'Released'")


def token_of(week):
    return week.ask(f"cortana token --user {week.owner()}").strip()


def post(week, token, path, body):
    """What the API answers: the status and the body."""
    return week.ask(f"curl -sS -o /tmp/answer -w '%{{http_code}} ' -H 'Authorization: Bearer {token}' --json {shlex.quote(body)}"
                    f" http://127.0.0.1:8080/api/v1/{path}; cat /tmp/answer")


def wednesday_fills_the_disk_of_the_database(week):
    """First its tables cannot grow, then its log cannot, and PostgreSQL stops. It is started again when there is room."""
    token = token_of(week)
    week.put(week.videos + 1, week.videos + OUT_OF_ROOM)
    run.at_stage(week.server, "ocr", "dd if=/dev/zero of=/var/lib/postgresql/ballast bs=1M status=none 2>/dev/null || true")
    said = week.server.wait("cortana doctor 2>&1 | grep 'postgres .*full'", "doctor to see a full disk")
    say(f"PostgreSQL's disk is full; cortana doctor: {said}")
    say(week.server.wait("journalctl --unit 'cortana-worker@*' --output cat | grep -m 1 'room on the disk of the database'",
                         "a worker to tell of it"))
    made = post(week, token, "collections", '{"name":"more"}')
    assert made.startswith("507 "), made
    say(f"a new collection is answered {made}")
    assert run.hits(week.server), "search has to work"
    week.ask("for _ in $(seq 200); do runuser -u postgres -- psql -XAtq cortana -c \"SELECT pg_logical_emit_message(false, 'fill', 'log')\""
             " -c 'SELECT pg_switch_wal()' >/dev/null 2>&1 || break; done; ! runuser -u postgres -- pg_isready --quiet")
    say(f"PostgreSQL has stopped; cortana doctor: {week.ask('cortana doctor', check=False).strip().splitlines()[-1]}")
    made = post(week, token, "collections", '{"name":"more"}')
    assert made.startswith("503 "), made
    say(f"a new collection is answered {made}")
    week.ask("rm /var/lib/postgresql/ballast")
    command = "systemctl restart postgresql"
    assert f"    {command} " in (ROOT / "docs/runbooks.md").read_text()
    week.ask(command)
    began = time.monotonic()
    week.videos += OUT_OF_ROOM
    week.wait_ready(week.videos)
    assert post(week, token, "collections", '{"name":"more"}').startswith("201 ")
    assert counted(week) == "0", week.ask("cortana jobs")
    forget_complaints(week)
    return f"{OUT_OF_ROOM} videos ready {time.monotonic() - began:.0f} s after there was room; no attempt counted"


def wednesday_restarts_the_database(week):
    run.put(week.server, "database.mp4")
    for stage in ("transcode", "ocr"):
        run.at_stage(week.server, stage, "systemctl restart postgresql")
    week.videos += 1
    week.wait_ready(week.videos)
    answers(week.server)
    all_active(week.server)
    return f"twice, while transcode and ocr were at work; {counted(week)} attempts had to be repeated"


def wednesday_renews_secrets(week):
    run.renews_secrets_at_work(week.server)
    week.videos += 1
    return "three logins, connections cut, a stage at work; no service was started anew"


def thursday_loses_a_machine(week):
    """A second machine has workers alone. It is cut off at work; the first one does its jobs."""
    network = f"--network-namespace-path=/proc/{week.server.first_process()}/ns/net"
    week.node = week.start("node", network, ["systemd.mask=postgresql.service"])
    settings = week.ask("cat /etc/cortana/cortana.conf").rstrip("\n")
    url = week.ask("cat /etc/cortana/fleet/DATABASE_URL").strip()
    week.node.ask("apt-get install -y --no-install-recommends /test/cortana-vision.deb")
    week.node.ask(f"printf '%s\\n' {shlex.quote(settings)} >/etc/cortana/cortana.conf;"
                  f" (umask 027; printf '%s\\n' {shlex.quote(url)} >/etc/cortana/fleet/DATABASE_URL)")
    week.ask("systemctl stop cortana-worker@transcode")
    week.node.ask("systemctl start cortana-worker@transcode")
    run.put(week.server, "node.mp4")
    run.at_stage(week.node, "transcode", "true")
    say("cortana workers: " + " ".join(week.ask("cortana workers | grep node").split()))
    began = time.monotonic()
    week.node.end()
    week.node = None
    week.ask("systemctl start cortana-worker@transcode")
    week.videos += 1
    week.wait_ready(week.videos)
    tries = week.value("SELECT string_agg(a.status::text, ', ' ORDER BY a.attempt) FROM job_attempts a JOIN jobs j ON j.id = a.job_id"
                       " JOIN videos v ON v.id = j.video_id WHERE job_type = 'transcode' AND v.title LIKE 'node%'")
    assert tries == "crashed, succeeded", tries
    all_active(week.server)
    return f"cut off while transcode was at work there; its video was ready {time.monotonic() - began:.0f} s later: {tries}"


def friday_upgrades(week):
    run.put(week.server, "upgraded.mp4")
    before = week.ask("cortana --version").strip()
    run.at_stage(week.server, "transcode", "apt-get install -y --no-install-recommends /test/next.deb")
    said = week.ask(documented("cortana upgrade"))
    after = week.ask("cortana --version").strip()
    assert before != after and "schema: 1 " in said and "programs: started anew" in said, said
    assert week.value("SELECT count(*) FROM cortana.weeks") == "0"
    assert week.ask("ls /var/lib/cortana/backups").strip(), "no backup from before the migration"
    week.videos += 1
    week.wait_ready(week.videos)
    all_active(week.server)
    versions = {worker["version"] for worker in lines(week.ask("cortana workers --json")) if worker["id"].startswith("server:")}
    assert versions == {after.split()[1]}, versions
    return f"{before} to {after} while transcode was at work: " + "; ".join(said.strip().splitlines()[-2:])


def clip(week, name):
    week.ask(f"cortana clip database.mp4 1s 3s --padding 0 --output /tmp/{name}")
    return week.ask(f"sha256sum </tmp/{name}").split()[0]


def saturday_saves_and_loses_everything(week):
    week.hits, week.clip = run.hits(week.server), clip(week, "before.mp4")
    week.rows = week.value("SELECT count(*) FROM segments")
    began = time.monotonic()
    week.ask(documented("cortana backup /backup/cortana"))
    seconds = time.monotonic() - began
    size = week.ask("du -sh /backup/cortana").split()[0]
    week.server.end()
    subprocess.run(["umount", week.store, week.database], check=True)
    return f"the backup took {seconds:.0f} s and {size}; then the machine, its database and its store were gone"


def sunday_restores_on_another_machine(week):
    week.server = week.start_server("another")
    week.ask("systemctl is-system-running --wait")
    week.ask("apt-get install -y --no-install-recommends /test/next.deb")
    began = time.monotonic()
    for command in ("cortana setup", "cortana restore /backup/cortana", "cortana setup", "systemctl enable --now cortana.target"):
        said = week.ask(documented(command))
        say(f"{command}: {said.strip().splitlines()[-1] if said.strip() else 'done'}")
    answers(week.server)
    seconds = time.monotonic() - began
    assert run.hits(week.server) == week.hits
    assert week.value("SELECT count(*) FROM segments") == week.rows
    assert clip(week, "after.mp4") == week.clip
    doctor = week.ask("cortana doctor", check=False)
    assert not re.search(r"^fail", doctor, re.MULTILINE), doctor
    week.put(week.videos + 1, week.videos + 1)
    week.videos += 1
    week.wait_ready(week.videos)
    all_active(week.server)
    return f"works {seconds:.0f} s after the package was there: {week.rows} lines, the same hits, the same clip, and a new video is read"


STEPS = [monday_installs, monday_reads_a_library, tuesday_fills_the_disk, wednesday_fills_the_disk_of_the_database, wednesday_restarts_the_database,
         wednesday_renews_secrets, thursday_loses_a_machine, friday_upgrades, saturday_saves_and_loses_everything, sunday_restores_on_another_machine]


def main():
    if "CORTANA_WEEK" not in os.environ:  # mounts of its own
        os.execvpe("unshare", ["unshare", "--mount", "--propagation=private", sys.executable, *sys.argv], {**os.environ, "CORTANA_WEEK": "1"})
    build, *videos = sys.argv[1:]
    try:
        week = Week(pathlib.Path(build).resolve(), int(videos[0]) if videos else 60)
    except (emulated.Unavailable, Failed) as problem:
        print(f"not tested on a machine: {problem}\n0 passed, 0 failed")
        return 0
    try:
        passed, failed = run.do(STEPS, week)
    finally:
        week.end()
    print(f"{passed} passed, {failed} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
