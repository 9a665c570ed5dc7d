-- Searching in large libraries costs less: each word and each four letters of a part are conditions of their own, and the
-- rarest words come first. GIN asks the conditions of a scan one after the other, but the keys of one condition all
-- together. And the index is not asked for many more lines than may be read.

CREATE FUNCTION cortana.search_typed_words(p_text text) RETURNS text[]
LANGUAGE sql IMMUTABLE PARALLEL SAFE
RETURN string_to_array(btrim(phraseto_tsquery('pg_catalog.simple', translate(left(p_text, 2000), '<>&', '   '))::text,
                             ''''), ''' <-> ''');
COMMENT ON FUNCTION cortana.search_typed_words IS 'Returns the words of search_word_list(), but not folded.';

CREATE FUNCTION cortana.search_rarest_first(p_words text[]) RETURNS text[]
LANGUAGE plpgsql STABLE
SET search_path = pg_catalog, public, cortana, extensions, pg_temp AS
$$
DECLARE
    common text[];
    shares real[];
BEGIN
    -- Of two words, the order hardly matters: each of them leads the other one to its next line.
    IF cardinality(p_words) > 2 THEN
        SELECT most_common_elems::text::text[], most_common_elem_freqs INTO common, shares
        FROM pg_stats
        WHERE schemaname = 'public' AND tablename = 'search_materialized' AND attname = 'document';
    END IF;
    RETURN ARRAY(
        SELECT typed FROM unnest(p_words) WITH ORDINALITY AS t (typed, n)
        ORDER BY (SELECT sum(shares[array_position(common, btrim(word, ''''))])
                  FROM string_to_table(btrim(typed, '( )'), ' | ') AS word) NULLS FIRST,
                 length(typed) DESC, n);
END
$$;
COMMENT ON FUNCTION cortana.search_rarest_first IS
    'Returns words, the rarest first: words that are not among the thousand most common ones of the library (by the '
    'statistics of ANALYZE), longest first, then the others by how many lines contain them. Instead of a word there may be '
    'several in the form of a tsquery, (a | b). The order changes what a search costs, not what it finds.';

CREATE FUNCTION cortana.search_every_key(p_keys int[]) RETURNS text
LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE
SET search_path = pg_catalog, public, cortana, extensions, pg_temp AS
$$
BEGIN
    RETURN (
        SELECT string_agg(format('keys @> %L', ARRAY[key]), ' AND ' ORDER BY n)
        FROM unnest(p_keys) WITH ORDINALITY AS t (key, n));
END
$$;
COMMENT ON FUNCTION cortana.search_every_key IS
    'Returns the conditions of the index that a line has all of these keys. Of the keys of one condition, GIN reads the '
    'shortest list, and looks up each line of it in all other lists. Of several conditions it asks the second one only '
    'where the first one matches, and so on, and skips to the line where a condition matches next.';

CREATE FUNCTION cortana.search_every_near_word(p_words tsquery, p_excluded tsquery) RETURNS text
LANGUAGE plpgsql STABLE
SET search_path = pg_catalog, public, cortana, extensions, pg_temp AS
$$
BEGIN
    RETURN (
        SELECT string_agg(search_document_condition(alternatives::tsquery, p_excluded), ' AND ' ORDER BY n)
        FROM unnest(search_rarest_first(string_to_array(p_words::text, ' & '))) WITH ORDINALITY AS t (alternatives, n));
END
$$;
COMMENT ON FUNCTION cortana.search_every_near_word IS
    'Returns the conditions of the index that a line has one of the alternatives for each typed word. p_words is what '
    'search_expand() returns; no word of the library contains a blank.';

DROP FUNCTION cortana.search_joined_keys(text[]);
CREATE FUNCTION cortana.search_joined_keys(p_words text[], p_rarest_first text[]) RETURNS SETOF int[]
LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE
SET search_path = pg_catalog, public, cortana, extensions, pg_temp AS
$$
BEGIN
    RETURN QUERY
    SELECT search_key('w' || search_fold(p_words[n]) || search_fold(p_words[n + 1]))
           || ARRAY(SELECT search_key('w' || search_fold(w)) FROM unnest(p_words[:n - 1] || p_words[n + 2:]) AS w
                    ORDER BY array_position(p_rarest_first, w))
    FROM generate_series(1, least(cardinality(p_words) - 1, 7)) AS n;
END
$$;
COMMENT ON FUNCTION cortana.search_joined_keys IS
    'Returns keys for words that are written as one in the line and as two in the query, or the other way round, first the '
    'key of the joined words, which is the rarest, then the others in the order of p_rarest_first.';

DROP FUNCTION cortana.search_part_lookup(text);
CREATE FUNCTION cortana.search_part_lookup(p_folded text, p_rarest_first text[]) RETURNS text
LANGUAGE plpgsql STABLE PARALLEL SAFE
SET search_path = pg_catalog, public, cortana, extensions, pg_temp AS
$$
DECLARE
    start text := left(p_folded, 24);
    run text := coalesce(substring(start, '[[:alnum:]]{4,}'), substring(start, '[[:alnum:]]{3}'));
    last_at int := greatest(length(run) - 3, 1);    -- where the last four letters begin
    rare_words text[] := ARRAY(SELECT search_fold(w) FROM unnest(p_rarest_first) AS w);
BEGIN
    RETURN (
        SELECT concat_ws(' AND ', (
            SELECT string_agg(format('folded LIKE %L', '%' || substr(run, least(at, last_at), 4) || '%'), ' AND ')
            FROM generate_series(1, last_at + 1, 2) AS at), search_every_key(array_agg(
            search_key(CASE WHEN n < last THEN 'w' || word
                            ELSE '^' || left(word, CASE WHEN length(word) < 4 THEN 2 ELSE 4 END) END)
            ORDER BY n = last, array_position(rare_words, word))))
        FROM (SELECT word, n, count(*) OVER () AS last
              FROM string_to_table(p_folded, ' ') WITH ORDINALITY AS t (word, n)) AS words
        WHERE n > 1 AND word ~ '^[[:alnum:]]{2,}$');
END
$$;
COMMENT ON FUNCTION cortana.search_part_lookup IS
    'Returns the conditions of the index for a text that may begin and end within words: the trigrams within its first '
    'run of four or more letters and digits, two of them in each condition. Trigrams at the edges of words would have the '
    'longest lists. If the text has several words, the last one is a beginning and those between are whole words, whose '
    'keys have much shorter lists. p_rarest_first are the words, typed, in the order in which they are asked for.';

CREATE OR REPLACE FUNCTION cortana.search_newest(p_base search_condition[], p_lookup text, p_filter text, p_limit int,
                              p_span bigint)
RETURNS tid[]
LANGUAGE plpgsql STABLE
SET search_path = pg_catalog, public, cortana, extensions, pg_temp
SET enable_seqscan = off
SET jit = off AS
$$
DECLARE
    newest bigint := (SELECT last_value FROM search_materialized_number_seq);
    conditions search_condition[] := (p_lookup, p_filter)::search_condition || p_base;
    lookup text := (SELECT string_agg(c.lookup, ' AND ') FROM unnest(conditions) AS c);
    filter text := coalesce((SELECT string_agg(c.filter, ' AND ') FROM unnest(conditions) AS c), 'true');
    -- Lines that the lookup finds and the filter rejects must be read, too. This limit bounds the time. What is left
    -- of it passes to the next step; if it is used up within a step, the first lines in the table are taken. Lines
    -- of few videos may be anywhere in the table, so they are looked up in one step.
    read_most constant int := p_limit * CASE WHEN p_span IS NULL THEN 50 ELSE 30 END;
    read_left int := read_most;
    small_span constant bigint := 1024;
    -- Reading so many lines costs a fiftieth of reading all of 5,000,000, and what they do not contain is so rare that
    -- reading all costs little.
    many constant bigint := 131072;
    span bigint := coalesce(p_span, newest);
    is_guess boolean := p_span > small_span;
    upto bigint := newest;      -- newer lines have been read
    level int;
    read_here tid[];
    count_here int;
    found tid[] := '{}';
BEGIN
    LOOP
        -- If more than half of the remaining lines are needed, all are read; otherwise slices of a size so that at
        -- most nine make up the span.
        level := CASE WHEN 2 * span >= upto THEN NULL
                      ELSE 9 + 3 * least(greatest(ceil(log(8, span / 4096.0)), 0), 5)::int END;
        -- The slices are the first condition. GIN looks for the next line by the first condition and asks the others only
        -- from there on. In another order it would read their lists from the oldest line on.
        EXECUTE concat(
            'SELECT (array_agg(place ORDER BY number DESC) FILTER (WHERE is_found))[:', p_limit, '], count(*)',
            ' FROM (SELECT place, number, ', filter, ' AS is_found FROM (SELECT *, ctid AS place',
            ' FROM search_materialized WHERE ',
            concat_ws(' AND ', CASE WHEN level IS NOT NULL OR lookup IS NULL THEN
                format('keys && %L', ARRAY(
                    SELECT search_slice(n << coalesce(level, 24), coalesce(level, 24))
                    FROM generate_series(greatest(upto - span, 0) >> coalesce(level, 24),
                                         upto >> coalesce(level, 24)) AS n)) END,
                lookup),
            ' LIMIT ', CASE WHEN is_guess THEN 4 * p_limit ELSE read_left END, ') AS m) AS r')
        INTO read_here, count_here;
        IF is_guess AND count_here = 4 * p_limit THEN
            -- more common than estimated: start again with a small span
            is_guess := false;
            span := small_span;
            CONTINUE;
        END IF;
        is_guess := false;
        found := ARRAY(SELECT unnest(found) UNION SELECT unnest(read_here));
        read_left := read_left - count_here;
        EXIT WHEN level IS NULL OR cardinality(found) >= p_limit OR read_left <= 0;
        upto := (((upto - span) >> level) << level) - 1;
        -- Widen the span in proportion to what is missing, plus a third; at most 64 times, because few lines say
        -- little about all. What the newest lines do not contain is looked up in many more, and then in all.
        span := CASE WHEN found <> '{}' THEN
                    (newest - upto) * least(1.33 * (p_limit - cardinality(found)) / cardinality(found) + 0.1, 64)
                WHEN newest - upto < many THEN many
                ELSE newest END;
        -- Not more than the lines that may still be read, plus a third: the index would be asked for lines that are
        -- then not read.
        span := least(span, (newest - upto) * 1.33 * read_left / greatest(read_most - read_left, 1));
    END LOOP;
    RETURN found;
END
$$;

CREATE OR REPLACE FUNCTION cortana.search_candidates(p_query text, p_video uuid, p_limit int, p_fuzzy boolean)
RETURNS SETOF tid
LANGUAGE plpgsql STABLE
SECURITY DEFINER SET search_path = pg_catalog, public, cortana, extensions, pg_temp
SET jit = off AS
$$
DECLARE
    terms search_terms := search_parse(p_query);
    sees_all boolean := search_sees_all();
    teams uuid[] := current_team_ids();
    -- many enough to find the best lines of a common word, few enough to be ranked in milliseconds
    enough int := greatest(200, p_limit);
    owner_rule text := CASE WHEN sees_all THEN 'true' ELSE
        format('(owner_id = %L OR team_id = ANY (%L))', auth.uid(), coalesce(teams, '{}')) END;
    base search_condition[] := ARRAY(SELECT c FROM search_field_filters(terms) AS c);
    -- Null for lines of few videos, which may be anywhere. Otherwise the newest lines are read first: a span in
    -- which a common word occurs a few times, which shows how common it is; and a wider span for rarer matches, so
    -- that fewer steps are needed.
    span bigint := CASE WHEN p_video IS NULL THEN 1024 END;
    wide_span bigint := CASE WHEN p_video IS NULL THEN 8192 END;
    -- If the index cannot exclude words, a common word could make the search read all lines that are filtered.
    guesses int := CASE WHEN terms.excluded IS NULL THEN enough ELSE p_limit END;
    words text[] := search_word_list(terms.literal);
    rare_words text[] := CASE WHEN NOT p_fuzzy THEN search_rarest_first(search_typed_words(terms.literal)) END;
    has_every_word text := search_every_key(
        coalesce(terms.pairs, ARRAY(SELECT search_key('w' || search_fold(w)) FROM unnest(rare_words) AS w)));
    is_complete boolean := false;
    parts text[];
    near_words tsquery;
    found tid[] := '{}';
    alternative int[];
    source record;
BEGIN
    IF NOT sees_all THEN
        base := base || (format('keys && %L', ARRAY(
                             SELECT search_key('o' || auth.uid()) WHERE auth.uid() IS NOT NULL
                             UNION ALL SELECT search_key('t' || t) FROM unnest(teams) AS t)),
                         owner_rule)::search_condition;
    END IF;
    IF p_video IS NOT NULL THEN
        base := base || (format('keys @> %L', ARRAY[search_key('v' || p_video)]),
                         format('video_id = %L', p_video))::search_condition;
    END IF;
    IF terms.sources IS NOT NULL THEN
        source := search_source_condition(terms.sources, owner_rule);
        base := base || (source.lookup, NULL)::search_condition;
        IF source.is_narrow THEN
            span := NULL;
            wide_span := NULL;
        END IF;
    END IF;
    IF p_fuzzy THEN
        parts := search_typed_words(regexp_replace(terms.literal, '[^[:alnum:]]+', ' ', 'g'));
        FOR alternative IN SELECT search_joined_keys(parts, search_rarest_first(parts))
        LOOP
            found := found || search_newest(base, search_every_key(alternative), NULL, guesses, wide_span);
        END LOOP;
        IF cardinality(found) < p_limit THEN
            near_words := search_expand(terms.folded);
        END IF;
        IF near_words IS NOT NULL THEN
            found := found || search_newest(
                base, search_every_near_word(near_words, terms.excluded), NULL, enough, wide_span);
        END IF;
        RETURN QUERY SELECT unnest(found);
        RETURN;
    END IF;
    IF terms.words IS NULL AND terms.folded IS NULL THEN
        -- The query has no word, but a tag or a video: take its lines.
        found := search_newest(base, NULL, NULL, enough, span);
        RETURN QUERY SELECT unnest(found);
        RETURN;
    END IF;
    -- Every line that matches the words has the keys of all of them. If few lines have these keys, the lookups in the
    -- next block would only find the same lines again. This is not so if the words of the document differ from those
    -- of the keys, or if a filter without a key rejects lines, because then not all lines may have been read.
    IF cardinality(words) > 1 AND numnode(terms.lookup) = 2 * cardinality(words) - 1
        AND NOT EXISTS (SELECT FROM unnest(base) AS c WHERE c.lookup IS NULL) THEN
        found := search_newest(base, has_every_word, NULL, enough, wide_span);
        is_complete := cardinality(found) < enough;
    END IF;
    IF NOT is_complete THEN
        found := '{}';
        -- Lines that consist only of the query come first.
        IF words IS NOT NULL THEN
            found := search_newest(
                base, format('keys @> %L', ARRAY[search_key('=' || array_to_string(words, ''))]), NULL,
                64, wide_span);
        END IF;
        IF cardinality(words) > 1 AND phraseto_tsquery('simple', terms.literal)::text <> terms.words::text
        THEN
            found := found || search_newest(
                base, format('keys @> %L AND ', search_pair_keys(words))
                      || search_document_condition(terms.words, terms.excluded),
                format('document @@ %L::tsquery', phraseto_tsquery('simple', terms.literal)),
                enough, span);
        END IF;
        IF terms.words IS NOT NULL THEN
            found := found || search_newest(
                base, search_word_lookup(terms),
                CASE WHEN terms.beginnings IS NOT NULL
                     THEN format('document @@ %L::tsquery', terms.words) END,
                enough, span);
        END IF;
    END IF;
    IF terms.grams IS NOT NULL THEN
        found := found || search_newest(
            base, format('keys @> %L', ARRAY(SELECT search_key('g' || g) FROM unnest(terms.grams) AS g)),
            format('folded LIKE ALL (%L)', ARRAY(
                SELECT search_pattern(w) FROM string_to_table(terms.folded, ' ') AS w)),
            enough, span);
    END IF;
    -- The rest (misread words and parts of words) ranks below what has been found.
    IF cardinality(found) < p_limit AND words IS NOT NULL AND NOT is_complete THEN
        found := found || search_newest(base, has_every_word, NULL, guesses, wide_span);
    END IF;
    IF cardinality(found) < (CASE WHEN terms.folded LIKE '% % %' THEN 1 ELSE p_limit END)
        AND terms.grams IS NULL AND left(terms.folded, 24) ~ '[[:alnum:]]{3}' THEN
        found := found || search_newest(
            base, search_part_lookup(terms.folded, rare_words), format('position(%L IN folded) > 0', terms.folded),
            guesses, wide_span);
    END IF;
    RETURN QUERY SELECT unnest(found);
END
$$;

-- The plan is the same for all words. Making it for each word took a third of the time of this function.
ALTER FUNCTION cortana.search_near_words SET plan_cache_mode = force_generic_plan;

REVOKE ALL ON FUNCTION cortana.search_typed_words, cortana.search_rarest_first, cortana.search_every_key,
    cortana.search_every_near_word, cortana.search_joined_keys, cortana.search_part_lookup FROM PUBLIC;
GRANT EXECUTE ON FUNCTION cortana.search_typed_words, cortana.search_every_key, cortana.search_joined_keys,
    cortana.search_part_lookup TO service_role;
