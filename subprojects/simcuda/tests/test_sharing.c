/* Memory that processes pass on as file descriptors: each test runs in two new processes, as one
 * that is forked from a process with CUDA has none. */
#include "test_sim.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

static const size_t size = 6 * MiB;
static const CUmemAllocationHandleType posix = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;

/* --- two processes --- */

static int other_end; /* of the socket between them */

static void say(char what) {
    assert_int_equal(write(other_end, &what, 1), 1);
}

static void hear(char what) {
    char heard;

    assert_int_equal(read(other_end, &heard, 1), 1);
    assert_int_equal(heard, what);
}

static void send_file(int file) {
    union {
        struct cmsghdr header;
        char room[CMSG_SPACE(sizeof(int))];
    } control = {0};
    struct iovec data = {.iov_base = &(char){'f'}, .iov_len = 1};
    struct msghdr message = {.msg_iov = &data,
                             .msg_iovlen = 1,
                             .msg_control = &control,
                             .msg_controllen = sizeof control.room};
    struct cmsghdr *header = CMSG_FIRSTHDR(&message);

    header->cmsg_level = SOL_SOCKET;
    header->cmsg_type = SCM_RIGHTS;
    header->cmsg_len = CMSG_LEN(sizeof file);
    memcpy(CMSG_DATA(header), &file, sizeof file);
    assert_int_equal(sendmsg(other_end, &message, 0), 1);
    assert_int_equal(close(file), 0); /* the message has it */
}

static int receive_file(void) {
    union {
        struct cmsghdr header;
        char room[CMSG_SPACE(sizeof(int))];
    } control = {0};
    char byte;
    struct iovec data = {.iov_base = &byte, .iov_len = 1};
    struct msghdr message = {.msg_iov = &data,
                             .msg_iovlen = 1,
                             .msg_control = &control,
                             .msg_controllen = sizeof control.room};
    const struct cmsghdr *first;
    int file = -1;

    assert_int_equal(recvmsg(other_end, &message, 0), 1);
    first = CMSG_FIRSTHDR(&message);
    assert_non_null(first);
    if (first != NULL) /* clang-tidy does not know that the line before ends the test */
        memcpy(&file, CMSG_DATA(first), sizeof file);
    return file;
}

static pid_t run_one(void (*work)(void), int end, int other) {
    pid_t child = fork();

    assert_true(child >= 0);
    if (child == 0) {
        other_end = end;
        close(other);
        setenv("CMOCKA_TEST_ABORT", "1",
               1); /* an assertion that fails is not to start the next test */
        work();
        _exit(0);
    }
    return child;
}

static void run_both(void (*exporter)(void), void (*importer)(void)) {
    int ends[2], status;
    pid_t children[2];

    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, ends), 0);
    children[0] = run_one(exporter, ends[0], ends[1]);
    children[1] = run_one(importer, ends[1], ends[0]);
    close(ends[0]);
    close(ends[1]);
    for (int i = 0; i < 2; i++) {
        assert_int_equal(waitpid(children[i], &status, 0), children[i]);
        assert_int_equal(status, 0);
    }
}

static uint32_t word(CUdeviceptr pointer) {
    uint32_t value;

    assert_ok(cuMemcpyDtoH_v2(&value, pointer, sizeof value));
    return value;
}

static size_t available(void) {
    size_t free_bytes, total;

    assert_ok(cuMemGetInfo_v2(&free_bytes, &total));
    return free_bytes;
}

/* --- mapped memory --- */

static CUmemAllocationProp shared_properties(void) {
    return (CUmemAllocationProp){.type = CU_MEM_ALLOCATION_TYPE_PINNED,
                                 .location = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = 0},
                                 .requestedHandleTypes = posix};
}

static CUdeviceptr map(CUmemGenericAllocationHandle handle) {
    CUmemAccessDesc access = {.location = shared_properties().location,
                              .flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
    CUdeviceptr at;

    assert_ok(cuMemAddressReserve(&at, size, 0, 0, 0));
    assert_ok(cuMemMap(at, size, 0, handle, 0));
    assert_ok(cuMemSetAccess(at, size, &access, 1));
    return at;
}

static void unmap(CUdeviceptr at) {
    assert_ok(cuMemUnmap(at, size));
    assert_ok(cuMemAddressFree(at, size));
}

static CUmemGenericAllocationHandle create_shared(void) {
    CUmemAllocationProp properties = shared_properties();
    CUmemGenericAllocationHandle handle;

    assert_ok(cuMemCreate(&handle, size, &properties, 0));
    return handle;
}

static void export_memory(void) {
    CUmemGenericAllocationHandle handle;
    unsigned long long types = 0;
    size_t before;
    CUdeviceptr at;
    int file;

    set_up_context(NULL);
    before = available();
    handle = create_shared();
    assert_int_equal(available(), before - size);
    at = map(handle);
    assert_ok(cuPointerGetAttribute(&types, CU_POINTER_ATTRIBUTE_ALLOWED_HANDLE_TYPES, at));
    assert_int_equal(types, posix);
    assert_ok(cuMemsetD32_v2(at, 11, size / 4));
    assert_ok(cuCtxSynchronize());
    assert_ok(cuMemExportToShareableHandle(&file, handle, posix, 0));
    send_file(file);
    hear('w');
    assert_int_equal(word(at), 12); /* what the other one wrote */
    assert_int_equal(word(at + size - 4), 11);
    unmap(at);
    assert_ok(cuMemRelease(handle));
    assert_int_equal(available(), before);
    say('r');
    hear('d');
    tear_down_context(NULL);
}

static void import_memory(void) {
    CUmemGenericAllocationHandle handle, again;
    CUmemAllocationProp properties;
    size_t before;
    CUdeviceptr at;
    int file = receive_file();

    set_up_context(NULL);
    before = available();
    assert_ok(cuMemImportFromShareableHandle(&handle, (void *)(intptr_t)file, posix));
    assert_ok(cuMemImportFromShareableHandle(&again, (void *)(intptr_t)file, posix));
    assert_int_equal(close(file), 0); /* the handles do not need it any more */
    assert_ok(cuMemGetAllocationPropertiesFromHandle(&properties, handle));
    assert_int_equal(properties.location.id, 0);
    assert_int_equal(properties.requestedHandleTypes, posix);
    at = map(handle);
    assert_int_equal(available(), before); /* it is the other's */
    assert_int_equal(word(at + size - 4), 11);
    assert_ok(launch_fill(NULL, at, 1, 12));
    assert_ok(cuCtxSynchronize());
    say('w');
    hear('r');
    assert_int_equal(word(at), 12); /* it lives on without who made it */
    unmap(at);
    assert_ok(cuMemRelease(handle));
    at = map(again);
    assert_int_equal(word(at), 12);
    unmap(at);
    assert_ok(cuMemRelease(again));
    assert_int_equal(cuMemRelease(again), CUDA_ERROR_INVALID_VALUE);
    say('d');
    tear_down_context(NULL);
}

static void test_two_processes_have_the_same_memory(void **state) {
    (void)state;
    run_both(export_memory, import_memory);
}

static void use_memory_and_fail(void) {
    CUmemAllocationProp plain = shared_properties();
    CUmemGenericAllocationHandle shared, other;
    int file, pipe_ends[2];
    FILE *regular;

    set_up_context(NULL);
    plain.requestedHandleTypes = CU_MEM_HANDLE_TYPE_NONE;
    shared = create_shared();
    assert_ok(cuMemCreate(&other, size, &plain, 0));
    assert_int_equal(cuMemExportToShareableHandle(&file, other, posix, 0),
                     CUDA_ERROR_INVALID_VALUE);
    assert_int_equal(cuMemExportToShareableHandle(&file, 12345, posix, 0),
                     CUDA_ERROR_INVALID_VALUE);
    assert_int_equal(cuMemExportToShareableHandle(NULL, shared, posix, 0),
                     CUDA_ERROR_INVALID_VALUE);
    assert_int_equal(cuMemExportToShareableHandle(&file, shared, posix, 1),
                     CUDA_ERROR_INVALID_VALUE);
    assert_int_equal(cuMemExportToShareableHandle(&file, shared, CU_MEM_HANDLE_TYPE_NONE, 0),
                     CUDA_ERROR_INVALID_VALUE);
    assert_int_equal(cuMemExportToShareableHandle(&file, shared, CU_MEM_HANDLE_TYPE_WIN32, 0),
                     CUDA_ERROR_NOT_SUPPORTED);
    assert_int_equal(pipe(pipe_ends), 0);
    regular = tmpfile();
    assert_non_null(regular);
    assert_int_equal(ftruncate(fileno(regular), 8192), 0);
    for (int i = 0; i < 3; i++) {
        int wrong = (int[]){pipe_ends[0], fileno(regular), 987654}[i];

        assert_int_equal(cuMemImportFromShareableHandle(&other, (void *)(intptr_t)wrong, posix),
                         CUDA_ERROR_INVALID_VALUE);
    }
    assert_ok(cuMemExportToShareableHandle(&file, shared, posix, 0));
    assert_int_equal(cuMemImportFromShareableHandle(NULL, (void *)(intptr_t)file, posix),
                     CUDA_ERROR_INVALID_VALUE);
    assert_int_equal(
        cuMemImportFromShareableHandle(&other, (void *)(intptr_t)file, CU_MEM_HANDLE_TYPE_NONE),
        CUDA_ERROR_INVALID_VALUE);
    assert_int_equal(
        cuMemImportFromShareableHandle(&other, (void *)(intptr_t)file, CU_MEM_HANDLE_TYPE_WIN32),
        CUDA_ERROR_NOT_SUPPORTED);
    assert_true((fcntl(file, F_GETFD) & FD_CLOEXEC) != 0);
    close(file);
    fclose(regular);
    assert_ok(cuMemRelease(shared));
    tear_down_context(NULL);
}

static void do_nothing(void) {
}

static void test_what_cannot_be_shared_is_refused(void **state) {
    (void)state;
    run_both(use_memory_and_fail, do_nothing);
}

/* --- pools --- */

static CUmemoryPool create_pool(CUmemAllocationHandleType types) {
    CUmemPoolProps properties = {.allocType = CU_MEM_ALLOCATION_TYPE_PINNED,
                                 .handleTypes = types,
                                 .location = {.type = CU_MEM_LOCATION_TYPE_DEVICE}};
    CUmemoryPool pool;

    assert_ok(cuMemPoolCreate(&pool, &properties));
    return pool;
}

static void export_pool(void) {
    CUdeviceptr pointers[2];
    CUmemoryPool pool;
    int file;

    set_up_context(NULL);
    pool = create_pool(posix);
    assert_ok(cuMemPoolExportToShareableHandle(&file, pool, posix, 0));
    send_file(file);
    for (int i = 0; i < 2; i++) { /* a large and a small one */
        CUmemPoolPtrExportData data;

        assert_ok(cuMemAllocFromPoolAsync(&pointers[i], i == 0 ? size : 3000, pool, NULL));
        assert_ok(cuMemsetD32_v2(pointers[i], 20 + (unsigned int)i, 700));
        assert_ok(cuCtxSynchronize());
        assert_ok(cuMemPoolExportPointer(&data, pointers[i]));
        assert_int_equal(write(other_end, &data, sizeof data), sizeof data);
    }
    hear('w');
    assert_int_equal(word(pointers[0]), 30);
    assert_int_equal(word(pointers[1]), 31);
    assert_ok(cuMemFreeAsync(pointers[0], NULL));
    assert_ok(cuMemFreeAsync(pointers[1], NULL));
    assert_ok(cuCtxSynchronize());
    assert_ok(cuMemPoolDestroy(pool));
    tear_down_context(NULL);
}

static void import_pool(void) {
    CUmemPoolPtrExportData data[2];
    CUdeviceptr pointers[2], none;
    CUmemoryPool pool;
    cuuint64_t used;
    size_t before;
    int file = receive_file();

    set_up_context(NULL);
    before = available();
    assert_ok(cuMemPoolImportFromShareableHandle(&pool, (void *)(intptr_t)file, posix, 0));
    close(file);
    for (int i = 0; i < 2; i++) {
        assert_int_equal(recv(other_end, &data[i], sizeof data[i], MSG_WAITALL), sizeof data[i]);
        assert_ok(cuMemPoolImportPointer(&pointers[i], pool, &data[i]));
        assert_int_equal(word(pointers[i]), 20 + i);
        assert_int_equal(word(pointers[i] + 2796), 20 + i);
        assert_ok(launch_fill(NULL, pointers[i], 1, 30 + (uint32_t)i));
    }
    assert_ok(cuCtxSynchronize());
    assert_ok(cuMemPoolGetAttribute(pool, CU_MEMPOOL_ATTR_USED_MEM_CURRENT, &used));
    assert_int_equal(used, size + 3000);
    assert_int_equal(available(), before);
    /* it gives nothing new */
    assert_int_equal(cuMemAllocFromPoolAsync(&none, 16, pool, NULL), CUDA_ERROR_INVALID_VALUE);
    assert_int_equal(cuDeviceSetMemPool(0, pool), CUDA_ERROR_INVALID_VALUE);
    assert_int_equal(cuMemPoolExportToShareableHandle(&file, pool, posix, 0),
                     CUDA_ERROR_INVALID_VALUE);
    assert_int_equal(cuIpcCloseMemHandle(pointers[0]), CUDA_ERROR_INVALID_VALUE);
    /* frees of both kinds take it */
    assert_ok(cuMemFree_v2(pointers[0]));
    assert_ok(cuMemFreeAsync(pointers[1], NULL));
    assert_ok(cuCtxSynchronize());
    for (int i = 0; i < 2; i++)
        assert_int_equal(cuMemFree_v2(pointers[i]), CUDA_ERROR_INVALID_VALUE);
    assert_ok(cuMemPoolGetAttribute(pool, CU_MEMPOOL_ATTR_USED_MEM_CURRENT, &used));
    assert_int_equal(used, 0);
    data[1].reserved[0] ^= 1;
    assert_int_equal(cuMemPoolImportPointer(&none, pool, &data[1]), CUDA_ERROR_INVALID_VALUE);
    assert_int_equal(cuMemPoolImportPointer(NULL, pool, &data[0]), CUDA_ERROR_INVALID_VALUE);
    assert_int_equal(cuMemPoolImportPointer(&none, pool, NULL), CUDA_ERROR_INVALID_VALUE);
    assert_int_equal(cuMemPoolImportPointer(&none, create_pool(posix), &data[0]),
                     CUDA_ERROR_INVALID_VALUE);
    assert_ok(cuMemPoolDestroy(pool));
    say('w');
    tear_down_context(NULL);
}

static void test_memory_of_a_pool_is_shared(void **state) {
    (void)state;
    run_both(export_pool, import_pool);
}

static void use_pools_and_fail(void) {
    CUmemoryPool pool, plain, by_default, none;
    CUmemPoolPtrExportData data;
    CUdeviceptr pointer, other;
    int file;

    set_up_context(NULL);
    pool = create_pool(posix);
    plain = create_pool(CU_MEM_HANDLE_TYPE_NONE);
    assert_ok(cuDeviceGetDefaultMemPool(&by_default, 0));
    assert_int_equal(cuMemPoolExportToShareableHandle(&file, plain, posix, 0),
                     CUDA_ERROR_INVALID_VALUE);
    assert_int_equal(cuMemPoolExportToShareableHandle(&file, by_default, posix, 0),
                     CUDA_ERROR_INVALID_VALUE);
    assert_int_equal(cuMemPoolExportToShareableHandle(NULL, pool, posix, 0),
                     CUDA_ERROR_INVALID_VALUE);
    assert_int_equal(cuMemPoolExportToShareableHandle(&file, pool, posix, 1),
                     CUDA_ERROR_INVALID_VALUE);
    assert_int_equal(cuMemPoolExportToShareableHandle(&file, pool, CU_MEM_HANDLE_TYPE_WIN32, 0),
                     CUDA_ERROR_NOT_SUPPORTED);
    assert_int_equal(cuMemPoolImportFromShareableHandle(&none, (void *)(intptr_t)0, posix, 0),
                     CUDA_ERROR_INVALID_VALUE);
    assert_ok(cuMemPoolExportToShareableHandle(&file, pool, posix, 0));
    assert_int_equal(cuMemPoolImportFromShareableHandle(&none, (void *)(intptr_t)file, posix, 1),
                     CUDA_ERROR_INVALID_VALUE);
    assert_int_equal(cuMemPoolImportFromShareableHandle(NULL, (void *)(intptr_t)file, posix, 0),
                     CUDA_ERROR_INVALID_VALUE);
    /* a pool is no memory */
    assert_int_equal(cuMemImportFromShareableHandle(&(CUmemGenericAllocationHandle){0},
                                                    (void *)(intptr_t)file, posix),
                     CUDA_ERROR_INVALID_VALUE);
    close(file);
    assert_ok(cuMemAllocFromPoolAsync(&pointer, 100, plain, NULL));
    assert_ok(cuMemAlloc_v2(&other, 100));
    assert_int_equal(cuMemPoolExportPointer(&data, pointer), CUDA_ERROR_INVALID_VALUE);
    assert_int_equal(cuMemPoolExportPointer(&data, other), CUDA_ERROR_INVALID_VALUE);
    assert_int_equal(cuMemPoolExportPointer(&data, 0), CUDA_ERROR_INVALID_VALUE);
    assert_ok(cuMemFree_v2(other));
    assert_ok(cuMemFree_v2(pointer));
    assert_ok(cuMemAllocFromPoolAsync(&pointer, 100, pool, NULL));
    assert_int_equal(cuMemPoolExportPointer(NULL, pointer), CUDA_ERROR_INVALID_VALUE);
    assert_ok(cuMemPoolExportPointer(&data, pointer));
    assert_int_equal(cuMemPoolImportPointer(&other, pool, &data), CUDA_ERROR_INVALID_VALUE);
    assert_ok(cuMemFree_v2(pointer));
    assert_ok(cuMemPoolDestroy(pool));
    assert_ok(cuMemPoolDestroy(plain));
    tear_down_context(NULL);
}

static void test_pools_that_cannot_be_shared_are_refused(void **state) {
    (void)state;
    run_both(use_pools_and_fail, do_nothing);
}

/* --- the pools of a place --- */

static void use_pools_of_places(void) {
    CUmemLocation device = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = 1}, host = {.id = 0};
    CUmemAllocationType managed = (CUmemAllocationType)2;
    CUmemoryPool pool, other, own;
    CUmemPoolProps properties = {.allocType = CU_MEM_ALLOCATION_TYPE_PINNED, .location = device};

    set_up_context(NULL);
    assert_ok(cuMemGetDefaultMemPool(&pool, &device, CU_MEM_ALLOCATION_TYPE_PINNED));
    assert_ok(cuDeviceGetDefaultMemPool(&other, 1));
    assert_ptr_equal(pool, other);
    assert_ok(cuMemPoolCreate(&own, &properties));
    assert_ok(cuMemSetMemPool(&device, CU_MEM_ALLOCATION_TYPE_PINNED, own));
    assert_ok(cuMemGetMemPool(&pool, &device, CU_MEM_ALLOCATION_TYPE_PINNED));
    assert_ptr_equal(pool, own);
    assert_ok(cuDeviceGetMemPool(&pool, 1));
    assert_ptr_equal(pool, own);
    assert_ok(cuMemGetDefaultMemPool(&pool, &device, CU_MEM_ALLOCATION_TYPE_PINNED));
    assert_ptr_equal(pool, other);
    device.id = 0; /* the pool is another device's */
    assert_int_equal(cuMemSetMemPool(&device, CU_MEM_ALLOCATION_TYPE_PINNED, own),
                     CUDA_ERROR_INVALID_VALUE);
    assert_int_equal(cuMemGetDefaultMemPool(&pool, &device, managed), CUDA_ERROR_NOT_SUPPORTED);
    assert_int_equal(cuMemGetMemPool(NULL, &device, CU_MEM_ALLOCATION_TYPE_PINNED),
                     CUDA_ERROR_INVALID_VALUE);
    device.id = 2;
    assert_int_equal(cuMemGetMemPool(&pool, &device, CU_MEM_ALLOCATION_TYPE_PINNED),
                     CUDA_ERROR_INVALID_DEVICE);
    assert_int_equal(cuMemGetMemPool(&pool, NULL, CU_MEM_ALLOCATION_TYPE_PINNED),
                     CUDA_ERROR_INVALID_VALUE);
    assert_int_equal(cuMemGetMemPool(&pool, &host, CU_MEM_ALLOCATION_TYPE_PINNED),
                     CUDA_ERROR_INVALID_VALUE); /* no place */
    host.type = (CUmemLocationType)2;
    assert_int_equal(cuMemSetMemPool(&host, CU_MEM_ALLOCATION_TYPE_PINNED, own),
                     CUDA_ERROR_NOT_SUPPORTED);
    assert_int_equal(cuMemSetMemPool(&host, (CUmemAllocationType)0, own), CUDA_ERROR_INVALID_VALUE);
    assert_ok(cuMemPoolDestroy(own));
    tear_down_context(NULL);
}

static void test_the_pool_of_a_place_is_the_devices(void **state) {
    (void)state;
    run_both(use_pools_of_places, do_nothing);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_two_processes_have_the_same_memory),
        cmocka_unit_test(test_what_cannot_be_shared_is_refused),
        cmocka_unit_test(test_memory_of_a_pool_is_shared),
        cmocka_unit_test(test_pools_that_cannot_be_shared_are_refused),
        cmocka_unit_test(test_the_pool_of_a_place_is_the_devices),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
