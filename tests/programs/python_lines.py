"""python_lines.py ROUNDS [refuse | thread]: allocates through ctypes from lines that a test knows.

refuse: under a filter that refuses process_vm_readv. thread: in a thread, while another runs Python.
"""

import ctypes
import struct
import sys
import threading

CUDA = ctypes.CDLL("libcuda.so.1")


def allocate_alpha():
    pointer = ctypes.c_uint64()
    assert CUDA.cuMemAlloc_v2(ctypes.byref(pointer), ctypes.c_size_t(20000)) == 0  # here: allocate_alpha
    return pointer


def allocate_beta():
    pointer = ctypes.c_uint64()
    x = [CUDA.cuMemAlloc_v2(ctypes.byref(pointer), ctypes.c_size_t(20000)) for _ in range(1)]  # here: <listcomp>
    assert x == [0]
    return pointer


class Allocator:
    def __call__(self, count):
        pointer = ctypes.c_uint64()
        for _ in range(1):
            if count:

                assert not CUDA.cuMemAlloc_v2(  # here: __call__
                    ctypes.byref(pointer),
                    ctypes.c_size_t(
                        20000))
        return pointer


def many(rounds):
    context = ctypes.c_void_p()
    assert CUDA.cuInit(0) == 0
    assert CUDA.cuDevicePrimaryCtxRetain(ctypes.byref(context), 0) == 0
    assert CUDA.cuCtxSetCurrent(context) == 0
    for _ in range(rounds):
        for pointer in [allocate_alpha(), allocate_beta(), Allocator()(1)]:
            assert CUDA.cuMemFree_v2(pointer) == 0


def refuse():
    """A filter: load the call's number, answer ENOSYS to process_vm_readv, allow all else. Not by prctl, which the library
    takes for a sign that no call of its own is wanted any more."""
    program = struct.pack("HBBI" * 4, 0x20, 0, 0, 0, 0x15, 0, 1, 310, 0x06, 0, 0, 0x00050026, 0x06, 0, 0, 0x7fff0000)
    buffer = ctypes.create_string_buffer(program, len(program))
    libc = ctypes.CDLL(None, use_errno=True)
    assert libc.syscall(157, 38, 1, 0, 0, 0) == 0
    assert libc.syscall(157, 22, 2, struct.pack("HxxxxxxQ", 4, ctypes.addressof(buffer)), 0, 0) == 0


def main():
    rounds, how = int(sys.argv[1]), sys.argv[2:]
    if how == ["refuse"]:
        refuse()
    if how == ["thread"]:
        ended = []
        thread = threading.Thread(target=lambda: (many(rounds), ended.append(1)))
        thread.start()
        while not ended and thread.is_alive():
            sum(range(100))
        thread.join()
        assert ended
    else:
        many(rounds)
    print("done")


main()
