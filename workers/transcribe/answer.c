#include "workers/transcribe/answer.h"

#include <ctype.h>
#include <jansson.h>
#include <math.h>
#include <string.h>

enum {
    SEGMENTS_MAX =
        10000,      /* in five minutes; fast speech has ten words a second, each perhaps one */
    LATE_MS = 1000, /* times that are so much behind the end are rounded */
};

/* The language of the answer, "english" or "en", as ISO 639-3 has it; "" if it is not known. */
static void read_language(const json_t *answer, char language[CV_SUBTITLE_LANGUAGE_SIZE])
{
    char name[32] = "";
    const char *given = json_string_value(json_object_get(answer, "language"));
    for (size_t i = 0; given && given[i] && i + 1 < sizeof(name); i++) {
        name[i] = (char)tolower((unsigned char)given[i]);
    }
    (void)snprintf(language, CV_SUBTITLE_LANGUAGE_SIZE, "%s", cv_language_code(name));
}

static bool is_blank(const char *text)
{
    return !text || text[strspn(text, " \t\r\n")] == '\0';
}

static int check_answer(const json_t *answer, const json_t *segments, struct cv_error *error)
{
    const json_t *text = json_object_get(answer, "text");
    if (!json_is_array(segments) && !json_is_string(text)) {
        const char *reason = json_string_value(json_object_get(answer, "error"));
        return cv_fail(error, CV_ERROR_SERVER, "its JSON has neither \"segments\" nor \"text\"%s%s",
                       reason ? ": " : "", reason ? reason : "");
    }
    if (json_array_size(segments) > SEGMENTS_MAX) {
        return cv_fail(error, CV_ERROR_SERVER, "it gives %zu segments for one piece of sound",
                       json_array_size(segments));
    }
    return json_array_size(segments) > 0 || is_blank(json_string_value(text))
               ? 0
               : cv_fail(error, CV_ERROR_CONFIGURATION,
                         "it gives a text without \"segments\", which have the times: its model "
                         "must know response_format=verbose_json");
}

/* A time of a segment in ms; false if it is none. */
static bool read_time(const json_t *segment, const char *name, int64_t *ret_ms)
{
    const json_t *time = json_object_get(segment, name);
    double seconds = json_number_value(time);
    if (!json_is_number(time) || !isfinite(seconds) || fabs(seconds) > INT32_MAX) {
        return false;
    }
    *ret_ms = llround(seconds * 1000);
    return true;
}

int answer_read(const char *body, size_t length, int64_t from_ms, int64_t length_ms,
                struct cv_subtitle_list *list, struct cv_error *error)
{
    json_error_t problem;
    cv_auto(json_decref) json_t *answer = json_loadb(body ? body : "", length, 0, &problem);
    if (!json_is_object(answer)) {
        return cv_fail(error, CV_ERROR_SERVER, "it answers no JSON object: %s",
                       answer ? "another kind of value" : problem.text);
    }
    struct cv_subtitle line = {.start_ms = 0};
    const json_t *segments = json_object_get(answer, "segments");
    size_t outside = 0, count = json_array_size(segments);
    CV_TRY(check_answer(answer, segments, error));
    read_language(answer, line.language);
    for (size_t i = 0; i < count; i++) {
        const json_t *segment = json_array_get(segments, i);
        const char *text = json_string_value(json_object_get(segment, "text"));
        int64_t start = 0, end = 0;
        if (!text || !read_time(segment, "start", &start) || !read_time(segment, "end", &end)) {
            return cv_fail(error, CV_ERROR_SERVER, "segment %zu has no text, or no times", i);
        }
        outside += start < 0 || start > length_ms + LATE_MS || end < start;
        start = start < 0 ? 0 : start;
        end = end < length_ms ? end : length_ms;
        if (end > start) {
            line.text = (char *)text;
            line.start_ms = from_ms + start;
            line.end_ms = from_ms + end;
            CV_TRY(cv_subtitle_list_add(list, &line, error));
        }
    }
    return 2 * outside <= count
               ? 0
               : cv_fail(error, CV_ERROR_SERVER,
                         "%zu of its %zu segments are not within the %lld ms of sound", outside,
                         count, (long long)length_ms);
}
