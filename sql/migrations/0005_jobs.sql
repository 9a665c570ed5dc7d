-- Jobs, their states, and their history.

-- A job type is a name that is registered in job_types: new ones need a row, no rewrite of jobs.
CREATE DOMAIN job_type AS text CHECK (VALUE ~ '^[a-z][a-z0-9_]{0,62}$');

-- Ranges are domains: a domain looks at a value when it is set, a table's CHECK at every row, and is read
-- anew by every statement.
CREATE DOMAIN job_priority AS int CHECK (VALUE BETWEEN 0 AND 10);
CREATE DOMAIN job_counter AS int CHECK (VALUE >= 0);
CREATE DOMAIN job_progress AS real CHECK (VALUE BETWEEN 0 AND 1);
CREATE DOMAIN attempt_status AS text
    CHECK (VALUE IN ('succeeded', 'failed', 'timeout', 'canceled', 'crashed'));
CREATE DOMAIN event_level AS text CHECK (VALUE IN ('debug', 'info', 'warn', 'error'));

CREATE TYPE job_status AS ENUM ('queued', 'processing', 'done', 'failed', 'canceled');

CREATE TABLE job_types (
    name job_type PRIMARY KEY,
    description text NOT NULL,
    base_priority job_priority NOT NULL DEFAULT 5,
    time_limit interval NOT NULL DEFAULT '1 hour' CHECK (time_limit > '0'),
    retry_delays interval[] NOT NULL DEFAULT '{1 minute,5 minutes,15 minutes}',
    one_per_video boolean NOT NULL DEFAULT false,  -- a stage of the pipeline, not work on demand
    is_public boolean NOT NULL DEFAULT false,      -- application roles may enqueue it
    -- The rules that claims obey from the next one on, whatever is running.
    cpu_weight int NOT NULL DEFAULT 1 CHECK (cpu_weight BETWEEN 1 AND 5),
    max_running int CHECK (max_running >= 0),
    max_running_per_tenant int CHECK (max_running_per_tenant >= 1),
    interactive_adjustment int NOT NULL DEFAULT 0 CHECK (interactive_adjustment BETWEEN -10 AND 0),
    put_off_while_interactive boolean NOT NULL DEFAULT false,
    put_off_until timestamptz,                     -- set by the claim that met a session
    paused_at timestamptz,
    pause_reason text,
    status_events boolean NOT NULL DEFAULT true,
    updated_at timestamptz NOT NULL DEFAULT now()
);
COMMENT ON TABLE job_types IS
    'What kinds of work there are, and the rules by which each is claimed; may be changed at any time.';
COMMENT ON COLUMN job_types.retry_delays IS 'One entry a retry; each is taken with 20 % jitter.';
COMMENT ON COLUMN job_types.cpu_weight IS 'What a running job takes of its host''s budget (hosts.cpu_budget).';
COMMENT ON COLUMN job_types.max_running IS 'Over the whole fleet; null: no limit.';
COMMENT ON COLUMN job_types.max_running_per_tenant IS 'Over the whole fleet; null: no limit.';
COMMENT ON COLUMN job_types.interactive_adjustment IS
    'Added to base_priority while somebody searches or plays, where types compete for a host''s CPUs.';
COMMENT ON COLUMN job_types.put_off_while_interactive IS
    'Claims nothing for 30 s at a time while somebody searches or plays.';
COMMENT ON COLUMN job_types.status_events IS
    'False: of its changes of status only failures become events; for types of thousands of jobs a second.';

INSERT INTO job_types (name, description, base_priority, time_limit, one_per_video, is_public,
                       cpu_weight) VALUES
    ('transcode', 'original to HLS and poster', 5, '1 hour', true, true, 4),
    ('sample', 'original to the frames worth reading', 5, '1 hour', true, true, 3),
    ('ocr', 'frames to text detections', 5, '1 hour', true, true, 3),
    ('segment_index', 'detections to segments, entities and search', 5, '10 minutes', true, true, 1),
    ('clip_generate', 'an exact clip around a hit', 10, '10 minutes', false, true, 2);

-- Random but for the first four digits, which jobs of the same second have in common (and those of 18 hours
-- later): what is worked on together lies together in every index, and the first eight digits still tell
-- jobs apart.
CREATE FUNCTION time_prefixed_uuid() RETURNS uuid
LANGUAGE sql VOLATILE AS
$$
    SELECT encode(overlay(uuid_send(gen_random_uuid())
                          PLACING substr(int8send(date_part('epoch', clock_timestamp())::bigint), 7)
                          FROM 1), 'hex')::uuid
$$;

CREATE SEQUENCE job_sequence;      -- the runs' global order
CREATE SEQUENCE job_lease_tokens;  -- fencing tokens: only ever grow

-- First what has a fixed width and is never null: PostgreSQL knows where that lies in a row, and has to
-- count its way to everything behind.
CREATE TABLE jobs (
    id uuid PRIMARY KEY DEFAULT time_prefixed_uuid(),
    correlation_id uuid NOT NULL DEFAULT gen_random_uuid(),
    sequence bigint NOT NULL DEFAULT nextval('job_sequence'),
    lease_token bigint NOT NULL DEFAULT 0,
    created_at timestamptz NOT NULL DEFAULT now(),
    updated_at timestamptz NOT NULL DEFAULT now(),
    ready_at timestamptz NOT NULL DEFAULT clock_timestamp(), -- when the wait for a worker began
    status job_status NOT NULL DEFAULT 'queued',
    priority job_priority NOT NULL DEFAULT 0,
    retry_count job_counter NOT NULL DEFAULT 0,
    max_retries job_counter NOT NULL,
    unmet_dependencies job_counter NOT NULL DEFAULT 0,
    attempt int NOT NULL DEFAULT 0,
    part int NOT NULL DEFAULT 0,           -- of a step that fans out
    progress job_progress NOT NULL DEFAULT 0,
    is_ready boolean NOT NULL,             -- queued, due, and waiting for no other job
    exclusive boolean NOT NULL DEFAULT false, -- one in flight per video and step
    has_dependents boolean NOT NULL DEFAULT false,

    job_type job_type NOT NULL,            -- registered: see jobs_before_insert
    payload jsonb NOT NULL DEFAULT '{}',
    step text,                             -- the workflow's name for the work; the type by default
    video_id uuid REFERENCES videos ON DELETE CASCADE,
    run_id uuid,
    tenant_id uuid,
    scheduled_for timestamptz,             -- queued: not before; failed: when it is tried again
    started_at timestamptz,
    finished_at timestamptz,
    locked_by text,
    locked_until timestamptz,
    cancel_requested_at timestamptz,
    dedupe_key text,
    depends_on uuid[],
    result jsonb,
    progress_message text
) WITH (fillfactor = 70, autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_cost_delay = 0);
COMMENT ON COLUMN jobs.payload IS
    'What the job is to do; of a failed job {"error": …, "original_payload": …}.';
COMMENT ON COLUMN jobs.lease_token IS
    'Fencing token of the running attempt; whoever holds an older one can change nothing.';

-- The claim reads these in order and nothing else: finished jobs are in none of them.
CREATE INDEX jobs_claim ON jobs (job_type, priority DESC, sequence, created_at, id)
    WHERE status = 'queued' AND is_ready;
-- What waits for its time, for a retry, for other jobs, or for a person (the dead letters, by their end).
CREATE INDEX jobs_not_ready ON jobs (job_type, status, scheduled_for, finished_at)
    WHERE NOT is_ready AND status IN ('queued', 'failed');
-- Without locked_until, so that a heartbeat touches no index.
CREATE INDEX jobs_running ON jobs (job_type) WHERE status = 'processing';
CREATE INDEX jobs_waiting ON jobs USING gin (depends_on)
    WHERE status = 'queued' AND unmet_dependencies > 0;
CREATE INDEX jobs_video ON jobs (video_id, created_at) WHERE video_id IS NOT NULL;
CREATE INDEX jobs_run_open ON jobs (run_id) WHERE run_id IS NOT NULL AND status <> 'done';
CREATE INDEX jobs_run ON jobs (run_id, step, part) WHERE run_id IS NOT NULL;
-- Where a tenant's next job belongs, and whose jobs there are beside those of a tenant at its limit.
CREATE INDEX jobs_tenant ON jobs (job_type, tenant_id, priority DESC, sequence)
    WHERE status = 'queued' AND is_ready AND tenant_id IS NOT NULL;

CREATE UNIQUE INDEX jobs_one_in_flight ON jobs (video_id, step, part)
    WHERE exclusive AND video_id IS NOT NULL AND status IN ('queued', 'processing');
CREATE UNIQUE INDEX jobs_dedupe ON jobs (dedupe_key, tenant_id) NULLS NOT DISTINCT
    WHERE dedupe_key IS NOT NULL AND status IN ('queued', 'processing');

-- The attempts that have ended. One that runs is its job's row: see the view job_attempts.
CREATE TABLE ended_attempts (
    job_id uuid NOT NULL,                  -- goes with its job: see jobs_deleted
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
) WITH (fillfactor = 80);                  -- what a worker reports of an attempt stays on its page
CREATE INDEX ended_attempts_started ON ended_attempts USING brin (started_at);

-- With its owner's rights, for views of other roles read it: only the service may read it itself.
CREATE VIEW job_attempts AS
SELECT * FROM ended_attempts
UNION ALL
SELECT id, attempt, coalesce(locked_by, 'unknown'), lease_token, NULL, started_at, NULL, NULL, 'running',
       NULL, NULL, NULL, NULL, NULL, NULL
FROM jobs WHERE status = 'processing';
COMMENT ON VIEW job_attempts IS 'Every try at every job, the one that runs included.';

CREATE SEQUENCE task_event_ids;
CREATE TABLE task_events (
    id bigint NOT NULL DEFAULT nextval('task_event_ids'),
    ts timestamptz NOT NULL DEFAULT clock_timestamp(),
    job_id uuid,
    video_id uuid,
    correlation_id uuid,
    run_id uuid,                           -- of a run's own events
    source text NOT NULL,
    level event_level NOT NULL DEFAULT 'info',
    type text NOT NULL,
    message text NOT NULL,
    data jsonb
) PARTITION BY RANGE (ts);
COMMENT ON TABLE task_events IS 'Append-only timeline; one partition a month (UTC).';
CREATE INDEX task_events_job ON task_events (job_id, ts) WHERE job_id IS NOT NULL;
CREATE INDEX task_events_video ON task_events (video_id, ts) WHERE video_id IS NOT NULL;
CREATE INDEX task_events_run ON task_events (run_id, ts) WHERE run_id IS NOT NULL;
-- Catches what no month was made for, so that an event is never a reason to fail.
CREATE TABLE task_events_default PARTITION OF task_events DEFAULT;

-- Makes the partitions of this month and of `p_months` to come. Safe to run at any time, twice at once.
CREATE FUNCTION create_event_partitions(p_months int DEFAULT 3) RETURNS int
LANGUAGE plpgsql
SECURITY DEFINER SET search_path = pg_catalog, public AS
$$
DECLARE
    first_month timestamp := date_trunc('month', now() AT TIME ZONE 'UTC');
    month timestamp;
    made int := 0;
BEGIN
    PERFORM pg_advisory_xact_lock(hashtext('create_event_partitions'));
    FOR i IN 0 .. p_months LOOP
        month := first_month + make_interval(months => i);
        CONTINUE WHEN to_regclass(format('public.task_events_%s', to_char(month, 'YYYY_MM'))) IS NOT NULL;
        CONTINUE WHEN EXISTS (SELECT FROM task_events_default d
                              WHERE d.ts >= month AT TIME ZONE 'UTC'
                                AND d.ts < (month + interval '1 month') AT TIME ZONE 'UTC');
        EXECUTE format('CREATE TABLE public.%I PARTITION OF public.task_events FOR VALUES FROM (%L) TO (%L)',
                       'task_events_' || to_char(month, 'YYYY_MM'),
                       month AT TIME ZONE 'UTC', (month + interval '1 month') AT TIME ZONE 'UTC');
        EXECUTE format('ALTER TABLE public.%I ENABLE ROW LEVEL SECURITY',
                       'task_events_' || to_char(month, 'YYYY_MM'));
        made := made + 1;
    END LOOP;
    RETURN made;
END
$$;
SELECT create_event_partitions();

CREATE TABLE task_artifacts (
    id uuid PRIMARY KEY DEFAULT gen_random_uuid(),
    job_id uuid NOT NULL REFERENCES jobs ON DELETE CASCADE,
    attempt int NOT NULL,
    kind text NOT NULL CHECK (kind IN ('input', 'output', 'log')),
    bucket text NOT NULL,
    key text NOT NULL,
    size bigint CHECK (size >= 0),
    content_type text,
    checksum text,
    created_at timestamptz NOT NULL DEFAULT now(),
    UNIQUE (job_id, kind, bucket, key)
);
CREATE INDEX task_artifacts_key ON task_artifacts (bucket, key);

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

-- ---- the state machine --------------------------------------------------------------------------

-- The one table of what may follow what, whoever asks.
CREATE FUNCTION job_transition_allowed(p_from job_status, p_to job_status) RETURNS boolean
LANGUAGE sql IMMUTABLE PARALLEL SAFE AS
$$
    SELECT CASE p_from
        WHEN 'queued'     THEN p_to IN ('processing', 'canceled')
        WHEN 'processing' THEN p_to IN ('done', 'failed', 'canceled', 'queued')
        WHEN 'failed'     THEN p_to IN ('queued', 'canceled')
        WHEN 'canceled'   THEN p_to = 'queued'
        WHEN 'done'       THEN false
    END
$$;

-- Fills in what an INSERT left open. The functions that enqueue fill in everything themselves.
CREATE FUNCTION jobs_before_insert() RETURNS trigger
LANGUAGE plpgsql
SECURITY DEFINER SET search_path = pg_catalog, public AS
$$
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
    IF cardinality(NEW.depends_on) > 0 THEN
        -- The lock makes a parent that is just completing wait, so that it will see this child.
        PERFORM FROM jobs WHERE id = ANY (NEW.depends_on) ORDER BY id FOR NO KEY UPDATE;
        UPDATE jobs SET has_dependents = true WHERE id = ANY (NEW.depends_on) AND NOT has_dependents;
        SELECT count(*) INTO NEW.unmet_dependencies
        FROM (SELECT DISTINCT unnest(NEW.depends_on) AS id) AS parent
        LEFT JOIN jobs j USING (id)
        WHERE j.status IS DISTINCT FROM 'done';
    END IF;
    NEW.is_ready := NEW.status = 'queued' AND NEW.unmet_dependencies = 0
                    AND (NEW.scheduled_for IS NULL OR NEW.scheduled_for <= clock_timestamp());
    RETURN NEW;
END
$$;
CREATE TRIGGER jobs_before_insert BEFORE INSERT ON jobs
    FOR EACH ROW WHEN (NEW.is_ready IS NULL OR NEW.depends_on IS NOT NULL AND NEW.status = 'queued')
    EXECUTE FUNCTION jobs_before_insert();

CREATE FUNCTION jobs_change_status() RETURNS trigger
LANGUAGE plpgsql AS
$$
BEGIN
    IF NOT job_transition_allowed(OLD.status, NEW.status) THEN
        RAISE EXCEPTION 'job %: % may not become %', OLD.id, OLD.status, NEW.status
            USING ERRCODE = 'check_violation', CONSTRAINT = 'job_transition';
    END IF;

    CASE NEW.status
    WHEN 'processing' THEN
        NEW.attempt := greatest(NEW.attempt, OLD.attempt + 1);
        NEW.started_at := clock_timestamp();
        NEW.finished_at := NULL;
        NEW.scheduled_for := NULL;
        NEW.progress := 0;
        NEW.progress_message := NULL;
        NEW.cancel_requested_at := NULL;
    WHEN 'queued' THEN
        IF OLD.status = 'failed' THEN
            IF OLD.retry_count >= NEW.max_retries THEN
                RAISE EXCEPTION 'job %: no retries are left', OLD.id
                    USING ERRCODE = 'check_violation', CONSTRAINT = 'job_retries_left',
                          HINT = 'retry_job() grants a fresh set.';
            END IF;
            NEW.retry_count := OLD.retry_count + 1;
            IF OLD.payload ? 'original_payload' AND NEW.payload = OLD.payload THEN
                NEW.payload := OLD.payload -> 'original_payload';
            END IF;
            NEW.scheduled_for := nullif(NEW.scheduled_for, OLD.scheduled_for);
        END IF;
        NEW.ready_at := least(OLD.scheduled_for, clock_timestamp());
        NEW.started_at := NULL;
        NEW.finished_at := NULL;
    WHEN 'failed' THEN
        NEW.finished_at := clock_timestamp();
        IF NOT (NEW.payload ? 'original_payload' AND NEW.payload IS DISTINCT FROM OLD.payload) THEN
            NEW.payload := jsonb_build_object(
                'error', jsonb_build_object('type', 'Unknown', 'message', 'failed by hand',
                                            'timestamp', clock_timestamp(),
                                            'retry_count', OLD.retry_count),
                'original_payload', OLD.payload);
        END IF;
    WHEN 'done' THEN
        NEW.finished_at := clock_timestamp();
        NEW.progress := 1;
        NEW.progress_message := NULL;
    WHEN 'canceled' THEN
        NEW.finished_at := clock_timestamp();
        NEW.scheduled_for := NULL;
        IF OLD.status = 'failed' AND OLD.payload ? 'original_payload' THEN
            NEW.payload := OLD.payload -> 'original_payload';
        END IF;
    END CASE;

    IF NEW.status <> 'processing' THEN
        NEW.locked_by := NULL;
        NEW.locked_until := NULL;
    END IF;
    NEW.is_ready := NEW.status = 'queued' AND NEW.unmet_dependencies = 0
                    AND (NEW.scheduled_for IS NULL OR NEW.scheduled_for <= clock_timestamp());
    NEW.updated_at := clock_timestamp();
    RETURN NEW;
END
$$;
-- A claim that brings its own token, and a completion that says when, are those of the queue's functions,
-- which set all that belongs to them: almost every change is one of these, and passes without the call.
CREATE TRIGGER jobs_change_status BEFORE UPDATE OF status ON jobs
    FOR EACH ROW WHEN (
        OLD.status <> NEW.status
        AND NOT (NEW.lease_token > OLD.lease_token AND OLD.status = 'queued' AND NEW.status = 'processing')
        AND NOT (NEW.finished_at > OLD.started_at AND OLD.status = 'processing' AND NEW.status = 'done'))
    EXECUTE FUNCTION jobs_change_status();

-- ---- what follows from a change ------------------------------------------------------------------

-- Who is speaking: workers and the API set cortana.source for their transaction.
CREATE FUNCTION event_source() RETURNS text
LANGUAGE sql STABLE AS
$$ SELECT coalesce(nullif(current_setting('cortana.source', true), ''), 'sql:' || session_user) $$;

-- An event for every new job, and idle workers are woken. What comes in as ended is history: see
-- restore_jobs.
CREATE FUNCTION jobs_inserted() RETURNS trigger
LANGUAGE plpgsql
SECURITY DEFINER SET search_path = pg_catalog, public AS
$$
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
CREATE TRIGGER jobs_inserted AFTER INSERT ON jobs
    REFERENCING NEW TABLE AS changed FOR EACH STATEMENT EXECUTE FUNCTION jobs_inserted();

-- An event for every change of status; an attempt that has ended becomes history (what its worker knows
-- of it comes by end_attempt()); workers are woken for what has become ready; the run and the video show
-- what has become of them. The two images of the rows are put together by a FULL JOIN that nothing makes
-- less of, because it is never a nested loop: its plan is kept from a statement of one row, and has to
-- do for thousands.
CREATE FUNCTION jobs_updated() RETURNS trigger
LANGUAGE plpgsql
SECURITY DEFINER SET search_path = pg_catalog, public AS
$$
DECLARE
    speaker text := event_source();
    woken text[];
    run_ids uuid[];
    shown_videos uuid[];
    shown_runs uuid[];
    shown_states job_status[];
    notable uuid[];
    woken_type text;
BEGIN
    WITH moved AS MATERIALIZED (
        SELECT n.id, n.video_id, n.correlation_id, n.run_id, n.job_type, n.attempt, n.lease_token,
               n.scheduled_for, n.is_ready, n.status,
               o.status AS old_status, o.is_ready AS was_ready, o.scheduled_for AS was_scheduled_for,
               o.started_at AS began_at, o.locked_by AS old_worker,
               coalesce(n.locked_by, o.locked_by) AS worker,
               CASE WHEN n.status = 'failed' THEN n.payload -> 'error' END AS failure,
               n.exclusive AND n.video_id IS NOT NULL AND n.status <> o.status
                   AND (n.status IN ('processing', 'canceled')
                        OR n.status = 'failed' AND n.scheduled_for IS NULL) AS shows
        FROM changed n FULL JOIN before o USING (id)
    ), ended AS (
        INSERT INTO ended_attempts (job_id, attempt, worker_id, lease_token, started_at, status,
                                    error_type, error_message)
        SELECT id, attempt, coalesce(old_worker, 'unknown'), lease_token, began_at,
               CASE status WHEN 'done' THEN 'succeeded' WHEN 'failed' THEN 'failed'
                           ELSE 'canceled' END,
               failure ->> 'type', failure ->> 'message'
        FROM moved WHERE status <> old_status AND old_status = 'processing'
    ), told AS (
        INSERT INTO task_events (job_id, video_id, correlation_id, source, level, type, message, data)
        SELECT id, video_id, correlation_id, speaker,
               CASE WHEN status <> 'failed' THEN 'info'
                    WHEN scheduled_for IS NULL THEN 'error' ELSE 'warn' END,
               CASE WHEN old_status = 'failed' AND status = 'queued' THEN 'retry' ELSE 'status' END,
               CASE WHEN status = 'failed'
                    THEN concat_ws(': ', 'failed', failure ->> 'type', failure ->> 'message')
                    ELSE status::text END,
               -- jsonb_build_object() looks up the type of each value of each row, a tenth of what a
               -- claim and a completion cost. A part that is null is left out.
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
               -- complete_job() sees to 'done': what waited for it begins first
               WHERE run_id IS NOT NULL AND status NOT IN ('processing', 'done')
                 AND (status <> old_status OR scheduled_for IS DISTINCT FROM was_scheduled_for)),
           array_agg(video_id) FILTER (WHERE shows), array_agg(run_id) FILTER (WHERE shows),
           array_agg(status) FILTER (WHERE shows),
           array_agg(id) FILTER (
               WHERE status = 'failed' AND scheduled_for IS NULL
                     AND (old_status <> 'failed' OR was_scheduled_for IS NOT NULL)
                  OR status = 'done' AND old_status <> 'done' AND job_type = 'clip_generate')
    INTO woken, run_ids, shown_videos, shown_runs, shown_states, notable
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
    -- A video that is read again keeps what it has until the new text is there: it stays ready.
    IF shown_videos IS NOT NULL THEN
        UPDATE videos v SET status = CASE WHEN shown.is_broken THEN 'failed' ELSE 'processing' END::video_status
        FROM (SELECT m.video_id, bool_or(m.status <> 'processing') AS is_broken
              FROM unnest(shown_videos, shown_runs, shown_states) AS m (video_id, run_id, status)
              LEFT JOIN runs r ON r.id = m.run_id
              WHERE r.workflow IS DISTINCT FROM 'reindex'
              GROUP BY m.video_id) AS shown
        WHERE v.id = shown.video_id AND (shown.is_broken OR v.status <> 'processing');
    END IF;
    IF run_ids IS NOT NULL THEN
        PERFORM settle_runs(ARRAY(SELECT DISTINCT unnest(run_ids)));
    END IF;
    IF notable IS NOT NULL THEN
        PERFORM note_ended_jobs(notable);
    END IF;
    RETURN NULL;
END
$$;
CREATE TRIGGER jobs_updated AFTER UPDATE ON jobs
    REFERENCING OLD TABLE AS before NEW TABLE AS changed
    FOR EACH STATEMENT EXECUTE FUNCTION jobs_updated();

-- What foreign keys would do row by row, and at a price on every claim.
CREATE FUNCTION jobs_deleted() RETURNS trigger
LANGUAGE plpgsql
SECURITY DEFINER SET search_path = pg_catalog, public AS
$$
BEGIN
    DELETE FROM ended_attempts a USING gone WHERE a.job_id = gone.id;
    RETURN NULL;
END
$$;
CREATE TRIGGER jobs_deleted AFTER DELETE ON jobs
    REFERENCING OLD TABLE AS gone FOR EACH STATEMENT EXECUTE FUNCTION jobs_deleted();

CREATE FUNCTION job_types_deleted() RETURNS trigger
LANGUAGE plpgsql
SECURITY DEFINER SET search_path = pg_catalog, public AS
$$
BEGIN
    IF EXISTS (SELECT FROM jobs WHERE job_type = OLD.name) THEN
        RAISE EXCEPTION 'there are jobs of type %', OLD.name USING ERRCODE = 'foreign_key_violation';
    END IF;
    RETURN OLD;
END
$$;
CREATE TRIGGER job_types_deleted BEFORE DELETE ON job_types
    FOR EACH ROW EXECUTE FUNCTION job_types_deleted();

-- Workers look at once, for what a rule held back may run now.
CREATE FUNCTION job_types_updated() RETURNS trigger
LANGUAGE plpgsql AS
$$
BEGIN
    PERFORM pg_notify('cv_jobs_' || NEW.name, '');
    RETURN NULL;
END
$$;
CREATE TRIGGER job_types_updated AFTER UPDATE ON job_types
    FOR EACH ROW WHEN (OLD.put_off_until IS NOT DISTINCT FROM NEW.put_off_until)
    EXECUTE FUNCTION job_types_updated();

-- ---- who may read --------------------------------------------------------------------------------

ALTER TABLE job_types ENABLE ROW LEVEL SECURITY;
ALTER TABLE jobs ENABLE ROW LEVEL SECURITY;
ALTER TABLE ended_attempts ENABLE ROW LEVEL SECURITY;
ALTER TABLE task_events ENABLE ROW LEVEL SECURITY;
ALTER TABLE task_events_default ENABLE ROW LEVEL SECURITY;
ALTER TABLE task_artifacts ENABLE ROW LEVEL SECURITY;
ALTER TABLE workers ENABLE ROW LEVEL SECURITY;

-- videos has its own policy, so this shows the jobs of visible videos.
CREATE POLICY jobs_read ON jobs FOR SELECT TO authenticated
    USING (EXISTS (SELECT FROM videos v WHERE v.id = video_id));
CREATE POLICY job_types_read ON job_types FOR SELECT TO authenticated USING (true);

CREATE POLICY job_types_service ON job_types TO service_role USING (true) WITH CHECK (true);
CREATE POLICY jobs_service ON jobs TO service_role USING (true) WITH CHECK (true);
CREATE POLICY ended_attempts_service ON ended_attempts TO service_role USING (true) WITH CHECK (true);
CREATE POLICY task_events_service ON task_events TO service_role USING (true) WITH CHECK (true);
CREATE POLICY task_artifacts_service ON task_artifacts TO service_role USING (true) WITH CHECK (true);
CREATE POLICY workers_service ON workers TO service_role USING (true) WITH CHECK (true);

REVOKE ALL ON job_types, jobs, ended_attempts, job_attempts, task_events, task_events_default,
    task_artifacts, workers FROM anon, authenticated;
GRANT SELECT ON job_types, jobs TO authenticated;
GRANT ALL ON job_types, jobs, ended_attempts, task_events, task_artifacts, workers TO service_role;
GRANT SELECT ON job_attempts TO service_role;
GRANT USAGE ON SEQUENCE job_sequence, job_lease_tokens, task_event_ids TO service_role;
REVOKE ALL ON FUNCTION create_event_partitions(int), time_prefixed_uuid() FROM PUBLIC, anon, authenticated;
-- Who may execute a trigger's function may put it on a table of their own, and act as its owner.
REVOKE ALL ON FUNCTION jobs_before_insert(), jobs_inserted(), jobs_updated(), jobs_deleted(),
    job_types_deleted(), job_types_updated()
    FROM PUBLIC, anon, authenticated;
GRANT EXECUTE ON FUNCTION create_event_partitions(int), time_prefixed_uuid() TO service_role;
