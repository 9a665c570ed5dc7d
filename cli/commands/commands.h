/* The commands of `cortana`. */
#pragma once

#include "common/base/base.h"

/* Runs the command that the arguments name; returns the process's exit status. `cancel` aborts on the signals
 * that the caller catches. */
int cli_main(int argc, char **argv, struct cv_cancel *cancel);
