#include "cli/commands/verbs.h"

#include "cli/commands/export.h"
#include "cli/commands/languages.h"

/* The table of everything that `cortana` does: names, arguments, options and their help, completion, and
 * whose rights each needs. */

#define MANY 1000

#define NO_MORE \
    {           \
        0       \
    }

const struct cli_option cli_common_options[] = {
    {"data", 0, "DIR", "the installation in DIR, even if DATABASE_URL is set", CLI_COMPLETE_FOLDER,
     NULL},
    {"help", 'h', NULL, "this", 0, NULL},
    NO_MORE,
};

const struct cli_option cli_json_options[] = {
    {"json", 0, NULL, "JSON instead of text: one object a line; failures are one on standard error",
     0, NULL},
    NO_MORE,
};

const struct cli_option cli_progress_options[] = {
    {"quiet", 'q', NULL, "print failures and nothing else", 0, NULL},
    {"no-progress", 0, NULL, "no bars, and no lines that say how far it is", 0, NULL},
    NO_MORE,
};

static const struct cli_option run_options[] = {
    {"store", 0, "URL",
     "s3://BUCKET or s3://BUCKET/PREFIX instead of a directory in DIR; with S3_ENDPOINT, "
     "S3_ACCESS_KEY_ID and the others of docs/environment.md; once given, it is kept",
     0, NULL},
    {"languages", 'l', "L+L",
     "models for reading, as Tesseract names them (" CLI_LANGUAGES_DEFAULT
     ", as far as they are installed)",
     0, NULL},
    {"target-fps", 0, "N", "pictures a second that are looked at (10)", 0, NULL},
    {"export", 0, "FILE",
     "write the result; of several videos FILE-1, FILE-2 … in the order of the command line. The "
     "format is that of FILE's extension (see cortana export), else JSON",
     CLI_COMPLETE_FILE, NULL},
    {"text-only", 0, NULL,
     "text and search, but nothing to play; a later run without this makes that, too", 0, NULL},
    {"recursive", 'r', NULL, "the videos in folders of folders, too", 0, NULL},
    {"workers", 0, "STAGE=N,…",
     "jobs at the same time: transcode, sample, ocr, segment_index, clip_generate (1 each)", 0,
     NULL},
    {"no-page", 0, NULL, "no page in the browser, and no HTTP API", 0, NULL},
    NO_MORE,
};

static const struct cli_option backup_options[] = {
    {"without-objects", 0, NULL,
     "list the objects and copy none: the store has a backup of its own", 0, NULL},
    NO_MORE,
};

static const struct cli_option setup_options[] = {
    {"store", 0, "URL", "dir:/PATH or s3://BUCKET (dir:/var/lib/cortana/store)", 0, NULL},
    {"name", 0, "NAME", "of the database; its logins begin with it (cortana)", 0, NULL},
    {"admin", 0, "URL", "a superuser's connection; else the user postgres of this machine", 0,
     NULL},
    {"etc", 0, "DIR", "where settings and secrets go (/etc/cortana)", CLI_COMPLETE_FOLDER, NULL},
    {"user", 0, "USER", "whose the files of a directory store are (cortana)", 0, NULL},
    {"renew", 0, "LOGIN", "a new password: owner, fleet, upkeep or gateway", 0, NULL},
    {"yes", 0, NULL, "ask nothing", 0, NULL},
    NO_MORE,
};

static const struct cli_option upgrade_options[] = {
    {"backups", 0, "DIR", "where the backup goes (/var/lib/cortana/backups)", CLI_COMPLETE_FOLDER,
     NULL},
    {"no-backup", 0, NULL, "take none", 0, NULL},
    {"etc", 0, "DIR", "where settings and secrets lie (/etc/cortana)", CLI_COMPLETE_FOLDER, NULL},
    NO_MORE,
};

static const struct cli_option config_options[] = {
    {"all", 0, NULL, "also those that are not set", 0, NULL},
    NO_MORE,
};

static const struct cli_option token_options[] = {
    {"user", 'u', "UUID", "whose it is", 0, NULL},
    {"team", 0, "UUID", "a team of theirs; may be given several times", 0, NULL},
    {"role", 0, "ROLE",
     "viewer, editor, admin of their own tenants, or service, which may do everything (editor)", 0,
     "viewer editor admin service"},
    {"hours", 0, "N", "how long it holds (1)", 0, NULL},
    NO_MORE,
};

static const struct cli_option search_options[] = {
    {"video", 'v', "VIDEO", "in one video: an id, its first letters, a file's name, or last",
     CLI_COMPLETE_VIDEO, NULL},
    {"limit", 'n', "N", "hits at most (20)", 0, NULL},
    {"exact", 'e', NULL,
     "only what stands there letter by letter, not what was misread or mistyped", 0, NULL},
    {"context", 'C', "N", "with each hit the N lines above and below it on screen", 0, NULL},
    {"open", 'o', NULL,
     "the best hit at its moment: in the page while cortana run keeps it up, else in mpv or ffplay",
     0, NULL},
    {"semantic", 's', NULL,
     "by meaning instead: what is near to the words in the space of a model, where texts are "
     "embedded (cortana embeddings)",
     0, NULL},
    {"model", 0, "M", "with --semantic: of this model (the one in use)", 0, NULL},
    {"filter", 0, "TEXT", "with --semantic: fields as above", 0, NULL},
    NO_MORE,
};

static const struct cli_option export_options[] = {
    {"format", 'f', "F",
     "json, jsonl, csv, srt, vtt, ass, txt or md; else the extension of -o FILE says it, else json",
     0, CV_EXPORT_FORMATS},
    {"output", 'o', "FILE", "write there, whole or not at all; else to standard output",
     CLI_COMPLETE_FILE, NULL},
    {"bom", 0, NULL, "csv: begin with a byte order mark, by which Excel knows UTF-8", 0, NULL},
    {"no-positions", 0, NULL,
     "vtt: at most four lines at once at the bottom, as in srt, instead of each where it stood", 0,
     NULL},
    NO_MORE,
};

static const struct cli_option clip_options[] = {
    {"output", 'o', "FILE", "write there; else beside you, named after the video and the times",
     CLI_COMPLETE_FILE, NULL},
    {"padding", 'p', "TIME", "what is added on both sides (2s); 0 cuts at the times themselves", 0,
     NULL},
    {"format", 'f', "F", "mp4, webm, gif, or jpg: the picture that stands at one moment (mp4)", 0,
     "mp4 webm gif jpg"},
    {"mode", 0, "MODE",
     "smart copies what lies between the ends, where the video allows it; encode encodes every "
     "picture (smart)",
     0, "smart encode"},
    {"max-height", 0, "N", "pixels; larger pictures are scaled down", 0, NULL},
    {"crop", 0, "WxH+X+Y", "only this part of the picture, in pixels as the viewer sees it", 0,
     NULL},
    {"mute", 0, NULL, "without sound", 0, NULL},
    NO_MORE,
};

static const struct cli_option reindex_options[] = {
    {"all", 0, NULL, "every video that is ready", 0, NULL},
    {"languages", 'l', "L+L",
     "models, as Tesseract names them: eng+deu, script/Japanese (those it was last read with)", 0,
     NULL},
    NO_MORE,
};

static const struct cli_option videos_options[] = {
    {"status", 0, "S", "only those in this state", 0, "new processing ready failed duplicate"},
    {"name", 0, "TEXT", "only those whose file name or title holds this", 0, NULL},
    {"since", 0, "WHEN", "taken in since then: 2026-05-17, 2h, 3d", 0, NULL},
    {"limit", 'n', "N", "the newest N (all)", 0, NULL},
    NO_MORE,
};

#define FILTER_OPTIONS                                                      \
    {"type", 0, "TYPE", "of this type", 0, NULL},                           \
        {"status", 0, "S", "in this state", 0, CLI_JOB_STATES},             \
        {"video", 'v', "VIDEO", "of this video", CLI_COMPLETE_VIDEO, NULL}, \
        {"tenant", 0, "UUID", "of this tenant", 0, NULL},                   \
    {                                                                       \
        "error", 0, "NAME", "whose last failure was of this type", 0, NULL  \
    }

#define CLI_JOB_STATES "queued processing done failed canceled"

static const struct cli_option jobs_list_options[] = {
    FILTER_OPTIONS,
    {"since", 0, "WHEN", "enqueued since then: 2026-05-17, 2h, 3d", 0, NULL},
    {"limit", 'n', "N", "at most (50)", 0, NULL},
    NO_MORE,
};

static const struct cli_option jobs_filter_options[] = {FILTER_OPTIONS, NO_MORE};

static const struct cli_option jobs_show_options[] = {
    {"payload", 0, NULL, "the payload alone, as it was enqueued: a worker's --once reads it", 0,
     NULL},
    NO_MORE,
};

static const struct cli_option jobs_watch_options[] = {
    {"every", 0, "SECONDS", "look this often (1)", 0, NULL},
    {"count", 0, "N", "so often and no more", 0, NULL},
    NO_MORE,
};

static const struct cli_option jobs_pause_options[] = {
    {"tenant", 0, "UUID", "a tenant's jobs instead of a type's", 0, NULL},
    {"reason", 0, "TEXT", "why; others see it", 0, NULL},
    NO_MORE,
};

static const struct cli_option jobs_resume_options[] = {
    {"tenant", 0, "UUID", "a tenant's jobs instead of a type's", 0, NULL},
    NO_MORE,
};

static const struct cli_option jobs_archive_options[] = {
    {"days", 0, "N", "older than that (90)", 0, NULL},
    {"jobs", 0, NULL,
     "jobs that are done or canceled, and runs as a whole, instead of the timeline", 0, NULL},
    NO_MORE,
};

static const struct cli_option runs_start_options[] = {
    {"video", 'v', "VIDEO", "an id, the beginning of one, a file's name, or last",
     CLI_COMPLETE_VIDEO, NULL},
    {"input", 0, "JSON", "an object, for the first steps and for {{input.…}}", 0, NULL},
    NO_MORE,
};

static const struct cli_option commands_run_options[] = {
    {"args", 0, "JSON", "its values, checked by the definition's JSON Schema ({})", 0, NULL},
    {"wait", 0, NULL, "wait, and print the result", 0, NULL},
    NO_MORE,
};

static const struct cli_option schedules_add_options[] = {
    {"zone", 0, "ZONE", "Europe/Berlin, … (UTC)", 0, NULL},
    {"catch-up", 0, "POLICY", "of what was missed: none, last, 'all N' (last)", 0, NULL},
    {"one-at-a-time", 0, NULL, "nothing while the job before waits or runs", 0, NULL},
    {"tenant", 0, "UUID", "for this tenant", 0, NULL},
    {"priority", 0, "N", "low, normal, high, urgent, or 0 to 10", 0, NULL},
    {"description", 0, "TEXT", "what it is for", 0, NULL},
    NO_MORE,
};

static const struct cli_option zone_options[] = {
    {"zone", 0, "ZONE", "of an expression that is not a schedule's name (UTC)", 0, NULL},
    NO_MORE,
};

static const struct cli_option reason_options[] = {
    {"reason", 0, "TEXT", "why; others see it", 0, NULL},
    NO_MORE,
};

static const struct cli_option triggers_add_options[] = {
    {"filter", 0, "JSON", "only events whose data contains this", 0, NULL},
    {"window", 0, "TIME", "once in that time ('10 minutes')", 0, NULL},
    {"key", 0, "TEMPLATE", "with --window: once for each value of this", 0, NULL},
    {"one-at-a-time", 0, NULL, "nothing while the job before waits or runs", 0, NULL},
    {"tenant", 0, "UUID", "only this tenant's events", 0, NULL},
    {"priority", 0, "N", "low, normal, high, urgent, or 0 to 10", 0, NULL},
    {"description", 0, "TEXT", "what it is for", 0, NULL},
    NO_MORE,
};

static const struct cli_option triggers_emit_options[] = {
    {"video", 'v', "VIDEO", "of this video", CLI_COMPLETE_VIDEO, NULL},
    {"tenant", 0, "UUID", "of this tenant", 0, NULL},
    NO_MORE,
};

static const struct cli_option webhooks_add_options[] = {
    {"event", 0, "EVENT",
     "is told of this; may be given several times (cortana triggers has templates, filters and "
     "schedules)",
     0, NULL},
    {"tenant", 0, "UUID", "of this tenant's events alone", 0, NULL},
    {"secret", 0, "whsec_…", "this secret rather than a new one", 0, NULL},
    {"description", 0, "TEXT", "what it is for", 0, NULL},
    NO_MORE,
};

static const struct cli_option webhooks_rotate_options[] = {
    {"keep", 0, "TIME", "how long the old secrets sign, too ('24 hours')", 0, NULL},
    {"secret", 0, "whsec_…", "this secret rather than a new one", 0, NULL},
    NO_MORE,
};

static const struct cli_option workers_options[] = {
    {"all", 0, NULL, "those that have stopped or have long been silent, too", 0, NULL},
    NO_MORE,
};

static const struct cli_option every_options[] = {
    {"every", 0, "SECONDS", "look this often (30)", 0, NULL},
    NO_MORE,
};

static const struct cli_option nodes_add_options[] = {
    {"types", 0, "TYPE,…", "the job types that it is woken for", 0, NULL},
    {"host", 0, "NAME", "as its workers call their host (NAME)", 0, NULL},
    {"mac", 0, "ADDRESS", "it is woken by a magic packet to this address", 0, NULL},
    {"script", 0, "PATH", "it is woken by this program", CLI_COMPLETE_FILE, NULL},
    NO_MORE,
};

static const struct cli_option migrate_options[] = {
    {"check", 0, NULL, "only say what is pending; exit 1 if anything is", 0, NULL},
    NO_MORE,
};

static const struct cli_option gc_options[] = {
    {"remove", 0, NULL,
     "remove objects of videos that there are not, what canceled and failed attempts left behind, "
     "and clips beyond their time; mark rows whose original is gone",
     0, NULL},
    {"rows", 0, NULL, "with --remove: rows all of whose objects are gone, too", 0, NULL},
    {"clips", 0, NULL, "remove clips beyond their time, and look at nothing else", 0, NULL},
    {"dry-run", 0, NULL, "remove nothing, which is the default", 0, NULL},
    {"min-age", 0, "HOURS", "what is younger is left alone: uploads and attempts under way (24)", 0,
     NULL},
    NO_MORE,
};

static const struct cli_option embeddings_add_options[] = {
    {"all", 0, NULL, "every video that is indexed", 0, NULL},
    {"model", 0, "M", "with another model than the one in use", 0, NULL},
    NO_MORE,
};

#define NAMED_VIDEO                                                                           \
    "A video is named by its id or the beginning of it, its file's name with or without the " \
    "extension, or last."

/* Most commands need an operator's rights and take --json. */
#define OPERATOR_JSON .login = CLI_LOGIN_OPERATOR, .json = true
#define UPKEEP_JSON .login = CLI_LOGIN_UPKEEP, .json = true

const struct cli_verb cli_verbs[] = {
    {"run", "[VIDEO|FOLDER|URL|-]…", 0, MANY,
     "take videos to searchable text and a clip, on this machine",
     .text = "Starts a private PostgreSQL and the workers, brings the videos in, waits until they "
             "are searchable, shows their texts, an example search and a clip, and stops what it "
             "has started. A file that is known already is not worked on again, only read again "
             "(see cortana reindex) where other --languages are named; an interrupted run is "
             "carried on by the next.\n\nA folder means the videos in it; a URL is fetched by "
             "yt-dlp, where that is installed; - is standard input. Without a video: runs until "
             "Ctrl-C, and takes in what is put into the inbox of its store.\n\nMeanwhile there is "
             "a page in the browser, on this machine alone: the link that is printed signs its "
             "reader in for an hour (see cortana token). On a terminal the page stays up until "
             "Ctrl-C, with a link to the example; --no-page ends when the videos are done, as it "
             "does in a pipe, with --quiet and with --json.\n\nThe result goes to "
             "standard output, how far it is to standard error.",
     .options = run_options, .completion = CLI_COMPLETE_FILE, .store = true, .local = true,
     .long_lasting = true, OPERATOR_JSON, .run = cli_run},
    {"search", "WORD…", 1, MANY, "find text in all videos",
     .text = "Words must all be there; \"a phrase\" stands in quotes (mind the shell's), OR is "
             "between alternatives, -word excludes, word* is a beginning. Best hits first; what "
             "was mistyped, misread, written in one or apart is found too, unless --exact is "
             "given. Fields narrow it down: from:holiday (a video's file name, title, platform or "
             "id, or a part of it), lang:deu, tag:berlin or tag:@anna, after: and before: a date "
             "of taking in (2024, 2024-05-17; before is exclusive) or a place in the video (1:30, "
             "90s).\n\nEach hit has its time, its box in pixels of the frame, how it matched, and "
             "the text with the match marked. Of a word that thousands of lines hold, the newest "
             "are looked at. Exit status 1: nothing was found.",
     .options = search_options, .dash_words = true, OPERATOR_JSON, .run = cli_search},
    {"export", "VIDEO", 1, 1, "write a video's text as JSON, CSV, subtitles, text or Markdown",
     .text = NAMED_VIDEO
     "\n\njson has the video, its texts and their entities, with times in milliseconds; csv a row "
     "a text, with times as a clock and in milliseconds, and no cell that a spreadsheet takes for "
     "a formula; srt and ass are subtitles; vtt has each line where it stood on screen; txt is the "
     "text alone; md a table.",
     .options = export_options, .completion = CLI_COMPLETE_VIDEO, .login = CLI_LOGIN_OPERATOR,
     .run = cli_export},
    {"clip", "VIDEO START [END]", 2, 3, "cut a clip out of a video",
     .text = "Cuts from two seconds before START to two seconds after END (--padding 0: at the "
             "times themselves), exact to the frame, and writes the clip beside you or to -o FILE, "
             "in the place of a file of that name. Times are seconds (3, 3.4), a clock (0:03.4, "
             "1:02:03) or have units (1m2s, 3400ms). Of --format jpg there is one moment, and no "
             "END. The clip itself stays in the store, too; the same one asked for again costs "
             "nothing.\n\n" NAMED_VIDEO,
     .options = clip_options, .completion = CLI_COMPLETE_VIDEO, .store = true, .long_lasting = true,
     OPERATOR_JSON, .run = cli_clip},
    {"reindex", "[VIDEO]…", 0, MANY,
     "read videos again, with other languages or models, without decoding them",
     .text = "Reads the pictures of the lines that were kept when a video was first read, and puts "
             "the new text in the place of the old, all at once. What was read before lines were "
             "kept is read from its frames. A local installation waits until that is done; a fleet "
             "is given runs (cortana runs).\n\n" NAMED_VIDEO,
     .options = reindex_options, .completion = CLI_COMPLETE_VIDEO, .store = true,
     .long_lasting = true, UPKEEP_JSON, .run = cli_reindex},
    {"delete", "VIDEO…", 1, MANY, "delete videos with all that was made of them",
     .text =
         "Deletes the rows at once; a job removes the objects, the original, too.\n\n" NAMED_VIDEO,
     .completion = CLI_COMPLETE_VIDEO, .store = true, OPERATOR_JSON, .run = cli_delete},
    {"doctor", "[VIDEO]", 0, 1, "check this installation and say what to do",
     .text = "One line a check: ok, warn or fail, and what to do. Exit status 1 if anything fails. "
             "With a video, its playlists, segments and pictures are checked, too: durations, key "
             "frames, codec names and rates against the bits, and that nothing is "
             "missing.\n\n" NAMED_VIDEO,
     .completion = CLI_COMPLETE_VIDEO, .store = true, .unmigrated = true, UPKEEP_JSON,
     .run = cli_doctor},
    {"env", "", 0, 0, "print the variables and the psql command of this installation",
     .text =
         "DATABASE_URL and STORE_URL as lines for a shell, and how psql gets in. The server of a "
         "local installation runs as long as a cortana command does: keep it up with cortana run.",
     OPERATOR_JSON, .run = cli_env},
    {"migrate", "", 0, 0, "bring the database's schema up to date",
     .text = "Applies every pending migration, each once, under a lock: safe to run from several "
             "places at once. Waits up to two minutes for a database that is not there yet.",
     .options = migrate_options, .unmigrated = true, .login = CLI_LOGIN_OWNER, .json = true,
     .run = cli_migrate},
    {"gc", "", 0, 0, "find and remove objects that no row knows, and rows whose objects are gone",
     .text = "Compares the store with the tables. One line a finding: what it is, bytes, key. "
             "Originals without a row are never removed, unless their video was deleted: the "
             "scanner takes them in. Nothing is removed without --remove.",
     .options = gc_options, .store = true, UPKEEP_JSON, .run = cli_gc},
    {"setup", "", 0, 0, "make database, logins, store and settings of a service on this machine",
     .text = "As root, once. Makes the database NAME with a login each for the schema's owner, the "
             "fleet, upkeep and the gateway, their passwords in files, the settings in "
             "cortana.conf, the schema, and the store, and says what it did. S3_ACCESS_KEY_ID and "
             "S3_SECRET_ACCESS_KEY are taken from the environment. What is there is kept, so that "
             "it may be run again; services go on meanwhile, and take a renewed password.",
     .options = setup_options, .run = cli_service},
    {"upgrade", "", 0, 0, "back up, migrate and restart, behind a new version's installation",
     .text = "As root. Where migrations are pending, the database is backed up first (its rows; "
             "objects are listed). Then the schema is brought up to date, and the services are "
             "started anew in order: schedules, workers, gateway.",
     .options = upgrade_options, .run = cli_service},
    {"backup", "DIR", 1, 1, "save database and store in a directory",
     .text = "Needs the login that owns the schema (DATABASE_URL_FILE=/etc/cortana/owner/"
             "DATABASE_URL). Rows come first, then the objects; what lies in DIR from the last "
             "time is not copied again. Workers may go on.",
     .options = backup_options, .completion = CLI_COMPLETE_FOLDER, .login = CLI_LOGIN_OWNER,
     .unmigrated = true, .store = true, .json = true, .long_lasting = true, .run = cli_backup},
    {"restore", "DIR", 1, 1, "bring a backup back, into an empty database",
     .text = "Needs the login that owns the schema. The database is restored as a whole or not at "
             "all; objects are copied where the store lacks them. Exits with 1 when objects of the "
             "backup are in neither, and names them.",
     .completion = CLI_COMPLETE_FOLDER, .login = CLI_LOGIN_OWNER, .unmigrated = true,
     .creates = true, .store = true, .json = true, .long_lasting = true, .run = cli_restore},
    {"config", "", 0, 0, "print the settings that hold, and where each comes from",
     .text = "A flag goes before the environment, the environment before secrets in files of their "
             "own (NAME_FILE, or systemd's credentials), these before /etc/cortana/cortana.conf "
             "(CORTANA_CONFIG names another file; empty: none). Secrets are not shown.",
     .options = config_options, .json = true, .run = cli_config},
    {"completion", "bash|zsh|fish", 1, 1, "print what makes a shell complete these commands",
     .words = "bash zsh fish",
     .text = "bash: source <(cortana completion bash). zsh: source <(cortana completion zsh), "
             "behind compinit. fish: cortana completion fish | source.",
     .run = cli_completion},
    {"manual", "[DIR]", 0, 1, "print the man page, or write one for each command into DIR",
     .text = "cortana manual | man -l - reads it at once. DIR gets cortana.1, cortana-search.1 …, "
             "made from the same texts as --help.",
     .completion = CLI_COMPLETE_FOLDER, .run = cli_manual},
    {"videos list", "", 0, 0, "the videos, newest first", .options = videos_options, UPKEEP_JSON,
     .run = cli_videos_list},
    {"videos show", "VIDEO", 1, 1, "one video: what it is, what was made of it, and its jobs",
     .text = NAMED_VIDEO, .completion = CLI_COMPLETE_VIDEO, OPERATOR_JSON, .run = cli_videos_show},

    {"jobs list", "", 0, 0, "unfinished jobs first, then the newest", .options = jobs_list_options,
     UPKEEP_JSON, .run = cli_jobs_list},
    {"jobs show", "JOB", 1, 1, "one job with its attempts and events", .options = jobs_show_options,
     UPKEEP_JSON, .run = cli_jobs_show},
    {"jobs why", "JOB", 1, 1, "why it is not running", OPERATOR_JSON, .run = cli_jobs_why},
    {"jobs watch", "", 0, 0, "what is open and what runs, again every second",
     .options = jobs_watch_options, .login = CLI_LOGIN_OPERATOR, .run = cli_jobs_watch},
    {"jobs retry", "[JOB]", 0, 1, "failed jobs once more, with fresh retries",
     .options = jobs_filter_options, OPERATOR_JSON, .run = cli_jobs_retry},
    {"jobs cancel", "[JOB]", 0, 1, "waiting jobs at once; running ones are stopped",
     .options = jobs_filter_options, OPERATOR_JSON, .run = cli_jobs_cancel},
    {"jobs priority", "N [JOB]", 1, 2,
     "give waiting jobs another priority: low, normal, high, urgent, or 0 to 10",
     .options = jobs_filter_options, OPERATOR_JSON, .run = cli_jobs_priority},
    {"jobs pause", "[TYPE]", 0, 1, "no new claims of a type or for a tenant; what runs goes on",
     .options = jobs_pause_options, OPERATOR_JSON, .run = cli_jobs_pause},
    {"jobs resume", "[TYPE]", 0, 1, "claims go on", .options = jobs_resume_options, OPERATOR_JSON,
     .run = cli_jobs_resume},
    {"jobs archive", "", 0, 0, "old months of the timeline to the store",
     .options = jobs_archive_options, .store = true, .login = CLI_LOGIN_UPKEEP,
     .run = cli_jobs_archive},
    {"jobs restore", "KEY", 1, 1, "an archive back into the tables", .store = true,
     .login = CLI_LOGIN_OPERATOR, .run = cli_jobs_restore},

    {"runs list", "", 0, 0, "runs under way first, then the newest (50)", UPKEEP_JSON,
     .run = cli_runs_list},
    {"runs show", "RUN", 1, 1, "one run with its jobs in their order", UPKEEP_JSON,
     .run = cli_runs_show},
    {"runs start", "WORKFLOW", 1, 1, "the active version of a workflow, for a video or on its own",
     .options = runs_start_options, OPERATOR_JSON, .run = cli_runs_start},
    {"runs restart", "RUN", 1, 1, "failed and canceled steps once more; what is done stays done",
     OPERATOR_JSON, .run = cli_runs_restart},
    {"runs cancel", "RUN", 1, 1, "every job of it that is not done", OPERATOR_JSON,
     .run = cli_runs_cancel},

    {"workflows list", "", 0, 0, "the active version of each", UPKEEP_JSON,
     .run = cli_workflows_list},
    {"workflows show", "NAME", 1, 1, "its steps, as JSON", .login = CLI_LOGIN_UPKEEP,
     .run = cli_workflows_show},
    {"workflows add", "NAME STEPS.json", 2, 2,
     "a new version, active from now on; runs under way keep theirs",
     .completion = CLI_COMPLETE_FILE, OPERATOR_JSON, .run = cli_workflows_add},

    {"commands list", "", 0, 0, "the programs that may be run as jobs", UPKEEP_JSON,
     .run = cli_commands_list},
    {"commands show", "KEY", 1, 1, "a definition, as JSON", .login = CLI_LOGIN_UPKEEP,
     .run = cli_commands_show},
    {"commands run", "KEY", 1, 1, "enqueue it for a command-worker, and print the job's id",
     .options = commands_run_options, OPERATOR_JSON, .run = cli_commands_run},
    {"commands define", "FILE", 1, 1,
     "a JSON object with key, description, argv, payload_schema, environment, "
     "time_limit, is_public; - is standard input",
     .completion = CLI_COMPLETE_FILE, OPERATOR_JSON, .run = cli_commands_define},
    {"commands enable", "KEY", 1, 1, "it may be run", OPERATOR_JSON, .run = cli_commands_enable},
    {"commands disable", "KEY", 1, 1, "nobody may run it", OPERATOR_JSON,
     .run = cli_commands_enable},

    {"schedules list", "", 0, 0, "all of them, with their next instant in their own zone",
     UPKEEP_JSON, .run = cli_schedules_list},
    {"schedules show", "NAME", 1, 1, "its definition, and what it did last", UPKEEP_JSON,
     .run = cli_triggers_show},
    {"schedules next", "NAME|CRON", 1, 1,
     "its next five instants, or those of an expression like '30 2 * * mon-fri'",
     .options = zone_options, OPERATOR_JSON, .run = cli_schedules_next},
    {"schedules add", "NAME CRON job|run|command|webhook TARGET [PAYLOAD]", 4, 5,
     "do something at certain times",
     .text = "TARGET is a job type, a workflow, a command's key or a webhook's name. PAYLOAD is "
             "JSON; {{schedule.instant}}, {{schedule.local}} and {{schedule.date}} become values.",
     .options = schedules_add_options, OPERATOR_JSON, .run = cli_triggers_add},
    {"schedules pause", "NAME", 1, 1, "nothing until it is resumed, and nothing is made up for",
     .options = reason_options, OPERATOR_JSON, .run = cli_triggers_pause},
    {"schedules resume", "NAME", 1, 1, "it goes on", OPERATOR_JSON, .run = cli_triggers_resume},
    {"schedules remove", "NAME", 1, 1, "remove it", OPERATOR_JSON, .run = cli_triggers_remove},
    {"schedules fire", "NAME", 1, 1, "now, besides its instants", OPERATOR_JSON,
     .run = cli_schedules_fire},
    {"schedules defaults", "", 0, 0,
     "bring back those of the schedules that come with it which are missing", OPERATOR_JSON,
     .run = cli_schedules_defaults},
    {"schedules upkeep", "", 0, 0, "what schedulers do from time to time besides", UPKEEP_JSON,
     .run = cli_schedules_upkeep},

    {"triggers list", "", 0, 0, "all of them, and what they did last", UPKEEP_JSON,
     .run = cli_triggers_list},
    {"triggers show", "NAME", 1, 1, "its definition, and its last 20 times", UPKEEP_JSON,
     .run = cli_triggers_show},
    {"triggers add", "NAME EVENT job|run|command|webhook TARGET [PAYLOAD]", 4, 5,
     "do something when something happens",
     .text = "EVENT is video.uploaded, video.ready, clip.created, job.failed, or one of your own. "
             "TARGET is a job type, a workflow, a command's key or a webhook's name. PAYLOAD is "
             "JSON; {{event.video_id}} and {{event.data.NAME}} become values.",
     .options = triggers_add_options, OPERATOR_JSON, .run = cli_triggers_add},
    {"triggers pause", "NAME", 1, 1, "nothing until it is resumed", .options = reason_options,
     OPERATOR_JSON, .run = cli_triggers_pause},
    {"triggers resume", "NAME", 1, 1, "it goes on", OPERATOR_JSON, .run = cli_triggers_resume},
    {"triggers remove", "NAME", 1, 1, "remove it", OPERATOR_JSON, .run = cli_triggers_remove},
    {"triggers emit", "EVENT [DATA]", 1, 2, "say that something of your own happened",
     .options = triggers_emit_options, OPERATOR_JSON, .run = cli_triggers_emit},

    {"webhooks list", "", 0, 0, "all of them, their events, and what became of the last message",
     UPKEEP_JSON, .run = cli_webhooks_list},
    {"webhooks add", "NAME URL", 2, 2, "print the secret that its receiver checks signatures with",
     .options = webhooks_add_options, OPERATOR_JSON, .run = cli_webhooks_add},
    {"webhooks test", "NAME", 1, 1, "send it a message of type webhook.test", OPERATOR_JSON,
     .run = cli_webhooks_test},
    {"webhooks rotate", "NAME", 1, 1, "print a new secret; the old ones sign, too, for a while",
     .options = webhooks_rotate_options, OPERATOR_JSON, .run = cli_webhooks_rotate},
    {"webhooks disable", "NAME", 1, 1, "no more messages; a receiver does this by answering 410",
     .options = reason_options, OPERATOR_JSON, .run = cli_webhooks_disable},
    {"webhooks enable", "NAME", 1, 1, "messages again", OPERATOR_JSON, .run = cli_webhooks_enable},
    {"webhooks remove", "NAME", 1, 1, "remove it with its triggers", OPERATOR_JSON,
     .run = cli_webhooks_remove},

    {"workers list", "", 0, 0, "the workers, and which are stale",
     .text = "A stale one has said nothing for longer than a lease lasts; its jobs are claimed by "
             "others.",
     .options = workers_options, UPKEEP_JSON, .run = cli_workers_list},
    {"workers drain", "WORKER", 1, 1,
     "it claims nothing more, and goes when what it runs has ended",
     .text = "The beginning of an id means all that begin so: a host, say.", OPERATOR_JSON,
     .run = cli_workers_drain},

    {"hosts list", "", 0, 0, "the machines, their CPU budgets and how full their disks are",
     UPKEEP_JSON, .run = cli_hosts_list},
    {"hosts set", "HOST NAME=VALUE…", 2, MANY, "change what may run on a machine",
     .text =
         "cpu-budget=N  the sum of the weights of the jobs that run there at once; none: no limit",
     OPERATOR_JSON, .run = cli_hosts_set},

    {"nodes list", "", 0, 0, "the machines that sleep, and which are awake", UPKEEP_JSON,
     .run = cli_nodes_list},
    {"nodes add", "NAME", 1, 1, "a machine that may be woken", .options = nodes_add_options,
     OPERATOR_JSON, .run = cli_nodes_add},
    {"nodes set", "NODE NAME=VALUE…", 2, MANY, "change one",
     .text = "host=NAME, types=TYPE,…, mac=ADDRESS, broadcast=ADDRESS, port=N, enabled=yes|no",
     OPERATOR_JSON, .run = cli_nodes_set},
    {"nodes remove", "NODE", 1, 1, "forget one", OPERATOR_JSON, .run = cli_nodes_remove},
    {"nodes wake", "NODE", 1, 1,
     "a magic packet, or the node's script, whether it is needed or not", OPERATOR_JSON,
     .run = cli_nodes_wake},
    {"nodes watch", "", 0, 0, "wake what jobs of the next 5 minutes need, until interrupted",
     .text = "May run on several machines: each node is called once in 5 minutes.",
     .options = every_options, .login = CLI_LOGIN_OPERATOR, .run = cli_nodes_watch},

    {"rules list", "", 0, 0, "by which rules jobs are claimed, a line a job type", UPKEEP_JSON,
     .run = cli_rules_list},
    {"rules set", "TYPE NAME=VALUE…", 2, MANY,
     "change the rules of a job type, from the next claim on",
     .text = "priority=0..10  of jobs that are enqueued without one\nweight=1..5  of a host's CPU "
             "budget that a running job takes\nmax=N, max-per-tenant=N  running at once over the "
             "whole fleet; none: no limit\ninteractive=-10..0  added to the priority while "
             "somebody searches or plays\nput-off=yes|no  claim nothing for 30 s at a time "
             "meanwhile\nevents=yes|no  an event for every change of status, or for failures "
             "alone\ntime-limit='1 hour'  past which an attempt is killed\nretries='{1 minute,5 "
             "minutes}'  one entry a retry\npublic=yes|no  applications may enqueue it",
     OPERATOR_JSON, .run = cli_rules_set},
    {"token", "", 0, 0, "print a token for the HTTP API",
     .text = "Signed with CORTANA_JWT_SECRET or CORTANA_JWT_SECRET_FILE, as the gateway has them; "
             "else, or with --data, with the secret of the installation. Whoever has the token is "
             "its user, until it expires.",
     .options = token_options, .json = true, .run = cli_token},
    {"bucket init", "", 0, 0, "make the bucket and set its lifecycle rules",
     .text = "Makes the bucket of STORE_URL where it is missing, and sets rules for uploads that "
             "were never finished and for clips (CORTANA_CLIP_DAYS), where the server knows such "
             "rules. Rules of others stay. May be done again at any time.",
     .json = true, .run = cli_bucket_init},

    {"embeddings list", "", 0, 0, "models, how many texts each has embedded, which one is in use",
     UPKEEP_JSON, .run = cli_embeddings_list},
    {"embeddings use", "MODEL", 1, 1, "embed the text of videos from the next run on",
     OPERATOR_JSON, .run = cli_embeddings_use},
    {"embeddings off", "", 0, 0, "no more", OPERATOR_JSON, .run = cli_embeddings_use},
    {"embeddings add", "[VIDEO]", 0, 1, "embed a video that is indexed already",
     .options = embeddings_add_options, .completion = CLI_COMPLETE_VIDEO, OPERATOR_JSON,
     .run = cli_embeddings_add},
    {"embeddings prune", "", 0, 0, "forget vectors of texts that are gone", UPKEEP_JSON,
     .run = cli_embeddings_prune},
};
const size_t cli_verb_count = CV_COUNT(cli_verbs);

const struct cli_group cli_groups[] = {
    {"videos", "list the videos, show one", NULL},
    {"jobs", "list, watch, explain and change jobs",
     "JOB is an id or its first letters. Where options name jobs instead, all that are given must "
     "hold."},
    {"runs", "list, show, start, restart and cancel runs of workflows",
     "RUN is an id or its first letters."},
    {"workflows", "list, show and add workflows", NULL},
    {"commands", "the programs that may be run as jobs",
     "Nothing runs that is not defined here, and no shell is involved."},
    {"schedules", "what is done at certain times",
     "The program `scheduler` fires them; any number of it may run."},
    {"triggers", "what is done when something happens",
     "The program `scheduler` does what they say; any number of it may run."},
    {"webhooks", "URLs that are told of events, signed",
     "The program `webhook-worker` delivers. Addresses that are not public are refused but for "
     "networks in its CORTANA_WEBHOOK_ALLOW."},
    {"workers", "show the workers; drain one", NULL},
    {"hosts", "machines that workers run on, and what they may take", NULL},
    {"nodes", "machines that sleep, and are woken for jobs", NULL},
    {"rules", "show and change by which rules jobs are claimed", NULL},
    {"bucket", "make the bucket and set its lifecycle rules", NULL},
    {"embeddings", "have texts embedded, for search by meaning",
     "embed-worker asks the endpoint EMBED_URL, of OpenAI's form (…/v1/embeddings) or of Ollama's "
     "(…/api/embed), with the key EMBED_API_KEY. Each text is embedded once."},
};
const size_t cli_group_count = CV_COUNT(cli_groups);
