#include "common/embed/embed.h"
#include "common/worker/worker.h"

#include <inttypes.h>
#include <string.h>

enum { MODEL_NAME_MAX = 100 };

static int read_model(const json_t *payload, const char **ret_model, struct cv_error *error)
{
    const char *model = json_string_value(json_object_get(payload, "model"));
    if (!model || !model[0] || strlen(model) > MODEL_NAME_MAX) {
        return cv_fail(error, CV_ERROR_INVALID_PAYLOAD,
                       "payload: \"model\" is not a text of 1 to %d characters", MODEL_NAME_MAX);
    }
    *ret_model = model;
    return 0;
}

/* The list [{"text_hash", "embedding"}] for store_embeddings(). */
static int describe(const struct cv_db_result *rows, const struct cv_embeddings *found,
                    char **ret_text, struct cv_error *error)
{
    cv_auto(cv_buffer_deinit) struct cv_buffer text = CV_BUFFER_INIT;
    for (size_t i = 0; i < found->count; i++) {
        cv_buffer_printf(&text, "%s{\"text_hash\":\"%s\",\"embedding\":", i ? "," : "[",
                         cv_db_text(rows, (int)i, "text_hash"));
        for (size_t j = 0; j < found->dimensions; j++) {
            cv_buffer_printf(&text, "%s%.7g", j ? "," : "[",
                             (double)found->values[i * found->dimensions + j]);
        }
        cv_buffer_text(&text, "]}");
    }
    cv_buffer_text(&text, "]");
    return cv_buffer_detach(&text, ret_text, error);
}

/* Reads the next texts without a vector; their number is 0 at the end. */
static int embed_batch(struct cv_stage_context *context, struct cv_embedder *embedder,
                       const char *video_id, const char *model, size_t *ret_count,
                       struct cv_error *error)
{
    struct cv_db *db = cv_stage_db(context);
    cv_auto(cv_db_result_free) struct cv_db_result *rows = NULL;
    int result = cv_db_run(db, &rows, error, "SELECT * FROM texts_to_embed($1::uuid, $2, $3::int)",
                           video_id, model, cv_db_number(CV_EMBED_BATCH).text);
    size_t count = result ? 0 : (size_t)cv_db_rows(rows);
    *ret_count = count;
    if (count == 0) {
        return result;
    }
    const char *texts[CV_EMBED_BATCH];
    for (size_t i = 0; i < count; i++) {
        texts[i] = cv_db_text(rows, (int)i, "text");
    }
    cv_auto(cv_embeddings_deinit) struct cv_embeddings found = {0};
    cv_auto_free char *described = NULL;
    CV_TRY(cv_embed(embedder, model, texts, count, cv_stage_cancel(context), &found, error));
    CV_TRY(describe(rows, &found, &described, error));
    return cv_db_run(db, NULL, error, "SELECT store_embeddings($1, $2::jsonb)", model, described);
}

/* Result: {"model", "embedded"}; "embedded" is the number of new texts. */
static int embed_run(struct cv_stage_context *context, const json_t *payload, json_t **ret_result,
                     struct cv_error *error)
{
    const char *video_id = NULL;
    const char *model = NULL;
    cv_auto(cv_db_result_free) struct cv_db_result *texts = NULL;
    CV_TRY(cv_payload_uuid(payload, "video_id", &video_id, error));
    CV_TRY(read_model(payload, &model, error));
    CV_TRY(cv_db_run(cv_stage_db(context), &texts, error,
                     "SELECT count(*) AS n FROM texts_to_embed($1::uuid, $2, 2147483647)", video_id,
                     model));
    int64_t total = cv_db_int(texts, 0, "n", 0);
    cv_auto(cv_embedder_close) struct cv_embedder *embedder = NULL;
    CV_TRY(cv_embedder_open(&embedder, error));
    int64_t embedded = 0;
    for (size_t count = 1; count > 0; embedded += (int64_t)count) {
        cv_stage_progress(context, total ? (double)embedded / (double)total : 0, "embed");
        CV_TRY(embed_batch(context, embedder, video_id, model, &count, error));
    }
    *ret_result = json_pack("{s:s, s:I}", "model", model, "embedded", (json_int_t)embedded);
    return *ret_result ? 0 : cv_fail(error, CV_ERROR_OUT_OF_MEMORY, "no memory for the result");
}

static int embed_port(struct cv_stage_context *context, const json_t *payload, uint16_t *ret_port,
                      struct cv_error *error)
{
    (void)context, (void)payload, (void)error;
    *ret_port = cv_embedder_port();
    return 0;
}

/* Without an endpoint jobs wait; they do not fail. */
static int check_endpoint(struct cv_error *error)
{
    cv_auto(cv_embedder_close) struct cv_embedder *embedder = NULL;
    return cv_embedder_open(&embedder, error);
}

int main(int argc, char **argv)
{
    static const struct cv_stage stage = {
        .name = "embed-worker",
        .job_type = "embed",
        .needs = CV_STAGE_NEEDS_DATABASE | CV_STAGE_NEEDS_EMBEDDER | CV_STAGE_NEEDS_NETWORK,
        .check = check_endpoint,
        .port = embed_port,
        .run = embed_run,
    };
    return cv_worker_main(&stage, argc, argv);
}
