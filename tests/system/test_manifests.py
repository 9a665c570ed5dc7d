"""The manifests without a cluster: schemas, our own rules and faults that both have to find, KEDA's queries
on a real queue, alerts, and that alerts and dashboard ask for numbers which workers export."""

import copy
import json
import random
import re
import shutil
import subprocess
import sys
import uuid

import autoscaler
import psycopg2
import pytest
import yaml
from api import Gateway, token
from conftest import migrate, run_sql
from manifests import (LONG_GRACE_SECONDS, OVERLAYS, ROOT, grace_of, lint, of_kind, programs, render, schema_problems,
                       template_of)
from probing import port_of, scrape
from workers import Workers, wait_until

sys.path.insert(0, str(ROOT / "scripts"))
import stages  # noqa: E402

MONITORING = ROOT / "k8s/components/monitoring"
# Off by default: docs/operations.md says how they are added.
NOT_IN_PODS = {stage.program for stage in stages.read() if stage.setting}


@pytest.fixture(scope="module")
def tools(build_dir):
    folder = build_dir / "tools"
    subprocess.run([ROOT / "scripts/manifest_tools", folder], check=True)
    return folder


@pytest.fixture(scope="module")
def overlays(tools):
    return {overlay: render(tools / "kustomize", ROOT / "k8s/overlays" / overlay) for overlay in OVERLAYS}


# ---- schemas and rules -------------------------------------------------------------------------------


@pytest.mark.parametrize("overlay", OVERLAYS)
def test_schemas_and_rules(overlays, overlay):
    assert schema_problems(overlays[overlay]) == []
    assert lint(overlays[overlay], overlay) == []


def test_every_program_runs_somewhere(overlays):
    run = {template_of(d)["spec"]["containers"][0]["command"][0] for d in overlays["prod"]
           if d["kind"] in ("Deployment", "CronJob")}
    assert run == programs() - NOT_IN_PODS


def test_what_is_printed_of_a_stage_can_be_applied():
    """docs/operations.md: for a program without a manifest. Fields that all pods have in common come from the base."""
    for stage in stages.read():
        printed = subprocess.run([ROOT / "scripts/stages.py", "kubernetes", stage.name], capture_output=True, text=True, check=True)
        documents = [document for document in yaml.safe_load_all(printed.stdout) if document]
        assert [document["kind"] for document in documents] == ["ServiceAccount", "Deployment", "PodDisruptionBudget", "ScaledObject"]
        assert schema_problems(documents) == []


def find(documents, kind, name):
    (found,) = [d for d in documents if d["kind"] == kind and d["metadata"]["name"] == name]
    return found


def container(documents, name, kind="Deployment"):
    return template_of(find(documents, kind, name))["spec"]["containers"][0]


def spec(documents, kind, name):
    return find(documents, kind, name)["spec"]


def drop(documents, kind, name):
    documents.remove(find(documents, kind, name))


# Each does one thing wrong; the words are what has to be found.
FAULTS = {
    "a field that is not there": lambda d: (container(d, "ocr").update(resource={}), "resource"),
    "a field of a custom object": lambda d: (spec(d, "ScaledObject", "ocr").update(maxReplicas=3), "maxReplicas"),
    "a number for a text": lambda d: (
        spec(d, "ScaledObject", "ocr")["triggers"][0]["metadata"].update(targetQueryValue=2), "not of type"),
    "a word that is not one of": lambda d: (
        spec(d, "CronJob", "scanner").update(concurrencyPolicy="Never"), "Never"),
    "an unknown kind": lambda d: (d.append({"apiVersion": "v2", "kind": "Pod", "metadata": {"name": "x"}}), "no schema"),
    "no memory limit": lambda d: (container(d, "ocr")["resources"]["limits"].pop("memory"), "memory: request"),
    "too little memory": lambda d: (
        container(d, "ocr")["resources"]["limits"].update(memory="2Gi"), "the stage may use 3072 MiB"),
    "more asked for than allowed": lambda d: (
        container(d, "ocr")["resources"]["requests"].update(cpu="3"), "cpu: request 3"),
    "a small disk": lambda d: (
        container(d, "ocr")["resources"]["limits"].update({"ephemeral-storage": "2Gi"}), "larger than ephemeral"),
    "a volume without bound": lambda d: (
        template_of(find(d, "Deployment", "ocr"))["spec"]["volumes"][0]["emptyDir"].pop("sizeLimit"), "no sizeLimit"),
    "a short end": lambda d: (
        template_of(find(d, "Deployment", "ocr"))["spec"].update(terminationGracePeriodSeconds=30), "the pod's 30 s"),
    "a probe that asks elsewhere": lambda d: (
        container(d, "ocr")["livenessProbe"]["httpGet"].update(port="http"), "livenessProbe asks port http"),
    "no probe": lambda d: (container(d, "ocr").pop("readinessProbe"), "no readinessProbe"),
    "a port that nobody listens to": lambda d: (
        container(d, "ocr")["ports"][0].update(containerPort=9091), "CORTANA_LISTEN is port 9090"),
    "replicas beside KEDA": lambda d: (spec(d, "Deployment", "ocr").update(replicas=1), "replicas beside"),
    "a query for another type": lambda d: (
        spec(d, "ScaledObject", "ocr")["triggers"][0]["metadata"].update(query="SELECT 'sample'"), "does not ask for ocr"),
    "a scaled object of nothing": lambda d: (
        spec(d, "ScaledObject", "ocr")["scaleTargetRef"].update(name="ocrs"), "no Deployment ocrs"),
    "a field that KEDA has not": lambda d: (
        spec(d, "ScaledObject", "ocr")["triggers"][0]["metadata"].update(metricName="x"), "metricName"),
    "a secret that is not made": lambda d: (
        spec(d, "TriggerAuthentication", "cortana-queue")["secretTargetRef"][0].update(name="db"), "no Secret db"),
    "a password in plain text": lambda d: (
        container(d, "ocr")["env"].append({"name": "X", "value": "postgresql://a:b@c/d"}), "in plain text"),
    "a writable root": lambda d: (
        container(d, "ocr")["securityContext"].update(readOnlyRootFilesystem=False), "not shut in"),
    "root": lambda d: (
        template_of(find(d, "Deployment", "ocr"))["spec"]["securityContext"].update(runAsUser=0), "may be root"),
    "an image that moves": lambda d: (container(d, "ocr").update(image="r/cortana-vision:latest"), "fixed tag"),
    "another version": lambda d: (
        container(d, "migrate-0-1-0", "Job").update(image="r/cortana-vision:0.2.0"), "not named by its image's tag"),
    "the owner's connection": lambda d: (
        container(d, "ocr")["env"].append({"name": "O", "valueFrom": {"secretKeyRef": {
            "name": "cortana-database-owner", "key": "url"}}}), "migration's alone"),
    "a job that outgrows its volume": lambda d: (
        container(d, "ocr")["env"].append({"name": "CORTANA_SCRATCH_BYTES", "value": str(4 << 30)}), "a job may write more than 90%"),
    "two jobs for a pod that works on one": lambda d: (
        spec(d, "ScaledObject", "ocr")["triggers"][0]["metadata"].update(targetQueryValue="2"), "wants a pod for 2 jobs"),
    "threads of the node": lambda d: (container(d, "ocr").update(args=["--slots", "1"]), "threads are not"),
    "no budget": lambda d: (drop(d, "PodDisruptionBudget", "ocr"), "0 disruption budgets"),
    "a way to the store without need": lambda d: (
        template_of(find(d, "Deployment", "segment-index"))["metadata"]["labels"].update(
            {"cortana-vision/store": "true"}), "its way to the store"),
    "an open network": lambda d: (drop(d, "NetworkPolicy", "deny-all"), "nothing denies"),
    "a priority like the clips'": lambda d: (
        template_of(find(d, "Deployment", "ocr"))["spec"].update(priorityClassName="cortana-interactive"), "priority"),
    "a schedule of six fields": lambda d: (
        spec(d, "CronJob", "scanner").update(schedule="* * * * * *"), "schedule"),
    "a gateway that is there once": lambda d: (
        spec(d, "HorizontalPodAutoscaler", "gateway").update(minReplicas=1), "is not there twice"),
    "replicas beside a scaler": lambda d: (spec(d, "Deployment", "gateway").update(replicas=2), "two say how often"),
    "an Ingress to nowhere": lambda d: (
        spec(d, "Ingress", "gateway")["rules"][0]["http"]["paths"][0]["backend"]["service"].update(name="api"), "leads to 0 kinds"),
    "a gateway that nobody may reach": lambda d: (drop(d, "NetworkPolicy", "gateway"), "no policy lets it in"),
    "an account that is not there": lambda d: (drop(d, "ServiceAccount", "ocr"), "no ServiceAccount ocr"),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_faults_are_found(overlays, fault):
    documents = copy.deepcopy(overlays["prod"])
    _, words = FAULTS[fault](documents)
    problems = schema_problems(documents)
    if not any("no schema" in problem for problem in problems):
        problems += lint(documents, "prod")
    assert any(words in problem for problem in problems), problems


# ---- images ----------------------------------------------------------------------------------------

DIGEST = "sha256:" + "0123456789abcdef" * 4


@pytest.mark.parametrize("image, rendered", [
    ({"digest": DIGEST}, f"registry.example.com/cortana-vision@{DIGEST}"),
    ({"newTag": "0.1.0", "digest": DIGEST}, f"registry.example.com/cortana-vision:0.1.0@{DIGEST}"),
    ({"newName": "registry.corp:5000/cv", "newTag": "0.1.0"}, "registry.corp:5000/cv:0.1.0"),
    ({"newName": "registry.corp:5000/team/cv", "digest": DIGEST}, f"registry.corp:5000/team/cv@{DIGEST}"),
    ({"newName": "localhost/cv", "newTag": "main-1a2b3c"}, "localhost/cv:main-1a2b3c"),
])
def test_an_image_has_any_name_that_registries_give(tools, tmp_path, image, rendered):
    """By digest, at a registry with a port, with a tag that is no version: in every pod, and the migration's Job has a name."""
    shutil.copytree(ROOT / "k8s", tmp_path / "k8s")
    path = tmp_path / "k8s/overlays/prod/kustomization.yaml"
    overlay = yaml.safe_load(path.read_text())
    overlay["images"] = [{"name": "registry.example.com/cortana-vision", **image}]
    name = f"migrate-{image['newTag'].replace('.', '-')}" if "newTag" in image else "migrate-2026-11"
    (patch,) = [p for p in overlay["patches"] if p["target"]["kind"] == "Job"]
    patch["patch"] = patch["patch"].replace("migrate-0-1-0", name)
    path.write_text(yaml.safe_dump(overlay))
    documents = render(tools / "kustomize", path.parent)
    assert {c["image"] for d in documents if template_of(d) for c in template_of(d)["spec"]["containers"]} == {rendered}
    assert [d["metadata"]["name"] for d in of_kind(documents, "Job")] == [name]
    assert lint(documents, "prod") == []


# ---- scaling ---------------------------------------------------------------------------------------

# Jobs a day and their seconds on a pod. Long: parts of ten minutes of video, by docs/operations.md ("Sizing") on the CPUs of the
# pod's limit; one job in fifty is an hour in one piece, which has no key frames to part it at.
LOADS = {"transcode": (2000, 120, 1500), "sample": (2000, 70, 420), "ocr": (2000, 80, 480), "segment-index": (2000, 1, 10),
         "clip-generate": (3000, 3, 60), "object-remove": (500, 1, 30), "command": (200, 2, 60), "webhook": (5000, 1, 10)}


def load_of(stage):
    a_day, usual, whole = LOADS[stage]

    def length(numbers):
        return (whole if numbers.random() < 0.02 else usual) * numbers.lognormvariate(0, 0.5)

    return autoscaler.arrivals(random.Random(stage), a_day, length)


@pytest.mark.parametrize("stage", LOADS)
def test_a_day_of_scaling_throws_no_work_away(overlays, stage):
    """By the autoscaler's arithmetic: no fewer pods are wanted than work, and a pod that is stopped at work ends its job."""
    documents = overlays["prod"]
    grace = grace_of(find(documents, "Deployment", stage), documents)
    day = autoscaler.simulate(find(documents, "ScaledObject", stage), grace, load_of(stage))
    print(f"{stage}: {day.jobs} jobs, at most {day.most_pods} pods, {day.busy_stopped} stopped at work, {day.cut_off} cut off,"
          f" {day.lost_seconds / day.worked_seconds:.3%} of the work lost, {day.worked_seconds / day.pod_seconds:.0%} busy,"
          f" half waited {sorted(day.waits)[len(day.waits) // 2]:.0f} s, {day.fewer_than_busy} ticks with too few pods")
    assert day.cut_off == 0
    if grace >= LONG_GRACE_SECONDS:
        assert day.fewer_than_busy == 0


def test_the_scaling_of_two_jobs_a_pod_would(overlays):
    """The check can fail: with the target that was there once, pods were stopped at work for no reason."""
    documents = overlays["prod"]
    day = autoscaler.simulate(find(documents, "ScaledObject", "transcode"), 60, load_of("transcode"), target=2)
    assert day.fewer_than_busy > 0 and day.cut_off > 0


# ---- KEDA's queries ------------------------------------------------------------------------------------


@pytest.fixture
def keda(shared_cluster, sql):
    """A connection as KEDA has it: a role that is a member of cortana_metrics and nothing else."""
    name = f"keda_{uuid.uuid4().hex}"
    sql.cursor().execute(f"CREATE ROLE {name} LOGIN IN ROLE cortana_metrics")
    parameters = {**sql.get_dsn_parameters(), "user": name}
    connection = psycopg2.connect(**parameters)
    connection.set_session(readonly=True, autocommit=True)
    yield connection
    connection.close()
    sql.cursor().execute(f"DROP ROLE {name}")


def test_an_owner_that_is_no_superuser_migrates(shared_cluster):
    """The login of the migration Job: it may make roles, and owns the database."""
    name = f"owner_{uuid.uuid4().hex}"
    run_sql(shared_cluster, f"CREATE ROLE {name} LOGIN CREATEROLE")
    run_sql(shared_cluster, f"CREATE DATABASE {name} OWNER {name}")
    try:
        migrate(shared_cluster.url(name).replace("postgres@", f"{name}@"))
    finally:
        run_sql(shared_cluster, f"DROP DATABASE {name} WITH (FORCE)")
        connection = shared_cluster.connect()
        connection.cursor().execute(f"REASSIGN OWNED BY {name} TO postgres; DROP OWNED BY {name}; DROP ROLE {name}")
        connection.close()


def test_queries_of_keda(overlays, queue, keda):
    queries = {d["metadata"]["name"]: d["spec"]["triggers"][0]["metadata"]["query"]
               for d in of_kind(overlays["prod"], "ScaledObject")}
    video = queue.video
    for _ in range(3):
        queue.add("ocr", video_id=video())
    queue.claim_one("ocr")                                              # is worked on: counts
    queue.add("ocr", video_id=video(), scheduled_for="2100-01-01")      # put off: does not
    first = queue.add("sample", video_id=video())
    queue.add("sample", video_id=video(), depends_on=[first])           # waits for another: does not
    for retryable in (True, False):                                     # to be tried again later, and dead
        queue.add("transcode", video_id=video())
        queue.fail(queue.claim_one("transcode"), retryable=retryable)
    due = queue.add("clip_generate", video_id=video())
    queue.fail(queue.claim_one("clip_generate"))
    queue.make_retry_due(due)                                           # nobody has looked since: counts
    found = {}
    with keda.cursor() as cursor:
        for name, query in queries.items():
            cursor.execute(f"PREPARE q AS {query}")                     # as KEDA's driver does
            cursor.execute("EXECUTE q")
            ((value,),) = cursor.fetchall()
            cursor.execute("DEALLOCATE q")
            found[name] = value
        for table in ("jobs", "videos", "segments", "job_types"):
            with pytest.raises(psycopg2.errors.InsufficientPrivilege):
                cursor.execute(f"SELECT * FROM {table}")
    expected = {"ocr": 3.0, "sample": 1.0, "transcode": 0.0, "clip-generate": 1.0}
    assert found == {**{name: 0.0 for name in queries}, **expected}
    assert all(isinstance(value, float) for value in found.values())


# ---- alerts and dashboard --------------------------------------------------------------------------------


def test_alerts(overlays, tools, tmp_path):
    (rule,) = of_kind(overlays["prod"], "PrometheusRule")
    (tmp_path / "rules.yaml").write_text(yaml.safe_dump(rule["spec"]))
    shutil.copy(ROOT / "tests/system/alerts_test.yaml", tmp_path)
    for command in (["check", "rules", "rules.yaml"], ["test", "rules", "alerts_test.yaml"]):
        done = subprocess.run([tools / "promtool", *command], cwd=tmp_path, text=True, check=False,
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        assert done.returncode == 0, done.stdout
    alerts = {rule["alert"]: rule["annotations"] for group in rule["spec"]["groups"] for rule in group["rules"]}
    tested = (ROOT / "tests/system/alerts_test.yaml").read_text()
    for alert, annotations in alerts.items():
        assert re.search(rf"alertname: {alert}\n\s+exp_alerts:", tested), f"{alert} is never seen to fire"
        page, anchor = annotations["runbook"].split("#")
        headings = re.findall(r"^#+ (.+)$", (ROOT / page).read_text(), re.M)
        assert anchor in {heading.lower().replace(" ", "-") for heading in headings}, f"{alert} has no runbook"


def expressions():
    """Every expression of alerts and dashboard, by where it stands."""
    rules = yaml.safe_load((MONITORING / "alerts.yaml").read_text())["spec"]["groups"]
    found = {rule["alert"]: rule["expr"] for group in rules for rule in group["rules"]}
    board = json.loads((MONITORING / "cortana-vision.json").read_text())
    found.update({panel["title"]: " or ".join(target["expr"] for target in panel["targets"])
                  for panel in board["panels"]})
    found.update({f"variable {v['name']}": v["query"]["query"] for v in board["templating"]["list"]
                  if v["type"] == "query"})
    return found


def test_dashboard_can_be_read(tools, tmp_path):
    """promtool reads each panel's expression; Grafana's variables stand for words."""
    rules = [{"record": "test:panel", "expr": text.replace("$namespace", "cv")}
             for name, text in expressions().items() if not name.startswith("variable")]
    (tmp_path / "rules.yaml").write_text(yaml.safe_dump({"groups": [{"name": "all", "rules": rules}]}))
    done = subprocess.run([tools / "promtool", "check", "rules", "--lint=none", tmp_path / "rules.yaml"],
                          text=True, check=False, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    assert done.returncode == 0, done.stdout


def numbers_of_a_gateway(program, database, tmp_path):
    """After a request that it answered, one that it refused, and one too many."""
    (tmp_path / "api").mkdir()
    gateway = Gateway(program, database, tmp_path / "api", CORTANA_API_RATES="read=0,write=0,search=0.01:1,failure=0,note=0.01:1")
    try:
        statuses = [gateway.ask(*request).status for request in [("/me", "nobody's")] * 2 + [("/search?q=x", token())] * 2]
        assert statuses == [401, 401, 200, 429]
        return scrape(port_of(gateway.process))
    finally:
        gateway.end()


def test_numbers_that_are_asked_for_are_exported(program, database, queue, tmp_path):
    """A real worker, after a job that failed for good, and a gateway show every metric with the labels that are used."""
    store = tmp_path / "store"
    store.mkdir()
    workers = Workers(program, database, tmp_path)
    try:
        worker = workers.start("clip-generate-worker", "--listen", "127.0.0.1:0", "--metrics-fleet",
                               STORE_URL=f"dir:{store}", CORTANA_METRICS_FLEET_MS=100)
        port = port_of(worker)
        video = queue.video()
        key = f"videos/original/{video}/master.mp4"
        job = queue.add("clip_generate", {"video_id": str(video), "clip_id": str(uuid.uuid4()), "t_start": 0,
                                          "t_end": 1000, "s3_original_path": key}, video_id=video)
        wait_until(lambda: queue.status(job) == "failed", "the job to fail")
        asked = {name for text in expressions().values() for name in re.findall(r"cortana_\w+", text)}
        wait_until(lambda: scrape(port).total("cortana_fleet_jobs", job_type="clip_generate", status="dead") == 1,
                   "the fleet's numbers")
        ours, gateways = scrape(port), numbers_of_a_gateway(program, database, tmp_path)
        names = ours.names() | gateways.names()
        # The store's disk has numbers of its own where it is another one than the scratch folder's.
        asked.discard("cortana_store_disk_level")
        assert asked <= names, asked - names
        labels = {(name, key) for numbers in (ours, gateways) for name, its in numbers for key, _ in its}
        for where, text in expressions().items():
            for name, body in re.findall(r"(cortana_\w+)\{([^}]*)\}", text):
                for key in re.findall(r"(\w+)\s*(?:=~|!~|!=|=)", body):
                    assert key == "namespace" or (name, key) in labels, f"{where}: {name} has no {key}"
        assert worker.stop() == 0
    finally:
        workers.end()
