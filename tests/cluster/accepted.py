"""Both overlays before an API server, by dry runs: nothing is started."""

import copy
import json
import pathlib
import subprocess
import uuid

from kubernetes import POD_SECURITY_FROM, Refused, say
from manifests import of_kind, template_of


class Place:
    """A namespace of its own, with the labels of the manifests'."""

    def __init__(self, kubernetes, documents):
        self.kubernetes, self.name = kubernetes, f"cortana-check-{uuid.uuid4().hex[:8]}"
        (namespace,) = of_kind(documents, "Namespace")
        labels = namespace["metadata"]["labels"]
        assert labels["pod-security.kubernetes.io/enforce"] == "restricted"
        kubernetes.apply({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": self.name, "labels": labels}})

    def here(self, document):
        made = self.kubernetes.known(document)
        if made and "namespace" in made["metadata"]:
            made["metadata"]["namespace"] = self.name
        return made

    def pod_of(self, document):
        """A pod as its controller would make it: without what has to be there first."""
        made = self.here(document)
        template = template_of(made)
        spec = {key: value for key, value in template["spec"].items() if key not in ("serviceAccountName", "priorityClassName")}
        claims = made["spec"].get("volumeClaimTemplates", [])
        spec["volumes"] = spec.get("volumes", []) + [{"name": claim["metadata"]["name"], "emptyDir": {}} for claim in claims]
        return {"apiVersion": "v1", "kind": "Pod", "spec": spec,
                "metadata": {"name": document["metadata"]["name"], "namespace": self.name, "labels": template["metadata"]["labels"]}}

    def __enter__(self):
        # A pod needs the account that a controller makes.
        self.kubernetes.wait_for_account(self.name)
        return self

    def __exit__(self, *_):
        self.kubernetes.run("delete", "namespace", self.name, "--wait=false")


def accepts(kubernetes, documents):
    with Place(kubernetes, documents) as place:
        objects = [made for made in map(place.here, documents) if made]
        kubernetes.apply(*objects, dry_run=True)
        pods = [place.pod_of(document) for document in documents if template_of(document) and document["kind"] in kubernetes.kinds]
        kubernetes.apply(*pods, dry_run=True)
    say(f"  {len(objects)} objects and {len(pods)} pods accepted; unknown here: {', '.join(sorted(kubernetes.left_out)) or 'nothing'}")


def refuses(kubernetes, documents):
    """That it looks at all: a request above its limit, and, where Pod Security is, a pod as root."""
    with Place(kubernetes, documents) as place:
        (ocr,) = [d for d in of_kind(documents, "Deployment") if d["metadata"]["name"] == "ocr"]
        greedy, root = place.pod_of(ocr), place.pod_of(ocr)
        greedy["spec"]["containers"][0]["resources"]["requests"]["memory"] = "1Ti"
        root["spec"]["securityContext"]["runAsNonRoot"] = False
        wrong = {"memory": greedy}
        if kubernetes.minor >= POD_SECURITY_FROM:
            wrong["PodSecurity"] = root
        else:
            say(f"  not checked: Pod Security, which came with 1.{POD_SECURITY_FROM}; KUBECONFIG may name a newer cluster")
        for word, pod in wrong.items():
            try:
                kubernetes.apply(pod, dry_run=True)
            except Refused as problem:
                assert word in str(problem), problem
            else:
                raise AssertionError(f"a pod with a wrong {word} is accepted")
    say(f"  refused: {', '.join(wrong)}")


def fits_newest(programs, overlays):
    """By the types of the newest Kubernetes whose libraries Debian has: no field and no version that it does not know."""
    folder = programs / "newest"
    subprocess.run([pathlib.Path(__file__).parent / "newest/build", folder], check=True)

    def decode(documents):
        return json.loads(subprocess.run([folder / "decode"], input=json.dumps({"items": documents}), text=True, check=True,
                                         stdout=subprocess.PIPE).stdout)

    for name, documents in overlays.items():
        found = decode(documents)
        assert found["known"] and not found["wrong"], found
        say(f"  {name}: {found['known']} objects have the types of {(folder / 'version').read_text().strip()}; "
            f"not Kubernetes' own: {', '.join(sorted(set(found['unknown'])))}")
    (wrong,) = [copy.deepcopy(d) for d in of_kind(overlays["prod"], "Deployment") if d["metadata"]["name"] == "ocr"]
    template_of(wrong)["spec"]["containers"][0]["memory"] = "1Gi"
    assert "unknown field" in decode([wrong])["wrong"][0]
