#include "common/store/backend.h"

/* What an object is taken to hold before any has come. */
enum { FIRST_GUESS = 4 << 20 };

struct download {
    struct cv_store_get *get; /* NULL: it did not begin, and `result` and `error` say why */
    int result;
    struct cv_error error;
};

struct cv_downloads {
    struct cv_store *store;
    const char *const *keys;
    size_t count, limit;
    size_t next, begun;                          /* keys handed out, keys begun */
    size_t guess;                                /* bytes of the largest so far */
    struct download downloads[CV_DOWNLOADS_MAX]; /* key i in slot i mod CV_DOWNLOADS_MAX */
};

int cv_downloads_new(struct cv_store *store, const char *const *keys, size_t count, size_t limit,
                     struct cv_downloads **ret_downloads, struct cv_error *error)
{
    struct cv_downloads *downloads = calloc(1, sizeof(*downloads));
    CV_TRY_MEMORY(downloads, error, "downloads");
    downloads->store = store;
    downloads->keys = keys;
    downloads->count = count;
    downloads->limit = limit;
    downloads->guess = limit < FIRST_GUESS ? limit : FIRST_GUESS;
    *ret_downloads = downloads;
    return 0;
}

void cv_downloads_free(struct cv_downloads *downloads)
{
    for (; downloads && downloads->next < downloads->begun; downloads->next++) {
        struct download *download = &downloads->downloads[downloads->next % CV_DOWNLOADS_MAX];
        if (download->get) {
            downloads->store->backend->get_stop(download->get);
        }
    }
    free(downloads);
}

/* The one that is wanted next, and those behind it as far as there is room. A failure waits until its
 * object is asked for. */
static void begin_ahead(struct cv_downloads *downloads)
{
    size_t room = CV_DOWNLOADS_BYTES_MAX / (downloads->guess + 1) + 1;
    room = room < CV_DOWNLOADS_MAX ? room : CV_DOWNLOADS_MAX;
    while (downloads->begun < downloads->count && downloads->begun - downloads->next < room) {
        struct download *download = &downloads->downloads[downloads->begun % CV_DOWNLOADS_MAX];
        const char *key = downloads->keys[downloads->begun++];
        *download = (struct download){.get = NULL};
        download->result = cv_store_check_key(key, &download->error);
        if (download->result == 0) {
            download->result = cv_store_judge(
                downloads->store->backend->get_begin(downloads->store, key, downloads->limit,
                                                     &download->get, &download->error),
                &download->error);
        }
    }
}

int cv_downloads_next(struct cv_downloads *downloads, void **ret_data, size_t *ret_size,
                      struct cv_error *error)
{
    const struct cv_store_backend *backend = downloads->store->backend;
    if (downloads->next == downloads->count) {
        return cv_fail(error, CV_ERROR_INTERNAL, "all objects of the list were handed out");
    }
    if (!backend->get_begin) {
        const char *key = downloads->keys[downloads->next++];
        return cv_store_get(downloads->store, key, downloads->limit, ret_data, ret_size, error);
    }
    begin_ahead(downloads);
    struct download *download = &downloads->downloads[downloads->next++ % CV_DOWNLOADS_MAX];
    if (download->result) {
        *error = download->error;
        return download->result;
    }
    size_t size = 0;
    int result =
        cv_store_judge(backend->get_end(cv_take(download->get), ret_data, &size, error), error);
    if (result == 0) {
        downloads->guess =
            size > downloads->guess || downloads->next == 1 ? size : downloads->guess;
        *ret_size = size;
        begin_ahead(downloads);
    }
    return result;
}
