/* Which operation a request is for, and whether its parameters are as the OpenAPI document has them. The table of
 * operations is generated of gateway/openapi.json by scripts/routes.py. */
#pragma once

#include "gateway/limits.h"
#include "gateway/token.h"

enum place { PLACE_PATH, PLACE_QUERY, PLACE_BODY };

enum value_type {
    TYPE_TEXT,
    TYPE_INTEGER,
    TYPE_NUMBER,
    TYPE_BOOLEAN,
    TYPE_UUID,
    TYPE_TIME,   /* RFC 3339 */
    TYPE_OBJECT, /* in a body alone; its members are checked by the operation itself */
    TYPE_LIST,   /* the same */
};

/* Who answers an operation. */
enum handler {
    HANDLER_DATABASE, /* the SQL function of its name */
    HANDLER_DOCUMENT, /* the gateway, with the document */
    HANDLER_PAGE,     /* the gateway, with the document as a page */
    HANDLER_SIGN_IN,  /* the SQL function, for the token in the body, which becomes a cookie */
    HANDLER_SIGN_OUT, /* the gateway */
    HANDLER_EVENTS,   /* the SQL function says what of, and the answer is a stream */
    HANDLER_TUS,      /* the gateway, with what it knows of tus */
};

/* What happens to a success that the database has answered with. */
enum step {
    STEP_NONE,
    STEP_GRANTS,        /* media_fill_grants */
    STEP_REMOVE,        /* media_remove */
    STEP_OBJECT,        /* media_answer_object */
    STEP_EXPORT,        /* the text of a video or of hits, read in the same transaction */
    STEP_UPLOAD_SHOW,   /* upload_show */
    STEP_UPLOAD_APPEND, /* upload_open, then the body; behind the last byte api.finish_upload */
    STEP_UPLOAD_SIGN,   /* upload_sign_parts */
    STEP_UPLOAD_JOIN,   /* upload_join, then api.finish_upload */
    STEP_UPLOAD_FORGET, /* upload_forget */
};

/* What a parameter or a member of the body has to be. */
struct rule {
    const char *name;
    enum place place;
    enum value_type type;
    bool required;
    double low, high;          /* of a number */
    size_t shortest, longest;  /* of a text, in characters */
    const char *pattern;       /* PCRE2; NULL: any */
    const char *const *values; /* the only ones allowed; NULL at the end, NULL: any */
};

/* One operation of the document. */
struct operation {
    const char *name;   /* the operationId: also the SQL function's, and the metrics' route */
    const char *method; /* upper case */
    const char *path;   /* template: "/api/v1/videos/{id}" */
    const char *sql;    /* the statement that runs it; $1: the parameters as JSON */
    const struct rule *rules;
    size_t rule_count;
    int64_t time_limit_ms; /* of the statement */
    enum handler handler;
    enum step step;
    bool is_redacted; /* the answer's body passes cv_redacted_json */
    bool has_body;
    bool may_be_known;           /* If-None-Match is answered 304 */
    const char *version_sql;     /* has the ETag that If-Match is compared with; NULL: takes none */
    bool takes_bytes;            /* the body is a part of an upload */
    bool is_creation;            /* the body may stand in headers, as tus has it */
    enum caller_role least_role; /* who may; CALLER_NOBODY: anybody */
    enum rate_class rate;        /* which limit it is counted against */
};

/* Generated. */
extern const struct operation operations[];
extern const size_t operation_count;
extern const unsigned char openapi_document[];
extern const size_t openapi_length;        /* bytes */
extern const unsigned char openapi_page[]; /* the same for people, HTML */
extern const size_t openapi_page_length;

enum {
    ROUTE_NO_SUCH_PATH = 1,
    ROUTE_NO_SUCH_METHOD = 2,
    PARAMETERS_REFUSED = 1,
    METHODS_SIZE = 64,
};

/* Finds the operation for a method and a path as they stand in the request line; HEAD is GET. 0,
 * ROUTE_NO_SUCH_PATH, or ROUTE_NO_SUCH_METHOD with the methods that the path has ("GET, HEAD"). A path is compared as
 * it is written: no percent-encoding, empty part or dot part of it matches anything. */
CV_MUST_CHECK int route_find(const char *method, const char *path, size_t path_length,
                             const struct operation **ret_operation, char methods[METHODS_SIZE]);

/* What a request brings. */
struct request_values {
    const char *path; /* as for route_find */
    size_t path_length;
    const char *query; /* behind the question mark; "" for none */
    const char *body;  /* NULL for none */
    size_t body_length;
};

/* Checks all parameters. 0 and an object of them by name, typed; or PARAMETERS_REFUSED and what is wrong, a list of
 * {"pointer", "detail"}. Unknown names, names given twice and text that is not UTF-8 are refused, too. The caller owns
 * the value. */
CV_MUST_CHECK int route_check(const struct operation *operation,
                              const struct request_values *values, json_t **ret_values,
                              json_t **ret_faults, struct cv_error *error);
