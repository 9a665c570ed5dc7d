#include "workers/transcode/transcode.h"

/* Sixteen 4K pictures of ten bits in a decoder and an encoder take less than 1 GiB; the rest is for
 * the largest allowed pictures. */
#define MEMORY_BYTES (INT64_C(6) << 30)

int main(int argc, char **argv)
{
    static const struct cv_grant grants[] = {
        {CV_GRANT_READ, CV_KEYS_ORIGINALS "{video_id}/*"},
        {CV_GRANT_READ | CV_GRANT_DELETE, CV_KEYS_PROXY "{video_id}/*"},
        {CV_GRANT_WRITE, CV_KEYS_PROXY "{video_id}/*.m3u8"},
        {CV_GRANT_WRITE, CV_KEYS_PROXY "{video_id}/*.m4s"},
        {CV_GRANT_WRITE, CV_KEYS_PROXY "{video_id}/*.mp4"},
        {CV_GRANT_WRITE, CV_KEYS_PROXY "{video_id}/*.ts"},
        {CV_GRANT_WRITE, CV_KEYS_PROXY "{video_id}/*.vtt"},
        {CV_GRANT_WRITE, CV_KEYS_PROXY "{video_id}/*.json"},
        {CV_GRANT_READ | CV_GRANT_DELETE, CV_KEYS_THUMBS "{video_id}/*"},
        {CV_GRANT_WRITE, CV_KEYS_THUMBS "{video_id}/*.webp"},
        {CV_GRANT_WRITE, CV_KEYS_THUMBS "{video_id}/*.jpg"},
        {CV_GRANT_WRITE, CV_KEYS_THUMBS "{video_id}/*.vtt"},
        {0},
    };
    static const struct cv_stage stage = {
        .name = "transcode-worker",
        .job_type = "transcode",
        .needs = CV_STAGE_NEEDS_STORE,
        .limits = {.memory_bytes = MEMORY_BYTES},
        .yields = true, /* low CPU priority: searchable text comes before playback */
        .grants = grants,
        .run = transcode_run,
        .commit = transcode_commit,
    };
    return cv_worker_main(&stage, argc, argv);
}
