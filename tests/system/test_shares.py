"""Links for people without an account: a stranger sees what was shared, and nothing else."""

import json
import re
import uuid

import pytest
from api import ALICE, BOB, DOCUMENT, TEAM, token

EDITOR = token(app_metadata={"team_id": TEAM, "cortana_role": "editor"})
ADMIN = token(app_metadata={"team_id": TEAM, "cortana_role": "admin"})
VIEWER = token(app_metadata={"team_id": TEAM, "cortana_role": "viewer"})
OTHER = token(sub=BOB, app_metadata={"cortana_role": "admin"})
SERVICE = token(role="service_role", sub=None)
# Four segments of four seconds; in "s" they are byte ranges of one object.
HEAD = "#EXTM3U\n#EXT-X-VERSION:7\n#EXT-X-TARGETDURATION:4\n#EXT-X-MEDIA-SEQUENCE:0\n#EXT-X-PLAYLIST-TYPE:VOD\n#EXT-X-MAP:URI=\"init_{0}.mp4\"\n"
OWN_OBJECTS = HEAD.format("v") + "".join(f"#EXTINF:4.000000,\nsegment_v_{n:05}.m4s\n" for n in range(4)) + "#EXT-X-ENDLIST\n"
ONE_OBJECT = HEAD.format("s") + "".join(f"#EXTINF:4.000000,\n#EXT-X-BYTERANGE:100@{100 * n}\nsegment_s_00000.m4s\n" for n in range(4)) + "#EXT-X-ENDLIST\n"


class Shop:
    """A video of Alice's team, and one of Bob's, with files, lines, kept pictures, a clip and a saved search."""

    def __init__(self, queue, store):
        self.queue, self.store, self.videos, self.searches = queue, store, {}, {}
        for name, owner, team in (("own", ALICE, TEAM), ("foreign", BOB, None)):
            self.searches[name] = str(queue.value("INSERT INTO saved_searches (owner_id, tenant_id, name, query) VALUES (%s, %s, %s, 'bridge')"
                                                  " RETURNING id", owner, team or owner, f"bridges {name}"))
            video = self.videos[name] = str(uuid.uuid4())
            queue.run("INSERT INTO videos (id, owner_id, team_id, title, original_name, s3_original_path, s3_proxy_path, s3_thumb_path, status,"
                      " duration, resolution) VALUES (%s, %s, %s, %s, 'a walk.mp4', %s, %s, %s, 'ready', 16, '1280x720')", video, owner, team,
                      f'The <b> "{name}"', f"videos/original/{video}/master.mp4", f"videos/proxy/{video}/index.m3u8", f"thumbs/{video}/poster.webp")
            for key, data in (("videos/proxy/{}/index.m3u8", "#EXTM3U\n#EXT-X-STREAM-INF:BANDWIDTH=1\nv.m3u8\n"), ("videos/proxy/{}/v.m3u8", OWN_OBJECTS),
                              ("videos/proxy/{}/s.m3u8", ONE_OBJECT), ("videos/proxy/{}/init_v.mp4", "init"), ("videos/proxy/{}/chunk_v.json", "{}"),
                              *((f"videos/proxy/{{}}/segment_v_{n:05}.m4s", f"segment {n}") for n in range(4)),
                              ("videos/proxy/{}/segment_s_00000.m4s", "".join(str(n) * 100 for n in range(4))),
                              ("thumbs/{}/poster.webp", "poster"), ("thumbs/{}/thumbnails.vtt", "WEBVTT\n"), ("thumbs/{}/sprite_0.webp", "sprites"),
                              ("videos/original/{}/master.mp4", "original"), *((f"frames/{{}}/{t}.jpg", f"frame {t}") for t in (0, 5000, 12000))):
                (store / key.format(video)).parent.mkdir(parents=True, exist_ok=True)
                (store / key.format(video)).write_text(data)
            for first, last in ((0, 5000), (5000, 12000), (12000, 16000)):
                queue.run("INSERT INTO kept_frames (video_id, t_ms, t_start, t_end, key) VALUES (%s, %s, %s, %s, %s)", video, first, first, last,
                          f"frames/{video}/{first}.jpg")
            queue.write_text(video, [{"text": f"the old bridge at {t}", "t_start": t, "t_end": t + 900} for t in (0, 5000, 7000, 12000)])
        own = self.videos["own"]
        self.clip = str(queue.value("SELECT clip_id FROM request_clip(%s, 5000, 6000, 0)", own))
        path = f"videos/clips/{own}/{self.clip}.mp4"
        (store / path).parent.mkdir(parents=True, exist_ok=True)
        (store / path).write_text("the clip")
        queue.run("UPDATE jobs SET status = 'processing', locked_by = 'w', locked_until = now() + interval '1 hour', lease_token = 1"
                  " WHERE job_type = 'clip_generate'")
        queue.run("UPDATE jobs SET status = 'done', result = jsonb_build_object('clip_path', %s::text) WHERE job_type = 'clip_generate'", path)


@pytest.fixture(scope="module")
def shop(place, store):
    return Shop(place[1], store)


@pytest.fixture(scope="module")
def gateway(start_gateway, shop):
    return start_gateway()


@pytest.fixture(autouse=True)
def allowed(gateway, shop):
    """Alice's team allows links; none is there before or after."""
    assert gateway.ask(f"/tenants/{TEAM}/sharing", ADMIN, "PUT", {"allowed": True}).status == 204
    yield
    shop.queue.run("DELETE FROM cortana.shares; DELETE FROM cortana.sharing_tenants")


def share(gateway, bearer=EDITOR, status=201, **what):
    answer = gateway.ask("/shares", bearer, "POST", what)
    assert answer.status == status, answer.data
    return answer.json


def code_of(made):
    assert re.fullmatch(r"/s/[A-Za-z0-9_-]{22}", made["link"]) and made["embed"] == made["link"].replace("/s/", "/embed/")
    return made["link"].rsplit("/", 1)[1]


def open_share(gateway, made, status=200, query=""):
    answer = gateway.ask(f"/shared/{code_of(made)}{query}", method="POST")
    assert answer.status == status, answer.data
    return answer.json


def lines(gateway, made):
    return [line["text"] for line in gateway.ask(f"/shared/{code_of(made)}/lines").json["items"]]


def read(gateway, path, **headers):
    return gateway.ask(path, base="", **headers)


def file(gateway, opened, key, **headers):
    return read(gateway, opened["base_url"] + key, **headers)


def proxy(shop, name, video="own"):
    return f"videos/proxy/{shop.videos[video]}/{name}"


# ---- who may share -----------------------------------------------------------------------------------------


def test_a_tenant_allows_links_first(gateway, shop):
    assert gateway.ask(f"/tenants/{TEAM}/sharing", ADMIN, "PUT", {"allowed": False}).status == 204
    refused = share(gateway, video_id=shop.videos["own"], status=409)
    assert "an administrator can allow them" in refused["detail"]
    for bearer, may_change in ((EDITOR, False), (ADMIN, True), (SERVICE, True)):
        told = gateway.ask(f"/sharing?video={shop.videos['own']}", bearer).json
        assert told == {"tenant_id": TEAM, "allowed": False, "may_change": may_change}
    assert gateway.ask("/sharing", EDITOR).json["tenant_id"] == TEAM
    assert gateway.ask(f"/sharing?video={shop.videos['foreign']}", EDITOR).status == 404
    for bearer, status in ((EDITOR, 403), (OTHER, 404), (None, 401)):
        assert gateway.ask(f"/tenants/{TEAM}/sharing", bearer, "PUT", {"allowed": True}).status == status
    assert gateway.ask(f"/tenants/{TEAM}/sharing", SERVICE, "PUT", {"allowed": True}).status == 204
    assert [one["sharing"] for one in gateway.ask("/tenants", SERVICE).json["items"] if one["tenant_id"] == TEAM] == [True]
    share(gateway, video_id=shop.videos["own"])


def test_links_stop_while_the_tenant_allows_none(gateway, shop):
    made = share(gateway, video_id=shop.videos["own"])
    gateway.ask(f"/tenants/{TEAM}/sharing", ADMIN, "PUT", {"allowed": False})
    open_share(gateway, made, 404)
    assert gateway.ask("/shares", EDITOR).json["items"][0]["state"] == "off"
    gateway.ask(f"/tenants/{TEAM}/sharing", ADMIN, "PUT", {"allowed": True})
    open_share(gateway, made)


@pytest.mark.parametrize("bearer, status", [(VIEWER, 403), (None, 401), (OTHER, 404)], ids=["viewer", "nobody", "other"])
def test_who_may_not_share(gateway, shop, bearer, status):
    gateway.ask(f"/tenants/{BOB}/sharing", OTHER, "PUT", {"allowed": True})
    for what in ({"video_id": shop.videos["own"]}, {"clip_id": shop.clip}, {"search_id": shop.searches["own"]}):
        share(gateway, bearer, status, **what)


@pytest.mark.parametrize("what", [
    {}, {"video_id", "clip_id"}, {"video_id", "from_ms"}, {"video_id", "to_ms"}, {"clip_id", "from_ms", "to_ms"},
    {"video_id", "from_ms", "to_ms", "may_download"}, {"search_id", "may_download"}])
def test_what_makes_no_sense_is_refused(gateway, shop, what):
    values = {"video_id": shop.videos["own"], "clip_id": shop.clip, "search_id": shop.searches["own"], "from_ms": 1000, "to_ms": 2000, "may_download": True}
    share(gateway, status=400, **{name: values[name] for name in what})
    share(gateway, status=400, video_id=shop.videos["own"], from_ms=2000, to_ms=2000)


def test_links_are_listed_counted_and_revoked(gateway, shop):
    made = share(gateway, video_id=shop.videos["own"], days=2)
    assert (made["kind"], made["state"], made["views"], made["made_by"]) == ("video", "open", 0, ALICE)
    for query in ("", "", "?again=true"):
        open_share(gateway, made, query=query)
    listed = gateway.ask(f"/shares?video={shop.videos['own']}", VIEWER).json["items"]
    assert [(one["id"], one["views"], one["seen_at"] is not None) for one in listed] == [(made["id"], 2, True)]
    assert "link" not in listed[0] and code_of(made) not in json.dumps(listed)
    assert shop.queue.value("SELECT count(*) FROM cortana.shares s WHERE s::text ~ %s", code_of(made)) == 0  # the digest alone
    assert gateway.ask("/shares", OTHER).json["items"] == []
    for bearer, status in ((OTHER, 404), (VIEWER, 403), (EDITOR, 204), (EDITOR, 404)):
        assert gateway.ask(f"/shares/{made['id']}", bearer, "DELETE").status == status
    open_share(gateway, made, 404)
    assert gateway.ask("/shares", EDITOR).json["items"][0]["state"] == "revoked"
    shop.queue.run("UPDATE cortana.shares SET revoked_at = now() - interval '31 days'")
    share(gateway, video_id=shop.videos["own"])
    assert len(gateway.ask("/shares", EDITOR).json["items"]) == 1  # the old one is gone


def test_the_code_is_in_no_log(gateway, shop):
    made = share(gateway, video_id=shop.videos["own"])
    open_share(gateway, made)
    assert shop.queue.value("SELECT count(*) FROM cortana.audit_log a WHERE a::text ~ %s", code_of(made)) == 0
    assert code_of(made) not in json.dumps(gateway.process.log())


def test_a_link_ends_like_one_that_never_was(gateway, shop):
    made = share(gateway, video_id=shop.videos["own"], days=1)
    never = gateway.ask(f"/shared/{'A' * 22}", method="POST").without_id()
    shop.queue.run("UPDATE cortana.shares SET ends_at = now()")
    for path, method in (("", "POST"), ("/lines", "GET"), ("/picture", "GET")):
        answer = gateway.ask(f"/shared/{code_of(made)}{path}", method=method)
        assert (answer.status, answer.without_id()) == (404, never)
    assert gateway.ask(f"/oembed?url=http://a/s/{code_of(made)}").status == 404


def test_a_link_ends_with_its_video(gateway, shop):
    video = shop.queue.value("INSERT INTO videos (owner_id, team_id, s3_original_path) VALUES (%s, %s, 'videos/x') RETURNING id", ALICE, TEAM)
    made = share(gateway, video_id=str(video))
    assert open_share(gateway, made)["playlist"] is None  # it cannot be played yet
    assert gateway.ask(f"/videos/{video}", EDITOR, "DELETE").status == 202
    open_share(gateway, made, 404)
    assert gateway.ask("/shares", EDITOR).json["items"] == []


# ---- what a stranger sees ----------------------------------------------------------------------------------


def test_a_whole_video(gateway, shop):
    made = share(gateway, video_id=shop.videos["own"], at_ms=5500)
    opened = open_share(gateway, made)
    assert (opened["kind"], opened["title"], opened["at_ms"], opened["original"]) == ("video", 'The <b> "own"', 5500, None)
    for key, data in ((opened["playlist"], b"v.m3u8"), (proxy(shop, "v.m3u8"), OWN_OBJECTS.encode()), (proxy(shop, "segment_v_00003.m4s"), b"segment 3"),
                      (opened["poster"], b"poster"), (opened["thumbnails"], b"WEBVTT")):
        answer = file(gateway, opened, key)
        assert answer.status == 200 and data in answer.data, key
    assert file(gateway, opened, f"videos/original/{shop.videos['own']}/master.mp4").status == 404
    assert len(lines(gateway, made)) == 4
    assert gateway.ask(f"/shared/{code_of(made)}/picture").data == b"frame 5000"


def test_with_the_right_to_download(gateway, shop):
    opened = open_share(gateway, share(gateway, video_id=shop.videos["own"], may_download=True))
    answer = file(gateway, opened, opened["original"] + "?name=a-walk.mp4")
    assert (answer.data, answer.headers["Content-Disposition"]) == (b"original", 'attachment; filename="a-walk.mp4"')


def test_a_part_of_a_video_is_all_there_is(gateway, shop):
    """Segments, lines and pictures of 5 to 7 s, and of no other time."""
    made = share(gateway, video_id=shop.videos["own"], from_ms=5000, to_ms=6999, at_ms=5200)
    opened = open_share(gateway, made)
    assert opened["kind"] == "moment" and {"poster", "thumbnails", "original"}.isdisjoint(opened)
    assert lines(gateway, made) == ["the old bridge at 5000"]
    assert gateway.ask(f"/shared/{code_of(made)}/picture").data == b"frame 5000"
    assert file(gateway, opened, opened["playlist"]).status == 200
    playlist = file(gateway, opened, proxy(shop, "v.m3u8")).data.decode()
    assert playlist == HEAD.format("v").replace("VERSION:7", "VERSION:8") + "#EXT-X-GAP\n#EXTINF:4.000000,\ngap\n#EXTINF:4.000000,\nsegment_v_00001.m4s\n#EXT-X-ENDLIST\n"
    statuses = {name: file(gateway, opened, proxy(shop, name)).status for name in (
        "init_v.mp4", *(f"segment_v_{n:05}.m4s" for n in range(4)), "segment_x_00001.m4s", "segment_v.m4s", "chunk_v.json", "gap")}
    assert [name for name, status in statuses.items() if status == 200] == ["init_v.mp4", "segment_v_00001.m4s"]
    assert set(statuses.values()) == {200, 404}
    for key in (f"thumbs/{shop.videos['own']}/poster.webp", f"thumbs/{shop.videos['own']}/thumbnails.vtt", f"thumbs/{shop.videos['own']}/sprite_0.webp",
                f"videos/original/{shop.videos['own']}/master.mp4", f"frames/{shop.videos['own']}/5000.jpg"):
        assert file(gateway, opened, key).status == 404, key


@pytest.mark.parametrize("asked, status", [("bytes=100-199", 206), ("bytes=120-130", 206), ("bytes=0-99", 404), ("bytes=99-150", 404), ("bytes=100-200", 404),
                                           ("bytes=300-", 404), ("bytes=-100", 404), (None, 404), ("bytes=100-199,0-5", 404)])
def test_bytes_of_an_object_with_other_times(gateway, shop, asked, status):
    opened = open_share(gateway, share(gateway, video_id=shop.videos["own"], from_ms=5000, to_ms=6999))
    answer = file(gateway, opened, proxy(shop, "segment_s_00000.m4s"), **({"Range": asked} if asked else {}))
    assert answer.status == status and (status == 404 or set(answer.data) == {ord("1")})


def test_a_moment_without_a_picture_of_its_own_has_none(gateway, shop):
    shop.queue.run("UPDATE kept_frames SET t_end = 4000 WHERE video_id = %s AND t_ms = 0", shop.videos["own"])
    made = share(gateway, video_id=shop.videos["own"], from_ms=4100, to_ms=4900)
    assert open_share(gateway, made)["has_picture"] is False
    assert gateway.ask(f"/shared/{code_of(made)}/picture").status == 404


def test_a_clip(gateway, shop):
    opened = open_share(gateway, share(gateway, clip_id=shop.clip))
    assert (opened["kind"], opened["format"]) == ("clip", "mp4") and "base_url" not in opened
    assert read(gateway, opened["url"]).data == b"the clip"
    base = opened["url"].split("/videos/")[0] + "/"
    for key in (proxy(shop, "index.m3u8"), f"videos/original/{shop.videos['own']}/master.mp4", f"thumbs/{shop.videos['own']}/poster.webp",
                f"videos/clips/{shop.videos['own']}/{uuid.uuid4()}.mp4"):
        assert read(gateway, base + key).status == 404
    made = share(gateway, clip_id=shop.clip)
    assert gateway.ask(f"/shared/{code_of(made)}/lines").status == 404
    assert gateway.ask(f"/shared/{code_of(made)}/picture").data == b"frame 5000"


def test_a_reel_needs_the_tenants_of_all_its_videos(gateway, shop):
    reel = gateway.ask("/clips/reel", SERVICE, "POST", {"q": "bridge"}).json
    name = f"videos/clips/{reel['video_id']}/{reel['id']}.mp4"
    shop.queue.run("UPDATE jobs SET status = 'processing' WHERE id = %s", reel["job_id"])
    shop.queue.run("UPDATE jobs SET status = 'done', result = jsonb_build_object('clip_path', %s::text) WHERE id = %s", name, reel["job_id"])
    (shop.store / name).parent.mkdir(parents=True, exist_ok=True)
    (shop.store / name).write_text("the film")
    share(gateway, SERVICE, 409, clip_id=reel["id"])
    gateway.ask(f"/tenants/{BOB}/sharing", OTHER, "PUT", {"allowed": True})
    share(gateway, EDITOR, 404, clip_id=reel["id"])
    made = share(gateway, SERVICE, clip_id=reel["id"])
    opened = open_share(gateway, made)
    assert (opened["kind"], opened["title"], read(gateway, opened["url"]).data) == ("clip", "bridge", b"the film")
    gateway.ask(f"/tenants/{BOB}/sharing", OTHER, "PUT", {"allowed": False})
    open_share(gateway, made, 404)


def test_a_saved_search(gateway, shop):
    made = share(gateway, search_id=shop.searches["own"])
    opened = open_share(gateway, made)
    assert opened["kind"] == "search" and opened["title"] == "bridges own" and "base_url" not in opened
    assert [(one["video"], one["moments"][0]["text"]) for one in opened["found"]] == [(shop.videos["own"], "the old bridge at 0")]
    assert gateway.ask(f"/shared/{code_of(made)}/picture?video={shop.videos['own']}").data == b"frame 0"
    assert gateway.ask(f"/shared/{code_of(made)}/picture?video={shop.videos['foreign']}").status == 404
    assert gateway.ask(f"/shared/{code_of(made)}/lines").status == 404


# ---- what a stranger does not get ------------------------------------------------------------------------------


def test_other_videos_and_other_rights(gateway, shop):
    """A link's grant is for its own thing, and cannot be changed into another."""
    opened = open_share(gateway, share(gateway, video_id=shop.videos["own"], from_ms=5000, to_ms=6999))
    for name in ("index.m3u8", "v.m3u8", "segment_v_00001.m4s"):
        assert file(gateway, opened, proxy(shop, name, "foreign")).status == 404
    grant = opened["base_url"].split("/")[2]
    for at in range(0, len(grant), 3):
        other = grant[:at] + ("A" if grant[at] != "A" else "B") + grant[at + 1:]
        assert read(gateway, f"/media/{other}/{proxy(shop, 'segment_v_00002.m4s')}").status == 404
        assert read(gateway, f"/media/{other}/{proxy(shop, 'segment_v_00001.m4s')}").status == 404


def test_a_code_is_no_credential(gateway, shop):
    """Every other operation refuses it, as a token, a cookie and a parameter."""
    code = code_of(share(gateway, video_id=shop.videos["own"]))
    open_to_all = {name for methods in DOCUMENT["paths"].values() for name in (one["operationId"] for one in methods.values() if one.get("security") == [])}
    assert {"open_share", "shared_lines", "shared_picture", "oembed"} <= open_to_all
    ids = {"videos": shop.videos["own"], "clips": shop.clip, "saved-searches": shop.searches["own"], "tenants": TEAM}
    asked = 0
    for path, methods in DOCUMENT["paths"].items():
        for method, operation in methods.items():
            if operation["operationId"] in open_to_all:
                continue
            target = re.sub(r"\{\w+\}", ids.get(path.split("/")[1], str(uuid.uuid4())), path)
            for headers in ({}, {"Authorization": f"Bearer {code}"}, {"Cookie": f"cortana={code}"}):
                answer = gateway.ask(target, method=method.upper(), **headers)
                assert answer.status in (401, 403, 400, 411, 415), (method, path, answer.status)
                assert b"bridge" not in answer.data
                asked += 1
    assert asked > 300


def test_strangers_are_limited_by_address(own_gateway, shop, gateway):
    made = share(gateway, video_id=shop.videos["own"])
    own = own_gateway(CORTANA_API_RATES="write=0.01:3")
    assert [own.ask(f"/shared/{code_of(made)}", method="POST").status for _ in range(4)] == [200] * 3 + [429]


def test_oembed(gateway, shop):
    made = share(gateway, video_id=shop.videos["own"])
    answer = gateway.ask(f"/oembed?url=https://videos.example.net{made['link']}&maxwidth=320").json
    assert (answer["type"], answer["width"], answer["height"], answer["title"]) == ("video", 320, 180, 'The <b> "own"')
    assert f'<iframe src="https://videos.example.net{made["embed"]}" width="320" height="180"' in answer["html"]
    assert answer["thumbnail_url"] == f"https://videos.example.net/api/v1/shared/{code_of(made)}/picture"
    for url in (f"https://a/{code_of(made)}", f'https://a"/s/{code_of(made)}', f"javascript:/s/{code_of(made)}", f"https://a/s/{'A' * 22}"):
        assert gateway.ask(f"/oembed?url={url.replace(chr(34), '%22')}").status == 404
