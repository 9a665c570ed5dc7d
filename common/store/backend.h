/* What a kind of store implements. Keys arrive checked (cv_store_check_key), URLs parsed; the rest
 * of store.h is built on these calls in store.c.
 */
#pragma once

#include "common/store/store.h"

/* Bytes that are sent or written: memory, or a part of a file. A backend may read them more than
 * once. A put is given the whole object. */
struct cv_store_input {
    const void *data; /* when fd is -1 */
    size_t size;
    int fd;         /* -1: memory; else a regular file, borrowed, … */
    int64_t offset; /* … in which the bytes begin here */
};

/* An open object; the backend's own struct begins with it. */
struct cv_store_reader {
    const struct cv_store_reader_backend *backend;
    struct cv_object_info info;
};

struct cv_store_reader_backend {
    /* As cv_byte_source.read; `offset` is ≥ 0. */
    int (*read)(struct cv_store_reader *reader, int64_t offset, void *data, size_t length,
                size_t *ret_read, struct cv_error *error);
    void (*close)(struct cv_store_reader *reader);
    /* The object as an open file, borrowed; NULL: it is none. */
    int (*fd)(const struct cv_store_reader *reader);
};

/* A put or a get under way; the backend's own. */
struct cv_store_put;
struct cv_store_get;

/* A store; the backend's own struct begins with it. */
struct cv_store {
    const struct cv_store_backend *backend;
    char *name; /* owned by the backend */
};

/* Contracts are those of the functions of the same name in store.h. */
struct cv_store_backend {
    void (*close)(struct cv_store *store);
    /* `metadata` is NULL or empty, and filled. */
    int (*head)(struct cv_store *store, const char *key, struct cv_object_info *ret_info,
                struct cv_metadata *metadata, struct cv_error *error);
    /* A get that goes on by itself; NULL: objects are got by a reader. get_end waits, frees it and
     * gives the result; get_stop frees it without. */
    int (*get_begin)(struct cv_store *store, const char *key, size_t limit,
                     struct cv_store_get **ret_get, struct cv_error *error);
    int (*get_end)(struct cv_store_get *get, void **ret_data, size_t *ret_size,
                   struct cv_error *error);
    void (*get_stop)(struct cv_store_get *get);
    int (*open_reader)(struct cv_store *store, const char *key, struct cv_store_reader **ret_reader,
                       struct cv_error *error);
    /* Stores the bytes of `input`; those that `object` names are not looked at. */
    int (*put)(struct cv_store *store, const struct cv_new_object *object,
               const struct cv_store_input *input, struct cv_object_info *ret_info,
               struct cv_error *error);
    /* A put of one request that goes on by itself; NULL, or *ret_put NULL: only put() can do it.
     * put_end waits, frees it and gives the result; put_stop frees it without. */
    int (*put_begin)(struct cv_store *store, const struct cv_new_object *object,
                     const struct cv_store_input *input, struct cv_store_put **ret_put,
                     struct cv_error *error);
    int (*put_end)(struct cv_store_put *put, struct cv_object_info *ret_info,
                   struct cv_error *error);
    void (*put_stop)(struct cv_store_put *put);
    int (*delete)(struct cv_store *store, const char *key, struct cv_error *error);
    /* At most CV_STORE_PAGE_MAX keys; NULL: one by one. */
    int (*delete_many)(struct cv_store *store, const char *const *keys, size_t count,
                       struct cv_error *error);
    int (*move)(struct cv_store *store, const struct cv_object_move *move,
                struct cv_object_info *ret_info, struct cv_error *error);
    /* `start_after` is NULL on pages that have a `continuation`. */
    int (*list)(struct cv_store *store, const struct cv_listing *listing,
                struct cv_object_list *ret_page, struct cv_error *error);
    int (*presign)(struct cv_store *store, const struct cv_signed_url *allowed, char **ret_url,
                   struct cv_error *error);
    /* Of uploads in parts; NULL: the store is not a bucket. */
    int (*parts_find)(struct cv_store *store, const char *key, struct cv_store_parts *ret_parts,
                      struct cv_error *error);
    int (*parts_join)(struct cv_store *store, const char *key, const struct cv_store_parts *parts,
                      struct cv_object_info *ret_info, struct cv_error *error);
    int (*parts_drop)(struct cv_store *store, const char *key, struct cv_error *error);
    /* NULL: the store is not a bucket. */
    int (*bucket_request)(struct cv_store *store, const struct cv_bucket_request *request,
                          struct cv_bucket_answer *ret_answer, struct cv_error *error);
    /* NULL both: nothing is waited for. */
    void (*set_cancel)(struct cv_store *store, struct cv_cancel *cancel);
    void (*set_deadline)(struct cv_store *store, int64_t deadline_ms);
    /* Fails when this handle reaches another place than the one that was opened (a directory that was
     * unmounted or replaced). NULL: that cannot happen. */
    int (*check_place)(struct cv_store *store, struct cv_error *error);
};

/* Passes the result of a call of a backend up. A failure that a store may raise because it refuses, is
 * away or is set up wrongly is marked as the environment's (cv_error_suspect_environment). */
CV_MUST_CHECK int cv_store_judge(int result, struct cv_error *error);

/* Adds an entry to a list that grows; copies key and ETag. */
CV_MUST_CHECK int cv_object_list_add(struct cv_object_list *list, const char *key,
                                     const struct cv_object_info *info, struct cv_error *error);

/* Opens a regular file that is to be stored. */
CV_MUST_CHECK int cv_store_open_file(const char *path, struct cv_store_input *ret_input,
                                     struct cv_error *error);

/* Reads exactly `length` bytes of an open object at `offset`. CV_ERROR_CONFLICT when the file ends before:
 * it was cut short after its size was taken. */
CV_MUST_CHECK int cv_store_read_file(int fd, int64_t offset, void *data, size_t length,
                                     size_t *ret_read, struct cv_error *error);

/* Checks what is told about an object besides its key and bytes. */
CV_MUST_CHECK int cv_store_check_put(const struct cv_new_object *object, struct cv_error *error);
