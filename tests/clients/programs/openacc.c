/* A client of OpenACC's runtime: each test prints its name, and what came out of it. What
 * kernels compute is held against what the host computes. */
#include "bytes.h"

#include <openacc.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { ROUNDS = 40, SOME = 4, BYTES = 100 * 1000, QUEUES = 3 };

/* Ends the program: a result of the device is not the host's. */
static void wrong(const char *test, unsigned where) {
    printf("%s: FAILED wrong at %u\n", test, where);
    exit(1);
}

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

/* What gangs, workers and vectors have added is counted: one result for each element. */
static unsigned kernels(void) {
    unsigned *numbers = calloc(BYTES, sizeof *numbers), sum = 0;
    for (int i = 0; i < ROUNDS; i++) {
#pragma acc parallel loop copy(numbers[:BYTES])
        for (int j = 0; j < BYTES; j++)
            numbers[j] += (unsigned)(j + i);
    }
    for (unsigned j = 0; j < BYTES; j++) {
        if (numbers[j] != ROUNDS * j + ROUNDS * (ROUNDS - 1) / 2)
            wrong("kernels", j);
        sum = sum * 31 + numbers[j];
    }
    free(numbers);
    return sum;
}

/* Sums that all threads make together, by reductions and by atomic additions, in queues. */
static unsigned sums(void) {
    unsigned *numbers = malloc(BYTES * sizeof *numbers), all = 0;
    for (int i = 0; i < SOME; i++) {
        unsigned expected = 0, sum = 0, counted = 0, largest = 0;
        for (unsigned j = 0; j < BYTES; j++) {
            numbers[j] = j * 7 + (unsigned)i;
            expected += numbers[j];
        }
#pragma acc parallel loop gang vector copyin(numbers[:BYTES]) copy(counted)                        \
    reduction(+ : sum) reduction(max : largest) async(1)
        for (int j = 0; j < BYTES; j++) {
            sum += numbers[j];
            largest = numbers[j] > largest ? numbers[j] : largest;
            if (numbers[j] % 1000 == 0) {
#pragma acc atomic update
                counted++;
            }
        }
#pragma acc wait
        if (sum != expected || counted != BYTES / 1000 || largest != numbers[BYTES - 1])
            wrong("sums", (unsigned)i);
        all = all * 31 + sum + counted + largest;
    }
    free(numbers);
    return all;
}

/* A product of matrices: gangs take rows, vectors columns. */
static unsigned a_product(void) {
    enum { N = 48 };
    static unsigned a[N][N], b[N][N], c[N][N];
    unsigned sum = 0;
    for (unsigned i = 0; i < N * N; i++) {
        a[i / N][i % N] = i * 3;
        b[i / N][i % N] = i * 5 + 1;
    }
#pragma acc parallel copyin(a, b) copyout(c)
    {
#pragma acc loop gang
        for (int i = 0; i < N; i++) {
#pragma acc loop vector
            for (int j = 0; j < N; j++) {
                unsigned product = 0;
                for (int k = 0; k < N; k++)
                    product += a[i][k] * b[k][j];
                c[i][j] = product;
            }
        }
    }
    for (unsigned i = 0; i < N; i++) {
        for (unsigned j = 0; j < N; j++) {
            unsigned product = 0;
            for (unsigned k = 0; k < N; k++)
                product += a[i][k] * b[k][j];
            if (c[i][j] != product)
                wrong("a_product", i * N + j);
            sum = sum * 31 + product;
        }
    }
    return sum;
}

int main(void) {
    printf("devices: %d\n", acc_get_num_devices(acc_device_nvidia));
    acc_set_device_type(acc_device_nvidia);
    printf("memory_of_the_device: %u\n", memory_of_the_device());
    printf("present_arrays: %u\n", present_arrays());
    printf("queues: %u\n", queues());
    printf("kernels: %u\n", kernels());
    printf("sums: %u\n", sums());
    printf("a_product: %u\n", a_product());
    acc_shutdown(acc_device_nvidia);
    return 0;
}
