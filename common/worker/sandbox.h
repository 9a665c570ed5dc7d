/* What a stage process may no longer do once it meets its input; docs/design/sandbox.md says what each
 * layer stops, on which kernel. */
#pragma once

#include "common/base/base.h"

enum cv_sandbox_layer {
    CV_SANDBOX_PRIVILEGES = 1, /* no capabilities, and no program gives any back */
    CV_SANDBOX_NAMESPACES = 2, /* network, System V IPC and host name of its own */
    CV_SANDBOX_FILES = 4,      /* Landlock */
    CV_SANDBOX_CALLS = 8,      /* the list of system calls */
    CV_SANDBOX_PORTS = 16,     /* Landlock: TCP to the ports below alone */
    CV_SANDBOX_MOUNTS = 32,    /* a root of its own; for stages without sockets */
};

enum cv_sandbox_family {
    CV_SANDBOX_INET = 1, /* sockets of IPv4 and IPv6 */
    CV_SANDBOX_UNIX = 2, /* of this machine: a database that listens on one */
};

enum { CV_SANDBOX_PORTS_MAX = 8 };

struct cv_sandbox {
    const char *scratch; /* may be written */
    unsigned families;   /* enum cv_sandbox_family; 0: no sockets */
    /* With CV_SANDBOX_INET, TCP ports that may be connected to, beside that of name servers. */
    uint16_t ports[CV_SANDBOX_PORTS_MAX];
    size_t port_count;
};

/* Shuts the calling process in, for good and for all threads it will start; call it before there
 * are any. Kernels that lack a layer go without it: *ret_layers says which are in force. With
 * CORTANA_SANDBOX=require, a lack of privileges, files or calls is CV_ERROR_CONFIGURATION; "off", for
 * debuggers, shuts nothing in. */
CV_MUST_CHECK int cv_sandbox_enter(const struct cv_sandbox *sandbox, unsigned *ret_layers,
                                   struct cv_error *error);

/* The layers that are in force for such a sandbox on this machine, tried in a process of its own: for
 * the log at the start. Fails as cv_sandbox_enter does. Call it before there are threads. */
CV_MUST_CHECK int cv_sandbox_try(const struct cv_sandbox *sandbox, unsigned *ret_layers,
                                 struct cv_error *error);

/* "privileges, files, system calls", and what is missing. */
enum { CV_SANDBOX_TEXT_SIZE = 160 };
void cv_sandbox_describe(unsigned layers, char text[CV_SANDBOX_TEXT_SIZE]);
