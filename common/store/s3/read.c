#include "common/store/s3/read.h"

#include "common/store/s3/write.h"

#include <string.h>
#include <strings.h>

/* ---- at random places ------------------------------------------------------------------------ */

/* A cache of blocks with read-ahead. The first block after a seek is small; each block that
 * continues another is twice as large, up to 1 MiB. The next block is fetched while the current one
 * is used, and more blocks the longer reading continues. Each sequential run is tracked separately,
 * so that a file whose pictures and sound are far apart has two runs. */
enum {
    BLOCK_MIN = 256 << 10,   /* what demuxers read after a seek */
    BLOCK_MAX = 1 << 20,     /* larger blocks waste more bytes than they save requests */
    BLOCKS = 16,             /* 16 MiB in total */
    RUN_FOR_TWO = 16 << 20,  /* sequential bytes after which two blocks are fetched ahead … */
    RUN_FOR_FOUR = 48 << 20, /* … and four: a reader of this much probably reads everything */
};

struct block {
    char *data; /* NULL: the slot is free */
    int64_t offset;
    size_t size;
    int64_t run;   /* sequential bytes read before this block */
    uint64_t used; /* clock value at the last use */
    bool is_loading;
    struct cv_s3_request request;
    int64_t object_size; /* the size that the answer must have */
    const char *etag;    /* the ETag that it must have; "": unknown */
};

struct s3_reader {
    struct cv_store_reader reader;
    struct cv_s3_client *client;
    char *key;
    uint64_t clock;
    struct block blocks[BLOCKS];
};

/* ---- blocks ---------------------------------------------------------------------------------- */

static void drop_block(struct s3_reader *reader, struct block *block)
{
    if (block->is_loading) {
        cv_s3_cancel(reader->client, &block->request);
        cv_s3_request_deinit(&block->request);
    }
    free(block->data);
    *block = (struct block){.data = NULL};
}

/* Returns the block with the byte at `offset`. */
static struct block *find_block(struct s3_reader *reader, int64_t offset)
{
    for (size_t i = 0; i < BLOCKS; i++) {
        struct block *block = &reader->blocks[i];
        if (block->data && offset >= block->offset &&
            offset < block->offset + (int64_t)block->size) {
            return block;
        }
    }
    return NULL;
}

static const struct block *find_end(const struct s3_reader *reader, int64_t offset)
{
    for (size_t i = 0; i < BLOCKS; i++) {
        const struct block *block = &reader->blocks[i];
        if (block->data && block->offset + (int64_t)block->size == offset) {
            return block;
        }
    }
    return NULL;
}

/* The bytes from `offset` to the next block or the end. */
static int64_t free_bytes(const struct s3_reader *reader, int64_t offset)
{
    int64_t end = reader->reader.info.size;
    for (size_t i = 0; i < BLOCKS; i++) {
        const struct block *block = &reader->blocks[i];
        if (block->data && block->offset > offset && block->offset < end) {
            end = block->offset;
        }
    }
    return end - offset;
}

/* Returns a free slot, or else the least recently used one, but not `kept`. */
static struct block *make_room(struct s3_reader *reader, const struct block *kept)
{
    struct block *oldest = NULL;
    for (size_t i = 0; i < BLOCKS; i++) {
        struct block *block = &reader->blocks[i];
        if (!block->data) {
            return block;
        }
        if (block != kept && (!oldest || block->used < oldest->used)) {
            oldest = block;
        }
    }
    drop_block(reader, oldest);
    return oldest;
}

/* Checks that the server has sent the requested range of the object that was opened. Not every
 * server supports If-Match. */
static int check_range(struct cv_s3_request *request, struct cv_error *error)
{
    const struct block *block = request->opaque;
    const struct cv_s3_answer *answer = &request->answer;
    if (answer->etag[0] && block->etag[0] && strcmp(answer->etag, block->etag) != 0) {
        return cv_fail(error, CV_ERROR_CONFLICT,
                       "the object was overwritten while it was read: ETag %s, not %s",
                       answer->etag, block->etag);
    }
    bool is_part = answer->status == 206 && answer->range_start == block->offset &&
                   answer->range_end == block->offset + (int64_t)block->size - 1 &&
                   answer->range_size == block->object_size;
    bool is_whole =
        answer->status == 200 && block->offset == 0 && (int64_t)block->size == block->object_size;
    return is_part || is_whole ? 0
                               : cv_fail(error, CV_ERROR_SERVER,
                                         "the object store does not answer the range asked for");
}

static int request_block(struct s3_reader *reader, struct block *block, struct cv_error *error)
{
    struct cv_s3_request *request = &block->request;
    CV_TRY(cv_s3_request_init(request, reader->client, "GET", reader->key, error));
    cv_s3_pairs_format(&request->headers, "range", "bytes=%lld-%lld", (long long)block->offset,
                       (long long)(block->offset + (int64_t)block->size - 1));
    if (reader->reader.info.etag[0]) {
        cv_s3_pairs_format(&request->headers, "if-match", "\"%s\"", reader->reader.info.etag);
    }
    request->target = block->data;
    request->target_size = block->size;
    request->check = check_range;
    request->opaque = block;
    int result = cv_s3_start(reader->client, request, error);
    if (result) {
        cv_s3_request_deinit(request);
    }
    return result;
}

static size_t block_size(const struct s3_reader *reader, const struct block *before, int64_t offset)
{
    int64_t size = before ? (int64_t)before->size * 2 : BLOCK_MIN;
    if (before && before->run + (int64_t)before->size >= BLOCK_MAX) {
        size = BLOCK_MAX; /* the block before was shortened by another one */
    }
    size = size < BLOCK_MAX ? size : BLOCK_MAX;
    int64_t most = free_bytes(reader, offset);
    return (size_t)(size < most ? size : most);
}

/* Starts fetching the block at `offset`; must not replace `kept`. */
static int fetch(struct s3_reader *reader, int64_t offset, const struct block *kept,
                 struct block **ret_block, struct cv_error *error)
{
    const struct block *before = find_end(reader, offset);
    int64_t run = before ? before->run + (int64_t)before->size : 0;
    size_t size = block_size(reader, before, offset);
    struct block *block = make_room(reader, kept);
    block->data = malloc(size);
    if (!block->data) {
        return cv_fail(error, CV_ERROR_OUT_OF_MEMORY, "no memory to read an object");
    }
    block->offset = offset;
    block->size = size;
    block->run = run;
    block->used = ++reader->clock;
    block->object_size = reader->reader.info.size;
    block->etag = reader->reader.info.etag;
    int result = request_block(reader, block, error);
    if (result) {
        free(block->data);
        *block = (struct block){.data = NULL};
        return result;
    }
    block->is_loading = true;
    *ret_block = block;
    return 0;
}

static int await(struct s3_reader *reader, struct block *block, struct cv_error *error)
{
    if (!block->is_loading) {
        return 0;
    }
    int result = cv_s3_finish(reader->client, &block->request, error);
    int status = block->request.answer.status;
    if (result && (status == 412 || (status == 404 && error->type == CV_ERROR_OBJECT_NOT_FOUND))) {
        result = cv_fail(error, CV_ERROR_CONFLICT, "%s was %s while it was read", reader->key,
                         status == 412 ? "overwritten" : "deleted");
    }
    block->is_loading = false;
    cv_s3_request_deinit(&block->request);
    if (result) {
        drop_block(reader, block);
    }
    return result;
}

/* Fetches the blocks after `block`, which was read up to `offset`. Failures are reported when the
 * bytes are read. */
static void read_ahead(struct s3_reader *reader, const struct block *block, int64_t offset)
{
    int64_t run = block->run + (int64_t)block->size;
    int64_t end = block->offset + (int64_t)block->size;
    bool is_reading_on = block->run > 0;
    /* Only after half of it is used, because the last fetched block is often not needed. */
    if (!is_reading_on || (run < RUN_FOR_TWO && end - offset > (int64_t)block->size / 2)) {
        return;
    }
    int ahead = run >= RUN_FOR_FOUR ? 4 : run >= RUN_FOR_TWO ? 2 : 1;
    for (int i = 0; i < ahead && end < reader->reader.info.size; i++) {
        struct cv_error ignored;
        struct block *next = find_block(reader, end);
        if (!next && fetch(reader, end, block, &next, &ignored)) {
            return;
        }
        end = next->offset + (int64_t)next->size;
    }
}

/* ---- reading --------------------------------------------------------------------------------- */

static int read_at(struct cv_store_reader *base, int64_t offset, void *data, size_t length,
                   size_t *ret_read, struct cv_error *error)
{
    struct s3_reader *reader = (struct s3_reader *)base;
    size_t done = 0;
    while (done < length) {
        int64_t at = offset + (int64_t)done;
        struct block *block = find_block(reader, at);
        CV_TRY(block ? 0 : fetch(reader, at, NULL, &block, error));
        CV_TRY(await(reader, block, error));
        size_t begin = (size_t)(at - block->offset);
        size_t count = block->size - begin < length - done ? block->size - begin : length - done;
        memcpy((char *)data + done, block->data + begin, count);
        block->used = ++reader->clock;
        done += count;
        read_ahead(reader, block, at + (int64_t)count);
    }
    *ret_read = done;
    return 0;
}

static void close_reader(struct cv_store_reader *base)
{
    struct s3_reader *reader = (struct s3_reader *)base;
    for (size_t i = 0; i < BLOCKS; i++) {
        drop_block(reader, &reader->blocks[i]);
    }
    free(reader->key);
    free(reader);
}

static const struct cv_store_reader_backend reader_backend = {
    .read = read_at,
    .close = close_reader,
};

int cv_s3_open_reader(struct cv_store *store, const char *key, struct cv_store_reader **ret_reader,
                      struct cv_error *error)
{
    struct cv_object_info info;
    CV_TRY(cv_s3_head(store, key, &info, NULL, error));
    if (info.size == 0) {
        CV_TRY(cv_s3_confirm_empty(store, key, error));
    }
    struct s3_reader *reader = calloc(1, sizeof(*reader));
    CV_TRY_MEMORY(reader, error, "a reader");
    reader->reader = (struct cv_store_reader){.backend = &reader_backend, .info = info};
    reader->client = cv_s3_of(store)->client;
    int result = cv_format(&reader->key, error, "%s", key);
    if (result) {
        close_reader(&reader->reader);
        return result;
    }
    *ret_reader = &reader->reader;
    return 0;
}

/* ---- whole objects --------------------------------------------------------------------------- */

struct cv_store_get {
    struct cv_s3_store *store;
    char *key;
    struct cv_s3_request request;
};

static void get_free(struct cv_store_get *get)
{
    cv_s3_request_deinit(&get->request);
    free(get->key);
    free(get);
}
CV_DEFINE_CLEANUP(struct cv_store_get *, get_free)

/* Checks the bytes against the announced length, and against the MD5 if the ETag is one. */
static int check_whole(struct cv_s3_request *request, struct cv_error *error)
{
    const struct cv_s3_answer *answer = &request->answer;
    const struct cv_s3_store *store = request->opaque;
    if (answer->content_length >= 0 && (uint64_t)answer->content_length != request->text.length) {
        return cv_fail(error, CV_ERROR_CONNECTION, "the answer has %zu bytes instead of %lld",
                       request->text.length, (long long)answer->content_length);
    }
    if (!store->etag_is_md5 || answer->etag_is_no_md5 || !cv_s3_is_md5(answer->etag)) {
        return 0;
    }
    char md5[CV_S3_MD5_SIZE];
    const struct cv_store_input input = {
        .data = request->text.data, .size = request->text.length, .fd = -1};
    CV_TRY(cv_s3_digest(&input, NULL, md5, error));
    if (strcasecmp(md5, answer->etag) != 0) {
        return cv_fail(error, CV_ERROR_CONNECTION,
                       "the bytes were damaged on their way: MD5 %s, ETag %s", md5, answer->etag);
    }
    return 0;
}

int cv_s3_get_begin(struct cv_store *store, const char *key, size_t limit,
                    struct cv_store_get **ret_get, struct cv_error *error)
{
    cv_auto(get_free) struct cv_store_get *get = calloc(1, sizeof(*get));
    if (!get) {
        return cv_fail(error, CV_ERROR_OUT_OF_MEMORY, "no memory to get an object");
    }
    get->store = cv_s3_of(store);
    struct cv_s3_client *client = get->store->client;
    CV_TRY(cv_s3_request_init(&get->request, client, "GET", key, error));
    CV_TRY(cv_format(&get->key, error, "%s", key));
    get->request.text_limit = limit;
    get->request.check = check_whole;
    get->request.opaque = get->store;
    CV_TRY(cv_s3_start(client, &get->request, error));
    *ret_get = cv_take(get);
    return 0;
}

int cv_s3_get_end(struct cv_store_get *given, void **ret_data, size_t *ret_size,
                  struct cv_error *error)
{
    cv_auto(get_free) struct cv_store_get *get = given;
    struct cv_s3_request *request = &get->request;
    int result = cv_s3_finish(get->store->client, request, error);
    if (result == 0) {
        char *data = NULL;
        size_t size = request->text.length;
        CV_TRY(cv_buffer_detach(&request->text, &data, error));
        *ret_data = data;
        *ret_size = size;
        return 0;
    }
    if (request->answer.status == 404 && error->type == CV_ERROR_OBJECT_NOT_FOUND) {
        return CV_STORE_NOT_FOUND;
    }
    if (request->answer.status / 100 == 2 &&
        request->answer.content_length > (int64_t)request->text_limit) {
        return cv_fail(error, CV_ERROR_LIMIT_EXCEEDED, "%s has %lld bytes, more than %zu", get->key,
                       (long long)request->answer.content_length, request->text_limit);
    }
    return result;
}

void cv_s3_get_stop(struct cv_store_get *get)
{
    cv_s3_cancel(get->store->client, &get->request);
    get_free(get);
}
