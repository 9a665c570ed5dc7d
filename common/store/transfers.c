#include "common/store/backend.h"

#include <string.h>

/* ---- many gets at once --------------------------------------------------------------------------- */

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
    CV_TRY(cv_store_judge(backend->get_end(cv_take(download->get), ret_data, &size, error), error));
    downloads->guess = size > downloads->guess || downloads->next == 1 ? size : downloads->guess;
    *ret_size = size;
    begin_ahead(downloads);
    return 0;
}

struct upload {
    struct cv_store_put *put;
    char *key;
    void *data; /* NULL: a file */
    int fd;
    size_t size;
};

struct cv_uploads {
    struct cv_store *store;
    cv_uploads_stored *stored;
    void *opaque;
    struct upload uploads[CV_UPLOADS_MAX]; /* a ring; the oldest at `first` */
    size_t first, count;
    size_t bytes; /* of memory */
};

int cv_uploads_new(struct cv_store *store, cv_uploads_stored *stored, void *opaque,
                   struct cv_uploads **ret_uploads, struct cv_error *error)
{
    struct cv_uploads *uploads = calloc(1, sizeof(*uploads));
    CV_TRY_MEMORY(uploads, error, "uploads");
    uploads->store = store;
    uploads->stored = stored;
    uploads->opaque = opaque;
    *ret_uploads = uploads;
    return 0;
}

static void upload_deinit(struct upload *upload)
{
    free(upload->key);
    free(upload->data);
    if (upload->fd >= 0) {
        close(upload->fd);
    }
}
CV_DEFINE_CLEANUP_ADDRESS(struct upload, upload_deinit)

static struct upload remove_oldest(struct cv_uploads *uploads)
{
    struct upload upload = uploads->uploads[uploads->first];
    uploads->first = (uploads->first + 1) % CV_UPLOADS_MAX;
    uploads->count--;
    uploads->bytes -= upload.data ? upload.size : 0;
    return upload;
}

void cv_uploads_free(struct cv_uploads *uploads)
{
    while (uploads && uploads->count > 0) {
        cv_auto(upload_deinit) struct upload upload = remove_oldest(uploads);
        uploads->store->backend->put_stop(upload.put);
    }
    free(uploads);
}

static int report_stored(const struct cv_uploads *uploads, const char *key,
                         const struct cv_object_info *info, struct cv_error *error)
{
    return uploads->stored ? uploads->stored(uploads->opaque, key, info, error) : 0;
}

static int finish_oldest(struct cv_uploads *uploads, struct cv_error *error)
{
    cv_auto(upload_deinit) struct upload upload = remove_oldest(uploads);
    struct cv_object_info info;
    CV_TRY(cv_store_judge(uploads->store->backend->put_end(upload.put, &info, error), error));
    return report_stored(uploads, upload.key, &info, error);
}

int cv_uploads_wait(struct cv_uploads *uploads, struct cv_error *error)
{
    int first = 0;
    while (uploads->count > 0) {
        struct cv_error other;
        int result = finish_oldest(uploads, &other);
        if (result < 0 && first == 0) {
            first = result;
            *error = other;
        }
    }
    return first;
}

static int make_room(struct cv_uploads *uploads, size_t bytes, struct cv_error *error)
{
    while (uploads->count > 0 &&
           (uploads->count == CV_UPLOADS_MAX || uploads->bytes + bytes > CV_UPLOADS_BYTES_MAX)) {
        CV_TRY(finish_oldest(uploads, error));
    }
    return 0;
}

/* What the store cannot do on the side is done here and now, behind those before it. */
static int put_now(struct cv_uploads *uploads, const struct cv_new_object *object,
                   const struct cv_store_input *input, struct cv_error *error)
{
    struct cv_object_info info;
    CV_TRY(cv_uploads_wait(uploads, error));
    CV_TRY(cv_store_judge(uploads->store->backend->put(uploads->store, object, input, &info, error),
                          error));
    return report_stored(uploads, object->key, &info, error);
}

/* Takes the upload over when it is under way. */
static int begin(struct cv_uploads *uploads, const struct cv_new_object *object,
                 struct upload *upload, struct cv_error *error)
{
    const struct cv_store_backend *backend = uploads->store->backend;
    const struct cv_store_input input = {
        .data = upload->data, .size = upload->size, .fd = upload->fd};
    CV_TRY(cv_store_check_put(object, error));
    CV_TRY(make_room(uploads, upload->data ? upload->size : 0, error));
    if (backend->put_begin) {
        CV_TRY(cv_store_judge(
            backend->put_begin(uploads->store, object, &input, &upload->put, error), error));
    }
    if (!upload->put) {
        return put_now(uploads, object, &input, error);
    }
    uploads->uploads[(uploads->first + uploads->count++) % CV_UPLOADS_MAX] = *upload;
    uploads->bytes += upload->data ? upload->size : 0;
    *upload = (struct upload){.fd = -1};
    return 0;
}

int cv_uploads_put(struct cv_uploads *uploads, const struct cv_new_object *object,
                   struct cv_error *error)
{
    cv_auto(upload_deinit) struct upload upload = {
        .data = (void *)object->data, .fd = -1, .size = object->size};
    struct cv_store_input file = {.fd = -1};
    CV_TRY(cv_store_check_key(object->key, error));
    CV_TRY(cv_format(&upload.key, error, "%s", object->key));
    if (object->path) {
        CV_TRY(cv_store_open_file(object->path, &file, error));
        upload.fd = file.fd;
        upload.size = file.size;
    }
    return begin(uploads, object, &upload, error);
}
