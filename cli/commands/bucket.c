#include "cli/commands/bucket.h"

#include <string.h>

enum {
    HTTP_OK = 200,
    HTTP_MULTIPLE = 300,
    HTTP_BAD = 400,
    HTTP_NOT_FOUND = 404,
    HTTP_METHOD = 405,
    HTTP_NOT_IMPLEMENTED = 501,
};

#define RULE_ID "cortana-"

static bool is_success(int status)
{
    return status >= HTTP_OK && status < HTTP_MULTIPLE;
}

static int fail_answer(const char *what, const struct cv_bucket_answer *answer,
                       struct cv_error *error)
{
    return cv_fail(error, answer->status >= 500 ? CV_ERROR_SERVER : CV_ERROR_AUTHORIZATION,
                   "%s: the server answers %d: %.300s", what, answer->status,
                   answer->text ? answer->text : "");
}

/* Makes the bucket if it is missing. */
static int make_bucket(struct cv_store *store, bool *ret_created, struct cv_error *error)
{
    cv_auto(cv_bucket_answer_deinit) struct cv_bucket_answer found = {0};
    cv_auto(cv_bucket_answer_deinit) struct cv_bucket_answer made = {0};
    int result = cv_store_bucket_request(
        store, &(struct cv_bucket_request){.method = "HEAD", .subresource = ""}, &found, error);
    if (result != 0 || is_success(found.status)) {
        *ret_created = false;
        return result;
    }
    if (found.status != HTTP_NOT_FOUND) {
        return fail_answer("look at the bucket", &found, error);
    }
    result = cv_store_bucket_request(
        store, &(struct cv_bucket_request){.method = "PUT", .subresource = ""}, &made, error);
    if (result == 0 && !is_success(made.status)) {
        return fail_answer("make the bucket", &made, error);
    }
    *ret_created = result == 0;
    return result;
}

/* Appends text with XML's special characters escaped. */
static void append_escaped(struct cv_buffer *buffer, const char *text)
{
    for (const char *c = text; *c; c++) {
        const char *escape = *c == '&' ? "&amp;" : *c == '<' ? "&lt;" : *c == '>' ? "&gt;" : NULL;
        cv_buffer_append(buffer, escape ? escape : c, escape ? strlen(escape) : 1);
    }
}

/* The prefix of this store's keys in the bucket: "", or "PREFIX/" if the store is a part of a
 * bucket. */
static int store_prefix(const struct cv_store *store, char **ret_prefix, struct cv_error *error)
{
    static const char scheme[] = "s3://";
    const char *name = cv_store_name(store);
    name += strncmp(name, scheme, strlen(scheme)) == 0 ? strlen(scheme) : 0;
    const char *slash = strchr(name, '/');
    return cv_format(ret_prefix, error, "%s%s", slash ? slash + 1 : "", slash ? "/" : "");
}

/* Appends "<ID>cortana-clips</ID>", with the prefix added if several stores share a bucket. */
static void append_id(struct cv_buffer *buffer, const char *kind, const char *prefix)
{
    cv_buffer_printf(buffer, "<ID>" RULE_ID "%s%s", kind, *prefix ? " " : "");
    append_escaped(buffer, prefix);
    cv_buffer_text(buffer, "</ID>");
}

/* Whether the rule that ends at `stop` has this id. */
static bool has_id(const char *rule, const char *stop, const char *id)
{
    const char *found = strstr(rule, id);
    return found && found < stop;
}

/* Appends the rules of a configuration that are not ours. */
static void keep_rules(struct cv_buffer *rules, const char *configuration, const char *first,
                       const char *second)
{
    static const char start[] = "<Rule>", end[] = "</Rule>";
    for (const char *rule = configuration; (rule = strstr(rule, start));) {
        const char *stop = strstr(rule, end);
        if (!stop) {
            return;
        }
        stop += strlen(end);
        if (!has_id(rule, stop, first) && !has_id(rule, stop, second)) {
            cv_buffer_append(rules, rule, (size_t)(stop - rule));
        }
        rule = stop;
    }
}

/* What a bucket's configuration is composed of. */
struct rules {
    const char *present; /* configuration before, or NULL */
    const char *prefix;
    int64_t clip_days;
};

static void append_rule(struct cv_buffer *body, const char *id, const char *prefix,
                        const char *within, const char *action)
{
    cv_buffer_printf(body, "<Rule>%s<Filter><Prefix>", id);
    append_escaped(body, prefix);
    cv_buffer_printf(body, "%s</Prefix></Filter><Status>Enabled</Status>%s</Rule>", within, action);
}

static int compose_rules(const struct rules *rules, unsigned wanted, char **ret_body,
                         struct cv_error *error)
{
    cv_auto(cv_buffer_deinit) struct cv_buffer body = CV_BUFFER_INIT;
    cv_auto(cv_buffer_deinit) struct cv_buffer unfinished = CV_BUFFER_INIT;
    cv_auto(cv_buffer_deinit) struct cv_buffer clips = CV_BUFFER_INIT;
    char action[160];
    append_id(&unfinished, "unfinished", rules->prefix);
    append_id(&clips, "clips", rules->prefix);
    CV_TRY_MEMORY(!unfinished.failed && !clips.failed, error, "lifecycle rules");
    cv_buffer_text(&body, "<LifecycleConfiguration"
                          " xmlns=\"http://s3.amazonaws.com/doc/2006-03-01/\">");
    keep_rules(&body, rules->present ? rules->present : "", unfinished.data, clips.data);
    if (wanted & CV_BUCKET_UNFINISHED) {
        (void)snprintf(action, sizeof(action),
                       "<AbortIncompleteMultipartUpload><DaysAfterInitiation>%d"
                       "</DaysAfterInitiation></AbortIncompleteMultipartUpload>",
                       CV_BUCKET_MULTIPART_DAYS);
        append_rule(&body, unfinished.data, rules->prefix, "", action);
    }
    if (wanted & CV_BUCKET_CLIPS) {
        (void)snprintf(action, sizeof(action), "<Expiration><Days>%lld</Days></Expiration>",
                       (long long)rules->clip_days);
        append_rule(&body, clips.data, rules->prefix, cv_object_prefix(CV_OBJECT_CLIPS), action);
    }
    cv_buffer_text(&body, "</LifecycleConfiguration>");
    return cv_buffer_detach(&body, ret_body, error);
}

/* Servers say in many ways that they do not know what is asked: Swift answers a lifecycle rule with
 * 400 MalformedXML. The bucket's own existence was checked before. */
static bool knows_no_rules(int status)
{
    return status == HTTP_BAD || status == HTTP_NOT_IMPLEMENTED || status == HTTP_METHOD;
}

static int put_rules(struct cv_store *store, const struct rules *rules, unsigned wanted,
                     struct cv_bucket_answer *ret_answer, struct cv_error *error)
{
    cv_auto_free char *body = NULL;
    CV_TRY(compose_rules(rules, wanted, &body, error));
    return cv_store_bucket_request(store, &(struct cv_bucket_request){"PUT", "lifecycle", body},
                                   ret_answer, error);
}

/* Sets one rule of several that were refused together; adds it to *unknown if it is refused, too. */
static int set_alone(struct cv_store *store, const struct rules *rules, unsigned rule,
                     unsigned *unknown, struct cv_error *error)
{
    cv_auto(cv_bucket_answer_deinit) struct cv_bucket_answer answer = {0};
    CV_TRY(put_rules(store, rules, rule, &answer, error));
    *unknown |= is_success(answer.status) ? 0 : rule;
    return is_success(answer.status) || knows_no_rules(answer.status)
               ? 0
               : fail_answer("set a lifecycle rule", &answer, error);
}

static int set_rules(struct cv_store *store, int64_t clip_days, unsigned *unknown,
                     struct cv_error *error)
{
    cv_auto(cv_bucket_answer_deinit) struct cv_bucket_answer present = {0};
    cv_auto(cv_bucket_answer_deinit) struct cv_bucket_answer answer = {0};
    unsigned wanted = CV_BUCKET_UNFINISHED | (clip_days > 0 ? CV_BUCKET_CLIPS : 0);
    CV_TRY(cv_store_bucket_request(
        store, &(struct cv_bucket_request){.method = "GET", .subresource = "lifecycle"}, &present,
        error));
    if (knows_no_rules(present.status)) {
        *unknown |= wanted;
        return 0;
    }
    if (!is_success(present.status) && present.status != HTTP_NOT_FOUND) {
        return fail_answer("read the lifecycle rules", &present, error);
    }
    cv_auto_free char *prefix = NULL;
    CV_TRY(store_prefix(store, &prefix, error));
    const struct rules rules = {is_success(present.status) ? present.text : NULL, prefix,
                                clip_days};
    CV_TRY(put_rules(store, &rules, wanted, &answer, error));
    if (is_success(answer.status)) {
        return 0;
    }
    unsigned refused = 0;
    CV_TRY(knows_no_rules(answer.status)
               ? set_alone(store, &rules, CV_BUCKET_UNFINISHED, &refused, error)
               : fail_answer("set the lifecycle rules", &answer, error));
    CV_TRY(wanted & CV_BUCKET_CLIPS ? set_alone(store, &rules, CV_BUCKET_CLIPS, &refused, error)
                                    : 0);
    *unknown |= refused;
    /* Each alone, but not together: the one that was set last has replaced the other. */
    return refused == 0 ? fail_answer("set the lifecycle rules", &answer, error) : 0;
}

/* Sets CORS rules, because browsers use signed URLs of the bucket to play and to upload. The
 * signature restricts what a URL allows, so any origin may use it. A bucket that has rules for
 * other sites keeps them. */
static int set_sites(struct cv_store *store, unsigned *unknown, struct cv_error *error)
{
    static const char rules[] =
        "<CORSConfiguration "
        "xmlns=\"http://s3.amazonaws.com/doc/2006-03-01/\"><CORSRule><ID>" RULE_ID
        "page</ID><AllowedOrigin>*</AllowedOrigin><AllowedMethod>GET</"
        "AllowedMethod><AllowedMethod>HEAD"
        "</AllowedMethod><AllowedMethod>PUT</AllowedMethod><AllowedHeader>*</"
        "AllowedHeader><ExposeHeader>"
        "ETag</ExposeHeader><MaxAgeSeconds>3600</MaxAgeSeconds></CORSRule></CORSConfiguration>";
    cv_auto(cv_bucket_answer_deinit) struct cv_bucket_answer present = {0};
    cv_auto(cv_bucket_answer_deinit) struct cv_bucket_answer answer = {0};
    CV_TRY(cv_store_bucket_request(
        store, &(struct cv_bucket_request){.method = "GET", .subresource = "cors"}, &present,
        error));
    if (knows_no_rules(present.status)) {
        *unknown |= CV_BUCKET_SITES;
        return 0;
    }
    if (present.status != HTTP_NOT_FOUND) {
        return 0; /* there are rules */
    }
    CV_TRY(cv_store_bucket_request(store, &(struct cv_bucket_request){"PUT", "cors", rules},
                                   &answer, error));
    *unknown |= is_success(answer.status) ? 0 : CV_BUCKET_SITES;
    return is_success(answer.status) || knows_no_rules(answer.status)
               ? 0
               : fail_answer("let browsers use the bucket", &answer, error);
}

/* Makes folders that show people where objects go; the store itself makes and removes them as
 * needed. */
static int make_folders(struct cv_store *store, struct cv_error *error)
{
    static const char mark[] = CV_KEYS_INBOX "put videos here.txt";
    static const char text[] =
        "A video that is put here is imported: it moves to its place, and its text becomes\n"
        "searchable. " CV_KEYS_INBOX "OWNER/ (a UUID) makes it that user's.\n";
    const struct cv_new_object object = {.key = mark, .data = text, .size = sizeof(text) - 1};
    return cv_store_put(store, &object, NULL, error);
}

int cv_bucket_init(struct cv_store *store, int64_t clip_days, bool *ret_created,
                   unsigned *ret_unknown, struct cv_error *error)
{
    bool created = false;
    unsigned unknown = 0;
    int result = make_bucket(store, &created, error);
    if (result == CV_STORE_UNSUPPORTED) {
        result = make_folders(store, error);
        *ret_created = false;
        *ret_unknown = 0;
        return result ? result : (int)CV_BUCKET_IS_DIRECTORY;
    }
    result = result ? result : set_sites(store, &unknown, error);
    result = result ? result : set_rules(store, clip_days, &unknown, error);
    if (result >= 0) {
        *ret_created = created;
        *ret_unknown = unknown;
    }
    return result;
}
