#!/usr/bin/env python3
"""Sends the videos of a playlist, a channel or a feed through yt-dlp, with their titles, dates and addresses.

    export API=http://127.0.0.1:8080/api/v1 TOKEN=$(cortana token --user UUID)
    python3 docs/examples/ytdlp.py https://example.org/talks.xml
    python3 docs/examples/ytdlp.py -f 'bv[height<=1080]+ba' --playlist-end 20 https://example.org/@anna

All options are yt-dlp's. A video is removed here once it is on the server, and then noted in sent.txt (--download-archive): so this
may be stopped and started at any time, or run from cron.
"""
import os
import sys
from datetime import datetime, timezone

import client  # the example beside this one
import yt_dlp  # Debian's package yt-dlp
from yt_dlp.postprocessor.common import PostProcessor
from yt_dlp.utils import PostProcessingError

OPTIONS = ["--download-archive", "sent.txt", "--paths", "downloads"]  # those of the command line are stronger


def published_at(video):
    """When the video was published, by the second or by the day, whichever the site tells; None: it tells nothing."""
    if (second := video.get("timestamp") or video.get("release_timestamp")) is not None:
        return datetime.fromtimestamp(second, timezone.utc).isoformat()
    day = video.get("upload_date")
    return f"{day[:4]}-{day[4:6]}-{day[6:]}T00:00:00Z" if day else None


class Send(PostProcessor):
    def run(self, video):
        """Sends a downloaded file. One that was sent before this was stopped is found by its name, which has the site's id in it."""
        path = video["filepath"]
        known = {"title": video.get("title", "")[:300], "recorded_at": published_at(video),
                 "fields": {"address": video.get("webpage_url")}}
        try:
            sent = client.find(os.path.basename(path), os.path.getsize(path)) or client.upload(path)
            client.ask("PATCH", f"videos/{sent}", {name: value for name, value in known.items() if value})
        except (client.Refused, OSError) as problem:
            raise PostProcessingError(f"{path} was not sent: {problem}") from problem  # is tried again by the next run
        self.to_screen(f"{sent}  {known['title']}")
        return [path], video  # yt-dlp removes the file


def main(arguments):
    options = yt_dlp.parse_options(OPTIONS + arguments)
    with yt_dlp.YoutubeDL({**options.ydl_opts, "ignoreerrors": "only_download"}) as program:  # -i would note what was not sent
        program.add_post_processor(Send(), when="after_move")
        return program.download(options.urls)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
