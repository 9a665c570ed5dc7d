-- Videos: their owners, their original files, and what the pipeline made of them.

CREATE TYPE video_status AS ENUM ('new', 'processing', 'ready', 'failed', 'duplicate');
COMMENT ON TYPE video_status IS 'State of a video: new, processing, ready, failed, or duplicate of another video.';

-- ---- the normal form of a text -------------------------------------------------------------------

CREATE FUNCTION cortana.fold_case(p_text text) RETURNS text
LANGUAGE sql IMMUTABLE STRICT PARALLEL SAFE
RETURN replace(normalize(lower(upper(lower(normalize(p_text, NFKC)
    COLLATE "und-x-icu") COLLATE "und-x-icu") COLLATE "und-x-icu"), NFKC), U&'\03C2', U&'\03C3');
COMMENT ON FUNCTION cortana.fold_case IS
    'Compatibility composition and case folding. Changing to lower, upper and lower case again makes characters equal '
    'that have several lower-case forms (ss and ß). lower() writes a final sigma at the end of a word, so this sigma '
    'is replaced.';

CREATE FUNCTION cortana.normal_form(p_text text) RETURNS text
LANGUAGE sql IMMUTABLE PARALLEL SAFE
RETURN btrim(regexp_replace(regexp_replace(
    CASE WHEN octet_length(p_text) = length(p_text) THEN lower(p_text COLLATE "C")
         ELSE cortana.fold_case(regexp_replace(p_text,
             '[\u00AD\u034F\u061C\u115F\u1160\u17B4\u17B5\u180B-\u180F\u200B\u200C\u200E\u200F\u202A-\u202E'
             || '\u2060-\u206F\u3164\uFE00-\uFE0F\uFEFF\uFFA0\uFFF0-\uFFFB\U000E0100-\U000E01EF]'
             || '|(?<![\U0001F3F4\U000E0020-\U000E007F])[\U000E0000-\U000E007F]'      -- tags: kept in flags
             || '|(?<![©®\u203C-\u2BFF\u3030-\u3299\U0001F000-\U0001FAFF])\u200D'   -- joiners: kept in emoji
             || '|\u200D(?![©®\u203C-\u2BFF\u3030-\u3299\U0001F000-\U0001FAFF])', '', 'g')) END,
    '[\t-\r \u0085\u1680\u2028\u2029]+', ' ', 'g'),
    '[\u0001-\u001F\u007F-\u009F]', '', 'g'));
COMMENT ON FUNCTION cortana.normal_form IS
    'Returns the form in which texts are compared: NFKC, case folded, without characters that cannot be seen, every '
    'run of white space one blank. Both the text on screen and the query pass through this function, so that what '
    'is typed as it stands on screen is found. The normal form of a normal form is itself.';

CREATE FUNCTION cortana.text_hash(p_normal_form text) RETURNS text
LANGUAGE sql IMMUTABLE PARALLEL SAFE
RETURN encode(sha256(convert_to(p_normal_form, 'UTF8')), 'hex');
COMMENT ON FUNCTION cortana.text_hash IS 'SHA-256 of a normal form in hexadecimal; equal for equal texts.';

CREATE FUNCTION cortana.search_source(p_file text, p_title text, p_platform text) RETURNS text
LANGUAGE sql IMMUTABLE PARALLEL SAFE
SET search_path = pg_catalog, public, cortana, extensions, pg_temp AS
$$
    SELECT concat_ws(E'\n', normal_form(p_file), normal_form(p_title), normal_form(p_platform))
$$;
COMMENT ON FUNCTION cortana.search_source IS
    'Returns the normal forms of file name, title and platform as one text for searching, one per line.';

-- ---- videos ---------------------------------------------------------------------------------------

CREATE TABLE videos (
    id uuid PRIMARY KEY DEFAULT gen_random_uuid(),
    owner_id uuid,
    team_id uuid,
    platform text,
    title text,
    resolution text,
    fps double precision CHECK (fps BETWEEN 0 AND 1000000),
    duration double precision CHECK (duration BETWEEN 0 AND 10000000),
    s3_original_path text,
    s3_proxy_path text,
    s3_thumb_path text,
    status video_status NOT NULL DEFAULT 'new',
    original_name text,
    original_size bigint CHECK (original_size >= 0),
    original_sha256 text CHECK (original_sha256 ~ '^[0-9a-f]{64}$'),
    original_etag text,
    original_state text CHECK (original_state IN ('present', 'replaced', 'missing')),
    original_state_at timestamptz,
    replaced_etag text,
    duplicate_of uuid REFERENCES videos ON DELETE SET NULL,
    registered_at timestamptz,
    ready_at timestamptz,
    container text,
    video_codec text,
    pixel_format text,
    rotation int CHECK (rotation IN (0, 90, 180, 270)),
    variable_frame_rate boolean,
    truncated boolean,
    audio_codec text,
    audio_channels int,
    audio_sample_rate int,
    description text CHECK (length(description) <= 5000),
    tags text[] NOT NULL DEFAULT '{}' CHECK (cardinality(tags) <= 50),
    recorded_at timestamptz,
    recorded_from text CHECK (recorded_from IN ('person', 'tag', 'name', 'name_zone', 'name_utc')),
    recorded_tag timestamptz,
    fields jsonb NOT NULL DEFAULT '{}' CHECK (jsonb_typeof(fields) = 'object' AND length(fields::text) <= 16384),
    created_at timestamptz NOT NULL DEFAULT now(),
    updated_at timestamptz NOT NULL DEFAULT now()
);
COMMENT ON TABLE videos IS 'One row a video: its owner, its original file, and what the pipeline made of it.';
COMMENT ON COLUMN videos.duration IS 'Seconds.';
COMMENT ON COLUMN videos.rotation IS 'By how many degrees clockwise a player turns the stored picture.';
COMMENT ON COLUMN videos.original_etag IS
    'ETag that the store gave to the bytes from which the results were made.';
COMMENT ON COLUMN videos.original_state IS
    'What the scanner found last: present, replaced (the object holds other bytes than those the results were made '
    'from) or missing; null: the scanner has not seen the original yet.';
COMMENT ON COLUMN videos.replaced_etag IS 'ETag of the bytes that replaced those of original_etag.';
COMMENT ON COLUMN videos.duplicate_of IS
    'The video of the same owner with the same bytes. A duplicate is not processed (status duplicate).';
COMMENT ON COLUMN videos.registered_at IS 'When the scanner found the original complete and started its run.';
COMMENT ON COLUMN videos.ready_at IS
    'When all stages of the video were last done; null: never. A video that was ready never becomes failed. Its text '
    'is found as soon as it is stored, which may be long before.';
COMMENT ON COLUMN videos.id IS 'Identifier, also part of every object key of the video.';
COMMENT ON COLUMN videos.owner_id IS
    'The user who owns the video, as in auth.uid(); null: without a team, only the service sees the video.';
COMMENT ON COLUMN videos.team_id IS 'The team that the video belongs to; its members can read the video, too.';
COMMENT ON COLUMN videos.platform IS 'Where the video comes from, as its owner calls it.';
COMMENT ON COLUMN videos.title IS 'The title shown to people.';
COMMENT ON COLUMN videos.description IS 'What its owner writes about it.';
COMMENT ON COLUMN videos.tags IS 'Words under which its owner files it, as clean_tags() leaves them; not the hashtags in its text.';
COMMENT ON COLUMN videos.recorded_at IS 'When its recording began; null: unknown.';
COMMENT ON COLUMN videos.recorded_from IS
    'Who says so: person, a tag of the file, the name of the file, name_zone, a name without a time zone, taken in that of the '
    'tenant, or name_utc, taken as UTC. What a person says is never replaced.';
COMMENT ON COLUMN videos.recorded_tag IS 'When its recording began, as tags of the file say, believable or not.';
COMMENT ON COLUMN videos.fields IS 'Fields of its owner''s own, such as {"camera": "GX80"}. Which they may be, its tenant may say (cortana.tenant_fields).';
COMMENT ON COLUMN videos.resolution IS 'Width and height of the upright picture in pixels: 1080x1920.';
COMMENT ON COLUMN videos.fps IS
    'Frames per second of the source; an average where variable_frame_rate is true.';
COMMENT ON COLUMN videos.s3_original_path IS 'Object key of the original.';
COMMENT ON COLUMN videos.s3_proxy_path IS 'Object key of the HLS playlist.';
COMMENT ON COLUMN videos.s3_thumb_path IS 'Object key of the poster frame.';
COMMENT ON COLUMN videos.status IS
    'new, processing, ready, failed or duplicate: the state of the video, not of its last job.';
COMMENT ON COLUMN videos.original_name IS 'File name of the upload.';
COMMENT ON COLUMN videos.original_size IS 'Bytes of the original.';
COMMENT ON COLUMN videos.original_sha256 IS
    'SHA-256 of the original in hexadecimal; null: not computed, because nothing has needed it yet.';
COMMENT ON COLUMN videos.original_state_at IS 'When original_state was set.';
COMMENT ON COLUMN videos.container IS 'Container format of the original, as FFmpeg names it.';
COMMENT ON COLUMN videos.video_codec IS 'Codec of the pictures, as FFmpeg names it.';
COMMENT ON COLUMN videos.pixel_format IS 'Pixel format of the pictures, as FFmpeg names it.';
COMMENT ON COLUMN videos.variable_frame_rate IS 'Whether the time between two frames of the source varies.';
COMMENT ON COLUMN videos.truncated IS
    'Whether the source is shorter than its header announces, for example after an interrupted download; the existing '
    'part is used.';
COMMENT ON COLUMN videos.audio_codec IS 'Codec of the sound, as FFmpeg names it; null: no sound.';
COMMENT ON COLUMN videos.audio_channels IS 'Channels of the sound.';
COMMENT ON COLUMN videos.audio_sample_rate IS 'Samples per second of the sound.';
COMMENT ON COLUMN videos.created_at IS 'When the row was made.';
COMMENT ON COLUMN videos.updated_at IS 'When the row was last changed.';

CREATE FUNCTION cortana.clean_tags(p_tags text[]) RETURNS text[]
LANGUAGE sql IMMUTABLE PARALLEL SAFE
RETURN ARRAY(SELECT min(t.tag) FROM (SELECT left(btrim(regexp_replace(tag, '[[:cntrl:][:space:],"]+', ' ', 'g'), ' #@'), 60) AS tag
                                     FROM unnest(p_tags) AS tag) AS t
             WHERE t.tag <> '' GROUP BY cortana.normal_form(t.tag) ORDER BY cortana.normal_form(t.tag));
COMMENT ON FUNCTION cortana.clean_tags IS
    'Tags in order, each once in whatever case, without commas, quotes and signs in front, at most 60 characters long.';

CREATE FUNCTION cortana.tag_keys(p_tags text[]) RETURNS text[]
LANGUAGE sql IMMUTABLE PARALLEL SAFE SET search_path = pg_catalog, public, cortana, extensions, pg_temp
RETURN ARRAY(SELECT cortana.normal_form(tag) FROM unnest(p_tags) AS tag);
COMMENT ON FUNCTION cortana.tag_keys IS 'The form in which tags are compared.';

CREATE FUNCTION cortana.field_keys(p_fields jsonb) RETURNS text[]
LANGUAGE sql IMMUTABLE PARALLEL SAFE SET search_path = pg_catalog, public, cortana, extensions, pg_temp
RETURN ARRAY(SELECT left(cortana.normal_form(form), 200) FROM jsonb_each_text(p_fields) AS f,
             LATERAL unnest(ARRAY[f.key, f.key || '=' || f.value]) AS form);
COMMENT ON FUNCTION cortana.field_keys IS 'The names of fields, and name=value of each, in the form in which they are compared.';

CREATE INDEX videos_fields ON videos USING gin (field_keys(fields)) WHERE fields <> '{}';
CREATE INDEX videos_tags ON videos USING gin (tag_keys(tags)) WHERE tags <> '{}';
CREATE INDEX videos_recorded ON videos (recorded_at) WHERE recorded_at IS NOT NULL;
-- The bytes of a tenant are added up from this index alone.
CREATE INDEX videos_tenant ON videos (coalesce(team_id, owner_id)) INCLUDE (team_id, owner_id, original_size, id);
CREATE INDEX videos_original_sha256 ON videos (original_sha256) WHERE original_sha256 IS NOT NULL;
CREATE INDEX videos_source ON videos
    USING gin (search_source(original_name, title, platform) gin_trgm_ops);
-- The scanner reads rows by the key of their original, in the order in which a store lists keys.
CREATE INDEX videos_original_key ON videos (s3_original_path COLLATE "C");
-- The scanner looks here for other originals of the same size, which may hold the same bytes.
CREATE INDEX videos_original_size ON videos (original_size, owner_id) WHERE original_size IS NOT NULL;
CREATE INDEX videos_duplicates ON videos (duplicate_of) WHERE duplicate_of IS NOT NULL;
-- Rows that were inserted before their upload arrived.
CREATE INDEX videos_awaited ON videos (created_at) WHERE registered_at IS NULL AND status = 'new';

SELECT secure_table('videos');
CREATE POLICY videos_read ON videos FOR SELECT TO authenticated
    USING (owner_id = (SELECT auth.uid())
           OR team_id = ANY ((SELECT current_team_ids())::uuid[]));
GRANT SELECT ON videos TO authenticated;

CREATE FUNCTION cortana.videos_before_update() RETURNS trigger
LANGUAGE plpgsql AS $$
BEGIN
    NEW.updated_at := now();
    IF NEW.status = 'ready' AND NEW.ready_at IS NULL THEN
        NEW.ready_at := clock_timestamp();
    END IF;
    RETURN NEW;
END
$$;
COMMENT ON FUNCTION cortana.videos_before_update IS
    'Trigger: sets videos.updated_at, and ready_at when a video becomes ready for the first time.';
-- A name of a file gets in here alone, whether by the API, by the scanner or by SQL.
CREATE FUNCTION cortana.clean_video_names() RETURNS trigger
LANGUAGE plpgsql AS $$
DECLARE
    turns CONSTANT text := '[\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069]+';
    controls CONSTANT text := '[\u0001-\u001f\u007f-\u009f\u2028\u2029]+';
BEGIN
    NEW.original_name := btrim(regexp_replace(regexp_replace(NEW.original_name, turns, '', 'g'), controls, ' ', 'g'));
    NEW.title := btrim(regexp_replace(regexp_replace(NEW.title, turns, '', 'g'), controls, ' ', 'g'));
    RETURN NEW;
END
$$;
COMMENT ON FUNCTION cortana.clean_video_names IS
    'Trigger: removes from the name and title of a video what turns the direction of a text, so that a name cannot look '
    'like another one, and writes a blank for control characters.';
CREATE TRIGGER videos_clean_names BEFORE INSERT OR UPDATE OF original_name, title ON videos
    FOR EACH ROW EXECUTE FUNCTION clean_video_names();

CREATE FUNCTION cortana.recording_time_in_name(p_name text, p_zone text, OUT recorded_at timestamptz, OUT recorded_from text)
LANGUAGE plpgsql STABLE STRICT PARALLEL SAFE AS $$
DECLARE
    at text[];
BEGIN
    -- day: year, month, day; clock: hour, minute, second
    SELECT m.parts, n.said INTO at, recorded_from
    FROM (VALUES (1, '\mRPReplay_Final()()()()()(\d{10})\M', 'name'),       -- iOS: seconds since 1970
                 (2, '\mGMTday-clock(?!\d)', 'name'),                       -- Zoom
                 (3, '\mPXL_day_clock\d{3}(?!\d)', 'name'),                 -- Pixel: UTC, with milliseconds
                 (4, '(?<!\d)day(?: at |[ ,T_-]{1,2})clock[\s\u202f]?([AP])M\M', 'name_zone'),   -- macOS with 12 hours
                 -- OBS, Android, macOS, Game Bar, Snipping Tool, GNOME, Xiaomi, Teams, dashcams
                 (5, '(?<!\d)day(?: at |[ ,T_-]{0,2})clock(?!\d)', 'name_zone')) AS n (place, pattern, said),
         regexp_match(p_name, replace(replace(n.pattern, 'day', '(20\d\d)[-_.]?([01]\d)[-_.]?([0-3]\d)'),
                                      'clock', '([012]?\d)[-.:_h]?([0-5]\d)[-.:_m]?([0-5]\d)')) AS m (parts)
    WHERE m.parts IS NOT NULL ORDER BY n.place LIMIT 1;
    recorded_at := CASE WHEN at[1] = '' THEN to_timestamp(at[6]::bigint)
                        ELSE make_timestamptz(at[1]::int, at[2]::int, at[3]::int,
                                              CASE WHEN at[7] IS NULL THEN at[4]::int ELSE at[4]::int % 12 + CASE at[7] WHEN 'P' THEN 12 ELSE 0 END END,
                                              at[5]::int, at[6]::int, CASE recorded_from WHEN 'name' THEN 'UTC' ELSE p_zone END) END;
    recorded_from := CASE WHEN recorded_from = 'name_zone' AND p_zone = 'UTC' THEN 'name_utc' ELSE recorded_from END;
EXCEPTION WHEN datetime_field_overflow THEN
    recorded_at := NULL;    -- digits that are no time
END
$$;
COMMENT ON FUNCTION cortana.recording_time_in_name IS
    'When a recording began by the file name that its recorder gave it, and what this time is (see videos.recorded_from). p_zone is '
    'the time zone of names that have none.';

CREATE FUNCTION cortana.find_recording_time() RETURNS trigger
LANGUAGE plpgsql SECURITY DEFINER AS $$
DECLARE
    -- Clocks that were never set say 1904, 1970 or 1980; a clock in local time may be hours ahead.
    earliest CONSTANT timestamptz := '1990-01-01 UTC';
    latest CONSTANT timestamptz := now() + interval '1 day';
BEGIN
    IF NEW.recorded_at IS DISTINCT FROM OLD.recorded_at AND NEW.recorded_from IS NOT DISTINCT FROM OLD.recorded_from THEN
        NEW.recorded_from := 'person';
    END IF;
    IF NEW.recorded_from = 'person' THEN
        RETURN NEW;
    END IF;
    NEW.recorded_at := NULL;
    NEW.recorded_from := NULL;
    SELECT f.* INTO NEW.recorded_at, NEW.recorded_from
    FROM (SELECT NEW.recorded_tag, 'tag' UNION ALL
          SELECT n.* FROM recording_time_in_name(NEW.original_name, coalesce(
                              (SELECT t.time_zone FROM tenants t WHERE t.id = coalesce(NEW.team_id, NEW.owner_id)), 'UTC')) AS n) AS f (found, said)
    WHERE f.found BETWEEN earliest AND latest ORDER BY f.said = 'tag' DESC LIMIT 1;
    RETURN NEW;
END
$$;
COMMENT ON FUNCTION cortana.find_recording_time IS
    'Trigger: finds when a video was recorded, by a tag of its file, else by its name, unless a person has said so. Times before '
    '1990 and in the future are not believed.';
CREATE TRIGGER videos_find_recording_time
    BEFORE INSERT OR UPDATE OF original_name, recorded_tag, recorded_at, recorded_from, owner_id, team_id ON videos
    FOR EACH ROW EXECUTE FUNCTION find_recording_time();

CREATE TRIGGER videos_before_update BEFORE UPDATE ON videos
    FOR EACH ROW EXECUTE FUNCTION videos_before_update();

-- ---- how people order videos ------------------------------------------------------------------------

CREATE TABLE cortana.collections (
    id uuid PRIMARY KEY DEFAULT gen_random_uuid(),
    owner_id uuid,
    team_id uuid,
    name text NOT NULL CHECK (length(name) BETWEEN 1 AND 200),
    description text CHECK (length(description) <= 5000),
    created_at timestamptz NOT NULL DEFAULT now(),
    updated_at timestamptz NOT NULL DEFAULT now()
);
COMMENT ON TABLE cortana.collections IS 'Collections of videos. A video may be in many; a collection has an order.';
COMMENT ON COLUMN collections.id IS 'Identifier.';
COMMENT ON COLUMN collections.owner_id IS 'Who made it; null: the service.';
COMMENT ON COLUMN collections.team_id IS 'The team whose members see it and change it, too; null: the owner alone.';
COMMENT ON COLUMN collections.name IS 'Its name, for people and for in:.';
COMMENT ON COLUMN collections.description IS 'What it is about.';
COMMENT ON COLUMN collections.created_at IS 'When it was made.';
COMMENT ON COLUMN collections.updated_at IS 'When it, or the list of its videos, was last changed.';
CREATE INDEX collections_owner ON cortana.collections (owner_id);
CREATE INDEX collections_team ON cortana.collections (team_id) WHERE team_id IS NOT NULL;
SELECT secure_table('collections');
CREATE POLICY collections_read ON cortana.collections FOR SELECT TO authenticated
    USING (owner_id = (SELECT auth.uid()) OR team_id = ANY ((SELECT current_team_ids())::uuid[]));

CREATE TABLE cortana.collection_videos (
    collection_id uuid NOT NULL REFERENCES cortana.collections ON DELETE CASCADE,
    video_id uuid NOT NULL REFERENCES videos ON DELETE CASCADE,
    place int NOT NULL,
    PRIMARY KEY (collection_id, video_id)
);
COMMENT ON TABLE cortana.collection_videos IS 'The videos of collections.';
COMMENT ON COLUMN collection_videos.collection_id IS 'The collection.';
COMMENT ON COLUMN collection_videos.video_id IS 'A video in it.';
COMMENT ON COLUMN collection_videos.place IS 'Its place in the order; places may have gaps.';
CREATE INDEX collection_videos_order ON cortana.collection_videos (collection_id, place, video_id);
CREATE INDEX collection_videos_video ON cortana.collection_videos (video_id);
SELECT secure_table('collection_videos');
CREATE POLICY collection_videos_read ON cortana.collection_videos FOR SELECT TO authenticated
    USING (EXISTS (SELECT FROM cortana.collections c WHERE c.id = collection_id)
           AND EXISTS (SELECT FROM videos v WHERE v.id = video_id));

CREATE TABLE cortana.favourites (
    user_id uuid NOT NULL,
    video_id uuid NOT NULL REFERENCES videos ON DELETE CASCADE,
    PRIMARY KEY (user_id, video_id)
);
COMMENT ON TABLE cortana.favourites IS 'The videos that a user has marked.';
COMMENT ON COLUMN favourites.user_id IS 'The user; zeros: the service.';
COMMENT ON COLUMN favourites.video_id IS 'The video.';
CREATE INDEX favourites_video ON cortana.favourites (video_id);
SELECT secure_table('favourites');
CREATE POLICY favourites_read ON cortana.favourites FOR SELECT TO authenticated USING (user_id = (SELECT auth.uid()));
GRANT SELECT ON cortana.collections, cortana.collection_videos, cortana.favourites TO authenticated;

CREATE FUNCTION cortana.is_favourite(p_video_id uuid) RETURNS boolean
LANGUAGE sql STABLE
RETURN EXISTS (SELECT FROM cortana.favourites f WHERE f.video_id = p_video_id
               AND f.user_id = coalesce(auth.uid(), '00000000-0000-0000-0000-000000000000'));
COMMENT ON FUNCTION cortana.is_favourite IS 'Whether the caller has marked a video.';

-- ---- who may call what --------------------------------------------------------------------------

SELECT secure_objects();
GRANT EXECUTE ON FUNCTION cortana.clean_tags, cortana.tag_keys, cortana.field_keys, cortana.is_favourite TO authenticated;
GRANT EXECUTE ON FUNCTION cortana.fold_case, cortana.normal_form, cortana.text_hash TO authenticated;
