#include "slurm/rescue.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdbool.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { PATIENCE_S = 5 };

/* By the kernel's calls: the libc's would have other threads follow, which this process has not. */
static bool become(const struct rescue_user *user) {
    if (geteuid() != 0 && getuid() == 0 && syscall(SYS_setresuid, -1, 0, -1) != 0)
        return false;
    if (geteuid() == 0 && (syscall(SYS_setgroups, user->group_count, user->groups) != 0 ||
                           syscall(SYS_setresgid, user->group, user->group, user->group) != 0 ||
                           syscall(SYS_setresuid, user->user, user->user, user->user) != 0))
        return false;
    return getuid() == user->user && geteuid() == user->user;
}

/* Signals as in a program that was just started: slurmstepd's would outlive the exec. */
static void reset_signals(void) {
    sigset_t none;
    for (int number = 1; number < NSIG; number++)
        signal(number, SIG_DFL);
    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, NULL);
}

static bool has_nothing_open(void) {
    int nothing = open("/dev/null", O_RDWR);
    for (int file = STDIN_FILENO; file <= STDERR_FILENO; file++)
        if (nothing < 0 || dup2(nothing, file) < 0)
            return false;
    return syscall(SYS_close_range, STDERR_FILENO + 1, ~0U, 0) == 0 || errno == ENOSYS;
}

/* In the new process: calls that are safe in a child of a process with threads. The alarm outlives
 * the exec. */
static _Noreturn void be_command(const char *command, const struct rescue_user *user) {
    char *const arguments[] = {(char *)command, (char *)"top", (char *)"--once", NULL};
    char *const environment[] = {(char *)"LC_ALL=C", NULL};
    reset_signals();
    if (become(user) && has_nothing_open() && chdir("/") == 0) {
        alarm(PATIENCE_S);
        execve(command, arguments, environment);
    }
    _exit(127);
}

void rescue_figures(const char *command, const struct rescue_user *user) {
    const struct timespec step = {.tv_nsec = 2000 * 1000};
    struct timespec start, now;
    if (access(command, X_OK) != 0)
        return;
    pid_t child = fork();
    if (child == 0)
        be_command(command, user);
    clock_gettime(CLOCK_MONOTONIC, &start);
    now = start;
    /* One that no signal ends, since a file system does not answer, is left behind. */
    while (child > 0 && waitpid(child, NULL, WNOHANG) == 0 &&
           now.tv_sec <= start.tv_sec + PATIENCE_S) {
        nanosleep(&step, NULL);
        clock_gettime(CLOCK_MONOTONIC, &now);
    }
}
