/* Keys of objects: what a key may be, and where everything lies. This is the one place where the prefixes
 * are spelled (scripts/check holds the C sources to that; SQL spells them in sql/migrations).
 *
 *   inbox/[{owner}/[{team}/]]…{name}.{ext}     uploads that have no place yet
 *   uploads/{video}                            what has come of an upload through the API, in a directory
 *   videos/original/{video}/master.{ext}       what was uploaded
 *   videos/proxy/{video}/…                     HLS: index.m3u8, a folder for each rendition
 *   thumbs/{video}/…                           poster.webp, the seek bar's pictures
 *   frames/{video}/{ms}.jpg                    pictures to be read, and what an interrupted reading knows
 *   lines/{video}/{ms}.pack                    pictures of lines
 *   videos/clips/{video}/{clip}.{ext}          clips
 *   logs/pipeline/{job}.json                   the log of a job that has ended
 *   outputs/{run}/{step}/{part}/…              files that a command has written, of a step of a run
 *   outputs/{job}/…                            … of a command that belongs to no run
 *   probes/{random}                            for as long as a probe of the store takes
 */
#pragma once

#include "common/base/base.h"

#define CV_KEYS_INBOX "inbox/"
#define CV_KEYS_UPLOADS "uploads/"
#define CV_KEYS_ORIGINALS "videos/original/"
#define CV_KEYS_PROXY "videos/proxy/"
#define CV_KEYS_THUMBS "thumbs/"
#define CV_KEYS_FRAMES "frames/"
#define CV_KEYS_LINES "lines/"
#define CV_KEYS_CLIPS "videos/clips/"
#define CV_KEYS_PROBES "probes/"
#define CV_KEYS_JOB_LOGS "logs/pipeline/"
#define CV_KEYS_OUTPUTS "outputs/"

enum {
    CV_STORE_KEY_MAX = 1024, /* bytes; S3's own limit */
    CV_OBJECT_ID_SIZE = 37,  /* a UUID as text */
};

/* Checks a key against the rules of store.h: CV_ERROR_INVALID_KEY. */
CV_MUST_CHECK int cv_store_check_key(const char *key, struct cv_error *error);

/* Where objects of videos lie; the order is the one in which a removed video's go: what others play
 * last, so that a removal that is interrupted leaves no playlist without its segments. */
enum cv_object_place {
    CV_OBJECT_CLIPS,
    CV_OBJECT_THUMBS,
    CV_OBJECT_FRAMES,
    CV_OBJECT_LINES,
    CV_OBJECT_PROXY,
    CV_OBJECT_ORIGINAL,
    CV_OBJECT_PLACE_COUNT,
};

/* CV_KEYS_CLIPS, …: static text with a '/' at its end. */
const char *cv_object_prefix(enum cv_object_place place);

/* The key of an object of a video, "{prefix}{video_id}/{name}", in fresh memory (free() it). `name` is a
 * format. */
CV_MUST_CHECK int cv_object_key(enum cv_object_place place, const char *video_id, char **ret_key,
                                struct cv_error *error, const char *name, ...) CV_PRINTF(5, 6);

/* What the keys of all of a video's objects under a place begin with, "{prefix}{video_id}/"; free() it. */
CV_MUST_CHECK int cv_object_folder(enum cv_object_place place, const char *video_id,
                                   char **ret_folder, struct cv_error *error);

/* The video that a key under the place's prefix belongs to, in lower case; false for a key that no
 * video can own (no UUID in it, or none in lower case as we write them). */
CV_MUST_CHECK bool cv_object_video(enum cv_object_place place, const char *key,
                                   char ret_video_id[CV_OBJECT_ID_SIZE]);

/* Whether a text (NULL: no) is a key that may be, of that video under that place. */
CV_MUST_CHECK bool cv_object_belongs(enum cv_object_place place, const char *key,
                                     const char *video_id);

/* Whether a key is videos/original/{video}/master.{ext}. */
CV_MUST_CHECK bool cv_object_is_original(const char *key, char ret_video_id[CV_OBJECT_ID_SIZE]);

/* What a key under inbox/ says. */
struct cv_inbox_key {
    char owner_id[CV_OBJECT_ID_SIZE]; /* "" when the key names none */
    char team_id[CV_OBJECT_ID_SIZE];
    char extension[12]; /* lower case: "mp4" */
    const char *name;   /* the last segment; points into the key */
};

enum cv_inbox_verdict {
    CV_INBOX_VIDEO = 0,
    CV_INBOX_OTHER = 1,    /* no video by its extension: nobody's business here */
    CV_INBOX_NO_OWNER = 2, /* its first folder is not a UUID */
};

enum cv_inbox_verdict cv_inbox_read(const char *key, struct cv_inbox_key *ret_key);
