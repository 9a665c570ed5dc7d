-- The text found in videos, and the pictures of lines that it was read from.

CREATE FUNCTION cortana.line_sources() RETURNS text[]
LANGUAGE sql IMMUTABLE PARALLEL SAFE
RETURN ARRAY['screen', 'code', 'subtitle', 'speech'];
COMMENT ON FUNCTION cortana.line_sources IS
    'What a line of text can come from: the screen, a QR or bar code on it, a text track, or speech. Of lines that say the same at the same time, '
    'the first one here is the result of a search.';

CREATE TABLE segments (
    id uuid PRIMARY KEY DEFAULT gen_random_uuid(),
    video_id uuid NOT NULL REFERENCES videos ON DELETE CASCADE,
    owner_id uuid,
    team_id uuid,
    text text NOT NULL,
    normalized_text text NOT NULL,
    text_hash text NOT NULL,
    language text,
    confidence real NOT NULL CHECK (confidence BETWEEN 0 AND 1),
    t_start int NOT NULL CHECK (t_start >= 0),
    t_end int NOT NULL,
    bounding_box jsonb,
    place int NOT NULL DEFAULT 0,
    end_box jsonb,
    track int[],
    words smallint[],
    crop_pack text,
    crop_offset bigint,
    crop_bytes int,
    detected_by text,
    source text NOT NULL DEFAULT 'screen' CHECK (source = ANY (cortana.line_sources())),
    paragraph uuid,
    paragraph_line smallint,
    created_at timestamptz NOT NULL DEFAULT now(),
    CHECK (t_end >= t_start)
);
COMMENT ON TABLE segments IS
    'Text that was on screen, one row for each line and each time it was visible, and text that was said.';
COMMENT ON COLUMN segments.t_start IS 'When the text was first completely visible, in milliseconds.';
COMMENT ON COLUMN segments.t_end IS 'When the text was no longer completely visible, in milliseconds.';
COMMENT ON COLUMN segments.bounding_box IS '{"x","y","width","height"} in pixels of the upright original frame.';
COMMENT ON COLUMN segments.place IS
    'Reading order among the lines that start at the same time: rows from top to bottom, each from left to right. 0 '
    'until segment_index has processed all of them.';
COMMENT ON COLUMN segments.end_box IS
    'Where the text was at t_end, if it moved; null: it stayed in bounding_box.';
COMMENT ON COLUMN segments.track IS
    'Path of the upper left corner of the box: {t, x, y, dt, dx, dy, ...} in ms and pixels, each point relative to the '
    'one before it; straight between points, at rest before the first and after the last. Null: it did not move.';
COMMENT ON COLUMN segments.words IS
    'Positions of the words of the text (separated by blanks): {x, width, ...}, in thousandths of the width of the '
    'box.';
COMMENT ON COLUMN segments.crop_pack IS
    'Key of the object that holds the picture of the line, a grey PNG of the size of the box. Null: none is kept.';
COMMENT ON COLUMN segments.crop_offset IS 'First byte of the picture in crop_pack.';
COMMENT ON COLUMN segments.crop_bytes IS 'Length of the picture in bytes.';
COMMENT ON COLUMN segments.detected_by IS
    'Step and part of the run that read the text ("ocr/0"). Several steps can read one video in parallel. Of what was '
    'said: what it was read from ("track": the text tracks of the video''s file; "ocr/0": its tracks of pictures; "endpoint": '
    'its sound).';
COMMENT ON COLUMN segments.source IS
    'Where the line comes from: screen; code, the content of a QR or bar code on screen; subtitle, a text track or one of '
    'pictures; speech. Only lines on screen and codes have boxes, and only lines on screen have pictures.';
COMMENT ON COLUMN segments.paragraph IS
    'The first line of the message or paragraph that this line continues on screen. Null: it begins one, or is alone, or '
    'segment_index has not processed all lines yet.';
COMMENT ON COLUMN segments.paragraph_line IS 'Place in the paragraph: 1 is the line after the first one.';
COMMENT ON COLUMN segments.id IS
    'Computed from video, text, start and place, so that the same reading always has the same id.';
COMMENT ON COLUMN segments.video_id IS 'The video.';
COMMENT ON COLUMN segments.owner_id IS 'videos.owner_id.';
COMMENT ON COLUMN segments.team_id IS 'videos.team_id.';
COMMENT ON COLUMN segments.text IS 'The line as it was read.';
COMMENT ON COLUMN segments.normalized_text IS
    'The line as normal_form(text) returns it; searching and merging compare this form.';
COMMENT ON COLUMN segments.text_hash IS 'text_hash(normalized_text).';
COMMENT ON COLUMN segments.language IS
    'Tesseract model that read the line; of subtitles and speech the language of the track or of the endpoint''s answer (ISO 639-3), if it is known.';
COMMENT ON COLUMN segments.confidence IS 'Confidence of the OCR in the line, 0 to 1; of subtitles and speech 1.';
COMMENT ON COLUMN segments.created_at IS 'When the row was made.';

CREATE INDEX segments_video_time ON segments (video_id, t_start, place, id);
CREATE INDEX segments_text_hash ON segments (text_hash);

SELECT secure_table('segments');
CREATE POLICY segments_read ON segments FOR SELECT TO authenticated
    USING (owner_id = (SELECT auth.uid())
           OR team_id = ANY ((SELECT current_team_ids())::uuid[]));
GRANT SELECT ON segments TO authenticated;

CREATE FUNCTION cortana.segment_id(p_video_id uuid, p_text_hash text, p_t_start int, p_bounding_box jsonb)
RETURNS uuid
LANGUAGE sql IMMUTABLE PARALLEL SAFE
RETURN md5(concat_ws('|', p_video_id, p_text_hash, p_t_start,
                         p_bounding_box ->> 'x', p_bounding_box ->> 'y',
                         p_bounding_box ->> 'width', p_bounding_box ->> 'height'))::uuid;
COMMENT ON FUNCTION cortana.segment_id IS
    'Computes the id of a segment, so that the same detection has the same id however often a stage runs.';

CREATE TABLE entity_types (
    name text PRIMARY KEY CHECK (name ~ '^[a-z][a-z0-9_]{0,30}$'),
    description text NOT NULL,
    redaction_pattern text
);
COMMENT ON TABLE entity_types IS
    'The kinds of entities. Entities of a kind that is not in this table are refused; those that the program itself finds '
    'also have a pattern there.';
COMMENT ON COLUMN entity_types.name IS 'Name of the kind, as in entities.entity_type.';
COMMENT ON COLUMN entity_types.description IS 'What the kind is.';
COMMENT ON COLUMN entity_types.redaction_pattern IS
    'What a redacted clip covers besides the entities of the kind: a wider pattern, which also finds what was misread or stands on '
    'two lines. Null: nothing.';
SELECT secure_table('entity_types', 'SELECT, INSERT, UPDATE, DELETE');
CREATE POLICY entity_types_read ON entity_types FOR SELECT TO authenticated USING (true);
GRANT SELECT ON entity_types TO authenticated;
INSERT INTO entity_types (name, description, redaction_pattern) VALUES
    ('mention', '@name', '(?<![\w.])[@©]\w[\w.-]*'),
    ('hashtag', '#name, in letters of any script', '[#＃]\w+'),
    ('url', 'an address on the web',
     '\w+:/+\S+|\ywww\.\S+|(?<![\w@.+-])[\w-]+(\.[\w-]+)+/\S+|(?<![\w@.+-])[\w-]+(\.[\w-]+)*\.(com|org|net|edu|gov|io|dev|app)\y\S*'),
    ('emoji', 'an emoji, with its whole sequence', NULL),
    ('number', 'a price, a percentage, a phone number or a count, with its currency or unit', NULL),
    ('code', 'the content of a QR or bar code', NULL);

CREATE TABLE entities (
    id uuid PRIMARY KEY DEFAULT gen_random_uuid(),
    segment_id uuid NOT NULL REFERENCES segments ON DELETE CASCADE,
    entity_type text NOT NULL REFERENCES entity_types ON UPDATE CASCADE,
    value text NOT NULL,
    normalized_value text NOT NULL,
    created_at timestamptz NOT NULL DEFAULT now()
);
COMMENT ON TABLE entities IS 'What was found in segments: names, addresses, numbers, of the kinds in entity_types.';
COMMENT ON COLUMN entities.id IS 'Identifier.';
COMMENT ON COLUMN entities.segment_id IS 'The segment that contains the entity.';
COMMENT ON COLUMN entities.entity_type IS 'The kind of entity, from entity_types.';
COMMENT ON COLUMN entities.value IS 'The entity as it is written in the text.';
COMMENT ON COLUMN entities.normalized_value IS
    'Normal form of the value; two entities are equal if this form is equal.';
COMMENT ON COLUMN entities.created_at IS 'When the row was made.';

CREATE INDEX entities_segment ON entities (segment_id);
CREATE INDEX entities_value ON entities (entity_type, normalized_value);

SELECT secure_table('entities');
CREATE POLICY entities_read ON entities FOR SELECT TO authenticated
    USING (EXISTS (SELECT FROM segments s WHERE s.id = segment_id));
GRANT SELECT ON entities TO authenticated;

CREATE TABLE cortana.line_packs (
    video_id uuid NOT NULL REFERENCES videos ON DELETE CASCADE,
    key text NOT NULL,
    read_by text,
    size_bytes bigint NOT NULL,
    created_at timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (video_id, key)
);
COMMENT ON TABLE cortana.line_packs IS
    'Objects that hold the pictures of the lines from which the text of a video was read.';
COMMENT ON COLUMN cortana.line_packs.key IS 'Key of the object: lines/{video_id}/….';
COMMENT ON COLUMN cortana.line_packs.read_by IS 'Step and part of the run, as segments.detected_by.';

SELECT secure_table('line_packs');

CREATE TABLE unread_lines (
    video_id uuid NOT NULL REFERENCES videos ON DELETE CASCADE,
    read_by text NOT NULL,
    script text NOT NULL CHECK (script ~ '^[A-Za-z_]{1,63}$'),
    lines int NOT NULL CHECK (lines > 0),
    PRIMARY KEY (video_id, read_by, script)
);
COMMENT ON TABLE unread_lines IS 'How many lines of a video were not read, by the reason.';
COMMENT ON COLUMN unread_lines.video_id IS 'The video.';
COMMENT ON COLUMN unread_lines.read_by IS 'Step and part of the run, as segments.detected_by.';
COMMENT ON COLUMN unread_lines.script IS
    'Name of Tesseract''s model that would read the lines. Of a script: Cyrillic, Arabic, Greek, Hebrew, Devanagari, '
    'Bengali, Tamil or Japanese; other scripts are not named. Of a language of Latin letters: spa. truncated: more new text '
    'was on screen in a second than is read; what stands still longer is read. pictures: subtitles that are pictures, which '
    'are damaged or have no clear letters; pictures_hin: those of a track in a language that no installed model reads.';
COMMENT ON COLUMN unread_lines.lines IS 'How many of the examined lines of this part of the video these are.';

SELECT secure_table('unread_lines');
CREATE POLICY unread_lines_read ON unread_lines FOR SELECT TO authenticated
    USING (EXISTS (SELECT FROM videos v WHERE v.id = video_id));
GRANT SELECT ON unread_lines TO authenticated;

-- Call this function in FROM, where the planner inlines it: a list of videos then needs one query, not one for each
-- video.
CREATE FUNCTION cortana.unread_scripts(p_videos uuid[]) RETURNS TABLE (unread jsonb)
LANGUAGE sql STABLE
BEGIN ATOMIC
    SELECT coalesce(jsonb_agg(jsonb_build_object(
               'kind', CASE WHEN u.script IN ('truncated', 'pictures') THEN u.script WHEN u.script ~ '^pictures_' THEN 'subtitles' ELSE 'lines' END,
               'script', CASE WHEN u.script NOT IN ('truncated', 'pictures') THEN regexp_replace(u.script, '^pictures_', '') END,
               'lines', u.lines, 'videos', u.videos, 'video', CASE WHEN u.videos = 1 THEN u.video END) ORDER BY u.lines DESC, u.script), '[]')
    FROM (SELECT l.script, sum(l.lines) AS lines, count(DISTINCT l.video_id) AS videos, min(l.video_id::text) AS video
          FROM unread_lines l WHERE l.video_id = ANY (p_videos) GROUP BY l.script) AS u;
END;
COMMENT ON FUNCTION cortana.unread_scripts IS
    'What was not read of the given videos, as the API shows it (Unread in gateway/operations), as one row, the one with the most lines first.';

CREATE TABLE kept_frames (
    video_id uuid NOT NULL REFERENCES videos ON DELETE CASCADE,
    t_ms int NOT NULL,
    t_start int NOT NULL,
    t_end int NOT NULL,
    key text NOT NULL,
    PRIMARY KEY (video_id, t_ms)
);
COMMENT ON TABLE kept_frames IS
    'Pictures of a video that differ from the kept picture before them; text is read from them. After some time, only '
    'as many are left as are needed to show every line.';
COMMENT ON COLUMN kept_frames.video_id IS 'The video.';
COMMENT ON COLUMN kept_frames.t_ms IS 'Time of the picture itself, in milliseconds.';
COMMENT ON COLUMN kept_frames.t_start IS 'When the content of the picture appeared, in milliseconds.';
COMMENT ON COLUMN kept_frames.t_end IS 'When the next change appeared, or the end of the video, in milliseconds.';
COMMENT ON COLUMN kept_frames.key IS 'Key of the object, a JPEG. The object may have been removed.';

SELECT secure_table('kept_frames');
CREATE POLICY kept_frames_read ON kept_frames FOR SELECT TO authenticated
    USING (EXISTS (SELECT FROM videos v WHERE v.id = video_id));
GRANT SELECT ON kept_frames TO authenticated;

CREATE TABLE cortana.frames_to_thin (
    video_id uuid PRIMARY KEY REFERENCES videos ON DELETE CASCADE,
    read_at timestamptz NOT NULL DEFAULT now()
);
COMMENT ON TABLE cortana.frames_to_thin IS
    'Videos that were read and whose frames were not thinned out since. The scanner thins them out.';
COMMENT ON COLUMN cortana.frames_to_thin.video_id IS 'The video.';
COMMENT ON COLUMN cortana.frames_to_thin.read_at IS 'When its text was replaced the last time.';

CREATE INDEX frames_to_thin_read ON cortana.frames_to_thin (read_at);

SELECT secure_table('frames_to_thin');

CREATE TABLE cortana.pending_readings (
    video_id uuid PRIMARY KEY REFERENCES videos ON DELETE CASCADE,
    detections jsonb NOT NULL
);
COMMENT ON TABLE cortana.pending_readings IS
    'Text that a new run has read in a video. It is kept here until segment_index replaces the old text with it.';
COMMENT ON COLUMN cortana.pending_readings.detections IS
    'The detections as JSON; the members have the names of the columns of segments.';

SELECT secure_table('pending_readings');

CREATE TYPE cortana.incoming_segment AS (
    id uuid, hash text, text text, normalized_text text, language text, confidence real, t_start int,
    t_end int, bounding_box jsonb, end_box jsonb, track int[], words smallint[], crop_pack text,
    crop_offset bigint, crop_bytes int, entities jsonb, paragraph uuid, paragraph_line smallint
);
COMMENT ON TYPE cortana.incoming_segment IS 'A segment as replace_video_text() receives it.';

CREATE FUNCTION cortana.reading_order(p_segments incoming_segment[]) RETURNS TABLE (id uuid, place int)
LANGUAGE sql IMMUTABLE AS $$
    WITH boxes AS (
        SELECT s.id, s.t_start, (s.bounding_box ->> 'x')::numeric AS x, (s.bounding_box ->> 'height')::numeric AS height,
               (s.bounding_box ->> 'y')::numeric + (s.bounding_box ->> 'height')::numeric / 2 AS middle
        FROM unnest(p_segments) AS s
    ), breaks AS (
        SELECT b.*, (middle - lag(middle) OVER down > height / 2)::int AS is_new_row
        FROM boxes b WINDOW down AS (PARTITION BY b.t_start ORDER BY middle, x, b.id)
    ), rows AS (
        SELECT b.*, coalesce(sum(is_new_row) OVER (PARTITION BY b.t_start ORDER BY middle, x, b.id), 0) AS row
        FROM breaks b
    )
    SELECT r.id, row_number() OVER (PARTITION BY r.t_start ORDER BY r.row, r.x, r.id)::int FROM rows r
$$;
COMMENT ON FUNCTION cortana.reading_order IS
    'The place of each segment among those that start at the same time (segments.place). Two boxes are in the same '
    'row if their vertical centres differ by at most half the height of the lower box.';

CREATE FUNCTION replace_video_text(p_video_id uuid, p_segments jsonb,
                                   OUT segment_count bigint, OUT entity_count bigint)
LANGUAGE plpgsql AS $$
DECLARE
    incoming incoming_segment[];
BEGIN
    PERFORM FROM videos WHERE id = p_video_id FOR UPDATE;
    IF NOT FOUND THEN
        RAISE EXCEPTION 'video % does not exist', p_video_id USING ERRCODE = 'foreign_key_violation';
    END IF;
    incoming := ARRAY(
        WITH listed AS MATERIALIZED (
            SELECT segment_id(p_video_id, hash, t.t_start, t.bounding_box) AS id, hash, t.*, normal
            FROM ROWS FROM (jsonb_to_recordset(p_segments) AS (
                     text text, language text, confidence real, t_start int,
                     t_end int, bounding_box jsonb, end_box jsonb, track int[], words smallint[],
                     crop_pack text, crop_offset bigint, crop_bytes int, entities jsonb, paragraph bigint,
                     paragraph_line smallint)) WITH ORDINALITY AS t (
                     text, language, confidence, t_start, t_end, bounding_box, end_box, track, words, crop_pack, crop_offset,
                     crop_bytes, entities, paragraph, paragraph_line, number),
                 LATERAL (SELECT normal_form(t.text) AS normal OFFSET 0) AS n, LATERAL text_hash(normal) AS hash
        )
        SELECT DISTINCT ON (s.id)
               ROW(s.id, s.hash, s.text, s.normal, s.language, s.confidence, s.t_start, s.t_end, s.bounding_box, s.end_box,
                   s.track, s.words, s.crop_pack, s.crop_offset, s.crop_bytes, s.entities, first.id,
                   CASE WHEN first.id IS NOT NULL THEN s.paragraph_line END)::incoming_segment
        FROM listed s LEFT JOIN listed first ON first.number = s.paragraph + 1 AND first.id <> s.id
        ORDER BY s.id, s.t_end DESC, s.text);

    DELETE FROM segments s
    WHERE s.video_id = p_video_id AND s.source = 'screen' AND s.id NOT IN (SELECT i.id FROM unnest(incoming) AS i);
    INSERT INTO segments AS s (id, video_id, owner_id, team_id, text, normalized_text, text_hash,
                               language, confidence, t_start, t_end, bounding_box, place, end_box,
                               track, words, crop_pack, crop_offset, crop_bytes, paragraph, paragraph_line)
    SELECT i.id, v.id, v.owner_id, v.team_id, i.text, i.normalized_text, i.hash, i.language,
           i.confidence, i.t_start, i.t_end, i.bounding_box, o.place, i.end_box,
           i.track, i.words, i.crop_pack, i.crop_offset, i.crop_bytes, i.paragraph, i.paragraph_line
    FROM unnest(incoming) AS i JOIN reading_order(incoming) AS o ON o.id = i.id, videos v
    WHERE v.id = p_video_id
    ON CONFLICT (id) DO UPDATE SET
        owner_id = excluded.owner_id, team_id = excluded.team_id, text = excluded.text,
        normalized_text = excluded.normalized_text, text_hash = excluded.text_hash,
        language = excluded.language, confidence = excluded.confidence, t_end = excluded.t_end,
        bounding_box = excluded.bounding_box, place = excluded.place, end_box = excluded.end_box, track = excluded.track,
        words = excluded.words, crop_pack = excluded.crop_pack, crop_offset = excluded.crop_offset,
        crop_bytes = excluded.crop_bytes, paragraph = excluded.paragraph, paragraph_line = excluded.paragraph_line
    WHERE (s.owner_id, s.team_id, s.text, s.normalized_text, s.text_hash, s.language, s.confidence,
           s.t_end, s.bounding_box, s.place, s.end_box, s.track, s.words, s.crop_pack, s.crop_offset,
           s.crop_bytes, s.paragraph, s.paragraph_line)
          IS DISTINCT FROM
          (excluded.owner_id, excluded.team_id, excluded.text, excluded.normalized_text,
           excluded.text_hash, excluded.language, excluded.confidence, excluded.t_end,
           excluded.bounding_box, excluded.place, excluded.end_box, excluded.track, excluded.words,
           excluded.crop_pack, excluded.crop_offset, excluded.crop_bytes,
           excluded.paragraph, excluded.paragraph_line);

    WITH found AS MATERIALIZED (
        SELECT md5(concat_ws('|', i.id, e.type, e.number, e.value))::uuid AS id, i.id AS segment_id,
               e.type, e.value, coalesce(e.normalized_value, normal_form(e.value)) AS normalized_value
        FROM unnest(incoming) AS i,
             ROWS FROM (jsonb_to_recordset(i.entities) AS (type text, value text, normalized_value text))
                 WITH ORDINALITY AS e (type, value, normalized_value, number)
    ), gone AS (
        DELETE FROM entities e USING segments s
        WHERE s.video_id = p_video_id AND s.source = 'screen' AND e.segment_id = s.id AND e.id NOT IN (SELECT f.id FROM found f)
    ), kept AS (
        INSERT INTO entities AS e (id, segment_id, entity_type, value, normalized_value)
        SELECT f.id, f.segment_id, f.type, f.value, f.normalized_value FROM found f
        ON CONFLICT (id) DO UPDATE SET normalized_value = excluded.normalized_value
        WHERE e.normalized_value <> excluded.normalized_value
    )
    SELECT cardinality(incoming), count(*) INTO segment_count, entity_count FROM found;
    INSERT INTO frames_to_thin (video_id) VALUES (p_video_id)
    ON CONFLICT (video_id) DO UPDATE SET read_at = excluded.read_at;
    PERFORM refresh_search_materialized(p_video_id);
    PERFORM record_video_bands(p_video_id);
    PERFORM match_saved_searches(p_video_id);
    PERFORM settle_video(p_video_id);
END
$$;
COMMENT ON FUNCTION replace_video_text IS
    'Replaces the lines on screen of a video and their entities with those of p_segments, a list of {text, language, '
    'confidence, t_start, t_end, bounding_box, end_box, track, words, crop_pack, crop_offset, '
    'crop_bytes, entities: [{type, value, normalized_value}], paragraph, paragraph_line}, and makes '
    'them searchable. paragraph is the place of the first line of its paragraph in the list, from 0. '
    'An entity without normalized_value gets the normal form of its value. Rows that are already the same are not '
    'written. The id of a row is computed from its content, so that calling this again with the same list changes nothing.';

CREATE TYPE cortana.said_line AS (id uuid, hash text, normal text, text text, language text, confidence real, t_start int,
                                  t_end int, bounding_box jsonb, end_box jsonb, entities jsonb);
COMMENT ON TYPE cortana.said_line IS 'A line as add_said_lines() stores it.';

CREATE FUNCTION cortana.add_said_lines(p_video_id uuid, p_source text, p_read_from text, p_lines jsonb, p_replaces boolean)
RETURNS void
LANGUAGE plpgsql AS $$
DECLARE
    said said_line[] := ARRAY(
        SELECT DISTINCT ON (l.id) ROW(l.*)::said_line
        FROM (SELECT md5(concat_ws('|', p_video_id, hash, r.t_start, p_source, r.language))::uuid AS id, hash, normal, r.text,
                     r.language, coalesce(r.confidence, 1), r.t_start, r.t_end, r.bounding_box, r.end_box, r.entities
              FROM jsonb_to_recordset(p_lines) AS r (text text, language text, confidence real, t_start int, t_end int,
                                                     bounding_box jsonb, end_box jsonb, entities jsonb),
                   LATERAL (SELECT normal_form(r.text) AS normal OFFSET 0) AS n, LATERAL text_hash(normal) AS hash
              WHERE normal <> '') AS l
        ORDER BY l.id, l.t_end DESC);
BEGIN
    DELETE FROM segments s
    WHERE p_replaces AND s.video_id = p_video_id AND s.source = p_source AND s.detected_by = p_read_from
      AND s.id NOT IN (SELECT l.id FROM unnest(said) AS l);
    INSERT INTO segments AS s (id, video_id, owner_id, team_id, text, normalized_text, text_hash, language, confidence,
                               t_start, t_end, bounding_box, end_box, source, detected_by)
    SELECT l.id, v.id, v.owner_id, v.team_id, l.text, l.normal, l.hash, l.language, l.confidence,
           l.t_start, l.t_end, l.bounding_box, l.end_box, p_source, p_read_from
    FROM unnest(said) AS l, videos v WHERE v.id = p_video_id
    ON CONFLICT (id) DO UPDATE SET text = excluded.text, t_end = excluded.t_end, confidence = excluded.confidence,
                                   bounding_box = excluded.bounding_box, end_box = excluded.end_box
    WHERE (s.text, s.t_end, s.confidence, s.bounding_box, s.end_box)
          IS DISTINCT FROM (excluded.text, excluded.t_end, excluded.confidence, excluded.bounding_box, excluded.end_box);
    INSERT INTO entities AS e (id, segment_id, entity_type, value, normalized_value)
    SELECT md5(concat_ws('|', l.id, f.type, f.number, f.value))::uuid, l.id, f.type, f.value,
           coalesce(f.normalized_value, normal_form(f.value))
    FROM unnest(said) AS l,
         ROWS FROM (jsonb_to_recordset(l.entities) AS (type text, value text, normalized_value text))
             WITH ORDINALITY AS f (type, value, normalized_value, number)
    ON CONFLICT (id) DO NOTHING;
END
$$;
COMMENT ON FUNCTION cortana.add_said_lines IS
    'Adds lines that were said in a video, or codes, a list of {text, language, confidence, t_start, t_end, bounding_box, '
    'end_box, entities: [{type, value, normalized_value}]}. p_read_from says what they were read from (segments.detected_by). p_replaces: other lines of it '
    'are removed. Lines on screen stay. The next refresh makes the lines searchable.';

CREATE FUNCTION cortana.box_at(s segments, p_t_ms int) RETURNS jsonb
LANGUAGE plpgsql IMMUTABLE AS $$
DECLARE
    t int := s.track[1];
    x float8 := s.track[2];
    y float8 := s.track[3];
    share float8;
BEGIN
    IF s.track IS NULL THEN
        share := greatest(least((p_t_ms - s.t_start)::float8 / nullif(s.t_end - s.t_start, 0), 1), 0);
        RETURN CASE WHEN s.end_box IS NULL THEN s.bounding_box
                    ELSE (SELECT jsonb_object_agg(b.key, round((b.value::int + coalesce(share, 0)
                                     * ((s.end_box ->> b.key)::int - b.value::int))::numeric))
                          FROM jsonb_each_text(s.bounding_box) AS b) END;
    END IF;
    FOR i IN 4 .. cardinality(s.track) BY 3 LOOP
        share := least(greatest(p_t_ms - t, 0) / greatest(s.track[i], 1)::float8, 1);
        t := t + s.track[i];
        x := x + s.track[i + 1] * share;
        y := y + s.track[i + 2] * share;
        EXIT WHEN share < 1;
    END LOOP;
    RETURN s.bounding_box || jsonb_build_object('x', round(x), 'y', round(y));
END
$$;
COMMENT ON FUNCTION cortana.box_at IS 'The position of a line''s box at a time, from segments.track and end_box.';

CREATE FUNCTION cortana.box_around(p_segments uuid[], p_t_ms int) RETURNS jsonb
LANGUAGE sql STABLE AS $$
    SELECT jsonb_build_object('x', min(x), 'y', min(y), 'width', max(x + width) - min(x), 'height', max(y + height) - min(y))
    FROM segments s, box_at(s, p_t_ms) AS box,
         jsonb_to_record(box) AS b (x numeric, y numeric, width numeric, height numeric)
    WHERE s.id = ANY (p_segments)
    HAVING count(x) > 0
$$;
COMMENT ON FUNCTION cortana.box_around IS 'The box around several lines at a time; null: none of them has a box.';

-- Other systems read this export: members may be added, but none may be changed or removed. Times are in
-- milliseconds.
CREATE FUNCTION cortana.export_segments(p_video_id uuid, p_source text DEFAULT NULL) RETURNS SETOF json
LANGUAGE sql STABLE AS $$
    SELECT json_build_object(
               'id', s.id, 'text', s.text, 'normalized_text', s.normalized_text,
               't_start', s.t_start, 't_end', s.t_end,
               'shown_at', v.recorded_at + s.t_start * interval '1 ms', 'confidence', s.confidence,
               'language', s.language, 'bounding_box', s.bounding_box, 'end_box', s.end_box,
               'track', s.track, 'words', s.words, 'source', s.source)
    FROM segments s JOIN videos v ON v.id = s.video_id
    WHERE s.video_id = p_video_id AND (p_source IS NULL OR s.source = p_source)
    ORDER BY s.t_start, s.place, s.id
$$;
COMMENT ON FUNCTION cortana.export_segments IS 'The segments of an export, one a row.';

CREATE FUNCTION cortana.export_entities(p_video_id uuid, p_source text DEFAULT NULL) RETURNS SETOF json
LANGUAGE sql STABLE AS $$
    SELECT json_build_object(
               'type', e.entity_type, 'value', e.value, 'normalized_value', e.normalized_value,
               'segment_id', e.segment_id, 't_start', s.t_start, 't_end', s.t_end)
    FROM entities e JOIN segments s ON s.id = e.segment_id
    WHERE s.video_id = p_video_id AND (p_source IS NULL OR s.source = p_source)
    ORDER BY s.t_start, e.segment_id, e.entity_type, e.value, e.id
$$;
COMMENT ON FUNCTION cortana.export_entities IS 'The entities of an export, one a row.';

-- ---- who may call what --------------------------------------------------------------------------

SELECT secure_objects();
GRANT EXECUTE ON FUNCTION cortana.line_sources, cortana.box_at, cortana.box_around, cortana.unread_scripts, cortana.export_segments, cortana.export_entities TO authenticated;
