/* Opens a file below a directory that an untrusted process fills. */
#pragma once

/* Opens `path` below `directory` for reading. Each part is opened separately without following
 * links or "..", even if parts are exchanged meanwhile. Does not wait, whatever the type of the
 * file. Returns a descriptor that the caller owns; -1 on failure. */
int cv_open_below(int directory, const char *path);
