/* SIMCUDA_STUCK=1: a process whose threads all wait for one another ends, and no other does. */
#include "test_process.h"

#include <pthread.h>
#include <signal.h>
#include <sys/mman.h>
#include <time.h>

static volatile uint32_t *flag;

static void *wait_for_context(void *data) {
    assert_ok(cuCtxSetCurrent(test_context));
    cuCtxSynchronize();
    return data;
}

static void *set_later(void *data) {
    const struct timespec later = {.tv_nsec = 200000000}; /* many looks long */

    nanosleep(&later, NULL);
    __atomic_store_n(flag, 1, __ATOMIC_RELEASE);
    return data;
}

static void take_mutex(void *mutex) {
    pthread_mutex_lock(mutex);
}

/* Two streams wait for each other's writes. */
static int wait_for_values(void) {
    uint64_t *words;
    CUstream streams[2];
    CUdeviceptr address;
    void *memory;

    assert_ok(cuMemHostAlloc(&memory, 16, CU_MEMHOSTALLOC_DEVICEMAP));
    words = memory;
    words[0] = words[1] = 0;
    address = (CUdeviceptr)(uintptr_t)memory;
    for (int i = 0; i < 2; i++) {
        assert_ok(cuStreamCreate(&streams[i], CU_STREAM_NON_BLOCKING));
        assert_ok(cuStreamWaitValue64_v2(streams[i], address + 8 * (unsigned int)i, 1,
                                         CU_STREAM_WAIT_VALUE_EQ));
        assert_ok(cuStreamWriteValue64_v2(streams[i], address + 8 * (unsigned int)!i, 1, 0));
    }
    return cuCtxSynchronize() == CUDA_SUCCESS ? 0 : 1;
}

/* A word in a file: another process writes to it later, which this one cannot know of. */
static int share_word(pid_t *child) {
    int file = memfd_create("test", MFD_CLOEXEC);
    void *word;

    assert_int_equal(ftruncate(file, 8), 0);
    word = mmap(NULL, 8, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    *child = fork();
    if (*child == 0) {
        flag = word;
        set_later(NULL);
        _exit(0);
    }
    return file;
}

static int wait_for_all_work(pid_t child) {
    return cuCtxSynchronize() == CUDA_SUCCESS && waitpid(child, NULL, 0) == child ? 0 : 1;
}

static int wait_for_a_semaphore(void) {
    CUDA_EXTERNAL_SEMAPHORE_HANDLE_DESC from = {
        .type = CU_EXTERNAL_SEMAPHORE_HANDLE_TYPE_TIMELINE_SEMAPHORE_FD};
    CUDA_EXTERNAL_SEMAPHORE_WAIT_PARAMS wait = {.params.fence.value = 1};
    CUexternalSemaphore semaphore;
    pid_t child;

    from.handle.fd = share_word(&child);
    assert_ok(cuImportExternalSemaphore(&semaphore, &from));
    assert_ok(cuWaitExternalSemaphoresAsync(&semaphore, &wait, 1, NULL));
    return wait_for_all_work(child);
}

static int wait_for_memory_of_others(void) {
    CUDA_EXTERNAL_MEMORY_HANDLE_DESC from = {.type = CU_EXTERNAL_MEMORY_HANDLE_TYPE_OPAQUE_FD,
                                             .size = 8};
    CUDA_EXTERNAL_MEMORY_BUFFER_DESC buffer = {.size = 8};
    CUexternalMemory memory;
    CUdeviceptr word;
    pid_t child;

    from.handle.fd = share_word(&child);
    assert_ok(cuImportExternalMemory(&memory, &from));
    assert_ok(cuExternalMemoryGetMappedBuffer(&word, memory, &buffer));
    assert_ok(cuStreamWaitValue32_v2(NULL, word, 1, CU_STREAM_WAIT_VALUE_EQ));
    return wait_for_all_work(child);
}

enum { SLOW_READS = 400, PAGE = 4096, PAGES = 8 };

static char *slow_pages;
static volatile sig_atomic_t slow_reads;

/* A read of one of the pages takes 2 ms. */
static void give_page_slowly(int number, siginfo_t *information, void *context) {
    uintptr_t offset = (uintptr_t)information->si_addr - (uintptr_t)slow_pages;
    struct timespec now;
    long begin, passed;

    (void)number;
    (void)context;
    if (offset >= (uintptr_t)PAGES * PAGE)
        abort();
    clock_gettime(CLOCK_MONOTONIC, &now);
    begin = now.tv_nsec;
    do {
        clock_gettime(CLOCK_MONOTONIC, &now);
        passed = now.tv_nsec - begin;
    } while ((passed < 0 ? passed + 1000000000 : passed) < 2000000);
    mprotect(slow_pages + offset / PAGE * PAGE, PAGE, PROT_READ | PROT_WRITE);
    slow_reads++;
}

/* Streams wait for words, which the driver is reading most of the time, and meanwhile it lets
 * nobody else in: not this thread either, which asks it something. */
static int ask_beside_slow_reads(void) {
    const struct sigaction slowly = {.sa_sigaction = give_page_slowly, .sa_flags = SA_SIGINFO};
    CUdeviceptr address;
    CUstream stream;

    slow_pages = mmap(NULL, (size_t)PAGES * PAGE, PROT_READ | PROT_WRITE,
                      MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    assert_ok(cuMemHostRegister_v2(slow_pages, (size_t)PAGES * PAGE, CU_MEMHOSTREGISTER_DEVICEMAP));
    assert_ok(cuMemHostGetDevicePointer_v2(&address, slow_pages, 0));
    for (unsigned int i = 0; i < PAGES; i++) {
        assert_ok(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
        assert_ok(cuStreamWaitValue32_v2(stream, address + (CUdeviceptr)i * PAGE, 1,
                                         CU_STREAM_WAIT_VALUE_EQ));
    }
    sigaction(SIGSEGV, &slowly, NULL);
    while (slow_reads < SLOW_READS) {
        mprotect(slow_pages, (size_t)PAGES * PAGE, PROT_NONE);
        cuStreamQuery(NULL);
    }
    for (size_t i = 0; i < PAGES; i++)
        __atomic_store_n((uint32_t *)(void *)(slow_pages + i * PAGE), 1, __ATOMIC_RELEASE);
    return cuCtxSynchronize() == CUDA_SUCCESS ? 0 : 1;
}

/* One thread of each block waits for the flag, the others at a barrier for it. */
static const char waits_ptx[] =
    KERNELS_HEAD ".visible .entry waits(.param .u64 flag) {\n"
                 "  .reg .pred %p; .reg .b32 %r; .reg .b64 %a;\n"
                 "  ld.param.u64 %a, [flag]; mov.u32 %r, %tid.x; setp.ne.u32 %p, %r, 0;\n"
                 "  @%p bra DONE;\n"
                 "LOOP:\n"
                 "  ld.volatile.global.u32 %r, [%a]; setp.eq.u32 %p, %r, 0;\n"
                 "  @%p bra LOOP;\n"
                 "DONE:\n"
                 "  bar.sync 0; ret;\n}\n"
                 /* this one sleeps in between */
                 ".visible .entry naps(.param .u64 flag) {\n"
                 "  .reg .pred %p; .reg .b32 %r; .reg .b64 %a;\n"
                 "  ld.param.u64 %a, [flag];\n"
                 "LOOP:\n"
                 "  ld.volatile.global.u32 %r, [%a]; setp.ne.u32 %p, %r, 0;\n"
                 "  @%p bra DONE;\n"
                 "  nanosleep.u32 100;\n"
                 "  bra LOOP;\n"
                 "DONE:\n"
                 "  ret;\n}\n"
                 /* and this one waits not for ever */
                 ".visible .entry counts(.param .u64 flag) {\n"
                 "  .reg .pred %p; .reg .b32 %r, %n; .reg .b64 %a;\n"
                 "  ld.param.u64 %a, [flag]; mov.u32 %n, 0;\n"
                 "LOOP:\n"
                 "  ld.volatile.global.u32 %r, [%a]; add.u32 %n, %n, 1;\n"
                 "  setp.eq.u32 %p, %r, 0; setp.lt.and.u32 %p, %n, 100000, %p;\n"
                 "  @%p bra LOOP;\n"
                 "  ret;\n}\n";

static int run_kernel(const char *name, unsigned int blocks, unsigned int threads) {
    CUfunction function;
    CUdeviceptr flag_address;
    CUmodule module;

    assert_ok(cuMemAlloc_v2(&flag_address, 4));
    assert_ok(cuMemsetD32_v2(flag_address, 0, 1));
    assert_ok(cuModuleLoadData(&module, waits_ptx));
    assert_ok(cuModuleGetFunction(&function, module, name));
    assert_ok(cuLaunchKernel(function, blocks, 1, 1, threads, 1, 1, 0, NULL,
                             (void *[]){&flag_address}, NULL));
    return cuCtxSynchronize() == CUDA_SUCCESS ? 0 : 1;
}

/* The programs: the thread waits for a kernel that only it could end; all threads do; another one
 * sleeps, and then ends it; a function of the host's waits for a lock that this thread has; streams
 * wait for values, or one for a semaphore, or for memory of others; the thread asks again and again
 * whether a stream waits still; a kernel of several blocks waits, or of very many, or sleeps
 * between looks, or counts. */
static int main_of_child(void) {
    static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
    const char *which = getenv("PROGRAM");
    struct gate gate;
    pthread_t other;

    if (set_up_context(NULL) != 0 || which == NULL)
        return 2;
    if (strcmp(which, "locks") == 0) {
        pthread_mutex_lock(&mutex);
        pthread_mutex_lock(&mutex);
    }
    if (strcmp(which, "function") == 0) {
        pthread_mutex_lock(&mutex);
        assert_ok(cuLaunchHostFunc(NULL, take_mutex, &mutex));
        return cuCtxSynchronize() == CUDA_SUCCESS ? 0 : 1;
    }
    if (strcmp(which, "semaphore") == 0)
        return wait_for_a_semaphore();
    if (strcmp(which, "memory") == 0)
        return wait_for_memory_of_others();
    if (strcmp(which, "values") == 0)
        return wait_for_values();
    if (strcmp(which, "asks") == 0)
        return ask_beside_slow_reads();
    if (strcmp(which, "many") == 0)
        return run_kernel("waits", 100, 1);
    if (strcmp(which, "waits") == 0 || strcmp(which, "counts") == 0 || strcmp(which, "naps") == 0)
        return run_kernel(which, 3, 96);
    gate = gate_close(NULL);
    flag = gate.flag;
    if (strcmp(which, "threads") == 0)
        assert_int_equal(pthread_create(&other, NULL, wait_for_context, NULL), 0);
    if (strcmp(which, "later") == 0)
        assert_int_equal(pthread_create(&other, NULL, set_later, NULL), 0);
    return cuCtxSynchronize() == CUDA_SUCCESS ? 0 : 1;
}

static struct outcome run_program(const char *name) {
    return run("PROGRAM", name, "SIMCUDA_STUCK", "1", NULL);
}

static void assert_stuck(const char *name, const char *message) {
    struct outcome outcome = run_program(name);

    assert_true(WIFSIGNALED(outcome.status));
    assert_int_equal(WTERMSIG(outcome.status), SIGABRT);
    assert_string_equal(outcome.messages, message);
}

static void test_a_wait_that_nobody_can_end_is_found(void **state) {
    (void)state;
    assert_stuck("alone", "simcuda: stuck: every thread waits, in: cuCtxSynchronize\n");
    assert_stuck("function", "simcuda: stuck: every thread waits, in: cuCtxSynchronize\n");
    assert_stuck("values", "simcuda: stuck: every thread waits, in: cuCtxSynchronize\n");
    assert_stuck("locks", "simcuda: stuck: every thread waits\n");
    assert_stuck("threads", "simcuda: stuck: every thread waits, in: "
                            "cuCtxSynchronize cuCtxSynchronize\n");
}

static void test_a_kernel_is_stuck_when_all_of_its_threads_wait(void **state) {
    (void)state;
    assert_stuck("waits", "simcuda: stuck: every thread waits, in: cuCtxSynchronize\n");
    assert_stuck("many", "simcuda: stuck: every thread waits, in: cuCtxSynchronize\n");
    assert_stuck("naps", "simcuda: stuck: every thread waits, in: cuCtxSynchronize\n");
}

static void assert_not_stuck(const char *name) {
    struct outcome outcome = run_program(name);

    assert_int_equal(outcome.status, 0);
    assert_string_equal(outcome.messages, "");
}

static void test_a_thread_that_sleeps_may_end_a_wait(void **state) {
    (void)state;
    assert_not_stuck("later");
}

static void test_a_kernel_that_counts_goes_on(void **state) {
    (void)state;
    assert_not_stuck("counts");
}

static void test_another_process_may_end_a_wait(void **state) {
    (void)state;
    assert_not_stuck("semaphore");
    assert_not_stuck("memory");
}

static void test_a_thread_that_waits_for_the_driver_itself_goes_on(void **state) {
    (void)state;
    assert_not_stuck("asks");
}

int main(int argc, char **argv) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_wait_that_nobody_can_end_is_found),
        cmocka_unit_test(test_a_kernel_is_stuck_when_all_of_its_threads_wait),
        cmocka_unit_test(test_a_kernel_that_counts_goes_on),
        cmocka_unit_test(test_a_thread_that_sleeps_may_end_a_wait),
        cmocka_unit_test(test_another_process_may_end_a_wait),
        cmocka_unit_test(test_a_thread_that_waits_for_the_driver_itself_goes_on),
    };

    if (argc > 1 && strcmp(argv[1], "child") == 0)
        return main_of_child();
    return cmocka_run_group_tests(tests, NULL, NULL);
}
