"""Fixtures of the system tests: real PostgreSQL clusters, databases made from one migrated template,
and the built programs."""

import collections
import contextlib
import functools
import os
import pathlib
import pwd
import re
import shutil
import signal
import subprocess
import tempfile
import time
import uuid

import psycopg2
import psycopg2.extras
import pytest
from api import Gateway, Library
from fault_proxy import FaultProxy
from jobs import Queue
from local_installation import finish, make_folder, start
from pipeline import Pipeline
from s3_server import S3Server
from workers import STAGE_SCHEMA, Jobs, Workers
from xdist.scheduler import LoadScopeScheduling

psycopg2.extras.register_uuid()

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parents[1]
TEMPLATE = "cortana_template"
# What takes longest is begun first: at the end no process is to work alone.
LONGEST = ("test_pipeline_faults", "test_pipeline", "test_clip_playback", "test_fault_schedule", "test_faults", "test_gc",
           "test_s3_pipeline", "test_clip_cuts", "test_clip", "test_clip_requests", "test_recordings", "test_terminal", "test_quality")
MODELS = ("ara", "chi_sim", "deu", "eng", "fra", "heb", "jpn", "kor", "ell", "pol", "rus", "ukr", "osd")

# Many tests compare all objects of a store with what a stage writes; those of job logs switch them on.
os.environ.setdefault("CORTANA_LOG_DAYS", "0")
# The settings of this machine and of its own installation are not the tests'.
os.environ |= {"CORTANA_CONFIG": "", "TZ": "UTC", "LC_ALL": "C.UTF-8"}
time.tzset()


def postgres_bin():
    """The directory of initdb and pg_ctl: $PG_BIN, else the newest that Debian has installed."""
    if os.environ.get("PG_BIN"):
        return pathlib.Path(os.environ["PG_BIN"])
    found = pathlib.Path("/usr/lib/postgresql").glob("*/bin/initdb")
    newest = max(found, key=lambda path: float(path.parts[-3]), default=None)
    if newest is None:
        pytest.exit("no PostgreSQL server is installed", returncode=2)
    return newest.parent


class Cluster:
    """A private PostgreSQL: own data directory, Unix socket only, never as root."""

    def __init__(self, durable=False, copied=None, folder="/tmp", **environment):
        self.filled = {}  # by the function that fills it: the template, what the function returned, unwritten copies
        self.make_directory(folder)
        self.prefix += ["env", *(f"{name}={value}" for name, value in environment.items())]  # as their user: one of root's is refused
        if copied:
            subprocess.run([*self.prefix, "cp", "-a", copied.data, self.data], check=True)
        else:
            self._run("initdb", "-D", self.data, "-A", "trust", "-U", "postgres", "-E", "UTF8", "--locale=C.UTF-8", "--no-sync")
        safe = "on" if durable else "off"
        self.write("postgresql.conf", "\n".join([
            "listen_addresses = ''", f"unix_socket_directories = '{self.directory}'", "max_connections = 60", "shared_buffers = 64MB",
            "log_min_messages = warning", f"fsync = {safe}", f"synchronous_commit = {safe}", f"full_page_writes = {safe}"]) + "\n")

    def make_directory(self, folder="/tmp"):
        # A socket's path may have about 100 bytes, so this does not lie in pytest's tmp_path.
        self.directory = pathlib.Path(tempfile.mkdtemp(prefix="cv-pg-", dir=folder))
        self.prefix = []
        self.bin = postgres_bin()
        if os.geteuid() == 0:
            owner = pwd.getpwnam("postgres")
            os.chown(self.directory, owner.pw_uid, owner.pw_gid)
            self.prefix = ["setpriv", "--reuid=postgres", "--regid=postgres", "--init-groups"]
        self.directory.chmod(0o755)
        self.data = self.directory / "data"

    def write(self, name, text):
        """Appends to a file of the server's, as its user."""
        subprocess.run([*self.prefix, "tee", "-a", self.data / name], check=True, input=text, text=True,
                       stdout=subprocess.DEVNULL)

    def _run(self, program, *arguments):
        done = subprocess.run([*self.prefix, self.bin / program, *arguments], text=True,
                              stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                              stderr=subprocess.STDOUT, cwd="/", check=False)
        assert done.returncode == 0, f"{program}: {done.stdout}"

    def start(self):
        # -l: else the server keeps our pipe open and the run above never sees its end.
        self._run("pg_ctl", "-w", "-t", "300", "-D", self.data, "-l", self.directory / "log", "start")

    def stop(self, immediate=False):
        self._run("pg_ctl", "-w", "-t", "300", "-D", self.data, "-m",
                  "immediate" if immediate else "fast", "stop")

    def restart(self, immediate=False):
        self.stop(immediate)
        self.start()

    def is_running(self):
        return subprocess.run([*self.prefix, self.bin / "pg_ctl", "-D", self.data, "status"],
                              cwd="/", stdout=subprocess.DEVNULL, check=False).returncode == 0

    def url(self, database="postgres"):
        return f"postgresql://postgres@/{database}?host={self.directory}"

    def connect(self, database="postgres"):
        connection = psycopg2.connect(self.url(database))
        connection.autocommit = True
        return connection

    def create_template(self):
        """The database that all others are copied from, migrated once."""
        run_sql(self, f"CREATE DATABASE {TEMPLATE}")
        migrate(self.url(TEMPLATE))

    def create_database(self, template=TEMPLATE):
        name = f"test_{uuid.uuid4().hex}"
        # Copying files takes two thirds of the time of writing each page to the log, the default.
        run_sql(self, f"CREATE DATABASE {name} TEMPLATE {template} STRATEGY FILE_COPY")
        # What belongs to a database and not to its schema is not copied with it.
        run_sql(self, "SELECT cortana.secure_database()", name)
        return name

    @contextlib.contextmanager
    def lend_database(self, fill=None):
        """A fresh database, filled by fill(queue), and what that returned. It is filled once and copied. A database in which
        nothing was written is fresh still, and lent again."""
        template, filled, unwritten = self.filled.get(fill) or self.fill_template(fill)
        name = unwritten.pop() if unwritten else self.create_database(template)
        last = self.next_transaction()
        yield name, filled
        run_sql(self, f"SELECT pg_terminate_backend(pid, 2000) FROM pg_stat_activity WHERE datname = '{name}'")
        if self.next_transaction() == last + 1:
            unwritten.append(name)
        else:
            run_sql(self, f"DROP DATABASE {name} WITH (FORCE)")

    def fill_template(self, fill):
        template, filled = TEMPLATE, None
        if fill:
            template = self.create_database()
            with contextlib.closing(self.connect(template)) as connection:
                filled = fill(Queue(connection))
        return self.filled.setdefault(fill, (template, filled, []))

    def next_transaction(self):
        return int(run_sql(self, "SELECT pg_current_xact_id()::text"))

    def remove(self):
        if self.is_running():
            self.stop(immediate=True)
        shutil.rmtree(self.directory, ignore_errors=True)


def pytest_configure(config):
    os.environ["TESSDATA_PREFIX"] = link_models()
    config.addinivalue_line("markers", "programs: runs programs of the build, set for every test that asks for `program`")
    config.addinivalue_line("markers", "sanitized(cases): how many of a test's cases ./test --sanitize runs, where the cases, or other"
                            " tests, run the same code; the others are `spared`")
    config.addinivalue_line("markers", "spared: by `sanitized`")


class Scheduling(LoadScopeScheduling):
    """Hands a file's tests out one by one; all of them to one process where they share what is made once."""

    @functools.cached_property
    def shared(self):
        uses = re.compile(r'scope="module"|^def test_.*\bgateway\b', re.M)
        return {path.name for path in HERE.glob("test_*.py") if uses.search(path.read_text())}

    def _split_scope(self, nodeid):
        path = nodeid.partition("::")[0]
        return path if pathlib.PurePath(path).name in self.shared else nodeid


def pytest_xdist_make_scheduler(config, log):
    return Scheduling(config, log)


def pytest_collection_modifyitems(items):
    order = {name: number for number, name in enumerate(LONGEST)}
    items.sort(key=lambda item: order.get(item.path.stem, len(order)))
    cases = collections.Counter()
    for item in items:
        name = item.nodeid.partition("[")[0]
        limit = item.get_closest_marker("sanitized")
        if "program" in item.fixturenames:
            item.add_marker(pytest.mark.programs)
        if limit and cases[name] >= limit.args[0]:
            item.add_marker(pytest.mark.spared)
        cases[name] += 1


def link_models():
    """A directory of the models that the tests are written for, whatever else is installed on this machine."""
    folder = build_directory() / "tests" / "models"
    folder.mkdir(parents=True, exist_ok=True)
    for name in MODELS:
        with contextlib.suppress(FileExistsError):
            (folder / f"{name}.traineddata").symlink_to(f"/usr/share/tesseract-ocr/5/tessdata/{name}.traineddata")
    return str(folder)


def run_sql(cluster, statement, database="postgres"):
    with contextlib.closing(cluster.connect(database)) as connection, connection.cursor() as cursor:
        cursor.execute(statement)
        return cursor.fetchone()[0] if cursor.description and cursor.rowcount else None


def build_directory():
    return pathlib.Path(os.environ.get("BUILD_DIR", ROOT / "build")).resolve()


def find_program(name):
    """A program that was built, wherever in the build directory it lies; None if there is none. What lies on the disks of machines
    under test (./test --machine) was built for them."""
    folders = (folder for folder in build_directory().iterdir() if folder.name != "machine")
    for path in sorted(path for folder in folders for path in folder.rglob(name)):
        if path.is_file() and os.access(path, os.X_OK):
            return path
    return None


def migrate(url):
    command = find_program("cortana")
    arguments = [command, "migrate"] if command else [find_program("migrate-database")]
    environment = {**os.environ, "DATABASE_URL": url}
    done = subprocess.run(arguments, env=environment, text=True, capture_output=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.fixture(scope="session")
def build_dir():
    return build_directory()


@pytest.fixture(scope="session")
def program():
    def find(name):
        path = find_program(name)
        assert path, f"{name} is not in {build_directory()}: build it first"
        return path

    return find


@pytest.fixture(scope="session")
def fixtures_dir():
    return ROOT / "fixtures"


@pytest.fixture
def store_dir(tmp_path):
    path = tmp_path / "store"
    path.mkdir()
    return path


@pytest.fixture(scope="session")
def shared_cluster():
    # In memory, where there is plenty, a database is made in a third of the time.
    is_large = os.path.isdir("/dev/shm") and shutil.disk_usage("/dev/shm").free > 8 << 30
    cluster = Cluster(folder="/dev/shm" if is_large else "/tmp")
    try:
        cluster.start()
        cluster.create_template()
        yield cluster
    finally:
        cluster.remove()


@pytest.fixture(scope="session")
def stopped_cluster():
    """A cluster with the template that others are copied from: initdb and the migrations with fsync take seconds."""
    own = Cluster()
    try:
        own.start()
        own.create_template()
        own.stop()
        yield own
    finally:
        own.remove()


@pytest.fixture
def cluster(stopped_cluster):
    """A durable cluster of the test's own, to stop and start; migrated databases come from
    cluster.create_database()."""
    own = Cluster(durable=True, copied=stopped_cluster)
    try:
        own.start()
        yield own
    finally:
        own.remove()


@pytest.fixture
def database(shared_cluster):
    """The URL of a fresh, migrated database."""
    with shared_cluster.lend_database() as (name, _):
        yield shared_cluster.url(name)


@pytest.fixture
def filled(shared_cluster):
    """filled(fill): the queue of a database of the test's own that fill(queue) has filled, and what that returned."""
    with contextlib.ExitStack() as until_then:
        def lend(fill):
            name, made = until_then.enter_context(shared_cluster.lend_database(fill))
            return Queue(until_then.enter_context(contextlib.closing(shared_cluster.connect(name)))), made

        yield lend


@pytest.fixture
def sql(database):
    """A connection to the fresh database; every statement is a transaction of its own, and one that
    waits for a lock for ever is a failure."""
    connection = psycopg2.connect(database, options="-c statement_timeout=300s")
    connection.autocommit = True
    yield connection
    connection.close()


@pytest.fixture
def queue(sql):
    """The queue of the fresh database."""
    return Queue(sql)


@pytest.fixture
def jobs(sql):
    """The queue of the fresh database, with the types of the test stages."""
    sql.cursor().execute(STAGE_SCHEMA)
    return Jobs(sql)


@pytest.fixture
def workers(program, database, tmp_path):
    """Starts workers on the fresh database; they are ended behind the test."""
    started = Workers(program, database, tmp_path)
    yield started
    started.end()


@pytest.fixture
def pipeline(program, database, sql, store_dir, tmp_path):
    """Workers of the pipeline on the fresh database, and videos put in."""
    running = Pipeline(program, database, sql, store_dir, tmp_path)
    yield running
    running.stop()


@pytest.fixture(scope="module")
def lasting(shared_cluster):
    """Makes queues of databases of their own, which last as long as the module's tests."""
    with contextlib.ExitStack() as until_then:
        def make():
            name = shared_cluster.create_database()
            until_then.callback(run_sql, shared_cluster, f"DROP DATABASE {name} WITH (FORCE)")
            return Queue(until_then.enter_context(contextlib.closing(shared_cluster.connect(name))))

        yield make


@pytest.fixture(scope="module")
def place(shared_cluster):
    """(url, queue) of a database for the whole module."""
    name = shared_cluster.create_database()
    with contextlib.closing(shared_cluster.connect(name)) as connection:
        yield shared_cluster.url(name), Queue(connection)


@pytest.fixture(scope="module")
def library(place):
    return Library(place[1])


@pytest.fixture(scope="module")
def store(tmp_path_factory):
    return tmp_path_factory.mktemp("store")


@contextlib.contextmanager
def gateways(program, place, store, tmp_path_factory):
    """Starts gateways, and stops each at the end, whatever becomes of the others."""
    with contextlib.ExitStack() as until_then:
        def start(*arguments, **environment):
            started = Gateway(program, place[0], tmp_path_factory.mktemp("gateway"), "--connections", "2", *arguments,
                              **{"STORE_URL": f"dir:{store}", **environment})
            until_then.callback(started.stop)
            return started

        yield start


@pytest.fixture(scope="module")
def start_gateway(program, place, store, tmp_path_factory):
    """Starts gateways on the module's database and store, which last as long as its tests."""
    with gateways(program, place, store, tmp_path_factory) as start:
        yield start


@pytest.fixture
def own_gateway(program, place, store, tmp_path_factory):
    """Starts gateways, too, which end with the test."""
    with gateways(program, place, store, tmp_path_factory) as start:
        yield start


@pytest.fixture(scope="module")
def gateway(start_gateway, library):
    return start_gateway()


@pytest.fixture
def cortana(program, database, store_dir):
    """Runs the command line on the fresh database and a store in a directory."""
    def call(*arguments, text="", **environment):
        return subprocess.run([program("cortana"), *map(str, arguments)], text=True, input=text, capture_output=True,
                              env={**os.environ, "DATABASE_URL": database, "STORE_URL": f"dir:{store_dir}", **environment},
                              timeout=300, check=False)

    return call


@pytest.fixture
def cortana_says(cortana):
    """The same; what it prints, or, when it is to fail, what it says of that."""
    def call(*arguments, code=0):
        done = cortana(*arguments)
        assert done.returncode == code, done.stdout + done.stderr
        return done.stderr if code else done.stdout

    return call


@pytest.fixture(scope="session")
def installation(program):
    """What `cortana run` makes before the first video comes. A copy costs a thirtieth of that."""
    folder = make_folder()
    process = start(program, folder / "data", "run", "--no-page")
    assert any("put videos into" in line for line in process.stderr), finish(process)
    process.send_signal(signal.SIGINT)
    assert finish(process)[0] == 0
    yield folder / "data"
    shutil.rmtree(folder)


@pytest.fixture
def new_data():
    """A folder of a local installation that is not there yet."""
    folder = make_folder()
    yield folder / "data"
    shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture
def data(installation, new_data):
    """The folder of a local installation without videos."""
    subprocess.run(["cp", "-a", installation, new_data], check=True)
    return new_data


@pytest.fixture
def proxy(s3_server):
    """What stands between the S3 server and its clients."""
    own = FaultProxy(s3_server.port)
    yield own
    own.close()


@pytest.fixture(scope="session")
def s3_server():
    """A real S3 server; that it cannot start is a failure, not a reason to skip."""
    server = S3Server()
    try:
        server.start()
        yield server
    finally:
        server.stop()
