/* A library that does one thing to the first program that it is preloaded into: $FAULT says what.
 */
#include <fcntl.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static bool is(const char *fault) {
    const char *wanted = getenv("FAULT");
    return wanted && !strcmp(wanted, fault);
}

static void nothing(int number) {
    (void)number;
}

static void overwrite(void) {
    int file = open("made", O_WRONLY | O_APPEND);
    if (file >= 0) {
        (void)!write(file, "more\n", 5);
        close(file);
    }
}

__attribute__((constructor)) static void start(void) {
    sigset_t one;
    sigemptyset(&one);
    sigaddset(&one, SIGUSR1);
    if (is("prints")) {
        (void)!write(1, "fault\n", 6);
    } else if (is("complains")) {
        (void)!write(2, "fault\n", 6);
    } else if (is("opens")) {
        (void)!open("/dev/zero", O_RDONLY);
    } else if (is("blocks")) {
        sigprocmask(SIG_BLOCK, &one, NULL);
    } else if (is("ignores")) {
        signal(SIGUSR1, SIG_IGN);
    } else if (is("catches")) {
        signal(SIGUSR1, nothing);
    } else if (is("creates")) {
        mkdir("left_here", 0700);
    } else if (is("shares")) {
        mkdir("/dev/shm/left_here", 0700);
    } else if (is("exits")) {
        _exit(9);
    } else if (is("kills")) {
        raise(SIGTERM);
    } else if (is("forks") && !fork()) {
        pause();
        _exit(0);
    }
}

__attribute__((destructor)) static void end(void) {
    if (is("writes")) {
        overwrite();
    }
}
