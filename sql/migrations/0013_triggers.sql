-- Events, triggers and schedules: what is to be done when something happens, or when it is time.

-- ---- cron expressions ----------------------------------------------------------------------------

-- A cron expression taken apart. Whoever changes a rule changes it here: nothing else reads expressions.
CREATE TYPE cron_spec AS (
    minutes int[],
    hours int[],
    days int[],
    months int[],
    weekdays int[],                        -- 0 is Sunday
    is_either_day boolean,                 -- a day of the month or a day of the week
    is_interval boolean                    -- follows the clock's hands rather than naming times
);

-- One of the five fields as a sorted list of numbers.
CREATE FUNCTION cron_field(p_field text, p_what text, p_low int, p_high int, p_names text[] DEFAULT '{}')
RETURNS int[]
LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE
SET search_path = pg_catalog, public AS
$$
DECLARE
    part text;
    found text[];
    bounds int[];
    word text;
    step int;
    numbers int[] := '{}';
BEGIN
    FOREACH part IN ARRAY string_to_array(p_field, ',') LOOP
        found := regexp_match(part, '^(?:(\*)|([0-9a-z]+)(?:-([0-9a-z]+))?)(?:/([0-9]{1,4}))?$');
        IF found IS NULL THEN
            RAISE EXCEPTION 'cron: "%" is no %', left(part, 50), p_what
                USING ERRCODE = 'invalid_parameter_value',
                      HINT = 'A field is *, a number or name, a range a-b, each with a step /n, or a list of these.';
        END IF;
        IF found[1] IS NOT NULL THEN
            bounds := ARRAY[p_low, CASE WHEN p_what = 'day of the week' THEN 6 ELSE p_high END];
        ELSE
            bounds := '{}';
            FOREACH word IN ARRAY ARRAY[found[2], coalesce(found[3], found[2])] LOOP
                bounds := bounds || CASE WHEN word ~ '^[0-9]{1,4}$' THEN word::int
                                         ELSE p_low + array_position(p_names, word) - 1 END;
            END LOOP;
            IF array_position(bounds, NULL) IS NOT NULL OR NOT (p_low <= ALL (bounds) AND p_high >= ALL (bounds)) THEN
                RAISE EXCEPTION 'cron: "%" is no %: it goes from % to %', left(part, 50), p_what, p_low, p_high
                    USING ERRCODE = 'invalid_parameter_value';
            END IF;
            IF found[3] IS NULL AND found[4] IS NOT NULL THEN
                RAISE EXCEPTION 'cron: a step needs a range: "%-%/%" rather than "%"',
                    found[2], p_high, found[4], left(part, 50) USING ERRCODE = 'invalid_parameter_value';
            END IF;
            IF p_what = 'day of the week' AND bounds[2] = 0 AND bounds[1] > 0 THEN
                bounds[2] := 7; -- fri-sun
            END IF;
        END IF;
        IF bounds[1] > bounds[2] THEN
            RAISE EXCEPTION 'cron: the range "%" runs backwards', left(part, 50)
                USING ERRCODE = 'invalid_parameter_value',
                      HINT = format('Write it as two: %s-%s,%s-%s.', bounds[1], p_high, p_low, bounds[2]);
        END IF;
        step := coalesce(found[4]::int, 1);
        IF step < 1 OR step > p_high - p_low THEN
            RAISE EXCEPTION 'cron: the step of "%" must be 1 to %', left(part, 50), p_high - p_low
                USING ERRCODE = 'invalid_parameter_value',
                      HINT = 'A step begins anew with every hour, day, month or week.';
        END IF;
        numbers := numbers || ARRAY(SELECT generate_series(bounds[1], bounds[2], step));
    END LOOP;
    RETURN ARRAY(SELECT DISTINCT CASE WHEN p_what = 'day of the week' THEN n % 7 ELSE n END AS number
                 FROM unnest(numbers) AS n ORDER BY number);
END
$$;

CREATE FUNCTION parse_cron(p_expression text) RETURNS cron_spec
LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE
SET search_path = pg_catalog, public AS
$$
DECLARE
    expression text := lower(btrim(p_expression, E' \t'));
    fields text[];
    spec cron_spec;
BEGIN
    IF expression IS NULL OR length(expression) NOT BETWEEN 1 AND 300 THEN
        RAISE EXCEPTION 'cron: an expression has 1 to 300 characters' USING ERRCODE = 'invalid_parameter_value';
    END IF;
    expression := CASE expression
        WHEN '@yearly' THEN '0 0 1 1 *'   WHEN '@annually' THEN '0 0 1 1 *'
        WHEN '@monthly' THEN '0 0 1 * *'  WHEN '@weekly' THEN '0 0 * * 0'
        WHEN '@daily' THEN '0 0 * * *'    WHEN '@midnight' THEN '0 0 * * *'
        WHEN '@hourly' THEN '0 * * * *'   ELSE expression END;
    fields := regexp_split_to_array(expression, '\s+');
    IF cardinality(fields) <> 5 THEN
        RAISE EXCEPTION 'cron: "%" has % fields, not the five: minute, hour, day of the month, month, day of the week',
            left(p_expression, 100), cardinality(fields)
            USING ERRCODE = 'invalid_parameter_value',
                  HINT = 'There are no seconds and no years; of words there are @hourly, @daily, @weekly, @monthly and @yearly.';
    END IF;
    spec.minutes := cron_field(fields[1], 'minute', 0, 59);
    spec.hours := cron_field(fields[2], 'hour', 0, 23);
    spec.days := cron_field(fields[3], 'day of the month', 1, 31);
    spec.months := cron_field(fields[4], 'month', 1, 12,
                              '{jan,feb,mar,apr,may,jun,jul,aug,sep,oct,nov,dec}');
    spec.weekdays := cron_field(fields[5], 'day of the week', 0, 7, '{sun,mon,tue,wed,thu,fri,sat}');
    spec.is_either_day := fields[3] NOT LIKE '*%' AND fields[5] NOT LIKE '*%';
    spec.is_interval := fields[1] LIKE '*%' OR fields[2] LIKE '*%';
    IF NOT spec.is_either_day
       AND NOT EXISTS (SELECT FROM unnest(spec.months) AS month, unnest(spec.days) AS day
                       WHERE day <= ('{31,29,31,30,31,30,31,31,30,31,30,31}'::int[])[month]) THEN
        RAISE EXCEPTION 'cron: the day of "%" never comes', left(p_expression, 100)
            USING ERRCODE = 'invalid_parameter_value';
    END IF;
    RETURN spec;
END
$$;
COMMENT ON FUNCTION parse_cron IS
    'The five fields as lists of numbers. Where both the day of the month and the day of the week are given (neither begins with *), one of them is enough; else both must fit.';

-- The first minute at or after p_from on a clock that knows no time zone. Null: none within 50 years.
CREATE FUNCTION cron_next_local(p_spec cron_spec, p_from timestamp) RETURNS timestamp
LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE
SET search_path = pg_catalog, public AS
$$
DECLARE
    day date := p_from::date;
    from_hour int := extract(hour FROM p_from);
    from_minute int := extract(minute FROM p_from);
    is_day boolean;
    is_weekday boolean;
    h int;
    m int;
BEGIN
    WHILE day < p_from::date + 18300 LOOP
        IF extract(month FROM day)::int <> ALL (p_spec.months) THEN
            day := date_trunc('month', day::timestamp) + interval '1 month';
            from_hour := 0;
            from_minute := 0;
            CONTINUE;
        END IF;
        is_day := extract(day FROM day)::int = ANY (p_spec.days);
        is_weekday := extract(dow FROM day)::int = ANY (p_spec.weekdays);
        IF is_day AND is_weekday OR p_spec.is_either_day AND (is_day OR is_weekday) THEN
            FOREACH h IN ARRAY p_spec.hours LOOP
                CONTINUE WHEN h < from_hour;
                FOREACH m IN ARRAY p_spec.minutes LOOP
                    IF h > from_hour OR m >= from_minute THEN
                        RETURN day + make_time(h, m, 0);
                    END IF;
                END LOOP;
            END LOOP;
        END IF;
        day := day + 1;
        from_hour := 0;
        from_minute := 0;
    END LOOP;
    RETURN NULL;
END
$$;

-- How far the clocks of a zone are ahead of UTC at an instant.
CREATE FUNCTION zone_offset(p_instant timestamptz, p_time_zone text) RETURNS interval
LANGUAGE sql STABLE PARALLEL SAFE AS
$$ SELECT (p_instant AT TIME ZONE p_time_zone) - (p_instant AT TIME ZONE 'UTC') $$;

-- The instant between two at which the clocks of a zone were changed; they were changed once.
CREATE FUNCTION zone_change(p_before timestamptz, p_after timestamptz, p_time_zone text) RETURNS timestamptz
LANGUAGE plpgsql STABLE PARALLEL SAFE
SET search_path = pg_catalog, public AS
$$
DECLARE
    low timestamptz := date_trunc('second', p_before);
    high timestamptz := date_trunc('second', p_after);
    middle timestamptz;
    new_offset interval := zone_offset(high, p_time_zone);
BEGIN
    WHILE high - low > interval '1 second' LOOP
        middle := low + date_trunc('second', (high - low) / 2);
        IF zone_offset(middle, p_time_zone) = new_offset THEN
            high := middle;
        ELSE
            low := middle;
        END IF;
    END LOOP;
    RETURN high;
END
$$;

-- When the clocks of a zone show a time: once, twice where they are put back, and never where they are
-- put forward over it: then the change itself is returned.
CREATE FUNCTION local_instants(p_local timestamp, p_time_zone text,
                               OUT first_at timestamptz, OUT last_at timestamptz, OUT is_skipped boolean)
LANGUAGE plpgsql STABLE PARALLEL SAFE
SET search_path = pg_catalog, public AS
$$
DECLARE
    around CONSTANT interval := '1 day';   -- the longest that clocks were ever changed by
    guess timestamptz := p_local AT TIME ZONE p_time_zone;
    candidate timestamptz;
BEGIN
    is_skipped := (guess AT TIME ZONE p_time_zone) <> p_local;
    IF is_skipped THEN
        first_at := zone_change(guess - around, guess + around, p_time_zone);
        last_at := first_at;
        RETURN;
    END IF;
    first_at := guess;
    last_at := guess;
    FOREACH candidate IN ARRAY ARRAY[
        (p_local - zone_offset(guess - around, p_time_zone)) AT TIME ZONE 'UTC',
        (p_local - zone_offset(guess + around, p_time_zone)) AT TIME ZONE 'UTC'] LOOP
        IF (candidate AT TIME ZONE p_time_zone) = p_local THEN
            first_at := least(first_at, candidate);
            last_at := greatest(last_at, candidate);
        END IF;
    END LOOP;
END
$$;

-- The rules for the days on which clocks are changed are those of Vixie's cron as Debian has it.
CREATE FUNCTION next_cron(p_expression text, p_time_zone text DEFAULT 'UTC',
                          p_after timestamptz DEFAULT clock_timestamp()) RETURNS timestamptz
LANGUAGE plpgsql STABLE PARALLEL SAFE
SET search_path = pg_catalog, public AS
$$
DECLARE
    a_minute CONSTANT interval := '1 minute';
    a_day CONSTANT interval := '1 day';
    spec cron_spec := parse_cron(p_expression);
    ahead interval := zone_offset(p_after, p_time_zone);
    earliest timestamptz := p_after + interval '1 microsecond';
    local_time timestamp := date_trunc('minute', p_after AT TIME ZONE p_time_zone) + a_minute;
    change timestamptz;
    at record;
BEGIN
    -- What follows the clock's hands goes on from where a change puts them, be it back.
    IF spec.is_interval AND zone_offset(p_after + a_day, p_time_zone) <> ahead THEN
        change := zone_change(p_after, p_after + a_day, p_time_zone);
        local_time := cron_next_local(spec, local_time);
        IF (local_time - ahead) AT TIME ZONE 'UTC' < change THEN
            RETURN (local_time - ahead) AT TIME ZONE 'UTC';
        END IF;
        earliest := change;
        local_time := date_trunc('minute', (change AT TIME ZONE p_time_zone) + interval '59.999999 seconds');
    END IF;
    LOOP
        local_time := cron_next_local(spec, local_time);
        IF local_time IS NULL THEN
            RETURN NULL;
        END IF;
        at := local_instants(local_time, p_time_zone);
        IF at.first_at >= earliest AND NOT (spec.is_interval AND at.is_skipped) THEN
            RETURN at.first_at;
        ELSIF spec.is_interval AND NOT at.is_skipped AND at.last_at >= earliest THEN
            RETURN at.last_at;
        END IF;
        local_time := local_time + a_minute;
    END LOOP;
END
$$;
COMMENT ON FUNCTION next_cron IS
    'The first instant of a cron expression after another. Fixed times that the clocks skip come at the change, those that they show twice come the first time; where minute or hour begins with *, each minute that the clocks show counts, and no other.';

CREATE FUNCTION next_crons(p_expression text, p_time_zone text DEFAULT 'UTC', p_count int DEFAULT 5,
                           p_after timestamptz DEFAULT clock_timestamp()) RETURNS SETOF timestamptz
LANGUAGE plpgsql STABLE
SET search_path = pg_catalog, public AS
$$
BEGIN
    FOR i IN 1 .. least(p_count, 1000) LOOP
        p_after := next_cron(p_expression, p_time_zone, p_after);
        EXIT WHEN p_after IS NULL;
        RETURN NEXT p_after;
    END LOOP;
END
$$;
COMMENT ON FUNCTION next_crons IS 'The next instants of a cron expression, to look at before it is used.';

-- The zone under its proper name, or what is wrong with it.
CREATE FUNCTION check_time_zone(p_time_zone text) RETURNS text
LANGUAGE plpgsql STABLE
SET search_path = pg_catalog, public AS
$$
DECLARE
    proper text;
BEGIN
    SELECT name INTO proper FROM pg_timezone_names
    WHERE lower(name) = lower(p_time_zone) AND name !~ '^(posix/|right/|posixrules|localtime|Factory)';
    IF NOT FOUND THEN
        RAISE EXCEPTION '"%" is no time zone of the IANA database', left(p_time_zone, 100)
            USING ERRCODE = 'invalid_parameter_value', HINT = 'Write Europe/Berlin, America/New_York, UTC, …';
    END IF;
    RETURN proper;
END
$$;

-- ---- triggers ------------------------------------------------------------------------------------

CREATE TABLE job_triggers (
    id uuid PRIMARY KEY DEFAULT gen_random_uuid(),
    name text NOT NULL UNIQUE CHECK (name ~ '^[a-z][a-z0-9_.:-]{0,99}$'),
    description text,
    tenant_id uuid,                        -- null: for the events of all tenants
    event text CHECK (event ~ '^[a-z][a-z0-9_]*([.][a-z0-9_]+)+$' AND length(event) <= 100),
    filter jsonb CHECK (jsonb_typeof(filter) = 'object'),
    cron text,
    time_zone text NOT NULL DEFAULT 'UTC',
    catch_up text NOT NULL DEFAULT 'last' CHECK (catch_up IN ('none', 'last', 'all')),
    catch_up_limit int NOT NULL DEFAULT 10 CHECK (catch_up_limit BETWEEN 1 AND 1000),
    action text NOT NULL CHECK (action IN ('job', 'run', 'command', 'webhook')),
    target text NOT NULL,                  -- a job type, a workflow, a command's key, a webhook
    payload jsonb NOT NULL DEFAULT '{}' CHECK (jsonb_typeof(payload) = 'object'),
    priority int CHECK (priority BETWEEN 0 AND 10),
    dedupe_key text,
    dedupe_window interval CHECK (dedupe_window > '0'),
    one_at_a_time boolean NOT NULL DEFAULT false,
    paused_at timestamptz,
    pause_reason text,
    next_at timestamptz,                   -- of a schedule that is not paused
    tried_at timestamptz,                  -- the last try failed in a way that passes: others first
    last_error text,
    last_error_at timestamptz,
    created_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    updated_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    CHECK ((event IS NULL) <> (cron IS NULL)),
    CHECK (dedupe_key IS NULL OR dedupe_window IS NOT NULL)
);
CREATE INDEX job_triggers_due ON job_triggers (next_at) WHERE next_at IS NOT NULL;
CREATE INDEX job_triggers_event ON job_triggers (event) WHERE event IS NOT NULL;
COMMENT ON TABLE job_triggers IS
    'What is to be done when an event happens (event) or when it is time (cron): a job is enqueued, a workflow started, a command run.';
COMMENT ON COLUMN job_triggers.filter IS 'Only events whose data contains this.';
COMMENT ON COLUMN job_triggers.catch_up IS
    'Of instants that were missed: none (those of the last minute still count), the last, or all up to catch_up_limit.';
COMMENT ON COLUMN job_triggers.payload IS
    'Of the job, the input of the run, the arguments of the command; {{event.video_id}}, {{event.data.x}}, {{schedule.instant}}, {{trigger.name}} become values.';
COMMENT ON COLUMN job_triggers.dedupe_key IS
    'A template; the same key does nothing again within dedupe_window. Null: the trigger itself.';
COMMENT ON COLUMN job_triggers.one_at_a_time IS 'Does nothing while the job of an earlier time waits or runs.';

-- What a trigger did, and for a schedule the proof that an instant is done with.
CREATE TABLE trigger_firings (
    id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    trigger_id uuid NOT NULL REFERENCES job_triggers ON DELETE CASCADE,
    instant timestamptz,                   -- of a schedule; null: by hand
    event_id uuid,
    correlation_id uuid NOT NULL,
    fired_at timestamptz NOT NULL,
    outcome text NOT NULL DEFAULT 'fired'
        CHECK (outcome IN ('fired', 'duplicate', 'in flight', 'skipped', 'failed')),
    job_id uuid,
    run_id uuid,
    error text
);
CREATE UNIQUE INDEX trigger_firings_instant ON trigger_firings (trigger_id, instant)
    WHERE instant IS NOT NULL;
CREATE UNIQUE INDEX trigger_firings_event ON trigger_firings (trigger_id, event_id)
    WHERE event_id IS NOT NULL;
CREATE INDEX trigger_firings_latest ON trigger_firings (trigger_id, id);
CREATE INDEX trigger_firings_correlation ON trigger_firings (correlation_id);
CREATE INDEX trigger_firings_age ON trigger_firings (fired_at);
COMMENT ON COLUMN trigger_firings.outcome IS
    'duplicate: the same key within the window; in flight: one at a time; skipped, failed: see error.';

-- Keys that are to do nothing for a while.
CREATE TABLE trigger_windows (
    trigger_id uuid NOT NULL REFERENCES job_triggers ON DELETE CASCADE,
    key text NOT NULL,
    until timestamptz NOT NULL,
    PRIMARY KEY (trigger_id, key)
);
CREATE INDEX trigger_windows_until ON trigger_windows (until);

-- Events that triggers wait for, written where they happen; a scheduler takes them away with what they
-- lead to, in one transaction.
CREATE TABLE event_outbox (
    id uuid PRIMARY KEY,
    seq bigint GENERATED ALWAYS AS IDENTITY,
    name text NOT NULL,
    tenant_id uuid,
    video_id uuid,
    job_id uuid,
    run_id uuid,
    correlation_id uuid NOT NULL,
    data jsonb NOT NULL,
    created_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    due_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    tries int NOT NULL DEFAULT 0,
    error text                             -- why the last try was put off
);
CREATE INDEX event_outbox_due ON event_outbox (due_at, seq);

-- ---- webhooks ------------------------------------------------------------------------------------

INSERT INTO job_types (name, description, base_priority, time_limit, retry_delays) VALUES
    ('webhook', 'an event, delivered to a URL', 5, '2 minutes',
     '{5 seconds,5 minutes,30 minutes,2 hours,5 hours,10 hours,14 hours,20 hours}');

CREATE TABLE webhooks (
    name text PRIMARY KEY CHECK (name ~ '^[a-z][a-z0-9_.:-]{0,99}$'),
    url text NOT NULL CHECK (length(url) <= 2000 AND url ~
        '^https?://([A-Za-z0-9._-]+|\[[0-9A-Fa-f:.]+\])(:[0-9]{1,5})?([/?][!-~]*)?$'),
    description text,
    tenant_id uuid,                        -- null: may be told of every tenant's events
    disabled_at timestamptz,
    disabled_reason text,
    created_at timestamptz NOT NULL DEFAULT clock_timestamp()
);
COMMENT ON COLUMN webhooks.url IS 'http or https, without a user; which addresses may be called says the worker''s environment.';

-- Nobody but the service reads these.
CREATE TABLE webhook_secrets (
    id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    webhook text NOT NULL REFERENCES webhooks ON UPDATE CASCADE ON DELETE CASCADE,
    secret text NOT NULL CHECK (secret ~ '^whsec_[A-Za-z0-9+/]{30,88}={0,2}$'),
    created_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    expires_at timestamptz
);
CREATE INDEX webhook_secrets_webhook ON webhook_secrets (webhook, id);

-- 32 random bytes in the form of Standard Webhooks.
CREATE FUNCTION new_webhook_secret() RETURNS text
LANGUAGE sql VOLATILE AS
$$
    SELECT 'whsec_' || encode(sha256(convert_to(
        concat(gen_random_uuid(), gen_random_uuid(), gen_random_uuid()), 'UTF8')), 'base64')
$$;

-- Returns the secret, which the receiver checks signatures with.
CREATE FUNCTION add_webhook(p_name text, p_url text, p_tenant_id uuid DEFAULT NULL,
                            p_description text DEFAULT NULL, p_secret text DEFAULT NULL) RETURNS text
LANGUAGE plpgsql AS
$$
DECLARE
    made text := coalesce(p_secret, new_webhook_secret());
BEGIN
    INSERT INTO webhooks (name, url, tenant_id, description)
    VALUES (p_name, p_url, p_tenant_id, p_description);
    INSERT INTO webhook_secrets (webhook, secret) VALUES (p_name, made);
    RETURN made;
END
$$;

-- A new secret; messages are signed with the old ones, too, until p_keep has passed.
CREATE FUNCTION rotate_webhook(p_name text, p_keep interval DEFAULT '24 hours',
                               p_secret text DEFAULT NULL) RETURNS text
LANGUAGE plpgsql AS
$$
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

-- False: there is no such webhook.
CREATE FUNCTION disable_webhook(p_name text, p_reason text DEFAULT NULL) RETURNS boolean
LANGUAGE sql AS
$$
    WITH changed AS (
        UPDATE webhooks SET disabled_at = coalesce(disabled_at, clock_timestamp()),
                            disabled_reason = p_reason
        WHERE name = p_name RETURNING 1)
    SELECT EXISTS (SELECT FROM changed)
$$;
CREATE FUNCTION enable_webhook(p_name text) RETURNS boolean
LANGUAGE sql AS
$$
    WITH changed AS (
        UPDATE webhooks SET disabled_at = NULL, disabled_reason = NULL WHERE name = p_name RETURNING 1)
    SELECT EXISTS (SELECT FROM changed)
$$;

-- For the worker: the URL and each secret that is valid, the newest first; nothing when it is off.
CREATE FUNCTION webhook_to_call(p_name text) RETURNS TABLE (url text, secret text, now_s bigint)
LANGUAGE sql STABLE AS
$$
    SELECT w.url, s.secret, extract(epoch FROM clock_timestamp())::bigint
    FROM webhooks w JOIN webhook_secrets s ON s.webhook = w.name
    WHERE w.name = p_name AND w.disabled_at IS NULL
      AND (s.expires_at IS NULL OR s.expires_at > clock_timestamp())
    ORDER BY s.id DESC
$$;

-- A message to a webhook, as a job; its id stays the same at every attempt.
CREATE FUNCTION send_webhook(p_name text, p_type text, p_data jsonb, p_id text DEFAULT NULL,
                             p_timestamp timestamptz DEFAULT clock_timestamp(),
                             p_tenant_id uuid DEFAULT NULL, p_priority int DEFAULT NULL,
                             p_correlation_id uuid DEFAULT NULL, p_dedupe_key text DEFAULT NULL,
                             OUT job_id uuid, OUT is_new boolean)
LANGUAGE plpgsql
SET search_path = pg_catalog, public AS
$$
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

-- ---- templates -----------------------------------------------------------------------------------

-- Raises what is wrong with a template before anything happens that it would be filled in for.
CREATE FUNCTION check_trigger_template(p_template jsonb, p_is_schedule boolean) RETURNS void
LANGUAGE plpgsql IMMUTABLE
SET search_path = pg_catalog, public AS
$$
DECLARE
    pattern CONSTANT text := '\{\{\s*([A-Za-z_][A-Za-z0-9_.]*)\s*\}\}';
    known CONSTANT text[] := CASE WHEN p_is_schedule
        THEN '{trigger.name,schedule.instant,schedule.local,schedule.date,schedule.time_zone}'::text[]
        ELSE '{trigger.name,event,event.id,event.name,event.tenant_id,event.video_id,event.job_id,event.run_id,event.correlation_id,event.created_at,event.data}'::text[] END;
    named text;
BEGIN
    IF octet_length(p_template::text) > 65536 OR jsonb_path_exists(p_template, '$.**{20}') THEN
        RAISE EXCEPTION 'the template is larger than 64 KiB or nested deeper than 20'
            USING ERRCODE = 'invalid_parameter_value';
    END IF;
    named := substring(regexp_replace(p_template::text, pattern, '', 'g') FROM '\{\{.{0,40}');
    IF named IS NOT NULL
       OR EXISTS (SELECT FROM jsonb_path_query(p_template, '$.** ? (@.type() == "object")') AS o,
                              jsonb_object_keys(o) AS k WHERE position('{{' IN k) > 0) THEN
        RAISE EXCEPTION 'the template has a {{ that begins no name: %', coalesce(named, 'in a member''s name')
            USING ERRCODE = 'invalid_parameter_value', HINT = 'A placeholder is {{event.video_id}}, in a value.';
    END IF;
    FOR named IN SELECT m[1] FROM regexp_matches(p_template::text, pattern, 'g') AS m LOOP
        CONTINUE WHEN named = ANY (known) OR named LIKE 'event.data.%' AND NOT p_is_schedule;
        RAISE EXCEPTION 'the template names {{%}}, which % does not have', left(named, 100),
            CASE WHEN p_is_schedule THEN 'a schedule' ELSE 'an event' END
            USING ERRCODE = 'invalid_parameter_value',
                  HINT = 'There are ' || array_to_string(known, ', ')
                         || CASE WHEN p_is_schedule THEN '.' ELSE ' and event.data.….' END;
    END LOOP;
END
$$;

-- resolve_template(), but a name that is not there is a failure. A null that is there is a value.
CREATE FUNCTION resolve_strictly(p_template jsonb, p_scope jsonb) RETURNS jsonb
LANGUAGE plpgsql IMMUTABLE
SET search_path = pg_catalog, public AS
$$
DECLARE
    named text;
BEGIN
    FOR named IN SELECT m[1] FROM regexp_matches(
        p_template::text, '\{\{\s*([A-Za-z_][A-Za-z0-9_.]*)\s*\}\}', 'g') AS m
    LOOP
        IF p_scope #> string_to_array(named, '.') IS NULL THEN
            RAISE EXCEPTION '{{%}} is not there', left(named, 200) USING ERRCODE = 'no_data_found';
        END IF;
    END LOOP;
    RETURN resolve_template(p_template, p_scope);
END
$$;

-- ---- definitions ---------------------------------------------------------------------------------

CREATE FUNCTION job_triggers_before_write() RETURNS trigger
LANGUAGE plpgsql
SECURITY DEFINER SET search_path = pg_catalog, public AS
$$
BEGIN
    PERFORM check_trigger_template(NEW.payload, NEW.cron IS NOT NULL);
    PERFORM check_trigger_template(to_jsonb(coalesce(NEW.dedupe_key, '')), NEW.cron IS NOT NULL);
    IF NEW.action = 'run' THEN
        IF NOT EXISTS (SELECT FROM workflows WHERE name = NEW.target AND is_active) THEN
            RAISE EXCEPTION 'there is no workflow %', left(NEW.target, 100)
                USING ERRCODE = 'foreign_key_violation';
        END IF;
    ELSIF NEW.action = 'webhook' THEN
        IF NOT EXISTS (SELECT FROM webhooks WHERE name = NEW.target) THEN
            RAISE EXCEPTION 'no webhook is called %', left(NEW.target, 100)
                USING ERRCODE = 'foreign_key_violation';
        END IF;
    ELSIF NOT EXISTS (SELECT FROM job_types
                      WHERE name = CASE NEW.action WHEN 'job' THEN NEW.target ELSE NEW.action END) THEN
        RAISE EXCEPTION 'job type % is not registered',
            CASE NEW.action WHEN 'job' THEN left(NEW.target, 100) ELSE NEW.action END
            USING ERRCODE = 'foreign_key_violation';
    END IF;
    IF NEW.event IS NULL AND NEW.filter IS NOT NULL THEN
        RAISE EXCEPTION 'a schedule has no events to filter' USING ERRCODE = 'invalid_parameter_value';
    END IF;
    NEW.updated_at := clock_timestamp();
    IF NEW.cron IS NULL THEN
        NEW.next_at := NULL;
        RETURN NEW;
    END IF;
    IF TG_OP = 'INSERT' OR NEW.time_zone <> OLD.time_zone THEN
        NEW.time_zone := check_time_zone(NEW.time_zone);
    END IF;
    PERFORM parse_cron(NEW.cron);
    IF NEW.paused_at IS NOT NULL THEN
        NEW.next_at := NULL; -- what goes by meanwhile is not caught up with
    ELSIF NEW.next_at IS NULL OR TG_OP = 'UPDATE'
          AND (NEW.cron, NEW.time_zone) IS DISTINCT FROM (OLD.cron, OLD.time_zone) THEN
        NEW.next_at := next_cron(NEW.cron, NEW.time_zone, clock_timestamp());
        IF NEW.next_at IS NULL THEN
            RAISE EXCEPTION 'cron: "%" does not come within 50 years', NEW.cron
                USING ERRCODE = 'invalid_parameter_value';
        END IF;
    END IF;
    PERFORM pg_notify('cv_events', '');
    RETURN NEW;
END
$$;
CREATE TRIGGER job_triggers_before_write
    BEFORE INSERT OR UPDATE OF name, event, filter, cron, time_zone, action, target, payload, dedupe_key,
                               paused_at, tenant_id
    ON job_triggers FOR EACH ROW EXECUTE FUNCTION job_triggers_before_write();

-- False: there is no such trigger.
CREATE FUNCTION pause_trigger(p_name text, p_reason text DEFAULT NULL) RETURNS boolean
LANGUAGE sql AS
$$
    WITH paused AS (
        UPDATE job_triggers SET paused_at = coalesce(paused_at, clock_timestamp()), pause_reason = p_reason
        WHERE name = p_name RETURNING 1)
    SELECT EXISTS (SELECT FROM paused)
$$;
CREATE FUNCTION resume_trigger(p_name text) RETURNS boolean
LANGUAGE sql AS
$$
    WITH resumed AS (
        UPDATE job_triggers SET paused_at = NULL, pause_reason = NULL WHERE name = p_name RETURNING 1)
    SELECT EXISTS (SELECT FROM resumed)
$$;
COMMENT ON FUNCTION pause_trigger IS
    'A schedule or trigger that does nothing until it is resumed; what goes by meanwhile is gone.';

-- ---- events --------------------------------------------------------------------------------------

-- An event as part of the caller's transaction: in the timeline, and for the triggers that wait for it.
-- Asks nobody for rights. Not for use outside.
CREATE FUNCTION note_event(p_name text, p_data jsonb, p_tenant_id uuid, p_video_id uuid, p_job_id uuid,
                           p_run_id uuid, p_correlation_id uuid) RETURNS uuid
LANGUAGE plpgsql
SECURITY DEFINER SET search_path = pg_catalog, public AS
$$
DECLARE
    event_id uuid := gen_random_uuid();
    correlation uuid := coalesce(p_correlation_id, gen_random_uuid());
BEGIN
    INSERT INTO task_events (job_id, video_id, correlation_id, run_id, source, type, message, data)
    VALUES (p_job_id, p_video_id, correlation, p_run_id, event_source(), 'event', p_name,
            jsonb_build_object('event_id', event_id, 'data', p_data));
    IF EXISTS (SELECT FROM job_triggers t
               WHERE t.event = p_name AND t.paused_at IS NULL
                 AND (t.tenant_id IS NULL OR t.tenant_id = p_tenant_id)
                 AND (t.filter IS NULL OR p_data @> t.filter)) THEN
        INSERT INTO event_outbox (id, name, tenant_id, video_id, job_id, run_id, correlation_id, data)
        VALUES (event_id, p_name, p_tenant_id, p_video_id, p_job_id, p_run_id, correlation, p_data);
        PERFORM pg_notify('cv_events', '');
    END IF;
    RETURN event_id;
END
$$;

CREATE FUNCTION emit_event(
    p_name text,
    p_data jsonb DEFAULT '{}',
    p_video_id uuid DEFAULT NULL,
    p_job_id uuid DEFAULT NULL,
    p_tenant_id uuid DEFAULT NULL,           -- NULL: the video's, else the job's
    p_correlation_id uuid DEFAULT NULL) RETURNS uuid
LANGUAGE plpgsql
SECURITY DEFINER SET search_path = pg_catalog, public AS
$$
DECLARE
    tenant uuid := p_tenant_id;
    job jobs;
    video videos;
BEGIN
    IF p_name IS NULL OR p_name !~ '^[a-z][a-z0-9_]*([.][a-z0-9_]+)+$' OR length(p_name) > 100 THEN
        RAISE EXCEPTION 'an event is called like "order.paid", not "%"', left(p_name, 100)
            USING ERRCODE = 'invalid_parameter_value';
    END IF;
    IF jsonb_typeof(p_data) IS DISTINCT FROM 'object' OR octet_length(p_data::text) > 65536
       OR jsonb_path_exists(p_data, '$.**{20}') THEN
        RAISE EXCEPTION 'the data of an event is a JSON object of at most 64 KiB and 20 levels'
            USING ERRCODE = 'invalid_parameter_value';
    END IF;
    SELECT * INTO video FROM videos WHERE id = p_video_id;
    SELECT * INTO job FROM jobs WHERE id = p_job_id;
    tenant := coalesce(tenant, video.team_id, video.owner_id, job.tenant_id);
    IF NOT acts_for_everyone() THEN
        IF p_name ~ '^(video|clip|job|run|webhook)[.]' THEN
            RAISE EXCEPTION 'events called %.… are the system''s own', split_part(p_name, '.', 1)
                USING ERRCODE = 'insufficient_privilege';
        END IF;
        tenant := coalesce(tenant, auth.uid());
        IF tenant IS NULL OR NOT may_touch(tenant)
           OR p_video_id IS NOT NULL AND NOT coalesce(
                  video.owner_id = auth.uid() OR video.team_id = ANY (current_team_ids()), false)
           OR p_job_id IS NOT NULL AND NOT coalesce(may_touch(job.tenant_id), false) THEN
            RAISE EXCEPTION 'not yours to tell of' USING ERRCODE = 'insufficient_privilege';
        END IF;
    END IF;
    RETURN note_event(p_name, p_data, tenant, p_video_id, p_job_id, job.run_id,
                      coalesce(p_correlation_id, job.correlation_id));
END
$$;
COMMENT ON FUNCTION emit_event IS
    'Says that something happened, in the caller''s transaction; returns the event''s id. Triggers see it once that is committed.';

-- video.uploaded: an original is there and its first run begins. What the scanner knows for a duplicate
-- is not worked on, and is none.
CREATE FUNCTION runs_inserted() RETURNS trigger
LANGUAGE plpgsql
SECURITY DEFINER SET search_path = pg_catalog, public AS
$$
BEGIN
    IF NOT EXISTS (SELECT FROM runs WHERE video_id = NEW.video_id AND id <> NEW.id) THEN
        PERFORM note_event('video.uploaded', jsonb_strip_nulls(jsonb_build_object(
                               'title', v.title, 'original_name', v.original_name,
                               'size', v.original_size, 'path', v.s3_original_path)),
                           NEW.tenant_id, NEW.video_id, NULL, NEW.id, NEW.correlation_id)
        FROM videos v WHERE v.id = NEW.video_id;
    END IF;
    RETURN NULL;
END
$$;
CREATE TRIGGER runs_inserted AFTER INSERT ON runs
    FOR EACH ROW WHEN (NEW.video_id IS NOT NULL) EXECUTE FUNCTION runs_inserted();

CREATE FUNCTION videos_ready() RETURNS trigger
LANGUAGE plpgsql
SECURITY DEFINER SET search_path = pg_catalog, public AS
$$
DECLARE
    run runs;
BEGIN
    SELECT * INTO run FROM runs WHERE video_id = NEW.id ORDER BY created_at DESC LIMIT 1;
    PERFORM note_event('video.ready', jsonb_strip_nulls(jsonb_build_object(
                           'title', NEW.title, 'original_name', NEW.original_name,
                           'duration', NEW.duration, 'resolution', NEW.resolution)),
                       coalesce(NEW.team_id, NEW.owner_id), NEW.id, NULL, run.id, run.correlation_id);
    RETURN NULL;
END
$$;
CREATE TRIGGER videos_ready AFTER UPDATE ON videos
    FOR EACH ROW WHEN (NEW.status = 'ready' AND OLD.status <> 'ready') EXECUTE FUNCTION videos_ready();

-- clip.created, and job.failed of what will not be tried again. Called by jobs_updated() with those that
-- have just come to either end: a trigger of its own would be asked about every change of every job.
CREATE FUNCTION note_ended_jobs(p_job_ids uuid[]) RETURNS void
LANGUAGE plpgsql AS
$$
DECLARE
    job jobs;
BEGIN
    FOR job IN SELECT * FROM jobs WHERE id = ANY (p_job_ids) ORDER BY id LOOP
        IF job.status = 'done' THEN
            PERFORM note_event('clip.created', jsonb_strip_nulls(jsonb_build_object(
                                   'clip_id', job.payload -> 'clip_id',
                                   'clip_path', job.result -> 'clip_path',
                                   't_start', job.payload -> 't_start', 't_end', job.payload -> 't_end')),
                               job.tenant_id, job.video_id, job.id, job.run_id, job.correlation_id);
        ELSE
            PERFORM note_event('job.failed', jsonb_build_object(
                                   'job_type', job.job_type, 'step', job.step, 'attempt', job.attempt,
                                   'error', jsonb_build_object('type', job.payload #> '{error,type}',
                                                               'message', job.payload #> '{error,message}')),
                               job.tenant_id, job.video_id, job.id, job.run_id, job.correlation_id);
        END IF;
    END LOOP;
END
$$;

-- ---- firing --------------------------------------------------------------------------------------

-- Whether a failure may pass by itself: then what led to it is tried again, else it is noted.
CREATE FUNCTION is_passing(p_sqlstate text) RETURNS boolean
LANGUAGE sql IMMUTABLE PARALLEL SAFE AS
$$ SELECT left(p_sqlstate, 2) IN ('08', '40', '53', '57', '58', 'XX') OR p_sqlstate = '55P03' $$;

-- What a trigger is for, without a net. Not for use outside.
CREATE FUNCTION act_for_trigger(
    p_trigger job_triggers, p_scope jsonb, p_tenant_id uuid, p_correlation_id uuid, p_now timestamptz,
    OUT outcome text, OUT job_id uuid, OUT run_id uuid, OUT error text)
LANGUAGE plpgsql
SET search_path = pg_catalog, public AS
$$
DECLARE
    tenant uuid := coalesce(p_trigger.tenant_id, p_tenant_id);
    dedupe text := left(resolve_strictly(to_jsonb(coalesce(p_trigger.dedupe_key, '')), p_scope) #>> '{}', 500);
    payload jsonb := resolve_strictly(p_trigger.payload, p_scope);
    video uuid;
    hook webhooks;
    is_new boolean;
BEGIN
    IF p_trigger.action = 'webhook' THEN
        SELECT * INTO hook FROM webhooks WHERE name = p_trigger.target;
        IF hook.name IS NULL THEN
            RAISE EXCEPTION 'no webhook is called %', p_trigger.target USING ERRCODE = 'no_data_found';
        END IF;
        error := CASE
            WHEN hook.disabled_at IS NOT NULL THEN concat_ws(': ', 'the webhook is off', hook.disabled_reason)
            WHEN hook.tenant_id IS NOT NULL AND tenant IS DISTINCT FROM hook.tenant_id
                THEN 'the webhook is another tenant''s'
            WHEN p_scope #>> '{event,name}' = 'job.failed' AND p_scope #>> '{event,data,job_type}' = 'webhook'
                THEN 'a message that cannot be delivered is not delivered' END;
        IF error IS NOT NULL THEN
            outcome := 'skipped';
            RETURN;
        END IF;
    END IF;
    IF p_trigger.dedupe_window IS NOT NULL THEN
        INSERT INTO trigger_windows AS w (trigger_id, key, until)
        VALUES (p_trigger.id, dedupe, p_now + p_trigger.dedupe_window)
        ON CONFLICT (trigger_id, key) DO UPDATE SET until = excluded.until WHERE w.until <= p_now;
        IF NOT FOUND THEN
            outcome := 'duplicate';
            RETURN;
        END IF;
    END IF;
    IF p_trigger.action IN ('job', 'run')
       AND payload ->> 'video_id' ~* '^[0-9a-f]{8}-([0-9a-f]{4}-){3}[0-9a-f]{12}$' THEN
        SELECT id INTO video FROM videos WHERE id = (payload ->> 'video_id')::uuid;
        IF NOT FOUND AND (p_trigger.action = 'run'
                          OR (SELECT one_per_video FROM job_types WHERE name = p_trigger.target)) THEN
            RAISE EXCEPTION 'there is no video %', payload ->> 'video_id' USING ERRCODE = 'no_data_found';
        END IF;
    END IF;
    IF p_trigger.action = 'run' THEN
        SELECT r.run_id, r.is_new INTO run_id, is_new
        FROM start_run(p_trigger.target, payload, video, p_trigger.priority, tenant,
                       p_correlation_id => p_correlation_id) AS r;
    ELSIF p_trigger.action = 'webhook' THEN
        SELECT s.job_id, s.is_new INTO job_id, is_new
        FROM send_webhook(
            p_trigger.target, coalesce(p_scope #>> '{event,name}', 'schedule.fired'),
            CASE WHEN p_trigger.payload <> '{}' THEN payload
                 WHEN p_scope ? 'event' THEN jsonb_strip_nulls(jsonb_build_object(
                     'video_id', p_scope #> '{event,video_id}', 'job_id', p_scope #> '{event,job_id}',
                     'run_id', p_scope #> '{event,run_id}')) || (p_scope #> '{event,data}')
                 ELSE (p_scope -> 'schedule') || (p_scope -> 'trigger') END,
            -- one event is one message to a receiver, however many triggers say so
            'msg_' || md5(concat_ws('|', p_trigger.target, coalesce(p_scope #>> '{event,id}',
                                        p_trigger.name || (p_scope #>> '{schedule,instant}')))),
            coalesce((p_scope #>> '{event,created_at}')::timestamptz,
                     (p_scope #>> '{schedule,instant}')::timestamptz),
            tenant, p_trigger.priority, p_correlation_id,
            CASE WHEN p_trigger.one_at_a_time THEN format('trigger:%s:%s', p_trigger.id, dedupe) END) AS s;
    ELSE
        SELECT e.job_id, e.is_new INTO job_id, is_new
        FROM enqueue_job(
            CASE p_trigger.action WHEN 'job' THEN p_trigger.target ELSE p_trigger.action END,
            CASE p_trigger.action WHEN 'job' THEN payload
                 ELSE jsonb_build_object('command', p_trigger.target, 'args', payload) END,
            video, p_trigger.priority, p_tenant_id => tenant, p_correlation_id => p_correlation_id,
            p_dedupe_key => CASE WHEN p_trigger.one_at_a_time
                                 THEN format('trigger:%s:%s', p_trigger.id, dedupe) END) AS e;
    END IF;
    outcome := CASE WHEN is_new THEN 'fired' ELSE 'in flight' END;
END
$$;

-- Fires a trigger once for an instant or an event (both null: by hand). What is wrong with it is noted;
-- what may pass by itself is raised. Null: that was done before. Not for use outside.
CREATE FUNCTION run_trigger(
    p_trigger job_triggers, p_scope jsonb, p_tenant_id uuid, p_event_id uuid, p_instant timestamptz,
    p_correlation_id uuid, p_now timestamptz) RETURNS trigger_firings
LANGUAGE plpgsql
SET search_path = pg_catalog, public AS
$$
DECLARE
    most CONSTANT int := 20;               -- times that one cause may come round to a trigger in an hour
    firing trigger_firings;
    problem text;
BEGIN
    INSERT INTO trigger_firings (trigger_id, instant, event_id, correlation_id, fired_at)
    VALUES (p_trigger.id, p_instant, p_event_id, p_correlation_id, p_now)
    ON CONFLICT DO NOTHING RETURNING * INTO firing;
    IF NOT FOUND THEN
        RETURN NULL;
    END IF;
    BEGIN
        IF (SELECT count(*) FROM trigger_firings f
            WHERE f.correlation_id = p_correlation_id AND f.trigger_id = p_trigger.id
              AND f.fired_at > p_now - interval '1 hour') > most THEN
            RAISE EXCEPTION 'it leads to itself: % times in an hour for one cause', most
                USING ERRCODE = 'program_limit_exceeded';
        END IF;
        SELECT a.outcome, a.job_id, a.run_id, a.error
        INTO firing.outcome, firing.job_id, firing.run_id, firing.error
        FROM act_for_trigger(p_trigger, p_scope, p_tenant_id, p_correlation_id, p_now) AS a;
    EXCEPTION WHEN OTHERS THEN
        IF is_passing(SQLSTATE) THEN
            RAISE;
        END IF;
        problem := left(SQLERRM, 1000);
        firing.outcome := 'failed';
        firing.error := problem;
    END;
    UPDATE trigger_firings SET outcome = firing.outcome, job_id = firing.job_id, run_id = firing.run_id,
                               error = firing.error
    WHERE id = firing.id;
    IF problem IS NOT NULL THEN
        UPDATE job_triggers SET last_error = problem, last_error_at = p_now WHERE id = p_trigger.id;
        INSERT INTO task_events (correlation_id, source, level, type, message, data)
        VALUES (p_correlation_id, 'scheduler', 'error', 'trigger',
                format('trigger %s: %s', p_trigger.name, problem),
                jsonb_strip_nulls(jsonb_build_object('trigger', p_trigger.name, 'event_id', p_event_id,
                                                     'instant', p_instant)));
    ELSIF p_trigger.last_error IS NOT NULL THEN
        UPDATE job_triggers SET last_error = NULL, last_error_at = NULL WHERE id = p_trigger.id;
    END IF;
    RETURN firing;
END
$$;

-- What the templates of a schedule can name.
CREATE FUNCTION schedule_scope(p_trigger job_triggers, p_instant timestamptz) RETURNS jsonb
LANGUAGE sql STABLE AS
$$
    SELECT jsonb_build_object(
        'trigger', jsonb_build_object('name', p_trigger.name),
        'schedule', jsonb_build_object(
            'instant', to_char(p_instant AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS"Z"'),
            'local', to_char(p_instant AT TIME ZONE p_trigger.time_zone, 'YYYY-MM-DD"T"HH24:MI:SS'),
            'date', to_char(p_instant AT TIME ZONE p_trigger.time_zone, 'YYYY-MM-DD'),
            'time_zone', p_trigger.time_zone))
$$;

-- The instants of a schedule that are to be fired now, by its policy for those that were missed.
CREATE FUNCTION due_instants(p_trigger job_triggers, p_now timestamptz) RETURNS timestamptz[]
LANGUAGE plpgsql STABLE
SET search_path = pg_catalog, public AS
$$
DECLARE
    late CONSTANT interval := '1 minute';
    wanted int := CASE p_trigger.catch_up WHEN 'all' THEN p_trigger.catch_up_limit ELSE 1 END;
    width interval := '1 hour';
    start timestamptz;
    at timestamptz;
    found timestamptz[];
BEGIN
    LOOP -- back from now as far as it takes, so that a long outage costs no more than a short one
        start := greatest(p_trigger.next_at - interval '1 microsecond', p_now - width);
        found := '{}';
        at := next_cron(p_trigger.cron, p_trigger.time_zone, start);
        WHILE at <= p_now LOOP
            found := found || at;
            at := next_cron(p_trigger.cron, p_trigger.time_zone, at);
        END LOOP;
        EXIT WHEN cardinality(found) >= wanted OR start < p_trigger.next_at;
        width := width * 8;
    END LOOP;
    found := found[greatest(cardinality(found) - wanted + 1, 1):];
    IF p_trigger.catch_up = 'none' AND found[1] < p_now - late THEN
        found := '{}';
    END IF;
    RETURN found;
END
$$;

-- Fires the schedules that are due; each instant once, whoever calls this and however many at once.
-- Returns how often something was done, and how often that failed.
CREATE FUNCTION fire_schedules(p_now timestamptz DEFAULT clock_timestamp(), p_limit int DEFAULT 100,
                               OUT fired int, OUT failed int)
LANGUAGE plpgsql
SET search_path = pg_catalog, public AS
$$
DECLARE
    began CONSTANT timestamptz := clock_timestamp();
    longest CONSTANT interval := '5 seconds'; -- then somebody else's turn; what is left is due at once
    schedule job_triggers;
    instant timestamptz;
    firing trigger_firings;
BEGIN
    fired := 0;
    failed := 0;
    FOR schedule IN
        SELECT * FROM job_triggers WHERE next_at <= p_now ORDER BY tried_at NULLS FIRST, next_at
        LIMIT p_limit
        FOR NO KEY UPDATE SKIP LOCKED
    LOOP
        EXIT WHEN clock_timestamp() > began + longest;
        BEGIN
            FOREACH instant IN ARRAY due_instants(schedule, p_now) LOOP
                firing := run_trigger(schedule, schedule_scope(schedule, instant), NULL, NULL, instant,
                                      gen_random_uuid(), p_now);
                fired := fired + (firing.id IS NOT NULL)::int;
                failed := failed + coalesce((firing.outcome = 'failed')::int, 0);
            END LOOP;
            UPDATE job_triggers SET next_at = next_cron(cron, time_zone, p_now), tried_at = NULL
            WHERE id = schedule.id;
        EXCEPTION WHEN OTHERS THEN -- it is tried again, behind the others
            failed := failed + 1;
            UPDATE job_triggers SET tried_at = clock_timestamp(), last_error = left(SQLERRM, 1000),
                                    last_error_at = p_now
            WHERE id = schedule.id;
        END;
    END LOOP;
END
$$;

-- Does what triggers want of events, oldest first, each event in one go with its removal.
CREATE FUNCTION dispatch_events(p_now timestamptz DEFAULT clock_timestamp(), p_limit int DEFAULT 100,
                                OUT dispatched int, OUT failed int)
LANGUAGE plpgsql
SET search_path = pg_catalog, public AS
$$
DECLARE
    began CONSTANT timestamptz := clock_timestamp();
    longest CONSTANT interval := '5 seconds';
    happening event_outbox;
    waiting job_triggers;
    firing trigger_firings;
BEGIN
    dispatched := 0;
    failed := 0;
    FOR happening IN
        SELECT * FROM event_outbox WHERE due_at <= p_now ORDER BY due_at, seq LIMIT p_limit
        FOR UPDATE SKIP LOCKED
    LOOP
        EXIT WHEN clock_timestamp() > began + longest;
        BEGIN
            FOR waiting IN
                SELECT * FROM job_triggers t
                WHERE t.event = happening.name AND t.paused_at IS NULL
                  AND (t.tenant_id IS NULL OR t.tenant_id = happening.tenant_id)
                  AND (t.filter IS NULL OR happening.data @> t.filter)
                ORDER BY t.name
            LOOP
                firing := run_trigger(waiting, jsonb_build_object(
                        'trigger', jsonb_build_object('name', waiting.name),
                        'event', to_jsonb(happening) - '{seq,due_at,tries,error}'::text[]),
                    happening.tenant_id, happening.id, NULL, happening.correlation_id, p_now);
                failed := failed + coalesce((firing.outcome = 'failed')::int, 0);
            END LOOP;
            DELETE FROM event_outbox WHERE id = happening.id;
            dispatched := dispatched + 1;
        EXCEPTION WHEN OTHERS THEN
            failed := failed + 1;
            UPDATE event_outbox SET tries = tries + 1, error = left(SQLERRM, 1000),
                due_at = p_now + least(interval '1 second' * 2 ^ least(tries, 10), interval '5 minutes')
            WHERE id = happening.id;
        END;
    END LOOP;
END
$$;

-- One round of a scheduler: what is due now, and in how many milliseconds something is again (null: not
-- foreseen). One statement, so that no transaction waits for a client that is gone; a lock that does not
-- come is not waited for long, either.
CREATE FUNCTION scheduler_tick(p_now timestamptz DEFAULT clock_timestamp(),
                               OUT fired int, OUT dispatched int, OUT failed int, OUT wait_ms bigint)
LANGUAGE plpgsql
SET search_path = pg_catalog, public
SET lock_timeout = '3s' AS
$$
DECLARE
    events record;
BEGIN
    PERFORM set_config('cortana.source', 'scheduler', true);
    SELECT s.fired, s.failed INTO fired, failed FROM fire_schedules(p_now) AS s;
    SELECT * INTO events FROM dispatch_events(p_now);
    dispatched := events.dispatched;
    failed := failed + events.failed;
    wait_ms := ceil(extract(epoch FROM least(
                   (SELECT min(next_at) FROM job_triggers WHERE next_at IS NOT NULL),
                   (SELECT min(due_at) FROM event_outbox)) - p_now) * 1000);
    wait_ms := CASE WHEN wait_ms < 0 THEN 0 ELSE wait_ms END;
END
$$;
COMMENT ON FUNCTION scheduler_tick IS
    'Fires what is due; for the program scheduler, or for anything else that calls it every second.';

-- A schedule out of its turn. Raises when there is none of that name.
CREATE FUNCTION fire_now(p_name text, p_now timestamptz DEFAULT clock_timestamp())
RETURNS trigger_firings
LANGUAGE plpgsql
SET search_path = pg_catalog, public AS
$$
DECLARE
    schedule job_triggers;
BEGIN
    SELECT * INTO schedule FROM job_triggers WHERE name = p_name AND cron IS NOT NULL FOR NO KEY UPDATE;
    IF NOT FOUND THEN
        RAISE EXCEPTION 'no schedule is called %', left(p_name, 100) USING ERRCODE = 'no_data_found',
            HINT = 'A trigger is fired by its event: emit_event().';
    END IF;
    RETURN run_trigger(schedule, schedule_scope(schedule, p_now), NULL, NULL, NULL, gen_random_uuid(), p_now);
END
$$;

-- ---- upkeep --------------------------------------------------------------------------------------

-- What has to be done from time to time, by whichever scheduler comes first.
CREATE TABLE upkeep_tasks (
    name text PRIMARY KEY,
    description text NOT NULL,
    every interval NOT NULL CHECK (every > '0'),
    due_at timestamptz NOT NULL DEFAULT '-infinity',
    last_at timestamptz,
    took_ms bigint,
    last_error text
);
INSERT INTO upkeep_tasks (name, description, every) VALUES
    ('expired_leases', 'jobs of workers that are gone, and retries that are due', '5 seconds'),
    ('sessions', 'interactive sessions that have ended', '1 minute'),
    ('event_partitions', 'the months to come of task_events', '1 hour'),
    ('trigger_notes', 'what triggers did more than 30 days ago', '1 hour'),
    ('search_words', 'words that no line holds any more', '1 day');

-- Does one task that is due and says which; null: none is, or somebody else is at it. Who holds the lock
-- is the leader for as long as the statement takes; the next one needs no permission of a dead one.
CREATE FUNCTION run_upkeep(p_now timestamptz DEFAULT clock_timestamp()) RETURNS text
LANGUAGE plpgsql
SET search_path = pg_catalog, public
SET lock_timeout = '3s' AS
$$
DECLARE
    task upkeep_tasks;
    began timestamptz := clock_timestamp();
    problem text;
BEGIN
    IF NOT pg_try_advisory_xact_lock(hashtext('run_upkeep')) THEN
        RETURN NULL;
    END IF;
    SELECT * INTO task FROM upkeep_tasks WHERE due_at <= p_now ORDER BY due_at, name LIMIT 1;
    IF NOT FOUND THEN
        RETURN NULL;
    END IF;
    BEGIN
        CASE task.name
        WHEN 'expired_leases' THEN
            PERFORM rescue_expired_jobs(name), promote_due_jobs(name) FROM job_types
            WHERE (SELECT is_turn FROM take_upkeep(name));
        WHEN 'sessions' THEN
            DELETE FROM interactive_sessions WHERE expires_at < p_now - interval '1 minute';
        WHEN 'event_partitions' THEN
            PERFORM create_event_partitions();
        WHEN 'trigger_notes' THEN
            DELETE FROM trigger_firings WHERE fired_at < p_now - interval '30 days';
            DELETE FROM trigger_windows WHERE until < p_now;
        WHEN 'search_words' THEN
            PERFORM search_words_prune();
        ELSE
            RAISE EXCEPTION 'nobody knows how to do this';
        END CASE;
    EXCEPTION WHEN OTHERS THEN
        problem := left(SQLERRM, 1000);
    END;
    UPDATE upkeep_tasks SET
        due_at = p_now + every, last_at = p_now, last_error = problem,
        took_ms = round(extract(epoch FROM clock_timestamp() - began) * 1000)
    WHERE name = task.name;
    RETURN task.name;
END
$$;

-- ---- the schedules that come with the system -----------------------------------------------------

-- Brings back those that are missing; what an operator has changed or paused stays so.
CREATE FUNCTION restore_default_schedules() RETURNS bigint
LANGUAGE plpgsql
SET search_path = pg_catalog, public AS
$$
DECLARE
    made bigint;
BEGIN
    INSERT INTO job_triggers (name, description, cron, action, target, payload, one_at_a_time)
    SELECT d.name, d.description, d.cron, 'command', d.name, d.payload::jsonb, true
    FROM (VALUES
        ('archive-events', 'the timeline of months that are over goes to the store', '30 3 2 * *', '{}'),
        ('archive-jobs', 'jobs that have ended long ago go to the store', '0 3 * * *', '{}'),
        ('gc', 'objects that no row knows are removed', '0 4 * * sun', '{"remove": true}'),
        ('purge-clips', 'clips that have had their time are removed', '15 3 * * *', '{}'),
        ('prune-embeddings', 'vectors of texts that are gone are forgotten', '45 4 * * sun', '{}')
    ) AS d (name, description, cron, payload)
    WHERE EXISTS (SELECT FROM job_types WHERE name = 'command')
    ON CONFLICT (name) DO NOTHING;
    GET DIAGNOSTICS made = ROW_COUNT;
    RETURN made;
END
$$;
SELECT restore_default_schedules();

-- ---- views ---------------------------------------------------------------------------------------

CREATE INDEX jobs_webhook ON jobs ((coalesce(payload ->> 'webhook', payload #>> '{original_payload,webhook}')),
                                   created_at)
    WHERE job_type = 'webhook';
CREATE VIEW webhook_overview WITH (security_invoker = true) AS
SELECT w.name, w.url, w.description, w.tenant_id, w.created_at, w.disabled_at, w.disabled_reason,
       (SELECT count(*) FROM webhook_secrets s
        WHERE s.webhook = w.name AND (s.expires_at IS NULL OR s.expires_at > clock_timestamp()))
           AS valid_secrets,
       (SELECT string_agg(coalesce(t.event, t.cron), ', ' ORDER BY t.name) FROM job_triggers t
        WHERE t.action = 'webhook' AND t.target = w.name) AS events,
       last.id AS last_job_id, last.status AS last_status, last.finished_at AS last_at,
       last.payload #>> '{error,message}' AS last_error
FROM webhooks w
LEFT JOIN LATERAL (
    SELECT j.id, j.status, j.finished_at, j.payload FROM jobs j
    WHERE j.job_type = 'webhook'
      AND coalesce(j.payload ->> 'webhook', j.payload #>> '{original_payload,webhook}') = w.name
    ORDER BY j.created_at DESC LIMIT 1) AS last ON true;
COMMENT ON VIEW webhook_overview IS 'One row a webhook, with its last message; no secrets.';

CREATE VIEW trigger_overview WITH (security_invoker = true) AS
SELECT t.id, t.name, t.description, t.tenant_id, t.event, t.filter, t.cron, t.time_zone, t.catch_up,
       t.action, t.target, t.next_at, t.paused_at, t.pause_reason, f.fired_at AS last_at,
       f.instant AS last_instant, f.outcome AS last_outcome, f.job_id AS last_job_id,
       f.run_id AS last_run_id, t.last_error, t.last_error_at
FROM job_triggers t
LEFT JOIN LATERAL (SELECT * FROM trigger_firings f WHERE f.trigger_id = t.id
                   ORDER BY f.id DESC LIMIT 1) AS f ON true;
COMMENT ON VIEW trigger_overview IS 'One row a trigger or schedule, with what it did last.';

-- ---- who may do what -----------------------------------------------------------------------------

DO $$
DECLARE
    name text;
BEGIN
    FOREACH name IN ARRAY ARRAY['job_triggers', 'trigger_firings', 'trigger_windows', 'event_outbox',
                                'upkeep_tasks', 'webhooks', 'webhook_secrets'] LOOP
        EXECUTE format('ALTER TABLE %I ENABLE ROW LEVEL SECURITY', name);
        EXECUTE format('CREATE POLICY %I ON %I TO service_role USING (true) WITH CHECK (true)',
                       name || '_service', name);
        EXECUTE format('REVOKE ALL ON %I FROM PUBLIC, anon, authenticated', name);
        EXECUTE format('GRANT ALL ON %I TO service_role', name);
    END LOOP;
    FOREACH name IN ARRAY ARRAY['check_trigger_template', 'resolve_strictly', 'pause_trigger',
                                'resume_trigger', 'note_event', 'note_ended_jobs', 'emit_event',
                                'is_passing',
                                'act_for_trigger', 'run_trigger', 'schedule_scope', 'due_instants',
                                'fire_schedules', 'dispatch_events', 'scheduler_tick', 'fire_now',
                                'run_upkeep', 'restore_default_schedules', 'new_webhook_secret',
                                'add_webhook', 'rotate_webhook', 'disable_webhook', 'enable_webhook',
                                'webhook_to_call', 'send_webhook'] LOOP
        EXECUTE format('REVOKE ALL ON FUNCTION %I FROM PUBLIC, anon, authenticated', name);
        EXECUTE format('GRANT EXECUTE ON FUNCTION %I TO service_role', name);
    END LOOP;
    FOREACH name IN ARRAY ARRAY['cron_field', 'parse_cron', 'cron_next_local', 'zone_offset', 'zone_change',
                                'local_instants', 'next_cron', 'next_crons', 'check_time_zone'] LOOP
        EXECUTE format('REVOKE ALL ON FUNCTION %I FROM PUBLIC, anon, authenticated', name);
        EXECUTE format('GRANT EXECUTE ON FUNCTION %I TO service_role, cortana_app', name);
    END LOOP;
END
$$;
GRANT EXECUTE ON FUNCTION emit_event TO cortana_app;
REVOKE ALL ON trigger_overview, webhook_overview FROM PUBLIC, anon, authenticated;
GRANT SELECT ON trigger_overview, webhook_overview TO service_role;
-- Who may execute a trigger's function may put it on a table of their own, and act as its owner.
REVOKE ALL ON FUNCTION job_triggers_before_write(), runs_inserted(), videos_ready()
    FROM PUBLIC, anon, authenticated;
