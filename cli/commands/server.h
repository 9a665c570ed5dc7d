/* A server whose API answers the verbs (--server, CORTANA_SERVER), and the tokens with which this user
 * signs in: servers.json in the folder cortana of XDG_CONFIG_HOME (~/.config). */
#pragma once

#include "cli/commands/operation.h"

struct cli_server;

/* Prepares requests to the server with the token that `cortana login` has stored. No request is made
 * yet. CV_ERROR_AUTHENTICATION if there is no token for it. */
CV_MUST_CHECK int cli_server_open(const char *url, struct cv_cancel *cancel,
                                  struct cli_server **ret_server, struct cv_error *error);
void cli_server_close(struct cli_server *server);
CV_DEFINE_CLEANUP(struct cli_server *, cli_server_close)

/* Its address, without a slash at the end. */
const char *cli_server_url(const struct cli_server *server);

/* Reads the file that an operation answers with, or, with NULL for it, that lies at a path of the
 * server, piece by piece. A refusal is a failure, as for cli_server_ask. */
CV_MUST_CHECK int cli_server_read(struct cli_server *server, const struct cli_operation *operation,
                                  const json_t *values, const char *path, cli_write *write,
                                  void *opaque, struct cv_error *error);

/* Runs an operation; *ret_status is the status of the answer, and *ret_body is NULL if the answer
 * has no body. A refusal is a failure with the detail that the server gives; CV_ERROR_CONNECTION or
 * CV_ERROR_TIMEOUT if no answer comes. */
CV_MUST_CHECK int cli_server_ask(struct cli_server *server, const struct cli_operation *operation,
                                 const json_t *values, int64_t *ret_status, json_t **ret_body,
                                 struct cv_error *error);
