"""An installation of the manifests in a cluster, at work: an upload becomes a clip, pods are killed, replaced, evicted
and scaled to nothing, PostgreSQL goes away, and what is left is what a quiet run leaves. With the manifests' logins."""

import contextlib
import json
import os
import pathlib
import signal
import subprocess
import sys
import tempfile
import time
import uuid

import psycopg2
import yaml
from kubernetes import Refused, say
from manifests import of_kind, template_of
from remains import objects, rows
from s3_server import free_port
from store_client import StoreClient

ROOT = pathlib.Path(__file__).resolve().parents[2]
NAMESPACE, STORAGE, BUCKET = "cortana-vision", "storage", "cortana"
PROGRAMS, DATABASE, OBJECTS = "localhost/cortana-vision", "localhost/cortana-database:17", "localhost/cortana-objects:16"
OLD, NEW = "0.1.0", "0.1.1"
VIDEO, WORD = ROOT / "fixtures/feed.mp4", "coffee"
KEYS = {"S3_ACCESS_KEY_ID": "testkey", "S3_SECRET_ACCESS_KEY": "testsecret"}  # of the overlay for development
DEADLINE = 600  # seconds for whatever is waited for
ABSENCE_S = int(os.environ.get("CORTANA_CLUSTER_ABSENCE", "30"))  # of PostgreSQL
USER = 10001  # of all images here
# For a database's image that has no start of its own: what the overlay's image does with these variables.
START_DATABASE = """
set -eu; PATH=$(echo /usr/lib/postgresql/*/bin):$PATH
if [ ! -e "$PGDATA/PG_VERSION" ]; then
    rm -rf "$PGDATA.new"; echo "$POSTGRES_PASSWORD" > /tmp/password
    initdb --pgdata="$PGDATA.new" --username=postgres --pwfile=/tmp/password --encoding=UTF8 --locale=C.UTF-8 \\
        --auth-local=trust --auth-host=scram-sha-256
    echo "host all all all scram-sha-256" >> "$PGDATA.new/pg_hba.conf"
    pg_ctl --pgdata="$PGDATA.new" --wait --options="-c listen_addresses= -c unix_socket_directories=/tmp" start
    for file in /docker-entrypoint-initdb.d/*.sql; do psql -h /tmp -U postgres -X -v ON_ERROR_STOP=1 -f "$file"; done
    pg_ctl --pgdata="$PGDATA.new" --wait stop
    mv "$PGDATA.new" "$PGDATA"
fi
exec postgres -c listen_addresses='*' "$@"
"""


def storage(free_gib=4):
    """An S3 server where the overlay for development looks for one."""
    name = {"app": "s3"}
    here = {"name": "s3", "namespace": STORAGE}
    secret = {**{key: value for key, value in KEYS.items()}, "DATABASE_URL": "none"}
    volumes = {"objects": "/var/lib/objects", "tmp": "/tmp"}
    pod = {"automountServiceAccountToken": False, "enableServiceLinks": False,
           "securityContext": {"runAsNonRoot": True, "runAsUser": USER, "runAsGroup": USER, "fsGroup": USER,
                               "seccompProfile": {"type": "RuntimeDefault"}},
           "containers": [{"name": "s3", "image": OBJECTS, "imagePullPolicy": "IfNotPresent", "ports": [{"containerPort": 8000}],
                           "env": [{"name": "OBJECTS_GIB", "value": str(free_gib)}],
                           "readinessProbe": {"tcpSocket": {"port": 8000}, "periodSeconds": 2},
                           "securityContext": {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}},
                           "volumeMounts": [{"name": "secrets", "mountPath": "/secrets"}] + [
                               {"name": key, "mountPath": path} for key, path in volumes.items()]}],
           "volumes": [{"name": "secrets", "secret": {"secretName": "s3"}}] + [{"name": key, "emptyDir": {}} for key in volumes]}
    return [{"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": STORAGE}},
            {"apiVersion": "v1", "kind": "Secret", "metadata": here, "stringData": secret},
            {"apiVersion": "v1", "kind": "Service", "metadata": here,
             "spec": {"selector": name, "ports": [{"port": 8000, "protocol": "TCP"}]}},
            {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": here, "spec": {
                "selector": {"matchLabels": name}, "template": {"metadata": {"labels": name}, "spec": pod}}}]


class Installation:
    def __init__(self, kubernetes, kustomize, node):
        self.kubernetes, self.kustomize, self.node = kubernetes, kustomize, node
        self.stack = contextlib.ExitStack()
        self.folder = pathlib.Path(self.stack.enter_context(tempfile.TemporaryDirectory(prefix="cv-cluster-work-")))
        self.ports = {name: free_port() for name in ("api", "s3", "database")}
        self.store, self.videos, self.forwards = None, [], {}
        for name in (NAMESPACE, STORAGE):
            with contextlib.suppress(Refused):
                kubernetes.run("get", "namespace", name)
                raise AssertionError(f"the cluster has a namespace {name} already: this test makes and removes it")

    # ---- what is applied -----------------------------------------------------------------------------

    def render(self, tag):
        """The overlay for development with the programs of this tag, and what this cluster lacks."""
        folder = self.folder / tag
        folder.mkdir()
        (folder / "kustomization.yaml").write_text(yaml.safe_dump({
            "apiVersion": "kustomize.config.k8s.io/v1beta1", "kind": "Kustomization",
            "resources": [os.path.relpath(ROOT / "k8s/overlays/dev", folder)], "images": [{"name": PROGRAMS, "newTag": tag}]}))
        text = subprocess.run([self.kustomize, "build", folder], check=True, text=True, stdout=subprocess.PIPE).stdout
        documents = [d for d in yaml.safe_load_all(text) if d and d["kind"] not in ("ScaledObject", "TriggerAuthentication")]
        for job in of_kind(documents, "Job"):
            job["metadata"]["name"] = f"migrate-{tag}".replace(".", "-")  # an overlay of an overlay: named by its base
        for config in of_kind(documents, "ConfigMap"):
            if "CORTANA_SCRATCH" in config["data"]:
                config["data"]["CORTANA_LEASE_MS"] = "10000"
                config["data"]["S3_PUBLIC_ENDPOINT"] = f"http://127.0.0.1:{self.ports['s3']}"
        for database in of_kind(documents, "StatefulSet"):
            spec = template_of(database)["spec"]
            spec["securityContext"].update(runAsUser=USER, runAsGroup=USER, fsGroup=USER)
            spec["containers"][0].update(image=DATABASE, command=["sh", "-c", START_DATABASE, "database"])
        return [made for made in map(self.kubernetes.known, documents) if made]

    def apply(self, tag):
        self.kubernetes.apply(*self.render(tag))

    def wait(self, condition, what, seconds=DEADLINE):
        end = time.monotonic() + seconds
        while True:
            with contextlib.suppress(OSError, psycopg2.OperationalError):
                value = condition()
                if value:
                    return value
            if time.monotonic() > end:
                raise AssertionError(f"waited {seconds} s for {what}")
            time.sleep(0.3)

    def run_job(self, name, source, change):
        """A Job of a CronJob's pods, to its end. `change(container)` says what differs."""
        cron = self.kubernetes.get(NAMESPACE, "cronjob", source)
        spec = cron["spec"]["jobTemplate"]["spec"]
        change(spec["template"]["spec"]["containers"][0])
        self.kubernetes.apply({"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": name, "namespace": NAMESPACE}, "spec": spec})
        self.end_of_job(name)

    def end_of_job(self, name):
        def status():
            return self.kubernetes.get(NAMESPACE, "job", name)["status"]
        self.wait(lambda: status().get("succeeded") or status().get("conditions"), f"the Job {name}")
        if not status().get("succeeded"):
            raise AssertionError(f"{name}: {self.kubernetes.run('--namespace', NAMESPACE, 'logs', f'job/{name}')[-1500:]}")

    def wait_for_rollout(self, *deployments):
        for name in deployments or self.names("deployment"):
            self.kubernetes.run("--namespace", NAMESPACE, "rollout", "status", f"deployment/{name}", f"--timeout={DEADLINE}s")

    def names(self, kind, *words):
        return [d["metadata"]["name"] for d in self.kubernetes.get(NAMESPACE, kind, *words)["items"]]

    # ---- what is asked -------------------------------------------------------------------------------

    def query(self, statement, *parameters):
        connection = psycopg2.connect(host="127.0.0.1", port=self.ports["database"], user="postgres", password="dev-postgres",
                                      dbname="cortana", connect_timeout=5)
        try:
            connection.autocommit = True
            with connection.cursor() as cursor:
                cursor.execute(statement, parameters)
                return cursor.fetchall() if cursor.description else []
        finally:
            connection.close()

    def inside(self, target, *command):
        return self.kubernetes.run("--namespace", NAMESPACE, "exec", target, "--", *command)

    def at_work(self, video, job_type, progress):
        """The pod that has come so far with this job."""
        found = self.query("SELECT locked_by FROM jobs WHERE video_id = %s AND job_type = %s AND status = 'processing'"
                           " AND coalesce(progress, 0) >= %s", video, job_type, progress)
        return next((pod for pod in self.names("pod") if found and pod in found[0][0]), None)

    def status(self, video):
        ((status,),) = self.query("SELECT status::text FROM videos WHERE id = %s", video)
        assert status != "failed", self.query("SELECT job_type, payload -> 'error' FROM jobs WHERE status = 'failed'")
        return status

    def scan(self):
        """An upload into the bucket, and the scanner's look: the id of the video."""
        owner, name = str(uuid.uuid4()), f"look-{len(self.videos)}"
        self.store.put(key=f"inbox/{owner}/{VIDEO.name}", path=str(VIDEO))
        self.run_job(name, "scanner", lambda container: None)
        ((video,),) = self.wait(lambda: self.query("SELECT id::text FROM videos WHERE owner_id = %s", owner), "the video")
        self.videos.append(video)
        return video

    def ready(self, video):
        began = time.monotonic()
        self.wait(lambda: self.status(video) == "ready", "the video to be ready")
        return time.monotonic() - began

    def attempts(self, video):
        """How each attempt at each kind of job of a video ended."""
        return self.query("SELECT job_type, array_agg(a.status::text ORDER BY a.attempt) FROM job_attempts a JOIN jobs j ON j.id = a.job_id"
                          " WHERE video_id = %s GROUP BY j.id, job_type ORDER BY 1", video)

    def end(self):
        if self.store:
            self.store.process.kill()
        for forward in self.forwards.values():
            forward.close()
        self.stack.close()
        if not self.node:
            for name in (NAMESPACE, STORAGE):
                self.kubernetes.run("delete", "namespace", name, "--wait=false", "--ignore-not-found")

    def tell(self):
        """What there is to see after a failure."""
        with contextlib.suppress(Refused):
            print(self.kubernetes.run("get", "pods", "--all-namespaces", "--output=wide"))
            print(self.kubernetes.run("get", "events", "--all-namespaces")[-4000:])
            for pod in self.names("pod"):
                print(f"--- {pod}\n{self.kubernetes.run('--namespace', NAMESPACE, 'logs', pod, '--tail=15')}")


# ---- the steps -----------------------------------------------------------------------------------------


def install(work):
    """All at once, as an operator applies it: what needs database and schema waits for them."""
    began = time.monotonic()
    if work.node:
        work.kubernetes.apply(work.node.make_volume())
    work.kubernetes.apply(*storage())
    work.apply(OLD)
    work.end_of_job(f"migrate-{OLD}".replace(".", "-"))
    work.kubernetes.run("--namespace", STORAGE, "rollout", "status", "deployment/s3", f"--timeout={DEADLINE}s")
    work.run_job("bucket", "scanner", lambda container: container.update(command=["cortana", "bucket", "init"]))
    work.wait_for_rollout()
    failed = [pod["metadata"]["name"] for pod in work.kubernetes.get(NAMESPACE, "pod")["items"] if pod["status"]["phase"] == "Failed"]
    # A look of the scanner's may have come before the bucket.
    failed = [name for name in failed if not name.startswith("scanner-")]
    assert not failed, f"these pods failed on the way: {failed}"
    say(f"  {len(work.names('pod', '--field-selector=status.phase=Running'))} pods run after {time.monotonic() - began:.0f} s")
    for target, namespace, port, local in (("service/gateway", NAMESPACE, 80, "api"), ("pod/postgres-0", NAMESPACE, 5432, "database"),
                                           ("service/s3", STORAGE, 8000, "s3")):
        work.forwards[local] = work.kubernetes.forward(namespace, target, port, work.ports[local])
    work.wait(lambda: work.query("SELECT 1"), "the database's port")
    work.store = StoreClient(pathlib.Path(os.environ.get("BUILD_DIR", ROOT / "build")) / "tests/programs/store-commands", {
        **KEYS, "STORE_URL": f"s3://{BUCKET}", "S3_REGION": "us-east-1", "S3_ENDPOINT": f"http://127.0.0.1:{work.ports['s3']}"})


def upload_to_clip(work):
    """Through the API, by the program that the documents show."""
    owner = str(uuid.uuid4())
    token = work.inside("deployment/gateway", "cortana", "token", "--user", owner).strip()
    clip = work.folder / "clip.mp4"
    began = time.monotonic()
    done = subprocess.run([sys.executable, ROOT / "docs/examples/client.py", VIDEO, WORD, clip],
                          env={**os.environ, "API": f"http://127.0.0.1:{work.ports['api']}/api/v1", "TOKEN": token}, text=True,
                          check=False, capture_output=True, timeout=DEADLINE)
    assert done.returncode == 0, done.stdout + done.stderr
    assert clip.stat().st_size > 10000
    say(f"  {time.monotonic() - began:.0f} s")
    ((video,),) = work.query("SELECT id::text FROM videos WHERE owner_id = %s", owner)
    work.videos.append(video)


def kill(work):
    """The first process of a pod killed in place, where that can be reached, and a pod taken away without grace."""
    (pod,) = work.names("pod", "--selector=app.kubernetes.io/name=transcode")
    process = work.node.find_first_process(pod) if work.node else None
    video = work.scan()
    work.wait(lambda: work.at_work(video, "transcode", 0.1), "transcode to be well under way")
    if process:
        os.kill(process, signal.SIGKILL)
        work.wait(lambda: ["crashed", "running"] in dict(work.attempts(video)).values(), "its second attempt")
        work.wait(lambda: work.at_work(video, "transcode", 0.1), "that to be well under way")
    work.kubernetes.run("--namespace", NAMESPACE, "delete", "pod", pod, "--force", "--grace-period=0")
    say(f"  ready {work.ready(video):.0f} s later: {work.attempts(video)}")
    ends = dict(work.attempts(video))["transcode"]
    assert ends == [*["crashed"] * (2 if process else 1), "succeeded"], ends


def evict(work):
    """Graceful: the job is finished or given back, and counts as no failure."""
    video = work.scan()
    pod = work.wait(lambda: work.at_work(video, "transcode", 0.1), "transcode to be well under way")
    work.kubernetes.evict(NAMESPACE, pod)
    say(f"  ready {work.ready(video):.0f} s later: {work.attempts(video)}")
    assert all(set(ends) <= {"succeeded", "released"} for _, ends in work.attempts(video))
    work.wait(lambda: pod not in work.names("pod"), "the evicted pod to go")
    work.wait_for_rollout("transcode")


def roll_out(work):
    """A newer version while a video is at work: its migration, then its pods in place of the old ones."""
    video = work.scan()
    work.wait(lambda: work.at_work(video, "transcode", 0.1), "transcode to be well under way")
    work.apply(NEW)
    work.end_of_job(f"migrate-{NEW}".replace(".", "-"))
    say(f"  ready {work.ready(video):.0f} s later: {work.attempts(video)}")
    work.wait_for_rollout()
    assert all(set(ends) <= {"succeeded", "released"} for _, ends in work.attempts(video))
    work.wait(lambda: {c["image"] for pod in work.kubernetes.get(NAMESPACE, "pod", "--field-selector=status.phase=Running")["items"]
                       for c in pod["spec"]["containers"] if c["image"].startswith(PROGRAMS)} == {f"{PROGRAMS}:{NEW}"}, "the old pods to go")


def scale_to_nothing(work):
    video = work.scan()
    work.wait(lambda: work.at_work(video, "transcode", 0.1), "transcode to be well under way")
    stages = work.names("deployment", "--selector=app.kubernetes.io/component=stage")
    scale = ("--namespace", NAMESPACE, "scale", *(f"deployment/{name}" for name in stages))
    work.kubernetes.run(*scale, "--replicas=0")
    work.wait(lambda: not work.names("pod", "--selector=app.kubernetes.io/component=stage"), "every stage's pods to go")
    assert not work.query("SELECT 1 FROM jobs WHERE status = 'processing'"), "a job has no worker, and was not given back"
    work.kubernetes.run(*scale, "--replicas=1")
    say(f"  ready {work.ready(video):.0f} s later: {work.attempts(video)}")
    assert all(set(ends) <= {"succeeded", "released"} for _, ends in work.attempts(video))


def lose_the_database(work):
    video = work.scan()
    work.wait(lambda: work.at_work(video, "transcode", 0.1), "transcode to be well under way")
    scale = ("--namespace", NAMESPACE, "scale", "statefulset/postgres")
    work.kubernetes.run(*scale, "--replicas=0")
    work.wait(lambda: "postgres-0" not in work.names("pod"), "PostgreSQL to go")
    gone_until = time.monotonic() + ABSENCE_S
    stages = work.kubernetes.get(NAMESPACE, "pod", "--selector=app.kubernetes.io/component=stage")["items"]
    work.wait(lambda: time.monotonic() > gone_until, "the end of its absence", seconds=ABSENCE_S + 5)
    work.kubernetes.run(*scale, "--replicas=1")
    work.kubernetes.run("--namespace", NAMESPACE, "rollout", "status", "statefulset/postgres", f"--timeout={DEADLINE}s")
    work.forwards["database"].renew()
    say(f"  gone for {ABSENCE_S} s; ready {work.ready(video):.0f} s after it came back: {work.attempts(video)}")
    now = work.kubernetes.get(NAMESPACE, "pod", "--selector=app.kubernetes.io/component=stage")["items"]
    assert restarts(stages) == restarts(now), "a worker did not outlive the database's absence"


def restarts(pods):
    return {pod["metadata"]["name"]: [c["restartCount"] for c in pod["status"]["containerStatuses"]] for pod in pods}


def keep_house(work):
    """Every command that comes with the system, as its schedule enqueues it; and what an operator types in a pod."""
    keys = [key for key, in work.query("SELECT key FROM job_definitions ORDER BY key")]
    jobs = {key: work.query("SELECT job_id::text FROM run_command(%s, %s)", key, json.dumps({"all": True} if key == "reindex" else {}))[0][0]
            for key in keys}
    work.wait(lambda: not work.query("SELECT 1 FROM jobs WHERE id::text = ANY (%s) AND status NOT IN ('done', 'failed')", list(jobs.values())),
              "the commands")
    failed = work.query("SELECT payload ->> 'command', payload -> 'error' FROM jobs WHERE id::text = ANY (%s) AND status = 'failed'",
                        list(jobs.values()))
    assert not failed, failed
    for words in ("jobs", "jobs list", "rules", "workers", "runs", "workflows", "schedules", "triggers", "webhooks", "commands", "hosts",
                  "videos", "gc", "doctor"):
        work.inside("deployment/command", "cortana", *words.split())
    work.inside("deployment/transcode", "cortana", "search", WORD)
    say(f"  {len(keys)} commands done: {', '.join(keys)}")


def compare(work):
    """No job lost, none done twice: rows and objects of every video are the quiet one's."""
    quiet, *disturbed = work.videos
    left, kept = rows(work.query, quiet), without_clips(work, quiet)
    assert left["segments"] and kept
    for video in disturbed:
        for kind, found in rows(work.query, video).items():
            assert found == left[kind], (kind, video)
        found = without_clips(work, video)
        assert found == kept, {key for key in kept.keys() | found.keys() if kept.get(key) != found.get(key)}
    say(f"  {len(disturbed)} videos as the quiet one: {len(left['segments'])} segments, {len(left['entities'])} entities, {len(kept)} objects")


def without_clips(work, video):
    return {key: value for key, value in objects(work.store, video).items() if "/clips/" not in key}


STEPS = [install, upload_to_clip, kill, evict, roll_out, scale_to_nothing, lose_the_database, keep_house, compare]
