"""The smallest rendition can be played while the others are under way, when that is asked for."""
import json
import os
import re
import subprocess

import pytest
from media_tools import Stage, make_clip, multivariant

SMALLEST = "426x240.m3u8"


@pytest.fixture
def stage(program, store_dir):
    return Stage(program("transcode-worker"), store_dir)


@pytest.fixture(scope="module")
def source(tmp_path_factory):
    return clip(tmp_path_factory.mktemp("progressive"), 18)


def clip(folder, seconds):
    return make_clip(folder / "a.mp4", f"-f lavfi -i testsrc=s=640x360:r=25:d={seconds} -f lavfi -i "
                     f"sine=d={seconds} -c:v libx264 -preset ultrafast -c:a aac")


def look(folder):
    """What a player finds at this moment: {playlist: text}; everything that is named must be there."""
    found = {}
    waiting = ["index.m3u8"]
    while waiting:
        name = waiting.pop()
        try:
            found[name] = (folder / name).read_text()
        except FileNotFoundError:
            assert name == "index.m3u8", f"{name} is named and missing"
            continue
        names = [line for line in found[name].splitlines() if line and line[0] != "#"]
        names += re.findall(r'URI="([^"]+)"', found[name])
        waiting += [n for n in names if n.endswith(".m3u8") and n not in found]
        for segment in (n for n in names if not n.endswith(".m3u8")):
            assert (folder / segment).stat().st_size > 0
    return found


def watch(stage, source, *arguments, environment=None, **payload):
    """Looks all the time while the stage runs; (what was seen, the result)"""
    payload = {"video_id": stage.video_id, "s3_original_path": stage.put_original(source),
               "renditions": [360, 240], "copy": False, **payload}
    folder = stage.store / "videos" / "proxy" / stage.video_id
    seen = []
    with subprocess.Popen([stage.program, "--once", "--threads", "2", *arguments], text=True,
                          stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
                          env={**os.environ, "STORE_URL": f"dir:{stage.store}",
                               **(environment or {})}) as process:
        process.stdin.write(json.dumps(payload))
        process.stdin.close()
        while process.poll() is None:
            now = look(folder)
            if now and (not seen or now != seen[-1]):
                seen.append(now)
        result = json.loads(process.stdout.read())
        assert process.returncode == 0, result
    seen.append(look(folder))
    return seen, result


def growing(seen):
    return [now for now in seen if "#EXT-X-ENDLIST" not in now.get(SMALLEST, "#EXT-X-ENDLIST")]


def test_the_smallest_rendition_grows(stage, source):
    seen, result = watch(stage, source, "--progressive")
    early = growing(seen)
    lengths = []
    for now in early:
        assert set(now) == {"index.m3u8", SMALLEST, "sound.m3u8"}
        for name in (SMALLEST, "sound.m3u8"):
            assert "#EXT-X-PLAYLIST-TYPE:EVENT" in now[name]
        lengths.append(now[SMALLEST].count("#EXTINF"))
    assert len(lengths) >= 2 and lengths == sorted(lengths) and lengths[0] < 6
    # A playlist only grows, and says the same of what it has said before.
    texts = [now[SMALLEST] for now in seen]
    head = [text.replace(":EVENT", ":VOD").replace("#EXT-X-ENDLIST\n", "") for text in texts]
    assert all(later.startswith(earlier) for earlier, later in zip(head, head[1:]))
    last = seen[-1]
    assert all("#EXT-X-PLAYLIST-TYPE:VOD" in last[r["name"] + ".m3u8"] for r in result["renditions"])
    variants, _ = multivariant(stage.store / result["s3_proxy_path"])
    assert len(variants) == 2
    stage.check_output()


def test_a_whole_proxy_is_not_replaced_by_the_beginning_of_one(stage, tmp_path):
    source = clip(tmp_path, 6)
    seen, _ = watch(stage, source)  # and playlists come last by default
    assert growing(seen) == []
    seen, _ = watch(stage, source, environment={"CORTANA_PROGRESSIVE": "1"})
    assert growing(seen) == [] and all("640x360.m3u8" in now for now in seen)
    stage.check_output()


def test_a_failure_takes_its_playlists_back(stage, source):
    whole = source.read_bytes()
    payload = {"video_id": stage.video_id, "s3_original_path": stage.put_original(whole),
               "renditions": [360, 240], "copy": False, "progressive": True}
    folder = stage.store / "videos" / "proxy" / stage.video_id
    with subprocess.Popen([stage.program, "--once", "--threads", "2"], text=True,
                          stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
                          env={**os.environ, "STORE_URL": f"dir:{stage.store}"}) as process:
        process.stdin.write(json.dumps(payload))
        process.stdin.close()
        while not look(folder):
            assert process.poll() is None
        process.terminate()
        assert process.wait(300) != 0
    assert stage.keys() == []
