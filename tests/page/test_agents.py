"""What an agent finds, is answered, and may not, by the Model Context Protocol's own client."""

import base64
import json

import pytest
from agent import agent_page, tool
from film import TEXT


@pytest.fixture
def agent(screen):
    with agent_page(screen) as made:
        yield made


def test_what_an_agent_finds_here(agent, place):
    about, tools, templates, videos = agent(["listTools", {}], ["listResourceTemplates", {}], ["listResources", {}])
    assert about["server"]["name"] == "cortana" and set(about["can"]) == {"tools", "resources"}
    by_name = {one["name"]: one for one in tools["tools"]}
    assert set(by_name) == {"search", "moment", "transcript", "videos", "clip", "compare", "alerts"}
    assert by_name["search"]["inputSchema"]["required"] == ["q"] and by_name["search"]["annotations"]["readOnlyHint"]
    assert by_name["clip"]["inputSchema"]["properties"]["options"]["properties"]["format"]["enum"] == ["mp4", "webm", "gif", "jpg"]
    assert len(templates["resourceTemplates"]) == 2
    uri = f"cortana://videos/{place.film}/transcript"
    assert len(videos["resources"]) == 50 and videos["nextCursor"]
    _, more, text, video, missing = agent(["listResources", {"cursor": videos["nextCursor"]}], ["readResource", {"uri": uri}],
                                          ["readResource", {"uri": uri.removesuffix("/transcript")}],
                                          ["readResource", {"uri": "cortana://videos/0f0e0d0c-0000-4000-8000-000000000099"}])
    assert uri in {one["uri"] for one in videos["resources"] + more["resources"]}
    assert {"0-140 ms  another line", f"0-6000 ms  {TEXT}"} < set(text["contents"][0]["text"].splitlines())
    assert json.loads(video["contents"][0]["text"])["title"] == "A bar that rises"
    assert "-32002" in missing["refused"]


QUESTIONS = [
    ("Where is the quick harbour?", tool("search", q='"quick harbour"'), lambda hits, film: (hits[0]["video_id"], hits[0]["t_start"]) == (film, 0)),
    ("Who is mentioned in the film?", tool("search", q="@anna", video="FILM"), lambda hits, film: [one["text"] for one in hits] == [TEXT]),
    ("Which links are there?", tool("search", q="example.org", kind="url", sort="newest"), lambda hits, film: len(hits) == 20 and all("https://example.org" in one["text"] for one in hits)),
    ("What did a kilogram cost?", tool("search", q='"12.50 € per kilogram"'), lambda hits, film: "12.50" in hits[0]["text"]),
    ("Where does it say old bridge, but not over the river?", tool("search", q='"old bridge" -river'), lambda hits, film: hits and all("Meet me" in one["text"] for one in hits)),
    ("Which recordings are of Lisbon?", tool("videos", name="Lisbon"), lambda videos, film: videos and all("Lisbon" in one["title"] for one in videos)),
    ("What stands on screen in the first 0.1 s of the film?", tool("transcript", id="FILM", from_ms=0, to_ms=100), lambda lines, film: {one["text"] for one in lines} == {TEXT, "another line"}),
    ("Which videos show #sourdough?", tool("search", q="#sourdough", group="video"), lambda groups, film: groups and all("#sourdough" in one["items"][0]["text"] for one in groups)),
]


def test_questions_are_answered_with_moments(agent, place):
    steps = [[method, {**one, "arguments": {key: place.film if value == "FILM" else value for key, value in one["arguments"].items()}}]
             for _, (method, one), _ in QUESTIONS]
    for (question, _, is_right), answer in zip(QUESTIONS, agent(*steps)[1:]):
        assert not answer.get("refused") and not answer["isError"], (question, answer)
        assert json.loads(answer["content"][0]["text"]) == answer["structuredContent"]
        assert is_right(answer["structuredContent"]["items"], place.film), (question, answer["structuredContent"]["items"][:3])


def test_moments_have_their_picture_and_are_compared(agent, place):
    _, moment, compared = agent(tool("moment", id=place.film, t=3010), tool("compare", id=place.film, t=3010, other_t=3145))
    shown = moment["structuredContent"]
    assert shown["t"] == 3010 and shown["page_url"] == f"/videos/{place.film}?t=3.010"
    assert {one["text"]: one["box"]["width"] for one in shown["lines"]} == {TEXT: 400, "another line": 60}
    picture = moment["content"][1]
    assert picture["mimeType"] == "image/jpeg" and base64.b64decode(picture["data"])[:3] == b"\xff\xd8\xff"
    assert compared["structuredContent"]["gone"] == ["another line"] and compared["structuredContent"]["kept"] == 1
    assert compared["structuredContent"]["appeared"] == []


def test_what_an_agent_may_not_is_said(agent, place):
    _, unknown, wrong, missing, foreign = agent(
        tool("delete"), tool("search", q="x", limit=1000, nonsense=1),
        tool("clip", video_id="0f0e0d0c-0000-4000-8000-000000000099", t_start=0, t_end=1000), tool("moment", id=place.videos[0], t=-1))
    assert "no tool" in unknown["refused"]
    assert wrong["isError"] and "limit: must be a number from 1 to 200" in wrong["content"][0]["text"] and "nonsense" in wrong["content"][0]["text"]
    assert missing["isError"] and "nothing here that you may see" in missing["content"][0]["text"]
    assert foreign["isError"] and foreign["content"][0]["text"].splitlines()[1].startswith("t: ")
    assert "401" in agent(tool("videos"), Authorization="Bearer nobody.at.all")[0]["refused"]
