"""An HTTP server whose answers the test gives."""

import http.server
import json
import threading
import urllib.parse


class AnsweringServer:
    """`answer(request)` is called for every request, from a thread of its connection; `requests` are
    the "METHOD path?query" lines seen."""

    def __init__(self, answer):
        self.requests = requests = []

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"
            wbufsize = -1  # head and body at once

            def log_message(self, *unused):
                pass

            def handle_any(self):
                requests.append(f"{self.command} {self.path}")
                parts = urllib.parse.urlsplit(self.path)
                self.query = dict(urllib.parse.parse_qsl(parts.query, keep_blank_values=True))
                self.body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
                try:
                    answer(self)
                except OSError:  # the client has had enough
                    self.close_connection = True

            do_GET = do_HEAD = do_PUT = do_POST = do_DELETE = handle_any

            def tell(self, status, body=b"", length=None, **headers):
                body = body.encode() if isinstance(body, str) else body
                self.send_response(status)
                for name, value in headers.items():
                    self.send_header(name.replace("_", "-"), value)
                self.send_header("Content-Length", str(len(body) if length is None else length))
                self.end_headers()
                if self.command != "HEAD":
                    self.wfile.write(body)
                self.wfile.flush()

            def tell_json(self, status, value, headers=None):
                self.tell(status, value if isinstance(value, bytes) else json.dumps(value),
                          **{"Content-Type": "application/json", **(headers or {})})

        class Server(http.server.ThreadingHTTPServer):
            daemon_threads = True

        self.server = Server(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_port}"
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    def close(self):
        self.server.shutdown()
        self.server.server_close()
