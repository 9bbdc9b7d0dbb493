/* Whether every native free waits, prints what the device has printed and tells a kernel's fault;
 * and whether it matters that the block is its context's last one. */
#include "probes.h"

#include <fcntl.h>
#include <unistd.h>

enum { SMALL = 4096, LARGE = 8 << 20, TRIALS = 3 };

static const char *which(bool last) {
    return last ? "the context's last block" : "a block beside another one";
}

/* How many of some frees waited for work of the stream. */
static int count_waits(const struct start *start, CUstream stream, size_t bytes, bool last) {
    CUevent done = new_event();
    int waits = 0;
    for (int trial = 0; trial < TRIALS; trial++) {
        CUdeviceptr other = last ? 0 : allocate(SMALL), block = allocate(bytes);
        CHECK(cuCtxSynchronize());
        keep_busy(start, stream);
        CHECK(cuEventRecord(done, stream));
        CHECK(cuMemFree_v2(block));
        waits += cuEventQuery(done) == CUDA_SUCCESS;
        CHECK(cuCtxSynchronize());
        CHECK(cuMemFree_v2(other));
    }
    CHECK(cuEventDestroy_v2(done));
    return waits;
}

void probe_free_waits(void) {
    struct start start = start_device();
    const struct {
        const char *name;
        CUstream stream;
    } streams[] = {{"the legacy stream", CU_STREAM_LEGACY},
                   {"the per-thread stream", CU_STREAM_PER_THREAD},
                   {"a blocking stream", new_stream(CU_STREAM_DEFAULT)},
                   {"a non-blocking stream", new_stream(CU_STREAM_NON_BLOCKING)}};
    int number = 1;
    for (size_t i = 0; i < sizeof streams / sizeof streams[0]; i++) {
        for (int last = 0; last <= 1; last++) {
            char id[16], question[128];
            snprintf(id, sizeof id, "18.%d", number++);
            snprintf(question, sizeof question, "cuMemFree of %s while a kernel runs in %s",
                     which(last), streams[i].name);
            answer(id, question, "of 4 KiB %d of %d waited, of 8 MiB %d of %d",
                   count_waits(&start, streams[i].stream, SMALL, last), TRIALS,
                   count_waits(&start, streams[i].stream, LARGE, last), TRIALS);
        }
    }
}

/* Prints a line. */
static const char print_ptx[] =
    ".version 6.0\n"
    ".target sm_50\n"
    ".address_size 64\n"
    ".extern .func (.param .b32 printed) vprintf (.param .b64 format, .param .b64 values);\n"
    ".global .align 1 .b8 line[7] = {100, 101, 118, 105, 99, 101, 10};\n"
    ".global .align 1 .b8 ending[1];\n"
    ".visible .entry print_line()\n"
    "{\n"
    "    .reg .b64 %a;\n"
    "    .param .b64 format;\n"
    "    .param .b64 values;\n"
    "    .param .b32 printed;\n"
    "    cvta.global.u64 %a, line;\n"
    "    st.param.b64 [format], %a;\n"
    "    mov.u64 %a, 0;\n"
    "    st.param.b64 [values], %a;\n"
    "    call.uni (printed), vprintf, (format, values);\n"
    "    ret;\n"
    "}\n";

/* Whether something has come out of the pipe that stands in for standard output. */
static bool has_arrived(int pipe_end) {
    char buffer[64];
    fflush(stdout);
    return read(pipe_end, buffer, sizeof buffer) > 0;
}

static void print_and_free(const char *id, bool last) {
    struct start start = start_device();
    char question[128];
    CUmodule module;
    CUfunction print_line;
    int ends[2], output = dup(1);
    snprintf(question, sizeof question, "cuMemFree of %s behind a kernel that prints", which(last));
    CUresult loaded = cuModuleLoadData(&module, print_ptx);
    if (loaded == CUDA_SUCCESS)
        loaded = cuModuleGetFunction(&print_line, module, "print_line");
    if (loaded != CUDA_SUCCESS) {
        answer(id, question, "not asked: the kernel cannot be had, %s", code_name(loaded));
        return;
    }
    CUdeviceptr other = last ? 0 : allocate(SMALL), block = allocate(SMALL);
    REQUIRE(output >= 0 && pipe(ends) == 0 && fcntl(ends[0], F_SETFL, O_NONBLOCK) == 0);
    fflush(stdout);
    REQUIRE(dup2(ends[1], 1) == 1);
    keep_busy(&start, NULL);
    launch(print_line, NULL, NULL);
    CUresult freed = cuMemFree_v2(block);
    bool at_once = has_arrived(ends[0]);
    CUresult synchronized = cuCtxSynchronize();
    bool later = has_arrived(ends[0]);
    REQUIRE(dup2(output, 1) == 1);
    answer(id, question, "%s (%s); cuCtxSynchronize after it (%s) %s",
           at_once ? "the line is there after it" : "no line after it", code_name(freed),
           code_name(synchronized), later ? "brings a line" : "brings nothing");
    CHECK(cuMemFree_v2(other));
}

void probe_printf(void) {
    print_and_free("18.9", false);
}

void probe_printf_last(void) {
    print_and_free("18.10", true);
}

static void fault_and_free(const char *id, bool last) {
    struct start start = start_device();
    char question[128];
    CUdeviceptr pointer = last ? 0 : allocate(SMALL), block = allocate(SMALL);
    snprintf(question, sizeof question, "cuMemFree of %s behind a kernel that faults", which(last));
    keep_busy(&start, NULL);
    launch(start.fault, NULL, NULL);
    CUresult freed = cuMemFree_v2(block);
    CUresult allocated = cuMemAlloc_v2(&pointer, SMALL);
    answer(id, question, "%s; cuMemAlloc after it %s; cuCtxSynchronize %s", code_name(freed),
           code_name(allocated), code_name(cuCtxSynchronize()));
}

void probe_fault(void) {
    fault_and_free("18.11", false);
}

void probe_fault_last(void) {
    fault_and_free("18.12", true);
}
