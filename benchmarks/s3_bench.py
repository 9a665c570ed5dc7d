#!/usr/bin/python3
"""The S3 store against s3cmd and curl on one server: s3_bench.py BUILD FIXTURES"""
import json
import os
import pathlib
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
import uuid

ROOT = pathlib.Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "tests" / "system"))

from fault_proxy import FaultProxy  # noqa: E402
from s3_server import ACCESS_KEY, SECRET_KEY, S3Server  # noqa: E402

BUILD, FIXTURES = pathlib.Path(sys.argv[1]).resolve(), pathlib.Path(sys.argv[2]).resolve()
ROUNDS = 3
LARGE_BYTES = 256 << 20
SMALL_COUNT, SMALL_BYTES = 5000, 20 << 10
MEMORY_GOAL_MIB = 64
CUT_GOAL_MIB = 14
MIB = 1 << 20


def print_figure(name, unit, ours, peer=None, peer_name="", goal=None):
    ratio = round(ours / peer, 3) if peer else None
    print(json.dumps({"suite": "s3", "name": name, "unit": unit, "ours": round(ours, 3),
                      "peer": peer and round(peer, 3), "peer_name": peer_name, "ratio": ratio,
                      "goal": goal, "better": "lower"}), flush=True)


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
        return ["curl", "-sS", "-f", "--parallel", "--parallel-max", "8", "-K", path]

    def throughput(self):
        large, small = self.folder / "large", self.folder / "small"
        large.write_bytes(os.urandom(LARGE_BYTES))
        small.mkdir()
        names = [f"{i:05d}" for i in range(SMALL_COUNT)]
        for name in names:
            (small / name).write_bytes(os.urandom(SMALL_BYTES))
        out = self.folder / "out"
        large_runs = {
            "put 256 MiB": [
                ("", lambda: self.ours("put", "s3://bench", large)),
                ("curl", lambda: self.seconds(*self.signed, "-T", large, f"{self.url}/curl-large")),
                ("s3cmd", lambda: self.seconds(*self.s3cmd, "put", large, "s3://bench/s3cmd-large"))],
            "get 256 MiB and hash it": [
                ("", lambda: self.ours("get", "s3://bench", "large")),
                ("curl, sha256sum", lambda: self.seconds(
                    "sh", "-c", '"$@" | sha256sum', "-", *self.signed, f"{self.url}/curl-large")),
                ("s3cmd", lambda: self.seconds(*self.s3cmd, "get", "--force",
                                               "s3://bench/s3cmd-large", out))],
        }
        small_runs = {
            "put 5,000 x 20 KiB": [
                ("", lambda: self.ours("put", "s3://bench", small)),
                ("curl --parallel", lambda: self.seconds(*self.curl_list(names, True)))],
            "get 5,000 x 20 KiB": [
                ("", lambda: self.ours("getall", "s3://bench", "small/")),
                ("curl --parallel", lambda: self.seconds(*self.curl_list(names, False)))],
        }
        self.compare(large_runs, ROUNDS)
        self.compare(small_runs, 1)
        print_figure("peak memory of all these", "MiB", self.peak_kib / 1024, MEMORY_GOAL_MIB,
                     "allowed", 1.0)

    @staticmethod
    def compare(runs, rounds):
        """Interleaved, so that a slow minute of the machine hits all sides; the best peer counts."""
        taken = {name: {side: [] for side, _ in sides} for name, sides in runs.items()}
        for _ in range(rounds):
            for name, sides in runs.items():
                for side, run in sides:
                    taken[name][side].append(run())
        for name, sides in taken.items():
            median = {side: statistics.median(times) for side, times in sides.items()}
            best = min((side for side in median if side), key=median.get)
            print_figure(name, "seconds", median[""], median[best], best, 1.0)

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
        """Reading a whole original, and the time against the directory store."""
        source = FIXTURES / "feed.mp4"
        video = str(uuid.uuid4())
        key = f"videos/original/{video}/master.mp4"
        local = self.folder / "objects" / key
        local.parent.mkdir(parents=True)
        shutil.copy(source, local)
        self.seconds(*self.s3cmd, "put", source, f"s3://bench/{key}")
        payload = {"video_id": video, "s3_original_path": key}
        proxy = FaultProxy(self.server.port)
        for job, name in (("transcode", "transcode-worker"), ("sample", "sample-worker")):
            down, count = self.stage(proxy, name, payload, key)
            print_figure(f"{job}: read of the original", "MiB", down, source.stat().st_size / MIB,
                         "its size", None)
            print_figure(f"{job}: requests", "requests", count)
            program = next(BUILD.glob(f"workers/*/{name}"))
            taken = {"s3": [], "directory": []}
            for _ in range(ROUNDS):
                for side, store in (("s3", "s3://bench"), ("directory", f"dir:{self.folder}/objects")):
                    start = time.monotonic()
                    subprocess.run([program, "--once"], input=json.dumps(payload), text=True,
                                   check=True, env={**self.environment, "STORE_URL": store},
                                   stdout=subprocess.DEVNULL)
                    taken[side].append(time.monotonic() - start)
            print_figure(f"{job} on S3", "seconds", statistics.median(taken["s3"]),
                         statistics.median(taken["directory"]), "directory", 1.15)
        proxy.close()


def main():
    server = S3Server()
    with tempfile.TemporaryDirectory(prefix="cortana-s3-bench-") as folder:
        try:
            server.start()
            bench = Bench(server, pathlib.Path(folder))
            bench.seconds(*bench.s3cmd, "mb", "s3://bench")
            for part in sys.argv[3:] or ("throughput", "cut", "stages"):
                getattr(bench, part)()
        finally:
            server.stop()


if __name__ == "__main__":
    main()
