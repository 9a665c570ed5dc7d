#include "common/base/base.h"

#include <stdarg.h>

void cv_because(struct cv_reasons *reasons, int64_t line, int64_t other, const struct cv_box *box,
                const char *format, ...)
{
    va_list arguments;

    va_start(arguments, format);
    json_t *what = json_vsprintf(format, arguments);
    va_end(arguments);
    json_t *entry = json_pack("{s:I, s:I, s:I, s:o, s:o*}", "line", (json_int_t)line, "other",
                              (json_int_t)other, "t", (json_int_t)reasons->t_ms, "what", what,
                              "bounding_box", box ? cv_box_json(box) : NULL);
    reasons->list = reasons->list ? reasons->list : json_array();
    reasons->has_failed = json_array_append_new(reasons->list, entry) != 0 || reasons->has_failed;
}

void cv_reasons_deinit(struct cv_reasons *reasons)
{
    json_decref(reasons->list);
    *reasons = (struct cv_reasons){.list = NULL};
}
