// Question 13: whether the two ways to look up a driver function give the same address, for every
// name that the library hooks (read from the library's own table).
#include "measure.h"

#include <dlfcn.h>

static const struct {
    const char *symbol, *base;
    int since, per_thread;
} names[] = {
#define HOOK(symbol, base, since, per_thread, parameters) {#symbol, base, since, per_thread},
#include "interpose/hooks.def"
#undef HOOK
};

typedef CUresult get_proc_address_function(const char *, void **, int, cuuint64_t,
                                           CUdriverProcAddressQueryResult *);

void measure_lookup() {
    DRIVER_OK(cuInit(0));
    auto *look_up = (get_proc_address_function *)driver_symbol("cuGetProcAddress_v2");
    if (look_up == nullptr) {
        answer("13.1", "cuGetProcAddress_v2", "the driver has none");
        return;
    }
    std::string differ, only_one;
    int same = 0;
    for (const auto &one : names) {
        void *by_symbol = driver_symbol(one.symbol), *by_base = nullptr;
        CUdriverProcAddressQueryResult found;
        // The legacy flag: without any flag the caller's compilation mode would decide.
        cuuint64_t flags = one.per_thread ? CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM
                                          : CU_GET_PROC_ADDRESS_LEGACY_STREAM;
        CUresult code = look_up(one.base, &by_base, one.since, flags, &found);
        if (code != CUDA_SUCCESS) {
            by_base = nullptr;
        }
        if (by_symbol == by_base && by_symbol != nullptr) {
            same++;
        } else if (by_symbol != nullptr && by_base != nullptr) {
            differ += text(" %s", one.symbol);
        } else {
            only_one += text(" %s(%s)", one.symbol,
                             by_symbol != nullptr ? "dlsym only"
                             : by_base != nullptr ? "cuGetProcAddress only"
                                                  : "neither");
        }
    }
    answer("13.1", "cuGetProcAddress and dlsym give the same address",
           "%d of %zu hooked names; differ:%s; not found both ways:%s", same,
           sizeof names / sizeof names[0], differ.empty() ? " none" : differ.c_str(),
           only_one.empty() ? " none" : only_one.c_str());
}
