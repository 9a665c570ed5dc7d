#include "cli/command.h"
#include "cli/session.h"
#include "cli/table.h"

#include <getopt.h>
#include <string.h>

static int list(struct cli_session *session, struct cv_error *error)
{
    static const struct cli_column columns[] = {{"name", "MODEL", 32},
                                                {"dimensions", "NUMBERS", 8},
                                                {"texts", "TEXTS", 10},
                                                {"note", "", 0}};
    cv_auto(cv_db_result_free) struct cv_db_result *rows = NULL;
    int result =
        cv_db_run(session->db, &rows, error,
                  "SELECT coalesce(m.name, step #>> '{params,model}') AS name, m.dimensions,"
                  " (SELECT count(*) FROM text_embeddings e WHERE e.model = m.name) AS texts,"
                  " CASE WHEN step IS NOT NULL THEN 'in the pipeline' END AS note"
                  " FROM embedding_models m FULL JOIN (SELECT jsonb_array_elements(steps) AS step "
                  "FROM workflows"
                  " WHERE name = 'video_pipeline' AND is_active) AS w"
                  " ON step ->> 'job_type' = 'embed' AND step #>> '{params,model}' = m.name"
                  " WHERE m.name IS NOT NULL OR step ->> 'job_type' = 'embed' ORDER BY 1");
    if (result) {
        return result;
    }
    if (cv_db_rows(rows) == 0) {
        (void)fprintf(stderr, "no text is embedded; see cortana embeddings --help\n");
        return 0;
    }
    cli_print_table(rows, columns, CV_COUNT(columns));
    return 0;
}

static int use(struct cli_session *session, const char *model, struct cv_error *error)
{
    int result = cv_db_run(session->db, NULL, error, "SELECT embed_videos_with($1)", model);
    if (result == 0 && model) {
        (void)printf("videos are embedded with %s from the next run on; for those that are indexed "
                     "already: cortana embeddings add --all\n",
                     model);
    } else if (result == 0) {
        (void)printf("videos are not embedded any more; what is there stays\n");
    }
    return result;
}

/* A job for one video, or for each that has text the model has not seen. */
static int add(struct cli_session *session, const char *video, const char *model,
               struct cv_error *error)
{
    char id[CLI_UUID_SIZE];
    int result = video ? cli_find_video(session->db, video, id, error) : 0;
    if (result) {
        return result;
    }
    cv_auto(cv_db_result_free) struct cv_db_result *rows = NULL;
    result = cv_db_run(session->db, &rows, error, "SELECT embed_videos($1, $2::uuid) AS n", model,
                       video ? id : NULL);
    if (result == 0) {
        (void)printf("%s jobs\n", cv_db_text(rows, 0, "n"));
    }
    return result;
}

static int prune(struct cli_session *session, struct cv_error *error)
{
    cv_auto(cv_db_result_free) struct cv_db_result *rows = NULL;
    int result = cv_db_run(session->db, &rows, error, "SELECT prune_embeddings() AS n");
    if (result == 0) {
        (void)printf("%s vectors removed\n", cv_db_text(rows, 0, "n"));
    }
    return result;
}

static int run(const struct cli_command *command, int argc, char **argv, struct cv_cancel *cancel,
               struct cv_error *error)
{
    static const struct option options[] = {{"data", required_argument, NULL, 'd'},
                                            {"model", required_argument, NULL, 'm'},
                                            {"all", no_argument, NULL, 'a'},
                                            {"help", no_argument, NULL, 'h'},
                                            {0}};
    struct cli_session_params params = {.without_store = true, .cancel = cancel};
    const char *model = NULL;
    bool all = false;
    for (int option; (option = cli_next_option(command, argc, argv, ":h", options)) != -1;) {
        if (option == 'd') {
            params.data = optarg;
        } else if (option == 'm') {
            model = optarg;
        } else if (option == 'a') {
            all = true;
        } else {
            return option == 'h' ? CLI_EXIT_OK : CLI_EXIT_USAGE;
        }
    }
    const char *action = optind < argc ? argv[optind] : "list";
    int given = optind < argc ? argc - optind - 1 : 0;
    bool is_add = strcmp(action, "add") == 0;
    bool is_use = strcmp(action, "use") == 0;
    if (!is_add && !is_use && strcmp(action, "list") != 0 && strcmp(action, "off") != 0 &&
        strcmp(action, "prune") != 0) {
        return cli_usage(command, "embeddings cannot '%s'", action);
    }
    if (given != (is_use || (is_add && !all) ? 1 : 0)) {
        return cli_usage(command,
                         is_use   ? "use needs the name of a model"
                         : is_add ? "add needs a video, or --all"
                                  : "%s takes no more arguments",
                         action);
    }
    cv_auto(cli_session_close) struct cli_session session = {0};
    int result = cli_session_open(&session, &params, error);
    if (result) {
        return result;
    }
    if (is_add) {
        return add(&session, all ? NULL : argv[optind + 1], model, error);
    }
    if (is_use || strcmp(action, "off") == 0) {
        return use(&session, is_use ? argv[optind + 1] : NULL, error);
    }
    return strcmp(action, "prune") == 0 ? prune(&session, error) : list(&session, error);
}

const struct cli_command cli_command_embeddings = {
    .name = "embeddings",
    .summary = "have texts embedded, for search by meaning",
    .help = "usage: cortana embeddings [list | use MODEL | off | add VIDEO | add --all | prune]\n\n"
            "  list         models, how many texts each has embedded, which one is in use\n"
            "  use MODEL    embed the text of videos from the next run on\n"
            "  off          no more\n"
            "  add VIDEO    embed a video that is indexed already; --all: all of them\n"
            "    --model M  with another model than the one in use\n"
            "  prune        forget vectors of texts that are gone\n"
            "  --data DIR   the installation in DIR, even if DATABASE_URL is set\n\n"
            "embed-worker asks the endpoint EMBED_URL, of OpenAI's form (…/v1/embeddings) or of\n"
            "Ollama's (…/api/embed), with the key EMBED_API_KEY. Each text is embedded once.\n",
    .run = run,
};
