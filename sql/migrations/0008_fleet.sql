-- Rules of the fleet: which jobs may run on which host, and when.

-- ---- hosts, disks, sessions, pauses, workers ----------------------------------------------------

CREATE TABLE hosts (
    name text PRIMARY KEY,
    cpu_budget int CHECK (cpu_budget >= 1),
    disk_level text NOT NULL DEFAULT 'ok'
        CHECK (disk_level IN ('ok', 'warning', 'critical', 'emergency')),
    disk_used_percent real,
    disk_checked_at timestamptz,
    created_at timestamptz NOT NULL DEFAULT now()
);
COMMENT ON TABLE hosts IS 'Hosts that run workers: their CPU budget and how full their scratch disks are.';
COMMENT ON COLUMN hosts.cpu_budget IS
    'The largest sum of job_types.cpu_weight of the jobs that run on the host at once; null: only the slots of its '
    'workers limit the jobs.';
COMMENT ON COLUMN hosts.name IS 'Name of the host, as its workers call it.';
COMMENT ON COLUMN hosts.disk_level IS 'How full the scratch disk is: ok, warning, critical or emergency.';
COMMENT ON COLUMN hosts.disk_used_percent IS 'Percent of the scratch disk that is used.';
COMMENT ON COLUMN hosts.disk_checked_at IS 'When the disk was last checked.';
COMMENT ON COLUMN hosts.created_at IS 'When the host was first seen.';

SELECT secure_table('hosts');

CREATE TABLE cortana.disk_status_log (
    id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    host text NOT NULL,
    ts timestamptz NOT NULL DEFAULT clock_timestamp(),
    path text NOT NULL,
    total_bytes bigint NOT NULL CHECK (total_bytes >= 0),
    free_bytes bigint NOT NULL CHECK (free_bytes >= 0),
    used_percent real NOT NULL,
    level text NOT NULL CHECK (level IN ('ok', 'warning', 'critical', 'emergency'))
);
COMMENT ON TABLE cortana.disk_status_log IS
    'Sizes and free space of scratch directories as workers reported them; the last 1,000 reports of each host.';

CREATE INDEX disk_status_log_host ON disk_status_log (host, id);

SELECT secure_table('disk_status_log');

CREATE FUNCTION report_disk(p_host text, p_path text, p_total_bytes bigint, p_free_bytes bigint)
RETURNS text
LANGUAGE plpgsql AS $$
DECLARE
    used real := CASE WHEN p_total_bytes > 0
                      THEN 100 * (1 - p_free_bytes / p_total_bytes::double precision) ELSE 0 END;
    reserve CONSTANT bigint := least(p_total_bytes / 20, 16 * 1024 ^ 3);   -- as cv_disk_reserve()
    verdict text := CASE WHEN p_total_bytes = 0 THEN 'ok' WHEN p_free_bytes <= reserve THEN 'emergency'
                         WHEN p_free_bytes <= 2 * reserve THEN 'critical'
                         WHEN p_free_bytes <= 3 * reserve THEN 'warning' ELSE 'ok' END;
BEGIN
    INSERT INTO hosts AS h (name, disk_level, disk_used_percent, disk_checked_at)
    VALUES (p_host, verdict, used, clock_timestamp())
    ON CONFLICT (name) DO UPDATE SET disk_level = excluded.disk_level,
        disk_used_percent = excluded.disk_used_percent, disk_checked_at = excluded.disk_checked_at;
    INSERT INTO disk_status_log (host, path, total_bytes, free_bytes, used_percent, level)
    VALUES (p_host, p_path, p_total_bytes, p_free_bytes, used, verdict);
    DELETE FROM disk_status_log
    WHERE host = p_host AND id <= (SELECT id FROM disk_status_log WHERE host = p_host
                                   ORDER BY id DESC OFFSET 1000 LIMIT 1);
    RETURN verdict;
END
$$;
COMMENT ON FUNCTION report_disk IS
    'Records how full the scratch disk of a host is, and keeps the last 1,000 reports of the host. The reserve of a '
    'disk is 5 %, at most 16 GiB. Returns ''emergency'' while no more than the reserve is free, ''critical'' up to '
    'twice the reserve, ''warning'' up to three times, else ''ok''. In an emergency the workers of the host claim no jobs.';

CREATE TABLE cortana.interactive_sessions (
    id uuid PRIMARY KEY DEFAULT gen_random_uuid(),
    tenant_id uuid,
    kind text NOT NULL DEFAULT 'search' CHECK (kind ~ '^[a-z][a-z0-9_]{0,30}$'),
    started_at timestamptz NOT NULL DEFAULT now(),
    expires_at timestamptz NOT NULL
);
COMMENT ON TABLE cortana.interactive_sessions IS
    'Sessions of users who are searching, playing or waiting for a clip; see touch_session().';

CREATE INDEX interactive_sessions_expiry ON interactive_sessions (expires_at);

SELECT secure_table('interactive_sessions');

CREATE FUNCTION touch_session(p_id uuid DEFAULT NULL, p_kind text DEFAULT 'search',
                              p_time_to_live interval DEFAULT '60 seconds') RETURNS uuid
LANGUAGE plpgsql SECURITY DEFINER AS $$
DECLARE
    session uuid := coalesce(p_id, gen_random_uuid());
BEGIN
    INSERT INTO interactive_sessions AS s (id, tenant_id, kind, expires_at)
    VALUES (session, auth.uid(), p_kind,
            clock_timestamp() + least(greatest(p_time_to_live, '1 second'), '1 hour'))
    ON CONFLICT (id) DO UPDATE SET expires_at = excluded.expires_at, kind = excluded.kind
    WHERE s.tenant_id IS NOT DISTINCT FROM excluded.tenant_id;
    DELETE FROM interactive_sessions WHERE id IN (
        SELECT id FROM interactive_sessions WHERE expires_at < clock_timestamp() - interval '1 minute'
        LIMIT 100 FOR UPDATE SKIP LOCKED);
    RETURN session;
END
$$;
COMMENT ON FUNCTION touch_session IS
    'Begins an interactive session (a user searches, plays or waits for a clip), or prolongs the session p_id. '
    'Returns the id of the session.';

CREATE FUNCTION cortana.is_interactive() RETURNS boolean
LANGUAGE sql STABLE AS $$ SELECT EXISTS (SELECT FROM interactive_sessions WHERE expires_at > clock_timestamp()) $$;
COMMENT ON FUNCTION cortana.is_interactive IS
    'Whether an interactive session exists: a user searches, plays or waits for a clip.';

CREATE TABLE cortana.paused_tenants (
    tenant_id uuid PRIMARY KEY,
    reason text,
    paused_at timestamptz NOT NULL DEFAULT now()
);
COMMENT ON TABLE cortana.paused_tenants IS 'Paused tenants; workers do not claim their jobs.';

SELECT secure_table('paused_tenants');

CREATE FUNCTION pause_type(p_job_type text, p_reason text DEFAULT NULL) RETURNS boolean
LANGUAGE sql AS $$
    WITH paused AS (
        UPDATE job_types SET paused_at = coalesce(paused_at, now()), pause_reason = p_reason
        WHERE name = p_job_type RETURNING 1)
    SELECT EXISTS (SELECT FROM paused)
$$;
COMMENT ON FUNCTION pause_type IS
    'Pauses a job type: workers claim none of its jobs until resume_type(). Running jobs continue. Returns false if '
    'the type does not exist.';

CREATE FUNCTION resume_type(p_job_type text) RETURNS boolean
LANGUAGE sql AS $$
    WITH resumed AS (
        UPDATE job_types SET paused_at = NULL, pause_reason = NULL
        WHERE name = p_job_type AND paused_at IS NOT NULL RETURNING 1)
    SELECT EXISTS (SELECT FROM resumed)
$$;
COMMENT ON FUNCTION resume_type IS
    'Lets workers claim jobs of a paused type again. Returns false if the type was not paused.';

CREATE FUNCTION pause_tenant(p_tenant_id uuid, p_reason text DEFAULT NULL) RETURNS void
LANGUAGE sql AS $$
    INSERT INTO paused_tenants (tenant_id, reason) VALUES (p_tenant_id, p_reason)
    ON CONFLICT (tenant_id) DO UPDATE SET reason = excluded.reason
$$;
COMMENT ON FUNCTION pause_tenant IS
    'Pauses a tenant: workers claim none of its jobs until resume_tenant(). Running jobs continue.';

CREATE FUNCTION resume_tenant(p_tenant_id uuid) RETURNS boolean
LANGUAGE plpgsql AS $$
DECLARE
    is_resumed boolean;
    woken text;
BEGIN
    DELETE FROM paused_tenants WHERE tenant_id = p_tenant_id;
    is_resumed := FOUND;
    FOR woken IN SELECT name FROM job_types LOOP
        PERFORM pg_notify('cv_jobs_' || woken, '');
    END LOOP;
    RETURN is_resumed;
END
$$;
COMMENT ON FUNCTION resume_tenant IS
    'Lets workers claim the jobs of a paused tenant again. Returns false if the tenant was not paused.';

-- A heartbeat also creates the partitions for the events of the next months.
CREATE FUNCTION report_worker(p_id text, p_host text, p_version text, p_job_types text[],
                              p_slots int, p_running int, p_state text,
                              p_labels jsonb DEFAULT NULL) RETURNS text
LANGUAGE plpgsql AS $$
DECLARE
    is_to_drain boolean;
BEGIN
    INSERT INTO workers AS w (id, host, version, job_types, slots, running, state, labels)
    VALUES (p_id, p_host, p_version, p_job_types, p_slots, p_running, p_state, coalesce(p_labels, '{}'))
    ON CONFLICT (id) DO UPDATE SET
        labels = coalesce(p_labels, w.labels), version = excluded.version, job_types = excluded.job_types, slots = excluded.slots,
        running = excluded.running, state = excluded.state, last_seen = now()
    RETURNING drain_requested_at IS NOT NULL INTO is_to_drain;
    INSERT INTO hosts (name) VALUES (p_host) ON CONFLICT DO NOTHING;
    IF to_regclass('cortana.task_events_'
                   || to_char(now() AT TIME ZONE 'UTC' + interval '1 month', 'YYYY_MM')) IS NULL THEN
        PERFORM create_event_partitions();
    END IF;
    RETURN CASE WHEN is_to_drain THEN 'drain' ELSE 'ok' END;
END
$$;
COMMENT ON FUNCTION report_worker IS
    'Writes the row of a worker. The worker calls it at its start, as its heartbeat, and at its end. Returns ''ok'', '
    'or ''drain'' if the worker is to finish its jobs and exit.';

CREATE FUNCTION drain_worker(p_worker_id text) RETURNS boolean
LANGUAGE plpgsql AS $$
BEGIN
    UPDATE workers SET drain_requested_at = coalesce(drain_requested_at, now())
    WHERE id = p_worker_id AND state <> 'stopped';
    IF FOUND THEN
        PERFORM pg_notify('cv_drain', p_worker_id);
    END IF;
    RETURN FOUND;
END
$$;
COMMENT ON FUNCTION drain_worker IS
    'Asks a worker to finish its jobs and exit. Returns false if the worker does not exist.';

-- ---- what a claim may take ----------------------------------------------------------------------

CREATE FUNCTION cortana.host_limit(p_host text) RETURNS int
LANGUAGE sql STABLE
RETURN NULL::int;
COMMENT ON FUNCTION cortana.host_limit IS
    'Hook: how many jobs of all types may run on a host at once; null: no limit. Who knows of limits replaces it.';

CREATE FUNCTION cortana.machines_to_wake()
RETURNS TABLE (name text, host text, wake_method text, mac text, broadcast text, port int, script jsonb)
LANGUAGE plpgsql AS $$
BEGIN
END
$$;
COMMENT ON FUNCTION cortana.machines_to_wake IS
    'Hook: the machines that the scheduler is to wake now. Knows none; who has machines that sleep replaces it.';

CREATE FUNCTION cortana.claim_room(p_kind job_types, p_worker_id text, p_wanted int,
                           OUT room int, OUT blocked uuid[])
LANGUAGE plpgsql AS $$
DECLARE
    worker workers;
    machine hosts;
    host_most int;
    is_busy boolean := false;
    used int;
    reserved int;
BEGIN
    room := p_wanted;
    IF p_kind.name IS NULL OR p_kind.paused_at IS NOT NULL THEN
        room := 0;
        RETURN;
    END IF;
    IF p_kind.put_off_while_interactive OR p_kind.interactive_adjustment <> 0 THEN
        is_busy := is_interactive();
    END IF;
    IF p_kind.put_off_while_interactive THEN
        IF p_kind.put_off_until > clock_timestamp() THEN
            room := 0;
            RETURN;
        ELSIF is_busy THEN
            UPDATE job_types SET put_off_until = clock_timestamp() + interval '30 seconds'
            WHERE name = p_kind.name AND coalesce(put_off_until <= clock_timestamp(), true);
            room := 0;
            RETURN;
        END IF;
    END IF;
    SELECT * INTO worker FROM workers WHERE id = p_worker_id;
    IF worker.drain_requested_at IS NOT NULL THEN
        room := 0;
        RETURN;
    END IF;
    IF EXISTS (SELECT FROM paused_tenants) THEN
        blocked := ARRAY(SELECT tenant_id FROM paused_tenants);
    END IF;
    IF p_kind.max_running IS NOT NULL OR p_kind.max_running_per_tenant IS NOT NULL THEN
        BEGIN
            PERFORM acquire_lock('claims of type ' || p_kind.name);
        EXCEPTION WHEN lock_not_available THEN  -- the worker tries again soon
            room := 0;
            RETURN;
        END;
    END IF;
    IF p_kind.max_running IS NOT NULL THEN
        SELECT count(*) INTO used FROM jobs WHERE job_type = p_kind.name AND status = 'processing';
        room := least(room, p_kind.max_running - used);
    END IF;
    IF worker.host IS NOT NULL AND room > 0 THEN
        host_most := host_limit(worker.host);
        IF host_most IS NOT NULL THEN
            BEGIN
                PERFORM acquire_lock('claims on host ' || worker.host);
            EXCEPTION WHEN lock_not_available THEN
                room := 0;
                RETURN;
            END;
            SELECT count(*) INTO used FROM jobs j JOIN workers w ON w.id = j.locked_by
            WHERE j.status = 'processing' AND w.host = worker.host;
            room := least(room, host_most - used);
        END IF;
    END IF;
    IF worker.host IS NOT NULL AND room > 0 THEN
        SELECT * INTO machine FROM hosts WHERE name = worker.host AND cpu_budget IS NOT NULL;
        IF FOUND THEN
            BEGIN
                PERFORM acquire_lock('claims on host ' || worker.host);
            EXCEPTION WHEN lock_not_available THEN
                room := 0;
                RETURN;
            END;
            SELECT coalesce(sum(t.cpu_weight), 0) INTO used
            FROM jobs j JOIN workers w ON w.id = j.locked_by JOIN job_types t ON t.name = j.job_type
            WHERE j.status = 'processing' AND w.host = worker.host;
            -- Leave room for more urgent jobs of other types that could start on this host at once.
            SELECT coalesce(sum(t.cpu_weight), 0) INTO reserved
            FROM job_types t
            WHERE t.name <> p_kind.name AND t.paused_at IS NULL
              AND t.base_priority + CASE WHEN t.interactive_adjustment <> 0 AND is_interactive()
                                         THEN t.interactive_adjustment ELSE 0 END
                  > p_kind.base_priority + CASE WHEN is_busy THEN p_kind.interactive_adjustment
                                                ELSE 0 END
              AND EXISTS (SELECT FROM jobs j
                          WHERE j.job_type = t.name AND j.status = 'queued' AND j.is_ready)
              AND EXISTS (SELECT FROM workers w
                          WHERE w.host = worker.host AND w.state = 'running' AND w.running < w.slots
                            AND t.name = ANY (w.job_types)
                            AND w.last_seen > clock_timestamp() - interval '5 minutes');
            room := least(room, (machine.cpu_budget - used - reserved) / p_kind.cpu_weight);
            -- A job that is heavier than the whole budget may run alone; otherwise it would never run.
            IF room <= 0 AND used = 0 AND reserved = 0 THEN
                room := 1;
            END IF;
        END IF;
    END IF;
    room := greatest(room, 0);
END
$$;
COMMENT ON FUNCTION cortana.claim_room IS
    'Returns how many jobs of a type a worker may start now, and which tenants may start none. If there is a limit, '
    'takes a lock until the end of the transaction, so that the limit is exact. For claim_jobs() only.';

CREATE FUNCTION cortana.choose_among_tenants(p_job_type text, p_limit int, p_blocked uuid[], p_most int)
RETURNS uuid[]
LANGUAGE plpgsql AS $$
DECLARE
    full_tenants uuid[] := coalesce(p_blocked, '{}');
    running jsonb := '{}';
    window_size int;
    seen int;
    chosen uuid[];
BEGIN
    IF p_most IS NOT NULL THEN
        SELECT coalesce(jsonb_object_agg(tenant_id, n), '{}'),
               full_tenants || coalesce(array_agg(tenant_id) FILTER (WHERE n >= p_most), '{}')
        INTO running, full_tenants
        FROM (SELECT tenant_id, count(*) AS n FROM jobs
              WHERE job_type = p_job_type AND status = 'processing' AND tenant_id IS NOT NULL
              GROUP BY tenant_id) AS counted;
    END IF;

    -- NOT EXISTS becomes a hash join; <> ALL would compare every job with every tenant.
    FOREACH window_size IN ARRAY ARRAY[p_limit + 30, p_limit + 500] LOOP
        WITH head AS MATERIALIZED (
            SELECT id, tenant_id, priority, sequence, created_at FROM jobs
            WHERE job_type = p_job_type AND status = 'queued' AND is_ready
            ORDER BY priority DESC, sequence, created_at, id LIMIT window_size
        ), numbered AS (
            SELECT *, row_number() OVER (PARTITION BY tenant_id
                                         ORDER BY priority DESC, sequence, created_at, id) AS nth
            FROM head h
            WHERE NOT EXISTS (SELECT FROM unnest(full_tenants) AS f (id) WHERE f.id = h.tenant_id)
        ), allowed AS (
            SELECT * FROM numbered
            WHERE p_most IS NULL OR tenant_id IS NULL
               OR nth + coalesce((running ->> tenant_id::text)::int, 0) <= p_most
            ORDER BY priority DESC, sequence, created_at, id LIMIT p_limit
        )
        SELECT (SELECT count(*) FROM head), (SELECT array_agg(id) FROM allowed) INTO seen, chosen;
        IF coalesce(cardinality(chosen), 0) = p_limit OR seen < window_size THEN
            RETURN coalesce(chosen, '{}');
        END IF;
    END LOOP;

    WITH RECURSIVE tenants (tenant_id) AS (
        (SELECT tenant_id FROM jobs
         WHERE job_type = p_job_type AND status = 'queued' AND is_ready AND tenant_id IS NOT NULL
         ORDER BY tenant_id LIMIT 1)
        UNION ALL
        SELECT (SELECT j.tenant_id FROM jobs j
                WHERE j.job_type = p_job_type AND j.status = 'queued' AND j.is_ready
                  AND j.tenant_id > t.tenant_id
                ORDER BY j.tenant_id LIMIT 1)
        FROM tenants t WHERE t.tenant_id IS NOT NULL
    ), open_tenants AS MATERIALIZED (
        SELECT tenant_id FROM tenants t
        WHERE NOT EXISTS (SELECT FROM unnest(full_tenants) AS f (id) WHERE f.id = t.tenant_id)
    ), allowed AS (
        SELECT j.* FROM open_tenants t,
            LATERAL (SELECT id, priority, sequence, created_at FROM jobs
                     WHERE job_type = p_job_type AND status = 'queued' AND is_ready
                       AND tenant_id = t.tenant_id
                     ORDER BY priority DESC, sequence
                     LIMIT least(p_limit, coalesce(
                         p_most - coalesce((running ->> t.tenant_id::text)::int, 0), p_limit))) AS j
        UNION ALL
        (SELECT id, priority, sequence, created_at FROM jobs
         WHERE job_type = p_job_type AND status = 'queued' AND is_ready AND tenant_id IS NULL
         ORDER BY priority DESC, sequence, created_at, id LIMIT p_limit)
    )
    SELECT array_agg(id) INTO chosen
    FROM (SELECT id FROM allowed ORDER BY priority DESC, sequence, created_at, id LIMIT p_limit) AS a;
    RETURN coalesce(chosen, '{}');
END
$$;
COMMENT ON FUNCTION cortana.choose_among_tenants IS
    'Chooses at most p_limit jobs to claim when tenants are blocked or have a limit, in the order of the claim. '
    'Reads the head of the queue first, and then more of it. If all jobs there belong to tenants that may start '
    'none, goes from tenant to tenant through the index. The caller must hold the lock of claim_room(). For '
    'claim_jobs() only.';

CREATE FUNCTION why_job(p_job_id uuid) RETURNS TABLE (reason text, detail text, facts jsonb)
LANGUAGE plpgsql STABLE SECURITY DEFINER AS $$
DECLARE
    job jobs;
    kind job_types;
    n bigint;
BEGIN
    SELECT * INTO job FROM jobs WHERE id = p_job_id AND may_touch(tenant_id);
    IF NOT FOUND THEN
        RETURN;
    END IF;
    SELECT * INTO kind FROM job_types WHERE name = job.job_type;
    CASE job.status
    WHEN 'processing' THEN
        RETURN QUERY SELECT CASE WHEN job.cancel_requested_at IS NOT NULL THEN 'stopping'
                                 WHEN job.locked_until < clock_timestamp() THEN 'lease lost'
                                 ELSE 'running' END,
                            format('attempt %s on %s, lease until %s', job.attempt, job.locked_by,
                                   job.locked_until),
                            jsonb_build_object('attempt', job.attempt, 'worker', job.locked_by, 'until', job.locked_until);
        RETURN;
    WHEN 'done', 'canceled' THEN
        IF job.skipped THEN
            RETURN QUERY SELECT 'skipped', format('%s (%s) %s: retry it with retry_job(), and this job goes on, too', p.id, p.step,
                    CASE p.status WHEN 'failed' THEN 'has failed' ELSE 'was canceled' END),
                    jsonb_build_object('job', p.id, 'step', p.step, 'status', p.status)
                FROM jobs_in_the_way(job.id) AS p;
            RETURN;
        END IF;
        RETURN QUERY SELECT job.status::text, 'since ' || job.finished_at, jsonb_build_object('since', job.finished_at);
        RETURN;
    WHEN 'failed' THEN
        IF job.scheduled_for IS NULL THEN
            RETURN QUERY SELECT 'dead', concat_ws(': ', job.payload #>> '{error,type}',
                                                  job.payload #>> '{error,message}'),
                jsonb_build_object('error', job.payload #>> '{error,type}');
            RETURN;
        END IF;
        RETURN QUERY SELECT 'retry scheduled',
            format('at %s, after %s', job.scheduled_for, job.payload #>> '{error,type}'),
            jsonb_build_object('at', job.scheduled_for, 'error', job.payload #>> '{error,type}');
    ELSE
        IF job.unmet_dependencies > 0 THEN
            RETURN QUERY SELECT 'blocked', format(
                    '%s (%s) is %s and will not be tried again: retry it with retry_job(), or cancel this job', p.id, p.step,
                    CASE p.status WHEN 'failed' THEN 'dead' ELSE 'canceled' END),
                    jsonb_build_object('job', p.id, 'step', p.step, 'status', p.status)
                FROM jobs p WHERE p.id = ANY (job.depends_on)
                              AND (p.status = 'canceled' OR p.status = 'failed' AND p.scheduled_for IS NULL)
                ORDER BY p.id;
            RETURN QUERY SELECT 'waiting for jobs', format('%s (%s %s)', p.id, p.step, p.status),
                    jsonb_build_object('job', p.id, 'step', p.step, 'status', p.status)
                FROM jobs p WHERE p.id = ANY (job.depends_on) AND p.status <> 'done'
                              AND NOT (p.status = 'canceled' OR p.status = 'failed' AND p.scheduled_for IS NULL)
                ORDER BY p.id;
            RETURN QUERY SELECT 'waiting for jobs', format('%s (this job was deleted)', d), NULL::jsonb
                FROM unnest(job.depends_on) AS d WHERE NOT EXISTS (SELECT FROM jobs WHERE id = d);
        END IF;
        IF job.scheduled_for > clock_timestamp() THEN
            RETURN QUERY SELECT 'scheduled', 'for ' || job.scheduled_for, jsonb_build_object('at', job.scheduled_for);
        END IF;
    END CASE;
    IF kind.paused_at IS NOT NULL THEN
        RETURN QUERY SELECT 'type paused', concat_ws(': ', 'since ' || kind.paused_at, kind.pause_reason),
            jsonb_build_object('since', kind.paused_at, 'said', kind.pause_reason);
    END IF;
    RETURN QUERY SELECT 'tenant paused', concat_ws(': ', 'since ' || p.paused_at, p.reason),
            jsonb_build_object('since', p.paused_at, 'said', p.reason)
        FROM paused_tenants p WHERE p.tenant_id = job.tenant_id;
    IF kind.put_off_while_interactive
       AND (is_interactive() OR kind.put_off_until > clock_timestamp()) THEN
        RETURN QUERY SELECT 'put off', 'a user searches or plays; workers look again at '
                                       || coalesce(kind.put_off_until::text, 'the next claim'),
            jsonb_build_object('until', kind.put_off_until);
    END IF;
    SELECT count(*) INTO n FROM jobs WHERE job_type = job.job_type AND status = 'processing';
    IF n >= kind.max_running THEN
        RETURN QUERY SELECT 'limit reached', format('%s of %s run in the fleet', n, kind.max_running),
            jsonb_build_object('n', n, 'most', kind.max_running);
    END IF;
    SELECT count(*) INTO n FROM jobs
    WHERE job_type = job.job_type AND status = 'processing' AND tenant_id = job.tenant_id;
    IF n >= kind.max_running_per_tenant THEN
        RETURN QUERY SELECT 'limit reached', format('%s of %s run for this tenant', n,
                                                    kind.max_running_per_tenant),
            jsonb_build_object('n', n, 'most', kind.max_running_per_tenant, 'of', 'tenant');
    END IF;
    SELECT count(*) INTO n FROM workers w
    WHERE job.job_type = ANY (w.job_types) AND w.state = 'running' AND w.drain_requested_at IS NULL
      AND w.last_seen > clock_timestamp() - interval '5 minutes';
    IF n = 0 THEN
        RETURN QUERY SELECT 'no worker', format('no running worker claims %s jobs', job.job_type),
            jsonb_build_object('type', job.job_type);
    ELSE
        RETURN QUERY SELECT 'disk full', format('%s: %s %% used', h.name, round(h.disk_used_percent)),
                jsonb_build_object('host', h.name, 'percent', round(h.disk_used_percent))
            FROM hosts h WHERE h.disk_level = 'emergency'
             AND EXISTS (SELECT FROM workers w WHERE w.host = h.name AND w.state = 'running'
                           AND job.job_type = ANY (w.job_types));
        RETURN QUERY SELECT 'limit reached', format('%s of %s run on %s', b.n, b.most, b.host),
                jsonb_build_object('n', b.n, 'most', b.most, 'of', 'host', 'host', b.host)
            FROM (SELECT o.name AS host, host_limit(o.name) AS most,
                         (SELECT count(*) FROM jobs j JOIN workers w ON w.id = j.locked_by
                          WHERE j.status = 'processing' AND w.host = o.name) AS n
                  FROM hosts o
                  WHERE EXISTS (SELECT FROM workers w WHERE w.host = o.name AND w.state = 'running'
                                  AND job.job_type = ANY (w.job_types))) AS b
            WHERE b.n >= b.most;
        RETURN QUERY SELECT 'host busy', format('%s: too little is left of the CPU budget of %s', h.name, h.cpu_budget),
                jsonb_build_object('host', h.name, 'budget', h.cpu_budget)
            FROM hosts h WHERE h.cpu_budget IS NOT NULL
             AND EXISTS (SELECT FROM workers w WHERE w.host = h.name AND w.state = 'running'
                           AND job.job_type = ANY (w.job_types))
             AND h.cpu_budget < kind.cpu_weight + (
                 SELECT coalesce(sum(t.cpu_weight), 0)
                 FROM jobs j JOIN workers w ON w.id = j.locked_by
                      JOIN job_types t ON t.name = j.job_type
                 WHERE j.status = 'processing' AND w.host = h.name);
    END IF;
    IF job.is_ready THEN
        SELECT count(*) INTO n FROM (
            SELECT FROM jobs j
            WHERE j.job_type = job.job_type AND j.status = 'queued' AND j.is_ready
              AND (-j.priority, j.sequence, j.created_at, j.id)
                  < (-job.priority, job.sequence, job.created_at, job.id)
            LIMIT 100000) AS ahead;
        RETURN QUERY SELECT 'waiting its turn', CASE n WHEN 0 THEN 'it is the next' WHEN 1 THEN 'one job is before it'
                                                  ELSE format('%s jobs are before it', n) END,
            jsonb_build_object('n', n);
    END IF;
END
$$;
COMMENT ON FUNCTION why_job IS
    'Explains why a job is not running: one row for each reason, the decisive reason first. "facts" has what '
    '"detail" says in words, for pages in other languages. Returns no row if the job does not exist.';

-- ---- workers with SQL of their own ---------------------------------------------------------------

CREATE VIEW claimable_jobs WITH (security_invoker = true) AS
SELECT id, job_type, video_id, tenant_id, run_id, step, part, payload, status, priority, sequence, created_at, retry_count,
       max_retries, attempt, depends_on, correlation_id
FROM jobs
WHERE status = 'queued' AND is_ready
  AND NOT EXISTS (SELECT FROM job_types t WHERE t.name = jobs.job_type AND t.paused_at IS NOT NULL)
  AND NOT EXISTS (SELECT FROM paused_tenants p WHERE p.tenant_id = jobs.tenant_id);
COMMENT ON VIEW claimable_jobs IS
    'The jobs that a worker may take now, for workers with SQL of their own: SELECT … FROM claimable_jobs … FOR UPDATE '
    'SKIP LOCKED locks rows of jobs. Jobs that wait for others or are scheduled for later, and jobs of a paused type or '
    'tenant, are not in it. The limits of job_types and of hosts apply to claim_jobs() only.';
GRANT SELECT, UPDATE ON claimable_jobs TO service_role;

-- ---- who may call what --------------------------------------------------------------------------

SELECT secure_objects('{claim_room}');
GRANT EXECUTE ON FUNCTION touch_session, why_job TO cortana_app;
GRANT EXECUTE ON FUNCTION touch_session TO cortana_gateway;
