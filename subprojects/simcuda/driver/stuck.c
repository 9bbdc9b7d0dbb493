/* A thread that looks at all others every few milliseconds, as the kernel shows them in /proc.
 *
 * A thread that sleeps in a futex call without a time limit goes on only if another thread wakes
 * it. All are looked at twice: one whose count of context switches has not changed has been there
 * in between, so there was a moment at which all were. Work that waits for a value only
 * reads it: it does nothing for anybody before that is there. It reads with the lock, though, for
 * which others may wait: so in between it is seen to pause, which it does without. Where /proc
 * cannot be read nobody is ever found stuck. */
#include "stuck.h"

#include "cuda_symbols.h"
#include "entry.h"
#include "lock.h"
#include "settings.h"
#include "values.h"

#include <dirent.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>
#include <utlist.h>

enum { THREADS_MAX = 1024 };

/* A thread that waits, and how often it had given up the processor by then. */
struct waiting_thread {
    pid_t thread;
    unsigned long long switches;
};

/* The threads that poll at one moment. */
struct polling {
    pid_t threads[THREADS_MAX];
    int count;
    uint64_t changes;
    bool released; /* one goes on by itself */
};

static struct host_wait *host_waits;

static pid_t this_thread(void) {
    return (pid_t)syscall(SYS_gettid);
}

void stuck_wait_begin(struct host_wait *wait) {
    sim_check_held();
    *wait = (struct host_wait){.call = entry_name()};
    DL_APPEND(host_waits, wait);
}

void stuck_wait_end(struct host_wait *wait) {
    sim_check_held();
    DL_DELETE(host_waits, wait);
}

SIM_EXPORT unsigned int simcuda_waits(void) {
    const struct host_wait *wait;
    unsigned int count;

    sim_lock();
    DL_COUNT(host_waits, wait, count);
    sim_unlock();
    return count;
}

/* Says so, and which calls of the driver's do not return. */
static void tell(void) {
    const struct host_wait *wait;

    sim_lock();
    fprintf(stderr, "simcuda: stuck: every thread waits%s", host_waits != NULL ? ", in:" : "");
    DL_FOREACH(host_waits, wait)
    fprintf(stderr, " %s", wait->call);
    fprintf(stderr, "\n");
    sim_unlock();
}

/* The threads that poll now. Lock held. */
static struct polling polling_now(void) {
    sim_check_held();
    struct polling now = {.changes = value_wait_changes()};
    const struct value_wait *wait;

    DL_FOREACH(value_waits(), wait) {
        now.released |= value_wait_may_end(wait);
        if (now.count < THREADS_MAX)
            now.threads[now.count++] = wait->thread;
    }
    return now;
}

static bool polls(const struct polling *polling, pid_t thread) {
    for (int i = 0; i < polling->count; i++)
        if (polling->threads[i] == thread)
            return true;
    return false;
}

static FILE *open_task(const char *thread, const char *name) {
    char path[64];

    snprintf(path, sizeof path, "/proc/self/task/%.16s/%s", thread, name);
    return fopen(path, "re");
}

/* The system call that a thread is in. False if it is in none that sleeps. */
static bool call_of(const char *thread, unsigned long long *number, unsigned long long *fourth) {
    FILE *file = open_task(thread, "syscall");
    unsigned long long first, second, third;
    bool found = file != NULL && fscanf(file, "%llu %llx %llx %llx %llx", number, &first, &second,
                                        &third, fourth) == 5;

    if (file != NULL)
        fclose(file);
    return found;
}

static bool waits_without_limit(const char *thread) {
    unsigned long long number, limit;

    return call_of(thread, &number, &limit) && number == SYS_futex && limit == 0;
}

static bool all_pause(const struct polling *polling) {
    for (int i = 0; i < polling->count; i++) {
        unsigned long long number, fourth;
        char thread[16];

        snprintf(thread, sizeof thread, "%d", polling->threads[i]);
        if (!call_of(thread, &number, &fourth) ||
            (number != SYS_clock_nanosleep && number != SYS_nanosleep))
            return false;
    }
    return true;
}

/* How often it has given up the processor; 0 if it is not one that just sleeps: a thread whose
 * memory is fetched within the call goes on by itself. */
static unsigned long long switches_of(const char *thread) {
    FILE *file = open_task(thread, "status");
    unsigned long long count = 0, both = 0;
    char line[256], state = '?';

    while (file != NULL && fgets(line, sizeof line, file) != NULL)
        if (sscanf(line, "State: %c", &state) != 1 &&
            (sscanf(line, "voluntary_ctxt_switches: %llu", &count) == 1 ||
             sscanf(line, "nonvoluntary_ctxt_switches: %llu", &count) == 1))
            both += count;
    if (file != NULL)
        fclose(file);
    return state == 'S' ? both : 0;
}

/* Looks at all threads but this one and those that poll. Returns how many, -1 if one of them may do
 * something. Lock not held: who waits for it would seem to wait for ever. */
static int look(const struct polling *polling, struct waiting_thread *threads) {
    sim_check_none();
    DIR *folder = opendir("/proc/self/task");
    const struct dirent *entry;
    unsigned long long switches;
    int count = 0;

    while (folder != NULL && count >= 0 && (entry = readdir(folder)) != NULL) {
        pid_t thread = (pid_t)strtol(entry->d_name, NULL, 10);

        if (thread <= 0 || thread == this_thread() || polls(polling, thread))
            continue;
        if (count == THREADS_MAX || !waits_without_limit(entry->d_name) ||
            (switches = switches_of(entry->d_name)) == 0)
            count = -1;
        else
            threads[count++] = (struct waiting_thread){thread, switches};
    }
    if (folder == NULL)
        return -1;
    closedir(folder);
    return count;
}

static bool same(const struct waiting_thread *one, const struct waiting_thread *other, int count) {
    for (int i = 0; i < count; i++)
        if (one[i].thread != other[i].thread || one[i].switches != other[i].switches)
            return false;
    return true;
}

static struct polling ask_polling(void) {
    struct polling now;

    sim_lock();
    now = polling_now();
    sim_unlock();
    return now;
}

static bool is_stuck(void) {
    static struct waiting_thread before[THREADS_MAX], after[THREADS_MAX];
    static struct polling polling, still;
    int count;

    polling = ask_polling();
    count = look(&polling, before);
    if (count < 0 || !all_pause(&polling) || look(&polling, after) != count ||
        !same(before, after, count))
        return false;
    still = ask_polling();
    return still.changes == polling.changes && !still.released;
}

static void *watch(void *argument) {
    const struct timespec pause = {.tv_nsec = 10000000};

    while (!is_stuck())
        nanosleep(&pause, NULL);
    tell();
    abort();
    return argument;
}

static void start(void) {
    pthread_attr_t attributes;
    pthread_t thread;

    pthread_attr_init(&attributes);
    pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED);
    if (pthread_create(&thread, &attributes, watch, NULL) != 0)
        abort(); /* a test would wait for ever */
    pthread_attr_destroy(&attributes);
}

void stuck_watch(void) {
    sim_check_none();
    static pthread_once_t started = PTHREAD_ONCE_INIT;

    if (settings()->stuck != 0)
        pthread_once(&started, start);
}
