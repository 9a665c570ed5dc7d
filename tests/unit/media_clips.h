/* Clips made at test time with the ffmpeg command, and files as byte sources. */
#pragma once

#include "common/media/media.h"

#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include <cmocka.h>

struct clip {
    char directory[64];
    char path[96];
    int fd;
    struct cv_byte_source source;
};

static inline int clip_read(void *opaque, int64_t offset, void *data, size_t length,
                            size_t *ret_read, struct cv_error *error)
{
    const struct clip *clip = opaque;
    ssize_t got = pread(clip->fd, data, length, offset);
    if (got < 0) {
        return cv_fail_errno(error, errno, "cannot read %s", clip->path);
    }
    *ret_read = (size_t)got;
    return 0;
}

/* Runs `ffmpeg ARGUMENTS DIRECTORY/NAME` and opens what it wrote. */
static inline void clip_open(struct clip *clip, const char *name, const char *arguments)
{
    (void)snprintf(clip->directory, sizeof(clip->directory), "/tmp/cv-media-XXXXXX");
    assert_non_null(mkdtemp(clip->directory));
    (void)snprintf(clip->path, sizeof(clip->path), "%s/%s", clip->directory, name);
    char command[2048];
    (void)snprintf(command, sizeof(command), "ffmpeg -nostdin -v error -y %s %s", arguments,
                   clip->path);
    assert_int_equal(system(command), 0);
    clip->fd = open(clip->path, O_RDONLY | O_CLOEXEC);
    assert_true(clip->fd >= 0);
    struct stat status;
    assert_int_equal(fstat(clip->fd, &status), 0);
    clip->source = (struct cv_byte_source){clip, status.st_size, clip_read};
}

/* The same from bytes. */
static inline void clip_from_bytes(struct clip *clip, const char *name, const void *data,
                                   size_t size)
{
    (void)snprintf(clip->directory, sizeof(clip->directory), "/tmp/cv-media-XXXXXX");
    assert_non_null(mkdtemp(clip->directory));
    (void)snprintf(clip->path, sizeof(clip->path), "%s/%s", clip->directory, name);
    FILE *file = fopen(clip->path, "wb");
    assert_non_null(file);
    assert_true(size == 0 || fwrite(data, size, 1, file) == 1);
    assert_int_equal(fclose(file), 0);
    clip->fd = open(clip->path, O_RDONLY | O_CLOEXEC);
    assert_true(clip->fd >= 0);
    clip->source = (struct cv_byte_source){clip, (int64_t)size, clip_read};
}

static inline void clip_close(struct clip *clip)
{
    close(clip->fd);
    char command[128];
    (void)snprintf(command, sizeof(command), "rm -rf %s", clip->directory);
    assert_int_equal(system(command), 0);
}
