"""The arithmetic of KEDA and the HorizontalPodAutoscaler over a day of load, for a ScaledObject of ours.

After the descriptions of the algorithm in the documentation of Kubernetes ("Horizontal Pod Autoscaling") and KEDA
("Scaling Deployments"): a metric of type AverageValue, no change within a tenth of the target, the highest
recommendation of the stabilization window, policies that bound a step, and scaling to zero after the cooldown. A
ReplicaSet that shrinks takes starting pods first, then any: which of them works it does not know."""

import math
import random
from dataclasses import dataclass, field

TICK = 15                # seconds; the autoscaler's, and pollingInterval of ours
STARTS_IN = 20           # seconds from a pod's creation to its first claim: scheduling, image there, first look
TOLERANCE = 0.1


@dataclass
class Pod:
    ready_at: float
    ends_at: float = 0   # of its job
    job: float = 0       # its length; 0: none
    killed_at: float = math.inf  # at the end of its grace


@dataclass
class Day:
    """What came of it."""
    jobs: int = 0
    busy_stopped: int = 0        # pods told to stop while they worked
    cut_off: int = 0             # of them, those whose grace ended first
    lost_seconds: float = 0      # of work thrown away
    worked_seconds: float = 0
    pod_seconds: float = 0
    fewer_than_busy: int = 0     # ticks at which fewer pods were wanted than worked
    most_pods: int = 0
    waits: list = field(default_factory=list)


def arrivals(random_numbers, a_day, length):
    """Jobs of a day: more at noon than at night, and three uploads of a folder. [(when, seconds of work)], by time."""
    jobs = []
    for hour in range(24):
        share = 1 + 0.9 * math.sin((hour - 6) / 24 * 2 * math.pi)
        count = round(a_day * 0.6 / 24 * share)
        jobs += [hour * 3600 + random_numbers.random() * 3600 for _ in range(count)]
    for hour in (3, 9.5, 17):
        jobs += [hour * 3600 + random_numbers.random() * 60 for _ in range(round(a_day * 0.4 / 3))]
    return [(when, length(random_numbers)) for when in sorted(jobs)]


def allowed(policies, now, changes, replicas, sign):
    """How many replicas the policies let a step lead to. changes: [(when, by how many)] in this direction."""
    limits = []
    for policy in policies:
        recent = sum(by for when, by in changes if when > now - policy["periodSeconds"])
        start = replicas - sign * recent
        by = math.ceil(start * policy["value"] / 100) if policy["type"] == "Percent" else policy["value"]
        limits.append(start + sign * by)
    return max(limits) if sign > 0 else min(limits)


def simulate(scaled_object, grace, jobs, seed=1, target=None):
    """One day, and as long as it takes until all is done. `target` in place of the object's."""
    spec = scaled_object["spec"]
    behavior = spec["advanced"]["horizontalPodAutoscalerConfig"]["behavior"]
    target = target or float(spec["triggers"][0]["metadata"]["targetQueryValue"])
    numbers = random.Random(seed)
    day = Day(jobs=len(jobs))
    coming, waiting, pods, leaving = list(reversed(jobs)), [], [], []
    recommendations, ups, downs, active_at, now = [], [], [], -math.inf, 0
    while coming or waiting or any(pod.job for pod in pods + leaving):
        now += TICK
        while coming and coming[-1][0] <= now:
            waiting.append(coming.pop())
        for pod in pods + leaving:
            if pod.job and pod.ends_at <= min(now, pod.killed_at):
                day.worked_seconds += pod.job
                pod.job = 0
            elif pod.job and pod.killed_at <= now:
                day.cut_off += 1
                day.lost_seconds += pod.job - (pod.ends_at - pod.killed_at)
                waiting.insert(0, (pod.killed_at, pod.job))
                pod.job = 0
        leaving = [pod for pod in leaving if pod.job]
        for pod in pods:
            if not pod.job and pod.ready_at <= now and waiting:
                came, pod.job = waiting.pop(0)
                pod.ends_at = now + pod.job
                day.waits.append(now - came)
        busy = sum(1 for pod in pods + leaving if pod.job)
        metric = len(waiting) + busy
        replicas = len(pods)
        day.pod_seconds += TICK * (replicas + len(leaving))
        day.most_pods = max(day.most_pods, replicas)
        if metric > 0:
            active_at = now
        wanted = replicas
        if replicas == 0:
            wanted = 1 if metric > 0 else 0
        elif now - active_at > spec["cooldownPeriod"] and spec["minReplicaCount"] == 0:
            wanted = 0
        else:
            asked = math.ceil(metric / target)
            if abs(1 - metric / (target * replicas)) <= TOLERANCE:
                asked = replicas
            asked = min(max(asked, spec["minReplicaCount"], 1), spec["maxReplicaCount"])
            if asked < min(busy, spec["maxReplicaCount"]):
                day.fewer_than_busy += 1
            window = behavior["scaleDown"]["stabilizationWindowSeconds"]
            recommendations = [(when, count) for when, count in recommendations if when > now - window] + [(now, asked)]
            if asked > replicas:
                wanted = min(asked, allowed(behavior["scaleUp"]["policies"], now, ups, replicas, 1))
            elif asked < replicas:
                highest = min(replicas, max(count for _, count in recommendations))
                wanted = max(highest, allowed(behavior["scaleDown"]["policies"], now, downs, replicas, -1))
        if wanted > replicas:
            ups.append((now, wanted - replicas))
            pods += [Pod(ready_at=now + STARTS_IN) for _ in range(wanted - replicas)]
        elif wanted < replicas:
            downs.append((now, replicas - wanted))
            numbers.shuffle(pods)
            pods.sort(key=lambda pod: pod.ready_at > now)  # starting ones last
            for _ in range(replicas - wanted):
                pod = pods.pop()
                if pod.job:
                    day.busy_stopped += 1
                    pod.killed_at = now + grace
                    leaving.append(pod)
    return day
