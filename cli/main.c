#include "cli/commands/commands.h"

#include <locale.h>
#include <signal.h>
#include <string.h>

enum { EXIT_FAILED = 1 };

/* For the signal handler; set once, before it is installed. */
static struct cv_cancel *cancel_on_signal;

static void on_signal(int number)
{
    (void)number;
    cv_cancel_request(cancel_on_signal, CV_CANCEL_ABORT);
}

static int catch_signals(struct cv_cancel *cancel, struct cv_error *error)
{
    cancel_on_signal = cancel;
    struct sigaction action = {.sa_handler = on_signal, .sa_flags = SA_RESTART};
    static const int numbers[] = {SIGINT, SIGTERM, SIGHUP};
    for (size_t i = 0; i < CV_COUNT(numbers); i++) {
        CV_TRY_ERRNO(sigaction(numbers[i], &action, NULL) == 0, error, "catch signals");
    }
    /* If the reader of our output exits, writing fails, but the process must not end, because it
     * has a server to stop. */
    CV_TRY_ERRNO(signal(SIGPIPE, SIG_IGN) != SIG_ERR, error, "ignore SIGPIPE");
    return 0;
}

/* ---- standard output, with the errno of the write that failed --------------------------------- */

static int output_error;

static ssize_t write_output(void *cookie, const char *data, size_t length)
{
    (void)cookie;
    if (output_error == 0 && cv_write_all(STDOUT_FILENO, data, length)) {
        output_error = errno;
    }
    return (ssize_t)length; /* on failure the rest is dropped; main reports it at the end */
}

static void watch_output(void)
{
    FILE *file = fopencookie(NULL, "w", (cookie_io_functions_t){.write = write_output});
    if (file) {
        (void)setvbuf(file, NULL, isatty(STDOUT_FILENO) ? _IOLBF : _IOFBF, BUFSIZ);
        stdout = file;
    }
}

int main(int argc, char **argv)
{
    struct cv_error error;
    cv_auto(cv_cancel_free) struct cv_cancel *cancel = NULL;
    /* Sets only the character set, so that numbers keep their format. */
    (void)setlocale(LC_CTYPE, "C.UTF-8");
    watch_output();
    int status = EXIT_FAILED;
    if (cv_cancel_new(&cancel, &error) || catch_signals(cancel, &error)) {
        (void)fprintf(stderr, "cortana: %s\n", error.message);
    } else {
        status = cli_main(argc, argv, cancel);
    }
    (void)fflush(stdout);
    /* A reader that ends early (| head) is not a failure. */
    if (output_error != 0 && output_error != EPIPE) {
        (void)fprintf(stderr, "cortana: the output could not be written: %s\n",
                      strerror(output_error));
        status = EXIT_FAILED;
    }
    return status;
}
