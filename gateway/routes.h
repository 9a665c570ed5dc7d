/* Finds the operation of a request, and checks its parameters against the OpenAPI document.
 * scripts/routes.py generates the table of operations from the document. */
#pragma once

#include "gateway/limits.h"
#include "gateway/token.h"

enum place { PLACE_PATH, PLACE_QUERY, PLACE_BODY };

enum value_type {
    TYPE_TEXT,
    TYPE_INTEGER,
    TYPE_INTEGER_OR_TEXT, /* only in a body: within the limits, or fitting the pattern */
    TYPE_NUMBER,
    TYPE_BOOLEAN,
    TYPE_UUID,
    TYPE_TIME,   /* RFC 3339 */
    TYPE_OBJECT, /* only in a body; the operation itself checks its members */
    TYPE_LIST,   /* only in a body; the operation itself checks its items */
};

/* The steps of a request, which the gateway takes one after the other (server.c). An operation is a list
 * of them, made of `steps` in its description. A step that refuses, or answers with another status than
 * 2xx, ends the list. */
enum step {
    STEP_SEND,   /* ends every list: the answer is sent */
    STEP_STREAM, /* ends a list: the answer names the topics of a stream of events, which begins */
    /* Of every operation, first: */
    STEP_ADMIT,          /* who calls, how often, and whether they may */
    STEP_ADMIT_NEWCOMER, /* the same, whatever cookie the browser still has */
    STEP_CONDITIONS,     /* Idempotency-Key and If-Match */
    STEP_LENGTH,         /* of the body, by its header */
    STEP_FORM,           /* of the body, by its header */
    STEP_BODY,           /* receives the body */
    STEP_BYTES,          /* instead: waits for the first bytes, which STEP_UPLOAD_WRITE receives */
    STEP_CHECK,          /* the parameters */
    /* Answered, or prepared, by the gateway: */
    STEP_DOCUMENT,    /* the OpenAPI document */
    STEP_PAGE,        /* the same as a web page */
    STEP_TUS,         /* upload_answer_options */
    STEP_SECRETS,     /* takes passwords, tokens and codes out of the parameters */
    STEP_SIGN_OUT,    /* removes the cookie, and names its session */
    STEP_LAST_EVENT,  /* takes a parameter from Last-Event-ID */
    STEP_OFFSET,      /* takes a parameter from Upload-Offset */
    STEP_ROOM,        /* upload_check_room */
    STEP_GRANTS,      /* media_fill_grants */
    STEP_FEED,        /* answer_become_feed */
    STEP_LIMIT_LINKS, /* admission_limit_links */
    STEP_SITE,        /* assets_name_site */
    STEP_SHARED,      /* assets_answer_shared */
    STEP_FINISH,      /* goes on with api.finish_upload */
    STEP_AGENT,       /* agents_read */
    STEP_AGENT_NEXT,  /* agents_go_on */
    /* By a thread of the database: */
    STEP_DATABASE, /* the SQL function of the same name */
    STEP_PASSWORD, /* password_do */
    STEP_PROVIDER, /* provider_find */
    STEP_ENTER,    /* as STEP_DATABASE, for whom that lets in: a session begins */
    STEP_EXPORT,   /* the same, and the text of a video or of hits in the same transaction */
    STEP_CONFIRM,  /* looks up the API key of a refused request: only valid keys are told why */
    /* By a thread of the store: */
    STEP_MEDIA,         /* media_answer_target */
    STEP_OBJECT,        /* media_answer_object */
    STEP_REMOVE,        /* media_remove */
    STEP_RELAY,         /* relay_read */
    STEP_PROVIDER_ASK,  /* provider_ask */
    STEP_PROVIDER_TAKE, /* provider_take */
    STEP_UPLOAD_SHOW,   /* upload_show */
    STEP_UPLOAD_SIGN,   /* upload_sign_parts */
    STEP_UPLOAD_JOIN,   /* upload_join */
    STEP_UPLOAD_FORGET, /* upload_forget */
    STEP_UPLOAD_OPEN,   /* upload_open */
    STEP_UPLOAD_WRITE,  /* upload_write, for each piece of the body until its end */
    STEP_UPLOAD_CLOSE,  /* upload_close */
    STEP_UPLOAD_END,    /* upload_end */
    STEP_UPLOAD_TEXT,   /* upload_keep_text */
    STEP_AGENT_PICTURE, /* agents_add_picture */
    STEP_COUNT,
};

enum { STEPS_MAX = 16 }; /* of an operation, with STEP_SEND */

/* The rule for a parameter or a member of the body. */
struct rule {
    const char *name;
    enum place place;
    enum value_type type;
    bool required;
    bool is_nullable;          /* null is allowed, too */
    double low, high;          /* limits of a number */
    size_t shortest, longest;  /* lengths of a text, in characters */
    const char *pattern;       /* PCRE2; NULL: any */
    const char *const *values; /* the allowed values, ended by NULL; NULL: any */
};

/* One operation of the OpenAPI document. */
struct operation {
    const char *name;   /* the operationId: also the SQL function's and metrics' name */
    const char *method; /* upper case */
    const char *path;   /* template: "/api/v1/videos/{id}" */
    const char *sql;    /* the statement that runs it; $1: the parameters as JSON */
    const struct rule *rules;
    size_t rule_count;
    int64_t time_limit_ms; /* time limit of the statement */
    enum step steps[STEPS_MAX];
    bool is_redacted; /* cv_redacted_json removes secrets from the answer */
    bool has_body;
    bool may_be_known;           /* If-None-Match may be answered with 304 */
    const char *version_sql;     /* statement for the ETag for If-Match; NULL: not supported */
    bool takes_bytes;            /* the body is a part of an upload */
    bool is_creation;            /* headers may replace the body, as in tus */
    bool is_repeatable;          /* it accepts an Idempotency-Key */
    enum caller_role least_role; /* the least role that may call it; CALLER_NOBODY: anybody */
    enum rate_class rate;        /* the limit that it counts against */
};

/* Generated. */
extern const struct operation operations[];
extern const size_t operation_count;
extern const unsigned char openapi_document[];
extern const size_t openapi_length;        /* bytes */
extern const unsigned char openapi_page[]; /* the same as HTML */
extern const size_t openapi_page_length;

enum {
    ROUTE_NO_SUCH_PATH = 1,
    ROUTE_NO_SUCH_METHOD = 2,
    PARAMETERS_REFUSED = 1,
    METHODS_SIZE = 64,
};

/* Finds the operation for a method and a path as in the request line; HEAD counts as GET. 0,
 * ROUTE_NO_SUCH_PATH, or ROUTE_NO_SUCH_METHOD with the methods of the path ("GET, HEAD"). The path
 * is compared literally: percent-encoding, empty segments and dot segments match nothing. */
CV_MUST_CHECK int route_find(const char *method, const char *path, size_t path_length,
                             const struct operation **ret_operation, char methods[METHODS_SIZE]);

/* The operation of this name; NULL: there is none. */
const struct operation *route_named(const char *name);

/* The inputs of a request. */
struct request_values {
    const char *path; /* as for route_find */
    size_t path_length;
    const char *query; /* the text after the question mark; "" for none */
    const char *body;  /* NULL for none */
    size_t body_length;
};

/* Checks all parameters. 0 and an object with the parameters by name, typed, which the caller owns;
 * or PARAMETERS_REFUSED and a list of faults {"pointer", "detail"}. Unknown names, repeated names
 * and text that is not UTF-8 are also refused. */
CV_MUST_CHECK int route_check(const struct operation *operation,
                              const struct request_values *values, json_t **ret_values,
                              json_t **ret_faults, struct cv_error *error);

/* The same for parameters that are members of one object, wherever they stand in a request over HTTP. */
CV_MUST_CHECK int route_check_object(const struct operation *operation, const json_t *object,
                                     json_t **ret_values, json_t **ret_faults,
                                     struct cv_error *error);
