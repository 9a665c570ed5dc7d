-- The pipeline, clips, long videos, and reading videos again.

INSERT INTO workflows (name, version, description, steps) VALUES
    ('video_pipeline', 1, 'an original to text and search, and at the same time to playback', '[
        {"key": "transcode", "job_type": "transcode",
         "params": {"s3_original_path": "{{video.s3_original_path}}"}},
        {"key": "sample", "job_type": "sample", "defaults": {"part_seconds": 600},
         "params": {"s3_original_path": "{{video.s3_original_path}}"}},
        {"key": "ocr", "job_type": "ocr", "depends_on": ["sample"]},
        {"key": "segment_index", "job_type": "segment_index", "depends_on": ["ocr"]}]'),
    ('video_text', 1, 'an original to text and search, without playback', '[
        {"key": "sample", "job_type": "sample", "defaults": {"part_seconds": 600},
         "params": {"s3_original_path": "{{video.s3_original_path}}"}},
        {"key": "ocr", "job_type": "ocr", "depends_on": ["sample"]},
        {"key": "segment_index", "job_type": "segment_index", "depends_on": ["ocr"]}]');
INSERT INTO workflows (name, version, description, steps) VALUES
    ('video_playback', 1, 'an original to playback, for a video whose text is there', '[
        {"key": "transcode", "job_type": "transcode",
         "params": {"s3_original_path": "{{video.s3_original_path}}"}}]'),
    ('reindex', 1, 'the kept pictures of lines to text and search, once more', '[
        {"key": "ocr", "job_type": "ocr"},
        {"key": "segment_index", "job_type": "segment_index", "depends_on": ["ocr"]}]');

-- ---- what jobs mean for their videos ---------------------------------------------------------------------
-- The queue does not know about videos. A trigger on jobs makes the video of a job processing; when stages have ended,
-- the queue calls stages_ended(), and settle_video() says what their videos are now.

CREATE FUNCTION cortana.adds_to_ready(p_run_id uuid) RETURNS boolean
LANGUAGE sql STABLE
SET search_path = pg_catalog, public, cortana, extensions, pg_temp
RETURN EXISTS (SELECT FROM runs WHERE id = p_run_id AND workflow IN ('reindex', 'video_playback'));
COMMENT ON FUNCTION cortana.adds_to_ready IS
    'Whether a run works on a video that is ready and stays so, whatever becomes of the run: it reads kept lines again, '
    'or adds playback.';

CREATE FUNCTION cortana.settle_video(p_video_id uuid) RETURNS void
LANGUAGE plpgsql AS $$
DECLARE
    last_run uuid;
    is_broken boolean;
BEGIN
    -- Stages that end at the same time come one after the other, so that the last one sees what the others left.
    PERFORM FROM videos WHERE id = p_video_id FOR NO KEY UPDATE;
    IF EXISTS (SELECT FROM jobs j
               WHERE j.video_id = p_video_id AND j.exclusive
                 AND (j.status = 'processing' OR j.status = 'queued' AND j.unmet_dependencies = 0
                      OR j.status = 'failed' AND j.scheduled_for IS NOT NULL)
                 AND NOT adds_to_ready(j.run_id)) THEN
        RETURN;
    END IF;
    SELECT j.run_id INTO last_run FROM jobs j
    WHERE j.video_id = p_video_id AND j.exclusive
      AND NOT adds_to_ready(j.run_id)
    ORDER BY j.created_at DESC, j.id LIMIT 1;
    SELECT EXISTS (SELECT FROM (SELECT DISTINCT ON (j.step, j.part) j.status FROM jobs j
                                WHERE j.video_id = p_video_id AND j.exclusive
                                  AND j.run_id IS NOT DISTINCT FROM last_run
                                ORDER BY j.step, j.part, j.created_at DESC, j.id) AS newest
                   WHERE newest.status <> 'done') INTO is_broken;
    UPDATE videos SET
        status = CASE WHEN is_broken AND ready_at IS NULL THEN 'failed' ELSE 'ready' END::video_status,
        ready_at = CASE WHEN is_broken THEN ready_at ELSE clock_timestamp() END
    WHERE id = p_video_id AND status <> 'duplicate'
      AND status <> CASE WHEN is_broken AND ready_at IS NULL THEN 'failed' ELSE 'ready' END::video_status;
END
$$;
COMMENT ON FUNCTION cortana.settle_video IS
    'The rule for videos.status once no stage of a video can go on: ready if all stages of its last run (without '
    'runs: the newest job of each stage) are done, otherwise failed, or ready if it was ready before. While a stage '
    'waits, runs, or will be tried again, nothing changes. Runs that only read kept lines again, or only add playback, '
    'do not count: the video keeps what it has until the new is there.';

CREATE FUNCTION cortana.stages_ended(p_job_ids uuid[]) RETURNS void
LANGUAGE sql AS $$
    SELECT settle_video(video_id)
    FROM (SELECT DISTINCT video_id FROM jobs WHERE id = ANY (p_job_ids) ORDER BY video_id) AS touched
$$;
COMMENT ON FUNCTION cortana.stages_ended IS
    'Called when jobs of stages were done, canceled or given up, after the jobs that waited for them were released.';

CREATE FUNCTION cortana.video_follows_job() RETURNS trigger
LANGUAGE plpgsql SECURITY DEFINER AS $$
BEGIN
    IF NEW.status = 'done' AND NEW.job_type = 'clip_generate' THEN
        PERFORM record_event('clip.created', jsonb_strip_nulls(jsonb_build_object(
                               'clip_id', NEW.payload -> 'clip_id', 'clip_path', NEW.result -> 'clip_path',
                               't_start', NEW.payload -> 't_start', 't_end', NEW.payload -> 't_end')),
                           NEW.tenant_id, NEW.video_id, NEW.id, NEW.run_id, NEW.correlation_id);
    END IF;
    IF NEW.status = 'processing' AND NEW.exclusive
       AND NOT adds_to_ready(NEW.run_id) THEN
        UPDATE videos SET status = 'processing'
        WHERE id = NEW.video_id AND status NOT IN ('processing', 'duplicate');
    ELSIF NEW.exclusive AND NEW.status = 'queued' THEN
        UPDATE videos SET status = 'processing' WHERE id = NEW.video_id AND status = 'failed';
    END IF;
    RETURN NULL;
END
$$;
COMMENT ON FUNCTION cortana.video_follows_job IS
    'Trigger: makes a video processing when a stage begins to work on it (settle_video() says what becomes of it), '
    'a failed one already when one of its jobs is retried, and emits the event clip.created.';
CREATE TRIGGER video_follows_job AFTER UPDATE OF status ON jobs
    FOR EACH ROW WHEN (NEW.video_id IS NOT NULL AND NEW.status <> OLD.status
                       AND (NEW.status IN ('processing', 'done')
                            OR NEW.status = 'queued' AND OLD.status IN ('failed', 'canceled')))
    EXECUTE FUNCTION video_follows_job();

-- ---- redaction ----------------------------------------------------------------------------------
-- What a clip is not to show, as boxes that follow the lines. All of it is computed when the clip is requested, from what
-- the caller may read, and becomes part of the job's payload: the stage has no database, and a clip whose text was read
-- anew is another clip.

CREATE FUNCTION cortana.redaction_kinds() RETURNS TABLE (name text, entity_type text, pattern text)
LANGUAGE sql STABLE PARALLEL SAFE AS $$
    SELECT n.name, t.name, t.redaction_pattern
    FROM entity_types t CROSS JOIN unnest(CASE t.name WHEN 'mention' THEN ARRAY['mention', 'handle'] ELSE ARRAY[t.name] END) AS n (name)
    UNION ALL VALUES
    ('mail', NULL, '[\w.%+-]+[@©®][\w.-]*\w( ?\.[\w-]+)*|[\w.%+-]+ ?[@©®] ?[\w-]+([.,] ?[\w-]+)*\.[[:alpha:]]{2,}\y'
                   || '|[\w.%+-]+ ?[[({]at[])}] ?[\w.-]+'),
    ('phone', 'number', '(\+ ?\d|\(?\y0\d)([ ()./–-]{0,3}[\dOIl]){6,13}|\(?\y\d{3}\)?[ .-]{1,2}\d{3}[ .-]\d{4}\y'),
    ('card', NULL, '\y[\dOIl]{4}([ -]?[\dOIl]{4}){2}[ -]?[\dOIl]{1,7}\y|\y3[47]\d{2}[ -]?\d{6}[ -]?\d{5}\y')
$$;
COMMENT ON FUNCTION cortana.redaction_kinds IS
    'What can be covered by its kind: each kind of entity, as the index has found it and by its redaction_pattern; and what is '
    'no kind of its own there.';

CREATE FUNCTION cortana.redaction_letters(p_text text) RETURNS text
LANGUAGE sql IMMUTABLE PARALLEL SAFE
RETURN regexp_replace(search_fold(normal_form(p_text)), '[^[:alnum:]]+', '', 'g');
COMMENT ON FUNCTION cortana.redaction_letters IS 'The letters and digits of a text, with those that OCR confuses made equal.';

CREATE FUNCTION cortana.redaction_rules(p_redact jsonb) RETURNS TABLE (name text, entity_type text, pattern text, letters text)
LANGUAGE plpgsql STABLE AS $$
DECLARE
    item text;
    is_refused boolean := false;
BEGIN
    FOR item IN SELECT DISTINCT btrim(value) FROM jsonb_array_elements_text(p_redact) AS value LOOP
        SELECT k.name, k.entity_type, k.pattern INTO name, entity_type, pattern FROM redaction_kinds() AS k
        WHERE k.name = lower(item);
        letters := NULL;
        IF name IS NULL AND item ~ '^/.+/$' THEN
            name := 'expression';
            pattern := substr(item, 2, length(item) - 2);
            BEGIN
                -- Without back references PostgreSQL decides by an automaton, whose time grows with the text alone.
                is_refused := pattern ~ '\\[1-9]' OR '' ~ pattern;
            EXCEPTION WHEN invalid_regular_expression THEN
                is_refused := true;
            END;
        ELSIF name IS NULL THEN
            name := 'words';
            letters := redaction_letters(btrim(item, '"'));
            IF letters = '' THEN
                RAISE EXCEPTION 'the words "%" to redact have no letter and no digit', item
                    USING ERRCODE = 'invalid_parameter_value', COLUMN = 'redact';
            END IF;
        END IF;
        IF is_refused THEN
            RAISE EXCEPTION 'the expression % to redact is not valid, has a back reference, or matches the empty text', item
                USING ERRCODE = 'invalid_parameter_value', COLUMN = 'redact';
        END IF;
        RETURN NEXT;
    END LOOP;
END
$$;
COMMENT ON FUNCTION cortana.redaction_rules IS
    'What to look for: kinds by their names, /regular expressions/ of PostgreSQL, and all else as words. Letters are those '
    'of the words.';

CREATE FUNCTION cortana.redaction_parts(p_letters text) RETURNS text[]
LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$
    SELECT array_agg('%' || substr(p_letters, 1 + n * (length(p_letters) / (edits + 1)), length(p_letters) / (edits + 1)) || '%')
    FROM (SELECT CASE WHEN length(p_letters) < 5 THEN 0 ELSE least((length(p_letters) + 3) / 8, 4) END) AS e (edits), generate_series(0, edits) AS n
$$;
COMMENT ON FUNCTION cortana.redaction_parts IS
    'Parts of a text, as patterns of LIKE: one more than letters of it may be misread where it is found. So one of them was read well.';

-- A span is a range of the words of a text, which blanks separate.
CREATE FUNCTION cortana.redaction_spans(p_text text, p_pattern text, p_letters text, p_parts text[])
RETURNS TABLE (first int, last int, is_sure boolean)
LANGUAGE plpgsql IMMUTABLE AS $$
DECLARE
    words CONSTANT text[] := string_to_array(p_text, ' ');
    size CONSTANT int := cardinality(words);
    edits_max CONSTANT int := cardinality(p_parts) - 1;   -- null: nothing may be misread
    line text COLLATE "und-x-icu" := p_text;
    folded text[];
    joined text;
    starts int[] := '{}';
    at int;
    till int;
BEGIN
    is_sure := true;
    FOR n IN 1 .. CASE WHEN p_pattern IS NULL THEN 0 ELSE regexp_count(line, p_pattern, 1, 'i') END LOOP
        at := regexp_instr(line, p_pattern, 1, n, 0, 'i');
        till := regexp_instr(line, p_pattern, 1, n, 1, 'i') - 1;
        CONTINUE WHEN till < at;
        first := cardinality(string_to_array(left(p_text, at), ' '));
        last := cardinality(string_to_array(left(p_text, till), ' '));
        RETURN NEXT;
    END LOOP;
    IF p_letters IS NULL OR p_letters = '' THEN
        RETURN;
    END IF;
    joined := redaction_letters(p_text);
    IF position(p_letters IN joined) = 0 AND (edits_max > 0 AND joined LIKE ANY (p_parts)) IS NOT TRUE THEN
        RETURN;
    END IF;
    folded := ARRAY(SELECT redaction_letters(word) FROM unnest(words) WITH ORDINALITY AS w (word, number) ORDER BY number);
    FOR n IN 1 .. size LOOP
        starts[n] := coalesce(starts[n - 1] + length(folded[n - 1]), 1);
    END LOOP;
    at := 1;
    WHILE position(p_letters IN substr(joined, at)) > 0 LOOP
        at := at + position(p_letters IN substr(joined, at)) - 1;
        till := at + length(p_letters) - 1;
        SELECT min(n), max(n) INTO first, last FROM generate_series(1, size) AS n
        WHERE starts[n] <= till AND starts[n] + length(folded[n]) > at;
        IF length(p_letters) > 3 OR starts[first] = at AND starts[last] + length(folded[last]) = till + 1 THEN
            RETURN NEXT;
        END IF;
        at := at + 1;
    END LOOP;
    IF (edits_max > 0) IS NOT TRUE OR first IS NOT NULL OR octet_length(joined) > 255 OR octet_length(p_letters) > 255 THEN
        RETURN;
    END IF;
    is_sure := false;   -- what was misread
    FOR n IN 1 .. size LOOP
        FOR m IN n .. size LOOP
            till := starts[m] + length(folded[m]) - starts[n];
            EXIT WHEN till > length(p_letters) + edits_max;
            IF till >= length(p_letters) - edits_max
               AND levenshtein_less_equal(substr(joined, starts[n], till), p_letters, edits_max) <= edits_max THEN
                first := n;
                last := m;
                RETURN NEXT;
            END IF;
        END LOOP;
    END LOOP;
END
$$;
COMMENT ON FUNCTION cortana.redaction_spans IS
    'The words of a text in which a pattern or the letters of words are found; not sure: with some of them misread, which '
    'redaction_parts() of them allow.';

CREATE FUNCTION cortana.track_points(p_track int[]) RETURNS TABLE (t int, x int, y int)
LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$
    SELECT (sum(p_track[n]) OVER w)::int, (sum(p_track[n + 1]) OVER w)::int, (sum(p_track[n + 2]) OVER w)::int
    FROM generate_series(1, cardinality(p_track), 3) AS n WINDOW w AS (ORDER BY n)
$$;
COMMENT ON FUNCTION cortana.track_points IS 'The points of segments.track with their own times and places.';

CREATE FUNCTION cortana.track_at(p_track int[], p_t int) RETURNS int[]
LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE AS $$
DECLARE
    t int := p_track[1];
    x int := p_track[2];
    y int := p_track[3];
    share float;
BEGIN
    FOR n IN 4 .. cardinality(p_track) BY 3 LOOP
        EXIT WHEN p_t <= t;
        share := least((p_t - t)::float / greatest(p_track[n], 1), 1);
        t := t + p_track[n];
        x := x + (share * p_track[n + 1])::int;
        y := y + (share * p_track[n + 2])::int;
    END LOOP;
    RETURN ARRAY[x, y];
END
$$;
COMMENT ON FUNCTION cortana.track_at IS 'Where a track is at a time: {x, y}.';

CREATE FUNCTION cortana.redaction_masked(p_text text, p_first int, p_last int) RETURNS text
LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$
    SELECT string_agg(CASE WHEN number BETWEEN p_first AND p_last THEN repeat('■', length(word)) ELSE word END, ' ' ORDER BY number)
    FROM string_to_table(btrim(regexp_replace(p_text, '\s+', ' ', 'g')), ' ') WITH ORDINALITY AS w (word, number)
$$;
COMMENT ON FUNCTION cortana.redaction_masked IS 'A text with ■ in place of each character of the words from p_first to p_last.';

CREATE FUNCTION cortana.redacted_text(p_text text, p_redact jsonb) RETURNS text
LANGUAGE sql STABLE STRICT AS $$
    SELECT string_agg(CASE WHEN spans @> number::int THEN repeat('■', length(word)) ELSE word END, ' ' ORDER BY number)
    FROM string_to_table(p_text, ' ') WITH ORDINALITY AS w (word, number),
         (SELECT coalesce(range_agg(int4range(s.first, s.last, '[]')), '{}') AS spans
          FROM redaction_rules(p_redact) AS r
               CROSS JOIN LATERAL redaction_spans(p_text, r.pattern, r.letters, redaction_parts(r.letters)) AS s) AS found
$$;
COMMENT ON FUNCTION cortana.redacted_text IS 'A text with ■ in place of each character of the words in which something to redact is found.';

-- A line that an edge of its pane cuts is no longer "completely visible", but part of it can be read. It went the way of the
-- lines beside it.
CREATE FUNCTION cortana.redaction_way(p_track int[], p_t_start int, p_t_end int, p_height int, p_edge int, p_others jsonb[])
RETURNS int[]
LANGUAGE plpgsql IMMUTABLE AS $$
DECLARE
    look CONSTANT int := 500;      -- ms in which a line and the one beside it must have moved alike
    longest CONSTANT int := 15000; -- ms
    far CONSTANT int := p_height * 5 / 4 + 8;   -- pixels until nothing of it is left
    way int[] := p_track;
    ends int[] := ARRAY[p_t_start - p_edge, p_t_end + p_edge];
    ended int;
    side int;
    best int[];
    best_moved int;
    moved int;
    other jsonb;
    track int[];
    at int[];
    before int[];
    place int[];
    point record;
    points int[];
    here int[];
    passed int[];
BEGIN
    FOREACH side IN ARRAY ARRAY[1, -1] LOOP   -- the end, the beginning
        SELECT CASE side WHEN 1 THEN greatest(p_t_end, max(t)) ELSE least(p_t_start, min(t)) END INTO ended FROM track_points(p_track);
        place := track_at(p_track, ended);
        best := NULL;
        best_moved := 2;   -- pixels: less is noise
        FOREACH other IN ARRAY p_others LOOP
            track := ARRAY(SELECT value::int FROM jsonb_array_elements_text(other) WITH ORDINALITY AS v (value, n) WHERE n > 2 ORDER BY n);
            CONTINUE WHEN NOT ((other ->> 0)::int < ended AND (other ->> 1)::int > ended);
            at := track_at(track, ended);
            before := track_at(track, ended - side * look);
            here := track_at(p_track, ended - side * look);
            CONTINUE WHEN abs(before[1] - at[1] - here[1] + place[1]) + abs(before[2] - at[2] - here[2] + place[2]) > 12
                 AND ended - side * look BETWEEN greatest(p_t_start, (other ->> 0)::int) AND least(p_t_end, (other ->> 1)::int);
            passed := track_at(track, ended + side * look);
            moved := abs(passed[1] - at[1]) + abs(passed[2] - at[2]);
            IF moved > best_moved THEN
                best := ARRAY[(other ->> 0)::int, (other ->> 1)::int] || track;
                best_moved := moved;
            END IF;
        END LOOP;
        CONTINUE WHEN best IS NULL;
        at := track_at(best[3:], ended);
        points := '{}';
        FOR point IN SELECT t, x - at[1] + place[1] AS x, y - at[2] + place[2] AS y FROM track_points(best[3:])
                     WHERE side * (t - ended) BETWEEN 1 AND longest ORDER BY side * t LOOP
            points := points || ARRAY[point.t, point.x, point.y];
            EXIT WHEN greatest(abs(point.x - place[1]), abs(point.y - place[2])) > far;
        END LOOP;
        CONTINUE WHEN points = '{}';
        IF side = 1 THEN
            ends[2] := points[cardinality(points) - 2] + p_edge / 4;
            here := ended || place;
            way := way || (SELECT ARRAY[ended - max(t), 0, 0] FROM track_points(way));
            FOR n IN 1 .. cardinality(points) BY 3 LOOP
                way := way || ARRAY[points[n] - here[1], points[n + 1] - here[2], points[n + 2] - here[3]];
                here := points[n : n + 2];
            END LOOP;
        ELSE
            ends[1] := points[cardinality(points) - 2] - p_edge / 4;
            way := ended || place || ARRAY[way[1] - ended, 0, 0] || way[4:];
            FOR n IN 1 .. cardinality(points) BY 3 LOOP
                way := points[n : n + 2] || ARRAY[way[1] - points[n], way[2] - points[n + 1], way[3] - points[n + 2]] || way[4:];
            END LOOP;
        END IF;
    END LOOP;
    RETURN ends || way;
END
$$;
COMMENT ON FUNCTION cortana.redaction_way IS
    'When a line has to be covered, and its track, which goes on beyond its times as the lines beside it (p_others: {t_start, '
    't_end} and track) until the line was out of sight: {from, to, t, x, y, dt, dx, dy, …}.';

CREATE FUNCTION cortana.plan_redaction(p_video_id uuid, p_from int, p_to int, p_redact jsonb) RETURNS jsonb
LANGUAGE plpgsql STABLE STRICT
SET jit = off AS $$
DECLARE
    -- How much earlier and later than it was seen a line is covered, where it did not come or go with its surroundings:
    -- it fades, and the reading counts it from half of its strength.
    edge CONSTANT int := 400;       -- ms
    near_ms CONSTANT int := 1000;   -- between two readings of one place
    result jsonb;
BEGIN
    IF (SELECT status FROM videos WHERE id = p_video_id) IS DISTINCT FROM 'ready' THEN
        RAISE EXCEPTION 'the text of this video has not been read completely; request a redacted clip when the video is ready'
            USING ERRCODE = 'object_not_in_prerequisite_state';
    END IF;
    WITH rules AS MATERIALIZED (
        SELECT *, redaction_parts(letters) AS parts FROM redaction_rules(p_redact)
    ), lines AS MATERIALIZED (
        SELECT s.id, b.text, redaction_letters(b.text) AS letters, s.confidence, s.t_start, s.t_end, s.paragraph, coalesce(s.paragraph_line, 0) AS paragraph_line, s.text AS read,
               s.crop_pack, s.crop_offset, s.crop_bytes,
               b.x, b.y, b.width, b.height, cardinality(string_to_array(b.text, ' ')) AS size,
               CASE WHEN cardinality(s.words) = 2 * cardinality(string_to_array(b.text, ' ')) THEN s.words END AS words,
               coalesce(s.track, ARRAY[s.t_start, b.x, b.y] || CASE WHEN s.end_box IS NOT NULL THEN
                   ARRAY[s.t_end - s.t_start, (s.end_box ->> 'x')::int - b.x, (s.end_box ->> 'y')::int - b.y] ELSE '{}' END) AS track
        FROM segments s, LATERAL (SELECT btrim(regexp_replace(s.text, '\s+', ' ', 'g')) AS text, (s.bounding_box ->> 'x')::int AS x,
             (s.bounding_box ->> 'y')::int AS y, (s.bounding_box ->> 'width')::int AS width,
             (s.bounding_box ->> 'height')::int AS height OFFSET 0) AS b
        WHERE s.video_id = p_video_id AND s.t_start <= p_to + 2 * near_ms AND s.t_end >= p_from - 2 * near_ms
          AND s.bounding_box IS NOT NULL
    ), own AS MATERIALIZED (
        SELECT l.id, r.name, f.first, f.last, f.is_sure
        FROM lines l CROSS JOIN rules r CROSS JOIN LATERAL redaction_spans(l.text, r.pattern, r.letters, r.parts) AS f
        UNION ALL
        SELECT l.id, r.name, f.first, f.last, true
        FROM rules r JOIN entities e USING (entity_type) JOIN lines l ON l.id = e.segment_id
             CROSS JOIN LATERAL redaction_letters(e.value) AS of_value   -- an emoji has none
             CROSS JOIN LATERAL redaction_spans(l.text, CASE of_value WHEN '' THEN '***=' || e.value END, of_value, NULL) AS f
        WHERE f.is_sure AND (r.name <> 'phone' OR e.normalized_value ~ '^\+?\d{7,15}$')
    ), pairs AS MATERIALIZED (   -- a line and the one that continues it below
        SELECT a.id AS a, b.id AS b, a.size, a.text AS a_text, b.text AS b_text
        FROM lines a JOIN lines b ON a.id <> b.id AND a.t_start < b.t_end AND b.t_start < a.t_end
             AND b.height BETWEEN a.height / 2 AND a.height * 2
             CROSS JOIN LATERAL (SELECT track_at(a.track, greatest(a.t_start, b.t_start)) AS a_at,
                                        track_at(b.track, greatest(a.t_start, b.t_start)) AS b_at OFFSET 0) AS at
        WHERE b_at[2] - a_at[2] BETWEEN a.height * 3 / 4 AND a.height * 5 / 2
          AND b_at[1] BETWEEN a_at[1] - 3 * a.height AND a_at[1] + a.width
    ), wrapped AS (
        SELECT p.a, p.b, p.size, r.name, f.first, f.last - glued AS last
        FROM pairs p CROSS JOIN rules r CROSS JOIN generate_series(0, 1) AS glued
             CROSS JOIN LATERAL redaction_spans(p.a_text || CASE glued WHEN 0 THEN ' ' ELSE '' END || p.b_text, r.pattern, r.letters, NULL) AS f
        WHERE f.is_sure AND f.first <= p.size AND f.last >= p.size + 1 - glued
          AND NOT (r.name = 'mail' AND p.b_text ~ '^@[^. ]*( |$)')   -- a mention begins the next line
          AND NOT EXISTS (SELECT FROM own o WHERE o.name = r.name AND (o.id = p.a AND o.last = p.size AND o.is_sure
                          AND (r.name <> 'url' OR p.b_text !~ '^\S*[/?=&%_.-]\S') OR o.id = p.b AND o.first = 1 AND o.is_sure))
    ), matched AS MATERIALIZED (
        SELECT * FROM own
        UNION ALL SELECT a, name, first, size, true FROM wrapped
        UNION ALL SELECT b, name, 1, greatest(last - size, 1), true FROM wrapped
    ), again AS MATERIALIZED (   -- what was found, misread elsewhere
        SELECT m.name, m.letters, redaction_parts(m.letters) AS parts
        FROM (SELECT DISTINCT o.name, redaction_letters(array_to_string((string_to_array(l.text, ' '))[o.first : o.last], '')) AS letters
              FROM own o JOIN lines l USING (id) WHERE o.name <> 'words') AS m
    ), found AS MATERIALIZED (
        SELECT l.id, l.track, l.t_start, l.t_end, l.width, l.height, l.read, l.size, l.words, l.confidence, l.crop_pack, l.crop_offset, l.crop_bytes, f.name, f.first, f.last, f.is_sure
        FROM (SELECT * FROM matched
              UNION ALL
              SELECT l.id, g.name, f.first, f.last, false
              FROM again g CROSS JOIN lines l CROSS JOIN LATERAL redaction_spans(l.text, NULL, g.letters, g.parts) AS f
              WHERE length(g.letters) > 5 AND NOT EXISTS (SELECT FROM matched m WHERE m.id = l.id)
                AND l.letters LIKE ANY (g.parts)) AS f JOIN lines l USING (id)
    ), near AS (   -- other readings of a covered place, and what was read badly beside it
        SELECT DISTINCT ON (u.id) u.id, u.track, u.t_start, u.t_end, u.width, u.height, u.read, u.size, u.words, u.confidence, u.crop_pack, u.crop_offset, u.crop_bytes, c.name,
               1 AS first, u.size AS last, false AS is_sure
        FROM lines u JOIN found c ON u.t_start <= c.t_end + near_ms AND u.t_end >= c.t_start - near_ms
             CROSS JOIN LATERAL (SELECT track_at(u.track, greatest(u.t_start, least(c.t_start, u.t_end))) AS u_at,
                                        track_at(c.track, greatest(c.t_start, least(u.t_start, c.t_end))) AS c_at OFFSET 0) AS at
             CROSS JOIN LATERAL (SELECT least(u_at[1] + u.width, c_at[1] + c.width) - greatest(u_at[1], c_at[1]) AS across,
                                        least(u_at[2] + u.height, c_at[2] + c.height) - greatest(u_at[2], c_at[2]) AS down) AS shared
        WHERE NOT EXISTS (SELECT FROM found f WHERE f.id = u.id)
          AND (across > 0 AND down > least(u.height, c.height) / 3
               AND (u.confidence < 0.8 OR starts_with(c.read, u.read) OR similarity(u.read, c.read) >= 0.4)
               OR u.confidence < 0.6 AND across > -c.height AND down > -c.height / 2)
        ORDER BY u.id, c.name
    ), covered AS MATERIALIZED (
        SELECT f.*, by_words, a.x_from, a.x_to, greatest(3, f.height / 7) AS margin
        FROM (SELECT * FROM found UNION ALL SELECT * FROM near) AS f
             CROSS JOIN LATERAL (SELECT f.words IS NOT NULL AND f.confidence >= 0.75 AND (f.first > 1 OR f.last < f.size) AS by_words) AS w
             CROSS JOIN LATERAL (
                 SELECT CASE WHEN by_words AND f.first > 1 THEN f.words[2 * f.first - 1] * f.width / 1000 - f.height / 4 ELSE -f.height / 2 END,
                        CASE WHEN by_words AND f.last < f.size
                             THEN (f.words[2 * f.last - 1] + f.words[2 * f.last]) * f.width / 1000 + f.height / 4
                             ELSE f.width + f.height / 2 END) AS a (x_from, x_to)
    ), ways AS MATERIALIZED (   -- of each covered line, with how it came and went
        SELECT c.id, redaction_way(c.track, c.t_start, c.t_end, c.height, edge, ARRAY(
                   SELECT to_jsonb(ARRAY[l.t_start, l.t_end] || l.track) FROM lines l
                   WHERE l.id <> c.id AND cardinality(l.track) > 3
                     AND (l.t_start < c.t_end AND l.t_end > c.t_end OR l.t_start < c.t_start AND l.t_end > c.t_start))) AS way
        FROM (SELECT DISTINCT ON (id) * FROM covered) AS c
    )
    SELECT jsonb_agg(jsonb_build_object(
               'what', c.name, 'is_certain', c.is_sure, 't_start', c.t_start, 't_end', c.t_end,
               'text', CASE WHEN by_words THEN redaction_masked(c.read, c.first, c.last) ELSE redaction_masked(c.read, 1, c.size) END,
               'from', way[1], 'to', way[2], 'width', x_to - x_from, 'height', c.height + 2 * margin,
               'pack', crop_pack, 'offset', crop_offset, 'bytes', crop_bytes, 'x', x_from, 'y', -margin,
               'track', ARRAY[way[3], way[4] + x_from, way[5] - margin] || way[6:])
               ORDER BY c.t_start, c.t_end, way, x_from, c.name, c.is_sure)
    INTO result
    FROM (SELECT DISTINCT ON (id, first, last) * FROM covered ORDER BY id, first, last, is_sure DESC, name) AS c JOIN ways USING (id)
    WHERE way[1] < p_to AND way[2] >= p_from;
    RETURN coalesce(result, '[]');
END
$$;
COMMENT ON FUNCTION cortana.plan_redaction IS
    'What a clip from p_from to p_to (ms) covers: [{what, is_certain, text, t_start, t_end, from, to, width, height, track}]. '
    'From t_start to t_end the text was seen, from "from" to "to" its box is covered, along the track (as segments.track). Raises an error if '
    'the video''s text has not been read completely.';

-- ---- clips --------------------------------------------------------------------------------------
-- A clip_id is computed from the video, the range and the options, so that the same request always leads to the same
-- object.

-- Options with their default value are left out, so that equal clips have equal options. Unknown names are refused here,
-- because the worker would ignore them.
CREATE FUNCTION cortana.clip_options(p_options jsonb) RETURNS jsonb
LANGUAGE plpgsql IMMUTABLE AS $$
DECLARE
    defaults CONSTANT jsonb := '{"mode": "smart", "format": "mp4", "mute": false}';
    given jsonb := jsonb_strip_nulls(coalesce(p_options, '{}'));
    unknown text[];
BEGIN
    IF jsonb_typeof(given) <> 'object' THEN
        RAISE EXCEPTION 'the options of a clip must be a JSON object'
            USING ERRCODE = 'invalid_parameter_value', COLUMN = 'options';
    END IF;
    unknown := ARRAY(SELECT key FROM jsonb_object_keys(given) AS key
                     WHERE key NOT IN ('mode', 'format', 'max_height', 'mute', 'crop', 'redact', 'quote') ORDER BY key);
    IF unknown <> '{}' THEN
        RAISE EXCEPTION 'unknown options of a clip: %', array_to_string(unknown, ', ')
            USING ERRCODE = 'invalid_parameter_value', COLUMN = unknown[1],
                  HINT = 'The options are mode, format, max_height, mute, crop, redact and quote.';
    END IF;
    IF jsonb_typeof(given -> 'redact') = 'array' THEN
        given := given || jsonb_build_object('redact', (SELECT jsonb_agg(DISTINCT item ORDER BY item) FROM jsonb_array_elements(given -> 'redact') AS item));
    END IF;
    given := jsonb_strip_nulls(given);
    RETURN coalesce((SELECT jsonb_object_agg(key, value) FROM jsonb_each(given)
                     WHERE value IS DISTINCT FROM defaults -> key), '{}');
END
$$;
COMMENT ON FUNCTION cortana.clip_options IS 'Returns the options of a clip without those that have their default value.';

CREATE FUNCTION cortana.check_clip(p_payload jsonb, p_duration double precision, p_resolution text) RETURNS void
LANGUAGE plpgsql STABLE SECURITY DEFINER AS $$
DECLARE
    longest CONSTANT int := CASE p_payload ->> 'format' WHEN 'gif' THEN 60000 ELSE 3600000 END;  -- ms, as in the worker
    t_start bigint;
    t_end bigint;
    fault text := json_schema_fault(payload_schema, jsonb_strip_nulls(p_payload)) FROM job_types WHERE name = 'clip_generate';
    member text := json_schema_member(fault);
BEGIN
    IF fault IS NULL THEN
        t_start := p_payload ->> 't_start';
        t_end := CASE WHEN p_payload ->> 'format' = 'jpg' THEN t_start + 1 ELSE (p_payload ->> 't_end')::bigint END;
        SELECT wrong.name, wrong.words INTO member, fault FROM (VALUES
            (t_end IS NULL, 't_end', format('it has no t_end')),
            (t_end <= t_start, 't_end', format('t_end (%s ms) must be after t_start (%s ms)', t_end, t_start)),
            (t_end - t_start > longest, 't_end',
             format('from t_start to t_end there are %s ms, more than the limit of %s ms', t_end - t_start, longest)),
            (p_duration IS NOT NULL AND t_start >= ceil(p_duration * 1000)
             AND NOT EXISTS (SELECT FROM jobs j  -- until transcode has ended, it is the length of the pictures without sound
                             WHERE j.video_id = (p_payload ->> 'video_id')::uuid AND j.job_type = 'transcode'
                               AND j.status IN ('queued', 'processing')), 't_start',
             format('t_start (%s ms) is not before the video''s end (%s ms)', t_start, floor(p_duration * 1000))),
            ((p_payload #>> '{crop,x}')::int + (p_payload #>> '{crop,width}')::int > split_part(p_resolution, 'x', 1)::int
             OR (p_payload #>> '{crop,y}')::int + (p_payload #>> '{crop,height}')::int > split_part(p_resolution, 'x', 2)::int,
             'crop', format('crop reaches over the edge of a picture of %s pixels', p_resolution)))
            AS wrong (holds, name, words)
        WHERE wrong.holds LIMIT 1;
    END IF;
    IF fault IS NOT NULL THEN
        RAISE EXCEPTION 'this clip cannot be made: %', fault
            USING ERRCODE = 'invalid_parameter_value', CONSTRAINT = 'clip_request', COLUMN = member;
    END IF;
END
$$;
COMMENT ON FUNCTION cortana.check_clip IS
    'Raises an error, with the name of the member as COLUMN, if the payload of a clip asks for what its video (length in '
    'seconds, picture as in videos.resolution; null: not known yet) does not have.';

CREATE FUNCTION cortana.jobs_check_clip() RETURNS trigger
LANGUAGE plpgsql SECURITY DEFINER AS $$
BEGIN
    PERFORM check_clip(NEW.payload, v.duration, v.resolution)
    FROM (SELECT) AS one LEFT JOIN videos v ON v.id = NEW.video_id;
    RETURN NEW;
END
$$;
COMMENT ON FUNCTION cortana.jobs_check_clip IS 'Trigger: refuses jobs of clips that cannot be made, for every role.';
-- After jobs_before_insert, which completes the payload: triggers fire in the order of their names.
CREATE TRIGGER jobs_check_clip BEFORE INSERT ON jobs
    FOR EACH ROW WHEN (NEW.job_type = 'clip_generate' AND NEW.run_id IS NULL AND NEW.status = 'queued')
    EXECUTE FUNCTION jobs_check_clip();

CREATE FUNCTION plan_clip(
    p_video_id uuid,
    p_t_start int,                           -- ms
    p_t_end int DEFAULT NULL,
    p_padding_ms int DEFAULT 2000,           -- added on both sides
    p_options jsonb DEFAULT NULL,
    OUT clip_id uuid,
    OUT clip_path text,
    OUT payload jsonb)
LANGUAGE plpgsql STABLE AS $$
DECLARE
    options CONSTANT jsonb := clip_options(p_options);
    format CONSTANT text := coalesce(options ->> 'format', 'mp4');
    covers_max CONSTANT int := payload_bytes - 65536 FROM job_types WHERE name = 'clip_generate';   -- bytes; the rest is for the request
    video videos;
    covers jsonb;
BEGIN
    SELECT * INTO video FROM videos WHERE id = p_video_id;
    IF video.s3_original_path IS NULL THEN
        RAISE EXCEPTION 'video % has no original', p_video_id USING ERRCODE = 'no_data_found';
    END IF;
    IF format = 'jpg' THEN
        p_t_end := least(p_t_start, 2147483646) + 1;
        p_padding_ms := 0;
    END IF;
    payload := jsonb_strip_nulls(jsonb_build_object(
        'video_id', p_video_id, 'clip_id', p_video_id, 't_start', p_t_start, 't_end', p_t_end,
        'padding_ms', p_padding_ms, 's3_original_path', video.s3_original_path)) || options;
    PERFORM check_clip(payload, video.duration, video.resolution);
    covers := plan_redaction(p_video_id, p_t_start - p_padding_ms, p_t_end + p_padding_ms, options -> 'redact');
    IF octet_length(covers::text) > covers_max THEN
        RAISE EXCEPTION 'the clip would cover % places, which are too many for one clip: request shorter clips', jsonb_array_length(covers)
            USING ERRCODE = 'invalid_parameter_value', COLUMN = 'redact';
    END IF;
    clip_id := md5(concat_ws('|', 'clip', p_video_id, p_t_start, p_t_end, p_padding_ms, nullif(options::text, '{}'), covers))::uuid;
    clip_path := concat('videos/clips/', p_video_id, '/', clip_id, '.', format);
    payload := payload || jsonb_strip_nulls(jsonb_build_object('clip_id', clip_id, 'covers', covers));
END
$$;
COMMENT ON FUNCTION plan_clip IS
    'Returns the id of a clip, its object key, and the payload of the job that makes it. The same request always '
    'gives the same id. A picture of one moment (format jpg) has no end and no padding. Raises an error if the clip '
    'cannot be made.';

CREATE FUNCTION cortana.enqueue_clip(p_video_id uuid, p_clip_id uuid, p_payload jsonb, p_priority int DEFAULT NULL,
                                     OUT job_id uuid, OUT is_new boolean)
LANGUAGE sql
BEGIN ATOMIC
    SELECT job.job_id, job.is_new
    FROM public.enqueue_job('clip_generate', p_payload, p_video_id, p_priority, p_dedupe_key => 'clip:' || p_clip_id) AS job;
END;
COMMENT ON FUNCTION cortana.enqueue_clip IS 'Enqueues the job of a planned clip; if it waits or runs already, that one is returned.';

CREATE FUNCTION request_clip(
    p_video_id uuid,
    p_t_start int,
    p_t_end int DEFAULT NULL,
    p_padding_ms int DEFAULT 2000,
    p_options jsonb DEFAULT NULL,
    p_priority int DEFAULT NULL,
    OUT job_id uuid,
    OUT clip_id uuid,
    OUT clip_path text,
    OUT is_new boolean)
LANGUAGE plpgsql AS $$
DECLARE
    payload jsonb;
BEGIN
    SELECT plan.clip_id, plan.clip_path, plan.payload INTO clip_id, clip_path, payload
    FROM plan_clip(p_video_id, p_t_start, p_t_end, p_padding_ms, p_options) AS plan;
    SELECT job.job_id, job.is_new INTO job_id, is_new
    FROM enqueue_clip(p_video_id, clip_id, payload, p_priority) AS job;
END
$$;
COMMENT ON FUNCTION request_clip IS
    'Enqueues the job that makes a clip, in the caller''s transaction, or returns the job that is queued or '
    'processing for the same clip. If the clip exists already, the job finds its object and is done.';

-- ---- reels --------------------------------------------------------------------------------------
-- A reel is a clip of many parts. Its job is one of the first part's video; those see it who see the videos of all parts.

CREATE FUNCTION cortana.clip_source(p_video_id uuid, p_moment int, p_redact jsonb) RETURNS text[]
LANGUAGE plpgsql STABLE AS $$
BEGIN
    RETURN (
        SELECT ARRAY[left(coalesce(redacted_text(n.title, p_redact), n.title), 200), concat_ws(' · ', feed_clock(p_moment),
                     to_char((v.recorded_at + p_moment * interval '1 ms') AT TIME ZONE 'UTC', 'YYYY-MM-DD HH24:MI:SS "UTC"'))]
        FROM videos v, LATERAL (SELECT coalesce(nullif(v.title, ''), v.original_name, v.id::text)) AS n (title) WHERE v.id = p_video_id);
END
$$;
COMMENT ON FUNCTION cortana.clip_source IS 'Where a moment of a video is from, in two lines: its title, and the time in the video and of the day.';

CREATE FUNCTION cortana.plan_reel(p_places jsonb, p_places_found int, p_words text, p_options jsonb, OUT video_id uuid, OUT clip_id uuid, OUT payload jsonb)
LANGUAGE plpgsql STABLE AS $$
DECLARE
    redact CONSTANT jsonb := p_options -> 'redact';
    largest CONSTANT int := payload_bytes - 65536 FROM job_types WHERE name = 'clip_generate';   -- as in plan_clip()
    place record;
    texts text[];
    parts jsonb := '[]';
    left_out jsonb := '[]';
    broken text;
BEGIN
    FOR place IN SELECT p.* FROM jsonb_to_recordset(p_places) AS p (video_id uuid, t_start int, t_end int, moment int, texts text[]) LOOP
        BEGIN
            texts := ARRAY(SELECT format('“%s”', left(coalesce(redacted_text(t, redact), t), 300)) FROM unnest(place.texts) AS t);
            parts := parts || (plan_clip(place.video_id, place.t_start, place.t_end, 0, p_options || jsonb_build_object('quote', jsonb_build_object(
                'alt', '', 'lines', clip_source(place.video_id, place.moment, redact) || CASE WHEN cardinality(texts) > 2
                    THEN ARRAY[texts[1], '… +' || cardinality(texts) - 1] ELSE texts END)))).payload;
        EXCEPTION WHEN no_data_found OR object_not_in_prerequisite_state OR invalid_parameter_value THEN
            GET STACKED DIAGNOSTICS broken = CONSTRAINT_NAME;
            IF SQLSTATE = '22023' AND broken <> 'clip_request' THEN
                RAISE;
            END IF;
            left_out := left_out || jsonb_build_object('video_id', place.video_id, 't_start', place.t_start, 'reason', SQLERRM);
        END;
    END LOOP;
    IF parts = '[]' AND left_out = '[]' THEN
        RAISE EXCEPTION 'nothing was found of which a film can be made' USING ERRCODE = 'object_not_in_prerequisite_state';
    ELSIF parts = '[]' THEN
        RAISE EXCEPTION 'of what was found nothing can be shown: %', left_out #>> '{0,reason}' USING ERRCODE = 'object_not_in_prerequisite_state';
    ELSIF octet_length(parts::text) > largest THEN
        RAISE EXCEPTION 'the film would cover too many places: search for less' USING ERRCODE = 'invalid_parameter_value', COLUMN = 'redact';
    END IF;
    video_id := parts #>> '{0,video_id}';
    clip_id := md5('reel|' || parts::text)::uuid;
    payload := (parts -> 0) - '{quote,covers}'::text[] || jsonb_strip_nulls(jsonb_build_object(
        'clip_id', clip_id, 'covers', CASE WHEN redact IS NOT NULL THEN '[]'::jsonb END, 'parts', parts, 'left_out', left_out,
        'places', p_places_found, 'words', coalesce(redacted_text(p_words, redact), p_words),
        'readers', CASE WHEN NOT api.is_service() THEN to_jsonb(nullif(array_remove(auth.uid() || current_team_ids(), NULL), '{}')) END));
END
$$;
COMMENT ON FUNCTION cortana.plan_reel IS
    'The job of a film of these places [{video_id, t_start, t_end, moment, texts}], in this order, of p_places_found in all. A place of '
    'which no clip can be made is left out, and named in left_out. readers: who asked, and their teams; none: the service.';

CREATE FUNCTION cortana.jobs_leave_out_parts() RETURNS trigger
LANGUAGE plpgsql SECURITY DEFINER AS $$
DECLARE
    person CONSTANT uuid := NEW.payload #>> '{readers,0}';
    is_known CONSTANT boolean := EXISTS (SELECT FROM people p WHERE p.id = person);   -- else a token's issuer knows them
    readers uuid[];     -- with whose rights they read now; null: the service
BEGIN
    IF NEW.payload ? 'readers' THEN
        readers := ARRAY(
            SELECT r::uuid FROM jsonb_array_elements_text(NEW.payload -> 'readers') AS r
            WHERE NOT is_known OR EXISTS (
                SELECT FROM people p LEFT JOIN members m ON m.person_id = p.id
                WHERE p.id = person AND p.disabled_at IS NULL AND r::uuid IN (p.id, m.tenant_id)));
    END IF;
    SELECT NEW.payload || jsonb_build_object(
        'parts', coalesce(jsonb_agg(c.part ORDER BY c.n) FILTER (WHERE c.is_there), '[]'),
        'left_out', coalesce(NEW.payload -> 'left_out', '[]') || coalesce(jsonb_agg(jsonb_build_object(
            'video_id', c.video_id, 't_start', c.part -> 't_start',
            'reason', 'the video was deleted, or may not be read any more') ORDER BY c.n) FILTER (WHERE NOT c.is_there), '[]'))
    INTO NEW.payload
    FROM (SELECT p.*, EXISTS (SELECT FROM videos v WHERE v.id = p.video_id AND v.s3_original_path = p.part ->> 's3_original_path'
                              AND (readers IS NULL OR v.owner_id = ANY (readers) OR v.team_id = ANY (readers))) AS is_there
          FROM clip_parts(NEW.payload) WITH ORDINALITY AS p (part, video_id, n)) AS c;
    RETURN NEW;
END
$$;
COMMENT ON FUNCTION cortana.jobs_leave_out_parts IS
    'Trigger: takes the parts out of the job of a reel, when a worker claims it, whose videos are gone or not to be read by who asked.';
CREATE TRIGGER jobs_leave_out_parts BEFORE UPDATE OF status ON jobs
    FOR EACH ROW WHEN (NEW.status = 'processing' AND OLD.status = 'queued' AND NEW.job_type = 'clip_generate' AND NEW.payload ? 'parts')
    EXECUTE FUNCTION jobs_leave_out_parts();

-- ---- long videos --------------------------------------------------------------------------------

CREATE FUNCTION split_videos(p_minutes numeric) RETURNS int
LANGUAGE plpgsql SECURITY DEFINER AS $$
DECLARE
    current workflows;
    whole jsonb;
    params jsonb;
    others jsonb;
    steps jsonb;
    version int;
BEGIN
    IF p_minutes IS NOT NULL AND (p_minutes * 60 < 8 OR p_minutes > 24 * 60) THEN
        RAISE EXCEPTION 'a chunk must last between 8 seconds and 24 hours' USING ERRCODE = 'invalid_parameter_value';
    END IF;
    FOR current IN SELECT * FROM workflows WHERE name IN ('video_playback', 'video_pipeline') AND is_active
                   ORDER BY name DESC LOOP
        SELECT step INTO STRICT whole FROM jsonb_array_elements(current.steps) AS step
        WHERE step ->> 'key' = 'transcode';
        SELECT coalesce(jsonb_agg(step ORDER BY place), '[]') INTO others
        FROM jsonb_array_elements(current.steps) WITH ORDINALITY AS s (step, place)
        WHERE step ->> 'key' NOT IN ('transcode', 'transcode_plan', 'transcode_chunk');

        params := coalesce(whole -> 'params', '{}') - 'split';
        whole := whole - 'depends_on' || jsonb_build_object('params', params);
        steps := jsonb_build_array(whole);
        IF p_minutes IS NOT NULL THEN
            steps := jsonb_build_array(
                jsonb_build_object('key', 'transcode_plan', 'job_type', 'transcode', 'params',
                    params || jsonb_build_object('split', 'plan',
                                                 'split_seconds', ceil(p_minutes * 60)::int)),
                jsonb_build_object('key', 'transcode_chunk', 'job_type', 'transcode',
                    'depends_on', '["transcode_plan"]'::jsonb,
                    'params', params || '{"split": "chunk"}',
                    'fan_out', '{"over": ["chunks"], "size": 1}'::jsonb),
                whole || jsonb_build_object(
                    'depends_on', '["transcode_plan", "transcode_chunk"]'::jsonb,
                    'params', params || '{"split": "join"}'));
        END IF;
        steps := steps || others;
        version := change_workflow(current.name, steps);
    END LOOP;
    RETURN version;
END
$$;
COMMENT ON FUNCTION split_videos IS
    'Encodes videos that are longer than this many minutes in chunks, beginning with the next run; null: in one '
    'piece. Runs that have begun keep their version of the workflow. Returns the version of video_pipeline in use.';

-- ---- reading again ------------------------------------------------------------------------------
-- The pictures of the lines of a video are kept in the store, and a run of the workflow reindex reads them with other
-- languages or another model. The old text stays until the new text is complete.

CREATE FUNCTION cortana.last_ocr_jobs(p_video_id uuid) RETURNS SETOF jobs
LANGUAGE sql STABLE AS $$
    SELECT j.* FROM jobs j,
        (SELECT id, run_id, step FROM jobs
         WHERE video_id = p_video_id AND job_type = 'ocr' AND status = 'done'
         ORDER BY finished_at DESC, id LIMIT 1) AS newest
    WHERE j.id = newest.id
       OR j.run_id = newest.run_id AND j.step = newest.step AND j.status = 'done'
    ORDER BY j.part
$$;
COMMENT ON FUNCTION cortana.last_ocr_jobs IS
    'Returns the finished ocr jobs that the text of a video, or its last reading, came from.';

CREATE FUNCTION cortana.video_languages(p_video_id uuid) RETURNS jsonb
LANGUAGE sql STABLE AS $$
    SELECT coalesce(payload -> 'languages', to_jsonb(string_to_array(result ->> 'languages', '+')))
    FROM last_ocr_jobs(p_video_id) LIMIT 1
$$;
COMMENT ON FUNCTION cortana.video_languages IS
    'Returns the models that a video was last read with: those of the payload, otherwise the default models that '
    'were installed; null: it has not been read, or the models are not known.';

CREATE FUNCTION reindex_video(p_video_id uuid, p_languages text[] DEFAULT NULL, p_priority int DEFAULT 1,
                              OUT run_id uuid, OUT is_new boolean)
LANGUAGE plpgsql SECURITY DEFINER AS $$
DECLARE
    video videos;
    input jsonb;
    packs text[];
BEGIN
    SELECT * INTO video FROM videos
    WHERE id = p_video_id AND may_touch(coalesce(team_id, owner_id)) FOR NO KEY UPDATE;
    IF NOT FOUND THEN
        RAISE EXCEPTION 'video % does not exist', p_video_id USING ERRCODE = 'no_data_found';
    END IF;
    IF video.duplicate_of IS NOT NULL THEN
        RAISE EXCEPTION 'video % is a duplicate of video %, and only the latter is processed', p_video_id,
            video.duplicate_of USING ERRCODE = 'invalid_parameter_value';
    END IF;
    packs := ARRAY(SELECT key FROM line_packs WHERE video_id = p_video_id ORDER BY key);
    IF packs = '{}' THEN
        RAISE EXCEPTION 'the pictures from which the text of video % was read are no longer stored', p_video_id
            USING ERRCODE = 'object_not_in_prerequisite_state',
                  HINT = 'To process the video again from its original: SELECT reprocess_video(id).';
    END IF;
    SELECT jsonb_strip_nulls(jsonb_build_object(
               'languages', coalesce(to_jsonb(p_languages), video_languages(p_video_id)),
               'min_confidence', (array_agg(payload -> 'min_confidence' ORDER BY part))[1], 'line_paths', packs))
        INTO input FROM last_ocr_jobs(p_video_id);
    SELECT r.run_id, r.is_new INTO run_id, is_new
    FROM start_run('reindex', input, p_video_id, p_priority) AS r;
END
$$;
COMMENT ON FUNCTION reindex_video IS
    'Starts to read a video again, from the stored pictures of its lines. p_languages null: the same models as before. is_new is '
    'false if a run for the video has not ended; that run is left alone.';

-- ---- who may call what --------------------------------------------------------------------------

SELECT secure_objects();
GRANT EXECUTE ON FUNCTION cortana.clip_options, cortana.check_clip, plan_clip, cortana.enqueue_clip, request_clip,
    cortana.clip_source, cortana.plan_reel, reindex_video TO cortana_app;
GRANT EXECUTE ON FUNCTION cortana.last_ocr_jobs, cortana.video_languages, cortana.redaction_kinds, cortana.redaction_letters, cortana.redaction_parts,
    cortana.redaction_rules, cortana.redaction_spans, cortana.track_points, cortana.track_at, cortana.redaction_masked,
    cortana.redacted_text, cortana.redaction_way, cortana.plan_redaction TO authenticated;
