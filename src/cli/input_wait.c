#include "cli/input_wait.h"

#include "cli/printable.h"

#include <errno.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

static char line[1024];
static size_t length;
static bool ticking;
static timer_t timer;
static struct sigaction before;

static int number(void) {
    return SIGRTMIN;
}

static void tell(int signal) {
    int fault = errno;
    (void)signal;
    if (write(STDERR_FILENO, line, length) < 0)
        length = 0; /* nobody reads it */
    errno = fault;
}

void input_wait_begin(const char *command, const char *path) {
    const struct sigaction action = {.sa_handler = tell, .sa_flags = SA_RESTART};
    const struct itimerspec second = {.it_value = {.tv_sec = 1}};
    struct sigevent event = {.sigev_notify = SIGEV_SIGNAL, .sigev_signo = number()};
    struct stat status;
    if (stat(path, &status) != 0 || S_ISREG(status.st_mode) || S_ISDIR(status.st_mode))
        return;
    char *name = printable_copy(path);
    snprintf(line, sizeof line,
             "%s: %.900s: no regular file; waiting for the end of what is read\n", command,
             name ? name : "?");
    length = strlen(line);
    free(name);
    ticking = sigaction(number(), &action, &before) == 0 &&
              timer_create(CLOCK_MONOTONIC, &event, &timer) == 0;
    if (ticking)
        timer_settime(timer, 0, &second, NULL);
}

void input_wait_end(void) {
    if (!ticking)
        return;
    timer_delete(timer);
    sigaction(number(), &before, NULL);
    ticking = false;
}
