"""A server of a test that answers JSON: `respond` of its class gets each request."""

import contextlib
import http.server
import json
import threading


class JsonServer:
    path = ""

    def __init__(self):
        owner = self

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def handle_any(self):
                owner.respond(self, self.rfile.read(int(self.headers.get("Content-Length") or 0)))

            do_GET = do_POST = do_PUT = handle_any

            def answer(self, status, body, headers=None):
                data = body if isinstance(body, bytes) else json.dumps(body).encode()
                self.send_response(status)
                for name, value in {"Content-Type": "application/json", **(headers or {}), "Content-Length": str(len(data))}.items():
                    self.send_header(name, value)
                self.end_headers()
                with contextlib.suppress(ConnectionError):  # of a body that is longer than what is read
                    self.wfile.write(data)

            def log_message(self, *unused):
                pass

        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    @property
    def url(self):
        return f"http://127.0.0.1:{self.server.server_port}{self.path}"

    def close(self):
        self.server.shutdown()
        self.server.server_close()
