#include "common/worker/worker.h"

#include "workers/mail/mail.h"

/* Without a server jobs wait; they do not fail. */
static int check_server(struct cv_error *error)
{
    cv_auto(mail_server_deinit) struct mail_server server = {0};
    return mail_server_read(cv_env("SMTP_URL", NULL), &server, error);
}

static int mail_port(struct cv_stage_context *context, const json_t *payload, uint16_t *ret_port,
                     struct cv_error *error)
{
    cv_auto(mail_server_deinit) struct mail_server server = {0};
    (void)context, (void)payload;
    CV_TRY(mail_server_read(cv_env("SMTP_URL", NULL), &server, error));
    *ret_port = server.port;
    return 0;
}

/* Asks for the mail that a payload stands for; *ret_mail stays NULL if nothing is to be sent any more.
 * The payload itself says nothing that who sees jobs may not know. */
static int find_mail(struct cv_db *db, const json_t *payload, json_t **ret_mail,
                     struct cv_error *error)
{
    cv_auto(cv_db_result_free) struct cv_db_result *rows = NULL;
    cv_auto_free char *text = json_dumps(payload, JSON_COMPACT);
    CV_TRY_MEMORY(text, error, "a mail");
    CV_TRY(cv_db_run(db, &rows, error, "SELECT mail_to_send($1::jsonb)::text AS mail", text));
    const char *found = cv_db_text(rows, 0, "mail");
    if (found) {
        *ret_mail = json_loads(found, 0, NULL);
        CV_TRY_MEMORY(*ret_mail, error, "a mail");
    }
    return 0;
}

/* Result: {"is_sent", "videos"}; "videos" are those that an alert has told of. */
static int mail_run(struct cv_stage_context *context, const json_t *payload, json_t **ret_result,
                    struct cv_error *error)
{
    cv_auto(mail_server_deinit) struct mail_server server = {0};
    cv_auto(json_decref) json_t *mail = NULL;
    CV_TRY(mail_server_read(cv_env("SMTP_URL", NULL), &server, error));
    CV_TRY(find_mail(cv_stage_db(context), payload, &mail, error));
    if (mail) {
        CV_TRY(mail_send(&server, mail, cv_env("CORTANA_JOB_ID", "once"), cv_stage_cancel(context),
                         error));
    }
    *ret_result = json_pack("{s:b, s:O*}", "is_sent", mail != NULL, "videos",
                            json_object_get(mail, "videos"));
    CV_TRY_MEMORY(*ret_result, error, "the result");
    return 0;
}

static int mail_commit(struct cv_db *db, const struct cv_job *job, const json_t *result,
                       struct cv_error *error)
{
    cv_auto_free char *payload = json_dumps(job->payload, JSON_COMPACT);
    cv_auto_free char *told = json_dumps(result, JSON_COMPACT);
    CV_TRY_MEMORY(payload && told, error, "the result");
    return cv_db_run(db, NULL, error, "SELECT mail_was_sent($1::jsonb, $2::jsonb)", payload, told);
}

int main(int argc, char **argv)
{
    static const struct cv_stage stage = {
        .name = "mail-worker",
        .job_type = "mail",
        .needs = CV_STAGE_NEEDS_DATABASE | CV_STAGE_NEEDS_MAIL_SERVER | CV_STAGE_NEEDS_NETWORK,
        .limits = {.memory_bytes = 512LL << 20, .file_bytes = 1 << 20},
        .check = check_server,
        .port = mail_port,
        .run = mail_run,
        .commit = mail_commit,
    };
    return cv_worker_main(&stage, argc, argv);
}
