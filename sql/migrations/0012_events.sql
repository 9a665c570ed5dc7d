-- Events: what happens to videos and jobs, for others. record_event() writes the timeline; event_recorded() is where the
-- platform listens.

CREATE FUNCTION cortana.event_recorded(p_id uuid, p_name text, p_data jsonb, p_tenant_id uuid, p_video_id uuid,
                                    p_job_id uuid, p_run_id uuid, p_correlation_id uuid) RETURNS void
LANGUAGE sql AS $$ $$;
COMMENT ON FUNCTION cortana.event_recorded IS
    'Hook: called for each event, in the transaction that causes it. Does nothing; who acts on events replaces it.';

CREATE FUNCTION cortana.record_event(p_name text, p_data jsonb, p_tenant_id uuid, p_video_id uuid, p_job_id uuid,
                           p_run_id uuid, p_correlation_id uuid) RETURNS uuid
LANGUAGE plpgsql SECURITY DEFINER AS $$
DECLARE
    event_id uuid := gen_random_uuid();
    correlation uuid := coalesce(p_correlation_id, gen_random_uuid());
BEGIN
    INSERT INTO task_events (job_id, video_id, correlation_id, run_id, source, type, message, data)
    VALUES (p_job_id, p_video_id, correlation, p_run_id, event_source(), 'event', p_name,
            jsonb_build_object('event_id', event_id, 'data', p_data));
    PERFORM event_recorded(event_id, p_name, p_data, p_tenant_id, p_video_id, p_job_id, p_run_id, correlation);
    RETURN event_id;
END
$$;
COMMENT ON FUNCTION cortana.record_event IS
    'Writes an event, in the caller''s transaction, to the timeline, and tells event_recorded(). Does not check the rights '
    'of the caller. For the functions of this schema only.';

CREATE FUNCTION cortana.runs_inserted() RETURNS trigger
LANGUAGE plpgsql SECURITY DEFINER AS $$
BEGIN
    IF NOT EXISTS (SELECT FROM runs WHERE video_id = NEW.video_id AND id <> NEW.id) THEN
        PERFORM record_event('video.uploaded', jsonb_strip_nulls(jsonb_build_object(
                               'title', v.title, 'original_name', v.original_name,
                               'size', v.original_size, 'path', v.s3_original_path)),
                           NEW.tenant_id, NEW.video_id, NULL, NEW.id, NEW.correlation_id)
        FROM videos v WHERE v.id = NEW.video_id;
    END IF;
    RETURN NULL;
END
$$;
COMMENT ON FUNCTION cortana.runs_inserted IS
    'Trigger: emits the event video.uploaded when the first run of a video begins. A video that the scanner knows to '
    'be a duplicate has no run, and therefore no such event.';
CREATE TRIGGER runs_inserted AFTER INSERT ON runs
    FOR EACH ROW WHEN (NEW.video_id IS NOT NULL) EXECUTE FUNCTION runs_inserted();

CREATE FUNCTION cortana.videos_ready() RETURNS trigger
LANGUAGE plpgsql SECURITY DEFINER AS $$
DECLARE
    run runs;
BEGIN
    SELECT * INTO run FROM runs WHERE video_id = NEW.id ORDER BY created_at DESC LIMIT 1;
    PERFORM record_event('video.ready', jsonb_strip_nulls(jsonb_build_object(
                           'title', NEW.title, 'original_name', NEW.original_name,
                           'duration', NEW.duration, 'resolution', NEW.resolution)),
                       coalesce(NEW.team_id, NEW.owner_id), NEW.id, NULL, run.id, run.correlation_id);
    RETURN NULL;
END
$$;
COMMENT ON FUNCTION cortana.videos_ready IS 'Trigger: emits the event video.ready.';
CREATE TRIGGER videos_ready AFTER UPDATE ON videos
    FOR EACH ROW WHEN (NEW.status = 'ready' AND OLD.status <> 'ready'
                       AND NEW.ready_at IS DISTINCT FROM OLD.ready_at) EXECUTE FUNCTION videos_ready();

CREATE FUNCTION cortana.record_dead_jobs(p_job_ids uuid[]) RETURNS void
LANGUAGE sql AS $$
    SELECT record_event('job.failed', jsonb_build_object(
                          'job_type', job_type, 'step', step, 'attempt', attempt,
                          'error', jsonb_build_object('type', payload #> '{error,type}',
                                                      'message', payload #> '{error,message}')),
                      tenant_id, video_id, id, run_id, correlation_id)
    FROM jobs WHERE id = ANY (p_job_ids) ORDER BY id
$$;
COMMENT ON FUNCTION cortana.record_dead_jobs IS
    'Emits the event job.failed for jobs that will not be tried again.';

SELECT secure_objects();
