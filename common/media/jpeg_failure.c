#include "common/media/jpeg_failure.h"

static void on_failure(j_common_ptr context)
{
    struct cv_jpeg_failure *failure = (struct cv_jpeg_failure *)(void *)context->err;
    context->err->format_message(context, failure->message);
    longjmp(failure->back, 1);
}

/* A warning (level -1) while reading means that libjpeg has invented missing data. */
static void on_message(j_common_ptr context, int level)
{
    if (level < 0 && context->is_decompressor) {
        on_failure(context);
    }
}

struct jpeg_error_mgr *cv_jpeg_errors(struct cv_jpeg_failure *failure)
{
    (void)jpeg_std_error(&failure->manager);
    failure->manager.error_exit = on_failure;
    failure->manager.emit_message = on_message;
    return &failure->manager;
}
