/* Draws what the OCR stage finds on one picture: look_at_text [--read] [--ink] FRAME.jpg OUT.png
 *
 * Blue and orange: components of dark and light ink. Green: lines; red: lines without clear ink. With
 * --read each line is read and printed with its place, confidence and ink; with --ink the picture shows the
 * ink of each line as Tesseract gets it. What became of a line over time is told by cortana why. */
#include "workers/ocr/reading/models.h"
#include "workers/ocr/reading/reader.h"

#include <getopt.h>
#include <leptonica/allheaders.h>
#include <stdio.h>
#include <string.h>

struct options {
    bool is_read, is_ink;
    const char *frame, *out;
};

struct look {
    const struct options *options;
    struct cv_frame frame;
    struct cv_text_lines lines;
    struct ocr_engine *engine; /* NULL: nothing is read */
    PIX *picture;
};

static void fail(const struct cv_error *error)
{
    (void)fprintf(stderr, "look_at_text: %s\n", error->message);
    exit(1);
}

static void draw(PIX *picture, const struct cv_box *box, int red, int green, int blue)
{
    BOX *drawn = boxCreate(box->x - 1, box->y - 1, box->width + 2, box->height + 2);

    (void)pixRenderBoxArb(picture, drawn, 1, (l_uint8)red, (l_uint8)green, (l_uint8)blue);
    boxDestroy(&drawn);
}

static struct cv_frame load(const char *path)
{
    struct cv_frame frame = {0};
    struct cv_error error = {0};
    size_t size = 0;
    l_uint8 *data = l_binaryRead(path, &size);

    if (!data || cv_frame_decode(data, size, &frame, &error) < 0) {
        (void)fprintf(stderr, "look_at_text: %s is not read: %s\n", path, error.message);
        exit(1);
    }
    lept_free(data);
    return frame;
}

static PIX *canvas(const struct cv_frame *frame, bool is_plain)
{
    PIX *picture = pixCreate(frame->width, frame->height, 32);

    (void)pixSetAll(picture);
    for (int y = 0; !is_plain && y < frame->height; y++) {
        for (int x = 0; x < frame->width; x++) {
            size_t at = (size_t)y * (size_t)frame->width + (size_t)x;
            (void)pixSetRGBPixel(picture, x, y, frame->plane[CV_RED][at],
                                 frame->plane[CV_GREEN][at], frame->plane[CV_BLUE][at]);
        }
    }
    return picture;
}

static void show_ink(PIX *picture, const struct ocr_crop *crop)
{
    for (int y = 0; y < crop->height; y++) {
        for (int x = 0; x < crop->width; x++) {
            int grey = crop->grey[(size_t)y * (size_t)crop->width + (size_t)x];
            (void)pixSetRGBPixel(picture, crop->box.x + x, crop->box.y + y, grey, grey, grey);
        }
    }
}

static void print_line(const struct cv_text_line *line, const struct ocr_crop *crop,
                       const struct ocr_reading *reading)
{
    static const char *const kinds[] = {"flat", "light", "dark"};
    const struct cv_ink *ink = &crop->ink;

    printf("%4d %4d %4d %3d tall %2d %s%s clarity %.2f levels %d..%d", crop->box.x, crop->box.y,
           crop->box.width, crop->box.height, line->tall, kinds[ink->kind],
           line->is_faint ? " faint" : "", ink->clarity, ink->low, ink->high);
    if (reading) {
        printf(" sure %.2f worst %.2f %s", reading->confidence, reading->worst_word, reading->text);
    }
    for (size_t i = 0; i < crop->emoji_count; i++) {
        const struct ocr_emoji *emoji = &crop->emoji[i];
        printf(" [%s %.2f at %d %d, %d × %d]", emoji->text ? emoji->text : "no emoji", emoji->score,
               emoji->box.x, emoji->box.y, emoji->box.width, emoji->box.height);
    }
    printf("\n");
}

static void look_at_line(const struct look *look, const struct cv_text_line *line)
{
    struct ocr_crop crop = {0};
    struct cv_error error = {0};
    int result =
        ocr_crop_make(&look->frame, line, look->lines.glyphs + line->first_glyph, &crop, &error);

    if (result < 0) {
        fail(&error);
    }
    if (result == CV_OCR_NO_TEXT) {
        draw(look->picture, &line->box, 255, 0, 0);
        printf("%4d %4d %4d %3d tall %2d no clear ink\n", line->box.x, line->box.y, line->box.width,
               line->box.height, line->tall);
        return;
    }
    struct ocr_reading reading = {0};
    int64_t readings = 0;
    if (look->engine && ocr_read(look->engine, &crop, &reading, &readings, &error) < 0) {
        fail(&error);
    }
    print_line(line, &crop, look->engine ? &reading : NULL);
    if (look->options->is_ink) {
        show_ink(look->picture, &crop);
    } else {
        draw(look->picture, &line->box, 0, 200, 0);
    }
    ocr_reading_deinit(&reading);
    ocr_crop_deinit(&crop);
}

static void draw_components(struct look *look)
{
    struct cv_components components = {0};
    struct cv_error error = {0};

    if (cv_components_find(&look->frame, &components, &error) < 0) {
        fail(&error);
    }
    for (size_t i = 0; i < components.count; i++) {
        const struct cv_component *item = &components.items[i];
        draw(look->picture, &item->box, item->is_light ? 255 : 0, item->is_light ? 140 : 80,
             item->is_light ? 0 : 255);
    }
    cv_components_deinit(&components);
}

static void open_engine(struct look *look)
{
    struct ocr_defaults defaults = {0};
    struct cv_error error = {0};

    if (ocr_defaults_init(&defaults, &error) < 0 ||
        ocr_engine_new(defaults.names, defaults.count, &look->engine, &error) < 0) {
        fail(&error);
    }
    ocr_defaults_deinit(&defaults);
}

static struct options read_options(int argc, char **argv)
{
    static const struct option known[] = {
        {"read", no_argument, NULL, 'r'}, {"ink", no_argument, NULL, 'i'}, {0}};
    struct options options = {0};
    int option;

    while ((option = getopt_long(argc, argv, "", known, NULL)) != -1) {
        options.is_read |= option == 'r';
        options.is_ink |= option == 'i';
        if (option == '?') {
            exit(2);
        }
    }
    if (argc - optind != 2) {
        (void)fprintf(stderr, "usage: look_at_text [--read] [--ink] FRAME.jpg OUT.png\n");
        exit(2);
    }
    options.frame = argv[optind];
    options.out = argv[optind + 1];
    return options;
}

int main(int argc, char **argv)
{
    struct options options = read_options(argc, argv);
    struct look look = {.options = &options};
    struct cv_error error = {0};

    (void)setMsgSeverity(L_SEVERITY_NONE);
    look.frame = load(options.frame);
    look.picture = canvas(&look.frame, options.is_ink);
    if (cv_text_lines_find(&look.frame, &look.lines, &error) < 0) {
        fail(&error);
    }
    if (options.is_read) {
        open_engine(&look);
    }
    if (!options.is_ink) {
        draw_components(&look);
    }
    for (size_t i = 0; i < look.lines.count; i++) {
        look_at_line(&look, &look.lines.items[i]);
    }
    int written = pixWrite(options.out, look.picture, IFF_PNG);
    pixDestroy(&look.picture);
    ocr_engine_free(look.engine);
    cv_text_lines_deinit(&look.lines);
    cv_frame_deinit(&look.frame);
    return written == 0 ? 0 : 1;
}
