"""python_lines.py ROUNDS [kill | late | shut | thread]: allocates through ctypes from lines that a test knows.

kill: under a filter that ends the process for process_vm_readv. late: the same, set when the first line has been met. shut:
when the first line has been met the program shuts itself in, after prctl, by a filter that ends it for all that could tell
whether memory can be read. thread: in a thread, while another runs Python.
"""

import ctypes
import struct
import sys
import threading

CUDA = ctypes.CDLL("libcuda.so.1")
LIBC = ctypes.CDLL(None, use_errno=True)


def allocate_alpha():
    pointer = ctypes.c_uint64()
    assert CUDA.cuMemAlloc_v2(ctypes.byref(pointer), ctypes.c_size_t(20000)) == 0  # here: allocate_alpha
    return pointer


def allocate_beta():
    pointer = ctypes.c_uint64()
    x = list(CUDA.cuMemAlloc_v2(ctypes.byref(pointer), ctypes.c_size_t(20000)) for _ in range(1))  # here: <genexpr>
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


# More code before the call, and more lines without any, than an entry of a table of lines can skip; names in other
# letters: line 1103 of it, where a report says gr??er.
FAR = ("def größer(pointer, count):\n" + "    count += 1\n" * 700 + "\n" * 400 +
       "    assert count == 700\n"
       "    assert CUDA.cuMemAlloc_v2(ctypes.byref(pointer), ctypes.c_size_t(20000)) == 0\n"
       "    return pointer\n")
exec(compile(FAR, "/語/python_lines.py", "exec"))


def shut_in(how):
    if not shut_in.done:
        shut_in.done = True
        if how == ["shut"]:
            assert LIBC.prctl(38, 1, 0, 0, 0) == 0  # PR_SET_NO_NEW_PRIVS
        forbid([310, 14] if how == ["shut"] else [310])
    return 0


def many(rounds, how):
    context = ctypes.c_void_p()
    assert CUDA.cuInit(0) == 0
    assert CUDA.cuDevicePrimaryCtxRetain(ctypes.byref(context), 0) == 0
    assert CUDA.cuCtxSetCurrent(context) == 0
    shut_in.done = how not in (["late"], ["shut"])
    for _ in range(rounds):
        for pointer in [allocate_alpha(), *[ctypes.c_uint64()] * shut_in(how), allocate_beta(), Allocator()(1),
                        größer(ctypes.c_uint64(), 0)]:  # noqa: F821 # pylint: disable=undefined-variable
            assert CUDA.cuMemFree_v2(pointer) == 0


def forbid(calls):
    """A filter that ends the process for these calls of x86-64's. Not by prctl, by which the library knows of one."""
    program = struct.pack("HBBI", 0x20, 0, 0, 0)  # load the call's number
    for left, call in zip(range(len(calls), 0, -1), calls):
        program += struct.pack("HBBI", 0x15, left, 0, call)  # if it is this one, to the end
    program += struct.pack("HBBI" * 2, 0x06, 0, 0, 0x7fff0000, 0x06, 0, 0, 0x80000000)  # else allow; end the process
    buffer = ctypes.create_string_buffer(program, len(program))
    assert LIBC.syscall(157, 38, 1, 0, 0, 0) == 0
    assert LIBC.syscall(157, 22, 2, struct.pack("HxxxxxxQ", len(program) // 8, ctypes.addressof(buffer)), 0, 0) == 0


def main():
    rounds, how = int(sys.argv[1]), sys.argv[2:]
    if how == ["kill"]:
        forbid([310])
    if how == ["thread"]:
        ended = []
        thread = threading.Thread(target=lambda: (many(rounds, how), ended.append(1)))
        thread.start()
        while not ended and thread.is_alive():
            sum(range(100))
        thread.join()
        assert ended
    else:
        many(rounds, how)
    print("done")


main()
