/* The functions that are exported and not simulated (unsimulated.def). Without cuda.h. */
#ifndef SIMCUDA_UNSIMULATED_H
#define SIMCUDA_UNSIMULATED_H

#include <stddef.h>
#include <stdint.h>

/* Which default stream a form's null handle names. */
enum form { LEGACY, PER_THREAD };

/* One form of a function, as cuGetProcAddress finds it. */
struct entry_record {
    const char *base;
    void *function;
    int since;
    enum form form;
};

extern const struct entry_record unsimulated_records[];
extern const size_t unsimulated_count;

/* What a call of the function of that row answers: NOT_SUPPORTED where calls are allowed. */
int unsimulated_call(unsigned int row, uintptr_t caller);

#endif
