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
                     WHERE key NOT IN ('mode', 'format', 'max_height', 'mute', 'crop') ORDER BY key);
    IF unknown <> '{}' THEN
        RAISE EXCEPTION 'unknown options of a clip: %', array_to_string(unknown, ', ')
            USING ERRCODE = 'invalid_parameter_value', COLUMN = unknown[1],
                  HINT = 'The options are mode, format, max_height, mute and crop.';
    END IF;
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
            (t_start >= ceil(p_duration * 1000)
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
    video videos;
BEGIN
    SELECT * INTO video FROM videos WHERE id = p_video_id;
    IF video.s3_original_path IS NULL THEN
        RAISE EXCEPTION 'video % has no original', p_video_id USING ERRCODE = 'no_data_found';
    END IF;
    IF format = 'jpg' THEN
        p_t_end := least(p_t_start, 2147483646) + 1;
        p_padding_ms := 0;
    END IF;
    clip_id := md5(concat_ws('|', 'clip', p_video_id, p_t_start, p_t_end, p_padding_ms,
                             nullif(options::text, '{}')))::uuid;
    clip_path := concat('videos/clips/', p_video_id, '/', clip_id, '.', format);
    payload := jsonb_strip_nulls(jsonb_build_object(
        'video_id', p_video_id, 'clip_id', clip_id, 't_start', p_t_start, 't_end', p_t_end,
        'padding_ms', p_padding_ms, 's3_original_path', video.s3_original_path)) || options;
    PERFORM check_clip(payload, video.duration, video.resolution);
END
$$;
COMMENT ON FUNCTION plan_clip IS
    'Returns the id of a clip, its object key, and the payload of the job that makes it. The same request always '
    'gives the same id. A picture of one moment (format jpg) has no end and no padding. Raises an error if the clip '
    'cannot be made.';

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
    FROM enqueue_job('clip_generate', payload, p_video_id, p_priority,
                     p_dedupe_key => 'clip:' || clip_id) AS job;
END
$$;
COMMENT ON FUNCTION request_clip IS
    'Enqueues the job that makes a clip, in the caller''s transaction, or returns the job that is queued or '
    'processing for the same clip. If the clip exists already, the job finds its object and is done.';

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
                              OUT run_id uuid, OUT is_new boolean, OUT source text, OUT source_key text)
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
            RAISE EXCEPTION 'the pictures from which the text of video % was read are no longer stored', p_video_id
                USING ERRCODE = 'object_not_in_prerequisite_state',
                      HINT = 'To process the video again from its original: SELECT reprocess_video(id).';
        END IF;
    END IF;
    SELECT r.run_id, r.is_new INTO run_id, is_new
    FROM start_run('reindex', input, p_video_id, p_priority) AS r;
END
$$;
COMMENT ON FUNCTION reindex_video IS
    'Starts to read a video again. It reads the stored pictures of the lines (source lines) or, if the video has '
    'none, the frames (source frames); source_key is the first object that is read. p_languages null: the same '
    'models as before. is_new is false if a run for the video has not ended; that run is left alone.';

-- ---- who may call what --------------------------------------------------------------------------

SELECT secure_objects();
GRANT EXECUTE ON FUNCTION cortana.clip_options, cortana.check_clip, plan_clip, request_clip, reindex_video TO cortana_app;
GRANT EXECUTE ON FUNCTION cortana.last_ocr_jobs, cortana.video_languages TO authenticated;
