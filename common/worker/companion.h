/* Connects the two stages of a video on one machine. The first one binds a socket in a directory, named after the video
 * and its role; the second one connects to it. */
#pragma once

#include "common/worker/worker.h"

struct cv_meeting {
    const struct cv_companion *companion;
    const char *directory; /* owned by this user, mode 700; created if missing */
    const char *video_id;
    const char *original; /* the key that this job reads; the other stage must read the same */
    bool waits;           /* false: use only a connection kept from the part before */
    int64_t wait_ms;
    /* Both ends of a socket pair of the supervisor. The job of one part puts its connection in, the job of the next part
     * takes it out. The supervisor does not read from it. -1: none. */
    int kept_fd, keep_fd;
    struct cv_cancel *cancel;
};

/* Waits for the other stage; call it before entering the sandbox. If there is no connection, *ret_peer is unchanged and
 * the log says why. Fails only with CV_ERROR_CANCELED. The connection lasts as long as the process. Closes kept_fd and
 * keep_fd. */
CV_MUST_CHECK int cv_companion_meet(const struct cv_meeting *meeting, struct cv_peer *ret_peer,
                                    struct cv_error *error);
