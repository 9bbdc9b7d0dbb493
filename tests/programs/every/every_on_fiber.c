/* every_on_fiber: calls every function of every_driver.c, found in two ways, twice each, on a stack
 * that ends right behind the arguments that the function takes from it. Prints the names of those
 * that did not get them, and how many calls there were. */
#include "every_driver.h"
#include "own_stack.h"

#include <dlfcn.h>

static void call(void *handle, const struct every_function *function, char *end) {
    uint64_t words[MOST_WORDS];
    void *found = dlsym(handle, function->name);
    REQUIRE(found);
    for (unsigned i = 0; i < MOST_WORDS; i++)
        words[i] = i < function->words ? 0x1111111111111111 * (i + 1) : 0;
    own_stack_call(found, end, 0, words, function->words);
    if (strcmp(every_call.name, function->name) != 0 ||
        memcmp(every_call.words, words, sizeof words) != 0)
        printf("%s: not passed on\n", function->name);
}

int main(void) {
    struct every_function function;
    void *driver = dlopen("libcuda.so.1", RTLD_NOW);
    REQUIRE(driver);
    for (int round = 0; round < 4; round++)
        for (unsigned i = 0; every_function(i, &function); i++)
            call(round % 2 ? driver : RTLD_DEFAULT, &function, own_stack_make(65536));
    printf("%u calls\n", every_call.calls);
    return 0;
}
