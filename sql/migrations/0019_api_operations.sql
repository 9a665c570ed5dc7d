-- What the HTTP API calls besides 0018_api.sql: sessions, live events.

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

-- ---- live events -------------------------------------------------------------------------------------------
-- The order of events is that in which transactions end: ids of a sequence are taken long before their rows are seen.
-- A row's own xmin is the id of its transaction. A transaction is passed when it and all older ones are over, so that
-- nothing turns up behind the position that a client has. The xid of a subtransaction is larger than its parent's, which
-- is still in the snapshot.

CREATE FUNCTION api.event_xid(p_xid xid) RETURNS bigint
LANGUAGE sql STABLE
SET search_path = pg_catalog, public, cortana, extensions, pg_temp AS
$$
    SELECT CASE WHEN f.x > next.x THEN f.x - 4294967296 ELSE f.x END
    FROM (SELECT pg_snapshot_xmax(pg_current_snapshot())::text::bigint) AS next (x),
         LATERAL (SELECT (next.x >> 32 << 32) + p_xid::text::bigint) AS f (x)
$$;
COMMENT ON FUNCTION api.event_xid IS 'The xmin of a young row with its epoch, so that it does not wrap around.';

CREATE FUNCTION api.event_position(p_xid bigint, p_id bigint, p_seconds bigint) RETURNS text
LANGUAGE sql IMMUTABLE
RETURN p_xid || '-' || p_id || '-' || p_seconds;
COMMENT ON FUNCTION api.event_position IS
    'The id of an event of a stream: its transaction, its own id, and when it was, in seconds since 1970.';

CREATE FUNCTION api.run_object(r runs) RETURNS jsonb
LANGUAGE sql STABLE
RETURN jsonb_build_object(
    'id', r.id, 'workflow', r.workflow, 'version', r.version, 'video_id', r.video_id, 'status', r.status,
    'priority', r.priority, 'correlation_id', r.correlation_id, 'created_at', r.created_at,
    'finished_at', r.finished_at);
COMMENT ON FUNCTION api.run_object IS 'A run as lists show it.';

CREATE FUNCTION api.event_topic(p_topic text) RETURNS jsonb
LANGUAGE plpgsql STABLE
SET search_path = pg_catalog, public, cortana, extensions, pg_temp AS
$$
DECLARE
    kind CONSTANT text := split_part(p_topic, ':', 1);
    subject CONSTANT uuid := nullif(split_part(p_topic, ':', 2), '')::uuid;
BEGIN
    IF kind IN ('queues', 'tenant') AND api.is_service() THEN
        RETURN jsonb_build_array(jsonb_build_object('kind', CASE kind WHEN 'tenant' THEN 'all' ELSE kind END));
    ELSIF kind = 'queues' THEN
        RAISE EXCEPTION 'the topic queues is the service''s' USING ERRCODE = 'insufficient_privilege';
    ELSIF kind = 'tenant' THEN
        RETURN (SELECT jsonb_agg(jsonb_build_object('kind', kind, 'id', t.id))
                FROM unnest(auth.uid() || coalesce(current_team_ids(), '{}')) AS t (id));
    ELSIF kind = 'job' AND NOT EXISTS (SELECT FROM jobs j WHERE j.id = subject)
          OR kind = 'run' AND NOT EXISTS (SELECT FROM runs r WHERE r.id = subject)
          OR kind = 'video' AND NOT EXISTS (SELECT FROM videos v WHERE v.id = subject) THEN
        PERFORM api.not_found();
    END IF;
    RETURN jsonb_build_array(jsonb_build_object('kind', kind, 'id', subject));
END
$$;
COMMENT ON FUNCTION api.event_topic IS
    'What a topic of GET /events means for the caller, a list of {kind, id}; refuses what they may not see.';

CREATE FUNCTION api.events(p jsonb) RETURNS api.answer
LANGUAGE plpgsql STABLE
SET search_path = pg_catalog, public, cortana, extensions, pg_temp AS
$$
DECLARE
    horizon CONSTANT bigint := pg_snapshot_xmin(pg_current_snapshot())::text::bigint;
    seconds CONSTANT bigint := extract(epoch FROM now());
    kept_seconds CONSTANT int := 15 * 60;
    last CONSTANT text[] := regexp_match(p ->> 'last_event_id', '^([0-9]{1,18})-(-?[0-9]{1,18})-([0-9]{1,12})$');
    is_known CONSTANT boolean := coalesce(last[3]::bigint > seconds - kept_seconds AND last[1]::bigint <= horizon, false);
    topics jsonb;
BEGIN
    SELECT jsonb_agg(one.topic) INTO topics
    FROM string_to_table(p ->> 'topics', ',') AS t (name),
         LATERAL jsonb_array_elements(api.event_topic(t.name)) AS one (topic);
    RETURN api.ok(jsonb_build_object(
        'topics', topics, 'is_lost', p ? 'last_event_id' AND NOT is_known,
        'xid', CASE WHEN is_known THEN last[1]::bigint ELSE horizon END,
        'id', CASE WHEN is_known THEN last[2]::bigint ELSE -1 END,
        'position', CASE WHEN is_known THEN p ->> 'last_event_id' ELSE api.event_position(horizon, -1, seconds) END));
END
$$;
COMMENT ON FUNCTION api.events IS
    'GET /events: what the gateway is to stream for the caller, and from where on. A position of the last 15 minutes is '
    'taken up; an older or unknown one is lost, and the client reads everything anew.';

CREATE FUNCTION api.event_tail(p_xid bigint, p_id bigint, p_since bigint, p_topics jsonb) RETURNS jsonb
LANGUAGE plpgsql STABLE
SECURITY DEFINER SET search_path = pg_catalog, public, cortana, extensions, pg_temp AS
$$
DECLARE
    most CONSTANT int := 500;
    horizon CONSTANT bigint := pg_snapshot_xmin(pg_current_snapshot())::text::bigint;
    since CONSTANT timestamptz := to_timestamp(p_since - 2); -- an event's clock is read before its transaction has an id
    all_jobs CONSTANT boolean := p_topics ? 'all';
    job_ids CONSTANT uuid[] := ARRAY(SELECT jsonb_array_elements_text(p_topics -> 'job')::uuid);
    video_ids CONSTANT uuid[] := ARRAY(SELECT jsonb_array_elements_text(p_topics -> 'video')::uuid);
    run_ids CONSTANT uuid[] := ARRAY(SELECT jsonb_array_elements_text(p_topics -> 'run')::uuid);
    tenant_ids CONSTANT uuid[] := ARRAY(SELECT jsonb_array_elements_text(p_topics -> 'tenant')::uuid);
    found jsonb;
BEGIN
    SELECT jsonb_agg(jsonb_build_object(
               'xid', e.x, 'event', e.id,
               'position', api.event_position(e.x, e.id, extract(epoch FROM e.ts)::bigint),
               'kind', CASE WHEN e.job_id IS NOT NULL THEN 'job' WHEN r.id IS NOT NULL THEN 'run' ELSE 'video' END,
               'job', e.job_id, 'video', e.video_id, 'run', coalesce(r.id, j.run_id),
               'owner', coalesce(v.owner_id, j.tenant_id, r.tenant_id), 'team', v.team_id,
               'data', CASE WHEN j.id IS NOT NULL THEN api.job_object(j) WHEN r.id IS NOT NULL THEN api.run_object(r)
                            WHEN v.id IS NOT NULL THEN api.video_object(v)
                            ELSE jsonb_build_object('id', coalesce(e.job_id, e.video_id), 'status', 'gone') END)
               ORDER BY e.x, e.id)
    INTO found
    FROM (SELECT t.id, t.ts, t.job_id, t.run_id, t.video_id, api.event_xid(t.xmin) AS x FROM task_events t
          WHERE t.ts > since AND api.event_xid(t.xmin) >= p_xid AND api.event_xid(t.xmin) < horizon
            AND (api.event_xid(t.xmin), t.id) > (p_xid, p_id)
            AND (all_jobs OR t.job_id = ANY (job_ids) OR t.video_id = ANY (video_ids) OR t.run_id = ANY (run_ids)
                 OR cardinality(run_ids) > 0
                    AND EXISTS (SELECT FROM jobs o WHERE o.id = t.job_id AND o.run_id = ANY (run_ids))
                 OR cardinality(tenant_ids) > 0
                    AND (EXISTS (SELECT FROM videos o WHERE o.id = t.video_id
                                 AND (o.owner_id = ANY (tenant_ids) OR o.team_id = ANY (tenant_ids)))
                         OR t.video_id IS NULL
                            AND EXISTS (SELECT FROM jobs o WHERE o.id = t.job_id AND o.tenant_id = ANY (tenant_ids))))
          ORDER BY x, t.id LIMIT most) AS e
    LEFT JOIN jobs j ON j.id = e.job_id
    LEFT JOIN runs r ON r.id = e.run_id AND e.job_id IS NULL
    LEFT JOIN videos v ON v.id = e.video_id;
    RETURN jsonb_build_object(
        'events', coalesce(found, '[]'), 'is_full', coalesce(jsonb_array_length(found) = most, false),
        'is_changed', found IS NOT NULL OR p_topics ? 'queues' AND EXISTS (
            SELECT FROM task_events t WHERE t.ts > since AND api.event_xid(t.xmin) >= p_xid
              AND api.event_xid(t.xmin) < horizon AND (api.event_xid(t.xmin), t.id) > (p_xid, p_id)),
        'horizon', horizon, 'next_xid', pg_snapshot_xmax(pg_current_snapshot())::text::bigint,
        'now', floor(extract(epoch FROM now()))); -- before the snapshot: what has no id yet is not older
END
$$;
COMMENT ON FUNCTION api.event_tail IS
    'The events of the topics (lists of ids by kind) behind a position, 500 at most, each with the state that its job, '
    'run or video has now; and where the next look begins. Nothing behind the position is older than p_since (seconds '
    'since 1970). SECURITY DEFINER for the gateway itself: whose topics these are was looked up before.';

CREATE FUNCTION api.event_jobs(p_ids jsonb) RETURNS TABLE (id uuid, data jsonb)
LANGUAGE sql STABLE
SECURITY DEFINER SET search_path = pg_catalog, public, cortana, extensions, pg_temp AS
$$
    SELECT j.id, api.job_object(j)
    FROM jobs j WHERE j.id = ANY (ARRAY(SELECT jsonb_array_elements_text(p_ids)::uuid))
$$;
COMMENT ON FUNCTION api.event_jobs IS
    'The state of jobs that are watched one by one. SECURITY DEFINER for the gateway itself, as event_tail().';

-- ---- who may call what -------------------------------------------------------------------------------------

REVOKE ALL ON ALL FUNCTIONS IN SCHEMA api FROM PUBLIC;
GRANT EXECUTE ON FUNCTION api.session, api.sign_in, api.run_object, api.event_position, api.event_topic, api.events
    TO authenticated, service_role;
GRANT EXECUTE ON FUNCTION api.event_tail, api.event_jobs TO cortana_gateway;
