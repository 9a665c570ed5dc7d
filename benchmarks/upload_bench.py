#!/usr/bin/python3
"""Uploads by tus into a directory: one whose gateway is killed again and again, and the rate beside `curl -T` to nginx.

usage: upload_bench.py BUILD CONNINFO

CONNINFO names a migrated database on this machine in which the role api_bench is (api_bench.py makes it). Prints one JSON object a
line. CORTANA_BENCH_UPLOAD_MIB (256) says how much is uploaded, CORTANA_BENCH_UPLOAD_KILLS (5) how often its gateway is killed,
CORTANA_BENCH_RATE_MIB (256) how large the file of the comparison is. Twice the larger one has to fit into TMPDIR.
"""

import json
import os
import pathlib
import random
import re
import socket
import statistics
import subprocess
import sys
import tempfile
import time

import api_bench

MIB = 1 << 20
UPLOAD_MIB = int(os.environ.get("CORTANA_BENCH_UPLOAD_MIB", "256"))
KILLS = int(os.environ.get("CORTANA_BENCH_UPLOAD_KILLS", "5"))
RATE_MIB = int(os.environ.get("CORTANA_BENCH_RATE_MIB", "256"))
ROUNDS = 3
NOISE = random.Random(7).randbytes(MIB - 8)


def mebibyte(number):
    """Bytes that tell where they belong."""
    return number.to_bytes(8, "big") + NOISE


class Uploader:
    def __init__(self, build, conninfo, folder):
        self.build, self.conninfo, self.folder = build, conninfo, folder
        (folder / "store").mkdir()
        self.log_path = folder / "log"
        self.gateway, self.peak_mib = None, 0.0
        self.start()

    def start(self):
        self.log_path.write_text("")
        with self.log_path.open("w") as log:
            self.gateway = api_bench.Gateway(self.build, self.conninfo, log, self.folder / "store")
        while not (found := re.search(r"the API at port (\d+)", self.log_path.read_text())):
            time.sleep(0.005)
        self.gateway.port = int(found.group(1))
        while self.gateway.ask(self.gateway.connect(), "/api/v1/me") != 200:
            time.sleep(0.01)

    def note_peak(self):
        status = pathlib.Path(f"/proc/{self.gateway.process.pid}/status").read_text()
        if found := re.search(r"VmHWM:\s+(\d+)", status):
            self.peak_mib = max(self.peak_mib, int(found.group(1)) / 1024)

    def kill(self):
        self.note_peak()
        self.gateway.process.kill()
        self.gateway.process.wait(60)

    def begin(self, size):
        connection = self.gateway.connect()
        connection.request("POST", "/api/v1/uploads", json.dumps({"name": "long.mp4", "size": size}),
                           {**self.gateway.headers, "Content-Type": "application/json"})
        answer = connection.getresponse()
        assert answer.status == 201, answer.read()
        return json.loads(answer.read())

    def offset(self, upload):
        connection = self.gateway.connect()
        connection.request("HEAD", upload["location"], headers=self.gateway.headers)
        answer = connection.getresponse()
        answer.read()
        return int(answer.headers["Upload-Offset"])

    def send(self, upload, offset, size, until):
        """Sends from `offset` on, and kills the gateway when `until` bytes are sent; None: to the end. The bytes that were sent."""
        head = (f"PATCH {upload['location']} HTTP/1.1\r\nHost: a\r\nAuthorization: {self.gateway.headers['Authorization']}\r\n"
                f"Content-Type: application/offset+octet-stream\r\nTus-Resumable: 1.0.0\r\nUpload-Offset: {offset}\r\n"
                f"Content-Length: {size - offset}\r\n\r\n")
        at = offset
        with socket.create_connection(("127.0.0.1", self.gateway.port), timeout=300) as connection:
            connection.sendall(head.encode())
            while at < (size if until is None else min(until, size)):
                piece = mebibyte(at // MIB)[at % MIB:]
                connection.sendall(piece)
                at += len(piece)
            if until is None:
                self.note_peak()
                answer = connection.recv(4096)
                assert answer.startswith(b"HTTP/1.1 204"), answer
            else:
                self.kill()
        return at - offset


def upload_beside_kills(uploader):
    size = UPLOAD_MIB * MIB
    upload = uploader.begin(size)
    cuts = sorted(random.Random(8).sample(range(1, UPLOAD_MIB), KILLS))
    sent, began = 0, time.monotonic()
    most_again, before = 0, 0
    for cut in [*cuts, None]:
        offset = uploader.offset(upload)
        most_again = max(most_again, before - offset)
        count = uploader.send(upload, offset, size, None if cut is None else max(cut * MIB, offset + 1))
        sent, before = sent + count, offset + count
        if cut is not None:
            uploader.start()
    taken = time.monotonic() - began
    path = uploader.folder / "store" / "videos" / "original" / upload["video_id"] / "master.mp4"
    with path.open("rb") as file:
        assert all(file.read(MIB) == mebibyte(number) for number in range(UPLOAD_MIB)) and file.read(1) == b"", "other bytes"
    path.unlink()
    what = f"{UPLOAD_MIB} MiB by tus, {KILLS} gateways killed"
    api_bench.report(f"{what}: time", "s", taken)
    api_bench.report(f"{what}: sent again at most", "MiB", most_again / MIB, 64, "allowed", 1)
    api_bench.report(f"{what}: sent in all", "of its size", sent / size)
    api_bench.report(f"{what}: a gateway's peak of memory", "MiB", uploader.peak_mib, 65, "allowed", 1)


def compare_rates(uploader, folder):
    source = folder / "source"
    with source.open("wb") as file:
        for number in range(RATE_MIB):
            file.write(mebibyte(number))
    port, nginx = api_bench.start_nginx(uploader.build, folder, folder / "dav", "dav_methods PUT; client_max_body_size 0;")
    ours, peers = [], []
    try:
        for _ in range(ROUNDS):
            upload = uploader.begin(RATE_MIB * MIB)
            began = time.monotonic()
            subprocess.run(["curl", "-fsS", "-o", "/dev/null", "-X", "PATCH", "-H", f"Authorization: {uploader.gateway.headers['Authorization']}",
                            "-H", "Upload-Offset: 0", "-H", "Content-Type: application/offset+octet-stream", "-H", "Expect:", "-T", source,
                            f"http://127.0.0.1:{uploader.gateway.port}{upload['location']}"], check=True)
            ours.append(time.monotonic() - began)
            (folder / "store" / "videos" / "original" / upload["video_id"] / "master.mp4").unlink()
            began = time.monotonic()
            subprocess.run(["curl", "-fsS", "-o", "/dev/null", "-H", "Expect:", "-T", source, f"http://127.0.0.1:{port}/file"], check=True)
            with (folder / "dav" / "file").open("rb") as file:
                os.fsync(file.fileno())  # as the gateway has done before it answered
            peers.append(time.monotonic() - began)
            (folder / "dav" / "file").unlink()
    finally:
        nginx.terminate()
        nginx.wait(20)
    api_bench.report(f"an upload of {RATE_MIB} MiB by tus", "s", statistics.median(ours), statistics.median(peers), "curl -T to nginx", 1.11)


def main(build, conninfo):
    with tempfile.TemporaryDirectory() as folder:
        folder = pathlib.Path(folder)
        uploader = Uploader(pathlib.Path(build), conninfo, folder)
        try:
            upload_beside_kills(uploader)
            compare_rates(uploader, folder)
        finally:
            uploader.gateway.process.terminate()
            uploader.gateway.process.wait(60)


main(*sys.argv[1:])
