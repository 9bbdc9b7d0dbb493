#include "cli/child.h"

#include "cli/standard_output.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdbool.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

/* What the program gets back before it starts. */
struct inherited {
    sigset_t mask;
    struct sigaction on_child;
};

static void start(char *const *argv, const struct inherited *inherited, pid_t parent, int tell) {
    /* A parent that was killed without a chance to send it on takes the program with it. */
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != parent)
        _exit(127);
    sigaction(SIGCHLD, &inherited->on_child, NULL);
    standard_output_forget();
    sigprocmask(SIG_SETMASK, &inherited->mask, NULL);
    execvp(argv[0], argv);
    int error = errno;
    if (write(tell, &error, sizeof error) < 0)
        _exit(126);
    _exit(127);
}

/* Pipes and terminals must see their last user go when the program closes them, not when we end. */
static void let_go(void) {
    int nothing = open("/dev/null", O_RDWR | O_CLOEXEC);
    if (nothing >= 0) {
        dup2(nothing, STDIN_FILENO);
        dup2(nothing, STDOUT_FILENO);
    }
    closefrom(STDERR_FILENO + 1);
}

/* Stops with the program, for the shell to see, unless the program goes on already. */
static void stop_too(pid_t child) {
    int status;
    if (waitpid(child, &status, WNOHANG | WCONTINUED) == child && WIFCONTINUED(status))
        return;
    raise(SIGSTOP);
}

/* Looks after the program. True once it has ended. */
static bool look_after(pid_t child, int *status) {
    while (waitpid(child, status, WNOHANG | WUNTRACED | WCONTINUED) == child) {
        if (WIFEXITED(*status) || WIFSIGNALED(*status))
            return true;
        if (WIFSTOPPED(*status))
            stop_too(child);
    }
    return false;
}

/* What the terminal tells the whole group, the program has already. Not so a hang-up, which comes
 * to the session's leader first and to the others when that ends: natively the program would be the
 * leader. An alarm that was set before the program was started is the program's. */
static bool has_already(const siginfo_t *info) {
    if (info->si_code != SI_KERNEL)
        return false;
    switch (info->si_signo) {
    case SIGINT:
    case SIGQUIT:
    case SIGTSTP:
    case SIGTTIN:
    case SIGTTOU:
    case SIGWINCH:
    case SIGCONT:
        return true;
    case SIGHUP:
        return getsid(0) != getpid();
    default:
        return false;
    }
}

static void send_on(pid_t child, const siginfo_t *info) {
    if (info->si_code == SI_QUEUE)
        sigqueue(child, info->si_signo, info->si_value);
    else
        kill(child, info->si_signo);
}

int child_run(char *const *argv, int *status) {
    struct inherited inherited;
    struct sigaction by_default = {.sa_handler = SIG_DFL};
    sigset_t all;
    int tell[2], error = 0;
    pid_t parent = getpid();
    if (pipe2(tell, O_CLOEXEC) != 0)
        return errno;
    /* All signals are taken by sigwaitinfo. Blocked ones reach it even where they are ignored, as
     * under nohup; the program, which ignores them as well, is none the worse for it. */
    sigfillset(&all);
    sigprocmask(SIG_SETMASK, &all, &inherited.mask);
    sigaction(SIGCHLD, &by_default, &inherited.on_child);
    pid_t child = fork();
    if (child == 0)
        start(argv, &inherited, parent, tell[1]);
    if (child < 0)
        return errno;
    close(tell[1]);
    if (read(tell[0], &error, sizeof error) == (ssize_t)sizeof error) {
        waitpid(child, status, 0);
        return error;
    }
    let_go();
    while (!look_after(child, status)) {
        siginfo_t info;
        int number = sigwaitinfo(&all, &info);
        if (number > 0 && number != SIGCHLD && !has_already(&info))
            send_on(child, &info);
    }
    return 0;
}

_Noreturn void child_end_alike(int status) {
    if (WIFSIGNALED(status)) {
        struct sigaction by_default = {.sa_handler = SIG_DFL};
        const struct rlimit no_core = {0, 0};
        sigset_t one;
        int number = WTERMSIG(status);
        setrlimit(RLIMIT_CORE, &no_core);
        prctl(PR_SET_DUMPABLE, 0); /* a core that is piped to a program has no limit */
        sigaction(number, &by_default, NULL);
        sigemptyset(&one);
        sigaddset(&one, number);
        raise(number);
        sigprocmask(SIG_UNBLOCK, &one, NULL);
        _exit(128 + number);
    }
    _exit(WEXITSTATUS(status));
}
