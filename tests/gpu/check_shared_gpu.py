"""Two processes on one GPU: what one keeps idle another gets when the device runs out of memory, if they may ask each other.

Needs a build folder with libpoolcuda.so: $BUILD_DIR or build/. Takes most of the device's memory for a moment.
"""

import ctypes
import os
import pathlib
import subprocess
import sys
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]
BUILD = pathlib.Path(os.environ.get("BUILD_DIR", ROOT / "build")).resolve()
LIBRARY = BUILD / "src/interpose/libpoolcuda.so"
SHARE = 0.6  # of the free memory that each of the two wants: not both at once
KEEP = {"POOLCUDA_MAX_IDLE": "100%", "POOLCUDA_IDLE_DECAY": "0", "POOLCUDA_THROTTLE_RATIO": "1"}


def cuda_with_context():
    """The driver with device 0's primary context current; None without a device."""
    try:
        cuda = ctypes.CDLL("libcuda.so.1")
    except OSError:
        return None
    context = ctypes.c_void_p()
    if cuda.cuInit(0) or cuda.cuDevicePrimaryCtxRetain(ctypes.byref(context), 0) or cuda.cuCtxSetCurrent(context):
        return None
    return cuda


def allocate(cuda, size):
    pointer = ctypes.c_uint64()
    return cuda.cuMemAlloc_v2(ctypes.byref(pointer), ctypes.c_size_t(size)), pointer


def child(role, size):
    cuda = cuda_with_context()
    code, pointer = allocate(cuda, size)
    if role == "keeper":  # keeps it idle, and goes on allocating
        code = code or cuda.cuMemFree_v2(pointer)
        print("ready", code, flush=True)
        while True:
            _, small = allocate(cuda, 1 << 20)
            cuda.cuMemFree_v2(small)
            time.sleep(0.005)
    print(code, flush=True)


def outcome(size, share):
    """What the second process's allocation answers while the first keeps as much idle."""
    environment = {**os.environ, **KEEP, "LD_PRELOAD": str(LIBRARY), "POOLCUDA_SHARE": share}
    with subprocess.Popen([sys.executable, __file__, "keeper", str(size)], env=environment, stdout=subprocess.PIPE,
                          text=True) as keeper:
        try:
            if keeper.stdout.readline().split() != ["ready", "0"]:
                return "the first process got no memory"
            wanting = subprocess.run([sys.executable, __file__, "wanting", str(size)], env=environment,
                                     capture_output=True, text=True, timeout=40, check=False)
            return wanting.stdout.strip()
        finally:
            keeper.kill()


def main():
    if len(sys.argv) == 3:
        child(sys.argv[1], int(sys.argv[2]))
        return 0
    cuda = cuda_with_context()
    if not cuda or not LIBRARY.exists():
        print(f"skip {'no usable GPU' if not cuda else f'{LIBRARY} is not built'}")
        return 77
    free, total = ctypes.c_size_t(), ctypes.c_size_t()
    cuda.cuMemGetInfo_v2(ctypes.byref(free), ctypes.byref(total))
    size = int(free.value * SHARE) >> 21 << 21
    alone, together = outcome(size, "0"), outcome(size, "1")
    print(f"result each by itself: {'out of memory' if alone == '2' else alone}")
    print(f"result asking each other: {'both got it' if together == '0' else together}")
    return 0 if (alone, together) == ("2", "0") else 1


if __name__ == "__main__":
    sys.exit(main())
