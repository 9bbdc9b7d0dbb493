/* To be preloaded before the pool: a clock that goes on by the same at each look, whatever the
 * machine does. So what happens every so often happens after the same number of calls. */
#include <stdatomic.h>
#include <time.h>

enum { STEP_NS = 1000, SECOND_NS = 1000000000, START_S = 1800000000 }; /* in the year 2027 */

int clock_gettime(clockid_t clock, struct timespec *time) {
    static atomic_llong looks;
    long long now = STEP_NS * ++looks;
    (void)clock;
    *time = (struct timespec){.tv_sec = START_S + now / SECOND_NS, .tv_nsec = now % SECOND_NS};
    return 0;
}
