/* Operations of the API (schema api), in the database of this installation or on a server (--server).
 * The verbs that are nothing else are described in cli/verbs.toml; cli_request runs them. */
#pragma once

#include "cli/commands/print.h"

struct cli_operation {
    const char *name; /* of its function in schema api, and in the OpenAPI document */
    const char *method;
    const char *path;  /* "/api/v1/jobs/{id}" */
    const char *query; /* the parameters of the query, separated by blanks */
    bool has_body;     /* the other parameters are members of a JSON body */
    bool is_redacted;  /* secrets are removed from its answer */
};

/* A member of an operation's body. */
struct cli_parameter {
    const char *operation;
    const char *name;
    const char *type; /* as in JSON Schema; "string" also if other types are allowed, too */
    double low, high; /* of an integer, or of the integers of a list */
    bool is_nullable;
};

/* Generated from the OpenAPI document (scripts/operations.py). */
extern const struct cli_operation cli_operations[];
extern const size_t cli_operation_count;
extern const struct cli_parameter cli_parameters[];
extern const size_t cli_parameter_count;

/* Runs an operation with the parameters `values` (borrowed), in a transaction of its own or on the
 * server, as the verb was opened (cli_open). *ret_body is the body of the answer, which the caller
 * frees with json_decref; NULL if it has none. Fails with what the operation was refused with:
 * CV_ERROR_NOT_FOUND, CV_ERROR_CONFLICT, CV_ERROR_INVALID_PAYLOAD, … */
CV_MUST_CHECK int cli_ask(struct cli_call *call, const char *operation, const json_t *values,
                          json_t **ret_body, struct cv_error *error);

/* Runs a list page by page until it has `limit` items (0: one page); *ret_items is the array. */
CV_MUST_CHECK int cli_ask_items(struct cli_call *call, const char *operation, const json_t *values,
                                int64_t limit, json_t **ret_items, struct cv_error *error);

/* Receives a piece of a file. Returns 0, or a failure that ends the transfer (CV_ERROR_IO). */
typedef int cli_write(void *opaque, const char *data, size_t length, struct cv_error *error);

/* Reads the file that an operation answers with from the server (call->server). */
CV_MUST_CHECK int cli_ask_file(struct cli_call *call, const char *operation, const json_t *values,
                               cli_write *write, void *opaque, struct cv_error *error);

/* Reads a JSON document from a file, "-" for standard input; the caller frees *ret_value. */
CV_MUST_CHECK int cli_read_file(const char *path, json_t **ret_value, struct cv_error *error);

/* Prints a value as indented JSON, without secrets. */
CV_MUST_CHECK int cli_put_json(const json_t *value, struct cv_error *error);

/* Finds a video (an id or its beginning, a file name, or "last"), a job or a run (an id or its
 * beginning). CV_ERROR_NOT_FOUND, or CV_ERROR_CONFLICT if several fit. */
CV_MUST_CHECK int cli_find(struct cli_call *call, const char *kind, const char *name,
                           char id[CLI_UUID_SIZE], struct cv_error *error);

/* Takes the value (NULL: out of memory) as a member of the object, or, for "options.format", of an
 * object in it; false: out of memory. */
CV_MUST_CHECK bool cli_set_member(json_t *object, const char *name, json_t *value);

/* Runs the verb's operation and prints its answer; cli_request opens the session before. */
CV_MUST_CHECK int cli_run_operation(struct cli_call *call, struct cv_error *error);

/* Reads the parameters of the verb's operation from the command line (`values` of the verb's row):
 * 0, CLI_EXIT_USAGE after printing what is wrong, or a failure. The caller frees *ret_values. */
CV_MUST_CHECK int cli_read_values(struct cli_call *call, json_t **ret_values,
                                  struct cv_error *error);

/* Reads NAME=VALUE into `values`: NAME is one of `settings` of the verb's row. 0, CLI_EXIT_USAGE
 * after printing what is wrong, or a failure. */
CV_MUST_CHECK int cli_read_setting(struct cli_call *call, const char *text, json_t *values,
                                   struct cv_error *error);
