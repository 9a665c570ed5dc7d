#include "cli/report.h"

#include "cli/text.h"

#include <string.h>

static int print_head(struct cli_session *session, const char *video_id, struct cv_error *error)
{
    cv_auto(cv_db_result_free) struct cv_db_result *rows = NULL;
    int result = cv_db_run(session->db, &rows, error,
                           "SELECT coalesce(original_name, id::text) AS name, id, resolution,"
                           " round(fps::numeric, 2)::float8 AS fps,"
                           " (duration * 1000)::bigint AS duration_ms,"
                           " (SELECT count(*) FROM segments s WHERE s.video_id = v.id) AS texts"
                           " FROM videos v WHERE id = $1::uuid",
                           video_id);
    if (result || cv_db_rows(rows) == 0) {
        return result;
    }
    char duration[CLI_TIME_SIZE];
    (void)putchar('\n');
    cli_put(stdout, cv_db_text(rows, 0, "name"));
    (void)printf("  %s  %g fps  %s  %lld texts\n",
                 cv_db_text(rows, 0, "resolution") ? cv_db_text(rows, 0, "resolution") : "",
                 cv_db_double(rows, 0, "fps", 0),
                 cli_time(cv_db_int(rows, 0, "duration_ms", 0), duration),
                 (long long)cv_db_int(rows, 0, "texts", 0));
    (void)printf("video %s\n\n", cv_db_text(rows, 0, "id"));
    return 0;
}

int cli_report_texts(struct cli_session *session, const char *video_id, struct cv_error *error)
{
    int result = print_head(session, video_id, error);
    if (result) {
        return result;
    }
    cv_auto(cv_db_result_free) struct cv_db_result *rows = NULL;
    result = cv_db_run(session->db, &rows, error,
                       "SELECT s.t_start, s.t_end, s.text, (SELECT string_agg(e.entity_type || ' '"
                       " || e.value, '   ' ORDER BY e.entity_type, e.value) FROM entities e"
                       " WHERE e.segment_id = s.id) AS entities FROM segments s"
                       " WHERE s.video_id = $1::uuid"
                       " ORDER BY s.t_start, (s.bounding_box ->> 'y')::numeric, s.id",
                       video_id);
    for (int i = 0; result == 0 && i < cv_db_rows(rows); i++) {
        char start[CLI_TIME_SIZE];
        char end[CLI_TIME_SIZE];
        (void)printf("%11s – %-11s  ", cli_time(cv_db_int(rows, i, "t_start", 0), start),
                     cli_time(cv_db_int(rows, i, "t_end", 0), end));
        cli_put(stdout, cv_db_text(rows, i, "text"));
        (void)putchar('\n');
        if (cv_db_text(rows, i, "entities")) {
            (void)printf("%28s", "");
            cli_put(stdout, cv_db_text(rows, i, "entities"));
            (void)putchar('\n');
        }
    }
    return result;
}

/* The longest word of the text that was read best: what a person would look for. A video without
 * words has a number or some signs looked for; empty when it holds no text. */
static int choose_query(struct cli_session *session, const char *video_id, char *query, size_t size,
                        struct cv_error *error)
{
    cv_auto(cv_db_result_free) struct cv_db_result *rows = NULL;
    int result = cv_db_run(session->db, &rows, error,
                           "SELECT word FROM segments s,"
                           " regexp_split_to_table(s.text, '\\s+') AS piece,"
                           " btrim(piece, '.,;:!?()[]\"''') AS word"
                           " WHERE s.video_id = $1::uuid AND length(word) BETWEEN 1 AND 24"
                           " AND s.t_end > s.t_start"
                           " ORDER BY word ~ '^[[:alpha:]]{3,}$' DESC, s.confidence >= 0.9 DESC,"
                           " length(word) BETWEEN 5 AND 12 DESC, s.confidence DESC,"
                           " length(word) DESC, word LIMIT 1",
                           video_id);
    if (result == 0) {
        (void)snprintf(query, size, "%s", cv_db_rows(rows) > 0 ? cv_db_text(rows, 0, "word") : "");
    }
    return result;
}

int cli_report_example(struct cli_session *session, struct cli_workers *workers,
                       const char *video_id, struct cv_cancel *cancel, struct cv_error *error)
{
    char query[128];
    int result = choose_query(session, video_id, query, sizeof(query), error);
    if (result || query[0] == '\0') {
        return result;
    }
    bool is_terminal = isatty(STDOUT_FILENO);
    cv_auto(cv_db_result_free) struct cv_db_result *rows = NULL;
    result = cv_db_run(session->db, &rows, error,
                       "SELECT snippet, t_start, t_end, match_kind"
                       " FROM search_segments($1, $2::uuid, 1, '[', ']')",
                       query, video_id);
    if (result || cv_db_rows(rows) == 0) {
        return result;
    }
    struct cli_clip clip = {
        .padding_ms = CLI_CLIP_PADDING_MS,
        .video_id = video_id,
        .t_start = cv_db_int(rows, 0, "t_start", 0),
        .t_end = cv_db_int(rows, 0, "t_end", 0),
    };
    char start[CLI_TIME_SIZE];
    char end[CLI_TIME_SIZE];
    (void)printf("\n%ssearch %s%s\n%11s – %-11s  ", is_terminal ? "\033[1m" : "", query,
                 is_terminal ? "\033[0m" : "", cli_time(clip.t_start, start),
                 cli_time(clip.t_end, end));
    cli_put(stdout, cv_db_text(rows, 0, "snippet"));
    (void)putchar('\n');
    (void)fflush(stdout);

    cv_auto_free char *key = NULL;
    cv_auto_free char *path = NULL;
    result = cli_clip_make(session, workers, &clip, cancel, &key, error);
    result = result ? result : cli_object_path(session->store, key, &path, error);
    if (result == 0) {
        (void)printf("clip %s\n", path);
    }
    return result;
}
