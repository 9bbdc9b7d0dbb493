/* A program may open and close the driver as often as it likes, whatever its streams still do. The
 * driver's path is the argument. */
#include <setjmp.h> /* cmocka.h needs these */
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <cuda.h>
#include <dlfcn.h>
#include <pthread.h>
#include <sys/mman.h>
#include <unistd.h>

enum { ROUNDS = 1000, BYTES = 4096 };

static const char *path;

static void *find(void *driver, const char *name) {
    void *function = dlsym(driver, name);
    assert_non_null(function);
    return function;
}

/* In a context of its own, with work under way as the driver is closed. */
static void *work(void *driver) {
    CUresult (*create)(CUcontext *, unsigned, CUdevice) = find(driver, "cuCtxCreate_v2");
    CUresult (*new_stream)(CUstream *, unsigned) = find(driver, "cuStreamCreate");
    CUresult (*allocate)(CUdeviceptr *, size_t) = find(driver, "cuMemAlloc_v2");
    CUresult (*set)(CUdeviceptr, unsigned char, size_t, CUstream) = find(driver, "cuMemsetD8Async");
    CUresult (*destroy)(CUcontext) = find(driver, "cuCtxDestroy_v2");
    static unsigned round;
    CUcontext context;
    CUstream stream;
    CUdeviceptr memory;
    assert_int_equal(create(&context, 0, 0), CUDA_SUCCESS);
    assert_int_equal(new_stream(&stream, CU_STREAM_NON_BLOCKING), CUDA_SUCCESS);
    assert_int_equal(allocate(&memory, BYTES), CUDA_SUCCESS);
    assert_int_equal(set(memory, 7, BYTES, stream), CUDA_SUCCESS);
    if (++round % 100 != 0) /* else it outlives the round */
        assert_int_equal(destroy(context), CUDA_SUCCESS);
    return NULL;
}

#define NAME(function)  #function
#define FIND(function)  ((__typeof__(&(function)))find(driver, NAME(function)))
#define assert_ok(call) assert_int_equal((call), CUDA_SUCCESS)

static int make_file(off_t size) {
    int file = memfd_create("test", MFD_CLOEXEC);
    assert_true(file >= 0);
    assert_int_equal(ftruncate(file, size), 0);
    return file;
}

/* Values go to and fro between two streams, one of them by a semaphore. */
static void wait_and_write(void *driver, CUdeviceptr words, CUstream first, CUstream second) {
    CUDA_EXTERNAL_SEMAPHORE_HANDLE_DESC from = {
        .type = CU_EXTERNAL_SEMAPHORE_HANDLE_TYPE_TIMELINE_SEMAPHORE_FD, .handle.fd = make_file(8)};
    CUDA_EXTERNAL_SEMAPHORE_SIGNAL_PARAMS signal = {.params.fence.value = 1};
    CUDA_EXTERNAL_SEMAPHORE_WAIT_PARAMS wait = {.params.fence.value = 1};
    CUstreamBatchMemOpParams barrier = {.operation = CU_STREAM_MEM_OP_BARRIER};
    CUexternalSemaphore semaphore;
    assert_ok(FIND(cuImportExternalSemaphore)(&semaphore, &from));
    assert_ok(FIND(cuStreamWaitValue32)(first, words, 1, CU_STREAM_WAIT_VALUE_EQ));
    assert_ok(FIND(cuSignalExternalSemaphoresAsync)(&semaphore, &signal, 1, first));
    assert_ok(FIND(cuStreamWriteValue32)(second, words, 1, 0));
    assert_ok(FIND(cuWaitExternalSemaphoresAsync)(&semaphore, &wait, 1, second));
    assert_ok(FIND(cuStreamWriteValue64)(second, words + 8, 2, 0));
    assert_ok(FIND(cuStreamWaitValue64)(first, words + 8, 2, 0));
    assert_ok(FIND(cuStreamBatchMemOp)(first, 1, &barrier, 0));
    assert_ok(FIND(cuDestroyExternalSemaphore)(semaphore));
}

static CUdeviceptr map_memory(void *driver) {
    CUDA_EXTERNAL_MEMORY_HANDLE_DESC from = {.type = CU_EXTERNAL_MEMORY_HANDLE_TYPE_OPAQUE_FD,
                                             .handle.fd = make_file(BYTES),
                                             .size = BYTES};
    CUDA_EXTERNAL_MEMORY_BUFFER_DESC buffer = {.size = BYTES};
    CUexternalMemory memory;
    CUdeviceptr address;
    assert_ok(FIND(cuImportExternalMemory)(&memory, &from));
    assert_ok(FIND(cuExternalMemoryGetMappedBuffer)(&address, memory, &buffer));
    assert_ok(FIND(cuDestroyExternalMemory)(memory));
    return address;
}

/* Each thread in a context of its own, which ends without a wait for its streams. */
static void *work_with_words(void *driver) {
    CUresult (*create)(CUcontext *, unsigned, CUdevice) = find(driver, "cuCtxCreate_v2");
    CUstreamAttrValue value = {.priority = -1};
    CUcontext context;
    CUstream first, second;
    assert_ok(create(&context, 0, 0));
    assert_ok(FIND(cuStreamCreate)(&first, CU_STREAM_NON_BLOCKING));
    assert_ok(FIND(cuStreamCreate)(&second, CU_STREAM_NON_BLOCKING));
    assert_ok(FIND(cuStreamSetAttribute)(first, CU_LAUNCH_ATTRIBUTE_PRIORITY, &value));
    assert_ok(FIND(cuStreamCopyAttributes)(second, first));
    wait_and_write(driver, map_memory(driver), first, second);
    assert_ok(FIND(cuStreamDestroy)(second));
    assert_ok(FIND(cuCtxDestroy)(context));
    return NULL;
}

static void test_closed_while_streams_wait_for_words(void **state) {
    (void)state;
#ifdef __SANITIZE_THREAD__ /* does not see how a stack, with its thread's variables, is handed on  \
                            */
    skip();
#endif
    for (int i = 0; i < ROUNDS; i++) {
        pthread_t threads[2];
        void *driver = dlopen(path, RTLD_NOW | RTLD_LOCAL);
        assert_non_null(driver);
        assert_ok(FIND(cuInit)(0));
        for (int j = 0; j < 2; j++)
            assert_int_equal(pthread_create(&threads[j], NULL, work_with_words, driver), 0);
        for (int j = 0; j < 2; j++)
            assert_int_equal(pthread_join(threads[j], NULL), 0);
        assert_int_equal(dlclose(driver), 0);
    }
}

static void test_closed_while_threads_of_it_run(void **state) {
    (void)state;
    for (int i = 0; i < ROUNDS; i++) {
        pthread_t thread;
        void *driver = dlopen(path, RTLD_NOW | RTLD_LOCAL);
        assert_non_null(driver);
        CUresult (*init)(unsigned) = find(driver, "cuInit");
        assert_int_equal(init(0), CUDA_SUCCESS);
        assert_int_equal(pthread_create(&thread, NULL, work, driver), 0);
        assert_int_equal(pthread_join(thread, NULL), 0);
        assert_int_equal(dlclose(driver), 0);
    }
}

int main(int count, char **words) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_closed_while_threads_of_it_run),
        cmocka_unit_test(test_closed_while_streams_wait_for_words),
    };
    path = count > 1 ? words[1] : "libcuda.so.1";
    return cmocka_run_group_tests(tests, NULL, NULL);
}
