/* The store in a directory. */
#pragma once

#include "common/store/store.h"

/* Opens a directory as a store; makes it if it is missing. */
CV_MUST_CHECK int cv_directory_store_open(const char *path, struct cv_store **ret_store,
                                          struct cv_error *error);
