#include "shareable.h"

#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

enum { LAST_PAGE = 4096 };

static const uint64_t magic = 0x65726168736d6973;

struct last_page {
    uint64_t magic;
    struct shareable what;
};

int shareable_make(const struct shareable *what) {
    struct last_page page;
    int file = memfd_create("simcuda shared", MFD_CLOEXEC);

    memset(&page, 0, sizeof page);
    page.magic = magic;
    page.what = *what;
    if (file >= 0 && (ftruncate(file, (off_t)(what->size + LAST_PAGE)) != 0 ||
                      pwrite(file, &page, sizeof page, (off_t)what->size) != sizeof page)) {
        close(file);
        file = -1;
    }
    return file;
}

int shareable_open(int descriptor, enum shareable_kind kind, struct shareable *what) {
    struct last_page page;
    struct stat status;

    if (fstat(descriptor, &status) != 0 || !S_ISREG(status.st_mode) || status.st_size < LAST_PAGE ||
        pread(descriptor, &page, sizeof page, status.st_size - LAST_PAGE) != sizeof page)
        return -1;
    if (page.magic != magic || page.what.kind != kind ||
        page.what.size != (size_t)status.st_size - LAST_PAGE)
        return -1;
    *what = page.what;
    return fcntl(descriptor, F_DUPFD_CLOEXEC, 0);
}

CUresult shareable_give(int file, void *out) {
    int given = fcntl(file, F_DUPFD_CLOEXEC, 0);

    if (given < 0)
        return CUDA_ERROR_OUT_OF_MEMORY;
    memcpy(out, &given, sizeof given);
    return CUDA_SUCCESS;
}
