-- The queue as functions: enqueue, claim, renew, settle, cancel, retry. Whatever language a worker is
-- written in, it works through these. Every function that acts for an attempt takes its fencing token
-- and says whether the lease still held.

-- ---- enqueue -------------------------------------------------------------------------------------

-- Where a tenant's next job belongs in the order of its type: behind the tenant's own, but beside the
-- head of the queue if the tenant has none waiting. So tenants take turns, whoever came first with
-- however many, and a claim reads one index in order and knows nothing of tenants. Without a backlog,
-- and for jobs of no tenant, it is the end of the global order.
CREATE FUNCTION fair_sequence(p_job_type text, p_priority int, p_tenant_id uuid) RETURNS bigint
LANGUAGE plpgsql AS
$$
DECLARE
    place bigint := nextval('job_sequence');
    head bigint;
    own bigint;
BEGIN
    IF p_tenant_id IS NOT NULL THEN
        SELECT sequence INTO head FROM jobs
        WHERE job_type = p_job_type AND status = 'queued' AND is_ready AND priority = p_priority
        ORDER BY sequence LIMIT 1;
        SELECT sequence + 1 INTO own FROM jobs
        WHERE job_type = p_job_type AND status = 'queued' AND is_ready AND priority = p_priority
          AND tenant_id = p_tenant_id
        ORDER BY sequence DESC LIMIT 1;
        place := least(place, greatest(head, own));
    END IF;
    RETURN place;
END
$$;

-- What only the service may do, everybody else does for their own tenant alone: see 0009_fleet.sql.
CREATE FUNCTION enqueue_job(
    p_job_type text,
    p_payload jsonb,
    p_video_id uuid DEFAULT NULL,
    p_priority int DEFAULT NULL,             -- NULL: the type's base priority
    p_scheduled_for timestamptz DEFAULT NULL,
    p_depends_on uuid[] DEFAULT NULL,
    p_dedupe_key text DEFAULT NULL,
    p_correlation_id uuid DEFAULT NULL,
    p_sequence bigint DEFAULT NULL,          -- NULL: the tenant's turn, or the end of the global order
    p_tenant_id uuid DEFAULT NULL,           -- NULL: the video's
    OUT job_id uuid,
    OUT is_new boolean)
LANGUAGE plpgsql
SECURITY DEFINER SET search_path = pg_catalog, public AS
$$
DECLARE
    kind job_types;
    tenant uuid := p_tenant_id;
    rank int;
BEGIN
    SELECT * INTO kind FROM job_types WHERE name = p_job_type;
    IF NOT FOUND THEN
        RAISE EXCEPTION 'job type % is not registered', p_job_type
            USING ERRCODE = 'foreign_key_violation', HINT = 'Insert it into job_types.';
    END IF;
    IF jsonb_typeof(p_payload) IS DISTINCT FROM 'object' THEN
        RAISE EXCEPTION 'the payload of a job must be a JSON object'
            USING ERRCODE = 'invalid_parameter_value';
    END IF;
    IF p_video_id IS NOT NULL AND tenant IS NULL THEN
        SELECT coalesce(team_id, owner_id) INTO tenant FROM videos WHERE id = p_video_id;
    END IF;
    IF NOT acts_for_everyone() THEN
        tenant := check_own_job(kind, p_payload, p_video_id, tenant, p_depends_on);
        p_sequence := NULL;
    END IF;
    rank := coalesce(p_priority, kind.base_priority);

    LOOP
        INSERT INTO jobs (job_type, payload, video_id, priority, scheduled_for, depends_on,
                          dedupe_key, correlation_id, sequence, tenant_id, step, exclusive,
                          max_retries, is_ready)
        VALUES (kind.name, p_payload, p_video_id, rank, p_scheduled_for, p_depends_on, p_dedupe_key,
                coalesce(p_correlation_id, gen_random_uuid()),
                coalesce(p_sequence, fair_sequence(p_job_type, rank, tenant)), tenant, kind.name,
                kind.one_per_video, cardinality(kind.retry_delays),
                p_scheduled_for IS NULL OR p_scheduled_for <= clock_timestamp())
        ON CONFLICT DO NOTHING
        RETURNING id INTO job_id;
        IF FOUND THEN
            is_new := true;
            RETURN;
        END IF;

        SELECT j.id INTO job_id FROM jobs j
        WHERE j.exclusive AND j.video_id = p_video_id AND j.step = p_job_type
          AND j.status IN ('queued', 'processing');
        IF NOT FOUND THEN
            SELECT j.id INTO job_id FROM jobs j
            WHERE j.dedupe_key = p_dedupe_key AND j.status IN ('queued', 'processing')
              AND j.tenant_id IS NOT DISTINCT FROM tenant;
        END IF;
        IF FOUND THEN
            is_new := false;
            RETURN;
        END IF;
        -- The one that was in the way has ended meanwhile: try again.
    END LOOP;
END
$$;
COMMENT ON FUNCTION enqueue_job IS
    'Adds a job, in the caller''s transaction. Where the same work is queued or processing already, its id comes back with is_new = false.';

-- Many jobs of one type at once, without videos or dedupe keys; returns their ids in order.
CREATE FUNCTION enqueue_jobs(
    p_job_type text,
    p_payloads jsonb[],
    p_priority int DEFAULT NULL,
    p_tenant_id uuid DEFAULT NULL,
    p_scheduled_for timestamptz DEFAULT NULL) RETURNS SETOF uuid
LANGUAGE plpgsql
SECURITY DEFINER SET search_path = pg_catalog, public AS
$$
DECLARE
    kind job_types;
    rank int;
    first bigint;
BEGIN
    SELECT * INTO kind FROM job_types WHERE name = p_job_type;
    IF NOT FOUND THEN
        RAISE EXCEPTION 'job type % is not registered', p_job_type
            USING ERRCODE = 'foreign_key_violation', HINT = 'Insert it into job_types.';
    END IF;
    IF EXISTS (SELECT FROM unnest(p_payloads) AS payload
               WHERE jsonb_typeof(payload) IS DISTINCT FROM 'object') THEN
        RAISE EXCEPTION 'the payload of a job must be a JSON object'
            USING ERRCODE = 'invalid_parameter_value';
    END IF;
    IF NOT acts_for_everyone() THEN
        p_tenant_id := check_own_job(kind, payload, NULL, p_tenant_id, NULL)
                       FROM unnest(p_payloads) AS payload;
    END IF;
    rank := coalesce(p_priority, kind.base_priority);
    IF p_tenant_id IS NOT NULL THEN
        first := fair_sequence(p_job_type, rank, p_tenant_id);
    END IF;
    RETURN QUERY
    INSERT INTO jobs (id, correlation_id, job_type, payload, priority, scheduled_for, sequence, tenant_id,
                      step, exclusive, max_retries, is_ready)
    SELECT own_id, own_id, kind.name, payload, rank, p_scheduled_for,
           least(nextval('job_sequence'), first + number - 1), p_tenant_id, p_job_type,
           kind.one_per_video, cardinality(kind.retry_delays),
           p_scheduled_for IS NULL OR p_scheduled_for <= clock_timestamp()
    FROM (SELECT payload, number, time_prefixed_uuid() AS own_id
          FROM unnest(p_payloads) WITH ORDINALITY AS given (payload, number) OFFSET 0) AS given
    RETURNING id;
END
$$;
COMMENT ON FUNCTION enqueue_jobs IS
    'Adds many jobs of one type in one statement, in the caller''s transaction.';

-- ---- bringing jobs back --------------------------------------------------------------------------

-- Adds to an attempt that has ended what its worker knows of it. `p_report`: pid, exit_code, tails,
-- cpu_seconds, peak_memory_bytes; any of it may be missing. Not for use outside.
CREATE FUNCTION end_attempt(
    p_job_id uuid, p_token bigint, p_status text, p_error_type text, p_error_message text,
    p_report jsonb) RETURNS void
LANGUAGE sql AS
$$
    UPDATE ended_attempts SET
        status = p_status,
        error_type = p_error_type, error_message = p_error_message,
        pid = (p_report ->> 'pid')::int, exit_code = (p_report ->> 'exit_code')::int,
        stdout_tail = p_report ->> 'stdout_tail', stderr_tail = p_report ->> 'stderr_tail',
        cpu_seconds = (p_report ->> 'cpu_seconds')::double precision,
        peak_memory_bytes = (p_report ->> 'peak_memory_bytes')::bigint
    WHERE job_id = p_job_id AND lease_token = p_token
$$;

-- What a failure means for a job whose row the caller has locked: its last state before the dead
-- letters, or a retry. Not for use outside.
CREATE FUNCTION settle_failure(
    p_job jobs, p_error_type text, p_message text, p_retryable boolean,
    p_retry_at timestamptz,                  -- NULL: by the type's table, with jitter
    p_attempt_status text, p_report jsonb,
    p_not_before timestamptz DEFAULT NULL) RETURNS text
LANGUAGE plpgsql AS
$$
DECLARE
    delays interval[];
    retry_at timestamptz;
BEGIN
    IF p_retryable AND p_job.retry_count < p_job.max_retries THEN
        SELECT retry_delays INTO delays FROM job_types WHERE name = p_job.job_type;
        -- A job that was granted more retries than the table has entries waits the last one again.
        retry_at := coalesce(p_retry_at, clock_timestamp()
            + delays[least(p_job.retry_count + 1, cardinality(delays))] * (0.8 + 0.4 * random()));
        retry_at := greatest(retry_at, p_not_before);
    END IF;

    IF p_job.cancel_requested_at IS NOT NULL THEN  -- it was to be stopped, and it has stopped
        UPDATE jobs SET status = 'canceled' WHERE id = p_job.id;
    ELSE
        UPDATE jobs SET
            status = 'failed',
            scheduled_for = retry_at,
            payload = jsonb_build_object(
                'error', jsonb_build_object('type', p_error_type, 'message', p_message,
                                            'timestamp', clock_timestamp(),
                                            'retry_count', p_job.retry_count),
                'original_payload', p_job.payload)
        WHERE id = p_job.id;
    END IF;
    PERFORM end_attempt(p_job.id, p_job.lease_token, p_attempt_status, p_error_type, p_message, p_report);
    RETURN CASE WHEN p_job.cancel_requested_at IS NOT NULL THEN 'canceled'
                WHEN retry_at IS NULL THEN 'failed' ELSE 'retry' END;
END
$$;

-- Jobs whose worker has stopped renewing: the attempt counts, and the job may be claimed again at once.
CREATE FUNCTION rescue_expired_jobs(p_job_type text) RETURNS int
LANGUAGE plpgsql AS
$$
DECLARE
    expired jobs;
    rescued int := 0;
BEGIN
    FOR expired IN
        SELECT * FROM jobs
        WHERE job_type = p_job_type AND status = 'processing' AND locked_until < clock_timestamp()
        ORDER BY id LIMIT 100
        FOR UPDATE SKIP LOCKED
    LOOP
        PERFORM settle_failure(expired, 'LeaseLost',
            format('worker %s stopped renewing its lease', expired.locked_by), true,
            clock_timestamp(), 'crashed', NULL);
        rescued := rescued + 1;
    END LOOP;
    RETURN rescued;
END
$$;

-- Retries and put-off jobs whose time has come. A retry that finds the same work in flight already is
-- left with the dead letters: somebody has enqueued it anew.
CREATE FUNCTION promote_due_jobs(p_job_type text) RETURNS int
LANGUAGE plpgsql AS
$$
DECLARE
    moment CONSTANT timestamptz := clock_timestamp(); -- no index is asked for what a volatile function says
    due_id uuid;
    promoted int := 0;
BEGIN
    IF EXISTS (SELECT FROM jobs
               WHERE job_type = p_job_type AND status = 'queued' AND NOT is_ready
                 AND scheduled_for <= moment) THEN
        UPDATE jobs SET is_ready = true, ready_at = scheduled_for
        WHERE id IN (SELECT id FROM jobs
                     WHERE job_type = p_job_type AND status = 'queued' AND NOT is_ready
                       AND scheduled_for <= moment AND unmet_dependencies = 0
                     ORDER BY scheduled_for LIMIT 1000
                     FOR UPDATE SKIP LOCKED);
        GET DIAGNOSTICS promoted = ROW_COUNT;
    END IF;

    FOR due_id IN
        SELECT id FROM jobs
        WHERE job_type = p_job_type AND status = 'failed' AND NOT is_ready
          AND scheduled_for <= moment
        ORDER BY scheduled_for LIMIT 1000
        FOR UPDATE SKIP LOCKED
    LOOP
        BEGIN
            UPDATE jobs SET status = 'queued', scheduled_for = NULL WHERE id = due_id;
            promoted := promoted + 1;
        EXCEPTION WHEN unique_violation OR check_violation THEN -- or its retries were spent by hand
            UPDATE jobs SET scheduled_for = NULL WHERE id = due_id;
        END;
    END LOOP;
    RETURN promoted;
END
$$;

-- When a type was last looked through for expired leases and due retries. A claim that finds enough to
-- do leaves that to the first one of each second. Where that one had to go through many pages of dead
-- entries, which vacuum cannot take away before the oldest snapshot ends, it notes where it found the first
-- job, and the claims of this second begin there.
CREATE TABLE job_type_upkeep (
    job_type job_type PRIMARY KEY REFERENCES job_types (name) ON UPDATE CASCADE ON DELETE CASCADE,
    due_at timestamptz NOT NULL DEFAULT '-infinity',
    from_priority int,
    from_sequence bigint
) WITH (fillfactor = 20);
INSERT INTO job_type_upkeep (job_type) SELECT name FROM job_types;
CREATE FUNCTION job_types_inserted() RETURNS trigger
LANGUAGE plpgsql
SECURITY DEFINER SET search_path = pg_catalog, public AS
$$
BEGIN
    INSERT INTO job_type_upkeep (job_type) VALUES (NEW.name);
    RETURN NULL;
END
$$;
CREATE TRIGGER job_types_inserted AFTER INSERT ON job_types
    FOR EACH ROW EXECUTE FUNCTION job_types_inserted();
REVOKE ALL ON FUNCTION job_types_inserted() FROM PUBLIC, anon, authenticated;
ALTER TABLE job_type_upkeep ENABLE ROW LEVEL SECURITY;
REVOKE ALL ON job_type_upkeep FROM PUBLIC, anon, authenticated;
GRANT SELECT, INSERT, UPDATE, DELETE ON job_type_upkeep TO service_role;
CREATE POLICY job_type_upkeep_service ON job_type_upkeep TO service_role
    USING (true) WITH CHECK (true);

-- Whether it is this caller's turn to look a type through, and else where to begin.
CREATE FUNCTION take_upkeep(p_job_type text, OUT is_turn boolean, OUT from_priority int,
                            OUT from_sequence bigint)
LANGUAGE plpgsql AS
$$
DECLARE
    turn timestamptz;
BEGIN
    is_turn := false;
    SELECT u.due_at, u.from_priority, u.from_sequence INTO turn, from_priority, from_sequence
    FROM job_type_upkeep u WHERE job_type = p_job_type;
    IF NOT FOUND OR turn > clock_timestamp() THEN
        RETURN;
    END IF;
    PERFORM FROM job_type_upkeep WHERE job_type = p_job_type AND due_at = turn FOR UPDATE SKIP LOCKED;
    IF NOT FOUND THEN
        RETURN;
    END IF;
    UPDATE job_type_upkeep SET due_at = clock_timestamp() + interval '1 second'
    WHERE job_type = p_job_type;
    is_turn := true;
    from_priority := NULL;
    from_sequence := NULL;
END
$$;

-- A job has become ready: claims that would begin behind it begin at the head again. One whose turn it
-- is is not waited for: the next turn is in a second.
CREATE FUNCTION claim_from_head(p_job_type text, p_priority int, p_sequence bigint) RETURNS void
LANGUAGE sql AS
$$
    UPDATE job_type_upkeep SET from_priority = NULL, from_sequence = NULL
    WHERE job_type IN (SELECT u.job_type FROM job_type_upkeep u
                       WHERE u.job_type = p_job_type
                         AND (p_priority > u.from_priority
                              OR (p_priority = u.from_priority AND p_sequence < u.from_sequence))
                       FOR UPDATE SKIP LOCKED)
$$;

-- ---- claim and lease -----------------------------------------------------------------------------

-- The claim itself, in no order. With p_chosen, those of the given jobs that nobody else has taken
-- meanwhile. A row that is locked stays where it is, so its place is all that has to be known of it. Its
-- plans are kept, for planning costs as much as a claim; the settings see to it that they are a walk
-- along the index and nothing that was better when the table was small.
CREATE FUNCTION lease_jobs(p_worker_id text, p_job_type text, p_limit int, p_lease interval,
                           p_chosen uuid[], p_is_turn boolean, p_from_priority int,
                           p_from_sequence bigint) RETURNS SETOF jobs
LANGUAGE plpgsql
SET plan_cache_mode = force_generic_plan SET enable_seqscan = off SET enable_bitmapscan = off
SET jit = off AS
$$
DECLARE
    -- What a look costs where no entry is dead: a way down the index, and fifty jobs or more on a page.
    pages_needed CONSTANT int := 10 + p_limit / 50;
    pages_read bigint := pg_stat_get_xact_blocks_fetched('public.jobs_claim'::regclass);
    moment timestamptz := clock_timestamp();
    chosen tid[] := '{}';
BEGIN
    IF p_chosen IS NOT NULL THEN
        chosen := ARRAY(SELECT ctid FROM jobs
                        WHERE id = ANY (p_chosen) AND status = 'queued' AND is_ready
                        FOR UPDATE SKIP LOCKED);
    ELSIF p_from_sequence IS NOT NULL THEN
        chosen := ARRAY(SELECT ctid FROM jobs
                        WHERE job_type = p_job_type AND status = 'queued' AND is_ready
                          AND priority = p_from_priority AND sequence >= p_from_sequence
                        ORDER BY priority DESC, sequence, created_at, id
                        LIMIT p_limit
                        FOR UPDATE SKIP LOCKED);
    END IF;
    IF p_chosen IS NULL AND cardinality(chosen) < p_limit THEN
        chosen := ARRAY(SELECT ctid FROM jobs
                        WHERE job_type = p_job_type AND status = 'queued' AND is_ready
                        ORDER BY priority DESC, sequence, created_at, id
                        LIMIT p_limit
                        FOR UPDATE SKIP LOCKED);
        IF p_is_turn AND cardinality(chosen) > 0
           AND pg_stat_get_xact_blocks_fetched('public.jobs_claim'::regclass) - pages_read
               > pages_needed THEN
            UPDATE job_type_upkeep SET from_priority = first.priority, from_sequence = first.sequence
            FROM (SELECT priority, sequence FROM jobs WHERE ctid = chosen[1]) AS first
            WHERE job_type = p_job_type;
        ELSIF p_is_turn THEN
            UPDATE job_type_upkeep SET from_priority = NULL, from_sequence = NULL
            WHERE job_type = p_job_type AND from_sequence IS NOT NULL;
        END IF;
    END IF;
    IF cardinality(chosen) = 0 THEN
        RETURN;
    END IF;
    RETURN QUERY
    UPDATE jobs SET
        status = 'processing', is_ready = false, locked_by = p_worker_id, locked_until = moment + p_lease,
        started_at = moment, updated_at = moment, finished_at = NULL, scheduled_for = NULL, progress = 0,
        progress_message = NULL, cancel_requested_at = NULL,
        lease_token = nextval('job_lease_tokens'), attempt = attempt + 1
    WHERE ctid = ANY (chosen)
    RETURNING *;
END
$$;

CREATE FUNCTION claim_jobs(
    p_worker_id text, p_job_type text, p_limit int DEFAULT 1,
    p_lease interval DEFAULT '5 minutes') RETURNS SETOF jobs
LANGUAGE plpgsql AS
$$
DECLARE
    room int := p_limit;
    step int;
    chosen uuid[];
    upkeep record;
    has_looked boolean;
    blocked uuid[];
    kind job_types;
BEGIN
    PERFORM set_config('cortana.source', 'worker:' || p_job_type, true);
    SELECT * INTO kind FROM job_types WHERE name = p_job_type;
    -- Where there is a limit, a dead worker's jobs must not count against it.
    SELECT * INTO upkeep FROM take_upkeep(p_job_type);
    has_looked := upkeep.is_turn OR kind.max_running IS NOT NULL
                  OR kind.max_running_per_tenant IS NOT NULL;
    IF has_looked THEN
        PERFORM rescue_expired_jobs(p_job_type);
        PERFORM promote_due_jobs(p_job_type);
    END IF;
    SELECT r.room, r.blocked INTO room, blocked FROM claim_room(kind, p_worker_id, p_limit) AS r;

    WHILE room > 0 LOOP
        IF kind.max_running_per_tenant IS NOT NULL OR blocked IS NOT NULL THEN
            chosen := choose_among_tenants(p_job_type, room, blocked, kind.max_running_per_tenant);
        END IF;
        -- Parsed anew each time: a plan that is kept has the columns of `jobs` in it, and would fail in
        -- every connection that is open when a migration adds one.
        RETURN QUERY EXECUTE 'SELECT * FROM lease_jobs($1, $2, $3, $4, $5, $6, $7, $8)'
                             ' ORDER BY priority DESC, sequence, created_at, id'
            USING p_worker_id, p_job_type, room, p_lease, chosen, upkeep.is_turn, upkeep.from_priority,
                  upkeep.from_sequence;
        GET DIAGNOSTICS step = ROW_COUNT;
        room := room - step;
        EXIT WHEN has_looked OR room = 0;
        has_looked := true;
        EXIT WHEN rescue_expired_jobs(p_job_type) + promote_due_jobs(p_job_type) = 0;
    END LOOP;
END
$$;
COMMENT ON FUNCTION claim_jobs IS
    'Leases up to p_limit jobs of a type to a worker, in order of priority, run and age and as the rules of the type allow, after bringing back expired leases and due retries.';

-- 'ok', 'lost', or 'cancel' when somebody wants the job stopped.
CREATE FUNCTION renew_lease(p_job_id uuid, p_token bigint, p_lease interval DEFAULT '5 minutes')
RETURNS text
LANGUAGE sql AS
$$
    WITH renewed AS (
        UPDATE jobs SET locked_until = clock_timestamp() + p_lease
        WHERE id = p_job_id AND lease_token = p_token AND status = 'processing'
        RETURNING cancel_requested_at
    )
    SELECT coalesce((SELECT CASE WHEN cancel_requested_at IS NULL THEN 'ok' ELSE 'cancel' END
                     FROM renewed), 'lost')
$$;

CREATE FUNCTION report_progress(p_job_id uuid, p_token bigint, p_progress real, p_message text)
RETURNS text
LANGUAGE sql AS
$$
    WITH reported AS (
        UPDATE jobs SET progress = least(greatest(p_progress, 0), 1),
                        progress_message = left(p_message, 200)
        WHERE id = p_job_id AND lease_token = p_token AND status = 'processing'
        RETURNING cancel_requested_at
    )
    SELECT coalesce((SELECT CASE WHEN cancel_requested_at IS NULL THEN 'ok' ELSE 'cancel' END
                     FROM reported), 'lost')
$$;

-- ---- settle --------------------------------------------------------------------------------------

-- Locks the job for the rest of the transaction and says whether the lease still holds. The row of a
-- lease that has run out but was claimed by nobody yet still counts as held.
CREATE FUNCTION fence_job(p_job_id uuid, p_token bigint) RETURNS boolean
LANGUAGE plpgsql AS
$$
DECLARE
    held job_type;
BEGIN
    SELECT job_type INTO held FROM jobs
    WHERE id = p_job_id AND lease_token = p_token AND status = 'processing'
    FOR UPDATE;
    IF NOT FOUND THEN
        RETURN false;
    END IF;
    PERFORM set_config('cortana.source', 'worker:' || held, true); -- who the events are from
    RETURN true;
END
$$;

CREATE FUNCTION complete_job(p_job_id uuid, p_token bigint, p_result jsonb DEFAULT NULL,
                             p_report jsonb DEFAULT NULL) RETURNS boolean
LANGUAGE plpgsql AS
$$
DECLARE
    moment timestamptz := clock_timestamp();
    has_children boolean;
    run uuid;
BEGIN
    IF NOT fence_job(p_job_id, p_token) THEN
        RETURN false;
    END IF;
    UPDATE jobs SET status = 'done', result = p_result, finished_at = moment, updated_at = moment,
                    progress = 1, progress_message = NULL, locked_by = NULL, locked_until = NULL
    WHERE id = p_job_id
    RETURNING has_dependents, run_id INTO has_children, run;
    IF p_report IS NOT NULL THEN
        PERFORM end_attempt(p_job_id, p_token, 'succeeded', NULL, NULL, p_report);
    END IF;
    IF has_children THEN
        PERFORM release_dependents(ARRAY[p_job_id]);
    END IF;
    IF run IS NOT NULL THEN
        PERFORM settle_runs(ARRAY[run]);
    END IF;
    RETURN true;
END
$$;

-- Jobs that waited for these have one parent less to wait for each. Locked in order of id, so that two
-- parents completing at once cannot deadlock. A step of a run gets its payload when its turn comes.
CREATE FUNCTION release_dependents(p_done uuid[]) RETURNS void
LANGUAGE plpgsql AS
$$
DECLARE
    child record;
    met int;
BEGIN
    FOR child IN
        SELECT id, depends_on, unmet_dependencies, run_id FROM jobs
        WHERE status = 'queued' AND unmet_dependencies > 0 AND depends_on && p_done
        ORDER BY id
        FOR UPDATE
    LOOP
        SELECT count(*) INTO met FROM (SELECT DISTINCT unnest(child.depends_on) AS id) AS parent
        WHERE id = ANY (p_done);
        IF child.run_id IS NOT NULL AND met >= child.unmet_dependencies THEN
            PERFORM begin_step(child.id);
        ELSE
            UPDATE jobs SET
                unmet_dependencies = greatest(unmet_dependencies - met, 0),
                ready_at = clock_timestamp(),
                is_ready = unmet_dependencies <= met
                           AND (scheduled_for IS NULL OR scheduled_for <= clock_timestamp())
            WHERE id = child.id;
        END IF;
    END LOOP;
END
$$;

-- Many jobs at once, without results; returns how many leases still held.
CREATE FUNCTION complete_jobs(p_job_ids uuid[], p_tokens bigint[]) RETURNS bigint
LANGUAGE plpgsql
SET plan_cache_mode = force_generic_plan SET enable_seqscan = off SET jit = off AS
$$
DECLARE
    moment timestamptz := clock_timestamp();
    held tid[];
    completed bigint;
    parents uuid[];
    runs_of uuid[];
BEGIN
    -- One by one by their ids, in an order that all have in common. The cast keeps the planner from the
    -- index of what runs: it takes that for small, and would read it once a job.
    held := ARRAY(SELECT j.place
                  FROM (SELECT * FROM unnest(p_job_ids, p_tokens) AS pair (id, token) ORDER BY id)
                      AS given,
                      LATERAL (SELECT ctid AS place FROM jobs
                               WHERE id = given.id AND lease_token = given.token
                                 AND status::text = 'processing' FOR UPDATE) AS j);
    WITH done AS (
        UPDATE jobs SET status = 'done', finished_at = moment, updated_at = moment, progress = 1,
                        progress_message = NULL, locked_by = NULL, locked_until = NULL
        WHERE ctid = ANY (held)
        RETURNING id, has_dependents, run_id
    )
    SELECT count(*), array_agg(id) FILTER (WHERE has_dependents),
           array_agg(DISTINCT run_id) FILTER (WHERE run_id IS NOT NULL)
    INTO completed, parents, runs_of FROM done;
    IF parents IS NOT NULL THEN
        PERFORM release_dependents(parents);
    END IF;
    IF runs_of IS NOT NULL THEN
        PERFORM settle_runs(runs_of);
    END IF;
    RETURN completed;
END
$$;

-- 'retry' (with the time in scheduled_for), 'failed' (a dead letter), 'canceled' (somebody had asked
-- for that), or 'lost'.
CREATE FUNCTION fail_job(p_job_id uuid, p_token bigint, p_error_type text, p_message text,
                         p_retryable boolean, p_report jsonb DEFAULT NULL,
                         p_retry_after interval DEFAULT NULL) RETURNS text
LANGUAGE plpgsql AS
$$
DECLARE
    job jobs;
BEGIN
    SELECT * INTO job FROM jobs
    WHERE id = p_job_id AND lease_token = p_token AND status = 'processing'
    FOR UPDATE;
    IF NOT FOUND THEN
        RETURN 'lost';
    END IF;
    PERFORM set_config('cortana.source', 'worker:' || job.job_type, true);
    RETURN settle_failure(job, p_error_type, p_message, p_retryable, NULL,
        CASE p_error_type WHEN 'Timeout' THEN 'timeout'
                          WHEN 'StageCrashed' THEN 'crashed' ELSE 'failed' END,
        p_report, clock_timestamp() + p_retry_after);
END
$$;

-- Gives a job back at once; the attempt stays in the history but does not count against the retries.
CREATE FUNCTION release_job(p_job_id uuid, p_token bigint, p_reason text,
                            p_report jsonb DEFAULT NULL) RETURNS boolean
LANGUAGE plpgsql AS
$$
BEGIN
    IF NOT fence_job(p_job_id, p_token) THEN
        RETURN false;
    END IF;
    UPDATE jobs SET status = CASE WHEN cancel_requested_at IS NULL THEN 'queued' ELSE 'canceled' END::job_status
    WHERE id = p_job_id;
    PERFORM end_attempt(p_job_id, p_token, 'canceled', 'Released', p_reason, p_report);
    RETURN true;
END
$$;

-- The end of a running job that a person has stopped.
CREATE FUNCTION settle_canceled_job(p_job_id uuid, p_token bigint, p_report jsonb DEFAULT NULL)
RETURNS boolean
LANGUAGE plpgsql AS
$$
BEGIN
    IF NOT fence_job(p_job_id, p_token) THEN
        RETURN false;
    END IF;
    UPDATE jobs SET status = 'canceled' WHERE id = p_job_id;
    PERFORM end_attempt(p_job_id, p_token, 'canceled', 'Canceled', 'canceled by a person', p_report);
    RETURN true;
END
$$;

-- What the running attempt read and wrote: a list of {kind, key, size, content_type, checksum}.
CREATE FUNCTION record_artifacts(p_job_id uuid, p_token bigint, p_bucket text, p_artifacts jsonb)
RETURNS boolean
LANGUAGE plpgsql AS
$$
BEGIN
    IF NOT fence_job(p_job_id, p_token) THEN
        RETURN false;
    END IF;
    INSERT INTO task_artifacts (job_id, attempt, kind, bucket, key, size, content_type, checksum)
    SELECT DISTINCT ON (a.kind, a.key)
           j.id, j.attempt, a.kind, p_bucket, a.key, a.size, a.content_type, a.checksum
    FROM jobs j,
         jsonb_to_recordset(p_artifacts) AS a (kind text, key text, size bigint, content_type text,
                                               checksum text)
    WHERE j.id = p_job_id
    ON CONFLICT (job_id, kind, bucket, key) DO UPDATE SET
        attempt = excluded.attempt, size = excluded.size, content_type = excluded.content_type,
        checksum = excluded.checksum, created_at = now();
    RETURN true;
END
$$;

-- ---- by hand -------------------------------------------------------------------------------------

-- 'canceled', 'requested' (a running job: its worker is told), 'wrong_state' or 'not_found'.
CREATE FUNCTION cancel_job(p_job_id uuid) RETURNS text
LANGUAGE plpgsql
SECURITY DEFINER SET search_path = pg_catalog, public AS
$$
DECLARE
    job jobs;
BEGIN
    SELECT * INTO job FROM jobs WHERE id = p_job_id AND may_touch(tenant_id) FOR UPDATE;
    IF NOT FOUND THEN
        RETURN 'not_found';
    ELSIF job.status = 'queued' OR (job.status = 'failed' AND job.scheduled_for IS NOT NULL) THEN
        UPDATE jobs SET status = 'canceled' WHERE id = p_job_id;
        RETURN 'canceled';
    ELSIF job.status = 'processing' THEN
        UPDATE jobs SET cancel_requested_at = coalesce(cancel_requested_at, clock_timestamp())
        WHERE id = p_job_id;
        PERFORM pg_notify('cv_cancel', p_job_id::text);
        RETURN 'requested';
    END IF;
    RETURN 'wrong_state';
END
$$;

-- 'queued', 'wrong_state', 'duplicate' (the same work is in flight already) or 'not_found'.
CREATE FUNCTION retry_job(p_job_id uuid) RETURNS text
LANGUAGE plpgsql
SECURITY DEFINER SET search_path = pg_catalog, public AS
$$
DECLARE
    job jobs;
    unmet int;
BEGIN
    -- What it waits for first, as everywhere: parents before children.
    PERFORM FROM jobs
    WHERE id IN (SELECT unnest(depends_on) FROM jobs WHERE id = p_job_id AND status = 'canceled')
    ORDER BY id FOR NO KEY UPDATE;
    SELECT * INTO job FROM jobs WHERE id = p_job_id AND may_touch(tenant_id) FOR UPDATE;
    IF NOT FOUND THEN
        RETURN 'not_found';
    ELSIF job.status NOT IN ('failed', 'canceled') THEN
        RETURN 'wrong_state';
    END IF;
    SELECT count(*) INTO unmet
    FROM (SELECT DISTINCT unnest(job.depends_on) AS id) AS parent LEFT JOIN jobs j USING (id)
    WHERE j.status IS DISTINCT FROM 'done';
    BEGIN
        UPDATE jobs SET
            status = 'queued', scheduled_for = NULL, unmet_dependencies = unmet,
            max_retries = retry_count + CASE WHEN job.status = 'failed' THEN 1 ELSE 0 END
                + (SELECT cardinality(retry_delays) FROM job_types WHERE name = job.job_type)
        WHERE id = p_job_id;
        IF job.run_id IS NOT NULL AND job.unmet_dependencies > 0 AND unmet = 0 THEN
            PERFORM begin_step(p_job_id);  -- its parents were done after it had been canceled
        END IF;
    EXCEPTION WHEN unique_violation THEN
        RETURN 'duplicate';
    END;
    RETURN 'queued';
END
$$;

-- Every dead letter of a type, of an error, or of both; those that wait for their retry go on at once.
-- With a limit so many, the oldest first: call it until it returns 0. What is under way already is left.
CREATE FUNCTION retry_failed_jobs(p_job_type text DEFAULT NULL, p_error_type text DEFAULT NULL,
                                  p_limit int DEFAULT NULL) RETURNS bigint
LANGUAGE sql AS
$$
    SELECT count(*) FILTER (WHERE outcome = 'queued')
    FROM (SELECT retry_job(id) AS outcome
          FROM (SELECT id FROM jobs dead
                WHERE status = 'failed' AND NOT is_ready AND (p_job_type IS NULL OR job_type = p_job_type)
                  AND (p_error_type IS NULL OR payload #>> '{error,type}' = p_error_type)
                  AND NOT (dedupe_key IS NOT NULL AND EXISTS (
                      SELECT FROM jobs j
                      WHERE j.dedupe_key = dead.dedupe_key
                        AND j.tenant_id IS NOT DISTINCT FROM dead.tenant_id
                        AND j.status IN ('queued', 'processing')))
                  AND NOT (exclusive AND video_id IS NOT NULL AND EXISTS (
                      SELECT FROM jobs j
                      WHERE j.exclusive AND j.video_id = dead.video_id AND j.step = dead.step
                        AND j.part = dead.part AND j.status IN ('queued', 'processing')))
                ORDER BY sequence, created_at LIMIT p_limit) AS oldest) AS retried
$$;

-- ---- workers -------------------------------------------------------------------------------------

-- The row of a worker: at its start, with every heartbeat, at its end. Heartbeats also see to it that
-- next month's events have a partition, and carry the answer whether the worker is to go.
CREATE FUNCTION report_worker(p_id text, p_host text, p_version text, p_job_types text[],
                              p_slots int, p_running int, p_state text) RETURNS text
LANGUAGE plpgsql AS
$$
DECLARE
    is_to_drain boolean;
BEGIN
    INSERT INTO workers AS w (id, host, version, job_types, slots, running, state)
    VALUES (p_id, p_host, p_version, p_job_types, p_slots, p_running, p_state)
    ON CONFLICT (id) DO UPDATE SET
        version = excluded.version, job_types = excluded.job_types, slots = excluded.slots,
        running = excluded.running, state = excluded.state, last_seen = now()
    RETURNING drain_requested_at IS NOT NULL INTO is_to_drain;
    INSERT INTO hosts (name) VALUES (p_host) ON CONFLICT DO NOTHING;
    IF to_regclass('public.task_events_'
                   || to_char(now() AT TIME ZONE 'UTC' + interval '1 month', 'YYYY_MM')) IS NULL THEN
        PERFORM create_event_partitions();
    END IF;
    RETURN CASE WHEN is_to_drain THEN 'drain' ELSE 'ok' END;
END
$$;
COMMENT ON FUNCTION report_worker IS
    '''ok'', or ''drain'' when somebody wants the worker to finish what it has and go.';

-- Only the service role works on the queue; people go through the API.
DO $$
DECLARE
    name text;
BEGIN
    FOREACH name IN ARRAY ARRAY[
        'fair_sequence', 'enqueue_job', 'enqueue_jobs', 'take_upkeep', 'claim_from_head', 'lease_jobs', 'end_attempt', 'settle_failure', 'rescue_expired_jobs', 'promote_due_jobs', 'claim_jobs',
        'renew_lease', 'report_progress', 'fence_job', 'complete_job', 'release_dependents',
        'complete_jobs', 'fail_job', 'release_job', 'settle_canceled_job', 'record_artifacts',
        'cancel_job', 'retry_job', 'retry_failed_jobs', 'report_worker'] LOOP
        EXECUTE format('REVOKE ALL ON FUNCTION %I FROM PUBLIC, anon, authenticated', name);
        EXECUTE format('GRANT EXECUTE ON FUNCTION %I TO service_role', name);
    END LOOP;
END
$$;
