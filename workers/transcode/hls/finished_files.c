#include "workers/transcode/hls/finished_files.h"

#include <pthread.h>

struct file {
    enum cv_ladder_part part;
    char *name;
};

struct cv_files {
    char *directory;
    pthread_mutex_t lock; /* protects the members below */
    struct file *files;
    size_t count;
};

int cv_files_new(const char *directory, struct cv_files **ret_files, struct cv_error *error)
{
    struct cv_files *files = calloc(1, sizeof(*files));
    CV_TRY_MEMORY(files, error, "a list of files");
    (void)pthread_mutex_init(&files->lock, NULL);
    int result = cv_format(&files->directory, error, "%s", directory);
    if (result != 0) {
        cv_files_free(files);
        return result;
    }
    *ret_files = files;
    return 0;
}

void cv_files_free(struct cv_files *files)
{
    if (files) {
        for (size_t i = 0; i < files->count; i++) {
            free(files->files[i].name);
        }
        free(files->files);
        free(files->directory);
        (void)pthread_mutex_destroy(&files->lock);
        free(files);
    }
}

const char *cv_files_directory(const struct cv_files *files)
{
    return files->directory;
}

int cv_files_add(struct cv_files *files, enum cv_ladder_part part, const char *name,
                 struct cv_error *error)
{
    struct file file = {.part = part};
    CV_TRY(cv_format(&file.name, error, "%s", name));
    CV_LOCK(&files->lock);
    if (!CV_MAKE_ROOM(files->files, files->count)) {
        free(file.name);
        return cv_fail(error, CV_ERROR_OUT_OF_MEMORY, "out of memory for a list of files");
    }
    files->files[files->count++] = file;
    return 0;
}

static int write_file(const struct cv_files *files, const char *name, const void *data, size_t size,
                      struct cv_error *error)
{
    cv_auto_free char *path = NULL;
    CV_TRY(cv_format(&path, error, "%s/%s", files->directory, name));
    cv_auto_file FILE *file = fopen(path, "wbe");
    CV_TRY_ERRNO(file && fwrite(data, 1, size, file) >= size && fflush(file) == 0, error,
                 "cannot write %s", path);
    return 0;
}

int cv_files_write(struct cv_files *files, enum cv_ladder_part part, const char *name,
                   const void *data, size_t size, struct cv_error *error)
{
    CV_TRY(write_file(files, name, data, size, error));
    return cv_files_add(files, part, name, error);
}

int cv_files_drain(struct cv_files *files, cv_ladder_finished finished, void *opaque,
                   struct cv_error *error)
{
    (void)pthread_mutex_lock(&files->lock);
    struct file *taken = files->files;
    size_t count = files->count;
    files->files = NULL;
    files->count = 0;
    (void)pthread_mutex_unlock(&files->lock);
    int result = 0;
    for (size_t i = 0; i < count; i++) {
        cv_auto_free char *path = NULL;
        result =
            result ? result : cv_format(&path, error, "%s/%s", files->directory, taken[i].name);
        struct cv_ladder_file file = {taken[i].part, taken[i].name, path};
        result = result ? result : finished(opaque, &file, error);
        free(taken[i].name);
    }
    free(taken);
    return result;
}
