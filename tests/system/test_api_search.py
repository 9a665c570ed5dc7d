"""Search for people: operators, filters, facets, groups, pages, suggestions, timeline."""

import urllib.parse
import uuid

import pytest
from api import ALICE, BOB, DOCUMENT, TEAM, Library, check_body, content_of, token

OWNER = token(app_metadata={"team_id": TEAM})
STRANGER = token(sub=str(uuid.uuid4()))


@pytest.fixture(scope="module")
def library(place):
    """Three videos with seven lines each that all hit "bridge"; one of them also has other lines."""
    made = Library(place[1])
    extra = str(place[1].value(
        "INSERT INTO videos (owner_id, title, original_name, s3_original_path, status, duration) VALUES"
        " (%s, 'The harbour', 'b.mp4', 'videos/original/y/master.mp4', 'ready', 10) RETURNING id", ALICE))
    place[1].write_text(extra, [
        {"text": text, "language": language, "confidence": confidence, "t_start": t, "t_end": t + 1900, "entities": entities} for t, text, language, confidence, entities in (
            (0, "bridge at https://example.org", "deu", 0.5,
             [{"type": "url", "value": "https://example.org", "normalized_value": "https://example.org"}]),
            (8000, "no #bridges here", "eng", 0.95,
             [{"type": "hashtag", "value": "#bridges"}]))])
    made.videos["extra"] = extra
    return made


def ask(gateway, path, operation, status=200, bearer=OWNER, **query):
    answer = gateway.ask(f"{path}?{urllib.parse.urlencode(query)}", bearer)
    assert answer.status == status, answer.data
    content = content_of(DOCUMENT["paths"][operation]["get"], status)
    return check_body(answer, next(iter(content.values()))["schema"])


def search(gateway, q, **more):
    return ask(gateway, "/search", "/search", q=q, **more)


def test_filters_choose_among_the_hits(gateway, library):
    own, extra = library.videos["own"], library.videos["extra"]
    assert search(gateway, "bridge")["of"] == 16
    assert search(gateway, "bridge", video=own)["of"] == 7
    for q, more, videos, count in ((f"bridge video:{own}", {}, {own}, 7), ("bridge owner:me", {}, {own, extra}, 9),
                                   (f"bridge team:{TEAM}", {}, {library.videos["team"]}, 7), ("bridge kind:url", {}, {extra}, 1),
                                   ("bridge", {"kind": "hashtag"}, {extra}, 1), ("bridge conf:0.93", {}, {extra}, 1),
                                   ("bridge", {"lang": "deu"}, {extra}, 1), (f"bridge owner:{BOB}", {}, set(), 0),
                                   (f"bridge video:{library.videos['foreign']}", {}, set(), 0)):
        found = search(gateway, q, limit=100, **more)
        assert ({item["video_id"] for item in found["items"]}, found["of"]) == (videos, count), q
        assert found["capped"] is False and found["next"] is None


@pytest.mark.parametrize("q, words", [("(old OR new) bridge", "parentheses are not part"), ("color:red bridge", "color: is not a field"),
                                      ("lang:xyz bridge", "lang:xyz: there is no"), ("kind:x bridge", "kind:url"), ("owner:x bridge", "owner:me"), ("conf:7 bridge", "conf:0.8"),
                                      ("video:1 bridge", "id of one"), ("kind:url", "add a word")])
def test_what_is_mistyped_is_explained(gateway, q, words):
    problem = ask(gateway, "/search", "/search", 400, q=q)
    assert words in problem["detail"] and problem["errors"] == [{"pointer": "q", "detail": problem["detail"]}]


def test_either_of_two_and_a_sign_alone(gateway, library):
    assert {item["text"] for item in search(gateway, "example OR old", limit=100)["items"]} == {
        item["text"] for q in ("example", "old") for item in search(gateway, q, limit=100)["items"]}
    assert {item["kinds"][0] for item in search(gateway, "@", limit=100)["items"]} == {"mention"}
    assert [item["text"] for item in search(gateway, "#")["items"]] == ["no #bridges here"]


def test_facets_count_what_passes(gateway, library):
    facets = search(gateway, "bridge", facets="true", limit=1)["facets"]
    assert facets["kind"] == {"mention": 14, "url": 1, "hashtag": 1} and facets["language"] == {"eng": 15, "deu": 1}
    assert sum(facets["match"].values()) == 16 and facets["owner"][ALICE] == 9 and BOB not in facets["owner"]
    assert {entry["id"]: entry["count"] for entry in facets["video"]} == {
        library.videos["own"]: 7, library.videos["team"]: 7, library.videos["extra"]: 2}
    assert search(gateway, "bridge", facets="true", kind="url")["facets"]["kind"] == {"url": 1}


def pages(gateway, q, **more):
    found, cursor = [], None
    while True:
        page = search(gateway, q, **more, **({"cursor": cursor} if cursor else {}))
        found += page["items"]
        cursor = page["next"]
        if not cursor:
            return found


@pytest.mark.parametrize("sort", ["rank", "time", "newest"])
def test_pages_are_the_whole(gateway, sort):
    whole = search(gateway, "bridge", limit=100, sort=sort)["items"]
    assert pages(gateway, "bridge", limit=3, sort=sort) == whole and len(whole) == 16


def test_orders(gateway, library):
    by_time = [(item["video_id"], item["t_start"]) for item in search(gateway, "bridge", limit=100, sort="time")["items"]]
    assert by_time == sorted(by_time)
    newest = [item["video_id"] for item in search(gateway, "bridge", limit=100, sort="newest")["items"]]
    assert newest[:2] == [library.videos["extra"]] * 2
    ranks = [item["rank"] for item in search(gateway, "bridge", limit=100)["items"]]
    assert ranks == sorted(ranks, reverse=True)


def test_groups_are_videos(gateway, library):
    groups = search(gateway, "bridge", group="video")["items"]
    assert {group["video"]["id"]: group["hits"] for group in groups} == {
        library.videos["own"]: 7, library.videos["team"]: 7, library.videos["extra"]: 2}
    assert all(len(group["items"]) == min(3, group["hits"]) for group in groups)
    assert all(item["video_id"] == group["video"]["id"] for group in groups for item in group["items"])
    assert pages(gateway, "bridge", group="video", limit=1) == groups


def test_hits_are_marked_without_html(gateway):
    item = search(gateway, "bridge the", limit=1)["items"][0]
    assert [part["text"] for part in item["snippet"] if part["hit"]] == ["the", "bridge"]
    item = search(gateway, "old", limit=1)["items"][0]
    assert [part["text"] for part in item["snippet"] if part["hit"]] == ["old"]
    assert "".join(part["text"] for part in item["snippet"]) == item["text"]


def test_a_message_is_one_hit(gateway, place, library):
    video = place[1].value("INSERT INTO videos (owner_id, original_name, s3_original_path, status) VALUES"
                           " (%s, 'm.mp4', 'videos/original/z/master.mp4', 'ready') RETURNING id", ALICE)
    place[1].write_text(video, [
        {"text": text, "t_start": 0, "t_end": 900 + n, "bounding_box": {"x": 10, "y": 20 * n, "width": 300, "height": 15},
         **({"paragraph": 0, "paragraph_line": n} if n else {})}
        for n, text in enumerate(("zeppelins over the", "harbour at dawn"))])
    (hit,) = search(gateway, "zeppelins dawn", match="text")["items"]
    assert (hit["text"], hit["t_end"]) == ("zeppelins over the harbour at dawn", 901)
    assert hit["box"] == {"x": 10, "y": 0, "width": 300, "height": 35} and len(hit["continued_by"]) == 1
    assert [part["text"] for part in hit["snippet"] if part["hit"]] == ["zeppelins", "dawn"]
    (line,) = search(gateway, "zeppelins")["items"]
    assert line["continued_by"] is None and line["text"] == "zeppelins over the" and line["segment_id"] == hit["segment_id"]
    place[1].run("DELETE FROM videos WHERE id = %s", video)


def suggest(gateway, q, bearer=OWNER):
    return [item["text"] for item in ask(gateway, "/search/suggest", "/search/suggest", bearer=bearer, q=q)["items"]]


def test_suggestions(gateway):
    assert suggest(gateway, "bridge la") == ["lang:"] and "kind:url" in suggest(gateway, "kind:")
    assert suggest(gateway, "@an") == ["@anna"] and suggest(gateway, "tag:#brid") == ["#bridges"]
    assert suggest(gateway, "lang:") == ["lang:deu", "lang:eng"] and suggest(gateway, "old brid") == ["#bridges", "bridge", "bridges"]
    assert "The harbour" in suggest(gateway, "harb") and "video foreign" not in suggest(gateway, "video")
    assert suggest(gateway, "@an", STRANGER) == [] and suggest(gateway, "100%") == [] and suggest(gateway, "\\") == []


def test_where_else(gateway, library):
    found = ask(gateway, "/entities/places", "/entities/places", kind="mention", value="@Anna")
    assert {item["video_id"]: item["count"] for item in found["items"]} == {library.videos["own"]: 7, library.videos["team"]: 7}
    first = ask(gateway, "/entities/places", "/entities/places", kind="mention", value="@anna", limit=1)
    second = ask(gateway, "/entities/places", "/entities/places", kind="mention", value="@anna", limit=1, cursor=first["next"])
    assert first["items"] + second["items"] == found["items"] and second["next"] is None
    assert found["items"][0]["first"]["t_start"] == 0
    assert ask(gateway, "/entities/places", "/entities/places", bearer=STRANGER, kind="mention", value="@anna")["items"] == []


def test_the_timeline(gateway, library):
    path, operation = f"/videos/{library.videos['extra']}/timeline", "/videos/{id}/timeline"
    found = ask(gateway, path, operation, buckets=10, q="bridge")
    assert (found["duration_ms"], found["bucket_ms"]) == (10000, 1000)
    assert found["lines"] == [1, 1, 0, 0, 0, 0, 0, 0, 1, 1] and sum(found["hits"]) == 2 and found["hits"][0] == 1
    assert ask(gateway, path, operation)["hits"] is None
    assert ask(gateway, f"/videos/{library.videos['foreign']}/timeline", operation, 404)["status"] == 404


def test_lines_with_tracks(gateway, library):
    path = f"/videos/{library.videos['extra']}/segments"
    plain = ask(gateway, path, "/videos/{id}/segments")["items"]
    tracked = ask(gateway, path, "/videos/{id}/segments", tracks="true")["items"]
    assert "track" not in plain[0] and [{**item, "track": None, "words": None} for item in plain] == tracked
