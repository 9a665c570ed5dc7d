-- Who may do what, and where a user's identity comes from.
--
-- Supabase brings the roles anon, authenticated and service_role and the functions auth.uid() and
-- auth.jwt(). On a plain PostgreSQL they are made here, with the same meaning: an API in front sets
-- request.jwt.claims to the verified token of the user before it runs a statement as `authenticated`.

DO $$
DECLARE
    role_name text;
BEGIN
    FOREACH role_name IN ARRAY ARRAY['anon', 'authenticated', 'service_role'] LOOP
        IF NOT EXISTS (SELECT FROM pg_roles WHERE rolname = role_name) THEN
            BEGIN
                EXECUTE format('CREATE ROLE %I NOLOGIN', role_name);
            EXCEPTION WHEN duplicate_object OR unique_violation THEN
                NULL; -- another database of this cluster is being migrated at the same moment
            END;
        END IF;
    END LOOP;
END
$$;

CREATE SCHEMA IF NOT EXISTS auth;
GRANT USAGE ON SCHEMA auth TO anon, authenticated, service_role;
GRANT USAGE ON SCHEMA public TO anon, authenticated, service_role;

DO $$
BEGIN
    IF to_regprocedure('auth.jwt()') IS NULL THEN
        CREATE FUNCTION auth.jwt() RETURNS jsonb
        LANGUAGE sql STABLE AS
        $f$ SELECT coalesce(nullif(current_setting('request.jwt.claims', true), ''), '{}')::jsonb $f$;
    END IF;
    IF to_regprocedure('auth.uid()') IS NULL THEN
        CREATE FUNCTION auth.uid() RETURNS uuid
        LANGUAGE sql STABLE AS
        $f$ SELECT nullif(auth.jwt() ->> 'sub', '')::uuid $f$;
    END IF;
END
$$;

-- The teams in the user's token: `team_id` (one) and `team_ids` (a list), at the top level or under
-- app_metadata. user_metadata is not looked at: users write it themselves. What is no UUID is nobody's
-- team.
CREATE FUNCTION current_team_ids() RETURNS uuid[]
LANGUAGE sql STABLE
SET search_path = pg_catalog, public AS
$$
    SELECT coalesce(array_agg(DISTINCT team::uuid), '{}')
    FROM (VALUES (auth.jwt()), (auth.jwt() -> 'app_metadata')) AS claims (object)
    CROSS JOIN LATERAL (
        SELECT claims.object ->> 'team_id'
        UNION ALL
        SELECT jsonb_array_elements_text(
            CASE WHEN jsonb_typeof(claims.object -> 'team_ids') = 'array'
                 THEN claims.object -> 'team_ids' ELSE '[]' END)
    ) AS named (team)
    WHERE team ~* '^[0-9a-f]{8}-([0-9a-f]{4}-){3}[0-9a-f]{12}$'
$$;
COMMENT ON FUNCTION current_team_ids() IS 'Teams of the user whose token is in request.jwt.claims.';

CREATE EXTENSION IF NOT EXISTS pg_trgm;
