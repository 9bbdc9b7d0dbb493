"""A client of cuda-bindings: each test prints its name, and what came out of it."""

import ctypes

from cuda.bindings import driver as cuda


def got(answer):
    """What a call returned beside its success."""
    if answer[0] != cuda.CUresult.CUDA_SUCCESS:
        raise RuntimeError(answer[0].name)
    return answer[1] if len(answer) == 2 else answer[1:]


def filled(size, byte):
    """A block of one byte comes back as it was filled."""
    block = got(cuda.cuMemAlloc(size))
    got(cuda.cuMemsetD8(block, byte, size))
    host = (ctypes.c_ubyte * size)()
    got(cuda.cuMemcpyDtoH(ctypes.addressof(host), block, size))
    got(cuda.cuMemFree(block))
    return sum(host)


def test_blocks_of_many_sizes():
    return [filled(512 * (1 + step % 8), step % 251) for step in range(80)]


def test_live_blocks_keep_their_bytes():
    blocks = [got(cuda.cuMemAlloc(4096)) for _ in range(24)]
    for number, block in enumerate(blocks):
        got(cuda.cuMemsetD32(block, number, 1024))
    found = []
    for block in reversed(blocks):
        word = ctypes.c_uint()
        got(cuda.cuMemcpyDtoH(ctypes.addressof(word), block, 4))
        found.append(word.value)
        got(cuda.cuMemFree(block))
    return found


def test_work_in_a_stream_ends_before_its_block_is_used_again():
    stream, found = got(cuda.cuStreamCreate(cuda.CUstream_flags.CU_STREAM_NON_BLOCKING)), []
    for step in range(40):
        block = got(cuda.cuMemAlloc(65536))
        got(cuda.cuMemsetD8Async(block, step, 65536, stream))
        host = (ctypes.c_ubyte * 16)()
        got(cuda.cuMemcpyDtoHAsync(ctypes.addressof(host), block, 16, stream))
        got(cuda.cuMemFree(block))
        got(cuda.cuStreamSynchronize(stream))
        found.append(sum(host))
    got(cuda.cuStreamDestroy(stream))
    return found


def test_blocks_of_streams():
    stream, found = got(cuda.cuStreamCreate(0)), []
    for step in range(40):
        block = got(cuda.cuMemAllocAsync(8192, stream))
        got(cuda.cuMemsetD8Async(block, step, 8192, stream))
        host = (ctypes.c_ubyte * 8)()
        got(cuda.cuMemcpyDtoHAsync(ctypes.addressof(host), block, 8, stream))
        got(cuda.cuMemFreeAsync(block, stream))
        got(cuda.cuStreamSynchronize(stream))
        found.append(sum(host))
    got(cuda.cuStreamDestroy(stream))
    return found


def test_managed_blocks():
    found = []
    for step in range(40):
        block = got(cuda.cuMemAllocManaged(4096, cuda.CUmemAttach_flags.CU_MEM_ATTACH_GLOBAL.value))
        got(cuda.cuMemsetD8(block, step, 4096))
        got(cuda.cuCtxSynchronize())
        found.append((ctypes.c_ubyte * 4096).from_address(int(block))[4095])
        got(cuda.cuMemFree(block))
    return found


def test_the_range_of_a_block_is_what_was_asked_for():
    block = got(cuda.cuMemAlloc(1000))
    base, size = got(cuda.cuMemGetAddressRange(int(block) + 10))
    got(cuda.cuMemFree(block))
    return int(base) == int(block), size


def test_errors_of_frees():
    block = got(cuda.cuMemAlloc(4096))
    inside = cuda.cuMemFree(int(block) + 512)[0].name
    got(cuda.cuMemFree(block))
    return inside, cuda.cuMemFree(12345)[0].name, cuda.cuMemFree(0)[0].name


def test_errors_of_allocations():
    return cuda.cuMemAlloc(0)[0].name, cuda.cuMemAlloc(1 << 50)[0].name


def main():
    """All tests, in a context of their own process."""
    got(cuda.cuInit(0))
    device = got(cuda.cuDeviceGet(0))
    got(cuda.cuCtxSetCurrent(got(cuda.cuDevicePrimaryCtxRetain(device))))
    for name, test in list(globals().items()):
        if name.startswith("test_"):
            print(f"{name}: {test()}", flush=True)
    got(cuda.cuDevicePrimaryCtxRelease(device))


main()
