/* What the test programs share. */
#ifndef TESTS_PROGRAM_H
#define TESTS_PROGRAM_H

#include <stdio.h>
#include <stdlib.h>

/* Ends the program with a line that names what was not so. */
#define REQUIRE(condition)                                                                         \
    do {                                                                                           \
        if (!(condition)) {                                                                        \
            printf("%s:%d: not so: %s\n", __FILE__, __LINE__, #condition);                         \
            exit(1);                                                                               \
        }                                                                                          \
    } while (0)

enum { ROUNDS = 100 };

#endif
