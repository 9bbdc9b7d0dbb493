/* Talks to the pool it runs under. Linked with libpoolcuda.so, or with -DBY_NAME not: then every
 * function is looked up, and the program says so if there is none. */
#include "program.h"

#include "../samples/kernels.h"
#include "poolcuda.h"

#include <cuda.h>
#include <cuda_runtime_api.h>
#include <dlfcn.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define FUNCTIONS(X)                                                                               \
    X(poolcuda_version)                                                                            \
    X(poolcuda_trim)                                                                               \
    X(poolcuda_stats)                                                                              \
    X(poolcuda_set_limit)                                                                          \
    X(poolcuda_get_limit)                                                                          \
    X(poolcuda_site_push)                                                                          \
    X(poolcuda_site_pop)                                                                           \
    X(poolcuda_malloc)                                                                             \
    X(poolcuda_free)                                                                               \
    X(poolcuda_cupy_malloc)                                                                        \
    X(poolcuda_cupy_free)

static struct {
#define FIELD(name) __typeof__(name) *name;
    FUNCTIONS(FIELD)
#undef FIELD
} api;

static bool find_api(void) {
#ifdef BY_NAME
#define FIND(name) *(void **)&api.name = dlsym(RTLD_DEFAULT, #name);
#else
#define FIND(name) api.name = name;
#endif
    FUNCTIONS(FIND)
    return api.poolcuda_version != NULL;
}

enum { MIB = 1 << 20 };

static struct poolcuda_stats stats_of(int device) {
    struct poolcuda_stats stats = {.size = sizeof stats};
    REQUIRE(api.poolcuda_stats(device, &stats) == POOLCUDA_OK);
    REQUIRE(stats.size == sizeof stats);
    REQUIRE(stats.in_use + stats.idle + stats.waste == stats.held);
    REQUIRE(stats.peak_held >= stats.held && stats.peak_live >= stats.in_use + stats.waste);
    return stats;
}

static void *allocate(size_t bytes) {
    void *pointer;
    REQUIRE(cudaMalloc(&pointer, bytes) == cudaSuccess);
    return pointer;
}

static void release(void *pointer) {
    REQUIRE(cudaFree(pointer) == cudaSuccess);
}

/* --- figures --- */

static void test_stats(void) {
    struct {
        struct poolcuda_stats known;
        uint64_t later;
    } longer = {.later = 7};
    struct poolcuda_stats before = stats_of(POOLCUDA_ALL_DEVICES), stats;
    release(allocate(6 * MIB));
    void *kept = allocate(5 * MIB);
    stats = stats_of(0);
    REQUIRE(stats.in_use == 5 * MIB && stats.waste == MIB && stats.idle == 0);
    REQUIRE(stats.live_blocks == 1 && stats.idle_blocks == 0 && stats.peak_live == 6 * MIB);
    REQUIRE(stats.allocations == 2 && stats.hits == 1 && stats.frees == 1);
    REQUIRE(stats.driver_allocs == before.driver_allocs + 1 && stats.driver_frees == 0);
    release(kept);
    stats = stats_of(0);
    REQUIRE(stats.idle == 6 * MIB && stats.idle_blocks == 1 && stats.waits >= 1);
    REQUIRE(stats_of(1).held == 0 && stats_of(1).allocations == 0);
    REQUIRE(cudaSetDevice(1) == cudaSuccess);
    kept = allocate(4 * MIB);
    REQUIRE(stats_of(1).in_use == 4 * MIB && stats_of(0).held == 6 * MIB);
    REQUIRE(stats_of(POOLCUDA_ALL_DEVICES).held == 10 * MIB);
    release(kept);
    REQUIRE(api.poolcuda_trim(0, SIZE_MAX) == 6 * MIB && stats_of(0).held == 0);
    REQUIRE(stats_of(0).driver_frees == 1);

    /* A program of a later version, and one that forgot the size. */
    longer.known.size = sizeof longer;
    REQUIRE(api.poolcuda_stats(1, &longer.known) == POOLCUDA_OK);
    REQUIRE(longer.later == 0 && longer.known.size == sizeof longer.known);
    REQUIRE(longer.known.held == 4 * MIB);
    stats.size = sizeof stats - 1;
    stats.held = 7;
    REQUIRE(api.poolcuda_stats(0, &stats) == POOLCUDA_INVALID && stats.held == 7);
    stats.size = sizeof stats;
    REQUIRE(api.poolcuda_stats(-2, &stats) == POOLCUDA_INVALID && stats.held == 7);
    REQUIRE(api.poolcuda_stats(0, NULL) == POOLCUDA_INVALID);
    REQUIRE(api.poolcuda_stats(1000, &stats) == POOLCUDA_OK && stats.held == 0);
}

/* --- limits --- */

static uint64_t limit_of(enum poolcuda_limit limit) {
    uint64_t value = 7;
    REQUIRE(api.poolcuda_get_limit(limit, &value) == POOLCUDA_OK);
    return value;
}

static int set(enum poolcuda_limit limit, uint64_t value) {
    return api.poolcuda_set_limit(limit, value);
}

/* Before the pool exists and after. */
static void check_ranges(void) {
    static const struct {
        enum poolcuda_limit limit;
        int result;
        uint64_t value;
    } cases[] = {
        {POOLCUDA_LIMIT_MAX_IDLE, POOLCUDA_OK, 0},
        {POOLCUDA_LIMIT_MAX_IDLE, POOLCUDA_OK, 123 * MIB},
        {POOLCUDA_LIMIT_MAX_IDLE, POOLCUDA_OK, POOLCUDA_PERCENT(12.5)},
        {POOLCUDA_LIMIT_MAX_IDLE, POOLCUDA_INVALID, POOLCUDA_PERCENT(100.001)},
        {POOLCUDA_LIMIT_MAX_IDLE, POOLCUDA_OK, POOLCUDA_AUTO},
        {POOLCUDA_LIMIT_MAX_WASTE, POOLCUDA_OK, 1},
        {POOLCUDA_LIMIT_MAX_WASTE, POOLCUDA_OK, POOLCUDA_PERCENT(0)},
        {POOLCUDA_LIMIT_MAX_WASTE, POOLCUDA_INVALID, POOLCUDA_AUTO - 1},
        {POOLCUDA_LIMIT_MAX_WASTE, POOLCUDA_OK, POOLCUDA_AUTO},
        {POOLCUDA_LIMIT_IDLE_DECAY, POOLCUDA_OK, 0},
        {POOLCUDA_LIMIT_IDLE_DECAY, POOLCUDA_OK, 1500},
        {POOLCUDA_LIMIT_IDLE_DECAY, POOLCUDA_INVALID, 86400001},
        {POOLCUDA_LIMIT_IDLE_DECAY, POOLCUDA_INVALID, POOLCUDA_PERCENT(1)},
        {POOLCUDA_LIMIT_THROTTLE, POOLCUDA_OK, POOLCUDA_PERCENT(80)},
        {POOLCUDA_LIMIT_THROTTLE, POOLCUDA_INVALID, 80},
        {(enum poolcuda_limit)0, POOLCUDA_INVALID, 0},
        {(enum poolcuda_limit)99, POOLCUDA_INVALID, 0},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        uint64_t before = 0, after;
        int known = api.poolcuda_get_limit(cases[i].limit, &before);
        REQUIRE(set(cases[i].limit, cases[i].value) == cases[i].result);
        if (known != POOLCUDA_OK)
            continue;
        after = limit_of(cases[i].limit);
        REQUIRE(after == (cases[i].result == POOLCUDA_OK ? cases[i].value : before));
    }
    REQUIRE(api.poolcuda_get_limit((enum poolcuda_limit)99, &(uint64_t){0}) == POOLCUDA_INVALID);
    REQUIRE(api.poolcuda_get_limit(POOLCUDA_LIMIT_MAX_IDLE, NULL) == POOLCUDA_INVALID);
    REQUIRE(set(POOLCUDA_LIMIT_IDLE_DECAY, POOLCUDA_AUTO) == POOLCUDA_OK);
    REQUIRE(limit_of(POOLCUDA_LIMIT_IDLE_DECAY) == 60000);
    REQUIRE(set(POOLCUDA_LIMIT_THROTTLE, POOLCUDA_AUTO) == POOLCUDA_OK);
    REQUIRE(limit_of(POOLCUDA_LIMIT_THROTTLE) == POOLCUDA_PERCENT(95));
}

/* Each in effect by the next allocation or free. */
static void check_effects(void) {
    release(allocate(10 * MIB));
    REQUIRE(stats_of(0).idle == 0); /* set before CUDA was used */
    REQUIRE(set(POOLCUDA_LIMIT_MAX_IDLE, 12 * MIB) == POOLCUDA_OK);
    release(allocate(10 * MIB));
    REQUIRE(stats_of(0).idle == 10 * MIB);
    REQUIRE(set(POOLCUDA_LIMIT_MAX_WASTE, MIB) == POOLCUDA_OK);
    void *pointer = allocate(6 * MIB);
    REQUIRE(stats_of(0).waste == 0);
    release(pointer);
    REQUIRE(set(POOLCUDA_LIMIT_MAX_WASTE, 8 * MIB) == POOLCUDA_OK);
    api.poolcuda_trim(0, SIZE_MAX);
    release(allocate(10 * MIB));
    pointer = allocate(6 * MIB);
    REQUIRE(stats_of(0).waste == 4 * MIB);
    release(pointer);
}

static void test_limits(void) {
    check_ranges();
    REQUIRE(set(POOLCUDA_LIMIT_MAX_IDLE, 0) == POOLCUDA_OK);
    REQUIRE(cudaFree(NULL) == cudaSuccess);
    REQUIRE(limit_of(POOLCUDA_LIMIT_MAX_IDLE) == 0);
    check_effects();
    check_ranges();
}

static void test_told(void) {
    for (int limit = POOLCUDA_LIMIT_MAX_IDLE; limit <= POOLCUDA_LIMIT_THROTTLE; limit++)
        printf("%llx\n", (unsigned long long)limit_of((enum poolcuda_limit)limit));
}

/* --- tags --- */

static void test_tags(void) {
    api.poolcuda_site_push("weights");
    void *one = allocate(1000);
    api.poolcuda_site_push("layer, \"2\"\n");
    void *two = allocate(2000);
    void *three = api.poolcuda_malloc(3000, 0, NULL);
    REQUIRE(three != NULL);
    api.poolcuda_site_pop();
    void *four;
    size_t pitch;
    REQUIRE(cudaMallocPitch(&four, &pitch, 100, 8) == cudaSuccess);
    cudaStream_t stream;
    void *five;
    REQUIRE(cudaStreamCreate(&stream) == cudaSuccess);
    REQUIRE(cudaMallocAsync(&five, 5000, stream) == cudaSuccess);
    api.poolcuda_site_pop();
    void *six = allocate(6000), *seven = api.poolcuda_malloc(7000, 0, NULL);
    REQUIRE(cudaFreeAsync(five, stream) == cudaSuccess);
    api.poolcuda_free(three, 3000, 0, NULL);
    api.poolcuda_free(seven, 7000, 0, NULL);
    release(one);
    release(two);
    release(four);
    release(six);
}

static void test_short(void) {
    api.poolcuda_site_push("holder");
    void *held = allocate(40 * MIB);
    REQUIRE(api.poolcuda_malloc((ssize_t)1 << 40, 0, NULL) == NULL);
    api.poolcuda_site_pop();
    release(held);
}

/* --- memory --- */

/* The hazard detector learns who owns memory. */
static void *get(ssize_t size, int device, void *stream) {
    void (*begin)(CUdeviceptr, size_t, const char *);
    void *pointer = api.poolcuda_malloc(size, device, stream);
    *(void **)&begin = dlsym(RTLD_DEFAULT, "simcuda_owner_begin");
    if (pointer && begin)
        begin((CUdeviceptr)(uintptr_t)pointer, (size_t)size, "api");
    return pointer;
}

static void put(void *pointer, ssize_t size, int device, void *stream) {
    void (*end)(CUdeviceptr, const char *);
    *(void **)&end = dlsym(RTLD_DEFAULT, "simcuda_owner_end");
    if (pointer && end)
        end((CUdeviceptr)(uintptr_t)pointer, "api");
    api.poolcuda_free(pointer, size, device, stream);
}

static CUfunction spin, fill;

static void load_kernels(void) {
    CUmodule module;
    REQUIRE(cuModuleLoadData(&module, sample_kernels_ptx) == CUDA_SUCCESS);
    REQUIRE(cuModuleGetFunction(&spin, module, "spin_ns") == CUDA_SUCCESS);
    REQUIRE(cuModuleGetFunction(&fill, module, "fill_u32") == CUDA_SUCCESS);
}

static void launch_fill(void *to, uint64_t count, uint32_t value, CUstream stream) {
    uint64_t busy = 2000000;
    void *spinning[] = {&busy}, *filling[] = {&to, &count, &value};
    REQUIRE(cuLaunchKernel(spin, 1, 1, 1, 1, 1, 1, 0, stream, spinning, NULL) == CUDA_SUCCESS);
    REQUIRE(cuLaunchKernel(fill, 4, 1, 1, 64, 1, 1, 0, stream, filling, NULL) == CUDA_SUCCESS);
}

/* The same memory from hand to hand among streams, each of which writes it at once. */
static void hand_on(const CUstream *streams, int count) {
    enum { WORDS = 1 << 18 };
    for (int i = 0; i < 40; i++) {
        CUstream stream = streams[i % count];
        void *pointer = get(WORDS * 4, 0, stream);
        REQUIRE(pointer != NULL);
        launch_fill(pointer, WORDS, (uint32_t)i, stream);
        put(pointer, WORDS * 4, 0, stream);
    }
}

static void test_memory(void) {
    CUcontext current;
    cudaStream_t streams[4] = {NULL};
    /* The first call of the program: the runtime makes the context. */
    void *first = get(MIB, 0, NULL);
    REQUIRE(first != NULL);
    REQUIRE(cuCtxGetCurrent(&current) == CUDA_SUCCESS && current != NULL);
    put(first, MIB, 0, NULL);
    put(get(MIB, 0, NULL), MIB, 0, NULL);

    REQUIRE(get(0, 0, NULL) == NULL && get(-5, 0, NULL) == NULL && get(MIB, -1, NULL) == NULL);
    REQUIRE(get((ssize_t)1 << 60, 0, NULL) == NULL);
    put(NULL, 0, 0, NULL);
    api.poolcuda_cupy_free(NULL, NULL, 0);
    put((void *)(uintptr_t)0x1234, 16, 0, NULL);
    REQUIRE(cudaGetLastError() == cudaSuccess);

    /* Another device: only once something was allocated there. */
    REQUIRE(get(MIB, 1, NULL) == NULL);
    REQUIRE(cudaSetDevice(1) == cudaSuccess);
    release(allocate(1000));
    REQUIRE(cudaSetDevice(0) == cudaSuccess);
    void *there = get(MIB, 1, NULL);
    struct cudaPointerAttributes attributes;
    int device;
    puts(there ? "other device" : "no other device");
    if (there) {
        REQUIRE(cudaPointerGetAttributes(&attributes, there) == cudaSuccess);
        REQUIRE(attributes.device == 1);
        put(there, MIB, 1, NULL);
    }
    REQUIRE(cudaGetDevice(&device) == cudaSuccess && device == 0);

    /* Both ways to allocate and to free are one. */
    release(api.poolcuda_cupy_malloc((void *)(uintptr_t)1, 3 * MIB, 0));
    void *plain = allocate(3 * MIB);
    api.poolcuda_cupy_free(NULL, plain, 0);

    load_kernels();
    hand_on(streams, 1);
    REQUIRE(cudaStreamCreate(&streams[1]) == cudaSuccess);
    REQUIRE(cudaStreamCreateWithFlags(&streams[2], cudaStreamNonBlocking) == cudaSuccess);
    streams[3] = cudaStreamPerThread;
    hand_on(streams, 4);
    REQUIRE(cudaDeviceSynchronize() == cudaSuccess);
}

/* --- threads --- */

static atomic_bool done;

static void *change_limits(void *data) {
    (void)data;
    for (uint64_t i = 0; !atomic_load(&done); i++) {
        REQUIRE(set(POOLCUDA_LIMIT_MAX_IDLE, i % 3 ? i % 64 * MIB : POOLCUDA_AUTO) == POOLCUDA_OK);
        REQUIRE(set(POOLCUDA_LIMIT_MAX_WASTE, i % 5 * MIB) == POOLCUDA_OK);
        REQUIRE(set(POOLCUDA_LIMIT_IDLE_DECAY, i % 7) == POOLCUDA_OK);
        REQUIRE(set(POOLCUDA_LIMIT_THROTTLE, POOLCUDA_PERCENT(i % 101)) == POOLCUDA_OK);
        stats_of(POOLCUDA_ALL_DEVICES);
        (void)limit_of(POOLCUDA_LIMIT_THROTTLE);
    }
    return NULL;
}

static void *use(void *data) {
    void *blocks[8] = {NULL};
    char tag[16];
    REQUIRE(cudaSetDevice(0) == cudaSuccess);
    snprintf(tag, sizeof tag, "thread %d", *(int *)data);
    for (int i = 0; i < 400; i++) {
        void **block = &blocks[i * 7 % 8];
        if (*block)
            api.poolcuda_free(*block, 0, 0, NULL);
        api.poolcuda_site_push(tag);
        *block = api.poolcuda_malloc((i % 13 + 1) * 300000, 0, NULL);
        api.poolcuda_site_pop();
        REQUIRE(*block != NULL);
    }
    for (int i = 0; i < 8; i++)
        api.poolcuda_free(blocks[i], 0, 0, NULL);
    return NULL;
}

static void test_threads(void) {
    enum { USERS = 4 };
    pthread_t changer, users[USERS];
    int numbers[USERS];
    REQUIRE(cudaFree(NULL) == cudaSuccess);
    release(allocate(MIB));
    REQUIRE(pthread_create(&changer, NULL, change_limits, NULL) == 0);
    for (int i = 0; i < USERS; i++) {
        numbers[i] = i % 2;
        REQUIRE(pthread_create(&users[i], NULL, use, &numbers[i]) == 0);
    }
    for (int i = 0; i < USERS; i++)
        pthread_join(users[i], NULL);
    atomic_store(&done, true);
    pthread_join(changer, NULL);
    REQUIRE(stats_of(0).in_use == 0 && stats_of(0).live_blocks == 0);
}

/* A child has its parent's limits and none of its memory, before it uses CUDA itself. */
static void test_forked(void) {
    int code = -1;
    void *pointer = allocate(MIB);
    REQUIRE(set(POOLCUDA_LIMIT_MAX_IDLE, 5 * MIB) == POOLCUDA_OK);
    pid_t child = fork();
    if (child == 0) {
        REQUIRE(limit_of(POOLCUDA_LIMIT_MAX_IDLE) == 5 * MIB);
        REQUIRE(set(POOLCUDA_LIMIT_MAX_IDLE, 7 * MIB) == POOLCUDA_OK);
        REQUIRE(limit_of(POOLCUDA_LIMIT_MAX_IDLE) == 7 * MIB);
        REQUIRE(stats_of(POOLCUDA_ALL_DEVICES).held == 0);
        REQUIRE(limit_of(POOLCUDA_LIMIT_MAX_IDLE) == 7 * MIB);
        _exit(0);
    }
    REQUIRE(child > 0 && waitpid(child, &code, 0) == child && code == 0);
    REQUIRE(limit_of(POOLCUDA_LIMIT_MAX_IDLE) == 5 * MIB && stats_of(0).in_use == MIB);
    release(pointer);
}

/* Without a pool every function still does the sensible thing. */
static void test_nothing(const char *expected) {
    struct poolcuda_stats stats = {.size = sizeof stats, .held = 7};
    uint64_t value = 7;
    int status = api.poolcuda_stats(POOLCUDA_ALL_DEVICES, &stats);
    int limited = set(POOLCUDA_LIMIT_MAX_IDLE, MIB);
    api.poolcuda_site_push("tag");
    api.poolcuda_site_pop();
    REQUIRE(stats.held == 0 && stats.size == sizeof stats);
    REQUIRE(api.poolcuda_get_limit(POOLCUDA_LIMIT_MAX_IDLE, &value) == limited);
    REQUIRE(value == (limited == POOLCUDA_OK ? MIB : 0));
    REQUIRE(api.poolcuda_trim(0, SIZE_MAX) == 0);
    printf("%s: %d %d\n", expected, status, limited);
    REQUIRE(api.poolcuda_stats(0, NULL) == POOLCUDA_INVALID);
}

int main(int argc, char **argv) {
    static const struct {
        const char *name;
        void (*run)(void);
    } tests[] = {
        {"stats", test_stats},   {"limits", test_limits}, {"told", test_told},
        {"tags", test_tags},     {"memory", test_memory}, {"threads", test_threads},
        {"forked", test_forked}, {"short", test_short},
    };
    REQUIRE(argc == 2);
    if (!find_api()) {
        puts("no poolcuda");
        return 0;
    }
    if (strcmp(argv[1], "nothing") == 0)
        test_nothing("nothing");
    for (size_t i = 0; i < sizeof tests / sizeof tests[0]; i++)
        if (strcmp(argv[1], tests[i].name) == 0)
            tests[i].run();
    puts("done");
    return 0;
}
