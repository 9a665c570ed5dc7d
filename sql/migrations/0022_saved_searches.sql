-- Saved searches: queries that are asked of each video when its text becomes searchable, and what they found. A match is
-- an event (search.matched), an entry of the search's feed, and, if wanted, a clip.

CREATE TABLE saved_searches (
    id uuid PRIMARY KEY DEFAULT gen_random_uuid(),
    owner_id uuid,
    tenant_id uuid,
    name text NOT NULL CHECK (length(name) BETWEEN 1 AND 100),
    query text NOT NULL CHECK (length(query) BETWEEN 1 AND 200),
    clip boolean NOT NULL DEFAULT false,
    mail text NOT NULL DEFAULT 'never' CHECK (mail IN ('never', 'at_once', 'hourly', 'daily')),
    mail_key text NOT NULL DEFAULT random_text(16),
    feed_key text NOT NULL UNIQUE DEFAULT encode(sha256(uuid_send(gen_random_uuid()) || uuid_send(gen_random_uuid())), 'hex'),
    created_at timestamptz NOT NULL DEFAULT now(),
    updated_at timestamptz NOT NULL DEFAULT now()
);
COMMENT ON TABLE saved_searches IS 'Queries that are asked of each video when its text becomes searchable.';
COMMENT ON COLUMN saved_searches.owner_id IS 'Who saved it; null: the service.';
COMMENT ON COLUMN saved_searches.tenant_id IS
    'Whose videos it is asked of: those of a user or of a team; null: all videos, which only the service may say.';
COMMENT ON COLUMN saved_searches.query IS 'As search_segments() reads it.';
COMMENT ON COLUMN saved_searches.clip IS 'Whether a clip of the first moment of each match is made.';
COMMENT ON COLUMN saved_searches.mail IS 'When its owner is told by mail what it has found.';
COMMENT ON COLUMN saved_searches.mail_key IS 'The secret part of the link in these mails that ends them, which needs no sign-in.';
COMMENT ON COLUMN saved_searches.feed_key IS
    'The secret part of the address of its feed: whoever knows it reads the matches, and nothing else.';
COMMENT ON COLUMN saved_searches.id IS 'Id of the search.';
COMMENT ON COLUMN saved_searches.name IS 'What people call it.';
COMMENT ON COLUMN saved_searches.created_at IS 'When it was saved.';
COMMENT ON COLUMN saved_searches.updated_at IS 'When it was last changed.';
CREATE INDEX saved_searches_tenant ON saved_searches (tenant_id, created_at, id);
CREATE UNIQUE INDEX saved_searches_mail_key ON saved_searches (secret_hash(mail_key));
SELECT secure_table('saved_searches');

CREATE TABLE cortana.saved_search_sides (
    search_id uuid NOT NULL REFERENCES saved_searches ON DELETE CASCADE,
    tenant_id uuid,
    words tsquery,
    parts text[],
    anchors text[]
);
COMMENT ON TABLE cortana.saved_search_sides IS
    'What a line, or a paragraph, must have for one side of a saved search (between two OR) to be asked of it.';
COMMENT ON COLUMN cortana.saved_search_sides.tenant_id IS
    'That of the search, so that a video costs nothing for the searches of other tenants.';
COMMENT ON COLUMN cortana.saved_search_sides.words IS 'Its words; null with parts null: all that has an anchor is asked.';
COMMENT ON COLUMN cortana.saved_search_sides.parts IS 'LIKE patterns, all of which it may have instead.';
COMMENT ON COLUMN cortana.saved_search_sides.anchors IS
    'Beginnings of the longest word that words has, of the longest that parts has, or of a tag: what the side finds has one of '
    'them. Null: all lines are asked.';
CREATE INDEX saved_search_sides_search ON cortana.saved_search_sides (search_id);
CREATE INDEX saved_search_sides_tenant ON cortana.saved_search_sides (tenant_id);
SELECT secure_table('saved_search_sides');

CREATE TABLE saved_search_matches (
    search_id uuid NOT NULL REFERENCES saved_searches ON DELETE CASCADE,
    video_id uuid NOT NULL REFERENCES videos ON DELETE CASCADE,
    moments jsonb NOT NULL,
    clip_id uuid,
    matched_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    seen_at timestamptz,
    is_to_mail boolean NOT NULL DEFAULT false,
    PRIMARY KEY (search_id, video_id)
);
COMMENT ON TABLE saved_search_matches IS 'The videos that a saved search has found, each once.';
COMMENT ON COLUMN saved_search_matches.search_id IS 'The saved search.';
COMMENT ON COLUMN saved_search_matches.video_id IS 'The video that it has found.';
COMMENT ON COLUMN saved_search_matches.matched_at IS 'When it was found.';
COMMENT ON COLUMN saved_search_matches.moments IS
    'The best lines when it was found, at most 20, ordered by time: {segment_id, text, t_start, t_end}, in ms.';
COMMENT ON COLUMN saved_search_matches.clip_id IS 'The clip of the first moment; null: none was wanted.';
COMMENT ON COLUMN saved_search_matches.is_to_mail IS 'Whether a mail has still to tell of it.';
COMMENT ON COLUMN saved_search_matches.seen_at IS 'When somebody said that they know of it; null: it is new.';
CREATE INDEX saved_search_matches_newest ON saved_search_matches (search_id, matched_at);
CREATE INDEX saved_search_matches_to_mail ON saved_search_matches (search_id, matched_at) WHERE is_to_mail;
CREATE INDEX saved_search_matches_video ON saved_search_matches (video_id);
SELECT secure_table('saved_search_matches');

CREATE FUNCTION cortana.search_anchor(p_parts text[]) RETURNS text
LANGUAGE sql IMMUTABLE AS $$
    SELECT left(word, 5) FROM unnest(p_parts) AS part, regexp_split_to_table(part, '[\s\\%]+') AS word -- \ and % are of a LIKE pattern
    WHERE word <> '' ORDER BY length(word) DESC, word LIMIT 1
$$;
COMMENT ON FUNCTION cortana.search_anchor IS
    'The beginning of the longest word of some texts: a piece of a word that a line must have to have all of the texts.';

CREATE FUNCTION cortana.saved_searches_changed() RETURNS trigger
LANGUAGE plpgsql AS $$
DECLARE
    terms CONSTANT search_terms := search_parse(NEW.query);
BEGIN
    IF terms.no_field IS NOT NULL THEN   -- whether a line of the videos to come has it nobody knows
        PERFORM search_refuse_field(terms.no_field);
    END IF;
    IF NOT search_has_subject(terms) THEN
        PERFORM search_refuse('a saved search needs a word, a tag: or a from:');
    END IF;
    DELETE FROM saved_search_sides WHERE search_id = NEW.id;
    INSERT INTO saved_search_sides (search_id, tenant_id, words, parts, anchors)
    SELECT NEW.id, NEW.tenant_id, s.words, p.parts,
           (SELECT array_agg(DISTINCT a.anchor) FROM unnest(ARRAY[
                search_anchor(ARRAY(SELECT m[1] FROM regexp_matches(s.words::text, $re$'([^']*)'$re$, 'g') AS m)), search_anchor(p.parts),
                search_anchor(ARRAY[s.sign]), CASE WHEN s IS NULL THEN search_anchor(terms.tags || ('#' || terms.labels[1])) END]) AS a (anchor)
            WHERE a.anchor IS NOT NULL)
    FROM unnest(coalesce(terms.sides, ARRAY[NULL::search_side])) AS s,
         LATERAL (SELECT coalesce(s.parts, CASE WHEN s.literal IS NOT NULL THEN ARRAY[search_pattern(s.literal)] END) AS parts) AS p;
    RETURN NULL;
END
$$;
COMMENT ON FUNCTION cortana.saved_searches_changed IS 'Trigger: checks the query, and keeps what a line must have to be asked.';
CREATE TRIGGER saved_searches_changed AFTER INSERT OR UPDATE OF query, tenant_id ON saved_searches
    FOR EACH ROW EXECUTE FUNCTION saved_searches_changed();

CREATE FUNCTION cortana.searches_to_ask(p_video_id uuid) RETURNS TABLE (search_id uuid, places tid[])
LANGUAGE sql STABLE
SET enable_nestloop = off   -- How many rows a function returns is guessed. Hashing costs the same however many there are.
SET enable_mergejoin = off
SET enable_sort = off
SET jit = off AS $$
    WITH sides AS MATERIALIZED (
        SELECT d.* FROM saved_search_sides d
        WHERE (d.tenant_id = (SELECT coalesce(v.team_id, v.owner_id) FROM videos v WHERE v.id = p_video_id) OR d.tenant_id IS NULL)
          AND NOT EXISTS (SELECT FROM saved_search_matches m WHERE m.search_id = d.search_id AND m.video_id = p_video_id)
    ), lines AS MATERIALIZED (
        SELECT m.ctid AS place, w.whole, m.tags, CASE WHEN m.continued IS NULL THEN m.document
                                                 ELSE to_tsvector('simple', search_spaced(w.whole)) END AS document
        FROM search_materialized m,
             LATERAL (SELECT m.normalized_text || coalesce(' ' || replace(m.continued, E'\n', ' '), '') AS whole OFFSET 0) AS w
        WHERE m.video_id = p_video_id
    ), words AS MATERIALIZED (
        SELECT w.word COLLATE "C" AS word, array_agg(w.place) AS places
        FROM (SELECT l.place, word FROM lines l, string_to_table(l.whole, ' ') AS word
              UNION ALL SELECT l.place, tag FROM lines l, unnest(l.tags) AS tag
              UNION ALL SELECT l.place, '#' || tag FROM videos v, unnest(tag_keys(v.tags)) AS tag, lines l WHERE v.id = p_video_id) AS w
        GROUP BY w.word COLLATE "C"
    ), anchors AS MATERIALIZED (
        SELECT DISTINCT anchor COLLATE "C" AS anchor, length(anchor) AS letters FROM sides d, unnest(d.anchors) AS anchor
    ), pieces AS (
        SELECT substr(w.word, at, k.letters) AS piece, w.places
        FROM (SELECT DISTINCT a.letters FROM anchors a) AS k, words w, generate_series(1, length(w.word) - k.letters + 1) AS at
    ), anchored AS MATERIALIZED (
        SELECT DISTINCT a.anchor, place FROM anchors a JOIN pieces p ON p.piece = a.anchor, unnest(p.places) AS place
    )
    SELECT f.search_id, array_agg(DISTINCT f.place)
    FROM (SELECT d.search_id, l.place FROM sides d, unnest(d.anchors) AS word JOIN anchored a ON a.anchor = word COLLATE "C" JOIN lines l USING (place)
          WHERE d.words IS NULL AND d.parts IS NULL OR l.document @@ d.words OR l.whole LIKE ALL (d.parts)
          UNION ALL
          SELECT d.search_id, l.place FROM sides d, lines l WHERE d.anchors IS NULL) AS f
    GROUP BY f.search_id
$$;
COMMENT ON FUNCTION cortana.searches_to_ask IS
    'The saved searches that may find something in a video and have not found it yet, each with the places of the lines that it is '
    'to be asked of. The anchors of all searches are looked up in the words of the video at once, so that a search costs next to '
    'nothing if the video does not have its rarest word.';

CREATE FUNCTION cortana.match_saved_searches(p_video_id uuid) RETURNS int
LANGUAGE plpgsql SECURITY DEFINER AS $$
DECLARE
    most CONSTANT int := 500; -- lines, the first, of which the best are told
    place record;
    asked saved_searches;
    terms search_terms;
    conditions text;
    places tid[];
    found_moments jsonb;
    made_clip uuid;
    title text;
    matches int := 0;
BEGIN
    SELECT coalesce(v.title, v.original_name) INTO title FROM videos v
    WHERE v.id = p_video_id
      AND (EXISTS (SELECT FROM saved_searches s WHERE s.tenant_id = coalesce(v.team_id, v.owner_id))
           OR EXISTS (SELECT FROM saved_searches s WHERE s.tenant_id IS NULL))
    FOR NO KEY UPDATE OF v; -- a new name would move the rows that are rated below
    IF NOT FOUND THEN
        RETURN 0; -- most tenants save none, so that their videos' words need not be put together
    END IF;
    FOR place IN SELECT a.search_id, a.places FROM searches_to_ask(p_video_id) AS a LOOP
        -- What fails for one search must cost the video nothing.
        BEGIN
            SELECT * INTO asked FROM saved_searches WHERE id = place.search_id;
            terms := search_parse(asked.query);
            conditions := search_field_conditions(terms);
            places := place.places;
            IF conditions <> '' THEN
                EXECUTE 'SELECT ARRAY(SELECT m.ctid FROM search_materialized m WHERE m.ctid = ANY ($1)' || conditions || ')'
                    INTO places USING places;
            END IF;
            SELECT jsonb_agg(jsonb_build_object('segment_id', f.segment_id, 'text', f.text, 't_start', f.t_start,
                                                't_end', f.t_end) ORDER BY f.t_start, f.segment_id) INTO found_moments
            FROM search_rate(terms, places[:most], 20, NULL, NULL) AS f WHERE f.match_kind <> 'fuzzy';
            CONTINUE WHEN found_moments IS NULL;
            made_clip := NULL;
            IF asked.clip THEN
                SELECT c.clip_id INTO made_clip
                FROM request_clip(p_video_id, (found_moments #>> '{0,t_start}')::int,
                                  (found_moments #>> '{0,t_end}')::int) AS c;
            END IF;
            INSERT INTO saved_search_matches (search_id, video_id, moments, clip_id, is_to_mail)
            VALUES (asked.id, p_video_id, found_moments, made_clip, asked.mail <> 'never');
            PERFORM mail_alerts(asked, p_video_id);
            PERFORM record_event('search.matched', jsonb_build_object(
                                   'search_id', asked.id, 'name', asked.name, 'query', asked.query, 'title', title,
                                   'moments', found_moments, 'clip_id', made_clip),
                               asked.tenant_id, p_video_id, NULL, NULL, NULL);
            matches := matches + 1;
        EXCEPTION WHEN OTHERS THEN
            RAISE LOG 'saved search % of video %: %', asked.id, p_video_id, SQLERRM;
        END;
    END LOOP;
    RETURN matches;
END
$$;
COMMENT ON FUNCTION cortana.match_saved_searches IS
    'Asks the saved searches of a video''s tenant of its lines. Lines count that have the words; misread ones do not. Each '
    'search that finds something for the first time gets a match, and the event search.matched says so. Returns their number.';

-- ---- the API -----------------------------------------------------------------------------------------------

CREATE FUNCTION api.saved_search_object(s saved_searches) RETURNS jsonb
LANGUAGE sql STABLE
RETURN jsonb_build_object(
    'id', s.id, 'name', s.name, 'query', s.query, 'clip', s.clip, 'mail', s.mail, 'owner_id', s.owner_id, 'tenant_id', s.tenant_id,
    'feed_url', '/api/v1/feeds/' || s.feed_key, 'created_at', s.created_at, 'updated_at', s.updated_at,
    'matches', (SELECT count(*) FROM saved_search_matches m WHERE m.search_id = s.id),
    'new_matches', (SELECT count(*) FROM saved_search_matches m WHERE m.search_id = s.id AND m.seen_at IS NULL));
COMMENT ON FUNCTION api.saved_search_object IS 'A saved search as the API shows it.';

CREATE FUNCTION api.saved_searches(p jsonb) RETURNS api.answer
LANGUAGE plpgsql STABLE SECURITY DEFINER AS $$
DECLARE
    wanted CONSTANT int := coalesce((p ->> 'limit')::int, 50);
    keys CONSTANT jsonb := api.read_cursor(p, 2);
BEGIN
    RETURN api.page(p, wanted, ARRAY(
        SELECT (api.saved_search_object(s), jsonb_build_array(s.created_at, s.id))::api.listed FROM saved_searches s
        WHERE may_touch(s.tenant_id)
          AND (keys IS NULL OR (s.created_at, s.id) < ((keys ->> 0)::timestamptz, (keys ->> 1)::uuid))
        ORDER BY s.created_at DESC, s.id DESC LIMIT wanted + 1));
END
$$;

CREATE FUNCTION api.save_search(p jsonb) RETURNS api.answer
LANGUAGE plpgsql SECURITY DEFINER AS $$
DECLARE
    most CONSTANT int := 10000; -- saved searches of a tenant, which cost a video of 5,000 lines 0.2 s of CPU
    tenant CONSTANT uuid := coalesce((p ->> 'team_id')::uuid, auth.uid());
    made saved_searches;
BEGIN
    IF NOT may_touch(tenant) THEN
        RAISE EXCEPTION 'you are not a member of this team' USING ERRCODE = 'invalid_parameter_value', COLUMN = 'team_id';
    ELSIF (SELECT count(*) FROM saved_searches WHERE tenant_id IS NOT DISTINCT FROM tenant) >= most THEN
        RAISE EXCEPTION 'there are % saved searches already: delete some', most USING ERRCODE = 'object_not_in_prerequisite_state';
    END IF;
    PERFORM check_alert_mail(p ->> 'mail', auth.uid());
    INSERT INTO saved_searches (owner_id, tenant_id, name, query, clip, mail)
    VALUES (auth.uid(), tenant, coalesce(p ->> 'name', left(p ->> 'query', 100)), p ->> 'query',
            coalesce((p ->> 'clip')::boolean, false), coalesce(p ->> 'mail', 'never'))
    RETURNING * INTO made;
    RETURN ROW(201, NULL, NULL, api.saved_search_object(made))::api.answer;
END
$$;

CREATE FUNCTION api.change_saved_search(p jsonb) RETURNS api.answer
LANGUAGE plpgsql SECURITY DEFINER AS $$
DECLARE
    changed saved_searches;
BEGIN
    UPDATE saved_searches SET name = coalesce(p ->> 'name', name), query = coalesce(p ->> 'query', query),
                              clip = coalesce((p ->> 'clip')::boolean, clip), updated_at = now()
    WHERE id = (p ->> 'id')::uuid AND may_touch(tenant_id) RETURNING * INTO changed;
    PERFORM api.require_found(FOUND);
    IF p ? 'mail' THEN
        PERFORM check_alert_mail(p ->> 'mail', changed.owner_id), set_alert_mail(changed.id, p ->> 'mail');
        SELECT * INTO changed FROM saved_searches WHERE id = changed.id;
    END IF;
    RETURN api.ok(api.saved_search_object(changed));
END
$$;

CREATE FUNCTION api.delete_saved_search(p jsonb) RETURNS api.answer
LANGUAGE plpgsql SECURITY DEFINER AS $$
BEGIN
    DELETE FROM saved_searches WHERE id = (p ->> 'id')::uuid AND may_touch(tenant_id);
    RETURN api.done(FOUND);
END
$$;

CREATE FUNCTION api.alerts(p jsonb) RETURNS api.answer
LANGUAGE plpgsql STABLE SECURITY DEFINER AS $$
DECLARE
    wanted CONSTANT int := coalesce((p ->> 'limit')::int, 50);
    keys CONSTANT jsonb := api.read_cursor(p, 3);
BEGIN
    RETURN api.page(p, wanted, ARRAY(
        SELECT (jsonb_build_object(
                    'search', jsonb_build_object('id', s.id, 'name', s.name, 'query', s.query),
                    'video_id', v.id, 'video_title', coalesce(v.title, v.original_name), 'matched_at', m.matched_at,
                    'seen_at', m.seen_at, 'moments', m.moments, 'clip_id', m.clip_id),
                jsonb_build_array(m.matched_at, m.search_id, m.video_id))::api.listed
        FROM saved_searches s JOIN saved_search_matches m ON m.search_id = s.id JOIN videos v ON v.id = m.video_id
        WHERE may_touch(s.tenant_id)
          AND (p ->> 'search' IS NULL OR s.id = (p ->> 'search')::uuid)
          AND (NOT coalesce((p ->> 'new')::boolean, false) OR m.seen_at IS NULL)
          AND (keys IS NULL OR (m.matched_at, m.search_id, m.video_id)
                               < ((keys ->> 0)::timestamptz, (keys ->> 1)::uuid, (keys ->> 2)::uuid))
        ORDER BY m.matched_at DESC, m.search_id DESC, m.video_id DESC LIMIT wanted + 1));
END
$$;

CREATE FUNCTION api.see_alerts(p jsonb) RETURNS api.answer
LANGUAGE plpgsql SECURITY DEFINER AS $$
DECLARE
    seen bigint;
BEGIN
    UPDATE saved_search_matches m SET seen_at = now()
    FROM saved_searches s
    WHERE s.id = m.search_id AND may_touch(s.tenant_id) AND m.seen_at IS NULL
      AND m.matched_at <= coalesce((p ->> 'until')::timestamptz, now())
      AND (p ->> 'search' IS NULL OR s.id = (p ->> 'search')::uuid);
    GET DIAGNOSTICS seen = ROW_COUNT;
    RETURN api.ok(jsonb_build_object('seen', seen));
END
$$;

CREATE FUNCTION cortana.feed_time(p_at timestamptz) RETURNS text
LANGUAGE sql STABLE
RETURN to_char(p_at AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS"Z"');
COMMENT ON FUNCTION cortana.feed_time IS 'A time as RFC 3339 wants it.';

CREATE FUNCTION cortana.feed_clock(p_ms int) RETURNS text
LANGUAGE sql IMMUTABLE
RETURN (p_ms / 60000) || ':' || to_char(p_ms / 1000 % 60, 'FM00');
COMMENT ON FUNCTION cortana.feed_clock IS 'A time of a video, in ms, as minutes and seconds.';

CREATE FUNCTION cortana.feed_text(p_text text) RETURNS text
LANGUAGE sql IMMUTABLE
RETURN regexp_replace(p_text, '[\u0001-\u0008\u000b\u000c\u000e-\u001f\ufffe\uffff]', ' ', 'g');
COMMENT ON FUNCTION cortana.feed_text IS 'A text without the characters that XML has no place for.';

CREATE FUNCTION api.feed(p jsonb) RETURNS api.answer
LANGUAGE plpgsql STABLE SECURITY DEFINER AS $$
DECLARE
    atom CONSTANT text := 'http://www.w3.org/2005/Atom';
    site CONSTANT text := coalesce(p ->> 'site', '');
    subject saved_searches;
    entries xml;
    newest timestamptz;
BEGIN
    SELECT * INTO subject FROM saved_searches WHERE feed_key = p ->> 'key';
    PERFORM api.require_found(FOUND);
    SELECT xmlagg(xmlelement(name entry,
               xmlelement(name id, 'urn:uuid:' || md5(m.search_id::text || m.video_id)::uuid),
               xmlelement(name title, feed_text(m.title)),
               xmlelement(name updated, feed_time(m.matched_at)),
               xmlelement(name link, xmlattributes(site || '/videos/' || m.video_id || '?t='
                                                   || round((m.moments #>> '{0,t_start}')::int / 1000.0, 3) AS href)),
               xmlelement(name content, xmlattributes('text' AS type),
                          (SELECT string_agg(feed_clock((line ->> 't_start')::int) || ' ' || feed_text(line ->> 'text'), E'\n')
                           FROM jsonb_array_elements(m.moments) AS line))) ORDER BY m.matched_at DESC),
           max(m.matched_at) INTO entries, newest
    FROM (SELECT f.*, coalesce(v.title, v.original_name, v.id::text) AS title
          FROM saved_search_matches f JOIN videos v ON v.id = f.video_id
          WHERE f.search_id = subject.id ORDER BY f.matched_at DESC LIMIT 50) AS m;
    RETURN api.ok(jsonb_build_object('feed',
        '<?xml version="1.0" encoding="utf-8"?>' || xmlelement(name feed, xmlattributes(atom AS xmlns),
            xmlelement(name id, 'urn:uuid:' || subject.id), xmlelement(name title, feed_text(subject.name)),
            xmlelement(name author, xmlelement(name name, 'cortana')),
            xmlelement(name updated, feed_time(coalesce(newest, subject.created_at))), entries)::text));
END
$$;

-- ---- who may call what -------------------------------------------------------------------------------------

SELECT secure_objects();
GRANT EXECUTE ON FUNCTION api.see_alerts TO authenticated;
GRANT EXECUTE ON FUNCTION cortana.feed_clock TO authenticated;
GRANT EXECUTE ON FUNCTION api.feed TO anon;
