"""The S3 store over HTTPS: a proxy in front of a real server is the end of TLS, with certificates of
an authority that nobody but the test knows."""

import hashlib
import os
import ssl
import subprocess

import pytest
from fault_proxy import FaultProxy
from probing import port_of, wait_ready, wait_reason
from s3_server import S3Server
from store_client import StoreClient, StoreError, refused
from workers import Workers

BUCKET = "tls-bucket"
BIG = 20 * 1000 * 1000  # three parts


class Authority:
    """Issues certificates with the openssl program."""

    def __init__(self, folder, name):
        self.folder = folder / name
        self.folder.mkdir()
        self.file = self.folder / "ca.pem"
        self._run("req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes",
                  "-keyout", "ca.key", "-out", "ca.pem", "-days", "2", "-subj", f"/CN={name}")

    def _run(self, *arguments, before=()):
        done = subprocess.run([*before, "openssl", *arguments], cwd=self.folder, text=True,
                              capture_output=True, check=False)
        assert done.returncode == 0, done.stderr

    def context(self, name, issued=None):
        """A server's TLS for a subject such as "IP:127.0.0.1"; `issued`: when, for one day."""
        (self.folder / "names").write_text(f"subjectAltName={name}\n")
        self._run("req", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-keyout",
                  "own.key", "-out", "own.csr", "-subj", "/CN=store")
        self._run("x509", "-req", "-in", "own.csr", "-CA", "ca.pem", "-CAkey", "ca.key", "-set_serial",
                  str(int.from_bytes(os.urandom(8), "big") >> 1), "-days", "1", "-extfile", "names",
                  "-out", "own.pem", before=["faketime", issued] if issued else ())
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(self.folder / "own.pem", self.folder / "own.key")
        return context


@pytest.fixture(scope="module")
def s3_server(program):
    server = S3Server()
    try:
        server.start()
        client = StoreClient(program("store-commands"), server.environment(BUCKET))
        assert client.bucket(method="PUT", subresource="")["status"] == 200
        client.close_process()
        yield server
    finally:
        server.stop()


@pytest.fixture(scope="module")
def authority(tmp_path_factory):
    return Authority(tmp_path_factory.mktemp("tls"), "ours")


@pytest.fixture
def front(s3_server):
    """front(context): a proxy that speaks TLS with it."""
    opened = []

    def make(context):
        opened.append(FaultProxy(s3_server.port, context))
        return opened[-1]

    yield make
    for proxy in opened:
        proxy.close()


@pytest.fixture
def connect(s3_server, program):
    opened = []

    def make(proxy, **variables):
        environment = {**s3_server.environment(BUCKET, proxy.endpoint), **variables}
        opened.append(StoreClient(program("store-commands"), environment))
        return opened[-1]

    yield make
    for client in opened:
        client.close_process()


@pytest.fixture
def proxy(front, authority):
    return front(authority.context("IP:127.0.0.1"))


def sha256(data):
    return hashlib.sha256(data).hexdigest()


@pytest.mark.parametrize("variable", ["S3_CA_FILE", "AWS_CA_BUNDLE"])
def test_all_calls_work_with_an_authority_of_one_s_own(connect, proxy, authority, tmp_path, variable):
    store = connect(proxy, **{variable: str(authority.file)})
    data = os.urandom(BIG)
    (tmp_path / "big").write_bytes(data)
    store.put(key="k é+", text="text", metadata={"owner": "me"})
    store.put(key="big", path=str(tmp_path / "big"), expect_sha256=sha256(data))
    head = store.head(key="k é+")
    assert head["sha256"] == sha256(b"text") and head["metadata"] == {"owner": "me"}
    store.open(key="big")
    assert store.read(length=BIG)["sha256"] == sha256(data)
    assert store.move(**{"from": "k é+", "to": "moved"})["result"] == 0
    assert store.keys() == ["big", "moved"]
    url = store.presign(key="moved", method="GET")["url"]
    assert url.startswith("https://")
    fetched = subprocess.run(["curl", "-sS", "-f", "--cacert", authority.file, url], text=True,
                             capture_output=True, check=True)
    assert fetched.stdout == "text"
    assert store.delete_many(keys=store.keys())["result"] == 0
    assert store.keys() == []


def test_bodies_are_not_signed_but_checked(connect, proxy, authority):
    store = connect(proxy, S3_CA_FILE=str(authority.file))
    proxy.add("PUT .*/k", corrupt_request=True)
    proxy.add("GET .*/k", corrupt=True)
    store.put(key="k", text="the truth " * 1000)
    assert store.get(key="k")["sha256"] == sha256(b"the truth " * 1000)
    puts = [headers for line, headers in proxy.heads if line.startswith("PUT ")]
    assert len(puts) == 2 and len(proxy.seen("GET .*/k")) == 2
    for headers in puts:
        assert headers["x-amz-content-sha256"] == "UNSIGNED-PAYLOAD"
        assert headers["content-md5"] and headers["content-type"] == "application/octet-stream"
    assert store.head(key="k")["etag"] == hashlib.md5(b"the truth " * 1000).hexdigest()


def test_connections_and_sessions_are_used_again(connect, proxy, authority):
    store = connect(proxy, S3_CA_FILE=str(authority.file))
    for number in range(20):
        store.put(key=f"k{number:02d}", text="x")
    assert proxy.resumed == [False]  # one connection for all
    for _ in range(3):
        proxy.add("GET .*/k00", swallow=True)  # the server closes, the client connects anew
    assert store.get(key="k00")["text"] == "x"
    assert proxy.resumed == [False, True, True, True]
    found = store.download(keys=[f"k{number:02d}" for number in range(20)] * 5)["found"]
    assert {one["text"] for one in found} == {"x"} and len(found) == 100
    # Of connections that are made at once most may find the session taken away by another.
    assert 1 <= len(proxy.resumed) - 4 <= 12 and any(proxy.resumed[4:])


def distrust(store, proxy):
    """The failure of a store whose server is not to be trusted: at once. A job is given back."""
    with pytest.raises(StoreError) as caught:
        store.put(key="secret", text="x")
    assert caught.value.type == "ConfigurationError" and caught.value.retryable
    assert "secret" in caught.value.message and "certificate is not trusted" in caught.value.message
    assert proxy.connections == 1 and proxy.requests == []
    return caught.value.message


def test_a_certificate_for_another_host_is_refused(connect, front, authority):
    proxy = front(authority.context("DNS:other.example"))
    message = distrust(connect(proxy, S3_CA_FILE=str(authority.file)), proxy)
    assert "127.0.0.1" in message and "S3_ENDPOINT" in message


def test_a_certificate_of_an_unknown_authority_is_refused(connect, front, authority, tmp_path):
    stranger = Authority(tmp_path, "stranger")
    proxy = front(stranger.context("IP:127.0.0.1"))
    assert "S3_CA_FILE" in distrust(connect(proxy, S3_CA_FILE=str(authority.file)), proxy)
    proxy.connections = 0
    distrust(connect(proxy), proxy)  # nor do the system's authorities know it


def test_a_certificate_that_has_run_out_is_refused(connect, front, authority):
    proxy = front(authority.context("IP:127.0.0.1", issued="2001-02-03"))
    assert "expired" in distrust(connect(proxy, S3_CA_FILE=str(authority.file)), proxy)


def test_an_authority_s_file_that_is_none_is_said(connect, proxy, tmp_path):
    (tmp_path / "rubbish").write_text("no certificate\n")
    for path in (tmp_path / "missing", tmp_path / "rubbish"):
        with refused("ConfigurationError", str(path), "S3_CA_FILE", retryable=True):
            connect(proxy, S3_CA_FILE=str(path)).put(key="k", text="x")
    assert proxy.requests == []


def test_a_worker_waits_for_the_authority_s_file(s3_server, proxy, authority, program, database, tmp_path):
    file = tmp_path / "mounted"
    workers = Workers(program, database, tmp_path)
    try:
        worker = workers.start("object-remove-worker", "--listen", "127.0.0.1:0", S3_CA_FILE=file,
                               CORTANA_STORE_PROBE_MS=100,
                               **s3_server.environment(BUCKET, proxy.endpoint))
        assert "S3_CA_FILE" in wait_reason(port_of(worker), str(file))
        assert proxy.requests == []
        file.write_bytes(authority.file.read_bytes())
        wait_ready(port_of(worker))
        assert worker.says("cannot be used: ") and worker.stop() == 0
    finally:
        workers.end()


def test_a_stage_in_its_sandbox_reads_the_authority_s_file(s3_server, connect, proxy, authority,
                                                           program, tmp_path):
    video = "0b0e0c7e-3d5f-4a7b-9a52-6f1f7a3c0001"
    store = connect(proxy, S3_CA_FILE=str(authority.file))
    store.put(key=f"frames/{video}/0.jpg", text="x")
    store.put(key="kept", text="x")
    done = Workers(program, "", tmp_path).once(
        {"video_id": video}, name="object-remove-worker", S3_CA_FILE=str(authority.file),
        **s3_server.environment(BUCKET, proxy.endpoint))
    assert done.returncode == 0, done.stdout + done.stderr
    assert '"removed": 1' in done.stdout or '"removed":1' in done.stdout
    assert store.head(key=f"frames/{video}/0.jpg")["result"] == 1
    done = Workers(program, "", tmp_path).once(
        {"video_id": video}, name="object-remove-worker",
        **s3_server.environment(BUCKET, proxy.endpoint))
    assert done.returncode == 78 and "certificate is not trusted" in done.stdout
