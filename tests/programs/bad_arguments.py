"""Calls the driver with each combination of good and bad arguments, and prints what it answers and what it has written."""

import ctypes
import itertools
from ctypes import byref, c_int, c_size_t, c_uint, c_uint64, c_void_p

cuda = ctypes.CDLL("libcuda.so.1")
FILL = 0x55
outputs = [ctypes.create_string_buffer(256) for _ in range(2)]
FIRST, SECOND = outputs


def allocated(size):
    pointer = c_uint64()
    assert cuda.cuMemAlloc_v2(byref(pointer), c_size_t(size)) == 0
    return pointer.value


context = c_void_p()
assert cuda.cuInit(0) == 0
assert cuda.cuDevicePrimaryCtxRetain(byref(context), 0) == 0
assert cuda.cuCtxSetCurrent(context) == 0
LIVE, IDLE = allocated(1 << 20), allocated(1 << 19)
assert cuda.cuMemFree_v2(c_uint64(IDLE)) == 0

SIZES = [c_size_t(size) for size in (0, 1, 100, 1 << 55, (1 << 63), (1 << 64) - 1)]
ROWS = [c_size_t(rows) for rows in (0, 3, 1 << 55, (1 << 55) + 1, 1 << 62)]  # of 512 bytes: more than any address
POINTERS = [c_uint64(pointer) for pointer in (0, LIVE, LIVE + 5, IDLE, 1)]
DEAD = [POINTERS[0], *POINTERS[2:]]
STREAM = [None]
CALLS = {
    "cuMemAlloc_v2": [[None, FIRST], SIZES],
    "cuMemFree_v2": [DEAD],
    "cuMemAllocPitch_v2": [[None, FIRST], [None, SECOND], SIZES, ROWS, [c_uint(element) for element in (0, 4, 5, 16)]],
    "cuMemGetInfo_v2": [[None, FIRST], [None, SECOND]],
    "cuMemGetAddressRange_v2": [[None, FIRST], [None, SECOND], POINTERS],
    "cuPointerGetAttribute": [[None, FIRST], [c_int(attribute) for attribute in [*range(24), 99]], POINTERS],
    "cuPointerGetAttributes": [[c_uint(0), c_uint(1)], [None], [None], POINTERS],
    "cuPointerSetAttribute": [[None, FIRST], [c_int(5), c_int(6)], DEAD],
    "cuMemHostAlloc": [[None, FIRST], [c_size_t(0), c_size_t(100)], [c_uint(flags) for flags in (0, 7, 8, 255)]],
    "cuMemAllocHost_v2": [[None, FIRST], [c_size_t(0), c_size_t(100)]],
    "cuMemFreeHost": [[None, c_void_p(1)]],
    "cuMemAllocManaged": [[None, FIRST], [c_size_t(0), c_size_t(100)], [c_uint(flags) for flags in range(5)]],
    "cuMemAllocAsync": [[None, FIRST], SIZES[:3], STREAM],
    "cuMemFreeAsync": [DEAD, STREAM],
    "cuIpcGetMemHandle": [[None, FIRST], DEAD],
    "cuStreamBeginCapture_v2": [STREAM, [c_int(mode) for mode in (0, 1, 2, 9)]],
    "cuStreamEndCapture": [STREAM, [None, FIRST]],
    "cuCtxDestroy_v2": [[None]],
    "cuDevicePrimaryCtxRelease_v2": [[c_int(99)]],
    "cuDevicePrimaryCtxReset_v2": [[c_int(99)]],
    "cuModuleLoadData": [[None, FIRST], [None]],
    "cuMemPoolDestroy": [[None]],
}
# What frees the memory that a call has given.
FREES = {
    "cuMemAlloc_v2": cuda.cuMemFree_v2, "cuMemAllocPitch_v2": cuda.cuMemFree_v2, "cuMemAllocManaged": cuda.cuMemFree_v2,
    "cuMemHostAlloc": cuda.cuMemFreeHost, "cuMemAllocHost_v2": cuda.cuMemFreeHost,
    "cuMemAllocAsync": lambda pointer: cuda.cuMemFreeAsync(pointer, None),
}


def shown(argument):
    """An argument without what differs from run to run, an address."""
    if argument in outputs:
        return "out"
    value = getattr(argument, "value", argument)
    return {LIVE: "live", LIVE + 5: "inside", IDLE: "idle"}.get(value, value)


for name, choices in CALLS.items():
    for arguments in itertools.product(*choices):
        for output in outputs:
            ctypes.memset(output, FILL, len(output))
        result = getattr(cuda, name)(*arguments)
        written = [output.raw != bytes([FILL]) * len(output) for output in outputs]
        print(name, *map(shown, arguments), "->", result, written)
        if result == 0 and name in FREES:
            assert FREES[name](c_uint64.from_buffer(FIRST)) == 0
