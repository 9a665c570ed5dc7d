-- What was said in a video. Its sound goes piece by piece to an endpoint, each piece by a job that enqueues the next one.

INSERT INTO job_types (name, description, base_priority, time_limit, is_public, cpu_weight, retry_delays, payload_defaults,
                       payload_schema) VALUES
    ('transcribe', 'sound to lines of speech', 3, '30 minutes', false, 1, '{1 minute,5 minutes,1 hour,6 hours,1 day,3 days}',
     '{"video_id": "{{video.id}}", "s3_original_path": "{{video.s3_original_path}}"}',
     '{"required": ["video_id", "s3_original_path"], "properties": {
         "video_id": {"type": "string", "format": "uuid"}, "s3_original_path": {"type": "string", "minLength": 1},
         "from_ms": {"type": "integer", "minimum": 0, "maximum": 2147483647}}}');

CREATE FUNCTION transcribe_video(p_video_id uuid, p_from_ms int DEFAULT 0) RETURNS uuid
LANGUAGE sql SECURITY DEFINER AS $$
    SELECT e.job_id
    FROM videos v, enqueue_job('transcribe', jsonb_build_object('from_ms', p_from_ms), v.id,
                               p_dedupe_key => format('transcribe:%s:%s', v.id, p_from_ms)) AS e
    WHERE v.id = p_video_id AND v.duplicate_of IS NULL
$$;
COMMENT ON FUNCTION transcribe_video IS
    'Enqueues the job that has the sound of a video transcribed from this time on, in milliseconds, and returns its id; null: '
    'there is no such video, or it is a duplicate. Lines of speech that are there are replaced, if it begins at 0.';

SELECT secure_objects();
