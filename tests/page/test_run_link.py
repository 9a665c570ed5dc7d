"""From `cortana run VIDEO` to a clip on disk, by keyboard alone: what somebody does who tries this for the first time."""

import base64
import os
import pathlib
import pty
import re
import shutil
import signal
import subprocess
import tempfile
import urllib.request

import pytest
from agent import agent_page, tool
from local_installation import environment_without_services, processes_of
from media_tools import frames_of
from PIL import Image
from screen import NARROW, WIDE, Screen
from selenium.webdriver.common.keys import Keys

RATE, SECONDS = 25, 4
TEXT = "Harbour lights"
FONT = "/usr/share/fonts/truetype/dejavu/DejaVuSans.ttf"


def make_video(path):
    subprocess.run(["ffmpeg", "-v", "error", "-f", "lavfi", "-i", f"color=c=white:s=640x360:r={RATE}:d={SECONDS}", "-vf",
                    f"drawtext=fontfile={FONT}:text='{TEXT}':x=80:y=140:fontsize=48:fontcolor=black:enable='gte(t,1)'",
                    "-pix_fmt", "yuv420p", str(path)], check=True)


def last_link(terminal):
    """Reads what a person would see, until the link to what was found."""
    said = ""
    while not (found := re.search(r"page: (\S+/videos/\S+)\s", said)):
        try:
            more = os.read(terminal, 65536)
        except OSError:
            more = b""
        assert more, said
        said += more.decode()
    return found[1]


@pytest.fixture(scope="module")
def link(program):
    """The link at the end of `cortana run VIDEO` at a terminal, which keeps the page up."""
    # Where the database's user can get to, which pytest's own directories are not.
    home = pathlib.Path(tempfile.mkdtemp(prefix="cv-page-run-", dir="/tmp"))
    home.chmod(0o755)
    video = home / "evening.mp4"
    make_video(video)
    terminal, end = pty.openpty()
    running = subprocess.Popen([program("cortana"), "run", video, "--languages", "eng", "--data", home / "data"], stdin=subprocess.DEVNULL,
                               stdout=end, stderr=end, env=environment_without_services(), start_new_session=True)
    os.close(end)
    try:
        yield last_link(terminal)
    finally:
        running.send_signal(signal.SIGINT)
        while running.poll() is None:
            try:
                os.read(terminal, 65536)
            except OSError:
                running.wait()
        os.close(terminal)
        left = processes_of(home / "data")
        shutil.rmtree(home, ignore_errors=True)
        assert left == []


@pytest.mark.parametrize("driver, size, theme, begin, end", [("chromium", WIDE, "light", "1.2", "2.2"), ("chromium", NARROW, "dark", "1.4", "3.2"),
                                                              ("firefox", WIDE, "light", "1.6", "3.2")], ids=["wide", "phone", "firefox"], indirect=["driver"])
def test_from_the_link_to_a_clip_on_disk(driver, link, tmp_path, size, theme, begin, end):
    url, token = re.match(r"(http://[^/]+)/.*#t=([\w-]{22})$", link).groups()
    screen = Screen(driver, url, token)
    screen.resize(*size)
    screen.theme(theme)
    driver.get("about:blank")
    driver.get(link)
    screen.see("cv-transcript li.found", TEXT)
    assert "t=" not in driver.current_url.partition("#")[2]

    screen.press("/")
    screen.wait(lambda: driver.switch_to.active_element.tag_name == "input", "the search box")
    screen.press("lights", Keys.ENTER)
    screen.see("a.hit mark", "lights")
    screen.script("document.activeElement.blur()")
    screen.press(Keys.ARROW_DOWN)
    screen.wait(lambda: "hit" in driver.switch_to.active_element.get_attribute("class"), "the first result")
    screen.press(Keys.ENTER)
    screen.wait(lambda: screen.script("return (document.querySelector('video') || {}).readyState >= 2"), "a frame")
    screen.wait(lambda: [box.text for box in screen.all("cv-boxes span.found")] == [TEXT], "the box")

    for key, time in (("[", begin), ("]", end)):
        screen.press("g")
        screen.see("form.clock input")
        screen.press(time, Keys.ENTER)
        ms = float(time) * 1000
        screen.wait(lambda: screen.script("const video = document.querySelector('video'); return !video.seeking &&"
                                          "Math.abs(document.querySelector('cv-player').now - arguments[0]) < 1", ms), "the frame")
        screen.press(key)
    screen.press("c")
    screen.wait(lambda: driver.switch_to.active_element == screen.see(".cut button.main:enabled"), "the button")
    screen.press(Keys.ENTER)
    ours = screen.see(".clips li", f"0:0{begin} – 0:0{end}").get_attribute("data-id")  # beside the example that `run` has made
    screen.see(f".clips [data-id='{ours}'] .badge", "Done")
    screen.save_into(tmp_path / "clips")
    screen.see(f".clips [data-id='{ours}'] a").send_keys(Keys.ENTER)
    (saved,) = screen.saved(tmp_path / "clips")
    assert frames_of(saved) == round((float(end) - float(begin)) * RATE)
    assert screen.complaints() == []
    screen.forget()


def test_an_agent_cuts_a_clip_of_what_it_found(driver, link, tmp_path):
    url, code = re.match(r"(http://[^/]+)/.*#t=([\w-]{22})$", link).groups()
    screen = Screen(driver, url, code)
    with agent_page(screen) as agent:
        _, found = agent(tool("search", q="harbour lights"))
        hit = found["structuredContent"]["items"][0]
        assert (hit["text"], hit["t_start"]) == (TEXT, 1000)
        _, moment, clip = agent(tool("moment", id=hit["video_id"], t=hit["t_start"]),
                                tool("clip", video_id=hit["video_id"], t_start=hit["t_start"], t_end=3000, padding_ms=0))
    assert [one["text"] for one in moment["structuredContent"]["lines"]] == [TEXT]
    for name, content in (("moment.jpg", base64.b64decode(moment["content"][1]["data"])),
                          ("clip.mp4", urllib.request.urlopen(url + clip["structuredContent"]["url"]).read())):
        (tmp_path / name).write_bytes(content)
    assert Image.open(tmp_path / "moment.jpg").size == (640, 360)
    assert frames_of(tmp_path / "clip.mp4") == 2 * RATE
