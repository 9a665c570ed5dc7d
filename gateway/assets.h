/* The page: the files of web/, which are part of the program. Nobody has to be signed in to read them. */
#pragma once

#include "gateway/exchange.h"

struct asset {
    const char *path; /* "/screens/search.js" */
    const char *type;
    const char *etag; /* hash of the content */
    const unsigned char *plain;
    size_t plain_length;         /* bytes */
    const unsigned char *packed; /* gzip */
    size_t packed_length;
};

/* Generated of web/ by scripts/embed_assets.py, ordered by path. */
extern const struct asset assets[];
extern const size_t asset_count;

/* Makes the policy under which browsers run the page; before any request. `bucket_url`: any URL of the bucket that
 * browsers are sent to, whose origin they may use beside this one; NULL: there is none. */
void assets_start(const char *bucket_url);

/* Answers a request for a file of the page, or for one of its screens, which all are index.html: the script in it
 * reads the address. Returns whether the path is one; then exchange->answer is filled. Other methods than GET and HEAD
 * are refused. */
bool assets_answer(struct exchange *exchange, const char *method);
