/* Byte counts and times for people. */
#ifndef POOLCUDA_REPORT_HUMAN_H
#define POOLCUDA_REPORT_HUMAN_H

#include "base/format.h"

#include <stddef.h>
#include <stdint.h>

struct human {
    char text[16];
};

/* A value in the unit that a person can grasp, each of which is `step` times the one before; a
 * value in the first, of `count`, is written whole. */
static inline struct human human_in(uint64_t number, double step, const char *const *units,
                                    size_t count) {
    struct human human;
    double value = (double)number;
    size_t unit = 0;
    for (; value >= step && unit + 1 < count; unit++)
        value /= step;
    format(human.text, sizeof human.text, unit ? "%.1f %s" : "%.0f %s", value, units[unit]);
    return human;
}

static inline struct human human(uint64_t bytes) {
    static const char *const units[] = {"B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"};
    return human_in(bytes, 1024, units, sizeof units / sizeof *units);
}

static inline struct human human_time(uint64_t ns) {
    static const char *const units[] = {"ns", "us", "ms", "s"};
    return human_in(ns, 1000, units, sizeof units / sizeof *units);
}

/* What a noun ends with that the number stands before. */
static inline const char *plural(uint64_t number) {
    return number == 1 ? "" : "s";
}

#endif
