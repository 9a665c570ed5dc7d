-- Views for people, metrics and programs. A view with data of users has security_invoker; the others read with the
-- rights of their owner, so that the role cortana_metrics needs no right on a table.

CREATE VIEW pipeline_stages WITH (security_invoker = true) AS
SELECT DISTINCT ON (j.video_id, j.step)
       j.video_id, j.step, j.id AS job_id, j.job_type, j.status, j.skipped, j.progress, j.progress_message,
       j.attempt, j.retry_count, j.started_at, j.finished_at,
       CASE WHEN j.status = 'failed' THEN j.scheduled_for END AS retry_at,
       j.payload #>> '{error,type}' AS error_type,
       j.payload #>> '{error,message}' AS error_message,
       request_was_refused(j.status, j.last_error) AS refused,
       round(extract(epoch FROM coalesce(j.finished_at, clock_timestamp()) - j.started_at) * 1000)::bigint
           AS running_ms
FROM jobs j
WHERE j.exclusive AND j.video_id IS NOT NULL
ORDER BY j.video_id, j.step, j.sequence DESC,
         CASE WHEN j.run_id IS NOT NULL
              THEN array_position('{processing,failed,queued,canceled}'::job_status[], j.status) END,
         j.created_at DESC, j.id;
COMMENT ON VIEW pipeline_stages IS
    'The newest job of each stage of each video. If a stage has several parts, a job that runs, has failed or waits '
    'is shown.';

CREATE FUNCTION cortana.video_trouble(v videos) RETURNS text
LANGUAGE sql STABLE
RETURN coalesce(
    CASE v.original_state WHEN 'missing' THEN 'the original is no longer in the store'
                          WHEN 'replaced' THEN 'the original was replaced after it had been read' END,
    (SELECT min(s.error_message) FROM pipeline_stages s WHERE s.video_id = v.id AND s.refused),
    CASE WHEN v.truncated THEN 'the file is cut off: what followed is not in it' END);
COMMENT ON FUNCTION cortana.video_trouble IS 'What is wrong with the file of a video, for people; null: nothing.';

CREATE FUNCTION cortana.job_state(j jobs) RETURNS text
LANGUAGE sql STABLE
RETURN CASE WHEN j.status = 'failed' AND j.scheduled_for IS NOT NULL THEN 'retry'
            WHEN j.status = 'processing' AND j.cancel_requested_at IS NOT NULL THEN 'stopping'
            WHEN j.status = 'processing' AND j.locked_until < statement_timestamp() THEN 'lost'
            ELSE j.status::text END;
COMMENT ON FUNCTION cortana.job_state IS 'The state of a job in words.';

CREATE VIEW job_overview WITH (security_invoker = true) AS
SELECT j.id, j.job_type, j.video_id, coalesce(v.title, v.original_name, left(j.video_id::text, 8)) AS video,
       j.status, j.priority, j.progress, j.progress_message, j.attempt, j.retry_count, j.max_retries,
       j.created_at, j.started_at, j.finished_at, j.locked_by, j.scheduled_for, j.cancel_requested_at,
       job_state(j) AS state,
       j.payload #>> '{error,type}' AS error_type,
       j.payload #>> '{error,message}' AS error_message,
       round(extract(epoch FROM coalesce(j.finished_at, clock_timestamp()) - j.started_at) * 1000)::bigint
           AS running_ms,
       j.sequence, request_was_refused(j.status, j.last_error) AS refused
FROM jobs j LEFT JOIN videos v ON v.id = j.video_id;
COMMENT ON VIEW job_overview IS 'One row for each job, with the name of its video and its state in words.';

CREATE VIEW run_overview WITH (security_invoker = true) AS
SELECT r.id, r.workflow, r.version, r.video_id,
       coalesce(v.title, v.original_name, left(r.video_id::text, 8)) AS video, r.status, r.priority,
       r.created_at, r.finished_at, j.jobs, j.done, j.progress, j.current_steps, j.failed_step,
       j.error_type, j.error_message,
       round(extract(epoch FROM coalesce(r.finished_at, clock_timestamp()) - r.created_at) * 1000)::bigint
           AS running_ms
FROM runs r
LEFT JOIN videos v ON v.id = r.video_id
CROSS JOIN LATERAL (
    SELECT count(*) AS jobs, count(*) FILTER (WHERE status = 'done') AS done,
           coalesce(avg(progress), 0)::real AS progress,
           string_agg(DISTINCT step, ', ') FILTER (
               WHERE status = 'processing' OR status = 'queued' AND unmet_dependencies = 0)
               AS current_steps,
           min(step) FILTER (WHERE status = 'failed' AND scheduled_for IS NULL) AS failed_step,
           min(payload #>> '{error,type}') FILTER (WHERE status = 'failed' AND scheduled_for IS NULL)
               AS error_type,
           min(payload #>> '{error,message}') FILTER (WHERE status = 'failed' AND scheduled_for IS NULL)
               AS error_message
    FROM jobs WHERE run_id = r.id) AS j;
COMMENT ON VIEW run_overview IS 'One row for each run, with its progress (0 to 1) and its current steps.';

CREATE VIEW worker_overview AS
SELECT w.id, w.host, w.version, array_to_string(w.job_types, ',') AS job_types, w.slots, w.running,
       w.started_at, w.last_seen,
       round(extract(epoch FROM clock_timestamp() - w.last_seen))::bigint AS silent_seconds,
       CASE WHEN w.state <> 'stopped' AND w.last_seen < clock_timestamp() - interval '5 minutes'
            THEN 'stale' ELSE w.state END AS state,
       w.labels
FROM workers w;
COMMENT ON VIEW worker_overview IS
    'One row for each worker. A worker that has been silent for 5 minutes, as long as a lease lasts, is stale: '
    'other workers claim its jobs.';

CREATE VIEW job_counts AS
SELECT t.name AS job_type, t.paused_at IS NOT NULL AS is_paused, c.ready, c.waiting, c.running, c.dead,
       c.retrying, round(extract(epoch FROM clock_timestamp() - c.oldest_ready))::bigint
           AS oldest_ready_seconds,
       t.max_running
FROM job_types t
CROSS JOIN LATERAL (
    SELECT count(*) FILTER (WHERE status = 'queued' AND is_ready) AS ready,
           count(*) FILTER (WHERE status = 'queued' AND NOT is_ready) AS waiting,
           count(*) FILTER (WHERE status = 'processing') AS running,
           count(*) FILTER (WHERE status = 'failed' AND scheduled_for IS NULL) AS dead,
           count(*) FILTER (WHERE status = 'failed' AND scheduled_for IS NOT NULL) AS retrying,
           min(created_at) FILTER (WHERE status = 'queued' AND is_ready) AS oldest_ready
    FROM jobs j
    WHERE j.job_type = t.name AND j.status IN ('queued', 'processing', 'failed')) AS c;
COMMENT ON VIEW job_counts IS 'The open jobs of each type, counted by state. Reads no finished job.';

CREATE VIEW worker_activity AS
SELECT worker_id, count(*) AS attempts, count(*) FILTER (WHERE status = 'succeeded') AS succeeded,
       count(*) FILTER (WHERE status IN ('failed', 'timeout', 'crashed')) AS failed,
       round(avg(extract(epoch FROM finished_at - started_at)) * 1000)::bigint AS average_ms,
       round(sum(cpu_seconds)::numeric, 1) AS cpu_seconds
FROM job_attempts
WHERE finished_at > now() - interval '24 hours'
GROUP BY worker_id;
COMMENT ON VIEW worker_activity IS 'The attempts of each worker that ended in the last 24 hours.';

CREATE VIEW job_failures AS
SELECT j.job_type, a.error_type, count(*) AS attempts, count(DISTINCT a.job_id) AS jobs,
       max(a.finished_at) AS last_at
FROM job_attempts a JOIN jobs j ON j.id = a.job_id
WHERE a.status IN ('failed', 'timeout', 'crashed') AND a.finished_at > now() - interval '24 hours'
GROUP BY j.job_type, a.error_type;
COMMENT ON VIEW job_failures IS 'Failed attempts of the last 24 hours by type and error.';

CREATE VIEW host_overview AS
SELECT name AS host, cpu_budget, disk_level, disk_used_percent, disk_checked_at FROM hosts;
COMMENT ON VIEW host_overview IS 'How full the scratch disk of each host was at the last check.';

-- ---- how much waits -----------------------------------------------------------------------------

-- The jobs of one type, one row for each state, also if there are none:
--   queued     a worker could claim it now
--   held       due, but nobody may claim it now: its type or tenant is paused, it is put off during an interactive
--              session, or a limit of running jobs is reached
--   scheduled  put off to a later time
--   blocked    waits for other jobs
--   running    claimed; this includes jobs of dead workers until a claim finds that the lease has expired
--   retrying   failed, and is tried again later
--   dead       failed for good
--   refused    failed for good, because the file is no video that can be read
-- The rules are those of claim_room() and promote_due_jobs(), except for the limits of a host (CPU budget, disk).
-- oldest_seconds is the age of the oldest of them: since it became claimable, was claimed, or failed; null: none.
CREATE FUNCTION cortana.queue_depth_of(p_job_type text)
RETURNS TABLE (status text, depth bigint, oldest_seconds double precision)
LANGUAGE plpgsql STABLE SECURITY DEFINER AS $$
DECLARE
    moment CONSTANT timestamptz := clock_timestamp();
    kind job_types;
    ready bigint;                          -- due, whether or not it may be claimed
    put_off bigint;                        -- of these: is_ready is set by the next claim
    retries bigint;
    free bigint;                           -- of these: may be claimed
    active bigint;
    waiting_since timestamptz;
    running_since timestamptz;
BEGIN
    SELECT * INTO kind FROM job_types WHERE name = p_job_type;
    SELECT count(*), min(started_at) INTO active, running_since
    FROM jobs j WHERE j.job_type = p_job_type AND j.status = 'processing';
    SELECT count(*), min(ready_at) INTO ready, waiting_since FROM jobs j
    WHERE j.job_type = p_job_type AND j.status = 'queued' AND j.is_ready;
    SELECT count(*), least(min(scheduled_for), waiting_since) INTO put_off, waiting_since FROM jobs j
    WHERE j.job_type = p_job_type AND j.status = 'queued' AND NOT j.is_ready
      AND j.scheduled_for <= moment AND j.unmet_dependencies = 0;
    SELECT count(*), least(min(scheduled_for), waiting_since) INTO retries, waiting_since FROM jobs j
    WHERE j.job_type = p_job_type AND j.status = 'failed' AND NOT j.is_ready AND j.scheduled_for <= moment;
    ready := ready + put_off + retries;

    IF kind.paused_at IS NOT NULL
       OR kind.put_off_while_interactive AND (kind.put_off_until > moment OR is_interactive()) THEN
        free := 0;
    ELSIF ready > 0 AND (kind.max_running_per_tenant IS NOT NULL OR EXISTS (SELECT FROM paused_tenants)) THEN
        SELECT coalesce(sum(CASE WHEN w.tenant_id IS NULL OR kind.max_running_per_tenant IS NULL
                                 THEN w.n
                                 ELSE least(w.n, greatest(kind.max_running_per_tenant
                                                          - coalesce(r.n, 0), 0)) END), 0)
        INTO free
        FROM (SELECT j.tenant_id, count(*) AS n FROM jobs j
              WHERE j.job_type = p_job_type
                AND (j.status = 'queued' AND j.is_ready
                     OR j.status = 'queued' AND NOT j.is_ready AND j.scheduled_for <= moment
                         AND j.unmet_dependencies = 0
                     OR j.status = 'failed' AND NOT j.is_ready AND j.scheduled_for <= moment)
              GROUP BY j.tenant_id) AS w
        LEFT JOIN (SELECT j.tenant_id, count(*) AS n FROM jobs j
                   WHERE j.job_type = p_job_type AND j.status = 'processing'
                   GROUP BY j.tenant_id) AS r ON r.tenant_id = w.tenant_id
        WHERE NOT EXISTS (SELECT FROM paused_tenants p WHERE p.tenant_id = w.tenant_id);
    ELSE
        free := ready;
    END IF;
    IF kind.max_running IS NOT NULL THEN
        free := least(free, greatest(kind.max_running - active, 0));
    END IF;

    RETURN QUERY VALUES
        ('queued', free, CASE WHEN free > 0 THEN extract(epoch FROM moment - waiting_since)::double precision END),
        ('held', ready - free,
         CASE WHEN ready > free THEN extract(epoch FROM moment - waiting_since)::double precision END),
        ('running', active, extract(epoch FROM moment - running_since)::double precision);
    RETURN QUERY
    SELECT 'scheduled', count(*), NULL::double precision FROM jobs j
    WHERE j.job_type = p_job_type AND j.status = 'queued' AND NOT j.is_ready
      AND j.scheduled_for > moment AND j.unmet_dependencies = 0;
    RETURN QUERY
    SELECT 'blocked', count(*), NULL::double precision FROM jobs j
    WHERE j.job_type = p_job_type AND j.status = 'queued' AND NOT j.is_ready AND j.unmet_dependencies > 0;
    RETURN QUERY
    SELECT 'retrying', count(*), NULL::double precision FROM jobs j
    WHERE j.job_type = p_job_type AND j.status = 'failed' AND NOT j.is_ready AND j.scheduled_for > moment;
    RETURN QUERY
    SELECT e.status, count(j.refused), extract(epoch FROM moment - min(j.finished_at))::double precision
    FROM (VALUES ('dead', false), ('refused', true)) AS e (status, refused)
    LEFT JOIN (SELECT f.finished_at, request_was_refused(f.status, f.last_error) AS refused FROM jobs f
               WHERE f.job_type = p_job_type AND f.status = 'failed' AND NOT f.is_ready
                 AND f.scheduled_for IS NULL) AS j USING (refused)
    GROUP BY e.status;
END
$$;
COMMENT ON FUNCTION cortana.queue_depth_of IS 'Returns the numbers of jobs of a type by state.';

CREATE VIEW queue_depth AS
SELECT t.name::text AS job_type, d.status, d.depth, d.oldest_seconds
FROM job_types t CROSS JOIN LATERAL queue_depth_of(t.name) AS d;
COMMENT ON VIEW queue_depth IS
    'How many jobs of each type are in which state. To scale a stage, use the sum of queued and running.';

CREATE VIEW queue_depth_by_tenant AS
SELECT j.job_type::text, j.tenant_id, j.priority::int,
       CASE WHEN j.status = 'queued' AND j.is_ready THEN 'queued' WHEN j.status = 'queued' THEN 'waiting'
            WHEN j.status = 'processing' THEN 'running' WHEN j.scheduled_for IS NULL THEN 'dead' ELSE 'retrying' END
           AS status,
       count(*) AS depth,
       round(extract(epoch FROM clock_timestamp() - min(CASE j.status WHEN 'queued' THEN j.ready_at
           WHEN 'processing' THEN j.started_at ELSE j.finished_at END)))::bigint AS oldest_seconds
FROM jobs j
WHERE j.status IN ('queued', 'processing', 'failed')
GROUP BY 1, 2, 3, 4;
COMMENT ON VIEW queue_depth_by_tenant IS
    'How many open jobs each tenant has, by type, priority and status: queued (may be claimed), waiting (for a time or '
    'for other jobs), running, retrying or dead; and the age of the oldest. Reads no finished job.';

-- Events: enqueued, claimed, done, released (returned to the queue, not counted as a retry), retry (failed, and is
-- tried again), dead, canceled.
CREATE VIEW job_flow AS
SELECT e.job_type, e.event, count(*) AS jobs
FROM (SELECT data ->> 'job_type' AS job_type,
             CASE data ->> 'to'
                 WHEN 'processing' THEN 'claimed'
                 WHEN 'queued' THEN CASE data ->> 'from' WHEN 'processing' THEN 'released' ELSE 'enqueued' END
                 WHEN 'failed' THEN CASE WHEN data ? 'retry_at' THEN 'retry' ELSE 'dead' END
                 ELSE data ->> 'to' END AS event
      FROM task_events
      WHERE ts > clock_timestamp() - interval '5 minutes' AND job_id IS NOT NULL AND type = 'status') AS e
GROUP BY e.job_type, e.event;
COMMENT ON VIEW job_flow IS 'What happened to jobs in the last five minutes, by type.';

-- ---- which programs may work here ---------------------------------------------------------------

CREATE TABLE cortana.schema_floor (
    one_row boolean PRIMARY KEY DEFAULT true CHECK (one_row),
    oldest_program int NOT NULL,
    reason text NOT NULL
);
COMMENT ON TABLE cortana.schema_floor IS
    'Which programs may work with this schema. During a release, programs are older or newer than the database. A '
    'program works with a database that has all migrations that it knows, and more, until a migration removes '
    'something that the program uses: such a migration writes a row here.';
COMMENT ON COLUMN cortana.schema_floor.oldest_program IS 'A program must know this migration.';

ALTER TABLE cortana.schema_floor ENABLE ROW LEVEL SECURITY;

CREATE FUNCTION cortana.require_program(p_version int, p_reason text) RETURNS void
LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO schema_floor AS f (oldest_program, reason) VALUES (p_version, p_reason)
    ON CONFLICT (one_row) DO UPDATE SET oldest_program = excluded.oldest_program, reason = excluded.reason
    WHERE f.oldest_program < excluded.oldest_program;
    PERFORM pg_notify('cv_schema', '');
END
$$;
COMMENT ON FUNCTION cortana.require_program IS
    'For migrations that remove something: from now on only programs that know migration p_version may work.';

CREATE FUNCTION cortana.schema_state(OUT versions int[], OUT oldest_program int, OUT reason text)
LANGUAGE plpgsql STABLE SECURITY DEFINER AS $$
BEGIN
    SELECT array_agg(m.version ORDER BY m.version) INTO versions FROM schema_migrations m;
    SELECT f.oldest_program, f.reason INTO oldest_program, reason FROM schema_floor f;
    oldest_program := coalesce(oldest_program, 0);
END
$$;
COMMENT ON FUNCTION cortana.schema_state IS
    'Returns the migrations that were applied, and the migration that a program must know.';

-- ---- who may call what --------------------------------------------------------------------------

SELECT secure_objects();
GRANT SELECT ON pipeline_stages, job_overview, run_overview TO authenticated;
GRANT SELECT ON worker_overview, job_counts, worker_activity, job_failures, host_overview, queue_depth, job_flow TO cortana_metrics;
GRANT EXECUTE ON FUNCTION cortana.video_trouble, cortana.job_state TO authenticated;
GRANT EXECUTE ON FUNCTION cortana.queue_depth_of TO cortana_metrics;
-- The first question of every program is whether it fits the schema.
GRANT EXECUTE ON FUNCTION cortana.schema_state TO authenticated, cortana_gateway, cortana_metrics;
