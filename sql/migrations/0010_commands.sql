-- Commands: programs that may be run as jobs, and nothing else may. A definition maps a key to an exact
-- argument list with places for values, and says by a JSON Schema which values there may be; a payload
-- is checked when its job comes in, whoever enqueues it, and again before the program starts.

-- ---- JSON Schema ---------------------------------------------------------------------------------
-- Draft 7 (https://json-schema.org/draft-07), whole but for what leaves the document: `$ref` reaches
-- `#`, JSON pointers (RFC 6901) and the "#name" of an `$id` in the same schema; others are refused when
-- a definition is written. `format`, `contentEncoding` and the like are notes, as the draft allows.
-- Patterns are PostgreSQL's regular expressions.

CREATE FUNCTION json_pointer_part(p_part text) RETURNS text
LANGUAGE plpgsql IMMUTABLE STRICT PARALLEL SAFE
SET search_path = pg_catalog AS
$$
DECLARE
    decoded bytea := '';
    piece text[];
BEGIN
    FOR piece IN SELECT m FROM regexp_matches(p_part, '%([0-9A-Fa-f]{2})|([^%]+|%)', 'g') AS m LOOP
        decoded := decoded || coalesce(decode(piece[1], 'hex'), convert_to(piece[2], 'UTF8'));
    END LOOP;
    RETURN replace(replace(convert_from(decoded, 'UTF8'), '~1', '/'), '~0', '~');
END
$$;

-- The schema that a reference within p_root means; null: there is none.
CREATE FUNCTION json_schema_target(p_root jsonb, p_reference text) RETURNS jsonb
LANGUAGE sql IMMUTABLE STRICT PARALLEL SAFE
SET search_path = pg_catalog, public AS
$$
    SELECT CASE
        WHEN p_reference = '#' THEN p_root
        WHEN p_reference LIKE '#/%' THEN p_root #> (
            SELECT array_agg(json_pointer_part(part) ORDER BY place)
            FROM string_to_table(substr(p_reference, 3), '/') WITH ORDINALITY AS t (part, place))
        WHEN p_reference LIKE '#%' THEN jsonb_path_query_first(
            p_root, 'strict $.** ? (@."$id" == $name)', jsonb_build_object('name', p_reference), true)
    END
$$;

CREATE FUNCTION json_schema_is_type(p_value jsonb, p_type text) RETURNS boolean
LANGUAGE sql IMMUTABLE STRICT PARALLEL SAFE
SET search_path = pg_catalog AS
$$
    SELECT CASE WHEN p_type = 'integer'
                THEN jsonb_typeof(p_value) = 'number' AND p_value::numeric = trunc(p_value::numeric)
                ELSE jsonb_typeof(p_value) = p_type END
$$;

-- What is wrong with a value, at which place of it; null: it fits the schema. The first fault is told.
CREATE FUNCTION json_schema_fault(
    p_schema jsonb, p_value jsonb, p_root jsonb DEFAULT NULL, p_place text DEFAULT '',
    p_depth int DEFAULT 0) RETURNS text
LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE
SET search_path = pg_catalog, public AS
$$
DECLARE
    depth_max CONSTANT int := 64;
    root CONSTANT jsonb := coalesce(p_root, p_schema);
    kind CONSTANT text := jsonb_typeof(p_value);
    place CONSTANT text := coalesce(nullif(p_place, ''), 'the payload');
    target jsonb;
    fault text;
BEGIN
    IF p_depth > depth_max THEN
        RETURN format('%s: the schema goes deeper than %s levels', place, depth_max);
    END IF;
    IF jsonb_typeof(p_schema) = 'boolean' THEN
        RETURN CASE WHEN p_schema = 'false' THEN format('%s is not allowed', place) END;
    END IF;
    IF jsonb_typeof(p_schema -> '$ref') = 'string' THEN  -- in this draft its neighbours count for nothing
        target := json_schema_target(root, p_schema ->> '$ref');
        IF target IS NULL THEN
            RETURN format('%s: the schema refers to %s, which it does not have', place, p_schema ->> '$ref');
        END IF;
        RETURN json_schema_fault(target, p_value, root, p_place, p_depth + 1);
    END IF;

    IF p_schema ? 'type' AND NOT EXISTS (
        SELECT FROM jsonb_array_elements_text(CASE jsonb_typeof(p_schema -> 'type') WHEN 'array'
                THEN p_schema -> 'type' ELSE jsonb_build_array(p_schema -> 'type') END) AS t (type)
        WHERE json_schema_is_type(p_value, t.type)) THEN
        RETURN format('%s is a %s, not %s', place, kind, p_schema -> 'type');
    END IF;
    IF p_schema ? 'enum' AND NOT EXISTS (
        SELECT FROM jsonb_array_elements(p_schema -> 'enum') AS e WHERE e = p_value) THEN
        RETURN format('%s is none of %s', place, p_schema -> 'enum');
    END IF;
    IF p_schema ? 'const' AND p_value <> p_schema -> 'const' THEN
        RETURN format('%s is not %s', place, p_schema -> 'const');
    END IF;
    fault := CASE kind
        WHEN 'number' THEN json_schema_number_fault(p_schema, p_value::numeric)
        WHEN 'string' THEN json_schema_string_fault(p_schema, p_value #>> '{}')
    END;
    IF fault IS NOT NULL THEN
        RETURN format('%s %s', place, fault);
    END IF;
    RETURN coalesce(
        CASE kind WHEN 'array' THEN json_schema_array_fault(p_schema, p_value, root, p_place, p_depth)
                  WHEN 'object' THEN json_schema_object_fault(p_schema, p_value, root, p_place, p_depth)
        END,
        json_schema_combined_fault(p_schema, p_value, root, p_place, p_depth));
END
$$;
COMMENT ON FUNCTION json_schema_fault IS
    'What is wrong with a value by a JSON Schema (draft 7), in words; null: nothing.';

CREATE FUNCTION json_schema_number_fault(p_schema jsonb, p_value numeric) RETURNS text
LANGUAGE sql IMMUTABLE PARALLEL SAFE
SET search_path = pg_catalog AS
$$
    SELECT CASE
        WHEN p_value > (p_schema -> 'maximum')::numeric
            THEN format('is more than %s', p_schema -> 'maximum')
        WHEN p_value < (p_schema -> 'minimum')::numeric
            THEN format('is less than %s', p_schema -> 'minimum')
        WHEN p_value >= (p_schema -> 'exclusiveMaximum')::numeric
            THEN format('is not less than %s', p_schema -> 'exclusiveMaximum')
        WHEN p_value <= (p_schema -> 'exclusiveMinimum')::numeric
            THEN format('is not more than %s', p_schema -> 'exclusiveMinimum')
        WHEN p_value % (p_schema -> 'multipleOf')::numeric <> 0
            THEN format('is no multiple of %s', p_schema -> 'multipleOf')
    END
$$;

CREATE FUNCTION json_schema_string_fault(p_schema jsonb, p_value text) RETURNS text
LANGUAGE sql IMMUTABLE PARALLEL SAFE
SET search_path = pg_catalog AS
$$
    SELECT CASE
        WHEN length(p_value) > (p_schema -> 'maxLength')::numeric
            THEN format('has more than %s characters', p_schema -> 'maxLength')
        WHEN length(p_value) < (p_schema -> 'minLength')::numeric
            THEN format('has less than %s characters', p_schema -> 'minLength')
        WHEN p_value !~ (p_schema ->> 'pattern')
            THEN format('does not fit the pattern %s', p_schema ->> 'pattern')
    END
$$;

CREATE FUNCTION json_schema_array_fault(p_schema jsonb, p_value jsonb, p_root jsonb, p_place text,
                                        p_depth int) RETURNS text
LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE
SET search_path = pg_catalog, public AS
$$
DECLARE
    count CONSTANT int := jsonb_array_length(p_value);
    place CONSTANT text := coalesce(nullif(p_place, ''), 'the payload');
    is_tuple CONSTANT boolean := coalesce(jsonb_typeof(p_schema -> 'items') = 'array', false);
    item_schema jsonb;
    fault text;
BEGIN
    IF count > (p_schema -> 'maxItems')::numeric THEN
        RETURN format('%s has more than %s entries', place, p_schema -> 'maxItems');
    ELSIF count < (p_schema -> 'minItems')::numeric THEN
        RETURN format('%s has less than %s entries', place, p_schema -> 'minItems');
    ELSIF (p_schema -> 'uniqueItems')::boolean
        AND count <> (SELECT count(DISTINCT e) FROM jsonb_array_elements(p_value) AS e) THEN
        RETURN format('%s has an entry twice', place);
    END IF;
    FOR i IN 0 .. count - 1 LOOP
        item_schema := CASE WHEN NOT is_tuple THEN p_schema -> 'items'
                            WHEN i < jsonb_array_length(p_schema -> 'items')
                            THEN p_schema -> 'items' -> i
                            ELSE p_schema -> 'additionalItems' END;
        CONTINUE WHEN item_schema IS NULL;
        fault := json_schema_fault(item_schema, p_value -> i, p_root, format('%s[%s]', p_place, i),
                                   p_depth + 1);
        IF fault IS NOT NULL THEN
            RETURN fault;
        END IF;
    END LOOP;
    IF p_schema ? 'contains' AND NOT EXISTS (
        SELECT FROM jsonb_array_elements(p_value) AS e
        WHERE json_schema_fault(p_schema -> 'contains', e, p_root, p_place, p_depth + 1) IS NULL) THEN
        RETURN format('%s has no entry of the kind that it must contain', place);
    END IF;
    RETURN NULL;
END
$$;

CREATE FUNCTION json_schema_object_fault(p_schema jsonb, p_value jsonb, p_root jsonb, p_place text,
                                         p_depth int) RETURNS text
LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE
SET search_path = pg_catalog, public AS
$$
DECLARE
    count CONSTANT int := (SELECT count(*) FROM jsonb_object_keys(p_value));
    place CONSTANT text := coalesce(nullif(p_place, ''), 'the payload');
    missing text;
    member record;
    rule record;
    is_named boolean;
    fault text;
BEGIN
    IF count > (p_schema -> 'maxProperties')::numeric THEN
        RETURN format('%s has more than %s members', place, p_schema -> 'maxProperties');
    ELSIF count < (p_schema -> 'minProperties')::numeric THEN
        RETURN format('%s has less than %s members', place, p_schema -> 'minProperties');
    END IF;
    SELECT name INTO missing
    FROM jsonb_array_elements_text(p_schema -> 'required') AS r (name) WHERE NOT p_value ? name LIMIT 1;
    IF FOUND THEN
        RETURN format('%s has no %s', place, quote_ident(missing));
    END IF;

    FOR member IN SELECT key, value, concat_ws('.', nullif(p_place, ''), key) AS path
                  FROM jsonb_each(p_value) ORDER BY key LOOP
        is_named := coalesce(p_schema -> 'properties' ? member.key, false);
        fault := CASE WHEN p_schema ? 'propertyNames' THEN
            json_schema_fault(p_schema -> 'propertyNames', to_jsonb(member.key), p_root,
                              'the name ' || member.path, p_depth + 1) END;
        IF is_named AND fault IS NULL THEN
            fault := json_schema_fault(p_schema -> 'properties' -> member.key, member.value, p_root,
                                       member.path, p_depth + 1);
        END IF;
        FOR rule IN SELECT key AS pattern, value AS schema FROM jsonb_each(p_schema -> 'patternProperties')
                    WHERE member.key ~ key LOOP
            is_named := true;
            fault := coalesce(fault, json_schema_fault(rule.schema, member.value, p_root, member.path,
                                                       p_depth + 1));
        END LOOP;
        IF NOT is_named AND p_schema ? 'additionalProperties' THEN
            fault := coalesce(fault, json_schema_fault(p_schema -> 'additionalProperties', member.value,
                                                       p_root, member.path, p_depth + 1));
        END IF;
        IF fault IS NOT NULL THEN
            RETURN fault;
        END IF;
    END LOOP;

    FOR rule IN SELECT key AS name, value AS needs FROM jsonb_each(p_schema -> 'dependencies')
                WHERE p_value ? key LOOP
        IF jsonb_typeof(rule.needs) = 'array' THEN
            SELECT format('%s has %s, but no %s', place, quote_ident(rule.name), quote_ident(other))
            INTO fault FROM jsonb_array_elements_text(rule.needs) AS n (other)
            WHERE NOT p_value ? other LIMIT 1;
        ELSE
            fault := json_schema_fault(rule.needs, p_value, p_root, p_place, p_depth + 1);
        END IF;
        IF fault IS NOT NULL THEN
            RETURN fault;
        END IF;
    END LOOP;
    RETURN NULL;
END
$$;

-- allOf, anyOf, oneOf, not, if, then, else.
CREATE FUNCTION json_schema_combined_fault(p_schema jsonb, p_value jsonb, p_root jsonb, p_place text,
                                           p_depth int) RETURNS text
LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE
SET search_path = pg_catalog, public AS
$$
DECLARE
    place CONSTANT text := coalesce(nullif(p_place, ''), 'the payload');
    branch text;
    fitting int;
    fault text;
BEGIN
    SELECT f INTO fault FROM jsonb_array_elements(p_schema -> 'allOf') AS s,
        LATERAL json_schema_fault(s, p_value, p_root, p_place, p_depth + 1) AS f
    WHERE f IS NOT NULL LIMIT 1;
    IF fault IS NOT NULL THEN
        RETURN fault;
    END IF;
    IF p_schema ? 'anyOf' AND NOT EXISTS (
        SELECT FROM jsonb_array_elements(p_schema -> 'anyOf') AS s
        WHERE json_schema_fault(s, p_value, p_root, p_place, p_depth + 1) IS NULL) THEN
        RETURN format('%s fits none of the schema''s alternatives', place);
    END IF;
    IF p_schema ? 'oneOf' THEN
        SELECT count(*) INTO fitting FROM jsonb_array_elements(p_schema -> 'oneOf') AS s
        WHERE json_schema_fault(s, p_value, p_root, p_place, p_depth + 1) IS NULL;
        IF fitting <> 1 THEN
            RETURN format('%s fits %s of the schema''s alternatives instead of one', place, fitting);
        END IF;
    END IF;
    IF p_schema ? 'not'
        AND json_schema_fault(p_schema -> 'not', p_value, p_root, p_place, p_depth + 1) IS NULL THEN
        RETURN format('%s is what it must not be', place);
    END IF;
    IF p_schema ? 'if' THEN
        branch := CASE WHEN json_schema_fault(p_schema -> 'if', p_value, p_root, p_place, p_depth + 1)
                            IS NULL THEN 'then' ELSE 'else' END;
        IF p_schema ? branch THEN
            RETURN json_schema_fault(p_schema -> branch, p_value, p_root, p_place, p_depth + 1);
        END IF;
    END IF;
    RETURN NULL;
END
$$;

-- The rules that a schema itself obeys: draft 7's own schema, as far as it says more than "a note".
CREATE FUNCTION json_schema_of_schemas() RETURNS jsonb
LANGUAGE sql IMMUTABLE PARALLEL SAFE AS
$$
    SELECT '{
        "definitions": {
            "list": {"type": "array", "minItems": 1, "items": {"$ref": "#"}},
            "count": {"type": "integer", "minimum": 0},
            "map": {"type": "object", "additionalProperties": {"$ref": "#"}},
            "names": {"type": "array", "items": {"type": "string"}, "uniqueItems": true},
            "type": {"enum": ["array", "boolean", "integer", "null", "number", "object", "string"]}},
        "type": ["object", "boolean"],
        "properties": {
            "$id": {"type": "string"}, "$ref": {"type": "string", "pattern": "^#"},
            "multipleOf": {"type": "number", "exclusiveMinimum": 0},
            "maximum": {"type": "number"}, "exclusiveMaximum": {"type": "number"},
            "minimum": {"type": "number"}, "exclusiveMinimum": {"type": "number"},
            "maxLength": {"$ref": "#/definitions/count"}, "minLength": {"$ref": "#/definitions/count"},
            "maxItems": {"$ref": "#/definitions/count"}, "minItems": {"$ref": "#/definitions/count"},
            "maxProperties": {"$ref": "#/definitions/count"},
            "minProperties": {"$ref": "#/definitions/count"},
            "pattern": {"type": "string"}, "uniqueItems": {"type": "boolean"},
            "items": {"anyOf": [{"$ref": "#"}, {"$ref": "#/definitions/list"}]},
            "additionalItems": {"$ref": "#"}, "contains": {"$ref": "#"}, "propertyNames": {"$ref": "#"},
            "additionalProperties": {"$ref": "#"}, "not": {"$ref": "#"}, "if": {"$ref": "#"},
            "then": {"$ref": "#"}, "else": {"$ref": "#"},
            "required": {"$ref": "#/definitions/names"},
            "definitions": {"$ref": "#/definitions/map"}, "properties": {"$ref": "#/definitions/map"},
            "patternProperties": {"$ref": "#/definitions/map"},
            "dependencies": {"type": "object", "additionalProperties":
                {"anyOf": [{"$ref": "#"}, {"$ref": "#/definitions/names"}]}},
            "enum": {"type": "array"},
            "type": {"anyOf": [{"$ref": "#/definitions/type"},
                {"type": "array", "minItems": 1, "uniqueItems": true,
                 "items": {"$ref": "#/definitions/type"}}]},
            "allOf": {"$ref": "#/definitions/list"}, "anyOf": {"$ref": "#/definitions/list"},
            "oneOf": {"$ref": "#/definitions/list"}}}'::jsonb
$$;

-- What is wrong with a schema; null: nothing. Every reference must be met and every pattern be read.
CREATE FUNCTION json_schema_defect(p_schema jsonb) RETURNS text
LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE
SET search_path = pg_catalog, public AS
$$
DECLARE
    fault text := json_schema_fault(json_schema_of_schemas(), p_schema);
    found text;
BEGIN
    IF fault IS NOT NULL THEN
        RETURN replace(fault, 'the payload', 'the schema');
    END IF;
    FOR found IN SELECT r #>> '{}' FROM jsonb_path_query(p_schema, 'strict $.**."$ref"', '{}', true) AS r
                 WHERE jsonb_typeof(r) = 'string' LOOP
        IF json_schema_target(p_schema, found) IS NULL THEN
            RETURN format('the schema refers to %s, which it does not have', found);
        END IF;
    END LOOP;
    FOR found IN
        SELECT r #>> '{}' FROM jsonb_path_query(p_schema, 'strict $.**.pattern', '{}', true) AS r
        WHERE jsonb_typeof(r) = 'string'
        UNION ALL
        SELECT key FROM jsonb_path_query(p_schema, 'strict $.**.patternProperties', '{}', true) AS r,
             jsonb_object_keys(CASE jsonb_typeof(r) WHEN 'object' THEN r ELSE '{}' END) AS key LOOP
        BEGIN
            PERFORM '' ~ found;
        EXCEPTION WHEN invalid_regular_expression THEN
            RETURN format('the schema''s pattern %s is no regular expression', found);
        END;
    END LOOP;
    RETURN NULL;
END
$$;

-- ---- definitions ---------------------------------------------------------------------------------

CREATE TABLE job_definitions (
    key text PRIMARY KEY CHECK (key ~ '^[a-z][a-z0-9-]{0,62}$'),
    description text NOT NULL,
    argv jsonb NOT NULL,
    payload_schema jsonb NOT NULL DEFAULT '{"type": "object", "additionalProperties": false}',
    environment text[] NOT NULL DEFAULT '{}',
    time_limit interval NOT NULL DEFAULT '10 minutes' CHECK (time_limit > '0'),
    is_public boolean NOT NULL DEFAULT false,
    is_enabled boolean NOT NULL DEFAULT true,
    created_at timestamptz NOT NULL DEFAULT now(),
    updated_at timestamptz NOT NULL DEFAULT now()
);
COMMENT ON TABLE job_definitions IS 'The programs that jobs of type command may run.';
COMMENT ON COLUMN job_definitions.argv IS
    'The arguments: text with {{args.name}} in it, or {"when": "name", "add": [text, …]}. The first is an absolute path, or cortana.';
COMMENT ON COLUMN job_definitions.payload_schema IS 'JSON Schema (draft 7) of the payload''s args.';
COMMENT ON COLUMN job_definitions.environment IS
    'Variables of the worker that the program gets besides PATH, HOME, TMPDIR and LANG; NAME* is a prefix.';
COMMENT ON COLUMN job_definitions.is_public IS 'Application roles may run it, each for their own tenant.';

CREATE FUNCTION job_definitions_before_write() RETURNS trigger
LANGUAGE plpgsql
SECURITY DEFINER SET search_path = pg_catalog, public AS
$$
DECLARE
    arguments_max CONSTANT int := 64;
    fault text := json_schema_defect(NEW.payload_schema);
    argument jsonb;
    name text;
BEGIN
    IF fault IS NOT NULL THEN
        RAISE EXCEPTION 'command %: %', NEW.key, fault USING ERRCODE = 'invalid_parameter_value';
    END IF;
    fault := json_schema_fault('{
        "type": "array", "minItems": 1, "items": [{"type": "string", "pattern": "^(/[^{}]+|cortana)$"}],
        "additionalItems": {"anyOf": [{"$ref": "#/definitions/text"},
            {"type": "object", "required": ["when", "add"], "additionalProperties": false,
             "properties": {"when": {"type": "string", "minLength": 1},
                            "add": {"type": "array", "items": {"$ref": "#/definitions/text"}}}}]},
        "definitions": {"text": {"type": "string", "maxLength": 4096}}}', NEW.argv);
    IF fault IS NOT NULL OR jsonb_array_length(NEW.argv) > arguments_max THEN
        RAISE EXCEPTION 'command %: argv: %', NEW.key,
            coalesce(replace(fault, 'the payload', 'the list'), format('more than %s', arguments_max))
            USING ERRCODE = 'invalid_parameter_value',
                  HINT = 'A list of texts; the first is an absolute path, or cortana.';
    END IF;
    FOR argument IN SELECT a FROM jsonb_path_query(NEW.argv, 'strict $.**', '{}', true) AS a
                    WHERE jsonb_typeof(a) = 'string' LOOP
        FOR name IN SELECT m[1] FROM regexp_matches(argument #>> '{}', '\{\{(.*?)\}\}', 'g') AS m LOOP
            IF name !~ '^args\.[A-Za-z_]\w*$' OR NOT coalesce(
                    NEW.payload_schema -> 'properties' ? substr(name, 6), false) THEN
                RAISE EXCEPTION 'command %: {{%}} is no property of the schema', NEW.key, name
                    USING ERRCODE = 'invalid_parameter_value',
                          HINT = 'Write {{args.NAME}}, and describe NAME under "properties".';
            END IF;
        END LOOP;
    END LOOP;
    NEW.updated_at := now();
    RETURN NEW;
END
$$;
CREATE TRIGGER job_definitions_before_write BEFORE INSERT OR UPDATE ON job_definitions
    FOR EACH ROW EXECUTE FUNCTION job_definitions_before_write();

-- One text of a template as arguments: none where a value is missing, one for each entry of a list that
-- stands alone. What a value holds is never read as a template.
CREATE FUNCTION fill_argument(p_template text, p_args jsonb, p_after_dashes boolean) RETURNS text[]
LANGUAGE plpgsql IMMUTABLE AS
$$
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

-- What a payload {"command", "args"} means: the exact argument list. Raises what is wrong with it.
CREATE FUNCTION plan_command(p_payload jsonb, OUT argv text[], OUT environment text[],
                             OUT time_limit_ms bigint)
LANGUAGE plpgsql STABLE
SECURITY DEFINER SET search_path = pg_catalog, public AS
$$
DECLARE
    bytes_max CONSTANT int := 65536;  -- of all values; the kernel takes more, a person reads less
    args CONSTANT jsonb := coalesce(p_payload -> 'args', '{}');
    definition job_definitions;
    template jsonb;
    fault text;
BEGIN
    SELECT * INTO definition FROM job_definitions WHERE key = p_payload ->> 'command';
    IF NOT FOUND THEN
        RAISE EXCEPTION 'there is no command %', coalesce(p_payload ->> 'command', '(none named)')
            USING ERRCODE = 'invalid_parameter_value', HINT = 'See job_definitions.';
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
    fault := coalesce(fault, json_schema_fault(definition.payload_schema, args, NULL, 'args'));
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
COMMENT ON FUNCTION plan_command IS 'The exact arguments of a command''s payload; raises what is wrong.';

-- ---- jobs ----------------------------------------------------------------------------------------

INSERT INTO job_types (name, description, base_priority, time_limit, is_public, cpu_weight) VALUES
    ('command', 'a program of job_definitions', 5, '1 day', true, 1);

-- Whoever enqueues, and however: what may not run does not come in. A step of a workflow gets its
-- payload later; the worker looks at every payload again.
CREATE FUNCTION jobs_check_command() RETURNS trigger
LANGUAGE plpgsql
SECURITY DEFINER SET search_path = pg_catalog, public AS
$$
BEGIN
    PERFORM plan_command(NEW.payload);
    IF NOT acts_for_everyone() AND NOT EXISTS (
        SELECT FROM job_definitions WHERE key = NEW.payload ->> 'command' AND is_public) THEN
        RAISE EXCEPTION 'command % is not for applications', NEW.payload ->> 'command'
            USING ERRCODE = 'insufficient_privilege';
    END IF;
    RETURN NEW;
END
$$;
CREATE TRIGGER jobs_check_command BEFORE INSERT ON jobs
    FOR EACH ROW WHEN (NEW.job_type = 'command' AND NEW.run_id IS NULL AND NEW.status = 'queued')
    EXECUTE FUNCTION jobs_check_command();

CREATE FUNCTION run_command(
    p_key text, p_args jsonb DEFAULT '{}', p_priority int DEFAULT NULL,
    p_scheduled_for timestamptz DEFAULT NULL, p_dedupe_key text DEFAULT NULL,
    p_tenant_id uuid DEFAULT NULL, OUT job_id uuid, OUT is_new boolean)
LANGUAGE sql
SECURITY INVOKER SET search_path = pg_catalog, public AS
$$
    SELECT * FROM enqueue_job('command', jsonb_build_object('command', p_key, 'args', p_args),
                              p_priority => p_priority, p_scheduled_for => p_scheduled_for,
                              p_dedupe_key => p_dedupe_key, p_tenant_id => p_tenant_id)
$$;
COMMENT ON FUNCTION run_command IS 'Enqueues a command of job_definitions, in the caller''s transaction.';

-- Writes a definition: {"key", …}; what is left out keeps its value, or gets the default. Returns the key.
CREATE FUNCTION define_command(p_definition jsonb) RETURNS text
LANGUAGE plpgsql
SECURITY INVOKER SET search_path = pg_catalog, public AS
$$
DECLARE
    fault text := json_schema_fault('{
        "type": "object", "required": ["key"], "additionalProperties": false,
        "properties": {
            "key": {"type": "string"}, "description": {"type": "string"}, "argv": {"type": "array"},
            "payload_schema": {"type": ["object", "boolean"]},
            "environment": {"type": "array", "items": {"type": "string", "pattern": "^[A-Za-z_][A-Za-z0-9_]*[*]?$"}},
            "time_limit": {"type": "string"}, "is_public": {"type": "boolean"},
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
    wanted := jsonb_populate_record(known, p_definition);
    INSERT INTO job_definitions (key, description, argv, payload_schema, environment, time_limit,
                                 is_public, is_enabled)
    VALUES (wanted.key, wanted.description, wanted.argv, wanted.payload_schema, wanted.environment,
            wanted.time_limit, wanted.is_public, wanted.is_enabled)
    ON CONFLICT (key) DO UPDATE SET
        description = excluded.description, argv = excluded.argv,
        payload_schema = excluded.payload_schema, environment = excluded.environment,
        time_limit = excluded.time_limit, is_public = excluded.is_public,
        is_enabled = excluded.is_enabled;
    RETURN wanted.key;
END
$$;
COMMENT ON FUNCTION define_command IS 'Adds or changes a command, from one JSON object.';

-- ---- the built-in ones ---------------------------------------------------------------------------

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
     '{"type": "object", "additionalProperties": false, "dependencies": {"rows": ["remove"]},
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
       "oneOf": [{"required": ["videos"]},
                 {"required": ["all"], "properties": {"all": {"const": true}}}],
       "properties": {"all": {"type": "boolean"},
                      "languages": {"type": "string", "pattern": "^[A-Za-z_/+]{1,200}$"},
                      "videos": {"type": "array", "minItems": 1, "maxItems": 1000,
                                 "items": {"type": "string", "minLength": 1, "maxLength": 200}}}}',
     '{DATABASE_URL,PG*,STORE_URL,S3_*,AWS_*}', '1 hour'),
    ('prune-embeddings', 'vectors of texts that are gone, forgotten',
     '["cortana", "embeddings", "prune"]', DEFAULT, '{DATABASE_URL,PG*}', '1 hour');

-- ---- who may do what -----------------------------------------------------------------------------

ALTER TABLE job_definitions ENABLE ROW LEVEL SECURITY;
CREATE POLICY job_definitions_read ON job_definitions FOR SELECT TO authenticated, cortana_app
    USING (is_public);
CREATE POLICY job_definitions_service ON job_definitions TO service_role USING (true) WITH CHECK (true);
REVOKE ALL ON job_definitions FROM PUBLIC, anon, authenticated;
GRANT SELECT ON job_definitions TO authenticated, cortana_app;
GRANT ALL ON job_definitions TO service_role;
DO $$
DECLARE
    signature text;
BEGIN
    FOREACH signature IN ARRAY ARRAY[
        'json_pointer_part(text)', 'json_schema_target(jsonb, text)', 'json_schema_is_type(jsonb, text)',
        'json_schema_fault(jsonb, jsonb, jsonb, text, int)', 'json_schema_number_fault(jsonb, numeric)',
        'json_schema_string_fault(jsonb, text)',
        'json_schema_array_fault(jsonb, jsonb, jsonb, text, int)',
        'json_schema_object_fault(jsonb, jsonb, jsonb, text, int)',
        'json_schema_combined_fault(jsonb, jsonb, jsonb, text, int)', 'json_schema_of_schemas()',
        'json_schema_defect(jsonb)', 'job_definitions_before_write()', 'fill_argument(text, jsonb, boolean)',
        'plan_command(jsonb)', 'define_command(jsonb)', 'jobs_check_command()',
        'run_command(text, jsonb, int, timestamptz, text, uuid)'] LOOP
        EXECUTE format('REVOKE ALL ON FUNCTION %s FROM PUBLIC, anon, authenticated', signature);
        EXECUTE format('GRANT EXECUTE ON FUNCTION %s TO service_role', signature);
    END LOOP;
END
$$;
GRANT EXECUTE ON FUNCTION run_command(text, jsonb, int, timestamptz, text, uuid) TO cortana_app;
