/* Calls functions of echo_driver.c with arguments in every place that there is, twice each: a stub
 * does more at its first call than at later ones. */
#include "echo_driver.h"
#include "program.h"

#include <dlfcn.h>

/* Whether the function was entered from this program, as without a stub. */
static int from_here(void) {
    Dl_info caller, here;
    REQUIRE(dladdr(echo.return_address, &caller) && dladdr((void *)from_here, &here));
    return caller.dli_fbase == here.dli_fbase;
}

int main(void) {
    for (int round = 0; round < 2; round++) {
        REQUIRE(cuLaunchKernel((void *)11, 12, 13, 14, 15, 16, 17, 18, (void *)19, (void *)20,
                               (void *)21) == 0);
        for (uintptr_t i = 0; i < 11; i++)
            REQUIRE(echo.words[i] == 11 + i);
        REQUIRE(cuTexRefSetMipmapLevelClamp((void *)31, 1.5f, -2.25f) == 0);
        REQUIRE(echo.words[0] == 31 && echo.floats[0] == 1.5f && echo.floats[1] == -2.25f);
        REQUIRE(cuStreamGetId((void *)51, (void *)52) == 400);
        REQUIRE(echo.words[0] == 51 && echo.words[1] == 52);
        REQUIRE(cuStreamGetCaptureInfo_v3((void *)61, (void *)62, (void *)63, (void *)64,
                                          (void *)65, (void *)66, (void *)67) == 0);
        for (uintptr_t i = 0; i < 7; i++)
            REQUIRE(echo.words[i] == 61 + i);
        printf("jumped to %d\n", from_here());
        REQUIRE(cuEventQuery((void *)41) == 600);
        REQUIRE(echo.words[0] == 41);
    }
    printf("calls %d\n", echo.calls);
    return 0;
}
