#include "cli/commands/columns.h"

#define END        \
    {              \
        NULL, NULL \
    }

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

const struct cli_column cli_columns_schedules[] = {
    {"name", "SCHEDULE"},
    {"cron", "CRON"},
    {"next_local", "NEXT"},
    {"time_zone", "ZONE"},
    {"{action} {target}", "DOES"},
    {TRIGGER_STATE, "LAST"},
    END,
};

const struct cli_column cli_columns_tenants[] = {
    {"[{tenant_id}|default]", "TENANT"},
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
    {"{recorded_at:time}", "recorded"},
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
    {"matched_at", "FOUND"},          {"search.name", "SEARCH"},       {"video_title", "VIDEO"},
    {"{moments.0.t_start} ms", "AT"}, {"moments.0.text", "ON SCREEN"}, END,
};

const struct cli_column cli_columns_searches[] = {
    {"id", "ID"},         {"name", "SEARCH"},
    {"query", "QUERY"},   {"{matches}", "VIDEOS"},
    {"feed_url", "FEED"}, END,
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
