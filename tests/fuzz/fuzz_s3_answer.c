/* Answers of an S3 server. The first byte chooses what is read: the head and the text of a failure, or a page
 * of a list. Keys that come out of a list are keys by our rules, in order, behind where it began. */
#include "common/store/s3/answer.h"
#include "common/store/s3/list.h"

#include "tests/fuzz/fuzz.h"

#include <stdlib.h>
#include <string.h>

/* Lines of a head up to an empty one; the rest is the body. */
static void read_failure(const char *text, size_t size)
{
    struct cv_s3_answer answer;
    struct cv_error error;
    struct cv_object_info info;
    size_t at = 0;
    cv_s3_answer_init(&answer);
    while (at < size) {
        const char *end = memchr(text + at, '\n', size - at);
        size_t length = end ? (size_t)(end - (text + at)) + 1 : size - at;
        cv_s3_answer_header(&answer, text + at, length);
        at += length;
        if (length <= 2) {
            break;
        }
    }
    cv_s3_answer_info(&answer, &info);
    (void)cv_s3_answer_failure(&answer, text + at, size - at, &error);
    if (strnlen(error.message, sizeof(error.message)) == sizeof(error.message)) {
        abort();
    }
    cv_s3_answer_deinit(&answer);
}

static void read_result(const char *text, size_t size)
{
    struct cv_error error;
    char value[80];
    char code[64];
    int result = cv_s3_xml_find(text, size, "InitiateMultipartUploadResult/UploadId", value,
                                sizeof(value), &error);
    if (result == 0 && strnlen(value, sizeof(value)) == sizeof(value)) {
        abort();
    }
    cv_s3_error_code(text, size, code);
}

static void read_list(const char *text, size_t size)
{
    cv_auto_free char *continuation = NULL;
    for (int page = 0; page < 3; page++) {
        cv_auto(cv_object_list_deinit) struct cv_object_list list = {0};
        struct cv_error error;
        const struct cv_s3_list_answer answer = {
            .text = text,
            .length = size,
            .store_prefix = "p/",
            .start = "p/b",
            .continuation = continuation,
        };
        if (cv_s3_list_read(&answer, &list, &error)) {
            return;
        }
        for (size_t i = 0; i < list.count; i++) {
            if (cv_store_check_key(list.entries[i].key, &error) || list.entries[i].size < 0 ||
                (i > 0 && strcmp(list.entries[i - 1].key, list.entries[i].key) >= 0)) {
                abort();
            }
        }
        free(continuation);
        continuation = cv_take(list.continuation);
        if (!continuation) {
            return;
        }
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static void (*const readers[])(const char *text, size_t size) = {read_failure, read_result,
                                                                     read_list};
    if (size > 0) {
        readers[data[0] % CV_COUNT(readers)]((const char *)data + 1, size - 1);
    }
    return 0;
}
