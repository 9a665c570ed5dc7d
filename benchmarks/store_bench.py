#!/usr/bin/python3
"""Throughput of the directory store against plain copies that are as durable: store_bench.py BUILD"""
import json
import pathlib
import shutil
import statistics
import subprocess
import sys
import tempfile
import time

BUILD = pathlib.Path(sys.argv[1]).resolve()
ROUNDS = 3
LARGE_BYTES = 256 << 20
SMALL_COUNT, SMALL_BYTES = 5000, 20 << 10


def seconds(*command):
    start = time.monotonic()
    subprocess.run([str(word) for word in command], check=True, stdout=subprocess.DEVNULL,
                   stderr=subprocess.DEVNULL)
    return time.monotonic() - start


def report(name, ours, peer, peer_name):
    ours, peer = statistics.median(ours), statistics.median(peer)
    print(json.dumps({"suite": "store", "name": name, "unit": "seconds", "ours": round(ours, 3),
                      "peer": round(peer, 3), "peer_name": peer_name, "ratio": round(ours / peer, 3),
                      "goal": 1.0, "better": "lower"}), flush=True)


def main():
    with tempfile.TemporaryDirectory(prefix="cortana-store-bench-") as name:
        folder = pathlib.Path(name)
        large, small = folder / "large", folder / "small"
        large.write_bytes(b"\xa5" * LARGE_BYTES)
        small.mkdir()
        for i in range(SMALL_COUNT):
            (small / f"{i:05d}").write_bytes(bytes([i % 251]) * SMALL_BYTES)

        figures = {key: [] for key in ("put large", "dd", "put small", "cp small", "get large", "cat")}
        for _ in range(ROUNDS):  # interleaved, so that a slow minute of the machine hits both sides
            store = folder / "store"
            figures["put large"].append(seconds(BUILD / "benchmarks" / "store-bench", "put", store, large))
            figures["dd"].append(seconds(
                "sh", "-c", f"sha256sum {large} && dd if={large} of={folder}/copy bs=1M conv=fsync"))
            figures["get large"].append(seconds(BUILD / "benchmarks" / "store-bench", "get", store, "large"))
            figures["cat"].append(seconds("sha256sum", folder / "copy"))
            figures["put small"].append(seconds(BUILD / "benchmarks" / "store-bench", "put", store, small))
            figures["cp small"].append(seconds(
                "sh", "-c", f"for f in {small}/*; do dd if=$f of={folder}/one bs=20k conv=fsync && "
                            f"mv {folder}/one {folder}/done; done"))
            shutil.rmtree(store)
        report("put 256 MiB with its SHA-256", figures["put large"], figures["dd"], "sha256sum + dd conv=fsync")
        report("read 256 MiB and hash it", figures["get large"], figures["cat"], "sha256sum")
        report("put 5,000 x 20 KiB", figures["put small"], figures["cp small"], "dd conv=fsync + mv")


if __name__ == "__main__":
    main()
