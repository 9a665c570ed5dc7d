#!/usr/bin/python3
"""The S3 store against s3cmd and curl on one server, and the pipeline on S3 against a directory:
s3_bench.py BUILD FIXTURES [throughput|cut|stages|pipeline…]

All sides of a comparison run in turn, round by round, and the ratio is the median of the rounds': the
machine may be busy with other things. awscli is no peer: it takes six times as long as curl for small
objects and three times for large ones, in its start and in Python."""
import json
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile
import time
import uuid

ROOT = pathlib.Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "tests" / "system"))

import psycopg2  # noqa: E402
from fault_proxy import FaultProxy  # noqa: E402
from pipeline import Pipeline  # noqa: E402
from private_cluster import PrivateCluster  # noqa: E402
from s3_server import ACCESS_KEY, SECRET_KEY, S3Server  # noqa: E402

BUILD, FIXTURES = pathlib.Path(sys.argv[1]).resolve(), pathlib.Path(sys.argv[2]).resolve()
ROUNDS = int(os.environ.get("CORTANA_BENCH_ROUNDS", "5"))
CONNECTIONS = 12  # as many as the store has at once
LARGE_BYTES = 256 << 20
SMALL_COUNT, SMALL_BYTES = 5000, 20 << 10
MEMORY_GOAL_MIB = 64
CUT_GOAL_MIB = 14
MIB = 1 << 20


def print_figure(name, unit, ours, peer=None, peer_name="", goal=None, ratio=None):
    ratio = ratio if ratio is not None else ours / peer if peer else None
    print(json.dumps({"suite": "s3", "name": name, "unit": unit, "ours": round(ours, 3),
                      "peer": peer and round(peer, 3), "peer_name": peer_name,
                      "ratio": ratio and round(ratio, 3), "goal": goal, "better": "lower"}), flush=True)


def print_pairs(name, ours, peer, peer_name, goal):
    """Seconds of the same rounds: medians, and the median of the rounds' ratios."""
    print_figure(name, "seconds", statistics.median(ours), statistics.median(peer), peer_name, goal,
                 statistics.median(a / b for a, b in zip(ours, peer)))


class Bench:
    def __init__(self, server, folder):
        self.server, self.folder = server, folder
        self.environment = {**os.environ, **server.environment("bench")}
        self.signed = ["curl", "-sS", "-f", "--aws-sigv4", "aws:amz:us-east-1:s3", "--user",
                       f"{ACCESS_KEY}:{SECRET_KEY}", "-H", "x-amz-content-sha256: UNSIGNED-PAYLOAD"]
        self.url = f"{server.endpoint}/bench"
        config = folder / "s3cmd"
        address = server.endpoint.removeprefix("http://")
        config.write_text(f"[default]\naccess_key = {ACCESS_KEY}\nsecret_key = {SECRET_KEY}\n"
                          f"host_base = {address}\nhost_bucket = {address}\nuse_https = False\n"
                          "signature_v2 = False\n")
        self.s3cmd = ["s3cmd", "-q", "-c", config]
        self.peak_kib = 0

    def seconds(self, *command):
        start = time.monotonic()
        subprocess.run([str(word) for word in command], check=True, env=self.environment,
                       stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        return time.monotonic() - start

    def ours(self, *arguments):
        start = time.monotonic()
        done = subprocess.run([BUILD / "benchmarks" / "store-bench", *map(str, arguments)],
                              check=True, env=self.environment, stdout=subprocess.DEVNULL,
                              stderr=subprocess.PIPE, text=True)
        self.peak_kib = max(self.peak_kib, int(done.stderr.split()[-1]))
        return time.monotonic() - start

    def curl_list(self, names, upload):
        """Transfers for curl --parallel: one section each."""
        path = self.folder / "transfers"
        auth = (f'aws-sigv4 = "aws:amz:us-east-1:s3"\nuser = "{ACCESS_KEY}:{SECRET_KEY}"\n'
                'header = "x-amz-content-sha256: UNSIGNED-PAYLOAD"\n')
        with open(path, "w") as out:
            for number, name in enumerate(names):
                target = f"upload-file = {self.folder}/small/{name}" if upload else "output = /dev/null"
                out.write(f'url = "{self.url}/curl/{name}"\n{target}\n{auth}'
                          + ("next\n" if number + 1 < len(names) else ""))
        return ["curl", "-sS", "-f", "--parallel", "--parallel-max", str(CONNECTIONS), "-K", path]

    def throughput(self):
        large, small = self.folder / "large", self.folder / "small"
        large.write_bytes(os.urandom(LARGE_BYTES))
        small.mkdir()
        names = [f"{i:05d}" for i in range(SMALL_COUNT)]
        keys = self.folder / "keys"
        keys.write_text("".join(f"small/{name}\n" for name in names))
        for name in names:
            (small / name).write_bytes(os.urandom(SMALL_BYTES))
        out = self.folder / "out"
        large_runs = {
            "put 256 MiB": [
                ("", lambda: self.ours("put", "s3://bench", large)),
                ("curl", lambda: self.seconds(*self.signed, "-T", large, f"{self.url}/curl-large")),
                ("s3cmd", lambda: self.seconds(*self.s3cmd, "put", large, "s3://bench/s3cmd-large"))],
            # Over http the store signs the bytes, so that the server checks them; curl above does not.
            "put 256 MiB, the bytes signed": [
                ("", lambda: self.ours("put", "s3://bench", large)),
                ("openssl dgst, curl", lambda: self.seconds(
                    "sh", "-c", 'hash=$(openssl dgst -sha256 -r "$0" | cut -c1-64); exec "$@" '
                    '-H "x-amz-content-sha256: $hash"', large, *self.signed[:-2], "-T", large,
                    f"{self.url}/curl-large"))],
            "get 256 MiB and hash it": [
                ("", lambda: self.ours("get", "s3://bench", "large")),
                ("curl, openssl dgst", lambda: self.seconds(
                    "sh", "-c", '"$@" | openssl dgst -sha256', "-", *self.signed, f"{self.url}/curl-large")),
                ("s3cmd", lambda: self.seconds(*self.s3cmd, "get", "--force",
                                               "s3://bench/s3cmd-large", out))],
        }
        small_runs = {
            "put 5,000 x 20 KiB": [
                ("", lambda: self.ours("put", "s3://bench", small)),
                ("curl --parallel", lambda: self.seconds(*self.curl_list(names, True)))],
            "get 5,000 x 20 KiB": [
                ("", lambda: self.ours("getall", "s3://bench", keys)),
                ("curl --parallel", lambda: self.seconds(*self.curl_list(names, False)))],
        }
        self.compare(large_runs)
        self.compare(small_runs)
        print_figure("peak memory of all these", "MiB", self.peak_kib / 1024, MEMORY_GOAL_MIB,
                     "allowed", 1.0)

    def compare(self, runs):
        """The best peer counts. What was overwritten is removed from the server's memory in between."""
        taken = {name: {side: [] for side, _ in sides} for name, sides in runs.items()}
        for number in range(ROUNDS):
            for name, sides in runs.items():
                for side, run in sides if number % 2 == 0 else sides[::-1]:
                    taken[name][side].append(run())
            self.server.collect_garbage()
        for name, sides in taken.items():
            best = min((side for side in sides if side), key=lambda side: statistics.median(sides[side]))
            print_pairs(name, sides[""], sides[best], best, 1.0)

    def cut(self):
        """Five seconds from the middle of a long recording: bytes and requests."""
        source = self.folder / "long.mp4"
        subprocess.run(["ffmpeg", "-v", "error", "-f", "lavfi", "-i",
                        "testsrc2=s=1280x720:r=30,noise=alls=40:allf=t", "-t", "120", "-c:v",
                        "libx264", "-preset", "ultrafast", "-g", "60", "-b:v", "16200k", "-minrate",
                        "16200k", "-maxrate", "16200k", "-bufsize", "16200k", "-pix_fmt", "yuv420p",
                        "-movflags", "+faststart", source], check=True)
        video = str(uuid.uuid4())
        key = f"videos/original/{video}/master.mp4"
        self.seconds(*self.s3cmd, "put", source, f"s3://bench/{key}")
        size = source.stat().st_size / MIB
        proxy = FaultProxy(self.server.port)
        down, count = self.stage(proxy, "clip-generate-worker", {
            "video_id": video, "clip_id": str(uuid.uuid4()), "t_start": 57000, "t_end": 62000,
            "padding_ms": 0, "s3_original_path": key}, key)
        print_figure(f"cut 5 s out of {size:.0f} MiB: read", "MiB", down, CUT_GOAL_MIB, "allowed", 1.0)
        print_figure(f"cut 5 s out of {size:.0f} MiB: requests", "requests", count)
        proxy.close()

    def stage(self, proxy, name, payload, key):
        """MiB and requests with which a stage reads its original."""
        proxy.reset_counts()
        environment = {**self.environment, "S3_ENDPOINT": proxy.endpoint}
        subprocess.run([next(BUILD.glob(f"workers/*/{name}")), "--once"], input=json.dumps(payload),
                       text=True, check=True, env=environment, stdout=subprocess.DEVNULL)
        return proxy.down / MIB, len(proxy.seen(f"GET .*{key}"))

    def stages(self):
        """Reading a whole original."""
        source = FIXTURES / "feed.mp4"
        video = str(uuid.uuid4())
        key = f"videos/original/{video}/master.mp4"
        self.seconds(*self.s3cmd, "put", source, f"s3://bench/{key}")
        payload = {"video_id": video, "s3_original_path": key}
        proxy = FaultProxy(self.server.port)
        for job, name in (("transcode", "transcode-worker"), ("sample", "sample-worker")):
            down, count = self.stage(proxy, name, payload, key)
            print_figure(f"{job}: read of the original", "MiB", down, source.stat().st_size / MIB,
                         "its size", None)
            print_figure(f"{job}: requests", "requests", count)
        proxy.close()

    def pipeline(self):
        """All stages as workers, on S3 and on a directory in turn; times are those of the jobs."""
        with PrivateCluster(BUILD) as cluster:
            sides = {"s3": self.open_pipeline(cluster, "s3", STORE_URL="s3://bench"),
                     "directory": self.open_pipeline(cluster, "directory")}
            taken = {side: [] for side in sides}
            try:
                for pipeline in sides.values():
                    pipeline.start()
                for number in range(ROUNDS):
                    for side in sides if number % 2 == 0 else reversed(sides):
                        taken[side].append(self.run_video(sides[side]))
            finally:
                for pipeline in sides.values():
                    pipeline.stop()
                    pipeline.sql.close()
        for step in taken["s3"][0]:
            print_pairs(f"{step} on S3", [round_[step] for round_ in taken["s3"]],
                        [round_[step] for round_ in taken["directory"]], "directory",
                        1.15 if step == "whole pipeline" else None)

    def open_pipeline(self, cluster, side, **environment):
        bench, conninfo, folder = self, cluster.migrated_database(side), self.folder / side
        (folder / "store").mkdir(parents=True)

        class Side(Pipeline):
            def put_original(self, path, key):
                if environment:
                    bench.seconds(*bench.s3cmd, "put", path, f"s3://bench/{key}")
                else:
                    super().put_original(path, key)

        sql = psycopg2.connect(conninfo)
        sql.autocommit = True
        return Side(lambda name: next(BUILD.glob(f"workers/*/{name}")), conninfo, sql, folder / "store",
                    folder, **{**(self.environment if environment else {}), **environment,
                               "DATABASE_URL": conninfo})

    @staticmethod
    def run_video(pipeline):
        """Seconds of each stage of one video, and of the whole."""
        video = pipeline.submit(FIXTURES / "feed.mp4")
        status = pipeline.wait(video)
        assert status == "ready", pipeline.failures()
        (job,), = pipeline.query("SELECT job_id FROM enqueue_job('clip_generate', %s, %s)", json.dumps({
            "video_id": video, "clip_id": str(uuid.uuid4()), "t_start": 2000, "t_end": 6000,
            "s3_original_path": f"videos/original/{video}/master.mp4"}), video)
        pipeline.wait_for_job(job)
        steps = dict(pipeline.query(
            "SELECT step, extract(epoch FROM finished_at - started_at)::float8 FROM jobs"
            " WHERE video_id = %s ORDER BY finished_at", video))
        return {**steps, "whole pipeline": sum(steps.values())}


def main():
    server = S3Server()
    with tempfile.TemporaryDirectory(prefix="cortana-s3-bench-") as folder:
        try:
            server.start()
            bench = Bench(server, pathlib.Path(folder))
            bench.seconds(*bench.s3cmd, "mb", "s3://bench")
            for part in sys.argv[3:] or ("throughput", "cut", "stages", "pipeline"):
                getattr(bench, part)()
        finally:
            server.stop()


if __name__ == "__main__":
    main()
