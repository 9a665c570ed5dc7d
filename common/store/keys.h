/* Keys of objects: which keys are valid, and the key of each kind of object. C spells the prefixes only
 * here (scripts/check enforces it); SQL spells them in sql/migrations.
 *
 *   inbox/[{owner}/[{team}/]]…{name}.{ext}     uploads that the scanner has not imported yet
 *   uploads/{video}                            an unfinished upload through the API, in a directory
 *   videos/original/{video}/master.{ext}       the uploaded file
 *   videos/original/{video}/master[.{language}].{srt,vtt,ass,ssa}   subtitles beside it
 *   videos/proxy/{video}/…                     HLS: index.m3u8, a folder for each rendition
 *   thumbs/{video}/…                           poster.jpg, the seek bar's pictures
 *   frames/{video}/{ms}.jpg                    kept frames; results of an interrupted OCR job
 *   lines/{video}/{ms}.pack                    pictures of lines
 *   videos/clips/{video}/{clip}.{ext}          clips
 *   logs/pipeline/{job}.json                   the log of a job that has ended
 *   outputs/{run}/{step}/{part}/…              files written by a command in a step of a run
 *   outputs/{job}/…                            files written by a command without a run
 *   probes/{random}                            exists during a probe of the store
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

/* The folders of a video's objects, in the order in which a removed video's objects are deleted.
 * Objects that refer to others are deleted first, so that an interrupted removal leaves no
 * playlist without its segments. */
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

/* Replaces the keys of objects in a message, and the bucket or folder before them, by words for people,
 * who know no keys: "a kept frame". What names no video, run or job by its id stays. */
void cv_hide_keys(char *message);

/* The key of an object of a video, "{prefix}{video_id}/{name}", in new memory (free() it). `name`
 * is a printf format. */
CV_MUST_CHECK int cv_object_key(enum cv_object_place place, const char *video_id, char **ret_key,
                                struct cv_error *error, const char *name, ...) CV_PRINTF(5, 6);

/* The common beginning of the keys of a video's objects in a place, "{prefix}{video_id}/"; free()
 * it. */
CV_MUST_CHECK int cv_object_folder(enum cv_object_place place, const char *video_id,
                                   char **ret_folder, struct cv_error *error);

/* The video to which a key under the place's prefix belongs, in lower case; false for a key that
 * can belong to no video (it contains no UUID in lower case). */
CV_MUST_CHECK bool cv_object_video(enum cv_object_place place, const char *key,
                                   char ret_video_id[CV_OBJECT_ID_SIZE]);

/* Whether a text is a valid key of that video in that place; false for NULL. */
CV_MUST_CHECK bool cv_object_belongs(enum cv_object_place place, const char *key,
                                     const char *video_id);

/* Whether a key is videos/original/{video}/master.{ext}; that of subtitles is none. */
CV_MUST_CHECK bool cv_object_is_original(const char *key, char ret_video_id[CV_OBJECT_ID_SIZE]);

/* Whether a key is that of a file of subtitles beside an original. */
CV_MUST_CHECK bool cv_object_is_subtitles(const char *key, char ret_video_id[CV_OBJECT_ID_SIZE]);

/* Whether a file has an ending of subtitles that are read: .srt, .vtt, .ass, .ssa. */
bool cv_name_is_of_subtitles(const char *name);

/* The media type of the object with this key, which follows from the key's extension alone: nobody
 * who writes an object chooses how a browser takes it. CV_MEDIA_TYPE_UNKNOWN for an extension that
 * is not in the list, which has no type that can hold a script. Static. */
const char *cv_media_type(const char *key);
#define CV_MEDIA_TYPE_UNKNOWN "application/octet-stream"

/* The parts of a key under inbox/. */
struct cv_inbox_key {
    char owner_id[CV_OBJECT_ID_SIZE]; /* "" when the key names none */
    char team_id[CV_OBJECT_ID_SIZE];
    char extension[12]; /* lower case: "mp4" */
    const char *name;   /* the last segment; points into the key */
};

enum cv_inbox_verdict {
    CV_INBOX_VIDEO = 0,
    CV_INBOX_OTHER = 1,    /* not a video by its extension; ignored */
    CV_INBOX_NO_OWNER = 2, /* its first folder is not a UUID */
    CV_INBOX_SUBTITLES = 3,
};

enum cv_inbox_verdict cv_inbox_read(const char *key, struct cv_inbox_key *ret_key);
