#include "slurm/summary.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <stdbool.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

/* Reads all of it, and keeps the first line. */
static void read_line(int from, char *line, size_t size) {
    size_t length = 0;
    for (;;) {
        char more[512];
        ssize_t got = read(from, more, sizeof more);
        if (got < 0 && errno == EINTR)
            continue;
        if (got <= 0)
            break;
        size_t room = size - 1 - length, taken = (size_t)got < room ? (size_t)got : room;
        memcpy(line + length, more, taken);
        length += taken;
    }
    line[length] = '\0';
    line[strcspn(line, "\n")] = '\0';
}

bool summary_ask(const char *command, const char *folder, char *line, size_t size) {
    /* posix_spawn takes them for constants. */
    char *const arguments[] = {(char *)command, (char *)"report", (char *)"--brief",
                               (char *)"--",    (char *)folder,   NULL};
    int ends[2], status = 0;
    pid_t child;
    posix_spawn_file_actions_t actions;
    posix_spawnattr_t attributes;
    sigset_t none;
    *line = '\0';
    if (pipe2(ends, O_CLOEXEC) != 0)
        return true;
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_adddup2(&actions, ends[1], STDOUT_FILENO);
    posix_spawn_file_actions_addopen(&actions, STDERR_FILENO, "/dev/null", O_WRONLY, 0);
    /* srun blocks signals, and waits for this process: Ctrl-C has to end it. */
    sigemptyset(&none);
    posix_spawnattr_init(&attributes);
    posix_spawnattr_setsigmask(&attributes, &none);
    posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGMASK);
    bool started = posix_spawn(&child, command, &actions, &attributes, arguments, environ) == 0;
    posix_spawnattr_destroy(&attributes);
    posix_spawn_file_actions_destroy(&actions);
    close(ends[1]);
    if (started) {
        read_line(ends[0], line, size);
        while (waitpid(child, &status, 0) < 0 && errno == EINTR)
            ;
    }
    close(ends[0]);
    return !WIFSIGNALED(status);
}
