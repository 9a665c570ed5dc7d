-- The schemas, who the user is, and what roles (../roles.sql) may do.
--
-- Schemas: `public` holds what applications use (tables, functions, views, types); `cortana` holds what only
-- this system's own functions and programs use; `extensions` holds PostgreSQL's extensions; `auth` holds the
-- functions that return the current user; `api` holds what the HTTP API calls.
--
-- The role that applies the migrations owns the schema. This role need not be a superuser. It must own the database
-- (CREATE EXTENSION, CREATE SCHEMA, ALTER DATABASE), and have CREATEROLE if one of the eight roles is missing.

-- ---- schemas ---------------------------------------------------------------------------------------------

CREATE SCHEMA IF NOT EXISTS cortana;
COMMENT ON SCHEMA cortana IS 'What only cortana''s own functions and programs use; it may change with any release.';
CREATE SCHEMA IF NOT EXISTS extensions;
CREATE SCHEMA IF NOT EXISTS auth;
GRANT USAGE ON SCHEMA auth TO anon, authenticated, service_role;
GRANT USAGE ON SCHEMA public, cortana, extensions TO anon, authenticated, service_role, cortana_upkeep,
    cortana_metrics;

CREATE EXTENSION IF NOT EXISTS pg_trgm SCHEMA extensions;
CREATE EXTENSION IF NOT EXISTS fuzzystrmatch SCHEMA extensions;

CREATE FUNCTION cortana.secure_database() RETURNS void
LANGUAGE plpgsql
SET search_path = pg_catalog, public, cortana, extensions, pg_temp AS
$$
DECLARE
    path CONSTANT text := 'public, cortana, extensions, pg_temp';
BEGIN
    IF NOT EXISTS (SELECT FROM pg_db_role_setting s JOIN pg_database d ON d.oid = s.setdatabase
                   WHERE d.datname = current_database() AND s.setrole = 0
                     AND 'search_path=' || path = ANY (s.setconfig)) THEN
        EXECUTE format('ALTER DATABASE %I SET search_path = %s', current_database(), path);
    END IF;
    IF EXISTS (SELECT FROM pg_database d, aclexplode(coalesce(d.datacl, acldefault('d', d.datdba))) AS a
               WHERE d.datname = current_database() AND a.grantee = 0 AND a.privilege_type = 'TEMPORARY') THEN
        EXECUTE format('REVOKE TEMPORARY ON DATABASE %I FROM PUBLIC', current_database());
    END IF;
END
$$;
COMMENT ON FUNCTION cortana.secure_database() IS
    'Sets the search_path of the database, so that every connection finds cortana''s names whatever its role and '
    'pooler; and leaves the right to create temporary objects to the owner alone, because a temporary object could '
    'take the place of one of cortana''s. Both settings belong to the database, not to its schema, and are lost '
    'when a database is copied or restored: every run of "cortana migrate" calls this function.';
SELECT cortana.secure_database();

-- A database that was created before PostgreSQL 15 lets everybody create objects in `public`.
DO $$
BEGIN
    IF has_schema_privilege('public', 'public', 'CREATE') THEN
        REVOKE CREATE ON SCHEMA public FROM PUBLIC;
    END IF;
END
$$;

-- ---- the user ----------------------------------------------------------------------------------------------
-- Supabase brings auth.uid() and auth.jwt(). On a plain PostgreSQL they are created here with the same meaning. An
-- API sets request.jwt.claims to the claims of the user's verified token before it runs a statement.

DO $$
BEGIN
    IF to_regprocedure('auth.jwt()') IS NULL THEN
        CREATE FUNCTION auth.jwt() RETURNS jsonb
        LANGUAGE sql STABLE
        RETURN coalesce(nullif(current_setting('request.jwt.claims', true), ''), '{}')::jsonb;
        COMMENT ON FUNCTION auth.jwt() IS 'The claims of the user''s token.';
    END IF;
    IF to_regprocedure('auth.uid()') IS NULL THEN
        CREATE FUNCTION auth.uid() RETURNS uuid
        LANGUAGE sql STABLE
        RETURN nullif(auth.jwt() ->> 'sub', '')::uuid;
        COMMENT ON FUNCTION auth.uid() IS 'The user: the claim "sub" of the token.';
    END IF;
END
$$;

-- The teams in the user's token: `team_id` (one) and `team_ids` (a list), at the top level or under app_metadata.
-- user_metadata is ignored, because users write it themselves. A value that is not a UUID is ignored. Written in
-- PL/pgSQL, which keeps its plan: policies call this function for each row that exists, and a caller could tell a
-- hidden row from a missing one by the time that the call takes.
CREATE FUNCTION cortana.current_team_ids() RETURNS uuid[]
LANGUAGE plpgsql STABLE AS $$
DECLARE
    token CONSTANT jsonb := auth.jwt();
BEGIN
    RETURN (
        SELECT coalesce(array_agg(DISTINCT team::uuid), '{}')
        FROM (VALUES (token), (token -> 'app_metadata')) AS claims (object)
        CROSS JOIN LATERAL (
            SELECT claims.object ->> 'team_id'
            UNION ALL
            SELECT jsonb_array_elements_text(
                CASE WHEN jsonb_typeof(claims.object -> 'team_ids') = 'array'
                     THEN claims.object -> 'team_ids' ELSE '[]' END)
        ) AS named (team)
        WHERE team ~* '^[0-9a-f]{8}-([0-9a-f]{4}-){3}[0-9a-f]{12}$');
END
$$;
COMMENT ON FUNCTION cortana.current_team_ids IS 'Teams of the user whose token is in request.jwt.claims.';

CREATE FUNCTION cortana.acts_for_everyone() RETURNS boolean
LANGUAGE sql STABLE
RETURN pg_has_role(CASE current_setting('role') WHEN 'none' THEN session_user
                                                ELSE current_setting('role')::name END,
                   'service_role', 'USAGE')
    OR pg_has_role(CASE current_setting('role') WHEN 'none' THEN session_user
                                                ELSE current_setting('role')::name END,
                   'cortana_upkeep', 'USAGE')
    OR has_schema_privilege(CASE current_setting('role') WHEN 'none' THEN session_user
                                                         ELSE current_setting('role')::name END,
                            'cortana', 'CREATE');
COMMENT ON FUNCTION cortana.acts_for_everyone IS
    'Whether the caller acts for the whole service: it is a member of service_role or cortana_upkeep, or may create '
    'objects in the schema cortana, as its owner. Inside a SECURITY DEFINER function, too, this looks at the role of the session, '
    'not at the owner of the function. One expression without a sub-select, so that the planner can inline it.';

CREATE FUNCTION cortana.may_touch(p_tenant_id uuid) RETURNS boolean
LANGUAGE sql STABLE AS $$
    SELECT acts_for_everyone()
           OR coalesce(p_tenant_id = auth.uid() OR p_tenant_id = ANY (current_team_ids()), false)
$$;
COMMENT ON FUNCTION cortana.may_touch IS
    'Whether the caller may change what belongs to a tenant: the caller is the service, the tenant itself, or a '
    'member of the team that is the tenant.';

-- ---- what every object gets ---------------------------------------------------------------------------------

CREATE FUNCTION cortana.secure_objects(p_on_the_callers_path text[] DEFAULT '{}', p_for_the_service text[] DEFAULT '{}')
RETURNS void
LANGUAGE plpgsql
SET search_path = pg_catalog, public, cortana, extensions, pg_temp AS $$
DECLARE
    new record;
BEGIN
    FOR new IN SELECT f.oid::regprocedure AS name, prosqlbody IS NULL AND proname <> ALL (p_on_the_callers_path) AS has_path,
                      CASE WHEN prorettype = 'trigger'::regtype OR schema = 'api' AND prosecdef AND NOT is_operation THEN NULL
                           WHEN schema <> 'api' OR proname = ANY (p_for_the_service) THEN 'service_role'
                           WHEN is_operation AND provolatile = 'v' THEN 'service_role, cortana_app'
                           ELSE 'service_role, authenticated' END AS callers
               FROM pg_proc f CROSS JOIN LATERAL (
                   SELECT pronamespace::regnamespace::text, oidvectortypes(proargtypes) = 'jsonb' AND prorettype = to_regtype('api.answer'))
                   AS o (schema, is_operation)
               WHERE f.xmin = pg_current_xact_id()::xid AND schema IN ('public', 'cortana', 'api') LOOP
        EXECUTE format('REVOKE ALL ON FUNCTION %s FROM PUBLIC, anon, authenticated', new.name);
        IF new.has_path THEN
            EXECUTE format('ALTER FUNCTION %s SET search_path = pg_catalog, public, cortana, extensions, pg_temp', new.name);
        END IF;
        IF new.callers IS NOT NULL THEN
            EXECUTE format('GRANT EXECUTE ON FUNCTION %s TO %s', new.name, new.callers);
        END IF;
    END LOOP;
    IF NOT FOUND THEN
        RAISE EXCEPTION 'this transaction has created no function: apply the whole migration in one transaction';
    END IF;
    FOR new IN SELECT oid::regclass AS name FROM pg_class WHERE xmin = pg_current_xact_id()::xid AND relkind = 'v' LOOP
        EXECUTE format('REVOKE ALL ON %s FROM PUBLIC, anon, authenticated', new.name);
        EXECUTE format('GRANT SELECT ON %s TO service_role', new.name);
    END LOOP;
END
$$;
COMMENT ON FUNCTION cortana.secure_objects IS
    'For migrations, before they grant rights: takes the rights that PUBLIC (and on Supabase anon and authenticated) have '
    'by default from the functions and views of this transaction, and sets the search_path of the functions, with pg_temp '
    'last, so that nobody''s temporary table is taken for one of ours. Not that of bodies of SQL''s own form, to which none '
    'matters, nor of parts of a claim or completion (p_on_the_callers_path), where it would cost a tenth. Grants the service all '
    'of them but triggers, and the views to read. Of the schema api, viewers may call operations that change nothing, and editors the others, but not '
    'those of p_for_the_service; all may call what runs with the rights of its caller. Operations are open to others, and '
    'functions with the rights of the owner, only by name.';

CREATE FUNCTION cortana.secure_table(p_table regclass, p_rights text DEFAULT 'ALL') RETURNS void
LANGUAGE plpgsql
SET search_path = pg_catalog, public, cortana, extensions, pg_temp AS $$
BEGIN
    EXECUTE format('ALTER TABLE %s ENABLE ROW LEVEL SECURITY', p_table);
    EXECUTE format('CREATE POLICY %I ON %s TO service_role USING (true) WITH CHECK (true)',
                   (SELECT relname FROM pg_class WHERE oid = p_table) || '_service', p_table);
    EXECUTE format('REVOKE ALL ON %s FROM PUBLIC, anon, authenticated', p_table);
    EXECUTE format('GRANT %s ON %s TO service_role', p_rights, p_table);
END
$$;
COMMENT ON FUNCTION cortana.secure_table IS
    'For migrations: gives the service, and nobody else, rights to a table that they have created.';

-- ---- locks -------------------------------------------------------------------------------------------------

CREATE TABLE cortana.locks (
    name text PRIMARY KEY
);
COMMENT ON TABLE cortana.locks IS
    'Rows that acquire_lock() locks until the transaction ends. Advisory locks would not do, because every role that '
    'may connect can hold one, even a role that may only read.';
SELECT secure_table('locks', 'SELECT, INSERT, UPDATE');

CREATE FUNCTION cortana.acquire_lock(p_name text) RETURNS void
LANGUAGE plpgsql
SET lock_timeout = '3s' AS $$
BEGIN
    PERFORM FROM locks WHERE name = p_name FOR UPDATE;
    IF NOT FOUND THEN
        INSERT INTO locks (name) VALUES (p_name) ON CONFLICT DO NOTHING;
        PERFORM FROM locks WHERE name = p_name FOR UPDATE;
    END IF;
END
$$;
COMMENT ON FUNCTION cortana.acquire_lock IS
    'Waits until no other transaction holds the lock of this name, at most 3 s (then lock_not_available), and '
    'holds the lock until the transaction ends. Use few names: each leaves a row in cortana.locks for good.';

-- ---- who may call what --------------------------------------------------------------------------

SELECT secure_objects();
GRANT EXECUTE ON FUNCTION cortana.current_team_ids TO authenticated;
