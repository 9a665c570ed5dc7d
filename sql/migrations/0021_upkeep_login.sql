-- What the login of upkeep may do: run the worker of `command` jobs, and the built-in commands (archives, gc, clips,
-- vectors, reindex). It may read the state of everything, but no text of a video, no secret and no key, and may
-- change only what these commands change. If a command of your own needs more, grant it: GRANT … TO cortana_upkeep.

-- ---- what it sees ------------------------------------------------------------------------------------------

CREATE POLICY videos_upkeep ON videos TO cortana_upkeep USING (true) WITH CHECK (true);
CREATE POLICY job_types_upkeep ON job_types TO cortana_upkeep USING (true) WITH CHECK (true);
CREATE POLICY workflows_upkeep ON workflows TO cortana_upkeep USING (true) WITH CHECK (true);
CREATE POLICY runs_upkeep ON runs TO cortana_upkeep USING (true) WITH CHECK (true);
CREATE POLICY jobs_upkeep ON jobs TO cortana_upkeep USING (true) WITH CHECK (true);
CREATE POLICY job_outputs_upkeep ON cortana.job_outputs TO cortana_upkeep USING (true) WITH CHECK (true);
CREATE POLICY ended_attempts_upkeep ON cortana.ended_attempts TO cortana_upkeep USING (true) WITH CHECK (true);
CREATE POLICY attempts_to_clear_upkeep ON cortana.attempts_to_clear FOR INSERT TO cortana_upkeep WITH CHECK (true);
CREATE POLICY task_events_upkeep ON task_events TO cortana_upkeep USING (true) WITH CHECK (true);
CREATE POLICY task_artifacts_upkeep ON task_artifacts TO cortana_upkeep USING (true) WITH CHECK (true);
CREATE POLICY workers_upkeep ON workers TO cortana_upkeep USING (true) WITH CHECK (true);
CREATE POLICY hosts_upkeep ON hosts TO cortana_upkeep USING (true) WITH CHECK (true);
CREATE POLICY disk_status_log_upkeep ON cortana.disk_status_log TO cortana_upkeep USING (true) WITH CHECK (true);
CREATE POLICY nodes_upkeep ON nodes TO cortana_upkeep USING (true) WITH CHECK (true);
CREATE POLICY interactive_sessions_upkeep ON cortana.interactive_sessions TO cortana_upkeep USING (true) WITH CHECK (true);
CREATE POLICY paused_tenants_upkeep ON cortana.paused_tenants TO cortana_upkeep USING (true) WITH CHECK (true);
CREATE POLICY job_type_upkeep_upkeep ON cortana.job_type_upkeep TO cortana_upkeep USING (true) WITH CHECK (true);
CREATE POLICY upkeep_tasks_upkeep ON cortana.upkeep_tasks TO cortana_upkeep USING (true) WITH CHECK (true);
CREATE POLICY uploads_upkeep ON cortana.uploads TO cortana_upkeep USING (true) WITH CHECK (true);
CREATE POLICY object_removals_upkeep ON cortana.object_removals TO cortana_upkeep USING (true) WITH CHECK (true);
CREATE POLICY kept_frames_upkeep ON kept_frames TO cortana_upkeep USING (true) WITH CHECK (true);
CREATE POLICY unread_lines_upkeep ON unread_lines TO cortana_upkeep USING (true) WITH CHECK (true);
CREATE POLICY line_packs_upkeep ON cortana.line_packs TO cortana_upkeep USING (true) WITH CHECK (true);
CREATE POLICY search_pending_upkeep ON cortana.search_pending TO cortana_upkeep USING (true) WITH CHECK (true);
CREATE POLICY embedding_models_upkeep ON embedding_models TO cortana_upkeep USING (true) WITH CHECK (true);
CREATE POLICY text_embeddings_upkeep ON cortana.text_embeddings FOR SELECT TO cortana_upkeep USING (true);
CREATE POLICY segments_upkeep ON segments FOR SELECT TO cortana_upkeep USING (true);

GRANT SELECT ON videos, job_types, workflows, runs, jobs, cortana.job_outputs, cortana.ended_attempts,
    task_events, task_artifacts, workers, hosts, cortana.disk_status_log, nodes, cortana.interactive_sessions,
    cortana.paused_tenants, cortana.job_type_upkeep, cortana.upkeep_tasks, cortana.uploads, cortana.object_removals, kept_frames,
    unread_lines, cortana.line_packs, cortana.search_pending, embedding_models TO cortana_upkeep;
GRANT SELECT ON job_attempts, node_overview, pipeline_stages, job_overview, run_overview, worker_overview,
    job_counts, worker_activity, job_failures, host_overview, queue_depth,
    job_flow TO cortana_upkeep;
-- Whether a video has text, and how much; how many texts have a vector.
GRANT SELECT (video_id) ON segments TO cortana_upkeep;
GRANT SELECT (model) ON cortana.text_embeddings TO cortana_upkeep;

-- ---- what its worker does ----------------------------------------------------------------------------------

GRANT INSERT, UPDATE ON jobs, cortana.job_outputs, cortana.ended_attempts, task_artifacts, workers, hosts, cortana.disk_status_log TO cortana_upkeep;
GRANT DELETE ON cortana.disk_status_log TO cortana_upkeep;
GRANT INSERT ON task_events, cortana.attempts_to_clear TO cortana_upkeep;
GRANT SELECT, INSERT, UPDATE ON cortana.locks TO cortana_upkeep;
GRANT USAGE ON SEQUENCE cortana.job_lease_tokens, cortana.task_event_ids, cortana.job_sequence TO cortana_upkeep;
CREATE POLICY locks_upkeep ON cortana.locks TO cortana_upkeep USING (true) WITH CHECK (true);
GRANT UPDATE ON cortana.job_type_upkeep TO cortana_upkeep;
GRANT EXECUTE ON FUNCTION claim_jobs, renew_lease, report_progress, fence_job, complete_job, complete_jobs,
    fail_job, release_job, settle_canceled_job, record_artifacts, cortana.take_upkeep, cortana.lease_jobs,
    cortana.claim_from_head, cortana.claim_room, cortana.choose_among_tenants, cortana.is_interactive,
    cortana.end_attempt, cortana.check_job_size, cortana.check_payload,
    cortana.check_own_job, cortana.settle_failure, cortana.rescue_expired_jobs, cortana.promote_due_jobs,
    cortana.release_dependents, cortana.job_transition_allowed, cortana.job_is_ready, cortana.default_lease,
    cortana.numbered_key, cortana.is_output, report_disk, report_worker, hand_on, continue_step,
    cortana.begin_step, cortana.step_payload, cortana.settle_runs, cortana.schema_state, cortana.take_lock,
    cortana.acts_for_everyone, json_schema_fault, cortana.json_format_fits,
    cortana.json_schema_defect TO cortana_upkeep;

-- ---- what its commands do ----------------------------------------------------------------------------------

GRANT UPDATE (original_state, original_state_at), DELETE ON videos TO cortana_upkeep;
GRANT EXECUTE ON FUNCTION cortana.expired_clips, cortana.mark_clip_removed, cortana.mark_original_missing, cortana.video_event, cortana.event_source, delete_video,
    cortana.has_open_job, prune_embeddings, reindex_video TO cortana_upkeep;
