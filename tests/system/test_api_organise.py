"""How people order their videos: titles, tags, fields, collections, favourites, and many videos at once."""

import csv
import io
import uuid

import pytest
from api import ALICE, TEAM, token

OWNER = token(team_ids=[TEAM], app_metadata={"cortana_role": "admin"})
MATE = token(sub=str(uuid.uuid4()), team_ids=[TEAM], app_metadata={"cortana_role": "editor"})
STRANGER = token(sub=str(uuid.uuid4()), app_metadata={"cortana_role": "editor"})
VIEWER = token(app_metadata={"cortana_role": "viewer"})


@pytest.fixture
def ask(gateway):
    def ask(method, path, body=None, bearer=OWNER, status=200, **headers):
        answer = gateway.ask(path, bearer, method, body, **headers)
        assert answer.status == status, answer.data
        return answer.json if answer.data else None
    return ask


@pytest.fixture
def videos(place):
    """Four videos of Alice's, each with a line of its own, the newest first."""
    queue = place[1]
    queue.run("DELETE FROM videos WHERE original_name = 'w.mp4'")
    made = [str(queue.value("INSERT INTO videos (owner_id, title, original_name, s3_original_path) VALUES (%s, %s, 'w.mp4', 'x')"
                            " RETURNING id", ALICE, f"walk {n}")) for n in range(4)]
    for n, video in enumerate(made):
        queue.write_text(video, [f"pier {n}"])
    return made


def ids(page):
    return [item["id"] for item in page["items"]]


def found(ask, query):
    return sorted(hit["video_id"] for hit in ask("GET", f"/search?q={query}&limit=100")["items"])


def test_a_video_gets_its_own_words_and_they_are_shown_everywhere(ask, gateway, videos):
    change = {"title": "  Pier at night ", "description": "Windy.", "tags": ["Sea", "#sea", "night walk", " "],
              "recorded_at": "2024-05-17T20:00:00Z", "fields": {"camera": "GX80", "lens": 20}}
    changed = ask("PATCH", f"/videos/{videos[0]}", change)
    assert (changed["title"], changed["description"], changed["tags"]) == ("Pier at night", "Windy.", ["night walk", "Sea"])
    assert changed["recorded_at"].startswith("2024-05-17T20:00:00") and changed["recorded_from"] == "person" and changed["fields"] == {"camera": "GX80", "lens": 20}
    changed = ask("PATCH", f"/videos/{videos[0]}", {"add_tags": ["pier"], "remove_tags": ["SEA"], "fields": {"lens": None, "iso": 800}})
    assert changed["tags"] == ["night walk", "pier"] and changed["fields"] == {"camera": "GX80", "iso": 800}
    assert changed["title"] == "Pier at night", "what is left out stays"
    assert ask("GET", "/search?q=pier")["items"][0]["video_title"] in ("Pier at night", "walk 1", "walk 2", "walk 3")
    assert ask("PATCH", f"/videos/{videos[0]}", {"title": ""})["title"] == "w.mp4"
    assert ask("PATCH", f"/videos/{videos[0]}", {"recorded_at": None})["recorded_at"] is None


FIELDS = [{"name": "Camera", "type": "text", "required": True}, {"name": "lens", "type": "number"}, {"name": "shown", "type": "date"},
          {"name": "mood", "type": "choice", "choices": ["calm", "loud"]}]


def test_a_tenant_says_which_fields_its_videos_have(ask, place, videos):
    path = f"/videos/{videos[0]}"
    ask("PATCH", path, {"fields": {"old": [1]}})
    assert ask("GET", "/fields")["items"] == []
    tenant = {"tenant_id": ALICE}  # whose videos these are: they belong to no team
    for body, bearer, status in (({"fields": FIELDS, **tenant}, VIEWER, 403), ({"fields": FIELDS, **tenant}, STRANGER, 403), ({"fields": FIELDS, "tenant_id": str(uuid.uuid4())}, OWNER, 404),
                                 ({"fields": FIELDS + FIELDS[:1], **tenant}, OWNER, 400), ({"fields": [{"name": "mood", "type": "choice"}], **tenant}, OWNER, 400),
                                 ({"fields": [{"name": "a=b", "type": "text"}], **tenant}, OWNER, 400), ({"fields": FIELDS, **tenant}, OWNER, 204)):
        ask("PUT", "/fields", body, bearer, status)
    known = ask("GET", f"/fields?video={videos[0]}")["items"]
    assert [(one["name"], one["type"], one["required"]) for one in known] == [(one["name"], one["type"], one.get("required", False)) for one in FIELDS]
    for wrong, said in (({"camera": "GX80"}, 'there is no field "camera": the fields are Camera, lens, shown, mood'), ({"lens": 20}, 'the field "Camera" needs a value'),
                        ({"Camera": 1}, 'the field "Camera" takes a text'), ({"Camera": "x", "lens": "20"}, 'the field "lens" takes a number'),
                        ({"Camera": "x", "shown": "2026-02-31"}, 'the field "shown" takes a day, such as 2026-03-31'),
                        ({"Camera": "x", "mood": "sad"}, 'the field "mood" takes one of calm, loud')):
        assert ask("PATCH", path, {"fields": wrong}, status=400)["detail"] == said
    right = {"Camera": "GX 80", "lens": 20.5, "shown": "2026-02-28", "mood": "calm"}
    assert ask("PATCH", path, {"fields": right})["fields"] == {"old": [1], **right}, "what was there stays"
    ask("PATCH", path, {"fields": {"Camera": None}}, status=400)
    assert ask("PATCH", path, {"fields": {"old": None, "lens": None}, "title": "x"})["fields"] == {name: right[name] for name in ("Camera", "shown", "mood")}
    many = ask("POST", "/videos/bulk", {"ids": videos[:2], "fields": {"mood": "loud"}})
    assert many == {"changed": 1, "failed": [{"id": videos[1], "detail": 'the field "Camera" needs a value'}]}
    assert ask("POST", "/videos/bulk", {"ids": videos[:2], "fields": {"Camera": "gx 80"}})["changed"] == 2
    assert found(ask, 'field:"camera=GX+80"') == sorted(videos[:2]) and found(ask, "pier+field:mood=loud") == [videos[0]]
    assert found(ask, "field:mood+field:camera") == [videos[0]] and found(ask, "field:mood=calm") == []
    ask("GET", f"/fields?video={videos[0]}", bearer=STRANGER, status=404)
    assert ask("GET", "/search?q=field:", status=400)["errors"][0]["pointer"] == "q"
    ask("PUT", "/fields", {"fields": [], **tenant}, status=204)
    assert ask("PATCH", path, {"fields": {"any": True}})["fields"]["any"] is True


def test_a_change_is_refused(ask, gateway, videos):
    path = f"/videos/{videos[0]}"
    etag = gateway.ask(path, OWNER).headers["ETag"]
    ask("PATCH", path, {"title": "one"}, If_Match=etag)
    ask("PATCH", path, {"title": "two"}, If_Match=etag, status=412)
    ask("PATCH", path, {"title": "x"}, bearer=STRANGER, status=404)
    ask("PATCH", path, {"title": "x"}, bearer=VIEWER, status=403)
    for body in ({"tags": [1]}, {"add_tags": [str(n) for n in range(51)]}, {"fields": {"x": "y" * 20000}}, {"fields": []}, {"nonsense": 1}):
        ask("PATCH", path, body, status=400)
    assert ask("GET", path)["title"] == "one"


def test_videos_are_found_by_tag_and_time(ask, videos):
    for video, tag, year in ((videos[0], "Sea", 2023), (videos[1], "sea", 2024), (videos[2], "night walk", 2024)):
        ask("PATCH", f"/videos/{video}", {"tags": [tag], "recorded_at": f"{year}-06-01T00:00:00Z"})
    assert set(ids(ask("GET", "/videos?tag=SEA"))) == set(videos[:2])
    assert ids(ask("GET", "/videos?recorded_after=2024-01-01T00:00:00Z&tag=sea")) == [videos[1]]
    assert found(ask, "tag:sea") == sorted(videos[:2]) and found(ask, "pier+tag:sea+recorded:2024") == [videos[1]]
    assert found(ask, "tag:%22night+walk%22") == [videos[2]] and found(ask, "tag:sea+recorded:2023-06-01") == [videos[0]]
    assert found(ask, "bridge+tag:sea") == []
    facets = ask("GET", "/videos/facets")
    assert facets["tag"] == {"Sea": 2, "night walk": 1} and facets["recorded"] == {"2023": 1, "2024": 2}
    assert {"text": 'tag:"night walk"', "kind": "tag"} in ask("GET", "/search/suggest?q=nigh")["items"]
    ask("GET", "/search?q=pier+recorded:soon", status=400)


def test_what_was_on_screen_at_a_time_of_day(ask, gateway, videos):
    """Each line is shown for 0.9 s from the start."""
    for video, at in ((videos[0], "2026-03-01T14:05:10Z"), (videos[1], "2026-03-01T14:05:50Z"), (videos[2], "2026-03-01T13:05:10Z")):
        ask("PATCH", f"/videos/{video}", {"recorded_at": at})
    both = sorted(videos[:2])
    assert found(ask, "at:2026-03-01T14:05") == found(ask, "at:2026-03-01T14:05Z") == found(ask, "pier+at:2026-03-01T15:05%2B01:00") == both
    assert found(ask, "at:2026-03-01T14:05:10") == found(ask, "at:2026-03-01T14:05:11%2B-1s") == [videos[0]]
    assert found(ask, "at:2026-03-01T14:05:12%C2%B11s") == [], "the line was gone"
    assert found(ask, "at:2026-03-01T14:05%2B-1h") == sorted(videos[:3])
    assert found(ask, "bridge+at:2026-03-01T14:05") == []
    hit, = ask("GET", "/search?q=at:2026-03-01T13:05")["items"]
    assert hit["shown_at"].startswith("2026-03-01T13:05:10")
    assert ask("GET", f"/videos/{videos[0]}/moment?t=500")["shown_at"].startswith("2026-03-01T14:05:10.5")
    exported = gateway.ask(f"/videos/{videos[0]}/export?format=csv", OWNER).data.decode()
    assert [row["shown_at"] for row in csv.DictReader(io.StringIO(exported))] == ["2026-03-01T14:05:10.000Z"]
    subtitles = {kind: gateway.ask(f"/videos/{videos[0]}/export?format={kind}", OWNER).data.decode() for kind in ("vtt", "ass", "srt")}
    assert subtitles["vtt"].startswith("WEBVTT\n\nNOTE 2026-03-01T14:05:10.000Z\n\n1\n00:00:00.000 --> ")
    assert "Dialogue: 0,0:00:00.00,0:00:00.90,Default,2026-03-01T14:05:10.000Z," in subtitles["ass"] and "2026" not in subtitles["srt"]
    line, = gateway.ask(f"/videos/{videos[0]}/export?format=json", OWNER).json["segments"]
    assert line["shown_at"].startswith("2026-03-01T14:05:10")
    for value in ("noon", "14:05", "2026-03-01", "2026-02-30T14:05", "2026-03-01T25:05", "2026-03-01T14:05%2B-1d"):
        ask("GET", f"/search?q=at:{value}", status=400)


def test_other_recordings_of_the_same_thing(ask, place, library, videos):
    """`videos`: the talk, half of it, another talk with the same buttons; the others of tenants are never named."""
    queue, stranger = place[1], library.videos["foreign"]
    talk = [f"slide {n} of the talk about bridges" for n in range(30)]
    buttons = ["Leave the meeting", "Share your screen", "Raise your hand", "Show captions", "More reactions",
               "Mute yourself", "Participants (12)", "Record this meeting", "Breakout rooms", "Stop the video"]
    other = [f"quarter {n} of the budget in figures" for n in range(30)]
    for video, texts in ((videos[0], talk + buttons), (videos[1], talk[:14] + ["harbour"]), (videos[2], other + buttons),
                         (stranger, talk + buttons)):
        queue.write_text(video, texts)
    one, = ask("GET", f"/videos/{videos[0]}/alike")["items"]
    assert (one["video"]["id"], one["video"]["title"], one["shared_lines"], one["share"]) == (videos[1], "walk 1", 14, 1.0)
    assert [item["video"]["id"] for item in ask("GET", f"/videos/{videos[1]}/alike")["items"]] == [videos[0]]
    assert ask("GET", f"/videos/{videos[2]}/alike")["items"] == ask("GET", f"/videos/{videos[3]}/alike")["items"] == []
    assert found(ask, f"like:{videos[0]}+slide") == [videos[1]] * 14 and found(ask, f"harbour+like:{videos[0]}") == [videos[1]]
    assert set(found(ask, f"like:{videos[1]}")) == {videos[0]} and found(ask, f"like:{videos[2]}+slide") == []
    for unseen in (stranger, uuid.uuid4()):
        ask("GET", f"/videos/{unseen}/alike", status=404)
        ask("GET", f"/search?q=slide+like:{unseen}", status=400)
    queue.write_text(videos[1], ["something else"])
    assert ask("GET", f"/videos/{videos[0]}/alike")["items"] == [], "its text is another now"
    queue.write_text(videos[1], talk)
    assert ask("GET", f"/videos/{videos[0]}/alike")["items"]
    ask("DELETE", f"/videos/{videos[1]}", status=202)
    assert ask("GET", f"/videos/{videos[0]}/alike")["items"] == []
    assert not queue.value("SELECT count(*) FROM cortana.video_bands WHERE video_id = %s", videos[1])
    queue.write_text(stranger, ["hello"])


def test_a_hashtag_on_screen_is_found_beside_the_tag_of_a_video(ask, place, videos):
    ask("PATCH", f"/videos/{videos[0]}", {"tags": ["anna"]})
    before = set(found(ask, "tag:@anna"))
    assert before and videos[0] not in before and set(found(ask, "tag:anna")) == {videos[0]}
    assert found(ask, "pier+tag:anna") == [videos[0]]


def test_a_collection_has_an_order(ask, gateway, videos):
    made = ask("POST", "/collections", {"name": "Best of", "videos": [videos[2], videos[0]]}, status=201)
    path, listed = f"/collections/{made['id']}", f"/videos?collection={made['id']}"
    assert made["videos"] == 2 and ids(ask("GET", listed)) == [videos[2], videos[0]]
    ask("POST", path + "/videos", {"add": [videos[3], videos[0]], "before": videos[2]})
    assert ids(ask("GET", listed)) == [videos[3], videos[0], videos[2]]
    first = ask("GET", listed + "&limit=2")
    assert ids(first) == [videos[3], videos[0]] and ids(ask("GET", f"{listed}&limit=2&cursor={first['next']}")) == [videos[2]]
    assert ask("POST", path + "/videos", {"remove": [videos[0]]})["videos"] == 2
    assert found(ask, "pier+in:%22best+of%22") == sorted([videos[3], videos[2]]) == found(ask, f"pier+in:{made['id']}")
    assert ask("GET", f"/videos/{videos[3]}")["collections"] == [{"id": made["id"], "name": "Best of"}]
    assert ids(ask("GET", f"/collections?video={videos[3]}")) == [made["id"]] and ids(ask("GET", f"/collections?video={videos[1]}")) == []
    etag = gateway.ask(path, OWNER).headers["ETag"]
    assert ask("PATCH", path, {"name": "The best"}, If_Match=etag)["name"] == "The best"
    ask("PATCH", path, {"name": "x"}, If_Match=etag, status=412)
    ask("POST", path + "/videos", {"add": [str(uuid.uuid4())]}, status=400)
    for bearer in (STRANGER, MATE):
        ask("GET", path, bearer=bearer, status=404)
        ask("PATCH", path, {"name": "x"}, bearer=bearer, status=404)
        ask("POST", path + "/videos", {"remove": [videos[3]]}, bearer=bearer, status=404)
        ask("DELETE", path, bearer=bearer, status=404)
    ask("DELETE", path, status=204)
    ask("GET", path, status=404)
    assert ask("GET", f"/videos/{videos[3]}")["collections"] == []


def test_a_team_has_collections_and_sees_its_own_videos_in_them(ask, library, videos):
    made = ask("POST", "/collections", {"name": "Ours", "team_id": TEAM, "videos": [videos[0], library.videos["team"]]}, status=201)
    assert made["id"] in ids(ask("GET", "/collections", bearer=MATE))
    assert ids(ask("GET", f"/videos?collection={made['id']}", bearer=MATE)) == [library.videos["team"]]
    ask("PATCH", f"/collections/{made['id']}", {"name": "All of us"}, bearer=MATE)
    ask("POST", "/collections", {"name": "x", "team_id": str(uuid.uuid4())}, status=400)


def test_favourites_are_each_callers_own(ask, library, videos):
    video = library.videos["team"]
    ask("PUT", f"/videos/{video}/favourite", status=204)
    ask("PUT", f"/videos/{video}/favourite", status=204)
    assert ids(ask("GET", "/videos?favourite=true")) == [video] and ids(ask("GET", "/videos?favourite=true", bearer=MATE)) == []
    assert ask("GET", f"/videos/{video}")["favourite"] and not ask("GET", f"/videos/{video}", bearer=MATE)["favourite"]
    ask("PUT", f"/videos/{video}/favourite", bearer=STRANGER, status=404)
    ask("DELETE", f"/videos/{video}/favourite", status=204)
    assert ids(ask("GET", "/videos?favourite=true")) == []
    ask("PUT", f"/videos/{videos[0]}/favourite", bearer=VIEWER, status=204)  # a viewer may, too
    ask("DELETE", f"/videos/{videos[0]}/favourite", bearer=VIEWER, status=204)


def test_many_videos_are_changed_at_once(ask, library, videos):
    collection = ask("POST", "/collections", {"name": "Many"}, status=201)["id"]
    nobody = str(uuid.uuid4())
    done = ask("POST", "/videos/bulk", {"ids": [*videos, library.videos["foreign"], nobody], "add_tags": ["trip"], "favourite": True,
                                        "collection": collection})
    assert done["changed"] == 4 and {one["id"] for one in done["failed"]} == {library.videos["foreign"], nobody}
    assert all("nothing here" in one["detail"] for one in done["failed"])
    assert ids(ask("GET", f"/videos?collection={collection}&favourite=true&tag=trip")) == videos
    ask("POST", "/videos/bulk", {"ids": [nobody, "x"]}, status=400)
    ask("POST", "/videos/bulk", {"ids": []}, status=400)
    assert ask("POST", "/videos/bulk", {"ids": videos[:2], "action": "delete"})["changed"] == 2
    assert ids(ask("GET", f"/videos?collection={collection}")) == videos[2:]
    assert ask("POST", "/videos/bulk", {"ids": videos[2:], "action": "reindex"})["changed"] == 0, "nothing is kept of them"
