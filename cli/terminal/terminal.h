/* What people read on a terminal: times, text without control characters, tables, progress. */
#pragma once

#include "cli/terminal/progress.h"
#include "cli/terminal/table.h"
#include "cli/terminal/text.h"
