-- Jobs, their states, and their history.

CREATE FUNCTION cortana.time_prefixed_uuid() RETURNS uuid
LANGUAGE sql VOLATILE
RETURN encode(overlay(uuid_send(gen_random_uuid())
                          PLACING substr(int8send(date_part('epoch', clock_timestamp())::bigint), 7)
                          FROM 1), 'hex')::uuid;
COMMENT ON FUNCTION cortana.time_prefixed_uuid IS
    'A random UUID whose first four digits are the second of its creation, and repeat after 18 hours. Jobs that '
    'are created together are therefore close together in every index, and the first eight digits still '
    'distinguish jobs.';

CREATE SEQUENCE cortana.job_sequence;
COMMENT ON SEQUENCE cortana.job_sequence IS 'Numbers jobs and runs in the order in which they are enqueued.';
GRANT USAGE ON SEQUENCE cortana.job_sequence TO service_role;

CREATE FUNCTION cortana.event_source() RETURNS text
LANGUAGE sql STABLE
RETURN coalesce(nullif(current_setting('cortana.source', true), ''), 'sql:' || session_user);
COMMENT ON FUNCTION cortana.event_source IS
    'What causes the events of this transaction, for task_events.source. Workers, scanner and scheduler set '
    'cortana.source.';

CREATE FUNCTION cortana.job_source() RETURNS text
LANGUAGE sql STABLE
RETURN coalesce(nullif(current_setting('cortana.job_source', true), ''),
                CASE WHEN coalesce(current_setting('cortana.source', true), '') <> '' THEN 'system'
                     WHEN coalesce(current_setting('request.jwt.claims', true), '') <> '' THEN 'api'
                     ELSE 'manual' END);
COMMENT ON FUNCTION cortana.job_source IS
    'What enqueues the jobs of this transaction, for jobs.source: system if a program of cortana does, api if the '
    'transaction has the claims of a user, otherwise manual. A trigger sets cortana.job_source to event or schedule.';

CREATE SEQUENCE cortana.job_lease_tokens;
COMMENT ON SEQUENCE cortana.job_lease_tokens IS 'Fencing tokens; each is larger than all before it.';
GRANT USAGE ON SEQUENCE cortana.job_lease_tokens TO service_role;

-- Columns of a fixed width that are never null come first, because PostgreSQL finds them at a fixed offset; to
-- reach a later column it has to walk through the row.

CREATE TABLE jobs (
    id uuid PRIMARY KEY DEFAULT time_prefixed_uuid(),
    correlation_id uuid NOT NULL DEFAULT gen_random_uuid(),
    sequence bigint NOT NULL DEFAULT nextval('job_sequence'),
    lease_token bigint NOT NULL DEFAULT 0,
    created_at timestamptz NOT NULL DEFAULT now(),
    updated_at timestamptz NOT NULL DEFAULT now(),
    ready_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    status job_status NOT NULL DEFAULT 'queued',
    priority job_priority NOT NULL DEFAULT 0,
    retry_count job_counter NOT NULL DEFAULT 0,
    max_retries job_counter NOT NULL,
    unmet_dependencies job_counter NOT NULL DEFAULT 0,
    attempt int NOT NULL DEFAULT 0,
    part int NOT NULL DEFAULT 0,
    progress job_progress NOT NULL DEFAULT 0,
    is_ready boolean NOT NULL,
    exclusive boolean NOT NULL DEFAULT false,
    has_dependents boolean NOT NULL DEFAULT false,
    watched boolean NOT NULL DEFAULT false,
    skipped boolean NOT NULL DEFAULT false,

    job_type job_type NOT NULL,
    payload jsonb NOT NULL DEFAULT '{}',
    step text,
    video_id uuid REFERENCES videos ON DELETE CASCADE,
    run_id uuid REFERENCES runs ON DELETE CASCADE,
    tenant_id uuid,
    scheduled_for timestamptz,
    started_at timestamptz,
    finished_at timestamptz,
    locked_by text,
    locked_until timestamptz,
    cancel_requested_at timestamptz,
    dedupe_key text,
    depends_on uuid[],
    result jsonb,
    progress_message text,
    source text NOT NULL DEFAULT job_source(),
    source_ref text DEFAULT nullif(current_setting('cortana.job_source_ref', true), ''),
    created_by uuid DEFAULT auth.uid(),
    last_error text
) WITH (fillfactor = 70, autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_cost_delay = 0);
COMMENT ON TABLE jobs IS 'The queue: one row for each job that waits, runs or has ended.';
COMMENT ON COLUMN jobs.payload IS
    'Input of the job. In a failed job: {"error": …, "original_payload": …}.';
COMMENT ON COLUMN jobs.lease_token IS
    'Fencing token of the running attempt; a worker that holds an older token can no longer change the job.';
COMMENT ON COLUMN jobs.id IS 'Identifier.';
COMMENT ON COLUMN jobs.correlation_id IS 'Shared by all jobs, runs and events that one cause led to.';
COMMENT ON COLUMN jobs.sequence IS
    'Place in the queue of the type, among jobs of the same priority; see cortana.fair_sequence().';
COMMENT ON COLUMN jobs.created_at IS 'When the job was enqueued.';
COMMENT ON COLUMN jobs.updated_at IS 'When the status last changed.';
COMMENT ON COLUMN jobs.ready_at IS 'When the job began to wait for a worker.';
COMMENT ON COLUMN jobs.status IS 'queued, processing, done, failed or canceled.';
COMMENT ON COLUMN jobs.priority IS '0 to 10; higher ones are claimed first.';
COMMENT ON COLUMN jobs.retry_count IS 'How many retries were used.';
COMMENT ON COLUMN jobs.max_retries IS 'How many retries the job may use.';
COMMENT ON COLUMN jobs.unmet_dependencies IS 'How many of the jobs in depends_on are not done.';
COMMENT ON COLUMN jobs.attempt IS 'Number of the last attempt, from 1; 0: none yet.';
COMMENT ON COLUMN jobs.part IS 'Number of the part, if the step of the workflow fans out.';
COMMENT ON COLUMN jobs.progress IS 'Progress of the running attempt, 0 to 1.';
COMMENT ON COLUMN jobs.is_ready IS 'Whether a worker may claim the job: it is queued, due, and waits for no other job.';
COMMENT ON COLUMN jobs.exclusive IS 'True: at most one such job waits or runs for one video, step and part.';
COMMENT ON COLUMN jobs.has_dependents IS 'Whether other jobs wait for this job.';
COMMENT ON COLUMN jobs.watched IS 'Whether somebody asked to be notified of the job; see watch_job().';
COMMENT ON COLUMN jobs.skipped IS
    'Whether the job was canceled because a job that it waits for has ended without being done; progress_message '
    'names that job. It is queued again when its run goes on.';
COMMENT ON COLUMN jobs.source IS 'What enqueued the job: manual, event, schedule, system or api.';
COMMENT ON COLUMN jobs.source_ref IS
    'The event, the trigger or the request that enqueued the job, as cortana.job_source_ref named it.';
COMMENT ON COLUMN jobs.created_by IS 'The user whose token the enqueueing transaction had; null: none.';
COMMENT ON COLUMN jobs.last_error IS
    'Type and message of the last failure. It stays when the job is tried again and when it is done.';
COMMENT ON COLUMN jobs.job_type IS 'The type, registered in job_types.';
COMMENT ON COLUMN jobs.step IS 'The step of the workflow that the job carries out; by default the job type.';
COMMENT ON COLUMN jobs.video_id IS 'The video that the job works on.';
COMMENT ON COLUMN jobs.run_id IS 'The run of a workflow that the job belongs to.';
COMMENT ON COLUMN jobs.tenant_id IS
    'The tenant that the job belongs to: the team of the video, or its owner if it has no team.';
COMMENT ON COLUMN jobs.scheduled_for IS
    'A queued job is not claimed before this time. A failed job is tried again at this time; if it is null, the '
    'failed job is a dead letter.';
COMMENT ON COLUMN jobs.started_at IS 'When the last attempt began.';
COMMENT ON COLUMN jobs.finished_at IS 'When the last attempt ended.';
COMMENT ON COLUMN jobs.locked_by IS 'Worker that holds the lease.';
COMMENT ON COLUMN jobs.locked_until IS 'End of the lease.';
COMMENT ON COLUMN jobs.cancel_requested_at IS 'When somebody asked the running job to stop.';
COMMENT ON COLUMN jobs.dedupe_key IS 'Of the jobs of one tenant with the same key, only one can wait or run at a time.';
COMMENT ON COLUMN jobs.depends_on IS 'Jobs that must be done first.';
COMMENT ON COLUMN jobs.result IS 'Result of the job as JSON.';
COMMENT ON COLUMN jobs.progress_message IS
    'What the running attempt is doing, or why the job was skipped, in words for people.';

-- A claim reads only this index, in order. Finished jobs are not in it.
CREATE INDEX jobs_claim ON jobs (job_type, priority DESC, sequence, created_at, id)
    WHERE status = 'queued' AND is_ready;
-- Jobs that are put off, that wait for a retry or for other jobs, and dead letters (by the time they ended).
CREATE INDEX jobs_not_ready ON jobs (job_type, status, scheduled_for, finished_at)
    WHERE NOT is_ready AND status IN ('queued', 'failed');
-- Does not contain locked_until, so that a heartbeat need not update any index.
CREATE INDEX jobs_running ON jobs (job_type) WHERE status = 'processing';
CREATE INDEX jobs_waiting ON jobs USING gin (depends_on)
    WHERE status = 'queued' AND unmet_dependencies > 0;
CREATE INDEX jobs_video ON jobs (video_id, created_at, id) WHERE video_id IS NOT NULL;
CREATE INDEX jobs_run_open ON jobs (run_id) WHERE run_id IS NOT NULL AND status <> 'done';
CREATE INDEX jobs_run ON jobs (run_id, step, part) WHERE run_id IS NOT NULL;
-- Tells where to place the next job of a tenant, and which other tenants have jobs when one is at its limit.
CREATE INDEX jobs_tenant ON jobs (job_type, tenant_id, priority DESC, sequence)
    WHERE status = 'queued' AND is_ready AND tenant_id IS NOT NULL;
CREATE UNIQUE INDEX jobs_one_in_flight ON jobs (video_id, step, part)
    WHERE exclusive AND video_id IS NOT NULL AND status IN ('queued', 'processing');
CREATE UNIQUE INDEX jobs_dedupe ON jobs (dedupe_key, tenant_id) NULLS NOT DISTINCT
    WHERE dedupe_key IS NOT NULL AND status IN ('queued', 'processing');
CREATE INDEX jobs_clips ON jobs (finished_at)
    WHERE job_type = 'clip_generate' AND status = 'done' AND NOT result ? 'removed_at';

CREATE FUNCTION cortana.clip_parts(p_payload jsonb) RETURNS TABLE (part jsonb, video_id uuid)
LANGUAGE sql IMMUTABLE AS $$
    SELECT p, CASE WHEN p ->> 'video_id' ~ '^[0-9a-f]{8}-([0-9a-f]{4}-){3}[0-9a-f]{12}$' THEN (p ->> 'video_id')::uuid END
    FROM jsonb_path_query(coalesce(p_payload -> 'original_payload', p_payload), '$.parts[*]') AS p
$$;
COMMENT ON FUNCTION cortana.clip_parts IS
    'The parts of a reel in the payload of its job: each is the payload of a clip, of a video of its own. Null: it names none.';

CREATE FUNCTION cortana.sees_parts(p_payload jsonb) RETURNS boolean
LANGUAGE sql STABLE
RETURN NOT EXISTS (SELECT FROM clip_parts(p_payload) AS c WHERE NOT EXISTS (SELECT FROM videos v WHERE v.id = c.video_id));
COMMENT ON FUNCTION cortana.sees_parts IS 'Whether the caller sees all videos of a reel; what is no reel has none.';

SELECT secure_table('jobs');
CREATE POLICY jobs_read ON jobs FOR SELECT TO authenticated
    USING (EXISTS (SELECT FROM videos v WHERE v.id = video_id) AND (job_type <> 'clip_generate' OR sees_parts(payload))
           OR video_id IS NULL AND (tenant_id = (SELECT auth.uid())
                                    OR tenant_id = ANY ((SELECT current_team_ids())::uuid[])));
GRANT SELECT ON jobs TO authenticated;

CREATE TABLE cortana.job_outputs (
    job_id uuid NOT NULL REFERENCES jobs ON DELETE CASCADE,
    job_type job_type NOT NULL,
    payload jsonb NOT NULL,
    PRIMARY KEY (job_id, job_type)
);
COMMENT ON TABLE cortana.job_outputs IS
    'Payloads that the finished jobs of a run hand on to the next steps; deleted when the run is done.';
COMMENT ON COLUMN cortana.job_outputs.job_type IS 'Job type of the steps that receive the payload.';

SELECT secure_table('job_outputs');

CREATE TABLE cortana.ended_attempts (
    job_id uuid NOT NULL,
    attempt int NOT NULL,
    worker_id text NOT NULL,
    lease_token bigint NOT NULL,
    pid int,
    started_at timestamptz NOT NULL,
    finished_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    exit_code int,
    status attempt_status NOT NULL,
    stdout_tail text,
    stderr_tail text,
    error_type text,
    error_message text,
    cpu_seconds double precision,
    peak_memory_bytes bigint,
    PRIMARY KEY (job_id, attempt)
) WITH (fillfactor = 80);
COMMENT ON TABLE cortana.ended_attempts IS
    'The attempts that have ended. A running attempt is in the row of its job; the view job_attempts shows both.';
COMMENT ON COLUMN cortana.ended_attempts.job_id IS
    'The job. The trigger jobs_deleted deletes the attempts of a deleted job.';

-- Adding a worker's report to an attempt changes no indexed column, so that the row stays on its page.
CREATE INDEX ended_attempts_finished ON ended_attempts USING brin (finished_at) WITH (autosummarize = on);

SELECT secure_table('ended_attempts');

CREATE VIEW job_attempts AS
SELECT * FROM ended_attempts
UNION ALL
SELECT id, attempt, coalesce(locked_by, 'unknown'), lease_token, NULL, started_at, NULL, NULL, 'running',
       NULL, NULL, NULL, NULL, NULL, NULL
FROM jobs WHERE status = 'processing';
COMMENT ON VIEW job_attempts IS 'All attempts of all jobs, ended and running.';

CREATE SEQUENCE cortana.task_event_ids;
COMMENT ON SEQUENCE cortana.task_event_ids IS 'Ids of events.';
GRANT USAGE ON SEQUENCE cortana.task_event_ids TO service_role;

CREATE TABLE task_events (
    id bigint NOT NULL DEFAULT nextval('task_event_ids'),
    ts timestamptz NOT NULL DEFAULT clock_timestamp(),
    job_id uuid,
    video_id uuid,
    correlation_id uuid,
    run_id uuid,
    source text NOT NULL,
    level event_level NOT NULL DEFAULT 'info',
    type text NOT NULL,
    message text NOT NULL,
    data jsonb
) PARTITION BY RANGE (ts);
COMMENT ON TABLE task_events IS 'Timeline of events, append-only; one partition for each month (UTC).';
COMMENT ON COLUMN task_events.id IS 'Identifier; later events have larger ones.';
COMMENT ON COLUMN task_events.ts IS 'When it happened.';
COMMENT ON COLUMN task_events.job_id IS 'The job.';
COMMENT ON COLUMN task_events.video_id IS 'The video.';
COMMENT ON COLUMN task_events.correlation_id IS 'jobs.correlation_id.';
COMMENT ON COLUMN task_events.run_id IS 'The run, for events of the run itself.';
COMMENT ON COLUMN task_events.source IS 'What caused the event: worker:TYPE, scheduler, scanner, sql:ROLE.';
COMMENT ON COLUMN task_events.level IS 'debug, info, warn or error.';
COMMENT ON COLUMN task_events.type IS 'status, retry, progress, heartbeat, log, artifact, event, original, duplicate, trigger.';
COMMENT ON COLUMN task_events.message IS 'The event in words, for people.';
COMMENT ON COLUMN task_events.data IS 'The details of the event as JSON, for programs.';

CREATE INDEX task_events_job ON task_events (job_id, ts) WHERE job_id IS NOT NULL;
CREATE INDEX task_events_video ON task_events (video_id, ts) WHERE video_id IS NOT NULL;
CREATE INDEX task_events_run ON task_events (run_id, ts) WHERE run_id IS NOT NULL;
CREATE INDEX task_events_ts ON task_events USING brin (ts) WITH (autosummarize = on);

SELECT secure_table('task_events', 'SELECT, INSERT');

CREATE TABLE cortana.task_events_default PARTITION OF task_events DEFAULT;
COMMENT ON TABLE cortana.task_events_default IS
    'Takes events whose month has no partition, so that a statement never fails because of its event.';

ALTER TABLE cortana.task_events_default ENABLE ROW LEVEL SECURITY;

CREATE FUNCTION cortana.task_events_stay() RETURNS trigger
LANGUAGE plpgsql AS $$
BEGIN
    RAISE EXCEPTION 'task_events is append-only' USING ERRCODE = 'check_violation',
        CONSTRAINT = 'task_events_append_only',
        HINT = 'To move past months to the object store, run: cortana jobs archive.';
END
$$;
COMMENT ON FUNCTION cortana.task_events_stay IS
    'Trigger: refuses to change, delete or truncate events, for every role. Archiving drops whole partitions.';
CREATE TRIGGER task_events_stay BEFORE UPDATE OR DELETE ON task_events
    FOR EACH ROW EXECUTE FUNCTION task_events_stay();
-- Partitions inherit triggers for rows, and none for statements: create_event_partition() gives them this one, too.
CREATE TRIGGER task_events_stay_whole BEFORE TRUNCATE ON task_events
    FOR EACH STATEMENT EXECUTE FUNCTION task_events_stay();
CREATE TRIGGER task_events_stay_whole BEFORE TRUNCATE ON cortana.task_events_default
    FOR EACH STATEMENT EXECUTE FUNCTION task_events_stay();

CREATE FUNCTION cortana.create_event_partition(p_month timestamp) RETURNS boolean
LANGUAGE plpgsql AS $$
DECLARE
    name CONSTANT text := 'task_events_' || to_char(p_month, 'YYYY_MM');
    first CONSTANT timestamptz := p_month AT TIME ZONE 'UTC';
    next CONSTANT timestamptz := (p_month + interval '1 month') AT TIME ZONE 'UTC';
BEGIN
    IF to_regclass('cortana.' || name) IS NOT NULL
       OR EXISTS (SELECT FROM task_events_default d WHERE d.ts >= first AND d.ts < next) THEN
        RETURN false;
    END IF;
    EXECUTE format('CREATE TABLE cortana.%I PARTITION OF public.task_events FOR VALUES FROM (%L) TO (%L)', name, first, next);
    EXECUTE format('ALTER TABLE cortana.%I ENABLE ROW LEVEL SECURITY', name);
    EXECUTE format('CREATE TRIGGER task_events_stay_whole BEFORE TRUNCATE ON cortana.%I'
                   ' FOR EACH STATEMENT EXECUTE FUNCTION cortana.task_events_stay()', name);
    RETURN true;
END
$$;
COMMENT ON FUNCTION cortana.create_event_partition IS
    'Creates the partition of a month (UTC). Returns false if it exists, or if events of the month are in the default partition.';

CREATE FUNCTION cortana.create_event_partitions(p_months int DEFAULT 3) RETURNS bigint
LANGUAGE plpgsql SECURITY DEFINER AS $$
BEGIN
    PERFORM acquire_lock('create_event_partitions');
    RETURN (SELECT count(*) FILTER (WHERE create_event_partition(
                date_trunc('month', now() AT TIME ZONE 'UTC') + make_interval(months => i)))
            FROM generate_series(0, p_months) AS i);
END
$$;
COMMENT ON FUNCTION cortana.create_event_partitions IS
    'Creates the partitions of this month and of the next `p_months` months. It may be called at any time, also '
    'by several sessions at once.';

SELECT create_event_partitions();

CREATE TABLE task_artifacts (
    id uuid PRIMARY KEY DEFAULT gen_random_uuid(),
    job_id uuid NOT NULL REFERENCES jobs ON DELETE CASCADE,
    attempt int NOT NULL,
    kind text NOT NULL CHECK (kind IN ('input', 'output', 'log')),
    bucket text NOT NULL,
    key text NOT NULL,
    numbers int8multirange,
    objects int NOT NULL DEFAULT 1 CHECK (objects >= 1),
    size bigint CHECK (size >= 0),
    content_type text,
    checksum text,
    created_at timestamptz NOT NULL DEFAULT now(),
    UNIQUE (job_id, kind, bucket, key)
);
COMMENT ON TABLE task_artifacts IS
    'Objects that attempts read and wrote: one row for each object, or one row for all objects whose keys differ only '
    'in a number.';
COMMENT ON COLUMN task_artifacts.id IS 'Identifier.';
COMMENT ON COLUMN task_artifacts.job_id IS 'The job.';
COMMENT ON COLUMN task_artifacts.attempt IS 'The attempt that read or wrote it.';
COMMENT ON COLUMN task_artifacts.kind IS 'input, output or log.';
COMMENT ON COLUMN task_artifacts.bucket IS 'Bucket, or directory, of the object.';
COMMENT ON COLUMN task_artifacts.key IS
    'Key of the object. If the row stands for several objects, their numbered_key(), with * in place of the number.';
COMMENT ON COLUMN task_artifacts.numbers IS 'Numbers of several objects; NULL for one.';
COMMENT ON COLUMN task_artifacts.objects IS 'How many objects the row stands for.';
COMMENT ON COLUMN task_artifacts.size IS 'Bytes, of all of them.';
COMMENT ON COLUMN task_artifacts.content_type IS 'Media type.';
COMMENT ON COLUMN task_artifacts.checksum IS 'Checksum as the writer reported it.';
COMMENT ON COLUMN task_artifacts.created_at IS 'When the row was made.';

CREATE INDEX task_artifacts_key ON task_artifacts (bucket, key);

CREATE FUNCTION cortana.numbered_key(p_key text, OUT pattern text, OUT number bigint)
LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$
    SELECT part[1] || '*' || part[3], part[2]::bigint
    FROM regexp_match(p_key, '^(.*[^0-9])([0-9]{1,18})(\.[a-z0-9]+)$') AS part
$$;
COMMENT ON FUNCTION cortana.numbered_key IS
    'Returns a key with * in place of the number before its extension, and that number; NULL if the key has no such '
    'number. Numbers are compared by value.';

CREATE FUNCTION cortana.is_output(p_bucket text, p_key text) RETURNS boolean
LANGUAGE sql STABLE AS $$
    SELECT EXISTS (SELECT FROM task_artifacts a
                   WHERE a.bucket = p_bucket AND a.key = p_key AND a.kind = 'output' AND a.numbers IS NULL)
        OR EXISTS (SELECT FROM numbered_key(p_key) AS n
                   JOIN task_artifacts a ON a.bucket = p_bucket AND a.key = n.pattern AND a.kind = 'output'
                   WHERE a.numbers @> n.number)
$$;
COMMENT ON FUNCTION cortana.is_output IS 'Returns whether an attempt that was recorded has written an object.';

SELECT secure_table('task_artifacts');

CREATE TABLE workers (
    id text PRIMARY KEY,
    host text NOT NULL,
    version text,
    labels jsonb NOT NULL DEFAULT '{}',
    job_types text[] NOT NULL DEFAULT '{}',
    slots int NOT NULL DEFAULT 1,
    running int NOT NULL DEFAULT 0,
    state text NOT NULL CHECK (state IN ('running', 'draining', 'stopped')),
    drain_requested_at timestamptz,
    started_at timestamptz NOT NULL DEFAULT now(),
    last_seen timestamptz NOT NULL DEFAULT now()
);
COMMENT ON TABLE workers IS 'Worker processes, as their heartbeats describe them.';
COMMENT ON COLUMN workers.id IS 'Identifier: host:pid:boot id.';
COMMENT ON COLUMN workers.host IS 'Name of the host.';
COMMENT ON COLUMN workers.version IS 'Version of the program.';
COMMENT ON COLUMN workers.labels IS 'Labels that the worker reports about itself.';
COMMENT ON COLUMN workers.job_types IS 'Job types that the worker claims.';
COMMENT ON COLUMN workers.slots IS 'How many jobs the worker can run at once.';
COMMENT ON COLUMN workers.running IS 'How many jobs the worker runs now.';
COMMENT ON COLUMN workers.state IS 'running, draining or stopped.';
COMMENT ON COLUMN workers.drain_requested_at IS 'When the worker was asked to finish its jobs and exit.';
COMMENT ON COLUMN workers.started_at IS 'When the worker started.';
COMMENT ON COLUMN workers.last_seen IS 'When the worker sent its last heartbeat.';

SELECT secure_table('workers');

-- ---- the state machine --------------------------------------------------------------------------

CREATE FUNCTION cortana.job_transition_allowed(p_from job_status, p_to job_status) RETURNS boolean
LANGUAGE sql IMMUTABLE PARALLEL SAFE
RETURN CASE p_from
        WHEN 'queued'     THEN p_to IN ('processing', 'canceled')
        WHEN 'processing' THEN p_to IN ('done', 'failed', 'canceled', 'queued')
        WHEN 'failed'     THEN p_to IN ('queued', 'canceled')
        WHEN 'canceled'   THEN p_to = 'queued'
        WHEN 'done'       THEN false
    END;
COMMENT ON FUNCTION cortana.job_transition_allowed IS
    'Whether a job may change from one status to another. All changes of status are checked here.';

CREATE FUNCTION cortana.job_is_ready(p_status job_status, p_unmet int, p_scheduled_for timestamptz)
RETURNS boolean
LANGUAGE sql VOLATILE
RETURN p_status = 'queued' AND p_unmet = 0 AND coalesce(p_scheduled_for <= clock_timestamp(), true);
COMMENT ON FUNCTION cortana.job_is_ready IS
    'Whether a worker may claim a job now: it is queued, waits for no other job, and is due. The rule is written '
    'only here; jobs.is_ready holds its value for the index that claims read.';

CREATE FUNCTION cortana.request_was_refused(p_status job_status, p_last_error text) RETURNS boolean
LANGUAGE sql IMMUTABLE PARALLEL SAFE
RETURN p_status = 'failed'
    AND coalesce(split_part(p_last_error, ':', 1)
                 IN ('NotAVideo', 'UnsupportedMedia', 'DecodeError', 'OutsideVideo'), false);
COMMENT ON FUNCTION cortana.request_was_refused IS
    'Whether a job has failed because of what it was given: a file that is no video that can be read, or a clip outside '
    'of its video, whose length and size were not known yet when it was requested. An operator can do nothing about it, and no '
    'retry changes it.';

CREATE FUNCTION cortana.default_lease() RETURNS interval
LANGUAGE sql IMMUTABLE PARALLEL SAFE
RETURN interval '5 minutes';
COMMENT ON FUNCTION cortana.default_lease IS 'How long a lease lasts if the worker does not renew it.';

CREATE FUNCTION cortana.jobs_before_insert() RETURNS trigger
LANGUAGE plpgsql SECURITY DEFINER AS $$
DECLARE
    kind job_types;
BEGIN
    SELECT * INTO kind FROM job_types WHERE name = NEW.job_type;
    IF NOT FOUND THEN
        RAISE EXCEPTION 'job type % is not registered', NEW.job_type
            USING ERRCODE = 'foreign_key_violation', HINT = 'Insert it into job_types.';
    END IF;
    NEW.step := coalesce(NEW.step, NEW.job_type);
    NEW.exclusive := NEW.exclusive OR kind.one_per_video;
    NEW.max_retries := coalesce(NEW.max_retries, cardinality(kind.retry_delays));
    IF NEW.tenant_id IS NULL AND NEW.video_id IS NOT NULL THEN
        SELECT coalesce(team_id, owner_id) INTO NEW.tenant_id FROM videos WHERE id = NEW.video_id;
    END IF;
    IF kind.payload_schema IS NOT NULL AND NEW.status = 'queued' AND NEW.run_id IS NULL THEN
        NEW.payload := complete_payload(kind, NEW.payload, NEW.video_id);
    END IF;
    IF cardinality(NEW.depends_on) > 0 THEN
        -- The lock makes a parent that is completing at this moment wait, so that it finds this child.
        PERFORM FROM jobs WHERE id = ANY (NEW.depends_on) ORDER BY id FOR NO KEY UPDATE;
        UPDATE jobs SET has_dependents = true WHERE id = ANY (NEW.depends_on) AND NOT has_dependents;
        -- The steps of a run are inserted together, in any order.
        IF NEW.run_id IS NULL AND EXISTS (SELECT FROM unnest(NEW.depends_on) AS parent
                                          WHERE NOT EXISTS (SELECT FROM jobs WHERE id = parent)) THEN
            RAISE EXCEPTION 'the job % in depends_on does not exist',
                (SELECT min(parent::text) FROM unnest(NEW.depends_on) AS parent
                 WHERE NOT EXISTS (SELECT FROM jobs WHERE id = parent))
                USING ERRCODE = 'foreign_key_violation', CONSTRAINT = 'jobs_depends_on';
        END IF;
        SELECT count(*) INTO NEW.unmet_dependencies
        FROM (SELECT DISTINCT unnest(NEW.depends_on) AS id) AS parent
        LEFT JOIN jobs j USING (id)
        WHERE j.status IS DISTINCT FROM 'done';
    END IF;
    NEW.is_ready := job_is_ready(NEW.status, NEW.unmet_dependencies, NEW.scheduled_for);
    RETURN NEW;
END
$$;
COMMENT ON FUNCTION cortana.jobs_before_insert IS
    'Trigger: fills in columns that an INSERT left out. The functions that enqueue fill in all columns themselves.';
CREATE TRIGGER jobs_before_insert BEFORE INSERT ON jobs
    FOR EACH ROW WHEN (NEW.is_ready IS NULL OR NEW.depends_on IS NOT NULL AND NEW.status = 'queued')
    EXECUTE FUNCTION jobs_before_insert();

CREATE FUNCTION cortana.check_claim_by_hand(p_job jobs) RETURNS void
LANGUAGE plpgsql STABLE SECURITY DEFINER AS $$
DECLARE
    hint CONSTANT text := 'To get jobs that may run, call claim_jobs(), or read claimable_jobs.';
BEGIN
    IF p_job.scheduled_for > clock_timestamp() THEN
        RAISE EXCEPTION 'job %: it is scheduled for %', p_job.id, p_job.scheduled_for
            USING ERRCODE = 'check_violation', CONSTRAINT = 'job_scheduled', HINT = hint;
    ELSIF EXISTS (SELECT FROM job_types WHERE name = p_job.job_type AND paused_at IS NOT NULL) THEN
        RAISE EXCEPTION 'job %: jobs of type % are paused', p_job.id, p_job.job_type
            USING ERRCODE = 'check_violation', CONSTRAINT = 'job_type_paused', HINT = hint;
    ELSIF EXISTS (SELECT FROM paused_tenants WHERE tenant_id = p_job.tenant_id) THEN
        RAISE EXCEPTION 'job %: the jobs of its tenant are paused', p_job.id
            USING ERRCODE = 'check_violation', CONSTRAINT = 'job_tenant_paused', HINT = hint;
    END IF;
END
$$;
COMMENT ON FUNCTION cortana.check_claim_by_hand IS
    'Raises an error if a job that a plain UPDATE takes is scheduled for later, or if its type or its tenant is paused.';

CREATE FUNCTION cortana.set_status() RETURNS trigger
LANGUAGE plpgsql AS $$
BEGIN
    IF NEW.status = OLD.status THEN
        IF NEW.lease_token <> OLD.lease_token THEN
            RAISE EXCEPTION 'job %: only a claim may set the fencing token', OLD.id
                USING ERRCODE = 'check_violation', CONSTRAINT = 'job_lease_token';
        END IF;
        NEW.is_ready := cortana.job_is_ready(NEW.status, NEW.unmet_dependencies, NEW.scheduled_for);
        RETURN NEW;
    END IF;
    IF NOT cortana.job_transition_allowed(OLD.status, NEW.status) THEN
        RAISE EXCEPTION 'job %: the status may not change from % to %', OLD.id, OLD.status, NEW.status
            USING ERRCODE = 'check_violation', CONSTRAINT = 'job_transition';
    END IF;
    NEW.updated_at := clock_timestamp();
    NEW.is_ready := false;
    IF NEW.status = 'processing' THEN
        IF OLD.unmet_dependencies > 0 THEN
            RAISE EXCEPTION 'job %: the jobs that it depends on are not done', OLD.id
                USING ERRCODE = 'check_violation', CONSTRAINT = 'job_dependencies',
                      HINT = 'To get jobs that may run, call claim_jobs(), or read claimable_jobs.';
        END IF;
        -- claim_jobs() sets cortana.source, and has checked this once for all its jobs.
        IF coalesce(current_setting('cortana.source', true), '') = '' THEN
            PERFORM cortana.check_claim_by_hand(OLD);
        END IF;
        -- A claim by hand that sets no lease gets one, so that the job returns to the queue when the lease expires.
        NEW.lease_token := nextval('cortana.job_lease_tokens');
        IF NEW.locked_by IS NULL OR NEW.locked_until IS NULL THEN
            NEW.locked_by := coalesce(NEW.locked_by, 'sql:' || session_user);
            NEW.locked_until := coalesce(NEW.locked_until, NEW.updated_at + cortana.default_lease());
        END IF;
        NEW.attempt := OLD.attempt + 1;
        NEW.started_at := NEW.updated_at;
        NEW.scheduled_for := NULL;
        RETURN NEW;
    END IF;

    NEW.lease_token := OLD.lease_token;
    NEW.locked_by := NULL;
    NEW.locked_until := NULL;
    CASE NEW.status
    WHEN 'done' THEN
        NEW.finished_at := NEW.updated_at;
        NEW.progress := 1;
        NEW.progress_message := NULL;
    WHEN 'queued' THEN
        IF OLD.status = 'processing' AND NEW.retry_count > OLD.retry_count THEN  -- a retry by the SQL of another program
            IF NEW.retry_count > NEW.max_retries THEN
                RAISE EXCEPTION 'job %: all retries are used', OLD.id
                    USING ERRCODE = 'check_violation', CONSTRAINT = 'job_retries_left',
                          HINT = 'To end the job, set its status to failed.';
            END IF;
            NEW.last_error := coalesce(nullif(NEW.last_error, OLD.last_error), 'Unknown: returned for another try');
        END IF;
        IF OLD.status = 'failed' THEN
            IF OLD.retry_count >= NEW.max_retries THEN
                RAISE EXCEPTION 'job %: all retries are used', OLD.id
                    USING ERRCODE = 'check_violation', CONSTRAINT = 'job_retries_left',
                          HINT = 'To give the job new retries, call retry_job().';
            END IF;
            NEW.retry_count := OLD.retry_count + 1;
            IF OLD.payload ? 'original_payload' AND NEW.payload = OLD.payload THEN
                NEW.payload := OLD.payload -> 'original_payload';
            END IF;
            NEW.scheduled_for := nullif(NEW.scheduled_for, OLD.scheduled_for);
        END IF;
        NEW.ready_at := least(OLD.scheduled_for, NEW.updated_at);
        NEW.started_at := NULL;
        NEW.finished_at := NULL;
        NEW.progress := 0;
        NEW.progress_message := NULL;
        NEW.skipped := false;
        NEW.cancel_requested_at := NULL;
        NEW.is_ready := cortana.job_is_ready(NEW.status, NEW.unmet_dependencies, NEW.scheduled_for);
    WHEN 'failed' THEN
        NEW.finished_at := NEW.updated_at;
        IF NOT (NEW.payload ? 'original_payload' AND NEW.payload IS DISTINCT FROM OLD.payload) THEN
            NEW.payload := jsonb_build_object(
                'error', jsonb_build_object('type', 'Unknown', 'message', 'failed by hand',
                                            'timestamp', NEW.updated_at,
                                            'retry_count', OLD.retry_count),
                'original_payload', OLD.payload);
        END IF;
        NEW.last_error := left(concat_ws(': ', NEW.payload #>> '{error,type}', NEW.payload #>> '{error,message}'), 1000);
    WHEN 'canceled' THEN
        NEW.finished_at := NEW.updated_at;
        NEW.scheduled_for := NULL;
        IF OLD.status = 'failed' AND OLD.payload ? 'original_payload' THEN
            NEW.payload := OLD.payload -> 'original_payload';
        END IF;
    END CASE;
    RETURN NEW;
END
$$;
COMMENT ON FUNCTION cortana.set_status IS
    'Trigger: carries out every change of a job''s status, whichever statement causes it. The statement sets the new '
    'status and the values that only it knows (worker and lease, result, error, time of the next try). The trigger '
    'sets the other columns that depend on the status, and refuses changes that are not allowed. Names are written '
    'with their schema, because a search_path setting would make a claim a tenth slower.';
CREATE TRIGGER set_status BEFORE UPDATE OF status, is_ready, unmet_dependencies, scheduled_for, lease_token ON jobs
    FOR EACH ROW EXECUTE FUNCTION set_status();

CREATE FUNCTION cortana.done_jobs_stay() RETURNS trigger
LANGUAGE plpgsql AS $$
DECLARE
    -- has_dependents may change, because a job that is enqueued later may depend on this one.
    changed CONSTANT jsonb := to_jsonb(NEW) - 'has_dependents';
    kept CONSTANT jsonb := to_jsonb(OLD) - 'has_dependents';
BEGIN
    IF changed <> kept
       -- removed_at may be added to the result: when the object was removed from the store
       AND NOT (changed - 'result' = kept - 'result' AND NOT OLD.result ? 'removed_at'
                AND NEW.result - 'removed_at' = OLD.result) THEN
        RAISE EXCEPTION 'job % is done and cannot be changed', OLD.id
            USING ERRCODE = 'check_violation', CONSTRAINT = 'job_done',
                  HINT = 'Enqueue a new job instead.';
    END IF;
    RETURN NEW;
END
$$;
COMMENT ON FUNCTION cortana.done_jobs_stay IS
    'Trigger: refuses to change a job that is done, for every role. Only removed_at may be added to its result.';
-- Triggers fire in the order of their names: stay_done follows set_status, whose error names the two states.
CREATE TRIGGER stay_done BEFORE UPDATE ON jobs
    FOR EACH ROW WHEN (OLD.status = 'done') EXECUTE FUNCTION done_jobs_stay();

-- ---- effects of a change ------------------------------------------------------------------------

CREATE FUNCTION cortana.jobs_inserted() RETURNS trigger
LANGUAGE plpgsql SECURITY DEFINER AS $$
DECLARE
    speaker text := event_source();
    woken_type text;
BEGIN
    INSERT INTO task_events (job_id, video_id, correlation_id, source, type, message, data)
    SELECT id, video_id, correlation_id, speaker, 'status', 'queued',
           format('{"to":"%s","job_type":"%s"}', status, job_type)::jsonb
    FROM changed
    WHERE status = 'queued'
      AND job_type <> ALL (ARRAY(SELECT name FROM job_types WHERE NOT status_events));
    FOR woken_type IN SELECT DISTINCT job_type FROM changed WHERE is_ready LOOP
        PERFORM pg_notify('cv_jobs_' || woken_type, '');
    END LOOP;
    IF woken_type IS NOT NULL
       AND EXISTS (SELECT FROM job_type_upkeep WHERE from_sequence IS NOT NULL) THEN
        PERFORM claim_from_head(job_type, priority, min(sequence))
        FROM changed WHERE is_ready GROUP BY job_type, priority;
    END IF;
    RETURN NULL;
END
$$;
COMMENT ON FUNCTION cortana.jobs_inserted IS
    'Trigger: writes an event for every new job and wakes idle workers.';
CREATE TRIGGER jobs_inserted AFTER INSERT ON jobs
    REFERENCING NEW TABLE AS changed FOR EACH STATEMENT EXECUTE FUNCTION jobs_inserted();

CREATE FUNCTION cortana.jobs_updated() RETURNS trigger
LANGUAGE plpgsql SECURITY DEFINER AS $$
DECLARE
    speaker text := event_source();
    woken text[];
    run_ids uuid[];
    ended uuid[];
    parents uuid[];
    dead uuid[];
    news text[];
    woken_type text;
BEGIN
    WITH moved AS MATERIALIZED (
        SELECT n.id, n.video_id, n.correlation_id, n.run_id, n.job_type, n.attempt, n.lease_token,
               n.scheduled_for, n.is_ready, n.status,
               o.status AS old_status, o.is_ready AS was_ready, o.scheduled_for AS was_scheduled_for,
               o.started_at AS began_at, o.locked_by AS old_worker,
               o.status = 'processing' AND n.status = 'queued' AND n.retry_count > o.retry_count AS is_retry,
               coalesce(n.locked_by, o.locked_by) AS worker,
               n.has_dependents, n.exclusive, n.watched, n.progress, o.progress AS old_progress,
               CASE WHEN n.skipped THEN n.progress_message END AS skipped_because,
               CASE WHEN n.status = 'failed' THEN n.payload -> 'error'
                    WHEN n.status = 'queued' AND n.retry_count > o.retry_count AND o.status = 'processing'
                    THEN jsonb_build_object('type', split_part(n.last_error, ': ', 1),
                                            'message', substr(n.last_error, strpos(n.last_error, ': ') + 2))
                    END AS failure
        FROM changed n FULL JOIN before o USING (id)
    ), closed AS (
        INSERT INTO ended_attempts (job_id, attempt, worker_id, lease_token, started_at, status,
                                    error_type, error_message)
        SELECT id, attempt, coalesce(old_worker, 'unknown'), lease_token, began_at,
               CASE WHEN status = 'done' THEN 'succeeded' WHEN status = 'failed' OR is_retry THEN 'failed'
                    ELSE 'canceled' END,
               failure ->> 'type', failure ->> 'message'
        FROM moved WHERE status <> old_status AND old_status = 'processing'
    ), told AS (
        INSERT INTO task_events (job_id, video_id, correlation_id, source, level, type, message, data)
        SELECT id, video_id, correlation_id, speaker,
               CASE WHEN status <> 'failed' THEN 'info'
                    WHEN scheduled_for IS NULL THEN 'error' ELSE 'warn' END,
               CASE WHEN is_retry OR old_status = 'failed' AND status = 'queued' THEN 'retry' ELSE 'status' END,
               CASE WHEN status = 'failed'
                    THEN concat_ws(': ', 'failed', failure ->> 'type', failure ->> 'message')
                    ELSE coalesce(skipped_because, status::text) END,
               -- jsonb_build_object() would look up the type of each value of each row, which is a tenth of the
               -- cost of a claim and a completion. A part that is null is left out.
               format('{"from":"%s","to":"%s","job_type":"%s","attempt":%s,"lease_token":%s%s%s}',
                      old_status, status, job_type, attempt, lease_token,
                      ',"worker":' || to_json(worker)::text,
                      CASE WHEN status = 'failed' THEN ',"retry_at":' || to_json(scheduled_for)::text
                      END)::jsonb
        FROM moved
        WHERE status <> old_status
          AND (status = 'failed'
               OR job_type <> ALL (ARRAY(SELECT name FROM job_types WHERE NOT status_events)))
    )
    SELECT array_agg(job_type) FILTER (WHERE is_ready AND NOT was_ready),
           array_agg(run_id) FILTER (
               WHERE run_id IS NOT NULL AND status <> 'processing'
                 AND (status <> old_status OR scheduled_for IS DISTINCT FROM was_scheduled_for)),
           array_agg(id) FILTER (
               WHERE exclusive AND video_id IS NOT NULL AND status <> old_status
                 AND (status IN ('done', 'canceled') OR status = 'failed' AND scheduled_for IS NULL)),
           array_agg(id) FILTER (WHERE has_dependents AND status = 'done' AND old_status <> 'done'),
           array_agg(id) FILTER (
               WHERE status = 'failed' AND scheduled_for IS NULL
                 AND (old_status <> 'failed' OR was_scheduled_for IS NOT NULL)),
           array_agg(format('{"job_id":"%s","status":"%s","progress":%s}', id, status, progress)) FILTER (
               WHERE watched AND (status <> old_status OR progress <> old_progress))
    INTO woken, run_ids, ended, parents, dead, news
    FROM moved;

    IF woken IS NOT NULL THEN
        FOR woken_type IN SELECT DISTINCT unnest(woken) LOOP
            PERFORM pg_notify('cv_jobs_' || woken_type, '');
        END LOOP;
        IF EXISTS (SELECT FROM job_type_upkeep WHERE from_sequence IS NOT NULL) THEN
            PERFORM claim_from_head(job_type, priority, min(sequence))
            FROM changed WHERE is_ready GROUP BY job_type, priority;
        END IF;
    END IF;
    IF parents IS NOT NULL THEN  -- first, so that the jobs that waited for them are queued by then
        PERFORM release_dependents(parents);
    END IF;
    IF ended IS NOT NULL THEN  -- before settle_runs(): what stages work on is locked before their runs
        PERFORM stages_ended(ended);
    END IF;
    IF run_ids IS NOT NULL THEN
        PERFORM settle_runs(ARRAY(SELECT DISTINCT unnest(run_ids)));
    END IF;
    IF dead IS NOT NULL THEN
        PERFORM record_dead_jobs(dead);
    END IF;
    IF news IS NOT NULL THEN
        PERFORM pg_notify('cv_watch', message) FROM unnest(news) AS message;
    END IF;
    RETURN NULL;
END
$$;
COMMENT ON FUNCTION cortana.jobs_updated IS
    'Trigger: writes an event for every change of status, adds each ended attempt to ended_attempts '
    '(end_attempt() adds the report of its worker), wakes workers for jobs that have become ready, and updates '
    'the status of the run and the video, and notifies those who watch a job. The old and the new rows are joined by a FULL JOIN that the planner '
    'cannot reduce to another join, because a FULL JOIN is never a nested loop: the plan is made for a statement '
    'of one row, and the same plan must then work for thousands.';
CREATE TRIGGER jobs_updated AFTER UPDATE ON jobs
    REFERENCING OLD TABLE AS before NEW TABLE AS changed
    FOR EACH STATEMENT EXECUTE FUNCTION jobs_updated();

CREATE FUNCTION cortana.jobs_deleted() RETURNS trigger
LANGUAGE plpgsql SECURITY DEFINER AS $$
BEGIN
    DELETE FROM ended_attempts a USING gone WHERE a.job_id = gone.id;
    RETURN NULL;
END
$$;
COMMENT ON FUNCTION cortana.jobs_deleted IS
    'Trigger: deletes the attempts of deleted jobs. A foreign key would do this row by row and would make every '
    'claim slower.';
CREATE TRIGGER jobs_deleted AFTER DELETE ON jobs
    REFERENCING OLD TABLE AS gone FOR EACH STATEMENT EXECUTE FUNCTION jobs_deleted();

CREATE FUNCTION cortana.job_types_deleted() RETURNS trigger
LANGUAGE plpgsql SECURITY DEFINER AS $$
BEGIN
    IF EXISTS (SELECT FROM jobs WHERE job_type = OLD.name) THEN
        RAISE EXCEPTION 'job type % cannot be deleted: there are jobs of this type', OLD.name
            USING ERRCODE = 'foreign_key_violation';
    END IF;
    RETURN OLD;
END
$$;
COMMENT ON FUNCTION cortana.job_types_deleted IS 'Trigger: refuses to delete a type that has jobs.';
CREATE TRIGGER job_types_deleted BEFORE DELETE ON job_types
    FOR EACH ROW EXECUTE FUNCTION job_types_deleted();

CREATE FUNCTION cortana.job_types_updated() RETURNS trigger
LANGUAGE plpgsql AS $$
BEGIN
    PERFORM pg_notify('cv_jobs_' || NEW.name, '');
    RETURN NULL;
END
$$;
COMMENT ON FUNCTION cortana.job_types_updated IS
    'Trigger: wakes the workers of a type whose rules have changed, because jobs that a rule held back may run now.';
CREATE TRIGGER job_types_updated AFTER UPDATE ON job_types
    FOR EACH ROW WHEN (OLD.put_off_until IS NOT DISTINCT FROM NEW.put_off_until)
    EXECUTE FUNCTION job_types_updated();

-- ---- who may call what --------------------------------------------------------------------------

SELECT secure_objects('{set_status}');
-- Views for users show it.
GRANT EXECUTE ON FUNCTION cortana.request_was_refused TO authenticated, cortana_upkeep;
GRANT EXECUTE ON FUNCTION cortana.clip_parts, cortana.sees_parts TO authenticated;
