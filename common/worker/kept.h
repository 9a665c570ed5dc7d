/* The supervisor's side of passing a connection from the job of one part of a video to the next: a socket pair, where one
 * stage puts the connection in and the next stage takes it out (struct cv_meeting). */
#pragma once

#include "common/queue/queue.h"

struct cv_kept {
    char video_id[CV_UUID_SIZE]; /* "": no socket pair */
    int ends[2];
};

/* The socket pair of this video, moved to kept[slot] or created there; NULL if it cannot be created. */
const int *cv_kept_open(struct cv_kept *kept, int slots, int slot, const char *video_id);

/* Closes the socket pair and the connection in it. */
void cv_kept_close(struct cv_kept *kept);
