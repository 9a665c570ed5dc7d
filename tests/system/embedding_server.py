"""A small HTTP server that embeds texts: bags of words, hashed to 64 numbers, with a few synonyms, so that
the same text has the same vector everywhere and some texts mean the same in other words."""

import http.server
import json
import re
import threading
import zlib

DIMENSIONS = 64
SYNONYMS = {"supper": "dinner", "automobile": "car", "physician": "doctor"}


def vector(text, dimensions=DIMENSIONS):
    numbers = [0.001] * dimensions
    for word in re.findall(r"\w+", text.lower()):
        word = SYNONYMS.get(word, word)
        for salt in range(4):  # several places a word, so that collisions cost little
            digest = zlib.crc32(f"{salt}{word}".encode())
            numbers[digest % dimensions] += 1 if digest & 1 << 20 else -1
    return numbers


class EmbeddingServer:
    """`faults` is a list of functions that answer the next requests instead: handler → None."""

    def __init__(self, style="openai"):
        self.style = style
        self.requests = []
        self.faults = []
        self.dimensions = DIMENSIONS
        owner = self

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(self):
                length = int(self.headers["Content-Length"])
                request = json.loads(self.rfile.read(length))
                owner.requests.append((request, dict(self.headers)))
                if owner.faults:
                    owner.faults.pop(0)(self)
                    return
                vectors = [vector(text, owner.dimensions) for text in request["input"]]
                if owner.style == "ollama":
                    self.answer(200, {"model": request["model"], "embeddings": vectors})
                else:  # the last first: the index says whose each is
                    data = [{"object": "embedding", "index": i, "embedding": v}
                            for i, v in enumerate(vectors)]
                    self.answer(200, {"object": "list", "data": data[::-1]})

            def answer(self, status, body, **headers):
                data = body if isinstance(body, bytes) else json.dumps(body).encode()
                self.send_response(status)
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", str(len(data)))
                for name, value in headers.items():
                    self.send_header(name, value)
                self.end_headers()
                self.wfile.write(data)

            def log_message(self, *unused):
                pass

        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    @property
    def url(self):
        path = "/api/embed" if self.style == "ollama" else "/v1/embeddings"
        return f"http://127.0.0.1:{self.server.server_port}{path}"

    def texts(self):
        return [text for request, _ in self.requests for text in request["input"]]

    def close(self):
        self.server.shutdown()
        self.server.server_close()
