#!/usr/bin/env python3
"""Reads the newest videos of a channel of PeerTube, and gives each a caption of what is on its screen.

    export API=http://127.0.0.1:8080/api/v1 TOKEN=$(cortana token --user UUID)
    export PEERTUBE=https://tube.example.org PEERTUBE_USER=anna PEERTUBE_PASSWORD=…
    python3 docs/examples/peertube.py anna_channel              # the captions have each video's own language
    python3 docs/examples/peertube.py anna_channel --language en

A language has one caption. One that is there is left alone, ours and others': so run it from cron. Where people have captions of
what is said, name a language that they do not use. The account must be that of the channel, without a second factor.
"""
import argparse
import os
import pathlib
import sys
import tempfile
import urllib.parse
import uuid

import client  # the example beside this one

SERVER = os.environ["PEERTUBE"].rstrip("/") + "/api/v1/"
PAGE = 100  # the most that PeerTube lists at once


def sign_in():
    """The header of one's session."""
    own = client.ask("GET", SERVER + "oauth-clients/local")
    form = {"client_id": own["client_id"], "client_secret": own["client_secret"], "grant_type": "password",
            "username": os.environ["PEERTUBE_USER"], "password": os.environ["PEERTUBE_PASSWORD"]}
    token = client.ask("POST", SERVER + "users/token", urllib.parse.urlencode(form).encode(),
                       Content_Type="application/x-www-form-urlencoded")
    return {"Authorization": f"{token['token_type']} {token['access_token']}"}


def list_videos(channel, count, session):
    """The newest videos, less those that are broadcast now."""
    for start in range(0, count, PAGE):
        query = urllib.parse.urlencode({"sort": "-publishedAt", "start": start, "count": min(PAGE, count - start)})
        page = client.ask("GET", f"{SERVER}video-channels/{urllib.parse.quote(channel)}/videos?{query}", **session)["data"]
        yield from (video for video in page if not video.get("isLive"))
        if len(page) < PAGE:
            return


def file_of(video):
    """The largest picture that there is: of the files for download, or else of those for playing."""
    files = video.get("files") or [file for playlist in video.get("streamingPlaylists", []) for file in playlist["files"]]
    files = [file for file in files if file.get("hasVideo", True) and file["resolution"]["id"]]  # 0: sound alone
    if not files:
        raise client.Refused("it has no picture yet")
    return max(files, key=lambda file: file["resolution"]["id"])


def send(video, session):
    """The id here of a video there, whose file has its id as its name."""
    file = file_of(video)
    url = file["fileUrl"]
    name = video["uuid"] + pathlib.PurePosixPath(urllib.parse.urlsplit(url).path).suffix
    sent = client.find(name, file["size"])
    if not sent:
        is_theirs = urllib.parse.urlsplit(url)[:2] == urllib.parse.urlsplit(SERVER)[:2]  # and not that of a bucket
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, name)
            client.save(client.request("GET", url, **(session if is_theirs else {})), path)
            sent = client.upload(path)
    client.ask("PATCH", f"videos/{sent}", {"title": video["name"], "recorded_at": video["publishedAt"],
                                           "fields": {"address": video["url"]}})
    return sent


def put_caption(video, language, text, session):
    edge = uuid.uuid4().hex
    head = f'--{edge}\r\nContent-Disposition: form-data; name="captionfile"; filename="screen.vtt"\r\nContent-Type: text/vtt\r\n\r\n'
    client.request("PUT", f"{SERVER}videos/{video['uuid']}/captions/{urllib.parse.quote(language)}",
                   head.encode() + text + f"\r\n--{edge}--\r\n".encode(),
                   Content_Type=f"multipart/form-data; boundary={edge}", **session).close()


def caption(video, language, session):
    """Puts the caption, unless there is one; what it did."""
    language = language or (video.get("language") or {}).get("id")
    if not language:
        raise client.Refused("it has no language: give one with --language")
    there = client.ask("GET", f"{SERVER}videos/{video['uuid']}/captions", **session)["data"]
    if any(one["language"]["id"] == language for one in there):
        return f"has a caption in {language}"
    read = client.wait_until_read(send(client.ask("GET", f"{SERVER}videos/{video['uuid']}", **session), session))
    if not read["lines"]:
        return "has no text on screen"
    put_caption(video, language, client.export(read["id"], "vtt"), session)
    return f"has now a caption in {language}"


def main():
    options = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    options.add_argument("channel")
    options.add_argument("--language", help="of the captions, as PeerTube calls it, such as en")
    options.add_argument("--count", type=int, default=PAGE, help="how many of the newest videos are looked at")
    given = options.parse_args()
    session, failed = sign_in(), False
    for video in list_videos(given.channel, given.count, session):
        try:
            print(video["name"], caption(video, given.language, session), flush=True)
        except client.Refused as problem:
            failed = True
            print(f"{video['name']}: {problem}", file=sys.stderr, flush=True)
    return failed


if __name__ == "__main__":
    sys.exit(main())
