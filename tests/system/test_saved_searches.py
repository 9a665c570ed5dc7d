"""Alerts: a search that was saved finds its words in each new video of its tenant, once, and says so."""

import os
import subprocess
import uuid
import xml.etree.ElementTree as ElementTree

import pytest
from api import ALICE, BOB, DOCUMENT, TEAM, token

OWNER = token(app_metadata={"team_id": TEAM, "cortana_role": "editor"})
OTHER = token(sub=BOB)
ATOM = "{http://www.w3.org/2005/Atom}"


@pytest.fixture(scope="module")
def queue(place):
    return place[1]


@pytest.fixture(scope="module")
def gateway(start_gateway):
    return start_gateway()


@pytest.fixture(autouse=True)
def nothing_saved(queue):
    yield
    queue.run("DELETE FROM saved_searches")


def add_video(queue, *lines, owner=ALICE, team=None, title="The evening", tags=()):
    video = str(queue.value("INSERT INTO videos (owner_id, team_id, title, tags, original_name, s3_original_path, status, duration)"
                            " VALUES (%s, %s, %s, %s, 'a.mp4', 'videos/original/x/master.mp4', 'ready', 60) RETURNING id",
                            owner, team, title, list(tags)))
    write_text(queue, video, *lines)
    return video


def write_text(queue, video, *lines):
    queue.write_text(video, [{"text": text, "entities": [{"type": "hashtag", "value": word} for word in text.split() if word.startswith("#")]}
                             for text in lines])


def save(gateway, query, bearer=OWNER, status=201, **more):
    answer = gateway.ask("/saved-searches", bearer, method="POST", body={"query": query, **more})
    assert answer.status == status, answer.data
    return answer.json


def alerts(gateway, bearer=OWNER, **query):
    answer = gateway.ask("/alerts" + ("?" + "&".join(f"{name}={value}" for name, value in query.items()) if query else ""), bearer)
    assert answer.status == 200, answer.data
    return answer.json["items"]


def events(queue):
    return queue.run("SELECT data -> 'data' AS data, video_id::text AS video FROM task_events WHERE message = 'search.matched' ORDER BY id")


@pytest.mark.sanitized(2)
@pytest.mark.parametrize("query, text, is_found", [
    ("bridge", "the old bridge", True), ("bridge", "the footbridge is closed", True), ("bridge", "nothing here", False),
    ('"old bridge"', "the old bridge", True), ('"old bridge"', "the bridge is old", False), ("café", "Café at noon", True),
    ("harbour OR bridge", "the old bridge", True), ("bri*", "bridges", True), ("bridge -old", "the old bridge", False),
    ("bridge", "the brigde", False), ("#sunset", "look #sunset", True), ("tag:sunset", "look #sunset", True), ("tag:sunset", "a sunset", False),
    ("橋", "古い橋", True), ("bridge lang:deu", "the old bridge", False), ("12.50", "only 12.50 € today", True),
    ("anna_12", "from anna-12 today", True), ("it's", "it's late", True), ("50%", "only 50% off", True), (r"c:\a_b", r"in c:\a_b today", True),
    (r"c:\a_b", "in c:/axb today", False), ("#", "look #sunset", True), ("@", "look #sunset", False), ("bri* -new", "old bridges", True),
    ("bridge from:evening", "the old bridge", True), ("bridge from:harbour", "the old bridge", False), ("tag:holiday viaduct", "one viaduct", True),
    ("old \"long bridge\" OR quay", "the quays", True), ("at to", "ready to start at noon", True)])
def test_a_new_video_is_asked(gateway, queue, query, text, is_found):
    made = save(gateway, query, name="mine")
    video = add_video(queue, "before", text, "after", tags=["Holiday"])
    found = alerts(gateway, search=made["id"])
    assert (queue.value("SELECT count(*) FROM search_segments(%s, %s) WHERE match_kind <> 'fuzzy'", query, video) > 0) == is_found
    assert [one["video_id"] for one in found] == ([video] if is_found else [])
    if is_found:
        assert [(one["text"], one["t_start"]) for one in found[0]["moments"]] == [(text, 1000)]
        assert found[0]["video_title"] == "The evening" and found[0]["search"]["name"] == "mine"


def test_a_video_is_told_of_once(gateway, queue):
    save(gateway, "bridge", name="The bridge")
    before = len(events(queue))
    video = add_video(queue, "the old bridge", "the new bridge")
    for _ in range(2):
        write_text(queue, video, "the old bridge", "the new bridge", "one more bridge")
    told = events(queue)[before:]
    assert [(one["video"], one["data"]["name"], len(one["data"]["moments"])) for one in told] == [(video, "The bridge", 2)]
    assert gateway.ask("/alerts/seen", OWNER, method="POST", body={}).json == {"seen": 1}
    assert alerts(gateway, new="true") == [] and len(alerts(gateway)) == 1
    assert gateway.ask("/saved-searches", OWNER).json["items"][0]["new_matches"] == 0


def test_a_search_is_asked_of_its_tenants_videos_alone(gateway, queue):
    mine, teams, others = save(gateway, "bridge"), save(gateway, "bridge", team_id=TEAM), save(gateway, "bridge", OTHER)
    everybodys = save(gateway, "bridge", token(role="service_role", sub=None))
    own, team, foreign = (add_video(queue, "old bridge", owner=owner, team=in_team)
                          for owner, in_team in ((ALICE, None), (BOB, TEAM), (str(uuid.uuid4()), None)))
    found = {made["id"]: {one["video_id"] for one in alerts(gateway, token(role="service_role", sub=None), search=made["id"])}
             for made in (mine, teams, others, everybodys)}
    assert found == {mine["id"]: {own}, teams["id"]: {team}, others["id"]: set(), everybodys["id"]: {own, team, foreign}}
    assert {one["video_id"] for one in alerts(gateway)} == {own, team} and alerts(gateway, OTHER) == []
    for method, body in (("PATCH", {"name": "taken"}), ("DELETE", None)):
        assert gateway.ask(f"/saved-searches/{mine['id']}", OTHER, method=method, body=body).status == 404
    assert gateway.ask("/saved-searches", OTHER).json["items"] == [others]
    save(gateway, "bridge", OTHER, 400, team_id=TEAM)


def test_what_cannot_be_asked_is_refused_when_it_is_saved(gateway, queue):
    for query in ("lang:eng", "-bridge", "bridge nonsense:1 after:whenever"):
        assert save(gateway, query, status=400)["detail"]
    assert save(gateway, "bridge", token(app_metadata={"cortana_role": "viewer"}), 403)["title"]
    made = save(gateway, "bridge")
    assert gateway.ask(f"/saved-searches/{made['id']}", OWNER, method="PATCH", body={"query": "lang:eng"}).status == 400
    changed = gateway.ask(f"/saved-searches/{made['id']}", OWNER, method="PATCH", body={"query": "harbour", "clip": True})
    assert changed.status == 200 and (changed.json["query"], changed.json["clip"], changed.json["name"]) == ("harbour", True, "bridge")
    video = add_video(queue, "the bridge", "the harbour")
    (found,) = alerts(gateway)
    assert found["video_id"] == video and found["moments"][0]["text"] == "the harbour"
    clip = queue.run("SELECT payload FROM jobs WHERE job_type = 'clip_generate' AND video_id = %s", video)[0]["payload"]
    assert clip["clip_id"] == found["clip_id"] and clip["t_start"] <= 1000
    assert gateway.ask(f"/saved-searches/{made['id']}", OWNER, method="DELETE").status == 204
    assert alerts(gateway) == []


def test_a_feed_is_read_by_whoever_knows_its_address(gateway, queue):
    made = save(gateway, "bridge", name="<The> bridge & co")
    video = add_video(queue, "old bridge \u0007<b>", title="Ampers & <and>")
    path = made["feed_url"].removeprefix("/api/v1")
    answer = gateway.ask(f"{path}?site=https://example.net", None)
    assert answer.status == 200 and answer.headers["Content-Type"] == "application/atom+xml; charset=utf-8", answer.data
    feed = ElementTree.fromstring(answer.data)
    assert feed.find(f"{ATOM}title").text == "<The> bridge & co"
    (entry,) = feed.findall(f"{ATOM}entry")
    assert entry.find(f"{ATOM}title").text == "Ampers & <and>" and entry.find(f"{ATOM}id").text.startswith("urn:uuid:")
    assert entry.find(f"{ATOM}link").get("href") == f"https://example.net/videos/{video}?t=0.000"
    assert "0:00 old bridge" in entry.find(f"{ATOM}content").text
    assert gateway.ask("/feeds/" + "0" * 64, None).status == 404 and gateway.ask("/feeds/x", None).status == 400
    assert "feed_url" in DOCUMENT["components"]["schemas"]["SavedSearch"]["properties"]


def test_a_search_that_fails_costs_the_video_nothing(gateway, queue):
    save(gateway, "harbour")
    queue.run("ALTER TABLE saved_search_matches ADD CONSTRAINT broken CHECK (moments::text NOT LIKE '%%bridge%%') NOT VALID")
    try:
        save(gateway, "bridge")
        video = add_video(queue, "the bridge", "the harbour")
    finally:
        queue.run("ALTER TABLE saved_search_matches DROP CONSTRAINT broken")
    assert [one["search"]["query"] for one in alerts(gateway)] == ["harbour"]
    assert queue.value("SELECT count(*) FROM segments WHERE video_id = %s", video) == 2


def test_the_lines_of_a_paragraph_are_asked_together(gateway, queue):
    save(gateway, "old viaduct")
    video = add_video(queue)
    queue.write_text(video, ["This is the old", {"text": "and long viaduct", "paragraph": 0, "paragraph_line": 1}], t_start=0, t_end=900)
    assert [one["text"] for one in alerts(gateway)[0]["moments"]] == ["This is the old and long viaduct"]


def test_what_cannot_match_is_not_asked(queue):
    """Of many saved searches those are asked of which a line has all words; the others cost one comparison each."""
    video = add_video(queue, *(f"line {n} with word{n}x and some more" for n in range(1, 300)), "word600x other600x", "other5x")
    queue.run("INSERT INTO saved_searches (tenant_id, name, query) SELECT %s, n::text, 'word' || n || 'x other' || n || 'x' FROM"
              " generate_series(1, 1000) AS n", ALICE)
    asked = "SELECT query, cardinality(places) AS lines FROM searches_to_ask(%s) JOIN saved_searches ON id = search_id"
    assert queue.run(asked, video) == [{"query": "word600x other600x", "lines": 1}]
    assert queue.value("SELECT match_saved_searches(%s)", video) == 1
    assert queue.run(asked, video) == []


def test_searches_of_other_tenants_cost_a_video_nothing(queue):
    video = add_video(queue, "the old bridge")
    queue.run("INSERT INTO saved_searches (tenant_id, name, query) SELECT %s, n::text, 'bridge' FROM generate_series(1, 10) AS n", ALICE)
    analyze = "ANALYZE saved_searches, cortana.saved_search_sides"

    def pages():
        plans = [queue.value(f"EXPLAIN (ANALYZE, BUFFERS, FORMAT JSON) SELECT {call}", video)[0]["Plan"]
                 for call in ("* FROM searches_to_ask(%s)", "match_saved_searches(%s)")]
        queue.run("DELETE FROM saved_search_matches")
        return sum(plan["Shared Hit Blocks"] + plan["Shared Read Blocks"] for plan in plans)

    queue.run(analyze)
    before = min(pages() for _ in range(3))
    with queue.connection.cursor() as cursor:
        cursor.execute("SET session_replication_role = replica")
        cursor.execute("WITH made AS (INSERT INTO saved_searches (tenant_id, name, query) SELECT gen_random_uuid(), 'x', 'bridge'"
                       " FROM generate_series(1, 20000) RETURNING id, tenant_id) INSERT INTO cortana.saved_search_sides (search_id, tenant_id,"
                       " anchors) SELECT id, tenant_id, '{bridg}' FROM made")
        cursor.execute("RESET session_replication_role")
    queue.run(analyze)
    assert min(pages() for _ in range(3)) < before + 100


def test_the_command_line_saves_lists_and_deletes(program, place, queue, tmp_path):
    def cortana(*arguments, status=0):
        done = subprocess.run([program("cortana"), *arguments], text=True, capture_output=True, timeout=120, check=False,
                              env={**os.environ, "DATABASE_URL": place[0], "STORE_URL": f"dir:{tmp_path}"})
        assert done.returncode == status, done.stderr
        return done.stdout or done.stderr

    made = cortana("alerts", "save", "old bridge", "--name", "The bridge").strip()
    add_video(queue, "before", "the old bridge", title="An evening")
    assert "The bridge" in cortana("alerts", "searches") and made in cortana("alerts", "searches")
    listed = cortana("alerts")
    assert "An evening" in listed and "1000 ms" in listed and "the old bridge" in listed, listed
    assert "sends no mail" in cortana("alerts", "save", "bridge", "--mail", "daily", status=1)
    cortana("alerts", "delete", made)
    assert "An evening" not in cortana("alerts")
