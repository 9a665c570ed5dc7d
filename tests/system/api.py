"""A gateway over a small library of several tenants, and the tokens to ask it with."""

import base64
import contextlib
import hashlib
import hmac
import http.client
import json
import pathlib
import re
import subprocess
import sys
import time

import jsonschema
import psycopg2
from workers import Worker, wait_until

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "scripts"))
import openapi  # noqa: E402

SECRET = "a secret of the tests that is long enough"
DOCUMENT = openapi.document()
ALICE, BOB, MATE, TEAM = (f"0a0b0c0d-0000-4000-8000-00000000000{n}" for n in range(1, 5))


def content_of(operation, status):
    """What the document says of the bodies of an answer, by media type."""
    answer = operation["responses"][str(status)]
    if "$ref" in answer:
        answer = DOCUMENT["components"]["responses"][answer["$ref"].rsplit("/", 1)[1]]
    return answer.get("content", {})


def check_body(answer, schema):
    """The answer's body, which is as a schema of the document, or the one of this name there, has it."""
    schema = {"$ref": f"#/components/schemas/{schema}"} if isinstance(schema, str) else schema
    jsonschema.Draft202012Validator({**schema, "components": DOCUMENT["components"]}).validate(answer.json)
    return answer.json


def base64url(data):
    if not isinstance(data, bytes):
        data = (data if isinstance(data, str) else json.dumps(data)).encode()
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()


def claims(**changes):
    """Claims of a good token of Alice's, for a day, because files make some when they are read; a change to None takes one away."""
    made = {"sub": ALICE, "role": "authenticated", "aud": "authenticated", "exp": int(time.time()) + 86400, **changes}
    return {name: value for name, value in made.items() if value is not None}


def sign_hs256(text, secret=SECRET):
    secret = secret if isinstance(secret, bytes) else secret.encode()
    return hmac.new(secret, text.encode(), hashlib.sha256).digest()


def token(secret=SECRET, header=None, **changes):
    text = base64url({"alg": "HS256", "typ": "JWT", **(header or {})}) + "." + base64url(claims(**changes))
    return text + "." + base64url(sign_hs256(text, secret))


def run_openssl(*arguments, data=None):
    return subprocess.run(["openssl", *arguments], input=data, check=True, capture_output=True).stdout


class Key:
    """A key pair of an issuer, made by openssl."""

    def __init__(self, directory, kid, algorithm, bits=2048):
        self.kid, self.algorithm, self.path = kid, algorithm, str(directory / f"{kid}.pem")
        kind = ["RSA", "-pkeyopt", f"rsa_keygen_bits:{bits}"] if algorithm == "RS256" else \
            ["EC", "-pkeyopt", "ec_paramgen_curve:P-256"]
        run_openssl("genpkey", "-algorithm", *kind, "-out", self.path)
        self.public = run_openssl("pkey", "-in", self.path, "-pubout")
        der = run_openssl("pkey", "-in", self.path, "-pubout", "-outform", "DER")
        self.der = der
        self.jwk = {"kid": kid, "alg": algorithm, "use": "sig"}
        if algorithm == "RS256":
            modulus = run_openssl("rsa", "-in", self.path, "-noout", "-modulus").decode().split("=")[1].strip()
            self.jwk |= {"kty": "RSA", "n": base64url(bytes.fromhex(modulus)), "e": "AQAB"}
        else:
            self.jwk |= {"kty": "EC", "crv": "P-256", "x": base64url(der[-64:-32]), "y": base64url(der[-32:])}

    def sign(self, text):
        signature = run_openssl("dgst", "-sha256", "-sign", self.path, data=text.encode())
        if self.algorithm == "RS256":
            return signature
        numbers = []  # of the DER form: SEQUENCE { INTEGER r, INTEGER s }
        at = 2
        for _ in range(2):
            length = signature[at + 1]
            numbers.append(int.from_bytes(signature[at + 2:at + 2 + length], "big").to_bytes(32, "big"))
            at += 2 + length
        return b"".join(numbers)

    def token(self, header=None, **changes):
        header = {"alg": self.algorithm, "kid": self.kid, **(header or {})}
        text = base64url(header) + "." + base64url(claims(**changes))
        return text + "." + base64url(self.sign(text))


class Answer:
    def __init__(self, response):
        self.status, self.headers, self.data = response.status, response.headers, response.read()

    @property
    def json(self):
        return json.loads(self.data)

    def without_id(self):
        """The body without what differs between any two requests."""
        return self.data.replace(self.headers["X-Request-Id"].encode(), b"ID")


class Gateway:
    def __init__(self, program, database, directory, *arguments, ready=None, **environment):
        make_login(database)
        self.process = Worker(
            [program("api-gateway"), "--api", "127.0.0.1:0", "--listen", "127.0.0.1:0", *arguments],
            {"CORTANA_API_RATES": "read=0,write=0,search=0,failure=0", "DATABASE_URL": database.replace("postgres@", "api_login@"), "CORTANA_JWT_SECRET": SECRET,
             "CORTANA_GRACE_MS": "5000", **environment}, directory / "gateway.log")
        self.is_killed = False
        try:
            line = wait_until(lambda: self.process.says("the API at port"), "the gateway to listen")[0]
            self.port = int(re.search(r"port (\d+)", line["message"]).group(1))
            self.url = f"http://127.0.0.1:{self.port}"
            wait_until(lambda: self.ask(*(ready or ("/me", token()))).status == 200, "the gateway to be ready")
        except BaseException:
            self.end()
            raise

    def connect(self):
        return http.client.HTTPConnection("127.0.0.1", self.port, timeout=300)

    def ask(self, path, bearer=None, method="GET", body=None, base="/api/v1", **headers):
        headers = {name.replace("_", "-"): value for name, value in headers.items()}
        if bearer:
            headers["Authorization"] = f"Bearer {bearer}"
        if body is not None and not isinstance(body, (bytes, str)):
            headers.setdefault("Content-Type", "application/json")
            body = json.dumps(body)
        connection = self.connect()
        try:
            connection.request(method, base + path, body, headers)
            return Answer(connection.getresponse())
        finally:
            connection.close()

    def memory_peak_kib(self):
        """Of the gateway's own memory so far; 0 under a sanitizer, which has a memory of its own."""
        of_process = pathlib.Path(f"/proc/{self.process.pid}")
        if "libasan" in (of_process / "maps").read_text():
            return 0
        return int(re.search(r"VmHWM:\s+(\d+)", (of_process / "status").read_text()).group(1))

    def stop(self):
        """It has to end well, unless end() has killed it."""
        try:
            assert self.process.stop() == 0 or self.is_killed
        finally:
            self.process.kill()

    def end(self):
        """Kills it."""
        self.is_killed = self.process.is_alive()
        self.process.kill()


class Library:
    """Videos of Alice, of her team, and of Bob, each with a line of text, an entity, and a job."""

    def __init__(self, queue):
        self.videos, self.jobs, self.segments = {}, {}, {}
        for name, owner, team in (("own", ALICE, None), ("team", MATE, TEAM), ("foreign", BOB, None)):
            video = queue.value("INSERT INTO videos (owner_id, team_id, title, original_name, s3_original_path, status)"
                                " VALUES (%s, %s, %s, 'a.mp4', 'videos/original/x/master.mp4', 'ready') RETURNING id",
                                owner, team, f"video {name}")
            self.videos[name] = str(video)
            self.jobs[name] = str(queue.add("transcode", video_id=video))
            queue.write_text(video, [f"the old bridge @anna {n}" for n in range(7)], entities=[{"type": "mention", "value": "@anna"}])


def make_login(database):
    with contextlib.closing(psycopg2.connect(database)) as connection, connection, connection.cursor() as cursor:
        cursor.execute("""DO $$ BEGIN
            IF NOT EXISTS (SELECT FROM pg_roles WHERE rolname = 'api_login') THEN
                CREATE ROLE api_login LOGIN IN ROLE cortana_gateway;
            END IF; END $$""")
