"""Two ranks of an MPI job, each with memory of the device: the test that the argument names prints, at rank 0, what came out of it."""

import ctypes
import sys
import traceback

from cuda.bindings import driver as cuda
from mpi4py import MPI

WORLD = MPI.COMM_WORLD
ROUNDS = 60


def got(answer):
    """What a call returned beside its success."""
    if answer[0] != cuda.CUresult.CUDA_SUCCESS:
        raise RuntimeError(answer[0].name)
    return answer[1] if len(answer) == 2 else answer[1:]


def read(block, size):
    """The bytes of a block."""
    host = (ctypes.c_ubyte * size)()
    got(cuda.cuMemcpyDtoH(ctypes.addressof(host), block, size))
    return bytes(host)


def as_bytes(handle):
    """The memory of a handle."""
    return (ctypes.c_ubyte * 64).from_address(int(handle.getPtr()))


def exchanges_over_the_host():
    """Each rank sends what its block holds and puts what it gets into another."""
    total = 0
    for round_ in range(ROUNDS):
        size = 4096 + round_ // 3 % 4 * 100000
        block = got(cuda.cuMemAlloc(size))
        got(cuda.cuMemsetD8(block, round_ + WORLD.rank, size))
        other = WORLD.sendrecv(read(block, size), dest=1 - WORLD.rank, source=1 - WORLD.rank)
        received = got(cuda.cuMemAlloc(size))
        got(cuda.cuMemcpyHtoD(received, other, size))
        total += sum(read(received, size)[::1000])
        got(cuda.cuMemFree(block))
        got(cuda.cuMemFree(received))
    return total


def memory_of_the_other_rank():
    """Rank 1 reads rank 0's blocks through handles, and each block is freed when it has. Each rank also has a block of its own."""
    total = 0
    for round_ in range(ROUNDS):
        size = 2 << 20
        own = got(cuda.cuMemAlloc(size))
        if WORLD.rank == 0:
            block = got(cuda.cuMemAlloc(size))
            got(cuda.cuMemsetD8(block, round_ + 7, size))
            got(cuda.cuCtxSynchronize())
            WORLD.send(bytes(as_bytes(got(cuda.cuIpcGetMemHandle(block)))), dest=1)
            total += WORLD.recv(source=1)
            got(cuda.cuMemFree(block))
        else:
            handle = cuda.CUipcMemHandle()
            as_bytes(handle)[:] = WORLD.recv(source=0)
            opened = got(cuda.cuIpcOpenMemHandle(handle, cuda.CUipcMem_flags.CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS))
            seen = sum(read(opened, size)[::4096])
            got(cuda.cuIpcCloseMemHandle(opened))
            WORLD.send(seen, dest=0)
        got(cuda.cuMemFree(own))
    return total


def main():
    """Rank 0 prints, for both. A rank that fails ends the other, which would wait for ever."""
    try:
        got(cuda.cuInit(0))
        context = got(cuda.cuDevicePrimaryCtxRetain(0))
        got(cuda.cuCtxSetCurrent(context))
        outcomes = WORLD.gather(globals()[sys.argv[1]]())
        if WORLD.rank == 0:
            print(f"{sys.argv[1]}: {outcomes[0]} and {outcomes[1]}", flush=True)
        got(cuda.cuDevicePrimaryCtxRelease(0))
    except Exception:  # pylint: disable=broad-exception-caught
        traceback.print_exc()
        WORLD.Abort(1)


if __name__ == "__main__":
    main()
