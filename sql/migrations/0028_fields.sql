-- Which fields of their own the videos of a tenant may have. Without its row they may have any.

CREATE TABLE cortana.tenant_fields (
    tenant_id uuid PRIMARY KEY,
    fields jsonb NOT NULL CHECK (jsonb_typeof(fields) = 'array')
);
COMMENT ON TABLE cortana.tenant_fields IS 'Fields of the videos of a tenant; null bytes stand for what belongs to nobody.';
COMMENT ON COLUMN tenant_fields.fields IS 'In their order, as the API has them: name, type, choices, required.';
SELECT secure_table('cortana.tenant_fields');

CREATE FUNCTION cortana.fields_of_tenant(p_tenant_id uuid) RETURNS TABLE (name text, type text, choices jsonb, required boolean, n bigint)
LANGUAGE sql STABLE AS $$
    SELECT f.one ->> 'name', f.one ->> 'type', coalesce(f.one -> 'choices', '[]'), coalesce((f.one ->> 'required')::boolean, false), f.n
    FROM tenant_fields t, jsonb_array_elements(t.fields) WITH ORDINALITY AS f (one, n) WHERE t.tenant_id = p_tenant_id
$$;
COMMENT ON FUNCTION cortana.fields_of_tenant IS 'The fields that the videos of a tenant may have; none: they may have any.';

CREATE FUNCTION cortana.check_video_fields() RETURNS trigger
LANGUAGE plpgsql SECURITY DEFINER AS $$
DECLARE
    tenant CONSTANT uuid := coalesce(NEW.team_id, NEW.owner_id, '00000000-0000-0000-0000-000000000000');
    before CONSTANT jsonb := CASE WHEN TG_OP = 'UPDATE' THEN OLD.fields ELSE '{}' END;
    known CONSTANT text := (SELECT string_agg(f.name, ', ' ORDER BY f.n) FROM fields_of_tenant(tenant) AS f);
    one record;
BEGIN
    FOR one IN
        SELECT coalesce(f.name, v.key) AS name, f.type, f.choices, v.value, jsonb_typeof(v.value) AS is, v.value #>> '{}' AS text
        FROM fields_of_tenant(tenant) AS f FULL JOIN jsonb_each(NEW.fields) AS v (key, value) ON v.key = f.name
        WHERE known IS NOT NULL
          AND (v.value IS DISTINCT FROM before -> v.key OR v.value IS NULL AND f.required) -- what was there before may stay
        ORDER BY f.n NULLS FIRST
    LOOP
        IF one.type IS NULL THEN
            RAISE EXCEPTION 'there is no field "%": the fields are %', one.name, known USING ERRCODE = 'invalid_parameter_value';
        ELSIF one.value IS NULL THEN
            RAISE EXCEPTION 'the field "%" needs a value', one.name USING ERRCODE = 'invalid_parameter_value';
        ELSIF one.type = 'number' AND one.is <> 'number' THEN
            RAISE EXCEPTION 'the field "%" takes a number', one.name USING ERRCODE = 'invalid_parameter_value';
        ELSIF one.type = 'text' AND one.is <> 'string' THEN
            RAISE EXCEPTION 'the field "%" takes a text', one.name USING ERRCODE = 'invalid_parameter_value';
        ELSIF one.type = 'date' AND (one.text !~ '^\d{4}-\d\d-\d\d$' OR search_date(one.text) IS NULL) THEN
            RAISE EXCEPTION 'the field "%" takes a day, such as 2026-03-31', one.name USING ERRCODE = 'invalid_parameter_value';
        ELSIF one.type = 'choice' AND NOT one.choices @> one.value THEN
            RAISE EXCEPTION 'the field "%" takes one of %', one.name,
                (SELECT string_agg(c, ', ') FROM jsonb_array_elements_text(one.choices) AS c) USING ERRCODE = 'invalid_parameter_value';
        END IF;
    END LOOP;
    RETURN NEW;
END
$$;
COMMENT ON FUNCTION cortana.check_video_fields IS
    'Refuses fields that the video''s tenant does not know, or values that they cannot have. What was there before and is '
    'unchanged stays, so that a tenant may change its fields at any time.';
CREATE TRIGGER check_fields BEFORE UPDATE OF fields ON videos FOR EACH ROW
    WHEN (NEW.fields IS DISTINCT FROM OLD.fields) EXECUTE FUNCTION cortana.check_video_fields();
CREATE TRIGGER check_first_fields BEFORE INSERT ON videos FOR EACH ROW
    WHEN (NEW.fields <> '{}') EXECUTE FUNCTION cortana.check_video_fields();

CREATE FUNCTION api.own_fields(p jsonb) RETURNS api.answer
LANGUAGE sql STABLE SECURITY DEFINER AS $$
    SELECT api.all_items((SELECT jsonb_agg(jsonb_build_object('name', f.name, 'type', f.type, 'choices', f.choices, 'required', f.required) ORDER BY f.n)
                          FROM fields_of_tenant(share_tenant((p ->> 'video')::uuid, NULL)) AS f))
$$;

CREATE FUNCTION api.set_own_fields(p jsonb) RETURNS api.answer
LANGUAGE plpgsql SECURITY DEFINER AS $$
DECLARE
    -- what the gateway does not look into
    form CONSTANT jsonb := '{"items": {"type": "object", "required": ["name", "type"], "additionalProperties": false, "properties": {
        "name": {"type": "string", "minLength": 1, "maxLength": 60, "pattern": "^[^=\"]+$"}, "required": {"type": "boolean"},
        "type": {"enum": ["text", "number", "date", "choice"]},
        "choices": {"type": "array", "maxItems": 100, "items": {"type": "string", "minLength": 1, "maxLength": 100}}}}}';
    tenant CONSTANT uuid := coalesce((p ->> 'tenant_id')::uuid, share_tenant(NULL, NULL));
    fault CONSTANT text := json_schema_fault(form, p -> 'fields', 'fields');
    one record;
BEGIN
    PERFORM api.require_admin();
    IF NOT may_allow_sharing(tenant) THEN
        RETURN api.not_found();
    ELSIF fault IS NOT NULL THEN
        RAISE EXCEPTION '%', fault USING ERRCODE = 'invalid_parameter_value', COLUMN = 'fields';
    END IF;
    FOR one IN SELECT min(f ->> 'name') AS name, count(*) AS n,
                      bool_or(f ->> 'type' = 'choice' AND coalesce(f -> 'choices', '[]') = '[]') AS lacks_choices
               FROM jsonb_array_elements(p -> 'fields') AS f GROUP BY normal_form(f ->> 'name') LOOP
        IF one.n > 1 THEN
            RAISE EXCEPTION 'there are two fields "%"', one.name USING ERRCODE = 'invalid_parameter_value', COLUMN = 'fields';
        ELSIF one.lacks_choices THEN
            RAISE EXCEPTION 'the field "%" needs choices', one.name USING ERRCODE = 'invalid_parameter_value', COLUMN = 'fields';
        END IF;
    END LOOP;
    DELETE FROM tenant_fields t WHERE t.tenant_id = tenant;
    INSERT INTO tenant_fields SELECT tenant, p -> 'fields' WHERE p -> 'fields' <> '[]';
    RETURN api.done();
END
$$;

-- ---- who may call what -------------------------------------------------------------------------------------

SELECT secure_objects();
