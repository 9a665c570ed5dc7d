/* check-hls STORE VIDEO: what cv_hls_check finds, one line a finding, then a line of JSON. */
#include "workers/transcode/hls/check/check.h"

#include <stdio.h>

static void print(void *opaque, const char *where, const char *what)
{
    (void)opaque;
    (void)printf("%s: %s\n", where, what);
}

int main(int argc, char **argv)
{
    struct cv_error error;
    cv_auto(cv_store_close) struct cv_store *store = NULL;
    struct cv_hls_summary summary;
    if (argc != 3) {
        return CV_EXIT_USAGE;
    }
    if (cv_store_open(argv[1], &store, &error) != 0 ||
        cv_hls_check(store, argv[2], NULL, print, NULL, &summary, &error) != 0) {
        (void)fprintf(stderr, "%s\n", error.message);
        return CV_EXIT_PERMANENT;
    }
    (void)printf("{\"renditions\": %d, \"segments\": %d, \"key_frames\": %d, \"tiles\": %d, "
                 "\"sound\": %s, \"duration\": %.6f}\n",
                 summary.renditions, summary.segments, summary.key_frames, summary.tiles,
                 summary.sound ? "true" : "false", summary.duration);
    return summary.findings > 0;
}
