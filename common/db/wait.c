#include "common/db/connection.h"

#include <poll.h>

/* A drain leaves the cancel descriptor readable for good: from then on the level is looked at this
 * often instead, so that an abort is seen soon and the wait does not spin. */
enum { DRAIN_LOOK_MS = 50 };

static int slice_ms(const struct cv_db_wait *wait, bool draining)
{
    int64_t left = wait->deadline_ms - cv_monotonic_ms();
    if (left < 0) {
        return 0;
    }
    int64_t longest = draining ? DRAIN_LOOK_MS : 60 * 60 * 1000;
    return (int)(left < longest ? left : longest);
}

int cv_db_wait(int fd, short events, const struct cv_db_wait *wait, struct cv_error *error)
{
    while (true) {
        enum cv_cancel_level level = cv_cancel_level(wait->cancel);
        if (level == CV_CANCEL_ABORT) {
            return CV_DB_ABORTED;
        }
        bool watch = wait->cancel && level == CV_CANCEL_NONE;
        struct pollfd polled[] = {
            {.fd = fd, .events = events},
            {.fd = watch ? cv_cancel_fd(wait->cancel) : -1, .events = POLLIN},
        };
        int count = poll(polled, CV_COUNT(polled), slice_ms(wait, level == CV_CANCEL_DRAIN));
        if (count < 0 && errno != EINTR) {
            return cv_fail_errno(error, errno, "poll of the database connection");
        }
        if (count > 0 && polled[0].revents) {
            return CV_DB_READY;
        }
        if (cv_monotonic_ms() >= wait->deadline_ms) {
            return CV_DB_TIMED_OUT;
        }
    }
}
