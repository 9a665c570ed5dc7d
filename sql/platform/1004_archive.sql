-- Archives: months of events, and ended jobs, are moved to the object store as JSON Lines, and may be restored.

-- ---- events -------------------------------------------------------------------------------------

CREATE TABLE cortana.event_archives (
    partition text PRIMARY KEY CHECK (partition ~ '^task_events_[0-9]{4}_[0-9]{2}$'),
    key text NOT NULL,
    rows bigint NOT NULL,
    checksum text NOT NULL,
    archived_at timestamptz NOT NULL DEFAULT now()
);
COMMENT ON TABLE cortana.event_archives IS
    'Months of task_events in the object store, one row for each partition.';

SELECT secure_table('event_archives');

CREATE FUNCTION event_partitions_before(p_days int) RETURNS SETOF text
LANGUAGE sql STABLE AS $$
    SELECT c.relname::text FROM pg_inherits i JOIN pg_class c ON c.oid = i.inhrelid
    WHERE i.inhparent = 'public.task_events'::regclass AND c.relname ~ '^task_events_[0-9]{4}_[0-9]{2}$'
      AND (to_date(right(c.relname, 7), 'YYYY_MM') + interval '1 month') AT TIME ZONE 'UTC'
          <= least(now() - make_interval(days => p_days), date_trunc('month', now() AT TIME ZONE 'UTC')
                                                          AT TIME ZONE 'UTC')
    ORDER BY 1
$$;
COMMENT ON FUNCTION event_partitions_before IS
    'Returns the partitions of task_events whose month ended at least p_days days ago, so that nothing is written '
    'to them any more.';

CREATE FUNCTION export_events(p_partition text, p_after bigint DEFAULT 0, p_limit int DEFAULT 10000)
RETURNS TABLE (id bigint, line text)
LANGUAGE plpgsql STABLE AS $$
BEGIN
    IF p_partition !~ '^task_events_[0-9]{4}_[0-9]{2}$' THEN
        RAISE EXCEPTION '% is not a partition of task_events', left(p_partition, 100)
            USING ERRCODE = 'invalid_parameter_value';
    END IF;
    RETURN QUERY EXECUTE format(
        'SELECT e.id, to_jsonb(e)::text FROM cortana.%I e WHERE e.id > $1 ORDER BY e.id LIMIT $2',
        p_partition) USING p_after, p_limit;
END
$$;
COMMENT ON FUNCTION export_events IS
    'Returns the events of a partition with ids above p_after, one JSON object a row, as restore_events() '
    'takes them.';

CREATE FUNCTION drop_archived_events(p_partition text, p_key text, p_rows bigint, p_checksum text)
RETURNS boolean
LANGUAGE plpgsql SECURITY DEFINER AS $$
DECLARE
    present bigint;
BEGIN
    IF NOT EXISTS (SELECT FROM event_partitions_before(0) AS p WHERE p = p_partition) THEN
        RETURN false;
    END IF;
    EXECUTE format('LOCK TABLE cortana.%I IN ACCESS EXCLUSIVE MODE', p_partition);
    EXECUTE format('SELECT count(*) FROM cortana.%I', p_partition) INTO present;
    IF present <> p_rows THEN
        RETURN false;
    END IF;
    INSERT INTO event_archives AS a (partition, key, rows, checksum)
    VALUES (p_partition, p_key, p_rows, p_checksum)
    ON CONFLICT (partition) DO UPDATE SET key = excluded.key, rows = excluded.rows,
        checksum = excluded.checksum, archived_at = now();
    EXECUTE format('DROP TABLE cortana.%I', p_partition);
    RETURN true;
END
$$;
COMMENT ON FUNCTION drop_archived_events IS
    'Records an archive and drops its partition, if the partition still contains exactly what was archived.';

CREATE FUNCTION restore_events(p_lines jsonb) RETURNS bigint
LANGUAGE plpgsql SECURITY DEFINER AS $$
DECLARE
    restored bigint;
BEGIN
    PERFORM create_event_partition(m.month)
    FROM (SELECT DISTINCT date_trunc('month', (l ->> 'ts')::timestamptz AT TIME ZONE 'UTC') AS month
          FROM jsonb_array_elements(p_lines) AS l) AS m;
    INSERT INTO task_events (id, ts, job_id, video_id, correlation_id, run_id, source, level, type,
                             message, data)
    SELECT l.id, l.ts, l.job_id, l.video_id, l.correlation_id, l.run_id, l.source, l.level, l.type,
           l.message, l.data
    FROM jsonb_to_recordset(p_lines) AS l (id bigint, ts timestamptz, job_id uuid, video_id uuid,
             correlation_id uuid, run_id uuid, source text, level text, type text, message text,
             data jsonb)
    WHERE NOT EXISTS (SELECT FROM task_events e
                      WHERE e.ts = l.ts AND e.id = l.id AND e.job_id IS NOT DISTINCT FROM l.job_id);
    GET DIAGNOSTICS restored = ROW_COUNT;
    RETURN restored;
END
$$;
COMMENT ON FUNCTION restore_events IS
    'Writes events from export_events() back to the timeline. An event that exists is left alone, so that this '
    'may be repeated. Returns how many events are new.';

-- ---- jobs ---------------------------------------------------------------------------------------
-- A job stays in the database while something needs it: a dead job waits for a decision, the newest run of a video says
-- what was made of the video, the job of a clip leads to its object, and a job that may still run needs its parents.

CREATE TABLE cortana.job_archives (
    key text PRIMARY KEY,
    jobs bigint NOT NULL,
    runs bigint NOT NULL,
    finished_from timestamptz,
    finished_until timestamptz,
    checksum text NOT NULL,
    archived_at timestamptz NOT NULL DEFAULT now()
);
COMMENT ON TABLE cortana.job_archives IS
    'Files in the object store that hold ended jobs; restore_jobs() takes their lines.';

SELECT secure_table('job_archives');

CREATE FUNCTION cortana.leads_to_clip(p_job jobs) RETURNS boolean
LANGUAGE sql IMMUTABLE
RETURN p_job.job_type = 'clip_generate' AND p_job.status = 'done'
       AND coalesce(p_job.result ? 'clip_path' AND NOT p_job.result ? 'removed_at', false);
COMMENT ON FUNCTION cortana.leads_to_clip IS
    'Returns whether a job is needed to find the object of its clip, which has not been removed from the store.';

CREATE FUNCTION cortana.jobs_asked_for(p_job_ids uuid[]) RETURNS boolean
LANGUAGE sql STABLE AS $$
    -- IS TRUE makes the planner use a hash table, whatever the statistics say.
    SELECT EXISTS (SELECT FROM jobs c CROSS JOIN unnest(c.depends_on) AS parent
                   WHERE c.depends_on IS NOT NULL AND c.status <> 'done'
                     AND (parent IN (SELECT unnest(p_job_ids))) IS TRUE
                     AND c.id NOT IN (SELECT unnest(p_job_ids)))
$$;
COMMENT ON FUNCTION cortana.jobs_asked_for IS
    'Returns whether a job that is not done, and not one of these, depends on one of them.';

CREATE FUNCTION cortana.archive_fingerprint(p_run_ids uuid[], p_job_ids uuid[]) RETURNS text
LANGUAGE sql STABLE AS $$
    SELECT md5(coalesce(string_agg(version, ' ' ORDER BY version COLLATE "C"), ''))
    FROM (SELECT concat_ws(',', 'run', id, xmin) FROM runs WHERE id = ANY (p_run_ids)
          UNION ALL
          SELECT concat_ws(',', 'job', id, xmin) FROM jobs
          WHERE id = ANY (p_job_ids) OR run_id = ANY (p_run_ids)
          UNION ALL
          SELECT concat_ws(',', 'attempt', job_id, attempt, xmin) FROM ended_attempts
          WHERE job_id = ANY (p_job_ids)
          UNION ALL
          SELECT concat_ws(',', 'artifact', id, xmin) FROM task_artifacts WHERE job_id = ANY (p_job_ids)
          UNION ALL
          SELECT concat_ws(',', 'output', job_id, job_type, xmin) FROM job_outputs
          WHERE job_id = ANY (p_job_ids)) AS rows (version)
$$;
COMMENT ON FUNCTION cortana.archive_fingerprint IS
    'Returns a text that changes whenever one of the rows of an archive changes.';

CREATE FUNCTION jobs_to_archive(
    p_days int, p_limit int DEFAULT 5000,
    OUT run_ids uuid[], OUT job_ids uuid[], OUT finished_until timestamptz, OUT fingerprint text)
LANGUAGE plpgsql STABLE AS $$
DECLARE
    before CONSTANT timestamptz := now() - make_interval(days => p_days);
    asked uuid[];
    others uuid[];
BEGIN
    -- The jobs of a run depend only on one another.
    SELECT coalesce(array_agg(DISTINCT parent) FILTER (WHERE parent IS NOT NULL), '{}') INTO asked
    FROM jobs c CROSS JOIN unnest(c.depends_on) AS parent
    WHERE c.run_id IS NULL AND c.depends_on IS NOT NULL AND c.status <> 'done';

    WITH ended AS (
        SELECT r.id, r.finished_at FROM runs r
        WHERE r.status IN ('done', 'canceled') AND r.finished_at < before
          AND (r.video_id IS NULL
               OR EXISTS (SELECT FROM runs n
                          WHERE n.video_id = r.video_id AND n.workflow = r.workflow
                            AND n.status = 'done' AND n.created_at > r.created_at))
          AND NOT EXISTS (SELECT FROM jobs j
                          WHERE j.run_id = r.id
                            AND (j.status NOT IN ('done', 'canceled') OR leads_to_clip(j)))
          AND r.id NOT IN (SELECT run_id FROM jobs WHERE id = ANY (asked) AND run_id IS NOT NULL)
        ORDER BY r.finished_at, r.id LIMIT p_limit
    ), sized AS (
        SELECT o.id, sum(j.count) OVER (ORDER BY o.finished_at, o.id) - j.count AS earlier
        FROM ended o, LATERAL (SELECT count(*) FROM jobs WHERE run_id = o.id) AS j
    )
    SELECT coalesce(array_agg(s.id), '{}') INTO run_ids FROM sized s WHERE s.earlier < p_limit;

    SELECT coalesce(array_agg(j.id), '{}') INTO job_ids FROM jobs j WHERE j.run_id = ANY (run_ids);

    SELECT coalesce(array_agg(o.id), '{}') INTO others
    FROM (SELECT j.id FROM jobs j
          WHERE j.run_id IS NULL AND j.status IN ('done', 'canceled') AND j.finished_at < before
            AND NOT leads_to_clip(j)
            AND j.id NOT IN (SELECT unnest(asked))
            AND (j.video_id IS NULL OR NOT j.exclusive
                 OR EXISTS (SELECT FROM jobs n
                            WHERE n.video_id = j.video_id AND n.step = j.step AND n.exclusive
                              AND n.status = 'done' AND n.created_at > j.created_at))
          LIMIT greatest(0, p_limit - cardinality(job_ids))) AS o;
    job_ids := job_ids || others;
    SELECT max(j.finished_at) INTO finished_until FROM jobs j WHERE j.id = ANY (job_ids);
    fingerprint := archive_fingerprint(run_ids, job_ids);
END
$$;
COMMENT ON FUNCTION jobs_to_archive IS
    'Returns up to p_limit jobs that ended more than p_days days ago and that nothing needs any more, and the '
    'fingerprint that drop_archived_jobs() expects. Runs are returned whole, so that the last one may exceed the '
    'limit. Empty lists: there are no such jobs.';

CREATE FUNCTION export_jobs(p_run_ids uuid[], p_job_ids uuid[], p_after int DEFAULT 0,
                            p_limit int DEFAULT 500) RETURNS TABLE (n int, line text)
LANGUAGE sql STABLE AS $$
    SELECT e.n::int, coalesce(
        (SELECT jsonb_build_object('run', to_jsonb(r)) FROM runs r WHERE r.id = e.id),
        (SELECT jsonb_build_object(
             'job', to_jsonb(j),
             'attempts', (SELECT coalesce(jsonb_agg(to_jsonb(a) ORDER BY a.attempt), '[]')
                          FROM ended_attempts a WHERE a.job_id = j.id),
             'artifacts', (SELECT coalesce(jsonb_agg(to_jsonb(f) ORDER BY f.id), '[]')
                           FROM task_artifacts f WHERE f.job_id = j.id),
             'outputs', (SELECT coalesce(jsonb_agg(to_jsonb(o) ORDER BY o.job_type), '[]')
                         FROM job_outputs o WHERE o.job_id = j.id))
         FROM jobs j WHERE j.id = e.id))::text
    FROM unnest(p_run_ids || p_job_ids) WITH ORDINALITY AS e (id, n)
    WHERE e.n > p_after AND e.n <= p_after + p_limit
    ORDER BY e.n
$$;
COMMENT ON FUNCTION export_jobs IS
    'Returns the lines of an archive from number p_after on: {"run": row} first, then {"job": row, '
    '"attempts": [row, …], "artifacts": […], "outputs": […]}.';

CREATE FUNCTION drop_archived_jobs(p_run_ids uuid[], p_job_ids uuid[], p_fingerprint text, p_key text,
                                   p_checksum text) RETURNS boolean
LANGUAGE plpgsql SECURITY DEFINER AS $$
BEGIN
    PERFORM FROM jobs WHERE id = ANY (p_job_ids) ORDER BY id FOR UPDATE;
    PERFORM FROM runs WHERE id = ANY (p_run_ids) ORDER BY id FOR UPDATE;
    IF archive_fingerprint(p_run_ids, p_job_ids) <> p_fingerprint OR jobs_asked_for(p_job_ids)
       OR EXISTS (SELECT FROM jobs WHERE id = ANY (p_job_ids) AND status NOT IN ('done', 'canceled')) THEN
        RETURN false;
    END IF;
    INSERT INTO job_archives AS a (key, jobs, runs, finished_from, finished_until, checksum)
    SELECT p_key, cardinality(p_job_ids), cardinality(p_run_ids), min(finished_at), max(finished_at),
           p_checksum
    FROM jobs WHERE id = ANY (p_job_ids)
    ON CONFLICT (key) DO UPDATE SET archived_at = now();
    DELETE FROM jobs WHERE id = ANY (p_job_ids);
    DELETE FROM runs WHERE id = ANY (p_run_ids);
    RETURN true;
END
$$;
COMMENT ON FUNCTION drop_archived_jobs IS
    'Records an archive and deletes its rows, if none of them has changed since it was written.';

CREATE FUNCTION cortana.insert_archived(p_table regclass, p_rows jsonb) RETURNS bigint
LANGUAGE plpgsql AS $$
DECLARE
    columns text;
    inserted bigint;
BEGIN
    SELECT string_agg(quote_ident(attname), ', ' ORDER BY attnum) INTO columns
    FROM pg_attribute
    WHERE attrelid = p_table AND attnum > 0 AND NOT attisdropped AND p_rows -> 0 ? attname::text;
    IF columns IS NULL THEN
        RETURN 0;
    END IF;
    EXECUTE format('INSERT INTO %1$s (%2$s) SELECT %2$s FROM jsonb_populate_recordset(NULL::%1$s, $1)'
                   ' ON CONFLICT DO NOTHING', p_table, columns) USING p_rows;
    GET DIAGNOSTICS inserted = ROW_COUNT;
    RETURN inserted;
END
$$;
COMMENT ON FUNCTION cortana.insert_archived IS
    'Inserts rows of an archive into their table. Columns that the archive does not have get their defaults. For '
    'restore_jobs() only.';

CREATE FUNCTION restore_jobs(p_lines jsonb, OUT restored bigint, OUT left_out bigint)
LANGUAGE plpgsql SECURITY DEFINER AS $$
DECLARE
    given bigint;
    known bigint;
    fresh jsonb;
    unknown text;
BEGIN
    PERFORM acquire_lock('restore_jobs');
    IF EXISTS (SELECT FROM jsonb_array_elements(p_lines) AS l
               WHERE l ? 'job' = l ? 'run'
                  OR coalesce(l #>> '{job,status}', l #>> '{run,status}', '') NOT IN ('done', 'canceled')
                  OR jsonb_path_exists(l, '$.attempts[*] ? (@.job_id != $.job.id || @.status == "running")')
                  OR jsonb_path_exists(l, '$.artifacts[*] ? (@.job_id != $.job.id)')
                  OR jsonb_path_exists(l, '$.outputs[*] ? (@.job_id != $.job.id)')) THEN
        RAISE EXCEPTION 'a line does not describe a job or run that has ended' USING ERRCODE = 'invalid_parameter_value';
    END IF;
    SELECT l #>> '{job,job_type}' INTO unknown FROM jsonb_array_elements(p_lines) AS l
    WHERE l ? 'job' AND NOT EXISTS (SELECT FROM job_types WHERE name = l #>> '{job,job_type}') LIMIT 1;
    IF FOUND THEN
        RAISE EXCEPTION 'job type % is not registered', unknown
            USING ERRCODE = 'foreign_key_violation', HINT = 'Insert it into job_types.';
    END IF;

    PERFORM insert_archived('runs', coalesce(jsonb_agg(l -> 'run'), '[]'))
    FROM jsonb_array_elements(p_lines) AS l
    WHERE l ? 'run' AND (l #>> '{run,video_id}' IS NULL
                         OR EXISTS (SELECT FROM videos WHERE id = (l #>> '{run,video_id}')::uuid));

    SELECT count(*), count(*) FILTER (WHERE present), coalesce(jsonb_agg(line) FILTER (WHERE fits), '[]')
    INTO given, known, fresh
    FROM (SELECT l AS line, p.present, NOT p.present
                 AND (l #>> '{job,video_id}' IS NULL
                      OR EXISTS (SELECT FROM videos WHERE id = (l #>> '{job,video_id}')::uuid))
                 AND (l #>> '{job,run_id}' IS NULL
                      OR EXISTS (SELECT FROM runs WHERE id = (l #>> '{job,run_id}')::uuid)) AS fits
          FROM jsonb_array_elements(p_lines) AS l,
               LATERAL (SELECT EXISTS (SELECT FROM jobs WHERE id = (l #>> '{job,id}')::uuid)) AS p (present)
          WHERE l ? 'job') AS lines;
    restored := insert_archived('jobs', jsonb_path_query_array(fresh, '$[*].job'));
    PERFORM insert_archived('ended_attempts', jsonb_path_query_array(fresh, '$[*].attempts[*]'));
    PERFORM insert_archived('task_artifacts', jsonb_path_query_array(fresh, '$[*].artifacts[*]'));
    PERFORM insert_archived('job_outputs', jsonb_path_query_array(fresh, '$[*].outputs[*]'));
    left_out := given - known - restored;
END
$$;
COMMENT ON FUNCTION restore_jobs IS
    'Writes jobs from export_jobs() back. A job that exists is left alone, so that this may be repeated. Jobs of '
    'videos that were deleted since are left out. A line that does not describe an ended job is an error.';

-- ---- who may call what --------------------------------------------------------------------------

SELECT secure_objects();
