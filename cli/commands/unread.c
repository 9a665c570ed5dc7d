#include "cli/commands/unread.h"

#include "cli/commands/languages.h"

int cli_unread_find(struct cv_db *db, const char *video_id, struct cv_db_result **ret_rows,
                    struct cv_error *error)
{
    return cv_db_run(db, ret_rows, error,
                     "SELECT script, sum(lines) AS lines, count(DISTINCT video_id) AS videos,"
                     " CASE WHEN count(DISTINCT video_id) = 1 THEN min(video_id::text) END AS video"
                     " FROM unread_lines WHERE $1::uuid IS NULL OR video_id = $1::uuid"
                     " GROUP BY script ORDER BY lines DESC, script",
                     video_id);
}

const char *cli_unread_text(const struct cv_db_result *rows, int row,
                            char text[CLI_UNREAD_TEXT_SIZE])
{
    char model[CLI_LANGUAGE_NAME_MAX + 16], package[96], install[128] = "", videos[64] = "";
    const char *script = cv_db_text(rows, row, "script"), *video = cv_db_text(rows, row, "video");
    long long lines = cv_db_int(rows, row, "lines", 0);

    (void)snprintf(model, sizeof(model), "script/%s", script);
    if (!cli_model_is_installed(model)) {
        (void)snprintf(install, sizeof(install), "apt-get install %s, then ",
                       cli_model_package(model, package));
    }
    if (!video) {
        (void)snprintf(videos, sizeof(videos), " of %s videos", cv_db_text(rows, row, "videos"));
    }
    (void)snprintf(text, CLI_UNREAD_TEXT_SIZE,
                   "%lld line%s%s %s in %s, which no model has read: %scortana reindex "
                   "--languages eng+%s %s",
                   lines, lines == 1 ? "" : "s", videos, lines == 1 ? "is" : "are", script, install,
                   model, video ? video : "VIDEO");
    return text;
}
