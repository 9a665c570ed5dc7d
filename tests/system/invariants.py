"""What must be true of the queue's history whatever happened: read from task_events, job_attempts,
jobs and trigger_firings alone, each as a statement whose rows are the violations."""

INVARIANTS = {
    "a job's timeline is a legal path, without gaps": """
        SELECT job_id, id, came_from, data ->> 'from' AS says_from, data ->> 'to' AS says_to FROM (
            SELECT *, lag(data ->> 'to') OVER (PARTITION BY job_id ORDER BY id) AS came_from
            FROM task_events WHERE job_id IS NOT NULL AND type IN ('status', 'retry')) AS event
        WHERE came_from IS DISTINCT FROM data ->> 'from'
           OR (came_from IS NULL AND data ->> 'to' <> 'queued')
           OR NOT coalesce(job_transition_allowed((data ->> 'from')::job_status,
                                                  (data ->> 'to')::job_status), true)""",
    "a job is what its timeline says last": """
        SELECT j.id, j.status, last.status AS told FROM jobs j LEFT JOIN LATERAL (
            SELECT data ->> 'to' AS status FROM task_events e
            WHERE e.job_id = j.id AND type IN ('status', 'retry') ORDER BY e.id DESC LIMIT 1) AS last
            ON true
        WHERE last.status IS DISTINCT FROM j.status::text""",
    "fencing tokens only grow": """
        SELECT * FROM (
            SELECT job_id, attempt, lease_token, lag(lease_token) OVER same_job AS earlier,
                   lag(attempt) OVER same_job AS before
            FROM job_attempts WINDOW same_job AS (PARTITION BY job_id ORDER BY attempt)) AS leased
        WHERE lease_token <= earlier OR attempt <> before + 1""",
    "a token is given out once": """
        SELECT lease_token FROM job_attempts GROUP BY 1 HAVING count(*) > 1""",
    "one lease at a time": """
        SELECT * FROM (
            SELECT job_id, attempt, started_at,
                   lag(finished_at) OVER (PARTITION BY job_id ORDER BY attempt) AS ended,
                   lag(attempt) OVER (PARTITION BY job_id ORDER BY attempt) AS before
            FROM job_attempts) AS leased
        WHERE before IS NOT NULL AND (ended IS NULL OR ended > started_at)""",
    "every start and every settle carries the token of its attempt": """
        SELECT e.job_id, e.id, e.data FROM task_events e
        LEFT JOIN job_attempts a ON a.job_id = e.job_id AND a.attempt = (e.data ->> 'attempt')::int
        WHERE e.type = 'status' AND 'processing' IN (e.data ->> 'from', e.data ->> 'to')
          AND (a.lease_token IS DISTINCT FROM (e.data ->> 'lease_token')::bigint
               OR a.worker_id IS DISTINCT FROM e.data ->> 'worker')""",
    "a done job has one attempt that succeeded, its last": """
        SELECT j.id, j.status, j.attempt FROM jobs j LEFT JOIN job_attempts a ON a.job_id = j.id
        GROUP BY j.id
        HAVING count(a.*) FILTER (WHERE a.status = 'succeeded') <> (j.status = 'done')::int
            OR (j.status = 'done'
                AND max(a.attempt) FILTER (WHERE a.status = 'succeeded') IS DISTINCT FROM j.attempt)""",
    "what has ended holds no lease, what runs holds one": """
        SELECT id, status, locked_by, locked_until FROM jobs
        WHERE (status = 'processing') <> (locked_by IS NOT NULL)
           OR (status = 'processing') <> (locked_until IS NOT NULL)""",
    "no attempt is missing from the history": """
        SELECT j.id, j.attempt, count(a.*) FROM jobs j LEFT JOIN job_attempts a ON a.job_id = j.id
        GROUP BY j.id HAVING count(a.*) <> j.attempt""",
    "no child before its parents": """
        SELECT child.id, parent.id AS parent, a.started_at, parent.finished_at
        FROM jobs child CROSS JOIN unnest(child.depends_on) AS needed (id)
        JOIN jobs parent ON parent.id = needed.id
        JOIN job_attempts a ON a.job_id = child.id
        WHERE parent.status <> 'done' OR a.started_at < parent.finished_at""",
    "retries that count are those of attempts that failed": """
        SELECT j.id, j.retry_count, j.status FROM jobs j LEFT JOIN job_attempts a ON a.job_id = j.id
        GROUP BY j.id
        HAVING j.status = 'done' AND j.retry_count <> count(*) FILTER (
            WHERE a.status IN ('failed', 'crashed', 'timeout'))""",
    "each instant and each event is enqueued once": """
        SELECT e.job_id, e.id, count(f.id) AS firings FROM task_events e
        LEFT JOIN trigger_firings f ON f.job_id = e.job_id AND f.outcome = 'fired'
        WHERE e.source = 'scheduler' AND e.type = 'status' AND e.data ->> 'to' = 'queued'
          AND e.data ->> 'from' IS NULL
        GROUP BY e.job_id, e.id HAVING count(f.id) <> 1""",
    "what a trigger fired is there": """
        SELECT f.* FROM trigger_firings f JOIN job_triggers t ON t.id = f.trigger_id
        WHERE f.outcome = 'failed'
           OR (f.outcome = 'fired' AND t.action <> 'run'
               AND NOT EXISTS (SELECT FROM jobs j WHERE j.id = f.job_id
                                                    AND j.correlation_id = f.correlation_id))""",
    "no instant is left out": """
        WITH RECURSIVE expected AS (
            SELECT t.id, t.name, t.cron, t.time_zone, t.next_at, min(f.instant) AS instant
            FROM job_triggers t JOIN trigger_firings f ON f.trigger_id = t.id
            WHERE t.catch_up = 'all' AND f.instant IS NOT NULL GROUP BY t.id
            UNION ALL
            SELECT id, name, cron, time_zone, next_at, next_cron(cron, time_zone, instant)
            FROM expected WHERE instant < next_at)
        SELECT name, instant FROM expected e WHERE instant < next_at AND NOT EXISTS (
            SELECT FROM trigger_firings f WHERE f.trigger_id = e.id AND f.instant = e.instant)""",
}


def violations(jobs):
    """{what was broken: rows}; empty when nothing was. `jobs` is a workers.Jobs."""
    found = {name: jobs.rows(statement) for name, statement in INVARIANTS.items()}
    return {name: rows for name, rows in found.items() if rows}
