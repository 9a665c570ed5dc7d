-- What people and programs look at: one row a stage of a video, one a job, one a worker; and a video's
-- text as one JSON object. Views read with the rights of who asks.

-- The newest job of each stage of each video.
CREATE VIEW pipeline_stages WITH (security_invoker = true) AS
SELECT DISTINCT ON (j.video_id, j.step)
       j.video_id, j.step, j.id AS job_id, j.job_type, j.status, j.progress, j.progress_message,
       j.attempt, j.retry_count, j.started_at, j.finished_at,
       CASE WHEN j.status = 'failed' THEN j.scheduled_for END AS retry_at,
       j.payload #>> '{error,type}' AS error_type,
       j.payload #>> '{error,message}' AS error_message,
       round(extract(epoch FROM coalesce(j.finished_at, clock_timestamp()) - j.started_at) * 1000)::bigint
           AS running_ms
FROM jobs j
WHERE j.exclusive AND j.video_id IS NOT NULL
ORDER BY j.video_id, j.step, j.sequence DESC, j.created_at DESC, j.id;

CREATE VIEW job_overview WITH (security_invoker = true) AS
SELECT j.id, j.job_type, j.video_id, coalesce(v.original_name, v.title, left(j.video_id::text, 8)) AS video,
       j.status, j.priority, j.progress, j.progress_message, j.attempt, j.retry_count, j.max_retries,
       j.created_at, j.started_at, j.finished_at, j.locked_by, j.scheduled_for, j.cancel_requested_at,
       CASE WHEN j.status = 'failed' AND j.scheduled_for IS NOT NULL THEN 'retry'
            WHEN j.status = 'processing' AND j.cancel_requested_at IS NOT NULL THEN 'stopping'
            WHEN j.status = 'processing' AND j.locked_until < clock_timestamp() THEN 'lost'
            ELSE j.status::text END AS state,
       j.payload #>> '{error,type}' AS error_type,
       j.payload #>> '{error,message}' AS error_message,
       round(extract(epoch FROM coalesce(j.finished_at, clock_timestamp()) - j.started_at) * 1000)::bigint
           AS running_ms,
       j.sequence
FROM jobs j LEFT JOIN videos v ON v.id = j.video_id;

-- A worker that says nothing for longer than a lease lasts is stale: its jobs are claimed by others.
CREATE VIEW worker_overview WITH (security_invoker = true) AS
SELECT w.id, w.host, w.version, array_to_string(w.job_types, ',') AS job_types, w.slots, w.running,
       w.started_at, w.last_seen,
       round(extract(epoch FROM clock_timestamp() - w.last_seen))::bigint AS silent_seconds,
       CASE WHEN w.state <> 'stopped' AND w.last_seen < clock_timestamp() - interval '5 minutes'
            THEN 'stale' ELSE w.state END AS state
FROM workers w;

-- The export's fixed interface: video, segments, entities; times in milliseconds.
CREATE FUNCTION video_export(p_video_id uuid) RETURNS json
LANGUAGE sql STABLE
SECURITY INVOKER SET search_path = pg_catalog, public AS
$$
    SELECT json_build_object(
        'video', row_to_json(v),
        'segments', coalesce((
            SELECT json_agg(json_build_object(
                       'id', s.id, 'text', s.text, 'normalized_text', s.normalized_text,
                       't_start', s.t_start, 't_end', s.t_end, 'confidence', s.confidence,
                       'language', s.language, 'bounding_box', s.bounding_box)
                   ORDER BY s.t_start, (s.bounding_box ->> 'y')::numeric, s.id)
            FROM segments s WHERE s.video_id = v.id), '[]'),
        'entities', coalesce((
            SELECT json_agg(json_build_object(
                       'type', e.entity_type, 'value', e.value, 'normalized_value', e.normalized_value,
                       'segment_id', e.segment_id, 't_start', s.t_start, 't_end', s.t_end)
                   ORDER BY s.t_start, e.segment_id, e.entity_type, e.value, e.id)
            FROM entities e JOIN segments s ON s.id = e.segment_id WHERE s.video_id = v.id), '[]'))
    FROM videos v WHERE v.id = p_video_id
$$;
COMMENT ON FUNCTION video_export(uuid) IS 'A video with its segments and entities; null: no such video.';

REVOKE ALL ON pipeline_stages, job_overview, worker_overview FROM anon, authenticated;
GRANT SELECT ON pipeline_stages, job_overview TO authenticated;
GRANT SELECT ON pipeline_stages, job_overview, worker_overview TO service_role;
REVOKE ALL ON FUNCTION video_export(uuid) FROM PUBLIC, anon;
GRANT EXECUTE ON FUNCTION video_export(uuid) TO authenticated, service_role;
