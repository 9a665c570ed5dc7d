-- Search over the text on screen, and the one call by which segment_index replaces a video's text.
--
-- Three indexes answer: words (document), pieces of words and misread words (trigrams of `folded`),
-- and scripts without blanks, emoji and other signs (grams). Whatever is asked, each yields a bounded
-- number of candidates, which are then ranked.

ALTER TABLE segments ADD COLUMN end_box jsonb;
COMMENT ON COLUMN segments.end_box IS 'Where a text that moved stood at t_end; null: where it was at t_start.';

-- What OCR confuses, made equal: accents go, 0/o, 1/l/i/|, 5/s, 8/b, rn/m, vv/w. For normalized text.
CREATE FUNCTION search_fold(p_text text) RETURNS text
LANGUAGE sql IMMUTABLE STRICT PARALLEL SAFE
SET search_path = pg_catalog AS
$$
    SELECT replace(replace(translate(
        normalize(regexp_replace(normalize(p_text, NFKD), '[\u0300-\u036f]', '', 'g'), NFKC),
        '01i|!58' || U&'\0131', 'ollllsbl'), 'rn', 'm'), 'vv', 'w')
$$;

-- Single signs and neighbouring pairs of the scripts that set no blanks between words, and of emoji
-- and other signs that are no words: Thai to Khmer, arrows to dingbats, kana, Han, Hangul, emoji.
CREATE FUNCTION search_grams(p_text text) RETURNS text[]
LANGUAGE sql IMMUTABLE STRICT PARALLEL SAFE
SET search_path = pg_catalog AS
$$
    SELECT CASE WHEN p_text ~ U&'[\0E00-\0EFF\1000-\109F\1780-\17FF\2190-\2BFF\3005-\30FF\3400-\9FFF\AC00-\D7AF\F900-\FAFF\+01F000-\+01FAFF\+020000-\+03134F]'
    THEN (
        SELECT array_agg(DISTINCT gram) FROM (
            SELECT substr(run[1], at, 1 + pair)
            FROM regexp_matches(p_text, U&'[\0E00-\0EFF\1000-\109F\1780-\17FF\2190-\2BFF\3005-\30FF\3400-\9FFF\AC00-\D7AF\F900-\FAFF\+01F000-\+01FAFF\+020000-\+03134F]+', 'g') AS run,
                 generate_series(1, length(run[1])) AS at, generate_series(0, 1) AS pair
            WHERE at + pair <= length(run[1])
        ) AS found (gram))
    END
$$;

ALTER TABLE search_materialized
    ADD COLUMN folded text NOT NULL GENERATED ALWAYS AS (search_fold(normalized_text)) STORED,
    ADD COLUMN grams text[] GENERATED ALWAYS AS (search_grams(search_fold(normalized_text))) STORED;
CREATE INDEX search_materialized_folded ON search_materialized USING gin (folded gin_trgm_ops);
CREATE INDEX search_materialized_grams ON search_materialized USING gin (grams)
    WHERE grams IS NOT NULL;
CREATE INDEX search_materialized_owner ON search_materialized (owner_id);
CREATE INDEX search_materialized_team ON search_materialized (team_id) WHERE team_id IS NOT NULL;

-- ---- reading a query ------------------------------------------------------------------------------

-- A query taken apart. Words, "phrases", -exclusions, OR and prefix* as in a web search; more than 200
-- characters are not read.
CREATE TYPE search_terms AS (
    words tsquery,      -- what full text looks for; null: no word in it
    excluded tsquery,   -- what no result may hold; null: nothing
    literal text,       -- the query as plain text, where it asks for one; else null
    folded text,        -- all wanted words, folded, in order
    grams text[]
);

CREATE FUNCTION search_parse(p_query text) RETURNS search_terms
LANGUAGE plpgsql STABLE PARALLEL SAFE
SET search_path = pg_catalog, public AS
$$
DECLARE
    query text := btrim(regexp_replace(
        lower(normalize(left(regexp_replace(p_query, '[\x01-\x1f]', ' ', 'g'), 200), NFKC)
              COLLATE "und-x-icu"), '\s+', ' ', 'g'));
    plain text;
    term text;
    prefix tsquery;
    terms search_terms;
BEGIN
    query := replace(replace(query, 'ß', 'ss'), U&'\FE0F', '');
    plain := btrim(regexp_replace(query, '(^|\s)-("[^"]*"?|\S+)', ' ', 'g'));
    FOR term IN SELECT m[2] FROM regexp_matches(query, '(^|\s)-("[^"]*"?|\S+)', 'g') AS m LIMIT 16
    LOOP
        terms.excluded := coalesce(terms.excluded || phraseto_tsquery('simple', term),
                                   phraseto_tsquery('simple', term));
    END LOOP;
    IF numnode(terms.excluded) = 0 THEN
        terms.excluded := NULL;
    END IF;
    terms.words := websearch_to_tsquery('simple', regexp_replace(plain, '(\S+)\*(?=\s|$)', ' ', 'g'));
    FOR term IN SELECT m[1] FROM regexp_matches(plain, '([^\s"*]{2,})\*(?=\s|$)', 'g') AS m LIMIT 8
    LOOP
        IF numnode(plainto_tsquery('simple', term)) > 0 THEN
            prefix := (plainto_tsquery('simple', term)::text || ':*')::tsquery;
            terms.words := CASE WHEN numnode(terms.words) > 0 THEN terms.words && prefix ELSE prefix END;
        END IF;
    END LOOP;
    IF numnode(terms.words) = 0 THEN
        terms.words := NULL;
    END IF;
    IF plain ~ '^"[^"]+"?$' OR (plain !~ '["*]' AND plain !~ '\sor\s') THEN
        terms.literal := nullif(btrim(replace(plain, '"', '')), '');
    END IF;
    IF plain !~ '\sor\s' THEN
        terms.folded := nullif(search_fold(btrim(regexp_replace(
            translate(plain, '"*', '  '), '\s+', ' ', 'g'))), '');
        terms.grams := search_grams(terms.folded);
    END IF;
    RETURN terms;
END
$$;

-- ---- candidates -----------------------------------------------------------------------------------

-- True when the caller's rows are all rows: row-level security does not bind the service role, nor
-- whoever may bypass it.
CREATE FUNCTION search_sees_all() RETURNS boolean
LANGUAGE sql STABLE
SET search_path = pg_catalog AS
$$
    SELECT rolsuper OR rolbypassrls OR pg_has_role(oid, 'service_role', 'MEMBER')
    FROM pg_roles
    WHERE rolname = coalesce(nullif(current_setting('role', true), 'none'), session_user)
$$;

-- Rows that may answer, at most p_limit from each index. PostgreSQL lets no text operator use an
-- index below a row-level security policy (none is leakproof), so this reads past the policy and
-- applies the same rule itself; search_segments reads every row once more under the policy.
CREATE FUNCTION search_candidates(p_terms search_terms, p_video uuid, p_limit int, p_fuzzy boolean)
RETURNS SETOF uuid
LANGUAGE plpgsql STABLE
SECURITY DEFINER SET search_path = pg_catalog, public
SET pg_trgm.word_similarity_threshold = 0.42
SET plan_cache_mode = force_custom_plan
SET jit = off AS
$$
DECLARE
    sees_all boolean := search_sees_all();
    reader uuid := auth.uid();
    teams uuid[] := current_team_ids();
    pattern text := '%' || regexp_replace(p_terms.folded, '([\\%_])', '\\\1', 'g') || '%';
    scope text := CASE WHEN sees_all THEN '' ELSE ' AND (owner_id = $5 OR team_id = ANY ($6))' END
        || CASE WHEN p_video IS NULL THEN '' ELSE ' AND video_id = $4' END
        || CASE WHEN p_terms.excluded IS NULL THEN '' ELSE ' AND NOT document @@ $3' END;
    base constant text := 'SELECT segment_id FROM search_materialized WHERE ';
BEGIN
    IF p_fuzzy THEN
        RETURN QUERY EXECUTE base || 'folded %> $1' || scope || ' LIMIT $2'
            USING p_terms.folded, p_limit, p_terms.excluded, p_video, reader, teams;
        RETURN;
    END IF;
    IF p_terms.literal IS NOT NULL AND numnode(phraseto_tsquery('simple', p_terms.literal)) > 1 THEN
        RETURN QUERY EXECUTE base || 'document @@ $1' || scope || ' LIMIT $2'
            USING phraseto_tsquery('simple', p_terms.literal), p_limit, p_terms.excluded, p_video,
                  reader, teams;
    END IF;
    IF p_terms.words IS NOT NULL THEN
        RETURN QUERY EXECUTE base || 'document @@ $1' || scope || ' LIMIT $2'
            USING p_terms.words, p_limit, p_terms.excluded, p_video, reader, teams;
    END IF;
    IF p_terms.grams IS NOT NULL THEN
        RETURN QUERY EXECUTE base || 'grams @> $1 AND folded LIKE ALL ($7)' || scope || ' LIMIT $2'
            USING p_terms.grams, p_limit, p_terms.excluded, p_video, reader, teams,
                  (SELECT array_agg('%' || regexp_replace(w, '([\\%_])', '\\\1', 'g') || '%')
                   FROM string_to_table(p_terms.folded, ' ') AS w);
    ELSIF p_terms.folded ~ '[[:alnum:]]{3}' THEN
        -- fewer than three letters in a row have no trigram to look up
        RETURN QUERY EXECUTE base || 'folded LIKE $1' || scope || ' LIMIT $2'
            USING pattern, p_limit, p_terms.excluded, p_video, reader, teams;
    END IF;
END
$$;

-- ---- results --------------------------------------------------------------------------------------

-- The text with what matched between the two marks.
CREATE FUNCTION search_snippet(p_text text, p_terms search_terms, p_start text, p_stop text)
RETURNS text
LANGUAGE plpgsql STABLE PARALLEL SAFE
SET search_path = pg_catalog, public AS
$$
DECLARE
    line text := left(regexp_replace(p_text, '[\x01-\x1f]', ' ', 'g'), 1000);
    at int := position(p_terms.literal IN lower(line COLLATE "und-x-icu"));
    marked text;
BEGIN
    IF at > 0 AND length(lower(line COLLATE "und-x-icu")) = length(line) THEN
        RETURN overlay(line PLACING p_start || substr(line, at, length(p_terms.literal)) || p_stop
                       FROM at FOR length(p_terms.literal));
    END IF;
    IF p_terms.words IS NOT NULL THEN
        marked := ts_headline('simple', line, p_terms.words,
                              E'HighlightAll=true, StartSel=\x01, StopSel=\x02');
    END IF;
    IF marked IS NULL OR position(E'\x01' IN marked) = 0 THEN
        SELECT string_agg(CASE WHEN piece ~ '\S' AND EXISTS (
                   SELECT FROM string_to_table(p_terms.folded, ' ') AS word
                   WHERE word_similarity(word, search_fold(lower(piece COLLATE "und-x-icu"))) >= 0.42
                      OR position(word IN search_fold(lower(piece COLLATE "und-x-icu"))) > 0)
               THEN E'\x01' || piece || E'\x02' ELSE piece END, '' ORDER BY number)
        INTO marked
        FROM (SELECT m[1] AS piece, number
              FROM regexp_matches(line, '(\s+|\S+)', 'g') WITH ORDINALITY AS r (m, number)) AS pieces;
    END IF;
    RETURN replace(replace(coalesce(marked, line), E'\x01', p_start), E'\x02', p_stop);
END
$$;

CREATE FUNCTION search_segments(
    query text, video uuid DEFAULT NULL, max_results int DEFAULT 50,
    start_mark text DEFAULT '<mark>', stop_mark text DEFAULT '</mark>')
RETURNS TABLE (segment_id uuid, video_id uuid, text text, snippet text, t_start int, t_end int,
               bounding_box jsonb, confidence real, language text, rank real, match_kind text)
LANGUAGE plpgsql STABLE
SECURITY INVOKER SET search_path = pg_catalog, public
SET jit = off AS
$$
DECLARE
    terms search_terms := search_parse(coalesce(query, ''));
    wanted int := least(greatest(coalesce(max_results, 50), 0), 1000);
    -- enough to rank the best of a common word first, few enough to be ranked in milliseconds
    candidate_limit int := greatest(1000, wanted);
    candidates uuid[];
BEGIN
    IF terms.words IS NULL AND terms.folded IS NULL OR wanted = 0 THEN
        RETURN;
    END IF;
    candidates := ARRAY(SELECT DISTINCT c FROM search_candidates(terms, video, candidate_limit, false) AS c);
    IF cardinality(candidates) < wanted AND length(terms.folded) BETWEEN 3 AND 100 THEN
        candidates := candidates
            || ARRAY(SELECT c FROM search_candidates(terms, video, candidate_limit, true) AS c);
    END IF;
    RETURN QUERY
    WITH rated AS (
        SELECT m.*,
               CASE WHEN position(terms.literal IN m.normalized_text) > 0 THEN 'exact'
                    WHEN m.document @@ terms.words THEN 'text'
                    ELSE 'fuzzy' END AS kind
        FROM search_materialized m
        WHERE m.segment_id = ANY (candidates)
    ), ranked AS (
        SELECT r.*,
               (CASE r.kind
                    WHEN 'exact' THEN 2 + (' ' || r.normalized_text || ' ' LIKE
                            '%' || ' ' || regexp_replace(terms.literal, '([\\%_])', '\\\1', 'g') || ' %')::int
                        + length(terms.literal)::real / greatest(length(r.normalized_text), 1)
                    WHEN 'text' THEN 1 + least(ts_rank(r.document, terms.words, 1), 0.99)
                    ELSE CASE WHEN position(terms.folded IN r.folded) > 0 THEN 0.9 ELSE 0 END
                        + 0.09 * word_similarity(terms.folded, r.folded)
                END)::real AS score
        FROM rated r
        ORDER BY score DESC, r.confidence DESC, r.video_id, r.t_start, r.segment_id
        LIMIT wanted
    )
    SELECT r.segment_id, r.video_id, r.text, search_snippet(r.text, terms, start_mark, stop_mark),
           r.t_start, r.t_end, r.bounding_box, r.confidence, r.language, r.score, r.kind
    FROM ranked r
    ORDER BY r.score DESC, r.confidence DESC, r.video_id, r.t_start, r.segment_id;
END
$$;
COMMENT ON FUNCTION search_segments(text, uuid, int, text, text) IS
    'Words, "phrases", -exclusions, OR, prefix*; exact hits first, then words, then what OCR or a typo made of them. Bounded: 200 characters of query, 1000 results.';

REVOKE ALL ON FUNCTION search_candidates(search_terms, uuid, int, boolean) FROM PUBLIC;
GRANT EXECUTE ON FUNCTION search_candidates(search_terms, uuid, int, boolean)
    TO authenticated, service_role;
REVOKE ALL ON FUNCTION search_segments(text, uuid, int, text, text) FROM PUBLIC, anon;
GRANT EXECUTE ON FUNCTION search_segments(text, uuid, int, text, text) TO authenticated, service_role;

-- ---- replacing a video's text ---------------------------------------------------------------------

-- Makes the video's segments and entities those of p_segments, a list of {text, normalized_text,
-- language, confidence, t_start, t_end, bounding_box, end_box, entities: [{type, value,
-- normalized_value}]}, and searchable. Rows that are the same already are not touched; ids follow
-- from what a row holds, so that the same list leaves the same rows.
CREATE FUNCTION replace_video_text(p_video_id uuid, p_segments jsonb,
                                   OUT segment_count bigint, OUT entity_count bigint)
LANGUAGE plpgsql
SECURITY INVOKER SET search_path = pg_catalog, public AS
$$
BEGIN
    PERFORM FROM videos WHERE id = p_video_id FOR UPDATE;
    IF NOT FOUND THEN
        RAISE EXCEPTION 'video % does not exist', p_video_id USING ERRCODE = 'foreign_key_violation';
    END IF;
    CREATE TEMP TABLE incoming_text ON COMMIT DROP AS
    SELECT DISTINCT ON (id) segment_id(p_video_id, hash, t_start, bounding_box) AS id, hash, s.*
    FROM jsonb_to_recordset(p_segments) AS s (
             text text, normalized_text text, language text, confidence real, t_start int, t_end int,
             bounding_box jsonb, end_box jsonb, entities jsonb),
         LATERAL encode(sha256(convert_to(s.normalized_text, 'UTF8')), 'hex') AS hash
    ORDER BY id, s.t_end DESC, s.text;

    DELETE FROM segments s
    WHERE s.video_id = p_video_id AND NOT EXISTS (SELECT FROM incoming_text i WHERE i.id = s.id);
    INSERT INTO segments AS s (id, video_id, owner_id, team_id, text, normalized_text, text_hash,
                               language, confidence, t_start, t_end, bounding_box, end_box)
    SELECT i.id, v.id, v.owner_id, v.team_id, i.text, i.normalized_text, i.hash, i.language,
           i.confidence, i.t_start, i.t_end, i.bounding_box, i.end_box
    FROM incoming_text i, videos v
    WHERE v.id = p_video_id
    ON CONFLICT (id) DO UPDATE SET
        owner_id = excluded.owner_id, team_id = excluded.team_id, text = excluded.text,
        normalized_text = excluded.normalized_text, text_hash = excluded.text_hash,
        language = excluded.language, confidence = excluded.confidence, t_end = excluded.t_end,
        bounding_box = excluded.bounding_box, end_box = excluded.end_box
    WHERE (s.owner_id, s.team_id, s.text, s.normalized_text, s.text_hash, s.language, s.confidence,
           s.t_end, s.bounding_box, s.end_box)
          IS DISTINCT FROM
          (excluded.owner_id, excluded.team_id, excluded.text, excluded.normalized_text,
           excluded.text_hash, excluded.language, excluded.confidence, excluded.t_end,
           excluded.bounding_box, excluded.end_box);

    CREATE TEMP TABLE incoming_entities ON COMMIT DROP AS
    SELECT md5(concat_ws('|', i.id, e.type, e.number, e.value))::uuid AS id, i.id AS segment_id,
           e.type, e.value, e.normalized_value
    FROM incoming_text i,
         ROWS FROM (jsonb_to_recordset(i.entities) AS (type text, value text, normalized_value text))
             WITH ORDINALITY AS e (type, value, normalized_value, number);
    DELETE FROM entities e USING segments s
    WHERE s.video_id = p_video_id AND e.segment_id = s.id
      AND NOT EXISTS (SELECT FROM incoming_entities i WHERE i.id = e.id);
    INSERT INTO entities AS e (id, segment_id, entity_type, value, normalized_value)
    SELECT i.id, i.segment_id, i.type, i.value, i.normalized_value FROM incoming_entities i
    ON CONFLICT (id) DO UPDATE SET normalized_value = excluded.normalized_value
    WHERE e.normalized_value <> excluded.normalized_value;

    SELECT count(*) INTO segment_count FROM incoming_text;
    SELECT count(*) INTO entity_count FROM incoming_entities;
    DROP TABLE incoming_text, incoming_entities;
    PERFORM refresh_search_materialized(p_video_id);
    UPDATE videos SET status = 'ready' WHERE id = p_video_id AND status <> 'ready';
END
$$;
REVOKE ALL ON FUNCTION replace_video_text(uuid, jsonb) FROM PUBLIC, anon, authenticated;
GRANT EXECUTE ON FUNCTION replace_video_text(uuid, jsonb) TO service_role;
