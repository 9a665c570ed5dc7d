#include "cli/commands/operation.h"
#include "cli/commands/verbs.h"

#include <fcntl.h>
#include <string.h>

/* What the stages did with the lines on screen at a time. They are run again over the kept frames, and tell their reasons
 * where they decide; this only chooses and prints. Nothing is written. */

enum { AROUND_MS = 1000 }; /* before and after the time, for a text that is named */

/* Runs a stage by hand on a payload. */
static int run_stage(struct cli_call *call, const char *name, const json_t *payload,
                     json_t **ret_result, struct cv_error *error)
{
    const struct cli_session *session = &call->session;
    const char *url = session->fleet_url ? session->fleet_url : session->database_url;
    bool is_reader = strcmp(name, "ocr-worker") == 0;
    char program[PATH_MAX];
    cv_auto_free char *place = NULL, *scratch = NULL;
    cv_auto_file FILE *input = tmpfile(), *output = tmpfile();
    cv_auto_fd int errors = open("/dev/null", O_WRONLY | O_CLOEXEC);
    CV_TRY_ERRNO(input && output && errors >= 0, error, "make a temporary file");
    CV_TRY(cv_find_program(name, program, sizeof(program), error));
    CV_TRY(is_reader ? cv_format(&place, error, "STORE_URL=%s", session->store_url)
           : url     ? cv_format(&place, error, "DATABASE_URL=%s", url)
                     : 0);
    CV_TRY(session->is_local ? cv_format(&scratch, error, "CORTANA_SCRATCH=%s/scratch",
                                         session->installation.directory)
                             : 0);
    CV_TRY_ERRNO(json_dumpf(payload, input, JSON_COMPACT) == 0 && fseek(input, 0, SEEK_SET) == 0,
                 error, "write a temporary file");
    const char *const argv[] = {program, "--once", NULL};
    const char *const environment[] = {place ? place : scratch, place ? scratch : NULL, NULL};
    const struct cli_process_params params = {.argv = argv,
                                              .environment = environment,
                                              .without_pg = is_reader,
                                              .input = fileno(input),
                                              .output = fileno(output),
                                              .errors = errors,
                                              .dies_with_parent = true};
    int status = 0;
    CV_TRY(cli_process_await(&params, call->cancel, &status, error));
    rewind(output);
    cv_auto(json_decref) json_t *result = json_loadf(output, 0, NULL);
    const char *message = json_string_value(cli_find_member(result, "error.message"));
    if (!result || message) {
        const char *type = json_string_value(cli_find_member(result, "error.type"));
        bool is_gone = type && strcmp(type, cv_error_type_name(CV_ERROR_OBJECT_NOT_FOUND)) == 0;
        return cv_fail(error, is_gone ? CV_ERROR_OBJECT_NOT_FOUND : CV_ERROR_IO, "%s failed: %s",
                       name, message ? message : "no result");
    }
    *ret_result = cv_take(result);
    return 0;
}

/* The payload with which the part of the video that contains the time was read from its frames. */
static int find_payload(struct cli_call *call, const char *video, int64_t at_ms,
                        json_t **ret_payload, struct cv_error *error)
{
    cv_auto(cv_db_result_free) struct cv_db_result *rows = NULL;
    CV_TRY(cv_db_run(
        call->session.db, &rows, error,
        "SELECT j.payload || jsonb_strip_nulls(jsonb_build_object("
        "'languages', video_languages($1::uuid), 'evidence', true)) AS payload"
        " FROM jobs j, (SELECT id, run_id, step FROM jobs WHERE video_id = $1::uuid"
        " AND job_type = 'ocr' AND status = 'done' AND payload ? 'frame_paths'"
        " ORDER BY finished_at DESC, id LIMIT 1) AS newest,"
        " substring(j.payload #>> '{frame_paths,0}' from '(\\d+)\\.\\w+$') AS start"
        " WHERE j.id = newest.id"
        " OR j.run_id = newest.run_id AND j.step = newest.step AND j.status = 'done'"
        " ORDER BY start::bigint <= $2::bigint DESC, abs(start::bigint - $2::bigint) LIMIT 1",
        video, cv_db_number(at_ms).text));
    if (cv_db_rows(rows) == 0) {
        return cv_fail(error, CV_ERROR_NOT_FOUND, "the video was not read from frames yet");
    }
    *ret_payload = json_loads(cv_db_text(rows, 0, "payload"), 0, NULL);
    CV_TRY_MEMORY(*ret_payload, error, "a payload");
    return 0;
}

/* What is asked of both results: what became of the lines that were on screen, and why. Of the places of a line that moves,
 * the first and the last; of a line that became another one, what was told of it before. */
static const char choose[] =
    "WITH RECURSIVE kept AS (SELECT * FROM jsonb_to_recordset($1::jsonb -> 'evidence') AS r (id "
    "int,"
    " text text, t_start int, t_end int, acceptance float8, refusal text, bounding_box jsonb)),"
    " told AS (SELECT * FROM ROWS FROM (jsonb_to_recordset($1::jsonb -> 'reasons') AS (line int,"
    " other int, t int, what text, bounding_box jsonb)) WITH ORDINALITY"
    " AS r (line, other, t, what, bounding_box, n)),"
    " merged AS (SELECT *, n - 1 AS line FROM ROWS FROM (jsonb_to_recordset($2::jsonb -> 'merged')"
    " AS (text text, t_start int, t_end int, segment int)) WITH ORDINALITY"
    " AS r (text, t_start, t_end, segment, n)),"
    " merging AS (SELECT DISTINCT line, other, what FROM jsonb_to_recordset($2::jsonb -> 'reasons')"
    " AS r (line int, other int, what text)),"
    " wanted AS (SELECT line FROM (SELECT id AS line, t_start, t_end, text FROM kept UNION ALL"
    " SELECT line, t, t + 1, what FROM told WHERE line > 0 OR t <= $3::int) AS all_lines"
    " GROUP BY line HAVING min(t_start) <= $3::int + $5::int AND max(t_end) > $3::int - $5::int"
    " AND bool_or($4::text IS NULL OR similarity(text, $4) >= 0.4"
    " OR strpos(normal_form(text), normal_form($4)) > 0)),"
    " became AS (SELECT line AS root, line FROM wanted UNION SELECT b.root, t.other FROM became b"
    " JOIN told t ON t.line = b.line AND t.other > 0 AND t.what LIKE 'joined%'),"
    " step AS (SELECT b.root, t.*, t.what = 'seen' AND lag(t.what) OVER by_line = 'seen'"
    " AND lead(t.what) OVER by_line = 'seen' AS is_between FROM became b JOIN told t USING (line)"
    " WINDOW by_line AS (PARTITION BY b.root, t.line ORDER BY t.n)),"
    " span AS (SELECT id AS line, min(t_start) AS t_start, min(text) AS text FROM kept GROUP BY "
    "id),"
    " answer AS (SELECT id AS line, 1 AS part, t_start AS n, 'row' AS kind, t_start AS t,"
    " coalesce('refused, ' || refusal, 'taken for text') || format(': likely by %s, %s is asked "
    "for',"
    " round(acceptance::numeric, 2), $6::text) AS what, bounding_box, text, t_end FROM kept"
    " UNION ALL SELECT k.id, 1, k.t_start, 'merging', NULL, g.what, NULL, o.text, o.t_start"
    " FROM kept k JOIN merged m USING (text, t_start, t_end)"
    " JOIN merging g ON m.line IN (g.line, g.other)"
    " LEFT JOIN merged o ON o.line = CASE m.line WHEN g.line THEN g.other ELSE g.line END"
    " UNION ALL SELECT k.id, 1, k.t_start, 'segment', s.t_start, coalesce(s.text, 'left out'), "
    "NULL,"
    " NULL, s.t_end FROM kept k JOIN merged m USING (text, t_start, t_end)"
    " LEFT JOIN LATERAL jsonb_to_record($2::jsonb -> 'segments' -> m.segment)"
    " AS s (text text, t_start int, t_end int) ON true"
    " UNION ALL SELECT s.root, 2, s.n, 'reason', s.t, s.what, s.bounding_box, o.text, o.t_start"
    " FROM step s LEFT JOIN span o ON o.line = s.other AND o.line <> s.root"
    " WHERE s.is_between IS NOT true)"
    " SELECT a.line, a.kind, a.t, a.what, a.text, a.t_end, bounding_box ->> 'x' AS x,"
    " bounding_box ->> 'y' AS y, bounding_box ->> 'width' AS width,"
    " bounding_box ->> 'height' AS height, to_jsonb(a) - 'part' - 'n' AS json"
    " FROM answer a JOIN wanted USING (line) ORDER BY a.line, a.part, a.n, a.t IS NULL, a.kind";

static void put_text(const char *before, const char *text, const char *behind)
{
    printf("%s", before);
    cli_put(stdout, text);
    printf("%s", behind);
}

static void put_row(const struct cv_db_result *rows, int row)
{
    char time[CLI_TIME_SIZE];
    const char *kind = cv_db_text(rows, row, "kind"), *text = cv_db_text(rows, row, "text");
    const char *x = cv_db_text(rows, row, "x");
    int64_t line = cv_db_int(rows, row, "line", 0);
    bool is_reason = strcmp(kind, "reason") == 0;
    if (row == 0 || line != cv_db_int(rows, row - 1, "line", 0)) {
        printf(line ? "\nline %d\n" : "\nfound, but no line\n", (int)line);
    }
    const char *at = cv_db_text(rows, row, "t") ? cli_time(cv_db_int(rows, row, "t", 0), time) : "";
    printf("  %-8s %-9s", is_reason ? "" : kind, at);
    put_text(" ", cv_db_text(rows, row, "what"), "");
    if (x) {
        printf(" (%s,%s %sx%s)", x, cv_db_text(rows, row, "y"), cv_db_text(rows, row, "width"),
               cv_db_text(rows, row, "height"));
    }
    if (text) {
        put_text(" “", text, "”");
    }
    if (cv_db_text(rows, row, "t_end")) {
        printf("%s%s", is_reason || !*at ? " from " : " until ",
               cli_time(cv_db_int(rows, row, "t_end", 0), time));
    }
    printf("\n");
}

static int put_answer(struct cli_call *call, const json_t *read, const json_t *merged,
                      const json_t *least, int64_t at_ms, struct cv_error *error)
{
    const char *text = call->count > 2 ? call->arguments[2] : NULL;
    char time[CLI_TIME_SIZE], limit[32];
    cv_auto_free char *first = json_dumps(read, JSON_COMPACT);
    cv_auto_free char *second = json_dumps(merged, JSON_COMPACT);
    cv_auto(cv_db_result_free) struct cv_db_result *rows = NULL;
    CV_TRY_MEMORY(first && second, error, "reasons");
    (void)snprintf(limit, sizeof(limit), "%.2f", least ? json_number_value(least) : 0.6);
    CV_TRY(cv_db_run(call->session.db, &rows, error, choose, first, second,
                     cv_db_number(at_ms).text, text, cv_db_number(text ? AROUND_MS : 0).text,
                     limit));
    for (int i = 0; i < cv_db_rows(rows); i++) {
        if (call->json) {
            printf("%s\n", cv_db_text(rows, i, "json"));
        } else {
            put_row(rows, i);
        }
    }
    if (cv_db_rows(rows) == 0) {
        cli_print_note(call, "no line%s%s was found at %s", text ? " like " : "", text ? text : "",
                       cli_time(at_ms, time));
    }
    return cv_db_rows(rows) > 0 ? CLI_EXIT_OK : CLI_EXIT_FAILED;
}

int cli_why(struct cli_call *call, struct cv_error *error)
{
    char video[CLI_UUID_SIZE];
    int64_t at_ms = 0;
    cv_auto(json_decref) json_t *payload = NULL, *read = NULL, *merged = NULL, *given = NULL;
    if (!cli_parse_time(call->arguments[1], &at_ms)) {
        return cli_usage(call, "%s is no time, such as 3.4 or 0:03.4", call->arguments[1]);
    }
    CV_TRY(cli_open(call, error));
    CV_TRY(cli_find(call, "video", call->arguments[0], video, error));
    CV_TRY(find_payload(call, video, at_ms, &payload, error));
    int result = run_stage(call, "ocr-worker", payload, &read, error);
    if (result < 0 && error->type == CV_ERROR_OBJECT_NOT_FOUND) {
        return cv_fail(error, CV_ERROR_OBJECT_NOT_FOUND,
                       "frames of the video are gone (CORTANA_FRAME_DAYS says how long they are "
                       "kept): work on it again from its original, SELECT reprocess_video('%s')",
                       video);
    }
    CV_TRY(result);
    given = json_pack("{s:s, s:O}", "video_id", video, "detections",
                      json_object_get(read, "detections"));
    CV_TRY_MEMORY(given, error, "the detections");
    CV_TRY(run_stage(call, "segment-index-worker", given, &merged, error));
    return put_answer(call, read, merged, json_object_get(payload, "min_confidence"), at_ms, error);
}
