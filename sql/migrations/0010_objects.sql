-- Videos and their objects: how uploads become videos, what happens when an original changes or goes,
-- and how the objects of a deleted video are removed. A scanner in any language works through these
-- functions; each may be called by several at once.

-- ---- what a row knows of its original ------------------------------------------------------------

ALTER TABLE videos
    ADD COLUMN original_etag text,
    ADD COLUMN original_state text CHECK (original_state IN ('present', 'replaced', 'missing')),
    ADD COLUMN original_state_at timestamptz,
    ADD COLUMN replaced_etag text,
    ADD COLUMN duplicate_of uuid REFERENCES videos ON DELETE SET NULL,
    ADD COLUMN registered_at timestamptz;
COMMENT ON COLUMN videos.original_etag IS 'The store''s ETag of the bytes that the results were made of.';
COMMENT ON COLUMN videos.original_state IS
    'What the scanner saw last: present, replaced (other bytes than those worked on) or missing; null: never seen.';
COMMENT ON COLUMN videos.replaced_etag IS 'ETag of the bytes that took the place of those worked on.';
COMMENT ON COLUMN videos.duplicate_of IS
    'The video of the same owner with the same bytes; this one is not worked on (status duplicate).';
COMMENT ON COLUMN videos.registered_at IS 'When the scanner saw the original whole and its run started.';

-- Rows by the key of their original, in the order in which a store lists keys.
CREATE INDEX videos_original_key ON videos (s3_original_path COLLATE "C");
-- Where the scanner looks for identical bytes.
CREATE INDEX videos_original_size ON videos (original_size, owner_id) WHERE original_size IS NOT NULL;
CREATE INDEX videos_duplicates ON videos (duplicate_of) WHERE duplicate_of IS NOT NULL;
-- Rows that were made ahead of their upload.
CREATE INDEX videos_awaited ON videos (created_at) WHERE registered_at IS NULL AND status = 'new';

-- ---- uploads on their way in ---------------------------------------------------------------------

-- Objects that were seen and are not taken yet: each is looked at a second time, and taken when size
-- and ETag have not moved.
CREATE TABLE uploads (
    key text PRIMARY KEY,
    size bigint,
    etag text,                                -- null: announced as complete, taken at the first look
    due_at timestamptz NOT NULL,              -- the next look
    tries int NOT NULL DEFAULT 0,             -- looks that failed
    video_id uuid,                            -- of an inbox object that is being moved
    refused text,                             -- why it is left where it is
    noted_at timestamptz NOT NULL DEFAULT now()
);
CREATE INDEX uploads_due ON uploads (due_at) WHERE refused IS NULL;

-- A video whose twin is deleted stands for itself again: the scanner takes it up like a new one.
CREATE FUNCTION videos_lose_twin() RETURNS trigger
LANGUAGE plpgsql
SECURITY DEFINER SET search_path = pg_catalog, public AS
$$
BEGIN
    NEW.status := 'new';
    NEW.registered_at := NULL;
    INSERT INTO uploads (key, due_at) VALUES (NEW.s3_original_path, clock_timestamp())
    ON CONFLICT (key) DO NOTHING;
    RETURN NEW;
END
$$;
CREATE TRIGGER videos_lose_twin BEFORE UPDATE ON videos
    FOR EACH ROW WHEN (OLD.duplicate_of IS NOT NULL AND NEW.duplicate_of IS NULL
                       AND NEW.status = 'duplicate')
    EXECUTE FUNCTION videos_lose_twin();

-- How far the scanner has come through a list that is too long for one look.
CREATE TABLE scan_positions (
    name text PRIMARY KEY,
    position text NOT NULL DEFAULT '',        -- the last key that was seen; '' is the beginning
    rounds bigint NOT NULL DEFAULT 0,         -- how often the end was reached
    updated_at timestamptz NOT NULL DEFAULT now()
);

-- Ids that begin with the time, so that what is new lies at one place of a store's list (UUID version 7).
CREATE FUNCTION time_ordered_uuid() RETURNS uuid
LANGUAGE sql VOLATILE AS
$$
    SELECT (lpad(to_hex((extract(epoch FROM clock_timestamp()) * 1000)::bigint), 12, '0') || '7'
            || substr(replace(gen_random_uuid()::text, '-', ''), 14))::uuid
$$;

-- Objects as a list has shown them: [{key, size, etag, video_id}], video_id for those under
-- videos/original/. Those that are not known as they are get a second look after p_settle. Returns how
-- many are news.
CREATE FUNCTION note_objects(p_objects jsonb, p_settle interval) RETURNS bigint
LANGUAGE plpgsql AS
$$
DECLARE
    news bigint;
BEGIN
    INSERT INTO uploads AS u (key, size, etag, due_at)
    SELECT o.key, o.size, o.etag, clock_timestamp() + p_settle
    FROM jsonb_to_recordset(p_objects) AS o (key text, size bigint, etag text, video_id uuid)
    LEFT JOIN videos v ON v.id = o.video_id
    WHERE v.id IS NULL OR v.s3_original_path IS NULL
       OR v.s3_original_path = o.key
          AND (v.registered_at IS NULL OR v.original_state = 'missing'
               OR (o.size, o.etag) IS DISTINCT FROM
                  (CASE WHEN v.replaced_etag IS NULL THEN v.original_size ELSE o.size END,
                   coalesce(v.replaced_etag, v.original_etag)))
    ORDER BY o.key
    ON CONFLICT (key) DO UPDATE SET
        size = excluded.size, etag = excluded.etag, due_at = excluded.due_at, tries = 0, refused = NULL
    WHERE (u.size, u.etag) IS DISTINCT FROM (excluded.size, excluded.etag) AND u.etag IS NOT NULL;
    GET DIAGNOSTICS news = ROW_COUNT;
    RETURN news;
END
$$;

-- Somebody says that the object is complete (an upload's end, an event of the store): it is looked at
-- at once. What was said is not believed but looked at, so anybody who may write to the store may say it.
CREATE FUNCTION announce_upload(p_key text) RETURNS void
LANGUAGE plpgsql AS
$$
BEGIN
    INSERT INTO uploads AS u (key, due_at) VALUES (p_key, clock_timestamp())
    ON CONFLICT (key) DO UPDATE SET
        size = NULL, etag = NULL, due_at = excluded.due_at, tries = 0, refused = NULL;
    PERFORM pg_notify('cv_uploads', '');
END
$$;

-- Events of a store as an API was given them (by a webhook, a queue's reader, a function of a cloud), in
-- any of the forms that the scanner knows; each stays until a scanner has read it.
CREATE TABLE object_events (
    id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    event jsonb NOT NULL,
    received_at timestamptz NOT NULL DEFAULT clock_timestamp()
);

-- Hands an event of the store to the scanner. It is believed no more than an announcement, so that it
-- need not be known who sent it. What is too large (1 MiB; SQS and SNS carry 256 KiB) is refused with
-- 54000, what is no JSON object with 22023, and with 53400 whatever comes while 100,000 events wait: is
-- there a scanner?
CREATE FUNCTION accept_object_event(p_event jsonb) RETURNS void
LANGUAGE plpgsql
SECURITY DEFINER SET search_path = pg_catalog, public AS
$$
DECLARE
    largest constant int := 1024 * 1024;
    most constant bigint := 100000;
BEGIN
    IF p_event IS NULL OR jsonb_typeof(p_event) <> 'object' THEN
        RAISE EXCEPTION 'an event of the store is a JSON object' USING ERRCODE = 'invalid_parameter_value';
    ELSIF octet_length(p_event::text) > largest THEN
        RAISE EXCEPTION 'an event of the store has at most % bytes', largest
            USING ERRCODE = 'program_limit_exceeded';
    ELSIF (SELECT max(id) - min(id) FROM object_events) >= most THEN
        RAISE EXCEPTION 'more than % events of the store wait to be read', most
            USING ERRCODE = 'configuration_limit_exceeded', HINT = 'Start scanner-worker --interval.';
    END IF;
    INSERT INTO object_events (event) VALUES (p_event);
    PERFORM pg_notify('cv_uploads', '');
END
$$;

-- The uploads that are to be looked at now. Nothing is locked: two scanners that look at one object
-- come to the same end.
CREATE FUNCTION due_uploads(p_limit int) RETURNS SETOF uploads
LANGUAGE sql STABLE AS
$$
    SELECT * FROM uploads WHERE refused IS NULL AND due_at <= clock_timestamp()
    ORDER BY due_at, key LIMIT p_limit
$$;

-- It looked otherwise at the second look: wait once more.
CREATE FUNCTION postpone_upload(p_key text, p_size bigint, p_etag text, p_settle interval) RETURNS void
LANGUAGE sql AS
$$
    UPDATE uploads SET size = p_size, etag = p_etag, due_at = clock_timestamp() + p_settle, tries = 0
    WHERE key = p_key
$$;

-- A look that failed is repeated, after a minute at first and then ever later, up to an hour.
CREATE FUNCTION retry_upload(p_key text) RETURNS void
LANGUAGE sql AS
$$
    UPDATE uploads SET tries = tries + 1,
                       due_at = clock_timestamp() + least(interval '1 minute' * (2 ^ least(tries, 10)),
                                                          interval '1 hour')
    WHERE key = p_key
$$;

-- It stays where it is, and why; true when that is news.
CREATE FUNCTION refuse_upload(p_key text, p_reason text) RETURNS boolean
LANGUAGE plpgsql AS
$$
BEGIN
    UPDATE uploads SET refused = p_reason WHERE key = p_key AND refused IS NULL;
    RETURN FOUND;
END
$$;

-- An inbox object gets its video, before it is moved: whatever lies under videos/original/ then has a
-- row that says whose it is. The same id comes back however often this is asked. No row: another
-- scanner has finished with it.
CREATE FUNCTION prepare_upload(p_key text, p_owner_id uuid, p_team_id uuid, p_name text,
                               p_extension text, OUT video_id uuid, OUT original_key text)
RETURNS SETOF record
LANGUAGE plpgsql AS
$$
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

CREATE FUNCTION video_event(p_video_id uuid, p_level text, p_type text, p_message text, p_data jsonb)
RETURNS void
LANGUAGE sql AS
$$
    INSERT INTO task_events (video_id, source, level, type, message, data)
    VALUES (p_video_id, event_source(), p_level, p_type, p_message, p_data)
$$;

-- Whether this video's bytes are another's of the same owner and team: 'none', 'unknown' (somebody has
-- to read them), or 'found' and whose. The lock makes two that come at once see each other.
CREATE FUNCTION find_twin(p_video videos, p_size bigint, p_etag text, p_sha256 text,
                          OUT verdict text, OUT twin_id uuid)
LANGUAGE plpgsql AS
$$
DECLARE
    other videos;
BEGIN
    PERFORM pg_advisory_xact_lock(hashtextextended(
        concat_ws('/', 'cortana original', p_video.owner_id, p_video.team_id, p_size), 0));
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

-- The original at p_key, whole, as the store shows it now. Makes the video where there is none, starts
-- its run once, and deletes its entry in `uploads`. Owner, team and name are for a row that is made
-- here; one that is there keeps its own. What has become of it:
--   new        its run has started                known     nothing has changed
--   duplicate  linked to the same bytes           replaced  other bytes lie there than were worked on
--   removed    the video was deleted; so will be this object
--   other      the video's row names another key
--   digest     it takes the SHA-256 to tell; nothing was done: ask again with it
CREATE FUNCTION register_original(
    p_key text, p_video_id uuid, p_size bigint, p_etag text, p_sha256 text DEFAULT NULL,
    p_owner_id uuid DEFAULT NULL, p_team_id uuid DEFAULT NULL, p_name text DEFAULT NULL,
    p_upload_key text DEFAULT NULL) RETURNS text
LANGUAGE plpgsql AS
$$
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
            RETURN 'known'; -- deleted this instant: the next look sees what became of it
        END IF;
        IF coalesce(video.s3_original_path, p_key) <> p_key THEN
            outcome := 'other';
        ELSIF video.registered_at IS NULL THEN
            outcome := register_video(video, p_key, p_size, p_etag, p_sha256);
        ELSE
            outcome := compare_original(video, p_key, p_size, p_etag, p_sha256);
        END IF;
    END IF;
    IF outcome <> 'digest' THEN
        DELETE FROM uploads WHERE key IN (p_key, p_upload_key);
    END IF;
    RETURN outcome;
END
$$;

-- Of a video whose row is locked and that was not registered yet. Not for use outside.
CREATE FUNCTION register_video(p_video videos, p_key text, p_size bigint, p_etag text, p_sha256 text)
RETURNS text
LANGUAGE plpgsql AS
$$
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

-- Of a video whose row is locked and that was registered before. Not for use outside.
CREATE FUNCTION compare_original(p_video videos, p_key text, p_size bigint, p_etag text, p_sha256 text)
RETURNS text
LANGUAGE plpgsql AS
$$
BEGIN
    IF p_etag IS DISTINCT FROM p_video.original_etag AND p_size = p_video.original_size
       AND p_video.original_sha256 IS NOT NULL AND p_sha256 IS NULL THEN
        RETURN 'digest'; -- a store that was moved has the same bytes under other ETags
    END IF;
    IF p_etag = p_video.original_etag
       OR p_size = p_video.original_size AND p_sha256 = p_video.original_sha256
       -- nothing was made of the old bytes yet: the new ones are as good
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
        'the original was overwritten; the results are still those of the old bytes',
        jsonb_build_object('key', p_key, 'etag', p_etag, 'size', p_size,
                           'old_etag', p_video.original_etag, 'old_size', p_video.original_size));
    RETURN 'replaced';
END
$$;

-- The originals of the same size and owner as this video's whose SHA-256 nobody knows.
CREATE FUNCTION undigested_twins(p_video_id uuid, p_size bigint) RETURNS TABLE (id uuid, key text)
LANGUAGE sql STABLE AS
$$
    SELECT v.id, v.s3_original_path
    FROM videos v JOIN videos o ON o.id = p_video_id
    WHERE v.original_size = p_size AND v.id <> o.id AND v.original_sha256 IS NULL
      AND v.owner_id IS NOT DISTINCT FROM o.owner_id AND v.team_id IS NOT DISTINCT FROM o.team_id
      AND (v.registered_at IS NOT NULL OR v.status IN ('processing', 'ready'))
      AND v.duplicate_of IS NULL AND v.status <> 'failed'
      AND coalesce(v.original_state, 'present') = 'present'
$$;

-- Rows whose original a list should have shown between two keys (p_after < key <= p_until; '' and null:
-- no bound) and has not.
CREATE FUNCTION unseen_originals(p_after text, p_until text, p_seen text[], p_limit int)
RETURNS TABLE (id uuid, key text)
LANGUAGE sql STABLE AS
$$
    SELECT v.id, v.s3_original_path FROM videos v
    WHERE v.s3_original_path COLLATE "C" > p_after
      AND (p_until IS NULL OR v.s3_original_path COLLATE "C" <= p_until)
      AND starts_with(v.s3_original_path, 'videos/original/')
      AND v.original_state IN ('present', 'replaced')
      AND NOT EXISTS (SELECT FROM unnest(p_seen) AS seen (key) WHERE seen.key = v.s3_original_path)
    ORDER BY v.s3_original_path COLLATE "C" LIMIT p_limit
$$;

-- The original is gone. Its results stay: the text in it is still true. True when that is news.
CREATE FUNCTION mark_original_missing(p_video_id uuid, p_key text) RETURNS boolean
LANGUAGE plpgsql AS
$$
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

-- Works on a video once more, on the bytes that lie there now: the answer to 'replaced'. Returns the run.
CREATE FUNCTION reprocess_video(p_video_id uuid) RETURNS uuid
LANGUAGE plpgsql AS
$$
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
        RAISE EXCEPTION 'there is no video %', p_video_id USING ERRCODE = 'no_data_found';
    END IF;
    RETURN (SELECT run_id FROM start_run('video_pipeline', '{}', p_video_id));
END
$$;

-- ---- deletion ------------------------------------------------------------------------------------

INSERT INTO job_types (name, description, base_priority, time_limit, retry_delays) VALUES
    ('object_remove', 'the objects of a deleted video', 1, '1 hour',
     '{1 minute,5 minutes,15 minutes,1 hour,6 hours}');

-- Videos that were deleted: what a job still has to remove, and for a time afterwards which ids are not
-- to come back by a late upload.
CREATE TABLE object_removals (
    video_id uuid PRIMARY KEY,
    tenant_id uuid,
    requested_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    final_after timestamptz NOT NULL DEFAULT clock_timestamp(),
    finished_at timestamptz,
    objects bigint NOT NULL DEFAULT 0
);
COMMENT ON COLUMN object_removals.final_after IS
    'Whatever was at work on the video has lost its lease by then: what is removed after that stays removed.';
CREATE INDEX object_removals_finished ON object_removals (finished_at) WHERE finished_at IS NOT NULL;

-- The job has no video: it must outlive the row. Not by enqueue_job(), which asks who is calling.
CREATE FUNCTION enqueue_object_removal(p_video_id uuid, p_tenant_id uuid, p_step text, p_at timestamptz)
RETURNS void
LANGUAGE sql AS
$$
    INSERT INTO jobs (job_type, payload, tenant_id, priority, scheduled_for, dedupe_key)
    SELECT name, jsonb_build_object('video_id', p_video_id), p_tenant_id, base_priority, p_at,
           format('object_remove:%s:%s', p_video_id, p_step)
    FROM job_types WHERE name = 'object_remove'
    ON CONFLICT DO NOTHING
$$;

CREATE FUNCTION videos_before_delete() RETURNS trigger
LANGUAGE plpgsql
SECURITY DEFINER SET search_path = pg_catalog, public AS
$$
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
CREATE TRIGGER videos_before_delete BEFORE DELETE ON videos
    FOR EACH ROW EXECUTE FUNCTION videos_before_delete();

-- A plain DELETE locks a video before its jobs, workers lock a job before its video. No order of rows
-- brings the two together, so that a DELETE keeps workers (who wait, they do not fail) and other DELETEs
-- out of the jobs until its transaction ends. delete_video() does without.
CREATE FUNCTION videos_before_deletes() RETURNS trigger
LANGUAGE plpgsql
SECURITY DEFINER SET search_path = pg_catalog, public AS
$$
BEGIN
    IF coalesce(current_setting('cortana.jobs_are_locked', true), '') <> 'yes' THEN
        LOCK TABLE jobs IN EXCLUSIVE MODE;
    END IF;
    RETURN NULL;
END
$$;
CREATE TRIGGER videos_before_deletes BEFORE DELETE ON videos
    FOR EACH STATEMENT EXECUTE FUNCTION videos_before_deletes();

-- A stage that is at work on a video that is deleted is told, and the removal is repeated when its
-- lease has certainly ended. The margin covers a last request on its way to the store.
CREATE FUNCTION jobs_deleted_at_work() RETURNS trigger
LANGUAGE plpgsql
SECURITY DEFINER SET search_path = pg_catalog, public AS
$$
BEGIN
    UPDATE object_removals
    SET final_after = greatest(final_after, OLD.locked_until + interval '10 seconds')
    WHERE video_id = OLD.video_id AND finished_at IS NULL;
    PERFORM pg_notify('cv_cancel', OLD.id::text);
    RETURN NULL;
END
$$;
CREATE TRIGGER jobs_deleted_at_work AFTER DELETE ON jobs
    FOR EACH ROW WHEN (OLD.status = 'processing' AND OLD.video_id IS NOT NULL)
    EXECUTE FUNCTION jobs_deleted_at_work();

-- An id whose objects are being removed cannot be used anew until that is done.
CREATE FUNCTION videos_after_insert() RETURNS trigger
LANGUAGE plpgsql
SECURITY DEFINER SET search_path = pg_catalog, public AS
$$
BEGIN
    IF EXISTS (SELECT FROM object_removals WHERE video_id = NEW.id AND finished_at IS NULL) THEN
        RAISE EXCEPTION 'the objects of an earlier video % are being removed', NEW.id
            USING ERRCODE = 'object_in_use', HINT = 'Use another id.';
    END IF;
    DELETE FROM object_removals WHERE video_id = NEW.id;
    RETURN NULL;
END
$$;
CREATE TRIGGER videos_after_insert AFTER INSERT ON videos
    FOR EACH ROW EXECUTE FUNCTION videos_after_insert();

-- Deletes a video with all that was made of it. As DELETE FROM videos, but locks in the order in which
-- workers do, and so stops nobody who works on other videos. False: there is none. (The setting is made
-- here and not as the function's own: that takes a superuser, which a migration's owner need not be.)
CREATE FUNCTION delete_video(p_video_id uuid) RETURNS boolean
LANGUAGE plpgsql AS
$$
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

-- Objects have turned up under an id that was deleted.
CREATE FUNCTION remove_objects_again(p_video_id uuid) RETURNS void
LANGUAGE plpgsql AS
$$
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

-- The end of an object_remove job, in the transaction that completes it. What was listed before
-- final_after may have missed something: then once more.
CREATE FUNCTION settle_object_removal(p_video_id uuid, p_job_id uuid, p_objects bigint) RETURNS void
LANGUAGE plpgsql AS
$$
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

-- ---- retention -----------------------------------------------------------------------------------

CREATE INDEX jobs_clips ON jobs (finished_at)
    WHERE job_type = 'clip_generate' AND status = 'done' AND NOT result ? 'removed_at';

-- Clips that were made longer ago than p_days, and that nobody is asking for at the moment.
CREATE FUNCTION expired_clips(p_days int, p_limit int) RETURNS TABLE (video_id uuid, key text)
LANGUAGE sql STABLE AS
$$
    SELECT DISTINCT j.video_id, j.result ->> 'clip_path'
    FROM (SELECT * FROM jobs
          WHERE job_type = 'clip_generate' AND status = 'done' AND NOT result ? 'removed_at'
            AND finished_at < now() - make_interval(days => p_days)
            AND result ->> 'clip_path' IS NOT NULL
          ORDER BY finished_at LIMIT p_limit) AS j
    WHERE NOT EXISTS (SELECT FROM jobs a
                      WHERE a.video_id = j.video_id AND a.job_type = 'clip_generate'
                        AND a.status IN ('queued', 'processing')
                        AND a.payload ->> 'clip_id' = j.payload ->> 'clip_id')
$$;

-- The clip is gone from the store: whoever reads the results of its jobs sees when.
CREATE FUNCTION mark_clip_removed(p_video_id uuid, p_key text) RETURNS bigint
LANGUAGE plpgsql AS
$$
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

-- What need not be remembered any longer: refused uploads (whoever left them there is told again), and
-- deleted ids after the longest time that a URL for an upload can be valid, and more.
CREATE FUNCTION prune_object_notes() RETURNS void
LANGUAGE sql AS
$$
    DELETE FROM uploads WHERE refused IS NOT NULL AND noted_at < now() - interval '7 days';
    DELETE FROM object_removals WHERE finished_at < now() - interval '30 days';
$$;

-- ---- who may do what -----------------------------------------------------------------------------

DO $$
DECLARE
    name text;
BEGIN
    FOREACH name IN ARRAY ARRAY['uploads', 'object_events', 'scan_positions', 'object_removals'] LOOP
        EXECUTE format('ALTER TABLE %I ENABLE ROW LEVEL SECURITY', name);
        EXECUTE format('CREATE POLICY %I ON %I TO service_role USING (true) WITH CHECK (true)',
                       name || '_service', name);
        EXECUTE format('REVOKE ALL ON %I FROM PUBLIC, anon, authenticated', name);
        EXECUTE format('GRANT ALL ON %I TO service_role', name);
    END LOOP;
    FOREACH name IN ARRAY ARRAY[
        'note_objects', 'announce_upload', 'accept_object_event', 'due_uploads', 'postpone_upload', 'retry_upload',
        'refuse_upload', 'prepare_upload', 'video_event', 'find_twin', 'register_original',
        'register_video', 'compare_original', 'undigested_twins', 'unseen_originals',
        'mark_original_missing', 'reprocess_video', 'enqueue_object_removal', 'delete_video',
        'remove_objects_again', 'settle_object_removal', 'expired_clips', 'mark_clip_removed',
        'prune_object_notes'] LOOP
        EXECUTE format('REVOKE ALL ON FUNCTION %I FROM PUBLIC, anon, authenticated', name);
        EXECUTE format('GRANT EXECUTE ON FUNCTION %I TO service_role', name);
    END LOOP;
END
$$;
-- Who may execute a trigger's function may put it on a table of their own, and act as its owner.
REVOKE ALL ON FUNCTION videos_lose_twin(), videos_before_deletes(), videos_before_delete(),
    jobs_deleted_at_work(), videos_after_insert() FROM PUBLIC, anon, authenticated;
