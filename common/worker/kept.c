#include "common/worker/kept.h"

#include <string.h>
#include <sys/socket.h>

void cv_kept_close(struct cv_kept *kept)
{
    if (kept->video_id[0]) {
        (void)close(kept->ends[0]);
        (void)close(kept->ends[1]);
        kept->video_id[0] = '\0';
    }
}

const int *cv_kept_open(struct cv_kept *kept, int slots, int slot, const char *video_id)
{
    struct cv_kept *own = &kept[slot];
    for (int i = 0; i < slots; i++) {
        if (strcmp(kept[i].video_id, video_id) == 0) {
            struct cv_kept other = kept[i];
            kept[i] = *own;
            *own = other;
            return own->ends;
        }
    }
    cv_kept_close(own);
    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, own->ends) != 0) {
        return NULL; /* without it the next part decodes by itself */
    }
    (void)snprintf(own->video_id, sizeof(own->video_id), "%s", video_id);
    return own->ends;
}
