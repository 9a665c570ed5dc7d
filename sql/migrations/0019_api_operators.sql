-- What the HTTP API shows to operators and tenants' admins and lets them change: the state of queues, failures and
-- their causes, hosts, rules, commands, workflows, tenants.

-- ---- the history of queues ---------------------------------------------------------------------------------

CREATE TABLE cortana.queue_history (
    job_type text NOT NULL,
    at timestamptz NOT NULL,
    seconds int NOT NULL CHECK (seconds IN (60, 3600)),
    enqueued bigint NOT NULL,
    done bigint NOT NULL,
    retried bigint NOT NULL,
    dead bigint NOT NULL,
    canceled bigint NOT NULL,
    ready bigint,
    running bigint,
    oldest_seconds bigint,
    wait_p50_ms bigint,
    wait_p95_ms bigint,
    run_p50_ms bigint,
    run_p95_ms bigint,
    cpu_seconds double precision,
    PRIMARY KEY (at, job_type, seconds)
);
COMMENT ON TABLE cortana.queue_history IS
    'What happened to the jobs of each type, by minute, and by hour for times more than seven days ago. Periods in '
    'which nothing happened and nothing waited have no row.';
COMMENT ON COLUMN queue_history.at IS 'When the period of `seconds` begins.';
COMMENT ON COLUMN queue_history.ready IS
    'How many jobs could be claimed at the end of the period; running and oldest_seconds are of the same moment; '
    'null: not recorded.';
COMMENT ON COLUMN queue_history.wait_p50_ms IS
    'Median of the time from when a job became ready until the attempt that ended in this period began; null: none '
    'ended. By hour, the largest value of its minutes; the other percentiles likewise.';
SELECT secure_table('queue_history');

CREATE FUNCTION cortana.record_queue_history(p_since timestamptz, p_now timestamptz) RETURNS void
LANGUAGE plpgsql AS $$
DECLARE
    longest CONSTANT interval := '1 hour';   -- caught up on after no scheduler was running
    high CONSTANT timestamptz := date_trunc('minute', p_now);
    low CONSTANT timestamptz := greatest(date_trunc('minute', p_since), high - longest);
BEGIN
    INSERT INTO queue_history (job_type, at, seconds, enqueued, done, retried, dead, canceled, ready, running,
                               oldest_seconds, wait_p50_ms, wait_p95_ms, run_p50_ms, run_p95_ms, cpu_seconds)
    WITH flow AS (
        SELECT e.data ->> 'job_type' AS job_type, date_trunc('minute', e.ts) AS at,
               count(*) FILTER (WHERE e.data ->> 'to' = 'queued' AND NOT coalesce(e.data ->> 'from' = 'processing', false)) AS enqueued,
               count(*) FILTER (WHERE e.data ->> 'to' = 'done') AS done,
               count(*) FILTER (WHERE e.data ->> 'to' = 'failed' AND e.data ? 'retry_at') AS retried,
               count(*) FILTER (WHERE e.data ->> 'to' = 'failed' AND NOT e.data ? 'retry_at') AS dead,
               count(*) FILTER (WHERE e.data ->> 'to' = 'canceled') AS canceled
        FROM task_events e
        WHERE e.ts >= low AND e.ts < high AND e.job_id IS NOT NULL AND e.type = 'status'
        GROUP BY 1, 2
    ), ended AS (
        SELECT j.job_type::text, date_trunc('minute', a.finished_at) AS at, sum(a.cpu_seconds) AS cpu_seconds,
               percentile_disc(ARRAY[0.5, 0.95]) WITHIN GROUP (ORDER BY
                   CASE WHEN a.attempt = j.attempt
                        THEN extract(epoch FROM a.started_at - j.ready_at) * 1000 END)::bigint[] AS wait_ms,
               percentile_disc(ARRAY[0.5, 0.95]) WITHIN GROUP (ORDER BY
                   extract(epoch FROM a.finished_at - a.started_at) * 1000)::bigint[] AS run_ms
        FROM ended_attempts a JOIN jobs j ON j.id = a.job_id
        WHERE a.finished_at >= low AND a.finished_at < high
        GROUP BY 1, 2
    ), depth AS (
        SELECT c.job_type::text, high - interval '1 minute' AS at, c.ready, c.running, c.oldest_ready_seconds
        FROM job_counts c WHERE low < high AND c.ready + c.running > 0
    )
    SELECT job_type, at, 60, coalesce(f.enqueued, 0), coalesce(f.done, 0), coalesce(f.retried, 0), coalesce(f.dead, 0),
           coalesce(f.canceled, 0), d.ready, d.running, d.oldest_ready_seconds, e.wait_ms[1], e.wait_ms[2], e.run_ms[1],
           e.run_ms[2], e.cpu_seconds
    FROM flow f FULL JOIN ended e USING (job_type, at) FULL JOIN depth d USING (job_type, at)
    ON CONFLICT DO NOTHING;
    PERFORM shorten_queue_history(p_now);
END
$$;
COMMENT ON FUNCTION cortana.record_queue_history IS
    'Writes the complete minutes since p_since to queue_history, at most an hour of them. Calling it again changes '
    'nothing.';

CREATE FUNCTION cortana.shorten_queue_history(p_now timestamptz) RETURNS void
LANGUAGE sql AS $$
    DELETE FROM queue_history WHERE at < p_now - interval '400 days';
    WITH old AS (
        DELETE FROM queue_history WHERE at < date_trunc('hour', p_now - interval '7 days') AND seconds = 60 RETURNING *)
    INSERT INTO queue_history AS h (job_type, at, seconds, enqueued, done, retried, dead, canceled, ready, running,
                                    oldest_seconds, wait_p50_ms, wait_p95_ms, run_p50_ms, run_p95_ms, cpu_seconds)
    SELECT job_type, date_trunc('hour', at), 3600, sum(enqueued), sum(done), sum(retried), sum(dead), sum(canceled),
           max(ready), max(running), max(oldest_seconds), max(wait_p50_ms), max(wait_p95_ms), max(run_p50_ms),
           max(run_p95_ms), sum(cpu_seconds)
    FROM old GROUP BY 1, 2
    ON CONFLICT DO NOTHING;
$$;
COMMENT ON FUNCTION cortana.shorten_queue_history IS
    'Sums up minutes to hours when they are more than seven days old, and deletes rows older than 400 days.';

CREATE FUNCTION api.throughput(p jsonb) RETURNS api.answer
LANGUAGE plpgsql STABLE AS $$
DECLARE
    most CONSTANT int := 1500;     -- points of one series
    until CONSTANT timestamptz := coalesce((p ->> 'before')::timestamptz, now());
    since CONSTANT timestamptz := coalesce((p ->> 'after')::timestamptz, until - interval '1 hour');
    step CONSTANT interval := CASE coalesce(p ->> 'step', 'minute') WHEN 'minute' THEN '1 minute' WHEN 'hour' THEN '1 hour'
                                                                    ELSE '1 day' END;
BEGIN
    IF until <= since OR extract(epoch FROM until - since) / extract(epoch FROM step) > most THEN
        RAISE EXCEPTION 'the series is to have 1 to % points: move after and before, or take another step', most
            USING ERRCODE = 'invalid_parameter_value';
    END IF;
    RETURN api.ok(jsonb_build_object(
        'after', since, 'before', until, 'step_seconds', extract(epoch FROM step)::int,
        'items', coalesce((
            SELECT jsonb_agg(jsonb_build_object('job_type', s.job_type, 'points', s.points) ORDER BY s.job_type)
            FROM (SELECT b.job_type, jsonb_agg(to_jsonb(b) - 'job_type' ORDER BY b.at) AS points
                  FROM (SELECT h.job_type, date_bin(step, h.at, '2000-01-01 00:00:00+00') AS at, sum(h.enqueued) AS enqueued,
                               sum(h.done) AS done, sum(h.retried) AS retried, sum(h.dead) AS dead,
                               sum(h.canceled) AS canceled, max(h.ready) AS ready, max(h.running) AS running,
                               max(h.oldest_seconds) AS oldest_seconds, max(h.wait_p50_ms) AS wait_p50_ms,
                               max(h.wait_p95_ms) AS wait_p95_ms, max(h.run_p50_ms) AS run_p50_ms,
                               max(h.run_p95_ms) AS run_p95_ms, round(sum(h.cpu_seconds)::numeric, 3) AS cpu_seconds
                        FROM queue_history h
                        WHERE h.at >= date_bin(step, since, '2000-01-01 00:00:00+00') AND h.at < until
                          AND (p ->> 'type' IS NULL OR h.job_type = p ->> 'type')
                        GROUP BY 1, 2) AS b
                  GROUP BY b.job_type) AS s), '[]')));
END
$$;

CREATE FUNCTION api.queue_stats(p jsonb) RETURNS api.answer
LANGUAGE plpgsql STABLE AS $$
DECLARE
    flow_minutes CONSTANT int := 5;    -- of job_flow
BEGIN
    RETURN api.all_items((
        SELECT jsonb_agg(to_jsonb(c) || jsonb_build_object(
                   'state', CASE WHEN c.is_paused THEN 'paused' WHEN c.running > 0 THEN 'working'
                                 WHEN c.ready = 0 THEN 'idle' WHEN w.workers = 0 THEN 'nobody' ELSE 'waiting' END,
                   'workers', w.workers, 'slots', w.slots,
                   'in_per_minute', f.enqueued::float8 / flow_minutes, 'out_per_minute', f.ended::float8 / flow_minutes,
                   'empty_in_seconds', CASE WHEN c.ready = 0 THEN 0 WHEN f.ended > f.enqueued
                       THEN round(c.ready * flow_minutes * 60.0 / (f.ended - f.enqueued)) END,
                   'wait_p95_ms', h.wait_p95_ms, 'run_p95_ms', h.run_p95_ms,
                   'failed_percent', round(100.0 * h.failed / nullif(h.ended, 0), 1)) ORDER BY c.job_type)
        FROM job_counts c
        CROSS JOIN LATERAL (
            SELECT count(*) AS workers, coalesce(sum(o.slots), 0) AS slots FROM workers o
            WHERE c.job_type = ANY (o.job_types) AND o.state = 'running'
              AND o.last_seen > clock_timestamp() - interval '5 minutes') AS w
        LEFT JOIN (SELECT s.job_type, coalesce(sum(s.jobs) FILTER (WHERE s.event = 'enqueued'), 0) AS enqueued,
                          coalesce(sum(s.jobs) FILTER (WHERE s.event IN ('done', 'dead', 'canceled')), 0) AS ended
                   FROM job_flow s GROUP BY s.job_type) AS g ON g.job_type = c.job_type
        CROSS JOIN LATERAL (SELECT coalesce(g.enqueued, 0) AS enqueued, coalesce(g.ended, 0) AS ended) AS f
        CROSS JOIN LATERAL (
            SELECT max(q.wait_p95_ms) AS wait_p95_ms, max(q.run_p95_ms) AS run_p95_ms, sum(q.retried + q.dead) AS failed,
                   sum(q.done + q.retried + q.dead) AS ended
            FROM queue_history q WHERE q.at > now() - interval '1 hour' AND q.job_type = c.job_type) AS h));
END
$$;

CREATE FUNCTION api.performance(p jsonb) RETURNS api.answer
LANGUAGE sql STABLE
RETURN api.all_items((
    SELECT jsonb_agg(to_jsonb(g) ORDER BY g.job_type, g.worker)
    FROM (SELECT j.job_type, CASE p ->> 'by' WHEN 'worker' THEN a.worker_id END AS worker, count(*) AS attempts,
                 count(*) FILTER (WHERE a.status = 'succeeded') AS succeeded,
                 count(*) FILTER (WHERE a.status IN ('failed', 'timeout', 'crashed')) AS failed,
                 round(percentile_cont(0.5) WITHIN GROUP (ORDER BY w.wait_ms)) AS wait_p50_ms,
                 round(percentile_cont(0.95) WITHIN GROUP (ORDER BY w.wait_ms)) AS wait_p95_ms,
                 round(avg(w.run_ms)) AS run_average_ms,
                 round(percentile_cont(0.5) WITHIN GROUP (ORDER BY w.run_ms)) AS run_p50_ms,
                 round(percentile_cont(0.95) WITHIN GROUP (ORDER BY w.run_ms)) AS run_p95_ms,
                 round(percentile_cont(0.99) WITHIN GROUP (ORDER BY w.run_ms)) AS run_p99_ms,
                 round(sum(a.cpu_seconds)::numeric, 1) AS cpu_seconds,
                 round((sum(a.cpu_seconds) FILTER (WHERE v.duration > 0)
                        / nullif(sum(v.duration) FILTER (WHERE a.cpu_seconds IS NOT NULL), 0))::numeric, 3)
                     AS cpu_seconds_a_video_second
          FROM ended_attempts a JOIN jobs j ON j.id = a.job_id LEFT JOIN videos v ON v.id = j.video_id
          CROSS JOIN LATERAL (
              SELECT extract(epoch FROM a.finished_at - a.started_at)::float8 * 1000 AS run_ms,
                     CASE WHEN a.attempt = j.attempt
                          THEN extract(epoch FROM a.started_at - j.ready_at)::float8 * 1000 END AS wait_ms) AS w
          WHERE a.finished_at > now() - make_interval(hours => coalesce((p ->> 'hours')::int, 24))
          GROUP BY 1, 2) AS g));

-- ---- what failed -------------------------------------------------------------------------------------------

CREATE FUNCTION api.message_shape(p_message text) RETURNS text
LANGUAGE sql IMMUTABLE
RETURN left(regexp_replace(regexp_replace(p_message, '[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}', '{id}', 'g'),
                           '[0-9]+', '{n}', 'g'), 300);
COMMENT ON FUNCTION api.message_shape IS
    'The message of an error with ids and numbers replaced, so that the messages of different jobs are equal.';

CREATE FUNCTION api.video_of_job(p_job uuid) RETURNS jsonb
LANGUAGE sql STABLE
RETURN (SELECT api.named_video(j.video_id) FROM jobs j WHERE j.id = p_job);
COMMENT ON FUNCTION api.video_of_job IS 'The video of a job, as named_video() shows it.';

CREATE FUNCTION api.causes(p_jobs uuid[], p_hours int, p_type text) RETURNS jsonb
LANGUAGE sql STABLE SECURITY DEFINER AS $$
    SELECT jsonb_agg(to_jsonb(g) || jsonb_build_object('video', api.video_of_job(g.example)) ORDER BY g.attempts DESC, g.job_type, g.error_type, g.message)
    FROM (SELECT j.job_type, a.error_type, api.message_shape(a.error_message) AS message, count(*) AS attempts,
                 count(DISTINCT a.job_id) AS jobs, min(a.finished_at) AS first_at, max(a.finished_at) AS last_at,
                 (array_agg(a.job_id ORDER BY a.finished_at DESC))[1] AS example
          FROM ended_attempts a JOIN jobs j ON j.id = a.job_id
          WHERE a.status IN ('failed', 'timeout', 'crashed') AND a.finished_at > now() - make_interval(hours => p_hours)
            AND (p_type IS NULL OR j.job_type = p_type) AND (p_jobs IS NULL OR a.job_id = ANY (p_jobs))
          GROUP BY 1, 2, 3 ORDER BY 4 DESC LIMIT 500) AS g
$$;
COMMENT ON FUNCTION api.causes IS
    'Failed attempts of these jobs (null: of all jobs), grouped by type, error and message. For api.errors() only.';

CREATE FUNCTION api.errors(p jsonb) RETURNS api.answer
LANGUAGE plpgsql STABLE SECURITY DEFINER AS $$
DECLARE
    own uuid[];
BEGIN
    IF NOT api.is_admin() THEN
        RAISE EXCEPTION 'errors by cause are an admin''s' USING ERRCODE = 'insufficient_privilege';
    ELSIF NOT api.is_service() THEN
        SELECT coalesce(array_agg(t.id), '{}') INTO own
        FROM api.tenant_jobs('{}', 10000) AS t;
    END IF;
    RETURN api.all_items(api.causes(own, coalesce((p ->> 'hours')::int, 24), p ->> 'type'));
END
$$;
COMMENT ON FUNCTION api.errors IS
    'GET /errors: failed attempts of the last hours by cause; a tenant''s admin sees those of their own jobs. '
    'SECURITY DEFINER, because only the service may read attempts.';

CREATE FUNCTION api.dead_jobs(p jsonb) RETURNS SETOF jobs
LANGUAGE sql STABLE AS $$
    SELECT d.* FROM job_types t CROSS JOIN LATERAL (
        SELECT j.* FROM jobs j
        WHERE j.job_type = t.name AND j.status = 'failed' AND NOT j.is_ready AND j.scheduled_for IS NULL
        ORDER BY j.finished_at DESC LIMIT 5000) AS d
    WHERE api.is_service() AND (p ->> 'type' IS NULL OR t.name = p ->> 'type')
    UNION ALL
    SELECT o.* FROM api.tenant_jobs(p || '{"state": "failed"}', 5000) AS o
    WHERE NOT api.is_service()
$$;
COMMENT ON FUNCTION api.dead_jobs IS 'The newest dead letters, up to 5,000 of each type; for a tenant their own.';

CREATE FUNCTION api.dead_letters(p jsonb) RETURNS api.answer
LANGUAGE plpgsql STABLE AS $$
BEGIN
    IF NOT api.is_admin() THEN
        RAISE EXCEPTION 'dead letters by cause are an admin''s' USING ERRCODE = 'insufficient_privilege';
    END IF;
    RETURN api.all_items((
        SELECT jsonb_agg(to_jsonb(g) || jsonb_build_object('video', api.video_of_job(g.example)) ORDER BY g.last_at DESC, g.job_type, g.error_type)
        FROM (SELECT j.job_type, j.payload #>> '{error,type}' AS error_type,
                     api.message_shape(j.payload #>> '{error,message}') AS message, count(*) AS jobs,
                     min(j.finished_at) AS first_at, max(j.finished_at) AS last_at,
                     (array_agg(j.id ORDER BY j.finished_at DESC))[1] AS example
              FROM api.dead_jobs(p) AS j GROUP BY 1, 2, 3) AS g));
END
$$;

-- ---- the fleet ---------------------------------------------------------------------------------------------

CREATE FUNCTION api.workers(p jsonb) RETURNS api.answer
LANGUAGE sql STABLE
RETURN api.all_items((
    SELECT jsonb_agg(to_jsonb(w) || jsonb_build_object(
               'is_draining', o.drain_requested_at IS NOT NULL,
               'day', jsonb_build_object('attempts', coalesce(a.attempts, 0), 'succeeded', coalesce(a.succeeded, 0),
                                         'failed', coalesce(a.failed, 0), 'average_ms', a.average_ms,
                                         'cpu_seconds', a.cpu_seconds)) ORDER BY w.state = 'stopped', w.job_types, w.id)
    FROM worker_overview w JOIN workers o ON o.id = w.id LEFT JOIN worker_activity a ON a.worker_id = w.id
    WHERE NOT coalesce((p ->> 'active')::boolean, false)
       OR w.state <> 'stopped' AND w.last_seen > now() - interval '1 day'));

CREATE FUNCTION api.drain_worker(p jsonb) RETURNS api.answer
LANGUAGE plpgsql AS $$
BEGIN
    PERFORM public.drain_worker(id) FROM workers WHERE state <> 'stopped' AND starts_with(id, p ->> 'worker');
    RETURN api.done(FOUND);
END
$$;

CREATE FUNCTION api.host_objects(p_host text) RETURNS SETOF jsonb
LANGUAGE sql STABLE AS $$
    SELECT to_jsonb(h) || jsonb_build_object('running', coalesce(u.running, 0), 'cpu_in_use', coalesce(u.weight, 0))
    FROM host_overview h
    LEFT JOIN (SELECT w.host, count(*) AS running, sum(t.cpu_weight) AS weight
               FROM jobs j JOIN workers w ON w.id = j.locked_by JOIN job_types t ON t.name = j.job_type
               WHERE j.status = 'processing' GROUP BY w.host) AS u ON u.host = h.host
    WHERE p_host IS NULL OR h.host = p_host
    ORDER BY h.host
$$;
COMMENT ON FUNCTION api.host_objects IS
    'The hosts (null: all) as the API shows them: cpu_in_use is the sum of the weights of the jobs that run there, '
    'compared with cpu_budget.';

CREATE FUNCTION api.hosts(p jsonb) RETURNS api.answer
LANGUAGE sql STABLE
RETURN api.all_items((SELECT jsonb_agg(h) FROM api.host_objects(NULL) AS h));

CREATE FUNCTION api.host(p jsonb) RETURNS api.answer
LANGUAGE sql STABLE
RETURN api.versioned((SELECT h FROM api.host_objects(p ->> 'host') AS h), 'running', 'cpu_in_use', 'disk_level',
                     'disk_used_percent', 'disk_checked_at');

CREATE FUNCTION api.change_host(p jsonb) RETURNS api.answer
LANGUAGE sql AS $$
    UPDATE hosts SET cpu_budget = nullif((p ->> 'cpu_budget')::int, 0) WHERE name = p ->> 'host';
    SELECT api.host(p);
$$;

CREATE FUNCTION api.host_disk(p jsonb) RETURNS api.answer
LANGUAGE sql STABLE AS $$
    SELECT api.require_found(EXISTS (SELECT FROM hosts WHERE name = p ->> 'host'));
    SELECT api.all_items((
        SELECT jsonb_agg(to_jsonb(d) - 'id' - 'host' ORDER BY d.id DESC)
        FROM (SELECT * FROM disk_status_log WHERE host = p ->> 'host' ORDER BY id DESC LIMIT 60) AS d));
$$;

CREATE FUNCTION cortana.tenant_name(p_tenant_id uuid) RETURNS text
LANGUAGE plpgsql STABLE SECURITY DEFINER AS $$
BEGIN
    RETURN coalesce((SELECT t.name FROM tenants t WHERE t.id = p_tenant_id), (SELECT q.name FROM people q WHERE q.id = p_tenant_id));
END
$$;
COMMENT ON FUNCTION cortana.tenant_name IS
    'What a tenant is called, or the person whose videos belong to no team; null: nobody has said it.';

CREATE FUNCTION api.resources(p jsonb) RETURNS api.answer
LANGUAGE sql STABLE
RETURN api.ok(jsonb_build_object(
    'is_interactive', is_interactive(),
    'hosts', coalesce((SELECT jsonb_agg(h) FROM api.host_objects(NULL) AS h), '[]'),
    'running', coalesce((
        SELECT jsonb_agg(jsonb_build_object('job_type', g.job_type, 'jobs', g.jobs, 'cpu_weight', g.weight) ORDER BY g.job_type)
        FROM (SELECT j.job_type, count(*) AS jobs, sum(t.cpu_weight) AS weight
              FROM jobs j JOIN job_types t ON t.name = j.job_type WHERE j.status = 'processing' GROUP BY 1) AS g), '[]'),
    'database', jsonb_build_object(
        'bytes', pg_database_size(current_database()),
        'tables', (SELECT jsonb_agg(to_jsonb(t) ORDER BY t.bytes DESC, t.name)
                   FROM (SELECT c.relname AS name, pg_total_relation_size(c.oid) AS bytes,
                                greatest(c.reltuples, 0)::bigint AS estimated_rows
                         FROM pg_class c WHERE c.relkind IN ('r', 'm')
                           AND c.relnamespace IN ('public'::regnamespace, 'cortana'::regnamespace)
                         ORDER BY 2 DESC LIMIT 20) AS t)),
    'store', (SELECT jsonb_build_object('videos', count(*), 'original_bytes', coalesce(sum(v.original_size), 0),
                  'line_picture_bytes', (SELECT coalesce(sum(l.size_bytes), 0) FROM line_packs l),
                  'tenants', coalesce((
                      SELECT jsonb_agg(to_jsonb(t) || jsonb_build_object('name', tenant_name(t.tenant_id))
                                       ORDER BY t.original_bytes DESC NULLS LAST, t.tenant_id)
                      FROM (SELECT coalesce(o.team_id, o.owner_id) AS tenant_id, count(*) AS videos,
                                   sum(o.original_size) AS original_bytes
                            FROM videos o GROUP BY 1 ORDER BY 3 DESC NULLS LAST LIMIT 50) AS t), '[]'))
              FROM videos v)));

CREATE FUNCTION api.upkeep_tasks(p jsonb) RETURNS api.answer
LANGUAGE sql STABLE
RETURN api.all_items((
    SELECT jsonb_agg(jsonb_build_object(
               'name', t.name, 'description', t.description, 'every_ms', round(extract(epoch FROM t.every) * 1000),
               'last_at', t.last_at, 'took_ms', t.took_ms, 'last_error', t.last_error) ORDER BY t.name)
    FROM upkeep_tasks t));

-- ---- embeddings ---------------------------------------------------------------------------------------------

CREATE FUNCTION api.embeddings(p jsonb) RETURNS api.answer
LANGUAGE sql STABLE AS $$
    SELECT api.all_items((
        SELECT jsonb_agg(jsonb_build_object(
                   'name', coalesce(m.name, u.used), 'dimensions', m.dimensions, 'is_in_use', u.used IS NOT NULL,
                   'texts', (SELECT count(*) FROM text_embeddings e WHERE e.model = m.name)) ORDER BY coalesce(m.name, u.used))
        FROM embedding_models m
        FULL JOIN (SELECT used FROM embedding_model_in_use() AS used WHERE used IS NOT NULL) AS u ON u.used = m.name));
$$;

CREATE FUNCTION api.use_embeddings(p jsonb) RETURNS api.answer
LANGUAGE sql
RETURN (SELECT api.done() FROM embed_videos_with(p ->> 'model'));

CREATE FUNCTION api.embed_videos(p jsonb) RETURNS api.answer
LANGUAGE plpgsql AS $$
BEGIN
    IF p ? 'video_id' THEN
        PERFORM api.require_video((p ->> 'video_id')::uuid);
    END IF;
    RETURN api.ok(jsonb_build_object('jobs', public.embed_videos(p ->> 'model', (p ->> 'video_id')::uuid)));
END
$$;

CREATE FUNCTION api.prune_embeddings(p jsonb) RETURNS api.answer
LANGUAGE sql
RETURN api.ok(jsonb_build_object('vectors_removed', public.prune_embeddings()));

-- ---- rules -------------------------------------------------------------------------------------------------

CREATE FUNCTION api.job_type_object(t job_types) RETURNS jsonb
LANGUAGE sql STABLE
RETURN jsonb_build_object(
    'name', t.name, 'description', t.description, 'base_priority', t.base_priority,
    'time_limit_ms', round(extract(epoch FROM t.time_limit) * 1000), 'is_public', t.is_public,
    'one_per_video', t.one_per_video, 'max_retries', cardinality(t.retry_delays), 'cpu_weight', t.cpu_weight,
    'retry_delays_ms', coalesce((SELECT jsonb_agg(round(extract(epoch FROM d) * 1000) ORDER BY n)
                                 FROM unnest(t.retry_delays) WITH ORDINALITY AS delays (d, n)), '[]'),
    'max_running', t.max_running, 'max_running_per_tenant', t.max_running_per_tenant,
    'interactive_adjustment', t.interactive_adjustment, 'put_off_while_interactive', t.put_off_while_interactive,
    'status_events', t.status_events, 'paused_at', t.paused_at, 'pause_reason', t.pause_reason, 'updated_at', t.updated_at);
COMMENT ON FUNCTION api.job_type_object IS 'A type of job and the rules by which workers claim it.';

CREATE FUNCTION api.job_types(p jsonb) RETURNS api.answer
LANGUAGE sql STABLE AS $$
    SELECT api.all_items(jsonb_agg(api.job_type_object(t) ORDER BY t.name)) FROM job_types t
$$;

CREATE FUNCTION api.job_type(p jsonb) RETURNS api.answer
LANGUAGE sql STABLE
RETURN api.versioned((SELECT api.job_type_object(t) FROM job_types t WHERE t.name = p ->> 'name'));

CREATE FUNCTION api.change_job_type(p jsonb) RETURNS api.answer
LANGUAGE sql AS $$
    UPDATE job_types t SET
        base_priority = coalesce(priority_number(p ->> 'base_priority'), t.base_priority),
        time_limit = coalesce(make_interval(secs => (p ->> 'time_limit_ms')::float8 / 1000), t.time_limit),
        cpu_weight = coalesce((p ->> 'cpu_weight')::int, t.cpu_weight),
        max_running = CASE WHEN p ? 'max_running' THEN nullif((p ->> 'max_running')::int, 0) ELSE t.max_running END,
        max_running_per_tenant = CASE WHEN p ? 'max_running_per_tenant'
            THEN nullif((p ->> 'max_running_per_tenant')::int, 0) ELSE t.max_running_per_tenant END,
        interactive_adjustment = coalesce((p ->> 'interactive_adjustment')::int, t.interactive_adjustment),
        put_off_while_interactive = coalesce((p ->> 'put_off_while_interactive')::boolean, t.put_off_while_interactive),
        status_events = coalesce((p ->> 'status_events')::boolean, t.status_events),
        is_public = coalesce((p ->> 'is_public')::boolean, t.is_public),
        retry_delays = CASE WHEN p ? 'retry_delays_ms'
            THEN ARRAY(SELECT make_interval(secs => ms::float8 / 1000)
                       FROM jsonb_array_elements_text(p -> 'retry_delays_ms') WITH ORDINALITY AS delays (ms, n) ORDER BY n)
            ELSE t.retry_delays END,
        updated_at = now()
    WHERE t.name = p ->> 'name';
    SELECT api.job_type(p);
$$;

-- ---- workflows ---------------------------------------------------------------------------------------------

CREATE FUNCTION api.workflows(p jsonb) RETURNS api.answer
LANGUAGE sql STABLE AS $$
    SELECT api.all_items(jsonb_agg(jsonb_build_object(
               'name', w.name, 'version', w.version, 'is_active', w.is_active, 'description', w.description,
               'steps', w.steps, 'created_at', w.created_at) ORDER BY w.name, w.version DESC))
    FROM workflows w WHERE CASE WHEN p ? 'name' THEN w.name = p ->> 'name' ELSE w.is_active END
$$;

CREATE FUNCTION api.change_workflow(p jsonb) RETURNS api.answer
LANGUAGE plpgsql AS $$
DECLARE
    version int;
BEGIN
    PERFORM check_workflow_steps(p -> 'steps');
    IF NOT coalesce((p ->> 'dry_run')::boolean, false) THEN
        IF NOT EXISTS (SELECT FROM workflows w WHERE w.name = p ->> 'name') THEN
            INSERT INTO workflows (name, steps, description) VALUES (p ->> 'name', p -> 'steps', p ->> 'description');
        END IF;
        version := public.change_workflow(p ->> 'name', p -> 'steps');
    END IF;
    RETURN api.ok(jsonb_build_object('name', p ->> 'name', 'version', version));
END
$$;

CREATE FUNCTION api.start_run(p jsonb) RETURNS api.answer
LANGUAGE plpgsql AS $$
DECLARE
    made uuid;
    is_new boolean;
    run runs;
BEGIN
    IF p ? 'video_id' THEN
        PERFORM api.require_video((p ->> 'video_id')::uuid);
    END IF;
    IF NOT EXISTS (SELECT FROM workflows w WHERE w.name = p ->> 'workflow' AND w.is_active) THEN
        RAISE EXCEPTION 'no workflow has this name: GET /workflows lists them' USING ERRCODE = 'invalid_parameter_value';
    END IF;
    SELECT s.run_id, s.is_new INTO made, is_new
    FROM public.start_run(p ->> 'workflow', coalesce(p -> 'input', '{}'), (p ->> 'video_id')::uuid, priority_number(p ->> 'priority')) AS s;
    SELECT r.* INTO run FROM runs r WHERE r.id = made;
    RETURN ROW(CASE WHEN is_new THEN 202 ELSE 200 END, NULL, jsonb_build_object('Location', '/api/v1/runs/' || made),
               api.run_object(run))::api.answer;
END
$$;

CREATE FUNCTION api.enqueue_command(p jsonb, OUT job_id uuid, OUT is_new boolean)
LANGUAGE plpgsql AS $$
BEGIN
    RAISE EXCEPTION 'no command has this name: GET /definitions lists them' USING ERRCODE = 'invalid_parameter_value';
END
$$;
COMMENT ON FUNCTION api.enqueue_command IS
    'Hook: enqueues the command that POST /jobs names. Knows no command; who has commands replaces it.';

CREATE FUNCTION api.create_job(p jsonb) RETURNS api.answer
LANGUAGE plpgsql AS $$
DECLARE
    made uuid;
    is_new boolean;
    job jobs;
BEGIN
    IF (p ? 'type') = (p ? 'command') THEN
        RAISE EXCEPTION 'name either the type of the job or a command' USING ERRCODE = 'invalid_parameter_value';
    ELSIF p ? 'video_id' THEN
        PERFORM api.require_video((p ->> 'video_id')::uuid);
    END IF;
    IF p ? 'type' AND NOT EXISTS (SELECT FROM job_types t WHERE t.name = p ->> 'type') THEN
        RAISE EXCEPTION 'no type of job has this name: GET /job-types lists them' USING ERRCODE = 'invalid_parameter_value';
    ELSIF p ? 'command' THEN
        SELECT c.job_id, c.is_new INTO made, is_new FROM api.enqueue_command(p) AS c;
    ELSE
        SELECT e.job_id, e.is_new INTO made, is_new
        FROM enqueue_job(p ->> 'type', coalesce(p -> 'payload', '{}'), (p ->> 'video_id')::uuid, priority_number(p ->> 'priority'),
                         (p ->> 'scheduled_for')::timestamptz, NULL, p ->> 'dedupe_key') AS e;
    END IF;
    SELECT j.* INTO job FROM jobs j WHERE j.id = made;
    RETURN ROW(CASE WHEN is_new THEN 202 ELSE 200 END, NULL, jsonb_build_object('Location', '/api/v1/jobs/' || made),
               api.job_object(job))::api.answer;
END
$$;

-- ---- tenants -----------------------------------------------------------------------------------------------

CREATE FUNCTION api.tenants(p jsonb) RETURNS api.answer
LANGUAGE plpgsql STABLE AS $$
DECLARE
    largest CONSTANT int := 100;
BEGIN
    RETURN api.all_items((
        SELECT jsonb_agg(jsonb_build_object(
                   'tenant_id', tenant, 'name', tenant_name(tenant),
                   'time_zone', (SELECT t.time_zone FROM tenants t WHERE t.id = tenant),
                   'stored_bytes', coalesce(tenant_bytes(tenant), 0),
                   'videos', (SELECT count(*) FROM videos v WHERE coalesce(v.team_id, v.owner_id) = tenant),
                   'max_bytes', tenant_max_bytes(tenant),
                   'sharing', EXISTS (SELECT FROM sharing_tenants a WHERE a.tenant_id = tenant), 'queued', coalesce(d.queued, 0),
                   'waiting', coalesce(d.waiting, 0), 'running', coalesce(d.running, 0),
                   'retrying', coalesce(d.retrying, 0), 'dead', coalesce(d.dead, 0), 'oldest_seconds', d.oldest_seconds,
                   'paused_at', t.paused_at, 'pause_reason', t.reason)
                   ORDER BY coalesce(d.queued, 0) + coalesce(d.running, 0) DESC, tenant)
        FROM (SELECT q.tenant_id, sum(q.depth) FILTER (WHERE q.status = 'queued') AS queued,
                     sum(q.depth) FILTER (WHERE q.status = 'waiting') AS waiting,
                     sum(q.depth) FILTER (WHERE q.status = 'running') AS running,
                     sum(q.depth) FILTER (WHERE q.status = 'retrying') AS retrying,
                     sum(q.depth) FILTER (WHERE q.status = 'dead') AS dead,
                     max(q.oldest_seconds) FILTER (WHERE q.status = 'queued') AS oldest_seconds
              FROM queue_depth_by_tenant q WHERE q.tenant_id IS NOT NULL GROUP BY 1) AS d
        FULL JOIN paused_tenants t ON t.tenant_id = d.tenant_id
        FULL JOIN (SELECT l.tenant_id FROM tenant_limits l
                   UNION SELECT t.id FROM tenants t
                   UNION (SELECT coalesce(v.team_id, v.owner_id) FROM videos v
                          WHERE coalesce(v.team_id, v.owner_id) IS NOT NULL
                          GROUP BY 1 ORDER BY sum(v.original_size) DESC NULLS LAST LIMIT largest)) AS l
            ON l.tenant_id = coalesce(d.tenant_id, t.tenant_id)
        CROSS JOIN LATERAL coalesce(d.tenant_id, t.tenant_id, l.tenant_id) AS tenant));
END
$$;

CREATE FUNCTION api.pause_tenant(p jsonb) RETURNS api.answer
LANGUAGE sql
RETURN (SELECT api.done() FROM public.pause_tenant((p ->> 'id')::uuid, p ->> 'reason'));

CREATE FUNCTION api.resume_tenant(p jsonb) RETURNS api.answer
LANGUAGE sql
RETURN (SELECT api.done() FROM public.resume_tenant((p ->> 'id')::uuid));

CREATE FUNCTION api.limit_tenant(p jsonb) RETURNS api.answer
LANGUAGE sql
RETURN (SELECT api.done() FROM public.limit_tenant(nullif(p ->> 'id', 'default')::uuid, pg_size_bytes(p ->> 'max_bytes')));

-- ---- who may call what -------------------------------------------------------------------------------------

SELECT secure_objects(p_for_the_service => '{throughput,queue_stats,performance,workers,drain_worker,hosts,host,change_host,host_disk,
    resources,upkeep_tasks,embeddings,use_embeddings,embed_videos,prune_embeddings,change_job_type,change_workflow,tenants,pause_tenant,
    resume_tenant,limit_tenant}');
