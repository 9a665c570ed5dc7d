-- Videos, the text found in them, and what search reads.

CREATE TYPE video_status AS ENUM ('new', 'processing', 'ready', 'failed', 'duplicate');

CREATE TABLE videos (
    id uuid PRIMARY KEY DEFAULT gen_random_uuid(),
    owner_id uuid,
    team_id uuid,
    platform text,
    title text,
    resolution text,                    -- '1080x1920': the upright picture
    fps double precision CHECK (fps >= 0),
    duration double precision CHECK (duration >= 0),
    s3_original_path text,
    s3_proxy_path text,
    s3_thumb_path text,
    status video_status NOT NULL DEFAULT 'new',
    original_name text,
    original_size bigint CHECK (original_size >= 0),
    original_sha256 text CHECK (original_sha256 ~ '^[0-9a-f]{64}$'),
    container text,
    video_codec text,
    pixel_format text,
    rotation int CHECK (rotation IN (0, 90, 180, 270)),
    variable_frame_rate boolean,
    audio_codec text,
    audio_channels int,
    audio_sample_rate int,
    created_at timestamptz NOT NULL DEFAULT now(),
    updated_at timestamptz NOT NULL DEFAULT now()
);
COMMENT ON COLUMN videos.duration IS 'Seconds.';
COMMENT ON COLUMN videos.rotation IS 'Degrees clockwise by which the stored picture is turned for display.';
CREATE INDEX videos_owner ON videos (owner_id);
CREATE INDEX videos_team ON videos (team_id) WHERE team_id IS NOT NULL;
CREATE INDEX videos_original_sha256 ON videos (original_sha256) WHERE original_sha256 IS NOT NULL;

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
    created_at timestamptz NOT NULL DEFAULT now(),
    CHECK (t_end >= t_start)
);
COMMENT ON COLUMN segments.t_start IS 'Milliseconds: when the text was first wholly visible.';
COMMENT ON COLUMN segments.t_end IS 'Milliseconds: when it ceased to be.';
COMMENT ON COLUMN segments.bounding_box IS '{"x","y","width","height"} in pixels of the upright original frame.';
CREATE INDEX segments_video_time ON segments (video_id, t_start, id);
CREATE INDEX segments_text_hash ON segments (text_hash);

-- The same detection has the same id however often a stage runs.
CREATE FUNCTION segment_id(p_video_id uuid, p_text_hash text, p_t_start int, p_bounding_box jsonb)
RETURNS uuid
LANGUAGE sql IMMUTABLE PARALLEL SAFE AS
$$
    SELECT md5(concat_ws('|', p_video_id, p_text_hash, p_t_start,
                         p_bounding_box ->> 'x', p_bounding_box ->> 'y',
                         p_bounding_box ->> 'width', p_bounding_box ->> 'height'))::uuid
$$;

CREATE TABLE entities (
    id uuid PRIMARY KEY DEFAULT gen_random_uuid(),
    segment_id uuid NOT NULL REFERENCES segments ON DELETE CASCADE,
    entity_type text NOT NULL,
    value text NOT NULL,
    normalized_value text NOT NULL,
    created_at timestamptz NOT NULL DEFAULT now()
);
CREATE INDEX entities_segment ON entities (segment_id);
CREATE INDEX entities_value ON entities (entity_type, normalized_value);

-- A table, not a materialized view: a refresh then costs what the video costs, not what the library
-- costs, and row-level security holds.
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
    document tsvector NOT NULL GENERATED ALWAYS AS (to_tsvector('simple', normalized_text)) STORED
);
CREATE INDEX search_materialized_video ON search_materialized (video_id, t_start);
CREATE INDEX search_materialized_document ON search_materialized USING gin (document);

-- Videos whose segments have changed since they were last made searchable; refresh_search_materialized()
-- (0005_search.sql) brings them up to date.
CREATE TABLE search_pending (
    video_id uuid PRIMARY KEY REFERENCES videos ON DELETE CASCADE
);

CREATE FUNCTION mark_search_pending() RETURNS trigger
LANGUAGE plpgsql
SECURITY DEFINER SET search_path = pg_catalog, public AS
$$
BEGIN
    INSERT INTO search_pending (video_id)
    SELECT DISTINCT c.video_id FROM changed c JOIN videos v ON v.id = c.video_id
    ON CONFLICT DO NOTHING;
    RETURN NULL;
END
$$;
CREATE TRIGGER segments_inserted AFTER INSERT ON segments
    REFERENCING NEW TABLE AS changed FOR EACH STATEMENT EXECUTE FUNCTION mark_search_pending();
CREATE TRIGGER segments_updated AFTER UPDATE ON segments
    REFERENCING NEW TABLE AS changed FOR EACH STATEMENT EXECUTE FUNCTION mark_search_pending();

CREATE FUNCTION videos_before_update() RETURNS trigger
LANGUAGE plpgsql AS
$$
BEGIN
    NEW.updated_at := now();
    RETURN NEW;
END
$$;
CREATE TRIGGER videos_before_update BEFORE UPDATE ON videos
    FOR EACH ROW EXECUTE FUNCTION videos_before_update();

-- Row-level security: a user reads what is theirs or their team's; the service role does everything.
-- The sub-selects make the token be read once a statement, not once a row.
ALTER TABLE videos ENABLE ROW LEVEL SECURITY;
ALTER TABLE segments ENABLE ROW LEVEL SECURITY;
ALTER TABLE entities ENABLE ROW LEVEL SECURITY;
ALTER TABLE search_materialized ENABLE ROW LEVEL SECURITY;
ALTER TABLE search_pending ENABLE ROW LEVEL SECURITY;

CREATE POLICY videos_read ON videos FOR SELECT TO authenticated
    USING (owner_id = (SELECT auth.uid())
           OR team_id = ANY ((SELECT current_team_ids())::uuid[]));
CREATE POLICY segments_read ON segments FOR SELECT TO authenticated
    USING (owner_id = (SELECT auth.uid())
           OR team_id = ANY ((SELECT current_team_ids())::uuid[]));
CREATE POLICY search_materialized_read ON search_materialized FOR SELECT TO authenticated
    USING (owner_id = (SELECT auth.uid())
           OR team_id = ANY ((SELECT current_team_ids())::uuid[]));
CREATE POLICY entities_read ON entities FOR SELECT TO authenticated
    USING (EXISTS (SELECT FROM segments s WHERE s.id = segment_id));

CREATE POLICY videos_service ON videos TO service_role USING (true) WITH CHECK (true);
CREATE POLICY segments_service ON segments TO service_role USING (true) WITH CHECK (true);
CREATE POLICY entities_service ON entities TO service_role USING (true) WITH CHECK (true);
CREATE POLICY search_service ON search_materialized TO service_role USING (true) WITH CHECK (true);
CREATE POLICY search_pending_service ON search_pending TO service_role USING (true) WITH CHECK (true);

REVOKE ALL ON videos, segments, entities, search_materialized, search_pending FROM anon, authenticated;
GRANT SELECT ON videos, segments, entities, search_materialized TO authenticated;
GRANT ALL ON videos, segments, entities, search_materialized, search_pending TO service_role;
-- Who may execute a trigger's function may put it on a table of their own, and act as its owner.
REVOKE ALL ON FUNCTION mark_search_pending() FROM PUBLIC, anon, authenticated;
