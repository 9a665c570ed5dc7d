#include "cli/commands/page.h"

#include "cli/commands/server.h"

#include <curl/curl.h>
#include <limits.h>
#include <string.h>

static int add_moment(struct cv_buffer *link, const struct cli_moment *moment,
                      struct cv_error *error)
{
    char *query = curl_easy_escape(NULL, moment->query, 0);
    CV_TRY_MEMORY(query, error, "a link");
    cv_buffer_printf(link, "videos/%s?t=%.3f&q=%s", moment->video_id,
                     (double)moment->at_ms / 1000.0, query);
    curl_free(query);
    return 0;
}

/* The code is after the #, a part that browsers do not send. The gateway exchanges it for a token. */
int cli_page_link(const struct cli_call *call, const struct cli_moment *moment, char **ret_link,
                  struct cv_error *error)
{
    const struct cli_session *session = &call->session;
    if (call->server) {
        cv_auto(cv_buffer_deinit) struct cv_buffer there = CV_BUFFER_INIT;
        cv_buffer_printf(&there, "%s/", cli_server_url(call->server));
        CV_TRY(moment ? add_moment(&there, moment, error) : 0);
        return cv_buffer_detach(&there, ret_link, error);
    }
    char owner[CLI_OWNER_SIZE];
    char address[CLI_ADDRESS_SIZE];
    cv_auto(cv_buffer_deinit) struct cv_buffer link = CV_BUFFER_INIT;
    cv_auto(cv_db_result_free) struct cv_db_result *rows = NULL;
    if (!session->is_local || !cli_installation_page(&session->installation, address)) {
        return 1;
    }
    CV_TRY(cli_tokens_prepare(session->installation.directory, owner, error));
    CV_TRY(cv_db_run(session->db, &rows, error,
                     "SELECT cortana.make_sign_in_code($1::uuid) AS code", owner));
    cv_buffer_printf(&link, "http://%s/", address);
    CV_TRY(moment ? add_moment(&link, moment, error) : 0);
    cv_buffer_printf(&link, "#t=%s", cv_db_text(rows, 0, "code"));
    return cv_buffer_detach(&link, ret_link, error);
}

static bool has_desktop(void)
{
    return cv_env("DISPLAY", NULL) || cv_env("WAYLAND_DISPLAY", NULL);
}

static int browse(const char *link, struct cv_error *error)
{
    char program[PATH_MAX];
    const char *const argv[] = {program, link, NULL};
    const struct cli_process_params params = {.argv = argv};
    if ((has_desktop() || cv_env("BROWSER", NULL)) && cli_find_program("xdg-open", program)) {
        return cli_process_run(&params, error);
    }
    (void)puts(link);
    return 0;
}

/* Plays the original at the moment. Without a desktop a player would run without a window until
 * somebody ends it, so the place is printed instead. */
static int play(struct cli_call *call, const struct cli_moment *moment, struct cv_error *error)
{
    char program[PATH_MAX];
    char start[64];
    char time[CLI_TIME_SIZE];
    cv_auto_free char *path = NULL;
    cv_auto(json_decref) json_t *files = NULL;
    cv_auto(json_decref) json_t *values =
        json_pack("{s:s, s:b}", "id", moment->video_id, "original", true);
    CV_TRY_MEMORY(values, error, "a request");
    CV_TRY(cli_ask(call, "grant_media", values, &files, error));
    const char *key = json_string_value(json_object_get(files, "original"));
    CV_TRY(cli_object_path(call->session.store, key, &path, error));
    double seconds = (double)moment->at_ms / 1000.0;
    if (path[0] != '/') {
        return cv_fail(error, CV_ERROR_CONFIGURATION,
                       "--open plays files of a local store, and this one keeps its objects in "
                       "%s: keep the page up with cortana run, or fetch the part with cortana clip",
                       cv_store_name(call->session.store));
    }
    if (!has_desktop()) {
        (void)printf("%s at %s\n", path, cli_time(moment->at_ms, time));
        return 0;
    }
    bool is_mpv = cli_find_program("mpv", program);
    if (!is_mpv && !cli_find_program("ffplay", program)) {
        return cv_fail(error, CV_ERROR_CONFIGURATION,
                       "--open needs the page (cortana run keeps it up) or a player (apt-get "
                       "install mpv). The moment is %.3f s of %s",
                       seconds, path);
    }
    (void)snprintf(start, sizeof(start), "%s%.3f", is_mpv ? "--start=" : "", seconds);
    const char *const mpv[] = {program, start, path, NULL};
    const char *const ffplay[] = {program, "-loglevel", "error", "-ss", start, path, NULL};
    const struct cli_process_params params = {.argv = is_mpv ? mpv : ffplay,
                                              .dies_with_parent = true};
    return cli_process_run(&params, error);
}

int cli_open_moment(struct cli_call *call, const struct cli_moment *moment, struct cv_error *error)
{
    cv_auto_free char *link = NULL;
    int result = cli_page_link(call, moment, &link, error);
    return result < 0 ? result : link ? browse(link, error) : play(call, moment, error);
}
