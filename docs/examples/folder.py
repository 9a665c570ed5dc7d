#!/usr/bin/env python3
"""Watches the folder of a screen recorder such as OBS, or of a media server: uploads each video that is no longer written to, and
puts what was on screen beside it as subtitles, FILM.screen.eng.srt, the form that Jellyfin's manual asks for.

    export API=http://127.0.0.1:8080/api/v1 TOKEN=$(cortana token --user UUID)
    python3 docs/examples/folder.py ~/Videos           # until Ctrl-C
    python3 docs/examples/folder.py --once ~/Videos    # what is there now

A video that the server has already is not sent again, and one that has its subtitles is left alone; so it may be stopped and
started at any time.
"""
import argparse
import os
import pathlib
import sys
import time
import urllib.parse

import client  # the example beside this one

VIDEOS = {".mkv", ".mp4", ".mov", ".flv", ".ts", ".webm", ".m4v", ".avi"}


def find_on_server(path):
    """The id of the video with this name and size; None: it has none."""
    query = urllib.parse.urlencode({"name": path.name, "limit": 200})
    for video in client.ask("GET", f"videos?{query}")["items"]:
        if (video["name"], video["size"]) == (path.name, path.stat().st_size):
            return video["duplicate_of"] or video["id"]
    return None


def write_subtitles(path):
    video = find_on_server(path) or client.upload(str(path))
    while (seen := client.ask("GET", f"videos/{video}"))["status"] == "duplicate":
        video = seen["duplicate_of"]  # another file with the same bytes
    client.wait_until_read(video)
    language = (client.ask("GET", f"videos/{video}")["languages"] or ["und"])[0]
    with client.request("GET", f"videos/{video}/export?format=srt&source=screen") as answer:
        text = answer.read()
    target = path.with_name(f"{path.stem}.screen.{language}.srt")
    part = target.with_suffix(".part")  # a player never sees half of it
    part.write_bytes(text)
    part.replace(target)
    return target


def find_new(folder, settle_s, refused):
    """Videos that nobody has written to for a while and that have no subtitles of ours."""
    for path in sorted(folder.rglob("*")):
        if path.suffix.lower() in VIDEOS and path.is_file() and path not in refused \
                and time.time() - path.stat().st_mtime >= settle_s \
                and not any(other.name.startswith(f"{path.stem}.screen.") for other in path.parent.glob("*.srt")):
            yield path


def main():
    options = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    options.add_argument("folder", type=pathlib.Path)
    options.add_argument("--once", action="store_true", help="end when all that is there has its subtitles")
    options.add_argument("--settle", type=float, default=10, metavar="SECONDS", help="how long nobody has written to a file that is whole")
    given = options.parse_args()
    refused = set()  # until this is started again
    while True:
        for path in find_new(given.folder, given.settle, refused):
            try:
                print(write_subtitles(path), flush=True)
            except client.Refused as problem:
                refused.add(path)
                print(f"{path}: {problem}", file=sys.stderr, flush=True)
        if given.once:
            return bool(refused)
        time.sleep(min(given.settle, 5))


if __name__ == "__main__":
    try:
        sys.exit(main())
    except KeyboardInterrupt:
        os._exit(130)
