/* What the rows of attack.c and attack_broker.c share. */
#pragma once

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

struct attack {
    const char *name; /* NULL ends a table */
    int (*run)(void); /* 0: it got through; else an errno value */
};

/* What a stage may ask its broker for, and more. */
extern const struct attack attack_broker_rows[];

/* What the kernel counts by user. */
extern const struct attack attack_user_rows[];

/* Breaks the broker's protocol in the way of that name. */
void attack_send_garbage(const char *kind);

static inline const char *given(const char *name)
{
    const char *value = getenv(name);
    return value ? value : "/nowhere";
}

static inline int outcome(long result)
{
    return result >= 0 ? 0 : errno;
}

static inline const char *in_scratch(char path[4096], const char *name)
{
    (void)snprintf(path, 4096, "%s/%s", given("TMPDIR"), name);
    return path;
}
