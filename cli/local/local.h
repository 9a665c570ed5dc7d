/* A local installation: a private PostgreSQL, a store, and the workers as processes. Also a
 * command's session with it, or with the database and the store that the environment names. */
#pragma once

#include "cli/local/file.h"
#include "cli/local/installation.h"
#include "cli/local/postgres.h"
#include "cli/local/process.h"
#include "cli/local/session.h"
#include "cli/local/tokens.h"
#include "cli/local/workers.h"
