-- Triggers, schedules, webhooks and events over HTTP. A tenant's admin manages those of their tenant, the service
-- all. Only the service may access the tables, so the functions that read and write them are SECURITY DEFINER and
-- compare tenants.

CREATE FUNCTION api.manages_tenant(p_tenant_id uuid) RETURNS boolean
LANGUAGE sql STABLE AS $$
    SELECT api.is_service() OR p_tenant_id IS NOT NULL AND api.is_admin() AND may_touch(p_tenant_id)
$$;
COMMENT ON FUNCTION api.manages_tenant IS 'Whether the caller manages the triggers and webhooks of a tenant; null: of all tenants.';

CREATE FUNCTION api.chosen_tenant(p jsonb) RETURNS uuid
LANGUAGE plpgsql STABLE AS $$
DECLARE
    tenant CONSTANT uuid := coalesce((p ->> 'tenant_id')::uuid, CASE WHEN NOT api.is_service() THEN auth.uid() END);
BEGIN
    PERFORM api.require_admin();
    IF NOT api.manages_tenant(tenant) THEN
        RAISE EXCEPTION 'you are not a member of this tenant' USING ERRCODE = 'invalid_parameter_value';
    END IF;
    RETURN tenant;
END
$$;
COMMENT ON FUNCTION api.chosen_tenant IS
    'The tenant for which an object is made: the member "tenant_id", else the caller; null: all tenants, for the '
    'service.';

-- ---- webhooks ----------------------------------------------------------------------------------------------
-- Names of webhooks are unique over all tenants, and a tenant must not learn that another one uses a name. So the
-- name of a tenant's webhook is stored with the tenant's id in front.

CREATE FUNCTION api.kept_name(p_name text, p_tenant_id uuid) RETURNS text
LANGUAGE sql IMMUTABLE
RETURN CASE WHEN p_tenant_id IS NULL THEN p_name ELSE 't' || replace(p_tenant_id::text, '-', '') || ':' || p_name END;
COMMENT ON FUNCTION api.kept_name IS 'The stored name of a tenant''s webhook.';

CREATE FUNCTION api.shown_name(p_name text, p_tenant_id uuid) RETURNS text
LANGUAGE sql STABLE
RETURN CASE WHEN api.is_service() OR p_tenant_id IS NULL THEN p_name ELSE regexp_replace(p_name, '^t[0-9a-f]{32}:', '') END;
COMMENT ON FUNCTION api.shown_name IS 'The name of a webhook as its tenant knows it; the service sees the stored name.';

CREATE OR REPLACE FUNCTION api.job_payload(job jobs) RETURNS jsonb
LANGUAGE sql STABLE AS $$
    SELECT CASE WHEN job.job_type = 'webhook'
                THEN s.sent || jsonb_build_object('webhook', api.shown_name(s.sent ->> 'webhook', job.tenant_id))
                ELSE s.sent END
    FROM (SELECT coalesce(job.payload -> 'original_payload', job.payload)) AS s (sent)
$$;
COMMENT ON FUNCTION api.job_payload IS
    'The payload with which a job was enqueued; that of a webhook with the name that its tenant knows.';

CREATE FUNCTION api.webhook_object(w webhooks) RETURNS jsonb
LANGUAGE sql STABLE
RETURN jsonb_build_object(
    'name', api.shown_name(w.name, w.tenant_id), 'url', w.url, 'description', w.description, 'tenant_id', w.tenant_id,
    'created_at', w.created_at, 'disabled_at', w.disabled_at, 'disabled_reason', w.disabled_reason,
    'events', (SELECT coalesce(jsonb_agg(coalesce(t.event, t.cron) ORDER BY t.name), '[]') FROM job_triggers t
               WHERE t.action = 'webhook' AND t.target = w.name),
    'last', (SELECT jsonb_build_object('state', job_state(j), 'at', coalesce(j.finished_at, j.created_at),
                                       'error', j.payload #>> '{error,message}')
             FROM jobs j WHERE j.job_type = 'webhook'
               AND coalesce(j.payload ->> 'webhook', j.payload #>> '{original_payload,webhook}') = w.name
             ORDER BY j.created_at DESC LIMIT 1));
COMMENT ON FUNCTION api.webhook_object IS 'A webhook as the API shows it, with its events and its last message, without secrets.';

CREATE FUNCTION api.find_webhook(p_name text) RETURNS webhooks
LANGUAGE plpgsql STABLE SECURITY DEFINER AS $$
DECLARE
    found webhooks;
BEGIN
    PERFORM api.require_admin();
    SELECT w.* INTO found FROM webhooks w
    WHERE api.is_service() AND w.name = p_name
       OR NOT api.is_service() AND w.name = ANY (
           SELECT api.kept_name(p_name, t.id) FROM unnest(auth.uid() || coalesce(current_team_ids(), '{}')) AS t (id))
    ORDER BY w.tenant_id = auth.uid() DESC LIMIT 1;
    PERFORM api.require_found(found.name IS NOT NULL);
    RETURN found;
END
$$;
COMMENT ON FUNCTION api.find_webhook IS
    'The webhook that the caller knows by this name; their own before those of their teams. Refuses a name that does '
    'not exist.';

CREATE FUNCTION api.webhooks(p jsonb) RETURNS api.answer
LANGUAGE sql STABLE SECURITY DEFINER AS $$
    SELECT api.chosen_tenant('{}');
    SELECT api.all_items((SELECT jsonb_agg(api.webhook_object(w) ORDER BY w.name)
                          FROM (SELECT * FROM webhooks o WHERE api.manages_tenant(o.tenant_id) ORDER BY o.name LIMIT 1000) AS w));
$$;

CREATE FUNCTION api.create_webhook(p jsonb) RETURNS api.answer
LANGUAGE plpgsql SECURITY DEFINER AS $$
DECLARE
    most CONSTANT int := 50;       -- of one tenant
    tenant CONSTANT uuid := api.chosen_tenant(p);
    kept CONSTANT text := api.kept_name(p ->> 'name', tenant);
    secret text;
    made webhooks;
BEGIN
    IF tenant IS NOT NULL AND (SELECT count(*) FROM webhooks w WHERE w.tenant_id = tenant) >= most THEN
        RAISE EXCEPTION 'this tenant has % webhooks: remove one', most USING ERRCODE = 'configuration_limit_exceeded';
    END IF;
    secret := add_webhook(kept, p ->> 'url', tenant, p ->> 'description', p ->> 'secret');
    PERFORM api.create_trigger(jsonb_build_object(
        'name', concat('webhook:', p ->> 'name', ':', e), 'event', e, 'action', 'webhook',
        'target', api.shown_name(kept, tenant), 'tenant_id', tenant))
    FROM jsonb_array_elements_text(p -> 'events') AS e;
    SELECT w.* INTO made FROM webhooks w WHERE w.name = kept;
    RETURN ROW(201, NULL, jsonb_build_object('Location', '/api/v1/webhooks/' || (p ->> 'name')),
               api.webhook_object(made) || jsonb_build_object('secret', secret))::api.answer;
END
$$;

CREATE FUNCTION api.webhook(p jsonb) RETURNS api.answer
LANGUAGE sql STABLE SECURITY DEFINER AS $$
    SELECT api.versioned(api.webhook_object(w), 'last', 'events') FROM api.find_webhook(p ->> 'name') AS w
$$;

CREATE FUNCTION api.change_webhook(p jsonb) RETURNS api.answer
LANGUAGE plpgsql SECURITY DEFINER AS $$
DECLARE
    hook webhooks := api.find_webhook(p ->> 'name');
BEGIN
    UPDATE webhooks w SET url = coalesce(p ->> 'url', w.url), description = coalesce(p ->> 'description', w.description)
    WHERE w.name = hook.name;
    IF (p ->> 'is_enabled')::boolean THEN
        PERFORM enable_webhook(hook.name);
    ELSIF NOT (p ->> 'is_enabled')::boolean THEN
        PERFORM disable_webhook(hook.name, p ->> 'reason');
    END IF;
    SELECT w.* INTO hook FROM webhooks w WHERE w.name = hook.name;
    RETURN api.versioned(api.webhook_object(hook), 'last', 'events');
END
$$;

CREATE FUNCTION api.delete_webhook(p jsonb) RETURNS api.answer
LANGUAGE plpgsql SECURITY DEFINER AS $$
DECLARE
    hook CONSTANT webhooks := api.find_webhook(p ->> 'name');
BEGIN
    DELETE FROM job_triggers t WHERE t.action = 'webhook' AND t.target = hook.name;
    DELETE FROM webhooks w WHERE w.name = hook.name;
    RETURN api.done();
END
$$;

CREATE FUNCTION api.rotate_webhook(p jsonb) RETURNS api.answer
LANGUAGE plpgsql SECURITY DEFINER AS $$
DECLARE
    hook CONSTANT webhooks := api.find_webhook(p ->> 'name');
    secret text;
BEGIN
    secret := public.rotate_webhook(hook.name, make_interval(hours => coalesce((p ->> 'keep_hours')::int, 24)),
                                    p ->> 'secret');
    RETURN api.ok(api.webhook_object(hook) || jsonb_build_object('secret', secret));
END
$$;

CREATE FUNCTION api.test_webhook(p jsonb) RETURNS api.answer
LANGUAGE plpgsql SECURITY DEFINER AS $$
DECLARE
    hook CONSTANT webhooks := api.find_webhook(p ->> 'name');
    job jobs;
BEGIN
    IF hook.disabled_at IS NOT NULL THEN
        RAISE EXCEPTION 'this webhook is disabled' USING ERRCODE = 'object_not_in_prerequisite_state';
    END IF;
    -- Does what send_webhook() does. Tenants may not call send_webhook(), because they could choose what is sent,
    -- and in whose name.
    INSERT INTO jobs (job_type, payload, tenant_id, priority, sequence, step, max_retries, is_ready)
    SELECT t.name, jsonb_build_object('webhook', hook.name, 'type', 'webhook.test', 'data', '{}'::jsonb,
                                      'id', 'msg_' || replace(gen_random_uuid()::text, '-', ''),
                                      'timestamp', to_char(clock_timestamp() AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"')),
           hook.tenant_id, t.base_priority, fair_sequence(t.name, t.base_priority, hook.tenant_id), t.name,
           cardinality(t.retry_delays), true
    FROM job_types t WHERE t.name = 'webhook'
    RETURNING * INTO job;
    RETURN ROW(202, NULL, NULL, api.delivery_object(job))::api.answer;
END
$$;

CREATE FUNCTION api.delivery_object(j jobs) RETURNS jsonb
LANGUAGE sql STABLE
RETURN jsonb_build_object(
    'job_id', j.id, 'message_id', coalesce(j.payload ->> 'id', j.payload #>> '{original_payload,id}'),
    'type', coalesce(j.payload ->> 'type', j.payload #>> '{original_payload,type}'), 'state', job_state(j),
    'attempts', j.attempt, 'created_at', j.created_at, 'finished_at', j.finished_at, 'next_try_at',
    CASE WHEN j.status = 'failed' THEN j.scheduled_for END, 'error', j.payload #>> '{error,message}');
COMMENT ON FUNCTION api.delivery_object IS 'A message to a webhook, which is a job.';

CREATE FUNCTION api.deliveries(p jsonb) RETURNS api.answer
LANGUAGE plpgsql STABLE SECURITY DEFINER AS $$
DECLARE
    wanted CONSTANT int := coalesce((p ->> 'limit')::int, 50);
    keys CONSTANT jsonb := api.read_cursor(p, 2);
    hook CONSTANT webhooks := api.find_webhook(p ->> 'name');
BEGIN
    RETURN api.page(p, wanted, ARRAY(
        SELECT (api.delivery_object(j), jsonb_build_array(j.created_at, j.id))::api.listed FROM jobs j
        WHERE j.job_type = 'webhook'
          AND coalesce(j.payload ->> 'webhook', j.payload #>> '{original_payload,webhook}') = hook.name
          AND (keys IS NULL OR (j.created_at, j.id) < ((keys ->> 0)::timestamptz, (keys ->> 1)::uuid))
        ORDER BY j.created_at DESC, j.id DESC LIMIT wanted + 1));
END
$$;

-- ---- triggers and schedules --------------------------------------------------------------------------------

CREATE FUNCTION api.firing_object(f trigger_firings) RETURNS jsonb
LANGUAGE sql STABLE
RETURN jsonb_build_object('fired_at', f.fired_at, 'instant', f.instant, 'outcome', f.outcome, 'job_id', f.job_id,
                          'run_id', f.run_id, 'error', f.error);
COMMENT ON FUNCTION api.firing_object IS 'One firing of a trigger.';

CREATE FUNCTION api.trigger_object(t job_triggers) RETURNS jsonb
LANGUAGE sql STABLE
RETURN jsonb_build_object(
    'id', t.id, 'name', t.name, 'description', t.description, 'tenant_id', t.tenant_id, 'event', t.event,
    'filter', t.filter, 'cron', t.cron, 'time_zone', CASE WHEN t.cron IS NOT NULL THEN t.time_zone END,
    'catch_up', t.catch_up, 'catch_up_limit', t.catch_up_limit, 'action', t.action,
    'target', CASE t.action WHEN 'webhook' THEN api.shown_name(t.target, t.tenant_id) ELSE t.target END,
    'payload', t.payload, 'priority', t.priority, 'dedupe_key', t.dedupe_key,
    'dedupe_window_seconds', round(extract(epoch FROM t.dedupe_window)), 'one_at_a_time', t.one_at_a_time,
    'paused_at', t.paused_at, 'pause_reason', t.pause_reason, 'next_at', t.next_at,
    'next_local', to_char(t.next_at AT TIME ZONE t.time_zone, 'YYYY-MM-DD HH24:MI'), 'last_error', t.last_error,
    'last_error_at', t.last_error_at, 'created_by', t.created_by, 'created_at', t.created_at, 'updated_at', t.updated_at,
    'is_built_in', is_default_schedule(t),
    'last', (SELECT api.firing_object(f) FROM trigger_firings f WHERE f.trigger_id = t.id ORDER BY f.id DESC LIMIT 1));
COMMENT ON FUNCTION api.trigger_object IS 'A trigger or schedule as the API shows it, with its last firing.';

CREATE FUNCTION api.find_trigger(p_id uuid) RETURNS job_triggers
LANGUAGE plpgsql STABLE SECURITY DEFINER AS $$
DECLARE
    found job_triggers;
BEGIN
    PERFORM api.require_admin();
    SELECT t.* INTO found FROM job_triggers t WHERE t.id = p_id AND api.manages_tenant(t.tenant_id);
    PERFORM api.require_found(found.id IS NOT NULL);
    RETURN found;
END
$$;
COMMENT ON FUNCTION api.find_trigger IS 'The trigger with this id, if the caller manages it; otherwise refuses.';

CREATE FUNCTION api.triggers(p jsonb) RETURNS api.answer
LANGUAGE sql STABLE SECURITY DEFINER AS $$
    SELECT api.chosen_tenant('{}');
    SELECT api.all_items((
        SELECT jsonb_agg(api.trigger_object(t) ORDER BY t.name, t.id)
        FROM (SELECT * FROM job_triggers o
              WHERE api.manages_tenant(o.tenant_id) AND coalesce((p ->> 'kind' = 'schedule') = (o.cron IS NOT NULL), true)
                AND (p ->> 'name' IS NULL OR o.name = p ->> 'name')
              ORDER BY o.name, o.id LIMIT 1000) AS t));
$$;

CREATE FUNCTION api.versioned_trigger(t job_triggers, p_more jsonb DEFAULT '{}') RETURNS api.answer
LANGUAGE sql STABLE
RETURN api.versioned(api.trigger_object(t) || p_more, VARIADIC
                     '{instants,last,next_at,next_local,last_error,last_error_at,updated_at}');
COMMENT ON FUNCTION api.versioned_trigger IS
    'A trigger with the members of p_more, and an ETag that firings do not change.';

CREATE FUNCTION api.trigger(p jsonb) RETURNS api.answer
LANGUAGE plpgsql STABLE SECURITY DEFINER AS $$
DECLARE
    known CONSTANT job_triggers := api.find_trigger((p ->> 'id')::uuid);
BEGIN
    RETURN api.versioned_trigger(known, jsonb_build_object('instants', CASE WHEN known.cron IS NOT NULL THEN (
        SELECT jsonb_agg(n ORDER BY n) FROM next_crons(known.cron, known.time_zone, 10, now()) AS n) END));
END
$$;

CREATE FUNCTION api.with_changes(t job_triggers, p jsonb) RETURNS job_triggers
LANGUAGE plpgsql STABLE AS $$
BEGIN
    t := jsonb_populate_record(t, p - '{id,tenant_id,dedupe_window_seconds,priority}'::text[]);
    t.priority := coalesce(priority_number(p ->> 'priority'), t.priority);
    IF p ? 'dedupe_window_seconds' THEN
        t.dedupe_window := make_interval(secs => (p ->> 'dedupe_window_seconds')::int);
    END IF;
    IF t.action = 'webhook' AND p ?| '{target,action}' AND NOT api.is_service() THEN
        t.target := api.kept_name(t.target, t.tenant_id);
    END IF;
    IF (t.event IS NULL) = (t.cron IS NULL) THEN
        RAISE EXCEPTION 'a trigger has either an event or a cron expression' USING ERRCODE = 'invalid_parameter_value';
    ELSIF t.dedupe_key IS NOT NULL AND t.dedupe_window IS NULL THEN
        RAISE EXCEPTION 'a dedupe_key needs dedupe_window_seconds' USING ERRCODE = 'invalid_parameter_value';
    END IF;
    IF t.created_by IS NOT NULL THEN
        PERFORM check_tenants_trigger(t, t.payload, NULL);
    END IF;
    RETURN t;
END
$$;
COMMENT ON FUNCTION api.with_changes IS 'A trigger with the members of a request, checked.';

CREATE FUNCTION api.create_trigger(p jsonb) RETURNS api.answer
LANGUAGE plpgsql SECURITY DEFINER AS $$
DECLARE
    most CONSTANT int := 100;      -- of one tenant
    wanted job_triggers := jsonb_populate_record(NULL::job_triggers, '{"time_zone": "UTC", "catch_up": "last",
        "catch_up_limit": 10, "payload": {}, "one_at_a_time": false}');
BEGIN
    wanted.tenant_id := api.chosen_tenant(p);
    wanted.created_by := CASE WHEN NOT api.is_service() THEN auth.uid() END;
    wanted := api.with_changes(wanted, p);
    IF wanted.tenant_id IS NOT NULL AND (SELECT count(*) FROM job_triggers t WHERE t.tenant_id = wanted.tenant_id) >= most THEN
        RAISE EXCEPTION 'this tenant has % triggers: remove one', most USING ERRCODE = 'configuration_limit_exceeded';
    END IF;
    INSERT INTO job_triggers (name, description, tenant_id, event, filter, cron, time_zone, catch_up, catch_up_limit, action,
                              target, payload, priority, dedupe_key, dedupe_window, one_at_a_time, created_by)
    VALUES (wanted.name, wanted.description, wanted.tenant_id, wanted.event, wanted.filter, wanted.cron, wanted.time_zone,
            wanted.catch_up, wanted.catch_up_limit, wanted.action, wanted.target, wanted.payload, wanted.priority,
            wanted.dedupe_key, wanted.dedupe_window, wanted.one_at_a_time, wanted.created_by)
    RETURNING * INTO wanted;
    RETURN ROW(201, NULL, jsonb_build_object('Location', '/api/v1/triggers/' || wanted.id),
               api.trigger_object(wanted))::api.answer;
EXCEPTION WHEN foreign_key_violation THEN
    RAISE EXCEPTION '%', SQLERRM USING ERRCODE = 'invalid_parameter_value'; -- the target does not exist
END
$$;

CREATE FUNCTION api.change_trigger(p jsonb) RETURNS api.answer
LANGUAGE plpgsql SECURITY DEFINER AS $$
DECLARE
    wanted job_triggers := api.with_changes(api.find_trigger((p ->> 'id')::uuid), p);
BEGIN
    UPDATE job_triggers t SET
        name = wanted.name, description = wanted.description, event = wanted.event, filter = wanted.filter,
        cron = wanted.cron, time_zone = wanted.time_zone, catch_up = wanted.catch_up, catch_up_limit = wanted.catch_up_limit,
        action = wanted.action, target = wanted.target, payload = wanted.payload, priority = wanted.priority,
        dedupe_key = wanted.dedupe_key, dedupe_window = wanted.dedupe_window, one_at_a_time = wanted.one_at_a_time
    WHERE t.id = wanted.id RETURNING t.* INTO wanted;
    RETURN api.versioned_trigger(wanted);
EXCEPTION WHEN foreign_key_violation THEN
    RAISE EXCEPTION '%', SQLERRM USING ERRCODE = 'invalid_parameter_value';
END
$$;

CREATE FUNCTION api.delete_trigger(p jsonb) RETURNS api.answer
LANGUAGE plpgsql SECURITY DEFINER AS $$
DECLARE
    known CONSTANT job_triggers := api.find_trigger((p ->> 'id')::uuid);
BEGIN
    IF is_default_schedule(known) THEN
        RAISE EXCEPTION 'the schedule "%" belongs to the system: pause it instead', known.name
            USING ERRCODE = 'object_not_in_prerequisite_state';
    END IF;
    DELETE FROM job_triggers t WHERE t.id = known.id;
    RETURN api.done();
END
$$;

CREATE FUNCTION api.pause_trigger(p jsonb) RETURNS api.answer
LANGUAGE plpgsql SECURITY DEFINER AS $$
DECLARE
    known CONSTANT job_triggers := api.find_trigger((p ->> 'id')::uuid);
BEGIN
    UPDATE job_triggers t SET paused_at = coalesce(t.paused_at, clock_timestamp()), pause_reason = p ->> 'reason'
    WHERE t.id = known.id;
    RETURN api.done();
END
$$;

CREATE FUNCTION api.resume_trigger(p jsonb) RETURNS api.answer
LANGUAGE plpgsql SECURITY DEFINER AS $$
DECLARE
    known CONSTANT job_triggers := api.find_trigger((p ->> 'id')::uuid);
BEGIN
    UPDATE job_triggers t SET paused_at = NULL, pause_reason = NULL WHERE t.id = known.id;
    RETURN api.done();
END
$$;

CREATE FUNCTION api.fire_trigger(p jsonb) RETURNS api.answer
LANGUAGE plpgsql SECURITY DEFINER AS $$
DECLARE
    known job_triggers := api.find_trigger((p ->> 'id')::uuid);
    firing trigger_firings;
BEGIN
    IF known.cron IS NULL THEN
        RAISE EXCEPTION 'this trigger waits for an event: send it with POST /events'
            USING ERRCODE = 'object_not_in_prerequisite_state';
    ELSIF known.action = 'webhook' AND NOT api.is_service() THEN
        RAISE EXCEPTION 'try a webhook with POST /webhooks/%/test', api.shown_name(known.target, known.tenant_id)
            USING ERRCODE = 'object_not_in_prerequisite_state';
    END IF;
    SELECT t.* INTO known FROM job_triggers t WHERE t.id = known.id FOR NO KEY UPDATE;
    firing := run_trigger(known, schedule_scope(known, clock_timestamp()), NULL, NULL, NULL, gen_random_uuid(), clock_timestamp());
    RETURN api.ok(api.firing_object(firing));
END
$$;
COMMENT ON FUNCTION api.fire_trigger IS
    'POST /triggers/{id}/fire: runs the action of a schedule now, with the rights of the caller. Only the service may '
    'send messages to webhooks in this way.';

CREATE FUNCTION api.firings(p jsonb) RETURNS api.answer
LANGUAGE plpgsql STABLE SECURITY DEFINER AS $$
DECLARE
    wanted CONSTANT int := coalesce((p ->> 'limit')::int, 50);
    keys CONSTANT jsonb := api.read_cursor(p, 1);
    known CONSTANT job_triggers := api.find_trigger((p ->> 'id')::uuid);
BEGIN
    RETURN api.page(p, wanted, ARRAY(
        SELECT (api.firing_object(f), jsonb_build_array(f.id))::api.listed FROM trigger_firings f
        WHERE f.trigger_id = known.id AND (keys IS NULL OR f.id < (keys ->> 0)::bigint)
        ORDER BY f.id DESC LIMIT wanted + 1));
END
$$;

CREATE FUNCTION api.send_event(p jsonb) RETURNS api.answer
LANGUAGE plpgsql AS $$
BEGIN
    IF p ? 'video_id' THEN
        PERFORM api.require_video((p ->> 'video_id')::uuid);
    END IF;
    RETURN ROW(202, NULL, NULL, jsonb_build_object('id', emit_event(
        p ->> 'name', coalesce(p -> 'data', '{}'), (p ->> 'video_id')::uuid, NULL, (p ->> 'tenant_id')::uuid)))::api.answer;
END
$$;

-- ---- commands ----------------------------------------------------------------------------------------------

CREATE FUNCTION api.definition_object(d job_definitions) RETURNS jsonb
LANGUAGE sql STABLE
RETURN jsonb_build_object(
    'key', d.key, 'description', d.description, 'payload_schema', d.payload_schema,
    'time_limit_ms', round(extract(epoch FROM d.time_limit) * 1000), 'max_attempts', d.max_attempts,
    'priority', d.priority, 'is_public', d.is_public, 'is_enabled', d.is_enabled, 'created_at', d.created_at,
    'updated_at', d.updated_at)
    || CASE WHEN api.is_service() THEN jsonb_build_object('argv', d.argv, 'environment', d.environment) ELSE '{}' END;
COMMENT ON FUNCTION api.definition_object IS 'A command. Only the service sees which program it runs.';

CREATE FUNCTION api.definitions(p jsonb) RETURNS api.answer
LANGUAGE sql STABLE AS $$
    SELECT api.all_items(jsonb_agg(api.definition_object(d) ORDER BY d.key)) FROM job_definitions d
$$;

CREATE FUNCTION api.definition(p jsonb) RETURNS api.answer
LANGUAGE sql STABLE
RETURN api.versioned((SELECT api.definition_object(d) FROM job_definitions d WHERE d.key = p ->> 'key'));

CREATE FUNCTION api.define(p jsonb) RETURNS api.answer
LANGUAGE sql AS $$
    SELECT define_command(
        p - '{time_limit_ms,created_at,updated_at}'::text[] || CASE WHEN p ? 'time_limit_ms'
            THEN jsonb_build_object('time_limit', (p ->> 'time_limit_ms') || ' ms') ELSE '{}' END);
    SELECT api.definition(p);
$$;

CREATE OR REPLACE FUNCTION api.enqueue_command(p jsonb, OUT job_id uuid, OUT is_new boolean)
LANGUAGE plpgsql AS $$
BEGIN
    IF NOT EXISTS (SELECT FROM job_definitions d WHERE d.key = p ->> 'command') THEN
        RAISE EXCEPTION 'no command has this name: GET /definitions lists them' USING ERRCODE = 'invalid_parameter_value';
    END IF;
    SELECT c.job_id, c.is_new INTO job_id, is_new
    FROM run_command(p ->> 'command', coalesce(p -> 'payload', '{}'), priority_number(p ->> 'priority'),
                     (p ->> 'scheduled_for')::timestamptz, p ->> 'dedupe_key') AS c;
END
$$;
COMMENT ON FUNCTION api.enqueue_command IS 'Enqueues the command that POST /jobs names.';

CREATE FUNCTION api.preview_schedule(p jsonb) RETURNS api.answer
LANGUAGE sql STABLE SECURITY DEFINER AS $$
    SELECT api.all_items((
        SELECT jsonb_agg(jsonb_build_object('at', i, 'local', to_char(i AT TIME ZONE z, 'Dy YYYY-MM-DD HH24:MI'),
                                            'time_zone', z) ORDER BY i)
        FROM check_time_zone(coalesce(p ->> 'time_zone', 'UTC')) AS z, next_crons(p ->> 'cron', z, 10, now()) AS i))
$$;

CREATE FUNCTION api.restore_schedules(p jsonb) RETURNS api.answer
LANGUAGE sql
RETURN api.ok(jsonb_build_object('made', restore_default_schedules()));

-- ---- who may call what -------------------------------------------------------------------------------------

SELECT secure_objects(p_for_the_service => '{define,restore_schedules}');
