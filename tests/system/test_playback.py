"""A headless Chromium with hls.js plays what transcode has made: it seeks to the right frame, switches
renditions and reaches the end."""
import functools
import http.server
import json
import pathlib
import re
import shutil
import subprocess
import threading
import urllib.parse

import pytest
from media_tools import Stage, difference, grey_frames, make_clip

pytestmark = pytest.mark.sanitized(0)

ROOT = pathlib.Path(__file__).resolve().parents[2]
DEADLINE = 60  # seconds for the whole of a playback
WIDTH, HEIGHT, BITS = 480, 360, 10


class Site(http.server.SimpleHTTPRequestHandler):
    """The project's web folder, this folder's page, and the store under /store/; takes what the page
    has seen."""

    def __init__(self, *arguments, store, seen, **options):
        self.store = store
        self.seen = seen
        super().__init__(*arguments, **options)

    def translate_path(self, path):
        name = urllib.parse.unquote(urllib.parse.urlsplit(path).path).lstrip("/")
        if name.startswith("store/"):
            return str(self.store / name[len("store/"):])
        return str(ROOT / ("tests/system/playback.html" if name == "playback" else name))

    def guess_type(self, path):
        if str(path).endswith((".html", "playback")):
            return "text/html"
        return super().guess_type(path)

    def do_POST(self):
        body = self.rfile.read(int(self.headers["Content-Length"]))
        self.send_response(204)
        self.end_headers()
        self.seen.append(json.loads(body))
        self.server.done.set()

    def do_GET(self):
        """A whole file, or the one range that a player asks for (RFC 9110, 14.2)."""
        wanted = re.fullmatch(r"bytes=(\d+)-(\d+)", self.headers.get("Range", ""))
        if not wanted:
            super().do_GET()
            return
        first, last = map(int, wanted.groups())
        data = pathlib.Path(self.translate_path(self.path)).read_bytes()
        part = data[first:last + 1]
        self.send_response(206)
        self.send_header("Content-Length", str(len(part)))
        self.send_header("Content-Range", f"bytes {first}-{first + len(part) - 1}/{len(data)}")
        self.end_headers()
        self.wfile.write(part)

    def log_message(self, *arguments):
        pass


@pytest.fixture
def play(store_dir, tmp_path):
    """Plays a playlist of the store: what the page saw."""
    seen = []
    handler = functools.partial(Site, store=store_dir, seen=seen)
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler)
    server.done = threading.Event()
    threading.Thread(target=server.serve_forever, daemon=True).start()
    browsers = []

    def run(key=None, times=None, **wishes):
        wishes |= {"url": f"/store/{key}", "times": times, "width": WIDTH, "height": HEIGHT,
                   "deadline_ms": DEADLINE * 900}
        url = (f"http://127.0.0.1:{server.server_port}/playback#"
               f"{urllib.parse.quote(json.dumps(wishes))}")
        log = tmp_path / "chromium.log"
        with open(log, "wb") as output:
            browsers.append(subprocess.Popen(
                [shutil.which("chromium"), "--headless=new", "--no-sandbox", "--disable-gpu",
                 "--autoplay-policy=no-user-gesture-required", "--disable-dev-shm-usage",
                 f"--user-data-dir={tmp_path / 'profile'}", url],
                stdout=output, stderr=output))
        assert server.done.wait(DEADLINE), log.read_text(errors="replace")[-2000:]
        return seen[0]

    yield run
    for browser in browsers:
        browser.terminate()
        browser.wait(DEADLINE)
    server.shutdown()
    server.server_close()


def numbered_clip(path, rate, seconds, options, codec="libx264"):
    """Every picture says its number: ten bars, black or white, the lowest bit first."""
    bar = WIDTH // BITS
    return make_clip(path, f"-f lavfi -i color=black:s={WIDTH}x{HEIGHT}:r={rate}:d={seconds} "
                     f"-f lavfi -i sine=d={seconds} -vf "
                     f"geq=lum='16+219*mod(floor(N/pow(2\\,floor(X/{bar})))\\,2)':cb=128:cr=128 "
                     f"-pix_fmt yuv420p -c:v {codec} {options} -c:a aac")


def number(picture):
    """The number that a picture says."""
    bar, row = WIDTH // BITS, HEIGHT // 2 * WIDTH
    return sum((picture[row + bit * bar + bar // 2] > 128) << bit for bit in range(BITS))


COPIED = {"libx264": "-preset veryfast -bf 3 -g 137"}


@pytest.mark.parametrize("rate, segments, copied", [(50, "ts", None), (30, "fmp4", "libx264")])
def test_plays_seeks_switches_and_ends(program, store_dir, tmp_path, play, rate, segments, copied):
    source = numbered_clip(tmp_path / "a.mp4", rate, 13, COPIED.get(copied, "-preset ultrafast -bf 2"), copied or "libx264")
    stage = Stage(program("transcode-worker"), store_dir)
    code, result = stage.run(s3_original_path=stage.put_original(source), renditions=[360, 240],
                             segments=segments, copy=bool(copied))
    assert code == 0 and stage.check_output(), result
    assert [r["copied"] for r in result["renditions"]] == [bool(copied), False]
    frames = [0, 1, rate * 4 - 1, rate * 4, rate * 7 + 3, rate * 11 + 7]
    seen = play(result["s3_proxy_path"], [(frame + 0.5) / rate for frame in frames])
    assert seen["errors"] == []
    assert seen["steps"] == ["plays", "seeks", "switches", "ends"]
    assert seen["duration"] == pytest.approx(result["duration"], abs=0.1)
    assert seen["end"] == pytest.approx(result["duration"], abs=0.1)
    assert seen["start"] == pytest.approx(0, abs=0.001)
    assert [number(moment["picture"]) for moment in seen["first"]] == frames
    assert [number(moment["picture"]) for moment in seen["second"]] == frames
    for moments in (seen["first"], seen["second"]):
        assert [m["mediaTime"] for m in moments] == pytest.approx([f / rate for f in frames], abs=0.001)
    originals = grey_frames(source, WIDTH, HEIGHT)
    for frame, moment in zip(frames, seen["first"]):
        assert difference(moment["picture"], originals[frame]) < 24  # 16…235 here, 0…255 there


def test_renditions_that_a_player_may_choose_from(program, store_dir, tmp_path, play):
    source = make_clip(tmp_path / "a.mp4", "-f lavfi -i testsrc=s=360x640:r=30:d=5 -f lavfi -i "
                       "sine=d=5 -c:v libx264 -preset ultrafast -c:a aac")
    stage = Stage(program("transcode-worker"), store_dir)
    code, result = stage.run(s3_original_path=stage.put_original(source), renditions=[360, 240])
    assert code == 0, result
    seen = play(result["s3_proxy_path"], [1.0, 3.1])
    assert seen["errors"] == [] and seen["steps"][-1] == "ends"
    assert sorted(level["width"] for level in seen["levels"]) == [240, 360]
    assert {level["sound"] for level in seen["levels"]} == {"mp4a.40.2"}
    widths = [moments[0]["width"] for moments in (seen["first"], seen["second"])]
    assert sorted(widths) == [240, 360]


PICTURE = "-f lavfi -i testsrc=s=160x120:r=25:d=0.04"
STILL = {
    "one.mp4": f"{PICTURE} -f lavfi -i sine=d=1.2 -c:v libx264 -c:a aac",
    "one.mkv": f"{PICTURE} -f lavfi -i sine=d=1.2 -c:v libx264 -c:a aac",
    "short.mkv": f"{PICTURE} -f lavfi -i sine=d=0.042 -c:v ffv1 -c:a pcm_s16le",
    "two.mp4": "-f lavfi -i testsrc=s=160x120:r=2:d=1 -f lavfi -i sine=d=1.2 -c:v libx264 -bf 0 -c:a aac",
    "stands.mp4": "-f lavfi -i testsrc=s=160x120:r=25:d=1 -f lavfi -i sine=d=3.5 -c:v libx264 -c:a aac",
}


@pytest.mark.parametrize("segments", ["fmp4", "ts"])
def test_pictures_that_stand_while_sound_goes_on(program, store_dir, tmp_path, play, segments):
    """Chromium begins only where more pictures follow, until hls.js says that none do."""
    plays = []
    for name, options in STILL.items():
        stage = Stage(program("transcode-worker"), store_dir)
        source = make_clip(tmp_path / name, options)
        code, result = stage.run(s3_original_path=stage.put_original(source, name), renditions=[240], segments=segments)
        assert code == 0 and stage.check_output() and not result["renditions"][0]["copied"], result
        assert name != "short.mkv" or result["duration"] == 0.25  # Chromium does not begin with less sound
        plays += [{"url": f"/store/{result['s3_proxy_path']}", "start": start}
                  for start in ((-1, 2.5) if name == "stands.mp4" else (-1,))]
    seen = play(plays=plays)
    assert [one["ended"] for one in seen["plays"]] == [True] * len(plays), seen
    assert all(one["shown"] for one in seen["plays"]), seen
