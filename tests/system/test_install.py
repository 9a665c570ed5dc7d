"""An installation: where things lie, units of systemd, settings and where they come from."""

import functools
import hashlib
import json
import os
import pathlib
import pty
import re
import shlex
import shutil
import subprocess
import sys
import tempfile

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
BUILD = pathlib.Path(os.environ.get("BUILD_DIR", ROOT / "build"))
sys.path.insert(0, str(ROOT / "scripts"))
import stages  # noqa: E402

STAGES = stages.read()
WORKERS = [*(stage.name for stage in STAGES), "scanner"]
NOBODY = 65534


@pytest.fixture(scope="module")
def installed(tmp_path_factory):
    """What `meson install` makes, below a folder of its own."""
    destination = tmp_path_factory.mktemp("installed")
    subprocess.run(["meson", "install", "-C", BUILD, "--no-rebuild", "--quiet"], check=True, capture_output=True,
                   env={**os.environ, "DESTDIR": str(destination)})
    return next(destination.glob("**/bin/cortana")).parents[1]


def test_each_thing_lies_in_its_place(installed):
    assert [path.name for path in (installed / "bin").iterdir()] == ["cortana"]
    assert {path.name for path in (installed / "libexec/cortana").iterdir()} == {
        "api-gateway", "scheduler", "cortana-setup", "cortana-upgrade", *(f"{name}-worker" for name in WORKERS)}
    share = installed / "share"
    for path in ("man/man1/cortana.1", "man/man1/cortana-search.1", "man/man8/ocr-worker.8",
                 "bash-completion/completions/cortana", "zsh/site-functions/_cortana",
                 "fish/vendor_completions.d/cortana.fish", "doc/cortana-vision/docs/operations.md"):
        assert (share / path).stat().st_size > 100, path
    assert all(page.stat().st_size > 500 for page in (share / "man/man8").iterdir())
    subprocess.run(["bash", "-n", share / "bash-completion/completions/cortana"], check=True)
    pages = [share / "man" / page for page in ("man1/cortana.1", "man1/cortana-clip.1", "man8/ocr-worker.8")]
    shown = subprocess.run(["man", "--warnings", "-E", "UTF-8", "-l", *pages], capture_output=True, text=True, check=True,
                           env={**os.environ, "MANPAGER": "cat"})
    assert shown.stderr == "" and "claim \"ocr\" jobs" in shown.stdout


def test_only_programs_that_open_videos_load_ffmpeg(installed):
    """Loading it costs 13 MiB and some 20 ms of each process of a stage."""
    def loads_ffmpeg(program):
        libraries = subprocess.run(["ldd", program], capture_output=True, text=True).stdout
        return "libavcodec" in libraries or "libswscale" in libraries

    programs = [*(installed / "libexec/cortana").iterdir(), installed / "bin/cortana"]
    assert {path.name for path in programs if loads_ffmpeg(path)} == {
        "transcode-worker", "sample-worker", "clip-generate-worker", "subtitles-worker", "transcribe-worker", "cortana"}


def unit_files(installed, folder):
    """The units with the paths of this installation."""
    prefix = str(installed)
    for unit in (installed / "lib/systemd/system").glob("*.*"):
        if unit.is_file():
            text = re.sub(r"^ExecStart=\S*/libexec/", f"ExecStart={prefix}/libexec/", unit.read_text(), flags=re.M)
            (folder / unit.name).write_text(text)
    template = folder / "cortana-worker@.service"
    names = [f"cortana-worker@{name}.service" for name in WORKERS[:-1]]
    for name in names:
        (folder / name).write_text(template.read_text())
    return [*names, "cortana-scanner.service", "cortana-scheduler.service", "cortana-gateway.service", "cortana.target"]


def test_systemd_takes_the_units_and_finds_them_hardened(installed, tmp_path):
    units = unit_files(installed, tmp_path)
    checked = subprocess.run(["systemd-analyze", "verify", "--man=no", "--recursive-errors=no",
                              *(tmp_path / unit for unit in units)], capture_output=True, text=True)
    ours = [line for line in checked.stderr.splitlines() if str(tmp_path) in line or "cortana" in line]
    assert ours == []
    # 10 is a service that may do anything, 0 one that may do nothing.
    for unit in ("cortana-worker@ocr.service", "cortana-gateway.service"):
        subprocess.run(["systemd-analyze", "security", "--offline=yes", "--threshold=25", tmp_path / unit], check=True,
                       capture_output=True)
    wanted = set(re.findall(r"cortana-\S+\.service", (tmp_path / "cortana.target").read_text()))
    assert wanted == set(units) - {"cortana.target"} - {
        f"cortana-worker@{stage.name}.service" for stage in STAGES if stage.setting}


# ---- settings ------------------------------------------------------------------------------------


def config(cortana, *arguments, **variables):
    environment = {"PATH": os.environ["PATH"], **{name: str(value) for name, value in variables.items()}}
    return subprocess.run([cortana, "config", *arguments], env=environment, capture_output=True, text=True)


def settings(*arguments, **variables):
    done = config(BUILD / "cli/cortana", "--json", *arguments, **variables)
    assert done.returncode == 0, done.stderr
    rows = [json.loads(line) for line in done.stdout.splitlines()]
    return {row["name"]: (row["value"], row["source"]) for row in rows}


def test_the_environment_goes_before_secrets_and_these_before_the_file(tmp_path):
    file = tmp_path / "cortana.conf"
    secret = tmp_path / "secret"
    secret.write_text("postgresql://fleet:hidden-password@db/cortana\n")
    file.write_text(f"# a server\n\nSTORE_URL = \"dir:/srv/store\"\nS3_REGION=eu\nLOG_LEVEL=warn\nDATABASE_URL_FILE={secret}\n")
    found = settings(CORTANA_CONFIG=file, S3_REGION="us", LOG_LEVEL="")
    assert found == {"STORE_URL": ("dir:/srv/store", f"{file}, line 3"), "S3_REGION": ("us", "environment"),
                     "DATABASE_URL": ("postgresql://fleet:***************@db/cortana", f"{secret} ({file}, line 6)")}

    credentials = tmp_path / "credentials"
    credentials.mkdir()
    (credentials / "DATABASE_URL").write_text("postgresql://gateway@db/cortana")
    (credentials / "S3_SECRET_ACCESS_KEY").write_text("hidden-key")
    found = settings(CORTANA_CONFIG=file, CREDENTIALS_DIRECTORY=credentials)
    assert found["DATABASE_URL"][0] == "postgresql://gateway@db/cortana"
    assert found["S3_SECRET_ACCESS_KEY"][0] == "(hidden)"
    named = settings(CORTANA_CONFIG=file, CREDENTIALS_DIRECTORY=credentials, DATABASE_URL_FILE=secret)
    assert named["DATABASE_URL"][1] == f"{secret} (DATABASE_URL_FILE)"


@pytest.mark.skipif(os.geteuid() != 0, reason="only root makes a file that another user may not read")
def test_a_service_leaves_aside_secrets_that_are_not_for_it():
    """The machine's file names those of the command line, which is root's; a service was handed its own."""
    with tempfile.TemporaryDirectory() as folder:
        etc = pathlib.Path(folder)
        etc.chmod(0o755)
        for name, mode in (("roots", 0o700), ("handed", 0o755)):
            (etc / name).mkdir(mode)
        (etc / "roots/CORTANA_JWT_SECRET").write_text("a secret of the gateway's")
        (etc / "handed/DATABASE_URL").write_text("postgresql://fleet@db/cortana")
        file = etc / "cortana.conf"
        file.write_text(f"CORTANA_JWT_SECRET_FILE={etc}/roots/CORTANA_JWT_SECRET\nS3_REGION=eu\n")

        def shown(**variables):
            return subprocess.run([BUILD / "cli/cortana", "config"], capture_output=True, text=True, check=False, user=NOBODY,
                                  group=NOBODY, extra_groups=[], env={"CORTANA_CONFIG": str(file), **variables})
        service = shown(CREDENTIALS_DIRECTORY=str(etc / "handed"))
        assert service.returncode == 0, service.stderr
        assert "fleet@db" in service.stdout and "S3_REGION" in service.stdout and "JWT" not in service.stdout
        assert "cannot read" in shown().stderr


@pytest.mark.parametrize("text, complaint", [
    ("LOG_LEVEL\n", "line 1 is not of the form NAME=VALUE"),
    ("\nLOG_LEVLE=info\n", "line 2: there is no setting LOG_LEVLE"),
    ("LOG_LEVEL=info\nLOG_LEVEL=warn\n", "line 2: LOG_LEVEL is set already: "),
    ("S3_SECRET_ACCESS_KEY_FILE=/nowhere/key\n", "cannot read /nowhere/key"),
    ("S3_REGION_FILE=/etc/hostname\n", "there is no setting S3_REGION_FILE"),
])
def test_a_mistake_in_the_file_names_its_line(tmp_path, text, complaint):
    file = tmp_path / "cortana.conf"
    file.write_text(text)
    for program in (["cli/cortana", "config"], ["workers/ocr/ocr-worker"], ["gateway/api-gateway"]):
        done = subprocess.run([BUILD / program[0], *program[1:]], env={"CORTANA_CONFIG": str(file)}, capture_output=True,
                              text=True)
        assert done.returncode == (1 if program[1:] else 78)
        assert complaint in done.stderr and done.stderr.count("\n") == 1


def test_the_document_names_every_setting():
    """docs/environment.md and the program know the same names."""
    text = (ROOT / "docs/environment.md").read_text()
    documented = set()
    for line in text.splitlines():
        if line.startswith("| `"):
            documented |= set(re.findall(r"`([A-Z][A-Z0-9_]+)`", line.split("|")[1]))
    documented = {name for name in documented if not name.startswith(("AWS_", "PG"))}
    own = {"CORTANA_CONFIG", "CORTANA_JWT_SECRET_FILE"}  # the file, and a secret's file
    known = {name for name in settings("--all", CORTANA_CONFIG="") if not name.startswith(("AWS_", "PG"))}
    assert documented - own == known - {"S3_BUCKET", "HTTPS_PROXY", "NO_PROXY"}


# ---- commands in documents -----------------------------------------------------------------------


def documented_commands():
    """Every call of cortana in a block of a document: where it stands, and its words up to a pipe or a comment."""
    for page in sorted([ROOT / "README.md", *(ROOT / "docs").glob("*.md")]):
        for number, line in enumerate(page.read_text().splitlines(), 1):
            for call in re.findall(r"(?:^|&& |; |\$\(|sudo |=\S+ )cortana ([^#|;&)]*)", line.strip() if line.startswith("    ") else ""):
                yield f"{page.name}:{number}", shlex.split(call.replace("…", " "), posix=True)


@functools.cache
def help_of(*names):
    done = subprocess.run([BUILD / "cli/cortana", *names, "--help"], capture_output=True, text=True)
    return done.stdout if done.returncode == 0 else None


def test_the_commands_of_the_documents_are_there():
    found = list(documented_commands())
    assert len(found) > 20
    for place, words in found:
        names = [word for word in words if re.fullmatch(r"[a-z-]+", word)][:2]
        text = next(filter(None, (help_of(*names[:count]) for count in range(len(names), 0, -1))), None)
        assert text, f"{place}: there is no cortana {' '.join(words)}"
        for option in (word.split("=")[0] for word in words if word.startswith("--")):
            assert re.search(rf"{option}\b", text), f"{place}: cortana {' '.join(names)} has no {option}"


# ---- releases ------------------------------------------------------------------------------------


def test_two_releases_of_one_tree_are_the_same_to_the_last_bit(tmp_path):
    for name in ("one", "two"):
        subprocess.run([ROOT / "scripts/release", "--source-only", tmp_path / name], check=True, capture_output=True)
    sums = (tmp_path / "one/SHA256SUMS").read_text()
    assert re.fullmatch(r"[0-9a-f]{64}  cortana-vision-\d+\.\d+\.\d+\.tar\.gz\n", sums)
    assert sums == (tmp_path / "two/SHA256SUMS").read_text()
    subprocess.run(["sha256sum", "--check", "--quiet", "SHA256SUMS"], cwd=tmp_path / "one", check=True)


def test_a_release_says_where_it_comes_from_and_is_signed(tmp_path):
    keys = tmp_path / "keys"
    keys.mkdir(mode=0o700)
    environment = {**os.environ, "GNUPGHOME": str(keys), "BUILDER": "https://builder.example.com/1"}

    def run(*command, status=0):
        done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False)
        assert done.returncode == status, done.stderr
        return done.stdout.strip()
    run("gpg", "--batch", "--quiet", "--pinentry-mode", "loopback", "--passphrase", "", "--quick-generate-key", "release@example.com",
        "ed25519", "sign", "never")
    try:
        run(ROOT / "scripts/release", "--source-only", "--sign", "release@example.com", tmp_path / "release")
        for name in ("SHA256SUMS", "provenance.json"):
            run("gpg", "--verify", f"release/{name}.asc", f"release/{name}")
        statement = json.loads((tmp_path / "release/provenance.json").read_text())
        with open(tmp_path / "release/provenance.json", "a", encoding="utf-8") as file:
            file.write(" ")
        run("gpg", "--verify", "release/provenance.json.asc", "release/provenance.json", status=1)
    finally:
        run("gpgconf", "--kill", "all")
    assert (statement["_type"], statement["predicateType"]) == ("https://in-toto.io/Statement/v1", "https://slsa.dev/provenance/v1")
    archive, = (tmp_path / "release").glob("*.tar.gz")
    assert statement["subject"] == [{"name": archive.name, "digest": {"sha256": hashlib.sha256(archive.read_bytes()).hexdigest()}}]
    assert statement["predicate"]["runDetails"]["builder"] == {"id": "https://builder.example.com/1"}
    source, = statement["predicate"]["buildDefinition"]["resolvedDependencies"]
    assert source["digest"] == {"gitCommit": run("git", "-C", ROOT, "rev-parse", "HEAD")}


def test_a_release_installs_what_it_needs_and_leaves_nothing_when_it_fails(tmp_path):
    """On a machine that has no package yet: apt-get and the build are stand-ins, and the build fails."""
    for name, does in (("dpkg-query", "exit 1"), ("sudo", 'exec "$@"'), ("apt-get", f'echo "$@" >>{tmp_path}/apt'),
                       ("dpkg-buildpackage", "echo out of memory; exit 2")):
        (tmp_path / name).write_text(f"#!/bin/sh\n{does}\n")
        (tmp_path / name).chmod(0o755)
    done = subprocess.run([ROOT / "scripts/release", tmp_path / "release"], text=True, capture_output=True, check=False,
                          env={**os.environ, "PATH": f"{tmp_path}:{os.environ['PATH']}"})
    assert done.returncode == 1 and "out of memory" in done.stderr
    assert "release: the Debian package" in done.stderr
    installed = (tmp_path / "apt").read_text().split()
    assert {"build-essential", "debhelper", "dpkg-dev", "meson", "libpq-dev"} <= set(installed)
    assert not (tmp_path / "release").exists()


def test_provenance_names_what_package_and_image_were_built_with(tmp_path):
    (tmp_path / "sums").write_text(f"{'a' * 64}  cortana-vision.deb\n{'b' * 64}  cortana-vision.oci.tar\n")
    (tmp_path / "buildinfo").write_text("Format: 1.0\nInstalled-Build-Depends:\n gcc-12 (= 12.2.0-14+deb12u1),\n"
                                        " libpq-dev (= 1:15.14-0)\nEnvironment:\n LANG=\"C.UTF-8\"\n")
    done = subprocess.run([ROOT / "scripts/provenance", "--sums", tmp_path / "sums", "--version", "0.1.0", "--commit", "c" * 40,
                           "--machine", "amd64", "--builder", "urn:x", "--buildinfo", tmp_path / "buildinfo",
                           "--base", "debian:trixie-slim", f"sha256:{'d' * 64}", "--snapshot", "20261101T000000Z"],
                          capture_output=True, text=True, check=True)
    statement = json.loads(done.stdout)
    assert [subject["name"] for subject in statement["subject"]] == ["cortana-vision.deb", "cortana-vision.oci.tar"]
    definition = statement["predicate"]["buildDefinition"]
    assert definition["externalParameters"] == {"version": "0.1.0", "commit": "c" * 40, "base": "debian:trixie-slim",
                                                "snapshot": "20261101T000000Z"}
    assert definition["resolvedDependencies"][1:] == [
        {"uri": "docker://debian:trixie-slim", "digest": {"sha256": "d" * 64}},
        {"uri": "pkg:deb/debian/gcc-12@12.2.0-14%2Bdeb12u1?arch=amd64"}, {"uri": "pkg:deb/debian/libpq-dev@1%3A15.14-0?arch=amd64"}]


def test_quadlet_files_say_what_compose_says(tmp_path):
    subprocess.run([ROOT / "scripts/quadlet", tmp_path], check=True)
    made = {path.name: path.read_text() for path in tmp_path.iterdir()}
    assert len(made) > 20
    assert made == {path.name: path.read_text() for path in (ROOT / "install/quadlet").iterdir()}, "scripts/quadlet install/quadlet"


# ---- what scripts/install does for a user who is not root ----------------------------------------------------


class Unprivileged:
    """Starts scripts/install as a user who may not use sudo, on a machine that lacks two packages until `there` exists."""

    def __init__(self, folder):
        self.there, self.commands, self.script = folder / "there", folder / "bin", folder / "install"
        folder.chmod(0o755)
        self.commands.mkdir()
        for name in ("bash", "awk", "sed", "grep", "id", "dirname", "readlink", "sleep", "apt-cache"):
            (self.commands / name).symlink_to(shutil.which(name))
        (self.commands / "dpkg-query").write_text(f"#!/bin/sh\n[ -e {self.there} ] && echo installed\n")
        (self.commands / "dpkg-query").chmod(0o755)
        (self.commands / "sudo").write_text("#!/bin/sh\nexit 1\n")  # there, but not for this user
        (self.commands / "sudo").chmod(0o755)
        shutil.copy(ROOT / "scripts/install", self.script)
        (folder / "packages").write_text("[wanted]\npostgresql\npostgresql-*-plpgsql-check\n")

    def start(self, errors):
        prefix = [shutil.which("setpriv"), f"--reuid={NOBODY}", f"--regid={NOBODY}", "--clear-groups"] if os.geteuid() == 0 else []
        return subprocess.Popen([*prefix, self.script, "wanted"], stderr=errors, env={"PATH": str(self.commands)}, cwd="/")


@pytest.fixture
def unprivileged():
    with tempfile.TemporaryDirectory(dir="/tmp") as folder:
        yield Unprivileged(pathlib.Path(folder))


def check_line(line):
    said = subprocess.run(["apt-cache", "depends", "postgresql"], check=True, text=True, capture_output=True).stdout
    version, = re.findall(r"postgresql-(\d+)$", said, re.MULTILINE)
    assert line.endswith(f"apt-get install --no-install-recommends postgresql postgresql-{version}-plpgsql-check")


def test_what_root_has_to_type_is_printed(unprivileged):
    process = unprivileged.start(subprocess.PIPE)
    line, = process.communicate(timeout=300)[1].decode().splitlines()
    assert process.returncode == 1
    check_line(line)


def test_where_there_is_no_debian_it_names_the_other_way(unprivileged):
    (unprivileged.commands / "dpkg-query").unlink()
    process = unprivileged.start(subprocess.PIPE)
    assert process.communicate(timeout=300)[1].decode().startswith("this needs packages of Debian 12 or 13; on any other machine")
    assert process.returncode == 1


def test_on_a_terminal_it_goes_on_when_the_packages_are_there(unprivileged):
    terminal, other = pty.openpty()
    process = unprivileged.start(other)
    with open(terminal, encoding="utf-8") as screen:
        check_line(screen.readline().rstrip())
        assert process.poll() is None
        unprivileged.there.touch()
        assert process.wait(timeout=300) == 0
    os.close(other)
