/* A client of an OpenMP runtime's offloading: each test prints its name, and what came out of it.
 * What kernels compute is held against what the host computes. */
#include "bytes.h"

#include <omp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { ROUNDS = 40, SOME = 4, SMALL = 2000, LARGE = 100 * 1000, DEVICE = 0 };

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

/* What the threads of several teams have added is counted: one result for each element. */
static unsigned regions(void) {
    unsigned *numbers = calloc(SMALL, sizeof *numbers), sum = 0;
    for (int i = 0; i < SOME; i++) {
#pragma omp target teams distribute parallel for map(tofrom : numbers[:SMALL])
        for (int j = 0; j < SMALL; j++)
            numbers[j] += (unsigned)(j + i);
    }
    for (unsigned j = 0; j < SMALL; j++) {
        if (numbers[j] != SOME * j + SOME * (SOME - 1) / 2)
            wrong("regions", j);
        sum = sum * 31 + numbers[j];
    }
    free(numbers);
    return sum;
}

/* Sums that all threads make together, by reductions and by atomic additions. */
static unsigned sums(void) {
    unsigned *numbers = malloc(SMALL * sizeof *numbers), all = 0;
    for (int i = 0; i < SOME; i++) {
        unsigned expected = 0, sum = 0, counted = 0;
        double half = 0, halves = 0;
        for (unsigned j = 0; j < SMALL; j++) {
            numbers[j] = j * 7 + (unsigned)i;
            expected += numbers[j];
            halves += numbers[j] / 2.0; /* exact, and so the same in any order */
        }
#pragma omp target teams distribute parallel for map(to : numbers[:SMALL]) map(tofrom : counted)   \
    reduction(+ : sum)
        for (int j = 0; j < SMALL; j++) {
            sum += numbers[j];
            if (numbers[j] % 1000 == 0) {
#pragma omp atomic
                counted++;
            }
        }
#pragma omp target teams distribute parallel for map(to : numbers[:SMALL]) reduction(+ : half)
        for (int j = 0; j < SMALL; j++)
            half += numbers[j] / 2.0;
        if (sum != expected || counted != SMALL / 1000 || half != halves)
            wrong("sums", (unsigned)i);
        all = all * 31 + sum + counted;
    }
    free(numbers);
    return all;
}

#pragma omp declare target
static unsigned greatest_divisor(unsigned a, unsigned b) {
    return b == 0 ? a : greatest_divisor(b, a % b);
}
#pragma omp end declare target

/* One team whose threads share an array of the region and meet at barriers; functions that call
 * themselves. */
static unsigned a_team(void) {
    enum { COUNT = 64 };
    unsigned results[COUNT], all = 0;
    for (unsigned i = 0; i < SOME; i++) {
#pragma omp target map(from : results)
        {
            unsigned shared[COUNT];
#pragma omp parallel num_threads(8)
            {
#pragma omp for
                for (unsigned j = 0; j < COUNT; j++)
                    shared[j] = greatest_divisor(j * 12 + i, 360);
#pragma omp for
                for (unsigned j = 0; j < COUNT; j++)
                    results[j] = shared[COUNT - 1 - j];
            }
        }
        for (unsigned j = 0; j < COUNT; j++) {
            if (results[j] != greatest_divisor((COUNT - 1 - j) * 12 + i, 360))
                wrong("a_team", j);
            all = all * 31 + results[j];
        }
    }
    return all;
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
    printf("sums: %u\n", sums());
    printf("a_team: %u\n", a_team());
    printf("a_rectangle: %u\n", a_rectangle());
    return 0;
}
