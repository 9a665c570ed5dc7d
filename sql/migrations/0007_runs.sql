-- Runs of workflows. A run is created with all its jobs. The payload of a step is composed when all jobs that the
-- step depends on are done; a step that fans out then becomes several jobs.

CREATE FUNCTION cortana.step_payload(p_run runs, p_step jsonb, p_depends_on uuid[]) RETURNS jsonb
LANGUAGE plpgsql AS $$
DECLARE
    payload jsonb := coalesce(p_step -> 'defaults', '{}');
    params jsonb := coalesce(p_step -> 'params', '{}');
    parents text[] := ARRAY(SELECT jsonb_array_elements_text(coalesce(p_step -> 'depends_on', '[]')));
    named text[];
    handed jsonb;
    scope jsonb := '{}';
BEGIN
    IF p_run.video_id IS NOT NULL THEN
        payload := payload || jsonb_build_object('video_id', p_run.video_id);
    END IF;
    IF cardinality(parents) = 0 THEN
        payload := payload || p_run.input;
    END IF;
    FOR handed IN
        SELECT o.payload FROM jobs j JOIN job_outputs o ON o.job_id = j.id
        WHERE j.id = ANY (p_depends_on) AND j.run_id = p_run.id AND o.job_type = p_step ->> 'job_type'
        ORDER BY array_position(parents, j.step), j.part
    LOOP
        payload := payload || handed;
    END LOOP;
    IF position('{{' IN params::text) > 0 THEN
        named := ARRAY(SELECT DISTINCT m[1] FROM regexp_matches(
            params::text, '\{\{\s*steps\.([a-z][a-z0-9_]*)', 'g') AS m);
        scope := jsonb_build_object(
            'input', p_run.input,
            'run', jsonb_build_object('id', p_run.id, 'workflow', p_run.workflow,
                                      'version', p_run.version,
                                      'correlation_id', p_run.correlation_id),
            'video', (SELECT to_jsonb(v) FROM videos v WHERE v.id = p_run.video_id),
            'steps', (
                SELECT coalesce(jsonb_object_agg(step, jsonb_build_object(
                           'result', first_result, 'results', results, 'output', output)), '{}')
                FROM (SELECT j.step, (array_agg(j.result ORDER BY j.part))[1] AS first_result,
                             jsonb_agg(j.result ORDER BY j.part) AS results,
                             (array_agg(o.payload ORDER BY j.part) FILTER (
                                 WHERE o.payload IS NOT NULL))[1] AS output
                      FROM jobs j LEFT JOIN job_outputs o ON o.job_id = j.id
                      WHERE j.run_id = p_run.id AND j.step = ANY (named)
                      GROUP BY j.step) AS earlier));
        params := resolve_template(params, scope);
    END IF;
    RETURN payload || params;
END
$$;
COMMENT ON FUNCTION cortana.step_payload IS
    'Composes the payload of a step whose parents are done: the defaults of the step, the input of the run (only '
    'for steps without parents), the payloads that the jobs it depends on hand on to its job type, and the parameters '
    'of the step. A later one overrides the members of those before it.';

CREATE FUNCTION cortana.begin_step(p_job_id uuid) RETURNS void
LANGUAGE plpgsql AS $$
DECLARE
    most_parts CONSTANT int := 10000;      -- each part is a row; a longer list is cut into larger parts
    job jobs;
    run runs;
    definition jsonb;
    full_payload jsonb;
    kind job_types;  -- of a step without parents; else null, and nothing is required
    members text[];
    entries int;
    size int;
    last_part int;
    parts jsonb[];
    others uuid[];
BEGIN
    SELECT * INTO job FROM jobs WHERE id = p_job_id;
    SELECT * INTO run FROM runs WHERE id = job.run_id;
    SELECT s INTO definition FROM workflows w, jsonb_array_elements(w.steps) AS s
    WHERE w.name = run.workflow AND w.version = run.version AND s ->> 'key' = job.step;
    full_payload := step_payload(run, definition, job.depends_on);
    IF job.depends_on IS NULL THEN  -- its payload is what the caller of start_run() gave
        SELECT * INTO kind FROM job_types WHERE name = job.job_type;
    END IF;

    IF definition ? 'fan_out' THEN
        members := ARRAY(SELECT m FROM jsonb_array_elements_text(definition #> '{fan_out,over}') AS m
                         WHERE jsonb_typeof(full_payload -> m) = 'array');
        -- Lists of equal length are cut at the same places. A value that is not a list is left for the stage to refuse.
        SELECT max(jsonb_array_length(full_payload -> m)) INTO entries FROM unnest(members) AS m
        HAVING min(jsonb_array_length(full_payload -> m)) = max(jsonb_array_length(full_payload -> m));
        size := greatest((definition #>> '{fan_out,size}')::int,
                         ceil(entries / most_parts::numeric)::int);
        IF entries > size THEN
            SELECT array_agg((full_payload - members) || chunk ORDER BY part) INTO parts
            FROM (SELECT part, jsonb_object_agg(member, entries_of) AS chunk
                  FROM (SELECT ((number - 1) / size)::int AS part, m AS member,
                               jsonb_agg(entry ORDER BY number) AS entries_of
                        FROM unnest(members) AS m,
                             jsonb_array_elements(full_payload -> m) WITH ORDINALITY
                                 AS e (entry, number)
                        GROUP BY 1, 2) AS cut
                  GROUP BY part) AS chunks;
            parts := ARRAY(SELECT complete_payload(kind, part, job.video_id)
                           FROM unnest(parts) WITH ORDINALITY AS p (part, number) ORDER BY number);
            full_payload := parts[1];
            SELECT max(part) INTO last_part FROM jobs WHERE run_id = job.run_id AND step = job.step;
            WITH made AS (
                INSERT INTO jobs (job_type, video_id, payload, priority, sequence, correlation_id,
                                  tenant_id, run_id, step, part, exclusive, max_retries, is_ready,
                                  has_dependents)
                SELECT job.job_type, job.video_id, p.payload, job.priority, job.sequence,
                       job.correlation_id, job.tenant_id, job.run_id, job.step, last_part + p.number - 1,
                       job.exclusive, job.max_retries, true, job.has_dependents
                FROM unnest(parts) WITH ORDINALITY AS p (payload, number) WHERE p.number > 1
                RETURNING id
            )
            SELECT array_agg(id) INTO others FROM made;
            UPDATE jobs SET depends_on = depends_on || others,
                            unmet_dependencies = unmet_dependencies + cardinality(others)
            WHERE run_id = job.run_id AND status = 'queued' AND depends_on @> ARRAY[job.id];
        END IF;
    END IF;
    full_payload := complete_payload(kind, full_payload, job.video_id);
    UPDATE jobs SET payload = full_payload, unmet_dependencies = 0, ready_at = clock_timestamp()
    WHERE id = p_job_id;
END
$$;
COMMENT ON FUNCTION cortana.begin_step IS
    'Gives a job of a run its payload and makes it claimable. If its step fans out, adds a job for each further part '
    'of the lists; the jobs that wait for this job then wait for all parts.';

CREATE FUNCTION cortana.fair_run_sequence(p_workflow text, p_steps jsonb, p_priority int, p_tenant_id uuid)
RETURNS bigint
LANGUAGE plpgsql AS $$
DECLARE
    place bigint := nextval('job_sequence');
    head bigint;
    own bigint;
BEGIN
    IF p_tenant_id IS NOT NULL THEN
        SELECT min(first.sequence) INTO head
        FROM (SELECT DISTINCT s ->> 'job_type' AS name FROM jsonb_array_elements(p_steps) AS s) AS types,
             LATERAL (SELECT sequence FROM jobs
                      WHERE job_type = types.name AND status = 'queued' AND is_ready
                        AND priority = p_priority
                      ORDER BY sequence LIMIT 1) AS first;
        SELECT sequence + 1 INTO own FROM runs
        WHERE tenant_id = p_tenant_id AND workflow = p_workflow AND priority = p_priority
          AND status = 'running'
        ORDER BY sequence DESC LIMIT 1;
        place := least(place, greatest(head, own));
    END IF;
    RETURN place;
END
$$;
COMMENT ON FUNCTION cortana.fair_run_sequence IS
    'Returns the place of a tenant''s next run, like fair_sequence(), but for all stages of the run together. The run '
    'therefore does not wait behind the jobs that other tenants have queued at the slowest stage, and does not '
    'overtake other runs of the same tenant.';

CREATE FUNCTION start_run(
    p_workflow text,
    p_input jsonb DEFAULT '{}',
    p_video_id uuid DEFAULT NULL,
    p_priority int DEFAULT NULL,             -- NULL: the highest base priority of its job types
    p_tenant_id uuid DEFAULT NULL,           -- NULL: the tenant of the video
    p_scheduled_for timestamptz DEFAULT NULL,
    p_correlation_id uuid DEFAULT NULL,
    p_version int DEFAULT NULL,              -- NULL: the active version
    OUT run_id uuid,
    OUT is_new boolean)
LANGUAGE plpgsql SECURITY DEFINER AS $$
DECLARE
    flow workflows;
    tenant uuid := p_tenant_id;
    rank int := p_priority;
    place bigint;
    correlation uuid := coalesce(p_correlation_id, gen_random_uuid());
    first uuid;
    kind job_types;
BEGIN
    SELECT * INTO flow FROM workflows
    WHERE name = p_workflow AND (version = p_version OR p_version IS NULL AND is_active);
    IF NOT FOUND THEN
        RAISE EXCEPTION 'workflow % does not exist', concat_ws(' version ', p_workflow, p_version)
            USING ERRCODE = 'undefined_object';
    END IF;
    IF jsonb_typeof(p_input) IS DISTINCT FROM 'object' THEN
        RAISE EXCEPTION 'the input of a run must be a JSON object'
            USING ERRCODE = 'invalid_parameter_value';
    END IF;
    IF p_video_id IS NOT NULL AND tenant IS NULL THEN
        SELECT coalesce(team_id, owner_id) INTO tenant FROM videos WHERE id = p_video_id;
    END IF;
    IF NOT acts_for_everyone() THEN
        FOR kind IN SELECT t.* FROM jsonb_array_elements(flow.steps) AS s
                    JOIN job_types t ON t.name = s ->> 'job_type' LOOP
            tenant := check_own_job(kind, p_input, p_video_id, tenant, NULL);
        END LOOP;
    END IF;
    IF rank IS NULL THEN
        SELECT max(t.base_priority) INTO rank FROM jsonb_array_elements(flow.steps) AS s
        JOIN job_types t ON t.name = s ->> 'job_type';
    END IF;
    place := fair_run_sequence(flow.name, flow.steps, rank, tenant);

    BEGIN
        INSERT INTO runs (workflow, version, video_id, tenant_id, input, priority, sequence,
                          correlation_id)
        VALUES (flow.name, flow.version, p_video_id, tenant, p_input, rank, place, correlation)
        RETURNING id INTO run_id;

        WITH steps AS MATERIALIZED (
            SELECT s AS step, s ->> 'key' AS key, s ->> 'job_type' AS type, gen_random_uuid() AS id,
                   coalesce(s -> 'depends_on', '[]') AS parents, number
            FROM jsonb_array_elements(flow.steps) WITH ORDINALITY AS e (s, number)
        )
        INSERT INTO jobs (id, job_type, video_id, priority, sequence, correlation_id, tenant_id, run_id,
                          step, exclusive, max_retries, scheduled_for, has_dependents, depends_on,
                          is_ready)
        SELECT s.id, s.type, p_video_id, coalesce(priority_number(s.step ->> 'priority'), rank), place,
               correlation, tenant, start_run.run_id, s.key, t.one_per_video,
               cardinality(t.retry_delays),
               CASE WHEN jsonb_array_length(s.parents) = 0 THEN p_scheduled_for END,
               EXISTS (SELECT FROM steps c WHERE c.parents ? s.key),
               (SELECT array_agg(p.id) FROM steps p WHERE s.parents ? p.key),
               job_is_ready('queued', jsonb_array_length(s.parents), p_scheduled_for)
        FROM steps s JOIN job_types t ON t.name = s.type
        ORDER BY s.number;
        FOR first IN SELECT j.id FROM jobs j
                     WHERE j.run_id = start_run.run_id AND j.depends_on IS NULL ORDER BY j.id LOOP
            PERFORM begin_step(first);
        END LOOP;
        is_new := true;
    EXCEPTION WHEN unique_violation THEN
        SELECT j.run_id INTO run_id FROM jobs j
        WHERE j.video_id = p_video_id AND j.run_id IS NOT NULL AND j.status IN ('queued', 'processing')
          AND j.step IN (SELECT s ->> 'key' FROM jsonb_array_elements(flow.steps) AS s)
        ORDER BY j.created_at LIMIT 1;
        IF NOT FOUND THEN
            RAISE EXCEPTION 'video % has unfinished jobs that belong to no run', p_video_id
                USING ERRCODE = 'unique_violation', HINT = 'Wait for these jobs, or cancel them.';
        END IF;
        is_new := false;
        RETURN;
    END;
    INSERT INTO task_events (run_id, video_id, correlation_id, source, type, message, data)
    VALUES (run_id, p_video_id, correlation, event_source(), 'status', 'run started',
            jsonb_build_object('to', 'running', 'workflow', flow.name, 'version', flow.version));
END
$$;
COMMENT ON FUNCTION start_run IS
    'Starts a run of a workflow with all its jobs, in the caller''s transaction. If a run already works on the video, '
    'returns that run with is_new = false.';

CREATE FUNCTION cortana.jobs_in_the_way(p_job_id uuid) RETURNS TABLE (id uuid, step text, status job_status)
LANGUAGE sql STABLE AS $$
    WITH RECURSIVE needed AS (
        SELECT p.id, p.step, p.status, p.scheduled_for, p.skipped, p.depends_on
        FROM jobs j JOIN jobs p ON p.id = ANY (j.depends_on) WHERE j.id = p_job_id
        UNION
        SELECT p.id, p.step, p.status, p.scheduled_for, p.skipped, p.depends_on
        FROM needed n JOIN jobs p ON p.id = ANY (n.depends_on) WHERE n.skipped OR n.status = 'queued'
    )
    SELECT needed.id, needed.step, needed.status FROM needed
    WHERE needed.status = 'failed' AND needed.scheduled_for IS NULL
       OR needed.status = 'canceled' AND NOT needed.skipped
    ORDER BY needed.id
$$;
COMMENT ON FUNCTION cortana.jobs_in_the_way IS
    'Returns the jobs that keep a job from ever running, directly or through the jobs in between: dead ones, and those '
    'that somebody has canceled.';

CREATE FUNCTION cortana.skip_waiting_jobs(p_run_id uuid) RETURNS void
LANGUAGE sql AS $$
    -- A job that somebody changes at this moment is left to them: waiting for it here, behind the lock of the run, could
    -- be a deadlock.
    UPDATE jobs j
    SET status = 'canceled', skipped = true,
        progress_message = 'skipped: ' || coalesce(
            (SELECT string_agg(DISTINCT step || CASE status WHEN 'failed' THEN ' has failed' ELSE ' was canceled' END, ', ')
             FROM jobs_in_the_way(j.id)), 'its run has ended')
    FROM (SELECT id FROM jobs WHERE run_id = p_run_id AND status = 'queued'
          ORDER BY id FOR UPDATE SKIP LOCKED) AS waiting
    WHERE j.id = waiting.id
$$;
COMMENT ON FUNCTION cortana.skip_waiting_jobs IS
    'Cancels the jobs of a run that wait for jobs that will never be done, and says which.';

CREATE FUNCTION cortana.settle_runs(p_run_ids uuid[]) RETURNS void
LANGUAGE plpgsql SECURITY DEFINER AS $$
DECLARE
    run runs;
    verdict text;
BEGIN
    FOR run IN SELECT * FROM runs WHERE id = ANY (p_run_ids) ORDER BY id FOR NO KEY UPDATE LOOP
        IF NOT EXISTS (SELECT FROM jobs j WHERE j.run_id = run.id AND j.status <> 'done') THEN
            verdict := 'done';
        ELSIF EXISTS (SELECT FROM jobs j
                      WHERE j.run_id = run.id AND j.status <> 'done'
                        AND (j.status = 'processing'
                             OR j.status = 'queued' AND j.unmet_dependencies = 0
                             OR j.status = 'failed' AND j.scheduled_for IS NOT NULL)) THEN
            verdict := 'running';
        ELSIF EXISTS (SELECT FROM jobs j
                      WHERE j.run_id = run.id AND j.status <> 'done' AND j.status = 'failed') THEN
            verdict := 'failed';
        ELSE
            verdict := 'canceled';
        END IF;
        CONTINUE WHEN verdict = run.status;
        UPDATE runs SET status = verdict,
                        finished_at = CASE WHEN verdict <> 'running' THEN clock_timestamp() END
        WHERE id = run.id;
        INSERT INTO task_events (run_id, video_id, correlation_id, source, level, type, message, data)
        VALUES (run.id, run.video_id, run.correlation_id, event_source(),
                CASE verdict WHEN 'failed' THEN 'error' ELSE 'info' END, 'status', 'run ' || verdict,
                jsonb_build_object('from', run.status, 'to', verdict, 'workflow', run.workflow));
        IF verdict IN ('failed', 'canceled') THEN
            PERFORM skip_waiting_jobs(run.id);
        ELSIF verdict = 'running' THEN
            UPDATE jobs SET status = 'queued' WHERE run_id = run.id AND skipped;
        ELSE
            DELETE FROM job_outputs o USING jobs j WHERE j.run_id = run.id AND o.job_id = j.id;
        END IF;
    END LOOP;
END
$$;
COMMENT ON FUNCTION cortana.settle_runs IS
    'Updates the status of runs whose jobs have changed. A run is done when all its jobs are done, and failed or '
    'canceled when none of its unfinished jobs can run any more; then the jobs that wait for nothing that can come are '
    'skipped, and queued again when the run goes on. Runs are locked after the jobs, in order of id.';

-- Called in the transaction that ends the job. In a run, the payload is kept until the next steps of that type
-- begin. Without a run, a job of that type is enqueued at once, with the same place in the queue.
CREATE FUNCTION hand_on(p_job_id uuid, p_token bigint, p_job_type text, p_payload jsonb)
RETURNS boolean
LANGUAGE plpgsql AS $$
DECLARE
    job jobs;
BEGIN
    IF NOT fence_job(p_job_id, p_token) THEN
        RETURN false;
    END IF;
    SELECT * INTO job FROM jobs WHERE id = p_job_id;
    IF job.run_id IS NULL THEN
        PERFORM enqueue_job(p_job_type, p_payload, job.video_id, job.priority,
                            p_correlation_id => job.correlation_id, p_sequence => job.sequence,
                            p_tenant_id => job.tenant_id);
    ELSE
        INSERT INTO job_outputs (job_id, job_type, payload) VALUES (p_job_id, p_job_type, p_payload)
        ON CONFLICT (job_id, job_type) DO UPDATE SET payload = excluded.payload;
    END IF;
    RETURN true;
END
$$;
COMMENT ON FUNCTION hand_on IS
    'Hands a payload on to the next stage, in the transaction that completes the job. In a run, the later steps of '
    'that job type get it; without a run, a job of that type is enqueued. Returns false if the lease is lost.';

CREATE FUNCTION continue_step(p_job_id uuid, p_token bigint, p_payload jsonb) RETURNS boolean
LANGUAGE plpgsql AS $$
DECLARE
    job jobs;
    waiter jobs;
    rest uuid;
    other uuid;
BEGIN
    IF NOT fence_job(p_job_id, p_token) THEN
        RETURN false;
    END IF;
    SELECT * INTO job FROM jobs WHERE id = p_job_id;
    IF job.run_id IS NULL THEN
        RAISE EXCEPTION 'a job that belongs to no run cannot be continued by another one'
            USING ERRCODE = 'invalid_parameter_value', HINT = 'Leave "part_seconds" out of its payload.';
    END IF;
    PERFORM check_payload(p_payload, job.video_id, (SELECT payload_bytes FROM job_types WHERE name = job.job_type));
    INSERT INTO jobs (job_type, video_id, payload, priority, sequence, correlation_id, tenant_id, run_id, step, part,
                      exclusive, max_retries, progress, is_ready, has_dependents)
    SELECT job.job_type, job.video_id, p_payload, job.priority, job.sequence, job.correlation_id, job.tenant_id,
           job.run_id, job.step, 1 + max(j.part), job.exclusive, job.max_retries, job.progress, true, true
    FROM jobs j WHERE j.run_id = job.run_id AND j.step = job.step
    RETURNING id INTO rest;
    FOR waiter IN SELECT * FROM jobs
                  WHERE run_id = job.run_id AND status <> 'done' AND unmet_dependencies > 0
                    AND depends_on @> ARRAY[job.id] ORDER BY id FOR UPDATE LOOP
        INSERT INTO jobs (job_type, video_id, priority, sequence, correlation_id, tenant_id, run_id, step, part,
                          exclusive, max_retries, progress, has_dependents, depends_on)
        SELECT waiter.job_type, waiter.video_id, waiter.priority, waiter.sequence, waiter.correlation_id,
               waiter.tenant_id, waiter.run_id, waiter.step, 1 + max(j.part), waiter.exclusive, waiter.max_retries,
               job.progress, waiter.has_dependents, array_replace(waiter.depends_on, job.id, rest)
        FROM jobs j WHERE j.run_id = waiter.run_id AND j.step = waiter.step
        RETURNING id INTO other;
        UPDATE jobs SET depends_on = depends_on || other, unmet_dependencies = unmet_dependencies + 1
        WHERE run_id = job.run_id AND status <> 'done' AND depends_on @> ARRAY[waiter.id];
    END LOOP;
    RETURN true;
END
$$;
COMMENT ON FUNCTION continue_step IS
    'For a stage that has finished a part of its work: adds another job of the same step, which continues with this '
    'payload, in the transaction that completes the job. Each step that waits for the job gets a part of its own for '
    'what the new job will hand on, and steps that wait for such a step wait for all of its parts. Their progress '
    'begins where that of the job is; one that returns to the queue has 0 until it reports. Returns false if the lease is lost.';

CREATE FUNCTION restart_run(p_run_id uuid) RETURNS bigint
LANGUAGE plpgsql SECURITY DEFINER AS $$
BEGIN
    IF NOT EXISTS (SELECT FROM runs WHERE id = p_run_id AND may_touch(tenant_id)) THEN
        RETURN NULL;
    END IF;
    RETURN (SELECT count(*) FILTER (WHERE outcome = 'queued')
            FROM (SELECT retry_job(id) AS outcome
                  FROM (SELECT id FROM jobs
                        WHERE run_id = p_run_id
                          AND (status = 'canceled' OR status = 'failed' AND scheduled_for IS NULL)
                        ORDER BY unmet_dependencies > 0, id) AS stopped) AS retried);
END
$$;
COMMENT ON FUNCTION restart_run IS
    'Queues the failed and canceled jobs of a run again, with new retries. Returns how many; null: the run does not '
    'exist.';

CREATE FUNCTION cancel_run(p_run_id uuid) RETURNS text
LANGUAGE plpgsql SECURITY DEFINER AS $$
DECLARE
    outcomes text[];
BEGIN
    IF NOT EXISTS (SELECT FROM runs WHERE id = p_run_id AND may_touch(tenant_id)) THEN
        RETURN 'not_found';
    END IF;
    SELECT array_agg(DISTINCT cancel_job(id)) INTO outcomes
    FROM (SELECT id FROM jobs WHERE run_id = p_run_id AND status IN ('queued', 'processing', 'failed')
          ORDER BY unmet_dependencies > 0, id) AS open; -- what waits is skipped with what it waits for
    RETURN CASE WHEN 'requested' = ANY (outcomes) THEN 'requested'
                WHEN 'canceled' = ANY (outcomes) THEN 'canceled' ELSE 'wrong_state' END;
END
$$;
COMMENT ON FUNCTION cancel_run IS
    'Cancels every job of a run that is not done. Returns ''canceled'', ''requested'' (a job runs, and its worker '
    'is told to stop it), ''wrong_state'' (the run has ended) or ''not_found''.';

-- ---- who may call what --------------------------------------------------------------------------

SELECT secure_objects();
GRANT EXECUTE ON FUNCTION start_run, restart_run, cancel_run TO cortana_app;
