/* run PTX INPUT OUTPUT THREADS WORDS < LAUNCHES: loads the PTX and launches its kernels through the
 * driver's API. Each line of LAUNCHES is a kernel's name, its blocks and the threads of a block. A
 * kernel is given the input, its output (WORDS words for each of at most THREADS threads) and 16
 * words of its own, all zero, which are behind its output in OUTPUT. Ends with 1 and a line on what
 * failed; with 2 if the PTX does not load.
 * run --device: prints the device's compute capability as one number, such as 90.
 *
 * The driver is the libcuda.so.1 that the loader finds, simulated or not: linking with the
 * simulated one would leave its folder in the program. */
#include "cuda_symbols.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { OWN_WORDS = 16 };

#define FUNCTIONS(use)                                                                             \
    use(cuInit) use(cuGetErrorName) use(cuDeviceGet) use(cuDeviceGetAttribute)                     \
        use(cuDevicePrimaryCtxRetain) use(cuCtxSetCurrent) use(cuCtxSynchronize)                   \
            use(cuModuleLoadDataEx) use(cuModuleGetFunction) use(cuLaunchKernel)                   \
                use(cuMemAlloc_v2) use(cuMemsetD8_v2) use(cuMemcpyHtoD_v2) use(cuMemcpyDtoH_v2)

#define MEMBER(name) __typeof__(&name) name;
static struct { FUNCTIONS(MEMBER) } driver; /* the entry points of the driver that was found */

static void open_driver(void) {
    void *library = dlopen("libcuda.so.1", RTLD_NOW);

    if (!library) {
        fprintf(stderr, "no driver: %s\n", dlerror());
        exit(1);
    }
#define LOOK_UP(name)                                                                              \
    if (!(*(void **)&driver.name = dlsym(library, #name))) {                                       \
        fprintf(stderr, "the driver has no " #name "\n");                                          \
        exit(1);                                                                                   \
    }
    FUNCTIONS(LOOK_UP)
}

static void check(CUresult result, const char *what, const char *name) {
    const char *message = NULL;

    if (result == CUDA_SUCCESS)
        return;
    driver.cuGetErrorName(result, &message);
    fprintf(stderr, "%s of %s: %s\n", what, name, message ? message : "unknown");
    exit(1);
}

static char *contents(const char *path, size_t *size) {
    FILE *file = fopen(path, "rb");
    char *text;
    long length;

    if (!file || fseek(file, 0, SEEK_END) || (length = ftell(file)) < 0)
        exit(1);
    rewind(file);
    text = calloc(1, (size_t)length + 1);
    if (!text || fread(text, 1, (size_t)length, file) != (size_t)length)
        exit(1);
    fclose(file);
    *size = (size_t)length;
    return text;
}

static CUmodule load(const char *path) {
    static char log[4096];
    CUjit_option options[] = {CU_JIT_ERROR_LOG_BUFFER, CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES};
    void *values[] = {log, (void *)sizeof log};
    CUmodule module;
    size_t size;
    char *text = contents(path, &size);
    CUresult result = driver.cuModuleLoadDataEx(&module, text, 2, options, values);

    if (result != CUDA_SUCCESS) {
        fprintf(stderr, "%s does not load (%d): %s\n", path, (int)result, log);
        exit(2);
    }
    free(text);
    return module;
}

static void launch(CUmodule module, const char *name, unsigned int blocks, unsigned int threads,
                   CUdeviceptr in, CUdeviceptr out, CUdeviceptr own) {
    void *parameters[] = {&in, &out, &own};
    CUfunction function;

    check(driver.cuModuleGetFunction(&function, module, name), "look-up", name);
    check(driver.cuLaunchKernel(function, blocks, 1, 1, threads, 1, 1, 0, NULL, parameters, NULL),
          "launch", name);
    check(driver.cuCtxSynchronize(), "run", name);
}

static int print_capability(void) {
    int major, minor;
    CUdevice device;

    check(driver.cuDeviceGet(&device, 0), "start", "device");
    check(driver.cuDeviceGetAttribute(&major, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, device),
          "question", "device");
    check(driver.cuDeviceGetAttribute(&minor, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR, device),
          "question", "device");
    printf("%d\n", major * 10 + minor);
    return 0;
}

int main(int argc, char **argv) {
    size_t in_size, out_size;
    unsigned int blocks, threads;
    char name[256], *input, *output;
    CUdeviceptr in, out, own;
    CUcontext context;
    CUmodule module;
    FILE *results;

    if (argc != 6 && (argc != 2 || strcmp(argv[1], "--device") != 0))
        return 1;
    open_driver();
    check(driver.cuInit(0), "start", "driver");
    if (argc == 2)
        return print_capability();
    input = contents(argv[2], &in_size);
    out_size = strtoul(argv[4], NULL, 10) * strtoul(argv[5], NULL, 10) * 4;
    output = malloc(out_size + OWN_WORDS * 4);
    results = fopen(argv[3], "wb");
    if (!output || !results) {
        free(output);
        return 1;
    }
    check(driver.cuDevicePrimaryCtxRetain(&context, 0), "start", "device");
    check(driver.cuCtxSetCurrent(context), "start", "context");
    module = load(argv[1]);
    check(driver.cuMemAlloc_v2(&in, in_size), "allocation", "input");
    check(driver.cuMemAlloc_v2(&out, out_size), "allocation", "output");
    check(driver.cuMemAlloc_v2(&own, OWN_WORDS * 4), "allocation", "words");
    check(driver.cuMemcpyHtoD_v2(in, input, in_size), "copy", "input");
    while (scanf("%255s %u %u", name, &blocks, &threads) == 3) {
        check(driver.cuMemsetD8_v2(out, 0, out_size), "fill", name);
        check(driver.cuMemsetD8_v2(own, 0, OWN_WORDS * 4), "fill", name);
        launch(module, name, blocks, threads, in, out, own);
        check(driver.cuMemcpyDtoH_v2(output, out, out_size), "copy", name);
        check(driver.cuMemcpyDtoH_v2(output + out_size, own, OWN_WORDS * 4), "copy", name);
        fwrite(output, 1, out_size + OWN_WORDS * 4, results);
    }
    free(output);
    return fclose(results) ? 1 : 0;
}
