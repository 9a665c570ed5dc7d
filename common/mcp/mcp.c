#include "common/mcp/mcp.h"

#include <openssl/evp.h>
#include <string.h>

/* The versions of the protocol that are understood, the newest first. */
static const char *const versions[] = {"2025-11-25", "2025-06-18", "2025-03-26"};

static const char video_uri[] = "cortana://videos/";
static const char transcript_end[] = "/transcript";

enum {
    UUID_LENGTH = 36,
    CLIP_WAIT_S = 30, /* longest time for which the API waits for a clip */
    TRANSCRIPT_LINES = 2000,
    PICTURE_MAX_BYTES = 4 * 1024 * 1024,
    /* Codes of JSON-RPC 2.0 and of the protocol. */
    INVALID_REQUEST = -32600,
    NO_SUCH_METHOD = -32601,
    INVALID_PARAMETERS = -32602,
    NO_SUCH_RESOURCE = -32002,
};

static const char instructions[] =
    "Text that was on screen in videos, with the exact time (ms) and place of each line. Search "
    "first; "
    "each hit names its video_id and t_start. `moment` shows everything that was on screen at a "
    "time, "
    "with the picture. Cite a finding by the video's title and the time.";

bool mcp_knows_version(const char *version)
{
    for (size_t i = 0; i < CV_COUNT(versions); i++) {
        if (strcmp(version, versions[i]) == 0) {
            return true;
        }
    }
    return false;
}

void mcp_call_free(struct mcp_call *call)
{
    if (call) {
        json_decref(call->id);
        json_decref(call->answer);
        json_decref(call->values);
        json_decref(call->first);
        free(call->uri);
        free(call->picture);
        free(call);
    }
}

/* ---- answers ---------------------------------------------------------------------------------- */

static json_t *result_of(const struct mcp_call *call, json_t *result)
{
    return json_pack("{s:s, s:O, s:o}", "jsonrpc", "2.0", "id", call->id, "result", result);
}

static json_t *error_of(const struct mcp_call *call, int code, const char *message)
{
    return json_pack("{s:s, s:O, s:{s:i, s:s}}", "jsonrpc", "2.0", "id", call->id, "error", "code",
                     code, "message", message);
}

static json_t *capabilities(const json_t *params)
{
    const char *asked = json_string_value(json_object_get(params, "protocolVersion"));
    return json_pack("{s:s, s:{s:{}, s:{}}, s:{s:s, s:s, s:s}, s:s}", "protocolVersion",
                     asked && mcp_knows_version(asked) ? asked : versions[0], "capabilities",
                     "tools", "resources", "serverInfo", "name", "cortana", "title",
                     "cortana: text on screen in videos", "version", CV_VERSION, "instructions",
                     instructions);
}

static json_t *templates(void)
{
    return json_pack("{s:[{s:s, s:s, s:s, s:s}, {s:s, s:s, s:s, s:s}]}", "resourceTemplates",
                     "uriTemplate", "cortana://videos/{id}", "name", "video", "description",
                     "What is known of a video.", "mimeType", "application/json", "uriTemplate",
                     "cortana://videos/{id}/transcript", "name", "transcript", "description",
                     "The text on screen in a video, a line each with its time.", "mimeType",
                     "text/plain");
}

/* ---- requests --------------------------------------------------------------------------------- */

static void call_tool(struct mcp_call *call, const json_t *params)
{
    const char *name = json_string_value(json_object_get(params, "name"));
    json_t *arguments = json_object_get(params, "arguments");
    for (size_t i = 0; name && i < mcp_tool_count; i++) {
        if (strcmp(mcp_tools[i].name, name) == 0) {
            call->operation = mcp_tools[i].operation;
            call->next = mcp_tools[i].next;
            call->values = json_is_object(arguments) ? json_copy(arguments) : json_object();
            return;
        }
    }
    call->answer = error_of(call, INVALID_PARAMETERS, "there is no tool of this name");
}

static void list_videos(struct mcp_call *call, const json_t *params)
{
    json_t *cursor = json_object_get(params, "cursor");
    call->operation = "videos";
    call->shape = MCP_VIDEOS;
    call->values = json_pack("{s:s}", "status", "ready");
    if (cursor && call->values && json_object_set(call->values, "cursor", cursor) != 0) {
        json_decref(call->values);
        call->values = NULL;
    }
}

static void read_resource(struct mcp_call *call, const json_t *params)
{
    char id[UUID_LENGTH + 1];
    const char *uri = json_string_value(json_object_get(params, "uri"));
    size_t begin = strlen(video_uri);
    (void)snprintf(id, sizeof(id), "%s",
                   uri && strncmp(uri, video_uri, begin) == 0 ? uri + begin : "");
    const char *end = cv_is_uuid(id) ? uri + begin + UUID_LENGTH : "?";
    bool is_transcript = strcmp(end, transcript_end) == 0;
    if (*end && !is_transcript) {
        call->answer = error_of(call, NO_SUCH_RESOURCE, "there is no resource of this name");
        return;
    }
    call->shape = is_transcript ? MCP_TRANSCRIPT : MCP_VIDEO;
    call->operation = is_transcript ? "segments" : "video";
    call->values = is_transcript ? json_pack("{s:s, s:i}", "id", id, "limit", TRANSCRIPT_LINES)
                                 : json_pack("{s:s}", "id", id);
    call->uri = strdup(uri);
    if (!call->uri) {
        json_decref(call->values);
        call->values = NULL;
    }
}

static void answer_method(struct mcp_call *call, const char *method, const json_t *params)
{
    if (strcmp(method, "initialize") == 0) {
        call->answer = result_of(call, capabilities(params));
    } else if (strcmp(method, "ping") == 0) {
        call->answer = result_of(call, json_object());
    } else if (strcmp(method, "tools/list") == 0) {
        call->answer = result_of(call, json_loads(mcp_tools_text, 0, NULL));
    } else if (strcmp(method, "tools/call") == 0) {
        call_tool(call, params);
    } else if (strcmp(method, "resources/list") == 0) {
        list_videos(call, params);
    } else if (strcmp(method, "resources/templates/list") == 0) {
        call->answer = result_of(call, templates());
    } else if (strcmp(method, "resources/read") == 0) {
        read_resource(call, params);
    } else {
        call->answer = error_of(call, NO_SUCH_METHOD, "there is no such method");
    }
}

int mcp_read(const json_t *message, struct mcp_call **ret_call, struct cv_error *error)
{
    const char *version = json_string_value(json_object_get(message, "jsonrpc"));
    const char *method = json_string_value(json_object_get(message, "method"));
    json_t *id = json_object_get(message, "id");
    bool is_valid = version && strcmp(version, "2.0") == 0;
    bool is_response = json_object_get(message, "result") || json_object_get(message, "error");
    bool has_id = json_is_string(id) || json_is_integer(id);
    cv_auto(mcp_call_free) struct mcp_call *call = calloc(1, sizeof(*call));
    CV_TRY_MEMORY(call, error, "a message");
    /* Notifications ask for nothing, and this side has sent no request that could be answered. */
    bool is_silent = is_valid && (method ? !id : is_response);
    if (!is_silent) {
        call->id = has_id ? json_incref(id) : json_null();
        if (!is_valid || !method || !has_id) {
            call->answer = error_of(call, INVALID_REQUEST, "this is no request of JSON-RPC 2.0");
        } else {
            answer_method(call, method, json_object_get(message, "params"));
        }
        CV_TRY_MEMORY(call->answer || (call->operation && call->values), error, "a message");
    }
    *ret_call = cv_take(call);
    return 0;
}

json_t *mcp_next(struct mcp_call *call, json_t *body)
{
    const char *made = json_string_value(json_object_get(body, "id"));
    json_t *values = NULL;
    if (!call->next) {
        return NULL;
    }
    if (strcmp(call->next, "clip") == 0) {
        values = json_pack("{s:s, s:i}", "id", made ? made : "", "wait", CLIP_WAIT_S);
    } else {
        values = json_pack("{s:O, s:O}", "id", json_object_get(call->values, "id"), "t",
                           json_object_get(call->values, "t"));
        call->first = json_incref(body);
    }
    call->next = NULL;
    return values;
}

int mcp_add_picture(struct mcp_call *call, struct cv_store *store, const json_t *body,
                    struct cv_error *error)
{
    const char *key = json_string_value(json_object_get(body, "object"));
    cv_auto_free void *bytes = NULL;
    size_t length = 0;
    int result = key ? cv_store_get(store, key, PICTURE_MAX_BYTES, &bytes, &length, error)
                     : CV_STORE_NOT_FOUND;
    if (result == 0) {
        free(call->picture);
        call->picture = malloc((length + 2) / 3 * 4 + 1);
        if (call->picture) {
            (void)EVP_EncodeBlock((unsigned char *)call->picture, bytes, (int)length);
        }
    }
    return result == CV_STORE_NOT_FOUND ? 0 : result;
}

/* ---- results ---------------------------------------------------------------------------------- */

static char *detached(struct cv_buffer *buffer)
{
    char *text = NULL;
    struct cv_error ignored;
    return cv_buffer_detach(buffer, &text, &ignored) == 0 ? text : NULL;
}

/* What an operation refused: its sentence, and what is wrong with which parameter. */
static char *refusal_text(const json_t *body)
{
    size_t i;
    json_t *fault;
    cv_auto(cv_buffer_deinit) struct cv_buffer text = CV_BUFFER_INIT;
    const char *detail = json_string_value(json_object_get(body, "detail"));
    cv_buffer_text(&text, detail ? detail : "there is nothing here that you may see");
    json_array_foreach(json_object_get(body, "errors"), i, fault)
    {
        cv_buffer_printf(&text, "\n%s: %s", json_string_value(json_object_get(fault, "pointer")),
                         json_string_value(json_object_get(fault, "detail")));
    }
    return detached(&text);
}

static json_t *tool_result(const struct mcp_call *call, bool is_refused, const json_t *body)
{
    const json_t *shown = call->first ? call->first : body;
    bool is_error = is_refused && !call->first;
    cv_auto_free char *text = is_error ? refusal_text(body) : json_dumps(shown, JSON_COMPACT);
    json_t *content = json_pack("[{s:s, s:s}]", "type", "text", "text", text ? text : "");
    if (content && call->picture) {
        (void)json_array_append_new(content, json_pack("{s:s, s:s, s:s}", "type", "image", "data",
                                                       call->picture, "mimeType", "image/jpeg"));
    }
    json_t *result = json_pack("{s:o, s:b}", "content", content, "isError", is_error);
    if (result && !is_error && json_is_object(shown)) {
        (void)json_object_set(result, "structuredContent", (json_t *)shown);
    }
    return result;
}

static json_t *videos_result(const json_t *body)
{
    size_t i;
    json_t *video;
    const char *next = json_string_value(json_object_get(body, "next"));
    json_t *resources = json_array();
    json_array_foreach(json_object_get(body, "items"), i, video)
    {
        const char *id = json_string_value(json_object_get(video, "id"));
        const char *title = json_string_value(json_object_get(video, "title"));
        const char *name = json_string_value(json_object_get(video, "name"));
        char uri[sizeof(video_uri) + UUID_LENGTH + sizeof(transcript_end)];
        (void)snprintf(uri, sizeof(uri), "%s%s%s", video_uri, id, transcript_end);
        (void)json_array_append_new(resources, json_pack("{s:s, s:s, s:s, s:s}", "uri", uri, "name",
                                                         name ? name : id, "title",
                                                         title ? title : (name ? name : id),
                                                         "mimeType", "text/plain"));
    }
    return next ? json_pack("{s:o, s:s}", "resources", resources, "nextCursor", next)
                : json_pack("{s:o}", "resources", resources);
}

static char *transcript_text(const json_t *body)
{
    size_t i;
    json_t *line;
    cv_auto(cv_buffer_deinit) struct cv_buffer text = CV_BUFFER_INIT;
    json_array_foreach(json_object_get(body, "items"), i, line)
    {
        cv_buffer_printf(&text, "%lld-%lld ms  %s\n",
                         (long long)json_integer_value(json_object_get(line, "t_start")),
                         (long long)json_integer_value(json_object_get(line, "t_end")),
                         json_string_value(json_object_get(line, "text")));
    }
    if (json_is_string(json_object_get(body, "next"))) {
        cv_buffer_text(&text, "More follows: the tool transcript has all of it, page by page.\n");
    }
    return detached(&text);
}

static json_t *resource_result(const struct mcp_call *call, const json_t *body)
{
    bool is_text = call->shape == MCP_TRANSCRIPT;
    cv_auto_free char *text = is_text ? transcript_text(body) : json_dumps(body, JSON_COMPACT);
    return json_pack("{s:[{s:s, s:s, s:s}]}", "contents", "uri", call->uri, "mimeType",
                     is_text ? "text/plain" : "application/json", "text", text ? text : "");
}

json_t *mcp_answer(const struct mcp_call *call, unsigned status, const json_t *body)
{
    bool is_refused = status < 200 || status >= 300;
    if (call->shape == MCP_TOOL) {
        return result_of(call, tool_result(call, is_refused, body));
    }
    if (is_refused) {
        cv_auto_free char *text = refusal_text(body);
        return error_of(call, status == 404 ? NO_SUCH_RESOURCE : INVALID_PARAMETERS,
                        text ? text : "");
    }
    return result_of(call,
                     call->shape == MCP_VIDEOS ? videos_result(body) : resource_result(call, body));
}
