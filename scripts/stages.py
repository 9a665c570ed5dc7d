#!/usr/bin/python3
"""Writes what is made from the file `stages`: the services of compose.yaml, install/quadlet, and the stages of k8s.

usage: scripts/stages.py                  writes them; scripts/check says when they are not what this writes
       scripts/stages.py kubernetes NAME  prints the objects of one stage, also of one that starts nowhere by itself (embed, mail)
       scripts/stages.py table FILE.c     writes the table of `cortana run`, for the build
"""

import pathlib
import re
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[1]
COLUMNS = ("folder", "starts", "login", "store", "waits", "grace", "cpu", "memory", "disk", "pods", "jobs", "why")
CHOICES = {"login": ("fleet", "upkeep"), "store": ("yes", "no"), "waits": ("nobody", "user")}
MADE = "Made by scripts/stages.py from the file stages."
# After its grace a worker stops its stages, gives jobs back and says goodbye.
GOODBYE_SECONDS = 30
UNITS = {"Mi": 2**20, "Gi": 2**30}


class Stage:
    """One line: its columns, and the names that follow from them."""

    def __init__(self, line):
        values = line.split(None, len(COLUMNS) - 1)
        if len(values) != len(COLUMNS):
            raise ValueError(f"stages: {line}: {len(values)} columns, not {len(COLUMNS)}")
        self.__dict__.update(zip(COLUMNS, values))
        for column, words in CHOICES.items():
            if getattr(self, column) not in words:
                raise ValueError(f"stages: {self.folder}: {column} is {getattr(self, column)}, not one of {', '.join(words)}")
        self.setting = self.starts if re.fullmatch(r"[A-Z_]+", self.starts) else None
        if not self.setting and self.starts not in ("always", "service"):
            raise ValueError(f"stages: {self.folder}: starts is {self.starts}, neither always nor service nor a setting")
        self.job_type = self.folder.rpartition("/")[2]
        self.name = self.job_type.replace("_", "-")
        self.program = f"{self.name}-worker"
        for column in ("cpu", "memory", "disk"):
            request, limit = getattr(self, column).split("-")
            setattr(self, f"{column}_request", request)
            setattr(self, f"{column}_limit", limit)

    def scratch_bytes(self):
        """Less than its volume holds, so that a job fails with a reason before the kubelet evicts the pod."""
        number, unit = re.fullmatch(r"(\d+)(Mi|Gi)", self.disk_limit).groups()
        return int(number) * UNITS[unit] * 7 // 8


def read(text=None):
    """The stages in the order of the list; `text`: of another one."""
    lines = (text or (ROOT / "stages").read_text()).splitlines()
    return [Stage(line) for line in lines if line and not line.startswith("#")]


def started(stages):
    return [stage for stage in stages if not stage.setting]


# ---- Kubernetes ------------------------------------------------------------------------------------

WORKLOAD = """---
# {why}
apiVersion: v1
kind: ServiceAccount
metadata: {{name: {name}{account_labels}}}
automountServiceAccountToken: false
---
apiVersion: apps/v1
kind: Deployment
metadata:
  name: {name}
  labels: {{app.kubernetes.io/name: {name}, app.kubernetes.io/component: stage}}
spec:
  selector: {{matchLabels: {{app.kubernetes.io/name: {name}}}}}
  template:
    metadata:
      labels:
        app.kubernetes.io/name: {name}
        app.kubernetes.io/component: stage
{store_label}    spec:
      serviceAccountName: {name}
      priorityClassName: {priority}
      terminationGracePeriodSeconds: {end}
      containers:
      - name: worker
        command: [{program}]
        envFrom:
        - configMapRef: {{name: cortana-config}}
{secret}        env:
        - {{name: DATABASE_URL, valueFrom: {{secretKeyRef: {{name: cortana-database, key: {key}}}}}}}
        - {{name: CORTANA_GRACE_MS, value: "{grace}000"}}
        - {{name: CORTANA_SCRATCH_BYTES, value: "{scratch}"}}
        resources:
          requests: {{cpu: "{cpu_request}", memory: {memory_request}, ephemeral-storage: {disk_request}}}
          limits: {{cpu: "{cpu_limit}", memory: {memory_limit}, ephemeral-storage: {disk_limit}}}
      volumes:
      - {{name: work, emptyDir: {{sizeLimit: {disk_limit}}}}}
---
apiVersion: policy/v1
kind: PodDisruptionBudget
metadata: {{name: {name}}}
spec:
  maxUnavailable: {unavailable}
  unhealthyPodEvictionPolicy: AlwaysAllow
  selector: {{matchLabels: {{app.kubernetes.io/name: {name}}}}}
"""

SCALED_OBJECT = """---
apiVersion: keda.sh/v1alpha1
kind: ScaledObject
metadata: {{name: {name}}}
spec:
  scaleTargetRef: {{name: {name}}}
  minReplicaCount: {least}
  maxReplicaCount: {pods}
  triggers:
  - type: postgresql
    name: jobs
    metricType: AverageValue
    useCachedMetrics: true
    authenticationRef: {{name: cortana-queue}}
    metadata:
      query: >-
        SELECT coalesce(sum(depth), 0)::float8 FROM queue_depth
        WHERE job_type = '{job_type}' AND status IN ('queued', 'running')
      targetQueryValue: "{jobs}"
      activationTargetQueryValue: "0"
"""

WORKLOADS_HEAD = f"""# {MADE}
# What a stage needs, how long it may take to end, and how much its job may write; what all have in common is in every-stage.yaml.
"""
SCALED_HEAD = f"""# {MADE}
# A pod for each job of a long stage that could be claimed now or is being worked on: a pod works on one job (--slots 1), so
# with a target of one never fewer pods are wanted than are at work. Stages whose jobs take seconds share a pod. What only
# waits (for a retry, for another job, behind a limit) needs no pod.
"""


def workload(stage):
    for_user = stage.waits == "user"
    with_store = stage.store == "yes"
    return WORKLOAD.format(
        **stage.__dict__, end=int(stage.grace) + GOODBYE_SECONDS, scratch=stage.scratch_bytes(),
        key="upkeep-url" if stage.login == "upkeep" else "worker-url", unavailable="1" if for_user else "25%",
        priority="cortana-interactive" if for_user else "cortana-background",
        account_labels=', labels: {cortana-vision/store: "true"}' if with_store else "",
        store_label='        cortana-vision/store: "true"\n' if with_store else "",
        secret="".join(f"        - secretRef: {{name: cortana-{name}, optional: true}}\n"
                       for name in (["store"] if with_store else []) + ([stage.name] if stage.setting else [])))


def scaled_object(stage):
    return SCALED_OBJECT.format(**stage.__dict__, least=1 if stage.waits == "user" else 0)


# ---- compose ---------------------------------------------------------------------------------------

BEGIN, END = f"  # {MADE}\n", "\n  # End of the stages.\n"
OTHER_VOLUMES = ("owner", "fleet", "upkeep", "gateway", "database", "objects")


def compose(text, stages):
    """compose.yaml with these stages in their marked place, and with their volumes."""
    before, begin, rest = text.partition(BEGIN)
    _, end, after = rest.partition(END)
    after, volumes, _ = after.partition("\nvolumes:\n")
    if not (begin and end and volumes):
        raise ValueError("compose.yaml: the place of the stages, or `volumes`, is not there")
    services = "".join(f"  {stage.name}:\n    <<: *worker\n    command: [{stage.program}]\n"
                       f"    volumes: [{stage.login}:/secrets:ro, {stage.name}:/work]\n" for stage in stages)
    names = "".join(f"  {name}:\n" for name in [*OTHER_VOLUMES, *(stage.name for stage in stages)])
    return before + begin + services + end + after + volumes + names


# ---- everything ------------------------------------------------------------------------------------


def read_file(path):
    return (ROOT / path).read_text()


def files(stages, read_file=read_file):
    """{path: text} of what is made and kept in the tree, without install/quadlet, which is made from compose.yaml."""
    stages = started(stages)
    return {
        "compose.yaml": compose(read_file("compose.yaml"), stages),
        "k8s/base/stages.yaml": WORKLOADS_HEAD + "".join(map(workload, stages)),
        "k8s/components/keda/scaled-objects.yaml": SCALED_HEAD + "".join(map(scaled_object, stages)),
    }


def table(stages):
    rows = "".join(f'    {{.job_type = "{stage.job_type}", .name = "{stage.program}", ' + (
        f'.starts = CLI_STARTS_SETTING, .setting = "{stage.setting}"' if stage.setting else f".starts = CLI_STARTS_{stage.starts.upper()}") + "},\n"
                   for stage in stages)
    return (f'/* {MADE} */\n#include "cli/local/workers.h"\n\nconst struct cli_worker_process cli_stages[] = {{\n{rows}}};\n'
            "const size_t cli_stage_count = CV_COUNT(cli_stages);\n"
            '_Static_assert(CV_COUNT(cli_stages) <= CLI_STAGES_MAX, "CLI_STAGES_MAX is too small");\n')


def main():
    stages, arguments = read(), sys.argv[1:]
    if not arguments:
        for path, text in files(stages).items():
            (ROOT / path).write_text(text)
        folder = ROOT / "install/quadlet"
        for path in folder.iterdir():
            path.unlink()
        subprocess.run([ROOT / "scripts/quadlet", folder], check=True)
    elif arguments[0] == "kubernetes" and len(arguments) == 2:
        found = [stage for stage in stages if stage.name == arguments[1]]
        if not found:
            sys.exit(f"{arguments[1]} is none of {', '.join(stage.name for stage in stages)}")
        print(workload(found[0]) + scaled_object(found[0]), end="")
    elif arguments[0] == "table" and len(arguments) == 2:
        pathlib.Path(arguments[1]).write_text(table(stages))
    else:
        sys.exit(__doc__)


if __name__ == "__main__":
    main()
