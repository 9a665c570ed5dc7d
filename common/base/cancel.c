#include "common/base/base.h"

#include <stdatomic.h>
#include <sys/eventfd.h>

struct cv_cancel {
    atomic_int level;
    int fd;
};

int cv_cancel_new(struct cv_cancel **ret_cancel, struct cv_error *error)
{
    struct cv_cancel *cancel = calloc(1, sizeof(*cancel));
    CV_TRY_MEMORY(cancel, error, "a cancellation");
    cancel->fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (cancel->fd < 0) {
        int error_number = errno;
        free(cancel);
        return cv_fail_errno(error, error_number, "eventfd");
    }
    *ret_cancel = cancel;
    return 0;
}

void cv_cancel_free(struct cv_cancel *cancel)
{
    if (cancel) {
        close(cancel->fd);
        free(cancel);
    }
}

void cv_cancel_request(struct cv_cancel *cancel, enum cv_cancel_level level)
{
    int current = atomic_load(&cancel->level);
    while (current < (int)level) {
        if (atomic_compare_exchange_weak(&cancel->level, &current, (int)level)) {
            uint64_t one = 1;
            int saved_errno = errno;
            /* Fails only when the counter is full; then the descriptor is already readable. */
            ssize_t written = write(cancel->fd, &one, sizeof(one));
            (void)written;
            errno = saved_errno;
        }
    }
}

enum cv_cancel_level cv_cancel_level(const struct cv_cancel *cancel)
{
    return cancel ? (enum cv_cancel_level)atomic_load(&cancel->level) : CV_CANCEL_NONE;
}

int cv_cancel_fd(const struct cv_cancel *cancel)
{
    return cancel->fd;
}
