#include "cli/doctor/bindings.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { PATIENCE_SECONDS = 60, ENTRIES_MAX = 1 << 16 };

static const char *file_name(const char *path) {
    const char *slash = strrchr(path, '/');
    return slash ? slash + 1 : path;
}

bool bindings_trusts(const char *interpreter) {
    static const char *const folders[] = {"/lib/",       "/lib64/",     "/libx32/",   "/usr/lib/",
                                          "/usr/lib64/", "/nix/store/", "/gnu/store/"};
    struct stat facts;
    bool known = false;
    const char *name = file_name(interpreter);
    for (size_t i = 0; i < sizeof folders / sizeof folders[0]; i++)
        known = known || strncmp(interpreter, folders[i], strlen(folders[i])) == 0;
    return known && !strstr(interpreter, "/../") &&
           (strncmp(name, "ld-linux", 8) == 0 || strncmp(name, "ld64.so", 7) == 0 ||
            (strncmp(name, "ld-2.", 5) == 0)) &&
           stat(interpreter, &facts) == 0 && S_ISREG(facts.st_mode) && facts.st_uid == 0 &&
           !(facts.st_mode & (S_IWGRP | S_IWOTH));
}

/* In the child. With __RTLD_NOIFUNC, which tracing implies, ld.so does not even ask the program's
 * own functions for addresses. Auditors would be run: there are none. */
static void exec_loader(const char *interpreter, const char *program, const char *preload,
                        int out) {
    static const char *const unset[] = {"LD_AUDIT", "LD_DEBUG_OUTPUT", "LD_PROFILE", "LD_VERBOSE",
                                        "LD_SHOW_AUXV"};
    for (size_t i = 0; i < sizeof unset / sizeof unset[0]; i++)
        unsetenv(unset[i]);
    setenv("LD_TRACE_LOADED_OBJECTS", "1", 1);
    setenv("LD_WARN", "yes", 1);
    setenv("LD_BIND_NOW", "yes", 1);
    setenv("LD_DEBUG", "bindings", 1);
    if (preload)
        setenv("LD_PRELOAD", preload, 1);
    else
        unsetenv("LD_PRELOAD");
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    int nothing = open("/dev/null", O_RDONLY | O_CLOEXEC);
    dup2(nothing, STDIN_FILENO);
    dup2(out, STDOUT_FILENO);
    dup2(out, STDERR_FILENO);
    execl(interpreter, interpreter, program, (char *)NULL);
    _exit(127);
}

/* Room for one more in an array of `size`-byte entries; NULL if there is none. */
static void *grow(void *array, size_t count, size_t size) {
    if (count >= ENTRIES_MAX)
        return NULL;
    return count & (count - 1) ? array : reallocarray(array, count ? 2 * count : 1, size);
}

static void add_library(struct bindings *bindings, const char *name, size_t name_length,
                        const char *path, size_t path_length) {
    struct loaded_library *grown =
        grow(bindings->libraries, bindings->library_count, sizeof *bindings->libraries);
    if (!grown)
        return;
    bindings->libraries = grown;
    struct loaded_library added = {strndup(name, name_length),
                                   path ? strndup(path, path_length) : NULL};
    if (added.name && (!path || added.path)) {
        bindings->libraries[bindings->library_count++] = added;
    } else {
        free(added.name);
        free(added.path);
    }
}

static void add_binding(struct bindings *bindings, const char *from, const char *symbol,
                        const char *to) {
    struct binding *grown =
        grow(bindings->bindings, bindings->binding_count, sizeof *bindings->bindings);
    if (!grown)
        return;
    bindings->bindings = grown;
    struct binding added = {strdup(from), strdup(symbol), strdup(to)};
    if (added.from && added.symbol && added.to) {
        bindings->bindings[bindings->binding_count++] = added;
    } else {
        free(added.from);
        free(added.symbol);
        free(added.to);
    }
}

static void add_complaint(struct bindings *bindings, const char *line) {
    char **grown = grow(bindings->complaints, bindings->complaint_count, sizeof(char *));
    if (!grown)
        return;
    bindings->complaints = grown;
    char *copy = strdup(line);
    if (copy)
        bindings->complaints[bindings->complaint_count++] = copy;
}

static bool is_interesting(const char *symbol) {
    static const char *const names[] = {"dlsym",
                                        "cudaMalloc",
                                        "cudaMallocPitch",
                                        "cudaMalloc3D",
                                        "cuMemAlloc_v2",
                                        "cuMemFree_v2",
                                        "cuMemAllocPitch_v2",
                                        "cuGetProcAddress",
                                        "cuGetProcAddress_v2"};
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
        if (strcmp(symbol, names[i]) == 0)
            return true;
    return false;
}

/* "binding file FROM [0] to TO [0]: normal symbol `NAME' [VERSION]", after the process id. */
static void read_binding(struct bindings *bindings, char *line) {
    char *from = line + strlen("binding file "), *to = strstr(from, " [0] to ");
    char *end = to ? strstr(to, " [0]: ") : NULL;
    char *symbol = end ? strchr(end, '`') : NULL;
    char *quote = symbol ? strchr(symbol, '\'') : NULL;
    if (!quote)
        return;
    *to = *end = *quote = '\0';
    if (is_interesting(symbol + 1))
        add_binding(bindings, from, symbol + 1, to + strlen(" [0] to "));
}

/* "\tNAME => PATH (0xADDRESS)", "\tPATH (0xADDRESS)" or "\tNAME => not found" */
static void read_library(struct bindings *bindings, const char *line) {
    const char *arrow = strstr(line, " => "), *address = strstr(line, " (0x");
    for (const char *next = address; next; next = strstr(next + 1, " (0x"))
        address = next;
    if (arrow && strcmp(arrow, " => not found") == 0) {
        add_library(bindings, line, (size_t)(arrow - line), NULL, 0);
    } else if (address) {
        const char *path = arrow && arrow < address ? arrow + strlen(" => ") : line;
        size_t name_length = (size_t)((path == line ? address : arrow) - line);
        add_library(bindings, line, name_length, path, (size_t)(address - path));
    }
}

static void read_line(struct bindings *bindings, char *line) {
    static const char *const known[] = {"cannot be preloaded", "' not found (required by ",
                                        "error while loading shared libraries",
                                        "cannot open shared object"};
    char *text = line + strspn(line, " ");
    size_t digits = strspn(text, "0123456789");
    char *message = digits && strncmp(text + digits, ":\t", 2) == 0 ? text + digits + 2 : NULL;
    if (message && strncmp(message, "binding file ", 13) == 0) {
        read_binding(bindings, message);
    } else if (*line == '\t') {
        read_library(bindings, line + 1);
    } else {
        for (size_t i = 0; i < sizeof known / sizeof known[0]; i++)
            if (strstr(line, known[i])) {
                add_complaint(bindings, line);
                return;
            }
    }
}

static double now(void) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (double)time.tv_sec + (double)time.tv_nsec / 1e9;
}

/* False if it does not come to an end in time. */
static bool read_all(struct bindings *bindings, int in) {
    double end = now() + PATIENCE_SECONDS;
    char *line = NULL;
    size_t length = 0, room = 0;
    bool complete = false;
    for (;;) {
        struct pollfd ready = {in, POLLIN, 0};
        if (room - length < PIPE_BUF) {
            char *grown = room > 64 << 20 ? NULL : realloc(line, room = 2 * room + 2 * PIPE_BUF);
            if (!grown)
                break;
            line = grown;
        }
        if (now() > end || poll(&ready, 1, 1000) < 0)
            break;
        if (!ready.revents)
            continue;
        ssize_t got = read(in, line + length, room - length - 1);
        if (got < 0 && errno == EINTR)
            continue;
        if (got <= 0) {
            complete = got == 0;
            break;
        }
        length += (size_t)got;
        char *start = line, *newline;
        while ((newline = memchr(start, '\n', length - (size_t)(start - line)))) {
            *newline = '\0';
            read_line(bindings, start);
            start = newline + 1;
        }
        length -= (size_t)(start - line);
        memmove(line, start, length);
    }
    free(line);
    return complete;
}

static char *say(const char *text) {
    return strdup(text);
}

struct bindings bindings_ask(const char *interpreter, const char *program, const char *preload) {
    struct bindings bindings = {.refused = NULL};
    int answer[2], status = 0;
    if (!bindings_trusts(interpreter)) {
        bindings.refused =
            say("its program interpreter is none of the system's ld.so files, so it is "
                "not started");
        return bindings;
    }
    if (pipe2(answer, O_CLOEXEC) != 0) {
        bindings.refused = say(strerror(errno));
        return bindings;
    }
    pid_t child = fork();
    if (child == 0)
        exec_loader(interpreter, program, preload, answer[1]);
    close(answer[1]);
    bool complete = child > 0 && read_all(&bindings, answer[0]);
    close(answer[0]);
    if (child > 0 && !complete)
        kill(child, SIGKILL);
    if (child < 0 || waitpid(child, &status, 0) != child)
        bindings.refused = say("no process could be started for ld.so");
    else if (!complete)
        bindings.refused = say("ld.so came to no end");
    else if (WIFSIGNALED(status))
        bindings.refused = say("ld.so broke off: it was killed by a signal");
    else if (WEXITSTATUS(status) == 127 && !bindings.complaint_count)
        bindings.refused = say("ld.so could not be started");
    return bindings;
}

const char *bindings_library(const struct bindings *bindings, const char *name) {
    for (size_t i = 0; i < bindings->library_count; i++)
        if (bindings->libraries[i].path &&
            strncmp(file_name(bindings->libraries[i].path), name, strlen(name)) == 0)
            return bindings->libraries[i].path;
    return NULL;
}

void bindings_free(struct bindings *bindings) {
    for (size_t i = 0; i < bindings->library_count; i++) {
        free(bindings->libraries[i].name);
        free(bindings->libraries[i].path);
    }
    for (size_t i = 0; i < bindings->binding_count; i++) {
        free(bindings->bindings[i].from);
        free(bindings->bindings[i].symbol);
        free(bindings->bindings[i].to);
    }
    for (size_t i = 0; i < bindings->complaint_count; i++)
        free(bindings->complaints[i]);
    free(bindings->libraries);
    free(bindings->bindings);
    free(bindings->complaints);
    free(bindings->refused);
    *bindings = (struct bindings){.refused = NULL};
}
