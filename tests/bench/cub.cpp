// CUB's caching allocator, from the toolkit's own headers: its default bins, but for larger blocks
// and without its bound on cached bytes (6 MB), with which it would call the runtime again and
// again.
#include "allocator.h"

#include <cuda_runtime.h>

#include <cub/util_allocator.cuh>

namespace {
constexpr unsigned growth = 8, smallest = 3, largest = 10; // 512 B to 1 GiB

cub::CachingDeviceAllocator &cache() {
    static cub::CachingDeviceAllocator allocator(growth, smallest, largest,
                                                 cub::CachingDeviceAllocator::INVALID_SIZE, true);
    return allocator;
}
} // namespace

extern "C" int reference_malloc(uintptr_t *pointer, size_t bytes) {
    return cache().DeviceAllocate(reinterpret_cast<void **>(pointer), bytes);
}

extern "C" int reference_free(uintptr_t pointer, size_t) {
    return cache().DeviceFree(reinterpret_cast<void *>(pointer));
}
