"""What people have made of a library: words, collections, searches, links, keys, and themselves."""

from api import ALICE, token

TAGS = (("recipe", "home"), ("travel", "lisbon"), ("meeting",), ("repair", "home"), ("weather",), ("news", "live"), ("paperwork",), ("paperwork",),
        ("feed",), ("music",), ("lecture", "computing"), ("camera",), ("screen",), ("garden", "home"), ("news",), ("recipe",))
COLLECTIONS = (("Around the house", "What we want to do ourselves.", (0, 3, 13, 15)), ("Lectures", "", (10,)), ("Lisbon in May", "", (1, 11)))
PEOPLE = (("Anna Keller", "anna@example.org", "admin"), ("Marco Rossi", "marco@example.org", "editor"), ("Priya Nair", "priya@example.org", "viewer"))
PASSWORD = "a passphrase of the tests"


def fill_house(place, bearer):
    """Fills a library by its API. Returns the links of what is shared, and the cookie of somebody who is signed in."""
    service = token(role="service_role", sub=None, exp=2000000000)

    def ask(method, path, body=None, caller=bearer):
        answer = place.gateway.ask(path, caller, method, body)
        assert answer.status < 300, (path, answer.data)
        return answer

    for number, video in enumerate(place.videos[:16]):
        ask("POST", "/videos/bulk", {"ids": [video], "add_tags": list(TAGS[number]), **({"favourite": True} if number % 5 == 1 else {})})
    for name, text, numbers in COLLECTIONS:
        ask("POST", "/collections", {"name": name, "description": text, "videos": [place.videos[number] for number in numbers]})
    search = ask("POST", "/saved-searches", {"query": "bridge", "name": "The old bridge"}).json
    ask("POST", "/saved-searches", {"query": "#garden OR #sourdough", "name": "Hobbies"})
    place.queue.run("INSERT INTO saved_search_matches (search_id, video_id, moments, matched_at) SELECT %s, v.id,"
                    " (SELECT jsonb_agg(jsonb_build_object('segment_id', s.id, 'text', s.text, 't_start', s.t_start, 't_end', s.t_end) ORDER BY s.t_start)"
                    " FROM (SELECT * FROM segments WHERE video_id = v.id AND text ILIKE '%%bridge%%' ORDER BY t_start LIMIT 3) AS s), v.created_at"
                    " FROM videos v WHERE v.id = ANY (%s::uuid[]) AND EXISTS (SELECT FROM segments WHERE video_id = v.id AND text ILIKE '%%bridge%%')",
                    search["id"], place.videos[:4])
    for name, role in (("backup script", "viewer"), ("phone upload", "editor"), ("dashboard", "viewer")):
        made = ask("POST", "/keys", {"name": name, "role": role, "expires_at": "2026-12-01T00:00:00Z"}).json
    ask("DELETE", f"/keys/{made['id']}")
    tenant = ask("POST", "/tenants", {"name": "Keller & Co"}, service).json["tenant_id"]
    for name, email, role in PEOPLE:
        link = ask("POST", "/invitations", {"role": role, "tenant_id": tenant, "email": email}, service).json["link"]
        accepted = ask("POST", "/invitations/account", {"code": link.rpartition("=")[2], "name": name, "new_password": PASSWORD}, None)
    invited = ask("POST", "/invitations", {"role": "editor", "tenant_id": tenant, "email": "jo@example.org"}, service).json["link"]
    ask("PUT", f"/tenants/{ALICE}/sharing", {"allowed": True}, service)
    shared = [ask("POST", "/shares", {"video_id": place.film, **what}).json for what in ({}, {"from_ms": 1000, "to_ms": 4000, "at_ms": 2000}, {})]
    ask("DELETE", f"/shares/{shared[2]['id']}")
    return {"shared": shared[0]["link"], "embed": shared[1]["embed"], "revoked": shared[2]["link"], "invited": invited,
            "cookie": accepted.headers["Set-Cookie"]}
