-- Events, triggers and schedules. A trigger acts when an event happens; a schedule acts at the times of a cron
-- expression.

-- ---- cron expressions ---------------------------------------------------------------------------

CREATE TYPE cortana.cron_spec AS (
    minutes int[],
    hours int[],
    days int[],
    months int[],
    weekdays int[],
    is_either_day boolean,
    is_interval boolean
);
COMMENT ON TYPE cortana.cron_spec IS
    'A parsed cron expression. parse_cron() is the only function that reads cron expressions.';
COMMENT ON COLUMN cortana.cron_spec.weekdays IS '0 is Sunday.';
COMMENT ON COLUMN cortana.cron_spec.is_either_day IS
    'True: a day matches if the day of the month or the day of the week matches. False: both must match.';
COMMENT ON COLUMN cortana.cron_spec.is_interval IS
    'True: the minute or the hour begins with *, so that every minute that the clocks show counts.';

CREATE FUNCTION cortana.cron_field(p_field text, p_what text, p_low int, p_high int, p_names text[] DEFAULT '{}')
RETURNS int[]
LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE AS $$
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
            RAISE EXCEPTION 'cron: the % "%" is not valid', p_what, left(part, 50)
                USING ERRCODE = 'invalid_parameter_value',
                      HINT = 'A field is *, a number, a name, a range a-b, or a list of these. * and ranges may have a step /n.';
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
                RAISE EXCEPTION 'cron: the % "%" is not between % and %', p_what, left(part, 50), p_low, p_high
                    USING ERRCODE = 'invalid_parameter_value';
            END IF;
            IF found[3] IS NULL AND found[4] IS NOT NULL THEN
                RAISE EXCEPTION 'cron: a step needs a range: write "%-%/%" instead of "%"',
                    found[2], p_high, found[4], left(part, 50) USING ERRCODE = 'invalid_parameter_value';
            END IF;
            IF p_what = 'day of the week' AND bounds[2] = 0 AND bounds[1] > 0 THEN
                bounds[2] := 7; -- fri-sun
            END IF;
        END IF;
        IF bounds[1] > bounds[2] THEN
            RAISE EXCEPTION 'cron: the range "%" ends before it begins', left(part, 50)
                USING ERRCODE = 'invalid_parameter_value',
                      HINT = format('Write two ranges: %s-%s,%s-%s.', bounds[1], p_high, p_low, bounds[2]);
        END IF;
        step := coalesce(found[4]::int, 1);
        IF step < 1 OR step > p_high - p_low THEN
            RAISE EXCEPTION 'cron: the step of "%" must be between 1 and %', left(part, 50), p_high - p_low
                USING ERRCODE = 'invalid_parameter_value',
                      HINT = 'Steps are counted anew in every hour, day, month or week.';
        END IF;
        numbers := numbers || ARRAY(SELECT generate_series(bounds[1], bounds[2], step));
    END LOOP;
    RETURN ARRAY(SELECT DISTINCT CASE WHEN p_what = 'day of the week' THEN n % 7 ELSE n END AS number
                 FROM unnest(numbers) AS n ORDER BY number);
END
$$;
COMMENT ON FUNCTION cortana.cron_field IS 'Parses one of the five fields of a cron expression into a sorted list of numbers.';

CREATE FUNCTION cortana.parse_cron(p_expression text) RETURNS cron_spec
LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE AS $$
DECLARE
    expression text := lower(btrim(p_expression, E' \t'));
    fields text[];
    spec cron_spec;
BEGIN
    IF expression IS NULL OR length(expression) NOT BETWEEN 1 AND 300 THEN
        RAISE EXCEPTION 'cron: an expression must have 1 to 300 characters' USING ERRCODE = 'invalid_parameter_value';
    END IF;
    expression := CASE expression
        WHEN '@yearly' THEN '0 0 1 1 *'   WHEN '@annually' THEN '0 0 1 1 *'
        WHEN '@monthly' THEN '0 0 1 * *'  WHEN '@weekly' THEN '0 0 * * 0'
        WHEN '@daily' THEN '0 0 * * *'    WHEN '@midnight' THEN '0 0 * * *'
        WHEN '@hourly' THEN '0 * * * *'   ELSE expression END;
    fields := regexp_split_to_array(expression, '\s+');
    IF cardinality(fields) <> 5 THEN
        RAISE EXCEPTION 'cron: "%" has % fields instead of five: minute, hour, day of the month, month, day of the week',
            left(p_expression, 100), cardinality(fields)
            USING ERRCODE = 'invalid_parameter_value',
                  HINT = 'Seconds and years are not supported. Instead of the fields you can write @hourly, @daily, @weekly, @monthly or @yearly.';
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
        RAISE EXCEPTION 'cron: no month of "%" has the day that it names', left(p_expression, 100)
            USING ERRCODE = 'invalid_parameter_value';
    END IF;
    RETURN spec;
END
$$;
COMMENT ON FUNCTION cortana.parse_cron IS
    'Parses a cron expression. If both the day of the month and the day of the week are restricted (neither '
    'begins with *), a day matches if one of them matches; otherwise both must match.';

CREATE FUNCTION cortana.cron_next_local(p_spec cron_spec, p_from timestamp) RETURNS timestamp
LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE AS $$
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
COMMENT ON FUNCTION cortana.cron_next_local IS
    'Returns the first matching minute at or after p_from, in local time without a time zone. Null: none within 50 '
    'years.';

CREATE FUNCTION cortana.zone_offset(p_instant timestamptz, p_time_zone text) RETURNS interval
LANGUAGE sql STABLE PARALLEL SAFE
RETURN (p_instant AT TIME ZONE p_time_zone) - (p_instant AT TIME ZONE 'UTC');
COMMENT ON FUNCTION cortana.zone_offset IS 'How far the clocks of a zone are ahead of UTC at an instant.';

CREATE FUNCTION cortana.zone_change(p_before timestamptz, p_after timestamptz, p_time_zone text) RETURNS timestamptz
LANGUAGE plpgsql STABLE PARALLEL SAFE AS $$
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
COMMENT ON FUNCTION cortana.zone_change IS
    'Returns the instant between p_before and p_after at which the clocks of a zone were changed. The clocks must '
    'have been changed exactly once between them.';

CREATE FUNCTION cortana.local_instants(p_local timestamp, p_time_zone text,
                               OUT first_at timestamptz, OUT last_at timestamptz, OUT is_skipped boolean)
LANGUAGE plpgsql STABLE PARALLEL SAFE AS $$
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
COMMENT ON FUNCTION cortana.local_instants IS
    'Returns the instants at which the clocks of a zone show a local time: one; two if the clocks are put back over '
    'it. If the clocks are put forward over it, they never show it, and the instant of the change is returned.';

-- On days on which clocks are changed, the rules are those of Vixie cron as packaged by Debian.
CREATE FUNCTION next_cron(p_expression text, p_time_zone text DEFAULT 'UTC',
                          p_after timestamptz DEFAULT clock_timestamp()) RETURNS timestamptz
LANGUAGE plpgsql STABLE PARALLEL SAFE AS $$
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
    -- An interval continues with the local time to which the clocks are changed, even if that is earlier.
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
    'Returns the first instant of a cron expression after p_after; null: none within 50 years. When clocks are '
    'changed, a fixed time that the clocks skip is moved to the instant of the change, and a fixed time that they '
    'show twice is used only the first time. If the minute or the hour begins with *, every minute that the clocks '
    'show counts.';

CREATE FUNCTION next_crons(p_expression text, p_time_zone text DEFAULT 'UTC', p_count int DEFAULT 5,
                           p_after timestamptz DEFAULT clock_timestamp()) RETURNS SETOF timestamptz
LANGUAGE plpgsql STABLE AS $$
BEGIN
    FOR i IN 1 .. least(p_count, 1000) LOOP
        p_after := next_cron(p_expression, p_time_zone, p_after);
        EXIT WHEN p_after IS NULL;
        RETURN NEXT p_after;
    END LOOP;
END
$$;
COMMENT ON FUNCTION next_crons IS 'Returns the next p_count instants of a cron expression.';

-- ---- triggers -----------------------------------------------------------------------------------

CREATE TABLE job_triggers (
    id uuid PRIMARY KEY DEFAULT gen_random_uuid(),
    name text NOT NULL CHECK (name ~ '^[a-z][a-z0-9_.:-]{0,99}$'),
    description text,
    tenant_id uuid,
    event text CHECK (event ~ '^[a-z][a-z0-9_]*([.][a-z0-9_]+)+$' AND length(event) <= 100),
    filter jsonb CHECK (jsonb_typeof(filter) = 'object'),
    cron text,
    time_zone text NOT NULL DEFAULT 'UTC',
    catch_up text NOT NULL DEFAULT 'last' CHECK (catch_up IN ('none', 'last', 'all')),
    catch_up_limit int NOT NULL DEFAULT 10 CHECK (catch_up_limit BETWEEN 1 AND 1000),
    action text NOT NULL CHECK (action IN ('job', 'run', 'command', 'webhook')),
    target text NOT NULL,
    payload jsonb NOT NULL DEFAULT '{}' CHECK (jsonb_typeof(payload) = 'object'),
    priority int CHECK (priority BETWEEN 0 AND 10),
    dedupe_key text,
    dedupe_window interval CHECK (dedupe_window > '0'),
    one_at_a_time boolean NOT NULL DEFAULT false,
    paused_at timestamptz,
    pause_reason text,
    next_at timestamptz,
    tried_at timestamptz,
    last_error text,
    last_error_at timestamptz,
    created_by uuid,
    created_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    updated_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    CHECK ((event IS NULL) <> (cron IS NULL)),
    CHECK (dedupe_key IS NULL OR dedupe_window IS NOT NULL),
    UNIQUE NULLS NOT DISTINCT (tenant_id, name)
);
COMMENT ON TABLE job_triggers IS
    'Triggers, which act when an event happens (event), and schedules, which act at given times (cron). The action '
    'enqueues a job, starts a workflow, runs a command or sends a message to a webhook.';
COMMENT ON COLUMN job_triggers.filter IS 'The trigger acts only on events whose data contain this JSON.';
COMMENT ON COLUMN job_triggers.catch_up IS
    'Which missed instants of a schedule are made up for: none (except those of the last minute), the last one, or '
    'all up to catch_up_limit.';
COMMENT ON COLUMN job_triggers.payload IS
    'Template of the payload of the job, the input of the run or the arguments of the command. Placeholders such as '
    '{{event.video_id}}, {{event.data.x}}, {{schedule.instant}} and {{trigger.name}} are replaced with values.';
COMMENT ON COLUMN job_triggers.dedupe_key IS
    'Template of a key. After it has acted, the trigger ignores the same key for dedupe_window. Null: all events have '
    'the same key.';
COMMENT ON COLUMN job_triggers.one_at_a_time IS
    'True: does nothing while a job that it enqueued earlier waits or runs.';
COMMENT ON COLUMN job_triggers.id IS 'Identifier.';
COMMENT ON COLUMN job_triggers.name IS 'Name of the trigger, one of its kind for each tenant.';
COMMENT ON COLUMN job_triggers.description IS 'What the trigger is for.';
COMMENT ON COLUMN job_triggers.event IS 'Name of the event that the trigger waits for; null: a schedule.';
COMMENT ON COLUMN job_triggers.cron IS 'Cron expression of a schedule; null: a trigger.';
COMMENT ON COLUMN job_triggers.time_zone IS 'IANA time zone of the cron expression.';
COMMENT ON COLUMN job_triggers.tenant_id IS 'Only events of this tenant; null: the events of all tenants.';
COMMENT ON COLUMN job_triggers.catch_up_limit IS
    'How many missed instants are made up for with catch_up all.';
COMMENT ON COLUMN job_triggers.action IS 'job, run, command or webhook.';
COMMENT ON COLUMN job_triggers.target IS 'A job type, a workflow, the key of a command, or a webhook.';
COMMENT ON COLUMN job_triggers.priority IS 'Priority of what is enqueued; null: the default of the type.';
COMMENT ON COLUMN job_triggers.dedupe_window IS 'How long the same dedupe_key is ignored.';
COMMENT ON COLUMN job_triggers.paused_at IS 'When the trigger was paused; null: not paused.';
COMMENT ON COLUMN job_triggers.pause_reason IS 'Why the trigger is paused.';
COMMENT ON COLUMN job_triggers.next_at IS 'Next instant of a schedule that is not paused.';
COMMENT ON COLUMN job_triggers.tried_at IS
    'When the last try failed with an error that may pass; other schedules are tried before this one.';
COMMENT ON COLUMN job_triggers.last_error IS 'Why the last try failed.';
COMMENT ON COLUMN job_triggers.last_error_at IS 'When the last try failed.';
COMMENT ON COLUMN job_triggers.created_by IS
    'The user who made it for their tenant; it may do only what that user may. Null: the service made it.';
COMMENT ON COLUMN job_triggers.created_at IS 'When it was made.';
COMMENT ON COLUMN job_triggers.updated_at IS 'When it was last changed.';

CREATE INDEX job_triggers_due ON job_triggers (next_at) WHERE next_at IS NOT NULL;
CREATE INDEX job_triggers_event ON job_triggers (event) WHERE event IS NOT NULL;

SELECT secure_table('job_triggers');

CREATE TABLE trigger_firings (
    id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    trigger_id uuid NOT NULL REFERENCES job_triggers ON DELETE CASCADE,
    instant timestamptz,
    event_id uuid,
    correlation_id uuid NOT NULL,
    fired_at timestamptz NOT NULL,
    outcome text NOT NULL DEFAULT 'fired'
        CHECK (outcome IN ('fired', 'duplicate', 'in flight', 'skipped', 'failed')),
    job_id uuid,
    run_id uuid,
    error text
);
COMMENT ON TABLE trigger_firings IS
    'What each trigger did. A row for an instant of a schedule also prevents that the instant is fired again.';
COMMENT ON COLUMN trigger_firings.outcome IS
    'duplicate: the same key had been used within dedupe_window; in flight: an earlier job was not done (see '
    'one_at_a_time); skipped, failed: see error.';
COMMENT ON COLUMN trigger_firings.id IS 'Identifier; later firings have larger ones.';
COMMENT ON COLUMN trigger_firings.trigger_id IS 'The trigger.';
COMMENT ON COLUMN trigger_firings.instant IS 'Instant of the schedule; null: fired by an event or by hand.';
COMMENT ON COLUMN trigger_firings.event_id IS 'The event.';
COMMENT ON COLUMN trigger_firings.correlation_id IS 'Correlation id of the job or run.';
COMMENT ON COLUMN trigger_firings.fired_at IS 'When the trigger was fired.';
COMMENT ON COLUMN trigger_firings.job_id IS 'The job that was enqueued.';
COMMENT ON COLUMN trigger_firings.run_id IS 'The run that was started.';
COMMENT ON COLUMN trigger_firings.error IS 'Why nothing was enqueued.';

CREATE UNIQUE INDEX trigger_firings_instant ON trigger_firings (trigger_id, instant)
    WHERE instant IS NOT NULL;
CREATE UNIQUE INDEX trigger_firings_event ON trigger_firings (trigger_id, event_id)
    WHERE event_id IS NOT NULL;
CREATE INDEX trigger_firings_latest ON trigger_firings (trigger_id, id);
CREATE INDEX trigger_firings_correlation ON trigger_firings (correlation_id);
CREATE INDEX old_firings ON trigger_firings (fired_at);

SELECT secure_table('trigger_firings');

CREATE TABLE cortana.trigger_windows (
    trigger_id uuid NOT NULL REFERENCES job_triggers ON DELETE CASCADE,
    key text NOT NULL,
    until timestamptz NOT NULL,
    PRIMARY KEY (trigger_id, key)
);
COMMENT ON TABLE cortana.trigger_windows IS
    'Values of dedupe_key that were used, and until when triggers ignore them.';

CREATE INDEX trigger_windows_until ON trigger_windows (until);

SELECT secure_table('trigger_windows');

CREATE TABLE cortana.event_outbox (
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
    error text
);
COMMENT ON TABLE cortana.event_outbox IS
    'Events that triggers wait for, written in the transaction in which they happen. A scheduler deletes each event '
    'in the same transaction in which its triggers act.';
COMMENT ON COLUMN cortana.event_outbox.error IS 'Why the last try failed and was put off.';

CREATE INDEX event_outbox_due ON event_outbox (due_at, seq);

SELECT secure_table('event_outbox');

CREATE FUNCTION cortana.check_trigger_template(p_template jsonb, p_is_schedule boolean) RETURNS void
LANGUAGE plpgsql IMMUTABLE AS $$
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
        RAISE EXCEPTION 'the template has a {{ without a name after it: %', coalesce(named, 'in the name of a member')
            USING ERRCODE = 'invalid_parameter_value', HINT = 'Write placeholders in values, as {{event.video_id}}.';
    END IF;
    FOR named IN SELECT m[1] FROM regexp_matches(p_template::text, pattern, 'g') AS m LOOP
        CONTINUE WHEN named = ANY (known) OR named LIKE 'event.data.%' AND NOT p_is_schedule;
        RAISE EXCEPTION 'the template names {{%}}, but % has no such value', left(named, 100),
            CASE WHEN p_is_schedule THEN 'a schedule' ELSE 'an event' END
            USING ERRCODE = 'invalid_parameter_value',
                  HINT = 'The values are ' || array_to_string(known, ', ')
                         || CASE WHEN p_is_schedule THEN '.' ELSE ' and event.data.….' END;
    END LOOP;
END
$$;
COMMENT ON FUNCTION cortana.check_trigger_template IS
    'Raises an error if a template can never be filled in, so that the fault is found when the trigger is defined.';

CREATE FUNCTION cortana.resolve_strictly(p_template jsonb, p_scope jsonb) RETURNS jsonb
LANGUAGE plpgsql IMMUTABLE AS $$
DECLARE
    named text;
BEGIN
    FOR named IN SELECT m[1] FROM regexp_matches(
        p_template::text, '\{\{\s*([A-Za-z_][A-Za-z0-9_.]*)\s*\}\}', 'g') AS m
    LOOP
        IF p_scope #> string_to_array(named, '.') IS NULL THEN
            RAISE EXCEPTION 'the template names {{%}}, but there is no such value', left(named, 200)
                USING ERRCODE = 'no_data_found';
        END IF;
    END LOOP;
    RETURN resolve_template(p_template, p_scope);
END
$$;
COMMENT ON FUNCTION cortana.resolve_strictly IS
    'Like resolve_template(), but a placeholder without a value is an error. A null is a value.';

CREATE FUNCTION cortana.job_triggers_before_write() RETURNS trigger
LANGUAGE plpgsql SECURITY DEFINER AS $$
BEGIN
    PERFORM check_trigger_template(NEW.payload, NEW.cron IS NOT NULL);
    PERFORM check_trigger_template(to_jsonb(coalesce(NEW.dedupe_key, '')), NEW.cron IS NOT NULL);
    IF NEW.action = 'run' THEN
        IF NOT EXISTS (SELECT FROM workflows WHERE name = NEW.target AND is_active) THEN
            RAISE EXCEPTION 'workflow % does not exist', left(NEW.target, 100)
                USING ERRCODE = 'foreign_key_violation';
        END IF;
    ELSIF NEW.action = 'webhook' THEN
        IF NOT EXISTS (SELECT FROM webhooks WHERE name = NEW.target) THEN
            RAISE EXCEPTION 'no webhook is called %', left(NEW.target, 100)
                USING ERRCODE = 'foreign_key_violation';
        END IF;
    ELSIF NEW.action = 'command' AND NOT EXISTS (SELECT FROM job_definitions WHERE key = NEW.target) THEN
        RAISE EXCEPTION 'command % does not exist', left(NEW.target, 100)
            USING ERRCODE = 'foreign_key_violation', HINT = 'To add a command, call define_command().';
    ELSIF NOT EXISTS (SELECT FROM job_types
                      WHERE name = CASE NEW.action WHEN 'job' THEN NEW.target ELSE NEW.action END) THEN
        RAISE EXCEPTION 'job type % is not registered',
            CASE NEW.action WHEN 'job' THEN left(NEW.target, 100) ELSE NEW.action END
            USING ERRCODE = 'foreign_key_violation';
    END IF;
    IF NEW.event IS NULL AND NEW.filter IS NOT NULL THEN
        RAISE EXCEPTION 'a schedule cannot have a filter, because it does not wait for events' USING ERRCODE = 'invalid_parameter_value';
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
        NEW.next_at := NULL; -- instants that pass during a pause are not made up for
    ELSIF NEW.next_at IS NULL OR TG_OP = 'UPDATE'
          AND (NEW.cron, NEW.time_zone) IS DISTINCT FROM (OLD.cron, OLD.time_zone) THEN
        NEW.next_at := next_cron(NEW.cron, NEW.time_zone, clock_timestamp());
        IF NEW.next_at IS NULL THEN
            RAISE EXCEPTION 'cron: "%" matches no time within the next 50 years', NEW.cron
                USING ERRCODE = 'invalid_parameter_value';
        END IF;
    END IF;
    PERFORM pg_notify('cv_events', '');
    RETURN NEW;
END
$$;
COMMENT ON FUNCTION cortana.job_triggers_before_write IS
    'Trigger: refuses a definition that could never work, and computes when a schedule is due next.';
CREATE TRIGGER job_triggers_before_write
    BEFORE INSERT OR UPDATE OF name, event, filter, cron, time_zone, action, target, payload, dedupe_key,
                               paused_at, tenant_id
    ON job_triggers FOR EACH ROW EXECUTE FUNCTION job_triggers_before_write();

-- ---- events -------------------------------------------------------------------------------------

CREATE OR REPLACE FUNCTION cortana.event_recorded(p_id uuid, p_name text, p_data jsonb, p_tenant_id uuid, p_video_id uuid,
                                               p_job_id uuid, p_run_id uuid, p_correlation_id uuid) RETURNS void
LANGUAGE plpgsql AS $$
BEGIN
    IF EXISTS (SELECT FROM job_triggers t
               WHERE t.event = p_name AND t.paused_at IS NULL
                 AND (t.tenant_id IS NULL OR t.tenant_id = p_tenant_id)
                 AND (t.filter IS NULL OR p_data @> t.filter)) THEN
        INSERT INTO event_outbox (id, name, tenant_id, video_id, job_id, run_id, correlation_id, data)
        VALUES (p_id, p_name, p_tenant_id, p_video_id, p_job_id, p_run_id, p_correlation_id, p_data);
        PERFORM pg_notify('cv_events', '');
    END IF;
END
$$;
COMMENT ON FUNCTION cortana.event_recorded IS 'Keeps an event for the triggers that wait for it.';

CREATE FUNCTION emit_event(
    p_name text,
    p_data jsonb DEFAULT '{}',
    p_video_id uuid DEFAULT NULL,
    p_job_id uuid DEFAULT NULL,
    p_tenant_id uuid DEFAULT NULL,           -- NULL: the tenant of the video, or else of the job
    p_correlation_id uuid DEFAULT NULL) RETURNS uuid
LANGUAGE plpgsql SECURITY DEFINER AS $$
DECLARE
    tenant uuid := p_tenant_id;
    job jobs;
    video videos;
BEGIN
    IF p_name IS NULL OR p_name !~ '^[a-z][a-z0-9_]*([.][a-z0-9_]+)+$' OR length(p_name) > 100 THEN
        RAISE EXCEPTION '"%" is not a valid name of an event: write it like "order.paid"', left(p_name, 100)
            USING ERRCODE = 'invalid_parameter_value';
    END IF;
    IF jsonb_typeof(p_data) IS DISTINCT FROM 'object' OR octet_length(p_data::text) > 60 * 1024
       OR jsonb_path_exists(p_data, '$.**{20}') THEN
        RAISE EXCEPTION 'the data of an event must be a JSON object of at most 60 KiB and 20 levels'
            USING ERRCODE = 'invalid_parameter_value';
    END IF;
    SELECT * INTO video FROM videos WHERE id = p_video_id;
    SELECT * INTO job FROM jobs WHERE id = p_job_id;
    tenant := coalesce(tenant, video.team_id, video.owner_id, job.tenant_id);
    IF NOT acts_for_everyone() THEN
        IF p_name ~ '^(video|clip|job|run|webhook)[.]' THEN
            RAISE EXCEPTION 'only the service may emit events whose names begin with "%."', split_part(p_name, '.', 1)
                USING ERRCODE = 'invalid_parameter_value', COLUMN = 'name';
        END IF;
        tenant := coalesce(tenant, auth.uid());
        IF tenant IS NULL OR NOT may_touch(tenant)
           OR p_video_id IS NOT NULL AND NOT coalesce(
                  video.owner_id = auth.uid() OR video.team_id = ANY (current_team_ids()), false)
           OR p_job_id IS NOT NULL AND NOT coalesce(may_touch(job.tenant_id), false) THEN
            RAISE EXCEPTION 'the tenant, video or job of the event is not yours' USING ERRCODE = 'insufficient_privilege';
        END IF;
    END IF;
    RETURN record_event(p_name, p_data, tenant, p_video_id, p_job_id, job.run_id,
                      coalesce(p_correlation_id, job.correlation_id));
END
$$;
COMMENT ON FUNCTION emit_event IS
    'Emits an event, in the caller''s transaction, and returns its id. Triggers act on the event after that '
    'transaction is committed.';

-- Checks a trigger that a tenant made, when it is saved and again each time it acts. The second check is needed
-- because a type, a command or a video may have changed, and the trigger acts with the rights of the service.
CREATE FUNCTION cortana.check_tenants_trigger(p_trigger job_triggers, p_payload jsonb, p_video_id uuid) RETURNS void
LANGUAGE plpgsql STABLE AS $$
DECLARE
    fault text;
BEGIN
    fault := CASE
        WHEN p_trigger.action = 'command' AND NOT EXISTS (
            SELECT FROM job_definitions d WHERE d.key = p_trigger.target AND d.is_public AND d.is_enabled)
            THEN 'no public command is called ' || left(p_trigger.target, 100)
        WHEN p_trigger.action = 'job' AND NOT EXISTS (
            SELECT FROM job_types t WHERE t.name = p_trigger.target AND t.is_public)
            THEN 'no public type of job is called ' || left(p_trigger.target, 100)
        WHEN p_trigger.action = 'run' AND EXISTS (
            SELECT FROM workflows w CROSS JOIN jsonb_array_elements(w.steps) AS s
            LEFT JOIN job_types t ON t.name = s ->> 'job_type' AND t.is_public
            WHERE w.name = p_trigger.target AND w.is_active AND t.name IS NULL)
            THEN 'the workflow has steps of types that are not public'
        WHEN p_trigger.action = 'webhook' AND NOT EXISTS (
            SELECT FROM webhooks w WHERE w.name = p_trigger.target AND w.tenant_id = p_trigger.tenant_id)
            THEN 'the tenant has no such webhook'
        WHEN p_trigger.action IN ('job', 'run') AND p_payload ?| '{s3_original_path,frame_paths,line_paths}'
            THEN 'a trigger of a tenant names no objects of the store: name the video'
        WHEN p_video_id IS NOT NULL AND NOT EXISTS (
            SELECT FROM videos v WHERE v.id = p_video_id AND p_trigger.tenant_id IN (v.owner_id, v.team_id))
            THEN 'the video belongs to another tenant' END;
    IF fault IS NOT NULL THEN
        RAISE EXCEPTION '%', fault USING ERRCODE = 'invalid_parameter_value';
    END IF;
END
$$;
COMMENT ON FUNCTION cortana.check_tenants_trigger IS
    'Refuses actions that a user''s trigger may not do. Allowed are public types and commands, webhooks and videos of '
    'its tenant; keys of objects are not allowed.';

-- ---- firing -------------------------------------------------------------------------------------

CREATE FUNCTION cortana.is_passing(p_sqlstate text) RETURNS boolean
LANGUAGE sql IMMUTABLE PARALLEL SAFE
RETURN left(p_sqlstate, 2) IN ('08', '40', '53', '57', '58', 'XX') OR p_sqlstate = '55P03';
COMMENT ON FUNCTION cortana.is_passing IS
    'Whether an error is temporary. If so, the trigger is tried again; otherwise the error is recorded.';

CREATE FUNCTION cortana.act_for_trigger(
    p_trigger job_triggers, p_scope jsonb, p_tenant_id uuid, p_correlation_id uuid, p_now timestamptz,
    OUT outcome text, OUT job_id uuid, OUT run_id uuid, OUT error text)
LANGUAGE plpgsql AS $$
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
            WHEN hook.disabled_at IS NOT NULL THEN concat_ws(': ', 'the webhook is disabled', hook.disabled_reason)
            WHEN hook.tenant_id IS NOT NULL AND tenant IS DISTINCT FROM hook.tenant_id
                THEN 'the webhook belongs to another tenant'
            WHEN p_scope #>> '{event,name}' = 'job.failed' AND p_scope #>> '{event,data,job_type}' = 'webhook'
                THEN 'no message is sent about a message that could not be delivered' END;
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
            RAISE EXCEPTION 'video % does not exist', payload ->> 'video_id' USING ERRCODE = 'no_data_found';
        END IF;
    END IF;
    IF p_trigger.created_by IS NOT NULL THEN
        PERFORM check_tenants_trigger(p_trigger, payload, video);
    END IF;
    PERFORM set_config('cortana.job_source', CASE WHEN p_scope ? 'event' THEN 'event' ELSE 'schedule' END, true),
            set_config('cortana.job_source_ref', coalesce(p_scope #>> '{event,id}', p_trigger.name), true);
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
            -- a receiver gets one message for each event, even if several triggers send it
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
    PERFORM set_config('cortana.job_source', '', true), set_config('cortana.job_source_ref', '', true);
    outcome := CASE WHEN is_new THEN 'fired' ELSE 'in flight' END;
END
$$;
COMMENT ON FUNCTION cortana.act_for_trigger IS
    'Carries out the action of a trigger; errors are not caught. For cortana.run_trigger() only.';

CREATE FUNCTION cortana.run_trigger(
    p_trigger job_triggers, p_scope jsonb, p_tenant_id uuid, p_event_id uuid, p_instant timestamptz,
    p_correlation_id uuid, p_now timestamptz) RETURNS trigger_firings
LANGUAGE plpgsql AS $$
DECLARE
    most CONSTANT int := 20;               -- times that one cause may fire the same trigger in an hour
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
            RAISE EXCEPTION 'the trigger causes itself: one cause has fired it % times in an hour', most
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
COMMENT ON FUNCTION cortana.run_trigger IS
    'Fires a trigger once for an instant or an event (both null: by hand). An error that may pass by itself is '
    'raised; any other error is recorded in trigger_firings. Returns null if the trigger has already been fired for '
    'it. For the functions of this schema only.';

CREATE FUNCTION cortana.schedule_scope(p_trigger job_triggers, p_instant timestamptz) RETURNS jsonb
LANGUAGE sql STABLE AS $$
    SELECT jsonb_build_object(
        'trigger', jsonb_build_object('name', p_trigger.name),
        'schedule', jsonb_build_object(
            'instant', to_char(p_instant AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS"Z"'),
            'local', to_char(p_instant AT TIME ZONE p_trigger.time_zone, 'YYYY-MM-DD"T"HH24:MI:SS'),
            'date', to_char(p_instant AT TIME ZONE p_trigger.time_zone, 'YYYY-MM-DD'),
            'time_zone', p_trigger.time_zone))
$$;
COMMENT ON FUNCTION cortana.schedule_scope IS
    'Returns the values that the templates of a schedule can name.';

CREATE FUNCTION cortana.due_instants(p_trigger job_triggers, p_now timestamptz) RETURNS timestamptz[]
LANGUAGE plpgsql STABLE AS $$
DECLARE
    late CONSTANT interval := '1 minute';
    wanted int := CASE p_trigger.catch_up WHEN 'all' THEN p_trigger.catch_up_limit ELSE 1 END;
    width interval := '1 hour';
    start timestamptz;
    at timestamptz;
    found timestamptz[];
BEGIN
    LOOP -- go back from now only as far as needed, so that a long outage costs no more than a short one
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
COMMENT ON FUNCTION cortana.due_instants IS
    'Returns the instants for which a schedule is to be fired now; catch_up decides which missed instants count.';

CREATE FUNCTION cortana.fire_schedules(p_now timestamptz DEFAULT clock_timestamp(), p_limit int DEFAULT 100,
                               OUT fired int, OUT failed int)
LANGUAGE plpgsql AS $$
DECLARE
    began CONSTANT timestamptz := clock_timestamp();
    longest CONSTANT interval := '5 seconds'; -- then the next step of the tick runs; the remaining schedules are due at once
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
        EXCEPTION WHEN OTHERS THEN -- try this schedule again later, after the others
            failed := failed + 1;
            UPDATE job_triggers SET tried_at = clock_timestamp(), last_error = left(SQLERRM, 1000),
                                    last_error_at = p_now
            WHERE id = schedule.id;
        END;
    END LOOP;
END
$$;
COMMENT ON FUNCTION cortana.fire_schedules IS
    'Fires the schedules that are due. Each instant is fired once, however many sessions call this at the same time. '
    'Returns how many schedules were fired, and how many failed.';

CREATE FUNCTION cortana.dispatch_events(p_now timestamptz DEFAULT clock_timestamp(), p_limit int DEFAULT 100,
                                OUT dispatched int, OUT failed int)
LANGUAGE plpgsql AS $$
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
COMMENT ON FUNCTION cortana.dispatch_events IS
    'Fires the triggers of waiting events, the oldest event first. Each event is deleted in the same transaction.';

-- A scheduler calls this as a single statement, so that no transaction stays open when the scheduler dies.
-- lock_timeout keeps it from waiting long for a lock.
CREATE OR REPLACE FUNCTION scheduler_tick(p_now timestamptz DEFAULT clock_timestamp(),
                               OUT fired int, OUT dispatched int, OUT failed int, OUT wait_ms bigint)
LANGUAGE plpgsql
SET lock_timeout = '3s' AS $$
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
    'Fires the schedules that are due, and the triggers of waiting events. The program scheduler calls it; any other '
    'program may call it every second instead. wait_ms: in how many milliseconds the next schedule is due; null: '
    'none is known.';

-- ---- upkeep -------------------------------------------------------------------------------------

CREATE FUNCTION cortana.delete_old_firings(p_now timestamptz) RETURNS void
LANGUAGE sql AS $$
    DELETE FROM trigger_firings WHERE fired_at < p_now - interval '30 days';
    DELETE FROM trigger_windows WHERE until < p_now;
$$;
COMMENT ON FUNCTION cortana.delete_old_firings IS 'Deletes what triggers did more than 30 days ago.';
INSERT INTO upkeep_tasks (name, description, every, routine) VALUES
    ('old_firings', 'what triggers did more than 30 days ago', '1 hour', 'delete_old_firings');

CREATE FUNCTION cortana.default_schedules() RETURNS TABLE (name text, description text, cron text, payload jsonb)
LANGUAGE sql IMMUTABLE AS $$
    VALUES
        ('archive-events', 'the timeline of months that are over goes to the store', '30 3 2 * *', '{}'::jsonb),
        ('archive-jobs', 'jobs that have ended long ago go to the store', '0 3 * * *', '{}'),
        ('gc', 'objects that no row knows are removed', '0 4 * * sun', '{"remove": true}'),
        ('purge-clips', 'clips that have had their time are removed', '15 3 * * *', '{}'),
        ('prune-embeddings', 'vectors of texts that are gone are forgotten', '45 4 * * sun', '{}')
$$;
COMMENT ON FUNCTION cortana.default_schedules IS 'The schedules of the system.';

CREATE FUNCTION cortana.is_default_schedule(t job_triggers) RETURNS boolean
LANGUAGE sql STABLE
RETURN t.tenant_id IS NULL AND t.cron IS NOT NULL AND EXISTS (SELECT FROM default_schedules() AS d WHERE d.name = t.name);
COMMENT ON FUNCTION cortana.is_default_schedule IS 'Whether a schedule came with the system: it can be changed and paused, and not deleted by the API.';

CREATE FUNCTION restore_default_schedules() RETURNS bigint
LANGUAGE plpgsql AS $$
DECLARE
    made bigint;
BEGIN
    INSERT INTO job_triggers (name, description, cron, action, target, payload, one_at_a_time)
    SELECT d.name, d.description, d.cron, 'command', d.name, d.payload, true
    FROM default_schedules() AS d
    WHERE EXISTS (SELECT FROM job_types WHERE name = 'command')
    ON CONFLICT (tenant_id, name) DO NOTHING;
    GET DIAGNOSTICS made = ROW_COUNT;
    RETURN made;
END
$$;
COMMENT ON FUNCTION restore_default_schedules IS
    'Adds those schedules of the system that are missing. Schedules that an operator has changed or paused stay as '
    'they are. Returns how many were added.';

SELECT restore_default_schedules();

-- ---- who may call what --------------------------------------------------------------------------

SELECT secure_objects();
GRANT EXECUTE ON FUNCTION cortana.cron_field, cortana.parse_cron, cortana.cron_next_local,
    cortana.zone_offset, cortana.zone_change, cortana.local_instants, next_cron, next_crons,
    cortana.check_time_zone, emit_event TO cortana_app;
