#!/usr/bin/env python3
"""One server under systemd, as docs/operations.md makes it: the Debian package in a bare Debian with PostgreSQL, from setup
to a restart of the machine: in namespaces of this kernel, or on an emulated machine with Debian's.

usage: tests/machine/run.py BUILD_FOLDER [--keep] [--upgrade] [STEP…]

CORTANA_MACHINE says where: namespaces, or emulator; unset, the emulator where namespaces are refused. With --keep the machine
goes on after the last step, or the one that failed; with STEPs these are done in the machine that goes on. With --upgrade a
server of Debian 12 becomes one of 13, in namespaces. The packages are those of the commit that is checked out, or
CORTANA_MACHINE_PACKAGE, and of 13 CORTANA_MACHINE_NEXT_PACKAGE. Disk, kernel and package are kept in the build folder. Needs
root. Prints where it runs, a line a step, and last "N passed, M failed"; what the machine's kernel does not have is not
counted, and where there is no such machine, or no package to be had, it says so and counts nothing."""

import json
import os
import pathlib
import re
import subprocess
import sys
import time

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parents[1]
sys.path[:0] = [str(HERE), str(ROOT / "scripts")]

import emulated  # noqa: E402
import stages  # noqa: E402
from emulator import Emulator  # noqa: E402
from namespaces import Namespaces  # noqa: E402
from server import Failed  # noqa: E402

UNITS = [*(f"cortana-worker@{stage.name}" for stage in stages.started(stages.read())), "cortana-scanner", "cortana-scheduler", "cortana-gateway"]
# systemd-analyze security, which calls 0 safe and 10 not; docs/operations.md says what is left and why.
EXPOSURE_MAX = 2.5
OPERATIONS = (ROOT / "docs/operations.md").read_text()
KNOWN = "Harbour Master"  # stands in fixtures/subtitles.mp4 from second 3 to 8
MACHINE_OF_13 = pathlib.Path(f"/var/cache/cortana-debian/13/build{ROOT}/machine")
KINDS = {"namespaces": Namespaces, "emulator": Emulator}
STATES = f"systemctl show --property=Id,ActiveState,NRestarts,MainPID,InvocationID {' '.join(UNITS)}"


class NotSeen(Exception):
    """What a step cannot look at, because the machine's kernel does not have it."""


def make_release(folder):
    subprocess.run([ROOT / "scripts/release", folder], check=True, stdout=subprocess.DEVNULL)


def make_release_of_13(folder):
    """Where tests/debian/run has the build folder of its Debian 13, which is build there."""
    subprocess.run([ROOT / "tests/debian/run", "13", "scripts/release", f"build/machine/{folder.name}"], check=True, stdout=subprocess.DEVNULL)


def package_of(folder, variable="CORTANA_MACHINE_PACKAGE", name="release", make=make_release):
    """Of the commit that is checked out, made once; or the one that the variable names."""
    given = os.environ.get(variable)
    if given:
        return pathlib.Path(given)
    commit = subprocess.run(["git", "rev-parse", "HEAD"], cwd=ROOT, check=True, text=True, capture_output=True).stdout.strip()
    made = folder / f"{name}-{commit[:12]}"
    if not made.exists():
        make(folder / f"{name}.new")
        (folder / f"{name}.new").rename(made)
    return next(made.glob("cortana-vision_*.deb"))


def lines(text):
    return [json.loads(line) for line in text.splitlines() if line.startswith("{")]


def documented(command):
    """The command, which docs/operations.md tells an operator to give; here root gives it."""
    assert re.search(rf"(?:^    |`)sudo {re.escape(command)}(?:$|`| +#)", OPERATIONS, re.MULTILINE), f"operations.md does not say: {command}"
    return command


def states(server):
    """What systemd says of every service, by its name."""
    blocks = [dict(line.split("=", 1) for line in block.splitlines()) for block in server.ask(STATES).strip().split("\n\n")]
    return {block["Id"].removesuffix(".service"): block for block in blocks}


def all_active(server):
    """Every service works and says of no trouble but a database that is slow to answer, as everything here is. How it was
    started again for that does not count."""
    units = " ".join(UNITS)
    server.wait(f"test $(systemctl is-active {units} | grep -cx active) = {len(UNITS)} && echo all", "every service to be active")
    failed = server.ask("systemctl --failed --plain --no-legend")
    assert not failed.strip(), failed
    found = lines(server.ask("journalctl --boot --unit 'cortana*' --output cat"))
    complaints = [line for line in found if line["level"] == "error" and line.get("error_type") != "ConnectionLost"]
    assert found and not complaints, complaints[:5]


def put(server, name):
    """The same pictures in other bytes (a box of MP4 that means nothing), or it would be a duplicate."""
    owner = server.ask("sed -n s/^CORTANA_OWNER=//p /etc/cortana/cortana.conf").strip()
    place = f"/var/lib/cortana/store/inbox/{owner}"
    server.ask(f"""install -m 0644 /test/talk.mp4 /tmp/{name} && printf '\\0\\0\\0\\020free%-8.8s' {name} >>/tmp/{name} &&
                   runuser -u cortana -- install -D -m 0640 /tmp/{name} {place}/{name}""")


def wait_ready(server, name):
    """What is said on standard error, such as a warning of a slow database, is no answer."""
    server.wait("; ".join(f"cortana videos --status {state} --name {name} --json 2>/dev/null" for state in ("ready", "failed")), f"{name} to be ready")
    assert server.ask(f"cortana videos --status ready --name {name} --json 2>/dev/null").strip(), server.ask("cortana jobs", check=False)
    assert not server.ask("cortana jobs --status failed --json 2>/dev/null").strip()


def at_stage(server, stage, command):
    """As soon as a stage is at work: what the command says then."""
    look = f"pgrep -f '^[^ ]*{stage}-worker --once' >/dev/null"
    return server.ask(f"timeout {server.SECONDS_MAX} sh -c \"until {look}; do sleep 0.02; done\" && {command}")


def answers(server):
    """The API, out of the database."""
    token = server.ask("cortana token --user $(sed -n s/^CORTANA_OWNER=//p /etc/cortana/cortana.conf)").strip()
    server.wait(f"curl -fsS -H 'Authorization: Bearer {token}' http://127.0.0.1:8080/api/v1/videos | grep -o '.items.: *\\['", "the API")


def hits(server):
    return lines(server.ask(f"cortana search '{KNOWN}' --json"))


# ---- steps ---------------------------------------------------------------------------------------


def has_controllers(server):
    return {"pids", "memory"} <= set(server.ask("cat /sys/fs/cgroup/cgroup.controllers").split())


def boots(server):
    assert server.ask("systemctl is-system-running --wait").strip() == "running"
    assert server.ask("cat /proc/1/comm; stat -fc %T /sys/fs/cgroup").split() == ["systemd", "cgroup2fs"]
    return server.ask("uname -rv").strip()


def installs(server):
    command = documented("apt-get install ./release/cortana-vision_*.deb")
    server.ask(command.replace("./release/cortana-vision_*.deb", "-y --no-install-recommends /test/cortana-vision.deb"))
    assert server.ask("systemctl is-enabled cortana.target", check=False).strip() == "disabled"


def sets_up(server):
    """By questions, on a terminal, as root; PostgreSQL lets its own administrator in by who asks (peer)."""
    said = server.ask(f"printf '\\n' | script -qec '{documented('cortana setup')}' /dev/null")
    assert "Where do videos and results lie" in said and "database: made cortana" in said, said
    held = server.ask("cortana config")
    assert re.search(r"CORTANA_SANDBOX\s+require", held), held
    # One picture size: encoding is most of what a machine like this does.
    for setting in ["CORTANA_RENDITIONS=240", *server.SETTINGS]:
        server.ask(f"echo {setting} >>/etc/cortana/cortana.conf")


def starts(server):
    server.ask(documented("systemctl enable --now cortana.target"))
    server.wait("curl -fsS http://127.0.0.1:8080/api/v1/openapi.json | head -c 1", "the gateway")
    answers(server)
    server.wait("test $(cortana workers --json | wc -l) -ge 9 && echo all", "nine workers that say that they are there")
    all_active(server)
    said = server.ask("journalctl --boot --unit cortana-worker@transcode --output cat | grep sandbox:")
    ports = tuple(map(int, server.ask("uname -r").split(".")[:2])) >= (6, 7)  # Landlock's
    layers = "privileges, namespaces, mounts, files, system calls" + (", ports" if ports else "; missing: ports")
    groups = "cgroups of stages" if has_controllers(server) else "no cgroups of stages: pids and memory are not delegated"
    assert f"sandbox: {layers}; {groups}" in said, said


def reads_a_video(server):
    server.ask("systemctl is-active --quiet watch-groups || systemd-run --unit=watch-groups --quiet /test/watch-groups")
    began = time.monotonic()
    put(server, "talk.mp4")
    wait_ready(server, "talk.mp4")
    assert hits(server), f"no line with {KNOWN}"
    server.ask("systemctl stop watch-groups")
    all_active(server)
    return f"upload to ready in {time.monotonic() - began:.0f} s"


def bounds_stages(server):
    """Each stage ran in a group of its own below its worker's, and was bounded there."""
    if not has_controllers(server):
        raise NotSeen("this kernel's cgroups of version 2 have no pids and memory")
    seen = {}
    for line in server.ask("cat /run/groups").splitlines():
        words = line.split()
        if len(words) == 4:
            stage = re.search(r"cortana-worker@([a-z-]+)\.service/stage-", words[0])
            if stage and int(words[3]) > 0:
                seen[stage[1]] = words[1:3]
    assert {"transcode", "sample", "ocr"} <= set(seen), seen
    for stage, (threads, memory) in seen.items():
        assert int(threads) == 1024 and 64 << 20 < int(memory) < 8 << 30, (stage, threads, memory)
    left = server.ask("find /sys/fs/cgroup -path '*/cortana-worker@*' -name 'stage-*' -type d")
    assert not left.strip(), left
    return ", ".join(f"{stage} {int(memory) >> 20} MiB" for stage, (_, memory) in sorted(seen.items()))


def cuts_a_clip(server):
    server.ask("cortana clip talk.mp4 0.5s 1.5s --padding 0 --output /tmp/clip.mp4")
    data = server.bytes_of("/tmp/clip.mp4")
    done = subprocess.run(["ffprobe", "-v", "error", "-count_frames", "-show_entries", "stream=nb_read_frames:format=duration",
                           "-of", "json", "-"], input=data, capture_output=True, check=True)
    found = json.loads(done.stdout)
    assert int(found["streams"][0]["nb_read_frames"]) in range(23, 28), found
    all_active(server)


def renews_secrets_at_work(server):
    """Every login that services have gets another password while a stage runs, and every connection is cut. Nothing is
    started anew for it, and no job fails."""
    before = states(server)
    put(server, "renewed.mp4")
    stage = at_stage(server, "transcode", "pgrep -f '^[^ ]*transcode-worker --once'").split()[0]
    for login, role in (("fleet", "cortana_fleet"), ("upkeep", "cortana_keeper"), ("gateway", "cortana_api")):
        old = server.ask(f"cat /etc/cortana/{login}/DATABASE_URL").strip()
        said = server.ask(documented("cortana setup --yes --renew fleet").replace("fleet", login))
        assert f"login {role}: made" in said and said.count(": kept, ") == 4, said
        assert "password authentication failed" in server.ask(f"psql -d '{old}' -c 'SELECT 1'", check=False)
        server.ask(f"""runuser -u postgres -- psql -Atc "SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity
                       WHERE usename = '{role}'" | grep -vx 0""")
        assert login != "fleet" or server.ask(f"kill -0 {stage} && echo at work"), "the stage was done before"
    wait_ready(server, "renewed.mp4")
    answers(server)
    all_active(server)
    after = states(server)
    assert all(after[name]["InvocationID"] == before[name]["InvocationID"] for name in UNITS), (before, after)
    # Each service sees its own folder of secrets, and no other.
    for unit, own in (("cortana-worker@ocr", "fleet"), ("cortana-worker@command", "upkeep"), ("cortana-gateway", "gateway")):
        for login in ("owner", "fleet", "upkeep", "gateway"):
            place = f"/proc/{after[unit]['MainPID']}/root/etc/cortana/{login}/DATABASE_URL"
            done = server.ask(f"test -e {place} && echo seen", check=False).strip()
            assert done == ("seen" if login == own else ""), (unit, login, done)


def restarts_at_work(server):
    """Workers are stopped and killed while their stages run; the video comes through, and no job has failed."""
    for stage, how in (("transcode", "systemctl restart"), ("sample", "systemctl kill --signal=KILL --kill-who=main")):
        put(server, f"{stage}.mp4")
        at_stage(server, stage, f"{how} cortana-worker@{stage}.service")
        wait_ready(server, f"{stage}.mp4")
    assert len({hit["video_id"] for hit in hits(server)}) == 4
    all_active(server)
    assert int(states(server)["cortana-worker@sample"]["NRestarts"]) >= 1


def upgrades(server):
    before = states(server)
    server.ask("apt-get install -y --reinstall --no-install-recommends /test/cortana-vision.deb")
    kept = states(server)
    assert {name: kept[name]["MainPID"] for name in kept} == {name: before[name]["MainPID"] for name in before}
    said = server.ask(documented("cortana upgrade"))
    assert "schema: nothing to do" in said and "programs: started anew" in said, said
    after = states(server)
    for name in UNITS:
        assert after[name]["ActiveState"] == "active" and after[name]["InvocationID"] != before[name]["InvocationID"], after[name]
    assert hits(server)


def becomes_debian_13(server):
    """By the commands of docs/operations.md, with packages from Debian's archive, of which two suites stand in one line first."""
    before = hits(server)
    names = pathlib.Path("/etc/resolv.conf").read_text()
    server.ask(f"mkdir -p /backup; cat >/etc/resolv.conf <<'END'\n{names}END")
    server.ask("sed -i '/ bookworm\\(-updates\\)\\? main$/d' /etc/apt/sources.list && printf 'Types: deb\\nURIs: http://deb.debian.org/debian\\n"
               "Suites: bookworm bookworm-updates\\nComponents: main\\n' >/etc/apt/sources.list.d/debian.sources")
    commands = re.search(r"^\*\*From Debian 12 to 13\*\*.*?((?:^    [^\n]*\n)+)", OPERATIONS, re.MULTILINE | re.DOTALL)[1]
    for command in re.findall(r"^    sudo (.*?)(?: +#.*)?$", commands, re.MULTILINE):
        began = time.monotonic()
        words = command.replace("./release/cortana-vision_*.deb", "/test/next.deb").replace("apt-get ", "DEBIAN_FRONTEND=noninteractive apt-get -y ")
        server.ask(words, timeout=3600, hosts_network=command.startswith("apt-get "))
        print(f"    {command}: {time.monotonic() - began:.0f} s", flush=True)
    assert not server.ask("grep -r bookworm /etc/apt/sources.list*", check=False)
    said = server.ask("cat /etc/debian_version; pg_lsclusters --no-header | grep online; dpkg-query -W cortana-vision")
    assert re.fullmatch(r"13\.\d+\n17 +main +5432 +online .*\ncortana-vision\t.*\+deb13\n", said), said
    assert before and hits(server) == before


def is_closed(server):
    """How much of the system each service sees, as systemd reckons it."""
    found = {}
    for unit in UNITS:
        said = server.ask(f"systemd-analyze security --no-pager {unit}.service")
        found[unit] = float(re.search(r"Overall exposure level for \S+: ([0-9.]+)", said)[1])
    assert max(found.values()) <= EXPOSURE_MAX and f"finds {max(found.values())})" in " ".join(OPERATIONS.split()), found
    return f"{min(found.values())} to {max(found.values())}"


def comes_back(server):
    before = hits(server)
    server.restart()
    assert server.ask("systemctl is-system-running --wait").strip() == "running"
    server.wait("curl -fsS http://127.0.0.1:8080/api/v1/openapi.json | head -c 1", "the gateway")
    all_active(server)
    assert hits(server) == before
    put(server, "third.mp4")
    wait_ready(server, "third.mp4")


def stops(server):
    began = time.monotonic()
    server.ask("systemctl stop cortana.target")
    server.wait(f"systemctl is-active {' '.join(UNITS)} | grep -c inactive | grep -x {len(UNITS)}", "every service to stop")
    failed = server.ask("systemctl --failed --plain --no-legend")
    assert not failed.strip(), failed
    return f"{time.monotonic() - began:.0f} s"


STEPS = [boots, installs, sets_up, starts, reads_a_video, bounds_stages, cuts_a_clip, renews_secrets_at_work, restarts_at_work,
         upgrades, is_closed, comes_back, stops]
TO_DEBIAN_13 = [boots, installs, sets_up, starts, reads_a_video, becomes_debian_13, starts, cuts_a_clip, comes_back, stops]


def next_package():
    """Of Debian 13, for a machine that can become one; an emulated one reaches no archive."""
    Namespaces.look_for_nspawn()
    debian_12 = "VERSION_CODENAME=bookworm" in pathlib.Path("/etc/os-release").read_text()
    if not debian_12 or os.environ.setdefault("CORTANA_MACHINE", "namespaces") != "namespaces":
        raise emulated.Unavailable("only a Debian 12 in namespaces becomes a Debian 13 (unset CORTANA_MACHINE)")
    return package_of(MACHINE_OF_13, "CORTANA_MACHINE_NEXT_PACKAGE", make=make_release_of_13)


def make_video(path, seconds):
    """Three seconds of the fixture in which one line stands, again and again."""
    once = path.with_name("once.mp4")
    subprocess.run(["ffmpeg", "-v", "error", "-y", "-ss", "3", "-t", "3", "-i", ROOT / "fixtures/subtitles.mp4", "-c:v", "libx264",
                    "-preset", "ultrafast", "-an", once], check=True)
    subprocess.run(["ffmpeg", "-v", "error", "-y", "-stream_loop", str(seconds // 3 - 1), "-i", once, "-c", "copy", path], check=True)
    return path


def machine_of(kind, build, more):
    """Boots, with all that the steps need; `more` are files beside those of every machine."""
    folder = build / "machine"
    folder.mkdir(parents=True, exist_ok=True)
    package = package_of(folder)
    return kind.boot(build, package, {"cortana-vision.deb": package, "talk.mp4": make_video(folder / "talk.mp4", kind.VIDEO_SECONDS),
                                      "watch-groups": HERE / "watch-groups", **more})


def find_machine(build, goes_on, more):
    """Of the kind that is wanted; else of the first that there is."""
    wanted = os.environ.get("CORTANA_MACHINE")
    for name in [wanted] if wanted else KINDS:
        try:
            server = KINDS[name](build / "machine") if goes_on else machine_of(KINDS[name], build, more)
            if goes_on and not server.is_on():
                raise emulated.Unavailable("no machine goes on there")
            print(f"in {KINDS[name].WHERE}", flush=True)
            return server
        except (emulated.Unavailable, OSError) as problem:
            print(f"not in {KINDS[name].WHERE}: {problem}", flush=True)
    raise emulated.Unavailable("there is none")


def do(steps, server):
    """How many passed, how many failed."""
    passed = 0
    for step in steps:
        began = time.monotonic()
        try:
            said = step(server)
            print(f"{step.__name__}: {time.monotonic() - began:.0f} s{', ' + said if said else ''}", flush=True)
            passed += 1
        except NotSeen as problem:
            print(f"{step.__name__}: not seen, {problem}", flush=True)
        except (AssertionError, Failed, OSError) as problem:  # what comes after a failed step means nothing
            print(f"FAILED: {step.__name__}: {problem}")
            if server.is_on():
                print(server.ask("journalctl --boot --output short-monotonic --no-hostname | tail -60", check=False))
            return passed, 1
    return passed, 0


def main():
    build, *words = sys.argv[1:]
    wanted, more, steps = [word for word in words if not word.startswith("--")], {}, STEPS
    try:
        if "--upgrade" in words:
            more["next.deb"] = next_package()
            steps = TO_DEBIAN_13
        server = find_machine(pathlib.Path(build).resolve(), bool(wanted), more)
    except emulated.Unavailable as problem:
        print(f"not tested on a machine: {problem}\n0 passed, 0 failed")
        return 0
    try:
        passed, failed = do([step for step in steps if step.__name__ in wanted] if wanted else steps, server)
    finally:
        if "--keep" not in words:
            server.end()
    print(f"{passed} passed, {failed} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
