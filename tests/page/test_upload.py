"""Uploads through the page, and what it hears while it is open."""

import contextlib
import os
import random
import subprocess

import pytest
from api import token
from s3_server import S3Server
from screen import WIDE, Screen, in_both_browsers, on_desk_and_phone, scripts
from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys
from store_client import StoreClient

PART = 8 * 1024 * 1024  # bytes of one request of the page
HOLD_PARTS = """let parts = 0;
    const send = XMLHttpRequest.prototype.send;
    XMLHttpRequest.prototype.send = function (body) {
        if (++parts === 1) send.call(this, body);
    };"""  # what is behind the first part waits for ever
HOLD_REQUEST = """let asked = 0;
    const real = window.fetch;
    window.fetch = (url, wishes) => String(url).includes('{0}') && ++asked === {1}
        ? new Promise((go) => {{ window.goOn = go; }}).then(() => real(url, wishes)) : real(url, wishes);"""
DROP = """const transfer = new DataTransfer();
    transfer.items.add(new File([new Uint8Array(1000)], arguments[1]));
    document.querySelector('main').dispatchEvent(new DragEvent(arguments[0], {bubbles: true, cancelable: true,
                                                                              dataTransfer: transfer}));"""


@pytest.fixture
def film(tmp_path):
    path = tmp_path / "holiday.mp4"
    path.write_bytes(random.Random(3).randbytes(PART + 100_000))
    return path


def choose(screen, path):
    screen.wait(lambda: screen.all("cv-uploads input[type=file]"), "a way to choose a file")
    screen.driver.find_element(By.CSS_SELECTOR, "cv-uploads input[type=file]").send_keys(str(path))


def row(screen, name, state):
    return screen.see(f".uploads > ul > li[data-state={state}]", name)


def set_status(place, video, status):
    place.queue.run("UPDATE videos SET status = %s WHERE id = %s", status, video)


@on_desk_and_phone("screen")
def test_an_upload_goes_on_after_a_reload_and_ends_with_its_text(screen, place, film):
    screen.open("/videos")
    screen.script(HOLD_PARTS)
    choose(screen, film)
    row(screen, film.name, "sending")
    kept = "return (JSON.parse(localStorage.getItem('uploads') || '[]')[0] || {}).sent"
    screen.wait(lambda: screen.script(kept) == PART, "the first part to be there")
    screen.script("localStorage.setItem('uploads', JSON.stringify(JSON.parse(localStorage.getItem('uploads')).map((one) => ({...one, sent: 0}))))")
    screen.driver.refresh()  # of a browser that did not come to note what it has sent
    row(screen, film.name, "file-needed")
    screen.see(".uploads li small", "8 MiB of 8.1 MiB")
    choose(screen, film)
    row(screen, film.name, "new")
    (video,) = place.queue.run("SELECT id::text, s3_original_path FROM videos WHERE original_name = %s"
                               " ORDER BY created_at DESC LIMIT 1", film.name)
    assert (place.store / video["s3_original_path"]).read_bytes() == film.read_bytes()

    set_status(place, video["id"], "processing")
    job = place.queue.add("embed", video_id=video["id"])
    screen.see(".uploads li small", "Learning the meaning: waiting")
    claimed = place.queue.claim_one("embed")
    assert claimed["id"] == job
    place.queue.run("UPDATE jobs SET progress = 0.41 WHERE id = %s", job)
    screen.see(".uploads li small", "41 %")
    place.queue.write_text(video["id"], ["greetings from the harbour"])
    set_status(place, video["id"], "ready")
    place.queue.run("SELECT cancel_job(%s)", job)
    row(screen, film.name, "ready")
    screen.see(".uploads .lines a", "greetings")
    screen.see(".uploads a.main").click()
    screen.wait(lambda: f"video%3A{video['id']}" in screen.driver.current_url, "the search in this video")


def test_files_are_dropped_anywhere(screen, place):
    screen.open("/videos")
    screen.see("button.main", "Upload")
    screen.script(DROP, "dragenter", "dropped.mp4")
    screen.see(".drop")
    screen.script(DROP, "drop", "dropped.mp4")
    row(screen, "dropped.mp4", "new")
    assert not screen.all(".drop")


def test_an_empty_file_is_not_sent(screen, tmp_path):
    (tmp_path / "empty.mp4").touch()
    screen.open("/videos")
    choose(screen, tmp_path / "empty.mp4")
    assert row(screen, "empty.mp4", "empty").find_element(By.CSS_SELECTOR, ".fault").text == "The file is empty."


def test_what_is_no_video_is_refused_with_words(screen):
    screen.open("/videos")
    screen.see("button.main", "Upload")
    screen.script(DROP, "drop", "letter.txt")
    assert "ends in .mp4" in row(screen, "letter.txt", "failed").text
    give_up = ".uploads button[aria-label='Cancel this upload: letter.txt']"
    screen.see(give_up).send_keys(Keys.ENTER)
    screen.wait(lambda: not screen.all(give_up), "it to go")


# ---- live ------------------------------------------------------------------------------------------


def test_the_library_hears_of_a_new_video_and_of_its_end(screen, place):
    screen.open("/videos")
    screen.see(".card")
    video = place.queue.value("INSERT INTO videos (owner_id, title, status) SELECT owner_id, 'Just now', 'processing'"
                              " FROM videos WHERE id = %s RETURNING id::text", place.videos[0])
    job = place.queue.add("embed", video_id=video)
    screen.see(f".card[data-id='{video}']", "Just now")
    set_status(place, video, "failed")
    place.queue.run("SELECT cancel_job(%s)", job)
    screen.see(f".card[data-id='{video}'] .badge", "Failed")


@pytest.fixture
def hold(screen):
    """Holds the request of that number to an address, until the page's goOn() is called."""
    with contextlib.ExitStack() as held:
        yield lambda address, number=1: held.enter_context(scripts(screen.driver, HOLD_REQUEST.format(address, number)))


def test_what_came_before_the_stream_began_is_there_afterwards(screen, place, hold):
    hold("/events?")
    screen.open("/videos")
    screen.see(".card")
    screen.wait(lambda: screen.script("return !!window.goOn"), "the stream to be asked for")
    video = place.queue.value("INSERT INTO videos (owner_id, title, status) SELECT owner_id, 'Between', 'processing'"
                              " FROM videos WHERE id = %s RETURNING id::text", place.videos[0])
    screen.script("goOn()")
    screen.see(f".card[data-id='{video}']", "Between")


def test_a_list_that_is_read_again_goes_on_to_its_end(screen, hold):
    hold("/videos?", 2)
    screen.open("/videos")
    screen.see(".card")
    screen.wait(lambda: screen.script("return !!window.goOn"), "the list to be read again")
    shown = len(screen.all(".card"))
    screen.script("scrollTo(0, document.body.scrollHeight);"
                  "new IntersectionObserver(([end]) => { window.isSeen = end.isIntersecting; }, {rootMargin: '600px'})"
                  ".observe(document.querySelector('.end'))")
    screen.wait(lambda: screen.script("return window.isSeen"), "the end to be in view")
    screen.script("goOn()")
    screen.wait(lambda: len(screen.all(".card")) > shown, "the next page")


@in_both_browsers
def test_what_came_while_the_stream_was_cut_is_there_afterwards(screen, place):
    job = place.queue.add("embed", video_id=place.film)
    screen.open(f"/jobs/{job}")
    screen.see("[data-state=queued]")
    place.gateway.end()
    screen.see(".away")
    claimed = place.queue.claim_one("embed")
    place.restart()
    screen.see("[data-state=processing]")
    screen.wait(lambda: not screen.all(".away"), "the bar to go")
    place.queue.fail(claimed, retryable=False)
    screen.see("[data-state=failed]")


@pytest.fixture(scope="module")
def bucket(place, program, driver):
    """The page of a gateway whose objects lie in a bucket, and the bucket."""
    server = S3Server()
    try:
        server.start()
        environment = server.environment("uploads")
        subprocess.run([program("cortana"), "bucket", "init"], env={**os.environ, **environment}, check=True,
                       capture_output=True)
        gateway = place.start(**environment)
        client = StoreClient(program("store-commands"), environment)
        shown = Screen(driver, f"http://127.0.0.1:{gateway.port}", token(exp=2000000000))
        shown.resize(*WIDE)
        yield shown, client
        complaints = shown.complaints()
        shown.forget()
        client.close_process()
        gateway.end()
        assert complaints == []
    finally:
        server.stop()


def test_a_bucket_gets_the_parts_from_the_browser(bucket, place, tmp_path):
    screen, client = bucket
    film = tmp_path / "far.mp4"
    film.write_bytes(random.Random(4).randbytes(16 * 1024 ** 2 + 100_000))  # two parts
    screen.open("/videos")
    choose(screen, film)
    row(screen, film.name, "new")
    (video,) = place.queue.run("SELECT s3_original_path AS key FROM videos WHERE original_name = %s", film.name)
    assert client.head(key=video["key"])["size"] == film.stat().st_size


def test_a_bucket_plays_in_the_browser(bucket, place):
    screen, client = bucket
    for path in place.store.rglob(f"*{place.film}*/**/*"):
        if path.is_file():
            client.upload(prefix=str(path.relative_to(place.store)), path=str(path))
    screen.open(f"/videos/{place.film}")
    screen.wait(lambda: screen.script("return (document.querySelector('video') || {}).readyState >= 2"), "a frame")
    screen.press("k")
    screen.wait(lambda: screen.script("return document.querySelector('video').currentTime") > 0.3, "the video to play")
    screen.press("k")
