/* every_unwound: from inside every function of every_driver.c, found in two ways and called twice
 * each, the stack is unwound to main. Prints the names of those from where it is not, and how many
 * were called. */
#include "every_driver.h"
#include "program.h"

#include <dlfcn.h>
#include <unwind.h>

static uintptr_t wanted; /* the stack of main */
static bool reached;

static _Unwind_Reason_Code visit(struct _Unwind_Context *context, void *data) {
    (void)data;
    reached = reached || _Unwind_GetCFA(context) > wanted;
    return _URC_NO_REASON;
}

static int unwind(void) {
    reached = false;
    _Unwind_Backtrace(visit, NULL);
    if (!reached)
        printf("%s: not unwound\n", every_call.name);
    return 0;
}

int main(void) {
    struct every_function function;
    void *driver = dlopen("libcuda.so.1", RTLD_NOW);
    REQUIRE(driver);
    wanted = (uintptr_t)__builtin_frame_address(0);
    every_inside = unwind;
    for (int round = 0; round < 4; round++)
        for (unsigned i = 0; every_function(i, &function); i++) {
            int (*call)(int, int, int, int, int, int, int, int, int, int, int, int, int, int, int,
                        int);
            *(void **)&call = dlsym(round % 2 ? driver : RTLD_DEFAULT, function.name);
            REQUIRE(call);
            call(0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0);
        }
    printf("%u calls\n", every_call.calls);
    return 0;
}
