"""The S3 store against a real server, and through a proxy that breaks things."""

import datetime
import hashlib
import json
import os
import subprocess
import urllib.error
import urllib.request

import pytest
from answering_server import AnsweringServer
from s3_server import ACCESS_KEY, SECRET_KEY
from store_client import StoreClient, refused
from workers import wait_until

CHANGED, NOT_FOUND = 3, 1
BIG = 41 * 1000 * 1000  # six parts, the last one short
QUICK = {"S3_STALL_TIMEOUT_S": "1"}


@pytest.fixture
def bucket(request, s3_server, program):
    """A fresh bucket; its name."""
    name = "test-" + hashlib.md5(request.node.nodeid.encode()).hexdigest()[:16]
    client = StoreClient(program("store-commands"), s3_server.environment(name))
    assert client.bucket(method="PUT", subresource="")["status"] == 200
    client.close_process()
    return name


@pytest.fixture
def connect(s3_server, bucket, program, tmp_path):
    """Opens stores on the bucket: connect(endpoint=…, prefix=…, **variables)."""
    opened = []

    def make(endpoint=None, prefix="", **variables):
        environment = s3_server.environment(bucket + prefix, endpoint)
        client = StoreClient(program("store-commands"), {**environment, **variables},
                             tmp_path / "store.log")
        opened.append(client)
        return client

    yield make
    for client in opened:
        client.close_process()


@pytest.fixture
def store(connect):
    return connect()


@pytest.fixture
def shaky(connect, proxy):
    """The store through the proxy, quick to see that nothing comes."""
    return connect(endpoint=proxy.endpoint, **QUICK)


@pytest.fixture(scope="module")
def big_file(tmp_path_factory):
    path = tmp_path_factory.mktemp("s3") / "big"
    path.write_bytes(os.urandom(BIG))
    return path


def peak_mib(store):
    """Peak of memory; nothing under a sanitizer, which has a memory of its own."""
    with open(f"/proc/{store.process.pid}/maps", encoding="utf-8") as maps:
        is_sanitized = "libasan" in maps.read()
    return 0 if is_sanitized else store.close()["peak_kib"] / 1024


def sha256(data):
    return hashlib.sha256(data).hexdigest()


STRANGE_KEYS = [
    "sp ace/two  blanks", "plus+and%20percent%", "é/日本語/🎬.mp4", "a&b=c?d#e", "'quotes'()*!~",
    ";:@$,=", "back\\slash", "..dots/...", "UPPER/lower", "[brackets]{braces}|^`", "<xml>&amp;\"",
    "k" * 1024, "long/" + "é" * 509,
]


def test_keys_of_all_kinds(store):
    for number, key in enumerate(STRANGE_KEYS):
        assert store.put(key=key, text=f"object {number}")["result"] == 0
    for number, key in enumerate(STRANGE_KEYS):
        assert store.get(key=key)["text"] == f"object {number}"
        assert store.head(key=key)["size"] == len(f"object {number}")
    expected = sorted(STRANGE_KEYS, key=str.encode)
    assert store.keys() == expected
    assert store.keys(limit=1) == expected
    for key in STRANGE_KEYS:
        url = store.presign(key=key, method="GET")["url"]
        with urllib.request.urlopen(url) as answer:
            assert answer.read().startswith(b"object ")
    half = len(STRANGE_KEYS) // 2
    assert store.delete_many(keys=STRANGE_KEYS[:half])["result"] == 0
    for key in STRANGE_KEYS[half:]:
        assert store.delete(key=key)["result"] == 0
    assert store.keys() == []
    with refused("InvalidObjectKey"):
        store.put(key="k" * 1025, text="x")


def test_what_is_known_of_an_object(store):
    notes = {"owner": "me", "title": "Café  «two»", "note": "=?UTF-8?B?eA==?= as it stands"}
    put = store.put(key="v/a.mp4", text="abc", metadata=notes)
    head = store.head(key="v/a.mp4")
    assert head["metadata"] == notes
    assert head["sha256"] == put["sha256"] == sha256(b"abc")
    assert head["etag"] == put["etag"] == hashlib.md5(b"abc").hexdigest()
    listed = store.list(prefix="v/")["entries"][0]
    assert (listed["key"], listed["size"], listed["etag"]) == ("v/a.mp4", 3, head["etag"])
    assert abs(listed["modified_ms"] - head["modified_ms"]) <= 1000
    store.put(key="own", text="")
    assert store.get(key="own")["size"] == 0
    with refused("Conflict"):
        store.put(key="v/a.mp4", text="abd", expect_sha256=sha256(b"abc"))
    assert store.get(key="v/a.mp4")["text"] == "abc"
    with refused("LimitExceeded"):
        store.get(key="v/a.mp4", limit=2)


def test_what_is_missing_is_an_outcome(store):
    assert store.head(key="none")["result"] == NOT_FOUND
    assert store.get(key="none")["result"] == NOT_FOUND
    assert store.open(key="none")["result"] == NOT_FOUND
    assert store.delete(key="none")["result"] == 0
    assert store.move(**{"from": "none", "to": "x"})["result"] == NOT_FOUND
    assert store.list(prefix="none")["entries"] == []


def test_move(store):
    put = store.put(key="in/a b+é", text="text", metadata={"owner": "me"})
    assert store.move(**{"from": "in/a b+é", "to": "x"}, if_etag="other")["result"] == CHANGED
    moved = store.move(**{"from": "in/a b+é", "to": "y/%z"}, if_etag=put["etag"])
    assert moved["result"] == 0 and moved["size"] == 4
    head = store.head(key="y/%z")
    assert head["metadata"] == {"owner": "me"}
    assert head["sha256"] == sha256(b"text")
    assert store.keys() == ["y/%z"]


def test_lists_page_by_page(store):
    keys = [f"d/{number:04d}" for number in range(1234)]
    for key in keys[:7] + ["c", "e"]:
        store.put(key=key, text="x")
    for start in range(7, len(keys), 400):  # as many as one wants, quickly
        for key in keys[start:start + 400:80]:
            store.put(key=key, text="x")
    written = sorted(set(keys[:7]) | {k for s in range(7, len(keys), 400) for k in keys[s:s + 400:80]})
    assert store.keys("d/", limit=3) == written
    assert store.keys("d/") == written
    page = store.list(prefix="d/", start_after="d/0003", limit=2)
    assert [entry["key"] for entry in page["entries"]] == ["d/0004", "d/0005"]
    rest = store.list(prefix="d/", continuation=page["continuation"])
    assert [entry["key"] for entry in rest["entries"]] == written[6:]


def test_a_prefix_is_a_store_of_its_own(connect, store):
    inner = connect(prefix="/some/prefix")
    inner.put(key="a", text="inner")
    store.put(key="a", text="outer")
    store.put(key="some/prefix2", text="other")
    assert inner.keys() == ["a"] and inner.get(key="a")["text"] == "inner"
    assert store.get(key="some/prefix/a")["text"] == "inner"
    assert inner.move(**{"from": "a", "to": "b"})["result"] == 0
    assert inner.list(start_after="a")["entries"][0]["key"] == "b"
    assert inner.delete_many(keys=["b"])["result"] == 0
    assert store.keys() == ["a", "some/prefix2"]


def test_urls_work_without_credentials_and_only_as_signed(store):
    url = store.presign(key="new é+ object", method="PUT")["url"]
    request = urllib.request.Request(url, data=b"put by url", method="PUT")
    urllib.request.urlopen(request).close()
    assert store.get(key="new é+ object")["text"] == "put by url"
    url = store.presign(key="new é+ object", method="GET")["url"]
    with pytest.raises(urllib.error.HTTPError) as caught:
        urllib.request.urlopen(url.replace("new", "old"))
    assert caught.value.code == 403
    for method, seconds in (("DELETE", 60), ("GET", 0), ("GET", 7 * 24 * 3600 + 1)):
        assert "error" in store.try_call("presign", key="k", method=method, seconds=seconds)


def test_urls_may_have_a_name_of_their_own(s3_server, bucket, program):
    """The server as browsers reach it, which is not how this program does."""
    client = StoreClient(program("store-commands"), {
        **s3_server.environment(bucket), "S3_PUBLIC_ENDPOINT": "http://localhost:%d" % s3_server.port})
    try:
        client.put(key="a", text="x")
        url = client.presign(key="a", method="GET")["url"]
        assert url.startswith(f"http://localhost:{s3_server.port}/{bucket}/a?")
        with urllib.request.urlopen(url) as answer:
            assert answer.read() == b"x"
    finally:
        client.close_process()


def test_the_bucket_takes_its_rules(store):
    rule = ("<LifecycleConfiguration><Rule><ID>clips</ID><Prefix>videos/clips/</Prefix>"
            "<Status>Enabled</Status><Expiration><Days>30</Days></Expiration></Rule>"
            "</LifecycleConfiguration>")
    assert store.bucket(method="PUT", subresource="lifecycle", body=rule)["status"] == 200
    answer = store.bucket(method="GET", subresource="lifecycle")
    assert answer["status"] == 200 and "<Days>30</Days>" in answer["body"]


# ---- many bytes ------------------------------------------------------------------------------------


def incomplete_uploads(store):
    return store.bucket(method="GET", subresource="uploads")["body"].count("<UploadId>")


def test_large_objects_go_in_parts(store, big_file):
    data = big_file.read_bytes()
    put = store.put(key="big", path=str(big_file), expect_sha256=sha256(data),
                    metadata={"owner": "me"})
    head = store.head(key="big")
    assert put["size"] == head["size"] == BIG and head["etag"].endswith("-5")
    assert head["sha256"] == sha256(data) and head["metadata"] == {"owner": "me"}
    assert store.open(key="big")["size"] == BIG
    assert store.read(length=BIG, step=100000)["sha256"] == sha256(data)
    for offset, length in ((0, 1), (BIG - 1, 5), (12345678, 3000000), (7, 9), (30000000, 1)):
        assert store.read(offset=offset, length=length)["sha256"] == \
            sha256(data[offset:offset + length])
    assert store.range(key="big", offset=BIG - 10, length=100)["sha256"] == sha256(data[-10:])
    assert store.range(key="big", offset=BIG, length=100)["size"] == 0
    assert peak_mib(store) < 64
    assert incomplete_uploads(store) == 0


def test_a_failed_upload_leaves_nothing(connect, proxy, big_file, store):
    shaky = connect(endpoint=proxy.endpoint, S3_ATTEMPTS="2", **QUICK)
    proxy.add(r"PUT .*partNumber=3", times=99, status=500, code="InternalError")
    with refused("ServerError", "big", retryable=True):
        shaky.put(key="big", path=str(big_file))
    assert store.head(key="big")["result"] == NOT_FOUND
    assert incomplete_uploads(store) == 0


def test_an_upload_survives_faults_in_every_request(shaky, proxy, big_file):
    proxy.add(r"POST .*\?uploads=", status=503)
    proxy.add(r"PUT .*partNumber=1&", corrupt_request=True)
    proxy.add(r"PUT .*partNumber=2&", swallow=True)
    proxy.add(r"PUT .*partNumber=3&", times=2, status=503)
    proxy.add(r"POST .*uploadId=", swallow=True)  # joined, but nobody was told
    shaky.put(key="big", path=str(big_file))
    shaky.open(key="big")
    assert shaky.read(length=BIG)["sha256"] == sha256(big_file.read_bytes())
    assert all(fault.hits == fault.times for fault in proxy.faults)


def test_many_objects_at_once(shaky, store, proxy, big_file):
    proxy.add(r"PUT .*/many/0003", status=503)
    proxy.add(r"PUT .*/many/0007", swallow=True)
    answer = shaky.upload(prefix="many/", count=100, size=20000)
    assert answer["stored"] == [[f"many/{number:04d}", 20000] for number in range(100)]
    assert proxy.connections > 4
    assert store.keys("many/") == [key for key, _ in answer["stored"]]
    assert store.get(key="many/0007")["sha256"] == sha256(b"h" * 20000)
    big = shaky.upload(prefix="large", path=str(big_file))  # goes in parts, in its turn
    assert big["stored"] == [["large", BIG]]
    shaky.upload(prefix="wide/", count=30, size=3 << 20)
    assert peak_mib(shaky) < 64


def test_many_gets_at_once(connect, shaky, store, proxy):
    store.upload(prefix="many/", count=100, size=20000)
    keys = [f"many/{number:04d}" for number in range(100)]
    proxy.add(r"GET .*/many/0003", status=503)
    proxy.add(r"GET .*/many/0005", corrupt=True)
    proxy.add(r"GET .*/many/0007", reset=5000)
    wanted = [*keys[:50], "none", *keys[50:], "../bad", keys[0]]
    found = shaky.download(keys=wanted)["found"]
    hashes = [sha256(bytes([97 + number % 26]) * 20000) for number in range(100)]
    assert [one and one.get("sha256") for one in found] == \
        [*hashes[:50], None, *hashes[50:], None, hashes[0]]
    assert found[50] is None and found[101] == {"error": "InvalidObjectKey"}
    assert len(proxy.seen("GET .*/many/")) == 104 and 4 < proxy.connections <= 14
    assert [one["error"] for one in shaky.download(keys=keys[:3], limit=19999)["found"]] == \
        ["LimitExceeded"] * 3
    shaky.upload(prefix="wide/", count=30, size=3 << 20)
    wide = [f"wide/{number:04d}" for number in range(30)]
    assert {one["size"] for one in shaky.download(keys=wide)["found"]} == {3 << 20}
    shaky.download(keys=wide, wanted=1)  # the others are stopped
    assert store.get(key=keys[0])["size"] == 20000
    assert peak_mib(shaky) < 64


def test_one_of_many_fails(connect, proxy):
    store = connect(endpoint=proxy.endpoint, S3_ATTEMPTS="2", **QUICK)
    proxy.add(r"PUT .*/many/0005", times=99, status=403, code="AccessDenied")
    answer = store.try_call("upload", prefix="many/", count=30)
    assert answer["error"] == "AccessDenied" and "many/0005" in answer["message"]
    assert ["many/0004", 1000] in answer["stored"]
    assert ["many/0005", 1000] not in answer["stored"]


# ---- faults ----------------------------------------------------------------------------------------


def test_storms_of_503_are_sat_out(shaky, proxy):
    storm = proxy.add(".", times=4, status=503)
    assert shaky.put(key="k", text="x")["result"] == 0
    assert storm.hits == 4
    proxy.add("GET .*/k", times=2, status=429, code="TooManyRequests")
    assert shaky.get(key="k")["text"] == "x"


def test_a_storm_that_does_not_end_is_a_retryable_failure(connect, proxy):
    store = connect(endpoint=proxy.endpoint, S3_ATTEMPTS="3", **QUICK)
    storm = proxy.add(".", times=1000, status=503)
    with refused("Throttled", "some/key", retryable=True):
        store.get(key="some/key")
    assert storm.hits == 3


@pytest.mark.parametrize("fault", [
    {"reset": 1000}, {"stall": 1000}, {"corrupt": True}, {"swallow": True}, {"stall": 0},
    {"status": 500, "code": "InternalError"},
])
def test_a_get_that_breaks_is_begun_again(shaky, proxy, fault, tmp_path):
    data = os.urandom(200000)
    (tmp_path / "file").write_bytes(data)
    shaky.put(key="k", path=str(tmp_path / "file"))
    proxy.add("GET .*/k", **fault)
    assert shaky.get(key="k")["sha256"] == sha256(data)
    assert len(proxy.seen("GET .*/k")) == 2


@pytest.mark.parametrize("fault", [
    {"corrupt_request": True}, {"swallow": True}, {"status": 503},
    {"status": 400, "code": "RequestTimeout"},
])
def test_a_put_that_breaks_is_begun_again(shaky, proxy, fault):
    proxy.add("PUT .*/k", **fault)
    text = "text " * 10000
    shaky.put(key="k", text=text)
    assert len(proxy.seen("PUT .*/k")) == 2
    assert shaky.get(key="k")["sha256"] == sha256(text.encode())


def test_bytes_that_are_always_damaged_are_not_believed(connect, proxy, store):
    store.put(key="k", text="the truth")
    shaky = connect(endpoint=proxy.endpoint, S3_ATTEMPTS="3")
    proxy.add("GET .*/k", times=99, corrupt=True)
    with refused(None, "damaged", retryable=True):
        shaky.get(key="k")


def test_a_list_that_was_cut_is_asked_for_again(shaky, proxy):
    keys = [f"k{number:02d}" for number in range(20)]
    for key in keys:
        shaky.put(key=key, text="x")
    for cut in (0, 100, 1500):
        proxy.add("GET .*list-type=2", truncate=cut)
    proxy.add("GET .*list-type=2", skip=2, reset=800)
    proxy.reset_counts()
    assert shaky.keys() == keys
    assert len(proxy.seen("list-type=2")) >= 4


def test_a_deletion_that_was_cut_short_is_done_again(shaky, proxy):
    for key in ("a", "b"):
        shaky.put(key=key, text="x")
    proxy.add("POST .*delete", truncate=60)
    proxy.add("POST .*delete", skip=1, status=503)
    assert shaky.delete_many(keys=["a", "b", "none"])["result"] == 0
    assert shaky.keys() == []


def test_reading_goes_on_after_faults(shaky, proxy, big_file):
    shaky.put(key="big", path=str(big_file))
    proxy.add("GET .*/big", skip=2, reset=5000)
    proxy.add("GET .*/big", skip=4, stall=70000)
    proxy.add("GET .*/big", skip=6, times=3, status=503)
    shaky.open(key="big")
    assert shaky.read(length=BIG, step=300000)["sha256"] == sha256(big_file.read_bytes())
    assert all(fault.hits == fault.times for fault in proxy.faults)


def test_an_original_that_is_overwritten_in_mid_reading_is_noticed(store, connect, big_file):
    other = connect()
    store.put(key="big", path=str(big_file))
    store.open(key="big")
    store.read(length=1000)
    other.put(key="big", text="somebody's second take")
    with refused("Conflict", "overwritten", retryable=True):
        store.read(offset=20000000, length=1000)
    other.delete(key="big")
    with refused(None, "deleted"):
        store.read(offset=30000000, length=1000)


# ---- who is asking ---------------------------------------------------------------------------------


def test_failures_that_stay_are_told_at_once(connect, bucket, s3_server, program, tmp_path):
    cases = [
        ({"S3_SECRET_ACCESS_KEY": "wrong"}, "AuthenticationFailed"),
        ({"S3_ACCESS_KEY_ID": "wrong"}, "AuthenticationFailed"),
        ({"STORE_URL": "s3://no-such-bucket"}, "ConfigurationError"),
    ]
    for change, expected in cases:
        with refused(expected, "some/key"):
            connect(**change).get(key="some/key")
    with refused("AuthenticationFailed", "some/key"):
        connect(S3_SECRET_ACCESS_KEY="wrong").head(key="some/key")


def test_a_wrong_clock_is_called_so(s3_server, bucket, program, tmp_path):
    # faketime's library comes before a sanitizer's, which would refuse to start
    environment = {**os.environ, **s3_server.environment(bucket),
                   "ASAN_OPTIONS": "verify_asan_link_order=0:detect_leaks=0"}
    done = subprocess.run(["faketime", "-f", "-20m", program("store-commands")], text=True,
                          input='{"do":"get","key":"k"}\n{"do":"head","key":"k"}\n',
                          env=environment, capture_output=True, check=True)
    for line in done.stdout.splitlines():
        answer = json.loads(line)
        assert answer["error"] == "ConfigurationError"
        assert "clock of this machine is 1" in answer["message"]
        assert "behind" in answer["message"]


def test_nobody_there_is_retryable(connect):
    store = connect(endpoint="http://127.0.0.1:9", S3_ATTEMPTS="2")
    with refused("ConnectionLost", retryable=True):
        store.head(key="k")


def test_connections_are_kept(shaky, proxy):
    for number in range(20):
        shaky.put(key=f"k{number}", text="x")
    assert proxy.connections == 1


def test_virtual_host_style(s3_server, bucket, program):
    """The bucket in the host name; every name below localhost is this machine."""
    client = StoreClient(program("store-commands"), {
        **s3_server.environment(bucket), "S3_ADDRESSING": "virtual",
        "S3_ENDPOINT": "http://localhost:%d" % s3_server.port})
    try:
        client.put(key="a b+é", text="x")
        assert client.get(key="a b+é")["text"] == "x"
        assert client.keys() == ["a b+é"]
    finally:
        client.close_process()


# ---- credentials that somebody hands out -----------------------------------------------------------


class TokenServer(AnsweringServer):
    """Hands out the server's keys as STS, a container's service and an instance's metadata do."""

    def __init__(self):
        super().__init__(self.answer)
        self.lifetime, self.given, self.refused = 3600, 0, 0

    def answer(self, request):
        if self.refused > 0:
            self.refused -= 1
            request.tell(500)
        else:
            body = self.hand_out(request.command, request.path, request.headers)
            request.tell(200 if body else 401, body)

    def expiration(self):
        end = datetime.datetime.utcnow() + datetime.timedelta(seconds=self.lifetime)
        return end.strftime("%Y-%m-%dT%H:%M:%SZ")

    def credentials(self):
        self.given += 1
        return json.dumps({"AccessKeyId": ACCESS_KEY, "SecretAccessKey": SECRET_KEY,
                           "Token": "token", "Expiration": self.expiration()})

    def hand_out(self, method, path, headers):
        if path == "/latest/api/token":
            return "metadata-token" if method == "PUT" else ""
        if path.startswith("/latest/meta-data/"):
            if headers["X-aws-ec2-metadata-token"] != "metadata-token":
                return ""
            return self.credentials() if path.endswith("/the-role") else "the-role"
        if path == "/container":
            return self.credentials() if headers["Authorization"] == "Basic of-the-file" else ""
        if method == "POST" and "WebIdentityToken=of%2Bthe%2Bfile" in path:
            self.given += 1
            return ("<AssumeRoleWithWebIdentityResponse xmlns=\"https://sts.amazonaws.com/doc/2011-06-15/\">"
                    "<AssumeRoleWithWebIdentityResult><Credentials>"
                    f"<AccessKeyId>{ACCESS_KEY}</AccessKeyId>"
                    f"<SecretAccessKey>{SECRET_KEY}</SecretAccessKey><SessionToken>token</SessionToken>"
                    f"<Expiration>{self.expiration()}</Expiration></Credentials>"
                    "</AssumeRoleWithWebIdentityResult></AssumeRoleWithWebIdentityResponse>")
        return ""


@pytest.fixture
def tokens():
    server = TokenServer()
    yield server
    server.close()


WITHOUT_KEYS = {"S3_ACCESS_KEY_ID": "", "S3_SECRET_ACCESS_KEY": ""}


@pytest.fixture(params=["web identity", "container", "instance"])
def handed_out(request, tokens, tmp_path):
    """The variables that name one of the three."""
    (tmp_path / "home").mkdir()
    token = tmp_path / "token"
    token.write_text("Basic of-the-file\n" if request.param == "container" else "of+the+file\n")
    return {**WITHOUT_KEYS, "HOME": str(tmp_path / "home"), **{
        "web identity": {"AWS_WEB_IDENTITY_TOKEN_FILE": str(token), "AWS_ENDPOINT_URL_STS": tokens.url,
                         "AWS_ROLE_ARN": "arn:aws:iam::123456789012:role/the-role"},
        "container": {"AWS_CONTAINER_CREDENTIALS_FULL_URI": f"{tokens.url}/container",
                      "AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE": str(token)},
        "instance": {"AWS_EC2_METADATA_SERVICE_ENDPOINT": tokens.url},
    }[request.param]}


def test_credentials_are_handed_out_and_renewed(connect, tokens, handed_out):
    tokens.refused = 1  # asked again after a pause
    store = connect(**handed_out)
    store.put(key="k", text="x")
    assert store.get(key="k")["text"] == "x"
    assert tokens.given == 1

    tokens.lifetime = 1
    other = connect(**handed_out)
    wait_until(lambda: other.get(key="k")["text"] == "x" and tokens.given > 2, "a renewal")


def test_credentials_that_run_out_early_are_renewed(connect, proxy, tokens, handed_out):
    store = connect(endpoint=proxy.endpoint, **handed_out)
    store.put(key="k", text="x")
    proxy.add("GET .*/k", status=400, code="ExpiredToken")
    assert store.get(key="k")["text"] == "x"
    assert tokens.given == 2


def test_old_credentials_serve_while_nobody_answers(connect, tokens, handed_out):
    tokens.lifetime = 200  # new ones are wanted at once, these are still good
    store = connect(**handed_out)
    store.put(key="k", text="x")
    tokens.refused = 10
    for _ in range(5):
        assert store.get(key="k")["text"] == "x"


def test_credentials_from_the_shared_file(connect, tmp_path):
    file = tmp_path / "credentials"
    file.write_text("# mine\n[default]\naws_access_key_id = wrong\naws_secret_access_key=wrong\n"
                    f"\n[ work ]\naws_access_key_id={ACCESS_KEY}\n"
                    f"  aws_secret_access_key = {SECRET_KEY}  \n")
    named = {**WITHOUT_KEYS, "AWS_SHARED_CREDENTIALS_FILE": str(file)}
    assert connect(AWS_PROFILE="work", **named).put(key="k", text="x")["result"] == 0
    with refused("AuthenticationFailed"):
        connect(**named).put(key="k", text="x")
