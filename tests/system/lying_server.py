"""A server that speaks S3 and lies: each test says what it answers. It checks no signature."""

import http.server
import threading
import urllib.parse

ENVIRONMENT = {"STORE_URL": "s3://lies", "S3_REGION": "us-east-1", "S3_ACCESS_KEY_ID": "k",
               "S3_SECRET_ACCESS_KEY": "s"}


class LyingServer:
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
                self.key = urllib.parse.unquote(parts.path).removeprefix("/lies").lstrip("/")
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

        class Server(http.server.ThreadingHTTPServer):
            daemon_threads = True

        self.server = Server(("127.0.0.1", 0), Handler)
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    def environment(self, **more):
        return {**ENVIRONMENT, "S3_ENDPOINT": f"http://127.0.0.1:{self.server.server_port}", **more}

    def close(self):
        self.server.shutdown()
        self.server.server_close()


def list_page(keys, token=None):
    """The XML of a page of a list; with a token, of one that is not the last."""
    entries = "".join(f"<Contents><Key>{key}</Key><LastModified>2026-01-01T00:00:00Z</LastModified>"
                      f'<ETag>"x"</ETag><Size>1</Size></Contents>' for key in keys)
    more = (f"<IsTruncated>true</IsTruncated><NextContinuationToken>{token}</NextContinuationToken>"
            if token else "<IsTruncated>false</IsTruncated>")
    return f"<ListBucketResult>{more}{entries}</ListBucketResult>"
