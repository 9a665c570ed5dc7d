-- Who may use the HTTP API beside those whom an issuer gives tokens, and what the API notes of its callers.

-- ---- API keys ----------------------------------------------------------------------------------------------
-- A key is "cvk_", eight digits to know it by, "_", and 43 digits of base64url. Only its SHA-256 is kept: 244 random
-- bits need no salt, and an index over digests tells nobody anything by its time.

CREATE TABLE cortana.api_keys (
    id uuid PRIMARY KEY DEFAULT gen_random_uuid(),
    owner_id uuid,
    team_id uuid,
    role text NOT NULL CHECK (role IN ('viewer', 'editor', 'admin', 'service')),
    name text NOT NULL CHECK (length(name) BETWEEN 1 AND 100),
    prefix text NOT NULL,
    hash bytea NOT NULL UNIQUE CHECK (length(hash) = 32),
    addresses cidr[],
    created_by text NOT NULL,
    created_at timestamptz NOT NULL DEFAULT now(),
    last_used_at timestamptz,
    expires_at timestamptz,
    revoked_at timestamptz,
    CHECK (num_nonnulls(owner_id, team_id) = CASE role WHEN 'service' THEN 0 ELSE 1 END)
);
COMMENT ON TABLE cortana.api_keys IS
    'Keys for the HTTP API. A key acts for a user, for a team, or for the whole service.';
COMMENT ON COLUMN api_keys.owner_id IS 'The user it acts for; null: a team''s or the service''s.';
COMMENT ON COLUMN api_keys.team_id IS
    'The team it acts for, as a user of its own (its id) who is a member of that team alone; null: a user''s or the service''s.';
COMMENT ON COLUMN api_keys.prefix IS 'The digits in its text by which people know it; not a secret.';
COMMENT ON COLUMN api_keys.hash IS 'SHA-256 of its text.';
COMMENT ON COLUMN api_keys.addresses IS 'The networks that it is good from; null: any.';
COMMENT ON COLUMN api_keys.created_by IS 'Who has made it: the user, or "service".';
COMMENT ON COLUMN api_keys.last_used_at IS 'When a request was made with it, to the minute.';
CREATE INDEX api_keys_owner ON cortana.api_keys (owner_id, created_at, id) WHERE owner_id IS NOT NULL;
CREATE INDEX api_keys_team ON cortana.api_keys (team_id, created_at, id) WHERE team_id IS NOT NULL;
ALTER TABLE cortana.api_keys ENABLE ROW LEVEL SECURITY;
CREATE POLICY api_keys_service ON cortana.api_keys TO service_role USING (true) WITH CHECK (true);
GRANT SELECT ON cortana.api_keys TO service_role;

CREATE FUNCTION api.require_admin() RETURNS void
LANGUAGE plpgsql STABLE
SET search_path = pg_catalog, public, cortana, extensions, pg_temp AS
$$
BEGIN
    IF NOT api.is_admin() THEN
        RAISE EXCEPTION 'this is an admin''s' USING ERRCODE = 'insufficient_privilege';
    END IF;
END
$$;
COMMENT ON FUNCTION api.require_admin IS 'Refuses everybody but a tenant''s admins and the service.';

CREATE FUNCTION api.manages(p_owner_id uuid, p_team_id uuid) RETURNS boolean
LANGUAGE sql STABLE
SET search_path = pg_catalog, public, cortana, extensions, pg_temp AS
$$
    SELECT api.is_service() OR coalesce(p_owner_id = auth.uid() OR p_team_id = ANY (current_team_ids()), false)
$$;
COMMENT ON FUNCTION api.manages IS 'Whether what belongs to this user or this team is the caller''s, given that they are an admin.';

CREATE FUNCTION api.key_object(k api_keys) RETURNS jsonb
LANGUAGE sql STABLE
RETURN jsonb_build_object(
    'id', k.id, 'name', k.name, 'prefix', k.prefix, 'role', k.role, 'owner_id', k.owner_id, 'team_id', k.team_id,
    'addresses', array_to_string(k.addresses, ','), 'created_by', k.created_by, 'created_at', k.created_at,
    'last_used_at', k.last_used_at, 'expires_at', k.expires_at, 'revoked_at', k.revoked_at);
COMMENT ON FUNCTION api.key_object IS 'An API key as its managers see it: without what it is known by to the gateway.';

CREATE FUNCTION api.keys(p jsonb) RETURNS api.answer
LANGUAGE plpgsql STABLE
SECURITY DEFINER SET search_path = pg_catalog, public, cortana, extensions, pg_temp AS
$$
DECLARE
    wanted CONSTANT int := coalesce((p ->> 'limit')::int, 50);
    keys CONSTANT jsonb := api.read_cursor(p, 2);
    found_rows jsonb[];
    found_keys jsonb[];
BEGIN
    PERFORM api.require_admin();
    SELECT array_agg(api.key_object(k) ORDER BY k.created_at DESC, k.id DESC),
           array_agg(jsonb_build_array(k.created_at, k.id) ORDER BY k.created_at DESC, k.id DESC)
    INTO found_rows, found_keys
    FROM (SELECT a.* FROM api_keys a
          WHERE api.manages(a.owner_id, a.team_id)
            AND (keys IS NULL OR (a.created_at, a.id) < ((keys ->> 0)::timestamptz, (keys ->> 1)::uuid))
          ORDER BY a.created_at DESC, a.id DESC LIMIT wanted + 1) AS k;
    RETURN api.page(p, wanted, found_rows, found_keys);
END
$$;
COMMENT ON FUNCTION api.keys IS 'GET /keys: the API keys of the caller and their teams, of the service all; the newest first.';

CREATE FUNCTION api.make_key(p jsonb) RETURNS api.answer
LANGUAGE plpgsql
SECURITY DEFINER SET search_path = pg_catalog, public, cortana, extensions, pg_temp AS
$$
DECLARE
    team CONSTANT uuid := p ->> 'team_id';
    is_the_services CONSTANT boolean := p ->> 'role' = 'service';
    prefix CONSTANT text := left(gen_random_uuid()::text, 8);
    random CONSTANT bytea := sha256(uuid_send(gen_random_uuid()) || uuid_send(gen_random_uuid()));
    secret CONSTANT text := 'cvk_' || prefix || '_' || rtrim(translate(encode(random, 'base64'), '+/', '-_'), '=');
    made api_keys;
BEGIN
    PERFORM api.require_admin();
    IF auth.jwt() ? 'key_id' THEN
        RAISE EXCEPTION 'a key makes no keys' USING ERRCODE = 'insufficient_privilege';
    ELSIF is_the_services AND (NOT api.is_service() OR auth.jwt() ->> 'role' IS DISTINCT FROM 'service_role') THEN
        RAISE EXCEPTION 'keys of the service are made by the service' USING ERRCODE = 'insufficient_privilege';
    ELSIF team IS NOT NULL AND NOT api.manages(NULL, team) THEN
        RAISE EXCEPTION 'you are no member of this team' USING ERRCODE = 'invalid_parameter_value';
    ELSIF is_the_services AND team IS NOT NULL THEN
        RAISE EXCEPTION 'a key of the service is no team''s' USING ERRCODE = 'invalid_parameter_value';
    ELSIF NOT is_the_services AND team IS NULL AND auth.uid() IS NULL THEN
        RAISE EXCEPTION 'team_id says whose key it is' USING ERRCODE = 'invalid_parameter_value';
    ELSIF (p ->> 'expires_at')::timestamptz <= now() THEN
        RAISE EXCEPTION 'expires_at has passed' USING ERRCODE = 'invalid_parameter_value';
    END IF;
    INSERT INTO api_keys (owner_id, team_id, role, name, prefix, hash, addresses, created_by, expires_at)
    VALUES (CASE WHEN team IS NULL AND NOT is_the_services THEN auth.uid() END, team, p ->> 'role', p ->> 'name', prefix,
            sha256(convert_to(secret, 'UTF8')), string_to_array(nullif(p ->> 'addresses', ''), ',')::cidr[],
            coalesce(auth.uid()::text, 'service'), (p ->> 'expires_at')::timestamptz)
    RETURNING * INTO made;
    RETURN ROW(201, NULL, NULL, api.key_object(made) || jsonb_build_object('secret', secret))::api.answer;
END
$$;
COMMENT ON FUNCTION api.make_key IS 'POST /keys: makes an API key, and shows it this once.';

CREATE FUNCTION api.revoke_key(p jsonb) RETURNS api.answer
LANGUAGE plpgsql
SECURITY DEFINER SET search_path = pg_catalog, public, cortana, extensions, pg_temp AS
$$
BEGIN
    PERFORM api.require_admin();
    UPDATE api_keys SET revoked_at = coalesce(revoked_at, now())
    WHERE id = (p ->> 'id')::uuid AND api.manages(owner_id, team_id);
    IF NOT FOUND THEN
        RETURN api.not_found();
    END IF;
    RETURN ROW(204, NULL, NULL, NULL)::api.answer;
END
$$;
COMMENT ON FUNCTION api.revoke_key IS 'DELETE /keys/{id}: the key is good no more, from the next request on.';

CREATE FUNCTION api.take_key(p_hash bytea, p_address inet) RETURNS jsonb
LANGUAGE plpgsql
SECURITY DEFINER SET search_path = pg_catalog, public, cortana, extensions, pg_temp AS
$$
DECLARE
    used api_keys;
BEGIN
    SELECT * INTO used FROM api_keys k
    WHERE k.hash = p_hash AND k.revoked_at IS NULL AND coalesce(k.expires_at > now(), true)
      AND (k.addresses IS NULL OR p_address <<= ANY (k.addresses));
    IF NOT FOUND THEN
        RETURN NULL;
    END IF;
    IF coalesce(used.last_used_at < now() - interval '1 minute', true) THEN
        -- Another request with the same key may be noting the same.
        PERFORM FROM api_keys k WHERE k.id = used.id FOR NO KEY UPDATE SKIP LOCKED;
        IF FOUND THEN
            UPDATE api_keys SET last_used_at = now() WHERE id = used.id;
        END IF;
    END IF;
    RETURN CASE used.role WHEN 'service' THEN jsonb_build_object('role', 'service_role', 'key_id', used.id)
        ELSE jsonb_strip_nulls(jsonb_build_object(
            'sub', coalesce(used.owner_id, used.id), 'role', 'authenticated', 'key_id', used.id,
            'exp', floor(extract(epoch FROM used.expires_at)),
            'app_metadata', jsonb_build_object('cortana_role', used.role, 'team_id', used.team_id))) END;
END
$$;
COMMENT ON FUNCTION api.take_key IS
    'The claims of the API key with this digest, and notes that it was used; null: there is none, or not from this '
    'address, or it has ended. For the gateway alone.';

-- ---- who may call what -------------------------------------------------------------------------------------

REVOKE ALL ON ALL FUNCTIONS IN SCHEMA api FROM PUBLIC;
GRANT EXECUTE ON FUNCTION api.require_admin, api.manages, api.key_object, api.keys TO authenticated, service_role;
GRANT EXECUTE ON FUNCTION api.make_key, api.revoke_key TO cortana_app, service_role;
GRANT EXECUTE ON FUNCTION api.take_key TO cortana_gateway;
