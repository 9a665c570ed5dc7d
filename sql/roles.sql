-- The roles. They belong to the server, not to the database. They are created before the first migration, and before
-- a backup is restored, because its rights name them.
--
-- Supabase brings the roles anon, authenticated and service_role; on a plain PostgreSQL they are created here. The
-- cortana_ roles are granted to the roles that programs log in with. A member of cortana_gateway may switch to the
-- role that a token names (SET ROLE); until then it has none of those rights, because cortana_gateway is NOINHERIT.
-- cortana_upkeep is a member of nothing: what it may do is granted to it by name (migrations/0021_upkeep_login.sql).

DO $$
DECLARE
    role_name text;
BEGIN
    FOREACH role_name IN ARRAY ARRAY['anon', 'authenticated', 'service_role', 'cortana_app', 'cortana_worker',
                                     'cortana_upkeep', 'cortana_metrics', 'cortana_gateway'] LOOP
        IF NOT EXISTS (SELECT FROM pg_roles WHERE rolname = role_name) THEN
            BEGIN
                EXECUTE format('CREATE ROLE %I NOLOGIN', role_name);
            EXCEPTION
                WHEN duplicate_object OR unique_violation THEN
                    NULL; -- a migration of another database of this cluster has just created the role
                WHEN insufficient_privilege THEN
                    RAISE EXCEPTION 'role % does not exist, and % may not create it', role_name, current_user
                        USING ERRCODE = 'insufficient_privilege',
                              HINT = format('As a superuser: CREATE ROLE %I NOLOGIN, or ALTER ROLE %I CREATEROLE.',
                                            role_name, current_user);
            END;
        END IF;
    END LOOP;
    IF NOT pg_has_role('cortana_app', 'authenticated', 'USAGE') THEN
        GRANT authenticated TO cortana_app;
    END IF;
    IF NOT pg_has_role('cortana_worker', 'service_role', 'USAGE') THEN
        GRANT service_role TO cortana_worker;
    END IF;
    IF NOT pg_has_role('cortana_gateway', 'anon', 'MEMBER') THEN
        ALTER ROLE cortana_gateway NOINHERIT;
        GRANT anon, authenticated, cortana_app, service_role TO cortana_gateway;
    END IF;
EXCEPTION WHEN unique_violation OR object_in_use THEN
    NULL; -- a migration of another database of this cluster has just granted the role
END
$$;
