/* A library that registers handlers of fork before main() begins. */
#include <pthread.h>
#include <stddef.h>

extern void (*fork_handlers_work)(void);
void (*fork_handlers_work)(void);

static void call(void) {
    if (fork_handlers_work)
        fork_handlers_work();
}

__attribute__((constructor)) static void begin(void) {
    pthread_atfork(call, call, NULL);
}
