-- The queue as functions: enqueue, claim, renew, settle, cancel, retry. Whatever language a worker is
-- written in, it works through these. Every function that acts for an attempt takes its fencing token
-- and says whether the lease still held.

-- ---- enqueue -------------------------------------------------------------------------------------

CREATE FUNCTION enqueue_job(
    p_job_type text,
    p_payload jsonb,
    p_video_id uuid DEFAULT NULL,
    p_priority int DEFAULT NULL,             -- NULL: the type's base priority
    p_scheduled_for timestamptz DEFAULT NULL,
    p_depends_on uuid[] DEFAULT NULL,
    p_dedupe_key text DEFAULT NULL,
    p_correlation_id uuid DEFAULT NULL,
    p_sequence bigint DEFAULT NULL,          -- NULL: the end of the global order
    OUT job_id uuid,
    OUT is_new boolean)
LANGUAGE plpgsql AS
$$
DECLARE
    kind job_types;
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

    LOOP
        INSERT INTO jobs (job_type, payload, video_id, priority, scheduled_for, depends_on,
                          dedupe_key, correlation_id, sequence)
        VALUES (p_job_type, p_payload, p_video_id, coalesce(p_priority, kind.base_priority),
                p_scheduled_for, p_depends_on, p_dedupe_key,
                coalesce(p_correlation_id, gen_random_uuid()),
                coalesce(p_sequence, nextval('job_sequence')))
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
              AND j.tenant_id IS NOT DISTINCT FROM
                  (SELECT coalesce(v.team_id, v.owner_id) FROM videos v WHERE v.id = p_video_id);
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

-- ---- bringing jobs back --------------------------------------------------------------------------

-- Closes the history of one attempt. `p_report` is what the worker knows of it: pid, exit_code, tails,
-- cpu_seconds, peak_memory_bytes; any of it may be missing. Not for use outside.
CREATE FUNCTION end_attempt(
    p_job_id uuid, p_token bigint, p_status text, p_error_type text, p_error_message text,
    p_report jsonb) RETURNS void
LANGUAGE sql AS
$$
    UPDATE job_attempts SET
        finished_at = clock_timestamp(), status = p_status,
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
    p_attempt_status text, p_report jsonb) RETURNS text
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
    END IF;

    PERFORM end_attempt(p_job.id, p_job.lease_token, p_attempt_status, p_error_type, p_message, p_report);

    IF p_job.cancel_requested_at IS NOT NULL THEN  -- it was to be stopped, and it has stopped
        UPDATE jobs SET status = 'canceled' WHERE id = p_job.id;
        RETURN 'canceled';
    END IF;
    UPDATE jobs SET
        status = 'failed',
        scheduled_for = retry_at,
        payload = jsonb_build_object(
            'error', jsonb_build_object('type', p_error_type, 'message', p_message,
                                        'timestamp', clock_timestamp(),
                                        'retry_count', p_job.retry_count),
            'original_payload', p_job.payload)
    WHERE id = p_job.id;
    RETURN CASE WHEN retry_at IS NULL THEN 'failed' ELSE 'retry' END;
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
    due_id uuid;
    promoted int;
BEGIN
    UPDATE jobs SET is_ready = true
    WHERE id IN (SELECT id FROM jobs
                 WHERE job_type = p_job_type AND status = 'queued' AND NOT is_ready
                   AND scheduled_for <= clock_timestamp() AND unmet_dependencies = 0
                 ORDER BY scheduled_for LIMIT 1000
                 FOR UPDATE SKIP LOCKED);
    GET DIAGNOSTICS promoted = ROW_COUNT;

    FOR due_id IN
        SELECT id FROM jobs
        WHERE job_type = p_job_type AND status = 'failed' AND scheduled_for <= clock_timestamp()
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

-- ---- claim and lease -----------------------------------------------------------------------------

CREATE FUNCTION claim_jobs(
    p_worker_id text, p_job_type text, p_limit int DEFAULT 1,
    p_lease interval DEFAULT '5 minutes') RETURNS SETOF jobs
LANGUAGE plpgsql AS
$$
BEGIN
    PERFORM set_config('cortana.source', 'worker:' || p_job_type, true);
    PERFORM rescue_expired_jobs(p_job_type);
    PERFORM promote_due_jobs(p_job_type);

    RETURN QUERY
    WITH next AS MATERIALIZED (  -- the fence keeps the planner from locking more than the limit
        SELECT id FROM jobs
        WHERE job_type = p_job_type AND status = 'queued' AND is_ready
        ORDER BY priority DESC, sequence, created_at, id
        LIMIT p_limit
        FOR UPDATE SKIP LOCKED
    ), claimed AS (
        UPDATE jobs j SET
            status = 'processing', locked_by = p_worker_id,
            locked_until = clock_timestamp() + p_lease,
            lease_token = nextval('job_lease_tokens'), attempt = j.attempt + 1
        FROM next WHERE j.id = next.id
        RETURNING j.*
    ), started AS (
        INSERT INTO job_attempts (job_id, attempt, worker_id, lease_token)
        SELECT id, attempt, p_worker_id, lease_token FROM claimed
    )
    SELECT * FROM claimed ORDER BY priority DESC, sequence, created_at, id;
END
$$;
COMMENT ON FUNCTION claim_jobs IS
    'Leases up to p_limit jobs of a type to a worker, in order of priority, run and age, after bringing back expired leases and due retries.';

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
BEGIN
    IF NOT fence_job(p_job_id, p_token) THEN
        RETURN false;
    END IF;
    PERFORM end_attempt(p_job_id, p_token, 'succeeded', NULL, NULL, p_report);
    UPDATE jobs SET status = 'done', result = p_result WHERE id = p_job_id;
    PERFORM release_dependents(ARRAY[p_job_id]);
    RETURN true;
END
$$;

-- Jobs that waited for these have one parent less to wait for each. Locked in order of id, so that two
-- parents completing at once cannot deadlock.
CREATE FUNCTION release_dependents(p_done uuid[]) RETURNS void
LANGUAGE sql AS
$$
    UPDATE jobs SET
        unmet_dependencies = unmet_dependencies - met.parents,
        is_ready = unmet_dependencies = met.parents
                   AND (scheduled_for IS NULL OR scheduled_for <= clock_timestamp())
    FROM (SELECT child.id,
                 (SELECT count(*)::int FROM unnest(child.depends_on) AS d WHERE d = ANY (p_done)) AS parents
          FROM jobs child
          WHERE child.status = 'queued' AND child.unmet_dependencies > 0
            AND child.depends_on && p_done
          ORDER BY child.id
          FOR UPDATE) AS met
    WHERE jobs.id = met.id
$$;

-- Many jobs at once, without results; returns how many leases still held.
CREATE FUNCTION complete_jobs(p_job_ids uuid[], p_tokens bigint[]) RETURNS bigint
LANGUAGE plpgsql AS
$$
DECLARE
    completed uuid[];
BEGIN
    WITH held AS MATERIALIZED (
        SELECT j.id, j.lease_token
        FROM unnest(p_job_ids, p_tokens) AS given (id, token)
        JOIN jobs j ON j.id = given.id AND j.lease_token = given.token AND j.status = 'processing'
        ORDER BY j.id
        FOR UPDATE OF j
    ), done AS (
        UPDATE jobs j SET status = 'done' FROM held WHERE j.id = held.id RETURNING j.id
    ), ended AS (
        UPDATE job_attempts a SET finished_at = clock_timestamp(), status = 'succeeded', exit_code = 0
        FROM held WHERE a.job_id = held.id AND a.lease_token = held.lease_token
    )
    SELECT coalesce(array_agg(id), '{}') INTO completed FROM done;
    PERFORM release_dependents(completed);
    RETURN cardinality(completed);
END
$$;

-- 'retry' (with the time in scheduled_for), 'failed' (a dead letter), 'canceled' (somebody had asked
-- for that), or 'lost'.
CREATE FUNCTION fail_job(p_job_id uuid, p_token bigint, p_error_type text, p_message text,
                         p_retryable boolean, p_report jsonb DEFAULT NULL) RETURNS text
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
        p_report);
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
    PERFORM end_attempt(p_job_id, p_token, 'canceled', 'Released', p_reason, p_report);
    UPDATE jobs SET status = CASE WHEN cancel_requested_at IS NULL THEN 'queued' ELSE 'canceled' END::job_status
    WHERE id = p_job_id;
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
    PERFORM end_attempt(p_job_id, p_token, 'canceled', 'Canceled', 'canceled by a person', p_report);
    UPDATE jobs SET status = 'canceled' WHERE id = p_job_id;
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
LANGUAGE plpgsql AS
$$
DECLARE
    job jobs;
BEGIN
    SELECT * INTO job FROM jobs WHERE id = p_job_id FOR UPDATE;
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
LANGUAGE plpgsql AS
$$
DECLARE
    job jobs;
BEGIN
    SELECT * INTO job FROM jobs WHERE id = p_job_id FOR UPDATE;
    IF NOT FOUND THEN
        RETURN 'not_found';
    ELSIF job.status NOT IN ('failed', 'canceled') THEN
        RETURN 'wrong_state';
    END IF;
    BEGIN
        UPDATE jobs SET
            status = 'queued', scheduled_for = NULL,
            max_retries = retry_count + CASE WHEN job.status = 'failed' THEN 1 ELSE 0 END
                + (SELECT cardinality(retry_delays) FROM job_types WHERE name = job.job_type)
        WHERE id = p_job_id;
    EXCEPTION WHEN unique_violation THEN
        RETURN 'duplicate';
    END;
    RETURN 'queued';
END
$$;

CREATE FUNCTION retry_failed_jobs(p_job_type text) RETURNS bigint
LANGUAGE sql AS
$$
    SELECT count(*) FILTER (WHERE outcome = 'queued')
    FROM (SELECT retry_job(id) AS outcome
          FROM (SELECT id FROM jobs
                WHERE job_type = p_job_type AND status = 'failed'
                ORDER BY sequence, created_at) AS dead) AS retried
$$;

-- ---- workers -------------------------------------------------------------------------------------

-- The row of a worker: at its start, with every heartbeat, at its end. Heartbeats also see to it that
-- next month's events have a partition.
CREATE FUNCTION report_worker(p_id text, p_host text, p_version text, p_job_types text[],
                              p_slots int, p_running int, p_state text) RETURNS void
LANGUAGE plpgsql AS
$$
BEGIN
    INSERT INTO workers AS w (id, host, version, job_types, slots, running, state)
    VALUES (p_id, p_host, p_version, p_job_types, p_slots, p_running, p_state)
    ON CONFLICT (id) DO UPDATE SET
        version = excluded.version, job_types = excluded.job_types, slots = excluded.slots,
        running = excluded.running, state = excluded.state, last_seen = now();
    IF to_regclass('public.task_events_'
                   || to_char(now() AT TIME ZONE 'UTC' + interval '1 month', 'YYYY_MM')) IS NULL THEN
        PERFORM create_event_partitions();
    END IF;
END
$$;

-- Only the service role works on the queue; people go through the API.
DO $$
DECLARE
    name text;
BEGIN
    FOREACH name IN ARRAY ARRAY[
        'enqueue_job', 'end_attempt', 'settle_failure', 'rescue_expired_jobs', 'promote_due_jobs', 'claim_jobs',
        'renew_lease', 'report_progress', 'fence_job', 'complete_job', 'release_dependents',
        'complete_jobs', 'fail_job', 'release_job', 'settle_canceled_job', 'record_artifacts',
        'cancel_job', 'retry_job', 'retry_failed_jobs', 'report_worker'] LOOP
        EXECUTE format('REVOKE ALL ON FUNCTION %I FROM PUBLIC, anon, authenticated', name);
        EXECUTE format('GRANT EXECUTE ON FUNCTION %I TO service_role', name);
    END LOOP;
END
$$;
