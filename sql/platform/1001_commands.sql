-- Commands: the only programs that may be run as jobs. A definition maps a key to an exact list of arguments with
-- placeholders for values, and a JSON Schema says which values are allowed. A payload is checked when its job is
-- inserted, by any role, and again before the program starts.

-- ---- definitions --------------------------------------------------------------------------------

CREATE TABLE job_definitions (
    key text PRIMARY KEY CHECK (key ~ '^[a-z][a-z0-9-]{0,62}$'),
    description text NOT NULL,
    argv jsonb NOT NULL,
    payload_schema jsonb NOT NULL DEFAULT '{"type": "object", "additionalProperties": false}',
    environment text[] NOT NULL DEFAULT '{}',
    time_limit interval NOT NULL DEFAULT '10 minutes' CHECK (time_limit > '0'),
    max_attempts int CHECK (max_attempts BETWEEN 1 AND 20),
    priority job_priority,
    is_public boolean NOT NULL DEFAULT false,
    is_enabled boolean NOT NULL DEFAULT true,
    created_at timestamptz NOT NULL DEFAULT now(),
    updated_at timestamptz NOT NULL DEFAULT now()
);
COMMENT ON TABLE job_definitions IS 'The programs that jobs of type command may run.';
COMMENT ON COLUMN job_definitions.argv IS
    'The program and its arguments. Each is a text, which may contain {{args.name}}, or {"when": "name", "add": [text, '
    '…]}, whose texts are added if args.name is given and not false. The first is an absolute path, or cortana.';
COMMENT ON COLUMN job_definitions.payload_schema IS
    'JSON Schema of args in the payload; json_schema_fault() lists the supported keywords.';
COMMENT ON COLUMN job_definitions.environment IS
    'Environment variables that the worker passes on to the program besides PATH, HOME, TMPDIR and LANG; NAME* passes '
    'on all variables with this prefix.';
COMMENT ON COLUMN job_definitions.is_public IS 'Whether application roles may run the command, for their own tenant.';
COMMENT ON COLUMN job_definitions.key IS 'Name of the command.';
COMMENT ON COLUMN job_definitions.description IS 'What the command does.';
COMMENT ON COLUMN job_definitions.time_limit IS 'A program that runs longer than this is ended.';
COMMENT ON COLUMN job_definitions.max_attempts IS
    'How often the program is started before the job is dead; null: as often as the job type allows.';
COMMENT ON COLUMN job_definitions.priority IS
    'Priority of a job that run_command() enqueues without one; null: the base priority of the job type.';
COMMENT ON COLUMN job_definitions.is_enabled IS 'False: the command may not be run.';
COMMENT ON COLUMN job_definitions.created_at IS 'When the command was defined.';
COMMENT ON COLUMN job_definitions.updated_at IS 'When the command was last changed.';

SELECT secure_table('job_definitions');
CREATE POLICY job_definitions_read ON job_definitions FOR SELECT TO authenticated, cortana_app
    USING (is_public);
GRANT SELECT ON job_definitions TO authenticated, cortana_app;

CREATE FUNCTION cortana.job_definitions_before_write() RETURNS trigger
LANGUAGE plpgsql SECURITY DEFINER AS $$
DECLARE
    fault text := json_schema_defect(NEW.payload_schema);
    argument jsonb;
    name text;
BEGIN
    IF fault IS NOT NULL THEN
        RAISE EXCEPTION 'command %: %', NEW.key, fault USING ERRCODE = 'invalid_parameter_value';
    END IF;
    fault := json_schema_fault('{"type": "array", "minItems": 1, "maxItems": 64,
                                 "items": {"type": ["string", "object"], "maxLength": 4096}}', NEW.argv, 'argv');
    FOR argument IN SELECT a FROM jsonb_array_elements(CASE WHEN fault IS NULL THEN NEW.argv ELSE '[]' END) AS a
                    WHERE jsonb_typeof(a) = 'object' LOOP
        fault := json_schema_fault('{"required": ["when", "add"], "additionalProperties": false, "properties": {
            "when": {"type": "string", "minLength": 1},
            "add": {"type": "array", "items": {"type": "string", "maxLength": 4096}}}}', argument, 'argv');
        EXIT WHEN fault IS NOT NULL;
    END LOOP;
    fault := coalesce(fault, json_schema_fault('{"type": "string", "pattern": "^(/[^{}]+|cortana)$"}',
                                               NEW.argv -> 0, 'argv[0]'));
    IF fault IS NOT NULL THEN
        RAISE EXCEPTION 'command %: %', NEW.key, fault
            USING ERRCODE = 'invalid_parameter_value',
                  HINT = 'argv is a list of at most 64 texts; the first is an absolute path, or cortana.';
    END IF;
    FOR argument IN SELECT a FROM jsonb_path_query(NEW.argv, 'strict $.**', '{}', true) AS a
                    WHERE jsonb_typeof(a) = 'string' LOOP
        FOR name IN SELECT m[1] FROM regexp_matches(argument #>> '{}', '\{\{(.*?)\}\}', 'g') AS m LOOP
            IF name !~ '^args\.[A-Za-z_]\w*$' OR NOT coalesce(
                    NEW.payload_schema -> 'properties' ? substr(name, 6), false) THEN
                RAISE EXCEPTION 'command %: {{%}} is not a property of the schema', NEW.key, name
                    USING ERRCODE = 'invalid_parameter_value',
                          HINT = 'Write {{args.NAME}}, and describe NAME under "properties".';
            END IF;
        END LOOP;
    END LOOP;
    NEW.updated_at := now();
    RETURN NEW;
END
$$;
COMMENT ON FUNCTION cortana.job_definitions_before_write IS
    'Trigger: refuses a definition whose schema or arguments are wrong.';
CREATE TRIGGER job_definitions_before_write BEFORE INSERT OR UPDATE ON job_definitions
    FOR EACH ROW EXECUTE FUNCTION job_definitions_before_write();

CREATE FUNCTION cortana.fill_argument(p_template text, p_args jsonb, p_after_dashes boolean) RETURNS text[]
LANGUAGE plpgsql IMMUTABLE AS $$
DECLARE
    alone text := substring(p_template FROM '^\{\{args\.(\w+)\}\}$');
    filled text := '';
    piece text[];
    value jsonb;
    values text[];
BEGIN
    IF alone IS NOT NULL THEN
        value := p_args -> alone;
        values := CASE jsonb_typeof(value)
            WHEN 'array' THEN ARRAY(SELECT jsonb_array_elements_text(value)) WHEN 'null' THEN '{}'
            ELSE CASE WHEN value IS NULL THEN '{}' ELSE ARRAY[value #>> '{}'] END END;
        IF NOT p_after_dashes AND EXISTS (SELECT FROM unnest(values) AS v WHERE v LIKE '-%') THEN
            RAISE EXCEPTION 'args.% begins with a dash: the program would take it for an option', alone
                USING ERRCODE = 'invalid_parameter_value';
        END IF;
        RETURN values;
    END IF;
    FOR piece IN SELECT m FROM regexp_matches(p_template, '\{\{args\.(\w+)\}\}|(.)', 'g') AS m LOOP
        IF piece[1] IS NULL THEN
            filled := filled || piece[2];
        ELSIF coalesce(jsonb_typeof(p_args -> piece[1]), 'null') = 'null' THEN
            RETURN '{}';
        ELSE
            filled := filled || (p_args ->> piece[1]);
        END IF;
    END LOOP;
    RETURN ARRAY[filled];
END
$$;
COMMENT ON FUNCTION cortana.fill_argument IS
    'Turns one text of argv into arguments: none if a value is missing, and one for each entry if the text is a single '
    'placeholder for a list. Placeholders inside a value are not replaced.';

CREATE FUNCTION plan_command(p_payload jsonb, OUT argv text[], OUT environment text[],
                             OUT time_limit_ms bigint)
LANGUAGE plpgsql STABLE SECURITY DEFINER AS $$
DECLARE
    bytes_max CONSTANT int := 60 * 1024;  -- of all values together; the kernel would accept more, but nobody could read it
    args CONSTANT jsonb := coalesce(p_payload -> 'args', '{}');
    definition job_definitions;
    template jsonb;
    fault text;
BEGIN
    SELECT * INTO definition FROM job_definitions WHERE key = p_payload ->> 'command';
    IF NOT FOUND THEN
        RAISE EXCEPTION 'there is no command %', coalesce(p_payload ->> 'command', '(none named)')
            USING ERRCODE = 'invalid_parameter_value', HINT = 'The table job_definitions lists the commands.';
    END IF;
    IF NOT definition.is_enabled THEN
        RAISE EXCEPTION 'command % is not enabled', definition.key
            USING ERRCODE = 'invalid_parameter_value';
    END IF;
    IF octet_length(args::text) > bytes_max THEN
        RAISE EXCEPTION 'command %: args are larger than % bytes', definition.key, bytes_max
            USING ERRCODE = 'invalid_parameter_value';
    END IF;
    SELECT format('there is no %s beside command and args', quote_ident(k)) INTO fault
    FROM jsonb_object_keys(p_payload) AS k WHERE k NOT IN ('command', 'args') LIMIT 1;
    fault := coalesce(fault, json_schema_fault(definition.payload_schema, args, 'args'));
    IF fault IS NOT NULL THEN
        RAISE EXCEPTION 'command %: %', definition.key, fault USING ERRCODE = 'invalid_parameter_value';
    END IF;
    argv := '{}';
    FOR template IN SELECT jsonb_array_elements(definition.argv) LOOP
        IF jsonb_typeof(template) = 'string' THEN
            argv := argv || fill_argument(template #>> '{}', args, '--' = ANY (argv));
        ELSIF coalesce(args -> (template ->> 'when'), 'null') NOT IN ('null', 'false') THEN
            argv := argv || ARRAY(
                SELECT filled FROM jsonb_array_elements_text(template -> 'add') AS t (part),
                                   unnest(fill_argument(part, args, '--' = ANY (argv))) AS filled);
        END IF;
    END LOOP;
    environment := definition.environment;
    time_limit_ms := extract(epoch FROM definition.time_limit) * 1000;
END
$$;
COMMENT ON FUNCTION plan_command IS
    'Returns the exact arguments for a payload {"command", "args"}; raises an error if the payload is not valid.';

CREATE FUNCTION cortana.command_files(p_job_id uuid) RETURNS TABLE (input text, folder text)
LANGUAGE sql STABLE SECURITY DEFINER AS $$
    SELECT CASE WHEN j.id = p_job_id THEN NULL
                WHEN count(*) OVER (PARTITION BY j.id = p_job_id, j.step) = 1 THEN j.step
                ELSE format('%s/%s', j.step, j.part) END,
           CASE WHEN j.run_id IS NULL THEN format('outputs/%s/', j.id)
                ELSE format('outputs/%s/%s/%s/', j.run_id, j.step, j.part) END
    FROM jobs j
    WHERE j.job_type = 'command'
      AND (j.id = p_job_id OR j.id = ANY (SELECT unnest(depends_on) FROM jobs WHERE id = p_job_id))
$$;
COMMENT ON FUNCTION cortana.command_files IS
    'The folders of the store that hold files of a command. With input null: the folder that the command itself '
    'writes to. Otherwise the folder of a step that it depends on; the command finds these files below inputs/ in the '
    'folder with that name.';

-- ---- jobs ---------------------------------------------------------------------------------------

INSERT INTO job_types (name, description, base_priority, time_limit, is_public, cpu_weight) VALUES
    ('command', 'a program of job_definitions', 5, '1 day', true, 1);

CREATE FUNCTION cortana.jobs_check_command() RETURNS trigger
LANGUAGE plpgsql SECURITY DEFINER AS $$
BEGIN
    PERFORM plan_command(NEW.payload);
    IF NOT acts_for_everyone() AND NOT EXISTS (
        SELECT FROM job_definitions WHERE key = NEW.payload ->> 'command' AND is_public) THEN
        RAISE EXCEPTION 'applications may not run the command %', NEW.payload ->> 'command'
            USING ERRCODE = 'insufficient_privilege';
    END IF;
    NEW.max_retries := coalesce((SELECT max_attempts - 1 FROM job_definitions WHERE key = NEW.payload ->> 'command'),
                                NEW.max_retries);
    RETURN NEW;
END
$$;
COMMENT ON FUNCTION cortana.jobs_check_command IS
    'Trigger: refuses jobs of commands that may not run, for every role, and applies max_attempts. A step of a workflow gets its payload later; '
    'the worker therefore checks every payload again.';
CREATE TRIGGER jobs_check_command BEFORE INSERT ON jobs
    FOR EACH ROW WHEN (NEW.job_type = 'command' AND NEW.run_id IS NULL AND NEW.status = 'queued')
    EXECUTE FUNCTION jobs_check_command();

CREATE FUNCTION run_command(
    p_key text, p_args jsonb DEFAULT '{}', p_priority int DEFAULT NULL,
    p_scheduled_for timestamptz DEFAULT NULL, p_dedupe_key text DEFAULT NULL,
    p_tenant_id uuid DEFAULT NULL, OUT job_id uuid, OUT is_new boolean)
LANGUAGE sql AS $$
    SELECT * FROM enqueue_job('command', jsonb_build_object('command', p_key, 'args', p_args),
                              p_priority => coalesce(p_priority, (SELECT priority FROM job_definitions
                                                                  WHERE key = p_key)),
                              p_scheduled_for => p_scheduled_for,
                              p_dedupe_key => p_dedupe_key, p_tenant_id => p_tenant_id)
$$;
COMMENT ON FUNCTION run_command IS 'Enqueues a command of job_definitions, in the caller''s transaction.';

CREATE FUNCTION define_command(p_definition jsonb) RETURNS text
LANGUAGE plpgsql AS $$
DECLARE
    fault text := json_schema_fault('{
        "type": "object", "required": ["key"], "additionalProperties": false,
        "properties": {
            "key": {"type": "string"}, "description": {"type": "string"}, "argv": {"type": "array"},
            "payload_schema": {"type": ["object", "boolean"]},
            "environment": {"type": "array", "items": {"type": "string", "pattern": "^[A-Za-z_][A-Za-z0-9_]*[*]?$"}},
            "time_limit": {"type": "string"}, "max_attempts": {"type": ["integer", "null"]},
            "priority": {"type": ["integer", "string", "null"]}, "is_public": {"type": "boolean"},
            "is_enabled": {"type": "boolean"}}}', p_definition);
    known job_definitions;
    wanted job_definitions;
BEGIN
    IF fault IS NOT NULL THEN
        RAISE EXCEPTION '%', replace(fault, 'the payload', 'the definition')
            USING ERRCODE = 'invalid_parameter_value';
    END IF;
    SELECT * INTO known FROM job_definitions WHERE key = p_definition ->> 'key' FOR UPDATE;
    IF NOT FOUND THEN
        known := jsonb_populate_record(NULL::job_definitions, '{
            "payload_schema": {"type": "object", "additionalProperties": false}, "environment": [],
            "time_limit": "10 minutes", "is_public": false, "is_enabled": true, "description": ""}');
    END IF;
    IF p_definition ? 'priority' THEN
        p_definition := jsonb_set(p_definition, '{priority}',
                                  coalesce(to_jsonb(priority_number(p_definition ->> 'priority')), 'null'));
    END IF;
    wanted := jsonb_populate_record(known, p_definition);
    INSERT INTO job_definitions (key, description, argv, payload_schema, environment, time_limit,
                                 max_attempts, priority, is_public, is_enabled)
    VALUES (wanted.key, wanted.description, wanted.argv, wanted.payload_schema, wanted.environment,
            wanted.time_limit, wanted.max_attempts, wanted.priority, wanted.is_public, wanted.is_enabled)
    ON CONFLICT (key) DO UPDATE SET
        description = excluded.description, argv = excluded.argv,
        payload_schema = excluded.payload_schema, environment = excluded.environment,
        time_limit = excluded.time_limit, max_attempts = excluded.max_attempts, priority = excluded.priority,
        is_public = excluded.is_public,
        is_enabled = excluded.is_enabled;
    RETURN wanted.key;
END
$$;
COMMENT ON FUNCTION define_command IS
    'Adds or changes a command from a JSON object with the columns of job_definitions, and returns its key. Members '
    'that are missing keep their value, or get the default in a new command.';

-- ---- the commands that come with the system -----------------------------------------------------

INSERT INTO job_definitions (key, description, argv, payload_schema, environment, time_limit) VALUES
    ('archive-events', 'months of the timeline that are over to the store',
     '["cortana", "jobs", "archive", "--days={{args.days}}"]',
     '{"type": "object", "additionalProperties": false,
       "properties": {"days": {"type": "integer", "minimum": 1, "maximum": 36500}}}',
     '{DATABASE_URL,PG*,STORE_URL,S3_*,AWS_*}', '6 hours'),
    ('archive-jobs', 'jobs and runs that have ended, with their attempts, to the store',
     '["cortana", "jobs", "archive", "--jobs", "--days={{args.days}}"]',
     '{"type": "object", "additionalProperties": false,
       "properties": {"days": {"type": "integer", "minimum": 1, "maximum": 36500}}}',
     '{DATABASE_URL,PG*,STORE_URL,S3_*,AWS_*}', '6 hours'),
    ('gc', 'objects that no row knows, found and (remove) removed',
     '["cortana", "gc", "--json", {"when": "remove", "add": ["--remove"]}, {"when": "rows", "add": ["--rows"]},
       "--min-age={{args.min_age_hours}}"]',
     '{"type": "object", "additionalProperties": false,
       "properties": {"remove": {"type": "boolean"}, "rows": {"type": "boolean"},
                      "min_age_hours": {"type": "number", "minimum": 0, "maximum": 87600}}}',
     '{DATABASE_URL,PG*,STORE_URL,S3_*,AWS_*,CORTANA_CLIP_DAYS}', '12 hours'),
    ('purge-clips', 'clips older than CORTANA_CLIP_DAYS, removed',
     '["cortana", "gc", "--json", "--clips"]', DEFAULT,
     '{DATABASE_URL,PG*,STORE_URL,S3_*,AWS_*,CORTANA_CLIP_DAYS}', '1 hour'),
    ('reindex', 'videos read again with other models, from the pictures of their lines',
     '["cortana", "reindex", {"when": "all", "add": ["--all"]}, "--languages={{args.languages}}",
       "--", "{{args.videos}}"]',
     '{"type": "object", "additionalProperties": false,
       "properties": {"all": {"const": true},
                      "languages": {"type": "string", "pattern": "^[A-Za-z_/+]{1,200}$"},
                      "videos": {"type": "array", "minItems": 1, "maxItems": 1000,
                                 "items": {"type": "string", "minLength": 1, "maxLength": 200}}}}',
     '{DATABASE_URL,PG*,STORE_URL,S3_*,AWS_*}', '1 hour'),
    ('prune-embeddings', 'vectors of texts that are gone, forgotten',
     '["cortana", "embeddings", "prune"]', DEFAULT, '{DATABASE_URL,PG*}', '1 hour');

-- ---- who may call what --------------------------------------------------------------------------

SELECT secure_objects();
GRANT EXECUTE ON FUNCTION run_command TO cortana_app;
