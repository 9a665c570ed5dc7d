/* Cgroups of stages, where this process may make some: as root, on a kernel with version 2. */
#include "common/worker/cgroup.h"

#include <fcntl.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include <cmocka.h>

static char place[64];

static void write_text(const char *folder, const char *name, const char *text)
{
    char path[256];
    (void)snprintf(path, sizeof(path), "%s/%s", folder, name);
    cv_auto_fd int fd = open(path, O_WRONLY | O_CLOEXEC);
    assert_true(fd >= 0 && write(fd, text, strlen(text)) == (ssize_t)strlen(text));
}

/* In a group of its own, as a unit's or a container's is: what it asserts ends the process with 0. */
static void run_delegated(void (*test)(void))
{
    (void)snprintf(place, sizeof(place), CV_CGROUP_ROOT "/cv-test-%d", (int)getpid());
    if (access(CV_CGROUP_ROOT "/cgroup.controllers", F_OK) != 0 || mkdir(place, 0755) != 0) {
        skip(); /* NOLINT */
    }
    write_text(CV_CGROUP_ROOT, "cgroup.subtree_control", "+pids +memory");
    pid_t pid = fork();
    if (pid == 0) {
        write_text(place, "cgroup.procs", "0");
        test();
        _exit(0);
    }
    int status = -1;
    assert_int_equal(waitpid(pid, &status, 0), pid);
    char own[128];
    (void)snprintf(own, sizeof(own), "%s/supervisor", place);
    (void)rmdir(own);
    assert_int_equal(rmdir(place), 0); /* no group of a stage is left in it */
    assert_int_equal(status, 0);
}

static void *wait_for_ever(void *nothing)
{
    while (!nothing) {
        (void)pause();
    }
    return nothing;
}

static void enter(const struct cv_group *group)
{
    cv_auto_fd int fd = openat(group->fd, "cgroup.procs", O_WRONLY | O_CLOEXEC);
    assert_int_equal(write(fd, "0", 1), 1);
}

/* Until it has no more, or has more than it may. */
static int count_threads(void)
{
    enum { MOST = 2000 };
    pthread_attr_t small;
    int count = 0;
    assert_int_equal(pthread_attr_init(&small), 0);
    assert_int_equal(pthread_attr_setstacksize(&small, 64 << 10), 0);
    for (pthread_t thread; count < MOST; count++) {
        if (pthread_create(&thread, &small, wait_for_ever, NULL) != 0) {
            break;
        }
    }
    return count;
}

static void touch_memory(size_t bytes)
{
    volatile char *memory = malloc(bytes);
    for (size_t i = 0; memory && i < bytes; i += 4096) {
        memory[i] = 1;
    }
}

static int end_of(pid_t pid)
{
    int status = -1;
    assert_int_equal(waitpid(pid, &status, 0), pid);
    return status;
}

static void bounds_hold(void)
{
    enum { MIB = 1 << 20, ALLOWED = 64 * MIB, TOO_MUCH = 400 * MIB };
    struct cv_groups groups;
    struct cv_group group;
    cv_groups_open(CV_CGROUP_ROOT, CV_CGROUP_MEMBERSHIP, &groups);
    assert_string_equal(groups.why, "");

    cv_group_make(&groups, ALLOWED, &group);
    assert_true(group.fd >= 0);
    pid_t many = fork();
    if (many == 0) {
        enter(&group);
        int count = count_threads();
        _exit(count > 900 && count < 1024 ? 0 : 1);
    }
    assert_int_equal(end_of(many), 0);
    pid_t large = fork();
    if (large == 0) {
        enter(&group);
        touch_memory(TOO_MUCH);
        _exit(0);
    }
    int status = end_of(large);
    assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
    pid_t deaf = fork();
    if (deaf == 0) {
        (void)setsid();
        enter(&group);
        wait_for_ever(NULL);
    }
    char line[32] = "";
    while (!strstr(line, "populated 1")) {
        cv_auto_fd int fd = openat(group.fd, "cgroup.events", O_RDONLY | O_CLOEXEC);
        ssize_t length = read(fd, line, sizeof(line) - 1);
        line[length > 0 ? length : 0] = '\0';
    }
    cv_group_kill(&group);
    assert_true(WIFSIGNALED(end_of(deaf)));
    cv_group_remove(&group);
    cv_groups_close(&groups);
}

static void test_bounds_hold(void **state)
{
    (void)state;
    run_delegated(bounds_hold);
}

static void is_not_divided_with_others(void)
{
    struct cv_groups groups;
    pid_t other = fork();
    if (other == 0) {
        wait_for_ever(NULL);
    }
    cv_groups_open(CV_CGROUP_ROOT, CV_CGROUP_MEMBERSHIP, &groups);
    assert_string_equal(groups.why, "other processes are in this worker's group");
    struct cv_group group;
    cv_group_make(&groups, 1 << 20, &group);
    assert_int_equal(group.fd, -1);
    cv_group_remove(&group);
    (void)kill(other, SIGKILL);
    (void)end_of(other);
}

static void test_a_group_with_others_stays_whole(void **state)
{
    (void)state;
    run_delegated(is_not_divided_with_others);
}

static void test_without_version_2_there_are_none(void **state)
{
    (void)state;
    struct cv_groups groups;
    cv_groups_open("/nowhere", "/dev/null", &groups);
    assert_int_equal(groups.fd, -1);
    assert_string_equal(groups.why, "there is no cgroup of version 2");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_bounds_hold),
        cmocka_unit_test(test_a_group_with_others_stays_whole),
        cmocka_unit_test(test_without_version_2_there_are_none),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
