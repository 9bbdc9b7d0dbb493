/* Shares memory with another process, frees it and allocates again: the other never sees what is
 * not for it. The parent exports, the child imports; each waits for the other's word on a pipe. */
#include "driver/cuda_api.h"
#include "program.h"

#include <stdint.h>
#include <sys/wait.h>
#include <unistd.h>

#define CHECK(call) REQUIRE((call) == CUDA_SUCCESS)

enum { BYTES = 3 << 20, SHARES = 5 };

static int to_child[2], to_parent[2];

struct word {
    CUipcMemHandle handle;
    int result;
    unsigned char seen;
};

static void say(int pipe, const struct word *word) {
    REQUIRE(write(pipe, word, sizeof *word) == (ssize_t)sizeof *word);
}

static struct word hear(int pipe) {
    struct word word;
    REQUIRE(read(pipe, &word, sizeof word) == (ssize_t)sizeof word);
    return word;
}

static void start(void) {
    CUcontext context;
    CHECK(cuInit(0));
    CHECK(cuDevicePrimaryCtxRetain(&context, 0));
    CHECK(cuCtxSetCurrent(context));
}

/* Opens what it is sent and says what it sees, before and after the exporter has gone on. */
static void import(void) {
    start();
    for (int i = 0; i < SHARES; i++) {
        struct word word = hear(to_child[0]);
        CUdeviceptr mapped = 0;
        word.result = (int)cuIpcOpenMemHandle_v2(&mapped, word.handle, 1);
        if (word.result == 0)
            CHECK(cuMemcpyDtoH_v2(&word.seen, mapped + BYTES - 1, 1));
        say(to_parent[1], &word);
        hear(to_child[0]);
        if (word.result == 0) {
            CHECK(cuMemcpyDtoH_v2(&word.seen, mapped + BYTES - 1, 1));
            CHECK(cuIpcCloseMemHandle(mapped));
        }
        say(to_parent[1], &word);
        word = hear(to_child[0]);
        word.result = (int)cuIpcOpenMemHandle_v2(&mapped, word.handle, 1); /* freed long ago */
        say(to_parent[1], &word);
    }
}

static void export(void) {
    start();
    for (int i = 0; i < SHARES; i++) {
        struct word word = {.result = 0};
        CUdeviceptr shared, next;
        CHECK(cuMemAlloc_v2(&shared, BYTES));
        CHECK(cuMemsetD8_v2(shared, (unsigned char)(10 + i), BYTES));
        CHECK(cuIpcGetMemHandle(&word.handle, shared));
        CHECK(cuCtxSynchronize());
        say(to_child[1], &word);
        struct word first = hear(to_parent[0]);
        CHECK(cuMemFree_v2(shared));
        CHECK(cuMemAlloc_v2(&next, BYTES)); /* the same size from the same thread */
        CHECK(cuMemsetD8_v2(next, 99, BYTES));
        CHECK(cuCtxSynchronize());
        say(to_child[1], &word);
        struct word second = hear(to_parent[0]);
        say(to_child[1], &word);
        struct word third = hear(to_parent[0]);
        CHECK(cuMemFree_v2(next));
        printf("opened %d, saw %d, then %d, opened late %d\n", first.result, first.seen,
               second.seen, third.result);
    }
}

int main(void) {
    int status = 0;
    REQUIRE(pipe(to_child) == 0 && pipe(to_parent) == 0);
    pid_t child = fork();
    if (child == 0) {
        import();
        return 0;
    }
    export();
    waitpid(child, &status, 0);
    printf("child %d\n", status);
    return 0;
}
