"""What a process says of itself over HTTP, as kubelets and Prometheus ask it."""

import os
import pathlib
import re
import urllib.error
import urllib.request

from prometheus_client.parser import text_string_to_metric_families
from workers import wait_until


def port_of(worker):
    """The port that a worker started with --listen …:0 has taken."""
    line = wait_until(lambda: worker.says("probes and metrics at port"), "its listener")[0]
    return int(re.search(r"port (\d+)", line["message"]).group(1))


def cpu_seconds(pid):
    user, system = pathlib.Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[11:13]
    return (int(user) + int(system)) / os.sysconf("SC_CLK_TCK")


def get(port, page, host="127.0.0.1"):
    """(status, text)"""
    try:
        with urllib.request.urlopen(f"http://{host}:{port}{page}", timeout=300) as answer:
            return answer.status, answer.read().decode()
    except urllib.error.HTTPError as answer:
        with answer:
            return answer.code, answer.read().decode()


def wait_ready(port):
    wait_until(lambda: get(port, "/readyz")[0] == 200, "the worker to be ready")


def wait_reason(port, words):
    def look():
        status, text = get(port, "/readyz")
        return text if status == 503 and words in text else None

    return wait_until(look, f"/readyz to say {words}")


class Numbers(dict):
    """{(name, frozenset of labels): value} of one scrape."""

    def get_one(self, name, **labels):
        return self[name, frozenset(labels.items())]

    def total(self, name, **labels):
        return sum(value for (known, its), value in self.items()
                   if known == name and its >= labels.items())

    def names(self):
        return {name for name, _ in self}


def read_numbers(text):
    """Parses the text format and holds it to its rules: a HELP and a TYPE a family, before its
    samples, once; no series twice; histograms that add up; our prefix."""
    assert text.endswith("\n")
    described = re.findall(r"^# (HELP|TYPE) (\S+) \S", text, re.MULTILINE)
    assert len(described) == len(set(described))
    assert {name for kind, name in described if kind == "HELP"} == \
           {name for kind, name in described if kind == "TYPE"}
    numbers = Numbers()
    for family in text_string_to_metric_families(text):
        assert family.name.startswith("cortana_"), family.name
        assert family.documentation and family.type in ("counter", "gauge", "histogram")
        for sample in family.samples:
            key = sample.name, frozenset(sample.labels.items())
            assert key not in numbers, key
            numbers[key] = sample.value
            if family.type == "counter":
                assert sample.name.endswith("_total") and sample.value >= 0, sample
    for (name, labels), count in numbers.items():
        if name.endswith("_count"):
            stem = name[:-len("_count")]
            buckets = sorted((float(dict(its)["le"]), value) for (known, its), value in numbers.items()
                             if known == f"{stem}_bucket" and its - {("le", dict(its)["le"])} == labels)
            assert [value for _, value in buckets] == sorted(value for _, value in buckets)
            assert buckets[-1] == (float("inf"), count)
    return numbers


def scrape(port):
    status, text = get(port, "/metrics")
    assert status == 200
    return read_numbers(text)
