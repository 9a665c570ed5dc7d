/* What the verbs of `cortana jobs` share with others. */
#pragma once

#include "cli/commands/tell.h"

/* --since as text that PostgreSQL reads as a time; "" when it was not given. CLI_EXIT_USAGE when it is none. */
CV_MUST_CHECK int cli_read_since(const struct cli_call *call, char timestamp[CV_TIMESTAMP_SIZE]);
