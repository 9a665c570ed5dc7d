-- API keys, and the records that the HTTP API keeps about its callers.

-- ---- secrets -----------------------------------------------------------------------------------------------

CREATE FUNCTION cortana.random_text(p_bytes int) RETURNS text
LANGUAGE sql VOLATILE AS $$
    SELECT rtrim(translate(encode(substr(sha256(uuid_send(gen_random_uuid()) || uuid_send(gen_random_uuid())), 1, p_bytes),
                                  'base64'), '+/', '-_'), '=')
$$;
COMMENT ON FUNCTION cortana.random_text IS 'Base64url of this many random bytes, at most 32.';

CREATE FUNCTION cortana.secret_hash(p_text text) RETURNS bytea
LANGUAGE sql IMMUTABLE
RETURN sha256(convert_to(p_text, 'UTF8'));
COMMENT ON FUNCTION cortana.secret_hash IS 'SHA-256 of a secret, by which it is found.';

-- ---- API keys ----------------------------------------------------------------------------------------------
-- A key is "cvk_", eight digits by which people recognise it, "_", and 43 digits of base64url. Only its SHA-256 is
-- stored: 244 random bits need no salt, and the time of a lookup in an index of digests reveals nothing.

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
COMMENT ON COLUMN api_keys.owner_id IS 'The user for whom the key acts; null: it acts for a team or for the service.';
COMMENT ON COLUMN api_keys.team_id IS
    'The team for which the key acts, as a user of its own (its id) who is a member of that team only; null: it acts '
    'for a user or for the service.';
COMMENT ON COLUMN api_keys.prefix IS 'The digits in the key''s text by which people recognise it; not secret.';
COMMENT ON COLUMN api_keys.hash IS 'SHA-256 of the key''s text.';
COMMENT ON COLUMN api_keys.addresses IS 'The networks from which the key may be used; null: any.';
COMMENT ON COLUMN api_keys.created_by IS 'Who made the key: the user, or "service".';
COMMENT ON COLUMN api_keys.last_used_at IS 'When a request last used the key, to the minute.';
CREATE INDEX api_keys_owner ON cortana.api_keys (owner_id, created_at, id) WHERE owner_id IS NOT NULL;
CREATE INDEX api_keys_team ON cortana.api_keys (team_id, created_at, id) WHERE team_id IS NOT NULL;
SELECT secure_table('api_keys', 'SELECT');

CREATE FUNCTION api.require_admin() RETURNS void
LANGUAGE plpgsql STABLE AS $$
BEGIN
    IF NOT api.is_admin() THEN
        RAISE EXCEPTION 'this is an admin''s' USING ERRCODE = 'insufficient_privilege';
    END IF;
END
$$;
COMMENT ON FUNCTION api.require_admin IS 'Refuses every caller except a tenant''s admins and the service.';

CREATE FUNCTION api.manages(p_owner_id uuid, p_team_id uuid) RETURNS boolean
LANGUAGE sql STABLE AS $$
    SELECT api.is_service() OR coalesce(p_owner_id = auth.uid() OR p_team_id = ANY (current_team_ids()), false)
$$;
COMMENT ON FUNCTION api.manages IS
    'Whether an object of this user or this team belongs to the caller, who must be an admin.';

CREATE FUNCTION api.key_object(k api_keys) RETURNS jsonb
LANGUAGE sql STABLE
RETURN jsonb_build_object(
    'id', k.id, 'name', k.name, 'prefix', k.prefix, 'role', k.role, 'owner_id', k.owner_id, 'team_id', k.team_id,
    'addresses', array_to_string(k.addresses, ','), 'created_by', k.created_by, 'created_at', k.created_at,
    'last_used_at', k.last_used_at, 'expires_at', k.expires_at, 'revoked_at', k.revoked_at);
COMMENT ON FUNCTION api.key_object IS 'An API key as its managers see it, without the digest.';

CREATE FUNCTION api.keys(p jsonb) RETURNS api.answer
LANGUAGE plpgsql STABLE SECURITY DEFINER AS $$
DECLARE
    wanted CONSTANT int := coalesce((p ->> 'limit')::int, 50);
    keys CONSTANT jsonb := api.read_cursor(p, 2);
BEGIN
    PERFORM api.require_admin();
    RETURN api.page(p, wanted, ARRAY(
        SELECT (api.key_object(k), jsonb_build_array(k.created_at, k.id))::api.listed FROM api_keys k
        WHERE api.manages(k.owner_id, k.team_id)
          AND (keys IS NULL OR (k.created_at, k.id) < ((keys ->> 0)::timestamptz, (keys ->> 1)::uuid))
        ORDER BY k.created_at DESC, k.id DESC LIMIT wanted + 1));
END
$$;

CREATE FUNCTION api.make_key(p jsonb) RETURNS api.answer
LANGUAGE plpgsql SECURITY DEFINER AS $$
DECLARE
    team CONSTANT uuid := p ->> 'team_id';
    is_the_services CONSTANT boolean := p ->> 'role' = 'service';
    prefix CONSTANT text := left(gen_random_uuid()::text, 8);
    secret CONSTANT text := 'cvk_' || prefix || '_' || random_text(32);
    made api_keys;
BEGIN
    PERFORM api.require_admin();
    IF auth.jwt() ? 'key_id' THEN
        RAISE EXCEPTION 'a key makes no keys' USING ERRCODE = 'insufficient_privilege';
    ELSIF is_the_services AND (NOT api.is_service() OR auth.jwt() ->> 'role' IS DISTINCT FROM 'service_role') THEN
        RAISE EXCEPTION 'keys of the service are made by the service' USING ERRCODE = 'insufficient_privilege';
    ELSIF team IS NOT NULL AND NOT api.manages(NULL, team) THEN
        RAISE EXCEPTION 'you are not a member of this team' USING ERRCODE = 'invalid_parameter_value';
    ELSIF is_the_services AND team IS NOT NULL THEN
        RAISE EXCEPTION 'a key of the service belongs to no team' USING ERRCODE = 'invalid_parameter_value';
    ELSIF NOT is_the_services AND team IS NULL AND auth.uid() IS NULL THEN
        RAISE EXCEPTION 'team_id says whose key it is' USING ERRCODE = 'invalid_parameter_value';
    ELSIF (p ->> 'expires_at')::timestamptz <= now() THEN
        RAISE EXCEPTION 'expires_at has passed' USING ERRCODE = 'invalid_parameter_value';
    END IF;
    INSERT INTO api_keys (owner_id, team_id, role, name, prefix, hash, addresses, created_by, expires_at)
    VALUES (CASE WHEN team IS NULL AND NOT is_the_services THEN auth.uid() END, team, p ->> 'role', p ->> 'name', prefix,
            secret_hash(secret), string_to_array(nullif(p ->> 'addresses', ''), ',')::cidr[],
            coalesce(auth.uid()::text, 'service'), (p ->> 'expires_at')::timestamptz)
    RETURNING * INTO made;
    RETURN ROW(201, NULL, NULL, api.key_object(made) || jsonb_build_object('secret', secret))::api.answer;
END
$$;

CREATE FUNCTION api.revoke_key(p jsonb) RETURNS api.answer
LANGUAGE plpgsql SECURITY DEFINER AS $$
BEGIN
    PERFORM api.require_admin();
    UPDATE api_keys SET revoked_at = coalesce(revoked_at, now())
    WHERE id = (p ->> 'id')::uuid AND api.manages(owner_id, team_id);
    RETURN api.done(FOUND);
END
$$;

CREATE FUNCTION api.use_key(p_hash bytea, p_address inet) RETURNS jsonb
LANGUAGE plpgsql SECURITY DEFINER AS $$
DECLARE
    used api_keys;
BEGIN
    SELECT * INTO used FROM api_keys k
    WHERE k.hash = p_hash AND k.revoked_at IS NULL AND coalesce(k.expires_at > now(), true)
      AND (k.addresses IS NULL OR p_address <<= ANY (k.addresses));
    IF NOT FOUND THEN
        RETURN find_session(p_hash, p_address);
    ELSIF EXISTS (SELECT FROM people w WHERE w.id = used.owner_id AND w.disabled_at IS NOT NULL) THEN
        RETURN NULL;
    END IF;
    IF coalesce(used.last_used_at < now() - interval '1 minute', true) THEN
        -- Another request with the same key may be recording its use at the same time.
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
COMMENT ON FUNCTION api.use_key IS
    'Returns the claims of the API key or the session with this digest, and records that it was used; null: there is '
    'none, it may not be used from this address, or it has ended. For the gateway only.';

-- ---- links that sign in ------------------------------------------------------------------------------------
-- A code of 22 digits of base64url stands for claims, because a token in a link is too long for a line of a terminal.
-- Only its SHA-256 is stored: 128 random bits need no salt.

CREATE TABLE cortana.sign_in_codes (
    hash bytea PRIMARY KEY CHECK (length(hash) = 32),
    claims jsonb NOT NULL,
    uses_left smallint NOT NULL DEFAULT 5 CHECK (uses_left >= 0),
    expires_at timestamptz NOT NULL DEFAULT now() + interval '1 hour'
);
COMMENT ON TABLE cortana.sign_in_codes IS 'Codes in links that sign somebody in to the web page.';
COMMENT ON COLUMN sign_in_codes.hash IS 'SHA-256 of the code''s text.';
COMMENT ON COLUMN sign_in_codes.claims IS 'Whom the code signs in: the claims of the session that it begins.';
COMMENT ON COLUMN sign_in_codes.uses_left IS
    'How often it may still be exchanged: a link is opened in a second browser, or after cookies were deleted.';
COMMENT ON COLUMN sign_in_codes.expires_at IS 'The end of the code, and of the sessions that it begins.';
ALTER TABLE cortana.sign_in_codes ENABLE ROW LEVEL SECURITY;

CREATE FUNCTION cortana.make_sign_in_code(p_user_id uuid) RETURNS text
LANGUAGE plpgsql SECURITY DEFINER AS $$
DECLARE
    code CONSTANT text := random_text(16);
BEGIN
    INSERT INTO sign_in_codes (hash, claims)
    VALUES (secret_hash(code), jsonb_build_object('role', 'service_role', 'sub', p_user_id));
    RETURN code;
END
$$;
COMMENT ON FUNCTION cortana.make_sign_in_code IS
    'Makes a code that signs this user of a local installation in as the service. Only this answer shows it.';

-- ---- once and no more --------------------------------------------------------------------------------------

CREATE TABLE cortana.idempotency_keys (
    caller text NOT NULL,
    key text NOT NULL,
    request_hash bytea NOT NULL,
    status int,
    headers jsonb,
    body jsonb,
    created_at timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (caller, key)
);
COMMENT ON TABLE cortana.idempotency_keys IS
    'Answers to requests with the header Idempotency-Key, kept for 24 hours, so that a repeated request has one '
    'effect. A row is written in the transaction of the effect, so that a failed request leaves none.';
CREATE INDEX idempotency_keys_age ON cortana.idempotency_keys (created_at);
SELECT secure_table('idempotency_keys', 'SELECT');

CREATE FUNCTION api.begin_once(p_caller text, p_key text, p_request text, OUT outcome text, OUT status int, OUT etag text,
                               OUT headers jsonb, OUT body jsonb)
LANGUAGE plpgsql SECURITY DEFINER
SET lock_timeout = '5s' AS $$
DECLARE
    hash CONSTANT bytea := sha256(convert_to(p_request, 'UTF8'));
    kept idempotency_keys;
BEGIN
    -- Waits while another request with this key is being processed.
    INSERT INTO idempotency_keys AS i (caller, key, request_hash) VALUES (p_caller, p_key, hash)
    ON CONFLICT ON CONSTRAINT idempotency_keys_pkey
        DO UPDATE SET request_hash = hash, status = NULL, headers = NULL, body = NULL, created_at = now()
        WHERE i.created_at < now() - interval '24 hours';
    IF FOUND THEN
        outcome := 'new';
        RETURN;
    END IF;
    SELECT * INTO kept FROM idempotency_keys k WHERE k.caller = p_caller AND k.key = p_key;
    outcome := CASE kept.request_hash WHEN hash THEN 'again' ELSE 'other' END;
    status := kept.status;
    headers := coalesce(kept.headers, '{}') || '{"Idempotency-Replayed": "true"}';
    body := kept.body;
END
$$;
COMMENT ON FUNCTION api.begin_once IS
    'Whether a request of the caller with this Idempotency-Key is "new", was answered before ("again", with the '
    'answer), or the key belongs to an "other" request. For the gateway only.';

CREATE FUNCTION api.end_once(p_caller text, p_key text, p_status int, p_headers jsonb, p_body jsonb) RETURNS void
LANGUAGE sql SECURITY DEFINER AS $$
    UPDATE idempotency_keys SET status = p_status, headers = p_headers, body = p_body - 'secret'
    WHERE caller = p_caller AND key = p_key
$$;
COMMENT ON FUNCTION api.end_once IS
    'Stores the answer to a new request with an Idempotency-Key, without secrets that are shown only once. For the '
    'gateway only.';

-- ---- the audit log -----------------------------------------------------------------------------------------

CREATE TABLE cortana.audit_log (
    id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    at timestamptz NOT NULL DEFAULT clock_timestamp(),
    request_id text NOT NULL,
    caller text NOT NULL,
    role text NOT NULL,
    user_id uuid,
    address inet,
    operation text NOT NULL,
    method text NOT NULL,
    path text NOT NULL,
    target uuid,
    parameters jsonb NOT NULL,
    status int NOT NULL,
    reason text,
    owner_id uuid,
    team_id uuid
);
COMMENT ON TABLE cortana.audit_log IS
    'Changes through the HTTP API, and refused requests. A change is recorded in its own transaction. Rows cannot be '
    'changed, and are kept for 400 days.';
COMMENT ON COLUMN audit_log.caller IS '"user:" and the user, "key:" and the API key, "service", or "nobody".';
COMMENT ON COLUMN audit_log.user_id IS 'The user who made the request; for an API key, the user for whom it acts.';
COMMENT ON COLUMN audit_log.target IS 'The object that the request was about or created.';
COMMENT ON COLUMN audit_log.parameters IS
    'Parameters of the request, redacted; long texts are cut, objects and lists are left out.';
COMMENT ON COLUMN audit_log.reason IS 'Why the request was refused; null: it was not refused.';
COMMENT ON COLUMN audit_log.owner_id IS 'The owner of the target.';
COMMENT ON COLUMN audit_log.team_id IS
    'The team whose admins may see the row: that of the target, or the caller''s only team.';
CREATE INDEX audit_log_age ON cortana.audit_log USING brin (at);
CREATE INDEX audit_log_user ON cortana.audit_log (user_id, id) WHERE user_id IS NOT NULL;
CREATE INDEX audit_log_owner ON cortana.audit_log (owner_id, id) WHERE owner_id IS NOT NULL;
CREATE INDEX audit_log_team ON cortana.audit_log (team_id, id) WHERE team_id IS NOT NULL;
SELECT secure_table('audit_log', 'SELECT');

CREATE FUNCTION cortana.audit_kept() RETURNS interval
LANGUAGE sql IMMUTABLE
RETURN interval '400 days';
COMMENT ON FUNCTION cortana.audit_kept IS 'How long rows of audit_log are kept.';

CREATE FUNCTION cortana.keep_audit_log() RETURNS trigger
LANGUAGE plpgsql AS $$
BEGIN
    IF TG_OP = 'DELETE' AND OLD.at < now() - audit_kept() THEN
        RETURN OLD;
    END IF;
    RAISE EXCEPTION 'rows of the audit log do not change' USING ERRCODE = 'insufficient_privilege';
END
$$;
COMMENT ON FUNCTION cortana.keep_audit_log IS 'Trigger: refuses changes to audit_log, also by its owner.';
CREATE TRIGGER keep_audit_log BEFORE UPDATE OR DELETE ON cortana.audit_log
    FOR EACH ROW EXECUTE FUNCTION cortana.keep_audit_log();
CREATE TRIGGER keep_audit_log_whole BEFORE TRUNCATE ON cortana.audit_log
    FOR EACH STATEMENT EXECUTE FUNCTION cortana.keep_audit_log();

CREATE FUNCTION api.record(p_rows jsonb) RETURNS void
LANGUAGE plpgsql SECURITY DEFINER AS $$
DECLARE
    noted jsonb;
    things_owner uuid;
    things_team uuid;
    sees boolean;
BEGIN
    FOR noted IN SELECT jsonb_array_elements(p_rows) LOOP
        PERFORM set_config('request.jwt.claims', noted ->> 'claims', true);
        SELECT t.owner_id, t.team_id INTO things_owner, things_team FROM (
            SELECT v.owner_id, v.team_id FROM videos v WHERE v.id = (noted ->> 'target')::uuid
            UNION ALL
            SELECT v.owner_id, v.team_id FROM jobs j JOIN videos v ON v.id = j.video_id WHERE j.id = (noted ->> 'target')::uuid
            UNION ALL
            SELECT v.owner_id, v.team_id FROM runs r JOIN videos v ON v.id = r.video_id WHERE r.id = (noted ->> 'target')::uuid
            UNION ALL
            SELECT k.owner_id, k.team_id FROM api_keys k WHERE k.id = (noted ->> 'target')::uuid) AS t LIMIT 1;
        sees := noted ->> 'role' IN ('operator', 'service') OR coalesce(things_owner = auth.uid(), false)
                OR coalesce(things_team = ANY (current_team_ids()), false);
        INSERT INTO audit_log (request_id, caller, role, user_id, address, operation, method, path, target, parameters,
                               status, reason, owner_id, team_id)
        VALUES (noted ->> 'request_id', noted ->> 'caller', noted ->> 'role', auth.uid(), (noted ->> 'address')::inet,
                noted ->> 'operation', noted ->> 'method', noted ->> 'path', (noted ->> 'target')::uuid,
                noted -> 'parameters', (noted ->> 'status')::int, noted ->> 'reason',
                CASE WHEN sees THEN things_owner END,
                CASE WHEN sees THEN things_team
                     WHEN cardinality(current_team_ids()) = 1 THEN (current_team_ids())[1] END);
    END LOOP;
END
$$;
COMMENT ON FUNCTION api.record IS
    'Records requests in the audit log. The admins of the target''s tenant may see a row if the caller may see the '
    'target. For the gateway only.';

CREATE FUNCTION api.audit(p jsonb) RETURNS api.answer
LANGUAGE plpgsql STABLE SECURITY DEFINER AS $$
DECLARE
    wanted CONSTANT int := coalesce((p ->> 'limit')::int, 50);
    keys CONSTANT jsonb := api.read_cursor(p, 1);
BEGIN
    PERFORM api.require_admin();
    RETURN api.page(p, wanted, ARRAY(
        SELECT (jsonb_build_object(
                    'id', a.id, 'at', a.at, 'request_id', a.request_id, 'caller', a.caller, 'role', a.role, 'user_id', a.user_id,
                    'address', host(a.address), 'operation', a.operation, 'method', a.method, 'path', a.path,
                    'target', a.target, 'parameters', a.parameters, 'status', a.status, 'reason', a.reason),
                jsonb_build_array(a.id))::api.listed
        FROM audit_log a
        WHERE (api.is_service() OR a.user_id = auth.uid() OR a.owner_id = auth.uid() OR a.team_id = ANY (current_team_ids()))
          AND (p ->> 'user' IS NULL OR a.user_id = (p ->> 'user')::uuid)
          AND (p ->> 'target' IS NULL OR a.target = (p ->> 'target')::uuid)
          AND (p ->> 'operation' IS NULL OR a.operation = p ->> 'operation')
          AND (p ->> 'refused' IS NULL OR (a.status >= 400) = (p ->> 'refused')::boolean)
          AND (p ->> 'after' IS NULL OR a.at >= (p ->> 'after')::timestamptz)
          AND (p ->> 'before' IS NULL OR a.at < (p ->> 'before')::timestamptz)
          AND (keys IS NULL OR a.id < (keys ->> 0)::bigint)
        ORDER BY a.id DESC LIMIT wanted + 1));
END
$$;

CREATE FUNCTION cortana.prune_api_records() RETURNS void
LANGUAGE plpgsql SECURITY DEFINER AS $$
BEGIN
    DELETE FROM idempotency_keys WHERE created_at < now() - interval '24 hours';
    DELETE FROM audit_log WHERE at < now() - audit_kept();
    DELETE FROM sign_in_codes WHERE expires_at < now();
    DELETE FROM sessions WHERE expires_at < now();
    DELETE FROM invitations WHERE expires_at < now();
END
$$;
COMMENT ON FUNCTION cortana.prune_api_records IS
    'Deletes records of the HTTP API about its callers that are too old to be kept.';

-- ---- who may call what -------------------------------------------------------------------------------------

SELECT secure_objects();
GRANT EXECUTE ON FUNCTION api.use_key, api.begin_once, api.end_once, api.record TO cortana_gateway;
