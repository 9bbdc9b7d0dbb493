/* Memory and events shared between two processes that each have a simulated device. */
#include "test_sim.h"

#include <stdio.h>
#include <sys/wait.h>
#include <unistd.h>

/* What the process that owns the memory tells the other one. */
struct message {
    CUipcMemHandle large, small;
    CUipcEventHandle event;
    CUdeviceptr large_address;
};

enum { LARGE = 3 << 20, SMALL = 5000 };

static void send_bytes(int file, const void *data, size_t size) {
    assert_int_equal(write(file, data, size), (ssize_t)size);
}

static void receive_bytes(int file, void *data, size_t size) {
    assert_int_equal(read(file, data, size), (ssize_t)size);
}

static uint32_t read_u32(CUdeviceptr pointer) {
    uint32_t value;

    assert_ok(cuMemcpyDtoH_v2(&value, pointer, sizeof value));
    return value;
}

static unsigned int mappings(void) {
    FILE *file = fopen("/proc/self/maps", "re");
    unsigned int count = 0;
    int character;

    assert_non_null(file);
    while ((character = fgetc(file)) != EOF)
        count += character == '\n';
    fclose(file);
    return count;
}

/* As programs do that get a handle with every message. */
static void open_event_often(CUipcEventHandle handle) {
    unsigned int before = 0;
    CUevent event;

    for (int i = 0; i < 300; i++) {
        assert_ok(cuIpcOpenEventHandle(&event, handle));
        assert_ok(cuEventDestroy_v2(event));
        if (i == 99)
            before = mappings();
    }
    assert_true(mappings() < before + 100);
}

/* A handle of which a bit was lost says so, and nothing is read where it points. */
static void open_garbled_handles(const CUipcMemHandle *handle) {
    enum { WORDS = 6 };

    for (int word = 0; word < WORDS; word++) {
        CUipcMemHandle garbled = *handle;
        CUdeviceptr memory;

        garbled.reserved[8 * word + 7] ^= (char)0x40;
        assert_int_not_equal(
            cuIpcOpenMemHandle_v2(&memory, garbled, CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS),
            CUDA_SUCCESS);
    }
}

/* The other process. Returns its exit status; an assertion that fails aborts it. */
static int import(int in, int out) {
    CUdeviceptr large, again, small;
    struct message message;
    CUstream stream;
    CUevent event;

    set_up_context(NULL);
    receive_bytes(in, &message, sizeof message);
    open_garbled_handles(&message.large);
    assert_int_equal(cuIpcOpenMemHandle_v2(&large, message.large, 0), CUDA_ERROR_INVALID_VALUE);
    assert_ok(cuIpcOpenMemHandle_v2(&large, message.large, CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS));
    assert_ok(cuIpcOpenMemHandle_v2(&again, message.large, CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS));
    assert_int_equal(large, again);
    assert_ok(cuIpcOpenMemHandle_v2(&small, message.small, CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS));
    assert_int_equal(cuMemFree_v2(large), CUDA_ERROR_INVALID_VALUE); /* not ours to free */
    open_event_often(message.event);
    assert_ok(cuIpcOpenEventHandle(&event, message.event));

    /* the owner's work is behind a gate: not done until we say so */
    assert_int_equal(cuEventQuery(event), CUDA_ERROR_NOT_READY);
    assert_ok(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    assert_ok(cuStreamWaitEvent(stream, event, 0));
    assert_ok(cuMemcpyDtoDAsync_v2(small, large, 4, stream)); /* after the owner's write */
    send_bytes(out, "1", 1);
    assert_ok(cuStreamSynchronize(stream));
    assert_ok(cuEventSynchronize(event));
    assert_int_equal(read_u32(large + LARGE - 4), 42);
    assert_int_equal(read_u32(small), 42);
    assert_ok(cuMemsetD32_v2(large, 43, 1));
    assert_ok(cuCtxSynchronize());
    assert_ok(cuIpcCloseMemHandle(large));
    assert_int_equal(read_u32(large), 43); /* it was opened twice */
    assert_ok(cuIpcCloseMemHandle(large));
    assert_int_equal(cuIpcCloseMemHandle(large), CUDA_ERROR_INVALID_VALUE);
    assert_ok(cuIpcCloseMemHandle(small));
    send_bytes(out, "2", 1);

    receive_bytes(in, &message.large_address, sizeof message.large_address);
    assert_int_equal(
        cuIpcOpenMemHandle_v2(&large, message.large, CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS),
        CUDA_ERROR_INVALID_VALUE); /* its owner has freed it */
    assert_ok(cuEventDestroy_v2(event));
    assert_ok(cuStreamDestroy_v2(stream));
    return 0;
}

static void test_two_processes(void **state) {
    int to[2], from[2], status;
    CUdeviceptr large, small;
    struct message message;
    struct gate gate;
    CUevent event;
    pid_t child;
    char byte;

    (void)state;
    assert_int_equal(pipe(to), 0);
    assert_int_equal(pipe(from), 0);
    child = fork(); /* before either process initialises its driver */
    if (child == 0)
        _exit(import(to[0], from[1]));
    set_up_context(NULL);
    assert_ok(cuMemAlloc_v2(&large, LARGE));
    assert_ok(cuMemAlloc_v2(&small, 100)); /* so that the next one does not start a page */
    assert_ok(cuMemAlloc_v2(&small, SMALL));
    assert_ok(cuIpcGetMemHandle(&message.large, large + 12345)); /* means the whole allocation */
    assert_ok(cuIpcGetMemHandle(&message.small, small));
    assert_int_equal(cuIpcOpenMemHandle_v2(&message.large_address, message.large,
                                           CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS),
                     CUDA_ERROR_INVALID_CONTEXT); /* not in the process that made it */
    assert_ok(cuEventCreate(&event, CU_EVENT_DISABLE_TIMING));
    assert_int_equal(cuIpcGetEventHandle(&message.event, event), CUDA_ERROR_INVALID_HANDLE);
    assert_ok(cuEventDestroy_v2(event));
    assert_int_equal(cuEventCreate(&event, CU_EVENT_INTERPROCESS), CUDA_ERROR_INVALID_VALUE);
    assert_ok(cuEventCreate(&event, CU_EVENT_DISABLE_TIMING | CU_EVENT_INTERPROCESS));
    assert_ok(cuIpcGetEventHandle(&message.event, event));
    gate = gate_close(NULL);
    assert_ok(launch_fill(NULL, large, LARGE / 4, 42));
    assert_ok(cuEventRecord(event, NULL));
    send_bytes(to[1], &message, sizeof message);
    receive_bytes(from[0], &byte, 1);
    gate_open(gate);
    receive_bytes(from[0], &byte, 1);
    assert_int_equal(read_u32(large), 43);
    assert_int_equal(read_u32(small), 42);
    gate_remove(gate);
    assert_ok(cuMemFree_v2(large));
    assert_ok(cuMemAlloc_v2(&message.large_address, LARGE));
    assert_int_not_equal(message.large_address, large); /* who opened it may still look there */
    send_bytes(to[1], &large, sizeof large);
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 0);
    assert_ok(cuEventDestroy_v2(event));
    tear_down_context(NULL);
}

/* More than a device has at a time. */
static void test_shared_events_make_room_when_they_end(void **state) {
    CUipcEventHandle handle;
    CUevent event;

    (void)state;
    set_up_context(NULL);
    for (int i = 0; i < 40000; i++) {
        assert_ok(cuEventCreate(&event, CU_EVENT_DISABLE_TIMING | CU_EVENT_INTERPROCESS));
        assert_ok(cuIpcGetEventHandle(&handle, event));
        assert_ok(cuEventQuery(event));
        assert_ok(cuEventRecord(event, NULL));
        assert_ok(cuEventSynchronize(event));
        assert_ok(cuEventDestroy_v2(event));
    }
    tear_down_context(NULL);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_two_processes),
        cmocka_unit_test(test_shared_events_make_room_when_they_end),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
