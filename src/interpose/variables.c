#include "interpose/variables.h"

#include "base/modules.h"
#include "interpose/image.h"
#include "interpose/own_object.h"

#include <errno.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

/* Bare system calls: what is imported costs every program at its start. The page's size is found by
 * trying. */
static uintptr_t protect(uintptr_t at, uintptr_t page, int how) {
    enum { LARGEST = 1 << 16 };
    for (; page <= LARGEST; page *= 4)
        if (syscall(SYS_mprotect, at & ~(page - 1), page, how) == 0)
            return page;
    return 0;
}

/* Tables of addresses are read-only once the loader has filled them (RELRO): then they are again,
 * but for the last page if others' data begins in it, which the loader leaves as it is. */
static void write_slot(const struct module *module, uintptr_t *slot, uintptr_t address) {
    uintptr_t at = (uintptr_t)slot, page = 0;
    bool read_only = at >= module->relro_low && at < module->relro_high;
    if (read_only && !(page = protect(at, 4096, PROT_READ | PROT_WRITE)))
        return;
    __atomic_store_n(slot, address, __ATOMIC_RELAXED);
    if (read_only && (at & ~(page - 1)) + page <= module->relro_high)
        protect(at, page, PROT_READ);
}

/* The program itself comes before us in the order of symbols, and needs nothing. */
static bool visit(const struct module *module, void *state) {
    struct image image;
    (void)state;
    if (module->executable || own_object_contains(module->text_low))
        return true;
    image_open(module, &image);
    if (image_surely_lacks(&image, "cuInit") || !image_find_object(module, "cuInit"))
        return true;
    for (size_t i = 0; i < image_slots(&image); i++) {
        uintptr_t own, *slot = image_slot(&image, i, &own);
        if (slot && own && own_object_contains(*slot))
            write_slot(module, slot, own);
    }
    return true;
}

void variables_before_open(const char *path) {
    if (!path || !strstr(path, "libcuda"))
        return;
    int saved = errno;
    modules_each(visit, NULL);
    errno = saved;
}
