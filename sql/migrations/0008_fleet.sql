-- The rules of a fleet: who may run what, where, and when; and the operator's hands.

-- ---- who asks ------------------------------------------------------------------------------------

-- Roles for programs: an application enqueues and reads what is its user's, a worker claims.
DO $$
DECLARE
    role_name text;
BEGIN
    FOREACH role_name IN ARRAY ARRAY['cortana_app', 'cortana_worker'] LOOP
        IF NOT EXISTS (SELECT FROM pg_roles WHERE rolname = role_name) THEN
            BEGIN
                EXECUTE format('CREATE ROLE %I NOLOGIN', role_name);
            EXCEPTION WHEN duplicate_object OR unique_violation THEN
                NULL; -- another database of this cluster is being migrated at the same moment
            END;
        END IF;
    END LOOP;
    GRANT authenticated TO cortana_app;
    GRANT service_role TO cortana_worker;
EXCEPTION WHEN unique_violation OR object_in_use THEN
    NULL; -- as above
END
$$;

-- Whether the caller, whoever owns the function that asks, acts for the whole service.
CREATE FUNCTION acts_for_everyone() RETURNS boolean
LANGUAGE sql STABLE
RETURN pg_has_role(CASE current_setting('role') WHEN 'none' THEN session_user
                                                ELSE current_setting('role')::name END,
                   'service_role', 'USAGE');

-- Whether the caller may change what belongs to a tenant: the service, or the tenant's own user.
CREATE FUNCTION may_touch(p_tenant_id uuid) RETURNS boolean
LANGUAGE sql STABLE
SET search_path = pg_catalog, public AS
$$
    SELECT acts_for_everyone()
           OR coalesce(p_tenant_id = auth.uid() OR p_tenant_id = ANY (current_team_ids()), false)
$$;

-- For callers that do not act for everyone: the tenant that a new job is for, or what forbids it. What a
-- payload names must be the video's own, for workers read it with the rights of the service.
CREATE FUNCTION check_own_job(p_kind job_types, p_payload jsonb, p_video_id uuid, p_tenant_id uuid,
                              p_depends_on uuid[]) RETURNS uuid
LANGUAGE plpgsql STABLE
SET search_path = pg_catalog, public AS
$$
DECLARE
    tenant uuid := coalesce(p_tenant_id, auth.uid());
    original text;
BEGIN
    IF NOT p_kind.is_public THEN
        RAISE EXCEPTION 'jobs of type % are not for applications', p_kind.name
            USING ERRCODE = 'insufficient_privilege';
    END IF;
    IF tenant IS NULL OR NOT may_touch(tenant) THEN
        RAISE EXCEPTION 'not yours to work on' USING ERRCODE = 'insufficient_privilege';
    END IF;
    SELECT s3_original_path INTO original FROM videos
    WHERE id = p_video_id AND (owner_id = auth.uid() OR team_id = ANY (current_team_ids()));
    IF NOT FOUND AND (p_video_id IS NOT NULL OR p_kind.one_per_video) THEN
        RAISE EXCEPTION 'not your video' USING ERRCODE = 'insufficient_privilege';
    END IF;
    IF p_payload ->> 'video_id' <> coalesce(p_video_id::text, '')
       OR p_payload ? 's3_original_path' AND p_payload ->> 's3_original_path' IS DISTINCT FROM original
       OR p_payload ? 'frame_paths' AND jsonb_path_exists(
              p_payload, '$.frame_paths[*] ? (@.type() != "string" || !(@ starts with $prefix))',
              jsonb_build_object('prefix', format('frames/%s/', p_video_id)))
       OR p_payload ? 'line_paths' AND jsonb_path_exists(
              p_payload, '$.line_paths[*] ? (@.type() != "string" || !(@ starts with $prefix))',
              jsonb_build_object('prefix', format('lines/%s/', p_video_id))) THEN
        RAISE EXCEPTION 'the payload names what is not this video''s'
            USING ERRCODE = 'insufficient_privilege';
    END IF;
    IF EXISTS (SELECT FROM unnest(p_depends_on) AS parent LEFT JOIN jobs j ON j.id = parent
               WHERE j.id IS NULL OR NOT may_touch(j.tenant_id)) THEN
        RAISE EXCEPTION 'not your job to wait for' USING ERRCODE = 'insufficient_privilege';
    END IF;
    RETURN tenant;
END
$$;

-- ---- hosts, disks, sessions, pauses ----------------------------------------------------------------

CREATE TABLE hosts (
    name text PRIMARY KEY,
    cpu_budget int CHECK (cpu_budget >= 1),
    disk_level text NOT NULL DEFAULT 'ok'
        CHECK (disk_level IN ('ok', 'warning', 'critical', 'emergency')),
    disk_used_percent real,
    disk_checked_at timestamptz,
    created_at timestamptz NOT NULL DEFAULT now()
);
COMMENT ON COLUMN hosts.cpu_budget IS
    'The sum of job_types.cpu_weight that may run there at once; null: no limit but the slots.';

CREATE TABLE disk_status_log (
    id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    host text NOT NULL,
    ts timestamptz NOT NULL DEFAULT clock_timestamp(),
    path text NOT NULL,
    total_bytes bigint NOT NULL CHECK (total_bytes >= 0),
    free_bytes bigint NOT NULL CHECK (free_bytes >= 0),
    used_percent real NOT NULL,
    level text NOT NULL CHECK (level IN ('ok', 'warning', 'critical', 'emergency'))
);
CREATE INDEX disk_status_log_host ON disk_status_log (host, id);
COMMENT ON TABLE disk_status_log IS 'Scratch directories as their workers found them; the last 1,000 a host.';

-- One row a check; keeps the last 1,000 of the host and says how full the disk is taken to be.
CREATE FUNCTION report_disk(p_host text, p_path text, p_total_bytes bigint, p_free_bytes bigint)
RETURNS text
LANGUAGE plpgsql AS
$$
DECLARE
    used real := CASE WHEN p_total_bytes > 0
                      THEN 100 * (1 - p_free_bytes / p_total_bytes::double precision) ELSE 0 END;
    verdict text := CASE WHEN used >= 95 THEN 'emergency' WHEN used >= 90 THEN 'critical'
                         WHEN used >= 85 THEN 'warning' ELSE 'ok' END;
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
    '''ok'' below 85 %, ''warning'' from 85, ''critical'' from 90, ''emergency'' from 95: no new claims.';

CREATE TABLE interactive_sessions (
    id uuid PRIMARY KEY DEFAULT gen_random_uuid(),
    tenant_id uuid,
    kind text NOT NULL DEFAULT 'search' CHECK (kind ~ '^[a-z][a-z0-9_]{0,30}$'),
    started_at timestamptz NOT NULL DEFAULT now(),
    expires_at timestamptz NOT NULL
);
CREATE INDEX interactive_sessions_expiry ON interactive_sessions (expires_at);

-- Begins or prolongs a session: somebody searches, plays or waits for a clip. Those that have ended
-- are swept away with it.
CREATE FUNCTION touch_session(p_id uuid DEFAULT NULL, p_kind text DEFAULT 'search',
                              p_time_to_live interval DEFAULT '60 seconds') RETURNS uuid
LANGUAGE plpgsql
SECURITY DEFINER SET search_path = pg_catalog, public AS
$$
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

CREATE FUNCTION is_interactive() RETURNS boolean
LANGUAGE sql STABLE AS
$$ SELECT EXISTS (SELECT FROM interactive_sessions WHERE expires_at > clock_timestamp()) $$;

CREATE TABLE paused_tenants (
    tenant_id uuid PRIMARY KEY,
    reason text,
    paused_at timestamptz NOT NULL DEFAULT now()
);

CREATE FUNCTION pause_type(p_job_type text, p_reason text DEFAULT NULL) RETURNS boolean
LANGUAGE sql AS
$$
    WITH paused AS (
        UPDATE job_types SET paused_at = coalesce(paused_at, now()), pause_reason = p_reason
        WHERE name = p_job_type RETURNING 1)
    SELECT EXISTS (SELECT FROM paused)
$$;
CREATE FUNCTION resume_type(p_job_type text) RETURNS boolean
LANGUAGE sql AS
$$
    WITH resumed AS (
        UPDATE job_types SET paused_at = NULL, pause_reason = NULL
        WHERE name = p_job_type AND paused_at IS NOT NULL RETURNING 1)
    SELECT EXISTS (SELECT FROM resumed)
$$;
CREATE FUNCTION pause_tenant(p_tenant_id uuid, p_reason text DEFAULT NULL) RETURNS void
LANGUAGE sql AS
$$
    INSERT INTO paused_tenants (tenant_id, reason) VALUES (p_tenant_id, p_reason)
    ON CONFLICT (tenant_id) DO UPDATE SET reason = excluded.reason
$$;
CREATE FUNCTION resume_tenant(p_tenant_id uuid) RETURNS boolean
LANGUAGE plpgsql AS
$$
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
COMMENT ON FUNCTION pause_type IS 'No new claims of a type; what runs goes on. False: no such type.';
COMMENT ON FUNCTION pause_tenant IS 'No new claims of a tenant''s jobs; what runs goes on.';

-- A worker that is to finish what it has and go; false when there is no such worker.
CREATE FUNCTION drain_worker(p_worker_id text) RETURNS boolean
LANGUAGE plpgsql AS
$$
BEGIN
    UPDATE workers SET drain_requested_at = coalesce(drain_requested_at, now())
    WHERE id = p_worker_id AND state <> 'stopped';
    IF FOUND THEN
        PERFORM pg_notify('cv_drain', p_worker_id);
    END IF;
    RETURN FOUND;
END
$$;

-- ---- what a claim may take ---------------------------------------------------------------------------

-- How many jobs of a type a worker may start now, and the tenants that may start none. Takes a lock for
-- the rest of the transaction where a limit has to be exact. Not for use outside.
CREATE FUNCTION claim_room(p_kind job_types, p_worker_id text, p_wanted int,
                           OUT room int, OUT blocked uuid[])
LANGUAGE plpgsql AS
$$
DECLARE
    worker workers;
    machine hosts;
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
        PERFORM pg_advisory_xact_lock(hashtext('claim_jobs'), hashtext(p_kind.name));
    END IF;
    IF p_kind.max_running IS NOT NULL THEN
        SELECT count(*) INTO used FROM jobs WHERE job_type = p_kind.name AND status = 'processing';
        room := least(room, p_kind.max_running - used);
    END IF;
    IF worker.host IS NOT NULL AND room > 0 THEN
        SELECT * INTO machine FROM hosts WHERE name = worker.host AND cpu_budget IS NOT NULL;
        IF FOUND THEN
            PERFORM pg_advisory_xact_lock(hashtext('claim_jobs on a host'), hashtext(worker.host));
            SELECT coalesce(sum(t.cpu_weight), 0) INTO used
            FROM jobs j JOIN workers w ON w.id = j.locked_by JOIN job_types t ON t.name = j.job_type
            WHERE j.status = 'processing' AND w.host = worker.host;
            -- What is more urgent and could start on this host at once keeps its share of it.
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
            -- A job that is heavier than the whole budget runs alone rather than never.
            IF room <= 0 AND used = 0 AND reserved = 0 THEN
                room := 1;
            END IF;
        END IF;
    END IF;
    room := greatest(room, 0);
END
$$;

-- The jobs to claim where tenants are blocked or have a limit, at most p_limit, in the order of the
-- claim. Looks at the head of the queue first, a little and then more of it; where that is all of tenants
-- that may start nothing, goes from tenant to tenant by the index. Needs the lock that claim_room() takes.
-- Not for use outside.
CREATE FUNCTION choose_among_tenants(p_job_type text, p_limit int, p_blocked uuid[], p_most int)
RETURNS uuid[]
LANGUAGE plpgsql AS
$$
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

    -- NOT EXISTS is hashed; <> ALL would compare each with each.
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

-- ---- the operator's hands ----------------------------------------------------------------------------

-- A filter as a condition on jobs j: {id, job_type, status, tenant_id, video_id, run_id, error_type,
-- created_before, created_after}, all of which must hold. An unknown member is an error, so that a
-- mistyped filter does not mean everything.
CREATE FUNCTION filter_condition(p_filter jsonb) RETURNS text
LANGUAGE plpgsql IMMUTABLE AS
$$
DECLARE
    known CONSTANT jsonb := jsonb_build_object(
        'id', 'j.id = %L::uuid', 'job_type', 'j.job_type = %L', 'status', 'j.status = %L::job_status',
        'tenant_id', 'j.tenant_id = %L::uuid', 'video_id', 'j.video_id = %L::uuid',
        'run_id', 'j.run_id = %L::uuid', 'error_type', 'j.payload #>> ''{error,type}'' = %L',
        'created_before', 'j.created_at < %L::timestamptz',
        'created_after', 'j.created_at >= %L::timestamptz');
    unknown text;
BEGIN
    IF jsonb_typeof(p_filter) IS DISTINCT FROM 'object' OR p_filter = '{}' THEN
        RAISE EXCEPTION 'a filter names at least one of id, job_type, status, tenant_id, video_id, run_id, error_type, created_before, created_after'
            USING ERRCODE = 'invalid_parameter_value';
    END IF;
    SELECT k INTO unknown FROM jsonb_object_keys(p_filter) AS k WHERE NOT known ? k LIMIT 1;
    IF FOUND THEN
        RAISE EXCEPTION 'a filter knows no "%"', left(unknown, 100)
            USING ERRCODE = 'invalid_parameter_value';
    END IF;
    RETURN (SELECT string_agg(format(known ->> key, value), ' AND ') FROM jsonb_each_text(p_filter));
END
$$;

-- Locks up to p_limit jobs that a filter means, of those that are in one of the given states (conditions
-- that the partial indexes know); none only when there are none. The last in the queue come first, away
-- from what workers claim. Not for use outside.
CREATE FUNCTION lock_filtered_jobs(p_filter jsonb, p_states text[], p_limit int) RETURNS uuid[]
LANGUAGE plpgsql AS
$$
DECLARE
    statement CONSTANT text := 'SELECT array_agg(id) FROM (
        SELECT j.id FROM jobs j WHERE %s AND %s %s LIMIT $1 FOR UPDATE %s) AS locked';
    condition CONSTANT text := filter_condition(p_filter);
    sorted CONSTANT text := 'ORDER BY j.priority, j.sequence DESC, j.created_at DESC, j.id DESC';
    patience text;
    state text;
    locked uuid[];
    chosen uuid[] := '{}';
BEGIN
    -- What somebody else is just changing is waited for at the end, one job at a time and holding none.
    FOREACH patience IN ARRAY '{SKIP LOCKED,""}'::text[] LOOP
        FOREACH state IN ARRAY p_states LOOP
            EXECUTE format(statement, state, condition,
                           CASE WHEN p_filter ? 'job_type' AND state LIKE '%AND is_ready%' THEN sorted END,
                           patience)
                INTO locked
                USING CASE WHEN patience = '' THEN least(p_limit, 1) ELSE p_limit - cardinality(chosen) END;
            chosen := chosen || locked;
            EXIT WHEN cardinality(chosen) >= p_limit OR patience = '' AND locked IS NOT NULL;
        END LOOP;
        EXIT WHEN cardinality(chosen) > 0;
    END LOOP;
    RETURN chosen;
END
$$;

-- Cancels up to p_limit jobs that a filter means: waiting ones at once, running ones are told. Call it
-- until it returns 0: each call is one short transaction.
CREATE FUNCTION cancel_jobs(p_filter jsonb, p_limit int DEFAULT 10000) RETURNS bigint
LANGUAGE plpgsql AS
$$
DECLARE
    chosen uuid[] := lock_filtered_jobs(p_filter, ARRAY[
        $s$j.status = 'queued' AND is_ready$s$,
        $s$j.status = 'queued' AND NOT is_ready AND scheduled_for IS NOT NULL$s$,
        $s$j.status = 'queued' AND NOT is_ready AND scheduled_for IS NULL$s$,
        $s$j.status = 'failed' AND NOT is_ready AND scheduled_for IS NOT NULL$s$,
        $s$j.status = 'processing' AND cancel_requested_at IS NULL$s$], p_limit);
    stopped bigint;
    told bigint;
BEGIN
    UPDATE jobs SET status = 'canceled' WHERE id = ANY (chosen) AND status <> 'processing';
    GET DIAGNOSTICS stopped = ROW_COUNT;
    WITH asked AS (
        UPDATE jobs SET cancel_requested_at = clock_timestamp()
        WHERE id = ANY (chosen) AND status = 'processing'
        RETURNING id)
    SELECT count(pg_notify('cv_cancel', id::text)) INTO told FROM asked;
    RETURN stopped + told;
END
$$;

-- Gives waiting jobs another priority, and dead ones for when they are tried again; returns how many
-- changed. The same limit and filter as cancel_jobs().
CREATE FUNCTION set_priority(p_filter jsonb, p_priority int, p_limit int DEFAULT 10000) RETURNS bigint
LANGUAGE plpgsql AS
$$
DECLARE
    chosen uuid[] := lock_filtered_jobs(p_filter, ARRAY[
        format($s$j.status = 'queued' AND is_ready AND j.priority <> %s$s$, p_priority),
        format($s$j.status = 'queued' AND NOT is_ready AND j.priority <> %s$s$, p_priority),
        format($s$j.status = 'failed' AND NOT is_ready AND j.priority <> %s$s$, p_priority)], p_limit);
    changed bigint;
BEGIN
    UPDATE jobs SET priority = p_priority WHERE id = ANY (chosen);
    GET DIAGNOSTICS changed = ROW_COUNT;
    IF EXISTS (SELECT FROM job_type_upkeep WHERE from_sequence IS NOT NULL) THEN
        PERFORM claim_from_head(job_type, p_priority, min(sequence))
        FROM jobs WHERE id = ANY (chosen) AND is_ready GROUP BY job_type;
    END IF;
    RETURN changed;
END
$$;

-- Why a job is not running: one row a reason, the deciding one first. Empty: there is no such job.
CREATE FUNCTION why_job(p_job_id uuid) RETURNS TABLE (reason text, detail text)
LANGUAGE plpgsql STABLE
SECURITY DEFINER SET search_path = pg_catalog, public AS
$$
DECLARE
    job jobs;
    kind job_types;
    n bigint;
    found_any boolean := false;
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
                                   job.locked_until);
        RETURN;
    WHEN 'done', 'canceled' THEN
        RETURN QUERY SELECT job.status::text, 'since ' || job.finished_at;
        RETURN;
    WHEN 'failed' THEN
        IF job.scheduled_for IS NULL THEN
            RETURN QUERY SELECT 'dead', concat_ws(': ', job.payload #>> '{error,type}',
                                                  job.payload #>> '{error,message}');
            RETURN;
        END IF;
        RETURN QUERY SELECT 'retry scheduled',
            format('at %s, after %s', job.scheduled_for, job.payload #>> '{error,type}');
    ELSE
        IF job.unmet_dependencies > 0 THEN
            RETURN QUERY SELECT 'waiting for jobs', format('%s (%s %s)', p.id, p.step, p.status)
                FROM jobs p WHERE p.id = ANY (job.depends_on) AND p.status <> 'done' ORDER BY p.id;
            RETURN QUERY SELECT 'waiting for jobs', format('%s (it is gone)', d)
                FROM unnest(job.depends_on) AS d WHERE NOT EXISTS (SELECT FROM jobs WHERE id = d);
        END IF;
        IF job.scheduled_for > clock_timestamp() THEN
            RETURN QUERY SELECT 'scheduled', 'for ' || job.scheduled_for;
        END IF;
    END CASE;
    IF kind.paused_at IS NOT NULL THEN
        RETURN QUERY SELECT 'type paused', concat_ws(': ', 'since ' || kind.paused_at, kind.pause_reason);
    END IF;
    RETURN QUERY SELECT 'tenant paused', concat_ws(': ', 'since ' || p.paused_at, p.reason)
        FROM paused_tenants p WHERE p.tenant_id = job.tenant_id;
    IF kind.put_off_while_interactive
       AND (is_interactive() OR kind.put_off_until > clock_timestamp()) THEN
        RETURN QUERY SELECT 'put off', 'somebody searches or plays; looked at again at '
                                       || coalesce(kind.put_off_until::text, 'the next claim');
    END IF;
    SELECT count(*) INTO n FROM jobs WHERE job_type = job.job_type AND status = 'processing';
    IF n >= kind.max_running THEN
        RETURN QUERY SELECT 'limit reached', format('%s of %s run in the fleet', n, kind.max_running);
    END IF;
    SELECT count(*) INTO n FROM jobs
    WHERE job_type = job.job_type AND status = 'processing' AND tenant_id = job.tenant_id;
    IF n >= kind.max_running_per_tenant THEN
        RETURN QUERY SELECT 'limit reached', format('%s of %s run for this tenant', n,
                                                    kind.max_running_per_tenant);
    END IF;
    SELECT count(*) INTO n FROM workers w
    WHERE job.job_type = ANY (w.job_types) AND w.state = 'running' AND w.drain_requested_at IS NULL
      AND w.last_seen > clock_timestamp() - interval '5 minutes';
    IF n = 0 THEN
        RETURN QUERY SELECT 'no worker', format('no living worker takes %s jobs', job.job_type);
    ELSE
        RETURN QUERY SELECT 'disk full', format('%s: %s %% used', h.name, round(h.disk_used_percent))
            FROM hosts h WHERE h.disk_level = 'emergency'
             AND EXISTS (SELECT FROM workers w WHERE w.host = h.name AND w.state = 'running'
                           AND job.job_type = ANY (w.job_types));
        RETURN QUERY SELECT 'host busy', format('%s: budget of %s is taken', h.name, h.cpu_budget)
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
        RETURN QUERY SELECT 'waiting its turn', format('%s jobs are before it', n);
    END IF;
END
$$;
COMMENT ON FUNCTION why_job IS 'Why a job is not running, in words; one row a reason.';

-- ---- nodes that sleep ----------------------------------------------------------------------------------

CREATE TABLE nodes (
    name text PRIMARY KEY,
    host text NOT NULL,                    -- as its workers will call it
    job_types text[] NOT NULL,
    wake_method text NOT NULL CHECK (wake_method IN ('wol', 'script')),
    mac text CHECK (mac ~* '^[0-9a-f]{2}([:-][0-9a-f]{2}){5}$'),
    broadcast text NOT NULL DEFAULT '255.255.255.255',
    port int NOT NULL DEFAULT 9 CHECK (port BETWEEN 1 AND 65535),
    script text[],
    is_enabled boolean NOT NULL DEFAULT true,
    woken_at timestamptz,
    CHECK (wake_method <> 'wol' OR mac IS NOT NULL),
    CHECK (wake_method <> 'script' OR coalesce(script[1] LIKE '/%', false))
);
COMMENT ON COLUMN nodes.script IS 'Program (an absolute path) and arguments; run without a shell.';

-- The nodes that are to be woken now, each marked so that nobody else wakes it within 5 minutes: asleep,
-- and wanted by more jobs that start within 5 minutes than awake workers have free slots for.
CREATE FUNCTION nodes_to_wake() RETURNS SETOF nodes
LANGUAGE plpgsql AS
$$
DECLARE
    soon CONSTANT interval := '5 minutes';
    horizon CONSTANT timestamptz := clock_timestamp() + soon;
    node nodes;
BEGIN
    FOR node IN
        SELECT * FROM nodes n
        WHERE n.is_enabled AND (n.woken_at IS NULL OR n.woken_at < clock_timestamp() - soon)
          AND NOT EXISTS (SELECT FROM workers w
                          WHERE w.host = n.host AND w.state = 'running'
                            AND w.last_seen > clock_timestamp() - soon)
        ORDER BY n.name
        FOR UPDATE SKIP LOCKED
    LOOP
        CONTINUE WHEN NOT EXISTS (
            SELECT FROM unnest(node.job_types) AS wanted (job_type)
            JOIN job_types t ON t.name = wanted.job_type AND t.paused_at IS NULL
            CROSS JOIN LATERAL (
                SELECT coalesce(sum(greatest(w.slots - w.running, 0)), 0) AS free FROM workers w
                WHERE w.state = 'running' AND w.drain_requested_at IS NULL
                  AND w.last_seen > clock_timestamp() - soon
                  AND wanted.job_type = ANY (w.job_types)) AS awake
            CROSS JOIN LATERAL (
                SELECT count(*) AS due FROM (
                    (SELECT 1 FROM jobs j
                     WHERE j.job_type = wanted.job_type AND j.status = 'queued' AND j.is_ready
                     LIMIT awake.free + 1)
                    UNION ALL
                    (SELECT 1 FROM jobs j
                     WHERE j.job_type = wanted.job_type AND j.status = 'queued' AND NOT j.is_ready
                       AND j.unmet_dependencies = 0 AND j.scheduled_for <= horizon
                     LIMIT awake.free + 1)
                    UNION ALL
                    (SELECT 1 FROM jobs j
                     WHERE j.job_type = wanted.job_type AND j.status = 'failed' AND NOT j.is_ready
                       AND j.scheduled_for <= horizon
                     LIMIT awake.free + 1)) AS starting) AS work
            WHERE work.due > awake.free);
        UPDATE nodes SET woken_at = clock_timestamp() WHERE name = node.name;
        RETURN NEXT node;
    END LOOP;
END
$$;

-- ---- views ---------------------------------------------------------------------------------------------

CREATE VIEW job_counts WITH (security_invoker = true) AS
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
COMMENT ON VIEW job_counts IS 'What is open of each type; reads no finished job.';

CREATE VIEW worker_activity WITH (security_invoker = true) AS
SELECT worker_id, count(*) AS attempts, count(*) FILTER (WHERE status = 'succeeded') AS succeeded,
       count(*) FILTER (WHERE status IN ('failed', 'timeout', 'crashed')) AS failed,
       round(avg(extract(epoch FROM finished_at - started_at)) * 1000)::bigint AS average_ms,
       round(sum(cpu_seconds)::numeric, 1) AS cpu_seconds
FROM job_attempts
WHERE started_at > now() - interval '24 hours'
GROUP BY worker_id;
COMMENT ON VIEW worker_activity IS 'What each worker did in the last 24 hours.';

CREATE VIEW job_failures WITH (security_invoker = true) AS
SELECT j.job_type, a.error_type, count(*) AS attempts, count(DISTINCT a.job_id) AS jobs,
       max(a.finished_at) AS last_at
FROM job_attempts a JOIN jobs j ON j.id = a.job_id
WHERE a.status IN ('failed', 'timeout', 'crashed') AND a.started_at > now() - interval '24 hours'
GROUP BY j.job_type, a.error_type;
COMMENT ON VIEW job_failures IS 'Failed attempts of the last 24 hours by type and error.';

-- ---- history to the store and back -----------------------------------------------------------------------

-- What has been archived: one row a partition of task_events.
CREATE TABLE event_archives (
    partition text PRIMARY KEY CHECK (partition ~ '^task_events_[0-9]{4}_[0-9]{2}$'),
    key text NOT NULL,
    rows bigint NOT NULL,
    checksum text NOT NULL,
    archived_at timestamptz NOT NULL DEFAULT now()
);

-- The months that are over and older than a number of days: nothing is written to them any more.
CREATE FUNCTION event_partitions_before(p_days int) RETURNS SETOF text
LANGUAGE sql STABLE AS
$$
    SELECT c.relname::text FROM pg_inherits i JOIN pg_class c ON c.oid = i.inhrelid
    WHERE i.inhparent = 'public.task_events'::regclass AND c.relname ~ '^task_events_[0-9]{4}_[0-9]{2}$'
      AND (to_date(right(c.relname, 7), 'YYYY_MM') + interval '1 month') AT TIME ZONE 'UTC'
          <= least(now() - make_interval(days => p_days), date_trunc('month', now() AT TIME ZONE 'UTC')
                                                          AT TIME ZONE 'UTC')
    ORDER BY 1
$$;

-- One JSON object a row, from p_after on; the shape that restore_events() takes.
CREATE FUNCTION export_events(p_partition text, p_after bigint DEFAULT 0, p_limit int DEFAULT 10000)
RETURNS TABLE (id bigint, line text)
LANGUAGE plpgsql STABLE AS
$$
BEGIN
    IF p_partition !~ '^task_events_[0-9]{4}_[0-9]{2}$' THEN
        RAISE EXCEPTION '% is no partition of task_events', left(p_partition, 100)
            USING ERRCODE = 'invalid_parameter_value';
    END IF;
    RETURN QUERY EXECUTE format(
        'SELECT e.id, to_jsonb(e)::text FROM public.%I e WHERE e.id > $1 ORDER BY e.id LIMIT $2',
        p_partition) USING p_after, p_limit;
END
$$;

-- Notes an archive and drops the partition, if it still holds what was archived.
CREATE FUNCTION drop_archived_events(p_partition text, p_key text, p_rows bigint, p_checksum text)
RETURNS boolean
LANGUAGE plpgsql
SECURITY DEFINER SET search_path = pg_catalog, public AS
$$
DECLARE
    present bigint;
BEGIN
    IF NOT EXISTS (SELECT FROM event_partitions_before(0) AS p WHERE p = p_partition) THEN
        RETURN false;
    END IF;
    EXECUTE format('LOCK TABLE public.%I IN ACCESS EXCLUSIVE MODE', p_partition);
    EXECUTE format('SELECT count(*) FROM public.%I', p_partition) INTO present;
    IF present <> p_rows THEN
        RETURN false;
    END IF;
    INSERT INTO event_archives AS a (partition, key, rows, checksum)
    VALUES (p_partition, p_key, p_rows, p_checksum)
    ON CONFLICT (partition) DO UPDATE SET key = excluded.key, rows = excluded.rows,
        checksum = excluded.checksum, archived_at = now();
    EXECUTE format('DROP TABLE public.%I', p_partition);
    RETURN true;
END
$$;

-- Takes lines of export_events() back, each once however often it is called; returns how many are new.
CREATE FUNCTION restore_events(p_lines jsonb) RETURNS bigint
LANGUAGE plpgsql
SECURITY DEFINER SET search_path = pg_catalog, public AS
$$
DECLARE
    month timestamp;
    restored bigint;
BEGIN
    FOR month IN SELECT DISTINCT date_trunc('month', (l ->> 'ts')::timestamptz AT TIME ZONE 'UTC')
                 FROM jsonb_array_elements(p_lines) AS l LOOP
        IF to_regclass('public.task_events_' || to_char(month, 'YYYY_MM')) IS NULL
           AND NOT EXISTS (SELECT FROM task_events_default d
                           WHERE d.ts >= month AT TIME ZONE 'UTC'
                             AND d.ts < (month + interval '1 month') AT TIME ZONE 'UTC') THEN
            EXECUTE format('CREATE TABLE public.%I PARTITION OF public.task_events FOR VALUES FROM (%L) TO (%L)',
                           'task_events_' || to_char(month, 'YYYY_MM'), month AT TIME ZONE 'UTC',
                           (month + interval '1 month') AT TIME ZONE 'UTC');
            EXECUTE format('ALTER TABLE public.%I ENABLE ROW LEVEL SECURITY',
                           'task_events_' || to_char(month, 'YYYY_MM'));
        END IF;
    END LOOP;
    INSERT INTO task_events (id, ts, job_id, video_id, correlation_id, run_id, source, level, type,
                             message, data)
    SELECT l.id, l.ts, l.job_id, l.video_id, l.correlation_id, l.run_id, l.source, l.level, l.type,
           l.message, l.data
    FROM jsonb_to_recordset(p_lines) AS l (id bigint, ts timestamptz, job_id uuid, video_id uuid,
             correlation_id uuid, run_id uuid, source text, level text, type text, message text,
             data jsonb)
    WHERE NOT EXISTS (SELECT FROM task_events e
                      WHERE e.ts = l.ts AND e.id = l.id AND e.job_id IS NOT DISTINCT FROM l.job_id);
    GET DIAGNOSTICS restored = ROW_COUNT;
    RETURN restored;
END
$$;

-- ---- who may do what -------------------------------------------------------------------------------------

DO $$
DECLARE
    name text;
BEGIN
    FOREACH name IN ARRAY ARRAY['hosts', 'disk_status_log', 'interactive_sessions', 'paused_tenants',
                                'nodes', 'event_archives'] LOOP
        EXECUTE format('ALTER TABLE %I ENABLE ROW LEVEL SECURITY', name);
        EXECUTE format('REVOKE ALL ON %I FROM PUBLIC, anon, authenticated', name);
        EXECUTE format('GRANT ALL ON %I TO service_role', name);
        EXECUTE format('CREATE POLICY %I ON %I TO service_role USING (true) WITH CHECK (true)',
                       name || '_service', name);
    END LOOP;
    FOREACH name IN ARRAY ARRAY[
        'acts_for_everyone', 'may_touch', 'check_own_job', 'report_disk', 'touch_session',
        'is_interactive', 'pause_type', 'resume_type', 'pause_tenant', 'resume_tenant', 'drain_worker',
        'claim_room', 'choose_among_tenants', 'filter_condition', 'lock_filtered_jobs', 'cancel_jobs',
        'set_priority', 'why_job', 'nodes_to_wake', 'event_partitions_before', 'export_events',
        'drop_archived_events', 'restore_events'] LOOP
        EXECUTE format('REVOKE ALL ON FUNCTION %I FROM PUBLIC, anon, authenticated', name);
        EXECUTE format('GRANT EXECUTE ON FUNCTION %I TO service_role', name);
    END LOOP;
    FOREACH name IN ARRAY ARRAY['enqueue_job', 'enqueue_jobs', 'start_run', 'cancel_job', 'retry_job',
                                'cancel_run', 'restart_run', 'why_job', 'touch_session',
                                'accept_object_event'] LOOP
        EXECUTE format('GRANT EXECUTE ON FUNCTION %I TO cortana_app', name);
    END LOOP;
END
$$;
REVOKE ALL ON job_counts, worker_activity, job_failures FROM PUBLIC, anon, authenticated;
GRANT SELECT ON job_counts, worker_activity, job_failures TO service_role;

-- A tenant's own jobs are read by their user even where they belong to no video.
DROP POLICY jobs_read ON jobs;
CREATE POLICY jobs_read ON jobs FOR SELECT TO authenticated
    USING (EXISTS (SELECT FROM videos v WHERE v.id = video_id)
           OR video_id IS NULL AND (tenant_id = (SELECT auth.uid())
                                    OR tenant_id = ANY ((SELECT current_team_ids())::uuid[])));
