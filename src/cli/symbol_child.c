#include "cli/symbol_child.h"

#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum {
    SECONDS = 60,           /* for one module; one of gigabytes takes some ten */
    ANSWER_MAX = 64u << 20, /* bytes of all names of one module */
    NAME_MAX_BYTES = 4096,  /* of one name; a C++ name may be longer than anyone reads */
    FRAMES_MAX = 32,        /* inlined into each other at one place */
};
#define MEMORY_MAX ((rlim_t)16 << 30) /* bytes of addresses: the mapped files count */

/* What goes through the pipe: one byte of state, then a record for each function, which is its
 * struct and its two texts with their zeros. A record of index END comes last. */
struct record {
    uint32_t index, line, function_size, file_size; /* file_size 0: no file */
    uint64_t into;
};
#define END UINT32_MAX

struct writing {
    FILE *pipe;
    uint32_t index, frames;
};

static uint32_t text_size(const char *text) {
    size_t length = text ? strnlen(text, NAME_MAX_BYTES) : 0;
    return text ? (uint32_t)length + 1 : 0;
}

static void write_text(FILE *pipe, const char *text, uint32_t size) {
    if (!size)
        return;
    fwrite(text, 1, size - 1, pipe);
    fputc('\0', pipe);
}

static void write_record(const struct symbol *symbol, void *state) {
    struct writing *writing = state;
    if (writing->frames++ >= FRAMES_MAX)
        return;
    struct record record = {writing->index, symbol->line, text_size(symbol->function),
                            text_size(symbol->file), symbol->into};
    fwrite(&record, sizeof record, 1, writing->pipe);
    write_text(writing->pipe, symbol->function, record.function_size);
    write_text(writing->pipe, symbol->file, record.file_size);
}

_Noreturn static void serve(int out, const struct symbol_module *module, const uint64_t *offsets,
                            size_t count) {
    setrlimit(RLIMIT_CORE, &(struct rlimit){0, 0});
    setrlimit(RLIMIT_CPU, &(struct rlimit){SECONDS, SECONDS});
    setrlimit(RLIMIT_AS, &(struct rlimit){MEMORY_MAX, MEMORY_MAX});
    struct writing writing = {.pipe = fdopen(out, "w")};
    if (!writing.pipe)
        _exit(1);
    fputc((int)symbol_file_open(module), writing.pipe);
    for (size_t i = 0; i < count; i++) {
        writing.index = (uint32_t)i;
        writing.frames = 0;
        symbol_file_find(offsets[i], write_record, &writing);
    }
    fwrite(&(struct record){.index = END}, sizeof(struct record), 1, writing.pipe);
    fflush(writing.pipe);
    _exit(0);
}

struct answer {
    char *bytes;
    size_t size, room;
};

static int64_t now_ms(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

/* Until the child is done, its time is up, or it has said too much. */
static void read_answer(int in, struct answer *answer) {
    int64_t end = now_ms() + SECONDS * (int64_t)1000;
    for (;;) {
        int64_t left = end - now_ms();
        if (left <= 0 || poll(&(struct pollfd){.fd = in, .events = POLLIN}, 1, (int)left) == 0)
            return;
        if (answer->room - answer->size < 65536) {
            size_t room = answer->room ? 2 * answer->room : 131072;
            char *bytes = room <= ANSWER_MAX ? realloc(answer->bytes, room) : NULL;
            if (!bytes)
                return;
            answer->bytes = bytes;
            answer->room = room;
        }
        ssize_t got = read(in, answer->bytes + answer->size, answer->room - answer->size);
        if (got <= 0)
            return;
        answer->size += (size_t)got;
    }
}

/* Returns whether the answer is whole. */
static bool tell(const struct answer *answer, size_t count,
                 void (*found)(size_t index, const struct symbol *symbol, void *state),
                 void *state) {
    struct record record;
    for (size_t at = 1; answer->size - at >= sizeof record;) {
        memcpy(&record, answer->bytes + at, sizeof record);
        at += sizeof record;
        if (record.index == END)
            return true;
        size_t texts = (size_t)record.function_size + record.file_size;
        if (record.index >= count || !record.function_size || texts > answer->size - at)
            return false;
        const char *function = answer->bytes + at, *file = function + record.function_size;
        if (file[-1] || (record.file_size && file[record.file_size - 1]))
            return false;
        found(record.index,
              &(struct symbol){function, record.file_size ? file : NULL, record.line, record.into},
              state);
        at += texts;
    }
    return false;
}

enum symbol_file_state
symbol_child_find(const struct symbol_module *module, const uint64_t *offsets, size_t count,
                  void (*found)(size_t index, const struct symbol *symbol, void *state),
                  void *state) {
    int ends[2];
    if (pipe(ends) != 0)
        return SYMBOL_FILE_ABSENT;
    pid_t child = fork();
    if (child == 0) {
        close(ends[0]);
        serve(ends[1], module, offsets, count);
    }
    close(ends[1]);
    struct answer answer = {0};
    if (child > 0)
        read_answer(ends[0], &answer);
    close(ends[0]);
    if (child > 0) {
        kill(child, SIGKILL); /* ended already, or too slow */
        waitpid(child, NULL, 0);
    }
    enum symbol_file_state result = SYMBOL_FILE_ABSENT;
    if (child > 0 && (!answer.size || !tell(&answer, count, found, state)))
        result = SYMBOL_FILE_DAMAGED;
    else if (child > 0)
        result = (enum symbol_file_state)(unsigned char)answer.bytes[0];
    free(answer.bytes);
    return result;
}
