#include "workers/sample/stage.h"

#include <malloc.h>

/* Pictures come and go while the list of kept frames grows. From one heap, entries of the list
 * would settle in the gaps that pictures leave, no gap would fit the next picture, and memory would
 * grow by a picture for every kept frame; blocks from this size on are given back at once. */
enum { PICTURE_BYTES = 256 << 10 };

int main(int argc, char **argv)
{
    (void)mallopt(M_MMAP_THRESHOLD, PICTURE_BYTES);
    return cv_worker_main(&sample_stage, argc, argv);
}
