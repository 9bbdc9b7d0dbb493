/* A client of OpenACC's runtime: each test prints its name, and what came out of it. Nothing
 * printed depends on what kernels do. */
#include "bytes.h"

#include <openacc.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { ROUNDS = 40, BYTES = 100 * 1000, QUEUES = 3 };

/* Blocks of several sizes come back as they were written. */
static unsigned memory_of_the_device(void) {
    unsigned sum = 0;
    for (int i = 0; i < ROUNDS; i++) {
        size_t size = (size_t)(20000 + i % 5 * 9999);
        unsigned char *host = malloc(size);
        void *device = acc_malloc(size);
        fill(host, size, i);
        acc_memcpy_to_device(device, host, size);
        memset(host, 0, size);
        acc_memcpy_from_device(host, device, size);
        sum += sum_of(host, size);
        acc_free(device);
        free(host);
    }
    return sum;
}

/* Arrays are made present, updated both ways, and taken back. */
static unsigned present_arrays(void) {
    unsigned char *bytes = malloc(BYTES);
    unsigned sum = 0;
    for (int i = 0; i < ROUNDS; i++) {
        fill(bytes, BYTES, i);
        acc_copyin(bytes, BYTES);
        fill(bytes, BYTES, i + 1);
        acc_update_device(bytes, BYTES);
        memset(bytes, 0, BYTES);
        acc_update_self(bytes, BYTES);
        sum += sum_of(bytes, BYTES) + (unsigned)acc_is_present(bytes, BYTES);
        acc_delete(bytes, BYTES);
    }
    free(bytes);
    return sum;
}

/* Copies in several queues, which are freed behind by the runtime's own callbacks. */
static unsigned queues(void) {
    unsigned char *arrays[QUEUES];
    unsigned sum = 0;
    for (int i = 0; i < QUEUES; i++)
        arrays[i] = malloc(BYTES);
    for (int round = 0; round < ROUNDS; round++) {
        for (int i = 0; i < QUEUES; i++) {
            unsigned char *bytes = arrays[i];
            fill(bytes, BYTES, round + i);
#pragma acc enter data copyin(bytes[:BYTES]) async(i)
#pragma acc exit data copyout(bytes[:BYTES]) async(i)
        }
#pragma acc wait
        for (int i = 0; i < QUEUES; i++)
            sum += sum_of(arrays[i], BYTES);
    }
    for (int i = 0; i < QUEUES; i++)
        free(arrays[i]);
    return sum;
}

/* What a kernel changes is not printed. */
static unsigned kernels(void) {
    int *numbers = calloc(BYTES, sizeof *numbers);
    for (int i = 0; i < ROUNDS; i++) {
#pragma acc parallel loop copy(numbers[:BYTES])
        for (int j = 0; j < BYTES; j++)
            numbers[j] += j;
    }
    free(numbers);
    return ROUNDS;
}

int main(void) {
    printf("devices: %d\n", acc_get_num_devices(acc_device_nvidia));
    acc_set_device_type(acc_device_nvidia);
    printf("memory_of_the_device: %u\n", memory_of_the_device());
    printf("present_arrays: %u\n", present_arrays());
    printf("queues: %u\n", queues());
    printf("kernels: %u\n", kernels());
    acc_shutdown(acc_device_nvidia);
    return 0;
}
