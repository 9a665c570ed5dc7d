/* Reads the XML of S3: lists, results and errors. */
#pragma once

#include "common/base/base.h"

/* Called at the end of each element with the names from the root on ("ListBucketResult/Contents/Key")
 * and its text. */
typedef int cv_s3_xml_element(void *opaque, const char *path, const char *text,
                              struct cv_error *error);

/* Parses a document. CV_ERROR_CONNECTION if the text is not a complete document: the answer was
 * truncated or damaged. */
CV_MUST_CHECK int cv_s3_xml_read(const char *text, size_t length, cv_s3_xml_element *element,
                                 void *opaque, struct cv_error *error);

/* Copies the text of the element with that path to the caller's buffer; "" if there is none. */
CV_MUST_CHECK int cv_s3_xml_find(const char *text, size_t length, const char *path, char *value,
                                 size_t size, struct cv_error *error);

/* Appends text with '&' and similar characters escaped. */
void cv_s3_xml_escape(struct cv_buffer *buffer, const char *text);
