-- Videos and their objects: how uploads become videos, what happens when an original changes or disappears, and how
-- the objects of a deleted video are removed. A scanner, in any language, calls these functions; several scanners
-- may call them at the same time.

-- ---- uploads ------------------------------------------------------------------------------------

CREATE TABLE cortana.uploads (
    key text PRIMARY KEY,
    size bigint,
    etag text,
    due_at timestamptz NOT NULL,
    tries int NOT NULL DEFAULT 0,
    video_id uuid,
    refused text,
    found_at timestamptz NOT NULL DEFAULT now()
);
COMMENT ON TABLE cortana.uploads IS
    'Objects that the scanner has found but not yet registered. The scanner checks each object a second time, and '
    'registers it if size and ETag have not changed.';
COMMENT ON COLUMN cortana.uploads.etag IS
    'ETag at the last check; null: the upload was announced as complete and is registered at the first check.';
COMMENT ON COLUMN cortana.uploads.due_at IS 'When the scanner checks the object next.';
COMMENT ON COLUMN cortana.uploads.tries IS 'How many checks failed.';
COMMENT ON COLUMN cortana.uploads.video_id IS 'The video of an object that is being moved out of the inbox.';
COMMENT ON COLUMN cortana.uploads.refused IS 'Why the object is refused; it stays where it is. Null: not refused.';

CREATE INDEX uploads_due ON uploads (due_at) WHERE refused IS NULL;

SELECT secure_table('uploads');

CREATE FUNCTION cortana.videos_lose_twin() RETURNS trigger
LANGUAGE plpgsql SECURITY DEFINER AS $$
BEGIN
    NEW.status := 'new';
    NEW.registered_at := NULL;
    INSERT INTO uploads (key, due_at) VALUES (NEW.s3_original_path, clock_timestamp())
    ON CONFLICT (key) DO NOTHING;
    RETURN NEW;
END
$$;
COMMENT ON FUNCTION cortana.videos_lose_twin IS
    'Trigger: when the video that a duplicate refers to is deleted, the duplicate becomes a new video, which the '
    'scanner registers.';
CREATE TRIGGER videos_lose_twin BEFORE UPDATE ON videos
    FOR EACH ROW WHEN (OLD.duplicate_of IS NOT NULL AND NEW.duplicate_of IS NULL
                       AND NEW.status = 'duplicate')
    EXECUTE FUNCTION videos_lose_twin();

CREATE TABLE cortana.scan_positions (
    name text PRIMARY KEY,
    position text NOT NULL DEFAULT '',
    rounds bigint NOT NULL DEFAULT 0,
    updated_at timestamptz NOT NULL DEFAULT now()
);
COMMENT ON TABLE cortana.scan_positions IS
    'How far the scanner has read a list of objects that is too long to be read at once.';
COMMENT ON COLUMN cortana.scan_positions.position IS 'The last key that was read; '''' is the beginning of the list.';
COMMENT ON COLUMN cortana.scan_positions.rounds IS 'How often the end of the list was reached.';

SELECT secure_table('scan_positions');

CREATE FUNCTION time_ordered_uuid() RETURNS uuid
LANGUAGE sql VOLATILE AS $$
    SELECT (lpad(to_hex((extract(epoch FROM clock_timestamp()) * 1000)::bigint), 12, '0') || '7'
            || substr(replace(gen_random_uuid()::text, '-', ''), 14))::uuid
$$;
COMMENT ON FUNCTION time_ordered_uuid IS
    'Returns an id that begins with the time (UUID version 7), so that new objects are next to each other in the '
    'list of a store.';

CREATE TABLE cortana.installation (
    is_only boolean PRIMARY KEY DEFAULT true CHECK (is_only),
    owner_id uuid NOT NULL
);
COMMENT ON TABLE cortana.installation IS
    'One row: who owns the videos that name no owner. It comes with a backup, so that an installation that is made '
    'anew, or restored elsewhere, keeps its owner.';
COMMENT ON COLUMN cortana.installation.owner_id IS 'As in the setting CORTANA_OWNER.';

SELECT secure_table('installation');

-- ---- room of tenants ----------------------------------------------------------------------------

CREATE TABLE cortana.tenant_limits (
    tenant_id uuid UNIQUE NULLS NOT DISTINCT,
    max_bytes bigint NOT NULL CHECK (max_bytes >= 0)
);
COMMENT ON TABLE cortana.tenant_limits IS
    'How many bytes of originals a tenant may store, uploads that were announced included.';
COMMENT ON COLUMN cortana.tenant_limits.tenant_id IS 'Null: every tenant that has no row of its own.';

SELECT secure_table('tenant_limits');

CREATE FUNCTION limit_tenant(p_tenant_id uuid, p_max_bytes bigint) RETURNS void
LANGUAGE plpgsql AS $$
BEGIN
    IF p_max_bytes IS NULL THEN
        DELETE FROM tenant_limits WHERE tenant_id IS NOT DISTINCT FROM p_tenant_id;
    ELSE
        INSERT INTO tenant_limits (tenant_id, max_bytes) VALUES (p_tenant_id, p_max_bytes)
        ON CONFLICT (tenant_id) DO UPDATE SET max_bytes = excluded.max_bytes;
    END IF;
END
$$;
COMMENT ON FUNCTION limit_tenant IS
    'Limits the bytes of originals that a tenant may store; without a tenant, those of every tenant that has no limit '
    'of its own. Null bytes remove the limit. What is stored already stays.';

CREATE FUNCTION cortana.tenant_bytes(p_tenant_id uuid, p_without uuid DEFAULT NULL) RETURNS bigint
LANGUAGE plpgsql STABLE AS $$
BEGIN
    RETURN (SELECT coalesce(sum(v.original_size), 0) FROM videos v
            WHERE coalesce(v.team_id, v.owner_id) = p_tenant_id AND v.id IS DISTINCT FROM p_without)
         + (SELECT coalesce(sum(s.size), 0) FROM videos v JOIN upload_sessions s ON s.id = v.id
            WHERE coalesce(v.team_id, v.owner_id) = p_tenant_id AND v.id IS DISTINCT FROM p_without
              AND v.original_size IS NULL);
END
$$;
COMMENT ON FUNCTION cortana.tenant_bytes IS
    'Returns the bytes of the originals of a tenant, and of its uploads that are announced or under way; without those '
    'of one video.';

CREATE FUNCTION cortana.tenant_max_bytes(p_tenant_id uuid) RETURNS bigint
LANGUAGE sql STABLE AS $$
    SELECT max_bytes FROM tenant_limits WHERE tenant_id = p_tenant_id OR tenant_id IS NULL
    ORDER BY tenant_id NULLS LAST LIMIT 1
$$;
COMMENT ON FUNCTION cortana.tenant_max_bytes IS
    'Returns the limit of the bytes that a tenant may store; null: there is none.';

CREATE FUNCTION cortana.tenant_room(p_tenant_id uuid, p_without uuid DEFAULT NULL) RETURNS bigint
LANGUAGE plpgsql AS $$
DECLARE
    most CONSTANT bigint := tenant_max_bytes(p_tenant_id);
BEGIN
    IF p_tenant_id IS NULL OR most IS NULL THEN
        RETURN NULL;
    END IF;
    PERFORM acquire_lock('room of tenants ' || abs(hashtextextended(p_tenant_id::text, 0) % 64));
    RETURN greatest(most - tenant_bytes(p_tenant_id, p_without), 0);
END
$$;
COMMENT ON FUNCTION cortana.tenant_room IS
    'Returns how many bytes a tenant may still store, beside those of one video; null: as many as it likes. A lock '
    'ensures that two files that come at the same time do not use the same room.';

-- ---- subtitles beside a video --------------------------------------------------------------------

INSERT INTO job_types (name, description, base_priority, time_limit, payload_schema) VALUES
    ('subtitles', 'a file of subtitles beside a video', 5, '10 minutes',
     '{"required": ["video_id", "subtitles", "etag"], "properties": {"video_id": {"type": "string", "format": "uuid"},
       "subtitles": {"type": "string", "minLength": 1}, "etag": {"type": "string"}}}');

CREATE TABLE cortana.subtitle_files (
    video_id uuid NOT NULL REFERENCES videos ON DELETE CASCADE,
    name text NOT NULL,
    size bigint NOT NULL,
    etag text NOT NULL,
    found_at timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (video_id, name)
);
COMMENT ON TABLE cortana.subtitle_files IS
    'Files of subtitles that lie beside an original, as they were when their newest job was enqueued.';
COMMENT ON COLUMN cortana.subtitle_files.name IS
    'master.srt, master.en.vtt: the last part of the key. It is segments.detected_by of the lines.';

SELECT secure_table('subtitle_files');

CREATE FUNCTION cortana.subtitle_ending(p_name text) RETURNS text
LANGUAGE sql IMMUTABLE PARALLEL SAFE
RETURN lower(substring(p_name FROM '((?:\.[A-Za-z]{2,3}(?:[-_][A-Za-z0-9]{2,8}){0,2})?(?:\.(?:forced|sdh|cc))?\.(?:[Ss][Rr][Tt]|[Vv][Tt][Tt]|[Aa][Ss][Ss]|[Ss][Ss][Aa]))$'));
COMMENT ON FUNCTION cortana.subtitle_ending IS
    'What the name of a file of subtitles has behind the name of its video, in lower case: .srt, .en.vtt, .pt-br.forced.ass. '
    'Null: the file has no subtitles.';

CREATE FUNCTION cortana.find_place_of_subtitles(p_name text, p_owner_id uuid, p_team_id uuid) RETURNS text
LANGUAGE sql STABLE AS $$
    SELECT format('videos/original/%s/master%s', coalesce(v.duplicate_of, v.id), lower(rest))
    FROM videos v, regexp_replace(v.original_name, '\.[^.]*$', '') AS stem, substr(p_name, length(stem) + 1) AS rest
    WHERE v.owner_id IS NOT DISTINCT FROM p_owner_id AND v.team_id IS NOT DISTINCT FROM p_team_id
      AND starts_with(p_name, stem) AND subtitle_ending(rest) = lower(rest)
    ORDER BY v.created_at DESC, v.id LIMIT 1
$$;
COMMENT ON FUNCTION cortana.find_place_of_subtitles IS
    'Returns the key for a file of subtitles: beside the newest video of its owner that has the same name before the ending; '
    'null: there is none.';

CREATE FUNCTION cortana.register_subtitles(p_key text, p_size bigint, p_etag text, OUT outcome text, OUT job_id uuid)
LANGUAGE plpgsql AS $$
DECLARE
    video CONSTANT uuid := split_part(p_key, '/', 3);
    file CONSTANT text := split_part(p_key, '/', 4);
    wanted CONSTANT text := concat_ws(':', 'subtitles', video, file, p_etag);
BEGIN
    LOCK TABLE jobs IN ROW EXCLUSIVE MODE; -- before a video's row: see videos_before_deletes()
    IF NOT EXISTS (SELECT FROM videos WHERE id = video FOR KEY SHARE) THEN
        outcome := 'waits';
        RETURN;
    END IF;
    INSERT INTO subtitle_files AS f (video_id, name, size, etag) VALUES (video, file, p_size, p_etag)
    ON CONFLICT (video_id, name) DO UPDATE SET size = excluded.size, etag = excluded.etag, found_at = now()
    WHERE (f.size, f.etag) IS DISTINCT FROM (excluded.size, excluded.etag);
    outcome := CASE WHEN FOUND THEN 'new' ELSE 'known' END;
    IF outcome = 'new' THEN
        INSERT INTO jobs (job_type, payload, video_id, tenant_id, priority, dedupe_key)
        SELECT 'subtitles', jsonb_build_object('video_id', v.id, 'subtitles', p_key, 'etag', p_etag), v.id,
               coalesce(v.team_id, v.owner_id), t.base_priority, wanted
        FROM videos v, job_types t WHERE v.id = video AND t.name = 'subtitles'
        ON CONFLICT DO NOTHING;
    END IF;
    SELECT j.id INTO job_id FROM jobs j WHERE j.dedupe_key = wanted ORDER BY j.created_at DESC, j.id LIMIT 1;
    DELETE FROM uploads WHERE key = p_key;
END
$$;
COMMENT ON FUNCTION cortana.register_subtitles IS
    'Records a complete file of subtitles, and enqueues the job that reads it. The outcome is ''new'', ''known'' (the file is '
    'as it was), or ''waits'' (there is no such video yet, and nothing was done). job_id is the newest job of this file.';

CREATE FUNCTION cortana.videos_wake_subtitles() RETURNS trigger
LANGUAGE plpgsql SECURITY DEFINER AS $$
BEGIN
    UPDATE uploads u SET refused = NULL, due_at = clock_timestamp()
    WHERE u.refused IS NOT NULL AND subtitle_ending(u.key) IS NOT NULL
      AND (starts_with(u.key, 'videos/original/' || NEW.id || '/')
           OR position('/' || regexp_replace(NEW.original_name, '\.[^.]*$', '') || '.' IN u.key) > 0);
    RETURN NULL;
END
$$;
COMMENT ON FUNCTION cortana.videos_wake_subtitles IS
    'Trigger: files of subtitles that came before their video are looked at again.';
CREATE TRIGGER videos_wake_subtitles AFTER INSERT ON videos
    FOR EACH ROW EXECUTE FUNCTION videos_wake_subtitles();

-- ---- files that arrive --------------------------------------------------------------------------

CREATE FUNCTION cortana.record_objects(p_objects jsonb, p_settle interval) RETURNS bigint
LANGUAGE plpgsql AS $$
DECLARE
    news bigint;
BEGIN
    INSERT INTO uploads AS u (key, size, etag, due_at)
    SELECT o.key, o.size, o.etag, clock_timestamp() + p_settle
    FROM jsonb_to_recordset(p_objects) AS o (key text, size bigint, etag text, video_id uuid)
    LEFT JOIN videos v ON v.id = o.video_id
    LEFT JOIN subtitle_files f ON f.video_id = o.video_id AND f.name = split_part(o.key, '/', 4)
    WHERE v.id IS NULL
       OR CASE WHEN subtitle_ending(o.key) IS NOT NULL THEN (o.size, o.etag) IS DISTINCT FROM (f.size, f.etag)
               ELSE v.s3_original_path IS NULL
                    OR v.s3_original_path = o.key
                       AND (v.registered_at IS NULL OR v.original_state = 'missing'
                            OR (o.size, o.etag) IS DISTINCT FROM
                               (CASE WHEN v.replaced_etag IS NULL THEN v.original_size ELSE o.size END,
                                coalesce(v.replaced_etag, v.original_etag))) END
    ORDER BY o.key
    ON CONFLICT (key) DO UPDATE SET
        size = excluded.size, etag = excluded.etag, due_at = excluded.due_at, tries = 0, refused = NULL
    WHERE (u.size, u.etag) IS DISTINCT FROM (excluded.size, excluded.etag) AND u.etag IS NOT NULL;
    GET DIAGNOSTICS news = ROW_COUNT;
    RETURN news;
END
$$;
COMMENT ON FUNCTION cortana.record_objects IS
    'Records objects that the scanner has found in a list: [{key, size, etag, video_id}], with video_id for those '
    'under videos/original/. Objects that are new or have changed are checked a second time after p_settle. Returns '
    'how many are new or changed.';

CREATE FUNCTION announce_upload(p_key text) RETURNS void
LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO uploads AS u (key, due_at) VALUES (p_key, clock_timestamp())
    ON CONFLICT (key) DO UPDATE SET
        size = NULL, etag = NULL, due_at = excluded.due_at, tries = 0, refused = NULL;
    PERFORM pg_notify('cv_uploads', '');
END
$$;
COMMENT ON FUNCTION announce_upload IS
    'Tells the scanner that an upload is complete, so that it checks the object at once. The scanner trusts only what '
    'it finds in the store, so that every user who may write to the store may call this.';

CREATE TABLE cortana.object_events (
    id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    event jsonb NOT NULL
);
COMMENT ON TABLE cortana.object_events IS
    'Events of an object store as an API received them (from a webhook, a queue or a cloud function), in any form '
    'that the scanner knows. Each event stays until a scanner has read it.';

SELECT secure_table('object_events');

CREATE FUNCTION accept_object_event(p_event jsonb) RETURNS void
LANGUAGE plpgsql SECURITY DEFINER AS $$
DECLARE
    largest constant int := 1024 * 1024;
    most constant bigint := 100000;
BEGIN
    IF p_event IS NULL OR jsonb_typeof(p_event) <> 'object' THEN
        RAISE EXCEPTION 'an event of the store must be a JSON object' USING ERRCODE = 'invalid_parameter_value';
    ELSIF octet_length(p_event::text) > largest THEN
        RAISE EXCEPTION 'an event of the store may have at most % bytes', largest
            USING ERRCODE = 'program_limit_exceeded';
    ELSIF (SELECT max(id) - min(id) FROM object_events) >= most THEN
        RAISE EXCEPTION 'more than % events of the store wait for a scanner', most
            USING ERRCODE = 'configuration_limit_exceeded', HINT = 'Start a scanner: scanner-worker --interval.';
    END IF;
    INSERT INTO object_events (event) VALUES (p_event);
    PERFORM pg_notify('cv_uploads', '');
END
$$;
COMMENT ON FUNCTION accept_object_event IS
    'Passes an event of the object store, in any form that the scanner knows, to the scanner. The scanner trusts only '
    'what it finds in the store, so that it does not matter who sent the event. Refuses an event of more than 1 MiB '
    '(54000), an event that is not a JSON object (22023), and all events while 100,000 events wait (53400), because '
    'then no scanner is running.';

CREATE FUNCTION cortana.due_uploads(p_limit int) RETURNS SETOF uploads
LANGUAGE sql STABLE AS $$
    SELECT * FROM uploads WHERE refused IS NULL AND due_at <= clock_timestamp()
    ORDER BY due_at, key LIMIT p_limit
$$;
COMMENT ON FUNCTION cortana.due_uploads IS
    'Returns the uploads that the scanner must check now. The rows are not locked, because two scanners that check '
    'the same object come to the same result.';

CREATE FUNCTION cortana.postpone_upload(p_key text, p_size bigint, p_etag text, p_settle interval) RETURNS void
LANGUAGE sql AS $$
    UPDATE uploads SET size = p_size, etag = p_etag, due_at = clock_timestamp() + p_settle, tries = 0
    WHERE key = p_key
$$;
COMMENT ON FUNCTION cortana.postpone_upload IS
    'Schedules another check of an upload whose size or ETag has changed since the last check.';

CREATE FUNCTION cortana.retry_upload(p_key text) RETURNS void
LANGUAGE sql AS $$
    UPDATE uploads SET tries = tries + 1,
                       due_at = clock_timestamp() + least(interval '1 minute' * (2 ^ least(tries, 10)),
                                                          interval '1 hour')
    WHERE key = p_key
$$;
COMMENT ON FUNCTION cortana.retry_upload IS
    'Schedules another check of an upload whose check failed: after a minute at first, then after longer delays of '
    'up to an hour.';

CREATE FUNCTION cortana.refuse_upload(p_key text, p_reason text) RETURNS boolean
LANGUAGE plpgsql AS $$
BEGIN
    UPDATE uploads SET refused = p_reason WHERE key = p_key AND refused IS NULL;
    RETURN FOUND;
END
$$;
COMMENT ON FUNCTION cortana.refuse_upload IS
    'Records why an upload is refused; the object stays where it is. Returns true if the upload was not refused for '
    'this reason before.';

CREATE FUNCTION cortana.prepare_upload(p_key text, p_owner_id uuid, p_team_id uuid, p_name text,
                               p_extension text, OUT video_id uuid, OUT original_key text)
RETURNS SETOF record
LANGUAGE plpgsql AS $$
DECLARE
    upload uploads;
    kept text;
BEGIN
    PERFORM set_config('cortana.source', 'scanner', true);
    SELECT * INTO upload FROM uploads u WHERE u.key = p_key FOR UPDATE;
    IF NOT FOUND THEN
        RETURN;
    END IF;
    video_id := upload.video_id;
    SELECT v.s3_original_path INTO kept FROM videos v WHERE v.id = video_id;
    IF kept IS NULL THEN
        video_id := time_ordered_uuid();
        kept := format('videos/original/%s/master.%s', video_id, p_extension);
        INSERT INTO videos (id, owner_id, team_id, s3_original_path, original_name, title)
        VALUES (video_id, p_owner_id, p_team_id, kept, p_name, p_name);
        UPDATE uploads u SET video_id = prepare_upload.video_id WHERE u.key = p_key;
    END IF;
    original_key := kept;
    RETURN NEXT;
END
$$;
COMMENT ON FUNCTION cortana.prepare_upload IS
    'Creates the video of an inbox object before the object is moved, so that every object under videos/original/ has '
    'a row that names its owner. Repeated calls return the same id. Returns no row if another scanner has already '
    'registered the object.';

CREATE FUNCTION cortana.video_event(p_video_id uuid, p_level text, p_type text, p_message text, p_data jsonb)
RETURNS void
LANGUAGE sql AS $$
    INSERT INTO task_events (video_id, source, level, type, message, data)
    VALUES (p_video_id, event_source(), p_level, p_type, p_message, p_data)
$$;
COMMENT ON FUNCTION cortana.video_event IS 'Writes an event of a video to the timeline.';

CREATE FUNCTION cortana.find_twin(p_video videos, p_size bigint, p_etag text, p_sha256 text,
                          OUT verdict text, OUT twin_id uuid)
LANGUAGE plpgsql AS $$
DECLARE
    other videos;
BEGIN
    PERFORM acquire_lock('originals ' || abs(hashtextextended(
        concat_ws('/', p_video.owner_id, p_video.team_id, p_size), 0) % 64));
    verdict := 'none';
    FOR other IN
        SELECT * FROM videos v
        WHERE v.original_size = p_size AND v.id <> p_video.id
          AND v.owner_id IS NOT DISTINCT FROM p_video.owner_id
          AND v.team_id IS NOT DISTINCT FROM p_video.team_id
          AND (v.registered_at IS NOT NULL OR v.status IN ('processing', 'ready'))
          AND v.duplicate_of IS NULL AND v.status <> 'failed'
          AND coalesce(v.original_state, 'present') = 'present'
        ORDER BY v.created_at, v.id
    LOOP
        IF other.original_etag = p_etag OR other.original_sha256 = p_sha256 THEN
            verdict := 'found';
            twin_id := other.id;
            RETURN;
        ELSIF other.original_sha256 IS NULL OR p_sha256 IS NULL THEN
            verdict := 'unknown';
        END IF;
    END LOOP;
END
$$;
COMMENT ON FUNCTION cortana.find_twin IS
    'Looks for another video of the same owner and team with the same bytes. Returns ''none'', ''unknown'' (the SHA-256 '
    'is needed), or ''found'' and the id of that video. A lock ensures that two videos that are registered at the same '
    'time find each other.';

CREATE FUNCTION cortana.register_original(
    p_key text, p_video_id uuid, p_size bigint, p_etag text, p_sha256 text DEFAULT NULL,
    p_owner_id uuid DEFAULT NULL, p_team_id uuid DEFAULT NULL, p_name text DEFAULT NULL,
    p_upload_key text DEFAULT NULL) RETURNS text
LANGUAGE plpgsql AS $$
DECLARE
    video videos;
    outcome text;
BEGIN
    LOCK TABLE jobs IN ROW EXCLUSIVE MODE; -- before a video's row: see videos_before_deletes()
    PERFORM set_config('cortana.source', 'scanner', true);
    IF NOT EXISTS (SELECT FROM videos WHERE id = p_video_id)
       AND EXISTS (SELECT FROM object_removals r WHERE r.video_id = p_video_id) THEN
        PERFORM remove_objects_again(p_video_id);
        outcome := 'removed';
    ELSE
        INSERT INTO videos (id, owner_id, team_id, s3_original_path, original_name, title)
        VALUES (p_video_id, p_owner_id, p_team_id, p_key, p_name, p_name)
        ON CONFLICT (id) DO NOTHING;
        SELECT * INTO video FROM videos WHERE id = p_video_id FOR NO KEY UPDATE;
        IF NOT FOUND THEN
            RETURN 'known'; -- the video has just been deleted: the next check finds its state
        END IF;
        IF coalesce(video.s3_original_path, p_key) <> p_key THEN
            outcome := 'other';
        ELSIF video.registered_at IS NULL
              AND tenant_room(coalesce(video.team_id, video.owner_id), video.id) < p_size THEN
            outcome := 'no room';
            IF EXISTS (SELECT FROM uploads WHERE key IN (p_key, p_upload_key) AND tries = 0) THEN
                PERFORM video_event(p_video_id, 'warn', 'original',
                    'the owner may not store so many bytes: the video is imported when there is room',
                    jsonb_build_object('size', p_size,
                        'max_bytes', tenant_max_bytes(coalesce(video.team_id, video.owner_id))));
            END IF;
            PERFORM retry_upload(key) FROM uploads WHERE key IN (p_key, p_upload_key);
        ELSIF video.registered_at IS NULL THEN
            outcome := register_video(video, p_key, p_size, p_etag, p_sha256);
        ELSE
            outcome := compare_original(video, p_key, p_size, p_etag, p_sha256);
        END IF;
    END IF;
    IF outcome NOT IN ('digest', 'no room') THEN
        DELETE FROM uploads WHERE key IN (p_key, p_upload_key);
    END IF;
    RETURN outcome;
END
$$;
COMMENT ON FUNCTION cortana.register_original IS
    'Registers the complete original at p_key. Creates the video if it does not exist, starts its first run, and '
    'deletes its entry in cortana.uploads. Owner, team and name are used only for a new row. Returns ''new'' (the run '
    'has started), ''known'' (nothing has changed), ''duplicate'' (another video has the same bytes), ''replaced'' '
    '(the object holds other bytes than those the results were made from), ''removed'' (the video was deleted, and '
    'this object will be removed), ''other'' (the row of the video names another key), ''no room'' (its tenant may not '
    'store so many bytes; the upload is checked again later) or ''digest'' (nothing was done, because the SHA-256 is '
    'needed: call again with it).';

CREATE FUNCTION cortana.register_video(p_video videos, p_key text, p_size bigint, p_etag text, p_sha256 text)
RETURNS text
LANGUAGE plpgsql AS $$
DECLARE
    is_started boolean := EXISTS (SELECT FROM jobs WHERE video_id = p_video.id);
    twin record;
BEGIN
    SELECT * INTO twin FROM find_twin(p_video, p_size, p_etag, p_sha256);
    IF twin.verdict = 'unknown' AND NOT is_started THEN
        RETURN 'digest';
    END IF;
    UPDATE videos SET
        s3_original_path = p_key, original_size = p_size, original_etag = p_etag,
        original_sha256 = coalesce(p_sha256, original_sha256), registered_at = clock_timestamp(),
        original_state = 'present', original_state_at = clock_timestamp(), replaced_etag = NULL
    WHERE id = p_video.id;
    IF is_started THEN
        RETURN 'known';
    ELSIF twin.verdict = 'found' THEN
        UPDATE videos SET status = 'duplicate', duplicate_of = twin.twin_id WHERE id = p_video.id;
        PERFORM video_event(p_video.id, 'info', 'duplicate',
                            format('the same bytes as video %s', twin.twin_id),
                            jsonb_build_object('duplicate_of', twin.twin_id));
        RETURN 'duplicate';
    END IF;
    PERFORM start_run('video_pipeline', '{}', p_video.id);
    RETURN 'new';
END
$$;
COMMENT ON FUNCTION cortana.register_video IS
    'Registers a video that is not registered yet; the caller has locked its row. For register_original() only.';

CREATE FUNCTION cortana.compare_original(p_video videos, p_key text, p_size bigint, p_etag text, p_sha256 text)
RETURNS text
LANGUAGE plpgsql AS $$
BEGIN
    IF p_etag IS DISTINCT FROM p_video.original_etag AND p_size = p_video.original_size
       AND p_video.original_sha256 IS NOT NULL AND p_sha256 IS NULL THEN
        RETURN 'digest'; -- after a store was moved, the same bytes may have another ETag
    END IF;
    IF p_etag = p_video.original_etag
       OR p_size = p_video.original_size AND p_sha256 = p_video.original_sha256
       -- no results were made from the old bytes yet: use the new ones
       OR NOT EXISTS (SELECT FROM jobs WHERE video_id = p_video.id
                                         AND (attempt > 0 OR status <> 'queued'))
          AND p_video.status = 'new' THEN
        UPDATE videos SET original_size = p_size, original_etag = p_etag, original_state = 'present',
                          original_sha256 = CASE WHEN p_etag = original_etag
                                                 THEN coalesce(p_sha256, original_sha256)
                                                 ELSE p_sha256 END,
                          original_state_at = clock_timestamp(), replaced_etag = NULL
        WHERE id = p_video.id;
        IF p_video.original_state <> 'present' THEN
            PERFORM video_event(p_video.id, 'info', 'original', 'the original is back',
                                jsonb_build_object('key', p_key));
        END IF;
        RETURN 'known';
    END IF;
    IF p_video.original_state = 'replaced' AND p_video.replaced_etag = p_etag THEN
        RETURN 'replaced';
    END IF;
    UPDATE videos SET original_state = 'replaced', replaced_etag = p_etag,
                      original_state_at = clock_timestamp()
    WHERE id = p_video.id;
    PERFORM video_event(p_video.id, 'warn', 'original',
        'the original was overwritten; the results were made from the old bytes',
        jsonb_build_object('key', p_key, 'etag', p_etag, 'size', p_size,
                           'old_etag', p_video.original_etag, 'old_size', p_video.original_size));
    RETURN 'replaced';
END
$$;
COMMENT ON FUNCTION cortana.compare_original IS
    'Compares the original of a registered video with what was recorded; the caller has locked its row. For '
    'register_original() only.';

CREATE FUNCTION cortana.undigested_twins(p_video_id uuid, p_size bigint) RETURNS TABLE (id uuid, key text)
LANGUAGE sql STABLE AS $$
    SELECT v.id, v.s3_original_path
    FROM videos v JOIN videos o ON o.id = p_video_id
    WHERE v.original_size = p_size AND v.id <> o.id AND v.original_sha256 IS NULL
      AND v.owner_id IS NOT DISTINCT FROM o.owner_id AND v.team_id IS NOT DISTINCT FROM o.team_id
      AND (v.registered_at IS NOT NULL OR v.status IN ('processing', 'ready'))
      AND v.duplicate_of IS NULL AND v.status <> 'failed'
      AND coalesce(v.original_state, 'present') = 'present'
$$;
COMMENT ON FUNCTION cortana.undigested_twins IS
    'Returns the originals that have the same size and owner as the original of this video and whose SHA-256 is not '
    'known.';

CREATE FUNCTION cortana.unseen_originals(p_after text, p_until text, p_seen text[], p_limit int)
RETURNS TABLE (id uuid, key text)
LANGUAGE sql STABLE AS $$
    SELECT v.id, v.s3_original_path FROM videos v
    WHERE v.s3_original_path COLLATE "C" > p_after
      AND (p_until IS NULL OR v.s3_original_path COLLATE "C" <= p_until)
      AND starts_with(v.s3_original_path, 'videos/original/')
      AND v.original_state IN ('present', 'replaced')
      AND NOT EXISTS (SELECT FROM unnest(p_seen) AS seen (key) WHERE seen.key = v.s3_original_path)
    ORDER BY v.s3_original_path COLLATE "C" LIMIT p_limit
$$;
COMMENT ON FUNCTION cortana.unseen_originals IS
    'Returns the videos whose original is missing from the list of keys between two keys (p_after < key <= p_until; '
    ''''' and null: no bound).';

CREATE FUNCTION cortana.mark_original_missing(p_video_id uuid, p_key text) RETURNS boolean
LANGUAGE plpgsql AS $$
BEGIN
    PERFORM set_config('cortana.source', 'scanner', true);
    UPDATE videos SET original_state = 'missing', original_state_at = clock_timestamp()
    WHERE id = p_video_id AND s3_original_path = p_key AND registered_at IS NOT NULL
      AND original_state <> 'missing';
    IF FOUND THEN
        PERFORM video_event(p_video_id, 'warn', 'original', 'the original is gone from the store',
                            jsonb_build_object('key', p_key));
    END IF;
    RETURN FOUND;
END
$$;
COMMENT ON FUNCTION cortana.mark_original_missing IS
    'Records that the original of a video is missing from the store. The results are kept, because the text is still '
    'correct. Returns true if the original was not known to be missing.';

CREATE FUNCTION reprocess_video(p_video_id uuid) RETURNS uuid
LANGUAGE plpgsql AS $$
BEGIN
    LOCK TABLE jobs IN ROW EXCLUSIVE MODE; -- before a video's row: see videos_before_deletes()
    UPDATE videos SET
        original_sha256 = CASE WHEN replaced_etag IS NULL THEN original_sha256 END,
        original_size = CASE WHEN replaced_etag IS NULL THEN original_size END,
        original_etag = coalesce(replaced_etag, original_etag), replaced_etag = NULL,
        original_state = CASE WHEN original_state = 'replaced' THEN 'present' ELSE original_state END,
        duplicate_of = NULL, registered_at = coalesce(registered_at, clock_timestamp())
    WHERE id = p_video_id;
    IF NOT FOUND THEN
        RAISE EXCEPTION 'video % does not exist', p_video_id USING ERRCODE = 'no_data_found';
    END IF;
    RETURN (SELECT run_id FROM start_run('video_pipeline', '{}', p_video_id));
END
$$;
COMMENT ON FUNCTION reprocess_video IS
    'Processes a video again from its original as it is in the store now. Returns the id of the run.';

-- ---- deletion -----------------------------------------------------------------------------------

INSERT INTO job_types (name, description, base_priority, time_limit, retry_delays) VALUES
    ('object_remove', 'the objects of a deleted video', 1, '1 hour',
     '{1 minute,5 minutes,15 minutes,1 hour,6 hours}');

CREATE TABLE cortana.object_removals (
    video_id uuid PRIMARY KEY,
    tenant_id uuid,
    requested_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    final_after timestamptz NOT NULL DEFAULT clock_timestamp(),
    finished_at timestamptz,
    objects bigint NOT NULL DEFAULT 0
);
COMMENT ON TABLE cortana.object_removals IS
    'Deleted videos whose objects a job still has to remove. A row is kept for some time after that, so that a late '
    'upload does not create a video with the same id again.';
COMMENT ON COLUMN cortana.object_removals.final_after IS
    'When all workers that processed the video have lost their lease. After this time they can write no more objects.';

CREATE INDEX object_removals_finished ON object_removals (finished_at) WHERE finished_at IS NOT NULL;

SELECT secure_table('object_removals');

CREATE FUNCTION cortana.enqueue_object_removal(p_video_id uuid, p_tenant_id uuid, p_step text, p_at timestamptz)
RETURNS void
LANGUAGE sql AS $$
    INSERT INTO jobs (job_type, payload, tenant_id, priority, scheduled_for, dedupe_key)
    SELECT name, jsonb_build_object('video_id', p_video_id), p_tenant_id, base_priority, p_at,
           format('object_remove:%s:%s', p_video_id, p_step)
    FROM job_types WHERE name = 'object_remove'
    ON CONFLICT DO NOTHING
$$;
COMMENT ON FUNCTION cortana.enqueue_object_removal IS
    'Enqueues the job that removes the objects of a video. The job has no video_id, because it must outlive the row of '
    'the video. It is not enqueued by enqueue_job(), because that checks the rights of the caller.';

CREATE FUNCTION cortana.videos_before_delete() RETURNS trigger
LANGUAGE plpgsql SECURITY DEFINER AS $$
DECLARE
    tenant uuid := coalesce(OLD.team_id, OLD.owner_id);
BEGIN
    INSERT INTO object_removals (video_id, tenant_id) VALUES (OLD.id, tenant)
    ON CONFLICT (video_id) DO UPDATE SET
        requested_at = excluded.requested_at, final_after = excluded.final_after, finished_at = NULL;
    PERFORM enqueue_object_removal(OLD.id, tenant, 'now', NULL);
    RETURN OLD;
END
$$;
COMMENT ON FUNCTION cortana.videos_before_delete IS
    'Trigger: records a deleted video in cortana.object_removals, and enqueues the job that removes its objects.';
CREATE TRIGGER videos_before_delete BEFORE DELETE ON videos
    FOR EACH ROW EXECUTE FUNCTION videos_before_delete();

CREATE FUNCTION cortana.videos_before_deletes() RETURNS trigger
LANGUAGE plpgsql SECURITY DEFINER AS $$
BEGIN
    IF coalesce(current_setting('cortana.jobs_are_locked', true), '') <> 'yes' THEN
        LOCK TABLE jobs IN EXCLUSIVE MODE;
    END IF;
    RETURN NULL;
END
$$;
COMMENT ON FUNCTION cortana.videos_before_deletes IS
    'Trigger: locks the table jobs. A DELETE of a video locks the video before its jobs, whereas workers lock a job '
    'before its video, which could deadlock. Workers and other DELETEs therefore wait until the transaction of the '
    'DELETE ends. delete_video() does not need this lock.';
CREATE TRIGGER videos_before_deletes BEFORE DELETE ON videos
    FOR EACH STATEMENT EXECUTE FUNCTION videos_before_deletes();

CREATE FUNCTION cortana.jobs_deleted_at_work() RETURNS trigger
LANGUAGE plpgsql SECURITY DEFINER AS $$
BEGIN
    UPDATE object_removals
    SET final_after = greatest(final_after, OLD.locked_until + interval '10 seconds')
    WHERE video_id = OLD.video_id AND finished_at IS NULL;
    PERFORM pg_notify('cv_cancel', OLD.id::text);
    RETURN NULL;
END
$$;
COMMENT ON FUNCTION cortana.jobs_deleted_at_work IS
    'Trigger: tells the workers that process a deleted video to stop, and repeats the removal of objects after their '
    'leases have ended. A margin is added for a last request that is still on its way to the store.';
CREATE TRIGGER jobs_deleted_at_work AFTER DELETE ON jobs
    FOR EACH ROW WHEN (OLD.status = 'processing' AND OLD.video_id IS NOT NULL)
    EXECUTE FUNCTION jobs_deleted_at_work();

CREATE FUNCTION cortana.videos_after_insert() RETURNS trigger
LANGUAGE plpgsql SECURITY DEFINER AS $$
BEGIN
    IF EXISTS (SELECT FROM object_removals WHERE video_id = NEW.id AND finished_at IS NULL) THEN
        RAISE EXCEPTION 'the objects of a deleted video with the id % are still being removed', NEW.id
            USING ERRCODE = 'object_in_use', HINT = 'Use another id.';
    END IF;
    DELETE FROM object_removals WHERE video_id = NEW.id;
    RETURN NULL;
END
$$;
COMMENT ON FUNCTION cortana.videos_after_insert IS
    'Trigger: refuses a new video with the id of a deleted video whose objects are still being removed.';
CREATE TRIGGER videos_after_insert AFTER INSERT ON videos
    FOR EACH ROW EXECUTE FUNCTION videos_after_insert();

CREATE FUNCTION delete_video(p_video_id uuid) RETURNS boolean
LANGUAGE plpgsql AS $$
DECLARE
    was_there boolean;
BEGIN
    PERFORM FROM jobs WHERE video_id = p_video_id ORDER BY id FOR UPDATE;
    PERFORM set_config('cortana.jobs_are_locked', 'yes', true);
    DELETE FROM videos WHERE id = p_video_id;
    was_there := FOUND;
    PERFORM set_config('cortana.jobs_are_locked', '', true);
    RETURN was_there;
END
$$;
COMMENT ON FUNCTION delete_video IS
    'Deletes a video and its results; a job removes its objects. Unlike DELETE FROM videos, it takes locks in the '
    'same order as workers, and therefore does not block workers of other videos. Returns false if the video does not '
    'exist.';

CREATE FUNCTION cortana.remove_objects_again(p_video_id uuid) RETURNS void
LANGUAGE plpgsql AS $$
DECLARE
    removal object_removals;
BEGIN
    UPDATE object_removals
    SET finished_at = NULL, final_after = greatest(final_after, clock_timestamp())
    WHERE video_id = p_video_id RETURNING * INTO removal;
    IF FOUND THEN
        PERFORM enqueue_object_removal(p_video_id, removal.tenant_id, 'now', NULL);
    END IF;
END
$$;
COMMENT ON FUNCTION cortana.remove_objects_again IS
    'Repeats the removal of the objects of a deleted video, because more objects were found under its id.';

CREATE FUNCTION cortana.settle_object_removal(p_video_id uuid, p_job_id uuid, p_objects bigint) RETURNS void
LANGUAGE plpgsql AS $$
DECLARE
    removal object_removals;
    started timestamptz := (SELECT started_at FROM jobs WHERE id = p_job_id);
BEGIN
    UPDATE object_removals
    SET objects = objects + p_objects,
        finished_at = CASE WHEN final_after <= started THEN clock_timestamp() END
    WHERE video_id = p_video_id RETURNING * INTO removal;
    IF FOUND AND removal.finished_at IS NULL THEN
        PERFORM enqueue_object_removal(p_video_id, removal.tenant_id,
                                       'after ' || removal.final_after, removal.final_after);
    END IF;
END
$$;
COMMENT ON FUNCTION cortana.settle_object_removal IS
    'Records the end of an object_remove job, in the transaction that completes the job. If the objects were listed '
    'before final_after, some may have been written since, and the removal is repeated.';

-- ---- unsuccessful attempts ----------------------------------------------------------------------

CREATE FUNCTION cortana.has_open_job(p_video_id uuid) RETURNS boolean
LANGUAGE sql STABLE AS $$
    SELECT EXISTS (SELECT FROM jobs j WHERE j.video_id = p_video_id
                   AND (j.status IN ('queued', 'processing')
                        OR j.status = 'failed' AND j.scheduled_for IS NOT NULL))
$$;
COMMENT ON FUNCTION cortana.has_open_job IS
    'Returns whether a job of the video is queued, is running or waits for its retry.';

CREATE FUNCTION cortana.lock_video_to_clear() RETURNS uuid
LANGUAGE plpgsql AS $$
DECLARE
    candidate uuid;
BEGIN
    FOR candidate IN
        SELECT a.video_id FROM attempts_to_clear a WHERE NOT has_open_job(a.video_id)
        GROUP BY a.video_id ORDER BY min(a.id)
    LOOP
        -- Jobs before their video, as workers do. The jobs' locks stop retry_job(), the video's stops new jobs.
        PERFORM FROM jobs WHERE video_id = candidate ORDER BY id FOR UPDATE;
        PERFORM FROM videos WHERE id = candidate FOR UPDATE;
        IF NOT has_open_job(candidate) THEN
            DELETE FROM attempts_to_clear a WHERE a.video_id = candidate;
            IF FOUND THEN
                RETURN candidate;
            END IF;
        END IF;
    END LOOP;
    RETURN NULL;
END
$$;
COMMENT ON FUNCTION cortana.lock_video_to_clear IS
    'Returns a video of cortana.attempts_to_clear that has no open job, removes it from there, and locks it and its '
    'jobs, so that none can start, until the transaction ends; null: there is none.';

-- ---- retention ----------------------------------------------------------------------------------

CREATE FUNCTION cortana.expired_clips(p_days int, p_limit int) RETURNS TABLE (video_id uuid, key text)
LANGUAGE sql STABLE AS $$
    SELECT DISTINCT j.video_id, j.result ->> 'clip_path'
    FROM (SELECT * FROM jobs
          WHERE job_type = 'clip_generate' AND status = 'done' AND NOT result ? 'removed_at'
            AND (finished_at < now() - make_interval(days => p_days)
                 OR EXISTS (SELECT FROM clip_parts(payload) AS c WHERE NOT EXISTS (SELECT FROM videos v WHERE v.id = c.video_id)))
            AND result ->> 'clip_path' IS NOT NULL
          ORDER BY finished_at LIMIT p_limit) AS j
    WHERE NOT EXISTS (SELECT FROM jobs a
                      WHERE a.video_id = j.video_id AND a.job_type = 'clip_generate'
                        AND a.status IN ('queued', 'processing')
                        AND a.payload ->> 'clip_id' = j.payload ->> 'clip_id')
$$;
COMMENT ON FUNCTION cortana.expired_clips IS
    'Returns clips that were made more than p_days ago, or show a video that was deleted, and for which no job waits or runs.';

CREATE FUNCTION cortana.mark_clip_removed(p_video_id uuid, p_key text) RETURNS bigint
LANGUAGE plpgsql AS $$
DECLARE
    marked bigint;
BEGIN
    UPDATE jobs SET result = result || jsonb_build_object('removed_at', now())
    WHERE video_id = p_video_id AND job_type = 'clip_generate' AND status = 'done'
      AND result ->> 'clip_path' = p_key AND NOT result ? 'removed_at';
    GET DIAGNOSTICS marked = ROW_COUNT;
    RETURN marked;
END
$$;
COMMENT ON FUNCTION cortana.mark_clip_removed IS
    'Records in the results of the jobs of a clip when the clip was removed from the store.';

CREATE FUNCTION cortana.lock_frames_to_thin(p_days int) RETURNS uuid
LANGUAGE sql AS $$
    -- A job refers to its video, so that none can be added while the video's row is locked.
    SELECT v.id FROM frames_to_thin f JOIN videos v ON v.id = f.video_id
    WHERE f.read_at < now() - make_interval(days => p_days)
      AND NOT has_open_job(v.id)
      AND NOT EXISTS (SELECT FROM runs r WHERE r.video_id = v.id AND r.status = 'running')
    ORDER BY f.read_at LIMIT 1
    FOR UPDATE OF v SKIP LOCKED
$$;
COMMENT ON FUNCTION cortana.lock_frames_to_thin IS
    'Returns a video that was read more than p_days ago and has no open job, and locks it until the transaction ends; '
    'null: there is none.';

CREATE FUNCTION cortana.thin_frames(p_video_id uuid) RETURNS SETOF text
LANGUAGE plpgsql AS $$
DECLARE
    line record;
    frame int;
    shown int[] := '{}';
BEGIN
    -- Goes through the lines in the order of their ends. If no chosen picture shows a line, its last picture is
    -- chosen, because that one is most likely to show the lines that end later, too.
    FOR line IN SELECT DISTINCT s.t_start, s.t_end FROM segments s WHERE s.video_id = p_video_id ORDER BY s.t_end, s.t_start LOOP
        CONTINUE WHEN frame >= line.t_start;
        frame := coalesce(
            (SELECT f.t_ms FROM kept_frames f
             WHERE f.video_id = p_video_id AND f.t_ms >= line.t_start AND f.t_start < line.t_end ORDER BY f.t_ms DESC LIMIT 1),
            (SELECT f.t_ms FROM kept_frames f
             WHERE f.video_id = p_video_id AND f.t_ms < line.t_start ORDER BY f.t_ms DESC LIMIT 1));
        shown := shown || frame;
    END LOOP;
    DELETE FROM kept_frames f WHERE f.video_id = p_video_id AND f.t_ms <> ALL (shown);
    DELETE FROM frames_to_thin f WHERE f.video_id = p_video_id;
    RETURN QUERY SELECT f.key FROM kept_frames f WHERE f.video_id = p_video_id ORDER BY f.key COLLATE "C";
END
$$;
COMMENT ON FUNCTION cortana.thin_frames IS
    'Keeps as few frames of a video as are needed to show each of its lines, as line_frame() finds them. Returns '
    'their keys in byte order; the caller removes the other objects under frames/ before it commits.';

CREATE FUNCTION cortana.prune_object_notes() RETURNS void
LANGUAGE sql AS $$
    DELETE FROM uploads WHERE refused IS NOT NULL AND found_at < now() - interval '7 days';
    DELETE FROM object_removals WHERE finished_at < now() - interval '30 days';
$$;
COMMENT ON FUNCTION cortana.prune_object_notes IS
    'Deletes old records: refused uploads (they are reported again if they are still there), and deleted ids after '
    'more than the longest time for which a URL for an upload can be valid.';

-- ---- who may call what --------------------------------------------------------------------------

SELECT secure_objects();
GRANT EXECUTE ON FUNCTION accept_object_event TO cortana_app;
