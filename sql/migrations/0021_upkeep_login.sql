-- What the login of upkeep may do: run the worker of `command` jobs, and the built-in commands (archives, gc, clips,
-- vectors, reindex). It may read the state of everything, but no text of a video, no secret and no key, and may
-- change only what these commands change. If a command of your own needs more, grant it: GRANT … TO cortana_upkeep.

-- ---- what it sees ------------------------------------------------------------------------------------------

CREATE FUNCTION cortana.show_upkeep(VARIADIC p_tables regclass[]) RETURNS void
LANGUAGE plpgsql AS $$
DECLARE
    shown regclass;
BEGIN
    FOREACH shown IN ARRAY p_tables LOOP
        EXECUTE format('CREATE POLICY %I ON %s TO cortana_upkeep USING (true) WITH CHECK (true)',
                       (SELECT relname FROM pg_class WHERE oid = shown) || '_upkeep', shown);
        EXECUTE format('GRANT SELECT ON %s TO cortana_upkeep', shown);
    END LOOP;
END
$$;
COMMENT ON FUNCTION cortana.show_upkeep IS 'For migrations: lets the login of upkeep read tables; what it may change is granted.';
SELECT secure_objects();

CREATE POLICY attempts_to_clear_upkeep ON cortana.attempts_to_clear FOR INSERT TO cortana_upkeep WITH CHECK (true);
CREATE POLICY text_embeddings_upkeep ON cortana.text_embeddings FOR SELECT TO cortana_upkeep USING (true);
CREATE POLICY segments_upkeep ON segments FOR SELECT TO cortana_upkeep USING (true);

SELECT show_upkeep('videos', 'job_types', 'workflows', 'runs', 'jobs', 'job_outputs', 'ended_attempts',
    'task_events', 'task_artifacts', 'workers', 'hosts', 'disk_status_log', 'interactive_sessions',
    'paused_tenants', 'job_type_upkeep', 'upkeep_tasks', 'uploads', 'object_removals', 'kept_frames',
    'unread_lines', 'line_packs', 'favourites', 'search_pending', 'embedding_models');
GRANT SELECT ON job_attempts, pipeline_stages, job_overview, run_overview, worker_overview,
    job_counts, worker_activity, job_failures, host_overview, queue_depth,
    job_flow TO cortana_upkeep;
-- Whether a video has text, and how much; how many texts have a vector.
GRANT SELECT (video_id, source) ON segments TO cortana_upkeep;
GRANT SELECT (model) ON cortana.text_embeddings TO cortana_upkeep;

-- The operations behind `cortana workers`, `cortana rules` and the other lists.
GRANT USAGE ON SCHEMA api TO cortana_upkeep;
GRANT EXECUTE ON FUNCTION api.ok, api.versioned, api.not_found, api.require_found, api.is_service, api.all_items,
    api.find, api.workers, api.host_objects, api.hosts, api.job_type_object, api.job_types, api.workflows,
    api.videos, api.newest_videos, api.video_matches, api.video_object, cortana.unread_scripts, cortana.video_trouble, cortana.is_favourite, cortana.tag_keys, api.failure_of,
    api.page, api.make_cursor, api.read_cursor, api.filters_hash, api.jobs, api.running_jobs, api.all_jobs, api.window_jobs, api.video_jobs,
    api.jobs_by_id, api.job_object, cortana.job_state, api.job_states, api.job_matches, api.job_mentions, api.named_video,
    api.job, api.shown_payload, api.job_payload, api.require_job, api.attempts, api.job_events, api.runs, api.run,
    api.run_object, api.upkeep_tasks, api.embeddings, api.prune_embeddings, embedding_model_in_use, priority_number, cortana.priority_names, cortana.priority_list
    TO cortana_upkeep;
GRANT SELECT ON worker_activity TO cortana_upkeep;

-- ---- what its worker does ----------------------------------------------------------------------------------

GRANT INSERT, UPDATE ON jobs, cortana.job_outputs, cortana.ended_attempts, task_artifacts, workers, hosts, cortana.disk_status_log TO cortana_upkeep;
GRANT DELETE ON cortana.disk_status_log TO cortana_upkeep;
GRANT INSERT ON task_events, cortana.attempts_to_clear TO cortana_upkeep;
GRANT SELECT, INSERT, UPDATE ON cortana.locks TO cortana_upkeep;
GRANT USAGE ON SEQUENCE cortana.job_lease_tokens, cortana.task_event_ids, cortana.job_sequence TO cortana_upkeep;
CREATE POLICY locks_upkeep ON cortana.locks TO cortana_upkeep USING (true) WITH CHECK (true);
GRANT UPDATE ON cortana.job_type_upkeep TO cortana_upkeep;
GRANT EXECUTE ON FUNCTION claim_jobs, renew_lease, report_progress, fence_job, complete_job, complete_jobs,
    fail_job, release_job, settle_canceled_job, record_artifacts, cortana.acquire_upkeep, cortana.lease_jobs,
    cortana.claim_from_head, cortana.claim_room, cortana.host_limit, cortana.choose_among_tenants, cortana.is_interactive,
    cortana.end_attempt, cortana.check_job_size, cortana.check_payload,
    cortana.check_own_job, cortana.settle_failure, cortana.rescue_expired_jobs, cortana.promote_due_jobs,
    cortana.release_dependents, cortana.job_transition_allowed, cortana.job_is_ready, cortana.default_lease,
    cortana.numbered_key, cortana.is_output, report_disk, report_worker, hand_on, continue_step,
    cortana.begin_step, cortana.step_payload, cortana.settle_runs, cortana.schema_state, cortana.acquire_lock,
    cortana.acts_for_everyone, json_schema_fault, cortana.json_format_fits,
    cortana.json_schema_defect TO cortana_upkeep;

-- ---- what its commands do ----------------------------------------------------------------------------------

GRANT UPDATE (original_state, original_state_at), DELETE ON videos TO cortana_upkeep;
GRANT EXECUTE ON FUNCTION cortana.clip_parts, cortana.expired_clips, cortana.mark_clip_removed, cortana.mark_original_missing, cortana.video_event, cortana.event_source, delete_video,
    cortana.has_open_job, prune_embeddings, reindex_video TO cortana_upkeep;
