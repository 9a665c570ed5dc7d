/* The columns of lists whose rows are items of the API. */
#pragma once

#include "cli/terminal/terminal.h"

extern const struct cli_column cli_columns_alerts[], cli_columns_searches[];
extern const struct cli_column cli_columns_alike[], cli_columns_collections[],
    cli_columns_commands[], cli_columns_shares[];
extern const struct cli_column cli_columns_hosts[], cli_columns_nodes[];
extern const struct cli_column cli_columns_invitations[], cli_columns_people[];
extern const struct cli_column cli_columns_rules[], cli_columns_tenants[], cli_columns_fields[];
extern const struct cli_column cli_columns_jobs[], cli_fields_job[], cli_columns_job[];
extern const struct cli_column cli_columns_embeddings[], cli_columns_queues[], cli_columns_times[],
    cli_columns_upkeep[];
extern const struct cli_column cli_columns_runs[], cli_fields_run[], cli_columns_run[];
extern const struct cli_column cli_columns_schedules[], cli_columns_triggers[];
extern const struct cli_column cli_columns_stages[], cli_columns_videos[];
extern const struct cli_column cli_columns_webhooks[];
extern const struct cli_column cli_columns_why[], cli_columns_workers[], cli_columns_workflows[];

extern const struct cli_column cli_fields_video[]; /* of one thing, a line each */
