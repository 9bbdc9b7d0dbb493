#include "cli/standard_output.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const char *owner = "poolcuda";
static struct sigaction on_limit; /* as it was given to us */
static int loss_status;
static int fault; /* errno of the first write that has failed; 0: there is none */

void standard_output_owner(const char *name) {
    owner = name;
}

void standard_output_loss_status(int status) {
    loss_status = status;
}

static void note(int error) {
    fault = fault ? fault : error ? error : EIO;
}

/* A stream forgets why a write has failed, and what it then has in its buffer. */
static ssize_t write_and_note(void *nothing, const char *bytes, size_t size) {
    (void)nothing;
    size_t done = 0;
    while (done < size) {
        ssize_t more = write(STDOUT_FILENO, bytes + done, size - done);
        if (more < 0 && errno == EINTR)
            continue;
        if (more < 0) {
            note(errno);
            break;
        }
        done += (size_t)more;
    }
    return (ssize_t)done;
}

bool standard_output_flush(void) {
    if (fflush(stdout) != 0 || ferror(stdout))
        note(errno);
    return !fault;
}

/* The process's last act but what libraries do: all its commands end here. */
static void look_back(int status, void *nothing) {
    (void)nothing;
    standard_output_flush();
    if (close(STDOUT_FILENO) != 0) /* a file server may tell only now */
        note(errno);
    if (!fault)
        return;
    if (fault != EPIPE)
        fprintf(stderr, "%s: standard output: %s; not all was printed\n", owner, strerror(fault));
    fflush(stderr);
    _exit(loss_status ? loss_status : status ? status : 1);
}

void standard_output_watch(void) {
    for (int file = STDIN_FILENO; file <= STDERR_FILENO; file++) {
        int wrong_way = file == STDIN_FILENO ? O_WRONLY : O_RDONLY;
        if (fcntl(file, F_GETFD) < 0 && open("/dev/null", wrong_way | O_CLOEXEC) != file)
            abort(); /* the lowest number that is free is always taken */
    }
    sigaction(SIGXFSZ, &(struct sigaction){.sa_handler = SIG_IGN}, &on_limit);
    /* A terminal's stream stays as it is: the screen of `poolcuda top` needs its descriptor. */
    FILE *noting = isatty(STDOUT_FILENO)
                       ? NULL
                       : fopencookie(NULL, "w", (cookie_io_functions_t){.write = write_and_note});
    if (noting)
        stdout = noting;
    on_exit(look_back, NULL);
}

void standard_output_forget(void) {
    sigaction(SIGXFSZ, &on_limit, NULL);
}
