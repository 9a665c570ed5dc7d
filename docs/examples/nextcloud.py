#!/usr/bin/env python3
"""Looks through a folder of a Nextcloud and all below it: sends each new video here, and puts what was on screen beside it as
subtitles, FILM.screen.eng.srt. Run it from cron: a video that has its subtitles is left alone.

    export API=http://127.0.0.1:8080/api/v1 TOKEN=$(cortana token --user UUID)
    export NEXTCLOUD=https://cloud.example.org/remote.php/dav/files/anna NEXTCLOUD_USER=anna NEXTCLOUD_PASSWORD=…
    python3 docs/examples/nextcloud.py Videos/Talks

The password is one for an application (Personal settings, Security). Any other server of WebDAV does, too.
"""
import base64
import os
import pathlib
import sys
import tempfile
import urllib.parse
import xml.etree.ElementTree as xml

import client  # the examples beside this one
from folder import VIDEOS

ROOT = os.environ["NEXTCLOUD"].rstrip("/") + "/"
ACCOUNT = f"{os.environ['NEXTCLOUD_USER']}:{os.environ['NEXTCLOUD_PASSWORD']}"
WANTED = b"""<?xml version="1.0"?><d:propfind xmlns:d="DAV:"><d:prop>
    <d:resourcetype/><d:getcontentlength/><d:getetag/></d:prop></d:propfind>"""


def request(method, url, body=None, **headers):
    return client.request(method, url, body, Authorization="Basic " + base64.b64encode(ACCOUNT.encode()).decode(), **headers)


def list_folder(url):
    """(address, is it a folder, its size, its ETag) of what is in a folder, by name."""
    with request("PROPFIND", url, WANTED, Depth="1", Content_Type="application/xml") as answer:
        found = xml.parse(answer).getroot()
    for response in sorted(found.iter("{DAV:}response"), key=lambda response: response.findtext("{DAV:}href")):
        address = urllib.parse.urljoin(url, response.findtext("{DAV:}href"))
        if urllib.parse.unquote(address).rstrip("/") != urllib.parse.unquote(url).rstrip("/"):  # the folder itself
            yield (address, response.find(".//{DAV:}collection") is not None, int(response.findtext(".//{DAV:}getcontentlength") or 0),
                   response.findtext(".//{DAV:}getetag"))


def name_of(address):
    return pathlib.PurePosixPath(urllib.parse.unquote(urllib.parse.urlsplit(address).path)).name


def find_new(url):
    """Videos in a folder and below it that have no subtitles of ours."""
    items = list(list_folder(url))
    names = {name_of(address) for address, *_ in items}
    for address, is_folder, size, etag in items:
        name = pathlib.PurePosixPath(name_of(address))
        if is_folder:
            yield from find_new(address.rstrip("/") + "/")
        elif name.suffix.lower() in VIDEOS and size and not any(other.startswith(f"{name.stem}.screen.") for other in names):
            yield address, name, size, etag


def send(address, name, etag):
    """The file comes here whole, or, if somebody changes it meanwhile (412), not at all."""
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, name)
        client.save(request("GET", address, If_Match=etag), path)
        return client.upload(path)


def write_subtitles(address, name, size, etag):
    video = client.wait_until_read(client.find(str(name), size) or send(address, name, etag))
    target = urllib.parse.urljoin(address, urllib.parse.quote(f"{name.stem}.screen.{client.language_of(video)}.srt"))
    request("PUT", target, client.export(video["id"], "srt"), If_None_Match="*", Content_Type="application/x-subrip").close()
    return target


def main(folder):
    failed = False
    for video in find_new(urllib.parse.urljoin(ROOT, urllib.parse.quote(folder.strip("/") + "/" if folder.strip("/") else ""))):
        try:
            print(write_subtitles(*video), flush=True)
        except client.Refused as problem:
            failed = True
            print(f"{video[0]}: {problem}", file=sys.stderr, flush=True)
    return failed


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
