/* For tests that look at a process from outside: they run themselves with other settings. */
#ifndef SIMCUDA_TEST_PROCESS_H
#define SIMCUDA_TEST_PROCESS_H

#include "test_sim.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

struct outcome {
    int status;
    char messages[4096]; /* what it wrote to stderr */
    char report[8192];   /* SIMCUDA_REPORT; empty if there is none */
};

static inline void read_report(const char *folder, pid_t process, struct outcome *outcome) {
    char path[64];
    FILE *file;

    snprintf(path, sizeof path, "%s/%ld.txt", folder, (long)process);
    file = fopen(path, "r");
    if (file == NULL)
        return;
    outcome->report[fread(outcome->report, 1, sizeof outcome->report - 1, file)] = '\0';
    fclose(file);
    assert_int_equal(remove(path), 0);
}

/* Runs this program with the argument "child" and more variables: name, value, ... , NULL. */
static inline struct outcome run(const char *name, ...) {
    char folder[] = "/tmp/test_simcuda_XXXXXX", pattern[64];
    struct outcome outcome = {0};
    size_t used = 0;
    ssize_t got;
    pid_t process;
    int pipe_ends[2];
    va_list rest;

    assert_non_null(mkdtemp(folder));
    snprintf(pattern, sizeof pattern, "%s/%%p.txt", folder);
    assert_int_equal(pipe(pipe_ends), 0);
    process = fork();
    if (process == 0) {
        setenv("SIMCUDA_REPORT", pattern, 1);
        va_start(rest, name);
        for (; name != NULL; name = va_arg(rest, const char *))
            setenv(name, va_arg(rest, const char *), 1);
        va_end(rest);
        dup2(pipe_ends[1], STDERR_FILENO);
        close(pipe_ends[0]);
        close(pipe_ends[1]);
        execl("/proc/self/exe", program_invocation_short_name, "child", (char *)NULL);
        _exit(127);
    }
    close(pipe_ends[1]);
    while ((got = read(pipe_ends[0], outcome.messages + used, sizeof outcome.messages - 1 - used)) >
           0)
        used += (size_t)got;
    close(pipe_ends[0]);
    assert_int_equal(waitpid(process, &outcome.status, 0), process);
    read_report(folder, process, &outcome);
    assert_int_equal(remove(folder), 0);
    return outcome;
}

#endif
