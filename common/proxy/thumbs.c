#include "common/proxy/proxy_internal.h"

#include <math.h>
#include <string.h>

static const double tolerance = 0.002; /* seconds; the file counts milliseconds */

struct sheet {
    char name[CV_PROXY_NAME_SIZE];
    int width, height; /* 0: not there, or no JPEG */
};

/* The size in a JPEG's frame header; false where there is none. */
static bool jpeg_size(const uint8_t *data, size_t size, int *ret_width, int *ret_height)
{
    if (size < 4 || data[0] != 0xff || data[1] != 0xd8) {
        return false;
    }
    for (size_t at = 2; at + 9 < size && data[at] == 0xff;) {
        int marker = data[at + 1];
        bool is_frame =
            marker >= 0xc0 && marker <= 0xcf && marker != 0xc4 && marker != 0xc8 && marker != 0xcc;
        if (is_frame) {
            *ret_height = data[at + 5] << 8 | data[at + 6];
            *ret_width = data[at + 7] << 8 | data[at + 8];
            return true;
        }
        at += 2 + (size_t)(data[at + 2] << 8 | data[at + 3]);
    }
    return false;
}

static int read_sheet(struct cv_proxy *proxy, const char *name, struct sheet *sheet,
                      struct cv_error *error)
{
    *sheet = (struct sheet){0};
    (void)snprintf(sheet->name, sizeof(sheet->name), "%s", name);
    cv_auto_free void *data = NULL;
    size_t size = 0;
    int result = cv_proxy_get(proxy, proxy->thumbs_prefix, name, &data, &size, error);
    if (result == 0 && data && !jpeg_size(data, size, &sheet->width, &sheet->height)) {
        cv_proxy_tell(proxy, name, "is no JPEG");
    }
    return result;
}

static double seconds(int hours, int minutes, double rest)
{
    return 3600.0 * hours + 60.0 * minutes + rest;
}

static int check_cue(struct cv_proxy *proxy, const char *file, const char *target, double start,
                     struct sheet *sheet, struct cv_error *error)
{
    char name[CV_PROXY_NAME_SIZE];
    int x, y, width, height;
    if (sscanf(target, "%100[^#/]#xywh=%d,%d,%d,%d", name, &x, &y, &width, &height) != 5) {
        cv_proxy_tell(proxy, file, "the cue at %.3f s names no part of a sheet", start);
        return 0;
    }
    int result = strcmp(name, sheet->name) == 0 ? 0 : read_sheet(proxy, name, sheet, error);
    if (result == 0 && (x < 0 || y < 0 || width < 1 || height < 1 || x + width > sheet->width ||
                        y + height > sheet->height)) {
        cv_proxy_tell(proxy, file, "the cue at %.3f s lies beside the sheet %s", start, name);
    }
    proxy->summary->tiles++;
    return result;
}

static int check_cues(struct cv_proxy *proxy, const char *file, char *text, double duration,
                      struct cv_error *error)
{
    struct sheet sheet = {0};
    double expected = 0;
    char *rest = NULL;
    int result = 0;
    for (char *line = strtok_r(text, "\n", &rest); line && result == 0;
         line = strtok_r(NULL, "\n", &rest)) {
        int from[2], to[2];
        double from_rest, to_rest;
        if (sscanf(line, "%d:%d:%lf --> %d:%d:%lf", &from[0], &from[1], &from_rest, &to[0], &to[1],
                   &to_rest) != 6) {
            continue;
        }
        double start = seconds(from[0], from[1], from_rest), end = seconds(to[0], to[1], to_rest);
        if (fabs(start - expected) > tolerance || end <= start) {
            cv_proxy_tell(proxy, file,
                          "the cue at %.3f s does not follow the one that ends at %.3f", start,
                          expected);
        }
        expected = end;
        char *target = strtok_r(NULL, "\n", &rest);
        result = check_cue(proxy, file, target ? target : "", start, &sheet, error);
    }
    if (result == 0 && duration >= 1 && fabs(expected - duration) > tolerance) {
        cv_proxy_tell(proxy, file, "ends at %.3f s, the video at %.3f", expected, duration);
    }
    return result;
}

int cv_proxy_check_thumbs(struct cv_proxy *proxy, double duration, struct cv_error *error)
{
    static const char file[] = "thumbnails.vtt";
    struct sheet poster;
    int result = read_sheet(proxy, "poster.jpg", &poster, error);
    cv_auto_free void *text = NULL;
    size_t size = 0;
    result = result ? result : cv_proxy_get(proxy, proxy->thumbs_prefix, file, &text, &size, error);
    if (result != 0 || !text) {
        return result;
    }
    if (strncmp(text, "WEBVTT\n", 7) != 0) {
        cv_proxy_tell(proxy, file, "is no WebVTT");
    }
    return check_cues(proxy, file, text, duration, error);
}
