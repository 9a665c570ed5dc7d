/* What needs no process and no database: payloads, bounds, verdicts, scratch directories. */
#include "common/broker/broker.h"
#include "common/worker/cgroup.h"
#include "common/worker/child.h"
#include "common/worker/scratch.h"
#include "common/worker/supervisor.h"

#include <dirent.h>
#include <fcntl.h>
#include <setjmp.h>
#include <signal.h>
#include <string.h>
#include <sys/stat.h>

#include <cmocka.h>

/* ---- payloads -------------------------------------------------------------------------------- */

static void test_payload_int(void **state)
{
    (void)state;
    cv_auto(json_decref) json_t *payload =
        json_pack("{s:i, s:f, s:f, s:s, s:n, s:i}", "whole", 7, "round", 8.0, "broken", 8.5, "text",
                  "9", "null", "large", 1000);
    assert_non_null(payload);
    struct cv_error error;
    int64_t value = -1;
    assert_int_equal(cv_payload_int(payload, "whole", 0, 10, &value, &error), 0);
    assert_int_equal(value, 7);
    assert_int_equal(cv_payload_int(payload, "round", 0, 10, &value, &error), 0);
    assert_int_equal(value, 8);
    static const char *const wrong[] = {"broken", "text", "null", "large", "missing"};
    for (size_t i = 0; i < CV_COUNT(wrong); i++) {
        assert_int_equal(cv_payload_int(payload, wrong[i], 0, 10, &value, &error), -1);
        assert_int_equal(error.type, CV_ERROR_INVALID_PAYLOAD);
        assert_non_null(strstr(error.message, wrong[i]));
        assert_int_equal(value, 8);
    }
    assert_int_equal(cv_payload_int_or(payload, "null", 3, 0, 10, &value, &error), 0);
    assert_int_equal(value, 3);
    assert_int_equal(cv_payload_int_or(payload, "large", 3, 0, 10, &value, &error), -1);
}

static void test_payload_double(void **state)
{
    (void)state;
    cv_auto(json_decref) json_t *payload =
        json_pack("{s:f, s:i, s:s}", "real", 0.95, "whole", 1, "text", "0.95");
    assert_non_null(payload);
    struct cv_error error;
    double value = 0;
    assert_int_equal(cv_payload_double_or(payload, "real", 0.5, 0, 1, &value, &error), 0);
    assert_true(value > 0.94 && value < 0.96);
    assert_int_equal(cv_payload_double_or(payload, "whole", 0.5, 0, 1, &value, &error), 0);
    assert_true(value >= 1.0);
    assert_int_equal(cv_payload_double_or(payload, "missing", 0.5, 0, 1, &value, &error), 0);
    assert_true(value < 0.6);
    assert_int_equal(cv_payload_double_or(payload, "text", 0.5, 0, 1, &value, &error), -1);
    assert_int_equal(cv_payload_double_or(payload, "whole", 0.5, 0, 0.9, &value, &error), -1);
}

static void test_payload_texts(void **state)
{
    (void)state;
    static const char uuid[] = "11111111-2222-3333-4444-555555555555";
    cv_auto(json_decref) json_t *payload = json_pack("{s:s, s:s, s:s, s:i}", "id", uuid, "key",
                                                     "videos/a/b.mp4", "up", "../b", "n", 1);
    assert_non_null(payload);
    struct cv_error error;
    const char *text = NULL;
    assert_int_equal(cv_payload_uuid(payload, "id", &text, &error), 0);
    assert_string_equal(text, uuid);
    assert_int_equal(cv_payload_object_key(payload, "key", &text, &error), 0);
    assert_string_equal(text, "videos/a/b.mp4");
    assert_int_equal(cv_payload_uuid(payload, "key", &text, &error), -1);
    assert_int_equal(cv_payload_uuid(payload, "n", &text, &error), -1);
    assert_int_equal(cv_payload_object_key(payload, "up", &text, &error), -1);
    assert_int_equal(error.type, CV_ERROR_INVALID_PAYLOAD);
    assert_int_equal(cv_payload_object_key(payload, "missing", &text, &error), -1);
    assert_string_equal(text, "videos/a/b.mp4");
}

/* ---- what a container grants ------------------------------------------------------------------- */

static void write_file(const char *root, const char *path, const char *text)
{
    char name[512];
    (void)snprintf(name, sizeof(name), "%s/%s", root, path);
    for (char *slash = strchr(name + strlen(root) + 1, '/'); slash;
         slash = strchr(slash + 1, '/')) {
        *slash = '\0';
        (void)mkdir(name, 0755);
        *slash = '/';
    }
    cv_auto_file FILE *file = fopen(name, "we");
    assert_non_null(file);
    assert_true(fputs(text, file) >= 0);
}

static void remove_tree(const char *root)
{
    char command[600];
    (void)snprintf(command, sizeof(command), "rm -r -- '%s'", root);
    assert_int_equal(system(command), 0);
}

struct group_file {
    const char *path, *text;
};

static const struct {
    const char *membership;
    struct group_file files[6];
    double cpus;
    int64_t memory;
} containers[] = {
    /* nothing known, nothing bounded */
    {"", {{0}}, 0, 0},
    {"0::/\n", {{"cpu.max", "max 100000\n"}, {"memory.max", "max\n"}}, 0, 0},
    {"rubbish\n0::no/path\n:::\n", {{"cpu.max", "x"}}, 0, 0},
    /* version 2: in a container, whose group is the root that it sees */
    {"0::/\n", {{"cpu.max", "150000 100000\n"}, {"memory.max", "536870912\n"}}, 1.5, 512 << 20},
    /* and a service of the machine, bounded by its own group and the one above */
    {"0::/a.slice/b.service\n",
     {{"a.slice/cpu.max", "100000 100000"},
      {"a.slice/memory.max", "1073741824"},
      {"a.slice/b.service/cpu.max", "400000 100000"},
      {"a.slice/b.service/memory.max", "max"}},
     1,
     1 << 30},
    /* the path that the machine sees is not there in a container without a namespace */
    {"0::/kubepods/pod1/x\n", {{"cpu.max", "50000 100000"}}, 0.5, 0},
    {"0::/../escape\n", {{"cpu.max", "50000 100000"}}, 0, 0},
    /* version 1: a tree for each, "no limit" as a large number and as -1 */
    {"5:cpu,cpuacct:/docker/x\n4:memory:/docker/x\n",
     {{"cpu,cpuacct/docker/x/cpu.cfs_quota_us", "200000"},
      {"cpu,cpuacct/docker/x/cpu.cfs_period_us", "100000"},
      {"memory/memory.limit_in_bytes", "9223372036854771712"},
      {"memory/docker/x/memory.limit_in_bytes", "268435456"}},
     2,
     256 << 20},
    {"5:cpu:/\n4:memory:/\n",
     {{"cpu/cpu.cfs_quota_us", "-1"},
      {"cpu/cpu.cfs_period_us", "100000"},
      {"memory/memory.limit_in_bytes", "9223372036854771712"}},
     0,
     0},
    /* both, side by side */
    {"4:memory:/x\n0::/y\n",
     {{"memory/x/memory.limit_in_bytes", "268435456"}, {"unified/y/cpu.max", "300000 100000"}},
     3,
     256 << 20},
};

static void test_bounds_of_a_container(void **state)
{
    (void)state;
    for (size_t i = 0; i < CV_COUNT(containers); i++) {
        char root[] = "/tmp/cv-cgroup-XXXXXX", membership[100];
        assert_non_null(mkdtemp(root));
        write_file(root, "membership", containers[i].membership);
        for (size_t j = 0; j < CV_COUNT(containers[i].files) && containers[i].files[j].path; j++) {
            write_file(root, containers[i].files[j].path, containers[i].files[j].text);
        }
        struct cv_cgroup group;
        (void)snprintf(membership, sizeof(membership), "%s/membership", root);
        cv_cgroup_read(root, membership, &group);
        if (group.cpus != containers[i].cpus || group.memory_bytes != containers[i].memory) {
            fail_msg("case %zu: %.2f CPUs, %lld bytes", i, group.cpus,
                     (long long)group.memory_bytes);
        }
        remove_tree(root);
    }
}

static void test_a_stages_share_of_memory(void **state)
{
    (void)state;
    static const int64_t mib = 1 << 20;
    struct cv_cgroup none = {0, 0}, small = {0, 1024 * mib}, tiny = {0, 40 * mib};
    assert_int_equal(cv_cgroup_stage_memory(&none, 4096 * mib, 1, false), 4096 * mib);
    assert_int_equal(cv_cgroup_stage_memory(&small, 4096 * mib, 1, false), 960 * mib);
    assert_int_equal(cv_cgroup_stage_memory(&small, 4096 * mib, 4, false), 240 * mib);
    assert_int_equal(cv_cgroup_stage_memory(&small, 256 * mib, 1, false), 256 * mib);
    assert_int_equal(cv_cgroup_stage_memory(&small, 4096 * mib, 4, true), 192 * mib);
    assert_int_equal(cv_cgroup_stage_memory(&tiny, 4096 * mib, 2, false), 32 * mib);
}

/* ---- verdicts -------------------------------------------------------------------------------- */

/* Statuses as wait4 gives them. */
enum { EXITED = 8 }; /* shift of the exit code */

static void read_verdict(int status, const char *output, struct cv_verdict_result *verdict)
{
    struct cv_child child = CV_CHILD_INIT;
    child.status = status;
    child.exited = true;
    cv_buffer_text(&child.output, output);
    assert_false(child.output.failed);
    cv_auto(json_decref) json_t *grants =
        json_pack("[[i, s], [i, s]]", CV_GRANT_READ, "k", CV_GRANT_WRITE, "own/*");
    cv_verdict_read(&child, grants, verdict);
    cv_buffer_deinit(&child.output);
}

static void test_verdict_of_failures(void **state)
{
    (void)state;
    static const struct {
        int status;
        const char *output;
        enum cv_error_type type;
    } cases[] = {
        {SIGXCPU, "", CV_ERROR_TIMEOUT},
        {SIGXFSZ, "", CV_ERROR_LIMIT_EXCEEDED},
        {SIGSEGV, "", CV_ERROR_STAGE_CRASHED},
        {SIGSYS, "", CV_ERROR_STAGE_CRASHED},
        {SIGUSR2, "{\"artifacts\": []}", CV_ERROR_STAGE_CRASHED},
        {1 << EXITED, "{\"artifacts\": []}", CV_ERROR_STAGE_PROTOCOL},
        {0, "", CV_ERROR_STAGE_PROTOCOL},
        {0, "{", CV_ERROR_STAGE_PROTOCOL},
        {0, "{} {}", CV_ERROR_STAGE_PROTOCOL},
        {0, "{\"artifacts\": [], \"artifacts\": []}", CV_ERROR_STAGE_PROTOCOL},
        {0, "{\"artifacts\": [], \"error\": {}}", CV_ERROR_STAGE_PROTOCOL},
        {0, "{\"artifacts\": [{\"kind\": \"spy\", \"key\": \"k\", \"size\": 1}]}",
         CV_ERROR_STAGE_PROTOCOL},
        {0, "{\"artifacts\": [{\"kind\": \"input\", \"key\": \"/k\", \"size\": 1}]}",
         CV_ERROR_STAGE_PROTOCOL},
        {0, "{\"artifacts\": [{\"kind\": \"input\", \"key\": \"k\", \"size\": -1}]}",
         CV_ERROR_STAGE_PROTOCOL},
        {0, "{\"artifacts\": [{\"kind\": \"output\", \"key\": \"k\", \"size\": 1}]}",
         CV_ERROR_STAGE_PROTOCOL},
        {0, "{\"artifacts\": [{\"kind\": \"input\", \"key\": \"anothers/k\", \"size\": 1}]}",
         CV_ERROR_STAGE_PROTOCOL},
        {65 << EXITED, "{}", CV_ERROR_STAGE_PROTOCOL},
        {65 << EXITED, "{\"error\": {\"type\": \"Nope\", \"message\": \"m\"}}",
         CV_ERROR_STAGE_PROTOCOL},
        {65 << EXITED, "{\"error\": {\"type\": \"LeaseLost\", \"message\": \"m\"}}",
         CV_ERROR_STAGE_CRASHED},
        {75 << EXITED, "{\"error\": {\"type\": \"NotAVideo\", \"message\": \"m\"}}",
         CV_ERROR_NOT_A_VIDEO},
    };
    for (size_t i = 0; i < CV_COUNT(cases); i++) {
        struct cv_verdict_result verdict;
        read_verdict(cases[i].status, cases[i].output, &verdict);
        assert_null(verdict.result);
        assert_int_equal(verdict.failure.type, cases[i].type);
        assert_int_equal(verdict.failure.verdict, cv_error_type_verdict(cases[i].type));
        cv_verdict_deinit(&verdict);
    }
}

static void test_verdict_of_success(void **state)
{
    (void)state;
    struct cv_verdict_result verdict;
    read_verdict(0,
                 "{\"n\": 1, \"artifacts\": [{\"kind\": \"input\", \"key\": \"k\", \"size\": 0},"
                 "{\"kind\": \"output\", \"key\": \"own/k\", \"size\": 0}]}\n",
                 &verdict);
    assert_non_null(verdict.result);
    assert_int_equal(json_object_size(verdict.result), 1);
    assert_int_equal(json_array_size(verdict.artifacts), 2);
    cv_verdict_deinit(&verdict);
}

/* Small in the pipe, large in memory. */
static void test_verdict_of_a_bomb(void **state)
{
    static const char *const items[] = {"{},", "[[]],", "0,"};
    (void)state;
    for (size_t i = 0; i < CV_COUNT(items); i++) {
        struct cv_child child = CV_CHILD_INIT;
        struct cv_verdict_result verdict;
        cv_buffer_append(&child.output, "{\"artifacts\": [], \"x\": [", 25);
        while (child.output.length < CV_OUTPUT_MAX / 2) {
            cv_buffer_append(&child.output, items[i], strlen(items[i]));
        }
        cv_buffer_append(&child.output, "0]}", 3);
        cv_verdict_read(&child, NULL, &verdict);
        assert_null(verdict.result);
        assert_int_equal(verdict.failure.type, CV_ERROR_STAGE_PROTOCOL);
        assert_non_null(strstr(verdict.failure.message, "more values"));
        cv_verdict_deinit(&verdict);
        cv_child_deinit(&child);
    }
}

/* ---- lines and tails ------------------------------------------------------------------------- */

static void test_pump_reads_progress_and_keeps_a_tail(void **state)
{
    (void)state;
    int error_pipe[2];
    int progress_pipe[2];
    assert_int_equal(pipe2(error_pipe, O_NONBLOCK | O_CLOEXEC), 0);
    assert_int_equal(pipe2(progress_pipe, O_NONBLOCK | O_CLOEXEC), 0);
    struct cv_child child = CV_CHILD_INIT;
    child.error_fd = error_pipe[0];
    child.progress_fd = progress_pipe[0];

    static const char reports[] = "rubbish\n{\"fraction\": \"x\"}\n{\"fraction\": 7, "
                                  "\"doing\": \"encode\"}\n{\"fraction\": 0.2";
    assert_int_equal(write(progress_pipe[1], reports, sizeof(reports) - 1), sizeof(reports) - 1);
    char words[3 * CV_TAIL_MAX];
    (void)memset(words, '\n', sizeof(words));
    (void)memcpy(words + sizeof(words) - 4, "last", 4);
    assert_int_equal(write(error_pipe[1], words, sizeof(words)), sizeof(words));
    cv_child_pump(&child);

    assert_true(child.progress.is_new);
    assert_true(child.progress.fraction >= 1.0); /* bounded to 1, the unfinished line not read */
    assert_true(child.progress.fraction <= 1.0);
    assert_string_equal(child.progress.doing, "encode");
    assert_int_equal(child.error_tail.length, CV_TAIL_MAX);
    assert_string_equal(child.error_tail.data + CV_TAIL_MAX - 4, "last");
    cv_child_deinit(&child);
    close(error_pipe[1]);
    close(progress_pipe[1]);
}

/* ---- scratch --------------------------------------------------------------------------------- */

/* `parent` is a pattern of mkdtemp(), and becomes the folder's path. */
static void open_scratch(char *parent, struct cv_scratch *scratch)
{
    struct cv_error error;
    assert_non_null(mkdtemp(parent));
    assert_int_equal(setenv("CORTANA_SCRATCH", parent, 1), 0);
    assert_int_equal(cv_scratch_open(scratch, &error), 0);
}

static void test_scratch_is_emptied_and_links_are_not_followed(void **state)
{
    (void)state;
    char parent[] = "/tmp/cv-test-worker-XXXXXX";
    struct cv_error error;
    struct cv_scratch scratch = CV_SCRATCH_INIT;
    open_scratch(parent, &scratch);
    char *path = NULL;
    assert_int_equal(cv_scratch_make(&scratch, "job", &path, &error), 0);

    int parent_fd = open(parent, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    int fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    assert_true(parent_fd >= 0 && fd >= 0);
    assert_int_equal(mkdirat(parent_fd, "precious", 0700), 0);
    assert_int_equal(symlinkat(parent, fd, "up"), 0);
    assert_int_equal(mkdirat(fd, "a", 0700), 0);
    assert_int_equal(mkdirat(fd, "a/b", 0), 0);
    assert_int_equal(mkfifoat(fd, "a/fifo", 0600), 0);
    close(fd);

    /* Made anew for a second attempt of that name: empty again. */
    free(path);
    assert_int_equal(cv_scratch_make(&scratch, "job", &path, &error), 0);
    assert_int_equal(rmdir(path), 0);
    free(path);
    assert_int_equal(cv_scratch_discard(&scratch, "job", &error), 0);
    assert_int_equal(faccessat(parent_fd, "precious", F_OK, 0), 0);

    cv_scratch_close(&scratch);
    assert_int_equal(unlinkat(parent_fd, "precious", AT_REMOVEDIR), 0);
    close(parent_fd);
    assert_int_equal(rmdir(parent), 0); /* nothing else is left in it */
}

static int count_entries(const char *path)
{
    int count = 0;
    DIR *directory = opendir(path);
    assert_non_null(directory);
    for (const struct dirent *entry; (entry = readdir(directory));) {
        count += entry->d_name[0] != '.';
    }
    closedir(directory);
    return count;
}

static void fill_file(int folder, const char *name, size_t bytes)
{
    cv_auto_free char *zeros = calloc(1, bytes);
    cv_auto_fd int fd = openat(folder, name, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
    assert_non_null(zeros);
    assert_int_equal(write(fd, zeros, bytes), (ssize_t)bytes);
}

/* By name, within others, and removed but still open. */
static void test_scratch_is_measured(void **state)
{
    enum { KIB = 1024, HELD = 10 };
    (void)state;
    char parent[] = "/tmp/cv-test-worker-XXXXXX";
    struct cv_error error;
    struct cv_scratch scratch = CV_SCRATCH_INIT;
    open_scratch(parent, &scratch);
    cv_auto_free char *path = NULL;
    assert_int_equal(cv_scratch_make(&scratch, "job", &path, &error), 0);
    int folder = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    const struct cv_scratch_usage most = {.bytes = 512 * KIB, .files = HELD};
    struct cv_scratch_usage seen;

    fill_file(folder, "a", 256 * KIB);
    assert_false(cv_scratch_exceeds(&scratch, "job", 0, &most, &seen));
    assert_int_equal(seen.files, 1);
    assert_true(seen.bytes >= 256 * KIB);

    fill_file(folder, "gone", 384 * KIB);
    int gone = openat(folder, "gone", O_RDONLY | O_CLOEXEC);
    assert_true(cv_scratch_exceeds(&scratch, "job", 0, &most, &seen));
    assert_int_equal(unlinkat(folder, "gone", 0), 0);
    assert_false(cv_scratch_exceeds(&scratch, "job", 0, &most, &seen));
    assert_true(cv_scratch_exceeds(&scratch, "job", getpid(), &most, &seen));
    close(gone);
    assert_false(cv_scratch_exceeds(&scratch, "job", getpid(), &most, &seen));

    assert_int_equal(mkdirat(folder, "b", 0), 0);
    int below = openat(folder, "b", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    for (int i = 0; below >= 0 && i < HELD; i++) {
        char name[16];
        (void)snprintf(name, sizeof(name), "%d", i);
        fill_file(below, name, 1);
    }
    assert_int_equal(cv_scratch_exceeds(&scratch, "job", 0, &most, &seen), below >= 0);
    if (below >= 0) { /* root's */
        close(below);
    }
    close(folder);
    cv_scratch_close(&scratch);
    assert_int_equal(rmdir(parent), 0);
}

static void test_what_a_job_may_write_grows_with_its_original(void **state)
{
    (void)state;
    const int64_t gib = 1LL << 30;
    const struct cv_scratch_usage any = {64 * gib, 1000 * 1000}, few = {gib, 200};
    static const struct {
        int64_t input, gibs, files;
    } inputs[] = {{0, 2, 50000},
                  {1 << 20, 2, 51024},
                  {INT64_C(1) << 30, 18, 1000 * 1000},
                  {INT64_MAX, 64, 1000 * 1000}};
    for (size_t i = 0; i < CV_COUNT(inputs); i++) {
        struct cv_scratch_usage allowed = cv_scratch_most_for(&any, inputs[i].input);
        assert_int_equal(allowed.bytes / gib, inputs[i].gibs);
        assert_int_equal(allowed.files, inputs[i].files);
    }
    assert_int_equal(cv_scratch_most_for(&few, 1).bytes, gib);
    assert_int_equal(cv_scratch_most_for(&few, 1).files, 200);
}

/* A stage knows how deep is moved up, and where to. */
static void test_scratch_goes_whatever_names_a_stage_has_taken(void **state)
{
    enum { DEPTH = 40, NESTS = 20 };
    (void)state;
    char parent[] = "/tmp/cv-test-worker-XXXXXX";
    struct cv_error error;
    struct cv_scratch scratch = CV_SCRATCH_INIT;
    open_scratch(parent, &scratch);
    cv_auto_free char *path = NULL;
    assert_int_equal(cv_scratch_make(&scratch, "job", &path, &error), 0);
    for (int i = 0; i < NESTS; i++) {
        cv_auto_fd int at = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        char name[48];
        (void)snprintf(name, sizeof(name), ".moved-%d", i);
        for (int depth = 0; depth < DEPTH; depth++) {
            assert_int_equal(mkdirat(at, name, 0700), 0);
            int below = openat(at, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
            close(cv_take_fd(&at));
            at = below;
        }
    }
    assert_int_equal(cv_scratch_discard(&scratch, "job", &error), 0);
    assert_int_not_equal(access(path, F_OK), 0);
    cv_scratch_remove_discarded(&scratch, NULL);
    assert_int_equal(count_entries(scratch.path), 0);
    cv_scratch_close(&scratch);
    assert_int_equal(rmdir(parent), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_payload_int),
        cmocka_unit_test(test_payload_double),
        cmocka_unit_test(test_payload_texts),
        cmocka_unit_test(test_verdict_of_failures),
        cmocka_unit_test(test_bounds_of_a_container),
        cmocka_unit_test(test_a_stages_share_of_memory),
        cmocka_unit_test(test_verdict_of_success),
        cmocka_unit_test(test_verdict_of_a_bomb),
        cmocka_unit_test(test_pump_reads_progress_and_keeps_a_tail),
        cmocka_unit_test(test_scratch_is_emptied_and_links_are_not_followed),
        cmocka_unit_test(test_scratch_is_measured),
        cmocka_unit_test(test_what_a_job_may_write_grows_with_its_original),
        cmocka_unit_test(test_scratch_goes_whatever_names_a_stage_has_taken),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
