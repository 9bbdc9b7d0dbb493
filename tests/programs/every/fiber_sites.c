/* fiber_sites HOW: allocates and frees by the runtime at two sites, first on the thread's own
 * stack, then on stacks behind whose highest word nothing can be read, at every place of their last
 * pages. HOW is the way onto these: "context" (makecontext), "signal" (sigaltstack) or "hand";
 * "thread": all of it on a thread, by hand. */
#include "own_stack.h"

#include <cuda_runtime_api.h>
#include <pthread.h>
#include <signal.h>
#include <ucontext.h>

static void allocate(size_t bytes) {
    void *block;
    REQUIRE(cudaMalloc(&block, bytes) == cudaSuccess);
    REQUIRE(cudaFree(block) == cudaSuccess);
}

static ucontext_t before, fiber;
static const char *how;

static void first_site(void) {
    allocate(1000);
}

static void second_site(void) {
    allocate(1000000);
}

/* Deeper by `words`, where the frames lie elsewhere towards the pages. */
__attribute__((noinline)) static void deeper(size_t words) {
    volatile char *room = __builtin_alloca(words * sizeof(uint64_t) + 1);
    room[0] = 0;
    first_site();
    second_site();
    room[0] = 1;
}

static void begin(int words) {
    deeper((size_t)words);
}

static int begin_by_hand(uintptr_t words) {
    deeper(words);
    return 0;
}

static size_t signal_words;

static void begin_by_signal(int number) {
    (void)number;
    deeper(signal_words);
}

enum { SIZE = 262144 };

static void on_stack(char *end, size_t words) {
    if (strcmp(how, "context") == 0) {
        REQUIRE(getcontext(&fiber) == 0);
        fiber.uc_stack = (stack_t){.ss_sp = end - SIZE, .ss_size = SIZE};
        fiber.uc_link = &before;
        makecontext(&fiber, (void (*)(void))begin, 1, (int)words);
        REQUIRE(swapcontext(&before, &fiber) == 0);
    } else if (strcmp(how, "signal") == 0) {
        stack_t stack = {.ss_sp = end - SIZE, .ss_size = SIZE};
        struct sigaction action = {.sa_handler = begin_by_signal, .sa_flags = SA_ONSTACK};
        signal_words = words;
        REQUIRE(sigaltstack(&stack, NULL) == 0 && sigaction(SIGUSR1, &action, NULL) == 0);
        REQUIRE(raise(SIGUSR1) == 0);
    } else {
        own_stack_call((void *)begin_by_hand, end, words, NULL, 0);
    }
}

static void *run(void *nothing) {
    char *end = own_stack_make(SIZE);
    for (size_t words = 0; words < 2000; words += 7)
        deeper(words);
    for (size_t words = 0; words < 1600; words += 3)
        on_stack(end, words);
    return nothing;
}

int main(int argc, char **argv) {
    REQUIRE(argc == 2);
    how = argv[1];
    pthread_t thread;
    if (strcmp(how, "thread") == 0)
        REQUIRE(pthread_create(&thread, NULL, run, NULL) == 0 && pthread_join(thread, NULL) == 0);
    else
        run(NULL);
    puts("done");
    return 0;
}
