-- The queue as functions: enqueue, claim, renew, settle, cancel, retry. Workers in any language use these.
-- A function that a worker calls for an attempt takes the fencing token of the attempt, and returns whether the
-- attempt still held its lease.

-- ---- enqueue ------------------------------------------------------------------------------------

CREATE FUNCTION cortana.fair_sequence(p_job_type text, p_priority int, p_tenant_id uuid) RETURNS bigint
LANGUAGE plpgsql AS $$
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
COMMENT ON FUNCTION cortana.fair_sequence IS
    'Returns the place of a tenant''s next job in the queue of its type: behind the waiting jobs of the same '
    'tenant, or near the head of the queue if the tenant has no waiting jobs. Tenants therefore take turns, '
    'however many jobs one of them has enqueued, and a claim only reads one index in order. If nothing waits, or '
    'the job has no tenant, the place is the end of the queue.';

CREATE FUNCTION cortana.check_own_job(p_kind job_types, p_payload jsonb, p_video_id uuid, p_tenant_id uuid,
                              p_depends_on uuid[]) RETURNS uuid
LANGUAGE plpgsql STABLE AS $$
DECLARE
    tenant uuid := coalesce(p_tenant_id, auth.uid());
    original text;
BEGIN
    IF NOT p_kind.is_public THEN
        RAISE EXCEPTION 'applications may not enqueue jobs of type %', p_kind.name
            USING ERRCODE = 'insufficient_privilege';
    END IF;
    IF tenant IS NULL OR NOT may_touch(tenant) THEN
        RAISE EXCEPTION 'the job may only be enqueued for a tenant of your own'
            USING ERRCODE = 'insufficient_privilege';
    END IF;
    SELECT s3_original_path INTO original FROM videos
    WHERE id = p_video_id AND (owner_id = auth.uid() OR team_id = ANY (current_team_ids()));
    IF NOT FOUND AND (p_video_id IS NOT NULL OR p_kind.one_per_video) THEN
        RAISE EXCEPTION 'the video of the job is not yours' USING ERRCODE = 'insufficient_privilege';
    END IF;
    IF p_payload ->> 'video_id' <> coalesce(p_video_id::text, '')
       OR p_payload ? 's3_original_path' AND p_payload ->> 's3_original_path' IS DISTINCT FROM original
       OR p_payload ? 'frame_paths' AND jsonb_path_exists(
              p_payload, '$.frame_paths[*] ? (@.type() != "string" || !(@ starts with $prefix))',
              jsonb_build_object('prefix', format('frames/%s/', p_video_id)))
       OR p_payload ? 'line_paths' AND jsonb_path_exists(
              p_payload, '$.line_paths[*] ? (@.type() != "string" || !(@ starts with $prefix))',
              jsonb_build_object('prefix', format('lines/%s/', p_video_id)))
       OR p_payload ? 'covers' AND jsonb_path_exists(
              p_payload, '$.covers[*].pack ? (@.type() != "string" || !(@ starts with $prefix))',
              jsonb_build_object('prefix', format('lines/%s/', p_video_id)))
       OR p_payload ? 'parts' AND p_payload -> 'readers' IS DISTINCT FROM to_jsonb(array_remove(auth.uid() || current_team_ids(), NULL)) THEN
        RAISE EXCEPTION 'the payload names an object that does not belong to the video of the job'
            USING ERRCODE = 'insufficient_privilege';
    END IF;
    PERFORM check_own_job(p_kind, c.part, coalesce(c.video_id, gen_random_uuid()), tenant, NULL) FROM clip_parts(p_payload) AS c;
    IF EXISTS (SELECT FROM unnest(p_depends_on) AS parent LEFT JOIN jobs j ON j.id = parent
               WHERE j.id IS NULL OR NOT may_touch(j.tenant_id)) THEN
        RAISE EXCEPTION 'p_depends_on names a job that is not yours' USING ERRCODE = 'insufficient_privilege';
    END IF;
    RETURN tenant;
END
$$;
COMMENT ON FUNCTION cortana.check_own_job IS
    'Checks a new job of a caller that does not act for the whole service, and returns the tenant of the job. '
    'Raises an error if the job is not allowed. The objects that the payload names must belong to the video, '
    'because workers read them with the rights of the service.';

CREATE FUNCTION cortana.check_job_size(p_what text, p_document jsonb, p_largest int DEFAULT 65536) RETURNS void
LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE AS $$
BEGIN
    IF octet_length(p_document::text) > p_largest THEN
        RAISE EXCEPTION 'the % of a job may have at most % bytes', p_what, p_largest
            USING ERRCODE = 'program_limit_exceeded',
                  HINT = format('Put the data into the object store, and the key of the object into the %s.', p_what);
    END IF;
END
$$;
COMMENT ON FUNCTION cortana.check_job_size IS
    'Raises an error if a payload or a result is too large. Jobs refer to long lists by the keys of objects.';

CREATE FUNCTION cortana.check_payload(p_payload jsonb, p_video_id uuid, p_largest int) RETURNS void
LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE AS $$
BEGIN
    IF jsonb_typeof(p_payload) IS DISTINCT FROM 'object' THEN
        RAISE EXCEPTION 'the payload of a job must be a JSON object'
            USING ERRCODE = 'invalid_parameter_value';
    END IF;
    PERFORM cortana.check_job_size('payload', p_payload, p_largest);
    IF p_payload ->> 'video_id' <> p_video_id::text THEN
        RAISE EXCEPTION 'the payload names video %, but the job is for video %',
            left(p_payload ->> 'video_id', 100), p_video_id
            USING ERRCODE = 'invalid_parameter_value', CONSTRAINT = 'job_video';
    END IF;
END
$$;
COMMENT ON FUNCTION cortana.check_payload IS
    'Raises an error if the payload of a job is not allowed: it must be an object of limited size, and if it '
    'contains video_id, this must be equal to jobs.video_id.';

CREATE FUNCTION cortana.complete_payload(p_kind job_types, p_payload jsonb, p_video_id uuid) RETURNS jsonb
LANGUAGE plpgsql STABLE AS $$
DECLARE
    payload jsonb := p_payload;
    fault text;
BEGIN
    PERFORM check_payload(p_payload, p_video_id, p_kind.payload_bytes);
    IF p_kind.payload_defaults <> '{}' THEN
        payload := resolve_template(p_kind.payload_defaults, jsonb_build_object(
                       'video', (SELECT to_jsonb(v) FROM videos v WHERE v.id = p_video_id))) || p_payload;
    END IF;
    fault := json_schema_fault(p_kind.payload_schema, jsonb_strip_nulls(payload));
    IF fault IS NOT NULL THEN
        RAISE EXCEPTION 'a job of type % cannot have this payload: %', p_kind.name, fault
            USING ERRCODE = 'invalid_parameter_value', CONSTRAINT = 'job_payload',
                  COLUMN = json_schema_member(fault);
    END IF;
    RETURN payload;
END
$$;
COMMENT ON FUNCTION cortana.complete_payload IS
    'Returns a payload with the members of job_types.payload_defaults that it lacks. Raises an error with the name of '
    'the member (as COLUMN) if job_types.payload_schema refuses it.';

CREATE FUNCTION enqueue_job(
    p_job_type text,
    p_payload jsonb,
    p_video_id uuid DEFAULT NULL,
    p_priority int DEFAULT NULL,             -- NULL: the type's base priority; priority_number('high')
    p_scheduled_for timestamptz DEFAULT NULL,
    p_depends_on uuid[] DEFAULT NULL,
    p_dedupe_key text DEFAULT NULL,
    p_correlation_id uuid DEFAULT NULL,
    p_sequence bigint DEFAULT NULL,          -- NULL: the place from fair_sequence()
    p_tenant_id uuid DEFAULT NULL,           -- NULL: the tenant of the video
    OUT job_id uuid,
    OUT is_new boolean)
LANGUAGE plpgsql SECURITY DEFINER AS $$
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
    IF p_video_id IS NOT NULL AND tenant IS NULL THEN
        SELECT coalesce(team_id, owner_id) INTO tenant FROM videos WHERE id = p_video_id;
    END IF;
    IF NOT acts_for_everyone() THEN
        tenant := check_own_job(kind, p_payload, p_video_id, tenant, p_depends_on);
        p_sequence := NULL;
    END IF;
    IF kind.payload_schema IS NULL THEN
        PERFORM check_payload(p_payload, p_video_id, kind.payload_bytes);
    ELSE
        p_payload := complete_payload(kind, p_payload, p_video_id);
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
                job_is_ready('queued', 0, p_scheduled_for))
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
        -- The job that caused the conflict has ended in the meantime: insert again.
    END LOOP;
END
$$;
COMMENT ON FUNCTION enqueue_job IS
    'Adds a job, in the caller''s transaction. If a job for the same work is already queued or processing, returns '
    'the id of that job with is_new = false.';

-- Many jobs of one type at once, without videos or dedupe keys; returns their ids in order.
CREATE FUNCTION enqueue_jobs(
    p_job_type text,
    p_payloads jsonb[],
    p_priority int DEFAULT NULL,
    p_tenant_id uuid DEFAULT NULL,
    p_scheduled_for timestamptz DEFAULT NULL) RETURNS SETOF uuid
LANGUAGE plpgsql SECURITY DEFINER AS $$
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
    IF kind.payload_schema IS NULL THEN
        PERFORM check_payload(payload, NULL, kind.payload_bytes) FROM unnest(p_payloads) AS payload;
    ELSE
        PERFORM complete_payload(kind, payload, NULL) FROM unnest(p_payloads) AS payload;
    END IF;
    IF NOT acts_for_everyone() THEN
        -- Checks each payload; the tenant is the same for all of them.
        p_tenant_id := (SELECT array_agg(check_own_job(kind, payload, NULL, p_tenant_id, NULL))
                        FROM unnest(p_payloads) AS payload)[1];
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
           kind.one_per_video, cardinality(kind.retry_delays), job_is_ready('queued', 0, p_scheduled_for)
    FROM (SELECT payload, number, time_prefixed_uuid() AS own_id
          FROM unnest(p_payloads) WITH ORDINALITY AS given (payload, number) OFFSET 0) AS given
    RETURNING id;
END
$$;
COMMENT ON FUNCTION enqueue_jobs IS
    'Adds many jobs of one type in one statement, in the caller''s transaction.';

-- ---- bringing jobs back -------------------------------------------------------------------------

CREATE TABLE cortana.attempts_to_clear (
    id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    video_id uuid NOT NULL REFERENCES videos ON DELETE CASCADE
);
COMMENT ON TABLE cortana.attempts_to_clear IS
    'Attempts that ended without success and may have left objects that no row names. The scanner removes these when '
    'the video has no open job. A video may have several rows, so that workers do not wait for each other.';
COMMENT ON COLUMN cortana.attempts_to_clear.video_id IS 'The video of the attempt.';

CREATE INDEX attempts_to_clear_video ON attempts_to_clear (video_id);

SELECT secure_table('attempts_to_clear');

CREATE FUNCTION cortana.end_attempt(
    p_job_id uuid, p_token bigint, p_status text, p_error_type text, p_error_message text,
    p_report jsonb) RETURNS void
LANGUAGE sql AS $$
    UPDATE cortana.ended_attempts SET  -- with its schema: the function runs below the path of its caller
        status = p_status,
        error_type = p_error_type, error_message = p_error_message,
        pid = (p_report ->> 'pid')::int, exit_code = (p_report ->> 'exit_code')::int,
        stdout_tail = p_report ->> 'stdout_tail', stderr_tail = p_report ->> 'stderr_tail',
        cpu_seconds = (p_report ->> 'cpu_seconds')::double precision,
        peak_memory_bytes = (p_report ->> 'peak_memory_bytes')::bigint
    WHERE job_id = p_job_id AND lease_token = p_token;
    INSERT INTO public.task_events (job_id, video_id, correlation_id, source, level, type, message, data)
    SELECT j.id, j.video_id, j.correlation_id, 'worker:' || j.job_type, w.level, 'log', left(w.message, 2000),
           jsonb_build_object('attempt', j.attempt)
    FROM public.jobs j, jsonb_to_recordset(p_report -> 'warnings') AS w (level text, message text)
    WHERE j.id = p_job_id AND w.level IN ('warn', 'error');
    INSERT INTO cortana.attempts_to_clear (video_id)
    SELECT j.video_id FROM public.jobs j
    WHERE j.id = p_job_id AND j.video_id IS NOT NULL AND p_status <> 'succeeded'
$$;
COMMENT ON FUNCTION cortana.end_attempt IS
    'Adds the report of the worker to an attempt that has ended. Members of `p_report`, all optional: pid, '
    'exit_code, tails, cpu_seconds, peak_memory_bytes, and warnings, a list of {level, message} that become events of '
    'the job. Notes an attempt without success in cortana.attempts_to_clear. For the functions of the queue only.';

CREATE FUNCTION cortana.settle_failure(
    p_job jobs, p_error_type text, p_message text, p_retryable boolean,
    p_retry_at timestamptz,                  -- NULL: from job_types.retry_delays, with jitter
    p_attempt_status text, p_report jsonb,
    p_not_before timestamptz DEFAULT NULL) RETURNS text
LANGUAGE plpgsql AS $$
DECLARE
    delays interval[];
    retry_at timestamptz;
BEGIN
    IF p_retryable AND p_job.retry_count < p_job.max_retries THEN
        SELECT retry_delays INTO delays FROM job_types WHERE name = p_job.job_type;
        -- A job with more retries than retry_delays has entries waits the last delay again.
        retry_at := coalesce(p_retry_at, clock_timestamp()
            + delays[least(p_job.retry_count + 1, cardinality(delays))] * (0.8 + 0.4 * random()));
        retry_at := greatest(retry_at, p_not_before);
    END IF;

    IF p_job.cancel_requested_at IS NOT NULL THEN  -- somebody asked the job to stop, and it has stopped
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
COMMENT ON FUNCTION cortana.settle_failure IS
    'Ends the attempt of a job whose row the caller has locked as failed: schedules a retry, or makes the job a dead '
    'letter, or cancels it if this was requested. For the functions of the queue only.';

CREATE FUNCTION cortana.rescue_expired_jobs(p_job_type text) RETURNS int
LANGUAGE plpgsql AS $$
DECLARE
    expired jobs;
    rescued int := 0;
BEGIN
    FOR expired IN
        SELECT * FROM jobs
        WHERE job_type = p_job_type AND status = 'processing'
          AND coalesce(locked_until < clock_timestamp(), true)
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
COMMENT ON FUNCTION cortana.rescue_expired_jobs IS
    'Ends the attempts of jobs whose worker has stopped renewing the lease. The attempt counts as a retry, and '
    'the job may be claimed again at once.';

CREATE FUNCTION cortana.promote_due_jobs(p_job_type text) RETURNS int
LANGUAGE plpgsql AS $$
DECLARE
    moment CONSTANT timestamptz := clock_timestamp(); -- a constant, because no index is used for a volatile function
    due_id uuid;
    promoted int := 0;
BEGIN
    IF EXISTS (SELECT FROM jobs
               WHERE job_type = p_job_type AND status = 'queued' AND NOT is_ready
                 AND scheduled_for <= moment) THEN
        -- set_status() sets is_ready, because the jobs are due.
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
        EXCEPTION WHEN unique_violation OR check_violation THEN -- check_violation: all its retries have been used
            UPDATE jobs SET scheduled_for = NULL WHERE id = due_id;
        END;
    END LOOP;
    RETURN promoted;
END
$$;
COMMENT ON FUNCTION cortana.promote_due_jobs IS
    'Makes retries and put-off jobs claimable when their time has come. If another job for the same work already '
    'waits or runs, the retry becomes a dead letter, because somebody has enqueued the work again.';

CREATE TABLE cortana.job_type_upkeep (
    job_type job_type PRIMARY KEY REFERENCES job_types (name) ON UPDATE CASCADE ON DELETE CASCADE,
    due_at timestamptz NOT NULL DEFAULT '-infinity',
    from_priority int,
    from_sequence bigint
) WITH (fillfactor = 20);
COMMENT ON TABLE cortana.job_type_upkeep IS
    'When each type was last checked for expired leases and due retries, and where in the index claims begin. '
    'While there are enough jobs, only the first claim of each second makes the check. If that claim has to '
    'read many pages of dead index entries, it notes the place of the first job that it finds, and the other '
    'claims of this second begin there.';

SELECT secure_table('job_type_upkeep', 'DELETE, INSERT, SELECT, UPDATE');

INSERT INTO job_type_upkeep (job_type) SELECT name FROM job_types;

CREATE FUNCTION cortana.job_types_inserted() RETURNS trigger
LANGUAGE plpgsql SECURITY DEFINER AS $$
BEGIN
    INSERT INTO job_type_upkeep (job_type) VALUES (NEW.name);
    RETURN NULL;
END
$$;
COMMENT ON FUNCTION cortana.job_types_inserted IS 'Trigger: adds a row to job_type_upkeep for a new type.';
CREATE TRIGGER job_types_inserted AFTER INSERT ON job_types
    FOR EACH ROW EXECUTE FUNCTION job_types_inserted();

CREATE FUNCTION cortana.acquire_upkeep(p_job_type text, OUT is_turn boolean, OUT from_priority int,
                            OUT from_sequence bigint)
LANGUAGE plpgsql AS $$
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
COMMENT ON FUNCTION cortana.acquire_upkeep IS
    'Returns whether this claim has to check the type for expired leases and due retries, and otherwise where in '
    'the index the claim begins.';

CREATE FUNCTION cortana.claim_from_head(p_job_type text, p_priority int, p_sequence bigint) RETURNS void
LANGUAGE sql AS $$
    UPDATE job_type_upkeep SET from_priority = NULL, from_sequence = NULL
    WHERE job_type IN (SELECT u.job_type FROM job_type_upkeep u
                       WHERE u.job_type = p_job_type
                         AND (p_priority > u.from_priority
                              OR (p_priority = u.from_priority AND p_sequence < u.from_sequence))
                       FOR UPDATE SKIP LOCKED)
$$;
COMMENT ON FUNCTION cortana.claim_from_head IS
    'Makes claims begin at the head of the queue again when a job has become ready in front of the place where they '
    'begin. If another claim has locked the row of the type, this is skipped, because the next check comes within '
    'a second.';

-- ---- claim and lease ----------------------------------------------------------------------------

-- Settings of lease_jobs() make the planner choose the plan. The function counts the pages of the index that it
-- reads: a fixed look-back reads too much when few entries are dead, and too little when many are. Tested with
-- PostgreSQL 15.
CREATE FUNCTION cortana.lease_jobs(p_worker_id text, p_job_type text, p_limit int, p_lease interval,
                           p_chosen uuid[], p_is_turn boolean, p_from_priority int,
                           p_from_sequence bigint) RETURNS SETOF jobs
LANGUAGE plpgsql
SET plan_cache_mode = force_generic_plan SET enable_seqscan = off SET enable_bitmapscan = off
SET jit = off AS $$
DECLARE
    -- Pages read when no index entry is dead: the height of the index, and one page for every fifty jobs.
    pages_needed CONSTANT int := 10 + p_limit / 50;
    pages_read bigint := pg_stat_get_xact_blocks_fetched('public.jobs_claim'::regclass);
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
    UPDATE jobs SET status = 'processing', locked_by = p_worker_id, locked_until = clock_timestamp() + p_lease
    WHERE ctid = ANY (chosen)
    RETURNING *;
END
$$;
COMMENT ON FUNCTION cortana.lease_jobs IS
    'Claims jobs, and returns them in no particular order. With p_chosen, claims those of the given jobs that no '
    'other worker has taken in the meantime. Rows are updated by their ctid, because a locked row does not '
    'move. Plans are cached, because planning costs as much as a claim; the settings make the planner choose a '
    'scan of the index, not a plan that is better only while the table is small.';

CREATE FUNCTION claim_jobs(
    p_worker_id text, p_job_type text, p_limit int DEFAULT 1,
    p_lease interval DEFAULT default_lease()) RETURNS SETOF jobs
LANGUAGE plpgsql AS $$
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
    IF NOT FOUND THEN
        RAISE EXCEPTION 'job type % is not registered', p_job_type
            USING ERRCODE = 'invalid_parameter_value',
                  HINT = 'The arguments are claim_jobs(worker, job type, how many, lease), the worker first.';
    END IF;
    -- If the type has a limit, the jobs of a dead worker must not count towards it.
    SELECT * INTO upkeep FROM acquire_upkeep(p_job_type);
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
        -- Parsed anew each time, because a cached plan contains the columns of `jobs` and would fail in every
        -- connection that is open when a migration adds a column.
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
    'Claims up to p_limit jobs of a type for a worker and starts an attempt of each: by priority, then in '
    'the order of the queue, within the limits of job_types. The worker must renew each lease before '
    'p_lease has passed. Jobs of the type whose lease has expired or whose retry is due are queued again first.';

CREATE FUNCTION renew_lease(p_job_id uuid, p_token bigint, p_lease interval DEFAULT default_lease())
RETURNS text
LANGUAGE sql AS $$
    WITH renewed AS (
        UPDATE jobs SET locked_until = clock_timestamp() + p_lease
        WHERE id = p_job_id AND lease_token = p_token AND status = 'processing'
        RETURNING *
    ), told AS (  -- one heartbeat in ten minutes is an event, so that a long job does not fill the timeline
        INSERT INTO task_events (job_id, video_id, correlation_id, source, level, type, message, data)
        SELECT id, video_id, correlation_id, 'worker:' || job_type, 'debug', 'heartbeat', 'still running',
               jsonb_build_object('worker', locked_by, 'attempt', attempt, 'progress', progress)
        FROM renewed r
        WHERE started_at < clock_timestamp() - interval '10 minutes'
          AND NOT EXISTS (SELECT FROM task_events e
                          WHERE e.job_id = r.id AND e.type = 'heartbeat'
                            AND e.ts > clock_timestamp() - interval '10 minutes')
    )
    SELECT coalesce((SELECT CASE WHEN cancel_requested_at IS NULL THEN 'ok' ELSE 'cancel' END
                     FROM renewed), 'lost')
$$;
COMMENT ON FUNCTION renew_lease IS
    'Extends a lease until p_lease from now. Returns ''ok'', ''cancel'' (the lease is extended, but the job is to '
    'stop) or ''lost'' (the lease is lost).';

CREATE FUNCTION report_progress(p_job_id uuid, p_token bigint, p_progress real, p_message text)
RETURNS text
LANGUAGE sql AS $$
    WITH held AS MATERIALIZED (
        SELECT id, progress AS progress_before FROM jobs
        WHERE id = p_job_id AND lease_token = p_token AND status = 'processing'
        FOR NO KEY UPDATE
    ), reported AS (
        UPDATE jobs SET progress = least(greatest(p_progress, 0), 1),
                        progress_message = left(p_message, 200)
        FROM held WHERE jobs.id = held.id
        RETURNING jobs.*, held.progress_before
    ), told AS (  -- a quarter that is completed is an event
        INSERT INTO task_events (job_id, video_id, correlation_id, source, level, type, message, data)
        SELECT id, video_id, correlation_id, 'worker:' || job_type, 'debug', 'progress',
               coalesce(progress_message, round(progress * 100) || ' %'),
               jsonb_build_object('progress', progress, 'attempt', attempt)
        FROM reported WHERE trunc(progress * 4) > trunc(progress_before * 4)
    )
    SELECT coalesce((SELECT CASE WHEN cancel_requested_at IS NULL THEN 'ok' ELSE 'cancel' END
                     FROM reported), 'lost')
$$;
COMMENT ON FUNCTION report_progress IS
    'Stores the progress of the running attempt (0 to 1) and what it is doing. Returns the same values as '
    'renew_lease().';

CREATE FUNCTION report_log(p_job_id uuid, p_token bigint, p_message text, p_level text DEFAULT 'info',
                           p_data jsonb DEFAULT NULL) RETURNS boolean
LANGUAGE sql AS $$
    WITH told AS (
        INSERT INTO task_events (job_id, video_id, correlation_id, source, level, type, message, data)
        SELECT id, video_id, correlation_id, 'worker:' || job_type, p_level, 'log', left(p_message, 2000), p_data
        FROM jobs WHERE id = p_job_id AND lease_token = p_token AND status = 'processing'
        RETURNING 1)
    SELECT EXISTS (SELECT FROM told)
$$;
COMMENT ON FUNCTION report_log IS
    'Adds a message of the running attempt to the timeline, at most 2,000 characters; the level is debug, info, '
    'warn or error. Returns false if the lease is lost.';

CREATE FUNCTION watch_job(p_job_id uuid) RETURNS text
LANGUAGE plpgsql SECURITY DEFINER AS $$
BEGIN
    UPDATE jobs SET watched = true
    WHERE id = p_job_id AND may_touch(tenant_id) AND status <> 'done' AND NOT watched;
    RETURN (SELECT status FROM jobs WHERE id = p_job_id AND may_touch(tenant_id));
END
$$;
COMMENT ON FUNCTION watch_job IS
    'Asks for notifications of a job: from now on, each change of its status or progress is sent on the channel '
    'cv_watch as {"job_id", "status", "progress"}. LISTEN first, then call this: it returns the status of the job, '
    'which may have ended already; null: the caller may not see such a job.';

-- ---- settle -------------------------------------------------------------------------------------

CREATE FUNCTION fence_job(p_job_id uuid, p_token bigint) RETURNS boolean
LANGUAGE plpgsql AS $$
DECLARE
    held job_type;
BEGIN
    SELECT job_type INTO held FROM jobs
    WHERE id = p_job_id AND lease_token = p_token AND status = 'processing'
    FOR UPDATE;
    IF NOT FOUND THEN
        RETURN false;
    END IF;
    PERFORM set_config('cortana.source', 'worker:' || held, true); -- for task_events.source
    RETURN true;
END
$$;
COMMENT ON FUNCTION fence_job IS
    'Locks the row of a running job until the transaction ends, and returns whether the attempt still holds the '
    'lease. A lease that has expired is still held until another worker claims the job.';

CREATE FUNCTION complete_job(p_job_id uuid, p_token bigint, p_result jsonb DEFAULT NULL,
                             p_report jsonb DEFAULT NULL) RETURNS boolean
LANGUAGE plpgsql AS $$
BEGIN
    IF NOT fence_job(p_job_id, p_token) THEN
        RETURN false;
    END IF;
    PERFORM check_job_size('result', p_result);
    UPDATE jobs SET status = 'done', result = p_result WHERE id = p_job_id;
    IF p_report IS NOT NULL THEN
        PERFORM end_attempt(p_job_id, p_token, 'succeeded', NULL, NULL, p_report);
    END IF;
    RETURN true;
END
$$;
COMMENT ON FUNCTION complete_job IS
    'Ends a running job as done and stores its result. Jobs that waited only for this job become claimable. Returns '
    'false if the lease is lost; then nothing is changed.';

CREATE FUNCTION cortana.release_dependents(p_done uuid[]) RETURNS void
LANGUAGE plpgsql AS $$
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
                ready_at = clock_timestamp()
            WHERE id = child.id;
        END IF;
    END LOOP;
END
$$;
COMMENT ON FUNCTION cortana.release_dependents IS
    'Reduces unmet_dependencies of the jobs that wait for the given done jobs. The rows are locked in order of id, '
    'so that two parents that complete at the same time cannot deadlock. A step of a run gets its payload when its '
    'last parent is done.';

CREATE FUNCTION complete_jobs(p_job_ids uuid[], p_tokens bigint[]) RETURNS bigint
LANGUAGE plpgsql
SET plan_cache_mode = force_generic_plan SET enable_seqscan = off SET jit = off AS $$
DECLARE
    held tid[];
    completed bigint;
BEGIN
    -- Lock the jobs one by one, in the order of ids that all callers use. The cast keeps the planner from using
    -- the index of running jobs, which it believes to be small and would read once for each job.
    held := ARRAY(SELECT j.place
                  FROM (SELECT * FROM unnest(p_job_ids, p_tokens) AS pair (id, token) ORDER BY id)
                      AS given,
                      LATERAL (SELECT ctid AS place FROM jobs
                               WHERE id = given.id AND lease_token = given.token
                                 AND status::text = 'processing' FOR UPDATE) AS j);
    UPDATE jobs SET status = 'done' WHERE ctid = ANY (held);
    GET DIAGNOSTICS completed = ROW_COUNT;
    RETURN completed;
END
$$;
COMMENT ON FUNCTION complete_jobs IS
    'Ends many running jobs as done, without results. Returns how many of them still held their lease; the others '
    'are not changed.';

CREATE FUNCTION fail_job(p_job_id uuid, p_token bigint, p_error_type text, p_message text,
                         p_retryable boolean, p_report jsonb DEFAULT NULL,
                         p_retry_after interval DEFAULT NULL) RETURNS text
LANGUAGE plpgsql AS $$
DECLARE
    job jobs;
BEGIN
    IF NOT fence_job(p_job_id, p_token) THEN
        RETURN 'lost';
    END IF;
    SELECT * INTO job FROM jobs WHERE id = p_job_id;
    RETURN settle_failure(job, p_error_type, p_message, p_retryable, NULL,
        CASE p_error_type WHEN 'Timeout' THEN 'timeout'
                          WHEN 'StageCrashed' THEN 'crashed' ELSE 'failed' END,
        p_report, clock_timestamp() + p_retry_after);
END
$$;
COMMENT ON FUNCTION fail_job IS
    'Ends a running job as failed. Returns ''retry'' (the job is tried again at jobs.scheduled_for), '
    '''failed'' (the job is a dead letter), ''canceled'' (somebody had asked to cancel the job) or ''lost'' (the '
    'lease is lost, and nothing is changed).';

CREATE FUNCTION release_job(p_job_id uuid, p_token bigint, p_reason text,
                            p_report jsonb DEFAULT NULL) RETURNS boolean
LANGUAGE plpgsql AS $$
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
COMMENT ON FUNCTION release_job IS
    'Returns a running job to the queue. The attempt stays in the history, but does not count as a retry. Returns '
    'false if the lease is lost.';

CREATE FUNCTION settle_canceled_job(p_job_id uuid, p_token bigint, p_report jsonb DEFAULT NULL)
RETURNS boolean
LANGUAGE plpgsql AS $$
BEGIN
    IF NOT fence_job(p_job_id, p_token) THEN
        RETURN false;
    END IF;
    UPDATE jobs SET status = 'canceled' WHERE id = p_job_id;
    PERFORM end_attempt(p_job_id, p_token, 'canceled', 'Canceled', 'canceled by a person', p_report);
    RETURN true;
END
$$;
COMMENT ON FUNCTION settle_canceled_job IS
    'Ends a running job as canceled, after its worker has stopped the work. Returns false if the lease is lost.';

CREATE FUNCTION record_artifacts(p_job_id uuid, p_token bigint, p_bucket text, p_artifacts jsonb)
RETURNS boolean
LANGUAGE plpgsql AS $$
BEGIN
    IF NOT fence_job(p_job_id, p_token) THEN
        RETURN false;
    END IF;
    INSERT INTO task_artifacts AS t (job_id, attempt, kind, bucket, key, numbers, objects, size, content_type, checksum)
    WITH given AS (
        SELECT DISTINCT ON (a.kind, a.key) a.*, n.pattern, n.number
        FROM jsonb_to_recordset(p_artifacts) AS a (kind text, key text, size bigint, content_type text, checksum text)
        LEFT JOIN LATERAL numbered_key(a.key) AS n ON true
    ), placed AS (
        SELECT *, pattern IS NOT NULL AND count(*) OVER (PARTITION BY kind, pattern) > 1 AS is_set FROM given
    )
    SELECT j.id, j.attempt, p.kind, p_bucket, CASE WHEN p.is_set THEN p.pattern ELSE p.key END AS whole,
           range_agg(int8range(p.number, p.number, '[]')) FILTER (WHERE p.is_set), count(*), sum(p.size),
           CASE WHEN count(DISTINCT p.content_type) = 1 THEN min(p.content_type) END,
           CASE WHEN count(*) = 1 THEN min(p.checksum) END
    FROM jobs j, placed p
    WHERE j.id = p_job_id
    GROUP BY j.id, j.attempt, p.kind, whole
    ON CONFLICT (job_id, kind, bucket, key) DO UPDATE SET
        attempt = excluded.attempt,
        numbers = CASE WHEN t.attempt = excluded.attempt THEN t.numbers + excluded.numbers ELSE excluded.numbers END,
        objects = CASE WHEN t.attempt = excluded.attempt AND excluded.numbers IS NOT NULL
                       THEN (SELECT sum(upper(r) - lower(r)) FROM unnest(t.numbers + excluded.numbers) AS r)
                       ELSE excluded.objects END,
        size = CASE WHEN t.attempt = excluded.attempt AND NOT t.numbers && excluded.numbers
                    THEN t.size + excluded.size ELSE excluded.size END,
        content_type = excluded.content_type, checksum = excluded.checksum, created_at = now();
    INSERT INTO task_events (job_id, video_id, correlation_id, source, level, type, message, data)
    SELECT j.id, j.video_id, j.correlation_id, event_source(), 'debug', 'artifact',
           string_agg(format('%s %s', c.n, c.kind), ', ' ORDER BY c.kind), jsonb_object_agg(c.kind, c.n)
    FROM jobs j, (SELECT a ->> 'kind' AS kind, count(*) AS n FROM jsonb_array_elements(p_artifacts) AS a
                  GROUP BY a ->> 'kind') AS c
    WHERE j.id = p_job_id
    GROUP BY j.id;
    RETURN true;
END
$$;
COMMENT ON FUNCTION record_artifacts IS
    'Records the objects that the running attempt has read or written: a list of {kind, key, size, content_type, '
    'checksum}. Returns false if the lease is lost.';

-- ---- by hand ------------------------------------------------------------------------------------

CREATE FUNCTION cancel_job(p_job_id uuid) RETURNS text
LANGUAGE plpgsql SECURITY DEFINER AS $$
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
COMMENT ON FUNCTION cancel_job IS
    'Cancels a job. Returns ''canceled'' (the job was not running), ''requested'' (the job runs, and its worker is '
    'told to stop it), ''wrong_state'' (the job has ended) or ''not_found''.';

CREATE FUNCTION retry_job(p_job_id uuid) RETURNS text
LANGUAGE plpgsql SECURITY DEFINER AS $$
DECLARE
    job jobs;
    unmet int;
BEGIN
    -- Lock parents before children, as everywhere, so that no deadlock is possible.
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
            PERFORM begin_step(p_job_id);  -- the last parent became done after this job had been canceled
        END IF;
    EXCEPTION WHEN unique_violation THEN
        RETURN 'duplicate';
    END;
    RETURN 'queued';
END
$$;
COMMENT ON FUNCTION retry_job IS
    'Queues a failed or canceled job again, with new retries. Returns ''queued'', ''wrong_state'' (the job is '
    'neither failed nor canceled), ''duplicate'' (another job for the same work waits or runs) or ''not_found''.';

CREATE FUNCTION cortana.has_twin(dead jobs) RETURNS boolean
LANGUAGE sql STABLE
RETURN dead.dedupe_key IS NOT NULL AND EXISTS (
        SELECT FROM jobs j
        WHERE j.dedupe_key = dead.dedupe_key AND j.tenant_id IS NOT DISTINCT FROM dead.tenant_id
          AND j.status IN ('queued', 'processing'))
    OR dead.exclusive AND dead.video_id IS NOT NULL AND EXISTS (
        SELECT FROM jobs j
        WHERE j.exclusive AND j.video_id = dead.video_id AND j.step = dead.step AND j.part = dead.part
          AND j.status IN ('queued', 'processing'));
COMMENT ON FUNCTION cortana.has_twin IS 'Whether another job for the same work as an ended one waits or runs.';

CREATE FUNCTION cortana.filter_condition(p_filter jsonb) RETURNS text
LANGUAGE plpgsql IMMUTABLE AS $$
DECLARE
    known CONSTANT jsonb := jsonb_build_object(
        'id', 'j.id = %L::uuid', 'job_type', 'j.job_type = %L', 'status', 'j.status = %L::job_status',
        'tenant_id', 'j.tenant_id = %L::uuid', 'video_id', 'j.video_id = %L::uuid',
        'run_id', 'j.run_id = %L::uuid', 'error_type', 'j.payload #>> ''{error,type}'' = %L',
        'created_before', 'j.created_at < %L::timestamptz',
        'created_after', 'j.created_at >= %L::timestamptz',
        'is_scheduled', '(j.scheduled_for IS NOT NULL) = %L::boolean');
    unknown text;
BEGIN
    IF jsonb_typeof(p_filter) IS DISTINCT FROM 'object' OR p_filter = '{}' THEN
        RAISE EXCEPTION 'a filter must name at least one of id, job_type, status, tenant_id, video_id, run_id, error_type, created_before, created_after, is_scheduled'
            USING ERRCODE = 'invalid_parameter_value';
    END IF;
    SELECT k INTO unknown FROM jsonb_object_keys(p_filter) AS k WHERE NOT known ? k LIMIT 1;
    IF FOUND THEN
        RAISE EXCEPTION '"%" is not a member of a filter', left(unknown, 100)
            USING ERRCODE = 'invalid_parameter_value';
    END IF;
    RETURN (SELECT string_agg(format(known ->> key, value), ' AND ') FROM jsonb_each_text(p_filter));
END
$$;
COMMENT ON FUNCTION cortana.filter_condition IS
    'Turns a filter into an SQL condition on jobs j: {id, job_type, status, tenant_id, video_id, run_id, '
    'error_type, created_before, created_after, is_scheduled}. A job must match all members that are given. An unknown member '
    'is an error, so that a mistyped filter does not match all jobs.';

CREATE FUNCTION cortana.lock_filtered_jobs(p_filter jsonb, p_states text[], p_limit int) RETURNS uuid[]
LANGUAGE plpgsql AS $$
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
    -- Jobs that another transaction is changing come last; wait for one at a time, without holding other locks.
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
COMMENT ON FUNCTION cortana.lock_filtered_jobs IS
    'Locks up to p_limit jobs that match a filter and one of the given states (conditions that are those of the '
    'partial indexes). Returns an empty list only if no job matches. The jobs at the end of the queue come first, '
    'because workers claim at its head. For the functions of the queue only.';

CREATE FUNCTION cancel_jobs(p_filter jsonb, p_limit int DEFAULT 10000) RETURNS bigint
LANGUAGE plpgsql AS $$
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
COMMENT ON FUNCTION cancel_jobs IS
    'Cancels up to p_limit jobs that match all members of a filter: {id, job_type, status, tenant_id, video_id, '
    'run_id, error_type, created_before, created_after}. Waiting jobs are canceled at once; the workers of running '
    'jobs are told to stop them. Returns the number of jobs. Call it until it returns 0, so that each transaction '
    'is short.';

CREATE FUNCTION set_priority(p_filter jsonb, p_priority int, p_limit int DEFAULT 10000) RETURNS bigint
LANGUAGE plpgsql AS $$
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
COMMENT ON FUNCTION set_priority IS
    'Changes the priority of waiting jobs, and of failed jobs for their next try. The filter is that of '
    'cancel_jobs(). Returns how many jobs were changed; call it until it returns 0.';

-- ---- who may call what --------------------------------------------------------------------------

SELECT secure_objects('{check_job_size,check_payload,end_attempt,fair_sequence,lease_jobs,acquire_upkeep}');
GRANT EXECUTE ON FUNCTION enqueue_job, enqueue_jobs, cancel_job, retry_job, watch_job, cortana.has_twin TO cortana_app;
