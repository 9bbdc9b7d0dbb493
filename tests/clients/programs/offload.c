/* A client of an OpenMP runtime's offloading: each test prints its name, and what came out of it.
 * Kernels do nothing where the simulated GPU skips them, and nothing printed depends on what they
 * do. */
#include "bytes.h"

#include <omp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { ROUNDS = 40, LARGE = 100 * 1000, DEVICE = 0 };

/* Blocks of several sizes come back as they were written. */
static unsigned memory_of_the_device(void) {
    unsigned sum = 0;
    for (int i = 0; i < ROUNDS; i++) {
        size_t size = (size_t)(20000 + i % 5 * 9999);
        unsigned char *host = malloc(size);
        void *device = omp_target_alloc(size, DEVICE);
        fill(host, size, i);
        if (device == NULL ||
            omp_target_memcpy(device, host, size, 0, 0, DEVICE, omp_get_initial_device()) != 0)
            return 0;
        memset(host, 0, size);
        if (omp_target_memcpy(host, device, size, 0, 0, omp_get_initial_device(), DEVICE) != 0)
            return 0;
        sum += sum_of(host, size);
        omp_target_free(device, DEVICE);
        free(host);
    }
    return sum;
}

/* A mapped array goes to the device and comes back at the region's end. */
static unsigned mapped_arrays(void) {
    unsigned char *bytes = malloc(LARGE);
    unsigned sum = 0;
    for (int i = 0; i < ROUNDS; i++) {
        size_t count = (size_t)(LARGE - i % 3 * 30000);
        fill(bytes, count, i);
#pragma omp target data map(tofrom : bytes[:count])
        {
#pragma omp target update to(bytes[:count / 2])
#pragma omp target update from(bytes[:count])
        } sum += sum_of(bytes, count);
    }
    free(bytes);
    return sum;
}

/* What a target region changes is not printed, only that it was entered and left. */
static unsigned regions(void) {
    int *numbers = calloc(LARGE, sizeof *numbers);
    for (int i = 0; i < ROUNDS; i++) {
#pragma omp target teams distribute parallel for map(tofrom : numbers[:LARGE])
        for (int j = 0; j < LARGE; j++)
            numbers[j] += j;
    }
    free(numbers);
    return ROUNDS;
}

/* A part of a matrix, row by row. */
static unsigned a_rectangle(void) {
    enum { ROWS = 64, COLUMNS = 300 };
    static unsigned char from[ROWS][COLUMNS], to[ROWS][COLUMNS];
    const size_t volume[] = {ROWS / 2, COLUMNS / 2}, offsets[] = {3, 5}, none[] = {0, 0},
                 extents[] = {ROWS, COLUMNS};
    unsigned sum = 0;
    for (int i = 0; i < ROUNDS; i++) {
        void *device = omp_target_alloc(sizeof from, DEVICE);
        fill(from[0], sizeof from, i);
        if (device == NULL ||
            omp_target_memcpy(device, to, sizeof to, 0, 0, DEVICE, omp_get_initial_device()) != 0 ||
            omp_target_memcpy_rect(device, from, 1, 2, volume, offsets, none, extents, extents,
                                   DEVICE, omp_get_initial_device()) != 0 ||
            omp_target_memcpy(to, device, sizeof to, 0, 0, omp_get_initial_device(), DEVICE) != 0)
            return 0;
        sum += sum_of(to[0], sizeof to);
        omp_target_free(device, DEVICE);
    }
    return sum;
}

int main(void) {
    printf("devices: %d\n", omp_get_num_devices());
    printf("memory_of_the_device: %u\n", memory_of_the_device());
    printf("mapped_arrays: %u\n", mapped_arrays());
    printf("regions: %u\n", regions());
    printf("a_rectangle: %u\n", a_rectangle());
    return 0;
}
