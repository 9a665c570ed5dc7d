/* A file below a directory that somebody else fills. */
#pragma once

/* Opens `path` below `directory` to read it: part by part, so that no part is a link or leads up, whatever is put in the
 * way meanwhile. It does not wait, whatever kind of file that is. The descriptor, the caller's; -1: there is none. */
int cv_open_below(int directory, const char *path);
