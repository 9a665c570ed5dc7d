/* The web page: the files of web/, which are built into the program. Reading them requires no
 * sign-in. */
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

/* Generated from web/ by scripts/embed_assets.py, ordered by path. */
extern const struct asset assets[];
extern const size_t asset_count;

/* First parts of the paths of screens ("/jobs"), from web/app.js, which interprets the rest; NULL ends
 * them. */
extern const char *const asset_screens[];

/* Sets the Content-Security-Policy of the page; call it before any request. `bucket_url`: any URL
 * of the bucket to which browsers are redirected, whose origin the page may use beside this one;
 * NULL: none. */
void assets_start(const char *bucket_url);

/* Answers a request for a file of the page, or for one of its screens, which are all index.html:
 * its script reads the address. Returns true if the path is one of these; then exchange->answer is
 * filled. Methods other than GET and HEAD are refused. */
bool assets_answer(struct exchange *exchange, const char *method);

/* Answers a browser that asks for a path that nothing has: with the page, which says so and has ways
 * on, and the status 404. Returns false for programs, and for paths of the API. */
bool assets_answer_missing(struct exchange *exchange);

/* ---- what strangers see of a link ------------------------------------------------------------- */

/* The operation of /s/{code}, and of /embed/{code} for an <iframe> in other pages, which are in no API
 * document; NULL: the target is neither. */
const struct operation *assets_share_page(const char *target);

/* STEP_SITE: adds the parameter "site", where this page is: http://host:port. */
void assets_name_site(struct exchange *exchange);

/* STEP_SHARED: answers with shared.html, whose head gets what api.share_page says of the link. */
void assets_answer_shared(struct exchange *exchange);
