#include "cli/command.h"
#include "cli/languages.h"
#include "cli/progress.h"
#include "cli/reindex.h"
#include "cli/text.h"

#include <getopt.h>
#include <string.h>

CV_DEFINE_CLEANUP(json_t *, json_decref)

struct request {
    json_t *languages; /* NULL: those of the last time */
    char **names;
    int name_count;
    bool all;
};

/* A video that cannot be read again is told; the others are. */
static int start_one(struct cli_session *session, const struct request *request,
                     struct cli_video *video, struct cli_video_list *list, size_t *failed,
                     struct cv_error *error)
{
    int result = cli_reindex_start(session, request->languages, video, error);
    if (result == 0) {
        return cli_video_list_add(list, video, error);
    }
    if (!request->all ||
        (error->type != CV_ERROR_OBJECT_NOT_FOUND && error->type != CV_ERROR_CONFLICT)) {
        return result;
    }
    (void)fprintf(stderr, "cortana reindex: ");
    cli_put(stderr, error->message);
    (void)fputc('\n', stderr);
    ++*failed;
    return 0;
}

/* The videos of $1, or all, as rows of id and name. */
static int start_rows(struct cli_session *session, const struct request *request,
                      const struct cv_db_result *rows, struct cli_video_list *list, size_t *failed,
                      struct cv_error *error)
{
    for (int i = 0; i < cv_db_rows(rows); i++) {
        struct cli_video video = {.name = (char *)cv_db_text(rows, i, "name"), .is_own = true};
        (void)snprintf(video.id, sizeof(video.id), "%s", cv_db_text(rows, i, "id"));
        int result = start_one(session, request, &video, list, failed, error);
        if (result) {
            return result;
        }
    }
    return 0;
}

static int start_all(struct cli_session *session, const struct request *request,
                     struct cli_video_list *list, size_t *failed, struct cv_error *error)
{
    static const char select[] =
        "SELECT id, coalesce(original_name, id::text) AS name FROM videos v"
        " WHERE CASE WHEN $1::uuid IS NULL THEN status = 'ready' AND duplicate_of IS NULL"
        " ELSE id = $1::uuid END ORDER BY created_at, id";
    int count = request->all ? 1 : request->name_count;
    int result = 0;
    for (int i = 0; result == 0 && i < count; i++) {
        cv_auto(cv_db_result_free) struct cv_db_result *rows = NULL;
        char id[CLI_UUID_SIZE];
        result = request->all ? 0 : cli_find_video(session->db, request->names[i], id, error);
        result = result ? result
                        : cv_db_run(session->db, &rows, error, select, request->all ? NULL : id);
        result = result ? result : start_rows(session, request, rows, list, failed, error);
    }
    return result;
}

/* A local installation has no worker while nobody runs it. */
static int wait_for_all(struct cli_session *session, const struct cli_video_list *list,
                        struct cv_cancel *cancel, size_t *ret_failed, struct cv_error *error)
{
    cv_auto(cli_workers_stop) struct cli_workers workers;
    cli_workers_init(&workers, session);
    int result = cli_workers_start(&workers, "ocr", error);
    result = result ? result : cli_workers_start(&workers, "segment_index", error);
    return result ? result
                  : cli_wait_for_videos(session, &workers, list, cancel, ret_failed, error);
}

static int tell(struct cli_session *session, const struct cli_video *video, struct cv_error *error)
{
    cv_auto(cv_db_result_free) struct cv_db_result *rows = NULL;
    int result = cv_db_run(session->db, &rows, error,
                           "SELECT r.status, (SELECT count(*) FROM segments s"
                           " WHERE s.video_id = r.video_id) AS texts, (SELECT string_agg(l, '+')"
                           " FROM jsonb_array_elements_text(r.input -> 'languages') AS l)"
                           " AS languages FROM runs r WHERE r.id = $1::uuid",
                           video->run_id);
    if (result == 0 && cv_db_rows(rows) > 0) {
        bool is_done = strcmp(cv_db_text(rows, 0, "status"), "done") == 0;
        cli_put(stdout, video->name);
        (void)printf(is_done ? ": %s texts, read with %s\n" : ": run %s is %s\n",
                     is_done ? cv_db_text(rows, 0, "texts") : video->run_id,
                     is_done ? cv_db_text(rows, 0, "languages") : cv_db_text(rows, 0, "status"));
    }
    return result;
}

static int work(struct cli_session *session, const struct request *request,
                struct cv_cancel *cancel, struct cv_error *error)
{
    cv_auto(cli_video_list_deinit) struct cli_video_list list = {0};
    size_t refused = 0;
    size_t failed = 0;
    int result = start_all(session, request, &list, &refused, error);
    if (result == 0 && session->is_local && list.count > 0) {
        result = wait_for_all(session, &list, cancel, &failed, error);
    }
    for (size_t i = 0; result == 0 && i < list.count; i++) {
        result = tell(session, &list.videos[i], error);
    }
    return result ? result : refused + failed > 0 ? CLI_EXIT_FAILED : CLI_EXIT_OK;
}

static int run(const struct cli_command *command, int argc, char **argv, struct cv_cancel *cancel,
               struct cv_error *error)
{
    static const struct option options[] = {{"all", no_argument, NULL, 'a'},
                                            {"languages", required_argument, NULL, 'l'},
                                            {"data", required_argument, NULL, 'd'},
                                            {"help", no_argument, NULL, 'h'},
                                            {0}};
    struct cli_session_params params = {.cancel = cancel};
    struct request request = {.all = false};
    cv_auto(json_decref) json_t *languages = NULL;
    for (int option; (option = cli_next_option(command, argc, argv, ":h", options)) != -1;) {
        if (option == 'a') {
            request.all = true;
        } else if (option == 'l') {
            json_decref(languages);
            languages = cli_parse_languages(optarg);
            if (!languages) {
                return cli_usage(command, "--languages " CLI_LANGUAGES_USAGE);
            }
        } else if (option == 'd') {
            params.data = optarg;
        } else {
            return option == 'h' ? CLI_EXIT_OK : CLI_EXIT_USAGE;
        }
    }
    request.languages = languages;
    request.names = argv + optind;
    request.name_count = argc - optind;
    if (request.all == (request.name_count > 0)) {
        return cli_usage(command, request.all ? "--all or names, not both" : "which video?");
    }
    cv_auto(cli_session_close) struct cli_session session = {0};
    int result = cli_session_open(&session, &params, error);
    return result ? result : work(&session, &request, cancel, error);
}

const struct cli_command cli_command_reindex = {
    .name = "reindex",
    .summary = "read videos again, with other languages or models, without decoding them",
    .help = "usage: cortana reindex VIDEO…|--all [--languages L+L] [--data DIR]\n\n"
            "Reads the pictures of the lines that were kept when a video was first read, and puts\n"
            "the new text in the place of the old, all at once. What was read before lines were\n"
            "kept is read from its frames. A local installation waits until that is done; a fleet\n"
            "is given runs (cortana runs).\n\n"
            "  --all            every video that is ready\n"
            "  --languages L+L  models, as Tesseract names them: eng+deu, script/Japanese\n"
            "                   (those it was last read with)\n"
            "  --data DIR       the installation in DIR, even if DATABASE_URL is set\n\n"
            "A video is named by its id or the beginning of it, its file's name, or last.\n"
            "Exit: 0 done, 1 something failed or cannot be read again, 64 wrong usage.\n",
    .run = run,
};
