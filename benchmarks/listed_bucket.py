"""A bucket that is nothing but its list: any number of originals, answered as S3 answers list v2."""
import http.server
import threading
import urllib.parse
from xml.sax.saxutils import escape

PREFIX = "videos/original/"
KEY = PREFIX + "{:08x}-0000-4000-8000-000000000000/master.mp4"
PAGE = 1000


def listed_key(number):
    return KEY.format(number)


def first_behind(key):
    """The number of the first listed key behind `key`, which may be any text."""
    low, high = 0, 1 << 32
    while low < high:
        middle = (low + high) // 2
        if listed_key(middle) > key:
            high = middle
        else:
            low = middle + 1
    return low


class ListedBucket:
    def __init__(self, count):
        self.count, self.requests, self.etag = count, 0, "0" * 32
        outer = self

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_GET(self):
                outer.requests += 1
                query = dict(urllib.parse.parse_qsl(urllib.parse.urlsplit(self.path).query,
                                                    keep_blank_values=True))
                body = outer.answer(query).encode()
                self.send_response(200)
                self.send_header("Content-Type", "application/xml")
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *arguments):
                pass

        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    def environment(self):
        return {"STORE_URL": "s3://listed", "S3_ACCESS_KEY_ID": "x", "S3_SECRET_ACCESS_KEY": "x",
                "S3_ENDPOINT": "http://127.0.0.1:%d" % self.server.server_address[1]}

    def answer(self, query):
        assert query.get("list-type") == "2", query
        prefix, limit = query.get("prefix", ""), min(int(query.get("max-keys", PAGE)), PAGE)
        token = query.get("continuation-token")
        start = int(token) if token else first_behind(query.get("start-after", ""))
        stop = min(start + limit, self.count) if PREFIX.startswith(prefix) else start
        more = stop < self.count and PREFIX.startswith(prefix)
        entries = "".join(
            f"<Contents><Key>{escape(listed_key(number))}</Key><LastModified>2026-01-01T00:00:00.000Z"
            f"</LastModified><ETag>&quot;{self.etag}&quot;</ETag><Size>1</Size>"
            "<StorageClass>STANDARD</StorageClass></Contents>" for number in range(start, stop))
        return ('<?xml version="1.0" encoding="UTF-8"?>'
                '<ListBucketResult xmlns="http://s3.amazonaws.com/doc/2006-03-01/"><Name>listed</Name>'
                f"<Prefix>{escape(prefix)}</Prefix><KeyCount>{stop - start}</KeyCount>"
                f"<MaxKeys>{limit}</MaxKeys><IsTruncated>{str(more).lower()}</IsTruncated>"
                + (f"<NextContinuationToken>{stop}</NextContinuationToken>" if more else "")
                + entries + "</ListBucketResult>")

    def close(self):
        self.server.shutdown()
        self.server.server_close()
