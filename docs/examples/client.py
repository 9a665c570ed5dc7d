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
    """The server has said no, and why."""


class Unreachable(Refused):
    """Nobody has answered: it may go well later."""


def request(method, url, body=None, **headers):
    """Sends a request; to other servers, whose whole address is given, without the token. What is refused for a moment (429, 503)
    is sent again; every other refusal says why."""
    url = urllib.parse.urljoin(API + "/", url) if not url.startswith("/") else urllib.parse.urljoin(API, url)
    headers = {name.replace("_", "-"): value for name, value in headers.items()}
    if url.startswith(API):
        headers["Authorization"] = "Bearer " + os.environ["TOKEN"]
    if isinstance(body, dict):
        body, headers["Content-Type"] = json.dumps(body).encode(), "application/json"
    asked = urllib.request.Request(url, body, headers, method=method)
    if key := asked.headers.pop("Authorization", None):
        asked.add_unredirected_header("Authorization", key)  # not for a bucket to which the server sends us
    while True:
        try:
            return urllib.request.urlopen(asked, timeout=120)
        except urllib.error.HTTPError as error:
            if error.code not in (429, 503):
                says = json.loads(error.read() or b"{}") if "json" in error.headers.get("Content-Type", "") else {}
                raise Refused(f"{method} {url}: {error.code} {says.get('detail', error.reason)} {says.get('errors', '')}") from None
            time.sleep(int(error.headers.get("Retry-After", "1")))
        except OSError as problem:
            raise Unreachable(f"{method} {url}: {problem}") from None


def ask(method, url, body=None, **headers):
    with request(method, url, body, **headers) as answer:
        return json.loads(answer.read() or b"{}")


def list_sent(name, size):
    """What was sent with this name and size: (the video's id, its upload if bytes are missing)."""
    query = urllib.parse.urlencode({"name": name[:200], "limit": 200})
    for video in ask("GET", f"videos?{query}")["items"]:
        if video["name"] == name:
            try:
                made = {} if video["size"] else ask("GET", f"uploads/{video['id']}")  # the size is known a little later
            except Refused:  # another's of one's team
                continue
            if size in (video["size"], made.get("size")):
                yield video["id"], made if made.get("state") == "open" else None


def find(name, size):
    """The id of the video that was sent with this name and size; None: there is none."""
    return next((video for video, missing in list_sent(name, size) if not missing), None)


def upload(path):
    """Sends a file in parts; of an upload that was interrupted what is missing."""
    name, size = os.path.basename(path), os.path.getsize(path)
    made = next((missing for _, missing in list_sent(name, size) if missing), None) or ask("POST", "uploads", {"name": name, "size": size})
    with open(path, "rb") as file:
        if made["mode"] == "parts":  # a bucket takes them itself
            for number in sorted(set(range(1, -(-size // made["part_size"]) + 1)) - set(made.get("parts", []))):
                part, = ask("POST", f"uploads/{made['id']}/parts", {"numbers": [number]})["items"]
                file.seek((number - 1) * made["part_size"])
                request("PUT", part["url"], file.read(part["size"])).close()
            ask("POST", f"uploads/{made['id']}/complete")
            return made["video_id"]
        offset = made["offset"]
        while offset < size:
            file.seek(offset)
            with request("PATCH", made["location"], file.read(PART_BYTES), Upload_Offset=str(offset), Tus_Resumable="1.0.0",
                         Content_Type="application/offset+octet-stream") as answer:
                offset = int(answer.headers["Upload-Offset"])
    return made["video_id"]


def wait_until_read(video):
    """The video; if another one has the same bytes, that one."""
    while (seen := ask("GET", f"videos/{video}"))["status"] != "ready":
        if seen["status"] == "failed":
            raise Refused(f"the video has failed: {ask('GET', f'videos/{video}/stages')['items']}")
        video = seen["duplicate_of"] or video
        time.sleep(1)
    return seen


def language_of(video):
    """The language of most of its text as ISO 639-2 has it, in place of Tesseract's chi_sim; und: it has no text."""
    return (video["languages"] or ["und"])[0].partition("_")[0]


def export(video, form):
    """What was on screen, as a file of this form: srt, vtt, txt and others."""
    with request("GET", f"videos/{video}/export?format={form}&source=screen") as answer:
        return answer.read()


def save(answer, path):
    with answer, open(path, "wb") as file:
        while data := answer.read(1 << 20):
            file.write(data)


def search(query, video):
    return ask("GET", "search?" + urllib.parse.urlencode({"q": query, "video": video}))["items"]


def cut(hit, path):
    clip = ask("POST", "clips", {name: hit[name] for name in ("video_id", "t_start", "t_end")})
    while clip["state"] != "done":
        if clip["state"] in ("failed", "canceled"):
            raise Refused(f"the clip is {clip['state']}: {clip['error']}")
        clip = ask("GET", f"clips/{clip['id']}?wait={WAIT_S}")
    save(request("GET", clip["url"]), path)


def main(video_path, query, clip_path):
    video = upload(video_path)
    print("video", video)
    hits = search(query, wait_until_read(video)["id"])
    for hit in hits:
        print(f"{hit['t_start']:>9} ms  {hit['text']}")
    if not hits:
        sys.exit("nothing was found")
    cut(hits[0], clip_path)
    print("clip", clip_path)


if __name__ == "__main__":
    main(*sys.argv[1:])
