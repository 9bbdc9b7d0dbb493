/* Memory and semaphores from outside of CUDA, by file descriptors. */
#include "test_sim.h"

#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

/* A file in memory, as somebody else has it. */
struct outside {
    int file; /* for an import, which takes it */
    size_t size;
    unsigned char *bytes;
};

static struct outside make_outside(size_t size) {
    struct outside outside = {.file = memfd_create("test", MFD_CLOEXEC), .size = size};

    assert_true(outside.file >= 0);
    assert_int_equal(ftruncate(outside.file, (off_t)size), 0);
    outside.bytes = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, outside.file, 0);
    assert_true(outside.bytes != MAP_FAILED);
    return outside;
}

static void remove_outside(struct outside outside) {
    munmap(outside.bytes, outside.size);
}

static bool is_open(int file) {
    return fcntl(file, F_GETFD) >= 0;
}

static CUstream create_stream(void) {
    CUstream stream;

    assert_ok(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    return stream;
}

/* --- memory --- */

static CUDA_EXTERNAL_MEMORY_HANDLE_DESC memory_by(int file, unsigned long long size) {
    return (CUDA_EXTERNAL_MEMORY_HANDLE_DESC){
        .type = CU_EXTERNAL_MEMORY_HANDLE_TYPE_OPAQUE_FD, .handle.fd = file, .size = size};
}

static CUexternalMemory import_memory(int file, size_t size) {
    CUDA_EXTERNAL_MEMORY_HANDLE_DESC from = memory_by(file, size);
    CUexternalMemory memory;

    assert_ok(cuImportExternalMemory(&memory, &from));
    return memory;
}

static CUdeviceptr map(CUexternalMemory memory, size_t offset, size_t size) {
    CUDA_EXTERNAL_MEMORY_BUFFER_DESC buffer = {.offset = offset, .size = size};
    CUdeviceptr address;

    assert_ok(cuExternalMemoryGetMappedBuffer(&address, memory, &buffer));
    return address;
}

static void test_a_file_in_memory_is_the_devices_too(void **state) {
    const size_t offset = 4096 + 512, size = 3 * MiB;
    struct outside outside = make_outside(4 * MiB);
    CUexternalMemory memory = import_memory(outside.file, outside.size);
    CUdeviceptr address = map(memory, offset, size);
    uint32_t value;
    CUdeviceptr base;
    size_t told;

    (void)state;
    assert_ok(launch_fill(NULL, address, size / 4, 0x01010101));
    assert_ok(cuCtxSynchronize());
    assert_int_equal(outside.bytes[offset - 1], 0);
    assert_int_equal(outside.bytes[offset], 1);
    assert_int_equal(outside.bytes[offset + size - 1], 1);
    assert_int_equal(outside.bytes[offset + size], 0);
    memset(outside.bytes + offset, 7, 4);
    assert_ok(cuMemcpyDtoH_v2(&value, address, sizeof value));
    assert_int_equal(value, 0x07070707);
    assert_ok(cuMemGetAddressRange_v2(&base, &told, address + 5));
    assert_true(base == address);
    assert_int_equal(told, size);
    assert_ok(cuMemFree_v2(address));
    assert_ok(cuDestroyExternalMemory(memory));
    remove_outside(outside);
}

static void test_exported_memory_is_imported(void **state) {
    CUmemAllocationProp property = {.type = CU_MEM_ALLOCATION_TYPE_PINNED,
                                    .location = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = 0},
                                    .requestedHandleTypes =
                                        CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR};
    CUmemAccessDesc access = {.location = property.location,
                              .flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
    CUDA_EXTERNAL_MEMORY_HANDLE_DESC from;
    CUmemGenericAllocationHandle handle;
    CUexternalMemory memory;
    CUdeviceptr own, imported;
    uint32_t value;
    int file;

    (void)state;
    assert_ok(cuMemCreate(&handle, 2 * MiB, &property, 0));
    assert_ok(cuMemAddressReserve(&own, 2 * MiB, 0, 0, 0));
    assert_ok(cuMemMap(own, 2 * MiB, 0, handle, 0));
    assert_ok(cuMemSetAccess(own, 2 * MiB, &access, 1));
    assert_ok(
        cuMemExportToShareableHandle(&file, handle, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0));
    from = memory_by(file, 2 * MiB + 1); /* than was exported */
    assert_int_equal(cuImportExternalMemory(&memory, &from), CUDA_ERROR_INVALID_VALUE);
    memory = import_memory(file, 2 * MiB);
    imported = map(memory, 0, 2 * MiB);
    assert_ok(launch_fill(NULL, own, 2 * MiB / 4, 9));
    assert_ok(cuMemcpyDtoH_v2(&value, imported + 2 * MiB - 4, sizeof value));
    assert_int_equal(value, 9);
    assert_ok(cuMemUnmap(own, 2 * MiB));
    assert_ok(cuMemRelease(handle));
    assert_ok(cuMemAddressFree(own, 2 * MiB));
    assert_ok(cuMemcpyDtoH_v2(&value, imported, sizeof value)); /* still there */
    assert_int_equal(value, 9);
    assert_ok(cuMemFree_v2(imported));
    assert_ok(cuDestroyExternalMemory(memory));
}

static void test_an_import_takes_the_descriptor_if_it_succeeds(void **state) {
    struct outside outside = make_outside(4096);
    CUDA_EXTERNAL_MEMORY_HANDLE_DESC from = memory_by(outside.file, 4097);
    CUexternalMemory memory;

    (void)state;
    assert_int_equal(cuImportExternalMemory(&memory, &from), CUDA_ERROR_INVALID_VALUE);
    assert_true(is_open(outside.file));
    memory = import_memory(outside.file, 4096);
    assert_false(is_open(outside.file));
    assert_ok(cuDestroyExternalMemory(memory));
    remove_outside(outside);
}

static void test_what_is_no_memory_is_not_imported(void **state) {
    struct outside outside = make_outside(4096);
    CUDA_EXTERNAL_MEMORY_HANDLE_DESC from = memory_by(-1, 4096);
    CUexternalMemory memory;
    int ends[2], read_only = open("/proc/self/exe", O_RDONLY | O_CLOEXEC);

    (void)state;
    assert_int_equal(cuImportExternalMemory(&memory, &from), CUDA_ERROR_INVALID_HANDLE);
    assert_int_equal(pipe2(ends, O_CLOEXEC), 0);
    from.handle.fd = ends[0];
    assert_int_equal(cuImportExternalMemory(&memory, &from), CUDA_ERROR_INVALID_HANDLE);
    from.handle.fd = read_only;
    assert_int_equal(cuImportExternalMemory(&memory, &from), CUDA_ERROR_INVALID_HANDLE);
    from = memory_by(outside.file, 0);
    assert_int_equal(cuImportExternalMemory(&memory, &from), CUDA_ERROR_INVALID_VALUE);
    from.size = 4096;
    from.flags = 2;
    assert_int_equal(cuImportExternalMemory(&memory, &from), CUDA_ERROR_INVALID_VALUE);
    from.flags = 0;
    from.type = (CUexternalMemoryHandleType)99;
    assert_int_equal(cuImportExternalMemory(&memory, &from), CUDA_ERROR_INVALID_VALUE);
    from.type = CU_EXTERNAL_MEMORY_HANDLE_TYPE_OPAQUE_WIN32;
    assert_int_equal(cuImportExternalMemory(&memory, &from), CUDA_ERROR_NOT_SUPPORTED);
    assert_int_equal(cuImportExternalMemory(NULL, &from), CUDA_ERROR_INVALID_VALUE);
    assert_int_equal(cuImportExternalMemory(&memory, NULL), CUDA_ERROR_INVALID_VALUE);
    from = memory_by(outside.file, 4096);
    from.flags = CUDA_EXTERNAL_MEMORY_DEDICATED;
    assert_ok(cuImportExternalMemory(&memory, &from));
    assert_ok(cuDestroyExternalMemory(memory));
    assert_int_equal(cuDestroyExternalMemory(memory), CUDA_ERROR_INVALID_HANDLE);
    assert_int_equal(cuDestroyExternalMemory(NULL), CUDA_ERROR_INVALID_HANDLE);
    close(ends[0]);
    close(ends[1]);
    close(read_only);
    remove_outside(outside);
}

static CUresult try_map(CUexternalMemory memory, unsigned long long offset, unsigned long long size,
                        unsigned int flags) {
    CUDA_EXTERNAL_MEMORY_BUFFER_DESC buffer = {.offset = offset, .size = size, .flags = flags};
    CUdeviceptr address;

    return cuExternalMemoryGetMappedBuffer(&address, memory, &buffer);
}

static void test_a_buffer_lies_within_its_memory(void **state) {
    struct outside outside = make_outside(8192);
    CUexternalMemory memory = import_memory(outside.file, 6000);
    CUdeviceptr address;

    (void)state;
    assert_int_equal(try_map(memory, 0, 6001, 0), CUDA_ERROR_INVALID_VALUE);
    assert_int_equal(try_map(memory, 1, 6000, 0), CUDA_ERROR_INVALID_VALUE);
    assert_int_equal(try_map(memory, UINT64_MAX - 4095, 4096, 0), CUDA_ERROR_INVALID_VALUE);
    assert_int_equal(try_map(memory, 0, 0, 0), CUDA_ERROR_INVALID_VALUE);
    assert_int_equal(try_map(memory, 0, 4096, 1), CUDA_ERROR_INVALID_VALUE);
    assert_int_equal(cuExternalMemoryGetMappedBuffer(&address, memory, NULL),
                     CUDA_ERROR_INVALID_VALUE);
    assert_ok(cuDestroyExternalMemory(memory));
    assert_int_equal(try_map(memory, 0, 4096, 0), CUDA_ERROR_INVALID_HANDLE);
    remove_outside(outside);
}

static void test_a_buffer_outlives_its_memory_and_its_free_waits(void **state) {
    struct outside outside = make_outside(4096);
    CUexternalMemory memory = import_memory(outside.file, 4096);
    CUdeviceptr address = map(memory, 0, 4096);
    CUstream stream = create_stream();

    (void)state;
    assert_ok(cuDestroyExternalMemory(memory));
    assert_int_equal(cuMemFreeAsync(address, stream), CUDA_ERROR_INVALID_VALUE);
    assert_int_equal(cuIpcCloseMemHandle(address), CUDA_ERROR_INVALID_VALUE);
    for (int i = 0; i < 10; i++)
        assert_ok(launch_fill(stream, address, 1024, 3));
    assert_ok(cuMemFree_v2(address));
    assert_int_equal(outside.bytes[4092], 3);
    assert_int_equal(cuMemFree_v2(address), CUDA_ERROR_INVALID_VALUE);
    assert_ok(cuStreamDestroy_v2(stream));
    remove_outside(outside);
}

static void test_a_buffer_goes_with_its_context(void **state) {
    struct outside outside = make_outside(4096);
    CUexternalMemory memory = import_memory(outside.file, 4096);
    CUcontext other;
    CUdeviceptr address;

    (void)state;
    assert_ok(cuCtxCreate_v2(&other, 0, 0));
    address = map(memory, 0, 4096);
    assert_ok(cuCtxDestroy_v2(other));
    assert_ok(cuCtxSetCurrent(test_context));
    assert_int_equal(cuMemFree_v2(address), CUDA_ERROR_INVALID_VALUE);
    assert_ok(cuMemFree_v2(map(memory, 0, 4096))); /* the memory does not */
    assert_ok(cuDestroyExternalMemory(memory));
    remove_outside(outside);
}

/* --- semaphores --- */

static CUDA_EXTERNAL_SEMAPHORE_HANDLE_DESC semaphore_by(int file) {
    return (CUDA_EXTERNAL_SEMAPHORE_HANDLE_DESC){
        .type = CU_EXTERNAL_SEMAPHORE_HANDLE_TYPE_TIMELINE_SEMAPHORE_FD, .handle.fd = file};
}

static CUexternalSemaphore import_semaphore(int file) {
    CUDA_EXTERNAL_SEMAPHORE_HANDLE_DESC from = semaphore_by(file);
    CUexternalSemaphore semaphore;

    assert_ok(cuImportExternalSemaphore(&semaphore, &from));
    return semaphore;
}

static CUresult signal_value(CUexternalSemaphore semaphore, uint64_t value, CUstream stream) {
    CUDA_EXTERNAL_SEMAPHORE_SIGNAL_PARAMS how = {.params.fence.value = value};

    return cuSignalExternalSemaphoresAsync(&semaphore, &how, 1, stream);
}

static CUresult wait_for(CUexternalSemaphore semaphore, uint64_t value, CUstream stream) {
    CUDA_EXTERNAL_SEMAPHORE_WAIT_PARAMS how = {.params.fence.value = value};

    return cuWaitExternalSemaphoresAsync(&semaphore, &how, 1, stream);
}

static uint64_t value_of(struct outside outside) {
    return __atomic_load_n((uint64_t *)(void *)outside.bytes, __ATOMIC_ACQUIRE);
}

static void set_value(struct outside outside, uint64_t value) {
    __atomic_store_n((uint64_t *)(void *)outside.bytes, value, __ATOMIC_RELEASE);
}

static void test_a_signal_comes_after_the_work_before_it(void **state) {
    struct outside outside = make_outside(8);
    CUexternalSemaphore semaphore = import_semaphore(outside.file);
    CUstream stream = create_stream();
    struct gate gate = gate_close(stream);

    (void)state;
    assert_ok(signal_value(semaphore, 1, stream));
    assert_ok(signal_value(semaphore, UINT64_MAX, stream));
    assert_int_equal(cuStreamQuery(stream), CUDA_ERROR_NOT_READY);
    assert_int_equal(value_of(outside), 0);
    gate_remove(gate);
    assert_ok(cuStreamSynchronize(stream));
    assert_true(value_of(outside) == UINT64_MAX);
    assert_ok(cuDestroyExternalSemaphore(semaphore));
    assert_ok(cuStreamDestroy_v2(stream));
    remove_outside(outside);
}

static void test_a_wait_lasts_until_the_value_is_not_less(void **state) {
    struct outside outside = make_outside(4096), after = make_outside(8);
    CUexternalSemaphore semaphore = import_semaphore(outside.file);
    CUexternalSemaphore last = import_semaphore(after.file);
    CUstream stream = create_stream();

    (void)state;
    set_value(outside, 5);
    assert_ok(wait_for(semaphore, 4, stream));
    assert_ok(wait_for(semaphore, 5, stream));
    assert_ok(cuStreamSynchronize(stream));
    assert_ok(wait_for(semaphore, UINT64_MAX - 1, stream)); /* no value wraps around */
    assert_ok(signal_value(last, 1, stream));
    for (int i = 0; i < 3; i++)
        assert_int_equal(cuStreamQuery(stream), CUDA_ERROR_NOT_READY);
    assert_int_equal(value_of(after), 0);
    set_value(outside, UINT64_MAX);
    assert_ok(cuStreamSynchronize(stream));
    assert_int_equal(value_of(after), 1);
    assert_ok(cuDestroyExternalSemaphore(semaphore));
    assert_ok(cuDestroyExternalSemaphore(last));
    assert_ok(cuStreamDestroy_v2(stream));
    remove_outside(outside);
    remove_outside(after);
}

static void test_a_set_of_semaphores_is_waited_for_and_signaled(void **state) {
    struct outside outside[3] = {make_outside(8), make_outside(8), make_outside(8)};
    CUDA_EXTERNAL_SEMAPHORE_WAIT_PARAMS waits[3] = {
        {.params.fence.value = 1}, {.params.fence.value = 2}, {.params.fence.value = 3}};
    CUDA_EXTERNAL_SEMAPHORE_SIGNAL_PARAMS signals[3] = {
        {.params.fence.value = 10}, {.params.fence.value = 20}, {.params.fence.value = 30}};
    CUexternalSemaphore semaphores[3];
    CUstream stream = create_stream();

    (void)state;
    for (int i = 0; i < 3; i++)
        semaphores[i] = import_semaphore(outside[i].file);
    assert_ok(cuWaitExternalSemaphoresAsync(semaphores, waits, 3, stream));
    assert_ok(cuSignalExternalSemaphoresAsync(semaphores, signals, 3, stream));
    for (int i = 2; i >= 0; i--) {
        assert_int_equal(cuStreamQuery(stream), CUDA_ERROR_NOT_READY);
        set_value(outside[i], (uint64_t)i + 1);
    }
    assert_ok(cuStreamSynchronize(stream));
    for (int i = 0; i < 3; i++) {
        assert_int_equal(value_of(outside[i]), 10 * (i + 1));
        assert_ok(cuDestroyExternalSemaphore(semaphores[i]));
        remove_outside(outside[i]);
    }
    assert_ok(cuStreamDestroy_v2(stream));
}

/* The child has no CUDA. */
static void test_another_process_takes_part(void **state) {
    struct outside to = make_outside(8), from = make_outside(8);
    pid_t child = fork();
    CUexternalSemaphore there, here;
    int status;

    (void)state;
    assert_true(child >= 0);
    if (child == 0) {
        for (uint64_t i = 1; i <= 10; i++) {
            while (value_of(to) < i)
                usleep(100);
            set_value(from, i);
        }
        _exit(0);
    }
    there = import_semaphore(to.file);
    here = import_semaphore(from.file);
    for (uint64_t i = 1; i <= 10; i++) {
        assert_ok(signal_value(there, i, NULL));
        assert_ok(wait_for(here, i, NULL));
    }
    assert_ok(cuCtxSynchronize());
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
    assert_ok(cuDestroyExternalSemaphore(there));
    assert_ok(cuDestroyExternalSemaphore(here));
    remove_outside(to);
    remove_outside(from);
}

static void test_a_semaphore_may_be_destroyed_before_its_work(void **state) {
    struct outside outside = make_outside(8);
    CUexternalSemaphore semaphore = import_semaphore(outside.file);
    CUstream stream = create_stream();

    (void)state;
    assert_ok(wait_for(semaphore, 1, stream));
    assert_ok(signal_value(semaphore, 2, stream));
    assert_ok(cuDestroyExternalSemaphore(semaphore));
    set_value(outside, 1);
    assert_ok(cuStreamSynchronize(stream));
    assert_int_equal(value_of(outside), 2);
    assert_ok(cuStreamDestroy_v2(stream));
    remove_outside(outside);
}

static void test_semaphores_are_captured(void **state) {
    struct outside outside = make_outside(8);
    int again = dup(outside.file);
    CUexternalSemaphore semaphore = import_semaphore(outside.file);
    CUexternalSemaphore same = import_semaphore(again);
    CUstream stream = create_stream();
    CUgraphExec executable;
    CUgraph graph;
    size_t nodes;

    (void)state;
    assert_ok(cuStreamBeginCapture_v2(stream, CU_STREAM_CAPTURE_MODE_GLOBAL));
    assert_ok(wait_for(semaphore, 1, stream));
    assert_ok(signal_value(same, 0, stream));
    assert_ok(cuStreamEndCapture(stream, &graph));
    assert_ok(cuGraphGetNodes(graph, NULL, &nodes));
    assert_int_equal(nodes, 2);
    assert_ok(cuGraphInstantiateWithFlags(&executable, graph, 0));
    assert_ok(cuGraphDestroy(graph));
    assert_ok(cuDestroyExternalSemaphore(semaphore));
    assert_ok(cuDestroyExternalSemaphore(same));
    for (int i = 0; i < 3; i++) {
        assert_ok(cuGraphLaunch(executable, stream));
        assert_int_equal(cuStreamQuery(stream), CUDA_ERROR_NOT_READY);
        set_value(outside, 1);
        assert_ok(cuStreamSynchronize(stream));
        assert_int_equal(value_of(outside), 0);
    }
    assert_ok(cuGraphExecDestroy(executable));
    assert_ok(cuStreamDestroy_v2(stream));
    remove_outside(outside);
}

static void test_what_is_no_semaphore_is_refused(void **state) {
    struct outside outside = make_outside(7), good = make_outside(8);
    CUDA_EXTERNAL_SEMAPHORE_HANDLE_DESC from = semaphore_by(outside.file);
    CUDA_EXTERNAL_SEMAPHORE_SIGNAL_PARAMS signal = {.flags = 1};
    CUDA_EXTERNAL_SEMAPHORE_WAIT_PARAMS wait = {.flags = 1};
    CUexternalSemaphore semaphore;

    (void)state;
    assert_int_equal(cuImportExternalSemaphore(&semaphore, &from), CUDA_ERROR_INVALID_HANDLE);
    assert_true(is_open(outside.file));
    from.handle.fd = -1;
    assert_int_equal(cuImportExternalSemaphore(&semaphore, &from), CUDA_ERROR_INVALID_HANDLE);
    from = semaphore_by(good.file);
    from.flags = 1;
    assert_int_equal(cuImportExternalSemaphore(&semaphore, &from), CUDA_ERROR_INVALID_VALUE);
    from.flags = 0;
    from.type = CU_EXTERNAL_SEMAPHORE_HANDLE_TYPE_OPAQUE_FD;
    assert_int_equal(cuImportExternalSemaphore(&semaphore, &from), CUDA_ERROR_NOT_SUPPORTED);
    from.type = (CUexternalSemaphoreHandleType)0;
    assert_int_equal(cuImportExternalSemaphore(&semaphore, &from), CUDA_ERROR_INVALID_VALUE);
    assert_int_equal(cuImportExternalSemaphore(&semaphore, NULL), CUDA_ERROR_INVALID_VALUE);
    semaphore = import_semaphore(good.file);
    assert_false(is_open(good.file));
    assert_int_equal(cuSignalExternalSemaphoresAsync(&semaphore, &signal, 1, NULL),
                     CUDA_ERROR_INVALID_VALUE);
    assert_int_equal(cuWaitExternalSemaphoresAsync(&semaphore, &wait, 1, NULL),
                     CUDA_ERROR_INVALID_VALUE);
    signal.flags = 0;
    assert_int_equal(cuSignalExternalSemaphoresAsync(&semaphore, &signal, 0, NULL),
                     CUDA_ERROR_INVALID_VALUE);
    assert_int_equal(cuSignalExternalSemaphoresAsync(&semaphore, NULL, 1, NULL),
                     CUDA_ERROR_INVALID_VALUE);
    assert_ok(cuSignalExternalSemaphoresAsync_ptsz(&semaphore, &signal, 1, NULL));
    wait.flags = 0;
    assert_ok(cuWaitExternalSemaphoresAsync_ptsz(&semaphore, &wait, 1, NULL));
    assert_ok(cuDestroyExternalSemaphore(semaphore));
    assert_int_equal(cuDestroyExternalSemaphore(semaphore), CUDA_ERROR_INVALID_HANDLE);
    assert_int_equal(wait_for(semaphore, 0, NULL), CUDA_ERROR_INVALID_HANDLE);
    close(outside.file);
    remove_outside(outside);
    remove_outside(good);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_file_in_memory_is_the_devices_too),
        cmocka_unit_test(test_exported_memory_is_imported),
        cmocka_unit_test(test_an_import_takes_the_descriptor_if_it_succeeds),
        cmocka_unit_test(test_what_is_no_memory_is_not_imported),
        cmocka_unit_test(test_a_buffer_lies_within_its_memory),
        cmocka_unit_test(test_a_buffer_outlives_its_memory_and_its_free_waits),
        cmocka_unit_test(test_a_buffer_goes_with_its_context),
        cmocka_unit_test(test_a_signal_comes_after_the_work_before_it),
        cmocka_unit_test(test_a_wait_lasts_until_the_value_is_not_less),
        cmocka_unit_test(test_a_set_of_semaphores_is_waited_for_and_signaled),
        cmocka_unit_test(test_another_process_takes_part),
        cmocka_unit_test(test_a_semaphore_may_be_destroyed_before_its_work),
        cmocka_unit_test(test_semaphores_are_captured),
        cmocka_unit_test(test_what_is_no_semaphore_is_refused),
    };

    return cmocka_run_group_tests(tests, set_up_context, tear_down_context);
}
