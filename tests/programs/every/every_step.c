/* every_step: calls some functions of the driver instruction by instruction, and unwinds the stack
 * to main at each that is the pool's. Prints how many there were, and where the stack could not be
 * unwound. For x86-64. */
#include "driver/cuda_api.h"
#include "program.h"

#include <dlfcn.h>
#include <link.h>
#include <signal.h>
#include <stdbool.h>
#include <string.h>
#include <ucontext.h>
#include <unwind.h>

static uintptr_t low, high, wanted;
static unsigned long steps;
static bool reached;

static int find_pool(struct dl_phdr_info *info, size_t size, void *data) {
    (void)size;
    (void)data;
    if (strstr(info->dlpi_name, "libpoolcuda.so"))
        for (int i = 0; i < info->dlpi_phnum; i++)
            if (info->dlpi_phdr[i].p_type == PT_LOAD && info->dlpi_phdr[i].p_flags & PF_X) {
                low = info->dlpi_addr + info->dlpi_phdr[i].p_vaddr;
                high = low + info->dlpi_phdr[i].p_memsz;
            }
    return 0;
}

static _Unwind_Reason_Code visit(struct _Unwind_Context *context, void *data) {
    (void)data;
    reached = reached || _Unwind_GetCFA(context) > wanted;
    return _URC_NO_REASON;
}

static void step(int number, siginfo_t *info, void *data) {
    (void)number;
    (void)info;
    uintptr_t at = (uintptr_t)((ucontext_t *)data)->uc_mcontext.gregs[REG_RIP];
    if (at < low || at >= high)
        return;
    steps++;
    reached = false;
    _Unwind_Backtrace(visit, NULL);
    if (!reached)
        printf("not unwound from 0x%lx\n", (unsigned long)(at - low));
}

enum { TRAP_FLAG = 0x100 };
#define BEGIN_STEPS()                                                                              \
    __asm__ volatile("pushfq; orq %0, (%%rsp); popfq" : : "i"(TRAP_FLAG) : "cc", "memory")
#define END_STEPS()                                                                                \
    __asm__ volatile("pushfq; andq %0, (%%rsp); popfq" : : "i"(~TRAP_FLAG) : "cc", "memory")

static void call_all(CUfunction function) {
    CUdeviceptr block;
    CUstream stream;
    CUevent event;
    unsigned int flags;
    REQUIRE(cuMemAlloc_v2(&block, 4096) == CUDA_SUCCESS);
    REQUIRE(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING) == CUDA_SUCCESS);
    REQUIRE(cuEventCreate(&event, 0) == CUDA_SUCCESS);
    /* What begins threads, with all signals blocked, begins them here. */
    REQUIRE(cuMemsetD32Async(block, 0, 4096 / 4, stream) == CUDA_SUCCESS);
    REQUIRE(cuCtxSynchronize() == CUDA_SUCCESS);
    BEGIN_STEPS();
    cuMemsetD8Async(block, 0, 4096, stream);
    cuEventRecord(event, stream);
    cuLaunchKernel(function, 1, 1, 1, 1, 1, 1, 0, stream, NULL, NULL);
    cuStreamGetFlags(stream, &flags);
    cuStreamGetFlags(NULL, NULL);
    cuEventQuery(event);
    cuMemFree_v2(block);
    cuStreamSynchronize(stream);
    END_STEPS();
    REQUIRE(cuEventDestroy_v2(event) == CUDA_SUCCESS);
    REQUIRE(cuStreamDestroy_v2(stream) == CUDA_SUCCESS);
}

int main(void) {
    CUcontext context;
    struct sigaction action = {.sa_sigaction = step, .sa_flags = SA_SIGINFO};
    REQUIRE(cuInit(0) == CUDA_SUCCESS && cuDevicePrimaryCtxRetain(&context, 0) == CUDA_SUCCESS);
    REQUIRE(cuCtxSetCurrent(context) == CUDA_SUCCESS);
    dl_iterate_phdr(find_pool, NULL);
    wanted = (uintptr_t)__builtin_frame_address(0);
    _Unwind_Backtrace(visit, NULL); /* whatever it takes memory for */
    REQUIRE(sigaction(SIGTRAP, &action, NULL) == 0);
    for (int round = 0; round < 2; round++)
        call_all(NULL);
    printf("%lu steps\n", steps);
    return 0;
}
