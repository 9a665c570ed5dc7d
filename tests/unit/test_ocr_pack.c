/* Lines that are kept read the same as the first time, and a pack that somebody made up is refused. */
#include "tests/unit/ocr_pictures.h"
#include "workers/ocr/pictures/pack.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

enum { WIDTH = 90, HEIGHT = 30, PICTURES = 5 };

struct bytes {
    uint8_t *data;
    size_t size;
};

static int read_bytes(void *opaque, int64_t offset, void *data, size_t length, size_t *ret_read,
                      struct cv_error *error)
{
    const struct bytes *bytes = opaque;
    size_t left = (size_t)offset < bytes->size ? bytes->size - (size_t)offset : 0;

    (void)error;
    *ret_read = length < left ? length : left;
    memcpy(data, bytes->data + offset, *ret_read);
    return 0;
}

static struct cv_byte_source source_of(struct bytes *bytes)
{
    return (struct cv_byte_source){bytes, (int64_t)bytes->size, read_bytes};
}

/* A line of noise, with an emoji when `with_emoji`. */
static struct ocr_crop make_line(unsigned seed, bool with_emoji)
{
    struct ocr_crop crop = {.width = WIDTH + (int)seed,
                            .height = HEIGHT,
                            .tall = 20 + (int)seed,
                            .has_letters = seed % 2 == 0,
                            .ink = {.paper = {250, 251, 252}}};
    size_t area = (size_t)crop.width * HEIGHT;

    crop.grey = malloc(area);
    assert_non_null(crop.grey);
    for (size_t i = 0; i < area; i++) {
        seed = seed * 1103515245U + 12345U;
        crop.grey[i] = (uint8_t)(seed >> 16);
    }
    if (with_emoji) {
        crop.emoji_count = 2;
        crop.emoji[0] = (struct ocr_emoji){{4, 3, 12, 14}, "☕", 0.91};
        crop.emoji[1] = (struct ocr_emoji){{40, 3, 12, 14}, NULL, 0};
        crop.patches[0].box = (struct cv_box){0, -1, 20, 22};
        crop.patches[0].rgb = malloc(20 * 22 * 3);
        assert_non_null(crop.patches[0].rgb);
        for (size_t i = 0; i < 20 * 22 * 3; i++) {
            crop.patches[0].rgb[i] = (uint8_t)(i * 7);
        }
    }
    return crop;
}

static struct ocr_kept_row make_row(int64_t picture)
{
    return (struct ocr_kept_row){.picture = picture,
                                 .line = picture + 1,
                                 .t_start = picture * 40,
                                 .t_end = picture * 40 + 33,
                                 .box = {-3, 7, WIDTH, HEIGHT},
                                 .end_x = -3,
                                 .end_y = -20,
                                 .is_cut = picture % 2 == 1,
                                 .has_company = picture % 3 == 0,
                                 .kind = CV_INK_DARK,
                                 .clarity = 0.8125};
}

/* Pictures 0 … 4, rows for 4, 1 and 4 again. */
static struct bytes make_pack(void)
{
    char folder[] = "/tmp/cv-pack-XXXXXX";
    char path[64], waiting[64];
    struct cv_error error;
    struct bytes bytes = {NULL, 0};
    cv_auto(ocr_pack_free) struct ocr_pack *pack = NULL;

    assert_non_null(mkdtemp(folder));
    (void)snprintf(path, sizeof(path), "%s/lines.pack", folder);
    (void)snprintf(waiting, sizeof(waiting), "%s/lines.waiting", folder);
    assert_int_equal(ocr_pack_new(folder, 0xFEDCBA9876543210U, &pack, &error), 0);
    for (unsigned i = 0; i < PICTURES; i++) {
        cv_auto(ocr_crop_deinit) struct ocr_crop crop = make_line(i, i == 4);
        int64_t number = -1;
        assert_int_equal(ocr_pack_picture(pack, &crop, &number, &error), 0);
        assert_int_equal(number, i);
    }
    static const int64_t wanted[] = {4, 1, 4};
    for (size_t i = 0; i < CV_COUNT(wanted); i++) {
        struct ocr_kept_row row = make_row(wanted[i]);
        assert_int_equal(ocr_pack_row(pack, &row, &error), 0);
    }
    assert_int_equal(ocr_pack_write(pack, path, &error), 0);
    FILE *file = fopen(path, "rb");
    assert_non_null(file);
    bytes.data = malloc(1 << 16);
    assert_non_null(bytes.data);
    bytes.size = fread(bytes.data, 1, 1 << 16, file);
    (void)fclose(file);
    assert_true(bytes.size > 100 && bytes.size < 1 << 16);
    (void)unlink(path);
    (void)unlink(waiting);
    assert_int_equal(rmdir(folder), 0);
    return bytes;
}

static void same_levels(const struct ocr_crop *found, const struct ocr_crop *made)
{
    assert_int_equal(found->width, made->width);
    assert_int_equal(found->height, made->height);
    assert_int_equal(found->tall, made->tall);
    assert_int_equal(found->has_letters, made->has_letters);
    for (int i = 0; i < made->width * made->height; i++) {
        assert_int_equal(found->grey[i], ocr_level(made->grey[i]) * 17);
        /* A kept line that is kept again stays as it is. */
        assert_int_equal(ocr_level(found->grey[i]), ocr_level(made->grey[i]));
    }
}

static void test_what_is_kept_comes_back(void **state)
{
    (void)state;
    struct bytes bytes = make_pack();
    struct cv_byte_source source = source_of(&bytes);
    struct cv_error error;
    cv_auto(ocr_unpack_close) struct ocr_unpacking *unpacking = NULL;
    cv_auto(ocr_crop_deinit) struct ocr_crop one = {.grey = NULL}, four = {.grey = NULL};
    cv_auto(ocr_crop_deinit) struct ocr_crop made_one = make_line(1, false);
    cv_auto(ocr_crop_deinit) struct ocr_crop made_four = make_line(4, true);

    assert_int_equal(ocr_unpack_open(&source, &unpacking, &error), 0);
    assert_true(ocr_unpack_bank(unpacking) == 0xFEDCBA9876543210U);
    assert_int_equal(ocr_unpack_pictures(unpacking), 2); /* those that no row names are left out */
    assert_int_equal(ocr_unpack_rows(unpacking), 3);
    assert_int_equal(ocr_unpack_picture(unpacking, &one, &error), 0);
    assert_int_equal(ocr_unpack_picture(unpacking, &four, &error), 0);
    same_levels(&one, &made_one);
    same_levels(&four, &made_four);
    assert_int_equal(four.emoji_count, 2);
    assert_string_equal(four.emoji[0].text, "☕");
    assert_null(four.emoji[1].text);
    assert_true(four.emoji[0].score == 0.91);
    assert_memory_equal(&four.patches[0].box, &made_four.patches[0].box, sizeof(struct cv_box));
    for (size_t i = 0; i < 20 * 22 * 3; i++) {
        assert_int_equal(four.patches[0].rgb[i], made_four.patches[0].rgb[i] & 0xF8);
    }
    assert_null(four.patches[1].rgb);
    assert_memory_equal(four.ink.paper, made_four.ink.paper, 3);
    static const int64_t was[] = {4, 1, 4}, is[] = {1, 0, 1};
    for (size_t i = 0; i < CV_COUNT(was); i++) {
        struct ocr_kept_row found, made = make_row(was[i]);
        assert_int_equal(ocr_unpack_row(unpacking, i, &found, &error), 0);
        assert_int_equal(found.picture, is[i]);
        assert_int_equal(found.line, made.line);
        assert_int_equal(found.t_start, made.t_start);
        assert_int_equal(found.t_end, made.t_end);
        assert_memory_equal(&found.box, &made.box, sizeof(made.box));
        assert_int_equal(found.end_y, made.end_y);
        assert_int_equal(found.is_cut, made.is_cut);
        assert_int_equal(found.has_company, made.has_company);
        assert_int_equal(found.kind, made.kind);
        assert_true(found.clarity == made.clarity);
    }
    free(bytes.data);
}

/* Reads all of a pack; 0 when nothing is wrong with it. */
static int read_all(struct bytes *bytes)
{
    struct cv_byte_source source = source_of(bytes);
    struct cv_error error;
    cv_auto(ocr_unpack_close) struct ocr_unpacking *unpacking = NULL;

    int result = ocr_unpack_open(&source, &unpacking, &error);
    for (size_t i = 0; result == 0 && i < ocr_unpack_pictures(unpacking); i++) {
        cv_auto(ocr_crop_deinit) struct ocr_crop crop = {.grey = NULL};
        result = ocr_unpack_picture(unpacking, &crop, &error);
    }
    for (size_t i = 0; result == 0 && i < ocr_unpack_rows(unpacking); i++) {
        struct ocr_kept_row row;
        result = ocr_unpack_row(unpacking, i, &row, &error);
    }
    if (result < 0) {
        assert_int_equal(error.type, CV_ERROR_DECODE);
    }
    return result;
}

static void test_damaged_packs_are_refused(void **state)
{
    (void)state;
    struct bytes bytes = make_pack();
    uint8_t *whole = malloc(bytes.size);
    unsigned seed = 1;

    assert_non_null(whole);
    assert_int_equal(read_all(&bytes), 0);
    memcpy(whole, bytes.data, bytes.size);
    size_t size = bytes.size;
    for (size_t cut = 0; cut < size; cut += 37) {
        bytes.size = cut;
        assert_true(read_all(&bytes) < 0);
    }
    bytes.size = size;
    /* Whatever bytes say: refused or read, never more memory or another place. */
    for (int i = 0; i < 3000; i++) {
        memcpy(bytes.data, whole, size);
        for (int k = 0; k < 3; k++) {
            seed = seed * 1103515245U + 12345U;
            bytes.data[(seed >> 8) % 700] = (uint8_t)(seed >> 24);
        }
        (void)read_all(&bytes);
    }
    free(bytes.data);
    free(whole);
}

/* A pack around an index that somebody wrote. */
static int read_index(const char *index)
{
    struct bytes bytes = {NULL, 12 + strlen(index)};
    size_t length = strlen(index);

    bytes.data = calloc(1, bytes.size + 1);
    assert_non_null(bytes.data);
    memcpy(bytes.data, "CVLINES1", 8);
    bytes.data[8] = (uint8_t)length;
    bytes.data[9] = (uint8_t)(length >> 8);
    memcpy(bytes.data + 12, index, length);
    int result = read_all(&bytes);
    free(bytes.data);
    return result;
}

static void test_indexes_that_lie_are_refused(void **state)
{
    (void)state;
    static const char bank[] = "{\"bank\":\"0123456789abcdef\",";
    static const char *const rest[] = {
        "\"pictures\":[[1,2,3]],\"rows\":[]}",
        "\"pictures\":[[99,0,30,20,1]],\"rows\":[]}",
        "\"pictures\":[[99,16384,16384,20,1]],\"rows\":[]}",
        "\"pictures\":[[99999999,90,30,20,1]],\"rows\":[]}",
        "\"pictures\":[[-1,90,30,20,1]],\"rows\":[]}",
        "\"pictures\":{},\"rows\":[]}",
        "\"pictures\":[]}",
        "\"pictures\":[],\"rows\":[[0,1,0,1,0,0,9,9,0,0,0,0.5]]}",
        "\"pictures\":[],\"rows\":[\"x\"]}",
    };
    char index[256];

    (void)snprintf(index, sizeof(index), "%s\"pictures\":[],\"rows\":[]}", bank);
    assert_int_equal(read_index(index), 0);
    for (size_t i = 0; i < CV_COUNT(rest); i++) {
        (void)snprintf(index, sizeof(index), "%s%s", bank, rest[i]);
        assert_true(read_index(index) < 0);
    }
    assert_true(read_index("{\"pictures\":[],\"rows\":[]}") < 0);
    assert_true(read_index("{\"bank\":\"xyz\",\"pictures\":[],\"rows\":[]}") < 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_what_is_kept_comes_back),
        cmocka_unit_test(test_damaged_packs_are_refused),
        cmocka_unit_test(test_indexes_that_lie_are_refused),
    };
    (void)setMsgSeverity(L_SEVERITY_NONE);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
