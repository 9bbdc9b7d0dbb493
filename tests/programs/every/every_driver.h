/* A libcuda.so.1 with every function that a stub stands before, and with functions that nobody
 * knows. Each keeps the arguments that it found on the stack. */
#ifndef TESTS_EVERY_DRIVER_H
#define TESTS_EVERY_DRIVER_H

#include <stdbool.h>
#include <stdint.h>

enum { MOST_WORDS = 10 };

struct every_call {
    const char *name;
    unsigned calls;
    uint64_t words[MOST_WORDS];
};

/* What has come so far. inside: called by each function, if not NULL; what it returns the function
 * returns. */
extern struct every_call every_call;
extern int (*every_inside)(void);

/* Of the function of that number, from 0: false behind the last. known: the table has it. */
struct every_function {
    const char *name;
    unsigned words; /* that it takes from the stack */
    bool known;
};
bool every_function(unsigned index, struct every_function *function);

#endif
