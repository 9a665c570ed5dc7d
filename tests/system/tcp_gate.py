"""A network between worker and database that loses things: a TCP port in front of a Unix socket, and
PgBouncer on a socket of its own."""

import contextlib
import selectors
import socket
import struct
import subprocess
import tempfile
import threading
import time

from workers import wait_until

CHUNK = 64 << 10


class Pair:
    """One connection: the client's end and the server's."""

    def __init__(self, client, server):
        self.ends = {client: server, server: client}
        self.client, self.server = client, server
        self.is_silent = False


class TcpGate:
    """Forwards 127.0.0.1:port to a Unix socket.

    reset()    every open connection is reset, both sides are told
    silence()  half-open: nothing passes on the open connections any more; the client is not told,
               and the server only `server_learns` seconds later
    freeze()   nothing passes on any connection for so many seconds, then everything does
    """

    def __init__(self, target):
        self.target = str(target)
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.port = self.listener.getsockname()[1]
        self.selector = selectors.DefaultSelector()
        self.selector.register(self.listener, selectors.EVENT_READ)
        self.pairs = {}
        self.lock = threading.Lock()
        self.frozen_until = 0
        self.doomed = []  # (when, socket): servers that learn later
        self.is_over = False
        self.thread = threading.Thread(target=self.run, daemon=True)
        self.thread.start()

    def url(self, database):
        return f"postgresql://postgres@127.0.0.1:{self.port}/{database}?sslmode=disable"

    def run(self):
        while not self.is_over:
            ready = self.selector.select(0.05)
            with self.lock:
                now = time.monotonic()
                for end in [end for when, end in self.doomed if when <= now]:
                    self.drop(end)
                self.doomed = [entry for entry in self.doomed if entry[0] > now]
                if now < self.frozen_until:
                    ready = []
                for key, _ in ready:
                    if key.fileobj is self.listener:
                        self.accept()
                    else:
                        self.forward(key.fileobj)
            if now < self.frozen_until:
                time.sleep(0.01)  # what is readable stays readable

    def accept(self):
        client, _ = self.listener.accept()
        server = socket.socket(socket.AF_UNIX)
        try:
            server.connect(self.target)
        except OSError:  # as if the server's port were closed
            server.close()
            self.shut(client, reset=True)
            return
        pair = Pair(client, server)
        for end in pair.ends:
            self.pairs[end] = pair
            self.selector.register(end, selectors.EVENT_READ)

    def forward(self, end):
        pair = self.pairs.get(end)
        if pair is None:
            return
        try:
            data = end.recv(CHUNK)
        except OSError:
            data = b""
        if not data:
            self.drop(end)
            if not pair.is_silent:
                self.drop(pair.ends[end])
        elif not pair.is_silent:
            try:
                pair.ends[end].sendall(data)
            except OSError:
                self.drop(end)
                self.drop(pair.ends[end])

    def shut(self, end, reset):
        if reset and end.family == socket.AF_INET:
            end.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        end.close()

    def drop(self, end, reset=False):
        if self.pairs.pop(end, None):
            self.selector.unregister(end)
            self.shut(end, reset)

    def open_pairs(self):
        return [pair for pair in set(self.pairs.values()) if not pair.is_silent]

    def reset(self):
        with self.lock:
            pairs = self.open_pairs()
            for pair in pairs:
                self.drop(pair.client, reset=True)
                self.drop(pair.server)
            return len(pairs)

    def silence(self, server_learns):
        with self.lock:
            pairs = self.open_pairs()
            for pair in pairs:
                pair.is_silent = True
                self.doomed.append((time.monotonic() + server_learns, pair.server))
            return len(pairs)

    def freeze(self, seconds):
        with self.lock:
            self.frozen_until = time.monotonic() + seconds
            return len(self.open_pairs())

    def close(self):
        self.is_over = True
        self.thread.join()
        for end in list(self.pairs):
            self.drop(end)
        self.listener.close()
        self.selector.close()


class PgBouncer:
    """Debian's PgBouncer in transaction mode before a cluster, on a Unix socket of its own."""

    PORT = 6432  # a part of the socket's name, no port

    def __init__(self, cluster):
        self.prefix = cluster.prefix
        self.directory = tempfile.mkdtemp(prefix="cv-pgb-", dir="/tmp")
        self.config = f"{self.directory}/pgbouncer.ini"
        with open(self.config, "w", encoding="utf-8") as file:
            file.write(f"""[databases]
* = host={cluster.directory} user=postgres
[pgbouncer]
listen_addr =
listen_port = {self.PORT}
unix_socket_dir = {self.directory}
auth_type = any
pool_mode = transaction
default_pool_size = 10
max_client_conn = 500
ignore_startup_parameters = extra_float_digits
logfile =
pidfile =
""")
        subprocess.run(["chmod", "-R", "a+rwX", self.directory], check=True)
        self.socket = f"{self.directory}/.s.PGSQL.{self.PORT}"
        self.process = None
        self.start()

    def start(self):
        self.process = subprocess.Popen([*self.prefix, "pgbouncer", "-q", self.config], cwd="/",
                                        stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                                        stderr=subprocess.DEVNULL)

        def is_listening():
            assert self.process.poll() is None, "pgbouncer does not start"
            with contextlib.suppress(OSError), socket.socket(socket.AF_UNIX) as probe:
                probe.connect(self.socket)
                return True

        wait_until(is_listening, "pgbouncer to listen")

    def kill(self):
        self.process.kill()
        self.process.wait(300)

    def restart(self):
        self.kill()
        self.start()

    def url(self, database):
        return f"postgresql://postgres@/{database}?host={self.directory}&port={self.PORT}"

    def close(self):
        self.kill()
        subprocess.run(["rm", "-rf", self.directory], check=True)
