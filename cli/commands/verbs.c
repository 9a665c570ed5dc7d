#include "cli/commands/verbs.h"

#include "cli/commands/clip.h"
#include "cli/commands/columns.h"
#include "cli/commands/export.h"
#include "cli/commands/languages.h"

/* The table of all verbs of `cortana`: names, arguments, options and their help, completion, and
 * the rights that each needs. */

#define MANY 1000

#define NO_MORE \
    {           \
        0       \
    }

const struct cli_option cli_common_options[] = {
    {"data", 0, "DIR", "use the installation in DIR, even if DATABASE_URL is set",
     CLI_COMPLETE_FOLDER, NULL},
    {"help", 'h', NULL, "print this help", 0, NULL},
    NO_MORE,
};

const struct cli_option cli_json_options[] = {
    {"json", 0, NULL,
     "print JSON instead of text: one object per line; errors are an object on standard error", 0,
     NULL},
    NO_MORE,
};

const struct cli_option cli_server_options[] = {
    {"server", 0, "URL",
     "ask this server (CORTANA_SERVER) instead of a database; see cortana login", 0, NULL},
    NO_MORE,
};

const struct cli_option cli_progress_options[] = {
    {"quiet", 'q', NULL, "print only errors", 0, NULL},
    {"no-progress", 0, NULL, "print no progress", 0, NULL},
    NO_MORE,
};

static const struct cli_option run_options[] = {
    {"store", 0, "URL",
     "keep objects in s3://BUCKET or s3://BUCKET/PREFIX instead of a directory in DIR; needs "
     "S3_ENDPOINT, S3_ACCESS_KEY_ID and the others of docs/environment.md; remembered for later "
     "runs",
     0, NULL},
    {"languages", 'l', "L+L",
     "read with these models of Tesseract alone (by default the languages are found by reading)", 0,
     NULL},
    {"target-fps", 0, "N", "keep at most N frames per second for reading, in the long run (10)", 0,
     NULL},
    {"export", 0, "FILE",
     "write the result to FILE; for several videos to FILE-1, FILE-2 … in the order of the command "
     "line. FILE's extension selects the format (see cortana export)",
     CLI_COMPLETE_FILE, NULL},
    {"text-only", 0, NULL,
     "make text and search, but no playback; a later run without this option adds playback", 0,
     NULL},
    {"recursive", 'r', NULL, "also take the videos in subfolders", 0, NULL},
    {"workers", 0, "STAGE=N,…",
     "jobs of a stage at the same time, such as ocr=2,sample=2 (1 each; cortana rules lists the "
     "stages)",
     0, NULL},
    {"no-page", 0, NULL, "start neither the page nor the HTTP API", 0, NULL},
    NO_MORE,
};

static const struct cli_option backup_options[] = {
    {"without-objects", 0, NULL,
     "list the objects without copying them, because the store has its own backup", 0, NULL},
    NO_MORE,
};

static const struct cli_option setup_options[] = {
    {"store", 0, "URL", "dir:/PATH or s3://BUCKET (dir:/var/lib/cortana/store)", 0, NULL},
    {"name", 0, "NAME", "name of the database, and beginning of its logins' names (cortana)", 0,
     NULL},
    {"admin", 0, "URL", "connection of a superuser; default: the user postgres of this machine", 0,
     NULL},
    {"etc", 0, "DIR", "the folder for settings and secrets (/etc/cortana)", CLI_COMPLETE_FOLDER,
     NULL},
    {"user", 0, "USER", "owner of the files of a directory store (cortana)", 0, NULL},
    {"renew", 0, "LOGIN", "give this login a new password: owner, fleet, upkeep or gateway", 0,
     NULL},
    {"yes", 0, NULL, "ask nothing", 0, NULL},
    NO_MORE,
};

static const struct cli_option upgrade_options[] = {
    {"backups", 0, "DIR", "the folder for the backup (/var/lib/cortana/backups)",
     CLI_COMPLETE_FOLDER, NULL},
    {"no-backup", 0, NULL, "make no backup", 0, NULL},
    {"etc", 0, "DIR", "the folder of settings and secrets (/etc/cortana)", CLI_COMPLETE_FOLDER,
     NULL},
    NO_MORE,
};

static const struct cli_option config_options[] = {
    {"all", 0, NULL, "also print settings that are not set", 0, NULL},
    NO_MORE,
};

static const struct cli_option token_options[] = {
    {"user", 'u', "UUID", "the user", 0, NULL},
    {"team", 0, "UUID", "a team of the user; may be given several times", 0, NULL},
    {"role", 0, "ROLE",
     "viewer, editor, admin (of the user's tenants), or service, which may do everything (editor)",
     0, "viewer editor admin service"},
    {"hours", 0, "N", "validity in hours (1)", 0, NULL},
    NO_MORE,
};

static const struct cli_option search_options[] = {
    {"video", 'v', "VIDEO",
     "search only this video: an id, its first letters, a file name, or last", CLI_COMPLETE_VIDEO,
     NULL},
    {"limit", 'n', "N", "at most N hits (20)", 0, NULL},
    {"exact", 'e', NULL, "only exact matches, without misread or mistyped words", 0, NULL},
    {"context", 'C', "N", "also print the N lines above and below each hit on screen", 0, NULL},
    {"open", 'o', NULL,
     "open the best hit at its time: on the page while cortana run serves it, else in mpv or "
     "ffplay; without a desktop print where it is",
     0, NULL},
    {"semantic", 's', NULL,
     "search by meaning instead of words; needs embeddings of the texts (see cortana embeddings)",
     0, NULL},
    {"model", 0, "M", "with --semantic: use this model (default: the model in use)", 0, NULL},
    {"filter", 0, "TEXT", "with --semantic: a query that consists of fields, see above", 0, NULL},
    NO_MORE,
};

static const struct cli_option export_options[] = {
    {"format", 'f', "F",
     "json, jsonl, csv, srt, vtt, ass, txt or md; default: by the extension of -o FILE, else json",
     0, CV_EXPORT_FORMATS},
    {"output", 'o', "FILE", "write to FILE, completely or not at all; default: standard output",
     CLI_COMPLETE_FILE, NULL},
    {"bom", 0, NULL, "csv: begin with a byte order mark, so that Excel recognises UTF-8", 0, NULL},
    {"no-positions", 0, NULL,
     "vtt: at most four lines at the bottom, as in srt, not each at its place on screen", 0, NULL},
    {"source", 0, "SOURCE", "only lines of this source", 0, "screen subtitle speech"},
    NO_MORE,
};

static const struct cli_option clip_options[] = {
    {"output", 'o', "FILE",
     "write to FILE; default: the current folder, with a name made from video and times",
     CLI_COMPLETE_FILE, NULL},
    {"padding", 'p', "TIME", "time added on both sides (2s); 0 cuts at exactly these times", 0,
     NULL},
    {"format", 'f', "F",
     "mp4, webm, gif, or jpg for a single frame; default: by the extension of -o FILE, else mp4", 0,
     CLI_CLIP_FORMATS},
    {"mode", 0, "MODE",
     "smart copies the frames between the ends if the video allows it; encode encodes every frame "
     "(smart)",
     0, "smart encode"},
    {"max-height", 0, "N", "scale larger pictures down to this height in pixels", 0, NULL},
    {"crop", 0, "WxH+X+Y", "cut out this part of the picture, in pixels as the viewer sees it", 0,
     NULL},
    {"mute", 0, NULL, "without sound", 0, NULL},
    {"redact", 0, "WHAT",
     "cover these texts: mail, phone, card, handle, a kind of entity (url, hashtag, ...), "
     "\"some words\", /expression/; with commas between them, or given several times",
     0, NULL},
    NO_MORE,
};

static const struct cli_option quote_options[] = {
    {"output", 'o', "FILE",
     "write to FILE; default: the current folder, with a name made from video and time",
     CLI_COMPLETE_FILE, NULL},
    {"around", 0, NULL, "only the part of the frame around the line", 0, NULL},
    {"max-height", 0, "N", "scale larger pictures down to this height in pixels", 0, NULL},
    {"redact", 0, "WHAT", "cover these texts, as in a clip, in the source, too", 0, NULL},
    {"site", 0, "URL", "where the link leads to (https://host); default: no link", 0, NULL},
    NO_MORE,
};

static const struct cli_option reel_options[] = {
    {"output", 'o', "FILE", "write to FILE; default: the current folder, named after the query",
     CLI_COMPLETE_FILE, NULL},
    {"video", 'v', "VIDEO", "only of this video", CLI_COMPLETE_VIDEO, NULL},
    {"exact", 'e', NULL, "only exact matches, without misread or mistyped words", 0, NULL},
    {"sort", 0, "ORDER",
     "whose place is first, and which stay if there are too many: rank (default), time or newest",
     0, "rank time newest"},
    {"mute", 0, NULL, "without sound", 0, NULL},
    {"redact", 0, "WHAT", "cover these texts, as in a clip, on the cards, too", 0, NULL},
    NO_MORE,
};

static const struct cli_option reindex_options[] = {
    {"all", 0, NULL, "all videos that are ready", 0, NULL},
    {"languages", 'l', "L+L",
     "Tesseract models: eng+deu, script/Japanese (default: those it was last read with)", 0, NULL},
    NO_MORE,
};

static const struct cli_option videos_options[] = {
    {"status", 0, "S", "only videos in this state", 0, "new processing ready failed duplicate"},
    {"name", 0, "TEXT", "only videos whose title or file name contains this", 0, NULL},
    {"tag", 0, "TAG", "only videos with this tag", 0, NULL},
    {"favourite", 0, NULL, "only your favourites", 0, NULL},
    {"since", 0, "WHEN", "only videos added since then: 2026-05-17, 2h, 3d", 0, NULL},
    {"limit", 'n', "N", "only the newest N (all)", 0, NULL},
    NO_MORE,
};

static const struct cli_option videos_set_options[] = {
    {"title", 0, "TEXT", "the title; empty: the file name is shown", 0, NULL},
    {"description", 0, "TEXT", "what the video is about", 0, NULL},
    {"tag", 0, "TAG", "add this tag; may be given several times", 0, NULL},
    {"untag", 0, "TAG", "remove this tag; may be given several times", 0, NULL},
    {"recorded", 0, "WHEN", "when it was recorded: 2026-05-17, 3d", 0, NULL},
    {"fields", 0, "JSON", "members of your own, {\"camera\": \"GX80\"}; null removes one", 0, NULL},
    NO_MORE,
};

static const struct cli_option collections_set_options[] = {
    {"name", 0, "TEXT", "another name", 0, NULL},
    {"description", 0, "TEXT", "what it is about", 0, NULL},
    NO_MORE,
};

static const struct cli_option tenants_set_options[] = {
    {"name", 0, "TEXT", "another name", 0, NULL},
    {"zone", 0, "ZONE", "time zone of file names that have none, such as Europe/Berlin", 0, NULL},
    NO_MORE,
};

static const struct cli_option collections_put_options[] = {
    {"before", 0, "VIDEO", "before this video of it (at the end)", CLI_COMPLETE_VIDEO, NULL},
    NO_MORE,
};

#define FILTER_OPTIONS                                                        \
    {"type", 0, "TYPE", "jobs of this type", 0, NULL},                        \
        {"status", 0, "S", "jobs in this state", 0, CLI_JOB_STATES},          \
        {"video", 'v', "VIDEO", "of this video", CLI_COMPLETE_VIDEO, NULL},   \
        {"tenant", 0, "UUID", "of this tenant", 0, NULL},                     \
    {                                                                         \
        "error", 0, "NAME", "jobs whose last error was of this type", 0, NULL \
    }

#define CLI_JOB_STATES "open queued processing retry failed done canceled stopping lost"

static const struct cli_option jobs_list_options[] = {
    FILTER_OPTIONS,
    {"since", 0, "WHEN", "jobs enqueued since then: 2026-05-17, 2h, 3d", 0, NULL},
    {"limit", 'n', "N", "at most N jobs (50)", 0, NULL},
    NO_MORE,
};

static const struct cli_option jobs_filter_options[] = {FILTER_OPTIONS, NO_MORE};

static const struct cli_option jobs_watch_options[] = {
    {"every", 0, "SECONDS", "time between two updates (1)", 0, NULL},
    {"count", 0, "N", "stop after N updates", 0, NULL},
    NO_MORE,
};

static const struct cli_option jobs_archive_options[] = {
    {"days", 0, "N", "only what is older than N days (90)", 0, NULL},
    {"jobs", 0, NULL, "archive done and canceled jobs, and complete runs, instead of the timeline",
     0, NULL},
    NO_MORE,
};

static const struct cli_option runs_start_options[] = {
    {"video", 'v', "VIDEO", "the video: an id or its beginning, a file name, or last",
     CLI_COMPLETE_VIDEO, NULL},
    {"input", 0, "JSON", "input of the run, a JSON object, for the first steps and for {{input.…}}",
     0, NULL},
    NO_MORE,
};

static const struct cli_option commands_run_options[] = {
    {"args", 0, "JSON", "values of the arguments, checked by the definition's JSON Schema ({})", 0,
     NULL},
    {"wait", 0, NULL, "wait for the job and print its result", 0, NULL},
    NO_MORE,
};

static const struct cli_option schedules_add_options[] = {
    {"zone", 0, "ZONE", "time zone, such as Europe/Berlin (UTC)", 0, NULL},
    {"catch-up", 0, "POLICY", "which missed times to catch up on (last)", 0, "none last all"},
    {"catch-up-limit", 0, "N", "with --catch-up all: at most the last N (10)", 0, NULL},
    {"one-at-a-time", 0, NULL, "do nothing while the previous job waits or runs", 0, NULL},
    {"tenant", 0, "UUID", "for this tenant", 0, NULL},
    {"priority", 0, "N", "low, normal, high, urgent, or 0 to 10", 0, NULL},
    {"description", 0, "TEXT", "the purpose, for people", 0, NULL},
    NO_MORE,
};

static const struct cli_option zone_options[] = {
    {"zone", 0, "ZONE", "time zone of a cron expression (UTC)", 0, NULL},
    NO_MORE,
};

static const struct cli_option reason_options[] = {
    {"reason", 0, "TEXT", "the reason, shown to others", 0, NULL},
    NO_MORE,
};

static const struct cli_option triggers_add_options[] = {
    {"filter", 0, "JSON", "only for events whose data contain this JSON", 0, NULL},
    {"window", 0, "TIME", "act once within this time (90s, 10m)", 0, NULL},
    {"key", 0, "TEMPLATE", "with --window: act once for each value of this template", 0, NULL},
    {"one-at-a-time", 0, NULL, "do nothing while the previous job waits or runs", 0, NULL},
    {"tenant", 0, "UUID", "only for events of this tenant", 0, NULL},
    {"priority", 0, "N", "low, normal, high, urgent, or 0 to 10", 0, NULL},
    {"description", 0, "TEXT", "the purpose, for people", 0, NULL},
    NO_MORE,
};

static const struct cli_option triggers_emit_options[] = {
    {"video", 'v', "VIDEO", "of this video", CLI_COMPLETE_VIDEO, NULL},
    {"tenant", 0, "UUID", "of this tenant", 0, NULL},
    NO_MORE,
};

static const struct cli_option alerts_save_options[] = {
    {"name", 0, "NAME", "what people call it (the query)", 0, NULL},
    {"clip", 0, NULL, "make a clip of the first moment of each video that it finds", 0, NULL},
    {"mail", 0, "WHEN", "tell you by mail, too", 0, "at_once hourly daily"},
    NO_MORE,
};

static const struct cli_option webhooks_add_options[] = {
    {"event", 0, "EVENT",
     "send messages about this event; may be given several times (see cortana triggers for "
     "templates, filters and schedules)",
     0, NULL},
    {"tenant", 0, "UUID", "only for events of this tenant", 0, NULL},
    {"secret", 0, "whsec_…", "this secret rather than a new one", 0, NULL},
    {"description", 0, "TEXT", "the purpose, for people", 0, NULL},
    NO_MORE,
};

static const struct cli_option webhooks_rotate_options[] = {
    {"keep", 0, "TIME",
     "how long messages are also signed with the old secrets, in whole hours (24h)", 0, NULL},
    {"secret", 0, "whsec_…", "this secret rather than a new one", 0, NULL},
    NO_MORE,
};

static const struct cli_option people_invite_options[] = {
    {"role", 0, "ROLE",
     "what they may do: viewer, editor, admin, or operator of everything (editor)", 0,
     "viewer editor admin operator"},
    {"email", 0, "ADDRESS", "only somebody with this e-mail address", 0, NULL},
    {"tenant", 0, "UUID", "the tenant that they join", 0, NULL},
    {"days", 0, "N", "how many days the link works, 1 to 90 (7)", 0, NULL},
    NO_MORE,
};

static const struct cli_option share_days_options[] = {
    {"days", 0, "N", "how many days the link works (until it is revoked)", 0, NULL},
    {"download", 0, NULL, "the file may be downloaded", 0, NULL},
    NO_MORE,
};

static const struct cli_option share_video_options[] = {
    {"at", 0, "TIME", "where the video begins to play", 0, NULL},
    {"from", 0, "TIME", "show only what follows this time, with --to", 0, NULL},
    {"to", 0, "TIME", "show only what is before this time, with --from", 0, NULL},
    {"days", 0, "N", "how many days the link works (until it is revoked)", 0, NULL},
    {"download", 0, NULL, "the original may be downloaded", 0, NULL},
    NO_MORE,
};

static const struct cli_option share_tenant_options[] = {
    {"tenant", 0, "UUID", "what belongs to this tenant (what belongs to nobody)", 0, NULL},
    NO_MORE,
};

static const struct cli_option people_tenant_options[] = {
    {"tenant", 0, "UUID", "in this tenant", 0, NULL},
    NO_MORE,
};

static const struct cli_option workers_options[] = {
    {"all", 0, NULL, "also workers that have stopped or been silent for long", 0, NULL},
    NO_MORE,
};

static const struct cli_option migrate_options[] = {
    {"check", 0, NULL, "only list pending migrations; exit 1 if there are any", 0, NULL},
    {"postgres", 0, NULL,
     "first move the database of a local installation to the newest PostgreSQL that is installed; "
     "the data of the version before is kept",
     0, NULL},
    NO_MORE,
};

static const struct cli_option gc_options[] = {
    {"remove", 0, NULL,
     "remove objects of videos that do not exist, leftovers of canceled and failed attempts, and "
     "expired clips; mark rows whose original is missing",
     0, NULL},
    {"rows", 0, NULL, "with --remove: also delete rows all of whose objects are missing", 0, NULL},
    {"clips", 0, NULL, "only remove expired clips", 0, NULL},
    {"dry-run", 0, NULL, "remove nothing (the default)", 0, NULL},
    {"min-age", 0, "HOURS",
     "leave younger objects alone, because they may belong to current uploads and attempts (24)", 0,
     NULL},
    NO_MORE,
};

static const struct cli_option embeddings_add_options[] = {
    {"all", 0, NULL, "all videos that are indexed", 0, NULL},
    {"model", 0, "M", "use this model instead of the one in use", 0, NULL},
    NO_MORE,
};

#define NAMED_VIDEO \
    "VIDEO is an id or its beginning, a file name with or without the extension, or last."

/* Most commands need an operator's rights and have --json. */
#define OPERATOR_JSON .login = CLI_LOGIN_OPERATOR, .json = true
#define UPKEEP_JSON .login = CLI_LOGIN_UPKEEP, .json = true

#define SETTINGS_DONE "the settings of {0} hold from the next claim on"

const struct cli_verb cli_verbs[] = {
    {"run", "[VIDEO|FOLDER|URL|-]…", 0, MANY, "make videos on this machine searchable",
     .text = "Starts a private PostgreSQL and the workers, takes the videos in, waits until they "
             "are searchable, prints their texts, an example search and a clip, and stops what it "
             "has started. A file that is already known is not processed again; if other "
             "--languages are given, its text is read again (see cortana reindex). If a run is "
             "interrupted, the next one continues it.\n\nA folder stands for the videos in it; a "
             "URL is fetched with yt-dlp, if that is installed; - is standard input. Without a "
             "video, it runs until Ctrl-C and imports files that are put into the inbox of its "
             "store.\n\nMeanwhile it serves a page for browsers on this machine: the printed link "
             "signs its reader in for an hour (see cortana token). On a terminal the page stays up "
             "until Ctrl-C, with a link to the example; with --no-page, --quiet or --json, or if "
             "the output is not a terminal, it ends when the videos are done.\n\nThe result goes "
             "to standard output, progress to standard error.",
     .options = run_options, .completion = CLI_COMPLETE_FILE, .store = true, .local = true,
     .long_lasting = true, OPERATOR_JSON, .run = cli_run},
    {"search", "WORD…", 1, MANY, "find text in all videos",
     .text =
         "Finds lines that contain all words. Put a \"phrase\" in quotes (and protect them from "
         "the shell); OR is between alternatives, -word excludes, word* is a beginning. The best "
         "hits come first. Words that were mistyped, misread, joined or split are found too, "
         "unless --exact is given. Fields restrict the search: from:holiday (file name, title, "
         "platform or id of a video, or a part of it), lang:deu, tag:berlin or tag:@anna, in:\"my "
         "holidays\" (a collection), recorded:2024, at:2026-03-01T14:05, source:subtitle, like:ID, "
         "after: and before: with the date when the video was imported (2024, 2024-05-17; before "
         "is exclusive) or a time in the video (1:30, 90s).\n\nEach hit has its time, its box in "
         "pixels of the frame, the kind of match, and the text with the match marked. If thousands "
         "of lines contain a word, the newest are ranked. Exit status 1: nothing was found.",
     .options = search_options, .dash_words = true, OPERATOR_JSON, .remote = true,
     .values = "=20>limit limit:number video:video exact:flag model filter", .run = cli_search},
    {"export", "VIDEO", 1, 1, "write a video's text as JSON, CSV, subtitles, text or Markdown",
     .text = NAMED_VIDEO
     "\n\njson has the video, its texts and their entities, with times in milliseconds; csv has "
     "one row per text, with clock times and milliseconds, and no cell that a spreadsheet would "
     "take for a formula; srt and ass are subtitles; vtt has each line at its place on screen; txt "
     "is only the text; md is a table.",
     .options = export_options, .completion = CLI_COMPLETE_VIDEO, .login = CLI_LOGIN_OPERATOR,
     .remote = true, .values = "bom:flag no-positions>positions:off source 0>id:video",
     .run = cli_export},
    {"clip", "VIDEO START [END]", 2, 3, "cut a clip out of a video",
     .text = "Cuts from two seconds before START to two seconds after END (--padding 0: at exactly "
             "these times), exactly to the frame, and writes the clip to the current folder or to "
             "-o FILE, replacing a file of that name. Times are seconds (3, 3.4), clock times "
             "(0:03.4, 1:02:03) or have units (1m2s, 3400ms). A jpg takes one time and no END. A "
             "clip ends with its video, and its name says where. The clip also stays in the store, "
             "so that the same clip is available at once the next time.\n\n" NAMED_VIDEO,
     .options = clip_options, .completion = CLI_COMPLETE_VIDEO, .store = true, .long_lasting = true,
     OPERATOR_JSON, .remote = true,
     .values = "1>t_start:ms 2>t_end:ms =2000>padding_ms padding>padding_ms:ms mode>options.mode "
               "max-height>options.max_height:number mute>options.mute:flag crop>options.crop:crop "
               "redact>options.redact:texts 0>video_id:video",
     .run = cli_clip},
    {"subtitles", "VIDEO FILE", 2, 2, "add a file of subtitles to a video, or replace one",
     .text = "FILE is SubRip, WebVTT or SSA/ASS. The end of its name says language and format: "
             "talk.en.srt. cortana run takes such files that lie beside a video, and so does the "
             "inbox.\n\n" NAMED_VIDEO,
     .completion = CLI_COMPLETE_FILE, .store = true, OPERATOR_JSON, .remote = true,
     .run = cli_subtitles},
    {"quote", "LINE", 1, 1, "make a picture of a line, with its source below it",
     .text =
         "The frame in which the line is seen, as JPEG, and below it the video's title, the time, "
         "when that was, and a link. LINE is the id of a line (segment_id of cortana search "
         "--json). With --json the answer has a text for people who do not see the picture.",
     .options = quote_options, .store = true, .long_lasting = true, OPERATOR_JSON, .remote = true,
     .values = "0>id:uuid around:flag max-height>max_height:number redact:texts site",
     .run = cli_quote},
    {"reel", "QUERY", 1, 1, "make one film of all that a search finds",
     .text =
         "An MP4 with the lines that QUERY finds (see cortana search), two seconds more on both "
         "sides, by video and time. Before each place a card says which video it is, when, and "
         "what was found. "
         "Places that overlap are one. A film has at most 100 places and 20 minutes; a place that "
         "cannot be shown is left out, and named.",
     .options = reel_options, .store = true, .long_lasting = true, OPERATOR_JSON, .remote = true,
     .values = "0>q video:video exact:flag sort mute:flag redact:texts", .run = cli_reel},
    {"transcribe", "VIDEO…", 1, MANY, "hear what is said in videos, again if it was heard before",
     .text = "New videos are heard by themselves where TRANSCRIBE_URL names an endpoint. This "
             "enqueues a job for each of these; transcribe-worker does it piece by "
             "piece.\n\n" NAMED_VIDEO,
     .completion = CLI_COMPLETE_VIDEO, OPERATOR_JSON, .operation = "create_job", .each = true,
     .values = "=\"transcribe\">type 0>video_id:video", .done = "job {id} hears what is said in it",
     .run = cli_request},
    {"reindex", "[VIDEO]…", 0, MANY,
     "read videos again, with other languages or models, without decoding them",
     .text = "Reads the pictures of lines that were kept when a video was first read, and replaces "
             "the old text by the new one in one step. A video that was read before pictures of "
             "lines were kept is read from its frames. A local installation waits until this is "
             "done; in a fleet it starts runs (cortana runs).\n\n" NAMED_VIDEO,
     .options = reindex_options, .completion = CLI_COMPLETE_VIDEO, .store = true,
     .long_lasting = true, UPKEEP_JSON, .run = cli_reindex},
    {"why", "VIDEO TIME [TEXT]", 2, 3, "tell how the text on screen at a time was found and read",
     .text = "Reads the kept frames again, and prints for each line that was on screen at TIME (or "
             "within a second of it, and like TEXT) where it was seen, what each model read, what "
             "it was joined with or not, whether it was taken for text, and why. Changes nothing.",
     .completion = CLI_COMPLETE_VIDEO, .store = true, OPERATOR_JSON, .run = cli_why},
    {"delete", "VIDEO…", 1, MANY, "delete videos and everything made from them",
     .text = "Deletes the rows at once; a job removes the objects, including the "
             "original.\n\n" NAMED_VIDEO,
     .completion = CLI_COMPLETE_VIDEO, .store = true, OPERATOR_JSON, .operation = "delete_video",
     .values = "0>id:video", .each = true, .done = "video {id} is deleted", .run = cli_delete},
    {"doctor", "[VIDEO]", 0, 1, "check this installation and say what to do",
     .text = "Prints one line per check: ok, warn or fail, and what to do. Exit status 1 if "
             "anything fails. With a video, also checks its playlists, segments and pictures: "
             "durations, keyframes, codec names and bit rates against the files, and that nothing "
             "is missing.\n\n" NAMED_VIDEO,
     .completion = CLI_COMPLETE_VIDEO, .store = true, .unmigrated = true, UPKEEP_JSON,
     .run = cli_doctor},
    {"env", "", 0, 0, "print the variables and the psql command of this installation",
     .text = "Prints DATABASE_URL and STORE_URL as lines for a shell, and the psql command. The "
             "server of a local installation runs only while a cortana command does: keep it up "
             "with cortana run.",
     OPERATOR_JSON, .run = cli_env},
    {"migrate", "", 0, 0, "migrate the database's schema to this version",
     .text =
         "Applies every pending migration once, under a lock, so that several processes may run it "
         "at the same time. Waits up to two minutes for a database that is not there yet.",
     .options = migrate_options, .unmigrated = true, .login = CLI_LOGIN_OWNER, .json = true,
     .run = cli_migrate},
    {"gc", "", 0, 0, "find and remove objects without rows, and rows without objects",
     .text = "Compares the store with the tables and prints one line per finding: its kind, bytes, "
             "key. Originals without a row are never removed, because the scanner takes them in, "
             "unless their video was deleted. Nothing is removed without --remove.",
     .options = gc_options, .store = true, UPKEEP_JSON, .run = cli_gc},
    {"setup", "", 0, 0,
     "set up database, logins, store and settings of the services on this machine",
     .text = "Run it as root. Creates the database NAME with one login each for the schema's "
             "owner, the fleet, upkeep and the gateway, their passwords in files, the settings in "
             "cortana.conf, the schema, and the store, and prints what it did. S3_ACCESS_KEY_ID "
             "and S3_SECRET_ACCESS_KEY are taken from the environment. Existing things are kept, "
             "so it may be run again; running services continue, and use a renewed password.",
     .options = setup_options, .run = cli_service},
    {"upgrade", "", 0, 0, "back up, migrate and restart, after a new version was installed",
     .text = "Run it as root. If migrations are pending, the database is backed up first (its "
             "rows; objects are only listed). Then the schema is migrated, and the services are "
             "restarted in this order: schedules, workers, gateway.",
     .options = upgrade_options, .run = cli_service},
    {"backup", "DIR", 1, 1, "save database and store in a directory",
     .text = "Saves the rows first, then the objects; objects that DIR already has are not copied "
             "again. Workers may continue.",
     .options = backup_options, .completion = CLI_COMPLETE_FOLDER, .login = CLI_LOGIN_OWNER,
     .unmigrated = true, .store = true, .json = true, .long_lasting = true, .run = cli_backup},
    {"restore", "DIR", 1, 1, "restore a backup into an empty database",
     .text = "A schema without videos, as cortana setup makes it, is replaced. The database is "
             "restored completely or not at all; objects that the store lacks are copied. Exits "
             "with 1 and names the objects of the backup that exist in neither place.",
     .completion = CLI_COMPLETE_FOLDER, .login = CLI_LOGIN_OWNER, .unmigrated = true,
     .creates = true, .store = true, .json = true, .long_lasting = true, .run = cli_restore},
    {"config", "", 0, 0, "print the settings in effect, and where each comes from",
     .text = "Command line options override the environment, the environment overrides secrets in "
             "files (NAME_FILE, or systemd's credentials), and these override "
             "/etc/cortana/cortana.conf (CORTANA_CONFIG names another file; empty: none). Secrets "
             "are not shown.",
     .options = config_options, .json = true, .run = cli_config},
    {"completion", "bash|zsh|fish", 1, 1, "print the completion script of a shell",
     .words = "bash zsh fish",
     .text = "bash: source <(cortana completion bash). zsh: source <(cortana completion zsh), "
             "after compinit. fish: cortana completion fish | source.",
     .run = cli_completion},
    {"manual", "[DIR]", 0, 1, "print the man page, or write one for each command into DIR",
     .text = "cortana manual | man -l - shows it. DIR gets cortana.1, cortana-search.1 …, made "
             "from the same texts as --help.",
     .completion = CLI_COMPLETE_FOLDER, .run = cli_manual},
    {"videos list", "", 0, 0, "list the videos, newest first", .options = videos_options,
     UPKEEP_JSON, .operation = "videos",
     .values = "status name tag favourite:flag since>after:since =1000000>limit limit:number",
     .columns = cli_columns_videos, .note = "there are no such videos", .run = cli_request},
    {"videos show", "VIDEO", 1, 1, "show one video, what was made from it, and its jobs",
     .text = NAMED_VIDEO, .completion = CLI_COMPLETE_VIDEO, OPERATOR_JSON, .operation = "video",
     .values = "0>id:video", .fields = cli_fields_video, .also = "stages",
     .columns = cli_columns_stages, .run = cli_request},
    {"videos alike", "VIDEO", 1, 1, "list other recordings of the same thing",
     .completion = CLI_COMPLETE_VIDEO, OPERATOR_JSON, .operation = "alike", .values = "0>id:video",
     .columns = cli_columns_alike, .note = "no other video shows the same", .run = cli_request},
    {"videos set", "VIDEO…", 1, MANY, "change the title, the tags and other words of videos",
     .text = NAMED_VIDEO, .options = videos_set_options, .completion = CLI_COMPLETE_VIDEO,
     OPERATOR_JSON, .operation = "change_video", .each = true,
     .values = "0>id:video title description tag>add_tags:list untag>remove_tags:list "
               "recorded>recorded_at:since fields:object",
     .done = "video {id}: {title}[{?tags.0} ({tags})]", .run = cli_request},
    {"videos favourite", "VIDEO…", 1, MANY, "mark videos as your favourites",
     .completion = CLI_COMPLETE_VIDEO, OPERATOR_JSON, .operation = "mark_video", .each = true,
     .values = "0>id:video", .done = "video {id} is a favourite", .run = cli_request},
    {"videos unfavourite", "VIDEO…", 1, MANY, "take videos out of your favourites",
     .completion = CLI_COMPLETE_VIDEO, OPERATOR_JSON, .operation = "unmark_video", .each = true,
     .values = "0>id:video", .done = "video {id} is no favourite", .run = cli_request},

    {"fields list", "", 0, 0, "list the fields that your videos may have", OPERATOR_JSON,
     .operation = "own_fields", .columns = cli_columns_fields, .note = "they may have any",
     .run = cli_request},
    {"fields set", "JSON", 1, 1, "say which fields your videos may have; []: any",
     .text = "A list such as [{\"name\": \"mood\", \"type\": \"choice\", \"choices\": [\"calm\", "
             "\"loud\"], \"required\": true}]; other types: text, number, date.",
     .options = share_tenant_options, OPERATOR_JSON, .operation = "set_own_fields",
     .values = "0>fields:json tenant>tenant_id:uuid", .done = "the fields are set",
     .run = cli_request},

    {"collections list", "", 0, 0, "list the collections, by name", OPERATOR_JSON,
     .operation = "collections", .values = "=1000000>limit", .columns = cli_columns_collections,
     .note = "there are no collections", .run = cli_request},
    {"collections show", "NAME", 1, 1, "list the videos of a collection, in its order",
     OPERATOR_JSON, .operation = "videos", .values = "0>collection:collection =1000000>limit",
     .columns = cli_columns_videos, .note = "there are no videos in it", .run = cli_request},
    {"collections add", "NAME [VIDEO]…", 1, MANY, "make a collection", OPERATOR_JSON,
     .operation = "create_collection", .values = "0>name 1>videos:videos",
     .done = "collection {id}: {videos:count video/videos}", .run = cli_request},
    {"collections set", "NAME", 1, 1, "change the name or the description of a collection",
     .options = collections_set_options, OPERATOR_JSON, .operation = "change_collection",
     .values = "0>id:collection name description", .done = "collection {id}: {name}",
     .run = cli_request},
    {"collections put", "NAME VIDEO…", 2, MANY, "put videos into a collection, or to another place",
     .options = collections_put_options, OPERATOR_JSON, .operation = "arrange_collection",
     .values = "0>id:collection 1>add:videos before:video",
     .done = "{name}: {videos:count video/videos}", .run = cli_request},
    {"collections take", "NAME VIDEO…", 2, MANY, "take videos out of a collection", OPERATOR_JSON,
     .operation = "arrange_collection", .values = "0>id:collection 1>remove:videos",
     .done = "{name}: {videos:count video/videos}", .run = cli_request},
    {"collections remove", "NAME", 1, 1, "remove a collection; its videos stay", OPERATOR_JSON,
     .operation = "delete_collection", .values = "0>id:collection", .done = "{0} is removed",
     .run = cli_request},

    {"jobs list", "", 0, 0, "list jobs, newest first", .options = jobs_list_options, UPKEEP_JSON,
     .operation = "jobs",
     .values = CLI_JOB_FILTER " since>created_after:since =50>limit limit:number",
     .columns = cli_columns_jobs, .note = "there are no such jobs", .run = cli_request},
    {"jobs show", "JOB", 1, 1, "show one job with its attempts and events", UPKEEP_JSON,
     .operation = "job", .values = "0>id:job", .fields = cli_fields_job,
     .also = "attempts job_events", .columns = cli_columns_job, .thing = "job", .run = cli_request},
    {"jobs payload", "JOB", 1, 1, "print the payload, without secrets, for a worker's --once",
     .login = CLI_LOGIN_UPKEEP, .operation = "job", .values = "0>id:job", .shows = "payload",
     .thing = "job", .run = cli_request},
    {"jobs why", "JOB", 1, 1, "explain why a job is not running", OPERATOR_JSON, .operation = "why",
     .values = "0>id:job", .columns = cli_columns_why, .thing = "job", .run = cli_request},
    {"jobs watch", "", 0, 0, "show queues and running jobs, updated every second",
     .options = jobs_watch_options, .login = CLI_LOGIN_OPERATOR, .operation = "queue_stats",
     .values = "=\"processing\">state", .columns = cli_columns_queues, .also = "jobs",
     .run = cli_watch},
    {"jobs retry", "[JOB]", 0, 1,
     "queue failed jobs again, with all their retries (--status failed, if it is not given)",
     .options = jobs_filter_options, OPERATOR_JSON, .operation = "retry_job", .values = "0>id:job",
     .done = "job {id} is queued again", .thing = "job", .run = cli_jobs_change},
    {"jobs cancel", "[JOB]", 0, 1, "cancel jobs: waiting ones at once, running ones are stopped",
     .options = jobs_filter_options, OPERATOR_JSON, .operation = "cancel_job", .values = "0>id:job",
     .done = "job {id} is canceled, or stops soon", .thing = "job", .run = cli_jobs_change},
    {"jobs priority", "N [JOB]", 1, 2, "change the priority of waiting jobs: low … urgent, 0 to 10",
     .options = jobs_filter_options, OPERATOR_JSON, .operation = "job_priority",
     .values = "0>priority 1>id:job", .done = "job {id} has priority {priority} now",
     .run = cli_jobs_change},
    {"jobs pause", "TYPE", 1, 1, "claim no more jobs of a type; running jobs continue",
     .options = reason_options, OPERATOR_JSON, .operation = "pause_type",
     .values = "0>name:type reason", .done = "type {0} is paused; what runs goes on",
     .run = cli_request},
    {"jobs resume", "TYPE", 1, 1, "claim jobs of a paused type again", OPERATOR_JSON,
     .operation = "resume_type", .values = "0>name:type", .done = "type {0} goes on",
     .run = cli_request},
    {"jobs archive", "", 0, 0, "move old months of the timeline to the store",
     .options = jobs_archive_options, .store = true, .login = CLI_LOGIN_UPKEEP,
     .run = cli_jobs_archive},
    {"jobs restore", "KEY", 1, 1, "restore an archive into the tables", .store = true,
     .login = CLI_LOGIN_OPERATOR, .run = cli_jobs_restore},

    {"runs list", "", 0, 0, "list runs, newest first (50)", UPKEEP_JSON, .operation = "runs",
     .columns = cli_columns_runs, .run = cli_request},
    {"runs show", "RUN", 1, 1, "show one run with its jobs in order", UPKEEP_JSON,
     .operation = "run", .values = "0>id:run", .fields = cli_fields_run, .also = ".jobs",
     .columns = cli_columns_run, .thing = "run", .run = cli_request},
    {"runs start", "WORKFLOW", 1, 1,
     "start the active version of a workflow, with or without a video",
     .options = runs_start_options, OPERATOR_JSON, .operation = "start_run",
     .values = "0>workflow video>video_id:video input:object",
     .done = "run {id} [{status_code=202}has started|is on its way already]", .run = cli_request},
    {"runs restart", "RUN", 1, 1, "run failed and canceled steps again; done steps stay done",
     OPERATOR_JSON, .operation = "restart_run", .values = "0>id:run", .done = "run {id} goes on",
     .thing = "run", .run = cli_request},
    {"runs cancel", "RUN", 1, 1, "cancel every job of a run that is not done", OPERATOR_JSON,
     .operation = "cancel_run", .values = "0>id:run", .done = "run {id} is canceled, or stops soon",
     .thing = "run", .run = cli_request},

    {"workflows list", "", 0, 0, "list the active version of each workflow", UPKEEP_JSON,
     .operation = "workflows", .columns = cli_columns_workflows, .run = cli_request},
    {"workflows show", "NAME", 1, 1, "print the steps of a workflow as JSON",
     .login = CLI_LOGIN_UPKEEP, .operation = "workflows", .values = "0>name",
     .shows = "items.0.steps", .thing = "workflow", .run = cli_request},
    {"workflows add", "NAME STEPS.json", 2, 2,
     "add a version of a workflow; new runs use it, current runs keep theirs",
     .completion = CLI_COMPLETE_FILE, OPERATOR_JSON, .operation = "change_workflow",
     .values = "0>name 1>steps:file", .done = "{name} version {version} is active",
     .run = cli_request},

    {"commands list", "", 0, 0, "list the programs that may be run as jobs", UPKEEP_JSON,
     .operation = "definitions", .columns = cli_columns_commands, .run = cli_request},
    {"commands show", "KEY", 1, 1, "print a definition as JSON", .login = CLI_LOGIN_UPKEEP,
     .operation = "definition", .values = "0>key", .shows = "", .thing = "command",
     .run = cli_request},
    {"commands run", "KEY", 1, 1, "enqueue a command, and print the job's id",
     .options = commands_run_options, OPERATOR_JSON, .remote = true,
     .values = "0>command args>payload:object", .run = cli_commands_run},
    {"commands define", "FILE", 1, 1,
     "define a command from a JSON object with key, description, argv, payload_schema, "
     "environment, time_limit_ms, is_public; - is standard input",
     .completion = CLI_COMPLETE_FILE, OPERATOR_JSON, .operation = "define", .values = "0>*:file",
     .done = "{key} is defined", .run = cli_request},
    {"commands enable", "KEY", 1, 1, "allow a command to be run", OPERATOR_JSON,
     .operation = "define", .values = "0>key =true>is_enabled", .done = "{key} may be run",
     .thing = "command", .run = cli_request},
    {"commands disable", "KEY", 1, 1, "forbid a command to be run", OPERATOR_JSON,
     .operation = "define", .values = "0>key =false>is_enabled", .done = "{key} may not be run",
     .thing = "command", .run = cli_request},

    {"schedules list", "", 0, 0, "list the schedules, with the next time in their own time zone",
     UPKEEP_JSON, .operation = "triggers", .values = "=\"schedule\">kind",
     .columns = cli_columns_schedules, .run = cli_triggers_request},
    {"schedules show", "NAME", 1, 1, "show the definition of a schedule, and its last firings",
     UPKEEP_JSON, .remote = true, .values = "0>id:schedule", .run = cli_triggers_show},
    {"schedules next", "CRON", 1, 1,
     "print the next times of an expression like '30 2 * * mon-fri'", .options = zone_options,
     OPERATOR_JSON, .operation = "preview_schedule", .values = "0>cron zone>time_zone",
     .columns = cli_columns_times, .run = cli_request},
    {"schedules add", "NAME CRON job|run|command|webhook TARGET [PAYLOAD]", 4, 5,
     "add a schedule, which runs an action at certain times",
     .text = "TARGET is a job type, a workflow, a command's key or a webhook's name. PAYLOAD is "
             "JSON; {{schedule.instant}}, {{schedule.local}} and {{schedule.date}} become values.",
     .options = schedules_add_options, OPERATOR_JSON, .operation = "create_trigger",
     .values = "0>name 1>cron 2>action 3>target 4>payload:object zone>time_zone catch-up>catch_up "
               "catch-up-limit>catch_up_limit:number one-at-a-time>one_at_a_time:flag "
               "tenant>tenant_id:uuid priority description",
     .done = "{0}: next at [{next_local} {time_zone}|no time]", .run = cli_triggers_request},
    {"schedules pause", "NAME", 1, 1,
     "pause a schedule; times that pass meanwhile are not caught up on", .options = reason_options,
     OPERATOR_JSON, .operation = "pause_trigger", .values = "0>id:schedule reason",
     .done = "{0} is paused", .run = cli_request},
    {"schedules resume", "NAME", 1, 1, "resume a paused schedule", OPERATOR_JSON,
     .operation = "resume_trigger", .values = "0>id:schedule", .done = "{0} goes on",
     .run = cli_request},
    {"schedules remove", "NAME", 1, 1, "remove a schedule", OPERATOR_JSON,
     .operation = "delete_trigger", .values = "0>id:schedule", .done = "{0} is removed",
     .run = cli_request},
    {"schedules fire", "NAME", 1, 1, "run the action of a schedule now", OPERATOR_JSON,
     .operation = "fire_trigger", .values = "0>id:schedule",
     .done = "{0}: {outcome}[ {job_id}| {run_id}|: {error}]", .run = cli_request},
    {"schedules defaults", "", 0, 0, "add the missing ones of the built-in schedules",
     OPERATOR_JSON, .operation = "restore_schedules", .done = "{made} schedules were missing",
     .run = cli_request},
    {"schedules upkeep", "", 0, 0, "show the maintenance tasks of schedulers", UPKEEP_JSON,
     .operation = "upkeep_tasks", .columns = cli_columns_upkeep, .run = cli_request},

    {"triggers list", "", 0, 0, "list the triggers, and their last firings", UPKEEP_JSON,
     .operation = "triggers", .values = "=\"event\">kind", .columns = cli_columns_triggers,
     .run = cli_triggers_request},
    {"triggers show", "NAME", 1, 1, "show the definition of a trigger, and its last 20 firings",
     UPKEEP_JSON, .remote = true, .values = "0>id:trigger", .run = cli_triggers_show},
    {"triggers add", "NAME EVENT job|run|command|webhook TARGET [PAYLOAD]", 4, 5,
     "add a trigger, which runs an action when an event happens",
     .text =
         "EVENT is video.uploaded, video.ready, clip.created, search.matched, job.failed, or "
         "one of your own. TARGET is a job type, a workflow, a command's key or a webhook's name. "
         "PAYLOAD is JSON; {{event.video_id}} and {{event.data.NAME}} become values.",
     .options = triggers_add_options, OPERATOR_JSON, .operation = "create_trigger",
     .values = "0>name 1>event 2>action 3>target 4>payload:object filter:object key>dedupe_key "
               "window>dedupe_window_seconds:seconds one-at-a-time>one_at_a_time:flag "
               "tenant>tenant_id:uuid priority description",
     .done = "{0} waits for {1}", .run = cli_triggers_request},
    {"triggers pause", "NAME", 1, 1, "pause a trigger", .options = reason_options, OPERATOR_JSON,
     .operation = "pause_trigger", .values = "0>id:trigger reason", .done = "{0} is paused",
     .run = cli_request},
    {"triggers resume", "NAME", 1, 1, "resume a paused trigger", OPERATOR_JSON,
     .operation = "resume_trigger", .values = "0>id:trigger", .done = "{0} goes on",
     .run = cli_request},
    {"triggers remove", "NAME", 1, 1, "remove a trigger", OPERATOR_JSON,
     .operation = "delete_trigger", .values = "0>id:trigger", .done = "{0} is removed",
     .run = cli_request},
    {"triggers emit", "EVENT [DATA]", 1, 2, "emit an event of your own",
     .options = triggers_emit_options, OPERATOR_JSON, .operation = "send_event",
     .values = "0>name 1>data:object video>video_id:video tenant>tenant_id:uuid",
     .done = "event {id}", .run = cli_triggers_request},

    {"alerts list", "", 0, 0, "list what saved searches have found", OPERATOR_JSON,
     .operation = "alerts", .columns = cli_columns_alerts, .note = "nothing was found yet",
     .run = cli_request},
    {"alerts searches", "", 0, 0, "list the saved searches, with their feeds", OPERATOR_JSON,
     .operation = "saved_searches", .columns = cli_columns_searches,
     .note = "no search is saved: cortana alerts save QUERY", .run = cli_request},
    {"alerts save", "QUERY", 1, 1, "save a search, which is asked of each new video",
     .options = alerts_save_options, OPERATOR_JSON, .operation = "save_search",
     .values = "0>query name clip:flag", .done = "{id}", .run = cli_request},
    {"alerts mail", "ID WHEN", 2, 2, "tell you by mail: never, at_once, hourly or daily",
     OPERATOR_JSON, .operation = "change_saved_search", .values = "0>id:uuid 1>mail",
     .thing = "saved search", .done = "mail: {mail}", .run = cli_request},
    {"alerts delete", "ID", 1, 1, "delete a saved search and what it has found", OPERATOR_JSON,
     .operation = "delete_saved_search", .values = "0>id:uuid", .thing = "saved search",
     .done = "deleted", .run = cli_request},
    {"webhooks list", "", 0, 0,
     "list the webhooks, their events, and the outcome of the last message", UPKEEP_JSON,
     .operation = "webhooks", .columns = cli_columns_webhooks, .run = cli_request},
    {"webhooks add", "NAME URL", 2, 2,
     "add a webhook, and print the secret with which its receiver checks signatures",
     .options = webhooks_add_options, OPERATOR_JSON, .operation = "create_webhook",
     .values = "0>name 1>url event>events:list tenant>tenant_id:uuid secret description",
     .done = "{secret}",
     .note = "{name} is called for [{?events.0}{events}|no event]; the secret above is for its "
             "receiver",
     .run = cli_request},
    {"webhooks test", "NAME", 1, 1, "send a message of type webhook.test", OPERATOR_JSON,
     .operation = "test_webhook", .values = "0>name", .done = "job {job_id}", .thing = "webhook",
     .run = cli_request},
    {"webhooks rotate", "NAME", 1, 1, "make a new secret; the old ones also sign for a while",
     .options = webhooks_rotate_options, OPERATOR_JSON, .operation = "rotate_webhook",
     .values = "0>name keep>keep_hours:hours secret", .done = "{secret}",
     .note = "messages are signed with the old secrets, too, for [{keep_hours}|24] hours",
     .thing = "webhook", .run = cli_request},
    {"webhooks disable", "NAME", 1, 1,
     "send no more messages; a receiver causes this by answering 410", .options = reason_options,
     OPERATOR_JSON, .operation = "change_webhook", .values = "0>name =false>is_enabled reason",
     .done = "{name} is off", .thing = "webhook", .run = cli_request},
    {"webhooks enable", "NAME", 1, 1, "send messages again", OPERATOR_JSON,
     .operation = "change_webhook", .values = "0>name =true>is_enabled", .done = "{name} is on",
     .thing = "webhook", .run = cli_request},
    {"webhooks remove", "NAME", 1, 1, "remove a webhook and its triggers", OPERATOR_JSON,
     .operation = "delete_webhook", .values = "0>name",
     .done = "{name} is removed, with its triggers", .thing = "webhook", .run = cli_request},

    {"workers list", "", 0, 0, "list the workers, and which are stale",
     .text = "A stale worker has not reported for longer than a lease lasts; other workers claim "
             "its jobs.",
     .options = workers_options, UPKEEP_JSON, .operation = "workers", .values = "all>active:unless",
     .columns = cli_columns_workers, .note = "no worker runs", .run = cli_request},
    {"workers drain", "WORKER", 1, 1,
     "let a worker finish its jobs and exit; it claims nothing more",
     .text = "The beginning of an id, such as a host, means all workers whose id begins with it.",
     OPERATOR_JSON, .operation = "drain_worker", .values = "0>worker",
     .done = "worker {0} claims nothing more, and goes when what it runs has ended",
     .thing = "worker", .run = cli_request},

    {"hosts list", "", 0, 0, "list the hosts, their CPU budgets and how full their disks are",
     UPKEEP_JSON, .operation = "hosts", .columns = cli_columns_hosts,
     .note = "no worker has been seen on any host", .run = cli_request},
    {"hosts set", "HOST NAME=VALUE…", 2, MANY, "change the limits of a host",
     .text = "cpu-budget=N  largest sum of the weights of jobs that run there at once, or none",
     OPERATOR_JSON, .operation = "change_host", .values = "0>host",
     .settings = "cpu-budget>cpu_budget", .done = SETTINGS_DONE, .thing = "host",
     .run = cli_request},

    {"nodes list", "", 0, 0, "list the nodes that may sleep, and which are awake", UPKEEP_JSON,
     .operation = "nodes", .columns = cli_columns_nodes,
     .note = "there are no nodes; see cortana nodes set --help", .run = cli_request},
    {"nodes set", "NODE NAME=VALUE…", 2, MANY, "add or change a node",
     .text = "types=TYPE,…  for whose jobs it is woken\nmac=ADDRESS  wake it with a magic packet "
             "(broadcast=ADDRESS, port=N)\nscript=PATH,…  wake it with a program\nhost=NAME  as "
             "its workers report it\nmax=N  jobs that run there at once, or none\nenabled=yes|no",
     OPERATOR_JSON, .operation = "define_node", .values = "0>node",
     .settings = "host types>job_types mac broadcast port script enabled>is_enabled "
                 "max>max_concurrency",
     .done = SETTINGS_DONE, .run = cli_request},
    {"nodes remove", "NODE", 1, 1, "remove a node", OPERATOR_JSON, .operation = "delete_node",
     .values = "0>node", .done = "{0} is forgotten", .thing = "node", .run = cli_request},
    {"nodes wake", "NODE", 1, 1,
     "wake a node with a magic packet or its script, whether or not it is needed", OPERATOR_JSON,
     .operation = "wake_node", .values = "0>node", .thing = "node",
     .done = "a scheduler wakes node {0} within 30 seconds", .run = cli_triggers_request},

    {"tenants list", "", 0, 0, "list the tenants: how much each stores and may store",
     OPERATOR_JSON, .operation = "tenants", .columns = cli_columns_tenants,
     .note = "no tenant stores anything", .run = cli_request},
    {"tenants pause", "TENANT", 1, 1, "claim no more jobs of a tenant; running jobs continue",
     .options = reason_options, OPERATOR_JSON, .operation = "pause_tenant",
     .values = "0>id:uuid reason", .done = "tenant {0} is paused; what runs goes on",
     .run = cli_request},
    {"tenants resume", "TENANT", 1, 1, "claim jobs of a paused tenant again", OPERATOR_JSON,
     .operation = "resume_tenant", .values = "0>id:uuid", .done = "tenant {0} goes on",
     .run = cli_request},
    {"tenants limit", "TENANT SIZE", 2, 2, "limit the bytes of originals that a tenant may store",
     .text = "TENANT is a UUID (a team, or a user without one), or default for all that have no "
             "limit of their own. SIZE is a number of bytes, or one like 500GB, or none.",
     OPERATOR_JSON, .operation = "limit_tenant", .values = "0>id:tenant 1>max_bytes:limit",
     .done = "{0} [may store {max_bytes}|has no limit of its own]", .run = cli_request},

    {"tenants add", "NAME", 1, 1, "make a tenant", OPERATOR_JSON, .operation = "make_tenant",
     .values = "0>name", .done = "{tenant_id}", .run = cli_request},
    {"tenants set", "TENANT", 1, 1, "change the name or the time zone of a tenant",
     .options = tenants_set_options, OPERATOR_JSON, .operation = "change_tenant",
     .values = "0>id:uuid name zone>time_zone", .done = "tenant {0} is changed",
     .run = cli_request},

    {"share list", "", 0, 0, "list the links, and how often each was opened", OPERATOR_JSON,
     .operation = "shares", .columns = cli_columns_shares,
     .note = "nothing is shared: cortana share video VIDEO", .run = cli_request},
    {"share video", "VIDEO", 1, 1, "print a link that shows a video, or a part of it",
     .text = "The link goes behind the address of the page. With --from and --to nothing but that "
             "part is shown, apart from some seconds beside it.",
     .options = share_video_options, OPERATOR_JSON, .operation = "share",
     .values = "0>video_id:video at>at_ms:ms from>from_ms:ms to>to_ms:ms days:number "
               "download>may_download:flag",
     .done = "{link}", .run = cli_request},
    {"share clip", "CLIP", 1, 1, "print a link that shows a clip", .options = share_days_options,
     OPERATOR_JSON, .operation = "share",
     .values = "0>clip_id:uuid days:number download>may_download:flag", .thing = "clip",
     .done = "{link}", .run = cli_request},
    {"share search", "ID", 1, 1, "print a link that shows what a saved search has found",
     .options = share_days_options, OPERATOR_JSON, .operation = "share",
     .values = "0>search_id:uuid days:number download>may_download:flag", .thing = "saved search",
     .done = "{link}", .run = cli_request},
    {"share revoke", "ID", 1, 1, "revoke a link", OPERATOR_JSON, .operation = "revoke_share",
     .values = "0>id:uuid", .thing = "link", .done = "link {0} is revoked", .run = cli_request},
    {"share allow", "", 0, 0, "allow links to what belongs to a tenant",
     .options = share_tenant_options, OPERATOR_JSON, .operation = "allow_sharing",
     .values = "=\"00000000-0000-0000-0000-000000000000\">id tenant>id:uuid =true>allowed",
     .done = "links are allowed", .run = cli_request},
    {"share forbid", "", 0, 0, "allow no links; those that there are stop working",
     .options = share_tenant_options, OPERATOR_JSON, .operation = "allow_sharing",
     .values = "=\"00000000-0000-0000-0000-000000000000\">id tenant>id:uuid =false>allowed",
     .done = "links are not allowed", .run = cli_request},
    {"people list", "", 0, 0, "list the people who sign in here", OPERATOR_JSON,
     .operation = "people", .values = "=200>limit", .columns = cli_columns_people,
     .note = "nobody signs in here yet: cortana people invite", .run = cli_request},
    {"people invite", "", 0, 0, "print a link with which somebody makes an account, once",
     .text =
         "The link goes behind the address of the page. Without --tenant it invites to the only "
         "tenant there is, which is made if there is none.",
     .options = people_invite_options, OPERATOR_JSON, .operation = "invite",
     .values = "=\"editor\">role role email tenant>tenant_id:uuid days:number", .done = "{link}",
     .run = cli_request},
    {"people invitations", "", 0, 0, "list the invitations that were not used yet", OPERATOR_JSON,
     .operation = "invitations", .columns = cli_columns_invitations,
     .note = "there are no open invitations", .run = cli_request},
    {"people withdraw", "INVITATION", 1, 1, "withdraw an invitation", OPERATOR_JSON,
     .operation = "withdraw_invitation", .values = "0>id:uuid",
     .done = "invitation {0} is withdrawn", .run = cli_request},
    {"people password", "PERSON", 1, 1,
     "print a link with which a person sets a new password, once, within a day", OPERATOR_JSON,
     .operation = "renew_password", .values = "0>id:uuid", .done = "{link}", .run = cli_request},
    {"people role", "PERSON ROLE", 2, 2, "change what a person may do in a tenant",
     .options = people_tenant_options, OPERATOR_JSON, .operation = "change_person",
     .values = "0>id:uuid 1>role tenant>tenant_id:uuid", .done = "person {0} is {1} now",
     .run = cli_request},
    {"people disable", "PERSON", 1, 1, "sign a person out everywhere, and let them in no more",
     OPERATOR_JSON, .operation = "change_person", .values = "0>id:uuid =\"disabled\">state",
     .done = "person {0} cannot sign in", .run = cli_request},
    {"people enable", "PERSON", 1, 1, "let a person sign in again", OPERATOR_JSON,
     .operation = "change_person", .values = "0>id:uuid =\"active\">state",
     .done = "person {0} can sign in again", .run = cli_request},
    {"people logout", "PERSON", 1, 1, "sign a person out everywhere", OPERATOR_JSON,
     .operation = "end_persons_sessions", .values = "0>id:uuid",
     .done = "person {0} is signed out everywhere", .run = cli_request},
    {"people connect", "NAME FILE", 2, 2,
     "let people sign in by a provider of OpenID Connect, or change one",
     .text = "FILE is JSON: title, issuer, client_id, client_secret, and with tenant_id and role "
             "the tenant that everybody joins whom the provider knows; else only who is invited "
             "may sign in. Register /signed-in of the page as redirect URI at the provider.",
     OPERATOR_JSON, .operation = "set_provider", .values = "0>name 1>*:file",
     .done = "people may sign in by {0}", .run = cli_request},
    {"people disconnect", "NAME", 1, 1, "let people sign in by a provider no more", OPERATOR_JSON,
     .operation = "remove_provider", .values = "0>name", .done = "{0} is removed",
     .run = cli_request},
    {"people remove", "PERSON", 1, 1,
     "remove a person from a tenant; who belongs to none any more is deleted",
     .options = people_tenant_options, OPERATOR_JSON, .operation = "remove_person",
     .values = "0>id:uuid tenant>tenant_id:uuid", .done = "person {0} is removed",
     .run = cli_request},

    {"rules list", "", 0, 0, "list the rules of claims, one line per job type", UPKEEP_JSON,
     .operation = "job_types", .columns = cli_columns_rules, .run = cli_request},
    {"rules set", "TYPE NAME=VALUE…", 2, MANY,
     "change the rules of a job type, from the next claim on",
     .text = "priority=0..10  default priority of jobs\nweight=1..5  how much of a host's CPU "
             "budget a running job takes\nmax=N, max-per-tenant=N  jobs running at once in the "
             "whole fleet; none: no limit\ninteractive=-10..0  added to the priority while "
             "somebody searches or plays\nput-off=yes|no  claim nothing for 30 s at a time while "
             "somebody searches or plays\nevents=yes|no  write an event for every change of "
             "status, or only for failures\ntime-limit=1h  time after which an attempt is "
             "killed\nretries=1m,5m  times before the retries, one for each\n"
             "public=yes|no  whether applications may enqueue it",
     OPERATOR_JSON, .operation = "change_job_type", .values = "0>name",
     .settings = "priority>base_priority interactive>interactive_adjustment "
                 "put-off>put_off_while_interactive events>status_events weight>cpu_weight "
                 "max>max_running max-per-tenant>max_running_per_tenant time-limit>time_limit_ms "
                 "retries>retry_delays_ms public>is_public",
     .done = SETTINGS_DONE, .thing = "job type", .run = cli_request},
    {"token", "", 0, 0, "print a token for the HTTP API",
     .text = "Signed with CORTANA_JWT_SECRET or CORTANA_JWT_SECRET_FILE, as set for the gateway; "
             "else, or with --data, with the secret of the installation. Anyone who has the token "
             "acts as its user until it expires.",
     .options = token_options, .json = true, .run = cli_token},
    {"login", "URL", 1, 1, "sign in to a server, for --server",
     .text =
         "URL is the server's address, or a link that signs in (cortana run prints one). "
         "Without a link, the token (cortana token, or an API key of the page) is read from "
         "standard input, and stored in ~/.config/cortana/servers.json, which only you may read.",
     .json = true, .run = cli_login},
    {"mcp", "", 0, 0, "answer an agent over standard input and output",
     .text = "Speaks the Model Context Protocol, a message a line, for agents that start programs. "
             "With --server that server answers, as it does at /api/v1/mcp.",
     .store = true, .remote = true, .login = CLI_LOGIN_OPERATOR, .run = cli_mcp},
    {"logout", "URL", 1, 1, "forget the token of a server", .json = true, .run = cli_logout},
    {"bucket init", "", 0, 0, "create the bucket and set its lifecycle rules",
     .text = "Creates the bucket of STORE_URL if it is missing, and sets rules for unfinished "
             "uploads and for clips (CORTANA_CLIP_DAYS), if the server supports such rules. Other "
             "rules stay. May be run again at any time.",
     .json = true, .run = cli_bucket_init},

    {"embeddings list", "", 0, 0,
     "list models, the number of texts each has embedded, and the one in use", UPKEEP_JSON,
     .operation = "embeddings", .columns = cli_columns_embeddings,
     .note = "no text is embedded; see cortana embeddings --help", .run = cli_request},
    {"embeddings use", "MODEL", 1, 1,
     "embed the text of videos with this model, from the next run on", OPERATOR_JSON,
     .operation = "use_embeddings", .values = "0>model",
     .done = "videos are embedded with {0} from the next run on; those that are indexed already: "
             "cortana embeddings add --all",
     .run = cli_request},
    {"embeddings off", "", 0, 0, "stop embedding", OPERATOR_JSON, .operation = "use_embeddings",
     .values = "=null>model", .done = "videos are not embedded any more; what is there stays",
     .run = cli_request},
    {"embeddings add", "[VIDEO]", 0, 1, "embed a video that is already indexed",
     .options = embeddings_add_options, .completion = CLI_COMPLETE_VIDEO, OPERATOR_JSON,
     .operation = "embed_videos", .values = "0>video_id:video model",
     .done = "{jobs:count job/jobs}", .run = cli_embeddings_add},
    {"embeddings prune", "", 0, 0, "delete vectors of texts that no longer exist", UPKEEP_JSON,
     .operation = "prune_embeddings",
     .done = "{vectors_removed:count vector removed/vectors removed}", .run = cli_request},
};
const size_t cli_verb_count = CV_COUNT(cli_verbs);

const struct cli_group cli_groups[] = {
    {"videos", "list, show and change videos", NULL},
    {"fields", "fields of your own that videos may have", NULL},
    {"collections", "collections of videos, which have an order",
     "NAME is the name of a collection, its id or the id's first letters."},
    {"jobs", "list, watch, explain and change jobs",
     "JOB is an id or its first letters. Without JOB, options select jobs; a job must match all of "
     "them."},
    {"runs", "list, show, start, restart and cancel runs of workflows",
     "RUN is an id or its first letters."},
    {"workflows", "list, show and add workflows", NULL},
    {"commands", "programs that may be run as jobs",
     "Only defined commands may run, without a shell."},
    {"schedules", "actions at certain times",
     "The program `scheduler` runs them; you may run any number of schedulers."},
    {"triggers", "actions when events happen",
     "The program `scheduler` runs them; any number of schedulers may run."},
    {"alerts", "saved searches, and what they found in new videos",
     "A saved search is asked of each video when its text becomes searchable. What it finds is an "
     "event (search.matched), which a webhook or a trigger can wait for, and an entry of its "
     "feed."},
    {"webhooks", "URLs that receive signed messages about events",
     "The program `webhook-worker` delivers the messages. Non-public addresses are refused except "
     "in networks of its CORTANA_WEBHOOK_ALLOW."},
    {"workers", "show the workers; drain one", NULL},
    {"hosts", "machines on which workers run, and their limits", NULL},
    {"nodes", "machines that sleep and are woken for jobs", NULL},
    {"share", "links for people without an account",
     "They work while the tenant allows them (cortana share allow)."},
    {"people", "invite people, show and change who may sign in", NULL},
    {"tenants", "show and limit how much tenants store, pause their jobs", NULL},
    {"rules", "show and change the rules of claims", NULL},
    {"bucket", "create the bucket and set its lifecycle rules", NULL},
    {"embeddings", "embed texts, for search by meaning",
     "embed-worker requests vectors from the endpoint EMBED_URL, in the form of OpenAI "
     "(…/v1/embeddings) or of Ollama (…/api/embed), with the key EMBED_API_KEY. Each text is "
     "embedded once."},
};
const size_t cli_group_count = CV_COUNT(cli_groups);
