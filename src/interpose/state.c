#include "interpose/state.h"

#include "base/clock.h"
#include "base/format.h"
#include "base/futex.h"
#include "base/modules.h"
#include "base/output_file.h"
#include "base/segment.h"
#include "counters/page_file.h"
#include "counters/stats.h"
#include "interpose/bypass.h"
#include "interpose/go_between.h"
#include "interpose/hooks.h"
#include "interpose/host_memory.h"
#include "interpose/loader.h"
#include "interpose/rights.h"
#include "interpose/surroundings.h"
#include "options/pool_options.h"
#include "peers/ask_others.h"
#include "peers/own_open.h"
#include "report/own_report.h"
#include "report/report.h"
#include "report/shortage.h"
#include "trace/recorder.h"

#include <dlfcn.h>
#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { CHECK_WORD_SYNC = 2 }; /* of POOLCUDA_CHECK */

static struct options options;
static struct driver driver;
_Atomic(struct pool *) state_quick;
static _Atomic(struct pool *) pool;
_Atomic(struct check *) state_the_check;
/* Settings that were changed while there was no pool; under start_lock. */
static struct pool_config changed;
static unsigned changed_settings;
static struct pool *left; /* in a forked child: the parent's, for those who look for what is lost */

/* Invariant: phase changes under start_lock alone; options are valid unless it is NEW. FORKED: in a
 * child of a process that was READY, which has not used CUDA itself. */
enum phase { PHASE_NEW, PHASE_FORKED, PHASE_INERT, PHASE_READY };
static _Atomic int phase;
static pid_t owner; /* who became READY: a child of a bare clone() runs our destructor, too */
static pthread_mutex_t start_lock = PTHREAD_MUTEX_INITIALIZER;

static void publish(struct pool *made) {
    atomic_store(&pool, made);
    atomic_store(&state_quick, recorder_active() || options.check ? NULL : made);
}

static void say(const char *line) {
    char text[512];
    format(text, sizeof text, "%.510s\n", line);
    output_file_write(STDERR_FILENO, text, strlen(text)); /* if lost, there is nobody to tell */
}

void state_say_once(const char *line) {
    static atomic_bool said;
    if (!atomic_exchange(&said, true))
        say(line);
}

/* The locks that a thread has taken to fork: the child has them, too. In a fork within a fork, by a
 * signal's handler, they are the outer one's. */
static _Thread_local struct {
    int depth;
    bool start, loader, iterating;
} forking __attribute__((tls_model("initial-exec")));
static int (*_Atomic try_mutex)(pthread_mutex_t *); /* once there is a pool */

/* A thread that has the lock may be waiting for one of malloc's, which another handler of this fork
 * holds, or may be this one itself: so we wait but for a moment. */
static bool take_soon(pthread_mutex_t *mutex, uint64_t until) {
    int (*try)(pthread_mutex_t *) = try_mutex;
    if (!try)
        return !pthread_mutex_lock(mutex);
    while (try(mutex)) {
        if (clock_ns(CLOCK_MONOTONIC) >= until)
            return false;
        futex_pause();
    }
    return true;
}

static void drop(bool *taken, pthread_mutex_t *mutex) {
    if (*taken)
        pthread_mutex_unlock(mutex);
    *taken = false;
}

static void drop_taken(void) {
    drop(&forking.iterating, &modules_iterating);
    drop(&forking.loader, &loader_lock);
    drop(&forking.start, &start_lock);
}

/* What the pool, its check and the recorder guard is not taken: a child uses nothing of it. */
void state_fork_prepare(void) {
    static const uint64_t MOMENT_NS = 20 * 1000 * 1000;
    if (forking.depth++)
        return;
    int saved = errno;
    uint64_t until = clock_ns(CLOCK_MONOTONIC) + MOMENT_NS;
    forking.start = take_soon(&start_lock, until);
    forking.loader = take_soon(&loader_lock, until);
    forking.iterating = take_soon(&modules_iterating, until);
    errno = saved;
}

void state_fork_parent(void) {
    if (--forking.depth == 0)
        drop_taken();
}

/* Where a lock was not taken, what it guards may be half written, and the child goes without a
 * pool. It loses nothing by that: another thread was in the library, so CUDA was in use, and a
 * child that is forked then cannot use it. */
bool state_forget_after_fork(void) {
    struct pool *inherited = atomic_load(&pool);
    bool whole = forking.start && forking.loader;
    forking.depth--;
    drop_taken();
    loader_lock = start_lock = (pthread_mutex_t)PTHREAD_MUTEX_INITIALIZER;
    modules_iterating_anew();
    recorder_forget_after_fork();
    segment_forget_after_fork();
    if (inherited) {
        pool_leave_after_fork(inherited, &changed);
        changed_settings = ~0U;
        left = inherited;
    }
    publish(NULL);
    check_leave_after_fork(atomic_exchange(&state_the_check, NULL));
    if (atomic_load(&phase) == PHASE_READY) {
        stats_forget_after_fork();
        ask_forget_after_fork();
        atomic_store(&phase, PHASE_FORKED);
    }
    if (!whole)
        atomic_store(&phase, PHASE_INERT);
    return inherited != NULL;
}

/* Recycled memory is what a memory checker cannot judge: it has the program to itself. */
static void imply_disable(void) {
    const char *checker = options.disable ? NULL : surroundings_memory_checker(environ);
    char line[160];
    if (!checker)
        return;
    format(line, sizeof line,
           "poolcuda: %s watches this program: pooling is off, as with POOLCUDA_DISABLE=1",
           checker);
    say(line);
    options.disable = true;
}

/* What the program may open belongs to the one whose rights it has. */
static void imply_no_files(void) {
    if (!rights_are_lent())
        return;
    options_forget_files(&options);
    options.share = false;
}

static void start(void) {
    lock_take(&start_lock, LOCK_START);
    if (atomic_load(&phase) == PHASE_NEW) {
        options_parse(&options, environ, say);
        imply_no_files();
        go_between_name(options.site_skip);
        imply_disable();
    }
    if (atomic_load(&phase) == PHASE_NEW || atomic_load(&phase) == PHASE_FORKED) {
        if (!options.disable) {
            if (options.stats == STATS_FILE)
                page_file_stands_alone();
            stats_open(options.stats_file, options.share, say);
            shortage_open_log(options.log, say);
            recorder_open(options.trace, say);
        }
        owner = getpid();
        atomic_store(&phase, options.disable ? PHASE_INERT : PHASE_READY);
    }
    lock_drop(&start_lock, LOCK_START);
}

bool state_enabled(void) {
    int now = atomic_load_explicit(&phase, memory_order_acquire);
    if (now == PHASE_NEW || now == PHASE_FORKED) {
        start();
        now = atomic_load_explicit(&phase, memory_order_acquire);
    }
    return now == PHASE_READY;
}

static void say_nothing(const char *line) {
    (void)line;
}

bool state_shut_in(void) {
    static bool is_shut_in; /* prctl is called several times for it */
    lock_take(&start_lock, LOCK_START);
    bool ready = atomic_load(&phase) == PHASE_READY, own = !ready || getpid() == owner;
    if (!ready) {
        if (atomic_load(&phase) == PHASE_NEW)
            options_parse(&options, environ, say_nothing);
        options.disable = true;
        atomic_store(&phase, PHASE_INERT);
    } else if (own && !is_shut_in) {
        is_shut_in = true;
        stats_shut_in((enum stats_form)options.stats);
        recorder_finish();
        output_file_shut_in();
    }
    lock_drop(&start_lock, LOCK_START);
    return own;
}

const struct options *state_options(void) {
    return &options;
}

bool state_checks(void) {
    return state_enabled() && options.check;
}

bool state_checks_launches(void) {
    return state_checks() && options.check == CHECK_WORD_SYNC;
}

/* Under start_lock. Each free of the program's waits by itself, as what it frees is then looked at.
 */
static void create_check(struct pool *created) {
    const struct check_config config = {
#define OPTION(field, name, type, fallback, minimum, maximum, when, help)                          \
    OPTION_IF_CHECK_##when(.field = options.field, )
#include "options/options.def"
#undef OPTION
        .after_launches = options.check == CHECK_WORD_SYNC,
        .say = say,
    };
    if (options.check && created && !state_check())
        atomic_store(&state_the_check, check_create(&config, created, &driver));
}

/* The driver's entries are looked up before the lock is taken: the loader's own lock may be held by
 * a thread that runs a module's constructor and waits for ours. */
static struct pool *create(void) {
    struct driver entries;
    struct pool_config config = pool_config_from(&options);
    config.on_shortage =
        *options.log || options.stats || *options.stats_file ? shortage_tell : NULL;
    config.map = options.stats || *options.stats_file;
    config.host_memory = host_memory_size();
    config.say = state_say_once;
    config.ask_others = options.share ? ask_others : NULL;
    if (options.check && config.free_mode == POOL_FREE_AUTO)
        config.free_mode = POOL_FREE_SYNC;
    if (config.free_mode == POOL_FREE_AUTO)
        config.look_around = surroundings_look;
    /* not imported: every process would look it up at its start */
    *(void **)&config.set_cancel_state = loader_find_unasked("pthread_setcancelstate");
    real_ask_others();
    if (!driver_fill(&entries, real_find_had))
        return NULL;
    driver_compare(&entries, real_find_own);
    int (*try)(pthread_mutex_t *);
#ifdef __SANITIZE_THREAD__ /* which has to see that a lock is taken */
    try = pthread_mutex_trylock;
#else
    *(void **)&try = loader_find_unasked("pthread_mutex_trylock");
#endif
    lock_take(&start_lock, LOCK_START);
    struct pool *created = atomic_load(&pool);
    try_mutex = try;
    if (!created) {
        driver = entries;
        created = pool_create(&config, &driver);
        if (created)
            pool_set_config(created, &changed, changed_settings);
        changed_settings = 0;
        create_check(created);
        publish(created);
    }
    lock_drop(&start_lock, LOCK_START);
    return created;
}

struct pool *state_pool(void) {
    struct pool *current = atomic_load_explicit(&pool, memory_order_acquire);
    if (current)
        return current;
    return state_enabled() && real_load() ? create() : NULL;
}

bool state_configure(const struct pool_config *config, unsigned settings) {
    if (!state_enabled())
        return false;
    lock_take(&start_lock, LOCK_START);
    struct pool *current = atomic_load(&pool);
    if (current) {
        pool_set_config(current, config, settings);
    } else {
        pool_config_copy(&changed, config, settings);
        changed_settings |= settings;
    }
    lock_drop(&start_lock, LOCK_START);
    return true;
}

bool state_get_config(struct pool_config *config) {
    if (!state_enabled())
        return false;
    lock_take(&start_lock, LOCK_START);
    struct pool *current = atomic_load(&pool);
    if (current)
        pool_get_config(current, config);
    else
        *config = pool_config_from(&options);
    pool_config_copy(config, &changed, changed_settings);
    lock_drop(&start_lock, LOCK_START);
    return true;
}

/* Looked up, since what is imported costs every program at its start. */
static void flush_streams(void) {
    int (*flush)(FILE *);
    *(void **)&flush = loader_find(RTLD_DEFAULT, "fflush");
    if (flush)
        flush(NULL);
}

/* Whose figures can be had at the end. */
struct at_rest {
    bool pool, check, recorder;
};

/* The program may have called exit in a handler of a signal that came in the midst of a call of
 * ours on this very thread: what that call has locked stays so. Other threads are waited for a
 * moment. */
static struct at_rest come_to_rest(struct pool *current, struct check *check) {
    enum { STEP_NS = 1000 * 1000, STEPS = 100 };
    static const struct timespec step = {.tv_nsec = STEP_NS};
    int (*try)(pthread_mutex_t *) = try_mutex;
    struct at_rest rest = {!current || !try, !check || !try, !try};
    for (int i = 0; i < STEPS; i++) {
        rest.pool = rest.pool || pool_is_at_rest(current, try);
        rest.check = rest.check || check_is_at_rest(check, try);
        rest.recorder = rest.recorder || recorder_is_at_rest(try);
        if (rest.pool && rest.check && rest.recorder)
            break;
        syscall(SYS_nanosleep, &step, NULL);
    }
    return rest;
}

/* Makes no CUDA call: the driver may already be gone. */
__attribute__((destructor)) static void finish(void) {
    if (atomic_load(&phase) != PHASE_READY || getpid() != owner)
        return;
    struct pool *current = atomic_load(&pool);
    struct check *check = state_check();
    struct at_rest rest = come_to_rest(current, check);
    if (options.stats || *options.stats_file) {
        if (current && rest.pool)
            pool_note_end(current);
        bypass_report();
        surroundings_note_tools(environ);
    }
    if (rest.recorder)
        recorder_finish();
    uint64_t errors = check && rest.check ? check_finish(check) : 0;
    stats_finish((enum stats_form)options.stats);
    if (errors && options.check_exit) { /* as the user has asked: here the process ends */
        flush_streams();
        syscall(SYS_exit_group, (int)options.check_exit);
    }
}
