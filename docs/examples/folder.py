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
import signal
import sys
import time

import client  # the example beside this one

VIDEOS = {".mkv", ".mp4", ".mov", ".flv", ".ts", ".webm", ".m4v", ".avi"}


def is_written(path):
    """Whether a program has the file open to write to it: only Linux says so, of one's own files on a local disk. The time of the
    last change does not: OBS wrote to its file once in 30 s while nothing moved."""
    if sys.platform != "linux":
        return False
    import fcntl
    signal.signal(signal.SIGIO, signal.SIG_IGN)  # who opens it in this moment is not to end us
    with open(path, "rb") as file:
        try:
            fcntl.fcntl(file, fcntl.F_SETLEASE, fcntl.F_RDLCK)
        except BlockingIOError:
            return True
        except OSError:  # another disk, or somebody else's file
            pass
    return False


def write_subtitles(path):
    video = client.wait_until_read(client.find(path.name, path.stat().st_size) or client.upload(str(path)))
    target = path.with_name(f"{path.stem}.screen.{client.language_of(video)}.srt")
    part = target.with_suffix(".part")  # a player never sees half of it
    part.write_bytes(client.export(video["id"], "srt"))
    part.replace(target)
    return target


def find_new(folder, settle_s, refused):
    """Videos that are whole and have no subtitles of ours. What OBS has made an MP4 of has the same name: one of both is sent."""
    for path in sorted(folder.rglob("*")):
        if path.suffix.lower() in VIDEOS and path.is_file() and path not in refused \
                and time.time() - path.stat().st_mtime >= settle_s and not is_written(path) \
                and not any(other.name.startswith(f"{path.stem}.screen.") for other in path.parent.glob("*.srt")):
            yield path


def main():
    options = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    options.add_argument("folder", type=pathlib.Path)
    options.add_argument("--once", action="store_true", help="end when all that is there has its subtitles")
    options.add_argument("--settle", type=float, default=60, metavar="SECONDS", help="how long nobody has changed a file that is whole")
    given = options.parse_args()
    refused = set()  # until this is started again
    while True:
        is_away = False
        for path in find_new(given.folder, given.settle, refused):
            try:
                print(write_subtitles(path), flush=True)
            except client.Refused as problem:
                print(f"{path}: {problem}", file=sys.stderr, flush=True)
                if is_away := isinstance(problem, client.Unreachable):
                    break  # all of them are tried again
                refused.add(path)
        if given.once:
            return is_away or bool(refused)
        time.sleep(min(given.settle, 5))


if __name__ == "__main__":
    try:
        sys.exit(main())
    except KeyboardInterrupt:
        os._exit(130)
