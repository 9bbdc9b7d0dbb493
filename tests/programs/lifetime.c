/* Contexts, threads and processes come and go: one case a process, named by the argument. Prints
 * what CUDA answers; natively and under the pool the lines are the same. */
#include "driver/cuda_api.h"
#include "program.h"

#include "../../samples/kernels.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define TELL(call)  printf("%s: %d\n", #call, (int)(call))
#define CHECK(call) REQUIRE((call) == CUDA_SUCCESS)

enum { BYTES = 70000 };

static CUcontext primary;

static void start(void) {
    CHECK(cuInit(0));
    CHECK(cuDevicePrimaryCtxRetain(&primary, 0));
    CHECK(cuCtxSetCurrent(primary));
}

/* Enough rounds that blocks come from the pool, if there is one. */
static void loop(void) {
    for (int i = 0; i < 5; i++) {
        CUdeviceptr one, other;
        TELL(cuMemAlloc_v2(&one, BYTES));
        TELL(cuMemAlloc_v2(&other, BYTES * 3));
        TELL(cuMemsetD8_v2(one, 1, BYTES));
        TELL(cuMemFree_v2(one));
        TELL(cuMemFree_v2(other));
    }
}

static CUdeviceptr handed_over;
static void *without_a_context(void *data) {
    CUdeviceptr pointer = 0;
    (void)data;
    TELL(cuMemAlloc_v2(&pointer, BYTES));
    TELL(cuMemFree_v2(handed_over));
    TELL(cuMemFree_v2(handed_over));
    TELL(cuCtxSynchronize());
    return NULL;
}

static void join(void *(*function)(void *)) {
    pthread_t thread;
    REQUIRE(pthread_create(&thread, NULL, function, NULL) == 0);
    REQUIRE(pthread_join(thread, NULL) == 0);
}

static void thread_without_context(void) {
    start();
    loop();
    CHECK(cuMemAlloc_v2(&handed_over, BYTES));
    join(without_a_context);
    loop();
}

static CUcontext floating_context;
static void *take_over(void *data) {
    (void)data;
    TELL(cuCtxPushCurrent_v2(floating_context));
    loop();
    TELL(cuMemFree_v2(handed_over));
    TELL(cuCtxDestroy_v2(floating_context));
    TELL(cuMemFree_v2(handed_over));
    return NULL;
}

static void floating(void) {
    CUresult (*create)(CUcontext *, unsigned int, CUdevice) = cuCtxCreate_v2;
    start();
    TELL(create(&floating_context, 0, 0));
    loop();
    CHECK(cuMemAlloc_v2(&handed_over, BYTES));
    TELL(cuCtxPopCurrent_v2(&floating_context));
    join(take_over);
    loop(); /* in the primary context again */
}

static void green(void) {
    CUdevResource resource;
    CUdevResourceDesc description;
    CUgreenCtx green_context;
    CUcontext context;
    CUdeviceptr pointer;
    start();
    CHECK(cuDeviceGetDevResource(0, &resource, CU_DEV_RESOURCE_TYPE_SM));
    CHECK(cuDevResourceGenerateDesc(&description, &resource, 1));
    TELL(cuGreenCtxCreate(&green_context, description, 0, CU_GREEN_CTX_DEFAULT_STREAM));
    TELL(cuCtxFromGreenCtx(&context, green_context));
    TELL(cuCtxSetCurrent(context));
    loop();
    CHECK(cuMemAlloc_v2(&pointer, BYTES));
    TELL(cuCtxSetCurrent(primary));
    loop();
    TELL(cuGreenCtxDestroy(green_context));
    loop();
    TELL(cuMemFree_v2(pointer));
}

static void released(void) {
    CUcontext again;
    CUdeviceptr kept;
    start();
    CHECK(cuMemAlloc_v2(&kept, BYTES));
    CHECK(cuDevicePrimaryCtxRetain(&again, 0));
    TELL(cuDevicePrimaryCtxRelease(0)); /* not the last */
    loop();
    TELL(cuMemsetD8_v2(kept, 1, BYTES));
    TELL(cuDevicePrimaryCtxRelease_v2(0)); /* the last */
    TELL(cuMemFree_v2(kept));
    CHECK(cuDevicePrimaryCtxRetain(&again, 0));
    TELL(cuCtxSetCurrent(again));
    loop();
    TELL(cuDevicePrimaryCtxReset_v2(0));
}

static CUdeviceptr late_block;
static void late(void) {
    CUdeviceptr pointer = 0;
    TELL(cuMemAlloc_v2(&pointer, BYTES));
    TELL(cuMemFree_v2(late_block));
    TELL(cuStreamQuery(NULL));
    TELL(cuMemFree_v2(late_block));
    fflush(stdout);
}

static void after_the_end(void) {
    atexit(late); /* before CUDA registers its own handler, so that it runs after */
    start();
    loop();
    CHECK(cuMemAlloc_v2(&late_block, BYTES));
}

static atomic_int busy_threads;

static void *allocate_for_ever(void *data) {
    (void)data;
    CHECK(cuCtxSetCurrent(primary));
    for (unsigned i = 0;; i++) {
        CUdeviceptr pointer;
        if (cuMemAlloc_v2(&pointer, BYTES) == CUDA_SUCCESS)
            cuMemFree_v2(pointer);
        if (i == 100)
            atomic_fetch_add(&busy_threads, 1);
    }
    return NULL;
}

enum { THREADS = 4 };

/* Once all others are in the midst of it: a call of one that only begins would fail. */
static void *leave(void *data) {
    (void)data;
    while (atomic_load(&busy_threads) < THREADS - 1)
        usleep(100);
    puts("leaving");
    exit(0);
}

static void exit_of_a_thread(void) {
    pthread_t threads[THREADS];
    start();
    for (int i = 0; i < THREADS; i++)
        REQUIRE(pthread_create(&threads[i], NULL, i == THREADS - 1 ? leave : allocate_for_ever,
                               NULL) == 0);
    pause();
}

static void *load_and_close(const char *path) {
    void *runtime = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    REQUIRE(runtime);
    int (*allocate)(void **, size_t), (*release)(void *);
    *(void **)&allocate = dlsym(runtime, "cudaMalloc");
    *(void **)&release = dlsym(runtime, "cudaFree");
    for (int i = 0; i < 5; i++) {
        void *pointer = NULL;
        TELL(allocate(&pointer, BYTES));
        TELL(release(pointer));
    }
    REQUIRE(dlclose(runtime) == 0);
    return NULL;
}

static void runtime_closed(void) {
    start();
    load_and_close("libcudart.so.13");
    loop();
    load_and_close("libcudart.so.13");
}

static void executed(void) {
    start();
    loop();
    fflush(stdout);
    pid_t child = fork();
    if (child == 0) {
        execl("/proc/self/exe", "lifetime", "floating", (char *)NULL);
        _exit(1);
    }
    int status = 0;
    waitpid(child, &status, 0);
    printf("child %d\n", status);
    loop();
}

static void lost(void) {
    CUmodule module;
    CUfunction fault;
    CUdeviceptr block, other;
    start();
    loop();
    CHECK(cuMemAlloc_v2(&block, BYTES));
    CHECK(cuMemAlloc_v2(&other, BYTES));
    CHECK(cuModuleLoadData(&module, sample_kernels_ptx));
    CHECK(cuModuleGetFunction(&fault, module, "fault"));
    TELL(cuLaunchKernel(fault, 1, 1, 1, 1, 1, 1, 0, NULL, NULL, NULL));
    TELL(cuStreamSynchronize(NULL));
    TELL(cuMemFree_v2(block));
    TELL(cuMemFree_v2(other));
    loop();
    TELL(cuDevicePrimaryCtxReset_v2(0));
    TELL(cuCtxSetCurrent(primary));
    loop();
}

static const struct {
    const char *name;
    void (*run)(void);
} cases[] = {
    {"thread_without_context", thread_without_context},
    {"floating", floating},
    {"green", green},
    {"released", released},
    {"after_the_end", after_the_end},
    {"exit_of_a_thread", exit_of_a_thread},
    {"runtime_closed", runtime_closed},
    {"executed", executed},
    {"lost", lost},
};

int main(int argc, char **argv) {
    REQUIRE(argc == 2);
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++)
        if (strcmp(cases[i].name, argv[1]) == 0) {
            cases[i].run();
            return 0;
        }
    REQUIRE(!"a case of that name");
}
