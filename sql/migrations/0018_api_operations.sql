-- More functions that the HTTP API calls: sessions, live events, and what tenants' admins and operators read and
-- change.

CREATE FUNCTION api.session(p jsonb) RETURNS api.answer
LANGUAGE sql STABLE AS $$
    SELECT api.ok((api.me(p)).body
                  || jsonb_build_object('expires_at', to_timestamp((auth.jwt() ->> 'exp')::float8)))
$$;

CREATE FUNCTION api.sign_in(p jsonb) RETURNS api.answer
LANGUAGE sql STABLE
RETURN api.session(p);
COMMENT ON FUNCTION api.sign_in IS
    'POST /session: answers like GET /session. The gateway has checked the token in the body, runs this with its '
    'claims, and sets the cookie.';

-- ---- live events -------------------------------------------------------------------------------------------
-- Events are ordered by the end of their transactions, because ids of a sequence are assigned long before their rows
-- become visible. The xmin of a row is the id of its transaction. A transaction is passed when it and all older
-- transactions have ended, so that no event appears behind the position that a client already has. The xid of a
-- subtransaction is larger than that of its parent, which is still in the snapshot.

CREATE FUNCTION api.event_xid(p_xid xid) RETURNS bigint
LANGUAGE sql STABLE AS $$
    SELECT CASE WHEN f.x > next.x THEN f.x - 4294967296 ELSE f.x END
    FROM (SELECT pg_snapshot_xmax(pg_current_snapshot())::text::bigint) AS next (x),
         LATERAL (SELECT (next.x >> 32 << 32) + p_xid::text::bigint) AS f (x)
$$;
COMMENT ON FUNCTION api.event_xid IS
    'The xmin of a recent row, extended by the epoch, so that it does not wrap around.';

CREATE FUNCTION api.event_position(p_xid bigint, p_id bigint, p_seconds bigint) RETURNS text
LANGUAGE sql IMMUTABLE
RETURN p_xid || '-' || p_id || '-' || p_seconds;
COMMENT ON FUNCTION api.event_position IS
    'The id of an event in a stream: its transaction, its own id, and its time in seconds since 1970.';

CREATE FUNCTION api.run_object(r runs) RETURNS jsonb
LANGUAGE sql STABLE
RETURN (SELECT jsonb_build_object(
    'id', r.id, 'workflow', r.workflow, 'version', r.version, 'video_id', r.video_id, 'video', api.named_video(r.video_id), 'status', r.status,
    'priority', r.priority, 'correlation_id', r.correlation_id, 'created_at', r.created_at,
    'finished_at', r.finished_at, 'running_ms', o.running_ms, 'job_count', o.jobs, 'jobs_done', o.done,
    'progress', o.progress, 'current_steps', o.current_steps, 'failed_step', o.failed_step,
    'error', CASE WHEN o.failed_step IS NOT NULL THEN jsonb_build_object('type', o.error_type, 'message', o.error_message) END)
    FROM run_overview o WHERE o.id = r.id);
COMMENT ON FUNCTION api.run_object IS 'A run as lists show it.';

CREATE FUNCTION api.event_topic(p_topic text) RETURNS jsonb
LANGUAGE plpgsql STABLE AS $$
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
          OR kind = 'upload' AND NOT EXISTS (SELECT FROM upload_sessions u WHERE u.id = subject)
          OR kind = 'run' AND NOT EXISTS (SELECT FROM runs r WHERE r.id = subject)
          OR kind = 'video' AND NOT EXISTS (SELECT FROM videos v WHERE v.id = subject) THEN
        PERFORM api.not_found();
    END IF;
    RETURN jsonb_build_array(jsonb_build_object('kind', kind, 'id', subject));
END
$$;
COMMENT ON FUNCTION api.event_topic IS
    'The objects that a topic of GET /events names for the caller, as a list of {kind, id}. Refuses objects that the '
    'caller may not see.';

CREATE FUNCTION api.events(p jsonb) RETURNS api.answer
LANGUAGE plpgsql STABLE AS $$
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
    'GET /events: what the gateway must stream to the caller, and from which position. A position of the last 15 '
    'minutes is continued. An older or unknown one is lost, and the client must read everything again.';

CREATE FUNCTION api.event_tail(p_xid bigint, p_id bigint, p_since bigint, p_topics jsonb) RETURNS jsonb
LANGUAGE plpgsql STABLE SECURITY DEFINER AS $$
DECLARE
    most CONSTANT int := 500;
    horizon CONSTANT bigint := pg_snapshot_xmin(pg_current_snapshot())::text::bigint;
    since CONSTANT timestamptz := to_timestamp(p_since - 2); -- the time of an event is read before its transaction gets an id
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
                            WHEN v.id IS NOT NULL THEN api.video_object(v, (SELECT u.unread FROM unread_scripts(ARRAY[v.id]) AS u))
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
        'now', floor(extract(epoch FROM now()))); -- read before the snapshot: a transaction without an id yet is not older than this
END
$$;
COMMENT ON FUNCTION api.event_tail IS
    'The events of the topics (lists of ids by kind) behind a position, at most 500, each with the current state of '
    'its job, run or video; and the position for the next call. Nothing behind the position is older than p_since '
    '(seconds since 1970). SECURITY DEFINER, called only by the gateway, which has checked who may see the topics.';

CREATE FUNCTION api.event_states(p_topics jsonb) RETURNS TABLE (kind text, id uuid, data jsonb)
LANGUAGE sql STABLE SECURITY DEFINER AS $$
    SELECT 'job', j.id, api.job_object(j)
    FROM jobs j WHERE j.id = ANY (ARRAY(SELECT jsonb_array_elements_text(p_topics -> 'job')::uuid))
    UNION ALL
    SELECT 'upload', t.id, CASE WHEN u.id IS NULL THEN jsonb_build_object('id', t.id, 'state', 'gone')
        ELSE jsonb_build_object('id', u.id, 'video_id', u.id, 'size', u.size, 'offset', u.begun_at,
                                'state', CASE WHEN u.completed_at IS NULL THEN 'open' ELSE 'complete' END) END
    FROM (SELECT i::uuid AS id FROM jsonb_array_elements_text(p_topics -> 'upload') AS i) AS t
    LEFT JOIN upload_sessions u ON u.id = t.id
$$;
COMMENT ON FUNCTION api.event_states IS
    'The state of jobs and uploads that are watched individually. SECURITY DEFINER, called only by the gateway, like '
    'event_tail().';

CREATE FUNCTION api.ended_jobs(p_ids uuid[]) RETURNS SETOF uuid
LANGUAGE sql STABLE SECURITY DEFINER AS $$
    SELECT i FROM unnest(p_ids) AS i
    WHERE NOT EXISTS (SELECT FROM jobs j WHERE j.id = i AND (j.status IN ('queued', 'processing')
                                                            OR j.status = 'failed' AND j.scheduled_for IS NOT NULL))
$$;
COMMENT ON FUNCTION api.ended_jobs IS
    'Which of these jobs have ended, or do not exist any more. SECURITY DEFINER, called only by the gateway, for jobs '
    'that requests wait for; each caller''s own request is then run again.';

-- ---- jobs --------------------------------------------------------------------------------------------------

CREATE FUNCTION api.is_admin() RETURNS boolean
LANGUAGE sql STABLE AS $$
    SELECT api.is_service() OR coalesce(auth.jwt() #>> '{app_metadata,cortana_role}' = 'admin', false)
$$;
COMMENT ON FUNCTION api.is_admin IS 'Whether the caller is an admin of their tenants, or the service.';

CREATE FUNCTION api.require_job(p_id uuid) RETURNS void
LANGUAGE plpgsql STABLE AS $$
BEGIN
    PERFORM api.require_found(EXISTS (
        SELECT FROM jobs j LEFT JOIN videos v ON v.id = j.video_id
        WHERE j.id = p_id AND (may_touch(v.owner_id) OR may_touch(v.team_id) OR j.video_id IS NULL AND may_touch(j.tenant_id))));
END
$$;
COMMENT ON FUNCTION api.require_job IS
    'Refuses a job that the caller may not see, like one that does not exist. Uses the same condition as the policy '
    'of jobs, because it is called by SECURITY DEFINER functions, to whose owner no policy applies.';

CREATE FUNCTION api.find(p jsonb) RETURNS api.answer
LANGUAGE plpgsql STABLE AS $$
DECLARE
    kind CONSTANT text := p ->> 'kind';
    wanted CONSTANT text := p ->> 'name';
    digits CONSTANT text := CASE WHEN wanted ~* '^[0-9a-f-]{4,36}$' THEN replace(lower(wanted), '-', '') END;
    low CONSTANT uuid := CASE WHEN length(digits) BETWEEN 4 AND 32 THEN rpad(digits, 32, '0')::uuid END;
    high CONSTANT uuid := CASE WHEN length(digits) BETWEEN 4 AND 32 THEN rpad(digits, 32, 'f')::uuid END;
    ids uuid[];
BEGIN
    CASE kind
    WHEN 'job' THEN
        ids := ARRAY(SELECT j.id FROM jobs j WHERE j.id BETWEEN low AND high LIMIT 2);
    WHEN 'collection' THEN
        ids := ARRAY(SELECT c.id FROM collections c WHERE normal_form(c.name) = normal_form(wanted) OR c.id BETWEEN low AND high LIMIT 2);
    WHEN 'run' THEN
        ids := ARRAY(SELECT r.id FROM runs r WHERE r.id BETWEEN low AND high LIMIT 2);
    ELSE
        IF wanted = 'last' THEN
            ids := ARRAY(SELECT v.id FROM videos v WHERE v.duplicate_of IS NULL ORDER BY v.created_at DESC, v.id LIMIT 1);
        ELSE
            ids := ARRAY(
                SELECT v.id FROM videos v
                WHERE wanted IN (v.title, v.original_name, regexp_replace(v.original_name, '\.[^.]+$', ''))
                      AND (v.duplicate_of IS NULL OR NOT EXISTS (
                          SELECT FROM videos o WHERE o.id = v.duplicate_of AND o.original_name = v.original_name))
                   OR v.id BETWEEN low AND high
                ORDER BY v.created_at DESC, v.id LIMIT 2);
        END IF;
    END CASE;
    IF cardinality(ids) = 0 THEN
        RETURN api.not_found();
    ELSIF cardinality(ids) > 1 THEN
        RAISE EXCEPTION 'more than one % is called %: give more of the id', kind, quote_literal(wanted)
            USING ERRCODE = 'object_not_in_prerequisite_state';
    END IF;
    RETURN api.ok(jsonb_build_object('kind', kind, 'id', ids[1]));
END
$$;

CREATE FUNCTION api.attempts(p jsonb) RETURNS api.answer
LANGUAGE sql STABLE SECURITY DEFINER AS $$
    SELECT api.require_job((p ->> 'id')::uuid);
    SELECT api.all_items((
        SELECT jsonb_agg(jsonb_build_object(
                   'attempt', a.attempt, 'status', a.status, 'started_at', a.started_at, 'finished_at', a.finished_at,
                   'running_ms', round(extract(epoch FROM coalesce(a.finished_at, now()) - a.started_at) * 1000),
                   'exit_code', a.exit_code, 'error_type', a.error_type, 'error_message', a.error_message,
                   'stdout_tail', a.stdout_tail, 'stderr_tail', a.stderr_tail, 'cpu_seconds', a.cpu_seconds,
                   'peak_memory_bytes', a.peak_memory_bytes,
                   'worker', CASE WHEN api.is_service() THEN a.worker_id END) ORDER BY a.attempt DESC)
        FROM job_attempts a WHERE a.job_id = (p ->> 'id')::uuid));
$$;

CREATE FUNCTION api.job_events(p jsonb) RETURNS api.answer
LANGUAGE plpgsql STABLE SECURITY DEFINER AS $$
DECLARE
    wanted CONSTANT int := coalesce((p ->> 'limit')::int, 50);
    keys CONSTANT jsonb := api.read_cursor(p, 2);
BEGIN
    PERFORM api.require_job((p ->> 'id')::uuid);
    RETURN api.page(p, wanted, ARRAY(
        SELECT (jsonb_build_object('id', e.id, 'ts', e.ts, 'source', e.source, 'level', e.level, 'type', e.type,
                                   'message', e.message, 'data', CASE WHEN api.is_service() THEN e.data - 'lease_token'
                                                                      ELSE e.data - '{lease_token,worker}'::text[] END),
                jsonb_build_array(e.ts, e.id))::api.listed
        FROM task_events e
        WHERE e.job_id = (p ->> 'id')::uuid
          AND (p ->> 'level' IS NULL OR e.level = (p ->> 'level')::event_level)
          AND (p ->> 'type' IS NULL OR e.type = p ->> 'type')
          AND (keys IS NULL OR (e.ts, e.id) < ((keys ->> 0)::timestamptz, (keys ->> 1)::bigint))
        ORDER BY e.ts DESC, e.id DESC LIMIT wanted + 1));
END
$$;

CREATE FUNCTION api.artifacts(p jsonb) RETURNS api.answer
LANGUAGE sql STABLE SECURITY DEFINER AS $$
    SELECT api.require_job((p ->> 'id')::uuid);
    SELECT api.all_items((
        SELECT jsonb_agg(jsonb_build_object(
                   'attempt', a.attempt, 'kind', a.kind, 'key', a.key, 'objects', a.objects, 'size', a.size, 'content_type', a.content_type,
                   'checksum', a.checksum, 'created_at', a.created_at) ORDER BY a.attempt, a.kind, a.key)
        FROM task_artifacts a WHERE a.job_id = (p ->> 'id')::uuid));
$$;

CREATE FUNCTION api.why(p jsonb) RETURNS api.answer
LANGUAGE sql STABLE SECURITY DEFINER AS $$
    SELECT api.require_job((p ->> 'id')::uuid);
    SELECT api.all_items((
        SELECT jsonb_agg(jsonb_build_object('reason', w.reason, 'detail', w.detail, 'facts', w.facts) ORDER BY w.n)
        FROM why_job((p ->> 'id')::uuid) WITH ORDINALITY AS w (reason, detail, facts, n)));
$$;

CREATE FUNCTION api.set_job_priority(p_id uuid, p_priority int) RETURNS text
LANGUAGE plpgsql SECURITY DEFINER AS $$
BEGIN
    PERFORM api.require_job(p_id);
    IF NOT EXISTS (SELECT FROM jobs WHERE id = p_id AND status IN ('queued', 'failed')) THEN
        RETURN 'wrong_state';
    END IF;
    PERFORM set_priority(jsonb_build_object('id', p_id), p_priority, 1);
    RETURN 'changed';
END
$$;
COMMENT ON FUNCTION api.set_job_priority IS
    'Changes the priority of a waiting job of the caller, or of a failed job for its next attempt. SECURITY DEFINER, '
    'because only the service may call set_priority(). Returns ''changed'' or ''wrong_state''.';

CREATE FUNCTION api.job_priority(p jsonb) RETURNS api.answer
LANGUAGE sql
RETURN api.changed_job((p ->> 'id')::uuid, api.set_job_priority((p ->> 'id')::uuid, priority_number(p ->> 'priority')),
                       'only jobs that wait or have failed have a priority');

CREATE FUNCTION api.bulk_candidates(p jsonb, p_limit int) RETURNS SETOF jobs
LANGUAGE sql STABLE AS $$
    SELECT f.* FROM (
        SELECT j.* FROM jobs j
        WHERE api.is_service() AND p -> 'ids' IS NULL AND api.job_matches(j, p - 'priority')
          AND (p ->> 'video' IS NULL OR j.video_id = (p ->> 'video')::uuid)
        UNION ALL
        SELECT j.* FROM (SELECT DISTINCT i::uuid AS id FROM jsonb_array_elements_text(p -> 'ids') AS i) AS chosen
        JOIN jobs j USING (id)
        WHERE api.is_service() AND api.job_matches(j, p - 'priority')
          AND (p ->> 'video' IS NULL OR j.video_id = (p ->> 'video')::uuid)
        UNION ALL
        SELECT t.* FROM api.tenant_jobs(p - 'priority', p_limit) AS t
        WHERE NOT api.is_service()) AS f
    WHERE CASE p ->> 'action'
              WHEN 'cancel' THEN f.status = 'queued' OR f.status = 'processing' AND f.cancel_requested_at IS NULL
                                 OR f.status = 'failed' AND f.scheduled_for IS NOT NULL
              WHEN 'retry' THEN f.status IN ('failed', 'canceled') AND NOT has_twin(f)
              ELSE f.status IN ('queued', 'failed') AND f.priority <> priority_number(p ->> 'priority') END
$$;
COMMENT ON FUNCTION api.bulk_candidates IS 'The jobs that a bulk operation would change: those of its filter whose state allows it.';

CREATE FUNCTION api.bulk_change(p jsonb, p_id uuid) RETURNS boolean
LANGUAGE sql AS $$
    SELECT CASE p ->> 'action' WHEN 'cancel' THEN public.cancel_job(p_id) IN ('canceled', 'requested')
                               WHEN 'retry' THEN public.retry_job(p_id) = 'queued'
                               ELSE api.set_job_priority(p_id, priority_number(p ->> 'priority')) = 'changed' END
$$;
COMMENT ON FUNCTION api.bulk_change IS
    'Applies the action of a bulk operation to one job, and returns whether the job was changed.';

CREATE FUNCTION api.bulk_portion(p jsonb, p_limit int) RETURNS bigint
LANGUAGE plpgsql AS $$
DECLARE
    filter CONSTANT jsonb := jsonb_strip_nulls(jsonb_build_object(
        'job_type', p -> 'type', 'tenant_id', p -> 'tenant', 'video_id', p -> 'video', 'run_id', p -> 'run',
        'error_type', p -> 'error', 'created_after', p -> 'created_after', 'created_before', p -> 'created_before',
        'status', CASE p ->> 'state' WHEN 'retry' THEN 'failed' ELSE p ->> 'state' END,
        'is_scheduled', CASE p ->> 'state' WHEN 'retry' THEN true WHEN 'failed' THEN false END));
BEGIN
    RETURN CASE p ->> 'action' WHEN 'cancel' THEN cancel_jobs(filter, p_limit)
                               ELSE set_priority(filter, priority_number(p ->> 'priority'), p_limit) END;
END
$$;
COMMENT ON FUNCTION api.bulk_portion IS
    'Cancels or moves some jobs of a filter for the service, those first that nobody else is changing. Returns how many.';

CREATE FUNCTION api.bulk_jobs(p jsonb) RETURNS api.answer
LANGUAGE plpgsql AS $$
DECLARE
    most CONSTANT int := CASE p ->> 'action' WHEN 'retry' THEN 1000 ELSE 10000 END; -- retries are checked one by one
    dry_run CONSTANT boolean := coalesce((p ->> 'dry_run')::boolean, false);
    matched bigint;
    changed bigint;
    sample jsonb;
    chosen uuid[];
BEGIN
    IF NOT api.is_admin() THEN
        RAISE EXCEPTION 'bulk operations are an admin''s' USING ERRCODE = 'insufficient_privilege';
    ELSIF p - 'action' - 'dry_run' - 'priority' = '{}' THEN
        RAISE EXCEPTION 'a filter is needed: ids, q, type, state, video, run, tenant, error, created_after or created_before'
            USING ERRCODE = 'invalid_parameter_value';
    ELSIF (p ->> 'action' = 'priority') <> (p ? 'priority') THEN
        RAISE EXCEPTION 'priority is for the action priority, which needs it' USING ERRCODE = 'invalid_parameter_value';
    END IF;
    PERFORM i::uuid FROM jsonb_array_elements_text(p -> 'ids') AS i; -- refuses values that are not ids
    SELECT count(*), array_agg(c.id ORDER BY c.created_at, c.id) INTO matched, chosen
    FROM (SELECT id, created_at FROM api.bulk_candidates(p, 10000) LIMIT CASE WHEN NOT dry_run THEN most + 1 END) AS c;
    SELECT coalesce(jsonb_agg(api.job_object(j) ORDER BY j.created_at, j.id), '[]') INTO sample
    FROM jobs j WHERE j.id = ANY (chosen[:10]);
    IF dry_run THEN
        changed := 0;
    ELSIF api.is_service() AND p ->> 'action' <> 'retry' AND NOT p ?| '{ids,q}' THEN
        changed := api.bulk_portion(p, most);
    ELSE
        SELECT count(*) FILTER (WHERE api.bulk_change(p, c.id)) INTO changed FROM unnest(chosen[:most]) AS c (id);
    END IF;
    RETURN api.ok(jsonb_build_object('dry_run', dry_run, 'matched', matched, 'changed', changed, 'sample', sample));
END
$$;

CREATE FUNCTION api.job_summary(p jsonb) RETURNS api.answer
LANGUAGE sql STABLE AS $$
    SELECT api.ok(jsonb_build_object('is_bounded', NOT api.is_service(), 'items', coalesce((
        SELECT jsonb_agg(jsonb_build_object('job_type', g.job_type, 'state', g.state, 'jobs', g.jobs,
                                            'oldest_at', g.oldest_at) ORDER BY g.job_type, g.state)
        FROM (SELECT j.job_type, job_state(j) AS state, count(*) AS jobs, min(j.created_at) AS oldest_at
              FROM (SELECT * FROM jobs WHERE api.is_service() AND status IN ('queued', 'processing', 'failed')
                    UNION ALL
                    SELECT * FROM api.tenant_jobs('{}', 10000)
                    WHERE NOT api.is_service()) AS j
              GROUP BY 1, 2) AS g), '[]')))
$$;

-- ---- runs --------------------------------------------------------------------------------------------------

CREATE FUNCTION api.runs(p jsonb) RETURNS api.answer
LANGUAGE plpgsql STABLE AS $$
DECLARE
    wanted CONSTANT int := coalesce((p ->> 'limit')::int, 50);
    keys CONSTANT jsonb := api.read_cursor(p, 2);
BEGIN
    RETURN api.page(p, wanted, ARRAY(
        SELECT (api.run_object(r), jsonb_build_array(r.created_at, r.id))::api.listed FROM runs r
        WHERE (p ->> 'workflow' IS NULL OR r.workflow = p ->> 'workflow')
          AND (p ->> 'status' IS NULL
               OR r.status = replace(replace((api.job_states(p ->> 'status'))[1], 'queued', 'running'),
                                     'processing', 'running'))
          AND (p ->> 'video' IS NULL OR r.video_id = (p ->> 'video')::uuid)
          AND (keys IS NULL OR (r.created_at, r.id) < ((keys ->> 0)::timestamptz, (keys ->> 1)::uuid))
        ORDER BY r.created_at DESC, r.id DESC LIMIT wanted + 1));
END
$$;

CREATE FUNCTION api.run(p jsonb) RETURNS api.answer
LANGUAGE sql STABLE
RETURN api.ok((SELECT api.run_object(r) || jsonb_build_object(
    'steps', w.steps,
    'jobs', coalesce((SELECT jsonb_agg(api.job_object(j) ORDER BY array_position(
                          ARRAY(SELECT s ->> 'key' FROM jsonb_array_elements(w.steps) AS s), j.step::text), j.part, j.created_at, j.id)
                      FROM (SELECT * FROM jobs WHERE run_id = r.id LIMIT 1000) AS j), '[]'))
    FROM runs r LEFT JOIN workflows w ON w.name = r.workflow AND w.version = r.version WHERE r.id = (p ->> 'id')::uuid));

CREATE FUNCTION api.changed_run(p_id uuid, p_outcome text) RETURNS api.answer
LANGUAGE plpgsql AS $$
DECLARE
    run runs;
BEGIN
    SELECT * INTO run FROM runs WHERE id = p_id;
    IF NOT FOUND OR p_outcome = 'not_found' THEN
        RETURN api.not_found();
    ELSIF p_outcome = 'wrong_state' THEN
        RAISE EXCEPTION 'this run is %, and no job of it can be changed so', run.status
            USING ERRCODE = 'object_not_in_prerequisite_state';
    END IF;
    RETURN api.ok(api.run_object(run));
END
$$;
COMMENT ON FUNCTION api.changed_run IS 'The answer of an operation that changes a run: the run, or why it was refused.';

CREATE FUNCTION api.cancel_run(p jsonb) RETURNS api.answer
LANGUAGE sql
RETURN api.changed_run((p ->> 'id')::uuid, public.cancel_run((p ->> 'id')::uuid));

CREATE FUNCTION api.restart_run(p jsonb) RETURNS api.answer
LANGUAGE sql
RETURN api.changed_run((p ->> 'id')::uuid, CASE sign(public.restart_run((p ->> 'id')::uuid)) WHEN 1 THEN 'queued'
                                             WHEN 0 THEN 'wrong_state' ELSE 'not_found' END);

-- ---- the service's ----------------------------------------------------------------------------------------

CREATE FUNCTION api.pause_type(p jsonb) RETURNS api.answer
LANGUAGE sql
RETURN api.done(public.pause_type(p ->> 'name', p ->> 'reason'));

CREATE FUNCTION api.resume_type(p jsonb) RETURNS api.answer
LANGUAGE plpgsql AS $$
BEGIN
    PERFORM public.resume_type(name) FROM job_types WHERE name = p ->> 'name';
    RETURN api.done(FOUND);
END
$$;

-- ---- who may call what -------------------------------------------------------------------------------------

SELECT secure_objects(p_for_the_service => '{pause_type,resume_type}');
GRANT EXECUTE ON FUNCTION api.set_job_priority TO cortana_app, service_role;
GRANT EXECUTE ON FUNCTION api.event_tail, api.event_states, api.ended_jobs TO cortana_gateway;
