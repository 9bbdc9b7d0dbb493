/* What several threads do in caches of their own (pool/cache.h), in an order that the test sets. */
#include "peers/own_open.h"
#include "pool_test.h"

#include <semaphore.h>
#include <sys/mman.h>
#include <unistd.h>

/* A thread that makes one call at a time, for the test to wait for. */
struct worker {
    pthread_t thread;
    sem_t asked, answered;
    void (*call)(struct worker *worker);
    CUdeviceptr pointer;
    size_t bytes;
    uintptr_t number;
    CUresult result; /* of what may fail */
};

static void *work(void *state) {
    struct worker *worker = state;
    while (sem_wait(&worker->asked) == 0 && worker->call) {
        worker->call(worker);
        sem_post(&worker->answered);
    }
    return NULL;
}

static void worker_start(struct worker *worker) {
    sem_init(&worker->asked, 0, 0);
    sem_init(&worker->answered, 0, 0);
    assert_int_equal(pthread_create(&worker->thread, NULL, work, worker), 0);
}

static void worker_do(struct worker *worker, void (*call)(struct worker *worker)) {
    worker->call = call;
    sem_post(&worker->asked);
    if (call)
        sem_wait(&worker->answered);
    else
        pthread_join(worker->thread, NULL);
}

/* The calls alone: looking at the ledger would merge the caches. */
static void plain_alloc(struct worker *worker) {
    struct call_site key = site(worker->number);
    assert_int_equal(pool_malloc(pool, &worker->pointer, worker->bytes, &key), CUDA_SUCCESS);
}

static void plain_free(struct worker *worker) {
    assert_int_equal(pool_free(pool, worker->pointer), CUDA_SUCCESS);
}

static void alloc_and_free(struct worker *worker) {
    plain_alloc(worker);
    plain_free(worker);
}

/* In caches frees are served as well: their wait is owed. */
static int start_owing(void **state) {
    struct pool_config config = pool_defaults;
    (void)state;
    config.free_mode = POOL_FREE_AUTO;
    start_with(&config, 80 * GIB);
    return 0;
}

/* Until caches serve long rows of calls. */
static void grow_old(void) {
    struct worker self = {.bytes = KIB, .number = 99};
    for (int i = 0; i < 1100; i++)
        alloc_and_free(&self);
}

/* The first of three merges frees of more than the ledger has, of what the last has allocated. */
static void peaks_hold_though_threads_free_what_others_have_allocated(void **state) {
    (void)state;
    struct worker first = {.bytes = 100 * MIB, .number = 1};
    struct worker second = {.bytes = KIB, .number = 2}, third = {.bytes = 100 * MIB, .number = 1};
    worker_start(&second);
    worker_start(&third);
    alloc(KIB); /* the last live block */
    grow_old();
    alloc_and_free(&first);
    worker_do(&second, alloc_and_free);
    worker_do(&third, alloc_and_free);
    assert_true(pool_is_valid(pool));
    worker_do(&third, plain_alloc);
    first.pointer = third.pointer;
    plain_free(&first);
    worker_do(&second, plain_alloc);
    assert_true(pool_is_valid(pool));
    struct pool_usage figures;
    pool_usage(pool, 0, &figures);
    assert_in_range(figures.peak_live, 100 * MIB, 101 * MIB);
    assert_in_range(stats_get(STATS_peak_live_bytes), 100 * MIB, 101 * MIB);
    assert_in_range(TAILQ_FIRST(&pool->devices)->peak_in_use, 100 * MIB, 101 * MIB);
    worker_do(&second, NULL);
    worker_do(&third, NULL);
}

static struct worker *in_between;

static void end_and_use_anew(struct worker *worker) {
    pool_context_ending(pool, fake.current);
    plain_alloc(worker);
}

static void end_context_now(void) {
    fake.on_alloc = NULL;
    worker_do(in_between, end_and_use_anew);
}

/* The cache of the old context may be the new one's by then. */
static void a_miss_is_not_recorded_in_a_context_that_replaced_its_own(void **state) {
    (void)state;
    struct worker self = {.bytes = 3 * KIB, .number = 1}, other = {.bytes = KIB, .number = 2};
    worker_start(&other);
    in_between = &other;
    alloc(KIB);
    grow_old();
    pool_release(pool, 0, SIZE_MAX);
    plain_alloc(&self); /* prepares the next */
    fake.on_alloc = end_context_now;
    plain_alloc(&self);
    fake.on_alloc = NULL;
    assert_true(pool_is_valid(pool));
    worker_do(&other, NULL);
}

static const struct policy *policy_named(const char *name) {
    for (size_t i = 0; i < policy_count; i++)
        if (strcmp(policies[i].name, name) == 0)
            return &policies[i];
    return NULL;
}

static void any_alloc(struct worker *worker) {
    struct call_site key = site(worker->number);
    worker->result = pool_malloc(pool, &worker->pointer, worker->bytes, &key);
}

static sem_t refused;

static void note_refusal(void) {
    fake.on_refusal = NULL;
    sem_post(&refused);
}

/* Another thread's request is refused because of what this one has just been given. That one is
 * left the time in which it would fail. */
static void ask_for_the_rest(void) {
    static const struct timespec moment = {.tv_nsec = 20000000};
    fake.on_granted = NULL;
    fake.on_refusal = note_refusal;
    in_between->call = any_alloc;
    sem_post(&in_between->asked);
    sem_wait(&refused);
    nanosleep(&moment, NULL);
}

/* What the first request leaves of its region serves the other one, and the driver has less. */
static void assert_rest_serves(const char *policy, size_t first, uint64_t device) {
    struct pool_config config = pool_defaults;
    struct worker other = {.bytes = 10 * MIB, .number = 2};
    config.policy = policy_named(policy);
    config.max_idle = (struct limit){.kind = LIMIT_PERCENT, .percent = 100};
    stop(NULL);
    start_with(&config, device);
    sem_init(&refused, 0, 0);
    worker_start(&other);
    in_between = &other;
    fake.on_granted = ask_for_the_rest;
    quick_alloc(first, 1);
    sem_wait(&other.answered);
    assert_int_equal(other.result, CUDA_SUCCESS);
    assert_int_equal(fake.allocs, 1);
    assert_true(pool_is_valid(pool));
    worker_do(&other, NULL);
}

static void a_request_waits_for_the_rest_of_what_another_thread_has_just_been_given(void **state) {
    (void)state;
    assert_rest_serves("segments", 3 * MIB, 24 * MIB);
    assert_rest_serves("bfc", 17 * MIB, 40 * MIB);
}

static sem_t asks, goes;

static void stay_in_driver(void) {
    fake.on_alloc = NULL;
    sem_post(&asks);
    sem_wait(&goes);
}

/* Another thread asks the driver for more than it needs, and has no answer for as long as this one
 * has none. */
static void begin_another_request(void) {
    fake.on_info = NULL;
    fake.on_alloc = stay_in_driver;
    in_between->call = any_alloc;
    sem_post(&in_between->asked);
    sem_wait(&asks);
}

static void a_request_does_not_wait_for_one_that_was_made_after_its_refusal(void **state) {
    struct pool_config config = pool_defaults;
    struct worker self = {.bytes = 10 * MIB, .number = 1}, other = {.bytes = KIB, .number = 2};
    config.policy = policy_named("segments");
    config.max_idle = (struct limit){.kind = LIMIT_PERCENT, .percent = 100};
    stop(state);
    start_with(&config, 24 * MIB);
    sem_init(&asks, 0, 0);
    sem_init(&goes, 0, 0);
    worker_start(&other);
    in_between = &other;
    alloc(24 * MIB);
    fake.on_info = begin_another_request;
    any_alloc(&self);
    assert_null(fake.on_info);
    assert_int_equal(self.result, CUDA_ERROR_OUT_OF_MEMORY);
    assert_int_equal(stats_get(STATS_wait_ns), 0);
    sem_post(&goes);
    sem_wait(&other.answered);
    assert_int_equal(other.result, CUDA_ERROR_OUT_OF_MEMORY);
    assert_true(pool_is_valid(pool));
    worker_do(&other, NULL);
}

static void be_cancelled(void) {
    fake.on_alloc = NULL;
    pthread_exit(NULL);
}

static void *ask_and_be_cancelled(void *unused) {
    CUdeviceptr pointer;
    struct call_site key = site(2);
    fake.on_alloc = be_cancelled;
    pool_malloc(pool, &pointer, 3 * MIB, &key);
    return unused;
}

/* Its stack is gone afterwards, and with it all that it had there. */
static void cancel_a_thread_in_the_driver(void) {
    const size_t bytes = MIB;
    pthread_t thread;
    pthread_attr_t attributes;
    void *stack =
        mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_STACK, -1, 0);
    assert_ptr_not_equal(stack, MAP_FAILED);
    pthread_attr_init(&attributes);
    assert_int_equal(pthread_attr_setstack(&attributes, stack, bytes), 0);
    assert_int_equal(pthread_create(&thread, &attributes, ask_and_be_cancelled, NULL), 0);
    pthread_join(thread, NULL);
    pthread_attr_destroy(&attributes);
    munmap(stack, bytes);
}

static void a_thread_that_is_cancelled_in_the_driver_leaves_nothing_of_its_stack(void **state) {
    static const char *const names[] = {"segments", "bfc"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        struct pool_config config = pool_defaults;
        struct worker self = {.bytes = 30 * MIB, .number = 1};
        config.policy = policy_named(names[i]);
        config.max_idle = (struct limit){.kind = LIMIT_PERCENT, .percent = 100};
        stop(state);
        start_with(&config, 80 * MIB);
        cancel_a_thread_in_the_driver();
        any_alloc(&self);
        assert_int_equal(self.result, CUDA_SUCCESS);
        alloc(30 * MIB);
        any_alloc(&self);
        assert_int_equal(self.result, CUDA_ERROR_OUT_OF_MEMORY);
        assert_true(pool_is_valid(pool));
    }
}

static int looks;

static void count_look(struct pool *looked) {
    (void)looked;
    looks++;
}

/* The budget of calls begins before a free, or before an allocation. */
static int looks_in_turns(bool begin_with_free) {
    struct worker self = {.bytes = KIB, .number = 1};
    alloc(KIB);
    grow_old();
    alloc_and_free(&self);
    if (begin_with_free)
        plain_alloc(&self);
    assert_true(pool_is_valid(pool));
    if (!begin_with_free)
        plain_alloc(&self);
    looks = 0;
    for (int i = 0; i < 8; i++) {
        usleep(60 * 1000); /* more than after which a call is to go the long way */
        for (int j = 0; j < 300; j++) {
            plain_free(&self);
            plain_alloc(&self);
        }
    }
    return looks;
}

static void frees_go_the_long_way_now_and_then_whatever_the_calls_between(void **state) {
    struct pool_config config = pool_defaults;
    config.free_mode = POOL_FREE_AUTO;
    config.look_around = count_look;
    for (int begin = 0; begin < 2; begin++) {
        stop(state);
        start_with(&config, 80 * GIB);
        assert_true(looks_in_turns(begin) > 0);
    }
}

static void a_forked_child_counts_from_zero(void **state) {
    (void)state;
    struct worker self = {.bytes = KIB, .number = 1};
    alloc(KIB);
    grow_old();
    for (int i = 0; i < 100; i++)
        alloc_and_free(&self);
    plain_alloc(&self);
    go_on_as_child();
    alloc(5 * KIB);
    assert_int_equal(stats_get(STATS_in_use_bytes), 5 * KIB);
    assert_int_equal(stats_get(STATS_live_blocks), 1);
    assert_int_equal(stats_get(STATS_held_bytes), 5 * KIB);
    assert_int_equal(stats_get(STATS_idle_blocks), 0);
}

#define OWING(name) cmocka_unit_test_setup_teardown(name, start_owing, stop)

/* The stats page is still the parent's when the child lets go of its caches. */
static void a_forked_child_leaves_its_parents_figures_alone(void **state) {
    (void)state;
    struct worker self = {.bytes = KIB, .number = 1}, other = self;
    worker_start(&other);
    alloc_at(KIB, 2);
    grow_old();
    alloc_and_free(&self); /* so this thread's cache has the site's record to itself */
    for (int i = 0; i < 10; i++)
        worker_do(&other, alloc_and_free);
    struct call_site key = site(1);
    const struct stats_site *figures = context_site(pool, LIST_FIRST(&pool->contexts), &key)->stats;
    uint64_t hits = stats_read(&figures->hits), bytes = stats_read(&figures->allocated_bytes);
    struct pool_config config;
    pool_leave_after_fork(pool, &config);
    assert_int_equal(stats_read(&figures->hits), hits);
    assert_int_equal(stats_read(&figures->allocated_bytes), bytes);
    stats_forget_after_fork();
    stats_open(NULL, false, NULL);
    pool = pool_create(&config, fake_driver());
    worker_do(&other, NULL);
}

/* What every call answers in a host function, where the driver permits none. */
static void enter_host_function(void) {
    fake.current = NULL;
    fake.current_result = fake.free_result = CUDA_ERROR_NOT_PERMITTED;
}

static void leave_host_function(void) {
    fake.current = fake_context(0, 1);
    fake.current_result = fake.free_result = CUDA_SUCCESS;
}

static CUdeviceptr shared_block;

static void free_in_host_function(void) {
    fake.on_wait = NULL;
    enter_host_function();
    assert_int_equal(pool_free(pool, shared_block), CUDA_ERROR_NOT_PERMITTED);
    leave_host_function();
}

static void a_host_function_may_free_nothing_though_a_free_of_the_block_is_waiting(void **state) {
    (void)state;
    shared_block = alloc(KIB);
    fake.on_wait = free_in_host_function;
    release(shared_block);
    assert_null(fake.on_wait);
    assert_int_equal(stats_get(STATS_free_double), 0);
}

static void free_outside(CUdeviceptr pointer) {
    (void)pointer;
    fake.on_free = NULL;
    leave_host_function();
    release(shared_block);
    enter_host_function();
}

static void a_block_freed_while_a_host_function_is_refused_its_free_is_free(void **state) {
    (void)state;
    struct pool_usage usage;
    shared_block = alloc(KIB);
    fake.on_free = free_outside;
    enter_host_function();
    assert_int_equal(try_free(shared_block), CUDA_ERROR_NOT_PERMITTED);
    leave_host_function();
    assert_null(fake.on_free);
    pool_usage(pool, POOL_ALL_DEVICES, &usage);
    assert_int_equal(usage.live_blocks, 0);
    assert_int_equal(usage.idle_blocks, 1);
}

static void a_host_function_disowns_nothing(void **state) {
    (void)state;
    shared_block = alloc(KIB);
    enter_host_function();
    assert_null(pool_disown(pool, shared_block));
    leave_host_function();
    release(shared_block);
    assert_int_equal(stats_get(STATS_free_unknown), 0);
}

/* Of the sites' blocks the smallest are in the second of two caches, the other site's first. */
static void
a_sites_own_block_serves_before_anothers_of_its_size_whichever_cache_has_it(void **state) {
    (void)state;
    enum { OWN = 1, OTHER = 2 };
    struct worker first = {.bytes = 10 * KIB, .number = OWN}, second = {.bytes = 8 * KIB};
    worker_start(&first);
    worker_start(&second);
    alloc(KIB); /* the last live block */
    grow_old();
    worker_do(&first, plain_alloc);
    second.number = OWN;
    worker_do(&second, plain_alloc);
    CUdeviceptr own = second.pointer;
    second.number = OTHER;
    worker_do(&second, plain_alloc);
    CUdeviceptr other = second.pointer;
    worker_do(&first, plain_free);
    second.pointer = own;
    worker_do(&second, plain_free);
    second.pointer = other;
    worker_do(&second, plain_free);
    assert_true(alloc_at(7 * KIB + 512, OWN) == own);
    assert_int_equal(stats_get(STATS_malloc_stolen), 0);
    worker_do(&first, NULL);
    worker_do(&second, NULL);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        OWING(peaks_hold_though_threads_free_what_others_have_allocated),
        OWING(a_miss_is_not_recorded_in_a_context_that_replaced_its_own),
        OWING(frees_go_the_long_way_now_and_then_whatever_the_calls_between),
        OWING(a_sites_own_block_serves_before_anothers_of_its_size_whichever_cache_has_it),
        OWING(a_forked_child_leaves_its_parents_figures_alone),
        OWING(a_forked_child_counts_from_zero),
        TEST(a_request_waits_for_the_rest_of_what_another_thread_has_just_been_given),
        TEST(a_request_does_not_wait_for_one_that_was_made_after_its_refusal),
        TEST(a_thread_that_is_cancelled_in_the_driver_leaves_nothing_of_its_stack),
        TEST(a_host_function_may_free_nothing_though_a_free_of_the_block_is_waiting),
        TEST(a_host_function_disowns_nothing),
        TEST(a_block_freed_while_a_host_function_is_refused_its_free_is_free),
    };
    stats_open(NULL, false, NULL); /* sites with records of their own */
    return cmocka_run_group_tests(tests, NULL, NULL);
}
