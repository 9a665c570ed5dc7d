-- Workflows: named graphs of steps, and runs of them. A run is made with all its jobs; a step's payload
-- is put together when all that it depends on is done, and may then become many jobs.

CREATE TABLE workflows (
    name text NOT NULL CHECK (name ~ '^[a-z][a-z0-9_]{0,62}$'),
    version int NOT NULL CHECK (version > 0),
    is_active boolean NOT NULL DEFAULT true,
    steps jsonb NOT NULL,
    description text,
    created_at timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (name, version)
);
CREATE UNIQUE INDEX workflows_one_active ON workflows (name) WHERE is_active;
COMMENT ON COLUMN workflows.steps IS
    'A list of {key, job_type, depends_on, defaults, params, fan_out: {over, size}, priority, description}; only key and job_type are needed.';

CREATE TABLE runs (
    id uuid PRIMARY KEY DEFAULT gen_random_uuid(),
    workflow text NOT NULL,
    version int NOT NULL,
    video_id uuid REFERENCES videos ON DELETE CASCADE,
    tenant_id uuid,
    status text NOT NULL DEFAULT 'running'
        CHECK (status IN ('running', 'done', 'failed', 'canceled')),
    input jsonb NOT NULL DEFAULT '{}',
    priority int NOT NULL CHECK (priority BETWEEN 0 AND 10),
    sequence bigint NOT NULL,              -- its place in the order of every stage
    correlation_id uuid NOT NULL DEFAULT gen_random_uuid(),
    created_at timestamptz NOT NULL DEFAULT now(),
    finished_at timestamptz,
    FOREIGN KEY (workflow, version) REFERENCES workflows (name, version)
);
CREATE INDEX runs_of_tenant ON runs (tenant_id, workflow, priority, sequence) WHERE status = 'running';
CREATE INDEX runs_video ON runs (video_id, created_at) WHERE video_id IS NOT NULL;
CREATE INDEX runs_workflow ON runs (workflow, created_at);

ALTER TABLE jobs ADD FOREIGN KEY (run_id) REFERENCES runs ON DELETE CASCADE;

-- What a finished job of a run gives to the steps behind it; gone when the run is done.
CREATE TABLE job_outputs (
    job_id uuid NOT NULL REFERENCES jobs ON DELETE CASCADE,
    job_type job_type NOT NULL,            -- of the steps it is for
    payload jsonb NOT NULL,
    PRIMARY KEY (job_id, job_type)
);

ALTER TABLE segments ADD COLUMN detected_by text;
COMMENT ON COLUMN segments.detected_by IS
    'Step and part of the run that read it ("ocr/0"); several steps may read one video side by side.';

-- ---- templates -----------------------------------------------------------------------------------

-- Replaces {{path}} in the strings of a JSON value by what the path names in p_scope. A string that is
-- one placeholder becomes the value itself; a member whose value is missing is left out.
CREATE FUNCTION resolve_template(p_template jsonb, p_scope jsonb) RETURNS jsonb
LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE AS
$$
DECLARE
    text_value text;
    whole text;
    found text[];
    value jsonb;
    result text := '';
    rest text;
BEGIN
    CASE jsonb_typeof(p_template)
    WHEN 'object' THEN
        RETURN (SELECT coalesce(jsonb_object_agg(key, resolved) FILTER (WHERE resolved IS NOT NULL), '{}')
                FROM (SELECT key, resolve_template(member, p_scope) AS resolved
                      FROM jsonb_each(p_template) AS m (key, member)) AS members);
    WHEN 'array' THEN
        RETURN (SELECT coalesce(jsonb_agg(coalesce(resolve_template(entry, p_scope), 'null')
                                          ORDER BY number), '[]')
                FROM jsonb_array_elements(p_template) WITH ORDINALITY AS e (entry, number));
    WHEN 'string' THEN
        text_value := p_template #>> '{}';
        IF position('{{' IN text_value) = 0 THEN
            RETURN p_template;
        END IF;
        whole := substring(text_value FROM '^\{\{\s*([A-Za-z_][A-Za-z0-9_.]*)\s*\}\}$');
        IF whole IS NOT NULL THEN
            RETURN p_scope #> string_to_array(whole, '.');
        END IF;
        rest := text_value;
        LOOP
            found := regexp_match(rest, '^(.*?)\{\{\s*([A-Za-z_][A-Za-z0-9_.]*)\s*\}\}(.*)$');
            EXIT WHEN found IS NULL;
            value := p_scope #> string_to_array(found[2], '.');
            result := result || found[1] || coalesce(value #>> '{}', '');
            rest := found[3];
        END LOOP;
        RETURN to_jsonb(result || rest);
    ELSE
        RETURN p_template;
    END CASE;
END
$$;
COMMENT ON FUNCTION resolve_template IS
    '{{a.b.0}} in strings becomes what p_scope holds there; values that are missing are left out.';

-- ---- definitions ---------------------------------------------------------------------------------

-- Raises what is wrong with the steps of a workflow, in words of who wrote it.
CREATE FUNCTION check_workflow_steps(p_steps jsonb) RETURNS void
LANGUAGE plpgsql
SET search_path = pg_catalog, public AS
$$
DECLARE
    step jsonb;
    key text;
    parent text;
    keys text[] := '{}';
    placed text[] := '{}';
    ready text[];
    named text;
    ancestors text[];
BEGIN
    IF jsonb_typeof(p_steps) IS DISTINCT FROM 'array'
       OR jsonb_array_length(p_steps) NOT BETWEEN 1 AND 200 THEN
        RAISE EXCEPTION 'the steps must be a list of 1 to 200' USING ERRCODE = 'invalid_parameter_value';
    END IF;
    -- A run copies none of this, but reads it at every step.
    IF octet_length(p_steps::text) > 1048576 OR jsonb_path_exists(p_steps, '$.**{20}') THEN
        RAISE EXCEPTION 'the steps are larger than 1 MiB or nested deeper than 20'
            USING ERRCODE = 'invalid_parameter_value';
    END IF;

    FOR step IN SELECT jsonb_array_elements(p_steps) LOOP
        IF jsonb_typeof(step) <> 'object' THEN
            RAISE EXCEPTION 'a step must be an object, not %', left(step::text, 100)
                USING ERRCODE = 'invalid_parameter_value';
        END IF;
        key := step ->> 'key';
        IF jsonb_typeof(step -> 'key') IS DISTINCT FROM 'string' OR key !~ '^[a-z][a-z0-9_]{0,62}$' THEN
            RAISE EXCEPTION 'a step needs a "key" of lower-case letters, digits and _, not %',
                left(coalesce((step -> 'key')::text, 'none'), 100) USING ERRCODE = 'invalid_parameter_value';
        END IF;
        IF key = ANY (keys) THEN
            RAISE EXCEPTION 'two steps are called "%"', key USING ERRCODE = 'invalid_parameter_value';
        END IF;
        keys := keys || key;
        SELECT k INTO named FROM jsonb_object_keys(step) AS k
        WHERE k NOT IN ('key', 'job_type', 'depends_on', 'defaults', 'params', 'fan_out', 'priority',
                        'description') LIMIT 1;
        IF FOUND THEN
            RAISE EXCEPTION 'step "%": "%" is unknown', key, left(named, 100)
                USING ERRCODE = 'invalid_parameter_value';
        END IF;
        IF jsonb_typeof(step -> 'job_type') IS DISTINCT FROM 'string'
           OR NOT EXISTS (SELECT FROM job_types WHERE name = step ->> 'job_type') THEN
            RAISE EXCEPTION 'step "%": job type % is not registered', key,
                left(coalesce((step -> 'job_type')::text, 'none'), 100)
                USING ERRCODE = 'invalid_parameter_value';
        END IF;
        IF jsonb_typeof(coalesce(step -> 'depends_on', '[]')) <> 'array'
           OR jsonb_path_exists(step, '$.depends_on[*] ? (@.type() != "string")') THEN
            RAISE EXCEPTION 'step "%": "depends_on" must be a list of keys', key
                USING ERRCODE = 'invalid_parameter_value';
        END IF;
        IF jsonb_typeof(coalesce(step -> 'params', '{}')) <> 'object'
           OR jsonb_typeof(coalesce(step -> 'defaults', '{}')) <> 'object' THEN
            RAISE EXCEPTION 'step "%": "params" and "defaults" must be objects', key
                USING ERRCODE = 'invalid_parameter_value';
        END IF;
        IF step ? 'priority' AND (jsonb_typeof(step -> 'priority') <> 'number'
                                  OR (step ->> 'priority') !~ '^([0-9]|10)$') THEN
            RAISE EXCEPTION 'step "%": "priority" must be 0 to 10', key
                USING ERRCODE = 'invalid_parameter_value';
        END IF;
        IF step ? 'fan_out' AND (
               jsonb_typeof(step #> '{fan_out,over}') IS DISTINCT FROM 'array'
               OR jsonb_array_length(step #> '{fan_out,over}') NOT BETWEEN 1 AND 20
               OR jsonb_path_exists(step, '$.fan_out.over[*] ? (@.type() != "string")')
               OR jsonb_typeof(step #> '{fan_out,size}') IS DISTINCT FROM 'number'
               OR (step #>> '{fan_out,size}') !~ '^[1-9][0-9]{0,6}$'
               OR EXISTS (SELECT FROM jsonb_object_keys(step -> 'fan_out') AS k
                          WHERE k NOT IN ('over', 'size'))) THEN
            RAISE EXCEPTION 'step "%": "fan_out" must be {"over": [members], "size": entries a job}', key
                USING ERRCODE = 'invalid_parameter_value';
        END IF;
    END LOOP;

    FOR step IN SELECT jsonb_array_elements(p_steps) LOOP
        FOR parent IN SELECT jsonb_array_elements_text(coalesce(step -> 'depends_on', '[]')) LOOP
            IF parent <> ALL (keys) THEN
                RAISE EXCEPTION 'step "%" depends on "%", which is no step', step ->> 'key',
                    left(parent, 100) USING ERRCODE = 'invalid_parameter_value';
            END IF;
        END LOOP;
    END LOOP;

    -- Steps are taken away as soon as all before them are; what stays goes round in a circle.
    WHILE cardinality(placed) < cardinality(keys) LOOP
        SELECT array_agg(s ->> 'key') INTO ready FROM jsonb_array_elements(p_steps) AS s
        WHERE s ->> 'key' <> ALL (placed)
          AND NOT EXISTS (SELECT FROM jsonb_array_elements_text(coalesce(s -> 'depends_on', '[]')) AS d
                          WHERE d <> ALL (placed));
        IF ready IS NULL THEN
            RAISE EXCEPTION 'the steps % wait for one another',
                (SELECT string_agg(k, ', ') FROM unnest(keys) AS k WHERE k <> ALL (placed))
                USING ERRCODE = 'invalid_parameter_value';
        END IF;
        placed := placed || ready;
    END LOOP;

    FOR step IN SELECT jsonb_array_elements(p_steps) LOOP
        WITH RECURSIVE before (key) AS (
            SELECT jsonb_array_elements_text(coalesce(step -> 'depends_on', '[]'))
            UNION
            SELECT jsonb_array_elements_text(coalesce(s -> 'depends_on', '[]'))
            FROM before b JOIN jsonb_array_elements(p_steps) AS s ON s ->> 'key' = b.key
        )
        SELECT coalesce(array_agg(b.key), '{}') INTO ancestors FROM before b;
        FOR named IN
            SELECT m[1] FROM regexp_matches(coalesce(step -> 'params', '{}')::text,
                                            '\{\{\s*([A-Za-z_][A-Za-z0-9_.]*)\s*\}\}', 'g') AS m
        LOOP
            CONTINUE WHEN split_part(named, '.', 1) IN ('input', 'video', 'run');
            CONTINUE WHEN split_part(named, '.', 1) = 'steps'
                          AND split_part(named, '.', 2) = ANY (ancestors)
                          AND split_part(named, '.', 3) IN ('result', 'results', 'output');
            RAISE EXCEPTION 'step "%": {{%}} names neither the input, the video, the run, nor the result, results or output of a step before it',
                step ->> 'key', left(named, 100) USING ERRCODE = 'invalid_parameter_value';
        END LOOP;
    END LOOP;
END
$$;

-- A version never changes once it is there, for runs read it; a new active one takes the place of the
-- old.
CREATE FUNCTION workflows_before_write() RETURNS trigger
LANGUAGE plpgsql
SECURITY DEFINER SET search_path = pg_catalog, public AS
$$
BEGIN
    IF TG_OP = 'UPDATE' THEN
        IF (OLD.name, OLD.version, OLD.steps) IS DISTINCT FROM (NEW.name, NEW.version, NEW.steps) THEN
            RAISE EXCEPTION 'version % of workflow % does not change: add a new one', OLD.version, OLD.name
                USING ERRCODE = 'check_violation';
        END IF;
    ELSE
        PERFORM pg_advisory_xact_lock(hashtext('workflows'), hashtext(NEW.name));
        PERFORM check_workflow_steps(NEW.steps);
        NEW.version := coalesce(NEW.version,
            (SELECT coalesce(max(version), 0) + 1 FROM workflows WHERE name = NEW.name));
    END IF;
    IF NEW.is_active THEN
        UPDATE workflows SET is_active = false
        WHERE name = NEW.name AND is_active AND version <> NEW.version;
    END IF;
    RETURN NEW;
END
$$;
CREATE TRIGGER workflows_before_write BEFORE INSERT OR UPDATE ON workflows
    FOR EACH ROW EXECUTE FUNCTION workflows_before_write();

-- The active version of a workflow gets other steps: a new version, where they are others. Returns the
-- version in use.
CREATE FUNCTION change_workflow(p_name text, p_steps jsonb) RETURNS int
LANGUAGE plpgsql AS
$$
DECLARE
    current workflows;
BEGIN
    SELECT * INTO STRICT current FROM workflows WHERE name = p_name AND is_active;
    IF p_steps <> current.steps THEN
        INSERT INTO workflows (name, description, steps)
        VALUES (p_name, current.description, p_steps) RETURNING version INTO current.version;
    END IF;
    RETURN current.version;
END
$$;

-- ---- runs ----------------------------------------------------------------------------------------

-- The payload of a step whose turn has come: its defaults, the run's input (first steps), what its
-- parents hand on to its job type, its parameters; later ones win.
CREATE FUNCTION step_payload(p_run runs, p_step jsonb) RETURNS jsonb
LANGUAGE plpgsql AS
$$
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
        WHERE j.run_id = p_run.id AND j.step = ANY (parents) AND o.job_type = p_step ->> 'job_type'
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

-- Gives a job of a run its payload and makes it claimable; where its step fans out, the job becomes as
-- many as its lists fill, and what waits for it waits for all of them.
CREATE FUNCTION begin_step(p_job_id uuid) RETURNS void
LANGUAGE plpgsql AS
$$
DECLARE
    most_parts CONSTANT int := 10000;      -- a row each; a list that needs more gets larger parts
    job jobs;
    run runs;
    definition jsonb;
    full_payload jsonb;
    members text[];
    entries int;
    size int;
    parts jsonb[];
    others uuid[];
BEGIN
    SELECT * INTO job FROM jobs WHERE id = p_job_id;
    SELECT * INTO run FROM runs WHERE id = job.run_id;
    SELECT s INTO definition FROM workflows w, jsonb_array_elements(w.steps) AS s
    WHERE w.name = run.workflow AND w.version = run.version AND s ->> 'key' = job.step;
    full_payload := step_payload(run, definition);

    IF definition ? 'fan_out' THEN
        members := ARRAY(SELECT m FROM jsonb_array_elements_text(definition #> '{fan_out,over}') AS m
                         WHERE jsonb_typeof(full_payload -> m) = 'array');
        -- Lists of one length are cut alike; what is no list is left for the stage to refuse.
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
            full_payload := parts[1];
            WITH made AS (
                INSERT INTO jobs (job_type, video_id, payload, priority, sequence, correlation_id,
                                  tenant_id, run_id, step, part, exclusive, max_retries, is_ready,
                                  has_dependents)
                SELECT job.job_type, job.video_id, p.payload, job.priority, job.sequence,
                       job.correlation_id, job.tenant_id, job.run_id, job.step, p.number - 1,
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
    UPDATE jobs SET payload = full_payload, unmet_dependencies = 0, ready_at = clock_timestamp(),
                    is_ready = scheduled_for IS NULL OR scheduled_for <= clock_timestamp()
    WHERE id = p_job_id;
END
$$;

-- Where a tenant's next run belongs: like fair_sequence(), over all stages that it goes through, so
-- that it neither waits behind what others have piled up at the slowest of them, nor overtakes the
-- tenant's own.
CREATE FUNCTION fair_run_sequence(p_workflow text, p_steps jsonb, p_priority int, p_tenant_id uuid)
RETURNS bigint
LANGUAGE plpgsql AS
$$
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

CREATE FUNCTION start_run(
    p_workflow text,
    p_input jsonb DEFAULT '{}',
    p_video_id uuid DEFAULT NULL,
    p_priority int DEFAULT NULL,             -- NULL: the highest base priority of its types
    p_tenant_id uuid DEFAULT NULL,           -- NULL: the video's
    p_scheduled_for timestamptz DEFAULT NULL,
    p_correlation_id uuid DEFAULT NULL,
    p_version int DEFAULT NULL,              -- NULL: the active one
    OUT run_id uuid,
    OUT is_new boolean)
LANGUAGE plpgsql
SECURITY DEFINER SET search_path = pg_catalog, public AS
$$
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
        RAISE EXCEPTION 'there is no workflow %', concat_ws(' version ', p_workflow, p_version)
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
        SELECT s.id, s.type, p_video_id, coalesce((s.step ->> 'priority')::int, rank), place,
               correlation, tenant, start_run.run_id, s.key, t.one_per_video,
               cardinality(t.retry_delays),
               CASE WHEN jsonb_array_length(s.parents) = 0 THEN p_scheduled_for END,
               EXISTS (SELECT FROM steps c WHERE c.parents ? s.key),
               (SELECT array_agg(p.id) FROM steps p WHERE s.parents ? p.key),
               jsonb_array_length(s.parents) = 0
                   AND (p_scheduled_for IS NULL OR p_scheduled_for <= clock_timestamp())
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
            RAISE EXCEPTION 'jobs of video % are under way that belong to no run', p_video_id
                USING ERRCODE = 'unique_violation', HINT = 'Wait for them, or cancel them.';
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
    'Starts a workflow, in the caller''s transaction. Where the video is on its way already, that run comes back with is_new = false.';

-- What has become of runs whose jobs have changed: done when all their jobs are, failed or canceled
-- when nothing of them can run any more. Locked in order of id, behind the jobs.
CREATE FUNCTION settle_runs(p_run_ids uuid[]) RETURNS void
LANGUAGE plpgsql
SECURITY DEFINER SET search_path = pg_catalog, public AS
$$
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
        IF verdict = 'done' THEN
            DELETE FROM job_outputs o USING jobs j WHERE j.run_id = run.id AND o.job_id = j.id;
        END IF;
    END LOOP;
END
$$;

-- What a stage gives to its successor, inside the transaction that ends its job: in a run it waits for
-- the steps of that type behind it; a job on its own enqueues it at once, in the same run order.
CREATE FUNCTION hand_on(p_job_id uuid, p_token bigint, p_job_type text, p_payload jsonb)
RETURNS boolean
LANGUAGE plpgsql AS
$$
DECLARE
    job jobs;
BEGIN
    SELECT * INTO job FROM jobs
    WHERE id = p_job_id AND lease_token = p_token AND status = 'processing' FOR UPDATE;
    IF NOT FOUND THEN
        RETURN false;
    END IF;
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
    'Payload for the next stage; part of the transaction that completes the job. False: the lease is lost.';

-- Failed and canceled steps of a run once more, with fresh retries; what is done stays done. Returns
-- how many, null when there is no such run.
CREATE FUNCTION restart_run(p_run_id uuid) RETURNS bigint
LANGUAGE plpgsql
SECURITY DEFINER SET search_path = pg_catalog, public AS
$$
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

-- Stops every job of a run that is not done: 'canceled', 'requested' (something runs and is told),
-- 'wrong_state' or 'not_found'.
CREATE FUNCTION cancel_run(p_run_id uuid) RETURNS text
LANGUAGE plpgsql
SECURITY DEFINER SET search_path = pg_catalog, public AS
$$
DECLARE
    outcomes text[];
BEGIN
    IF NOT EXISTS (SELECT FROM runs WHERE id = p_run_id AND may_touch(tenant_id)) THEN
        RETURN 'not_found';
    END IF;
    SELECT array_agg(DISTINCT cancel_job(id)) INTO outcomes
    FROM (SELECT id FROM jobs WHERE run_id = p_run_id AND status IN ('queued', 'processing', 'failed')
          ORDER BY id) AS open;
    RETURN CASE WHEN 'requested' = ANY (outcomes) THEN 'requested'
                WHEN 'canceled' = ANY (outcomes) THEN 'canceled' ELSE 'wrong_state' END;
END
$$;

CREATE VIEW run_overview WITH (security_invoker = true) AS
SELECT r.id, r.workflow, r.version, r.video_id,
       coalesce(v.original_name, v.title, left(r.video_id::text, 8)) AS video, r.status, r.priority,
       r.created_at, r.finished_at, j.jobs, j.done, j.progress, j.current_steps, j.failed_step,
       j.error_type, j.error_message,
       round(extract(epoch FROM coalesce(r.finished_at, clock_timestamp()) - r.created_at) * 1000)::bigint
           AS running_ms
FROM runs r
LEFT JOIN videos v ON v.id = r.video_id
CROSS JOIN LATERAL (
    SELECT count(*) AS jobs, count(*) FILTER (WHERE status = 'done') AS done,
           coalesce(avg(progress), 0)::real AS progress,
           string_agg(DISTINCT step, ', ') FILTER (
               WHERE status = 'processing' OR status = 'queued' AND unmet_dependencies = 0)
               AS current_steps,
           min(step) FILTER (WHERE status = 'failed' AND scheduled_for IS NULL) AS failed_step,
           min(payload #>> '{error,type}') FILTER (WHERE status = 'failed' AND scheduled_for IS NULL)
               AS error_type,
           min(payload #>> '{error,message}') FILTER (WHERE status = 'failed' AND scheduled_for IS NULL)
               AS error_message
    FROM jobs WHERE run_id = r.id) AS j;
COMMENT ON VIEW run_overview IS 'One row a run, with its progress (0..1) and the steps it is at.';

INSERT INTO workflows (name, version, description, steps) VALUES
    ('video_pipeline', 1, 'an original to playback, frames, text and search', '[
        {"key": "transcode", "job_type": "transcode",
         "params": {"s3_original_path": "{{video.s3_original_path}}"}},
        {"key": "sample", "job_type": "sample", "depends_on": ["transcode"]},
        {"key": "ocr", "job_type": "ocr", "depends_on": ["sample"]},
        {"key": "segment_index", "job_type": "segment_index", "depends_on": ["ocr"]}]');

-- ---- who may do what -----------------------------------------------------------------------------

ALTER TABLE workflows ENABLE ROW LEVEL SECURITY;
ALTER TABLE runs ENABLE ROW LEVEL SECURITY;
ALTER TABLE job_outputs ENABLE ROW LEVEL SECURITY;
CREATE POLICY workflows_read ON workflows FOR SELECT TO authenticated USING (true);
CREATE POLICY workflows_service ON workflows TO service_role USING (true) WITH CHECK (true);
CREATE POLICY runs_read ON runs FOR SELECT TO authenticated
    USING (tenant_id = (SELECT auth.uid()) OR tenant_id = ANY ((SELECT current_team_ids())::uuid[])
           OR EXISTS (SELECT FROM videos v WHERE v.id = video_id));
CREATE POLICY runs_service ON runs TO service_role USING (true) WITH CHECK (true);
CREATE POLICY job_outputs_service ON job_outputs TO service_role USING (true) WITH CHECK (true);
REVOKE ALL ON workflows, runs, job_outputs, run_overview FROM PUBLIC, anon, authenticated;
GRANT SELECT ON workflows, runs, run_overview TO authenticated;
GRANT ALL ON workflows, runs, job_outputs TO service_role;
GRANT SELECT ON run_overview TO service_role;
REVOKE ALL ON FUNCTION workflows_before_write() FROM PUBLIC, anon, authenticated;
DO $$
DECLARE
    name text;
BEGIN
    FOREACH name IN ARRAY ARRAY['resolve_template', 'check_workflow_steps', 'step_payload', 'begin_step',
                                'fair_run_sequence', 'start_run', 'settle_runs', 'hand_on',
                                'restart_run', 'cancel_run', 'change_workflow'] LOOP
        EXECUTE format('REVOKE ALL ON FUNCTION %I FROM PUBLIC, anon, authenticated', name);
        EXECUTE format('GRANT EXECUTE ON FUNCTION %I TO service_role', name);
    END LOOP;
END
$$;
