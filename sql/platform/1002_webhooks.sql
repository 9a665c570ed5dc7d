-- Webhooks: events, delivered to URLs in the form of Standard Webhooks (https://www.standardwebhooks.com).

INSERT INTO job_types (name, description, base_priority, time_limit, retry_delays) VALUES
    ('webhook', 'an event, delivered to a URL', 5, '2 minutes',
     '{5 seconds,5 minutes,30 minutes,2 hours,5 hours,10 hours,14 hours,20 hours}');

CREATE INDEX jobs_webhook ON jobs ((coalesce(payload ->> 'webhook', payload #>> '{original_payload,webhook}')),
                                   created_at)
    WHERE job_type = 'webhook';

CREATE TABLE webhooks (
    name text PRIMARY KEY CHECK (name ~ '^[a-z][a-z0-9_.:-]{0,99}$'),
    url text NOT NULL CHECK (length(url) <= 2000 AND url ~
        '^https?://([A-Za-z0-9._-]+|\[[0-9A-Fa-f:.]+\])(:[0-9]{1,5})?([/?][!-~]*)?$'),
    description text,
    tenant_id uuid,
    disabled_at timestamptz,
    disabled_reason text,
    created_at timestamptz NOT NULL DEFAULT clock_timestamp()
);
COMMENT ON TABLE webhooks IS 'Receivers of events over HTTP.';
COMMENT ON COLUMN webhooks.url IS
    'URL of the receiver: http or https, without a user name. The environment of the worker determines which '
    'addresses may be called.';
COMMENT ON COLUMN webhooks.name IS 'Name of the webhook.';
COMMENT ON COLUMN webhooks.description IS 'What the webhook is for.';
COMMENT ON COLUMN webhooks.tenant_id IS 'Only events of this tenant; null: events of every tenant.';
COMMENT ON COLUMN webhooks.disabled_at IS 'When the webhook was disabled; null: enabled. No messages are sent to it.';
COMMENT ON COLUMN webhooks.disabled_reason IS 'Why the webhook is disabled.';
COMMENT ON COLUMN webhooks.created_at IS 'When the webhook was added.';

SELECT secure_table('webhooks');

CREATE TABLE cortana.webhook_secrets (
    id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    webhook text NOT NULL REFERENCES webhooks ON UPDATE CASCADE ON DELETE CASCADE,
    secret text NOT NULL CHECK (secret ~ '^whsec_[A-Za-z0-9+/]{30,88}={0,2}$'),
    created_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    expires_at timestamptz
);
COMMENT ON TABLE cortana.webhook_secrets IS 'Secrets for signing messages; only the service may read them.';

CREATE INDEX webhook_secrets_webhook ON webhook_secrets (webhook, id);

SELECT secure_table('webhook_secrets');

CREATE FUNCTION cortana.new_webhook_secret() RETURNS text
LANGUAGE sql VOLATILE AS $$
    SELECT 'whsec_' || encode(sha256(convert_to(
        concat(gen_random_uuid(), gen_random_uuid(), gen_random_uuid()), 'UTF8')), 'base64')
$$;
COMMENT ON FUNCTION cortana.new_webhook_secret IS 'Returns a new secret: 32 random bytes in the form of Standard Webhooks.';

CREATE FUNCTION add_webhook(p_name text, p_url text, p_tenant_id uuid DEFAULT NULL,
                            p_description text DEFAULT NULL, p_secret text DEFAULT NULL) RETURNS text
LANGUAGE plpgsql AS $$
DECLARE
    made text := coalesce(p_secret, new_webhook_secret());
BEGIN
    INSERT INTO webhooks (name, url, tenant_id, description)
    VALUES (p_name, p_url, p_tenant_id, p_description);
    INSERT INTO webhook_secrets (webhook, secret) VALUES (p_name, made);
    RETURN made;
END
$$;
COMMENT ON FUNCTION add_webhook IS
    'Adds a webhook and returns its secret, with which the receiver checks signatures.';

CREATE FUNCTION rotate_webhook(p_name text, p_keep interval DEFAULT '24 hours',
                               p_secret text DEFAULT NULL) RETURNS text
LANGUAGE plpgsql AS $$
DECLARE
    made text := coalesce(p_secret, new_webhook_secret());
BEGIN
    PERFORM FROM webhooks WHERE name = p_name FOR UPDATE;
    IF NOT FOUND THEN
        RAISE EXCEPTION 'no webhook is called %', left(p_name, 100) USING ERRCODE = 'no_data_found';
    END IF;
    DELETE FROM webhook_secrets WHERE webhook = p_name AND expires_at <= clock_timestamp();
    UPDATE webhook_secrets SET expires_at = least(expires_at, clock_timestamp() + p_keep)
    WHERE webhook = p_name;
    INSERT INTO webhook_secrets (webhook, secret) VALUES (p_name, made);
    RETURN made;
END
$$;
COMMENT ON FUNCTION rotate_webhook IS
    'Gives a webhook a new secret and returns it. Until p_keep has passed, messages are also signed with the old '
    'secrets.';

CREATE FUNCTION disable_webhook(p_name text, p_reason text DEFAULT NULL) RETURNS boolean
LANGUAGE sql AS $$
    WITH changed AS (
        UPDATE webhooks SET disabled_at = coalesce(disabled_at, clock_timestamp()),
                            disabled_reason = p_reason
        WHERE name = p_name RETURNING 1)
    SELECT EXISTS (SELECT FROM changed)
$$;
COMMENT ON FUNCTION disable_webhook IS
    'Stops sending messages to a webhook. Returns false if the webhook does not exist.';

CREATE FUNCTION enable_webhook(p_name text) RETURNS boolean
LANGUAGE sql AS $$
    WITH changed AS (
        UPDATE webhooks SET disabled_at = NULL, disabled_reason = NULL WHERE name = p_name RETURNING 1)
    SELECT EXISTS (SELECT FROM changed)
$$;
COMMENT ON FUNCTION enable_webhook IS
    'Lets messages be sent to a disabled webhook again. Returns false if the webhook does not exist.';

CREATE FUNCTION cortana.webhook_to_call(p_name text) RETURNS TABLE (url text, secret text, now_s bigint)
LANGUAGE sql STABLE AS $$
    SELECT w.url, s.secret, extract(epoch FROM clock_timestamp())::bigint
    FROM webhooks w JOIN webhook_secrets s ON s.webhook = w.name
    WHERE w.name = p_name AND w.disabled_at IS NULL
      AND (s.expires_at IS NULL OR s.expires_at > clock_timestamp())
    ORDER BY s.id DESC
$$;
COMMENT ON FUNCTION cortana.webhook_to_call IS
    'Returns to the worker the URL of a webhook and its valid secrets, one a row, the newest first; no row if the '
    'webhook is disabled.';

-- The message is a job. Its id is the same in every attempt, so that the receiver recognizes a repetition.
CREATE FUNCTION send_webhook(p_name text, p_type text, p_data jsonb, p_id text DEFAULT NULL,
                             p_timestamp timestamptz DEFAULT clock_timestamp(),
                             p_tenant_id uuid DEFAULT NULL, p_priority int DEFAULT NULL,
                             p_correlation_id uuid DEFAULT NULL, p_dedupe_key text DEFAULT NULL,
                             OUT job_id uuid, OUT is_new boolean)
LANGUAGE plpgsql AS $$
BEGIN
    IF NOT EXISTS (SELECT FROM webhooks WHERE name = p_name) THEN
        RAISE EXCEPTION 'no webhook is called %', left(p_name, 100) USING ERRCODE = 'no_data_found';
    END IF;
    SELECT e.job_id, e.is_new INTO job_id, is_new
    FROM enqueue_job('webhook', jsonb_build_object(
             'webhook', p_name, 'type', p_type, 'data', p_data,
             'id', coalesce(p_id, 'msg_' || replace(gen_random_uuid()::text, '-', '')),
             'timestamp', to_char(p_timestamp AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"')),
         p_priority => p_priority, p_tenant_id => p_tenant_id, p_correlation_id => p_correlation_id,
         p_dedupe_key => p_dedupe_key) AS e;
END
$$;
COMMENT ON FUNCTION send_webhook IS 'Enqueues a message to a webhook, in the caller''s transaction.';

-- ---- who may call what --------------------------------------------------------------------------

SELECT secure_objects();
