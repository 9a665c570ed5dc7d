"""A proxy between an S3 client and its server that breaks what it is told to break.

It understands as much of HTTP/1.1 as it needs: requests and answers with a length or in chunks, on
kept connections. The Host header goes on as it came, so that signatures made for the proxy's address
are verified by the server. With a TLS context it is the end of the client's TLS."""

import contextlib
import re
import socket
import struct
import threading

CHUNK = 64 << 10


class Fault:
    """What happens to requests whose "METHOD /path?query" fits `pattern`, `times` times.

    status     an answer of this status instead of the server's, with `code` in its XML
    reset      the connection is reset after so many bytes of the answer's body
    swallow    the server does the work, and the connection is closed without an answer
    stall      nothing comes after so many bytes of the answer's body, until the client gives up
    corrupt    one byte of the answer's body is another
    corrupt_request     one byte of the request's body is another
    truncate   the answer's body is cut after so many bytes, its length made to fit
    """

    def __init__(self, pattern, times=1, skip=0, code="SlowDown", **kind):
        self.pattern, self.times, self.skip, self.code = re.compile(pattern), times, skip, code
        (self.kind, self.value), = kind.items()
        self.hits = 0


class Connection(contextlib.AbstractContextManager):
    """One end: reading heads and bodies."""

    def __init__(self, raw):
        self.raw, self.pending = raw, b""

    def __exit__(self, *unused):
        self.raw.close()

    def more(self):
        data = self.raw.recv(CHUNK)
        self.pending += data
        return bool(data)

    def head(self):
        while b"\r\n\r\n" not in self.pending:
            if not self.more():
                return None
        head, self.pending = self.pending.split(b"\r\n\r\n", 1)
        lines = head.decode("latin-1").split("\r\n")
        return lines[0], [line.split(":", 1) for line in lines[1:]]

    def exactly(self, length):
        while length > 0:
            if not self.pending and not self.more():
                return
            data, self.pending = self.pending[:length], self.pending[length:]
            length -= len(data)
            yield data

    def line(self):
        while b"\r\n" not in self.pending:
            if not self.more():
                return b""
        line, self.pending = self.pending.split(b"\r\n", 1)
        return line

    def chunks(self):
        while size := int(self.line() or b"0", 16):
            yield from self.exactly(size)
            self.line()
        self.line()

    def body(self, headers, is_head=False, status=200):
        found = {name.lower(): value.strip() for name, value in headers}
        if is_head or status in (204, 304):
            return iter(())
        if found.get("transfer-encoding") == "chunked":
            return self.chunks()
        return self.exactly(int(found.get("content-length", 0)))

    def send(self, first, headers, body=b""):
        lines = "\r\n".join([first, *(f"{name}:{value}" for name, value in headers)])
        self.raw.sendall(lines.encode("latin-1") + b"\r\n\r\n" + body)


def with_length(headers, length):
    kept = [pair for pair in headers
            if pair[0].lower() not in ("content-length", "transfer-encoding")]
    return [*kept, ("Content-Length", f" {length}")]


def flip(body):
    middle = len(body) // 2
    return body[:middle] + bytes([body[middle] ^ 1]) + body[middle + 1:]


class FaultProxy:
    """Listens on a port of its own; `requests` are the request lines seen, `heads` the same with their
    headers, `down` and `up` the bytes of bodies that went to the client and to the server; `resumed`
    says of each TLS connection whether it went on with an earlier session."""

    def __init__(self, server_port, tls=None):
        self.server_port, self.tls = server_port, tls
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.port = self.listener.getsockname()[1]
        self.endpoint = "%s://127.0.0.1:%d" % ("https" if tls else "http", self.port)
        self.lock = threading.Lock()
        self.faults, self.requests, self.heads, self.resumed = [], [], [], []
        self.connections = 0
        self.up = self.down = 0
        self.open = set()
        threading.Thread(target=self._accept, daemon=True).start()

    def add(self, *arguments, **kind):
        fault = Fault(*arguments, **kind)
        with self.lock:
            self.faults.append(fault)
        return fault

    def reset_counts(self):
        with self.lock:
            self.requests, self.heads, self.resumed = [], [], []
            self.connections = self.up = self.down = 0

    def seen(self, pattern):
        return [line for line in self.requests if re.search(pattern, line)]

    def close(self):
        self.listener.close()
        with self.lock:
            left = list(self.open)
        for raw in left:
            with contextlib.suppress(OSError):
                raw.shutdown(socket.SHUT_RDWR)

    def _accept(self):
        with contextlib.suppress(OSError):
            while True:
                raw, _ = self.listener.accept()
                raw.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                with self.lock:
                    self.connections += 1
                threading.Thread(target=self._serve, args=(raw,), daemon=True).start()

    def _find(self, line):
        with self.lock:
            self.requests.append(line)
            for fault in self.faults:
                if fault.pattern.search(line):
                    if fault.skip > 0:
                        fault.skip -= 1
                    elif fault.hits < fault.times:
                        fault.hits += 1
                        return fault
        return None

    def _serve(self, raw):
        with self.lock:
            self.open.add(raw)
        with contextlib.suppress(OSError, ValueError), Connection(self._secure(raw)) as client, \
                Connection(socket.create_connection(("127.0.0.1", self.server_port))) as server:
            server.raw.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            while self._exchange(client, server):
                pass
        with self.lock:
            self.open.discard(raw)

    def _secure(self, raw):
        if not self.tls:
            return raw
        secure = self.tls.wrap_socket(raw, server_side=True)
        with self.lock:
            self.resumed.append(secure.session_reused)
        return secure

    def _exchange(self, client, server):
        head = client.head()
        if not head:
            return False
        first, headers = head
        method, target, _ = first.split(" ")
        self.heads.append((f"{method} {target}", {n.lower(): v.strip() for n, v in headers}))
        fault = self._find(f"{method} {target}")
        kind = fault.kind if fault else None
        if kind == "status":
            list(client.body(headers))
            self._answer(client, fault, method)
            return True
        if kind == "corrupt_request":
            body = flip(b"".join(client.body(headers)))
            server.send(first, headers, body)
        else:
            server.send(first, headers)
            for data in client.body(headers):
                server.raw.sendall(data)
                self.up += len(data)
        answer = server.head()
        if not answer:
            return False
        status = int(answer[0].split(" ")[1])
        body = server.body(answer[1], method == "HEAD", status)
        if fault and kind != "corrupt_request":
            return self._spoil(client, fault, method, answer, body)
        client.send(*answer)
        is_chunked = any(name.lower() == "transfer-encoding" for name, _ in answer[1])
        for data in body:
            client.raw.sendall(b"%x\r\n%b\r\n" % (len(data), data) if is_chunked else data)
            self.down += len(data)
        if is_chunked and method != "HEAD":
            client.raw.sendall(b"0\r\n\r\n")
        return True

    def _answer(self, client, fault, method):
        text = (f'<?xml version="1.0"?><Error><Code>{fault.code}</Code>'
                "<Message>as told by the test</Message></Error>").encode()
        headers = [("Content-Type", " application/xml"), ("Content-Length", f" {len(text)}")]
        client.send(f"HTTP/1.1 {fault.value} Fault", headers, b"" if method == "HEAD" else text)

    def _spoil(self, client, fault, method, answer, body):
        if fault.kind == "swallow":
            list(body)
            return False
        if method == "HEAD":  # an answer without a body breaks off before it has begun
            return self._break_off(client, fault)
        whole = b"".join(body)
        if fault.kind == "corrupt":
            client.send(answer[0], with_length(answer[1], len(whole)), flip(whole))
            return True
        if fault.kind == "truncate":
            whole = whole[:fault.value]
            client.send(answer[0], with_length(answer[1], len(whole)), whole)
            return True
        client.send(answer[0], with_length(answer[1], len(whole)), whole[:fault.value])
        return self._break_off(client, fault)

    def _break_off(self, client, fault):
        if fault.kind == "stall":
            client.more()  # returns when the client has given up
        else:
            # A linger of zero seconds makes the close a reset.
            client.raw.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        return False
