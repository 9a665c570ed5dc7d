-- Long videos: the transcode step of the pipeline as a plan, chunks that several workers encode at the
-- same time, and a job that makes one of them.

-- Splits videos that are longer than this many minutes, from the next run on (null: no more), as a new
-- version of the workflow; runs under way keep theirs. Returns the version in use.
CREATE FUNCTION split_videos(p_minutes numeric) RETURNS int
LANGUAGE plpgsql
SECURITY DEFINER SET search_path = pg_catalog, public AS
$$
DECLARE
    current workflows;
    whole jsonb;
    params jsonb;
    others jsonb;
    steps jsonb;
BEGIN
    IF p_minutes IS NOT NULL AND (p_minutes * 60 < 8 OR p_minutes > 24 * 60) THEN
        RAISE EXCEPTION 'a chunk lasts 8 seconds to 24 hours' USING ERRCODE = 'invalid_parameter_value';
    END IF;
    SELECT * INTO STRICT current FROM workflows WHERE name = 'video_pipeline' AND is_active;
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
    RETURN change_workflow(current.name, steps);
END
$$;
COMMENT ON FUNCTION split_videos(numeric) IS
    'Encodes videos longer than this many minutes in chunks from the next run on; null: in one piece.';
REVOKE ALL ON FUNCTION split_videos(numeric) FROM PUBLIC, anon, authenticated;
GRANT EXECUTE ON FUNCTION split_videos(numeric) TO service_role;
