#!/usr/bin/env python3
"""A client of the HTTP API, with nothing but Python's own library: uploads a video, waits until it is read, searches it,
and cuts a clip around the first hit.

    export API=http://127.0.0.1:8080/api/v1 TOKEN=$(cortana token --user UUID)
    python3 docs/examples/client.py film.mp4 "old bridge" clip.mp4
"""
import json
import os
import sys
import time
import urllib.error
import urllib.parse
import urllib.request

API = os.environ["API"]
PART_BYTES = 8 * 1024 * 1024  # what is sent again after a fault
WAIT_S = 30


class Refused(Exception):
    pass


def request(method, url, body=None, **headers):
    """Sends a request. What is refused for a moment (429, 503) is sent again; every other refusal says why."""
    url = urllib.parse.urljoin(API + "/", url) if not url.startswith("/") else urllib.parse.urljoin(API, url)
    headers = {name.replace("_", "-"): value for name, value in headers.items()}
    if url.startswith(API):
        headers["Authorization"] = "Bearer " + os.environ["TOKEN"]
    if isinstance(body, dict):
        body, headers["Content-Type"] = json.dumps(body).encode(), "application/json"
    while True:
        try:
            return urllib.request.urlopen(urllib.request.Request(url, body, headers, method=method), timeout=120)
        except urllib.error.HTTPError as error:
            if error.code not in (429, 503):
                problem = json.loads(error.read() or b"{}")
                raise Refused(f"{method} {url}: {error.code} {problem.get('detail', error.reason)} "
                              f"{problem.get('errors', '')}") from None
            time.sleep(int(error.headers.get("Retry-After", "1")))


def ask(method, url, body=None, **headers):
    with request(method, url, body, **headers) as answer:
        return json.loads(answer.read() or b"{}")


def upload(path):
    """Sends a file in parts. After whatever happened, GET /uploads/{id} says where to go on."""
    made = ask("POST", "uploads", {"name": os.path.basename(path), "size": os.path.getsize(path)})
    with open(path, "rb") as file:
        if made["mode"] == "parts":  # a bucket takes them itself
            for number in range(1, -(-made["size"] // made["part_size"]) + 1):
                part, = ask("POST", f"uploads/{made['id']}/parts", {"numbers": [number]})["items"]
                file.seek((number - 1) * made["part_size"])
                request("PUT", part["url"], file.read(part["size"])).close()
            ask("POST", f"uploads/{made['id']}/complete")
            return made["video_id"]
        offset = made["offset"]
        while offset < made["size"]:
            file.seek(offset)
            with request("PATCH", made["location"], file.read(PART_BYTES), Upload_Offset=str(offset), Tus_Resumable="1.0.0",
                         Content_Type="application/offset+octet-stream") as answer:
                offset = int(answer.headers["Upload-Offset"])
    return made["video_id"]


def wait_until_read(video):
    while (status := ask("GET", f"videos/{video}")["status"]) != "ready":
        if status in ("failed", "duplicate"):
            raise Refused(f"the video is {status}: {ask('GET', f'videos/{video}/stages')['items']}")
        time.sleep(1)


def search(query, video):
    return ask("GET", "search?" + urllib.parse.urlencode({"q": query, "video": video}))["items"]


def cut(hit, path):
    clip = ask("POST", "clips", {name: hit[name] for name in ("video_id", "t_start", "t_end")})
    while clip["state"] != "done":
        if clip["state"] in ("failed", "canceled"):
            raise Refused(f"the clip is {clip['state']}: {clip['error']}")
        clip = ask("GET", f"clips/{clip['id']}?wait={WAIT_S}")
    with request("GET", clip["url"]) as answer, open(path, "wb") as file:
        while data := answer.read(1 << 20):
            file.write(data)


def main(video_path, query, clip_path):
    video = upload(video_path)
    print("video", video)
    wait_until_read(video)
    hits = search(query, video)
    for hit in hits:
        print(f"{hit['t_start']:>9} ms  {hit['text']}")
    if not hits:
        sys.exit("nothing was found")
    cut(hits[0], clip_path)
    print("clip", clip_path)


if __name__ == "__main__":
    main(*sys.argv[1:])
