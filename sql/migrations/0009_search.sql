-- Search over the text on screen.
--
-- One GIN index with three columns answers every query:
--   keys       hashes of everything that can be looked up exactly: owner, team, video, language, time, words as OCR
--              may have read them, pairs of neighbouring words, beginnings of words, pieces of scripts without blanks
--   document   the words as they were read
--   folded     trigrams, for any part of a line
-- GIN reads the lists of all conditions of a scan together and skips to where the shortest one continues. A query with
-- several conditions therefore costs about as much as its rarest condition. A single common word has no short list, so
-- that lines are numbered, each range of numbers (a slice) is a key too, and search_newest() reads the newest slices
-- first and stops when it has enough lines. If all this finds little, search_near_words() tries words of the library
-- that are similar to the typed words.

-- ---- what a line is found by --------------------------------------------------------------------

CREATE FUNCTION cortana.search_fold(p_text text) RETURNS text
LANGUAGE sql IMMUTABLE PARALLEL SAFE
RETURN replace(replace(translate(
        CASE WHEN octet_length(p_text) = length(p_text) THEN p_text ELSE
            normalize(regexp_replace(normalize(p_text, NFKD), '[\u0300-\u036f]', '', 'g'), NFKC) END,
        '01i|!58' || U&'\0131', 'ollllsbl'), 'rn', 'm'), 'vv', 'w');
COMMENT ON FUNCTION cortana.search_fold IS
    'Makes equal what OCR confuses: removes accents, and replaces 0 by o, 1, i, | and ! by l, 5 by s, 8 by b, rn '
    'by m, and vv by w. The text must be a normal form.';

CREATE FUNCTION cortana.search_grams(p_text text) RETURNS text[]
LANGUAGE plpgsql IMMUTABLE STRICT PARALLEL SAFE AS $$
DECLARE
    scripts constant text := U&'[\0E00-\0EFF\1000-\109F\1780-\17FF\2190-\2BFF\3005-\30FF\3400-\9FFF\AC00-\D7AF\F900-\FAFF\+01F000-\+01FAFF\+020000-\+03134F]+';
BEGIN
    IF octet_length(p_text) = length(p_text) THEN
        RETURN NULL;
    END IF;
    RETURN (
        SELECT array_agg(DISTINCT gram) FROM (
            SELECT substr(run[1], at, 1 + pair)
            FROM regexp_matches(p_text, scripts, 'g') AS run,
                 generate_series(1, length(run[1])) AS at, generate_series(0, 1) AS pair
            WHERE at + pair <= length(run[1])
        ) AS found (gram));
END
$$;
COMMENT ON FUNCTION cortana.search_grams IS
    'Returns the single characters and the pairs of neighbouring characters of scripts without blanks between '
    'words (Thai, Khmer, kana, Han, Hangul and others), and of emoji and other symbols.';

CREATE FUNCTION cortana.search_spaced(p_text text) RETURNS text
LANGUAGE sql IMMUTABLE PARALLEL SAFE
RETURN translate(p_text, '<>&./@:_-~+', '           ');
COMMENT ON FUNCTION cortana.search_spaced IS
    'Puts blanks in place of the characters that PostgreSQL''s parser takes as parts of a word, so that the parts of '
    'links, addresses, file names, tags and hyphenated words are words. The query and the line pass through it.';

CREATE FUNCTION cortana.search_phrase(p_text text) RETURNS text
LANGUAGE sql IMMUTABLE PARALLEL SAFE
RETURN btrim(phraseto_tsquery('pg_catalog.simple', cortana.search_spaced(left(p_text, 2000)))::text, '''');
COMMENT ON FUNCTION cortana.search_phrase IS
    'Returns the words of a text in their order, as the column document contains them, with '' <-> '' between them. It '
    'reads at most 2000 characters. phraseto_tsquery() gives the words at a fifth of the cost of reading them from a '
    'tsvector.';

CREATE FUNCTION cortana.search_typed_words(p_text text) RETURNS text[]
LANGUAGE sql IMMUTABLE PARALLEL SAFE
RETURN string_to_array(cortana.search_phrase(p_text), ''' <-> ''');
COMMENT ON FUNCTION cortana.search_typed_words IS 'Returns the words of a text in their order.';

CREATE FUNCTION cortana.search_word_list(p_text text) RETURNS text[]
LANGUAGE sql IMMUTABLE PARALLEL SAFE
RETURN string_to_array(cortana.search_fold(cortana.search_phrase(p_text)), ''' <-> ''');
COMMENT ON FUNCTION cortana.search_word_list IS
    'Returns the words of a text in their order, folded. The planner puts the body into the calling expression; as a '
    'function of its own it would be planned for every line.';

CREATE FUNCTION cortana.search_key(p_text text) RETURNS int
LANGUAGE sql IMMUTABLE PARALLEL SAFE
RETURN hashtext(p_text) & 2147483647;
COMMENT ON FUNCTION cortana.search_key IS
    'Returns the key of a text, a hash that is never negative (negative keys are slices). The first letter of the '
    'text says what it is: w a word or two neighbouring words, ^ the beginning of a word, = a whole line, g a '
    'gram, o an owner, t a team, v a video, l a language, s a source other than the screen, d a day, month or year, f a word of the video''s '
    'names, # and @ a tag or, alone, any tag. Different texts may have the same key; rows that are found by a key are therefore '
    'compared again.';

CREATE FUNCTION cortana.search_slice(p_number bigint, p_level int) RETURNS int
LANGUAGE sql IMMUTABLE PARALLEL SAFE
RETURN (-1 - (((p_level - 9) / 3) << 26) - ((p_number >> p_level) & 67108863))::int;
COMMENT ON FUNCTION cortana.search_slice IS
    'Returns the key of the slice of 2^p_level lines that contains a line number; p_level is 9, 12, 15, 18, 21 or '
    '24.';

CREATE FUNCTION cortana.search_continued_key(p_key int) RETURNS int
LANGUAGE sql IMMUTABLE PARALLEL SAFE
RETURN p_key # 1431655765;
COMMENT ON FUNCTION cortana.search_continued_key IS
    'Returns the key, among those of the first line of a paragraph, of a word in its other lines. Pairs of words have none: '
    'they would take as much of the index as all words.';

CREATE FUNCTION cortana.search_pair_keys(p_words text[]) RETURNS int[]
LANGUAGE plpgsql IMMUTABLE STRICT PARALLEL SAFE AS $$
BEGIN
    RETURN (
        SELECT ARRAY(SELECT search_key('w' || p_words[n] || p_words[n + 1])
                     FROM generate_series(1, cardinality(p_words) - 1) AS n));
END
$$;
COMMENT ON FUNCTION cortana.search_pair_keys IS
    'Returns the keys of pairs of neighbouring words, written as one word. With them "open source" also finds '
    '"opensource", and a phrase finds lines in which its words are neighbours.';

CREATE FUNCTION cortana.search_keys(p_number bigint, p_owner uuid, p_team uuid, p_video uuid, p_language text,
                            p_taken_at timestamptz, p_tags text[], p_source text, p_text text, p_continued text,
                            p_line_source text)
RETURNS int[]
LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE AS $$
DECLARE
    words text[] := cortana.search_word_list(p_text);
    taken text := to_char(p_taken_at AT TIME ZONE 'UTC', '"d"YYYY-MM-DD');
    keys int[] := ARRAY[cortana.search_slice(p_number, 9), cortana.search_slice(p_number, 12),
                        cortana.search_slice(p_number, 15), cortana.search_slice(p_number, 18),
                        cortana.search_slice(p_number, 21), cortana.search_slice(p_number, 24),
                        cortana.search_key('v' || p_video)];
    word text;
    last_word text;
BEGIN
    IF p_owner IS NOT NULL THEN
        keys := keys || cortana.search_key('o' || p_owner);
    END IF;
    IF p_team IS NOT NULL THEN
        keys := keys || cortana.search_key('t' || p_team);
    END IF;
    IF p_language IS NOT NULL THEN
        keys := keys || cortana.search_key('l' || lower(p_language));
    END IF;
    IF p_line_source <> 'screen' THEN
        keys := keys || cortana.search_key('s' || p_line_source);
    END IF;
    IF taken IS NOT NULL THEN
        keys := keys || cortana.search_key(taken);
        keys := keys || cortana.search_key(left(taken, 8));
        keys := keys || cortana.search_key(left(taken, 5));
    END IF;
    IF p_tags IS NOT NULL THEN
        FOREACH word IN ARRAY p_tags LOOP
            keys := keys || cortana.search_key(word);
            keys := keys || cortana.search_key(left(word, 1));
        END LOOP;
    END IF;
    IF p_source <> '' THEN
        FOREACH word IN ARRAY regexp_split_to_array(p_source, '[[:space:][:punct:]]+') LOOP
            keys := keys || cortana.search_key('f' || word);
        END LOOP;
    END IF;
    IF octet_length(p_text) <> length(p_text) THEN
        FOREACH word IN ARRAY coalesce(cortana.search_grams(cortana.search_fold(p_text)), '{}') LOOP
            keys := keys || cortana.search_key('g' || word);
        END LOOP;
    END IF;
    IF words IS NULL THEN
        RETURN keys;
    END IF;
    FOREACH word IN ARRAY words LOOP
        keys := keys || cortana.search_key('w' || word);
        IF length(word) >= 2 THEN
            keys := keys || cortana.search_key('^' || left(word, 2));
        END IF;
        IF length(word) >= 4 THEN
            keys := keys || cortana.search_key('^' || left(word, 4));
        END IF;
        IF last_word IS NOT NULL THEN
            keys := keys || cortana.search_key('w' || last_word || word);
        END IF;
        last_word := word;
    END LOOP;
    keys := keys || cortana.search_key('=' || array_to_string(words, ''));
    IF p_continued IS NULL THEN
        RETURN keys;
    END IF;
    FOREACH word IN ARRAY coalesce(cortana.search_word_list(p_continued), '{}') LOOP
        keys := keys || cortana.search_continued_key(cortana.search_key('w' || word));
    END LOOP;
    RETURN keys;
END
$$;
COMMENT ON FUNCTION cortana.search_keys IS
    'Returns all keys of a line. It runs for every line that is written, and contains only loops and expressions, '
    'because starting a query in here would cost more than everything else.';

CREATE TABLE search_materialized (
    segment_id uuid PRIMARY KEY REFERENCES segments ON DELETE CASCADE,
    video_id uuid NOT NULL,
    owner_id uuid,
    team_id uuid,
    platform text,
    text text NOT NULL,
    normalized_text text NOT NULL,
    language text,
    confidence real NOT NULL,
    t_start int NOT NULL,
    t_end int NOT NULL,
    bounding_box jsonb,
    document tsvector NOT NULL GENERATED ALWAYS AS (to_tsvector('simple', search_spaced(normalized_text))) STORED,
    number bigint NOT NULL GENERATED BY DEFAULT AS IDENTITY,
    taken_at timestamptz,
    tags text[],
    source text,
    line_source text NOT NULL DEFAULT 'screen',
    continued text,
    continued_by uuid[],
    folded text NOT NULL GENERATED ALWAYS AS (search_fold(normalized_text)) STORED,
    keys int[] NOT NULL GENERATED ALWAYS AS (
        search_keys(number, owner_id, team_id, video_id, language, taken_at, tags, source,
                    normalized_text, continued, line_source)) STORED
);
-- Without statistics the planner chooses the same plan for every statement.
ALTER TABLE search_materialized ALTER COLUMN keys SET STATISTICS 0;
COMMENT ON TABLE search_materialized IS
    'What search reads: one row for each segment, joined with its video. It is a table that '
    'refresh_search_materialized() maintains, not a materialized view, so that a refresh costs only what the '
    'changed video costs and row-level security applies.';
COMMENT ON COLUMN search_materialized.segment_id IS 'The segment.';
COMMENT ON COLUMN search_materialized.video_id IS 'Its video.';
COMMENT ON COLUMN search_materialized.owner_id IS 'videos.owner_id.';
COMMENT ON COLUMN search_materialized.team_id IS 'videos.team_id.';
COMMENT ON COLUMN search_materialized.platform IS 'videos.platform.';
COMMENT ON COLUMN search_materialized.text IS 'segments.text.';
COMMENT ON COLUMN search_materialized.normalized_text IS 'segments.normalized_text.';
COMMENT ON COLUMN search_materialized.language IS 'segments.language.';
COMMENT ON COLUMN search_materialized.confidence IS 'segments.confidence.';
COMMENT ON COLUMN search_materialized.t_start IS 'segments.t_start, milliseconds.';
COMMENT ON COLUMN search_materialized.t_end IS 'segments.t_end, milliseconds.';
COMMENT ON COLUMN search_materialized.bounding_box IS 'segments.bounding_box.';
COMMENT ON COLUMN search_materialized.document IS 'The words of the line for full-text search.';
COMMENT ON COLUMN search_materialized.number IS 'The order in which lines became searchable.';
COMMENT ON COLUMN search_materialized.taken_at IS 'videos.created_at.';
COMMENT ON COLUMN search_materialized.tags IS
    'Hashtags and mentions of the line, as entities.normalized_value holds them; null: none.';
COMMENT ON COLUMN search_materialized.source IS 'The names of the video, see cortana.search_source().';
COMMENT ON COLUMN search_materialized.line_source IS 'segments.source.';
COMMENT ON COLUMN search_materialized.continued IS
    'Of the first line of a message or paragraph: the normal forms of its other lines, one a line. Null: there are none.';
COMMENT ON COLUMN search_materialized.continued_by IS 'The segments of these lines.';
COMMENT ON COLUMN search_materialized.folded IS
    'The line with letters that OCR confuses made equal, see cortana.search_fold().';
COMMENT ON COLUMN search_materialized.keys IS
    'Everything by which the line is looked up, see cortana.search_keys(). Stored, because a bitmap scan '
    'tests it again.';

CREATE INDEX search_materialized_video ON search_materialized (video_id, t_start);
CREATE INDEX search_materialized_lookup ON search_materialized
    USING gin (keys, document, folded gin_trgm_ops);
CREATE INDEX search_materialized_owner ON search_materialized (owner_id);
CREATE INDEX search_materialized_team ON search_materialized (team_id) WHERE team_id IS NOT NULL;

SELECT secure_table('search_materialized');
CREATE POLICY search_materialized_read ON search_materialized FOR SELECT TO authenticated
    USING (owner_id = (SELECT auth.uid())
           OR team_id = ANY ((SELECT current_team_ids())::uuid[]));
GRANT SELECT ON search_materialized TO authenticated;

CREATE TABLE cortana.search_pending (
    video_id uuid PRIMARY KEY REFERENCES videos ON DELETE CASCADE
);
COMMENT ON TABLE cortana.search_pending IS
    'Videos whose segments have changed since they were last made searchable; refresh_search_materialized() reads '
    'and empties it.';

SELECT secure_table('search_pending');

CREATE FUNCTION cortana.mark_search_pending() RETURNS trigger
LANGUAGE plpgsql SECURITY DEFINER AS $$
BEGIN
    INSERT INTO search_pending (video_id)
    SELECT DISTINCT c.video_id FROM changed c JOIN videos v ON v.id = c.video_id
    ON CONFLICT DO NOTHING;
    RETURN NULL;
END
$$;
COMMENT ON FUNCTION cortana.mark_search_pending IS
    'Trigger: marks the videos whose segments were written, so that the next refresh reads them.';
CREATE TRIGGER segments_inserted AFTER INSERT ON segments
    REFERENCING NEW TABLE AS changed FOR EACH STATEMENT EXECUTE FUNCTION mark_search_pending();
CREATE TRIGGER segments_updated AFTER UPDATE ON segments
    REFERENCING NEW TABLE AS changed FOR EACH STATEMENT EXECUTE FUNCTION mark_search_pending();

CREATE FUNCTION cortana.videos_changed() RETURNS trigger
LANGUAGE plpgsql SECURITY DEFINER AS $$
BEGIN
    UPDATE segments SET owner_id = NEW.owner_id, team_id = NEW.team_id
    WHERE video_id = NEW.id AND (owner_id, team_id) IS DISTINCT FROM (NEW.owner_id, NEW.team_id);
    UPDATE search_materialized
    SET owner_id = NEW.owner_id, team_id = NEW.team_id, platform = NEW.platform,
        taken_at = NEW.created_at,
        source = search_source(NEW.original_name, NEW.title, NEW.platform)
    WHERE video_id = NEW.id;
    RETURN NULL;
END
$$;
COMMENT ON FUNCTION cortana.videos_changed IS
    'Trigger: copies a changed owner, team, platform or name of a video to its segments and its rows for '
    'searching, because row-level security and the field from: read them there.';
CREATE TRIGGER videos_changed AFTER UPDATE ON videos
    FOR EACH ROW
    WHEN ((OLD.owner_id, OLD.team_id, OLD.platform, OLD.original_name, OLD.title, OLD.created_at)
          IS DISTINCT FROM
          (NEW.owner_id, NEW.team_id, NEW.platform, NEW.original_name, NEW.title, NEW.created_at))
    EXECUTE FUNCTION videos_changed();

CREATE FUNCTION cortana.mark_tags_pending() RETURNS trigger
LANGUAGE plpgsql SECURITY DEFINER AS $$
BEGIN
    INSERT INTO search_pending (video_id)
    SELECT DISTINCT s.video_id FROM changed c JOIN segments s ON s.id = c.segment_id
    WHERE c.entity_type IN ('hashtag', 'mention')
    ON CONFLICT DO NOTHING;
    RETURN NULL;
END
$$;
COMMENT ON FUNCTION cortana.mark_tags_pending IS
    'Trigger: marks the videos whose hashtags or mentions were written, because the rows for searching contain '
    'them.';
CREATE TRIGGER entities_inserted AFTER INSERT ON entities
    REFERENCING NEW TABLE AS changed FOR EACH STATEMENT EXECUTE FUNCTION mark_tags_pending();
CREATE TRIGGER entities_updated AFTER UPDATE ON entities
    REFERENCING NEW TABLE AS changed FOR EACH STATEMENT EXECUTE FUNCTION mark_tags_pending();

-- ---- the words of the library -------------------------------------------------------------------
-- Two words within two edits of each other become equal when one or two letters are left out of both (the idea of
-- SymSpell, https://github.com/wolfgarbe/SymSpell). A word of eight or more letters would have too many such keys. But
-- of two edits, either at most one is in each half of the word, or both are in the same half and the other half is
-- unchanged. For long words it is therefore enough to leave one letter out of each half.

CREATE FUNCTION cortana.search_near_key(p_text text) RETURNS int
LANGUAGE sql IMMUTABLE PARALLEL SAFE
RETURN hashtext(p_text) & 1048575;
COMMENT ON FUNCTION cortana.search_near_key IS
    'Returns one of 2^20 keys of a word or a part of one. Few keys with many words each make the index a third as '
    'large as many keys with few words; words that share a key by chance are compared in microseconds.';

CREATE FUNCTION cortana.search_short_keys(p_word text, p_left_out int) RETURNS int[]
LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE AS $$
DECLARE
    keys int[] := ARRAY[cortana.search_near_key(p_word)];
    size int := length(p_word);
    rest text;
BEGIN
    FOR n IN 1 .. size LOOP
        rest := left(p_word, n - 1) || substr(p_word, n + 1);
        keys := keys || cortana.search_near_key(rest);
        IF p_left_out > 1 THEN
            FOR m IN n .. size - 1 LOOP
                keys := keys || cortana.search_near_key(left(rest, m - 1) || substr(rest, m + 1));
            END LOOP;
        END IF;
    END LOOP;
    RETURN keys;
END
$$;
COMMENT ON FUNCTION cortana.search_short_keys IS
    'Returns the keys of a word with up to p_left_out (1 or 2) letters left out.';

CREATE FUNCTION cortana.search_half_keys(p_side text, p_half text) RETURNS int[]
LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE AS $$
DECLARE
    keys int[] := ARRAY[cortana.search_near_key(p_side || p_half)];
BEGIN
    FOR n IN 1 .. length(p_half) LOOP
        keys := keys || cortana.search_near_key(p_side || left(p_half, n - 1) || substr(p_half, n + 1));
    END LOOP;
    RETURN keys;
END
$$;
COMMENT ON FUNCTION cortana.search_half_keys IS
    'Returns the keys of half a word with up to one letter left out; p_side is < for the first half and > for the '
    'second.';

CREATE FUNCTION cortana.search_near_keys(p_word text) RETURNS int[]
LANGUAGE sql IMMUTABLE PARALLEL SAFE
RETURN CASE WHEN length(p_word) <= 7 THEN cortana.search_short_keys(p_word, 2)
                ELSE cortana.search_half_keys('<', left(p_word, length(p_word) / 2))
                     || cortana.search_half_keys('>', substr(p_word, length(p_word) / 2 + 1)) END;
COMMENT ON FUNCTION cortana.search_near_keys IS 'Returns the keys by which a word of the library is indexed.';

CREATE FUNCTION cortana.search_own_keys(p_word text) RETURNS int[]
LANGUAGE sql IMMUTABLE PARALLEL SAFE
RETURN CASE WHEN length(p_word) <= 7 THEN ARRAY[cortana.search_near_key(p_word)]
                ELSE ARRAY[cortana.search_near_key('<' || left(p_word, length(p_word) / 2)),
                           cortana.search_near_key('>' || substr(p_word, length(p_word) / 2 + 1))] END;
COMMENT ON FUNCTION cortana.search_own_keys IS
    'Returns those of search_near_keys() for which no letter was left out.';

CREATE TABLE cortana.search_words (
    word text NOT NULL,
    folded text NOT NULL,
    PRIMARY KEY (word, folded)
);
COMMENT ON TABLE cortana.search_words IS
    'Every word of the library once, to find what a misspelt or misread word may mean. Users may not read it; '
    'they see only lines that they may read. A word stays for a while after its last line was deleted.';
COMMENT ON COLUMN cortana.search_words.word IS 'As in search_materialized.document.';

CREATE INDEX search_words_near ON search_words USING gin (search_near_keys(folded));

SELECT secure_table('search_words', 'DELETE, SELECT');

CREATE TABLE cortana.search_words_doubtful (word text NOT NULL);
COMMENT ON TABLE cortana.search_words_doubtful IS
    'Words of lines that were deleted. Each refresh checks a few of them, whether other lines contain them. A '
    'word may be here several times, because a unique index would make transactions wait for one another.';

ALTER TABLE cortana.search_words_doubtful ENABLE ROW LEVEL SECURITY;

CREATE FUNCTION cortana.doubt_words() RETURNS trigger
LANGUAGE plpgsql SECURITY DEFINER AS $$
BEGIN
    INSERT INTO search_words_doubtful SELECT unnest(tsvector_to_array(OLD.document));
    RETURN NULL;
END
$$;
COMMENT ON FUNCTION cortana.doubt_words IS
    'Trigger: adds the words of a deleted or changed line to search_words_doubtful.';
CREATE TRIGGER search_row_deleted AFTER DELETE ON search_materialized
    FOR EACH ROW EXECUTE FUNCTION doubt_words();
CREATE TRIGGER search_row_changed AFTER UPDATE ON search_materialized
    FOR EACH ROW WHEN (OLD.document IS DISTINCT FROM NEW.document) EXECUTE FUNCTION doubt_words();

CREATE FUNCTION cortana.search_word_query(p_word text) RETURNS text
LANGUAGE sql IMMUTABLE STRICT PARALLEL SAFE
RETURN '''' || replace(replace(p_word, '\', '\\'), '''', '''''') || '''';
COMMENT ON FUNCTION cortana.search_word_query IS
    'Returns the tsquery for exactly this word, whatever characters it contains.';

CREATE FUNCTION cortana.search_word_is_used(p_word tsquery) RETURNS boolean
LANGUAGE plpgsql STABLE
SET enable_seqscan = off
SET jit = off AS $$
DECLARE
    newest bigint := (SELECT last_value FROM search_materialized_number_seq);
BEGIN
    RETURN EXISTS (SELECT FROM search_materialized
                   WHERE keys && ARRAY[search_slice(newest, 12)] AND document @@ p_word)
        OR EXISTS (SELECT FROM search_materialized
                   WHERE keys && ARRAY[search_slice(newest, 18)] AND document @@ p_word)
        OR EXISTS (SELECT FROM search_materialized WHERE document @@ p_word);
END
$$;
COMMENT ON FUNCTION cortana.search_word_is_used IS
    'Returns whether any line contains the word. A common word is found in the newest slice; only for a rare word '
    'the whole index is searched.';

CREATE FUNCTION cortana.search_words_forget(p_limit int) RETURNS bigint
LANGUAGE plpgsql AS $$
DECLARE
    doubtful text[];
    forgotten bigint;
BEGIN
    IF NOT EXISTS (SELECT FROM search_words_doubtful)
        OR current_setting('transaction_isolation') <> 'read committed' THEN
        RETURN 0;
    END IF;
    BEGIN
        LOCK TABLE search_words IN SHARE ROW EXCLUSIVE MODE NOWAIT;
    EXCEPTION WHEN lock_not_available THEN
        RETURN 0;
    END;
    WITH taken AS (
        DELETE FROM search_words_doubtful
        WHERE ctid = ANY (ARRAY(SELECT ctid FROM search_words_doubtful LIMIT p_limit))
        RETURNING word
    )
    SELECT array_agg(DISTINCT word) INTO doubtful FROM taken;
    DELETE FROM search_words w
    WHERE w.word = ANY (ARRAY(SELECT d FROM unnest(doubtful) AS d
                              WHERE NOT search_word_is_used(search_word_query(d)::tsquery)));
    GET DIAGNOSTICS forgotten = ROW_COUNT;
    RETURN forgotten;
END
$$;
COMMENT ON FUNCTION cortana.search_words_forget IS
    'Checks up to p_limit words of search_words_doubtful, and deletes those that no line contains from '
    'search_words. The table is locked against refreshes, which may be adding a line with such a word; if a '
    'refresh is running, nothing is done.';

CREATE FUNCTION cortana.search_words_prune() RETURNS bigint
LANGUAGE sql SECURITY DEFINER AS $$
    SELECT search_words_forget(2147483647)
$$;
COMMENT ON FUNCTION cortana.search_words_prune IS
    'Deletes all words that no line contains from search_words. Refreshes do the same for a few words at a time.';

CREATE FUNCTION cortana.search_remember_words(p_words text[]) RETURNS void
LANGUAGE sql AS $$
    INSERT INTO search_words (word, folded)
    SELECT DISTINCT word, search_fold(piece) AS folded
    FROM unnest(p_words) AS word, regexp_split_to_table(word, '[^[:alnum:]]+') AS piece
    WHERE length(piece) BETWEEN 3 AND 30 AND length(word) <= 100 AND piece ~ '[[:alpha:]]'
      -- in scripts without blanks such a piece is a sentence, not a word; grams find it
      AND (length(piece) <= 8
           OR piece !~ U&'[\0E00-\0EFF\1000-\109F\1780-\17FF\3005-\30FF\3400-\9FFF\F900-\FAFF\+01F000-\+01FAFF\+020000-\+03134F]')
    ORDER BY word, folded   -- so that two transactions with the same new words do not deadlock
    ON CONFLICT DO NOTHING
$$;
COMMENT ON FUNCTION cortana.search_remember_words IS
    'Adds words of lines, as search_materialized.document has them, to search_words, also the parts of words that '
    'contain other characters than letters and digits.';

-- Updates the search rows of one video, or of every video that is marked, and stores the words of the rows that it
-- writes. Returns the number of these rows. The foreign key deletes the search rows of deleted segments.
CREATE FUNCTION refresh_search_materialized(p_video_id uuid DEFAULT NULL) RETURNS bigint
LANGUAGE plpgsql SECURITY DEFINER AS $$
DECLARE
    written bigint;
    words text[];
BEGIN
    WITH due AS (
        DELETE FROM search_pending p WHERE p_video_id IS NULL OR p.video_id = p_video_id
        RETURNING p.video_id
    ), marked AS (
        SELECT due.video_id FROM due UNION SELECT p_video_id WHERE p_video_id IS NOT NULL
    ), paragraphs AS (
        SELECT c.paragraph AS first, string_agg(c.normalized_text, E'\n' ORDER BY c.paragraph_line, c.id) AS continued,
               array_agg(c.id ORDER BY c.paragraph_line, c.id) AS continued_by
        FROM marked JOIN segments c USING (video_id)
        WHERE c.paragraph IS NOT NULL
        GROUP BY c.paragraph
    ), changed AS (
        INSERT INTO search_materialized AS m
            (segment_id, video_id, owner_id, team_id, platform, text, normalized_text, language,
             confidence, t_start, t_end, bounding_box, taken_at, tags, source, line_source, continued, continued_by)
        SELECT s.id, s.video_id, s.owner_id, s.team_id, v.platform, s.text, s.normalized_text,
               s.language, s.confidence, s.t_start, s.t_end, s.bounding_box, v.created_at, t.tags,
               v.source, s.source, p.continued, p.continued_by
        FROM marked AS d
        CROSS JOIN LATERAL (
            SELECT *, search_source(original_name, title, platform) AS source
            FROM videos WHERE id = d.video_id OFFSET 0) AS v
        JOIN segments s ON s.video_id = d.video_id
        CROSS JOIN LATERAL (
            SELECT array_agg(DISTINCT e.normalized_value) AS tags
            FROM entities e
            WHERE e.segment_id = s.id AND e.entity_type IN ('hashtag', 'mention')) AS t
        LEFT JOIN paragraphs p ON p.first = s.id
        LEFT JOIN search_materialized o ON o.segment_id = s.id
        -- unchanged rows keep their number
        WHERE o.segment_id IS NULL
           OR (o.owner_id, o.team_id, o.platform, o.text, o.normalized_text, o.language, o.confidence,
               o.t_start, o.t_end, o.bounding_box, o.taken_at, o.tags, o.source, o.line_source, o.continued, o.continued_by)
              IS DISTINCT FROM
              (s.owner_id, s.team_id, v.platform, s.text, s.normalized_text, s.language, s.confidence,
               s.t_start, s.t_end, s.bounding_box, v.created_at, t.tags, v.source, s.source, p.continued, p.continued_by)
        ORDER BY s.video_id, s.t_start, s.id
        ON CONFLICT (segment_id) DO UPDATE SET
            owner_id = excluded.owner_id, team_id = excluded.team_id, platform = excluded.platform,
            text = excluded.text, normalized_text = excluded.normalized_text,
            language = excluded.language, confidence = excluded.confidence,
            t_start = excluded.t_start, t_end = excluded.t_end, bounding_box = excluded.bounding_box,
            taken_at = excluded.taken_at, tags = excluded.tags, source = excluded.source, line_source = excluded.line_source,
            continued = excluded.continued, continued_by = excluded.continued_by
        RETURNING document
    )
    SELECT count(*), (SELECT array_agg(DISTINCT word) FROM changed, unnest(tsvector_to_array(document)) AS word)
    INTO written, words FROM changed;
    PERFORM search_remember_words(words);
    -- Every search reads the whole pending list of a GIN index. So the new entries are moved into the index now, in
    -- one step, whose cost depends on this video only.
    PERFORM gin_clean_pending_list('search_materialized_lookup'),
            gin_clean_pending_list('search_words_near');
    -- 64 words take a few milliseconds; nothing is done if no line was deleted
    PERFORM search_words_forget(64);
    RETURN written;
END
$$;
COMMENT ON FUNCTION refresh_search_materialized IS
    'Makes one video, or without an argument every changed video, searchable. The cost depends on the videos that '
    'changed, not on the size of the library. Returns the number of rows written.';

-- ---- reading a query ----------------------------------------------------------------------------

CREATE TYPE cortana.search_side AS (
    words tsquery,
    lookup tsquery,
    beginnings text[],
    pairs int[],
    neighbours int[],
    literal text,
    folded text,
    grams text[],
    parts text[],
    short_parts tsquery,
    sign text
);
COMMENT ON TYPE cortana.search_side IS
    'What a line must have: the words of a query without OR, or those between two OR.';
COMMENT ON COLUMN cortana.search_side.words IS 'The words for full-text search; null: there are none.';
COMMENT ON COLUMN cortana.search_side.lookup IS
    'The same without beginnings of words, because no index of words finds those in bounded time.';
COMMENT ON COLUMN cortana.search_side.beginnings IS 'Beginnings of words, folded.';
COMMENT ON COLUMN cortana.search_side.pairs IS
    'Keys of the neighbouring words in "phrases"; a result must have all of them.';
COMMENT ON COLUMN cortana.search_side.neighbours IS
    'The same, and of words that are typed as one, such as @anna_12.';
COMMENT ON COLUMN cortana.search_side.literal IS
    'The side as plain text, if it is one, for exact hits; otherwise null.';
COMMENT ON COLUMN cortana.search_side.folded IS 'All words in their order, folded.';
COMMENT ON COLUMN cortana.search_side.grams IS 'What search_grams() returns for folded.';
COMMENT ON COLUMN cortana.search_side.parts IS
    'LIKE patterns of what was typed, if it is several things; a line that contains all of them, and the words in '
    'short_parts, has the words too, if only as parts of longer ones.';
COMMENT ON COLUMN cortana.search_side.short_parts IS
    'Words of one or two letters, which are in too many others to be looked for as parts.';
COMMENT ON COLUMN cortana.search_side.sign IS '@: the line must have a handle; #: a hashtag.';

CREATE TYPE cortana.search_terms AS (
    sides search_side[],
    marks text,
    excluded tsquery,
    excluded_lookup tsquery,
    languages text[],
    tags text[],
    sources text[],
    line_sources text[],
    after_ms int,
    before_ms int,
    after_time timestamptz,
    before_time timestamptz,
    kinds text[],
    min_confidence real,
    owner uuid,
    team uuid,
    video uuid,
    labels text[],
    collections text[],
    own_fields text[],
    recorded_after timestamptz,
    recorded_before timestamptz,
    at_first timestamptz,
    at_last timestamptz,
    alike uuid[],
    no_field text
);
COMMENT ON TYPE cortana.search_terms IS 'A parsed query. At most 200 characters of a query are read.';
COMMENT ON COLUMN cortana.search_terms.sides IS
    'A result must have one of them; null: the query has no words.';
COMMENT ON COLUMN cortana.search_terms.marks IS
    'The regular expression for what to mark in a result.';
COMMENT ON COLUMN cortana.search_terms.excluded IS 'What no result may contain; null: nothing.';
COMMENT ON COLUMN cortana.search_terms.excluded_lookup IS 'The same without beginnings of words.';
COMMENT ON COLUMN cortana.search_terms.languages IS
    'Of lang:; a result must have one of them; null: any language.';
COMMENT ON COLUMN cortana.search_terms.tags IS
    'Of tag:, as entities contain them (#name, @name); a result must have all of them.';
COMMENT ON COLUMN cortana.search_terms.sources IS 'Of from:; a result must have one of them.';
COMMENT ON COLUMN cortana.search_terms.line_sources IS 'Of source:; a result must have one of them; null: any.';
COMMENT ON COLUMN cortana.search_terms.after_ms IS
    'Of after:, milliseconds of the video; the text was still on screen at that time.';
COMMENT ON COLUMN cortana.search_terms.before_ms IS
    'Of before:, milliseconds of the video; the text was on screen before that time.';
COMMENT ON COLUMN cortana.search_terms.after_time IS
    'Of after:; videos that were registered at or after this time.';
COMMENT ON COLUMN cortana.search_terms.before_time IS
    'Of before:; videos that were registered before this time.';
COMMENT ON COLUMN cortana.search_terms.kinds IS 'Of kind:; a result must have an entity of each of them.';
COMMENT ON COLUMN cortana.search_terms.min_confidence IS 'Of conf:.';
COMMENT ON COLUMN cortana.search_terms.owner IS 'Of owner:.';
COMMENT ON COLUMN cortana.search_terms.team IS 'Of team:.';
COMMENT ON COLUMN cortana.search_terms.video IS 'Of video:.';
COMMENT ON COLUMN cortana.search_terms.labels IS
    'Of tag: without a sign: a result must have each of them, as a hashtag of its own or as a tag of its video.';
COMMENT ON COLUMN cortana.search_terms.collections IS 'Of in:, names or ids; the video of a result must be in each of them.';
COMMENT ON COLUMN cortana.search_terms.own_fields IS 'Of field:, name or name=value; the video of a result must have each of them.';
COMMENT ON COLUMN cortana.search_terms.recorded_after IS 'Of recorded:; videos that were recorded at or after this time.';
COMMENT ON COLUMN cortana.search_terms.recorded_before IS 'Of recorded:; videos that were recorded before this time.';
COMMENT ON COLUMN cortana.search_terms.at_first IS 'Of at:; the text was still on screen at this time of day.';
COMMENT ON COLUMN cortana.search_terms.at_last IS 'Of at:; the text was on screen before this time of day.';
COMMENT ON COLUMN cortana.search_terms.alike IS 'Of like:; the video of a result shows the same as one of these.';
COMMENT ON COLUMN cortana.search_terms.no_field IS
    'A word that looks like a field that there is not: the query is refused if no line has its words as they were typed.';

CREATE FUNCTION cortana.search_refuse(p_message text) RETURNS void
LANGUAGE plpgsql STABLE PARALLEL SAFE AS $$
BEGIN
    RAISE EXCEPTION '%', p_message USING ERRCODE = 'invalid_parameter_value', COLUMN = 'q';
END
$$;
COMMENT ON FUNCTION cortana.search_refuse IS
    'Raises an error about a query, in words that say what to write instead. The column is the name of the query in the API.';

CREATE FUNCTION cortana.search_position(p_value text) RETURNS int
LANGUAGE plpgsql IMMUTABLE STRICT PARALLEL SAFE AS $$
BEGIN
    IF p_value ~ '^(\d{1,2}:)?\d{1,3}:[0-5]\d$' THEN
        RETURN (
            SELECT sum(part::int * (60 ^ (number - 1))::int)::int * 1000
            FROM string_to_table(reverse(p_value), ':') WITH ORDINALITY AS t (turned, number),
                 reverse(turned) AS part);
    END IF;
    IF p_value ~ '^(\d{1,3}h)?(\d{1,4}m)?(\d{1,5}s)?$' AND p_value <> '' THEN
        RETURN 1000 * (3600 * coalesce(substring(p_value, '(\d+)h')::int, 0)
                       + 60 * coalesce(substring(p_value, '(\d+)m')::int, 0)
                       + coalesce(substring(p_value, '(\d+)s')::int, 0));
    END IF;
    RETURN NULL;
END
$$;
COMMENT ON FUNCTION cortana.search_position IS
    'Returns a position in a video, written as 1:30, 1:02:03, 90s, 5m or 1h20m, in milliseconds; null: the text '
    'is something else.';

CREATE FUNCTION cortana.search_date(p_value text) RETURNS timestamptz
LANGUAGE plpgsql STABLE STRICT PARALLEL SAFE AS $$
BEGIN
    IF p_value !~ '^[12]\d{3}(-\d{2}(-\d{2})?)?$' THEN
        RETURN NULL;
    END IF;
    RETURN (p_value || left('-01-01', 10 - length(p_value)) )::date::timestamptz;
EXCEPTION WHEN datetime_field_overflow OR invalid_datetime_format THEN
    RETURN NULL;
END
$$;
COMMENT ON FUNCTION cortana.search_date IS
    'Returns the start of a year, month or day, written as 2024, 2024-05 or 2024-05-17; null: the text is '
    'something else.';

CREATE FUNCTION cortana.search_clock(p_value text, OUT first timestamptz, OUT last timestamptz)
LANGUAGE plpgsql STABLE STRICT PARALLEL SAFE AS $$
DECLARE
    part constant text[] := regexp_match(p_value, '^([12]\d{3}-\d\d-\d\d)t(\d\d:\d\d)(:\d\d(?:\.\d{1,6})?)?(z|[+-]\d\d:?\d\d)?'
                                                  '(?:(?:±|\+/?-)(\d{1,5})(s|m|h))?$');
    around constant interval := coalesce(part[5] || part[6], '30s')::interval;
BEGIN
    first := (part[1] || ' ' || part[2] || coalesce(part[3], '') || coalesce(part[4], 'z'))::timestamptz;
    last := CASE WHEN part[3] IS NULL AND part[5] IS NULL THEN first + interval '1 minute' ELSE first + around END;
    first := CASE WHEN part[3] IS NULL AND part[5] IS NULL THEN first ELSE first - around END;
EXCEPTION WHEN datetime_field_overflow OR invalid_datetime_format THEN
    first := NULL;
    last := NULL;
END
$$;
COMMENT ON FUNCTION cortana.search_clock IS
    'Returns the span of 2026-03-01t14:05±30s; without ± that minute, or 30 seconds before and after a time with seconds. Without '
    'a time zone it is UTC. Null: the text is something else.';

CREATE FUNCTION cortana.search_is_language(p_name text) RETURNS boolean
LANGUAGE plpgsql STABLE STRICT PARALLEL SAFE
SECURITY DEFINER
SET enable_seqscan = off
SET jit = off AS $$
DECLARE
    models constant text[] := string_to_array(
           'afr amh ara asm aze aze_cyrl bel ben bod bos bre bul cat ceb ces chi_sim chi_sim_vert chi_tra chi_tra_vert '
           'chr cos cym dan deu div dzo ell eng enm epo equ est eus fao fas fil fin fra frk frm fry gla gle glg grc '
           'guj hat heb hin hrv hun hye iku ind isl ita ita_old jav jpn jpn_vert kan kat kat_old kaz khm kir kmr kor '
           'kor_vert lao lat lav lit ltz mal mar mkd mlt mon mri msa mya nep nld nor oci ori osd pan pol por pus que '
           'ron rus san sin slk slv snd spa spa_old sqi srp srp_latn sun swa swe syr tam tat tel tgk tgl tha tir ton '
           'tur uig ukr urd uzb uzb_cyrl vie yid yor', ' ');
    scripts constant text[] := string_to_array(
           'arabic armenian bengali canadian_aboriginal cherokee cyrillic '
           'devanagari ethiopic fraktur georgian greek gujarati '
           'gurmukhi hans hans_vert hant hant_vert hangul hangul_vert '
           'hebrew japanese japanese_vert kannada khmer lao latin '
           'malayalam myanmar oriya sinhala syriac tamil telugu '
           'thaana thai tibetan vietnamese', ' ');
BEGIN
    RETURN p_name = ANY (models)
        OR p_name LIKE 'script/%' AND substr(p_name, 8) = ANY (scripts)
        -- a model of the installation's own
        OR EXISTS (SELECT FROM search_materialized
                   WHERE keys @> ARRAY[search_key('l' || p_name)] AND lower(language) = p_name);
END
$$;
COMMENT ON FUNCTION cortana.search_is_language IS
    'Returns whether Tesseract has a model with this name, in lower case, or a line was read with one.';

CREATE FUNCTION cortana.search_fields() RETURNS text[] LANGUAGE sql IMMUTABLE PARALLEL SAFE
RETURN string_to_array('from lang tag in field recorded at after before kind conf owner team video like source', ' ');
COMMENT ON FUNCTION cortana.search_fields IS 'Returns the names of the fields that a query may have.';

CREATE FUNCTION cortana.search_refuse_field(p_word text) RETURNS void
LANGUAGE sql STABLE PARALLEL SAFE
RETURN search_refuse(format('%s: is not a field; fields are %s:. To look for the text, put it into quotes: "%s"',
                            substring(p_word, '[a-z]+'), array_to_string(search_fields(), ':, '), translate(ltrim(p_word, '-'), '"', '')));
COMMENT ON FUNCTION cortana.search_refuse_field IS 'Refuses a query with a word that looks like a field that there is not.';

CREATE FUNCTION cortana.search_uuid(p_field text, p_value text) RETURNS uuid
LANGUAGE plpgsql STABLE PARALLEL SAFE AS $$
BEGIN
    IF p_field = 'owner' AND p_value = 'me' AND auth.uid() IS NOT NULL THEN
        RETURN auth.uid();
    END IF;
    IF p_value !~ '^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$' THEN
        IF p_field = 'owner' THEN
            PERFORM search_refuse('owner: takes the id of one, or me: write owner:me');
        END IF;
        PERFORM search_refuse(format('%s: takes the id of one', p_field));
    END IF;
    RETURN p_value::uuid;
END
$$;
COMMENT ON FUNCTION cortana.search_uuid IS 'Returns the id that owner:, team:, video: or like: has.';

CREATE FUNCTION cortana.search_add_field(p_terms search_terms, p_field text, p_value text)
RETURNS search_terms
LANGUAGE plpgsql STABLE PARALLEL SAFE AS $$
DECLARE
    terms search_terms := p_terms;
    at_ms int := search_position(p_value);
    at_time timestamptz := search_date(p_value);
BEGIN
    CASE p_field
    WHEN 'lang' THEN
        IF p_value = '' THEN
            PERFORM search_refuse('lang: takes the name of a Tesseract model: write lang:deu');
        ELSIF NOT search_is_language(p_value) THEN
            PERFORM search_refuse(format('lang:%s: there is no Tesseract model with this name: write lang:deu', p_value));
        END IF;
        terms.languages := terms.languages || p_value;
    WHEN 'tag' THEN
        IF p_value !~ '^([#@]\w+|[^#@].*)$' THEN
            PERFORM search_refuse('tag: takes a tag, a hashtag or a mention: write tag:berlin or tag:@anna');
        ELSIF p_value ~ '^[#@]' THEN
            terms.tags := terms.tags || p_value;
        ELSE
            terms.labels := terms.labels || p_value;
        END IF;
    WHEN 'in' THEN
        IF p_value = '' THEN
            PERFORM search_refuse('in: takes the name or the id of a collection: write in:holidays or in:"my holidays"');
        END IF;
        terms.collections := terms.collections || p_value;
    WHEN 'field' THEN
        IF p_value = '' THEN
            PERFORM search_refuse('field: takes the name of a field of your own, alone or with a value: write field:camera or field:camera=GX80');
        END IF;
        terms.own_fields := terms.own_fields || left(p_value, 200);
    WHEN 'recorded' THEN
        IF at_time IS NULL THEN
            PERFORM search_refuse('recorded: takes a year, a month or a day: write recorded:2024 or recorded:2024-05-17');
        END IF;
        terms.recorded_after := greatest(terms.recorded_after, at_time);
        terms.recorded_before := least(terms.recorded_before, at_time + CASE length(p_value)
            WHEN 4 THEN interval '1 year' WHEN 7 THEN interval '1 month' ELSE interval '1 day' END);
    WHEN 'at' THEN
        SELECT greatest(terms.at_first, c.first), least(terms.at_last, c.last) INTO terms.at_first, terms.at_last
        FROM search_clock(p_value) AS c WHERE c.first IS NOT NULL;
        IF NOT FOUND THEN
            PERFORM search_refuse('at: takes a day and a time of day: write at:2026-03-01T14:05, at:2026-03-01T14:05:10+01:00 or'
                                  ' at:2026-03-01T14:05Z+-30s');
        END IF;
    WHEN 'from' THEN
        IF p_value = '' THEN
            PERFORM search_refuse('from: takes a video''s file name, title, platform or id, or a part of'
                                  ' it: write from:holiday.mp4 or from:"my holiday"');
        END IF;
        terms.sources := terms.sources || p_value;
    WHEN 'source' THEN
        IF p_value <> ALL (line_sources()) THEN
            PERFORM search_refuse(format('source: takes one of %s: write source:subtitle', array_to_string(line_sources(), ', ')));
        END IF;
        terms.line_sources := terms.line_sources || p_value;
    WHEN 'kind' THEN
        IF NOT EXISTS (SELECT FROM entity_types WHERE name = p_value) THEN
            PERFORM search_refuse(format('kind: takes one of %s: write kind:url',
                                         (SELECT string_agg(name, ', ' ORDER BY name) FROM entity_types)));
        END IF;
        terms.kinds := terms.kinds || p_value;
    WHEN 'conf' THEN
        IF p_value !~ '^(0(\.\d{1,4})?|1(\.0{1,4})?)$' THEN
            PERFORM search_refuse('conf: takes a number from 0 to 1, the least confidence: write conf:0.8');
        END IF;
        terms.min_confidence := greatest(terms.min_confidence, p_value::real);
    WHEN 'like' THEN
        terms.alike := terms.alike || search_uuid(p_field, p_value);
        IF search_own_videos(terms.alike[cardinality(terms.alike):]) = '{}' THEN
            PERFORM search_refuse('like: there is no such video');
        END IF;
    WHEN 'owner' THEN terms.owner := search_uuid(p_field, p_value);
    WHEN 'team' THEN terms.team := search_uuid(p_field, p_value);
    WHEN 'video' THEN terms.video := search_uuid(p_field, p_value);
    ELSE
        IF at_ms IS NULL AND at_time IS NULL THEN
            PERFORM search_refuse(format('%s: takes a date or a place in the video: write %1$s:2024-05-17'
                                         ' or %1$s:1:30 or %1$s:90s', p_field));
        ELSIF p_field = 'after' THEN
            terms.after_ms := greatest(terms.after_ms, at_ms);
            terms.after_time := greatest(terms.after_time, at_time);
        ELSE
            terms.before_ms := least(terms.before_ms, at_ms);
            terms.before_time := least(terms.before_time, at_time);
        END IF;
    END CASE;
    RETURN terms;
END
$$;
COMMENT ON FUNCTION cortana.search_add_field IS 'Adds a field of a query to the terms.';

CREATE FUNCTION cortana.search_is_beginning(p_word text) RETURNS boolean
LANGUAGE sql IMMUTABLE STRICT PARALLEL SAFE
RETURN p_word ~ '^[^"*]{2,}\*+$';
COMMENT ON FUNCTION cortana.search_is_beginning IS
    'Returns whether a typed word stands for all words that begin with it: pref*.';

CREATE FUNCTION cortana.search_add_beginning(p_side search_side, p_beginning text) RETURNS search_side
LANGUAGE plpgsql STABLE PARALLEL SAFE AS $$
DECLARE
    side search_side := p_side;
    words text[] := search_word_list(p_beginning);
    word tsquery := phraseto_tsquery('simple', search_spaced(p_beginning));
BEGIN
    IF numnode(word) > 0 THEN
        word := (word::text || ':*')::tsquery;
        side.words := CASE WHEN side.words IS NULL THEN word ELSE side.words && word END;
        side.beginnings := side.beginnings || words[cardinality(words)];
    END IF;
    RETURN side;
END
$$;
COMMENT ON FUNCTION cortana.search_add_beginning IS 'Adds the beginning of a word to a side.';

CREATE FUNCTION cortana.search_add_parts(p_side search_side, p_wanted text[]) RETURNS search_side
LANGUAGE plpgsql STABLE PARALLEL SAFE AS $$
DECLARE
    side search_side := p_side;
    part text;
    words tsquery;
BEGIN
    FOREACH part IN ARRAY p_wanted LOOP
        part := btrim(replace(part, '"', ''));
        IF part ~ '[[:alnum:]]{3}' OR search_grams(part) IS NOT NULL THEN
            side.parts := side.parts || search_pattern(part);
            CONTINUE;
        END IF;
        words := phraseto_tsquery('simple', search_spaced(part));
        IF numnode(words) > 0 THEN
            side.short_parts := CASE WHEN side.short_parts IS NULL THEN words ELSE side.short_parts && words END;
        ELSIF part <> '' THEN
            side.parts := side.parts || search_pattern(part);
        END IF;
    END LOOP;
    RETURN side;
END
$$;
COMMENT ON FUNCTION cortana.search_add_parts IS 'Adds what a line may have as parts of longer words to a side.';

CREATE FUNCTION cortana.search_read_side(p_wanted text[]) RETURNS search_side
LANGUAGE plpgsql STABLE PARALLEL SAFE AS $$
DECLARE
    beginnings_max constant int := 8;
    side search_side;
    plain text := array_to_string(p_wanted, ' ');
    token text;
    words text[];
    word tsquery;
    beginnings text[];
BEGIN
    IF plain IN ('@', '#') THEN
        side.sign := plain;
        RETURN side;
    END IF;
    FOREACH token IN ARRAY p_wanted LOOP
        IF search_is_beginning(token) THEN
            beginnings := beginnings || rtrim(token, '*');
            CONTINUE;
        END IF;
        -- a phrase: what is typed as one, such as anna_12, may be several words
        word := phraseto_tsquery('simple', search_spaced(token));
        CONTINUE WHEN numnode(word) = 0;
        side.lookup := CASE WHEN side.lookup IS NULL THEN word ELSE side.lookup && word END;
        IF numnode(word) > 1 THEN
            words := search_word_list(token);
            side.neighbours := side.neighbours || search_pair_keys(words);
            side.pairs := CASE WHEN token LIKE '"%' THEN side.pairs || search_pair_keys(words) ELSE side.pairs END;
        END IF;
    END LOOP;
    side.words := side.lookup;
    IF beginnings IS NOT NULL THEN
        FOREACH token IN ARRAY beginnings[:beginnings_max] LOOP
            side := search_add_beginning(side, token);
        END LOOP;
    ELSIF cardinality(p_wanted) > 1 THEN
        side := search_add_parts(side, p_wanted);
    END IF;
    IF plain ~ '^"[^"]+"?$' THEN
        side.literal := nullif(btrim(replace(plain, '"', '')), '');
    ELSIF position('*' IN plain) = 0 THEN
        side.literal := nullif(plain, '');   -- also with quotes, which may stand on screen like this
    END IF;
    side.folded := nullif(search_fold(btrim(regexp_replace(translate(plain, '"*', '  '), '\s+', ' ', 'g'))), '');
    side.grams := search_grams(side.folded);
    RETURN side;
END
$$;
COMMENT ON FUNCTION cortana.search_read_side IS
    'Reads the words, "phrases" and beginnings of words (at most eight) of a query without OR, or of one side of it.';

CREATE FUNCTION cortana.search_read_sides(p_wanted text[]) RETURNS search_side[]
LANGUAGE plpgsql STABLE PARALLEL SAFE AS $$
DECLARE
    sides_max constant int := 8;    -- each is a search
    wanted text[] := '{}';
    token text;
    side search_side;
    sides search_side[];
BEGIN
    FOREACH token IN ARRAY array_append(p_wanted, NULL) LOOP
        IF token IS NOT NULL THEN
            wanted := wanted || token;
            CONTINUE;
        END IF;
        side := search_read_side(wanted);
        IF side.folded IS NOT NULL OR side.sign IS NOT NULL THEN
            sides := sides || side;
        END IF;
        wanted := '{}';
    END LOOP;
    IF cardinality(sides) > sides_max THEN
        PERFORM search_refuse('a query has at most 8 alternatives: leave out some of those between OR');
    END IF;
    RETURN sides;
END
$$;
COMMENT ON FUNCTION cortana.search_read_sides IS
    'Reads the words of a query, in which null stands for OR; null: there are none.';

CREATE FUNCTION cortana.search_marks(p_wanted text[]) RETURNS text
LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE AS $$
DECLARE
    marks text;
    token text;
    word text;
BEGIN
    FOREACH token IN ARRAY p_wanted LOOP
        IF token IN ('@', '#') THEN
            marks := concat_ws('|', marks, token || '[[:alnum:]_]+');
            CONTINUE;
        END IF;
        FOREACH word IN ARRAY coalesce(search_typed_words(token), '{}') LOOP
            CONTINUE WHEN word !~ '^[[:alnum:]]+$';
            marks := concat_ws('|', marks,
                CASE WHEN search_is_beginning(token) THEN '(?<![[:alnum:]])' || word || '[[:alnum:]]*'
                     WHEN length(word) >= 4 THEN word
                     ELSE '(?<![[:alnum:]])' || word || '(?![[:alnum:]])' END);
        END LOOP;
    END LOOP;
    RETURN marks;
END
$$;
COMMENT ON FUNCTION cortana.search_marks IS
    'Returns a regular expression for the words to mark in a result. Words of up to three letters are not marked as parts of '
    'longer ones.';

CREATE FUNCTION cortana.search_parse(p_query text) RETURNS search_terms
LANGUAGE plpgsql STABLE PARALLEL SAFE AS $$
DECLARE
    either constant text := U&'\E000';  -- stands for OR, which the normal form would make equal to the word or
    query text;
    token text;
    field text[];
    wanted text[];      -- the words that are neither fields nor excluded; null: OR
    word tsquery;
    terms search_terms;
BEGIN
    -- What a person pastes is shorter; a longer query is a mistake or an attack.
    IF length(p_query) > 10000 THEN
        PERFORM search_refuse('a query has at most 10,000 characters, of which 200 are read');
    END IF;
    query := normal_form(regexp_replace(left(p_query, 200), '(^|\s)OR(?=\s|$)', '\1' || either, 'g'));
    FOR token IN SELECT m[1] FROM regexp_matches(query, '(-?(?:[a-z]+:)?"[^"]*"?|\S+)', 'g') AS m
    LOOP
        IF token = either THEN
            wanted := array_append(wanted, NULL);
            CONTINUE;
        END IF;
        token := replace(token, either, 'or');
        field := regexp_match(token, format('^(-?)(%s):"?(.*?)"?$', array_to_string(search_fields(), '|')));
        IF token LIKE '%:' AND right(query, length(token)) <> token THEN
            field := NULL;   -- "From: Anna" is text; at the end, the value was forgotten
        END IF;
        IF field[1] = '-' THEN
            PERFORM search_refuse(format('-%s: is not known: fields can be asked for, not left out',
                                         field[2]));
        ELSIF field IS NOT NULL THEN
            terms := search_add_field(terms, field[2], btrim(field[3]));
        ELSIF token ~ '^-?[a-z]{2,}:["[:alnum:]]' THEN
            terms.no_field := coalesce(terms.no_field, token);
            IF token LIKE '-%' THEN
                PERFORM search_refuse_field(terms.no_field);
            END IF;
            wanted := array_append(wanted, token);   -- localhost:8080 may be on screen
        ELSIF token ~ '^-\(' OR token LIKE '(%' AND query LIKE '%' || either || '%' THEN
            PERFORM search_refuse('parentheses are not part of the syntax: all words must be there, OR stands between two '
                                  'alternatives; in quotes they are looked for');
        ELSIF token ~ '^-+$' THEN
            CONTINUE;   -- a dash between blanks excludes nothing
        ELSIF token LIKE '-%' AND NOT (token ~ '^-[[:alnum:]]$' AND wanted IS NOT NULL) THEN   -- "git commit -m" is text
            word := phraseto_tsquery('simple', search_spaced(token));
            CONTINUE WHEN numnode(word) = 0;
            IF search_is_beginning(token) THEN
                word := (word::text || ':*')::tsquery;
            ELSE
                terms.excluded_lookup := coalesce(terms.excluded_lookup || word, word);
            END IF;
            terms.excluded := coalesce(terms.excluded || word, word);
        ELSE
            wanted := array_append(wanted, token);
        END IF;
    END LOOP;
    IF wanted IS NOT NULL THEN
        terms.sides := search_read_sides(wanted);
        terms.marks := search_marks(wanted);
    END IF;
    RETURN terms;
END
$$;
COMMENT ON FUNCTION cortana.search_parse IS
    'Parses a query: words, "phrases", -exclusions, OR, prefix*, and fields.';

-- ---- candidates ---------------------------------------------------------------------------------

CREATE FUNCTION cortana.search_near_words(p_typed text) RETURNS text
LANGUAGE plpgsql STABLE
SET enable_seqscan = off
SET plan_cache_mode = force_generic_plan -- the plan is the same for all words; making it took a third of the time
SET jit = off AS $$
DECLARE
    edits_max constant int := CASE WHEN length(p_typed) < 5 THEN 1 ELSE 2 END;
    size constant int := length(p_typed);
    short_keys int[] := '{}';       -- keys of library words of up to seven letters
    first_same int[] := '{}';       -- of longer words: the first half as typed, with edits; the second half likewise
    first_near int[] := '{}';
    second_same int[] := '{}';
    second_near int[] := '{}';
    half int;
    found text;
BEGIN
    IF size - edits_max <= 7 THEN
        short_keys := search_short_keys(p_typed, edits_max);
    END IF;
    FOR word_size IN greatest(8, size - edits_max) .. size + edits_max LOOP
        half := word_size / 2;
        first_same := first_same || search_near_key('<' || left(p_typed, half));
        second_same := second_same || search_near_key('>' || right(p_typed, word_size - half));
        FOR edit IN -1 .. 1 LOOP
            first_near := first_near || search_half_keys('<', left(p_typed, half + edit));
            second_near := second_near || search_half_keys('>', right(p_typed, word_size - half + edit));
        END LOOP;
    END LOOP;
    -- Plan: Bitmap Heap Scan of search_words over search_words_near
    SELECT string_agg(search_word_query(near.word), ' | ') INTO found
    FROM (
        SELECT w.word
        FROM (
            SELECT word, folded, levenshtein_less_equal(p_typed, folded, edits_max) AS edits
            FROM search_words
            WHERE (search_near_keys(folded) && short_keys
                   OR search_near_keys(folded) && first_same
                   OR search_near_keys(folded) && second_same
                   OR search_near_keys(folded) && first_near AND search_near_keys(folded) && second_near)
              AND length(folded) BETWEEN size - edits_max AND size + edits_max
            OFFSET 0) AS w
        WHERE edits <= edits_max AND similarity(folded, p_typed) >= 0.2
        ORDER BY edits, similarity(folded, p_typed) DESC, word
        LIMIT 16
    ) AS near;
    RETURN found;
END
$$;
COMMENT ON FUNCTION cortana.search_near_words IS
    'Returns the words of the library within one edit of a typed word (two edits from five letters on), nearest '
    'first, as a tsquery; null: there are none. Words that share less than a fifth of their trigrams with the '
    'typed word are not returned.';

CREATE FUNCTION cortana.search_expand(p_folded text) RETURNS tsquery
LANGUAGE plpgsql STABLE
SET enable_seqscan = off
SET jit = off AS $$
BEGIN
    RETURN (
        SELECT string_agg('(' || alternatives || ')', ' & ' ORDER BY typed)::tsquery
        FROM (
            SELECT typed, CASE WHEN known IS NULL OR every(known IS NOT NULL) OVER ()
                               THEN search_near_words(typed) ELSE known END AS alternatives
            FROM (
                SELECT DISTINCT typed
                FROM regexp_split_to_table(p_folded, '[^[:alnum:]]+') AS typed
                WHERE length(typed) BETWEEN 3 AND 30
                ORDER BY typed
                LIMIT 8
            ) AS query
            CROSS JOIN LATERAL (
                SELECT string_agg(search_word_query(word), ' | ') AS known
                FROM (SELECT word FROM search_words
                      WHERE search_near_keys(folded) @> search_own_keys(typed) AND folded = typed
                      ORDER BY word LIMIT 16) AS same
            ) AS words
        ) AS words);
END
$$;
COMMENT ON FUNCTION cortana.search_expand IS
    'Returns a query with words that may have been meant. A typed word that the library does not contain is '
    'replaced by the words near to it. If the library contains all typed words, but no line contains them '
    'together, each is replaced by the words near to it. Words without near words are left out; null: all words '
    'were left out.';

CREATE FUNCTION cortana.search_sees_all() RETURNS boolean
LANGUAGE plpgsql STABLE AS $$ -- unlike sql, it keeps its plan
BEGIN
    RETURN (
        SELECT acts_for_everyone() OR rolbypassrls
        FROM pg_roles
        WHERE rolname = coalesce(nullif(current_setting('role', true), 'none'), session_user));
END
$$;
COMMENT ON FUNCTION cortana.search_sees_all IS
    'Returns whether the caller may read all rows: the service role, and roles that bypass row-level security.';

CREATE FUNCTION cortana.search_time_keys(p_from timestamptz, p_to timestamptz) RETURNS int[]
LANGUAGE plpgsql STABLE PARALLEL SAFE AS $$
DECLARE
    first timestamp := greatest(p_from, '1970-01-01 UTC') AT TIME ZONE 'UTC';
    last timestamp := least(p_to, now() + interval '1 day') AT TIME ZONE 'UTC';
    unit text := CASE WHEN last - first <= interval '60 days' THEN 'day'
                      WHEN last - first <= interval '1800 days' THEN 'month' ELSE 'year' END;
BEGIN
    RETURN ARRAY(
        SELECT search_key(to_char(at, CASE unit WHEN 'day' THEN '"d"YYYY-MM-DD' WHEN 'month' THEN '"d"YYYY-MM'
                                                ELSE '"d"YYYY' END))
        FROM generate_series(date_trunc(unit, first), last, ('1 ' || unit)::interval) AS at);
END
$$;
COMMENT ON FUNCTION cortana.search_time_keys IS
    'Returns the keys of the days, months or years (about 60 at most) between two times.';

CREATE TYPE cortana.search_condition AS (lookup text, filter text);
COMMENT ON TYPE cortana.search_condition IS
    'One requirement on a line, as a condition of the index and as a condition of the row.';

CREATE FUNCTION cortana.search_pattern(p_part text) RETURNS text
LANGUAGE sql IMMUTABLE STRICT PARALLEL SAFE
RETURN '%' || regexp_replace(p_part, '([\\%_])', '\\\1', 'g') || '%';
COMMENT ON FUNCTION cortana.search_pattern IS 'Returns a LIKE pattern for texts that contain this text.';

CREATE FUNCTION cortana.search_id_range(p_column text, p_value text) RETURNS text
LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$
    SELECT format('%I BETWEEN %L AND %L', p_column, rpad(digits, 32, '0'), rpad(digits, 32, 'f'))
    FROM replace(p_value, '-', '') AS digits
    WHERE digits ~ '^[0-9a-f]{4,32}$'
$$;
COMMENT ON FUNCTION cortana.search_id_range IS
    'Returns the condition that an id begins with the given digits; null: the text is not the beginning of an id.';

CREATE FUNCTION cortana.search_own_videos(p_ids uuid[]) RETURNS uuid[]
LANGUAGE sql STABLE PARALLEL SAFE SECURITY DEFINER AS $$
    SELECT ARRAY(SELECT v.id FROM videos v
                 WHERE v.id = ANY (p_ids)
                   AND (search_sees_all() OR v.owner_id = auth.uid() OR v.team_id = ANY (current_team_ids()))
                 ORDER BY v.created_at DESC, v.id DESC LIMIT 5000)
$$;
COMMENT ON FUNCTION cortana.search_own_videos IS
    'Returns those of the videos that the caller may see, at most the newest 5,000: a condition names each of them.';

CREATE FUNCTION cortana.search_videos_condition(p_ids uuid[]) RETURNS search_condition
LANGUAGE sql IMMUTABLE PARALLEL SAFE
RETURN (format('keys && %L', ARRAY(SELECT search_key('v' || id) FROM unnest(p_ids) AS id)), format('video_id = ANY (%L)', p_ids))::search_condition;
COMMENT ON FUNCTION cortana.search_videos_condition IS 'The condition that a line is of one of these videos.';

CREATE FUNCTION cortana.search_field_filters(p_terms search_terms) RETURNS SETOF search_condition
LANGUAGE plpgsql STABLE PARALLEL SAFE AS $$
DECLARE
    label text;
    ids uuid[];
BEGIN
    IF p_terms.languages IS NOT NULL THEN
        RETURN NEXT (
            format('keys && %L', ARRAY(SELECT search_key('l' || l) FROM unnest(p_terms.languages) AS l)),
            format('lower(language) = ANY (%L)', p_terms.languages));
    END IF;
    IF p_terms.tags IS NOT NULL THEN
        RETURN NEXT (format('keys @> %L', ARRAY(SELECT search_key(t) FROM unnest(p_terms.tags) AS t)),
                     format('tags @> %L', p_terms.tags));
    END IF;
    FOREACH label IN ARRAY coalesce(p_terms.labels, '{}') LOOP
        ids := search_own_videos(ARRAY(SELECT v.id FROM videos v WHERE v.tags <> '{}' AND tag_keys(v.tags) @> ARRAY[label]));
        RETURN NEXT (
            format('keys && %L', search_key('#' || label) || ARRAY(SELECT search_key('v' || id) FROM unnest(ids) AS id)),
            format('(tags @> %L OR video_id = ANY (%L))', ARRAY['#' || label], ids));
    END LOOP;
    FOREACH label IN ARRAY coalesce(p_terms.collections, '{}') LOOP
        RETURN NEXT search_videos_condition(search_own_videos(ARRAY(
            SELECT i.video_id FROM collections c JOIN collection_videos i ON i.collection_id = c.id
            WHERE (normal_form(c.name) = label OR c.id::text = label)
              AND (search_sees_all() OR c.owner_id = auth.uid() OR c.team_id = ANY (current_team_ids())))));
    END LOOP;
    IF p_terms.own_fields IS NOT NULL THEN
        RETURN NEXT search_videos_condition(search_own_videos(ARRAY(SELECT v.id FROM videos v WHERE v.fields <> '{}'
                                                                                           AND field_keys(v.fields) @> p_terms.own_fields)));
    END IF;
    IF p_terms.recorded_after IS NOT NULL THEN
        RETURN NEXT (NULL::text, format('EXISTS (SELECT FROM videos v WHERE v.id = m.video_id AND v.recorded_at >= %L'
                                        ' AND v.recorded_at < %L)', p_terms.recorded_after, p_terms.recorded_before));
    END IF;
    IF p_terms.at_first IS NOT NULL THEN
        -- no video is longer than two days: the index on recorded_at finds those that were being recorded
        ids := search_own_videos(ARRAY(SELECT v.id FROM videos v
                                       WHERE v.recorded_at > p_terms.at_first - interval '2 days' AND v.recorded_at < p_terms.at_last
                                         AND v.recorded_at + make_interval(secs => coalesce(v.duration, 172800)) > p_terms.at_first));
        RETURN NEXT (format('keys && %L', ARRAY(SELECT search_key('v' || id) FROM unnest(ids) AS id)),
                     format('video_id = ANY (%L) AND EXISTS (SELECT FROM videos v WHERE v.id = m.video_id'
                            ' AND v.recorded_at + m.t_end * interval ''1 ms'' > %L AND v.recorded_at + m.t_start * interval ''1 ms'' < %L)',
                            ids, p_terms.at_first, p_terms.at_last));
    END IF;
    IF p_terms.alike IS NOT NULL THEN
        RETURN NEXT search_videos_condition(search_own_videos(ARRAY(SELECT a.video_id FROM unnest(p_terms.alike) AS one, alike_videos(one) AS a)));
    END IF;
    IF p_terms.after_ms IS NOT NULL THEN
        RETURN NEXT (NULL::text, format('t_end > %s', p_terms.after_ms));
    END IF;
    IF p_terms.before_ms IS NOT NULL THEN
        RETURN NEXT (NULL::text, format('t_start < %s', p_terms.before_ms));
    END IF;
    IF p_terms.after_time IS NOT NULL OR p_terms.before_time IS NOT NULL THEN
        RETURN NEXT (format('keys && %L', search_time_keys(p_terms.after_time, p_terms.before_time)),
                     format('taken_at >= %L AND taken_at < %L', coalesce(p_terms.after_time, '-infinity'),
                            coalesce(p_terms.before_time, 'infinity')));
    END IF;
    IF p_terms.excluded IS NOT NULL THEN
        -- search_document_condition() adds this to the index condition if that looks up other words of a document
        RETURN NEXT (NULL::text, format('NOT document @@ %L::tsquery', p_terms.excluded));
    END IF;
    IF p_terms.sources IS NOT NULL THEN
        -- search_source_condition() makes the index condition for this filter
        RETURN NEXT (NULL::text, (
            SELECT '(' || string_agg(concat_ws(' OR ', format('source LIKE %L', search_pattern(s)),
                                               search_id_range('video_id', s)), ' OR ') || ')'
            FROM unnest(p_terms.sources) AS s));
    END IF;
    IF p_terms.line_sources IS NOT NULL THEN
        RETURN NEXT (CASE WHEN 'screen' <> ALL (p_terms.line_sources) THEN
                         format('keys && %L', ARRAY(SELECT search_key('s' || s) FROM unnest(p_terms.line_sources) AS s)) END,
                     format('line_source = ANY (%L)', p_terms.line_sources));
    END IF;
    IF p_terms.kinds IS NOT NULL THEN
        RETURN NEXT (NULL::text, (
            SELECT string_agg(format('EXISTS (SELECT FROM entities e WHERE e.segment_id = m.segment_id'
                                     ' AND e.entity_type = %L)', kind), ' AND ')
            FROM unnest(p_terms.kinds) AS kind));
    END IF;
    IF p_terms.min_confidence IS NOT NULL THEN
        RETURN NEXT (NULL::text, format('confidence >= %L::real', p_terms.min_confidence));
    END IF;
    IF p_terms.owner IS NOT NULL THEN
        RETURN NEXT (format('keys @> %L', ARRAY[search_key('o' || p_terms.owner)]), format('owner_id = %L', p_terms.owner));
    END IF;
    IF p_terms.team IS NOT NULL THEN
        RETURN NEXT (format('keys @> %L', ARRAY[search_key('t' || p_terms.team)]), format('team_id = %L', p_terms.team));
    END IF;
    IF p_terms.video IS NOT NULL THEN
        RETURN NEXT (format('keys @> %L', ARRAY[search_key('v' || p_terms.video)]), format('video_id = %L', p_terms.video));
    END IF;
END
$$;
COMMENT ON FUNCTION cortana.search_field_filters IS
    'Returns the conditions on a row of search_materialized, named m, that the fields of a query make.';

CREATE FUNCTION cortana.search_field_conditions(p_terms search_terms) RETURNS text
LANGUAGE sql STABLE PARALLEL SAFE AS $$
    SELECT coalesce(string_agg(' AND ' || c.filter, ''), '') FROM search_field_filters(p_terms) AS c
$$;
COMMENT ON FUNCTION cortana.search_field_conditions IS
    'Returns the conditions of search_field_filters() as SQL that begins with AND.';

CREATE FUNCTION cortana.search_document_condition(p_words tsquery, p_excluded tsquery) RETURNS text
LANGUAGE sql STABLE PARALLEL SAFE
RETURN format('document @@ %L::tsquery', CASE WHEN p_excluded IS NULL THEN p_words
                                                  ELSE p_words && !!p_excluded END);
COMMENT ON FUNCTION cortana.search_document_condition IS
    'Returns the condition of the index on the words of a line. Excluded words are part of it, because otherwise '
    'all lines of a common word would be read to remove those that contain an excluded word.';

CREATE FUNCTION cortana.search_rarest_first(p_words text[], p_common text[], p_shares real[]) RETURNS text[]
LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE AS $$
BEGIN
    RETURN ARRAY(
        SELECT typed FROM unnest(p_words) WITH ORDINALITY AS t (typed, n)
        ORDER BY (SELECT sum(p_shares[array_position(p_common, btrim(word, ''''))])
                  FROM string_to_table(btrim(typed, '( )'), ' | ') AS word) NULLS FIRST,
                 length(typed) DESC, n);
END
$$;
COMMENT ON FUNCTION cortana.search_rarest_first IS
    'Returns words, the rarest first: words that are not among the most common ones of the library (p_common), longest '
    'first, then the others by the share of the lines that contain them (p_shares). Instead of a word there may be several '
    'in the form of a tsquery, (a | b). The order changes what a search costs, not what it finds.';

CREATE FUNCTION cortana.search_every_key(p_keys int[], p_is_paragraph boolean DEFAULT false) RETURNS text
LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE AS $$
BEGIN
    RETURN (
        SELECT string_agg(CASE WHEN p_is_paragraph THEN format('keys && %L', ARRAY[key, search_continued_key(key)])
                               ELSE format('keys @> %L', ARRAY[key]) END, ' AND ' ORDER BY n)
        FROM unnest(p_keys) WITH ORDINALITY AS t (key, n));
END
$$;
COMMENT ON FUNCTION cortana.search_every_key IS
    'Returns the conditions of the index that a line has all of these keys; p_is_paragraph: each of them may also be in another '
    'line of the paragraph that the line begins. Of the keys of one condition, GIN reads the '
    'shortest list, and looks up each line of it in all other lists. Of several conditions it asks the second one only '
    'where the first one matches, and so on, and skips to the line where a condition matches next.';

CREATE FUNCTION cortana.search_every_word(p_words tsquery, p_excluded tsquery, p_common text[], p_shares real[])
RETURNS text
LANGUAGE plpgsql STABLE PARALLEL SAFE AS $$
BEGIN
    RETURN (
        SELECT string_agg(search_document_condition(alternatives::tsquery, p_excluded), ' AND ' ORDER BY n)
        FROM unnest(search_rarest_first(string_to_array(p_words::text, ' & '), p_common, p_shares))
             WITH ORDINALITY AS t (alternatives, n));
END
$$;
COMMENT ON FUNCTION cortana.search_every_word IS
    'Returns the conditions of the index that a line has each word of a query without OR, or one of the alternatives '
    'that search_expand() returns for each typed word. No word contains a blank.';

CREATE FUNCTION cortana.search_newest(p_base search_condition[], p_lookup text, p_filter text, p_limit int,
                              p_span bigint)
RETURNS tid[]
LANGUAGE plpgsql STABLE
SET enable_seqscan = off
SET jit = off AS $$
DECLARE
    newest bigint := (SELECT last_value FROM search_materialized_number_seq);
    conditions search_condition[] := (p_lookup, p_filter)::search_condition || p_base;
    lookup text := (SELECT string_agg(c.lookup, ' AND ') FROM unnest(conditions) AS c);
    filter text := coalesce((SELECT string_agg(c.filter, ' AND ') FROM unnest(conditions) AS c), 'true');
    -- Lines that the lookup finds and the filter rejects must be read, too. This limit bounds the time. What is left
    -- of it passes to the next step; if it is used up within a step, the first lines in the table are taken. Lines
    -- of few videos may be anywhere in the table, so they are looked up in one step.
    read_most constant int := p_limit * CASE WHEN p_span IS NULL THEN 50 ELSE 20 END;
    read_left int := read_most;
    small_span constant bigint := 1024;
    -- Reading so many lines costs a fiftieth of reading all of 5,000,000, and what they do not contain is so rare that
    -- reading all costs little.
    many constant bigint := 131072;
    needed bigint;              -- how many of the newest lines contain p_limit lines, by what was found so far
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
        -- Widen the span in proportion to what is missing, plus a third. If that is more than there are, read all at once.
        -- Otherwise widen it 64 times at most, because few lines say little about all.
        needed := (newest - upto) * (1.33 * (p_limit - cardinality(found)) / greatest(cardinality(found), 1) + 0.1);
        span := CASE WHEN needed > newest THEN newest
                     WHEN found = '{}' THEN greatest(many, 16 * (newest - upto))
                     ELSE least(needed, 64 * (newest - upto)) END;
        -- Not more than the lines that may still be read, plus a third: the index would be asked for lines that are
        -- then not read.
        span := least(span, (newest - upto) * 1.33 * read_left / greatest(read_most - read_left, 1));
    END LOOP;
    RETURN found;
END
$$;
COMMENT ON FUNCTION cortana.search_newest IS
    'Returns the places (ctid) of at least p_limit lines that fulfil all conditions, the newest ones if there are '
    'that many. p_base and p_lookup are conditions of the index, p_filter is the condition of the row; null: '
    'none. It reads the p_span newest lines (null: all), estimates from them how many more it has to read, and '
    'continues until it has enough lines or has read all; a common word therefore costs no more than a rare one. '
    'Every statement is a Bitmap Heap Scan with one Bitmap Index Scan of search_materialized_lookup. The places '
    'are valid for the calling statement, which must check the rows again.';

CREATE FUNCTION cortana.search_source_condition(p_sources text[], p_owner_rule text,
                                        OUT lookup text, OUT is_narrow boolean)
LANGUAGE plpgsql STABLE
SET enable_seqscan = off
SET jit = off AS $$
DECLARE
    few constant int := 64;
    videos uuid[] := '{}';
    source text;
    found uuid[];
BEGIN
    FOREACH source IN ARRAY p_sources
    LOOP
        -- Fewer than three letters have no trigram; treat them as a name of many videos.
        EXIT WHEN cardinality(videos) > few OR length(source) < 3;
        -- Plan: Bitmap Heap Scan over a BitmapOr of videos_source and videos_pkey
        EXECUTE concat(
            'SELECT array_agg(id) FROM (SELECT id FROM videos WHERE (',
            search_id_range('id', source) || ' OR ',
            format('search_source(original_name, title, platform) LIKE %L', search_pattern(source)),
            ') AND ', p_owner_rule, ' LIMIT ', few + 1, ') AS v') INTO found;
        videos := videos || found;
    END LOOP;
    is_narrow := cardinality(videos) <= few AND length(source) >= 3;
    IF is_narrow THEN
        lookup := format('keys && %L', ARRAY(SELECT search_key('v' || v) FROM unnest(videos) AS v));
    ELSIF cardinality(p_sources) = 1 THEN
        SELECT format('keys @> %L', array_agg(search_key('f' || name))) INTO lookup
        FROM regexp_split_to_table(source, '[[:space:][:punct:]]+') AS name
        WHERE name <> '';
        IF cardinality(search_newest('{}', lookup, NULL, 1, 1024)) = 0 THEN
            lookup := NULL;
        END IF;
    END IF;
END
$$;
COMMENT ON FUNCTION cortana.search_source_condition IS
    'Returns the condition of the index for the field from:. If few videos match, it is the keys of these videos. '
    'If many match, it is the keys of the words of the name; if no video has these words (they are parts of '
    'words), there is no condition, and the newest lines are filtered. p_owner_rule is the condition on the rows '
    'of videos that the caller may see.';

CREATE FUNCTION cortana.search_joined_keys(p_words text[], p_rarest_first text[]) RETURNS SETOF int[]
LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE AS $$
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

CREATE FUNCTION cortana.search_word_lookup(p_side search_side, p_excluded tsquery, p_common text[], p_shares real[])
RETURNS text
LANGUAGE plpgsql STABLE PARALLEL SAFE AS $$
BEGIN
    RETURN (
        SELECT concat_ws(' AND ',
            CASE WHEN p_side.lookup::text ~ '[|!(]' THEN search_document_condition(p_side.lookup, p_excluded)
                 WHEN p_side.lookup IS NOT NULL
                 THEN search_every_word(p_side.lookup, p_excluded, p_common, p_shares) END,
            CASE WHEN p_side.neighbours IS NOT NULL THEN format('keys @> %L', p_side.neighbours) END,
            (SELECT string_agg(format('keys @> %L', ARRAY[
                        search_key('^' || left(b, CASE WHEN length(b) < 4 THEN 2 ELSE 4 END))])
                    || CASE WHEN length(b) > 2 THEN format(' AND folded LIKE %L', search_pattern(b)) ELSE '' END,
                    ' AND ')
             FROM unnest(p_side.beginnings) AS b)));
END
$$;
COMMENT ON FUNCTION cortana.search_word_lookup IS
    'Returns the condition of the index for the words, phrases and beginnings of words of a query. A prefix '
    'search in GIN reads all words with that prefix before it compares anything, so that beginnings are looked up '
    'by keys and trigrams.';

CREATE FUNCTION cortana.search_part_lookup(p_folded text, p_rarest_first text[]) RETURNS text
LANGUAGE plpgsql STABLE PARALLEL SAFE AS $$
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

CREATE FUNCTION cortana.search_parts_lookup(p_parts text[]) RETURNS text
LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$
    SELECT string_agg(format('folded LIKE %L', '%' || substr(run, at, 4) || '%'), ' AND ' ORDER BY length(run) DESC, run, at)
    FROM (SELECT DISTINCT substring(search_fold(part), '[[:alnum:]]{3,}') AS run FROM unnest(p_parts) AS part) AS runs,
         generate_series(1, greatest(length(run) - 3, 1), 2) AS at
    WHERE run IS NOT NULL
$$;
COMMENT ON FUNCTION cortana.search_parts_lookup IS
    'Returns the conditions of the index for a line that has all of several texts (search_side.parts) anywhere: their '
    'trigrams, those of the longest text first, two in each condition. Null: the texts are too short.';

CREATE FUNCTION cortana.search_side_candidates(p_side search_side, p_terms search_terms, p_base search_condition[],
                                               p_is_anywhere boolean, p_limit int)
RETURNS tid[]
LANGUAGE plpgsql STABLE
SET plan_cache_mode = force_generic_plan    -- no plan depends on the query; making them took a twelfth of a search
SET jit = off AS $$
DECLARE
    -- many enough to find the best lines of a common word, few enough to be ranked in milliseconds
    enough constant int := greatest(200, p_limit);
    -- Null for lines of few videos, which may be anywhere. Otherwise the newest lines are read first: a span in
    -- which a common word occurs a few times, which shows how common it is; and a wider span for rarer matches, so
    -- that fewer steps are needed.
    span constant bigint := CASE WHEN NOT p_is_anywhere THEN 1024 END;
    wide_span constant bigint := CASE WHEN NOT p_is_anywhere THEN 8192 END;
    -- If the index cannot exclude words, a common word could make the search read all lines that are filtered.
    guesses constant int := CASE WHEN p_terms.excluded IS NULL THEN enough ELSE p_limit END;
    words constant text[] := search_word_list(p_side.literal);
    phrase tsquery;
    common text[];
    shares real[];
    rare_words text[];
    has_every_word text;
    has_every_pair text;
    lookup text;
    is_complete boolean := false;
    parts text[];
    near_words tsquery;
    found tid[] := '{}';
    guessed tid[] := '{}';
    alternative int[];
BEGIN
    IF p_side.words IS NULL AND p_side.folded IS NULL THEN
        -- No word, but perhaps a sign, a tag or a video: take its lines.
        RETURN search_newest(
            p_base, CASE WHEN p_side.sign IS NOT NULL THEN format('keys @> %L', ARRAY[search_key(p_side.sign)]) END,
            CASE WHEN p_side.sign IS NOT NULL
                 THEN format('%L = ANY (SELECT left(tag, 1) FROM unnest(tags) AS tag)', p_side.sign) END,
            enough, span);
    END IF;
    -- Of two words, the order hardly matters: each of them leads the other one to its next line.
    IF p_side.folded LIKE '% % %' THEN
        SELECT most_common_elems::text::text[], most_common_elem_freqs INTO common, shares
        FROM pg_stats
        WHERE schemaname = 'public' AND tablename = 'search_materialized' AND attname = 'document';
    END IF;
    rare_words := search_rarest_first(search_typed_words(p_side.literal), common, shares);
    has_every_word := search_every_key(ARRAY(SELECT search_key('w' || search_fold(w)) FROM unnest(rare_words) AS w),
                                       cardinality(words) > 1);
    has_every_pair := search_every_key(p_side.pairs);
    -- Every line that matches the words has the keys of all of them. If few lines have these keys, the lookups in the
    -- next block would only find the same lines again. This is not so if the words of the document differ from those
    -- of the keys, or if a filter without a key rejects lines, because then not all lines may have been read.
    IF cardinality(words) > 1 AND numnode(p_side.lookup) = 2 * cardinality(words) - 1
        AND NOT EXISTS (SELECT FROM unnest(p_base) AS c WHERE c.lookup IS NULL) THEN
        found := search_newest(p_base, coalesce(has_every_pair, has_every_word), NULL, enough, wide_span);
        is_complete := cardinality(found) < enough;
    END IF;
    IF NOT is_complete THEN
        found := '{}';
        -- Lines that consist only of the query come first.
        IF words IS NOT NULL THEN
            found := search_newest(
                p_base, format('keys @> %L', ARRAY[search_key('=' || array_to_string(words, ''))]), NULL,
                64, wide_span);
            phrase := phraseto_tsquery('simple', search_spaced(p_side.literal));
        END IF;
        IF cardinality(words) > 1 AND phrase::text <> p_side.words::text THEN
            found := found || search_newest(
                p_base, format('keys @> %L AND ', search_pair_keys(words))
                        || search_document_condition(p_side.words, p_terms.excluded_lookup),
                format('document @@ %L::tsquery', phrase), enough, span);
        END IF;
        IF p_side.words IS NOT NULL THEN
            found := found || search_newest(
                p_base, search_word_lookup(p_side, p_terms.excluded_lookup, common, shares),
                CASE WHEN p_side.beginnings IS NOT NULL
                     THEN format('document @@ %L::tsquery', p_side.words) END,
                enough, span);
        END IF;
    END IF;
    IF p_side.grams IS NOT NULL THEN
        found := found || search_newest(
            p_base, format('keys @> %L', ARRAY(SELECT search_key('g' || g) FROM unnest(p_side.grams) AS g)),
            format('folded LIKE ALL (%L)', ARRAY(
                SELECT search_pattern(w) FROM string_to_table(p_side.folded, ' ') AS w)),
            enough, span);
    END IF;
    -- The rest (misread words and parts of words) ranks below what has been found.
    IF cardinality(found) < p_limit AND words IS NOT NULL AND NOT is_complete THEN
        found := found || search_newest(p_base, coalesce(has_every_pair, has_every_word), NULL, guesses, wide_span);
    END IF;
    IF cardinality(found) < p_limit AND has_every_pair IS NOT NULL THEN
        found := found || search_newest(p_base, has_every_word, 'continued IS NOT NULL', guesses, wide_span);
    END IF;
    IF cardinality(found) < (CASE WHEN p_side.folded LIKE '% % %' THEN 1 ELSE p_limit END) THEN
        lookup := search_parts_lookup(p_side.parts);
        IF lookup IS NOT NULL THEN
            found := found || search_newest(
                p_base, concat(CASE WHEN p_side.short_parts IS NOT NULL THEN format('document @@ %L::tsquery AND ', p_side.short_parts) END, lookup),
                format('(normalized_text LIKE ALL (%L) OR position(%L IN folded) > 0)', p_side.parts, p_side.folded),
                guesses, wide_span);
        END IF;
        IF (lookup IS NULL OR p_side.short_parts IS NOT NULL) AND p_side.grams IS NULL
            AND left(p_side.folded, 24) ~ '[[:alnum:]]{3}' THEN
            found := found || search_newest(
                p_base, search_part_lookup(p_side.folded, rare_words),
                format('position(%L IN folded) > 0', p_side.folded), guesses, wide_span);
        END IF;
    END IF;
    found := ARRAY(SELECT DISTINCT place FROM unnest(found) AS place);
    -- If enough lines were found, do not guess; a query with more words needs fewer lines.
    IF cardinality(found) < least(p_limit,
            CASE WHEN p_side.pairs IS NOT NULL OR p_side.folded LIKE '% % %' THEN 1
                 WHEN p_side.folded LIKE '% %' THEN 3 ELSE 5 END)
        AND length(p_side.folded) BETWEEN 3 AND 100 THEN
        parts := search_typed_words(regexp_replace(p_side.literal, '[^[:alnum:]]+', ' ', 'g'));
        FOR alternative IN SELECT search_joined_keys(parts, search_rarest_first(parts, common, shares))
        LOOP
            guessed := guessed || search_newest(p_base, search_every_key(alternative), NULL, guesses, wide_span);
        END LOOP;
        IF cardinality(guessed) < p_limit THEN
            near_words := search_expand(p_side.folded);
        END IF;
        IF near_words IS NOT NULL THEN
            guessed := guessed || search_newest(
                p_base, search_every_word(near_words, p_terms.excluded_lookup, common, shares), NULL, enough, wide_span);
        END IF;
    END IF;
    RETURN found || guessed;
END
$$;
COMMENT ON FUNCTION cortana.search_side_candidates IS
    'Returns the places of rows that may be results for one side of a query, p_limit or more from each way of searching. '
    'p_base are the conditions for every result. p_is_anywhere: the lines are those of few videos, which may be anywhere.';

CREATE FUNCTION cortana.search_candidates(p_query text, p_video uuid, p_limit int) RETURNS SETOF tid
LANGUAGE plpgsql STABLE SECURITY DEFINER
SET plan_cache_mode = force_generic_plan
SET jit = off AS $$
DECLARE
    terms search_terms := search_parse(p_query);
    sees_all boolean := search_sees_all();
    teams uuid[] := current_team_ids();
    owner_rule text := CASE WHEN sees_all THEN 'true' ELSE
        format('(owner_id = %L OR team_id = ANY (%L))', auth.uid(), coalesce(teams, '{}')) END;
    base search_condition[];
    is_anywhere boolean := p_video IS NOT NULL OR terms.video IS NOT NULL;
    side search_side;
    found tid[] := '{}';
    source record;
BEGIN
    base := ARRAY(SELECT c FROM search_field_filters(terms) AS c);
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
        is_anywhere := is_anywhere OR source.is_narrow;
    END IF;
    FOREACH side IN ARRAY coalesce(terms.sides, ARRAY[NULL::search_side]) LOOP
        found := found || search_side_candidates(side, terms, base, is_anywhere, p_limit);
    END LOOP;
    RETURN QUERY SELECT unnest(found);
END
$$;
COMMENT ON FUNCTION cortana.search_candidates IS
    'Returns the places of rows that may be results, p_limit or more from each way of searching. Below a policy '
    'of row-level security no text operator can use an index, because none is leakproof. This function therefore '
    'bypasses the policy and applies the same rule itself, and search_segments() reads each row again under the '
    'policy.';

-- ---- results ------------------------------------------------------------------------------------

CREATE FUNCTION cortana.search_snippet(p_text text, p_terms search_terms, p_start text, p_stop text)
RETURNS text
LANGUAGE plpgsql STABLE PARALLEL SAFE AS $$
DECLARE
    shown CONSTANT int := 1000;    -- characters
    before CONSTANT int := 200;    -- of them before the first mark
    first_mark CONSTANT int := CASE WHEN length(p_text) > shown THEN coalesce(regexp_instr(p_text, p_terms.marks, 1, 1, 0, 'i'), 0) ELSE 0 END;
    line text COLLATE "und-x-icu" := regexp_replace(
        CASE WHEN first_mark > before THEN '… ' ELSE '' END || substr(p_text, greatest(first_mark - before, 1), shown), '[\x01-\x1f]', ' ', 'g');
    literal text := CASE WHEN cardinality(p_terms.sides) = 1 THEN p_terms.sides[1].literal END;
    at int := position(literal IN lower(line));
    marked text;    -- between characters that no caller's marks have
BEGIN
    IF p_terms.sides IS NULL THEN
        RETURN line;    -- the query has no words, but a tag or a video
    END IF;
    IF at > 0 AND length(lower(line)) = length(line) THEN
        RETURN overlay(line PLACING p_start || substr(line, at, length(literal)) || p_stop FROM at FOR length(literal));
    END IF;
    marked := regexp_replace(line, '(' || p_terms.marks || ')', E'\x1c\\1\x1d', 'gi');
    IF marked IS NULL OR position(E'\x1c' IN marked) = 0 THEN
        SELECT string_agg(CASE WHEN piece ~ '\S' AND EXISTS (
                   SELECT FROM unnest(p_terms.sides) AS side, string_to_table(side.folded, ' ') AS word
                   WHERE word_similarity(word, pieces.folded) >= 0.42 OR position(word IN pieces.folded) > 0)
               THEN E'\x1c' || piece || E'\x1d' ELSE piece END, '' ORDER BY number)
        INTO marked
        FROM (SELECT m[1] AS piece, search_fold(normal_form(m[1])) AS folded, number
              FROM regexp_matches(line, '(\s+|\S+)', 'g') WITH ORDINALITY AS r (m, number) OFFSET 0) AS pieces;
    END IF;
    RETURN replace(replace(coalesce(marked, line), E'\x1c', p_start), E'\x1d', p_stop);
END
$$;
COMMENT ON FUNCTION cortana.search_snippet IS
    'Returns a text with the marks around what matched; of a long text 1,000 characters from a little before the first mark.';

CREATE FUNCTION cortana.search_side_matches(p_side search_side, p_text text) RETURNS text
LANGUAGE plpgsql STABLE PARALLEL SAFE AS $$
DECLARE
    document tsvector := to_tsvector('simple', search_spaced(p_text));
BEGIN
    RETURN CASE WHEN position(p_side.literal IN p_text) > 0 THEN 'exact'
                WHEN document @@ p_side.words
                    OR p_text LIKE ALL (p_side.parts) AND (p_side.short_parts IS NULL OR document @@ p_side.short_parts)
                THEN 'text' END;
END
$$;
COMMENT ON FUNCTION cortana.search_side_matches IS
    'Returns how a text in its normal form has what a side asks for: exact, text, or null, not.';

CREATE FUNCTION cortana.search_paragraph_matches(p_side search_side, p_excluded tsquery, p_first text, p_continued text)
RETURNS text
LANGUAGE plpgsql STABLE PARALLEL SAFE AS $$
DECLARE
    whole text := p_first || ' ' || replace(p_continued, E'\n', ' ');
    found text := search_side_matches(p_side, whole);
    line text;
BEGIN
    IF found IS NULL THEN
        RETURN 'fuzzy';
    END IF;
    FOREACH line IN ARRAY string_to_array(p_continued, E'\n') LOOP
        IF search_side_matches(p_side, line) IS NOT NULL THEN
            RETURN NULL;
        END IF;
    END LOOP;
    RETURN CASE WHEN to_tsvector('simple', search_spaced(whole)) @@ p_excluded THEN NULL ELSE found || ', of lines' END;
END
$$;
COMMENT ON FUNCTION cortana.search_paragraph_matches IS
    'Returns how the lines of a paragraph together have what a side asks for and its first line alone has not: "exact, of '
    'lines" or "text, of lines"; fuzzy: they have not. Null: one of its other lines has it alone and is the result, or the paragraph has what is excluded.';

CREATE FUNCTION cortana.search_has_subject(p_terms search_terms) RETURNS boolean
LANGUAGE sql IMMUTABLE PARALLEL SAFE
RETURN num_nonnulls(p_terms.sides, p_terms.tags, p_terms.labels, p_terms.sources, p_terms.at_first, p_terms.alike,
                   p_terms.own_fields) > 0;
COMMENT ON FUNCTION cortana.search_has_subject IS 'Whether a query says what to find, and not only where.';

CREATE FUNCTION cortana.search_rate(terms search_terms, candidates tid[], wanted int, start_mark text, stop_mark text)
RETURNS TABLE (segment_id uuid, video_id uuid, text text, snippet text, t_start int, t_end int,
               bounding_box jsonb, confidence real, language text, rank real, match_kind text, continued_by uuid[], sources text[])
LANGUAGE plpgsql STABLE
SET plan_cache_mode = force_generic_plan
SET jit = off AS $$
DECLARE
    said_again_ms constant int := 2000;             -- speech follows its words on screen, or leads them, by so much
    said_again_similarity constant real := 0.8;     -- a misread letter in a word or two
BEGIN
    RETURN QUERY
    WITH rated AS (
        SELECT m.segment_id, m.video_id, m.text, m.normalized_text, m.folded, m.document, m.t_start, m.t_end, m.bounding_box,
               m.confidence, m.language, m.continued, m.continued_by, m.line_source, s.literal, s.words, s.folded AS wanted_folded,
               CASE WHEN position(s.literal IN m.normalized_text) > 0 THEN 'exact'
                    WHEN m.document @@ s.words
                        OR s.words IS NULL AND s.folded IS NULL
                           AND (s.sign IS NULL OR s.sign = ANY (SELECT left(tag, 1) FROM unnest(m.tags) AS tag))
                        OR m.normalized_text LIKE ALL (s.parts)
                           AND (s.short_parts IS NULL OR m.document @@ s.short_parts) THEN 'text'
                    WHEN m.continued IS NOT NULL AND (s.parts IS NOT NULL OR s.neighbours IS NOT NULL)
                    THEN search_paragraph_matches(s, terms.excluded, m.normalized_text, m.continued)
                    ELSE 'fuzzy' END AS kind
        FROM search_materialized m, unnest(coalesce(terms.sides, ARRAY[NULL::search_side])) AS s
        WHERE m.ctid = ANY (candidates)     -- Tid Scan
    ), scored AS (
        SELECT r.*,
               (CASE r.kind
                    WHEN 'exact' THEN 2 + (' ' || r.normalized_text || ' ' LIKE
                            '%' || ' ' || regexp_replace(r.literal, '([\\%_])', '\\\1', 'g') || ' %')::int
                        + length(r.literal)::real / greatest(length(r.normalized_text), 1)
                    WHEN 'text' THEN 1 + coalesce(least(ts_rank(r.document, r.words, 1), 0.99), 0)
                    WHEN 'exact, of lines'
                    THEN 2 + length(r.literal)::real / (length(r.normalized_text) + length(r.continued))
                    WHEN 'text, of lines' THEN 1
                    WHEN 'fuzzy'
                    THEN CASE WHEN position(r.wanted_folded IN r.folded) > 0 THEN 0.9
                              WHEN position(replace(r.wanted_folded, ' ', '')
                                            IN replace(r.folded, ' ', '')) > 0 THEN 0.8
                              ELSE 0 END
                        -- of several sides, most do not match a line, and comparing takes longer than all else
                        + CASE WHEN cardinality(terms.sides) > 1 THEN 0
                               ELSE 0.09 * word_similarity(r.wanted_folded, r.folded) END
                    ELSE -1     -- no result
                END)::real AS score
        FROM rated r
        ORDER BY score DESC, r.confidence DESC, r.video_id, r.t_start, r.segment_id
        LIMIT wanted * coalesce(cardinality(terms.sides), 1)
    ), ranked AS (
        SELECT DISTINCT ON (r.segment_id) r.* FROM scored r WHERE r.score >= 0 ORDER BY r.segment_id, r.score DESC
    ), echoes AS (
        SELECT f.segment_id AS heard, e.segment_id, e.line_source
        FROM ranked e JOIN ranked f USING (video_id)
        WHERE e.line_source <> 'screen'
          AND array_position(line_sources(), f.line_source) < array_position(line_sources(), e.line_source)
          AND e.t_start <= f.t_end + said_again_ms AND f.t_start <= e.t_end + said_again_ms
          AND 3 * least(length(e.folded), length(f.folded)) >= greatest(length(e.folded), length(f.folded))
          AND greatest(word_similarity(e.folded, f.folded), word_similarity(f.folded, e.folded)) >= said_again_similarity
    ), shown AS (
        SELECT r.*, p.*
        FROM (SELECT * FROM ranked AS f WHERE f.segment_id NOT IN (SELECT e.segment_id FROM echoes e) ORDER BY f.score DESC, f.confidence DESC, f.video_id, f.t_start, f.segment_id
              LIMIT wanted) AS r
        CROSS JOIN LATERAL (
            SELECT r.text || string_agg(' ' || c.text, '' ORDER BY array_position(r.continued_by, c.segment_id)) AS whole,
                   max(c.t_start) AS last_start, max(c.t_end) AS last_end
            FROM search_materialized c
            WHERE r.kind LIKE '%, of lines' AND c.segment_id = ANY (r.continued_by)) AS p
    )
    SELECT r.segment_id, r.video_id, coalesce(r.whole, r.text),
           CASE WHEN start_mark IS NOT NULL THEN search_snippet(coalesce(r.whole, r.text), terms, start_mark, stop_mark) END,
           r.t_start, greatest(r.t_end, r.last_end),
           CASE WHEN r.whole IS NULL THEN r.bounding_box
                ELSE box_around(r.segment_id || r.continued_by, greatest(r.t_start, r.last_start)) END,
           r.confidence, r.language, r.score,
           split_part(r.kind, ',', 1), CASE WHEN r.whole IS NOT NULL THEN r.continued_by END,
           ARRAY(SELECT s FROM unnest(line_sources()) AS s
                 WHERE s = r.line_source OR s IN (SELECT e.line_source FROM echoes e WHERE e.heard = r.segment_id))
    FROM shown r
    ORDER BY r.score DESC, r.confidence DESC, r.video_id, r.t_start, r.segment_id;
END
$$;
COMMENT ON FUNCTION cortana.search_rate IS
    'Rates rows that may be results of a query, which have what its fields ask for, and returns the best of them as '
    'search_segments() does.';

CREATE FUNCTION search_segments(
    query text, video uuid DEFAULT NULL, max_results int DEFAULT 50,
    start_mark text DEFAULT '<mark>', stop_mark text DEFAULT '</mark>')
RETURNS TABLE (segment_id uuid, video_id uuid, text text, snippet text, t_start int, t_end int,
               bounding_box jsonb, confidence real, language text, rank real, match_kind text, continued_by uuid[], sources text[])
LANGUAGE plpgsql STABLE
SET plan_cache_mode = force_generic_plan
SET jit = off AS $$
DECLARE
    terms search_terms := search_parse(coalesce(query, ''));
    wanted int := least(greatest(coalesce(max_results, 50), 0), 1000);
    candidates tid[];
BEGIN
    IF NOT search_has_subject(terms) THEN
        IF coalesce(terms.languages[1], terms.kinds[1], terms.after_ms::text, terms.before_ms::text,
                    terms.after_time::text, terms.before_time::text, terms.min_confidence::text,
                    terms.owner::text, terms.team::text, terms.video::text, terms.collections[1],
                    terms.recorded_after::text, terms.line_sources[1]) IS NOT NULL THEN
            PERFORM search_refuse('lang:, in:, recorded:, after:, before:, kind:, conf:, owner:, team:, video: and source: narrow a search down: '
                                  'add a word, a tag:, a from:, a like: or an at:');
        END IF;
        RETURN;
    END IF;
    IF wanted = 0 THEN
        RETURN;
    END IF;
    candidates := ARRAY(SELECT search_candidates(query, video, wanted));
    IF terms.no_field IS NOT NULL
        AND (SELECT r.match_kind FROM search_rate(terms, candidates, 1, NULL, NULL) AS r) = 'fuzzy' IS NOT false THEN
        PERFORM search_refuse_field(terms.no_field);
    END IF;
    RETURN QUERY SELECT r.* FROM search_rate(terms, candidates, wanted, start_mark, stop_mark) AS r;
END
$$;
COMMENT ON FUNCTION search_segments IS
    'Searches the text on screen, and what was said. A query consists of words, "phrases", -exclusions, OR, prefix* and the fields '
    'from:, lang:, tag:, field:, recorded:, at:, after:, before:, kind:, conf:, owner:, team:, video:, like: and source:. Exact hits come first, then lines with the words, then lines that OCR or '
    'a typing error may have changed. At most 200 characters of a query are read, and at most 1000 results are '
    'returned. A message that wraps on screen is one result if several of its lines have the words together: its first line, '
    'with the text of all lines, continued_by the others. A line that '
    'is both on screen and said within two seconds, in nearly the same words, is one result, whose sources are both. start_mark null: no snippets are made; for many lines, making snippets costs more than finding the '
    'lines.';

-- ---- who may call what --------------------------------------------------------------------------

SELECT secure_objects();
GRANT EXECUTE ON FUNCTION cortana.search_fold, cortana.search_grams, cortana.search_phrase,
    cortana.search_word_list, cortana.search_key, cortana.search_pair_keys, cortana.search_refuse, cortana.search_position,
    cortana.search_date, cortana.search_clock, cortana.search_add_field, cortana.search_uuid, cortana.search_is_language,
    cortana.search_spaced, cortana.search_typed_words, cortana.search_has_subject, cortana.search_pattern, cortana.search_add_beginning,
    cortana.search_add_parts, cortana.search_is_beginning, cortana.search_read_side, cortana.search_read_sides,
    cortana.search_parse, cortana.search_candidates, cortana.search_marks, cortana.search_side_matches,
    cortana.search_paragraph_matches, cortana.search_snippet, cortana.search_rate, cortana.search_own_videos,
    cortana.search_fields, cortana.search_refuse_field, cortana.search_videos_condition, search_segments TO authenticated;
