/* What a stage process prints, read by its supervisor: any bytes and any exit status (the first byte). Every output
 * is a result with a checked list of artifacts, or a failure with a message. */
#include "common/broker/broker.h"
#include "common/worker/supervisor.h"

#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size == 0) {
        return 0;
    }
    struct cv_child child = CV_CHILD_INIT;
    struct cv_verdict_result verdict;
    child.status = data[0] & 0x80 ? data[0] & 0x7f : (int)(data[0] & 0x7f) << 8;
    child.memory_bytes = 1 << 30;
    cv_buffer_append(&child.output, data + 1, size - 1);
    cv_auto(json_decref) json_t *grants =
        json_pack("[[i, s]]", CV_GRANT_READ | CV_GRANT_WRITE, "k*");
    cv_verdict_read(&child, grants, &verdict);
    if (verdict.result ? !json_is_object(verdict.result) || !json_is_array(verdict.artifacts)
                       : verdict.failure.message[0] == '\0') {
        abort();
    }
    cv_verdict_deinit(&verdict);
    cv_buffer_deinit(&child.output);
    return 0;
}
