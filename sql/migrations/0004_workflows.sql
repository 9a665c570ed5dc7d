-- Kinds of work, and workflows: named graphs of steps.

CREATE DOMAIN job_type AS text CHECK (VALUE ~ '^[a-z][a-z0-9_]{0,62}$');
COMMENT ON DOMAIN job_type IS
    'Name of a type of job, registered in job_types. It is a domain over text, so that a new type needs only a '
    'new row, and the table jobs need not be rewritten.';

CREATE DOMAIN cortana.job_priority AS int CHECK (VALUE BETWEEN 0 AND 10);
COMMENT ON DOMAIN cortana.job_priority IS
    '0 to 10. It is a domain, because a domain checks a value only when the value is set, whereas a CHECK '
    'constraint of the table checks every row that is written.';

CREATE FUNCTION cortana.priority_names() RETURNS jsonb
LANGUAGE sql IMMUTABLE PARALLEL SAFE
RETURN jsonb '{"low": 1, "normal": 5, "high": 8, "urgent": 10}';
COMMENT ON FUNCTION cortana.priority_names IS
    'The priorities that have a name, with their numbers. Low: nobody waits for the job. High: somebody will look for the '
    'result. Urgent: a user waits for it.';

CREATE FUNCTION cortana.priority_list() RETURNS text
LANGUAGE sql IMMUTABLE PARALLEL SAFE
RETURN (SELECT string_agg(key, ', ' ORDER BY value) FROM jsonb_each(priority_names()));
COMMENT ON FUNCTION cortana.priority_list IS 'The names of priorities, the lowest first, for messages.';

CREATE FUNCTION priority_number(p_priority text) RETURNS int
LANGUAGE plpgsql IMMUTABLE STRICT PARALLEL SAFE AS $$
BEGIN
    IF priority_names() ? p_priority THEN
        RETURN priority_names() ->> p_priority;
    ELSIF p_priority ~ '^([0-9]|10)$' THEN
        RETURN p_priority;
    END IF;
    RAISE EXCEPTION 'a priority is one of % or a number from 0 to 10, not "%"', priority_list(), left(p_priority, 100)
        USING ERRCODE = 'invalid_parameter_value';
END
$$;
COMMENT ON FUNCTION priority_number IS
    'Returns the number of a priority: low is 1, normal 5, high 8, urgent 10, and a number from 0 to 10 is itself.';

CREATE DOMAIN cortana.job_counter AS int CHECK (VALUE >= 0);
COMMENT ON DOMAIN cortana.job_counter IS 'A count that is not negative.';

CREATE DOMAIN cortana.job_progress AS real CHECK (VALUE BETWEEN 0 AND 1);
COMMENT ON DOMAIN cortana.job_progress IS 'Progress of an attempt, 0 to 1.';

CREATE DOMAIN cortana.attempt_status AS text
    CHECK (VALUE IN ('succeeded', 'failed', 'timeout', 'canceled', 'crashed'));
COMMENT ON DOMAIN cortana.attempt_status IS 'How an attempt ended.';

CREATE DOMAIN cortana.event_level AS text CHECK (VALUE IN ('debug', 'info', 'warn', 'error'));
COMMENT ON DOMAIN cortana.event_level IS 'Severity of an event.';

CREATE TYPE job_status AS ENUM ('queued', 'processing', 'done', 'failed', 'canceled');
COMMENT ON TYPE job_status IS
    'States of a job; cortana.job_transition_allowed() says from which state to which a job may change.';

CREATE TABLE job_types (
    name job_type PRIMARY KEY,
    description text NOT NULL,
    base_priority job_priority NOT NULL DEFAULT 5,
    time_limit interval NOT NULL DEFAULT '1 hour' CHECK (time_limit > '0'),
    retry_delays interval[] NOT NULL DEFAULT '{1 minute,5 minutes,15 minutes}',
    one_per_video boolean NOT NULL DEFAULT false,
    is_public boolean NOT NULL DEFAULT false,
    payload_defaults jsonb NOT NULL DEFAULT '{}',
    payload_schema jsonb,
    payload_bytes int NOT NULL DEFAULT 65536 CHECK (payload_bytes BETWEEN 1024 AND 8388608),
    -- Rules for claims: a change takes effect with the next claim and does not stop running jobs.
    cpu_weight int NOT NULL DEFAULT 1 CHECK (cpu_weight BETWEEN 1 AND 5),
    max_running int CHECK (max_running >= 0),
    max_running_per_tenant int CHECK (max_running_per_tenant >= 1),
    interactive_adjustment int NOT NULL DEFAULT 0 CHECK (interactive_adjustment BETWEEN -10 AND 0),
    put_off_while_interactive boolean NOT NULL DEFAULT false,
    put_off_until timestamptz,
    paused_at timestamptz,
    pause_reason text,
    status_events boolean NOT NULL DEFAULT true,
    updated_at timestamptz NOT NULL DEFAULT now()
);
COMMENT ON TABLE job_types IS
    'The types of jobs, and the rules by which workers claim them. The rules may be changed at any time.';
COMMENT ON COLUMN job_types.retry_delays IS
    'How long a job waits before each of its retries, one entry a retry; 20 % jitter is applied to each.';
COMMENT ON COLUMN job_types.cpu_weight IS
    'How much of the CPU budget of its host (hosts.cpu_budget) a running job takes.';
COMMENT ON COLUMN job_types.max_running IS
    'How many jobs of the type may run at once in the whole fleet; null: no limit.';
COMMENT ON COLUMN job_types.max_running_per_tenant IS
    'How many jobs of the type one tenant may have running at once in the whole fleet; null: no limit.';
COMMENT ON COLUMN job_types.interactive_adjustment IS
    'Added to base_priority while a user searches or plays, when types compete for the CPUs of a host.';
COMMENT ON COLUMN job_types.put_off_while_interactive IS
    'While a user searches or plays, jobs of this type are not claimed: each claim is put off by 30 s.';
COMMENT ON COLUMN job_types.status_events IS
    'False: among the changes of status, only failures are written to task_events; meant for types with thousands '
    'of jobs a second.';
COMMENT ON COLUMN job_types.name IS 'Name of the type.';
COMMENT ON COLUMN job_types.description IS 'What jobs of the type do.';
COMMENT ON COLUMN job_types.base_priority IS 'Priority of a job that is enqueued without one, 0 to 10.';
COMMENT ON COLUMN job_types.time_limit IS 'An attempt that makes no progress for this long is ended.';
COMMENT ON COLUMN job_types.one_per_video IS
    'True for a stage of the pipeline: at most one job waits or runs for each video and step.';
COMMENT ON COLUMN job_types.is_public IS 'Whether application roles may enqueue jobs of the type for their own tenant.';
COMMENT ON COLUMN job_types.payload_defaults IS
    'Members of the payload that a job gets when it is enqueued without them; {{video.NAME}} is the column of its video.';
COMMENT ON COLUMN job_types.payload_schema IS
    'JSON Schema of the payload; json_schema_fault() lists the supported keywords. A job whose payload it refuses is not '
    'enqueued. Null: any object.';
COMMENT ON COLUMN job_types.payload_bytes IS 'How many bytes a payload may have as text.';
COMMENT ON COLUMN job_types.put_off_until IS
    'Jobs of the type are not claimed before this time; set by a claim that finds an interactive session.';
COMMENT ON COLUMN job_types.paused_at IS 'When the type was paused; null: not paused. A paused type is not claimed.';
COMMENT ON COLUMN job_types.pause_reason IS 'Why the type is paused.';
COMMENT ON COLUMN job_types.updated_at IS 'When the row was last changed.';

SELECT secure_table('job_types');
CREATE POLICY job_types_read ON job_types FOR SELECT TO authenticated USING (true);
GRANT SELECT ON job_types TO authenticated;

-- Schemas of payloads say what their stages refuse, so that no job is enqueued that can only become a dead letter.
INSERT INTO job_types (name, description, base_priority, time_limit, one_per_video, is_public,
                       cpu_weight, payload_defaults, payload_schema) VALUES
    ('transcode', 'original to HLS and poster', 4, '1 hour', true, true, 4,
     '{"video_id": "{{video.id}}", "s3_original_path": "{{video.s3_original_path}}"}',
     '{"required": ["video_id", "s3_original_path"], "properties": {
         "video_id": {"type": "string", "format": "uuid"}, "s3_original_path": {"type": "string", "minLength": 1},
         "renditions": {"type": "array", "minItems": 1, "items": {"enum": [2160, 1440, 1080, 720, 480, 360, 240]}},
         "segments": {"enum": ["fmp4", "ts"]}, "copy": {"type": "boolean"}}}'),
    ('sample', 'original to the frames worth reading', 5, '1 hour', true, true, 3,
     '{"video_id": "{{video.id}}", "s3_original_path": "{{video.s3_original_path}}"}',
     '{"required": ["video_id", "s3_original_path"], "properties": {
         "video_id": {"type": "string", "format": "uuid"}, "s3_original_path": {"type": "string", "minLength": 1},
         "target_fps": {"type": "number", "minimum": 0.1, "maximum": 60},
         "dedupe_threshold": {"type": "number", "minimum": 0, "maximum": 1},
         "part_seconds": {"type": "integer", "minimum": 0, "maximum": 86400},
         "from_ms": {"type": "integer", "minimum": 0, "maximum": 2147483647}}}'),
    ('ocr', 'frames to text detections', 5, '1 hour', true, true, 3,
     '{"video_id": "{{video.id}}"}',
     '{"required": ["video_id"], "anyOf": [{"required": ["frame_paths"]}, {"required": ["line_paths"]}], "properties": {
         "video_id": {"type": "string", "format": "uuid"},
         "frame_paths": {"type": "array", "items": {"type": "string"}},
         "line_paths": {"type": "array", "minItems": 1, "items": {"type": "string"}},
         "languages": {"type": "array", "minItems": 1, "maxItems": 8, "items": {"type": "string"}},
         "min_confidence": {"type": "number", "minimum": 0, "maximum": 1}}}'),
    ('segment_index', 'detections to segments, entities and search', 5, '10 minutes', true, true, 1,
     '{"video_id": "{{video.id}}"}',
     '{"required": ["video_id"], "properties": {"video_id": {"type": "string", "format": "uuid"}}}'),
    ('clip_generate', 'an exact clip around a hit', 10, '10 minutes', false, true, 2,
     '{"video_id": "{{video.id}}", "s3_original_path": "{{video.s3_original_path}}"}',
     '{"required": ["video_id", "clip_id", "t_start", "s3_original_path"], "properties": {
         "video_id": {"type": "string", "format": "uuid"}, "clip_id": {"type": "string", "format": "uuid"},
         "s3_original_path": {"type": "string", "minLength": 1},
         "t_start": {"type": "integer", "minimum": 0, "maximum": 2147483647},
         "t_end": {"type": "integer", "minimum": 0, "maximum": 2147483647},
         "padding_ms": {"type": "integer", "minimum": 0, "maximum": 60000},
         "format": {"enum": ["mp4", "webm", "gif", "jpg"]}, "mode": {"enum": ["smart", "encode"]},
         "max_height": {"type": "integer", "minimum": 16, "maximum": 16384}, "mute": {"type": "boolean"},
         "redact": {"type": "array", "minItems": 1, "maxItems": 50, "items": {"type": "string", "minLength": 1, "maxLength": 200}},
         "covers": {"type": "array", "maxItems": 20000, "items": {"type": "object"}},
         "quote": {"type": "object", "required": ["lines", "alt"], "additionalProperties": false, "properties": {"alt": {"type": "string"},
                   "lines": {"type": "array", "minItems": 1, "maxItems": 4, "items": {"type": "string", "maxLength": 400}}}},
         "parts": {"type": "array", "minItems": 1, "maxItems": 100, "items": {"type": "object", "required": ["video_id", "t_start", "quote"],
                   "properties": {"video_id": {"type": "string", "format": "uuid"}, "t_start": {"type": "integer"}}}},
         "left_out": {"type": "array", "items": {"type": "object"}}, "places": {"type": "integer"}, "words": {"type": "string"},
         "readers": {"type": "array", "items": {"type": "string", "format": "uuid"}},
         "crop": {"type": "object", "required": ["x", "y", "width", "height"], "additionalProperties": false,
                  "properties": {"x": {"type": "integer", "minimum": 0, "maximum": 16384},
                                 "y": {"type": "integer", "minimum": 0, "maximum": 16384},
                                 "width": {"type": "integer", "minimum": 16, "maximum": 16384},
                                 "height": {"type": "integer", "minimum": 16, "maximum": 16384}}}}}');
UPDATE job_types SET payload_bytes = 524288 WHERE name = 'clip_generate';   -- some 1,500 places that a clip covers

CREATE TABLE workflows (
    name text NOT NULL CHECK (name ~ '^[a-z][a-z0-9_]{0,62}$'),
    version int NOT NULL CHECK (version > 0),
    is_active boolean NOT NULL DEFAULT true,
    steps jsonb NOT NULL,
    description text,
    created_at timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (name, version)
);
COMMENT ON TABLE workflows IS 'Versions of workflows: named graphs of steps.';
COMMENT ON COLUMN workflows.steps IS
    'A list of {key, job_type, depends_on, defaults, params, fan_out: {over, size}, priority, description}; only key '
    'and job_type are required.';
COMMENT ON COLUMN workflows.name IS 'Name of the workflow.';
COMMENT ON COLUMN workflows.version IS 'Number of the version; the steps of a version never change.';
COMMENT ON COLUMN workflows.is_active IS 'Whether new runs use this version.';
COMMENT ON COLUMN workflows.description IS 'What the workflow does.';
COMMENT ON COLUMN workflows.created_at IS 'When the version was made.';

CREATE UNIQUE INDEX workflows_one_active ON workflows (name) WHERE is_active;

SELECT secure_table('workflows');
CREATE POLICY workflows_read ON workflows FOR SELECT TO authenticated USING (true);
GRANT SELECT ON workflows TO authenticated;

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
    sequence bigint NOT NULL,
    correlation_id uuid NOT NULL DEFAULT gen_random_uuid(),
    created_at timestamptz NOT NULL DEFAULT now(),
    finished_at timestamptz,
    FOREIGN KEY (workflow, version) REFERENCES workflows (name, version)
);
COMMENT ON TABLE runs IS 'Runs of workflows.';
COMMENT ON COLUMN runs.id IS 'Identifier.';
COMMENT ON COLUMN runs.workflow IS 'Name of the workflow.';
COMMENT ON COLUMN runs.version IS 'Version of the workflow.';
COMMENT ON COLUMN runs.video_id IS 'The video that the run works on.';
COMMENT ON COLUMN runs.tenant_id IS 'The tenant that the run belongs to.';
COMMENT ON COLUMN runs.status IS 'running, done, failed or canceled.';
COMMENT ON COLUMN runs.input IS 'Input of the run; the steps without parents receive it.';
COMMENT ON COLUMN runs.priority IS '0 to 10.';
COMMENT ON COLUMN runs.sequence IS 'Place of the run''s jobs in the queue of every stage.';
COMMENT ON COLUMN runs.correlation_id IS 'Shared by all jobs, runs and events that one cause led to.';
COMMENT ON COLUMN runs.created_at IS 'When the run was started.';
COMMENT ON COLUMN runs.finished_at IS 'When the run ended.';

CREATE INDEX runs_of_tenant ON runs (tenant_id, workflow, priority, sequence) WHERE status = 'running';
CREATE INDEX runs_video ON runs (video_id, created_at) WHERE video_id IS NOT NULL;
CREATE INDEX runs_workflow ON runs (workflow, created_at);

SELECT secure_table('runs');
CREATE POLICY runs_read ON runs FOR SELECT TO authenticated
    USING (tenant_id = (SELECT auth.uid()) OR tenant_id = ANY ((SELECT current_team_ids())::uuid[])
           OR EXISTS (SELECT FROM videos v WHERE v.id = video_id));
GRANT SELECT ON runs TO authenticated;

-- ---- templates ----------------------------------------------------------------------------------

-- Replaces {{path}} in the strings of a JSON value with the value at that path in p_scope. A string that consists
-- of a single placeholder becomes the value itself. A member whose value is missing is left out.
CREATE FUNCTION cortana.resolve_template(p_template jsonb, p_scope jsonb) RETURNS jsonb
LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE AS $$
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
COMMENT ON FUNCTION cortana.resolve_template IS
    'Replaces placeholders such as {{a.b.0}} in the strings of p_template with the values at these paths in '
    'p_scope. Members whose value is missing are left out.';

-- ---- definitions --------------------------------------------------------------------------------

CREATE FUNCTION cortana.check_workflow_steps(p_steps jsonb) RETURNS void
LANGUAGE plpgsql AS $$
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
        RAISE EXCEPTION 'the steps must be a list of 1 to 200 objects' USING ERRCODE = 'invalid_parameter_value';
    END IF;
    -- A run does not copy the steps: it reads them again for each step.
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
            RAISE EXCEPTION 'step "%": the member "%" is unknown', key, left(named, 100)
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
        IF step ? 'priority' AND NOT (priority_names() ? coalesce(step ->> 'priority', '')
                                      OR coalesce(step ->> 'priority', '') ~ '^([0-9]|10)$') THEN
            RAISE EXCEPTION 'step "%": "priority" must be one of % or a whole number from 0 to 10', key, priority_list()
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
                RAISE EXCEPTION 'step "%" depends on "%", but there is no step of that name', step ->> 'key',
                    left(parent, 100) USING ERRCODE = 'invalid_parameter_value';
            END IF;
        END LOOP;
    END LOOP;

    -- A step is placed once all steps that it depends on are placed. Steps that cannot be placed form a cycle.
    WHILE cardinality(placed) < cardinality(keys) LOOP
        SELECT array_agg(s ->> 'key') INTO ready FROM jsonb_array_elements(p_steps) AS s
        WHERE s ->> 'key' <> ALL (placed)
          AND NOT EXISTS (SELECT FROM jsonb_array_elements_text(coalesce(s -> 'depends_on', '[]')) AS d
                          WHERE d <> ALL (placed));
        IF ready IS NULL THEN
            RAISE EXCEPTION 'the steps % depend on one another in a cycle',
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
            RAISE EXCEPTION 'step "%": {{%}} must name the input, the video, the run, or the result, results or output of a step that this step depends on',
                step ->> 'key', left(named, 100) USING ERRCODE = 'invalid_parameter_value';
        END LOOP;
    END LOOP;
END
$$;
COMMENT ON FUNCTION cortana.check_workflow_steps IS
    'Raises an error that names the first fault of a workflow''s steps, for the person who wrote the workflow.';

CREATE FUNCTION cortana.workflows_before_write() RETURNS trigger
LANGUAGE plpgsql SECURITY DEFINER AS $$
BEGIN
    IF TG_OP = 'UPDATE' THEN
        IF (OLD.name, OLD.version, OLD.steps) IS DISTINCT FROM (NEW.name, NEW.version, NEW.steps) THEN
            RAISE EXCEPTION 'version % of workflow % cannot be changed: add a new version', OLD.version, OLD.name
                USING ERRCODE = 'check_violation';
        END IF;
    ELSE
        PERFORM acquire_lock('workflow ' || NEW.name);
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
COMMENT ON FUNCTION cortana.workflows_before_write IS
    'Trigger: checks the steps of a new version and refuses to change those of an existing version, because runs '
    'read them. A new active version makes the previous one inactive.';
CREATE TRIGGER workflows_before_write BEFORE INSERT OR UPDATE ON workflows
    FOR EACH ROW EXECUTE FUNCTION workflows_before_write();

CREATE FUNCTION change_workflow(p_name text, p_steps jsonb) RETURNS int
LANGUAGE plpgsql AS $$
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
COMMENT ON FUNCTION change_workflow IS
    'Adds a version of a workflow with the given steps, and makes new runs use it. If the steps are those of the '
    'version in use, nothing changes. Returns the number of the version in use.';

-- ---- who may call what --------------------------------------------------------------------------

REVOKE ALL ON FUNCTION priority_number FROM PUBLIC, anon;
SELECT secure_objects();
GRANT EXECUTE ON FUNCTION priority_number, cortana.priority_names, cortana.priority_list TO authenticated, cortana_app;
