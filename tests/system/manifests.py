"""The manifests of k8s/ as data, and the rules that they have to keep, those of the API server and ours."""

import json
import pathlib
import re
import subprocess

import jsonschema
import yaml

ROOT = pathlib.Path(__file__).resolve().parents[2]
OVERLAYS = ("dev", "prod")
# Made by whoever installs, not by the manifests (docs/operations.md).
OUTSIDE = {"dev": set(), "prod": {"cortana-store", "cortana-database", "cortana-database-owner",
                                  "cortana-database-metrics", "cortana-gateway"}}
# A stage's supervisor, and the small files of /tmp, beside what the stage may use itself.
SUPERVISOR_BYTES = 256 << 20
# A stage's directory is measured twice a second, and may grow past its limit meanwhile: the volume has that much more.
SCRATCH_SHARE = 0.9
# From such a grace on a stage's jobs are long: a pod for each.
LONG_GRACE_SECONDS = 300
# After its grace a worker stops its stages, gives jobs back and says goodbye.
GOODBYE_SECONDS = (15, 60)
# What the postgresql trigger of KEDA 2.17 to 2.20 knows.
TRIGGER_FIELDS = {"query", "targetQueryValue", "activationTargetQueryValue", "connectionFromEnv", "host",
                  "port", "userName", "passwordFromEnv", "dbName", "sslmode"}
CRON = re.compile(r"(\*|\d+(-\d+)?)(/\d+)?(,(\*|\d+(-\d+)?)(/\d+)?)*")
SUFFIXES = {"": 1, "m": 1e-3, "k": 1e3, "M": 1e6, "G": 1e9, "T": 1e12,
            "Ki": 2**10, "Mi": 2**20, "Gi": 2**30, "Ti": 2**40}


def render(kustomize, overlay):
    done = subprocess.run([kustomize, "build", overlay], text=True,
                          capture_output=True, check=False)
    assert done.returncode == 0, done.stderr
    return [document for document in yaml.safe_load_all(done.stdout) if document]


def quantity(text):
    match = re.fullmatch(r"([0-9.]+)([A-Za-z]*)", str(text))
    return float(match[1]) * SUFFIXES[match[2]] if match and match[2] in SUFFIXES else float("nan")


def name_of(document):
    return f"{document['kind']}/{document['metadata']['name']}"


def of_kind(documents, *kinds):
    return [document for document in documents if document["kind"] in kinds]


def template_of(document):
    """The pods that an object makes, or None."""
    spec = document.get("spec", {})
    if document["kind"] == "CronJob":
        spec = spec["jobTemplate"]["spec"]
    return spec.get("template") if document["kind"] in ("Deployment", "StatefulSet", "Job", "CronJob") else None


def labels_of(document):
    return template_of(document)["metadata"]["labels"]


def selects(selector, labels):
    return all(labels.get(key) == value for key, value in (selector or {}).get("matchLabels", {}).items())


def environment_of(document, documents):
    """The plain values of a pod's variables."""
    container = template_of(document)["spec"]["containers"][0]
    maps = {d["metadata"]["name"]: d.get("data", {}) for d in of_kind(documents, "ConfigMap")}
    values = {}
    for source in container.get("envFrom", []):
        values.update(maps.get(source.get("configMapRef", {}).get("name"), {}))
    values.update({e["name"]: e["value"] for e in container.get("env", []) if "value" in e})
    return values


def grace_of(document, documents):
    """How many seconds a worker that is told to stop goes on with its jobs."""
    return int(environment_of(document, documents).get("CORTANA_GRACE_MS", "0")) / 1000


def slots_of(document):
    arguments = template_of(document)["spec"]["containers"][0].get("args", [])
    return int(arguments[arguments.index("--slots") + 1])


def stages():
    """What the sources say of each stage: {binary: {job_type, memory_bytes}}."""
    found = {}
    default = re.search(r"default_memory_bytes = (\d+)LL << (\d+)",
                        (ROOT / "common/worker/child.c").read_text())
    for folder in sorted([*(ROOT / "workers").iterdir(), *(ROOT / "platform").iterdir()]):
        text = "".join(path.read_text() for path in sorted(folder.glob("*.c")))
        name = re.search(r'\.name = "([^"]+)",\s*\.job_type = "([^"]+)"', text)
        if name:
            memory = re.search(r"(?:MEMORY_BYTES \(INT64_C\(|\.memory_bytes = )(\d+)(?:\)|LL) << (\d+)", text) or default
            found[name[1]] = {"job_type": name[2], "memory_bytes": int(memory[1]) << int(memory[2])}
    return found


def programs():
    """The binaries of workers/, platform/ and gateway/ that are installed."""
    return {name for path in [*(ROOT / "workers").glob("*/meson.build"), *(ROOT / "platform").glob("*/meson.build"),
                              ROOT / "gateway/meson.build"]
            for name, rest in re.findall(r"^programs \+= executable\('([^']+)'(.*?install: true)?", path.read_text(),
                                         re.DOTALL | re.MULTILINE) if rest}


# ---- schemas ---------------------------------------------------------------------------------------


def schema_problems(documents):
    """Unknown fields, wrong types, missing fields; as the schemas of Kubernetes, KEDA and the Prometheus
    operator have them (fixtures/k8s)."""
    schemas = json.loads((ROOT / "fixtures/k8s/schemas.json").read_text())
    problems = []
    for document in documents:
        kind = f"{document['apiVersion']}/{document['kind']}"
        if kind not in schemas["kinds"]:
            problems.append(f"{name_of(document)}: no schema of {kind}")
            continue
        schema = {**schemas["kinds"][kind], "definitions": schemas["definitions"]}
        for error in jsonschema.Draft7Validator(schema).iter_errors(document):
            where = "/".join(map(str, error.absolute_path))
            problems.append(f"{name_of(document)}: {where}: {error.message[:200]}")
    return problems


# ---- rules of our own --------------------------------------------------------------------------------


class Lint:
    def __init__(self, documents, outside=()):
        self.documents = documents
        self.problems = []
        self.names = {kind: {d["metadata"]["name"] for d in of_kind(documents, kind)}
                      for kind in ("ConfigMap", "Secret", "ServiceAccount", "PriorityClass")}
        self.names["Secret"] |= set(outside)
        self.keys = {(d["kind"], d["metadata"]["name"]): {**d.get("data", {}), **d.get("stringData", {})}
                     for d in of_kind(documents, "ConfigMap", "Secret")}
        self.makers = [d for d in documents if template_of(d)]
        self.deployments = {d["metadata"]["name"]: d for d in of_kind(documents, "Deployment")}
        self.stages = stages()

    def wrong(self, document, what):
        self.problems.append(f"{name_of(document)}: {what}")

    def need(self, document, true, what):
        if not true:
            self.wrong(document, what)

    def run(self):
        for document in self.makers:
            self.pod(document)
            for container in template_of(document)["spec"]["containers"]:
                self.container(document, container)
        for document in self.deployments.values():
            self.deployment(document)
        for document in of_kind(self.documents, "ScaledObject"):
            self.scaled_object(document)
        for document in of_kind(self.documents, "TriggerAuthentication"):
            for ref in document["spec"].get("secretTargetRef", []):
                self.reference(document, "Secret", ref["name"], ref["key"])
        for document in of_kind(self.documents, "CronJob"):
            self.cron_job(document)
        for document in of_kind(self.documents, "Ingress"):
            self.ingress(document)
        self.selectors()
        self.migration()
        self.network()
        self.priorities()
        self.namespace()
        return self.problems

    def reference(self, document, kind, name, key=None):
        if name not in self.names[kind]:
            self.wrong(document, f"no {kind} {name}")
        elif key is not None and (kind, name) in self.keys and key not in self.keys[kind, name]:
            self.wrong(document, f"{kind} {name} has no {key}")

    def pod(self, document):
        template = template_of(document)
        spec = template["spec"]
        context = spec.get("securityContext", {})
        if document["kind"] in ("Deployment", "StatefulSet"):
            self.need(document, selects(document["spec"]["selector"], template["metadata"]["labels"]),
                      "its selector does not match its pods")
        self.reference(document, "ServiceAccount", spec.get("serviceAccountName"))
        self.reference(document, "PriorityClass", spec.get("priorityClassName"))
        self.need(document, spec.get("automountServiceAccountToken") is False, "mounts an API token")
        self.need(document, spec.get("enableServiceLinks") is False, "service links are on")
        self.need(document, context.get("runAsNonRoot") is True and context.get("runAsUser", 0) > 0, "may be root")
        self.need(document, context.get("seccompProfile", {}).get("type") == "RuntimeDefault", "no seccomp profile")
        self.need(document, not any(spec.get(key) for key in ("hostNetwork", "hostPID", "hostIPC")), "host's namespace")
        disk = memory = 0
        for volume in spec.get("volumes", []):
            if "emptyDir" in volume:
                size = quantity(volume["emptyDir"].get("sizeLimit", "none"))
                self.need(document, size > 0, f"volume {volume['name']} has no sizeLimit")
                if volume["emptyDir"].get("medium") == "Memory":
                    memory += size
                else:
                    disk += size
            elif "configMap" in volume:
                self.reference(document, "ConfigMap", volume["configMap"]["name"])
            elif "secret" in volume:
                self.reference(document, "Secret", volume["secret"]["secretName"])
            else:
                self.wrong(document, f"volume {volume['name']} is of no kind that is expected")
        limits = spec["containers"][0].get("resources", {}).get("limits", {})
        self.need(document, disk <= quantity(limits.get("ephemeral-storage", 0)), "volumes are larger than ephemeral-storage")
        self.need(document, memory < quantity(limits.get("memory", 0)), "volumes in memory are larger than memory")

    def container(self, document, container):
        context, resources = container.get("securityContext", {}), container.get("resources", {})
        self.need(document, context.get("allowPrivilegeEscalation") is False
                  and context.get("readOnlyRootFilesystem") is True and not context.get("privileged")
                  and context.get("capabilities", {}).get("drop") == ["ALL"]
                  and not context["capabilities"].get("add"), "is not shut in")
        self.need(document, re.search(r"[^/]:(?!latest$)[^/:]+$|@sha256:", container["image"]), "image without a fixed tag")
        for kind in ("cpu", "memory", "ephemeral-storage"):
            request, limit = (resources.get(side, {}).get(kind, "none") for side in ("requests", "limits"))
            self.need(document, quantity(request) <= quantity(limit), f"{kind}: request {request}, limit {limit}")
        volumes = {v["name"] for v in template_of(document)["spec"].get("volumes", [])}
        volumes |= {v["metadata"]["name"] for v in document["spec"].get("volumeClaimTemplates", [])}
        for mount in container.get("volumeMounts", []):
            self.need(document, mount["name"] in volumes, f"mounts {mount['name']}, which is no volume")
        for variable in container.get("env", []):
            for kind, ref in (("Secret", "secretKeyRef"), ("ConfigMap", "configMapKeyRef")):
                source = variable.get("valueFrom", {}).get(ref)
                if source:
                    self.reference(document, kind, source["name"], source["key"])
            self.need(document, "value" not in variable or variable["name"].endswith("_FILE")
                      or not re.search(r"://[^/]*:[^/]*@|SECRET|PASSWORD", variable["name"] + variable["value"]),
                      f"{variable['name']} is a secret in plain text")
        for source in container.get("envFrom", []):
            for kind, ref in (("Secret", "secretRef"), ("ConfigMap", "configMapRef")):
                if ref in source and not source[ref].get("optional"):
                    self.reference(document, kind, source[ref]["name"])
        ports = {port["name"] for port in container.get("ports", [])}
        ports |= {port["containerPort"] for port in container.get("ports", [])}
        for probe in ("startupProbe", "livenessProbe", "readinessProbe"):
            if document["kind"] in ("Deployment", "StatefulSet"):
                self.need(document, probe in container, f"no {probe}")
            port = container.get(probe, {}).get("httpGet", {}).get("port")
            self.need(document, port is None or port in ports, f"{probe} asks port {port}")

    def deployment(self, document):
        spec, name = template_of(document)["spec"], document["metadata"]["name"]
        container = spec["containers"][0]
        environment = environment_of(document, self.documents)
        listen = environment.get("CORTANA_LISTEN", "").rpartition(":")[2]
        self.need(document, [str(p["containerPort"]) for p in container.get("ports", []) if p["name"] == "metrics"] == [listen],
                  f"CORTANA_LISTEN is port {listen}, and the port metrics another")
        self.need(document, len(spec.get("topologySpreadConstraints", [])) == 2, "is not spread over zones and hosts")
        budgets = [d for d in of_kind(self.documents, "PodDisruptionBudget")
                   if selects(d["spec"]["selector"], labels_of(document))]
        self.need(document, len(budgets) == 1, f"{len(budgets)} disruption budgets")
        if labels_of(document).get("app.kubernetes.io/component") == "stage":
            self.stage(document, container, environment, spec)
            self.need(document, any(d["spec"]["scaleTargetRef"]["name"] == name
                                    for d in of_kind(self.documents, "ScaledObject")), "nothing scales it")
        else:
            scalers = [d["spec"] for d in of_kind(self.documents, "HorizontalPodAutoscaler")
                       if d["spec"]["scaleTargetRef"] == {"apiVersion": "apps/v1", "kind": "Deployment", "name": name}]
            replicas = [its.get("minReplicas", 1) for its in scalers]
            if "replicas" in document["spec"]:
                replicas.append(document["spec"]["replicas"])
            self.need(document, len(replicas) == 1 and replicas[0] >= 2, "is not there twice, or two say how often")

    def stage(self, document, container, environment, spec):
        stage = self.stages.get(container["command"][0])
        if not stage:
            self.wrong(document, f"{container['command'][0]} is no stage")
            return
        grace = grace_of(document, self.documents)
        low, high = GOODBYE_SECONDS
        self.need(document, grace + low <= spec.get("terminationGracePeriodSeconds", 30) <= grace + high,
                  f"the worker's grace is {grace:.0f} s, the pod's {spec.get('terminationGracePeriodSeconds')} s")
        limit = quantity(container["resources"]["limits"].get("memory", "none"))
        self.need(document, limit >= stage["memory_bytes"] + SUPERVISOR_BYTES,
                  f"the stage may use {stage['memory_bytes'] >> 20} MiB, the pod {limit / 2**20:.0f}")
        self.need(document, environment.get("OMP_THREAD_LIMIT") == "1", "OMP_THREAD_LIMIT is not 1")
        threads = [e for e in container["env"] if e["name"] == "CPU_LIMIT"
                   and e.get("valueFrom", {}).get("resourceFieldRef", {}).get("resource") == "limits.cpu"]
        arguments = container.get("args", [])
        self.need(document, threads and "--threads $(CPU_LIMIT)" in " ".join(arguments), "threads are not those of its CPUs")
        self.need(document, environment.get("CORTANA_SCRATCH") in [m["mountPath"] for m in container["volumeMounts"]],
                  "CORTANA_SCRATCH is no volume")
        volumes = {v["name"]: quantity(v.get("emptyDir", {}).get("sizeLimit", "none")) for v in spec["volumes"]}
        room = max((volumes[m["name"]] for m in container["volumeMounts"]
                    if m["mountPath"] == environment.get("CORTANA_SCRATCH")), default=0)
        self.need(document, 0 < int(environment.get("CORTANA_SCRATCH_BYTES", "0")) <= SCRATCH_SHARE * room,
                  f"a job may write more than {SCRATCH_SHARE:.0%} of the volume of {room / 2**30:.2f} GiB")

    def scaled_object(self, document):
        spec = document["spec"]
        target = self.deployments.get(spec["scaleTargetRef"]["name"])
        if not target:
            self.wrong(document, f"no Deployment {spec['scaleTargetRef']['name']}")
            return
        self.need(target, "replicas" not in target["spec"], "replicas beside a ScaledObject")
        job_type = self.stages.get(template_of(target)["spec"]["containers"][0]["command"][0], {}).get("job_type")
        self.need(document, spec.get("minReplicaCount", 0) < spec.get("maxReplicaCount", 100), "cannot grow")
        self.need(document, spec.get("minReplicaCount", 0) == (1 if job_type == "clip_generate" else 0),
                  "only clips are not scaled to nothing")
        for trigger in spec["triggers"]:
            metadata = trigger["metadata"]
            self.need(document, trigger["type"] == "postgresql" and set(metadata) <= TRIGGER_FIELDS,
                      f"fields that KEDA does not know: {set(metadata) - TRIGGER_FIELDS}")
            self.need(document, f"job_type = '{job_type}'" in metadata["query"], f"does not ask for {job_type}")
            self.need(document, float(metadata.get("targetQueryValue", 0)) > 0, "targetQueryValue is not above 0")
            self.need(document, grace_of(target, self.documents) < LONG_GRACE_SECONDS
                      or float(metadata["targetQueryValue"]) <= slots_of(target),
                      f"wants a pod for {metadata['targetQueryValue']} jobs, and a pod works on {slots_of(target)}")
            self.need(document, trigger.get("authenticationRef", {}).get("name")
                      in {d["metadata"]["name"] for d in of_kind(self.documents, "TriggerAuthentication")}, "no authentication")

    def cron_job(self, document):
        spec = document["spec"]
        fields = spec["schedule"].split()
        self.need(document, len(fields) == 5 and all(CRON.fullmatch(field) for field in fields), f"schedule {spec['schedule']}")
        self.need(document, spec.get("concurrencyPolicy") == "Forbid", "may run twice at once")
        self.need(document, spec.get("timeZone"), "no time zone")
        for rule in spec["jobTemplate"]["spec"].get("podFailurePolicy", {}).get("rules", []):
            name = rule.get("onExitCodes", {}).get("containerName")
            self.need(document, name in (None, template_of(document)["spec"]["containers"][0]["name"]), f"no container {name}")

    def ingress(self, document):
        """Each of its ways leads by a Service to a port of a pod, and a policy lets it in."""
        for path in (path for rule in document["spec"]["rules"] for path in rule["http"]["paths"]):
            service, port = path["backend"]["service"]["name"], path["backend"]["service"]["port"]["name"]
            targets = [(d["spec"]["selector"], p["targetPort"]) for d in of_kind(self.documents, "Service") for p in d["spec"]["ports"]
                       if (d["metadata"]["name"], p["name"]) == (service, port)]
            ways = [(d, target) for selector, target in targets for d in self.makers if selects({"matchLabels": selector}, labels_of(d))
                    and target in {p["name"] for c in template_of(d)["spec"]["containers"] for p in c.get("ports", [])}]
            self.need(document, len(ways) == 1, f"{service}:{port} leads to {len(ways)} kinds of pods")
            for pod, target in ways:
                self.need(document, any(p.get("port") == target for d in of_kind(self.documents, "NetworkPolicy")
                                        if d["spec"]["podSelector"] and selects(d["spec"]["podSelector"], labels_of(pod))
                                        for rule in d["spec"].get("ingress", []) for p in rule.get("ports", [])),
                          f"no policy lets it in to {target}")

    def selectors(self):
        pods = [labels_of(document) for document in self.makers]
        for document in of_kind(self.documents, "PodDisruptionBudget", "PodMonitor"):
            self.need(document, any(selects(document["spec"]["selector"], labels) for labels in pods), "selects no pod")
            self.need(document, "minAvailable" not in document["spec"], "minAvailable holds up a drain")
        for document in of_kind(self.documents, "NetworkPolicy"):
            self.need(document, any(selects(document["spec"]["podSelector"], labels) for labels in pods), "selects no pod")

    def migration(self):
        jobs = of_kind(self.documents, "Job")
        own = {c["image"] for d in self.makers if d["kind"] != "StatefulSet" for c in template_of(d)["spec"]["containers"]}
        for job in jobs:
            # An image that has a digest alone has a Job named as whoever installs likes.
            (tag,) = re.fullmatch(r".*/[^:@]*(?::([\w.-]+))?(?:@sha256:\w+)?", template_of(job)["spec"]["containers"][0]["image"]).groups()
            self.need(job, re.fullmatch(f"migrate-{tag.replace('.', '-') if tag else '.+'}", job["metadata"]["name"]),
                      f"is not named by its image's tag, {tag}")
            self.need(job, len(own) == 1, f"more than one image: {sorted(own)}")
        for document in self.makers:
            owner = "cortana-database-owner" in json.dumps(template_of(document))
            self.need(document, owner == (document["kind"] == "Job"), "the owner's connection is the migration's alone")

    def network(self):
        policies = of_kind(self.documents, "NetworkPolicy")
        denying = [d for d in policies if not d["spec"]["podSelector"] and len(d["spec"]["policyTypes"]) == 2
                   and not d["spec"].get("ingress") and not d["spec"].get("egress")]
        if len(denying) != 1:
            self.problems.append("nothing denies what is not allowed")
        for document in self.makers:
            text, labels = json.dumps(template_of(document)), labels_of(document)
            for kind, word in (("database", '"DATABASE_URL"'), ("store", '"cortana-store')):
                self.need(document, (labels.get(f"cortana-vision/{kind}") == "true") == (word in text),
                          f"its way to the {kind} is open without need, or shut")

    def priorities(self):
        values = {d["metadata"]["name"]: d["value"] for d in of_kind(self.documents, "PriorityClass")}
        for document in self.deployments.values():
            name = template_of(document)["spec"].get("priorityClassName")
            if labels_of(document).get("app.kubernetes.io/component") == "stage" and name in values:
                others = [v for n, v in values.items() if n != name]
                first = document["metadata"]["name"] == "clip-generate"
                self.need(document, all(values[name] > v for v in others) == first, f"priority {name}")

    def namespace(self):
        for document in of_kind(self.documents, "Namespace"):
            self.need(document, document["metadata"].get("labels", {}).get("pod-security.kubernetes.io/enforce")
                      == "restricted", "pods are not restricted")


def lint(documents, overlay):
    return Lint(documents, OUTSIDE[overlay]).run()
