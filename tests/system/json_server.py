"""A server of a test that answers JSON: `respond` of its class gets each request and its body."""

from answering_server import AnsweringServer


class JsonServer(AnsweringServer):
    path = ""

    def __init__(self):
        super().__init__(lambda request: self.respond(request, request.body))
        self.url += self.path
        self.requests = []  # what the class notes of them
