/* Restricts a stage process before it reads its input; docs/design/sandbox.md says what each layer
 * prevents, on which kernel. */
#pragma once

#include "common/base/base.h"

enum cv_sandbox_layer {
    CV_SANDBOX_PRIVILEGES = 1, /* no capabilities, and no program regains any */
    CV_SANDBOX_NAMESPACES = 2, /* own network, System V IPC and host name */
    CV_SANDBOX_FILES = 4,      /* Landlock */
    CV_SANDBOX_CALLS = 8,      /* only listed system calls */
    CV_SANDBOX_PORTS = 16,     /* Landlock: TCP only to the ports below */
    CV_SANDBOX_MOUNTS = 32,    /* own root directory; for stages without sockets */
};

enum cv_sandbox_family {
    CV_SANDBOX_INET = 1, /* sockets of IPv4 and IPv6 */
    CV_SANDBOX_UNIX = 2, /* Unix sockets, for a database that listens on one */
};

enum { CV_SANDBOX_PORTS_MAX = 8 };

struct cv_sandbox {
    const char *scratch; /* the directory that may be written */
    unsigned families;   /* enum cv_sandbox_family; 0: no sockets */
    /* With CV_SANDBOX_INET: TCP ports that may be connected to, besides that of name servers. */
    uint16_t ports[CV_SANDBOX_PORTS_MAX];
    size_t port_count;
};

/* Restricts the calling process and all threads that it will start, permanently; call it before
 * there are threads. Layers that the kernel does not have are left out: *ret_layers says which are
 * in force. With CORTANA_SANDBOX=require, missing privileges, files or calls are
 * CV_ERROR_CONFIGURATION; "off", for debuggers, restricts nothing. */
CV_MUST_CHECK int cv_sandbox_enter(const struct cv_sandbox *sandbox, unsigned *ret_layers,
                                   struct cv_error *error);

/* Finds the layers that would be in force for such a sandbox on this machine, by trying it in a
 * child process; for the log at the start. Fails as cv_sandbox_enter does. Call it before there are
 * threads. */
CV_MUST_CHECK int cv_sandbox_try(const struct cv_sandbox *sandbox, unsigned *ret_layers,
                                 struct cv_error *error);

/* Describes the layers in force ("privileges, files, system calls") and those that are missing. */
enum { CV_SANDBOX_TEXT_SIZE = 160 };
void cv_sandbox_describe(unsigned layers, char text[CV_SANDBOX_TEXT_SIZE]);
