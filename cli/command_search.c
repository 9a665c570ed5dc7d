#include "cli/command.h"
#include "cli/session.h"
#include "cli/text.h"

#include <getopt.h>
#include <inttypes.h>
#include <string.h>

enum { LIMIT_DEFAULT = 20, LIMIT_MAX = 1000 };

struct request {
    const char *query;
    const char *video; /* as typed; NULL: all */
    int64_t limit;
    bool json;
};

static int print_json(struct cli_session *session, const struct request *request,
                      const char *video_id, const char *limit, struct cv_error *error)
{
    cv_auto(cv_db_result_free) struct cv_db_result *rows = NULL;
    int result =
        cv_db_run(session->db, &rows, error,
                  "SELECT coalesce(json_agg(row_to_json(s) ORDER BY s.place), '[]') AS hits"
                  " FROM (SELECT h.*, row_number() OVER () AS place"
                  " FROM search_segments($1, $2::uuid, $3::int) AS h) AS s",
                  request->query, video_id, limit);
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

static int print_text(struct cli_session *session, const struct request *request,
                      const char *video_id, const char *limit, struct cv_error *error)
{
    cv_auto(cv_db_result_free) struct cv_db_result *rows = NULL;
    int result =
        cv_db_run(session->db, &rows, error,
                  "SELECT h.*, coalesce(v.original_name, v.title, v.id::text) AS name,"
                  " h.bounding_box ->> 'x' AS x, h.bounding_box ->> 'y' AS y,"
                  " h.bounding_box ->> 'width' AS width, h.bounding_box ->> 'height' AS height"
                  " FROM search_segments($1, $2::uuid, $3::int, E'\\x01', E'\\x02') AS h"
                  " JOIN videos v ON v.id = h.video_id"
                  " ORDER BY h.rank DESC, h.confidence DESC, h.video_id, h.t_start, h.segment_id",
                  request->query, video_id, limit);
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
    static const struct option options[] = {
        {"data", required_argument, NULL, 'd'},  {"video", required_argument, NULL, 'v'},
        {"limit", required_argument, NULL, 'n'}, {"json", no_argument, NULL, 'j'},
        {"help", no_argument, NULL, 'h'},        {0}};
    struct cli_session_params params = {.without_store = true, .cancel = cancel};
    struct request request = {.limit = LIMIT_DEFAULT};
    for (int option; (option = cli_next_option(command, argc, argv, ":hn:", options)) != -1;) {
        if (option == 'd') {
            params.data = optarg;
        } else if (option == 'v') {
            request.video = optarg;
        } else if (option == 'j') {
            request.json = true;
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
    return request.json ? print_json(&session, &request, video_id, limit, error)
                        : print_text(&session, &request, video_id, limit, error);
}

const struct cli_command cli_command_search = {
    .name = "search",
    .summary = "find text in all videos",
    .help = "usage: cortana search QUERY [--video ID] [--limit N] [--json] [--data DIR]\n\n"
            "Finds words, \"phrases\", -excluded words, OR and prefix*, best hits first; what was\n"
            "mistyped or misread is found too. Fields narrow it down: lang:deu, tag:berlin or\n"
            "tag:@anna, after: and before: a date of taking in (2024, 2024-05-17; before is\n"
            "exclusive) or a place in the video (1:30, 90s). Each hit has its time, its box in "
            "pixels of the\n"
            "frame, how it matched, and the text with the match marked.\n\n"
            "  --video ID   in one video: an id, its first letters, a file's name, or last\n"
            "  --limit N    hits at most (20)\n"
            "  --json       one list of objects\n"
            "  --data DIR   the installation in DIR, even if DATABASE_URL is set\n",
    .run = run,
};
