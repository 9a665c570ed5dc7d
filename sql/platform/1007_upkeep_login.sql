-- What the login of upkeep may do with the platform; migrations/0021_upkeep_login.sql says what else.

CREATE POLICY webhook_secrets_upkeep ON cortana.webhook_secrets FOR SELECT TO cortana_upkeep USING (true);
SELECT show_upkeep('job_definitions', 'job_triggers', 'trigger_firings', 'event_outbox', 'webhooks',
    'event_archives', 'job_archives');
-- How many secrets a webhook has.
GRANT SELECT (webhook, expires_at) ON cortana.webhook_secrets TO cortana_upkeep;
GRANT EXECUTE ON FUNCTION plan_command, cortana.command_files, cortana.fill_argument, event_partitions_before,
    export_events, drop_archived_events, cortana.leads_to_clip, cortana.jobs_asked_for, cortana.archive_fingerprint,
    jobs_to_archive, export_jobs, drop_archived_jobs TO cortana_upkeep;
GRANT EXECUTE ON FUNCTION api.shown_name, api.definition_object, api.definitions, api.definition, api.triggers, api.trigger, api.firings,
    api.webhooks TO cortana_upkeep;
