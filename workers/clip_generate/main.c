#include "workers/clip_generate/clip.h"

/* As for transcoding: for a decoder and an encoder of the largest allowed pictures. */
#define MEMORY_BYTES (INT64_C(6) << 30)

int main(int argc, char **argv)
{
    static const struct cv_grant grants[] = {
        {CV_GRANT_READ, CV_KEYS_ORIGINALS "{video_id}/*"},
        {CV_GRANT_READ, CV_KEYS_LINES "{video_id}/*"},
        {CV_GRANT_READ, CV_KEYS_ORIGINALS "{parts.video_id}/*"},
        {CV_GRANT_READ, CV_KEYS_LINES "{parts.video_id}/*"},
        {CV_GRANT_READ, CV_KEYS_CLIPS "{video_id}/{clip_id}.*"},
        {CV_GRANT_WRITE, CV_KEYS_CLIPS "{video_id}/{clip_id}.mp4"},
        {CV_GRANT_WRITE, CV_KEYS_CLIPS "{video_id}/{clip_id}.webm"},
        {CV_GRANT_WRITE, CV_KEYS_CLIPS "{video_id}/{clip_id}.gif"},
        {CV_GRANT_WRITE, CV_KEYS_CLIPS "{video_id}/{clip_id}.jpg"},
        {0},
    };
    static const struct cv_stage stage = {
        .name = "clip-generate-worker",
        .job_type = "clip_generate",
        .needs = CV_STAGE_NEEDS_STORE,
        .limits = {.memory_bytes = MEMORY_BYTES},
        .grants = grants,
        .run = clip_run,
    };
    return cv_worker_main(&stage, argc, argv);
}
