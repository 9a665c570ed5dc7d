"""A small HTTP server that embeds texts: bags of words, hashed to 64 numbers, with a few synonyms, so that
the same text has the same vector everywhere and some texts mean the same in other words."""

import json
import re
import zlib

from json_server import JsonServer

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


class EmbeddingServer(JsonServer):
    """`faults` is a list of functions that answer the next requests instead: handler → None."""

    def __init__(self, style="openai"):
        self.style = style
        self.path = "/api/embed" if style == "ollama" else "/v1/embeddings"
        self.faults = []
        self.dimensions = DIMENSIONS
        super().__init__()

    def respond(self, handler, body):
        request = json.loads(body)
        self.requests.append((request, dict(handler.headers)))
        if self.faults:
            self.faults.pop(0)(handler)
            return
        vectors = [vector(text, self.dimensions) for text in request["input"]]
        if self.style == "ollama":
            handler.tell_json(200, {"model": request["model"], "embeddings": vectors})
        else:  # the last first: the index says whose each is
            data = [{"object": "embedding", "index": i, "embedding": v} for i, v in enumerate(vectors)]
            handler.tell_json(200, {"object": "list", "data": data[::-1]})

    def texts(self):
        return [text for request, _ in self.requests for text in request["input"]]
