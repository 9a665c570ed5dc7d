"""Objects of the store in a browser: what a stage wrote never acts in the page's name, and is shown as before."""

import pytest
from screen import Screen

SCRIPT = "document.title = 'ours'; fetch('/api/v1/me').then((answer) => answer.json()).then((me) => { document.title = 'ours: ' + me.role; });"
HOSTILE = {
    "html": f"<!doctype html><title>theirs</title><script>{SCRIPT}</script><img src=x onerror=\"{SCRIPT}\">",
    "svg": f"<svg xmlns='http://www.w3.org/2000/svg' onload=\"{SCRIPT}\"><script>{SCRIPT}</script></svg>",
    "xhtml": f"<html xmlns='http://www.w3.org/1999/xhtml'><head><title>theirs</title><script>{SCRIPT}</script></head></html>",
}
GRANT = """const done = arguments[arguments.length - 1];
    fetch(`/api/v1/videos/${arguments[0]}/grant`, {method: 'POST', headers: {'X-Cortana': '1'}}).then((answer) => answer.json()).then(done);"""


@pytest.fixture
def grant(screen, place):
    screen.open("/")
    screen.see(".card")
    yield screen.driver.execute_async_script(GRANT, place.film)
    screen.open("/", is_signed_in=False)
    assert [one for one in screen.complaints() if "Content Security Policy" not in one] == []


@pytest.mark.parametrize("disguise", ["", ".mp4", ".jpg", ".vtt"])
@pytest.mark.parametrize("kind", HOSTILE)
def test_no_object_runs_a_script(screen, place, grant, tmp_path, kind, disguise):
    """Signed in, somebody follows a link to such an object: to the document itself, and to one with the name of a picture."""
    key = f"thumbs/{place.film}/x.{kind}{disguise}"
    (place.store / key).write_text(HOSTILE[kind])
    screen.save_into(tmp_path / "objects")
    before = screen.driver.title
    screen.script("location.href = arguments[0]", grant["base_url"] + key)
    if disguise:
        screen.wait(lambda: screen.script("return location.pathname").endswith(key), "the object")
        assert screen.script("return document.scripts.length") == 0
    else:
        assert [one.name for one in screen.saved(tmp_path / "objects")] == [f"x.{kind}"]
        assert screen.driver.title == before
    assert "ours" not in screen.driver.title
    (place.store / key).unlink()


def test_what_is_shared_is_still_shown(screen: Screen, place, grant):
    """A clip, a poster and a text, each opened by its own address as a link that was sent does."""
    original = next((place.store / "videos/original" / place.film).iterdir())
    clip = f"videos/proxy/{place.film}/shared.mp4"
    (place.store / clip).write_bytes(original.read_bytes())
    screen.driver.get(screen.url + grant["base_url"] + clip)
    screen.wait(lambda: screen.script("return (document.querySelector('video') || {}).readyState >= 2"), "the clip's first frame")
    screen.driver.get(screen.url + grant["base_url"] + grant["poster"])
    screen.wait(lambda: screen.script("return (document.querySelector('img') || {}).naturalWidth > 0"), "the poster")
    screen.driver.get(f"{screen.url}{grant['base_url']}thumbs/{place.film}/thumbnails.vtt")
    screen.see("body", "WEBVTT")
    (place.store / clip).unlink()
