"""Row-level security as two users of different teams see it, and what a user can never do."""

import json
import re
import uuid

import psycopg2
import pytest

ALICE, BOB, TEAM_A, TEAM_B = (uuid.uuid4() for _ in range(4))
TABLES = ("videos", "jobs", "segments", "entities", "search_materialized")


class Library:
    """One video per owner or team, each with a job, a segment, an entity and a search row."""

    def __init__(self, queue, videos):
        self.queue, self.videos = queue, videos

    @staticmethod
    def fill(queue):
        videos = {}
        for name, owner, team in (("alice", ALICE, None), ("bob", BOB, None),
                                  ("team a", None, TEAM_A), ("bob in team a", BOB, TEAM_A),
                                  ("team b", None, TEAM_B), ("nobody", None, None)):
            video = queue.video(owner, team)
            videos[name] = video
            queue.add(video_id=video)
            segment = queue.value(
                "INSERT INTO segments (video_id, owner_id, team_id, text, normalized_text,"
                " text_hash, confidence, t_start, t_end)"
                " VALUES (%s, %s, %s, 'Hi', 'hi', 'h', 1, 0, 10) RETURNING id", video, owner, team)
            queue.run("INSERT INTO entities (segment_id, entity_type, value, normalized_value)"
                      " VALUES (%s, 'mention', '@a', 'a')", segment)
        queue.run("SELECT refresh_search_materialized()")
        assert queue.value("SELECT count(*) FROM search_materialized") == len(videos)
        return videos

    def become(self, user=None, role="authenticated", **claims):
        if user:
            claims["sub"] = str(user)
        self.queue.run("SELECT set_config('request.jwt.claims', %s, false)",
                       json.dumps(claims) if claims else "")
        self.queue.run(f"SET ROLE {role}")

    def seen(self, table):
        column = {"videos": "id", "entities": "segment_id"}.get(table, "video_id")
        rows = self.queue.run(f"SELECT {column} AS key FROM {table}")
        if table == "entities":
            self.queue.run("SET ROLE postgres")
            by_segment = {row["id"]: row["video_id"]
                          for row in self.queue.run("SELECT id, video_id FROM segments")}
            self.queue.run("SET ROLE authenticated")
            rows = [{"key": by_segment[row["key"]]} for row in rows]
        names = {video: name for name, video in self.videos.items()}
        return sorted(names[row["key"]] for row in rows)


@pytest.fixture
def library(filled):
    return Library(*filled(Library.fill))


SIGHTS = [
    ("alice alone", {"user": ALICE}, ["alice"]),
    ("bob alone", {"user": BOB}, ["bob", "bob in team a"]),
    ("alice, team_id", {"user": ALICE, "team_id": str(TEAM_A)}, ["alice", "bob in team a", "team a"]),
    ("alice, team_ids", {"user": ALICE, "team_ids": [str(TEAM_A), str(TEAM_B)]},
     ["alice", "bob in team a", "team a", "team b"]),
    ("alice, app_metadata", {"user": ALICE, "app_metadata": {"team_ids": [str(TEAM_B)]}},
     ["alice", "team b"]),
    ("user_metadata is the user's own word",
     {"user": ALICE, "user_metadata": {"team_ids": [str(TEAM_B)], "team_id": str(TEAM_B)}}, ["alice"]),
    ("what is no UUID is no team",
     {"user": ALICE, "team_ids": ["*", "", None, 7, str(TEAM_B)], "team_id": "x"}, ["alice", "team b"]),
    ("a list in the wrong shape", {"user": ALICE, "team_ids": {"a": str(TEAM_B)}}, ["alice"]),
    ("a stranger", {"user": uuid.uuid4()}, []),
    ("no token", {}, []),
]


@pytest.mark.parametrize("claims, expected", [sight[1:] for sight in SIGHTS],
                         ids=[sight[0] for sight in SIGHTS])
def test_a_user_sees_their_own_and_their_teams(library, claims, expected):
    library.become(**claims)
    for table in TABLES:
        assert library.seen(table) == expected, table


def test_the_text_follows_a_video_that_changes_hands(library):
    library.queue.run("UPDATE videos SET owner_id = %s WHERE id = %s", BOB, library.videos["alice"])
    library.become(ALICE)
    assert [library.seen(table) for table in TABLES] == [[]] * len(TABLES)
    library.become(BOB)
    assert "alice" in library.seen("segments") and "alice" in library.seen("search_materialized")


@pytest.mark.parametrize("query", ["hi", '"hi"', "hi*", "hi OR there", "hi* OR there*", "hi -there", "h1"])
def test_a_user_searches_with_every_form_of_query(library, query):
    """A function that only one form of query calls is open to users, too."""
    library.become(ALICE)
    found = library.queue.run("SELECT video_id FROM search_segments(%s)", query)
    assert query == "h1" or [row["video_id"] for row in found] == [library.videos["alice"]]


HOSTILE = ["EXISTS (SELECT FROM pg_authid)", "x') OR EXISTS (SELECT FROM pg_authid) OR ('", "x' OR true --",
           "\\' OR true --", "$$ OR true --", "}' OR true --", '{"x\\"}\' OR true --', "%", "_", "%L %s %1$s"]
FORMS = ["{}", '"{}"', "hi -{}", "hi OR {}*", "hi from:{}", 'hi from:"{}"', "hi lang:{}", 'tag:"{}"', "hi after:{}",
         "from:{} {}*"]


@pytest.mark.parametrize("hostile", HOSTILE)
def test_a_users_query_is_never_sql(library, hostile):
    """search_candidates() runs with its owner's rights and puts statements together. It takes nothing but text."""
    library.become(ALICE)
    for query in (form.format(hostile, hostile) for form in FORMS):
        try:
            found = library.queue.run(
                "SELECT m.video_id FROM cortana.search_candidates(%s, NULL, 10) AS c"
                " JOIN search_materialized m ON m.ctid = c", query)
        except psycopg2.errors.InvalidParameterValue:
            continue  # a date that is none, say
        assert {row["video_id"] for row in found} <= {library.videos["alice"]}, query
    with pytest.raises(psycopg2.errors.UndefinedFunction):
        library.queue.run("SELECT cortana.search_candidates(cortana.search_parse('hi'), NULL, 10)")


@pytest.mark.parametrize("hostile", HOSTILE)
def test_terms_are_quoted_wherever_they_become_sql(library, hostile):
    """Terms that no query has: each text and each list of texts is hostile, and no other table is read."""
    value = library.queue.value
    for kind, function, needed in (
            ("search_terms", "cortana.search_field_conditions(terms)", 4),
            ("search_side", "'AND ' || cortana.search_word_lookup(terms, NULL, NULL, NULL)", 5),
            ("search_side", "'AND ' || cortana.search_parts_lookup(terms.parts)", 5)):
        members = library.queue.run("SELECT attname AS name, atttypid::regtype::text AS type FROM pg_attribute"
                                    f" WHERE attnum > 0 AND attrelid = 'cortana.{kind}'::regclass")
        terms = {row["name"]: hostile if row["type"] == "text" else [hostile + "letters", hostile] for row in members
                 if row["type"] in ("text", "text[]")}
        assert len(terms) >= needed
        terms.update({"words": "'hi'", "lookup": "'hi'"} if kind == "search_side" else {})
        condition = value(f"SELECT {function} FROM jsonb_populate_record(NULL::cortana.{kind}, %s) AS terms", json.dumps(terms))
        plan = value("EXPLAIN (FORMAT json) SELECT FROM search_materialized AS m WHERE true " + condition.replace("%", "%%"))
        read = set(re.findall(r'"Relation Name": "(\w+)"', json.dumps(plan)))
        assert read - {"entities"} == {"search_materialized"}, condition


def test_the_service_role_sees_and_writes_everything(library):
    library.become(role="service_role")
    for table in TABLES:
        assert library.queue.value(f"SELECT count(*) FROM {table}") == len(library.videos)
    queue = library.queue
    queue.add("clip_generate")
    jobs = queue.claim(limit=100) + queue.claim("clip_generate")
    assert len(jobs) == len(library.videos) + 1
    first, second, third, fourth, *_ = jobs
    assert queue.call("renew_lease", first, "5 minutes") == "ok"
    assert queue.call("report_progress", first, 0.5, "x") == "ok"
    assert queue.call("record_artifacts", first, "b", '[{"kind": "input", "key": "k"}]') is True
    assert queue.call("complete_job", first) is True
    assert queue.fail(second) == "retry"
    assert queue.call("release_job", third, "x") is True
    assert queue.value("SELECT cancel_job(%s)", fourth["id"]) == "requested"
    assert queue.call("settle_canceled_job", fourth) is True
    assert queue.value("SELECT retry_job(%s)", fourth["id"]) == "queued"
    queue.run("SELECT report_worker('w', 'h', '1', ARRAY['ocr'], 1, 0, 'running')")
    queue.run("SELECT refresh_search_materialized(%s)", library.videos["alice"])
    queue.run("UPDATE videos SET status = 'ready' WHERE id = %s", library.videos["alice"])
    queue.run("DELETE FROM videos WHERE id = %s", library.videos["bob"])


def test_functions_that_users_may_call(queue):
    """A new function of the queue is either shut to users or known to be harmless. What they read and write: test_tenant_matrix.py."""
    harmless = {"current_team_ids",
                # read only, under the caller's rights or with their owner and teams as a condition
                "search_candidates", "search_snippet", "search_rate", "search_segments", "unread_scripts",
                "export_segments", "export_entities", "is_favourite", "clean_tags", "tag_keys", "field_keys",
                "mark_favourite",  # of the caller's own, and of videos that they see: test_api_organise.py
                "box_at", "box_around", "last_ocr_jobs", "video_languages", "video_trouble",
                "semantic_candidates", "search_semantic", "embedding_model_in_use",
                "schema_state",  # which migrations are in
                "request_was_refused", "job_state",  # read no table: a job that the caller has already
                "fold_case", "normal_form", "text_hash", "priority_number", "priority_names", "priority_list",
                # what a query means; they read no table, but for the names of the kinds of entities
                "search_fold", "search_grams", "search_parse", "search_add_beginning", "search_add_parts", "search_read_side",
                "search_read_sides", "search_is_beginning", "search_add_field", "search_uuid", "search_date", "search_key",
                "search_pair_keys", "search_pattern", "search_phrase", "search_position", "search_fields", "search_videos_condition", "search_refuse", "search_refuse_field",
                "search_spaced", "search_typed_words", "search_word_list", "search_marks", "search_side_matches", "search_paragraph_matches",
                "search_has_subject",
                "redaction_kinds", "redaction_letters", "redaction_parts", "redaction_rules", "redaction_spans", "redaction_masked", "redaction_way",
                "redacted_text", "track_points", "track_at", "quote_crop", "feed_clock",  # read no table
                "plan_redaction", "sees_parts",  # reads what the caller may read
                "clip_parts", "covers_in",  # read no table
                "line_sources", "search_clock",  # a list
                "search_own_videos",  # whether the caller may see them
                "telling_lines", "alike_videos",  # read what the caller may read
                    "own_person",  # the caller's own
                "search_is_language"}  # whether any line of the installation was read with a model of that name
    open_to_users = {row["name"] for row in queue.run("""
        SELECT p.proname AS name FROM pg_proc p
        WHERE p.pronamespace IN ('public'::regnamespace, 'cortana'::regnamespace)
          AND (has_function_privilege('authenticated', p.oid, 'EXECUTE') OR has_function_privilege('anon', p.oid, 'EXECUTE'))
          AND NOT EXISTS (SELECT FROM pg_depend d WHERE d.objid = p.oid AND d.deptype = 'e')""")}
    assert open_to_users == harmless


def test_recordings_of_the_same_thing_are_looked_up_by_index_under_the_policy(library):
    library.become(ALICE)
    library.queue.run("SET enable_seqscan = off")
    plan = "\n".join(row["QUERY PLAN"] for row in library.queue.run(
        "EXPLAIN SELECT o.video_id FROM cortana.video_bands b JOIN cortana.video_bands o USING (band)"
        " WHERE b.video_id = %s GROUP BY o.video_id ORDER BY count(*) DESC", library.videos["alice"]))
    library.queue.run("RESET enable_seqscan")
    assert "video_bands_video" in plan and "video_bands_pkey" in plan and "Seq Scan on video_bands" not in plan, plan


@pytest.mark.parametrize("function", ["videos_changed", "mark_tags_pending", "doubt_words", "mark_search_pending", "jobs_updated",
                                      "jobs_inserted", "jobs_before_insert"])
def test_a_user_cannot_borrow_a_triggers_rights(library, function):
    library.queue.run("DO $$ BEGIN EXECUTE format('GRANT TEMPORARY ON DATABASE %%I TO authenticated',"
                      " current_database()); END $$")  # so that there is a table of theirs at all
    library.become(ALICE)
    library.queue.run("CREATE TEMP TABLE mine (id uuid, owner_id uuid, team_id uuid, platform text)")
    with pytest.raises(psycopg2.errors.InsufficientPrivilege):
        library.queue.run(f"CREATE TRIGGER t AFTER UPDATE ON mine FOR EACH ROW"
                          f" EXECUTE FUNCTION {function}()")


def test_row_security_stands_on_every_table(queue):
    bare = queue.run("SELECT relname FROM pg_class WHERE relkind IN ('r', 'p')"
                     " AND relnamespace IN ('public'::regnamespace, 'cortana'::regnamespace)"
                     " AND NOT relrowsecurity")
    assert bare == []
