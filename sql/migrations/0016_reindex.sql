-- Reading a library again: the pictures of a video's lines are kept in the store, and a run of the
-- workflow 'reindex' reads them with other languages or another model. Until that is done as a whole,
-- the text that is there stays.

-- Where the pictures of the lines lie that a video's text was read from.
CREATE TABLE line_packs (
    video_id uuid NOT NULL REFERENCES videos ON DELETE CASCADE,
    key text NOT NULL,                     -- of the object: lines/{video_id}/…
    read_by text,                          -- step and part of the run, as segments.detected_by
    size_bytes bigint NOT NULL,
    created_at timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (video_id, key)
);

-- What a video reads anew, until segment_index puts it in the place of its text.
CREATE TABLE pending_readings (
    video_id uuid PRIMARY KEY REFERENCES videos ON DELETE CASCADE,
    detections jsonb NOT NULL              -- as columns of segments are called
);

INSERT INTO workflows (name, version, description, steps) VALUES
    ('reindex', 1, 'the kept pictures of lines to text and search, once more', '[
        {"key": "ocr", "job_type": "ocr"},
        {"key": "segment_index", "job_type": "segment_index", "depends_on": ["ocr"]}]');

-- The finished ocr jobs that a video's text, or the reading before it, came from.
CREATE FUNCTION last_ocr_jobs(p_video_id uuid) RETURNS SETOF jobs
LANGUAGE sql STABLE AS
$$
    SELECT j.* FROM jobs j,
        (SELECT id, run_id, step FROM jobs
         WHERE video_id = p_video_id AND job_type = 'ocr' AND status = 'done'
         ORDER BY finished_at DESC, id LIMIT 1) AS newest
    WHERE j.id = newest.id
       OR j.run_id = newest.run_id AND j.step = newest.step AND j.status = 'done'
    ORDER BY j.part
$$;

-- The models that a video was last read with: those of the payload, else those of the ocr stage's
-- default that were there; null when it was not read yet, or that is not known.
CREATE FUNCTION video_languages(p_video_id uuid) RETURNS jsonb
LANGUAGE sql STABLE AS
$$
    SELECT coalesce(payload -> 'languages', to_jsonb(string_to_array(result ->> 'languages', '+')))
    FROM last_ocr_jobs(p_video_id) LIMIT 1
$$;

-- Starts to read a video again from what is kept of it: 'lines', the pictures of its lines, or
-- 'frames', the whole frames, where it was read before lines were kept; source_key is the first object
-- that will be read. Languages that are null stay as they are. is_new is false when a run is under way
-- for the video: it is left alone.
CREATE FUNCTION reindex_video(p_video_id uuid, p_languages text[] DEFAULT NULL, p_priority int DEFAULT 1,
                              OUT run_id uuid, OUT is_new boolean, OUT source text, OUT source_key text)
LANGUAGE plpgsql
SECURITY DEFINER SET search_path = pg_catalog, public AS
$$
DECLARE
    video videos;
    input jsonb;
    packs text[];
BEGIN
    SELECT * INTO video FROM videos
    WHERE id = p_video_id AND may_touch(coalesce(team_id, owner_id)) FOR NO KEY UPDATE;
    IF NOT FOUND THEN
        RAISE EXCEPTION 'there is no video %', p_video_id USING ERRCODE = 'no_data_found';
    END IF;
    IF video.duplicate_of IS NOT NULL THEN
        RAISE EXCEPTION 'video % has the bytes of video %: that one is read', p_video_id,
            video.duplicate_of USING ERRCODE = 'invalid_parameter_value';
    END IF;
    packs := ARRAY(SELECT key FROM line_packs WHERE video_id = p_video_id ORDER BY key);
    SELECT jsonb_strip_nulls(jsonb_build_object(
               'languages', coalesce(to_jsonb(p_languages), video_languages(p_video_id)),
               'min_confidence', (array_agg(payload -> 'min_confidence' ORDER BY part))[1]))
        INTO input FROM last_ocr_jobs(p_video_id);
    IF cardinality(packs) > 0 THEN
        source := 'lines';
        source_key := packs[1];
        input := input || jsonb_build_object('line_paths', packs);
    ELSE
        SELECT input || jsonb_strip_nulls(jsonb_build_object(
                   'frame_paths', jsonb_agg(p.path ORDER BY j.part, p.number),
                   'frames', CASE WHEN bool_and(j.payload ? 'frames')
                                  THEN jsonb_agg(j.payload -> 'frames' -> (p.number - 1)::int
                                                 ORDER BY j.part, p.number) END,
                   'again', true))
            INTO input
        FROM last_ocr_jobs(p_video_id) AS j,
             jsonb_array_elements_text(j.payload -> 'frame_paths') WITH ORDINALITY AS p (path, number);
        source := 'frames';
        source_key := input #>> '{frame_paths,0}';
        IF source_key IS NULL THEN
            RAISE EXCEPTION 'nothing is kept of video % that could be read again', p_video_id
                USING ERRCODE = 'object_not_in_prerequisite_state',
                      HINT = 'Let it be worked on from its original: SELECT reprocess_video(id).';
        END IF;
    END IF;
    -- A run that failed holds the video's place until somebody restarts it: this is a new beginning.
    PERFORM cancel_run(r.id) FROM runs r
    WHERE r.video_id = p_video_id AND r.workflow = 'reindex' AND r.status = 'failed';
    SELECT r.run_id, r.is_new INTO run_id, is_new
    FROM start_run('reindex', input, p_video_id, p_priority) AS r;
END
$$;
COMMENT ON FUNCTION reindex_video IS
    'Reads a video again with other languages, without its original; in the caller''s transaction.';

ALTER TABLE line_packs ENABLE ROW LEVEL SECURITY;
ALTER TABLE pending_readings ENABLE ROW LEVEL SECURITY;
CREATE POLICY line_packs_service ON line_packs TO service_role USING (true) WITH CHECK (true);
CREATE POLICY pending_readings_service ON pending_readings TO service_role USING (true) WITH CHECK (true);
REVOKE ALL ON line_packs, pending_readings FROM PUBLIC, anon, authenticated;
GRANT ALL ON line_packs, pending_readings TO service_role;
REVOKE ALL ON FUNCTION last_ocr_jobs(uuid), video_languages(uuid), reindex_video(uuid, text[], int)
    FROM PUBLIC, anon, authenticated;
GRANT EXECUTE ON FUNCTION last_ocr_jobs(uuid), video_languages(uuid) TO service_role;
GRANT EXECUTE ON FUNCTION reindex_video(uuid, text[], int) TO service_role, cortana_app;
