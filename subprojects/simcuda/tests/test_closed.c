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
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_closed_while_threads_of_it_run)};
    path = count > 1 ? words[1] : "libcuda.so.1";
    return cmocka_run_group_tests(tests, NULL, NULL);
}
