/* Two libraries that define the same function. The first wraps the second's, found by RTLD_NEXT: a
 * dlsym that changed its caller would give it its own. */
#include "program.h"

#include <dlfcn.h>

int next_defined(void);

int next_defined(void) {
#ifdef SECOND
    return 2;
#else
    static int depth;
    int (*wrapped)(void);
    REQUIRE(depth++ == 0);
    *(void **)&wrapped = dlsym(RTLD_NEXT, "next_defined");
    return wrapped ? wrapped() : -1;
#endif
}
