#!/usr/bin/python3
"""The whole system out of its image and its manifests: an upload is found, read and cut, while pods are killed,
told to go, and replaced by those of a newer version; afterwards rows and objects are those of a quiet run.

usage: tests/containers/run.py [--image]

Without --image the image is built (and, where there is none, its base, from Debian's packages). Needs root.
PostgreSQL and an S3 server (Ceph's) run beside the pods, where the manifests look for them. Prints a line a
step, and last "N passed, M failed".
"""

import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import time
import uuid

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parents[1]
sys.path.insert(0, str(HERE.parent / "system"))
sys.path.insert(0, str(HERE))

import psycopg2  # noqa: E402
import yaml  # noqa: E402
from conftest import Cluster, find_program  # noqa: E402
from images import NEW, OLD, REPOSITORY, make_programs, run_steps, say  # noqa: E402
from manifests import of_kind  # noqa: E402
from pods import Node, Scaler, podman  # noqa: E402
from remains import objects, rows  # noqa: E402
from s3_server import S3Server  # noqa: E402
from store_client import StoreClient  # noqa: E402

BUCKET, S3_HOST, S3_PORT, PG_PORT = "cortana", "s3.storage.svc.cluster.local", 8000, 5432
DEADLINE = 600
VIDEO = ROOT / "fixtures/feed.mp4"  # whose transcode goes on for as long as a worker is killed at it, and a new version comes

# The overlay for development, with leases short enough to see one run out, and the version to be run.
OVERLAY = """
apiVersion: kustomize.config.k8s.io/v1beta1
kind: Kustomization
resources: [{dev}]
images: [{{name: {repository}, newTag: {tag}}}]
"""


class System:
    """Database, store, and the pods of the manifests."""

    def __init__(self):
        self.run = uuid.uuid4().hex[:8]
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="cv-containers-"))
        self.node = self.cluster = self.s3 = self.store = self.anchor = None

    def start(self):
        self.documents = self.render(OLD)
        self.node = Node(self.run, [f"{S3_HOST}", "postgres"])
        # The network's gateway has its address while a container is there.
        self.anchor = f"cv-{self.run}-anchor"
        podman("run", "--detach", "--name", self.anchor, "--network", self.node.network, f"{REPOSITORY}:{OLD}",
               "sleep", "infinity")
        self.node.pin_bridge()
        self.start_database()
        self.s3 = S3Server(also=[f"{self.node.gateway}:{S3_PORT}"], name=S3_HOST)
        self.s3.start()
        self.store = StoreClient(find_program("store-commands"),
                                 self.s3.environment(BUCKET, f"http://127.0.0.1:{self.s3.port}"))
        self.scaler = Scaler(self.node, self.ask)
        self.scaler.apply(self.documents)

    def render(self, tag):
        folder = self.folder / tag
        folder.mkdir()
        # Relative, because kustomize takes no absolute paths.
        dev = os.path.relpath(ROOT / "k8s/overlays/dev", folder)
        (folder / "kustomization.yaml").write_text(OVERLAY.format(dev=dev, repository=REPOSITORY, tag=tag))
        text = subprocess.run([self.tools() / "kustomize", "build", folder], check=True, text=True,
                              stdout=subprocess.PIPE).stdout
        documents = [d for d in yaml.safe_load_all(text) if d]
        for job in of_kind(documents, "Job"):
            job["metadata"]["name"] = f"migrate-{tag}".replace(".", "-")  # an overlay of an overlay: named by its base
        for config in of_kind(documents, "ConfigMap"):
            if "CORTANA_SCRATCH" in config["data"]:
                config["data"]["CORTANA_LEASE_MS"] = "10000"
        return documents

    def tools(self):
        folder = pathlib.Path(os.environ.get("BUILD_DIR", ROOT / "build")) / "tools"
        subprocess.run([ROOT / "scripts/manifest_tools", folder], check=True)
        return folder

    def start_database(self):
        self.cluster = Cluster(durable=True)
        config = self.cluster.data / "postgresql.conf"
        with config.open("a") as file:
            file.write(f"listen_addresses = '{self.node.gateway}'\nport = {PG_PORT}\nmax_connections = 120\n")
        with (self.cluster.data / "pg_hba.conf").open("a") as file:
            file.write("host all all samenet scram-sha-256\n")
        self.cluster.start()
        (init,) = [d["data"]["postgres-init.sql"] for d in of_kind(self.documents, "ConfigMap")
                   if "postgres-init.sql" in d["data"]]
        subprocess.run(["psql", "-qX", "-v", "ON_ERROR_STOP=1", self.cluster.url() + f"&port={PG_PORT}"], input=init,
                       text=True, check=True)
        self.url = self.cluster.url("cortana") + f"&port={PG_PORT}"

    def ask(self, statement):
        """A query of KEDA's, with the connection that its Secret holds."""
        (secret,) = [d for d in of_kind(self.documents, "Secret") if d["metadata"]["name"].startswith("cortana-database-metrics")]
        url = self.node.values(self.documents, "Secret", secret["metadata"]["name"])["connection"]
        url = re.sub(r"@[^/]+/", f"@{self.node.gateway}:{PG_PORT}/", url)
        connection = psycopg2.connect(url)
        try:
            with connection.cursor() as cursor:
                cursor.execute(statement)
                ((value,),) = cursor.fetchall()
                return value
        finally:
            connection.close()

    def query(self, statement, *parameters):
        connection = psycopg2.connect(self.url)
        connection.autocommit = True
        try:
            with connection.cursor() as cursor:
                cursor.execute(statement, parameters)
                return cursor.fetchall() if cursor.description else []
        finally:
            connection.close()

    def run_job(self, kind, name=None):
        """A pod of the Job or CronJob of that name, to its end: (exit code, log)."""
        (document,) = [d for d in of_kind(self.documents, kind) if name in (None, d["metadata"]["name"])]
        pod = self.node.start(self.documents, document)
        self.wait(lambda: not pod.state()[0], f"{document['metadata']['name']} to end", step=False)
        return pod.state()[1], pod.log()

    def wait(self, condition, what, step=True, scale_in=True):
        end = time.monotonic() + DEADLINE
        while True:
            value = condition()
            if value:
                return value
            if time.monotonic() > end:
                raise AssertionError(f"waited {DEADLINE} s for {what}")
            if step:
                self.scaler.step(scale_in)
            time.sleep(0.3)

    def scan(self, owner, source):
        """An upload, and the scanner's look, as its CronJob would: the id of the video."""
        self.store.put(key=f"inbox/{owner}/{source.name}", path=str(source))
        code, log = self.run_job("CronJob", "scanner")
        assert code == 0, log
        ((video,),) = self.query("SELECT id::text FROM videos WHERE owner_id = %s", owner)
        return video

    def running(self, job_type):
        return self.query("SELECT locked_by FROM jobs WHERE job_type = %s AND status = 'processing'"
                          " AND progress > 0.1", job_type)

    def status(self, video):
        ((status,),) = self.query("SELECT status::text FROM videos WHERE id = %s", video)
        assert status != "failed", self.query("SELECT job_type, payload -> 'error' FROM jobs WHERE status = 'failed'")
        return status

    def clip(self, video):
        ((job, path),) = self.query("SELECT job_id::text, clip_path FROM request_clip(%s, 1000, 3000)", video)
        self.wait(lambda: self.query("SELECT 1 FROM jobs WHERE id = %s AND status = 'done'", job), "the clip")
        return path

    def logs(self):
        for pod in self.node.started if self.node else []:
            print(f"--- {pod.name}\n{pod.log()[-1500:]}")

    def remove(self):
        if self.store:
            self.store.process.kill()
        if self.node:
            self.node.remove()
        if self.anchor:
            podman("rm", "--force", "--time", 0, self.anchor, check=False)
            podman("network", "rm", "--force", self.node.network, check=False)
        if self.s3:
            self.s3.stop()
        if self.cluster:
            self.cluster.remove()
        shutil.rmtree(self.folder, ignore_errors=True)


AT_WORK = "SELECT job_type::text, round(progress::numeric, 2)::float8 FROM jobs WHERE status = 'processing'"

# ---- the steps ---------------------------------------------------------------------------------------


def start(system):
    system.start()


def check_image(_):
    size = int(podman("image", "inspect", "--format", "{{.Size}}", f"{REPOSITORY}:{OLD}"))
    say(f"  image: {size / 1e6:.0f} MB unpacked")
    look = podman("run", "--rm", "--network", "none", f"{REPOSITORY}:{OLD}", "sh", "-c",
                  "id -u; find / -xdev -perm /6000 -type f 2>/dev/null; ls /usr/bin | grep -E '^(gcc|cc|meson|ninja|python3.*|test-.*|git)$';"
                  " tesseract=$(ls /usr/share/tesseract-ocr/5/tessdata); echo $tesseract")
    lines = look.splitlines()
    assert lines[0] == "10001" and len(lines) == 2, look
    assert all(f"{language}.traineddata" in lines[1] for language in ("osd", "eng", "deu", "fra")), lines[1]
    bill = json.loads(podman("run", "--rm", "--network", "none", f"{REPOSITORY}:{OLD}", "cat",
                             "/usr/share/cortana-vision/sbom.spdx.json"))
    installed = podman("run", "--rm", "--network", "none", f"{REPOSITORY}:{OLD}", "dpkg-query", "-W", "-f",
                       "${Package} ${Version}\\n").splitlines()
    assert {f"{p['name']} {p['versionInfo']}" for p in bill["packages"][1:]} == set(installed)
    say(f"  its list names all {len(installed)} packages")


def make_bucket(system):
    """With the command of the image and the store's Secret."""
    (scanner,) = of_kind(system.documents, "CronJob")
    document = json.loads(json.dumps(scanner))
    document["metadata"]["name"] = "bucket"
    document["spec"]["jobTemplate"]["spec"]["template"]["spec"]["containers"][0]["command"] = ["cortana", "bucket", "init"]
    pod = system.node.start(system.documents, document)
    system.wait(lambda: not pod.state()[0], "the bucket", step=False)
    assert pod.state()[1] == 0, pod.log()


def install(system):
    """Workers first: they have to wait for the schema, and to be ready when it is there (and the bucket)."""
    system.scaler.documents = [d for d in system.documents if d["kind"] != "ScaledObject"]
    for document in of_kind(system.scaler.documents, "Deployment"):
        document["spec"].setdefault("replicas", 1 if document["metadata"]["name"] == "clip-generate" else 0)
    system.scaler.step()
    (pod,) = system.scaler.pods["clip-generate"]
    system.wait(lambda: "migrat" in pod.get("/readyz")[1] or "schema" in pod.get("/readyz")[1],
                "the worker to miss the schema", step=False)
    assert pod.get("/healthz")[0] == 200 and pod.get("/readyz")[0] == 503
    code, log = system.run_job("Job")
    assert code == 0, log
    say(f"  {log.strip().splitlines()[-1]}")
    system.wait(lambda: pod.get("/readyz")[0] == 200, "the worker to be ready", step=False)
    assert pod.state()[0], "the worker did not wait"
    for document in of_kind(system.documents, "Deployment"):
        if any(s["spec"]["scaleTargetRef"]["name"] == document["metadata"]["name"]
               for s in of_kind(system.documents, "ScaledObject")):
            del document["spec"]["replicas"]
    system.scaler.apply(system.documents)
    system.wait(lambda: len(system.scaler.pods.get("scheduler", [])) == 2 and all(
        p.get("/readyz")[0] == 200 for p in system.scaler.pods["scheduler"]), "two schedulers")


def quiet_run(system):
    """From nothing: how long until the first job of a stage that was scaled to nothing is claimed."""
    owner = str(uuid.uuid4())
    began = time.monotonic()
    system.quiet = system.scan(owner, VIDEO)
    say(f"  found after {time.monotonic() - began:.1f} s")
    assert not system.scaler.pods.get("transcode"), "it was not scaled to nothing"
    system.scaler.step()
    (pod,) = system.scaler.pods["transcode"]
    system.wait(lambda: system.query("SELECT 1 FROM jobs WHERE job_type = 'transcode' AND started_at IS NOT NULL"),
                "the first claim", step=False)
    say(f"  from the order to start a pod to its first claim: {time.monotonic() - pod.began:.1f} s")
    inside = re.search(r"^cortana_first_claim_seconds (\S+)", pod.get("/metrics")[1], re.MULTILINE)
    say(f"  of these in the process: {inside[1] if inside else '?'} s")
    system.wait(lambda: system.status(system.quiet) == "ready", "the quiet video")
    system.clip(system.quiet)
    say(f"  upload to clip: {time.monotonic() - began:.0f} s")


def disturbed_run(system):
    owner = str(uuid.uuid4())
    system.video = system.scan(owner, VIDEO)
    system.wait(lambda: system.running("transcode"), "the transcode to be well under way")
    system.scaler.pods["transcode"][0].kill()
    say("  transcode killed at work")
    system.wait(lambda: system.query("SELECT 1 FROM job_attempts a JOIN jobs j ON j.id = a.job_id WHERE j.video_id = %s"
                                     " AND a.attempt = 2 AND j.status = 'processing'", system.video), "its second attempt")
    roll(system)
    system.wait(lambda: system.query("SELECT 1 FROM jobs WHERE job_type = 'transcode' AND video_id = %s"
                                     " AND status = 'done'", system.video), "the second attempt to end")
    attempts = system.query("SELECT a.status::text FROM job_attempts a JOIN jobs j ON j.id = a.job_id WHERE job_type = 'transcode'"
                            " AND video_id = %s ORDER BY a.attempt", system.video)
    assert attempts == [("crashed",), ("succeeded",)], attempts
    system.wait(lambda: system.status(system.video) == "ready", "the disturbed video")
    bad = system.query("SELECT job_type, a.status::text FROM job_attempts a JOIN jobs j ON j.id = a.job_id WHERE video_id = %s"
                       " AND job_type <> 'transcode' AND a.status <> 'succeeded'", system.video)
    assert not bad, bad
    system.clip(system.video)


def roll(system):
    """The newer version: its migration first, then its pods in place of the old ones, which end by themselves."""
    system.documents = system.render(NEW)
    code, log = system.run_job("Job", f"migrate-{NEW}".replace(".", "-"))
    assert code == 0, log
    old = [pod for pods in system.scaler.pods.values() for pod in pods]
    busy = system.query(AT_WORK)
    assert busy, "nothing is at work that a new version could disturb"
    say(f"  at work when the new version is applied: {busy}")
    system.scaler.apply(system.documents)
    system.wait(lambda: not system.scaler.leaving and all(not pod.state()[0] for pod in old), "the old pods to go")
    codes = {pod.name: pod.state()[1] for pod in old}
    killed = [name for name, code in codes.items() if code not in (0,)]
    assert not killed, {name: codes[name] for name in killed}
    now = {pod.image for pods in system.scaler.pods.values() for pod in pods}
    assert now == {f"{REPOSITORY}:{NEW}"}, now
    say(f"  {len(old)} pods of {OLD} ended with 0, {sum(map(len, system.scaler.pods.values()))} of {NEW} run")


def compare(system):
    left = {name: rows(system.query, video) for name, video in (("quiet", system.quiet), ("disturbed", system.video))}
    assert left["quiet"]["segments"], "no texts"
    for kind in left["quiet"]:
        assert left["quiet"][kind] == left["disturbed"][kind], kind
    kept = {name: objects(system.store, video) for name, video in (("quiet", system.quiet), ("disturbed", system.video))}
    assert kept["quiet"] == kept["disturbed"], {
        key for key in kept["quiet"].keys() | kept["disturbed"].keys() if kept["quiet"].get(key) != kept["disturbed"].get(key)}
    assert any("clips/" in key for key in kept["quiet"])
    say(f"  {len(left['quiet']['segments'])} segments, {len(left['quiet']['entities'])} entities, {len(kept['quiet'])} objects: the same")


def scale_to_nothing(system):
    system.wait(lambda: not system.scaler.leaving and {n: len(p) for n, p in system.scaler.pods.items() if p}
                == {"scheduler": 2, "gateway": 2, "clip-generate": 1}, "all but what stays to be gone")
    ends = {pod.name: code for pod, code in system.scaler.ended}
    say(f"  ended otherwise than told: {ends}")
    left = podman("ps", "--all", "--format", "{{.Names}} {{.Status}}", "--filter", f"name=cv-{system.run}-")
    unknown = [line for line in left.splitlines() if "Exited (137)" in line and "transcode" not in line]
    assert not unknown, unknown


STEPS = [start, check_image, make_bucket, install, quiet_run, disturbed_run, compare, scale_to_nothing]


if __name__ == "__main__":
    if os.geteuid() != 0:
        sys.exit("containers of their own network need root")
    sys.exit(run_steps(System, STEPS, __doc__, make_programs))
