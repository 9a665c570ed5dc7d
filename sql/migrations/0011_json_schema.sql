-- JSON Schema: which payloads a type of job takes.
-- The part of draft 7 (https://json-schema.org/draft-07) that payloads need. A schema that uses
-- another keyword or format is refused, so that no schema contains a rule that is not checked. Patterns are regular
-- expressions of PostgreSQL.

CREATE FUNCTION cortana.json_format_fits(p_format text, p_value text) RETURNS boolean
LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE AS $$
BEGIN
    RETURN CASE p_format
    WHEN 'uuid' THEN
        p_value ~* '^[0-9a-f]{8}-([0-9a-f]{4}-){3}[0-9a-f]{12}$'
    WHEN 'date-time' THEN  -- RFC 3339: the offset is required
        p_value ~* '^\d{4}-\d\d-\d\dT([01]\d|2[0-3]):[0-5]\d:([0-5]\d|60)(\.\d+)?(Z|[+-]([01]\d|2[0-3]):[0-5]\d)$'
            AND pg_catalog.make_date(left(p_value, 4)::int, substr(p_value, 6, 2)::int,
                                     substr(p_value, 9, 2)::int) IS NOT NULL
    WHEN 'email' THEN  -- the addr-spec of RFC 5322 without quoted names, comments and addresses in brackets
        length(p_value) <= 254
            AND p_value ~ '^[A-Za-z0-9!#$%&''*+/=?^_`{|}~-]+(\.[A-Za-z0-9!#$%&''*+/=?^_`{|}~-]+)*@([A-Za-z0-9]([A-Za-z0-9-]{0,61}[A-Za-z0-9])?\.)*[A-Za-z0-9]([A-Za-z0-9-]{0,61}[A-Za-z0-9])?$'
    WHEN 'uri' THEN  -- RFC 3986: a scheme, and only characters that may stand in a URI
        p_value ~ '^[A-Za-z][A-Za-z0-9+.-]*:([A-Za-z0-9._~:/?#@!$&''()*+,;=-]|\[[0-9A-Fa-f:.]+\]|%[0-9A-Fa-f]{2})*$'
    END;
EXCEPTION WHEN datetime_field_overflow THEN
    RETURN false;
END
$$;
COMMENT ON FUNCTION cortana.json_format_fits IS
    'Whether a text is a uuid, date-time, email or uri, as the keyword format of JSON Schema defines them.';

CREATE FUNCTION json_schema_fault(p_schema jsonb, p_value jsonb, p_place text DEFAULT 'the payload') RETURNS text
LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE AS $$
DECLARE
    kind CONSTANT text := jsonb_typeof(p_value);
    types CONSTANT jsonb := CASE jsonb_typeof(p_schema -> 'type') WHEN 'string'
                                 THEN jsonb_build_array(p_schema -> 'type') ELSE p_schema -> 'type' END;
    number CONSTANT numeric := CASE kind WHEN 'number' THEN p_value::numeric END;
    text_value CONSTANT text := CASE kind WHEN 'string' THEN p_value #>> '{}' END;
    entries CONSTANT int := CASE kind WHEN 'array' THEN jsonb_array_length(p_value) END;
    member record;
    fault text;
BEGIN
    IF jsonb_typeof(p_schema) = 'boolean' THEN
        RETURN CASE WHEN p_schema = 'false' THEN format('%s is not allowed', p_place) END;
    END IF;
    fault := CASE
        WHEN types IS NOT NULL AND NOT (types ? kind
                                        OR types ? 'integer' AND coalesce(number = trunc(number), false))
            THEN format('is a %s, not %s', kind, p_schema -> 'type')
        WHEN p_schema ? 'enum'
             AND NOT EXISTS (SELECT FROM jsonb_array_elements(p_schema -> 'enum') AS e WHERE e = p_value)
            THEN format('is none of %s', p_schema -> 'enum')
        WHEN p_value <> p_schema -> 'const' THEN format('is not %s', p_schema -> 'const')
        WHEN number > (p_schema -> 'maximum')::numeric THEN format('is more than %s', p_schema -> 'maximum')
        WHEN number < (p_schema -> 'minimum')::numeric THEN format('is less than %s', p_schema -> 'minimum')
        WHEN number >= (p_schema -> 'exclusiveMaximum')::numeric
            THEN format('is not less than %s', p_schema -> 'exclusiveMaximum')
        WHEN number <= (p_schema -> 'exclusiveMinimum')::numeric
            THEN format('is not more than %s', p_schema -> 'exclusiveMinimum')
        WHEN length(text_value) > (p_schema -> 'maxLength')::numeric
            THEN format('has more than %s characters', p_schema -> 'maxLength')
        WHEN length(text_value) < (p_schema -> 'minLength')::numeric
            THEN format('has less than %s characters', p_schema -> 'minLength')
        WHEN text_value !~ (p_schema ->> 'pattern')
            THEN format('does not fit the pattern %s', p_schema ->> 'pattern')
        WHEN text_value IS NOT NULL AND p_schema ? 'format'
             AND NOT json_format_fits(p_schema ->> 'format', text_value)
            THEN format('is not in the format %s', p_schema ->> 'format')
        WHEN entries > (p_schema -> 'maxItems')::numeric
            THEN format('has more than %s entries', p_schema -> 'maxItems')
        WHEN entries < (p_schema -> 'minItems')::numeric
            THEN format('has less than %s entries', p_schema -> 'minItems')
    END;
    IF fault IS NOT NULL THEN
        RETURN format('%s %s', p_place, fault);
    END IF;
    IF p_schema ? 'anyOf' AND NOT EXISTS (SELECT FROM jsonb_array_elements(p_schema -> 'anyOf') AS one
                                          WHERE json_schema_fault(one, p_value, p_place) IS NULL) THEN
        RETURN json_schema_fault(p_schema #> '{anyOf,0}', p_value, p_place);
    END IF;
    IF kind = 'array' AND p_schema ? 'items' THEN
        FOR i IN 0 .. entries - 1 LOOP
            fault := json_schema_fault(p_schema -> 'items', p_value -> i, format('%s[%s]', p_place, i));
            EXIT WHEN fault IS NOT NULL;
        END LOOP;
    ELSIF kind = 'object' THEN
        SELECT format('%s has no %s', p_place, quote_ident(name)) INTO fault
        FROM jsonb_array_elements_text(p_schema -> 'required') AS r (name) WHERE NOT p_value ? name LIMIT 1;
        FOR member IN SELECT key, value FROM jsonb_each(p_value) ORDER BY key LOOP
            EXIT WHEN fault IS NOT NULL;
            fault := json_schema_fault(
                coalesce(p_schema -> 'properties' -> member.key, p_schema -> 'additionalProperties', 'true'),
                member.value,
                CASE p_place WHEN 'the payload' THEN member.key ELSE concat(p_place, '.', member.key) END);
        END LOOP;
    END IF;
    RETURN fault;
END
$$;
COMMENT ON FUNCTION json_schema_fault IS
    'Checks a value against a JSON Schema. Returns the first fault and its place in words; null: the value is valid.';

CREATE FUNCTION cortana.json_schema_member(p_fault text) RETURNS text
LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$
    SELECT coalesce(substring(p_fault FROM '^the payload has no "?(\w+)'), substring(p_fault FROM '^\w+'), 'payload')
$$;
COMMENT ON FUNCTION cortana.json_schema_member IS
    'The member of the payload that a fault of json_schema_fault() is about.';

CREATE FUNCTION cortana.json_schema_defect(p_schema jsonb, p_place text DEFAULT 'the schema', p_depth int DEFAULT 0)
RETURNS text
LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE AS $$
DECLARE
    -- For each keyword, the schema of its own value; null: an annotation, which may be any value.
    keywords CONSTANT jsonb := '{
        "type": {"type": ["string", "array"], "items": {"type": "string"}}, "enum": {"type": "array", "minItems": 1},
        "const": true, "minimum": {"type": "number"}, "maximum": {"type": "number"},
        "exclusiveMinimum": {"type": "number"}, "exclusiveMaximum": {"type": "number"},
        "minLength": {"type": "integer", "minimum": 0}, "maxLength": {"type": "integer", "minimum": 0},
        "pattern": {"type": "string"}, "format": {"enum": ["uuid", "date-time", "email", "uri"]},
        "minItems": {"type": "integer", "minimum": 0}, "maxItems": {"type": "integer", "minimum": 0},
        "items": {"type": ["object", "boolean"]}, "properties": {"type": "object"},
        "additionalProperties": {"type": ["object", "boolean"]},
        "required": {"type": "array", "items": {"type": "string"}}, "anyOf": {"type": "array", "minItems": 1},
        "$schema": true, "$comment": true, "title": true, "description": true, "default": true, "examples": true}';
    known_types CONSTANT jsonb := '["array", "boolean", "integer", "null", "number", "object", "string"]';
    deepest CONSTANT int := 20;
    part record;
    fault text;
BEGIN
    IF jsonb_typeof(p_schema) = 'boolean' THEN
        RETURN NULL;
    ELSIF jsonb_typeof(p_schema) IS DISTINCT FROM 'object' THEN
        RETURN format('%s is a %s, not an object', p_place, coalesce(jsonb_typeof(p_schema), 'null'));
    ELSIF p_depth > deepest THEN
        RETURN format('%s goes deeper than %s levels', p_place, deepest);
    END IF;
    FOR part IN SELECT key, value FROM jsonb_each(p_schema) ORDER BY key LOOP
        IF NOT keywords ? part.key THEN
            RETURN format('%s: the keyword %s is not supported', p_place, quote_ident(part.key));
        END IF;
        fault := json_schema_fault(keywords -> part.key, part.value, concat(p_place, '.', part.key));
        IF fault IS NOT NULL THEN
            RETURN fault;
        END IF;
    END LOOP;
    SELECT format('%s.type: there is no type %s', p_place, t) INTO fault
    FROM jsonb_path_query(p_schema, 'lax $.type[*]') AS t  -- lax: a single name is a list of one
    WHERE NOT known_types @> t LIMIT 1;
    IF fault IS NOT NULL THEN
        RETURN fault;
    END IF;
    IF p_schema ? 'pattern' THEN
        BEGIN
            PERFORM '' ~ (p_schema ->> 'pattern');
        EXCEPTION WHEN invalid_regular_expression THEN
            RETURN format('%s.pattern is not a regular expression: %s', p_place, p_schema ->> 'pattern');
        END;
    END IF;
    FOR part IN SELECT concat(p_place, '.properties.', key) AS place, value FROM jsonb_each(p_schema -> 'properties')
                UNION ALL
                SELECT concat(p_place, '.', key), value FROM jsonb_each(p_schema)
                WHERE key IN ('items', 'additionalProperties')
                UNION ALL
                SELECT concat(p_place, '.anyOf'), value FROM jsonb_array_elements(p_schema -> 'anyOf') LOOP
        fault := json_schema_defect(part.value, part.place, p_depth + 1);
        EXIT WHEN fault IS NOT NULL;
    END LOOP;
    RETURN fault;
END
$$;
COMMENT ON FUNCTION cortana.json_schema_defect IS
    'Checks a JSON Schema itself. Returns the first fault or unsupported part in words; null: the schema is valid.';

CREATE FUNCTION cortana.job_types_check_schema() RETURNS trigger
LANGUAGE plpgsql AS $$
DECLARE
    fault CONSTANT text := CASE WHEN NEW.payload_schema IS NOT NULL THEN json_schema_defect(NEW.payload_schema) END;
BEGIN
    IF fault IS NOT NULL THEN
        RAISE EXCEPTION 'job type %: %', NEW.name, fault USING ERRCODE = 'invalid_parameter_value';
    END IF;
    RETURN NEW;
END
$$;
COMMENT ON FUNCTION cortana.job_types_check_schema IS 'Trigger: refuses a type whose payload_schema is wrong.';
CREATE TRIGGER job_types_check_schema BEFORE INSERT OR UPDATE OF payload_schema ON job_types
    FOR EACH ROW EXECUTE FUNCTION job_types_check_schema();
UPDATE job_types SET payload_schema = payload_schema;  -- those before this file

SELECT secure_objects();
