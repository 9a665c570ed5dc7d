#include "cli/commands/columns.h"

#define END        \
    {              \
        NULL, NULL \
    }

const struct cli_column cli_columns_alike[] = {
    {"video.id", "VIDEO"},
    {"{share:percent}", "SAME"},
    {"shared_lines", "LINES"},
    {"video.title", "NAME"},
    END,
};

const struct cli_column cli_columns_collections[] = {
    {"id", "COLLECTION"},
    {"videos", "VIDEOS"},
    {"{updated_at:time}", "CHANGED (UTC)"},
    {"name", "NAME"},
    END,
};

const struct cli_column cli_columns_commands[] = {
    {"key", "COMMAND"},
    {"[{!is_enabled}nobody|{?is_public}applications|operators]", "FOR"},
    {"time_limit_ms", "LIMIT"},
    {"description", "WHAT IT DOES"},
    END,
};

const struct cli_column cli_columns_hosts[] = {
    {"host", "HOST"},
    {"[{cpu_budget}|-]", "CPU BUDGET"},
    {"disk_level", "DISK"},
    {"[{disk_used_percent:round} %]", "FULL"},
    {"{disk_checked_at:ago}", "LOOKED AT"},
    END,
};

const struct cli_column cli_columns_embeddings[] = {
    {"name", "MODEL"},
    {"dimensions", "NUMBERS"},
    {"texts", "TEXTS"},
    {"[{?is_in_use}in the pipeline]", ""},
    END,
};

#define WHAT "[{error.message}|{message}]"

const struct cli_column cli_columns_jobs[] = {
    {"id", "JOB"},
    {"job_type", "TYPE"},
    {"state", "STATE"},
    {"{progress:percent}", "DONE"},
    {"attempt", "TRY"},
    {"running_ms", "TIME"},
    {"{video.title}", "VIDEO"},
    {WHAT, "NOTE"},
    END,
};

const struct cli_column cli_fields_job[] = {
    {"{id}", "id"},
    {"{job_type}", "job_type"},
    {"{state}", "state"},
    {"{video.title}", "video"},
    {"{priority}", "priority"},
    {"{attempt}", "attempt"},
    {"{created_at:time}", "created"},
    {"{scheduled_for:time}", "scheduled_for"},
    {"{worker}", "worker"},
    {"{error.type}", "error_type"},
    {"{error.message}", "error_message"},
    {"{result.encoded_because}", "encoded_because"},
    {"{payload}", "payload"},
    {"{result}", "result"},
    END,
};

/* Attempts, then events. */
const struct cli_column cli_columns_job[] = {
    {"attempt", "TRY"},
    {"status", "STATUS"},
    {"running_ms", "TIME"},
    {"exit_code", "EXIT"},
    {"[{cpu_seconds:s}]", "CPU"},
    {"[{peak_memory_bytes:size}]", "MEMORY"},
    {"error_type", "FAILURE"},
    {"error_message", ""},
    END,
    {"{ts:time}", "EVENT (UTC)"},
    {"level", "LEVEL"},
    {"source", "SOURCE"},
    {"message", "MESSAGE"},
    END,
};

/* Queues, then the jobs that run. */
const struct cli_column cli_columns_queues[] = {
    {"job_type", "TYPE"},
    {"state", "STATE"},
    {"ready", "READY"},
    {"waiting", "WAITING"},
    {"running", "RUNNING"},
    {"retrying", "RETRYING"},
    {"dead", "DEAD"},
    {"{oldest_ready_seconds:s}", "OLDEST"},
    END,
    {"id", "JOB"},
    {"job_type", "TYPE"},
    {"{progress:percent}", "DONE"},
    {"running_ms", "TIME"},
    {"{video.title}", "VIDEO"},
    {"message", "DOING"},
    END,
};

const struct cli_column cli_columns_nodes[] = {
    {"name", "NODE"},
    {"[{!is_enabled}off|{awake_state}]", "STATE"},
    {"wake_method", "WAKE"},
    {"job_types", "JOBS"},
    {"{woken_at:ago}", "WOKEN"},
    {"[{mac}|{script}]", "BY"},
    END,
};

const struct cli_column cli_columns_rules[] = {
    {"name", "TYPE"},
    {"base_priority", "PRIORITY"},
    {"[{?put_off_while_interactive}put off|{!interactive_adjustment=0}{interactive_adjustment}]",
     "BUSY"},
    {"cpu_weight", "WEIGHT"},
    {"[{max_running}|-]", "MAX"},
    {"[{max_running_per_tenant}|-]", "TENANT"},
    {"time_limit_ms", "LIMIT"},
    {"[{?paused_at}paused[: {pause_reason}]]", "NOTE"},
    END,
};

/* Why nothing happens, or what happened last. */
#define TRIGGER_STATE "[{?paused_at}paused[: {pause_reason}]|failed: {last_error}|{last.outcome}]"

#define RUN_NOTE "[{failed_step}: {error.message}|{status=running}{current_steps}]"

const struct cli_column cli_columns_runs[] = {
    {"id", "RUN"},
    {"workflow", "WORKFLOW"},
    {"status", "STATE"},
    {"{jobs_done}/{job_count}", "JOBS"},
    {"running_ms", "TIME"},
    {"{video.title}", "VIDEO"},
    {RUN_NOTE, "AT, OR WHY"},
    END,
};

const struct cli_column cli_fields_run[] = {
    {"{id}", "run"},
    {"{workflow} {version}", "workflow"},
    {"{status}", "state"},
    {"{video.title}", "video"},
    {"{created_at:time}", "created"},
    {RUN_NOTE, "at, or why"},
    END,
};

const struct cli_column cli_columns_run[] = {
    {"id", "JOB"},
    {"step", "STEP"},
    {"part", "PART"},
    {"state", "STATE"},
    {"{progress:percent}", "DONE"},
    {"attempt", "TRY"},
    {"running_ms", "TIME"},
    {WHAT, "NOTE"},
    END,
};

const struct cli_column cli_columns_times[] = {
    {"local", "NEXT"},
    {"time_zone", "ZONE"},
    {"{at:time}", "UTC"},
    END,
};

const struct cli_column cli_columns_upkeep[] = {
    {"name", "TASK"},
    {"every_ms", "EVERY"},
    {"{last_at:ago}", "AGO"},
    {"took_ms", "TOOK"},
    {"[failed: {last_error}|{description}]", "WHAT"},
    END,
};

const struct cli_column cli_columns_schedules[] = {
    {"name", "SCHEDULE"},
    {"cron", "CRON"},
    {"next_local", "NEXT"},
    {"time_zone", "ZONE"},
    {"{action} {target}", "DOES"},
    {TRIGGER_STATE, "LAST"},
    END,
};

const struct cli_column cli_columns_people[] = {
    {"id", "PERSON"},
    {"name", "NAME"},
    {"email", "E-MAIL"},
    {"[{?is_operator}operator]", "OPERATOR"},
    {"state", "STATE"},
    {"{last_seen_at:ago}", "SEEN"},
    END,
};

const struct cli_column cli_columns_invitations[] = {
    {"id", "INVITATION"}, {"[{email}|anybody]", "FOR"},         {"tenant", "TENANT"},
    {"role", "ROLE"},     {"{expires_at:time}", "UNTIL (UTC)"}, END,
};

const struct cli_column cli_columns_fields[] = {
    {"name", "FIELD"},
    {"type", "TYPE"},
    {"choices", "CHOICES"},
    {"[{?required}yes]", "REQUIRED"},
    END,
};

const struct cli_column cli_columns_tenants[] = {
    {"[{tenant_id}|default]", "TENANT"},
    {"name", "NAME"},
    {"time_zone", "ZONE"},
    {"{stored_bytes:size}", "STORED"},
    {"{max_bytes:size}", "LIMIT"},
    {"videos", "VIDEOS"},
    {"[{?paused_at}[{pause_reason}|yes]]", "PAUSED"},
    END,
};

const struct cli_column cli_columns_triggers[] = {
    {"name", "TRIGGER"},           {"event", "EVENT"},
    {"{action} {target}", "DOES"}, {"{last.fired_at:ago}", "AGO"},
    {TRIGGER_STATE, "LAST"},       END,
};

const struct cli_column cli_columns_stages[] = {
    {"job_id", "JOB"},
    {"step", "STEP"},
    {"status", "STATE"},
    {"{progress:percent}", "DONE"},
    {"attempt", "TRY"},
    {"running_ms", "TIME"},
    {"[{error_message}|{message}]", "NOTE"},
    END,
};

const struct cli_column cli_columns_videos[] = {
    {"id", "VIDEO"},
    {"status", "STATE"},
    {"{duration_ms:clock}", "LENGTH"},
    {"resolution", "SIZE"},
    {"{created_at:time}", "ADDED (UTC)"},
    {"[{title}|{id}]", "TITLE"},
    END,
};

const struct cli_column cli_fields_video[] = {
    {"{id}", "id"},
    {"{title}", "title"},
    {"{name}", "file"},
    {"{description}", "description"},
    {"{tags}", "tags"},
    {"[{recorded_at:time} ({recorded_from})]", "recorded"},
    {"[{?favourite}yes]", "favourite"},
    {"{status}", "status"},
    {"{trouble}", "trouble"},
    {"{duration_ms:clock}", "length"},
    {"{resolution}", "size"},
    {"{fps}", "fps"},
    {"[{container}, {video_codec}, {pixel_format}]", "video"},
    {"[{audio_codec}[, {audio_channels} channels]]", "sound"},
    {"{created_at:time}", "added"},
    {"{lines}", "lines"},
    {"{languages}", "languages"},
    END,
};

const struct cli_column cli_columns_alerts[] = {
    {"{matched_at:time}", "FOUND (UTC)"}, {"search.name", "SEARCH"},       {"video_title", "VIDEO"},
    {"{moments.0.t_start} ms", "AT"},     {"moments.0.text", "ON SCREEN"}, END,
};

const struct cli_column cli_columns_searches[] = {
    {"id", "ID"},
    {"name", "SEARCH"},
    {"query", "QUERY"},
    {"{matches}", "VIDEOS"},
    {"mail", "MAIL"},
    {"feed_url", "FEED"},
    END,
};

const struct cli_column cli_columns_shares[] = {
    {"id", "ID"},           {"kind", "SHOWS"},
    {"title", "OF"},        {"state", "STATE"},
    {"{views}", "OPENED"},  {"[{ends_at:time}|-]", "UNTIL (UTC)"},
    {"made_by", "MADE BY"}, END,
};

const struct cli_column cli_columns_webhooks[] = {
    {"name", "WEBHOOK"},
    {"url", "URL"},
    {"events", "EVENTS"},
    {"[{?disabled_at}off[: {disabled_reason}]|{last.state}[: {last.error}]]", "LAST"},
    END,
};

const struct cli_column cli_columns_why[] = {{"reason", "REASON"}, {"detail", ""}, END};

const struct cli_column cli_columns_workers[] = {
    {"state", "STATE"},
    {"job_types", "JOBS"},
    {"{running}/{slots}", "RUNNING"},
    {"{silent_seconds:s}", "LAST SEEN"},
    {"version", "VERSION"},
    {"{id:whole}", "WORKER"},
    END,
};

const struct cli_column cli_columns_workflows[] = {
    {"name", "WORKFLOW"},
    {"version", "VERSION"},
    {"{steps:length}", "STEPS"},
    {"description", "DESCRIPTION"},
    END,
};
