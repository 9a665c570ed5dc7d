#include "common/embed/embed.h"

#include "cli/command.h"
#include "cli/session.h"
#include "cli/text.h"

#include <getopt.h>
#include <inttypes.h>
#include <string.h>

enum { LIMIT_DEFAULT = 20, LIMIT_MAX = 1000 };

struct request {
    const char *query;
    const char *video;  /* as typed; NULL: all */
    const char *filter; /* fields, beside a semantic query */
    const char *model;
    int64_t limit;
    bool json;
    bool semantic;
};

/* The rows of a search as a FROM clause and its parameters. */
struct search {
    const char *from;
    const char *parameters[5];
    size_t count;
    char *vector;
};

static void search_deinit(struct search *search)
{
    free(search->vector);
}
CV_DEFINE_CLEANUP_ADDRESS(struct search, search_deinit)

/* The query as a vector, in PostgreSQL's form of an array. */
static int embed_query(const char *query, const char *model, struct cv_cancel *cancel,
                       char **ret_vector, struct cv_error *error)
{
    cv_auto(cv_embedder_close) struct cv_embedder *embedder = NULL;
    cv_auto(cv_embeddings_deinit) struct cv_embeddings found = {0};
    int result = cv_embedder_open(&embedder, error);
    result = result ? result : cv_embed(embedder, model, &query, 1, cancel, &found, error);
    if (result) {
        return result;
    }
    cv_auto(cv_buffer_deinit) struct cv_buffer text = CV_BUFFER_INIT;
    for (size_t i = 0; i < found.dimensions; i++) {
        cv_buffer_printf(&text, "%s%.7g", i ? "," : "{", (double)found.values[i]);
    }
    cv_buffer_text(&text, "}");
    return cv_buffer_take(&text, ret_vector, error);
}

static int prepare_semantic(struct cli_session *session, const struct request *request,
                            const char *video_id, const char *limit, struct cv_cancel *cancel,
                            struct cv_db_result **ret_model, struct search *ret_search,
                            struct cv_error *error)
{
    int result = cv_db_run(session->db, ret_model, error,
                           "SELECT coalesce($1, embedding_model_in_use()) AS name", request->model);
    const char *model = result ? NULL : cv_db_text(*ret_model, 0, "name");
    if (result == 0 && !model) {
        return cv_fail(
            error, CV_ERROR_CONFIGURATION,
            "no model is in use; name one with --model, or see cortana embeddings --help");
    }
    result =
        result ? result : embed_query(request->query, model, cancel, &ret_search->vector, error);
    ret_search->from = "search_semantic($1::real[], $2, $3, $4::uuid, $5::int)";
    ret_search->count = 5;
    ret_search->parameters[0] = ret_search->vector;
    ret_search->parameters[1] = model;
    ret_search->parameters[2] = request->filter;
    ret_search->parameters[3] = video_id;
    ret_search->parameters[4] = limit;
    return result;
}

static void prepare_words(const struct request *request, const char *video_id, const char *limit,
                          struct search *ret_search)
{
    *ret_search = (struct search){
        .from = request->json ? "search_segments($1, $2::uuid, $3::int)"
                              : "search_segments($1, $2::uuid, $3::int, E'\\x01', E'\\x02')",
        .parameters = {request->query, video_id, limit},
        .count = 3,
    };
}

static int print_json(struct cli_session *session, const struct search *search,
                      struct cv_error *error)
{
    cv_auto_free char *sql = NULL;
    cv_auto(cv_db_result_free) struct cv_db_result *rows = NULL;
    int result =
        cv_format(&sql, error,
                  "SELECT coalesce(json_agg(row_to_json(s) ORDER BY s.place), '[]') AS hits"
                  " FROM (SELECT h.*, row_number() OVER () AS place FROM %s AS h) AS s",
                  search->from);
    result = result
                 ? result
                 : cv_db_query(session->db, sql, search->count, search->parameters, &rows, error);
    if (result == 0) {
        (void)puts(cv_db_text(rows, 0, "hits"));
    }
    return result;
}

/* The snippet with its marks (control characters, which no text holds) as bold or brackets. */
static void print_snippet(const char *snippet, bool is_terminal)
{
    for (const char *part = snippet; *part;) {
        size_t length = strcspn(part, "\001\002");
        char piece[512];
        (void)snprintf(piece, sizeof(piece), "%.*s",
                       (int)(length < sizeof(piece) ? length : sizeof(piece) - 1), part);
        cli_put(stdout, piece);
        part += strlen(piece);
        if (*part == '\001') {
            (void)fputs(is_terminal ? "\033[1;33m" : "[", stdout);
            part++;
        } else if (*part == '\002') {
            (void)fputs(is_terminal ? "\033[0m" : "]", stdout);
            part++;
        }
    }
    (void)putchar('\n');
}

static void print_hit(const struct cv_db_result *rows, int row)
{
    char start[CLI_TIME_SIZE];
    char end[CLI_TIME_SIZE];
    cli_put(stdout, cv_db_text(rows, row, "name"));
    (void)printf("  %s – %s  ", cli_time(cv_db_int(rows, row, "t_start", 0), start),
                 cli_time(cv_db_int(rows, row, "t_end", 0), end));
    if (cv_db_text(rows, row, "x")) {
        (void)printf("at %s,%s  %s×%s  ", cv_db_text(rows, row, "x"), cv_db_text(rows, row, "y"),
                     cv_db_text(rows, row, "width"), cv_db_text(rows, row, "height"));
    }
    (void)printf("%s %.2f  video %.8s\n    ", cv_db_text(rows, row, "match_kind"),
                 cv_db_double(rows, row, "rank", 0), cv_db_text(rows, row, "video_id"));
    print_snippet(cv_db_text(rows, row, "snippet"), isatty(STDOUT_FILENO));
}

static int print_text(struct cli_session *session, const struct search *search,
                      struct cv_error *error)
{
    cv_auto_free char *sql = NULL;
    cv_auto(cv_db_result_free) struct cv_db_result *rows = NULL;
    int result = cv_format(&sql, error,
                           "SELECT h.*, coalesce(v.original_name, v.title, v.id::text) AS name,"
                           " h.bounding_box ->> 'x' AS x, h.bounding_box ->> 'y' AS y,"
                           " h.bounding_box ->> 'width' AS width,"
                           " h.bounding_box ->> 'height' AS height"
                           " FROM %s AS h JOIN videos v ON v.id = h.video_id"
                           " ORDER BY h.rank DESC, h.confidence DESC, h.video_id, h.t_start,"
                           " h.segment_id",
                           search->from);
    result = result
                 ? result
                 : cv_db_query(session->db, sql, search->count, search->parameters, &rows, error);
    for (int i = 0; result == 0 && i < cv_db_rows(rows); i++) {
        print_hit(rows, i);
    }
    if (result == 0 && cv_db_rows(rows) == 0) {
        (void)fprintf(stderr, "nothing found\n");
    }
    return result;
}

static int run(const struct cli_command *command, int argc, char **argv, struct cv_cancel *cancel,
               struct cv_error *error)
{
    static const struct option options[] = {{"data", required_argument, NULL, 'd'},
                                            {"video", required_argument, NULL, 'v'},
                                            {"limit", required_argument, NULL, 'n'},
                                            {"json", no_argument, NULL, 'j'},
                                            {"semantic", no_argument, NULL, 's'},
                                            {"filter", required_argument, NULL, 'f'},
                                            {"model", required_argument, NULL, 'm'},
                                            {"help", no_argument, NULL, 'h'},
                                            {0}};
    struct cli_session_params params = {.without_store = true, .cancel = cancel};
    struct request request = {.limit = LIMIT_DEFAULT};
    for (int option; (option = cli_next_option(command, argc, argv, ":hn:", options)) != -1;) {
        if (option == 'd') {
            params.data = optarg;
        } else if (option == 'v') {
            request.video = optarg;
        } else if (option == 'j') {
            request.json = true;
        } else if (option == 's') {
            request.semantic = true;
        } else if (option == 'f') {
            request.filter = optarg;
        } else if (option == 'm') {
            request.model = optarg;
        } else if (option == 'n') {
            if (!cv_parse_int(optarg, 1, LIMIT_MAX, &request.limit)) {
                return cli_usage(command, "--limit is a number from 1 to %d", LIMIT_MAX);
            }
        } else {
            return option == 'h' ? CLI_EXIT_OK : CLI_EXIT_USAGE;
        }
    }
    if (argc - optind != 1 || argv[optind][0] == '\0') {
        return cli_usage(command, "give one query (in quotes when it has several words)");
    }
    if (!request.semantic && (request.filter || request.model)) {
        return cli_usage(command, "--filter and --model belong to --semantic");
    }
    request.query = argv[optind];

    cv_auto(cli_session_close) struct cli_session session = {0};
    char id[CLI_UUID_SIZE];
    char limit[24];
    (void)snprintf(limit, sizeof(limit), "%" PRId64, request.limit);
    int result = cli_session_open(&session, &params, error);
    if (result == 0 && request.video) {
        result = cli_find_video(session.db, request.video, id, error);
    }
    const char *video_id = request.video ? id : NULL;
    if (result) {
        return result;
    }
    cv_auto(search_deinit) struct search search = {0};
    cv_auto(cv_db_result_free) struct cv_db_result *model = NULL;
    prepare_words(&request, video_id, limit, &search);
    if (request.semantic) {
        result =
            prepare_semantic(&session, &request, video_id, limit, cancel, &model, &search, error);
    }
    if (result) {
        return result;
    }
    return request.json ? print_json(&session, &search, error)
                        : print_text(&session, &search, error);
}

const struct cli_command cli_command_search = {
    .name = "search",
    .summary = "find text in all videos",
    .help =
        "usage: cortana search QUERY [--video ID] [--limit N] [--json] [--data DIR]\n\n"
        "Finds words, \"phrases\", -excluded words, OR and prefix*, best hits first; what was\n"
        "mistyped, misread, written in one or apart is found too. Fields narrow it down:\n"
        "from:holiday (a video's file name, title, platform or id, or a part of it),\n"
        "lang:deu, tag:berlin or tag:@anna, after: and before: a date of taking in (2024,\n"
        "2024-05-17; before is exclusive) or a place in the video (1:30, 90s). Each hit has its\n"
        "time, its box in pixels of the frame, how it matched, and the text with the match\n"
        "marked. Of a word that thousands of lines hold, the newest are looked at.\n\n"
        "  --video ID   in one video: an id, its first letters, a file's name, or last\n"
        "  --limit N    hits at most (20)\n"
        "  --json       one list of objects\n"
        "  --semantic   by meaning instead: what is near to QUERY in the space of a model,\n"
        "               where texts are embedded (cortana embeddings)\n"
        "    --model M      of this model (the one in use)\n"
        "    --filter TEXT  fields as above\n"
        "  --data DIR   the installation in DIR, even if DATABASE_URL is set\n",
    .run = run,
};
