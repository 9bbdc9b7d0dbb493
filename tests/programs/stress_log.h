/* The last steps of many threads, told when something goes wrong or a signal ends the program. */
#ifndef TESTS_STRESS_LOG_H
#define TESTS_STRESS_LOG_H

#include <stdint.h>

/* From now on the signals that end a program tell. */
void log_begin(void);

/* thread: from 0 to 255, a ring each. what: a string that stays. */
void log_note(int thread, const char *what, uint64_t pointer, uint64_t value);

/* On standard error, once: what is noted after that is lost. */
void log_tell(void);

#endif
