/* Processes that write to one directory store at the same time, or are killed while they do. */
#include "tests/unit/directory_store.h"

enum { BIG = 8 << 20, WRITERS = 8, ROUNDS = 50, KILLS = 30 };

/* One of several writers: puts into and deletes from directories that the others use too. */
static _Noreturn void write_and_delete(const char *objects, int writer, bool named)
{
    struct cv_store *store = NULL;
    if (cv_store_open(objects, &store, &error)) {
        _exit(1);
    }
    ((struct cv_directory_store *)store)->named_only = named;
    char text[4096];
    memset(text, 'a' + writer, sizeof(text));
    for (int i = 0; i < ROUNDS; i++) {
        char own[64];
        (void)snprintf(own, sizeof(own), "d%d/e/%d", i % 3, writer);
        if (put_bytes(store, own, text, sizeof(text)) ||
            put_bytes(store, "shared/key", text, sizeof(text)) ||
            cv_store_delete(store, own, &error)) {
            (void)fprintf(stderr, "writer %d: %s\n", writer, error.message);
            _exit(2);
        }
    }
    cv_store_close(store);
    _exit(0);
}

static void race(struct fixture *fixture, bool named)
{
    pid_t writers[WRITERS];
    for (int i = 0; i < WRITERS; i++) {
        writers[i] = fork();
        assert_true(writers[i] >= 0);
        if (writers[i] == 0) {
            write_and_delete(fixture->objects, i, named);
        }
    }
    for (int i = 0; i < WRITERS; i++) {
        int status = 0;
        assert_int_equal(waitpid(writers[i], &status, 0), writers[i]);
        assert_int_equal(status, 0);
    }
    cv_auto_free void *data = NULL;
    size_t size = 0;
    assert_int_equal(cv_store_get(fixture->store, "shared/key", 1 << 20, &data, &size, &error), 0);
    assert_int_equal(size, 4096);
    const char *text = data;
    for (size_t i = 1; i < size; i++) {
        assert_int_equal(text[i], text[0]);
    }
    assert_int_equal(count_objects(fixture->store, ""), 1);
    assert_int_equal(count_incoming(fixture), 0);
}

static void test_eight_writers_at_once(void **state)
{
    race(*state, false);
    race(*state, true);
}

/* Tells through `pipe` that it is about to put, then puts one object again and again. */
static _Noreturn void put_for_ever(const char *objects, int pipe)
{
    struct cv_store *store = NULL;
    char *data = malloc(BIG);
    if (!data || cv_store_open(objects, &store, &error)) {
        _exit(1);
    }
    memset(data, 'x', BIG);
    if (write(pipe, "!", 1) != 1) {
        _exit(1);
    }
    for (;;) {
        if (put_bytes(store, "dir/object", data, BIG)) {
            _exit(2);
        }
    }
}

static void test_killed_writers_leave_whole_objects_alone(void **state)
{
    struct fixture *fixture = *state;
    unsigned seed = 7;
    for (int i = 0; i < KILLS; i++) {
        int ends[2];
        assert_int_equal(pipe(ends), 0);
        pid_t writer = fork();
        assert_true(writer >= 0);
        if (writer == 0) {
            put_for_ever(fixture->objects, ends[1]);
        }
        char byte;
        assert_int_equal(read(ends[0], &byte, 1), 1);
        (void)usleep((unsigned)rand_r(&seed) % 15000); /* where in the put the kill falls */
        assert_int_equal(kill(writer, SIGKILL), 0);
        int status = 0;
        assert_int_equal(waitpid(writer, &status, 0), writer);
        assert_true(WIFSIGNALED(status));
        close(ends[0]);
        close(ends[1]);
        struct cv_object_info info;
        int result = cv_store_head(fixture->store, "dir/object", &info, &error);
        assert_true(result == CV_STORE_NOT_FOUND || (result == 0 && info.size == BIG));
    }
    assert_true(count_objects(fixture->store, "") <= 1);
}

static int make_leftover(const struct fixture *fixture, const char *name, time_t age)
{
    char path[192];
    (void)snprintf(path, sizeof(path), "%s/%s/%s", fixture->objects, CV_DIRECTORY_INCOMING, name);
    int fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    assert_true(fd >= 0);
    struct timespec times[2] = {{.tv_sec = time(NULL) - age}, {.tv_sec = time(NULL) - age}};
    assert_int_equal(futimens(fd, times), 0);
    return fd;
}

static void test_old_leftovers_of_the_dead_are_swept(void **state)
{
    struct fixture *fixture = *state;
    put_text(fixture->store, "k", "x"); /* makes .incoming/ */
    cv_auto_fd int dead = make_leftover(fixture, "dead", 7200);
    cv_auto_fd int young = make_leftover(fixture, "young", 60);
    cv_auto_fd int alive = make_leftover(fixture, "alive", 7200);
    assert_int_equal(flock(alive, LOCK_EX), 0);
    assert_true(dead >= 0 && young >= 0);

    struct cv_store *other = NULL;
    assert_int_equal(cv_store_open(fixture->objects, &other, &error), 0);
    cv_store_close(other);
    assert_int_equal(count_incoming(fixture), 2);
    struct stat status;
    assert_int_equal(fstat(dead, &status), 0);
    assert_int_equal(status.st_nlink, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_eight_writers_at_once),
        TEST(test_killed_writers_leave_whole_objects_alone),
        TEST(test_old_leftovers_of_the_dead_are_swept),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
