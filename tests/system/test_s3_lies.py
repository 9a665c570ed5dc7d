"""A server that lies or dawdles: every call ends, in a bounded time, with an error that says so."""

import contextlib
import hashlib
import json
import os
import socket
import subprocess
import time

import pytest
from lying_server import LyingServer, list_page
from store_client import StoreClient, StoreError, refused

QUICK = {"S3_STALL_TIMEOUT_S": "1", "S3_ATTEMPTS": "2"}
BYTES = bytes(range(256)) * 4096


@pytest.fixture
def lie(program):
    """lie(answer, **variables): a store on a server that answers like that, and the server."""
    opened = []

    def make(answer, **variables):
        server = LyingServer(answer)
        client = StoreClient(program("store-commands"), server.environment(**{**QUICK, **variables}))
        opened.append((server, client))
        return client, server

    yield make
    for server, client in opened:
        client.close_process()
        server.close()


# ---- lists -----------------------------------------------------------------------------------------


def pages_of(kind):
    seen = []

    def answer(request):
        seen.append(request.path)
        number = len(seen)
        request.tell(200, {
            "one token, no keys": lambda: list_page([], "same"),
            "new tokens, no keys": lambda: list_page([], f"t{number}"),
            "two tokens, no keys": lambda: list_page([], f"t{number % 2}"),
            "one token, the same keys": lambda: list_page(["inbox/a", "inbox/b"], "same"),
            "new tokens, the same keys": lambda: list_page(["inbox/a", "inbox/b"], f"t{number}"),
            "keys go back": lambda: list_page([f"inbox/{chr(ord('z') - number)}"], f"t{number}"),
            "keys out of order": lambda: list_page(["inbox/b", "inbox/a"]),
        }[kind]())

    return answer


@pytest.mark.parametrize("kind", ["one token, no keys", "new tokens, no keys", "two tokens, no keys",
                                  "one token, the same keys", "new tokens, the same keys",
                                  "keys go back", "keys out of order"])
def test_a_list_that_does_not_end(lie, kind):
    client, server = lie(pages_of(kind))
    with pytest.raises(StoreError) as caught:
        client.keys("inbox/")
    assert caught.value.type == "ServerError"
    assert "list goes in circles" in caught.value.message or "does not end" in caught.value.message
    assert len(server.requests) <= 1002


def test_a_list_with_empty_pages_within_is_read(lie):
    pages = [list_page(["a"], "1"), list_page([], "2"), list_page([], "3"), list_page(["b"])]
    client, _ = lie(lambda request: request.tell(200, pages[int(request.query.get("continuation-token", 0))]))
    assert client.keys() == ["a", "b"]


def test_a_server_that_ignores_where_to_go_on(lie):
    client, _ = lie(lambda request: request.tell(200, list_page(["a", "b"])))
    with refused(None, "goes in circles"):
        client.list(prefix="", start_after="a")


BOMB = ('<?xml version="1.0"?><!DOCTYPE l [<!ENTITY a0 "lol">' +
        "".join(f'<!ENTITY a{i} "{f"&a{i - 1};" * 10}">' for i in range(1, 12)) +
        "]><ListBucketResult><Contents><Key>&a11;</Key><Size>1</Size></Contents></ListBucketResult>")
OUTSIDE = ('<?xml version="1.0"?><!DOCTYPE l [<!ENTITY a SYSTEM "file:///etc/passwd">]><ListBucketResult>'
           "<Contents><Key>&a;</Key><Size>1</Size></Contents></ListBucketResult>")


@pytest.mark.parametrize("text", [BOMB, OUTSIDE, "<a>" * 1000000], ids=["bomb", "outside", "deep"])
def test_xml_that_is_no_list(lie, text):
    client, _ = lie(lambda request: request.tell(200, text))
    with pytest.raises(StoreError) as caught:
        client.keys()
    assert caught.value.type == "ServerError"
    assert "document type" in caught.value.message or "too deep" in caught.value.message


# ---- time ------------------------------------------------------------------------------------------


def drip(request):
    """One byte in a fifth of a second: five a second, always alive."""
    length = 100000
    first = int(request.headers.get("Range", "bytes=0-").split("=")[1].split("-")[0])
    request.send_response(206 if "Range" in request.headers else 200)
    request.send_header("Content-Length", str(length))
    request.send_header("Content-Range", f"bytes {first}-{first + length - 1}/{length}")
    request.send_header("ETag", '"x"')
    request.end_headers()
    if request.command != "HEAD":
        for _ in range(length):
            request.wfile.write(b"x")
            request.wfile.flush()
            time.sleep(0.2)


def silence(request):
    time.sleep(60)


@pytest.mark.parametrize("call", ["get", "read", "list"])
@pytest.mark.parametrize("answer", [drip, silence])
def test_a_server_that_dawdles(lie, call, answer):
    client, server = lie(answer)
    with refused("Timeout", retryable=True):
        if call == "get":
            client.get(key="k")
        elif call == "read":
            client.range(key="k", offset=0, length=100000)
        else:
            client.keys()
    assert len(server.requests) <= 3


def test_patience_ends_however_many_attempts_are_left(lie):
    """A request of no size has half a minute and three stalls of 2 s."""
    client, server = lie(silence, S3_ATTEMPTS="100", S3_STALL_TIMEOUT_S="2")
    begun = time.monotonic()
    with pytest.raises(StoreError):
        client.head(key="k")
    assert time.monotonic() - begun > 30
    assert len(server.requests) < 25


# ---- objects ---------------------------------------------------------------------------------------


class Objects:
    """One object whose ETag `etag()` gives, read by ranges; If-Match is not looked at."""

    def __init__(self, etag):
        self.etag = etag

    def __call__(self, request):
        data, headers, status = BYTES, {}, 200
        asked = request.headers.get("Range")
        if asked:
            first, last = (int(number) for number in asked.removeprefix("bytes=").split("-"))
            data, status = BYTES[first:last + 1], 206
            headers["Content_Range"] = f"bytes {first}-{first + len(data) - 1}/{len(BYTES)}"
        request.tell(status, data, ETag=f'"{self.etag()}"', **headers)


def test_an_object_with_a_new_etag_in_every_answer_is_another_one(lie):
    numbers = iter(range(1000))
    client, server = lie(Objects(lambda: f"{next(numbers):032x}"))
    with refused("Conflict", "overwritten"):
        client.range(key="k", offset=0, length=1000)
    assert len(server.requests) == 2, "asking again cannot help"


def test_an_object_that_stays_is_read(lie):
    client, _ = lie(Objects(lambda: "0" * 32))
    answer = client.range(key="k", offset=1000, length=5000)
    assert answer["sha256"] == hashlib.sha256(BYTES[1000:6000]).hexdigest()


def test_an_object_that_only_its_head_calls_empty_is_not_believed_empty(lie):
    objects = Objects(lambda: "0" * 32)
    client, _ = lie(lambda request: request.tell(200, ETag='"1"') if request.command == "HEAD" else objects(request))
    with refused("ServerError", "empty"):
        client.range(key="k", offset=0, length=1)


@pytest.mark.parametrize("status", [200, 416])
def test_an_object_that_is_empty_is_read_as_empty(lie, status):
    client, _ = lie(lambda request: request.tell(200 if request.command == "HEAD" else status, ETag='"1"'))
    assert client.range(key="k", offset=0, length=1)["sha256"] == hashlib.sha256(b"").hexdigest()


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
def test_redirections_are_not_followed_and_all_alike(lie, status):
    client, server = lie(lambda request: request.tell(status, Location="http://127.0.0.1:1/"))
    for call in (lambda: client.get(key="k"), lambda: client.head(key="k"), client.keys):
        with refused("ConfigurationError", str(status)):
            call()
    assert len(server.requests) == 4  # the head's reason is asked for


@pytest.mark.parametrize("body", ["", "<html><body>404 Not Found</body></html>"])
def test_a_404_that_does_not_say_what_is_missing_is_no_missing_object(lie, body):
    client, _ = lie(lambda request: request.tell(404, body))
    for call in (lambda: client.get(key="k"), lambda: client.head(key="k"),
                 lambda: client.range(key="k", offset=0, length=1)):
        with refused("ConfigurationError", "404"):
            call()


def test_a_missing_object_is_one_that_the_server_says_is_missing(lie):
    client, _ = lie(lambda request: request.tell(404, "<Error><Code>NoSuchKey</Code></Error>"))
    assert client.get(key="k")["result"] == client.head(key="k")["result"] == 1


# ---- a bucket's rules ------------------------------------------------------------------------------

RULES = {"unfinished": b"AbortIncompleteMultipartUpload", "clips": b"<Expiration>", "cors": b"<CORSRule>"}
REFUSALS = {  # as Swift, Ceph and others refuse what they do not know
    400: "<Error><Code>MalformedXML</Code><Message>The XML you provided was not well-formed</Message></Error>",
    405: "<Error><Code>MethodNotAllowed</Code></Error>", 501: "<Error><Code>NotImplemented</Code></Error>"}


@pytest.fixture
def init_bucket(program):
    """init_bucket(answer, …): `cortana bucket init` at a server that answers like that."""
    def run(answer, *words):
        with contextlib.closing(LyingServer(answer)) as server:
            return subprocess.run([program("cortana"), "bucket", "init", *words], text=True, capture_output=True,
                                  env={**os.environ, **server.environment(**QUICK)})

    return run


@pytest.mark.parametrize("status", sorted(REFUSALS))
@pytest.mark.parametrize("unknown", [["unfinished"], ["clips"], ["cors"], ["unfinished", "clips", "cors"]], ids="+".join)
def test_a_bucket_is_made_where_rules_are_not_known(init_bucket, unknown, status):
    kept = {}

    def answer(request):
        if request.command == "PUT" and any(RULES[rule] in request.body for rule in unknown):
            request.tell(status, REFUSALS[status])
        elif request.command == "PUT":
            kept[next(iter(request.query), "bucket")] = request.body
            request.tell(200)
        else:
            request.tell(404, "<Error><Code>NoSuchConfiguration</Code></Error>")

    done, again = init_bucket(answer), init_bucket(answer, "--json")
    assert (done.returncode, again.returncode) == (0, 0), done.stderr + again.stderr
    assert done.stdout.startswith("s3://lies is made\n")
    told = {"unfinished": "rule for unfinished uploads:", "clips": "rule for clips:", "cors": "rule for browsers (CORS):"}
    assert [rule for rule, words in told.items() if f"does not know the {words}" in done.stdout] == unknown, done.stdout
    assert json.loads(again.stdout)["rules"] == {rule: rule not in unknown for rule in RULES}
    assert "bucket" in kept
    left = b"".join(kept.values())
    assert [rule for rule, mark in RULES.items() if mark in left] == [rule for rule in RULES if rule not in unknown]


def test_a_bucket_is_made_when_its_server_is_there(init_bucket):
    """An installation starts both together: until the server answers, after all of a request's own tries, it is asked again."""
    asked = []

    def answer(request):
        asked.append(request.command)
        if len(asked) > 3 * int(QUICK["S3_ATTEMPTS"]):
            request.tell(200 if request.command == "PUT" else 404)
        else:
            request.connection.shutdown(socket.SHUT_RDWR)

    done = init_bucket(answer)
    assert done.returncode == 0 and done.stdout.startswith("s3://lies is made\n"), done.stderr


def test_a_refusal_for_another_reason_is_a_failure(init_bucket):
    done = init_bucket(lambda request: request.tell(404 if request.command != "PUT" else 403 if request.query else 200))
    assert done.returncode == 1 and "the server answers 403" in done.stderr
