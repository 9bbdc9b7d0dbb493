/* Byte counts and times for people. */
#ifndef POOLCUDA_OBSERVE_HUMAN_H
#define POOLCUDA_OBSERVE_HUMAN_H

#include "format.h"

#include <stddef.h>
#include <stdint.h>

struct human {
    char text[16];
};

/* Bytes in a unit that a person can grasp. */
static inline struct human human(uint64_t bytes) {
    static const char *const units[] = {"B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"};
    struct human human;
    double value = (double)bytes;
    size_t unit = 0;
    for (; value >= 1024 && unit < 6; unit++)
        value /= 1024;
    format(human.text, sizeof human.text, unit ? "%.1f %s" : "%.0f %s", value, units[unit]);
    return human;
}

/* The same of nanoseconds. */
static inline struct human human_time(uint64_t ns) {
    static const char *const units[] = {"ns", "us", "ms", "s"};
    struct human human;
    double value = (double)ns;
    size_t unit = 0;
    for (; value >= 1000 && unit < 3; unit++)
        value /= 1000;
    format(human.text, sizeof human.text, unit ? "%.1f %s" : "%.0f %s", value, units[unit]);
    return human;
}

#endif
