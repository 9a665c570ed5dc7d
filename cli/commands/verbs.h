/* The functions of the verbs, named in cli/verbs.toml and platform/verbs.toml, grouped by file. Each
 * returns an exit status (0 or more) or a failure, which the caller prints. */
#pragma once

#include "cli/commands/print.h"

/* The parameters of a list of jobs, and of a change of many: those of the options that select jobs. */
#define CLI_JOB_FILTER "type:type tenant:uuid video:video error status>state"

typedef int cli_action(struct cli_call *call, struct cv_error *error);

/* run.c, clip.c, search.c, export.c, doctor.c, completion.c */
cli_action cli_run, cli_clip, cli_quote, cli_reel, cli_search, cli_export, cli_doctor,
    cli_completion;

/* operation.c: the verbs that are one operation of the API */
cli_action cli_request;

/* mcp.c */
cli_action cli_mcp;

/* server.c */
cli_action cli_login, cli_logout;

/* subtitles.c */
cli_action cli_subtitles;

/* videos.c */
cli_action cli_delete, cli_reindex;

/* why.c */
cli_action cli_why;

/* jobs.c, platform/archive/archive.c */
cli_action cli_jobs_change, cli_watch;
cli_action cli_jobs_archive, cli_jobs_restore;

/* workflows.c */
cli_action cli_commands_run;

/* triggers.c */
cli_action cli_triggers_request;

/* backup.c */
cli_action cli_backup, cli_restore;

/* upkeep.c */
cli_action cli_migrate, cli_bucket_init, cli_gc, cli_env, cli_config, cli_token, cli_service;
cli_action cli_embeddings_add;
