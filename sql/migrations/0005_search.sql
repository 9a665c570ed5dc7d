-- Search over the text on screen, and the one call by which segment_index replaces a video's text.
--
-- Four indexes answer: words (document), pieces of words and what OCR confuses (trigrams of `folded`),
-- scripts without blanks, emoji and other signs (grams), and, where these find little, the library's
-- own words that are near what was typed (search_words). Whatever is asked, each yields a bounded
-- number of candidates, which are then ranked.

CREATE EXTENSION IF NOT EXISTS fuzzystrmatch;

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

-- ---- the library's words ---------------------------------------------------------------------------

-- Every word of the library once, to find what a misspelt or misread one may mean: a trigram search
-- over words costs a few milliseconds where one over lines costs hundreds. It tells nobody what it
-- holds: users may not read it, and what it leads to is read under their own rights. A word may stay
-- after its last line has gone, until search_words_prune().
CREATE TABLE search_words (
    folded text NOT NULL,
    word text NOT NULL,                 -- as in search_materialized.document
    PRIMARY KEY (folded, word)
);
CREATE INDEX search_words_folded ON search_words USING gin (folded gin_trgm_ops);
ALTER TABLE search_words ENABLE ROW LEVEL SECURITY;
REVOKE ALL ON search_words FROM PUBLIC, anon, authenticated;
GRANT SELECT, DELETE ON search_words TO service_role;
CREATE POLICY search_words_service ON search_words TO service_role USING (true) WITH CHECK (true);

-- A word as a tsquery of itself, whatever is in it.
CREATE FUNCTION search_word_query(p_word text) RETURNS text
LANGUAGE sql IMMUTABLE STRICT PARALLEL SAFE
SET search_path = pg_catalog AS
$$
    SELECT '''' || replace(replace(p_word, '\', '\\'), '''', '''''') || ''''
$$;

CREATE FUNCTION search_words_prune() RETURNS bigint
LANGUAGE plpgsql
SECURITY DEFINER SET search_path = pg_catalog, public AS
$$
DECLARE
    pruned bigint;
BEGIN
    DELETE FROM search_words w
    WHERE NOT EXISTS (SELECT FROM search_materialized m
                      WHERE m.document @@ search_word_query(w.word)::tsquery);
    GET DIAGNOSTICS pruned = ROW_COUNT;
    RETURN pruned;
END
$$;
COMMENT ON FUNCTION search_words_prune() IS
    'Forgets the words that no line holds any more; looks every word up once.';
REVOKE ALL ON FUNCTION search_words_prune() FROM PUBLIC, anon, authenticated;
GRANT EXECUTE ON FUNCTION search_words_prune() TO service_role;

-- Brings one video, or every video that is marked, up to date, and remembers the words of the rows that
-- it writes. Returns how many rows those were. Deleted segments take their search rows with them
-- (foreign key).
CREATE FUNCTION refresh_search_materialized(p_video_id uuid DEFAULT NULL) RETURNS bigint
LANGUAGE plpgsql
SECURITY DEFINER SET search_path = pg_catalog, public AS
$$
DECLARE
    written bigint;
BEGIN
    WITH due AS (
        DELETE FROM search_pending p WHERE p_video_id IS NULL OR p.video_id = p_video_id
        RETURNING p.video_id
    ), changed AS (
        INSERT INTO search_materialized AS m
            (segment_id, video_id, owner_id, team_id, platform, text, normalized_text, language,
             confidence, t_start, t_end, bounding_box)
        SELECT s.id, s.video_id, s.owner_id, s.team_id, v.platform, s.text, s.normalized_text,
               s.language, s.confidence, s.t_start, s.t_end, s.bounding_box
        FROM (SELECT due.video_id FROM due UNION SELECT p_video_id WHERE p_video_id IS NOT NULL) AS d
        JOIN videos v ON v.id = d.video_id
        JOIN segments s ON s.video_id = d.video_id
        ON CONFLICT (segment_id) DO UPDATE SET
            owner_id = excluded.owner_id, team_id = excluded.team_id, platform = excluded.platform,
            text = excluded.text, normalized_text = excluded.normalized_text,
            language = excluded.language, confidence = excluded.confidence,
            t_start = excluded.t_start, t_end = excluded.t_end, bounding_box = excluded.bounding_box
        WHERE (m.owner_id, m.team_id, m.platform, m.text, m.normalized_text, m.language,
               m.confidence, m.t_start, m.t_end, m.bounding_box)
              IS DISTINCT FROM
              (excluded.owner_id, excluded.team_id, excluded.platform, excluded.text,
               excluded.normalized_text, excluded.language, excluded.confidence, excluded.t_start,
               excluded.t_end, excluded.bounding_box)
        RETURNING document
    ), words AS (
        SELECT DISTINCT search_fold(piece) AS folded, word
        FROM (SELECT DISTINCT unnest(tsvector_to_array(document)) AS word FROM changed) AS w,
             regexp_split_to_table(w.word, '[^[:alnum:]]+') AS piece
        WHERE length(piece) BETWEEN 3 AND 30 AND length(word) <= 100 AND piece ~ '[[:alpha:]]'
    ), remembered AS (
        -- in order, so that two transactions that meet the same new words wait and do not deadlock
        INSERT INTO search_words SELECT folded, word FROM words ORDER BY folded, word
        ON CONFLICT DO NOTHING
    )
    SELECT count(*) INTO written FROM changed;
    RETURN written;
END
$$;
COMMENT ON FUNCTION refresh_search_materialized(uuid) IS
    'Makes one video (or, without argument, every changed one) searchable; costs what the video costs.';
REVOKE ALL ON FUNCTION refresh_search_materialized(uuid) FROM PUBLIC, anon, authenticated;
GRANT EXECUTE ON FUNCTION refresh_search_materialized(uuid) TO service_role;

-- ---- reading a query ------------------------------------------------------------------------------

-- A query taken apart. Words, "phrases", -exclusions, OR and prefix* as in a web search; more than 200
-- characters are not read.
CREATE TYPE search_terms AS (
    words tsquery,      -- what full text looks for; null: no word in it
    excluded tsquery,   -- what no result may hold; null: nothing
    literal text,       -- the query as plain text, where it asks for one; else null
    folded text,        -- all wanted words, folded, in order
    grams text[],
    languages text[],   -- lang:, any of them; null: all
    tags text[],        -- tag:, all of them, as entities hold them (#name, @name)
    after_ms int,       -- after: text that was still on screen then, in the video's own time
    before_ms int,      -- before: text that was on screen by then
    after_time timestamptz,     -- after: videos taken in at or after this time
    before_time timestamptz     -- before: videos taken in before it
);

-- Refuses a query, in words that say what to write.
CREATE FUNCTION search_refuse(p_message text) RETURNS void
LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE AS
$$
BEGIN
    RAISE EXCEPTION '%', p_message USING ERRCODE = 'invalid_parameter_value';
END
$$;

-- 1:30, 1:02:03, 90s, 5m, 1h20m as milliseconds; null: something else.
CREATE FUNCTION search_position(p_value text) RETURNS int
LANGUAGE sql IMMUTABLE STRICT PARALLEL SAFE
SET search_path = pg_catalog AS
$$
    SELECT CASE
        WHEN p_value ~ '^(\d{1,2}:)?\d{1,3}:[0-5]\d$' THEN (
            SELECT sum(part::int * (60 ^ (number - 1))::int)::int * 1000
            FROM string_to_table(reverse(p_value), ':') WITH ORDINALITY AS t (turned, number),
                 reverse(turned) AS part)
        WHEN p_value ~ '^(\d{1,3}h)?(\d{1,4}m)?(\d{1,5}s)?$' AND p_value <> '' THEN
            1000 * (3600 * coalesce(substring(p_value, '(\d+)h')::int, 0)
                    + 60 * coalesce(substring(p_value, '(\d+)m')::int, 0)
                    + coalesce(substring(p_value, '(\d+)s')::int, 0))
    END
$$;

-- 2024, 2024-05, 2024-05-17 as the start of that year, month or day; null: something else.
CREATE FUNCTION search_date(p_value text) RETURNS timestamptz
LANGUAGE plpgsql STABLE STRICT PARALLEL SAFE
SET search_path = pg_catalog AS
$$
BEGIN
    IF p_value !~ '^[12]\d{3}(-\d{2}(-\d{2})?)?$' THEN
        RETURN NULL;
    END IF;
    RETURN (p_value || left('-01-01', 10 - length(p_value)) )::date::timestamptz;
EXCEPTION WHEN datetime_field_overflow OR invalid_datetime_format THEN
    RETURN NULL;
END
$$;

-- Puts one field of a query into the terms.
CREATE FUNCTION search_add_field(p_terms search_terms, p_field text, p_value text)
RETURNS search_terms
LANGUAGE plpgsql STABLE PARALLEL SAFE
SET search_path = pg_catalog, public AS
$$
DECLARE
    terms search_terms := p_terms;
    at_ms int := search_position(p_value);
    at_time timestamptz := search_date(p_value);
BEGIN
    IF p_field = 'lang' THEN
        IF p_value !~ '^(script/)?[a-z]{3}[a-z_]*$' THEN
            PERFORM search_refuse('lang: takes the name of a Tesseract model: write lang:deu');
        END IF;
        terms.languages := terms.languages || p_value;
    ELSIF p_field = 'tag' THEN
        IF p_value !~ '^[#@]?\w+$' THEN
            PERFORM search_refuse('tag: takes a hashtag or a mention: write tag:berlin or tag:@anna');
        END IF;
        terms.tags := terms.tags || CASE WHEN p_value ~ '^[#@]' THEN p_value ELSE '#' || p_value END;
    ELSIF at_ms IS NULL AND at_time IS NULL THEN
        PERFORM search_refuse(format('%s: takes a date or a place in the video: write %1$s:2024-05-17'
                                     ' or %1$s:1:30 or %1$s:90s', p_field));
    ELSIF p_field = 'after' THEN
        terms.after_ms := greatest(terms.after_ms, at_ms);
        terms.after_time := greatest(terms.after_time, at_time);
    ELSE
        terms.before_ms := least(terms.before_ms, at_ms);
        terms.before_time := least(terms.before_time, at_time);
    END IF;
    RETURN terms;
END
$$;

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
    field text[];
    prefix tsquery;
    terms search_terms;
BEGIN
    query := replace(replace(query, 'ß', 'ss'), U&'\FE0F', '');
    FOR field IN SELECT m FROM regexp_matches(query,
                     '(?:^|\s)(-?)(lang|tag|after|before):(\S*)', 'g') AS m
    LOOP
        IF field[1] = '-' THEN
            PERFORM search_refuse(format('-%s: is not known: fields can be asked for, not left out',
                                         field[2]));
        END IF;
        terms := search_add_field(terms, field[2], field[3]);
    END LOOP;
    query := btrim(regexp_replace(query, '(^|\s)(lang|tag|after|before):\S*', ' ', 'g'));
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

-- What the wanted words may have been: for each, the library's words within one edit (two from five
-- letters on), nearest first. Words that nothing is near to are left out; null: all of them.
CREATE FUNCTION search_expand(p_folded text) RETURNS tsquery
LANGUAGE sql STABLE
SET search_path = pg_catalog, public
SET pg_trgm.similarity_threshold = 0.2 AS
$$
    SELECT string_agg(alternatives, ' & ')::tsquery
    FROM (
        SELECT '(' || string_agg(search_word_query(near.word), ' | ') || ')' AS alternatives
        FROM (
            SELECT DISTINCT typed
            FROM regexp_split_to_table(p_folded, '[^[:alnum:]]+') AS typed
            WHERE length(typed) BETWEEN 3 AND 30
            ORDER BY typed
            LIMIT 8
        ) AS query
        CROSS JOIN LATERAL (
            SELECT w.word
            FROM search_words w,
                 levenshtein_less_equal(query.typed, w.folded, 2) AS edits
            WHERE w.folded % query.typed
              AND abs(length(w.folded) - length(query.typed)) <= 2
              AND edits <= CASE WHEN length(query.typed) < 5 THEN 1 ELSE 2 END
            ORDER BY edits, similarity(w.folded, query.typed) DESC, w.word
            LIMIT 16
        ) AS near
        GROUP BY query.typed
    ) AS words
$$;
REVOKE ALL ON FUNCTION search_expand(text) FROM PUBLIC, anon, authenticated;

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

-- What the fields of a query ask of a row m of search_materialized, as SQL.
CREATE FUNCTION search_field_conditions(p_terms search_terms) RETURNS text
LANGUAGE sql STABLE PARALLEL SAFE
SET search_path = pg_catalog AS
$$
    SELECT concat(
        CASE WHEN p_terms.languages IS NOT NULL
             THEN format(' AND lower(language) = ANY (%L::text[])', p_terms.languages) END,
        (SELECT string_agg(format(
             ' AND segment_id IN (SELECT e.segment_id FROM entities e WHERE e.entity_type = %L'
             ' AND e.normalized_value = %L)',
             CASE WHEN tag LIKE '@%' THEN 'mention' ELSE 'hashtag' END, tag), '')
         FROM unnest(p_terms.tags) AS tag),
        CASE WHEN p_terms.after_ms IS NOT NULL THEN format(' AND t_end > %s', p_terms.after_ms) END,
        CASE WHEN p_terms.before_ms IS NOT NULL
             THEN format(' AND t_start < %s', p_terms.before_ms) END,
        CASE WHEN p_terms.after_time IS NOT NULL OR p_terms.before_time IS NOT NULL
             THEN format(' AND EXISTS (SELECT FROM videos v WHERE v.id = m.video_id'
                         ' AND v.created_at >= %L AND v.created_at < %L)',
                         coalesce(p_terms.after_time, '-infinity'),
                         coalesce(p_terms.before_time, 'infinity')) END)
$$;

-- Rows that may answer, at most p_limit from each index. PostgreSQL lets no text operator use an
-- index below a row-level security policy (none is leakproof), so this reads past the policy and
-- applies the same rule itself; search_segments reads every row once more under the policy.
CREATE FUNCTION search_candidates(p_terms search_terms, p_video uuid, p_limit int, p_fuzzy boolean)
RETURNS SETOF uuid
LANGUAGE plpgsql STABLE
SECURITY DEFINER SET search_path = pg_catalog, public
SET jit = off AS
$$
DECLARE
    sees_all boolean := search_sees_all();
    reader uuid := auth.uid();
    teams uuid[] := current_team_ids();
    -- patterns of the three longest words
    pieces text[] := ARRAY(
        SELECT '%' || word || '%' FROM regexp_split_to_table(p_terms.folded, '[^[:alnum:]]+') AS word
        WHERE length(word) >= 3 ORDER BY length(word) DESC, word LIMIT 3);
    scope text := CASE WHEN sees_all THEN '' ELSE ' AND (owner_id = $5 OR team_id = ANY ($6))' END
        || CASE WHEN p_video IS NULL THEN '' ELSE ' AND video_id = $4' END
        || CASE WHEN p_terms.excluded IS NULL THEN '' ELSE ' AND NOT document @@ $3' END
        || search_field_conditions(p_terms);
    base constant text := 'SELECT segment_id FROM search_materialized AS m WHERE ';
BEGIN
    IF p_terms.words IS NULL AND p_terms.folded IS NULL THEN
        -- No word, but a tag: the lines that hold it.
        RETURN QUERY EXECUTE base || '$1 IS NULL' || scope || ' LIMIT $2'
            USING p_terms.words, p_limit, p_terms.excluded, p_video, reader, teams;
        RETURN;
    END IF;
    IF p_fuzzy THEN
        RETURN QUERY EXECUTE base || 'document @@ $1' || scope || ' LIMIT $2'
            USING search_expand(p_terms.folded), p_limit, p_terms.excluded, p_video, reader, teams;
        RETURN;
    END IF;
    IF numnode(phraseto_tsquery('simple', p_terms.literal)) > 1
        AND phraseto_tsquery('simple', p_terms.literal)::text IS DISTINCT FROM p_terms.words::text
    THEN
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
        -- Fewer than three letters in a row have no trigram to look up. The longest words
        -- are looked up alone: a line has fifty trigrams, and reading all their lists costs more than
        -- it spares.
        RETURN QUERY EXECUTE base || 'folded LIKE $1 AND folded LIKE $8 AND folded LIKE $9'
                || ' AND position($7 IN folded) > 0' || scope || ' LIMIT $2'
            USING pieces[1], p_limit, p_terms.excluded, p_video, reader, teams, p_terms.folded,
                  coalesce(pieces[2], pieces[1]), coalesce(pieces[3], pieces[1]);
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
    candidate_limit int := greatest(500, wanted);
    candidates uuid[];
BEGIN
    IF terms.words IS NULL AND terms.folded IS NULL AND terms.tags IS NULL
        AND coalesce(terms.languages[1], terms.after_ms::text, terms.before_ms::text,
                     terms.after_time::text, terms.before_time::text) IS NOT NULL THEN
        PERFORM search_refuse('lang:, after: and before: narrow a search down: add a word or a tag:');
    END IF;
    IF terms.words IS NULL AND terms.folded IS NULL AND terms.tags IS NULL OR wanted = 0 THEN
        RETURN;
    END IF;
    candidates := ARRAY(SELECT DISTINCT c FROM search_candidates(terms, video, candidate_limit, false) AS c);
    -- A query that found its text needs no guesses, the less the more words it has.
    IF cardinality(candidates) < least(wanted, CASE WHEN terms.folded LIKE '% % % %' THEN 1 ELSE 5 END)
        AND length(terms.folded) BETWEEN 3 AND 100 THEN
        candidates := candidates
            || ARRAY(SELECT c FROM search_candidates(terms, video, candidate_limit, true) AS c);
    END IF;
    RETURN QUERY
    WITH rated AS (
        SELECT m.*,
               CASE WHEN position(terms.literal IN m.normalized_text) > 0 THEN 'exact'
                    WHEN m.document @@ terms.words
                        OR terms.words IS NULL AND terms.folded IS NULL THEN 'text'
                    ELSE 'fuzzy' END AS kind
        FROM search_materialized m
        WHERE m.segment_id = ANY (candidates)
    ), ranked AS (
        SELECT r.*,
               (CASE r.kind
                    WHEN 'exact' THEN 2 + (' ' || r.normalized_text || ' ' LIKE
                            '%' || ' ' || regexp_replace(terms.literal, '([\\%_])', '\\\1', 'g') || ' %')::int
                        + length(terms.literal)::real / greatest(length(r.normalized_text), 1)
                    WHEN 'text' THEN 1 + coalesce(least(ts_rank(r.document, terms.words, 1), 0.99), 0)
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
    'Words, "phrases", -exclusions, OR, prefix*, lang:, tag:, after:, before:; exact hits first, then words, then what OCR or a typo made of them. Bounded: 200 characters of query, 1000 results.';

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
