-- What is seen from outside: how much waits for whom, how workers do, which programs may work on this
-- schema; and a role that may read that and nothing else.

DO $$
BEGIN
    IF NOT EXISTS (SELECT FROM pg_roles WHERE rolname = 'cortana_metrics') THEN
        CREATE ROLE cortana_metrics NOLOGIN;
    END IF;
EXCEPTION WHEN duplicate_object OR unique_violation THEN
    NULL; -- another database of this cluster is being migrated at the same moment
END
$$;

-- ---- how much waits ------------------------------------------------------------------------------

-- The jobs of one type by what they wait for, a row each, zeros too:
--   queued     a worker that came now could claim it
--   held       due, but nobody may claim it now: its type or tenant is paused, it is put off while
--              somebody searches, or as many run as the rules allow
--   scheduled  put off to a later time
--   blocked    waits for other jobs
--   running    claimed; a dead worker's, too, until the next claim finds its lease run out
--   retrying   failed, and tried again at a later time
--   dead       failed for good
-- The rules are those of claim_room() and promote_due_jobs(), but for what depends on the host that
-- asks (its budget, its disk). `oldest_seconds`: how long the oldest of them has waited (queued, held:
-- for a worker; running: since it was claimed; dead: since it failed); null where none is.
CREATE FUNCTION queue_depth_of(p_job_type text)
RETURNS TABLE (status text, depth bigint, oldest_seconds double precision)
LANGUAGE plpgsql STABLE
SECURITY DEFINER SET search_path = pg_catalog, public AS
$$
DECLARE
    moment CONSTANT timestamptz := clock_timestamp();
    kind job_types;
    ready bigint;                          -- due, whether or not it may be claimed
    put_off bigint;                        -- of these: not marked as such before the next claim
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
    SELECT 'dead', count(*), extract(epoch FROM moment - min(j.finished_at))::double precision FROM jobs j
    WHERE j.job_type = p_job_type AND j.status = 'failed' AND NOT j.is_ready AND j.scheduled_for IS NULL;
END
$$;
COMMENT ON FUNCTION queue_depth_of IS 'The jobs of a type by what they wait for.';

CREATE VIEW queue_depth AS
SELECT t.name::text AS job_type, d.status, d.depth, d.oldest_seconds
FROM job_types t CROSS JOIN LATERAL queue_depth_of(t.name) AS d;
COMMENT ON VIEW queue_depth IS
    'How many jobs of each type wait for what; a stage scales on the sum of its ''queued'' and ''running''.';

-- ---- what goes on --------------------------------------------------------------------------------

CREATE INDEX task_events_ts ON task_events USING brin (ts) WITH (autosummarize = on);

-- What became of jobs in the last five minutes. `event`: enqueued, claimed, done, released (given
-- back, uncounted), retry (failed, tried again), dead, canceled.
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
COMMENT ON VIEW job_flow IS 'What became of jobs in the last five minutes, by type.';

-- ---- which programs may work here ------------------------------------------------------------------

-- Programs are older or newer than the database while a release is rolled out. A database that holds
-- all migrations that a program knows, and more, is good for it, until a migration takes away what it
-- uses: that one says so here.
CREATE TABLE schema_floor (
    one_row boolean PRIMARY KEY DEFAULT true CHECK (one_row),
    oldest_program int NOT NULL,           -- programs must know this migration
    reason text NOT NULL,
    set_at timestamptz NOT NULL DEFAULT now()
);
ALTER TABLE schema_floor ENABLE ROW LEVEL SECURITY;
REVOKE ALL ON schema_floor FROM PUBLIC, anon, authenticated;

-- For migrations that contract: from now on only programs that know migration p_version may work.
CREATE FUNCTION require_program(p_version int, p_reason text) RETURNS void
LANGUAGE plpgsql AS
$$
BEGIN
    INSERT INTO schema_floor AS f (oldest_program, reason) VALUES (p_version, p_reason)
    ON CONFLICT (one_row) DO UPDATE SET oldest_program = excluded.oldest_program,
        reason = excluded.reason, set_at = now()
    WHERE f.oldest_program < excluded.oldest_program;
    PERFORM pg_notify('cv_schema', '');
END
$$;
REVOKE ALL ON FUNCTION require_program(int, text) FROM PUBLIC, anon, authenticated, service_role;

CREATE FUNCTION schema_state(OUT versions int[], OUT oldest_program int, OUT reason text)
LANGUAGE plpgsql STABLE
SECURITY DEFINER SET search_path = pg_catalog, public AS
$$
BEGIN
    SELECT array_agg(m.version ORDER BY m.version) INTO versions FROM schema_migrations m;
    SELECT f.oldest_program, f.reason INTO oldest_program, reason FROM schema_floor f;
    oldest_program := coalesce(oldest_program, 0);
END
$$;
COMMENT ON FUNCTION schema_state IS 'The migrations that were applied, and which ones a program has to know.';

-- ---- who may read --------------------------------------------------------------------------------

REVOKE ALL ON FUNCTION queue_depth_of(text), schema_state() FROM PUBLIC, anon, authenticated;
GRANT EXECUTE ON FUNCTION queue_depth_of(text), schema_state() TO service_role, cortana_metrics;
REVOKE ALL ON queue_depth, job_flow FROM PUBLIC, anon, authenticated;
GRANT SELECT ON queue_depth, job_flow TO service_role, cortana_metrics;

-- Those of the fleet that show no user's data read with their owner's rights, so that the role needs
-- no table.
ALTER VIEW job_counts SET (security_invoker = false);
ALTER VIEW worker_activity SET (security_invoker = false);
ALTER VIEW job_failures SET (security_invoker = false);
ALTER VIEW worker_overview SET (security_invoker = false);
CREATE VIEW host_overview AS
SELECT name AS host, cpu_budget, disk_level, disk_used_percent, disk_checked_at FROM hosts;
COMMENT ON VIEW host_overview IS 'How full the scratch disk of each host was found.';
REVOKE ALL ON host_overview FROM PUBLIC, anon, authenticated;
GRANT SELECT ON host_overview TO service_role;
GRANT SELECT ON job_counts, worker_activity, job_failures, worker_overview, host_overview
    TO cortana_metrics;
GRANT USAGE ON SCHEMA public TO cortana_metrics;
