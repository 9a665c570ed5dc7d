-- People who sign in, the tenants that they belong to, their sessions, and the links that invite them. Tokens of
-- others (CORTANA_JWKS_URL) need none of this: their issuer knows its people.

CREATE TABLE cortana.tenants (
    id uuid PRIMARY KEY DEFAULT gen_random_uuid(),
    name text NOT NULL CHECK (length(name) BETWEEN 1 AND 100),
    time_zone text NOT NULL DEFAULT 'UTC',
    created_at timestamptz NOT NULL DEFAULT now()
);
COMMENT ON TABLE cortana.tenants IS
    'Tenants with a name. Their id is the team_id of their videos, or the owner_id of those without a team. A tenant of an issuer''s tokens needs no row.';
COMMENT ON COLUMN tenants.time_zone IS 'In which the names of its files say when they were recorded.';
SELECT secure_table('cortana.tenants');

CREATE TABLE cortana.people (
    id uuid PRIMARY KEY DEFAULT gen_random_uuid(),
    email text NOT NULL UNIQUE CHECK (email = lower(email) AND length(email) BETWEEN 3 AND 254),
    name text NOT NULL CHECK (length(name) BETWEEN 1 AND 100),
    password text,
    is_operator boolean NOT NULL DEFAULT false,
    created_at timestamptz NOT NULL DEFAULT now(),
    disabled_at timestamptz
);
COMMENT ON TABLE cortana.people IS
    'People who sign in here. Their id is the owner_id of what they own. No role reads it: functions do.';
COMMENT ON COLUMN people.email IS 'In small letters.';
COMMENT ON COLUMN people.password IS 'Argon2id of the password, in its own notation; null: they have none.';
COMMENT ON COLUMN people.is_operator IS 'Whether they may do what operators may, in all tenants.';
COMMENT ON COLUMN people.disabled_at IS 'Since when they cannot sign in; null: they can.';
ALTER TABLE cortana.people ENABLE ROW LEVEL SECURITY;

CREATE TABLE cortana.members (
    person_id uuid NOT NULL REFERENCES cortana.people ON DELETE CASCADE,
    tenant_id uuid NOT NULL REFERENCES cortana.tenants ON DELETE CASCADE,
    role text NOT NULL CHECK (role IN ('viewer', 'editor', 'admin')),
    created_at timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (person_id, tenant_id)
);
COMMENT ON TABLE cortana.members IS 'Who belongs to which tenant, and what they may do there.';
CREATE INDEX members_tenant ON cortana.members (tenant_id);
SELECT secure_table('cortana.members');

CREATE TABLE cortana.sessions (
    id uuid PRIMARY KEY DEFAULT gen_random_uuid(),
    hash bytea NOT NULL UNIQUE CHECK (length(hash) = 32),
    person_id uuid REFERENCES cortana.people ON DELETE CASCADE,
    claims jsonb,
    tenant_id uuid,
    address inet,
    program text,
    created_at timestamptz NOT NULL DEFAULT now(),
    used_at timestamptz NOT NULL DEFAULT now(),
    expires_at timestamptz NOT NULL,
    CHECK (num_nonnulls(person_id, claims) = 1)
);
COMMENT ON TABLE cortana.sessions IS
    'Browsers that are signed in. What a session may do is looked up at each request, so that it ends at once.';
COMMENT ON COLUMN sessions.hash IS 'SHA-256 of the text in the cookie: 244 random bits need no salt.';
COMMENT ON COLUMN sessions.claims IS 'Whom the code of a link has signed in; null: a person.';
COMMENT ON COLUMN sessions.tenant_id IS 'The tenant that the person has chosen; null, or one that they left: any of theirs.';
COMMENT ON COLUMN sessions.program IS 'What the browser calls itself.';
COMMENT ON COLUMN sessions.used_at IS 'When a request last used it, to the minute.';
CREATE INDEX sessions_person ON cortana.sessions (person_id);
ALTER TABLE cortana.sessions ENABLE ROW LEVEL SECURITY;

CREATE TABLE cortana.invitations (
    id uuid PRIMARY KEY DEFAULT gen_random_uuid(),
    hash bytea NOT NULL UNIQUE CHECK (length(hash) = 32),
    person_id uuid REFERENCES cortana.people ON DELETE CASCADE,
    email text CHECK (email = lower(email)),
    code text,
    tenant_id uuid REFERENCES cortana.tenants ON DELETE CASCADE,
    role text CHECK (role IN ('viewer', 'editor', 'admin', 'operator')),
    created_by text NOT NULL,
    created_at timestamptz NOT NULL DEFAULT now(),
    expires_at timestamptz NOT NULL,
    CHECK (num_nonnulls(person_id, role) = 1 AND (role IS NULL OR tenant_id IS NOT NULL))
);
COMMENT ON TABLE cortana.invitations IS
    'Links that let somebody in, once: a new member of a tenant, or a person who sets a new password. A row is deleted '
    'when its link is used.';
COMMENT ON COLUMN invitations.hash IS 'SHA-256 of the code in the link.';
COMMENT ON COLUMN invitations.person_id IS 'Who sets a new password; null: somebody is invited.';
COMMENT ON COLUMN invitations.email IS 'Who is invited; null: whoever has the link.';
COMMENT ON COLUMN invitations.code IS 'The code, until the mail with the link was sent; null: there is none to send.';
COMMENT ON COLUMN invitations.created_by IS 'The name of the person who made it, or "service".';
CREATE INDEX invitations_tenant ON cortana.invitations (tenant_id);
ALTER TABLE cortana.invitations ENABLE ROW LEVEL SECURITY;

CREATE TABLE cortana.sign_in_providers (
    name text PRIMARY KEY,
    title text NOT NULL,
    issuer text NOT NULL,
    client_id text NOT NULL,
    client_secret text,
    tenant_id uuid REFERENCES cortana.tenants ON DELETE SET NULL,
    role text CHECK (role IN ('viewer', 'editor', 'admin'))
);
COMMENT ON TABLE cortana.sign_in_providers IS 'Providers of OpenID Connect by which people sign in.';
COMMENT ON COLUMN sign_in_providers.tenant_id IS
    'The tenant that everybody whom the provider knows joins with `role`; null: only who is invited may sign in.';
ALTER TABLE cortana.sign_in_providers ENABLE ROW LEVEL SECURITY;

CREATE TABLE cortana.identities (
    provider text NOT NULL REFERENCES cortana.sign_in_providers ON DELETE CASCADE,
    subject text NOT NULL,
    person_id uuid NOT NULL REFERENCES cortana.people ON DELETE CASCADE,
    PRIMARY KEY (provider, subject)
);
COMMENT ON TABLE cortana.identities IS 'Who is who at a provider.';
COMMENT ON COLUMN identities.subject IS 'The claim "sub" of the provider''s ID tokens: an e-mail address may change hands.';
CREATE INDEX identities_person ON cortana.identities (person_id);
ALTER TABLE cortana.identities ENABLE ROW LEVEL SECURITY;

-- ---- sessions ----------------------------------------------------------------------------------------------

CREATE FUNCTION cortana.session_claims(s sessions) RETURNS jsonb
LANGUAGE sql STABLE AS $$
    SELECT coalesce(s.claims, (
        SELECT jsonb_build_object('sub', p.id, 'role', 'authenticated', 'app_metadata', jsonb_strip_nulls(jsonb_build_object(
                   'cortana_role', CASE WHEN p.is_operator THEN 'operator' ELSE m.role END, 'team_id', m.tenant_id)))
        FROM people p LEFT JOIN LATERAL (
            SELECT * FROM members m WHERE m.person_id = p.id
            ORDER BY m.tenant_id = s.tenant_id DESC NULLS LAST, m.created_at, m.tenant_id LIMIT 1) AS m ON true
        WHERE p.id = s.person_id AND p.disabled_at IS NULL AND (p.is_operator OR m.role IS NOT NULL)))
        || jsonb_build_object('session', s.id, 'exp', floor(extract(epoch FROM s.expires_at)))
$$;
COMMENT ON FUNCTION cortana.session_claims IS
    'What a session may do now, as the claims of a token; null: its person has been disabled or belongs to no tenant.';

CREATE FUNCTION cortana.find_session(p_hash bytea, p_address inet) RETURNS jsonb
LANGUAGE plpgsql AS $$
DECLARE
    used sessions;
BEGIN
    SELECT * INTO used FROM sessions s WHERE s.hash = p_hash AND s.expires_at > now();
    IF used.used_at < now() - interval '1 minute' THEN
        -- Another request of the same browser may be recording its use at the same time.
        PERFORM FROM sessions s WHERE s.id = used.id FOR NO KEY UPDATE SKIP LOCKED;
        IF FOUND THEN
            UPDATE sessions SET used_at = now(), address = p_address WHERE id = used.id;
        END IF;
    END IF;
    RETURN session_claims(used);
END
$$;
COMMENT ON FUNCTION cortana.find_session IS
    'The claims of the session with this digest, and records that it was used; null: there is none.';

CREATE FUNCTION cortana.find_invitation(p_hash bytea) RETURNS invitations
LANGUAGE sql STABLE AS $$
    SELECT i FROM invitations i LEFT JOIN people p ON p.id = i.person_id
    WHERE i.hash = p_hash AND i.expires_at > now() AND p.disabled_at IS NULL
$$;
COMMENT ON FUNCTION cortana.find_invitation IS
    'The invitation whose code has this digest; null: there is none, it was used, or it has ended.';

CREATE FUNCTION cortana.hold_invitation(p_hash bytea) RETURNS invitations
LANGUAGE sql AS $$
    SELECT FROM invitations WHERE hash = p_hash FOR UPDATE;
    SELECT find_invitation(p_hash);
$$;
COMMENT ON FUNCTION cortana.hold_invitation IS
    'As find_invitation(), once nobody else is using the same link: the second finds that it was used.';

CREATE FUNCTION cortana.join_tenant(p_person_id uuid, i invitations) RETURNS void
LANGUAGE plpgsql AS $$
BEGIN
    DELETE FROM invitations WHERE id = i.id;
    INSERT INTO members AS m (person_id, tenant_id, role)
    VALUES (p_person_id, i.tenant_id, CASE i.role WHEN 'operator' THEN 'admin' ELSE i.role END)
    ON CONFLICT (person_id, tenant_id) DO UPDATE SET role = excluded.role;
    UPDATE people SET is_operator = true WHERE id = p_person_id AND i.role = 'operator';
END
$$;
COMMENT ON FUNCTION cortana.join_tenant IS 'Uses an invitation: the person becomes a member of its tenant.';

CREATE FUNCTION cortana.take_invitation(p jsonb) RETURNS uuid
LANGUAGE plpgsql AS $$
DECLARE
    i CONSTANT invitations := hold_invitation(decode(p ->> 'digest', 'hex'));
    address CONSTANT text := coalesce(i.email, lower(p ->> 'email'));
    person uuid := i.person_id;
BEGIN
    IF i.id IS NULL THEN
        RETURN NULL;
    ELSIF person IS NOT NULL THEN
        DELETE FROM invitations WHERE person_id = person;  -- the others of this person, too
        UPDATE people SET password = p ->> 'password_hash' WHERE id = person;
        DELETE FROM sessions WHERE person_id = person;
        RETURN person;
    ELSIF address IS NULL OR p ->> 'name' IS NULL THEN
        RAISE EXCEPTION 'name and email say who joins' USING ERRCODE = 'invalid_parameter_value';
    END IF;
    INSERT INTO people (email, name, password) VALUES (address, p ->> 'name', p ->> 'password_hash')
    ON CONFLICT (email) DO NOTHING RETURNING id INTO person;
    IF person IS NULL THEN
        RAISE EXCEPTION 'somebody with this e-mail address has an account here: sign in, and open the link again'
            USING ERRCODE = 'object_not_in_prerequisite_state';
    END IF;
    PERFORM join_tenant(person, i);
    RETURN person;
END
$$;
COMMENT ON FUNCTION cortana.take_invitation IS
    'Uses the link of an invitation, or of a new password, for somebody who is not signed in; returns the person. Null: '
    'there is no such link.';

CREATE FUNCTION cortana.take_identity(p jsonb) RETURNS uuid
LANGUAGE plpgsql AS $$
DECLARE
    known CONSTANT sign_in_providers := (SELECT s FROM sign_in_providers s WHERE s.name = p ->> 'provider');
    address CONSTANT text := CASE WHEN p -> 'email_verified' = 'true' THEN lower(p ->> 'email') END;
    person uuid;
    i invitations;
BEGIN
    SELECT person_id INTO person FROM identities WHERE provider = known.name AND subject = p ->> 'subject';
    IF person IS NOT NULL THEN
        RETURN person;
    END IF;
    SELECT id INTO person FROM people WHERE email = address;
    IF person IS NULL AND (known.tenant_id IS NOT NULL AND known.role IS NOT NULL
                           OR EXISTS (SELECT FROM invitations v WHERE v.email = address AND v.role IS NOT NULL AND v.expires_at > now())) THEN
        INSERT INTO people (email, name) VALUES (address, left(coalesce(nullif(p ->> 'name', ''), address), 100)) RETURNING id INTO person;
        INSERT INTO members (person_id, tenant_id, role)
        SELECT person, known.tenant_id, known.role WHERE known.tenant_id IS NOT NULL AND known.role IS NOT NULL;
        FOR i IN SELECT * FROM invitations v WHERE v.email = address AND v.role IS NOT NULL AND v.expires_at > now() LOOP
            PERFORM join_tenant(person, i);
        END LOOP;
    ELSIF person IS NULL THEN
        RAISE EXCEPTION 'nobody has invited you: ask for an invitation to the e-mail address that the provider has confirmed'
            USING ERRCODE = 'object_not_in_prerequisite_state';
    END IF;
    INSERT INTO identities (provider, subject, person_id) VALUES (known.name, p ->> 'subject', person);
    RETURN person;
END
$$;
COMMENT ON FUNCTION cortana.take_identity IS
    'The person whom a provider has named. At the first time: who has the e-mail address that it has confirmed, or was '
    'invited by it, or whoever comes, where the provider has a tenant for all.';

-- ---- for the gateway only ----------------------------------------------------------------------------------

CREATE FUNCTION api.find_account(p jsonb) RETURNS jsonb
LANGUAGE sql STABLE SECURITY DEFINER AS $$
    SELECT jsonb_build_object('person_id', p.id, 'password', p.password, 'is_known', EXISTS (
               SELECT FROM sessions s WHERE s.person_id = p.id AND s.address = (find_account.p ->> 'address')::inet))
    FROM people p
    WHERE p.disabled_at IS NULL
      AND p.id = CASE WHEN find_account.p ? 'email' THEN (SELECT e.id FROM people e WHERE e.email = lower(find_account.p ->> 'email'))
                      WHEN find_account.p ? 'session' THEN (
                          SELECT s.person_id FROM sessions s
                          WHERE s.hash = decode(find_account.p ->> 'session', 'hex') AND s.expires_at > now())
                      ELSE (find_account.p ->> 'person_id')::uuid END
$$;
COMMENT ON FUNCTION api.find_account IS
    'The account of an e-mail address, of a session by its digest, or of a person: with the digest of its password, and '
    'whether it has a session from this address; null: there is none. For the gateway only, which compares passwords.';

CREATE FUNCTION api.find_provider(p_name text) RETURNS jsonb
LANGUAGE sql STABLE SECURITY DEFINER AS $$
    SELECT to_jsonb(s) FROM sign_in_providers s WHERE s.name = p_name
$$;
COMMENT ON FUNCTION api.find_provider IS 'A provider with its secret; null: there is none. For the gateway only.';

CREATE FUNCTION api.enter(p jsonb) RETURNS jsonb
LANGUAGE plpgsql SECURITY DEFINER AS $$
DECLARE
    lasts CONSTANT interval := '30 days';
    only_asks CONSTANT boolean := coalesce((p ->> 'only_asks')::boolean, false);
    secret CONSTANT text := 'cvs_' || random_text(32);
    person uuid := p ->> 'person_id';
    given jsonb;
    ends timestamptz := now() + lasts;
    made sessions;
BEGIN
    IF p ->> 'by' = 'sign_in' THEN
        UPDATE sign_in_codes SET uses_left = uses_left - (NOT only_asks)::int
        WHERE hash = decode(p ->> 'digest', 'hex') AND uses_left > 0 AND expires_at > now()
        RETURNING claims, expires_at INTO given, ends;
    ELSIF p ->> 'by' = 'accept_invitation' THEN
        person := take_invitation(p);
    ELSIF p ->> 'by' = 'end_at_provider' THEN
        person := take_identity(p);
    ELSIF p ->> 'by' = 'change_password' THEN
        UPDATE people SET password = p ->> 'password_hash' WHERE id = person;
        DELETE FROM sessions WHERE person_id = person;
    END IF;
    IF given IS NULL AND person IS NULL THEN
        RETURN NULL;
    ELSIF only_asks THEN
        RETURN jsonb_build_object('claims', given || jsonb_build_object('exp', floor(extract(epoch FROM ends))));
    END IF;
    INSERT INTO sessions (hash, person_id, claims, address, program, expires_at, tenant_id)
    VALUES (secret_hash(secret), person, given, (p ->> 'address')::inet, left(p ->> 'program', 300), ends, (
        SELECT s.tenant_id FROM sessions s WHERE s.person_id = person ORDER BY s.used_at DESC LIMIT 1))
    RETURNING * INTO made;
    RETURN jsonb_build_object('claims', session_claims(made), 'secret', secret);
END
$$;
COMMENT ON FUNCTION api.enter IS
    'Begins a session for somebody whom the gateway has let in: by the code of a link, a password, an invitation, or a '
    'changed password, which ends all others. Returns its claims and the secret for the cookie; null: there is no such '
    'code. For the gateway only.';

-- ---- who is signed in --------------------------------------------------------------------------------------

CREATE FUNCTION cortana.own_person() RETURNS jsonb
LANGUAGE sql STABLE SECURITY DEFINER AS $$
    SELECT jsonb_build_object(
        'name', p.name, 'email', p.email, 'has_password', p.password IS NOT NULL,
        'tenant_id', auth.jwt() #>> '{app_metadata,team_id}',
        'tenants', (SELECT coalesce(jsonb_agg(jsonb_build_object('id', t.id, 'name', t.name, 'role', m.role)
                                              ORDER BY lower(t.name), t.id), '[]')
                    FROM members m JOIN tenants t ON t.id = m.tenant_id WHERE m.person_id = p.id))
    FROM people p WHERE p.id = auth.uid() AND NOT auth.jwt() ? 'key_id'
$$;
COMMENT ON FUNCTION cortana.own_person IS 'The caller''s own name and tenants; null: no person who signs in here.';

CREATE FUNCTION api.sign_in_with_password(p jsonb) RETURNS api.answer
LANGUAGE sql STABLE
RETURN api.session(p);

CREATE FUNCTION api.accept_invitation(p jsonb) RETURNS api.answer
LANGUAGE sql STABLE
RETURN api.session(p);

CREATE FUNCTION api.change_password(p jsonb) RETURNS api.answer
LANGUAGE sql STABLE
RETURN api.session(p);

CREATE FUNCTION api.sign_out(p jsonb) RETURNS api.answer
LANGUAGE sql SECURITY DEFINER AS $$
    DELETE FROM sessions WHERE hash = decode(p ->> 'digest', 'hex');
    SELECT api.done();
$$;

CREATE FUNCTION api.sessions(p jsonb) RETURNS api.answer
LANGUAGE sql STABLE SECURITY DEFINER AS $$
    SELECT api.all_items(jsonb_agg(jsonb_build_object(
        'id', s.id, 'address', host(s.address), 'program', s.program, 'created_at', s.created_at, 'used_at', s.used_at,
        'expires_at', s.expires_at, 'is_this', coalesce(s.id::text = auth.jwt() ->> 'session', false)) ORDER BY s.used_at DESC, s.id))
    FROM sessions s WHERE s.person_id = auth.uid() AND s.expires_at > now() AND NOT auth.jwt() ? 'key_id'
$$;

CREATE FUNCTION api.end_session(p jsonb) RETURNS api.answer
LANGUAGE plpgsql SECURITY DEFINER AS $$
BEGIN
    DELETE FROM sessions WHERE id = (p ->> 'id')::uuid AND person_id = auth.uid() AND NOT auth.jwt() ? 'key_id';
    RETURN api.done(FOUND);
END
$$;

CREATE FUNCTION api.end_sessions(p jsonb) RETURNS api.answer
LANGUAGE sql SECURITY DEFINER AS $$
    DELETE FROM sessions WHERE person_id = auth.uid() AND NOT auth.jwt() ? 'key_id';
    SELECT api.done();
$$;

CREATE FUNCTION api.choose_tenant(p jsonb) RETURNS api.answer
LANGUAGE plpgsql SECURITY DEFINER AS $$
BEGIN
    UPDATE sessions s SET tenant_id = (p ->> 'tenant_id')::uuid
    WHERE s.id = (auth.jwt() ->> 'session')::uuid AND s.person_id = auth.uid()
      AND EXISTS (SELECT FROM members m WHERE m.person_id = auth.uid() AND m.tenant_id = (p ->> 'tenant_id')::uuid);
    RETURN api.done(FOUND);
END
$$;

-- ---- providers ---------------------------------------------------------------------------------------------

CREATE FUNCTION api.providers(p jsonb) RETURNS api.answer
LANGUAGE sql STABLE SECURITY DEFINER AS $$
    SELECT api.all_items(jsonb_agg(jsonb_build_object('name', s.name, 'title', s.title) ORDER BY s.title, s.name)) FROM sign_in_providers s
$$;

CREATE FUNCTION api.end_at_provider(p jsonb) RETURNS api.answer
LANGUAGE sql STABLE
RETURN api.session(p);

CREATE FUNCTION api.set_provider(p jsonb) RETURNS api.answer
LANGUAGE plpgsql SECURITY DEFINER AS $$
BEGIN
    IF (p ? 'tenant_id') <> (p ? 'role') OR p ? 'tenant_id' AND NOT EXISTS (SELECT FROM tenants WHERE id = (p ->> 'tenant_id')::uuid) THEN
        RAISE EXCEPTION 'tenant_id and role say together where everybody joins' USING ERRCODE = 'invalid_parameter_value';
    END IF;
    INSERT INTO sign_in_providers AS s (name, title, issuer, client_id, client_secret, tenant_id, role)
    VALUES (p ->> 'name', p ->> 'title', p ->> 'issuer', p ->> 'client_id', p ->> 'client_secret', (p ->> 'tenant_id')::uuid, p ->> 'role')
    ON CONFLICT (name) DO UPDATE SET title = excluded.title, issuer = excluded.issuer, client_id = excluded.client_id,
        client_secret = coalesce(excluded.client_secret, s.client_secret), tenant_id = excluded.tenant_id, role = excluded.role;
    RETURN api.done();
END
$$;

CREATE FUNCTION api.remove_provider(p jsonb) RETURNS api.answer
LANGUAGE plpgsql SECURITY DEFINER AS $$
BEGIN
    DELETE FROM sign_in_providers WHERE name = p ->> 'name';
    RETURN api.done(FOUND);
END
$$;

-- ---- people and who may manage them ------------------------------------------------------------------------

CREATE FUNCTION cortana.manages_tenant(p_tenant_id uuid) RETURNS boolean
LANGUAGE sql STABLE
RETURN api.is_service() OR api.is_admin() AND coalesce(p_tenant_id = ANY (current_team_ids()), false);
COMMENT ON FUNCTION cortana.manages_tenant IS 'Whether the caller is an admin of this tenant, or the service.';

CREATE FUNCTION cortana.manages_person(p_id uuid) RETURNS boolean
LANGUAGE sql STABLE AS $$
    SELECT api.is_service() OR NOT p.is_operator AND api.is_admin()
           AND EXISTS (SELECT FROM members m WHERE m.person_id = p.id)
           AND NOT EXISTS (SELECT FROM members m WHERE m.person_id = p.id AND m.tenant_id <> ALL (current_team_ids()))
    FROM people p WHERE p.id = p_id
$$;
COMMENT ON FUNCTION cortana.manages_person IS
    'Whether the caller may change a person''s account: the service, and admins of all tenants that the person belongs '
    'to. So nobody gets into another tenant by the account of a common member, nor becomes an operator.';

CREATE FUNCTION cortana.require_own_hand() RETURNS void
LANGUAGE plpgsql STABLE AS $$
BEGIN
    IF auth.jwt() ? 'key_id' THEN
        RAISE EXCEPTION 'a key lets nobody in' USING ERRCODE = 'insufficient_privilege';
    END IF;
END
$$;
COMMENT ON FUNCTION cortana.require_own_hand IS
    'Refuses API keys: what they made would outlast them.';

CREATE FUNCTION api.people(p jsonb) RETURNS api.answer
LANGUAGE plpgsql STABLE SECURITY DEFINER AS $$
DECLARE
    wanted CONSTANT int := coalesce((p ->> 'limit')::int, 50);
    keys CONSTANT jsonb := api.read_cursor(p, 2);
BEGIN
    PERFORM api.require_admin();
    RETURN api.page(p, wanted, ARRAY(
        SELECT (jsonb_build_object(
                    'id', w.id, 'name', w.name, 'email', w.email, 'is_operator', w.is_operator,
                    'state', CASE WHEN w.disabled_at IS NULL THEN 'active' ELSE 'disabled' END, 'created_at', w.created_at,
                    'may_change', manages_person(w.id),
                    'last_seen_at', (SELECT max(s.used_at) FROM sessions s WHERE s.person_id = w.id),
                    'tenants', (SELECT coalesce(jsonb_agg(jsonb_build_object('id', t.id, 'name', t.name, 'role', m.role)
                                                          ORDER BY lower(t.name), t.id), '[]')
                                FROM members m JOIN tenants t ON t.id = m.tenant_id
                                WHERE m.person_id = w.id AND manages_tenant(t.id))),
                jsonb_build_array(lower(w.name), w.id))::api.listed
        FROM people w
        WHERE (api.is_service()
               OR EXISTS (SELECT FROM members m WHERE m.person_id = w.id AND m.tenant_id = ANY (current_team_ids())))
          AND (keys IS NULL OR (lower(w.name), w.id) > (keys ->> 0, (keys ->> 1)::uuid))
        ORDER BY lower(w.name), w.id LIMIT wanted + 1));
END
$$;

CREATE FUNCTION api.change_person(p jsonb) RETURNS api.answer
LANGUAGE plpgsql SECURITY DEFINER AS $$
DECLARE
    person CONSTANT uuid := p ->> 'id';
    tenant CONSTANT uuid := coalesce(p ->> 'tenant_id', auth.jwt() #>> '{app_metadata,team_id}');
BEGIN
    PERFORM api.require_admin(), require_own_hand();
    IF NOT EXISTS (SELECT FROM people w LEFT JOIN members m ON m.person_id = w.id
                   WHERE w.id = person AND (api.is_service() OR manages_tenant(m.tenant_id))) THEN
        RETURN api.not_found();
    ELSIF person = auth.uid() THEN
        RAISE EXCEPTION 'nobody changes their own role: ask another admin' USING ERRCODE = 'insufficient_privilege';
    END IF;
    IF p ? 'role' THEN
        UPDATE members SET role = p ->> 'role'
        WHERE person_id = person AND tenant_id = tenant AND manages_tenant(tenant)
          AND (api.is_service() OR NOT (SELECT w.is_operator FROM people w WHERE w.id = person));
        PERFORM api.require_found(FOUND);
    END IF;
    IF p ? 'state' OR p ? 'name' THEN
        UPDATE people SET disabled_at = CASE p ->> 'state' WHEN 'disabled' THEN coalesce(disabled_at, now())
                                                           WHEN 'active' THEN NULL ELSE disabled_at END,
                          name = coalesce(p ->> 'name', name)
        WHERE id = person AND manages_person(person);
        PERFORM api.require_found(FOUND);
    END IF;
    IF p ->> 'state' = 'disabled' THEN
        DELETE FROM sessions WHERE person_id = person;
        DELETE FROM invitations WHERE person_id = person;
    END IF;
    RETURN api.done();
END
$$;

CREATE FUNCTION api.remove_person(p jsonb) RETURNS api.answer
LANGUAGE plpgsql SECURITY DEFINER AS $$
DECLARE
    person CONSTANT uuid := p ->> 'id';
    tenant CONSTANT uuid := coalesce(p ->> 'tenant_id', auth.jwt() #>> '{app_metadata,team_id}');
BEGIN
    PERFORM api.require_admin(), require_own_hand();
    DELETE FROM members WHERE person_id = person AND tenant_id = tenant AND manages_tenant(tenant)
        AND (api.is_service() OR NOT (SELECT w.is_operator FROM people w WHERE w.id = person));
    PERFORM api.require_found(FOUND OR api.is_service() AND EXISTS (SELECT FROM people WHERE id = person));
    -- Who belongs to no tenant any more has no account.
    DELETE FROM people w WHERE w.id = person AND NOT EXISTS (SELECT FROM members m WHERE m.person_id = person);
    RETURN api.done();
END
$$;

CREATE FUNCTION api.end_persons_sessions(p jsonb) RETURNS api.answer
LANGUAGE plpgsql SECURITY DEFINER AS $$
BEGIN
    PERFORM api.require_admin();
    PERFORM api.require_found(manages_person((p ->> 'id')::uuid));
    DELETE FROM sessions WHERE person_id = (p ->> 'id')::uuid;
    RETURN api.done();
END
$$;

-- ---- invitations -------------------------------------------------------------------------------------------

CREATE FUNCTION cortana.own_name() RETURNS text
LANGUAGE sql STABLE
RETURN coalesce((SELECT name FROM people WHERE id = auth.uid()), auth.uid()::text, 'service');
COMMENT ON FUNCTION cortana.own_name IS 'Who the caller is, for people who read it.';

CREATE FUNCTION cortana.make_invitation(p_person_id uuid, p_email text, p_tenant_id uuid, p_role text, p_lasts interval)
RETURNS jsonb
LANGUAGE plpgsql AS $$
DECLARE
    new_code CONSTANT text := random_text(16);
    is_mailed CONSTANT boolean := p_email IS NOT NULL AND mail_is_sent();
    made invitations;
BEGIN
    INSERT INTO invitations (hash, person_id, email, code, tenant_id, role, created_by, expires_at)
    VALUES (secret_hash(new_code), p_person_id, lower(p_email), CASE WHEN is_mailed THEN new_code END, p_tenant_id, p_role,
            own_name(), now() + p_lasts)
    RETURNING * INTO made;
    IF is_mailed THEN
        PERFORM enqueue_mail(jsonb_build_object('invitation_id', made.id));
    END IF;
    RETURN invitation_object(made) || jsonb_build_object('link', '/invitation#c=' || new_code, 'is_mailed', is_mailed);
END
$$;
COMMENT ON FUNCTION cortana.make_invitation IS
    'Makes a link, and sends it to the e-mail address if mail is sent. Only this answer shows its code.';

CREATE FUNCTION cortana.invitation_object(i invitations) RETURNS jsonb
LANGUAGE sql STABLE
RETURN jsonb_build_object('id', i.id, 'email', i.email, 'tenant_id', i.tenant_id,
    'tenant', (SELECT name FROM tenants WHERE id = i.tenant_id), 'role', i.role, 'created_by', i.created_by,
    'created_at', i.created_at, 'expires_at', i.expires_at);
COMMENT ON FUNCTION cortana.invitation_object IS 'An invitation as its managers see it, without its code.';

CREATE FUNCTION api.invitations(p jsonb) RETURNS api.answer
LANGUAGE sql STABLE SECURITY DEFINER AS $$
    SELECT api.require_admin();
    SELECT api.all_items((
        SELECT jsonb_agg(invitation_object(i) ORDER BY i.created_at DESC, i.id)
        FROM invitations i WHERE i.role IS NOT NULL AND i.expires_at > now() AND manages_tenant(i.tenant_id)));
$$;

CREATE FUNCTION api.invite(p jsonb) RETURNS api.answer
LANGUAGE plpgsql SECURITY DEFINER AS $$
DECLARE
    tenant uuid := coalesce(p ->> 'tenant_id', auth.jwt() #>> '{app_metadata,team_id}');
BEGIN
    PERFORM api.require_admin(), require_own_hand();
    IF p ->> 'role' = 'operator' AND NOT api.is_service() THEN
        RAISE EXCEPTION 'operators are invited by operators' USING ERRCODE = 'insufficient_privilege';
    ELSIF tenant IS NULL AND api.is_service() AND (SELECT count(*) FROM tenants) < 2 THEN
        SELECT id INTO tenant FROM tenants;
        IF tenant IS NULL THEN
            INSERT INTO tenants (name) VALUES ('Library') RETURNING id INTO tenant;
        END IF;
    ELSIF tenant IS NULL THEN
        RAISE EXCEPTION 'tenant_id says whom they join' USING ERRCODE = 'invalid_parameter_value';
    ELSIF NOT manages_tenant(tenant) OR NOT EXISTS (SELECT FROM tenants WHERE id = tenant) THEN
        RETURN api.not_found();
    END IF;
    RETURN ROW(201, NULL, NULL, make_invitation(NULL, p ->> 'email', tenant, p ->> 'role',
                                                coalesce((p ->> 'days')::int, 7) * interval '1 day'))::api.answer;
END
$$;

CREATE FUNCTION api.withdraw_invitation(p jsonb) RETURNS api.answer
LANGUAGE plpgsql SECURITY DEFINER AS $$
BEGIN
    PERFORM api.require_admin();
    DELETE FROM invitations WHERE id = (p ->> 'id')::uuid AND role IS NOT NULL AND manages_tenant(tenant_id);
    RETURN api.done(FOUND);
END
$$;

CREATE FUNCTION api.renew_password(p jsonb) RETURNS api.answer
LANGUAGE plpgsql SECURITY DEFINER AS $$
DECLARE
    person CONSTANT uuid := p ->> 'id';
BEGIN
    PERFORM api.require_admin(), require_own_hand();
    PERFORM api.require_found(manages_person(person));
    RETURN ROW(201, NULL, NULL, make_invitation(person, (SELECT email FROM people WHERE id = person), NULL, NULL,
                                                interval '1 day'))::api.answer;
END
$$;

CREATE FUNCTION api.read_invitation(p jsonb) RETURNS api.answer
LANGUAGE plpgsql STABLE SECURITY DEFINER AS $$
DECLARE
    i CONSTANT invitations := find_invitation(decode(p ->> 'digest', 'hex'));
BEGIN
    PERFORM api.require_found(i.id IS NOT NULL);
    RETURN api.ok(invitation_object(i) - 'id' - 'tenant_id'
                  || jsonb_build_object('name', (SELECT name FROM people WHERE id = i.person_id)));
END
$$;

CREATE FUNCTION api.join_tenant(p jsonb) RETURNS api.answer
LANGUAGE plpgsql SECURITY DEFINER AS $$
DECLARE
    i CONSTANT invitations := hold_invitation(decode(p ->> 'digest', 'hex'));
BEGIN
    IF i.id IS NULL OR i.role IS NULL THEN
        RETURN api.not_found();
    ELSIF own_person() IS NULL THEN
        RAISE EXCEPTION 'an invitation is for a person: open the link in a browser' USING ERRCODE = 'insufficient_privilege';
    END IF;
    PERFORM cortana.join_tenant(auth.uid(), i);
    UPDATE sessions SET tenant_id = i.tenant_id WHERE id = (auth.jwt() ->> 'session')::uuid;
    RETURN api.done();
END
$$;

-- ---- tenants -----------------------------------------------------------------------------------------------

CREATE FUNCTION api.make_tenant(p jsonb) RETURNS api.answer
LANGUAGE plpgsql SECURITY DEFINER AS $$
DECLARE
    made tenants;
BEGIN
    INSERT INTO tenants (name) VALUES (p ->> 'name') RETURNING * INTO made;
    INSERT INTO members (person_id, tenant_id, role) SELECT id, made.id, 'admin' FROM people WHERE id = auth.uid();
    RETURN ROW(201, NULL, NULL, jsonb_build_object('tenant_id', made.id, 'name', made.name))::api.answer;
END
$$;

CREATE FUNCTION cortana.check_time_zone(p_time_zone text) RETURNS text
LANGUAGE plpgsql STABLE AS $$
DECLARE
    proper text;
BEGIN
    SELECT name INTO proper FROM pg_timezone_names
    WHERE lower(name) = lower(p_time_zone) AND name !~ '^(posix/|right/|posixrules|localtime|Factory)';
    IF NOT FOUND THEN
        RAISE EXCEPTION '"%" is not a time zone of the IANA database', left(p_time_zone, 100)
            USING ERRCODE = 'invalid_parameter_value', HINT = 'Write Europe/Berlin, America/New_York, UTC, …';
    END IF;
    RETURN proper;
END
$$;
COMMENT ON FUNCTION cortana.check_time_zone IS
    'Returns the name of a time zone as the IANA database writes it; raises an error if it does not exist.';

CREATE FUNCTION api.change_tenant(p jsonb) RETURNS api.answer
LANGUAGE plpgsql SECURITY DEFINER AS $$
DECLARE
    tenant CONSTANT uuid := p ->> 'id';
BEGIN
    PERFORM api.require_admin();
    IF api.is_service() AND p ? 'name' AND (EXISTS (SELECT FROM videos WHERE coalesce(team_id, owner_id) = tenant)
                                            OR EXISTS (SELECT FROM jobs WHERE tenant_id = tenant)) THEN
        INSERT INTO tenants (id, name) VALUES (tenant, p ->> 'name') ON CONFLICT DO NOTHING; -- of an issuer's tokens
    END IF;
    UPDATE tenants SET name = coalesce(p ->> 'name', name),
                       time_zone = CASE WHEN p ? 'time_zone' THEN check_time_zone(p ->> 'time_zone') ELSE time_zone END
    WHERE id = tenant AND manages_tenant(id);
    PERFORM api.require_found(FOUND);
    IF p ? 'time_zone' THEN
        UPDATE videos SET recorded_from = recorded_from -- so that their names are read again
        WHERE coalesce(team_id, owner_id) = tenant AND recorded_from IN ('name_zone', 'name_utc');
    END IF;
    RETURN api.done();
END
$$;

-- ---- who may call what -------------------------------------------------------------------------------------

SELECT secure_objects(p_for_the_service => '{set_provider,remove_provider,make_tenant}');
GRANT EXECUTE ON FUNCTION api.find_account, api.find_provider, api.enter TO cortana_gateway;
GRANT EXECUTE ON FUNCTION api.sign_out, api.read_invitation, api.providers TO anon, authenticated;
GRANT EXECUTE ON FUNCTION cortana.own_person TO authenticated;
GRANT EXECUTE ON FUNCTION api.end_session, api.end_sessions, api.choose_tenant, api.join_tenant TO authenticated;
