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

/* What answers an operation. */
enum handler {
    HANDLER_DATABASE, /* the SQL function of the same name */
    HANDLER_DOCUMENT, /* the gateway, with the OpenAPI document */
    HANDLER_PAGE,     /* the gateway, with the OpenAPI document as a web page */
    HANDLER_SIGN_IN,  /* the SQL function, with the token in the body, which becomes a cookie */
    HANDLER_SIGN_OUT, /* the gateway */
    HANDLER_EVENTS,   /* the SQL function allows the topics; the answer is a stream */
    HANDLER_TUS,      /* the gateway, with its tus capabilities */
};

/* What the gateway does after the database has answered with success. */
enum step {
    STEP_NONE,
    STEP_GRANTS,        /* media_fill_grants */
    STEP_REMOVE,        /* media_remove */
    STEP_OBJECT,        /* media_answer_object */
    STEP_EXPORT,        /* sends the text of a video or of hits, read in the same transaction */
    STEP_UPLOAD_SHOW,   /* upload_show */
    STEP_UPLOAD_APPEND, /* upload_open, then the body; after the last byte api.finish_upload */
    STEP_UPLOAD_SIGN,   /* upload_sign_parts */
    STEP_UPLOAD_JOIN,   /* upload_join, then api.finish_upload */
    STEP_UPLOAD_FORGET, /* upload_forget */
};

/* The rule for a parameter or a member of the body. */
struct rule {
    const char *name;
    enum place place;
    enum value_type type;
    bool required;
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
    enum handler handler;
    enum step step;
    bool is_redacted; /* cv_redacted_json removes secrets from the answer */
    bool has_body;
    bool may_be_known;           /* If-None-Match may be answered with 304 */
    const char *version_sql;     /* statement for the ETag for If-Match; NULL: not supported */
    bool takes_bytes;            /* the body is a part of an upload */
    bool is_creation;            /* headers may replace the body, as in tus */
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
