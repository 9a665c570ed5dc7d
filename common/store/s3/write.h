/* Puts objects: in one request, several at once, or in parts. */
#pragma once

#include "common/store/s3/bucket.h"

/* Calculates the digests of a body: SHA-256 unless `sha256` is NULL, MD5 unless `md5` is NULL. */
CV_MUST_CHECK int cv_s3_digest(const struct cv_store_input *input, char *sha256, char *md5,
                               struct cv_error *error);

/* Converts an MD5 to base 64 for Content-MD5: 25 bytes, NUL included. */
void cv_s3_md5_base64(const char *md5_hex, char base64[25]);

/* Sets the body of a request, and what protects it: the payload's hash over http, Content-MD5 over
 * TLS. `md5` (may be NULL) gets the MD5 if it was calculated, else "". */
CV_MUST_CHECK int cv_s3_request_body(struct cv_s3_request *request,
                                     const struct cv_s3_client *client,
                                     const struct cv_store_input *input, char md5[CV_S3_MD5_SIZE],
                                     struct cv_error *error);

/* The backend's functions. */
CV_MUST_CHECK int cv_s3_put(struct cv_store *store, const struct cv_new_object *object,
                            const struct cv_store_input *input, struct cv_object_info *ret_info,
                            struct cv_error *error);
CV_MUST_CHECK int cv_s3_put_begin(struct cv_store *store, const struct cv_new_object *object,
                                  const struct cv_store_input *input, struct cv_store_put **ret_put,
                                  struct cv_error *error);
CV_MUST_CHECK int cv_s3_put_end(struct cv_store_put *put, struct cv_object_info *ret_info,
                                struct cv_error *error);
void cv_s3_put_stop(struct cv_store_put *put);

/* A multipart upload in single steps, for put, copy, and uploads of others. */
CV_MUST_CHECK int cv_s3_multipart_begin(struct cv_s3_store *store,
                                        const struct cv_new_object *object, char **ret_upload_id,
                                        struct cv_error *error);
/* Joins the parts, whose numbers are 1, 2, 3 …; reads the new object's info. */
CV_MUST_CHECK int cv_s3_multipart_end(struct cv_s3_store *store, const char *key,
                                      const struct cv_store_parts *parts,
                                      struct cv_object_info *ret_info, struct cv_error *error);
/* Tries to remove an upload; if that fails, the bucket's lifecycle rule removes it. */
void cv_s3_multipart_abort(struct cv_s3_store *store, const char *key, const char *upload_id);
