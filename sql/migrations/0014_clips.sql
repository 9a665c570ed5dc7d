-- Clips asked for by what they show: the same range of the same video with the same options is one
-- clip_id, hence one object, whoever asks for it and however often.

-- The options of a clip in one form: what is the default anyway is left out. Values are checked by the
-- worker, which knows the video; a name that nobody knows is a mistake that would go unnoticed there.
CREATE FUNCTION clip_options(p_options jsonb) RETURNS jsonb
LANGUAGE plpgsql IMMUTABLE AS
$$
DECLARE
    defaults CONSTANT jsonb := '{"mode": "smart", "format": "mp4", "mute": false}';
    given jsonb := jsonb_strip_nulls(coalesce(p_options, '{}'));
    unknown text;
BEGIN
    IF jsonb_typeof(given) <> 'object' THEN
        RAISE EXCEPTION 'the options of a clip must be a JSON object'
            USING ERRCODE = 'invalid_parameter_value';
    END IF;
    SELECT string_agg(quote_ident(key), ', ' ORDER BY key) INTO unknown
    FROM jsonb_object_keys(given) AS key
    WHERE key NOT IN ('mode', 'format', 'max_height', 'mute', 'crop');
    IF unknown IS NOT NULL THEN
        RAISE EXCEPTION 'a clip has no option %', unknown
            USING ERRCODE = 'invalid_parameter_value',
                  HINT = 'There are mode, format, max_height, mute and crop.';
    END IF;
    RETURN coalesce((SELECT jsonb_object_agg(key, value) FROM jsonb_each(given)
                     WHERE value IS DISTINCT FROM defaults -> key), '{}');
END
$$;
COMMENT ON FUNCTION clip_options IS 'The options of a clip without those that say the default.';

-- What a clip is called, where it will lie, and the payload of the job that makes it. A picture of one
-- moment (format jpg) has no end and no padding.
CREATE FUNCTION plan_clip(
    p_video_id uuid,
    p_t_start int,                           -- ms
    p_t_end int DEFAULT NULL,
    p_padding_ms int DEFAULT 2000,           -- added on both sides
    p_options jsonb DEFAULT NULL,
    OUT clip_id uuid,
    OUT clip_path text,
    OUT payload jsonb)
LANGUAGE plpgsql STABLE
SECURITY INVOKER SET search_path = pg_catalog, public AS
$$
DECLARE
    options CONSTANT jsonb := clip_options(p_options);
    format CONSTANT text := coalesce(options ->> 'format', 'mp4');
    original text;
BEGIN
    SELECT s3_original_path INTO original FROM videos WHERE id = p_video_id;
    IF original IS NULL THEN
        RAISE EXCEPTION 'video % has no original', p_video_id USING ERRCODE = 'no_data_found';
    END IF;
    IF format !~ '^[a-z0-9]{1,8}$' THEN
        RAISE EXCEPTION 'a clip cannot have the format %', quote_literal(format)
            USING ERRCODE = 'invalid_parameter_value';
    END IF;
    IF format = 'jpg' THEN
        p_t_end := p_t_start + 1;
        p_padding_ms := 0;
    END IF;
    IF p_t_start IS NULL OR p_t_end IS NULL OR p_t_start < 0 OR p_t_end <= p_t_start THEN
        RAISE EXCEPTION 'a clip starts at 0 or later, and ends after its start'
            USING ERRCODE = 'invalid_parameter_value';
    END IF;
    clip_id := md5(concat_ws('|', 'clip', p_video_id, p_t_start, p_t_end, p_padding_ms,
                             nullif(options::text, '{}')))::uuid;
    clip_path := concat('videos/clips/', p_video_id, '/', clip_id, '.', format);
    payload := jsonb_build_object(
        'video_id', p_video_id, 'clip_id', clip_id, 't_start', p_t_start, 't_end', p_t_end,
        'padding_ms', p_padding_ms, 's3_original_path', original) || options;
END
$$;
COMMENT ON FUNCTION plan_clip IS
    'The identifier, the object key and the job payload of a clip; the same request gives the same.';

-- Has a clip made, in the caller's transaction. While its job waits or runs, the same request gets that
-- job; afterwards the job finds the object and has nothing to do.
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
LANGUAGE plpgsql
SECURITY INVOKER SET search_path = pg_catalog, public AS
$$
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
    'Enqueues the job of a clip, or returns the one that is queued or processing for the same clip.';

DO
$$
DECLARE
    name text;
BEGIN
    FOREACH name IN ARRAY ARRAY['clip_options', 'plan_clip', 'request_clip'] LOOP
        EXECUTE format('REVOKE ALL ON FUNCTION %I FROM PUBLIC, anon, authenticated', name);
        EXECUTE format('GRANT EXECUTE ON FUNCTION %I TO service_role, cortana_app', name);
    END LOOP;
END
$$;
