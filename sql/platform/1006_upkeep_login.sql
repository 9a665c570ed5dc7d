-- What the login of upkeep may do with the platform; migrations/0021_upkeep_login.sql says what else.

CREATE POLICY job_definitions_upkeep ON job_definitions TO cortana_upkeep USING (true) WITH CHECK (true);
CREATE POLICY job_triggers_upkeep ON job_triggers TO cortana_upkeep USING (true) WITH CHECK (true);
CREATE POLICY trigger_firings_upkeep ON trigger_firings TO cortana_upkeep USING (true) WITH CHECK (true);
CREATE POLICY event_outbox_upkeep ON cortana.event_outbox TO cortana_upkeep USING (true) WITH CHECK (true);
CREATE POLICY webhooks_upkeep ON webhooks TO cortana_upkeep USING (true) WITH CHECK (true);
CREATE POLICY event_archives_upkeep ON cortana.event_archives TO cortana_upkeep USING (true) WITH CHECK (true);
CREATE POLICY job_archives_upkeep ON cortana.job_archives TO cortana_upkeep USING (true) WITH CHECK (true);
CREATE POLICY webhook_secrets_upkeep ON cortana.webhook_secrets FOR SELECT TO cortana_upkeep USING (true);
GRANT SELECT ON job_definitions, job_triggers, trigger_firings, cortana.event_outbox, webhooks, cortana.event_archives,
    cortana.job_archives, trigger_overview, webhook_overview TO cortana_upkeep;
-- How many secrets a webhook has.
GRANT SELECT (webhook, expires_at) ON cortana.webhook_secrets TO cortana_upkeep;
GRANT EXECUTE ON FUNCTION plan_command, cortana.command_files, cortana.fill_argument, event_partitions_before,
    export_events, drop_archived_events, cortana.leads_to_clip, cortana.jobs_asked_for, cortana.archive_fingerprint,
    jobs_to_archive, export_jobs, drop_archived_jobs TO cortana_upkeep;
