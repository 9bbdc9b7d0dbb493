// Question 14: how far the runtime's calls of the driver are from the program's calls of the
// runtime. Run with frame_probe.c preloaded; the first call of each kind may initialise the
// runtime.
#include "gpu_program.cuh"

#include <dlfcn.h>

typedef void expect_function(const char *, const void *);

static expect_function *expect;
static void *block;

// Each with its one call; not inlined, so that the frame is the function's own. The compiler may
// not turn the call into a jump: its result is used afterwards.
__attribute__((noinline)) static void malloc_here() {
    CUDA_OK(cudaMalloc(&block, 4096));
}

__attribute__((noinline)) static void free_here() {
    CUDA_OK(cudaFree(block));
}

int main(int count, char **arguments) {
    const char *runtime = count > 1 ? arguments[1] : "unnamed";
    expect = (expect_function *)dlsym(RTLD_DEFAULT, "frame_probe_expect");
    if (expect == nullptr) {
        printf("skip frame_probe is not preloaded\n");
        return EXIT_SKIPPED;
    }
    static char label[4][96];
    for (int round = 0; round < 2; round++) {
        const char *when = round == 0 ? "first" : "second";
        snprintf(label[2 * round], sizeof label[0], "%s cudaMalloc, runtime: %s", when, runtime);
        expect(label[2 * round], (const void *)malloc_here);
        malloc_here();
        snprintf(label[2 * round + 1], sizeof label[0], "%s cudaFree, runtime: %s", when, runtime);
        expect(label[2 * round + 1], (const void *)free_here);
        free_here();
    }
    return 0;
}
