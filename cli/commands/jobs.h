/* Functions of `cortana jobs` for other verbs. */
#pragma once

#include "cli/commands/tell.h"

/* Reads --since as a time for PostgreSQL; "" if it was not given, CLI_EXIT_USAGE if it is invalid. */
CV_MUST_CHECK int cli_read_since(const struct cli_call *call, char timestamp[CV_TIMESTAMP_SIZE]);
