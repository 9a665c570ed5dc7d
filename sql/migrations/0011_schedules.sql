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

-- ---- who may do what -----------------------------------------------------------------------------

DO $$
DECLARE
    name text;
BEGIN
    FOREACH name IN ARRAY ARRAY['cron_field', 'parse_cron', 'cron_next_local', 'zone_offset', 'zone_change',
                                'local_instants', 'next_cron', 'next_crons', 'check_time_zone'] LOOP
        EXECUTE format('REVOKE ALL ON FUNCTION %I FROM PUBLIC, anon, authenticated', name);
        EXECUTE format('GRANT EXECUTE ON FUNCTION %I TO service_role, cortana_app', name);
    END LOOP;
END
$$;
