/* Two stages of one video that meet: what each gets of the other, and what neither can do to the other. */
#include "common/worker/companion.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include <cmocka.h>

enum { SOON_MS = 20000 };

static const struct cv_companion sends = {.job_type = "sample", .sends = true};
static const struct cv_companion receives = {.job_type = "transcode"};

static char directory[] = "/tmp/cv-companion-XXXXXX";

static struct cv_meeting meeting_of(const struct cv_companion *companion)
{
    struct cv_cancel *cancel = NULL;
    struct cv_error error;
    assert_int_equal(cv_cancel_new(&cancel, &error), 0);
    return (struct cv_meeting){.companion = companion,
                               .directory = directory,
                               .video_id = "7d9b1c1e-52d1-4f0e-9a55-0c4f1a2b3c4d",
                               .original = "videos/original/master.mp4",
                               .waits = true,
                               .wait_ms = SOON_MS,
                               .kept_fd = -1,
                               .keep_fd = -1,
                               .cancel = cancel};
}

static struct cv_peer meet(struct cv_meeting *meeting)
{
    struct cv_peer peer = {.socket = -1};
    struct cv_error error;
    assert_int_equal(cv_companion_meet(meeting, &peer, &error), 0);
    cv_cancel_free(meeting->cancel);
    return peer;
}

/* The sender in a process of its own: says a word in the memory and over the socket, and stays until it is answered. */
static pid_t start_sender(const char *original)
{
    pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid > 0) {
        return pid;
    }
    struct cv_meeting meeting = meeting_of(&sends);
    meeting.original = original;
    struct cv_peer peer = meet(&meeting);
    char answer;
    if (!peer.memory) {
        _exit(1);
    }
    memcpy(peer.memory, "word", 5);
    _exit(send(peer.socket, "said", 4, MSG_NOSIGNAL) == 4 && recv(peer.socket, &answer, 1, 0) == 1
              ? 0
              : 2);
}

static int end_of(pid_t pid)
{
    int status = 0;
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_true(WIFEXITED(status));
    return WEXITSTATUS(status);
}

static void assert_hears(const struct cv_peer *peer)
{
    char said[8];
    assert_non_null(peer->memory);
    assert_int_equal(recv(peer->socket, said, sizeof(said), MSG_PEEK), 4);
    assert_string_equal(peer->memory, "word");
}

static void the_receiver_reads_and_cannot_write(void **state)
{
    (void)state;
    pid_t sender = start_sender("videos/original/master.mp4");
    struct cv_meeting meeting = meeting_of(&receives);
    struct cv_peer peer = meet(&meeting);
    assert_hears(&peer);
    assert_int_not_equal(mprotect(peer.memory, peer.bytes, PROT_READ | PROT_WRITE), 0);
    assert_int_equal(send(peer.socket, "", 1, MSG_NOSIGNAL), 1);
    assert_int_equal(end_of(sender), 0);
    assert_string_equal(peer.memory, "word"); /* it stays when the sender has gone */
    assert_int_equal(rmdir(directory), 0);
    assert_int_equal(mkdir(directory, 0700), 0);
}

static void another_original_is_not_shared(void **state)
{
    (void)state;
    pid_t sender = start_sender("videos/original/other.mp4");
    struct cv_meeting meeting = meeting_of(&receives);
    assert_null(meet(&meeting).memory);
    assert_int_equal(end_of(sender), 2);
}

static void nobody_waits_for_ever_or_where_others_may_enter(void **state)
{
    (void)state;
    struct cv_meeting meeting = meeting_of(&receives);
    meeting.wait_ms = 10;
    assert_null(meet(&meeting).memory);
    assert_int_equal(chmod(directory, 0750), 0);
    meeting = meeting_of(&receives);
    assert_null(meet(&meeting).memory);
    assert_int_equal(chmod(directory, 0700), 0);
}

static void a_stopped_job_does_not_wait(void **state)
{
    (void)state;
    struct cv_peer peer = {.socket = -1};
    struct cv_error error;
    struct cv_meeting meeting = meeting_of(&receives);
    cv_cancel_request(meeting.cancel, CV_CANCEL_ABORT);
    assert_true(cv_companion_meet(&meeting, &peer, &error) < 0);
    assert_int_equal(error.type, CV_ERROR_CANCELED);
    cv_cancel_free(meeting.cancel);
}

/* One part in a process of its own, which is gone when it has met. */
static int run_part(const int ends[2], bool is_first)
{
    pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid > 0) {
        return end_of(pid);
    }
    struct cv_meeting meeting = meeting_of(&receives);
    meeting.kept_fd = ends[0];
    meeting.keep_fd = ends[1];
    meeting.waits = is_first;
    struct cv_peer peer = meet(&meeting);
    if (!peer.memory) {
        _exit(1);
    }
    assert_hears(&peer);
    _exit(0);
}

static void parts_hand_on_what_the_first_has_met(void **state)
{
    (void)state;
    int ends[2];
    assert_int_equal(socketpair(AF_UNIX, SOCK_SEQPACKET, 0, ends), 0);
    assert_int_equal(run_part(ends, false), 1); /* nothing was kept yet, and it does not wait */
    pid_t sender = start_sender("videos/original/master.mp4");
    assert_int_equal(run_part(ends, true), 0);
    assert_int_equal(run_part(ends, false), 0);
    assert_int_equal(run_part(ends, false), 0);
    struct cv_meeting meeting = meeting_of(&receives);
    meeting.kept_fd = ends[0]; /* the last one, which keeps nothing */
    meeting.waits = false;
    struct cv_peer peer = meet(&meeting);
    assert_hears(&peer);
    assert_int_equal(send(peer.socket, "", 1, MSG_NOSIGNAL), 1);
    assert_int_equal(end_of(sender), 0);
    close(ends[1]);
}

static int make_directory(void **state)
{
    (void)state;
    (void)setenv("LOG_LEVEL", "error", 1);
    return mkdtemp(directory) ? 0 : -1;
}

static int remove_directory(void **state)
{
    (void)state;
    return rmdir(directory);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_receiver_reads_and_cannot_write),
        cmocka_unit_test(another_original_is_not_shared),
        cmocka_unit_test(nobody_waits_for_ever_or_where_others_may_enter),
        cmocka_unit_test(a_stopped_job_does_not_wait),
        cmocka_unit_test(parts_hand_on_what_the_first_has_met),
    };
    return cmocka_run_group_tests(tests, make_directory, remove_directory);
}
