-- Upkeep: what the scheduler repeats at intervals.

CREATE TABLE cortana.upkeep_tasks (
    name text PRIMARY KEY,
    description text NOT NULL,
    every interval NOT NULL CHECK (every > '0'),
    routine text,
    due_at timestamptz NOT NULL DEFAULT '-infinity',
    last_at timestamptz,
    took_ms bigint,
    last_error text
);
COMMENT ON TABLE cortana.upkeep_tasks IS
    'Tasks that are repeated at intervals. Any scheduler may carry out a task that is due.';
COMMENT ON COLUMN cortana.upkeep_tasks.routine IS
    'Function of the schema cortana that carries out the task, with the time as its argument; null: run_upkeep() does.';

SELECT secure_table('upkeep_tasks');

INSERT INTO upkeep_tasks (name, description, every) VALUES
    ('expired_leases', 'jobs of workers that are gone, and retries that are due', '5 seconds'),
    ('sessions', 'interactive sessions that have ended', '1 minute'),
    ('event_partitions', 'the months to come of task_events', '1 hour'),
    ('queue_history', 'what happened to jobs, by minute and by hour', '1 minute'),
    ('api_records', 'what the HTTP API has recorded about its callers, when it is old', '1 hour'),
    ('uploads', 'uploads that nobody has gone on with for a week', '1 hour'),
    ('search_words', 'words that no line holds any more', '1 day');

INSERT INTO locks (name) VALUES ('upkeep');

CREATE FUNCTION cortana.run_upkeep(p_now timestamptz DEFAULT clock_timestamp()) RETURNS text
LANGUAGE plpgsql
SET lock_timeout = '3s' AS $$
DECLARE
    task upkeep_tasks;
    began timestamptz := clock_timestamp();
    problem text;
BEGIN
    PERFORM FROM locks WHERE name = 'upkeep' FOR UPDATE SKIP LOCKED;
    IF NOT FOUND THEN
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
            WHERE (SELECT is_turn FROM acquire_upkeep(name));
        WHEN 'sessions' THEN
            DELETE FROM interactive_sessions WHERE expires_at < p_now - interval '1 minute';
        WHEN 'event_partitions' THEN
            PERFORM create_event_partitions();
        WHEN 'api_records' THEN
            PERFORM prune_api_records();
        WHEN 'queue_history' THEN
            PERFORM record_queue_history(coalesce(task.last_at, p_now), p_now);
        WHEN 'uploads' THEN
            PERFORM delete_video(u.id) FROM (
                SELECT id FROM upload_sessions
                WHERE completed_at IS NULL AND touched_at < p_now - interval '7 days' LIMIT 100) AS u;
        WHEN 'search_words' THEN
            PERFORM search_words_prune();
        ELSE
            IF task.routine IS NULL THEN
                RAISE EXCEPTION 'the upkeep task has no implementation';
            END IF;
            EXECUTE format('SELECT cortana.%I($1)', task.routine) USING p_now;
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
COMMENT ON FUNCTION cortana.run_upkeep IS
    'Carries out one upkeep task that is due, and returns its name; null: no task is due, or another scheduler is '
    'carrying it out. A lock on the task is held only during the statement, so that a dead scheduler never blocks '
    'the others.';

CREATE FUNCTION scheduler_tick(p_now timestamptz DEFAULT clock_timestamp(),
                               OUT fired int, OUT dispatched int, OUT failed int, OUT wait_ms bigint)
LANGUAGE sql AS $$ SELECT 0, 0, 0, NULL::bigint $$;
COMMENT ON FUNCTION scheduler_tick IS
    'Hook: the program scheduler calls it each second, and after wait_ms. Does nothing; who has schedules replaces it.';

SELECT secure_objects();
