-- Nodes: hosts that sleep until jobs need them.

CREATE TABLE nodes (
    name text PRIMARY KEY,
    host text NOT NULL,
    job_types text[] NOT NULL,
    wake_method text NOT NULL CHECK (wake_method IN ('wol', 'script')),
    mac text CHECK (mac ~* '^[0-9a-f]{2}([:-][0-9a-f]{2}){5}$'),
    broadcast text NOT NULL DEFAULT '255.255.255.255',
    port int NOT NULL DEFAULT 9 CHECK (port BETWEEN 1 AND 65535),
    script text[],
    is_enabled boolean NOT NULL DEFAULT true,
    wake_requested_at timestamptz,
    woken_at timestamptz,
    labels jsonb NOT NULL DEFAULT '{}' CHECK (jsonb_typeof(labels) = 'object'),
    max_concurrency int CHECK (max_concurrency >= 1),
    CHECK (wake_method <> 'wol' OR mac IS NOT NULL),
    CHECK (wake_method <> 'script' OR coalesce(script[1] LIKE '/%', false))
);
COMMENT ON TABLE nodes IS 'Hosts that sleep and that the scheduler wakes when jobs need them.';
COMMENT ON COLUMN nodes.script IS 'Program (an absolute path) and arguments; run without a shell.';
COMMENT ON COLUMN nodes.labels IS 'Labels that operators give the node, as {"zone": "eu"}.';
COMMENT ON COLUMN nodes.max_concurrency IS 'How many jobs of all types may run on the host at once; null: no limit.';
COMMENT ON COLUMN nodes.name IS 'Name of the node.';
COMMENT ON COLUMN nodes.host IS 'Name of the host, as its workers report it.';
COMMENT ON COLUMN nodes.job_types IS 'Job types; jobs of these types wake the node.';
COMMENT ON COLUMN nodes.wake_method IS 'wol (Wake-on-LAN) or script.';
COMMENT ON COLUMN nodes.mac IS 'Hardware address, for Wake-on-LAN.';
COMMENT ON COLUMN nodes.broadcast IS 'Address that the Wake-on-LAN packet is sent to.';
COMMENT ON COLUMN nodes.port IS 'UDP port of the Wake-on-LAN packet.';
COMMENT ON COLUMN nodes.is_enabled IS 'False: the node is never woken.';
COMMENT ON COLUMN nodes.wake_requested_at IS 'When somebody asked for it to be woken; null: nobody, or it was done.';
COMMENT ON COLUMN nodes.woken_at IS 'When the node was last woken.';

SELECT secure_table('nodes');

CREATE VIEW node_overview AS
SELECT n.name, n.host, n.labels, n.job_types, n.wake_method, n.mac, n.script, n.is_enabled, n.max_concurrency, n.woken_at, w.last_seen,
       CASE WHEN w.last_awake > clock_timestamp() - interval '5 minutes' THEN 'awake'
            WHEN n.woken_at > clock_timestamp() - interval '5 minutes' THEN 'waking' ELSE 'asleep' END AS awake_state,
       coalesce(w.running, 0) AS running
FROM nodes n
CROSS JOIN LATERAL (
    SELECT max(last_seen) AS last_seen, max(last_seen) FILTER (WHERE state = 'running') AS last_awake,
           sum(running) FILTER (WHERE last_seen > clock_timestamp() - interval '5 minutes') AS running
    FROM workers WHERE host = n.host) AS w;
COMMENT ON VIEW node_overview IS
    'One row a node: when a worker of its host was last seen, and whether it is awake, waking (woken within the last 5 '
    'minutes) or asleep.';

CREATE FUNCTION nodes_to_wake() RETURNS SETOF nodes
LANGUAGE plpgsql AS $$
DECLARE
    soon CONSTANT interval := '5 minutes';
    horizon CONSTANT timestamptz := clock_timestamp() + soon;
    node nodes;
BEGIN
    FOR node IN
        SELECT * FROM nodes n
        WHERE n.wake_requested_at IS NOT NULL
           OR n.is_enabled AND (n.woken_at IS NULL OR n.woken_at < clock_timestamp() - soon)
              AND NOT EXISTS (SELECT FROM workers w
                              WHERE w.host = n.host AND w.state = 'running'
                                AND w.last_seen > clock_timestamp() - soon)
        ORDER BY n.name
        FOR UPDATE SKIP LOCKED
    LOOP
        CONTINUE WHEN node.wake_requested_at IS NULL AND NOT EXISTS (
            SELECT FROM unnest(node.job_types) AS wanted (job_type)
            JOIN job_types t ON t.name = wanted.job_type AND t.paused_at IS NULL
            CROSS JOIN LATERAL (
                SELECT coalesce(sum(greatest(w.slots - w.running, 0)), 0) AS free FROM workers w
                WHERE w.state = 'running' AND w.drain_requested_at IS NULL
                  AND w.last_seen > clock_timestamp() - soon
                  AND wanted.job_type = ANY (w.job_types)) AS awake
            CROSS JOIN LATERAL (
                SELECT count(*) AS due FROM (
                    (SELECT 1 FROM jobs j
                     WHERE j.job_type = wanted.job_type AND j.status = 'queued' AND j.is_ready
                     LIMIT awake.free + 1)
                    UNION ALL
                    (SELECT 1 FROM jobs j
                     WHERE j.job_type = wanted.job_type AND j.status = 'queued' AND NOT j.is_ready
                       AND j.unmet_dependencies = 0 AND j.scheduled_for <= horizon
                     LIMIT awake.free + 1)
                    UNION ALL
                    (SELECT 1 FROM jobs j
                     WHERE j.job_type = wanted.job_type AND j.status = 'failed' AND NOT j.is_ready
                       AND j.scheduled_for <= horizon
                     LIMIT awake.free + 1)) AS starting) AS work
            WHERE work.due > awake.free);
        UPDATE nodes SET woken_at = clock_timestamp(), wake_requested_at = NULL WHERE name = node.name;
        RETURN NEXT node;
    END LOOP;
END
$$;
COMMENT ON FUNCTION nodes_to_wake IS
    'Returns the nodes to wake now, and marks each as woken, so that it is not returned again within 5 minutes. A '
    'node is returned if no worker runs on its host and more jobs are due within 5 minutes than running workers '
    'have free slots, or if somebody asked for it.';

CREATE OR REPLACE FUNCTION cortana.host_limit(p_host text) RETURNS int
LANGUAGE sql STABLE
RETURN (SELECT min(max_concurrency) FROM nodes WHERE host = p_host);
COMMENT ON FUNCTION cortana.host_limit IS 'How many jobs of all types may run on a host at once; null: no limit.';

CREATE OR REPLACE FUNCTION cortana.machines_to_wake()
RETURNS TABLE (name text, host text, wake_method text, mac text, broadcast text, port int, script jsonb)
LANGUAGE sql AS $$
    SELECT n.name, n.host, n.wake_method, n.mac, n.broadcast, n.port, to_jsonb(n.script) FROM nodes_to_wake() AS n
$$;
COMMENT ON FUNCTION cortana.machines_to_wake IS 'The nodes to wake now, each marked as woken: those of nodes_to_wake().';

CREATE FUNCTION api.nodes(p jsonb) RETURNS api.answer
LANGUAGE sql STABLE
RETURN api.all_items((SELECT jsonb_agg(to_jsonb(n) ORDER BY n.name) FROM node_overview n));

CREATE FUNCTION api.define_node(p jsonb) RETURNS api.answer
LANGUAGE plpgsql AS $$
DECLARE
    node nodes;
BEGIN
    SELECT * INTO node FROM nodes WHERE name = p ->> 'node' FOR UPDATE;
    IF NOT FOUND THEN
        node := jsonb_populate_record(NULL::nodes, '{"broadcast": "255.255.255.255", "port": 9, "is_enabled": true, "labels": {}}');
        node.name := p ->> 'node';
        node.host := p ->> 'node';
    END IF;
    node := jsonb_populate_record(node, p - 'node');
    node.wake_method := CASE WHEN p ? 'script' THEN 'script' WHEN p ? 'mac' THEN 'wol' ELSE node.wake_method END;
    DELETE FROM nodes WHERE name = node.name;
    INSERT INTO nodes SELECT node.*;
    RETURN api.ok((SELECT to_jsonb(o) FROM node_overview o WHERE o.name = node.name));
EXCEPTION WHEN not_null_violation OR check_violation THEN
    RAISE EXCEPTION 'a node has job_types for which it is woken, and mac, a hardware address like 00:11:22:aa:bb:cc, or script, the absolute path of a program with its arguments'
        USING ERRCODE = 'invalid_parameter_value';
END
$$;

CREATE FUNCTION api.delete_node(p jsonb) RETURNS api.answer
LANGUAGE plpgsql AS $$
BEGIN
    DELETE FROM nodes WHERE name = p ->> 'node';
    RETURN api.done(FOUND);
END
$$;

CREATE FUNCTION api.wake_node(p jsonb) RETURNS api.answer
LANGUAGE plpgsql AS $$
BEGIN
    UPDATE nodes SET wake_requested_at = now() WHERE name = p ->> 'node';
    RETURN api.done(FOUND);
END
$$;

-- ---- who may call what --------------------------------------------------------------------------

SELECT secure_objects(p_for_the_service => '{nodes,define_node,delete_node,wake_node}');
SELECT show_upkeep('nodes');
GRANT SELECT ON node_overview TO cortana_upkeep;
GRANT EXECUTE ON FUNCTION api.nodes TO cortana_upkeep;
