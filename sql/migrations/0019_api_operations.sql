-- What the HTTP API calls besides 0018_api.sql: sessions.

CREATE FUNCTION api.session(p jsonb) RETURNS api.answer
LANGUAGE sql STABLE
SET search_path = pg_catalog, public, cortana, extensions, pg_temp AS
$$
    SELECT api.ok((api.me(p)).body
                  || jsonb_build_object('expires_at', to_timestamp((auth.jwt() ->> 'exp')::float8)))
$$;
COMMENT ON FUNCTION api.session IS 'GET /session: who the caller is, and until when their token holds.';

CREATE FUNCTION api.sign_in(p jsonb) RETURNS api.answer
LANGUAGE sql STABLE
RETURN api.session(p);
COMMENT ON FUNCTION api.sign_in IS
    'POST /session: as GET /session. The gateway has checked the token in the body, runs this under its claims, and sets '
    'the cookie.';

-- ---- who may call what -------------------------------------------------------------------------------------

REVOKE ALL ON FUNCTION api.session, api.sign_in FROM PUBLIC;
GRANT EXECUTE ON FUNCTION api.session, api.sign_in TO authenticated, service_role;
