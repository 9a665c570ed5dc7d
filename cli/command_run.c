#include "cli/clips.h"
#include "cli/command.h"
#include "cli/export.h"
#include "cli/ingest.h"
#include "cli/languages.h"
#include "cli/progress.h"
#include "cli/report.h"
#include "cli/text.h"
#include "cli/watch.h"

#include <getopt.h>
#include <string.h>
#include <sys/stat.h>

CV_DEFINE_CLEANUP(json_t *, json_decref)

enum { FPS_MAX = 120 };

struct run_options {
    const char *data;
    const char *store;
    const char *export_path;
    const char *workers;
    json_t *payload; /* members for the transcode job */
    char **paths;
    size_t path_count;
};

static bool parse_languages(const char *text, json_t *payload)
{
    json_t *list = cli_parse_languages(text);
    return list && json_object_set_new(payload, "languages", list) == 0;
}

static bool parse_fps(const char *text, json_t *payload)
{
    double fps = 0;
    if (!cv_parse_double(text, 0.1, FPS_MAX, &fps)) {
        return false;
    }
    bool is_whole = fps == (double)(int)fps;
    return json_object_set_new(payload, "target_fps",
                               is_whole ? json_integer((int)fps) : json_real(fps)) == 0;
}

/* CLI_EXIT_OK, an exit status ≥ 0 to leave with, in *ret_leave. */
static int parse(const struct cli_command *command, int argc, char **argv,
                 struct run_options *options, bool *ret_leave)
{
    static const struct option long_options[] = {{"data", required_argument, NULL, 'd'},
                                                 {"store", required_argument, NULL, 's'},
                                                 {"languages", required_argument, NULL, 'l'},
                                                 {"target-fps", required_argument, NULL, 'f'},
                                                 {"export", required_argument, NULL, 'e'},
                                                 {"workers", required_argument, NULL, 'w'},
                                                 {"help", no_argument, NULL, 'h'},
                                                 {0}};
    struct cli_workers probe;
    cli_workers_init(&probe, NULL);
    *ret_leave = true;
    for (int option; (option = cli_next_option(command, argc, argv, ":h", long_options)) != -1;) {
        if (option == 'd') {
            options->data = optarg;
        } else if (option == 's') {
            options->store = optarg;
        } else if (option == 'e') {
            options->export_path = optarg;
        } else if (option == 'l' && !parse_languages(optarg, options->payload)) {
            return cli_usage(command, "--languages " CLI_LANGUAGES_USAGE);
        } else if (option == 'f' && !parse_fps(optarg, options->payload)) {
            return cli_usage(command, "--target-fps takes a number from 0.1 to %d", FPS_MAX);
        } else if (option == 'w') {
            options->workers = optarg;
            if (!cli_workers_parse(&probe, optarg)) {
                return cli_usage(command, "--workers takes STAGE=N,… with N from 1 to %d",
                                 CLI_SLOTS_MAX);
            }
        } else if (option == 'h' || option == '?') {
            return option == 'h' ? CLI_EXIT_OK : CLI_EXIT_USAGE;
        }
    }
    if (optind == argc && (options->export_path || json_object_size(options->payload) > 0)) {
        return cli_usage(command, "--export, --languages and --target-fps are for videos that are "
                                  "named");
    }
    options->paths = argv + optind;
    options->path_count = (size_t)(argc - optind);
    *ret_leave = false;
    return CLI_EXIT_OK;
}

/* Before anything is started: a mistyped name should cost nothing. */
static int check_files(const struct run_options *options, struct cv_error *error)
{
    for (size_t i = 0; i < options->path_count; i++) {
        struct stat status;
        const char *path = options->paths[i];
        if (stat(path, &status) || access(path, R_OK)) {
            return cv_fail_errno(error, errno, "read %s", path);
        }
        if (!S_ISREG(status.st_mode)) {
            return cv_fail(error, CV_ERROR_IO, "%s is not a file", path);
        }
    }
    return 0;
}

static int take_in(struct cli_session *session, const struct run_options *options,
                   struct cv_cancel *cancel, struct cli_video_list *list, struct cv_error *error)
{
    int result = 0;
    for (size_t i = 0; result == 0 && i < options->path_count; i++) {
        result = cli_ingest(session, options->paths[i], options->payload, cancel, list, error);
    }
    result = result ? result : cli_resume(session, list, error);
    for (size_t i = 0; result == 0 && i < list->count; i++) {
        const struct cli_video *video = &list->videos[i];
        if (video->state != CLI_VIDEO_NEW) {
            cli_put(stdout, video->name);
            (void)printf(video->state == CLI_VIDEO_KNOWN   ? " is known already: video %s\n"
                         : video->state == CLI_VIDEO_AGAIN ? " is read again: video %s\n"
                                                           : " goes on: video %s\n",
                         video->id);
        }
    }
    (void)fflush(stdout);
    return result;
}

/* FILE.json for one video; FILE-1.json, FILE-2.json … for several. */
static int export_one(struct cli_session *session, const struct run_options *options,
                      const char *video_id, size_t number, struct cv_error *error)
{
    cv_auto_free char *path = NULL;
    int result;
    if (options->path_count == 1) {
        result = cv_format(&path, error, "%s", options->export_path);
    } else {
        const char *slash = strrchr(options->export_path, '/');
        const char *dot = strrchr(slash ? slash : options->export_path, '.');
        size_t stem = dot ? (size_t)(dot - options->export_path) : strlen(options->export_path);
        result = cv_format(&path, error, "%.*s-%zu%s", (int)stem, options->export_path, number,
                           dot ? dot : "");
    }
    return result ? result : cli_export_file(session->db, video_id, CLI_EXPORT_JSON, path, error);
}

static int show(struct cli_session *session, struct cli_workers *workers,
                const struct run_options *options, const struct cli_video_list *list,
                struct cv_cancel *cancel, struct cv_error *error)
{
    bool has_example = false;
    size_t number = 0;
    for (size_t i = 0; i < list->count; i++) {
        const struct cli_video *video = &list->videos[i];
        cv_auto(cv_db_result_free) struct cv_db_result *rows = NULL;
        if (!video->is_own) {
            continue;
        }
        number++;
        int result = cv_db_run(session->db, &rows, error,
                               "SELECT EXISTS (SELECT FROM videos WHERE id = $1::uuid"
                               " AND status = 'ready') AS ready, EXISTS (SELECT FROM segments"
                               " WHERE video_id = $1::uuid) AS has_text",
                               video->id);
        if (result == 0 && !cv_db_bool(rows, 0, "ready")) {
            continue;
        }
        if (result == 0 && options->export_path) {
            result = export_one(session, options, video->id, number, error);
        }
        result = result ? result : cli_report_texts(session, video->id, error);
        if (result == 0 && !has_example && cv_db_bool(rows, 0, "has_text")) {
            has_example = true;
            result = cli_report_example(session, workers, video->id, cancel, error);
        }
        if (result) {
            return result;
        }
    }
    return 0;
}

static int work(const struct run_options *options, struct cv_cancel *cancel, struct cv_error *error)
{
    cv_auto(cli_session_close) struct cli_session session = {0};
    const struct cli_session_params params = {
        .data = options->data, .store = options->store, .always_local = true, .cancel = cancel};
    int result = cli_session_open(&session, &params, error);
    if (result) {
        return result;
    }
    if (session.installation.notice[0] != '\0') {
        (void)fprintf(stderr, "note: %s\n", session.installation.notice);
    }
    result = cli_installation_lock_run(&session.installation, error);

    cv_auto(cli_video_list_deinit) struct cli_video_list list = {0};
    result = result ? result : take_in(&session, options, cancel, &list, error);
    if (result) {
        return result;
    }
    cv_auto(cli_workers_stop) struct cli_workers workers;
    cli_workers_init(&workers, &session);
    if (options->workers && !cli_workers_parse(&workers, options->workers)) {
        return CLI_EXIT_USAGE; /* parse() has looked already */
    }
    if (options->path_count == 0) {
        return cli_watch(&session, &workers, cancel, error);
    }
    size_t on_their_way = 0;
    for (size_t i = 0; i < list.count; i++) {
        on_their_way += list.videos[i].state != CLI_VIDEO_KNOWN;
    }
    size_t failed = 0;
    if (on_their_way > 0) {
        result = cli_workers_start(&workers, NULL, error);
        result = result ? result
                        : cli_wait_for_videos(&session, &workers, &list, cancel, &failed, error);
    }
    result = result ? result : show(&session, &workers, options, &list, cancel, error);
    return result ? result : failed > 0 ? CLI_EXIT_FAILED : CLI_EXIT_OK;
}

static int run(const struct cli_command *command, int argc, char **argv, struct cv_cancel *cancel,
               struct cv_error *error)
{
    struct run_options options = {.payload = json_object()};
    cv_auto(json_decref) json_t *payload = options.payload;
    if (!payload) {
        return cv_fail(error, CV_ERROR_OUT_OF_MEMORY, "no memory for a payload");
    }
    bool leave = false;
    int result = parse(command, argc, argv, &options, &leave);
    if (leave) {
        return result;
    }
    result = check_files(&options, error);
    result = result ? result : work(&options, cancel, error);
    if (result < 0 && options.path_count > 0 && cv_cancel_level(cancel) != CV_CANCEL_NONE) {
        (void)fprintf(stderr, "\ninterrupted; the same command carries on from here\n");
    }
    return result;
}

const struct cli_command cli_command_run = {
    .name = "run",
    .summary = "take videos to searchable text and a clip, on this machine",
    .help =
        "usage: cortana run [VIDEO…] [OPTIONS]\n\n"
        "Starts a private PostgreSQL and the workers, brings the videos in, waits until\n"
        "they are searchable, shows their texts, an example search and a clip, and stops what\n"
        "it has started. A file that is known already is not worked on again, only read again\n"
        "(see cortana reindex) where other --languages are named; an interrupted run is carried\n"
        "on by the next. Without a video: runs until Ctrl-C, and takes in what is put into the\n"
        "inbox of its store.\n\n"
        "  --data DIR          where database, objects and logs lie (" CLI_DEFAULT_DATA ")\n"
        "  --store URL         s3://BUCKET or s3://BUCKET/PREFIX instead of a directory in DIR;\n"
        "                      S3_ENDPOINT, S3_ACCESS_KEY_ID, S3_SECRET_ACCESS_KEY and the others\n"
        "                      of docs/environment.md; once given, it is kept\n"
        "  --languages L+L     models for reading, as Tesseract names them\n"
        "                      (" CLI_LANGUAGES_DEFAULT ", as far as they are installed)\n"
        "  --target-fps N      pictures a second that are looked at (10)\n"
        "  --export FILE.json  write the result; several videos: FILE-1.json, FILE-2.json … in\n"
        "                      the order of the command line\n"
        "  --workers STAGE=N,… jobs at the same time: transcode, sample, ocr, segment_index,\n"
        "                      clip_generate (1 each)\n\n"
        "Exit: 0 all ready, 1 something failed, 64 wrong usage, 130 interrupted.\n",
    .run = run,
};
