#include "stress_log.h"

#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

enum { RINGS = 256, STEPS = 64, TOLD = 600 };

/* Atomic, since all are printed while the other threads go on. */
struct step {
    _Atomic uint64_t number; /* in the order of all threads, from 1 */
    _Atomic(const char *) what;
    _Atomic uint64_t pointer, value;
};

static struct step steps[RINGS][STEPS];
static unsigned next[RINGS]; /* each is its thread's own */
static _Atomic uint64_t count;
static atomic_bool
    told; /* then nothing more is noted: it would take the place of what is printed */

void log_note(int thread, const char *what, uint64_t pointer, uint64_t value) {
    if (atomic_load_explicit(&told, memory_order_relaxed))
        return;
    struct step *step = &steps[thread][next[thread]++ % STEPS];
    atomic_store_explicit(&step->what, what, memory_order_relaxed);
    atomic_store_explicit(&step->pointer, pointer, memory_order_relaxed);
    atomic_store_explicit(&step->value, value, memory_order_relaxed);
    atomic_store_explicit(&step->number, 1 + atomic_fetch_add(&count, 1), memory_order_release);
}

static void tell(int thread, struct step *step, uint64_t number) {
    char line[160];
    int length = snprintf(line, sizeof line, "%8llu thread %3d: %-18s %#14llx %llu\n",
                          (unsigned long long)number, thread, atomic_load(&step->what),
                          (unsigned long long)atomic_load(&step->pointer),
                          (unsigned long long)atomic_load(&step->value));
    if (length > 0 && write(STDERR_FILENO, line, (size_t)length) < 0)
        return;
}

/* Each step is looked for, rather than all be sorted: that takes no memory, and a program that a
 * signal ends may have none left. */
void log_tell(void) {
    static const char title[] = "the last steps: number, thread, step, pointer, value\n";
    if (atomic_exchange(&told, true))
        return;
    uint64_t last = atomic_load(&count), first = last > TOLD ? last - TOLD : 0;
    if (write(STDERR_FILENO, title, strlen(title)) < 0)
        return;
    for (uint64_t number = first + 1; number <= last; number++)
        for (int thread = 0; thread < RINGS; thread++)
            for (int i = 0; i < STEPS; i++)
                if (atomic_load_explicit(&steps[thread][i].number, memory_order_acquire) == number)
                    tell(thread, &steps[thread][i], number);
}

static void on_signal(int number) {
    log_tell();
    raise(number); /* as which it ends the program: the handler was for once */
}

void log_begin(void) {
    static const int ending[] = {SIGSEGV, SIGBUS, SIGILL, SIGFPE, SIGABRT, SIGTERM};
    for (size_t i = 0; i < sizeof ending / sizeof ending[0]; i++)
        sigaction(ending[i],
                  &(struct sigaction){.sa_handler = on_signal, .sa_flags = (int)SA_RESETHAND},
                  NULL);
}
