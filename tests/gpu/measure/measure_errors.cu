// Question 11: whether a free flushes device printf and returns a faulting kernel's error; and the
// attributes of the device that decide whether memory is visible to the host.
#include "measure.h"

#include <fcntl.h>
#include <poll.h>
#include <unistd.h>

__global__ static void spin_and_print(unsigned long long nanoseconds) {
    unsigned long long start, now;
    asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(start));
    do {
        asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(now));
    } while (now - start < nanoseconds);
    printf("from the device\n");
}

__global__ static void write_to(uint32_t *address) {
    *address = 1;
}

__global__ static void trap() {
    asm volatile("trap;");
}

// Whether the device's line has arrived in the pipe that stands in for standard output.
static bool arrived(int pipe_end) {
    fflush(stdout);
    char buffer[256];
    ssize_t got = read(pipe_end, buffer, sizeof buffer);
    return got > 0;
}

void measure_printf() {
    start_device();
    int ends[2], standard_output = dup(1);
    REQUIRE(pipe(ends) == 0);
    REQUIRE(fcntl(ends[0], F_SETFL, O_NONBLOCK) == 0);
    fflush(stdout);
    std::string line;
    REQUIRE(dup2(ends[1], 1) == 1);
    spin_and_print<<<1, 1>>>(0);
    CUDA_OK(cudaDeviceSynchronize());
    bool control = arrived(ends[0]);
    for (size_t bytes : {(size_t)4096, (size_t)8 << 20}) {
        for (int kind = 0; kind < 3; kind++) {
            CUdeviceptr block;
            DRIVER_OK(cuMemAlloc(&block, bytes));
            spin_and_print<<<1, 1>>>(5000000);
            CUDA_OK(cudaGetLastError());
            double start = now_us();
            DRIVER_OK(kind == 0   ? cuMemFree(block)
                      : kind == 1 ? cuCtxSynchronize()
                                  : cuStreamSynchronize(CU_STREAM_LEGACY));
            double took = now_us() - start;
            bool flushed = arrived(ends[0]);
            DRIVER_OK(cuCtxSynchronize());
            bool later = arrived(ends[0]);
            static const char *const names[] = {"cuMemFree", "cuCtxSynchronize",
                                                "cuStreamSynchronize"};
            line += text("%s%s (%s) %s, %.0f us", line.empty() ? "" : "; ", names[kind],
                         size_name(bytes).c_str(),
                         flushed ? "flushes"
                         : later ? "does not flush"
                                 : "LOST THE LINE",
                         took);
            if (kind != 0) {
                DRIVER_OK(cuMemFree(block));
            }
        }
    }
    fflush(stdout);
    REQUIRE(dup2(standard_output, 1) == 1);
    answer("11.1", "device printf pending", "%s (control: cudaDeviceSynchronize %s)", line.c_str(),
           control ? "flushes" : "DOES NOT FLUSH");
}

// Launches a kernel that faults after 3 ms and then makes the calls that a program makes.
template <typename Fault>
static void fault(const char *id, const char *question, bool synchronise_first, Fault launch) {
    start_device();
    CUdeviceptr first, second, third;
    DRIVER_OK(cuMemAlloc(&first, 4096));
    DRIVER_OK(cuMemAlloc(&second, 8 << 20));
    CUcontext current;
    launch();
    CUresult launched = cuMemFree(0);
    std::string before = code_name(launched);
    if (synchronise_first) {
        before += ", cuCtxSynchronize " + code_name(cuCtxSynchronize());
    }
    CUresult free_first = cuMemFree(first);
    CUresult free_second = cuMemFree(second);
    CUresult allocated = cuMemAlloc(&third, 4096);
    CUresult zero = cuMemFree(0);
    CUresult synchronised = cuCtxSynchronize();
    CUresult again = cuMemFree(first);
    CUresult asked = cuCtxGetCurrent(&current);
    cudaError_t runtime = cudaFree(nullptr);
    answer(
        id, question,
        "cuMemFree(0) at once %s; cuMemFree of 4 KiB %s, of 8 MiB %s; cuMemAlloc %s; cuMemFree(0) "
        "%s; cuCtxSynchronize %s; second free %s; cuCtxGetCurrent %s; cudaFree(0) %s, last "
        "error %s",
        before.c_str(), code_name(free_first).c_str(), code_name(free_second).c_str(),
        code_name(allocated).c_str(), code_name(zero).c_str(), code_name(synchronised).c_str(),
        code_name(again).c_str(), code_name(asked).c_str(), cudaGetErrorName(runtime),
        cudaGetErrorName(cudaGetLastError()));
}

void measure_fault() {
    fault("11.2", "kernel in the legacy stream writes to address 16", false, [] {
        spin<<<1, 1>>>(3000000, nullptr, 0);
        write_to<<<1, 1>>>((uint32_t *)16);
    });
}

void measure_fault_non_blocking() {
    fault("11.3", "kernel in a non-blocking stream writes to address 16", false, [] {
        CUstream stream;
        DRIVER_OK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
        spin<<<1, 1, 0, stream>>>(3000000, nullptr, 0);
        write_to<<<1, 1, 0, stream>>>((uint32_t *)16);
    });
}

void measure_trap() {
    fault("11.4", "kernel traps, with a synchronisation before the frees", true, [] {
        spin<<<1, 1>>>(3000000, nullptr, 0);
        trap<<<1, 1>>>();
    });
}

void measure_attributes() {
    CUdevice device;
    DRIVER_OK(cuInit(0));
    DRIVER_OK(cuDeviceGet(&device, 0));
    static const struct {
        CUdevice_attribute attribute;
        const char *name;
    } attributes[] = {
        {CU_DEVICE_ATTRIBUTE_PAGEABLE_MEMORY_ACCESS, "PAGEABLE_MEMORY_ACCESS"},
        {CU_DEVICE_ATTRIBUTE_PAGEABLE_MEMORY_ACCESS_USES_HOST_PAGE_TABLES,
         "PAGEABLE_MEMORY_ACCESS_USES_HOST_PAGE_TABLES"},
        {CU_DEVICE_ATTRIBUTE_CONCURRENT_MANAGED_ACCESS, "CONCURRENT_MANAGED_ACCESS"},
        {CU_DEVICE_ATTRIBUTE_DIRECT_MANAGED_MEM_ACCESS_FROM_HOST,
         "DIRECT_MANAGED_MEM_ACCESS_FROM_HOST"},
        {CU_DEVICE_ATTRIBUTE_CAN_USE_HOST_POINTER_FOR_REGISTERED_MEM,
         "CAN_USE_HOST_POINTER_FOR_REGISTERED_MEM"},
        {CU_DEVICE_ATTRIBUTE_INTEGRATED, "INTEGRATED"},
        {CU_DEVICE_ATTRIBUTE_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED,
         "VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED"},
        {CU_DEVICE_ATTRIBUTE_GPU_DIRECT_RDMA_SUPPORTED, "GPU_DIRECT_RDMA_SUPPORTED"},
        {CU_DEVICE_ATTRIBUTE_DMA_BUF_SUPPORTED, "DMA_BUF_SUPPORTED"},
        {CU_DEVICE_ATTRIBUTE_MEMORY_POOLS_SUPPORTED, "MEMORY_POOLS_SUPPORTED"},
        {CU_DEVICE_ATTRIBUTE_COMPUTE_MODE, "COMPUTE_MODE"},
        {CU_DEVICE_ATTRIBUTE_COMPUTE_PREEMPTION_SUPPORTED, "COMPUTE_PREEMPTION_SUPPORTED"},
    };
    std::string line;
    for (const auto &one : attributes) {
        int value = -1;
        CUresult code = cuDeviceGetAttribute(&value, one.attribute, device);
        line += text("%s%s %s", line.empty() ? "" : ", ", one.name,
                     code == CUDA_SUCCESS ? text("%d", value).c_str() : code_name(code).c_str());
    }
    answer("11.10", "attributes of the device", "%s", line.c_str());
    size_t total = 0;
    int version = 0;
    DRIVER_OK(cuDeviceTotalMem(&total, device));
    DRIVER_OK(cuDriverGetVersion(&version));
    answer("11.11", "cuDeviceTotalMem, cuDriverGetVersion", "%zu bytes, %d", total, version);
}
