/* Functions of the host's that streams call: those before a free are over when it returns, those
 * behind it are nobody's to wait for. */
#include "order.h"

enum { NS = 60 * 1000 * 1000 };

static struct place place;
static volatile int called;
static bool released;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t release_them = PTHREAD_COND_INITIALIZER;

static void note_call(void *data) {
    called = (int)(intptr_t)data;
}

static void note_callback(CUstream stream, CUresult status, void *data) {
    (void)stream;
    called = status == CUDA_SUCCESS ? (int)(intptr_t)data : -1;
}

static void await_release(void *data) {
    (void)data;
    pthread_mutex_lock(&lock);
    while (!released)
        pthread_cond_wait(&release_them, &lock);
    pthread_mutex_unlock(&lock);
}

static void release_functions(void) {
    pthread_mutex_lock(&lock);
    released = true;
    pthread_cond_broadcast(&release_them);
    pthread_mutex_unlock(&lock);
}

static CUdeviceptr start(void) {
    CUdeviceptr freed;
    place = primary_place(0);
    freed = allocate(BYTES);
    return freed;
}

static void function_before(CUstream stream, CUdeviceptr freed) {
    keep_busy(&place, NS, stream);
    CHECK(cuLaunchHostFunc(stream, note_call, (void *)7));
    release(freed);
    printf("called before: %d\n", called);
}

static void before_in_legacy(void) {
    CUdeviceptr freed = start();
    function_before(NULL, freed);
}

static void before_in_non_blocking(void) {
    CUdeviceptr freed = start();
    function_before(new_stream(CU_STREAM_NON_BLOCKING), freed);
}

static void callback_before(void) {
    CUdeviceptr freed = start();
    CUstream stream = new_stream(CU_STREAM_NON_BLOCKING);
    keep_busy(&place, NS, stream);
    CHECK(cuStreamAddCallback(stream, note_callback, (void *)7, 0));
    release(freed);
    printf("called before: %d\n", called);
}

/* The stream is gone when the free comes; what it had to call is still to come. */
static void before_in_destroyed(void) {
    CUdeviceptr freed = start();
    CUstream stream = new_stream(CU_STREAM_NON_BLOCKING);
    keep_busy(&place, NS, stream);
    CHECK(cuLaunchHostFunc(stream, note_call, (void *)7));
    CHECK(cuStreamDestroy_v2(stream));
    release(freed);
    printf("called before: %d\n", called);
}

static void *submit_function(void *data) {
    CUstream stream;
    CHECK(cuCtxSetCurrent(place.context));
    stream = new_stream(CU_STREAM_NON_BLOCKING);
    keep_busy(&place, NS, stream);
    CHECK(cuLaunchHostFunc(stream, note_call, (void *)7));
    return data;
}

static void before_by_another_thread(void) {
    CUdeviceptr freed = start();
    pthread_t thread;
    REQUIRE(pthread_create(&thread, NULL, submit_function, NULL) == 0);
    REQUIRE(pthread_join(thread, NULL) == 0);
    release(freed);
    printf("called before: %d\n", called);
}

/* Behind the free comes a function that waits for the host, which makes some calls first. */
static void function_behind(CUstream stream, CUdeviceptr freed) {
    CUdeviceptr next;
    CUevent event;
    CUstream other;
    fill(&place, freed, 3, stream);
    release(freed);
    CHECK(cuLaunchHostFunc(stream, await_release, NULL));
    CHECK(cuEventCreate(&event, CU_EVENT_DISABLE_TIMING));
    CHECK(cuEventRecord(event, stream));
    printf("behind it: %d\n", (int)cuEventQuery(event));
    other = new_stream(CU_STREAM_NON_BLOCKING);
    next = allocate(BYTES);
    fill(&place, next, 7, other);
    CHECK(cuStreamSynchronize(other));
    printf("the stream: %d\n", (int)cuStreamQuery(stream));
    release_functions();
    CHECK(cuCtxSynchronize());
}

static void behind_in_legacy(void) {
    CUdeviceptr freed = start();
    function_behind(NULL, freed);
}

static void behind_in_non_blocking(void) {
    CUdeviceptr freed = start();
    function_behind(new_stream(CU_STREAM_NON_BLOCKING), freed);
}

/* What a kernel wrote to pinned memory is there when the free has returned. */
static uint32_t pinned_after_free(CUstream stream, CUdeviceptr freed) {
    CUdeviceptr device;
    volatile uint32_t *host = host_flag(&device);
    keep_busy(&place, NS, stream);
    fill(&place, device, 7, stream);
    release(freed);
    return *host;
}

static void pinned_in_legacy(void) {
    CUdeviceptr freed = start();
    printf("the host reads %u\n", pinned_after_free(NULL, freed));
}

static void pinned_in_non_blocking(void) {
    CUdeviceptr freed = start();
    printf("the host reads %u\n", pinned_after_free(new_stream(CU_STREAM_NON_BLOCKING), freed));
}

/* Pinned by another thread, which is gone, and written to in its stream. */
static volatile uint32_t *others_host;

static void *pin_and_write(void *data) {
    CUdeviceptr device;
    CUstream stream;
    CHECK(cuCtxSetCurrent(place.context));
    others_host = host_flag(&device);
    stream = new_stream(CU_STREAM_NON_BLOCKING);
    keep_busy(&place, NS, stream);
    fill(&place, device, 7, stream);
    return data;
}

static void pinned_by_another_thread(void) {
    CUdeviceptr freed = start();
    pthread_t thread;
    REQUIRE(pthread_create(&thread, NULL, pin_and_write, NULL) == 0);
    REQUIRE(pthread_join(thread, NULL) == 0);
    release(freed);
    printf("the host reads %u\n", *others_host);
}

/* The other context of the device pins and writes: its work is not the free's to wait for, and is
 * seen after a wait of its own. */
static void pinned_of_another_context(void) {
    CUdeviceptr freed = start(), device, flag;
    struct place other = created_place();
    volatile uint32_t *host = host_flag(&device), *gate = host_flag(&flag);
    wait_for_flag(&other, flag, NULL);
    fill(&other, device, 7, NULL);
    CHECK(cuCtxSetCurrent(place.context));
    release(freed);
    printf("the host reads %u", *host);
    set_flag(gate);
    CHECK(cuCtxSetCurrent(other.context));
    CHECK(cuCtxSynchronize());
    printf(", then %u\n", *host);
}

static const struct order_case cases[] = {
    {"before_in_legacy", before_in_legacy},
    {"before_in_non_blocking", before_in_non_blocking},
    {"callback_before", callback_before},
    {"before_in_destroyed", before_in_destroyed},
    {"before_by_another_thread", before_by_another_thread},
    {"behind_in_legacy", behind_in_legacy},
    {"behind_in_non_blocking", behind_in_non_blocking},
    {"pinned_in_legacy", pinned_in_legacy},
    {"pinned_in_non_blocking", pinned_in_non_blocking},
    {"pinned_by_another_thread", pinned_by_another_thread},
    {"pinned_of_another_context", pinned_of_another_context},
};

ORDER_MAIN(cases)
