/* To be preloaded before the pool: a clock that stands still. Who waits for time to go by waits for
 * ever, who does not, does not. */
#include <time.h>

enum { NOW_S = 1800000000 }; /* in the year 2027 */

int clock_gettime(clockid_t clock, struct timespec *time) {
    (void)clock;
    *time = (struct timespec){.tv_sec = NOW_S};
    return 0;
}
