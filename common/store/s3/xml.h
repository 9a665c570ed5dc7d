/* What S3 says in XML: lists, results and errors. */
#pragma once

#include "common/base/base.h"

/* Called at the end of each element with the names from the root on ("ListBucketResult/Contents/Key")
 * and its text. */
typedef int cv_s3_xml_element(void *opaque, const char *path, const char *text,
                              struct cv_error *error);

/* Text that is not a whole document is CV_ERROR_CONNECTION: an answer that was cut short or mangled on
 * its way. */
CV_MUST_CHECK int cv_s3_xml_read(const char *text, size_t length, cv_s3_xml_element *element,
                                 void *opaque, struct cv_error *error);

/* The text of the one element with that path, in the caller's buffer; "" when there is none. */
CV_MUST_CHECK int cv_s3_xml_find(const char *text, size_t length, const char *path, char *value,
                                 size_t size, struct cv_error *error);

/* Text with '&' and the like written as XML wants it. */
void cv_s3_xml_escape(struct cv_buffer *buffer, const char *text);
