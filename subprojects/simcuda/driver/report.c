#include "report.h"

#include "allocate.h"
#include "cost.h"
#include "settings.h"

#include <fcntl.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { HAZARDS_KEPT = 1000, UNSERVED_KEPT = 1000 };

/* Something that was asked for and not served. */
struct unserved {
    const char *call;
    char *detail; /* what the call asked for; "": the call is not simulated */
    uint64_t times;
};

static const char *const names[ENTRY_POINT_COUNT] = {
#define ENTRY(symbol, base, since, form) #symbol,
#include "entry_points.def"
#include "unsimulated.def"
#undef ENTRY
};

static _Atomic uint64_t calls[ENTRY_POINT_COUNT];
static _Atomic uint64_t calls_by_caller;
static const char *_Atomic injected; /* the entry point that was made to fail */
static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER; /* guards what follows */
static int64_t held;
static int64_t peak_held;
static uint64_t hazards;
static char *hazard_lines[HAZARDS_KEPT];        /* the first `hazards` of them are set */
static struct unserved unserved[UNSERVED_KEPT]; /* the first unserved_count; later ones are lost */
static size_t unserved_count;
static _Atomic bool forked;

const char *report_name(enum entry_point entry) {
    return names[entry];
}

void report_count_call(enum entry_point entry) {
    atomic_fetch_add_explicit(&calls[entry], 1, memory_order_relaxed);
}

uint64_t report_count_by_caller(void) {
    return atomic_fetch_add_explicit(&calls_by_caller, 1, memory_order_relaxed) + 1;
}

void report_injected(enum entry_point entry) {
    injected = names[entry];
}

void report_held(int64_t bytes) {
    pthread_mutex_lock(&mutex);
    held += bytes;
    if (held > peak_held)
        peak_held = held;
    pthread_mutex_unlock(&mutex);
}

void report_hazard(const char *line) {
    fprintf(stderr, "simcuda: hazard: %s\n", line);
    pthread_mutex_lock(&mutex);
    if (hazards < HAZARDS_KEPT) {
        size_t size = strlen(line) + 1;

        hazard_lines[hazards] = memcpy(allocate_zeroed(size), line, size);
    }
    hazards++;
    pthread_mutex_unlock(&mutex);
    if (settings()->hazard_aborts)
        abort();
}

void report_unserved(const char *detail) {
    const char *call = entry_name();
    struct unserved *same = unserved;

    pthread_mutex_lock(&mutex);
    while (same < unserved + unserved_count &&
           (same->call != call || strcmp(same->detail, detail) != 0))
        same++;
    if (same == unserved + unserved_count && unserved_count < UNSERVED_KEPT) {
        size_t size = strlen(detail) + 1;

        *same = (struct unserved){call, memcpy(allocate_zeroed(size), detail, size), 0};
        unserved_count++;
    }
    if (same < unserved + unserved_count)
        same->times++;
    pthread_mutex_unlock(&mutex);
}

SIM_EXPORT uint64_t simcuda_hazards(void) {
    uint64_t count;

    pthread_mutex_lock(&mutex);
    count = hazards;
    pthread_mutex_unlock(&mutex);
    return count;
}

void report_forget_after_fork(void) {
    forked = true;
}

/* The report's path with every %p replaced by the process id. */
static void expand(const char *pattern, char *path, size_t size) {
    size_t used = 0;

    while (*pattern != '\0' && used + 24 < size) {
        if (pattern[0] == '%' && pattern[1] == 'p') {
            used += (size_t)snprintf(path + used, size - used, "%ld", (long)getpid());
            pattern += 2;
        } else {
            path[used++] = *pattern++;
        }
    }
    path[used] = '\0';
}

/* As the process ends. A handler that calls exit may have interrupted a call that has the lock,
 * and would wait for itself: after a while the figures are read as they are. */
static bool locked_in_time(void) {
    struct timespec until;

    clock_gettime(CLOCK_REALTIME, &until);
    until.tv_sec++;
    return pthread_mutex_timedlock(&mutex, &until) == 0;
}

/* Without the heap, in which the call that was interrupted may have been. */
__attribute__((format(printf, 2, 3))) static void put(int out, const char *format, ...) {
    char line[8192];
    va_list values;
    int length;

    va_start(values, format);
    length = vsnprintf(line, sizeof line, format, values);
    va_end(values);
    (void)!write(out, line, length < (int)sizeof line ? (size_t)length : sizeof line - 1);
}

static void write_figures(int out) {
    bool locked = locked_in_time();

    for (size_t i = 0; i < ENTRY_POINT_COUNT; i++)
        if (calls[i] != 0)
            put(out, "calls.%s %llu\n", names[i], (unsigned long long)calls[i]);
    if (settings()->fail_call != 0 || settings()->fail_caller != NULL)
        put(out, "calls_by_caller %llu\n", (unsigned long long)calls_by_caller);
    if (injected != NULL)
        put(out, "injected %s\n", injected);
    put(out, "held_bytes %lld\npeak_held_bytes %lld\nmodelled_ns %llu\nhazards %llu\n",
        (long long)held, (long long)peak_held, (unsigned long long)cost_modelled_ns(),
        (unsigned long long)hazards);
    for (uint64_t i = 0; i < hazards && i < HAZARDS_KEPT; i++)
        put(out, "hazard.%llu %s\n", (unsigned long long)i, hazard_lines[i]);
    for (size_t i = 0; i < unserved_count; i++)
        put(out, "unserved.%zu %s %s%s%llu\n", i, unserved[i].call, unserved[i].detail,
            *unserved[i].detail == '\0' ? "" : " ", (unsigned long long)unserved[i].times);
    if (locked)
        pthread_mutex_unlock(&mutex);
}

/* SIMCUDA_REPORT=1: what stands between the program and its running as on a GPU. */
static void list_unserved(void) {
    bool locked = locked_in_time();

    if (unserved_count == 0)
        fprintf(stderr, "simcuda: all that was asked for was served\n");
    for (size_t i = 0; i < unserved_count; i++)
        fprintf(stderr, "simcuda: not served: %s%s%s: %llu times\n", unserved[i].call,
                *unserved[i].detail == '\0' ? "" : ": ", unserved[i].detail,
                (unsigned long long)unserved[i].times);
    if (locked)
        pthread_mutex_unlock(&mutex);
}

__attribute__((destructor)) static void write_report(void) {
    char path[4096];
    int out;

    if (settings()->report == NULL || forked)
        return;
    if (strcmp(settings()->report, "1") == 0) {
        list_unserved();
        return;
    }
    expand(settings()->report, path, sizeof path);
    out = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
    if (out < 0) {
        fprintf(stderr, "simcuda: SIMCUDA_REPORT=\"%s\": cannot be written, no report\n", path);
        return;
    }
    write_figures(out);
    close(out);
}
